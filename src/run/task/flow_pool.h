/*
 * What the pool keeps of tasks with accesses (run/task/flow.h).
 */
#ifndef RUN_TASK_FLOW_POOL_H
#define RUN_TASK_FLOW_POOL_H

#include "core/dispatch.h"
#include "platform/thread.h"
#include "run/memory/memory.h"

#include <muster/task.h>

typedef muster_status (*task_function)(void *user);

enum flow_kind {
    FLOW_BODY,
    FLOW_BEGIN,  /* writes the identity of a reduction to a contribution */
    FLOW_COMBINE /* adds contributions to the part that they are of */
};

struct flow_use {
    struct run_data *data; /* borrowed: in use until the task has ended */
    uint32_t mode;         /* enum muster_mode */
    uint32_t part;         /* core's */
};

/* An argument of its kernel. */
struct flow_arg {
    uint8_t kind;           /* MUSTER_ARG_VALUE, MUSTER_ARG_ACCESS or MUSTER_ARG_PITCH */
    uint8_t index;          /* of the access */
    uint16_t bytes, offset; /* of a value, and where it is in `values` */
};

/* What a task with accesses keeps, where its body is given pointers. */
struct flow_task {
    struct flow_task *next; /* among the spare ones */
    enum flow_kind kind;
    task_function fn;
    muster_status (*enqueue)(void *user, const struct muster_native *native); /* on the host */
    void *user;
    uint32_t count;
    struct flow_use uses[MUSTER_ACCESSES_MAX];

    /* Of tasks that core finds a device for. */
    uint32_t index;       /* in the table */
    bool is_timed;        /* core learns from it */
    muster_status status; /* of one that ends without being run */
    uint64_t elapsed_ns;  /* what its body took */
    struct muster_kernel *kernel;
    uint64_t items;
    uint32_t arg_count, body_count, tries;
    struct flow_arg args[MUSTER_ARGS_MAX];
    struct muster_body bodies[MUSTER_BODIES_MAX]; /* `backend` is the table's name of it */
    _Alignas(16) unsigned char values[MUSTER_ARG_BYTES_MAX];
};

/* Where an instance's bytes are. */
struct flow_instance {
    muster_block block; /* generation 0: no memory yet */
    uint32_t place;
};

/* Something for a thread of a device: a copy, a task, or memory to be given back. */
enum flow_work_kind { FLOW_WORK_FREE, FLOW_WORK_COPY, FLOW_WORK_TASK };
struct flow_work {
    struct flow_work *next;
    enum flow_work_kind kind;
    muster_block block;
    struct dispatch_copy copy;
    struct shape shape, from_shape; /* of the copy's part, and of the part that it is in */
    struct run_data *whole;
    struct flow_task *task;
};

/* Threads of a device at work on tasks with accesses; copies are made beside tasks. */
#define FLOW_THREADS 3u
/* Tasks that a device with memory of its own is given at a time. */
#define FLOW_AT_ONCE 2u

struct flow_device;
struct flow_thread {
    struct flow_device *device;
    struct platform_thread thread;
    muster_stream stream; /* generation 0: none yet */
    char *staging;        /* pinned */
    bool is_started, has_left;
    bool is_busy; /* in a call of the driver, or in a body */
    const struct run_data
        *whole; /* whose bytes it copies, also after its device is lost; NULL: none */
};

/* A device of core's dispatch. */
struct flow_device {
    struct task_pool *pool;
    struct run_device *device;
    muster_device handle;
    uint32_t index, place;
    uint32_t at_once, running;
    uint32_t failures; /* one after the other, that may be the device's */
    bool is_lost;
    struct flow_work *first, *last; /* own */
    struct platform_condition wake; /* with the pool's lock */
    struct flow_thread threads[FLOW_THREADS];
    uint32_t thread_count;
};

/* The host has asked for data. With the pool's lock. */
struct flow_gate {
    struct flow_gate *next;
    muster_data data;
    muster_task task;
    bool is_open, is_left; /* its turn has come; nobody waits for that any more */
    bool is_last;          /* of data that goes */
    bool is_job;           /* a job's: flow_let_go ends it */
    uint64_t writes;       /* of the data, submitted before it */
    muster_status status;  /* when it is open */
    struct flow_cause cause;
    struct flow_run *run; /* whose gate it is; NULL: the caller's */
};

struct flow_run; /* flow_graph.h */

/* What core calls a handle's data; by the handle's index. */
struct flow_slot {
    uint32_t generation; /* 0: core does not know it */
    uint32_t part;
    uint32_t datum; /* of a whole, else FLOW_NONE */
    uint32_t turn;  /* the contribution of the task that is being submitted */
    struct run_data *data;
};

struct flow_chunk;

/* What a task is called, and why it did not run; kept as long as how it ended. */
struct flow_note {
    uint32_t generation;
    uint32_t cancelled; /* tasks that were cancelled because of it */
    muster_task cause;  /* of one that was cancelled */
    char name[48];
};

/* What tasks that are to be submitted need. */
struct flow_needs {
    uint32_t records;
    uint32_t uses;
};

struct flow_pool {
    struct flow *core; /* NULL before the first task with accesses */
    void *memory;      /* owns: core's */
    struct flow_slot *slots;
    uint32_t slot_count;
    uint64_t uses; /* accesses of open tasks */
    struct flow_task *spare;
    uint32_t spare_count, record_count;
    struct flow_chunk *chunks;     /* owns */
    struct flow_gate *gates;       /* owns */
    struct flow_gate *ended_gates; /* owns: whose tasks have ended */
    struct flow_note *notes; /* owns: one for each place of the table; NULL before the first name */
    bool has_reductions;
    struct flow_run *runs; /* of graphs, under way; own */

    /* Devices with memory of their own: NULL before the first task that may run on one. */
    struct dispatch *dispatch;
    void *dispatch_memory;                             /* owns */
    struct flow_device *devices[DISPATCH_DEVICES_MAX]; /* own */
    uint32_t device_count;
    size_t dispatch_bytes;
    struct flow_instance *instances;      /* by core's number of them; in `memory` */
    struct run_data **wholes;             /* by core's number of the datum; in `memory`, borrowed */
    struct flow_work *works, *spare_work; /* owns; those that are not in use */
    uint32_t spare_work_count;
    bool is_making, is_pumping, must_stop;
    bool has_parts;
    struct flow_rates
        *rates;        /* owns: flow_rates.c; NULL before the dispatch, and what was loaded */
    muster_device cpu; /* where bodies for `cpu` run */
    bool has_cpu;
    bool has_sought_cpu; /* bodies for `cpu` run nowhere if it was not found */
};

#endif
