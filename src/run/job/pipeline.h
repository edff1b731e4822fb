/*
 * A pipeline as the runtime keeps it, and a line: a pipeline at work on one lane.
 *
 * The lane's thread does everything that has to do with the device: it enqueues each step of each
 * unit when the plan's edges allow it (core/pipeline.h), oldest unit first, and looks which have
 * arrived. Host steps run on the job's workers. A lane's units are numbered; unit k works in slot
 * k modulo the buffer's slots, and records its events in instance k modulo the line's depth.
 *
 * Of the caller's units several may make up one of the lane's: those that a stage takes together, or
 * that share copies and launches because they are small. They lie one behind the other in each slot
 * and are called parts here.
 */
#ifndef RUN_PIPELINE_H
#define RUN_PIPELINE_H

#include "core/pipeline.h"
#include "run/job/conduct.h"

#define NAME_BYTES 32

/* Which plans a pipeline has. */
enum pipeline_plan_kind { PLAN_WITHOUT_GATES, PLAN_WITH_GATES, PLAN_ONE_BY_ONE, PLAN_KINDS };

struct muster_pipeline {
    struct muster *m;
    struct muster_pipeline *next; /* on the runtime's list */
    struct pipe_declaration declaration;
    struct muster_buffer buffers[MUSTER_BUFFERS_MAX]; /* names are copies, slots are set */
    struct muster_stage stages[MUSTER_STAGES_MAX];    /* likewise */
    char buffer_names[MUSTER_BUFFERS_MAX][NAME_BYTES];
    char stage_names[MUSTER_STAGES_MAX][NAME_BYTES];
    char stream_names[MUSTER_ROLES_MAX][NAME_BYTES];
    struct muster_edge *added; /* owns */
    uint32_t added_count;
    struct pipe_plan *plans[PLAN_KINDS]; /* own; NULL: not possible as `refusals` says */
    struct muster_error refusals[PLAN_KINDS];
    uint32_t input; /* PIPE_NONE: none */
    uint32_t outputs[MUSTER_ARGS_MAX];
    uint32_t output_count;
    uint32_t every;      /* caller's units that some stage takes together; 1: there is no such */
    bool may_merge;      /* several of the caller's units may be handled as one */
    bool has_host_steps; /* stages on "host" */
    uint32_t slots_max;
    uint32_t jobs; /* that have it */
    bool is_gone;  /* for its user: the last of them frees it */
};

/* A job has it until it is freed itself, which may be after its user has destroyed it. NULL is allowed. */
struct muster_pipeline *pipeline_hold(struct muster_pipeline *pipeline);
void pipeline_let_go(struct muster_pipeline *pipeline);

/* The plan for a device; NULL and why not, if there is none. */
const struct pipe_plan *pipeline_plan(const struct muster_pipeline *pipeline,
                                      const struct run_device *device, bool is_one_by_one,
                                      struct muster_error *err);
/* Whether the device can run all its kernels; else one that it cannot. */
bool pipeline_has_forms(const struct muster_pipeline *pipeline, const struct run_device *device,
                        struct muster_kernel **without);
void pipelines_destroy_all(struct muster *m);

/* pipeline_job.c: what a job with a pipeline has instead of a kernel and arguments. */
muster_status pipeline_check_job(struct muster *m, const struct muster_job_desc *desc,
                                 struct muster_error *err);
/* Bytes of an item in the input and the outputs, which wait on the host. */
uint64_t pipeline_window_bytes(const struct muster_pipeline *pipeline);
/* How many items a unit of the lanes may have, and how many of the caller's it is. */
void pipeline_plan_units(struct muster_job *job);
/* Where outputs lie in the job's buffers; false: larger than any memory. */
bool pipeline_lay_out(struct muster_job *job);
uint32_t pipeline_depth(const struct muster_job *job);
/* Whether something passes from unit to unit: one lane, each unit once. */
bool pipeline_carries(const struct muster_pipeline *pipeline);
/* How many devices can share its units. */
uint32_t pipeline_lanes_max(const struct muster_pipeline *pipeline);
/* The schedule, once the lanes are set up. */
void pipeline_report(const struct muster_job *job, struct muster_report *report);
/* Calls the sink for each of the caller's units. No lock is held. */
muster_status pipeline_deliver(struct muster_job *job, uint32_t buffer, struct muster_range range);

/* workers.c: threads for host steps. */
struct work {
    void (*run)(void *user);
    void *user;
    struct work *next;
};
struct workers;
/* They count among the job's threads. */
muster_status workers_start(struct muster_job *job, uint32_t count, struct workers **out,
                            struct muster_error *err);
/* Takes what has not begun too. Any thread. */
void workers_give(struct workers *workers, struct work *work);
/* They leave when all that was given has run. Called with or without the lock. NULL is allowed. */
void workers_dismiss(struct workers *workers);
/* The runtime closes without those that are away in user code; nothing more is begun. With the lock. */
void workers_detach(struct workers *workers);
/* After all have left. NULL is allowed. */
void workers_free(struct workers *workers);

/* line.c */

/* A buffer on one device. */
struct line_buffer {
    uint32_t slots;
    size_t slot_bytes;
    muster_block block;          /* of device memory; generation 0: none */
    struct muster_memory memory; /* of the block */
    char *host;                  /* pinned memory of the line; NULL: on the device, or the job's */
    bool is_input, is_output;    /* the job's own: ring or array, or its buffers */
};

/* What a callback is given. */
struct muster_unit {
    struct line *line;
    struct line_unit *of;
    uint32_t step;
    uint32_t first_part, part_count;
    _Atomic bool is_open; /* its callback is running */
};

enum host_state { HOST_IDLE, HOST_RUNNING, HOST_RETURNED };

