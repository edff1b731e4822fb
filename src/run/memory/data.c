/*
 * Data: host memory that stays resident on devices. A device's copy is a block that only Muster
 * writes. Copies that nobody uses are dropped when room is needed; on devices that work on host
 * memory itself the "copy" is that memory.
 */
#include "run/memory/memory.h"

#include "base/allocator.h"
#include "base/invariant.h"

static muster_status find_locked(struct muster *m, muster_data handle, struct run_data **out,
                                 struct muster_error *err)
{
    void *entry;
    muster_status status =
        table_find_locked(&m->data, handle.index, handle.generation, "piece of data", &entry, err);
    if (status == MUSTER_OK)
        *out = entry;
    return status;
}

muster_status data_add(struct muster *m, struct run_data *data, muster_data *out,
                       struct muster_error *err)
{
    run_lock(m);
    muster_status status = table_add_locked(m, &m->data, data, &out->index, &out->generation, err);
    if (status == MUSTER_OK)
        data->index = out->index;
    run_unlock(m);
    return status;
}

muster_status muster_data_create(struct muster *m, const void *host, uint64_t bytes, uint32_t flags,
                                 muster_data *out, struct muster_error *err)
{
    if (!m || !out || (host && bytes == 0) || flags != 0)
        return run_bad_argument(err, "muster_data_create",
                                "an argument is NULL, bytes is 0, or flags is not 0");
    if (run_is_forked(m))
        return run_say_forked(err);
    if (bytes > SIZE_MAX / 2)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL, "data of %llu bytes",
                                 (unsigned long long)bytes);
    struct run_data *data = allocator_take(&m->allocator, 1, sizeof *data);
    if (!data)
        return run_no_memory(err, "a piece of data");
    data->host = host;
    data->bytes = data->row_bytes = data->pitch = bytes;
    data->rows = 1;
    atomic_init(&data->home, (char *)(uintptr_t)host);
    muster_status status = data_add(m, data, out, err);
    if (status != MUSTER_OK)
        allocator_give(&m->allocator, data, 1, sizeof *data);
    return status;
}

static void free_copy(struct muster *m, struct run_copy *copy)
{
    if (copy && copy->zombie)
        zombie_give(m, copy->zombie);
    allocator_give(&m->allocator, copy, 1, sizeof *copy);
}

/* With all that dropping it will need, so that dropping cannot fail. */
static struct run_copy *make_copy(struct muster *m)
{
    struct run_copy *copy = allocator_take(&m->allocator, 1, sizeof *copy);
    if (copy && !(copy->zombie = zombie_take(m))) {
        free_copy(m, copy);
        return NULL;
    }
    return copy;
}

static void unlink_copy_locked(struct run_data *data, struct run_copy *copy)
{
    struct run_copy **at = &data->copies;
    while (*at != copy)
        at = &(*at)->next;
    *at = copy->next;
}

static struct run_copy *find_copy_locked(struct run_data *data, const struct run_device *device)
{
    struct run_copy *copy = data->copies;
    while (copy && copy->device != device)
        copy = copy->next;
    return copy;
}

static struct run_block *block_of_locked(struct muster *m, const struct run_copy *copy)
{
    struct run_block *block = NULL;
    muster_status status = block_resolve_locked(m, copy->block, &block, NULL);
    INVARIANT(status == MUSTER_OK);
    (void)status;
    return block;
}

/* The copy's memory lives on as a zombie until the device has finished with it. */
static void drop_copy_locked(struct muster *m, struct run_data *data, struct run_copy *copy)
{
    unlink_copy_locked(data, copy);
    block_drop_locked(m, block_of_locked(m, copy), copy->zombie);
    copy->zombie = NULL;
}

