/*
 * Tasks: submitting them to the core's table (core/tasks.h), which has a lock of its own, and cancelling
 * them. Functions are run by run.c. Tasks with kernels are in the same table, set aside: the thread that makes
 * one ready gives it to a device (settle.c), which takes no longer than a launch, and the thread that sees the
 * device finish ends it.
 *
 * The lock is apart from the runtime's, so that tasks and the rest do not stand in each other's way.
 * It is never held while user code runs, and no other lock is taken under it.
 */
#include "base/allocator.h"
#include "base/invariant.h"
#include "run/task/flow.h"

#include <string.h>

/* No memory is that large. */
#define EDGES_MAX (UINT32_MAX / 4)

#define PRIORITY_LOWEST (-(int)TASKS_PRIORITY_USUAL)
#define PRIORITY_HIGHEST ((int)(TASKS_PRIORITIES - TASKS_PRIORITY_USUAL) - 1)

/* What the tasks of a call are, as far as the way they are submitted depends on it. */
struct call {
    uint32_t kernel_count; /* of those without accesses */
    bool has_accesses;
    bool has_names;
    const uint64_t *devices; /* for each that has accesses, where it may run; NULL: at home */
};

/* Whether this thread runs a task to make room. */
static _Thread_local bool is_making_room;

/* Functions are kept as the table's plain pointers. */
static void keep_functions(struct tasks_entry *entry, const struct muster_task_desc *desc)
{
    memcpy(&entry->payload[0], &desc->fn, sizeof desc->fn);
    entry->payload[1] = desc->user;
    memcpy(&entry->payload[2], &desc->done, sizeof desc->done);
}

/* Task i of a call, whose structs may be of an older version: then it is completed in `copy`. */
static const struct muster_task_desc *desc_at(const struct muster_task_desc *descs, size_t i,
                                              struct muster_task_desc *copy)
{
    return layout_at(LAYOUT(muster_task_desc), descs, i, copy);
}

/* Whether the task is one of kernels, on a device or in a resident lane. */
static bool has_kernel(const struct muster_task_desc *desc)
{
    return desc->kernel || desc->steps;
}

static muster_status check_desc(const struct muster_task_desc *desc, struct muster_error *err)
{
    if (desc->body_count > 0 ? has_kernel(desc) : !desc->fn == !has_kernel(desc))
        return run_bad_argument(err, "muster_submit", "a task has either a function or a kernel");
    if (desc->resident ? !desc->kernel == !desc->steps || desc->fn : desc->steps != NULL)
        return run_bad_argument(err, "muster_submit",
                                "a task of a resident lane has either a kernel or steps");
    if (!desc->after && desc->after_count > 0)
        return run_bad_argument(err, "muster_submit", "a task with no list to be after");
    if (desc->priority < PRIORITY_LOWEST || desc->priority > PRIORITY_HIGHEST)
        return run_bad_argument(err, "muster_submit", "a priority that is not from -16 to 15");
    return flow_is_task(desc) ? flow_check_desc(desc, err) : MUSTER_OK;
}

/* Whether it is a task of a lane's: one with a kernel, and without accesses. */
static bool is_kernel_task(const struct muster_task_desc *desc)
{
    return has_kernel(desc) && !flow_is_task(desc);
}

