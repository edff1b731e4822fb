/*
 * What jobs show on the live page: a lane whenever it takes or hands in units, what is delivered whenever
 * something is, the job itself once a millisecond at most, where its time went ten times a second at most.
 */
#include "run/job/pipeline.h"

#include <stdio.h>

#define LOSS_PAUSE_NS 100000000u
/* Between two writes of a job's own record: its lanes would fetch it from each other's cores all the time. */
#define JOB_PAUSE_NS 1000000u

void job_name(const struct muster_job *job, char *out, size_t bytes)
{
    if (!job->pipeline) {
        snprintf(out, bytes, "%s", job->desc.kernel ? kernel_name(job->desc.kernel) : "");
        return;
    }
    const struct muster_pipeline *pipeline = job->pipeline;
    size_t length = 0;
    for (uint32_t i = 0; i < pipeline->declaration.stage_count && length < bytes; i++)
        if (!(pipeline->stages[i].flags & MUSTER_COPY))
            length += (size_t)snprintf(out + length, bytes - length, "%s%s",
                                       length > 0 ? " > " : "", pipeline->stages[i].name);
}

static enum muster_live_state state_of(const struct muster_job *job)
{
    if (!job->is_over)
        return MUSTER_LIVE_RUNNING;
    return job->status == MUSTER_OK            ? MUSTER_LIVE_DONE
           : job->status == MUSTER_E_CANCELLED ? MUSTER_LIVE_CANCELLED
                                               : MUSTER_LIVE_FAILED;
}

/* `starting` of its units are counted as running in a moment. */
static void show_lane_locked(const struct muster_job *job, uint32_t index, uint32_t starting,
                             uint64_t now_ns)
{
    const struct run_lane *lane = &job->lanes[index];
    struct job_lane_report core;
    if (index >= LIVE_LANES)
        return;
    job_lane_report(job->core, index, &core);
    uint32_t running = lane->running + starting;
    struct live_lane shown = { .job = job->work.number,
                               .health = core.is_lost          ? MUSTER_HEALTH_LOST
                                         : core.is_hung        ? MUSTER_HEALTH_SUSPECT
                                         : core.is_quarantined ? MUSTER_HEALTH_QUARANTINED
                                                               : MUSTER_HEALTH_OK,
                               .items = core.items,
                               .units = core.units,
                               .retries = core.retries,
                               .late = core.copies_lost,
                               .running = running,
                               .busy_ns = lane->busy_ns,
                               .busy_since_ns = lane->running > 0 ? lane->busy_since_ns
                                                : running > 0     ? now_ns
                                                                  : 0,
                               .faster_without = core.faster_without };
    memcpy(shown.device, job->lane_ids[index], sizeof shown.device);
    live_put(job->m->live.page->jobs[job->live.place].lanes[index].words, &shown,
             LIVE_WORDS(live_lane));
}

static void show_job_locked(struct muster_job *job, uint32_t starting, uint64_t now_ns)
{
    const struct muster_report *loss = &job->report;
    struct live_job shown = { .number = job->work.number,
                              .state = state_of(job),
                              .status = job->is_over ? job->status : MUSTER_OK,
                              .items = job_items(job->core),
                              .delivered = job_items_delivered(job->core),
                              .units = job_units_made(job->core),
                              .retries = job_retries(job->core),
                              .running = job->work.outstanding + starting,
                              .started_ns = job->start_ns,
                              .ended_ns = job->is_over ? job->end_ns : 0,
                              .memory_bytes = (uint64_t)job->buffer_bytes * job->buffer_count +
                                              job->source.ring_bytes,
                              .lanes = job->lane_count,
                              .makespan_ns = loss->makespan_ns,
                              .bound_ns = loss->bound_ns,
                              .startup_ns = loss->startup_ns,
                              .transfer_ns = loss->transfer_ns,
                              .overhead_ns = loss->overhead_ns,
                              .starved_ns = loss->starved_ns,
                              .tail_ns = loss->tail_ns };
    memcpy(shown.name, job->live.name, sizeof shown.name);
    live_put(job->m->live.page->jobs[job->live.place].words, &shown, LIVE_WORDS(live_job));
    job->live.shown_ns = now_ns;
    job->live.retries = shown.retries;
}

static bool is_shown(const struct muster_job *job)
{
    return job->m->live.page && job->live.has_place && job->live.place < LIVE_JOBS;
}

void live_lane_locked(struct muster_job *job, uint32_t lane, uint32_t starting, uint64_t now_ns)
{
    if (!is_shown(job))
        return;
    if (!job->is_over && now_ns - job->live.reported_ns >= LOSS_PAUSE_NS) {
        job->live.reported_ns = now_ns;
        job_make_report_locked(job, now_ns, &job->report);
    }
    show_lane_locked(job, lane, starting, now_ns);
    if (now_ns - job->live.shown_ns >= JOB_PAUSE_NS || job_retries(job->core) != job->live.retries)
        show_job_locked(job, starting, now_ns);
}

void live_delivered_locked(const struct muster_job *job)
{
    if (is_shown(job))
        live_set(&job->m->live.page->jobs[job->live.place].delivered,
                 job_items_delivered(job->core));
}

static void show_all_locked(struct muster_job *job, uint64_t now_ns)
{
    for (uint32_t i = 0; i < job->lane_count; i++)
        show_lane_locked(job, i, 0, now_ns);
    show_job_locked(job, 0, now_ns);
    live_totals_locked(job->m);
}

void live_job_begin_locked(struct muster_job *job)
{
    if (!job->m->live.page)
        return;
    job->live.place = live_take_place(&job->m->live);
    job->live.has_place = true;
    job_name(job, job->live.name, sizeof job->live.name);
    /* Before the record says whose place it is. */
    live_delivered_locked(job);
    if (is_shown(job))
        show_all_locked(job, platform_clock_ns());
    else
        live_totals_locked(job->m);
}

void live_job_end_locked(struct muster_job *job)
{
    if (!job->m->live.page || !job->live.has_place)
        return;
    uint64_t now_ns = platform_clock_ns();
    live_leave_place(&job->m->live, job->live.place, now_ns);
    if (is_shown(job))
        show_all_locked(job, now_ns);
    else
        live_totals_locked(job->m);
    job->live.has_place = false;
}
