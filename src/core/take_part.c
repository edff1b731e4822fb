#include "core/take_part.h"

#include "base/invariant.h"

/* Weight of the newest unit in a lane's rate. */
#define RATE_ALPHA 0.4
/* A lane's rate is known when it is not given larger units any more; much larger is by this factor. */
#define SETTLED_GROWTH 2
/* Lanes are not waited for longer than this part of the job. */
#define SETTLED_AFTER 0.1
/*
 * While the controller measures, a unit should take at most this part of the job, and its fixed cost
 * may be this part of the unit.
 */
#define UNIT_PART (1.0 / 2000)
#define UNIT_OVERHEAD 0.08
/* The same while somebody is missing who may come and change everything. */
#define UNIT_PART_MISSING (1.0 / 1000)
/*
 * But before a trial never shorter than this, and of a lane that is alone than that: where a unit costs waking
 * sixteen cores, short ones are all cost, and what that is has not been measured yet.
 */
#define UNIT_LEAST_NS 100e3
#define UNIT_ALONE_NS 1e6
/* Units of each lane in the first two stretches of a trial; in each two after them twice as many. */
#define STRETCH_UNITS 3
#define STEPS_MAX 8
/* Lanes below this part of the fastest are not waited for in a stretch, and are tried before others. */
#define SMALL_PART 0.15
/* A lane that does this part of everything is not tried: others would have to be five times as fast. */
#define PILLAR_PART 0.8
/* What is not known yet of a lane's noise: this many changes from unit to unit, of this variance. */
#define NOISE_KNOWN 2.0
#define NOISE_VARIANCE 0.0025
#define NOISE_LEAST 0.0001
/* A lane is left out if the job is faster by this part without it, and let in if it is by this part. */
#define GAIN_OUT 0.02
#define GAIN_IN 0.01
/*
 * Whether a lane is slight is asked after this part of the job, and not before so long; if it has not
 * finished two units yet, not before that: the first may have waited for something that does not come again.
 */
#define SLIGHT_PART 0.01
#define SLIGHT_LEAST_NS 10e6
#define SLIGHT_FIRST_NS 20e6
/* What is this much faster is believed without a second look. */
#define GAIN_SURE 0.15
/* A gain below this may be the smaller one: the other lanes are tried before anybody is left out. */
#define GAIN_LARGE 0.2
/* How many standard deviations above, or below, what is asked for; as squares. */
#define SURE_ABOVE 9.0
#define SURE_BELOW 4.0
/*
 * All trials together may take this part of the job, since their units are short. If there were others of
 * its kind there will be more, which it is worth to them.
 */
#define TRIALS_PART 0.06
#define TRIALS_PART_AGAIN 0.1
/* None begins where less than this part of the job is left after it. */
#define AFTER_PART 0.1
/* A trial that does not get on is given up after this many times as long as it should take. */
#define TRIAL_LATE 20.0
/* Units that were tried are tried again after this part of the job, then after twice as long. */
#define REST_PART 0.125
/* Or when what all deliver has become less or more by this factor, seen over this many units. */
#define SHIFT_FACTOR 1.5
#define SHIFT_UNITS 32
#define SHIFT_ALPHA 0.05
/* A job that delivers this many times less or more than those before it does not believe them. */
#define LESSON_FACTOR 2.0
/* This many jobs of a kind believe what was learned. */
#define JOBS_BELIEVED 64

static bool is_in(const struct take_part_lane *lane)
{
    return !lane->is_out && !lane->is_gone;
}

/* Whether the lane is one of those that are tried. */
static bool is_tried_now(const struct take_part *part, uint32_t lane)
{
    return part->set >> lane & 1;
}

static bool is_trial(const struct take_part *part)
{
    return part->phase == TAKE_PART_MEASURING || part->phase == TAKE_PART_CHANGING;
}

/* Whether those that are tried are left out at the moment. */
static bool are_out(const struct take_part *part)
{
    return part->were_out != (part->step % 2 > 0);
}

static double since(uint64_t begin_ns, uint64_t now_ns)
{
    return now_ns > begin_ns ? (double)(now_ns - begin_ns) : 0;
}

/* Who takes part, or can, has changed: counts again what depends on it. */
static void recount(struct take_part *part)
{
    part->version++;
    part->rate = 0;
    part->in = part->gone = part->away = 0;
    for (uint32_t i = 0; i < part->count; i++) {
        const struct take_part_lane *lane = &part->lanes[i];
        part->rate += is_in(lane) ? lane->rate : 0;
        part->in += is_in(lane);
        part->gone += lane->is_gone;
        part->away += lane->is_gone && !lane->is_lost;
    }
}

