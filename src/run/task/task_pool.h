/*
 * The tasks of a runtime, shared by the files that run them: pool.c (threads and table), task.c
 * (submitting and cancelling), run.c (functions on the host), wait.c, settle.c and kernel_task.c (tasks
 * with kernels, and what they keep), and those of lane.h (giving these to a device and hearing how they
 * ended).
 *
 * Locks, in the order in which they may be taken: a lane's, then the pool's or the runtime's, never
 * both of these. No lock is held while user code runs or a backend is called.
 */
#ifndef RUN_TASK_POOL_H
#define RUN_TASK_POOL_H

#include "core/tasks.h"
#include "run/lane/attempt.h"
#include "run/memory/kernel.h"
#include "run/memory/memory.h"
#include "run/place/place.h"
#include "run/resident/resident.h"
#include "run/task/flow_pool.h"
#include "run/task/tasks.h"

#include <muster/task.h>

/* Orders among tasks: room that there is from the start; more is made when it is needed. */
#define EDGES_AT_FIRST (2 * MUSTER_TASKS_MAX)
/* Tasks that one thread takes at once, if there are enough for all. */
#define TAKEN_AT_ONCE 64u
/*
 * A thread leaves tasks to others that are in tasks on all cores, but only so long as one ends now and then: they
 * may need one that nobody has begun.
 */
#define STAND_BACK_NS 10000000u
/* Words of a set of devices: all that a runtime may have. */
#define TASK_DEVICE_WORDS (DEVICES_MAX / 64)
/* How often a kernel task is run at most. */
#define KERNEL_TRIES 3u

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
 * What a task with a kernel keeps. Belongs to the task from muster_submit to its end; the thread that has
 * taken the task may write, and while it is on a stream's list the thread that has the lane.
 */
struct kernel_task {
    struct attempt attempt;   /* the latest; its result first, so that it can be left out */
    struct kernel_task *next; /* on the list of spare ones, a stream's list, or a chain in hand */
    struct kernel_task *also_next; /* on a list of those that were given up */
    uint32_t index;                /* in the table */
    muster_task handle;
    void *user;
    done_function done;
    struct muster_kernel *kernel; /* borrowed until the task has ended */
    uint64_t items;
    uint64_t timeout_ns;  /* UINT64_MAX: none */
    uint32_t only;        /* as in kernel_devices */
    muster_status status; /* how it ends, or why it was refused last */
    enum kernel_outcome outcome;
    uint32_t tries;
    uint64_t generation;   /* of its device, when it was given */
    const void *submitter; /* names the thread that submitted it */
    uint32_t arg_count;
    bool has_data; /* arguments that are resident data, or in blocks that the caller has already */
    bool has_arrays, has_update;    /* arguments of these kinds */
    bool writes_block;              /* of the caller's */
    bool is_plain;                  /* it may run on one device alone, of which it asks nothing */
    bool has_marks;                 /* `refused` and `avoided` are filled */
    struct run_device *only_device; /* whose memory arguments are in; NULL: none are */
    struct resident_record
        *entry; /* owns: of a resident lane, which runs it; NULL: a device does */

    /* With a device. */
    struct run_device *device;
    _Atomic(struct task_lane *) lane; /* where it was last; a hint for waiters */
    void *built;          /* the kernel for it; NULL: not there when the device was chosen */
    uint64_t sequence;    /* on its stream */
    uint64_t deadline_ns; /* UINT64_MAX: none */
    bool was_prompt;      /* its end was seen soon after it happened */
    bool is_spoilt;       /* a hung device may still use it: not used again, holds its kernel */
    bool is_left;         /* it is spoilt, and the task has no use for it; with the pool's lock */

    uint8_t kinds[MUSTER_ARGS_MAX];                 /* of the arguments */
    struct muster_launch_arg args[MUSTER_ARGS_MAX]; /* values point to the bytes below */
    _Alignas(16) unsigned char values[MUSTER_ARG_BYTES_MAX];
    /* The rest is not touched for plain tasks that have nothing but values, and little is cached. */
    struct placement_hints hints; /* and `allowed`: where it may run, unless it is plain */
    struct device_set allowed;
    struct device_set refused, avoided; /* where it was refused, and would rather not run again */
    struct muster_memory memories[MUSTER_ARGS_MAX]; /* arrays that are used where they are */
    struct muster_arg given[MUSTER_ARGS_MAX];       /* all but values, as the user gave them */
};

/* A task between the table and the thread that runs it. */
struct running {
    uint32_t index;
    task_function fn;
    void *user;
    done_function done;
    muster_task handle;
    muster_status status;
    struct flow_task *record; /* of one with accesses that has one */
    bool is_doomed;
    bool is_over;       /* its record says how it ended already */
    bool has_followers; /* when it was taken */
    bool is_gone;       /* in a batch: handed in, or taken back; under the lock */
};

