/*
 * What the runtime tells of itself: the events that go into a trace, the trace's beginning and end,
 * and the totals. The places that tell are one line each; while nothing is recorded they read one
 * flag.
 */
#include "run/job/conduct.h"

#include "platform/aside.h"

#include <muster/trace.h>
#include <stdio.h>

#define CAPACITY_DEFAULT 65536u

/* Units. */

static uint64_t bytes_per_item(const struct muster_job *job, bool counts_reads)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < job->desc.arg_count; i++) {
        const struct muster_arg *arg = &job->args[i];
        bool is_read = arg->kind == MUSTER_ARG_IN || arg->kind == MUSTER_ARG_INOUT;
        bytes += is_read && counts_reads ? arg->bytes : 0;
        bytes += job_writes(arg) ? arg->bytes : 0;
    }
    return bytes;
}

static void tell_device_locked(const struct run_device *device, enum muster_trace_kind kind,
                               uint32_t job, uint64_t bytes)
{
    struct muster *m = device->m;
    if (!recording_is_on(&m->recording))
        return;
    uint64_t now_ns = platform_clock_ns();
    recording_add(&m->recording, &(struct muster_trace_event){ .kind = kind,
                                                               .begin_ns = now_ns,
                                                               .end_ns = now_ns,
                                                               .bytes = bytes,
                                                               .device = device->index,
                                                               .job = job });
}

/* What the core thinks of the lane's device may have changed. */
static void tell_health_locked(struct run_lane *lane)
{
    struct job_lane_report report;
    job_lane_report(lane->job->core, lane->index, &report);
    if (report.is_hung == lane->was_hung || !lane->device)
        return;
    lane->was_hung = report.is_hung;
    tell_device_locked(lane->device,
                       report.is_hung ? MUSTER_TRACE_DEVICE_HUNG : MUSTER_TRACE_DEVICE_BACK,
                       lane->job->number, 0);
}

void trace_look_locked(struct muster_job *job)
{
    for (uint32_t i = 0; recording_is_on(&job->m->recording) && i < job->lane_count; i++)
        tell_health_locked(&job->lanes[i]);
}

void trace_kick_locked(struct lane_slot *slot, uint64_t now_ns)
{
    slot->kicked_ns = now_ns;
    run_count(&slot->lane->job->m->counts.units_started, 1);
}

void trace_attempt_locked(struct lane_slot *slot, enum job_end end, enum job_verdict verdict,
                          uint64_t now_ns)
{
    const struct run_lane *lane = slot->lane;
    const struct muster_job *job = lane->job;
    struct muster *m = job->m;
    bool is_done = verdict == JOB_ACCEPTED, is_late = verdict == JOB_LATE && end == JOB_END_OK;
    run_count(is_done   ? &m->counts.units_done
              : is_late ? &m->counts.units_late
                        : &m->counts.units_failed,
              1);
    if (!recording_is_on(&m->recording))
        return;
    uint64_t items = slot->claim.range.end - slot->claim.range.begin;
    recording_add(&m->recording,
                  &(struct muster_trace_event){
                      .kind = MUSTER_TRACE_UNIT,
                      .outcome = is_done                 ? MUSTER_TRACE_DONE
                                 : end == JOB_END_DEVICE ? MUSTER_TRACE_LOST
                                 : is_late               ? MUSTER_TRACE_LATE
                                                         : MUSTER_TRACE_FAILED,
                      .begin_ns = slot->kicked_ns,
                      .end_ns = now_ns,
                      .range = slot->claim.range,
                      .bytes = job->pipeline            ? slot->copied_bytes
                               : lane->uses_host_memory ? 0
                                                        : items * bytes_per_item(job, true),
                      .device = lane->device->index,
                      .job = job->number,
                      .status = slot->given != MUSTER_OK   ? slot->given
                                : slot->ended != MUSTER_OK ? slot->ended
                                                           : slot->result,
                      .is_retry = slot->claim.is_retry,
                      .is_copy = slot->claim.is_copy,
                  });
    tell_health_locked(slot->lane);
}

