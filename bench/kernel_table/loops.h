/*
 * The fourteen kernels of bench/kernel_table as plain loops: their files, in this translation unit with
 * the prelude, and a `for` around each. Who includes it says what stands before the `for`
 * (TABLE_LOOP, and TABLE_PLAIN_LOOP where a body has an array of its own) and what the functions are
 * called (TABLE_NAME).
 */
#include "rows.h"

#include <muster_kernel.h>

#include "../../examples/kernels/black_scholes.c"
#include "../../examples/kernels/convolve.c"
#include "../../examples/kernels/crc32.c"
#include "../../examples/kernels/dot.c"
#include "../../examples/kernels/edit_distance.c"
#include "../../examples/kernels/histogram.c"
#include "../../examples/kernels/jacobi.c"
#include "../../examples/kernels/logistic.c"
#include "../../examples/kernels/mandelbrot.c"
#include "../../examples/kernels/nbody.c"
#include "../../examples/kernels/saxpy.c"
#include "../../examples/kernels/softmax.c"
#include "../../examples/kernels/spmv.c"
#include "../../examples/kernels/triad.c"

/* Argument k, as the functions of kernels get it. */
#define ARRAY(type, k) (*(type *const *)args[k])
#define VALUE(type, k) (*(const type *)args[k])

void TABLE_NAME(saxpy)(uint64_t items, void *const *args, void *result)
{
    float a = VALUE(float, 0), *y = ARRAY(float, 2);
    const float *x = ARRAY(const float, 1);
    (void)result;
    TABLE_LOOP
    for (uint64_t i = 0; i < items; i++)
        saxpy(i, a, x, y);
}

void TABLE_NAME(triad)(uint64_t items, void *const *args, void *result)
{
    float s = VALUE(float, 0), *a = ARRAY(float, 3);
    const float *b = ARRAY(const float, 1), *c = ARRAY(const float, 2);
    (void)result;
    TABLE_LOOP
    for (uint64_t i = 0; i < items; i++)
        triad(i, s, b, c, a);
}

void TABLE_NAME(convolve)(uint64_t items, void *const *args, void *result)
{
    uint32_t width = VALUE(uint32_t, 1), height = VALUE(uint32_t, 2);
    const float *in = ARRAY(const float, 3);
    float *out = ARRAY(float, 4);
    (void)result;
    TABLE_LOOP
    for (uint64_t i = 0; i < items; i++)
        convolve(i, 0, width, height, in, out);
}

void TABLE_NAME(jacobi)(uint64_t items, void *const *args, void *result)
{
    uint32_t width = VALUE(uint32_t, 1), height = VALUE(uint32_t, 2);
    const float *in = ARRAY(const float, 3);
    float *out = ARRAY(float, 4);
    (void)result;
    TABLE_LOOP
    for (uint64_t i = 0; i < items; i++)
        jacobi(i, 0, width, height, in, out);
}

void TABLE_NAME(nbody)(uint64_t items, void *const *args, void *result)
{
    uint32_t bodies = VALUE(uint32_t, 1);
    const float *x = ARRAY(const float, 2), *y = ARRAY(const float, 3), *z = ARRAY(const float, 4),
                *mass = ARRAY(const float, 5);
    float *pull_x = ARRAY(float, 6), *pull_y = ARRAY(float, 7), *pull_z = ARRAY(float, 8);
    (void)result;
    TABLE_LOOP
    for (uint64_t i = 0; i < items; i++)
        nbody(i, 0, bodies, x, y, z, mass, pull_x, pull_y, pull_z);
}

void TABLE_NAME(black_scholes)(uint64_t items, void *const *args, void *result)
{
    float rate = VALUE(float, 0), volatility = VALUE(float, 1);
    const float *price = ARRAY(const float, 2), *strike = ARRAY(const float, 3),
                *years = ARRAY(const float, 4);
    float *call = ARRAY(float, 5), *put = ARRAY(float, 6);
    (void)result;
    TABLE_LOOP
    for (uint64_t i = 0; i < items; i++)
        black_scholes(i, rate, volatility, price, strike, years, call, put);
}

void TABLE_NAME(softmax)(uint64_t items, void *const *args, void *result)
{
    const float *in = ARRAY(const float, 0);
    float *out = ARRAY(float, 1);
    (void)result;
    TABLE_LOOP
    for (uint64_t i = 0; i < items; i++)
        softmax(i, in, out);
}

void TABLE_NAME(spmv)(uint64_t items, void *const *args, void *result)
{
    const uint32_t *begin = ARRAY(const uint32_t, 1), *column = ARRAY(const uint32_t, 2);
    const float *value = ARRAY(const float, 3), *x = ARRAY(const float, 4);
    float *y = ARRAY(float, 5);
    (void)result;
    TABLE_LOOP
    for (uint64_t i = 0; i < items; i++)
        spmv(i, 0, begin, column, value, x, y);
}

void TABLE_NAME(mandelbrot)(uint64_t items, void *const *args, void *result)
{
    uint32_t width = VALUE(uint32_t, 1), height = VALUE(uint32_t, 2);
    uint8_t *pixels = ARRAY(uint8_t, 3);
    (void)result;
    TABLE_LOOP
    for (uint64_t i = 0; i < items; i++)
        mandelbrot(i, 0, width, height, pixels);
}

void TABLE_NAME(crc32)(uint64_t items, void *const *args, void *result)
{
    const uint8_t *records = ARRAY(const uint8_t, 0);
    uint32_t *sums = ARRAY(uint32_t, 1);
    (void)result;
    TABLE_LOOP
    for (uint64_t i = 0; i < items; i++)
        crc32(i, records, sums);
}

void TABLE_NAME(edit_distance)(uint64_t items, void *const *args, void *result)
{
    const uint8_t *left = ARRAY(const uint8_t, 0), *right = ARRAY(const uint8_t, 1);
    uint32_t *distance = ARRAY(uint32_t, 2);
    (void)result;
    TABLE_PLAIN_LOOP
    for (uint64_t i = 0; i < items; i++)
        edit_distance(i, left, right, distance);
}
