/*
 * A job as it runs: the core's decisions (core/job.h) carried out by a lane thread for each device
 * and a conductor, which delivers. All of it is guarded by the runtime's lock; `changed` is woken
 * whenever something was finished, delivered, lost or ended.
 *
 * An attempt works in a slot of its lane and writes its results into a buffer of the job. When it is
 * accepted the buffer passes to the unit until that is delivered; otherwise it comes back when the
 * device has really finished with it. There is one for each unit that may be undelivered and one
 * for each slot, so that there is always one: no more units than that can hold one.
 */
#ifndef RUN_CONDUCT_H
#define RUN_CONDUCT_H

#include "core/job.h"
#include "run/runtime.h"

/* Timing events around a unit's kernel: before it, behind it, and at the end of the unit. */
#define TIMING_MARKS 3u
struct timing_mark;

struct time_span {
    uint64_t begin_ns, end_ns;
};

/* How much of the time spans cover together, which come in the order in which they end. */
struct time_cover {
    uint64_t ns, until_ns;
};

enum slot_stage { STAGE_FREE, STAGE_RUNNING, STAGE_FINISHED };

struct lane_slot {
    struct run_lane *lane;
    enum slot_stage stage;
    struct job_claim claim;
    uint32_t buffer;
    muster_stream stream;
    bool has_stream;
    muster_block blocks[MUSTER_ARGS_MAX]; /* device memory of array arguments; generation 0: none */
    muster_status given;                  /* how giving it to the device went */
    struct muster_error problem;          /* why it went wrong */
    muster_status ended;                  /* how the stream got to its end */
    muster_status result;                 /* how the kernel ended */
    uint64_t kicked_ns, given_ns, ended_ns;
    struct timing_mark *marks[TIMING_MARKS]; /* borrowed of the device; NULL: not timed */
    uint32_t marked;                         /* of them, recorded for this unit */
    struct time_span at_kernel;              /* 0: not known */
};

/* One device working on one job. */
struct run_lane {
    struct muster_job *job;
    struct run_device *device; /* pinned until the lane is torn down */
    uint32_t index;
    struct platform_thread thread;
    struct lane_slot *slots;              /* owns: `depth` */
    bool uses_host_memory;                /* kernels work on arrays and buffers themselves */
    muster_block arrays[MUSTER_ARGS_MAX]; /* then: input arrays, declared */
    muster_block *buffers;                /* and buffers, declared when first used; owns */
    uint32_t running;
    uint64_t first_ns, last_ns, busy_since_ns, busy_ns;
    bool is_timed;
    struct time_cover held, at_kernel; /* the device had a whole unit; one was at its kernel */
    bool was_hung;                     /* as last told of in a trace */
};

struct muster_job {
    struct muster *m;
    uint32_t number;         /* in traces, from 1 */
    struct muster_job *next; /* on one of the runtime's lists */
    struct muster_job_desc desc;
    struct muster_arg args[MUSTER_ARGS_MAX];
    unsigned char values[MUSTER_ARG_BYTES_MAX]; /* of scalars */
    size_t out_offsets[MUSTER_ARGS_MAX];        /* of written arguments, within a buffer */
    struct job_options core_options;
    struct job *core; /* owns */
    struct platform_condition changed;
    struct platform_thread conductor;
    struct run_lane *lanes; /* owns */
    uint32_t lane_count;
    char lane_ids[MUSTER_JOB_DEVICES_MAX][24]; /* for the report, when the lanes are gone */
    uint64_t unit_max; /* items a buffer holds; 0: any number, nothing is written */
    size_t buffer_bytes;
    char *memory; /* owns: pages of all buffers, NULL if nothing is written */
    uint32_t buffer_count;
    uint32_t *free_buffers; /* owns: a stack */
    uint32_t free_count;
    uint32_t *unit_buffers; /* owns: whose results a unit's are, by unit */
    uint32_t outstanding;   /* slots that a device may still be working in */
    uint32_t lanes_inside;  /* lanes whose thread has not left */
    bool is_known;          /* muster_start has given it out: the sink may cancel it */
    bool must_leave, is_over;
    bool has_given_up;   /* lanes leave, whatever their devices still do */
    uint64_t give_up_ns; /* when that is, UINT64_MAX: when the core finds them hung */
    uint64_t start_ns, end_ns;
    muster_status status;
    struct muster_error error; /* what made the job fail */
};

/* Whether the argument is written, and so has a place in the buffers. */
static inline bool job_writes(const struct muster_arg *arg)
{
    return arg->kind == MUSTER_ARG_OUT || arg->kind == MUSTER_ARG_INOUT;
}

static inline char *job_buffer(const struct muster_job *job, uint32_t buffer)
{
    return job->memory ? job->memory + (size_t)buffer * job->buffer_bytes : NULL;
}

/* Notes the failure that the job ended with; a later one does not count. */
void job_note_locked(struct muster_job *job, const struct muster_error *error);

/* lane.c */
/* Takes what the lane needs on its device. On failure it can be torn down. */
muster_status lane_set_up(struct run_lane *lane, struct muster_error *err);
/* The lane's thread: claims, starts, finishes units until the job is over. */
void lane_run(void *lane);
/* Gives back what the lane has, unless a hung device may still use it; may be called again. */
void lane_tear_down(struct run_lane *lane);

/* trace.c: what a trace and the totals are told. */
void trace_kick_locked(struct lane_slot *slot, uint64_t now_ns);
void trace_attempt_locked(struct lane_slot *slot, enum job_end end, enum job_verdict verdict,
                          uint64_t now_ns);
/* The core has looked for what is overdue. */
void trace_look_locked(struct muster_job *job);
/* `begin_ns` is of trace_clock. */
void trace_delivery_locked(struct muster_job *job, struct muster_range range, uint64_t begin_ns,
                           muster_status status);
void trace_job_locked(const struct muster_job *job);

/* loss.c: where a job's time went. */
/* Timing is for the report alone: where it cannot be had the lane does without. */
void timing_set_up(struct run_lane *lane);
void timing_give_back(struct lane_slot *slot);
/* Records the slot's mark of that number behind what its stream was given; they come in order. */
void timing_mark(struct lane_slot *slot, uint32_t which);
/* After the unit's end, with no lock held. */
void timing_read(struct lane_slot *slot);
void loss_attempt_locked(struct lane_slot *slot);

/* Sums over lanes, each weighted with the rate at which the lane works when it does. */
struct loss {
    double rate; /* items in a nanosecond */
    double startup, starved, tail, transfer, overhead;
    uint64_t items;
};
void loss_add_locked(struct loss *loss, const struct run_lane *lane, uint64_t items);
void loss_report(const struct loss *loss, struct muster_report *report);

#endif