/* How long the job takes in all, as things are; 0 if nobody knows. */
static double job_ns(const struct take_part *part, uint64_t now_ns)
{
    double rate = part->rate;
    return rate > 0 ? since(part->begin_ns, now_ns) + part->left / rate : 0;
}

static double budget_ns(const struct take_part *part, uint64_t now_ns)
{
    double most = part->is_again ? TAKE_PART_COST_AGAIN : TAKE_PART_COST_MAX;
    return most * job_ns(part, now_ns) + part->saved_ns - part->spent_ns;
}

/* How long trials may still take. */
static double time_ns(const struct take_part *part, uint64_t now_ns)
{
    double most = part->is_again ? TRIALS_PART_AGAIN : TRIALS_PART;
    return most * job_ns(part, now_ns) - part->trials_ns;
}

static void enter(struct take_part *part, enum take_part_phase phase, uint64_t now_ns)
{
    part->phase = phase;
    part->phase_ns = now_ns;
}

static void rest(struct take_part *part, uint64_t now_ns)
{
    part->rest_rate = part->smooth_rate = part->rate;
    part->rest_units = 0;
    enter(part, TAKE_PART_RESTING, now_ns);
}

void take_part_init(struct take_part *part, struct take_part_lane *lanes, uint32_t count,
                    uint32_t depth, const struct take_part_lesson *lesson, uint64_t now_ns)
{
    INVARIANT(count >= 2 && count <= TAKE_PART_LANES_MAX);
    *part =
        (struct take_part){ .lanes = lanes, .count = count, .depth = depth, .begin_ns = now_ns };
    for (uint32_t i = 0; i < count; i++) {
        lanes[i] = (struct take_part_lane){ .domain = i };
        if (!lesson || lesson->jobs >= JOBS_BELIEVED)
            continue;
        lanes[i].is_out = lanes[i].is_out_by_rule = lesson->left_out >> i & 1;
        lanes[i].is_tried = lanes[i].is_tried_by_rule = lesson->tried >> i & 1;
        lanes[i].is_slight = lesson->slight >> i & 1;
        lanes[i].faster_without = lesson->faster_without[i];
    }
    if (lesson && lesson->jobs < JOBS_BELIEVED) {
        part->saved_ns = lesson->unspent_ns;
        part->jobs = lesson->jobs;
        part->lesson_rate = lesson->rate;
        part->is_again = lesson->jobs > 0;
        part->is_whole = lesson->is_whole;
        part->is_best_tried = lesson->is_best_tried;
        part->whole = lesson->whole;
    }
    for (uint32_t i = 0; i < count && part->is_whole; i++)
        lanes[i].is_out = whole_jobs_left_out(&part->whole) >> i & 1;
    part->now_ns = now_ns;
    recount(part);
    enter(part, part->is_whole ? TAKE_PART_RESTING : TAKE_PART_SETTLING, now_ns);
}

void take_part_describe(struct take_part *part, uint32_t lane, uint32_t domain, double weight)
{
    part->lanes[lane].domain = domain;
    part->lanes[lane].weight = weight;
}

bool take_part_is_in(const struct take_part *part, uint32_t lane)
{
    return !part->lanes[lane].is_out;
}

static double at_least(double ns, double least_ns)
{
    return ns > least_ns ? ns : least_ns;
}

struct take_part_size take_part_size(const struct take_part *part)
{
    double whole_ns = job_ns(part, part->now_ns), missing_ns = UNIT_PART_MISSING * whole_ns;
    /* Who is alone is compared with nobody. */
    if (part->in <= 1 && !is_trial(part))
        return (struct take_part_size){ part->away > 0 ? at_least(missing_ns, UNIT_ALONE_NS) : 0,
                                        0 };
    /* In a trial the job may seem longer, which is no reason for longer units. */
    if (is_trial(part))
        return (struct take_part_size){ UNIT_PART * part->trial_job_ns, UNIT_OVERHEAD };
    if (part->phase == TAKE_PART_SETTLING)
        return (struct take_part_size){ at_least(UNIT_PART * whole_ns, UNIT_LEAST_NS),
                                        UNIT_OVERHEAD };
    return (struct take_part_size){ part->away > 0 ? at_least(missing_ns, UNIT_LEAST_NS) : 0, 0 };
}

double take_part_faster_without(const struct take_part *part, uint32_t lane)
{
    bool is_left_out =
        is_trial(part) && is_tried_now(part, lane) ? part->were_out : part->lanes[lane].is_out;
    return is_left_out ? (double)part->lanes[lane].faster_without : 0;
}

/* Stretches. */

