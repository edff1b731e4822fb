/*
 * One pixel of the Mandelbrot set, the mean of four points, in arithmetic that comes out the same
 * on every device.
 */
#include <muster_kernel.h>

/* Colours on a circle: where on it, red, green, blue. */
/* clang-format off */
MUSTER_CONSTANT float stops[24] = { 0.0f,      0.0f,   7.0f, 100.0f,
                                    0.16f,    32.0f, 107.0f, 203.0f,
                                    0.42f,   237.0f, 255.0f, 255.0f,
                                    0.6425f, 255.0f, 170.0f,   0.0f,
                                    0.8575f,  60.0f,  10.0f,  20.0f,
                                    1.0f,      0.0f,   7.0f, 100.0f };
/* clang-format on */

/* log2 of a positive number, good to five digits: every vendor rounds its own in its own way. */
static float log2_of(float x)
{
    uint32_t bits = muster_float_bits(x);
    float exponent = (float)((int32_t)(bits >> 23 & 0xff) - 127);
    x = muster_bits_float((bits & 0x7fffff) | 0x3f800000);
    float t = (x - 1.0f) / (x + 1.0f), t2 = t * t;
    return exponent +
           2.885390f * t *
               (1.0f + t2 * (0.333333f + t2 * (0.2f + t2 * (0.142857f + t2 * 0.111111f))));
}

/*
 * Where on the circle of colours the point is, by how soon it escapes, without steps; below 0: it
 * is inside the set.
 */
static float escape(float re, float im)
{
    /* The cardioid and the disc beside it, which is where most of the steps would be. */
    float p = re - 0.25f, q = p * p + im * im;
    if (q * (q + p) <= 0.25f * im * im || (re + 1.0f) * (re + 1.0f) + im * im <= 0.0625f)
        return -1.0f;
    float x = 0.0f, y = 0.0f, x2 = 0.0f, y2 = 0.0f;
    int32_t steps = 0;
    while (steps < 1000 && x2 + y2 <= 65536.0f) {
        y = 2.0f * x * y + im;
        x = x2 - y2 + re;
        x2 = x * x;
        y2 = y * y;
        steps++;
    }
    if (steps == 1000)
        return -1.0f;
    float smooth = (float)(steps + 4) - log2_of(log2_of(x2 + y2));
    return smooth > 4.0f ? 0.3f * (log2_of(smooth) - 2.0f) : 0.0f;
}

/* One of the three colours at a place on the circle, of which the whole turns do not count. */
static float colour(float place, int32_t which)
{
    float turn = place - muster_floor(place);
    int32_t next = 1;
    while (next < 5 && stops[next * 4] < turn)
        next++;
    int32_t last = next - 1;
    float part = (turn - stops[last * 4]) / (stops[next * 4] - stops[last * 4]);
    float from = stops[last * 4 + 1 + which];
    return from + part * (stops[next * 4 + 1 + which] - from);
}

MUSTER_KERNEL void mandelbrot(uint64_t i, uint64_t first, uint32_t width, uint32_t height,
                              MUSTER_GLOBAL uint8_t *pixels)
{
    float step = 3.6f / (float)width;
    uint64_t row = (first + i) / width;
    float right = (float)((first + i) % width), down = (float)row;
    float red = 0.0f, green = 0.0f, blue = 0.0f;
    for (int32_t sample = 0; sample < 4; sample++) {
        int32_t lower = sample / 2;
        float across = right + 0.25f + 0.5f * (float)(sample % 2);
        float below = down + 0.25f + 0.5f * (float)lower;
        float place = escape(-2.45f + across * step, ((float)height * 0.5f - below) * step);
        if (place >= 0.0f) {
            red += colour(place, 0);
            green += colour(place, 1);
            blue += colour(place, 2);
        }
    }
    pixels[i * 3] = (uint8_t)(red * 0.25f + 0.5f);
    pixels[i * 3 + 1] = (uint8_t)(green * 0.25f + 0.5f);
    pixels[i * 3 + 2] = (uint8_t)(blue * 0.25f + 0.5f);
}
