/*
 * What comes of a unit: how its attempt ended, what the core and the device's figures are told, and,
 * where each item has a status, which of its items made the kernel fail.
 */
#include "run/lane/lane.h"

#include "base/invariant.h"

static uint64_t section_items(struct muster_range section)
{
    return section.end - section.begin;
}

/* Whether a part of the unit is being done again. */
static bool is_part(const struct lane_unit *unit)
{
    return section_items(unit->section) < unit_items(unit);
}

/* The device's figures see units, as of all jobs; the totals see launches. */
static void uncount_locked(struct lane_unit *unit, bool is_done, uint64_t now_ns)
{
    struct run_device *device = unit->lane->device;
    struct run_counts *counts = &device->m->counts;
    attempt_uncount_locked(&unit->attempt, device, is_done ? LOAD_DONE : LOAD_FAILED, now_ns);
    run_count(is_done ? &counts->line_units_done : &counts->line_units_failed, 1);
    device_view_locked(device);
}

static void count_launches_ended(const struct lane_unit *unit)
{
    struct run_counts *counts = &unit->lane->work->group.m->counts;
    for (uint32_t s = 1; s < lane_sink(unit->lane); s++) {
        bool is_done = unit->attempt.ended == MUSTER_OK && unit->results_of[s] == MUSTER_OK;
        if (unit->launches[s] > 0)
            run_count(is_done ? &counts->line_launches_done : &counts->line_launches_failed,
                      unit->launches[s]);
    }
}

/* As if nothing of it had been done yet. */
static void reset(struct lane_unit *unit)
{
    const struct lane_plan *plan = unit->lane->plan;
    unit->next = 0;
    unit->is_void = unit->asks = unit->is_over = unit->must_rerun = false;
    unit->asked_ns = 0;
    for (uint32_t s = 0; s < plan->order->step_count; s++) {
        unit->results_of[s] = MUSTER_OK;
        unit->is_untold[s] = unit->has_arrived[s] = false;
        unit->launches[s] = 0;
    }
    for (size_t i = 0; unit->bytes && i < (size_t)plan->piece_count * plan->parts_max; i++)
        unit->bytes[i] = SIZE_MAX;
    unit->attempt.given = unit->attempt.ended = unit->attempt.result = MUSTER_OK;
    unit->pieces = (struct muster_pieces){ .grain = plan->cut_grain };
    unit->is_stopping = false;
    unit->attempt.is_bystander = false;
    /* Not the device's of now: streams of the last one may have failed while they had nothing to do. */
    unit->generation = unit->lane->generation;
    unit->attempt.is_refused = unit->attempt.is_broken_off = false;
    unit->marked = 0;
    unit->is_anchor = false;
    unit->at_kernel = (struct time_span){ 0, 0 };
}

void unit_start_locked(struct lane_unit *unit, uint64_t number, uint64_t now_ns)
{
    uint64_t items = unit_items(unit);
    unit->number = number;
    unit->part_count = (uint32_t)((items - 1) / unit->lane->plan->part_items + 1);
    unit->kicked_ns = now_ns;
    unit->section = (struct muster_range){ 0, items };
    unit->section_count = 0;
    unit->is_looked_at = false;
    unit->fatal = UINT64_MAX;
    unit->copied_bytes = 0;
    unit->is_fresh = true;
    reset(unit);
    struct run_device *device = unit->lane->device;
    run_count(&device->m->counts.units_started, 1);
    run_count(&device->m->counts.line_units, 1);
    attempt_count_locked(&unit->attempt, device, items, now_ns);
}

/* How it ended. */

/* Items from the first on that are done in the caller's arrays. */
static uint64_t items_done(const struct lane_unit *unit)
{
    return unit_is_in_pieces(unit) ? muster_pieces_done(&unit->pieces) : JOB_DONE_UNKNOWN;
}

/* Which items fail. */

/*
 * Whether a part of the unit can be run alone, to find the item that ends the device's process: not where items depend on
 * each other, nor where a second run would find what the first has changed.
 */
static bool can_look_at(const struct lane_unit *unit)
{
    const struct lane_plan *plan = unit->lane->plan;
    return unit->statuses || plan->is_itemwise;
}

