/*
 * A lane's thread: takes units, has their steps enqueued, sees which are over and hands them back. What
 * is over is told by a call of the device's, or looked for by asking the device: quickly at first, and
 * then at intervals that go by how long units take.
 */
#include "run/lane/lane.h"

#include "observe/nvtx.h"

/* So long a GPU's lane looks without a pause before it sleeps. */
#define SPIN_NS 30000u
#define SLEEP_MIN_NS 20000u
#define SLEEP_MAX_NS 1000000u
#define STOPPED_NS UINT64_C(10000000000)
/* Nobody waits for a lane that was given up. */
#define SLEEP_GIVEN_UP_NS 20000000u
/* A lane sleeps for this part of what a unit takes. */
#define SLEEPS_PER_UNIT 16u
/* A lane with this much to do can wait for more. */
#define ENOUGH_NS 4000000u

/* Away and back. */

void lane_go_away_unlock(struct run_lane *lane)
{
    thread_goes_away(&lane->thread);
    run_unlock(lane->work->group.m);
}

void lane_come_back_lock(struct run_lane *lane)
{
    run_lock(lane->work->group.m);
    thread_is_back(&lane->thread);
    if (lane->watch.stuck > 0)
        watch_end_locked(&lane->watch, lane->watch.stuck, 0);
}

bool lane_stop_locked(struct run_lane *lane, uint64_t now_ns)
{
    const struct muster_backend *table = lane_table(lane);
    if (!table->device_stop || lane->is_stopped || lane->is_held_up || lane->running == 0)
        return false;
    uint64_t generation = table->device_generation(lane->device->state);
    job_lane_held_up(lane->work->core, lane->index, true, now_ns);
    /* Only sends a signal: the one call of a backend that is made with the lock. */
    if (table->device_stop(lane->device->state)) {
        lane->is_stopped = lane->is_held_up = true;
        lane->stopped_ns = now_ns;
        lane->stopped_generation = generation;
    } else {
        /* While its process is started units cannot move: their clock begins again. */
        job_lane_held_up(lane->work->core, lane->index, false, now_ns);
    }
    return true;
}

void lane_give_up_locked(struct run_lane *lane)
{
    bool is_away = atomic_load_explicit(&lane->thread.is_away, memory_order_relaxed);
    uint32_t stuck = lane->watch.stuck == 0 && is_away, overdue = 0;
    /* Where a host stage of the user's is what does not return, the device is not to blame. */
    for (uint32_t i = 0; !lane->is_held_up && lane->running > 0 && i < lane->plan->depth; i++) {
        struct lane_unit *unit = &lane->units[i];
        overdue += unit->is_running && !unit->attempt.is_overdue;
        unit->attempt.is_overdue = unit->is_running;
    }
    if (stuck > 0 || overdue > 0)
        watch_begin_locked(&lane->watch, stuck, overdue);
}

/* Units come and go. */

/*
 * Whether this many units are enough for the device to do for a while: one for each stream and one more,
 * and of more than that not so many that others could have done them long before.
 */
static bool is_enough(const struct run_lane *lane, uint64_t count)
{
    return count >= lane->plan->depth ||
           (lane->plan->width == 1 && count > lane->plan->declaration->stream_count &&
            count * lane->interval_ns > ENOUGH_NS);
}

/* The places for the next units; the first one is enqueued before many are taken. */
static uint32_t find_places_locked(struct run_lane *lane, struct lane_unit **places)
{
    uint32_t count = 0, most = lane->ended_count + 1;
    /* What was carried is gone with the device's last start; the next unit is told so. */
    if (memory_generation(lane->device) != lane->generation && !lane_carries(lane->plan))
        lane->must_renew = true;
    if (lane->must_renew || lane->is_isolating || lane->work->must_leave)
        return 0;
    if (lane->plan->width == 1) {
        for (uint64_t next = lane->next; count < most && !is_enough(lane, next - lane->oldest);
             next++)
            places[count++] = lane_unit_at(lane, next);
        return count;
    }
    for (uint32_t i = 0; i < lane->plan->depth && count < most; i++)
        if (!lane->units[i].is_running)
            places[count++] = &lane->units[i];
    return count;
}

