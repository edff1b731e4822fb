/*
 * Lanes whose devices are not open when the job starts: given nothing and waited for by nobody, until
 * they join or are given up.
 */
#include "job_support.h"

static void join(uint32_t lane)
{
    job_lane_join(job, lane, now_ns);
    check_sound();
}

static void give_up(uint32_t lane)
{
    job_lane_give_up(job, lane);
    check_sound();
}

/* Lane 0 is there, the others are expected. */
static void begin_alone(struct job_options options)
{
    begin(options);
    for (uint32_t lane = 1; lane < options.lane_count; lane++)
        job_lane_expect(job, lane);
    check_sound();
}

static void run_to_the_end(uint32_t lane)
{
    while (job_state(job) == JOB_RUNNING) {
        now_ns += MS;
        CHECK_EQUAL(JOB_ACCEPTED, finish(start(lane), JOB_END_OK));
        deliver();
    }
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

static void an_expected_lane_is_given_nothing(void)
{
    begin_alone(plain(8, 2));
    CHECK(gets_nothing(1));
    struct job_claim claim = start(0);
    CHECK(gets_nothing(1));
    CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    CHECK(gets_nothing(1));
    run_to_the_end(0);
}

static void a_lane_that_joins_takes_part(void)
{
    begin_alone(plain(4, 2));
    struct job_claim first = start(0);
    join(1);
    struct job_claim second = start(1), third = start(1);
    CHECK_EQUAL(JOB_ACCEPTED, finish(third, JOB_END_OK));
    CHECK_EQUAL(JOB_ACCEPTED, finish(second, JOB_END_OK));
    CHECK_EQUAL(JOB_ACCEPTED, finish(first, JOB_END_OK));
    deliver();
    run_to_the_end(1);
    CHECK_EQUAL(3, job_lane_report_of(1).items);
}

/* Nobody else may take it for now, and nobody knows how long that stays so. */
static void a_failed_unit_does_not_wait_for_an_expected_lane(void)
{
    begin_alone(plain(1, 2));
    CHECK_EQUAL(JOB_AGAIN, finish(start(0), JOB_END_UNIT));
    CHECK_EQUAL(JOB_ACCEPTED, finish(start(0), JOB_END_OK));
    deliver();
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

static void a_job_without_lanes_waits_for_the_expected(void)
{
    begin_alone(plain(4, 3));
    struct job_claim claim = start(0);
    lose(0);
    CHECK_EQUAL(JOB_LATE, finish(claim, JOB_END_OK));
    now_ns += 3600 * SECOND;
    look();
    CHECK_EQUAL(JOB_RUNNING, job_state(job));
    give_up(1);
    CHECK_EQUAL(JOB_RUNNING, job_state(job));
    join(2);
    run_to_the_end(2);
}

static void a_job_whose_last_hope_goes_fails(void)
{
    begin_alone(plain(4, 3));
    lose(0);
    give_up(2);
    CHECK_EQUAL(JOB_RUNNING, job_state(job));
    give_up(1);
    CHECK_EQUAL(JOB_FAILED, job_state(job));
}

static void one_that_is_given_up_changes_nothing_for_others(void)
{
    begin_alone(plain(4, 2));
    give_up(1);
    CHECK(gets_nothing(1));
    run_to_the_end(0);
    begin_alone(plain(4, 2));
    give_up(1);
    lose(0);
    CHECK_EQUAL(JOB_FAILED, job_state(job));
}

/* Hope is not enough to be lost with a failure domain. */
static void the_loss_of_a_domain_leaves_expected_lanes(void)
{
    begin_alone(plain(4, 3));
    job_lane_describe(job, 1, 0, 1);
    lose(0);
    CHECK_EQUAL(JOB_RUNNING, job_state(job));
    CHECK(!job_lane_report_of(1).is_lost);
    give_up(1);
    join(2);
    run_to_the_end(2);
}

/* Unmeasured, it is tried: law 9. Adaptive units, so that its first one is small. */
static void a_lane_that_joins_late_is_tried(void)
{
    struct job_options options = plain(100000, 2);
    options.unit = JOB_UNIT_ADAPTIVE;
    options.unit_max = 1000;
    begin_alone(options);
    for (unsigned i = 0; i < 20; i++) {
        struct job_claim claim = start(0);
        now_ns += 1000 * size_of(claim);
        CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
        deliver();
    }
    join(1);
    struct job_claim trial = start(1);
    CHECK_EQUAL(1, size_of(trial));
    now_ns += 100;
    CHECK_EQUAL(JOB_ACCEPTED, finish(trial, JOB_END_OK));
    CHECK(size_of(start(1)) > 1);
}

static void one_may_join_a_job_that_is_over(void)
{
    begin_alone(plain(1, 2));
    run_to_the_end(0);
    join(1);
    CHECK(gets_nothing(1));
    begin_alone(plain(1, 2));
    job_cancel(job);
    give_up(1);
    CHECK_EQUAL(JOB_CANCELLED, job_state(job));
}

static bool should_open(bool has_devices, uint64_t before_ns)
{
    uint64_t look_ns = 0;
    bool is_worth = job_should_open(job, has_devices, before_ns, now_ns, &look_ns);
    CHECK(is_worth || look_ns > now_ns);
    check_sound();
    return is_worth;
}

static void drivers_are_opened_for_a_long_job(void)
{
    begin_alone(plain(100, 2));
    job_opens_later(job);
    CHECK(!should_open(true, 0));
    now_ns += 10 * SECOND;
    CHECK(!should_open(true, 0));
    struct job_claim claim = start(0);
    now_ns += 50 * MS;
    CHECK(should_open(true, 0));
    CHECK(!should_open(false, 0));
    CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    deliver();
    /* 90 of 100 in as long: what is left is not worth it. */
    for (uint32_t i = 0; i < 89; i++) {
        CHECK_EQUAL(JOB_ACCEPTED, finish(start(0), JOB_END_OK));
        deliver();
    }
    CHECK(!should_open(true, 0));
    run_to_the_end(0);
}

static void drivers_are_opened_at_once_if_nobody_is_left(void)
{
    begin_alone(plain(100, 2));
    job_opens_later(job);
    CHECK(!should_open(true, 0));
    lose(0);
    CHECK(should_open(true, 0));
    CHECK(!should_open(false, 0));
}

static void earlier_jobs_count(void)
{
    begin_alone(plain(1, 2));
    job_opens_later(job);
    CHECK(!should_open(true, 249 * MS));
    CHECK(should_open(true, 250 * MS));
    CHECK(should_open(false, 250 * MS));
    run_to_the_end(0);
}

/* How many units an array has on a lane that does a million items in a millisecond. */
static uint64_t units_alone(bool is_expected, bool opens_later)
{
    struct job_options options = plain(100000000, is_expected ? 2 : 1);
    options.unit = JOB_UNIT_ADAPTIVE;
    options.first_items = 1000;
    options.unit_ns = 100 * MS;
    options.leaves_out = true;
    if (is_expected)
        begin_alone(options);
    else
        begin(options);
    if (opens_later)
        job_opens_later(job);
    while (job_state(job) == JOB_RUNNING) {
        struct job_claim claim = start(0);
        now_ns += (claim.range.end - claim.range.begin) * MS / 1000000 + 1000;
        CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
        deliver();
    }
    return job_units_made(job);
}

static void units_are_large_until_a_driver_is_opened(void)
{
    uint64_t alone = units_alone(false, false);
    CHECK_EQUAL(alone, units_alone(true, true));
    CHECK(units_alone(true, false) > 4 * alone);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(an_expected_lane_is_given_nothing),
        TEST(a_lane_that_joins_takes_part),
        TEST(a_failed_unit_does_not_wait_for_an_expected_lane),
        TEST(a_job_without_lanes_waits_for_the_expected),
        TEST(a_job_whose_last_hope_goes_fails),
        TEST(one_that_is_given_up_changes_nothing_for_others),
        TEST(the_loss_of_a_domain_leaves_expected_lanes),
        TEST(a_lane_that_joins_late_is_tried),
        TEST(one_may_join_a_job_that_is_over),
        TEST(drivers_are_opened_for_a_long_job),
        TEST(drivers_are_opened_at_once_if_nobody_is_left),
        TEST(earlier_jobs_count),
        TEST(units_are_large_until_a_driver_is_opened),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
