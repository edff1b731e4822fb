#include "core/whole_jobs.h"

/* A lane is left out if jobs are faster by this part without it. */
#define GAIN_OUT 0.02
/* Such a difference needs no second look. */
#define GAIN_SURE 0.15
/* This many jobs of each side, otherwise. */
#define JOBS_SURE 2
/* A lane that does this part of everything is not tried: the others would have to be five times as fast. */
#define PILLAR_PART 0.8
/* The other lane is tried in place of the one that is left if it cannot take more than this many times as long. */
#define SECOND_MAX 4.0
/*
 * A job that meets this many times as many page faults cannot be compared, if they may have taken this part
 * of its time: of memory that is new each one takes about half a microsecond.
 */
#define FAULTS_MORE 2.0
#define FAULTS_PART 0.05
#define FAULT_NS 500.0
/* A job whose items take this many times longer, or shorter, is of a kind that nothing is known of. */
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
    return jobs->left_out ^ (jobs->is_without ? jobs->trial : 0);
}

static void count_time(struct whole_jobs *jobs, uint32_t side, double ns)
{
    jobs->times_ns[side][jobs->times_known[side]++ % WHOLE_JOBS_KEPT] = ns;
}

/* What a trial without lanes that do this part of a job costs, if they do no harm: as a part of that job. */
static double cost_of(double share)
{
    return share / (1 - share);
}

/* All but the lane that does most, of three at least; 0: that was tried, or costs too much. */
static uint64_t all_but_the_best(const struct whole_jobs *jobs, const struct whole_job *job,
                                 double *cost)
{
    uint32_t in = 0, best = 0;
    uint64_t set = 0;
    for (uint32_t i = 0; i < job->lane_count; i++)
        if (!is_out(jobs, i)) {
            best = in++ == 0 || job->shares[i] > job->shares[best] ? i : best;
            set |= bit(i);
        }
    if (in < 3 || jobs->is_best_tried || 1 - job->shares[best] > PILLAR_PART)
        return 0;
    *cost = cost_of(1 - job->shares[best]);
    uint32_t heaviest = job->heaviest[best];
    if (heaviest > 0 && !is_out(jobs, heaviest - 1))
        best = heaviest - 1;
    return set & ~bit(best);
}

/* Of the lanes that were not tried, the one whose trial costs least; 0: there is none. */
static uint64_t find_lane(const struct whole_jobs *jobs, const struct whole_job *job, double *cost)
{
    uint32_t in = 0;
    uint64_t found = 0;
    for (uint32_t i = 0; i < job->lane_count; i++)
        in += !is_out(jobs, i);
    for (uint32_t i = 0; i < job->lane_count; i++) {
        double share = job->shares[i];
        if (jobs->tried & bit(i) || is_out(jobs, i) || in < 2 || share > PILLAR_PART ||
            (found != 0 && cost_of(share) >= *cost))
            continue;
        found = bit(i);
        *cost = cost_of(share);
    }
    return found;
}

/* Who would be left alone by the trial, and who did most of those that are tried. */
static void find_second(struct whole_jobs *jobs, const struct whole_job *job)
{
    uint32_t left = 0;
    double most = 0;
    jobs->second_ns = 0;
    for (uint32_t i = 0; i < job->lane_count; i++) {
        if (jobs->trial & bit(i) && job->shares[i] > most) {
            most = job->shares[i];
            jobs->second = i;
        } else if (!(jobs->trial & bit(i)) && !is_out(jobs, i)) {
            jobs->first = i;
            left++;
        }
    }
    if (left == 1 && most > 0)
        jobs->second_ns = job->job_ns / job->items / most;
}

