/*
 * The call that lanes make, and who is woken after it.
 */
#include "job_support.h"

static struct job_claim claims[JOB_STEP_MAX];

/* A lane that brings nothing asks for this many, and starts this many of them. */
static uint32_t step(uint32_t lane, uint32_t most, uint32_t starts)
{
    struct job_round round = { .claims = claims, .claim_max = most, .start_max = starts };
    job_step(job, lane, &round, now_ns);
    check_sound();
    return round.claim_count;
}

static enum job_verdict hand_in(uint32_t lane, struct job_claim claim, enum job_end end)
{
    struct job_ended ended = { claim.ticket, end, 0, JOB_LATE };
    struct job_round round = { .ends = &ended, .end_count = 1 };
    job_step(job, lane, &round, now_ns);
    check_sound();
    return ended.verdict;
}

static uint32_t news(void)
{
    uint32_t told = job_news(job, now_ns);
    check_sound();
    return told;
}

/* The lanes that are to be woken, as bits. */
static uint32_t woken(void)
{
    uint32_t lanes = 0;
    bool has_some = (news() & JOB_NEWS_LANES) != 0;
    for (uint32_t lane; (lane = job_wake_lane(job)) != JOB_NONE;)
        lanes |= 1u << lane;
    CHECK(has_some == (lanes != 0));
    return lanes;
}

static void one_call_hands_in_and_takes_out(void)
{
    struct job_options options = plain(8, 1);
    options.depth = 4;
    begin(options);
    CHECK_EQUAL(3, step(0, 3, 2));
    CHECK(claims[0].is_started && claims[1].is_started && !claims[2].is_started);
    struct job_claim first = claims[0], second = claims[1], third = claims[2];
    struct job_ended ends[] = { { second.ticket, JOB_END_OK, 0, JOB_LATE },
                                { first.ticket, JOB_END_UNIT, 0, JOB_LATE } };
    struct job_start starts[] = { { third.ticket, false } };
    struct job_round round = { ends, 2, starts, 1, claims, 3, 0, 0 };
    now_ns += MS;
    job_step(job, 0, &round, now_ns);
    check_sound();
    CHECK_EQUAL(JOB_ACCEPTED, ends[0].verdict);
    CHECK_EQUAL(JOB_AGAIN, ends[1].verdict);
    CHECK(starts[0].is_started);
    /* What was handed in has made room, and the unit that failed comes first. */
    CHECK_EQUAL(3, round.claim_count);
    CHECK(claims[0].is_retry && claims[0].range.begin == 0);
    CHECK(!claims[0].is_started);
}

static void a_start_is_refused_after_the_end(void)
{
    begin(plain(4, 1));
    CHECK_EQUAL(2, step(0, 2, 0));
    job_cancel(job);
    struct job_start starts[] = { { claims[0].ticket, true }, { claims[1].ticket, true } };
    struct job_round round = { .starts = starts, .start_count = 2 };
    job_step(job, 0, &round, now_ns);
    check_sound();
    CHECK(!starts[0].is_started && !starts[1].is_started);
    CHECK(job_is_quiet(job));
    CHECK_EQUAL(JOB_NEWS_OVER | JOB_NEWS_QUIET,
                news() & (uint32_t)(JOB_NEWS_OVER | JOB_NEWS_QUIET));
    CHECK_EQUAL(0, news() & (uint32_t)(JOB_NEWS_OVER | JOB_NEWS_QUIET));
}

/* DESIGN section 2: up to min(64, ready / lanes) units. */
static void nobody_takes_all_there_is(void)
{
    struct job_options options = plain(12, 3);
    options.depth = 80;
    begin(options);
    CHECK_EQUAL(4, step(0, 12, 12));
    CHECK_EQUAL(2, step(1, 12, 12));
    options = plain(1000, 2);
    options.depth = 100;
    options.units_max = 1000;
    begin(options);
    CHECK_EQUAL(JOB_STEP_MAX, step(0, 100, 100));
    /* One is never too much. */
    begin(plain(2, 3));
    CHECK_EQUAL(1, step(0, 2, 2));
}

