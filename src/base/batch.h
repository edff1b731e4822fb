/*
 * How many launches of one CUDA kernel travel as one. Beside an entry NAME the portable form gives
 *
 *     extern "C" __global__ void muster_batch_NAME(const unsigned char *records, uint32_t count)
 *
 * which does launch blockIdx.y, and every gridDim.y-th after it, and strides over its items along
 * x. A record has `begin` and `items`, 8 bytes each, and then each argument at the next multiple of
 * 16 bytes, a block as an 8-byte pointer; records follow each other at the next multiple of 16.
 */
#ifndef BASE_BATCH_H
#define BASE_BATCH_H

#include <stddef.h>

#define BATCH_PREFIX "muster_batch_"
#define BATCH_ALIGNMENT 16
/* Where `begin`, `items` and the first argument stand in a record. */
#define BATCH_BEGIN 0
#define BATCH_ITEMS 8
#define BATCH_ARGS 16

/* Where the next argument stands, or the next record, after something that ends at `end`. */
static inline size_t batch_next(size_t end)
{
    return (end + BATCH_ALIGNMENT - 1) & ~(size_t)(BATCH_ALIGNMENT - 1);
}

#endif