static void begin_stretch(struct take_part *part, uint64_t now_ns)
{
    for (uint32_t i = 0; i < part->count; i++) {
        part->lanes[i].has_begun = false;
        part->lanes[i].units = 0;
        part->lanes[i].last_rate = 0;
    }
    enter(part, TAKE_PART_MEASURING, now_ns);
}

/* A lane that is slower, and takes part, is not waited for. */
static double least_rate(const struct take_part *part)
{
    double fastest = 0;
    for (uint32_t i = 0; i < part->count; i++)
        if (is_in(&part->lanes[i]) && part->lanes[i].rate > fastest)
            fastest = part->lanes[i].rate;
    return SMALL_PART * fastest;
}

/* Whether all lanes that are waited for have finished this many units in the stretch. */
static bool has_units(const struct take_part *part, uint32_t units)
{
    double least = least_rate(part);
    bool is_full = true;
    for (uint32_t i = 0; i < part->count; i++)
        is_full = is_full && (!is_in(&part->lanes[i]) || part->lanes[i].rate < least ||
                              part->lanes[i].units >= units);
    return is_full;
}

/* What all deliver with the lanes that are tried, or without them, and the variance of that. */
static double rate_in_trial(const struct take_part *part, bool with, double *variance)
{
    double sum = 0;
    for (uint32_t i = 0; i < part->count; i++) {
        const struct take_part_lane *lane = &part->lanes[i];
        const struct take_part_pool *pool = &lane->pools[with];
        bool is_there = is_tried_now(part, i) ? with && !lane->is_gone : is_in(lane);
        if (!is_there)
            continue;
        double rate = pool->ns > 0 ? pool->items / pool->ns : lane->rate;
        double noise =
            (lane->squares / 2 + NOISE_KNOWN * NOISE_VARIANCE) / (lane->changes + NOISE_KNOWN);
        noise = noise > NOISE_LEAST ? noise : NOISE_LEAST;
        sum += rate;
        *variance += rate * rate * noise / (pool->units > 0 ? pool->units : 1);
    }
    return sum;
}

/* Trials. */

static void set_out(struct take_part *part, bool are_out)
{
    for (uint32_t i = 0; i < part->count; i++)
        if (is_tried_now(part, i))
            part->lanes[i].is_out = are_out;
    recount(part);
}

static void toggle(struct take_part *part, uint64_t now_ns)
{
    set_out(part, are_out(part));
    for (uint32_t i = 0; i < part->count; i++)
        if (is_tried_now(part, i))
            part->lanes[i].finished = 0;
    if (part->step % 2 > 0)
        part->away_ns = now_ns;
    else
        part->away_sum_ns += since(part->away_ns, now_ns);
    enter(part, TAKE_PART_CHANGING, now_ns);
}

static double trial_units_ns(const struct take_part *part)
{
    double longest = 0, own_ns = 0, least = least_rate(part);
    for (uint32_t i = 0; i < part->count; i++) {
        const struct take_part_lane *lane = &part->lanes[i];
        if (is_in(lane) && lane->rate >= least && lane->unit_ns > longest)
            longest = lane->unit_ns;
        /* A lane that is small may have large units, and is waited for until it is empty. */
        if (is_tried_now(part, i) && lane->unit_ns > own_ns)
            own_ns = lane->unit_ns;
    }
    return 3 * STRETCH_UNITS * longest + 2 * own_ns;
}

/* Whether there is time for a trial of these lanes, and its cost is within what trials may cost. */
static bool can_afford(struct take_part *part, uint64_t set, uint64_t now_ns)
{
    double whole_ns = job_ns(part, now_ns), rate = part->rate, loss = 0;
    part->set = set;
    for (uint32_t i = 0; i < part->count; i++) {
        const struct take_part_lane *lane = &part->lanes[i];
        if (is_tried_now(part, i))
            loss += lane->is_out ? 1 - 1 / (double)lane->faster_without : lane->rate / rate;
    }
    double trial_ns = trial_units_ns(part);
    double after_ns = part->is_again ? 0 : AFTER_PART * whole_ns;
    return rate > 0 && trial_ns <= time_ns(part, now_ns) &&
           part->left / rate > after_ns + trial_ns &&
           loss * trial_ns / 2 <= budget_ns(part, now_ns);
}

/* Of the lanes for which there is enough time: can_afford has set them. */
static void begin_trial(struct take_part *part, bool were_out, uint64_t now_ns)
{
    part->step = 0;
    part->were_out = were_out;
    part->trial_ns = now_ns;
    part->trial_job_ns = job_ns(part, now_ns);
    part->away_sum_ns = 0;
    part->jobs = 0;
    for (uint32_t i = 0; i < part->count; i++)
        part->lanes[i].pools[0] = part->lanes[i].pools[1] = (struct take_part_pool){ .ns = 0 };
    begin_stretch(part, now_ns);
}

