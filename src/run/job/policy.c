/*
 * Who is given a job's new units: which policy is meant, and asking the user's own. A thread of the job
 * does that, which a sink does not keep and which no device is blamed for.
 */
#include "base/allocator.h"
#include "run/job/pipeline.h"

#include <string.h>

/* By name. */
static muster_status find_named(struct muster_job *job, const char *name, struct muster_error *err)
{
    static const char *const names[] = { [JOB_ROUND_ROBIN] = "round-robin",
                                         [JOB_LEAST_LOADED] = "least-loaded",
                                         [JOB_WEIGHTED] = "weighted",
                                         [JOB_ADAPTIVE] = "adaptive",
                                         [JOB_EARLIEST_FINISH] = "earliest-finish",
                                         [JOB_STICKY] = "sticky" };
    job->places = name && strcmp(name, "claim") != 0;
    if (!job->places)
        return MUSTER_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        job->policy = (enum job_policy)i;
        if (strcmp(name, names[i]) == 0)
            return MUSTER_OK;
    }
    return muster_error_fill(err, MUSTER_E_INVALID, 0,
                             "name one of those, or give a policy of your own as user_policy",
                             "unknown policy '%.32s'; known: claim, round-robin, least-loaded, "
                             "weighted, adaptive, earliest-finish, sticky",
                             name);
}

muster_status job_find_policy(struct muster_job *job, struct muster_error *err)
{
    const struct muster_policy *own = job->options.user_policy;
    if (!own)
        return find_named(job, job->options.policy, err);
    if (job->options.policy)
        return run_bad_argument(err, "a job", "it has both a policy's name and a user_policy");
    if (policy_is_built_in(own))
        return find_named(job, own->name, err);
    job->places = true;
    job->policy = JOB_USER;
    return policy_read(own, "a job", &job->asker.policy, err);
}

uint32_t job_home(const struct muster_job *job)
{
    uint64_t best = 0;
    uint32_t home = 0;
    for (uint32_t i = 0; i < job->lane_count; i++) {
        uint64_t score = placement_affinity(job->options.affinity, job->lanes[i].device->index);
        if (score > best) {
            best = score;
            home = i;
        }
    }
    return home;
}

/* The user's own. */

/* What it is shown: of each lane that can be given the unit, its device as that is now. */
static void show_locked(struct muster_job *job, uint32_t count)
{
    struct run_asker *asker = &job->asker;
    for (uint32_t i = 0; i < count; i++) {
        const struct job_lane_view *view = &asker->views[i];
        const struct run_lane *lane = &job->lanes[view->lane];
        /* The device does not know of units yet that its lane was given and has not begun. */
        uint32_t ahead = view->held > lane->running ? view->held - lane->running : 0;
        candidate_fill_locked(lane->device, job->m->views[lane->device->index].queued + ahead,
                              &asker->candidates[i]);
        asker->shown[i] = &asker->candidates[i].shown;
    }
}

static int call_policy(struct muster_job *job, uint32_t count)
{
    const struct muster_policy *policy = &job->asker.policy;
    const struct muster_hints hints = { .size = sizeof hints, .affinity = job->options.affinity };
    struct platform_frame frame = { .kind = FRAME_POLICY, .runtime = job->m, .object = job->m };
    platform_frame_enter(&frame);
    int choice = policy->choose(policy->state, &hints, job->asker.shown, count);
    platform_frame_leave(&frame);
    return choice;
}

/* The policy chose what it was not shown: it does not know what it does. */
static void refuse_locked(struct muster_job *job, int choice, uint32_t count)
{
    struct muster_error problem;
    if (job_state(job->core) != JOB_RUNNING)
        return;
    muster_error_fill(&problem, MUSTER_E_INVALID, 0, "return a number below count",
                      "policy %.32s chose %d of %u candidates", job->asker.policy.name, choice,
                      count);
    job_note_locked(job, &problem);
    job_fail(job->core);
}

/* Has one unit placed; false if none can be. Called with the lock, which is not held meanwhile. */
static bool place_locked(struct muster_job *job)
{
    struct run_asker *asker = &job->asker;
    struct policy_call call = { .policy = &asker->policy };
    uint32_t count = job_snapshot(job->core, asker->views, platform_clock_ns());
    if (count == 0)
        return false;
    int choice = -1;
    bool is_in_turn = policy_begin_locked(job->m, &call, &job->work.must_leave);
    if (is_in_turn) {
        show_locked(job, count);
        thread_goes_away(&asker->thread);
        run_unlock(job->m);
        choice = call_policy(job, count);
        run_lock(job->m);
        thread_is_back(&asker->thread);
        policy_end_locked(job->m, &call);
    }
    bool is_one = choice >= 0 && (uint32_t)choice < count;
    job_commit(job->core, is_one ? asker->views[choice].lane : JOB_NONE, platform_clock_ns());
    if (choice >= 0 && !is_one)
        refuse_locked(job, choice, count);
    job_tell_locked(job);
    return true;
}

/* A thread. */
static void ask(void *argument)
{
    struct muster_job *job = argument;
    struct platform_frame frame = { .kind = FRAME_JOB, .runtime = job->m, .object = job };
    platform_frame_enter(&frame);
    run_lock(job->m);
    /* A job whose threads could not all be started is never known. */
    while (!job->work.must_leave)
        if (!job->is_known || !place_locked(job))
            platform_condition_wait(&job->asker.changed, &job->m->lock, UINT64_MAX);
    group_leave_locked(&job->work.group, &job->asker.thread);
    run_unlock(job->m);
    platform_frame_leave(&frame);
}

muster_status asker_set_up(struct muster_job *job, struct muster_error *err)
{
    struct run_asker *asker = &job->asker;
    const struct muster_allocator *allocator = &job->m->allocator;
    if (!asker->policy.choose)
        return MUSTER_OK;
    asker->views = allocator_take(allocator, job->lanes_max, sizeof *asker->views);
    asker->candidates = allocator_take(allocator, job->lanes_max, sizeof *asker->candidates);
    asker->shown = allocator_take(allocator, job->lanes_max, sizeof *asker->shown);
    return asker->views && asker->candidates && asker->shown ? MUSTER_OK
                                                             : run_no_memory(err, "the candidates");
}

muster_status asker_start(struct muster_job *job, struct muster_error *err)
{
    if (!job->asker.policy.choose)
        return MUSTER_OK;
    return group_start(&job->work.group, &job->asker.thread, ask, job, "muster-policy", err);
}

void asker_free(struct muster_job *job)
{
    struct run_asker *asker = &job->asker;
    const struct muster_allocator *allocator = &job->m->allocator;
    allocator_give(allocator, asker->views, job->lanes_max, sizeof *asker->views);
    allocator_give(allocator, asker->candidates, job->lanes_max, sizeof *asker->candidates);
    allocator_give(allocator, asker->shown, job->lanes_max, sizeof *asker->shown);
}
