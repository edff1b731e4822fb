/*
 * When nothing is left to claim: which unit of another lane an idle lane runs too, or takes back
 * before it was started.
 */
#include "core/job_state.h"

/* Undelivered units that are looked at for something to run twice; stragglers are the oldest. */
#define STRAGGLERS_SEEN 32
/*
 * Of units that are done or run twice already, this many are passed over: with 10,000 lanes the list
 * is long, and every idle lane walks it.
 */
#define STRAGGLERS_WALKED 256
/* A copy must be expected to finish in this part of the time that the first run still needs. */
#define COPY_GAIN 0.8

/*
 * In how many nanoseconds it would be worth it that the lane, which is idle, runs a unit whose last
 * run is this one, and was started: when it would clearly be first of all its runs, and at the latest
 * when the last has taken too long. 0 for now, and what is gained.
 */
static double copy_after_ns(const struct job *job, const struct lane *lane,
                            const struct attempt *attempt, uint64_t now_ns, double *gain_ns)
{
    double own_ns = rate_predict_ns(&lane->rate, (double)attempt->items),
           elapsed = job_attempt_elapsed_ns(job, attempt, now_ns),
           expected_ns = rate_predict_ns(&job->lanes[attempt->lane].rate, (double)attempt->items),
           rest_ns = job_attempt_rest_ns(job, attempt, now_ns);
    double rerun_after = job_rerun_ns(job) > elapsed ? job_rerun_ns(job) - elapsed : 0;
    if (!job->options.speculate)
        return JOB_UNLIMITED;
    for (uint32_t i = attempt->older_run; i != JOB_NONE; i = job->attempts[i].older_run) {
        double ns = job_attempt_rest_ns(job, &job->attempts[i], now_ns);
        rest_ns = ns < rest_ns ? ns : rest_ns;
    }
    *gain_ns = rest_ns - own_ns;
    if (lane->rate.samples == 0)
        return rerun_after;
    if (own_ns < COPY_GAIN * rest_ns)
        return 0;
    if (attempt->older_run != JOB_NONE)
        return rerun_after;
    /* The user's own code holds the run up, and its clock stands still: it is looked at again after that. */
    if (job->lanes[attempt->lane].is_held_up)
        return JOB_UNLIMITED;
    double worth_ns = own_ns / COPY_GAIN;
    double worth_after = (expected_ns > worth_ns ? expected_ns : worth_ns) - elapsed + 1;
    return worth_after < rerun_after ? worth_after : rerun_after;
}

/*
 * The same for one that was not started. A lane that nobody has measured tries its luck with what
 * waits behind something else; were a lane's only unit enough, two idle lanes could take it from
 * each other for ever.
 */
static double take_back_after_ns(const struct job *job, const struct lane *lane,
                                 const struct attempt *attempt, uint64_t now_ns, double *gain_ns)
{
    const struct lane *other = &job->lanes[attempt->lane];
    double own_ns = rate_predict_ns(&lane->rate, (double)attempt->items),
           rest_ns = job_lane_backlog_ns(other),
           elapsed = job_attempt_elapsed_ns(job, attempt, now_ns);
    bool is_behind = other->held > 1;
    /* It waits at least as long as the lane has been at the one before it. */
    if (is_behind && elapsed > rest_ns)
        rest_ns = elapsed;
    *gain_ns = rest_ns - own_ns;
    bool is_known = lane->rate.samples > 0 && other->rate.samples > 0;
    if (is_known ? own_ns < rest_ns : is_behind)
        return 0;
    if (!is_known || !is_behind)
        return JOB_UNLIMITED;
    /* If it is started here and a faster lane comes by, that one can run it too. */
    bool is_early = job->options.speculate && job_rerun_ns(job) < own_ns;
    double after = is_early ? job_rerun_ns(job) : own_ns;
    return after >= elapsed ? after - elapsed + 1 : 0;
}

