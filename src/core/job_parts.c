/*
 * Jobs on many machines: results that are there before anybody ran them, or are gone again; units that are
 * run in parts until it is known which item fails; lanes that change hands.
 */
#include "base/invariant.h"
#include "core/job_state.h"

/* A unit of which nobody knows which item failed is run again in this many parts. */
#define NARROW_PARTS 8

/* The waiting unit after this one, which was cut from it. */
static uint32_t split_off(struct job *job, uint32_t index, uint64_t items)
{
    job_unit_split(job, index, items);
    return job->units[index].retry_next;
}

/* Results that are stored. */

/* The first stored item from next_claim on. It only moves on, so the set is walked once in all. */
static void find_next_stored(struct job *job)
{
    const struct grain_set *stored = job->options.stored;
    job->stored_next = job->next_claim;
    if (!grain_set_has(stored, job->next_claim))
        job->stored_next = grain_set_run_end(stored, job->next_claim, job->options.items);
}

static uint64_t window_end(const struct job *job)
{
    uint64_t left = job->options.window - job->undelivered;
    uint64_t ahead = job->options.items - job->next_claim;
    return job->next_claim + (left < ahead ? left : ahead);
}

void job_pass_stored(struct job *job)
{
    if (!job->options.stored || job->state != JOB_RUNNING)
        return;
    while (job->stored_next <= job->next_claim && job->next_claim < window_end(job)) {
        uint64_t end = grain_set_run_end(job->options.stored, job->next_claim, window_end(job));
        uint64_t items = end - job->next_claim, newest_items = job->newest_items;
        job->stored_ahead -= items;
        job_unit_end(job, job_unit_make(job, items));
        /* It says nothing about how large units are. */
        job->newest_items = newest_items;
        job->changes++;
        find_next_stored(job);
    }
}

void job_count_stored(struct job *job)
{
    struct grain_set *stored = job->options.stored;
    uint64_t at = job->next_claim;
    grain_set_remove(stored, (struct muster_range){ 0, at });
    while (at < job->options.items) {
        uint64_t end = grain_set_run_end(stored, at, job->options.items);
        job->stored_ahead += grain_set_has(stored, at) ? end - at : 0;
        at = end;
    }
    find_next_stored(job);
    job_pass_stored(job);
}

/* Of what waits to be run, what is stored is done. */
static void end_waiting(struct job *job, struct muster_range range)
{
    uint32_t before = JOB_NONE, index = job->retry_first;
    while (index != JOB_NONE && job->units[index].range.begin < range.end) {
        struct muster_range unit = job->units[index].range;
        if (unit.end <= range.begin || unit.begin < range.begin) {
            if (unit.end > range.begin)
                split_off(job, index, range.begin - unit.begin);
            before = index;
            index = job->units[index].retry_next;
            continue;
        }
        if (range.end < unit.end)
            split_off(job, index, range.end - unit.begin);
        uint32_t next = job->units[index].retry_next;
        job_unit_unlink(job, index, before);
        job_unit_end(job, index);
        job->changes++;
        index = next;
    }
}

void job_note_stored(struct job *job, struct muster_range range)
{
    if (job->state != JOB_RUNNING)
        return;
    if (range.end > job->options.items)
        range.end = job->options.items;
    end_waiting(job, range);
    if (range.begin < job->next_claim)
        range.begin = job->next_claim;
    if (range.begin >= range.end)
        return;
    job->stored_ahead += grain_set_add(job->options.stored, range);
    if (range.begin < job->stored_next)
        job->stored_next = range.begin;
    job_pass_stored(job);
}

void job_delivered_part(struct job *job, uint32_t index, uint64_t items)
{
    struct unit *unit = &job->units[index];
    INVARIANT(unit->state == UNIT_LEAVING && items < items_of(unit));
    unit->range.begin += items;
    job->undelivered -= items;
    job->delivered_items += items;
    job->changes++;
    job_pass_stored(job);
}

void job_result_missing(struct job *job, uint32_t index, uint64_t items, uint64_t now_ns)
{
    struct unit *unit = &job->units[index];
    INVARIANT(job->options.narrows && unit->state == UNIT_LEAVING);
    INVARIANT(items > 0 && items <= items_of(unit));
    unit->state = UNIT_DONE;
    if (items < items_of(unit)) {
        uint32_t rest = job_unit_divide(job, index, items);
        if (!job->options.ordered)
            job_unit_add_done(job, rest);
    }
    job->unfinished += items;
    unit->last_lane = JOB_NONE;
    if (job->state == JOB_RUNNING)
        job_unit_retry(job, index, now_ns);
    else
        unit->state = UNIT_CANCELLED;
}

