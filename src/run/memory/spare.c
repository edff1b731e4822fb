#include "run/memory/spare.h"

#include "base/allocator.h"
#include "base/invariant.h"

/* A block of up to this many times what is wanted is taken rather than a new one. */
#define LARGER_MAX 2u

struct spare {
    struct spare *next;
    struct run_block *block; /* the table's */
    muster_block handle;
    struct zombie *zombie; /* owns: what the block becomes, so that giving it up needs no memory */
};

/* The smallest of the device's that will do, off the list; NULL if there is none. */
static struct spare *take_locked(struct run_device *device, uint64_t bytes)
{
    struct spare **best = NULL;
    for (struct spare **at = &device->spares; *at; at = &(*at)->next) {
        uint64_t has = (*at)->block->memory.bytes;
        if (has >= bytes && has / LARGER_MAX <= bytes &&
            (!best || has < (*best)->block->memory.bytes))
            best = at;
    }
    struct spare *spare = best ? *best : NULL;
    if (spare) {
        *best = spare->next;
        /* Nobody relies on what it holds. */
        spare->block->generation = memory_generation(device);
        budget_reused(&device->budget, spare->block->memory.bytes);
        device_view_locked(device);
    }
    return spare;
}

static void free_spare(struct muster *m, struct spare *spare)
{
    if (spare)
        zombie_give(m, spare->zombie);
    allocator_give(&m->allocator, spare, 1, sizeof *spare);
}

muster_status spare_take(struct muster *m, muster_stream stream, uint64_t bytes, muster_block *out,
                         struct muster_error *err)
{
    struct run_stream *pinned;
    run_lock(m);
    muster_status status = stream_pin_locked(m, stream, &pinned, err);
    struct spare *spare = status == MUSTER_OK ? take_locked(pinned->device, bytes) : NULL;
    if (status == MUSTER_OK)
        stream_unpin_locked(pinned);
    run_unlock(m);
    if (status != MUSTER_OK)
        return status;
    if (!spare)
        return muster_block_allocate(m, stream, bytes, out, err);
    *out = spare->handle;
    free_spare(m, spare);
    return MUSTER_OK;
}

void spare_give(struct muster *m, muster_stream stream, muster_block handle)
{
    struct spare *spare = allocator_take(&m->allocator, 1, sizeof *spare);
    struct zombie *zombie = spare ? zombie_take(m) : NULL;
    if (spare)
        *spare = (struct spare){ .handle = handle, .zombie = zombie };
    run_lock(m);
    struct run_block *block;
    bool is_kept = zombie && block_resolve_locked(m, handle, &block, NULL) == MUSTER_OK &&
                   device_check_locked(block->device, NULL) == MUSTER_OK;
    if (is_kept) {
        struct run_device *device = block->device;
        INVARIANT(block->holder == HOLDER_NONE && !block->is_declared && !block->is_copy);
        spare->block = block;
        spare->next = device->spares;
        device->spares = spare;
        budget_kept(&device->budget, block->memory.bytes);
        device_view_locked(device);
        /* Who waits for memory can have it. */
        platform_condition_wake_all(&m->changed);
    }
    run_unlock(m);
    if (is_kept)
        return;
    free_spare(m, spare);
    muster_block_free(m, stream, handle, NULL);
}

bool spare_evict(struct run_device *device)
{
    struct muster *m = device->m;
    run_lock(m);
    struct spare **last = &device->spares;
    while (*last && (*last)->next)
        last = &(*last)->next;
    struct spare *spare = *last;
    if (spare) {
        *last = NULL;
        budget_reused(&device->budget, spare->block->memory.bytes);
        block_drop_locked(m, spare->block, spare->zombie);
        spare->zombie = NULL;
        device_view_locked(device);
    }
    run_unlock(m);
    if (!spare)
        return false;
    allocator_give(&m->allocator, spare, 1, sizeof *spare);
    zombies_reclaim(device);
    return true;
}

void spare_trim(struct run_device *device)
{
    while (spare_evict(device)) {}
}

void spare_destroy(struct run_device *device)
{
    while (device->spares) {
        struct spare *spare = device->spares;
        device->spares = spare->next;
        free_spare(device->m, spare);
    }
}