static void a_result_is_told_of_once_until_somebody_finds_none(void)
{
    begin(plain(4, 1));
    struct job_claim first = start(0), second = start(0);
    CHECK_EQUAL(JOB_ACCEPTED, hand_in(0, second, JOB_END_OK));
    /* In order: the second alone cannot leave. */
    CHECK(!(news() & JOB_NEWS_RESULT));
    CHECK_EQUAL(JOB_ACCEPTED, hand_in(0, first, JOB_END_OK));
    CHECK(news() & JOB_NEWS_RESULT);
    CHECK(!(news() & JOB_NEWS_RESULT));
    expect_result(0);
    struct job_claim third = start(0);
    CHECK_EQUAL(JOB_ACCEPTED, hand_in(0, third, JOB_END_OK));
    /* The delivering thread is at it, and will ask again. */
    CHECK(!(news() & JOB_NEWS_RESULT));
    CHECK_EQUAL(2, deliver());
    struct job_claim fourth = start(0);
    CHECK_EQUAL(JOB_ACCEPTED, hand_in(0, fourth, JOB_END_OK));
    CHECK(news() & JOB_NEWS_RESULT);
}

static void a_look_that_is_due_sooner_is_told_of(void)
{
    struct job_options options = plain(4, 2);
    options.timeout_ns = 5 * MS;
    begin(options);
    CHECK(!(news() & JOB_NEWS_LOOK));
    start(0);
    CHECK(news() & JOB_NEWS_LOOK);
    CHECK(!(news() & JOB_NEWS_LOOK));
    uint64_t due_ns = job_look_due(job);
    now_ns = MS;
    start(1);
    CHECK(job_look_due(job) == due_ns && !(news() & JOB_NEWS_LOOK));
    now_ns = due_ns;
    look();
    CHECK(!(news() & JOB_NEWS_LOOK));
}

/* Three lanes wait for items; two units arrive; two lanes are woken, and the third is left alone. */
static void no_more_lanes_are_woken_than_there_is_to_do(void)
{
    struct job_options options = plain(100, 3);
    options.supplied = true;
    begin(options);
    for (uint32_t lane = 0; lane < 3; lane++)
        CHECK_EQUAL(0, step(lane, 2, 2));
    CHECK_EQUAL(0, woken());
    job_supply(job, 2);
    CHECK_EQUAL(1 | 2, woken());
    /* They were told; nobody else is, until they have asked. */
    CHECK_EQUAL(0, woken());
    CHECK_EQUAL(1, step(0, 2, 2));
    CHECK_EQUAL(0, woken());
    CHECK_EQUAL(1, step(1, 2, 2));
    CHECK_EQUAL(0, woken());
    job_supply(job, 3);
    /* One that has nothing before those that have. */
    CHECK_EQUAL(4, woken());
}

static void a_delivery_that_opens_the_window_wakes_a_lane(void)
{
    struct job_options options = plain(10, 2);
    options.window = 1;
    begin(options);
    struct job_claim claim = start(0);
    CHECK(gets_nothing(1));
    CHECK_EQUAL(JOB_ACCEPTED, hand_in(0, claim, JOB_END_OK));
    CHECK(gets_nothing(0));
    CHECK_EQUAL(0, woken());
    CHECK_EQUAL(1, deliver());
    CHECK_EQUAL(2, woken());
}

static void a_retry_wakes_a_lane_that_may_run_it(void)
{
    begin(plain(1, 2));
    struct job_claim claim = start(0);
    CHECK(gets_nothing(1));
    CHECK_EQUAL(0, woken());
    CHECK_EQUAL(JOB_AGAIN, hand_in(0, claim, JOB_END_UNIT));
    CHECK(gets_nothing(0));
    CHECK_EQUAL(2, woken());
    CHECK_EQUAL(1, step(1, 1, 1));
    CHECK(claims[0].is_retry);
}

