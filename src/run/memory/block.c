/*
 * Blocks: device memory with a tracker, counted against the device's budget from before the driver
 * is asked until the device has really finished with it.
 */
#include "run/memory/spare.h"

#include "base/allocator.h"
#include "base/invariant.h"

/* While memory is waited for, other ways it may come free are looked at this often. */
#define RETRY_NS 2000000u

muster_status block_resolve_locked(struct muster *m, muster_block handle, struct run_block **out,
                                   struct muster_error *err)
{
    void *entry;
    muster_status status =
        table_find_locked(&m->blocks, handle.index, handle.generation, "block", &entry, err);
    if (status == MUSTER_OK)
        *out = entry;
    return status;
}

static void forget_block_locked(struct muster *m, struct run_block *block)
{
    block->device->block_count--;
    table_remove_locked(&m->blocks, block->index);
    allocator_give(&m->allocator, block, 1, sizeof *block);
}

void block_drop_locked(struct muster *m, struct run_block *block, struct zombie *zombie)
{
    struct run_device *device = block->device;
    INVARIANT(block->holder == HOLDER_NONE);
    tracker_clear(&block->tracker, &zombie->until);
    zombie->memory = block->memory;
    zombie->must_free = !block->is_declared;
    if (block->is_declared)
        zombie->memory.bytes = 0; /* was never counted */
    else
        budget_freed(&device->budget, block->memory.bytes);
    zombie->next = device->zombies;
    device->zombies = zombie;
    forget_block_locked(m, block);
}

static muster_status add_block(struct muster *m, const struct run_block *like, muster_block *out,
                               struct muster_error *err)
{
    struct run_block *block = allocator_take(&m->allocator, 1, sizeof *block);
    if (!block)
        return run_no_memory(err, "a block");
    *block = *like;
    run_lock(m);
    muster_status status =
        table_add_locked(m, &m->blocks, block, &out->index, &out->generation, err);
    if (status == MUSTER_OK) {
        block->index = out->index;
        block->device->block_count++;
    }
    run_unlock(m);
    if (status != MUSTER_OK)
        allocator_give(&m->allocator, block, 1, sizeof *block);
    return status;
}

static muster_status say_no_room(const struct run_device *device, muster_status status,
                                 uint64_t bytes, struct muster_error *err)
{
    const struct budget *budget = &device->budget;
    muster_error_fill(err, status, 0,
                      status == MUSTER_E_TOO_LARGE
                          ? "ask for less, or raise memory_limit if it is set"
                          : "free blocks, or wait: muster_block_allocate_many",
                      "%llu bytes were asked for; of %llu on %s, %llu are used, %llu promised, "
                      "%llu not reclaimed yet",
                      (unsigned long long)bytes, (unsigned long long)budget->limit, device->info.id,
                      (unsigned long long)budget->used, (unsigned long long)budget->reserved,
                      (unsigned long long)budget->unreclaimed);
    run_error_device(err, device);
    return status;
}

/* Waits a little for the device to finish with freed memory, or for another thread to free some. */
static void wait_for_room(struct run_device *device, uint64_t deadline_ns)
{
    struct muster *m = device->m;
    uint64_t until_ns = platform_clock_ns() + RETRY_NS;
    run_lock(m);
    platform_condition_wait(&m->changed, &m->lock, until_ns < deadline_ns ? until_ns : deadline_ns);
    run_unlock(m);
}

/* Takes bytes from the budget, making room if that helps. */
static muster_status reserve(struct run_device *device, uint64_t bytes, uint64_t deadline_ns,
                             struct muster_error *err)
{
    struct muster *m = device->m;
    struct muster_error problem;
    for (;;) {
        run_lock(m);
        muster_status status = device_check_locked(device, &problem);
        if (status == MUSTER_OK) {
            status = budget_reserve(&device->budget, bytes);
            if (status != MUSTER_OK)
                say_no_room(device, status, bytes, &problem);
        }
        uint64_t unreclaimed = device->budget.unreclaimed;
        run_unlock(m);
        if (status == MUSTER_OK)
            return status;
        if (status == MUSTER_E_DEVICE_MEMORY) {
            zombies_reclaim(device);
            run_lock(m);
            bool came_free = device->budget.unreclaimed < unreclaimed;
            run_unlock(m);
            /* What is kept for later goes before what somebody has loaded. */
            if (came_free || spare_evict(device) || data_evict(device))
                continue;
            if (platform_clock_ns() < deadline_ns) {
                wait_for_room(device, deadline_ns);
                continue;
            }
        }
        if (err)
            *err = problem;
        return status;
    }
}

