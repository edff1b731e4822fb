/*
 * Lanes: one device working on one job. The lane's thread makes all of the job's calls on the device:
 * it takes units from the core, gives each to a stream as copies in, a launch and copies out, and
 * hands what finished back. A host call at the end of a unit's work wakes it.
 */
#include "run/job/pipeline.h"

#include "base/allocator.h"
#include "base/invariant.h"

static bool is_there(muster_block block)
{
    return block.generation != 0;
}

static uint64_t items_of(struct muster_range range)
{
    return range.end - range.begin;
}

/* Away and back. */

void lane_unlock(struct run_lane *lane)
{
    thread_goes_away(&lane->thread);
    run_unlock(lane->job->m);
}

static void note_back_locked(struct run_lane *lane)
{
    if (!lane->is_stuck)
        return;
    lane->is_stuck = false;
    device_count_stuck_locked(lane->device, -1);
}

void lane_lock(struct run_lane *lane)
{
    run_lock(lane->job->m);
    thread_is_back(&lane->thread);
    note_back_locked(lane);
}

void lane_note_stuck_locked(struct run_lane *lane)
{
    if (lane->is_stuck || !atomic_load_explicit(&lane->thread.is_away, memory_order_relaxed))
        return;
    lane->is_stuck = true;
    device_count_stuck_locked(lane->device, 1);
}

/* Setting up. */

/* Whether the device copies from the caller's array as fast as it can, or has none to copy from. */
static bool is_fast(const struct run_lane *lane, const struct muster_arg *arg)
{
    const struct run_device *device = lane->device;
    return !arg->in || device->backend->table.host_is_fast(
                           device->state, arg->in, (size_t)lane->job->desc.items * arg->bytes);
}

/* Device memory for each array argument of one slot. */
static muster_status allocate_blocks(struct lane_slot *slot, struct muster_error *err)
{
    struct muster_job *job = slot->lane->job;
    for (size_t i = 0; i < job->desc.arg_count; i++) {
        const struct muster_arg *arg = &job->args[i];
        if (!job_cuts(arg) || job->unit_max == 0)
            continue;
        muster_status status = muster_block_allocate(job->m, slot->stream,
                                                     (job->unit_max + 2 * arg->halo) * arg->bytes,
                                                     &slot->blocks[i], err);
        if (status != MUSTER_OK)
            return status;
        /* Where there is no pinned memory to pass it through it is copied as it is. */
        if (!is_fast(slot->lane, arg) &&
            muster_host_allocate(job->m, device_handle_locked(slot->lane->device),
                                 job->unit_max * arg->bytes, &slot->staged[i], NULL) != MUSTER_OK)
            slot->staged[i] = NULL;
    }
    return MUSTER_OK;
}

/* Where kernels work on host memory, the arrays that are read are made known as they are. */
static muster_status declare_arrays(struct run_lane *lane, struct muster_error *err)
{
    struct muster_job *job = lane->job;
    for (size_t i = 0; i < job->desc.arg_count; i++) {
        const struct muster_arg *arg = &job->args[i];
        const struct muster_memory memory = { .address = (uintptr_t)arg->in,
                                              .bytes = job->desc.items * arg->bytes };
        /* A ring is declared when it is first read from. */
        if (arg->kind != MUSTER_ARG_IN)
            continue;
        /* Without items there is no memory either. */
        if (memory.bytes == 0)
            continue;
        muster_status status = block_declare(job->m, lane->device, memory, &lane->arrays[i], err);
        if (status != MUSTER_OK)
            return status;
    }
    return MUSTER_OK;
}

/* Copies are faster from and to memory that the driver knows; they work without. */
static bool pin(const struct run_device *device, void *memory, size_t bytes)
{
    return memory &&
           device->backend->table.host_register(device->state, memory, bytes, NULL) == MUSTER_OK;
}

static void pin_memory(struct run_lane *lane)
{
    const struct muster_job *job = lane->job;
    lane->has_pinned_buffers = pin(lane->device, job->memory, job->memory_bytes);
    if (pin(lane->device, job->source.ring, 2 * job->source.ring_bytes))
        lane->pinned_ring = job->source.ring;
}

