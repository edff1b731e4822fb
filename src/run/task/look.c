/*
 * How tasks on a lane end: noticing it, judging it, and giving up what a device does not finish. See
 * run/task/lane.h.
 */
#include "run/task/lane.h"

#include "base/invariant.h"

/* A visit that lasts so long is inside a call, and not only short of a core. */
/* So long a device that was asked to stop may take to end what it had. */
#define STOPPED_NS UINT64_C(10000000000)
#define STUCK_NS 100000000u
/* The same for one that builds a kernel. */
#define STUCK_BUILDING_NS UINT64_C(60000000000)

/* Visits. */

/* Not inlined: the compiler would warn of a pointer to the stack, not seeing that leave takes it out. */
__attribute__((noinline)) void visit_enter(struct task_lane *lane, struct visit *visit,
                                           struct group *group, uint64_t now_ns)
{
    *visit = (struct visit){ .next = lane->visits, .group = group, .begin_ns = now_ns };
    lane->visits = visit;
}

void visit_claim(struct visit *visit, struct task_stream *stream)
{
    set_claim(stream, CLAIM_VISIT);
    visit->stream = stream;
}

void visit_unclaim(struct visit *visit)
{
    if (visit->stream)
        set_claim(visit->stream, CLAIM_NONE);
    visit->stream = NULL;
}

void visit_leave(struct task_lane *lane, struct visit *visit)
{
    struct visit **at = &lane->visits;
    visit_unclaim(visit);
    while (*at != visit)
        at = &(*at)->next;
    *at = visit->next;
}

bool task_lane_is_inside(struct task_lane *lane)
{
    bool is_launching = false;
    for (uint32_t i = 0; i < lane->stream_count; i++)
        is_launching = is_launching || is_claimed(&lane->streams[i]);
    return lane->visits || is_launching;
}

/* The end of a hang. */

/* This many calls have returned, and this many tasks that were given up have ended. */
static void note_answers(struct task_lane *lane, uint32_t calls, uint32_t tasks)
{
    struct muster *m = lane->pool->m;
    if (calls == 0 && tasks == 0)
        return;
    run_lock(m);
    bool is_back = watch_end_locked(&lane->watch, calls, tasks);
    run_unlock(m);
    lane->is_back = lane->is_back || is_back;
    atomic_store_explicit(&lane->has_given_up, lane->watch.overdue > 0, memory_order_relaxed);
}

/* The device has done what it will with the task's record. */
static void note_answered(struct task_lane *lane, struct kernel_task *task)
{
    task->also_next = lane->answered;
    lane->answered = task;
}

/* Records that can be used again are, and it is told that the device answers. No lock is held. */
static void tidy(struct task_lane *lane)
{
    platform_mutex_lock(&lane->lock);
    struct kernel_task *answered = lane->answered;
    bool is_back = lane->is_back;
    lane->answered = NULL;
    lane->is_back = false;
    platform_mutex_unlock(&lane->lock);
    if (is_back)
        watch_tell(&lane->watch, false);
    kernel_tasks_return(lane->pool, answered);
}

bool visit_return(struct task_lane *lane, struct visit *visit)
{
    uint32_t ended = 0;
    platform_mutex_lock(&lane->lock);
    if (!visit->is_disowned)
        return true;
    struct task_stream *stream = visit->stream;
    visit_leave(lane, visit);
    while (visit->given_up) {
        struct kernel_task *task = visit->given_up;
        visit->given_up = task->also_next;
        if (!stream) {
            note_answered(lane, task);
            ended++;
            continue;
        }
        /* The device may have some of it: it is over when all is that was given so far. */
        task->sequence = ++stream->given;
        task->also_next = stream->given_up;
        stream->given_up = task;
    }
    note_answers(lane, 1, ended);
    platform_mutex_unlock(&lane->lock);
    tidy(lane);
    return false;
}

void task_lane_end_disowned(struct task_lane *lane, struct task_stream *stream)
{
    set_claim(stream, CLAIM_NONE);
    note_answers(lane, 1, 0);
    platform_mutex_unlock(&lane->lock);
    tidy(lane);
}

/* Hearing how it ended. With the lane's lock. */

static struct kernel_task *take_oldest(struct task_lane *lane, struct task_stream *stream)
{
    struct kernel_task *task = stream->oldest;
    stream->oldest = task->next;
    if (!stream->oldest)
        stream->newest = NULL;
    stream->count--;
    count_out(lane, 1);
    return task;
}

