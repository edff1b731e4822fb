/*
 * Delivery: the conductor, a thread that hands results to the caller's arrays and sink, in order,
 * looks for what is overdue, and sees the lanes out.
 */
#include "run/job/pipeline.h"

#include "observe/nvtx.h"

#include <string.h>

/* Writes the items that did not fail. */
static void write_array(struct muster *m, char *to, const char *from, size_t item_bytes,
                        const muster_status *statuses, uint64_t items)
{
    for (uint64_t begin = 0, end; begin < items; begin = end) {
        bool is_good = !statuses || statuses[begin] == MUSTER_OK;
        end = statuses ? begin + 1 : items;
        while (end < items && (statuses[end] == MUSTER_OK) == is_good)
            end++;
        if (is_good)
            copiers_copy(m, to + begin * item_bytes, from + begin * item_bytes,
                         (end - begin) * item_bytes);
    }
}

static muster_status call_sink(struct muster_job *job, const struct muster_result *result)
{
    if (!job->desc.sink)
        return MUSTER_OK;
    thread_goes_away(&job->conductor);
    muster_status status = job->desc.sink(job->desc.sink_user, result);
    thread_is_back(&job->conductor);
    return status;
}

static size_t result_bytes(const struct job_result_place *output, uint64_t items)
{
    return (size_t)(output->group > 1 ? (items - 1) / output->group + 1 : items) *
           output->item_bytes;
}

/* One of the caller's units: writes the arrays and calls the sink. */
static muster_status deliver_part(struct muster_job *job, uint32_t buffer, uint32_t part,
                                  struct muster_range range, const char *supplied)
{
    const void *outputs[MUSTER_ARGS_MAX];
    size_t bytes[MUSTER_ARGS_MAX];
    uint64_t items = range.end - range.begin, before = part * job->part_items;
    const muster_status *statuses = job_statuses(job, buffer);
    statuses = statuses ? statuses + before : NULL;
    for (uint32_t i = 0; i < job->output_count; i++) {
        const struct job_result_place *output = &job->outputs[i];
        char *array = output->array ? output->array + range.begin * output->item_bytes : NULL;
        const char *from = array;
        if (buffer != JOB_NO_BUFFER)
            from = job_buffer(job, buffer) + output->offset + part * output->stride;
        if (array && from != array)
            write_array(job->m, array, from, output->item_bytes, statuses, items);
        outputs[i] = from;
        bytes[i] = job->result_bytes ? *job_result_bytes(job, buffer, i, part)
                                     : result_bytes(output, items);
        job->delivery_bytes += bytes[i];
    }
    if (statuses)
        memcpy(job->desc.each_status + range.begin, statuses, items * sizeof *statuses);
    const struct muster_result result = {
        .size = sizeof result,
        .range = range,
        .outputs = outputs,
        .output_count = job->output_count,
        .output_bytes = bytes,
        .statuses = statuses,
        .supplied = supplied ? supplied + before * job->source.item_bytes : NULL,
        .job = job,
        .buffer = buffer
    };
    return call_sink(job, &result);
}

/* One of the lane's units: the sink is given each of the caller's units in it. No lock is held. */
static muster_status deliver(struct muster_job *job, uint32_t buffer, struct muster_range range,
                             const char *supplied)
{
    muster_status status = MUSTER_OK;
    uint32_t part = 0;
    job->delivery_bytes = 0;
    for (uint64_t begin = range.begin; begin < range.end && status == MUSTER_OK; part++) {
        uint64_t end = begin + least(job->part_items, range.end - begin);
        status = deliver_part(job, buffer, part, (struct muster_range){ begin, end }, supplied);
        /* The job has ended without the sink, so the arrays belong to the caller again. */
        if (thread_is_given_up(&job->conductor))
            return status;
        begin = end;
    }
    return status;
}

/*
 * Adds a range to MUSTER_JOB_FAILED_MAX of them at most, which stay in item order and apart. One for
 * which there is no room is joined with its neighbour, and so is what lies between.
 */
void job_add_failed(struct muster_range *ranges, size_t *count, struct muster_range range)
{
    size_t first = *count;
    while (first > 0 && ranges[first - 1].end >= range.begin)
        first--;
    size_t last = first;
    while (last < *count && ranges[last].begin <= range.end)
        last++;
    if (first == last && *count == MUSTER_JOB_FAILED_MAX) {
        first -= first > 0;
        last = first + 1;
    }
    if (first < last) {
        range.begin = least(range.begin, ranges[first].begin);
        range.end = ranges[last - 1].end > range.end ? ranges[last - 1].end : range.end;
    }
    memmove(&ranges[first + 1], &ranges[last], (*count - last) * sizeof *ranges);
    ranges[first] = range;
    *count += 1 - (last - first);
}

static bool has_failed_items(const struct muster_job *job, uint32_t buffer,
                             struct muster_range range)
{
    const muster_status *statuses = job_statuses(job, buffer);
    uint64_t i = 0, items = range.end - range.begin;
    while (statuses && i < items && statuses[i] == MUSTER_OK)
        i++;
    return statuses && i < items;
}