static void unpin_memory(struct run_lane *lane)
{
    const struct run_device *device = lane->device;
    if (lane->has_pinned_buffers)
        device->backend->table.host_unregister(device->state, lane->job->memory);
    if (lane->pinned_ring)
        device->backend->table.host_unregister(device->state, lane->pinned_ring);
    lane->has_pinned_buffers = false;
    lane->pinned_ring = NULL;
}

muster_status lane_set_up(struct run_lane *lane, struct muster_error *err)
{
    struct muster_job *job = lane->job;
    struct muster *m = job->m;
    uint32_t depth = job->core_options.depth;
    lane->uses_host_memory = lane->device->info.capabilities & MUSTER_CAN_USE_HOST_MEMORY;
    lane->slots = allocator_take(&m->allocator, depth, sizeof *lane->slots);
    lane->buffers = allocator_take(&m->allocator, (size_t)job->buffer_count * MUSTER_ARGS_MAX,
                                   sizeof *lane->buffers);
    if (!lane->slots || !lane->buffers)
        return run_no_memory(err, "a lane");
    for (uint32_t i = 0; i < depth; i++)
        lane->slots[i].lane = lane;
    if (job->pipeline) {
        muster_status status = line_set_up(lane, err);
        if (status == MUSTER_OK && !lane->uses_host_memory)
            pin_memory(lane);
        return status;
    }
    for (uint32_t i = 0; i < depth; i++) {
        struct lane_slot *slot = &lane->slots[i];
        muster_status status =
            muster_stream_acquire(m, device_handle_locked(lane->device), 0, &slot->stream, err);
        if (status != MUSTER_OK)
            return status;
        slot->has_stream = true;
        if (!lane->uses_host_memory && (status = allocate_blocks(slot, err)) != MUSTER_OK)
            return status;
    }
    timing_set_up(lane);
    if (lane->uses_host_memory)
        return declare_arrays(lane, err);
    pin_memory(lane);
    return MUSTER_OK;
}

static void free_block(struct run_lane *lane, muster_stream stream, muster_block block)
{
    if (is_there(block))
        muster_block_free(lane->job->m, stream, block, NULL);
}

/* The kernel's result is written when its flight is seen to have ended. */
static void see_flights_end(struct lane_slot *slot)
{
    struct run_stream *stream;
    if (stream_pin_to_finish(slot->lane->job->m, slot->stream, &stream, NULL) != MUSTER_OK)
        return;
    /*
     * First the kernel's own word, since the unit's last call has come: a device that is lost by now
     * has still done it, and the slot may be gone before the flight is. fault_cuda_calls.
     */
    flights_forget_result(stream, &slot->result);
    flights_retire(stream);
    stream_unpin(stream);
}

static struct lane_slot *find_slot(struct run_lane *lane, enum slot_stage stage)
{
    for (uint32_t i = 0; i < lane->job->core_options.depth; i++)
        if (lane->slots[i].stage == stage)
            return &lane->slots[i];
    return NULL;
}

void lane_tear_down(struct run_lane *lane)
{
    struct muster_job *job = lane->job;
    struct muster *m = job->m;
    uint32_t depth = job->core_options.depth;
    /* A device that still works in one of the slots keeps them all, until it comes back. */
    run_lock(m);
    bool is_kept = lane->slots && find_slot(lane, STAGE_RUNNING);
    run_unlock(m);
    if (lane->has_device_pin)
        device_unpin(lane->device);
    lane->has_device_pin = false;
    if (is_kept)
        return;
    unpin_memory(lane);
    line_tear_down(lane);
    for (uint32_t s = 0; lane->slots && s < depth; s++) {
        struct lane_slot *slot = &lane->slots[s];
        if (!slot->has_stream)
            continue;
        slot->has_stream = false;
        see_flights_end(slot);
        timing_give_back(slot);
        for (size_t i = 0; i < MUSTER_ARGS_MAX; i++) {
            free_block(lane, slot->stream, slot->blocks[i]);
            muster_host_free(m, slot->staged[i], NULL);
        }
        /* What was declared for the whole lane goes with its first slot. */
        for (size_t i = 0; s == 0 && i < MUSTER_ARGS_MAX; i++)
            free_block(lane, slot->stream, lane->arrays[i]);
        for (size_t i = 0;
             s == 0 && lane->buffers && i < (size_t)job->buffer_count * MUSTER_ARGS_MAX; i++)
            free_block(lane, slot->stream, lane->buffers[i]);
        muster_stream_release(m, slot->stream, NULL);
    }
}

