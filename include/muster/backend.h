/*
 * To add a backend: a constant table of functions that drive one kind of device.
 *
 * backend -> device -> stream -> event, and memory, gates and kernels of a device. The runtime
 * allocates the private state of each object, zeroed, in the sizes the table gives, and hands it to
 * every call; a backend needs no allocation of its own for them. A table is registered in
 * muster_options.backends, or exported by a shared object (MUSTER_BACKEND_EXPORT).
 *
 * What every backend keeps:
 *
 * - Threads. open, close, device_open, device_close and the slice calls never overlap within one
 *   backend. Everything else may be called from any thread, with these limits: calls on one
 *   stream do not overlap; nor does event_record or event_deinit with anything on the same event
 *   but queries. event_query, event_wait and device_sample may overlap with anything. A backend
 *   binds what its driver binds to threads (a current CUDA context) on entry and restores it.
 * - Order. Operations on a stream take effect in the order given. An operation only enqueues: it
 *   must not wait for other work. What it was given by pointer is copied before it returns,
 *   except host memory of copies, the `result` of launches and `user` pointers.
 * - Waits bind to the past. stream_wait(stream, event) refers to the last event_record already
 *   issued for the event; an event never recorded is complete. Recording an event again does not
 *   disturb waits already given. So no set of calls can make streams wait for each other in a
 *   circle. One-shot events (OpenCL) are replaced at each record.
 * - Progress. Work that another stream or the host waits for is running or will run without a
 *   further call: a backend whose driver holds work back flushes in event_record.
 * - Failures. A call returns a negative status by group (status.h) and fills `err` with the
 *   driver's code and words. A kernel that reports a failure writes it to launch.result; without
 *   one, and for a failed copy or fill, the stream fails: what follows on it is skipped, events
 *   recorded on it from then on complete with the failure, and a stream that waits for such an
 *   event fails too. A lost device (a poisoned context) answers every call MUSTER_E_DEVICE_LOST
 *   at once, completes all unfinished events with it, and its state can still be closed. Nothing
 *   is reset behind the application's back.
 * - Host calls that were accepted run exactly once, in stream order, also when the stream has
 *   failed or the device is lost. A failed stream accepts calls and skips what they ask for; a
 *   launch that is skipped writes MUSTER_E_STREAM_FAILED to its result. What completed before a
 *   loss keeps its own status.
 * - An event and the streams it is recorded and waited on belong to one device; another is
 *   refused: by event_record with MUSTER_E_INVALID, by stream_wait with MUSTER_E_NOT_SUPPORTED.
 * - Memory that does not fit, now or ever, is MUSTER_E_DEVICE_MEMORY: the runtime knows which.
 */
#ifndef MUSTER_BACKEND_H
#define MUSTER_BACKEND_H

#include <muster/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Changes whenever the meaning or the order of what follows changes. New slots are added at the
 * end, guarded by `size`.
 */
#define MUSTER_BACKEND_ABI 2

/*
 * What every device has room for: with MUSTER_HELD_STREAMS_MIN streams held by gates another stream
 * still runs, and MUSTER_QUEUED_MIN operations can be queued on a stream after a closed gate. A GPU
 * has few queues, which its streams share; a driver call that would queue much more blocks.
 */
#define MUSTER_HELD_STREAMS_MIN 4
#define MUSTER_QUEUED_MIN 256
/* Of these, host calls and copies from or to memory that is not registered, which need one. */
#define MUSTER_QUEUED_CALLS_MIN 32

/* What the runtime lends to a backend from open to close. */
struct muster_services {
    size_t size;
    const struct muster_allocator *allocator; /* never NULL */
    void (*log)(const struct muster_services *services, enum muster_log_level level,
                const char *text);
    const char *sim;      /* the description of simulated devices, NULL if none */
    uint32_t cpu_workers; /* as in muster_options */
    /*
     * Where host memory that the runtime allocates lies in a file, so that other processes can map it; NULL: it lies in none.
     * Answers how many of the `bytes` from `memory` on lie together there, from *offset on: fewer where a ring begins
     * again, 0 if they are not there. Any thread.
     */
    uint64_t (*host_file_find)(const struct muster_services *services, const void *memory,
                               uint64_t bytes, uint64_t *offset);
    int host_file; /* its descriptor, borrowed until close; only meant if there is such a file */
    uint64_t
        host_file_bytes; /* to map it as a whole; what the runtime has not allocated is holes */
};

