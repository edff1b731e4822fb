/*
 * Waiting for tasks. The thread that waits runs what is ready, asks the devices where it may, and parks only when
 * there is nothing else to do.
 */
#include "run/task/flow.h"

/*
 * One who waits for a device looks all the time for so long, and then after pauses of a part of the
 * time it has waited: nobody else is sure to tell it.
 */
#define LOOK_NS 50000u
/* So often it asks in a row, before it sees whether another thread has heard of the end. */
#define LOOKS 8u
#define PAUSE_PART 16u
#define PAUSE_MAX_NS 1000000u

bool pool_await_end_locked(struct task_pool *pool, bool is_for_all, uint64_t deadline_ns)
{
    if (!is_for_all && pool_collect_locked(pool))
        return true;
    bool is_in_task = platform_frame_is_in(FRAME_TASK, pool);
    pool->waiters++;
    pool->wanting += !is_for_all;
    pool->blocked += is_in_task;
    bool in_time = platform_condition_wait(&pool->ended, &pool->lock, deadline_ns);
    pool->blocked -= is_in_task;
    pool->wanting -= !is_for_all;
    pool->waiters--;
    return in_time;
}

bool pool_rely_locked(struct task_pool *pool, bool is_for_all, uint64_t deadline_ns)
{
    pool->relying++;
    lanes_wake_locked(pool);
    residents_wake_locked(pool);
    bool in_time = pool_await_end_locked(pool, is_for_all, deadline_ns);
    pool->relying--;
    return in_time;
}

void pool_await_any_locked(struct task_pool *pool, bool is_for_all)
{
    pool_give_ready_locked(pool, NULL);
    pool_rely_locked(pool, is_for_all, platform_clock_ns() + PAUSE_MAX_NS);
}

/* Whether all have ended; gives the first that has not, and the first failure of those before it. */
static bool all_ended_locked(struct task_pool *pool, const muster_task *tasks, size_t count,
                             size_t *first, muster_status *status)
{
    if (count == 0)
        return pool->tasks.open_count == 0;
    for (; *first < count; (*first)++) {
        const muster_task *task = &tasks[*first];
        muster_status found = tasks_find(&pool->tasks, task->index, task->generation);
        if (found == MUSTER_OK) {
            const struct tasks_entry *entry = &pool->tasks.entries[task->index];
            if (entry->state != TASKS_ENDED)
                return false;
            found = entry->status;
        }
        if (*status == MUSTER_OK)
            *status = found;
    }
    return true;
}

/*
 * Runs the task that is waited for, if nobody does, or another: false if there is nothing to run.
 * The newest is the likeliest to be what it waits for. The oldest may be one that waits in its turn,
 * on top of this one, and so on until the stack is full.
 */
static bool help_with_locked(struct task_pool *pool, const muster_task *tasks, size_t count,
                             size_t first)
{
    struct running task;
    uint32_t index = count > 0 ? tasks[first].index : TASKS_NONE;
    if (count == 0 || pool->tasks.ready_count == 0)
        return pool_help_locked(pool);
    const struct tasks_entry *entry = &pool->tasks.entries[index];
    if (entry->is_aside || entry->is_dispatched || !tasks_take_this(&pool->tasks, index)) {
        index = tasks_newest_ready(&pool->tasks);
        tasks_take_this(&pool->tasks, index);
    }
    if (pool_load_locked(pool, index, &task))
        pool_run_aside_locked(pool, &task);
    return true;
}

/*
 * Leaves the tasks to others for a while, if these are enough, and the next that is waited for is not one to
 * be run now. False: nothing has ended meanwhile, or they are not.
 */
static bool stand_back_locked(struct task_pool *pool, const muster_task *tasks, size_t count,
                              size_t first, uint64_t deadline_ns)
{
    bool is_ready = count > 0 && pool->tasks.entries[tasks[first].index].state == TASKS_READY;
    if (is_ready || pool->kernels_open > 0 || !pool_is_crowded_locked(pool))
        return false;
    uint64_t progress = pool_progress_locked(pool);
    uint64_t until_ns = platform_clock_ns() + STAND_BACK_NS;
    return pool_await_end_locked(pool, count == 0,
                                 until_ns < deadline_ns ? until_ns : deadline_ns) ||
           progress != pool_progress_locked(pool);
}

/* The lane to look at for the thread that waits for these tasks; false if there is none to be sure of. */
static bool find_lane_locked(struct task_pool *pool, const muster_task *tasks, size_t count,
                             size_t first, struct task_lane **lane)
{
    *lane = NULL;
    if (count == 0)
        return true;
    const struct tasks_entry *entry = &pool->tasks.entries[tasks[first].index];
    const struct kernel_task *task = entry->is_aside ? entry->payload[0] : NULL;
    if (task && entry->state == TASKS_TAKEN)
        *lane = atomic_load_explicit(&task->lane, memory_order_relaxed);
    return *lane != NULL;
}

/*
 * Looks at the devices, all the time at first and then after pauses. `*since_ns` is when it began, 0
 * at first. False after the deadline. A driver call may not return, so a caller with a
 * time-out, or that waits for a task with one, leaves the calls to the lanes' threads.
 */
