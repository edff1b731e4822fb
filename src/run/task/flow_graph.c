/*
 * Recorded graphs: what one thread submits between begin and end is kept, its order is found once
 * (core/repeat.h), and runs of it ask core for nothing but the order among runs and other tasks.
 *
 * A run is a task of the table that is ready when all its gates are open. Gates are accesses of the
 * host's (flow_gate.c), of as many data at once as core takes. The thread that runs the task takes the
 * graph's tasks in batches under the run's own lock, and idle threads are woken to join it.
 *
 * Empty tasks cost less than to move them to another core, and long ones must not stand in line: a batch
 * grows and shrinks with the time that the last one took, others are called if what is ready is worth
 * it, and what a batch holds behind a task that turns out to be long is put back by who has nothing to do.
 */
#include "run/task/flow.h"

#include "base/allocator.h"
#include "base/invariant.h"
#include "core/repeat.h"

#include <string.h>

#define TASKS_AT_FIRST 256u
#define TAKEN_OF_RUN 32u
/* A batch is to take so long; one that takes longer may be taken back. */
#define BATCH_NS 8000u
/* To have another thread join costs about as much. */
#define JOIN_NS 10000u
/* So often somebody looks whether a task holds up others that were taken with it. */
#define LOOK_AGAIN_NS 2000000u
/* How long the thread whose task the run is looks for more before it parks. */
#define SPIN_NS 20000u

struct graph_task {
    task_function fn;
    muster_status (*enqueue)(void *user, const struct muster_native *native);
    void *user;
    uint32_t first, count; /* accesses */
    uint8_t priority;      /* as in core/tasks.h */
    char name[32];
};

struct graph_access {
    uint32_t data; /* by number in the graph */
    uint32_t mode;
};

struct graph_data {
    muster_data data;
    uint32_t mode; /* all that is done with it: FLOW_READ, or more */
};

struct muster_graph {
    struct muster *m;
    struct graph_task *tasks;      /* owns */
    struct graph_access *accesses; /* owns */
    struct graph_data *data;       /* owns */
    uint32_t task_count, access_count, data_count;
    uint32_t task_room, access_room, data_room;
    uint32_t *found; /* owns: numbers of data by hash; 0: none, else one more */
    uint32_t found_room;
    struct repeat *repeat; /* owns */
    size_t repeat_bytes;
    uint32_t runs_open; /* with the pool's lock */
    bool has_bodies;    /* some for `cpu` */
    bool has_names;
    muster_status failed;
};

/* Where a datum is in this run. */
struct run_place {
    char *home;
    uint64_t bytes, pitch, rows;
};

/* What a thread has taken of a run. With the run's lock, but for what its thread does to the tasks. */
struct run_batch {
    struct run_batch *next; /* of the run */
    uint64_t begin_ns;      /* 0: it was not looked at */
    uint32_t count, ended;  /* tasks; those that core knows to have ended */
    /*
     * Tasks that were begun. Release by its thread and acquire by who takes back: those before the last
     * have their status.
     */
    _Atomic uint32_t begun;
    uint32_t taken[TAKEN_OF_RUN];
    muster_status statuses[TAKEN_OF_RUN]; /* when it is taken: MUSTER_OK, or not to be run */
};

struct flow_run {
    struct flow_run *next; /* on the pool's list */
    struct muster_graph *graph;
    struct task_pool *pool;
    struct platform_mutex lock;        /* of what follows */
    struct platform_condition changed; /* for the thread whose task it is */
    struct repeat_run *repeat;         /* owns */
    struct run_place *places;          /* owns */
    struct flow_gate **gates;          /* owns the list */
    struct flow_access *accesses;      /* owns: of the gates, wholes, each once */
    uint32_t access_count;
    muster_data *data; /* owns: what this run accesses */
    muster_device cpu; /* where bodies run */
    bool is_over, is_waiting;
    struct run_batch *batches; /* on the stacks of their threads */
    uint32_t most;             /* in a batch */
    uint64_t task_ns;          /* what one took lately, JOIN_NS at most, which it is at first */
    /*
     * Tasks for others; written with the lock. Sequentially consistent, with pool->idle: a thread that parks
     * sees it, or it is seen to park.
     */
    _Atomic uint32_t ready;
    _Atomic uint32_t steps; /* batches that have ended; written with the lock, relaxed */

