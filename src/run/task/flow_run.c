/*
 * Running a recorded graph. The thread that has the run's task takes the graph's tasks in batches under the
 * run's own lock, and idle threads are woken to join it.
 *
 * Empty tasks cost less than to move them to another core, and long ones must not stand in line: a batch
 * grows and shrinks with the time that the last one took, others are called if what is ready is worth
 * it, and what a batch holds behind a task that turns out to be long is put back by a thread that has nothing to do.
 */
#include "run/task/flow_graph.h"

#include "base/allocator.h"

/* A batch is to take so long; one that takes longer may be taken back. */
#define BATCH_NS 8000u
/* So often a thread looks whether a task holds up others that were taken with it. */
#define LOOK_AGAIN_NS 2000000u
/* How long the thread whose task the run is looks for more before it parks. */
#define SPIN_NS 20000u

static muster_status run_one(const struct flow_run *run, const struct graph_task *task)
{
    if (!task->enqueue)
        return task->fn(task->user);
    void *pointers[MUSTER_ACCESSES_MAX];
    uint64_t bytes[MUSTER_ACCESSES_MAX], pitches[MUSTER_ACCESSES_MAX], rows[MUSTER_ACCESSES_MAX];
    for (uint32_t i = 0; i < task->count; i++) {
        const struct run_place *place = &run->places[run->graph->accesses[task->first + i].data];
        pointers[i] = place->home;
        bytes[i] = place->bytes;
        pitches[i] = place->pitch;
        rows[i] = place->rows;
    }
    const struct muster_native native = { .size = sizeof native,
                                          .device = run->cpu,
                                          .backend = "cpu",
                                          .count = task->count,
                                          .pointers = pointers,
                                          .bytes = bytes,
                                          .pitches = pitches,
                                          .rows = rows };
    return task->enqueue(task->user, &native);
}

/* How many tasks others would do well to take. */
static uint32_t ready_for_others(const struct flow_run *run)
{
    uint32_t ready = repeat_ready_count(run->repeat);
    return ready * run->task_ns >= JOIN_NS ? ready : 0;
}

static void show_ready_locked(struct flow_run *run)
{
    uint32_t ready = ready_for_others(run);
    if (ready != atomic_load_explicit(&run->ready, memory_order_relaxed))
        atomic_store(&run->ready, ready);
}

/* Takes tasks into the batch; false if there are none. With the run's lock. */
static bool fill_batch_locked(struct flow_run *run, struct run_batch *batch)
{
    batch->count = repeat_take(run->repeat, run->most, batch->taken);
    for (uint32_t i = 0; i < batch->count; i++)
        batch->statuses[i] =
            repeat_is_doomed(run->repeat, batch->taken[i]) ? MUSTER_E_CANCELLED : MUSTER_OK;
    batch->ended = 0;
    /* One alone that was not held back for its length needs no clock: a chain has no others. */
    batch->begin_ns = batch->count > 1 || run->most == 1 ? platform_clock_ns() : 0;
    atomic_store_explicit(&batch->begun, 0, memory_order_relaxed);
    show_ready_locked(run);
    return batch->count > 0;
}

/* Runs what is not taken back. No lock is held. */
static void run_batch(const struct flow_run *run, struct run_batch *batch, uint32_t count)
{
    const struct graph_task *tasks = run->graph->tasks;
    uint32_t i = 0;
    /* Nobody takes back the only one. */
    while ((count == 1 && i == 0) ||
           (count > 1 &&
            (i = atomic_fetch_add_explicit(&batch->begun, 1, memory_order_release)) < count)) {
        if (batch->statuses[i] == MUSTER_OK)
            batch->statuses[i] = run_one(run, &tasks[batch->taken[i]]);
        i++;
    }
}

/* Ends those before `end`. With the run's lock. */
static void end_tasks_locked(struct flow_run *run, struct run_batch *batch, uint32_t end)
{
    for (; batch->ended < end; batch->ended++)
        run->is_over |=
            repeat_end(run->repeat, batch->taken[batch->ended], batch->statuses[batch->ended]);
}

/* The next batch is to take as long as it should. With the run's lock. */
static void learn_locked(struct flow_run *run, const struct run_batch *batch)
{
    if (batch->begin_ns == 0 || batch->count == 0)
        return;
    uint64_t elapsed_ns = platform_clock_ns() - batch->begin_ns;
    uint64_t task_ns = elapsed_ns / batch->count;
    run->task_ns = task_ns < JOIN_NS ? task_ns : JOIN_NS;
    if (task_ns >= BATCH_NS)
        run->most = 1;
    else if (elapsed_ns > BATCH_NS)
        run->most = (run->most + 1) / 2;
    else if (batch->count == run->most && elapsed_ns < BATCH_NS / 2 && run->most < TAKEN_OF_RUN)
        run->most *= 2;
}

