/*
 * What a shared object of a reduction has beside its entry: how the host joins the partials of blocks.
 *
 *     int muster_fold_NAME(uint64_t blocks, void *levels, const void *partials, uint64_t count)
 *         adds the partials of `count` blocks, which follow `blocks` others;
 *     int muster_folded_NAME(uint64_t blocks, const void *levels, void *result)
 *         the partial of all `blocks`.
 *
 * `levels` has FOLD_LEVELS partials. While b blocks are in it, level k holds the partial of 2^k blocks
 * in a row where bit k of b is set: so blocks are joined along a tree that depends on their number alone.
 */
#ifndef BASE_FOLD_H
#define BASE_FOLD_H

#include <stdint.h>

#define FOLD_PREFIX "muster_fold_"
#define FOLDED_PREFIX "muster_folded_"
#define FOLD_LEVELS 64

typedef int (*fold_function)(uint64_t blocks, void *levels, const void *partials, uint64_t count);
typedef int (*folded_function)(uint64_t blocks, const void *levels, void *result);

#endif
