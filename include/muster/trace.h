/*
 * What a runtime does, as it is seen from outside: exact totals, and a trace of what ran where and when
 * that Perfetto (ui.perfetto.dev) and chrome://tracing show. A simulation (simulate.h) gives the
 * same events, and one writer makes files of both.
 */
#ifndef MUSTER_TRACE_H
#define MUSTER_TRACE_H

#include <muster/job.h>
#include <muster/runtime.h>

#ifdef __cplusplus
MUSTER_SAME_NAMES_BEGIN
extern "C" {
#endif

enum muster_trace_kind {
    MUSTER_TRACE_UNIT = 1,     /* a span: a device with one run of a unit, from kick to finish */
    MUSTER_TRACE_DELIVERY = 2, /* a span: results of `range` written to arrays and the sink */
    MUSTER_TRACE_JOB = 3,      /* a span: a job, from start to last delivery or failure */
    MUSTER_TRACE_TASK = 4,     /* a span: a task on a thread, or one run of one with a kernel */
    MUSTER_TRACE_DATA = 5,     /* data was given to a device to be kept there */
    MUSTER_TRACE_PICK = 6,     /* muster_pick chose the device */
    MUSTER_TRACE_DEVICE_LOST = 7,
    MUSTER_TRACE_DEVICE_HUNG = 8, /* a job or a task gave it up: it had not answered in time */
    MUSTER_TRACE_DEVICE_BACK = 9, /* it was heard of again, and is tried again */
    /* Of a pipeline whose job has `account`: */
    MUSTER_TRACE_STAGE = 10, /* a span: one stage at work on one unit */
    MUSTER_TRACE_STALL = 11  /* a span: a stage held up by an edge, for 5 us or longer */
};

enum muster_trace_outcome {
    MUSTER_TRACE_DONE = 0,
    MUSTER_TRACE_LATE = 1,   /* another run of the unit was first: dropped */
    MUSTER_TRACE_FAILED = 2, /* `status` says how */
    MUSTER_TRACE_LOST = 3    /* the device went, or was given up, with it */
};

/* One thing that happened. What a kind has no use for is 0. Who makes the event sets `size`. */
struct muster_trace_event {
    size_t size;
    enum muster_trace_kind kind;
    enum muster_trace_outcome outcome;
    uint64_t begin_ns, end_ns; /* on the monotonic clock, or virtual; equal: not a span */
    struct muster_range range; /* items */
    uint64_t bytes;            /* a unit: copied to and from the device; data: its size */
    uint32_t device;           /* as numbered by the runtime or the scenario */
    uint32_t job;              /* counted from 1 */
    uint32_t thread; /* a task: the thread, counted from 1; 0: on the device; a stage, a stall: the
                        stream, counted from 1; 0: on the host */
    muster_status status;  /* of the unit, the delivery, the job or the task */
    int is_retry, is_copy; /* a unit, a kernel's task: not its first run; a unit: beside another */
    char name[48];         /* a stage: its name; a stall: "from -> to, buffer"; cut off if longer */
};

/* The caller sets `size`; zero means the default. */
struct muster_trace_options {
    size_t size;
    uint64_t capacity; /* events that are kept, 128 bytes each; 0: 65,536 */
};

/*
 * Begins to record; `options` may be NULL. All memory is taken here: recording allocates nothing
 * and makes no system call. When `capacity` is reached later events are counted and dropped. Any
 * thread, at any time, also while jobs run. MUSTER_E_BUSY: a trace is there already.
 */
MUSTER_API muster_status muster_trace_start(struct muster *m,
                                            const struct muster_trace_options *options,
                                            struct muster_error *err);

/*
 * Ends the recording, writes it to a file and forgets it; with NULL it is only forgotten. What has
 * not ended by now is not in it. The file is put in its place when it is whole. MUSTER_E_IO or
 * MUSTER_E_NO_MEMORY: it could not be written, nothing is recorded any more, and the trace is kept
 * for another call with another path. MUSTER_E_NOT_FOUND: there is no trace.
 */
MUSTER_API muster_status muster_trace_stop(struct muster *m, const char *path,
                                           struct muster_error *err);

/*
 * The same text through a function, of what was recorded so far; recording goes on. `write` returns
 * MUSTER_OK or what this call then fails with.
 */
MUSTER_API muster_status muster_trace_write(struct muster *m,
                                            muster_status (*write)(void *user, const char *text,
                                                                   size_t bytes),
                                            void *user, struct muster_error *err);

/*
 * Calls `event` for each event recorded so far, and recording goes on. The spans of one device come
 * in the order in which they end, stages and stalls when their unit has ended. `*dropped`, unless
 * NULL, is the number of events that there was no room for. Both calls fail with MUSTER_E_BUSY while
 * another thread reads or stops the trace.
 */
MUSTER_API muster_status muster_trace_events(
    struct muster *m, void (*event)(void *user, const struct muster_trace_event *event), void *user,
    uint64_t *dropped, struct muster_error *err);

/*
 * Events of any origin, written as they come: memory grows with the devices, not with the events.
 * One thread at a time.
 */
struct muster_trace_writer;

/* The caller sets `size`. */
struct muster_trace_writer_options {
    size_t size;
    const char *title; /* what was run; copied; NULL: "muster" */
    muster_status (*write)(void *user, const char *text, size_t bytes);
    void *user;                               /* borrowed until the writer is destroyed */
    uint64_t origin_ns;                       /* what is shown as 0 */
    const struct muster_allocator *allocator; /* copied; NULL: the C library's */
};

MUSTER_API muster_status
muster_trace_writer_create(const struct muster_trace_writer_options *options,
                           struct muster_trace_writer **out, struct muster_error *err);

/*
 * Adds an event; the spans of one device, and of each stream of a job's pipeline there, in the order
 * in which they end. The first failure sticks and is what muster_trace_writer_end gives.
 */
MUSTER_API void muster_trace_writer_add(struct muster_trace_writer *writer,
                                        const struct muster_trace_event *event);

/* What a device is called; at any time before the end, once for each. */
MUSTER_API void muster_trace_writer_name(struct muster_trace_writer *writer, uint32_t device,
                                         const char *id, const char *name);

/* Completes the text, which says that `dropped` events are missing. Nothing can be added after it. */
MUSTER_API muster_status muster_trace_writer_end(struct muster_trace_writer *writer,
                                                 uint64_t dropped, struct muster_error *err);

/* NULL is allowed. */
MUSTER_API void muster_trace_writer_destroy(struct muster_trace_writer *writer);

/* Totals since the runtime was opened. The caller sets `size`. */
struct muster_counters {
    size_t size;
    uint64_t jobs_started, jobs_done, jobs_failed; /* cancelled ones have failed */
    uint64_t units_started;                        /* runs of units that were given to devices */
    uint64_t units_done, units_late,
        units_failed; /* how runs ended; others have not, or never will */
    uint64_t items_delivered, bytes_delivered;
    uint64_t launches, launches_done, launches_failed; /* of jobs, pipelines and muster_launch */
    uint64_t bytes_in, bytes_out;                      /* copies that were given to devices */
    uint64_t data_loads;
    uint64_t kernels_built; /* a kernel counts for each device */
    uint64_t tasks_submitted, tasks_ended;
    uint64_t picks;
    uint64_t devices, devices_lost;
    uint64_t trace_events, trace_dropped; /* of the trace that is there, else 0 */
    /*
     * Now: drivers that are being opened, and jobs, also finished ones, that a device gets ready to join.
     * muster_close waits for these.
     */
    uint64_t opening;
};

/*
 * Any thread, at any time. Each figure is exact; they are read one after the other. A launch has
 * ended when that was first noticed, as in muster_device_load.
 */
MUSTER_API muster_status muster_counters(struct muster *m, struct muster_counters *out,
                                         struct muster_error *err);

#ifdef __cplusplus
}
MUSTER_SAME_NAMES_END
#endif

#endif
