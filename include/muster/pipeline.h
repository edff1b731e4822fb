/*
 * Pipelines: what happens to a unit on its way through a device, as buffers and as stages that say
 * what they read and write. From that Muster derives what must wait for what, shows it, and proves
 * before the first launch that everything is ordered and nothing can get stuck (docs/ordering.md).
 */
#ifndef MUSTER_PIPELINE_H
#define MUSTER_PIPELINE_H

#include <muster/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Most of each in a pipeline. Streams are counted without "host". */
#define MUSTER_BUFFERS_MAX 32
#define MUSTER_STAGES_MAX 32
#define MUSTER_ROLES_MAX 8
#define MUSTER_SLOTS_MAX 16
#define MUSTER_EDGES_MAX 256
/* Most units that a stage may take together (muster_stage.every). */
#define MUSTER_EVERY_MAX 64

enum muster_buffer_place { MUSTER_DEVICE = 1, MUSTER_HOST = 2 };

enum muster_buffer_flags {
    /* What one unit leaves in it the next one finds: one slot, zeroed at the start of the job. */
    MUSTER_CARRIED = 1,
    /* Where units come from: filled from the job's source or array. */
    MUSTER_INPUT = 2,
    /* What the sink is given. */
    MUSTER_OUTPUT = 4
};

/*
 * A buffer has room for one unit in each of its slots: its items x bytes_per_item, and bytes_fixed
 * more. If no buffer has MUSTER_INPUT, the only host buffer that stages read and none writes is the
 * input; if none has MUSTER_OUTPUT, host buffers that stages write and none reads are outputs.
 */
struct muster_buffer {
    size_t size;
    const char *name;
    enum muster_buffer_place place; /* host: pinned */
    size_t bytes_per_item, bytes_fixed;
    uint32_t slots; /* units that may be in it at a time; 0: 2 */
    uint32_t flags; /* enum muster_buffer_flags, or-ed */
};

enum muster_stage_flags {
    MUSTER_COPY = 1,    /* moves what it reads, one buffer, to what it writes, one other */
    MUSTER_CARRIES = 2, /* has state of its own that one unit leaves for the next */
    MUSTER_MERGES = 4   /* its callback may be given several units as if they were one */
};

struct muster_unit;

/* What a stage's callback may return beside a status: it had nothing to do for this unit. */
#define MUSTER_SKIPPED 1

/*
 * One step of the way of a unit; those of a pipeline are done in their order. Buffers are named by
 * their bits, 1 << index. A stage is one of
 * - a copy (MUSTER_COPY);
 * - a kernel without a callback: launched over the unit's items with the buffers it reads, then those
 *   it only writes, in the order of their indices, all of them on the device. In a pipeline with a
 *   grid a kernel that reads a buffer with a halo is given the cell before these;
 * - a callback on a stream, which only enqueues on that stream and joins what it forks
 *   (muster_unit_launch, muster_unit_native), and touches what the stage declares and nothing else;
 * - a callback on "host": runs on a thread of Muster's when what it reads has arrived, may take its
 *   time, and reaches host buffers only. The stages after it are enqueued when it returns. Units run
 *   beside each other and in any order, unless the stage has MUSTER_CARRIES.
 * A callback that fails fails its unit: MUSTER_E_FAILED has it run again, from the first stage and
 * maybe elsewhere, and so has anything that a device or its driver says; what else a host stage says
 * will stand. Where nothing is carried a unit may also be run on two devices at a time, of which one
 * result counts (no_copies, tries in the job's options).
 */
struct muster_stage {
    size_t size;
    const char *name;
    const char *stream; /* stages of one name share a stream; "host": none */
    uint64_t reads, writes;
    muster_status (*run)(struct muster_unit *unit, void *user);
    void *user;
    uint32_t flags;               /* enum muster_stage_flags, or-ed */
    struct muster_kernel *kernel; /* what it launches; devices that cannot run it take no part */
    /*
     * The stage is run once for this many units; the last run may have fewer. 0 or 1: once for each
     * unit. All stages that have a number have the same. The units lie one after the other in the
     * stage's buffers, a view's capacity divided by muster_unit_count apart; that distance is a multiple
     * of 16 where a buffer has both items and a fixed part.
     */
    uint32_t every;
};

/* "This before that", for what Muster cannot know: `to` of a unit waits for `from` of one before. */
struct muster_edge {
    size_t size;
    uint32_t from, to; /* stages */
    uint32_t distance; /* how many units before; 0: the same */
};

