/*
 * The host's own accesses: acquire and release, and the end of data. An acquired piece of data is
 * a task that has begun and ends with the release, so what is ordered before and after it is what core
 * says of any other task.
 */
#include "run/task/flow.h"

#include "base/allocator.h"
#include "base/invariant.h"

/* So long a job that is started in the callback of another waits for tasks. */
#define CALLBACK_NS UINT64_C(1000000000)

void flow_end_gate_locked(struct task_pool *pool, struct flow_gate *gate, muster_status status)
{
    struct flow_gate **at = &pool->flow.gates;
    while (*at != gate)
        at = &(*at)->next;
    *at = gate->next;
    gate->next = pool->flow.ended_gates;
    pool->flow.ended_gates = gate;
    pool_end_entry_locked(pool, gate->task.index, status);
    pool_tell_locked(pool);
}

void flow_open_gate_locked(struct task_pool *pool, struct flow_gate *gate, bool is_dead)
{
    bool is_dispatched = pool->tasks.entries[gate->task.index].tag & FLOW_DISPATCHED;
    gate->is_open = true;
    if (is_dead && !is_dispatched) {
        gate->status = MUSTER_E_CANCELLED;
        (void)flow_blame(pool->flow.core, gate->task.index, &gate->cause);
    }
    if (gate->run)
        flow_run_gate_locked(pool, gate, is_dead);
    else if (gate->is_left || is_dead)
        flow_end_gate_locked(pool, gate, gate->status);
    else if (pool->waiters > 0)
        platform_condition_wake_all(&pool->ended);
}

void flow_leave_gates_locked(struct task_pool *pool)
{
    struct flow_gate *next;
    for (struct flow_gate *gate = pool->flow.gates; gate; gate = next) {
        next = gate->next;
        if (gate->run)
            continue;
        gate->is_left = true;
        if (gate->is_open)
            flow_end_gate_locked(pool, gate, MUSTER_OK);
    }
}

/* Gates that are over and that nobody looks at any more. */
static void free_gates_locked(struct task_pool *pool)
{
    struct flow_gate *gone = NULL, **at = &pool->flow.ended_gates;
    while (*at) {
        struct flow_gate *gate = *at;
        if (!gate->is_left) {
            at = &gate->next;
            continue;
        }
        *at = gate->next;
        gate->next = gone;
        gone = gate;
    }
    if (!gone)
        return;
    platform_mutex_unlock(&pool->lock);
    while (gone) {
        struct flow_gate *gate = gone;
        gone = gate->next;
        allocator_give(&pool->m->allocator, gate, 1, sizeof *gate);
    }
    platform_mutex_lock(&pool->lock);
}

/*
 * As what the gate accesses the data. Bytes that are to be overwritten are brought all the same: if nobody
 * takes the gate they stay as they are. Unless there are none, or none that are good.
 */
static uint32_t mode_of(struct flow *core, uint32_t part, enum muster_mode mode)
{
    const struct flow_access update = { .part = part, .mode = FLOW_READ_WRITE };
    struct flow_cause cause;
    if (mode == MUSTER_READ)
        return FLOW_READ;
    if (mode == MUSTER_WRITE &&
        (flow_unwritten(core, &update, 1) == 0 || flow_part_blame(core, part, &cause)))
        return FLOW_WRITE;
    return FLOW_READ_WRITE;
}

muster_status flow_add_gate_locked(struct task_pool *pool, struct flow_gate *gate,
                                   struct flow_access *accesses, uint32_t count,
                                   enum flow_order_result *grow)
{
    uint32_t index = tasks_add(&pool->tasks);
    INVARIANT(index != TASKS_NONE);
    struct tasks_entry *entry = &pool->tasks.entries[index];
    gate->task = (muster_task){ index, entry->generation };
    count = flow_merge(accesses, count);
    *grow = flow_order(pool->flow.core, index, (uint64_t)gate->task.generation << 32 | index,
                       accesses, count);
    if (*grow != FLOW_ORDERED) {
        tasks_withdraw(&pool->tasks, index);
        return MUSTER_E_CAPACITY;
    }
    pool->flow.uses += count;
    entry->tag = (uint16_t)(FLOW_IS | FLOW_RECORD | FLOW_GATE | count << FLOW_USES_SHIFT);
    entry->payload[1] = gate;
    gate->next = pool->flow.gates;
    pool->flow.gates = gate;
    if (pool->flow.dispatch)
        flow_dispatch_locked(pool, index, 0, gate, NULL, 0, 0);
    return MUSTER_OK;
}

