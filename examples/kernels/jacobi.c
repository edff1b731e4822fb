/*
 * One step of Jacobi's method for the heat of a plate: each inner point becomes the mean of its four
 * neighbours, and the edge stays. Steps alternate between two arrays, so no item sees another's result.
 *
 *     muster kernel check --whole in jacobi.c
 */
#include <muster_kernel.h>

MUSTER_KERNEL void jacobi(uint64_t i, uint64_t first, uint32_t width, uint32_t height,
                          MUSTER_GLOBAL const float *in, MUSTER_GLOBAL float *out)
{
    uint32_t at = (uint32_t)(first + i), x = at % width, y = at / width;
    if (x == 0 || y == 0 || x + 1 == width || y + 1 == height) {
        out[i] = in[at];
        return;
    }
    /* In pairs: the order of additions is part of the result's bits. */
    out[i] = 0.25f * ((in[at - width] + in[at + width]) + (in[at - 1] + in[at + 1]));
}
