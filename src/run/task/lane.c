/*
 * A device's task lane itself: how it is opened and closed, its streams, its thread, and the guard that
 * watches over all lanes. See run/task/lane.h.
 */
#include "run/task/lane.h"

#include "base/allocator.h"
#include "base/invariant.h"

/* How often a lane's thread looks when somebody is in a hurry, and when all it waits for was given up. */
#define SHORT_NAP_NS 20000u
#define LONG_NAP_NS 20000000u
/* How long it goes on looking after the last task before it parks. */
#define NAPS_MAX 20u
#define SPIN_NS 20000u
/*
 * The lane's thread leaves a stream alone that somebody has looked at so recently, unless there is a
 * hurry: to ask the driver takes longer than a launch, and the thread that gives would wait for the lock. Nor
 * does it look more often itself while nothing ends.
 */
#define FRESH_NS (4 * NAP_NS)
/* How often the guard looks while there are tasks, and how often without success before it parks. */
#define GUARD_NS 10000000u
#define GUARD_IDLE_MAX 20u

/* Opening a lane, and its streams. */

/* No lock of the runtime's is held. */
static void close_streams(struct task_lane *lane, struct task_stream *streams, uint32_t *count)
{
    struct muster *m = lane->pool->m;
    for (; *count > 0; --*count) {
        struct task_stream *stream = &streams[*count - 1];
        run_lock(m);
        if (stream->event)
            event_unreference_locked(lane->device, stream->event);
        run_unlock(m);
        streams_give(&stream->of, 1);
        alone_destroy(stream->alone);
        *stream = (struct task_stream){ .given = 0 };
    }
}

/* As many streams as are free, one at least, each with an event. No lock is held. */
static muster_status open_streams(struct task_lane *lane, struct task_stream *streams,
                                  uint32_t *count)
{
    struct lane_stream taken[LANE_STREAMS];
    uint32_t taken_count;
    muster_status status = streams_take_some(lane->device, LANE_STREAMS, taken, &taken_count, NULL);
    bool copies = !(lane->device->info.capabilities & MUSTER_CAN_USE_HOST_MEMORY);
    for (*count = 0; status == MUSTER_OK && *count < taken_count; ++*count) {
        streams[*count].of = taken[*count];
        status = event_take(lane->device, &streams[*count].event, NULL);
        if (status == MUSTER_OK && copies)
            status = alone_create(lane->device, &streams[*count].alone);
    }
    if (status != MUSTER_OK && taken_count > 0) {
        streams_give(&taken[*count], taken_count - *count);
        close_streams(lane, streams, count);
    }
    return status;
}

/* Opens the lane's streams, which stay if the visit is disowned meanwhile. As task_lane_mend. */
static bool open_first_streams(struct task_lane *lane, struct visit *visit, muster_status *status)
{
    uint32_t count;
    lane->is_opening = true;
    platform_mutex_unlock(&lane->lock);
    /* Nobody looks at streams that are not counted. */
    *status = open_streams(lane, lane->streams, &count);
    platform_mutex_lock(&lane->lock);
    lane->stream_count = count;
    lane->is_opening = false;
    platform_mutex_unlock(&lane->lock);
    return visit_return(lane, visit);
}

/* Replaces a stream on which something failed, once nothing is on it. As task_lane_mend. */
static bool renew_stream(struct task_lane *lane, struct visit *visit, struct task_stream *stream)
{
    visit_claim(visit, stream);
    platform_mutex_unlock(&lane->lock);
    bool is_fresh = streams_renew(&stream->of);
    if (!visit_return(lane, visit))
        return false;
    visit_unclaim(visit);
    if (is_fresh)
        stream->has_failed = stream->is_recorded = false;
    return true;
}

bool task_lane_mend(struct task_lane *lane, struct visit *visit, muster_status *status)
{
    *status = MUSTER_OK;
    if (watch_is_hung(&lane->watch) || lane->is_opening)
        return true;
    if (lane->stream_count == 0)
        return open_first_streams(lane, visit, status);
    lane->must_mend = false;
    for (uint32_t i = 0; i < lane->stream_count; i++) {
        struct task_stream *stream = &lane->streams[i];
        if (stream->has_failed && !stream->oldest && !stream->given_up && !is_claimed(stream) &&
            !renew_stream(lane, visit, stream))
            return false;
        lane->must_mend = lane->must_mend || stream->has_failed;
    }
    return true;
}

static void run_lane(void *argument);
static void guard(void *argument);

