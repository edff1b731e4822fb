/*
 * The stream pools, one for each device: handles with generations over driver streams that are
 * opened when first wanted and then kept for the next who asks.
 */
#include "run/device/stream.h"

#include "base/allocator.h"
#include "base/invariant.h"

static muster_stream handle_of(const struct run_stream *stream)
{
    uint32_t slot = (uint32_t)(stream - stream->device->streams);
    return (muster_stream){ stream->device->index * SLOTS_PER_DEVICE + slot, stream->generation };
}

static muster_status say_unknown(struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_UNKNOWN, 0, "use handles as Muster gave them",
                             "no such stream was ever given out");
}

/* The stream of a handle that is out now. */
static muster_status resolve_locked(struct muster *m, muster_stream handle, struct run_stream **out,
                                    struct muster_error *err)
{
    uint32_t index = handle.index / SLOTS_PER_DEVICE, slot = handle.index % SLOTS_PER_DEVICE;
    if (index >= m->device_count || slot >= m->devices[index]->stream_count ||
        handle.generation == 0)
        return say_unknown(err);
    struct run_stream *stream = &m->devices[index]->streams[slot];
    if (handle.generation > stream->generation)
        return say_unknown(err);
    if (stream->slot == SLOT_ACQUIRED && handle.generation == stream->generation) {
        *out = stream;
        return MUSTER_OK;
    }
    /* The generation of a slot that is not out is the next one, which nobody has been given. */
    if (handle.generation == stream->generation)
        return say_unknown(err);
    muster_status status =
        muster_error_fill(err, MUSTER_E_STALE, 0, "do not use a stream after it was released",
                          "the stream was released");
    run_error_device(err, stream->device);
    return status;
}

muster_status stream_pin_locked(struct muster *m, muster_stream handle, struct run_stream **out,
                                struct muster_error *err)
{
    muster_status status = resolve_locked(m, handle, out, err);
    if (status == MUSTER_OK)
        status = device_check_locked((*out)->device, err);
    if (status == MUSTER_OK)
        (*out)->pins++;
    return status;
}

void stream_unpin_locked(struct run_stream *stream)
{
    INVARIANT(stream->pins > 0);
    stream->pins--;
    platform_condition_wake_all(&stream->device->m->changed);
}

muster_status stream_pin(struct muster *m, muster_stream handle, struct run_stream **out,
                         struct muster_error *err)
{
    run_lock(m);
    muster_status status = stream_pin_locked(m, handle, out, err);
    run_unlock(m);
    return status;
}

muster_status stream_pin_to_finish(struct muster *m, muster_stream handle, struct run_stream **out,
                                   struct muster_error *err)
{
    run_lock(m);
    muster_status status = resolve_locked(m, handle, out, err);
    if (status == MUSTER_OK)
        (*out)->pins++;
    run_unlock(m);
    return status;
}

void stream_unpin(struct run_stream *stream)
{
    struct muster *m = stream->device->m;
    run_lock(m);
    stream_unpin_locked(stream);
    run_unlock(m);
}

static void close_driver_stream(struct run_stream *stream)
{
    struct muster *m = stream->device->m;
    const struct muster_backend *table = &stream->device->backend->table;
    table->stream_close(stream->state);
    allocator_give(&m->allocator, stream->state, 1, table->stream_bytes);
    stream->state = NULL;
}

/* Asks the driver for a stream, for a slot that is being opened. */
static muster_status open_driver_stream(struct run_stream *stream, int32_t priority,
                                        bool is_default, struct muster_error *err)
{
    struct run_device *device = stream->device;
    struct muster *m = device->m;
    const struct muster_backend *table = &device->backend->table;
    void *state = allocator_take(&m->allocator, 1, table->stream_bytes);
    if (!state)
        return run_no_memory(err, "a stream");
    muster_status status = table->stream_open(device->state, priority, is_default, state, err);
    if (status != MUSTER_OK) {
        allocator_give(&m->allocator, state, 1, table->stream_bytes);
        return device_note(device, status, err);
    }
    run_lock(m);
    stream->state = state;
    stream->priority = priority;
    stream->token = ++m->next_token;
    run_unlock(m);
    return MUSTER_OK;
}

/*
 * Claims a slot: one with an idle driver stream of this priority, else an empty one. NULL if all
 * are out or still busy.
 */
static struct run_stream *claim_locked(struct run_device *device, int32_t priority)
{
    struct run_stream *empty = NULL;
    for (uint32_t i = 1; i < device->stream_count; i++) {
        struct run_stream *stream = &device->streams[i];
        bool is_idle = stream->slot == SLOT_RELEASED && !stream->oldest && !stream->broken &&
                       stream->pins == 0;
        if (is_idle && stream->priority == priority) {
            stream->slot = SLOT_OPENING;
            return stream;
        }
        if (!empty && stream->slot == SLOT_EMPTY)
            empty = stream;
    }
    if (empty)
        empty->slot = SLOT_OPENING;
    return empty;
}

