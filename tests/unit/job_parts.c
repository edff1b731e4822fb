/*
 * What jobs on many machines ask of the core: items that are stored already, adopting what a lane is at,
 * units that are narrowed to the item that fails, results that vanish, lanes that change hands.
 */
#include "job_support.h"

#define ITEMS_MAX 4096

static uint64_t words[ITEMS_MAX / 64];
static struct grain_set stored;

/* Adaptive units, in order, of up to 200 items. */
static struct job_options fleet(uint64_t items, uint32_t lanes)
{
    struct job_options options = plain(items, lanes);
    options.unit = JOB_UNIT_ADAPTIVE;
    options.unit_items = 0;
    options.window = 200;
    options.units_max = 200;
    options.narrows = options.waits_for_lanes = true;
    options.stored = &stored;
    grain_set_init(&stored, words, items);
    return options;
}

static void store(uint64_t from, uint64_t to)
{
    job_note_stored(job, (struct muster_range){ from, to });
    check_sound();
}

static struct job_claim adopt(uint32_t lane, uint64_t from, uint64_t to)
{
    struct job_claim claim = { .unit = JOB_NONE };
    bool is_adopted = job_adopt(job, lane, (struct muster_range){ from, to }, now_ns, &claim);
    check_sound();
    CHECK(is_adopted && claim.is_started);
    return claim;
}

static bool adopts(uint32_t lane, uint64_t from, uint64_t to)
{
    struct job_claim claim;
    bool is_adopted = job_adopt(job, lane, (struct muster_range){ from, to }, now_ns, &claim);
    check_sound();
    return is_adopted;
}

static enum job_verdict fail_at(struct job_claim claim, enum job_end end, uint64_t at)
{
    enum job_verdict verdict = job_finish_at(job, claim.ticket, end, at, now_ns);
    check_sound();
    return verdict;
}

static void expect_range(struct muster_range range, uint64_t begin, uint64_t end)
{
    CHECK_EQUAL(begin, range.begin);
    CHECK_EQUAL(end, range.end);
}

/* Runs all that there is on one lane, delivering; gives how many items it ran. */
static uint64_t run_all(uint32_t lane)
{
    struct job_claim claim;
    uint64_t items = 0;
    while (ask(lane, &claim)) {
        CHECK(kick(claim));
        now_ns += size_of(claim) * 1000;
        items += size_of(claim);
        CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
        deliver();
    }
    return items;
}

/* Stored items. */

