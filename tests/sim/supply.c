/*
 * Whole jobs in virtual time whose items arrive in bursts, through a ring as a source fills it: every
 * item is delivered once, units that are given up as failed, and no attempt ever finds its items
 * written over. A job is over soon after its last item has arrived.
 */
#include "base/random.h"
#include "core/job.h"
#include "harness.h"

#include <string.h>

#define ITEMS_MAX 3000
#define LANES_MAX 6
#define DEPTH_MAX 3
#define RING_MAX 400
#define ITEM_NS_MAX 1000
#define LAUNCH_NS_MAX 20000

struct attempt {
    struct job_claim claim;
    bool is_running;
};

struct lane {
    double item_ns;
    uint64_t launch_ns, lost_ns, free_ns;
    struct attempt queue[DEPTH_MAX]; /* in the order they were kicked; the first is being run */
    uint32_t count;
    uint64_t ends_ns; /* of the first */
    bool is_lost;
};

static _Alignas(64) char memory[1 << 17];

static struct storm {
    uint64_t seed;
    struct random random;
    struct job_options options;
    struct job *job;
    uint64_t now_ns;
    struct lane lanes[LANES_MAX];
    uint64_t end, supply, next_burst_ns, burst_ns, last_arrival_ns;
    uint64_t ring[RING_MAX]; /* which item lies where */
    bool is_refused[ITEMS_MAX], is_delivered[ITEMS_MAX], has_ended;
    uint64_t delivered, given_up, sink_ns, sink_free_ns;
} w;

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
    return below(n) == 0;
}

static void begin_storm(uint64_t seed)
{
    memset(&w, 0, sizeof w);
    w.seed = seed;
    random_init(&w.random, seed);
    uint32_t lanes = (uint32_t)(1 + below(LANES_MAX)), depth = (uint32_t)(1 + below(DEPTH_MAX));
    w.end = below(ITEMS_MAX + 1);
    w.options = (struct job_options){ .items = one_in(2) ? w.end : UINT64_MAX,
                                      .unit = one_in(2) ? JOB_UNIT_ADAPTIVE : JOB_UNIT_FIXED,
                                      .unit_items = 1 + below(20),
                                      .unit_max = one_in(2) ? 1 + below(50) : 0,
                                      .window = 1 + below(RING_MAX),
                                      .lane_count = lanes,
                                      .depth = depth,
                                      .units_max = 4 * lanes * depth,
                                      .tries = 3,
                                      .ordered = one_in(2),
                                      .speculate = one_in(2),
                                      .tolerant = true,
                                      .supplied = true,
                                      .place = one_in(4),
                                      .policy = (enum job_policy)below(5) };
    /* By the seed itself, so that what is drawn stays what it was. */
    w.options.grain = seed % 3 == 0 ? 2 + seed / 3 % 5 : seed % 3 - 1;
    w.options.unit_items *= w.options.grain > 1 ? w.options.grain : 1;
    w.options.unit_max *= w.options.grain > 1 ? w.options.grain : 1;
    if (w.options.grain > 1)
        w.options.window += w.options.grain - w.options.window % w.options.grain;
    EXPECT(job_bytes(&w.options) > 0 && job_bytes(&w.options) <= sizeof memory);
    w.job = job_init(memory, &w.options, 0);
    for (uint32_t i = 0; i < lanes; i++)
        w.lanes[i] = (struct lane){ .item_ns = 1 + (double)below(ITEM_NS_MAX),
                                    .launch_ns = below(2) * below(LAUNCH_NS_MAX),
                                    .lost_ns = one_in(5) ? below(5000000) : UINT64_MAX };
    /* One is always left. */
    w.lanes[below(lanes)].lost_ns = UINT64_MAX;
    for (uint64_t i = 0; i < w.end; i++)
        w.is_refused[i] = one_in(200);
    w.burst_ns = 1 + below(one_in(2) ? 1000 : 100000);
    w.sink_ns = one_in(3) ? below(500) : 0;
}

/* The first item whose place must not be written: undelivered, or still being read. */
static uint64_t floor_of(void)
{
    uint64_t floor = job_items_needed(w.job);
    for (uint32_t l = 0; l < w.options.lane_count; l++)
        for (uint32_t i = 0; i < w.lanes[l].count; i++)
            if (w.lanes[l].queue[i].claim.range.begin < floor)
                floor = w.lanes[l].queue[i].claim.range.begin;
    return floor;
}

static void arrive(void)
{
    uint64_t room = w.options.window - (w.supply - floor_of()), left = w.end - w.supply;
    EXPECT(w.supply - floor_of() <= w.options.window);
    uint64_t count = 1 + below(100);
    count = count < room ? count : room;
    count = count < left ? count : left;
    for (uint64_t i = w.supply; i < w.supply + count; i++)
        w.ring[i % w.options.window] = i;
    w.supply += count;
    job_supply(w.job, w.supply);
    w.next_burst_ns = w.now_ns + w.burst_ns;
    w.last_arrival_ns = count > 0 ? w.now_ns : w.last_arrival_ns;
    if (w.supply == w.end && w.options.items != w.end) {
        job_supply_ends(w.job);
        w.has_ended = true;
    }
}

static bool may_arrive(void)
{
    bool is_over = w.supply == w.end && (w.has_ended || w.options.items == w.end);
    return !is_over && (w.supply == w.end || w.supply - floor_of() < w.options.window);
}

static void check_ring(const struct attempt *attempt)
{
    for (uint64_t i = attempt->claim.range.begin; i < attempt->claim.range.end; i++)
        EXPECT(w.ring[i % w.options.window] == i);
}

