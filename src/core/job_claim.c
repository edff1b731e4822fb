/*
 * What a lane that asks is given: a unit to run again, a new one, or one of another lane.
 */
#include "core/job_state.h"

bool job_unit_may_run(const struct job *job, uint32_t lane, const struct unit *unit,
                      double waited_ns)
{
    return unit->last_lane != lane || job->usable == 1 || waited_ns >= job_rerun_ns(job);
}

/* The fastest measured lane but this one; JOB_NONE if there is none. */
static uint32_t fastest_beside(const struct job *job, uint32_t except)
{
    uint32_t best = JOB_NONE;
    if (job->fastest != except)
        return job->fastest;
    for (uint32_t i = 0; i < job->options.lane_count; i++)
        if (i != except && job->lanes[i].counted > 0 &&
            (best == JOB_NONE || job->lanes[i].counted > job->lanes[best].counted))
            best = i;
    return best;
}

/*
 * Whether this many items of a waiting unit are better left to the fastest lane, which would first run
 * those that wait before them: if it ends them sooner, and this lane not before the job's end or
 * before the window is full. The unit is not left to it for longer than it would take here. If it is,
 * the next look is when that is over.
 */
static bool ends_sooner_elsewhere(struct job *job, uint32_t lane_index, const struct unit *unit,
                                  uint64_t items, uint64_t ahead, uint64_t now_ns)
{
    const struct lane *lane = &job->lanes[lane_index];
    if (lane->rate.samples == 0)
        return false;
    double here_ns = job_lane_backlog_ns(lane) + rate_predict_ns(&lane->rate, (double)items);
    double left_ns = here_ns - since_ns(unit->waiting_ns, now_ns);
    double end_ns = job_end_after_ns(job, lane),
           window_ns = (double)job->options.window / job->rate_sum;
    if (job->options.window > 0 && window_ns < end_ns)
        end_ns = window_ns;
    if (here_ns <= end_ns || left_ns <= 0)
        return false;
    uint32_t fastest = fastest_beside(job, unit->last_lane);
    if (fastest == JOB_NONE || fastest == lane_index)
        return false;
    double there_ns = job_lane_rest_ns(job, fastest, now_ns) +
                      rate_predict_ns(&job->lanes[fastest].rate, (double)items + (double)ahead);
    if (here_ns <= there_ns)
        return false;
    look_by(job, after_ns(now_ns, left_ns));
    return true;
}

/*
 * Whether a part of the unit may be run apart from the rest. Units of a size that was asked for keep
 * it. On its last try a unit is whole: each part might fail where the whole would not have. So is one
 * into which a direct attempt may still write.
 */
static bool may_split(const struct job *job, const struct lane *lane, const struct unit *unit)
{
    return job->options.unit == JOB_UNIT_ADAPTIVE && has_units(job, lane, 1, false) &&
           unit->direct == JOB_NONE && (unit->tries == 0 || unit->tries + 1 < job->options.tries);
}

/* How many of a waiting unit's items the lane should run now, 0 for none. */
static uint64_t retry_size(struct job *job, uint32_t lane_index, const struct unit *unit,
                           uint64_t ahead, uint64_t now_ns)
{
    uint64_t items = items_of(unit), size = items;
    const struct lane *lane = &job->lanes[lane_index];
    if (!has_units(job, lane, 0, unit == &job->units[job->oldest]))
        return 0;
    if (!job_unit_may_run(job, lane_index, unit, since_ns(unit->waiting_ns, now_ns))) {
        look_by(job, after_ns(unit->waiting_ns, job_rerun_ns(job)));
        return 0;
    }
    if (may_split(job, lane, unit))
        size = job_size_up_to_grains(job, job_size_adaptive(job, lane, items));
    /* A small rest is not worth a unit. */
    if (size > items - items / 3)
        size = items;
    return ends_sooner_elsewhere(job, lane_index, unit, size, ahead, now_ns) ? 0 : size;
}

/* Suspects. */

