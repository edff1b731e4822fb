/*
 * What jobs tell a trace and the totals: deliveries and ends.
 */
#include "run/job/job.h"

void trace_delivery_locked(struct muster_job *job, struct muster_range range, uint64_t begin_ns,
                           muster_status status)
{
    struct muster *m = job->m;
    uint64_t items = range.end - range.begin;
    if (status == MUSTER_OK) {
        run_count(&m->counts.items_delivered, items);
        run_count(&m->counts.bytes_delivered, job->delivery_bytes);
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
                      .bytes = job->delivery_bytes,
                      .job = job->work.number,
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
                                     .job = job->work.number,
                                     .status = job->status,
                                 });
}