    /* With the pool's lock. */
    uint32_t gate_count, closed, spare_gates;
    uint32_t start;  /* ends when all gates are open */
    uint32_t inside; /* threads that help */
    uint32_t index;  /* of its task */
    muster_status status;
};

static _Thread_local struct muster_graph *recording;

bool flow_is_recording(const struct muster *m)
{
    return recording && recording->m == m;
}

/* ---- Recording ---- */

/* Room for one more of `size` bytes each. */
static bool make_room(const struct muster *m, void **memory, uint32_t *room, uint32_t count,
                      size_t size)
{
    if (count < *room)
        return true;
    uint32_t more = *room > 0 ? 2 * *room : TASKS_AT_FIRST;
    void *larger = allocator_take(&m->allocator, more, size);
    if (!larger)
        return false;
    if (*room > 0)
        memcpy(larger, *memory, *room * size);
    allocator_give(&m->allocator, *memory, *room, size);
    *memory = larger;
    *room = more;
    return true;
}

static uint32_t hash_of(muster_data data, uint32_t room)
{
    return (uint32_t)(((uint64_t)data.index * UINT64_C(0x9e3779b97f4a7c15)) >> 40) & (room - 1);
}

static void enter(struct muster_graph *graph, uint32_t number)
{
    uint32_t at = hash_of(graph->data[number].data, graph->found_room);
    while (graph->found[at] != 0)
        at = (at + 1) & (graph->found_room - 1);
    graph->found[at] = number + 1;
}

/* At most half of the places are used. */
static bool make_found(struct muster_graph *graph)
{
    if (2 * (graph->data_count + 1) <= graph->found_room)
        return true;
    uint32_t room = graph->found_room > 0 ? 2 * graph->found_room : 2 * TASKS_AT_FIRST;
    uint32_t *found = allocator_take(&graph->m->allocator, room, sizeof *found);
    if (!found)
        return false;
    allocator_give(&graph->m->allocator, graph->found, graph->found_room, sizeof *found);
    graph->found = found;
    graph->found_room = room;
    for (uint32_t i = 0; i < graph->data_count; i++)
        enter(graph, i);
    return true;
}

/* The number of the data in the graph; FLOW_NONE: there is no memory. */
static uint32_t number_of(struct muster_graph *graph, muster_data data, uint32_t mode)
{
    void *memory = graph->data;
    if (!make_found(graph))
        return FLOW_NONE;
    uint32_t at = hash_of(data, graph->found_room);
    for (; graph->found[at] != 0; at = (at + 1) & (graph->found_room - 1)) {
        struct graph_data *one = &graph->data[graph->found[at] - 1];
        if (one->data.index != data.index || one->data.generation != data.generation)
            continue;
        if (one->mode != mode)
            one->mode = FLOW_READ_WRITE;
        return graph->found[at] - 1;
    }
    if (!make_room(graph->m, &memory, &graph->data_room, graph->data_count, sizeof *graph->data))
        return FLOW_NONE;
    graph->data = memory;
    graph->data[graph->data_count] = (struct graph_data){ data, mode };
    enter(graph, graph->data_count);
    return graph->data_count++;
}

static muster_status check(const struct muster_task_desc *desc, struct muster_error *err)
{
    if (desc->access_count == 0 || desc->done || desc->after_count > 0 || desc->timeout_ns > 0)
        return run_bad_argument(err, "muster_submit",
                                "a recorded task has accesses, and no `done`, `after` or time-out");
    if (desc->kernel || desc->resident)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "give it a body for cpu",
                                 "a recorded task with a kernel");
    return MUSTER_OK;
}