/* One try is over. Bad luck is tried again, unless what it read has been written over. */
static void judge(struct kernel_task *task, muster_status ended)
{
    const struct run_device *device = task->device;
    task->attempt.ended = ended;
    task->attempt.is_bystander =
        device->backend->table.device_generation(device->state) != task->generation;
    enum job_end how = attempt_end(&task->attempt);
    bool is_luck = how == JOB_END_DEVICE || how == JOB_END_UNIT;
    task->status = attempt_status(&task->attempt);
    task->outcome = KERNEL_ENDS;
    /* Its device was started again because of another: as often as that happens. */
    if (how == JOB_END_AGAIN && !task->has_update) {
        task->outcome = KERNEL_AGAIN;
        return;
    }
    if (++task->tries < KERNEL_TRIES && is_luck && !task->has_update) {
        task->outcome = KERNEL_AGAIN;
        kernel_task_mark(task, &task->avoided, task->device->index);
    }
}

/* Puts the event after all that was given, if it is not on its way. No lock is held. */
static bool record(const struct task_stream *stream, bool is_recorded)
{
    return is_recorded || streams_record(&stream->of, stream->event, NULL) == MUSTER_OK;
}

static void note_recorded(struct task_stream *stream, bool is_recorded)
{
    if (is_recorded && !stream->is_recorded)
        stream->recorded = stream->given;
    stream->is_recorded = is_recorded;
}

/* Tasks that were given up, and that the device has now finished with. */
static void see_given_up(struct task_lane *lane, struct task_stream *stream, uint64_t covered)
{
    uint32_t ended = 0;
    for (struct kernel_task **at = &stream->given_up; *at;) {
        struct kernel_task *task = *at;
        if (task->sequence > covered) {
            at = &task->also_next;
            continue;
        }
        *at = task->also_next;
        note_answered(lane, task);
        ended++;
    }
    note_answers(lane, 0, ended);
}

/* What the driver says of the claimed stream. As task_lane_mend. */
static bool look_at_stream(struct task_lane *lane, struct visit *visit, uint64_t now_ns,
                           struct kernel_task ***tail)
{
    struct task_stream *stream = visit->stream;
    bool is_recorded = stream->is_recorded;
    stream->looked = stream->given;
    stream->looked_ns = now_ns;
    platform_mutex_unlock(&lane->lock);
    is_recorded = record(stream, is_recorded);
    /* A device that takes no record, a lost one for instance, may still be working. */
    muster_status status = streams_ask(&stream->of, is_recorded ? stream->event : NULL);
    if (!visit_return(lane, visit))
        return false;
    note_recorded(stream, is_recorded);
    if (!run_is_over(status)) {
        stream->busy_ns = now_ns;
        if (status == MUSTER_E_BUSY)
            stream->mute_ns = 0;
        else if (stream->mute_ns == 0)
            stream->mute_ns = now_ns;
        return true;
    }
    uint64_t covered = is_recorded ? stream->recorded : stream->given;
    stream->mute_ns = 0;
    stream->is_recorded = false;
    stream->has_failed |= muster_status_discards(status) == MUSTER_DISCARD_STREAM;
    lane->must_mend = lane->must_mend || stream->has_failed;
    while (stream->oldest && stream->oldest->sequence <= covered) {
        struct kernel_task *task = take_oldest(lane, stream);
        task->was_prompt = now_ns - stream->busy_ns < (now_ns - task->attempt.mark.begin_ns) / 4;
        judge(task, status);
        **tail = task;
        *tail = &task->next;
    }
    if (stream->given_up)
        see_given_up(lane, stream, covered);
    lane->progress_ns = now_ns;
    return true;
}

bool task_lane_glance(struct task_lane *lane, struct visit *visit, uint64_t now_ns,
                      struct kernel_task ***tail)
{
    struct task_stream *stream = visit->stream;
    if (stream->is_recorded) {
        if (!look_at_stream(lane, visit, now_ns, tail))
            return false;
        bool has_kept = !stream->is_recorded && lane->pace != PACE_LOST;
        lane->pace = has_kept ? PACE_KEPT : PACE_LOST;
        lane->stream = (uint32_t)(stream - lane->streams);
    }
    bool is_recorded = stream->is_recorded;
    platform_mutex_unlock(&lane->lock);
    is_recorded = record(stream, is_recorded);
    if (!visit_return(lane, visit))
        return false;
    note_recorded(stream, is_recorded);
    stream->looked = stream->given;
    stream->looked_ns = now_ns;
    return true;
}

