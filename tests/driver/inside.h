/*
 * What the files of the tests' CUDA driver share.
 *
 * It keeps the semantics of the real one that a caller can get wrong: contexts that are current on a
 * thread, streams that run beside each other, waits that bind to the last record issued, copies of
 * pageable memory that wait, errors that stay. Each stream is a thread; streams synchronise with each
 * other only where CUDA says so, and not by locks of the driver's own, so that ThreadSanitizer sees
 * two operations that nothing orders.
 *
 * The declarations are ours, after the documentation: names, numbers and layouts are those of CUDA.
 */
#ifndef TEST_CUDA_INSIDE_H
#define TEST_CUDA_INSIDE_H

#include "control.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct context *CUcontext;
typedef struct green *CUgreenCtx;
typedef struct stream *CUstream;
typedef struct event *CUevent;
typedef struct module *CUmodule;
typedef struct function *CUfunction;
typedef struct pool *CUmemoryPool;
typedef void (*CUhostFn)(void *user);

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_INVALID_PTX = 218,
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_ERROR_INVALID_RESOURCE_TYPE = 914,
    CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION = 915,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_NOT_PERMITTED = 800,
    CUDA_ERROR_NOT_SUPPORTED = 801
};

#define EXPORT __attribute__((visibility("default")))

/* Declares and begins to define a function of the interface. */
#define API(name, ...)                                                                             \
    EXPORT CUresult name(__VA_ARGS__);                                                             \
    EXPORT CUresult name(__VA_ARGS__)

/* --- settings.c: what machine this is, and what fails ----------------------------------------- */

#define DEVICES_MAX 16

struct settings {
    uint32_t devices, sms, compute, version, ptx, grid;
    int init;
    uint64_t memory;
    bool has_pools, has_gates, has_green, has_graphs;
};
extern struct settings settings;

/* One per function: how often it was called. */
struct site {
    const char *name; /* NULL until its first call */
    _Atomic uint64_t calls;
    _Atomic bool is_listed;
    struct site *next;
};

enum check {
    CHECK_NOTHING,
    CHECK_INIT,   /* cuInit has succeeded */
    CHECK_CONTEXT /* and a context is current, and it is sound */
};

CUresult site_begin(struct site *site, const char *name, enum check check);

/* The first line of every function of the interface. */
#define BEGIN(check)                                                                               \
    do {                                                                                           \
        static struct site site_;                                                                  \
        CUresult result_ = site_begin(&site_, __func__, check);                                    \
        if (result_ != CUDA_SUCCESS)                                                               \
            return result_;                                                                        \
    } while (0)

enum work { WORK_LAUNCH = 1, WORK_COPY = 2, WORK_OTHER = 4 };

/* What the next piece of work of this kind is to do beside its own: 0, or an error; or to hang. */
CUresult fault_of_work(enum work work, bool *hangs);
bool fault_hang_is_released(unsigned ticket);
unsigned fault_hang_ticket(void);

/* --- devices.c: devices, contexts, green contexts --------------------------------------------- */

enum kind {
    KIND_GREEN = 0x67726e31,
    KIND_STREAM,
    KIND_EVENT,
    KIND_MODULE,
    KIND_ALLOCATION,
    KIND_REGISTRATION,
    KIND_POOL,
    KIND_GRAPH,
    KIND_GONE
};

/* The head of everything that a context owns. */
struct object {
    enum kind kind;
    struct device *device;
    struct object *next, *previous;
};

struct context {
    struct device *device;
    uint32_t sms; /* of the device, or of the green context */
    struct stream *legacy;
};

/* The streams of a device share this many queues; nobody gets more than this ahead of a stream. */
#define QUEUES 8
#define QUEUED_MAX 1000

struct device {
    uint32_t index;
    struct context primary;
    pthread_mutex_t lifecycle; /* held while the context is made or ended */
    pthread_mutex_t mutex;     /* of the list and the references; for calls of the host only */
    uint32_t references;
    struct object *objects;
    _Atomic CUresult sticky; /* the error that ended the context */
    _Atomic bool is_ending;  /* its last reference is gone: streams drop what they have */
    _Atomic uint64_t used_bytes;
    pthread_mutex_t memory_mutex; /* of the ranges in memory.c */
    /* Operations that were given to a queue, and those that it has got past. */
    _Atomic uint64_t given[QUEUES], passed[QUEUES];
    _Atomic uint32_t sharing[QUEUES]; /* streams that have work */
    _Atomic uint32_t performing;      /* operations that touch memory just now */
};

