/*
 * Kernel tasks on their way to a device. See run/task/lane.h.
 *
 * Two ways to a device. Light: the arguments are values, resident data, or arrays that the device
 * uses where they are; many tasks of one kernel are one launch of the backend's, without flights.
 * Heavy: arrays are copied there and back, by the steps of the plan that a job's unit would have.
 */
#include "run/lane/launch.h"
#include "run/task/lane.h"

#include <string.h>

/* Streams and their lists. With the lane's lock. */

static bool can_take(struct task_stream *stream)
{
    return !is_claimed(stream) && !stream->has_failed;
}

/*
 * The stream with the fewest tasks. The first is not for copies, if there is another, so that light
 * tasks need not wait for them.
 */
static struct task_stream *choose_stream(struct task_lane *lane, bool is_for_copies)
{
    struct task_stream *best = NULL;
    if (watch_is_hung(&lane->watch))
        return NULL;
    for (uint32_t i = is_for_copies && lane->stream_count > 1; i < lane->stream_count; i++) {
        struct task_stream *stream = &lane->streams[i];
        if (can_take(stream) && (!best || stream->count < best->count))
            best = stream;
    }
    return best;
}

/*
 * The same for tasks that copy nothing: the one they came to before, if the device keeps pace. That
 * is not known for long: where few are given, they are better off beside each other.
 */
static struct task_stream *choose_for(struct task_lane *lane, const struct kernel_task *task,
                                      uint64_t now_ns)
{
    if (task->kernel != lane->kernel || task->items > lane->items) {
        lane->kernel = task->kernel;
        lane->items = task->items;
        lane->pace = PACE_UNKNOWN;
    }
    struct task_stream *last = &lane->streams[lane->stream];
    bool can_stay = lane->pace == PACE_KEPT && lane->stream < lane->stream_count &&
                    last->looked_ns + NAP_NS > now_ns && !watch_is_hung(&lane->watch) &&
                    can_take(last);
    return can_stay ? last : choose_stream(lane, false);
}

/* Device memory that the task's arrays and data take, if none of the data is there yet. With m->lock. */
static uint64_t bytes_of_locked(struct muster *m, const struct kernel_task *task)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < task->arg_count; i++) {
        void *data;
        uint64_t more = task->args[i].memory == &task->memories[i] ? task->memories[i].bytes : 0;
        if (task->kinds[i] == MUSTER_ARG_ALL &&
            table_find_locked(&m->data, task->given[i].data.index, task->given[i].data.generation,
                              "", &data, NULL) == MUSTER_OK)
            more = ((const struct run_data *)data)->bytes;
        if (__builtin_add_overflow(bytes, more, &bytes))
            bytes = UINT64_MAX;
    }
    return bytes;
}

/*
 * Whether another thread holds the memory or the streams that the tasks lack, and no other device could
 * run them. When the runtime closes nothing is released any more.
 */
static bool is_held_by_others(struct task_lane *lane, const struct visit *visit,
                              muster_status status)
{
    struct muster *m = lane->pool->m;
    const struct kernel_task *task = visit->group->tasks[0];
    platform_mutex_lock(&lane->pool->lock);
    bool is_closing = lane->pool->drain_ns > 0;
    platform_mutex_unlock(&lane->pool->lock);
    run_lock(m);
    bool is_held =
        status == MUSTER_E_CAPACITY ||
        budget_check(&lane->device->budget, bytes_of_locked(m, task)) == MUSTER_E_DEVICE_MEMORY;
    is_held = is_held && !kernel_task_can_move_locked(m, task);
    run_unlock(m);
    return is_held && !is_closing;
}

/*
 * Whether tasks that could not be given wait until there is room: for something of the lane, beside the
 * visit, to end, or for others. MUSTER_OK: all streams are in use.
 */
