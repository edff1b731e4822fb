/*
 * What lanes tell a trace and the totals: units and stages.
 */
#include "run/lane/lane.h"

#include <stdio.h>

void trace_attempt_locked(struct lane_unit *unit, enum job_end end, enum job_verdict verdict,
                          uint64_t now_ns)
{
    struct run_lane *lane = unit->lane;
    struct muster *m = lane->work->group.m;
    bool is_done = verdict == JOB_ACCEPTED, is_late = verdict == JOB_LATE && end == JOB_END_OK;
    run_count(is_done   ? &m->counts.units_done
              : is_late ? &m->counts.units_late
                        : &m->counts.units_failed,
              1);
    if (!recording_is_on(&m->recording))
        return;
    recording_add(&m->recording, &(struct muster_trace_event){
                                     .kind = MUSTER_TRACE_UNIT,
                                     .outcome = is_done                 ? MUSTER_TRACE_DONE
                                                : end == JOB_END_DEVICE ? MUSTER_TRACE_LOST
                                                : is_late               ? MUSTER_TRACE_LATE
                                                                        : MUSTER_TRACE_FAILED,
                                     .begin_ns = unit->kicked_ns,
                                     .end_ns = now_ns,
                                     .range = unit->claim.range,
                                     .bytes = unit->copied_bytes,
                                     .device = lane->device->index,
                                     .job = lane->work->number,
                                     .status = attempt_status(&unit->attempt),
                                     .is_retry = unit->claim.is_retry,
                                     .is_copy = unit->claim.is_copy,
                                 });
}

void trace_step(const struct lane_unit *unit, enum muster_trace_kind kind, struct time_span span,
                uint32_t stream, muster_status status, const char *name)
{
    const struct run_lane *lane = unit->lane;
    struct muster *m = lane->work->group.m;
    if (!recording_is_on(&m->recording))
        return;
    struct muster_trace_event event = {
        .kind = kind,
        .outcome = status == MUSTER_OK ? MUSTER_TRACE_DONE : MUSTER_TRACE_FAILED,
        .begin_ns = span.begin_ns,
        .end_ns = span.end_ns,
        .range = unit->claim.range,
        .device = lane->device->index,
        .job = lane->work->number,
        .thread = stream,
        .status = status,
    };
    snprintf(event.name, sizeof event.name, "%s", name);
    recording_add(&m->recording, &event);
}
