/*
 * From ready to running: chooses a device for each task, brings what it reads, makes room, and says
 * what to do next. A monitor over flow.h: the owner calls it under its lock, carries out what it is
 * given, and reports back; in virtual time the simulator does the same. Pure.
 *
 * A task on its way:
 *     waits (tasks.h) -> ready -> chosen: in the queue of a device -> admitted: room for all that it
 *     uses is reserved -> staged: its parts are there -> running -> ended
 * The owner's part:
 *     dispatch_ready           after tasks were released or have ended: takes the ready ones
 *     dispatch_next_copy       copies to begin; dispatch_copied when one has ended
 *     dispatch_next_freed      instances whose memory is to be given back
 *     dispatch_next_task       a task that the device can begin now; dispatch_ended when it has ended
 *     dispatch_next_dead       a task that is to end without being run, and why
 * None of them blocks, and each is asked until none has more, after any of the reports: what one gives
 * may lead to more of another. Freed instances come before the copies that use their room.
 *
 * MEMORY. At each place one task at a time is being admitted: it pins the instances that are there
 * and waits until there is room for the others; admission is all or nothing. What is not pinned may be
 * evicted: first what no chosen task needs, then what was used longest ago; what is dirty goes home
 * first. Pins are held by admitted tasks, which need no more memory, and by copies, which end. So a
 * task that fits alone is always admitted in the end, and an eviction is never undone before a task
 * has run because of it. What fits on no device is refused by dispatch_fits before it is submitted.
 *
 * LOSS. dispatch_lost drops all instances at the device's place. What was newest there alone is
 * spoiled (MUSTER_E_DATA_LOST); tasks chosen or running there are chosen again if what they read is
 * valid elsewhere.
 */
#ifndef CORE_DISPATCH_H
#define CORE_DISPATCH_H

#include "core/flow.h"
#include "core/task_rates.h"

#define DISPATCH_DEVICES_MAX 64u
/* The host as a device: tasks of dispatch_task.on_host; at home, any number run at once. */
#define DISPATCH_HOST DISPATCH_DEVICES_MAX

enum dispatch_policy {
    DISPATCH_EARLIEST_FINISH,
    DISPATCH_EAGER,       /* the device that is free first takes the first task */
    DISPATCH_ROUND_ROBIN, /* in turn over the devices that may run it */
    DISPATCH_USER         /* dispatch_next_undecided */
};

struct dispatch_sizes {
    uint32_t devices;    /* at most DISPATCH_DEVICES_MAX: fixed */
    uint32_t tasks;      /* as in the flow: fixed */
    uint32_t copies;     /* under way or planned, at least FLOW_ACCESSES_MAX */
    uint32_t rate_pairs; /* of task_rates.h */
    uint32_t decisions;  /* kept for dispatch_explain; 0: none */
};

struct dispatch;
size_t dispatch_bytes(const struct dispatch_sizes *sizes);
/* Aligned to 64 bytes and borrowed, as `flow`. */
struct dispatch *dispatch_init(void *memory, const struct dispatch_sizes *sizes, struct flow *flow,
                               enum dispatch_policy policy);
/* The flow was moved (flow_move). */
void dispatch_flow_moved(struct dispatch *dispatch, struct flow *flow);

struct dispatch_place {
    uint64_t bytes;         /* what there is room for */
    double in_bytes_per_ns; /* from home, as far as known beforehand; 0: unknown */
    double out_bytes_per_ns;
    uint64_t peers; /* bit p - 1: place p can be copied to directly from here */
};
/* Of places other than home, before the first task. */
void dispatch_place(struct dispatch *dispatch, uint32_t place,
                    const struct dispatch_place *description);

struct dispatch_device {
    uint32_t place;
    uint32_t at_once; /* tasks that run at a time, at least 1 */
    uint32_t ahead;   /* tasks staged beyond those that run; at least 1: prefetch */
};
/* Before the first task; devices that were not described take no part. */
void dispatch_device(struct dispatch *dispatch, uint32_t device,
                     const struct dispatch_device *description);

/* ---- Tasks ---- */

struct dispatch_task {
    uint32_t body;    /* the owner's number of what is run, for learning */
    uint64_t size;    /* how much work it is: tasks of one size class are alike; 0: bytes used */
    uint64_t devices; /* bit i: device i may run it */
    int32_t priority; /* higher first among those that are ready */
    bool on_host;     /* DISPATCH_HOST instead: acquire, combine, destroy */
};
/* After flow_order and before tasks_release: dispatch_ready finds it among the ready ones. */
void dispatch_describe(struct dispatch *dispatch, uint32_t task,
                       const struct dispatch_task *description);
/* It is withdrawn: not released after all, or released and not ready. */
void dispatch_undescribe(struct dispatch *dispatch, uint32_t task);
/* Of these devices those whose memory can hold all of it; 0: refuse it. */
uint64_t dispatch_fits(const struct dispatch *dispatch, const struct flow_access *accesses,
                       uint32_t count, uint64_t devices);

void dispatch_ready(struct dispatch *dispatch, uint64_t now_ns);
/* FLOW_NONE if the device is to do nothing now. The owner does not ask for more than at_once. */
uint32_t dispatch_next_task(struct dispatch *dispatch, uint32_t device, uint64_t now_ns);
/*
 * A task from dispatch_next_task has ended. `elapsed_ns` is what its body took; 0: not to be learned
 * from. Then the owner calls tasks_end and dispatch_ready.
 */
