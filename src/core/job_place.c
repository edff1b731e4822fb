/*
 * In place mode: which lane is given the next new unit.
 */
#include "core/job_state.h"

static uint32_t next_of_policy(const struct job *job, uint64_t now_ns)
{
    const struct job_options *options = &job->options;
    double best_rate = 0, best_score = 0;
    uint32_t best = JOB_NONE;
    for (uint32_t i = 0; i < options->lane_count; i++)
        if (is_usable(&job->lanes[i]) && job->lanes[i].counted > best_rate)
            best_rate = job->lanes[i].counted;
    for (uint32_t step = 0; step < options->lane_count; step++) {
        uint32_t i =
            options->policy == JOB_ROUND_ROBIN ? (job->turn + step) % options->lane_count : step;
        const struct lane *lane = &job->lanes[i];
        if (!is_usable(lane))
            continue;
        /* A lane that nobody has measured yet counts as the best, so that it is tried. */
        double rate = lane->counted > 0 ? lane->counted : best_rate > 0 ? best_rate : 1;
        double score = 0;
        switch (options->policy) {
        case JOB_ROUND_ROBIN:
            return i;
        case JOB_LEAST_LOADED:
            score = -(double)lane->held;
            break;
        case JOB_WEIGHTED:
            score = (lane->weight < 0.01 ? 0.01 : lane->weight) / (lane->held + 1);
            break;
        case JOB_ADAPTIVE:
            score = rate / (lane->held + 1);
            break;
        case JOB_EARLIEST_FINISH: {
            double next = (double)job_size_next(job, lane, now_ns);
            score = -((double)lane->held_items + next) / rate;
            break;
        }
        }
        if (best == JOB_NONE || score > best_score) {
            best = i;
            best_score = score;
        }
    }
    return best;
}

uint32_t job_place(struct job *job, uint64_t now_ns)
{
    if (!job->options.place || job->state != JOB_RUNNING || job->next_claim == job->options.items)
        return JOB_NONE;
    uint32_t index = next_of_policy(job, now_ns);
    if (index == JOB_NONE)
        return JOB_NONE;
    /* A policy's choice is kept to: a full lane is waited for, not passed over. */
    const struct lane *lane = &job->lanes[index];
    bool must_wait = lane->held == job->options.depth || job->domains[lane->domain].is_alone ||
                     job_lane_must_drain(job, lane) || job_size_next(job, lane, now_ns) == 0;
    return must_wait ? JOB_NONE : index;
}
