/*
 * A device's task lane, shared by the files that run it: lane.c (its streams, its thread, the guard),
 * give.c (tasks on their way to the device) and look.c (how they ended, and what hangs).
 *
 * Each device that is given kernel tasks has a lane with a few streams. A task is appended to a
 * stream's list when it was given; it is over when the stream's event, recorded after it, is
 * complete. An event is recorded when somebody looks, not for each task, so that many tasks cost one
 * event.
 *
 * A driver call may never return, so no lock is held across one. A thread that gives tasks to a
 * stream, or asks it for ends, makes a *visit*: it claims the stream, unlocks, calls the driver, and
 * locks again. A thread calls the driver itself only for tasks that it submits, or that it waits for
 * without a time-out. All other threads post tasks to the lane; the lane's own thread, which visits
 * no other lane, gives them to the device and asks for ends. The pool's guard calls no driver. It
 * looks for tasks whose time is over, and for visits that last meanwhile, and gives those up: the
 * tasks end or move to another device, and the visit is disowned. If its thread ever returns, it
 * finds that out and leaves without touching them.
 *
 * The records of tasks that were given up stay with the stream, or with the visit, until the device
 * has finished with them. As long as there are any the device is hung, see run/lane/watch.h.
 */
#ifndef RUN_TASK_LANE_H
#define RUN_TASK_LANE_H

#include "run/lane/alone.h"
#include "run/lane/watch.h"
#include "run/task/task_pool.h"

#define LANE_STREAMS 4u
/* How often a lane's thread looks at first when nobody is in a hurry. */
#define NAP_NS 1000000u
/* Tasks after which the thread that gives looks what is over. */
#define LOOK_EVERY 64u

/* Who calls the driver for a stream. */
enum claim {
    CLAIM_NONE,
    CLAIM_VISIT,
    CLAIM_LAUNCH,  /* a thread that does nothing but launch, quickly, without a visit */
    CLAIM_DISOWNED /* one that has not come back from that */
};

struct task_stream {
    struct lane_stream of;
    struct run_event *event; /* a reference */
    uint32_t count;
    bool is_recorded; /* and not seen to be complete */
    /* Set with the lock. A launch that went well lets go without: release, for the thread that is next. */
    _Atomic enum claim claim;
    uint64_t launch_ns;    /* when that launch began */
    uint64_t launch_first; /* sequence of its first task */
    bool has_failed;       /* to be replaced when it is empty */
    struct alone *alone;   /* owns: for tasks with arrays; NULL: none are copied on this device */
    struct kernel_task *oldest, *newest; /* given and not seen to be over */
    struct kernel_task *given_up;        /* of those: taken from it; by `also_next` */
    uint64_t given;                      /* sequence of the newest that was ever given */
    uint64_t looked;                     /* what was given when somebody last looked */
    uint64_t looked_ns;                  /* when that was */
    uint64_t recorded;                   /* the event stands after this one */
    uint64_t busy_ns;                    /* when it was last seen to be unfinished */
    uint64_t mute_ns;                    /* since when the driver would not say, 0: it does */
};

/*
 * Whether the device finishes a kernel as fast as it is given. Then one stream does, which costs the
 * driver less than several. Once it did not, all are used until another kernel comes.
 */
enum pace { PACE_UNKNOWN, PACE_KEPT, PACE_LOST };

enum sleep { SLEEP_NOT, SLEEP_SHORTLY, SLEEP_NAPS, SLEEP_PARKED };

struct task_lane {
    /* First what every task passes by, close together. */
    struct platform_mutex lock; /* short: never held across a call of the driver */
    struct task_pool *pool;
    struct run_device *device;
    struct task_lane *next;
    uint64_t stopped_generation, stopped_ns; /* the start of its device that was stopped last */
    _Atomic uint32_t outstanding; /* posted, in hand or on streams; written with the lock */
    _Atomic bool has_inbox;       /* written with the lock */
    _Atomic bool has_given_up;    /* tasks that may still run; written with the lock */
    _Atomic bool
        is_parked;  /* written with the pool's lock, and read without: see let_givers_pass_locked */
    bool must_mend; /* a stream has failed */
    uint32_t stream_count;
    struct watch watch;
    const struct muster_kernel *kernel; /* given last, with this many items at most; not followed */
    uint64_t items;
    enum pace pace;             /* with these */
    uint32_t stream;            /* where it is kept */
    uint64_t progress_ns;       /* when something last ended, or was given to an idle lane */
    uint64_t first_deadline_ns; /* nothing is overdue before */
    struct visit *visits;       /* those under way, on their threads' stacks */
    struct task_stream streams[LANE_STREAMS];
    bool is_opening;                          /* a visit opens the first streams */
    struct kernel_task *inbox, *inbox_newest; /* posted, for the lane's thread to give */
    uint64_t hung_ns;                         /* when it last began to hang */
    struct kernel_task *answered; /* given up, and over: to be used again; by `also_next` */
    bool is_back;                 /* it hung, and answers: to be told */
    struct platform_thread thread;
    bool has_left;                  /* the thread; with the pool's lock */
    struct platform_condition wake; /* with the pool's lock */
    enum sleep sleep;               /* likewise */
};