/* A lane that was woken and got nothing, since it may not, passes it on. */
static void a_wake_is_passed_on(void)
{
    struct job_options options = plain(4, 3);
    options.supplied = true;
    begin(options);
    for (uint32_t lane = 0; lane < 3; lane++)
        CHECK(gets_nothing(lane));
    job_supply(job, 1);
    CHECK_EQUAL(1, woken());
    lose(0);
    CHECK_EQUAL(2, woken());
    CHECK_EQUAL(1, step(1, 1, 1));
}

/* A lane that was woken and does not come, because its thread is stuck, holds others up until a look. */
static void a_look_wakes_others_in_place_of_one_that_does_not_come(void)
{
    struct job_options options = plain(4, 2);
    options.supplied = true;
    begin(options);
    CHECK(gets_nothing(0) && gets_nothing(1));
    job_supply(job, 1);
    CHECK_EQUAL(1, woken());
    CHECK_EQUAL(0, woken());
    look();
    CHECK_EQUAL(1, woken() & 1);
    job_supply(job, 2);
    CHECK_EQUAL(2, woken());
}

static void whoever_has_lost_is_woken_to_stop(void)
{
    struct job_options options = plain(1, 2);
    options.speculate = true;
    begin(options);
    struct job_claim slow = start(0);
    now_ns = 2 * SECOND;
    struct job_claim rival = start(1);
    CHECK(rival.is_copy && !job_should_stop(job, slow.ticket));
    woken();
    CHECK_EQUAL(JOB_ACCEPTED, hand_in(1, rival, JOB_END_OK));
    CHECK_EQUAL(1, woken() & 1);
    CHECK(job_should_stop(job, slow.ticket));
    CHECK_EQUAL(JOB_LATE, hand_in(0, slow, JOB_END_OK));
}

static void the_end_wakes_everybody_who_is_concerned(void)
{
    begin(plain(1, 3));
    struct job_claim claim = start(0);
    CHECK(gets_nothing(1));
    woken();
    job_cancel(job);
    CHECK(job_should_stop(job, claim.ticket));
    /* The third has never asked. */
    CHECK_EQUAL(1 | 2, woken());
}

/* An idle lane takes a unit back that another holds and has not started; that one is told. */
static void a_lane_is_told_that_a_unit_was_taken_back(void)
{
    begin(plain(2, 2));
    CHECK_EQUAL(1, step(0, 1, 1));
    CHECK_EQUAL(1, step(0, 1, 0));
    struct job_claim waiting = claims[0];
    woken();
    CHECK_EQUAL(1, step(1, 1, 1));
    CHECK(claims[0].range.begin == 1 && !job_is_out(job, waiting.ticket));
    CHECK_EQUAL(1, woken());
}

/* A device that fails everything. */

/* The lane fails this many units in a row. */
static void fail_in_a_row(uint32_t lane, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        now_ns += MS / 10;
        CHECK_EQUAL(JOB_AGAIN, finish(start(lane), JOB_END_UNIT));
    }
}

static void a_lane_that_fails_everything_is_left_alone(void)
{
    struct job_options options = plain(100, 2);
    options.tries = 2;
    begin(options);
    fail_in_a_row(0, 8);
    CHECK(job_lane_report_of(0).is_quarantined && !job_lane_report_of(1).is_quarantined);
    CHECK(gets_nothing(0));
    /* The other does what has failed, though each has one try left. */
    for (int i = 0; i < 8; i++) {
        struct job_claim claim = start(1);
        CHECK(claim.is_retry);
        now_ns += MS;
        CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    }
    CHECK(gets_nothing(0));
}