/* Device memory: filled by memory_allocate, or declared by the user. */
struct muster_memory {
    uint64_t address; /* 0 where memory has no address */
    void *object;     /* NULL where memory is no object */
    uint64_t bytes;
};

/* A place in device memory, or in host memory if `memory` is NULL. */
struct muster_place {
    const struct muster_memory *memory; /* borrowed for the call */
    uint64_t offset;
    void *host; /* borrowed until the operation has finished; only read if it is the source */
};

struct muster_copy_desc {
    struct muster_place to, from;
    uint64_t bytes; /* never 0 */
};

/* One resolved argument of a launch. */
struct muster_launch_arg {
    const struct muster_memory *memory; /* NULL: a value */
    uint64_t offset;
    const void *value;
    size_t bytes;
    /*
     * Not 0 in a launch in pieces: the argument is an array that is read and written, and this is the
     * size of an item; item i of the launch lies at `offset` + i x `item_bytes`.
     */
    size_t item_bytes;
};

/*
 * A launch in pieces, on a device with MUSTER_CAN_RUN_IN_PIECES: one that ends early, because the
 * kernel fails or it is stopped, leaves its arrays with `item_bytes` as if only the first items had
 * been given. These are done, and all others are as they were. Where the kernel fails, it ends at
 * most a piece of MUSTER_PIECE_BYTES_MAX bytes before the item that failed. While the launch runs,
 * other items may be changed and changed back; one that hangs leaves its arrays in no known state. No
 * other argument may share memory with such an array.
 *
 * Where no argument has `item_bytes` the launch can only be stopped: then it ends within some
 * milliseconds, with MUSTER_OK, and nothing can be said of what it has written.
 */
struct muster_pieces {
    uint64_t grain; /* a multiple of this many items is done, or all; 0: 1 */
    uint64_t state; /* 0 when the launch is given; then used by the functions below alone */
};

/* Most bytes of `grain` items of all such arrays together; more is MUSTER_E_TOO_LARGE. */
#define MUSTER_PIECE_BYTES_MAX 65536
/* Most arguments that are such arrays; more is MUSTER_E_TOO_LARGE. */
#define MUSTER_PIECE_ARGS_MAX 8

/* Of `state`: nothing further is begun. Above: the number of items that are done. */
#define MUSTER_PIECES_STOPPED 1
#define MUSTER_PIECES_SHIFT 1

/* How many items from the first on are done; final when the launch has ended. Any thread. */
static inline uint64_t muster_pieces_done(const struct muster_pieces *pieces)
{
    return __atomic_load_n(&pieces->state, __ATOMIC_ACQUIRE) >> MUSTER_PIECES_SHIFT;
}

/* The launch ends soon, with the items that are done by then. Any thread, at any time. */
static inline void muster_pieces_stop(struct muster_pieces *pieces)
{
    __atomic_fetch_or(&pieces->state, MUSTER_PIECES_STOPPED, __ATOMIC_ACQ_REL);
}

enum muster_launch_flags {
    /* May run before, beside or after the other launches of the same call. */
    MUSTER_LAUNCH_UNORDERED = 1,
    /* May crash: the caller looks for the item that does. A restart because of it is not counted. */
    MUSTER_LAUNCH_SUSPECT = 2
};

struct muster_launch_desc {
    uint64_t begin, items; /* items is never 0 */
    const struct muster_launch_arg *args;
    size_t arg_count;      /* at most MUSTER_ARGS_MAX */
    muster_status *result; /* NULL, or where the kernel's failure goes; written before any later
                              event completes, and left alone by one that goes well */
    uint32_t flags;        /* enum muster_launch_flags, or-ed */
    struct muster_pieces *pieces; /* NULL, or in pieces; borrowed until the launch has ended */
};

struct muster_device_sample {
    uint64_t memory_free, memory_total;
    double utilisation;   /* negative: unknown */
    double temperature_c; /* below -273: unknown */
};

enum muster_event_flags {
    MUSTER_EVENT_ORDER = 0, /* for stream_wait, event_query, event_wait */
    /* For event_elapsed, and event_query and event_wait; refused by stream_wait. */
    MUSTER_EVENT_TIMING = 1
};

