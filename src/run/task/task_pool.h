/*
 * The tasks of a runtime, shared by the files that run them: task.c (the table, functions on the
 * host, waiting), kernel_task.c (what a task with a kernel keeps, and where it may run) and
 * task_lane.c (giving it to a device and hearing how it ended).
 *
 * Locks, in the order in which they may be taken: a lane's, then the pool's or the runtime's, never
 * both of these. No lock is held while user code runs or a backend is called.
 */
#ifndef RUN_TASK_POOL_H
#define RUN_TASK_POOL_H

#include "core/tasks.h"
#include "run/memory/kernel.h"
#include "run/memory/memory.h"
#include "run/place/place.h"
#include "run/task/tasks.h"
#include "run/task/trace.h"

#include <muster/task.h>

/* Tasks that one thread takes at once, if there are enough for all. */
#define TAKEN_AT_ONCE 64u
/* Words of a set of devices: all that a runtime may have. */
#define TASK_DEVICE_WORDS (DEVICES_MAX / 64)
/* How often a kernel task is run at most. */
#define KERNEL_TRIES 3u

typedef muster_status (*task_function)(void *user);
typedef void (*done_function)(void *user, muster_task task, muster_status status);

/* A set of devices, by index; of the words those that are counted are there. */
struct device_set {
    uint32_t word_count;
    uint64_t words[TASK_DEVICE_WORDS];
};

/* Empty, for the first `devices` devices. */
static inline void device_set_clear(struct device_set *set, uint32_t devices)
{
    set->word_count = (devices + 63) / 64;
    for (uint32_t i = 0; i < set->word_count; i++)
        set->words[i] = 0;
}

static inline void device_set_copy(struct device_set *to, const struct device_set *from)
{
    to->word_count = from->word_count;
    for (uint32_t i = 0; i < from->word_count; i++)
        to->words[i] = from->words[i];
}

static inline void device_set_add(struct device_set *set, uint32_t device)
{
    set->words[device / 64] |= (uint64_t)1 << (device % 64);
}

/* Where a kernel may run if nothing is asked of the device, and how old that knowledge is. */
struct kernel_devices {
    const struct muster_kernel *kernel;
    uint64_t epoch;
    struct device_set allowed;
    uint32_t only; /* the one allowed, PLACEMENT_NONE if there are several */
};

/* What becomes of a kernel task that somebody has in hand. */
enum kernel_outcome {
    KERNEL_ENDS,  /* with its status */
    KERNEL_AGAIN, /* ready again, for a device */
    KERNEL_WAITS  /* ready again, when something has finished: there is no room now */
};

/*
 * What a task with a kernel keeps. Belongs to the task from muster_submit to its end; whoever has
 * taken the task may write, and while it is on a stream's list whoever has the lane.
 */
struct kernel_task {
    muster_status
        result; /* the kernel's, written by the backend; first, so that it can be left out */
    struct kernel_task *next; /* on the list of spare ones, a stream's list, or a chain in hand */
    uint32_t index;           /* in the table */
    muster_task handle;
    void *user;
    done_function done;
    struct muster_kernel *kernel; /* borrowed until the task has ended */
    uint64_t items;
    uint64_t timeout_ns; /* UINT64_MAX: none */
    /* Where it may run, where it was refused, and where it would rather not run again. */
    struct placement_hints hints;
    struct device_set allowed, refused, avoided;
    uint32_t only;        /* as in kernel_devices */
    muster_status status; /* how it ends, or why it was refused last */
    enum kernel_outcome outcome;
    uint32_t tries;
    const void *submitter; /* names the thread that submitted it */
    uint32_t arg_count;
    bool has_data; /* arguments that are resident data, or in blocks that the caller has already */
    bool has_arrays, has_output, has_update; /* arguments of these kinds */
    bool writes_block;                       /* of the caller's */
    struct run_device *only_device;          /* whose memory arguments are in; NULL: none are */

    /* With a device. */
    struct run_device *device;
    _Atomic(struct task_lane *) lane; /* where it was last; a hint for whoever waits for it */
    void *built; /* the kernel for it; NULL: not there when the device was chosen */
    struct throughput_mark mark;
    uint64_t sequence;      /* on its stream */
    uint64_t deadline_ns;   /* UINT64_MAX: none */
    muster_status accepted; /* how giving it went */
    bool is_counted;        /* against the device */
    bool was_prompt;        /* its end was seen soon after it happened */
    bool is_spoilt;         /* a hung device may still use it: never used again, holds its kernel */

    struct muster_memory memories[MUSTER_ARGS_MAX]; /* arrays that are used where they are */
    struct muster_launch_arg args[MUSTER_ARGS_MAX]; /* values point to the bytes below */
    struct muster_arg given[MUSTER_ARGS_MAX];       /* as the user gave them */
    _Alignas(16) unsigned char values[MUSTER_ARG_BYTES_MAX];
};

struct kernel_chunk;
struct task_lane;
struct worker;

struct task_pool {
    struct muster *m;
    struct platform_mutex lock;
    struct platform_condition work;  /* for threads that are parked: something is ready */
    struct platform_condition ended; /* for those who wait: something has ended */
    struct tasks tasks;
    void *memory;                  /* owns: the table's */
    struct tasks_edge *more_edges; /* owns: where the table's edges are; NULL: in `memory` */
    struct worker *workers;        /* owns */
    uint32_t worker_count, started;
    uint32_t parked, spinning, waking; /* threads, and wakes that nobody has heard yet */
    uint32_t waiters;                  /* threads that wait on `ended` */
    uint64_t submitted;                /* tasks, so far */
    uint32_t wanting;                  /* of them: for some tasks to end, not for all */
    bool must_stop;

