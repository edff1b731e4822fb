/*
 * A pipeline as the runtime keeps it, and what jobs have of one.
 */
#ifndef RUN_PIPELINE_H
#define RUN_PIPELINE_H

#include "core/pipeline.h"
#include "run/job/job.h"

#define NAME_BYTES LANE_NAME_BYTES

/* Which plans a pipeline has. */
enum pipeline_plan_kind { PLAN_WITHOUT_GATES, PLAN_WITH_GATES, PLAN_ONE_BY_ONE, PLAN_KINDS };

struct muster_pipeline {
    struct muster *m;
    struct muster_pipeline *next; /* on the runtime's list */
    uint64_t number;              /* as kernel_number */
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
    struct grid grid;                   /* what the items are */
    uint64_t with_halo;                 /* buffers, bits: the input and copies of it */
    uint64_t halos[MUSTER_BUFFERS_MAX]; /* of each buffer, in items */
    enum muster_border border;
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
bool pipeline_has_forms_locked(const struct muster_pipeline *pipeline,
                               const struct run_device *device, struct muster_kernel **without);
void pipelines_destroy_all(struct muster *m);

/* halo.c */
/* The grid and the buffers' halos, once the buffers and stages were read. */
muster_status pipeline_set_halos(struct muster_pipeline *pipeline,
                                 const struct muster_pipeline_options *options,
                                 struct muster_error *err);
/* Whether the stage's kernel is given the cell before its buffers. */
bool pipeline_gives_cell(const struct muster_pipeline *pipeline, const struct muster_stage *stage);
/* What the job has of it, for its own arrays. */
muster_status pipeline_read_halo(struct muster_job *job, struct muster_error *err);

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
/* Where each buffer lies and what each stage does, on the device. */
muster_status pipeline_compile(struct muster_job *job, const struct run_device *device,
                               struct lane_plan *plan, struct muster_error *err);
/* The schedule, once the lanes are set up. */
void pipeline_report(const struct muster_job *job, struct muster_report *report);

#endif
