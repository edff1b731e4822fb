#include "simulate/allocate.h"

#include <stdlib.h>

static void *default_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    return aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
}

static void default_release(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(memory);
}

const struct muster_allocator simulate_allocator = { sizeof simulate_allocator, default_allocate,
                                                     default_release, NULL };
