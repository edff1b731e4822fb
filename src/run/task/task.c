/*
 * Tasks: the core's table (core/tasks.h) under a lock of its own, and the threads that run what is
 * ready. A thread takes several at once and hands in as many; one that finds nothing spins a
 * little, yielding, and then parks. Whoever waits for tasks runs them.
 *
 * Nothing stands behind a long task that was taken with others: what its thread has not begun is
 * taken back by whoever has nothing to do, and what it has finished is handed in by whoever needs
 * it ended, in its stead.
 *
 * Tasks with kernels are in the same table, set aside: whoever makes one ready gives it to a device
 * (task_lane.c), which takes no longer than a launch, and whoever sees the device finish ends it.
 *
 * The lock is apart from the runtime's, so that tasks and the rest do not stand in each other's way.
 * It is never held while user code runs, and no other lock is taken under it.
 */
#include "base/allocator.h"
#include "base/invariant.h"
#include "platform/machine.h"
#include "run/task/task_pool.h"

#include <string.h>

/* Room that there is from the start; more is made when it is needed. */
#define EDGES_AT_FIRST (2 * MUSTER_TASKS_MAX)
/* No memory is that large. */
#define EDGES_MAX (UINT32_MAX / 4)
#define WORKERS_MAX 1024u
/* How long an idle thread looks around before it parks: a wake costs about as much. */
#define SPIN_NS 20000u
/*
 * One who waits for a device looks all the time for so long, and then after pauses of a part of the
 * time it has waited: nobody else is sure to tell it.
 */
#define LOOK_NS 50000u
#define PAUSE_PART 16u
#define PAUSE_MAX_NS 1000000u
/* How long closing waits at least for a thread to come out of a driver when all tasks have ended. */
#define STUCK_LEAST_NS 100000000u

/* A task between the table and whoever runs it. */
struct running {
    uint32_t index;
    task_function fn;
    void *user;
    done_function done;
    muster_task handle;
    muster_status status;
    bool is_doomed;
    bool has_followers; /* when it was taken */
    bool is_gone;       /* in a batch: handed in, or taken back; under the lock */
};

/* A thread is in the function or the callback of this task, or between two of its pool. */
struct task_frame {
    struct platform_frame head; /* first; its object is the pool */
    muster_task task;
};
_Static_assert(offsetof(struct task_frame, head) == 0, "found by its head");

/*
 * A thread with the tasks it took. `place` says how far it is, in one word, so that everybody can
 * tell what it has finished and take what it has not begun.
 */
struct worker {
    struct task_pool *pool;
    struct platform_thread thread;
    struct task_frame frame;             /* the thread's own */
    struct running batch[TAKEN_AT_ONCE]; /* filled under the lock */
    uint32_t count;                      /* likewise */
    _Atomic uint32_t place;
};

/*
 * The parts of a place: the next of the batch to begin, the one its thread is at, and whether
 * somebody needs what it finishes as soon as it does, not when the batch is done.
 */
#define PLACE_NEXT(place) ((place)&0xffu)
#define PLACE_AT(place) ((place) >> 8 & 0xffu)
#define PLACE_NOWHERE 0xffu
#define PLACE_IS_WANTED 0x10000u
#define PLACE(next, at) ((next) | (at) << 8)
_Static_assert(TAKEN_AT_ONCE < PLACE_NOWHERE, "a batch's indices fit into a place");

/* Whether this thread runs a task to make room. */
static _Thread_local bool is_making_room;

/* Whether others may wait for what this thread is in, so that it must not wait for them. */
static bool is_in_task(void)
{
    return platform_frame_is_in(FRAME_TASK, NULL) || platform_frame_is_in(FRAME_KERNEL, NULL);
}

static void enter(struct task_frame *frame, struct task_pool *pool, muster_task task)
{
    *frame =
        (struct task_frame){ { .kind = FRAME_TASK, .runtime = pool->m, .object = pool }, task };
    platform_frame_enter(&frame->head);
}

/* Names the thread, as long as it is there. */
static const void *this_thread(void)
{
    return &is_making_room;
}

/* Functions are kept as the table's plain pointers. */
static void keep_functions(struct tasks_entry *entry, const struct muster_task_desc *desc)
{
    memcpy(&entry->payload[0], &desc->fn, sizeof desc->fn);
    entry->payload[1] = desc->user;
    memcpy(&entry->payload[2], &desc->done, sizeof desc->done);
}

static void load(const struct tasks *tasks, uint32_t index, struct running *out)
{
    const struct tasks_entry *entry = &tasks->entries[index];
    *out = (struct running){ .index = index,
                             .user = entry->payload[1],
                             .handle = { index, entry->generation },
                             .is_doomed = entry->is_doomed,
                             .has_followers = entry->first_follower != TASKS_NONE };
    /* One that is set aside is ended here, never run. */
    if (!entry->is_aside)
        memcpy(&out->fn, &entry->payload[0], sizeof out->fn);
    memcpy(&out->done, &entry->payload[2], sizeof out->done);
}

/* Runs a task that was taken. No lock is held. */
static void run_task(struct muster *m, struct running *task)
{
    uint64_t begin_ns = trace_clock(m);
    task->status = task->is_doomed ? MUSTER_E_CANCELLED : task->fn(task->user);
    if (begin_ns > 0)
        trace_task(m, begin_ns, task->status);
    if (task->done)
        task->done(task->user, task->handle, task->status);
}

