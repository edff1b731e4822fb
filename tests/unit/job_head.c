/*
 * The head of the line: a unit that takes long must not stop the lanes that are faster. A lane is not
 * given what it would finish too late for that, what turns out to be late is run a second time while
 * there is room, and what was late teaches how slow its lane is.
 */
#include "job_support.h"

/* One unit of the lane's from start to delivery, each item taking so long; gives its items. */
static uint64_t run(uint32_t lane, uint64_t item_ns)
{
    struct job_claim claim = start(lane);
    now_ns += item_ns * size_of(claim);
    CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    deliver();
    return size_of(claim);
}

/* Units of ten items, in order, second runs allowed. */
static struct job_options tens(uint64_t window, uint32_t lanes, uint32_t depth)
{
    struct job_options options = plain(1000000, lanes);
    options.unit_items = 10;
    options.window = window;
    options.depth = depth;
    options.speculate = true;
    return options;
}

/* The lanes are measured: this many nanoseconds an item. */
static void begin_with(struct job_options options, const uint64_t *item_ns)
{
    begin(options);
    for (uint32_t i = 0; i < options.lane_count; i++)
        run(i, item_ns[i]);
}

static void a_lane_that_would_stop_the_others_is_given_nothing(void)
{
    /* In the time of one slow unit the fast lane fills the window three times. */
    begin_with(tens(100, 2, 1), (const uint64_t[]){ 100, 3000 });
    CHECK(gets_nothing(1));
    struct job_claim fast = start(0);
    CHECK(gets_nothing(1));
    CHECK_EQUAL(JOB_ACCEPTED, finish(fast, JOB_END_OK));
    /* Also while nobody is at work: the fast one is about to ask. */
    CHECK(gets_nothing(1));
    CHECK_EQUAL(1, deliver());
}

static void a_lane_that_ends_before_the_window_is_full_takes_part(void)
{
    begin_with(tens(100, 2, 1), (const uint64_t[]){ 100, 500 });
    start(0);
    start(1);
}

/* The slower lanes together bring more than the fast one, though it would fill the window alone. */
static void many_slow_lanes_are_not_left_out_for_one_that_is_fast(void)
{
    static const uint64_t item_ns[] = { 100, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500 };
    begin_with(tens(120, 11, 1), item_ns);
    for (uint32_t i = 0; i < 11; i++)
        start(i);
}

static void without_order_nothing_is_stopped(void)
{
    struct job_options options = tens(100, 2, 1);
    options.ordered = false;
    begin_with(options, (const uint64_t[]){ 100, 3000 });
    start(1);
}

/* Items that arrive stay until all before them are delivered, whatever the order of results. */
static void where_items_arrive_they_are_in_order_all_the_same(void)
{
    struct job_options options = tens(100, 2, 1);
    options.ordered = false;
    options.supplied = true;
    begin(options);
    job_supply(job, 1000);
    run(0, 100);
    run(1, 3000);
    CHECK(gets_nothing(1));
}

/* Without a window the number of units is one. */
static void the_number_of_units_is_a_window_too(void)
{
    struct job_options options = tens(0, 2, 3);
    options.units_max = 10;
    begin_with(options, (const uint64_t[]){ 100, 9000 });
    CHECK(gets_nothing(1));
    for (uint32_t i = 0; i < 3; i++)
        start(0);
    CHECK(gets_nothing(1));
}

/* The last items do not fill the window: then the slow lane stops nobody. */
static void the_last_items_may_be_taken(void)
{
    struct job_options options = tens(100, 2, 1);
    options.items = 120;
    begin_with(options, (const uint64_t[]){ 100, 3000 });
    start(1);
}

/* Law 9: one that has recovered is tried again. */
static void a_lane_that_was_too_slow_is_tried_again(void)
{
    struct job_claim claim;
    begin_with(tens(100, 2, 1), (const uint64_t[]){ 100, 100 });
    for (uint32_t i = 0; i < 5; i++)
        run(1, 100);
    while (ask(1, &claim)) {
        CHECK(kick(claim));
        now_ns += 300000;
        CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
        deliver();
    }
    uint64_t due_ns = job_look_due(job);
    CHECK(due_ns > now_ns + 100000 && due_ns < now_ns + 20 * 300000);
    now_ns = due_ns;
    look();
    run(1, 100);
    /* What it was before does not count any more. */
    run(1, 100);
}

/* However deep it is, a lane leaves room in the window for the others. */
static void a_deep_lane_does_not_fill_the_window(void)
{
    struct job_options options = tens(100, 2, 8);
    begin_with(options, (const uint64_t[]){ 100, 300 });
    struct job_claim claim;
    while (ask(0, &claim))
        CHECK(kick(claim));
    CHECK(job_window_used(job) <= 80);
    start(1);
}

