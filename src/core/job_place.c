/*
 * In place mode: which lane is given the next new unit.
 */
#include "base/invariant.h"
#include "core/job_state.h"
#include "core/placement.h"

/* A user's policy that has chosen nothing is asked again after this, if nothing changes before. */
#define POLICY_AGAIN_NS 100e6

/* Its home, unless that is gone, or is full or ahead of the least loaded by too much. */
static uint32_t next_of_sticky(const struct job *job, uint32_t least_loaded)
{
    uint32_t home = job->options.home, depth = job->options.depth;
    uint32_t most = depth <= PLACEMENT_STICKY_AHEAD ? depth - 1 : PLACEMENT_STICKY_AHEAD;
    if (least_loaded == JOB_NONE || home >= job->options.lane_count ||
        !may_take(&job->lanes[home]) || is_quarantined(&job->lanes[home]) ||
        job->lanes[home].held > job->lanes[least_loaded].held + most)
        return least_loaded;
    return home;
}

/*
 * Whether a lane that is full is passed over, not waited for. What was measured says which of those with
 * room is best. To wait for a fast one would leave all slow ones idle: it comes out best again and again.
 */
static bool passes_full_lanes(enum job_policy policy)
{
    return policy == JOB_ADAPTIVE || policy == JOB_EARLIEST_FINISH;
}

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
        bool is_in_turn = !is_quarantined(lane) || now_ns >= lane->rests_until_ns;
        bool is_full = lane->held == options->depth && passes_full_lanes(options->policy);
        if (!may_take(lane) || !is_in_turn || is_full)
            continue;
        /* A lane that nobody has measured yet counts as the best, so that it is tried. */
        double rate = lane->counted > 0 ? lane->counted : best_rate > 0 ? best_rate : 1;
        double score = 0;
        switch (options->policy) {
        case JOB_ROUND_ROBIN:
            return i;
        case JOB_LEAST_LOADED:
        case JOB_STICKY:
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
            /* The end is left to faster lanes. */
            if (next <= 0)
                continue;
            score = -((double)lane->held_items + next) / rate;
            break;
        }
        case JOB_USER:
            return JOB_NONE;
        }
        if (best == JOB_NONE || score > best_score) {
            best = i;
            best_score = score;
        }
    }
    return options->policy == JOB_STICKY ? next_of_sticky(job, best) : best;
}

static bool can_be_given(struct job *job, const struct lane *lane, uint64_t now_ns)
{
    return may_take(lane) && !job_lane_rests(job, lane, now_ns) &&
           lane->held < job->options.depth && !job->domains[lane->domain].is_alone &&
           !job_lane_must_drain(job, lane) && job_size_next(job, lane, now_ns) > 0;
}

uint32_t job_place(struct job *job, uint64_t now_ns)
{
    if (!job->options.place || job->state != JOB_RUNNING || job->next_claim == job->options.items)
        return JOB_NONE;
    uint32_t index = next_of_policy(job, now_ns);
    if (index == JOB_NONE)
        return JOB_NONE;
    /* A policy's choice is kept to. */
    return can_be_given(job, &job->lanes[index], now_ns) ? index : JOB_NONE;
}

/* The user's policy. */

bool job_can_be_placed(struct job *job, uint64_t now_ns)
{
    if (!job->options.place || job->options.policy != JOB_USER || job->state != JOB_RUNNING ||
        job->is_policy_asked || job->policy_saw == job->changes)
        return false;
    for (uint32_t i = 0; i < job->options.lane_count; i++)
        if (can_be_given(job, &job->lanes[i], now_ns))
            return true;
    return false;
}

uint32_t job_snapshot(struct job *job, struct job_lane_view *lanes, uint64_t now_ns)
{
    uint32_t count = 0;
    if (!job_can_be_placed(job, now_ns))
        return 0;
    for (uint32_t i = 0; i < job->options.lane_count; i++) {
        const struct lane *lane = &job->lanes[i];
        if (can_be_given(job, lane, now_ns))
            lanes[count++] = (struct job_lane_view){ .lane = i,
                                                     .held = lane->held,
                                                     .held_items = lane->held_items,
                                                     .items_per_ns = lane->counted,
                                                     .weight = lane->weight };
    }
    job->is_policy_asked = true;
    return count;
}

bool job_commit(struct job *job, uint32_t index, uint64_t now_ns)
{
    INVARIANT(job->is_policy_asked);
    job->is_policy_asked = false;
    if (job->state != JOB_RUNNING)
        return true;
    bool is_given =
        index < job->options.lane_count && can_be_given(job, &job->lanes[index], now_ns);
    if (is_given) {
        struct lane *lane = &job->lanes[index];
        uint32_t unit = job_unit_make(job, job_size_next(job, lane, now_ns));
        struct job_ticket ticket = job_attempt_begin(job, index, unit, false);
        job->attempts[ticket.attempt].is_given = true;
        lane->given++;
        job_lane_wake(job, index);
    }
    /* The chosen lane was full too often, or none was chosen: asked again when something has changed, or later. */
    bool is_stale = !is_given && index != JOB_NONE;
    if (is_stale && ++job->policy_asks < JOB_ASKS_MAX)
        return false;
    job->policy_asks = 0;
    if (!is_given) {
        job->policy_saw = job->changes;
        look_by(job, after_ns(now_ns, POLICY_AGAIN_NS));
    }
    return !is_stale;
}
