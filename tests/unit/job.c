#include "job_support.h"

/* One unit through the lane at this many nanoseconds an item; gives its size. */
static uint64_t run(uint32_t lane, uint64_t item_ns)
{
    struct job_claim claim = start(lane);
    now_ns += size_of(claim) * item_ns;
    CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    deliver();
    return size_of(claim);
}

static void expect_failed(size_t count, const struct muster_range *ranges)
{
    struct muster_range failed[JOB_FAILED_MAX];
    CHECK_EQUAL(count, job_failed_ranges(job, failed, COUNT_OF(failed)));
    for (size_t i = 0; i < count; i++) {
        CHECK_EQUAL(ranges[i].begin, failed[i].begin);
        CHECK_EQUAL(ranges[i].end, failed[i].end);
    }
}

static struct job_lane_report report_of(uint32_t lane)
{
    struct job_lane_report report;
    job_lane_report(job, lane, &report);
    return report;
}

/* Beginning and end. */

static void options_that_make_no_sense_are_refused(void)
{
    struct job_options options = plain(10, 2);
    CHECK(job_bytes(&options) > 0);
    options.lane_count = 0;
    CHECK_EQUAL(0, job_bytes(&options));
    options = plain(10, 2);
    options.depth = 0;
    CHECK_EQUAL(0, job_bytes(&options));
    options = plain(10, 2);
    options.tries = 0;
    CHECK_EQUAL(0, job_bytes(&options));
    options = plain(10, 2);
    options.unit_items = 0;
    CHECK_EQUAL(0, job_bytes(&options));
    options = plain(10, 2);
    options.units_max = 3;
    CHECK_EQUAL(0, job_bytes(&options));
    options = plain(10, UINT32_MAX);
    CHECK_EQUAL(0, job_bytes(&options));
}

static void a_job_without_items_is_done(void)
{
    begin(plain(0, 1));
    CHECK_EQUAL(JOB_DONE, job_state(job));
    CHECK(gets_nothing(0));
    CHECK(job_is_quiet(job));
    CHECK_EQUAL(UINT64_MAX, look());
}

static void a_job_is_done_when_its_last_result_has_left(void)
{
    begin(plain(2, 1));
    struct job_claim first = start(0), second = start(0);
    CHECK_EQUAL(JOB_ACCEPTED, finish(first, JOB_END_OK));
    CHECK_EQUAL(JOB_ACCEPTED, finish(second, JOB_END_OK));
    CHECK(job_is_quiet(job));
    CHECK_EQUAL(JOB_RUNNING, job_state(job));
    expect_result(0);
    CHECK_EQUAL(JOB_RUNNING, job_state(job));
    expect_result(1);
    CHECK_EQUAL(JOB_DONE, job_state(job));
    CHECK_EQUAL(2, job_items_delivered(job));
    CHECK_EQUAL(0, job_window_used(job));
    CHECK_EQUAL(2, job_units_made(job));
    CHECK_EQUAL(2, report_of(0).units);
}

/* Law 3: a unit has one owner and ends exactly once. */

static void a_claimed_unit_is_nobody_elses(void)
{
    begin(plain(8, 4));
    bool seen[8] = { false };
    for (uint32_t round = 0; round < 8; round++) {
        struct job_claim claim = take(round % 4);
        CHECK(!seen[claim.range.begin]);
        seen[claim.range.begin] = true;
    }
    for (uint32_t lane = 0; lane < 4; lane++)
        CHECK(gets_nothing(lane));
}

static void a_lane_is_given_no_more_than_its_depth(void)
{
    begin(plain(8, 1));
    struct job_claim claim = start(0);
    take(0);
    CHECK(gets_nothing(0));
    finish(claim, JOB_END_OK);
    take(0);
    CHECK(gets_nothing(0));
}

static void a_unit_ends_exactly_once(void)
{
    begin(plain(3, 1));
    struct job_claim claim = start(0);
    CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    CHECK_EQUAL(JOB_LATE, finish(claim, JOB_END_OK));
    CHECK_EQUAL(JOB_LATE, finish(claim, JOB_END_UNIT));
    CHECK_EQUAL(JOB_LATE, finish(claim, JOB_END_USER));
    CHECK_EQUAL(JOB_LATE, finish(claim, JOB_END_DEVICE));
    CHECK_EQUAL(JOB_RUNNING, job_state(job));
    CHECK(!report_of(0).is_lost);
    CHECK_EQUAL(1, deliver());
    CHECK_EQUAL(1, report_of(0).units);
}

static void a_ticket_is_stale_once_its_slot_is_reused(void)
{
    begin(plain(9, 1));
    struct job_claim old = start(0);
    finish(old, JOB_END_OK);
    struct job_claim young = start(0);
    CHECK_EQUAL(old.ticket.attempt, young.ticket.attempt);
    CHECK(!kick(old));
    CHECK_EQUAL(JOB_LATE, finish(old, JOB_END_UNIT));
    CHECK_EQUAL(JOB_ACCEPTED, finish(young, JOB_END_OK));
    CHECK_EQUAL(2, deliver());
}

static void a_ticket_nobody_was_given_is_stale(void)
{
    begin(plain(9, 1));
    struct job_claim claim = { .ticket = { UINT32_MAX, 1 } };
    CHECK(!kick(claim));
    CHECK_EQUAL(JOB_LATE, finish(claim, JOB_END_OK));
    claim.ticket = (struct job_ticket){ 0, 0 };
    CHECK(!kick(claim));
    CHECK_EQUAL(JOB_LATE, finish(claim, JOB_END_OK));
}

/* Law 5: completions are matched by ticket. */

static void completions_in_any_order_are_told_apart(void)
{
    struct job_options options = plain(3, 1);
    options.depth = 3;
    begin(options);
    struct job_claim claims[3];
    for (int i = 0; i < 3; i++)
        claims[i] = start(0);
    CHECK_EQUAL(JOB_ACCEPTED, finish(claims[2], JOB_END_OK));
    expect_no_result();
    CHECK_EQUAL(JOB_AGAIN, finish(claims[1], JOB_END_UNIT));
    CHECK_EQUAL(JOB_ACCEPTED, finish(claims[0], JOB_END_OK));
    expect_result(0);
    expect_no_result();
    struct job_claim again = start(0);
    CHECK(again.is_retry);
    CHECK_EQUAL(1, again.range.begin);
    finish(again, JOB_END_OK);
    expect_result(1);
    expect_result(2);
}

/*
 * Three measured lanes of depth 1. Lane 0 is at item 6 and lane 2 at item 7, both overdue; lane 1 has
 * done item 8, is idle, and has been given item 6 as well.
 */
static void begin_race(struct job_claim *slow, struct job_claim *other, struct job_claim *copy)
{
    struct job_options options = plain(9, 3);
    options.speculate = true;
    options.depth = 1;
    begin(options);
    for (uint32_t i = 0; i < 6; i++)
        run(i % 3, 1000);
    *slow = start(0);
    *other = start(2);
    run(1, 1000);
    now_ns += 100000;
    *copy = start(1);
    CHECK(copy->is_copy && !copy->is_retry);
    CHECK_EQUAL(slow->range.begin, copy->range.begin);
}

static void the_first_finish_of_a_unit_wins(void)
{
    struct job_claim slow, other, copy;
    begin_race(&slow, &other, &copy);
    CHECK_EQUAL(JOB_ACCEPTED, finish(copy, JOB_END_OK));
    expect_result(6);
    CHECK_EQUAL(JOB_LATE, finish(slow, JOB_END_OK));
    expect_no_result();
    CHECK_EQUAL(1, report_of(0).copies_lost);
    CHECK_EQUAL(2, report_of(0).units);
    CHECK_EQUAL(4, report_of(1).units);
}

static void a_copy_that_loses_is_late(void)
{
    struct job_claim slow, other, copy;
    begin_race(&slow, &other, &copy);
    CHECK_EQUAL(JOB_ACCEPTED, finish(slow, JOB_END_OK));
    expect_result(6);
    CHECK_EQUAL(JOB_LATE, finish(copy, JOB_END_OK));
    CHECK_EQUAL(JOB_LATE, finish(copy, JOB_END_OK));
    CHECK_EQUAL(1, report_of(1).copies_lost);
    expect_no_result();
}

static void a_copy_that_fails_leaves_the_first_run_alone(void)
{
    struct job_claim slow, other, copy;
    begin_race(&slow, &other, &copy);
    CHECK_EQUAL(JOB_AGAIN, finish(copy, JOB_END_UNIT));
    CHECK_EQUAL(JOB_ACCEPTED, finish(slow, JOB_END_OK));
    expect_result(6);
}

static void a_lost_copy_leaves_the_first_run_alone(void)
{
    struct job_claim slow, other, copy;
    begin_race(&slow, &other, &copy);
    lose(1);
    CHECK_EQUAL(JOB_ACCEPTED, finish(slow, JOB_END_OK));
    expect_result(6);
}

static void a_late_run_holds_its_slot_until_it_is_over(void)
{
    struct job_claim slow, other, copy;
    begin_race(&slow, &other, &copy);
    now_ns += 1000;
    CHECK_EQUAL(JOB_ACCEPTED, finish(copy, JOB_END_OK));
    CHECK_EQUAL(JOB_AGAIN, finish(other, JOB_END_UNIT));
    CHECK(gets_nothing(0)); /* its only slot is still the device's */
    CHECK(!job_is_quiet(job));
    CHECK_EQUAL(JOB_LATE, finish(slow, JOB_END_OK));
    now_ns += MS; /* it is slow, and the others would have been first */
    struct job_claim again = start(0);
    CHECK(again.is_retry);
    CHECK_EQUAL(7, again.range.begin);
}

static void nothing_is_run_twice_unless_asked_for(void)
{
    struct job_options options = plain(4, 2);
    options.depth = 1;
    begin(options);
    run(0, 1000);
    run(1, 1000);
    start(0);
    run(1, 1000);
    now_ns += 100 * MS;
    CHECK(gets_nothing(1));
}

/* Tail: units that were not started are taken back. */

