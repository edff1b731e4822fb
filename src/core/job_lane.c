/*
 * Lanes and the attempts on them: which slots are occupied, how fast each lane is, and when an
 * attempt begins, is started and is over.
 */
#include "base/invariant.h"
#include "core/job_state.h"

void job_lane_set_idle(struct job *job, struct lane *lane, bool is_idle)
{
    job->idle += (uint32_t)is_idle - (uint32_t)lane->is_idle;
    lane->is_idle = is_idle;
}

static void find_fastest(struct job *job)
{
    double best = 0;
    job->fastest = JOB_NONE;
    job->runner_up = 0;
    for (uint32_t i = 0; i < job->options.lane_count; i++) {
        double rate = job->lanes[i].counted;
        if (rate > best) {
            job->runner_up = best;
            job->fastest = i;
            best = rate;
        } else if (rate > job->runner_up) {
            job->runner_up = rate;
        }
    }
}

void job_lane_count_rate(struct job *job, struct lane *lane)
{
    double rate = lane_rate(lane);
    uint32_t index = (uint32_t)(lane - job->lanes);
    job_part_check_lane(job, index);
    job->rate_sum += rate - lane->counted;
    lane->counted = rate;
    if (job->fastest == index) {
        if (rate < job->runner_up || rate <= 0)
            find_fastest(job);
    } else if (job->fastest == JOB_NONE || rate > job->lanes[job->fastest].counted) {
        find_fastest(job);
    } else if (rate > job->runner_up) {
        job->runner_up = rate;
    }
}

void job_lane_short(struct job *job, uint32_t lane_index, bool is_short, uint64_t now_ns)
{
    struct lane *lane = &job->lanes[lane_index];
    lane->is_short = is_short;
    job_lane_set_idle(job, lane, false);
    job_lane_asks_no_more(job, lane_index);
    job_lane_count_rate(job, lane);
    job->changes++;
    if (job->draining == lane_index)
        job->draining = JOB_NONE;
    job_look_soon(job, now_ns);
}

void job_lane_expect(struct job *job, uint32_t lane)
{
    INVARIANT(is_usable(&job->lanes[lane]) && job->units_made == 0);
    job->lanes[lane].is_absent = true;
    job->usable--;
    job->expected++;
    job_part_check_lane(job, lane);
}

void job_opens_later(struct job *job)
{
    job->opens_later = true;
}

bool job_should_open(struct job *job, bool has_devices, uint64_t before_ns, uint64_t now_ns,
                     uint64_t *look_ns)
{
    const struct opening opening = { .start_ns = job->start_ns,
                                     .begun_ns = job->begun_ns,
                                     .items = job->options.items,
                                     .claimed = job->next_claim,
                                     .before_ns = before_ns,
                                     .is_alone = has_devices && job->usable == 0,
                                     .has_devices = has_devices };
    *look_ns = opening_look_ns(&opening, now_ns);
    bool is_worth = opening_is_worth(&opening, now_ns);
    job->opens_later = job->opens_later && !is_worth;
    return is_worth;
}

void job_lane_join(struct job *job, uint32_t lane_index, uint64_t now_ns)
{
    struct lane *lane = &job->lanes[lane_index];
    INVARIANT(lane->is_absent && job->expected > 0);
    lane->is_absent = false;
    job->opens_later = false;
    lane->last_finish_ns = now_ns;
    job->expected--;
    job->usable++;
    job->changes++;
    job_part_check_lane(job, lane_index);
}

void job_lane_give_up(struct job *job, uint32_t lane)
{
    INVARIANT(job->lanes[lane].is_absent && job->expected > 0);
    job->expected--;
    job_part_given_up(job, lane);
    job_fail_without_lanes(job);
}

/* Attempts. */

struct job_ticket job_attempt_begin(struct job *job, uint32_t lane_index, uint32_t unit_index,
                                    bool is_copy)
{
    struct lane *lane = &job->lanes[lane_index];
    struct unit *unit = &job->units[unit_index];
    uint32_t number = lane->free_slot;
    INVARIANT(number != JOB_NONE);
    struct attempt *attempt = &job->attempts[number];
    lane->free_slot = attempt->next_free;
    *attempt = (struct attempt){ .unit = unit_index,
                                 .lane = lane_index,
                                 .generation = attempt->generation + 1,
                                 .older_run = unit->newest_run,
                                 .items = items_of(unit),
                                 .is_out = true,
                                 .is_active = true,
                                 .is_copy = is_copy,
                                 .is_alone = unit->is_suspect,
                                 .is_direct = lane->is_direct && unit->direct == JOB_NONE };
    unit->state = UNIT_RUNNING;
    unit->newest_run = number;
    if (attempt->is_direct)
        unit->direct = number;
    job->direct_out += attempt->is_direct;
    job_lane_set_idle(job, lane, false);
    job_lane_asks_no_more(job, lane_index);
    lane->held++;
    lane->held_items += attempt->items;
    if (job->has_part)
        take_part_begun(&job->part, lane_index, attempt->items);
    job->domains[lane->domain].held++;
    job->domains[lane->domain].is_alone = unit->is_suspect;
    job->suspects += unit->is_suspect;
    job->out++;
    return (struct job_ticket){ number, attempt->generation };
}