/* Asks the driver for one block whose bytes are reserved. */
static muster_status allocate_reserved(struct run_stream *stream, uint64_t bytes, muster_block *out,
                                       struct muster_error *err)
{
    struct run_device *device = stream->device;
    struct muster *m = device->m;
    struct run_block block = { .device = device, .generation = memory_generation(device) };
    muster_status status = device->backend->table.memory_allocate(device->state, stream->state,
                                                                  bytes, &block.memory, err);
    /* Others may have taken memory of the device's that is within the budget. */
    while (status == MUSTER_E_DEVICE_MEMORY && spare_evict(device))
        status = device->backend->table.memory_allocate(device->state, stream->state, bytes,
                                                        &block.memory, err);
    if (status != MUSTER_OK)
        return device_note(device, status, err);
    block.memory.bytes = bytes;
    status = add_block(m, &block, out, err);
    if (status != MUSTER_OK) {
        device->backend->table.memory_free(device->state, NULL, &block.memory, NULL);
        return status;
    }
    run_lock(m);
    budget_allocated(&device->budget, bytes);
    run_unlock(m);
    return MUSTER_OK;
}

static void renew_blocks(struct muster *m, const muster_block *blocks, size_t count)
{
    run_lock(m);
    for (size_t i = 0; i < count; i++) {
        struct run_block *block = NULL;
        if (block_resolve_locked(m, blocks[i], &block, NULL) == MUSTER_OK)
            block->generation = memory_generation(block->device);
    }
    run_unlock(m);
}

/*
 * Marks new blocks as written on their stream, so that other streams wait for the allocation
 * itself.
 */
static muster_status mark_allocated(struct muster *m, muster_stream stream,
                                    const muster_block *blocks, size_t count,
                                    struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    for (size_t done = 0; done < count && status == MUSTER_OK;) {
        struct muster_use uses[MUSTER_USES_MAX];
        size_t some = count - done < MUSTER_USES_MAX ? count - done : MUSTER_USES_MAX;
        for (size_t i = 0; i < some; i++)
            uses[i] = (struct muster_use)MUSTER_USE(blocks[done + i], MUSTER_WRITES);
        struct operation_run run;
        /* Nobody relies on what new blocks hold: that their device was started again does not matter. */
        do {
            renew_blocks(m, blocks + done, some);
            status = operation_begin(m, stream, uses, some, HOLDER_OPERATION, &run, err);
        } while (status == MUSTER_E_STALE);
        if (status == MUSTER_OK)
            status = operation_end(&run, false, 0, err);
        done += some;
    }
    return status;
}

/* Nobody has used it, so there is nothing to wait for but its allocation. */
static void free_unused(struct run_stream *stream, struct muster_memory *memory)
{
    struct run_device *device = stream->device;
    const struct muster_backend *table = &device->backend->table;
    void *order = device->info.capabilities & MUSTER_CAN_STREAM_MEMORY ? stream->state : NULL;
    if (device->is_hung || table->memory_free(device->state, order, memory, NULL) == MUSTER_OK)
        return;
    /* What cannot be queued is done by hand, or left to the device. */
    uint64_t deadline_ns = platform_deadline_ns(device->m->options.close_ns);
    if (order && run_is_over(stream_drain(stream, deadline_ns, NULL)))
        table->memory_free(device->state, NULL, memory, NULL);
}