static muster_status keep(struct muster_graph *graph, const struct muster_task_desc *desc,
                          struct muster_error *err)
{
    void *tasks = graph->tasks, *accesses;
    struct graph_task task = { .fn = desc->fn, .user = desc->user, .first = graph->access_count };
    muster_status status = check(desc, err);
    for (size_t i = 0; i < desc->body_count && status == MUSTER_OK; i++) {
        struct muster_body copy;
        const struct muster_body *body = layout_at(LAYOUT(muster_body), desc->bodies, i, &copy);
        if (strcmp(body->backend, "cpu") == 0)
            task.enqueue = body->enqueue;
    }
    graph->has_bodies |= status == MUSTER_OK && task.enqueue;
    if (status == MUSTER_OK && !task.fn && !task.enqueue)
        status = muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "give it a body for cpu",
                                   "a recorded task without a body for the host");
    if (status != MUSTER_OK)
        return status;
    if (graph->task_count == MUSTER_GRAPH_TASKS_MAX)
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0, "make two graphs of it",
                                 "a graph with more than %u tasks", MUSTER_GRAPH_TASKS_MAX);
    task.priority = (uint8_t)(desc->priority + (int)TASKS_PRIORITY_USUAL);
    if (desc->name)
        strncpy(task.name, desc->name, sizeof task.name - 1);
    graph->has_names |= desc->name != NULL;
    for (size_t i = 0; i < desc->access_count; i++) {
        struct muster_task_access copy;
        const struct muster_task_access *access =
            layout_at(LAYOUT(muster_task_access), desc->accesses, i, &copy);
        uint32_t mode = access->mode == MUSTER_READ    ? FLOW_READ
                        : access->mode == MUSTER_WRITE ? FLOW_WRITE
                                                       : FLOW_READ_WRITE;
        uint32_t number = number_of(graph, access->data, mode);
        accesses = graph->accesses;
        if (number == FLOW_NONE || !make_room(graph->m, &accesses, &graph->access_room,
                                              graph->access_count, sizeof *graph->accesses))
            return run_no_memory(err, "a graph");
        graph->accesses = accesses;
        graph->accesses[graph->access_count++] = (struct graph_access){ number, mode };
        task.count++;
    }
    if (!make_room(graph->m, &tasks, &graph->task_room, graph->task_count, sizeof *graph->tasks))
        return run_no_memory(err, "a graph");
    graph->tasks = tasks;
    graph->tasks[graph->task_count++] = task;
    return MUSTER_OK;
}

muster_status flow_record(struct muster *m, const struct muster_task_desc *descs, size_t count,
                          muster_task *out, struct muster_error *err)
{
    struct muster_graph *graph = recording;
    uint32_t tasks = graph->task_count, accesses = graph->access_count;
    muster_status status = MUSTER_OK;
    (void)m;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        struct muster_task_desc copy;
        status = keep(graph, layout_at(LAYOUT(muster_task_desc), descs, i, &copy), err);
        if (out)
            out[i] = (muster_task){ 0, 0 };
    }
    /* All of a call or none; what is known of data stays. */
    if (status != MUSTER_OK) {
        graph->task_count = tasks;
        graph->access_count = accesses;
    }
    return status;
}

/* ---- The order ---- */

/* Core's memory for the order of the graph's own tasks. */
struct scratch {
    struct tasks table;
    void *table_memory, *flow_memory;
    size_t table_bytes, flow_bytes;
    struct tasks_edge *edges; /* NULL: in the table's memory */
    uint32_t edge_capacity;
    struct flow *flow;
    uint32_t *parts; /* by number of data */
};

