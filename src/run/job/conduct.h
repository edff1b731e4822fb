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

#include "base/invariant.h"
#include "core/job.h"
#include "run/job/jobs.h"
#include "run/memory/kernel.h"
#include "run/memory/memory.h"
#include "run/place/place.h"
#include "run/threads/threads.h"

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

/* A range is halved at most so often, and one half is kept each time. */
#define SLOT_PARTS_MAX 65

enum slot_stage { STAGE_FREE, STAGE_RUNNING, STAGE_FINISHED };

struct lane_slot {
    struct run_lane *lane;
    enum slot_stage stage;
    struct job_claim claim;
    uint32_t buffer;
    char *ring; /* of a source: the one the unit is read from */
    muster_stream stream;
    bool has_stream;
    muster_block blocks[MUSTER_ARGS_MAX]; /* device memory of array arguments; generation 0: none */
    void *staged[MUSTER_ARGS_MAX]; /* pinned, for arrays that are not; own; NULL: copied as it is */
    muster_status given;           /* how giving it to the device went */
    bool is_refused;               /* `given` is what a host stage said */
    struct muster_error problem;   /* why it went wrong */
    muster_status ended;           /* how the stream got to its end */
    muster_status result;          /* how the kernel ended */
    uint64_t kicked_ns, given_ns, ended_ns;
    struct timing_mark *marks[TIMING_MARKS]; /* borrowed of the device; NULL: not timed */
    uint32_t marked;                         /* of them, recorded for this unit */
    struct time_span at_kernel;              /* 0: not known */
    uint64_t copied_bytes;                   /* a pipeline's: to and from the device */
    struct throughput_mark mark;             /* a pipeline's, in the device's figures */
    /*
     * Items of the unit that are being done: all, unless it is being found out which of them fail.
     * Then `parts` are those that are still to be looked at, each half of the one before.
     */
    struct muster_range part;
    struct muster_range parts[SLOT_PARTS_MAX];
    uint32_t part_count;
    bool is_broken_off; /* there were parts left when the job ended, or another attempt was first */
};

enum thread_state { THREAD_NONE, THREAD_INSIDE, THREAD_LEFT };

/*
 * A thread of a job. `is_away`: the thread is inside a driver call or user code, which may never
 * return, so the job's end waits for it at most `close_ns`. After that `is_given_up` is set: the
 * job ends without the thread, and everything that the thread may touch stays until it has left.
 */
struct job_thread {
    struct platform_thread thread;
    enum thread_state state; /* with the lock */
    /* Relaxed: what a thread did is published by the lock, which it takes when it is back. */
    _Atomic bool is_away, is_given_up;
};

/* One device working on one job. */
struct run_lane {
    struct muster_job *job;
    struct run_device
        *device; /* pinned until the job is over; there as long as the lane has streams */
    bool has_device_pin;
    uint32_t index;
    struct job_thread thread;
    /* Counts among the device's `stuck_calls`. Written with the lock; its thread reads it without. */
    _Atomic bool is_stuck;
    struct lane_slot *slots;              /* owns: `depth` */
    bool uses_host_memory;                /* kernels work on arrays and buffers themselves */
    muster_block arrays[MUSTER_ARGS_MAX]; /* then: input arrays and a source's ring, declared */
    char *declared_ring;                  /* which ring that is */
    muster_block *buffers;                /* and buffers, declared when first used; owns */
    bool has_pinned_buffers;              /* else: made known to the device for fast copies */
    char *pinned_ring;                    /* likewise; NULL: none */
    uint32_t running;
    uint64_t first_ns, last_ns, busy_since_ns, busy_ns;
    bool is_timed;
    struct time_cover held, at_kernel; /* the device had a whole unit; one was at its kernel */
    bool was_hung;                     /* as last told of in a trace */
    struct line *line;                 /* owns: of a job with a pipeline */
};

/* A device that hangs may go on reading at any time: what it reads from is left alone from then on. */
#define RINGS_MAX 8

/*
 * Items that a job's source has supplied, in a ring of bytes: item i lies at i x item size, modulo the
 * ring's. They stay until no attempt needs them any more.
 */
struct run_source {
    struct job_thread thread;
    char *rings[RINGS_MAX]; /* owns: the one that is filled, and those left to hung devices */
    uint32_t ring_count;
    char *ring;        /* the one that is filled; NULL: the job has no source */
    size_t ring_bytes; /* of each; a multiple of the page */
    size_t item_bytes;
    uint64_t capacity; /* items that may be claimed at a time; 0: the job has no source */
    uint64_t halo;     /* items around a unit that may be read too */
    uint64_t room; /* items the ring holds: beside those the halo behind, ahead, and past the end */
};