/* Hands in what has ended and takes more; true if there was either. */
static bool step_locked(struct run_lane *lane)
{
    struct lane_unit *places[LANE_DEPTH_MAX];
    short_look_locked(lane);
    uint32_t place_count = lane->units ? find_places_locked(lane, places) : 0;
    uint32_t ended_count = lane->ended_count;
    uint64_t now_ns = platform_clock_ns();
    if (place_count == 0 && ended_count == 0)
        return false;
    uint32_t count =
        lane->work->calls->step_locked(lane, lane->ended, ended_count, places, place_count, now_ns);
    lane->ended_count = 0;
    lane->work->outstanding += count;
    if (count > 0 && lane->running == 0)
        lane->busy_since_ns = now_ns;
    if (count > 0 && lane->first_ns == 0)
        lane->first_ns = now_ns;
    lane->running += count;
    for (uint32_t i = 0; i < count; i++)
        unit_start_locked(places[i], lane->next++, now_ns);
    if (count > 0)
        live_device_locked(lane->device);
    return count > 0 || ended_count > 0;
}

/*
 * Units that are not wanted any more, or that another lane would be done with sooner. When the job has
 * failed, what is whole may still be delivered.
 */
static void stop_units_locked(struct run_lane *lane)
{
    const struct job *core = lane->work->core;
    bool has_failed = job_state(core) == JOB_FAILED;
    for (uint32_t i = 0; lane->running > 0 && i < lane->plan->depth; i++) {
        struct lane_unit *unit = lane_unit_nth(lane, i);
        if (!unit || !unit->is_running || !unit_can_stop(unit) ||
            !job_should_stop(core, unit->claim.ticket))
            continue;
        unit->is_stopping = unit->is_stopping || (!unit_is_in_pieces(unit) && !has_failed);
        if (unit->is_stopping || unit_is_in_pieces(unit))
            muster_pieces_stop(&unit->pieces);
    }
}

/* Sees which units are over, without the lock; true if there are any. */
static bool see_ends(struct run_lane *lane)
{
    bool has_ended = false;
    /* Units of one stream end in their order. */
    bool in_order = lane->plan->width == 1 && !lane->is_isolating;
    for (uint32_t i = 0; lane->running > 0 && i < lane->plan->depth; i++) {
        struct lane_unit *unit = lane_unit_nth(lane, i);
        if (!unit || unit->is_over)
            continue;
        if (!unit_is_over(unit)) {
            if (in_order)
                break;
            continue;
        }
        unit->is_over = has_ended = true;
        unit->ended_ns = platform_clock_ns();
        nvtx_end(unit->range);
        unit->range = 0;
        timing_read(unit);
        account_unit(unit);
    }
    return has_ended;
}

/* All streams again, after one failed and nothing is in flight. */
static void renew_streams(struct run_lane *lane)
{
    /* Before they are: one that is started meanwhile is noticed. */
    if (!lane_carries(lane->plan))
        lane->generation = memory_generation(lane->device);
    for (uint32_t i = 0; i < MUSTER_ROLES_MAX; i++)
        if (lane->streams[i].stream)
            streams_renew(&lane->streams[i]);
    lane->must_renew = false;
}

/* A profiler sees a unit from here until see_ends. */
static void show_to_profiler(struct run_lane *lane)
{
    for (uint32_t i = 0; lane->running > 0 && i < lane->plan->depth; i++) {
        struct lane_unit *unit = lane_unit_nth(lane, i);
        if (unit && !unit->is_over && unit->range == 0)
            unit->range =
                nvtx_begin(NVTX_UNITS, unit_items(unit), "job %u, items %llu to %llu, %s",
                           lane->work->number, (unsigned long long)unit->claim.range.begin,
                           (unsigned long long)unit->claim.range.end, lane->device->info.id);
    }
}

/* All that can be done without the lock; true if that was anything. */
static bool move(struct run_lane *lane, bool *has_ended)
{
    if (lane->renews_first)
        renew_streams(lane);
    lane->renews_first = false;
    if (nvtx_is_on())
        show_to_profiler(lane);
    bool has_moved = lane_move_units(lane);
    *has_ended = see_ends(lane);
    if (lane->must_renew && lane->running == 0) {
        renew_streams(lane);
        has_moved = true;
    }
    return has_moved || *has_ended;
}

/* Host stages are the user's code: however long they take, the device is not to blame. */
static void note_host_steps_locked(struct run_lane *lane)
{
    struct lane_work *work = lane->work;
    /* How long a device that was asked to stop may take to end what it had. */
    if (lane->is_stopped &&
        (platform_clock_ns() - lane->stopped_ns > STOPPED_NS ||
         lane_table(lane)->device_generation(lane->device->state) != lane->stopped_generation))
        lane->is_stopped = false;
    bool is_held_up = lane->host_steps > 0 || lane->is_stopped;
    if (is_held_up == lane->is_held_up)
        return;
    lane->is_held_up = is_held_up;
    job_lane_held_up(work->core, lane->index, is_held_up, platform_clock_ns());
    work->calls->tell_locked(work);
}