/* The lane to try next: of those that were not, and do no more than this, the one that brings least. */
static uint32_t next_candidate(const struct take_part *part, double most)
{
    uint32_t best = TAKE_PART_NONE, in = 0;
    most = most < PILLAR_PART * part->rate ? most : PILLAR_PART * part->rate;
    for (uint32_t i = 0; i < part->count; i++) {
        const struct take_part_lane *lane = &part->lanes[i];
        in += is_in(lane);
        if (is_in(lane) && !lane->is_tried && !lane->is_passed && lane->rate > 0 &&
            lane->rate <= most && (best == TAKE_PART_NONE || lane->rate < part->lanes[best].rate))
            best = i;
    }
    return in >= 2 ? best : TAKE_PART_NONE;
}

/* What was decided of the lane, when nobody is gone. */
static void make_rule(struct take_part *part)
{
    for (uint32_t i = 0; i < part->count && part->gone == 0; i++) {
        part->lanes[i].is_out_by_rule = part->lanes[i].is_out;
        part->lanes[i].is_tried_by_rule = part->lanes[i].is_tried;
    }
}

/* Leaves these lanes out, or lets them in. Others may have been held up by them, or may be now. */
static void decide(struct take_part *part, uint64_t set, bool are_out, double gain)
{
    part->is_mixed = true;
    part->is_best_tried = false;
    for (uint32_t i = 0; i < part->count; i++) {
        struct take_part_lane *lane = &part->lanes[i];
        bool is_decided = set >> i & 1;
        lane->gain = 0;
        lane->is_tried = is_decided || (lane->is_tried && !is_in(lane));
        if (!is_decided)
            continue;
        lane->is_out = are_out;
        lane->is_slight = false;
        lane->faster_without = are_out ? (float)(1 + gain) : 0;
    }
    recount(part);
    make_rule(part);
}

/* Of the lanes that do no more than this the one is left out without which the job is fastest. */
static bool leave_out_the_worst(struct take_part *part, double most)
{
    uint32_t worst = TAKE_PART_NONE, in = 0;
    for (uint32_t i = 0; i < part->count; i++) {
        in += is_in(&part->lanes[i]);
        if (part->lanes[i].gain > 0 && is_in(&part->lanes[i]) && part->lanes[i].rate <= most &&
            (worst == TAKE_PART_NONE || part->lanes[i].gain > part->lanes[worst].gain))
            worst = i;
    }
    if (worst == TAKE_PART_NONE || in < 2)
        return false;
    decide(part, UINT64_C(1) << worst, true, part->lanes[worst].gain);
    return true;
}

/* All but the fastest of three lanes and more that take part; 0: there are fewer, or that was tried. */
static uint64_t all_but_the_best(const struct take_part *part)
{
    uint32_t in = 0, best = 0;
    uint64_t set = 0;
    for (uint32_t i = 0; i < part->count; i++)
        if (is_in(&part->lanes[i])) {
            best = in++ == 0 || part->lanes[i].rate > part->lanes[best].rate ? i : best;
            set |= UINT64_C(1) << i;
        }
    return in >= 3 && !part->is_best_tried ? set & ~(UINT64_C(1) << best) : 0;
}

static bool try_set(struct take_part *part, uint64_t set, uint64_t now_ns)
{
    if (set == 0 || !can_afford(part, set, now_ns))
        return false;
    begin_trial(part, false, now_ns);
    return true;
}

/* Tries lanes that do no more than this one by one, and leaves out the worst. Whether a trial has begun. */
static bool try_one(struct take_part *part, double most, uint64_t now_ns)
{
    do {
        uint32_t next;
        while ((next = next_candidate(part, most)) != TAKE_PART_NONE) {
            if (try_set(part, UINT64_C(1) << next, now_ns))
                return true;
            part->lanes[next].is_passed = true;
        }
    } while (leave_out_the_worst(part, most));
    return false;
}

static void try_next(struct take_part *part, uint64_t now_ns)
{
    if (!try_one(part, least_rate(part), now_ns) &&
        !try_set(part, all_but_the_best(part), now_ns) && !try_one(part, part->rate, now_ns))
        rest(part, now_ns);
}

/* Of those left out, the one that costs least. */
static void try_one_left_out(struct take_part *part, uint64_t now_ns)
{
    uint32_t best = TAKE_PART_NONE;
    for (uint32_t i = 0; i < part->count; i++)
        if (part->lanes[i].is_out && !part->lanes[i].is_gone &&
            (best == TAKE_PART_NONE ||
             part->lanes[i].faster_without < part->lanes[best].faster_without))
            best = i;
    part->rest_ns *= 2;
    if (best != TAKE_PART_NONE && can_afford(part, UINT64_C(1) << best, now_ns))
        begin_trial(part, true, now_ns);
    else
        rest(part, now_ns);
}

