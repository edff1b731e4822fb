/*
 * Lanes: one device working on one job. The lane's thread does everything that has to do with the
 * device: it takes units from the core, enqueues each step of each unit when the plan's edges allow it,
 * oldest unit first, looks which have arrived, and hands what is over back. Host steps run on the
 * job's workers. A lane's units are numbered; unit k works in slot k modulo a buffer's slots, and
 * records its events in instance k modulo the lane's depth.
 *
 * Of the caller's units several may make up one of the lane's: those that a stage takes together, or
 * that share copies and launches because they are small. They lie one behind the other in each slot
 * and are called parts here.
 *
 * All that more than one thread touches is guarded by the runtime's lock, unless it says otherwise.
 */
#ifndef RUN_LANE_H
#define RUN_LANE_H

#include "run/lane/attempt.h"
#include "run/lane/plan.h"
#include "run/lane/streams.h"
#include "run/lane/watch.h"
#include "run/memory/kernel.h"
#include "run/memory/memory.h"
#include "run/threads/threads.h"

struct run_lane;
struct lane_unit;
struct lane_work;

/* Units that a lane may hold. */
#define LANE_DEPTH_MAX 64
_Static_assert(LANE_DEPTH_MAX <= JOB_STEP_MAX, "all can be taken at once");

/* Timing events of a unit: before and after its kernel. */
#define TIMING_MARKS 2u
struct timing_mark;

struct time_span {
    uint64_t begin_ns, end_ns;
};

/* How much of the time spans cover together, which come in the order in which they end. */
struct time_cover {
    uint64_t ns, until_ns;
};

/* An attempt that is over. */
struct lane_ended {
    struct lane_unit *unit; /* free again for another */
    enum job_end end;
    uint64_t
        done; /* items from its first on that are done in the caller's arrays, if that is known */
};

/* What a job does for its lanes. */
struct lane_calls {
    /*
     * Hands in what has ended, and then takes units for the places: each is given its claim and a
     * buffer for its results. Gives how many there were. Wakes those who have something to do now.
     * Called with the lock.
     */
    uint32_t (*step_locked)(struct run_lane *lane, const struct lane_ended *ended,
                            uint32_t ended_count, struct lane_unit *const *places,
                            uint32_t place_count, uint64_t now_ns);
    /* The core was told something else: wakes likewise. Called with the lock. */
    void (*tell_locked)(struct lane_work *work);
    /* It is time to look for what is overdue. Called with the lock. */
    void (*look_locked)(struct lane_work *work, uint64_t now_ns);
    /* The item that ends the device's process was found: unit->fatal. With the lock. */
    void (*fatal_locked)(struct lane_unit *unit);
    /* The lane cannot be set up now: ends the job if none of its lanes ever will be. With the lock. */
    void (*short_locked)(struct run_lane *lane);
    /* The lane that came late has all it needs; or takes no part, as its `shortage` says. With the lock. */
    void (*joined_locked)(struct run_lane *lane, bool takes_part);
    /* A callback launches the kernel: it stays loaded as long as the job's memory. */
    muster_status (*hold_kernel)(struct lane_work *work, struct muster_kernel *kernel,
                                 struct muster_error *err);
};

/* What the lanes of a job share. */
struct lane_work {
    struct thread_group group;
    const struct lane_calls *calls;
    const void *object;      /* the job, as platform frames name it */
    struct job *core;        /* borrowed of the job */
    uint32_t number;         /* of the job in traces, from 1 */
    struct workers *workers; /* owned by the job; NULL: there are no host steps */
    uint32_t outstanding;    /* units that a device may still be working on */
    uint32_t lane_count;     /* of the job, whether they take part or not */
    uint32_t lane_threads;   /* of the group's threads */
    bool must_leave;         /* the job is over: lanes leave */
    bool is_abandoned;       /* the runtime closes: lanes leave, whatever their devices still do */
};

#define LANE_TOLD_BYTES 256

/* A range is halved at most so often, and one half is kept each time. */
#define UNIT_SECTIONS_MAX 65