static bool may_wait(struct task_lane *lane, const struct visit *visit, muster_status status)
{
    uint32_t outstanding = atomic_load_explicit(&lane->outstanding, memory_order_relaxed);
    bool is_short = status == MUSTER_E_DEVICE_MEMORY || status == MUSTER_E_CAPACITY;
    bool is_alone = outstanding <= visit->group->count && lane->visits == visit && !visit->next;
    if ((!is_short && status != MUSTER_OK) || watch_is_hung(&lane->watch))
        return false;
    return !is_alone || (is_short && is_held_by_others(lane, visit, status));
}

/* The tasks are at the lane, and their time runs from here on. */
static void set_deadlines(struct task_lane *lane, struct group *group, uint64_t now_ns)
{
    for (uint32_t i = 0; i < group->count; i++) {
        struct kernel_task *task = group->tasks[i];
        /* Relaxed: the thread that waits for the task looks at this lane then, or a little later. */
        atomic_store_explicit(&task->lane, lane, memory_order_relaxed);
        task->deadline_ns =
            task->timeout_ns < UINT64_MAX - now_ns ? now_ns + task->timeout_ns : UINT64_MAX;
        if (task->deadline_ns < lane->first_deadline_ns)
            lane->first_deadline_ns = task->deadline_ns;
    }
}

static void append(struct task_stream *stream, struct kernel_task *task)
{
    task->next = NULL;
    task->sequence = ++stream->given;
    if (stream->newest)
        stream->newest->next = task;
    else
        stream->oldest = task;
    stream->newest = task;
    stream->count++;
}

/* Giving. */

static void push(struct kernel_task **chain, struct kernel_task *task)
{
    task->next = *chain;
    *chain = task;
}

/* Tasks that were not given come back: for another device, or for later. No lock is held. */
static void hand_back(struct group *group, enum kernel_outcome outcome, muster_status status,
                      struct kernel_task **left)
{
    struct muster *m = group->device->m;
    uint64_t now_ns = platform_clock_ns();
    run_lock(m);
    for (uint32_t i = 0; i < group->count; i++)
        kernel_task_unplace_locked(group->tasks[i], now_ns);
    run_unlock(m);
    for (uint32_t i = 0; i < group->count; i++) {
        struct kernel_task *task = group->tasks[i];
        task->outcome = outcome;
        if (outcome == KERNEL_AGAIN) {
            task->status = status;
            kernel_task_mark(task, &task->refused, group->device->index);
        }
        push(left, task);
    }
}

/* With the lane's lock: the tasks are not touched any more while the driver is called. */
static uint32_t fill_launches(struct group *group, struct muster_launch_desc *launches)
{
    const struct run_device *device = group->device;
    uint64_t generation = device->backend->table.device_generation(device->state);
    for (uint32_t i = 0; i < group->count; i++) {
        struct kernel_task *task = group->tasks[i];
        task->attempt.result = MUSTER_OK;
        task->generation = generation;
        launches[i] = (struct muster_launch_desc){ .items = task->items,
                                                   .args = task->args,
                                                   .arg_count = task->arg_count,
                                                   .result = &task->attempt.result,
                                                   .flags = MUSTER_LAUNCH_UNORDERED };
    }
    return group->count;
}

static muster_status launch(struct run_stream *stream, void *built,
                            const struct muster_launch_desc *launches, uint32_t count)
{
    struct run_device *device = stream->device;
    muster_status status =
        device->backend->table.launch(stream->state, built, launches, count, NULL);
    return status == MUSTER_OK ? status : device_note(device, status, NULL);
}

/* The tasks are the device's from here on. */
static void append_group(struct task_stream *stream, struct group *group, muster_status accepted)
{
    for (uint32_t i = 0; i < group->count; i++) {
        group->tasks[i]->attempt.given = accepted;
        append(stream, group->tasks[i]);
    }
}

/*
 * Ends a visit that gave with copies or data. The tasks are kept if the device has anything of them,
 * else they are handed back. With the lock, and left without.
 */
