/*
 * That no gate can wait for itself.
 *
 * Without gates a device only waits for what was issued before it, so it always gets on, and the
 * host only waits in the order of the program. A gate is the exception: a stream stands still until
 * a host step has ended. What is queued behind it on its stream stands still as well, and where two
 * steps of one stream are not certain to be enqueued one before the other, either may be. So a gate
 * is safe if its publisher cannot come to wait for its waiter, however such pairs turn out.
 */
#include "base/text.h"
#include "core/pipe_conflicts.h"
#include "core/pipe_work.h"

#include <muster/backend.h>

#include <string.h>

/* Names are cut to this where a circle would not fit into an error with whole ones. */
#define NAME_WHOLE 31
#define NAME_SHORT 10

/* What comes behind each node, from what comes before each. */
static void turn_round(struct pipe_work *work)
{
    struct pipe_graph *graph = &work->graph;
    memset(work->after, 0, (size_t)graph->node_count * graph->words * sizeof(uint64_t));
    for (uint32_t node = 0; node < graph->node_count; node++) {
        const uint64_t *before = pipe_set(graph, graph->before, node);
        for (uint32_t w = 0; w <= node / 64; w++)
            for (uint64_t left = before[w]; left != 0; left &= left - 1) {
                uint32_t other = 64 * w + (uint32_t)__builtin_ctzll(left);
                pipe_put(pipe_set(graph, work->after, other), node);
            }
    }
}

struct search {
    struct pipe_work *work;
    uint32_t node; /* that is being looked at */
    uint32_t found;
};

static void find(void *user, uint32_t node, enum pipe_hop hop)
{
    struct search *search = user;
    struct pipe_work *work = search->work;
    if (pipe_has(work->seen, node))
        return;
    pipe_put(work->seen, node);
    work->towards[node] = search->node;
    work->hops[node] = (uint8_t)hop;
    work->list[search->found++] = node;
}

/* Executions of the same stream that are not certain to be behind this one. */
static void find_queued(struct search *search)
{
    struct pipe_work *work = search->work;
    struct pipe_graph *graph = &work->graph;
    uint32_t enqueued = search->node - 1;
    uint32_t stage = pipe_node_step(graph, search->node) - 1;
    const uint64_t *on_stream =
        pipe_set(graph, graph->streams, graph->declaration->stages[stage].stream);
    const uint64_t *behind = pipe_set(graph, work->after, enqueued);
    for (uint32_t w = 0; w < graph->words; w++) {
        uint64_t left = on_stream[w] & ~behind[w] & ~(work->seen[w] >> 1);
        for (; left != 0; left &= left - 1) {
            uint32_t other = 64 * w + (uint32_t)__builtin_ctzll(left);
            bool is_certain = pipe_is_before(graph, other, enqueued);
            find(search, other + 1, is_certain ? PIPE_HOP_BUILT_IN : PIPE_HOP_QUEUE);
        }
    }
}

/* All that `node` may have to wait for. */
static void search_from(struct pipe_work *work, uint32_t node)
{
    struct pipe_graph *graph = &work->graph;
    memset(work->seen, 0, graph->words * sizeof(uint64_t));
    struct search search = { work, node, 0 };
    find(&search, node, PIPE_HOP_BUILT_IN);
    for (uint32_t i = 0; i < search.found; i++) {
        search.node = work->list[i];
        pipe_graph_visit(graph, search.node, find, &search);
        bool is_host = pipe_is_host(graph->declaration, pipe_node_step(graph, search.node));
        if (!is_host && pipe_is_execution(search.node))
            find_queued(&search);
    }
}

/* A circle in the order of waiting: each node is behind the next one, and the last the first. */
struct circle {
    const struct pipe_graph *graph;
    const uint32_t *nodes;
    const uint8_t *hops; /* how the node is behind the next */
    uint32_t count;
};

static bool is_certain(enum pipe_hop hop)
{
    return hop == PIPE_HOP_BUILT_IN || hop == PIPE_HOP_EDGE;
}

/*
 * In words. Of what certainly waits for each other, only the ends are named: of each step that the
 * lane itself orders, and, if `is_short`, of those along edges too.
 */