void trace_step(const struct lane_slot *slot, enum muster_trace_kind kind, struct time_span span,
                uint32_t stream, muster_status status, const char *name)
{
    const struct run_lane *lane = slot->lane;
    struct muster *m = lane->job->m;
    if (!recording_is_on(&m->recording))
        return;
    struct muster_trace_event event = {
        .kind = kind,
        .outcome = status == MUSTER_OK ? MUSTER_TRACE_DONE : MUSTER_TRACE_FAILED,
        .begin_ns = span.begin_ns,
        .end_ns = span.end_ns,
        .range = slot->claim.range,
        .device = lane->device->index,
        .job = lane->job->number,
        .thread = stream,
        .status = status,
    };
    snprintf(event.name, sizeof event.name, "%s", name);
    recording_add(&m->recording, &event);
}

/* Jobs. */

void trace_delivery_locked(struct muster_job *job, struct muster_range range, uint64_t begin_ns,
                           muster_status status)
{
    struct muster *m = job->m;
    uint64_t items = range.end - range.begin;
    uint64_t bytes = job->pipeline ? job->delivery_bytes : items * bytes_per_item(job, false);
    if (status == MUSTER_OK) {
        run_count(&m->counts.items_delivered, items);
        run_count(&m->counts.bytes_delivered, bytes);
    }
    /* One that began before the recording is not in it. */
    if (begin_ns == 0)
        return;
    recording_add(&m->recording,
                  &(struct muster_trace_event){
                      .kind = MUSTER_TRACE_DELIVERY,
                      .outcome = status == MUSTER_OK ? MUSTER_TRACE_DONE : MUSTER_TRACE_FAILED,
                      .begin_ns = begin_ns,
                      .end_ns = status == MUSTER_OK ? job->end_ns : platform_clock_ns(),
                      .range = range,
                      .bytes = bytes,
                      .job = job->number,
                      .status = status,
                  });
}

void trace_job_locked(const struct muster_job *job)
{
    struct muster *m = job->m;
    bool is_done = job->status == MUSTER_OK;
    run_count(is_done ? &m->counts.jobs_done : &m->counts.jobs_failed, 1);
    recording_add(&m->recording, &(struct muster_trace_event){
                                     .kind = MUSTER_TRACE_JOB,
                                     .outcome = is_done ? MUSTER_TRACE_DONE : MUSTER_TRACE_FAILED,
                                     .begin_ns = job->start_ns,
                                     .end_ns = job->end_ns,
                                     .range = { 0, job->desc.items },
                                     .job = job->number,
                                     .status = job->status,
                                 });
}

/* Devices. */

void trace_lost_locked(const struct run_device *device)
{
    tell_device_locked(device, MUSTER_TRACE_DEVICE_LOST, 0, 0);
}

void trace_data_locked(const struct run_device *device, uint64_t bytes)
{
    run_count(&device->m->counts.data_loads, 1);
    tell_device_locked(device, MUSTER_TRACE_DATA, 0, bytes);
}

void trace_pick_locked(struct muster *m, uint32_t device)
{
    if (device < m->device_count)
        tell_device_locked(m->devices[device], MUSTER_TRACE_PICK, 0, 0);
}

/* Tasks. */

void trace_task(struct muster *m, uint64_t begin_ns, muster_status status)
{
    static _Atomic uint32_t thread_count;
    static _Thread_local uint32_t thread;
    /* Relaxed: the numbers only have to differ. */
    if (thread == 0)
        thread = atomic_fetch_add_explicit(&thread_count, 1, memory_order_relaxed) + 1;
    recording_add(&m->recording,
                  &(struct muster_trace_event){
                      .kind = MUSTER_TRACE_TASK,
                      .outcome = status == MUSTER_OK ? MUSTER_TRACE_DONE : MUSTER_TRACE_FAILED,
                      .begin_ns = begin_ns,
                      .end_ns = platform_clock_ns(),
                      .thread = thread,
                      .status = status,
                  });
}

void trace_kernel_task_locked(const struct run_device *device, uint64_t begin_ns, uint64_t end_ns,
                              uint64_t items, muster_status status, bool is_retry)
{
    bool is_device = muster_status_discards(status) == MUSTER_DISCARD_DEVICE;
    recording_add(&device->m->recording,
                  &(struct muster_trace_event){ .kind = MUSTER_TRACE_TASK,
                                                .outcome = status == MUSTER_OK ? MUSTER_TRACE_DONE
                                                           : is_device         ? MUSTER_TRACE_LOST
                                                                       : MUSTER_TRACE_FAILED,
                                                .begin_ns = begin_ns,
                                                .end_ns = end_ns,
                                                .range = { 0, items },
                                                .device = device->index,
                                                .status = status,
                                                .is_retry = is_retry });
}