/*
 * Parts of a unit that kills devices must not kill all of them at once: about half of the lanes run
 * some. The fastest may always be one of those, or slow ones would keep it from what it does best.
 */
static bool may_run_suspects(const struct job *job, uint32_t lane)
{
    return job->suspects == 0 || 2 * job->suspects + 1 < job->usable || lane == job->fastest;
}

/* Whether the lane's failure domain is to run empty for a suspect. */
static bool drains(const struct job *job, const struct lane *lane)
{
    return job->draining != JOB_NONE && job->lanes[job->draining].domain == lane->domain;
}

/* Somebody must run empty for a suspect: the first who comes by, or one that is much faster. */
static void offer_to_drain(struct job *job, uint32_t lane)
{
    if (may_run_suspects(job, lane) &&
        (job->draining == JOB_NONE ||
         job->lanes[job->draining].counted < job->lanes[lane].counted / 2))
        job->draining = lane;
}

/*
 * The oldest waiting unit that the lane should run, or the first part of it. A suspect wants a failure
 * domain to itself.
 */
static struct job_choice find_retry(struct job *job, uint32_t lane, uint64_t now_ns)
{
    bool has_room = job->domains[job->lanes[lane].domain].held == 0 && may_run_suspects(job, lane);
    bool takes_suspects = true;
    uint64_t ahead = 0;
    for (uint32_t i = job->retry_first, before = JOB_NONE; i != JOB_NONE;
         before = i, i = job->units[i].retry_next) {
        const struct unit *unit = &job->units[i];
        uint64_t size = 0;
        if (!unit->is_suspect || takes_suspects)
            size = retry_size(job, lane, unit, ahead, now_ns);
        if (size > 0 && unit->is_suspect && !has_room) {
            offer_to_drain(job, lane);
            /* Nothing that is younger comes before it. */
            if (drains(job, &job->lanes[lane]))
                break;
            takes_suspects = false;
            size = 0;
        }
        if (size > 0)
            return (struct job_choice){ JOB_CHOICE_RETRY, i, before, size, false };
        ahead += items_of(unit);
    }
    return (struct job_choice){ JOB_CHOICE_NONE, JOB_NONE, JOB_NONE, 0, false };
}

bool job_lane_must_drain(struct job *job, const struct lane *lane)
{
    if (!drains(job, lane))
        return false;
    /* One that is empty and has not taken it will not. */
    bool is_emptying = job->domains[lane->domain].held > 0 && may_run_suspects(job, job->draining);
    for (uint32_t i = is_emptying ? job->retry_first : JOB_NONE; i != JOB_NONE;
         i = job->units[i].retry_next)
        if (job->units[i].is_suspect && job_unit_may_run(job, job->draining, &job->units[i], 0))
            return true;
    /* Or another lane was quicker. */
    job->draining = JOB_NONE;
    return false;
}

/* Claims. */

bool job_lane_rests(struct job *job, const struct lane *lane, uint64_t now_ns)
{
    if (!is_quarantined(lane) || (now_ns >= lane->rests_until_ns && lane->held == 0))
        return false;
    if (now_ns < lane->rests_until_ns)
        look_by(job, lane->rests_until_ns);
    return true;
}

/*
 * There is nothing for the lane. If that is because a faster one, which is busy, should take it, the
 * next look is when that one is clearly late.
 */
static void look_when_fastest_is_late(struct job *job, const struct lane *lane, uint64_t now_ns)
{
    if (job->options.place || job->options.unit != JOB_UNIT_ADAPTIVE)
        return;
    double wait_ns = job_size_left_to_fastest_ns(job, lane, items_ahead(job), now_ns);
    if (wait_ns > 0 && job->lanes[job->fastest].held > 0)
        look_by(job, after_ns(now_ns, wait_ns));
}

