/*
 * Whole jobs in virtual time whose lanes sleep: a lane acts when its device has something for it or
 * when job_news has it woken, and so do those that deliver, look, supply items and ask the user's
 * policy. Attempts write into slots, straight into the caller's array, or in it, as the job says; what
 * they do to that array is followed item by item, with devices that fail, stop half way, hang and go.
 */
#include "base/random.h"
#include "core/job.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>

#define ITEMS_MAX 1500
#define LANES_MAX 6
#define DEPTH_MAX 12
#define UNITS_MAX (2 * LANES_MAX * DEPTH_MAX + 40)
#define NEVER UINT64_MAX
#define STEPS_MAX 200000
/* An attempt in doubt is waited for 10 s; hung lanes are found after up to an hour where one is left. */
#define TIME_MAX (UINT64_C(3600) * 1000000000 * 4)

/* One attempt that a lane holds. */
struct held {
    struct job_claim claim;
    bool is_started;
    bool is_ended;    /* the device is done with it, the core is not told yet */
    bool is_silent;   /* the device never hands it in */
    enum job_end end; /* once ended */
    uint64_t done, begin_ns, ends_ns;
    uint64_t stops_at; /* it will fail after this many items; NEVER if it will not */
};

struct lane {
    double item_ns;
    uint64_t launch_ns, lost_ns, hangs_ns, back_ns; /* of the device */
    bool is_direct, is_lost;
    bool is_bad;                 /* every attempt fails at once */
    struct held held[DEPTH_MAX]; /* in the order they were claimed */
    uint32_t count;
    uint64_t wake_ns; /* when it acts next; NEVER: asleep */
    bool is_woken;    /* by the core alone */
};

static _Alignas(64) char memory[1 << 16], kept[1 << 16];

static struct storm {
    uint64_t seed;
    struct random random;
    struct job_options options;
    struct job *job;
    uint64_t now_ns;
    struct lane lanes[LANES_MAX];
    uint64_t sink_ns, deliver_ns, deliver_ends_ns; /* NEVER: asleep; not delivering */
    uint32_t leaving_unit;
    struct muster_range leaving;
    uint64_t look_ns;   /* when the looker wakes; only what it was told */
    uint64_t supply_ns; /* of the next arrival; NEVER */
    uint64_t supplied, end;
    uint64_t policy_ns, commit_ns;
    uint32_t chosen, unit_tries;
    uint32_t fail_in; /* attempts that fail: one in this many; 0: none */
    bool may_fail, is_over, is_quiet, has_bad;
    uint8_t writers[ITEMS_MAX]; /* direct attempts that may write the item now */
    uint8_t applied[ITEMS_MAX]; /* times that the item was computed in place */
    uint8_t arrived[ITEMS_MAX]; /* times that it was delivered */
    uint64_t delivered, wakes, vain, rounds, claims, cuts, rivals, stops;
} w;

static uint64_t total_wakes, total_vain, total_cuts, total_rivals, total_done, total_failed,
    total_claims, total_rounds, total_stops, total_bad;