void dispatch_ended(struct dispatch *dispatch, uint32_t task, muster_status status,
                    uint64_t elapsed_ns, uint64_t now_ns);
/*
 * It was not begun, say for want of memory, or cannot have changed anything: everything that can be
 * evicted is, and it is chosen for again; with `avoid` not for this device, if there is another; the third
 * time in no case for this one. When no device is left it ends as MUSTER_E_DEVICE_MEMORY.
 */
void dispatch_put_back(struct dispatch *dispatch, uint32_t task, bool avoid, uint64_t now_ns);
/*
 * A task that ends without having been run, as MUSTER_E_CANCELLED, MUSTER_E_DATA_LOST,
 * MUSTER_E_DEVICE_MEMORY or MUSTER_E_NO_DEVICE; everything about it is settled except tasks_end and dispatch_ready.
 */
uint32_t dispatch_next_dead(struct dispatch *dispatch, muster_status *status,
                            struct flow_cause *cause);

/* ---- Copies and memory ---- */

struct dispatch_copy {
    uint32_t id;   /* for dispatch_copied */
    uint32_t part; /* what is copied */
    uint32_t from, to;
    uint32_t from_part;                  /* whose instance is read: `part`, or one around it */
    uint32_t from_instance, to_instance; /* FLOW_NONE at home */
    uint64_t bytes;
    bool is_eviction;
};
/*
 * The next copy to begin. Those between the same two places may go on at once or one after the other.
 * The owner allocates the instance it fills, if it has no memory yet.
 */
bool dispatch_next_copy(struct dispatch *dispatch, struct dispatch_copy *out);
/*
 * It has ended after `elapsed_ns` (0: not to be learned from). MUSTER_E_DEVICE_MEMORY: there was no
 * memory for it: as dispatch_put_back for the tasks that wait for it. Other failures count as a loss of the
 * place's device, so report that first.
 */
void dispatch_copied(struct dispatch *dispatch, uint32_t id, muster_status status,
                     uint64_t elapsed_ns);
/* The memory of an instance, if it has any, is not used any more. The id may be used again at once. */
bool dispatch_next_freed(struct dispatch *dispatch, uint32_t *instance);
/* The device is gone, or no more to be used; its copies and tasks are not reported any more. */
void dispatch_lost(struct dispatch *dispatch, uint32_t device, uint64_t now_ns);
/*
 * Tasks wait because the flow has no room for further instances: the owner moves it to larger memory
 * (flow_move, dispatch_flow_moved) and calls dispatch_ready.
 */
bool dispatch_wants_instances(const struct dispatch *dispatch);
/* Whether nothing is queued, staged, running or copied. */
bool dispatch_is_idle(const struct dispatch *dispatch);

/* ---- Choosing, and explaining it ---- */

struct dispatch_candidate {
    bool may_run; /* allowed, fits, is not lost */
    bool is_measured;
    double queue_ns;  /* until what it has is done */
    double copies_ns; /* what is to be brought, after what its links have to bring already */
    double run_ns;    /* learned, or expected from what is known; 0: nothing is */
    double finish_ns; /* from now */
    uint64_t copy_bytes;
};
/* One for each device. For tasks that are chosen already: what choosing now would look at. */
void dispatch_candidates(const struct dispatch *dispatch, uint32_t task, uint64_t now_ns,
                         struct dispatch_candidate *out);
/* Devices that a kept decision has figures of: the first ones. */
#define DISPATCH_EXPLAINED_MAX 16u
struct dispatch_decision {
    uint64_t number; /* counts choices from 1; 0: none yet, and the figures are those of now */
    uint64_t tag;    /* of the task, as flow_order was given it */
    uint64_t time_ns;
    uint32_t device; /* that has it, or had it; FLOW_NONE: none yet */
    uint32_t moves;  /* how often it was placed again */
    uint32_t count;  /* of the candidates */
    bool has_ended;
    muster_status status;       /* from here on: of one that has ended */
    uint64_t took_ns, after_ns; /* its body; from the choice to the end */
    struct dispatch_candidate candidates[DISPATCH_EXPLAINED_MAX];
};
/*
 * What was looked at when a device was last chosen for the task, which may have ended; for one that waits, what
 * would be looked at now. False: it is forgotten, or nothing is chosen for it.
 */
bool dispatch_explain(struct dispatch *dispatch, uint32_t task, uint64_t tag, uint64_t now_ns,
                      struct dispatch_decision *out);
/* With DISPATCH_USER: a task for which somebody is to choose, once; FLOW_NONE. */
uint32_t dispatch_next_undecided(struct dispatch *dispatch, uint64_t *version);
/*
 * Chooses. False if what the snapshot showed has changed so that the device cannot run it any more,
 * or `version` is old: then it is undecided again. FLOW_NONE as the device: earliest finish chooses.
 */
bool dispatch_choose(struct dispatch *dispatch, uint32_t task, uint32_t device, uint64_t version,
                     uint64_t now_ns);
/* The device it was chosen for; FLOW_NONE: none yet. */
uint32_t dispatch_chosen(const struct dispatch *dispatch, uint32_t task);
struct task_rates *dispatch_rates(struct dispatch *dispatch);

struct dispatch_figures {
    uint64_t copies, copied_bytes, evictions, written_back_bytes, moved; /* tasks chosen again */
};
const struct dispatch_figures *dispatch_figures(const struct dispatch *dispatch);

/* For tests: NULL, or what is wrong. Slow. */
const char *dispatch_check(const struct dispatch *dispatch);

#endif