/* What a callback is given. */
struct muster_unit {
    struct lane_unit *of;
    uint32_t step;
    uint32_t first_part, part_count;
    _Atomic bool is_open; /* its callback is running */
};

enum host_state { HOST_IDLE, HOST_RUNNING, HOST_RETURNED };

/* One of the lane's places for a unit. */
struct lane_unit {
    struct run_lane *lane;
    bool is_running; /* a device may be working in it */
    uint64_t number;
    struct job_claim claim;
    uint32_t part_count;
    /* Set by the job with the claim: */
    uint32_t buffer;         /* which of the job's result buffers it has */
    char *results;           /* its memory; NULL: nothing is written there */
    muster_status *statuses; /* in it: of each item; NULL: nobody wants them */
    size_t *result_bytes;    /* of each output and part; NULL: as the plan has them */
    char *ring;              /* of a source: the one the unit is read from */
    const char *supplied;    /* the unit's first item there */
    /* How it goes: */
    struct attempt attempt;
    struct muster_error problem; /* why it went wrong */
    struct muster_pieces pieces; /* stops it; of one in pieces: what its device has done of it */
    bool is_stopping;            /* not one in pieces: its results are of no use */
    uint64_t kicked_ns, given_ns, ended_ns;
    uint32_t next; /* the step to be enqueued or begun next; past the stages: all are given */
    bool is_fresh; /* nothing of it was done yet */
    bool is_void;  /* failed, or not wanted any more: what is left of it only records */
    bool asks;     /* the driver would not queue a wait of the next step: the host waits instead */
    bool is_over;  /* nothing of it is with the device, nor with a worker */
    _Atomic uint32_t bells; /* calls at its end that have not come */
    /*
     * Items of the unit that are being done: all, unless it is being found out which of them fail.
     * Then `sections` are those that are still to be looked at, each half of the one before.
     */
    struct muster_range section;
    struct muster_range sections[UNIT_SECTIONS_MAX];
    uint32_t section_count;
    bool is_looked_at;   /* it is being found out which item ends the device's process */
    uint64_t fatal;      /* that item, counted in the unit; UINT64_MAX: not known */
    uint64_t generation; /* of its device, when it was given */
    bool must_rerun;     /* the last of the sections is next, when nothing else is in flight */
    /* Host steps: */
    _Atomic uint32_t host_state;
    struct work work;
    struct muster_unit unit;
    muster_status step_status; /* of the host step that returned */
    struct muster_error step_problem;
    uint64_t asked_ns;          /* when the next step was first held up; 0: it was not */
    uint32_t holder;            /* by which edge */
    struct time_span host_span; /* the host step that returned, where that is measured */
    /* Of each step: */
    struct run_event **events; /* NULL: it does not record */
    bool *is_untold;           /* its record failed, the stream must be asked */
    bool *has_arrived;         /* seen */
    muster_status *results_of; /* of its kernels */
    muster_status *result_at;  /* where the only kernel's goes instead; NULL: there */
    uint32_t *launches;        /* NULL: the unit counts as its only launch */
    size_t *bytes; /* of each piece and part; SIZE_MAX, or NULL altogether: as declared */
    /* Figures: */
    struct timing_mark *marks[TIMING_MARKS]; /* borrowed of the device; NULL: not timed */
    uint32_t marked;                         /* of them, recorded for this unit */
    bool is_anchor;                          /* has a timing event at its end too */
    struct time_span at_kernel;              /* 0: not known */
    uint64_t copied_bytes;                   /* to and from the device */
    uint64_t range;                          /* that a profiler sees; 0: none. The thread's own */
};

/* A buffer on the lane's device. */
struct lane_buffer {
    uint32_t slots;
    muster_block block;          /* of device memory; generation 0: none */
    struct muster_memory memory; /* of the block */
    char *host;                  /* pinned memory of the lane; NULL: on the device, or the job's */
    struct pages *pages;         /* owns: what `host` lies in */
};

struct edge_count {
    uint64_t records, waits, stall_ns;
};

/* What a job's result buffers lie in has this many parts at most. */
#define LANE_RESULTS_MAX 64u

