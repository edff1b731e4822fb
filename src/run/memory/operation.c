/*
 * One operation on tracked blocks: hold the blocks, queue the waits, let the caller enqueue,
 * record, let go. Between begin and end the blocks are held, so that two threads that use one block
 * on two streams see each other's use.
 */
#include "run/memory/memory.h"

#include "base/invariant.h"

static muster_status check_count(size_t count, struct muster_error *err)
{
    if (count <= MUSTER_USES_MAX)
        return MUSTER_OK;
    return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "split the work",
                             "%zu blocks in one operation; at most %d", count, MUSTER_USES_MAX);
}

/* The caller's uses, as this library has them. */
static muster_status read_uses(const struct muster_use **uses, size_t count,
                               struct muster_use *copies, struct muster_error *err)
{
    muster_status status = check_count(count, err);
    if (status == MUSTER_OK)
        *uses = layout_read_all(LAYOUT(muster_use), *uses, count, copies, &status, err);
    return status;
}

/* Each block once, with all its accesses. */
static muster_status merge_uses(struct operation_run *run, const struct muster_use *uses,
                                size_t count, struct muster_error *err)
{
    muster_status status = check_count(count, err);
    if (status != MUSTER_OK)
        return status;
    run->use_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (uses[i].access < MUSTER_READS || uses[i].access > MUSTER_READS_WRITES)
            return run_bad_argument(err, "a use of a block",
                                    "access is not one of enum muster_access");
        size_t at = 0;
        while (at < run->use_count && (run->uses[at].block.index != uses[i].block.index ||
                                       run->uses[at].block.generation != uses[i].block.generation))
            at++;
        if (at == run->use_count)
            run->uses[run->use_count++] = uses[i];
        else
            run->uses[at].access |= uses[i].access;
    }
    return MUSTER_OK;
}

static muster_status check_block(const struct run_block *block, const struct run_stream *stream,
                                 enum muster_access access, struct muster_error *err)
{
    if (block->device != stream->device)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "use a stream of the block's device",
                                 "a block of %s was used on a stream of %s", block->device->info.id,
                                 stream->device->info.id);
    if (block->is_going)
        return muster_error_fill(err, MUSTER_E_STALE, 0, "do not use a block after it was freed",
                                 "the block is being freed");
    if (block->generation != memory_generation(block->device))
        return muster_error_fill(err, MUSTER_E_STALE, 0, "free the block and allocate another",
                                 "what the block held went with the helper of %s, which ended",
                                 block->device->info.id);
    if (block->is_copy && (access & MUSTER_WRITES))
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "copy it into a block of your own first",
                                 "a resident copy of data is only for reading");
    if (block->holder == HOLDER_USER)
        return muster_error_fill(err, MUSTER_E_BUSY, 0, "call muster_block_end first",
                                 "the block is between muster_block_begin and muster_block_end");
    return MUSTER_OK;
}

/*
 * Holds all blocks, or none. Other operations hold blocks only while they enqueue, so waiting for
 * them is short.
 */
static muster_status hold_locked(struct operation_run *run, enum holder holder,
                                 struct muster_error *err)
{
    struct muster *m = run->m;
    struct run_block *block;
    for (size_t i = 0; i < run->use_count;) {
        muster_status status = block_resolve_locked(m, run->uses[i].block, &block, err);
        if (status == MUSTER_OK)
            status = check_block(block, run->stream, run->uses[i].access, err);
        if (status != MUSTER_OK)
            return status;
        i++;
        if (block->holder == HOLDER_OPERATION) {
            /* The other one may be in a call that does not return. */
            if ((status = device_check_locked(run->stream->device, err)) != MUSTER_OK)
                return status;
            platform_condition_wait(&m->changed, &m->lock, UINT64_MAX);
            i = 0;
        }
    }
    uint64_t begin = holder == HOLDER_USER ? ++m->next_token : 0;
    for (size_t i = 0; i < run->use_count; i++) {
        block_resolve_locked(m, run->uses[i].block, &block, NULL);
        block->holder = holder;
        block->holder_token = run->stream->token;
        block->holder_begin = begin;
        block->holder_count = run->use_count;
        block->holder_access = run->uses[i].access;
        run->memories[i] = block->memory;
    }
    return MUSTER_OK;
}

