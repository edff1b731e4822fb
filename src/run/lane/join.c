/*
 * Lanes of devices that came when the job was under way: all that setting one up takes happens on its own
 * thread, while the job goes on. What fails here leaves out this device, not the job.
 */
#include "run/lane/lane.h"

#include "platform/exit.h"

/* A kernel that the device cannot run leaves it out: units would only fail there. */
static muster_status build_kernels(struct run_lane *lane, struct muster_error *err)
{
    uint64_t begin_ns = platform_clock_ns();
    muster_status status = MUSTER_OK;
    void *built;
    for (uint32_t i = 0; i < lane->plan->declaration->stage_count && status == MUSTER_OK; i++)
        if (lane->plan->steps[i].kernel)
            status = kernel_get_built(lane->plan->steps[i].kernel, lane->device, &built, err);
    lane_log(lane, "building kernels", begin_ns);
    return status;
}

bool lane_is_wanted(struct run_lane *lane)
{
    struct muster *m = lane->work->group.m;
    run_lock(m);
    bool is_wanted = !lane->work->must_leave;
    run_unlock(m);
    return is_wanted;
}

bool lane_join(struct run_lane *lane)
{
    struct lane_work *work = lane->work;
    struct muster_error problem = { .size = sizeof problem };
    platform_exit_hold();
    bool has_kernels = lane_is_wanted(lane) && build_kernels(lane, &problem) == MUSTER_OK;
    muster_status status =
        has_kernels && lane_is_wanted(lane) ? lane_set_up(lane, &problem) : MUSTER_E_CANCELLED;
    platform_exit_release();
    if (short_is(status)) {
        short_begin(lane, &problem);
        status = short_wait(lane) ? MUSTER_OK : MUSTER_E_CANCELLED;
    }
    lane_come_back_lock(lane);
    if (status != MUSTER_OK && problem.status != MUSTER_OK)
        lane->shortage = problem;
    lane->is_joining = false;
    bool takes_part = status == MUSTER_OK && !work->must_leave;
    work->calls->joined_locked(lane, takes_part);
    lane_go_away_unlock(lane);
    return takes_part;
}