/* The trial is over; the lanes are as they were, or other if that was better by `gain`. */
static void end_trial(struct take_part *part, bool is_better, double gain, uint64_t now_ns)
{
    bool is_one = (part->set & (part->set - 1)) == 0;
    if (part->step % 2 > 0)
        part->away_sum_ns += since(part->away_ns, now_ns);
    part->trials_ns += since(part->trial_ns, now_ns);
    if (!is_better && gain < 0)
        part->spent_ns -= gain * part->away_sum_ns;
    set_out(part, part->were_out);
    for (uint32_t i = 0; i < part->count && is_one; i++) {
        struct take_part_lane *lane = &part->lanes[i];
        if (!is_tried_now(part, i))
            continue;
        lane->is_tried = true;
        if (is_better && !part->were_out)
            lane->gain = gain;
    }
    part->is_best_tried = part->is_best_tried || !is_one;
    /* Those that were left out with others may do no harm by themselves. */
    if (is_better && !is_one)
        part->rest_ns = 1;
    if (is_better && (part->were_out || !is_one || gain >= GAIN_LARGE))
        decide(part, part->set, !part->were_out, gain);
    else if (!is_better)
        make_rule(part);
    if (part->rest_ns == 0)
        part->rest_ns = (uint64_t)(REST_PART * job_ns(part, now_ns));
    try_next(part, now_ns);
}

/* The trial does not get on: a lane does not run empty, or does not finish anything. */
static bool is_late(const struct take_part *part, uint64_t now_ns)
{
    double trial_ns = since(part->trial_ns, now_ns);
    return trial_ns > TRIAL_LATE * trial_units_ns(part) || trial_ns > time_ns(part, now_ns);
}

/* What the trial says so far. Before the stretch is full, only that it is to be broken off. */
static void judge(struct take_part *part, bool is_full, uint64_t now_ns)
{
    double variance[2] = { 0, 0 };
    double rates[2] = { rate_in_trial(part, false, &variance[0]),
                        rate_in_trial(part, true, &variance[1]) };
    /* Before the trial the lanes took part, or did not. */
    double before = rates[!part->were_out], other = rates[part->were_out];
    double gain = other / before - 1;
    double least = part->were_out ? GAIN_IN : GAIN_OUT;
    double above = gain - least;
    /* Of the ratio, to the first order. */
    double ratio = other / before;
    double noise = variance[part->were_out] / (before * before) +
                   ratio * ratio * variance[!part->were_out] / (before * before);
    bool is_better = is_full && above > 0 && above * above > SURE_ABOVE * noise;
    if (is_better && (gain >= GAIN_SURE || part->step >= 2)) {
        end_trial(part, true, gain, now_ns);
        return;
    }
    /* In doubt the lane takes part, and sooner than after a long trial. */
    bool is_doubtful = is_full && (part->step >= 2 || above * above > noise);
    bool is_worse = above < 0 && (is_doubtful || above * above > SURE_BELOW * noise);
    bool is_last = is_full && (part->step + 1 >= STEPS_MAX || budget_ns(part, now_ns) <= 0);
    if (is_worse || is_last || is_late(part, now_ns)) {
        end_trial(part, false, gain, now_ns);
        return;
    }
    if (!is_full)
        return;
    part->step++;
    toggle(part, now_ns);
}

/* Whether the rates of those that take part are known. */
static bool is_settled(const struct take_part *part)
{
    bool is_known = true;
    for (uint32_t i = 0; i < part->count; i++) {
        const struct take_part_lane *lane = &part->lanes[i];
        is_known = is_known && (!is_in(lane) || lane->same > part->depth + 1);
    }
    return is_known;
}

static void end_settling(struct take_part *part, uint64_t now_ns)
{
    double whole_ns = job_ns(part, now_ns), rate = part->rate;
    bool is_late = whole_ns > 0 && since(part->phase_ns, now_ns) > SETTLED_AFTER * whole_ns;
    if (!is_settled(part) && !is_late)
        return;
    /* Not what was learned: everything is tried again. */
    if (part->lesson_rate > 0 &&
        (rate > LESSON_FACTOR * part->lesson_rate || rate * LESSON_FACTOR < part->lesson_rate)) {
        for (uint32_t i = 0; i < part->count; i++)
            part->lanes[i].is_tried = false;
        part->is_best_tried = false;
        part->rest_ns = 1;
    }
    part->lesson_rate = 0;
    try_next(part, now_ns);
}