struct job_choice job_choose(struct job *job, uint32_t lane_index, uint64_t now_ns)
{
    const struct lane *lane = &job->lanes[lane_index];
    struct job_choice choice = { JOB_CHOICE_REFUSED, JOB_NONE, JOB_NONE, 0, false };
    if (lane->given > 0) {
        choice.kind = JOB_CHOICE_GIVEN;
        return choice;
    }
    if (job->state != JOB_RUNNING || !may_take(lane) || lane->held == job->options.depth ||
        job->domains[lane->domain].is_alone || job_lane_rests(job, lane, now_ns))
        return choice;
    struct job_choice retry = find_retry(job, lane_index, now_ns);
    bool has_failed =
        retry.kind == JOB_CHOICE_RETRY && job->units[retry.unit].last_lane != JOB_NONE;
    if (lane->is_left_out && !has_failed)
        return choice;
    if (retry.kind == JOB_CHOICE_RETRY)
        return retry;
    if (job_lane_must_drain(job, lane))
        return choice;
    choice.kind = JOB_CHOICE_NONE;
    if (!job->options.place || job_place(job, now_ns) == lane_index)
        choice.size = job_size_next(job, lane, now_ns);
    if (choice.size > 0) {
        struct job_choice head = job_head_find(job, lane_index, choice.size, now_ns);
        if (head.kind == JOB_CHOICE_TAIL)
            return head;
        /* The rest of that unit is for the next lane that asks. */
        job_stop_for(job, &head);
        double refused_ns =
            job->options.place ? 0 : job_head_refused_ns(job, lane, choice.size, now_ns);
        if (refused_ns > 0) {
            look_by(job, after_ns(now_ns, refused_ns));
            choice.size = 0;
            return choice;
        }
        choice.kind = JOB_CHOICE_NEW;
        choice.is_trial = refused_ns < 0;
        return choice;
    }
    if (job_size_has_none(job, lane))
        choice = job_tail_find(job, lane_index, now_ns);
    else if (lane->held == 0)
        look_when_fastest_is_late(job, lane, now_ns);
    return choice;
}

/* Makes the unit that was chosen the lane's to run; true if it runs elsewhere too. */
static bool take(struct job *job, uint32_t lane, struct job_choice *choice)
{
    switch (choice->kind) {
    case JOB_CHOICE_RETRY:
        if (choice->size < items_of(&job->units[choice->unit]))
            job_unit_split(job, choice->unit, choice->size);
        job_unit_unlink(job, choice->unit, choice->before);
        return false;
    case JOB_CHOICE_TAIL:
        return !job_tail_take_back(job, choice->unit);
    case JOB_CHOICE_NEW:
    default:
        job->turn = (lane + 1) % job->options.lane_count;
        if (choice->is_trial)
            rate_doubt(&job->lanes[lane].rate);
        choice->unit = job_unit_make(job, choice->size);
        job_pass_stored(job);
        return false;
    }
}

static void describe(const struct job *job, const struct attempt *attempt, struct job_claim *out)
{
    *out =
        (struct job_claim){ .ticket = { (uint32_t)(attempt - job->attempts), attempt->generation },
                            .range = job->units[attempt->unit].range,
                            .unit = attempt->unit,
                            .is_copy = attempt->is_copy,
                            .is_direct = attempt->is_direct };
}

bool job_claim(struct job *job, uint32_t lane_index, uint64_t now_ns, struct job_claim *out)
{
    struct job_choice choice = job_choose(job, lane_index, now_ns);
    if (!is_chosen(choice.kind)) {
        job_lane_asks(job, lane_index, &choice, now_ns);
        return false;
    }
    if (job->begun_ns == OPENING_NEVER)
        job->begun_ns = now_ns;
    if (choice.kind == JOB_CHOICE_GIVEN) {
        struct attempt *given = job_lane_given(job, lane_index);
        given->is_given = false;
        job->lanes[lane_index].given--;
        describe(job, given, out);
        return true;
    }
    bool is_copy = take(job, lane_index, &choice);
    struct job_ticket ticket = job_attempt_begin(job, lane_index, choice.unit, is_copy);
    describe(job, &job->attempts[ticket.attempt], out);
    out->is_retry = choice.kind == JOB_CHOICE_RETRY;
    return true;
}
