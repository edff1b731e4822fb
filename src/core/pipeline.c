#include "core/pipeline.h"

#include "base/text.h"
#include "core/pipe_conflicts.h"
#include "core/pipe_work.h"

#include <muster/backend.h>

const char *pipe_step_name(const struct pipe_declaration *declaration, uint32_t step)
{
    if (step == 0)
        return "source";
    return step <= declaration->stage_count ? declaration->stages[step - 1].name : "sink";
}

bool pipe_is_host(const struct pipe_declaration *declaration, uint32_t step)
{
    return step == 0 || step > declaration->stage_count ||
           declaration->stages[step - 1].stream == PIPE_HOST;
}

uint32_t pipe_depth(const struct pipe_declaration *declaration)
{
    return 2 * pipe_slots_max(declaration);
}

const char *pipe_schedule_name(enum muster_schedule schedule)
{
    switch (schedule) {
    case MUSTER_SCHEDULE_AUTO:
        return "auto";
    case MUSTER_SCHEDULE_PIPELINED:
        return "pipelined";
    case MUSTER_SCHEDULE_GATED:
        return "gated";
    case MUSTER_SCHEDULE_DRAIN_BEFORE_KICK:
        return "drain-before-kick";
    case MUSTER_SCHEDULE_DRAIN_AFTER_KICK:
        return "drain-after-kick";
    }
    return "unknown";
}

/* A device step of the next unit waits for a host stage: the lane has one unit at a time there. */
static bool holds_up(const struct pipe_declaration *declaration, uint32_t from, uint32_t to,
                     uint32_t distance)
{
    return distance == 1 && from > 0 && from <= declaration->stage_count &&
           pipe_is_host(declaration, from) && !pipe_is_host(declaration, to);
}

enum muster_edge_kind pipe_edge_kind(const struct pipe_declaration *declaration,
                                     enum muster_schedule schedule, uint32_t from, uint32_t to,
                                     uint32_t distance)
{
    if (pipe_is_host(declaration, from)) {
        bool is_gate =
            schedule == MUSTER_SCHEDULE_GATED && holds_up(declaration, from, to, distance);
        return is_gate ? MUSTER_EDGE_GATE : MUSTER_EDGE_RULE;
    }
    if (pipe_is_host(declaration, to))
        return MUSTER_EDGE_ARRIVAL;
    bool is_same = declaration->stages[from - 1].stream == declaration->stages[to - 1].stream;
    return is_same ? MUSTER_EDGE_ENQUEUE : MUSTER_EDGE_EVENT;
}

static muster_status put_edge(struct pipe_plan *plan, const struct pipe_edge *edge,
                              struct muster_error *err)
{
    if (plan->edge_count == MUSTER_EDGES_MAX)
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0,
                                 "use fewer stages or streams, or fewer edges of your own",
                                 "the pipeline takes more than %u edges", MUSTER_EDGES_MAX);
    plan->edges[plan->edge_count++] = *edge;
    return MUSTER_OK;
}

/* Adds an edge, and before it what a wait needs to bind to the right record. */
static muster_status add_edge(struct pipe_work *work, struct pipe_edge edge,
                              struct muster_error *err)
{
    struct pipe_graph *graph = &work->graph;
    edge.kind =
        pipe_edge_kind(graph->declaration, work->plan.schedule, edge.from, edge.to, edge.distance);
    muster_status status = MUSTER_OK;
    if (edge.kind == MUSTER_EDGE_EVENT && edge.distance < graph->units &&
        !pipe_graph_is_issued(graph, &edge, 0)) {
        struct pipe_edge issued = edge;
        issued.kind = MUSTER_EDGE_ENQUEUE;
        issued.hazard = PIPE_ISSUED;
        status = put_edge(&work->plan, &issued, err);
    }
    if (status == MUSTER_OK)
        status = put_edge(&work->plan, &edge, err);
    if (status == MUSTER_OK)
        pipe_graph_close(graph);
    return status;
}

/* The user's edges, nearest first. */
static void sort_added(struct pipe_work *work, const struct pipe_declaration *declaration)
{
    for (uint32_t i = 0; i < declaration->added_count; i++) {
        struct pipe_edge edge = pipe_added_edge(declaration, i);
        uint32_t at = i;
        for (; at > 0; at--) {
            struct pipe_edge other = pipe_added_edge(declaration, work->added[at - 1]);
            if (!pipe_is_farther(&other, &edge))
                break;
            work->added[at] = work->added[at - 1];
        }
        work->added[at] = i;
    }
}

