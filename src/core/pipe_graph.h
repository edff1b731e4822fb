/*
 * The order that a plan gives to the first units of a lane: which nodes come before which.
 *
 * What a lane always keeps, besides the plan's edges:
 * - a device step is enqueued before it executes, and behind the step before it in its unit; where
 *   that is a host step, when it has ended;
 * - a host step begins when the device steps before it in its unit are enqueued (not executed: that
 *   takes an arrival edge);
 * - of two device steps on one stream, the one that is certain to be enqueued first executes first;
 * - each segment is enqueued in the order of units, and sources and sinks run in it;
 * - with the schedule drain-after-kick the stages of a unit have all ended when the next begins.
 *
 * Nodes are numbered in the order of the program, and all of that leads from a lower number to a
 * higher one. So the nodes of the first n units stand for themselves: whatever happens in later
 * units, their order is the same. That is why a drain after any number of units needs no graph of
 * its own.
 */
#ifndef CORE_PIPE_GRAPH_H
#define CORE_PIPE_GRAPH_H

#include "core/pipeline.h"

#define PIPE_STEP_NODES 2

struct pipe_graph {
    const struct pipe_declaration *declaration;
    const struct pipe_plan *plan;
    uint32_t steps, units, node_count;
    uint32_t words; /* of a set of nodes */
    /* Units that the lane holds at most, if that is to be part of the order; 0: it is not. */
    uint32_t depth;
    uint32_t last_of_run[PIPE_STEPS_MAX]; /* last device step of those that begin with this one */
    uint32_t in_first[PIPE_STEPS_MAX + 1], in[MUSTER_EDGES_MAX]; /* edges by where they lead to */
    uint64_t *before;                                            /* a set for each node */
    uint64_t *streams; /* a set for each stream: the enqueueings on it */
};

/* How a node comes to be behind another. */
enum pipe_hop { PIPE_HOP_BUILT_IN, PIPE_HOP_EDGE, PIPE_HOP_GATE, PIPE_HOP_QUEUE };

typedef void pipe_visit(void *user, uint32_t node, enum pipe_hop hop);

size_t pipe_graph_bytes(uint32_t steps, uint32_t units);

/* Lays it out in `memory`; pipe_graph_close fills it. */
void pipe_graph_init(struct pipe_graph *graph, const struct pipe_declaration *declaration,
                     const struct pipe_plan *plan, uint32_t units, void *memory);

/* Finds all that comes before each node, as the plan and `depth` are now. */
void pipe_graph_close(struct pipe_graph *graph);

/* Calls back for what must come right before `node`, but for what the order of its stream adds. */
void pipe_graph_visit(const struct pipe_graph *graph, uint32_t node, pipe_visit *visit, void *user);

/* An event edge binds to the right record only if that was issued before the wait is. */
bool pipe_graph_is_issued(const struct pipe_graph *graph, const struct pipe_edge *edge,
                          uint32_t unit);

static inline uint32_t pipe_enqueueing(const struct pipe_graph *graph, uint32_t step, uint32_t unit)
{
    return PIPE_STEP_NODES * (unit * graph->steps + step);
}

static inline uint32_t pipe_execution(const struct pipe_graph *graph, uint32_t step, uint32_t unit)
{
    return pipe_enqueueing(graph, step, unit) + 1;
}

static inline uint32_t pipe_node_step(const struct pipe_graph *graph, uint32_t node)
{
    return node / PIPE_STEP_NODES % graph->steps;
}

static inline uint32_t pipe_node_unit(const struct pipe_graph *graph, uint32_t node)
{
    return node / PIPE_STEP_NODES / graph->steps;
}

static inline bool pipe_is_execution(uint32_t node)
{
    return node % PIPE_STEP_NODES == 1;
}

static inline uint64_t *pipe_set(const struct pipe_graph *graph, uint64_t *sets, uint32_t index)
{
    return sets + (size_t)index * graph->words;
}

static inline bool pipe_has(const uint64_t *set, uint32_t node)
{
    return set[node / 64] >> (node % 64) & 1;
}

static inline void pipe_put(uint64_t *set, uint32_t node)
{
    set[node / 64] |= UINT64_C(1) << (node % 64);
}

static inline bool pipe_is_before(const struct pipe_graph *graph, uint32_t first, uint32_t then)
{
    return pipe_has(pipe_set(graph, graph->before, then), first);
}

#endif
