/*
 * Allocation through the runtime's hook: zeroed, overflow-checked, with the size handed back at
 * release.
 */
#ifndef BASE_ALLOCATOR_H
#define BASE_ALLOCATOR_H

#include <muster/runtime.h>

/* Everything is aligned to a cache line, so that neighbours do not share one. */
#define ALLOCATOR_ALIGNMENT 64

/*
 * `count` x `size` zeroed bytes, or NULL. A product of 0 gives memory of one byte, so NULL always
 * means failure.
 */
void *allocator_take(const struct muster_allocator *allocator, size_t count, size_t size);

/* What the caller's options give, which needs both functions, or `otherwise` for NULL. */
muster_status allocator_read(const struct muster_allocator *given,
                             const struct muster_allocator *otherwise, struct muster_allocator *out,
                             struct muster_error *err);

/* `memory` may be NULL; `count` and `size` are those of the take. */
void allocator_give(const struct muster_allocator *allocator, void *memory, size_t count,
                    size_t size);

#endif
