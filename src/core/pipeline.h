/*
 * What must wait for what in a pipeline: edges derived from what stages read and write, per
 * schedule, and the proof that they suffice. Pure: memory is given, nothing is printed.
 *
 * Steps are numbered: 0 is the source, 1 to n are the stages, n + 1 is the sink; the source writes
 * inputs and the sink reads outputs. A host step runs on a thread, a device step is enqueued on a
 * stream by the lane's thread and executed later. Host steps end segments: what follows in the unit
 * is enqueued or begun when the step has ended.
 *
 * A lane's units are numbered from 0, and unit u works in slot u modulo the buffer's slots. In the
 * model each device step of each unit is two nodes, its enqueueing and its execution, and each host
 * step is one. What the lane always keeps (docs/ordering.md lists it) and the plan's edges order
 * them; conflicts are pairs of accesses to one slot of one buffer, of which one writes.
 */
#ifndef CORE_PIPELINE_H
#define CORE_PIPELINE_H

#include <muster/pipeline.h>
#include <stdbool.h>

#define PIPE_NONE UINT32_MAX
#define PIPE_STEPS_MAX (MUSTER_STAGES_MAX + 2)
/* The stream of a host step. */
#define PIPE_HOST UINT32_MAX
#define PIPE_REASON_MAX 208

struct pipe_buffer {
    const char *name; /* borrowed */
    uint32_t slots;   /* at least 1; 1 if carried */
    bool is_host, is_carried, is_input, is_output;
    bool is_unshared; /* a unit has a place of its own for as long as it is under way */
};

struct pipe_stage {
    const char *name;
    uint32_t stream; /* index of stream_names, or PIPE_HOST */
    uint64_t reads, writes;
    bool carries;
};

struct pipe_declaration {
    struct pipe_buffer buffers[MUSTER_BUFFERS_MAX];
    uint32_t buffer_count;
    struct pipe_stage stages[MUSTER_STAGES_MAX];
    uint32_t stage_count;
    const char *streams[MUSTER_ROLES_MAX];
    uint32_t stream_count;
    const struct muster_edge *added; /* in stage numbers, without source and sink; borrowed */
    uint32_t added_count;
};

enum pipe_hazard {
    PIPE_READ_AFTER_WRITE,
    PIPE_WRITE_AFTER_READ,
    PIPE_WRITE_AFTER_WRITE,
    PIPE_STATE, /* a stage that carries state of its own */
    PIPE_ADDED, /* the user's */
    PIPE_ISSUED /* an enqueue edge: the record that a wait is to bind to must have been issued */
};

struct pipe_edge {
    uint32_t from, to; /* steps */
    uint32_t distance; /* units from the one to the other */
    uint32_t buffer;   /* that it guards; PIPE_NONE: none */
    enum muster_edge_kind kind;
    enum pipe_hazard hazard;
    uint32_t alias; /* an earlier edge that waits for the same record; PIPE_NONE: none */
};

struct pipe_plan {
    enum muster_schedule schedule;    /* never AUTO */
    uint32_t step_count;              /* stages, source and sink */
    uint32_t segment[PIPE_STEPS_MAX]; /* of each step; a host step belongs to the one it ends */
    struct pipe_edge edges[MUSTER_EDGES_MAX];
    uint32_t edge_count;
    bool needs_gates;             /* some edge is a gate */
    bool carries;                 /* something passes from unit to unit: one lane, each unit once */
    char reason[PIPE_REASON_MAX]; /* why this schedule */
};

/* How many bytes pipe_derive and pipe_verify want to work in, aligned as for any type. */
size_t pipe_scratch_bytes(const struct pipe_declaration *declaration);

/*
 * Derives the edges for a schedule and proves them. With AUTO it is chosen, and `has_gates`, which
 * counts only then, says whether the device can wait for a value. Without any one of the derived
 * edges pipe_verify fails; the user's are all kept. Gates, and the schedules that are named after
 * what they do about them, are about a host stage that a device step of the *next* unit waits for;
 * where it is one of several units later, a rule of the host is as good and all is pipelined.
 * `out` is written on success only. MUSTER_E_ORDER: not possible, with the two steps and the buffer,
 * or with the circle; MUSTER_E_CAPACITY: too many edges.
 */
muster_status pipe_derive(const struct pipe_declaration *declaration, enum muster_schedule schedule,
                          bool has_gates, struct pipe_plan *out, void *scratch,
                          struct muster_error *err);

/*
 * Proves order and progress of a plan, derived or given, over ramp, steady state and partial drain.
 * On failure `missing` (which may be NULL) is the edge that would order the first conflict that is
 * not ordered, with from PIPE_NONE if it is progress that fails. The user's edges count as conflicts.
 */
muster_status pipe_verify(const struct pipe_declaration *declaration, const struct pipe_plan *plan,
                          void *scratch, struct pipe_edge *missing, struct muster_error *err);

/*
 * How many units a lane holds at most: twice the most slots of any buffer. The proof of gates counts
 * on it: the unit that comes this many later does not begin its first stage before all stages of this
 * one have ended. Fewer are as safe, more are not. It is also how many records of a step have to be
 * kept.
 */
uint32_t pipe_depth(const struct pipe_declaration *declaration);

/* "source", a stage's name, or "sink". */
const char *pipe_step_name(const struct pipe_declaration *declaration, uint32_t step);
bool pipe_is_host(const struct pipe_declaration *declaration, uint32_t step);
/* "pipelined", "drain-before-kick" ... */
const char *pipe_schedule_name(enum muster_schedule schedule);
/* How one step waits for another, `distance` units before: the kind of edge for that. */
enum muster_edge_kind pipe_edge_kind(const struct pipe_declaration *declaration,
                                     enum muster_schedule schedule, uint32_t from, uint32_t to,
                                     uint32_t distance);

/* As muster_pipeline_print; gives how many characters it takes, without the zero byte. */
size_t pipe_print(const struct pipe_declaration *declaration, const struct pipe_plan *plan,
                  enum muster_print_format format, char *text, size_t capacity);

#endif