static bool await_devices_locked(struct task_pool *pool, const muster_task *tasks, size_t count,
                                 size_t first, uint64_t deadline_ns, uint64_t *since_ns)
{
    struct task_lane *lane;
    const struct resident_record *resident = resident_of_locked(pool, tasks, count, first);
    if (resident)
        return resident_await_locked(pool, resident, deadline_ns, since_ns);
    bool may_look = deadline_ns == UINT64_MAX && pool->kernels_timed == 0 && !pool_is_in_task() &&
                    find_lane_locked(pool, tasks, count, first, &lane);
    bool has_ended = false;
    pool_give_ready_locked(pool, may_look ? pool_this_thread() : NULL);
    if (may_look) {
        platform_mutex_unlock(&pool->lock);
        for (uint32_t i = 0; i < LOOKS && !has_ended; i++)
            has_ended = lanes_look(pool, lane);
        platform_mutex_lock(&pool->lock);
    }
    uint64_t now_ns = platform_clock_ns();
    if (has_ended || *since_ns == 0)
        *since_ns = now_ns;
    if (has_ended)
        return true;
    uint64_t waited_ns = now_ns - *since_ns;
    if (waited_ns < LOOK_NS) {
        pool->relying += !may_look;
        if (!may_look) {
            lanes_wake_locked(pool);
            residents_wake_locked(pool);
        }
        platform_mutex_unlock(&pool->lock);
        platform_thread_yield();
        platform_mutex_lock(&pool->lock);
        pool->relying -= !may_look;
        return now_ns < deadline_ns;
    }
    uint64_t pause_ns =
        waited_ns / PAUSE_PART < PAUSE_MAX_NS ? waited_ns / PAUSE_PART : PAUSE_MAX_NS;
    uint64_t until_ns = now_ns + pause_ns < deadline_ns ? now_ns + pause_ns : deadline_ns;
    if (may_look)
        pool_await_end_locked(pool, count == 0, until_ns);
    else
        pool_rely_locked(pool, count == 0, until_ns);
    return platform_clock_ns() < deadline_ns;
}

/*
 * Whether the wait could only end after something that this thread is in the middle of: a task that
 * waits for all, for itself or for one after it, or a kernel.
 */
static bool waits_for_itself_locked(struct task_pool *pool, const muster_task *tasks, size_t count,
                                    size_t first)
{
    for (const struct platform_frame *at = platform_frame_now(); at; at = at->outer) {
        /* All tasks include what a job reads until it is over, and this is its callback. */
        if (at->kind == FRAME_KERNEL ||
            (at->kind == FRAME_JOB && count == 0 && flow_has_jobs_locked(pool)))
            return true;
        if (at->kind != FRAME_TASK || at->object != pool)
            continue;
        muster_task mine = ((const struct task_frame *)at)->task;
        if (count == 0)
            return true;
        if (tasks_find(&pool->tasks, mine.index, mine.generation) != MUSTER_OK)
            continue;
        for (size_t i = first; i < count; i++)
            if (tasks_find(&pool->tasks, tasks[i].index, tasks[i].generation) == MUSTER_OK &&
                tasks_must_follow(&pool->tasks, tasks[i].index, mine.index))
                return true;
    }
    return false;
}

/* Names the first of the tasks that ended so. */
static void say_failed_locked(struct task_pool *pool, const muster_task *tasks, size_t count,
                              muster_status status, struct muster_error *err)
{
    size_t i = 0;
    while (i < count) {
        muster_status found = tasks_find(&pool->tasks, tasks[i].index, tasks[i].generation);
        if ((found == MUSTER_OK ? pool->tasks.entries[tasks[i].index].status : found) == status)
            break;
        i++;
    }
    flow_explain_locked(pool, i < count ? tasks[i] : (muster_task){ 0, 0 }, status, err);
}

muster_status muster_wait(struct muster *m, const muster_task *tasks, size_t count,
                          uint64_t timeout_ns, struct muster_error *err)
{
    if (!m || (!tasks && count > 0))
        return run_bad_argument(err, "muster_wait", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    struct task_pool *pool = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    if (!pool)
        return count == 0 ? MUSTER_OK
                          : muster_error_fill(err, MUSTER_E_UNKNOWN, 0, NULL,
                                              "no task was ever submitted");
    uint64_t deadline_ns = timeout_ns == UINT64_MAX ? UINT64_MAX : platform_deadline_ns(timeout_ns);
    muster_status status = MUSTER_OK;
    size_t first = 0;
    bool in_time = true, is_stuck = false;
    bool is_outside = !platform_frame_is_in(FRAME_TASK, pool), has_crowded = false;
    uint64_t since_ns = 0;
    platform_mutex_lock(&pool->lock);
    if (timeout_ns > 0 && !all_ended_locked(pool, tasks, count, &first, &status))
        is_stuck = waits_for_itself_locked(pool, tasks, count, first);
    while (!is_stuck && in_time && !all_ended_locked(pool, tasks, count, &first, &status)) {
        if (deadline_ns != UINT64_MAX && platform_clock_ns() >= deadline_ns) {
            in_time = false;
        } else if (!is_outside || !stand_back_locked(pool, tasks, count, first, deadline_ns)) {
            pool->helping += is_outside;
            bool has_helped = help_with_locked(pool, tasks, count, first);
            has_crowded |= is_outside && pool_is_crowded_locked(pool);
            pool->helping -= is_outside;
            if (!has_helped)
                in_time =
                    pool->kernels_open > 0
                        ? await_devices_locked(pool, tasks, count, first, deadline_ns, &since_ns)
                        : pool_await_end_locked(pool, count == 0, deadline_ns);
        }
    }
    if (has_crowded)
        pool_wake_locked(pool); /* one that left it its place */
    bool is_over = all_ended_locked(pool, tasks, count, &first, &status);
    if (is_over && !is_stuck && status != MUSTER_OK)
        say_failed_locked(pool, tasks, count, status, err);
    platform_mutex_unlock(&pool->lock);
    if (is_stuck)
        return run_say_stuck(err, "muster_wait");
    if (!is_over)
        return muster_error_fill(err, MUSTER_E_TIMEOUT, 0, NULL,
                                 "not all tasks have ended in the time allowed");
    return status;
}
