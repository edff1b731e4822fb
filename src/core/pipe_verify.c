/*
 * The proof: every conflict is ordered, every wait binds to the record that it means, and nothing
 * waits for itself.
 */
#include "base/text.h"
#include "core/pipe_conflicts.h"
#include "core/pipe_work.h"

#include <muster/backend.h>

/* A set of nodes and what goes with each of them is laid out in words. */
static size_t words_for(size_t bytes)
{
    return (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

struct layout {
    size_t sets, after, seen, towards, list, hops, bytes;
};

static struct layout layout_of(const struct pipe_declaration *declaration)
{
    uint32_t steps = declaration->stage_count + 2;
    uint32_t units = PIPE_UNITS(pipe_slots_max(declaration));
    size_t nodes = (size_t)PIPE_STEP_NODES * steps * units, words = (nodes + 63) / 64;
    struct layout at = { .sets = words_for(sizeof(struct pipe_work)) };
    at.after = at.sets + pipe_graph_bytes(steps, units) / sizeof(uint64_t);
    at.seen = at.after + nodes * words;
    at.towards = at.seen + words;
    at.list = at.towards + words_for(nodes * sizeof(uint32_t));
    at.hops = at.list + words_for(nodes * sizeof(uint32_t));
    at.bytes = (at.hops + words_for(nodes)) * sizeof(uint64_t);
    return at;
}

static bool is_sound(const struct pipe_declaration *declaration)
{
    if (declaration->stage_count > MUSTER_STAGES_MAX ||
        declaration->buffer_count > MUSTER_BUFFERS_MAX ||
        declaration->stream_count > MUSTER_ROLES_MAX)
        return false;
    for (uint32_t b = 0; b < declaration->buffer_count; b++)
        if (!declaration->buffers[b].is_carried &&
            (declaration->buffers[b].slots == 0 ||
             declaration->buffers[b].slots > MUSTER_SLOTS_MAX))
            return false;
    for (uint32_t s = 0; s < declaration->stage_count; s++)
        if (declaration->stages[s].stream != PIPE_HOST &&
            declaration->stages[s].stream >= declaration->stream_count)
            return false;
    for (uint32_t i = 0; i < declaration->added_count; i++)
        if (declaration->added[i].from >= declaration->stage_count ||
            declaration->added[i].to >= declaration->stage_count)
            return false;
    return true;
}

size_t pipe_scratch_bytes(const struct pipe_declaration *declaration)
{
    return is_sound(declaration) ? layout_of(declaration).bytes : sizeof(struct pipe_work);
}

muster_status pipe_check_declaration(const struct pipe_declaration *declaration,
                                     struct muster_error *err)
{
    if (is_sound(declaration))
        return MUSTER_OK;
    return muster_error_fill(
        err, MUSTER_E_INVALID, 0, "keep to what is declared and to the limits of muster/pipeline.h",
        "a pipeline with %u stages, %u buffers and %u streams names a missing one, or has too many",
        declaration->stage_count, declaration->buffer_count, declaration->stream_count);
}

struct pipe_work *pipe_work_init(void *scratch, const struct pipe_declaration *declaration)
{
    struct layout at = layout_of(declaration);
    uint64_t *words = scratch;
    struct pipe_work *work = scratch;
    work->memory = words + at.sets;
    work->after = words + at.after;
    work->seen = words + at.seen;
    work->towards = (void *)(words + at.towards);
    work->list = (void *)(words + at.list);
    work->hops = (void *)(words + at.hops);
    work->stuck_step = PIPE_NONE;
    return work;
}

/* Whether an edge is one that steps of these sorts can have between them. */
static bool is_possible(const struct pipe_declaration *declaration, const struct pipe_edge *edge)
{
    bool from_host = pipe_is_host(declaration, edge->from);
    bool to_host = pipe_is_host(declaration, edge->to);
    switch (edge->kind) {
    case MUSTER_EDGE_EVENT:
    case MUSTER_EDGE_ENQUEUE:
        return !from_host && !to_host;
    case MUSTER_EDGE_ARRIVAL:
        return !from_host && to_host;
    case MUSTER_EDGE_RULE:
        return from_host;
    case MUSTER_EDGE_GATE:
        return from_host && !to_host && edge->distance > 0;
    }
    return false;
}

muster_status pipe_check_direction(const struct pipe_declaration *declaration,
                                   const struct pipe_edge *edge, struct muster_error *err)
{
    if (edge->distance > 0 || edge->to > edge->from)
        return MUSTER_OK;
    const char *from = pipe_step_name(declaration, edge->from);
    const char *to = pipe_step_name(declaration, edge->to);
    char fix[sizeof err->fix];
    struct text_room room = { fix, sizeof fix, 0 };
    text_put(&room, "drop the edge from '%.31s' to '%.31s', or let it lead to a later unit", from,
             to);
    if (edge->from == edge->to)
        return muster_error_fill(err, MUSTER_E_ORDER, 0, fix,
                                 "a circle: '%.31s' waits for itself in the same unit", to);
    return muster_error_fill(
        err, MUSTER_E_ORDER, 0, fix,
        "a circle: '%.31s' waits for '%.31s' of the same unit, which does not begin before '%.31s'",
        to, from, to);
}

static muster_status check_edges(const struct pipe_declaration *declaration,
                                 const struct pipe_plan *plan, struct muster_error *err)
{
    uint32_t steps = declaration->stage_count + 2;
    if (plan->edge_count > MUSTER_EDGES_MAX)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "derive the plan again",
                                 "a plan with %u edges; the limit is %u", plan->edge_count,
                                 MUSTER_EDGES_MAX);
    for (uint32_t i = 0; i < plan->edge_count; i++) {
        const struct pipe_edge *edge = &plan->edges[i];
        if (edge->from >= steps || edge->to >= steps || !is_possible(declaration, edge))
            return muster_error_fill(err, MUSTER_E_INVALID, 0, "derive the plan again",
                                     "edge %u of the plan is not one between these steps", i + 1);
        muster_status status = pipe_check_direction(declaration, edge, err);
        if (status != MUSTER_OK)
            return status;
    }
    return MUSTER_OK;
}

static bool is_ordered(const struct pipe_graph *graph, const struct pipe_edge *conflict)
{
    for (uint32_t unit = 0; conflict->distance < graph->units - unit; unit++)
        if (!pipe_is_before(graph, pipe_execution(graph, conflict->from, unit),
                            pipe_execution(graph, conflict->to, unit + conflict->distance)))
            return false;
    return true;
}

static bool is_issued(const struct pipe_graph *graph, const struct pipe_edge *edge)
{
    for (uint32_t unit = 0; edge->distance < graph->units - unit; unit++)
        if (!pipe_graph_is_issued(graph, edge, unit))
            return false;
    return true;
}

/* The plan may have the edge, and yet nothing by it: then it is the record that is not issued. */
static bool waits_already(const struct pipe_plan *plan, const struct pipe_edge *conflict)
{
    for (uint32_t i = 0; i < plan->edge_count; i++) {
        const struct pipe_edge *edge = &plan->edges[i];
        if (edge->kind == MUSTER_EDGE_EVENT && edge->from == conflict->from &&
            edge->to == conflict->to && edge->distance == conflict->distance)
            return true;
    }
    return false;
}

static void put_units(struct text_room *room, uint32_t distance)
{
    if (distance == 0)
        text_put(room, "of the same unit");
    else if (distance == 1)
        text_put(room, "of the unit before");
    else
        text_put(room, "of the unit %u before", distance);
}

static muster_status report_missing(const struct pipe_graph *graph, struct pipe_edge edge,
                                    struct pipe_edge *missing, struct muster_error *err)
{
    const struct pipe_declaration *declaration = graph->declaration;
    const char *from = pipe_step_name(declaration, edge.from);
    const char *to = pipe_step_name(declaration, edge.to);
    bool waits = waits_already(graph->plan, &edge);
    edge.kind =
        pipe_edge_kind(declaration, graph->plan->schedule, edge.from, edge.to, edge.distance);
    edge.alias = PIPE_NONE;
    if (waits) {
        edge.kind = MUSTER_EDGE_ENQUEUE;
        edge.hazard = PIPE_ISSUED;
    }
    if (missing)
        *missing = edge;
    char text[sizeof err->text], fix[sizeof err->fix];
    struct text_room room = { text, sizeof text, 0 };
    text_put(&room, "'%.31s' %s '%.31s' ", to, waits ? "waits for" : "does not wait for", from);
    put_units(&room, edge.distance);
    if (waits)
        text_put(&room, ", but the wait may bind to an older record");
    if (edge.buffer < declaration->buffer_count)
        text_put(&room, ": both touch '%.31s'", declaration->buffers[edge.buffer].name);
    else if (edge.hazard == PIPE_STATE)
        text_put(&room, ": it carries state from one to the other");
    room = (struct text_room){ fix, sizeof fix, 0 };
    text_put(&room, "add an edge from '%.31s' to '%.31s' with distance %u", from, to,
             edge.distance);
    return muster_error_fill(err, MUSTER_E_ORDER, 0, fix, "%s", text);
}

/* The nearest of the user's edges whose ends are not ordered. */
static bool find_open_added(const struct pipe_graph *graph, struct pipe_edge *out)
{
    const struct pipe_declaration *declaration = graph->declaration;
    bool is_found = false;
    for (uint32_t i = 0; i < declaration->added_count; i++) {
        struct pipe_edge edge = pipe_added_edge(declaration, i);
        if ((is_found && !pipe_is_farther(out, &edge)) || is_ordered(graph, &edge))
            continue;
        *out = edge;
        is_found = true;
    }
    return is_found;
}

static bool find_open_conflict(const struct pipe_graph *graph, struct pipe_edge *out)
{
    struct pipe_conflicts conflicts;
    pipe_conflicts_begin(&conflicts, graph->declaration);
    while (pipe_conflicts_next(&conflicts, out))
        if (!is_ordered(graph, out))
            return true;
    return false;
}

/*
 * What is farther apart may be open only because of what is nearer, so that is what is reported: it
 * is where an edge is missing.
 */
static muster_status verify_order(struct pipe_graph *graph, struct pipe_edge *missing,
                                  struct muster_error *err)
{
    struct pipe_edge conflict, added;
    bool has_conflict = find_open_conflict(graph, &conflict);
    if (find_open_added(graph, &added) && !(has_conflict && pipe_is_farther(&added, &conflict)))
        return report_missing(graph, added, missing, err);
    if (has_conflict)
        return report_missing(graph, conflict, missing, err);
    for (uint32_t i = 0; i < graph->plan->edge_count; i++) {
        const struct pipe_edge *edge = &graph->plan->edges[i];
        if (edge->kind == MUSTER_EDGE_EVENT && !is_issued(graph, edge))
            return report_missing(graph, *edge, missing, err);
    }
    return MUSTER_OK;
}

muster_status pipe_verify_in(struct pipe_work *work, const struct pipe_declaration *declaration,
                             const struct pipe_plan *plan, struct pipe_edge *missing,
                             struct muster_error *err)
{
    if (missing)
        *missing = (struct pipe_edge){ .from = PIPE_NONE, .to = PIPE_NONE, .buffer = PIPE_NONE };
    muster_status status = check_edges(declaration, plan, err);
    if (status != MUSTER_OK)
        return status;
    uint32_t units = PIPE_UNITS(pipe_slots_max(declaration));
    pipe_graph_init(&work->graph, declaration, plan, units, work->memory);
    pipe_graph_close(&work->graph);
    status = verify_order(&work->graph, missing, err);
    return status == MUSTER_OK ? pipe_verify_progress(work, err) : status;
}

muster_status pipe_verify(const struct pipe_declaration *declaration, const struct pipe_plan *plan,
                          void *scratch, struct pipe_edge *missing, struct muster_error *err)
{
    muster_status status = pipe_check_declaration(declaration, err);
    if (status != MUSTER_OK)
        return status;
    struct pipe_work *work = pipe_work_init(scratch, declaration);
    return pipe_verify_in(work, declaration, plan, missing, err);
}
