#include "core/whole_jobs.h"

/* A lane is left out if jobs are faster by this part without it. */
#define GAIN_OUT 0.02
/* Such a difference needs no second look. */
#define GAIN_SURE 0.15
/* So many jobs of each side, otherwise. */
#define JOBS_SURE 2
/* A lane that does this part of everything is not tried: the others would have to be five times as fast. */
#define PILLAR_PART 0.8
/* A job whose items take so many times longer, or shorter, is of a kind that nothing is known of. */
#define FOREIGN 2.0

static uint64_t bit(uint32_t lane)
{
    return UINT64_C(1) << lane;
}

static bool is_out(const struct whole_jobs *jobs, uint32_t lane)
{
    return jobs->left_out & bit(lane);
}

/* The lower median of what is kept of a side: a job that was disturbed does not count. */
static double time_of(const struct whole_jobs *jobs, uint32_t side)
{
    const double *times = jobs->times_ns[side];
    uint32_t known = jobs->times_known[side];
    uint32_t count = known < WHOLE_JOBS_KEPT ? known : WHOLE_JOBS_KEPT;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t less = 0, same = 0;
        for (uint32_t k = 0; k < count; k++) {
            less += times[k] < times[i];
            same += times[k] == times[i];
        }
        uint32_t middle = (count - 1) / 2;
        if (less <= middle && middle < less + same)
            return times[i];
    }
    return 0;
}

uint64_t whole_jobs_left_out(const struct whole_jobs *jobs)
{
    return jobs->left_out | (jobs->trial > 0 && jobs->is_without ? bit(jobs->trial - 1) : 0);
}

static void count_time(struct whole_jobs *jobs, uint32_t side, double ns)
{
    jobs->times_ns[side][jobs->times_known[side]++ % WHOLE_JOBS_KEPT] = ns;
}

/* The lane to try next: the one whose trial costs least if the lane does no harm. The cost is a part of a job. */
static bool find_lane(const struct whole_jobs *jobs, const struct whole_job *job, uint32_t *lane,
                      double *cost)
{
    uint32_t in = 0;
    bool is_found = false;
    for (uint32_t i = 0; i < job->lane_count; i++)
        in += !is_out(jobs, i);
    for (uint32_t i = 0; i < job->lane_count; i++) {
        double share = job->shares[i];
        if (jobs->tried & bit(i) || is_out(jobs, i) || in < 2 || share > PILLAR_PART ||
            (is_found && share / (1 - share) >= *cost))
            continue;
        is_found = true;
        *lane = i;
        *cost = share / (1 - share);
    }
    return is_found;
}

static void begin_trial(struct whole_jobs *jobs, const struct whole_job *job)
{
    uint32_t lane = 0;
    double cost = 0;
    if (!find_lane(jobs, job, &lane, &cost) ||
        (jobs->has_begun && cost * job->job_ns > jobs->saved_ns))
        return;
    jobs->saved_ns -= jobs->has_begun ? cost * job->job_ns : 0;
    jobs->has_begun = true;
    jobs->trial = lane + 1;
    jobs->is_without = true;
    jobs->times_known[WHOLE_JOBS_WITHOUT] = jobs->times_known[WHOLE_JOBS_WITH] = 0;
    count_time(jobs, WHOLE_JOBS_WITH, job->job_ns / job->items);
}

static bool is_foreign(const struct whole_jobs *jobs, uint32_t side, double ns)
{
    double known_ns = time_of(jobs, side);
    return known_ns > 0 && (ns > FOREIGN * known_ns || ns * FOREIGN < known_ns);
}

uint32_t whole_jobs_ended(struct whole_jobs *jobs, const struct whole_job *job, double *gain)
{
    double item_ns = job->job_ns / job->items;
    jobs->saved_ns += WHOLE_JOBS_COST * job->job_ns;
    if (jobs->trial == 0) {
        begin_trial(jobs, job);
        return 0;
    }
    uint32_t lane = jobs->trial - 1, decided = 0;
    uint32_t side = jobs->is_without ? WHOLE_JOBS_WITHOUT : WHOLE_JOBS_WITH;
    if (is_foreign(jobs, side, item_ns)) {
        *jobs = (struct whole_jobs){ .saved_ns = jobs->saved_ns };
        return 0;
    }
    count_time(jobs, side, item_ns);
    double gained = time_of(jobs, WHOLE_JOBS_WITH) / time_of(jobs, WHOLE_JOBS_WITHOUT) - 1;
    bool is_better = gained > GAIN_OUT, is_sure = gained > GAIN_SURE || gained < -GAIN_SURE;
    for (uint32_t i = 0; i < WHOLE_JOBS_SIDES && !is_sure; i++)
        if (jobs->times_known[i] < JOBS_SURE) {
            /* Another look at this side, if it is the better one or there is enough saved for it. */
            bool is_the_better = is_better == (i == WHOLE_JOBS_WITHOUT);
            double cost_ns = (gained > 0 ? gained : -gained) * job->job_ns;
            bool can_pay = is_the_better || cost_ns <= jobs->saved_ns;
            jobs->saved_ns -= can_pay && !is_the_better ? cost_ns : 0;
            jobs->is_without = can_pay == (i == WHOLE_JOBS_WITHOUT);
            return 0;
        }
    jobs->tried |= bit(lane);
    if (is_better) {
        /* The others may have been held up by it, or may not be. */
        jobs->tried = bit(lane);
        jobs->left_out |= bit(lane);
        *gain = gained;
        decided = lane + 1;
    }
    jobs->trial = 0;
    jobs->is_without = false;
    return decided;
}
