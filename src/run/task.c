/*
 * Tasks: the core's table (core/tasks.h) under a lock of its own, and the threads that run what is
 * ready. A thread takes several at once and hands back as many; one that finds nothing spins a
 * little, yielding, and then parks. Whoever waits for tasks runs them.
 *
 * The lock is apart from the runtime's, so that tasks and the rest do not stand in each other's way.
 * It is never held while user code runs, and no other lock is taken under it.
 */
#include "base/allocator.h"
#include "base/invariant.h"
#include "core/tasks.h"
#include "platform/machine.h"
#include "run/runtime.h"

#include <muster/task.h>
#include <string.h>

/* Tasks that one thread takes at once, if there are enough for all. */
#define TAKEN_AT_ONCE 64u
#define EDGES_MAX (2 * MUSTER_TASKS_MAX)
#define WORKERS_MAX 1024u
/* How long an idle thread looks around before it parks: a wake costs about as much. */
#define SPIN_NS 20000u

typedef muster_status (*task_function)(void *user);
typedef void (*done_function)(void *user, muster_task task, muster_status status);

/* A task between the table and whoever runs it. */
struct running {
    uint32_t index;
    task_function fn;
    void *user;
    done_function done;
    muster_task handle;
    muster_status status;
    bool is_doomed;
};

/*
 * A thread with the tasks it took. Others take back what it has not begun, so that nothing waits
 * behind a long task: `cursor` gives each to whoever moves it on.
 */
struct worker {
    struct task_pool *pool;
    struct platform_thread thread;
    struct running batch[TAKEN_AT_ONCE]; /* filled under the lock */
    uint32_t count;                      /* likewise */
    _Atomic uint32_t cursor; /* relaxed: who runs a task; the lock publishes what it is */
};

struct task_pool {
    struct muster *m;
    struct platform_mutex lock;
    struct platform_condition work;  /* for threads that are parked: something is ready */
    struct platform_condition ended; /* for those who wait: something has ended */
    struct tasks tasks;
    void *memory;           /* owns: the table's */
    struct worker *workers; /* owns */
    uint32_t worker_count, started;
    uint32_t parked, spinning, waking; /* threads, and wakes that nobody has heard yet */
    uint32_t waiters;                  /* threads that wait on `ended` */
    bool must_stop;
};

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
                             .is_doomed = entry->is_doomed };
    memcpy(&out->fn, &entry->payload[0], sizeof out->fn);
    memcpy(&out->done, &entry->payload[2], sizeof out->done);
}

/* Runs a task that was taken. No lock is held. */
static void run_task(struct running *task)
{
    task->status = task->is_doomed ? MUSTER_E_CANCELLED : task->fn(task->user);
    if (task->done)
        task->done(task->user, task->handle, task->status);
}

/* One more thread is woken, if none is on its way or looking around. It wakes the next. */
static void wake_locked(struct task_pool *pool)
{
    if (pool->tasks.ready.count == 0 || pool->parked == 0 || pool->spinning > 0 || pool->waking > 0)
        return;
    pool->waking = 1;
    platform_condition_wake_one(&pool->work);
}

/* Takes back a task that another thread took and has not begun. */
static bool steal_locked(struct task_pool *pool, struct running *out)
{
    for (uint32_t i = 0; i < pool->started; i++) {
        struct worker *worker = &pool->workers[i];
        if (atomic_load_explicit(&worker->cursor, memory_order_relaxed) >= worker->count)
            continue;
        uint32_t at = atomic_fetch_add_explicit(&worker->cursor, 1, memory_order_relaxed);
        if (at < worker->count) {
            *out = worker->batch[at];
            return true;
        }
    }
    return false;
}

static void end_locked(struct task_pool *pool, const struct running *task)
{
    tasks_end(&pool->tasks, task->index, task->status);
    if (pool->waiters > 0)
        platform_condition_wake_all(&pool->ended);
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
    platform_mutex_unlock(&pool->lock);
    run_task(&task);
    platform_mutex_lock(&pool->lock);
    end_locked(pool, &task);
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
    atomic_store_explicit(&worker->cursor, 0, memory_order_relaxed);
    return worker->count;
}

/* Runs what is left of the batch to this thread, and hands it back. Called and left with the lock. */
static void run_batch_locked(struct worker *worker)
{
    struct task_pool *pool = worker->pool;
    struct running *mine[TAKEN_AT_ONCE];
    uint32_t count = 0, limit = worker->count;
    platform_mutex_unlock(&pool->lock);
    for (;;) {
        uint32_t at = atomic_fetch_add_explicit(&worker->cursor, 1, memory_order_relaxed);
        if (at >= limit)
            break;
        mine[count++] = &worker->batch[at];
        run_task(&worker->batch[at]);
    }
    platform_mutex_lock(&pool->lock);
    for (uint32_t i = 0; i < count; i++)
        tasks_end(&pool->tasks, mine[i]->index, mine[i]->status);
    if (count > 0 && pool->waiters > 0)
        platform_condition_wake_all(&pool->ended);
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
    if (pool->must_stop || pool->tasks.ready.count > 0)
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
}