/* Calls no driver, so that nobody waits for one device's to use another. */
static muster_status open_lane(struct task_pool *pool, struct run_device *device,
                               struct task_lane **out, struct muster_error *err)
{
    struct task_lane *lane = allocator_take(&pool->m->allocator, 1, sizeof *lane);
    if (!lane)
        return run_no_memory(err, "the tasks of a device");
    lane->pool = pool;
    lane->device = lane->watch.device = device;
    lane->first_deadline_ns = UINT64_MAX;
    muster_status status = platform_mutex_init(&lane->lock, err);
    if (status != MUSTER_OK)
        goto no_lock;
    if ((status = platform_condition_init(&lane->wake, err)) != MUSTER_OK)
        goto no_wake;
    status = platform_thread_start(&lane->thread, run_lane, lane, "muster-kernels", NULL, err);
    if (status == MUSTER_OK) {
        *out = lane;
        return status;
    }
    platform_condition_deinit(&lane->wake);
no_wake:
    platform_mutex_deinit(&lane->lock);
no_lock:
    allocator_give(&pool->m->allocator, lane, 1, sizeof *lane);
    return status;
}

muster_status task_lane_get(struct task_pool *pool, struct run_device *device,
                            struct task_lane **out, struct muster_error *err)
{
    _Atomic(struct task_lane *) *place = &pool->lanes[device->index];
    muster_status status = MUSTER_OK;
    *out = atomic_load_explicit(place, memory_order_acquire);
    if (*out)
        return status;
    platform_mutex_lock(&pool->opening);
    *out = atomic_load_explicit(place, memory_order_acquire);
    if (!*out && !pool->guard.started)
        status = platform_thread_start(&pool->guard, guard, pool, "muster-guard", NULL, err);
    if (!*out && status == MUSTER_OK)
        status = open_lane(pool, device, out, err);
    if (status == MUSTER_OK && !atomic_load_explicit(place, memory_order_relaxed)) {
        (*out)->next = atomic_load_explicit(&pool->lane_list, memory_order_relaxed);
        atomic_store_explicit(&pool->lane_list, *out, memory_order_release);
        atomic_store_explicit(place, *out, memory_order_release);
    }
    platform_mutex_unlock(&pool->opening);
    return status;
}

/* When the runtime closes, lanes in which nothing ends for half of its time are given up. */
static uint64_t idle_before_locked(const struct task_pool *pool)
{
    uint64_t now_ns = platform_clock_ns(), patience_ns = pool->m->options.close_ns / 2;
    bool is_due =
        pool->drain_ns > 0 && now_ns > pool->drain_ns && now_ns - pool->drain_ns > patience_ns;
    return is_due ? now_ns - patience_ns : 0;
}

/* Gives up what is overdue. With the lock, not held meanwhile. */
static void check_lanes_locked(struct task_pool *pool)
{
    uint64_t idle_before_ns = idle_before_locked(pool);
    platform_mutex_unlock(&pool->lock);
    for (struct task_lane *lane = first_lane(pool); lane; lane = lane->next)
        task_lane_check(lane, idle_before_ns);
    platform_mutex_lock(&pool->lock);
}

/*
 * For a thread that has just said that it parks. The thread that gives takes the lane's lock, and then looks who
 * has parked (lanes_are_parked). So either it took that lock before this thread, which sees the work after
 * this, or it sees that this thread parks, and wakes it with the pool's lock. With that lock, which is
 * not held meanwhile.
 */
static void let_givers_pass_locked(struct task_pool *pool)
{
    platform_mutex_unlock(&pool->lock);
    for (struct task_lane *lane = first_lane(pool); lane; lane = lane->next) {
        platform_mutex_lock(&lane->lock);
        platform_mutex_unlock(&lane->lock);
    }
    platform_mutex_lock(&pool->lock);
}

/* Calls no driver, and so is always there to find a thread that does not come back from one. */
static void guard(void *argument)
{
    struct task_pool *pool = argument;
    uint32_t idle = 0;
    pool_only_watch();
    platform_mutex_lock(&pool->lock);
    while (!pool->lanes_must_stop) {
        bool is_idle = true;
        idle = idle < GUARD_IDLE_MAX ? idle + 1 : idle;
        atomic_store_explicit(&pool->guard_is_parked, idle == GUARD_IDLE_MAX, memory_order_relaxed);
        if (idle == GUARD_IDLE_MAX)
            let_givers_pass_locked(pool);
        for (struct task_lane *lane = first_lane(pool); lane; lane = lane->next)
            is_idle = is_idle && !lane_has_work(lane);
        if (!is_idle)
            idle = 0;
        if (pool->lanes_must_stop)
            break;
        uint64_t for_ns = idle == GUARD_IDLE_MAX ? UINT64_MAX : GUARD_NS;
        platform_condition_wait(&pool->guard_wake, &pool->lock, platform_deadline_ns(for_ns));
        atomic_store_explicit(&pool->guard_is_parked, false, memory_order_relaxed);
        check_lanes_locked(pool);
    }
    platform_mutex_unlock(&pool->lock);
}

