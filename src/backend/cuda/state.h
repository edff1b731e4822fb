/*
 * The backend's own objects.
 *
 * A domain is what a GPU's primary context holds together: the whole device and all its slices use
 * the same memory, the same watcher and are lost together. Slices differ in where their streams
 * run and in nothing else: a slice's green context is never made current, since only one thread at
 * a time may do that, and needs not be, since its streams know it.
 */
#ifndef BACKEND_CUDA_STATE_H
#define BACKEND_CUDA_STATE_H

#include "backend/cuda/driver.h"
#include "backend/cuda/nvml.h"
#include "platform/thread.h"

#include <muster/backend.h>
#include <stdatomic.h>

#define CUDA_SLICES_MAX 64
#define CUDA_GRAPH_NODES_MAX 64
#define CUDA_GRAPHS_OF_QUEUE 4
/*
 * How long a device that is closed is waited for: for work that should be over, and for a thread
 * that a busy machine lets wait.
 */
#define CUDA_CLOSE_GRACE_NS 250000000u

struct cuda_backend {
    const struct muster_services *services; /* borrowed until close */
    struct cuda_driver driver;
    struct cuda_nvml nvml;
    int device_count;
    struct platform_mutex registering;
    struct cuda_registration *registrations; /* owns; under that lock */
};

/* How a device is cut: groups of multiprocessors, dealt out to the slices in turn. */
struct cuda_cut {
    cuda_resource *groups; /* owns; the last is the rest, which makes no whole group */
    uint32_t capacity;
    uint32_t group_count, step;
    uint32_t slice_count;
    struct cuda_cut_slice {
        uint32_t size, first, count; /* groups */
    } slices[CUDA_SLICES_MAX];
};

/* Host memory of the driver's that devices can see, kept for the next who needs some. */
enum cuda_pinned_kind {
    CUDA_PINNED_STAGE,
    CUDA_PINNED_STAGE_LARGE,
    CUDA_PINNED_RECORDS,
    CUDA_PINNED_GATES,
    CUDA_PINNED_KINDS
};
struct cuda_pinned {
    struct cuda_pinned *next;
    unsigned char *host; /* owns */
    cuda_pointer device;
    uint64_t free_words; /* of CUDA_PINNED_GATES: bit i for a gate's word */
};

/* A host call that was given and has not returned. */
enum cuda_call_state { CUDA_CALL_FREE, CUDA_CALL_GIVING, CUDA_CALL_GIVEN, CUDA_CALL_RUNNING };
struct cuda_call {
    void (*function)(void *user, muster_status status);
    void *user; /* borrowed until the call */
    struct cuda_queue *queue;
    enum cuda_call_state state;
    uint32_t serial;         /* tells uses of the same place apart */
    uint32_t next, previous; /* in the order given; `next` also of free places */
};

struct cuda_domain {
    struct cuda_backend *backend;
    cuda_device_number number;
    cuda_context context; /* the primary context; retained */
    cuda_pool pool;       /* owns; NULL where the device has none */
    /* For memory that names no stream. Nothing else is ever given to it, so it is always idle. */
    cuda_stream_handle service; /* owns */
    struct muster_device_info info;
    uint32_t blocks_max; /* of a grid's first side */
    uint32_t slot;       /* in the table of domains that calls look themselves up in */
    _Atomic uint64_t kernels_made;
    _Atomic uint32_t
        streams_apart; /* made so far: each has other multiprocessors, as long as there are some */

    _Atomic cuda_result lost; /* 0, or what made the context unusable; set once */
    struct platform_mutex lock;
    struct platform_condition changed;
    struct platform_thread watcher;
    /* Under the lock: */
    bool is_closing;
    struct cuda_call *calls; /* owns */
    uint32_t call_capacity, call_free, call_first, call_last;
    uint32_t calls_given, calls_running;
    struct cuda_queue *queues;                     /* all that the driver still has */
    struct cuda_pinned *pinned[CUDA_PINNED_KINDS]; /* idle ones; gates: all */
};

struct cuda_device {
    struct cuda_domain *domain; /* `own`, or the parent's */
    struct cuda_domain own;
    cuda_green_context green;          /* owns; NULL: the whole device */
    cuda_stream_handle default_stream; /* of a slice: owns */
    /* Of a whole device that is cut: */
    struct cuda_cut *cut; /* owns */
    bool is_abandoned;    /* closed while it hung; under the domain's lock */
};