static void let_go_locked(struct operation_run *run)
{
    struct run_block *block;
    for (size_t i = 0; i < run->use_count; i++)
        if (block_resolve_locked(run->m, run->uses[i].block, &block, NULL) == MUSTER_OK)
            block->holder = HOLDER_NONE;
    platform_condition_wake_all(&run->m->changed);
}

/*
 * A stream that waits for an event of a failed stream fails too. So only a use that reads what the
 * failed stream should have written waits; other uses only need the failed work to be over.
 */
static bool must_wait_for(const struct run_block *block, const struct run_event *event,
                          enum muster_access access)
{
    bool is_read = (access & MUSTER_READS) && event == block->tracker.writer.event;
    return is_read || !event->has_failed;
}

static void plan_waits_locked(const struct run_block *block, uint64_t stream,
                              enum muster_access access, struct tracker_marks *waits)
{
    const struct tracker_mark *writer = &block->tracker.writer;
    uint32_t kept = 0;
    tracker_plan(&block->tracker, stream, access, waits);
    for (uint32_t i = 0; i < waits->count; i++)
        if (must_wait_for(block, waits->marks[i].event, access))
            waits->marks[kept++] = waits->marks[i];
    /* The plan counts on readers to have waited for the writer, and one that failed has not. */
    bool follows_failed_reader =
        kept < waits->count && (access & MUSTER_WRITES) && block->tracker.reader_count > 0;
    if (follows_failed_reader && writer->stream != 0 && writer->stream != stream &&
        must_wait_for(block, writer->event, access))
        waits->marks[kept++] = *writer;
    waits->count = kept;
}

/* Makes the stream wait for what one use conflicts with. */
static muster_status wait_for(struct operation_run *run, size_t use, struct muster_error *err)
{
    struct run_device *device = run->stream->device;
    struct run_block *block;
    struct tracker_marks waits;
    run_lock(run->m);
    block_resolve_locked(run->m, run->uses[use].block, &block, NULL);
    plan_waits_locked(block, run->stream->token, run->uses[use].access, &waits);
    for (uint32_t i = 0; i < waits.count; i++)
        ((struct run_event *)waits.marks[i].event)->references++;
    run_unlock(run->m);
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < waits.count && status == MUSTER_OK; i++) {
        struct run_event *event = waits.marks[i].event;
        status = device->backend->table.stream_wait(run->stream->state, event->state, err);
    }
    run_lock(run->m);
    marks_unreference_locked(device, &waits);
    run_unlock(run->m);
    return device_note(device, status, err);
}

muster_status operation_begin(struct muster *m, muster_stream handle, const struct muster_use *uses,
                              size_t count, enum holder holder, struct operation_run *run,
                              struct muster_error *err)
{
    *run = (struct operation_run){ .m = m };
    muster_status status = merge_uses(run, uses, count, err);
    if (status != MUSTER_OK)
        return status;
    status = stream_pin(m, handle, &run->stream, err);
    if (status != MUSTER_OK)
        return status;
    struct run_device *device = run->stream->device;
    /* A program that only gives work and never looks must not grow with what it has given. */
    run_lock(m);
    bool is_out_of_flights = !device->free_flights;
    run_unlock(m);
    if (is_out_of_flights)
        flights_retire(run->stream);
    if ((status = event_take(device, &run->event, err)) != MUSTER_OK)
        goto no_event;
    run->flight = flight_take(device, err);
    if (!run->flight) {
        status = MUSTER_E_NO_MEMORY;
        goto no_flight;
    }
    run_lock(m);
    status = hold_locked(run, holder, err);
    run_unlock(m);
    if (status != MUSTER_OK)
        goto not_held;
    for (size_t i = 0; i < run->use_count && status == MUSTER_OK; i++)
        status = wait_for(run, i, err);
    if (status == MUSTER_OK)
        return MUSTER_OK;
    run_lock(m);
    let_go_locked(run);
    run_unlock(m);
not_held:
    run_lock(m);
    flight_give_locked(device, run->flight);
    run_unlock(m);
no_flight:
    run_lock(m);
    event_unreference_locked(device, run->event);
    run_unlock(m);
no_event:
    stream_unpin(run->stream);
    return status;
}