static void end_giving(struct task_lane *lane, struct visit *visit, bool is_kept,
                       muster_status accepted, struct kernel_task **left)
{
    struct group *group = visit->group;
    bool must_wait = accepted != MUSTER_OK && may_wait(lane, visit, accepted);
    if (is_kept)
        append_group(visit->stream, group, accepted);
    else
        count_out(lane, group->count);
    visit_leave(lane, visit);
    platform_mutex_unlock(&lane->lock);
    if (!is_kept)
        hand_back(group, must_wait ? KERNEL_WAITS : KERNEL_AGAIN, accepted, left);
}

/* Takes back the task that was appended last, and alone. */
static void take_newest(struct task_lane *lane, struct task_stream *stream)
{
    struct kernel_task **at = &stream->oldest, *before = NULL;
    for (; (*at)->next; at = &(*at)->next)
        before = *at;
    *at = NULL;
    stream->newest = before;
    stream->count--;
    count_out(lane, 1);
}

/*
 * The quick way's end where there is more to do than to let go of the stream. Of several tasks in one
 * launch that failed some may have been given, so all are waited for.
 */
static void end_launch(struct task_lane *lane, struct task_stream *stream, struct group *group,
                       muster_status status, uint64_t now_ns, struct kernel_task **left)
{
    struct kernel_task *ended = NULL, **tail = &ended;
    struct visit visit;
    bool is_kept = status == MUSTER_OK || group->count > 1, is_here = true;
    platform_mutex_lock(&lane->lock);
    if (atomic_load_explicit(&stream->claim, memory_order_relaxed) == CLAIM_DISOWNED) {
        task_lane_end_disowned(lane, stream);
        return;
    }
    visit_enter(lane, &visit, NULL, now_ns);
    visit_claim(&visit, stream);
    for (uint32_t i = 0; i < group->count; i++)
        group->tasks[i]->attempt.given = status;
    if (!is_kept)
        take_newest(lane, stream);
    else if (stream->given - stream->looked >= LOOK_EVERY)
        is_here = task_lane_glance(lane, &visit, now_ns, &tail);
    if (is_here) {
        visit_leave(lane, &visit);
        platform_mutex_unlock(&lane->lock);
    }
    /* What was seen to end meanwhile goes with those that come back. */
    *tail = NULL;
    if (ended)
        task_lane_count_ended(lane, ended);
    *tail = *left;
    *left = ended;
    if (!is_kept)
        hand_back(group, KERNEL_AGAIN, status, left);
}

/*
 * Gives tasks that need nothing but a launch, and are the lane's; false if there is no stream for
 * them. They are on the stream's list before the call, for the thread that gives the lane up meanwhile. With
 * the lock; if true, left without.
 */
static bool give_quickly(struct task_lane *lane, struct group *group, uint64_t now_ns,
                         struct kernel_task **left)
{
    struct muster_launch_desc launches[TAKEN_AT_ONCE];
    void *built = group->tasks[0]->built;
    struct task_stream *stream = choose_for(lane, group->tasks[0], now_ns);
    enum claim mine = CLAIM_LAUNCH;
    if (!stream)
        return false;
    uint32_t count = fill_launches(group, launches);
    stream->launch_first = stream->given + 1;
    append_group(stream, group, MUSTER_OK);
    set_claim(stream, CLAIM_LAUNCH);
    stream->launch_ns = now_ns;
    /* So that one who only gives holds no more than what is unfinished. */
    bool must_look = stream->given - stream->looked >= LOOK_EVERY;
    platform_mutex_unlock(&lane->lock);
    muster_status status = launch(stream->of.stream, built, launches, count);
    if (status != MUSTER_OK || must_look ||
        !atomic_compare_exchange_strong_explicit(&stream->claim, &mine, CLAIM_NONE,
                                                 memory_order_release, memory_order_relaxed))
        end_launch(lane, stream, group, status, now_ns, left);
    return true;
}

/* Whether the argument is in a block that the caller has already. */
static bool is_on_device(const struct kernel_task *task, uint32_t i)
{
    return task->kinds[i] >= MUSTER_ARG_DEVICE_IN && task->kinds[i] <= MUSTER_ARG_DEVICE_INOUT;
}