/* A batch of launches of one kernel, kept to be given again with other parameters. */
struct cuda_graph {
    uint64_t kernel; /* its number: handles of the driver's may come back as another's */
    uint32_t size, uses;
    bool is_ordered;
    uint64_t used_at;            /* counts uses of all graphs of the stream */
    cuda_graph_handle graph;     /* owns; NULL until it is worth while */
    cuda_graph_exec_handle exec; /* likewise */
    cuda_graph_node_handle nodes[CUDA_GRAPH_NODES_MAX];
};

/*
 * A stream as the driver has it. Outlives stream_close until its work is over, which is how
 * device_close knows what still runs.
 */
struct cuda_queue {
    struct cuda_queue *next;
    struct cuda_device *device;
    cuda_stream_handle handle;
    cuda_event_handle tail; /* the end of a closed default stream: others go on using that */
    bool is_default, is_closed;
    cuda_green_context green; /* owns: of a stream with cores of its own; else NULL */
    uint32_t calls;           /* given, under the domain's lock */
    uint32_t looks;           /* of the watcher, likewise */
    struct cuda_pinned *stage, *large_stage; /* NULL before the first copy that needs it */
    struct cuda_pinned *records;
    cuda_event_handle record_events[4]; /* the last use of each part of `records` */
    uint32_t record_part, record_used;
    struct cuda_graph *graphs; /* owns; CUDA_GRAPHS_OF_QUEUE, NULL before the first */
    uint64_t graph_uses;
    bool refuses_graphs;
};

struct cuda_stream {
    struct cuda_queue *queue;
};

struct cuda_event {
    struct cuda_device *device;
    cuda_event_handle handle;
    uint32_t flags;
    /* Records issued, and the last of them known to be complete; equal: nothing is awaited. */
    _Atomic uint64_t issued, done;
};

struct cuda_gate {
    struct cuda_device *device;
    struct cuda_pinned *page;
    uint32_t word;
    uint64_t base; /* what the word held before: it never goes back */
};

struct cuda_kernel {
    struct cuda_device *device;
    cuda_module module; /* owns */
    cuda_function function, batch;
    uint64_t number; /* no other kernel of the domain has or had it; from 1 */
    uint32_t threads;
    uint32_t parameter_count; /* UINT32_MAX: the driver does not tell */
    uint16_t parameter_bytes[MUSTER_ARGS_MAX + 3];
};

#define CUDA_LEADING_PARAMETERS 2 /* begin, items */

/* A launch's parameters as the driver takes them; does not move once set. */
struct cuda_parameters {
    uint64_t begin, items, addresses[MUSTER_ARGS_MAX];
    void *pointers[MUSTER_ARGS_MAX + CUDA_LEADING_PARAMETERS];
};

/*
 * Around every use of the driver: makes the domain's context current on entry unless it is, and
 * undoes that. The domain's loss is answered from its mark.
 */
struct cuda_scope {
    struct cuda_domain *domain;
    bool has_pushed;
};
muster_status cuda_enter(struct cuda_scope *scope, struct cuda_domain *domain,
                         struct muster_error *err);
/* `what` was asked of the driver, and its answer. */
muster_status cuda_leave(struct cuda_scope *scope, cuda_result result, const char *what,
                         struct muster_error *err);
/* The status of an answer; marks the domain if its context is gone. */
__attribute__((cold)) muster_status cuda_fail(struct cuda_domain *domain, cuda_result result,
                                              const char *what, struct muster_error *err);
muster_status cuda_check(struct cuda_domain *domain, struct muster_error *err);

/* domain.c */
muster_status cuda_domain_init(struct cuda_domain *domain, struct muster_error *err);
/* False if something of it still runs: then all of it stays. */
bool cuda_domain_deinit(struct cuda_domain *domain);
/* False if the device's streams still have work after a short while. */
bool cuda_domain_settle(struct cuda_device *device);
/* Has the calls made that a device which hangs still owes, and its streams left alone. */
void cuda_domain_abandon(struct cuda_device *device);
/* Gives the driver's streams back that are closed and have no more work. */
void cuda_domain_reap(struct cuda_domain *domain);
muster_status cuda_call_give(struct cuda_queue *queue,
                             void (*function)(void *user, muster_status status), void *user,
                             struct muster_error *err);

/* memory.c; NULL: the driver has none. With the context current. */
struct cuda_pinned *cuda_pinned_acquire(struct cuda_domain *domain, enum cuda_pinned_kind kind,
                                        struct muster_error *err);
void cuda_pinned_release(struct cuda_domain *domain, enum cuda_pinned_kind kind,
                         struct cuda_pinned *pinned);
