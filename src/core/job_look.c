/*
 * How long attempts have taken and may take: when one is overdue, and when somebody must look.
 */
#include "core/job_state.h"

/* Without a time-out of the user's, an attempt is overdue after this many times its expected time. */
#define OVERDUE_FACTOR 20.0
#define OVERDUE_LEAST_NS 1000000000.0
#define OVERDUE_UNKNOWN_NS 10000000000.0
/* Where giving up the lane means giving up the job. */
#define OVERDUE_LAST_NS 3600000000000.0
/* Where nobody knows what an item takes. */
#define OVERDUE_BLIND_NS 86400000000000.0
/*
 * An idle lane runs a unit a second time when its last run has taken this long, and this many times
 * as long as any run that ended well.
 */
#define RERUN_LEAST_NS 1000000000.0
#define RERUN_FACTOR 3.0

static double at_least(const struct job *job, double ns)
{
    return (double)job->options.overdue_least_ns > ns ? (double)job->options.overdue_least_ns : ns;
}

/* How long a measured lane may be silent at least. */
static double patience_ns(const struct job *job)
{
    return job->options.timeout_ns > 0 ? (double)job->options.timeout_ns
                                       : at_least(job, OVERDUE_LEAST_NS);
}

void job_look_soon(struct job *job, uint64_t now_ns)
{
    look_by(job, after_ns(now_ns, patience_ns(job)));
}

double job_attempt_elapsed_ns(const struct job *job, const struct attempt *attempt, uint64_t now_ns)
{
    const struct lane *lane = &job->lanes[attempt->lane];
    uint64_t begin_ns = lane->last_finish_ns;
    if (attempt->is_kicked && attempt->kicked_ns > begin_ns)
        begin_ns = attempt->kicked_ns;
    if (lane->held_up_until_ns > begin_ns)
        begin_ns = lane->held_up_until_ns;
    return lane->is_held_up ? 0 : since_ns(begin_ns, now_ns);
}

double job_attempt_rest_ns(const struct job *job, const struct attempt *attempt, uint64_t now_ns)
{
    double elapsed = job_attempt_elapsed_ns(job, attempt, now_ns);
    double expected_ns = rate_predict_ns(&job->lanes[attempt->lane].rate, (double)attempt->items);
    return expected_ns > elapsed ? expected_ns - elapsed : elapsed;
}

double job_doubt_ns(const struct job *job)
{
    return job->options.timeout_ns > 0 ? (double)job->options.timeout_ns : OVERDUE_UNKNOWN_NS;
}

double job_rerun_ns(const struct job *job)
{
    double ns = RERUN_FACTOR * job->slowest_ns;
    return ns > RERUN_LEAST_NS ? ns : RERUN_LEAST_NS;
}

double job_lane_rest_ns(const struct job *job, uint32_t lane_index, uint64_t now_ns)
{
    const struct attempt *slots = &job->attempts[(size_t)lane_index * job->options.depth];
    double backlog = job_lane_backlog_ns(&job->lanes[lane_index]), elapsed = 0;
    for (uint32_t i = 0; i < job->options.depth; i++) {
        if (!slots[i].is_out || !slots[i].is_kicked)
            continue;
        double ns = job_attempt_elapsed_ns(job, &slots[i], now_ns);
        elapsed = ns > elapsed ? ns : elapsed;
    }
    return backlog > elapsed ? backlog - elapsed : elapsed;
}

/* What is overdue. */

/* Whether an idle lane may run the attempt's unit too, so that nothing waits for this one. */
static bool may_copy(const struct job *job, const struct attempt *attempt)
{
    return job->options.speculate && !job->options.place && attempt->is_active &&
           may_have_copies(&job->units[attempt->unit]);
}

/*
 * Where nobody knows what an item takes, a unit may take as long as it likes, but not while an idle
 * lane is kept from it, nor when nobody wants it any more.
 */
