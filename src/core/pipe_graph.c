#include "core/pipe_graph.h"

#include "base/invariant.h"

#include <string.h>

/* The two nodes of a step share a word of every set: its enqueueing is the even bit. */
_Static_assert(PIPE_STEP_NODES == 2, "executions are found from enqueueings by a shift");

static uint32_t words_of(uint32_t steps, uint32_t units)
{
    return (PIPE_STEP_NODES * steps * units + 63) / 64;
}

size_t pipe_graph_bytes(uint32_t steps, uint32_t units)
{
    size_t sets = (size_t)PIPE_STEP_NODES * steps * units + MUSTER_ROLES_MAX;
    return sets * words_of(steps, units) * sizeof(uint64_t);
}

static void sort_edges(struct pipe_graph *graph)
{
    const struct pipe_plan *plan = graph->plan;
    uint32_t count = 0;
    for (uint32_t step = 0; step < graph->steps; step++) {
        graph->in_first[step] = count;
        for (uint32_t i = 0; i < plan->edge_count; i++)
            if (plan->edges[i].to == step)
                graph->in[count++] = i;
    }
    graph->in_first[graph->steps] = count;
}

void pipe_graph_init(struct pipe_graph *graph, const struct pipe_declaration *declaration,
                     const struct pipe_plan *plan, uint32_t units, void *memory)
{
    uint32_t steps = declaration->stage_count + 2;
    *graph = (struct pipe_graph){
        .declaration = declaration,
        .plan = plan,
        .steps = steps,
        .units = units,
        .node_count = PIPE_STEP_NODES * steps * units,
        .words = words_of(steps, units),
        .before = memory,
    };
    graph->streams = pipe_set(graph, graph->before, graph->node_count);
    memset(graph->streams, 0, (size_t)MUSTER_ROLES_MAX * graph->words * sizeof(uint64_t));
    uint32_t last = 0;
    for (uint32_t step = steps; step-- > 0;) {
        if (pipe_is_host(declaration, step))
            continue;
        if (pipe_is_host(declaration, step + 1))
            last = step;
        graph->last_of_run[step] = last;
        uint64_t *stream = pipe_set(graph, graph->streams, declaration->stages[step - 1].stream);
        for (uint32_t unit = 0; unit < units; unit++)
            pipe_put(stream, pipe_enqueueing(graph, step, unit));
    }
}

static uint32_t beginning(const struct pipe_graph *graph, uint32_t step, uint32_t unit)
{
    bool is_host = pipe_is_host(graph->declaration, step);
    return is_host ? pipe_execution(graph, step, unit) : pipe_enqueueing(graph, step, unit);
}

static void visit_stages(const struct pipe_graph *graph, uint32_t unit, pipe_visit *visit,
                         void *user)
{
    for (uint32_t step = 1; step < graph->steps - 1; step++)
        visit(user, pipe_execution(graph, step, unit), PIPE_HOP_BUILT_IN);
}

/* What a step's beginning is always behind. */
static void visit_built_in(const struct pipe_graph *graph, uint32_t step, uint32_t unit,
                           pipe_visit *visit, void *user)
{
    const struct pipe_declaration *declaration = graph->declaration;
    bool is_host = pipe_is_host(declaration, step);
    if (step > 0)
        visit(user, beginning(graph, step - 1, unit), PIPE_HOP_BUILT_IN);
    if (unit == 0)
        return;
    if (step == 0 || step == graph->steps - 1)
        visit(user, pipe_execution(graph, step, unit - 1), PIPE_HOP_BUILT_IN);
    else if (!is_host && pipe_is_host(declaration, step - 1))
        visit(user, pipe_enqueueing(graph, graph->last_of_run[step], unit - 1), PIPE_HOP_BUILT_IN);
    if (step != 1 || declaration->stage_count == 0)
        return;
    if (graph->plan->schedule == MUSTER_SCHEDULE_DRAIN_AFTER_KICK)
        visit_stages(graph, unit - 1, visit, user);
    if (graph->depth > 0 && unit >= graph->depth)
        visit_stages(graph, unit - graph->depth, visit, user);
}