void flow_remove_gate_locked(struct task_pool *pool, struct flow_gate *gate)
{
    struct tasks_entry *entry = &pool->tasks.entries[gate->task.index];
    INVARIANT(pool->flow.gates == gate);
    pool->flow.gates = gate->next;
    entry->tag &= (uint16_t)~FLOW_RECORD;
    flow_unbind_locked(pool, gate->task.index, true);
    tasks_withdraw(&pool->tasks, gate->task.index);
}

/* Submits the gate's task. The lock is not held all the time. */
static muster_status submit_gate_locked(struct task_pool *pool, struct flow_gate *gate,
                                        enum muster_mode mode, struct muster_error *err)
{
    const struct muster_task_access like = { sizeof like, gate->data, (uint32_t)mode };
    const struct muster_task_desc desc = { .size = sizeof desc,
                                           .accesses = &like,
                                           .access_count = 1 };
    struct flow_slot *slot;
    enum flow_order_result result = FLOW_ORDERED;
    muster_status status = MUSTER_OK;
    if (!flow_slot_of(&pool->flow, gate->data))
        status = flow_know_locked(pool, gate->data, err);
    if (status == MUSTER_OK)
        status = flow_insert_locked(pool, &desc, err);
    if (status == MUSTER_OK)
        status = pool_make_room_locked(pool, 1, err);
    while (status == MUSTER_OK) {
        if (!(slot = flow_slot_of(&pool->flow, gate->data)))
            return muster_error_fill(err, MUSTER_E_STALE, 0, NULL, "the data is gone");
        const struct flow_access access = { .part = slot->part,
                                            .mode = mode_of(pool->flow.core, slot->part, mode) };
        if (mode != MUSTER_WRITE && !gate->is_last &&
            flow_unwritten(pool->flow.core, &access, 1) == 0)
            return muster_error_fill(err, MUSTER_E_INVALID, 0, "acquire it to write it",
                                     "the data has not been written");
        struct flow_access accesses[1] = { access };
        status = flow_add_gate_locked(pool, gate, accesses, 1, &result);
        if (status == MUSTER_OK)
            break;
        status = flow_grow_for_locked(pool, result, err);
    }
    if (status != MUSTER_OK)
        return status;
    struct run_data *whole = data_whole(slot->data);
    whole->writes += mode != MUSTER_READ;
    gate->writes = whole->writes;
    pool->submitted++;
    pool_show_submitted_locked(pool);
    tasks_release(&pool->tasks, gate->task.index);
    flow_pump_locked(pool);
    return MUSTER_OK;
}

/* Waits until the gate is open; helps meanwhile. */
static muster_status await_gate_locked(struct task_pool *pool, struct flow_gate *gate,
                                       uint64_t deadline_ns, struct muster_error *err)
{
    while (!gate->is_open) {
        if (deadline_ns != UINT64_MAX && platform_clock_ns() >= deadline_ns) {
            gate->is_left = true;
            return muster_error_fill(
                err, MUSTER_E_TIMEOUT, 0, NULL,
                "tasks that access the data have not ended in the time allowed");
        }
        /* To look for work may have opened it. */
        if (!pool_help_locked(pool) && !gate->is_open)
            pool_await_end_locked(pool, false, deadline_ns);
    }
    if (gate->status == MUSTER_OK)
        return MUSTER_OK;
    gate->is_left = true;
    if (gate->cause.tag != 0)
        flow_explain_cause_locked(pool, &gate->cause, err);
    else
        muster_error_fill(err, gate->status, 0, NULL, "the data was not written: %s",
                          muster_status_message(gate->status));
    if (err)
        err->status = gate->cause.status != MUSTER_OK ? gate->cause.status : gate->status;
    return gate->cause.status != MUSTER_OK ? gate->cause.status : gate->status;
}

enum gate_kind { GATE_ACQUIRE, GATE_LAST, GATE_JOB };