/* Makes the block that holds the data on the stream's device. */
static muster_status load(struct muster *m, const struct run_data *data, muster_stream stream,
                          struct run_copy *copy, struct muster_error *err)
{
    struct run_device *device = copy->device;
    if (device->info.capabilities & MUSTER_CAN_USE_HOST_MEMORY) {
        const struct muster_memory memory = { .address = (uintptr_t)data->host,
                                              .bytes = data->bytes };
        return block_declare(m, device, memory, &copy->block, err);
    }
    muster_status status = muster_block_allocate(m, stream, data->bytes, &copy->block, err);
    if (status != MUSTER_OK)
        return status;
    status = muster_copy_in(m, stream, copy->block, 0, data->host, data->bytes, err);
    if (status == MUSTER_OK)
        return status;
    /* Not muster_block_free, which may fail as well and would leave the block to nobody. */
    run_lock(m);
    block_drop_locked(m, block_of_locked(m, copy), copy->zombie);
    copy->zombie = NULL;
    run_unlock(m);
    zombies_reclaim(device);
    return status;
}

/*
 * Whether the copy never arrived: the stream it was loaded on had failed, and its reader
 * would fail too. Called with the lock, which is not held meanwhile; others wait as for a load.
 */
static bool has_failed_locked(struct muster *m, struct run_copy *copy)
{
    struct run_block *block = block_of_locked(m, copy);
    struct run_event *event = block->tracker.writer.event;
    muster_status status = MUSTER_OK;
    if (block->generation != memory_generation(copy->device))
        return block->holder == HOLDER_NONE;
    if (copy->is_loaded)
        return false;
    if (event) {
        event->references++;
        copy->is_loading = true;
        run_unlock(m);
        status = copy->device->backend->table.event_query(event->state, NULL);
        run_lock(m);
        event_unreference_locked(copy->device, event);
    }
    bool failed = status != MUSTER_OK && status != MUSTER_E_BUSY;
    while (failed && block->holder == HOLDER_OPERATION)
        platform_condition_wait(&m->changed, &m->lock, UINT64_MAX);
    copy->is_loading = false;
    copy->is_loaded = status == MUSTER_OK;
    platform_condition_wake_all(&m->changed);
    return failed && block->holder == HOLDER_NONE;
}

/* Drops the asks of streams that were released since the last ask: they will not use the copy. */
static void forget_released_locked(struct run_block *block)
{
    for (uint32_t i = 0; i < SLOTS_PER_DEVICE / 64; i++)
        for (uint64_t bits = block->asked[i]; bits != 0; bits &= bits - 1) {
            uint32_t slot = 64 * i + (uint32_t)__builtin_ctzll(bits);
            if (block->device->streams[slot].released_at > block->asked_at)
                block->asked[i] &= ~(bits & -bits);
        }
}

/* The caller will use the copy on this stream; until then it is not dropped to make room. */
static void ask_locked(struct muster *m, const struct run_copy *copy, muster_stream stream)
{
    struct run_block *block = block_of_locked(m, copy);
    uint32_t slot = stream.index % SLOTS_PER_DEVICE;
    forget_released_locked(block);
    block->asked[slot / 64] |= UINT64_C(1) << slot % 64;
    block->asked_at = block->device->releases;
    block->used_ns = platform_clock_ns();
}

void data_used_locked(struct run_block *block, const struct run_stream *stream)
{
    uint32_t slot = (uint32_t)(stream - stream->device->streams);
    uint64_t *asked = &block->asked[slot / 64], bit = UINT64_C(1) << slot % 64;
    forget_released_locked(block);
    /* A copy that was asked for one stream may be used on another. */
    for (size_t i = 0; !(*asked & bit) && i < SLOTS_PER_DEVICE / 64; i++)
        if (block->asked[i] != 0) {
            asked = &block->asked[i];
            bit = *asked & -*asked;
        }
    *asked &= ~bit;
}

static bool is_asked_for(struct run_block *block)
{
    uint64_t any = 0;
    forget_released_locked(block);
    for (size_t i = 0; i < SLOTS_PER_DEVICE / 64; i++)
        any |= block->asked[i];
    return any != 0;
}