/* Launches with the data held, so that the thread that drops it waits for these tasks too. */
static void give_with_data(struct task_lane *lane, struct visit *visit, struct kernel_task **left)
{
    struct muster_launch_desc launches[TAKEN_AT_ONCE];
    const struct kernel_task *first = visit->group->tasks[0];
    struct launch all = { .arg_count = first->arg_count };
    struct operation_run run;
    void *built = first->built;
    platform_mutex_unlock(&lane->lock);
    for (uint32_t i = 0; i < first->arg_count; i++) {
        if (is_on_device(first, i))
            all.blocks[i] =
                (struct muster_use)MUSTER_USE(first->given[i].block, arg_access(&first->given[i]));
        if (first->kinds[i] == MUSTER_ARG_ALL)
            all.data[i] = first->given[i].data;
    }
    muster_status status = launch_hold(lane->pool->m, visit->stream->of.handle, &all, &run, NULL);
    if (status != MUSTER_OK) {
        if (visit_return(lane, visit))
            end_giving(lane, visit, false, status, left);
        return;
    }
    platform_mutex_lock(&lane->lock);
    bool is_disowned = visit->is_disowned;
    for (uint32_t i = 0; i < visit->group->count; i++)
        for (uint32_t arg = 0; arg < first->arg_count; arg++)
            if (all.args[arg].memory)
                visit->group->tasks[i]->args[arg].memory = all.args[arg].memory;
    uint32_t count = fill_launches(visit->group, launches);
    platform_mutex_unlock(&lane->lock);
    if (!is_disowned)
        status = launch(visit->stream->of.stream, built, launches, count);
    bool is_kept = !is_disowned && (status == MUSTER_OK || count > 1);
    if (is_kept) {
        muster_status recorded = operation_end(&run, false, 0, NULL);
        status = status == MUSTER_OK ? recorded : status;
    } else {
        operation_abandon(&run);
    }
    if (visit_return(lane, visit))
        end_giving(lane, visit, is_kept, status, left);
}

/* What can never fit does not wait, though each array by itself would fit. No lock is held. */
static muster_status check_fits(struct muster *m, const struct kernel_task *task)
{
    run_lock(m);
    muster_status status = budget_check(&task->device->budget, bytes_of_locked(m, task));
    run_unlock(m);
    return status == MUSTER_E_TOO_LARGE ? status : MUSTER_OK;
}

/* One task, as a unit by itself: its arrays are copied there and back. */
static void give_with_copies(struct task_lane *lane, struct visit *visit, struct kernel_task **left)
{
    struct kernel_task *task = visit->group->tasks[0];
    bool is_kept = false;
    for (uint32_t i = 0; i < task->arg_count; i++) {
        task->given[i].halo = 0;
        if (task->kinds[i] == MUSTER_ARG_VALUE)
            task->given[i] = (struct muster_arg){ .kind = MUSTER_ARG_VALUE,
                                                  .in = task->args[i].value,
                                                  .bytes = task->args[i].bytes };
    }
    const struct kernel_work work = { .kernel = task->kernel,
                                      .args = task->given,
                                      .arg_count = task->arg_count,
                                      .unit_items = task->items,
                                      .part_items = task->items };
    task->attempt.result = MUSTER_OK;
    task->generation = memory_generation(task->device);
    alone_set_given_up(visit->stream->alone, false);
    platform_mutex_unlock(&lane->lock);
    muster_status status = check_fits(lane->pool->m, task);
    if (status == MUSTER_OK)
        status = alone_give(visit->stream->alone, &visit->stream->of, &work, task->built,
                            &task->attempt.result, &is_kept);
    if (visit_return(lane, visit))
        end_giving(lane, visit, is_kept, status, left);
}

/* Groups. */

static bool is_heavy(const struct kernel_task *task)
{
    return task->has_arrays && !(task->device->info.capabilities & MUSTER_CAN_USE_HOST_MEMORY);
}

