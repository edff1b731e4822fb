/*
 * What is told of a job, while it runs and when it is over.
 */
#include "run/job/pipeline.h"

#include <stdio.h>

static void report_lanes_locked(const struct muster_job *job, uint64_t end_ns,
                                struct muster_report *report)
{
    struct loss loss = { .rate = 0 };
    for (uint32_t i = 0; i < job->lane_count; i++) {
        const struct run_lane *lane = &job->lanes[i];
        struct muster_job_device *device = &job->lane_reports[i];
        struct job_lane_report core;
        uint64_t busy_ns = lane->busy_ns;
        if (!job->is_over && lane->running > 0 && end_ns > lane->busy_since_ns)
            busy_ns += end_ns - lane->busy_since_ns;
        job_lane_report(job->core, i, &core);
        *device = (struct muster_job_device){ .size = sizeof *device,
                                              .items = core.items,
                                              .units = core.units,
                                              .retries = core.retries,
                                              .late = core.copies_lost,
                                              .busy_ns = busy_ns,
                                              .faster_without = core.faster_without };
        snprintf(device->id, sizeof device->id, "%s", job->lane_ids[i]);
        device->health = core.is_lost          ? MUSTER_HEALTH_LOST
                         : core.is_hung        ? MUSTER_HEALTH_SUSPECT
                         : core.is_quarantined ? MUSTER_HEALTH_QUARANTINED
                                               : MUSTER_HEALTH_OK;
        if (busy_ns > 0)
            device->items_per_s = (double)core.items / (double)busy_ns * 1e9;
        snprintf(device->shortage, sizeof device->shortage, "%s", lane->shortage.text);
        loss_add_locked(&loss, lane, core.items, job->start_ns, end_ns);
    }
    for (uint32_t i = job->lane_count; i < job->lane_count + job->aside_count; i++) {
        struct muster_job_device *device = &job->lane_reports[i];
        *device =
            (struct muster_job_device){ .size = sizeof *device,
                                        .faster_without = job->aside_faster[i - job->lane_count] };
        snprintf(device->id, sizeof device->id, "%s", job->lane_ids[i]);
    }
    loss_report(&loss, report);
}

void job_make_report_locked(const struct muster_job *job, uint64_t end_ns,
                            struct muster_report *report)
{
    *report = (struct muster_report){ .size = sizeof *report,
                                      .device_count = job->lane_count + job->aside_count,
                                      .status = job->status,
                                      .items = job_items(job->core),
                                      .delivered = job_items_delivered(job->core),
                                      .units = job_units_made(job->core),
                                      .retries = job_retries(job->core),
                                      .makespan_ns = end_ns - job->start_ns,
                                      .own_mathematics = job->has_own_mathematics };
    report->failed_count = job_failed_ranges(job->core, report->failed, MUSTER_JOB_FAILED_MAX);
    for (size_t i = 0; i < job->failed_count; i++)
        job_add_failed(report->failed, &report->failed_count, job->failed[i]);
    report->failed_items = job->failed_items;
    if (job->pipeline)
        pipeline_report(job, report);
    report_lanes_locked(job, end_ns, report);
}

/* Brings the report up to date. Units that come back late do not change it any more. */
static void look_again_locked(struct muster_job *job)
{
    if (!job->is_over)
        job_make_report_locked(job, platform_clock_ns(), &job->report);
}

/* Before anything is waited for: what the caller has room for. */
muster_status job_check_report(const struct muster_report *report, struct muster_error *err)
{
    if (!report)
        return MUSTER_OK;
    muster_status status = layout_check_room(LAYOUT(muster_report), report, err);
    if (status == MUSTER_OK && report->devices)
        status = layout_check_rooms(LAYOUT(muster_job_device), report->devices,
                                    report->device_capacity, err);
    return status;
}

static void write_devices_locked(const struct muster_job *job, struct muster_job_device *out,
                                 size_t capacity)
{
    for (uint32_t i = 0; i < job->lane_count + job->aside_count && i < capacity; i++)
        layout_write_at(LAYOUT(muster_job_device), out, i, &job->lane_reports[i]);
}

void job_write_report_locked(struct muster_job *job, struct muster_report *report)
{
    look_again_locked(job);
    struct muster_report filled = job->report;
    filled.devices = report->devices;
    filled.device_capacity = report->device_capacity;
    layout_write(LAYOUT(muster_report), report, &filled);
    if (report->devices)
        write_devices_locked(job, report->devices, report->device_capacity);
}

muster_status muster_job_report(struct muster_job *job, struct muster_report *report,
                                struct muster_error *err)
{
    if (!job || !report)
        return run_bad_argument(err, "muster_job_report", "an argument is NULL");
    muster_status status = job_check_report(report, err);
    if (status != MUSTER_OK)
        return status;
    if (run_is_forked(job->m))
        return run_say_forked(err);
    run_lock(job->m);
    job_write_report_locked(job, report);
    run_unlock(job->m);
    return MUSTER_OK;
}

muster_status muster_job_devices(struct muster_job *job, struct muster_job_device *out,
                                 size_t capacity, size_t *count, struct muster_error *err)
{
    if (!job || !count || (!out && capacity > 0))
        return run_bad_argument(err, "muster_job_devices", "an argument is NULL");
    muster_status status = layout_check_rooms(LAYOUT(muster_job_device), out, capacity, err);
    if (status != MUSTER_OK)
        return status;
    if (run_is_forked(job->m))
        return run_say_forked(err);
    run_lock(job->m);
    uint32_t lanes = job->lane_count + job->aside_count;
    if (lanes <= capacity) {
        look_again_locked(job);
        write_devices_locked(job, out, capacity);
    }
    run_unlock(job->m);
    *count = lanes;
    if (capacity < lanes)
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0, "give room for *count devices",
                                 "the job has %u devices, and there is room for %zu", lanes,
                                 capacity);
    return MUSTER_OK;
}

muster_status muster_job_progress(struct muster_job *job, struct muster_progress *progress,
                                  struct muster_error *err)
{
    if (!job || !progress)
        return run_bad_argument(err, "muster_job_progress", "an argument is NULL");
    muster_status status = layout_check_room(LAYOUT(muster_progress), progress, err);
    if (status != MUSTER_OK)
        return status;
    if (run_is_forked(job->m))
        return run_say_forked(err);
    run_lock(job->m);
    uint64_t now_ns = job->is_over ? job->end_ns : platform_clock_ns();
    struct muster_progress now = { .items = job_items(job->core),
                                   .delivered = job_items_delivered(job->core),
                                   .elapsed_ns = now_ns - job->start_ns,
                                   .remaining_ns = UINT64_MAX,
                                   .is_over = job->is_over };
    struct run_device *device;
    if (job_state(job->core) != JOB_RUNNING)
        job_name_missing_locked(job, now.waits_for, &device);
    run_unlock(job->m);
    if (now.delivered > 0 && now.elapsed_ns > 0) {
        double rate = (double)now.delivered / (double)now.elapsed_ns;
        now.items_per_s = rate * 1e9;
        if (now.items != MUSTER_ITEMS_UNKNOWN)
            now.remaining_ns = (uint64_t)((double)(now.items - now.delivered) / rate);
    }
    layout_write(LAYOUT(muster_progress), progress, &now);
    return MUSTER_OK;
}
