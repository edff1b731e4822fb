/*
 * Each row of a grey picture, blurred along itself. An item is a row.
 */
#include <muster_kernel.h>

#define WIDTH 640

MUSTER_KERNEL void blur(uint64_t i, MUSTER_GLOBAL const uint8_t *in, MUSTER_GLOBAL uint8_t *out)
{
    MUSTER_GLOBAL const uint8_t *row = in + i * WIDTH;
    uint32_t x;
    for (x = 0; x < WIDTH; x++) {
        uint32_t left = row[x > 0 ? x - 1 : 0], right = row[x + 1 < WIDTH ? x + 1 : x];
        out[i * WIDTH + x] = (uint8_t)((left + 2u * row[x] + right) / 4u);
    }
}
