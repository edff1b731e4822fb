/*
 * Threads that run the host steps of a job's pipelines, in the order in which they are given.
 */
#include "base/allocator.h"
#include "run/pipeline.h"

#define WORKERS_MAX 16

struct workers {
    struct muster *m;
    struct platform_mutex lock;
    struct platform_condition given;
    struct work *first, **last;
    bool must_stop;
    struct platform_thread threads[WORKERS_MAX];
    uint32_t thread_count;
};

static void work(void *argument)
{
    struct workers *workers = argument;
    platform_mutex_lock(&workers->lock);
    for (;;) {
        struct work *mine = workers->first;
        if (mine) {
            workers->first = mine->next;
            if (!workers->first)
                workers->last = &workers->first;
            platform_mutex_unlock(&workers->lock);
            mine->run(mine->user);
            platform_mutex_lock(&workers->lock);
            continue;
        }
        if (workers->must_stop)
            break;
        platform_condition_wait(&workers->given, &workers->lock, UINT64_MAX);
    }
    platform_mutex_unlock(&workers->lock);
}

void workers_stop(struct workers *workers)
{
    if (!workers)
        return;
    platform_mutex_lock(&workers->lock);
    workers->must_stop = true;
    platform_condition_wake_all(&workers->given);
    platform_mutex_unlock(&workers->lock);
    while (workers->thread_count > 0)
        platform_thread_join(&workers->threads[--workers->thread_count]);
    platform_condition_deinit(&workers->given);
    platform_mutex_deinit(&workers->lock);
    allocator_give(&workers->m->allocator, workers, 1, sizeof *workers);
}

muster_status workers_start(struct muster *m, uint32_t count, struct workers **out,
                            struct muster_error *err)
{
    struct workers *workers = allocator_take(&m->allocator, 1, sizeof *workers);
    if (!workers)
        return run_no_memory(err, "threads for host stages");
    workers->m = m;
    workers->last = &workers->first;
    muster_status status = platform_mutex_init(&workers->lock, err);
    if (status != MUSTER_OK)
        goto no_lock;
    status = platform_condition_init(&workers->given, err);
    if (status != MUSTER_OK)
        goto no_condition;
    count = count < WORKERS_MAX ? count : WORKERS_MAX;
    while (workers->thread_count < count && status == MUSTER_OK) {
        status = platform_thread_start(&workers->threads[workers->thread_count], work, workers,
                                       "muster-stage", NULL, err);
        workers->thread_count += status == MUSTER_OK;
    }
    /* One suffices for everything to get on. */
    if (workers->thread_count > 0) {
        *out = workers;
        return MUSTER_OK;
    }
    workers_stop(workers);
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
