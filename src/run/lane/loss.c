/*
 * Where a job's time went. A lane's part of the makespan is before its first unit, with units in
 * hand, between units, and after the last. The time with units in hand is overhead while none of
 * them was wholly with the device, transfer while none of those that were was at its kernel, and
 * the rest is work.
 *
 * Host times say what was with the device; when a unit was at its kernel only the device knows.
 * Timing events before and after each kernel say so by the device's clock. To turn that into host
 * time, now and then a unit has a timing event at its very end, an anchor: the host knows when that
 * unit ended. Not every unit has one, since a timing event after a copy keeps the next copy from
 * overlapping with it: one for each unit took 7 % of an H200's transfer rate. Lanes that copy nothing
 * are not timed.
 */
#include "run/lane/lane.h"

/* One unit of this many has a timing event at its end. */
#define UNITS_PER_ANCHOR 64u

void timing_set_up(struct run_lane *lane)
{
    lane->is_timed = true;
    for (uint32_t u = 0; lane->is_timed && u < lane->plan->depth; u++)
        for (size_t i = 0; i < TIMING_MARKS && lane->is_timed; i++)
            lane->is_timed = (lane->units[u].marks[i] = timing_mark_take(lane->device)) != NULL;
    for (size_t i = 0; i < 2 && lane->is_timed; i++)
        lane->is_timed = (lane->anchors[i] = timing_mark_take(lane->device)) != NULL;
}

static void give_back(struct muster *m, struct timing_mark **marks, size_t count)
{
    run_lock(m);
    for (size_t i = 0; i < count; i++) {
        if (marks[i])
            timing_mark_give_locked(marks[i]);
        marks[i] = NULL;
    }
    run_unlock(m);
}

void timing_give_back(struct lane_unit *unit)
{
    give_back(unit->lane->work->group.m, unit->marks, TIMING_MARKS);
}

void timing_give_anchors(struct run_lane *lane)
{
    give_back(lane->work->group.m, lane->anchors, 2);
}

void timing_mark(struct lane_unit *unit, uint32_t which, const struct run_stream *stream)
{
    const struct run_lane *lane = unit->lane;
    if (lane->is_timed && unit->marked == which &&
        lane_table(lane)->event_record(unit->marks[which]->state, stream->state, NULL) == MUSTER_OK)
        unit->marked = which + 1;
}

void timing_anchor(struct lane_unit *unit, const struct run_stream *stream)
{
    const struct run_lane *lane = unit->lane;
    unit->is_anchor = lane->is_timed && unit->number % UNITS_PER_ANCHOR == 0 &&
                      lane_table(lane)->event_record(lane->anchors[!lane->anchor]->state,
                                                     stream->state, NULL) == MUSTER_OK;
}

void timing_read(struct lane_unit *unit)
{
    struct run_lane *lane = unit->lane;
    const struct muster_backend *table = lane_table(lane);
    uint64_t kernel_ns, since_ns, until_ns;
    if (unit->is_anchor && unit->attempt.ended == MUSTER_OK) {
        lane->anchor = !lane->anchor;
        lane->anchor_ns = unit->ended_ns;
    }
    if (!lane->is_timed || lane->anchor_ns == 0 || unit->marked < TIMING_MARKS)
        return;
    void *begin = unit->marks[0]->state, *end = unit->marks[1]->state,
         *anchor = lane->anchors[lane->anchor]->state;
    /* Of the last two one is 0: the kernel ended after the anchor, or before it. */
    if (table->event_elapsed(begin, end, &kernel_ns, NULL) != MUSTER_OK ||
        table->event_elapsed(anchor, end, &since_ns, NULL) != MUSTER_OK ||
        table->event_elapsed(end, anchor, &until_ns, NULL) != MUSTER_OK)
        return;
    uint64_t end_ns = lane->anchor_ns + since_ns;
    end_ns -= until_ns < end_ns ? until_ns : 0;
    /* The host heard late of the anchor's end: no kernel ends after its unit. */
    unit->at_kernel.end_ns = end_ns < unit->ended_ns ? end_ns : unit->ended_ns;
    unit->at_kernel.begin_ns =
        unit->at_kernel.end_ns - (kernel_ns < unit->at_kernel.end_ns ? kernel_ns : 0);
}

/* Adds what of the span lies behind all that was added before. */
static void cover(struct time_cover *cover, struct time_span span)
{
    uint64_t begin_ns = span.begin_ns > cover->until_ns ? span.begin_ns : cover->until_ns;
    if (begin_ns >= span.end_ns)
        return;
    cover->ns += span.end_ns - begin_ns;
    cover->until_ns = span.end_ns;
}

void loss_attempt_locked(struct lane_unit *unit)
{
    struct run_lane *lane = unit->lane;
    struct time_span held = { unit->given_ns, unit->ended_ns };
    struct time_span at_kernel = unit->at_kernel;
    /* A kernel that began while its unit was still being given is counted from there on. */
    if (at_kernel.begin_ns < held.begin_ns)
        at_kernel.begin_ns = held.begin_ns;
    cover(&lane->held, held);
    /* One that was not timed is all work. */
    cover(&lane->at_kernel, at_kernel.end_ns > 0 ? at_kernel : held);
}

void loss_add_locked(struct loss *loss, const struct run_lane *lane, uint64_t items,
                     uint64_t job_start_ns, uint64_t job_end_ns)
{
    uint64_t begin_ns = lane->first_ns > 0 ? lane->first_ns : job_end_ns;
    uint64_t end_ns = lane->last_ns > begin_ns ? lane->last_ns : begin_ns;
    uint64_t busy_ns = lane->busy_ns;
    if (lane->running > 0 && job_end_ns > lane->busy_since_ns) {
        /* A device that hangs has its units to the end. */
        busy_ns += job_end_ns - lane->busy_since_ns;
        end_ns = job_end_ns;
    }
    /* Late attempts may end after the job. */
    uint64_t beyond_ns = end_ns > job_end_ns ? end_ns - job_end_ns : 0;
    busy_ns -= beyond_ns < busy_ns ? beyond_ns : busy_ns;
    end_ns -= beyond_ns;
    uint64_t held_ns = lane->held.ns < busy_ns ? lane->held.ns : busy_ns;
    uint64_t work_ns = lane->at_kernel.ns < held_ns ? lane->at_kernel.ns : held_ns;
    if (items == 0 || work_ns == 0)
        return;
    double rate = (double)items / (double)work_ns;
    loss->rate += rate;
    loss->items += items;
    loss->startup += rate * (double)(begin_ns - job_start_ns);
    loss->starved += end_ns - begin_ns > busy_ns ? rate * (double)(end_ns - begin_ns - busy_ns) : 0;
    loss->tail += rate * (double)(job_end_ns - end_ns);
    loss->overhead += rate * (double)(busy_ns - held_ns);
    loss->transfer += rate * (double)(held_ns - work_ns);
}

void loss_report(const struct loss *loss, struct muster_report *report)
{
    if (loss->rate <= 0)
        return;
    report->bound_ns = (uint64_t)((double)loss->items / loss->rate);
    report->startup_ns = (uint64_t)(loss->startup / loss->rate);
    report->starved_ns = (uint64_t)(loss->starved / loss->rate);
    report->tail_ns = (uint64_t)(loss->tail / loss->rate);
    report->transfer_ns = (uint64_t)(loss->transfer / loss->rate);
    report->overhead_ns = (uint64_t)(loss->overhead / loss->rate);
}