/* The parts of one datum are data of their own in the graph, and so may the whole be. */
static muster_status add_data(struct muster_graph *graph, struct scratch *scratch, uint32_t *wholes,
                              struct muster_error *err)
{
    struct muster *m = graph->m;
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < graph->data_count && status == MUSTER_OK; i++) {
        struct run_data *data;
        status = data_begin_use(m, graph->data[i].data, &data, err);
        if (status != MUSTER_OK)
            return status;
        struct run_data *whole = data_whole(data);
        const struct shape shape = shape_normal((struct shape){ .offset = data->offset,
                                                                .rows = data->rows,
                                                                .row_bytes = data->row_bytes,
                                                                .pitch = data->pitch });
        if (wholes[whole->index] == 0)
            wholes[whole->index] = 1 + flow_data_add(scratch->flow, whole->bytes, true);
        uint32_t datum = wholes[whole->index] - 1;
        if (!data->whole)
            scratch->parts[i] = flow_data_whole(scratch->flow, datum);
        else if (flow_part_add(scratch->flow, datum, &shape, &scratch->parts[i]) != FLOW_PART_OK)
            status = run_no_memory(err, "the parts of a graph");
        data_end_use(m, data);
    }
    return status;
}

static muster_status grow_edges(struct muster_graph *graph, struct scratch *scratch,
                                struct muster_error *err)
{
    uint32_t more = 2 * scratch->table.edge_capacity;
    struct tasks_edge *edges =
        more < UINT32_MAX / 4 ? allocator_take(&graph->m->allocator, more, sizeof *edges) : NULL;
    if (!edges)
        return run_no_memory(err, "the order of a graph");
    tasks_move_edges(&scratch->table, edges, more);
    allocator_give(&graph->m->allocator, scratch->edges, scratch->edge_capacity, sizeof *edges);
    scratch->edges = edges;
    scratch->edge_capacity = more;
    return MUSTER_OK;
}

static muster_status order_all(struct muster_graph *graph, struct scratch *scratch,
                               struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    for (uint32_t t = 0; t < graph->task_count && status == MUSTER_OK; t++) {
        const struct graph_task *task = &graph->tasks[t];
        struct flow_access accesses[MUSTER_ACCESSES_MAX];
        enum flow_order_result result;
        uint32_t index = tasks_add(&scratch->table);
        scratch->table.entries[index].priority = task->priority;
        for (uint32_t i = 0; i < task->count; i++)
            accesses[i] =
                (struct flow_access){ .part = scratch->parts[graph->accesses[task->first + i].data],
                                      .mode = graph->accesses[task->first + i].mode };
        uint32_t count = flow_merge(accesses, task->count);
        while ((result = flow_order(scratch->flow, index, t, accesses, count)) != FLOW_ORDERED &&
               status == MUSTER_OK) {
            INVARIANT(result == FLOW_NO_EDGES);
            status = grow_edges(graph, scratch, err);
        }
        if (status == MUSTER_OK)
            tasks_release(&scratch->table, index);
    }
    return status;
}

static uint32_t data_capacity(struct muster *m)
{
    run_lock(m);
    uint32_t capacity = m->data.handles.capacity;
    run_unlock(m);
    return capacity;
}