/* Giving a unit to the device. */

/* The block over a buffer's place for one written argument, declared when first used. */
static muster_status find_buffer_block(struct run_lane *lane, uint32_t buffer, size_t arg,
                                       muster_block *out, struct muster_error *err)
{
    struct muster_job *job = lane->job;
    muster_block *block = &lane->buffers[(size_t)buffer * MUSTER_ARGS_MAX + arg];
    if (!is_there(*block)) {
        const struct muster_memory memory = { .address = (uintptr_t)job_buffer(job, buffer) +
                                                         job->out_offsets[arg],
                                              .bytes = job->unit_max * job->args[arg].bytes };
        muster_status status = block_declare(job->m, lane->device, memory, block, err);
        if (status != MUSTER_OK)
            return status;
    }
    *out = *block;
    return MUSTER_OK;
}

/* The block over the ring that the slot's unit is read from. */
static muster_status find_ring_block(struct lane_slot *slot, size_t arg, muster_block *out,
                                     struct muster_error *err)
{
    struct run_lane *lane = slot->lane;
    struct muster_job *job = lane->job;
    if (lane->declared_ring != slot->ring) {
        const struct muster_memory memory = { .address = (uintptr_t)slot->ring,
                                              .bytes = 2 * job->source.ring_bytes };
        muster_block block;
        muster_status status = block_declare(job->m, lane->device, memory, &block, err);
        if (status != MUSTER_OK)
            return status;
        free_block(lane, slot->stream, lane->arrays[arg]);
        lane->arrays[arg] = block;
        lane->declared_ring = slot->ring;
    }
    *out = lane->arrays[arg];
    return MUSTER_OK;
}

/* The operand for an array: where it is, and how it is used. */
static muster_status array_operand(struct lane_slot *slot, size_t arg, struct muster_operand *out,
                                   struct muster_error *err)
{
    static const uint32_t accesses[] = { [MUSTER_ARG_IN] = MUSTER_READS,
                                         [MUSTER_ARG_SOURCE] = MUSTER_READS,
                                         [MUSTER_ARG_OUT] = MUSTER_WRITES,
                                         [MUSTER_ARG_INOUT] = MUSTER_READS_WRITES };
    struct run_lane *lane = slot->lane;
    const struct muster_arg *given = &lane->job->args[arg];
    *out = (struct muster_operand){ .size = sizeof *out,
                                    .block = slot->blocks[arg],
                                    .access = accesses[given->kind],
                                    .offset = given->halo * given->bytes };
    if (!lane->uses_host_memory)
        return MUSTER_OK;
    out->offset = 0;
    if (job_writes(given))
        return find_buffer_block(lane, slot->buffer, arg, &out->block, err);
    if (given->kind == MUSTER_ARG_SOURCE) {
        out->offset = source_offset(&lane->job->source, slot->claim.range.begin);
        return find_ring_block(slot, arg, &out->block, err);
    }
    out->block = lane->arrays[arg];
    out->offset = slot->claim.range.begin * given->bytes;
    return MUSTER_OK;
}

/* Where the caller's items, or the source's, lie for a unit. */
static const char *unit_input(const struct lane_slot *slot, const struct muster_arg *arg)
{
    const struct run_source *source = &slot->lane->job->source;
    uint64_t begin = slot->claim.range.begin;
    return arg->kind == MUSTER_ARG_SOURCE ? slot->ring + source_offset(source, begin)
                                          : (const char *)arg->in + begin * arg->bytes;
}