/*
 * One who has nothing to do looks at what the other threads have in hand. What they have taken and not begun for some
 * time is put back, and what they have finished is ended, since the task in between takes long; and what is
 * ready is worth another thread, whatever the last ones took. With the run's lock.
 */
static void take_back_locked(struct flow_run *run)
{
    uint64_t now_ns = platform_clock_ns();
    for (struct run_batch *batch = run->batches; batch; batch = batch->next) {
        if (batch->count == 0 || now_ns < batch->begin_ns + BATCH_NS)
            continue;
        run->task_ns = JOIN_NS;
        uint32_t begun = batch->count;
        if (batch->count > 1)
            begun = atomic_exchange_explicit(&batch->begun, TAKEN_OF_RUN, memory_order_acquire);
        if (begun >= batch->count)
            continue;
        for (uint32_t i = batch->count; i-- > begun;)
            repeat_put_back(run->repeat, batch->taken[i]);
        if (begun > 0)
            end_tasks_locked(run, batch, begun - 1);
        batch->count = begun;
    }
    show_ready_locked(run);
}

/* There are tasks for others: one that is idle comes. No lock is held. */
static void call_others(struct task_pool *pool)
{
    platform_mutex_lock(&pool->lock);
    pool_wake_locked(pool);
    platform_mutex_unlock(&pool->lock);
}

/*
 * Takes and runs what is ready, until nothing is. One who helps does what pays, and after each long task sees
 * whether it is needed elsewhere. With the run's lock, which is not held meanwhile.
 */
static void run_some_locked(struct flow_run *run, bool is_helping)
{
    struct run_batch batch = { .next = run->batches }, **at = &run->batches;
    run->batches = &batch;
    bool may_stay = true;
    while (may_stay && (!is_helping || ready_for_others(run) > 0) &&
           fill_batch_locked(run, &batch)) {
        uint32_t count = batch.count;
        bool must_call = atomic_load_explicit(&run->ready, memory_order_relaxed) > 0 &&
                         atomic_load(&run->pool->idle) > 0;
        platform_mutex_unlock(&run->lock);
        if (must_call)
            call_others(run->pool);
        run_batch(run, &batch, count);
        platform_mutex_lock(&run->lock);
        end_tasks_locked(run, &batch, batch.count);
        learn_locked(run, &batch);
        uint32_t steps = atomic_load_explicit(&run->steps, memory_order_relaxed);
        atomic_store_explicit(&run->steps, steps + 1, memory_order_relaxed);
        batch.count = 0;
        if (run->is_waiting && (run->is_over || repeat_ready_count(run->repeat) > 0))
            platform_condition_wake_all(&run->changed);
        may_stay = !is_helping || run->most > 1;
    }
    show_ready_locked(run);
    while (*at != &batch)
        at = &(*at)->next;
    *at = batch.next;
}

bool flow_has_runs_locked(const struct task_pool *pool)
{
    for (const struct flow_run *run = pool->flow.runs; run; run = run->next)
        if (atomic_load(&run->ready) > 0)
            return true;
    return false;
}

uint64_t flow_steps_locked(const struct task_pool *pool)
{
    uint64_t steps = 0;
    for (const struct flow_run *run = pool->flow.runs; run; run = run->next)
        steps += atomic_load_explicit(&run->steps, memory_order_relaxed);
    return steps;
}

/* With the pool's lock, which is not held meanwhile: the list may be another one then. */
static bool help_locked(struct task_pool *pool, struct flow_run *run, bool must_look)
{
    struct task_frame frame;
    muster_task task = { run->index, pool->tasks.entries[run->index].generation };
    run->inside++;
    platform_mutex_unlock(&pool->lock);
    pool_enter(&frame, pool, task);
    platform_mutex_lock(&run->lock);
    if (must_look)
        take_back_locked(run);
    bool has_any = ready_for_others(run) > 0;
    run_some_locked(run, true);
    platform_mutex_unlock(&run->lock);
    platform_frame_leave(&frame.head);
    platform_mutex_lock(&pool->lock);
    if (--run->inside == 0)
        platform_condition_wake_all(&pool->ended);
    return has_any;
}

