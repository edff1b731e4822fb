/*
 * What the runtime tells of itself: a trace's beginning and end, and the totals. Each room has its own
 * trace.c, which tells the trace what happens there; while nothing is recorded that reads one flag.
 */
#include "run/trace.h"

#include "platform/aside.h"
#include "run/device/device.h"
#include "run/job/jobs.h"
#include "run/task/tasks.h"

#include <muster/trace.h>
#include <stdio.h>

#define CAPACITY_DEFAULT 65536u

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
    found.opening = backends_opening_locked(m) + jobs_joining_locked(m);
    run_unlock(m);
    found.trace_events = recording_count(&m->recording);
    found.trace_dropped = recording_dropped(&m->recording);
    layout_write(LAYOUT(muster_counters), out, &found);
    return MUSTER_OK;
}