static muster_status open_gate(struct task_pool *pool, muster_data data, enum muster_mode mode,
                               uint64_t deadline_ns, enum gate_kind kind, struct flow_gate **out,
                               struct muster_error *err)
{
    struct flow_gate *gate = allocator_take(&pool->m->allocator, 1, sizeof *gate);
    if (!gate)
        return run_no_memory(err, "access to data");
    gate->data = data;
    gate->is_last = kind == GATE_LAST;
    gate->is_job = kind == GATE_JOB;
    platform_mutex_lock(&pool->lock);
    free_gates_locked(pool);
    muster_status status = submit_gate_locked(pool, gate, mode, err);
    bool is_submitted = status == MUSTER_OK;
    if (is_submitted)
        status = await_gate_locked(pool, gate, deadline_ns, err);
    platform_mutex_unlock(&pool->lock);
    if (!is_submitted)
        allocator_give(&pool->m->allocator, gate, 1, sizeof *gate);
    else
        *out = gate;
    return status;
}

muster_status muster_data_acquire(struct muster *m, muster_data handle, enum muster_mode mode,
                                  uint64_t timeout_ns, void **pointer, struct muster_error *err)
{
    struct task_pool *pool;
    struct run_data *data;
    struct flow_gate *gate;
    if (!m || !pointer || mode < MUSTER_READ || mode > MUSTER_READ_WRITE)
        return run_bad_argument(err, "muster_data_acquire",
                                "an argument is NULL, or mode is not read, write or both");
    if (run_is_forked(m))
        return run_say_forked(err);
    if (pool_is_in_task())
        return run_say_stuck(err, "muster_data_acquire");
    muster_status status = pool_get(m, &pool, err);
    if (status == MUSTER_OK)
        status = data_begin_use(m, handle, &data, err);
    if (status != MUSTER_OK)
        return status;
    char *home = data->bytes > 0 ? data_home(m, data) : NULL;
    muster_data whole = data->whole ? data->whole_handle : handle;
    platform_mutex_lock(&pool->lock);
    bool must_drop = mode != MUSTER_READ && !flow_is_held_locked(pool, data_whole(data)) &&
                     atomic_load_explicit(&data_whole(data)->was_resident, memory_order_relaxed);
    platform_mutex_unlock(&pool->lock);
    data_end_use(m, data);
    if (!home && data->bytes > 0)
        return run_no_memory(err, "data on the host");
    uint64_t deadline_ns = timeout_ns == UINT64_MAX ? UINT64_MAX : platform_deadline_ns(timeout_ns);
    if (must_drop && (status = data_drop_copies(m, whole, false, err)) != MUSTER_OK)
        return status;
    status = open_gate(pool, handle, mode, deadline_ns, GATE_ACQUIRE, &gate, err);
    if (status == MUSTER_OK)
        *pointer = home;
    return status;
}

muster_status muster_data_release(struct muster *m, muster_data handle, struct muster_error *err)
{
    if (!m)
        return run_bad_argument(err, "muster_data_release", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    struct task_pool *pool = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    struct flow_gate *gate = NULL;
    if (pool) {
        platform_mutex_lock(&pool->lock);
        gate = pool->flow.gates;
        while (gate &&
               (!gate->is_open || gate->is_last || gate->is_job || gate->run ||
                gate->data.index != handle.index || gate->data.generation != handle.generation))
            gate = gate->next;
        if (gate) {
            gate->is_left = true;
            flow_end_gate_locked(pool, gate, MUSTER_OK);
            free_gates_locked(pool);
        }
        platform_mutex_unlock(&pool->lock);
    }
    if (!gate)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "release each acquire once",
                                 "the data is not acquired");
    return MUSTER_OK;
}

/* ---- Jobs that read data ---- */

/* Whether the program has acquired the data, or a part of it: then it is the program's, and nobody waits. */
static bool is_acquired_locked(struct task_pool *pool, const struct run_data *whole)
{
    for (const struct flow_gate *gate = pool->flow.gates; gate; gate = gate->next) {
        const struct flow_slot *slot = flow_slot_of(&pool->flow, gate->data);
        if (gate->is_open && !gate->is_last && !gate->is_job && !gate->run && slot &&
            data_whole(slot->data) == whole)
            return true;
    }
    return false;
}

bool flow_has_jobs_locked(const struct task_pool *pool)
{
    const struct flow_gate *gate = pool->flow.gates;
    while (gate && !gate->is_job)
        gate = gate->next;
    return gate;
}

bool flow_is_held_locked(const struct task_pool *pool, const struct run_data *whole)
{
    for (const struct flow_gate *gate = pool->flow.gates; gate; gate = gate->next) {
        const struct flow_slot *slot = flow_slot_of(&pool->flow, gate->data);
        if (gate->is_job && slot && slot->data == whole)
            return true;
    }
    return false;
}