/* Memory of the job's that its devices copy, made known to them. Borrowed. */
struct lane_memory {
    struct pages *const *results; /* this many, with this many result buffers in each */
    uint32_t result_count, result_buffers;
    uint64_t known_results; /* of these, by bits: the lane's device was told. The thread's own */
    struct pages *ring;     /* NULL: none */
};

/* One device working on one job. */
struct run_lane {
    struct lane_work *work;
    struct run_device *device; /* pinned until the job is over; there as long as it has streams */
    bool has_device_pin;
    uint32_t index;
    /*
     * Its device came when the job was under way, and the lane has not all it needs. Meanwhile it touches
     * nothing of the caller's, and the job's end does not wait for it.
     */
    bool is_joining;
    bool is_slow; /* setting it up takes long */
    struct job_thread thread;
    struct platform_condition changed; /* there is something for it to do */
    /* How often that was said. Written with the lock; relaxed: its thread takes that before it acts. */
    _Atomic uint64_t changes;
    struct watch watch;      /* what its thread adds to its device's hangs */
    struct lane_plan *plan;  /* owns */
    struct lane_unit *units; /* owns: as many as the plan's depth */
    void *unit_memory;       /* owns: what the units point to */
    size_t unit_bytes;
    uint64_t oldest, next; /* numbers: [oldest, next) are in flight */
    struct lane_stream streams[MUSTER_ROLES_MAX];
    struct lane_buffer buffers[MUSTER_BUFFERS_MAX];
    void *kernels[MUSTER_STAGES_MAX]; /* what the device has built of each stage's; borrowed */
    uint64_t staged;                  /* pieces, bits: workers move them to pinned slots */
    struct lane_memory memory;        /* the job's */
    bool has_bell;       /* the end of a unit is told by a call, and need not be asked */
    bool is_over;        /* the job: units in flight are not wanted any more */
    bool is_lost;        /* the device: an event has ended with that */
    uint64_t generation; /* of its device, when its streams were taken */
    bool renews_first;   /* before the unit that is run alone: nothing else is in flight */
    bool is_stopped;     /* its device was told to stop, and has not been started again */
    uint64_t stopped_generation, stopped_ns;
    char told[LANE_TOLD_BYTES]; /* for the log, when the lock is not held; "": nothing */
    bool must_renew;            /* a stream failed: when nothing is in flight they are all left */
    bool was_refused;           /* a wait or a record, once: counts are not what they should be */
    bool awaits_device;         /* something was asked of the device and is not there yet */
    bool is_isolating;          /* a unit is run again in sections: nothing else is begun */
    uint32_t host_steps;        /* that workers have, or are about to have */
    bool is_held_up;            /* by them, as the core knows */
    uint64_t moved_ns;          /* when something last went on */
    uint64_t ended_ns;          /* when a unit last ended; 0: none has */
    uint64_t interval_ns;       /* between two such ends, on the average */
    uint64_t unit_ns;           /* how long a unit took, lately */
    uint64_t terminal;          /* bit for each step whose arrival ends a unit */
    uint64_t recording;         /* bit for each step that records */
    uint64_t behind[PIPE_STEPS_MAX];       /* of each step: bits of those that are over by then */
    uint32_t segment_last[PIPE_STEPS_MAX]; /* the last device step of each segment; 0: none */
    void *gates[MUSTER_EDGES_MAX];         /* own; of gate edges */
    struct edge_count counts[MUSTER_EDGES_MAX];
    struct account *account; /* owns; NULL: stalls of streams are not measured */
    bool has_all;            /* that it needs of its device; counts among the device's `lanes` */
    /* Of a lane that has not: what was missing last, or why it is left out. Stays when it has been found. */
    struct muster_error shortage;
    uint32_t short_count;    /* units in a row that there was no memory for */
    uint64_t short_until_ns; /* takes no unit before, since there was no memory for one; 0: may */
    uint32_t running;        /* units that are */
    struct lane_ended ended[LANE_DEPTH_MAX]; /* to be handed in */
    uint32_t ended_count;
    uint64_t first_ns, last_ns, busy_since_ns, busy_ns;
    bool is_timed;
    struct timing_mark *anchors[2];    /* borrowed of the device: the current one, and the next */
    uint32_t anchor;                   /* which is current */
    uint64_t anchor_ns;                /* when its unit ended; 0: none has */
    struct time_cover held, at_kernel; /* the device had a whole unit; one was at its kernel */
};

