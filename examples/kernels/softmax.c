/*
 * The softmax of each row of a matrix; an item is a row.
 */
#include <muster_kernel.h>

#define COLUMNS 64

MUSTER_KERNEL void softmax(uint64_t i, MUSTER_GLOBAL const float *in, MUSTER_GLOBAL float *out)
{
    MUSTER_GLOBAL const float *row = in + i * COLUMNS;
    MUSTER_GLOBAL float *result = out + i * COLUMNS;
    float largest = row[0], sum = 0.0f;
    /* Without it exp could overflow; the quotients stay the same. */
    for (uint32_t k = 1; k < COLUMNS; k++)
        largest = muster_max(largest, row[k]);
    for (uint32_t k = 0; k < COLUMNS; k++)
        result[k] = muster_exp(row[k] - largest);
    /* A loop of its own: additions stay in order, and so cannot be done several at a time. */
    for (uint32_t k = 0; k < COLUMNS; k++)
        sum += result[k];
    for (uint32_t k = 0; k < COLUMNS; k++)
        result[k] = result[k] / sum;
}