/* Resident copies that were made before the last write are of no use any more. */
static muster_status drop_old_copies(struct task_pool *pool, muster_data handle,
                                     const struct flow_gate *gate, struct muster_error *err)
{
    platform_mutex_lock(&pool->lock);
    /* The gate keeps the data. */
    struct run_data *whole = flow_slot_of(&pool->flow, handle)->data;
    bool is_old = whole->writes_dropped < gate->writes;
    platform_mutex_unlock(&pool->lock);
    if (!is_old || !atomic_load_explicit(&whole->was_resident, memory_order_relaxed))
        return MUSTER_OK;
    muster_status status = data_drop_copies(pool->m, handle, false, err);
    platform_mutex_lock(&pool->lock);
    if (status == MUSTER_OK && whole->writes_dropped < gate->writes)
        whole->writes_dropped = gate->writes;
    platform_mutex_unlock(&pool->lock);
    return status;
}

static uint64_t name_of(const struct flow_gate *gate)
{
    return (uint64_t)gate->task.generation << 32 | gate->task.index;
}

muster_status flow_hold(struct muster *m, muster_data handle, uint64_t *held,
                        struct muster_error *err)
{
    struct task_pool *pool = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    struct flow_gate *gate;
    platform_mutex_lock(&pool->lock);
    const struct flow_slot *slot = flow_slot_of(&pool->flow, handle);
    bool is_free = slot && !slot->data->whole && !is_acquired_locked(pool, slot->data);
    platform_mutex_unlock(&pool->lock);
    *held = 0;
    if (!is_free)
        return MUSTER_OK;
    if (pool_is_in_task())
        return run_say_stuck(err, "a job that reads data which tasks access");
    /* The tasks may be waiting for the job whose callback this is. */
    bool must_not_wait = platform_frame_is_in(FRAME_JOB, NULL);
    muster_status status = open_gate(pool, handle, MUSTER_READ,
                                     must_not_wait ? platform_deadline_ns(CALLBACK_NS) : UINT64_MAX,
                                     GATE_JOB, &gate, err);
    if (status == MUSTER_E_TIMEOUT)
        return run_say_stuck(err, "a job that reads data which tasks are still to write");
    if (status != MUSTER_OK)
        return status;
    *held = name_of(gate);
    status = drop_old_copies(pool, handle, gate, err);
    if (status != MUSTER_OK)
        flow_let_go(m, *held);
    return status;
}

static struct flow_gate *find_held_locked(struct task_pool *pool, uint64_t held)
{
    struct flow_gate *gate = pool->flow.gates;
    while (gate && (!gate->is_job || !gate->is_open || name_of(gate) != held))
        gate = gate->next;
    return gate;
}

/* Whether what is to be written next has copies that only this job has used. */
static bool has_old_copies_locked(struct task_pool *pool, const struct flow_gate *gate)
{
    const struct flow_slot *slot = flow_slot_of(&pool->flow, gate->data);
    uint32_t readers = 0;
    for (const struct flow_gate *other = pool->flow.gates; other; other = other->next)
        readers += other->is_job && other->data.index == gate->data.index;
    return readers == 1 && slot && slot->data->writes > gate->writes &&
           atomic_load_explicit(&slot->data->was_resident, memory_order_relaxed);
}

/* The gate may have ended with the runtime already. */
void flow_let_go(struct muster *m, uint64_t held)
{
    struct task_pool *pool = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    platform_mutex_lock(&pool->lock);
    struct flow_gate *gate = find_held_locked(pool, held);
    if (gate && has_old_copies_locked(pool, gate)) {
        muster_data data = gate->data;
        platform_mutex_unlock(&pool->lock);
        (void)data_drop_copies(m, data, false, NULL);
        platform_mutex_lock(&pool->lock);
        gate = find_held_locked(pool, held);
    }
    if (gate) {
        gate->is_left = true;
        flow_end_gate_locked(pool, gate, MUSTER_OK);
        free_gates_locked(pool);
    }
    platform_mutex_unlock(&pool->lock);
}

/* Whether core knows the data. */
static bool is_known(struct task_pool *pool, muster_data data)
{
    platform_mutex_lock(&pool->lock);
    bool is_there = flow_slot_of(&pool->flow, data);
    platform_mutex_unlock(&pool->lock);
    return is_there;
}

