/*
 * The sum of all items, in double precision:
 *     muster reduce --kernel sum.c --in samples.f32
 */
#include <muster_kernel.h>

MUSTER_KERNEL void sum(uint64_t i, MUSTER_GLOBAL const float *x, MUSTER_PARTIAL double *all)
{
    *all += x[i];
}

MUSTER_COMBINE void sum_combine(MUSTER_PARTIAL double *into, MUSTER_PARTIAL const double *from)
{
    *into += *from;
}
