/*
 * The peers: the same loops by gcc's OpenMP, compiled with -O3 -march=native -ffp-contract=off
 * and, as our kernels are, -fno-math-errno -fno-trapping-math: without these gcc leaves square roots and
 * the mathematics scalar. Sums are OpenMP's own reductions, in its own order.
 */
#define TABLE_NAME(name) table_openmp_##name
#define TABLE_LOOP _Pragma("omp parallel for simd")
/* gcc 12 gives all items of a vector one copy of an array that the body declares, if it says simd. */
#define TABLE_PLAIN_LOOP _Pragma("omp parallel for")
#include "loops.h"

void table_openmp_dot(uint64_t items, void *const *args, void *result)
{
    const float *x = ARRAY(const float, 0), *y = ARRAY(const float, 1);
    double all = 0;
#pragma omp parallel for simd reduction(+ : all)
    for (uint64_t i = 0; i < items; i++)
        all += (double)x[i] * (double)y[i];
    *(double *)result = all;
}

#pragma omp declare reduction(join                                                                 \
                              : struct histogram                                                   \
                              : histogram_combine(&omp_out, &omp_in))                              \
    initializer(omp_priv = { { 0 } })

void table_openmp_histogram(uint64_t items, void *const *args, void *result)
{
    const uint8_t *bytes = ARRAY(const uint8_t, 0);
    struct histogram all = { { 0 } };
#pragma omp parallel for reduction(join : all)
    for (uint64_t i = 0; i < items; i++)
        histogram(i, bytes, &all);
    *(struct histogram *)result = all;
}

#pragma omp declare reduction(join                                                                 \
                              : struct logistic                                                    \
                              : logistic_combine(&omp_out, &omp_in))                               \
    initializer(omp_priv = { 0, { 0 } })

void table_openmp_logistic(uint64_t items, void *const *args, void *result)
{
    const float *weights = ARRAY(const float, 0), *features = ARRAY(const float, 1),
                *label = ARRAY(const float, 2);
    struct logistic all = { 0, { 0 } };
#pragma omp parallel for reduction(join : all)
    for (uint64_t i = 0; i < items; i++)
        logistic(i, weights, features, label, &all);
    *(struct logistic *)result = all;
}
