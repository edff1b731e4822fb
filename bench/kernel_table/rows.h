/*
 * The rows of bench/kernel_table: what the loops by OpenMP, those by hand and those of the reference are
 * called.
 */
#ifndef BENCH_KERNEL_TABLE_ROWS_H
#define BENCH_KERNEL_TABLE_ROWS_H

#include <stdint.h>

/* args[k] points to argument k, a value or a pointer; `result` is that of a reduction. */
typedef void table_loop(uint64_t items, void *const *args, void *result);

#define TABLE_ROWS(ROW)                                                                            \
    ROW(saxpy)                                                                                     \
    ROW(triad)                                                                                     \
    ROW(dot)                                                                                       \
    ROW(histogram)                                                                                 \
    ROW(convolve)                                                                                  \
    ROW(jacobi)                                                                                    \
    ROW(nbody)                                                                                     \
    ROW(black_scholes)                                                                             \
    ROW(logistic)                                                                                  \
    ROW(softmax)                                                                                   \
    ROW(spmv)                                                                                      \
    ROW(mandelbrot)                                                                                \
    ROW(crc32)                                                                                     \
    ROW(edit_distance)

#define TABLE_DECLARE(name)                                                                        \
    table_loop table_openmp_##name, table_hand_##name, table_reference_##name;
TABLE_ROWS(TABLE_DECLARE)
#undef TABLE_DECLARE

#endif
