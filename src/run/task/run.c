/*
 * Running tasks with functions. A thread takes several at once and hands in as many; one that finds
 * nothing spins a little, yielding, and then parks. The thread that waits for tasks runs them.
 *
 * Nothing stands behind a long task that was taken with others: what its thread has not begun is
 * taken back by the thread that has nothing to do, and what it has finished is handed in by the thread that needs
 * it ended, in its stead.
 */
#include "run/task/flow.h"

#include "observe/nvtx.h"

#include <string.h>

/*
 * How long an idle thread looks around before it parks, and if there are tasks that have not ended, which may
 * make others ready: a wake costs about as much, the more where a core has gone to sleep.
 */
#define SPIN_NS 20000u
#define SPIN_OPEN_NS 50000u
/* What a thread takes at once is to be no more work than this. */
#define BATCH_NS 8000u
/* So often one that is parked looks whether a task of a graph's run holds up others. */
#define LOOK_AGAIN_NS 2000000u

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

/* Those that spin look again; false if none does. */
static bool call_spinning_locked(struct task_pool *pool)
{
    uint32_t news = atomic_load_explicit(&pool->news, memory_order_relaxed);
    if (pool->spinning > 0)
        atomic_store_explicit(&pool->news, news + 1, memory_order_relaxed);
    return pool->spinning > 0;
}

bool pool_is_crowded_locked(const struct task_pool *pool)
{
    return pool->started + pool->helping >= pool->room + pool->parked + pool->blocked;
}

bool pool_ask_for_wake_locked(struct task_pool *pool)
{
    if (!has_ready_locked(pool) || pool->waking > 0 || call_spinning_locked(pool))
        return false;
    bool is_crowded = pool_is_crowded_locked(pool);
    if (pool->parked > 0 && (!is_crowded || !pool->is_looking))
        pool->waking = 1;
    else if (pool->wanting > 0 || (pool->waiters > 0 && !is_crowded))
        platform_condition_wake_all(&pool->ended);
    return pool->waking > 0;
}

void pool_wake_locked(struct task_pool *pool)
{
    if (pool_ask_for_wake_locked(pool))
        platform_condition_wake_one(&pool->work);
}

uint64_t pool_progress_locked(const struct task_pool *pool)
{
    return pool->submitted - pool->tasks.open_count + flow_steps_locked(pool);
}

void pool_call_one_locked(struct task_pool *pool)
{
    if (pool->parked == 0 || pool->waking > 0 || pool->is_looking || pool->spinning > 0)
        return;
    pool->waking = 1;
    platform_condition_wake_one(&pool->work);
}

void pool_tell_locked(struct task_pool *pool)
{
    pool_show_ended_locked(pool);
    /* Who waits for all tasks hears of the last one; what is on devices makes them look in between. */
    if (pool->waiters > 0 &&
        (pool->wanting > 0 || pool->tasks.open_count == 0 || pool->kernels_open > 0))
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
        /* Release: the thread that sees the thread here may hand in what it did before. */
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
    uint32_t taken = tasks_take(&pool->tasks, share < worker->most ? share : worker->most, indices);
    worker->count = 0;
    for (uint32_t i = 0; i < taken; i++)
        worker->count += pool_load_locked(pool, indices[i], &worker->batch[worker->count]);
    atomic_store_explicit(&worker->place,
                          PLACE(0u, PLACE_NOWHERE) | (pool->wanting > 0 ? PLACE_IS_WANTED : 0),
                          memory_order_relaxed);
    return worker->count;
}

/* It has run this many of its batch in this time: the next is to take as long as it should. */
static void learn(struct worker *worker, uint32_t count, uint64_t elapsed_ns)
{
    if (elapsed_ns >= (uint64_t)count * BATCH_NS)
        worker->most = 1;
    else if (elapsed_ns > BATCH_NS)
        worker->most = (worker->most + 1) / 2;
    else if (count == worker->most && elapsed_ns < BATCH_NS / 2 && worker->most < TAKEN_AT_ONCE)
        worker->most *= 2;
}