static void a_waiting_unit_is_taken_back_by_an_idle_lane(void)
{
    begin(plain(6, 2));
    run(0, 100000);
    run(1, 1000);
    struct job_claim running = start(0), waiting = take(0);
    run(1, 1000);
    run(1, 1000);
    struct job_claim taken = start(1);
    CHECK_EQUAL(waiting.range.begin, taken.range.begin);
    CHECK(!taken.is_copy && !taken.is_retry);
    CHECK(!kick(waiting)); /* the slow lane comes to it, and leaves it */
    CHECK_EQUAL(JOB_LATE, finish(waiting, JOB_END_OK));
    CHECK_EQUAL(JOB_ACCEPTED, finish(taken, JOB_END_OK));
    CHECK_EQUAL(JOB_ACCEPTED, finish(running, JOB_END_OK));
    CHECK_EQUAL(4, deliver());
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

static void a_unit_that_was_taken_back_frees_its_slot(void)
{
    begin(plain(6, 2));
    run(0, 100000);
    run(1, 1000);
    struct job_claim running = start(0);
    take(0);
    run(1, 1000);
    run(1, 1000);
    struct job_claim taken = start(1);
    CHECK_EQUAL(JOB_AGAIN, finish(taken, JOB_END_UNIT));
    struct job_claim again = start(0); /* into the slot that it was taken out of */
    CHECK_EQUAL(taken.range.begin, again.range.begin);
    CHECK_EQUAL(JOB_ACCEPTED, finish(again, JOB_END_OK));
    CHECK_EQUAL(JOB_ACCEPTED, finish(running, JOB_END_OK));
}

static void a_slow_lane_takes_nothing_back_from_a_fast_one(void)
{
    begin(plain(5, 2));
    run(0, 100000);
    run(1, 1000);
    start(1);
    take(1);
    run(0, 100000);
    CHECK(gets_nothing(0));
}

/* Law 9, at the tail: what nobody has measured must not stand by while units wait elsewhere. */
static void an_unmeasured_lane_takes_back_what_waits(void)
{
    begin(plain(2, 2));
    struct job_claim running = start(0), waiting = take(0);
    struct job_claim taken = start(1);
    CHECK_EQUAL(waiting.range.begin, taken.range.begin);
    CHECK(!kick(waiting));
    CHECK(gets_nothing(0));
    CHECK_EQUAL(JOB_ACCEPTED, finish(taken, JOB_END_OK));
    CHECK_EQUAL(JOB_ACCEPTED, finish(running, JOB_END_OK));
}

static void a_unit_is_not_taken_back_to_where_it_failed(void)
{
    begin(plain(6, 3));
    for (uint32_t lane = 0; lane < 3; lane++)
        run(lane, 1000);
    struct job_claim failing = start(0), first = start(1), second = start(1);
    CHECK_EQUAL(JOB_AGAIN, finish(failing, JOB_END_UNIT));
    now_ns += 1000;
    finish(first, JOB_END_OK);
    struct job_claim again = take(1);
    CHECK_EQUAL(failing.range.begin, again.range.begin);
    CHECK(gets_nothing(0));
    CHECK_EQUAL(failing.range.begin, start(2).range.begin);
    CHECK_EQUAL(JOB_ACCEPTED, finish(second, JOB_END_OK));
}

/* Or two idle lanes could take one unit from each other for ever. */
static void a_lanes_only_unit_is_not_taken_back_for_trial(void)
{
    begin(plain(1, 2));
    struct job_claim waiting = take(0);
    CHECK(gets_nothing(1));
    CHECK(kick(waiting));
}

/* Law 8: a device that stops answering is noticed by a time-out. */

static void an_overdue_attempt_is_noticed(void)
{
    struct job_options options = plain(4, 2);
    options.timeout_ns = 5 * MS;
    begin(options);
    struct job_claim stuck = start(0);
    uint64_t due_ns = look();
    CHECK(due_ns > 5 * MS - 1 && due_ns <= 5 * MS + 1);
    now_ns = 5 * MS - 1;
    look();
    CHECK(!report_of(0).is_hung);
    now_ns = due_ns;
    CHECK_EQUAL(UINT64_MAX, look());
    CHECK(report_of(0).is_hung);
    CHECK(gets_nothing(0));
    CHECK(job_is_quiet(job));
    struct job_claim again = start(1);
    CHECK(again.is_retry);
    CHECK_EQUAL(stuck.range.begin, again.range.begin);
    CHECK_EQUAL(JOB_ACCEPTED, finish(again, JOB_END_OK));
    expect_result(0);
}

static void a_hung_lane_is_tried_again_when_it_answers(void)
{
    struct job_options options = plain(9, 2);
    options.timeout_ns = MS;
    begin(options);
    struct job_claim first = start(0), second = start(0);
    now_ns = 2 * MS;
    look();
    CHECK_EQUAL(JOB_LATE, finish(first, JOB_END_OK));
    CHECK(gets_nothing(0)); /* one is still out */
    CHECK_EQUAL(JOB_LATE, finish(second, JOB_END_OK));
    expect_no_result();
    struct job_claim claim = start(1);
    CHECK_EQUAL(0, claim.range.begin);
    CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    claim = start(0); /* its own second unit is left to others */
    CHECK_EQUAL(2, claim.range.begin);
    CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    CHECK(!report_of(0).is_hung);
}

static void a_hung_lane_that_is_lost_stays_lost(void)
{
    struct job_options options = plain(9, 2);
    options.timeout_ns = MS;
    begin(options);
    struct job_claim stuck = start(0);
    now_ns = 2 * MS;
    look();
    lose(0);
    CHECK(report_of(0).is_lost);
    CHECK_EQUAL(JOB_LATE, finish(stuck, JOB_END_OK));
    CHECK(gets_nothing(0));
    run(1, 1000);
}

static void without_a_time_out_the_expectation_decides(void)
{
    begin(plain(9, 2));
    run(0, SECOND);
    run(1, SECOND);
    start(0);
    uint64_t due_ns = look();
    CHECK(due_ns > now_ns + 10 * SECOND && due_ns < now_ns + 60 * SECOND);
    now_ns = due_ns;
    look();
    CHECK(report_of(0).is_hung);
}

/* How long a first unit takes is nobody's guess; what others take is one. */
static void nothing_is_overdue_before_anybody_knows_how_long(void)
{
    begin(plain(9, 2));
    start(0);
    struct job_claim other = start(1);
    now_ns = 600 * SECOND;
    look();
    CHECK(!report_of(0).is_hung && !report_of(1).is_hung);
    CHECK_EQUAL(JOB_ACCEPTED, finish(other, JOB_END_OK));
    start(1);
    CHECK(look() > 1000 * SECOND);
    CHECK(!report_of(0).is_hung);
}

static void the_last_lane_is_not_given_up_lightly(void)
{
    begin(plain(9, 1));
    run(0, 1000);
    struct job_claim long_one = start(0);
    now_ns += 600 * SECOND;
    look();
    CHECK_EQUAL(JOB_ACCEPTED, finish(long_one, JOB_END_OK));
    start(0);
    now_ns += 100000 * SECOND;
    look();
    CHECK_EQUAL(JOB_FAILED, job_state(job));
}

/* Else it would be taken from lane to lane for ever, each answering after it was given up. */
static void a_dear_unit_is_given_longer_each_time(void)
{
    begin(plain(99, 3));
    for (uint32_t lane = 0; lane < 3; lane++)
        run(lane, SECOND);
    struct job_claim claim = start(0);
    uint64_t first_ns = look() - now_ns;
    now_ns += first_ns;
    look();
    CHECK(report_of(0).is_hung);
    struct job_claim again = start(1);
    CHECK_EQUAL(claim.range.begin, again.range.begin);
    CHECK(look() - now_ns > 3 * first_ns);
    now_ns += 3 * first_ns;
    look();
    CHECK(!report_of(1).is_hung);
    CHECK_EQUAL(JOB_ACCEPTED, finish(again, JOB_END_OK));
}

/* A straggler becomes one by the mere passing of time: the idle lane is called for it. */
static void a_look_is_due_when_a_copy_becomes_worth_it(void)
{
    struct job_options options = plain(4, 2);
    options.speculate = true;
    options.depth = 1;
    begin(options);
    run(0, 1000);
    run(1, 1000);
    struct job_claim slow = start(0);
    run(1, 1000);
    CHECK(gets_nothing(1));
    uint64_t due_ns = job_look_due(job);
    CHECK(due_ns > now_ns && due_ns < now_ns + 1000);
    now_ns = due_ns;
    look();
    struct job_claim copy = start(1);
    CHECK(copy.is_copy);
    CHECK_EQUAL(slow.range.begin, copy.range.begin);
}

/* A look that was planned for something slow must not make what is quick wait for it. */
static void a_new_start_brings_the_next_look_forward(void)
{
    begin(plain(99, 2));
    CHECK_EQUAL(UINT64_MAX, job_look_due(job));
    run(0, 100 * SECOND);
    run(1, 1000);
    start(0);
    CHECK(look() > now_ns + 1000 * SECOND);
    struct job_claim stuck = start(1);
    CHECK(job_look_due(job) <= now_ns + 2 * SECOND);
    while (!report_of(1).is_hung) {
        now_ns = job_look_due(job);
        look();
    }
    CHECK(now_ns < 200 * SECOND);
    CHECK(!report_of(0).is_hung);
    CHECK_EQUAL(JOB_LATE, finish(stuck, JOB_END_OK));
}

static void a_late_run_that_hangs_is_noticed_too(void)
{
    struct job_claim slow, other, copy;
    begin_race(&slow, &other, &copy);
    CHECK_EQUAL(JOB_ACCEPTED, finish(copy, JOB_END_OK));
    CHECK_EQUAL(JOB_ACCEPTED, finish(other, JOB_END_OK));
    deliver();
    CHECK(!job_is_quiet(job));
    now_ns += 100 * SECOND;
    look();
    CHECK(report_of(0).is_hung);
    CHECK(job_is_quiet(job));
}

static void a_job_whose_last_lane_hangs_fails(void)
{
    struct job_options options = plain(9, 1);
    options.timeout_ns = MS;
    begin(options);
    run(0, 1000);
    start(0);
    now_ns += 2 * MS;
    look();
    CHECK_EQUAL(JOB_FAILED, job_state(job));
    expect_failed(1, &(struct muster_range){ 1, 9 });
    CHECK_EQUAL(1, job_items_delivered(job));
}

/* Law 9: what nobody has measured is tried, what has become slow is noticed, what recovers is used. */

static struct job_options adaptive(uint64_t items, uint32_t lanes)
{
    struct job_options options = plain(items, lanes);
    options.unit = JOB_UNIT_ADAPTIVE;
    options.depth = 1;
    return options;
}

static void an_unmeasured_lane_is_given_a_small_unit(void)
{
    begin(adaptive(1000000, 3));
    for (int i = 0; i < 10; i++)
        run(0, 100);
    CHECK_EQUAL(1, size_of(start(1)));
    CHECK(run(0, 100) > 1000);
    CHECK_EQUAL(1, size_of(start(2)));
}

/* Both lanes at 100 ns an item until their units have grown. */
static void begin_even(uint64_t items)
{
    begin(adaptive(items, 2));
    for (int i = 0; i < 20; i++)
        run((uint32_t)i % 2, 100);
}

static void a_lane_that_slows_down_gets_less_within_three_units(void)
{
    begin_even(1000000);
    uint64_t before = run(0, 100);
    for (int i = 0; i < 3; i++)
        run(0, 400);
    struct job_claim slow = start(0), fast = start(1);
    CHECK(size_of(slow) < before / 2);
    CHECK(3 * size_of(slow) <= size_of(fast));
}

static void a_lane_that_recovers_gets_more_again(void)
{
    begin_even(1000000);
    for (int i = 0; i < 6; i++)
        run(0, 400);
    for (int i = 0; i < 6; i++)
        run(0, 100);
    struct job_claim recovered = start(0), other = start(1);
    CHECK(5 * size_of(recovered) >= 4 * size_of(other));
}

/* Law 10: the window bounds what is claimed and not delivered. */

static void the_window_is_filled_and_never_exceeded(void)
{
    struct job_options options = plain(20, 4);
    options.window = 5;
    begin(options);
    struct job_claim claims[5];
    for (uint32_t i = 0; i < 5; i++)
        claims[i] = start(i % 4);
    for (uint32_t lane = 0; lane < 4; lane++)
        CHECK(gets_nothing(lane));
    CHECK_EQUAL(5, job_window_used(job));
    finish(claims[1], JOB_END_OK); /* done, but not delivered */
    CHECK_EQUAL(0, deliver());
    CHECK(gets_nothing(1));
    finish(claims[0], JOB_END_OK);
    CHECK_EQUAL(2, deliver());
    take(0);
    take(1);
    CHECK(gets_nothing(2));
}

static void units_never_exceed_the_window(void)
{
    struct job_options options = plain(100, 2);
    options.window = 7;
    options.unit_items = 30;
    begin(options);
    CHECK_EQUAL(7, size_of(start(0)));
    CHECK(gets_nothing(1));

    options.unit = JOB_UNIT_QUARTER;
    begin(options);
    CHECK_EQUAL(7, size_of(start(0)));

    options.unit = JOB_UNIT_ADAPTIVE;
    options.items = 1000000;
    begin(options);
    for (int i = 0; i < 50; i++)
        CHECK(run((uint32_t)i % 2, 100) <= 7);
}

static void a_unit_of_fixed_size_waits_rather_than_being_cut(void)
{
    struct job_options options = plain(30, 2);
    options.unit_items = 4;
    options.window = 6;
    begin(options);
    struct job_claim claim = start(0);
    CHECK_EQUAL(4, size_of(claim));
    CHECK(gets_nothing(1));
    finish(claim, JOB_END_OK);
    CHECK(gets_nothing(1));
    deliver();
    CHECK_EQUAL(4, size_of(start(1)));
}

static void undelivered_units_are_as_many_as_there_is_room_for(void)
{
    struct job_options options = plain(30, 1);
    options.units_max = 3;
    begin(options);
    struct job_claim first = start(0);
    for (int i = 0; i < 2; i++)
        finish(start(0), JOB_END_OK);
    CHECK(gets_nothing(0));
    finish(first, JOB_END_OK);
    CHECK_EQUAL(3, deliver());
    take(0);
}

/* Law 11: the oldest undelivered unit can always make progress. */

static void a_retry_passes_a_full_window(void)
{
    struct job_options options = plain(20, 2);
    options.window = 3;
    begin(options);
    struct job_claim oldest = start(0);
    for (int i = 0; i < 2; i++)
        finish(start(1), JOB_END_OK);
    CHECK(gets_nothing(1));
    CHECK_EQUAL(JOB_AGAIN, finish(oldest, JOB_END_UNIT));
    struct job_claim again = start(1);
    CHECK(again.is_retry);
    CHECK_EQUAL(0, again.range.begin);
    CHECK_EQUAL(3, job_window_used(job));
    finish(again, JOB_END_OK);
    CHECK_EQUAL(3, deliver());
}

static void a_retry_needs_no_room_for_a_unit(void)
{
    struct job_options options = plain(20, 2);
    options.units_max = 4;
    begin(options);
    struct job_claim oldest = start(0);
    for (int i = 0; i < 3; i++)
        finish(start(1), JOB_END_OK);
    CHECK(gets_nothing(1));
    finish(oldest, JOB_END_UNIT);
    CHECK_EQUAL(0, start(1).range.begin);
}

static void retries_come_first_and_the_oldest_before_all(void)
{
    struct job_options options = plain(20, 3);
    begin(options);
    struct job_claim a = start(0), b = start(0), c = start(1);
    CHECK_EQUAL(JOB_AGAIN, finish(c, JOB_END_UNIT));
    CHECK_EQUAL(JOB_AGAIN, finish(a, JOB_END_UNIT));
    CHECK_EQUAL(JOB_AGAIN, finish(b, JOB_END_UNIT));
    CHECK_EQUAL(0, start(2).range.begin);
    CHECK_EQUAL(1, start(2).range.begin);
    CHECK_EQUAL(2, start(0).range.begin);
    CHECK(!start(0).is_retry);
}

/* Tries, and whose fault it was. */

static void a_unit_that_failed_is_run_elsewhere(void)
{
    begin(plain(20, 2));
    CHECK_EQUAL(JOB_AGAIN, finish(start(0), JOB_END_UNIT));
    CHECK_EQUAL(1, start(0).range.begin); /* not the one that failed there */
    CHECK_EQUAL(0, start(1).range.begin);
    CHECK_EQUAL(1, report_of(0).retries);
    CHECK_EQUAL(1, job_retries(job));
}

static void the_only_lane_runs_it_again_itself(void)
{
    begin(plain(20, 1));
    CHECK_EQUAL(JOB_AGAIN, finish(start(0), JOB_END_UNIT));
    CHECK_EQUAL(0, start(0).range.begin);

    begin(plain(20, 2));
    CHECK_EQUAL(JOB_AGAIN, finish(start(0), JOB_END_UNIT));
    lose(1);
    CHECK_EQUAL(0, start(0).range.begin);
}

static void a_unit_out_of_tries_fails_the_job(void)
{
    begin(plain(20, 2));
    run(0, 1000);
    struct job_claim other = start(1);
    CHECK_EQUAL(JOB_AGAIN, finish(start(0), JOB_END_UNIT));
    CHECK_EQUAL(JOB_AGAIN, finish(start(1), JOB_END_UNIT));
    CHECK_EQUAL(JOB_REFUSED, finish(start(0), JOB_END_UNIT));
    CHECK_EQUAL(JOB_FAILED, job_state(job));
    expect_failed(1, &(struct muster_range){ 2, 3 });
    CHECK(gets_nothing(0));
    CHECK_EQUAL(1, job_items_delivered(job));
    CHECK_EQUAL(JOB_ACCEPTED, finish(other, JOB_END_OK));
    CHECK_EQUAL(1, deliver()); /* what comes before the failed unit, and no more */
    CHECK_EQUAL(2, job_items_delivered(job));
}

static void what_the_user_refused_is_not_retried(void)
{
    begin(plain(20, 2));
    CHECK_EQUAL(JOB_REFUSED, finish(start(0), JOB_END_USER));
    CHECK_EQUAL(JOB_FAILED, job_state(job));
    expect_failed(1, &(struct muster_range){ 0, 1 });
    CHECK_EQUAL(0, job_retries(job));
}

static void failed_ranges_are_merged(void)
{
    struct job_options options = plain(20, 1);
    options.depth = 8;
    begin(options);
    struct job_claim claims[8];
    for (int i = 0; i < 8; i++)
        claims[i] = start(0);
    for (int i = 7; i >= 0; i--)
        finish(claims[i], i == 2 || i == 3 || i == 5 ? JOB_END_USER : JOB_END_OK);
    expect_failed(2, (struct muster_range[]){ { 2, 4 }, { 5, 6 } });
    struct muster_range one;
    CHECK_EQUAL(1, job_failed_ranges(job, &one, 1));
    CHECK(one.begin == 2 && one.end == 6);
    CHECK_EQUAL(0, job_failed_ranges(job, &one, 0));
    CHECK_EQUAL(2, deliver());
}

static void units_that_were_done_are_not_among_the_failed(void)
{
    begin(plain(6, 2));
    struct job_claim first = start(0);
    finish(start(1), JOB_END_OK);
    start(1);
    lose(0);
    lose(1);
    CHECK_EQUAL(JOB_FAILED, job_state(job));
    expect_failed(2, (struct muster_range[]){ { 0, 1 }, { 2, 6 } });
    CHECK_EQUAL(JOB_LATE, finish(first, JOB_END_OK));
    CHECK_EQUAL(0, deliver());
}

/* Devices that die. */

static void what_a_lost_lane_held_is_rerun_alone(void)
{
    begin(plain(20, 2));
    start(0);
    start(0);
    struct job_claim busy = start(1);
    lose(0);
    CHECK(report_of(0).is_lost);
    CHECK(gets_nothing(1)); /* it is to run empty first */
    finish(busy, JOB_END_OK);
    struct job_claim suspect = start(1);
    CHECK(suspect.is_retry);
    CHECK_EQUAL(0, suspect.range.begin);
    CHECK(gets_nothing(1)); /* nothing beside it */
    finish(suspect, JOB_END_OK);
    suspect = start(1);
    CHECK_EQUAL(1, suspect.range.begin);
    CHECK(gets_nothing(1));
    finish(suspect, JOB_END_OK);
    CHECK(!start(1).is_retry);
    start(1);
}

static void other_lanes_go_on_while_one_runs_empty(void)
{
    begin(plain(20, 3));
    start(0);
    start(1);
    start(2);
    lose(0);
    CHECK(gets_nothing(1));
    CHECK(!start(2).is_retry);
}

static void a_unit_that_never_started_is_no_suspect(void)
{
    begin(plain(20, 2));
    struct job_claim waiting = take(0);
    start(1);
    lose(0);
    CHECK(!kick(waiting));
    struct job_claim again = start(1); /* beside the other one */
    CHECK_EQUAL(0, again.range.begin);
    CHECK_EQUAL(JOB_ACCEPTED, finish(again, JOB_END_OK));
}

/* Lanes 0 and 1 share a failure domain, 2 has its own. */
static void begin_slices(uint64_t items)
{
    struct job_options options = plain(items, 3);
    options.timeout_ns = SECOND;
    begin(options);
    job_lane_describe(job, 0, 0, 1);
    job_lane_describe(job, 1, 0, 1);
    job_lane_describe(job, 2, 2, 1);
}

static void a_suspect_is_alone_in_its_failure_domain(void)
{
    begin_slices(20);
    struct job_claim beside = start(1);
    start(2);
    lose(2);
    CHECK(gets_nothing(0)); /* lane 1 is of the same domain */
    CHECK(gets_nothing(1));
    finish(beside, JOB_END_OK);
    struct job_claim suspect = start(0);
    CHECK_EQUAL(1, suspect.range.begin);
    CHECK(gets_nothing(0));
    CHECK(gets_nothing(1));
    finish(suspect, JOB_END_OK);
    start(1);
}

static void a_domain_is_lost_as_a_whole(void)
{
    begin_slices(20);
    struct job_claim first = start(0), second = start(1);
    CHECK_EQUAL(JOB_AGAIN, finish(first, JOB_END_DEVICE));
    CHECK(report_of(0).is_lost && report_of(1).is_lost && !report_of(2).is_lost);
    CHECK(gets_nothing(1));
    CHECK_EQUAL(JOB_LATE, finish(second, JOB_END_OK));
    struct job_claim suspect = start(2);
    CHECK_EQUAL(0, suspect.range.begin);
    CHECK(gets_nothing(2));
    CHECK_EQUAL(JOB_ACCEPTED, finish(suspect, JOB_END_OK));
    suspect = start(2);
    CHECK_EQUAL(1, suspect.range.begin);
    CHECK_EQUAL(JOB_ACCEPTED, finish(suspect, JOB_END_OK));
}

static void a_unit_that_takes_down_two_domains_fails(void)
{
    begin(plain(20, 4));
    struct job_claim poison = start(0), beside = start(0);
    CHECK_EQUAL(JOB_AGAIN, finish(poison, JOB_END_DEVICE)); /* not alone: nobody is charged */
    CHECK_EQUAL(JOB_LATE, finish(beside, JOB_END_OK));
    poison = start(1);
    CHECK_EQUAL(0, poison.range.begin);
    CHECK_EQUAL(JOB_AGAIN, finish(poison, JOB_END_DEVICE));
    CHECK_EQUAL(JOB_RUNNING, job_state(job));
    poison = start(2);
    CHECK_EQUAL(0, poison.range.begin);
    CHECK_EQUAL(JOB_REFUSED, finish(poison, JOB_END_DEVICE));
    CHECK_EQUAL(JOB_FAILED, job_state(job));
    expect_failed(1, &(struct muster_range){ 0, 1 });
}

static void a_unit_that_never_started_takes_nothing_down(void)
{
    begin(plain(20, 3));
    for (uint32_t lane = 0; lane < 2; lane++) {
        CHECK_EQUAL(0, take(lane).range.begin);
        lose(lane);
    }
    CHECK_EQUAL(JOB_RUNNING, job_state(job));
    CHECK_EQUAL(JOB_ACCEPTED, finish(start(2), JOB_END_OK));
    expect_result(0);
}

/* Law 8 again: what a hung slice still holds must not keep a suspect from the slice beside it. */
static void a_suspect_does_not_wait_for_what_is_abandoned(void)
{
    begin_slices(20);
    start(2);
    struct job_claim stuck = start(0);
    lose(2);
    CHECK(gets_nothing(1)); /* lane 0 is of the same domain */
    now_ns = 2 * SECOND;
    look();
    CHECK(report_of(0).is_hung);
    struct job_claim suspect = start(1);
    CHECK_EQUAL(0, suspect.range.begin);
    /* Lane 0 answers after all: that must not end the suspect's solitude. */
    CHECK_EQUAL(JOB_LATE, finish(stuck, JOB_END_OK));
    CHECK(gets_nothing(0));
    CHECK(gets_nothing(1));
    CHECK_EQUAL(JOB_ACCEPTED, finish(suspect, JOB_END_OK));
    start(0);
}

/* A lane is not kept empty for a suspect that it must not run. */
static void a_lane_runs_empty_only_for_what_it_may_run(void)
{
    struct job_options options = plain(40, 4);
    options.timeout_ns = SECOND;
    begin(options);
    start(3);
    lose(3);
    struct job_claim stuck = start(0), busy[2] = { start(1), start(2) };
    CHECK_EQUAL(0, stuck.range.begin);
    now_ns = SECOND / 2;
    finish(busy[0], JOB_END_OK);
    finish(busy[1], JOB_END_OK);
    busy[0] = start(1);
    busy[1] = start(2);
    now_ns = SECOND + MS;
    look();
    CHECK_EQUAL(JOB_LATE, finish(stuck, JOB_END_OK)); /* lane 0 is back, not to run item 0 again */
    CHECK(!start(0).is_retry);
    CHECK(gets_nothing(1)); /* it runs empty */
    CHECK(!start(0).is_retry);
    CHECK(!start(2).is_retry);
    finish(busy[0], JOB_END_OK);
    CHECK_EQUAL(0, start(1).range.begin);
}

/* Law 11: the lane that runs empty for a suspect is lost or hangs, and another takes its place. */
static void another_lane_runs_empty_when_the_first_is_gone(void)
{
    for (int is_loss = 0; is_loss < 2; is_loss++) {
        struct job_options options = plain(40, 3);
        options.timeout_ns = SECOND;
        /* The last lane has room when the one that drains goes, and has not been measured. */
        options.depth = 3;
        begin(options);
        start(0);
        start(1);
        now_ns = 10 * MS;
        struct job_claim busy = start(2);
        lose(0);
        CHECK(gets_nothing(1)); /* it is to run empty */
        struct job_claim more = start(2);
        CHECK(!more.is_retry);
        now_ns = SECOND + MS;
        if (is_loss)
            lose(1);
        else
            look();
        CHECK(is_loss ? report_of(1).is_lost : report_of(1).is_hung);
        CHECK(!report_of(2).is_hung);
        CHECK(gets_nothing(2));
        CHECK_EQUAL(JOB_ACCEPTED, finish(busy, JOB_END_OK));
        CHECK(gets_nothing(2));
        CHECK_EQUAL(JOB_ACCEPTED, finish(more, JOB_END_OK));
        CHECK_EQUAL(0, start(2).range.begin);
        CHECK(gets_nothing(2));
    }
}

static void a_loss_that_comes_late_is_late(void)
{
    struct job_claim slow, other, copy;
    begin_race(&slow, &other, &copy);
    CHECK_EQUAL(JOB_ACCEPTED, finish(copy, JOB_END_OK));
    CHECK_EQUAL(JOB_LATE, finish(slow, JOB_END_DEVICE));
    CHECK(report_of(0).is_lost);
}

static void a_lost_lane_does_not_come_back(void)
{
    begin(plain(20, 2));
    struct job_claim first = start(0);
    lose(0);
    lose(0);
    CHECK_EQUAL(JOB_LATE, finish(first, JOB_END_OK));
    CHECK(gets_nothing(0));
    CHECK_EQUAL(0, start(1).range.begin);
}

/* Second runs: a device that hangs holds nothing up for long while another is idle. */

/* Looks whenever that is due, until the lane is given something; how long that took. */
static uint64_t wait_until_given(uint32_t lane, struct job_claim *claim)
{
    uint64_t begin_ns = now_ns;
    for (unsigned looks = 0; !ask(lane, claim); looks++) {
        CHECK(looks < 1000 && job_look_due(job) != UINT64_MAX);
        if (job_look_due(job) > now_ns)
            now_ns = job_look_due(job);
        look();
    }
    CHECK(kick(*claim));
    return now_ns - begin_ns;
}

static struct job_options twice(uint64_t items, uint32_t lanes)
{
    struct job_options options = plain(items, lanes);
    options.depth = 1;
    options.speculate = true;
    return options;
}

static void an_idle_lane_runs_a_first_unit_too_after_a_second(void)
{
    struct job_claim copy;
    begin(twice(1, 2));
    struct job_claim stuck = start(0);
    now_ns = SECOND - 1;
    CHECK(gets_nothing(1));
    CHECK(wait_until_given(1, &copy) <= 2);
    CHECK(copy.is_copy && !copy.is_retry);
    CHECK(!report_of(0).is_hung);
    CHECK_EQUAL(JOB_ACCEPTED, finish(copy, JOB_END_OK));
    CHECK_EQUAL(JOB_LATE, finish(stuck, JOB_END_OK));
    CHECK_EQUAL(1, deliver());
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

/* Units of two seconds are no sign of a hang. */
static void an_idle_lane_waits_for_three_times_the_slowest_unit(void)
{
    struct job_claim copy;
    begin(twice(2, 2));
    run(0, 2 * SECOND);
    start(0);
    uint64_t waited_ns = wait_until_given(1, &copy);
    CHECK(waited_ns >= 6 * SECOND && waited_ns <= 6 * SECOND + 2);
    CHECK(copy.is_copy);
}

static void device_after_device_may_hang(void)
{
    struct job_claim claims[16];
    begin(twice(1, 16));
    claims[0] = start(0);
    for (uint32_t lane = 1; lane < 16; lane++) {
        CHECK(wait_until_given(lane, &claims[lane]) <= SECOND + 2);
        for (uint32_t other = lane + 1; other < 16; other++)
            CHECK(gets_nothing(other)); /* one more at a time */
    }
    CHECK_EQUAL(JOB_ACCEPTED, finish(claims[15], JOB_END_OK));
    for (uint32_t lane = 0; lane < 15; lane++)
        CHECK_EQUAL(JOB_LATE, finish(claims[lane], JOB_END_OK));
    CHECK_EQUAL(1, deliver());
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

/* Neither of two runs comes back, and a third lane, no faster than they, is idle. */
static void a_third_run_is_worth_it_when_two_hang(void)
{
    struct job_claim claim;
    begin(twice(4, 3));
    for (uint32_t lane = 0; lane < 3; lane++)
        run(lane, SECOND);
    start(0);
    wait_until_given(1, &claim);
    CHECK(claim.is_copy);
    CHECK(wait_until_given(2, &claim) <= 3 * SECOND + 2);
    CHECK(claim.is_copy);
}

/* A slow lane was first at it; one that is much faster need not wait. */
static void a_third_run_is_worth_it_where_it_would_be_first(void)
{
    struct job_options options = twice(9, 3);
    begin(options);
    for (uint32_t i = 0; i < 6; i++)
        run(i % 3, i % 3 == 1 ? 100 * MS : MS);
    struct job_claim stuck = start(0), busy = start(2), copy;
    run(1, 100 * MS);
    CHECK(wait_until_given(1, &copy) <= SECOND);
    CHECK(copy.is_copy);
    CHECK_EQUAL(JOB_ACCEPTED, finish(busy, JOB_END_OK));
    struct job_claim third = start(2);
    CHECK(third.is_copy);
    CHECK_EQUAL(stuck.range.begin, third.range.begin);
}

/* Where nothing is run twice, an idle lane is not kept from a first unit for ever either. */
static void a_first_unit_is_overdue_beside_an_idle_lane(void)
{
    struct job_claim again;
    struct job_options options = plain(1, 2);
    begin(options);
    struct job_claim stuck = start(0);
    CHECK(wait_until_given(1, &again) <= 11 * SECOND);
    CHECK(again.is_retry && report_of(0).is_hung);
    CHECK_EQUAL(JOB_ACCEPTED, finish(again, JOB_END_OK));
    CHECK_EQUAL(JOB_LATE, finish(stuck, JOB_END_OK));
}

/* It did something before, of which nobody knows how long it took, and asked a while later. */
static void a_lane_that_becomes_idle_is_looked_for(void)
{
    struct job_options options = plain(2, 2);
    struct job_claim again;
    options.depth = 1;
    begin(options);
    start(0);
    struct job_claim other = start(1);
    CHECK(job_restart(job, other.ticket, now_ns));
    CHECK_EQUAL(JOB_ACCEPTED, finish(other, JOB_END_OK));
    now_ns += 2 * SECOND;
    look();
    CHECK(gets_nothing(1));
    CHECK(wait_until_given(1, &again) <= 11 * SECOND);
    CHECK_EQUAL(0, again.range.begin);
}

/* One that was given up and came back after all shows how long units may take. */
static void a_late_end_shows_how_long_units_take(void)
{
    struct job_claim again;
    begin(plain(1, 3));
    struct job_claim stuck = start(0);
    wait_until_given(1, &again);
    CHECK(gets_nothing(2));
    now_ns += 100 * SECOND - 1;
    CHECK_EQUAL(JOB_LATE, finish(stuck, JOB_END_OK));
    now_ns += 180 * SECOND; /* seven times what it would have had */
    look();
    CHECK(!report_of(1).is_hung);
    CHECK_EQUAL(JOB_ACCEPTED, finish(again, JOB_END_OK));
}

/* However many devices hang, and with none left at all, the job comes to an end. */
static void a_job_ends_though_every_device_hangs(void)
{
    for (int speculates = 0; speculates < 2; speculates++) {
        struct job_options options = plain(1, 20);
        struct job_claim claim;
        options.speculate = speculates;
        begin(options);
        for (unsigned steps = 0; job_state(job) == JOB_RUNNING && steps < 1000; steps++) {
            for (uint32_t lane = 0; lane < 20; lane++)
                if (ask(lane, &claim))
                    CHECK(kick(claim));
            CHECK(job_look_due(job) != UINT64_MAX);
            now_ns = job_look_due(job);
            look();
        }
        CHECK_EQUAL(JOB_FAILED, job_state(job));
        CHECK(job_is_quiet(job));
        CHECK(now_ns < 25 * 3600 * SECOND);
        expect_failed(1, &(struct muster_range){ 0, 1 });
    }
}

/* Nobody else may come for it: the device before it hangs, or all others are busy for long. */
static void a_unit_goes_back_to_where_it_failed_rather_than_wait(void)
{
    struct job_options options = plain(2, 2);
    struct job_claim again;
    options.depth = 1;
    begin(options);
    start(0);
    struct job_claim failing = start(1);
    CHECK_EQUAL(JOB_AGAIN, finish(failing, JOB_END_UNIT));
    CHECK(gets_nothing(1));
    CHECK(wait_until_given(1, &again) <= SECOND + 2);
    CHECK(again.is_retry);
    CHECK_EQUAL(failing.range.begin, again.range.begin);
    CHECK(!report_of(0).is_hung);
}

/* And so does a second run of it. */
static void a_second_run_may_be_where_the_first_failed(void)
{
    struct job_claim copy;
    begin(twice(1, 2));
    CHECK_EQUAL(JOB_AGAIN, finish(start(0), JOB_END_UNIT));
    start(1);
    CHECK(gets_nothing(0));
    CHECK(wait_until_given(0, &copy) <= SECOND + 2);
    CHECK(copy.is_copy);
}

static void a_unit_is_not_to_blame_for_a_hang(void)
{
    struct job_options options = plain(20, 2);
    options.timeout_ns = MS;
    begin(options);
    struct job_claim stuck = start(0);
    now_ns = MS / 2;
    start(1);
    now_ns = MS + MS / 4;
    look();
    CHECK(report_of(0).is_hung && !report_of(1).is_hung);
    struct job_claim again = start(1); /* beside the other one: it is no suspect */
    CHECK_EQUAL(stuck.range.begin, again.range.begin);
}

/* The user's own code takes its time: that is no reason for a second run. */
static void what_is_held_up_is_not_run_twice(void)
{
    struct job_claim copy;
    begin(twice(1, 2));
    start(0);
    job_lane_held_up(job, 0, true, now_ns);
    now_ns += 100 * SECOND;
    look();
    CHECK(gets_nothing(1));
    job_lane_held_up(job, 0, false, now_ns);
    CHECK(gets_nothing(1));
    uint64_t waited_ns = wait_until_given(1, &copy);
    CHECK(waited_ns >= SECOND && waited_ns <= SECOND + 2);
}

/* Nobody needs what is out when the job is over: neither an hour nor a day is waited for it. */
static void a_job_that_is_over_gives_up_soon(void)
{
    for (int is_measured = 0; is_measured < 2; is_measured++) {
        begin(plain(9, 1));
        if (is_measured)
            run(0, 1000);
        start(0);
        look();
        job_cancel(job);
        check_sound();
        CHECK(job_look_due(job) <= now_ns);
        uint64_t begin_ns = now_ns;
        while (!job_is_quiet(job)) {
            look();
            CHECK(job_is_quiet(job) || job_look_due(job) > now_ns);
            now_ns = job_is_quiet(job) ? now_ns : job_look_due(job);
        }
        CHECK(now_ns - begin_ns <= (is_measured ? 2 : 11) * SECOND);
        CHECK(report_of(0).is_hung);
    }
}

/* What was lost is run again in parts, where it ends first. */

/* Adaptive units of lanes that take so long for an item; each has done a few. */
static void begin_measured(struct job_options options, const uint64_t *item_ns)
{
    begin(options);
    for (uint32_t i = 0; i < 10 * options.lane_count; i++)
        run(i % options.lane_count, item_ns[i % options.lane_count]);
}

static void a_retry_is_split_as_new_work_is(void)
{
    begin_measured(adaptive(1000000, 5), (const uint64_t[]){ 100, 100, 100, 100, 1000 });
    struct job_claim lost = start(0);
    lose(0);
    uint64_t made = job_units_made(job), retries = job_retries(job);
    struct job_claim part = start(4), rest = start(1);
    CHECK(part.is_retry && rest.is_retry && !part.is_copy);
    CHECK_EQUAL(lost.range.begin, part.range.begin);
    CHECK(size_of(part) > 0 && size_of(part) < size_of(lost) / 4);
    CHECK_EQUAL(part.range.end, rest.range.begin);
    CHECK_EQUAL(lost.range.end, rest.range.end);
    CHECK(part.unit != rest.unit);
    CHECK_EQUAL(made + 1, job_units_made(job));
    CHECK_EQUAL(retries, job_retries(job));
    CHECK(!start(2).is_retry);
    CHECK_EQUAL(JOB_ACCEPTED, finish(rest, JOB_END_OK));
    expect_no_result();
    CHECK_EQUAL(JOB_ACCEPTED, finish(part, JOB_END_OK));
    expect_result(lost.range.begin);
    expect_result(rest.range.begin);
}

static void what_nobody_has_measured_is_given_one_item_of_a_retry(void)
{
    begin(adaptive(1000000, 3));
    for (uint32_t i = 0; i < 16; i++)
        run(i % 2, 100);
    struct job_claim lost = start(0);
    lose(0);
    struct job_claim part = start(2);
    CHECK_EQUAL(lost.range.begin, part.range.begin);
    CHECK_EQUAL(1, size_of(part));
}

static void parts_are_of_whole_grains(void)
{
    struct job_options options = adaptive(1000000, 3);
    options.grain = 64;
    begin_measured(options, (const uint64_t[]){ 100, 100, 3000 });
    struct job_claim lost = start(0);
    lose(0);
    struct job_claim part = start(2);
    CHECK_EQUAL(lost.range.begin, part.range.begin);
    CHECK(size_of(part) < size_of(lost));
    CHECK_EQUAL(0, size_of(part) % 64);
}

static void a_part_is_a_suspect_too(void)
{
    struct job_options options = adaptive(1000000, 7);
    options.depth = 2;
    begin_measured(options, (const uint64_t[]){ 100, 1000, 1000, 1000, 1000, 1000, 1000 });
    start(0);
    lose(0);
    struct job_claim parts[3];
    for (uint32_t i = 0; i < 3; i++) {
        parts[i] = start(1 + i);
        CHECK(parts[i].is_retry);
        CHECK(i == 0 || parts[i].range.begin == parts[i - 1].range.end);
        CHECK(gets_nothing(1 + i)); /* each runs alone */
    }
    /* And not on all lanes at once: it may be what killed the first. */
    for (uint32_t lane = 4; lane < 7; lane++)
        CHECK(!start(lane).is_retry && !start(lane).is_retry);
    now_ns += size_of(parts[0]) * 1000;
    CHECK_EQUAL(JOB_ACCEPTED, finish(parts[0], JOB_END_OK));
    struct job_claim last = start(1);
    CHECK(last.is_retry);
    CHECK_EQUAL(parts[2].range.end, last.range.begin);
}

/* The unit took a device down alone. Which of its parts did it shows when that takes down another. */
static void a_part_is_charged_with_what_its_unit_did(void)
{
    begin_measured(adaptive(1000000, 5), (const uint64_t[]){ 100, 1000, 1000, 1000, 1000 });
    start(0);
    lose(0);
    struct job_claim parts[2] = { start(1), start(2) };
    CHECK_EQUAL(JOB_ACCEPTED, finish(parts[0], JOB_END_OK));
    CHECK_EQUAL(JOB_REFUSED, finish(parts[1], JOB_END_DEVICE));
    CHECK_EQUAL(JOB_FAILED, job_state(job));
    expect_failed(1, &parts[1].range);
}

static void a_part_has_its_units_tries_behind_it(void)
{
    struct job_options options = adaptive(1000000, 3);
    options.tries = 3;
    begin_measured(options, (const uint64_t[]){ 100, 1000, 3000 });
    struct job_claim whole = start(0);
    CHECK_EQUAL(JOB_AGAIN, finish(whole, JOB_END_UNIT));
    struct job_claim part = start(1);
    CHECK_EQUAL(whole.range.begin, part.range.begin);
    CHECK(size_of(part) < size_of(whole));
    CHECK(!job_is_last_try(job, part.ticket));
    CHECK_EQUAL(JOB_AGAIN, finish(part, JOB_END_UNIT));
    struct job_claim again = start(2); /* the last try is of the whole part */
    CHECK_EQUAL(part.range.begin, again.range.begin);
    CHECK_EQUAL(part.range.end, again.range.end);
    CHECK(job_is_last_try(job, again.ticket));
    struct job_claim rest = start(1);
    CHECK_EQUAL(part.range.end, rest.range.begin);
    CHECK(!job_is_last_try(job, rest.ticket));
    CHECK_EQUAL(JOB_REFUSED, finish(again, JOB_END_UNIT));
    expect_failed(1, &again.range);
}

static void without_room_for_a_unit_a_retry_stays_whole(void)
{
    struct job_options options = adaptive(1000000, 3);
    options.units_max = 3;
    begin_measured(options, (const uint64_t[]){ 100, 1000, 1000 });
    struct job_claim whole = start(0);
    start(1);
    struct job_claim third = start(2);
    CHECK_EQUAL(JOB_AGAIN, finish(whole, JOB_END_UNIT));
    now_ns += 1000 * size_of(third);
    CHECK_EQUAL(JOB_ACCEPTED, finish(third, JOB_END_OK)); /* not delivered: the first is not */
    struct job_claim again = start(2);
    CHECK_EQUAL(whole.range.begin, again.range.begin);
    CHECK_EQUAL(whole.range.end, again.range.end);
}

static void units_of_a_size_that_was_asked_for_stay_whole(void)
{
    struct job_options options = plain(1000, 3);
    options.unit_items = 100;
    options.depth = 1;
    begin(options);
    for (uint32_t i = 0; i < 3; i++)
        run(i, i == 0 ? 100 : 1000);
    struct job_claim whole = start(0);
    lose(0);
    struct job_claim again = start(1);
    CHECK_EQUAL(whole.range.begin, again.range.begin);
    CHECK_EQUAL(whole.range.end, again.range.end);
}

/* Lane 0 takes half a second for an item, lanes 1 and 2 a millisecond. Item 9, the last, has failed on 2. */
static struct job_claim begin_slow_beside_fast(void)
{
    struct job_options options = plain(10, 3);
    options.depth = 1;
    begin(options);
    for (uint32_t i = 0; i < 8; i++)
        run(i == 0 ? 0 : 1 + i % 2, i == 0 ? SECOND / 2 : MS);
    struct job_claim busy = start(1), failing = start(2);
    CHECK_EQUAL(9, failing.range.begin);
    CHECK_EQUAL(JOB_AGAIN, finish(failing, JOB_END_UNIT));
    return busy;
}

static void a_retry_is_left_to_whom_it_ends_sooner_with(void)
{
    struct job_claim busy = begin_slow_beside_fast();
    CHECK(gets_nothing(0));
    now_ns += MS;
    CHECK_EQUAL(JOB_ACCEPTED, finish(busy, JOB_END_OK));
    CHECK(gets_nothing(0));
    CHECK_EQUAL(9, start(1).range.begin);
}

/* The fast lane does not come: it hangs, or has got something dear. */
static void a_retry_is_left_to_nobody_for_ever(void)
{
    struct job_claim again;
    begin_slow_beside_fast();
    CHECK(wait_until_given(0, &again) <= SECOND / 2 + 2);
    CHECK_EQUAL(9, again.range.begin);
    CHECK(!report_of(1).is_hung);
    /* Or it is idle and does not ask. */
    CHECK_EQUAL(JOB_ACCEPTED, finish(begin_slow_beside_fast(), JOB_END_OK));
    CHECK(wait_until_given(0, &again) <= SECOND / 2 + 2);
}

static void a_retry_where_it_ends_before_the_job_is_taken_at_once(void)
{
    struct job_options options = plain(100000, 3);
    options.depth = 1;
    begin(options);
    run(0, SECOND);
    run(1, MS);
    run(2, MS);
    start(1);
    CHECK_EQUAL(JOB_AGAIN, finish(start(2), JOB_END_UNIT));
    CHECK(start(0).is_retry);
}

/* Everything stops when the window is full: the oldest unit is not given to the slow lane meanwhile. */
static void a_retry_that_would_fill_the_window_is_left_to_the_fast(void)
{
    struct job_options options = plain(100000, 3);
    options.depth = 1;
    options.window = 10;
    begin(options);
    run(0, 95 * MS);
    run(1, 20 * MS);
    run(2, 20 * MS);
    start(1);
    CHECK_EQUAL(JOB_AGAIN, finish(start(2), JOB_END_UNIT));
    CHECK(!start(0).is_retry);
}

/* Cancel, and a sink that fails. */

static void nothing_begins_after_a_cancel(void)
{
    begin(plain(20, 2));
    struct job_claim running = start(0), waiting = take(0);
    finish(start(1), JOB_END_OK);
    job_cancel(job);
    check_sound();
    CHECK_EQUAL(JOB_CANCELLED, job_state(job));
    CHECK(gets_nothing(1));
    CHECK(!job_is_quiet(job));
    CHECK(!kick(waiting));
    CHECK_EQUAL(JOB_LATE, finish(waiting, JOB_END_OK));
    CHECK_EQUAL(JOB_LATE, finish(running, JOB_END_OK));
    CHECK(job_is_quiet(job));
    expect_no_result();
    expect_failed(0, NULL);
}

static void a_cancel_counts_once_and_not_after_the_end(void)
{
    begin(plain(1, 1));
    run(0, 1000);
    job_cancel(job);
    CHECK_EQUAL(JOB_DONE, job_state(job));
    begin(plain(2, 1));
    finish(start(0), JOB_END_USER);
    job_cancel(job);
    CHECK_EQUAL(JOB_FAILED, job_state(job));
}

static void a_cancelled_job_hears_of_losses_and_hangs(void)
{
    struct job_options options = plain(20, 3);
    options.timeout_ns = MS;
    begin(options);
    struct job_claim lost = start(0), hung = start(1), failed = start(2);
    job_cancel(job);
    lose(0);
    now_ns = 2 * MS - 1;
    CHECK_EQUAL(JOB_LATE, finish(failed, JOB_END_UNIT));
    look();
    CHECK(job_is_quiet(job));
    CHECK_EQUAL(JOB_CANCELLED, job_state(job));
    CHECK_EQUAL(JOB_LATE, finish(lost, JOB_END_OK));
    CHECK_EQUAL(JOB_LATE, finish(hung, JOB_END_OK));
    expect_no_result();
}

static void a_result_that_is_leaving_may_leave_after_a_cancel(void)
{
    uint32_t unit;
    struct muster_range range;
    begin(plain(20, 1));
    finish(start(0), JOB_END_OK);
    CHECK(job_next_result(job, &unit, &range));
    job_cancel(job);
    job_delivered(job, unit);
    check_sound();
    CHECK_EQUAL(1, job_items_delivered(job));
    CHECK_EQUAL(JOB_CANCELLED, job_state(job));
}

static void nothing_begins_after_a_failure(void)
{
    begin(plain(20, 2));
    struct job_claim running = start(0), waiting = take(0);
    CHECK_EQUAL(JOB_REFUSED, finish(start(1), JOB_END_USER));
    CHECK(!kick(waiting));
    CHECK_EQUAL(JOB_ACCEPTED, finish(running, JOB_END_OK));
    CHECK(job_is_quiet(job));
    CHECK_EQUAL(1, deliver());
    expect_failed(1, &(struct muster_range){ 2, 3 });
}

static void a_sink_that_failed_is_given_nothing_more(void)
{
    for (int ordered = 0; ordered < 2; ordered++) {
        struct job_options options = plain(20, 1);
        uint32_t unit;
        struct muster_range range;
        options.ordered = ordered;
        begin(options);
        run(0, 1000);
        struct job_claim first = start(0), second = start(0);
        finish(first, JOB_END_OK);
        finish(second, JOB_END_OK);
        CHECK(job_next_result(job, &unit, &range));
        job_sink_failed(job, unit);
        check_sound();
        CHECK_EQUAL(JOB_FAILED, job_state(job));
        expect_failed(1, &(struct muster_range){ 1, 2 });
        CHECK_EQUAL(0, deliver());
        CHECK(gets_nothing(0));
        CHECK_EQUAL(1, job_items_delivered(job));
    }
}

/* Order. */

static void without_order_results_leave_as_they_finish(void)
{
    struct job_options options = plain(4, 1);
    options.ordered = false;
    options.depth = 4;
    options.window = 4;
    begin(options);
    struct job_claim claims[4];
    for (int i = 0; i < 4; i++)
        claims[i] = start(0);
    finish(claims[2], JOB_END_OK);
    finish(claims[0], JOB_END_OK);
    expect_result(2);
    finish(claims[3], JOB_END_OK);
    expect_result(0);
    expect_result(3);
    expect_no_result();
    finish(claims[1], JOB_END_OK);
    expect_result(1);
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

static void without_order_a_slow_unit_does_not_stop_the_window(void)
{
    struct job_options options = plain(20, 1);
    options.ordered = false;
    options.window = 2;
    begin(options);
    start(0);
    for (uint64_t i = 1; i < 10; i++) {
        finish(start(0), JOB_END_OK);
        expect_result(i);
    }
}

/* Sizes. */

static void the_last_unit_of_fixed_size_is_clipped(void)
{
    struct job_options options = plain(10, 1);
    options.unit_items = 4;
    begin(options);
    CHECK_EQUAL(4, run(0, 1));
    CHECK_EQUAL(4, run(0, 1));
    CHECK_EQUAL(2, run(0, 1));
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

static void a_unit_is_no_larger_than_a_slot(void)
{
    struct job_options options = plain(100000, 1);
    options.unit_items = 40;
    options.unit_max = 7;
    begin(options);
    CHECK_EQUAL(7, run(0, 1));
    options.unit = JOB_UNIT_QUARTER;
    begin(options);
    CHECK_EQUAL(7, run(0, 1));
    options.unit = JOB_UNIT_ADAPTIVE;
    begin(options);
    for (int i = 0; i < 20; i++)
        CHECK(run(0, 1) <= 7);
}

static void units_are_whole_grains_but_for_the_last(void)
{
    struct job_options options = adaptive(1005, 1);
    options.grain = 10;
    options.unit_max = 70;
    options.window = 200;
    begin(options);
    while (job_state(job) == JOB_RUNNING) {
        struct job_claim claim = start(0);
        CHECK_EQUAL(0, claim.range.begin % 10);
        CHECK(claim.range.end % 10 == 0 || claim.range.end == 1005);
        finish(claim, JOB_END_OK);
        deliver();
    }
    options.unit_max = 75;
    CHECK_EQUAL(0, job_bytes(&options));
}

static void part_of_a_grain_is_waited_for(void)
{
    struct job_options options = adaptive(100, 1);
    struct job_claim claim;
    options.grain = 10;
    options.depth = 2;
    options.supplied = true;
    begin(options);
    job_supply(job, 9);
    CHECK(!job_claim(job, 0, now_ns, &claim));
    job_supply(job, 13);
    CHECK(job_claim(job, 0, now_ns, &claim));
    CHECK_EQUAL(10, claim.range.end);
    CHECK(!job_claim(job, 0, now_ns, &claim));
    job_supply_ends(job);
    CHECK(job_claim(job, 0, now_ns, &claim));
    CHECK_EQUAL(13, claim.range.end);
}

static void a_quarter_is_by_the_plain_rule(void)
{
    struct job_options options = plain(1000, 3);
    options.unit = JOB_UNIT_QUARTER;
    begin(options);
    uint64_t count = 0;
    while (job_state(job) == JOB_RUNNING) {
        struct job_claim claim = start((uint32_t)count % 3);
        struct muster_range expected = muster_partition_at(1000, 3, count++);
        CHECK_EQUAL(expected.begin, claim.range.begin);
        CHECK_EQUAL(expected.end, claim.range.end);
        finish(claim, JOB_END_OK);
        deliver();
    }
    CHECK_EQUAL(muster_partition_count(1000, 3), count);
}

static void adaptive_units_begin_small_and_grow_by_steps(void)
{
    begin(adaptive(100000000, 1));
    uint64_t last = run(0, 100);
    CHECK_EQUAL(1, last);
    for (int i = 0; i < 8; i++) {
        uint64_t size = run(0, 100);
        CHECK(size > last && size <= 4 * last);
        last = size;
    }
}

static void the_first_unit_may_be_larger(void)
{
    struct job_options options = adaptive(100000000, 2);
    options.first_items = 1000;
    begin(options);
    CHECK_EQUAL(1000, run(0, 100));
    CHECK_EQUAL(1000, run(1, 100));
    CHECK(run(0, 100) > 1000);
}

/* An item takes 100 ns. */
static void units_take_no_longer_than_they_may(void)
{
    struct job_options options = adaptive(100000000, 1);
    options.unit_ns = 1000000;
    begin(options);
    for (int i = 0; i < 20; i++)
        CHECK(run(0, 100) <= 11000);
    CHECK(run(0, 100) >= 9000);
}

/* A lane that is alone has nobody to finish with. */
static void units_of_one_lane_stay_large(void)
{
    struct job_options options = adaptive(1000000, 1);
    options.unit_ns = 1000000;
    begin(options);
    uint64_t units = 0;
    for (; job_state(job) == JOB_RUNNING; units++)
        run(0, 100);
    CHECK(units < 120);
}

static void adaptive_units_are_in_proportion_to_the_rates(void)
{
    begin(adaptive(100000000, 2));
    for (int i = 0; i < 40; i++)
        run((uint32_t)i % 2, i % 2 ? 400 : 100);
    struct job_claim fast = start(0), slow = start(1);
    double ratio = (double)size_of(fast) / (double)size_of(slow);
    CHECK(ratio > 3.5 && ratio < 4.5);
}

static void adaptive_units_shrink_towards_the_end(void)
{
    begin(adaptive(1000000, 2));
    uint64_t largest = 0, size = 0, units = 0;
    while (job_state(job) == JOB_RUNNING) {
        size = run((uint32_t)units++ % 2, 1000);
        largest = size > largest ? size : largest;
    }
    CHECK(size * 100 < largest);
    CHECK(units < 300);
}

/* A fixed cost of a millisecond for each unit, and one microsecond for an item. */
static void adaptive_units_are_worth_their_fixed_cost(void)
{
    begin(adaptive(1000000, 1));
    uint64_t units = 0;
    while (job_state(job) == JOB_RUNNING) {
        struct job_claim claim = start(0);
        now_ns += MS + 1000 * size_of(claim);
        finish(claim, JOB_END_OK);
        deliver();
        units++;
    }
    CHECK(units < 60);
}

/* Place. */

static struct job_options placed(uint32_t lanes, enum job_policy policy)
{
    struct job_options options = plain(100, lanes);
    options.place = true;
    options.policy = policy;
    options.depth = 3;
    return options;
}

/* The next unit goes to this lane, and to no other. */
static struct job_claim expect_place(uint32_t lanes, uint32_t expected)
{
    CHECK_EQUAL(expected, job_place(job, now_ns));
    for (uint32_t lane = 0; lane < lanes; lane++)
        CHECK(lane == expected || gets_nothing(lane));
    return start(expected);
}

static void round_robin_takes_strict_turns(void)
{
    begin(placed(3, JOB_ROUND_ROBIN));
    for (uint32_t i = 0; i < 3; i++)
        expect_place(3, i);
    struct job_claim full[2] = { expect_place(3, 0), expect_place(3, 1) };
    finish(full[1], JOB_END_OK); /* lane 1 has more room than lane 2, and it is not its turn */
    expect_place(3, 2);
    expect_place(3, 0);
    expect_place(3, 1);
    expect_place(3, 2);
    finish(full[0], JOB_END_OK);
    struct job_claim last = expect_place(3, 0);
    CHECK_EQUAL(1, job_window_used(job) > 0);
    expect_place(3, 1);
    CHECK_EQUAL(JOB_NONE, job_place(job, now_ns)); /* lane 2 is full, and it is its turn */
    CHECK_EQUAL(JOB_ACCEPTED, finish(last, JOB_END_OK));
    CHECK_EQUAL(JOB_NONE, job_place(job, now_ns));
    CHECK(gets_nothing(0));
}

static void round_robin_passes_over_what_is_lost(void)
{
    begin(placed(3, JOB_ROUND_ROBIN));
    expect_place(3, 0);
    lose(1);
    expect_place(3, 2);
    expect_place(3, 0);
    expect_place(3, 2);
}

static void least_loaded_takes_the_lowest_of_equals(void)
{
    begin(placed(3, JOB_LEAST_LOADED));
    struct job_claim claims[3];
    for (uint32_t i = 0; i < 3; i++)
        claims[i] = expect_place(3, i);
    finish(claims[1], JOB_END_OK);
    expect_place(3, 1);
    expect_place(3, 0);
    finish(claims[2], JOB_END_OK);
    expect_place(3, 2);
    expect_place(3, 1);
}

static void weighted_divides_by_what_is_queued(void)
{
    struct job_options options = placed(3, JOB_WEIGHTED);
    options.depth = 8;
    begin(options);
    job_lane_describe(job, 0, 0, 1);
    job_lane_describe(job, 1, 1, 3.5);
    job_lane_describe(job, 2, 2, 0.5);
    static const uint32_t order[] = { 1, 1, 1, 0, 1, 1, 1, 0, 1, 2 };
    for (size_t i = 0; i < COUNT_OF(order); i++)
        expect_place(3, order[i]);
}

static void weights_below_a_hundredth_count_as_one(void)
{
    struct job_options options = placed(3, JOB_WEIGHTED);
    options.depth = 8;
    begin(options);
    job_lane_describe(job, 0, 0, 0);
    job_lane_describe(job, 1, 1, 0.025);
    job_lane_describe(job, 2, 2, -1);
    static const uint32_t order[] = { 1, 1, 0, 2, 1, 1, 0, 1, 2 };
    for (size_t i = 0; i < COUNT_OF(order); i++)
        expect_place(3, order[i]);
}

/* Lane 0 is four times as fast as lane 1, nobody knows lane 2. */
static void begin_unlike(enum job_policy policy)
{
    struct job_options options = placed(3, policy);
    options.depth = 16;
    begin(options);
    struct job_claim claims[3] = { expect_place(3, 0), expect_place(3, 1), expect_place(3, 2) };
    now_ns = 100;
    finish(claims[0], JOB_END_OK);
    now_ns = 400;
    finish(claims[1], JOB_END_OK);
    deliver();
}

static void adaptive_takes_an_unmeasured_lane_for_the_best(void)
{
    begin_unlike(JOB_ADAPTIVE);
    /* Rates 4, 1 and, not measured, 4: divided by what is queued + 1. */
    static const uint32_t order[] = { 0, 0, 2, 0, 2, 0, 1 };
    for (size_t i = 0; i < COUNT_OF(order); i++)
        expect_place(3, order[i]);
}

static void earliest_finish_reckons_with_the_backlog(void)
{
    begin_unlike(JOB_EARLIEST_FINISH);
    /* A unit takes 100, 400 and, not measured, 100; lane 2 holds one already. */
    static const uint32_t order[] = { 0, 0, 2, 0, 2, 0, 1, 2 };
    for (size_t i = 0; i < COUNT_OF(order); i++)
        expect_place(3, order[i]);
}

static void a_full_window_places_nothing(void)
{
    struct job_options options = placed(2, JOB_LEAST_LOADED);
    options.window = 2;
    begin(options);
    struct job_claim first = expect_place(2, 0);
    expect_place(2, 1);
    CHECK_EQUAL(JOB_NONE, job_place(job, now_ns));
    finish(first, JOB_END_OK);
    CHECK_EQUAL(JOB_NONE, job_place(job, now_ns));
    deliver();
    expect_place(2, 0);
}

static void a_retry_goes_to_whoever_asks(void)
{
    begin(placed(3, JOB_ROUND_ROBIN));
    struct job_claim claim = expect_place(3, 0);
    finish(claim, JOB_END_UNIT);
    CHECK_EQUAL(1, job_place(job, now_ns));
    CHECK_EQUAL(0, start(2).range.begin);
    expect_place(3, 1);
}

/* Items that arrive. */

static struct job_options supplied(uint64_t items, uint32_t lanes)
{
    struct job_options options = plain(items, lanes);
    options.supplied = true;
    return options;
}

static void supply(uint64_t until)
{
    job_supply(job, until);
    check_sound();
}

static void end_supply(void)
{
    job_supply_ends(job);
    check_sound();
}

static void items_are_claimed_once_they_have_arrived(void)
{
    begin(supplied(UINT64_MAX, 1));
    CHECK(gets_nothing(0));
    supply(1);
    CHECK_EQUAL(0, start(0).range.begin);
    CHECK(gets_nothing(0));
    supply(1);
    CHECK(gets_nothing(0));
    supply(3);
    CHECK_EQUAL(1, take(0).range.begin);
}

static void the_end_of_the_supply_ends_the_job(void)
{
    begin(supplied(UINT64_MAX, 1));
    supply(2);
    run(0, 1000);
    CHECK_EQUAL(UINT64_MAX, job_items(job));
    end_supply();
    CHECK_EQUAL(2, job_items(job));
    CHECK_EQUAL(JOB_RUNNING, job_state(job));
    run(0, 1000);
    CHECK_EQUAL(JOB_DONE, job_state(job));
    /* Also when all of it has left, or there was none. */
    begin(supplied(UINT64_MAX, 1));
    supply(1);
    run(0, 1000);
    CHECK_EQUAL(JOB_RUNNING, job_state(job));
    end_supply();
    CHECK_EQUAL(JOB_DONE, job_state(job));
    begin(supplied(10, 1));
    end_supply();
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

static void a_unit_of_fixed_size_waits_for_its_items(void)
{
    struct job_options options = supplied(100, 1);
    options.unit_items = 4;
    begin(options);
    supply(3);
    CHECK(gets_nothing(0));
    supply(6);
    CHECK_EQUAL(4, size_of(take(0)));
    CHECK(gets_nothing(0));
    end_supply();
    CHECK_EQUAL(2, size_of(take(0)));
}

static void a_job_that_failed_does_not_hear_of_the_end(void)
{
    begin(supplied(10, 1));
    supply(2);
    run(0, 1000);
    run(0, 1000);
    lose(0);
    CHECK_EQUAL(JOB_FAILED, job_state(job));
    end_supply();
    CHECK_EQUAL(10, job_items(job));
    expect_failed(1, &(struct muster_range){ 2, 10 });
}

static void what_has_not_left_is_needed(void)
{
    begin(supplied(10, 2));
    CHECK_EQUAL(0, job_items_needed(job));
    supply(4);
    struct job_claim first = start(0), second = start(1);
    finish(second, JOB_END_OK);
    CHECK_EQUAL(0, job_items_needed(job));
    CHECK_EQUAL(JOB_AGAIN, finish(first, JOB_END_UNIT));
    CHECK_EQUAL(0, job_items_needed(job));
    first = start(1);
    CHECK(first.is_retry);
    finish(first, JOB_END_OK);
    expect_result(0);
    CHECK_EQUAL(1, job_items_needed(job));
    expect_result(1);
    /* Nothing is undelivered: the next to be claimed, though it has arrived. */
    CHECK_EQUAL(2, job_items_needed(job));
}

static void an_idle_lane_helps_while_nothing_arrives(void)
{
    struct job_options options = supplied(UINT64_MAX, 2);
    options.speculate = true;
    options.depth = 1;
    begin(options);
    supply(4);
    for (uint32_t i = 0; i < 3; i++)
        run(i % 2, 1000);
    struct job_claim slow = start(0);
    now_ns += 100000;
    struct job_claim copy = start(1);
    CHECK(copy.is_copy);
    CHECK_EQUAL(slow.range.begin, copy.range.begin);
}

static void what_cannot_be_had_fails_the_job(void)
{
    begin(supplied(10, 1));
    supply(3);
    run(0, 1000);
    struct job_claim claim = start(0);
    job_fail(job);
    check_sound();
    CHECK_EQUAL(JOB_FAILED, job_state(job));
    CHECK(gets_nothing(0));
    /* What was under way is good, and may still leave. */
    CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    expect_result(1);
    expect_failed(1, &(struct muster_range){ 2, 10 });
}

static void the_last_lane_may_go_when_all_is_done(void)
{
    begin(plain(2, 1));
    struct job_claim first = start(0), second = start(0);
    finish(first, JOB_END_OK);
    finish(second, JOB_END_OK);
    lose(0);
    CHECK_EQUAL(JOB_RUNNING, job_state(job));
    CHECK_EQUAL(2, deliver());
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

/* Units that may fail. */

static struct job_options tolerant(uint64_t items, uint32_t lanes)
{
    struct job_options options = plain(items, lanes);
    options.tolerant = true;
    return options;
}

/* The next result begins there, and is none. */
static void expect_failed_result(uint64_t begins)
{
    uint32_t unit;
    struct muster_range range;
    CHECK(job_next_result(job, &unit, &range));
    CHECK_EQUAL(begins, range.begin);
    CHECK(job_has_failed(job, unit));
    job_delivered(job, unit);
    check_sound();
}

static void a_unit_that_failed_is_delivered_as_such(void)
{
    for (int ordered = 0; ordered < 2; ordered++) {
        struct job_options options = tolerant(3, 1);
        options.ordered = ordered;
        options.depth = 3;
        begin(options);
        struct job_claim claims[3] = { start(0), start(0), start(0) };
        CHECK_EQUAL(JOB_GIVEN_UP, finish(claims[1], JOB_END_USER));
        if (ordered)
            expect_no_result();
        else
            expect_failed_result(1);
        finish(claims[0], JOB_END_OK);
        expect_result(0);
        if (ordered)
            expect_failed_result(1);
        expect_no_result();
        finish(claims[2], JOB_END_OK);
        expect_result(2);
        CHECK_EQUAL(JOB_DONE, job_state(job));
        expect_failed(0, NULL);
        CHECK_EQUAL(3, job_items_delivered(job));
        CHECK_EQUAL(2, report_of(0).units);
    }
}

static void a_unit_out_of_tries_is_given_up(void)
{
    begin(tolerant(2, 2));
    for (uint32_t i = 0; i < 3; i++) {
        struct job_claim claim = start(i % 2);
        CHECK_EQUAL(0, claim.range.begin);
        CHECK_EQUAL(i == 2, job_is_last_try(job, claim.ticket));
        CHECK_EQUAL(i < 2 ? JOB_AGAIN : JOB_GIVEN_UP, finish(claim, JOB_END_UNIT));
        CHECK(!job_is_last_try(job, claim.ticket));
    }
    expect_failed_result(0);
    CHECK_EQUAL(JOB_RUNNING, job_state(job));
}

static void a_unit_that_takes_down_two_domains_is_given_up(void)
{
    begin(tolerant(20, 3));
    struct job_claim poison = start(0);
    CHECK_EQUAL(JOB_AGAIN, finish(poison, JOB_END_DEVICE));
    poison = start(1);
    CHECK_EQUAL(JOB_GIVEN_UP, finish(poison, JOB_END_DEVICE));
    expect_failed_result(0);
    CHECK_EQUAL(1, start(2).range.begin);
}

static void a_copy_that_failed_used_up_a_try(void)
{
    struct job_options options = tolerant(9, 3);
    options.speculate = true;
    options.depth = 1;
    options.tries = 2;
    begin(options);
    for (uint32_t i = 0; i < 6; i++)
        run(i % 3, 1000);
    struct job_claim slow = start(0);
    start(2);
    run(1, 1000);
    now_ns += 100000;
    struct job_claim copy = start(1);
    CHECK(copy.is_copy && copy.range.begin == slow.range.begin);
    CHECK(!job_is_last_try(job, slow.ticket) && !job_is_last_try(job, copy.ticket));
    CHECK_EQUAL(JOB_AGAIN, finish(copy, JOB_END_UNIT));
    CHECK(job_is_last_try(job, slow.ticket));
    CHECK_EQUAL(JOB_GIVEN_UP, finish(slow, JOB_END_UNIT));
    expect_failed_result(6);
}

static void a_restarted_attempt_has_its_time_again(void)
{
    struct job_options options = tolerant(20, 2);
    options.timeout_ns = 1000;
    begin(options);
    struct job_claim claim = start(0);
    now_ns = 900;
    CHECK(job_restart(job, claim.ticket, now_ns));
    now_ns = 1500;
    look();
    CHECK(!report_of(0).is_hung);
    /* It says nothing about how fast the lane is: the next unit is that of one nobody has measured. */
    CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    options.unit = JOB_UNIT_ADAPTIVE;
    options.timeout_ns = 0;
    begin(options);
    claim = start(0);
    now_ns += 100;
    CHECK(job_restart(job, claim.ticket, now_ns));
    finish(claim, JOB_END_OK);
    CHECK_EQUAL(1, size_of(start(0)));
    CHECK_EQUAL(1, size_of(start(0)));
}

static void an_attempt_that_does_not_count_is_not_restarted(void)
{
    struct job_claim slow, other, copy;
    begin_race(&slow, &other, &copy);
    CHECK_EQUAL(JOB_ACCEPTED, finish(copy, JOB_END_OK));
    CHECK(!job_restart(job, slow.ticket, now_ns));
    CHECK_EQUAL(JOB_LATE, finish(slow, JOB_END_DROPPED));
    CHECK(!job_restart(job, slow.ticket, now_ns));
    expect_result(6);
}

static void what_is_broken_off_is_not_delivered(void)
{
    struct job_options options = tolerant(10, 1);
    options.supplied = true;
    begin(options);
    supply(2);
    struct job_claim first = start(0), second = start(0);
    job_fail(job);
    CHECK(!job_restart(job, first.ticket, now_ns));
    CHECK_EQUAL(JOB_LATE, finish(first, JOB_END_DROPPED));
    CHECK_EQUAL(JOB_ACCEPTED, finish(second, JOB_END_OK));
    expect_no_result();
    CHECK(job_is_quiet(job));
    const struct muster_range failed[] = { { 0, 1 }, { 2, 10 } };
    expect_failed(2, failed);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(options_that_make_no_sense_are_refused),
        TEST(a_job_without_items_is_done),
        TEST(a_job_is_done_when_its_last_result_has_left),
        TEST(a_claimed_unit_is_nobody_elses),
        TEST(a_lane_is_given_no_more_than_its_depth),
        TEST(a_unit_ends_exactly_once),
        TEST(a_ticket_is_stale_once_its_slot_is_reused),
        TEST(a_ticket_nobody_was_given_is_stale),
        TEST(completions_in_any_order_are_told_apart),
        TEST(the_first_finish_of_a_unit_wins),
        TEST(a_copy_that_loses_is_late),
        TEST(a_copy_that_fails_leaves_the_first_run_alone),
        TEST(a_lost_copy_leaves_the_first_run_alone),
        TEST(a_late_run_holds_its_slot_until_it_is_over),
        TEST(nothing_is_run_twice_unless_asked_for),
        TEST(a_waiting_unit_is_taken_back_by_an_idle_lane),
        TEST(a_unit_that_was_taken_back_frees_its_slot),
        TEST(a_slow_lane_takes_nothing_back_from_a_fast_one),
        TEST(an_unmeasured_lane_takes_back_what_waits),
        TEST(a_unit_is_not_taken_back_to_where_it_failed),
        TEST(a_lanes_only_unit_is_not_taken_back_for_trial),
        TEST(an_overdue_attempt_is_noticed),
        TEST(a_hung_lane_is_tried_again_when_it_answers),
        TEST(a_hung_lane_that_is_lost_stays_lost),
        TEST(without_a_time_out_the_expectation_decides),
        TEST(nothing_is_overdue_before_anybody_knows_how_long),
        TEST(the_last_lane_is_not_given_up_lightly),
        TEST(a_dear_unit_is_given_longer_each_time),
        TEST(a_look_is_due_when_a_copy_becomes_worth_it),
        TEST(a_new_start_brings_the_next_look_forward),
        TEST(a_late_run_that_hangs_is_noticed_too),
        TEST(a_job_whose_last_lane_hangs_fails),
        TEST(an_unmeasured_lane_is_given_a_small_unit),
        TEST(a_lane_that_slows_down_gets_less_within_three_units),
        TEST(a_lane_that_recovers_gets_more_again),
        TEST(the_window_is_filled_and_never_exceeded),
        TEST(units_never_exceed_the_window),
        TEST(a_unit_of_fixed_size_waits_rather_than_being_cut),
        TEST(undelivered_units_are_as_many_as_there_is_room_for),
        TEST(a_retry_passes_a_full_window),
        TEST(a_retry_needs_no_room_for_a_unit),
        TEST(retries_come_first_and_the_oldest_before_all),
        TEST(a_unit_that_failed_is_run_elsewhere),
        TEST(the_only_lane_runs_it_again_itself),
        TEST(a_unit_out_of_tries_fails_the_job),
        TEST(what_the_user_refused_is_not_retried),
        TEST(failed_ranges_are_merged),
        TEST(units_that_were_done_are_not_among_the_failed),
        TEST(what_a_lost_lane_held_is_rerun_alone),
        TEST(other_lanes_go_on_while_one_runs_empty),
        TEST(a_unit_that_never_started_is_no_suspect),
        TEST(a_suspect_is_alone_in_its_failure_domain),
        TEST(a_domain_is_lost_as_a_whole),
        TEST(a_unit_that_takes_down_two_domains_fails),
        TEST(a_unit_that_never_started_takes_nothing_down),
        TEST(a_suspect_does_not_wait_for_what_is_abandoned),
        TEST(a_lane_runs_empty_only_for_what_it_may_run),
        TEST(another_lane_runs_empty_when_the_first_is_gone),
        TEST(a_loss_that_comes_late_is_late),
        TEST(a_lost_lane_does_not_come_back),
        TEST(an_idle_lane_runs_a_first_unit_too_after_a_second),
        TEST(an_idle_lane_waits_for_three_times_the_slowest_unit),
        TEST(device_after_device_may_hang),
        TEST(a_third_run_is_worth_it_when_two_hang),
        TEST(a_third_run_is_worth_it_where_it_would_be_first),
        TEST(a_first_unit_is_overdue_beside_an_idle_lane),
        TEST(a_lane_that_becomes_idle_is_looked_for),
        TEST(a_late_end_shows_how_long_units_take),
        TEST(a_job_ends_though_every_device_hangs),
        TEST(a_unit_goes_back_to_where_it_failed_rather_than_wait),
        TEST(a_second_run_may_be_where_the_first_failed),
        TEST(a_unit_is_not_to_blame_for_a_hang),
        TEST(what_is_held_up_is_not_run_twice),
        TEST(a_job_that_is_over_gives_up_soon),
        TEST(a_retry_is_split_as_new_work_is),
        TEST(what_nobody_has_measured_is_given_one_item_of_a_retry),
        TEST(parts_are_of_whole_grains),
        TEST(a_part_is_a_suspect_too),
        TEST(a_part_is_charged_with_what_its_unit_did),
        TEST(a_part_has_its_units_tries_behind_it),
        TEST(without_room_for_a_unit_a_retry_stays_whole),
        TEST(units_of_a_size_that_was_asked_for_stay_whole),
        TEST(a_retry_is_left_to_whom_it_ends_sooner_with),
        TEST(a_retry_is_left_to_nobody_for_ever),
        TEST(a_retry_where_it_ends_before_the_job_is_taken_at_once),
        TEST(a_retry_that_would_fill_the_window_is_left_to_the_fast),
        TEST(nothing_begins_after_a_cancel),
        TEST(a_cancel_counts_once_and_not_after_the_end),
        TEST(a_cancelled_job_hears_of_losses_and_hangs),
        TEST(a_result_that_is_leaving_may_leave_after_a_cancel),
        TEST(nothing_begins_after_a_failure),
        TEST(a_sink_that_failed_is_given_nothing_more),
        TEST(without_order_results_leave_as_they_finish),
        TEST(without_order_a_slow_unit_does_not_stop_the_window),
        TEST(the_last_unit_of_fixed_size_is_clipped),
        TEST(a_unit_is_no_larger_than_a_slot),
        TEST(units_are_whole_grains_but_for_the_last),
        TEST(part_of_a_grain_is_waited_for),
        TEST(a_quarter_is_by_the_plain_rule),
        TEST(adaptive_units_begin_small_and_grow_by_steps),
        TEST(the_first_unit_may_be_larger),
        TEST(units_take_no_longer_than_they_may),
        TEST(units_of_one_lane_stay_large),
        TEST(adaptive_units_are_in_proportion_to_the_rates),
        TEST(adaptive_units_shrink_towards_the_end),
        TEST(adaptive_units_are_worth_their_fixed_cost),
        TEST(round_robin_takes_strict_turns),
        TEST(round_robin_passes_over_what_is_lost),
        TEST(least_loaded_takes_the_lowest_of_equals),
        TEST(weighted_divides_by_what_is_queued),
        TEST(weights_below_a_hundredth_count_as_one),
        TEST(adaptive_takes_an_unmeasured_lane_for_the_best),
        TEST(earliest_finish_reckons_with_the_backlog),
        TEST(a_full_window_places_nothing),
        TEST(a_retry_goes_to_whoever_asks),
        TEST(items_are_claimed_once_they_have_arrived),
        TEST(the_end_of_the_supply_ends_the_job),
        TEST(a_unit_of_fixed_size_waits_for_its_items),
        TEST(a_job_that_failed_does_not_hear_of_the_end),
        TEST(what_has_not_left_is_needed),
        TEST(an_idle_lane_helps_while_nothing_arrives),
        TEST(what_cannot_be_had_fails_the_job),
        TEST(the_last_lane_may_go_when_all_is_done),
        TEST(a_unit_that_failed_is_delivered_as_such),
        TEST(a_unit_out_of_tries_is_given_up),
        TEST(a_unit_that_takes_down_two_domains_is_given_up),
        TEST(a_copy_that_failed_used_up_a_try),
        TEST(a_restarted_attempt_has_its_time_again),
        TEST(an_attempt_that_does_not_count_is_not_restarted),
        TEST(what_is_broken_off_is_not_delivered),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
