/*
 * What the files of this backend share: a device, its streams and the calls that are due on them.
 *
 * Locks: `lock` guards lists and what events refer to, `bell.lock` only who sleeps. Callbacks of
 * the driver take the latter alone, and no call of the driver is made while it is held: a driver
 * may make callbacks with locks of its own held, or from within the call that asks for them.
 */
#ifndef BACKEND_OPENCL_DEVICE_H
#define BACKEND_OPENCL_DEVICE_H

#include "backend/opencl/driver.h"
#include "base/ring.h"
#include "platform/thread.h"

#include <muster/backend.h>
#include <stdatomic.h>

struct opencl {
    const struct muster_services *services; /* borrowed until close */
    struct opencl_driver driver;
    opencl_device_id *ids; /* owns */
    uint32_t count, capacity;
};

/* A host call that was accepted, or a failure that a stream is to have when it gets there. */
struct opencl_call {
    void (*function)(void *user, muster_status status); /* NULL: the stream only fails */
    void *user;
    struct opencl_stream *stream; /* borrowed: not freed before its calls are made */
    opencl_event reached;         /* owns: complete when the stream is there; NULL: it is */
    opencl_event made;            /* owns: a user event, which the stream waits for */
    struct opencl_call *next;
};

/* A launch whose failure a caller wants to hear of. */
struct opencl_result {
    opencl_event event;    /* owns */
    opencl_event before;   /* owns: what it waits for in its stream, NULL if nothing */
    muster_status *result; /* borrowed until the launch is over */
    struct opencl_result *next;
};

/* Outlives its private state: what was given is finished first. */
struct opencl_stream {
    struct opencl_device *device;
    opencl_queue queue; /* owns */
    int32_t priority;
    /*
     * The event of the last command; owns, NULL before the first. On devices whose streams fail
     * alone each command waits for the one before, so that a failure reaches all that follow.
     */
    opencl_event tail;
    /*
     * Events before the tail that are not complete yet; owns. PoCL 3.1 stops the process if a
     * command fails whose event nobody holds, so all are held, and those of a stream that has failed
     * until the device is closed.
     */
    opencl_event *held;
    struct ring ring;       /* over held */
    bool has_unmarked_work; /* commands without an event come after the tail */
    bool is_flushed;
    bool is_native; /* its queue was given out: others may enqueue on it */
    bool is_asked;  /* the tail is a marker that a query has set */
    bool is_closed;
    struct opencl_call *first_call, *last_call; /* under the device's lock */
    uint64_t calls_given;
    _Atomic uint64_t calls_made; /* release behind the call, acquire before an event is over */
    struct opencl_stream *next, *previous; /* all streams of the device, under its lock */
};

/* A callback that the driver was asked for. */
struct opencl_callback {
    opencl_event event; /* owns, also after the callback until its holder lets go of it */
    bool is_due;        /* asked for and not made yet */
    uint64_t come_ns;
    struct opencl_callback *next;
};

/* Few are due at a time: one for each sleeper and each host call. */
#define OPENCL_CALLBACKS_MAX 256u

struct opencl_bell {
    struct platform_mutex lock;
    struct platform_condition waiters; /* for the host: an event may have completed */
    struct platform_condition watcher; /* for the device's own thread */
    uint64_t rings;
    struct opencl_callback callbacks[OPENCL_CALLBACKS_MAX];
    uint32_t callbacks_used; /* those behind have never been taken */
    struct opencl_callback *free, *first_come, *last_come;
};

struct opencl_device {
    struct opencl *opencl;
    opencl_device_id id;
    bool owns_id; /* a part of another */
    uint64_t number;
    struct opencl_device *next_live; /* opencl_devices_live, under its lock */
    uint32_t domain, cores;
    uint64_t memory_total, allocation_max;
    bool has_priorities, has_free_memory, can_compile, rounds_division;
    /*
     * NVIDIA's driver fails whole contexts and nothing less, so its commands need no events of
     * their own to carry a stream's failure.
     */
    bool fails_whole;
    bool uses_callbacks;
    bool is_owed; /* at close: callbacks are due, so its queues and context stay */
    /* Between two looks of a thread that sleeps until a callback wakes it. */
    uint64_t pause_first_ns, pause_last_ns;
    _Atomic bool own_loss;
    _Atomic bool *is_lost; /* its parent's for a part; release with the reason, acquire in checks */
    _Atomic int loss_code;
    _Atomic uint64_t memory_used;