/* The pool. */

static uint32_t count_workers(struct muster *m)
{
    struct platform_node *nodes;
    uint32_t count, cores = 0;
    if (m->options.cpu_workers > 0)
        return m->options.cpu_workers;
    if (platform_nodes_find(&m->allocator, &nodes, &count, NULL) != MUSTER_OK)
        return 1;
    for (uint32_t i = 0; i < count; i++)
        cores += nodes[i].core_count;
    platform_nodes_free(&m->allocator, nodes, count);
    return cores < WORKERS_MAX ? cores : WORKERS_MAX;
}

static void free_pool(struct task_pool *pool)
{
    struct muster *m = pool->m;
    platform_mutex_lock(&pool->lock);
    pool->must_stop = true;
    platform_condition_wake_all(&pool->work);
    platform_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < pool->started; i++)
        platform_thread_join(&pool->workers[i].thread);
    platform_condition_deinit(&pool->ended);
    platform_condition_deinit(&pool->work);
    platform_mutex_deinit(&pool->lock);
    allocator_give(&m->allocator, pool->memory, tasks_bytes(MUSTER_TASKS_MAX, EDGES_MAX), 1);
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
    pool->memory = allocator_take(&m->allocator, tasks_bytes(MUSTER_TASKS_MAX, EDGES_MAX), 1);
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
    tasks_init(&pool->tasks, pool->memory, MUSTER_TASKS_MAX, EDGES_MAX);
    status = start_workers(pool, err);
    if (status == MUSTER_OK)
        *out = pool;
    else
        free_pool(pool);
    return status;
no_ended:
    platform_condition_deinit(&pool->work);
no_work:
    platform_mutex_deinit(&pool->lock);
no_memory:
    allocator_give(&m->allocator, pool->memory, tasks_bytes(MUSTER_TASKS_MAX, EDGES_MAX), 1);
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

void tasks_destroy(struct muster *m)
{
    struct task_pool *pool = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    if (pool)
        free_pool(pool);
}

/* Submitting. */

static muster_status check_descs(const struct muster_task_desc *descs, size_t count,
                                 struct muster_error *err)
{
    if (count > MUSTER_SUBMIT_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "submit fewer at a time",
                                 "%zu tasks in one call; at most %u", count, MUSTER_SUBMIT_MAX);
    for (size_t i = 0; i < count; i++) {
        if (descs[i].size < sizeof *descs || !descs[i].fn ||
            (!descs[i].after && descs[i].after_count > 0))
            return run_bad_argument(err, "muster_submit",
                                    "a task without size or function, or with no list to be after");
        if (descs[i].after_count > MUSTER_AFTER_MAX)
            return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "put a task in between",
                                     "a task after %zu others; at most %u", descs[i].after_count,
                                     MUSTER_AFTER_MAX);
    }
    return MUSTER_OK;
}

/* Makes room for `count` tasks: by running some, as long as there is none. */
static void make_room_locked(struct task_pool *pool, size_t count)
{
    /* Half of the places keep how tasks ended, for those who ask. */
    if (pool->tasks.open_count + count <= MUSTER_TASKS_MAX / 2)
        return;
    while (pool->tasks.open_count + count > MUSTER_TASKS_MAX / 4) {
        if (help_locked(pool))
            continue;
        pool->waiters++;
        platform_condition_wait(&pool->ended, &pool->lock, UINT64_MAX);
        pool->waiters--;
    }
}

/* Lets the task follow those it is after. */
static muster_status follow_locked(struct task_pool *pool, uint32_t index,
                                   const struct muster_task_desc *desc, struct muster_error *err)
{
    for (size_t i = 0; i < desc->after_count; i++) {
        muster_task before = desc->after[i];
        muster_status status = tasks_find(&pool->tasks, before.index, before.generation);
        if (status == MUSTER_E_STALE)
            continue; /* ended long ago */
        if (status != MUSTER_OK || before.index == index)
            return muster_error_fill(err, MUSTER_E_UNKNOWN, 0, "use handles as Muster gave them",
                                     "a task is after one that was never submitted");
        if (!tasks_follow(&pool->tasks, index, before.index))
            return muster_error_fill(err, MUSTER_E_CAPACITY, 0, "wait for some tasks first",
                                     "more than %u orders among unfinished tasks", EDGES_MAX);
    }
    return MUSTER_OK;
}

static muster_status submit_locked(struct task_pool *pool, const struct muster_task_desc *descs,
                                   size_t count, muster_task *out, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    size_t followed = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t index = tasks_add(&pool->tasks);
        INVARIANT(index != TASKS_NONE);
        out[i] = (muster_task){ index, pool->tasks.entries[index].generation };
        keep_functions(&pool->tasks.entries[index], &descs[i]);
    }
    while (followed < count && status == MUSTER_OK) {
        status = follow_locked(pool, out[followed].index, &descs[followed], err);
        followed++;
    }
    for (size_t i = 0; i < count && status == MUSTER_OK; i++)
        tasks_release(&pool->tasks, out[i].index);
    /* None is submitted, the last first: later ones may follow earlier ones. */
    for (size_t i = status == MUSTER_OK ? 0 : count; i-- > 0;)
        tasks_withdraw(&pool->tasks, out[i].index);
    return status;
}