/* Closes an idle driver stream of another priority, so that its slot can be used. */
static struct run_stream *claim_other_locked(struct run_device *device)
{
    for (uint32_t i = 1; i < device->stream_count; i++) {
        struct run_stream *stream = &device->streams[i];
        if (stream->slot == SLOT_RELEASED && !stream->oldest && !stream->broken &&
            stream->pins == 0) {
            stream->slot = SLOT_OPENING;
            return stream;
        }
    }
    return NULL;
}

static muster_status check_priority(const struct run_device *device, int32_t priority,
                                    struct muster_error *err)
{
    int32_t least = device->info.priority_least, greatest = device->info.priority_greatest;
    bool known = device->info.capabilities & MUSTER_CAN_PRIORITIES
                     ? priority >= greatest && priority <= least
                     : priority == 0;
    if (known)
        return MUSTER_OK;
    muster_status status =
        muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "ask for a priority the device has",
                          "priority %d was asked for; %s has %d (most urgent) to %d", priority,
                          device->info.id, greatest, least);
    run_error_device(err, device);
    return status;
}

/* Claims this many slots in one step, or none: two who want several never hold a part each. */
static muster_status claim_all(struct run_device *device, int32_t priority, uint32_t count,
                               struct run_stream **out, struct muster_error *err)
{
    struct muster *m = device->m;
    uint32_t claimed = 0;
    enum slot_state before[STREAMS_MAX_LIMIT];
    INVARIANT(count <= STREAMS_MAX_LIMIT);
    run_lock(m);
    for (; claimed < count; claimed++) {
        struct run_stream *stream = claim_locked(device, priority);
        if (!stream)
            stream = claim_other_locked(device);
        if (!stream)
            break;
        before[claimed] = stream->state ? SLOT_RELEASED : SLOT_EMPTY;
        out[claimed] = stream;
    }
    uint32_t acquired = device->streams_acquired;
    if (claimed < count)
        for (uint32_t i = 0; i < claimed; i++)
            out[i]->slot = before[i];
    run_unlock(m);
    if (claimed == count)
        return MUSTER_OK;
    uint32_t most = device->stream_count - 1;
    muster_status status = muster_error_fill(
        err, MUSTER_E_CAPACITY, 0, "release a stream, or open with more streams_max",
        "%s has %u streams at most: %u are out, %u still finish earlier work", device->info.id,
        most, acquired, most > acquired + claimed ? most - acquired - claimed : 0);
    run_error_device(err, device);
    return status;
}

/*
 * A released driver stream may have failed, or run work that Muster was not told of: only an idle,
 * sound one is used again.
 */
static bool is_sound(struct run_stream *stream)
{
    return stream->device->backend->table.stream_query(stream->state, NULL) == MUSTER_OK;
}

muster_status streams_acquire(struct run_device *device, int32_t priority, uint32_t count,
                              muster_stream *out, struct muster_error *err)
{
    struct muster *m = device->m;
    struct run_stream *streams[STREAMS_MAX_LIMIT];
    flights_retire_all(device);
    muster_status status = check_priority(device, priority, err);
    if (status == MUSTER_OK)
        status = claim_all(device, priority, count, streams, err);
    if (status != MUSTER_OK)
        return status;
    for (uint32_t i = 0; i < count && status == MUSTER_OK; i++) {
        if (streams[i]->state && (streams[i]->priority != priority || !is_sound(streams[i])))
            close_driver_stream(streams[i]);
        if (!streams[i]->state)
            status = open_driver_stream(streams[i], priority, false, err);
    }
    run_lock(m);
    for (uint32_t i = 0; i < count; i++) {
        streams[i]->slot = status == MUSTER_OK         ? SLOT_ACQUIRED
                           : streams[i]->state != NULL ? SLOT_RELEASED
                                                       : SLOT_EMPTY;
        if (status == MUSTER_OK)
            out[i] = handle_of(streams[i]);
    }
    device->streams_acquired += status == MUSTER_OK ? count : 0;
    run_unlock(m);
    return status;
}