/* Loads the data where it is not yet. `fresh` is used up if it becomes the device's copy. */
static muster_status make_resident(struct muster *m, struct run_data *data, muster_stream stream,
                                   struct run_device *device, struct run_copy **fresh,
                                   muster_block *out, struct muster_error *err)
{
    run_lock(m);
    struct run_copy *copy = find_copy_locked(data, device), *failed = NULL;
    while (copy && copy->is_loading) {
        /* The one that loads it may be in a call that does not return. */
        muster_status status = device_check_locked(device, err);
        if (status != MUSTER_OK) {
            run_unlock(m);
            return status;
        }
        platform_condition_wait(&m->changed, &m->lock, UINT64_MAX);
        copy = find_copy_locked(data, device);
    }
    if (copy && has_failed_locked(m, copy)) {
        failed = copy;
        drop_copy_locked(m, data, copy);
        copy = NULL;
    }
    if (copy) {
        ask_locked(m, copy, stream);
        *out = copy->block;
        run_unlock(m);
        return MUSTER_OK;
    }
    copy = *fresh;
    *fresh = NULL;
    copy->device = device;
    copy->is_loading = true;
    copy->next = data->copies;
    data->copies = copy;
    run_unlock(m);
    free_copy(m, failed);
    muster_status status = load(m, data, stream, copy, err);
    run_lock(m);
    copy->is_loading = false;
    if (status == MUSTER_OK) {
        block_of_locked(m, copy)->is_copy = true;
        atomic_store_explicit(&data->was_resident, true, memory_order_relaxed);
        ask_locked(m, copy, stream);
        run_count(&m->counts.data_loads, 1);
        trace_device_locked(device, MUSTER_TRACE_DATA, 0, data->bytes);
        *out = copy->block;
    } else {
        unlink_copy_locked(data, copy);
        *fresh = copy;
    }
    platform_condition_wake_all(&m->changed);
    run_unlock(m);
    return status;
}

/* Keeps the data while a call uses it; waits for one that is being dropped. */
muster_status data_begin_use(struct muster *m, muster_data handle, struct run_data **out,
                             struct muster_error *err)
{
    run_lock(m);
    muster_status status = find_locked(m, handle, out, err);
    while (status == MUSTER_OK && (*out)->is_going) {
        platform_condition_wait(&m->changed, &m->lock, UINT64_MAX);
        status = find_locked(m, handle, out, err);
    }
    if (status == MUSTER_OK)
        (*out)->users++;
    run_unlock(m);
    return status;
}

void data_end_use(struct muster *m, struct run_data *data)
{
    run_lock(m);
    data->users--;
    platform_condition_wake_all(&m->changed);
    run_unlock(m);
}

/* The copy on the stream's device, if it was seen to have arrived: nothing is to be done then. */
static bool find_loaded(struct muster *m, muster_data handle, muster_stream stream,
                        muster_block *out)
{
    struct run_data *data;
    struct run_stream *pinned;
    const struct run_copy *copy = NULL;
    run_lock(m);
    if (find_locked(m, handle, &data, NULL) == MUSTER_OK && !data->is_going &&
        stream_pin_locked(m, stream, &pinned, NULL) == MUSTER_OK) {
        copy = find_copy_locked(data, pinned->device);
        /* Nobody saw the pin, so nobody waits for it to go. */
        pinned->pins--;
    }
    bool is_found = copy && copy->is_loaded && !copy->is_loading &&
                    block_of_locked(m, copy)->generation == memory_generation(copy->device);
    if (is_found) {
        ask_locked(m, copy, stream);
        *out = copy->block;
    }
    run_unlock(m);
    return is_found;
}

bool data_overlaps(struct muster *m, muster_data handle, const void *memory, size_t bytes)
{
    struct run_data *data;
    run_lock(m);
    bool is_there = find_locked(m, handle, &data, NULL) == MUSTER_OK;
    bool overlaps = is_there && data->host &&
                    (uintptr_t)memory < (uintptr_t)data->host + data->bytes &&
                    (uintptr_t)data->host < (uintptr_t)memory + bytes;
    run_unlock(m);
    return overlaps;
}

