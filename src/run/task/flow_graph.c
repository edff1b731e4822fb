/*
 * Recorded graphs: what one thread submits between begin and end is kept, its order is found once
 * (core/repeat.h), and runs of it ask core for nothing but the order among runs and other tasks.
 */
#include "run/task/flow_graph.h"

#include "base/allocator.h"
#include "base/invariant.h"

#include <string.h>

#define TASKS_AT_FIRST 256u

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