enum muster_schedule {
    MUSTER_SCHEDULE_AUTO = 0,
    MUSTER_SCHEDULE_PIPELINED,         /* as many units at a time as there is room for */
    MUSTER_SCHEDULE_GATED,             /* the same; devices wait for host stages by themselves */
    MUSTER_SCHEDULE_DRAIN_BEFORE_KICK, /* a host stage of one unit ends before the next begins */
    MUSTER_SCHEDULE_DRAIN_AFTER_KICK   /* one unit at a time */
};

struct muster_pipeline;
struct muster_arg;

/* The caller sets `size`; zero means the default everywhere. */
struct muster_pipeline_options {
    size_t size;
    const struct muster_edge *edges; /* added to those that are derived; copied */
    size_t edge_count;
    /* Not AUTO: this one or none. */
    enum muster_schedule schedule;
    /*
     * Items are the cells of a grid: one of MUSTER_GRID, MUSTER_GRID_3D and MUSTER_PICTURES (job.h);
     * copied. NULL: they are not. Units are then whole rows, planes or pictures.
     */
    const struct muster_arg *grid;
    /*
     * This many items of the input before a unit's first and after its last can be read too; with a grid,
     * this many cells in each direction, as in jobs. The device buffers that one MUSTER_COPY alone fills
     * from the input have the halo too; it lies before and after what a view counts as `bytes`. The
     * input itself is then read by copies alone, and shares no memory with the job's output.
     */
    uint64_t halo;
    enum muster_border border; /* with a halo: what lies outside the data */
};

/*
 * Checks, derives and proves. Names are copied; kernels and users of callbacks are borrowed until
 * muster_pipeline_destroy. `options` may be NULL. MUSTER_E_ORDER: something is not ordered, or could
 * get stuck; `err` names the stages and the buffer, or the circle.
 */
MUSTER_API muster_status
muster_pipeline_create(struct muster *m, const struct muster_buffer *buffers, size_t buffer_count,
                       const struct muster_stage *stages, size_t stage_count,
                       const struct muster_pipeline_options *options, struct muster_pipeline **out,
                       struct muster_error *err);

enum muster_print_format { MUSTER_PRINT_TEXT, MUSTER_PRINT_DOT };

/*
 * The pipeline with its edges, as a table for people or as a graph for Graphviz, as the given
 * schedule has them (AUTO: as a device that cannot wait for values would choose it). Written as far
 * as it fits, with a zero byte; `*needed` is how much it takes with that, and may be NULL.
 * MUSTER_E_CAPACITY: it did not fit. MUSTER_E_ORDER: the schedule is not possible.
 */
MUSTER_API muster_status muster_pipeline_print(const struct muster_pipeline *pipeline,
                                               enum muster_schedule schedule,
                                               enum muster_print_format format, char *text,
                                               size_t capacity, size_t *needed,
                                               struct muster_error *err);

/* Its jobs must be over; they need not be destroyed. NULL is allowed. */
MUSTER_API void muster_pipeline_destroy(struct muster_pipeline *pipeline);

enum muster_edge_kind {
    MUSTER_EDGE_EVENT = 1, /* a stream waits for another */
    MUSTER_EDGE_ENQUEUE,   /* the host enqueues the one after the other */
    MUSTER_EDGE_ARRIVAL,   /* a host step begins when a stream has got there */
    MUSTER_EDGE_RULE,      /* the host enqueues or begins it when a host step has ended */
    MUSTER_EDGE_GATE /* a stream waits for a counter that the host sets at the end of a step */
};

/* An edge as a job has used it. The caller sets `size`. */
struct muster_edge_report {
    size_t size;
    char from[32], to[32], buffer[32]; /* "source" and "sink" beside stages; "" : no buffer */
    enum muster_edge_kind kind;
    uint32_t distance;
    uint64_t records, waits; /* how often the first had got there, and the second asked for it */
    uint64_t stall_ns;       /* that the second was held up by this one; 0 unless it was measured */
    int is_dead;             /* recorded, and never waited for, though there were units enough */
    /* What the plan has for the units that were begun; where nothing failed the counts are that. */
    uint64_t expected_records, expected_waits;
};

struct muster_job;

/*
 * What became of the edges of a pipeline's job, summed over its devices; `*count` as in
 * muster_device_list. Stalls are measured where the job's options say `account`, and counts that
 * are not what the plan has, a mistake of Muster's, are logged there. After the job.
 */
MUSTER_API muster_status muster_job_edges(struct muster_job *job, struct muster_edge_report *out,
                                          size_t capacity, size_t *count, struct muster_error *err);

