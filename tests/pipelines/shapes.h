/*
 * A library of pipelines of every shape that Muster runs, each with a serial run of the same work in
 * plain loops, so that a test can compare bytes.
 *
 * Items are words. Kernels have two forms: a C function, which runs on cpu and sim devices and is seen
 * by sanitizers, and portable source for the others; both are made of the same text. They take long
 * enough that several units are under way at a time, and unequally long.
 *
 * A run is a shape in a runtime: its kernels, its pipeline and the record of what its sink was given.
 * Tests may have it fail or dawdle at a stage of their choice.
 */
#ifndef PIPELINES_SHAPES_H
#define PIPELINES_SHAPES_H

#include <muster/muster.h>
#include <stdatomic.h>
#include <stdbool.h>

#define SHAPE_BUFFERS_MAX 8
#define SHAPE_STAGES_MAX 8
#define SHAPE_OUTPUTS_MAX 2
#define SHAPE_UNITS_MAX 512
/* The places of a run that are no stage. */
#define SHAPE_SOURCE UINT32_MAX
#define SHAPE_SINK (UINT32_MAX - 1)
#define SHAPE_NOWHERE (UINT32_MAX - 2)

enum shape_kernel {
    SHAPE_MIX,
    SHAPE_UPDATE,
    SHAPE_JOIN,
    SHAPE_CARRY,
    SHAPE_APPLY,
    SHAPE_SHRINK,
    SHAPE_PLACE,
    SHAPE_GENERATE,
    SHAPE_KERNEL_COUNT
};

struct shape_run;

/* A stage's step; beside it only the number of its kernel differs from struct muster_stage. */
struct shape_stage {
    const char *name, *stream;
    uint64_t reads, writes;
    uint32_t flags;
    int kernel; /* enum shape_kernel, or -1 */
    muster_status (*run)(struct muster_unit *unit, void *user);
    uint32_t every;
};

/* What a sink was given, or should have been: the outputs of all units, one behind the other. */
struct shape_record {
    unsigned char *bytes[SHAPE_OUTPUTS_MAX];
    size_t count[SHAPE_OUTPUTS_MAX], capacity;
    size_t sizes[SHAPE_UNITS_MAX][SHAPE_OUTPUTS_MAX];
    uint64_t ends[SHAPE_UNITS_MAX]; /* the items of each unit end there */
    uint32_t units;
};

struct shape {
    const char *name, *what;
    uint64_t items, unit_items;
    struct muster_buffer buffers[SHAPE_BUFFERS_MAX];
    struct shape_stage stages[SHAPE_STAGES_MAX];
    uint32_t output_count;
    struct muster_edge added; /* an edge of the user's, if its distance is not 0 */
    bool has_no_input;
    bool carries;    /* from unit to unit: one device, in order */
    uint32_t keeps;  /* results that its sink keeps */
    uint32_t merges; /* its units are small and may be merged */
    /* The serial run: unit after unit, in plain loops. */
    void (*serial)(const struct shape *shape, const uint32_t *in, struct shape_record *record);
};

extern const struct shape *const shapes[];
extern const size_t shape_count;

/* NULL if there is none of that name. */
const struct shape *shape_find(const char *name);
uint32_t shape_stage_count(const struct shape *shape);
uint32_t shape_buffer_count(const struct shape *shape);
uint32_t shape_units(const struct shape *shape);

struct shape_user {
    struct shape_run *run;
    uint32_t stage;
};

struct shape_run {
    const struct shape *shape;
    struct muster *m;
    struct muster_run_options how; /* of the next job */
    struct muster_kernel *kernels[SHAPE_KERNEL_COUNT];
    struct muster_pipeline *pipeline;
    struct shape_user users[SHAPE_STAGES_MAX];
    uint32_t *in; /* all items */
    struct shape_record expected, got;
    /* Where something goes wrong, when the item is there, and what. */
    uint32_t fails; /* a stage, or one of the places above */
    uint64_t fails_at;
    muster_status failure;
    /* Where it dawdles, and how long. */
    uint32_t dawdles;
    uint64_t dawdle_ns;
    struct muster_job
        *job; /* cancelled by the sink, if `fails` is the sink and `failure` MUSTER_OK */
    _Atomic uint32_t calls[SHAPE_STAGES_MAX], units_seen[SHAPE_STAGES_MAX];
    _Atomic uint32_t wrong; /* what stages and sink noticed */
    _Atomic uint64_t first_wrong;
    uint64_t source_next;
    /* State of the stages' own. */
    uint32_t chain, hidden;
    struct muster_kept *kept[SHAPE_UNITS_MAX];
    uint32_t kept_first, kept_count;
};

enum shape_forms { SHAPE_ALL_FORMS, SHAPE_PORTABLE_ONLY };

/* A status as muster_pipeline_create gives it; nothing is left behind then. */
muster_status shape_open(struct muster *m, const struct shape *shape, enum shape_forms forms,
                         enum muster_schedule schedule, struct shape_run **out,
                         struct muster_error *err);
void shape_close(struct shape_run *run);

enum shape_input { SHAPE_FROM_SOURCE, SHAPE_FROM_ARRAY };

/* Forgets what an earlier job has delivered. `devices` as in the options of a job; may be NULL. */
struct muster_job_desc shape_job(struct shape_run *run, enum shape_input input,
                                 const char *devices);

/* What the sink has kept must be as it was; before the job is destroyed. */
void shape_release_kept(struct shape_run *run);

/* The units that were delivered are the first of the serial run, byte for byte; else says why not. */
bool shape_is_prefix(const struct shape_run *run, char *why, size_t capacity);
/* The same, and all of them. */
bool shape_is_right(const struct shape_run *run, char *why, size_t capacity);

#endif