/*
 * Each of the slow lane's units is in time by itself. It may hold three of eight, since it may be slow
 * because it holds few, and no more, since these would come too late.
 */
static void a_slow_lane_is_given_few_units_that_wait_in_its_queue(void)
{
    begin_with(tens(100, 2, 8), (const uint64_t[]){ 100, 700 });
    for (uint32_t i = 0; i < 3; i++)
        start(1);
    CHECK(gets_nothing(1));
}

/* Of two slots it has one, and may have another unit when that is done, but not before. */
static void a_slow_lane_with_few_slots_holds_one(void)
{
    begin_with(tens(100, 2, 2), (const uint64_t[]){ 100, 700 });
    start(1);
    CHECK(gets_nothing(1));
}

/* A unit that is too late by itself does not wait in a queue either. */
static void a_lane_that_is_too_slow_holds_one(void)
{
    begin_with(tens(100, 2, 8), (const uint64_t[]){ 100, 900 });
    start(1);
    CHECK(gets_nothing(1));
}

/* Adaptive units of a lane that has many slots: all it holds is done before the window is full. */
static void units_of_a_deep_slow_lane_end_before_the_window_is_full(void)
{
    struct job_options options = tens(1000, 2, 8);
    options.unit = JOB_UNIT_ADAPTIVE;
    begin(options);
    for (uint32_t i = 0; i < 20; i++)
        run(i % 2, i % 2 ? 1000 : 100);
    uint64_t items = 0;
    for (struct job_claim claim; ask(1, &claim); items += size_of(claim))
        CHECK(kick(claim));
    /* Both together fill the window in 91 us. */
    CHECK(items > 0 && items * 1000 < 91000);
}

/* Second runs. */

/* Both lanes at 100 ns an item; lane 0 has a unit from the beginning of a window of `window`. */
static struct job_claim begin_late(uint64_t window, bool speculates)
{
    struct job_options options = tens(window, 2, 1);
    options.speculate = speculates;
    begin_with(options, (const uint64_t[]){ 100, 100 });
    struct job_claim late = start(0);
    /* It should take 1 us, and the other lane needs 1 us for each unit. */
    return late;
}

static void a_late_unit_is_run_again_before_the_window_is_full(void)
{
    struct job_claim late = begin_late(105, true), claim;
    uint64_t room = 0;
    for (uint32_t i = 0; i < 20; i++) {
        room = 105 - job_window_used(job);
        claim = start(1);
        if (claim.is_copy)
            break;
        now_ns += 1000;
        CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
        expect_no_result();
    }
    CHECK(claim.is_copy);
    CHECK_EQUAL(late.range.begin, claim.range.begin);
    /* There was room for another one, and the first was given time. */
    CHECK(room >= 10 && room <= 50);
    now_ns += 1000;
    CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    CHECK(deliver() > 1);
    CHECK_EQUAL(JOB_LATE, finish(late, JOB_END_OK));
}

static void one_that_is_in_time_is_not_run_again(void)
{
    struct job_claim first = begin_late(30, true);
    now_ns += 500;
    struct job_claim claim = start(1);
    CHECK(!claim.is_copy);
    now_ns += 400;
    CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    CHECK(!start(1).is_copy);
    CHECK_EQUAL(JOB_ACCEPTED, finish(first, JOB_END_OK));
}

static void without_second_runs_there_is_none(void)
{
    begin_late(105, false);
    for (uint32_t i = 0; i < 9; i++) {
        struct job_claim claim = start(1);
        CHECK(!claim.is_copy);
        now_ns += 1000;
        CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    }
    CHECK(gets_nothing(1));
}

/* A unit that waits in the late lane's queue is taken from it instead. */
static void what_waits_after_a_late_unit_is_taken_back_before_the_window_is_full(void)
{
    begin_with(tens(105, 2, 2), (const uint64_t[]){ 100, 100 });
    struct job_claim late = start(0), waiting = take(0), claim;
    do {
        claim = start(1);
        now_ns += 1000;
        CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
        deliver();
    } while (claim.range.begin != waiting.range.begin);
    CHECK(!claim.is_copy && !kick(waiting));
    CHECK_EQUAL(JOB_LATE, finish(late, JOB_END_OK));
}

/* Units of ten in a window of 25: five items are left, and no unit fits. */
static void a_window_that_is_no_multiple_of_the_units_is_full_too(void)
{
    begin_with(tens(25, 2, 1), (const uint64_t[]){ 100, 100 });
    struct job_claim late = start(0), claim = start(1);
    now_ns += 1000;
    CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    while (!ask(1, &claim)) {
        CHECK(job_look_due(job) < now_ns + 10000);
        now_ns = job_look_due(job);
        look();
    }
    CHECK(claim.is_copy);
    CHECK_EQUAL(late.range.begin, claim.range.begin);
}