static muster_status check_descs(const struct muster_task_desc *descs, size_t count,
                                 struct call *call, struct muster_error *err)
{
    if (count > MUSTER_SUBMIT_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "submit fewer at a time",
                                 "%zu tasks in one call; at most %u", count, MUSTER_SUBMIT_MAX);
    /* A single one of this version has nothing to be checked. */
    muster_status status = count == 1 && descs->size == sizeof *descs
                               ? MUSTER_OK
                               : layout_check_all(LAYOUT(muster_task_desc), descs, count, err);
    *call = (struct call){ .kernel_count = 0 };
    size_t resident_count = 0;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        struct muster_task_desc copy;
        const struct muster_task_desc *desc = desc_at(descs, i, &copy);
        status = check_desc(desc, err);
        call->has_accesses |= flow_is_task(desc);
        call->has_names |= desc->name != NULL;
        call->kernel_count += is_kernel_task(desc);
        if (status == MUSTER_OK && desc->resident &&
            ++resident_count > resident_room(desc->resident))
            status = muster_error_fill(err, MUSTER_E_TOO_LARGE, 0,
                                       "submit fewer at a time, or make a lane with more entries",
                                       "a resident lane takes at most %u tasks at once",
                                       resident_room(desc->resident));
    }
    return status;
}

/*
 * Makes room for `count` tasks: by running some, as long as there is none. What is run for that does
 * not do the same on top of it, without end. A task never waits for room, since the others may wait
 * for it: it has the places that keep how tasks ended.
 */
muster_status pool_make_room_locked(struct task_pool *pool, size_t count, struct muster_error *err)
{
    /* Half of the places keep how tasks ended, for those who ask. */
    if (pool->tasks.open_count + count <= MUSTER_TASKS_MAX / 2)
        return MUSTER_OK;
    while (!is_making_room && pool->tasks.open_count + count > MUSTER_TASKS_MAX / 4) {
        is_making_room = true;
        bool has_run = pool_help_locked(pool);
        is_making_room = false;
        if (!has_run && pool_is_in_task())
            break;
        if (!has_run)
            pool_await_any_locked(pool, false);
    }
    if (count <= pool->tasks.spare.count)
        return MUSTER_OK;
    return muster_error_fill(err, MUSTER_E_CAPACITY, 0, "submit less from within tasks",
                             "%zu tasks more than the %u that have not ended; at most %u", count,
                             pool->tasks.open_count, MUSTER_TASKS_MAX);
}

/* Whether an edge is needed for one that a task is after; one of the same call has no handle yet. */
static bool needs_edge_locked(const struct task_pool *pool, const muster_task *before,
                              const muster_task *out, size_t count)
{
    if ((uintptr_t)before >= (uintptr_t)out && (uintptr_t)before < (uintptr_t)(out + count))
        return true;
    return tasks_find(&pool->tasks, before->index, before->generation) == MUSTER_OK &&
           pool->tasks.entries[before->index].state != TASKS_ENDED;
}

/* How many edges the tasks of a call take at most. */
static uint64_t count_edges_locked(const struct task_pool *pool,
                                   const struct muster_task_desc *descs, size_t count,
                                   const muster_task *out)
{
    struct muster_task_desc copy;
    uint64_t edges = 0;
    for (size_t i = 0; i < count; i++)
        edges += desc_at(descs, i, &copy)->after_count;
    /* Seldom more: then those that have ended do not count. */
    if (edges <= pool->tasks.free_edge_count)
        return edges;
    edges = 0;
    for (size_t i = 0; i < count; i++) {
        const struct muster_task_desc *desc = desc_at(descs, i, &copy);
        for (size_t k = 0; k < desc->after_count; k++)
            edges += needs_edge_locked(pool, &desc->after[k], out, count);
    }
    return edges;
}

/* Makes room for this many edges more. The lock is not held meanwhile. */
muster_status pool_add_edges_locked(struct task_pool *pool, uint64_t needed,
                                    struct muster_error *err)
{
    const struct muster_allocator *allocator = &pool->m->allocator;
    uint64_t capacity = pool->tasks.edge_capacity - pool->tasks.free_edge_count + needed;
    capacity = capacity > 2 * (uint64_t)pool->tasks.edge_capacity
                   ? capacity
                   : 2 * (uint64_t)pool->tasks.edge_capacity;
    platform_mutex_unlock(&pool->lock);
    struct tasks_edge *edges =
        capacity <= EDGES_MAX ? allocator_take(allocator, (size_t)capacity, sizeof *edges) : NULL;
    platform_mutex_lock(&pool->lock);
    if (!edges)
        return run_no_memory(err, "the order of tasks");
    struct tasks_edge *spare = edges;
    size_t spare_count = (size_t)capacity;
    /* Another thread may have done it. */
    if (capacity > pool->tasks.edge_capacity) {
        spare = pool->more_edges;
        spare_count = pool->tasks.edge_capacity;
        tasks_move_edges(&pool->tasks, edges, (uint32_t)capacity);
        pool->more_edges = edges;
    }
    platform_mutex_unlock(&pool->lock);
    allocator_give(allocator, spare, spare_count, sizeof *spare);
    platform_mutex_lock(&pool->lock);
    return MUSTER_OK;
}

