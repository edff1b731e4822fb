/*
 * What lanes tell a trace and the totals: units, stages, and devices that hang or come back.
 */
#include "run/job/conduct.h"

#include <stdio.h>

/* Of arguments that are read or written. */
static uint64_t bytes_per_item(const struct muster_job *job)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < job->desc.arg_count; i++) {
        const struct muster_arg *arg = &job->args[i];
        bool is_read = arg->kind == MUSTER_ARG_IN || arg->kind == MUSTER_ARG_INOUT;
        bytes += is_read ? arg->bytes : 0;
        bytes += job_writes(arg) ? arg->bytes : 0;
    }
    return bytes;
}

/* What the core thinks of the lane's device may have changed. */
static void tell_health_locked(struct run_lane *lane)
{
    struct job_lane_report report;
    job_lane_report(lane->job->core, lane->index, &report);
    if (report.is_hung == lane->was_hung || !lane->device)
        return;
    lane->was_hung = report.is_hung;
    trace_device_locked(lane->device,
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
                                                        : items * bytes_per_item(job),
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
