/*
 * Every invariant of a job, for tests: what is counted is counted again, and every list is walked.
 */
#include "core/job_state.h"

/* At most one attempt of a unit may write into the caller's array, and the unit knows which. */
static const char *check_direct(const struct job *job, uint32_t index, uint32_t runs)
{
    const struct unit *unit = &job->units[index];
    if (unit->direct == JOB_NONE)
        return NULL;
    const struct attempt *direct = &job->attempts[unit->direct];
    if (!direct->is_out || !direct->is_direct || direct->unit != index)
        return "a unit waits for a direct attempt that is over";
    if (unit->state == UNIT_LEAVING)
        return "a result leaves that may still be written over";
    if (job->options.output == JOB_OUTPUT_CUTS && runs > 1)
        return "a unit that is replaced as it is read runs twice";
    return NULL;
}

static const char *check_unit(const struct job *job, uint32_t index)
{
    const struct unit *unit = &job->units[index];
    const struct job_options *options = &job->options;
    if (unit->state == UNIT_FREE)
        return "a free unit is undelivered";
    if (has_runs(unit) != (unit->state == UNIT_RUNNING))
        return "a unit runs without an attempt, or has one without running";
    uint32_t runs = 0;
    for (uint32_t i = unit->newest_run; i != JOB_NONE; i = job->attempts[i].older_run) {
        const struct attempt *attempt = &job->attempts[i];
        if (!attempt->is_out || !attempt->is_active || attempt->unit != index)
            return "a unit counts on an attempt that is over";
        if (++runs > options->lane_count)
            return "a unit runs twice on a lane";
    }
    if (runs > 1 && (!options->speculate || unit->is_suspect))
        return "a unit runs twice that must not";
    const char *broken = check_direct(job, index, runs);
    if (broken)
        return broken;
    if (!(unit->patience >= 1 && unit->patience <= PATIENCE_MAX))
        return "a unit has no patience left, or too much";
    if (items_of(unit) == 0 || (options->window > 0 && items_of(unit) > options->window) ||
        (options->unit_max > 0 && items_of(unit) > options->unit_max))
        return "a unit is empty, or larger than the window or a slot";
    if (whole_grains(job, unit->range.begin) != unit->range.begin ||
        (whole_grains(job, unit->range.end) != unit->range.end && unit->range.end < options->items))
        return "a unit is not of whole grains";
    if (unit->has_failed &&
        (!options->tolerant ||
         (unit->state != UNIT_DONE && unit->state != UNIT_LEAVING && unit->state != UNIT_FAILED)))
        return "a unit has failed and is neither done nor tolerated";
    if (unit->state != UNIT_FAILED && !unit->has_failed &&
        (unit->tries >= options->tries || unit->domains_taken >= job_domains_taken_max(job)))
        return "a unit is out of tries and has not failed";
    if (unit->state == UNIT_FAILED && job->state == JOB_RUNNING)
        return "the job runs with a failed unit";
    return NULL;
}

/* The list of those that wait is in item order, the one of those that are done has them all. */
static const char *check_lists(const struct job *job, uint32_t waiting, uint32_t done)
{
    uint32_t listed = 0;
    uint64_t last = 0;
    for (uint32_t i = job->retry_first; i != JOB_NONE && listed <= waiting;
         i = job->units[i].retry_next) {
        const struct unit *unit = &job->units[i];
        if (unit->state != UNIT_WAITING || unit->range.begin < last)
            return "the list of those that wait holds others, or is not in item order";
        last = unit->range.end;
        listed++;
    }
    if (listed != waiting || listed != job->waiting)
        return "a unit that waits is not in the list, or they are miscounted";
    listed = 0;
    for (uint32_t i = job->free_units; i != JOB_NONE && listed <= job->free_count;
         i = job->units[i].next)
        listed++;
    if (listed != job->free_count)
        return "free units are miscounted";
    if (job->options.output == JOB_OUTPUT_CUTS && job->free_count < job->direct_out)
        return "a unit may have to be cut, and there is none for its rest";
    if (job->options.ordered)
        return NULL;
    listed = 0;
    for (uint32_t i = job->done_first; i != JOB_NONE && listed <= done;
         i = job->units[i].retry_next)
        listed += job->units[i].state == UNIT_DONE;
    return listed == done ? NULL : "a unit that is done is not in the list, or is twice";
}

