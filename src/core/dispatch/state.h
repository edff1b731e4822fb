/* What dispatch keeps, for its own files. */
#ifndef CORE_DISPATCH_STATE_H
#define CORE_DISPATCH_STATE_H

#include "core/dispatch.h"
#include "core/flow/state.h"

/* Queues: one for each device, one for the host, and one for tasks that any device may take. */
#define DISPATCH_COMMON (DISPATCH_HOST + 1)
#define DISPATCH_QUEUES (DISPATCH_COMMON + 1)

enum dispatch_phase {
    DISPATCH_ABSENT,    /* not described, or it has ended */
    DISPATCH_WAITING,   /* described; it waits in the table of tasks */
    DISPATCH_UNDECIDED, /* on the list for a user's policy, or in its hands */
    DISPATCH_TURN,      /* it waits for its turn to commute */
    DISPATCH_QUEUED,
    DISPATCH_STAGING, /* admitted: its parts are being brought */
    DISPATCH_STAGED,
    DISPATCH_RUNNING,
    DISPATCH_DEAD /* on the list of those that end without having been run */
};

struct dispatch_entry {
    struct dispatch_task about;
    uint64_t serial;     /* in the order of description */
    uint64_t refused_at; /* in dispatch.refusals */
    uint64_t avoided;    /* devices that it was put back from */
    uint64_t began_ns;
    uint64_t decision;  /* the number of the last one; 0: none */
    double expected_ns; /* what the device's queue counts it for */
    struct flow_cause cause;
    muster_status status;
    uint32_t row; /* of the rates */
    uint32_t device;
    uint32_t child, sibling, previous; /* in a queue; a list's next is `sibling` */
    uint8_t phase;
    uint8_t refusals; /* of devices that had no memory after all */
    bool is_trial;    /* the first of its row on the device */
    bool pins;        /* it has pinned those of its instances that are there */
};

struct dispatch_lane {
    struct dispatch_device about;
    bool is_there, is_lost;
    uint32_t queued, admitted, running; /* `admitted` includes those that run */
    uint32_t first_admitted;            /* oldest first, by `sibling` */
    double expected_ns;                 /* of all it has */
};

struct dispatch_memory {
    struct dispatch_place about;
    uint32_t admitting;         /* the task that waits for room; FLOW_NONE */
    double in_bytes, out_bytes; /* of copies that are planned or under way */
};

enum dispatch_copy_state { DISPATCH_COPY_FREE, DISPATCH_COPY_PLANNED, DISPATCH_COPY_BEGUN };
struct dispatch_transfer {
    struct dispatch_copy copy;
    uint32_t next; /* planned: oldest first; free */
    uint8_t state;
};

struct dispatch {
    struct dispatch_sizes sizes;
    struct flow *flow;
    struct task_rates *rates;
    enum dispatch_policy policy;
    struct dispatch_entry *tasks;
    struct dispatch_transfer *copies;
    struct dispatch_decision *decisions; /* a ring, by number */
    uint64_t decided;
    uint64_t *trials; /* by row: bit i: device i is being tried */
    struct dispatch_lane lanes[DISPATCH_QUEUES];
    uint32_t queues[DISPATCH_QUEUES]; /* roots */
    struct dispatch_memory places[FLOW_PLACES_MAX];
    uint64_t serial, version;
    uint64_t refusals; /* copies that had no memory */
    uint64_t now_ns;   /* the latest that the owner said */
    uint32_t turn;     /* of round-robin */
    bool wants_instances;
    uint32_t first_dead, last_dead;
    uint32_t first_undecided, last_undecided;
    uint32_t first_planned, last_planned, free_copies, used_copies, copy_count;
    uint32_t open; /* tasks that are ready and have not ended */
    struct dispatch_figures figures;
};