static inline uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t unit_items(const struct lane_unit *unit)
{
    return unit->claim.range.end - unit->claim.range.begin;
}

/* Whether the unit changes the caller's arrays in pieces. */
static inline bool unit_is_in_pieces(const struct lane_unit *unit)
{
    return unit->claim.is_direct && unit->lane->plan->cut_grain > 0;
}

/* Whether the unit's kernels end early when nobody wants it any more. */
static inline bool unit_can_stop(const struct lane_unit *unit)
{
    return unit_is_in_pieces(unit) ||
           (unit->lane->device->info.capabilities & MUSTER_CAN_RUN_IN_PIECES) != 0;
}

static inline uint32_t lane_sink(const struct run_lane *lane)
{
    return lane->plan->order->step_count - 1;
}

static inline struct lane_unit *lane_unit_at(const struct run_lane *lane, uint64_t number)
{
    return &lane->units[number % lane->plan->depth];
}

static inline bool lane_is_host_step(const struct run_lane *lane, uint32_t step)
{
    return pipe_is_host(lane->plan->declaration, step);
}

static inline const struct muster_backend *lane_table(const struct run_lane *lane)
{
    return &lane->device->backend->table;
}

/*
 * One of the lane's units, for each index below the depth; NULL: it has none there. The oldest comes
 * first, unless units have nothing to do with each other.
 */
static inline struct lane_unit *lane_unit_nth(const struct run_lane *lane, uint32_t index)
{
    struct lane_unit *unit =
        lane->plan->width > 1 ? &lane->units[index] : lane_unit_at(lane, lane->oldest + index);
    return unit->is_running ? unit : NULL;
}

/* Which of the lane's streams a step of the unit goes to. */
static inline uint32_t unit_stream(const struct lane_unit *unit, uint32_t step)
{
    const struct lane_plan *plan = unit->lane->plan;
    return plan->declaration->stages[step - 1].stream * plan->width +
           (uint32_t)(unit - unit->lane->units) % plan->width;
}

/*
 * When any thread that is awake looks for what is overdue. The conductor does so when it is due; that it
 * has not some time later means that a sink keeps it.
 */
#define LOOK_GRACE_NS 5000000u
static inline uint64_t lane_look_ns(const struct job *core)
{
    uint64_t due_ns = job_look_due(core);
    return due_ns < UINT64_MAX - LOOK_GRACE_NS ? due_ns + LOOK_GRACE_NS : UINT64_MAX;
}

/* There is something for the lane to do. */
static inline void lane_wake_locked(struct run_lane *lane)
{
    atomic_fetch_add_explicit(&lane->changes, 1, memory_order_relaxed);
    platform_condition_wake_all(&lane->changed);
}

/* Says in the log what took how long, if it was long. No lock is held. */
void lane_log(const struct run_lane *lane, const char *what, uint64_t begin_ns);

/* join.c: lanes of devices that came late. */
/* On its thread: takes all it needs and has its kernels built; false if it takes no part. */
bool lane_join(struct run_lane *lane);
/* Whether the job still goes on. No lock is held. */
bool lane_is_wanted(struct run_lane *lane);

/* set_up.c: what a lane needs on its device. */
/* Starts the workers that lanes share, if there are none. */
muster_status lane_start_workers(struct lane_work *work, struct muster_error *err);
/*
 * Takes all of it for the plan, which the lane has. On failure the lane can be torn down, or what it
 * took be given back.
 */
muster_status lane_set_up(struct run_lane *lane, struct muster_error *err);
/*
 * Before the device writes into the result buffer: its driver is told of the memory around it, the first time.
 * On the lane's thread, without the lock.
 */