/* The last unit is smaller than the others, and fits where another would not. */
static void the_last_unit_fits_where_a_whole_one_does_not(void)
{
    struct job_options options = tens(25, 3, 1);
    options.items = 24;
    begin(options);
    CHECK_EQUAL(10, size_of(start(0)));
    CHECK_EQUAL(10, size_of(start(1)));
    CHECK_EQUAL(4, size_of(start(2)));
}

/* What has lost. */

/* Lane 0 has become slow: its unit is run by lane 1 too, which is first. */
static struct job_claim begin_lost(void)
{
    struct job_options options = tens(100, 2, 1);
    begin_with(options, (const uint64_t[]){ 100, 100 });
    struct job_claim late = start(0), claim;
    do {
        claim = start(1);
        now_ns += 1000;
        CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    } while (!claim.is_copy);
    deliver();
    CHECK(job_should_stop(job, late.ticket));
    return late;
}

static void a_lane_whose_units_are_late_is_known_to_be_slow(void)
{
    struct job_claim late = begin_lost();
    now_ns += 100000;
    CHECK_EQUAL(JOB_LATE, finish(late, JOB_END_OK));
    start(1);
    CHECK(gets_nothing(0));
}

/* It was stopped after a hundred times as long as it should have taken. */
static void one_whose_late_units_are_stopped_is_too(void)
{
    struct job_claim late = begin_lost();
    now_ns += 100000;
    CHECK_EQUAL(JOB_LATE, finish(late, JOB_END_STOPPED));
    start(1);
    CHECK(gets_nothing(0));
}

/* A second run that is stopped early does not make its lane look slow. */
static void one_that_is_stopped_early_is_not(void)
{
    struct job_options options = tens(90, 3, 1);
    begin_with(options, (const uint64_t[]){ 100, 100, 100 });
    struct job_claim late = start(0), claim;
    do {
        claim = start(1);
        now_ns += claim.is_copy ? 100 : 1000;
        CHECK_EQUAL(JOB_ACCEPTED, finish(claim.is_copy ? late : claim, JOB_END_OK));
    } while (!claim.is_copy);
    CHECK_EQUAL(JOB_LATE, finish(claim, JOB_END_STOPPED));
    deliver();
    start(2);
    start(1);
}

/* Place mode. */

static void measured_policies_pass_over_a_lane_that_is_full(void)
{
    static const enum job_policy policies[] = { JOB_ADAPTIVE, JOB_EARLIEST_FINISH };
    for (uint32_t i = 0; i < 2; i++) {
        struct job_options options = plain(100, 2);
        options.depth = 1;
        options.place = true;
        options.policy = policies[i];
        begin(options);
        struct job_claim fast = start(0), slow = start(1);
        now_ns += 100;
        CHECK_EQUAL(JOB_ACCEPTED, finish(fast, JOB_END_OK));
        now_ns += 900;
        CHECK_EQUAL(JOB_ACCEPTED, finish(slow, JOB_END_OK));
        CHECK_EQUAL(0, job_place(job, now_ns));
        start(0);
        CHECK_EQUAL(1, job_place(job, now_ns));
        start(1);
        CHECK_EQUAL(JOB_NONE, job_place(job, now_ns));
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_lane_that_would_stop_the_others_is_given_nothing),
        TEST(a_lane_that_ends_before_the_window_is_full_takes_part),
        TEST(many_slow_lanes_are_not_left_out_for_one_that_is_fast),
        TEST(without_order_nothing_is_stopped),
        TEST(where_items_arrive_they_are_in_order_all_the_same),
        TEST(the_number_of_units_is_a_window_too),
        TEST(the_last_items_may_be_taken),
        TEST(a_lane_that_was_too_slow_is_tried_again),
        TEST(a_deep_lane_does_not_fill_the_window),
        TEST(a_slow_lane_is_given_few_units_that_wait_in_its_queue),
        TEST(a_slow_lane_with_few_slots_holds_one),
        TEST(a_lane_that_is_too_slow_holds_one),
        TEST(units_of_a_deep_slow_lane_end_before_the_window_is_full),
        TEST(a_late_unit_is_run_again_before_the_window_is_full),
        TEST(one_that_is_in_time_is_not_run_again),
        TEST(without_second_runs_there_is_none),
        TEST(what_waits_after_a_late_unit_is_taken_back_before_the_window_is_full),
        TEST(a_window_that_is_no_multiple_of_the_units_is_full_too),
        TEST(the_last_unit_fits_where_a_whole_one_does_not),
        TEST(a_lane_whose_units_are_late_is_known_to_be_slow),
        TEST(one_whose_late_units_are_stopped_is_too),
        TEST(one_that_is_stopped_early_is_not),
        TEST(measured_policies_pass_over_a_lane_that_is_full),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