static void undo_allocation(struct run_stream *stream, const muster_block *blocks, size_t count)
{
    struct run_device *device = stream->device;
    struct muster *m = device->m;
    for (size_t i = 0; i < count; i++) {
        struct run_block *block = NULL;
        run_lock(m);
        block_resolve_locked(m, blocks[i], &block, NULL);
        struct tracker_marks dropped;
        struct muster_memory memory = block->memory;
        tracker_clear(&block->tracker, &dropped);
        marks_unreference_locked(device, &dropped);
        forget_block_locked(m, block);
        run_unlock(m);
        free_unused(stream, &memory);
        run_lock(m);
        budget_freed(&device->budget, memory.bytes);
        budget_reclaimed(&device->budget, memory.bytes);
        platform_condition_wake_all(&m->changed);
        run_unlock(m);
    }
}

muster_status muster_block_allocate_many(struct muster *m, muster_stream handle,
                                         const uint64_t *bytes, size_t count, uint64_t timeout_ns,
                                         muster_block *out, struct muster_error *err)
{
    if (!m || !bytes || !out || count == 0)
        return run_bad_argument(err, "muster_block_allocate", "an argument is NULL, or count is 0");
    if (run_is_forked(m))
        return run_say_forked(err);
    for (size_t i = 0; i < count; i++)
        if (bytes[i] == 0)
            return run_bad_argument(err, "muster_block_allocate", "a block of 0 bytes");
    uint64_t deadline_ns = timeout_ns > 0 ? platform_deadline_ns(timeout_ns) : 0,
             total = budget_sum(bytes, count);
    struct run_stream *stream;
    muster_status status = stream_pin(m, handle, &stream, err);
    if (status != MUSTER_OK)
        return status;
    muster_block *made_blocks = allocator_take(&m->allocator, count, sizeof *made_blocks);
    size_t made = 0;
    if (!made_blocks) {
        status = run_no_memory(err, "the list of blocks");
        goto done;
    }
    status = reserve(stream->device, total, deadline_ns, err);
    if (status != MUSTER_OK)
        goto done;
    uint64_t left = total;
    while (made < count && status == MUSTER_OK) {
        status = allocate_reserved(stream, bytes[made], &made_blocks[made], err);
        if (status == MUSTER_OK)
            left -= bytes[made++];
    }
    run_lock(m);
    budget_cancel(&stream->device->budget, left);
    run_unlock(m);
    if (status == MUSTER_OK && (stream->device->info.capabilities & MUSTER_CAN_STREAM_MEMORY))
        status = mark_allocated(m, handle, made_blocks, count, err);
    if (status != MUSTER_OK)
        undo_allocation(stream, made_blocks, made);
    for (size_t i = 0; i < count && status == MUSTER_OK; i++)
        out[i] = made_blocks[i];
done:
    allocator_give(&m->allocator, made_blocks, count, sizeof *made_blocks);
    stream_unpin(stream);
    return status;
}

muster_status muster_block_allocate(struct muster *m, muster_stream stream, uint64_t bytes,
                                    muster_block *out, struct muster_error *err)
{
    return muster_block_allocate_many(m, stream, &bytes, 1, 0, out, err);
}

