/*
 * Running tasks with functions. A thread takes several at once and hands in as many; one that finds
 * nothing spins a little, yielding, and then parks. Whoever waits for tasks runs them.
 *
 * Nothing stands behind a long task that was taken with others: what its thread has not begun is
 * taken back by whoever has nothing to do, and what it has finished is handed in by whoever needs
 * it ended, in its stead.
 */
#include "run/task/flow.h"

#include "observe/nvtx.h"

#include <string.h>

/* How long an idle thread looks around before it parks: a wake costs about as much. */
#define SPIN_NS 20000u

bool pool_is_in_task(void)
{
    if (!platform_frame_now())
        return false;
    return platform_frame_is_in(FRAME_TASK, NULL) || platform_frame_is_in(FRAME_KERNEL, NULL);
}

void pool_enter(struct task_frame *frame, struct task_pool *pool, muster_task task)
{
    *frame =
        (struct task_frame){ { .kind = FRAME_TASK, .runtime = pool->m, .object = pool }, task };
    platform_frame_enter(&frame->head);
}

const void *pool_this_thread(void)
{
    static _Thread_local char name;
    return &name;
}

bool pool_load_locked(struct task_pool *pool, uint32_t index, struct running *out)
{
    const struct tasks_entry *entry = &pool->tasks.entries[index];
    *out = (struct running){ .index = index,
                             .user = entry->payload[1],
                             .handle = { index, entry->generation },
                             .is_doomed = entry->is_doomed,
                             .has_followers = entry->first_follower != TASKS_NONE };
    /* One that is set aside is ended here, never run. */
    if (!entry->is_aside)
        memcpy(&out->fn, &entry->payload[0], sizeof out->fn);
    memcpy(&out->done, &entry->payload[2], sizeof out->done);
    if (!(entry->tag & FLOW_IS))
        return true;
    if (entry->tag & FLOW_RECORD) {
        out->record = entry->payload[1];
        out->user = out->record->user;
    }
    return flow_begin_locked(pool, out);
}

static muster_status run_body(struct task_pool *pool, const struct running *task)
{
    return task->is_doomed ? MUSTER_E_CANCELLED
           : task->is_over ? task->record->status
           : task->record  ? flow_run(pool, task->record)
                           : task->fn(task->user);
}

/* Runs a task that was taken. No lock is held. */
static void run_task(struct task_pool *pool, struct running *task, bool is_profiled)
{
    struct muster *m = pool->m;
    uint64_t begin_ns = trace_clock(m);
    if (is_profiled)
        nvtx_push(NVTX_TASKS, 1, "task");
    task->status = run_body(pool, task);
    if (is_profiled)
        nvtx_pop();
    if (begin_ns > 0)
        trace_task(m, begin_ns, task->status);
    if (task->done)
        task->done(task->user, task->handle, task->status);
}

/* Whether there is something for a thread of the pool's. */
static bool has_ready_locked(const struct task_pool *pool)
{
    return pool->tasks.ready_count > 0 || pool->untold ||
           (pool->flow.runs && flow_has_runs_locked(pool));
}

bool pool_ask_for_wake_locked(struct task_pool *pool)
{
    if (!has_ready_locked(pool) || pool->spinning > 0 || pool->waking > 0)
        return false;
    if (pool->parked > 0)
        pool->waking = 1;
    else if (pool->waiters > 0)
        platform_condition_wake_all(&pool->ended);
    return pool->waking > 0;
}

void pool_wake_locked(struct task_pool *pool)
{
    if (pool_ask_for_wake_locked(pool))
        platform_condition_wake_one(&pool->work);
}

void pool_tell_locked(struct task_pool *pool)
{
    pool_show_ended_locked(pool);
    if (pool->waiters > 0)
        platform_condition_wake_all(&pool->ended);
    pool_wake_locked(pool);
}

/* A task with accesses is over for core before it is for the table. */
static void end_entry_locked(struct task_pool *pool, uint32_t index, muster_status status)
{
    const struct tasks_entry *entry = &pool->tasks.entries[index];
    bool has_accesses = entry->tag & FLOW_IS;
    if (status != MUSTER_OK && pool->flow.notes)
        flow_note_end_locked(pool, index, status);
    if (has_accesses)
        flow_end_locked(pool, index, status);
    tasks_end(&pool->tasks, index, status);
    if (has_accesses || pool->tasks.dispatched.count > 0)
        flow_turn_locked(pool);
}

