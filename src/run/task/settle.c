/*
 * Tasks with kernels between the table and the lanes (run/task/lane.h): those that are ready go to
 * devices, and those that have come back end, or are ready again.
 */
#include "run/task/task_pool.h"

static void call_done(struct task_pool *pool, const struct kernel_task *task)
{
    struct task_frame frame;
    pool_enter(&frame, pool, task->handle);
    task->done(task->user, task->handle, task->status);
    platform_frame_leave(&frame.head);
}

/* One that a hung device may still write to is replaced before it is run again. */
static struct kernel_task *renew_locked(struct task_pool *pool, struct kernel_task *task)
{
    if (task->outcome == KERNEL_ENDS || !task->is_spoilt)
        return task;
    struct kernel_task *fresh = kernel_task_renew_locked(pool, task);
    if (!fresh) {
        task->outcome = KERNEL_ENDS;
        return task;
    }
    pool->tasks.entries[task->index].payload[0] = fresh;
    kernel_task_give_locked(pool, task);
    return fresh;
}

/* Whether this thread watches devices, so that it must not be lost in a callback. */
static _Thread_local bool is_watching;

void pool_only_watch(void)
{
    is_watching = true;
}

/* Leaves those whose end somebody is to hear of to threads that run tasks; gives the rest. */
static struct kernel_task *leave_untold_locked(struct task_pool *pool, struct kernel_task *chain)
{
    for (struct kernel_task **at = &chain; *at;) {
        struct kernel_task *task = *at;
        if (task->outcome != KERNEL_ENDS || !task->done) {
            at = &task->next;
            continue;
        }
        *at = task->next;
        task->next = NULL;
        *(pool->untold ? &pool->untold_newest->next : &pool->untold) = task;
        pool->untold_newest = task;
    }
    pool_tell_locked(pool);
    return chain;
}

/* As task_settle, with the lock, which is not held for callbacks; whether some wait for room. */
static bool settle_locked(struct task_pool *pool, struct kernel_task *chain)
{
    bool has_waiting = false, has_callback = false;
    for (struct kernel_task **at = &chain; *at; at = &(*at)->next) {
        struct kernel_task *next = (*at)->next;
        *at = renew_locked(pool, *at);
        (*at)->next = next;
        has_callback |= (*at)->outcome == KERNEL_ENDS && (*at)->done;
    }
    if (has_callback && is_watching) {
        chain = leave_untold_locked(pool, chain);
    } else if (has_callback) {
        platform_mutex_unlock(&pool->lock);
        for (const struct kernel_task *task = chain; task; task = task->next)
            if (task->outcome == KERNEL_ENDS && task->done)
                call_done(pool, task);
        platform_mutex_lock(&pool->lock);
    }
    bool has_any = chain != NULL;
    while (chain) {
        struct kernel_task *task = chain;
        chain = task->next;
        has_waiting |= task->outcome == KERNEL_WAITS;
        if (task->outcome == KERNEL_ENDS)
            pool_end_entry_locked(pool, task->index, task->status);
        else
            tasks_put_back(&pool->tasks, task->index);
    }
    if (has_any)
        pool_tell_locked(pool);
    return has_waiting;
}

bool pool_tell_end_locked(struct task_pool *pool)
{
    struct kernel_task *task = pool->untold;
    if (!task)
        return false;
    pool->untold = task->next;
    task->next = NULL;
    settle_locked(pool, task);
    pool_give_ready_locked(pool, NULL);
    return true;
}

void task_settle(struct task_pool *pool, struct kernel_task *chain)
{
    platform_mutex_lock(&pool->lock);
    /* What waits for room is given again when something has ended, not at once. */
    if (!settle_locked(pool, chain))
        pool_give_ready_locked(pool, NULL);
    platform_mutex_unlock(&pool->lock);
}

/* Takes kernel tasks that are ready: to be given to devices or to resident lanes, or ended. All keep their order. */
static void take_aside_locked(struct task_pool *pool, struct kernel_task **ready,
                              struct kernel_task **doomed, struct kernel_task **resident)
{
    uint32_t indices[TAKEN_AT_ONCE];
    *ready = *doomed = *resident = NULL;
    for (uint32_t i = tasks_take_aside(&pool->tasks, TAKEN_AT_ONCE, indices); i-- > 0;) {
        const struct tasks_entry *entry = &pool->tasks.entries[indices[i]];
        struct kernel_task *task = entry->payload[0];
        struct kernel_task **chain = entry->is_doomed ? doomed : task->entry ? resident : ready;
        if (entry->is_doomed) {
            task->outcome = KERNEL_ENDS;
            task->status = MUSTER_E_CANCELLED;
        }
        task->next = *chain;
        *chain = task;
    }
}

void pool_give_ready_locked(struct task_pool *pool, const void *submitter)
{
    bool has_waiting = false, has_given = false, has_posted = false;
    while (pool->tasks.aside.count > 0 && !has_waiting) {
        struct kernel_task *ready, *doomed, *resident, *left = NULL;
        take_aside_locked(pool, &ready, &doomed, &resident);
        if (ready || resident) {
            platform_mutex_unlock(&pool->lock);
            resident_tasks_post(resident);
            if (ready)
                left = lanes_give(pool, ready, submitter);
            platform_mutex_lock(&pool->lock);
        }
        settle_locked(pool, doomed);
        has_waiting = settle_locked(pool, left);
        has_given |= ready || doomed;
        has_posted |= resident != NULL;
    }
    if (has_given)
        lanes_wake_locked(pool);
    if (has_posted)
        residents_wake_locked(pool);
}

/* A task's thread may be one that others need: it leaves the driver to the lanes'. */
static const void *submitter_now(void)
{
    return pool_is_in_task() ? NULL : pool_this_thread();
}

void pool_give_ready_and_unlock(struct task_pool *pool)
{
    pool_give_ready_locked(pool, submitter_now());
    if (pool->kernels_wanted > 0) {
        lanes_wake_locked(pool);
        residents_wake_locked(pool);
    }
    platform_mutex_unlock(&pool->lock);
}

void pool_give_one(struct task_pool *pool, struct kernel_task *task)
{
    const void *submitter = submitter_now();
    task->next = NULL;
    struct kernel_task *left = lanes_give(pool, task, submitter);
    if (!left && !lanes_are_parked(pool))
        return;
    platform_mutex_lock(&pool->lock);
    bool has_waiting = settle_locked(pool, left);
    lanes_wake_locked(pool);
    if (!has_waiting)
        pool_give_ready_locked(pool, submitter);
    platform_mutex_unlock(&pool->lock);
}
