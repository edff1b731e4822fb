/*
 * The example reductions, and what each makes of some items: computed here by a plain walk along the tree
 * that docs/kernels.md describes, with the kernels' own functions compiled into the test.
 */
#ifndef REDUCE_CASES_H
#define REDUCE_CASES_H

#include "unit/support.h"

#define RESULT_MAX 4096

struct reduce_case {
    const char *name; /* of the file, and of the kernel in it */
    size_t bytes;
    uint64_t block_items;
    uint32_t lanes;
    bool takes_first; /* the number of the unit's first item, before the arrays */
    size_t item_bytes;
    size_t arrays; /* of `item_bytes` each */
};

extern const struct reduce_case reduce_cases[];
extern const size_t reduce_case_count;

/* What the reduction of `items` items must be; padding is zero. */
void reduce_expect(const struct reduce_case *which, const void *const *arrays, uint64_t items,
                   void *result);
/* Items that tell orders of addition apart, with equal ones and, of floats, a few NaNs if wanted. */
void reduce_fill(const struct reduce_case *which, size_t array, void *items, uint64_t count,
                 uint64_t seed);

#endif