    struct platform_mutex lock;
    /* Made when first needed: a device that is only listed costs no context. */
    opencl_context context;
    opencl_queue queue; /* for touching memory and for asking whether the device still answers */
    /*
     * One thread at a time gives that queue commands: NVIDIA's driver (580) crashes where several
     * move buffers to the device through one queue, though OpenCL lets them.
     */
    struct platform_mutex queue_lock;
    struct opencl_stream *streams;
    /*
     * Streams that were closed and are over, for the next who opens one. NVIDIA's driver does not
     * stand questions about an event whose queue was released, and events outlive streams; so no
     * queue is released before the device is closed.
     */
    struct opencl_stream *spare;
    struct opencl_call *free_calls;
    struct opencl_result *results, *last_result, *free_results;

    struct opencl_bell bell;
    struct platform_thread watcher; /* started with the first call */
    /* Under bell.lock. */
    bool is_watched, is_stopping;
    muster_status stop_status; /* for calls that are not due by then */

    opencl_device_id *parts; /* owns, while cut */
    uint32_t *part_sizes;    /* owns */
    uint32_t part_count;
};

struct opencl_stream_state {
    struct opencl_stream *stream;
};

struct opencl_event_state {
    struct opencl_device *device;
    opencl_event event; /* of the last record; owns, under the device's lock; NULL if never */
    struct opencl_stream
        *stream;           /* of the record; there for certain only if the event has failed */
    uint64_t calls_before; /* how many calls the stream had been given */
    uint32_t flags;
    bool has_callback; /* under the device's lock */
};

struct opencl_kernel_state {
    struct opencl_device *device;
    struct platform_mutex lock; /* a kernel object holds its arguments */
    opencl_kernel_object kernel;
    uint32_t arg_count;
    size_t local;
};

static inline const struct opencl_driver *opencl_of(const struct opencl_device *device)
{
    return &device->opencl->driver;
}

static inline const struct muster_allocator *opencl_allocator(const struct opencl_device *device)
{
    return device->opencl->services->allocator;
}

/* device.c */

/* MUSTER_OK, or MUSTER_E_DEVICE_LOST from the loss on. */
muster_status opencl_check(const struct opencl_device *device, struct muster_error *err);
/* The same, and makes the context if it is not there yet. */
muster_status opencl_ready(struct opencl_device *device, struct muster_error *err);
/*
 * What a call that the driver refused comes to. A code that may mean a lost device is looked into.
 */
muster_status opencl_refused(struct opencl_device *device, opencl_int code, const char *what,
                             struct muster_error *err);

/* Gives the device up: its driver refuses what everything depends on. */
void opencl_lose(struct opencl_device *device);

muster_status opencl_device_open(void *opencl, uint32_t index, void *device,
                                 struct muster_device_info *info, struct muster_error *err);
muster_status opencl_device_close(void *device);
muster_status opencl_device_sample(void *device, struct muster_device_sample *sample,
                                   struct muster_error *err);
muster_status opencl_slice_plan(void *device, const uint32_t *sizes, size_t count,
                                struct muster_error *err);
muster_status opencl_slice_open(void *device, size_t index, void *slice,
                                struct muster_device_info *info, struct muster_error *err);
void opencl_slice_unplan(void *device);

/* memory.c */

muster_status opencl_memory_allocate(void *device, void *stream, uint64_t bytes,
                                     struct muster_memory *out, struct muster_error *err);
muster_status opencl_memory_free(void *device, void *stream, struct muster_memory *memory,
                                 struct muster_error *err);

/* callback.c */

/* From the first to the second the driver's callbacks find the device. */
void opencl_enlist(struct opencl_device *device);
void opencl_delist(struct opencl_device *device);
void opencl_ring(struct opencl_device *device);
/*
 * Asks for a ring when the event completes, and holds the event until it has come. Only a hint: the
 * ring may never come.
 */
void opencl_ask_for_ring(struct opencl_device *device, opencl_event event);
/* Lets go of the events whose callbacks have come and surely returned. */
void opencl_release_called(struct opencl_device *device);
/*
 * Waits for the callbacks that are due, delists the device and lets go of all events. False if some
 * did not come by `deadline_ns`: their events stay, and may refer to their queues and context.
 */
bool opencl_end_callbacks(struct opencl_device *device, uint64_t deadline_ns);

/* event.c */