struct muster_job {
    struct muster *m;
    uint32_t number;                   /* in traces, from 1 */
    struct muster_job *next;           /* on one of the runtime's lists */
    struct muster_job_desc desc;       /* its pointers are to what follows */
    struct muster_run_options options; /* as this library has them */
    struct muster_arg args[MUSTER_ARGS_MAX];
    unsigned char values[MUSTER_ARG_BYTES_MAX]; /* of scalars */
    size_t out_offsets[MUSTER_ARGS_MAX];        /* of written arguments, within a buffer */
    size_t status_offset;                       /* of the items' statuses, likewise */
    enum job_policy policy;
    bool places; /* by `policy`; else lanes take */
    struct job_options core_options;
    struct job *core; /* owns */
    struct platform_condition changed;
    uint64_t changes; /* how often it was woken */
    struct job_thread conductor;
    struct run_lane *lanes; /* owns */
    uint32_t lane_count;
    uint32_t lanes_max;                     /* that there is room for, here and below */
    char (*lane_ids)[24];                   /* owns: for the report, when the lanes are gone */
    struct muster_job_device *lane_reports; /* owns: as they were last, and when the job was over */
    uint64_t unit_max; /* items a buffer holds; 0: any number, nothing is written */
    size_t buffer_bytes;
    char *memory; /* owns: pages of all buffers, NULL if nothing is written */
    size_t memory_bytes;
    uint32_t buffer_count;
    struct muster_kept *kept; /* owns: those that a sink may keep */
    struct muster_kept *kept_free;
    struct muster_kept *kept_now; /* the result that is with the sink, if that has kept it */
    uint64_t window;              /* items, from the options' items and bytes; 0: any number */
    uint32_t *free_buffers;       /* owns: a stack */
    uint32_t free_count;
    uint32_t *unit_buffers;       /* owns: whose results a unit's are, by unit */
    muster_status *unit_failures; /* owns: why a unit has no result, by unit */
    /* Of a job with a pipeline: */
    struct muster_pipeline *pipeline; /* NULL: it has a kernel and arguments */
    uint64_t part_items;              /* of one of the caller's units */
    uint32_t parts_max;               /* of the caller's units in one of the lanes' */
    bool has_fixed_units;
    size_t strides[MUSTER_BUFFERS_MAX]; /* bytes of one of the caller's units in each buffer */
    size_t *result_bytes;               /* owns: by buffer, output and part */
    struct workers *workers;            /* owns; NULL: there are no host steps */
    uint64_t delivery_bytes;            /* of the unit that was delivered last; the conductor's */
    struct run_source source;
    /* Items that were delivered as failed. The conductor's alone until the job is over. */
    struct muster_range failed[MUSTER_JOB_FAILED_MAX];
    size_t failed_count;
    uint64_t failed_items;
    struct muster_error first_failed; /* the first of them that was delivered */
    uint32_t outstanding;             /* slots that a device may still be working in */
    uint32_t users;                   /* who wait for it without owning it: it is not freed */
    uint32_t threads;                 /* that have not left, whether given up or not */
    uint32_t lane_threads;            /* of them, lanes */
    bool is_known;                    /* muster_start has given it out: the sink may cancel it */
    bool must_leave, is_over;
    bool is_ending;      /* a thread waits for the lanes: the conductor, or muster_job_wait */
    bool is_abandoned;   /* the runtime closes: lanes leave, whatever their devices still do */
    bool is_unwanted;    /* destroyed by its own callback: goes when it is over */
    uint64_t give_up_ns; /* when threads that are away are given up; UINT64_MAX: the job runs */
    struct kernel_hold *kernels; /* owns: those that attempts may run */
    uint64_t start_ns, end_ns;
    muster_status status;
    struct muster_error error;   /* what made the job fail */
    struct muster_report report; /* as it was when the job was over */
};

static inline uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Whether the argument is written, and so has a place in the buffers. */
static inline bool job_writes(const struct muster_arg *arg)
{
    return arg->kind == MUSTER_ARG_OUT || arg->kind == MUSTER_ARG_INOUT;
}

/* Whether it is an array of which a unit has a part. */
static inline bool job_cuts(const struct muster_arg *arg)
{
    return arg->kind == MUSTER_ARG_IN || arg->kind == MUSTER_ARG_SOURCE || job_writes(arg);
}

static inline char *job_buffer(const struct muster_job *job, uint32_t buffer)
{
    return job->memory ? job->memory + (size_t)buffer * job->buffer_bytes : NULL;
}

/* There is one for each unit that is not delivered and for each slot, so there always is one. */
static inline uint32_t job_take_buffer_locked(struct muster_job *job)
{
    INVARIANT(job->free_count > 0);
    return job->free_buffers[--job->free_count];
}

/* The statuses of a unit's items, NULL if nobody wants them. */
static inline muster_status *job_statuses(const struct muster_job *job, uint32_t buffer)
{
    return job->desc.each_status
               ? (muster_status *)(void *)(job_buffer(job, buffer) + job->status_offset)
               : NULL;
}