void operation_abandon(struct operation_run *run)
{
    struct run_device *device = run->stream->device;
    run_lock(run->m);
    let_go_locked(run);
    flight_give_locked(device, run->flight);
    event_unreference_locked(device, run->event);
    stream_unpin_locked(run->stream);
    run_unlock(run->m);
}

/*
 * The record was refused, so nothing could wait for the operation: it is waited for here, and then
 * it is done like any other; or the device is given up, with all that it may still touch.
 */
static muster_status finish_unrecorded(struct operation_run *run, bool is_unit, uint64_t amount,
                                       struct muster_error *err)
{
    struct run_device *device = run->stream->device;
    struct muster_error problem = { .size = sizeof problem };
    muster_status status =
        stream_drain(run->stream, platform_deadline_ns(run->m->options.close_ns), &problem);
    bool is_over = run_is_over(status);
    run_lock(run->m);
    muster_status result = status == MUSTER_OK ? run->flight->result : status;
    if (is_over && is_unit && amount > 0) {
        device->dispatched++;
        device->completed += result == MUSTER_OK;
        device->failed += result != MUSTER_OK;
    }
    if (is_over && run->flight->user_result)
        *run->flight->user_result = result;
    if (!is_over) {
        status = muster_error_fill(
            err, MUSTER_E_DEVICE_HUNG, problem.driver_code, "go on with other devices",
            "%s was given work that cannot be followed: %.120s", device->info.id, problem.text);
        run->stream->broken = true;
        device->is_hung = true;
        device_note_locked(device, status, err);
    } else if (status != MUSTER_OK && err) {
        *err = problem;
    }
    run_unlock(run->m);
    operation_abandon(run);
    return status;
}

muster_status operation_end(struct operation_run *run, bool is_unit, uint64_t amount,
                            struct muster_error *err)
{
    struct run_device *device = run->stream->device;
    struct muster *m = run->m;
    muster_status status =
        device->backend->table.event_record(run->event->state, run->stream->state, NULL);
    if (status != MUSTER_OK) {
        run_log(m, MUSTER_LOG_WARNING, "%s cannot record an event (%s); work on it is waited for",
                device->info.id, muster_status_message(status));
        device_note(device, status, NULL);
        return finish_unrecorded(run, is_unit, amount, err);
    }
    run_lock(m);
    for (size_t i = 0; i < run->use_count; i++) {
        struct run_block *block;
        struct tracker_marks dropped;
        block_resolve_locked(m, run->uses[i].block, &block, NULL);
        tracker_commit(&block->tracker, (struct tracker_mark){ run->stream->token, run->event },
                       run->uses[i].access, &dropped);
        run->event->references++;
        marks_unreference_locked(device, &dropped);
        data_used_locked(block, run->stream);
    }
    let_go_locked(run);
    if (amount > 0) {
        run->flight->event = run->event; /* the reference goes with it */
        run->flight->is_unit = is_unit;
        run->flight->amount = amount;
        flight_begin_locked(run->stream, run->flight);
    } else {
        flight_give_locked(device, run->flight);
        event_unreference_locked(device, run->event);
    }
    stream_unpin_locked(run->stream);
    run_unlock(m);
    return MUSTER_OK;
}