/* What the code of a command's event comes to, as opencl_observe. */
muster_status opencl_judge(struct opencl_device *device, opencl_int code, struct muster_error *err);
/* How a command is: MUSTER_E_BUSY, or how it went; a failure settles all results that it can. */
muster_status opencl_observe(struct opencl_device *device, opencl_event event,
                             struct muster_error *err);
/* The same without words and without looking any further: CL_COMPLETE, above it, or a failure. */
opencl_int opencl_event_code(const struct opencl_device *device, opencl_event event);
void opencl_release(const struct opencl_device *device, opencl_event event); /* NULL is allowed */
/* Fills in what is known of launches that ended badly; all that is unfinished if the device is lost. */
void opencl_settle_results(struct opencl_device *device);

muster_status opencl_event_init(void *device, uint32_t flags, void *event,
                                struct muster_error *err);
void opencl_event_deinit(void *event);
muster_status opencl_event_record(void *event, void *stream, struct muster_error *err);
muster_status opencl_event_query(void *event, struct muster_error *err);
muster_status opencl_event_wait(void *event, uint64_t timeout_ns, struct muster_error *err);
muster_status opencl_event_elapsed(void *begin, void *end, uint64_t *ns, struct muster_error *err);

/* stream.c */

/*
 * Around each command. `begin` says whether the stream takes it: not if it has failed, and then the
 * command is skipped and `end` does nothing. The command is enqueued with the list and the place for
 * an event that it gives, and `end` takes the driver's answer; the tail is then the command, if it
 * wants an event.
 */
struct opencl_command {
    struct opencl_stream *stream;
    const char *what;
    bool is_skipped, wants_event;
    opencl_uint wait_count;
    opencl_event wait; /* borrowed from the stream */
    opencl_event event;
};
muster_status opencl_command_begin(struct opencl_command *command, struct opencl_stream *stream,
                                   const char *what, struct muster_error *err);
opencl_event *opencl_command_event(struct opencl_command *command);
const opencl_event *opencl_command_wait(const struct opencl_command *command);
muster_status opencl_command_end(struct opencl_command *command, opencl_int code,
                                 struct muster_error *err);
/* Makes room for one more event, so that opencl_stream_follow cannot fail. */
muster_status opencl_stream_reserve(struct opencl_stream *stream, struct muster_error *err);
/* Makes the event, which becomes the stream's, its tail. */
void opencl_stream_follow(struct opencl_stream *stream, opencl_event event);
/* An event behind all that was given, native work included: the tail becomes it, or has failed. */
muster_status opencl_stream_mark(struct opencl_stream *stream, struct muster_error *err);
muster_status opencl_stream_flush(struct opencl_stream *stream, struct muster_error *err);

muster_status opencl_stream_open(void *device, int32_t priority, int is_default, void *stream,
                                 struct muster_error *err);
void opencl_stream_close(void *stream);
void *opencl_stream_native(void *stream);
muster_status opencl_stream_wait(void *stream, void *event, struct muster_error *err);
muster_status opencl_stream_query(void *stream, struct muster_error *err);
muster_status opencl_copy(void *stream, const struct muster_copy_desc *copy,
                          struct muster_error *err);
muster_status opencl_fill(void *stream, const struct muster_place *to, uint8_t value,
                          uint64_t bytes, struct muster_error *err);
/* Frees closed streams whose work is over. Returns whether all closed ones are gone. */
bool opencl_streams_reap(struct opencl_device *device);
/* Lets go of all that are left. */
void opencl_streams_free(struct opencl_device *device);

/* call.c */

muster_status opencl_host_call(void *stream, void (*function)(void *user, muster_status status),
                               void *user, struct muster_error *err);
/* The stream fails when it gets there. */
muster_status opencl_fail_later(struct opencl_stream *stream, struct muster_error *err);
/*
 * Makes all calls that are left, with `status` where they are not due, and ends the thread. False if
 * one does not come back by `deadline_ns`: then the thread is left alone.
 */
bool opencl_watcher_stop(struct opencl_device *device, uint64_t deadline_ns, muster_status status);

/* kernel.c */

muster_status opencl_kernel_init(void *device, const struct muster_kernel_form *form, void *kernel,
                                 struct muster_error *err);
void opencl_kernel_deinit(void *kernel);
muster_status opencl_launch(void *stream, void *kernel, const struct muster_launch_desc *launches,
                            size_t count, struct muster_error *err);

#endif