static const char *check_units(const struct job *job)
{
    uint64_t undelivered = 0, unfinished = 0, last = 0;
    uint32_t waiting = 0, done = 0, previous = JOB_NONE;
    for (uint32_t i = job->oldest; i != JOB_NONE; previous = i, i = job->units[i].next) {
        const struct unit *unit = &job->units[i];
        const char *broken = check_unit(job, i);
        if (broken)
            return broken;
        if (unit->previous != previous)
            return "the list of units is broken";
        if (unit->range.begin < last)
            return "units are not in item order";
        if (job->options.ordered && unit->range.begin != last && previous != JOB_NONE)
            return "there is a gap between undelivered units";
        if (job->options.ordered && previous == JOB_NONE &&
            unit->range.begin != job->delivered_items)
            return "the oldest undelivered unit does not follow what was delivered";
        last = unit->range.end;
        undelivered += items_of(unit);
        unfinished += unit->state != UNIT_DONE && unit->state != UNIT_LEAVING ? items_of(unit) : 0;
        waiting += unit->state == UNIT_WAITING;
        done += unit->state == UNIT_DONE && unit->direct == JOB_NONE;
    }
    if (previous != job->newest)
        return "the list of units is broken";
    if (job->next_claim > job->supply || job->supply > job->options.items)
        return "more was claimed than has arrived, or more has arrived than there is";
    if (undelivered != job->undelivered || undelivered + job->delivered_items != job->next_claim)
        return "undelivered items are miscounted";
    if (unfinished != job->unfinished && job->state == JOB_RUNNING)
        return "unfinished items are miscounted";
    if (job->options.window > 0 && job->undelivered > job->options.window)
        return "the window is exceeded";
    return check_lists(job, waiting, done);
}

static const char *check_lane(const struct job *job, uint32_t index, uint32_t *held_out)
{
    const struct lane *lane = &job->lanes[index];
    uint32_t held = 0, given = 0, free_slots = 0;
    uint64_t items = 0;
    for (uint32_t i = lane->free_slot; i != JOB_NONE && free_slots <= job->options.depth;
         i = job->attempts[i].next_free)
        free_slots += !job->attempts[i].is_out;
    for (uint32_t i = 0; i < job->options.depth; i++) {
        uint32_t number = index * job->options.depth + i;
        const struct attempt *attempt = &job->attempts[number];
        held += attempt->is_out;
        if (!attempt->is_out)
            continue;
        given += attempt->is_given;
        if (attempt->is_direct && job->units[attempt->unit].direct != number)
            return "a unit has two direct attempts, or has forgotten one";
        if (attempt->is_alone && is_usable(lane) &&
            (job->domains[lane->domain].held != 1 || !job->domains[lane->domain].is_alone))
            return "a suspect does not run alone";
        if (!attempt->is_active && !attempt->is_kicked)
            return "an attempt that was not started is neither active nor over";
        if (!attempt->is_active)
            continue;
        const struct unit *unit = &job->units[attempt->unit];
        bool is_doubted = job->options.output == JOB_OUTPUT_CUTS && attempt->is_direct;
        if (!is_usable(lane) && !is_doubted)
            return "an attempt of a lane that is lost or hung still counts";
        uint32_t run = unit->newest_run;
        while (run != JOB_NONE && run != number)
            run = job->attempts[run].older_run;
        if (run == JOB_NONE || items_of(unit) != attempt->items)
            return "an active attempt is not one of its unit's";
        items += attempt->items;
    }
    if (held != lane->held || items != lane->held_items || given != lane->given ||
        held + free_slots != job->options.depth)
        return "a lane's units are miscounted";
    if (lane->is_asking && (!is_usable(lane) || job->options.depth == held))
        return "a lane asks that cannot be given anything";
    if (lane->is_idle && (held > 0 || !is_usable(lane)))
        return "a lane is idle that has something, or is lost or hung";
    if (is_usable(lane) && job->look_ns == UINT64_MAX && job_overdue_ns(job, index) != UINT64_MAX)
        return "an attempt will be overdue and nobody is going to look";
    *held_out = held;
    return NULL;
}

