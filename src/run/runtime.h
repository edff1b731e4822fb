/*
 * The runtime's own structures, shared by the files of this folder.
 *
 * One lock guards all tables, lists and counters. It is short: it is never held across a backend
 * call or user code. Functions named _locked want it held. What must stay while the lock is not
 * held is referenced or pinned: a device by `pins`, a stream by `pins`, an event by `references`, a
 * block by `holder`. One condition, `changed`, is woken whenever something that others may wait for
 * was released.
 */
#ifndef RUN_RUNTIME_H
#define RUN_RUNTIME_H

#include "base/handle.h"
#include "core/budget.h"
#include "core/placement.h"
#include "core/throughput.h"
#include "core/tracker.h"
#include "observe/recording.h"
#include "platform/fork.h"
#include "platform/frame.h"
#include "platform/library.h"
#include "platform/thread.h"

#include <muster/backend.h>
#include <muster/muster.h>
#include <stdatomic.h>
#include <stdbool.h>

#define STREAMS_MAX_DEFAULT 16
/* A stream handle's index is device x SLOTS_PER_DEVICE + slot. */
#define SLOTS_PER_DEVICE 256u
#define STREAMS_MAX_LIMIT (SLOTS_PER_DEVICE - 1)
#define DEVICES_MAX 4096u
#define BACKENDS_MAX 16u
#define POLL_NS_DEFAULT 250000000u
#define CLOSE_NS_DEFAULT 5000000000u

struct run_device;

enum probe_state { PROBE_NOT_YET, PROBE_RUNNING, PROBE_DONE };

struct run_backend {
    struct muster_backend table;     /* completed */
    struct platform_library library; /* owns, if it was loaded */
    char path[128];
    void *state; /* owns; NULL unless the probe found the backend usable */
    enum probe_state probe;
    uint32_t device_count;
    uint32_t first_domain; /* the backend's domains count from here */
    bool is_built_in;
    uint32_t hidden_count; /* devices that another backend has too */
    char hidden[128];      /* which and why, for people */
    bool is_abandoned;     /* a device of it hangs and was not closed: neither is the backend */
    struct muster_error error;
};

/*
 * An ordering event of one device, recycled through the device's list when its last reference goes.
 */
struct run_event {
    void *state; /* owns */
    uint32_t references;
    bool has_failed; /* was seen to be over, and to have failed */
    struct run_event *next_free;
};

/* An operation that was given and has not been seen to finish. */
struct flight {
    struct flight *next;
    struct run_event *event; /* a reference */
    bool is_unit;            /* a launch: counted as a unit, in items; else a copy, in bytes */
    uint64_t amount;
    struct throughput_mark mark;
    muster_status result;       /* written by the backend */
    muster_status *user_result; /* where the user wants it, NULL: nowhere */
};

enum slot_state {
    SLOT_EMPTY,    /* no driver stream */
    SLOT_OPENING,  /* somebody is asking the driver */
    SLOT_ACQUIRED, /* a handle is out */
    SLOT_RELEASED  /* a driver stream that nobody has; it may still finish earlier work */
};

struct run_stream {
    struct run_device *device;
    void *state; /* owns; NULL while empty */
    enum slot_state slot;
    uint32_t generation; /* of the current, else of the next handle; from 1 */
    int32_t priority;
    uint64_t token; /* names the driver's stream in trackers; never 0, never used twice */
    uint32_t pins;  /* calls under way */
    bool retiring;  /* somebody looks at its flights */
    bool broken;    /* what it does cannot be followed any more: never given out again */
    struct flight *oldest, *newest;
};

/* Freed memory that the device may still be using. */
struct zombie {
    struct zombie *next;
    struct muster_memory memory;
    bool must_free;             /* the backend has not been told yet */
    struct tracker_marks until; /* references */
};