static muster_status find_order(struct muster_graph *graph, struct muster_error *err)
{
    const struct muster_allocator *allocator = &graph->m->allocator;
    uint32_t edges = 2 * graph->task_count + 64, whole_count = data_capacity(graph->m) + 1;
    struct scratch scratch = { .table_bytes = tasks_bytes(graph->task_count + 1, edges) };
    const struct flow_sizes sizes = { .tasks = graph->task_count + 1,
                                      .places = 1,
                                      .uses = graph->access_count + 1,
                                      .data = graph->data_count + 1,
                                      .parts = 2 * graph->data_count + 1,
                                      .overlaps = 32 * graph->data_count + 1,
                                      .instances = 1 };
    muster_status status = MUSTER_OK;
    uint32_t *wholes = allocator_take(allocator, whole_count, sizeof *wholes);
    scratch.flow_bytes = flow_bytes(&sizes);
    scratch.table_memory = allocator_take(allocator, 1, scratch.table_bytes);
    scratch.flow_memory =
        scratch.flow_bytes > 0 ? allocator_take(allocator, 1, scratch.flow_bytes) : NULL;
    scratch.parts = allocator_take(allocator, graph->data_count, sizeof *scratch.parts);
    if (!wholes || !scratch.table_memory || !scratch.flow_memory || !scratch.parts) {
        status = run_no_memory(err, "the order of a graph");
    } else {
        tasks_init(&scratch.table, scratch.table_memory, graph->task_count + 1, edges);
        scratch.flow = flow_init(scratch.flow_memory, &sizes, &scratch.table);
        status = add_data(graph, &scratch, wholes, err);
    }
    if (status == MUSTER_OK)
        status = order_all(graph, &scratch, err);
    if (status == MUSTER_OK) {
        graph->repeat_bytes = repeat_bytes(&scratch.table);
        void *memory = allocator_take(allocator, 1, graph->repeat_bytes);
        if (memory)
            graph->repeat = repeat_init(memory, &scratch.table);
        else
            status = run_no_memory(err, "the order of a graph");
    }
    allocator_give(allocator, scratch.edges, scratch.edge_capacity, sizeof *scratch.edges);
    allocator_give(allocator, scratch.parts, graph->data_count, sizeof *scratch.parts);
    allocator_give(allocator, scratch.flow_memory, 1, scratch.flow_bytes);
    allocator_give(allocator, scratch.table_memory, 1, scratch.table_bytes);
    allocator_give(allocator, wholes, whole_count, sizeof *wholes);
    return status;
}

static void free_graph(struct muster_graph *graph)
{
    const struct muster_allocator *allocator = &graph->m->allocator;
    allocator_give(allocator, graph->repeat, 1, graph->repeat_bytes);
    allocator_give(allocator, graph->found, graph->found_room, sizeof *graph->found);
    allocator_give(allocator, graph->data, graph->data_room, sizeof *graph->data);
    allocator_give(allocator, graph->accesses, graph->access_room, sizeof *graph->accesses);
    allocator_give(allocator, graph->tasks, graph->task_room, sizeof *graph->tasks);
    allocator_give(allocator, graph, 1, sizeof *graph);
}