muster_status muster_data_resident(struct muster *m, muster_data handle, muster_stream stream,
                                   muster_block *out, struct muster_error *err)
{
    if (!m || !out)
        return run_bad_argument(err, "muster_data_resident", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    if (find_loaded(m, handle, stream, out))
        return MUSTER_OK;
    struct run_data *data;
    muster_status status = data_begin_use(m, handle, &data, err);
    if (status != MUSTER_OK)
        return status;
    if (!data->host) {
        data_end_use(m, data);
        return run_bad_argument(err, "muster_data_resident",
                                "the data is a size alone, or a part: let a task access it");
    }
    struct run_copy *fresh = make_copy(m);
    struct run_stream *pinned;
    if (!fresh)
        status = run_no_memory(err, "a resident copy");
    else if ((status = stream_pin(m, stream, &pinned, err)) == MUSTER_OK) {
        status = make_resident(m, data, stream, pinned->device, &fresh, out, err);
        stream_unpin(pinned);
    }
    free_copy(m, fresh);
    data_end_use(m, data);
    return status;
}

/*
 * Whether anything of the block is unfinished, waiting until then at most. The block is going, so
 * nothing is added.
 */
static muster_status wait_for_block(struct muster *m, struct run_block *block, uint64_t deadline_ns,
                                    struct muster_error *err)
{
    struct run_device *device = block->device;
    struct tracker_marks marks;
    run_lock(m);
    /*
     * What a write would wait for is everything that is open; 0 is no stream, so that none is left
     * out.
     */
    tracker_plan(&block->tracker, 0, MUSTER_WRITES, &marks);
    for (uint32_t i = 0; i < marks.count; i++)
        ((struct run_event *)marks.marks[i].event)->references++;
    run_unlock(m);
    muster_status status = MUSTER_OK;
    struct muster_error problem = { .size = sizeof problem };
    for (uint32_t i = 0; i < marks.count && run_is_over(status); i++) {
        uint64_t now_ns = platform_clock_ns();
        status = device->backend->table.event_wait(
            ((struct run_event *)marks.marks[i].event)->state,
            deadline_ns > now_ns ? deadline_ns - now_ns : 0, &problem);
    }
    run_lock(m);
    marks_unreference_locked(device, &marks);
    /* To look without waiting is no wait that timed out. */
    if (deadline_ns > 0)
        device_note_locked(device, status, &problem);
    run_unlock(m);
    /* However it ended, it has ended. */
    if (run_is_over(status))
        return MUSTER_OK;
    if (err)
        *err = problem;
    return status;
}

/* No copy is being loaded or enqueued upon, and from now on none will be; or a user holds one. */
static muster_status stop_uses_locked(struct muster *m, struct run_data *data,
                                      struct muster_error *err)
{
    data->is_going = true;
    for (;;) {
        bool must_wait = data->users > 0;
        for (struct run_copy *copy = data->copies; copy && !must_wait; copy = copy->next) {
            struct run_block *block = block_of_locked(m, copy);
            if (block->holder == HOLDER_USER) {
                data->is_going = false;
                platform_condition_wake_all(&m->changed);
                return muster_error_fill(
                    err, MUSTER_E_BUSY, 0, "call muster_block_end first",
                    "a resident copy is between muster_block_begin and muster_block_end");
            }
            must_wait = block->holder == HOLDER_OPERATION;
        }
        if (!must_wait)
            break;
        platform_condition_wait(&m->changed, &m->lock, UINT64_MAX);
    }
    for (struct run_copy *copy = data->copies; copy; copy = copy->next)
        block_of_locked(m, copy)->is_going = true;
    return MUSTER_OK;
}

/* Drops all copies once nothing reads the host memory or them. */
muster_status data_drop_copies(struct muster *m, muster_data handle, bool is_last,
                               struct muster_error *err)
{
    struct run_data *data;
    struct run_copy *dropped = NULL;
    if (run_is_forked(m))
        return run_say_forked(err);
    uint64_t deadline_ns = platform_deadline_ns(m->options.close_ns);
    run_lock(m);
    muster_status status = find_locked(m, handle, &data, err);
    while (status == MUSTER_OK && data->is_going) {
        platform_condition_wait(&m->changed, &m->lock, UINT64_MAX);
        status = find_locked(m, handle, &data, err);
    }
    if (status == MUSTER_OK && is_last && data->part_count > 0)
        status = muster_error_fill(err, MUSTER_E_BUSY, 0, "destroy its parts first",
                                   "the data has %u parts", data->part_count);
    if (status == MUSTER_OK)
        status = stop_uses_locked(m, data, err);
    if (status != MUSTER_OK) {
        run_unlock(m);
        return status;
    }
    run_unlock(m);
    for (struct run_copy *copy = data->copies; copy && status == MUSTER_OK; copy = copy->next) {
        run_lock(m);
        struct run_block *block = block_of_locked(m, copy);
        run_unlock(m);
        status = wait_for_block(m, block, deadline_ns, err);
    }
    run_lock(m);
    while (data->copies && status == MUSTER_OK) {
        struct run_copy *copy = data->copies;
        drop_copy_locked(m, data, copy);
        copy->next = dropped;
        dropped = copy;
    }
    if (!data->copies)
        atomic_store_explicit(&data->was_resident, false, memory_order_relaxed);
    for (struct run_copy *copy = data->copies; copy; copy = copy->next)
        block_of_locked(m, copy)->is_going = false;
    data->is_going = false;
    if (status == MUSTER_OK && is_last) {
        table_remove_locked(&m->data, data->index);
        if (data->whole)
            data->whole->part_count--;
    }
    platform_condition_wake_all(&m->changed);
    run_unlock(m);
    while (dropped) {
        struct run_copy *copy = dropped;
        dropped = copy->next;
        zombies_reclaim(copy->device);
        free_copy(m, copy);
    }
    if (status == MUSTER_OK && is_last) {
        data_home_free(m, data);
        allocator_give(&m->allocator, data, 1, sizeof *data);
    }
    return status;
}

/*
 * The copy on the device that was asked for longest ago, after `after_ns`, and that may be dropped.
 */
static struct run_copy *find_oldest_locked(struct run_device *device, uint64_t after_ns,
                                           struct run_data **owner)
{
    struct muster *m = device->m;
    struct run_copy *oldest = NULL;
    uint64_t oldest_ns = UINT64_MAX;
    for (uint32_t i = 0; i < m->data.handles.capacity; i++) {
        struct run_data *data = m->data.entries[i];
        struct run_copy *copy = data ? find_copy_locked(data, device) : NULL;
        if (!copy || copy->is_loading || data->is_going || data->users > 0)
            continue;
        struct run_block *block = block_of_locked(m, copy);
        bool is_free = !is_asked_for(block) && !block->is_declared && block->holder == HOLDER_NONE;
        if (is_free && block->used_ns > after_ns && block->used_ns < oldest_ns) {
            oldest = copy;
            oldest_ns = block->used_ns;
            *owner = data;
        }
    }
    return oldest;
}

bool data_evict(struct run_device *device)
{
    struct muster *m = device->m;
    uint64_t after_ns = 0;
    for (;;) {
        struct run_data *data;
        run_lock(m);
        struct run_copy *copy = find_oldest_locked(device, after_ns, &data);
        if (!copy) {
            run_unlock(m);
            return false;
        }
        struct run_block *block = block_of_locked(m, copy);
        after_ns = block->used_ns;
        data->users++; /* so that it stays while it is looked at */
        copy->is_loading = block->is_going = true;
        run_unlock(m);
        bool is_idle = wait_for_block(m, block, 0, NULL) == MUSTER_OK;
        run_lock(m);
        data->users--;
        copy->is_loading = block->is_going = false;
        if (is_idle)
            drop_copy_locked(m, data, copy);
        platform_condition_wake_all(&m->changed);
        run_unlock(m);
        if (is_idle) {
            free_copy(m, copy);
            return true;
        }
    }
}

/* The blocks themselves go with all the others. */
void data_destroy_all(struct muster *m)
{
    for (uint32_t i = 0; i < m->data.handles.capacity; i++) {
        struct run_data *data = m->data.entries[i];
        while (data && data->copies) {
            struct run_copy *copy = data->copies;
            data->copies = copy->next;
            free_copy(m, copy);
        }
        if (data)
            data_home_free(m, data);
        allocator_give(&m->allocator, data, 1, sizeof *data);
    }
}