struct run_device {
    struct muster *m;
    struct run_backend *backend;
    void *state; /* owns */
    struct muster_device_info info;
    uint32_t index;
    bool is_sliced;            /* has left the pool */
    bool is_closing;           /* being cut: refuses everything new */
    struct run_device *parent; /* of a slice */
    uint32_t slices_open;
    bool has_hung_slice; /* one that could not be closed: nor can this */
    enum muster_health health;
    bool is_hung; /* what it does cannot be waited for: its memory is left alone */
    /* Calls of its driver that do not return. Until they do it is asked and given nothing more. */
    uint32_t stuck_calls;
    bool had_its_time; /* jobs have waited for it in vain already: closing does not once more */
    uint32_t pins;     /* calls under way that hold no stream */
    struct budget budget;
    struct run_stream *streams; /* owns; slot 0 is the default stream */
    uint32_t stream_count;
    uint32_t streams_acquired;
    uint32_t block_count;
    struct run_event *free_events;
    struct flight *free_flights;
    struct timing_mark *marks, *free_marks; /* owns all; those that no slot has */
    struct zombie *zombies;
    struct slab *slabs;       /* pinned host memory, owns */
    struct built *built_left; /* owns: of destroyed kernels, what it may run as long as it hangs */
    bool reclaiming;          /* somebody looks at its zombies */
    uint64_t dispatched, completed, failed, bytes_in_flight;
    uint64_t queued_items;   /* of units given and not finished */
    uint32_t streams_active; /* streams with flights */
    uint32_t leases;         /* picks that count against it */
    struct throughput items, bytes;
    struct muster_device_sample sample;
    uint64_t sampled_ns;
    uint64_t asked_ns; /* when its driver last answered, also with a failure */
    bool is_late;      /* its driver did not answer in time once: nobody waits for it again */
};

enum holder { HOLDER_NONE, HOLDER_OPERATION, HOLDER_USER };

struct run_block {
    struct run_device *device;
    uint32_t index; /* in the table */
    struct muster_memory memory;
    bool is_declared; /* not ours to free */
    bool is_copy;     /* a resident copy of data: only for reading, freed through the data */
    bool is_going;    /* being freed: no new use */
    uint64_t used_ns; /* a copy: when it was last asked for */
    /* A copy: streams, a bit each by slot, for which it was asked for and that did not use it since. */
    uint64_t asked[SLOTS_PER_DEVICE / 64];
    enum holder holder;    /* who is between its waits and its record */
    uint64_t holder_token; /* of the stream that holds it */
    /* A user's: which muster_block_begin, how many blocks it holds, and how this one is used. */
    uint64_t holder_begin;
    size_t holder_count;
    enum muster_access holder_access;
    struct tracker tracker;
};

/* Where data stands on a device. */
struct run_copy {
    struct run_device *device;
    muster_block block;
    bool is_loading;       /* or looked at: others wait until it is known what becomes of it */
    bool is_loaded;        /* was seen to have arrived; until then its stream may still fail */
    struct zombie *zombie; /* owns: what the block's memory will become */
    struct run_copy *next;
};

struct run_data {
    const void *host; /* borrowed until destroy */
    uint64_t bytes;
    uint32_t index; /* in the table */
    uint32_t users; /* calls under way */
    bool is_going;
    struct run_copy *copies; /* owns */
};

struct decision;
struct slab;
struct task_pool;
struct poller;

/* Totals, each exact by itself, added to from any thread. */
struct run_counts {
    _Atomic uint64_t jobs_numbered, jobs_started, jobs_done, jobs_failed;
    _Atomic uint64_t units_started, units_done, units_late, units_failed;
    _Atomic uint64_t items_delivered, bytes_delivered, bytes_in, bytes_out;
    _Atomic uint64_t data_loads, kernels_built;
    /* Of pipelines: units, which devices count as what was dispatched, and launches in them. */
    _Atomic uint64_t line_units, line_units_done, line_units_failed;
    _Atomic uint64_t line_launches, line_launches_done, line_launches_failed;
};

struct run_table {
    struct handle_table handles; /* its slots are owned here */
    void **entries;              /* owns the array; NULL where a slot is free */
};

struct muster {
    /* Asks options.allocator; nothing any more once the runtime is abandoned. */
    struct muster_allocator allocator;
    _Atomic bool is_abandoned;     /* closed, though threads may still come back to it */
    struct muster *next_abandoned; /* on a list of the process's, so that leaks can be told apart */
    struct muster_options options; /* strings are copies */
    struct muster_services services;
    uint64_t stream_bytes; /* planned for one stream */
    struct platform_mutex lock;
    struct platform_condition changed;
    uint64_t next_token;
    uint64_t invariants_before;
    uint32_t forks; /* platform_forks when it was opened */