static const char *check_rates(const struct job *job)
{
    double best = job->fastest != JOB_NONE ? job->lanes[job->fastest].counted : 0;
    for (uint32_t i = 0; i < job->options.lane_count; i++) {
        double rate = job->lanes[i].counted;
        if (rate != lane_rate(&job->lanes[i]))
            return "a lane's rate is miscounted";
        if (rate > best || (i != job->fastest && rate > job->runner_up))
            return "a lane is faster than the fastest, or than the runner-up";
    }
    return NULL;
}

/* Lanes that ask and lanes that are to be woken. */
static const char *check_asking(const struct job *job)
{
    uint32_t asking = 0, called = 0, last = JOB_NONE, woken[JOB_CHOICE_KINDS] = { 0 };
    for (uint32_t i = 0; i < job->options.lane_count; i++) {
        const struct lane *lane = &job->lanes[i];
        asking += lane->is_asking;
        called += lane->is_called;
        if (is_chosen(lane->woken_for)) {
            woken[lane->woken_for]++;
            if (!lane->is_asking)
                return "a lane was told to ask again that does not ask";
        }
    }
    for (uint32_t i = job->ask_first; i != JOB_NONE; last = i, i = job->lanes[i].ask_next)
        if (!job->lanes[i].is_asking || job->lanes[i].ask_previous != last || asking-- == 0)
            return "the list of lanes that ask is broken";
    for (uint32_t i = job->call_first; i != JOB_NONE; i = job->lanes[i].call_next)
        if (!job->lanes[i].is_called || called-- == 0)
            return "the list of lanes to be woken is broken";
    for (uint32_t i = 0; i < JOB_CHOICE_KINDS; i++)
        if (woken[i] != job->woken[i])
            return "lanes that were told to ask again are miscounted";
    return asking > 0 || called > 0 || last != job->ask_last ? "a lane is not in its list" : NULL;
}

/* Somebody takes part, of those that can. */
static const char *check_part(const struct job *job)
{
    bool can_any = false, is_any = false;
    for (uint32_t i = 0; i < job->options.lane_count; i++) {
        const struct lane *lane = &job->lanes[i];
        bool can = may_take(lane) && !is_quarantined(lane);
        can_any = can_any || can;
        is_any = is_any || (can && !lane->is_left_out);
        if (job->has_part && lane->is_left_out == take_part_is_in(&job->part, i))
            return "a lane does not know whether it takes part";
        if (job->has_part && job->part.lanes[i].held != lane->held)
            return "the units of a lane are miscounted where it is decided who takes part";
        if (!job->has_part && lane->is_left_out)
            return "a lane is left out where nobody can be";
    }
    return can_any && !is_any ? "everybody is left out" : NULL;
}

const char *job_check(const struct job *job)
{
    uint32_t usable = 0, idle = 0, out = 0, suspects = 0, in_domains = 0;
    for (uint32_t l = 0; l < job->options.lane_count; l++) {
        uint32_t held = 0;
        const char *broken = check_lane(job, l, &held);
        if (broken)
            return broken;
        usable += is_usable(&job->lanes[l]);
        idle += job->lanes[l].is_idle;
        out += is_usable(&job->lanes[l]) ? held : 0;
        in_domains += job->domains[l].held;
    }
    for (uint32_t i = 0; i < job->options.lane_count * job->options.depth; i++)
        suspects += job->attempts[i].is_out && job->attempts[i].is_alone &&
                    is_usable(&job->lanes[job->attempts[i].lane]);
    if (suspects != job->suspects)
        return "suspects that run are miscounted";
    if (usable != job->usable || idle != job->idle || out != job->out || out != in_domains)
        return "usable or idle lanes, or attempts, are miscounted";
    if (job->state == JOB_RUNNING && job->usable == 0 && job->expected == 0 && has_work(job) &&
        !job->options.waits_for_lanes)
        return "the job runs without a lane";
    if ((job->delivered_items == job->options.items) != (job->state == JOB_DONE) &&
        job->state != JOB_CANCELLED)
        return "the job is over with items undelivered, or runs without any";
    const char *broken = check_part(job);
    if (!broken)
        broken = check_rates(job);
    if (!broken)
        broken = check_asking(job);
    return broken ? broken : check_units(job);
}
