/*
 * The threads and the table of a runtime's tasks: made by the first who submits, drained and freed when
 * the runtime closes.
 */
#include "run/task/flow.h"

#include "base/allocator.h"
#include "base/invariant.h"
#include "platform/machine.h"

#define WORKERS_MAX 1024u
/* How long closing waits at least for a thread to come out of a driver when all tasks have ended. */
#define STUCK_LEAST_NS 100000000u

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
    while (pool->tasks.open_count > 0) {
        flow_leave_gates_locked(pool);
        if (!pool_help_locked(pool))
            pool_await_any_locked(pool, true);
    }
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
    uint64_t deadline_ns = platform_deadline_ns(patience_ns);
    uint32_t stuck = flow_devices_stop(pool, deadline_ns, what);
    stuck += lanes_stop(pool, deadline_ns, what);
    INVARIANT(pool->tasks.open_count == 0);
    return stuck;
}

static void free_pool(struct task_pool *pool)
{
    struct muster *m = pool->m;
    lanes_free(pool);
    kernel_chunks_free(pool);
    flow_free(pool);
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
        pool->workers[i].most = TAKEN_AT_ONCE;
        status = platform_thread_start(&pool->workers[i].thread, pool_work, &pool->workers[i],
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
    pool->shown = m->live.page ? &m->live.page->tasks : &pool->unseen;
    pool->worker_count = count_workers(m);
    /* Who asks for this many threads has them beside the one that waits, with or without cores. */
    pool->room = m->options.cpu_workers > 0 ? pool->worker_count + 1 : pool->worker_count;
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
    m->resident_hooks = (struct resident_hooks){ residents_tell, residents_forget };
    m->data_hooks = (struct data_hooks){ flow_hold, flow_let_go };
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

muster_status pool_make(struct muster *m, struct task_pool **out, struct muster_error *err)
{
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