/*
 * Where a unit's part of a buffer is. Valid within the callback that was given the unit. The caller
 * sets `size`.
 */
struct muster_view {
    size_t size;
    void *host;       /* of a host buffer, and where the device works on host memory; else NULL */
    uint64_t address; /* the device's address; 0 where memory has none (OpenCL) */
    void *object;     /* the vendor's memory object, NULL where there is none */
    uint64_t offset;  /* into the object */
    size_t bytes;     /* that count; as set by muster_unit_set_bytes */
    size_t capacity;  /* that there is room for */
    uint64_t generation; /* of the slot: how often it has been used */
};

/*
 * Within a stage's callback only, for the unit it was given; later calls give MUSTER_E_STALE.
 * MUSTER_E_INVALID: the stage does not declare the buffer.
 */
MUSTER_API muster_status muster_unit_view(struct muster_unit *unit, uint32_t buffer,
                                          struct muster_view *view, struct muster_error *err);
/* From here on `bytes` of the unit's part count: copies and the sink see no more. */
MUSTER_API muster_status muster_unit_set_bytes(struct muster_unit *unit, uint32_t buffer,
                                               size_t bytes, struct muster_error *err);
/* Which items it is; of the whole batch in a stage that takes several units. */
MUSTER_API void muster_unit_range(const struct muster_unit *unit, uint64_t *begin, uint64_t *end);
/* How many units a stage that takes several was given. */
MUSTER_API uint32_t muster_unit_count(const struct muster_unit *unit);
/* The vendor's stream (CUstream, cl_command_queue); NULL in a host stage. */
MUSTER_API void *muster_unit_native(const struct muster_unit *unit);
/* The device the unit is on; its index and generation are 0 in a host stage. */
MUSTER_API muster_device muster_unit_device(const struct muster_unit *unit);

/* An argument of a launch in a stage: a buffer that it declares, a value, or resident data. */
struct muster_unit_arg {
    size_t size;
    uint32_t buffer;   /* if `bytes` is 0 and there is no data */
    const void *value; /* copied by the call */
    size_t bytes;
    muster_data data; /* generation 0: none */
    int is_cell;      /* not 0: the cell of the unit's first item, for a struct muster_cell */
};
#ifdef __cplusplus
}
inline struct muster_unit_arg muster_unit_arg_buffer(uint32_t buffer)
{
    struct muster_unit_arg arg = {};
    arg.size = sizeof arg;
    arg.buffer = buffer;
    return arg;
}
inline struct muster_unit_arg muster_unit_arg_value(const void *value, size_t bytes)
{
    struct muster_unit_arg arg = muster_unit_arg_buffer(0);
    arg.value = value;
    arg.bytes = bytes;
    return arg;
}
inline struct muster_unit_arg muster_unit_arg_data(muster_data data)
{
    struct muster_unit_arg arg = muster_unit_arg_buffer(0);
    arg.data = data;
    return arg;
}
inline struct muster_unit_arg muster_unit_arg_cell()
{
    struct muster_unit_arg arg = muster_unit_arg_buffer(0);
    arg.is_cell = 1;
    return arg;
}
#define MUSTER_UNIT_CELL muster_unit_arg_cell()
#define MUSTER_VIEW(buffer_) muster_unit_arg_buffer(buffer_)
#define MUSTER_UNIT_VALUE(variable) muster_unit_arg_value(&(variable), sizeof(variable))
#define MUSTER_UNIT_DATA(data_) muster_unit_arg_data(data_)
extern "C" {
#else
/* clang-format off */
#define MUSTER_VIEW(buffer_) { .size = sizeof(struct muster_unit_arg), .buffer = (buffer_) }
#define MUSTER_UNIT_VALUE(variable) { .size = sizeof(struct muster_unit_arg), .value = &(variable), .bytes = sizeof(variable) }
#define MUSTER_UNIT_DATA(data_) { .size = sizeof(struct muster_unit_arg), .data = (data_) }
#define MUSTER_UNIT_CELL { .size = sizeof(struct muster_unit_arg), .is_cell = 1 }
/* clang-format on */
#endif

/* Launches the kernel over `items` on the stage's stream: [0, items), as in jobs. */
MUSTER_API muster_status muster_unit_launch(struct muster_unit *unit, struct muster_kernel *kernel,
                                            uint64_t items, const struct muster_unit_arg *args,
                                            size_t arg_count, struct muster_error *err);

#ifdef __cplusplus
}
#endif

#endif