static bool has_same_data(const struct kernel_task *a, const struct kernel_task *b)
{
    if (!a->has_data && !b->has_data)
        return true;
    /* Launches of one call may run at the same time: none of them writes what another uses. */
    if (a->arg_count != b->arg_count || a->writes_block || b->writes_block)
        return false;
    for (uint32_t i = 0; i < a->arg_count; i++) {
        const struct muster_arg *one = &a->given[i], *other = &b->given[i];
        bool is_block = is_on_device(a, i), is_data = a->kinds[i] == MUSTER_ARG_ALL;
        if (is_block != is_on_device(b, i) || is_data != (b->kinds[i] == MUSTER_ARG_ALL) ||
            (is_block && memcmp(&one->block, &other->block, sizeof one->block) != 0) ||
            (is_data && memcmp(&one->data, &other->data, sizeof one->data) != 0))
            return false;
    }
    return true;
}

/* Takes the first of the chain and all that go with it in one launch. */
static void take_group(struct kernel_task **chain, struct group *group)
{
    struct kernel_task *first = *chain;
    *chain = first->next;
    group->device = first->device;
    group->tasks[0] = first;
    group->count = 1;
    group->is_heavy = is_heavy(first);
    group->has_data = first->has_data;
    for (struct kernel_task **at = chain;
         *at && !group->is_heavy && group->count < TAKEN_AT_ONCE;) {
        struct kernel_task *task = *at;
        if (task->device == first->device && task->kernel == first->kernel &&
            task->submitter == first->submitter && !is_heavy(task) && has_same_data(first, task)) {
            group->tasks[group->count++] = task;
            *at = task->next;
        } else {
            at = &task->next;
        }
    }
}

/* The kernel for the device, which may have to be built. As task_lane_mend. */
static bool get_built(struct task_lane *lane, struct visit *visit, uint64_t *now_ns,
                      muster_status *status)
{
    struct muster_kernel *kernel = visit->group->tasks[0]->kernel;
    void *built;
    *status = MUSTER_OK;
    if (visit->group->tasks[0]->built)
        return true;
    visit->is_building = true;
    platform_mutex_unlock(&lane->lock);
    *status = kernel_get_built(kernel, lane->device, &built, NULL);
    *now_ns = platform_clock_ns();
    if (!visit_return(lane, visit))
        return false;
    visit->is_building = false;
    visit->begin_ns = *now_ns;
    for (uint32_t i = 0; i < visit->group->count && *status == MUSTER_OK; i++)
        visit->group->tasks[i]->built = built;
    set_deadlines(lane, visit->group, *now_ns);
    return true;
}

/* Gives a group that is the lane's. With the lock, and left without. */
static void give_group(struct task_lane *lane, struct group *group, uint64_t now_ns,
                       struct kernel_task **left)
{
    struct visit visit;
    struct task_stream *stream = NULL;
    muster_status status;
    bool is_light = !group->is_heavy && !group->has_data;
    if (is_light && group->tasks[0]->built && !lane->must_mend &&
        give_quickly(lane, group, now_ns, left))
        return;
    visit_enter(lane, &visit, group, now_ns);
    if (!get_built(lane, &visit, &now_ns, &status) ||
        (status == MUSTER_OK && !task_lane_mend(lane, &visit, &status)))
        return;
    bool must_wait = may_wait(lane, &visit, status);
    if (status == MUSTER_OK && !is_light)
        stream = choose_stream(lane, true);
    if (stream) {
        visit_claim(&visit, stream);
        if (group->is_heavy)
            give_with_copies(lane, &visit, left);
        else
            give_with_data(lane, &visit, left);
        return;
    }
    visit_leave(lane, &visit);
    if (status == MUSTER_OK && is_light && give_quickly(lane, group, now_ns, left))
        return;
    count_out(lane, group->count);
    platform_mutex_unlock(&lane->lock);
    hand_back(group, must_wait ? KERNEL_WAITS : KERNEL_AGAIN,
              status == MUSTER_OK ? MUSTER_E_STREAM_FAILED : status, left);
}