/* Of a unit that was delivered: which of its items failed. */
static void note_statuses_locked(struct muster_job *job, uint32_t buffer, struct muster_range range)
{
    const muster_status *statuses = job_statuses(job, buffer);
    uint64_t items = range.end - range.begin;
    for (uint64_t begin = 0, end; statuses && begin < items; begin = end) {
        end = begin + 1;
        if (statuses[begin] == MUSTER_OK)
            continue;
        while (end < items && statuses[end] != MUSTER_OK)
            end++;
        const struct muster_range failed = { range.begin + begin, range.begin + end };
        if (job->failed_items == 0)
            muster_error_fill(&job->first_failed, MUSTER_E_FAILED, 0, "look at each_status",
                              "item %llu failed: %s", (unsigned long long)failed.begin,
                              muster_status_message(statuses[begin]));
        job->failed_items += end - begin;
        job_add_failed(job->failed, &job->failed_count, failed);
    }
}

/* Delivers the next result, if there is one. Called with the lock, which is not held meanwhile. */
static bool deliver_next_locked(struct muster_job *job)
{
    uint32_t unit;
    struct muster_range range;
    if (!job_next_result(job->core, &unit, &range))
        return false;
    bool has_failed = job_has_failed(job->core, unit);
    uint32_t buffer = has_failed                       ? job_take_buffer_locked(job)
                      : job_is_direct(job->core, unit) ? JOB_NO_BUFFER
                                                       : job->unit_buffers[unit];
    muster_status failure = job->unit_failures[unit];
    const struct run_source *source = &job->source;
    /*
     * Undelivered items stay in the ring. It may be left for another meanwhile, and that is not left
     * for this one again before the unit is delivered: all that is read from there lies at or after
     * the oldest undelivered item, and a ring is left to attempts that read items before that.
     */
    const char *supplied =
        source->ring && !job->pipeline ? source->ring + source_offset(source, range.begin) : NULL;
    uint64_t begin_ns = trace_clock(job->m);
    run_unlock(job->m);
    nvtx_push(NVTX_DELIVERIES, range.end - range.begin, "delivery of job %u", job->work.number);
    /* A unit of which nothing came back is delivered as what it is. */
    for (uint64_t i = 0; has_failed && i < range.end - range.begin; i++)
        job_statuses(job, buffer)[i] = failure;
    muster_status status = deliver(job, buffer, range, supplied);
    nvtx_pop();
    bool has_failures = status == MUSTER_OK && has_failed_items(job, buffer, range);
    run_lock(job->m);
    /* The job has been concluded without this result. */
    if (thread_is_given_up(&job->conductor))
        return true;
    /* Reports may be asked for at any time, so this one is written with the lock. */
    if (has_failures)
        note_statuses_locked(job, buffer, range);
    if (status == MUSTER_OK) {
        job_delivered(job->core, unit);
        job->end_ns = platform_clock_ns();
    } else {
        struct muster_error problem;
        muster_error_fill(&problem, status, 0, NULL, "the sink refused items %llu to %llu: %s",
                          (unsigned long long)range.begin, (unsigned long long)range.end,
                          muster_status_message(status));
        job_note_locked(job, &problem);
        job_sink_failed(job->core, unit);
    }
    trace_delivery_locked(job, range, begin_ns, status);
    if (!job->kept_now && buffer != JOB_NO_BUFFER)
        job->free_buffers[job->free_count++] = buffer;
    job->kept_now = NULL;
    live_delivered_locked(job);
    job_tell_locked(job);
    platform_condition_wake_all(&job->source.changed);
    return true;
}

/* The last join is the kernel's code, as those at delivery. Called with the lock, not held meanwhile. */
static void finish_reduction_locked(struct muster_job *job)
{
    run_unlock(job->m);
    thread_goes_away(&job->conductor);
    reduction_finish(job);
    thread_is_back(&job->conductor);
    run_lock(job->m);
    if (!thread_is_given_up(&job->conductor))
        reduction_write(job);
}

/* The job's own thread: delivers, looks for what is overdue, and sees the lanes out. */
void job_conduct(void *argument)
{
    struct muster_job *job = argument;
    struct platform_frame frame = { .kind = FRAME_JOB, .runtime = job->m, .object = job };
    platform_frame_enter(&frame);
    run_lock(job->m);
    while (!job->is_known)
        platform_condition_wait(&job->news, &job->m->lock, UINT64_MAX);
    while (!thread_is_given_up(&job->conductor)) {
        if (deliver_next_locked(job))
            continue;
        if (job_state(job->core) != JOB_RUNNING) {
            if (job_reduces(job) && job_state(job->core) == JOB_DONE)
                finish_reduction_locked(job);
            if (!thread_is_given_up(&job->conductor))
                job_end_locked(job);
            break;
        }
        job_look_or_wait_locked(job);
    }
    struct muster *m = job->m;
    uint64_t shown = job->range, held[MUSTER_ARGS_MAX];
    uint32_t held_count = job->is_over ? job_take_held_locked(job, held) : 0;
    if (held_count > 0) {
        run_unlock(m);
        job_let_go(m, held, held_count);
        run_lock(m);
    }
    /* The job may be gone when the lock is. */
    group_leave_locked(&job->work.group, &job->conductor);
    run_unlock(m);
    nvtx_end(shown);
    platform_frame_leave(&frame);
}