extern struct device devices[DEVICES_MAX];
extern _Atomic bool is_initialised;
extern _Thread_local bool in_host_function;
extern _Atomic uint64_t objects_left_behind;

struct context *context_current(void);
/* Whether work of the device is to be dropped. */
bool device_is_over(struct device *device);
void device_poison(struct device *device, CUresult error);
/* Who is told that a context has ended is told when nothing of it touches memory any more. */
void device_come_to_rest(struct device *device);

void object_add(struct object *object, enum kind kind, struct device *device);
void object_remove(struct object *object);
#define IS(pointer, kind_) ((pointer) && (pointer)->object.kind == (kind_))

/* --- streams.c: streams, events, what they run ------------------------------------------------ */

enum operation_kind {
    OPERATION_COPY,
    OPERATION_FILL,
    OPERATION_LAUNCH,
    OPERATION_NOTHING, /* only lets go of its payload */
    OPERATION_RECORD,
    OPERATION_WAIT,
    OPERATION_WAIT_VALUE,
    OPERATION_WRITE_VALUE,
    OPERATION_HOST
};

/* What one cuEventRecord stands for; waits keep it. */
struct record {
    _Atomic uint32_t references;
    pthread_mutex_t mutex;
    pthread_cond_t reached;
    bool is_reached;
    uint64_t at_ns;
};

struct operation {
    enum operation_kind kind;
    struct operation *next;
    uint64_t turn;   /* in its queue */
    CUresult poison; /* 0: none */
    bool hangs;
    unsigned hang_ticket;
    void *to;
    const void *from;
    size_t bytes;
    uint64_t value;
    struct record *record;
    CUhostFn function; /* of the host */
    void *user;
    void (*run)(void *payload);  /* OPERATION_LAUNCH */
    void (*drop)(void *payload); /* also when the operation is not done */
    void *payload;               /* owns */
};

struct stream {
    struct object object;
    _Atomic uint32_t references; /* its own, and of those that drain the device */
    uint64_t number;             /* younger ones have greater ones */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct operation *head, *tail;
    uint64_t issued, finished;
    bool is_closed;
    _Atomic bool is_done; /* the thread has left */
    _Atomic bool
        is_dead;    /* drops all it is given, also when its context is said to be sound again */
    bool is_zombie; /* destroyed, its thread not joined yet */
    int priority;
    unsigned flags;
    uint32_t queue;
};

/* The stream a handle means: NULL and CU_STREAM_LEGACY are the context's default stream. */
CUresult stream_resolve(CUstream handle, struct stream **out);
CUresult stream_make(struct context *context, unsigned flags, int priority, struct stream **out);
CUresult stream_give(struct stream *stream, const struct operation *operation);
/* Owns the payload from here on, also when it fails. */
CUresult stream_give_launch(struct stream *stream, void (*run)(void *payload),
                            void (*drop)(void *payload), void *payload);
/* Waits until all that was given is over; answers the context's error. */
CUresult stream_drain(struct stream *stream);
/* The same for every stream that there is by now, but not for those made meanwhile. */
void streams_drain(struct device *device);
void stream_end(struct stream *stream); /* the device is ending */
void streams_kill(struct device *device);
void event_free(struct object *object);

/* --- memory.c --------------------------------------------------------------------------------- */

void memory_end(struct object *object); /* allocation, registration, pool */

/* --- modules.c -------------------------------------------------------------------------------- */

struct launch;
struct test_dimensions;

void module_end(struct object *object);
CUresult launch_make(struct function *function, const struct test_dimensions *grid,
                     const struct test_dimensions *block, unsigned shared_bytes, void **parameters,
                     void **extra, struct launch **out);
struct launch *launch_copy(const struct launch *launch); /* the caller's; NULL: no memory */
void launch_run(const struct launch *launch);

/* --- graphs.c --------------------------------------------------------------------------------- */

void graph_end(struct object *object);

#endif
