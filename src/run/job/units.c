/*
 * How lanes take units of a job and hand them back: the core decides (core/job.h), the unit gets one of
 * the job's buffers for its results, and when it is accepted the buffer passes on with it.
 */
#include "run/job/pipeline.h"

#include <stdio.h>

static struct muster_job *job_of(struct lane_work *work)
{
    return (struct muster_job *)(void *)((char *)work - offsetof(struct muster_job, work));
}

/* The unit has a claim: gives it what it works with. */
static void equip_locked(struct muster_job *job, struct lane_unit *unit,
                         const struct job_claim *claim)
{
    unit->claim = *claim;
    unit->is_running = true;
    unit->buffer = claim->is_direct ? JOB_NO_BUFFER : job_take_buffer_locked(job);
    unit->results = claim->is_direct ? NULL : job_buffer(job, unit->buffer);
    unit->statuses = claim->is_direct ? NULL : job_statuses(job, unit->buffer);
    unit->result_bytes = job->result_bytes ? job_result_bytes(job, unit->buffer, 0, 0) : NULL;
    unit->ring = job->source.ring;
    unit->supplied =
        unit->ring ? unit->ring + source_offset(&job->source, claim->range.begin) : NULL;
    /* What is said of a unit that no attempt of it comes back from. */
    job->unit_failures[claim->unit] = MUSTER_E_DEVICE_LOST;
}

/* How the device's process ended, in brackets of a sentence: ": SIGSEGV at 0x0 in scale". */
static void explain(const struct lane_unit *unit, char *text, size_t bytes)
{
    const struct run_device *device = unit->lane->device;
    char how[160] = "";
    if (attempt_is_blamed(&unit->attempt))
        device->backend->table.device_explain(device->state, how, sizeof how);
    snprintf(text, bytes, "%s%s", *how ? ": " : "", how);
}

static void fatal_locked(struct lane_unit *unit)
{
    char how[160];
    struct run_lane *lane = unit->lane;
    uint64_t item = unit->claim.range.begin + unit->fatal;
    lane->device->backend->table.device_explain(lane->device->state, how, sizeof how);
    snprintf(lane->told, sizeof lane->told, "item %llu on %s: %s", (unsigned long long)item,
             lane->device->info.id, *how ? how : "it ended its device's process");
}

/* The unit's failure was one too many. */
static void note_failure_locked(const struct lane_unit *unit, enum job_end end)
{
    struct muster_error problem;
    char how[168], what[64];
    muster_status status = attempt_status(&unit->attempt);
    uint64_t begin = unit->claim.range.begin, fatal = begin + unit->fatal;
    explain(unit, how, sizeof how);
    if (unit->fatal != UINT64_MAX)
        snprintf(what, sizeof what, "item %llu", (unsigned long long)fatal);
    else
        snprintf(what, sizeof what, "items %llu to %llu", (unsigned long long)begin,
                 (unsigned long long)unit->claim.range.end);
    bool was_given = unit->attempt.given == MUSTER_OK;
    const char *fix = !was_given            ? unit->problem.fix
                      : end == JOB_END_USER ? "correct the kernel or its input"
                                            : NULL;
    muster_error_fill(&problem, status, was_given ? 0 : unit->problem.driver_code, fix,
                      "%s failed on %s: %s%s", what, unit->lane->device->info.id,
                      was_given ? muster_status_message(status) : unit->problem.text, how);
    run_error_device(&problem, unit->lane->device);
    job_note_locked(job_of(unit->lane->work), &problem);
}

/* What the core made of an attempt: its buffer goes to whom it belongs now. */
static void settle_locked(struct muster_job *job, const struct lane_ended *ended,
                          enum job_verdict verdict, uint64_t now_ns)
{
    struct lane_unit *unit = ended->unit;
    if (verdict == JOB_ACCEPTED)
        job->unit_buffers[unit->claim.unit] = unit->buffer;
    else if (unit->buffer != JOB_NO_BUFFER)
        job->free_buffers[job->free_count++] = unit->buffer;
    if (verdict == JOB_GIVEN_UP)
        job->unit_failures[unit->claim.unit] = attempt_status(&unit->attempt);
    if (verdict == JOB_REFUSED)
        note_failure_locked(unit, ended->end);
    trace_attempt_locked(unit, ended->end, verdict, now_ns);
}