/* Copies in what the device cannot reach, or must not change in place. */
static muster_status copy_in(struct lane_slot *slot, size_t arg, muster_block block,
                             struct muster_error *err)
{
    struct muster_job *job = slot->lane->job;
    const struct muster_arg *given = &job->args[arg];
    bool is_needed = given->kind == MUSTER_ARG_INOUT ||
                     (given->kind != MUSTER_ARG_OUT && !slot->lane->uses_host_memory);
    if (!is_needed)
        return MUSTER_OK;
    /* The halo lies before and behind it there too: the block begins with it. */
    uint64_t offset = slot->part.begin * given->bytes;
    size_t bytes = (size_t)(items_of(slot->part) + 2 * given->halo) * given->bytes;
    const char *from = unit_input(slot, given) + offset - given->halo * given->bytes;
    if (slot->staged[arg]) {
        copiers_copy(job->m, slot->staged[arg], from, bytes);
        from = slot->staged[arg];
    }
    return muster_copy_in(job->m, slot->stream, block, offset, from, bytes, err);
}

/* Between a unit's steps: a driver that did return is not stuck, and a job that is over needs no more. */
static muster_status check_wanted(struct lane_slot *slot, struct muster_error *err)
{
    struct run_lane *lane = slot->lane;
    if (lane->is_stuck) {
        run_lock(lane->job->m);
        note_back_locked(lane);
        run_unlock(lane->job->m);
    }
    if (!thread_is_given_up(&lane->thread))
        return MUSTER_OK;
    return muster_error_fill(err, MUSTER_E_CANCELLED, 0, NULL, "the job is over");
}

static muster_status make_operand(struct lane_slot *slot, size_t arg, struct muster_operand *out,
                                  struct muster_error *err)
{
    struct muster_job *job = slot->lane->job;
    const struct muster_arg *given = &job->args[arg];
    if (given->kind == MUSTER_ARG_VALUE) {
        *out = (struct muster_operand){ .size = sizeof *out,
                                        .value = given->in,
                                        .bytes = given->bytes };
        return MUSTER_OK;
    }
    if (given->kind == MUSTER_ARG_FIRST) {
        *out = (struct muster_operand){ .size = sizeof *out,
                                        .value = &slot->claim.range.begin,
                                        .bytes = sizeof slot->claim.range.begin };
        return MUSTER_OK;
    }
    if (given->kind == MUSTER_ARG_ALL) {
        *out = (struct muster_operand){ .size = sizeof *out, .access = MUSTER_READS };
        return muster_data_resident(job->m, given->data, slot->stream, &out->block, err);
    }
    muster_status status = array_operand(slot, arg, out, err);
    return status == MUSTER_OK ? copy_in(slot, arg, out->block, err) : status;
}

static muster_status copy_out(struct lane_slot *slot, struct muster_error *err)
{
    struct muster_job *job = slot->lane->job;
    for (size_t i = 0; i < job->desc.arg_count && !slot->lane->uses_host_memory; i++) {
        if (!job_writes(&job->args[i]))
            continue;
        uint64_t offset = slot->part.begin * job->args[i].bytes;
        char *to = job_buffer(job, slot->buffer) + job->out_offsets[i] + offset;
        muster_status status = check_wanted(slot, err);
        if (status == MUSTER_OK)
            status = muster_copy_out(job->m, slot->stream, to, slot->blocks[i], offset,
                                     items_of(slot->part) * job->args[i].bytes, err);
        if (status != MUSTER_OK)
            return status;
    }
    return MUSTER_OK;
}