static void a_job_begins_where_the_one_before_was(void)
{
    struct job_options options = fleet(1000, 1);
    options.begin = 900;
    begin(options);
    expect_range(take(0).range, 900, 901);
    options.begin = 1000;
    begin(options);
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

static void stored_items_are_delivered_and_never_claimed(void)
{
    begin(fleet(1000, 1));
    store(0, 10);
    store(500, 600);
    store(998, 1000);
    expect_result(0);
    expect_no_result();
    CHECK_EQUAL(1000 - 10 - 100 - 2, run_all(0));
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

static void a_set_that_is_filled_before_counts_too(void)
{
    struct job_options options = fleet(100, 1);
    grain_set_add(&stored, (struct muster_range){ 0, 50 });
    options.begin = 20;
    begin(options);
    expect_result(20);
    CHECK_EQUAL(50, run_all(0));
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

static void all_may_be_stored(void)
{
    begin(fleet(1000, 1));
    store(0, 1000);
    /* A window at a time. */
    for (uint64_t i = 0; i < 1000; i += 200)
        expect_result(i);
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

static void stored_items_count_for_the_window(void)
{
    begin(fleet(1000, 1));
    struct job_claim first = start(0);
    store(1, 1000);
    CHECK_EQUAL(200, job_window_used(job));
    CHECK_EQUAL(JOB_ACCEPTED, finish(first, JOB_END_OK));
    expect_result(0);
    CHECK_EQUAL(200, job_window_used(job));
}

static void what_is_claimed_is_not_stored_again(void)
{
    begin(fleet(100, 1));
    struct job_claim claim = start(0);
    store(0, 5);
    expect_no_result();
    CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    expect_result(0);
    expect_result(1);
    CHECK_EQUAL(95, run_all(0));
}

static void what_waits_to_be_run_may_turn_up(void)
{
    begin(fleet(100, 2));
    struct job_claim claim = adopt(0, 0, 50);
    job_lane_leave(job, 0, true, now_ns);
    check_sound();
    store(10, 20);
    store(40, 120);
    CHECK(!job_is_out(job, claim.ticket));
    expect_no_result();
    CHECK_EQUAL(30, run_all(1));
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

/* Adopting. */

static void an_adopted_range_is_the_lanes(void)
{
    begin(fleet(100, 2));
    struct job_claim claim = adopt(0, 50, 60);
    expect_range(claim.range, 50, 60);
    CHECK_EQUAL(90, run_all(1));
    CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    deliver();
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

static void what_two_lanes_hold_is_adopted_in_any_order(void)
{
    begin(fleet(100, 3));
    struct job_claim later = adopt(0, 50, 60), earlier = adopt(1, 20, 30),
                     between = adopt(1, 45, 55);
    expect_range(later.range, 50, 60);
    expect_range(earlier.range, 20, 30);
    /* The rest of it is another lane's. */
    expect_range(between.range, 45, 50);
    CHECK(!adopts(2, 20, 30));
    CHECK_EQUAL(100 - 25, run_all(2));
}

static void what_is_stored_is_not_adopted(void)
{
    begin(fleet(100, 1));
    store(10, 20);
    CHECK(!adopts(0, 12, 18));
    expect_range(adopt(0, 15, 25).range, 20, 25);
}

static void nothing_is_adopted_beyond_the_window(void)
{
    begin(fleet(1000, 1));
    expect_range(adopt(0, 190, 300).range, 190, 200);
    CHECK(!adopts(0, 300, 400));
}

static void a_lane_that_is_full_adopts_nothing(void)
{
    begin(fleet(100, 1));
    adopt(0, 0, 10);
    adopt(0, 10, 20);
    CHECK(!adopts(0, 20, 30));
}

static void an_adopted_run_says_nothing_of_the_rate(void)
{
    begin(fleet(100, 1));
    struct job_claim claim = adopt(0, 0, 50);
    now_ns += 1;
    CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
    /* A first unit is of one item. */
    CHECK_EQUAL(1, size_of(take(0)));
}

/* Narrowing. */

static void the_item_that_failed_is_alone_at_once(void)
{
    begin(fleet(100, 2));
    struct job_claim claim = adopt(0, 0, 50);
    CHECK_EQUAL(JOB_AGAIN, fail_at(claim, JOB_END_UNIT, 20));
    expect_range(adopt(1, 0, 50).range, 0, 20);
    expect_range(adopt(1, 20, 50).range, 20, 21);
    expect_range(adopt(0, 21, 50).range, 21, 50);
}

static void only_the_item_that_fails_runs_out_of_tries(void)
{
    struct muster_range failed;
    begin(fleet(100, 3));
    struct job_claim claim = adopt(0, 0, 50);
    CHECK_EQUAL(JOB_AGAIN, fail_at(claim, JOB_END_UNIT, 20));
    /* Its neighbours have all their tries. */
    for (unsigned try = 1; try <= 2; try++)
        CHECK_EQUAL(JOB_AGAIN, fail_at(adopt(try, 21, 22), JOB_END_UNIT, 0));
    for (unsigned try = 2; try <= 3; try++) {
        claim = adopt(try % 3, 20, 21);
        CHECK_EQUAL(try == 3 ? JOB_REFUSED : JOB_AGAIN, fail_at(claim, JOB_END_UNIT, 0));
    }
    CHECK_EQUAL(JOB_FAILED, job_state(job));
    CHECK_EQUAL(1, job_failed_ranges(job, &failed, 1));
    expect_range(failed, 20, 21);
}

static void an_item_that_nobody_knows_is_found_in_parts(void)
{
    struct muster_range failed;
    struct job_claim claim;
    unsigned runs = 0;
    begin(fleet(200, 3));
    fail_at(adopt(0, 0, 200), JOB_END_UNIT, JOB_DONE_UNKNOWN);
    for (uint32_t lane = 0; job_state(job) == JOB_RUNNING && runs < 100; lane = (lane + 1) % 3) {
        now_ns += SECOND;
        look();
        if (!ask(lane, &claim))
            continue;
        CHECK(kick(claim));
        runs++;
        bool fails = claim.range.begin <= 77 && claim.range.end > 77;
        fail_at(claim, fails ? JOB_END_UNIT : JOB_END_OK, JOB_DONE_UNKNOWN);
        deliver();
    }
    CHECK_EQUAL(JOB_FAILED, job_state(job));
    CHECK_EQUAL(1, job_failed_ranges(job, &failed, 1));
    expect_range(failed, 77, 78);
}

static void what_the_users_code_refuses_is_not_run_again(void)
{
    struct muster_range failed;
    begin(fleet(100, 1));
    CHECK_EQUAL(JOB_REFUSED, fail_at(adopt(0, 0, 50), JOB_END_USER, 49));
    CHECK_EQUAL(JOB_FAILED, job_state(job));
    CHECK_EQUAL(1, job_failed_ranges(job, &failed, 1));
    expect_range(failed, 49, 50);
}

static void a_run_that_was_given_back_costs_no_try(void)
{
    begin(fleet(100, 1));
    for (unsigned i = 0; i < 10; i++)
        CHECK_EQUAL(JOB_AGAIN, fail_at(adopt(0, 0, 1), JOB_END_AGAIN, JOB_DONE_UNKNOWN));
    CHECK_EQUAL(JOB_RUNNING, job_state(job));
}

/* A grain that kills its worker: found, and nothing but it is given up. */
static void the_item_that_kills_is_found(void)
{
    struct muster_range failed;
    struct job_claim claim;
    unsigned deaths = 0;
    begin(fleet(200, 2));
    while (job_state(job) == JOB_RUNNING && deaths < 50) {
        uint32_t lane = deaths % 2;
        now_ns += SECOND;
        look();
        if (!ask(lane, &claim)) {
            lane = 1 - lane;
            CHECK(ask(lane, &claim));
        }
        CHECK(kick(claim));
        if (claim.range.begin > 77 || claim.range.end <= 77) {
            finish(claim, JOB_END_OK);
            deliver();
            continue;
        }
        deaths++;
        job_lane_leave(job, lane, true, now_ns);
        check_sound();
        if (job_state(job) == JOB_RUNNING)
            job_lane_join(job, lane, now_ns);
    }
    CHECK_EQUAL(JOB_FAILED, job_state(job));
    CHECK_EQUAL(1, job_failed_ranges(job, &failed, 1));
    expect_range(failed, 77, 78);
}

/* Losses are noticed late: meanwhile idle lanes run copies, and must not be lost one after the other. */
static void a_unit_with_a_lost_run_has_no_further_copies(void)
{
    struct job_options options = fleet(1, 3);
    options.speculate = true;
    begin(options);
    struct job_claim first = start(0), copy;
    CHECK(gets_nothing(1));
    now_ns += 2 * SECOND;
    look();
    CHECK(ask(1, &copy) && copy.is_copy && kick(copy));
    job_lane_leave(job, 0, true, now_ns);
    check_sound();
    CHECK(!job_is_out(job, first.ticket));
    now_ns += 20 * SECOND;
    look();
    CHECK(gets_nothing(2));
    job_lane_leave(job, 1, true, now_ns);
    check_sound();
    CHECK(!start(2).is_copy);
}

/* Results. */

static void a_unit_leaves_in_parts(void)
{
    uint32_t unit;
    struct muster_range range;
    begin(fleet(100, 1));
    CHECK_EQUAL(JOB_ACCEPTED, finish(adopt(0, 0, 50), JOB_END_OK));
    CHECK(job_next_result(job, &unit, &range));
    job_delivered_part(job, unit, 20);
    check_sound();
    CHECK_EQUAL(20, job_items_delivered(job));
    CHECK_EQUAL(30, job_window_used(job));
    job_delivered(job, unit);
    check_sound();
    CHECK_EQUAL(50, job_items_delivered(job));
}

static void what_has_vanished_is_run_again(void)
{
    uint32_t unit;
    struct muster_range range;
    begin(fleet(50, 1));
    CHECK_EQUAL(JOB_ACCEPTED, finish(adopt(0, 0, 50), JOB_END_OK));
    CHECK(job_next_result(job, &unit, &range));
    job_delivered_part(job, unit, 20);
    job_result_missing(job, unit, 3, now_ns);
    check_sound();
    expect_no_result();
    CHECK_EQUAL(3, run_all(0));
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

static void a_whole_unit_may_have_vanished(void)
{
    uint32_t unit;
    struct muster_range range;
    begin(fleet(50, 1));
    CHECK_EQUAL(JOB_ACCEPTED, finish(adopt(0, 0, 50), JOB_END_OK));
    CHECK(job_next_result(job, &unit, &range));
    job_result_missing(job, unit, 50, now_ns);
    check_sound();
    CHECK_EQUAL(50, run_all(0));
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

/* Lanes. */

static void a_lane_changes_hands(void)
{
    begin(fleet(100, 2));
    struct job_claim old = start(0);
    CHECK_EQUAL(JOB_ACCEPTED, finish(old, JOB_END_OK));
    old = start(0);
    job_lane_leave(job, 0, false, now_ns);
    check_sound();
    CHECK_EQUAL(JOB_LATE, finish(old, JOB_END_OK));
    CHECK(gets_nothing(0));
    job_lane_join(job, 0, now_ns);
    check_sound();
    /* What it measured is forgotten, and so is what it did. */
    CHECK_EQUAL(0, job_lane_report_of(0).units);
    CHECK_EQUAL(old.range.begin, take(1).range.begin);
}

static void a_job_without_lanes_waits_for_one(void)
{
    begin(fleet(10, 1));
    start(0);
    job_lane_leave(job, 0, true, now_ns);
    check_sound();
    CHECK_EQUAL(JOB_RUNNING, job_state(job));
    job_lane_join(job, 0, now_ns);
    CHECK_EQUAL(10, run_all(0));
    CHECK_EQUAL(JOB_DONE, job_state(job));
}

static void nothing_is_overdue_before_the_least(void)
{
    struct job_options options = fleet(1000, 2);
    options.overdue_least_ns = 30 * SECOND;
    begin(options);
    for (uint32_t i = 0; i < 2; i++) {
        struct job_claim claim = start(i);
        now_ns += MS;
        CHECK_EQUAL(JOB_ACCEPTED, finish(claim, JOB_END_OK));
        deliver();
    }
    start(0);
    CHECK(job_overdue_ns(job, 0) >= now_ns + 30 * SECOND);
    now_ns += 29 * SECOND;
    look();
    CHECK(!job_lane_report_of(0).is_hung);
    now_ns += 2 * SECOND;
    look();
    CHECK(job_lane_report_of(0).is_hung);
}

static void options_that_make_no_sense_are_refused(void)
{
    struct job_options options = fleet(1000, 1);
    CHECK(job_bytes(&options) > 0);
    options.window = 0;
    CHECK_EQUAL(0, job_bytes(&options));
    options.window = 201;
    CHECK_EQUAL(0, job_bytes(&options));
    options.window = 200;
    options.begin = 1001;
    CHECK_EQUAL(0, job_bytes(&options));
    options.begin = 0;
    options.unit = JOB_UNIT_FIXED;
    options.unit_items = 1;
    CHECK_EQUAL(0, job_bytes(&options));
    options = fleet(1000, 1);
    stored.count = 999;
    CHECK_EQUAL(0, job_bytes(&options));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_job_begins_where_the_one_before_was),
        TEST(stored_items_are_delivered_and_never_claimed),
        TEST(a_set_that_is_filled_before_counts_too),
        TEST(all_may_be_stored),
        TEST(stored_items_count_for_the_window),
        TEST(what_is_claimed_is_not_stored_again),
        TEST(what_waits_to_be_run_may_turn_up),
        TEST(an_adopted_range_is_the_lanes),
        TEST(what_two_lanes_hold_is_adopted_in_any_order),
        TEST(what_is_stored_is_not_adopted),
        TEST(nothing_is_adopted_beyond_the_window),
        TEST(a_lane_that_is_full_adopts_nothing),
        TEST(an_adopted_run_says_nothing_of_the_rate),
        TEST(the_item_that_failed_is_alone_at_once),
        TEST(only_the_item_that_fails_runs_out_of_tries),
        TEST(an_item_that_nobody_knows_is_found_in_parts),
        TEST(what_the_users_code_refuses_is_not_run_again),
        TEST(a_run_that_was_given_back_costs_no_try),
        TEST(the_item_that_kills_is_found),
        TEST(a_unit_with_a_lost_run_has_no_further_copies),
        TEST(a_unit_leaves_in_parts),
        TEST(what_has_vanished_is_run_again),
        TEST(a_whole_unit_may_have_vanished),
        TEST(a_lane_changes_hands),
        TEST(a_job_without_lanes_waits_for_one),
        TEST(nothing_is_overdue_before_the_least),
        TEST(options_that_make_no_sense_are_refused),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
