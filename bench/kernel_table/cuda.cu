/*
 * The peers on a GPU: the same bodies as CUDA C++ by hand, one thread for each item, compiled by nvcc
 * with --fmad=false. bench/kernel_table loads what comes out.
 */
#include <muster_kernel.h>

/* nvcc takes a function for the host's unless it is told otherwise. */
#define static static __device__
#include "../../examples/kernels/black_scholes.c"
#include "../../examples/kernels/convolve.c"
#include "../../examples/kernels/crc32.c"
#include "../../examples/kernels/edit_distance.c"
#include "../../examples/kernels/jacobi.c"
#include "../../examples/kernels/logistic.c"
#include "../../examples/kernels/mandelbrot.c"
#include "../../examples/kernels/nbody.c"
#include "../../examples/kernels/saxpy.c"
#include "../../examples/kernels/softmax.c"
#include "../../examples/kernels/spmv.c"
#include "../../examples/kernels/triad.c"
#undef static

#define PEER extern "C" __global__ void
#define IN(type) const type *__restrict__
#define OUT(type) type *__restrict__
#define ITEM (blockIdx.x * (uint64_t)blockDim.x + threadIdx.x)

PEER table_saxpy(uint64_t items, float a, IN(float) x, OUT(float) y)
{
    if (ITEM < items)
        saxpy(ITEM, a, x, y);
}

PEER table_triad(uint64_t items, float s, IN(float) b, IN(float) c, OUT(float) a)
{
    if (ITEM < items)
        triad(ITEM, s, b, c, a);
}

PEER table_convolve(uint64_t items, uint64_t first, uint32_t width, uint32_t height, IN(float) in,
                    OUT(float) out)
{
    if (ITEM < items)
        convolve(ITEM, first, width, height, in, out);
}

PEER table_jacobi(uint64_t items, uint64_t first, uint32_t width, uint32_t height, IN(float) in,
                  OUT(float) out)
{
    if (ITEM < items)
        jacobi(ITEM, first, width, height, in, out);
}

PEER table_nbody(uint64_t items, uint64_t first, uint32_t bodies, IN(float) x, IN(float) y,
                 IN(float) z, IN(float) mass, OUT(float) pull_x, OUT(float) pull_y,
                 OUT(float) pull_z)
{
    if (ITEM < items)
        nbody(ITEM, first, bodies, x, y, z, mass, pull_x, pull_y, pull_z);
}

PEER table_black_scholes(uint64_t items, float rate, float volatility, IN(float) price,
                         IN(float) strike, IN(float) years, OUT(float) call, OUT(float) put)
{
    if (ITEM < items)
        black_scholes(ITEM, rate, volatility, price, strike, years, call, put);
}

PEER table_softmax(uint64_t items, IN(float) in, OUT(float) out)
{
    if (ITEM < items)
        softmax(ITEM, in, out);
}

PEER table_spmv(uint64_t items, uint64_t first, IN(uint32_t) begin, IN(uint32_t) column,
                IN(float) value, IN(float) x, OUT(float) y)
{
    if (ITEM < items)
        spmv(ITEM, first, begin, column, value, x, y);
}

PEER table_mandelbrot(uint64_t items, uint64_t first, uint32_t width, uint32_t height,
                      OUT(uint8_t) pixels)
{
    if (ITEM < items)
        mandelbrot(ITEM, first, width, height, pixels);
}

PEER table_crc32(uint64_t items, IN(uint8_t) records, OUT(uint32_t) sums)
{
    if (ITEM < items)
        crc32(ITEM, records, sums);
}

PEER table_edit_distance(uint64_t items, IN(uint8_t) left, IN(uint8_t) right,
                         OUT(uint32_t) distance)
{
    if (ITEM < items)
        edit_distance(ITEM, left, right, distance);
}

/* The reductions: a thread for each item too, a warp's sum by shuffles, warps' sums by atomics. */

static __device__ void add_warp(double *to, double value)
{
    for (int width = 16; width > 0; width /= 2)
        value += __shfl_down_sync(0xffffffffu, value, width);
    if (threadIdx.x % 32 == 0)
        atomicAdd(to, value);
}

PEER table_dot(uint64_t items, IN(float) x, IN(float) y, double *result)
{
    add_warp(result, ITEM < items ? (double)x[ITEM] * (double)y[ITEM] : 0.0);
}

PEER table_histogram(uint64_t items, IN(uint8_t) bytes, unsigned long long *result)
{
    __shared__ unsigned bins[256];
    for (unsigned k = threadIdx.x; k < 256; k += blockDim.x)
        bins[k] = 0;
    __syncthreads();
    if (ITEM < items)
        atomicAdd(&bins[bytes[ITEM]], 1u);
    __syncthreads();
    for (unsigned k = threadIdx.x; k < 256; k += blockDim.x)
        if (bins[k] > 0)
            atomicAdd(&result[k], (unsigned long long)bins[k]);
}

PEER table_logistic(uint64_t items, IN(float) weights, IN(float) features, IN(float) label,
                    struct logistic *result)
{
    struct logistic all = { 0, { 0 } };
    if (ITEM < items)
        logistic(ITEM, weights, features, label, &all);
    add_warp(&result->loss, all.loss);
    for (int k = 0; k < FEATURES; k++)
        add_warp(&result->gradient[k], all.gradient[k]);
}
