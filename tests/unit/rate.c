#include "core/rate.h"

#include "support.h"

/* A unit on a device that takes so long for a launch and for an item. */
static void sample(struct rate *rate, uint64_t items, double launch_ns, double item_ns)
{
    rate_sample(rate, items, (uint64_t)(launch_ns + item_ns * (double)items));
}

static bool is_near(double expected, double actual, double part)
{
    double off = actual > expected ? actual - expected : expected - actual;
    return off <= part * expected;
}

static void what_was_not_measured_is_not_guessed(void)
{
    struct rate rate = { .samples = 0 };
    CHECK(rate_per_ns(&rate) == 0);
    CHECK(rate_predict_ns(&rate, 1000) == 0);
}

static void the_first_unit_seeds_the_rate(void)
{
    struct rate rate = { .samples = 0 };
    rate_sample(&rate, 10, 5000);
    CHECK_EQUAL(1, rate.samples);
    CHECK(rate_per_ns(&rate) == 1 / 500.0);
    CHECK(rate_predict_ns(&rate, 20) == 10000);
}

static void the_fixed_cost_is_told_from_the_items(void)
{
    struct rate rate = { .samples = 0 };
    for (uint64_t items = 1; items <= 4096; items *= 4)
        sample(&rate, items, 4000, 10);
    CHECK(is_near(4000, rate.overhead_ns, 0.01));
    CHECK(is_near(10, 1 / rate_per_ns(&rate), 0.1));
    CHECK(is_near(4000 + 10 * 100000, rate_predict_ns(&rate, 100000), 0.1));
}

static void without_a_fixed_cost_there_is_none(void)
{
    struct rate rate = { .samples = 0 };
    for (uint64_t items = 1; items <= 4096; items *= 4)
        sample(&rate, items, 0, 100);
    CHECK(rate.overhead_ns < 1);
}

/* Law 9. */
static void a_slow_down_by_four_is_believed_within_three_units(void)
{
    struct rate rate = { .samples = 0 };
    for (int i = 0; i < 10; i++)
        sample(&rate, 1000, 0, 100);
    for (int i = 0; i < 3; i++)
        sample(&rate, 1000, 0, 400);
    CHECK(1 / rate_per_ns(&rate) > 300);
    CHECK(1 / rate_per_ns(&rate) < 400);
    for (int i = 0; i < 3; i++)
        sample(&rate, 1000, 0, 100);
    CHECK(1 / rate_per_ns(&rate) < 200);
}

/* The first launch loads the code. That is not what every unit costs, nor what an item takes. */
static void a_slow_first_unit_is_forgotten(void)
{
    struct rate rate = { .samples = 0 };
    rate_sample(&rate, 1, 50000000);
    for (uint64_t items = 4; items <= 4096; items *= 4)
        sample(&rate, items, 4000, 1000);
    CHECK(rate.overhead_ns < 10000);
    CHECK(is_near(1000, 1 / rate_per_ns(&rate), 0.1));
}

static void a_device_that_wakes_up_is_believed(void)
{
    struct rate rate = { .samples = 0 };
    for (uint64_t items = 1; items <= 64; items *= 4)
        sample(&rate, items, 0, 1e6);
    for (int i = 0; i < 40; i++)
        sample(&rate, 256, 0, 100);
    CHECK(rate.overhead_ns <= 256 * 100);
    CHECK(is_near(100, 1 / rate_per_ns(&rate), 0.05));
}

static void no_unit_is_too_short_or_too_large(void)
{
    struct rate rate = { .samples = 0 };
    rate_sample(&rate, 1, 0);
    CHECK(rate_per_ns(&rate) > 0 && rate_per_ns(&rate) <= 8);
    rate_sample(&rate, UINT64_MAX, 1);
    rate_sample(&rate, UINT64_MAX / 2, UINT64_MAX);
    rate_sample(&rate, 1, UINT64_MAX);
    CHECK(rate_per_ns(&rate) > 0);
    CHECK(rate.overhead_ns >= 0);
    CHECK(rate_predict_ns(&rate, 1) > 0);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(what_was_not_measured_is_not_guessed),
        TEST(the_first_unit_seeds_the_rate),
        TEST(the_fixed_cost_is_told_from_the_items),
        TEST(without_a_fixed_cost_there_is_none),
        TEST(a_slow_down_by_four_is_believed_within_three_units),
        TEST(a_slow_first_unit_is_forgotten),
        TEST(a_device_that_wakes_up_is_believed),
        TEST(no_unit_is_too_short_or_too_large),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