static void a_quarantined_lane_is_tried_with_one_unit_and_costs_it_no_try(void)
{
    struct job_options options = plain(100, 2);
    options.tries = 2;
    begin(options);
    fail_in_a_row(0, 8);
    CHECK_EQUAL(JOB_ACCEPTED, finish(start(1), JOB_END_OK));
    CHECK(gets_nothing(0));
    CHECK(job_look_due(job) <= now_ns + SECOND + MS);
    now_ns += SECOND + MS;
    /* This one has failed once already, and this is its last try. */
    struct job_claim probe = start(0);
    CHECK(gets_nothing(0));
    CHECK_EQUAL(JOB_AGAIN, finish(probe, JOB_END_UNIT));
    CHECK_EQUAL(JOB_RUNNING, job_state(job));
    /* Twice as long now. */
    now_ns += SECOND + MS;
    CHECK(gets_nothing(0));
    now_ns += SECOND;
    probe = start(0);
    CHECK_EQUAL(JOB_ACCEPTED, finish(probe, JOB_END_OK));
    CHECK(!job_lane_report_of(0).is_quarantined);
    start(0);
    start(0);
}

/* Where all lanes fail it is the units' fault, and they run out of tries as ever. */
static void where_all_fail_nobody_is_quarantined(void)
{
    begin(plain(100, 2));
    fail_in_a_row(0, 8);
    enum job_verdict verdict = JOB_AGAIN;
    for (int i = 0; i < 40 && verdict == JOB_AGAIN; i++) {
        now_ns += 2 * SECOND;
        verdict = finish(start(i % 2 == 0), JOB_END_UNIT);
    }
    CHECK_EQUAL(JOB_REFUSED, verdict);
    CHECK_EQUAL(JOB_FAILED, job_state(job));
}

static void the_only_lane_is_never_quarantined(void)
{
    struct job_options options = plain(100, 1);
    options.tries = 100;
    begin(options);
    fail_in_a_row(0, 20);
    CHECK(!job_lane_report_of(0).is_quarantined);
    CHECK_EQUAL(JOB_ACCEPTED, finish(start(0), JOB_END_OK));
}

static void a_policy_passes_over_a_quarantined_lane(void)
{
    struct job_options options = plain(100, 2);
    options.place = true;
    options.policy = JOB_ROUND_ROBIN;
    options.tries = 20;
    begin(options);
    for (int i = 0; i < 8; i++) {
        struct job_claim bad = start(0), good = start(1);
        CHECK_EQUAL(JOB_AGAIN, finish(bad, JOB_END_UNIT));
        CHECK_EQUAL(JOB_ACCEPTED, finish(good, JOB_END_OK));
        CHECK_EQUAL(JOB_ACCEPTED, finish(start(1), JOB_END_OK));
        deliver();
    }
    CHECK(job_lane_report_of(0).is_quarantined && gets_nothing(0));
    start(1);
    start(1);
}

/* Policies. */

static void the_home_lane_is_given_all_until_it_is_full(void)
{
    struct job_options options = plain(10, 3);
    options.place = true;
    options.policy = JOB_STICKY;
    options.home = 2;
    begin(options);
    CHECK(gets_nothing(0) && gets_nothing(1));
    struct job_claim claim = start(2);
    start(2);
    /* Full, and the others have nothing. */
    start(0);
    start(1);
    CHECK(gets_nothing(0) && gets_nothing(1));
    CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    CHECK(gets_nothing(0) && gets_nothing(1));
    start(2);
    begin(options);
    lose(2);
    start(0);
}

static struct job_options user(uint64_t items, uint32_t lanes)
{
    struct job_options options = plain(items, lanes);
    options.place = true;
    options.policy = JOB_USER;
    return options;
}

static void the_users_policy_is_asked_and_kept_to(void)
{
    struct job_lane_view lanes[3];
    begin(user(10, 3));
    CHECK(gets_nothing(0) && gets_nothing(1));
    CHECK(news() & JOB_NEWS_PLACE);
    CHECK_EQUAL(3, job_snapshot(job, lanes, now_ns));
    CHECK(lanes[1].lane == 1 && lanes[1].held == 0);
    /* One call at a time. */
    CHECK(!(news() & JOB_NEWS_PLACE));
    CHECK_EQUAL(0, job_snapshot(job, lanes, now_ns));
    CHECK(job_commit(job, 1, now_ns));
    check_sound();
    CHECK_EQUAL(2, woken());
    CHECK(gets_nothing(0));
    struct job_claim claim = start(1);
    CHECK_EQUAL(0, claim.range.begin);
    CHECK(gets_nothing(1));
    CHECK_EQUAL(3, job_snapshot(job, lanes, now_ns));
    CHECK_EQUAL(1, lanes[1].held);
    CHECK(job_commit(job, JOB_NONE, now_ns));
}

