/*
 * A sparse matrix times a vector. The matrix is in compressed rows: the elements of row r are those
 * from begin[r] to before begin[r + 1], each with its column. An item is a row, and the tables are
 * data that every unit sees whole (MUSTER_ALL): where a row's elements lie, only `begin` knows.
 *
 *     muster kernel check --whole begin spmv.c
 */
#include <muster_kernel.h>

MUSTER_KERNEL void spmv(uint64_t i, uint64_t first, MUSTER_GLOBAL const uint32_t *begin,
                        MUSTER_GLOBAL const uint32_t *column, MUSTER_GLOBAL const float *value,
                        MUSTER_GLOBAL const float *x, MUSTER_GLOBAL float *y)
{
    uint32_t end = begin[first + i + 1];
    float sum = 0.0f;
    for (uint32_t k = begin[first + i]; k < end; k++)
        sum += value[k] * x[column[k]];
    y[i] = sum;
}