/* Whether it is to be found out which of the unit's items the kernel refuses, or is being found out. */
static bool is_isolating_locked(const struct lane_unit *unit)
{
    if (unit->attempt.given != MUSTER_OK || unit->attempt.is_broken_off)
        return false;
    if (attempt_is_blamed(&unit->attempt))
        return can_look_at(unit);
    /* A part whose device ended for another reason is run once more, the whole is handed back. */
    if (unit->attempt.is_bystander)
        return is_part(unit) || unit->section_count > 0;
    if (unit->attempt.ended != MUSTER_OK || (!unit->statuses && !unit->is_looked_at))
        return false;
    if (unit->attempt.result == MUSTER_OK)
        return unit->section_count > 0;
    /* Bad luck, as it says, is tried elsewhere first. */
    return !attempt_is_bad_luck(unit->attempt.result) ||
           job_is_last_try(unit->lane->work->core, unit->claim.ticket);
}

/* Halves a section that failed, or notes the status of an item that did so alone. */
static void note_section(struct lane_unit *unit)
{
    struct muster_range section = unit->section;
    uint64_t middle = section.begin + section_items(section) / 2;
    bool is_blamed = attempt_is_blamed(&unit->attempt);
    if (!is_blamed && unit->attempt.is_bystander) {
        unit->sections[unit->section_count++] = section;
        unit->is_looked_at = true;
        return;
    }
    if (unit->attempt.result == MUSTER_OK)
        return;
    if (section_items(section) == 1) {
        if (is_blamed)
            unit->fatal = section.begin;
        /* Without a status for each the unit has failed, and nobody asks for the others. */
        unit->section_count = unit->statuses ? unit->section_count : 0;
        if (!unit->statuses)
            return;
        unit->statuses[section.begin] = unit->attempt.result;
        unit->attempt.result = unit->attempt.ended = MUSTER_OK;
        /* Its device ended because of it: where it was the last, the others are done and are not done again. */
        unit->attempt.is_bystander = false;
        return;
    }
    unit->is_looked_at = unit->is_looked_at || is_blamed;
    INVARIANT(unit->section_count + 2 <= UNIT_SECTIONS_MAX);
    unit->sections[unit->section_count++] = (struct muster_range){ middle, section.end };
    unit->sections[unit->section_count++] = (struct muster_range){ section.begin, middle };
}

/* The end. */

/* What is to be told of the unit's outputs when they are delivered. */
static void note_bytes_locked(struct lane_unit *unit)
{
    const struct lane_plan *plan = unit->lane->plan;
    for (uint32_t i = 0; unit->result_bytes && i < plan->piece_count; i++) {
        const struct lane_piece *piece = &plan->pieces[i];
        if (!plan->declaration->buffers[piece->buffer].is_output)
            continue;
        for (uint32_t part = 0; part < unit->part_count; part++)
            unit->result_bytes[piece->output_at * plan->parts_max + part] =
                unit_part_bytes(unit, i, part);
    }
}

bool lane_carries(const struct lane_plan *plan)
{
    for (uint32_t i = 0; i < plan->declaration->buffer_count; i++)
        if (plan->declaration->buffers[i].is_carried)
            return true;
    return false;
}

/* Its device has finished with the unit for this time. */
static void note_end_locked(struct lane_unit *unit)
{
    struct run_lane *lane = unit->lane;
    for (uint32_t s = 1; s < lane_sink(lane) && unit->attempt.result == MUSTER_OK; s++)
        unit->attempt.result = unit->results_of[s];
    /* Count the unit as on the device from its first stage where stages are given one by one. */
    if (!lane->plan->counts_giving)
        unit->given_ns = unit->kicked_ns;
    lane->unit_ns = unit->ended_ns - unit->kicked_ns;
    /* From the end of one to the end of the next, on the average; less than a unit takes. */
    if (lane->ended_ns != 0)
        lane->interval_ns = (3 * lane->interval_ns + (unit->ended_ns - lane->ended_ns)) / 4;
    lane->ended_ns = unit->ended_ns;
    /* What was broken off because the job is over says nothing of the unit. */
    unit->attempt.is_broken_off = unit->is_void && unit->attempt.given == MUSTER_OK &&
                                  unit->attempt.ended == MUSTER_OK &&
                                  unit->attempt.result == MUSTER_OK;
    unit->attempt.is_bystander =
        lane_table(lane)->device_generation(lane->device->state) != unit->generation;
    /* What units hand on to the next was on the device. */
    if (unit->attempt.is_bystander && lane_carries(lane->plan))
        unit->attempt.ended = MUSTER_E_DEVICE_LOST;
    count_launches_ended(unit);
    loss_attempt_locked(unit);
}

