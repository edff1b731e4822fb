/*
 * Who takes part in the job: tells the controller (take_part.h) what lanes do, and lanes what it decides.
 */
#include "core/job_state.h"

bool job_may_leave_out(const struct job_options *options)
{
    return options->leaves_out && !options->place && options->lane_count >= 2 &&
           options->lane_count <= TAKE_PART_LANES_MAX;
}

size_t job_part_bytes(const struct job_options *options)
{
    return job_may_leave_out(options) ? options->lane_count * sizeof(struct take_part_lane) : 0;
}

/* Carries out what the controller has decided. */
static void follow(struct job *job)
{
    if (job->part_version == job->part.version)
        return;
    job->part_version = job->part.version;
    for (uint32_t i = 0; i < job->options.lane_count; i++) {
        struct lane *lane = &job->lanes[i];
        bool is_left_out = !take_part_is_in(&job->part, i);
        if (lane->is_left_out == is_left_out)
            continue;
        lane->is_left_out = is_left_out;
        job_lane_set_idle(job, lane, false);
        job_lane_count_rate(job, lane);
        job->changes++;
    }
}

void job_part_init(struct job *job, void *memory, uint64_t now_ns)
{
    if (!job_may_leave_out(&job->options))
        return;
    job->has_part = true;
    take_part_init(&job->part, memory, job->options.lane_count, job->options.depth,
                   job->options.lesson, now_ns);
    job->part_version = job->part.version - 1;
    job->options.lesson = NULL;
    follow(job);
}

void job_part_finished(struct job *job, uint32_t lane, uint64_t items, uint64_t now_ns)
{
    if (!job->has_part)
        return;
    uint64_t left = job->options.items - job->next_claim + job->unfinished;
    take_part_finished(&job->part, lane, items, left, now_ns);
    follow(job);
}

void job_part_late(struct job *job, uint32_t lane, uint64_t now_ns)
{
    if (!job->has_part)
        return;
    take_part_late(&job->part, lane, now_ns);
    follow(job);
}

void job_part_check_lane(struct job *job, uint32_t index)
{
    const struct lane *lane = &job->lanes[index];
    if (!job->has_part)
        return;
    take_part_gone(&job->part, index, !may_take(lane) || is_quarantined(lane),
                   lane->is_lost || lane->is_hung);
    follow(job);
}

void job_part_given_up(struct job *job, uint32_t lane)
{
    if (!job->has_part)
        return;
    take_part_gone(&job->part, lane, true, true);
    follow(job);
}

void job_part_look(struct job *job, uint64_t now_ns)
{
    bool is_any_out = false, is_stuck = false;
    for (uint32_t i = 0; i < job->options.lane_count && job->has_part; i++) {
        const struct attempt *slots = job_lane_slots(job, i);
        is_any_out = is_any_out || job->lanes[i].is_left_out;
        for (uint32_t k = 0; k < job->options.depth; k++)
            is_stuck =
                is_stuck || (slots[k].is_out && slots[k].is_kicked && is_usable(&job->lanes[i]) &&
                             job_attempt_elapsed_ns(job, &slots[k], now_ns) >= job_rerun_ns(job));
    }
    if (!is_any_out || !is_stuck)
        return;
    take_part_stuck(&job->part, now_ns);
    follow(job);
}

struct take_part_size job_part_size(const struct job *job)
{
    /* A lane that is alone is compared with nobody, as long as nobody is about to come. */
    bool is_alone = job->opens_later && job->usable <= 1;
    return job->has_part && !is_alone ? take_part_size(&job->part)
                                      : (struct take_part_size){ 0, 0 };
}

void job_learn(const struct job *job, struct take_part_lesson *out, uint64_t faults,
               uint64_t now_ns)
{
    *out = (struct take_part_lesson){ .jobs = 0 };
    if (job->has_part)
        take_part_learn(&job->part, out, job->state == JOB_DONE, faults, now_ns);
}
