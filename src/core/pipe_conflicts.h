/*
 * Which steps of a pipeline touch the same memory, one of them writing: what has to be ordered.
 *
 * A conflict stands for all pairs "`from` of unit u, `to` of unit u + distance". Distances are 0 and
 * the slots of the buffer. That suffices: a pair twice as far apart is ordered through the unit in
 * between, since whichever of the two writes conflicts with itself there.
 */
#ifndef CORE_PIPE_CONFLICTS_H
#define CORE_PIPE_CONFLICTS_H

#include "core/pipeline.h"

/* Where a walk over all conflicts is; zeroed and given the declaration by pipe_conflicts_begin. */
struct pipe_conflicts {
    uint64_t reads[PIPE_STEPS_MAX], writes[PIPE_STEPS_MAX];
    uint64_t carrying;                           /* steps with state of their own */
    uint64_t reused_after[MUSTER_SLOTS_MAX + 1]; /* buffers by their slots; at 0 all of them */
    uint32_t steps, distance_max;
    uint32_t distance, from;
    int64_t ahead; /* to - from */
};

void pipe_conflicts_begin(struct pipe_conflicts *conflicts,
                          const struct pipe_declaration *declaration);

/*
 * The next in increasing distance in the program: by units, then by steps. Sets from, to, distance,
 * buffer (the first of those that the two share) and hazard. False: that was all.
 */
bool pipe_conflicts_next(struct pipe_conflicts *conflicts, struct pipe_edge *out);

/* Whether the ends of `a` are farther apart in the program than those of `b`. */
bool pipe_is_farther(const struct pipe_edge *a, const struct pipe_edge *b);

/* One of the user's edges, as if it were a conflict. */
struct pipe_edge pipe_added_edge(const struct pipe_declaration *declaration, uint32_t index);

/* Slots of any buffer, at most. */
uint32_t pipe_slots_max(const struct pipe_declaration *declaration);

#endif
