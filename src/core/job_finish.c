/*
 * How attempts end: results that count, units that are tried again or given up, lanes that are lost
 * or hang.
 */
#include "base/invariant.h"
#include "core/job_state.h"

/*
 * A unit that was overdue is given this many times as long elsewhere, since it may just be a dear one;
 * up to PATIENCE_MAX.
 */
#define OVERDUE_AGAIN 4.0
/* A lane is quarantined after this many failures in a row, for this long at first, and doubled so often. */
#define FAILURES_MAX 8
#define QUARANTINE_NS 1e9
#define QUARANTINE_DOUBLED_MAX 6

/* A hung lane whose last attempt has come back after all is tried again, as one nobody has measured. */
static void revive_if_empty(struct job *job, struct lane *lane)
{
    if (!lane->is_hung || lane->is_lost || lane->held > 0)
        return;
    lane->is_hung = false;
    lane->report.is_hung = false;
    lane->rate = (struct rate){ .samples = 0 };
    lane->largest = 0;
    lane->sure_per_ns = 0;
    lane->doubted_until_ns = UINT64_MAX;
    job->usable++;
}

/* The run ended well: others may take as long. */
static void note_slowest(struct job *job, const struct attempt *attempt, uint64_t now_ns)
{
    double ns = job_attempt_elapsed_ns(job, attempt, now_ns);
    if (ns > job->slowest_ns)
        job->slowest_ns = ns;
}

/* How fast the lane was at this many items of the attempt. One that was run again says nothing of that. */
static void learn(struct job *job, const struct attempt *attempt, uint64_t items, uint64_t now_ns)
{
    struct lane *lane = &job->lanes[attempt->lane];
    uint64_t begin_ns =
        attempt->kicked_ns > lane->last_finish_ns ? attempt->kicked_ns : lane->last_finish_ns;
    if (attempt->is_restarted)
        return;
    rate_sample(&lane->rate, items, now_ns > begin_ns ? now_ns - begin_ns : 0);
    if (items > lane->largest)
        lane->largest = items;
    lane->sure_per_ns = (double)items / (double)(since_ns(attempt->kicked_ns, now_ns) + 1);
    job_lane_count_rate(job, lane);
}

/*
 * Another attempt was first. That does not make this lane's speed unknown: were it not to count, a lane
 * that has become slow would be given units of the old size, and each would be run elsewhere too. One
 * that was stopped would have taken longer still.
 */
static void learn_late(struct job *job, const struct attempt *attempt, enum job_end end,
                       uint64_t now_ns)
{
    const struct lane *lane = &job->lanes[attempt->lane];
    double expected_ns = rate_predict_ns(&lane->rate, (double)attempt->items);
    if (end == JOB_END_OK ||
        (end == JOB_END_STOPPED && job_attempt_elapsed_ns(job, attempt, now_ns) > expected_ns))
        learn(job, attempt, attempt->items, now_ns);
    /* How long one took that was stopped is for how long it was let run: that would make each next one wait longer. */
    if (end == JOB_END_OK && !attempt->is_restarted)
        note_slowest(job, attempt, now_ns);
}

/*
 * A unit failed on the lane, as those before it did. If other lanes do not fail so, that is the
 * device's fault: the lane is left alone for a while, each time twice as long. True if so.
 */
static bool quarantine(struct job *job, struct lane *lane, uint64_t now_ns)
{
    bool is_alone = true;
    if (++lane->failures < FAILURES_MAX)
        return false;
    for (uint32_t i = 0; i < job->options.lane_count && is_alone; i++)
        is_alone = !is_usable(&job->lanes[i]) || job->lanes[i].failures >= FAILURES_MAX;
    if (is_alone)
        return false;
    double rest_ns = QUARANTINE_NS * (double)(UINT64_C(1) << lane->rests);
    lane->rests += lane->rests < QUARANTINE_DOUBLED_MAX;
    lane->rests_until_ns = after_ns(now_ns, rest_ns);
    lane->report.is_quarantined = true;
    job_lane_count_rate(job, lane);
    return true;
}