static void begin_first(struct lane *lane)
{
    const struct muster_range range = lane->queue[0].claim.range;
    double work_ns = lane->item_ns * (double)(range.end - range.begin);
    lane->ends_ns = w.now_ns + lane->launch_ns + (uint64_t)work_ns + 1;
}

static bool claim_for(uint32_t index)
{
    struct lane *lane = &w.lanes[index];
    struct attempt attempt = { .is_running = true };
    if (lane->is_lost || !job_claim(w.job, index, w.now_ns, &attempt.claim))
        return false;
    EXPECT(lane->count < w.options.depth && job_kick(w.job, attempt.claim.ticket, w.now_ns));
    check_ring(&attempt);
    lane->queue[lane->count++] = attempt;
    if (lane->count == 1)
        begin_first(lane);
    return true;
}

static void finish_first(struct lane *lane)
{
    struct attempt attempt = lane->queue[0];
    memmove(lane->queue, lane->queue + 1, --lane->count * sizeof attempt);
    check_ring(&attempt);
    bool is_refused = false;
    for (uint64_t i = attempt.claim.range.begin; i < attempt.claim.range.end; i++)
        is_refused = is_refused || w.is_refused[i];
    enum job_end end = is_refused ? JOB_END_USER : one_in(50) ? JOB_END_UNIT : JOB_END_OK;
    enum job_verdict verdict = job_finish(w.job, attempt.claim.ticket, end, w.now_ns);
    EXPECT(verdict != JOB_REFUSED);
    if (lane->count > 0)
        begin_first(lane);
}

static void lose(uint32_t index)
{
    w.lanes[index].is_lost = true;
    w.lanes[index].count = 0;
    job_lane_lost(w.job, index, w.now_ns);
}

static bool deliver_one(void)
{
    uint32_t unit;
    struct muster_range range;
    if (w.now_ns < w.sink_free_ns || !job_next_result(w.job, &unit, &range))
        return false;
    EXPECT(!w.options.ordered || range.begin == w.delivered);
    for (uint64_t i = range.begin; i < range.end; i++) {
        EXPECT(!w.is_delivered[i] && (!w.is_refused[i] || job_has_failed(w.job, unit)));
        w.is_delivered[i] = true;
    }
    w.given_up += job_has_failed(w.job, unit);
    w.delivered += range.end - range.begin;
    w.sink_free_ns = w.now_ns + w.sink_ns * (range.end - range.begin);
    job_delivered(w.job, unit);
    return true;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* When something happens next. */
static uint64_t next_event_ns(void)
{
    uint64_t next_ns = job_look_due(w.job);
    if (may_arrive())
        next_ns = earlier(next_ns, w.next_burst_ns);
    if (w.sink_free_ns > w.now_ns)
        next_ns = earlier(next_ns, w.sink_free_ns);
    for (uint32_t l = 0; l < w.options.lane_count; l++) {
        if (w.lanes[l].count > 0)
            next_ns = earlier(next_ns, w.lanes[l].ends_ns);
        if (!w.lanes[l].is_lost)
            next_ns = earlier(next_ns, w.lanes[l].lost_ns);
    }
    return next_ns;
}

static void step(void)
{
    for (uint32_t l = 0; l < w.options.lane_count; l++) {
        struct lane *lane = &w.lanes[l];
        if (!lane->is_lost && lane->lost_ns <= w.now_ns)
            lose(l);
        if (lane->count > 0 && lane->ends_ns <= w.now_ns)
            finish_first(lane);
    }
    if (may_arrive() && w.next_burst_ns <= w.now_ns)
        arrive();
    if (job_look_due(w.job) <= w.now_ns)
        job_look(w.job, w.now_ns);
    while (deliver_one())
        ;
    bool is_given = true;
    while (is_given) {
        is_given = false;
        for (uint32_t l = 0; l < w.options.lane_count; l++)
            is_given = claim_for(l) || is_given;
    }
    const char *broken = job_check(w.job);
    if (broken)
        test_fail(__FILE__, __LINE__, "storm %llu: %s", (unsigned long long)w.seed, broken);
}

static uint64_t run_storm(uint64_t seed)
{
    begin_storm(seed);
    uint64_t steps = 0;
    do {
        step();
        uint64_t next_ns = next_event_ns();
        if (job_state(w.job) != JOB_RUNNING)
            break;
        EXPECT(next_ns != UINT64_MAX && ++steps < 100000);
        w.now_ns = next_ns > w.now_ns ? next_ns : w.now_ns + 1;
    } while (true);
    EXPECT(job_state(w.job) == JOB_DONE);
    EXPECT(w.delivered == w.end && job_items(w.job) == w.end);
    for (uint64_t i = 0; i < w.end; i++)
        EXPECT(w.is_delivered[i]);
    return w.now_ns;
}

/* A window of single items, on the slowest lane and through the sink, with all tries: nobody idles. */
static uint64_t rest_ns(void)
{
    return 1 + w.options.window * w.options.tries * (ITEM_NS_MAX + LAUNCH_NS_MAX + w.sink_ns);
}

static void everything_that_arrives_is_delivered(void)
{
    uint64_t given_up = 0;
    for (uint64_t i = 0; i < test_repetitions(STORMS); i++) {
        uint64_t seed = test_seed() * 1000000 + i, makespan_ns = run_storm(seed);
        given_up += w.given_up;
        EXPECT(makespan_ns >= w.last_arrival_ns && makespan_ns <= w.last_arrival_ns + rest_ns());
        /* The same again, to the nanosecond. */
        EXPECT(i % 8 != 0 || run_storm(seed) == makespan_ns);
    }
    CHECK(given_up > 0);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(everything_that_arrives_is_delivered) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
