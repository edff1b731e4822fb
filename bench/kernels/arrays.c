/* What bench/openmp.c measures: the loops that it has by hand, as kernels. */
#include <muster_kernel.h>

MUSTER_KERNEL void saxpy(uint64_t i, float a, MUSTER_GLOBAL const float *x, MUSTER_GLOBAL float *y)
{
    y[i] = a * x[i] + y[i];
}

MUSTER_KERNEL void scale(uint64_t i, float a, MUSTER_GLOBAL const float *x, MUSTER_GLOBAL float *y)
{
    y[i] = a * x[i];
}

MUSTER_KERNEL void polynomial(uint64_t i, MUSTER_GLOBAL const float *c,
                              MUSTER_GLOBAL const float *x, MUSTER_GLOBAL float *y)
{
    float value = x[i], sum = c[64];
    for (int k = 63; k >= 0; k--)
        sum = sum * value + c[k];
    y[i] = sum;
}

MUSTER_KERNEL void constant(uint64_t i, float a, MUSTER_GLOBAL const float *x,
                            MUSTER_GLOBAL float *y)
{
    float value = x[i];
    for (int k = 0; k < 200; k++)
        value = value * a + 0.5f;
    y[i] = value;
}

MUSTER_KERNEL void runtime(uint64_t i, float a, uint32_t length, MUSTER_GLOBAL const float *x,
                           MUSTER_GLOBAL float *y)
{
    float value = x[i];
    for (uint32_t k = 0; k < length; k++)
        value = value * a + 0.5f;
    y[i] = value;
}