/*
 * Whether one more thread is to be woken: not if one is on its way or looking around. It wakes the
 * next. Where all are in tasks that wait for others, those are the ones to run it.
 */
static bool ask_for_wake_locked(struct task_pool *pool)
{
    if (pool->tasks.ready.count == 0 || pool->spinning > 0 || pool->waking > 0)
        return false;
    if (pool->parked > 0)
        pool->waking = 1;
    else if (pool->waiters > 0)
        platform_condition_wake_all(&pool->ended);
    return pool->waking > 0;
}

static void wake_locked(struct task_pool *pool)
{
    if (ask_for_wake_locked(pool))
        platform_condition_wake_one(&pool->work);
}

static void tell_locked(struct task_pool *pool)
{
    if (pool->waiters > 0)
        platform_condition_wake_all(&pool->ended);
    wake_locked(pool);
}

/* Ends a task in the table, and with it what it kept for its kernel. */
static void end_entry_locked(struct task_pool *pool, uint32_t index, muster_status status)
{
    struct tasks_entry *entry = &pool->tasks.entries[index];
    if (entry->is_aside) {
        struct kernel_task *task = entry->payload[0];
        pool->kernels_open--;
        pool->kernels_timed -= task->timeout_ns != UINT64_MAX;
        pool->kernels_wanted -= (task->done != NULL) + (entry->first_follower != TASKS_NONE);
        kernel_task_give_locked(pool, task);
    }
    tasks_end(&pool->tasks, index, status);
}

static void end_locked(struct task_pool *pool, const struct running *task)
{
    end_entry_locked(pool, task->index, task->status);
    tell_locked(pool);
}

/* Runs a task on a thread that is not one of the pool's, or on top of another. */
static void run_aside_locked(struct task_pool *pool, struct running *task)
{
    struct task_frame frame;
    platform_mutex_unlock(&pool->lock);
    enter(&frame, pool, task->handle);
    run_task(pool->m, task);
    platform_frame_leave(&frame.head);
    platform_mutex_lock(&pool->lock);
    end_locked(pool, task);
    task_give_ready_locked(pool);
}

/* Kernel tasks. */

static void call_done(struct task_pool *pool, const struct kernel_task *task)
{
    struct task_frame frame;
    enter(&frame, pool, task->handle);
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
    if (has_callback) {
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
            end_entry_locked(pool, task->index, task->status);
        else
            tasks_put_back(&pool->tasks, task->index);
    }
    if (has_any)
        tell_locked(pool);
    return has_waiting;
}

void task_settle(struct task_pool *pool, struct kernel_task *chain)
{
    platform_mutex_lock(&pool->lock);
    /* What waits for room is given again when something has ended, not at once. */
    if (!settle_locked(pool, chain))
        task_give_ready_locked(pool);
    platform_mutex_unlock(&pool->lock);
}

/* Takes kernel tasks that are ready: some to be given, and some to be ended. Both keep their order. */
static void take_aside_locked(struct task_pool *pool, struct kernel_task **ready,
                              struct kernel_task **doomed)
{
    uint32_t indices[TAKEN_AT_ONCE];
    *ready = *doomed = NULL;
    for (uint32_t i = tasks_take_aside(&pool->tasks, TAKEN_AT_ONCE, indices); i-- > 0;) {
        const struct tasks_entry *entry = &pool->tasks.entries[indices[i]];
        struct kernel_task *task = entry->payload[0], **chain = entry->is_doomed ? doomed : ready;
        if (entry->is_doomed) {
            task->outcome = KERNEL_ENDS;
            task->status = MUSTER_E_CANCELLED;
        }
        task->next = *chain;
        *chain = task;
    }
}

/* As task_give_ready_locked; what `submitter` submitted is given by this thread, unless it is NULL. */
static void give_ready_locked(struct task_pool *pool, const void *submitter)
{
    bool has_waiting = false, has_given = false;
    while (pool->tasks.aside.count > 0 && !has_waiting) {
        struct kernel_task *ready, *doomed, *left = NULL;
        take_aside_locked(pool, &ready, &doomed);
        if (ready) {
            platform_mutex_unlock(&pool->lock);
            left = lanes_give(pool, ready, submitter);
            platform_mutex_lock(&pool->lock);
        }
        settle_locked(pool, doomed);
        has_waiting = settle_locked(pool, left);
        has_given = true;
    }
    if (has_given)
        lanes_wake_locked(pool);
}

void task_give_ready_locked(struct task_pool *pool)
{
    give_ready_locked(pool, NULL);
}

/*
 * The same for one who is done then: left without the lock. A single task goes to its device and the
 * lock is not taken again, unless something is left to do.
 */
