/*
 * Attempts that write into the caller's array: one at a time, and nothing is delivered that one may
 * still write; what was done in place is not run again.
 */
#include "job_support.h"

/* Units of ten items; the first `direct` lanes work on the caller's memory. */
static void begin_output(enum job_output output, uint64_t items, uint32_t lanes, uint32_t direct)
{
    struct job_options options = plain(items, lanes);
    options.unit_items = 10;
    options.output = output;
    options.speculate = true;
    begin(options);
    for (uint32_t i = 0; i < direct; i++)
        job_lane_set_direct(job, i);
}

static enum job_verdict finish_at(struct job_claim claim, enum job_end end, uint64_t done)
{
    enum job_verdict verdict = job_finish_at(job, claim.ticket, end, done, now_ns);
    check_sound();
    return verdict;
}

static bool is_range(struct job_claim claim, uint64_t from, uint64_t to)
{
    return claim.range.begin == from && claim.range.end == to;
}

/* The next result is this range, is in the caller's array or not, and is delivered. */
static void expect_range(uint64_t from, uint64_t to, bool is_direct)
{
    uint32_t unit;
    struct muster_range range;
    CHECK(job_next_result(job, &unit, &range));
    CHECK_EQUAL(from, range.begin);
    CHECK_EQUAL(to, range.end);
    CHECK_EQUAL(is_direct, job_is_direct(job, unit));
    job_delivered(job, unit);
    check_sound();
}

static void expect_failed(uint64_t from, uint64_t to)
{
    struct muster_range failed[4];
    CHECK_EQUAL(JOB_FAILED, job_state(job));
    CHECK_EQUAL(1, job_failed_ranges(job, failed, 4));
    CHECK_EQUAL(from, failed[0].begin);
    CHECK_EQUAL(to, failed[0].end);
}

/* Only written. */

