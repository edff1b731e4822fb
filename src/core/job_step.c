/*
 * The one call of lanes, and who has something to do after it. Lanes that asked and got nothing are in a list;
 * of these, those are woken who would be given something now, and no more than there is for them.
 */
#include "core/job_state.h"

/* Asking. */

static void unwake(struct job *job, struct lane *lane)
{
    if (!is_chosen(lane->woken_for))
        return;
    job->woken[lane->woken_for]--;
    lane->woken_for = JOB_CHOICE_REFUSED;
}

void job_lane_asks_no_more(struct job *job, uint32_t index)
{
    struct lane *lane = &job->lanes[index];
    unwake(job, lane);
    if (!lane->is_asking)
        return;
    lane->is_asking = false;
    uint32_t *before =
        lane->ask_previous != JOB_NONE ? &job->lanes[lane->ask_previous].ask_next : &job->ask_first;
    uint32_t *after =
        lane->ask_next != JOB_NONE ? &job->lanes[lane->ask_next].ask_previous : &job->ask_last;
    *before = lane->ask_next;
    *after = lane->ask_previous;
}

void job_stop_for(struct job *job, const struct job_choice *choice)
{
    if (choice->kind != JOB_CHOICE_STOP)
        return;
    struct attempt *attempt = &job->attempts[job->units[choice->unit].newest_run];
    attempt->is_unloved = true;
    job_lane_wake(job, attempt->lane);
}

void job_lane_asks(struct job *job, uint32_t index, const struct job_choice *choice,
                   uint64_t now_ns)
{
    struct lane *lane = &job->lanes[index];
    job_stop_for(job, choice);
    if (choice->kind != JOB_CHOICE_REFUSED && lane->held == 0) {
        /* A first unit of another lane may be overdue earlier now. */
        if (!lane->is_idle)
            job_look_soon(job, now_ns);
        job_lane_set_idle(job, lane, true);
    }
    job_lane_asks_no_more(job, index);
    if (job->state != JOB_RUNNING || !is_usable(lane) || lane->held == job->options.depth)
        return;
    lane->is_asking = true;
    lane->ask_previous = job->ask_last;
    lane->ask_next = JOB_NONE;
    if (job->ask_last != JOB_NONE)
        job->lanes[job->ask_last].ask_next = index;
    else
        job->ask_first = index;
    job->ask_last = index;
}

/* Waking. */

void job_lane_wake(struct job *job, uint32_t index)
{
    struct lane *lane = &job->lanes[index];
    if (lane->is_called)
        return;
    lane->is_called = true;
    lane->call_next = JOB_NONE;
    if (job->call_last != JOB_NONE)
        job->lanes[job->call_last].call_next = index;
    else
        job->call_first = index;
    job->call_last = index;
}

void job_wake_again(struct job *job)
{
    for (uint32_t i = job->ask_first; i != JOB_NONE; i = job->lanes[i].ask_next)
        unwake(job, &job->lanes[i]);
}

/* For how many lanes there is something of this kind. */
static uint64_t room_for(const struct job *job, enum job_choice_kind kind)
{
    /* The first of those who would help another lane may change what is left for the second. */
    if (kind != JOB_CHOICE_NEW)
        return kind == JOB_CHOICE_RETRY ? job->waiting : 1;
    return job->options.place ? 1 : job_size_ready(job);
}

/* Wakes those who would be given something, the idle before those who have other work. */
static void wake_those_who_would_get(struct job *job, bool are_idle, uint64_t now_ns)
{
    for (uint32_t i = job->ask_first; i != JOB_NONE; i = job->lanes[i].ask_next) {
        struct lane *lane = &job->lanes[i];
        if (is_chosen(lane->woken_for) || (lane->held == 0) != are_idle)
            continue;
        struct job_choice choice = job_choose(job, i, now_ns);
        enum job_choice_kind kind = choice.kind;
        job_stop_for(job, &choice);
        if (!is_chosen(kind) || job->woken[kind] >= room_for(job, kind))
            continue;
        lane->woken_for = kind;
        job->woken[kind]++;
        job_lane_wake(job, i);
    }
}

uint32_t job_news(struct job *job, uint64_t now_ns)
{
    uint32_t news = 0;
    wake_those_who_would_get(job, true, now_ns);
    wake_those_who_would_get(job, false, now_ns);
    if (job->call_first != JOB_NONE)
        news |= JOB_NEWS_LANES;
    if (!job->result_told && job_result(job) != JOB_NONE) {
        news |= JOB_NEWS_RESULT;
        job->result_told = true;
    }
    if (job->look_ns < job->look_told_ns) {
        news |= JOB_NEWS_LOOK;
        job->look_told_ns = job->look_ns;
    }
    if (job_can_be_placed(job, now_ns))
        news |= JOB_NEWS_PLACE;
    if (!job->over_told && job->state != JOB_RUNNING) {
        news |= JOB_NEWS_OVER;
        job->over_told = true;
    }
    if (!job->quiet_told && job->over_told && job_is_quiet(job)) {
        news |= JOB_NEWS_QUIET;
        job->quiet_told = true;
    }
    return news;
}

uint32_t job_wake_lane(struct job *job)
{
    uint32_t index = job->call_first;
    if (index == JOB_NONE)
        return JOB_NONE;
    struct lane *lane = &job->lanes[index];
    job->call_first = lane->call_next;
    if (job->call_first == JOB_NONE)
        job->call_last = JOB_NONE;
    lane->is_called = false;
    return index;
}

/* The call for lanes. */

/* How many units a lane may claim at once, so that others find some too. */
static uint64_t part_of_ready(const struct job *job)
{
    uint64_t part = job_size_ready(job) / (job->usable > 0 ? job->usable : 1);
    return job->options.unit == JOB_UNIT_ADAPTIVE || part > JOB_STEP_MAX ? JOB_STEP_MAX
           : part > 0                                                    ? part
                                                                         : 1;
}

void job_step(struct job *job, uint32_t lane, struct job_round *round, uint64_t now_ns)
{
    for (uint32_t i = 0; i < round->end_count; i++) {
        struct job_ended *ended = &round->ends[i];
        ended->verdict = job_finish_at(job, ended->ticket, ended->end, ended->done, now_ns);
    }
    for (uint32_t i = 0; i < round->start_count; i++)
        round->starts[i].is_started = job_kick(job, round->starts[i].ticket, now_ns);
    uint64_t most = part_of_ready(job);
    if (most > round->claim_max)
        most = round->claim_max;
    round->claim_count = 0;
    while (round->claim_count < most) {
        struct job_claim *claim = &round->claims[round->claim_count];
        if (!job_claim(job, lane, now_ns, claim))
            break;
        claim->is_started =
            round->claim_count < round->start_max && job_kick(job, claim->ticket, now_ns);
        round->claim_count++;
    }
}
