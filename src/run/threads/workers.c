/*
 * Threads that run the host steps of a job's pipelines, in the order in which they are given. Steps
 * are the user's code and may never return, so nobody joins a thread that has not left by itself.
 */
#include "base/allocator.h"
#include "run/threads/threads.h"

#define WORKERS_MAX 16

struct worker {
    struct workers *workers;
    struct job_thread thread;
};

struct workers {
    struct thread_group *group;
    struct platform_mutex lock; /* may be taken with the runtime's */
    struct platform_condition given;
    struct work *first, **last;
    bool must_stop;
    struct worker all[WORKERS_MAX];
    uint32_t count;
};

muster_status group_start(struct thread_group *group, struct job_thread *thread,
                          void (*run)(void *), void *argument, const char *name,
                          struct muster_error *err)
{
    run_lock(group->m);
    thread->state = THREAD_INSIDE;
    group->threads++;
    run_unlock(group->m);
    muster_status status = crew_run(group->m, run, argument, name, &thread->crew, err);
    if (status == MUSTER_OK)
        return MUSTER_OK;
    run_lock(group->m);
    thread->state = THREAD_NONE;
    group->threads--;
    run_unlock(group->m);
    return status;
}

void group_leave_locked(struct thread_group *group, struct job_thread *thread)
{
    thread->state = THREAD_LEFT;
    if (thread_is_given_up(thread))
        crew_end_locked(thread->crew);
    group->threads--;
    group->left_locked(group);
}

static void work(void *argument)
{
    struct worker *worker = argument;
    struct workers *workers = worker->workers;
    struct thread_group *group = workers->group;
    platform_mutex_lock(&workers->lock);
    for (;;) {
        struct work *mine = workers->first;
        if (mine) {
            workers->first = mine->next;
            if (!workers->first)
                workers->last = &workers->first;
            platform_mutex_unlock(&workers->lock);
            thread_goes_away(&worker->thread);
            mine->run(mine->user);
            thread_is_back(&worker->thread);
            platform_mutex_lock(&workers->lock);
            continue;
        }
        if (workers->must_stop)
            break;
        platform_condition_wait(&workers->given, &workers->lock, UINT64_MAX);
    }
    platform_mutex_unlock(&workers->lock);
    run_lock(group->m);
    group_leave_locked(group, &worker->thread);
    run_unlock(group->m);
}

void workers_dismiss(struct workers *workers)
{
    if (!workers)
        return;
    platform_mutex_lock(&workers->lock);
    workers->must_stop = true;
    platform_condition_wake_all(&workers->given);
    platform_mutex_unlock(&workers->lock);
}

void workers_forget(struct workers *workers)
{
    if (!workers)
        return;
    platform_mutex_lock(&workers->lock);
    workers->first = NULL;
    workers->last = &workers->first;
    platform_mutex_unlock(&workers->lock);
}

void workers_free(struct workers *workers)
{
    if (!workers)
        return;
    platform_condition_deinit(&workers->given);
    platform_mutex_deinit(&workers->lock);
    allocator_give(&workers->group->m->allocator, workers, 1, sizeof *workers);
}

muster_status workers_start(struct thread_group *group, uint32_t count, struct workers **out,
                            struct muster_error *err)
{
    struct muster *m = group->m;
    struct workers *workers = allocator_take(&m->allocator, 1, sizeof *workers);
    if (!workers)
        return run_no_memory(err, "threads for host stages");
    workers->group = group;
    workers->last = &workers->first;
    muster_status status = platform_mutex_init(&workers->lock, err);
    if (status != MUSTER_OK)
        goto no_lock;
    status = platform_condition_init(&workers->given, err);
    if (status != MUSTER_OK)
        goto no_condition;
    count = count < WORKERS_MAX ? count : WORKERS_MAX;
    while (workers->count < count && status == MUSTER_OK) {
        struct worker *worker = &workers->all[workers->count];
        worker->workers = workers;
        status = group_start(group, &worker->thread, work, worker, "muster-stage", err);
        workers->count += status == MUSTER_OK;
    }
    /* One suffices for everything to get on. */
    if (workers->count > 0) {
        *out = workers;
        return MUSTER_OK;
    }
    workers_free(workers);
    return status;
no_condition:
    platform_mutex_deinit(&workers->lock);
no_lock:
    allocator_give(&m->allocator, workers, 1, sizeof *workers);
    return status;
}

void workers_give(struct workers *workers, struct work *work_)
{
    work_->next = NULL;
    platform_mutex_lock(&workers->lock);
    *workers->last = work_;
    workers->last = &work_->next;
    platform_condition_wake_one(&workers->given);
    platform_mutex_unlock(&workers->lock);
}