/* Something was finished, delivered, lost or ended. */
static inline void job_wake_locked(struct muster_job *job)
{
    job->changes++;
    platform_condition_wake_all(&job->changed);
}

/* Around what may never return. */
static inline void thread_goes_away(struct job_thread *thread)
{
    atomic_store_explicit(&thread->is_away, true, memory_order_relaxed);
}

static inline void thread_is_back(struct job_thread *thread)
{
    atomic_store_explicit(&thread->is_away, false, memory_order_relaxed);
}

/* The job went on without the thread: it touches nothing of the caller's any more. */
static inline bool thread_is_given_up(const struct job_thread *thread)
{
    return atomic_load_explicit(&thread->is_given_up, memory_order_relaxed);
}

/* How many bytes of an output count, of a pipeline's job. */
static inline size_t *job_result_bytes(const struct muster_job *job, uint32_t buffer,
                                       uint32_t output, uint32_t part)
{
    return &job->result_bytes[((size_t)buffer * MUSTER_ARGS_MAX + output) * job->parts_max + part];
}

/* Whether a GPU takes part. */
bool job_has_gpu(const struct muster_job *job);
/* Notes the failure that the job ended with; a later one does not count. */
void job_note_locked(struct muster_job *job, const struct muster_error *error);

/* Starts a thread of the job, which then counts among its `threads`. */
muster_status job_thread_start(struct muster_job *job, struct job_thread *thread,
                               void (*run)(void *), void *argument, const char *name,
                               struct muster_error *err);
/* The last thing that a thread of the job does with the lock. */
void job_thread_leave_locked(struct muster_job *job, struct job_thread *thread);
/* Calls the user's sink, if there is one; on the conductor. */
muster_status job_call_sink(struct muster_job *job, const struct muster_result *result);
/* The kernel stays loaded as long as the job's memory. */
muster_status job_hold_kernel(struct muster_job *job, struct muster_kernel *kernel,
                              struct muster_error *err);

/* kept.c */
muster_status kept_set_up(struct muster_job *job, struct muster_error *err);
void kept_free(struct muster_job *job);

/* source.c */
/* The size of the ring, once the core's options are known. */
void source_plan(struct muster_job *job);
muster_status source_set_up(struct muster_job *job, struct muster_error *err);
/* Starts the thread, if there is a source. */
muster_status source_start(struct muster_job *job, struct muster_error *err);
void source_free(struct muster_job *job);
/* Where in the ring an item lies, with the halo before it; the ring goes on for a second round. */
size_t source_offset(const struct run_source *source, uint64_t item);

/* lane.c */
/*
 * Claims a unit for a free slot and takes a buffer for its results: then the slot's stage is
 * STAGE_RUNNING. It is not if the unit was taken back at once. False: there is none.
 */
bool lane_claim_locked(struct run_lane *lane, struct lane_slot *slot);
/* Hands a finished slot to the core. Called with the lock, which is not held all the time. */
void lane_finish_locked(struct lane_slot *slot);
/* The lane's thread lets go of the lock for calls that may never return, and takes it again. */
void lane_unlock(struct run_lane *lane);
void lane_lock(struct run_lane *lane);
/* A driver call of the lane's does not return: its device is given nothing more until it does. */
void lane_note_stuck_locked(struct run_lane *lane);
/* Whether nothing of the lane's runs any more, or the runtime closes. */
bool lane_may_leave_locked(const struct run_lane *lane);
/* Takes what the lane needs on its device. On failure it can be torn down. */
muster_status lane_set_up(struct run_lane *lane, struct muster_error *err);
/* The lane's thread: claims, starts, finishes units until the job is over. */
void lane_run(void *lane);
/*
 * Gives back what the lane has, unless a hung device may still use it; may be called again. The
 * lane's thread does it, since driver calls may not return.
 */
void lane_tear_down(struct run_lane *lane);

/* trace.c: what a trace and the totals are told. */
void trace_kick_locked(struct lane_slot *slot, uint64_t now_ns);
void trace_attempt_locked(struct lane_slot *slot, enum job_end end, enum job_verdict verdict,
                          uint64_t now_ns);
/*
 * Of a pipeline's unit: a stage or a stall, on a stream counted from 1, or 0 on the host. `name` is cut
 * off where it is too long. Any thread, with or without the lock.
 */
void trace_step(const struct lane_slot *slot, enum muster_trace_kind kind, struct time_span span,
                uint32_t stream, muster_status status, const char *name);
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
/* Until `job_end_ns`, the end of the job or of what is reported of it. */
void loss_add_locked(struct loss *loss, const struct run_lane *lane, uint64_t items,
                     uint64_t job_end_ns);
void loss_report(const struct loss *loss, struct muster_report *report);

#endif