void pool_end_entry_locked(struct task_pool *pool, uint32_t index, muster_status status)
{
    struct tasks_entry *entry = &pool->tasks.entries[index];
    if (entry->is_aside) {
        struct kernel_task *task = entry->payload[0];
        pool->kernels_open--;
        pool->kernels_timed -= task->timeout_ns != UINT64_MAX;
        pool->kernels_wanted -= (task->done != NULL) + (entry->first_follower != TASKS_NONE);
        kernel_task_give_locked(pool, task);
    }
    end_entry_locked(pool, index, status);
}

static void end_locked(struct task_pool *pool, const struct running *task)
{
    pool_end_entry_locked(pool, task->index, task->status);
    pool_tell_locked(pool);
}

void pool_run_aside_locked(struct task_pool *pool, struct running *task)
{
    struct task_frame frame;
    platform_mutex_unlock(&pool->lock);
    pool_enter(&frame, pool, task->handle);
    run_task(pool, task, nvtx_is_on());
    platform_frame_leave(&frame.head);
    platform_mutex_lock(&pool->lock);
    end_locked(pool, task);
    pool_give_ready_locked(pool, NULL);
}

/* Batches. */

/* Takes up to `most` tasks that the worker has not begun out of its batch; the first, and how many. */
static uint32_t take_back_locked(struct worker *worker, uint32_t most, uint32_t *first)
{
    /* Relaxed: the lock says what is in the batch; this says only who has it. */
    uint32_t place = atomic_load_explicit(&worker->place, memory_order_relaxed), count;
    do {
        uint32_t next = PLACE_NEXT(place), left = next < worker->count ? worker->count - next : 0;
        count = left < most ? left : most;
        *first = next;
    } while (count > 0 &&
             !atomic_compare_exchange_weak_explicit(&worker->place, &place, place + count,
                                                    memory_order_relaxed, memory_order_relaxed));
    for (uint32_t i = 0; i < count; i++)
        worker->batch[*first + i].is_gone = true;
    return count;
}

/* Takes back a task that another thread took and has not begun. */
static bool steal_locked(struct task_pool *pool, struct running *out)
{
    uint32_t at;
    for (uint32_t i = 0; i < pool->started; i++)
        if (take_back_locked(&pool->workers[i], 1, &at) > 0) {
            *out = pool->workers[i].batch[at];
            return true;
        }
    return false;
}

static bool can_steal_locked(struct task_pool *pool)
{
    for (uint32_t i = 0; i < pool->started; i++) {
        const struct worker *worker = &pool->workers[i];
        if (PLACE_NEXT(atomic_load_explicit(&worker->place, memory_order_relaxed)) < worker->count)
            return true;
    }
    return false;
}

void pool_recall_locked(struct task_pool *pool, uint32_t index)
{
    for (uint32_t i = 0; i < pool->started; i++) {
        struct worker *worker = &pool->workers[i];
        uint32_t at = 0, first;
        while (at < worker->count &&
               (worker->batch[at].index != index || worker->batch[at].is_gone))
            at++;
        if (at == worker->count ||
            PLACE_NEXT(atomic_load_explicit(&worker->place, memory_order_relaxed)) > at)
            continue;
        for (uint32_t count = take_back_locked(worker, TAKEN_AT_ONCE, &first); count-- > 0;)
            tasks_put_back(&pool->tasks, worker->batch[first + count].index);
    }
}

/* Hands in what the worker has finished; whether there was anything. */
static bool hand_in_locked(struct worker *worker, uint32_t place)
{
    bool has_ended = false;
    uint32_t next = PLACE_NEXT(place) < worker->count ? PLACE_NEXT(place) : worker->count;
    for (uint32_t i = 0; i < next; i++) {
        struct running *task = &worker->batch[i];
        if (task->is_gone || i == PLACE_AT(place))
            continue;
        end_entry_locked(worker->pool, task->index, task->status);
        task->is_gone = has_ended = true;
    }
    if (has_ended)
        pool_tell_locked(worker->pool);
    return has_ended;
}

bool pool_collect_locked(struct task_pool *pool)
{
    bool has_ended = false;
    for (uint32_t i = 0; i < pool->started; i++) {
        struct worker *worker = &pool->workers[i];
        /* Acquire pairs with the release in go_on: what it finished has its status. */
        uint32_t place =
            atomic_fetch_or_explicit(&worker->place, PLACE_IS_WANTED, memory_order_acquire);
        has_ended = hand_in_locked(worker, place) || has_ended;
    }
    return has_ended;
}