void task_lane_count_ended(struct task_lane *lane, struct kernel_task *chain)
{
    struct muster *m = lane->pool->m;
    run_lock(m);
    /* With the lock, so that in a trace the spans of a device are in the order of their ends. */
    uint64_t now_ns = platform_clock_ns();
    for (struct kernel_task *task = chain; task; task = task->next) {
        kernel_task_finish_locked(task, now_ns);
        if (recording_is_on(&m->recording))
            trace_kernel_task_locked(lane->device, task->attempt.mark.begin_ns, now_ns, task->items,
                                     task->status, task->tries > 1);
    }
    device_view_locked(lane->device);
    run_unlock(m);
}

/* Giving up. */

/* Tasks that leave a device that hangs, and what they leave there. */
struct giving_up {
    struct task_lane *lane;
    uint64_t now_ns;
    bool is_all, is_stuck;
    uint32_t calls, tasks; /* disowned, and records that the device may still write to */
    struct kernel_task **tail;
};

static bool is_stuck_visit(const struct visit *visit, uint64_t now_ns)
{
    return !visit->is_disowned &&
           now_ns - visit->begin_ns > (visit->is_building ? STUCK_BUILDING_NS : STUCK_NS);
}

static bool is_stuck_launch(struct task_stream *stream, uint64_t now_ns)
{
    return atomic_load_explicit(&stream->claim, memory_order_relaxed) == CLAIM_LAUNCH &&
           now_ns - stream->launch_ns > STUCK_NS;
}

static bool is_mute(const struct task_lane *lane, const struct task_stream *stream, uint64_t now_ns)
{
    return stream->mute_ns > 0 && stream->oldest &&
           now_ns - stream->mute_ns > lane->pool->m->options.close_ns;
}

/* Whether it has not answered for so long that nobody waits for what it still has. */
static bool is_silent(const struct task_lane *lane, uint64_t now_ns)
{
    return watch_is_hung(&lane->watch) && now_ns - lane->hung_ns > lane->pool->m->options.close_ns;
}

/*
 * Takes one task from the device. Its record is not used again until the device has finished with it,
 * and the kernel stays as long.
 */
static void take_from_hung_locked(struct giving_up *up, struct kernel_task *task,
                                  struct kernel_task **keeper)
{
    task->status = MUSTER_E_DEVICE_HUNG;
    task->was_prompt = false;
    /* Its arrays are in the hands of the device. */
    task->outcome = ++task->tries < KERNEL_TRIES && !task->has_arrays ? KERNEL_AGAIN : KERNEL_ENDS;
    kernel_task_mark(task, &task->avoided, task->device->index);
    task->is_spoilt = true;
    kernel_hold_locked(task->kernel);
    task->also_next = *keeper;
    *keeper = task;
    task->next = NULL;
    *up->tail = task;
    up->tail = &task->next;
    up->tasks++;
}

/* What a stuck call has in hand is given up with it. */
static void give_up_visit_locked(struct giving_up *up, struct visit *visit)
{
    if (visit->is_disowned || !(up->is_all || is_stuck_visit(visit, up->now_ns)))
        return;
    visit->is_disowned = true;
    up->calls++;
    if (!visit->group)
        return;
    if (visit->stream && visit->group->is_heavy)
        alone_set_given_up(visit->stream->alone, true);
    for (uint32_t i = 0; i < visit->group->count; i++)
        take_from_hung_locked(up, visit->group->tasks[i], &visit->given_up);
    count_out(up->lane, visit->group->count);
    visit->group->count = 0;
}