void job_attempt_deactivate(struct job *job, struct attempt *attempt)
{
    if (!attempt->is_active)
        return;
    uint32_t *at = &job->units[attempt->unit].newest_run;
    while (&job->attempts[*at] != attempt)
        at = &job->attempts[*at].older_run;
    *at = attempt->older_run;
    attempt->is_active = false;
    job->lanes[attempt->lane].held_items -= attempt->items;
}

void job_attempt_abandon(struct job *job, const struct attempt *attempt)
{
    struct domain *domain = &job->domains[job->lanes[attempt->lane].domain];
    if (attempt->is_alone) {
        domain->is_alone = false;
        job->suspects--;
    }
    domain->held--;
    job->out--;
}

void job_attempt_end(struct job *job, struct attempt *attempt)
{
    struct lane *lane = &job->lanes[attempt->lane];
    job_attempt_deactivate(job, attempt);
    attempt->is_out = false;
    lane->given -= attempt->is_given;
    attempt->is_given = false;
    job->changes++;
    attempt->next_free = lane->free_slot;
    lane->free_slot = (uint32_t)(attempt - job->attempts);
    lane->held--;
    if (job->has_part)
        take_part_ended(&job->part, attempt->lane, attempt->items);
    job->direct_out -= attempt->is_direct;
    if (attempt->is_direct)
        job_unit_let_go(job, attempt->unit);
    if (is_usable(lane))
        job_attempt_abandon(job, attempt);
}

struct attempt *job_attempt_find(const struct job *job, struct job_ticket ticket)
{
    if (ticket.attempt >= (uint64_t)job->options.lane_count * job->options.depth)
        return NULL;
    struct attempt *attempt = &job->attempts[ticket.attempt];
    return attempt->is_out && attempt->generation == ticket.generation ? attempt : NULL;
}

void job_unit_end_runs(struct job *job, const struct unit *unit)
{
    while (unit->newest_run != JOB_NONE) {
        struct attempt *attempt = &job->attempts[unit->newest_run];
        job_lane_wake(job, attempt->lane);
        if (attempt->is_kicked)
            job_attempt_deactivate(job, attempt);
        else
            job_attempt_end(job, attempt);
    }
}

void job_attempt_cancel(struct job *job, struct attempt *attempt)
{
    struct unit *unit = &job->units[attempt->unit];
    job_attempt_end(job, attempt);
    if (!has_runs(unit))
        unit->state = UNIT_CANCELLED;
}

struct attempt *job_lane_given(struct job *job, uint32_t lane)
{
    struct attempt *attempt = job_lane_slots(job, lane);
    while (!attempt->is_out || !attempt->is_given)
        attempt++;
    return attempt;
}

bool job_is_out(const struct job *job, struct job_ticket ticket)
{
    return job_attempt_find(job, ticket) != NULL;
}

bool job_kick(struct job *job, struct job_ticket ticket, uint64_t now_ns)
{
    struct attempt *attempt = job_attempt_find(job, ticket);
    if (!attempt || !attempt->is_active)
        return false;
    if (job->state != JOB_RUNNING) {
        job_attempt_cancel(job, attempt);
        return false;
    }
    attempt->is_kicked = true;
    attempt->kicked_ns = now_ns;
    job_look_soon(job, now_ns);
    return true;
}

bool job_is_last_try(const struct job *job, struct job_ticket ticket)
{
    const struct attempt *attempt = job_attempt_find(job, ticket);
    return attempt && attempt->is_active &&
           job->units[attempt->unit].tries + 1 >= job->options.tries;
}

bool job_should_stop(const struct job *job, struct job_ticket ticket)
{
    const struct attempt *attempt = job_attempt_find(job, ticket);
    return !attempt || !attempt->is_active || attempt->is_unloved || job->state != JOB_RUNNING;
}

bool job_restart(struct job *job, struct job_ticket ticket, uint64_t now_ns)
{
    struct attempt *attempt = job_attempt_find(job, ticket);
    if (!attempt || !attempt->is_active || job->state != JOB_RUNNING)
        return false;
    attempt->kicked_ns = now_ns;
    attempt->is_restarted = true;
    job_look_soon(job, now_ns);
    return true;
}
