/*
 * Units of a lane that has a job to itself, where they may be of any size (`unit_ns` of core/job.h): as
 * few as they can be, and none of them much longer than it may take.
 */
#include "job_support.h"

#define UNIT_NS (100 * MS)

static struct job_options alone(uint64_t items, uint32_t depth)
{
    struct job_options options = plain(items, 1);
    options.unit = JOB_UNIT_ADAPTIVE;
    options.depth = depth;
    options.first_items = 1000;
    options.unit_ns = UNIT_NS;
    return options;
}

/* An item takes a nanosecond and a unit 20 microseconds more, as on cores that are woken for each. */
static uint64_t run(void)
{
    struct job_claim claim = start(0);
    now_ns += size_of(claim) + 20000;
    CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    deliver();
    return size_of(claim);
}

static void a_job_of_some_milliseconds_has_few_units(void)
{
    begin(alone(12345679, 1));
    uint64_t units = 0;
    for (; job_state(job) == JOB_RUNNING; units++)
        run();
    CHECK(units <= 5);
}

/* Whatever is left goes with the last unit, also while another runs: an item more would cost a round. */
static void no_small_rest_is_left(void)
{
    for (uint64_t items = 5000000; items < 5000300; items++) {
        begin(alone(items, 2));
        struct job_claim running = start(0), next;
        uint64_t last = 0;
        while (job_state(job) == JOB_RUNNING) {
            bool is_more = ask(0, &next);
            CHECK(!is_more || kick(next));
            last = size_of(running);
            now_ns += last + 20000;
            CHECK_EQUAL(JOB_ACCEPTED, finish(running, JOB_END_OK));
            deliver();
            running = next;
        }
        CHECK(last >= 100000);
    }
}

/* Of two that end at one time the second seems to have taken none. */
static void units_that_end_at_one_time_do_not_make_the_next_too_large(void)
{
    for (uint64_t item_ns = 1000; item_ns <= 1000000; item_ns *= 10) {
        begin(alone(UINT64_C(1) << 40, 2));
        for (int i = 0; i < 12; i++) {
            struct job_claim first = start(0), second = start(0);
            uint64_t both_ns = (size_of(first) + size_of(second)) * item_ns;
            if (size_of(first) > 1000)
                CHECK(size_of(first) * item_ns <= 4 * UNIT_NS);
            now_ns += both_ns;
            CHECK_EQUAL(JOB_ACCEPTED, finish(first, JOB_END_OK));
            CHECK_EQUAL(JOB_ACCEPTED, finish(second, JOB_END_OK));
            deliver();
        }
    }
}

/* What the unit before it took says more than what one of that size may take. */
static void a_slow_first_unit_is_followed_by_one_a_little_larger(void)
{
    begin(alone(100000000, 1));
    struct job_claim first = start(0);
    now_ns += 50 * MS;
    CHECK_EQUAL(JOB_ACCEPTED, finish(first, JOB_END_OK));
    deliver();
    CHECK(size_of(start(0)) <= 4 * size_of(first));
}

/* An earlier job has shown what the lane does: there is nothing to find out by small units. */
static void a_lane_that_is_known_begins_with_a_large_unit(void)
{
    struct job_options options = alone(12345679, 2);
    options.known_per_ns = 1.0;
    begin(options);
    struct job_claim first = start(0), second = start(0);
    CHECK(size_of(first) > 1000 * 1000 && size_of(first) <= UNIT_NS / 16);
    CHECK_EQUAL(size_of(first), size_of(second));
    /* Never more than there is, nor less than without knowing. */
    options.items = 5000;
    begin(options);
    CHECK_EQUAL(5000, size_of(start(0)));
    options.items = 12345679;
    options.known_per_ns = 1e-6;
    begin(options);
    CHECK_EQUAL(1000, size_of(start(0)));
}

static void a_first_unit_can_be_alone(void)
{
    struct job_options options = alone(12345679, 2);
    struct job_claim first, next;
    options.first_alone = true;
    begin(options);
    first = start(0);
    CHECK(!ask(0, &next));
    now_ns += MS;
    CHECK_EQUAL(JOB_ACCEPTED, finish(first, JOB_END_OK));
    deliver();
    start(0);
    CHECK(ask(0, &next));
    /* Of a lane that is known there is nothing to wait for. */
    options.known_per_ns = 1.0;
    begin(options);
    start(0);
    CHECK(ask(0, &next));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_job_of_some_milliseconds_has_few_units),
        TEST(no_small_rest_is_left),
        TEST(units_that_end_at_one_time_do_not_make_the_next_too_large),
        TEST(a_slow_first_unit_is_followed_by_one_a_little_larger),
        TEST(a_lane_that_is_known_begins_with_a_large_unit),
        TEST(a_first_unit_can_be_alone),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