static void give_up_stream_locked(struct giving_up *up, struct task_stream *stream)
{
    enum claim launching = CLAIM_LAUNCH;
    bool is_disowned =
        (up->is_all || is_stuck_launch(stream, up->now_ns)) &&
        atomic_compare_exchange_strong_explicit(&stream->claim, &launching, CLAIM_DISOWNED,
                                                memory_order_acquire, memory_order_relaxed);
    bool takes_all = up->is_all || is_mute(up->lane, stream, up->now_ns);
    /* A stream that was seen to be unfinished since then; any, if nobody can ask. */
    uint64_t late_ns = up->is_stuck ? up->now_ns : stream->busy_ns;
    struct kernel_task *before = NULL;
    /* What a launch that is not stuck has in hand is its thread's: that hands it back if it fails. */
    uint64_t in_hand =
        !is_disowned && atomic_load_explicit(&stream->claim, memory_order_relaxed) == CLAIM_LAUNCH
            ? stream->launch_first
            : UINT64_MAX;
    up->calls += is_disowned;
    for (struct kernel_task **at = &stream->oldest; *at;) {
        struct kernel_task *task = *at;
        bool is_due = takes_all || task->deadline_ns <= late_ns ||
                      (is_disowned && task->sequence >= stream->launch_first);
        /* One that is not overdue moves only where that costs nothing but a second run. */
        bool stays =
            !is_due && (task->has_arrays || !kernel_task_can_move_locked(up->lane->pool->m, task));
        if (task->sequence >= in_hand || stays) {
            before = task;
            at = &task->next;
            continue;
        }
        *at = task->next;
        stream->count--;
        take_from_hung_locked(up, task, &stream->given_up);
        count_out(up->lane, 1);
    }
    stream->newest = before;
}

/* What was only posted just moves, or stays for when the device answers. */
static void give_up_inbox_locked(struct giving_up *up)
{
    struct task_lane *lane = up->lane;
    lane->inbox_newest = NULL;
    for (struct kernel_task **at = &lane->inbox; *at;) {
        struct kernel_task *task = *at;
        if (!up->is_all && task->deadline_ns > up->now_ns &&
            !kernel_task_can_move_locked(lane->pool->m, task)) {
            lane->inbox_newest = task;
            at = &task->next;
            continue;
        }
        *at = task->next;
        count_out(lane, 1);
        kernel_task_unplace_locked(task, up->now_ns);
        task->status = MUSTER_E_DEVICE_HUNG;
        task->outcome = KERNEL_AGAIN;
        task->next = NULL;
        *up->tail = task;
        up->tail = &task->next;
    }
    atomic_store_explicit(&lane->has_inbox, lane->inbox != NULL, memory_order_relaxed);
}

static bool has_stuck_call(struct task_lane *lane, uint64_t now_ns)
{
    bool is_stuck = false;
    for (uint32_t i = 0; i < lane->stream_count; i++)
        is_stuck = is_stuck || is_stuck_launch(&lane->streams[i], now_ns);
    for (const struct visit *visit = lane->visits; visit; visit = visit->next)
        is_stuck = is_stuck || is_stuck_visit(visit, now_ns);
    return is_stuck;
}

/*
 * A device in a process of its own is stopped instead, once for each start of it: what it had ends, and it goes on. True
 * while that is under way. With the lane's lock: it only sends a signal.
 */
static bool stop_device(struct task_lane *lane, uint64_t now_ns)
{
    const struct run_device *device = lane->device;
    const struct muster_backend *table = &device->backend->table;
    if (!table->device_stop)
        return false;
    uint64_t generation = table->device_generation(device->state);
    if (lane->stopped_generation == generation)
        return now_ns - lane->stopped_ns < STOPPED_NS;
    if (table->device_stop(device->state)) {
        lane->stopped_generation = generation;
        lane->stopped_ns = now_ns;
    }
    return true;
}

bool task_lane_give_up(struct task_lane *lane, bool is_all, uint64_t now_ns,
                       struct kernel_task ***tail)
{
    if (!is_all && stop_device(lane, now_ns))
        return false;
    struct muster *m = lane->pool->m;
    struct giving_up up = { .lane = lane,
                            .now_ns = now_ns,
                            .is_all = is_all || is_silent(lane, now_ns),
                            .is_stuck = has_stuck_call(lane, now_ns),
                            .tail = *tail };
    run_lock(m);
    atomic_store_explicit(&lane->has_given_up, true, memory_order_relaxed);
    for (struct visit *visit = lane->visits; visit; visit = visit->next)
        give_up_visit_locked(&up, visit);
    for (uint32_t i = 0; i < lane->stream_count; i++)
        give_up_stream_locked(&up, &lane->streams[i]);
    bool begins = watch_begin_locked(&lane->watch, up.calls, up.tasks);
    if (begins)
        lane->hung_ns = now_ns;
    give_up_inbox_locked(&up);
    run_unlock(m);
    atomic_store_explicit(&lane->has_given_up, lane->watch.overdue > 0, memory_order_relaxed);
    *up.tail = NULL;
    *tail = up.tail;
    return begins;
}