/* The device is done with the unit. */
static void leave_locked(struct lane_unit *unit)
{
    struct run_lane *lane = unit->lane;
    unit->is_running = false;
    lane->work->outstanding--;
    if (unit->attempt.is_overdue)
        watch_end_locked(&lane->watch, 0, 1);
    unit->attempt.is_overdue = false;
}

static void finish_unit_locked(struct lane_unit *unit)
{
    struct run_lane *lane = unit->lane;
    unit->attempt.is_stopped = unit->is_stopping || items_done(unit) < unit_items(unit);
    if (unit->is_stopping && job_state(lane->work->core) != JOB_RUNNING)
        unit->attempt.is_broken_off = true;
    enum job_end verdict = attempt_end(&unit->attempt);
    uint64_t now_ns = platform_clock_ns();
    unit_count_sink(unit);
    note_bytes_locked(unit);
    uncount_locked(unit, verdict == JOB_END_OK, unit->ended_ns);
    leave_locked(unit);
    if (verdict == JOB_END_UNIT && short_is_unit_locked(unit)) {
        verdict = JOB_END_MEMORY;
        short_pause_locked(lane, now_ns);
    } else if (verdict == JOB_END_OK) {
        lane->short_count = 0;
    }
    lane->ended[lane->ended_count++] = (struct lane_ended){ unit, verdict, items_done(unit) };
    lane->last_ns = now_ns;
    if (--lane->running == 0)
        lane->busy_ns += now_ns - lane->busy_since_ns;
}

/* Does the next section of a unit, whose slots nothing else uses; or breaks it off. */
static void rerun_locked(struct lane_unit *unit)
{
    struct run_lane *lane = unit->lane;
    if (!job_restart(lane->work->core, unit->claim.ticket, platform_clock_ns())) {
        unit->attempt.is_broken_off = true;
        finish_unit_locked(unit);
        return;
    }
    unit->section = unit->sections[--unit->section_count];
    reset(unit);
    /* What is to be run alone needs streams that have not failed with the last. */
    if (unit->is_looked_at)
        lane->renews_first = true;
    /* Counts of edges go by units. */
    lane->was_refused = true;
}

/*
 * One that is over for this time: finishes it, unless a section of it is to be done again. Where each item
 * has a status, both halves of what made the kernel fail are, to find out which items did.
 */
static void see_end_locked(struct lane_unit *unit)
{
    note_end_locked(unit);
    bool is_isolating = is_isolating_locked(unit);
    uint64_t fatal = unit->fatal;
    if (is_isolating)
        note_section(unit);
    if (unit->fatal != fatal)
        unit->lane->work->calls->fatal_locked(unit);
    unit->must_rerun = is_isolating && unit->section_count > 0;
    if (!unit->must_rerun)
        finish_unit_locked(unit);
}

void lane_finish_locked(struct run_lane *lane)
{
    bool are_all_over = true;
    for (uint32_t i = 0; i < lane->plan->depth; i++) {
        struct lane_unit *unit = lane_unit_nth(lane, i);
        if (unit && unit->is_over && !unit->must_rerun)
            see_end_locked(unit);
        are_all_over = are_all_over && (!unit || !unit->is_running || unit->must_rerun);
    }
    /* Until all sections are done nothing else uses the slots, where units share them. */
    bool is_shared = lane->plan->width == 1;
    lane->is_isolating = false;
    for (uint32_t i = 0; i < lane->plan->depth; i++) {
        struct lane_unit *unit = lane_unit_nth(lane, i);
        if (unit && unit->must_rerun && (!is_shared || (are_all_over && !lane->is_isolating)))
            rerun_locked(unit);
        lane->is_isolating = lane->is_isolating || (is_shared && unit && unit->is_running &&
                                                    (unit->must_rerun || is_part(unit)));
    }
    while (lane->oldest < lane->next && !lane_unit_at(lane, lane->oldest)->is_running)
        lane->oldest++;
}

void lane_leave_units_locked(struct run_lane *lane)
{
    for (uint32_t i = 0; lane->units && i < lane->plan->depth; i++)
        if (lane->units[i].is_running)
            uncount_locked(&lane->units[i], false, platform_clock_ns());
}

void lane_forget_locked(struct run_lane *lane)
{
    for (uint32_t i = 0; lane->units && i < lane->plan->depth; i++)
        if (lane->units[i].is_running)
            leave_locked(&lane->units[i]);
}
