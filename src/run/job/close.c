/*
 * What is left of a job when it is destroyed, and jobs when the runtime closes.
 */
#include "run/job/pipeline.h"

/* muster_close waits so long for a thread that is away, in case it returns at once. */
#define ABANDON_GRACE_NS 100000000u

/* Whether threads are left that the job's end has not waited for. */
static bool has_left_behind_locked(const struct muster_job *job)
{
    bool has = thread_is_given_up(&job->conductor) || thread_is_given_up(&job->asker.thread) ||
               source_has_thread(job, thread_is_given_up) || joining_is_inside_locked(job);
    for (uint32_t i = 0; i < job->lane_count; i++)
        has = has || thread_is_given_up(&job->lanes[i].thread);
    return has;
}

/* The job is over: leaves it to those threads that were not waited for, or frees it. */
void job_leave(struct muster_job *job)
{
    struct muster *m = job->m;
    run_lock(m);
    if (job->work.lane_threads == 0)
        workers_dismiss(job->work.workers);
    while (job->work.group.threads > 0 && !has_left_behind_locked(job))
        platform_condition_wait(&job->changed, &m->lock, UINT64_MAX);
    job->next = m->jobs_left;
    m->jobs_left = job;
    run_unlock(m);
    jobs_free_left(m);
}

void jobs_free_left(struct muster *m)
{
    struct muster_job *gone = NULL;
    run_lock(m);
    for (struct muster_job **at = &m->jobs_left; *at;) {
        struct muster_job *job = *at;
        if (job->work.group.threads > 0 || job->work.outstanding > 0) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        job->next = gone;
        gone = job;
    }
    run_unlock(m);
    while (gone) {
        struct muster_job *job = gone;
        gone = job->next;
        platform_condition_deinit(&job->asker.changed);
        platform_condition_deinit(&job->source.changed);
        platform_condition_deinit(&job->news);
        platform_condition_deinit(&job->changed);
        job_free(job);
    }
}

void jobs_destroy_unwanted(struct muster *m)
{
    struct muster_job *job;
    do {
        run_lock(m);
        job = m->jobs;
        while (job && !(job->is_unwanted && job->is_over))
            job = job->next;
        if (job)
            job->is_unwanted = false;
        run_unlock(m);
        muster_job_destroy(job);
    } while (job);
}

void muster_job_destroy(struct muster_job *job)
{
    if (!job || run_is_forked(job->m))
        return;
    struct muster *m = job->m;
    muster_job_cancel(job);
    run_lock(m);
    job->is_unwanted = !job->is_over && job_is_within(job);
    bool is_later = job->is_unwanted;
    run_unlock(m);
    if (is_later)
        return;
    muster_job_wait(job, NULL, NULL);
    files_leave_job(job);
    run_lock(m);
    while (job->users > 0)
        platform_condition_wait(&job->changed, &m->lock, UINT64_MAX);
    struct muster_job **at = &m->jobs;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    run_unlock(m);
    job_leave(job);
}

/* Whether a thread of the job's has something of ours to do before it is away or has left. */
static bool is_busy_locked(const struct job_thread *thread)
{
    return thread->state == THREAD_INSIDE &&
           !atomic_load_explicit(&thread->is_away, memory_order_relaxed);
}

static bool has_busy_threads_locked(const struct muster_job *job)
{
    bool has = is_busy_locked(&job->conductor) || is_busy_locked(&job->asker.thread) ||
               is_busy_locked(&job->joining.thread) || source_has_thread(job, is_busy_locked);
    for (uint32_t i = 0; i < job->lane_count; i++)
        has = has || is_busy_locked(&job->lanes[i].thread);
    return has;
}

/*
 * Waits for the threads of a job that was given up, as long as it has time; then tells them to leave,
 * and counts those that are away. Called with the lock.
 */
static void abandon_locked(struct muster_job *job, struct jobs_lost *lost)
{
    struct muster *m = job->m;
    char missing[JOB_MISSING_BYTES];
    struct run_device *device;
    while (job->work.group.threads > 0 &&
           platform_condition_wait(&job->changed, &m->lock, job->give_up_ns)) {}
    if (job_name_missing_locked(job, missing, &device) && !*lost->what.text) {
        muster_error_fill(&lost->what, MUSTER_E_DEVICE_HUNG, 0, NULL, "%s", missing);
        if (device)
            run_error_device(&lost->what, device);
    }
    for (uint32_t i = 0; i < job->lane_count; i++)
        if (job->lanes[i].thread.state == THREAD_INSIDE)
            job->lanes[i].device->had_its_time = true;
    job->work.is_abandoned = true;
    job_wake_locked(job);
    /* A thread that is away may be so for a moment only. */
    uint64_t grace_ns = platform_deadline_ns(ABANDON_GRACE_NS);
    while (job->work.group.threads > 0 &&
           (platform_clock_ns() < grace_ns || has_busy_threads_locked(job)))
        platform_condition_wait(&job->changed, &m->lock, platform_clock_ns() + JOB_LOOK_AGAIN_NS);
    lost->threads += job->work.group.threads;
    lost->in_user_code += job->work.group.threads - job->work.lane_threads;
}

void jobs_cancel_all(struct muster *m)
{
    run_lock(m);
    m->is_closing = true;
    for (struct muster_job *job = m->jobs; job; job = job->next)
        job_cancel_locked(job);
    run_unlock(m);
}

void jobs_await_all(struct muster *m)
{
    run_lock(m);
    for (struct muster_job *job = m->jobs; job;) {
        if (job->is_over) {
            job = job->next;
            continue;
        }
        job->users++;
        job_wait_until_over_locked(job, UINT64_MAX);
        job->users--;
        job_wake_locked(job);
        job = m->jobs;
    }
    run_unlock(m);
}

void jobs_destroy_all(struct muster *m, struct jobs_lost *lost)
{
    *lost = (struct jobs_lost){ .what = { .size = sizeof lost->what } };
    while (m->jobs)
        muster_job_destroy(m->jobs);
    run_lock(m);
    for (struct muster_job *job = m->jobs_left; job; job = job->next)
        abandon_locked(job, lost);
    for (struct muster_job *job = m->jobs_left; lost->threads > 0 && job; job = job->next)
        workers_forget(job->work.workers);
    run_unlock(m);
    if (lost->threads == 0)
        jobs_free_left(m);
}

void jobs_free_last(struct muster *m, bool all)
{
    for (struct muster_job *job = m->jobs_left; job; job = job->next)
        for (uint32_t i = 0; i < job->lane_count && !all; i++) {
            run_lock(m);
            if (!job->lanes[i].device->is_hung)
                lane_forget_locked(&job->lanes[i]);
            run_unlock(m);
            lane_tear_down(&job->lanes[i]);
        }
    run_lock(m);
    for (struct muster_job *job = m->jobs_left; all && job; job = job->next)
        job->work.outstanding = 0;
    run_unlock(m);
    jobs_free_left(m);
    /* What a device that hangs may still run is not unloaded with kernels either, from here on. */
    for (struct muster_job *job = m->jobs_left; job; job = job->next)
        job_let_kernels_go(job);
}