/* The trace. */

static muster_status no_trace(struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, "call muster_trace_start first",
                             "there is no trace");
}

muster_status muster_trace_start(struct muster *m, const struct muster_trace_options *options,
                                 struct muster_error *err)
{
    struct muster_trace_options how = { .size = sizeof how };
    if (!m)
        return run_bad_argument(err, "muster_trace_start", "m is NULL");
    muster_status known =
        options ? layout_read(LAYOUT(muster_trace_options), options, &how, err) : MUSTER_OK;
    if (known != MUSTER_OK)
        return known;
    if (run_is_forked(m))
        return run_say_forked(err);
    uint64_t capacity = how.capacity > 0 ? how.capacity : CAPACITY_DEFAULT;
    run_lock(m);
    bool is_there = m->is_trace_taken || m->recording.places;
    m->is_trace_taken = m->is_trace_taken || !is_there;
    run_unlock(m);
    if (is_there)
        return muster_error_fill(err, MUSTER_E_BUSY, 0, "call muster_trace_stop first",
                                 "a trace is there already");
    bool has_memory = capacity <= SIZE_MAX &&
                      recording_start(&m->recording, &m->allocator, capacity, platform_clock_ns());
    run_lock(m);
    m->is_trace_taken = false;
    run_unlock(m);
    if (has_memory)
        return MUSTER_OK;
    return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, "ask for a smaller capacity",
                             "no host memory for a trace of %llu events",
                             (unsigned long long)capacity);
}

/* Keeps the trace from others for the length of a call, with no lock held meanwhile. */
static muster_status take_trace(struct muster *m, struct muster_error *err)
{
    run_lock(m);
    bool is_taken = m->is_trace_taken, is_there = !is_taken && m->recording.places;
    m->is_trace_taken = is_taken || is_there;
    run_unlock(m);
    if (is_taken)
        return muster_error_fill(err, MUSTER_E_BUSY, 0, "try again",
                                 "another thread reads or stops the trace");
    return is_there ? MUSTER_OK : no_trace(err);
}

static void give_trace(struct muster *m)
{
    run_lock(m);
    m->is_trace_taken = false;
    run_unlock(m);
}

static void add_to_writer(void *user, const struct muster_trace_event *event)
{
    muster_trace_writer_add(user, event);
}

static void name_devices(struct muster *m, struct muster_trace_writer *writer)
{
    /* Devices are only added, and what they are called never changes. */
    run_lock(m);
    uint32_t count = m->device_count;
    run_unlock(m);
    for (uint32_t i = 0; i < count; i++)
        muster_trace_writer_name(writer, i, m->devices[i]->info.id, m->devices[i]->info.name);
}

static muster_status write_trace(struct muster *m,
                                 muster_status (*write)(void *user, const char *text, size_t bytes),
                                 void *user, struct muster_error *err)
{
    const struct muster_trace_writer_options options = { .size = sizeof options,
                                                         .write = write,
                                                         .user = user,
                                                         .origin_ns = m->recording.origin_ns,
                                                         .allocator = &m->allocator };
    struct muster_trace_writer *writer;
    muster_status status = muster_trace_writer_create(&options, &writer, err);
    if (status != MUSTER_OK)
        return status;
    recording_read(&m->recording, add_to_writer, writer);
    name_devices(m, writer);
    status = muster_trace_writer_end(writer, recording_dropped(&m->recording), err);
    muster_trace_writer_destroy(writer);
    return status;
}