/* A thread may be in a copy that core has forgotten with its device. */
static bool is_copied_locked(const struct flow_pool *flow, const struct run_data *whole)
{
    for (uint32_t i = 0; i < flow->device_count; i++)
        for (uint32_t k = 0; k < FLOW_THREADS; k++)
            if (flow->devices[i]->threads[k].whole == whole)
                return true;
    return false;
}

/*
 * A gate that is over because nobody may read the data has waited for its tasks, and not for copies that make
 * room. False: the time is over.
 */
static bool await_unused_locked(struct task_pool *pool, muster_data data, uint64_t deadline_ns)
{
    const struct flow_slot *slot;
    while ((slot = flow_slot_of(&pool->flow, data)) &&
           (flow_part_is_used(pool->flow.core, slot->part) ||
            is_copied_locked(&pool->flow, slot->data))) {
        if (platform_clock_ns() >= deadline_ns)
            return false;
        if (!pool_help_locked(pool))
            pool_await_end_locked(pool, false, deadline_ns);
    }
    return true;
}

/* Waits for all that accesses the data, brings it home, and with `is_last` has core forget it. */
static muster_status settle(struct task_pool *pool, muster_data data, bool is_last,
                            struct muster_error *err)
{
    struct flow_gate *gate;
    uint64_t deadline_ns = platform_deadline_ns(pool->m->options.close_ns);
    muster_status status = open_gate(pool, data, MUSTER_READ_WRITE, deadline_ns,
                                     is_last ? GATE_LAST : GATE_ACQUIRE, &gate, err);
    if (status == MUSTER_E_TIMEOUT || status == MUSTER_E_NO_MEMORY || status == MUSTER_E_CAPACITY)
        return status;
    platform_mutex_lock(&pool->lock);
    if (status == MUSTER_OK) {
        gate->is_left = true;
        flow_end_gate_locked(pool, gate, MUSTER_OK);
    }
    if (is_last && await_unused_locked(pool, data, deadline_ns))
        flow_forget_locked(pool, data);
    else if (is_last)
        status =
            muster_error_fill(err, MUSTER_E_TIMEOUT, 0, NULL,
                              "what is copied of the data has not arrived in the time allowed");
    free_gates_locked(pool);
    platform_mutex_unlock(&pool->lock);
    return status;
}

static muster_status drop(struct muster *m, muster_data handle, bool is_last,
                          struct muster_error *err)
{
    muster_data contributions[MUSTER_REDUCE_PARTS] = { { 0, 0 } };
    struct run_data *data;
    if (run_is_forked(m))
        return run_say_forked(err);
    struct task_pool *pool = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    if (!pool || !is_known(pool, handle))
        return data_drop_copies(m, handle, is_last, err);
    if (pool_is_in_task())
        return run_say_stuck(err, is_last ? "muster_data_destroy" : "muster_data_invalidate");
    muster_status status = data_begin_use(m, handle, &data, err);
    if (status != MUSTER_OK)
        return status;
    if (is_last && data->part_count > 0)
        status = muster_error_fill(err, MUSTER_E_BUSY, 0, "destroy its parts first",
                                   "the data has %u parts", data->part_count);
    for (uint32_t i = 0; i < MUSTER_REDUCE_PARTS && is_last; i++)
        contributions[i] = data->contributions[i];
    data_end_use(m, data);
    if (status != MUSTER_OK)
        return status;
    muster_status settled = settle(pool, handle, is_last, err);
    if (settled == MUSTER_E_TIMEOUT || settled == MUSTER_E_NO_MEMORY ||
        settled == MUSTER_E_CAPACITY)
        return settled;
    for (uint32_t i = 0; i < MUSTER_REDUCE_PARTS; i++)
        if (contributions[i].generation > 0)
            (void)drop(m, contributions[i], true, NULL);
    status = data_drop_copies(m, handle, is_last, settled == MUSTER_OK ? err : NULL);
    return settled != MUSTER_OK ? settled : status;
}

muster_status muster_data_invalidate(struct muster *m, muster_data handle, struct muster_error *err)
{
    return m ? drop(m, handle, false, err)
             : run_bad_argument(err, "muster_data_invalidate", "an argument is NULL");
}

muster_status muster_data_destroy(struct muster *m, muster_data handle, struct muster_error *err)
{
    return m ? drop(m, handle, true, err)
             : run_bad_argument(err, "muster_data_destroy", "an argument is NULL");
}
