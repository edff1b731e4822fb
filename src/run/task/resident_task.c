/*
 * Tasks of resident lanes: in the table they are tasks with kernels, set aside like those; given they are to
 * their lane's ring (run/resident/resident.h) instead of to a device's task lane.
 */
#include "base/invariant.h"
#include "run/task/task_pool.h"

#include <string.h>

/* Looks of one who waits, between two times that it lets others run; a GPU needs no core for what it does. */
#define LOOKS 128u
#define LOOKS_AT_GPU 2048u
/* How long it looks before it parks, and leaves looking to the lane's watch. */
#define LOOK_NS 100000u
#define PARK_NS 1000000u

muster_status resident_task_fill(struct task_pool *pool, struct kernel_task *task,
                                 const struct muster_task_desc *desc, struct muster_error *err)
{
    if (!resident_is_of(desc->resident, pool->m))
        return run_bad_argument(err, "muster_submit", "the resident lane is another runtime's");
    task->user = desc->user;
    task->done = desc->done;
    task->kernel = desc->kernel;
    task->items = desc->items;
    task->timeout_ns = UINT64_MAX;
    task->status = MUSTER_OK;
    task->tries = 0;
    task->arg_count = 0;
    task->has_marks = task->has_data = task->has_arrays = task->has_update = false;
    task->writes_block = false;
    task->only_device = NULL;
    task->attempt.is_counted = false;
    muster_status status = resident_take(desc->resident, desc, &task->entry, err);
    if (status == MUSTER_OK)
        task->entry->owner = task;
    return status;
}

void resident_task_bind_locked(struct task_pool *pool, const struct kernel_task *task)
{
    struct muster_resident *lane = task->entry->lane;
    if (lane->is_in_pool)
        return;
    lane->is_in_pool = true;
    lane->next_in_pool = pool->residents;
    pool->residents = lane;
}

void resident_tasks_post(struct kernel_task *chain)
{
    while (chain) {
        struct kernel_task *task = chain;
        chain = task->next;
        resident_post(task->entry);
    }
}

bool residents_look(struct task_pool *pool, struct muster_resident *lane)
{
    struct resident_record *record = resident_collect(lane);
    struct kernel_task *chain = NULL, **last = &chain;
    for (; record; record = record->next) {
        struct kernel_task *task = record->owner;
        task->outcome = KERNEL_ENDS;
        task->status = record->status;
        task->next = NULL;
        *last = task;
        last = &task->next;
    }
    if (chain)
        task_settle(pool, chain);
    return chain != NULL;
}

void residents_wake_locked(struct task_pool *pool)
{
    if (pool->kernels_wanted == 0 && pool->relying == 0)
        return;
    for (struct muster_resident *lane = pool->residents; lane; lane = lane->next_in_pool)
        resident_listen(lane);
}

bool residents_tell(struct muster_resident *lane, bool is_watch)
{
    struct task_pool *pool = atomic_load_explicit(&lane->m->task_pool, memory_order_acquire);
    /* A callback may not return: the lane is watched on. */
    if (is_watch)
        pool_only_watch();
    residents_look(pool, lane);
    platform_mutex_lock(&pool->lock);
    bool is_relied_on = pool->kernels_wanted > 0 || pool->relying > 0;
    platform_mutex_unlock(&pool->lock);
    return is_relied_on;
}

void residents_forget(struct muster_resident *lane)
{
    struct task_pool *pool = atomic_load_explicit(&lane->m->task_pool, memory_order_acquire);
    if (!pool)
        return;
    platform_mutex_lock(&pool->lock);
    struct muster_resident **at = &pool->residents;
    while (*at && *at != lane)
        at = &(*at)->next_in_pool;
    if (*at)
        *at = lane->next_in_pool;
    platform_mutex_unlock(&pool->lock);
}

const struct resident_record *resident_of_locked(const struct task_pool *pool,
                                                 const muster_task *tasks, size_t count,
                                                 size_t first)
{
    if (count == 0)
        return NULL;
    const struct tasks_entry *entry = &pool->tasks.entries[tasks[first].index];
    const struct kernel_task *task = entry->is_aside ? entry->payload[0] : NULL;
    return task && task->entry && entry->state == TASKS_TAKEN ? task->entry : NULL;
}

/*
 * Looks for a moment, as the thread that waits for so short a task is best served, and parks then. False after the
 * deadline. The lane stays meanwhile: it counts who looks at it.
 */
bool resident_await_locked(struct task_pool *pool, const struct resident_record *record,
                           uint64_t deadline_ns, uint64_t *since_ns)
{
    struct muster_resident *lane = record->lane;
    bool has_ended = false;
    /* Relaxed: the pool's lock orders it against the lane's end, which waits until it is 0. */
    atomic_fetch_add_explicit(&lane->lookers, 1, memory_order_relaxed);
    platform_mutex_unlock(&pool->lock);
    /* The record may be another task's meanwhile: then we look without success, and see that it has ended. */
    uint32_t looks = lane->is_pinned ? LOOKS_AT_GPU : LOOKS;
    for (uint32_t i = 0; i < looks && !has_ended; i++)
        has_ended = resident_has_ended(record);
    has_ended = residents_look(pool, lane);
    if (!has_ended)
        platform_thread_yield();
    /* Release pairs with the acquire of `drain` in run/resident/lane.c. */
    atomic_fetch_sub_explicit(&lane->lookers, 1, memory_order_release);
    platform_mutex_lock(&pool->lock);
    uint64_t now_ns = platform_clock_ns();
    if (has_ended || *since_ns == 0)
        *since_ns = has_ended ? 0 : now_ns;
    if (has_ended || now_ns - *since_ns < LOOK_NS)
        return now_ns < deadline_ns;
    uint64_t until_ns = now_ns + PARK_NS < deadline_ns ? now_ns + PARK_NS : deadline_ns;
    pool_rely_locked(pool, false, until_ns);
    return platform_clock_ns() < deadline_ns;
}
