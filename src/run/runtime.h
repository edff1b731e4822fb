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
#include "core/throughput.h"
#include "core/tracker.h"
#include "platform/library.h"
#include "platform/thread.h"

#include <muster/backend.h>
#include <muster/muster.h>
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
    struct muster_error error;
};

/*
 * An ordering event of one device, recycled through the device's list when its last reference goes.
 */
struct run_event {
    void *state; /* owns */
    uint32_t references;
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
    enum muster_health health;
    bool is_hung;  /* found at close */
    uint32_t pins; /* calls under way that hold no stream */
    struct budget budget;
    struct run_stream *streams; /* owns; slot 0 is the default stream */
    uint32_t stream_count;
    uint32_t streams_acquired;
    uint32_t block_count;
    struct run_event *free_events;
    struct flight *free_flights;
    struct zombie *zombies;
    struct slab *slabs; /* pinned host memory, owns */
    bool reclaiming;    /* somebody looks at its zombies */
    uint64_t dispatched, completed, failed, bytes_in_flight;
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
    bool is_declared;      /* not ours to free */
    bool is_copy;          /* a resident copy of data: only for reading, freed through the data */
    bool is_unused;        /* a copy that was asked for and not used since */
    bool is_going;         /* being freed: no new use */
    uint64_t used_ns;      /* a copy: when it was last asked for */
    enum holder holder;    /* who is between its waits and its record */
    uint64_t holder_token; /* of the stream that holds it */
    struct tracker tracker;
};

/* Where data stands on a device. */
struct run_copy {
    struct run_device *device;
    muster_block block;
    bool is_loading;
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

struct slab;
struct poller;

struct run_table {
    struct handle_table handles; /* its slots are owned here */
    void **entries;              /* owns the array; NULL where a slot is free */
};

struct muster {
    struct muster_allocator allocator;
    struct muster_options options; /* strings are copies */
    struct muster_services services;
    uint64_t stream_bytes; /* planned for one stream */
    struct platform_mutex lock;
    struct platform_condition changed;
    uint64_t next_token;
    uint64_t invariants_before;

    struct run_backend *backends[BACKENDS_MAX]; /* own */
    uint32_t backend_count;
    uint32_t next_domain;

    struct run_device
        *devices[DEVICES_MAX]; /* own; only added to, so that an index never names another device */
    uint32_t device_count;
    struct run_table blocks; /* of struct run_block, owns */
    struct run_table data;   /* of struct run_data, owns */

    struct muster_kernel *kernels; /* list, owns */
    struct poller *poller;         /* owns */
};

static inline void run_lock(struct muster *m)
{
    platform_mutex_lock(&m->lock);
}

static inline void run_unlock(struct muster *m)
{
    platform_mutex_unlock(&m->lock);
}

void run_log(const struct muster *m, enum muster_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

muster_status run_no_memory(struct muster_error *err, const char *what);
muster_status run_bad_argument(struct muster_error *err, const char *function, const char *what);
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
void backends_unload(struct muster *m);
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
muster_status device_create(struct muster *m, struct run_backend *backend, uint32_t index,
                            struct muster_error *err);
void device_destroy(struct run_device *device);
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
/*
 * A backend call on the device ended so: notes what that says of its health, and puts its id into
 * `err`. Gives `status` back.
 */
muster_status device_note(struct run_device *device, muster_status status,
                          struct muster_error *err);
muster_status device_note_locked(struct run_device *device, muster_status status,
                                 struct muster_error *err);
bool device_allowed(const struct muster *m, const char *id, const char *backend);

/* stream.c */
/* Resolves and pins; every success is followed by stream_unpin. */
muster_status stream_pin(struct muster *m, muster_stream handle, struct run_stream **out,
                         struct muster_error *err);
void stream_unpin(struct run_stream *stream);
muster_status stream_pin_locked(struct muster *m, muster_stream handle, struct run_stream **out,
                                struct muster_error *err);
void stream_unpin_locked(struct run_stream *stream);
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
/* Sees which operations have finished, and counts them. */
void flights_retire(struct run_stream *stream);
/* The same for all streams of a device. */
void flights_retire_all(struct run_device *device);
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
void data_destroy_all(struct muster *m);

/* kernel.c */
void kernels_destroy_all(struct muster *m);

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