/* The lane's thread. */

static bool is_hurried_locked(const struct task_pool *pool)
{
    return pool->kernels_wanted > 0 || pool->tasks.aside.count > 0 || pool->relying > 0;
}

void lanes_wake_locked(struct task_pool *pool)
{
    bool is_hurried = is_hurried_locked(pool);
    if (atomic_load_explicit(&pool->guard_is_parked, memory_order_relaxed))
        platform_condition_wake_one(&pool->guard_wake);
    if (pool->lanes_asleep == 0)
        return;
    for (struct task_lane *lane = first_lane(pool); lane; lane = lane->next) {
        bool has_reason = lane_has_work(lane) || pool->tasks.aside.count > 0;
        bool has_inbox = atomic_load_explicit(&lane->has_inbox, memory_order_relaxed);
        if (has_reason &&
            (lane->sleep == SLEEP_PARKED || (lane->sleep == SLEEP_NAPS && is_hurried) || has_inbox))
            platform_condition_wake_one(&lane->wake);
    }
}

bool lanes_are_parked(struct task_pool *pool)
{
    bool is_parked = atomic_load_explicit(&pool->guard_is_parked, memory_order_relaxed);
    for (struct task_lane *lane = first_lane(pool); lane; lane = lane->next)
        is_parked |=
            (atomic_load_explicit(&lane->is_parked, memory_order_relaxed) && lane_has_work(lane)) ||
            atomic_load_explicit(&lane->has_inbox, memory_order_relaxed);
    return is_parked;
}

/* Whether the device may still be at tasks that were given up. */
static bool has_given_up(struct task_lane *lane)
{
    return atomic_load_explicit(&lane->has_given_up, memory_order_relaxed);
}

static void sleep_locked(struct task_lane *lane, enum sleep how, uint64_t for_ns)
{
    struct task_pool *pool = lane->pool;
    lane->sleep = how;
    pool->lanes_asleep++;
    platform_condition_wait(&lane->wake, &pool->lock, platform_deadline_ns(for_ns));
    pool->lanes_asleep--;
    lane->sleep = SLEEP_NOT;
}

static void park_locked(struct task_lane *lane)
{
    atomic_store_explicit(&lane->is_parked, true, memory_order_relaxed);
    let_givers_pass_locked(lane->pool);
    if (!lane_has_work(lane) && !has_given_up(lane) && !lane->pool->lanes_must_stop)
        sleep_locked(lane, SLEEP_PARKED, UINT64_MAX);
    atomic_store_explicit(&lane->is_parked, false, memory_order_relaxed);
}

/* Looks on behalf of those who do not wait; more often if somebody is to hear of an end. */
static void run_lane(void *argument)
{
    struct task_lane *lane = argument;
    struct task_pool *pool = lane->pool;
    uint32_t naps = 0;
    uint64_t pause_ns = SHORT_NAP_NS, spin_from_ns = 0;
    pool_only_watch();
    platform_mutex_lock(&pool->lock);
    while (!pool->lanes_must_stop) {
        bool is_hurried = is_hurried_locked(pool);
        bool has_work = lane_has_work(lane) || pool->tasks.aside.count > 0;
        if (!has_work && has_given_up(lane)) {
            platform_mutex_unlock(&pool->lock);
            task_lane_look(lane, 0);
            platform_mutex_lock(&pool->lock);
            if (has_given_up(lane) && !lane_has_work(lane))
                sleep_locked(lane, SLEEP_NAPS, LONG_NAP_NS);
            continue;
        }
        if (!has_work) {
            if (naps++ < NAPS_MAX)
                sleep_locked(lane, SLEEP_NAPS, NAP_NS);
            else
                park_locked(lane);
            continue;
        }
        pool_give_ready_locked(pool, NULL);
        platform_mutex_unlock(&pool->lock);
        bool has_ended = task_lane_give_inbox(lane);
        has_ended = task_lane_look(lane, is_hurried ? 0 : FRESH_NS) || has_ended;
        uint64_t now_ns = platform_clock_ns();
        if (has_ended || naps > 0)
            spin_from_ns = now_ns;
        bool must_spin = is_hurried && now_ns - spin_from_ns < SPIN_NS;
        if (must_spin)
            platform_thread_yield();
        platform_mutex_lock(&pool->lock);
        naps = 0;
        if (atomic_load_explicit(&lane->has_inbox, memory_order_relaxed))
            continue;
        if (has_ended || must_spin)
            pause_ns = SHORT_NAP_NS;
        /* Who gives and waits looks as well, and is not to be disturbed. */
        if (is_hurried && (has_ended || must_spin))
            continue;
        if (is_hurried)
            sleep_locked(lane, SLEEP_SHORTLY, pause_ns < NAP_NS ? pause_ns : NAP_NS);
        else
            sleep_locked(lane, SLEEP_NAPS, pause_ns > NAP_NS ? pause_ns : NAP_NS);
        pause_ns = pause_ns * 2 < FRESH_NS ? pause_ns * 2 : FRESH_NS;
    }
    lane->has_left = true;
    platform_condition_wake_all(&pool->ended);
    platform_mutex_unlock(&pool->lock);
}