muster_status muster_graph_begin(struct muster *m, struct muster_error *err)
{
    if (!m)
        return run_bad_argument(err, "muster_graph_begin", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    if (recording)
        return muster_error_fill(err, MUSTER_E_ORDER, 0, "call muster_graph_end first",
                                 "the thread records a graph already");
    struct muster_graph *graph = allocator_take(&m->allocator, 1, sizeof *graph);
    if (!graph)
        return run_no_memory(err, "a graph");
    graph->m = m;
    recording = graph;
    return MUSTER_OK;
}

muster_status muster_graph_end(struct muster *m, struct muster_graph **out,
                               struct muster_error *err)
{
    struct muster_graph *graph = recording;
    if (!m || !graph || graph->m != m)
        return run_bad_argument(err, "muster_graph_end",
                                "the thread records no graph of this runtime");
    recording = NULL;
    muster_status status = MUSTER_OK;
    if (!out)
        status = run_bad_argument(err, "muster_graph_end", "an argument is NULL");
    else if (graph->task_count == 0)
        status = run_bad_argument(err, "muster_graph_end", "no task was recorded");
    if (status == MUSTER_OK)
        status = find_order(graph, err);
    if (status == MUSTER_OK)
        *out = graph;
    else
        free_graph(graph);
    return status;
}

void muster_graph_destroy(struct muster_graph *graph)
{
    if (!graph || run_is_forked(graph->m))
        return;
    struct task_pool *pool = atomic_load_explicit(&graph->m->task_pool, memory_order_acquire);
    if (pool) {
        platform_mutex_lock(&pool->lock);
        while (graph->runs_open > 0)
            if (!pool_help_locked(pool) && graph->runs_open > 0)
                pool_await_end_locked(pool, false, platform_clock_ns() + 1000000);
        platform_mutex_unlock(&pool->lock);
    }
    free_graph(graph);
}

/* ---- Running ---- */

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

static void free_run(struct flow_run *run)
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

/* The body of a run's task. */
static muster_status execute(void *user)
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
    free_run(run);
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

/* ---- Submitting a run ---- */

static muster_data changed(const struct muster_graph_change *changes, size_t count,
                           muster_data data)
{
    for (size_t i = 0; i < count; i++) {
        struct muster_graph_change copy;
        const struct muster_graph_change *change =
            layout_at(LAYOUT(muster_graph_change), changes, i, &copy);
        if (change->from.index == data.index && change->from.generation == data.generation)
            return change->to;
    }
    return data;
}

/* What the run accesses, and where that is. */
static muster_status find_data(struct flow_run *run, const struct muster_graph_change *changes,
                               size_t count, struct muster_error *err)
{
    struct muster_graph *graph = run->graph;
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < graph->data_count && status == MUSTER_OK; i++) {
        struct run_data *data, *like = NULL;
        run->data[i] =
            count > 0 ? changed(changes, count, graph->data[i].data) : graph->data[i].data;
        status = data_begin_use(graph->m, run->data[i], &data, err);
        if (status != MUSTER_OK)
            break;
        if (count > 0)
            status = data_begin_use(graph->m, graph->data[i].data, &like, err);
        if (like && (like->rows != data->rows || like->row_bytes != data->row_bytes ||
                     !like->whole != !data->whole))
            status = run_bad_argument(err, "muster_graph_run", "a change is of another shape");
        run->places[i] =
            (struct run_place){ .home = data->bytes > 0 ? data_home(graph->m, data) : NULL,
                                .bytes = data->bytes,
                                .pitch = data->pitch,
                                .rows = data->rows };
        if (status == MUSTER_OK && data->bytes > 0 && !run->places[i].home)
            status = run_no_memory(err, "data on the host");
        if (like)
            data_end_use(graph->m, like);
        data_end_use(graph->m, data);
    }
    return status;
}

static muster_status make_run(struct task_pool *pool, struct muster_graph *graph,
                              struct flow_run **out, struct muster_error *err)
{
    const struct muster_allocator *allocator = &graph->m->allocator;
    uint32_t gates = (graph->data_count + FLOW_ACCESSES_MAX - 1) / FLOW_ACCESSES_MAX;
    struct flow_run *run = allocator_take(allocator, 1, sizeof *run);
    if (!run)
        return run_no_memory(err, "a run of a graph");
    run->graph = graph;
    run->pool = pool;
    muster_status status = platform_mutex_init(&run->lock, err);
    if (status == MUSTER_OK && (status = platform_condition_init(&run->changed, err)) != MUSTER_OK)
        platform_mutex_deinit(&run->lock);
    if (status != MUSTER_OK) {
        allocator_give(allocator, run, 1, sizeof *run);
        return status;
    }
    void *memory = allocator_take(allocator, 1, repeat_run_bytes(graph->repeat));
    run->places = allocator_take(allocator, graph->data_count, sizeof *run->places);
    run->gates = allocator_take(allocator, gates, sizeof *run->gates);
    run->data = allocator_take(allocator, graph->data_count, sizeof *run->data);
    run->accesses = allocator_take(allocator, graph->data_count, sizeof *run->accesses);
    run->repeat = memory;
    *out = run;
    if (!memory || !run->places || !run->gates || !run->data || !run->accesses)
        return run_no_memory(err, "a run of a graph");
    run->repeat = repeat_run_begin(memory, graph->repeat);
    run->most = 1;
    run->task_ns = JOIN_NS;
    for (uint32_t i = 0; i < gates; i++) {
        if (!(run->gates[i] = allocator_take(allocator, 1, sizeof **run->gates)))
            return run_no_memory(err, "a run of a graph");
        run->gates[i]->run = run;
        run->gate_count++;
    }
    run->closed = run->gate_count;
    return MUSTER_OK;
}

