/*
 * y = a x + y: the smallest kernel that does something.
 */
#include <muster_kernel.h>

MUSTER_KERNEL void saxpy(uint64_t i, float a, MUSTER_GLOBAL const float *x, MUSTER_GLOBAL float *y)
{
    y[i] = a * x[i] + y[i];
}
