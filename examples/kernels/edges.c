/*
 * The edges of a video: how much the luma changes from a pixel to its neighbours (Sobel), white on
 * black and without colour. Whole numbers only, so every device gives the same bytes.
 *
 *     ffmpeg -i in.mp4 -f yuv4mpegpipe - | muster map --kernel edges.c --in - --out - | ffplay -
 */
#include <muster_kernel.h>

/* What video takes for black and white. */
#define BLACK 16
#define WHITE 235
#define NO_COLOUR 128

static int size_of(int number)
{
    return number < 0 ? -number : number;
}

MUSTER_KERNEL void edges(uint64_t i, MUSTER_GLOBAL const uint8_t *in, MUSTER_GLOBAL uint8_t *out,
                         uint32_t width, uint32_t height, uint32_t luma, uint32_t frame)
{
    uint32_t at = (uint32_t)(i % frame);
    uint32_t x = at % width, y = at / width;
    if (at >= luma) {
        out[i] = NO_COLOUR;
        return;
    }
    if (x == 0 || y == 0 || x + 1 == width || y + 1 == height) {
        out[i] = BLACK;
        return;
    }
    MUSTER_GLOBAL const uint8_t *above = in + i - width, *here = in + i, *below = in + i + width;
    int across = above[1] + 2 * here[1] + below[1] - *(above - 1) - 2 * *(here - 1) - *(below - 1);
    int down = *(below - 1) + 2 * below[0] + below[1] - *(above - 1) - 2 * above[0] - above[1];
    int strength = (size_of(across) + size_of(down)) / 2 + BLACK;
    out[i] = (uint8_t)(strength < WHITE ? strength : WHITE);
}