/* All data are known to core, and no reduction of them is pending. The lock is not held all the time. */
static muster_status know_all_locked(struct flow_run *run, struct muster_error *err)
{
    struct task_pool *pool = run->pool;
    muster_status status = MUSTER_OK;
    if (run->graph->has_bodies)
        status = flow_find_cpu_locked(pool, &run->cpu, err);
    if (status == MUSTER_OK && run->graph->has_names && !pool->flow.notes)
        status = flow_make_notes_locked(pool, err);
    for (uint32_t i = 0; i < run->graph->data_count && status == MUSTER_OK; i++) {
        const struct muster_task_access access = { sizeof access, run->data[i], MUSTER_READ };
        const struct muster_task_desc desc = { .size = sizeof desc,
                                               .accesses = &access,
                                               .access_count = 1 };
        if (!flow_slot_of(&pool->flow, run->data[i]))
            status = flow_know_locked(pool, run->data[i], err);
        if (status == MUSTER_OK && pool->flow.has_reductions)
            status = flow_insert_locked(pool, &desc, err);
    }
    return status;
}

/*
 * What the gates access: wholes, since parts of one that overlap would have two gates of one run wait for each
 * other. MUSTER_E_STALE: data was destroyed meanwhile.
 */
static muster_status find_accesses_locked(struct flow_run *run, struct muster_error *err)
{
    struct flow_pool *flow = &run->pool->flow;
    run->access_count = 0;
    for (uint32_t i = 0; i < run->graph->data_count; i++) {
        struct flow_slot *slot = flow_slot_of(flow, run->data[i]);
        uint32_t mode = run->graph->data[i].mode;
        bool is_part = slot && slot->data->whole;
        if (is_part)
            slot = flow_slot_of(flow, slot->data->whole_handle);
        if (!slot)
            return muster_error_fill(err, MUSTER_E_STALE, 0, "destroy data after its graphs' runs",
                                     "a graph accesses data that is gone");
        if (is_part && mode == FLOW_WRITE)
            mode = FLOW_READ_WRITE;
        slot->data->writes += mode != FLOW_READ;
        uint32_t at = slot->turn;
        if (at >= run->access_count || run->accesses[at].part != slot->part)
            run->accesses[slot->turn = run->access_count++] =
                (struct flow_access){ .part = slot->part, .mode = mode };
        else if (run->accesses[at].mode != mode)
            run->accesses[at].mode = FLOW_READ_WRITE;
    }
    return MUSTER_OK;
}

static muster_status add_gate_locked(struct flow_run *run, uint32_t g, enum flow_order_result *grow)
{
    struct flow_access accesses[FLOW_ACCESSES_MAX];
    uint32_t first = g * FLOW_ACCESSES_MAX, count = run->access_count - first;
    if (count > FLOW_ACCESSES_MAX)
        count = FLOW_ACCESSES_MAX;
    memcpy(accesses, run->accesses + first, count * sizeof *accesses);
    return flow_add_gate_locked(run->pool, run->gates[g], accesses, count, grow);
}