/* Adds those of the user's edges, from the *at-th on, that are no farther than `limit`; NULL: all. */
static muster_status add_users(struct pipe_work *work, const struct pipe_edge *limit, uint32_t *at,
                               struct muster_error *err)
{
    const struct pipe_declaration *declaration = work->graph.declaration;
    for (; *at < declaration->added_count; ++*at) {
        struct pipe_edge edge = pipe_added_edge(declaration, work->added[*at]);
        if (limit && pipe_is_farther(&edge, limit))
            break;
        muster_status status = pipe_check_direction(declaration, &edge, err);
        if (status == MUSTER_OK)
            status = add_edge(work, edge, err);
        if (status != MUSTER_OK)
            return status;
    }
    return MUSTER_OK;
}

/*
 * Edges in increasing distance, each only if what is there does not order its ends yet. All order
 * is made of shorter pieces between the ends, so a later, farther edge never makes an earlier one
 * needless: none has to be taken back, and without any one of them its own conflict is open.
 * Since units are alike, what holds from the first unit on holds from any.
 */
static muster_status add_edges(struct pipe_work *work, struct muster_error *err)
{
    struct pipe_graph *graph = &work->graph;
    struct pipe_conflicts conflicts;
    struct pipe_edge conflict;
    uint32_t added = 0;
    pipe_conflicts_begin(&conflicts, graph->declaration);
    while (pipe_conflicts_next(&conflicts, &conflict)) {
        muster_status status = add_users(work, &conflict, &added, err);
        if (status != MUSTER_OK)
            return status;
        if (pipe_is_before(graph, pipe_execution(graph, conflict.from, 0),
                           pipe_execution(graph, conflict.to, conflict.distance)))
            continue;
        status = add_edge(work, conflict, err);
        if (status != MUSTER_OK)
            return status;
    }
    return add_users(work, NULL, &added, err);
}

/* The units over which the farthest edge that can matter reaches. */
static uint32_t units_to_derive(const struct pipe_declaration *declaration)
{
    uint32_t slots = pipe_slots_max(declaration), farthest = slots;
    for (uint32_t i = 0; i < declaration->added_count; i++) {
        uint32_t distance = declaration->added[i].distance;
        if (distance < PIPE_UNITS(slots) && distance > farthest)
            farthest = distance;
    }
    return farthest + 1;
}

static void find_aliases(struct pipe_plan *plan)
{
    for (uint32_t i = 0; i < plan->edge_count; i++) {
        struct pipe_edge *edge = &plan->edges[i];
        edge->alias = PIPE_NONE;
        if (edge->kind == MUSTER_EDGE_ENQUEUE || edge->kind == MUSTER_EDGE_RULE)
            continue;
        for (uint32_t k = 0; k < i && edge->alias == PIPE_NONE; k++) {
            const struct pipe_edge *other = &plan->edges[k];
            bool is_record = other->kind != MUSTER_EDGE_ENQUEUE && other->kind != MUSTER_EDGE_RULE;
            if (is_record && other->from == edge->from)
                edge->alias = k;
        }
    }
}

static void describe_steps(struct pipe_plan *plan, const struct pipe_declaration *declaration)
{
    plan->step_count = declaration->stage_count + 2;
    uint32_t segment = 0;
    for (uint32_t step = 0; step < plan->step_count; step++) {
        plan->segment[step] = segment;
        if (pipe_is_host(declaration, step))
            segment++;
    }
    for (uint32_t b = 0; b < declaration->buffer_count; b++)
        plan->carries |= declaration->buffers[b].is_carried;
    for (uint32_t s = 0; s < declaration->stage_count; s++)
        plan->carries |= declaration->stages[s].carries;
}

/* The edge for which a schedule is to be chosen; NULL if there is none. */
static const struct pipe_edge *holding_edge(const struct pipe_declaration *declaration,
                                            const struct pipe_plan *plan)
{
    for (uint32_t i = 0; i < plan->edge_count; i++) {
        const struct pipe_edge *edge = &plan->edges[i];
        if (holds_up(declaration, edge->from, edge->to, edge->distance))
            return edge;
    }
    return NULL;
}

/* Derives and proves work->plan. */
static muster_status derive_as(struct pipe_work *work, const struct pipe_declaration *declaration,
                               enum muster_schedule schedule, struct muster_error *err)
{
    struct pipe_plan *plan = &work->plan;
    *plan = (struct pipe_plan){ .schedule = schedule };
    describe_steps(plan, declaration);
    pipe_graph_init(&work->graph, declaration, plan, units_to_derive(declaration), work->memory);
    pipe_graph_close(&work->graph);
    sort_added(work, declaration);
    muster_status status = add_edges(work, err);
    if (status != MUSTER_OK)
        return status;
    find_aliases(plan);
    for (uint32_t i = 0; i < plan->edge_count; i++)
        plan->needs_gates |= plan->edges[i].kind == MUSTER_EDGE_GATE;
    return pipe_verify_in(work, declaration, plan, NULL, err);
}