/* A lane is left alone: whether the second is better is the next trial. */
static bool begin_second(struct whole_jobs *jobs, double alone_ns)
{
    if (jobs->is_second_tried || jobs->second_ns <= 0 || jobs->second_ns > SECOND_MAX * alone_ns)
        return false;
    jobs->is_second_tried = true;
    jobs->was_cold = false;
    jobs->trial = bit(jobs->first) | bit(jobs->second);
    jobs->is_without = true;
    jobs->second_ns = 0;
    jobs->times_known[WHOLE_JOBS_WITHOUT] = jobs->times_known[WHOLE_JOBS_WITH] = 0;
    jobs->faults = 0;
    count_time(jobs, WHOLE_JOBS_WITH, alone_ns);
    return true;
}

static void begin_trial(struct whole_jobs *jobs, const struct whole_job *job)
{
    double cost = 0;
    uint64_t set = jobs->has_begun ? find_lane(jobs, job, &cost) : 0;
    if (set == 0)
        set = all_but_the_best(jobs, job, &cost);
    if (set == 0)
        set = find_lane(jobs, job, &cost);
    if (set == 0 || (jobs->has_begun && cost * job->job_ns > jobs->saved_ns))
        return;
    jobs->saved_ns -= jobs->has_begun ? cost * job->job_ns : 0;
    jobs->has_begun = true;
    jobs->trial = set;
    jobs->was_cold = false;
    jobs->is_without = true;
    jobs->times_known[WHOLE_JOBS_WITHOUT] = jobs->times_known[WHOLE_JOBS_WITH] = 0;
    jobs->faults = job->faults / job->items;
    count_time(jobs, WHOLE_JOBS_WITH, job->job_ns / job->items);
    find_second(jobs, job);
}

static bool is_foreign(const struct whole_jobs *jobs, uint32_t side, double ns)
{
    double known_ns = time_of(jobs, side);
    return known_ns > 0 && (ns > FOREIGN * known_ns || ns * FOREIGN < known_ns);
}

/* Whether a job of whose items each has cost this many pages was the first to touch its memory, and another was not. */
static bool is_colder(double faults, double other, double item_ns)
{
    return faults > FAULTS_MORE * other && faults * FAULT_NS > FAULTS_PART * item_ns;
}

uint64_t whole_jobs_ended(struct whole_jobs *jobs, const struct whole_job *job, double *gain)
{
    double item_ns = job->job_ns / job->items;
    jobs->saved_ns += WHOLE_JOBS_COST * job->job_ns;
    if (jobs->trial == 0) {
        begin_trial(jobs, job);
        return 0;
    }
    uint64_t set = jobs->trial, decided = 0;
    bool is_one = (set & (set - 1)) == 0;
    uint32_t side = jobs->is_without ? WHOLE_JOBS_WITHOUT : WHOLE_JOBS_WITH;
    if (is_foreign(jobs, side, item_ns)) {
        *jobs = (struct whole_jobs){ .saved_ns = jobs->saved_ns };
        return 0;
    }
    double faults = job->faults / job->items;
    if (side == WHOLE_JOBS_WITHOUT && !jobs->was_cold && is_colder(faults, jobs->faults, item_ns)) {
        /* Once: where each of them has new memory, that is its price. */
        jobs->was_cold = true;
        return 0;
    }
    count_time(jobs, side, item_ns);
    if (side == WHOLE_JOBS_WITH) {
        jobs->faults = faults;
    } else if (is_colder(jobs->faults, faults, time_of(jobs, WHOLE_JOBS_WITH))) {
        jobs->times_known[WHOLE_JOBS_WITH] = 0;
        jobs->is_without = false;
    }
    if (jobs->times_known[WHOLE_JOBS_WITH] == 0)
        return 0;
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
    jobs->tried |= is_one ? set : 0;
    jobs->is_best_tried = jobs->is_best_tried || !is_one;
    if (is_better) {
        /* The others may have been held up by them, or may not be. */
        jobs->tried = set;
        jobs->is_best_tried = !is_one;
        decided = set & ~jobs->left_out;
        jobs->left_out ^= set;
        *gain = gained;
        if (begin_second(jobs, time_of(jobs, WHOLE_JOBS_WITHOUT)))
            return decided;
    }
    jobs->trial = 0;
    jobs->is_without = false;
    return decided;
}
