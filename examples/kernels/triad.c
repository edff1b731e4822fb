/*
 * a = b + s c: what STREAM measures memory with.
 */
#include <muster_kernel.h>

MUSTER_KERNEL void triad(uint64_t i, float s, MUSTER_GLOBAL const float *b,
                         MUSTER_GLOBAL const float *c, MUSTER_GLOBAL float *a)
{
    a[i] = b[i] + s * c[i];
}