    struct run_backend *backends[BACKENDS_MAX]; /* own */
    uint32_t backend_count;
    uint32_t next_domain;

    struct run_device
        *devices[DEVICES_MAX]; /* own; only added to, so that an index never names another device */
    uint32_t device_count;
    struct placement_device *views; /* owns: what a pick looks at, for each device */
    uint32_t view_capacity;
    struct run_table blocks; /* of struct run_block, owns */
    struct run_table data;   /* of struct run_data, owns */

    struct run_table leases;       /* of struct run_device, borrows */
    struct decision *decisions;    /* owns: a ring of the last picks; NULL before the first */
    _Atomic bool is_ready_to_pick; /* all backends were probed and the ring is there */
    uint64_t decision_count;
    uint32_t turn;    /* round-robin's */
    bool is_choosing; /* a user's policy is being asked */

    struct muster_job *jobs; /* list, owns: those that were not destroyed */
    bool is_closing;         /* jobs that are started from here on are cancelled at once */
    struct muster_job
        *jobs_left; /* list, owns: destroyed, but a hung device still works for them */
    _Atomic(struct task_pool *) task_pool; /* owns; NULL before the first task */
    bool is_making_pool;
    /*
     * Moves on, with the lock, when a device becomes fit for work or unfit, and when a kernel goes:
     * whoever keeps what may run where looks whether it did. Relaxed: that is out of date at once.
     */
    _Atomic uint64_t epoch;
    struct muster_kernel *kernels;     /* list, owns */
    struct muster_pipeline *pipelines; /* list, owns */
    struct muster_file *files;         /* list, owns */
    uint32_t file_users;               /* who walk the list without the lock: none is taken out */
    struct poller *poller;             /* owns */
    struct closing *closing;           /* owns; NULL: nobody closes it */
    struct copiers *copiers;           /* owns; NULL before the first large copy in host memory */
    struct run_counts counts;
    struct recording recording;
    bool is_trace_taken; /* somebody starts, reads or stops the recording */
};

/* Adds to one of the counts; gives what it was. */
static inline uint64_t run_count(_Atomic uint64_t *count, uint64_t amount)
{
    /* Relaxed: nothing is read by way of it. */
    return atomic_fetch_add_explicit(count, amount, memory_order_relaxed);
}

/*
 * Whether the runtime was closed without the calling thread, which had been given up. Such a thread
 * touches nothing but its own job, and leaves. Relaxed: a thread that is just returning may miss
 * it.
 */
static inline bool run_is_abandoned(const struct muster *m)
{
    return atomic_load_explicit(&m->is_abandoned, memory_order_relaxed);
}

static inline void run_lock(struct muster *m)
{
    platform_mutex_lock(&m->lock);
}

static inline void run_unlock(struct muster *m)
{
    platform_mutex_unlock(&m->lock);
}

/*
 * Whether the runtime is the parent process's: its threads do not exist here, and its locks may be
 * locked for ever. Every public function checks this before anything else.
 */
static inline bool run_is_forked(const struct muster *m)
{
    return m->forks != platform_forks();
}

/*
 * Whether a driver's answer says that work is over, well or not. A call that merely failed says
 * nothing of the work, and what it uses must stay.
 */
static inline bool run_is_over(muster_status status)
{
    return status == MUSTER_OK || status == MUSTER_E_DEVICE_LOST ||
           muster_status_discards(status) == MUSTER_DISCARD_STREAM;
}