struct muster_backend {
    size_t size;
    uint32_t abi;     /* MUSTER_BACKEND_ABI */
    const char *name; /* lower case, at most 15 characters: the part of an id before the colon */
    size_t backend_bytes, device_bytes, stream_bytes, event_bytes, gate_bytes, kernel_bytes;

    /*
     * Finds the driver and the devices. MUSTER_E_NOT_FOUND: this machine has none, which is no
     * fault. Sets how many there are.
     */
    muster_status (*open)(void *backend, const struct muster_services *services,
                          uint32_t *device_count, struct muster_error *err);
    void (*close)(void *backend);

    /*
     * Fills everything of `info` that is within info->size, but id, backend, parent and
     * streams_max. `domain` counts within the backend.
     */
    muster_status (*device_open)(void *backend, uint32_t index, void *device,
                                 struct muster_device_info *info, struct muster_error *err);
    /*
     * All streams, events, gates and slices of the device are gone, and memory and kernels too,
     * unless the device hangs: then what it still holds goes with it. MUSTER_E_DEVICE_HUNG:
     * something of it still runs and cannot be stopped, so nothing that it was given may be freed,
     * its state included. Does not wait for that.
     */
    muster_status (*device_close)(void *device);
    /* May ask the driver and block. Called by the poller only. */
    muster_status (*device_sample)(void *device, struct muster_device_sample *sample,
                                   struct muster_error *err);

    /*
     * Slices, optional: plan all, or refuse with the sizes that would fit; then open each. unplan
     * after all are closed.
     */
    muster_status (*slice_plan)(void *device, const uint32_t *sizes, size_t count,
                                struct muster_error *err);
    muster_status (*slice_open)(void *device, size_t index, void *slice,
                                struct muster_device_info *info, struct muster_error *err);
    void (*slice_unplan)(void *device);

    /*
     * Memory. In stream order where the device can; elsewhere at once, and then memory_free is
     * called only when the device has finished with it. `bytes` is never 0.
     */
    muster_status (*memory_allocate)(void *device, void *stream, uint64_t bytes,
                                     struct muster_memory *out, struct muster_error *err);
    muster_status (*memory_free)(void *device, void *stream, struct muster_memory *memory,
                                 struct muster_error *err);
    /* Registers host pages for fast copies. Optional: copies work without. */
    muster_status (*host_register)(void *device, void *memory, size_t bytes,
                                   struct muster_error *err);
    void (*host_unregister)(void *device, void *memory);

    /*
     * `is_default`: the device's default stream, which close does not destroy. A priority outside
     * info's range is refused with MUSTER_E_NOT_SUPPORTED.
     */
    muster_status (*stream_open)(void *device, int32_t priority, int is_default, void *stream,
                                 struct muster_error *err);
    /* Does not wait; what was given is still finished, unless the device is closed before. */
    void (*stream_close)(void *stream);
    void *(*stream_native)(void *stream);
    muster_status (*stream_wait)(void *stream, void *event, struct muster_error *err);
    muster_status (*stream_query)(void *stream,
                                  struct muster_error *err); /* MUSTER_E_BUSY, or how it went */

    muster_status (*event_init)(void *device, uint32_t flags, void *event,
                                struct muster_error *err);
    void (*event_deinit)(void *event); /* allowed while waits on it are queued */
    muster_status (*event_record)(void *event, void *stream, struct muster_error *err);
    muster_status (*event_query)(void *event,
                                 struct muster_error *err); /* MUSTER_E_BUSY, or how it went */
    muster_status (*event_wait)(void *event, uint64_t timeout_ns, struct muster_error *err);
    /* Optional. */
    muster_status (*event_elapsed)(void *begin, void *end, uint64_t *ns, struct muster_error *err);

    /*
     * Gates, optional: a generation counter that streams can wait for. A value counts as reached
     * from `value` up; values stay below 2^63, since devices compare them cyclically.
     */
    muster_status (*gate_init)(void *device, void *gate, struct muster_error *err);
    void (*gate_deinit)(void *gate); /* every wait on it has been released */
    muster_status (*gate_publish)(void *gate, uint64_t value,
                                  struct muster_error *err); /* by the host, at once */
    muster_status (*gate_wait)(void *gate, void *stream, uint64_t value, struct muster_error *err);