struct line_unit {
    struct line *line;
    struct lane_slot *slot; /* of the lane, for what jobs of all kinds have in common */
    uint64_t number;
    uint32_t part_count;
    uint32_t next; /* the step to be enqueued or begun next; past the stages: all are given */
    bool is_void;  /* failed, or not wanted any more: what is left of it only records */
    bool asks;     /* the driver would not queue a wait of the next step: the host waits instead */
    _Atomic uint32_t host_state;
    struct work work;
    struct muster_unit unit;
    muster_status step_status; /* of the host step that returned */
    struct muster_error step_problem;
    uint64_t asked_ns;          /* when the next step was first held up; 0: it was not */
    uint32_t holder;            /* by which edge */
    struct time_span host_span; /* the host step that returned, where that is measured */
    struct run_event **events;  /* of each step; NULL: it does not record */
    bool *is_untold;            /* of each step: its record failed, the stream must be asked */
    bool *has_arrived;          /* of each step: seen */
    size_t *bytes;              /* of each buffer and part; SIZE_MAX: as declared */
    muster_status *results;     /* of each step's kernels */
    uint32_t *launches;         /* of each step */
};

struct edge_count {
    uint64_t records, waits, stall_ns;
};

struct line {
    struct run_lane *lane;
    struct muster_job *job;
    const struct muster_pipeline *pipeline;
    const struct pipe_plan *plan;
    uint32_t depth;
    struct run_stream *streams[MUSTER_ROLES_MAX]; /* pinned; NULL: not there */
    muster_stream handles[MUSTER_ROLES_MAX];
    struct line_buffer buffers[MUSTER_BUFFERS_MAX];
    struct line_unit *units; /* owns: `depth` */
    uint64_t oldest, next;   /* numbers: [oldest, next) are in flight */
    bool is_staged;          /* the input array is moved to pinned slots by workers */
    bool is_over;            /* the job: units in flight are not wanted any more */
    bool is_lost;            /* the device: an event has ended with that */
    bool must_renew;         /* a stream failed: when nothing is in flight they are all left */
    bool was_refused;        /* a wait or a record, once: counts are not what they should be */
    bool awaits_device;      /* something was asked of the device and is not there yet */
    uint32_t host_steps;     /* that workers have, or are about to have */
    bool is_held_up;         /* by them, as the core knows */
    uint64_t moved_ns;       /* when something last went on */
    uint64_t ended_ns;       /* when a unit last ended; 0: none has */
    uint64_t interval_ns;    /* between two such ends, on the average */
    uint64_t unit_ns;        /* how long a unit took, lately */
    uint64_t terminal;       /* bit for each step whose arrival ends a unit */
    uint64_t recording;      /* bit for each step that records */
    uint64_t behind[PIPE_STEPS_MAX];       /* of each step: bits of those that are over by then */
    uint32_t segment_last[PIPE_STEPS_MAX]; /* the last device step of each segment; 0: none */
    void *gates[MUSTER_EDGES_MAX];         /* own; of gate edges */
    struct edge_count counts[MUSTER_EDGES_MAX];
    struct account *account; /* owns; NULL: stalls of streams are not measured */
    void *memory;            /* owns: what the units point to */
    size_t memory_bytes;
};

muster_status line_set_up(struct run_lane *lane, struct muster_error *err);
void line_run(struct run_lane *lane);
/* Nothing of it is under way. */
void line_tear_down(struct run_lane *lane);
void line_free(struct run_lane *lane);
/* For a lane that has left at the runtime's end: its device turned out to have finished its units. */
void line_forget(struct run_lane *lane);

/* A part's place in a buffer; `count` parts from there. */
struct line_place {
    char *host;                         /* NULL: on the device */
    const struct muster_memory *memory; /* NULL: on the host */
    uint64_t offset;                    /* into the memory */
    size_t bytes, capacity;
};
struct line_place line_place(const struct line_unit *unit, uint32_t buffer, uint32_t first_part,
                             uint32_t part_count);
static inline size_t *line_bytes(const struct line_unit *unit, uint32_t buffer, uint32_t part)
{
    return &unit->bytes[buffer * unit->line->job->parts_max + part];
}

/* unit.c */
/* Runs the stage's callback for parts of the unit. */
muster_status unit_call(struct line_unit *unit, uint32_t step, uint32_t first_part,
                        uint32_t part_count, struct muster_error *err);
/* Launches the kernel of a stage that has no callback. */
muster_status unit_launch_stage(struct line_unit *unit, uint32_t step, uint32_t first_part,
                                uint32_t part_count, struct muster_error *err);

/*
 * account.c: when stages were at work and how long edges held them up, by timing events; where those
 * cannot be had, of host steps alone. Nothing is done unless the job has `account`.
 */
static inline bool account_is_on(const struct line *line)
{
    return line->job->options.account;
}
void account_set_up(struct line *line);
void account_begin_step(struct line_unit *unit, uint32_t step);
void account_end_step(struct line_unit *unit, uint32_t step);
/* The unit's host_span is what a host step took. */
void account_host_step(struct line_unit *unit, uint32_t step);
/* The host has held a step of the unit up for so long, because of the edge. */
void account_stall(const struct line_unit *unit, uint32_t edge, struct time_span span);
/* All of the unit has arrived. */
void account_unit(struct line_unit *unit);
/* The line has ended: whether each edge was recorded and waited for as the plan has it. */
void account_check(const struct line *line);
void account_free(struct line *line);
/* How often the plan has the edge recorded and waited for, for the units that the line has begun. */
static inline uint64_t account_waits(const struct line *line, const struct pipe_edge *edge)
{
    return line->next > edge->distance ? line->next - edge->distance : 0;
}

#endif