static void see_deadlines(const struct kernel_task *task, uint64_t *first_ns)
{
    for (; task; task = task->next)
        if (task->deadline_ns < *first_ns)
            *first_ns = task->deadline_ns;
}

/*
 * Whether a task is over its time, or nobody can tell, and when the next one will be. A task on a
 * stream is late if the stream was seen to be unfinished since; any is while a visit is stuck.
 */
static bool is_overdue(struct task_lane *lane, uint64_t now_ns)
{
    uint64_t all_ns = UINT64_MAX;
    bool is_late = false;
    for (uint32_t i = 0; i < lane->stream_count; i++)
        if (is_mute(lane, &lane->streams[i], now_ns))
            return true;
    if (is_silent(lane, now_ns))
        return true;
    if (now_ns < lane->first_deadline_ns)
        return false;
    for (uint32_t i = 0; i < lane->stream_count; i++) {
        uint64_t first_ns = UINT64_MAX;
        see_deadlines(lane->streams[i].oldest, &first_ns);
        is_late = is_late || first_ns <= lane->streams[i].busy_ns;
        all_ns = first_ns < all_ns ? first_ns : all_ns;
    }
    see_deadlines(lane->inbox, &all_ns);
    for (const struct visit *visit = lane->visits; visit; visit = visit->next)
        for (uint32_t i = 0; visit->group && i < visit->group->count; i++)
            if (visit->group->tasks[i]->deadline_ns < all_ns)
                all_ns = visit->group->tasks[i]->deadline_ns;
    lane->first_deadline_ns = all_ns;
    /* While it hangs nobody gives what was posted. */
    bool is_blocked = has_stuck_call(lane, now_ns) || watch_is_hung(&lane->watch);
    return is_late || (is_blocked && all_ns <= now_ns);
}

static void settle(struct task_lane *lane, struct kernel_task *chain)
{
    if (!chain)
        return;
    task_lane_count_ended(lane, chain);
    task_settle(lane->pool, chain);
}

bool task_lane_look(struct task_lane *lane, uint64_t fresh_ns)
{
    struct kernel_task *chain = NULL, **tail = &chain;
    struct visit visit;
    bool is_here = true, begins = false, is_untidy = false;
    if (!lane_has_work(lane) && !atomic_load_explicit(&lane->has_given_up, memory_order_relaxed))
        return false;
    uint64_t now_ns = platform_clock_ns();
    platform_mutex_lock(&lane->lock);
    visit_enter(lane, &visit, NULL, now_ns);
    for (uint32_t i = 0; i < lane->stream_count && is_here; i++) {
        struct task_stream *stream = &lane->streams[i];
        bool is_fresh = fresh_ns > 0 && stream->looked_ns + fresh_ns > now_ns;
        if ((!stream->oldest && !stream->given_up) || is_claimed(stream) || is_fresh)
            continue;
        visit_claim(&visit, stream);
        is_here = look_at_stream(lane, &visit, now_ns, &tail);
        if (is_here)
            visit_unclaim(&visit);
    }
    if (is_here) {
        visit_leave(lane, &visit);
        if (lane_has_work(lane) && is_overdue(lane, now_ns))
            begins = task_lane_give_up(lane, false, now_ns, &tail);
        is_untidy = lane->answered || lane->is_back;
        platform_mutex_unlock(&lane->lock);
    }
    *tail = NULL;
    if (begins)
        watch_tell(&lane->watch, true);
    settle(lane, chain);
    if (is_untidy)
        tidy(lane);
    return chain != NULL;
}

bool lanes_look(struct task_pool *pool, struct task_lane *only)
{
    bool has_ended = false;
    for (struct task_lane *lane = first_lane(pool); lane; lane = lane->next)
        if (!only || lane == only)
            has_ended = task_lane_look(lane, 0) || has_ended;
    return has_ended;
}

void task_lane_check(struct task_lane *lane, uint64_t idle_before_ns)
{
    struct kernel_task *chain = NULL, **tail = &chain;
    bool begins = false;
    platform_mutex_lock(&lane->lock);
    uint64_t now_ns = platform_clock_ns();
    bool is_idle = lane->progress_ns < idle_before_ns;
    if (lane_has_work(lane) && (is_idle || is_overdue(lane, now_ns)))
        begins = task_lane_give_up(lane, is_idle, now_ns, &tail);
    platform_mutex_unlock(&lane->lock);
    if (begins)
        watch_tell(&lane->watch, true);
    settle(lane, chain);
}