static void give_ready_and_unlock(struct task_pool *pool)
{
    const struct tasks *tasks = &pool->tasks;
    /* A task's thread may be one that others need: it leaves the driver to the lanes'. */
    const void *submitter = is_in_task() ? NULL : this_thread();
    bool has_waiting = false;
    if (tasks->aside.count == 1 && pool->kernels_wanted == 0 &&
        !tasks->entries[tasks->aside.head].is_doomed) {
        struct kernel_task *ready, *doomed;
        take_aside_locked(pool, &ready, &doomed);
        platform_mutex_unlock(&pool->lock);
        struct kernel_task *left = lanes_give(pool, ready, submitter);
        if (!left && !lanes_are_parked(pool))
            return;
        platform_mutex_lock(&pool->lock);
        has_waiting = settle_locked(pool, left);
        lanes_wake_locked(pool);
    }
    if (!has_waiting)
        give_ready_locked(pool, submitter);
    if (pool->kernels_wanted > 0)
        lanes_wake_locked(pool);
    platform_mutex_unlock(&pool->lock);
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

/* If the task is in a batch and not begun, it and those behind it are ready again. */
static void recall_locked(struct task_pool *pool, uint32_t index)
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
        tasks_end(&worker->pool->tasks, task->index, task->status);
        task->is_gone = has_ended = true;
    }
    if (has_ended)
        tell_locked(worker->pool);
    return has_ended;
}

/* Hands in what all have finished so far, and asks them to hand in the rest without delay. */
static bool collect_locked(struct task_pool *pool)
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
    if (tasks_take(&pool->tasks, 1, &index) == 0)
        return steal_locked(pool, out);
    load(&pool->tasks, index, out);
    return true;
}

/* Runs one task, if there is any. Called and left with the lock. */
static bool help_locked(struct task_pool *pool)
{
    struct running task;
    if (!take_one_locked(pool, &task))
        return false;
    run_aside_locked(pool, &task);
    return true;
}

/* Fills the worker's batch with its share of what is ready. */
static uint32_t fill_locked(struct worker *worker)
{
    struct task_pool *pool = worker->pool;
    uint32_t indices[TAKEN_AT_ONCE];
    uint32_t share = pool->tasks.ready.count / (pool->started + 1) + 1;
    worker->count =
        tasks_take(&pool->tasks, share < TAKEN_AT_ONCE ? share : TAKEN_AT_ONCE, indices);
    for (uint32_t i = 0; i < worker->count; i++)
        load(&pool->tasks, indices[i], &worker->batch[i]);
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
    bool is_wanted, has_followers = false;
    platform_mutex_unlock(&pool->lock);
    while (go_on(worker, limit, &at, &is_wanted)) {
        if (is_wanted || has_followers) {
            platform_mutex_lock(&pool->lock);
            hand_in_locked(worker, atomic_load_explicit(&worker->place, memory_order_relaxed));
            task_give_ready_locked(pool);
            platform_mutex_unlock(&pool->lock);
        }
        worker->frame.task = worker->batch[at].handle;
        run_task(pool->m, &worker->batch[at]);
        has_followers = worker->batch[at].has_followers;
    }
    platform_mutex_lock(&pool->lock);
    hand_in_locked(worker, atomic_load_explicit(&worker->place, memory_order_relaxed));
    task_give_ready_locked(pool);
}

/* Looks around a little, then parks until there may be something to do. With the lock. */
static void rest_locked(struct task_pool *pool)
{
    uint64_t until_ns = platform_clock_ns() + SPIN_NS;
    pool->spinning++;
    while (!pool->must_stop && pool->tasks.ready.count == 0 && platform_clock_ns() < until_ns) {
        platform_mutex_unlock(&pool->lock);
        platform_thread_yield();
        platform_mutex_lock(&pool->lock);
    }
    pool->spinning--;
    if (pool->must_stop || pool->tasks.ready.count > 0 || can_steal_locked(pool))
        return;
    pool->parked++;
    while (!pool->must_stop && pool->waking == 0)
        platform_condition_wait(&pool->work, &pool->lock, UINT64_MAX);
    pool->parked--;
    pool->waking = 0;
}

static void work(void *argument)
{
    struct worker *worker = argument;
    struct task_pool *pool = worker->pool;
    enter(&worker->frame, pool, (muster_task){ 0, 0 });
    platform_mutex_lock(&pool->lock);
    for (;;) {
        if (fill_locked(worker) > 0) {
            wake_locked(pool);
            run_batch_locked(worker);
        } else if (!help_locked(pool)) {
            if (pool->must_stop)
                break;
            rest_locked(pool);
        }
    }
    platform_mutex_unlock(&pool->lock);
    platform_frame_leave(&worker->frame.head);
}

/* The pool. */

/* Parks until something has ended; not if something has already. False after the deadline. */
static bool await_end_locked(struct task_pool *pool, bool is_for_all, uint64_t deadline_ns)
{
    if (!is_for_all && collect_locked(pool))
        return true;
    pool->waiters++;
    pool->wanting += !is_for_all;
    bool in_time = platform_condition_wait(&pool->ended, &pool->lock, deadline_ns);
    pool->wanting -= !is_for_all;
    pool->waiters--;
    return in_time;
}

/* The same for an end that the lanes' threads are to see: these look more often meanwhile. */
static bool rely_locked(struct task_pool *pool, bool is_for_all, uint64_t deadline_ns)
{
    pool->relying++;
    lanes_wake_locked(pool);
    bool in_time = await_end_locked(pool, is_for_all, deadline_ns);
    pool->relying--;
    return in_time;
}

/*
 * Waits for an end, in the table or on devices. Not for long: the last may have come while the lock
 * was not held. With the lock.
 */