/* Room for the tasks of a call and for their order, at the same moment. */
static muster_status make_all_room_locked(struct task_pool *pool,
                                          const struct muster_task_desc *descs, size_t count,
                                          const muster_task *out, struct muster_error *err)
{
    muster_status status;
    uint64_t edges = 0;
    while ((status = pool_make_room_locked(pool, count, err)) == MUSTER_OK &&
           (edges = count_edges_locked(pool, descs, count, out)) > pool->tasks.free_edge_count)
        if ((status = pool_add_edges_locked(pool, edges, err)) != MUSTER_OK)
            break;
    return status;
}

/*
 * The same, and for what core and the pool keep of accesses and names. What is found unknown or
 * too small is made with the lock open, so all is looked at again then.
 */
static muster_status make_room_for_call_locked(struct task_pool *pool,
                                               const struct muster_task_desc *descs, size_t count,
                                               const struct call *call, const muster_task *out,
                                               struct muster_error *err)
{
    bool is_same;
    muster_status status;
    do {
        struct muster_task_desc copy;
        struct flow_needs needs = { 0, 0 };
        is_same = true;
        status = make_all_room_locked(pool, descs, count, out, err);
        if (status == MUSTER_OK && call->has_names && !pool->flow.notes) {
            is_same = false;
            status = flow_make_notes_locked(pool, err);
        }
        if (!call->has_accesses)
            continue;
        for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
            const struct muster_task_desc *desc = desc_at(descs, i, &copy);
            if (flow_is_task(desc))
                status = flow_prepare_locked(pool, desc, &needs, &is_same, err);
        }
        if (status == MUSTER_OK)
            status = flow_make_room_locked(pool, &needs, &is_same, err);
    } while (!is_same && status == MUSTER_OK);
    return status;
}

static muster_status fill_kernels(struct task_pool *pool, const struct muster_task_desc *descs,
                                  size_t count, struct kernel_task *task,
                                  struct kernel_devices *known, struct muster_error *err)
{
    struct muster_task_desc copy;
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        const struct muster_task_desc *desc = desc_at(descs, i, &copy);
        if (!is_kernel_task(desc))
            continue;
        status =
            kernel_task_fill(pool, task, desc, known, kernel_task_is_known(pool, desc, known), err);
        task = task->next;
    }
    return status;
}

static void give_back_kernels_locked(struct task_pool *pool, struct kernel_task *chain)
{
    while (chain) {
        struct kernel_task *task = chain;
        chain = task->next;
        kernel_task_give_locked(pool, task);
    }
}

/*
 * Records for the kernels of a call, filled. Waits for some to come free, as for places. With the
 * lock, which is not held all the time.
 */
