/*
 * Submitting a run of a recorded graph. A run is a task of the table that is ready when all its gates are
 * open. Gates are accesses of the host's (flow_gate.c), of as many data at once as core takes.
 */
#include "run/task/flow_graph.h"

#include "base/allocator.h"
#include "base/invariant.h"

#include <string.h>

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
    task_function fn = flow_run_execute;
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
        flow_run_free(run);
    }
    return status;
}
