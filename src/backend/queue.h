/*
 * In-order queues, events and gates that host threads carry out: what the cpu and the sim backend
 * have in common. One queue serves one device; its streams are truly concurrent, its events are
 * real synchronisation.
 *
 * The functions from queue_stream_open down have the types of the backend table's slots, so a
 * backend puts them there as they are. They expect the private state of a device to begin with its
 * `struct queue *`.
 */
#ifndef BACKEND_QUEUE_H
#define BACKEND_QUEUE_H

#include "platform/thread.h"

#include <muster/backend.h>

struct queue;

/* The private states, for the table's sizes. */
struct queue_device_state {
    struct queue *queue; /* owns */
};
struct queue_stream_state {
    struct queue_stream *stream; /* owned by the queue, given up by stream_close */
};
struct queue_event_state {
    struct queue *queue;
    struct queue_signal *signal; /* of the last record; a reference, NULL if never recorded */
    uint32_t flags;
};
struct queue_gate_state {
    struct queue *queue;
    uint64_t value;
    struct queue_stream *waiting;
};
struct queue_kernel_state {
    muster_kernel_function function, apart; /* as in the form; `apart` may be NULL */
    uint32_t written;
};

/* What an operation occupies. */
enum queue_work {
    QUEUE_COMPUTE,
    QUEUE_COPY_IN,
    QUEUE_COPY_OUT,
    QUEUE_COPY_INSIDE,
    QUEUE_WORK_COUNT
};

/* When an operation that begins now may finish, and how. */
struct queue_outcome {
    uint64_t finish_ns; /* 0: as soon as the work is done; UINT64_MAX: never */
    muster_status status;
};

/* For devices that pretend: called with the queue's lock held, must not call the queue. */
struct queue_timing {
    struct queue_outcome (*begin)(void *user, uint64_t now_ns, enum queue_work work,
                                  uint64_t amount);
    /*
     * How the device is: MUSTER_OK, MUSTER_E_BUSY (nothing finishes at this moment) or
     * MUSTER_E_DEVICE_LOST. Sets when to look again, UINT64_MAX if there is no need.
     */
    muster_status (*look)(void *user, uint64_t now_ns, uint64_t *next_ns);
};

struct queue_options {
    const struct muster_allocator *allocator; /* borrowed until queue_destroy returns */
    const char *thread_name;
    uint32_t worker_count;
    const struct platform_cores *cores; /* copied; NULL: anywhere */
    const struct queue_timing *timing;  /* borrowed; NULL: real work, real time */
    void *timing_user;
    int32_t priority_greatest; /* the most urgent that streams can have, 0: no priorities */
};

/* No thread is started yet: that is done with the first stream. */
muster_status queue_create(struct queue **out, const struct queue_options *options,
                           struct muster_error *err);

/*
 * Drops what is unfinished - each host call still runs, with MUSTER_E_DEVICE_HUNG - and frees the
 * queue. If user code does not come back within `grace_ns`, its thread and the queue are abandoned,
 * never freed, and the status is MUSTER_E_DEVICE_HUNG.
 */
muster_status queue_destroy(struct queue *queue, uint64_t grace_ns);

/*
 * Memory of the device: the process's own, near `node`. What is not given back goes with the queue,
 * which makes an abandoned device's memory safe to leave. `stream` NULL gives it back at once, else
 * when the stream gets there.
 */
muster_status queue_memory_take(struct queue *queue, uint64_t bytes, int32_t node,
                                struct muster_memory *out, struct muster_error *err);
muster_status queue_memory_give(struct queue *queue, void *stream, struct muster_memory *memory,
                                struct muster_error *err);

/* MUSTER_OK, or MUSTER_E_DEVICE_LOST from the loss on. */
muster_status queue_check(struct queue *queue, struct muster_error *err);

/* The lock that is held around the timing functions, for state they share with others. */
void queue_lock(struct queue *queue);
void queue_unlock(struct queue *queue);

muster_status queue_stream_open(void *device, int32_t priority, int is_default, void *stream,
                                struct muster_error *err);
void queue_stream_close(void *stream);
void *queue_stream_native(void *stream);
muster_status queue_stream_wait(void *stream, void *event, struct muster_error *err);
muster_status queue_stream_query(void *stream, struct muster_error *err);

muster_status queue_event_init(void *device, uint32_t flags, void *event, struct muster_error *err);
void queue_event_deinit(void *event);
muster_status queue_event_record(void *event, void *stream, struct muster_error *err);
muster_status queue_event_query(void *event, struct muster_error *err);
muster_status queue_event_wait(void *event, uint64_t timeout_ns, struct muster_error *err);
muster_status queue_event_elapsed(void *begin, void *end, uint64_t *ns, struct muster_error *err);

muster_status queue_gate_init(void *device, void *gate, struct muster_error *err);
void queue_gate_deinit(void *gate);
muster_status queue_gate_publish(void *gate, uint64_t value, struct muster_error *err);
muster_status queue_gate_wait(void *gate, void *stream, uint64_t value, struct muster_error *err);

muster_status queue_copy(void *stream, const struct muster_copy_desc *copy,
                         struct muster_error *err);
muster_status queue_fill(void *stream, const struct muster_place *to, uint8_t value, uint64_t bytes,
                         struct muster_error *err);
muster_status queue_host_call(void *stream, void (*function)(void *user, muster_status status),
                              void *user, struct muster_error *err);

muster_status queue_kernel_init(void *device, const struct muster_kernel_form *form, void *kernel,
                                struct muster_error *err);
void queue_kernel_deinit(void *kernel);
muster_status queue_launch(void *stream, void *kernel, const struct muster_launch_desc *launches,
                           size_t count, struct muster_error *err);

/*
 * Told by each worker what it executes, before it calls a kernel and after it: for a process that wants to know which
 * launch has crashed it. NULL: nobody. Set before any queue is made.
 */
struct queue_watch {
    void (*enter)(const muster_status *result, uint64_t begin, uint64_t end);
    void (*leave)(void);
};
extern const struct queue_watch *queue_watch;

/* The slots of a backend's table that these functions fill. */
#define QUEUE_TABLE                                                                                \
    .stream_bytes = sizeof(struct queue_stream_state),                                             \
    .event_bytes = sizeof(struct queue_event_state),                                               \
    .gate_bytes = sizeof(struct queue_gate_state),                                                 \
    .kernel_bytes = sizeof(struct queue_kernel_state), .stream_open = queue_stream_open,           \
    .stream_close = queue_stream_close, .stream_native = queue_stream_native,                      \
    .stream_wait = queue_stream_wait, .stream_query = queue_stream_query,                          \
    .event_init = queue_event_init, .event_deinit = queue_event_deinit,                            \
    .event_record = queue_event_record, .event_query = queue_event_query,                          \
    .event_wait = queue_event_wait, .event_elapsed = queue_event_elapsed,                          \
    .gate_init = queue_gate_init, .gate_deinit = queue_gate_deinit,                                \
    .gate_publish = queue_gate_publish, .gate_wait = queue_gate_wait, .copy = queue_copy,          \
    .fill = queue_fill, .host_call = queue_host_call, .kernel_init = queue_kernel_init,            \
    .kernel_deinit = queue_kernel_deinit, .launch = queue_launch

#endif