static muster_status give_unit(struct lane_slot *slot, struct muster_error *err)
{
    struct muster_job *job = slot->lane->job;
    struct muster_operand operands[MUSTER_ARGS_MAX];
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < job->desc.arg_count; i++) {
        if ((status = check_wanted(slot, err)) != MUSTER_OK ||
            (status = make_operand(slot, i, &operands[i], err)) != MUSTER_OK)
            return status;
    }
    timing_mark(slot, 0);
    if ((status = check_wanted(slot, err)) != MUSTER_OK)
        return status;
    status = muster_launch(job->m, slot->stream, job->desc.kernel, slot->part.begin,
                           items_of(slot->part), operands, job->desc.arg_count, &slot->result, err);
    timing_mark(slot, 1);
    if (status == MUSTER_OK)
        status = copy_out(slot, err);
    timing_mark(slot, 2);
    return status;
}

/* On a thread of the backend's: the stream got to the end of the unit's work. */
static void on_end(void *user, muster_status status)
{
    struct lane_slot *slot = user;
    struct muster *m = slot->lane->job->m;
    run_lock(m);
    slot->ended = status;
    slot->ended_ns = platform_clock_ns();
    slot->stage = STAGE_FINISHED;
    slot->lane->job->outstanding--;
    job_wake_locked(slot->lane->job);
    run_unlock(m);
}

/* Makes sure that the end of what was given is noticed, whatever came of giving it. */
static void watch(struct lane_slot *slot)
{
    struct run_device *device = slot->lane->device;
    struct run_stream *stream;
    struct muster *m = device->m;
    /* Nobody is left to hear of it, and the backend may be asked for nothing more. */
    if (run_is_abandoned(m))
        return;
    muster_status status = stream_pin_to_finish(m, slot->stream, &stream, NULL);
    if (status == MUSTER_OK) {
        status = device->backend->table.host_call(stream->state, on_end, slot, NULL);
        /*
         * Without a call in stream order it is waited for here, at the price of what could overlap.
         * What does not end then is left as it is, for the core to find it overdue.
         */
        if (status != MUSTER_OK) {
            status = stream_drain(stream, platform_deadline_ns(m->options.close_ns), NULL);
            if (run_is_over(status))
                on_end(slot, status);
        }
        stream_unpin(stream);
        return;
    }
    on_end(slot, status);
}

/* Gives the slot's part of its unit to the device. */
static void start_part(struct lane_slot *slot)
{
    slot->result = slot->ended = MUSTER_OK;
    slot->marked = 0;
    slot->given = give_unit(slot, &slot->problem);
    watch(slot);
    slot->given_ns = platform_clock_ns();
}

static void start_unit(struct lane_slot *slot)
{
    muster_status *statuses = job_statuses(slot->lane->job, slot->buffer);
    uint64_t items = items_of(slot->claim.range);
    for (uint64_t i = 0; statuses && i < items; i++)
        statuses[i] = MUSTER_OK;
    slot->part = (struct muster_range){ 0, items };
    slot->part_count = 0;
    slot->is_broken_off = false;
    start_part(slot);
}

/* Taking back what finished. */

/* User code says MUSTER_E_FAILED for bad luck, and anything else for a refusal that will stand. */
static bool is_bad_luck(muster_status result)
{
    return result == MUSTER_E_FAILED || result == MUSTER_E_STREAM_FAILED;
}

static enum job_end judge(const struct lane_slot *slot)
{
    muster_status given = slot->is_refused ? MUSTER_OK : slot->given;
    if (muster_status_discards(given) == MUSTER_DISCARD_DEVICE ||
        muster_status_discards(slot->ended) == MUSTER_DISCARD_DEVICE)
        return JOB_END_DEVICE;
    if (slot->is_broken_off)
        return JOB_END_DROPPED;
    if (slot->is_refused && !is_bad_luck(slot->given))
        return JOB_END_USER;
    if (slot->given != MUSTER_OK || slot->ended != MUSTER_OK || is_bad_luck(slot->result))
        return JOB_END_UNIT;
    return slot->result == MUSTER_OK ? JOB_END_OK : JOB_END_USER;
}

/* Whether it is to be found out which of the unit's items the kernel refuses, or is being found out. */
static bool is_isolating_locked(const struct lane_slot *slot)
{
    const struct muster_job *job = slot->lane->job;
    if (!job->desc.each_status || slot->given != MUSTER_OK || slot->ended != MUSTER_OK)
        return false;
    if (slot->result == MUSTER_OK)
        return slot->part_count > 0;
    /* Bad luck, as it says, is tried elsewhere first. */
    return !is_bad_luck(slot->result) || job_is_last_try(job->core, slot->claim.ticket);
}