static muster_status take_kernels_locked(struct task_pool *pool,
                                         const struct muster_task_desc *descs, size_t count,
                                         uint32_t kernel_count, struct kernel_task **out,
                                         struct muster_error *err)
{
    muster_status status;
    *out = NULL;
    while (!kernel_tasks_take_locked(pool, kernel_count, out, &status, err)) {
        if (status == MUSTER_OK && (pool_is_in_task() || is_making_room))
            status =
                muster_error_fill(err, MUSTER_E_CAPACITY, 0, "submit less from within tasks",
                                  "%u kernels more than the %u that have not ended; at most %u",
                                  kernel_count, pool->kernels_open, MUSTER_KERNEL_TASKS_MAX);
        if (status != MUSTER_OK)
            return status;
        if (!pool_help_locked(pool))
            pool_await_any_locked(pool, false);
    }
    struct kernel_devices known = pool->known;
    platform_mutex_unlock(&pool->lock);
    status = fill_kernels(pool, descs, count, *out, &known, err);
    platform_mutex_lock(&pool->lock);
    pool->known = known;
    return status;
}

/* The same, and waits for room in resident lanes. */
static muster_status prepare_kernels_locked(struct task_pool *pool,
                                            const struct muster_task_desc *descs, size_t count,
                                            uint32_t kernel_count, struct kernel_task **out,
                                            struct muster_error *err)
{
    struct muster_task_desc copy;
    muster_status status;
    while ((status = take_kernels_locked(pool, descs, count, kernel_count, out, err)) ==
           MUSTER_E_BUSY) {
        size_t i = 0;
        give_back_kernels_locked(pool, *out);
        *out = NULL;
        while (!desc_at(descs, i, &copy)->resident)
            i++;
        struct muster_resident *lane = desc_at(descs, i, &copy)->resident;
        if (pool_is_in_task() || is_making_room)
            return muster_error_fill(err, MUSTER_E_CAPACITY, 0, "submit less from within tasks",
                                     "a resident lane has no room for more tasks");
        if (!pool_help_locked(pool)) {
            platform_mutex_unlock(&pool->lock);
            if (!residents_look(pool, lane))
                resident_await_room(lane);
            platform_mutex_lock(&pool->lock);
        }
    }
    return status;
}

/* Lets the task follow those it is after; how many it does. */
static muster_status follow_locked(struct task_pool *pool, uint32_t index,
                                   const struct muster_task_desc *desc, size_t *followed,
                                   struct muster_error *err)
{
    struct tasks *tasks = &pool->tasks;
    for (*followed = 0; *followed < desc->after_count; (*followed)++) {
        muster_task before = desc->after[*followed];
        muster_status status = tasks_find(tasks, before.index, before.generation);
        if (status == MUSTER_E_STALE)
            continue; /* ended long ago */
        if (status != MUSTER_OK || !tasks->entries[before.index].is_released)
            return muster_error_fill(err, MUSTER_E_UNKNOWN, 0, "use handles as Muster gave them",
                                     "a task is after one that was not submitted before it");
        const struct tasks_entry *entry = &tasks->entries[before.index];
        if (entry->state == TASKS_TAKEN && !entry->is_aside)
            pool_collect_locked(pool);
        bool was_followed = entry->first_follower != TASKS_NONE;
        bool fits = tasks_follow(tasks, index, before.index);
        INVARIANT(fits);
        (void)fits;
        pool->kernels_wanted +=
            entry->is_aside && !was_followed && entry->first_follower != TASKS_NONE;
    }
    return MUSTER_OK;
}

static void unfollow_locked(struct task_pool *pool, uint32_t index,
                            const struct muster_task_desc *desc, size_t followed)
{
    while (followed-- > 0) {
        muster_task before = desc->after[followed];
        if (tasks_find(&pool->tasks, before.index, before.generation) != MUSTER_OK)
            continue;
        const struct tasks_entry *entry = &pool->tasks.entries[before.index];
        bool was_followed = entry->first_follower != TASKS_NONE;
        tasks_unfollow(&pool->tasks, index, before.index);
        pool->kernels_wanted -=
            entry->is_aside && was_followed && entry->first_follower == TASKS_NONE;
    }
}

/* The new task is one with a kernel, and this is its record. */
static void bind_kernel(struct tasks_entry *entry, muster_task handle, struct kernel_task *task)
{
    task->index = handle.index;
    task->handle = handle;
    task->submitter = pool_this_thread();
    entry->payload[0] = task;
}