void lane_make_results_known(struct run_lane *lane, uint32_t buffer);
/* Gives back what lane_set_up took, all of it or what there was when it failed; it may be called again. */
void lane_give_back(struct run_lane *lane);
/*
 * Gives back what the lane has, unless a hung device may still use it; may be called again. The
 * lane's thread does it, since driver calls may not return.
 */
void lane_tear_down(struct run_lane *lane);
/* Its own memory, after it was torn down. */
void lane_free(struct run_lane *lane);

/* short.c: devices that have no memory or streams for a lane now. */
/* Whether setting a lane up failed for want of something. */
bool short_is(muster_status status);
/* That was so: the lane has nothing, and takes no part until it has. */
void short_begin(struct run_lane *lane, const struct muster_error *why);
/* Whether what is missing may be given back by another job. */
bool short_may_end_locked(const struct run_lane *lane);
/* On its thread: tries again until the lane has all it needs; false: the job is over, or the device lost. */
bool short_wait(struct run_lane *lane);
/* Whether the unit could not be given for want of memory that may come: it waits, and has not failed. */
bool short_is_unit_locked(const struct lane_unit *unit);
/* There was no memory for a unit: the lane takes no other for a moment. */
void short_pause_locked(struct run_lane *lane, uint64_t now_ns);
/* Ends the pause when it is over; gives until when it lasts, UINT64_MAX if there is none. */
uint64_t short_look_locked(struct run_lane *lane);

/* lane.c: the thread. */
/* Around calls that may never return: the lane's thread lets go of the lock, and takes it again. */
void lane_go_away_unlock(struct run_lane *lane);
void lane_come_back_lock(struct run_lane *lane);
/* Claims, starts, finishes units until the job is over. */
void lane_run(void *lane);
/*
 * An attempt of the lane is overdue: ends what the device does by force, where that can be, and true then. The clock of
 * its units stands still until the device was started again.
 */
bool lane_stop_locked(struct run_lane *lane, uint64_t now_ns);
/*
 * The lane is given up: its units, if its device has them, are overdue until they end, and a driver call
 * that its thread is in is stuck until it returns. May be called again.
 */
void lane_give_up_locked(struct run_lane *lane);
/* For a lane that has left at the runtime's end: its device turned out to have finished its units. */
void lane_forget_locked(struct run_lane *lane);

/* place.c */
/* Where parts of a unit lie: `count` of them from the first on. */
struct unit_place {
    char *host;                         /* NULL: on the device */
    const struct muster_memory *memory; /* NULL: on the host */
    uint64_t offset;                    /* into the memory */
    size_t bytes, capacity;
};
struct unit_place unit_place(const struct lane_unit *unit, uint32_t piece, uint32_t first_part,
                             uint32_t part_count);
/*
 * Of an array with a halo: where `bytes` from byte `from` of it on are, which may be before its first or
 * after its last. Gives how many of them lie there together.
 */
size_t unit_array_run(const struct lane_plan *plan, const struct lane_piece *piece, int64_t from,
                      size_t bytes, const char **at);
/* How many bytes of a part count. */
size_t unit_part_bytes(const struct lane_unit *unit, uint32_t piece, uint32_t part);
/* How many were set to; SIZE_MAX: none. */
size_t unit_set_bytes(const struct lane_unit *unit, uint32_t piece, uint32_t part);
static inline size_t *unit_bytes(const struct lane_unit *unit, uint32_t piece, uint32_t part)
{
    return &unit->bytes[piece * unit->lane->plan->parts_max + part];
}
/* Items of the parts. */
uint64_t unit_part_items(const struct lane_unit *unit, uint32_t first_part, uint32_t part_count);
/* On a worker: moves the unit's part of the caller's arrays to where the device can copy it from. */
void unit_stage_input(struct lane_unit *unit);