/* Halves a part that failed, or notes the status of an item that did so alone. */
static void note_part(struct lane_slot *slot)
{
    struct muster_range part = slot->part;
    uint64_t middle = part.begin + items_of(part) / 2;
    if (slot->result == MUSTER_OK)
        return;
    if (items_of(part) == 1) {
        job_statuses(slot->lane->job, slot->buffer)[part.begin] = slot->result;
        slot->result = MUSTER_OK;
        return;
    }
    INVARIANT(slot->part_count + 2 <= SLOT_PARTS_MAX);
    slot->parts[slot->part_count++] = (struct muster_range){ middle, part.end };
    slot->parts[slot->part_count++] = (struct muster_range){ part.begin, middle };
}

/*
 * Where each item has a status: finds out which items made the kernel fail, by doing both halves of
 * what failed again. True if there is a part left to be done, which is then the slot's.
 */
static bool isolate_locked(struct lane_slot *slot, uint64_t now_ns)
{
    struct muster_job *job = slot->lane->job;
    if (!is_isolating_locked(slot))
        return false;
    note_part(slot);
    if (slot->part_count == 0)
        return false;
    if (!job_restart(job->core, slot->claim.ticket, now_ns)) {
        slot->is_broken_off = true;
        return false;
    }
    slot->part = slot->parts[--slot->part_count];
    return true;
}

static muster_status failure_of(const struct lane_slot *slot)
{
    return slot->given != MUSTER_OK   ? slot->given
           : slot->ended != MUSTER_OK ? slot->ended
                                      : slot->result;
}

/* The slot's failure was one too many. */
static void note_failure_locked(struct lane_slot *slot, enum job_end end)
{
    struct muster_job *job = slot->lane->job;
    struct muster_error problem;
    muster_status status = failure_of(slot);
    const char *fix = slot->given != MUSTER_OK ? slot->problem.fix
                      : end == JOB_END_USER    ? "mend the kernel or its input"
                                               : NULL;
    muster_error_fill(
        &problem, status, slot->given != MUSTER_OK ? slot->problem.driver_code : 0, fix,
        "items %llu to %llu failed on %s: %s", (unsigned long long)slot->claim.range.begin,
        (unsigned long long)slot->claim.range.end, slot->lane->device->info.id,
        slot->given != MUSTER_OK ? slot->problem.text : muster_status_message(status));
    run_error_device(&problem, slot->lane->device);
    job_note_locked(job, &problem);
}

/* A failed stream is replaced, so that the slot can go on. */
static void renew_stream(struct lane_slot *slot)
{
    struct run_stream *stream;
    if (stream_pin(slot->lane->job->m, slot->stream, &stream, NULL) != MUSTER_OK)
        return;
    stream_renew(stream, NULL);
    stream_unpin(stream);
}

void lane_finish_locked(struct lane_slot *slot)
{
    struct run_lane *lane = slot->lane;
    struct muster_job *job = lane->job;
    lane_unlock(lane);
    see_flights_end(slot);
    if (slot->ended == MUSTER_E_STREAM_FAILED && slot->has_stream)
        renew_stream(slot);
    /* A pipeline's own accounting has said when it was at work, or nobody has. */
    if (!lane->line)
        timing_read(slot);
    lane_lock(lane);
    uint64_t now_ns = platform_clock_ns();
    loss_attempt_locked(slot);
    uint64_t due_ns = job_look_due(job->core);
    if (isolate_locked(slot, now_ns)) {
        slot->stage = STAGE_RUNNING;
        job->outstanding++;
        if (job_look_due(job->core) < due_ns)
            job_wake_locked(job);
        lane_unlock(lane);
        start_part(slot);
        lane_lock(lane);
        return;
    }
    enum job_end end = judge(slot);
    bool was_running = job_state(job->core) == JOB_RUNNING;
    enum job_verdict verdict = job_finish(job->core, slot->claim.ticket, end, now_ns);
    if (verdict == JOB_ACCEPTED)
        job->unit_buffers[slot->claim.unit] = slot->buffer;
    else
        job->free_buffers[job->free_count++] = slot->buffer;
    if (verdict == JOB_GIVEN_UP)
        job->unit_failures[slot->claim.unit] = failure_of(slot);
    if (was_running && job_state(job->core) == JOB_FAILED)
        note_failure_locked(slot, end);
    trace_attempt_locked(slot, end, verdict, now_ns);
    slot->stage = STAGE_FREE;
    lane->last_ns = now_ns;
    if (--lane->running == 0)
        lane->busy_ns += now_ns - lane->busy_since_ns;
    job_wake_locked(job);
}

