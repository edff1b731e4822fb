/*
 * Tasks with accesses (include/muster/data.h), shared by the files that run them. What follows what, and
 * where bytes are, is decided by core (core/flow.h); this carries it out, under the pool's lock.
 *
 *   flow_data.c    data and parts: what core calls each, where their host memory is
 *   flow_submit.c  a task's accesses on their way into core; reductions
 *   flow_host.c    bodies that run on the host, and how tasks end
 *   flow_gate.c    the host's own accesses: acquire, release, destroy
 *   flow_rates.c   what was learned of how long bodies take, from run to run
 *
 * As long as no task may run on a device with memory of its own there is one place, the host: tasks are run
 * as functions are, by the pool's threads, and core is asked for their order alone.
 */
#ifndef RUN_TASK_FLOW_H
#define RUN_TASK_FLOW_H

#include "run/task/task_pool.h"

/* Bits of tasks_entry.tag. */
#define FLOW_IS 1u     /* has accesses */
#define FLOW_RECORD 2u /* payload[1] is its struct flow_task */
#define FLOW_TURN 4u   /* has its turn among those that commute */
#define FLOW_DEAD 8u   /* ends without being run */
#define FLOW_GATE 16u  /* payload[1] is its struct flow_gate */
#define FLOW_DISPATCHED                                                                            \
    32u               /* core finds the place for it, and is told of its end by dispatch_ended */
#define FLOW_OVER 64u /* a device has run it; the record's status is how it ended */
#define FLOW_RUN 128u /* a run of a graph */
#define FLOW_USES_SHIFT 8 /* above: the number of its accesses */

/* ---- flow_data.c ---- */

/* The pool's, with the lock; NULL if core does not know the data (any more). */
static inline struct flow_slot *flow_slot_of(const struct flow_pool *flow, muster_data data)
{
    struct flow_slot *slot = data.index < flow->slot_count ? &flow->slots[data.index] : NULL;
    return slot && slot->generation == data.generation && data.generation > 0 ? slot : NULL;
}
/* Makes core know the data. With the lock, which is not held all the time. */
muster_status flow_know_locked(struct task_pool *pool, muster_data data, struct muster_error *err);
/* Grows core's memory. With the lock, which is not held all the time. */
muster_status flow_grow_locked(struct task_pool *pool, const struct flow_sizes *wanted,
                               struct muster_error *err);
void flow_free(struct task_pool *pool);
void flow_dispatch_free(struct task_pool *pool);

/* Core and the slot forget data that no task uses. With the lock. */
void flow_forget_locked(struct task_pool *pool, muster_data data);
/* This many spare records; the names of tasks can be kept. With the lock, which is not held all the time. */
muster_status flow_make_records_locked(struct task_pool *pool, uint32_t count,
                                       struct muster_error *err);
muster_status flow_make_notes_locked(struct task_pool *pool, struct muster_error *err);

/* ---- flow_submit.c ---- */

static inline bool flow_is_task(const struct muster_task_desc *desc)
{
    return desc->access_count > 0 || desc->body_count > 0;
}
/* The device that bodies for `cpu` run on. With the lock, which is not held all the time. */
muster_status flow_find_cpu_locked(struct task_pool *pool, muster_device *out,
                                   struct muster_error *err);
/* What is new in a task's description since there are accesses. */
muster_status flow_check_desc(const struct muster_task_desc *desc, struct muster_error *err);
/*
 * All that the task needs in core and here is there, and stays as long as the lock is held. `*is_same` is
 * false if it was not held all the time: then what was seen before has to be looked at again.
 */
muster_status flow_prepare_locked(struct task_pool *pool, const struct muster_task_desc *desc,
                                  struct flow_needs *needs, bool *is_same,
                                  struct muster_error *err);
/* The same for the sum of what the tasks of a call need. */
muster_status flow_make_room_locked(struct task_pool *pool, const struct flow_needs *needs,
                                    bool *is_same, struct muster_error *err);
/* Whether tasks are to be inserted before the task: then it is submitted alone. */
bool flow_must_insert_locked(struct task_pool *pool, const struct muster_task_desc *desc);
/* Inserts them. With the lock, which is not held all the time. */
muster_status flow_insert_locked(struct task_pool *pool, const struct muster_task_desc *desc,
                                 struct muster_error *err);
/* Fills the place of a new task. */
void flow_bind_locked(struct task_pool *pool, uint32_t index, const struct muster_task_desc *desc);
/* Lets it follow others; not MUSTER_OK: nothing has changed. MUSTER_E_CAPACITY: `grow` has to grow. */
muster_status flow_order_locked(struct task_pool *pool, uint32_t index,
                                const struct muster_task_desc *desc, uint64_t devices,
                                enum flow_order_result *grow, struct muster_error *err);
/* Room for what core had too little of. With the lock, which is not held all the time. */
muster_status flow_grow_for_locked(struct task_pool *pool, enum flow_order_result what,
                                   struct muster_error *err);
/* The opposite of both, the last task first. */
void flow_unbind_locked(struct task_pool *pool, uint32_t index, bool is_ordered);

/* ---- flow_host.c ---- */