/* step.c: steps of units and the edges between them. */
/* Does one step, now: copies, and what the stage launches or calls. */
muster_status unit_do_step(struct lane_unit *unit, uint32_t step, struct muster_error *err);
/* Enqueues and begins what it can of all units, oldest first; true if that was anything. */
bool lane_move_units(struct run_lane *lane);
/* Whether all of the unit is over: nothing of it is with the device, nor with a worker. */
bool unit_is_over(struct lane_unit *unit);
/* The sink's edges are kept by the job. */
void unit_count_sink(struct lane_unit *unit);

/* unit.c */
/* Runs the stage's callback for parts of the unit. */
muster_status unit_call(struct lane_unit *unit, uint32_t step, uint32_t first_part,
                        uint32_t part_count, struct muster_error *err);
/* Launches the kernel of a stage that has no callback. */
muster_status unit_launch_step(struct lane_unit *unit, uint32_t step, uint32_t first_part,
                               uint32_t part_count, struct muster_error *err);

/* finish.c: what comes of a unit. */
/* The unit that was claimed begins. */
void unit_start_locked(struct lane_unit *unit, uint64_t number, uint64_t now_ns);
/* Whether what units hand on to the next is on the device. */
bool lane_carries(const struct lane_plan *plan);
/* Sees to units that are over: they are to be handed in, or run again in sections. */
void lane_finish_locked(struct run_lane *lane);
/* The lane leaves units that its device has not finished. */
void lane_leave_units_locked(struct run_lane *lane);

/* trace.c: what a trace and the totals are told. */
void trace_attempt_locked(struct lane_unit *unit, enum job_end end, enum job_verdict verdict,
                          uint64_t now_ns);
/*
 * A stage or a stall, on a stream counted from 1, or 0 on the host. `name` is cut off where it is too
 * long. Any thread, with or without the lock.
 */
void trace_step(const struct lane_unit *unit, enum muster_trace_kind kind, struct time_span span,
                uint32_t stream, muster_status status, const char *name);

/* loss.c: where a job's time went. */
/* Timing is for the report alone: without it the lane runs untimed. */
void timing_set_up(struct run_lane *lane);
void timing_give_back(struct lane_unit *unit);
void timing_give_anchors(struct run_lane *lane);
/* Records the unit's mark of that number after what the stream was given; they come in order. */
void timing_mark(struct lane_unit *unit, uint32_t which, const struct run_stream *stream);
/* The stream was given the last of the unit. */
void timing_anchor(struct lane_unit *unit, const struct run_stream *stream);
/* After the unit's end, with no lock held. */
void timing_read(struct lane_unit *unit);
void loss_attempt_locked(struct lane_unit *unit);

/* Sums over lanes, each weighted with the rate at which the lane works when it does. */
struct loss {
    double rate; /* items in a nanosecond */
    double startup, starved, tail, transfer, overhead;
    uint64_t items;
};
/* From `job_start_ns` until `job_end_ns`, the end of the job or of what is reported of it. */
void loss_add_locked(struct loss *loss, const struct run_lane *lane, uint64_t items,
                     uint64_t job_start_ns, uint64_t job_end_ns);
void loss_report(const struct loss *loss, struct muster_report *report);

/*
 * account.c: when stages were at work and how long edges held them up, by timing events; where those
 * are missing, of host steps alone. Nothing is done unless the plan is accounted.
 */
void account_set_up(struct run_lane *lane);
void account_begin_step(struct lane_unit *unit, uint32_t step);
void account_end_step(struct lane_unit *unit, uint32_t step);
/* The unit's host_span is what a host step took. */
void account_host_step(struct lane_unit *unit, uint32_t step);
/* The host has held a step of the unit up for so long, because of the edge. */
void account_stall(const struct lane_unit *unit, uint32_t edge, struct time_span span);
/* All of the unit has arrived. */
void account_unit(struct lane_unit *unit);
/* The lane has ended: whether each edge was recorded and waited for as the plan has it. */
void account_check(const struct run_lane *lane);
void account_free(struct run_lane *lane);
/* How often the plan has the edge recorded and waited for, for the units that the lane has begun. */
static inline uint64_t account_waits(const struct run_lane *lane, const struct pipe_edge *edge)
{
    return lane->next > edge->distance ? lane->next - edge->distance : 0;
}

#endif