void tasks_leave_device(struct muster *m, const struct run_device *device)
{
    struct task_pool *pool = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    struct task_lane *lane =
        pool ? atomic_load_explicit(&pool->lanes[device->index], memory_order_acquire) : NULL;
    if (!lane)
        return;
    platform_mutex_lock(&lane->lock);
    if (!lane_has_work(lane) && !watch_is_hung(&lane->watch) && !task_lane_is_inside(lane))
        close_streams(lane, lane->streams, &lane->stream_count);
    platform_mutex_unlock(&lane->lock);
}

/* Whether the thread of a lane that is to stop has left, or is inside a driver's call for too long. */
static bool has_left_or_is_stuck_locked(struct task_lane *lane, uint64_t deadline_ns)
{
    platform_mutex_unlock(&lane->pool->lock);
    platform_mutex_lock(&lane->lock);
    bool is_over = watch_is_hung(&lane->watch) || platform_clock_ns() >= deadline_ns;
    bool is_stuck = task_lane_is_inside(lane) && is_over;
    platform_mutex_unlock(&lane->lock);
    platform_mutex_lock(&lane->pool->lock);
    return lane->has_left || is_stuck;
}

/* Waits for the lane's thread; false if somebody is inside the driver and does not come out. */
static bool stop_lane(struct task_lane *lane, uint64_t deadline_ns)
{
    struct task_pool *pool = lane->pool;
    platform_mutex_lock(&pool->lock);
    while (!has_left_or_is_stuck_locked(lane, deadline_ns))
        platform_condition_wait(&pool->ended, &pool->lock, platform_clock_ns() + NAP_NS);
    bool has_left = lane->has_left;
    platform_mutex_unlock(&pool->lock);
    if (has_left)
        platform_thread_join(&lane->thread);
    else
        platform_thread_detach(&lane->thread);
    /* A thread of the user's may be there too. One that was detached may still be on its way out. */
    platform_mutex_lock(&lane->lock);
    struct kernel_task *none = NULL, **tail = &none;
    bool is_empty = has_left && !task_lane_is_inside(lane);
    if (!is_empty)
        task_lane_give_up(lane, true, platform_clock_ns(), &tail);
    else
        close_streams(lane, lane->streams, &lane->stream_count);
    platform_mutex_unlock(&lane->lock);
    INVARIANT(!none);
    return is_empty;
}

uint32_t lanes_stop(struct task_pool *pool, uint64_t deadline_ns, struct muster_error *what)
{
    struct task_lane *list = first_lane(pool);
    uint32_t stuck = 0;
    platform_mutex_lock(&pool->lock);
    pool->lanes_must_stop = true;
    for (struct task_lane *lane = list; lane; lane = lane->next)
        platform_condition_wake_all(&lane->wake);
    platform_condition_wake_all(&pool->guard_wake);
    platform_mutex_unlock(&pool->lock);
    platform_thread_join(&pool->guard);
    for (struct task_lane *lane = list; lane; lane = lane->next) {
        if (stop_lane(lane, deadline_ns))
            continue;
        if (stuck++ == 0) {
            muster_error_fill(
                what, MUSTER_E_DEVICE_HUNG, 0, "restart the process to get its memory back",
                "a call of the driver of %s does not return; the runtime is abandoned "
                "as it is",
                lane->device->info.id);
            run_error_device(what, lane->device);
        }
    }
    return stuck;
}

void lanes_free(struct task_pool *pool)
{
    struct task_lane *lane = first_lane(pool);
    while (lane) {
        struct task_lane *next = lane->next;
        INVARIANT(!lane_has_work(lane));
        platform_condition_deinit(&lane->wake);
        platform_mutex_deinit(&lane->lock);
        allocator_give(&pool->m->allocator, lane, 1, sizeof *lane);
        lane = next;
    }
}