static size_t describe(const struct circle *circle, bool is_short, int name, char *text,
                       size_t capacity)
{
    const struct pipe_graph *graph = circle->graph;
    struct text_room room = { text, capacity, 0 };
    uint32_t said = circle->nodes[0];
    text_put(&room, "'%.*s' of unit %u", name,
             pipe_step_name(graph->declaration, pipe_node_step(graph, said)),
             pipe_node_unit(graph, said));
    const char *link = "";
    for (uint32_t i = 0; i < circle->count; i++) {
        enum pipe_hop hop = circle->hops[i];
        uint32_t next = circle->nodes[(i + 1) % circle->count];
        uint32_t step = pipe_node_step(graph, next);
        const char *to = pipe_step_name(graph->declaration, step);
        if (is_certain(hop)) {
            bool goes_on = i + 1 < circle->count && is_certain(circle->hops[i + 1]);
            if ((goes_on && (is_short || hop == PIPE_HOP_BUILT_IN)) ||
                said / PIPE_STEP_NODES == next / PIPE_STEP_NODES)
                continue;
            text_put(&room, "%s waits for '%.*s' of unit %u", link, name, to,
                     pipe_node_unit(graph, next));
        } else if (hop == PIPE_HOP_GATE) {
            text_put(&room, "%s waits for the gate that '%.*s' of unit %u opens", link, name, to,
                     pipe_node_unit(graph, next));
        } else {
            uint32_t stream = graph->declaration->stages[step - 1].stream;
            text_put(&room, "%s may be queued after '%.*s' of unit %u on stream '%.*s'", link, name,
                     to, pipe_node_unit(graph, next), name, graph->declaration->streams[stream]);
        }
        link = i == 0 ? "; that" : ", which";
        said = next;
    }
    return room.length;
}

/* The way is from the waiter to the publisher, which the gate joins. */
static muster_status report_circle(struct pipe_work *work, uint32_t waiter, uint32_t publisher,
                                   struct muster_error *err)
{
    const struct pipe_graph *graph = &work->graph;
    /* Turned round, and begun at what may be queued at the wrong place: that is what one can change. */
    uint32_t count = 0, begin = 0;
    for (uint32_t node = waiter;; node = work->towards[node]) {
        work->list[count++] = node;
        if (node == publisher)
            break;
    }
    while (begin + 1 < count && work->hops[work->list[begin]] != PIPE_HOP_QUEUE)
        begin++;
    begin = (begin + 1) % count;
    /* Nothing is searched any more: there is room for a way of any length. */
    uint32_t *nodes = (uint32_t *)(void *)work->after;
    uint8_t *hops = (uint8_t *)(nodes + count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = (begin + count - i) % count;
        nodes[i] = work->list[at];
        hops[i] = at == 0 ? PIPE_HOP_GATE : work->hops[work->list[at - 1]];
    }
    work->stuck_step = pipe_node_step(graph, nodes[0]);
    struct circle circle = { graph, nodes, hops, count };
    char text[sizeof err->text], fix[sizeof err->fix];
    if (describe(&circle, false, NAME_WHOLE, text, sizeof text) >= sizeof text &&
        describe(&circle, true, NAME_WHOLE, text, sizeof text) >= sizeof text)
        describe(&circle, true, NAME_SHORT, text, sizeof text);
    struct text_room room = { fix, sizeof fix, 0 };
    text_put(&room, "give '%.31s' a stream of its own, or use the schedule drain-before-kick",
             pipe_step_name(graph->declaration, work->stuck_step));
    return muster_error_fill(err, MUSTER_E_ORDER, 0, fix, "%s", text);
}

static muster_status check_publisher(struct pipe_work *work, uint32_t step, uint32_t unit,
                                     struct muster_error *err)
{
    struct pipe_graph *graph = &work->graph;
    uint32_t publisher = pipe_execution(graph, step, unit);
    search_from(work, publisher);
    for (uint32_t i = 0; i < graph->plan->edge_count; i++) {
        const struct pipe_edge *edge = &graph->plan->edges[i];
        if (edge->kind != MUSTER_EDGE_GATE || edge->from != step ||
            edge->distance >= graph->units - unit)
            continue;
        uint32_t waiter = pipe_execution(graph, edge->to, unit + edge->distance);
        if (pipe_has(work->seen, waiter))
            return report_circle(work, waiter, publisher, err);
    }
    return MUSTER_OK;
}

static bool opens_gates(const struct pipe_plan *plan, uint32_t step)
{
    for (uint32_t i = 0; i < plan->edge_count; i++)
        if (plan->edges[i].kind == MUSTER_EDGE_GATE && plan->edges[i].from == step)
            return true;
    return false;
}

muster_status pipe_verify_progress(struct pipe_work *work, struct muster_error *err)
{
    struct pipe_graph *graph = &work->graph;
    bool is_ready = false;
    for (uint32_t step = 0; step < graph->steps; step++) {
        if (!opens_gates(graph->plan, step))
            continue;
        if (!is_ready) {
            graph->depth = pipe_depth(graph->declaration);
            pipe_graph_close(graph);
            turn_round(work);
            is_ready = true;
        }
        for (uint32_t unit = 0; unit < graph->units; unit++) {
            muster_status status = check_publisher(work, step, unit, err);
            if (status != MUSTER_OK)
                return status;
        }
    }
    return MUSTER_OK;
}