/* All gates at the same moment, or none: two runs would wait for each other else. */
static muster_status add_gates_locked(struct flow_run *run, struct muster_error *err)
{
    struct task_pool *pool = run->pool;
    uint32_t used;
    for (;;) {
        enum flow_order_result grow = FLOW_ORDERED;
        uint32_t added = 0;
        muster_status status = pool_make_room_locked(pool, run->gate_count + 2, err);
        if (status == MUSTER_OK && pool->tasks.free_edge_count == 0)
            status = pool_add_edges_locked(pool, 1, err);
        if (status == MUSTER_OK)
            status = find_accesses_locked(run, err);
        uint64_t uses = pool->flow.uses + run->access_count;
        if (status == MUSTER_OK && flow_sizes_of(pool->flow.core)->uses < uses) {
            const struct flow_sizes wanted = { .uses = (uint32_t)uses };
            status = flow_grow_locked(pool, &wanted, err);
            if (status == MUSTER_OK)
                continue;
        }
        if (status != MUSTER_OK)
            return status;
        while ((uint64_t)added * FLOW_ACCESSES_MAX < run->access_count &&
               (status = add_gate_locked(run, added, &grow)) == MUSTER_OK)
            added++;
        used = added;
        if (status == MUSTER_OK)
            break;
        while (added-- > 0)
            flow_remove_gate_locked(pool, run->gates[added]);
        if (grow != FLOW_ORDERED)
            status = flow_grow_for_locked(pool, grow, err);
        if (status != MUSTER_OK)
            return status;
    }
    /* Parts of one whole have one gate; the rest was not needed. */
    run->spare_gates = run->gate_count - used;
    run->gate_count = run->closed = used;
    return MUSTER_OK;
}

static muster_task start_locked(struct flow_run *run)
{
    struct task_pool *pool = run->pool;
    task_function fn = execute;
    run->start = tasks_add(&pool->tasks);
    run->index = tasks_add(&pool->tasks);
    INVARIANT(run->start != TASKS_NONE && run->index != TASKS_NONE);
    tasks_release_taken(&pool->tasks, run->start);
    struct tasks_entry *entry = &pool->tasks.entries[run->index];
    muster_task handle = { run->index, entry->generation };
    memcpy(&entry->payload[0], &fn, sizeof fn);
    entry->payload[1] = run;
    entry->payload[2] = NULL;
    entry->tag = FLOW_RUN;
    bool fits = tasks_follow(&pool->tasks, run->index, run->start);
    INVARIANT(fits);
    (void)fits;
    tasks_release(&pool->tasks, run->index);
    pool->submitted += 2 + run->gate_count;
    run->graph->runs_open++;
    for (uint32_t i = 0; i < run->gate_count; i++)
        tasks_release(&pool->tasks, run->gates[i]->task.index);
    pool_show_submitted_locked(pool);
    flow_pump_locked(pool);
    pool_wake_locked(pool);
    return handle;
}

muster_status muster_graph_run(struct muster *m, struct muster_graph *graph,
                               const struct muster_graph_change *changes, size_t count,
                               muster_task *out, struct muster_error *err)
{
    struct task_pool *pool;
    struct flow_run *run = NULL;
    if (!m || !graph || graph->m != m || (!changes && count > 0))
        return run_bad_argument(err, "muster_graph_run",
                                "an argument is NULL, or the graph is another runtime's");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = layout_check_all(LAYOUT(muster_graph_change), changes, count, err);
    if (status == MUSTER_OK)
        status = pool_get(m, &pool, err);
    if (status == MUSTER_OK)
        status = make_run(pool, graph, &run, err);
    if (status == MUSTER_OK)
        status = find_data(run, changes, count, err);
    if (status == MUSTER_OK) {
        platform_mutex_lock(&pool->lock);
        status = know_all_locked(run, err);
        if (status == MUSTER_OK)
            status = add_gates_locked(run, err);
        muster_task task = { 0, 0 };
        if (status == MUSTER_OK)
            task = start_locked(run);
        platform_mutex_unlock(&pool->lock);
        if (status == MUSTER_OK && out)
            *out = task;
    }
    if (status != MUSTER_OK && run) {
        for (uint32_t i = 0; i < run->gate_count; i++)
            allocator_give(&m->allocator, run->gates[i], 1, sizeof *run->gates[i]);
        free_run(run);
    }
    return status;
}