static void end_rest(struct take_part *part, uint64_t now_ns)
{
    if (part->is_whole)
        return;
    part->rest_units++;
    part->smooth_rate += SHIFT_ALPHA * (part->rate - part->smooth_rate);
    bool has_shifted =
        part->rest_units >= SHIFT_UNITS && (part->smooth_rate > SHIFT_FACTOR * part->rest_rate ||
                                            part->smooth_rate * SHIFT_FACTOR < part->rest_rate);
    if (has_shifted) {
        for (uint32_t i = 0; i < part->count; i++)
            part->lanes[i].is_tried = part->lanes[i].is_passed = false;
        part->is_best_tried = false;
        part->rest_ns /= 2;
    }
    if (has_shifted || (part->rest_ns > 0 && since(part->phase_ns, now_ns) > (double)part->rest_ns))
        try_one_left_out(part, now_ns);
}

/* Whether the lanes that are tried have run empty, or have all begun. */
static bool has_changed(const struct take_part *part)
{
    bool has = true;
    for (uint32_t i = 0; i < part->count; i++) {
        const struct take_part_lane *lane = &part->lanes[i];
        if (is_tried_now(part, i) && !lane->is_gone)
            has = has && (lane->is_out ? lane->held == 0 : lane->finished > 0);
    }
    return has;
}

static void step(struct take_part *part, uint64_t now_ns)
{
    bool is_full;
    switch (part->phase) {
    case TAKE_PART_SETTLING:
        end_settling(part, now_ns);
        break;
    case TAKE_PART_RESTING:
        end_rest(part, now_ns);
        break;
    case TAKE_PART_CHANGING:
        if (has_changed(part))
            begin_stretch(part, now_ns);
        else if (is_late(part, now_ns))
            end_trial(part, false, 0, now_ns);
        break;
    case TAKE_PART_MEASURING:
        is_full = has_units(part, STRETCH_UNITS << part->step / 2);
        if (part->step > 0 && has_units(part, 1)) {
            judge(part, is_full, now_ns);
        } else if (is_late(part, now_ns)) {
            end_trial(part, false, 0, now_ns);
        } else if (is_full) {
            part->step++;
            toggle(part, now_ns);
        }
        break;
    }
}

/* Lanes that bring next to nothing. */

/* From now on is seen what the lane brings. */
static void watch(const struct take_part *part, struct take_part_lane *lane, uint64_t now_ns)
{
    lane->seen_ns = now_ns > 0 ? now_ns : 1;
    lane->seen_own = lane->items;
    lane->seen_all = part->done;
}

/*
 * What part of everything the lane has brought, with all that it has in hand; 1: it is too early to say.
 * In a trial of whole jobs nobody comes or goes.
 */
static double part_at_most(const struct take_part *part, const struct take_part_lane *lane,
                           uint64_t now_ns)
{
    double ns = since(lane->seen_ns, now_ns), all = part->done - lane->seen_all;
    double least_ns = at_least(SLIGHT_PART * job_ns(part, now_ns),
                               lane->finished < 2 ? SLIGHT_FIRST_NS : SLIGHT_LEAST_NS);
    if (lane->seen_ns == 0 || ns < least_ns || all <= 0)
        return 1;
    return (lane->items - lane->seen_own + lane->held_items) / all;
}

static void set_slight(struct take_part *part, uint32_t index, bool is_slight)
{
    struct take_part_lane *lane = &part->lanes[index];
    lane->is_out = lane->is_tried = lane->is_slight = is_slight;
    lane->faster_without = is_slight ? TAKE_PART_SLIGHT_FACTOR : 0;
    if (part->gone == 0)
        lane->is_out_by_rule = lane->is_tried_by_rule = is_slight;
    recount(part);
}

/* Leaves out lanes that bring next to nothing, as long as all of them together do. */
static void leave_out_slight(struct take_part *part, uint64_t now_ns)
{
    for (uint32_t i = 0; i < part->count && part->in >= 2; i++) {
        struct take_part_lane *lane = &part->lanes[i];
        if (!is_in(lane))
            continue;
        if (lane->seen_ns == 0 && lane->held > 0)
            watch(part, lane, now_ns);
        double most = part_at_most(part, lane, now_ns);
        if (part->slight + most >= TAKE_PART_SLIGHT)
            continue;
        part->slight += lane->slight = most;
        set_slight(part, i, true);
    }
}

