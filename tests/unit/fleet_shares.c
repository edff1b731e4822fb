#include "core/fleet/shares.h"

#include "support.h"

static struct shares shares;
static struct share room[4];

static void begin(void)
{
    shares_init(&shares, room, COUNT_OF(room));
}

/* Gives out this many turns of this many nanoseconds, and counts what each job got. */
static void turns(unsigned count, uint64_t ns, uint64_t *got)
{
    for (unsigned i = 0; i < count; i++) {
        uint32_t job = shares_next(&shares);
        CHECK(job != SHARES_NONE);
        shares_charge(&shares, job, ns);
        got[job] += ns;
    }
}

static void time_goes_by_weight(void)
{
    uint64_t got[4] = { 0 };
    begin();
    CHECK_EQUAL(0, shares_add(&shares, 3));
    CHECK_EQUAL(1, shares_add(&shares, 1));
    turns(4000, 10, got);
    CHECK_EQUAL(30000, got[0]);
    CHECK_EQUAL(10000, got[1]);
}

static void long_turns_are_made_good(void)
{
    uint64_t got[4] = { 0 };
    begin();
    shares_add(&shares, 1);
    shares_add(&shares, 1);
    shares_charge(&shares, 0, 1000);
    turns(10, 100, got);
    CHECK(got[0] == 0 && got[1] == 1000);
}

static void who_comes_late_has_no_credit(void)
{
    uint64_t got[4] = { 0 };
    begin();
    shares_add(&shares, 1);
    turns(1000, 10, got);
    shares_add(&shares, 1);
    turns(100, 10, got);
    CHECK_EQUAL(500, got[1]);
}

static void who_had_nothing_to_do_has_no_credit(void)
{
    uint64_t got[4] = { 0 };
    begin();
    shares_add(&shares, 1);
    shares_add(&shares, 1);
    turns(2, 10, got);
    shares_set_dry(&shares, 1, true);
    turns(1000, 10, got);
    shares_set_dry(&shares, 1, false);
    got[0] = got[1] = 0;
    turns(100, 10, got);
    CHECK_EQUAL(500, got[0]);
    CHECK_EQUAL(500, got[1]);
}

/* It was ahead: that it pauses does not make that forgotten. */
static void who_was_ahead_stays_ahead(void)
{
    uint64_t got[4] = { 0 };
    begin();
    shares_add(&shares, 1);
    shares_add(&shares, 1);
    shares_charge(&shares, 1, 1000);
    shares_set_dry(&shares, 1, true);
    turns(10, 10, got);
    shares_set_dry(&shares, 1, false);
    turns(89, 10, got);
    CHECK_EQUAL(0, got[1]);
}

static void places_are_used_again(void)
{
    begin();
    for (uint32_t i = 0; i < 4; i++)
        CHECK_EQUAL(i, shares_add(&shares, 0));
    CHECK_EQUAL(SHARES_NONE, shares_add(&shares, 1));
    shares_remove(&shares, 2);
    CHECK_EQUAL(2, shares_add(&shares, 1));
    for (uint32_t i = 0; i < 4; i++)
        shares_set_dry(&shares, i, true);
    CHECK_EQUAL(SHARES_NONE, shares_next(&shares));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(time_goes_by_weight),          TEST(long_turns_are_made_good),
        TEST(who_comes_late_has_no_credit), TEST(who_had_nothing_to_do_has_no_credit),
        TEST(who_was_ahead_stays_ahead),    TEST(places_are_used_again),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
