#include "base/allocator.h"

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

void allocator_give(const struct muster_allocator *allocator, void *memory, size_t count,
                    size_t size)
{
    if (memory)
        allocator->release(allocator->user, memory, total_of(count, size));
}
