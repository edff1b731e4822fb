/*
 * How many items the next unit of a lane has.
 */
#include "core/job_state.h"

/* An adaptive unit is this part of what its lane should still do, so that a mistake stays small. */
#define SHARE_PARTS 8.0
/* A unit is never so small that its fixed cost exceeds this part of it. */
#define OVERHEAD_MAX 0.02
/* A unit that should take no longer than this part of `unit_ns` may be larger: each costs a round. */
#define TRIAL_PARTS 32.0
/* The window is meant to hold units of all lanes several times over. */
#define WINDOW_PARTS 3.0

double job_end_after_ns(const struct job *job, const struct lane *lane)
{
    double rate = rate_per_ns(&lane->rate), sum = job->rate_sum > rate ? job->rate_sum : rate;
    return ((double)items_ahead(job) + (double)job->unfinished) / sum;
}

/* The least that is worth a measured lane's fixed cost, at most what there is. */
static double least_size(const struct lane *lane, uint64_t left, double overhead_max)
{
    double least = lane->rate.overhead_ns / overhead_max * rate_per_ns(&lane->rate);
    if (least < 1)
        least = 1;
    return least < (double)left ? least : (double)left;
}

/* A lane that is alone has nobody to finish with, where the time that a unit takes keeps it small enough. */
static bool has_many_parts(const struct job *job)
{
    bool is_alone = job->options.lane_count == 1 || (job->opens_later && job->usable <= 1);
    return !is_alone || job->options.unit_ns == 0;
}

/* Of a lane that nobody has measured in this job. */
static uint64_t first_size(const struct job *job)
{
    const struct job_options *options = &job->options;
    uint64_t first = options->first_items > 0 ? options->first_items : 1;
    double known = options->known_per_ns * (double)options->unit_ns / TRIAL_PARTS;
    if (known <= (double)first)
        return first;
    return known < (double)options->items ? (uint64_t)known : options->items;
}

uint64_t job_size_adaptive(const struct job *job, const struct lane *lane, uint64_t left)
{
    if (lane->rate.samples == 0)
        return first_size(job);
    double rate = rate_per_ns(&lane->rate);
    double sum = job->rate_sum > rate ? job->rate_sum : rate;
    double own_ns = job_end_after_ns(job, lane) - job_lane_backlog_ns(lane);
    double size = has_many_parts(job) ? own_ns * rate / SHARE_PARTS : (double)left;
    double most = (double)(lane->largest > 0 ? lane->largest : 1) * JOB_SIZE_GROWTH_MAX;
    /* Where units may be of any size: how many items the lane does in the time that one may take. */
    double in_time = lane->sure_per_ns * (double)job->options.unit_ns;
    if (most < in_time / TRIAL_PARTS)
        most = in_time / TRIAL_PARTS;
    double least = least_size(lane, left, OVERHEAD_MAX);
    if (size < least)
        size = least;
    if (size > most)
        size = most;
    if (job->options.unit_ns > 0 && size > in_time)
        size = in_time;
    double window_part = rate * (double)job->options.window / (WINDOW_PARTS * sum);
    if (job->options.window > 0 && size > window_part)
        size = window_part;
    double head_part = rate * (job_head_ns(job) - lane->rate.overhead_ns);
    if (lane->held == 0 && size > head_part)
        size = head_part;
    if (size < 1)
        return 1;
    return size < (double)left ? (uint64_t)size : left;
}

double job_size_left_to_fastest_ns(const struct job *job, const struct lane *lane, uint64_t left,
                                   uint64_t now_ns)
{
    if (lane->rate.samples == 0 || job->out == 0)
        return 0;
    double least = least_size(lane, left, OVERHEAD_MAX), end_ns = job_end_after_ns(job, lane);
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

/* No larger than a slot, and than the window. */
static uint64_t size_within(const struct job *job, uint64_t size)
{
    if (job->options.unit_max > 0 && size > job->options.unit_max)
        size = job->options.unit_max;
    return job->options.window > 0 && size > job->options.window ? job->options.window : size;
}

uint64_t job_size_claimable(const struct job *job)
{
    uint64_t left = job->supply - job->next_claim;
    if (job->options.stored)
        return job->stored_next - job->next_claim;
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

/* While it is found out who should take part, new units are short. */
static uint64_t size_while_measuring(const struct job *job, const struct lane *lane, uint64_t left)
{
    uint64_t size = job_size_adaptive(job, lane, left);
    struct take_part_size part = job_part_size(job);
    double most = rate_per_ns(&lane->rate) * part.most_ns;
    if (part.most_ns <= 0 || lane->rate.samples == 0)
        return size;
    double least = least_size(lane, size, part.overhead_max > 0 ? part.overhead_max : OVERHEAD_MAX);
    most = most > least ? most : least;
    return (double)size > most ? (uint64_t)most : size;
}

/* The size of a unit that was asked for, as far as the window holds it; 0: there is none. */
static uint64_t size_given(const struct job *job)
{
    const struct job_options *options = &job->options;
    uint64_t size = options->unit == JOB_UNIT_FIXED ? options->unit_items
                    : options->unit == JOB_UNIT_QUARTER
                        ? muster_partition_unit(options->items, options->lane_count)
                        : 0;
    return size_within(job, job_size_up_to_grains(job, size));
}

/* What the window has room for. */
static uint64_t window_left(const struct job *job)
{
    return job->options.window > 0 ? job->options.window - job->undelivered : UINT64_MAX;
}

bool job_size_has_none(const struct job *job, const struct lane *lane)
{
    uint64_t left = job_size_claimable(job), size = size_given(job), least = size > 0 ? size : 1;
    /* The last unit may be smaller; before, one of a size that was asked for waits until it is there. */
    if (left < least && job->supply == job->options.items)
        least = left;
    /* A unit that does not fit into the window now waits; cut, it would be too small for ever. */
    return left == 0 || left < least || window_left(job) < least || !has_units(job, lane, 1, false);
}

uint64_t job_size_next(const struct job *job, const struct lane *lane, uint64_t now_ns)
{
    const struct job_options *options = &job->options;
    uint64_t left = job_size_claimable(job), size = size_given(job), ahead;
    if (job_size_has_none(job, lane))
        return 0;
    if (options->unit == JOB_UNIT_ADAPTIVE) {
        if (options->first_alone && options->known_per_ns <= 0 && lane->rate.samples == 0 &&
            lane->held > 0)
            return 0;
        ahead = items_ahead(job);
        if (job_size_left_to_fastest_ns(job, lane, ahead, now_ns) > 0)
            return 0;
        size = size_within(job, job_size_up_to_grains(job, size_while_measuring(job, lane, ahead)));
        if (size > window_left(job))
            size = window_left(job);
    }
    return size < left ? size : left;
}