/* A task was taken: false if it is not to be run now, and nothing is to be done with it. */
bool flow_begin_locked(struct task_pool *pool, struct running *running);
/* The task was cancelled because of another: both are told so. */
void flow_note_cause_locked(struct task_pool *pool, uint32_t index, const struct flow_cause *cause);
/* Before the table hears of the end. */
void flow_end_locked(struct task_pool *pool, uint32_t index, muster_status status);
/* After it has: tasks whose turn may have come are ready again. */
void flow_turn_locked(struct task_pool *pool);
/* Runs a record's body here. No lock is held. */
muster_status flow_run(struct task_pool *pool, struct flow_task *task);
/* A named or failed task has ended: those that follow it are told why, if they ask. With the lock. */
void flow_note_end_locked(struct task_pool *pool, uint32_t index, muster_status status);
/* The task is called so, in errors. With the lock; there are notes. */
void flow_name_locked(struct task_pool *pool, uint32_t index, const char *name);
/* How the task is called and why it ended so, for an error. With the lock. */
void flow_explain_locked(struct task_pool *pool, muster_task task, muster_status status,
                         struct muster_error *err);
/* The same of data: which task did not write it. */
void flow_explain_cause_locked(struct task_pool *pool, const struct flow_cause *cause,
                               struct muster_error *err);

/* ---- flow_place.c ---- */

/* Whether a device with memory of its own may run the task, so that there is to be a dispatch. */
bool flow_wants_devices(const struct flow_pool *flow, const struct muster_task_desc *desc);
/* Makes the dispatch, with all devices. With the lock, which is not held all the time. */
muster_status flow_make_dispatch_locked(struct task_pool *pool, struct muster_error *err);
/* Which devices may run it, a bit each; 0, and not MUSTER_OK, if none may, nor the host. No lock. */
muster_status flow_find_devices(struct task_pool *pool, const struct muster_task_desc *desc,
                                uint64_t *devices, struct muster_error *err);
/* Has core place an ordered task when it is ready. */
void flow_dispatch_locked(struct task_pool *pool, uint32_t index, uint64_t devices,
                          const void *body, const char *name, uint64_t items, int32_t priority);
/* Carries out what core has decided. With the lock. */
void flow_pump_locked(struct task_pool *pool);
/* The device is gone: core finds others for what it had. */
void flow_lose_locked(struct flow_device *device);
void flow_give_work_locked(struct flow_pool *flow, struct flow_work *work);

/* ---- flow_work.c ---- */

muster_status flow_device_start(struct flow_device *device, struct muster_error *err);
/* Ends all threads; how many are inside a driver at the deadline, and do not come out. */
uint32_t flow_devices_stop(struct task_pool *pool, uint64_t deadline_ns, struct muster_error *what);

/* ---- flow_graph.c ---- */

/* Whether this thread records what it submits. */
bool flow_is_recording(const struct muster *m);
/* Keeps the tasks of a call, which were checked. */
muster_status flow_record(struct muster *m, const struct muster_task_desc *descs, size_t count,
                          muster_task *out, struct muster_error *err);

/* ---- flow_run.c ---- */

/* A gate of a run is open, or dead. With the lock. */
void flow_run_gate_locked(struct task_pool *pool, struct flow_gate *gate, bool is_dead);
/* Runs some tasks of a graph, if any are ready; with the lock, which is not held meanwhile. */
bool flow_help_run_locked(struct task_pool *pool);
/* The same after what a long task of the next run holds up is put back. To be called now and then. */
bool flow_look_at_run_locked(struct task_pool *pool);
/* Whether a run has tasks for one who helps. With the lock. */
bool flow_has_runs_locked(const struct task_pool *pool);
/* Changes when tasks of a run have ended. With the lock. */
uint64_t flow_steps_locked(const struct task_pool *pool);

/* ---- flow_rates.c ---- */

/* The names of bodies can be kept. With the lock, which is not held all the time. */
muster_status flow_make_rates_locked(struct task_pool *pool, struct muster_error *err);
void flow_free_rates(struct task_pool *pool);
/* Tasks of the body, by core's number, are called so; NULL: they have no name. There is a dispatch. */
void flow_name_body_locked(struct task_pool *pool, uint32_t body, const char *name);

/* ---- flow_gate.c ---- */

/* The accesses of one gate; MUSTER_E_CAPACITY: `grow` has to grow, and nothing has changed. */
muster_status flow_add_gate_locked(struct task_pool *pool, struct flow_gate *gate,
                                   struct flow_access *accesses, uint32_t count,
                                   enum flow_order_result *grow);
/* The opposite, before it is released; the last first. */
void flow_remove_gate_locked(struct task_pool *pool, struct flow_gate *gate);

/* It is over; its memory is given back later, if it is left. With the lock. */
void flow_end_gate_locked(struct task_pool *pool, struct flow_gate *gate, muster_status status);
/* The gate is open, or over. With the lock. */
void flow_open_gate_locked(struct task_pool *pool, struct flow_gate *gate, bool is_dead);
/* data_hooks. */
muster_status flow_hold(struct muster *m, muster_data data, uint64_t *held,
                        struct muster_error *err);
void flow_let_go(struct muster *m, uint64_t held);
/* Whether any job reads data that tasks write. With the lock. */
bool flow_has_jobs_locked(const struct task_pool *pool);
/* A job reads the whole: its copies are dropped when it is over. With the lock. */
bool flow_is_held_locked(const struct task_pool *pool, const struct run_data *whole);
/* When the runtime closes nobody has anything acquired any more. */
void flow_leave_gates_locked(struct task_pool *pool);

#endif
