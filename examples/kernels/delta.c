/*
 * Rows of samples as differences from one to the next, which compress better. An item is a row.
 */
#include <muster_kernel.h>

#define SAMPLES 256

MUSTER_KERNEL void delta(uint64_t i, MUSTER_GLOBAL const uint8_t *in, MUSTER_GLOBAL uint8_t *out)
{
    uint32_t k;
    out[i * SAMPLES] = in[i * SAMPLES];
    for (k = 1; k < SAMPLES; k++)
        out[i * SAMPLES + k] = (uint8_t)(in[i * SAMPLES + k] - in[i * SAMPLES + k - 1]);
}