/* Choosing and reserving are one step: what was given counts before the lane has come for it. */
static void what_a_policy_gave_is_reserved(void)
{
    struct job_lane_view lanes[2];
    begin(user(10, 2));
    for (int i = 0; i < 2; i++) {
        CHECK(job_snapshot(job, lanes, now_ns) > 0);
        CHECK(job_commit(job, 0, now_ns));
        check_sound();
    }
    /* Full, without having claimed anything yet. */
    CHECK_EQUAL(1, job_snapshot(job, lanes, now_ns));
    CHECK_EQUAL(1, lanes[0].lane);
    CHECK(job_commit(job, JOB_NONE, now_ns));
    /* Its device goes before it has come for them: they are anybody's. */
    lose(0);
    CHECK(start(1).is_retry && start(1).is_retry);
}

static void a_stale_choice_is_asked_for_three_times(void)
{
    struct job_lane_view lanes[2];
    begin(user(10, 2));
    for (int i = 0; i < JOB_ASKS_MAX; i++) {
        CHECK(job_snapshot(job, lanes, now_ns) > 0);
        if (i == 0)
            lose(0);
        CHECK(!job_commit(job, 0, now_ns));
        check_sound();
    }
    /* Busy, until something changes or some time has passed. */
    CHECK_EQUAL(0, job_snapshot(job, lanes, now_ns));
    CHECK(job_look_due(job) <= SECOND);
    now_ns = job_look_due(job);
    look();
    CHECK(news() & JOB_NEWS_PLACE);
    CHECK_EQUAL(1, job_snapshot(job, lanes, now_ns));
    CHECK(job_commit(job, 1, now_ns));
}

static void what_was_given_goes_back_at_the_end(void)
{
    struct job_lane_view lanes[2];
    begin(user(10, 2));
    CHECK(job_snapshot(job, lanes, now_ns) > 0);
    CHECK(job_commit(job, 0, now_ns));
    CHECK(job_snapshot(job, lanes, now_ns) > 0);
    job_cancel(job);
    check_sound();
    CHECK(job_is_quiet(job));
    /* The policy comes back too late. */
    CHECK(job_commit(job, 1, now_ns));
    CHECK(job_is_quiet(job) && gets_nothing(0) && gets_nothing(1));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(one_call_hands_in_and_takes_out),
        TEST(a_start_is_refused_after_the_end),
        TEST(nobody_takes_all_there_is),
        TEST(a_result_is_told_of_once_until_somebody_finds_none),
        TEST(a_look_that_is_due_sooner_is_told_of),
        TEST(no_more_lanes_are_woken_than_there_is_to_do),
        TEST(a_delivery_that_opens_the_window_wakes_a_lane),
        TEST(a_retry_wakes_a_lane_that_may_run_it),
        TEST(a_wake_is_passed_on),
        TEST(a_look_wakes_others_in_place_of_one_that_does_not_come),
        TEST(whoever_has_lost_is_woken_to_stop),
        TEST(the_end_wakes_everybody_who_is_concerned),
        TEST(a_lane_is_told_that_a_unit_was_taken_back),
        TEST(a_lane_that_fails_everything_is_left_alone),
        TEST(a_quarantined_lane_is_tried_with_one_unit_and_costs_it_no_try),
        TEST(where_all_fail_nobody_is_quarantined),
        TEST(the_only_lane_is_never_quarantined),
        TEST(a_policy_passes_over_a_quarantined_lane),
        TEST(the_home_lane_is_given_all_until_it_is_full),
        TEST(the_users_policy_is_asked_and_kept_to),
        TEST(what_a_policy_gave_is_reserved),
        TEST(a_stale_choice_is_asked_for_three_times),
        TEST(what_was_given_goes_back_at_the_end),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
