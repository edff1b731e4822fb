/*
 * When a driver that takes long to open is worth it (core/opening.h): not for a job that is over before it
 * would be ready, soon for one that is long, and for many short ones.
 */
#include "core/opening.h"

#include "harness.h"

#define MS UINT64_C(1000000)

/* A job that began at 0 and claims this many items in a millisecond. */
static struct opening steady(uint64_t items, uint64_t items_per_ms, uint64_t now_ns)
{
    uint64_t claimed = now_ns / MS * items_per_ms;
    return (struct opening){ .items = items,
                             .claimed = claimed < items ? claimed : items,
                             .has_devices = true };
}

/* When it is opened, by looks at the times that it asks for; OPENING_NEVER: not before the end. */
static uint64_t opens_at(uint64_t total_ms)
{
    uint64_t now_ns = 0;
    while (now_ns < total_ms * MS) {
        struct opening opening = steady(total_ms * 1000, 1000, now_ns);
        if (opening_is_worth(&opening, now_ns))
            return now_ns;
        uint64_t next_ns = opening_look_ns(&opening, now_ns);
        CHECK(next_ns >= now_ns + 10 * MS && next_ns <= now_ns + 100 * MS);
        now_ns = next_ns;
    }
    return OPENING_NEVER;
}

static void a_job_that_ends_before_it_is_open_opens_nothing(void)
{
    static const uint64_t ms[] = { 1, 8, 40, 78, 200, 400, 500 };
    for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
        CHECK_EQUAL(OPENING_NEVER, opens_at(ms[i]));
}

static void a_long_job_opens_it_soon(void)
{
    CHECK(opens_at(600) <= 60 * MS);
    CHECK(opens_at(2000) <= 40 * MS);
    CHECK_EQUAL(OPENING_FIRST_NS, opens_at(10000));
    CHECK_EQUAL(OPENING_FIRST_NS, opens_at(100000000));
}

/* What a job has done in its first milliseconds says less. */
static void a_slow_start_is_no_long_job(void)
{
    struct opening opening = { .items = 1000, .claimed = 20, .has_devices = true };
    CHECK(!opening_is_worth(&opening, 20 * MS)); /* 0.98 s at that rate */
    CHECK(opening_is_worth(&opening, 30 * MS));  /* 1.5 s */
    opening.claimed = 1;
    CHECK(!opening_is_worth(&opening, OPENING_FIRST_NS - 1));
    CHECK(opening_is_worth(&opening, OPENING_FIRST_NS));
    /* From OPENING_SURE_NS on half a second is long, and no less. */
    opening = (struct opening){ .items = 12, .claimed = 1, .has_devices = true };
    CHECK(opening_is_worth(&opening, OPENING_SURE_NS));
    opening.items = 11;
    CHECK(!opening_is_worth(&opening, OPENING_SURE_NS));
    CHECK(opening_is_worth(&opening, OPENING_SURE_NS + 1));
}

/* A compiler, or a source that has nothing yet, is not the job's speed. */
static void time_counts_from_the_first_claim(void)
{
    struct opening opening = { .begun_ns = OPENING_NEVER, .items = 1000, .has_devices = true };
    CHECK(!opening_is_worth(&opening, 10000 * MS));
    opening.begun_ns = 10000 * MS;
    opening.claimed = 500;
    CHECK(!opening_is_worth(&opening, 10050 * MS));
    opening.claimed = 10;
    CHECK(opening_is_worth(&opening, 10050 * MS));
    /* A clock that another thread has read earlier. */
    CHECK(!opening_is_worth(&opening, 9000 * MS));
}

static void what_is_claimed_needs_no_other_device(void)
{
    struct opening opening = { .items = 1000, .claimed = 1000, .has_devices = true };
    CHECK(!opening_is_worth(&opening, 100000 * MS));
    opening.items = 0;
    opening.claimed = 0;
    CHECK(!opening_is_worth(&opening, 100000 * MS));
}

static void without_a_size_it_is_opened_after_a_quarter_second(void)
{
    struct opening opening = { .items = UINT64_MAX, .claimed = 1 << 30, .has_devices = true };
    CHECK(!opening_is_worth(&opening, OPENING_UNKNOWN_NS - 1));
    CHECK(opening_is_worth(&opening, OPENING_UNKNOWN_NS));
    opening.before_ns = 100 * MS;
    CHECK(!opening_is_worth(&opening, OPENING_UNKNOWN_NS - 100 * MS - 1));
    CHECK(opening_is_worth(&opening, OPENING_UNKNOWN_NS - 100 * MS));
    opening.begun_ns = OPENING_NEVER;
    CHECK(!opening_is_worth(&opening, 10000 * MS));
}

static void many_jobs_are_as_good_as_a_long_one(void)
{
    struct opening opening = {
        .begun_ns = OPENING_NEVER, .items = 1, .before_ns = OPENING_UNKNOWN_NS, .has_devices = true
    };
    CHECK(opening_is_worth(&opening, 0));
    opening.has_devices = false;
    CHECK(opening_is_worth(&opening, 0));
    opening.before_ns--;
    CHECK(!opening_is_worth(&opening, 0));
    opening.has_devices = true;
    CHECK(!opening_is_worth(&opening, 0));
}

static void a_driver_without_devices_is_not_for_one_job(void)
{
    struct opening opening = { .items = 1000000, .claimed = 1 };
    CHECK(!opening_is_worth(&opening, 100000 * MS));
    opening.items = UINT64_MAX;
    CHECK(!opening_is_worth(&opening, 100000 * MS));
}

static void a_job_that_nobody_else_can_run_opens_it_at_once(void)
{
    const struct opening opening = { .begun_ns = OPENING_NEVER, .items = 1, .is_alone = true };
    CHECK(opening_is_worth(&opening, 0));
}

static void looks_stay_within_limits(void)
{
    struct opening opening = { .start_ns = 0 };
    CHECK_EQUAL(10 * MS, opening_look_ns(&opening, 0));
    CHECK_EQUAL(400 * MS + 50 * MS, opening_look_ns(&opening, 400 * MS));
    CHECK_EQUAL(100000 * MS + 100 * MS, opening_look_ns(&opening, 100000 * MS));
    CHECK_EQUAL(UINT64_MAX, opening_look_ns(&opening, UINT64_MAX - 5));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_job_that_ends_before_it_is_open_opens_nothing),
        TEST(a_long_job_opens_it_soon),
        TEST(a_slow_start_is_no_long_job),
        TEST(time_counts_from_the_first_claim),
        TEST(what_is_claimed_needs_no_other_device),
        TEST(without_a_size_it_is_opened_after_a_quarter_second),
        TEST(many_jobs_are_as_good_as_a_long_one),
        TEST(a_driver_without_devices_is_not_for_one_job),
        TEST(a_job_that_nobody_else_can_run_opens_it_at_once),
        TEST(looks_stay_within_limits),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