    muster_status (*copy)(void *stream, const struct muster_copy_desc *copy,
                          struct muster_error *err);
    muster_status (*fill)(void *stream, const struct muster_place *to, uint8_t value,
                          uint64_t bytes, struct muster_error *err);
    /*
     * Optional. Calls function(user, status) on a thread of the backend when the stream gets there;
     * it must not call the backend.
     */
    muster_status (*host_call)(void *stream, void (*function)(void *user, muster_status status),
                               void *user, struct muster_error *err);

    /*
     * Kernels, optional: a device without them says so in info.forms. Builds a form, of a kind that
     * info.forms has, for a device. The form and all it points to live until kernel_deinit.
     */
    muster_status (*kernel_init)(void *device, const struct muster_kernel_form *form, void *kernel,
                                 struct muster_error *err);
    void (*kernel_deinit)(void *kernel);
    /*
     * `count` launches of one kernel, in order unless their flags say otherwise; a backend that can
     * gives them to its driver as one. On failure those before the one that failed may have been
     * given.
     */
    muster_status (*launch)(void *stream, void *kernel, const struct muster_launch_desc *launches,
                            size_t count, struct muster_error *err);

    /*
     * Optional: whether copies between this host memory and the device are as fast as they can be;
     * if not, it pays to pass them through registered memory. Without this they always are.
     */
    int (*host_is_fast)(void *device, const void *memory, size_t bytes);

    /*
     * Optional: whether `open` and device_open may take longer than a job should wait for them. Called
     * before `open`, from any thread; answers at once, without the driver. If so, sets how many devices
     * there will probably be. A job that names no devices then starts without them, with room for that
     * many. The backend is opened when the job turns out to be long, or jobs were many; its devices join the
     * job then. Without this, everybody waits for `open`.
     */
    int (*is_slow)(uint32_t *device_count);

    /*
     * Optional, for devices in a process of their own that may end and be started again: a number that
     * grows each time. Streams, events, kernels and memory stay, but what the memory held is gone, and
     * work that had not finished has failed: launches that may be to blame with MUSTER_E_CRASHED or, after
     * device_stop, MUSTER_E_TIMEOUT, all else with MUSTER_E_STREAM_FAILED. Any thread; answers at once.
     */
    uint64_t (*device_generation)(void *device);
    /*
     * Optional: ends all that the device does, by force and at once; 0 if its process is being started
     * just now, so that nothing was running. Any thread; answers at once, also with locks of the runtime's.
     */
    int (*device_stop)(void *device);
    /* Optional: how the device's last process ended, "" if none has: "SIGSEGV at 0x0 in scale". Any thread. */
    void (*device_explain)(void *device, char *text, size_t bytes);

    /*
     * Optional: as stream_open, for work that stays: it runs on a part of the device's cores, of at least
     * `*cores` (0: the smallest), and leaves the others to other work. Sets how many there are.
     * MUSTER_E_NOT_SUPPORTED: the device cannot be cut, or not any more.
     */
    muster_status (*stream_open_apart)(void *device, uint32_t *cores, void *stream,
                                       struct muster_error *err);

    /*
     * Optional: around a function of the user's that enqueues on the stream's native handle. Makes current in
     * the calling thread what the driver expects to be current, a context say, and undoes that. Calls may
     * be nested.
     */
    muster_status (*native_enter)(void *stream, struct muster_error *err);
    void (*native_leave)(void *stream);
};

/*
 * A shared object's entry: returns its table, which must live as long as the object is loaded. The
 * runtime checks `abi` and `size` and refuses what it does not know; slots left NULL that are
 * optional become "not supported".
 */
#define MUSTER_BACKEND_ENTRY "muster_backend_entry"
#ifdef __cplusplus
#define MUSTER_BACKEND_LINKAGE extern "C"
#else
#define MUSTER_BACKEND_LINKAGE
#endif
#define MUSTER_BACKEND_EXPORT(table)                                                               \
    MUSTER_BACKEND_LINKAGE MUSTER_API const struct muster_backend *muster_backend_entry(void);     \
    const struct muster_backend *muster_backend_entry(void)                                        \
    {                                                                                              \
        return &(table);                                                                           \
    }

/*
 * Fills an error from printf-like arguments, for backends outside the tree; returns `status`. `err`
 * may be NULL.
 */
MUSTER_API muster_status muster_error_fill(struct muster_error *err, muster_status status,
                                           int driver_code, const char *fix, const char *format,
                                           ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 5, 6), cold))
#endif
    ;

#ifdef __cplusplus
}
#endif

#endif
