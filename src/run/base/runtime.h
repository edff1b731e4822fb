/*
 * The runtime's own structure, which all rooms of this folder see: options, lists, totals, the lock,
 * and how errors are told. What a room owns is in the room's header (docs/architecture.md, "Rooms").
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
#include "base/layout.h"
#include "observe/live.h"
#include "observe/recording.h"
#include "platform/fork.h"
#include "platform/frame.h"
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

struct closing;
struct copiers;
struct crew;
struct decision;
struct lessons;
struct pages;
struct placement_device;
struct policy_call;
struct poller;
struct run_backend;
struct run_device;
struct task_pool;
struct muster_resident;

/* Totals, each exact by itself, added to from any thread. */
struct run_counts {
    _Atomic uint64_t jobs_numbered, jobs_started, jobs_done, jobs_failed;
    _Atomic uint64_t units_started, units_done, units_late, units_failed;
    _Atomic uint64_t items_delivered, bytes_delivered, bytes_in, bytes_out;
    _Atomic uint64_t data_loads, kernels_built;
    _Atomic uint64_t pages_pinned; /* for jobs */
    /* Of pipelines: units, which devices count as what was dispatched, and launches in them. */
    _Atomic uint64_t line_units, line_units_done, line_units_failed;
    _Atomic uint64_t line_launches, line_launches_done, line_launches_failed;
};

struct run_table {
    struct handle_table handles; /* its slots are owned here */
    void **entries;              /* owns the array; NULL where a slot is free */
};

/* What resident lanes need of the tasks' room, which is above theirs. */
struct resident_hooks {
    /* Ends tasks that have ended; whether somebody goes on relying on it. `is_watch`: on the lane's watch. */
    bool (*tell)(struct muster_resident *lane, bool is_watch);
    void (*forget)(struct muster_resident *lane); /* it has no tasks, and gets none */
};

/* What jobs need of the tasks' room, which is above theirs. */
struct data_hooks {
    /*
     * Reads data as a task would that is submitted now, until it is let go: waits for the tasks before, brings it
     * home, and holds up those after that write it. `*held` 0: no task knows the data.
     */
    muster_status (*hold)(struct muster *m, muster_data data, uint64_t *held,
                          struct muster_error *err);
    void (*let_go)(struct muster *m, uint64_t held);
};

struct muster {
    /* Asks given_allocator; nothing any more once the runtime is abandoned. */
    struct muster_allocator allocator;
    struct muster_allocator given_allocator; /* the options' */
    _Atomic bool is_abandoned;               /* closed, though threads may still come back to it */
    struct muster *next_abandoned; /* on a list of the process's, so that leaks can be told apart */
    struct muster_options options; /* strings are copies */
    struct muster_services services;
    struct platform_arena *arena; /* owns: what host memory is taken from; NULL: from the system */
    uint64_t stream_bytes;        /* planned for one stream */
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
    uint32_t turn;                    /* round-robin's */
    struct policy_call *policy_calls; /* list, borrows: users' policies that are being asked */

    struct muster_job *jobs; /* list, owns: those that were not destroyed */
    bool is_closing;         /* jobs that are started from here on are cancelled at once */
    struct muster_job
        *jobs_left; /* list, owns: destroyed, but a hung device still works for them */
    _Atomic(struct task_pool *) task_pool; /* owns; NULL before the first task */
    bool is_making_pool;
    struct resident_hooks resident_hooks; /* set before the first task */
    struct data_hooks data_hooks;         /* likewise: read after task_pool was seen */
    struct muster_resident *residents;    /* list, owns: resident lanes */
    struct muster_resident
        *residents_left; /* list, owns: destroyed, but something of them still runs */
    /*
     * Moves on, with the lock, when a device becomes fit for work or unfit, and when a kernel goes:
     * caches of what may run where look whether it did. Relaxed: that is out of date at once.
     */
    _Atomic uint64_t epoch;
    struct muster_kernel *kernels;     /* list, owns */
    struct muster_pipeline *pipelines; /* list, owns */
    struct muster_file *files;         /* list, owns */
    struct lessons *lessons;           /* owns; NULL before the first job of several devices */
    uint32_t file_users;               /* who walk the list without the lock: none is taken out */
    uint64_t unopened_ns;              /* what jobs took that did without slow backends */
    struct poller *poller;             /* owns */
    struct closing *closing;           /* owns; NULL: nobody closes it */
    struct copiers *copiers;           /* owns; NULL before the first large copy in host memory */
    struct crew *crew;                 /* owns; NULL before its first thread */
    struct pages *pages;  /* owns: all of them, those that were given back last first */
    uint64_t pages_bytes; /* of those that may stay */
    struct run_counts counts;
    struct recording recording;
    bool is_trace_taken; /* somebody starts, reads or stops the recording */
    struct live live;    /* without a page: nobody sees it */
};

/* Adds to one of the counts; gives what it was. */
static inline uint64_t run_count(_Atomic uint64_t *count, uint64_t amount)
{
    /* Relaxed: nothing is read by way of it. */
    return atomic_fetch_add_explicit(count, amount, memory_order_relaxed);
}

/* Now, if it is recorded; else 0. */
static inline uint64_t trace_clock(const struct muster *m)
{
    return recording_is_on(&m->recording) ? platform_clock_ns() : 0;
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

/*
 * What is said on failure is cold, so that compilers keep the code that leads to it away from the rest: a
 * task's way to its device is short enough for that to show.
 */
#define RUN_COLD __attribute__((cold))
RUN_COLD muster_status run_no_memory(struct muster_error *err, const char *what);
RUN_COLD muster_status run_bad_argument(struct muster_error *err, const char *function,
                                        const char *what);
/* MUSTER_E_FORKED. */
RUN_COLD muster_status run_say_forked(struct muster_error *err);
/* MUSTER_E_ORDER: the call could only wait for the user code that makes it. */
RUN_COLD muster_status run_say_stuck(struct muster_error *err, const char *function);
/* Is `name` one of a list's entries, which are separated by commas? */
bool run_list_names(const char *list, const char *name);

/* table.c: handles to objects, which the table's owner allocates. */
/* Issues a handle for `entry`. Grows as needed; allocates only then. */
muster_status table_add_locked(struct muster *m, struct run_table *table, void *entry,
                               uint32_t *index, uint32_t *generation, struct muster_error *err);
/* The handle's object; `what` names the kind of thing in the error. */
muster_status table_find_locked(const struct run_table *table, uint32_t index, uint32_t generation,
                                const char *what, void **entry, struct muster_error *err);
void table_remove_locked(struct run_table *table, uint32_t index);
void table_destroy(struct muster *m, struct run_table *table);

#endif