/* Runs what is left of the batch to this thread, and hands it in. Called and left with the lock. */
static void run_batch_locked(struct worker *worker)
{
    struct task_pool *pool = worker->pool;
    uint32_t limit = worker->count, at, count = 0;
    bool is_wanted, has_followers = false, is_profiled = nvtx_is_on();
    platform_mutex_unlock(&pool->lock);
    /* One alone that was not held back for its length needs no clock: a chain has no others. */
    uint64_t begin_ns = limit > 1 || worker->most == 1 ? platform_clock_ns() : 0;
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
        count++;
    }
    if (begin_ns > 0 && count > 0)
        learn(worker, count, platform_clock_ns() - begin_ns);
    platform_mutex_lock(&pool->lock);
    hand_in_locked(worker, atomic_load_explicit(&worker->place, memory_order_relaxed));
    pool_give_ready_locked(pool, NULL);
}

/* Looks around a little, without the lock, which others need. */
static void spin_locked(struct task_pool *pool)
{
    uint32_t news = atomic_load_explicit(&pool->news, memory_order_relaxed);
    uint64_t until_ns = platform_clock_ns() + (pool->tasks.open_count > 0 ? SPIN_OPEN_NS : SPIN_NS);
    pool->spinning++;
    platform_mutex_unlock(&pool->lock);
    while (atomic_load_explicit(&pool->news, memory_order_relaxed) == news &&
           platform_clock_ns() < until_ns)
        platform_thread_yield();
    platform_mutex_lock(&pool->lock);
    pool->spinning--;
}

/*
 * Until there may be something to do; true if it is time to look what holds up others: in graphs' runs, or
 * in tasks on all cores.
 */
static bool park_locked(struct task_pool *pool, uint64_t look_ns, bool is_for_runs)
{
    bool must_look = false;
    pool->parked++;
    while (!pool->must_stop && pool->waking == 0 && !must_look) {
        bool is_looking = (!is_for_runs || pool->flow.runs) && !pool->is_looking;
        pool->is_looking |= is_looking;
        must_look = !platform_condition_wait(
            &pool->work, &pool->lock, is_looking ? platform_clock_ns() + look_ns : UINT64_MAX);
        pool->is_looking &= !is_looking;
    }
    pool->parked--;
    pool->waking = 0;
    return must_look;
}

/* A thread that waits for tasks runs some, and is in the place of one of the pool's. */
static bool must_make_place_locked(const struct task_pool *pool)
{
    return !pool->must_stop && pool->helping > 0 &&
           pool->started + pool->helping > pool->room + pool->parked + pool->blocked;
}

/* Parks for that; true if nothing has ended meanwhile, so that the place is needed. */
static bool make_place_locked(struct task_pool *pool)
{
    uint64_t progress = pool_progress_locked(pool);
    atomic_fetch_add(&pool->idle, 1);
    bool must_look = park_locked(pool, STAND_BACK_NS, false);
    atomic_fetch_sub(&pool->idle, 1);
    bool is_needed = must_look && progress == pool_progress_locked(pool);
    if (is_needed)
        flow_look_at_run_locked(pool);
    return is_needed;
}

/* Looks around a little, then parks until there may be something to do. With the lock. */
static void rest_locked(struct task_pool *pool)
{
    bool must_look = false;
    /* Sequentially consistent, before it looks at what runs of graphs have: struct flow_run. */
    atomic_fetch_add(&pool->idle, 1);
    if (!pool->must_stop && !has_ready_locked(pool))
        spin_locked(pool);
    if (!pool->must_stop && !has_ready_locked(pool) && !can_steal_locked(pool))
        must_look = park_locked(pool, LOOK_AGAIN_NS, true);
    atomic_fetch_sub(&pool->idle, 1);
    if (must_look)
        flow_look_at_run_locked(pool);
}

void pool_work(void *argument)
{
    struct worker *worker = argument;
    struct task_pool *pool = worker->pool;
    pool_enter(&worker->frame, pool, (muster_task){ 0, 0 });
    platform_mutex_lock(&pool->lock);
    for (bool is_needed = false;;) {
        if (!is_needed && must_make_place_locked(pool)) {
            is_needed = make_place_locked(pool);
            continue;
        }
        is_needed = false;
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