void cuda_pinned_free_all(struct cuda_domain *domain);
size_t cuda_pinned_bytes(enum cuda_pinned_kind kind);

/* slice.c: a stream on multiprocessors of its own. With the context current. */
cuda_result cuda_queue_open_apart(struct cuda_device *device, uint32_t *cores,
                                  struct cuda_queue *queue);

/* kernel.c */
void cuda_parameters_set(struct cuda_parameters *parameters,
                         const struct muster_launch_desc *launch);
/* For a launch of at most cuda_items_at_once items, which a grid has a thread for each of. */
uint32_t cuda_blocks_for(const struct cuda_kernel *kernel, uint64_t items);
uint64_t cuda_items_at_once(const struct cuda_kernel *kernel);
/* As several grids if it has more. */
cuda_result cuda_launch_one(struct cuda_queue *queue, const struct cuda_kernel *kernel,
                            const struct muster_launch_desc *launch);

/* graph.c; with the context current. */
bool cuda_graphs_exist(const struct cuda_driver *driver);
/* Gives as many of the launches as make a graph, or none: returns how many. */
size_t cuda_graph_launch(struct cuda_queue *queue, const struct cuda_kernel *kernel,
                         const struct muster_launch_desc *launches, size_t count,
                         cuda_result *result);
void cuda_graphs_free(struct cuda_domain *domain, struct cuda_queue *queue);

/* host.c */
muster_status cuda_registrations_init(struct cuda_backend *backend, struct muster_error *err);
void cuda_registrations_deinit(struct cuda_backend *backend);

/* The slots of the table. */
muster_status cuda_slice_plan(void *device, const uint32_t *sizes, size_t count,
                              struct muster_error *err);
muster_status cuda_slice_open(void *device, size_t index, void *slice,
                              struct muster_device_info *info, struct muster_error *err);
void cuda_slice_unplan(void *device);
muster_status cuda_stream_open_apart(void *device, uint32_t *cores, void *stream,
                                     struct muster_error *err);
muster_status cuda_memory_allocate(void *device, void *stream, uint64_t bytes,
                                   struct muster_memory *out, struct muster_error *err);
muster_status cuda_memory_free(void *device, void *stream, struct muster_memory *memory,
                               struct muster_error *err);
int cuda_host_is_fast(void *device, const void *memory, size_t bytes);
muster_status cuda_host_register(void *device, void *memory, size_t bytes,
                                 struct muster_error *err);
void cuda_host_unregister(void *device, void *memory);
muster_status cuda_stream_open(void *device, int32_t priority, int is_default, void *stream,
                               struct muster_error *err);
void cuda_stream_close(void *stream);
void *cuda_stream_native(void *stream);
muster_status cuda_native_enter(void *stream, struct muster_error *err);
void cuda_native_leave(void *stream);
muster_status cuda_stream_wait(void *stream, void *event, struct muster_error *err);
muster_status cuda_stream_query(void *stream, struct muster_error *err);
muster_status cuda_event_init(void *device, uint32_t flags, void *event, struct muster_error *err);
void cuda_event_deinit(void *event);
muster_status cuda_event_record(void *event, void *stream, struct muster_error *err);
muster_status cuda_event_query(void *event, struct muster_error *err);
muster_status cuda_event_wait(void *event, uint64_t timeout_ns, struct muster_error *err);
muster_status cuda_event_elapsed(void *begin, void *end, uint64_t *ns, struct muster_error *err);
muster_status cuda_gate_init(void *device, void *gate, struct muster_error *err);
void cuda_gate_deinit(void *gate);
muster_status cuda_gate_publish(void *gate, uint64_t value, struct muster_error *err);
muster_status cuda_gate_wait(void *gate, void *stream, uint64_t value, struct muster_error *err);
muster_status cuda_copy(void *stream, const struct muster_copy_desc *copy,
                        struct muster_error *err);
muster_status cuda_fill(void *stream, const struct muster_place *to, uint8_t value, uint64_t bytes,
                        struct muster_error *err);
muster_status cuda_host_call(void *stream, void (*function)(void *user, muster_status status),
                             void *user, struct muster_error *err);
muster_status cuda_kernel_init(void *device, const struct muster_kernel_form *form, void *kernel,
                               struct muster_error *err);
void cuda_kernel_deinit(void *kernel);
muster_status cuda_launch(void *stream, void *kernel, const struct muster_launch_desc *launches,
                          size_t count, struct muster_error *err);

#endif
