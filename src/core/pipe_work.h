/*
 * How the scratch memory of a pipeline's derivation and proof is laid out.
 */
#ifndef CORE_PIPE_WORK_H
#define CORE_PIPE_WORK_H

#include "core/pipe_graph.h"

/*
 * Units that the proof unrolls: the ramp, and then each slot used again and again. Whatever waits
 * for whatever is at most the slots, or the lane's depth, apart; so what holds in these holds later.
 */
#define PIPE_UNITS(slots) (2 * (slots) + 2)

struct pipe_work {
    struct pipe_graph graph;
    struct pipe_plan plan;            /* that is being derived */
    uint32_t added[MUSTER_EDGES_MAX]; /* the user's edges in increasing distance */
    /* Where the search for circles stands: from a node back to all that may come before it. */
    uint64_t *after; /* a set for each node: what certainly comes behind it */
    uint64_t *seen;  /* one set */
    uint32_t *towards,
        *list;           /* for each node: the next on the way; nodes in the order of finding */
    uint8_t *hops;       /* for each node: how `towards` is behind it */
    uint32_t stuck_step; /* of a circle: what may be queued at the wrong place */
    void *memory;        /* for the graph's sets */
};

struct pipe_work *pipe_work_init(void *scratch, const struct pipe_declaration *declaration);

/* MUSTER_E_INVALID for what would lead outside of arrays. */
muster_status pipe_check_declaration(const struct pipe_declaration *declaration,
                                     struct muster_error *err);

/*
 * All that a lane keeps leads from the beginning of a step to that of a later one of its unit, so an
 * edge back within a unit closes a circle; and no other edge can, since none leads to an earlier
 * unit. MUSTER_E_ORDER: it is one.
 */
muster_status pipe_check_direction(const struct pipe_declaration *declaration,
                                   const struct pipe_edge *edge, struct muster_error *err);

muster_status pipe_verify_in(struct pipe_work *work, const struct pipe_declaration *declaration,
                             const struct pipe_plan *plan, struct pipe_edge *missing,
                             struct muster_error *err);

/* That no gate can wait for itself. Uses the graph and leaves another one in it. */
muster_status pipe_verify_progress(struct pipe_work *work, struct muster_error *err);

#endif
