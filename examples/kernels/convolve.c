/*
 * A picture through a 5x5 filter; an item is a pixel. The picture is data that every unit sees
 * whole (MUSTER_ALL), because a unit's pixels need those of rows above and below it.
 */
#include <muster_kernel.h>

/* The binomial numbers 1 4 6 4 1, across and down: close to a Gaussian, and exact in float. */
MUSTER_CONSTANT float binomial[5] = { 0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f };

MUSTER_KERNEL void convolve(uint64_t i, uint64_t first, uint32_t width, uint32_t height,
                            MUSTER_GLOBAL const float *in, MUSTER_GLOBAL float *out)
{
    /* 32 bits: division of 64 takes several times as long on GPUs. */
    uint32_t at = (uint32_t)(first + i);
    int32_t x = (int32_t)(at % width), y = (int32_t)(at / width);
    float sum = 0.0f;
    for (int32_t down = 0; down < 5; down++) {
        /* Beyond the edge the nearest pixel counts. */
        int32_t row = muster_clamp(y + down - 2, 0, (int32_t)height - 1) * (int32_t)width;
        for (int32_t across = 0; across < 5; across++) {
            int32_t column = muster_clamp(x + across - 2, 0, (int32_t)width - 1);
            sum += binomial[down] * binomial[across] * in[row + column];
        }
    }
    out[i] = sum;
}