/* Puts a task into the table; one with a kernel with the first record of the chain. */
static muster_task add_locked(struct task_pool *pool, const struct muster_task_desc *desc,
                              struct kernel_task **kernels)
{
    uint32_t index = tasks_add(&pool->tasks);
    INVARIANT(index != TASKS_NONE);
    struct tasks_entry *entry = &pool->tasks.entries[index];
    muster_task handle = { index, entry->generation };
    keep_functions(entry, desc);
    entry->priority = (uint8_t)(desc->priority + (int)TASKS_PRIORITY_USUAL);
    if (is_kernel_task(desc)) {
        bind_kernel(entry, handle, *kernels);
        if (desc->resident)
            resident_task_bind_locked(pool, *kernels);
        *kernels = (*kernels)->next;
        tasks_set_aside(&pool->tasks, index);
    }
    if (flow_is_task(desc))
        flow_bind_locked(pool, index, desc);
    if (pool->flow.notes && desc->name)
        flow_name_locked(pool, index, desc->name);
    return handle;
}

/* None is submitted, the last first: later ones may follow earlier ones. */
static void withdraw_locked(struct task_pool *pool, const struct muster_task_desc *descs,
                            size_t count, size_t released, size_t followed, const muster_task *out)
{
    struct muster_task_desc copy;
    for (size_t i = count; i-- > 0;) {
        const struct muster_task_desc *desc = desc_at(descs, i, &copy);
        if (i <= released)
            unfollow_locked(pool, out[i].index, desc, i < released ? desc->after_count : followed);
        if (flow_is_task(desc))
            flow_unbind_locked(pool, out[i].index, i < released);
        tasks_withdraw(&pool->tasks, out[i].index);
    }
}

static muster_status submit_locked(struct task_pool *pool, const struct muster_task_desc *descs,
                                   size_t count, const uint64_t *devices,
                                   struct kernel_task *kernels, muster_task *out,
                                   enum flow_order_result *grow, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    struct muster_task_desc copy;
    size_t released = 0, followed = 0;
    *grow = FLOW_ORDERED;
    struct kernel_task *next = kernels;
    for (size_t i = 0; i < count; i++)
        out[i] = add_locked(pool, desc_at(descs, i, &copy), &next);
    for (; released < count; released++) {
        const struct muster_task_desc *desc = desc_at(descs, released, &copy);
        status = follow_locked(pool, out[released].index, desc, &followed, err);
        if (status == MUSTER_OK && flow_is_task(desc))
            status = flow_order_locked(pool, out[released].index, desc,
                                       devices ? devices[released] : 0, grow, err);
        if (status != MUSTER_OK)
            break;
        tasks_release(&pool->tasks, out[released].index);
    }
    if (status != MUSTER_OK) {
        withdraw_locked(pool, descs, count, released, followed, out);
        return status;
    }
    for (; kernels; kernels = kernels->next) {
        pool->kernels_open++;
        pool->kernels_timed += kernels->timeout_ns != UINT64_MAX;
        pool->kernels_wanted += kernels->done != NULL;
    }
    return status;
}

static bool are_awaited(const struct muster_task_desc *descs, size_t count)
{
    struct muster_task_desc copy;
    size_t i = 0;
    while (i < count && desc_at(descs, i, &copy)->is_awaited)
        i++;
    return i == count;
}

/*
 * A single kernel task that may run at once, of a kernel and for devices that are known: it goes to its
 * device straight away, in one round of the lock. False if it is not so simple, and nothing was done.
 * With the lock; if true, left without.
 */