void run_log(const struct muster *m, enum muster_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

muster_status run_no_memory(struct muster_error *err, const char *what);
muster_status run_bad_argument(struct muster_error *err, const char *function, const char *what);
/* MUSTER_E_FORKED. */
muster_status run_say_forked(struct muster_error *err);
/* MUSTER_E_ORDER: the call could only wait for the user code that makes it. */
muster_status run_say_stuck(struct muster_error *err, const char *function);
/* Structs of newer callers are larger, but never so large: `size` was not set. */
#define STRUCT_BYTES_MAX 65536u
/*
 * A struct of `size` bytes as its caller says, of which this library knows `known`, and needs
 * `least`: MUSTER_E_INVALID, or MUSTER_E_VERSION if a field is set that it does not know.
 */
muster_status run_check_size(const void *given, size_t size, size_t known, size_t least,
                             const char *what, struct muster_error *err);
/* Adds the device's id to an error that a backend filled. */
void run_error_device(struct muster_error *err, const struct run_device *device);

/* table.c: handles to objects, which the table's owner allocates. */
/* Issues a handle for `entry`. Grows as needed; allocates only then. */
muster_status table_add_locked(struct muster *m, struct run_table *table, void *entry,
                               uint32_t *index, uint32_t *generation, struct muster_error *err);
/* The handle's object; `what` names the kind of thing in the error. */
muster_status table_find_locked(const struct run_table *table, uint32_t index, uint32_t generation,
                                const char *what, void **entry, struct muster_error *err);
void table_remove_locked(struct run_table *table, uint32_t index);
void table_destroy(struct muster *m, struct run_table *table);

/* backends.c */
muster_status backends_load(struct muster *m, struct muster_error *err);
/* False if a backend was left as it is, since a device of it hangs. */
bool backends_unload(struct muster *m);
/* Opens the backend and its devices, if that was not done yet; gives how that went. */
muster_status backends_probe(struct muster *m, struct run_backend *backend,
                             struct muster_error *err);
/*
 * Around calls that must not overlap within a backend: as a probe does, by turns and with no lock
 * held.
 */
void backends_begin_probe(struct muster *m, struct run_backend *backend);
void backends_end_probe(struct muster *m, struct run_backend *backend);
struct run_backend *backends_find(struct muster *m, const char *name, size_t length);

/* device.c */
/* Fills info.same_as from the devices that are known. */
void device_find_double(struct run_device *device);
/* Probes all backends, and checks that each name asked for in the options exists now. */
muster_status device_probe_all(struct muster *m, struct muster_error *err);
/* Opens a device that nobody knows of until it is added. */
muster_status device_create(struct muster *m, struct run_backend *backend, uint32_t index,
                            struct run_device **out, struct muster_error *err);
/* Opens slices of a device that nobody knows of yet, all or none. */
muster_status device_cut(struct run_device *device, const uint32_t *sizes, size_t count,
                         struct run_device **slices, struct muster_error *err);
/* All of them or, where there is no room, none. */
muster_status devices_add(struct muster *m, struct run_device *const *devices, size_t count,
                          struct muster_error *err);
/* MUSTER_E_DEVICE_HUNG: something of it still runs, and what it may touch was not freed. */
muster_status device_destroy(struct run_device *device);
/* The device of a handle, fit for work or not; on failure `err` is filled. */
muster_status device_resolve_locked(struct muster *m, muster_device handle, struct run_device **out,
                                    struct muster_error *err);
/*
 * Resolves, checks and keeps a device for the length of a call; every success is followed by
 * device_unpin.
 */
muster_status device_pin(struct muster *m, muster_device handle, struct run_device **out,
                         struct muster_error *err);
void device_unpin(struct run_device *device);
/* Refuses devices that are lost, quarantined or being cut. */
muster_status device_check_locked(const struct run_device *device, struct muster_error *err);
muster_device device_handle_locked(const struct run_device *device);
/* Something a pick looks at has changed. */
void device_view_locked(struct run_device *device);
/* All figures of the device as they are known now. */
void device_load_locked(const struct run_device *device, struct muster_device_load *load);
/*
 * A backend call on the device ended so: notes what that says of its health, and puts its id into
 * `err`. Gives `status` back.
 */
muster_status device_note(struct run_device *device, muster_status status,
                          struct muster_error *err);
muster_status device_note_locked(struct run_device *device, muster_status status,
                                 struct muster_error *err);
/* So many calls of its driver more, or less, do not return; whoever waits for them looks again. */
void device_count_stuck_locked(struct run_device *device, int32_t more);
bool device_allowed(const struct muster *m, const char *id, const char *backend);

/* slices.c */
#define SLICES_OF_DEVICE_MAX 64
/* That the option can be understood and names backends that there are. */
muster_status slices_check(struct muster *m, struct muster_error *err);
/* Whether a device of the backend is to be cut. */
bool slices_name(const struct muster *m, const char *backend);
/* Whether the option `devices` names a slice that the device is to be cut into. */
bool slices_allowed(const struct muster *m, const char *id);
/* How many slices the device is to be cut into, 0 if it is not; their sizes, with room for all. */
size_t slices_wanted(const struct muster *m, const char *id, uint32_t *sizes);
/* That every device of the backend that is to be cut is among those found. */
muster_status slices_check_found(const struct muster *m, const char *backend, uint32_t count,
                                 struct muster_error *err);

/* stream.c */
/* Resolves and pins; every success is followed by stream_unpin. */
muster_status stream_pin(struct muster *m, muster_stream handle, struct run_stream **out,
                         struct muster_error *err);
void stream_unpin(struct run_stream *stream);
muster_status stream_pin_locked(struct muster *m, muster_stream handle, struct run_stream **out,
                                struct muster_error *err);
/*
 * The same for calls that give nothing new: also on a device that is lost or quarantined, where
 * work given before may still be running on memory of the caller's.
 */
muster_status stream_pin_to_finish(struct muster *m, muster_stream handle, struct run_stream **out,
                                   struct muster_error *err);
void stream_unpin_locked(struct run_stream *stream);
/*
 * Puts another stream of the driver in the place of one that failed, under the same handle: a pool
 * that is full has no second one to give. The stream is pinned and nobody else uses it. On failure,
 * also if it still has work to do, all stays as it was.
 */
muster_status stream_renew(struct run_stream *stream, struct muster_error *err);
void streams_destroy(struct run_device *device);

/* flight.c */
muster_status event_take(struct run_device *device, struct run_event **out,
                         struct muster_error *err);
void event_unreference_locked(struct run_device *device, struct run_event *event);
void marks_unreference_locked(struct run_device *device, const struct tracker_marks *marks);
void events_destroy(struct run_device *device);
struct flight *flight_take(struct run_device *device, struct muster_error *err);
void flight_give_locked(struct run_device *device, struct flight *flight);
void flight_begin_locked(struct run_stream *stream, struct flight *flight);
/* A unit of so many items was given to the device, and has ended so. */
struct throughput_mark unit_begin_locked(struct run_device *device, uint64_t items,
                                         uint64_t now_ns);
void unit_end_locked(struct run_device *device, struct throughput_mark mark, uint64_t items,
                     bool is_done, uint64_t now_ns);
/* Sees which operations have finished, and counts them. */
void flights_retire(struct run_stream *stream);
/* The same after the stream itself was asked: if that is over, so is all that was given to it. */
void flights_retire_after(struct run_stream *stream, muster_status stream_status);
/* The same for all streams of a device. */
void flights_retire_all(struct run_device *device);
/*
 * The work is known to be over though the driver would not say so of its event: its result is
 * written now, and not when the event is seen.
 */
void flights_forget_result(struct run_stream *stream, muster_status *result);
/* Ends what is left, and gives the memory back; the latter only when the device is closed. */
void flights_end(struct run_device *device);
void flights_destroy(struct run_device *device);
/*
 * Blocks until the stream has finished what it was given; MUSTER_E_TIMEOUT, or the stream's or
 * device's failure.
 */
muster_status stream_drain(struct run_stream *stream, uint64_t deadline_ns,
                           struct muster_error *err);

/* operation.c: one operation on tracked blocks, between begin and end. */
struct operation_run {
    struct muster *m;
    struct run_stream *stream;
    struct run_event *event;
    struct flight *flight;
    struct muster_use uses[MUSTER_USES_MAX]; /* merged: each block once */
    size_t use_count;
    struct muster_memory memories[MUSTER_USES_MAX];
};
/*
 * Pins the stream, holds the blocks and makes the stream wait for what conflicts with the uses.
 * `holder` USER: until muster_block_end. On failure nothing is held.
 */
muster_status operation_begin(struct muster *m, muster_stream stream, const struct muster_use *uses,
                              size_t count, enum holder holder, struct operation_run *run,
                              struct muster_error *err);
/* The operation itself was refused: nothing was given to the device. */
void operation_abandon(struct operation_run *run);
/* The operation was given: records it. A flight counts it. */
muster_status operation_end(struct operation_run *run, bool is_unit, uint64_t amount,
                            struct muster_error *err);
/* The memory of a used block. */
const struct muster_memory *operation_memory(const struct operation_run *run, muster_block block);

/* block.c */
muster_status block_resolve_locked(struct muster *m, muster_block handle, struct run_block **out,
                                   struct muster_error *err);
/*
 * Forgets a block that nobody holds; its memory follows when everything that used it has finished.
 */
void block_drop_locked(struct muster *m, struct run_block *block, struct zombie *zombie);
struct zombie *zombie_take(struct muster *m);
void zombie_give(struct muster *m, struct zombie *zombie);
/* Frees what the device has finished with. */
void zombies_reclaim(struct run_device *device);
void zombies_destroy(struct run_device *device);
void blocks_destroy(struct muster *m);
muster_status block_declare(struct muster *m, struct run_device *device,
                            struct muster_memory memory, muster_block *out,
                            struct muster_error *err);

/* data.c */
/* Drops one resident copy that nobody uses, the one unasked for longest; false if there is none. */
bool data_evict(struct run_device *device);
/* The stream has used a block, which counts if that is a copy. */
void data_used_locked(struct run_block *block, const struct run_stream *stream);
/* The stream is released: copies that were asked for it and not used are not kept for it. */
void data_forget_stream_locked(const struct run_stream *stream);
void data_destroy_all(struct muster *m);

/* job.c */
/* Threads of jobs that were away in a driver or in user code at the end, and have been detached. */
struct jobs_lost {
    uint32_t threads, in_user_code;
    struct muster_error what; /* names what jobs have waited for in vain, threads or devices */
};
/* The runtime closes: cancels every job, also those that are started from here on. */
void jobs_cancel_all(struct muster *m);
/* Waits until every job is over, and leaves it to whoever has started it. */
void jobs_await_all(struct muster *m);
/*
 * Destroys every job; no user code is within one, unless it was given up. What has not come back
 * within `close_ns` is left to what it does.
 */
void jobs_destroy_all(struct muster *m, struct jobs_lost *lost);
/* Frees destroyed jobs whose threads have all left. */
void jobs_free_left(struct muster *m);
/*
 * At the end, when no job has a thread any more and devices were drained: frees jobs whose devices
 * have come back after all, or `all`, when devices are gone.
 */
void jobs_free_last(struct muster *m, bool all);
/* Destroys jobs that their own callbacks destroyed, now that they are over. */
void jobs_destroy_unwanted(struct muster *m);

/* file.c */
/* Before the job's memory goes: waits for what files still write of it, and has them forget it. */
void files_leave_job(struct muster_job *job);
/* Nobody waits for the other end of a pipe any more. */
void files_cancel_all(struct muster *m);
void files_destroy_all(struct muster *m);

/* trace.c */
void trace_destroy(struct muster *m);
void trace_lost_locked(const struct run_device *device);
void trace_data_locked(const struct run_device *device, uint64_t bytes);
void trace_pick_locked(struct muster *m, uint32_t device);
/* Now, if it is recorded; else 0. */
static inline uint64_t trace_clock(const struct muster *m)
{
    return recording_is_on(&m->recording) ? platform_clock_ns() : 0;
}
/* A task began at `begin_ns`, of trace_clock and not 0, and ended just now. */
void trace_task(struct muster *m, uint64_t begin_ns, muster_status status);
/* One run of a task with a kernel: given to the device at `begin_ns`, seen to be over at `end_ns`. */
void trace_kernel_task_locked(const struct run_device *device, uint64_t begin_ns, uint64_t end_ns,
                              uint64_t items, muster_status status, bool is_retry);

/* loss.c */
void timing_marks_destroy(struct run_device *device);

/* copiers.c */
/* memcpy, shared with threads that help where it is much. Blocks until all is moved. Any thread. */
void copiers_copy(struct muster *m, void *to, const void *from, size_t bytes);
void copiers_destroy(struct muster *m);

/* task.c */
/* How many were submitted so far, and how many of them have ended. */
void tasks_count(struct muster *m, uint64_t *submitted, uint64_t *ended);
/* Runs what was submitted to its end. What a device has not finished by then is left to it. */
void tasks_drain(struct muster *m);
/*
 * The same, and ends the threads. Gives the number of lanes with a thread that has not returned
 * from the driver: it was given up, and may still come back to the runtime. `what` names the first.
 */
uint32_t tasks_destroy(struct muster *m, struct muster_error *what);
/* After all devices had their time: hung ones keep no kernel from going any more. */
void tasks_let_kernels_go(struct muster *m);
/* After the devices are gone: frees what they may have written to. */
void tasks_free(struct muster *m);
/* task_lane.c: lets go of the device's streams, if none of its tasks is unfinished. */
void tasks_leave_device(struct muster *m, const struct run_device *device);

/* pick.c */
#define PICK_WORDS (DEVICES_MAX / 64)
/*
 * The hints as placement wants them, with all backends probed and free memory known where it is
 * asked for. `devices` has PICK_WORDS words and is what out->devices points to, if the hints name
 * devices. `given` may be NULL.
 */
muster_status pick_read_hints(struct muster *m, const struct muster_hints *given, uint64_t *devices,
                              struct placement_hints *out, struct muster_error *err);
void decisions_destroy(struct muster *m);

/* Is `name` one of a list's entries, which are separated by commas? */
bool run_list_names(const char *list, const char *name);

/* kernel.c */
bool kernel_is_of(const struct muster_kernel *kernel, const struct muster *m);
/* Whether the kernel has a form that the device can use. Cheap after kernel_find_compilers. */
bool kernel_has_form(const struct muster_kernel *kernel, const struct run_device *device);
/*
 * The kernel's state on the device, built by the first who asks, while others wait. May take long.
 */
muster_status kernel_get_built(struct muster_kernel *kernel, struct run_device *device, void **out,
                               struct muster_error *err);
/* The same if it is there already, else NULL. */
void *kernel_state_locked(struct muster_kernel *kernel, const struct run_device *device);
/* Looks, with no lock held, for what its forms may need on the devices there are. */
void kernel_find_compilers(const struct muster_kernel *kernel);
/* Says why not: MUSTER_E_NOT_SUPPORTED. */
muster_status kernel_explain_no_form(const struct muster_kernel *kernel,
                                     const struct run_device *device, struct muster_error *err);
/* Builds it for the device before it is first needed there; how that went is told by the launch. */
void kernel_prepare(struct muster_kernel *kernel, struct run_device *device);
/* One argument as the caller gives it: a block, or a value of so many bytes. */
struct kernel_argument {
    bool is_block;
    size_t bytes;
};
/* MUSTER_E_INVALID if the kernel's source is known and takes something else. */
muster_status kernel_check_arguments(const struct muster_kernel *kernel,
                                     const struct kernel_argument *args, size_t count,
                                     struct muster_error *err);
/* A kernel that is held stays, with all that devices have built of it, when its user destroys it. */
void kernel_hold_locked(struct muster_kernel *kernel);
void kernel_let_go(struct muster_kernel *kernel);
void kernels_destroy_all(struct muster *m);
/* After a hung device was closed: what it might have run until then. */
void kernels_free_left(struct run_device *device);

/* host_memory.c */
/* Whether pinned memory of the device is out. */
bool host_memory_used_by_locked(const struct run_device *device);
/*
 * Before the device is closed, and after: its driver lets go of the memory, then the memory goes.
 */
void host_memory_unregister(struct run_device *device);
void host_memory_unmap(struct run_device *device);

/* poller.c */
muster_status poller_create(struct muster *m, struct muster_error *err);
/* Asks for a fresh sample; waits for the first one, at most a second. */
muster_status poller_ask(struct run_device *device, struct muster_error *err);
/* False if it is stuck in a driver call and was abandoned. */
bool poller_destroy(struct muster *m, uint64_t deadline_ns);

#endif
