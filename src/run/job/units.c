/*
 * How lanes take units of a job and hand them back: the core decides (core/job.h), the unit gets one of
 * the job's buffers for its results, and when it is accepted the buffer passes on with it.
 */
#include "run/job/pipeline.h"

static struct muster_job *job_of(struct lane_work *work)
{
    return (struct muster_job *)(void *)((char *)work - offsetof(struct muster_job, work));
}

static bool claim_locked(struct run_lane *lane, struct lane_unit *unit, uint64_t now_ns)
{
    struct muster_job *job = job_of(lane->work);
    struct job_claim claim;
    if (!job_claim(job->core, lane->index, now_ns, &claim))
        return false;
    if (!job_kick(job->core, claim.ticket, now_ns))
        return true;
    unit->claim = claim;
    unit->is_running = true;
    unit->buffer = job_take_buffer_locked(job);
    unit->results = job_buffer(job, unit->buffer);
    unit->statuses = job_statuses(job, unit->buffer);
    unit->result_bytes =
        job->result_bytes ? job_result_bytes(job, unit->buffer, 0, 0) : NULL;
    unit->ring = job->source.ring;
    unit->supplied =
        unit->ring ? unit->ring + source_offset(&job->source, claim.range.begin) : NULL;
    for (uint64_t i = 0; unit->statuses && i < unit_items(unit); i++)
        unit->statuses[i] = MUSTER_OK;
    /* What is said of a unit that no attempt of it comes back from. */
    job->unit_failures[claim.unit] = MUSTER_E_DEVICE_LOST;
    return true;
}

/* The unit's failure was one too many. */
static void note_failure_locked(const struct lane_unit *unit, enum job_end end)
{
    struct muster_error problem;
    muster_status status = unit_failure(unit);
    bool was_given = unit->given == MUSTER_OK;
    const char *fix = !was_given            ? unit->problem.fix
                      : end == JOB_END_USER ? "mend the kernel or its input"
                                            : NULL;
    muster_error_fill(&problem, status, was_given ? 0 : unit->problem.driver_code, fix,
                      "items %llu to %llu failed on %s: %s",
                      (unsigned long long)unit->claim.range.begin,
                      (unsigned long long)unit->claim.range.end, unit->lane->device->info.id,
                      was_given ? muster_status_message(status) : unit->problem.text);
    run_error_device(&problem, unit->lane->device);
    job_note_locked(job_of(unit->lane->work), &problem);
}

static void finish_locked(struct lane_unit *unit, enum job_end end, uint64_t now_ns)
{
    struct muster_job *job = job_of(unit->lane->work);
    bool was_running = job_state(job->core) == JOB_RUNNING;
    enum job_verdict verdict = job_finish(job->core, unit->claim.ticket, end, now_ns);
    if (verdict == JOB_ACCEPTED)
        job->unit_buffers[unit->claim.unit] = unit->buffer;
    else
        job->free_buffers[job->free_count++] = unit->buffer;
    if (verdict == JOB_GIVEN_UP)
        job->unit_failures[unit->claim.unit] = unit_failure(unit);
    if (was_running && job_state(job->core) == JOB_FAILED)
        note_failure_locked(unit, end);
    trace_attempt_locked(unit, end, verdict, now_ns);
}

static void tell_locked(struct lane_work *work)
{
    job_wake_locked(job_of(work));
}

static void look_locked(struct lane_work *work, uint64_t now_ns)
{
    job_look_locked(job_of(work), now_ns);
}

static muster_status hold_kernel(struct lane_work *work, struct muster_kernel *kernel,
                                 struct muster_error *err)
{
    return job_hold_kernel(job_of(work), kernel, err);
}

const struct lane_calls job_lane_calls = { .claim_locked = claim_locked,
                                           .finish_locked = finish_locked,
                                           .tell_locked = tell_locked,
                                           .look_locked = look_locked,
                                           .hold_kernel = hold_kernel };

/* A thread of the job's has left. */
void job_thread_left_locked(struct thread_group *group)
{
    /* The group is the first that lanes share. */
    job_wake_locked(job_of((struct lane_work *)(void *)group));
}