static bool submit_at_once(struct task_pool *pool, const struct muster_task_desc *desc,
                           muster_task *out, muster_status *status, struct muster_error *err)
{
    struct kernel_task *task = pool->spare;
    bool is_free = task && pool->tasks.aside.count == 0 && pool->kernels_wanted == 0 &&
                   pool->tasks.open_count < MUSTER_TASKS_MAX / 2;
    if (!is_free || desc->after_count > 0 || desc->done ||
        !kernel_task_is_known(pool, desc, &pool->known))
        return false;
    *status = kernel_task_fill(pool, task, desc, &pool->known, true, err);
    if (*status != MUSTER_OK) {
        platform_mutex_unlock(&pool->lock);
        return true;
    }
    pool->spare = task->next;
    pool->spare_count--;
    uint32_t index = tasks_add(&pool->tasks);
    struct tasks_entry *entry = &pool->tasks.entries[index];
    muster_task handle = { index, entry->generation };
    keep_functions(entry, desc);
    bind_kernel(entry, handle, task);
    tasks_release_taken(&pool->tasks, index);
    pool->kernels_open++;
    pool->kernels_timed += desc->timeout_ns > 0;
    pool->submitted++;
    pool_show_submitted_locked(pool);
    platform_mutex_unlock(&pool->lock);
    if (out)
        *out = handle;
    pool_give_one(pool, task);
    return true;
}

/*
 * The same for a single task of a resident lane. False if that has no room, or others come first.
 */
static bool submit_resident_at_once(struct task_pool *pool, const struct muster_task_desc *desc,
                                    muster_task *out, muster_status *status,
                                    struct muster_error *err)
{
    struct kernel_task *task = pool->spare;
    bool is_free = task && desc->resident && pool->tasks.aside.count == 0 &&
                   pool->kernels_wanted == 0 && pool->relying == 0 &&
                   pool->tasks.open_count < MUSTER_TASKS_MAX / 2;
    if (!is_free || desc->after_count > 0 || desc->done)
        return false;
    *status = resident_task_fill(pool, task, desc, err);
    if (*status == MUSTER_E_BUSY)
        return false;
    if (*status != MUSTER_OK) {
        platform_mutex_unlock(&pool->lock);
        return true;
    }
    pool->spare = task->next;
    pool->spare_count--;
    uint32_t index = tasks_add(&pool->tasks);
    struct tasks_entry *entry = &pool->tasks.entries[index];
    muster_task handle = { index, entry->generation };
    keep_functions(entry, desc);
    bind_kernel(entry, handle, task);
    resident_task_bind_locked(pool, task);
    tasks_release_taken(&pool->tasks, index);
    pool->kernels_open++;
    pool->submitted++;
    pool_show_submitted_locked(pool);
    struct resident_record *record = task->entry;
    platform_mutex_unlock(&pool->lock);
    if (out)
        *out = handle;
    resident_post(record);
    return true;
}

/* Submits the tasks of a call, once there is room for them. */
static muster_status add_call_locked(struct task_pool *pool, const struct muster_task_desc *descs,
                                     size_t count, const struct call *call, muster_task *out,
                                     struct muster_error *err)
{
    struct kernel_task *kernels = NULL;
    enum flow_order_result grow;
    muster_status status = MUSTER_OK;
    if (call->kernel_count > 0)
        status = prepare_kernels_locked(pool, descs, count, call->kernel_count, &kernels, err);
    for (bool is_over = false; status == MUSTER_OK && !is_over;) {
        status = make_room_for_call_locked(pool, descs, count, call, out, err);
        if (status != MUSTER_OK)
            break;
        status = submit_locked(pool, descs, count, call->devices, kernels, out, &grow, err);
        is_over = grow == FLOW_ORDERED;
        if (!is_over)
            status = flow_grow_for_locked(pool, grow, err);
    }
    if (status != MUSTER_OK)
        give_back_kernels_locked(pool, kernels);
    pool->submitted += status == MUSTER_OK ? count : 0;
    return status;
}

/*
 * The same for tasks that reduce, or that are after some that do: tasks of Muster's own come between them,
 * so each is submitted by itself.
 */