/* Parts. */

bool job_unit_is_narrowed(const struct job *job, const struct unit *unit)
{
    return job->options.narrows && items_of(unit) > 1;
}

/* One that waits, and is of one item, has failed once more. */
static void charge(struct job *job, uint32_t index, uint32_t before, bool is_final)
{
    struct unit *unit = &job->units[index];
    if (++unit->tries < job->options.tries && !is_final)
        return;
    job_unit_unlink(job, index, before);
    job_unit_give_up(job, index);
}

void job_unit_narrow(struct job *job, uint32_t index, uint64_t at, bool is_final, uint64_t now_ns)
{
    uint64_t items = items_of(&job->units[index]);
    bool is_known = at != JOB_DONE_UNKNOWN;
    INVARIANT(job_unit_is_narrowed(job, &job->units[index]) && (!is_known || at < items));
    job_unit_wait(job, index, now_ns);
    if (!is_known) {
        uint64_t size = items / NARROW_PARTS + (items % NARROW_PARTS > 0);
        for (uint64_t left = items; left > size; left -= size)
            index = split_off(job, index, size);
        return;
    }
    uint32_t before = JOB_NONE;
    for (uint32_t i = job->retry_first; i != index; i = job->units[i].retry_next)
        before = i;
    if (at > 0) {
        before = index;
        index = split_off(job, index, at);
    }
    if (items - at > 1)
        split_off(job, index, 1);
    charge(job, index, before, is_final);
}

/* Lanes. */

void job_lane_leave(struct job *job, uint32_t index, bool is_loss, uint64_t now_ns)
{
    struct lane *lane = &job->lanes[index];
    INVARIANT(job->options.output == JOB_OUTPUT_SLOTS && !job->options.place && !job->has_part);
    INVARIANT(!lane->is_absent);
    if (is_usable(lane))
        job_lane_retire(job, index, is_loss, job->domains[lane->domain].held == 1, now_ns);
    struct attempt *slots = job_lane_slots(job, index);
    for (uint32_t i = 0; i < job->options.depth; i++)
        if (slots[i].is_out)
            job_attempt_end(job, &slots[i]);
    *lane = (struct lane){ .domain = lane->domain,
                           .weight = 1,
                           .is_absent = true,
                           .last_finish_ns = now_ns,
                           .doubted_until_ns = UINT64_MAX,
                           .free_slot = lane->free_slot,
                           .is_called = lane->is_called,
                           .call_next = lane->call_next };
    job->expected++;
    job->changes++;
}

/* All up to there is claimed: what nobody has is to be run by anybody. */
static void claim_up_to(struct job *job, struct muster_range range, uint64_t now_ns)
{
    job_pass_stored(job);
    while (job->next_claim < range.end) {
        uint64_t end = job->next_claim < range.begin ? range.begin : range.end;
        end = job->stored_next < end ? job->stored_next : end;
        job_unit_wait(job, job_unit_make(job, end - job->next_claim), now_ns);
        job_pass_stored(job);
    }
}

bool job_adopt(struct job *job, uint32_t lane_index, struct muster_range range, uint64_t now_ns,
               struct job_claim *out)
{
    const struct lane *lane = &job->lanes[lane_index];
    uint32_t before = JOB_NONE, index;
    INVARIANT(job->options.narrows && job->options.stored);
    if (job->state != JOB_RUNNING || !may_take(lane) || lane->held == job->options.depth ||
        job->domains[lane->domain].is_alone)
        return false;
    if (range.end > window_end(job))
        range.end = window_end(job);
    if (range.begin < range.end)
        claim_up_to(job, range, now_ns);
    index = job->retry_first;
    while (index != JOB_NONE && job->units[index].range.end <= range.begin) {
        before = index;
        index = job->units[index].retry_next;
    }
    if (index == JOB_NONE || job->units[index].range.begin >= range.end ||
        job->units[index].is_suspect)
        return false;
    if (job->units[index].range.begin < range.begin) {
        before = index;
        index = split_off(job, index, range.begin - job->units[index].range.begin);
    }
    if (range.end < job->units[index].range.end)
        split_off(job, index, range.end - job->units[index].range.begin);
    job_unit_unlink(job, index, before);
    struct job_ticket ticket = job_attempt_begin(job, lane_index, index, false);
    *out = (struct job_claim){ .ticket = ticket, .range = job->units[index].range, .unit = index };
    /* When it was begun, nobody knows: how long it takes from here says nothing. */
    out->is_started = job_kick(job, ticket, now_ns) && job_restart(job, ticket, now_ns);
    return true;
}