static void await_any_locked(struct task_pool *pool, bool is_for_all)
{
    task_give_ready_locked(pool);
    rely_locked(pool, is_for_all, platform_clock_ns() + PAUSE_MAX_NS);
}

static uint32_t count_workers(const struct muster *m)
{
    if (m->options.cpu_workers > 0)
        return m->options.cpu_workers;
    uint32_t cores = platform_core_count();
    return cores < WORKERS_MAX ? cores : WORKERS_MAX;
}

/*
 * All tasks end, also kernels whose devices do not: the guard gives these up, since this thread may
 * be in a function that waits for one. Functions may submit more meanwhile, kernels too: it is over
 * when none is open.
 */
static void drain(struct task_pool *pool)
{
    platform_mutex_lock(&pool->lock);
    if (pool->drain_ns == 0)
        pool->drain_ns = platform_clock_ns();
    while (pool->tasks.open_count > 0)
        if (!help_locked(pool))
            await_any_locked(pool, true);
    platform_mutex_unlock(&pool->lock);
}

/*
 * Ends the threads. What devices may write to stays until free_pool. Gives how many threads are
 * inside a driver and do not come out: then nothing may be freed.
 */
static uint32_t stop_pool(struct task_pool *pool, struct muster_error *what)
{
    drain(pool);
    platform_mutex_lock(&pool->lock);
    pool->must_stop = true;
    platform_condition_wake_all(&pool->work);
    platform_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < pool->started; i++)
        platform_thread_join(&pool->workers[i].thread);
    /* A lane that was given up had its time; any other may only be short of a core. */
    uint64_t close_ns = pool->m->options.close_ns;
    uint64_t patience_ns = close_ns > STUCK_LEAST_NS ? close_ns : STUCK_LEAST_NS;
    uint32_t stuck = lanes_stop(pool, platform_deadline_ns(patience_ns), what);
    INVARIANT(pool->tasks.open_count == 0);
    return stuck;
}

static void free_pool(struct task_pool *pool)
{
    struct muster *m = pool->m;
    lanes_free(pool);
    kernel_chunks_free(pool);
    platform_mutex_deinit(&pool->opening);
    platform_condition_deinit(&pool->guard_wake);
    platform_condition_deinit(&pool->ended);
    platform_condition_deinit(&pool->work);
    platform_mutex_deinit(&pool->lock);
    allocator_give(&m->allocator, pool->more_edges, pool->tasks.edge_capacity,
                   sizeof *pool->more_edges);
    allocator_give(&m->allocator, pool->memory, tasks_bytes(MUSTER_TASKS_MAX, EDGES_AT_FIRST), 1);
    allocator_give(&m->allocator, pool->workers, pool->worker_count, sizeof *pool->workers);
    allocator_give(&m->allocator, pool, 1, sizeof *pool);
}

static muster_status start_workers(struct task_pool *pool, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < pool->worker_count && status == MUSTER_OK; i++) {
        pool->workers[i].pool = pool;
        status = platform_thread_start(&pool->workers[i].thread, work, &pool->workers[i],
                                       "muster-task", NULL, err);
        platform_mutex_lock(&pool->lock);
        pool->started += status == MUSTER_OK;
        platform_mutex_unlock(&pool->lock);
    }
    return status;
}

static muster_status make_pool(struct muster *m, struct task_pool **out, struct muster_error *err)
{
    muster_status status;
    struct task_pool *pool = allocator_take(&m->allocator, 1, sizeof *pool);
    if (!pool)
        return run_no_memory(err, "tasks");
    pool->m = m;
    pool->worker_count = count_workers(m);
    pool->workers = allocator_take(&m->allocator, pool->worker_count, sizeof *pool->workers);
    pool->memory = allocator_take(&m->allocator, tasks_bytes(MUSTER_TASKS_MAX, EDGES_AT_FIRST), 1);
    if (!pool->workers || !pool->memory) {
        status = run_no_memory(err, "tasks");
        goto no_memory;
    }
    if ((status = platform_mutex_init(&pool->lock, err)) != MUSTER_OK)
        goto no_memory;
    if ((status = platform_condition_init(&pool->work, err)) != MUSTER_OK)
        goto no_work;
    if ((status = platform_condition_init(&pool->ended, err)) != MUSTER_OK)
        goto no_ended;
    if ((status = platform_condition_init(&pool->guard_wake, err)) != MUSTER_OK)
        goto no_guard;
    if ((status = platform_mutex_init(&pool->opening, err)) != MUSTER_OK)
        goto no_opening;
    tasks_init(&pool->tasks, pool->memory, MUSTER_TASKS_MAX, EDGES_AT_FIRST);
    status = start_workers(pool, err);
    if (status == MUSTER_OK) {
        *out = pool;
        return status;
    }
    stop_pool(pool, NULL);
    free_pool(pool);
    return status;
no_opening:
    platform_condition_deinit(&pool->guard_wake);
no_guard:
    platform_condition_deinit(&pool->ended);
no_ended:
    platform_condition_deinit(&pool->work);
no_work:
    platform_mutex_deinit(&pool->lock);
no_memory:
    allocator_give(&m->allocator, pool->memory, tasks_bytes(MUSTER_TASKS_MAX, EDGES_AT_FIRST), 1);
    allocator_give(&m->allocator, pool->workers, pool->worker_count, sizeof *pool->workers);
    allocator_give(&m->allocator, pool, 1, sizeof *pool);
    return status;
}

