/*
 * Lanes whose devices have no memory or streams now: given nothing, expected to do nothing, and what
 * failed there for memory is no worse for it.
 */
#include "core/job.h"

#include "support.h"

static _Alignas(64) char memory[1 << 18];
static struct job *job;
static uint64_t now_ns;

static void check_sound(void)
{
    const char *broken = job_check(job);
    if (broken)
        test_fail(__FILE__, __LINE__, "%s", broken);
}

static void begin(uint64_t items, uint32_t lanes, enum job_unit_rule unit)
{
    const struct job_options options = { .items = items,
                                         .unit = unit,
                                         .unit_items = 1,
                                         .unit_max = 64,
                                         .lane_count = lanes,
                                         .depth = 2,
                                         .units_max = 256,
                                         .tries = 2,
                                         .ordered = true,
                                         .speculate = true };
    size_t bytes = job_bytes(&options);
    CHECK(bytes > 0 && bytes <= sizeof memory);
    now_ns = 0;
    job = job_init(memory, &options, now_ns);
    check_sound();
}

static struct job_claim take(uint32_t lane)
{
    struct job_claim claim = { .unit = JOB_NONE };
    CHECK(job_claim(job, lane, now_ns, &claim));
    CHECK(job_kick(job, claim.ticket, now_ns));
    check_sound();
    return claim;
}

static bool gets_nothing(uint32_t lane)
{
    struct job_claim claim;
    bool is_given = job_claim(job, lane, now_ns, &claim);
    check_sound();
    return !is_given;
}

static void set_short(uint32_t lane, bool is_short)
{
    job_lane_short(job, lane, is_short, now_ns);
    check_sound();
}

static enum job_verdict finish(struct job_claim claim, enum job_end end)
{
    now_ns += 10 * MS;
    enum job_verdict verdict = job_finish(job, claim.ticket, end, now_ns);
    check_sound();
    return verdict;
}

static void deliver_all(void)
{
    uint32_t unit;
    struct muster_range range;
    while (job_next_result(job, &unit, &range))
        job_delivered(job, unit);
    check_sound();
}

static void no_memory_costs_no_try(void)
{
    begin(1, 1, JOB_UNIT_FIXED);
    for (unsigned i = 0; i < 50; i++)
        CHECK_EQUAL(JOB_AGAIN, finish(take(0), JOB_END_MEMORY));
    struct job_lane_report report;
    job_lane_report(job, 0, &report);
    CHECK_EQUAL(0, report.retries);
    CHECK_EQUAL(0, job_retries(job));
    /* It has all its tries left. */
    CHECK_EQUAL(JOB_AGAIN, finish(take(0), JOB_END_UNIT));
    CHECK_EQUAL(JOB_AGAIN, finish(take(0), JOB_END_MEMORY));
    CHECK_EQUAL(JOB_ACCEPTED, finish(take(0), JOB_END_OK));
    deliver_all();
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

static void a_short_lane_is_given_nothing_and_keeps_what_it_has(void)
{
    begin(8, 2, JOB_UNIT_FIXED);
    struct job_claim held = take(0);
    set_short(0, true);
    CHECK(gets_nothing(0));
    CHECK_EQUAL(JOB_ACCEPTED, finish(held, JOB_END_OK));
    CHECK(gets_nothing(0));
    for (unsigned i = 0; i < 3; i++)
        CHECK_EQUAL(JOB_ACCEPTED, finish(take(1), JOB_END_OK));
    set_short(0, false);
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQUAL(JOB_ACCEPTED, finish(take(i % 2), JOB_END_OK));
    deliver_all();
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

/* Lane 0 is much the faster: what would be left to it is not while it is short. */
static void nothing_is_left_to_a_short_lane(void)
{
    begin(4096, 2, JOB_UNIT_ADAPTIVE);
    struct job_claim slow = take(1);
    for (unsigned i = 0; i < 20; i++) {
        struct job_claim claim = take(0);
        now_ns += 1000;
        CHECK_EQUAL(JOB_ACCEPTED, job_finish(job, claim.ticket, JOB_END_OK, now_ns));
        deliver_all();
    }
    now_ns += 500 * MS;
    CHECK_EQUAL(JOB_ACCEPTED, job_finish(job, slow.ticket, JOB_END_OK, now_ns));
    deliver_all();
    set_short(0, true);
    while (job_state(job) == JOB_RUNNING) {
        struct job_claim claim = take(1);
        now_ns += 500 * MS;
        CHECK_EQUAL(JOB_ACCEPTED, job_finish(job, claim.ticket, JOB_END_OK, now_ns));
        check_sound();
        deliver_all();
    }
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

static void a_job_whose_lanes_are_all_short_waits(void)
{
    begin(2, 2, JOB_UNIT_FIXED);
    set_short(0, true);
    set_short(1, true);
    CHECK(gets_nothing(0) && gets_nothing(1));
    now_ns += 3600 * SECOND;
    job_look(job, now_ns);
    check_sound();
    CHECK_EQUAL(JOB_RUNNING, job_state(job));
    set_short(1, false);
    struct job_claim first = take(1), second = take(1);
    CHECK_EQUAL(JOB_ACCEPTED, finish(first, JOB_END_OK));
    CHECK_EQUAL(JOB_ACCEPTED, finish(second, JOB_END_OK));
    deliver_all();
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

static void one_that_is_lost_while_short_is_lost(void)
{
    begin(2, 2, JOB_UNIT_FIXED);
    set_short(0, true);
    job_lane_lost(job, 0, now_ns);
    check_sound();
    set_short(0, false);
    CHECK(gets_nothing(0));
    job_lane_lost(job, 1, now_ns);
    check_sound();
    CHECK_EQUAL(JOB_FAILED, job_state(job));
}

static void a_policy_passes_over_a_short_lane(void)
{
    static const enum job_policy policies[] = { JOB_ROUND_ROBIN, JOB_LEAST_LOADED, JOB_WEIGHTED,
                                                JOB_ADAPTIVE, JOB_EARLIEST_FINISH };
    for (size_t i = 0; i < COUNT_OF(policies); i++) {
        const struct job_options options = { .items = 3,
                                             .unit = JOB_UNIT_FIXED,
                                             .unit_items = 1,
                                             .lane_count = 2,
                                             .depth = 2,
                                             .units_max = 16,
                                             .tries = 2,
                                             .ordered = true,
                                             .place = true,
                                             .policy = policies[i] };
        now_ns = 0;
        job = job_init(memory, &options, now_ns);
        set_short(0, true);
        while (job_state(job) == JOB_RUNNING) {
            CHECK_EQUAL(JOB_ACCEPTED, finish(take(1), JOB_END_OK));
            deliver_all();
        }
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(no_memory_costs_no_try),
        TEST(a_short_lane_is_given_nothing_and_keeps_what_it_has),
        TEST(nothing_is_left_to_a_short_lane),
        TEST(a_job_whose_lanes_are_all_short_waits),
        TEST(one_that_is_lost_while_short_is_lost),
        TEST(a_policy_passes_over_a_short_lane),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
