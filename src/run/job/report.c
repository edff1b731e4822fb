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
        struct muster_job_device *device = &report->devices[report->device_count++];
        struct job_lane_report core;
        uint64_t busy_ns = lane->busy_ns;
        if (!job->is_over && lane->running > 0 && end_ns > lane->busy_since_ns)
            busy_ns += end_ns - lane->busy_since_ns;
        job_lane_report(job->core, i, &core);
        *device = (struct muster_job_device){ .items = core.items,
                                              .units = core.units,
                                              .retries = core.retries,
                                              .late = core.copies_lost,
                                              .busy_ns = busy_ns };
        snprintf(device->id, sizeof device->id, "%s", job->lane_ids[i]);
        device->health = core.is_lost   ? MUSTER_HEALTH_LOST
                         : core.is_hung ? MUSTER_HEALTH_SUSPECT
                                        : MUSTER_HEALTH_OK;
        if (busy_ns > 0)
            device->items_per_s = (double)core.items / (double)busy_ns * 1e9;
        loss_add_locked(&loss, lane, core.items, job->start_ns, end_ns);
    }
    loss_report(&loss, report);
}

void job_make_report_locked(const struct muster_job *job, uint64_t end_ns,
                               struct muster_report *report)
{
    *report = (struct muster_report){ .size = sizeof *report,
                                      .status = job->status,
                                      .items = job_items(job->core),
                                      .delivered = job_items_delivered(job->core),
                                      .units = job_units_made(job->core),
                                      .retries = job_retries(job->core),
                                      .makespan_ns = end_ns - job->start_ns };
    report->failed_count = job_failed_ranges(job->core, report->failed, MUSTER_JOB_FAILED_MAX);
    for (size_t i = 0; i < job->failed_count; i++)
        job_add_failed(report->failed, &report->failed_count, job->failed[i]);
    report->failed_items = job->failed_items;
    if (job->pipeline)
        pipeline_report(job, report);
    report_lanes_locked(job, end_ns, report);
}

void job_report_locked(const struct muster_job *job, struct muster_report *report)
{
    /* Units that come back late do not change it any more. */
    if (job->is_over)
        *report = job->report;
    else
        job_make_report_locked(job, platform_clock_ns(), report);
}

muster_status muster_job_report(struct muster_job *job, struct muster_report *report,
                                struct muster_error *err)
{
    if (!job || !report || report->size < sizeof *report)
        return run_bad_argument(err, "muster_job_report",
                                "an argument is NULL, or report->size is not set");
    if (run_is_forked(job->m))
        return run_say_forked(err);
    run_lock(job->m);
    job_report_locked(job, report);
    run_unlock(job->m);
    return MUSTER_OK;
}

muster_status muster_job_progress(struct muster_job *job, struct muster_progress *progress,
                                  struct muster_error *err)
{
    if (!job || !progress || progress->size < sizeof *progress)
        return run_bad_argument(err, "muster_job_progress",
                                "an argument is NULL, or progress->size is not set");
    if (run_is_forked(job->m))
        return run_say_forked(err);
    run_lock(job->m);
    uint64_t now_ns = job->is_over ? job->end_ns : platform_clock_ns();
    *progress = (struct muster_progress){ .size = sizeof *progress,
                                          .items = job_items(job->core),
                                          .delivered = job_items_delivered(job->core),
                                          .elapsed_ns = now_ns - job->start_ns,
                                          .remaining_ns = UINT64_MAX,
                                          .is_over = job->is_over };
    struct run_device *device;
    if (job_state(job->core) != JOB_RUNNING)
        job_name_missing_locked(job, progress->waits_for, &device);
    run_unlock(job->m);
    if (progress->delivered == 0 || progress->elapsed_ns == 0)
        return MUSTER_OK;
    double rate = (double)progress->delivered / (double)progress->elapsed_ns;
    progress->items_per_s = rate * 1e9;
    if (progress->items != MUSTER_ITEMS_UNKNOWN)
        progress->remaining_ns = (uint64_t)((double)(progress->items - progress->delivered) / rate);
    return MUSTER_OK;
}