static void a_lane_on_the_callers_memory_writes_directly(void)
{
    begin_output(JOB_OUTPUT_DIRECT, 20, 2, 1);
    struct job_claim direct = start(0), slot = start(1);
    CHECK(direct.is_direct && !slot.is_direct);
    CHECK_EQUAL(JOB_ACCEPTED, finish(direct, JOB_END_OK));
    CHECK_EQUAL(JOB_ACCEPTED, finish(slot, JOB_END_OK));
    expect_range(0, 10, true);
    expect_range(10, 20, false);
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

static void a_rival_uses_a_slot_and_waits_for_the_direct_attempt(void)
{
    begin_output(JOB_OUTPUT_DIRECT, 10, 2, 2);
    struct job_claim direct = start(0);
    now_ns = 2 * SECOND;
    struct job_claim rival = start(1);
    CHECK(direct.is_direct && rival.is_copy && !rival.is_direct);
    CHECK_EQUAL(JOB_ACCEPTED, finish(rival, JOB_END_OK));
    /* The caller's array may still be written by the other. */
    expect_no_result();
    CHECK_EQUAL(JOB_RUNNING, job_state(job));
    CHECK(job_should_stop(job, direct.ticket));
    CHECK_EQUAL(JOB_LATE, finish(direct, JOB_END_OK));
    expect_range(0, 10, false);
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

static void a_direct_attempt_that_is_first_is_the_result(void)
{
    begin_output(JOB_OUTPUT_DIRECT, 10, 2, 2);
    struct job_claim direct = start(0);
    now_ns = 2 * SECOND;
    struct job_claim rival = start(1);
    CHECK_EQUAL(JOB_ACCEPTED, finish(direct, JOB_END_OK));
    expect_range(0, 10, true);
    CHECK_EQUAL(JOB_DONE, job_state(job));
    CHECK_EQUAL(JOB_LATE, finish(rival, JOB_END_OK));
}

static void after_a_failure_the_next_attempt_is_direct_again(void)
{
    begin_output(JOB_OUTPUT_DIRECT, 10, 2, 2);
    struct job_claim first = start(0);
    CHECK_EQUAL(JOB_AGAIN, finish(first, JOB_END_UNIT));
    struct job_claim second = start(1);
    CHECK(second.is_retry && second.is_direct && is_range(second, 0, 10));
    CHECK_EQUAL(JOB_ACCEPTED, finish(second, JOB_END_OK));
    expect_range(0, 10, true);
}

/* Unordered: results pass one that waits, and it follows when it can. */
static void a_result_that_waits_is_passed_by_others(void)
{
    struct job_options options = plain(20, 2);
    options.unit_items = 10;
    options.output = JOB_OUTPUT_DIRECT;
    options.speculate = true;
    options.ordered = false;
    begin(options);
    job_lane_set_direct(job, 0);
    struct job_claim direct = start(0), other = start(1);
    now_ns = MS;
    CHECK_EQUAL(JOB_ACCEPTED, finish(other, JOB_END_OK));
    now_ns = 2 * SECOND;
    struct job_claim rival = start(1);
    CHECK_EQUAL(JOB_ACCEPTED, finish(rival, JOB_END_OK));
    expect_range(10, 20, false);
    expect_no_result();
    CHECK_EQUAL(JOB_LATE, finish(direct, JOB_END_UNIT));
    expect_range(0, 10, false);
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

/* A direct attempt of a device that hangs: its unit runs elsewhere, but its result is not safe to copy. */
static void a_direct_attempt_that_hangs_fails_its_range_in_bounded_time(void)
{
    begin_output(JOB_OUTPUT_DIRECT, 20, 2, 2);
    struct job_claim direct = start(0), other = start(1);
    now_ns = MS;
    CHECK_EQUAL(JOB_ACCEPTED, finish(other, JOB_END_OK));
    now_ns = 2 * SECOND;
    struct job_claim rival = start(1);
    CHECK(is_range(rival, 0, 10) && !rival.is_direct);
    CHECK_EQUAL(JOB_ACCEPTED, finish(rival, JOB_END_OK));
    for (int i = 0; i < 20 && job_state(job) == JOB_RUNNING; i++) {
        CHECK(job_look_due(job) != UINT64_MAX);
        now_ns = job_look_due(job);
        look();
    }
    CHECK(now_ns <= 120 * SECOND);
    expect_failed(0, 10);
    CHECK(job_is_quiet(job));
    CHECK_EQUAL(JOB_LATE, finish(direct, JOB_END_OK));
    CHECK_EQUAL(JOB_FAILED, job_state(job));
}

/* The same, but the device comes back while it is waited for. */
static void a_direct_attempt_that_comes_back_lets_its_range_go(void)
{
    struct job_options options = plain(20, 2);
    options.unit_items = 10;
    options.output = JOB_OUTPUT_DIRECT;
    options.timeout_ns = 100 * MS;
    begin(options);
    job_lane_set_direct(job, 0);
    job_lane_set_direct(job, 1);
    struct job_claim direct = start(0), other = start(1);
    now_ns = MS;
    CHECK_EQUAL(JOB_ACCEPTED, finish(other, JOB_END_OK));
    now_ns = 101 * MS;
    look();
    struct job_lane_report report;
    job_lane_report(job, 0, &report);
    CHECK(report.is_hung);
    struct job_claim again = start(1);
    CHECK(again.is_retry && !again.is_direct && is_range(again, 0, 10));
    CHECK_EQUAL(JOB_ACCEPTED, finish(again, JOB_END_OK));
    expect_no_result();
    now_ns = 150 * MS;
    CHECK_EQUAL(JOB_LATE, finish(direct, JOB_END_OK));
    expect_range(0, 10, false);
    expect_range(10, 20, true);
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

/* A unit into which a direct attempt may still write is not split: that one writes into all of it. */
static void a_unit_in_doubt_is_not_split(void)
{
    struct job_options options = plain(1000, 3);
    options.unit = JOB_UNIT_ADAPTIVE;
    options.output = JOB_OUTPUT_DIRECT;
    options.timeout_ns = 100 * MS;
    begin(options);
    job_lane_set_direct(job, 0);
    struct job_claim claim;
    for (int i = 0; i < 4; i++) {
        claim = start(0);
        now_ns += size_of(claim) * 1000;
        CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    }
    claim = start(0);
    CHECK(size_of(claim) > 4);
    now_ns += 101 * MS;
    look();
    struct job_claim again = start(1);
    CHECK(again.is_retry && is_range(again, claim.range.begin, claim.range.end));
}

static void where_each_unit_may_fail_nothing_is_direct(void)
{
    struct job_options options = plain(20, 2);
    options.tolerant = true;
    options.output = JOB_OUTPUT_DIRECT;
    CHECK_EQUAL(0, job_bytes(&options));
    options.output = JOB_OUTPUT_CUTS;
    CHECK_EQUAL(0, job_bytes(&options));
    options.tolerant = false;
    options.units_max = 2 * 2 * 2;
    CHECK_EQUAL(0, job_bytes(&options));
    options.units_max++;
    CHECK(job_bytes(&options) > 0);
}

/* Read and written. */

static void a_unit_that_fails_half_way_is_cut_there(void)
{
    begin_output(JOB_OUTPUT_CUTS, 10, 2, 2);
    struct job_claim first = start(0);
    CHECK(first.is_direct);
    CHECK_EQUAL(JOB_AGAIN, finish_at(first, JOB_END_UNIT, 4));
    expect_range(0, 4, true);
    CHECK(gets_nothing(0));
    struct job_claim rest = start(1);
    CHECK(rest.is_retry && rest.is_direct && is_range(rest, 4, 10));
    CHECK_EQUAL(JOB_ACCEPTED, finish(rest, JOB_END_OK));
    expect_range(4, 10, true);
    CHECK_EQUAL(JOB_DONE, job_state(job));
    struct job_lane_report report;
    job_lane_report(job, 0, &report);
    CHECK_EQUAL(4, report.items);
    CHECK_EQUAL(1, report.retries);
}

static void nothing_done_is_a_plain_retry_and_all_done_is_done(void)
{
    begin_output(JOB_OUTPUT_CUTS, 20, 2, 2);
    struct job_claim first = start(0), second = start(1);
    CHECK_EQUAL(JOB_AGAIN, finish_at(first, JOB_END_UNIT, 0));
    CHECK_EQUAL(JOB_ACCEPTED, finish_at(second, JOB_END_DEVICE, 10));
    expect_no_result();
    now_ns = 2 * SECOND;
    struct job_claim again = start(0);
    CHECK(is_range(again, 0, 10));
    CHECK_EQUAL(JOB_ACCEPTED, finish(again, JOB_END_OK));
    expect_range(0, 10, true);
    expect_range(10, 20, true);
}

static void each_cut_costs_the_rest_a_try(void)
{
    begin_output(JOB_OUTPUT_CUTS, 10, 3, 3);
    CHECK_EQUAL(JOB_AGAIN, finish_at(start(0), JOB_END_UNIT, 2));
    CHECK_EQUAL(JOB_AGAIN, finish_at(start(1), JOB_END_UNIT, 3));
    CHECK_EQUAL(JOB_REFUSED, finish_at(start(2), JOB_END_UNIT, 1));
    expect_range(0, 2, true);
    expect_range(2, 5, true);
    expect_range(5, 6, true);
    expect_failed(6, 10);
}

static void such_a_unit_has_no_rival(void)
{
    begin_output(JOB_OUTPUT_CUTS, 10, 3, 2);
    struct job_claim claim = start(0);
    now_ns = 5 * SECOND;
    /* Neither in place nor from a device with memory of its own: it would read what is replaced. */
    CHECK(gets_nothing(1) && gets_nothing(2));
    CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
}

static void slots_have_rivals_that_are_slots(void)
{
    begin_output(JOB_OUTPUT_CUTS, 10, 3, 1);
    struct job_claim slot = start(1);
    now_ns = 5 * SECOND;
    CHECK(!slot.is_direct && gets_nothing(0));
    struct job_claim rival = start(2);
    CHECK(rival.is_copy && !rival.is_direct);
    CHECK_EQUAL(JOB_ACCEPTED, finish(rival, JOB_END_OK));
    expect_range(0, 10, false);
}

/* The device is lost: others wait until the attempt has said how far it got. */
static void a_lost_device_is_asked_how_far_it_got(void)
{
    begin_output(JOB_OUTPUT_CUTS, 10, 2, 2);
    struct job_claim claim = start(0);
    lose(0);
    CHECK(gets_nothing(1));
    CHECK_EQUAL(JOB_AGAIN, finish_at(claim, JOB_END_DEVICE, 7));
    expect_range(0, 7, true);
    struct job_claim rest = start(1);
    CHECK(is_range(rest, 7, 10) && rest.is_retry);
    CHECK_EQUAL(JOB_ACCEPTED, finish(rest, JOB_END_OK));
    expect_range(7, 10, true);
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

static void where_nobody_knows_how_far_it_got_the_unit_fails(void)
{
    begin_output(JOB_OUTPUT_CUTS, 20, 2, 2);
    struct job_claim claim = start(0);
    CHECK_EQUAL(JOB_REFUSED, finish_at(claim, JOB_END_DEVICE, JOB_DONE_UNKNOWN));
    expect_failed(0, 10);
}

static void a_lost_device_that_never_says_fails_the_unit_in_bounded_time(void)
{
    begin_output(JOB_OUTPUT_CUTS, 20, 2, 2);
    start(0);
    lose(0);
    CHECK_EQUAL(JOB_ACCEPTED, finish(start(1), JOB_END_OK));
    uint64_t lost_ns = now_ns;
    for (int i = 0; i < 20 && job_state(job) == JOB_RUNNING; i++) {
        CHECK(job_look_due(job) != UINT64_MAX);
        now_ns = job_look_due(job);
        look();
    }
    CHECK(now_ns - lost_ns <= 11 * SECOND);
    expect_failed(0, 10);
}

/* A loss that took the unit with it twice is the unit's fault, also in parts. */
static void a_rest_that_takes_two_devices_fails(void)
{
    begin_output(JOB_OUTPUT_CUTS, 10, 3, 3);
    struct job_claim first = start(0);
    CHECK_EQUAL(JOB_AGAIN, finish_at(first, JOB_END_DEVICE, 3));
    struct job_claim second = start(1);
    CHECK(is_range(second, 3, 10));
    CHECK_EQUAL(JOB_REFUSED, finish_at(second, JOB_END_DEVICE, 2));
    expect_range(0, 3, true);
    expect_range(3, 5, true);
    expect_failed(5, 10);
}

/* A slow lane is stopped so that an idle one does the rest; that costs no try. */
static void the_rest_of_a_straggler_is_run_elsewhere(void)
{
    struct job_options options = plain(40, 2);
    options.unit_items = 10;
    options.output = JOB_OUTPUT_CUTS;
    options.depth = 1;
    begin(options);
    job_lane_set_direct(job, 0);
    job_lane_set_direct(job, 1);
    struct job_claim slow = start(0), fast = start(1);
    now_ns = MS;
    CHECK_EQUAL(JOB_ACCEPTED, finish(fast, JOB_END_OK));
    now_ns = 100 * MS;
    CHECK_EQUAL(JOB_ACCEPTED, finish(slow, JOB_END_OK));
    slow = start(0);
    fast = start(1);
    now_ns += MS;
    CHECK_EQUAL(JOB_ACCEPTED, finish(fast, JOB_END_OK));
    CHECK(gets_nothing(1));
    CHECK(job_should_stop(job, slow.ticket));
    job_news(job, now_ns);
    CHECK_EQUAL(0, job_wake_lane(job));
    CHECK_EQUAL(JOB_AGAIN, finish_at(slow, JOB_END_STOPPED, 1));
    CHECK_EQUAL(0, job_lane_report_of(0).retries);
    struct job_claim rest = start(1);
    CHECK(is_range(rest, 21, 30));
    CHECK_EQUAL(JOB_ACCEPTED, finish(rest, JOB_END_OK));
    CHECK_EQUAL(5, deliver());
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

/* However few units there are, what must be cut finds one, and the oldest can always go on. */
static void there_is_always_a_unit_for_the_rest(void)
{
    struct job_options options = plain(1000, 2);
    options.unit_items = 10;
    options.output = JOB_OUTPUT_CUTS;
    options.units_max = 2 * 2 * 2 + 1;
    options.tries = 100;
    begin(options);
    job_lane_set_direct(job, 0);
    job_lane_set_direct(job, 1);
    struct job_claim claim;
    unsigned rounds = 0;
    while (job_state(job) == JOB_RUNNING && rounds++ < 10000) {
        now_ns += 2 * SECOND;
        for (uint32_t lane = 0; lane < 2; lane++)
            while (ask(lane, &claim)) {
                CHECK(kick(claim));
                now_ns += MS;
                if (size_of(claim) > 1)
                    CHECK_EQUAL(JOB_AGAIN, finish_at(claim, JOB_END_UNIT, 1));
                else
                    CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
            }
        deliver();
    }
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

/* The last unit that is not in use is for the rest of the oldest, which all others wait for. */
static void the_oldest_finds_a_unit_for_its_rest(void)
{
    struct job_options options = plain(1000, 3);
    options.unit_items = 10;
    options.output = JOB_OUTPUT_CUTS;
    options.depth = 1;
    options.units_max = 2 * 3 * 1 + 1;
    begin(options);
    job_lane_set_direct(job, 0);
    job_lane_set_direct(job, 1);
    struct job_claim oldest = start(0), slot;
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(JOB_ACCEPTED, finish(start(2), JOB_END_OK));
    slot = start(2);
    CHECK_EQUAL(JOB_AGAIN, finish_at(oldest, JOB_END_UNIT, 0));
    CHECK_EQUAL(JOB_AGAIN, finish_at(slot, JOB_END_UNIT, 0));
    struct job_claim younger = start(0);
    CHECK(is_range(younger, 40, 50));
    CHECK_EQUAL(JOB_AGAIN, finish_at(younger, JOB_END_UNIT, 1));
    oldest = start(1);
    CHECK(is_range(oldest, 0, 10) && oldest.is_direct);
    CHECK_EQUAL(JOB_AGAIN, finish_at(oldest, JOB_END_UNIT, 1));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_lane_on_the_callers_memory_writes_directly),
        TEST(a_rival_uses_a_slot_and_waits_for_the_direct_attempt),
        TEST(a_direct_attempt_that_is_first_is_the_result),
        TEST(after_a_failure_the_next_attempt_is_direct_again),
        TEST(a_result_that_waits_is_passed_by_others),
        TEST(a_direct_attempt_that_hangs_fails_its_range_in_bounded_time),
        TEST(a_direct_attempt_that_comes_back_lets_its_range_go),
        TEST(a_unit_in_doubt_is_not_split),
        TEST(where_each_unit_may_fail_nothing_is_direct),
        TEST(a_unit_that_fails_half_way_is_cut_there),
        TEST(nothing_done_is_a_plain_retry_and_all_done_is_done),
        TEST(each_cut_costs_the_rest_a_try),
        TEST(such_a_unit_has_no_rival),
        TEST(slots_have_rivals_that_are_slots),
        TEST(a_lost_device_is_asked_how_far_it_got),
        TEST(where_nobody_knows_how_far_it_got_the_unit_fails),
        TEST(a_lost_device_that_never_says_fails_the_unit_in_bounded_time),
        TEST(a_rest_that_takes_two_devices_fails),
        TEST(the_rest_of_a_straggler_is_run_elsewhere),
        TEST(there_is_always_a_unit_for_the_rest),
        TEST(the_oldest_finds_a_unit_for_its_rest),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