muster_status muster_block_estimate(struct muster *m, muster_device handle, const uint64_t *bytes,
                                    size_t count, struct muster_error *err)
{
    struct run_device *device;
    if (!m || (!bytes && count > 0))
        return run_bad_argument(err, "muster_block_estimate", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = device_pin(m, handle, &device, err);
    if (status != MUSTER_OK)
        return status;
    zombies_reclaim(device);
    run_lock(m);
    uint64_t total = budget_sum(bytes, count);
    struct budget without_kept = device->budget;
    without_kept.kept = 0;
    status = budget_check(&without_kept, total);
    if (status != MUSTER_OK)
        say_no_room(device, status, total, err);
    run_unlock(m);
    device_unpin(device);
    return status;
}

muster_status block_declare(struct muster *m, struct run_device *device,
                            struct muster_memory memory, muster_block *out,
                            struct muster_error *err)
{
    const struct run_block block = { .device = device,
                                     .memory = memory,
                                     .generation = memory_generation(device),
                                     .is_declared = true };
    return add_block(m, &block, out, err);
}

muster_status muster_block_declare(struct muster *m, muster_device handle, uint64_t address,
                                   void *object, uint64_t bytes, muster_block *out,
                                   struct muster_error *err)
{
    struct run_device *device;
    if (!m || !out || bytes == 0 || (address == 0 && !object))
        return run_bad_argument(err, "muster_block_declare",
                                "memory without a place or without bytes");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = device_pin(m, handle, &device, err);
    if (status != MUSTER_OK)
        return status;
    const struct muster_memory memory = { .address = address, .object = object, .bytes = bytes };
    status = block_declare(m, device, memory, out, err);
    device_unpin(device);
    return status;
}

uint32_t arg_access(const struct muster_arg *arg)
{
    switch (arg->kind) {
    case MUSTER_ARG_IN:
    case MUSTER_ARG_ALL:
    case MUSTER_ARG_SOURCE:
    case MUSTER_ARG_DEVICE_IN:
        return MUSTER_READS;
    case MUSTER_ARG_OUT:
    case MUSTER_ARG_DEVICE_OUT:
    case MUSTER_ARG_PARTIAL:
        return MUSTER_WRITES;
    case MUSTER_ARG_INOUT:
    case MUSTER_ARG_DEVICE_INOUT:
        return MUSTER_READS_WRITES;
    case MUSTER_ARG_VALUE:
    case MUSTER_ARG_GRID:
    case MUSTER_ARG_PICTURES:
    case MUSTER_ARG_FIRST:
    case MUSTER_ARG_ITEMS:
    case MUSTER_ARG_ACCESS: /* as the task's access says */
    case MUSTER_ARG_PITCH:
        break;
    }
    return 0;
}

muster_status block_check_arg(struct muster *m, const struct muster_arg *arg, uint64_t items,
                              struct run_device **device, struct muster_error *err)
{
    struct run_block *block;
    uint64_t bytes, end;
    run_lock(m);
    muster_status status = block_resolve_locked(m, arg->block, &block, err);
    bool is_copy = status == MUSTER_OK && block->is_copy;
    uint64_t room = status == MUSTER_OK ? block->memory.bytes : 0;
    if (status == MUSTER_OK)
        *device = block->device;
    run_unlock(m);
    if (status != MUSTER_OK)
        return status;
    if (is_copy && arg->kind != MUSTER_ARG_DEVICE_IN)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "copy it into a block of your own first",
                                 "a resident copy of data is only for reading");
    if (__builtin_mul_overflow(items, (uint64_t)arg->bytes, &bytes) ||
        __builtin_add_overflow(bytes, arg->offset, &end) || end > room)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "give a larger block, or fewer items",
                                 "%llu items of %zu bytes from byte %llu on are not in a block of "
                                 "%llu bytes",
                                 (unsigned long long)items, arg->bytes,
                                 (unsigned long long)arg->offset, (unsigned long long)room);
    return MUSTER_OK;
}

muster_status muster_block_info(struct muster *m, muster_block handle,
                                struct muster_block_info *info, struct muster_error *err)
{
    struct run_block *block;
    struct muster_block_info found;
    if (!m || !info)
        return run_bad_argument(err, "muster_block_info", "an argument is NULL");
    muster_status status = layout_check_room(LAYOUT(muster_block_info), info, err);
    if (status != MUSTER_OK)
        return status;
    if (run_is_forked(m))
        return run_say_forked(err);
    run_lock(m);
    status = block_resolve_locked(m, handle, &block, err);
    if (status == MUSTER_OK)
        found = (struct muster_block_info){ .device = device_handle_locked(block->device),
                                            .bytes = block->memory.bytes,
                                            .address = block->memory.address,
                                            .object = block->memory.object };
    run_unlock(m);
    if (status == MUSTER_OK)
        layout_write(LAYOUT(muster_block_info), info, &found);
    return status;
}

/*
 * On a lost device nothing can be queued any more: what already ran decides when the memory goes.
 */
static muster_status free_unordered(struct muster *m, muster_block handle, struct muster_error *err)
{
    struct run_block *block;
    struct zombie *zombie = zombie_take(m);
    if (!zombie)
        return run_no_memory(err, "a block to be freed");
    run_lock(m);
    muster_status status = block_resolve_locked(m, handle, &block, err);
    if (status == MUSTER_OK && block->is_going)
        status = muster_error_fill(err, MUSTER_E_STALE, 0, "free a block once",
                                   "the block is being freed");
    else if (status == MUSTER_OK && block->holder != HOLDER_NONE)
        status = muster_error_fill(err, MUSTER_E_BUSY, 0, "end what was begun on it",
                                   "the block is in use");
    if (status == MUSTER_OK)
        block_drop_locked(m, block, zombie);
    run_unlock(m);
    if (status != MUSTER_OK)
        zombie_give(m, zombie);
    return status;
}