/* Leaves a group to the lane's thread. With the lock. */
static void post(struct task_lane *lane, const struct group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        struct kernel_task *task = group->tasks[i];
        task->next = NULL;
        if (lane->inbox)
            lane->inbox_newest->next = task;
        else
            lane->inbox = task;
        lane->inbox_newest = task;
    }
    atomic_store_explicit(&lane->has_inbox, true, memory_order_relaxed);
}

static void take_from_inbox(struct task_lane *lane, struct group *group)
{
    take_group(&lane->inbox, group);
    atomic_store_explicit(&lane->has_inbox, lane->inbox != NULL, memory_order_relaxed);
    /* The newest may have gone with the group. */
    for (struct kernel_task *task = lane->inbox; task; task = task->next)
        lane->inbox_newest = task;
}

/* Gives each task a device; those that have none, or need none, are left. The order stays. */
static struct kernel_task *place(struct task_pool *pool, struct kernel_task *chain, uint64_t now_ns,
                                 struct kernel_task **left)
{
    struct kernel_task *placed = NULL, **tail = &placed;
    struct muster *m = pool->m;
    run_lock(m);
    while (chain) {
        struct kernel_task *task = chain;
        chain = task->next;
        if (task->items == 0) {
            task->outcome = KERNEL_ENDS;
            task->status = MUSTER_OK;
            push(left, task);
        } else if (kernel_task_place_locked(m, task, now_ns)) {
            *tail = task;
            tail = &task->next;
        } else {
            push(left, task);
        }
    }
    *tail = NULL;
    run_unlock(m);
    return placed;
}

struct kernel_task *lanes_give(struct task_pool *pool, struct kernel_task *chain,
                               const void *submitter)
{
    struct kernel_task *left = NULL;
    uint64_t now_ns = platform_clock_ns();
    chain = place(pool, chain, now_ns, &left);
    while (chain) {
        struct group group;
        struct task_lane *lane;
        take_group(&chain, &group);
        muster_status status = MUSTER_OK;
        /* Acquire pairs with the release in task_lane_get. */
        lane = atomic_load_explicit(&pool->lanes[group.device->index], memory_order_acquire);
        if (!lane)
            status = task_lane_get(pool, group.device, &lane, NULL);
        if (status != MUSTER_OK) {
            hand_back(&group, KERNEL_AGAIN, status, &left);
            continue;
        }
        platform_mutex_lock(&lane->lock);
        if (watch_is_hung(&lane->watch)) {
            platform_mutex_unlock(&lane->lock);
            hand_back(&group, KERNEL_AGAIN, MUSTER_E_DEVICE_HUNG, &left);
            continue;
        }
        if (!lane_has_work(lane))
            lane->progress_ns = now_ns;
        set_deadlines(lane, &group, now_ns);
        atomic_store_explicit(&lane->outstanding,
                              atomic_load_explicit(&lane->outstanding, memory_order_relaxed) +
                                  group.count,
                              memory_order_relaxed);
        if (submitter && group.tasks[0]->submitter == submitter) {
            give_group(lane, &group, now_ns, &left);
        } else {
            post(lane, &group);
            platform_mutex_unlock(&lane->lock);
        }
    }
    return left;
}

bool task_lane_give_inbox(struct task_lane *lane)
{
    struct kernel_task *left = NULL;
    bool has_given = false;
    for (;;) {
        struct group group;
        platform_mutex_lock(&lane->lock);
        /* While the device hangs it stays posted, unless its own time is over. */
        if (!lane->inbox || watch_is_hung(&lane->watch))
            break;
        take_from_inbox(lane, &group);
        give_group(lane, &group, platform_clock_ns(), &left);
        has_given = true;
    }
    platform_mutex_unlock(&lane->lock);
    if (left)
        task_settle(lane->pool, left);
    return has_given && !left;
}