/* The runtime's pool, made by the first who submits. */
static muster_status get_pool(struct muster *m, struct task_pool **out, struct muster_error *err)
{
    /* Acquire pairs with the release below: the pool is whole for whoever sees it. */
    *out = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    if (*out)
        return MUSTER_OK;
    run_lock(m);
    while (m->is_making_pool)
        platform_condition_wait(&m->changed, &m->lock, UINT64_MAX);
    *out = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    bool mine = *out == NULL;
    m->is_making_pool = mine;
    run_unlock(m);
    if (!mine)
        return MUSTER_OK;
    muster_status status = make_pool(m, out, err);
    if (status == MUSTER_OK)
        atomic_store_explicit(&m->task_pool, *out, memory_order_release);
    run_lock(m);
    m->is_making_pool = false;
    platform_condition_wake_all(&m->changed);
    run_unlock(m);
    return status;
}

void tasks_drain(struct muster *m)
{
    struct task_pool *pool = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    if (pool)
        drain(pool);
}

uint32_t tasks_destroy(struct muster *m, struct muster_error *what)
{
    struct task_pool *pool = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    return pool ? stop_pool(pool, what) : 0;
}

void tasks_let_kernels_go(struct muster *m)
{
    struct task_pool *pool = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    if (pool)
        kernel_chunks_let_go(pool);
}

void tasks_free(struct muster *m)
{
    struct task_pool *pool = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    if (pool)
        free_pool(pool);
}

/* Submitting. */

/* Task i of a call, whose structs may be of an older version: then it is completed in `copy`. */
static const struct muster_task_desc *desc_at(const struct muster_task_desc *descs, size_t i,
                                              struct muster_task_desc *copy)
{
    return layout_at(LAYOUT(muster_task_desc), descs, i, copy);
}

static muster_status check_desc(const struct muster_task_desc *desc, struct muster_error *err)
{
    if (!desc->fn == !desc->kernel)
        return run_bad_argument(err, "muster_submit", "a task has either a function or a kernel");
    if (!desc->after && desc->after_count > 0)
        return run_bad_argument(err, "muster_submit", "a task with no list to be after");
    return MUSTER_OK;
}

static muster_status check_descs(const struct muster_task_desc *descs, size_t count,
                                 uint32_t *kernel_count, struct muster_error *err)
{
    if (count > MUSTER_SUBMIT_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "submit fewer at a time",
                                 "%zu tasks in one call; at most %u", count, MUSTER_SUBMIT_MAX);
    muster_status status = layout_check_all(LAYOUT(muster_task_desc), descs, count, err);
    *kernel_count = 0;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        struct muster_task_desc copy;
        const struct muster_task_desc *desc = desc_at(descs, i, &copy);
        status = check_desc(desc, err);
        *kernel_count += desc->kernel != NULL;
    }
    return status;
}

/*
 * Makes room for `count` tasks: by running some, as long as there is none. What is run for that does
 * not do the same on top of it, without end. A task never waits for room, since the others may wait
 * for it: it has the places that keep how tasks ended.
 */
static muster_status make_room_locked(struct task_pool *pool, size_t count,
                                      struct muster_error *err)
{
    /* Half of the places keep how tasks ended, for those who ask. */
    if (pool->tasks.open_count + count <= MUSTER_TASKS_MAX / 2)
        return MUSTER_OK;
    while (!is_making_room && pool->tasks.open_count + count > MUSTER_TASKS_MAX / 4) {
        is_making_room = true;
        bool has_run = help_locked(pool);
        is_making_room = false;
        if (!has_run && is_in_task())
            break;
        if (!has_run)
            await_any_locked(pool, false);
    }
    if (count <= pool->tasks.spare.count)
        return MUSTER_OK;
    return muster_error_fill(err, MUSTER_E_CAPACITY, 0, "submit less from within tasks",
                             "%zu tasks more than the %u that have not ended; at most %u", count,
                             pool->tasks.open_count, MUSTER_TASKS_MAX);
}

/* Whether an edge is needed for one that a task is after; one of the same call has no handle yet. */
static bool needs_edge_locked(const struct task_pool *pool, const muster_task *before,
                              const muster_task *out, size_t count)
{
    if ((uintptr_t)before >= (uintptr_t)out && (uintptr_t)before < (uintptr_t)(out + count))
        return true;
    return tasks_find(&pool->tasks, before->index, before->generation) == MUSTER_OK &&
           pool->tasks.entries[before->index].state != TASKS_ENDED;
}

/* How many edges the tasks of a call take at most. */
static uint64_t count_edges_locked(const struct task_pool *pool,
                                   const struct muster_task_desc *descs, size_t count,
                                   const muster_task *out)
{
    struct muster_task_desc copy;
    uint64_t edges = 0;
    for (size_t i = 0; i < count; i++)
        edges += desc_at(descs, i, &copy)->after_count;
    /* Seldom more: then those that have ended do not count. */
    if (edges <= pool->tasks.free_edge_count)
        return edges;
    edges = 0;
    for (size_t i = 0; i < count; i++) {
        const struct muster_task_desc *desc = desc_at(descs, i, &copy);
        for (size_t k = 0; k < desc->after_count; k++)
            edges += needs_edge_locked(pool, &desc->after[k], out, count);
    }
    return edges;
}