/* Tasks of one kernel for one device. */
struct group {
    struct run_device *device;
    struct kernel_task *tasks[TAKEN_AT_ONCE];
    uint32_t count;
    bool is_heavy, has_data;
};

/*
 * A thread on its way through calls of the lane's driver, without the lock. With the lock anybody may
 * disown it: the tasks in hand are taken out of the group then.
 */
struct visit {
    struct visit *next;
    struct task_stream *stream;   /* claimed; NULL: none */
    struct group *group;          /* the tasks in hand; NULL: it only looks */
    struct kernel_task *given_up; /* of those; by `also_next` */
    uint64_t begin_ns;
    bool is_building; /* a compiler may take long */
    bool is_disowned;
};

static inline struct task_lane *first_lane(struct task_pool *pool)
{
    return atomic_load_explicit(&pool->lane_list, memory_order_acquire);
}

static inline bool lane_has_work(struct task_lane *lane)
{
    return atomic_load_explicit(&lane->outstanding, memory_order_relaxed) > 0;
}

/* The rest with the lane's lock, unless it says otherwise. */

static inline void set_claim(struct task_stream *stream, enum claim claim)
{
    atomic_store_explicit(&stream->claim, claim, memory_order_relaxed);
}

static inline bool is_claimed(struct task_stream *stream)
{
    /* Acquire pairs with the release in give_quickly. */
    return atomic_load_explicit(&stream->claim, memory_order_acquire) != CLAIM_NONE;
}

/* Release: a lane's thread that sees nothing left sees `has_given_up` too. */
static inline void count_out(struct task_lane *lane, uint32_t count)
{
    uint32_t outstanding = atomic_load_explicit(&lane->outstanding, memory_order_relaxed);
    atomic_store_explicit(&lane->outstanding, outstanding - count, memory_order_release);
}

/* lane.c */
muster_status task_lane_get(struct task_pool *pool, struct run_device *device,
                            struct task_lane **out, struct muster_error *err);
/*
 * Opens what streams are missing. False, and the lock is not held, if the visit was disowned
 * meanwhile.
 */
bool task_lane_mend(struct task_lane *lane, struct visit *visit, muster_status *status);

/* give.c */
/* Gives what was posted; whether all that was could be given. By the lane's thread, with no lock. */
bool task_lane_give_inbox(struct task_lane *lane);

/* look.c */
void visit_enter(struct task_lane *lane, struct visit *visit, struct group *group, uint64_t now_ns);
void visit_claim(struct visit *visit, struct task_stream *stream);
void visit_unclaim(struct visit *visit);
void visit_leave(struct task_lane *lane, struct visit *visit);
/*
 * Takes the lock after calls of the driver. False, and the lock is not held, if the visit was
 * disowned meanwhile: then it is over.
 */
bool visit_return(struct task_lane *lane, struct visit *visit);
/* Whether somebody calls the driver, or may come back from it. */
bool task_lane_is_inside(struct task_lane *lane);
/* The same end for a launch: it has come back, and its tasks had been given up. Left without the lock. */
void task_lane_end_disowned(struct task_lane *lane, struct task_stream *stream);
/*
 * What the thread that gives looks at in passing: the event that was recorded when it last did. What it gave
 * just now is not over, so that is not asked. As task_lane_mend.
 */
bool task_lane_glance(struct task_lane *lane, struct visit *visit, uint64_t now_ns,
                      struct kernel_task ***tail);
/* Counts what has ended, all on one device. No lock is held. */
void task_lane_count_ended(struct task_lane *lane, struct kernel_task *chain);
/*
 * Sees what of the lane is over; whether anything was. Streams that another thread is at, or that were
 * looked at in the last `fresh_ns`, are left out. No lock is held.
 */
bool task_lane_look(struct task_lane *lane, uint64_t fresh_ns);
/* Gives up what is due, or all if nothing has ended in it since then. No lock is held, no driver called. */
void task_lane_check(struct task_lane *lane, uint64_t idle_before_ns);
/*
 * Tasks that are overdue are taken from the device, which is hung from then on; so are those that can
 * run elsewhere, and after a while, or with `is_all`, all. Disowns the thread that is inside. True if it begins to
 * hang.
 */
bool task_lane_give_up(struct task_lane *lane, bool is_all, uint64_t now_ns,
                       struct kernel_task ***tail);

#endif
