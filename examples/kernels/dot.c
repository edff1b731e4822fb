/* The dot product of two arrays, in double precision. */
#include <muster_kernel.h>

MUSTER_KERNEL void dot(uint64_t i, MUSTER_GLOBAL const float *x, MUSTER_GLOBAL const float *y,
                       MUSTER_PARTIAL double *all)
{
    *all += (double)x[i] * (double)y[i];
}

MUSTER_COMBINE void dot_combine(MUSTER_PARTIAL double *into, MUSTER_PARTIAL const double *from)
{
    *into += *from;
}
