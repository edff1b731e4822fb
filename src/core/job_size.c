/*
 * How many items the next unit of a lane has.
 */
#include "core/job_state.h"

/* An adaptive unit is this part of what its lane should still do, so that a mistake stays small. */
#define SHARE_PARTS 8.0
/* A unit is never so small that its fixed cost exceeds this part of it. */
#define OVERHEAD_MAX 0.02
/* A lane's next unit is at most this much larger than the largest it has finished. */
#define GROWTH_MAX 4
/* A unit that should take no longer than this part of `unit_ns` may be larger: each costs a round. */
#define TRIAL_PARTS 32.0
/* The window is meant to hold units of all lanes several times over. */
#define WINDOW_PARTS 3.0

double job_end_after_ns(const struct job *job, const struct lane *lane)
{
    double rate = rate_per_ns(&lane->rate), sum = job->rate_sum > rate ? job->rate_sum : rate;
    return ((double)(job->options.items - job->next_claim) + (double)job->unfinished) / sum;
}

/* The least that is worth a measured lane's fixed cost, at most what there is. */
static double least_size(const struct lane *lane, uint64_t left)
{
    double least = lane->rate.overhead_ns / OVERHEAD_MAX * rate_per_ns(&lane->rate);
    if (least < 1)
        least = 1;
    return least < (double)left ? least : (double)left;
}

/* A lane that is alone has nobody to finish with, where the time that a unit takes keeps it small enough. */
static bool has_many_parts(const struct job *job)
{
    return job->options.lane_count > 1 || job->options.unit_ns == 0;
}

uint64_t job_size_adaptive(const struct job *job, const struct lane *lane, uint64_t left)
{
    if (lane->rate.samples == 0)
        return job->options.first_items > 0 ? job->options.first_items : 1;
    double rate = rate_per_ns(&lane->rate);
    double sum = job->rate_sum > rate ? job->rate_sum : rate;
    double own_ns = job_end_after_ns(job, lane) - job_lane_backlog_ns(lane);
    double size = has_many_parts(job) ? own_ns * rate / SHARE_PARTS : (double)left;
    double most = (double)(lane->largest > 0 ? lane->largest : 1) * GROWTH_MAX;
    /* Where units may be of any size: how many items the lane does in the time that one may take. */
    double in_time = lane->sure_per_ns * (double)job->options.unit_ns;
    if (most < in_time / TRIAL_PARTS)
        most = in_time / TRIAL_PARTS;
    double least = least_size(lane, left);
    if (size < least)
        size = least;
    if (size > most)
        size = most;
    if (job->options.unit_ns > 0 && size > in_time)
        size = in_time;
    double window_part = rate * (double)job->options.window / (WINDOW_PARTS * sum);
    if (job->options.window > 0 && size > window_part)
        size = window_part;
    if (size < 1)
        return 1;
    return size < (double)left ? (uint64_t)size : left;
}

double job_size_left_to_fastest_ns(const struct job *job, const struct lane *lane, uint64_t left,
                                   uint64_t now_ns)
{
    if (lane->rate.samples == 0 || job->out == 0)
        return 0;
    double least = least_size(lane, left), end_ns = job_end_after_ns(job, lane);
    double backlog = job_lane_backlog_ns(lane);
    double here_ns = backlog + rate_predict_ns(&lane->rate, least);
    if (here_ns <= end_ns || (end_ns - backlog) * rate_per_ns(&lane->rate) >= SHARE_PARTS * least)
        return 0;
    double rest = job_lane_rest_ns(job, job->fastest, now_ns);
    double there_ns =
        (rest > end_ns ? rest : end_ns) + rate_predict_ns(&job->lanes[job->fastest].rate, least);
    return here_ns > there_ns ? here_ns : 0;
}

uint64_t job_size_up_to_grains(const struct job *job, uint64_t items)
{
    uint64_t down = whole_grains(job, items);
    return down == items                                              ? items
           : __builtin_add_overflow(down, job->options.grain, &items) ? UINT64_MAX
                                                                      : items;
}

uint64_t job_size_claimable(const struct job *job)
{
    uint64_t left = job->supply - job->next_claim;
    return job->supply == job->options.items ? left : whole_grains(job, left);
}

uint64_t job_size_ready(const struct job *job)
{
    const struct job_options *options = &job->options;
    uint64_t left = job_size_claimable(job), size = job->newest_items;
    if (job->free_count == 0)
        return 0;
    if (options->window > 0 && left > options->window - job->undelivered)
        left = options->window - job->undelivered;
    if (options->unit == JOB_UNIT_FIXED)
        size = options->unit_items;
    else if (options->unit == JOB_UNIT_QUARTER)
        size = muster_partition_unit(options->items, options->lane_count);
    return size > 0 ? left / size + (left % size > 0) : left;
}

uint64_t job_size_next(const struct job *job, const struct lane *lane, uint64_t now_ns)
{
    const struct job_options *options = &job->options;
    uint64_t left = job_size_claimable(job), size = 0;
    if (left == 0 || !has_units(job, lane, 1, false))
        return 0;
    switch (options->unit) {
    case JOB_UNIT_ADAPTIVE:
        if (job_size_left_to_fastest_ns(job, lane, options->items - job->next_claim, now_ns) > 0)
            return 0;
        size = job_size_adaptive(job, lane, options->items - job->next_claim);
        break;
    case JOB_UNIT_QUARTER:
        size = muster_partition_unit(options->items, options->lane_count);
        break;
    case JOB_UNIT_FIXED:
        size = options->unit_items;
        break;
    }
    size = job_size_up_to_grains(job, size);
    if (options->unit_max > 0 && size > options->unit_max)
        size = options->unit_max;
    if (options->window > 0) {
        if (size > options->window)
            size = options->window;
        /* A unit that does not fit into the window now waits; cut, it would be too small for ever. */
        if (size > options->window - job->undelivered)
            size = options->unit == JOB_UNIT_ADAPTIVE ? options->window - job->undelivered : 0;
    }
    /* A unit of a size that was asked for waits until that much has arrived. */
    if (size > left && options->unit != JOB_UNIT_ADAPTIVE && job->supply < options->items)
        return 0;
    return size < left ? size : left;
}