/* Whether the block can be freed by the user at all, and in stream order. */
static muster_status check_free(struct muster *m, muster_stream stream, muster_block handle,
                                bool *in_order, struct muster_error *err)
{
    struct run_block *block;
    struct run_stream *run;
    run_lock(m);
    muster_status status = block_resolve_locked(m, handle, &block, err);
    if (status == MUSTER_OK && block->is_copy)
        status = muster_error_fill(err, MUSTER_E_INVALID, 0,
                                   "muster_data_invalidate or muster_data_destroy",
                                   "a resident copy belongs to its data");
    if (status == MUSTER_OK) {
        /* Nobody asks any more what it holds. */
        block->generation = memory_generation(block->device);
        *in_order = device_check_locked(block->device, NULL) == MUSTER_OK;
        if (*in_order && (status = stream_pin_locked(m, stream, &run, err)) == MUSTER_OK)
            stream_unpin_locked(run);
    }
    run_unlock(m);
    return status;
}

muster_status muster_block_free(struct muster *m, muster_stream stream, muster_block handle,
                                struct muster_error *err)
{
    bool in_order;
    if (!m)
        return run_bad_argument(err, "muster_block_free", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = check_free(m, stream, handle, &in_order, err);
    if (status != MUSTER_OK)
        return status;
    if (!in_order)
        return free_unordered(m, handle, err);
    struct zombie *zombie = zombie_take(m);
    if (!zombie)
        return run_no_memory(err, "a block to be freed");
    /* A free conflicts with everything, as a write does. */
    const struct muster_use use = MUSTER_USE(handle, MUSTER_WRITES);
    struct operation_run run;
    status = operation_begin(m, stream, &use, 1, HOLDER_OPERATION, &run, err);
    if (status != MUSTER_OK) {
        zombie_give(m, zombie);
        return status;
    }
    struct run_device *device = run.stream->device;
    struct run_block *block = NULL;
    run_lock(m);
    block_resolve_locked(m, handle, &block, NULL);
    bool told = (device->info.capabilities & MUSTER_CAN_STREAM_MEMORY) && !block->is_declared;
    block->is_going = true; /* so that nobody takes hold of it between the record and the drop */
    run_unlock(m);
    if (told) {
        status = device->backend->table.memory_free(device->state, run.stream->state,
                                                    &run.memories[0], err);
        if (status != MUSTER_OK) {
            run_lock(m);
            block->is_going = false;
            run_unlock(m);
            operation_abandon(&run);
            zombie_give(m, zombie);
            return device_note(device, status, err);
        }
    }
    /*
     * From here on the block is freed, whatever happens: if the record fails, the stream has been
     * drained, or the device is given up and keeps the memory.
     */
    operation_end(&run, false, 0, NULL);
    run_lock(m);
    block_drop_locked(m, block, zombie);
    zombie->must_free = zombie->must_free && !told;
    run_unlock(m);
    zombies_reclaim(device);
    return MUSTER_OK;
}

void blocks_destroy(struct muster *m)
{
    for (uint32_t i = 0; i < m->device_count; i++)
        spare_destroy(m->devices[i]);
    for (uint32_t i = 0; i < m->blocks.handles.capacity; i++) {
        struct run_block *block = m->blocks.entries[i];
        if (!block)
            continue;
        struct run_device *device = block->device;
        struct tracker_marks dropped;
        run_lock(m);
        tracker_clear(&block->tracker, &dropped);
        marks_unreference_locked(device, &dropped);
        run_unlock(m);
        if (!block->is_declared && !device->is_hung)
            device->backend->table.memory_free(device->state, NULL, &block->memory, NULL);
        run_lock(m);
        forget_block_locked(m, block);
        run_unlock(m);
    }
}