static uint32_t step_locked(struct run_lane *lane, const struct lane_ended *ended,
                            uint32_t ended_count, struct lane_unit *const *places,
                            uint32_t place_count, uint64_t now_ns)
{
    struct muster_job *job = job_of(lane->work);
    struct job_ended ends[LANE_DEPTH_MAX];
    struct job_claim claims[LANE_DEPTH_MAX];
    struct job_round round = { .ends = ends,
                               .end_count = ended_count,
                               .claims = claims,
                               .claim_max = place_count,
                               .start_max = place_count };
    for (uint32_t i = 0; i < ended_count; i++)
        ends[i] = (struct job_ended){ .ticket = ended[i].unit->claim.ticket,
                                      .end = ended[i].end,
                                      .done = ended[i].done };
    bool was_running = job_state(job->core) == JOB_RUNNING;
    job_step(job->core, lane->index, &round, now_ns);
    for (uint32_t i = 0; i < ended_count; i++)
        settle_locked(job, &ended[i], ends[i].verdict, now_ns);
    /* No device is left: the last one's failure is why. */
    if (was_running && job_state(job->core) == JOB_FAILED && ended_count > 0)
        note_failure_locked(ended[ended_count - 1].unit, ended[ended_count - 1].end);
    uint32_t count = 0;
    for (uint32_t i = 0; i < round.claim_count; i++)
        if (claims[i].is_started)
            equip_locked(job, places[count++], &claims[i]);
    job_tell_locked(job);
    /* The source may go on where nobody reads any more. */
    if (ended_count > 0)
        platform_condition_wake_all(&job->source.changed);
    live_lane_locked(job, lane->index, count, now_ns);
    return count;
}

void job_tell_locked(struct muster_job *job)
{
    uint32_t news = job_news(job->core, platform_clock_ns());
    if (news & JOB_NEWS_OVER)
        job_wake_locked(job);
    if (news & (JOB_NEWS_RESULT | JOB_NEWS_LOOK))
        platform_condition_wake_all(&job->news);
    if (news & JOB_NEWS_PLACE)
        platform_condition_wake_all(&job->asker.changed);
    for (uint32_t lane = 0; (news & JOB_NEWS_LANES) && lane != JOB_NONE;) {
        lane = job_wake_lane(job->core);
        if (lane != JOB_NONE)
            lane_wake_locked(&job->lanes[lane]);
    }
}

static void tell_locked(struct lane_work *work)
{
    job_tell_locked(job_of(work));
}

static void look_locked(struct lane_work *work, uint64_t now_ns)
{
    job_look_locked(job_of(work), now_ns);
}

/* So often a lane tries when nobody has anything to give back: the last may just have done it. */
#define VAIN_MAX 3u

bool job_has_hope_locked(const struct muster_job *job)
{
    uint32_t i = 0;
    while (i < job->lane_count && !job->lanes[i].has_all && !short_may_end_locked(&job->lanes[i]))
        i++;
    return i < job->lane_count || joining_has_hope_locked(job);
}

/* Whether a lane of the job's, or another job, has something there. */
static bool do_others_hold_locked(const struct muster_job *job)
{
    uint32_t i = 0;
    while (i < job->lane_count && job->lanes[i].device->lanes == 0)
        i++;
    return i < job->lane_count;
}

static void short_locked(struct run_lane *lane)
{
    struct muster_job *job = job_of(lane->work);
    uint64_t now_ns = platform_clock_ns();
    if (job->short_since_ns == 0 || do_others_hold_locked(job))
        job->short_since_ns = now_ns;
    /* Other jobs end some time; a driver that is never done with freed memory does not: fault_cuda_calls. */
    bool has_hope =
        job_has_hope_locked(job) && now_ns - job->short_since_ns < job->m->options.close_ns;
    job->vain = has_hope ? 0 : job->vain + 1;
    if (job->vain < VAIN_MAX * job->lane_count || job_state(job->core) != JOB_RUNNING)
        return;
    job_note_locked(job, &lane->shortage);
    job_fail(job->core);
    job_wake_locked(job);
}

static muster_status hold_kernel(struct lane_work *work, struct muster_kernel *kernel,
                                 struct muster_error *err)
{
    return job_hold_kernel(job_of(work), kernel, err);
}

const struct lane_calls job_lane_calls = { .step_locked = step_locked,
                                           .tell_locked = tell_locked,
                                           .look_locked = look_locked,
                                           .fatal_locked = fatal_locked,
                                           .short_locked = short_locked,
                                           .joined_locked = job_joined_locked,
                                           .hold_kernel = hold_kernel };

/* A thread of the job's has left. */
void job_thread_left_locked(struct thread_group *group)
{
    /* The group is the first that lanes share. */
    job_wake_locked(job_of((struct lane_work *)(void *)group));
}