bool flow_help_run_locked(struct task_pool *pool)
{
    struct flow_run *run = pool->flow.runs;
    while (run && atomic_load(&run->ready) == 0)
        run = run->next;
    return run && help_locked(pool, run, false);
}

bool flow_look_at_run_locked(struct task_pool *pool)
{
    struct flow_run *run = pool->flow.runs;
    if (!run)
        return false;
    /* Each in its turn: this one is the last to be looked at again. */
    pool->flow.runs = run->next;
    struct flow_run **at = &pool->flow.runs;
    while (*at)
        at = &(*at)->next;
    *at = run;
    run->next = NULL;
    return help_locked(pool, run, true);
}

/* Runs the graph until it is over; others help. No lock is held. */
static void run_all(struct flow_run *run)
{
    platform_mutex_lock(&run->lock);
    for (;;) {
        run_some_locked(run, false);
        if (run->is_over)
            break;
        /* Others have the rest in hand. */
        uint64_t until_ns = platform_clock_ns() + SPIN_NS;
        while (!run->is_over && repeat_ready_count(run->repeat) == 0 &&
               platform_clock_ns() < until_ns) {
            platform_mutex_unlock(&run->lock);
            platform_thread_yield();
            platform_mutex_lock(&run->lock);
        }
        take_back_locked(run);
        if (run->is_over || repeat_ready_count(run->repeat) > 0)
            continue;
        run->is_waiting = true;
        platform_condition_wait(&run->changed, &run->lock, platform_clock_ns() + LOOK_AGAIN_NS);
        run->is_waiting = false;
    }
    platform_mutex_unlock(&run->lock);
}

void flow_run_free(struct flow_run *run)
{
    const struct muster_graph *graph = run->graph;
    const struct muster_allocator *allocator = &graph->m->allocator;
    uint32_t gates = (graph->data_count + FLOW_ACCESSES_MAX - 1) / FLOW_ACCESSES_MAX;
    platform_condition_deinit(&run->changed);
    platform_mutex_deinit(&run->lock);
    allocator_give(allocator, run->repeat, 1, repeat_run_bytes(graph->repeat));
    allocator_give(allocator, run->places, graph->data_count, sizeof *run->places);
    for (uint32_t i = 0; i < run->spare_gates; i++)
        allocator_give(allocator, run->gates[run->gate_count + i], 1, sizeof **run->gates);
    allocator_give(allocator, run->gates, gates, sizeof *run->gates);
    allocator_give(allocator, run->accesses, graph->data_count, sizeof *run->accesses);
    allocator_give(allocator, run->data, graph->data_count, sizeof *run->data);
    allocator_give(allocator, run, 1, sizeof *run);
}

static void leave_list_locked(struct task_pool *pool, struct flow_run *run)
{
    struct flow_run **at = &pool->flow.runs;
    while (*at != run)
        at = &(*at)->next;
    *at = run->next;
    while (run->inside > 0)
        pool_await_end_locked(pool, true, platform_clock_ns() + 1000000);
}

muster_status flow_run_execute(void *user)
{
    struct flow_run *run = user;
    struct task_pool *pool = run->pool;
    struct muster_graph *graph = run->graph;
    uint32_t first_failed = UINT32_MAX;
    muster_status status = run->status;
    if (status == MUSTER_OK) {
        platform_mutex_lock(&pool->lock);
        run->next = pool->flow.runs;
        pool->flow.runs = run;
        pool_call_one_locked(pool);
        platform_mutex_unlock(&pool->lock);
        run_all(run);
        status = repeat_status(run->repeat, &first_failed);
    }
    platform_mutex_lock(&pool->lock);
    if (run->status == MUSTER_OK)
        leave_list_locked(pool, run);
    if (first_failed < graph->task_count && pool->flow.notes && graph->tasks[first_failed].name[0])
        flow_name_locked(pool, run->index, graph->tasks[first_failed].name);
    for (uint32_t i = 0; i < run->gate_count; i++) {
        run->gates[i]->is_left = true;
        flow_end_gate_locked(pool, run->gates[i], status);
    }
    graph->runs_open--;
    platform_mutex_unlock(&pool->lock);
    flow_run_free(run);
    return status;
}

void flow_run_gate_locked(struct task_pool *pool, struct flow_gate *gate, bool is_dead)
{
    struct flow_run *run = gate->run;
    if (is_dead && run->status == MUSTER_OK)
        run->status = MUSTER_E_CANCELLED;
    if (--run->closed > 0)
        return;
    tasks_end(&pool->tasks, run->start, MUSTER_OK);
    pool_wake_locked(pool);
}