/* Makes room for so many edges more. The lock is not held meanwhile. */
static muster_status add_edges_locked(struct task_pool *pool, uint64_t needed,
                                      struct muster_error *err)
{
    const struct muster_allocator *allocator = &pool->m->allocator;
    uint64_t capacity = pool->tasks.edge_capacity - pool->tasks.free_edge_count + needed;
    capacity = capacity > 2 * (uint64_t)pool->tasks.edge_capacity
                   ? capacity
                   : 2 * (uint64_t)pool->tasks.edge_capacity;
    platform_mutex_unlock(&pool->lock);
    struct tasks_edge *edges =
        capacity <= EDGES_MAX ? allocator_take(allocator, (size_t)capacity, sizeof *edges) : NULL;
    platform_mutex_lock(&pool->lock);
    if (!edges)
        return run_no_memory(err, "the order of tasks");
    struct tasks_edge *spare = edges;
    size_t spare_count = (size_t)capacity;
    /* Another thread may have done it. */
    if (capacity > pool->tasks.edge_capacity) {
        spare = pool->more_edges;
        spare_count = pool->tasks.edge_capacity;
        tasks_move_edges(&pool->tasks, edges, (uint32_t)capacity);
        pool->more_edges = edges;
    }
    platform_mutex_unlock(&pool->lock);
    allocator_give(allocator, spare, spare_count, sizeof *spare);
    platform_mutex_lock(&pool->lock);
    return MUSTER_OK;
}

/* Room for the tasks of a call and for their order, at the same moment. */
static muster_status make_all_room_locked(struct task_pool *pool,
                                          const struct muster_task_desc *descs, size_t count,
                                          const muster_task *out, struct muster_error *err)
{
    muster_status status;
    uint64_t edges = 0;
    while ((status = make_room_locked(pool, count, err)) == MUSTER_OK &&
           (edges = count_edges_locked(pool, descs, count, out)) > pool->tasks.free_edge_count)
        if ((status = add_edges_locked(pool, edges, err)) != MUSTER_OK)
            break;
    return status;
}

static muster_status fill_kernels(struct task_pool *pool, const struct muster_task_desc *descs,
                                  size_t count, struct kernel_task *task,
                                  struct kernel_devices *known, struct muster_error *err)
{
    struct muster_task_desc copy;
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        const struct muster_task_desc *desc = desc_at(descs, i, &copy);
        if (!desc->kernel)
            continue;
        status = kernel_task_fill(pool, task, desc, known, false, err);
        task = task->next;
    }
    return status;
}

/*
 * Records for the kernels of a call, filled. Waits for some to come free, as for places. With the
 * lock, which is not held all the time; for one task of a known kernel it is.
 */
static muster_status prepare_kernels_locked(struct task_pool *pool,
                                            const struct muster_task_desc *descs, size_t count,
                                            uint32_t kernel_count, struct kernel_task **out,
                                            struct muster_error *err)
{
    muster_status status;
    struct muster_task_desc copy;
    while (!kernel_tasks_take_locked(pool, kernel_count, out, &status, err)) {
        if (status == MUSTER_OK && (is_in_task() || is_making_room))
            status =
                muster_error_fill(err, MUSTER_E_CAPACITY, 0, "submit less from within tasks",
                                  "%u kernels more than the %u that have not ended; at most %u",
                                  kernel_count, pool->kernels_open, MUSTER_KERNEL_TASKS_MAX);
        if (status != MUSTER_OK)
            return status;
        if (!help_locked(pool))
            await_any_locked(pool, false);
    }
    const struct muster_task_desc *first = desc_at(descs, 0, &copy);
    if (count == 1 && kernel_task_is_known(pool, first, &pool->known))
        return kernel_task_fill(pool, *out, first, &pool->known, true, err);
    struct kernel_devices known = pool->known;
    platform_mutex_unlock(&pool->lock);
    status = fill_kernels(pool, descs, count, *out, &known, err);
    platform_mutex_lock(&pool->lock);
    pool->known = known;
    return status;
}

static void give_back_kernels_locked(struct task_pool *pool, struct kernel_task *chain)
{
    while (chain) {
        struct kernel_task *task = chain;
        chain = task->next;
        kernel_task_give_locked(pool, task);
    }
}

/* Lets the task follow those it is after; how many it does. */
static muster_status follow_locked(struct task_pool *pool, uint32_t index,
                                   const struct muster_task_desc *desc, size_t *followed,
                                   struct muster_error *err)
{
    struct tasks *tasks = &pool->tasks;
    for (*followed = 0; *followed < desc->after_count; (*followed)++) {
        muster_task before = desc->after[*followed];
        muster_status status = tasks_find(tasks, before.index, before.generation);
        if (status == MUSTER_E_STALE)
            continue; /* ended long ago */
        if (status != MUSTER_OK || !tasks->entries[before.index].is_released)
            return muster_error_fill(err, MUSTER_E_UNKNOWN, 0, "use handles as Muster gave them",
                                     "a task is after one that was not submitted before it");
        const struct tasks_entry *entry = &tasks->entries[before.index];
        if (entry->state == TASKS_TAKEN && !entry->is_aside)
            collect_locked(pool);
        bool was_followed = entry->first_follower != TASKS_NONE;
        bool fits = tasks_follow(tasks, index, before.index);
        INVARIANT(fits);
        (void)fits;
        pool->kernels_wanted +=
            entry->is_aside && !was_followed && entry->first_follower != TASKS_NONE;
    }
    return MUSTER_OK;
}