/* A GPU's lane looks on for a while; true if something went on. */
static bool spin(struct run_lane *lane, uint64_t seen, bool *has_ended)
{
    if (lane->device->info.kind != MUSTER_KIND_GPU)
        return false;
    while (lane->awaits_device && platform_clock_ns() - lane->moved_ns < SPIN_NS &&
           atomic_load_explicit(&lane->changes, memory_order_relaxed) == seen) {
        platform_thread_yield();
        if (move(lane, has_ended))
            return true;
    }
    return false;
}

/* Called with the lock. Sleeps until there is news or it is time to look. */
static void wait_locked(struct run_lane *lane)
{
    struct lane_work *work = lane->work;
    uint64_t now_ns = platform_clock_ns(), until_ns = lane_look_ns(work->core);
    if (until_ns <= now_ns && !thread_is_given_up(&lane->thread)) {
        work->calls->look_locked(work, now_ns);
        return;
    }
    if (lane->awaits_device) {
        uint64_t pause_ns = lane->unit_ns / SLEEPS_PER_UNIT;
        pause_ns = pause_ns < SLEEP_MIN_NS ? SLEEP_MIN_NS : least(pause_ns, SLEEP_MAX_NS);
        until_ns = least(until_ns, now_ns + pause_ns);
    }
    until_ns = least(until_ns, short_look_locked(lane));
    if (thread_is_given_up(&lane->thread))
        until_ns = now_ns + SLEEP_GIVEN_UP_NS;
    platform_condition_wait(&lane->changed, &work->group.m->lock, until_ns);
}

static void carry_out(struct run_lane *lane)
{
    struct lane_work *work = lane->work;
    lane_come_back_lock(lane);
    for (;;) {
        uint64_t seen = atomic_load_explicit(&lane->changes, memory_order_relaxed);
        bool has_stepped = step_locked(lane), has_ended = false;
        lane->is_over = job_state(work->core) != JOB_RUNNING;
        stop_units_locked(lane);
        lane_go_away_unlock(lane);
        if (*lane->told)
            run_log(work->group.m, MUSTER_LOG_WARNING, "%s", lane->told);
        lane->told[0] = 0;
        bool has_moved = move(lane, &has_ended);
        has_moved = has_stepped || has_moved || spin(lane, seen, &has_ended);
        lane_come_back_lock(lane);
        note_host_steps_locked(lane);
        if (has_ended)
            lane_finish_locked(lane);
        if (has_moved) {
            lane->moved_ns = platform_clock_ns();
            continue;
        }
        if (work->must_leave && (lane->running == 0 || work->is_abandoned))
            break;
        if (atomic_load_explicit(&lane->changes, memory_order_relaxed) == seen)
            wait_locked(lane);
    }
    /* Drop units that the device has not finished from its load: they may never finish. */
    lane_leave_units_locked(lane);
    lane_go_away_unlock(lane);
    if (lane->plan->is_accounted && !lane->was_refused && lane->running == 0)
        account_check(lane);
}

static bool prepare(struct run_lane *lane)
{
    uint64_t begin_ns = platform_clock_ns();
    /* Before any unit's clock runs: a compiler may take longer than all units together. */
    for (uint32_t i = 0; i < lane->plan->declaration->stage_count; i++)
        if (lane->plan->steps[i].kernel)
            kernel_prepare(lane->plan->steps[i].kernel, lane->device);
    lane_log(lane, "building kernels", begin_ns);
    return lane->has_all || short_wait(lane);
}

void lane_run(void *argument)
{
    struct run_lane *lane = argument;
    struct lane_work *work = lane->work;
    thread_goes_away(&lane->thread);
    if (lane->is_joining ? lane_join(lane) : prepare(lane))
        carry_out(lane);
    /*
     * What the lane has on its device goes back before its thread ends. Closing without this thread
     * has left all to the device.
     */
    if (!run_is_abandoned(work->group.m))
        lane_tear_down(lane);
    lane_come_back_lock(lane);
    if (--work->lane_threads == 0)
        workers_dismiss(work->workers);
    group_leave_locked(&work->group, &lane->thread);
    run_unlock(work->group.m);
}