/* queue.c: highest priority first, then the order of description. */
void dispatch_push(struct dispatch *dispatch, uint32_t queue, uint32_t task);
uint32_t dispatch_pop(struct dispatch *dispatch, uint32_t queue);
void dispatch_unqueue(struct dispatch *dispatch, uint32_t queue, uint32_t task);
/* One that few stand behind; FLOW_NONE if the queue is empty. */
uint32_t dispatch_late_one(const struct dispatch *dispatch, uint32_t queue);
/* At the end of a list that is linked by `sibling`. */
void dispatch_append(struct dispatch *dispatch, uint32_t *first, uint32_t *last, uint32_t task);

/* choose.c: into the queue of a device, or to the dead. */
void dispatch_place_task(struct dispatch *dispatch, uint32_t task, uint64_t now_ns);
void dispatch_enqueue(struct dispatch *dispatch, uint32_t task, uint32_t device);
/* The device has it no more. */
void dispatch_unaccount(struct dispatch *dispatch, uint32_t task);
/* All that is queued at the device is chosen for again. */
void dispatch_choose_again(struct dispatch *dispatch, uint32_t device, uint64_t now_ns);
/* A task for an idle device from another one's queue: false if none would finish earlier. */
bool dispatch_steal(struct dispatch *dispatch, uint32_t device, uint64_t now_ns);
/* Devices that may run it, as far as they are there. */
uint64_t dispatch_allowed(const struct dispatch *dispatch, uint32_t task);
double dispatch_expected_ns(const struct dispatch *dispatch, uint32_t task, uint32_t device,
                            bool *is_measured);

/* explain.c: a new decision, to be filled; NULL: none are kept. */
struct dispatch_decision *dispatch_decide(struct dispatch *dispatch, uint32_t task,
                                          uint64_t now_ns);
/* The task's last one, if it is still kept. */
struct dispatch_decision *dispatch_decision(struct dispatch *dispatch, uint32_t task);
void dispatch_note_end(struct dispatch *dispatch, uint32_t task, muster_status status,
                       uint64_t took_ns, uint64_t now_ns);

/* admit.c: admits from the device's queue what it may. */
void dispatch_fill(struct dispatch *dispatch, uint32_t device);
/*
 * The device had no memory for the task after all, though there should have been room: it is tried
 * again there, then elsewhere, then given up. It is admitted or running, and does not stay so.
 */
void dispatch_refused(struct dispatch *dispatch, uint32_t task);
/* Everything at the place that nobody holds goes. */
void dispatch_evict_all(struct dispatch *dispatch, uint32_t place);
/* All devices whose place may have room now. */
void dispatch_fill_place(struct dispatch *dispatch, uint32_t place);
/* The task's pins, if it has any, are given back. */
void dispatch_unpin(struct dispatch *dispatch, uint32_t task);
/* Off the device's list of admitted tasks. */
void dispatch_unadmit(struct dispatch *dispatch, uint32_t task);

/* copies.c: plans what an admitted task still needs; it is staged when that is nothing. */
void dispatch_stage(struct dispatch *dispatch, uint32_t task);
/* False if there is no room for a further copy now. */
bool dispatch_plan_copy(struct dispatch *dispatch, const struct dispatch_copy *copy);
/* The copy has ended or is given up: pins and counts; not what it brought. */
void dispatch_end_copy(struct dispatch *dispatch, uint32_t id);
/* Tasks that are being staged look again. */
void dispatch_stage_again(struct dispatch *dispatch);
uint64_t dispatch_copy_bytes(const struct dispatch *dispatch, uint32_t task, uint32_t place,
                             double *copies_ns);

/* dispatch.c: it ends without having been run. */
void dispatch_kill(struct dispatch *dispatch, uint32_t task, muster_status status,
                   const struct flow_cause *cause);

static inline uint32_t dispatch_place_of(const struct dispatch *dispatch, uint32_t device)
{
    return device == DISPATCH_HOST ? FLOW_HOME : dispatch->lanes[device].about.place;
}

#endif