static void unfollow_locked(struct task_pool *pool, uint32_t index,
                            const struct muster_task_desc *desc, size_t followed)
{
    while (followed-- > 0) {
        muster_task before = desc->after[followed];
        if (tasks_find(&pool->tasks, before.index, before.generation) != MUSTER_OK)
            continue;
        const struct tasks_entry *entry = &pool->tasks.entries[before.index];
        bool was_followed = entry->first_follower != TASKS_NONE;
        tasks_unfollow(&pool->tasks, index, before.index);
        pool->kernels_wanted -=
            entry->is_aside && was_followed && entry->first_follower == TASKS_NONE;
    }
}

/* Puts a task into the table; one with a kernel with the first record of the chain. */
static muster_task add_locked(struct task_pool *pool, const struct muster_task_desc *desc,
                              struct kernel_task **kernels)
{
    uint32_t index = tasks_add(&pool->tasks);
    INVARIANT(index != TASKS_NONE);
    struct tasks_entry *entry = &pool->tasks.entries[index];
    muster_task handle = { index, entry->generation };
    keep_functions(entry, desc);
    if (desc->kernel) {
        struct kernel_task *task = *kernels;
        *kernels = task->next;
        task->index = index;
        task->handle = handle;
        task->submitter = this_thread();
        entry->payload[0] = task;
        tasks_set_aside(&pool->tasks, index);
    }
    return handle;
}

/* None is submitted, the last first: later ones may follow earlier ones. */
static void withdraw_locked(struct task_pool *pool, const struct muster_task_desc *descs,
                            size_t count, size_t released, size_t followed, const muster_task *out)
{
    struct muster_task_desc copy;
    for (size_t i = count; i-- > 0;) {
        const struct muster_task_desc *desc = desc_at(descs, i, &copy);
        if (i <= released)
            unfollow_locked(pool, out[i].index, desc, i < released ? desc->after_count : followed);
        tasks_withdraw(&pool->tasks, out[i].index);
    }
}

static muster_status submit_locked(struct task_pool *pool, const struct muster_task_desc *descs,
                                   size_t count, struct kernel_task *kernels, muster_task *out,
                                   struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    struct muster_task_desc copy;
    size_t released = 0, followed = 0;
    struct kernel_task *next = kernels;
    for (size_t i = 0; i < count; i++)
        out[i] = add_locked(pool, desc_at(descs, i, &copy), &next);
    for (; released < count; released++) {
        status = follow_locked(pool, out[released].index, desc_at(descs, released, &copy),
                               &followed, err);
        if (status != MUSTER_OK)
            break;
        tasks_release(&pool->tasks, out[released].index);
    }
    if (status != MUSTER_OK) {
        withdraw_locked(pool, descs, count, released, followed, out);
        return status;
    }
    for (; kernels; kernels = kernels->next) {
        pool->kernels_open++;
        pool->kernels_timed += kernels->timeout_ns != UINT64_MAX;
        pool->kernels_wanted += kernels->done != NULL;
    }
    return status;
}

static bool are_awaited(const struct muster_task_desc *descs, size_t count)
{
    struct muster_task_desc copy;
    size_t i = 0;
    while (i < count && desc_at(descs, i, &copy)->is_awaited)
        i++;
    return i == count;
}

muster_status muster_submit(struct muster *m, const struct muster_task_desc *descs, size_t count,
                            muster_task *out, struct muster_error *err)
{
    struct task_pool *pool;
    struct kernel_task *kernels = NULL;
    muster_task unwanted[MUSTER_SUBMIT_MAX];
    uint32_t kernel_count = 0;
    if (!m || (!descs && count > 0))
        return run_bad_argument(err, "muster_submit", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = check_descs(descs, count, &kernel_count, err);
    if (status == MUSTER_OK)
        status = get_pool(m, &pool, err);
    if (status != MUSTER_OK || count == 0)
        return status;
    platform_mutex_lock(&pool->lock);
    if (kernel_count > 0)
        status = prepare_kernels_locked(pool, descs, count, kernel_count, &kernels, err);
    if (!out)
        out = unwanted;
    if (status == MUSTER_OK)
        status = make_all_room_locked(pool, descs, count, out, err);
    if (status == MUSTER_OK)
        status = submit_locked(pool, descs, count, kernels, out, err);
    if (status != MUSTER_OK)
        give_back_kernels_locked(pool, kernels);
    pool->submitted += status == MUSTER_OK ? count : 0;
    /* Somebody else who waits, for all there are, must not wait for a promise. */
    bool can_wait = pool->waiters == 0 && are_awaited(descs, count);
    bool must_wake = !can_wait && ask_for_wake_locked(pool);
    /* To give a kernel may mean to build it first: nobody is to wait for that. */
    if (must_wake && pool->tasks.aside.count > 0) {
        platform_condition_wake_one(&pool->work);
        must_wake = false;
    }
    give_ready_and_unlock(pool);
    /* Without the lock, which the woken thread needs before this call into the system is over. */
    if (must_wake)
        platform_condition_wake_one(&pool->work);
    return status;
}

void tasks_count(struct muster *m, uint64_t *submitted, uint64_t *ended)
{
    struct task_pool *pool = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    *submitted = *ended = 0;
    if (!pool)
        return;
    platform_mutex_lock(&pool->lock);
    collect_locked(pool);
    *submitted = pool->submitted;
    *ended = pool->submitted - pool->tasks.open_count;
    platform_mutex_unlock(&pool->lock);
}

/* Waiting. */

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
    if (count == 0 || pool->tasks.ready.count == 0)
        return help_locked(pool);
    if (pool->tasks.entries[index].is_aside || !tasks_take_this(&pool->tasks, index)) {
        index = pool->tasks.ready.tail;
        tasks_take_this(&pool->tasks, index);
    }
    load(&pool->tasks, index, &task);
    run_aside_locked(pool, &task);
    return true;
}