static muster_status add_alone_locked(struct task_pool *pool, const struct muster_task_desc *descs,
                                      size_t count, const struct call *call, muster_task *out,
                                      struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        struct muster_task_desc copy;
        const struct muster_task_desc *desc = desc_at(descs, i, &copy);
        const struct call alone = { .kernel_count = is_kernel_task(desc),
                                    .has_accesses = flow_is_task(desc),
                                    .has_names = desc->name != NULL,
                                    .devices = call->devices ? call->devices + i : NULL };
        if (alone.has_accesses)
            status = make_room_for_call_locked(pool, desc, 1, &alone, out + i, err);
        if (status == MUSTER_OK && alone.has_accesses)
            status = flow_insert_locked(pool, desc, err);
        if (status == MUSTER_OK)
            status = add_call_locked(pool, desc, 1, &alone, out + i, err);
    }
    return status;
}

static bool must_insert_locked(struct task_pool *pool, const struct muster_task_desc *descs,
                               size_t count)
{
    struct muster_task_desc copy;
    bool must_insert = false;
    for (size_t i = 0; i < count && !must_insert; i++) {
        const struct muster_task_desc *desc = desc_at(descs, i, &copy);
        must_insert = flow_is_task(desc) && flow_must_insert_locked(pool, desc);
    }
    return must_insert;
}

/* With the lock, and left without. Not inlined: its frame has room for many tasks. */
__attribute__((noinline)) static muster_status
submit_and_unlock(struct task_pool *pool, const struct muster_task_desc *descs, size_t count,
                  const struct call *call, muster_task *out, struct muster_error *err)
{
    muster_task unwanted[MUSTER_SUBMIT_MAX];
    if (!out)
        out = unwanted;
    muster_status status = call->has_accesses && must_insert_locked(pool, descs, count)
                               ? add_alone_locked(pool, descs, count, call, out, err)
                               : add_call_locked(pool, descs, count, call, out, err);
    pool_show_submitted_locked(pool);
    if (call->has_accesses)
        flow_pump_locked(pool);
    /* Another thread may be in muster_wait(all); it must not depend on this caller's is_awaited. */
    bool can_wait = pool->waiters == 0 && are_awaited(descs, count);
    bool must_wake = !can_wait && pool_ask_for_wake_locked(pool);
    /* To give a kernel may mean to build it first: nobody is to wait for that. */
    if (must_wake && pool->tasks.aside.count > 0) {
        platform_condition_wake_one(&pool->work);
        must_wake = false;
    }
    if (pool->kernels_open > 0)
        pool_give_ready_and_unlock(pool);
    else
        platform_mutex_unlock(&pool->lock);
    /* Without the lock, which the woken thread needs before this call into the system is over. */
    if (must_wake)
        platform_condition_wake_one(&pool->work);
    return status;
}

/* Where those with accesses may run, if there are devices with memory of their own to think of. */
static muster_status find_places(struct task_pool *pool, const struct muster_task_desc *descs,
                                 size_t count, uint64_t *devices, bool *has_places,
                                 struct muster_error *err)
{
    struct muster_task_desc copy;
    muster_status status = MUSTER_OK;
    bool is_wanted = false;
    platform_mutex_lock(&pool->lock);
    for (size_t i = 0; i < count && !is_wanted; i++)
        is_wanted = flow_wants_devices(&pool->flow, desc_at(descs, i, &copy));
    if (is_wanted)
        status = flow_make_dispatch_locked(pool, err);
    *has_places = pool->flow.dispatch != NULL;
    platform_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < count && *has_places && status == MUSTER_OK; i++) {
        const struct muster_task_desc *desc = desc_at(descs, i, &copy);
        devices[i] = 0;
        if (flow_is_task(desc) && (desc->kernel || desc->body_count > 0))
            status = flow_find_devices(pool, desc, &devices[i], err);
    }
    return status;
}