/* The lane has done a unit well. */
static void trust(struct job *job, struct lane *lane)
{
    lane->failures = lane->rests = 0;
    if (!is_quarantined(lane))
        return;
    lane->rests_until_ns = 0;
    lane->report.is_quarantined = false;
    job_lane_count_rate(job, lane);
}

static enum job_verdict accept(struct job *job, uint32_t unit_index, struct lane *lane,
                               bool is_direct)
{
    struct unit *unit = &job->units[unit_index];
    job_unit_end_runs(job, unit);
    unit->is_direct = is_direct;
    job_unit_end(job, unit_index);
    trust(job, lane);
    lane->report.items += items_of(unit);
    lane->report.units++;
    return JOB_ACCEPTED;
}

/* The attempt failed, and one of its items is to blame: that is found, unless another run does it well. */
static enum job_verdict narrow(struct job *job, uint32_t unit_index, uint32_t lane,
                               enum job_end end, uint64_t at, uint64_t now_ns)
{
    struct unit *unit = &job->units[unit_index];
    unit->last_lane = lane;
    unit->is_suspect = unit->is_doubted = false;
    if (has_runs(unit))
        return JOB_AGAIN;
    job_unit_narrow(job, unit_index, at, end == JOB_END_USER, now_ns);
    job->retries++;
    return job->state == JOB_FAILED ? JOB_REFUSED : JOB_AGAIN;
}

/* The attempt failed, and its unit with it unless it still runs elsewhere. */
static enum job_verdict retry(struct job *job, uint32_t unit_index, uint32_t lane, enum job_end end,
                              uint64_t at, uint64_t now_ns)
{
    struct unit *unit = &job->units[unit_index];
    if (end == JOB_END_MEMORY || end == JOB_END_AGAIN) {
        if (!has_runs(unit))
            job_unit_wait(job, unit_index, now_ns);
        return JOB_AGAIN;
    }
    job->lanes[lane].report.retries++;
    /* A device that fails everything costs no unit its tries. */
    bool is_charged = end != JOB_END_UNIT || !quarantine(job, &job->lanes[lane], now_ns);
    if (is_charged && job_unit_is_narrowed(job, unit))
        return narrow(job, unit_index, lane, end, at, now_ns);
    unit->tries += is_charged;
    if (end == JOB_END_USER || unit->tries >= job->options.tries) {
        job_unit_end_runs(job, unit);
        job_unit_give_up(job, unit_index);
        return job->options.tolerant ? JOB_GIVEN_UP : JOB_REFUSED;
    }
    unit->last_lane = lane;
    unit->is_suspect = unit->is_doubted = false;
    if (!has_runs(unit))
        job_unit_retry(job, unit_index, now_ns);
    return JOB_AGAIN;
}

/* Whether what the attempt has done of its unit stays done. */
static bool is_cutting(const struct job *job, const struct attempt *attempt)
{
    return job->options.output == JOB_OUTPUT_CUTS && attempt->is_direct;
}

/* The job is over, and nothing of the lane counts any more; it may be over because the lane was gone. */
static bool is_too_late(const struct job *job, const struct lane *lane)
{
    return job->state == JOB_CANCELLED || (job->state != JOB_RUNNING && !is_usable(lane));
}

/* Its device took the unit with it: run again, alone, unless it has done so too often. */
static void suspect(struct job *job, uint32_t unit_index, uint32_t lane, bool is_blamed,
                    uint64_t now_ns)
{
    struct unit *unit = &job->units[unit_index];
    unit->is_suspect = true;
    unit->last_lane = lane;
    if (is_blamed && job_unit_is_narrowed(job, unit)) {
        job_unit_narrow(job, unit_index, JOB_DONE_UNKNOWN, false, now_ns);
        job->retries++;
        return;
    }
    if (is_blamed && ++unit->domains_taken >= job_domains_taken_max(job))
        job_unit_give_up(job, unit_index);
    else
        job_unit_retry(job, unit_index, now_ns);
}

/*
 * An attempt in the caller's array is over, and has not ended well: what it has done stays, and the
 * rest is run elsewhere. Where nobody knows what it has done, nobody can go on from there.
 */