/* A lane that had finished nothing when it was left out has begun after all: now it can show more. */
static void let_in_late(struct take_part *part, uint32_t index, uint64_t now_ns)
{
    struct take_part_lane *lane = &part->lanes[index];
    if (!lane->is_slight || lane->finished != 1 || lane->is_gone)
        return;
    part->slight -= lane->slight;
    set_slight(part, index, false);
    watch(part, lane, now_ns);
}

/* What happens. */

void take_part_begun(struct take_part *part, uint32_t lane, uint64_t items)
{
    part->lanes[lane].held++;
    part->lanes[lane].held_items += (double)items;
}

void take_part_ended(struct take_part *part, uint32_t lane, uint64_t items)
{
    INVARIANT(part->lanes[lane].held > 0);
    part->lanes[lane].held--;
    part->lanes[lane].held_items -= (double)items;
}

static void count_unit(struct take_part *part, struct take_part_lane *lane, uint64_t items,
                       double elapsed_ns)
{
    double rate = (double)items / (elapsed_ns > 0 ? elapsed_ns : 1), before = lane->rate;
    if (lane->rate > 0) {
        lane->rate += RATE_ALPHA * (rate - lane->rate);
        /* Units may have been much longer before they were measured. */
        double alpha = part->phase == TAKE_PART_SETTLING ? 1 : RATE_ALPHA;
        lane->unit_ns += alpha * (elapsed_ns - lane->unit_ns);
    } else {
        lane->rate = rate;
        lane->unit_ns = elapsed_ns;
    }
    if (is_in(lane))
        part->rate += lane->rate - before;
    if (part->phase != TAKE_PART_MEASURING || !lane->has_begun)
        return;
    struct take_part_pool *pool = &lane->pools[!are_out(part)];
    pool->items += (double)items;
    pool->ns += elapsed_ns;
    pool->units++;
    lane->units++;
    if (lane->last_rate > 0) {
        double change = 2 * (rate - lane->last_rate) / (rate + lane->last_rate);
        lane->squares += change * change;
        lane->changes++;
    }
    lane->last_rate = rate;
}

void take_part_finished(struct take_part *part, uint32_t index, uint64_t items, uint64_t left,
                        uint64_t now_ns)
{
    struct take_part_lane *lane = &part->lanes[index];
    part->left = (double)left;
    part->now_ns = now_ns;
    lane->items += (double)items;
    part->done += (double)items;
    if (lane->finished > 0)
        count_unit(part, lane, items, since(lane->finish_ns, now_ns));
    lane->same++;
    if (items / SETTLED_GROWTH >= lane->largest)
        lane->same = 0;
    if (items > lane->largest)
        lane->largest = items;
    lane->finished++;
    lane->finish_ns = now_ns;
    lane->has_begun = true;
    let_in_late(part, index, now_ns);
    if (!is_trial(part) && !(part->is_whole && part->whole.trial != 0))
        leave_out_slight(part, now_ns);
    step(part, now_ns);
}

void take_part_late(struct take_part *part, uint32_t index, uint64_t now_ns)
{
    struct take_part_lane *lane = &part->lanes[index];
    if (lane->finished > 0)
        return;
    /* It has begun now, as far as its next unit is concerned. */
    lane->finished = 1;
    lane->finish_ns = now_ns;
    let_in_late(part, index, now_ns);
}

void take_part_gone(struct take_part *part, uint32_t index, bool is_gone, bool is_lost)
{
    struct take_part_lane *lane = &part->lanes[index];
    if (lane->is_gone == is_gone && lane->is_lost == is_lost)
        return;
    bool was_trial = is_trial(part), is_other = lane->is_gone != is_gone;
    lane->is_gone = is_gone;
    lane->is_lost = is_lost;
    if (was_trial && is_other)
        set_out(part, part->were_out);
    recount(part);
    /* Nobody counts on one that was left out anyway. */
    if (!is_other || (lane->is_out && !was_trial))
        return;
    part->is_mixed = true;
    part->is_whole = false;
    bool by_rule = part->gone == 0;
    for (uint32_t i = 0; i < part->count; i++) {
        part->lanes[i].is_out = by_rule && part->lanes[i].is_out_by_rule;
        part->lanes[i].is_tried = by_rule && part->lanes[i].is_tried_by_rule;
        part->lanes[i].is_slight = by_rule && part->lanes[i].is_slight;
        part->lanes[i].slight = 0;
        part->lanes[i].seen_ns = 0;
        part->lanes[i].is_passed = false;
        part->lanes[i].gain = 0;
        part->lanes[i].same = 0;
    }
    part->is_best_tried = false;
    part->slight = 0;
    lane->finished = 0;
    lane->largest = 0;
    lane->rate = 0;
    recount(part);
    enter(part, TAKE_PART_SETTLING, part->now_ns);
}