/* A thread is in the function or the callback of this task, or between two of its pool. */
struct task_frame {
    struct platform_frame head; /* first; its object is the pool */
    muster_task task;
};
_Static_assert(offsetof(struct task_frame, head) == 0, "found by its head");

/*
 * A thread with the tasks it took. `place` says how far it is, in one word, so that everybody can
 * tell what it has finished and take what it has not begun.
 */
struct worker {
    struct task_pool *pool;
    struct platform_thread thread;
    struct task_frame frame;             /* the thread's own */
    struct running batch[TAKEN_AT_ONCE]; /* filled under the lock */
    uint32_t count;                      /* likewise */
    uint32_t most;                       /* to be taken at once: fewer if they are long */
    _Atomic uint32_t place;
};

/*
 * The parts of a place: the next of the batch to begin, the one its thread is at, and whether
 * somebody needs what it finishes as soon as it does, not when the batch is done.
 */
#define PLACE_NEXT(place) ((place)&0xffu)
#define PLACE_AT(place) ((place) >> 8 & 0xffu)
#define PLACE_NOWHERE 0xffu
#define PLACE_IS_WANTED 0x10000u
#define PLACE(next, at) ((next) | (at) << 8)
_Static_assert(TAKEN_AT_ONCE < PLACE_NOWHERE, "a batch's indices fit into a place");

/* Notes the device in one of the task's two sets. */
static inline void kernel_task_mark(struct kernel_task *task, struct device_set *set,
                                    uint32_t device)
{
    uint32_t count = task->is_plain ? device + 1 : task->allowed.word_count * 64;
    if (!task->has_marks) {
        device_set_clear(&task->refused, count);
        device_set_clear(&task->avoided, count);
    }
    task->has_marks = true;
    device_set_add(set, device);
}

struct kernel_chunk;
struct task_lane;

struct task_pool {
    struct platform_mutex lock;
    struct muster *m;
    struct tasks tasks;
    uint64_t submitted;        /* tasks, so far */
    struct live_tasks *shown;  /* borrows: of the live page; where there is none, `unseen` */
    struct kernel_task *spare; /* of the records of kernel tasks */
    uint32_t spare_count;
    uint32_t kernels_open;       /* submitted and not ended */
    uint32_t kernels_wanted;     /* of them: somebody hears of their end without waiting */
    uint32_t kernels_timed;      /* of them: with a time-out */
    struct kernel_devices known; /* of the kernel that was asked for last */
    _Atomic bool
        guard_is_parked; /* written with the lock, and read without: see let_givers_pass_locked */
    /* Release when it is set and acquire when it is read: a thread that sees the lane sees it whole. */
    _Atomic(struct task_lane *) lane_list; /* all lanes, newest first */

    struct platform_condition work;  /* for threads that are parked: something is ready */
    struct platform_condition ended; /* for waiters: something has ended */
    void *memory;                    /* owns: the table's */
    struct tasks_edge *more_edges;   /* owns: where the table's edges are; NULL: in `memory` */
    struct worker *workers;          /* owns */
    uint32_t worker_count, started;
    uint32_t parked, spinning, waking; /* threads, and wakes that nobody has heard yet */
    _Atomic uint32_t idle;             /* parked or spinning: struct flow_run says what for */
    /* Changes when there is something for those that spin. Relaxed: they take the lock then. */
    _Atomic uint32_t news;
    uint32_t room; /* threads that may be in tasks at once, before they are in each other's way */
    uint32_t helping; /* threads in muster_wait, of nobody's tasks, that run some */
    uint32_t blocked; /* threads in tasks that wait for others to end */
    bool is_looking;  /* a parked thread looks now and then what holds up others */
    uint32_t waiters; /* threads that wait on `ended` */
    uint32_t wanting; /* of them: for some tasks to end, not for all */
    bool must_stop;

    /* Kernel tasks. */
    struct kernel_chunk *chunks; /* owns */
    struct kernel_task *untold,
        *untold_newest;         /* ended, for `done` to be called by a task's thread */
    uint32_t kernel_task_count; /* of all there are in chunks, less the spoilt ones */
    uint32_t relying;           /* threads that wait for lanes' threads to look */
    bool lanes_must_stop;
    struct platform_thread guard; /* finds lanes' threads that are stuck in a driver */
    struct platform_condition guard_wake;
    uint64_t drain_ns; /* since when closing waits for all tasks; 0: it does not */

    struct flow_pool flow;             /* tasks with accesses */
    struct muster_resident *residents; /* list, borrows: lanes that had tasks; with the lock */

