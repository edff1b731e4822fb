/*
 * Paints a video from nothing: a ball that bounces over a chequered ground under a sky. The input
 * says only how large the pictures are and how many; scripts/demo makes one of zeros.
 */
#include <muster_kernel.h>

struct colour {
    uint8_t planes[3]; /* luma, and blue and red beside it */
};

static struct colour paint(uint8_t luma, uint8_t blue, uint8_t red)
{
    struct colour colour;
    colour.planes[0] = luma;
    colour.planes[1] = blue;
    colour.planes[2] = red;
    return colour;
}

/* In thousandths of the picture's height, so that every size shows the same. */
static struct colour look(int x, int y, int time)
{
    /* Up and down once in 40 frames, from side to side in 240. */
    int beat = time % 40 - 20, side = time % 240;
    int ball_x = 200 + (side < 120 ? side : 240 - side) * 9, ball_y = 300 + beat * beat;
    int dx = x - ball_x, dy = y - ball_y, shine_x = dx + 35, shine_y = dy + 35;
    if (dx * dx + dy * dy < 110 * 110) {
        int shade = 210 - (shine_x * shine_x + shine_y * shine_y) / 200;
        return paint((uint8_t)(shade < 60 ? 60 : shade), 100, 190);
    }
    if (y < 600)
        return paint((uint8_t)(120 + y / 8), 150, 110);
    int depth = 200000 / (y - 500), column = (x - 800) * depth / 100000 + 1000;
    int row = (depth + time * 12) / 250;
    int shadow = 110 * 110 - dx * dx - (y - 800) * (y - 800) * 6;
    int light = (column + row) % 2 == 0 ? 190 : 70;
    return paint((uint8_t)(shadow > 0 ? light / 2 : light), 118, 128);
}

MUSTER_KERNEL void scene(uint64_t i, MUSTER_GLOBAL const uint8_t *in, MUSTER_GLOBAL uint8_t *out,
                         uint64_t first, uint32_t width, uint32_t height, uint32_t chroma_width,
                         uint32_t luma, uint32_t frame)
{
    uint32_t at = (uint32_t)(i % frame), chroma = (frame - luma) / 2;
    uint32_t plane = at < luma ? 0 : at < luma + chroma ? 1 : 2;
    uint32_t wide = plane == 0 ? width : chroma_width;
    uint32_t pixel = plane == 0 ? at : at - luma - (plane - 1) * chroma;
    uint32_t high = plane == 0 ? height : chroma / chroma_width;
    int x = (int)(pixel % wide * 1000 / high), y = (int)(pixel / wide * 1000 / high);
    int time = (int)((first + i) / frame);
    /* The two directions differ in how far colour is thinned out. */
    x = (int)((uint32_t)x * (width * high / wide) / height);
    out[i] = look(x, y, time).planes[plane];
    (void)in;
}