muster_status muster_trace_write(struct muster *m,
                                 muster_status (*write)(void *user, const char *text, size_t bytes),
                                 void *user, struct muster_error *err)
{
    if (!m || !write)
        return run_bad_argument(err, "muster_trace_write", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = take_trace(m, err);
    if (status != MUSTER_OK)
        return status;
    status = write_trace(m, write, user, err);
    give_trace(m);
    return status;
}

muster_status muster_trace_events(struct muster *m,
                                  void (*event)(void *user, const struct muster_trace_event *event),
                                  void *user, uint64_t *dropped, struct muster_error *err)
{
    if (!m || !event)
        return run_bad_argument(err, "muster_trace_events", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = take_trace(m, err);
    if (status != MUSTER_OK)
        return status;
    recording_read(&m->recording, event, user);
    if (dropped)
        *dropped = recording_dropped(&m->recording);
    give_trace(m);
    return MUSTER_OK;
}

/* A file, and why it could not be written, which the writer does not keep. */
struct target {
    struct platform_aside file;
    struct muster_error problem;
};

static muster_status write_to_file(void *user, const char *text, size_t bytes)
{
    struct target *target = user;
    return platform_aside_write(&target->file, text, bytes, &target->problem);
}

static muster_status save(struct muster *m, const char *path, struct muster_error *err)
{
    struct target target = { .problem = { .status = MUSTER_OK } };
    muster_status status = platform_aside_open(&target.file, path, 0, err);
    if (status != MUSTER_OK)
        return status;
    status = write_trace(m, write_to_file, &target, err);
    if (status == MUSTER_OK)
        return platform_aside_commit(&target.file, err);
    platform_aside_discard(&target.file);
    if (err && target.problem.status != MUSTER_OK)
        *err = target.problem;
    return status;
}

muster_status muster_trace_stop(struct muster *m, const char *path, struct muster_error *err)
{
    if (!m)
        return run_bad_argument(err, "muster_trace_stop", "m is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = take_trace(m, err);
    if (status != MUSTER_OK)
        return status;
    recording_stop(&m->recording);
    if (path)
        status = save(m, path, err);
    if (status == MUSTER_OK)
        recording_discard(&m->recording, &m->allocator);
    give_trace(m);
    return status;
}

void trace_destroy(struct muster *m)
{
    recording_stop(&m->recording);
    recording_discard(&m->recording, &m->allocator);
}

/* Totals. */

static uint64_t total(const _Atomic uint64_t *counter)
{
    /* Relaxed: each is exact by itself. */
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void count_devices_locked(const struct muster *m, struct muster_counters *out)
{
    out->devices = m->device_count;
    out->picks = m->decision_count;
    for (uint32_t i = 0; i < m->device_count; i++) {
        const struct run_device *device = m->devices[i];
        out->devices_lost += device->health == MUSTER_HEALTH_LOST;
        out->launches += device->dispatched;
        out->launches_done += device->completed;
        out->launches_failed += device->failed;
    }
    /* Devices count units; of a pipeline's each has any number of launches, or none. */
    const struct run_counts *counts = &m->counts;
    out->launches += total(&counts->line_launches) - total(&counts->line_units);
    out->launches_done += total(&counts->line_launches_done) - total(&counts->line_units_done);
    out->launches_failed +=
        total(&counts->line_launches_failed) - total(&counts->line_units_failed);
}

muster_status muster_counters(struct muster *m, struct muster_counters *out,
                              struct muster_error *err)
{
    if (!m || !out)
        return run_bad_argument(err, "muster_counters", "an argument is NULL");
    muster_status status = layout_check_room(LAYOUT(muster_counters), out, err);
    if (status != MUSTER_OK)
        return status;
    if (run_is_forked(m))
        return run_say_forked(err);
    const struct run_counts *counts = &m->counts;
    struct muster_counters found = {
        .size = sizeof found,
        .jobs_started = total(&counts->jobs_started),
        .jobs_done = total(&counts->jobs_done),
        .jobs_failed = total(&counts->jobs_failed),
        .units_started = total(&counts->units_started),
        .units_done = total(&counts->units_done),
        .units_late = total(&counts->units_late),
        .units_failed = total(&counts->units_failed),
        .items_delivered = total(&counts->items_delivered),
        .bytes_delivered = total(&counts->bytes_delivered),
        .bytes_in = total(&counts->bytes_in),
        .bytes_out = total(&counts->bytes_out),
        .data_loads = total(&counts->data_loads),
        .kernels_built = total(&counts->kernels_built),
    };
    tasks_count(m, &found.tasks_submitted, &found.tasks_ended);
    run_lock(m);
    count_devices_locked(m, &found);
    run_unlock(m);
    found.trace_events = recording_count(&m->recording);
    found.trace_dropped = recording_dropped(&m->recording);
    layout_write(LAYOUT(muster_counters), out, &found);
    return MUSTER_OK;
}