bool pipe_graph_is_issued(const struct pipe_graph *graph, const struct pipe_edge *edge,
                          uint32_t unit)
{
    return pipe_is_before(graph, pipe_enqueueing(graph, edge->from, unit),
                          pipe_enqueueing(graph, edge->to, unit + edge->distance));
}

static void visit_edge(const struct pipe_graph *graph, const struct pipe_edge *edge, uint32_t node,
                       pipe_visit *visit, void *user)
{
    uint32_t unit = pipe_node_unit(graph, node);
    if (edge->distance > unit)
        return;
    uint32_t from_unit = unit - edge->distance;
    uint32_t ended = pipe_execution(graph, edge->from, from_unit);
    bool begins = beginning(graph, edge->to, unit) == node;
    switch (edge->kind) {
    case MUSTER_EDGE_ENQUEUE:
        if (begins)
            visit(user, pipe_enqueueing(graph, edge->from, from_unit), PIPE_HOP_EDGE);
        break;
    case MUSTER_EDGE_RULE:
    case MUSTER_EDGE_ARRIVAL:
        if (begins)
            visit(user, ended, PIPE_HOP_EDGE);
        break;
    case MUSTER_EDGE_GATE:
        if (!begins)
            visit(user, ended, PIPE_HOP_GATE);
        break;
    case MUSTER_EDGE_EVENT:
        if (!begins && pipe_graph_is_issued(graph, edge, from_unit))
            visit(user, ended, PIPE_HOP_EDGE);
        break;
    }
}

void pipe_graph_visit(const struct pipe_graph *graph, uint32_t node, pipe_visit *visit, void *user)
{
    uint32_t step = pipe_node_step(graph, node), unit = pipe_node_unit(graph, node);
    if (beginning(graph, step, unit) == node)
        visit_built_in(graph, step, unit, visit, user);
    else
        visit(user, pipe_enqueueing(graph, step, unit), PIPE_HOP_BUILT_IN);
    for (uint32_t i = graph->in_first[step]; i < graph->in_first[step + 1]; i++)
        visit_edge(graph, &graph->plan->edges[graph->in[i]], node, visit, user);
}

struct closing {
    const struct pipe_graph *graph;
    uint64_t *before; /* of the node at hand */
};

static void add_before(void *user, uint32_t node, enum pipe_hop hop)
{
    (void)hop;
    struct closing *closing = user;
    const uint64_t *also = pipe_set(closing->graph, closing->graph->before, node);
    for (uint32_t w = 0; w <= node / 64; w++)
        closing->before[w] |= also[w];
    pipe_put(closing->before, node);
}

/*
 * Executions on the stream whose enqueueing comes before this one's. From the last one back: it
 * brings those before it along, so that few are added one by one.
 */
static void add_stream(const struct pipe_graph *graph, uint32_t node, struct closing *closing)
{
    uint32_t stage = pipe_node_step(graph, node) - 1;
    uint32_t stream = graph->declaration->stages[stage].stream;
    const uint64_t *on_stream = pipe_set(graph, graph->streams, stream);
    const uint64_t *issued = pipe_set(graph, graph->before, node - 1);
    for (uint32_t w = node / 64 + 1; w-- > 0;) {
        for (;;) {
            uint64_t left = issued[w] & on_stream[w] & ~(closing->before[w] >> 1);
            if (left == 0)
                break;
            uint32_t bit = 63 - (uint32_t)__builtin_clzll(left);
            add_before(closing, 64 * w + bit + 1, PIPE_HOP_QUEUE);
        }
    }
}

void pipe_graph_close(struct pipe_graph *graph)
{
    sort_edges(graph);
    for (uint32_t node = 0; node < graph->node_count; node++) {
        struct closing closing = { graph, pipe_set(graph, graph->before, node) };
        memset(closing.before, 0, graph->words * sizeof(uint64_t));
        bool is_host = pipe_is_host(graph->declaration, pipe_node_step(graph, node));
        if (is_host && !pipe_is_execution(node))
            continue;
        /* In the order of the program, so that what is asked for is complete by now. */
        pipe_graph_visit(graph, node, add_before, &closing);
        if (!is_host && pipe_is_execution(node))
            add_stream(graph, node, &closing);
        INVARIANT(!pipe_has(closing.before, node));
    }
}