    struct live_tasks unseen;
    struct platform_mutex opening; /* held by who opens a lane; no other lock is held then */
    uint32_t lanes_asleep;         /* lanes' threads that nap or are parked */
    _Atomic(struct task_lane *) lanes[DEVICES_MAX]; /* own, by device; as lane_list */
};

/* With the lock, when tasks were submitted and when some have ended: a store, whether anybody looks or not. */
static inline void pool_show_submitted_locked(struct task_pool *pool)
{
    live_set(&pool->shown->submitted, pool->submitted);
}
static inline void pool_show_ended_locked(struct task_pool *pool)
{
    live_set(&pool->shown->ended, pool->submitted - pool->tasks.open_count);
}

/* run.c. With the lock, unless they say otherwise. */
/* Whether others may wait for what this thread is in, so that it must not wait for them. No lock. */
bool pool_is_in_task(void);
/* Names the thread, as long as it is there. No lock. */
const void *pool_this_thread(void);
/* This thread is in the function or the callback of the task from here on. No lock. */
void pool_enter(struct task_frame *frame, struct task_pool *pool, muster_task task);
/* A task that was taken: false if it is not to be run now, and nothing is to be done with it. */
bool pool_load_locked(struct task_pool *pool, uint32_t index, struct running *out);
/*
 * Whether one more thread is to be woken: not if one is on its way or looking around. It wakes the
 * next. Where all are in tasks that wait for others, those are the ones to run it.
 */
bool pool_ask_for_wake_locked(struct task_pool *pool);
void pool_wake_locked(struct task_pool *pool);
/* A thread that is idle looks around. */
void pool_call_one_locked(struct task_pool *pool);
/* As many threads are in tasks as there are cores for: one more would only take turns with them. */
bool pool_is_crowded_locked(const struct task_pool *pool);
/* Changes when a task has ended, one of a graph's run too. */
uint64_t pool_progress_locked(const struct task_pool *pool);
/* Something has ended, or is ready: the thread that waits for that hears of it. */
void pool_tell_locked(struct task_pool *pool);
/* Ends a task in the table, and with it what it kept for its kernel. */
void pool_end_entry_locked(struct task_pool *pool, uint32_t index, muster_status status);
/* Runs a task on a thread that is not one of the pool's, or on top of another. */
void pool_run_aside_locked(struct task_pool *pool, struct running *task);
/* Runs one task, if there is any. */
bool pool_help_locked(struct task_pool *pool);
/* If the task is in a batch and not begun, it and those after it are ready again. */
void pool_recall_locked(struct task_pool *pool, uint32_t index);
/* Hands in what all have finished so far, and asks them to hand in the rest without delay. */
bool pool_collect_locked(struct task_pool *pool);
/* A thread of the pool's. */
void pool_work(void *worker);

/* task.c */
/* Places for this many tasks, by running some; a task's thread does not wait for them. */
muster_status pool_make_room_locked(struct task_pool *pool, size_t count, struct muster_error *err);
/* Room for this many edges more. The lock is not held meanwhile. */
muster_status pool_add_edges_locked(struct task_pool *pool, uint64_t needed,
                                    struct muster_error *err);

/* settle.c */
/*
 * Kernel tasks in hand, a chain, each with its outcome: ends them or makes them ready again, and
 * gives what is ready for that. No lock is held.
 */
void task_settle(struct task_pool *pool, struct kernel_task *chain);
/*
 * The calling thread watches devices: it runs no user code, which may not return. How tasks ended is
 * told by the threads that run tasks.
 */
void pool_only_watch(void);
/* Calls one `done` that such a thread has left; false if there is none. With the lock, as above. */
bool pool_tell_end_locked(struct task_pool *pool);
/*
 * Gives kernel tasks that are ready to devices; what `submitter` submitted this thread gives itself, unless
 * it is NULL. With the lock, which is not held all the time.
 */
void pool_give_ready_locked(struct task_pool *pool, const void *submitter);
/* The same for one who is done then: left without the lock. */
void pool_give_ready_and_unlock(struct task_pool *pool);
/* Gives one task that is taken to its device. No lock is held, nor taken if nothing is left to do. */
void pool_give_one(struct task_pool *pool, struct kernel_task *task);

/* wait.c */
/* Parks until something has ended; not if something has already. False after the deadline. */
bool pool_await_end_locked(struct task_pool *pool, bool is_for_all, uint64_t deadline_ns);
/*
 * Waits for an end, in the table or on devices. Not for long: the last may have come while the lock
 * was not held.
 */
void pool_await_any_locked(struct task_pool *pool, bool is_for_all);

/* The same for an end that others are to see: lanes' threads look more often meanwhile. */
bool pool_rely_locked(struct task_pool *pool, bool is_for_all, uint64_t deadline_ns);