static enum job_verdict cut(struct job *job, const struct attempt *attempt, enum job_end end,
                            uint64_t done, uint64_t now_ns)
{
    struct lane *lane = &job->lanes[attempt->lane];
    uint32_t rest = attempt->unit;
    INVARIANT(done == JOB_DONE_UNKNOWN || done <= attempt->items);
    if (done == JOB_DONE_UNKNOWN) {
        lane->report.retries++;
        job_unit_fail(job, rest);
        return JOB_REFUSED;
    }
    if (done == attempt->items)
        return accept(job, rest, lane, true);
    if (done > 0) {
        INVARIANT(whole_grains(job, done) == done);
        rest = job_unit_cut(job, rest, done);
        lane->report.items += done;
        lane->report.units++;
    }
    if (end == JOB_END_STOPPED) {
        job->units[rest].last_lane = attempt->lane;
        job_unit_wait(job, rest, now_ns);
        return JOB_AGAIN;
    }
    if (end != JOB_END_DEVICE)
        return retry(job, rest, attempt->lane, end, done, now_ns);
    suspect(job, rest, attempt->lane, attempt->is_blamed, now_ns);
    return job->units[rest].state == UNIT_FAILED ? JOB_REFUSED : JOB_AGAIN;
}

/* The attempt ended with its device. */
static enum job_verdict end_with_device(struct job *job, struct attempt *attempt, uint64_t done,
                                        uint64_t now_ns)
{
    const struct lane *lane = &job->lanes[attempt->lane];
    const struct unit *unit = &job->units[attempt->unit];
    bool is_late = !attempt->is_active;
    if (!is_late && is_cutting(job, attempt) && !is_too_late(job, lane)) {
        /* First what it has done: with its last lane the job may fail, unless all is done. */
        if (is_usable(lane))
            attempt->is_blamed = job->domains[lane->domain].held == 1;
        job_attempt_end(job, attempt);
        enum job_verdict verdict = cut(job, attempt, JOB_END_DEVICE, done, now_ns);
        job_lane_lost(job, attempt->lane, now_ns);
        return verdict;
    }
    job_lane_lost(job, attempt->lane, now_ns);
    if (attempt->is_active)
        job_attempt_cancel(job, attempt);
    else if (attempt->is_out)
        job_attempt_end(job, attempt);
    return is_late                      ? JOB_LATE
           : unit->state == UNIT_FAILED ? JOB_REFUSED
           : unit->has_failed           ? JOB_GIVEN_UP
                                        : JOB_AGAIN;
}

enum job_verdict job_finish_at(struct job *job, struct job_ticket ticket, enum job_end end,
                               uint64_t done, uint64_t now_ns)
{
    struct attempt *attempt = job_attempt_find(job, ticket);
    if (!attempt)
        return JOB_LATE;
    uint32_t lane_index = attempt->lane, unit = attempt->unit;
    struct lane *lane = &job->lanes[lane_index];
    if (end == JOB_END_DEVICE)
        return end_with_device(job, attempt, done, now_ns);
    job_look_soon(job, now_ns);
    if (!attempt->is_active) {
        learn_late(job, attempt, end, now_ns);
        if (end == JOB_END_OK)
            job_part_late(job, lane_index, now_ns);
        job_attempt_end(job, attempt);
        lane->last_finish_ns = now_ns;
        lane->report.copies_lost++;
        revive_if_empty(job, lane);
        return JOB_LATE;
    }
    INVARIANT(end != JOB_END_DROPPED || job->state != JOB_RUNNING);
    INVARIANT(end != JOB_END_STOPPED || is_cutting(job, attempt));
    if (is_too_late(job, lane) || end == JOB_END_DROPPED) {
        job_attempt_cancel(job, attempt);
        return JOB_LATE;
    }
    uint64_t counted = end == JOB_END_OK                                    ? attempt->items
                       : end == JOB_END_STOPPED && done != JOB_DONE_UNKNOWN ? done
                                                                            : 0;
    if (counted > 0) {
        learn(job, attempt, counted, now_ns);
        if (!attempt->is_restarted)
            note_slowest(job, attempt, now_ns);
        job_part_finished(job, lane_index, counted, now_ns);
    }
    lane->last_finish_ns = now_ns;
    bool is_direct = attempt->is_direct;
    job_attempt_end(job, attempt);
    revive_if_empty(job, lane);
    if (end == JOB_END_OK)
        return accept(job, unit, lane, is_direct);
    return is_cutting(job, attempt) ? cut(job, attempt, end, done, now_ns)
                                    : retry(job, unit, lane_index, end, done, now_ns);
}

