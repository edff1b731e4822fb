/*
 * Lanes whose devices have no memory or no streams for them now. Other jobs give back what they have
 * when they are over, and users when they like, so such a lane waits on its own thread while the rest
 * of the job goes on without it.
 */
#include "run/lane/lane.h"

/* Between two looks whether there is enough now, at first and after some. */
#define PAUSE_FIRST_NS 1000000u
#define PAUSE_MAX_NS 64000000u
/* So long a lane takes no unit after one that there was no memory for. */
#define PAUSE_UNIT_NS 2000000u

/* This many units in a row wait for memory where no other job has any; then they fail. */
#define SHORT_MAX 16u

bool short_is(muster_status status)
{
    return status == MUSTER_E_DEVICE_MEMORY || status == MUSTER_E_CAPACITY ||
           status == MUSTER_E_NO_MEMORY || status == MUSTER_E_TOO_LARGE;
}

void short_begin(struct run_lane *lane, const struct muster_error *why)
{
    struct muster *m = lane->work->group.m;
    lane_give_back(lane);
    run_lock(m);
    lane->shortage = *why;
    job_lane_short(lane->work->core, lane->index, true, platform_clock_ns());
    run_unlock(m);
}

/* Whether streams that were given back finish earlier work, and can then be had. */
static bool has_finishing_streams(const struct run_device *device)
{
    uint32_t i = 1;
    while (i < device->stream_count &&
           (device->streams[i].slot != SLOT_RELEASED || !device->streams[i].oldest))
        i++;
    return i < device->stream_count;
}

bool short_may_end_locked(const struct run_lane *lane)
{
    const struct run_device *device = lane->device;
    if (!short_is(lane->shortage.status) || lane->shortage.status == MUSTER_E_TOO_LARGE)
        return false;
    return device->lanes > 0 || device->budget.unreclaimed > 0 || has_finishing_streams(device);
}

/* Called with the lock. False: the job is over. */
static bool pause_locked(struct run_lane *lane, uint64_t pause_ns)
{
    struct lane_work *work = lane->work;
    uint64_t until_ns = platform_deadline_ns(pause_ns);
    while (!work->must_leave &&
           platform_condition_wait(&lane->changed, &work->group.m->lock, until_ns)) {}
    return !work->must_leave;
}

bool short_wait(struct run_lane *lane)
{
    struct lane_work *work = lane->work;
    struct muster_error problem = { .size = sizeof problem };
    uint64_t pause_ns = PAUSE_FIRST_NS;
    lane_come_back_lock(lane);
    /* What is more than the device has will not come. */
    while (
        pause_locked(lane, lane->shortage.status == MUSTER_E_TOO_LARGE ? UINT64_MAX : pause_ns)) {
        lane_go_away_unlock(lane);
        muster_status status = lane_set_up(lane, &problem);
        if (status != MUSTER_OK)
            lane_give_back(lane);
        lane_come_back_lock(lane);
        uint64_t now_ns = platform_clock_ns();
        bool is_lost = muster_status_discards(status) == MUSTER_DISCARD_DEVICE;
        if (status == MUSTER_OK || is_lost)
            job_lane_short(work->core, lane->index, false, now_ns);
        if (is_lost)
            job_lane_lost(work->core, lane->index, now_ns);
        if (status == MUSTER_OK || is_lost) {
            work->calls->tell_locked(work);
            lane_go_away_unlock(lane);
            return status == MUSTER_OK;
        }
        lane->shortage = problem;
        pause_ns = least(2 * pause_ns, PAUSE_MAX_NS);
        work->calls->short_locked(lane);
    }
    lane_go_away_unlock(lane);
    return false;
}

bool short_is_unit_locked(const struct lane_unit *unit)
{
    const struct run_lane *lane = unit->lane;
    const struct run_device *device = lane->device;
    if (unit->attempt.given != MUSTER_E_DEVICE_MEMORY || unit->attempt.is_refused)
        return false;
    /* Other jobs have memory there, or another lane may run the unit; but not for ever. */
    return device->lanes > 1 ||
           (lane->short_count < SHORT_MAX &&
            (lane->running > 1 || lane->work->lane_count > 1 || device->budget.unreclaimed > 0));
}

void short_pause_locked(struct run_lane *lane, uint64_t now_ns)
{
    lane->short_count++;
    lane->short_until_ns = now_ns + PAUSE_UNIT_NS;
    job_lane_short(lane->work->core, lane->index, true, now_ns);
}

uint64_t short_look_locked(struct run_lane *lane)
{
    uint64_t now_ns;
    if (lane->short_until_ns == 0)
        return UINT64_MAX;
    if ((now_ns = platform_clock_ns()) < lane->short_until_ns)
        return lane->short_until_ns;
    lane->short_until_ns = 0;
    job_lane_short(lane->work->core, lane->index, false, now_ns);
    return UINT64_MAX;
}