/* resident_task.c */
/* As kernel_task_fill. MUSTER_E_BUSY, without words: the lane has no room now. */
muster_status resident_task_fill(struct task_pool *pool, struct kernel_task *task,
                                 const struct muster_task_desc *desc, struct muster_error *err);
/* The task is in the table: its lane is among those that are woken. */
void resident_task_bind_locked(struct task_pool *pool, const struct kernel_task *task);
/* Gives taken tasks, a chain, to their lanes. No lock is held. */
void resident_tasks_post(struct kernel_task *chain);
/* Ends what has ended; whether anything had. No lock is held. */
bool residents_look(struct task_pool *pool, struct muster_resident *lane);
/* Lanes look for ends where somebody relies on that. */
void residents_wake_locked(struct task_pool *pool);
/* The first of these tasks in its lane, if one has it; NULL: none. */
const struct resident_record *resident_of_locked(const struct task_pool *pool,
                                                 const muster_task *tasks, size_t count,
                                                 size_t first);
bool resident_await_locked(struct task_pool *pool, const struct resident_record *record,
                           uint64_t deadline_ns, uint64_t *since_ns);
/* For lanes (resident_hooks). */
bool residents_tell(struct muster_resident *lane, bool is_watch);
void residents_forget(struct muster_resident *lane);

/* trace.c */
/* A task began at `begin_ns`, of trace_clock and not 0, and ended just now. */
void trace_task(struct muster *m, uint64_t begin_ns, muster_status status);
/* One run of a task with a kernel: given to the device at `begin_ns`, seen to be over at `end_ns`. */
void trace_kernel_task_locked(const struct run_device *device, uint64_t begin_ns, uint64_t end_ns,
                              uint64_t items, muster_status status, bool is_retry);

/* pool.c */
/* The runtime's pool, made by the first who submits. No lock is held. */
muster_status pool_make(struct muster *m, struct task_pool **out, struct muster_error *err);
static inline muster_status pool_get(struct muster *m, struct task_pool **out,
                                     struct muster_error *err)
{
    /* Acquire pairs with the release in pool_make: the pool is whole for the thread that sees it. */
    *out = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    return *out ? MUSTER_OK : pool_make(m, out, err);
}

/* kernel_task.c */
/*
 * Takes `count` spare ones, a chain. False if there are too few and no more may be made now;
 * `status` is not MUSTER_OK if there is no memory either. With the lock, not held all the time.
 */
bool kernel_tasks_take_locked(struct task_pool *pool, uint32_t count, struct kernel_task **out,
                              muster_status *status, struct muster_error *err);
void kernel_task_give_locked(struct task_pool *pool, struct kernel_task *task);
/* A chain by `also_next`: hung devices are done with them, so they can be used again. No lock is held. */
void kernel_tasks_return(struct task_pool *pool, struct kernel_task *chain);
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
/* Whether another device than the one it is on could run it now. With m->lock. */
bool kernel_task_can_move_locked(const struct muster *m, const struct kernel_task *task);
/* The opposite, if it was counted: it was not run there, or has ended. With m->lock. */
void kernel_task_unplace_locked(struct kernel_task *task, uint64_t now_ns);
void kernel_task_finish_locked(struct kernel_task *task, uint64_t now_ns);
void kernel_chunks_free(struct task_pool *pool);
/* Devices that had tasks and hung are over with, or left alone for good: their kernels may go. */
void kernel_chunks_let_go(struct task_pool *pool);

/* give.c */
/*
 * Gives the tasks of a chain to devices; those that were not given come back, a chain, and with them
 * others that were seen to end. No lock is held. What `submitter` submitted is given by this thread,
 * which may not come back from that; the rest by the lanes' threads (lanes_wake_locked). NULL: all.
 */
struct kernel_task *lanes_give(struct task_pool *pool, struct kernel_task *chain,
                               const void *submitter);
/* look.c */
/*
 * Looks what devices have finished, or only one, and settles it; whether there was anything. No lock.
 * May not come back from that.
 */
bool lanes_look(struct task_pool *pool, struct task_lane *only);
/* lane.c */
/* Wakes threads of lanes that have something to watch. */
void lanes_wake_locked(struct task_pool *pool);
/* Whether one of them has parked, for the thread that has given something without the lock since. */
bool lanes_are_parked(struct task_pool *pool);
/*
 * Ends the lanes' threads and lets go of the streams. Gives how many lanes somebody is still inside
 * of after the deadline: then nothing may be freed. `what` names the first. Else frees the lanes.
 */
uint32_t lanes_stop(struct task_pool *pool, uint64_t deadline_ns, struct muster_error *what);
void lanes_free(struct task_pool *pool);

#endif