enum job_verdict job_finish(struct job *job, struct job_ticket ticket, enum job_end end,
                            uint64_t now_ns)
{
    return job_finish_at(job, ticket, end, 0, now_ns);
}

/*
 * The lane will not finish what it has, which is anybody's now unless it runs elsewhere too. What was
 * started on a device that died is suspect.
 */
static void drop_attempts(struct job *job, uint32_t lane_index, bool is_loss, bool is_charged,
                          uint64_t now_ns)
{
    struct attempt *slots = job_lane_slots(job, lane_index);
    for (uint32_t i = 0; i < job->options.depth; i++) {
        struct attempt *attempt = &slots[i];
        struct unit *unit = &job->units[attempt->unit];
        if (!attempt->is_out)
            continue;
        if (!attempt->is_kicked) {
            job_attempt_end(job, attempt);
            if (!has_runs(unit))
                job_unit_wait(job, attempt->unit, now_ns);
            continue;
        }
        job_attempt_abandon(job, attempt);
        if (attempt->is_direct)
            job->lanes[lane_index].doubted_until_ns = after_ns(now_ns, job_doubt_ns(job));
        if (!attempt->is_active)
            continue;
        if (!is_loss && unit->patience < PATIENCE_MAX)
            unit->patience *= OVERDUE_AGAIN;
        /* What it has done of its unit, only it can tell. */
        attempt->is_blamed = is_charged;
        if (is_cutting(job, attempt))
            continue;
        job_attempt_deactivate(job, attempt);
        /*
         * Where it takes long until a loss is noticed, there always is another copy: one after the other
         * would be lost, and none of them alone.
         */
        unit->is_doubted = unit->is_doubted || (is_loss && job->options.narrows);
        if (has_runs(unit))
            continue;
        if (is_loss) {
            suspect(job, attempt->unit, lane_index, is_charged, now_ns);
            continue;
        }
        unit->last_lane = lane_index;
        job_unit_retry(job, attempt->unit, now_ns);
    }
    look_by(job, job->lanes[lane_index].doubted_until_ns);
}

void job_lane_doubt_ends(struct job *job, uint32_t lane)
{
    struct attempt *slots = job_lane_slots(job, lane);
    job->lanes[lane].doubted_until_ns = UINT64_MAX;
    for (uint32_t i = 0; i < job->options.depth && job->state == JOB_RUNNING; i++)
        if (slots[i].is_out && slots[i].is_direct)
            job_unit_doom(job, slots[i].unit);
}

void job_fail_without_lanes(struct job *job)
{
    if (job->usable == 0 && job->expected == 0 && !job->options.waits_for_lanes)
        job_fail(job);
}

void job_lane_retire(struct job *job, uint32_t lane_index, bool is_loss, bool is_charged,
                     uint64_t now_ns)
{
    struct lane *lane = &job->lanes[lane_index];
    bool was_usable = is_usable(lane);
    if (was_usable)
        drop_attempts(job, lane_index, is_loss, is_charged, now_ns);
    if (lane->is_absent)
        return;
    lane->is_lost = lane->is_lost || is_loss;
    lane->is_hung = lane->is_hung || !is_loss;
    lane->report.is_lost = lane->is_lost;
    lane->report.is_hung = lane->is_hung;
    if (!was_usable)
        return;
    job_lane_count_rate(job, lane);
    job_lane_set_idle(job, lane, false);
    job_lane_asks_no_more(job, lane_index);
    if (job->draining == lane_index)
        job->draining = JOB_NONE;
    job->usable--;
    job_fail_without_lanes(job);
}

void job_lane_lost(struct job *job, uint32_t lane, uint64_t now_ns)
{
    uint32_t domain = job->lanes[lane].domain;
    /* Charged with it is only what it can have been. */
    bool was_alone = job->domains[domain].held == 1;
    for (uint32_t i = 0; i < job->options.lane_count; i++)
        if (job->lanes[i].domain == domain)
            job_lane_retire(job, i, true, was_alone, now_ns);
}