bool lane_claim_locked(struct run_lane *lane, struct lane_slot *slot)
{
    struct muster_job *job = lane->job;
    uint64_t now_ns = platform_clock_ns();
    if (!job_claim(job->core, lane->index, now_ns, &slot->claim))
        return false;
    if (!job_kick(job->core, slot->claim.ticket, now_ns))
        return true;
    slot->buffer = job_take_buffer_locked(job);
    slot->ring = job->source.ring;
    /* What is said of a unit that no attempt of it comes back from. */
    job->unit_failures[slot->claim.unit] = MUSTER_E_DEVICE_LOST;
    slot->stage = STAGE_RUNNING;
    trace_kick_locked(slot, now_ns);
    job->outstanding++;
    if (lane->running++ == 0)
        lane->busy_since_ns = now_ns;
    if (lane->first_ns == 0)
        lane->first_ns = now_ns;
    /* The conductor looks for what is overdue, and has to know of this one. */
    job_wake_locked(job);
    return true;
}

/* Claims a unit and gives it to the device; false if there is none. Called with the lock. */
static bool start_next_locked(struct run_lane *lane)
{
    struct lane_slot *slot = find_slot(lane, STAGE_FREE);
    if (!slot || !lane_claim_locked(lane, slot))
        return false;
    if (slot->stage != STAGE_RUNNING)
        return true;
    lane_unlock(lane);
    start_unit(slot);
    lane_lock(lane);
    return true;
}

bool lane_may_leave_locked(const struct run_lane *lane)
{
    return lane->running == 0 || lane->job->is_abandoned;
}

/* What the lane has on its device goes back before its thread ends. */
static void leave(struct run_lane *lane)
{
    struct muster_job *job = lane->job;
    /* Closing without this thread has left all to the device. */
    if (!run_is_abandoned(job->m))
        lane_tear_down(lane);
    lane_lock(lane);
    if (--job->lane_threads == 0)
        workers_dismiss(job->workers);
    job_thread_leave_locked(job, &lane->thread);
    run_unlock(job->m);
}

static void run_units(struct run_lane *lane)
{
    struct muster_job *job = lane->job;
    /* Before any unit's clock runs: a compiler may take longer than all units together. */
    kernel_prepare(job->desc.kernel, lane->device);
    lane_lock(lane);
    for (;;) {
        struct lane_slot *finished = find_slot(lane, STAGE_FINISHED);
        if (finished) {
            lane_finish_locked(finished);
            continue;
        }
        uint64_t due_ns = job_look_due(job->core);
        if (!job->must_leave && start_next_locked(lane))
            continue;
        if (job->must_leave && lane_may_leave_locked(lane))
            break;
        /* A claim that got nothing may have brought the next look forward: the conductor's matter. */
        if (job_look_due(job->core) < due_ns)
            job_wake_locked(job);
        platform_condition_wait(&job->changed, &job->m->lock, UINT64_MAX);
    }
    lane_unlock(lane);
}

void lane_run(void *argument)
{
    struct run_lane *lane = argument;
    thread_goes_away(&lane->thread);
    if (lane->line)
        line_run(lane);
    else
        run_units(lane);
    leave(lane);
}