/* The lane to look at for whoever waits for these tasks; false if there is none to be sure of. */
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
    bool may_look = deadline_ns == UINT64_MAX && pool->kernels_timed == 0 && !is_in_task() &&
                    find_lane_locked(pool, tasks, count, first, &lane);
    bool has_ended = false;
    give_ready_locked(pool, may_look ? this_thread() : NULL);
    if (may_look) {
        platform_mutex_unlock(&pool->lock);
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
        if (!may_look)
            lanes_wake_locked(pool);
        platform_mutex_unlock(&pool->lock);
        platform_thread_yield();
        platform_mutex_lock(&pool->lock);
        pool->relying -= !may_look;
        return now_ns < deadline_ns;
    }
    uint64_t pause_ns =
        waited_ns / PAUSE_PART < PAUSE_MAX_NS ? waited_ns / PAUSE_PART : PAUSE_MAX_NS;
    uint64_t until_ns = now_ns + pause_ns < deadline_ns ? now_ns + pause_ns : deadline_ns;
    /* This thread may be the guard, which tells how a task ended. */
    if (is_in_task())
        lanes_check_locked(pool);
    if (may_look)
        await_end_locked(pool, count == 0, until_ns);
    else
        rely_locked(pool, count == 0, until_ns);
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
        if (at->kind == FRAME_KERNEL)
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
    uint64_t since_ns = 0;
    platform_mutex_lock(&pool->lock);
    if (timeout_ns > 0 && !all_ended_locked(pool, tasks, count, &first, &status))
        is_stuck = waits_for_itself_locked(pool, tasks, count, first);
    while (!is_stuck && in_time && !all_ended_locked(pool, tasks, count, &first, &status)) {
        if (deadline_ns != UINT64_MAX && platform_clock_ns() >= deadline_ns) {
            in_time = false;
        } else if (!help_with_locked(pool, tasks, count, first)) {
            in_time = pool->kernels_open > 0
                          ? await_devices_locked(pool, tasks, count, first, deadline_ns, &since_ns)
                          : await_end_locked(pool, count == 0, deadline_ns);
        }
    }
    bool is_over = all_ended_locked(pool, tasks, count, &first, &status);
    platform_mutex_unlock(&pool->lock);
    if (is_stuck)
        return run_say_stuck(err, "muster_wait");
    if (!is_over)
        return muster_error_fill(err, MUSTER_E_TIMEOUT, 0, NULL,
                                 "not all tasks have ended in the time allowed");
    if (status != MUSTER_OK)
        muster_error_fill(err, status, 0, NULL, "a task ended with %s (%s)",
                          muster_status_name(status), muster_status_message(status));
    return status;
}

static muster_status cancel_locked(struct task_pool *pool, muster_task task)
{
    struct running running;
    muster_status status = tasks_find(&pool->tasks, task.index, task.generation);
    if (status != MUSTER_OK)
        return status;
    const struct tasks_entry *entry = &pool->tasks.entries[task.index];
    if (entry->state == TASKS_TAKEN && !entry->is_aside) {
        recall_locked(pool, task.index);
        collect_locked(pool);
    }
    if (entry->state == TASKS_WAITING) {
        tasks_doom(&pool->tasks, task.index);
    } else if (tasks_take_this(&pool->tasks, task.index)) {
        load(&pool->tasks, task.index, &running);
        running.is_doomed = true;
        wake_locked(pool);
        run_aside_locked(pool, &running);
    } else {
        return entry->state == TASKS_ENDED ? MUSTER_E_STALE : MUSTER_E_BUSY;
    }
    return MUSTER_OK;
}

muster_status muster_cancel(struct muster *m, muster_task task, struct muster_error *err)
{
    if (!m)
        return run_bad_argument(err, "muster_cancel", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    struct task_pool *pool = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    muster_status status = MUSTER_E_UNKNOWN;
    if (pool) {
        platform_mutex_lock(&pool->lock);
        status = cancel_locked(pool, task);
        platform_mutex_unlock(&pool->lock);
    }
    if (status != MUSTER_OK)
        muster_error_fill(err, status, 0, NULL, "the task cannot be cancelled: %s",
                          muster_status_message(status));
    return status;
}