bool job_unit_must_be_cut(const struct job *job, const struct lane *lane, const struct unit *unit)
{
    return job->options.output == JOB_OUTPUT_CUTS && (lane->is_direct || unit->direct != JOB_NONE);
}

/*
 * In how many nanoseconds it would be worth it to stop the only run of a unit, so that the lane, which
 * is idle, runs the rest. 0 for now, and what is gained.
 */
static double cut_after_ns(const struct job *job, const struct lane *lane,
                           const struct attempt *attempt, uint64_t now_ns, double *gain_ns)
{
    double elapsed = job_attempt_elapsed_ns(job, attempt, now_ns),
           rest_ns = job_attempt_rest_ns(job, attempt, now_ns),
           rest_items = (double)attempt->items * rest_ns / (elapsed + rest_ns + 1),
           own_ns = rate_predict_ns(&lane->rate, rest_items);
    if (!attempt->is_direct || attempt->is_unloved || lane->rate.samples == 0 ||
        !is_usable(&job->lanes[attempt->lane]))
        return JOB_UNLIMITED;
    *gain_ns = rest_ns - own_ns;
    if (own_ns < COPY_GAIN * rest_ns)
        return 0;
    double worth_ns = own_ns / COPY_GAIN;
    return worth_ns > elapsed ? worth_ns - elapsed + 1 : JOB_UNLIMITED;
}

struct job_choice job_tail_find(struct job *job, uint32_t lane_index, uint64_t now_ns)
{
    const struct lane *lane = &job->lanes[lane_index];
    struct job_choice choice = { JOB_CHOICE_NONE, JOB_NONE, JOB_NONE, 0, false };
    uint32_t seen = 0;
    double best_ns = 0, soonest_ns = JOB_UNLIMITED;
    if (lane->held > 0 || job->options.place)
        return choice;
    for (uint32_t i = job->oldest, walked = 0;
         i != JOB_NONE && seen < STRAGGLERS_SEEN && walked < STRAGGLERS_WALKED;
         i = job->units[i].next, walked++) {
        const struct unit *unit = &job->units[i];
        if (unit->state != UNIT_RUNNING || !may_have_copies(unit))
            continue;
        const struct attempt *attempt = &job->attempts[unit->newest_run];
        double gain_ns = 0, elapsed = job_attempt_elapsed_ns(job, attempt, now_ns), after;
        seen += attempt->older_run == JOB_NONE;
        bool is_begun = attempt->is_kicked || attempt->older_run != JOB_NONE;
        bool cuts = is_begun && job_unit_must_be_cut(job, lane, unit);
        if (!cuts && !has_units(job, lane, 0, i == job->oldest))
            continue;
        if (!job_unit_may_run(job, lane_index, unit, elapsed))
            after = job_rerun_ns(job) - elapsed;
        else if (cuts)
            after = cut_after_ns(job, lane, attempt, now_ns, &gain_ns);
        else if (attempt->is_kicked)
            after = copy_after_ns(job, lane, attempt, now_ns, &gain_ns);
        else
            after = take_back_after_ns(job, lane, attempt, now_ns, &gain_ns);
        if (after <= 0 && (choice.unit == JOB_NONE || gain_ns > best_ns)) {
            choice.unit = i;
            choice.kind = cuts ? JOB_CHOICE_STOP : JOB_CHOICE_TAIL;
            best_ns = gain_ns;
        }
        soonest_ns = after < soonest_ns ? after : soonest_ns;
    }
    if (choice.unit == JOB_NONE)
        look_by(job, after_ns(now_ns, soonest_ns));
    return choice;
}

bool job_tail_take_back(struct job *job, uint32_t unit)
{
    struct attempt *attempt = &job->attempts[job->units[unit].newest_run];
    if (attempt->is_kicked)
        return false;
    job_attempt_end(job, attempt);
    /* Its lane has room now, and may be one that was not asking. */
    job_lane_wake(job, attempt->lane);
    return true;
}