/* As submit_and_unlock, where some tasks have accesses. No lock is held. */
__attribute__((noinline)) static muster_status
submit_with_accesses(struct task_pool *pool, const struct muster_task_desc *descs, size_t count,
                     struct call *call, muster_task *out, struct muster_error *err)
{
    uint64_t devices[MUSTER_SUBMIT_MAX];
    bool has_places;
    muster_status status = find_places(pool, descs, count, devices, &has_places, err);
    if (status != MUSTER_OK)
        return status;
    call->devices = has_places ? devices : NULL;
    platform_mutex_lock(&pool->lock);
    return submit_and_unlock(pool, descs, count, call, out, err);
}

muster_status muster_submit(struct muster *m, const struct muster_task_desc *descs, size_t count,
                            muster_task *out, struct muster_error *err)
{
    struct task_pool *pool;
    struct call call;
    if (!m || (!descs && count > 0))
        return run_bad_argument(err, "muster_submit", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = check_descs(descs, count, &call, err);
    if (status == MUSTER_OK)
        status = pool_get(m, &pool, err);
    if (status != MUSTER_OK || count == 0)
        return status;
    if (flow_is_recording(m))
        return flow_record(m, descs, count, out, err);
    if (call.has_accesses)
        return submit_with_accesses(pool, descs, count, &call, out, err);
    platform_mutex_lock(&pool->lock);
    if (count == 1 && call.kernel_count == 1 && !call.has_names && descs->size >= sizeof *descs &&
        (submit_at_once(pool, descs, out, &status, err) ||
         submit_resident_at_once(pool, descs, out, &status, err)))
        return status;
    return submit_and_unlock(pool, descs, count, &call, out, err);
}

void tasks_count(struct muster *m, uint64_t *submitted, uint64_t *ended)
{
    struct task_pool *pool = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    *submitted = *ended = 0;
    if (!pool)
        return;
    platform_mutex_lock(&pool->lock);
    pool_collect_locked(pool);
    *submitted = pool->submitted;
    *ended = pool->submitted - pool->tasks.open_count;
    platform_mutex_unlock(&pool->lock);
}

static muster_status cancel_locked(struct task_pool *pool, muster_task task)
{
    struct running running;
    muster_status status = tasks_find(&pool->tasks, task.index, task.generation);
    if (status != MUSTER_OK)
        return status;
    const struct tasks_entry *entry = &pool->tasks.entries[task.index];
    if (entry->state == TASKS_TAKEN && !entry->is_aside) {
        pool_recall_locked(pool, task.index);
        pool_collect_locked(pool);
    }
    if (entry->state == TASKS_WAITING && !(entry->tag & FLOW_RUN)) {
        tasks_doom(&pool->tasks, task.index);
    } else if (entry->is_dispatched || (entry->tag & FLOW_RUN)) {
        return MUSTER_E_BUSY;
    } else if (tasks_take_this(&pool->tasks, task.index)) {
        pool->tasks.entries[task.index].is_doomed = true;
        bool is_ours = pool_load_locked(pool, task.index, &running);
        pool_wake_locked(pool);
        if (is_ours)
            pool_run_aside_locked(pool, &running);
    } else {
        return entry->state == TASKS_ENDED ? MUSTER_E_STALE : MUSTER_E_BUSY;
    }
    return MUSTER_OK;
}

muster_status muster_cancel(struct muster *m, muster_task task, struct muster_error *err)
{
    if (!m)
        return run_bad_argument(err, "muster_cancel", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    struct task_pool *pool = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    muster_status status = MUSTER_E_UNKNOWN;
    if (pool) {
        platform_mutex_lock(&pool->lock);
        status = cancel_locked(pool, task);
        platform_mutex_unlock(&pool->lock);
    }
    if (status != MUSTER_OK)
        muster_error_fill(err, status, 0, NULL, "the task cannot be cancelled: %s",
                          muster_status_message(status));
    return status;
}