/* "state 'table' goes from host stage 'compress' to 'apply' of the next unit" */
static void put_cause(struct text_room *room, const struct pipe_declaration *declaration,
                      const struct pipe_edge *edge)
{
    if (edge->buffer == PIPE_NONE)
        text_put(room, "an added edge leads");
    else if (declaration->buffers[edge->buffer].is_carried)
        text_put(room, "state '%.31s' goes", declaration->buffers[edge->buffer].name);
    else
        text_put(room, "the one slot of '%.31s' goes", declaration->buffers[edge->buffer].name);
    text_put(room, " from host stage '%.31s' to '%.31s' of the next unit",
             pipe_step_name(declaration, edge->from), pipe_step_name(declaration, edge->to));
}

static void put_reason(struct pipe_plan *plan, const struct pipe_declaration *declaration,
                       const char *then)
{
    struct text_room room = { plan->reason, sizeof plan->reason, 0 };
    const struct pipe_edge *edge = holding_edge(declaration, plan);
    if (edge)
        put_cause(&room, declaration, edge);
    else
        text_put(&room, "no host stage holds up a device stage of the next unit");
    text_put(&room, "%s", then);
}

static muster_status derive_auto(struct pipe_work *work, const struct pipe_declaration *declaration,
                                 bool has_gates, struct muster_error *err)
{
    struct pipe_plan *plan = &work->plan;
    muster_status status = derive_as(work, declaration, MUSTER_SCHEDULE_PIPELINED, err);
    if (status != MUSTER_OK)
        return status;
    if (!holding_edge(declaration, plan)) {
        put_reason(plan, declaration, "");
        return MUSTER_OK;
    }
    char then[80] = ", and the device cannot wait for a value";
    if (has_gates) {
        status = derive_as(work, declaration, MUSTER_SCHEDULE_GATED, NULL);
        if (status == MUSTER_OK) {
            put_reason(plan, declaration, ", and the device can wait for a value");
            return MUSTER_OK;
        }
        struct text_room room = { then, sizeof then, 0 };
        if (work->stuck_step == PIPE_NONE)
            text_put(&room, "; gated, it takes too many edges");
        else
            text_put(&room, "; gated, '%.31s' could get stuck on its stream",
                     pipe_step_name(declaration, work->stuck_step));
    }
    status = derive_as(work, declaration, MUSTER_SCHEDULE_DRAIN_BEFORE_KICK, err);
    put_reason(plan, declaration, then);
    return status;
}

/* A schedule that says what is not so is refused. */
static muster_status check_name(const struct pipe_declaration *declaration,
                                const struct pipe_plan *plan, struct muster_error *err)
{
    const struct pipe_edge *edge = holding_edge(declaration, plan);
    if (plan->schedule == MUSTER_SCHEDULE_PIPELINED && edge) {
        char text[sizeof err->text];
        struct text_room room = { text, sizeof text, 0 };
        put_cause(&room, declaration, edge);
        return muster_error_fill(err, MUSTER_E_ORDER, 0,
                                 "ask for gated or for drain-before-kick, or let Muster choose",
                                 "pipelined is not possible: %s", text);
    }
    if (!edge && (plan->schedule == MUSTER_SCHEDULE_GATED ||
                  plan->schedule == MUSTER_SCHEDULE_DRAIN_BEFORE_KICK))
        return muster_error_fill(err, MUSTER_E_ORDER, 0, "ask for pipelined, or let Muster choose",
                                 "%s has nothing to do: no host stage holds up a device stage of "
                                 "the next unit",
                                 pipe_schedule_name(plan->schedule));
    return MUSTER_OK;
}

muster_status pipe_derive(const struct pipe_declaration *declaration, enum muster_schedule schedule,
                          bool has_gates, struct pipe_plan *out, void *scratch,
                          struct muster_error *err)
{
    muster_status status = pipe_check_declaration(declaration, err);
    if (status != MUSTER_OK)
        return status;
    if ((unsigned)schedule > MUSTER_SCHEDULE_DRAIN_AFTER_KICK)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "ask for one of enum muster_schedule",
                                 "there is no schedule %d", (int)schedule);
    if (declaration->added_count > MUSTER_EDGES_MAX)
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0, "add fewer",
                                 "%u edges were added; the limit is %u", declaration->added_count,
                                 MUSTER_EDGES_MAX);
    struct pipe_work *work = pipe_work_init(scratch, declaration);
    if (schedule == MUSTER_SCHEDULE_AUTO) {
        status = derive_auto(work, declaration, has_gates, err);
    } else {
        status = derive_as(work, declaration, schedule, err);
        if (status == MUSTER_OK)
            status = check_name(declaration, &work->plan, err);
        if (status == MUSTER_OK)
            put_reason(&work->plan, declaration, "; asked for");
    }
    if (status == MUSTER_OK)
        *out = work->plan;
    return status;
}