    /* Kernel tasks. */
    struct kernel_chunk *chunks; /* owns */
    struct kernel_task *spare;
    uint32_t spare_count, kernel_task_count; /* of all there are in chunks, less the spoilt ones */
    uint32_t kernels_open;                   /* submitted and not ended */
    uint32_t kernels_wanted; /* of them: somebody hears of their end without waiting */
    uint32_t kernels_timed;  /* of them: with a time-out */
    uint32_t relying;        /* threads that wait for lanes' threads to look */
    bool lanes_must_stop;
    struct platform_thread guard; /* finds lanes' threads that are stuck in a driver */
    struct platform_condition guard_wake;
    uint64_t drain_ns;            /* since when closing waits for all tasks; 0: it does not */
    _Atomic bool guard_is_parked; /* written with the lock, and read without: see park_locked */
    struct kernel_devices known;  /* of the kernel that was asked for last */

    struct platform_mutex opening; /* held by who opens a lane; no other lock is held then */
    /* Release when it is set and acquire when it is read: the lane is whole for whoever sees it. */
    _Atomic(struct task_lane *) lanes[DEVICES_MAX]; /* own, by device */
    _Atomic(struct task_lane *) lane_list;          /* the same, newest first */
    uint32_t lanes_asleep;                          /* lanes' threads that nap or are parked */
};

/* task.c */
/*
 * Kernel tasks in hand, a chain, each with its outcome: ends them or makes them ready again, and
 * gives what is ready for that. No lock is held.
 */
void task_settle(struct task_pool *pool, struct kernel_task *chain);
/* Gives kernel tasks that are ready to devices. With the lock, which is not held all the time. */
void task_give_ready_locked(struct task_pool *pool);

/* kernel_task.c */
/*
 * Takes `count` spare ones, a chain. False if there are too few and no more may be made now;
 * `status` is not MUSTER_OK if there is no memory either. With the lock, not held all the time.
 */
bool kernel_tasks_take_locked(struct task_pool *pool, uint32_t count, struct kernel_task **out,
                              muster_status *status, struct muster_error *err);
void kernel_task_give_locked(struct task_pool *pool, struct kernel_task *task);
/* A fresh one with all the user said, without arrays, for another run; NULL if there is none. */
struct kernel_task *kernel_task_renew_locked(struct task_pool *pool,
                                             const struct kernel_task *task);
/*
 * Whether all that there is to find out about the task is in `known` or in the task itself. If so
 * kernel_task_fill, told so, takes no lock: also if that has changed since.
 */
bool kernel_task_is_known(const struct task_pool *pool, const struct muster_task_desc *desc,
                          const struct kernel_devices *known);
/*
 * Reads one task, and finds the devices that may run it, unless it is in `known`, which is brought
 * up to date.
 */
muster_status kernel_task_fill(struct task_pool *pool, struct kernel_task *task,
                               const struct muster_task_desc *desc, struct kernel_devices *known,
                               bool is_known, struct muster_error *err);
/* Chooses a device and counts the task against it, or ends it; false then. With m->lock. */
bool kernel_task_place_locked(struct muster *m, struct kernel_task *task, uint64_t now_ns);
/* The opposite, if it was counted: it was not run there, or has ended. With m->lock. */
void kernel_task_unplace_locked(struct kernel_task *task, uint64_t now_ns);
void kernel_task_finish_locked(struct kernel_task *task, uint64_t now_ns);
void kernel_chunks_free(struct task_pool *pool);
/* Devices that had tasks and hung are over with, or left alone for good: their kernels may go. */
void kernel_chunks_let_go(struct task_pool *pool);

/* task_lane.c */
/*
 * Gives the tasks of a chain to devices; those that were not given come back, a chain, and with them
 * others that were seen to end. No lock is held. What `submitter` submitted is given by this thread,
 * which may not come back from that; the rest by the lanes' threads (lanes_wake_locked). NULL: all.
 */
struct kernel_task *lanes_give(struct task_pool *pool, struct kernel_task *chain,
                               const void *submitter);
/*
 * Looks what devices have finished, or only one, and settles it; whether there was anything. No lock.
 * May not come back from that.
 */
bool lanes_look(struct task_pool *pool, struct task_lane *only);
/* Wakes threads of lanes that have something to watch. */
void lanes_wake_locked(struct task_pool *pool);
/* Whether one of them has parked, for whoever has given something without the lock since. */
bool lanes_are_parked(struct task_pool *pool);
/* Gives up lanes whose tasks are overdue. With the lock, not held meanwhile. Calls no driver. */
void lanes_check_locked(struct task_pool *pool);
/*
 * Ends the lanes' threads and lets go of the streams. Gives how many lanes somebody is still inside
 * of after the deadline: then nothing may be freed. `what` names the first. Else frees the lanes.
 */
uint32_t lanes_stop(struct task_pool *pool, uint64_t deadline_ns, struct muster_error *what);
void lanes_free(struct task_pool *pool);

#endif