static double blind_ns(const struct job *job, const struct attempt *attempt)
{
    bool is_waited_for = job->state == JOB_RUNNING && (job->idle == 0 || may_copy(job, attempt));
    double ns = is_waited_for ? OVERDUE_BLIND_NS : at_least(job, OVERDUE_UNKNOWN_NS);
    return job_rerun_ns(job) > ns ? job_rerun_ns(job) : ns;
}

/* How long the attempt may take on the lane, with what that holds already. */
static double usual_ns(const struct job *job, const struct lane *lane,
                       const struct attempt *attempt)
{
    bool is_measured = lane->rate.samples > 0;
    if (!is_measured && job->fastest == JOB_NONE)
        return blind_ns(job, attempt);
    const struct rate *rate = is_measured ? &lane->rate : &job->lanes[job->fastest].rate;
    double expected = lane->held * rate->overhead_ns +
                      rate_predict_ns(rate, (double)lane->held_items + (double)attempt->items);
    bool is_last = job->usable == 1 && job->state == JOB_RUNNING && !lane->is_restartable;
    double least = is_last       ? OVERDUE_LAST_NS
                   : is_measured ? patience_ns(job)
                                 : at_least(job, OVERDUE_UNKNOWN_NS);
    return OVERDUE_FACTOR * expected > least ? OVERDUE_FACTOR * expected : least;
}

/* How long the attempt may take, counted from when the lane came to it. */
static double allowed_ns(const struct job *job, const struct lane *lane,
                         const struct attempt *attempt)
{
    if (job->options.timeout_ns > 0)
        return patience_ns(job);
    double usual = usual_ns(job, lane, attempt);
    bool is_dear = attempt->is_active && job->state == JOB_RUNNING && usual < OVERDUE_BLIND_NS;
    return is_dear ? job->units[attempt->unit].patience * usual : usual;
}

uint64_t job_overdue_ns(const struct job *job, uint32_t lane_index)
{
    const struct lane *lane = &job->lanes[lane_index];
    const struct attempt *slots = &job->attempts[(size_t)lane_index * job->options.depth];
    uint64_t first_ns = UINT64_MAX, since_ns = lane->last_finish_ns;
    if (lane->held_up_until_ns > since_ns)
        since_ns = lane->held_up_until_ns;
    for (uint32_t i = 0; i < job->options.depth && !lane->is_held_up; i++) {
        if (!slots[i].is_out || !slots[i].is_kicked)
            continue;
        uint64_t begin_ns = slots[i].kicked_ns > since_ns ? slots[i].kicked_ns : since_ns;
        uint64_t at_ns = after_ns(begin_ns, allowed_ns(job, lane, &slots[i]));
        first_ns = at_ns < first_ns ? at_ns : first_ns;
    }
    return first_ns;
}

void job_lane_held_up(struct job *job, uint32_t lane_index, bool is_held_up, uint64_t now_ns)
{
    struct lane *lane = &job->lanes[lane_index];
    lane->is_held_up = is_held_up;
    lane->held_up_until_ns = now_ns;
    if (!is_held_up)
        job_look_soon(job, now_ns);
}

uint64_t job_look(struct job *job, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    for (uint32_t i = 0; i < job->options.lane_count; i++) {
        const struct lane *lane = &job->lanes[i];
        if (lane->held == 0)
            continue;
        uint64_t at_ns = is_usable(lane) ? job_overdue_ns(job, i) : lane->doubted_until_ns;
        if (at_ns <= now_ns && is_usable(lane))
            job_lane_retire(job, i, false, false, now_ns);
        else if (at_ns <= now_ns)
            job_lane_doubt_ends(job, i);
        if (at_ns <= now_ns)
            at_ns = lane->doubted_until_ns;
        next_ns = at_ns < next_ns ? at_ns : next_ns;
    }
    job_part_look(job, now_ns);
    job->look_ns = job->look_told_ns = next_ns;
    /* A lane that was woken and has not asked may be stuck: others are not to wait for it. */
    job_wake_again(job);
    job->changes++;
    return next_ns;
}

uint64_t job_look_due(const struct job *job)
{
    return job->look_ns;
}