muster_status muster_submit(struct muster *m, const struct muster_task_desc *descs, size_t count,
                            muster_task *out, struct muster_error *err)
{
    struct task_pool *pool;
    muster_task unwanted[MUSTER_SUBMIT_MAX];
    if (!m || (!descs && count > 0))
        return run_bad_argument(err, "muster_submit", "an argument is NULL");
    muster_status status = check_descs(descs, count, err);
    if (status == MUSTER_OK)
        status = get_pool(m, &pool, err);
    if (status != MUSTER_OK || count == 0)
        return status;
    platform_mutex_lock(&pool->lock);
    make_room_locked(pool, count);
    status = submit_locked(pool, descs, count, out ? out : unwanted, err);
    wake_locked(pool);
    platform_mutex_unlock(&pool->lock);
    return status;
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

/* Runs the task that is waited for, if nobody does, or another: false if there is nothing to run. */
static bool help_with_locked(struct task_pool *pool, const muster_task *tasks, size_t count,
                             size_t first)
{
    struct running task;
    if (count == 0 || !tasks_take_this(&pool->tasks, tasks[first].index))
        return help_locked(pool);
    load(&pool->tasks, tasks[first].index, &task);
    platform_mutex_unlock(&pool->lock);
    run_task(&task);
    platform_mutex_lock(&pool->lock);
    end_locked(pool, &task);
    return true;
}

muster_status muster_wait(struct muster *m, const muster_task *tasks, size_t count,
                          uint64_t timeout_ns, struct muster_error *err)
{
    if (!m || (!tasks && count > 0))
        return run_bad_argument(err, "muster_wait", "an argument is NULL");
    struct task_pool *pool = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    if (!pool)
        return count == 0 ? MUSTER_OK
                          : muster_error_fill(err, MUSTER_E_UNKNOWN, 0, NULL,
                                              "no task was ever submitted");
    uint64_t deadline_ns = timeout_ns == UINT64_MAX ? UINT64_MAX : platform_deadline_ns(timeout_ns);
    muster_status status = MUSTER_OK;
    size_t first = 0;
    bool in_time = true;
    platform_mutex_lock(&pool->lock);
    while (!all_ended_locked(pool, tasks, count, &first, &status) && in_time) {
        if (deadline_ns != UINT64_MAX && platform_clock_ns() >= deadline_ns) {
            in_time = false;
        } else if (!help_with_locked(pool, tasks, count, first)) {
            pool->waiters++;
            in_time = platform_condition_wait(&pool->ended, &pool->lock, deadline_ns);
            pool->waiters--;
        }
    }
    bool is_over = all_ended_locked(pool, tasks, count, &first, &status);
    platform_mutex_unlock(&pool->lock);
    if (!is_over)
        return muster_error_fill(err, MUSTER_E_TIMEOUT, 0, NULL,
                                 "not all tasks have ended in the time allowed");
    if (status != MUSTER_OK)
        muster_error_fill(err, status, 0, NULL, "a task ended with %s (%s)",
                          muster_status_name(status), muster_status_message(status));
    return status;
}

muster_status muster_cancel(struct muster *m, muster_task task, struct muster_error *err)
{
    if (!m)
        return run_bad_argument(err, "muster_cancel", "an argument is NULL");
    struct task_pool *pool = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    struct running running;
    bool is_taken = false;
    muster_status status = MUSTER_E_UNKNOWN;
    if (pool) {
        platform_mutex_lock(&pool->lock);
        status = tasks_find(&pool->tasks, task.index, task.generation);
        const struct tasks_entry *entry =
            &pool->tasks.entries[status == MUSTER_OK ? task.index : 0];
        if (status == MUSTER_OK && entry->state == TASKS_WAITING) {
            tasks_doom(&pool->tasks, task.index);
        } else if (status == MUSTER_OK && tasks_take_this(&pool->tasks, task.index)) {
            load(&pool->tasks, task.index, &running);
            is_taken = running.is_doomed = true;
        } else if (status == MUSTER_OK) {
            status = entry->state == TASKS_ENDED ? MUSTER_E_STALE : MUSTER_E_BUSY;
        }
        platform_mutex_unlock(&pool->lock);
    }
    if (is_taken) {
        run_task(&running);
        platform_mutex_lock(&pool->lock);
        end_locked(pool, &running);
        platform_mutex_unlock(&pool->lock);
    }
    if (status != MUSTER_OK)
        muster_error_fill(err, status, 0, NULL, "the task cannot be cancelled: %s",
                          muster_status_message(status));
    return status;
}