muster_status muster_stream_acquire(struct muster *m, muster_device handle, int32_t priority,
                                    muster_stream *out, struct muster_error *err)
{
    struct run_device *device;
    if (!m || !out)
        return run_bad_argument(err, "muster_stream_acquire", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = device_pin(m, handle, &device, err);
    if (status != MUSTER_OK)
        return status;
    status = streams_acquire(device, priority, 1, out, err);
    device_unpin(device);
    return status;
}

muster_status stream_renew(struct run_stream *stream, struct muster_error *err)
{
    struct muster *m = stream->device->m;
    const struct muster_backend *table = &stream->device->backend->table;
    void *failed = stream->state;
    flights_retire(stream);
    run_lock(m);
    bool has_work = stream->oldest || stream->broken;
    run_unlock(m);
    if (has_work)
        return muster_error_fill(err, MUSTER_E_BUSY, 0, NULL, "the stream has work to do");
    muster_status status = open_driver_stream(stream, stream->priority, false, err);
    if (status != MUSTER_OK)
        return status;
    table->stream_close(failed);
    allocator_give(&m->allocator, failed, 1, table->stream_bytes);
    return MUSTER_OK;
}

muster_status muster_stream_default(struct muster *m, muster_device handle, muster_stream *out,
                                    struct muster_error *err)
{
    struct run_device *device;
    if (!m || !out)
        return run_bad_argument(err, "muster_stream_default", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = device_pin(m, handle, &device, err);
    if (status != MUSTER_OK)
        return status;
    struct run_stream *stream = &device->streams[0];
    run_lock(m);
    while (stream->slot == SLOT_OPENING)
        platform_condition_wait(&m->changed, &m->lock, UINT64_MAX);
    bool mine = stream->slot == SLOT_EMPTY;
    if (mine)
        stream->slot = SLOT_OPENING;
    run_unlock(m);
    if (mine) {
        status = open_driver_stream(stream, 0, true, err);
        run_lock(m);
        stream->slot = status == MUSTER_OK ? SLOT_ACQUIRED : SLOT_EMPTY;
        platform_condition_wake_all(&m->changed);
        run_unlock(m);
    }
    if (status == MUSTER_OK)
        *out = handle_of(stream);
    device_unpin(device);
    return status;
}

muster_status muster_stream_release(struct muster *m, muster_stream handle,
                                    struct muster_error *err)
{
    struct run_stream *stream;
    if (!m)
        return run_bad_argument(err, "muster_stream_release", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    run_lock(m);
    muster_status status = resolve_locked(m, handle, &stream, err);
    if (status == MUSTER_OK && stream == &stream->device->streams[0])
        status =
            muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "a default stream is not released");
    else if (status == MUSTER_OK && stream->pins > 0)
        status = muster_error_fill(err, MUSTER_E_BUSY, 0, "end what was begun on it first",
                                   "a call or a muster_block_begin on the stream is under way");
    if (status == MUSTER_OK) {
        stream->slot = SLOT_RELEASED;
        stream->released_at = ++stream->device->releases;
        /*
         * A slot whose generations are used up is not given out again: a wrapped one would revive
         * old handles.
         */
        stream->broken = stream->broken || stream->generation == UINT32_MAX - 1;
        stream->generation++;
        stream->device->streams_acquired--;
    }
    run_unlock(m);
    return status;
}

muster_status muster_stream_resolve(struct muster *m, muster_stream handle,
                                    struct muster_stream_info *info, struct muster_error *err)
{
    struct run_stream *stream;
    struct muster_stream_info found;
    if (!m || !info)
        return run_bad_argument(err, "muster_stream_resolve", "an argument is NULL");
    muster_status status = layout_check_room(LAYOUT(muster_stream_info), info, err);
    if (status != MUSTER_OK)
        return status;
    if (run_is_forked(m))
        return run_say_forked(err);
    run_lock(m);
    status = resolve_locked(m, handle, &stream, err);
    if (status == MUSTER_OK)
        found = (struct muster_stream_info){ .device = device_handle_locked(stream->device),
                                             .slot = (uint32_t)(stream - stream->device->streams),
                                             .priority = stream->priority,
                                             .planned_bytes = m->stream_bytes };
    run_unlock(m);
    if (status == MUSTER_OK)
        layout_write(LAYOUT(muster_stream_info), info, &found);
    return status;
}

muster_status muster_stream_native(struct muster *m, muster_stream handle, void **native,
                                   struct muster_error *err)
{
    struct run_stream *stream;
    if (!m || !native)
        return run_bad_argument(err, "muster_stream_native", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = stream_pin(m, handle, &stream, err);
    if (status != MUSTER_OK)
        return status;
    *native = stream->device->backend->table.stream_native(stream->state);
    stream_unpin(stream);
    return MUSTER_OK;
}

muster_status muster_stream_query(struct muster *m, muster_stream handle, struct muster_error *err)
{
    struct run_stream *stream;
    if (!m)
        return run_bad_argument(err, "muster_stream_query", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = stream_pin_to_finish(m, handle, &stream, err);
    if (status != MUSTER_OK)
        return status;
    status = stream->device->backend->table.stream_query(stream->state, err);
    flights_retire_after(stream, status);
    status = status == MUSTER_E_BUSY
                 ? muster_error_fill(err, status, 0, "wait for it", "the stream has work to do")
                 : device_note(stream->device, status, err);
    stream_unpin(stream);
    return status;
}

muster_status muster_stream_wait(struct muster *m, muster_stream handle, uint64_t timeout_ns,
                                 struct muster_error *err)
{
    struct run_stream *stream;
    if (!m)
        return run_bad_argument(err, "muster_stream_wait", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    if (platform_frame_is_in(FRAME_KERNEL, NULL))
        return run_say_stuck(err, "muster_stream_wait");
    muster_status status = stream_pin_to_finish(m, handle, &stream, err);
    if (status != MUSTER_OK)
        return status;
    status = stream_drain(stream, platform_deadline_ns(timeout_ns), err);
    stream_unpin(stream);
    return status;
}

void streams_destroy(struct run_device *device)
{
    for (uint32_t i = 0; i < device->stream_count; i++) {
        INVARIANT(!device->streams[i].oldest);
        if (device->streams[i].state)
            close_driver_stream(&device->streams[i]);
    }
}
