#include "base/allocator.h"

#include "base/layout.h"

#include <string.h>

static size_t total_of(size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        return SIZE_MAX;
    return total > 0 ? total : 1;
}

void *allocator_take(const struct muster_allocator *allocator, size_t count, size_t size)
{
    size_t total = total_of(count, size);
    if (total == SIZE_MAX)
        return NULL;
    void *memory = allocator->allocate(allocator->user, total, ALLOCATOR_ALIGNMENT);
    if (memory)
        memset(memory, 0, total);
    return memory;
}

muster_status allocator_read(const struct muster_allocator *given,
                             const struct muster_allocator *otherwise, struct muster_allocator *out,
                             struct muster_error *err)
{
    *out = *otherwise;
    if (!given)
        return MUSTER_OK;
    muster_status status = layout_read(LAYOUT(muster_allocator), given, out, err);
    if (status == MUSTER_OK && (!out->allocate || !out->release))
        status = muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                   "an allocator needs both of its functions");
    return status;
}

void allocator_give(const struct muster_allocator *allocator, void *memory, size_t count,
                    size_t size)
{
    if (memory)
        allocator->release(allocator->user, memory, total_of(count, size));
}