const struct muster_memory *operation_memory(const struct operation_run *run, muster_block block)
{
    for (size_t i = 0; i < run->use_count; i++)
        if (run->uses[i].block.index == block.index &&
            run->uses[i].block.generation == block.generation)
            return &run->memories[i];
    INVARIANT(!"a block that is not among the uses");
    return NULL;
}

muster_status muster_block_begin(struct muster *m, muster_stream stream,
                                 const struct muster_use *uses, size_t count,
                                 struct muster_error *err)
{
    if (!m || !uses || count == 0)
        return run_bad_argument(err, "muster_block_begin", "an argument is NULL, or count is 0");
    if (run_is_forked(m))
        return run_say_forked(err);
    struct operation_run run;
    struct muster_use copies[MUSTER_USES_MAX];
    muster_status status = read_uses(&uses, count, copies, err);
    if (status == MUSTER_OK)
        status = operation_begin(m, stream, uses, count, HOLDER_USER, &run, err);
    if (status != MUSTER_OK)
        return status;
    /* The stream stays pinned and the blocks held; the rest is taken again at the end. */
    run_lock(m);
    flight_give_locked(run.stream->device, run.flight);
    event_unreference_locked(run.stream->device, run.event);
    run_unlock(m);
    return MUSTER_OK;
}

/*
 * The uses are those of one begin on this stream, all of them: ending a part of it would let go of
 * the stream while the rest is still held.
 */
static muster_status check_held_locked(struct operation_run *run, struct muster_error *err)
{
    uint64_t begin = 0;
    for (size_t i = 0; i < run->use_count; i++) {
        struct run_block *block;
        muster_status status = block_resolve_locked(run->m, run->uses[i].block, &block, err);
        if (status != MUSTER_OK)
            return status;
        if (block->holder != HOLDER_USER || block->holder_token != run->stream->token)
            return run_bad_argument(err, "muster_block_end",
                                    "a block that was not begun on this stream");
        if (i == 0)
            begin = block->holder_begin;
        if (block->holder_begin != begin || block->holder_count != run->use_count ||
            block->holder_access != run->uses[i].access)
            return run_bad_argument(err, "muster_block_end",
                                    "uses that differ from those of its muster_block_begin");
    }
    return MUSTER_OK;
}

muster_status muster_block_end(struct muster *m, muster_stream stream,
                               const struct muster_use *uses, size_t count,
                               struct muster_error *err)
{
    if (!m || !uses || count == 0)
        return run_bad_argument(err, "muster_block_end", "an argument is NULL, or count is 0");
    if (run_is_forked(m))
        return run_say_forked(err);
    struct operation_run run = { .m = m };
    struct muster_use copies[MUSTER_USES_MAX];
    muster_status status = read_uses(&uses, count, copies, err);
    if (status == MUSTER_OK)
        status = merge_uses(&run, uses, count, err);
    if (status == MUSTER_OK)
        status = stream_pin_to_finish(m, stream, &run.stream, err);
    if (status != MUSTER_OK)
        return status;
    run_lock(m);
    status = check_held_locked(&run, err);
    run_unlock(m);
    if (status != MUSTER_OK) {
        stream_unpin(run.stream);
        return status;
    }
    stream_unpin(
        run.stream); /* the pin of muster_block_begin is the one that operation_end lets go */
    status = event_take(run.stream->device, &run.event, err);
    if (muster_status_discards(status) == MUSTER_DISCARD_DEVICE) {
        /* There is nothing left to record, and nobody may be kept waiting for it. */
        run_lock(m);
        let_go_locked(&run);
        stream_unpin_locked(run.stream);
        run_unlock(m);
    }
    if (status != MUSTER_OK)
        return status;
    run.flight = flight_take(run.stream->device, err);
    if (!run.flight) {
        run_lock(m);
        event_unreference_locked(run.stream->device, run.event);
        run_unlock(m);
        return MUSTER_E_NO_MEMORY;
    }
    return operation_end(&run, false, 0, err);
}