#define EXPECT(condition)                                                                          \
    ((condition) ? (void)0                                                                         \
                 : test_fail(__FILE__, __LINE__, "storm %llu: not true: %s",                       \
                             (unsigned long long)w.seed, #condition))

static uint64_t below(uint64_t bound)
{
    return random_below(&w.random, bound);
}

static bool one_in(uint64_t n)
{
    return n > 0 && below(n) == 0;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void begin_storm(uint64_t seed)
{
    memset(&w, 0, sizeof w);
    w.seed = seed;
    random_init(&w.random, seed);
    uint32_t lanes = (uint32_t)(1 + below(LANES_MAX)), depth = (uint32_t)(1 + below(DEPTH_MAX));
    uint64_t items = 1 + below(one_in(3) ? 100 : ITEMS_MAX);
    bool place = one_in(4);
    w.options = (struct job_options){ .items = items,
                                      .unit = (enum job_unit_rule)below(3),
                                      .unit_items = 1 + below(20),
                                      .unit_max = one_in(3) ? 1 + below(40) : 0,
                                      .window = one_in(2) ? 1 + below(200) : 0,
                                      .lane_count = lanes,
                                      .depth = depth,
                                      .units_max = 2 * lanes * depth + 1 + (uint32_t)below(30),
                                      .tries = (uint32_t)(2 + below(3)),
                                      .ordered = one_in(2),
                                      .speculate = one_in(2),
                                      .supplied = one_in(4),
                                      .place = place,
                                      .policy = (enum job_policy)below(JOB_USER + 1),
                                      .home = (uint32_t)below(lanes),
                                      .output = (enum job_output)below(3),
                                      .timeout_ns = one_in(3) ? 100000000 + below(1000000000) : 0 };
    if (one_in(4)) {
        w.options.grain = 2 + below(4);
        w.options.unit_items *= w.options.grain;
        w.options.unit_max *= w.options.grain;
        w.options.window *= w.options.grain;
    }
    EXPECT(job_bytes(&w.options) > 0 && job_bytes(&w.options) <= sizeof memory);
    w.job = job_init(memory, &w.options, 0);
    w.fail_in = one_in(2) ? (uint32_t)(5 + below(40)) : 0;
    w.end = items;
    w.supplied = w.options.supplied ? 0 : items;
    w.supply_ns = w.options.supplied ? 0 : NEVER;
    w.sink_ns = one_in(2) ? 0 : below(300);
    w.deliver_ns = w.deliver_ends_ns = w.look_ns = w.policy_ns = w.commit_ns = NEVER;
    for (uint32_t i = 0; i < lanes; i++) {
        w.lanes[i] =
            (struct lane){ .item_ns = 1 + (double)below(1000),
                           .launch_ns = below(5000),
                           .lost_ns = one_in(6) ? below(1000000) : NEVER,
                           .hangs_ns = one_in(8) ? below(1000000) : NEVER,
                           .back_ns = NEVER,
                           .is_direct = w.options.output != JOB_OUTPUT_SLOTS && !one_in(3) };
        if (w.lanes[i].hangs_ns != NEVER && one_in(2))
            w.lanes[i].back_ns = w.lanes[i].hangs_ns + below(UINT64_C(20000000000));
        if (w.lanes[i].is_direct)
            job_lane_set_direct(w.job, i);
    }
    /* One is always well. */
    struct lane *well = &w.lanes[below(lanes)];
    well->lost_ns = well->hangs_ns = well->back_ns = NEVER;
    /* Beside lanes that are all well there may be one that fails everything, which must cost nothing. */
    bool are_well = lanes > 1 && w.fail_in == 0;
    for (uint32_t i = 0; i < lanes; i++)
        are_well = are_well && w.lanes[i].lost_ns == NEVER && w.lanes[i].hangs_ns == NEVER;
    if (are_well && one_in(3))
        w.lanes[below(lanes)].is_bad = w.has_bad = true;
}

/* Who is woken. */

/* Whether some lane is about to act. */
static bool is_anyone_awake(void)
{
    for (uint32_t i = 0; i < w.options.lane_count; i++)
        if (w.lanes[i].wake_ns != NEVER)
            return true;
    return false;
}

/* A lane that could claim sleeps only while another is awake, which will have it woken in turn. */
static void check_nobody_sleeps(void)
{
    size_t bytes = job_bytes(&w.options);
    if (is_anyone_awake() || job_state(w.job) != JOB_RUNNING)
        return;
    memcpy(kept, memory, bytes);
    for (uint32_t i = 0; i < w.options.lane_count; i++) {
        struct job_claim claim;
        if (job_claim(w.job, i, w.now_ns, &claim))
            test_fail(__FILE__, __LINE__,
                      "storm %llu: lane %u sleeps and would be given items %llu to %llu",
                      (unsigned long long)w.seed, i, (unsigned long long)claim.range.begin,
                      (unsigned long long)claim.range.end);
        memcpy(memory, kept, bytes);
    }
}

/* What the core's caller does before letting go of the lock. */
static void spread_news(void)
{
    uint32_t news = job_news(w.job, w.now_ns), count = 0;
    for (uint32_t lane; (lane = job_wake_lane(w.job)) != JOB_NONE; count++) {
        if (w.lanes[lane].wake_ns == NEVER)
            w.lanes[lane].is_woken = true;
        w.lanes[lane].wake_ns = earlier(w.lanes[lane].wake_ns, w.now_ns + below(3000));
    }
    EXPECT(((news & JOB_NEWS_LANES) != 0) == (count > 0));
    if (news & JOB_NEWS_RESULT) {
        EXPECT(w.deliver_ns == NEVER && w.deliver_ends_ns == NEVER);
        w.deliver_ns = w.now_ns + below(3000);
    }
    if (news & JOB_NEWS_LOOK)
        w.look_ns = job_look_due(w.job);
    EXPECT(w.look_ns == job_look_due(w.job));
    if (news & JOB_NEWS_PLACE && w.policy_ns == NEVER && w.commit_ns == NEVER)
        w.policy_ns = w.now_ns + below(1000);
    EXPECT(!(news & JOB_NEWS_OVER) || !w.is_over);
    w.is_over = w.is_over || (news & JOB_NEWS_OVER);
    EXPECT(!(news & JOB_NEWS_QUIET) || (w.is_over && !w.is_quiet));
    w.is_quiet = w.is_quiet || (news & JOB_NEWS_QUIET);
    EXPECT(w.is_over == (job_state(w.job) != JOB_RUNNING));
    EXPECT(!w.is_over || w.is_quiet == job_is_quiet(w.job) || !job_is_quiet(w.job));
    const char *broken = job_check(w.job);
    if (broken)
        test_fail(__FILE__, __LINE__, "storm %llu: %s", (unsigned long long)w.seed, broken);
    if (one_in(8))
        check_nobody_sleeps();
}

/* The caller's array. */

static void mark_writers(struct muster_range range, int change)
{
    for (uint64_t i = range.begin; i < range.end; i++)
        w.writers[i] = (uint8_t)(w.writers[i] + change);
}

/* A direct attempt may write from its start until the device is done with it. */
static void begin_attempt(struct held *held)
{
    const struct muster_range range = held->claim.range;
    for (uint64_t i = range.begin; i < range.end; i++) {
        EXPECT(!w.arrived[i]);
        EXPECT(!held->claim.is_direct || w.writers[i] == 0);
        /* A lane that reads what it or others replace begins where none has begun. */
        EXPECT(w.options.output != JOB_OUTPUT_CUTS || (w.applied[i] == 0 && w.writers[i] == 0));
    }
    if (held->claim.is_direct)
        mark_writers(range, 1);
    w.rivals += held->claim.is_copy && !held->claim.is_direct;
}

static void end_attempt(struct held *held, enum job_end end, uint64_t done)
{
    uint64_t items = held->claim.range.end - held->claim.range.begin;
    if (w.options.grain > 1 && done < items)
        done -= done % w.options.grain;
    held->is_ended = true;
    held->end = end;
    held->done = end == JOB_END_OK ? items : done;
    if (!held->claim.is_direct)
        return;
    mark_writers(held->claim.range, -1);
    for (uint64_t i = 0; w.options.output == JOB_OUTPUT_CUTS && i < held->done; i++)
        w.applied[held->claim.range.begin + i]++;
}

/* Devices. */

static uint64_t run_ns(const struct lane *lane, uint64_t items)
{
    return lane->launch_ns + (uint64_t)(lane->item_ns * (double)items) + 1;
}

/* The first attempt that the device is at. */
static struct held *at_work(struct lane *lane)
{
    for (uint32_t i = 0; i < lane->count; i++)
        if (lane->held[i].is_started && !lane->held[i].is_ended)
            return lane->held[i].is_silent ? NULL : &lane->held[i];
    return NULL;
}

static bool hangs(const struct lane *lane)
{
    return w.now_ns >= lane->hangs_ns && w.now_ns < lane->back_ns;
}

static void begin_next(struct lane *lane)
{
    struct held *held = at_work(lane);
    if (held && lane->is_lost) {
        end_attempt(held, JOB_END_DEVICE, 0);
        lane->wake_ns = earlier(lane->wake_ns, w.now_ns + 1);
        return;
    }
    if (!held || held->begin_ns != 0 || lane->is_lost || hangs(lane))
        return;
    uint64_t items = held->claim.range.end - held->claim.range.begin;
    held->begin_ns = w.now_ns > 0 ? w.now_ns : 1;
    held->stops_at = lane->is_bad ? 0 : one_in(w.fail_in) ? below(items) : NEVER;
    held->ends_ns = held->begin_ns + run_ns(lane, held->stops_at == NEVER ? items : held->stops_at);
}

static uint64_t done_by_now(const struct lane *lane, const struct held *held)
{
    uint64_t items = held->claim.range.end - held->claim.range.begin;
    if (held->begin_ns == 0 || w.now_ns < held->begin_ns + lane->launch_ns)
        return 0;
    double done = (double)(w.now_ns - held->begin_ns - lane->launch_ns) / lane->item_ns;
    return done < (double)items ? (uint64_t)done : items;
}

static uint64_t device_due(const struct lane *lane)
{
    const struct held *held = at_work((struct lane *)lane);
    if (lane->is_lost)
        return NEVER;
    if (hangs(lane))
        return lane->back_ns;
    uint64_t due_ns = held && held->begin_ns > 0 ? held->ends_ns : NEVER;
    /* It hangs or goes whether or not it has something to do. */
    due_ns = earlier(due_ns, lane->hangs_ns > w.now_ns ? lane->hangs_ns : NEVER);
    return due_ns;
}

/* The device does what is due by now. */
static void run_device(struct lane *lane)
{
    struct held *held = at_work(lane);
    if (!lane->is_lost && !hangs(lane) && held && held->begin_ns > 0 && held->ends_ns <= w.now_ns) {
        bool fails = held->stops_at != NEVER;
        end_attempt(held, fails ? JOB_END_UNIT : JOB_END_OK, fails ? held->stops_at : 0);
        lane->wake_ns = earlier(lane->wake_ns, w.now_ns + below(1000));
    }
    begin_next(lane);
}

/* The device goes: what it had is handed in a little later, or never. */
static void lose(uint32_t index)
{
    struct lane *lane = &w.lanes[index];
    lane->is_lost = true;
    for (uint32_t i = 0; i < lane->count; i++) {
        struct held *held = &lane->held[i];
        if (!held->is_started || held->is_ended)
            continue;
        if (one_in(10)) {
            held->is_silent = true;
            w.may_fail = w.may_fail || held->claim.is_direct;
            continue;
        }
        end_attempt(held, JOB_END_DEVICE, done_by_now(lane, held));
        if (held->claim.is_direct && w.options.output == JOB_OUTPUT_CUTS && one_in(20)) {
            held->done = JOB_DONE_UNKNOWN;
            w.may_fail = true;
        }
    }
    lane->wake_ns = earlier(lane->wake_ns, w.now_ns + below(2000000));
    if (one_in(2)) {
        job_lane_lost(w.job, index, w.now_ns);
        spread_news();
    }
}

/* Lanes. */

static void forget(struct lane *lane, uint32_t at)
{
    memmove(&lane->held[at], &lane->held[at + 1], (--lane->count - at) * sizeof *lane->held);
}

static void heed_stop(struct lane *lane, struct held *held)
{
    if (!held->is_started || held->is_ended || held->is_silent || hangs(lane) || lane->is_lost ||
        !job_should_stop(w.job, held->claim.ticket) || one_in(3))
        return;
    bool is_wanted = w.options.output == JOB_OUTPUT_CUTS && held->claim.is_direct &&
                     job_state(w.job) == JOB_RUNNING;
    w.stops += is_wanted;
    end_attempt(held, is_wanted ? JOB_END_STOPPED : JOB_END_DROPPED, done_by_now(lane, held));
}

static void check_verdict(const struct job_ended *ended, const struct held *held)
{
    uint64_t items = held->claim.range.end - held->claim.range.begin;
    bool is_whole = ended->end == JOB_END_OK || ended->done == items;
    EXPECT(ended->verdict != JOB_ACCEPTED || is_whole);
    EXPECT(ended->verdict != JOB_REFUSED || job_state(w.job) != JOB_RUNNING);
    EXPECT(ended->verdict != JOB_GIVEN_UP);
    w.cuts += ended->verdict == JOB_AGAIN && held->claim.is_direct &&
              w.options.output == JOB_OUTPUT_CUTS && ended->done > 0;
    if (ended->verdict == JOB_REFUSED)
        w.may_fail = true;
}

static void act(uint32_t index)
{
    struct lane *lane = &w.lanes[index];
    struct job_ended ends[DEPTH_MAX];
    struct job_start starts[DEPTH_MAX];
    struct job_claim claims[JOB_STEP_MAX];
    struct job_round round = { .ends = ends, .starts = starts, .claims = claims };
    uint32_t ended[DEPTH_MAX], started[DEPTH_MAX], on_device = 0, stale = 0;
    bool was_woken = lane->is_woken;
    lane->is_woken = false;
    lane->wake_ns = NEVER;
    /* What was taken back before it was started. */
    for (uint32_t i = lane->count; i > 0; i--)
        if (!lane->held[i - 1].is_started && !job_is_out(w.job, lane->held[i - 1].claim.ticket)) {
            forget(lane, i - 1);
            stale++;
        }
    for (uint32_t i = 0; i < lane->count; i++) {
        struct held *held = &lane->held[i];
        heed_stop(lane, held);
        stale += job_should_stop(w.job, held->claim.ticket);
        if (held->is_ended) {
            ends[round.end_count] =
                (struct job_ended){ held->claim.ticket, held->end, held->done, JOB_LATE };
            ended[round.end_count++] = i;
        } else if (held->is_started) {
            on_device++;
        } else if (on_device < 2 || one_in(2) || job_state(w.job) != JOB_RUNNING) {
            starts[round.start_count].ticket = held->claim.ticket;
            started[round.start_count++] = i;
            on_device++;
        }
    }
    uint32_t room = w.options.depth - (lane->count - round.end_count);
    round.claim_max = room > 0 ? 1 + (uint32_t)below(room) : 0;
    round.start_max = on_device < 2 ? (uint32_t)below(3) : 0;
    job_step(w.job, index, &round, w.now_ns);
    w.rounds++;
    w.claims += round.claim_count;
    EXPECT(round.claim_count <= round.claim_max);
    for (uint32_t i = 0; i < round.end_count; i++)
        check_verdict(&ends[i], &lane->held[ended[i]]);
    /* From the last to the first, so that the places of the others stay. */
    for (uint32_t i = 0; i < round.start_count; i++) {
        struct held *held = &lane->held[started[i]];
        held->is_started = starts[i].is_started;
        if (held->is_started)
            begin_attempt(held);
        else
            held->is_ended = held->is_silent = true; /* marks it for leaving, below */
    }
    for (uint32_t i = lane->count; i > 0; i--) {
        struct held *held = &lane->held[i - 1];
        bool was_handed_in = false;
        for (uint32_t k = 0; k < round.end_count; k++)
            was_handed_in = was_handed_in || ended[k] == i - 1;
        if (was_handed_in || (held->is_ended && held->is_silent))
            forget(lane, i - 1);
    }
    for (uint32_t i = 0; i < round.claim_count; i++) {
        struct held *held = &lane->held[lane->count++];
        EXPECT(lane->count <= w.options.depth);
        *held = (struct held){ .claim = claims[i], .is_started = claims[i].is_started };
        EXPECT(claims[i].range.end <= w.supplied);
        EXPECT(!claims[i].is_direct || lane->is_direct);
        EXPECT(i < round.start_max || !claims[i].is_started);
        if (held->is_started)
            begin_attempt(held);
    }
    begin_next(lane);
    w.wakes += was_woken;
    w.vain +=
        was_woken && round.claim_count == 0 && round.end_count == 0 && stale == 0 && !w.is_over;
    /* A lane with room sleeps when it has asked and got nothing; one with something to start does not. */
    bool goes_on = (round.claim_count > 0 || round.claim_max == 0) && lane->count < w.options.depth;
    for (uint32_t i = 0; i < lane->count; i++)
        goes_on = goes_on || (!lane->held[i].is_started && on_device < 2);
    if (goes_on)
        lane->wake_ns = w.now_ns + 1 + below(500);
    spread_news();
}

/* The others. */

static void deliver(void)
{
    w.deliver_ns = NEVER;
    if (w.deliver_ends_ns != NEVER) {
        w.deliver_ends_ns = NEVER;
        w.delivered += w.leaving.end - w.leaving.begin;
        job_delivered(w.job, w.leaving_unit);
    }
    if (job_next_result(w.job, &w.leaving_unit, &w.leaving)) {
        EXPECT(!w.options.ordered || w.leaving.begin == w.delivered);
        bool is_direct = job_is_direct(w.job, w.leaving_unit);
        for (uint64_t i = w.leaving.begin; i < w.leaving.end; i++) {
            EXPECT(w.arrived[i] == 0 && w.writers[i] == 0);
            EXPECT(w.options.output != JOB_OUTPUT_CUTS || w.applied[i] == is_direct);
            w.arrived[i]++;
        }
        w.deliver_ends_ns = w.now_ns + 1 + w.sink_ns * (w.leaving.end - w.leaving.begin);
    }
    spread_news();
}

static void look(void)
{
    w.look_ns = job_look(w.job, w.now_ns);
    EXPECT(w.look_ns > w.now_ns);
    spread_news();
}

static void arrive(void)
{
    uint64_t count = 1 + below(100), left = w.end - w.supplied;
    w.supplied += count < left ? count : left;
    job_supply(w.job, w.supplied);
    w.supply_ns = w.supplied == w.end ? NEVER : w.now_ns + 1 + below(50000);
    spread_news();
}

/* The user's policy chooses, while everything goes on; sometimes none, or one that is not available. */
static void ask_policy(void)
{
    struct job_lane_view lanes[LANES_MAX];
    if (w.policy_ns <= w.now_ns) {
        w.policy_ns = NEVER;
        uint32_t count = job_snapshot(w.job, lanes, w.now_ns);
        EXPECT(count <= w.options.lane_count);
        if (count == 0)
            return;
        EXPECT(job_snapshot(w.job, lanes, w.now_ns) == 0);
        w.chosen = one_in(20)   ? JOB_NONE
                   : one_in(20) ? (uint32_t)below(w.options.lane_count)
                                : lanes[below(count)].lane;
        w.commit_ns = w.now_ns + below(2000);
        return;
    }
    w.commit_ns = NEVER;
    if (!job_commit(w.job, w.chosen, w.now_ns) && ++w.unit_tries > 1000000)
        EXPECT(!"the policy is asked for ever");
    w.policy_ns = w.now_ns + below(500);
    spread_news();
}

/* Time. */

static uint64_t next_ns(void)
{
    uint64_t ns =
        earlier(earlier(w.deliver_ns, w.deliver_ends_ns), earlier(w.look_ns, w.supply_ns));
    ns = earlier(ns, earlier(w.policy_ns, w.commit_ns));
    for (uint32_t i = 0; i < w.options.lane_count; i++) {
        struct lane *lane = &w.lanes[i];
        ns = earlier(ns, earlier(lane->wake_ns, device_due(lane)));
        if (!lane->is_lost)
            ns = earlier(ns, lane->lost_ns);
    }
    return ns;
}

static void step(void)
{
    for (uint32_t i = 0; i < w.options.lane_count; i++) {
        struct lane *lane = &w.lanes[i];
        if (!lane->is_lost && lane->lost_ns <= w.now_ns)
            lose(i);
        run_device(lane);
        if (lane->wake_ns <= w.now_ns)
            act(i);
    }
    if (w.supply_ns <= w.now_ns)
        arrive();
    if (w.deliver_ns <= w.now_ns || w.deliver_ends_ns <= w.now_ns)
        deliver();
    if (w.look_ns <= w.now_ns)
        look();
    if (w.policy_ns <= w.now_ns || w.commit_ns <= w.now_ns)
        ask_policy();
}

/* Direct attempts that hang for ever cost the job; a device that comes back in time does not. */
static bool may_have_failed(void)
{
    bool may_fail = w.may_fail || w.fail_in > 0;
    for (uint32_t i = 0; i < w.options.lane_count; i++)
        may_fail = may_fail || (w.lanes[i].is_direct && w.lanes[i].hangs_ns != NEVER);
    return may_fail;
}

static void check_end(void)
{
    struct muster_range failed[JOB_FAILED_MAX];
    size_t count = job_failed_ranges(w.job, failed, JOB_FAILED_MAX);
    if (job_state(w.job) == JOB_DONE) {
        EXPECT(w.delivered == w.end && count == 0);
        for (uint64_t i = 0; i < w.end; i++)
            EXPECT(w.arrived[i] == 1 && w.writers[i] == 0 && w.applied[i] <= 1);
        total_done++;
    } else {
        EXPECT(job_state(w.job) == JOB_FAILED);
        EXPECT(count > 0);
        EXPECT(may_have_failed());
        total_failed++;
    }
}

static uint64_t run_storm(uint64_t seed)
{
    begin_storm(seed);
    for (uint32_t i = 0; i < w.options.lane_count; i++)
        w.lanes[i].wake_ns = below(1000);
    spread_news();
    uint64_t steps = 0;
    do {
        step();
        if (w.is_over && (w.is_quiet || job_state(w.job) == JOB_DONE))
            break;
        uint64_t next = next_ns();
        EXPECT(next != NEVER && next < TIME_MAX && ++steps < STEPS_MAX);
        w.now_ns = next > w.now_ns ? next : w.now_ns + 1;
    } while (true);
    check_end();
    return w.now_ns;
}

static void only_those_who_have_something_to_do_are_woken_and_all_is_done_once(void)
{
    for (uint64_t i = 0; i < test_repetitions(STORMS); i++) {
        uint64_t seed = test_seed() * 1000000 + i, ns = run_storm(seed);
        total_wakes += w.wakes;
        total_vain += w.vain;
        total_cuts += w.cuts;
        total_rivals += w.rivals;
        total_claims += w.claims;
        total_rounds += w.rounds;
        total_stops += w.stops;
        total_bad += w.has_bad;
        EXPECT(i % 16 != 0 || run_storm(seed) == ns);
    }
    printf("    %llu done, %llu failed; %llu claims in %llu rounds, %llu wakes, %llu idle; %llu "
           "cuts, "
           "%llu stopped for others, %llu rivals in slots\n",
           (unsigned long long)total_done, (unsigned long long)total_failed,
           (unsigned long long)total_claims, (unsigned long long)total_rounds,
           (unsigned long long)total_wakes, (unsigned long long)total_vain,
           (unsigned long long)total_cuts, (unsigned long long)total_stops,
           (unsigned long long)total_rivals);
    CHECK(total_cuts > 0 && total_stops > 0 && total_rivals > 0 && total_done > total_failed);
    CHECK(total_vain < total_wakes / 3 && total_bad > 0);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(
        only_those_who_have_something_to_do_are_woken_and_all_is_done_once) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