/* The worker has finished one, if any, and begins the next; false if there is none left. */
static bool go_on(struct worker *worker, uint32_t limit, uint32_t *at, bool *is_wanted)
{
    uint32_t place = atomic_load_explicit(&worker->place, memory_order_relaxed), then;
    bool has_next;
    do {
        uint32_t next = PLACE_NEXT(place);
        has_next = next < limit;
        then = (has_next ? PLACE(next + 1, next) : PLACE(next, PLACE_NOWHERE)) |
               (place & PLACE_IS_WANTED);
        *at = next;
        /* Release: whoever sees the thread here may hand in what it did before. */
    } while (!atomic_compare_exchange_weak_explicit(&worker->place, &place, then,
                                                    memory_order_release, memory_order_relaxed));
    *is_wanted = place & PLACE_IS_WANTED;
    return has_next;
}

/* One task for a thread that has none, ready or taken back. */
static bool take_one_locked(struct task_pool *pool, struct running *out)
{
    uint32_t index;
    while (tasks_take(&pool->tasks, 1, &index) > 0)
        if (pool_load_locked(pool, index, out))
            return true;
    return steal_locked(pool, out);
}

bool pool_help_locked(struct task_pool *pool)
{
    struct running task;
    if (pool_tell_end_locked(pool))
        return true;
    if (!take_one_locked(pool, &task))
        return pool->flow.runs && flow_help_run_locked(pool);
    pool_run_aside_locked(pool, &task);
    return true;
}

/* Fills the worker's batch with its share of what is ready. */
static uint32_t fill_locked(struct worker *worker)
{
    struct task_pool *pool = worker->pool;
    uint32_t indices[TAKEN_AT_ONCE];
    uint32_t share = pool->tasks.ready_count / (pool->started + 1) + 1;
    uint32_t taken =
        tasks_take(&pool->tasks, share < TAKEN_AT_ONCE ? share : TAKEN_AT_ONCE, indices);
    worker->count = 0;
    for (uint32_t i = 0; i < taken; i++)
        worker->count += pool_load_locked(pool, indices[i], &worker->batch[worker->count]);
    atomic_store_explicit(&worker->place,
                          PLACE(0u, PLACE_NOWHERE) | (pool->wanting > 0 ? PLACE_IS_WANTED : 0),
                          memory_order_relaxed);
    return worker->count;
}

/* Runs what is left of the batch to this thread, and hands it in. Called and left with the lock. */
static void run_batch_locked(struct worker *worker)
{
    struct task_pool *pool = worker->pool;
    uint32_t limit = worker->count, at;
    bool is_wanted, has_followers = false, is_profiled = nvtx_is_on();
    platform_mutex_unlock(&pool->lock);
    while (go_on(worker, limit, &at, &is_wanted)) {
        if (is_wanted || has_followers) {
            platform_mutex_lock(&pool->lock);
            hand_in_locked(worker, atomic_load_explicit(&worker->place, memory_order_relaxed));
            pool_give_ready_locked(pool, NULL);
            platform_mutex_unlock(&pool->lock);
        }
        worker->frame.task = worker->batch[at].handle;
        run_task(pool, &worker->batch[at], is_profiled);
        has_followers = worker->batch[at].has_followers;
    }
    platform_mutex_lock(&pool->lock);
    hand_in_locked(worker, atomic_load_explicit(&worker->place, memory_order_relaxed));
    pool_give_ready_locked(pool, NULL);
}

/* Looks around a little, then parks until there may be something to do. With the lock. */
static void rest_locked(struct task_pool *pool)
{
    uint64_t until_ns = platform_clock_ns() + SPIN_NS;
    pool->spinning++;
    while (!pool->must_stop && !has_ready_locked(pool) && platform_clock_ns() < until_ns) {
        platform_mutex_unlock(&pool->lock);
        platform_thread_yield();
        platform_mutex_lock(&pool->lock);
    }
    pool->spinning--;
    if (pool->must_stop || has_ready_locked(pool) || can_steal_locked(pool))
        return;
    pool->parked++;
    while (!pool->must_stop && pool->waking == 0)
        platform_condition_wait(&pool->work, &pool->lock, UINT64_MAX);
    pool->parked--;
    pool->waking = 0;
}

void pool_work(void *argument)
{
    struct worker *worker = argument;
    struct task_pool *pool = worker->pool;
    pool_enter(&worker->frame, pool, (muster_task){ 0, 0 });
    platform_mutex_lock(&pool->lock);
    for (;;) {
        if (!pool->untold && fill_locked(worker) > 0) {
            pool_wake_locked(pool);
            run_batch_locked(worker);
        } else if (!pool_help_locked(pool)) {
            if (pool->must_stop)
                break;
            rest_locked(pool);
        }
    }
    platform_mutex_unlock(&pool->lock);
    platform_frame_leave(&worker->frame.head);
}