void take_part_stuck(struct take_part *part, uint64_t now_ns)
{
    for (uint32_t i = 0; i < part->count; i++) {
        part->lanes[i].is_out = part->lanes[i].is_slight = false;
        part->lanes[i].seen_ns = 0;
    }
    part->slight = 0;
    part->is_mixed = true;
    part->is_whole = false;
    recount(part);
    part->rest_ns = 0;
    rest(part, now_ns);
}

static void compare_whole(struct take_part_lesson *lesson, const struct whole_job *job)
{
    double gain = 0;
    uint64_t decided = whole_jobs_ended(&lesson->whole, job, &gain);
    for (uint32_t i = 0; i < TAKE_PART_LANES_MAX; i++)
        if (decided >> i & 1)
            lesson->faster_without[i] = (float)(1 + gain);
    lesson->left_out = lesson->whole.left_out;
}

static uint32_t find_heaviest(const struct take_part *part, uint32_t domain)
{
    uint32_t found = TAKE_PART_NONE;
    for (uint32_t i = 0; i < part->count; i++)
        if (part->lanes[i].domain == domain &&
            (found == TAKE_PART_NONE || part->lanes[i].weight > part->lanes[found].weight))
            found = i;
    return found;
}

/* What the job says as a whole: nothing if it is not done, or if who takes part has changed meanwhile. */
static void learn_whole(const struct take_part *part, struct take_part_lesson *lesson, bool is_done,
                        uint64_t faults, uint64_t now_ns)
{
    struct whole_job job = { .job_ns = since(part->begin_ns, now_ns),
                             .faults = (double)faults,
                             .lane_count = part->count };
    for (uint32_t i = 0; i < part->count; i++)
        job.items += part->lanes[i].items;
    lesson->whole = part->whole;
    if (!is_done || job.items <= 0 || job.job_ns <= 0)
        return;
    /*
     * Longer ones too, if their own trials have left nobody out: those cannot see what is gained by a
     * job that is laid out for fewer devices.
     */
    uint64_t by_trial = lesson->left_out & ~lesson->slight;
    lesson->is_whole =
        job.job_ns < WHOLE_JOBS_LEAST_NS || (by_trial == 0 && job.job_ns <= WHOLE_JOBS_MOST_NS);
    /*
     * Whom trials within a job have left out stays out, whom they have let in again does not, and another
     * trial must be saved for, but for the one of the best alone.
     */
    lesson->whole.left_out = lesson->left_out;
    /* Of several that are left the best alone may still be faster: that trial was not made. */
    bool is_done_with_trials = by_trial != 0 && all_but_the_best(part) == 0;
    lesson->whole.has_begun = lesson->whole.has_begun || is_done_with_trials;
    if (part->is_mixed || !lesson->is_whole)
        return;
    for (uint32_t i = 0; i < part->count; i++) {
        job.shares[i] = part->lanes[i].items / job.items;
        job.heaviest[i] = 1 + find_heaviest(part, part->lanes[i].domain);
    }
    compare_whole(lesson, &job);
}

void take_part_learn_without(struct take_part_lesson *lesson, double job_ns, double items,
                             uint64_t faults)
{
    /* Without shares no lane is tried next: that is for a job that all take part in. */
    struct whole_job job = { .job_ns = job_ns, .items = items, .faults = (double)faults };
    if (job_ns > 0 && items > 0)
        compare_whole(lesson, &job);
    if (++lesson->jobs >= JOBS_BELIEVED)
        *lesson = (struct take_part_lesson){ .jobs = 0 };
}

void take_part_learn(const struct take_part *part, struct take_part_lesson *lesson, bool is_done,
                     uint64_t faults, uint64_t now_ns)
{
    *lesson = (struct take_part_lesson){ .jobs = part->jobs + 1 };
    for (uint32_t i = 0; i < part->count; i++) {
        const struct take_part_lane *lane = &part->lanes[i];
        if (lane->is_out_by_rule)
            lesson->left_out |= UINT64_C(1) << i;
        if (lane->is_tried_by_rule)
            lesson->tried |= UINT64_C(1) << i;
        if (lane->is_out_by_rule && lane->is_slight)
            lesson->slight |= UINT64_C(1) << i;
        lesson->faster_without[i] = lane->is_out_by_rule ? lane->faster_without : 0;
    }
    double unspent =
        TAKE_PART_COST_MAX * since(part->begin_ns, now_ns) + part->saved_ns - part->spent_ns;
    lesson->unspent_ns = unspent > 0 ? unspent : 0;
    lesson->rate = part->rate;
    lesson->is_best_tried = part->is_best_tried;
    learn_whole(part, lesson, is_done, faults, now_ns);
}
