/*
 * Scenarios whose outcome is known: how near the scheduler comes to the bound, and how soon it
 * notices what goes wrong.
 */
#include "harness.h"

#include <muster/simulate.h>
#include <stdio.h>
#include <string.h>

/* Each is the same in every build: sanitizers see enough in fewer. */
#define SEEDS 6
#define MS 1000000.0

struct outcome {
    double ratio, ratio_max; /* mean and largest over the seeds */
    double busy_least;       /* of all devices that stayed well, as part of the makespan */
    double makespan_ms_max;
};

static struct muster_simulation *simulate(const char *text, uint64_t seed)
{
    struct muster_simulation_options options = { .size = sizeof options, .seed = seed, .check = 1 };
    struct muster_simulation *result = NULL;
    struct muster_error err = { .size = sizeof err };
    if (muster_simulate(text, strlen(text), &options, &result, &err) != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s", err.text);
    if (result->broken)
        test_fail(__FILE__, __LINE__, "seed %d: %s", (int)seed, result->broken);
    return result;
}

/* Over several seeds, each of which must be done. */
static struct outcome outcome_of(const char *text)
{
    struct outcome outcome = { .busy_least = 1 };
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct muster_simulation *result = simulate(text, seed);
        CHECK_STATUS(MUSTER_OK, result->status);
        CHECK_EQUAL(0, result->lost + result->duplicated + result->out_of_order);
        double makespan_ms = (double)result->makespan_ns / MS;
        outcome.ratio += result->ratio / SEEDS;
        if (result->ratio > outcome.ratio_max)
            outcome.ratio_max = result->ratio;
        if (makespan_ms > outcome.makespan_ms_max)
            outcome.makespan_ms_max = makespan_ms;
        for (size_t i = 0; i < result->device_count; i++) {
            double busy = (double)result->devices[i]->busy_ns / (double)result->makespan_ns;
            if (strcmp(result->devices[i]->health, "ok") == 0 && busy < outcome.busy_least)
                outcome.busy_least = busy;
        }
        muster_simulation_destroy(result);
    }
    return outcome;
}

#define DEVICE(rate) "{\"items_per_s\":" rate ",\"launch_ns\":4000,\"jitter\":0.05"
#define ONE_TWO_FOUR "{\"devices\":[" DEVICE("1e6") "}," DEVICE("2e6") "}," DEVICE("4e6") "},"
#define MILLION "],\"job\":{\"items\":1000000}}"

/* The bound has jitter at its mean, so a single run may have more or less luck than that. */
static void expect_near_bound(const char *text, double ratio, double ratio_max)
{
    struct outcome outcome = outcome_of(text);
    printf("    ratio %.4f, at most %.4f; busy at least %.3f\n", outcome.ratio, outcome.ratio_max,
           outcome.busy_least);
    CHECK(outcome.ratio <= ratio);
    CHECK(outcome.ratio_max <= ratio_max);
    CHECK(outcome.busy_least >= 0.95);
}

static void unequal_devices_end_together(void)
{
    expect_near_bound(ONE_TWO_FOUR DEVICE("8e6") "}" MILLION, 1.01, 1.03);
    expect_near_bound("{\"devices\":[" DEVICE("1e6") ",\"count\":3}," DEVICE("16e6") "}" MILLION,
                      1.01, 1.03);
    expect_near_bound(
        "{\"devices\":[" DEVICE("1e7") ",\"count\":2}," DEVICE("3e5") ",\"count\":2}" MILLION, 1.01,
        1.02);
    expect_near_bound("{\"devices\":[" DEVICE("1e6") ",\"count\":7}," DEVICE("1e5") "}" MILLION,
                      1.01, 1.03);
}

static void unequal_costs_are_evened_out(void)
{
    expect_near_bound(
        ONE_TWO_FOUR DEVICE("8e6") "}],\"job\":{\"items\":1000000,\"cost\":{\"kind\":\"pareto\","
                                   "\"alpha\":1.5}}}",
        1.02, 1.08);
    expect_near_bound(ONE_TWO_FOUR DEVICE("8e6") "}],\"job\":{\"items\":1000000,"
                                                 "\"cost\":{\"kind\":\"ramp\"}}}",
                      1.03, 1.08);
}

static void a_slow_down_costs_little(void)
{
    expect_near_bound(ONE_TWO_FOUR DEVICE("8e6") ",\"faults\":[{\"kind\":\"slow\",\"at_ms\":22,"
                                                 "\"factor\":0.25}]}" MILLION,
                      1.02, 1.08);
}

/*
 * Results leave in order, and a device becomes slow. Units of 1,000 items in windows that are no
 * multiple of them, with second runs and without: what the slow device has must stop nobody for long.
 */
static void a_slow_down_does_not_stop_a_window_of_fixed_units(void)
{
    static const int windows[] = { 4000, 4500, 5500, 8500, 16500 };
    for (int i = 0; i < 5; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "{\"devices\":[" DEVICE("1e6") ",\"count\":2}," DEVICE(
                     "1e6") ",\"faults\":[{\"kind\":\"slow\",\"at_ms\":130,\"factor\":0.05}]}],"
                            "\"job\":{\"items\":1000000,\"unit\":1000,\"window\":%d}}",
                 windows[i]);
        struct outcome outcome = outcome_of(text);
        printf("    window %d: ratio at most %.4f\n", windows[i], outcome.ratio_max);
        CHECK(outcome.ratio_max <= 1.05);
    }
}

/* What a slow device has in its queue, and what it is given when it is slow, ends before the window is full. */
static void a_deep_queue_of_a_slow_device_does_not_stop_the_others(void)
{
    for (int depth = 1; depth <= 8; depth *= 2) {
        char text[1024];
        snprintf(text, sizeof text,
                 "{\"devices\":[" DEVICE("1e6") "}," DEVICE(
                     "1e5") "}],"
                            "\"job\":{\"items\":1000000,\"window\":18000,\"depth\":%d}}",
                 depth);
        struct outcome outcome = outcome_of(text);
        printf("    depth %d: ratio at most %.4f, busy at least %.3f\n", depth, outcome.ratio_max,
               outcome.busy_least);
        CHECK(outcome.ratio_max <= 1.02);
        CHECK(outcome.busy_least >= 0.95);
    }
}

/* One that was slow for a while is used again, though it was left out meanwhile. */
static void a_device_that_was_left_out_of_a_window_comes_back(void)
{
    static const char *const units[] = { "1000", "\"adaptive\"" };
    for (int i = 0; i < 2; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "{\"devices\":[" DEVICE("1e6") "}," DEVICE(
                     "1e6") ",\"faults\":[{\"kind\":\"slow\",\"at_ms\":130,\"for_ms\":100,"
                            "\"factor\":0.03}]}],"
                            "\"job\":{\"items\":4000000,\"unit\":%s,\"window\":9500}}",
                 units[i]);
        struct outcome outcome = outcome_of(text);
        printf("    unit %s: ratio at most %.4f\n", units[i], outcome.ratio_max);
        CHECK(outcome.ratio_max <= 1.15);
    }
}

static void a_loss_costs_little(void)
{
    expect_near_bound(
        ONE_TWO_FOUR DEVICE("8e6") ",\"faults\":[{\"kind\":\"lost\",\"at_ms\":22}]}" MILLION, 1.06,
        1.08);
}

/*
 * What the lost device had must not be left to devices that are a thousand times slower. Those take no part
 * once that is known.
 */
static void a_loss_beside_very_slow_devices_costs_little(void)
{
    for (int depth = 1; depth <= 2; depth++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"devices\":[" DEVICE("1e6") "}," DEVICE(
                     "1e6") ",\"faults\":[{\"kind\":\"lost\",\"at_ms\":260}]}"
                            "," DEVICE("1e3") ",\"count\":3}],\"job\":{"
                                              "\"items\":800000,\"depth\":%d}}",
                 depth);
        struct outcome outcome = outcome_of(text);
        printf("    ratio %.4f, at most %.4f\n", outcome.ratio, outcome.ratio_max);
        CHECK(outcome.ratio <= 1.06 && outcome.ratio_max <= 1.08);
    }
}

/* The code is loaded at the first launch: that must not pass for what every launch costs. */
static void a_slow_first_launch_costs_nothing_later(void)
{
    for (int depth = 1; depth <= 2; depth++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"devices\":[" DEVICE("1e6") "}," DEVICE(
                     "1e6") ",\"faults\":["
                            "{\"kind\":\"hang\",\"at_ms\":0,\"for_ms\":50}]}],"
                            "\"job\":{\"items\":1000000,\"depth\":%d}}",
                 depth);
        expect_near_bound(text, 1.01, 1.03);
    }
}

/* Two units, two devices that nobody knows: the second must not stand by while the first has both. */
static void few_units_are_spread(void)
{
    struct outcome outcome = outcome_of("{\"devices\":[{\"items_per_s\":1000,\"count\":4}],"
                                        "\"job\":{\"items\":4,\"unit\":1,\"depth\":4}}");
    CHECK(outcome.makespan_ms_max <= 1);
}

static void a_loss_at_a_launch_is_noticed_at_once(void)
{
    struct outcome outcome = outcome_of(
        "{\"devices\":[{\"items_per_s\":1000,\"faults\":[{\"kind\":\"lost\",\"at_launch\":3}]},"
        "{\"items_per_s\":1000}],\"job\":{\"items\":40,\"unit\":1,\"speculate\":false}}");
    CHECK(outcome.makespan_ms_max <= 40);
}

static void a_device_that_is_lost_from_the_start_is_given_nothing(void)
{
    struct muster_simulation *result = simulate(
        "{\"devices\":[{\"items_per_s\":1000,\"count\":2,\"faults\":[{\"kind\":\"lost\"}]},"
        "{\"items_per_s\":1000}],\"job\":{\"items\":5}}",
        1);
    CHECK_STATUS(MUSTER_OK, result->status);
    CHECK_TEXT("lost", result->devices[0]->health);
    CHECK_EQUAL(0, result->retries);
    CHECK_EQUAL(5000000, result->makespan_ns);
    muster_simulation_destroy(result);
}

/*
 * The slow one has a unit of 100 s, which may take half an hour. That must not keep anybody from
 * noticing that the quick one hangs.
 */
static void a_hang_is_noticed_beside_something_slow(void)
{
    struct outcome outcome = outcome_of(
        "{\"devices\":[{\"items_per_s\":0.01},{\"items_per_s\":10,\"faults\":[{\"kind\":\"hang\","
        "\"at_ms\":210000}]},{\"items_per_s\":10}],"
        "\"job\":{\"items\":4500,\"unit\":1,\"depth\":1,\"speculate\":false}}");
    CHECK(outcome.makespan_ms_max < 350000);
}

static void a_hang_at_the_end_costs_one_unit_with_copies(void)
{
    struct outcome outcome = outcome_of(
        "{\"devices\":[{\"items_per_s\":1000,\"count\":2},{\"items_per_s\":1000,\"faults\":["
        "{\"kind\":\"hang\",\"at_ms\":95.5}]}],\"job\":{\"items\":300,\"unit\":1}}");
    CHECK(outcome.makespan_ms_max <= 110);
}

/*
 * Twelve devices hang before anything is known of anybody, and four are well: another one tries its
 * luck every second. Without second runs each that hangs is given up first.
 */
static void a_few_healthy_devices_are_enough(void)
{
    static const char *const jobs[] = { "\"items\":1,\"unit\":1", "\"items\":1000,\"unit\":100",
                                        "\"items\":100000" };
    static const double most_ms[2][3] = { { 3600000, 3600000, 26000 }, { 12100, 3100, 26000 } };
    for (int speculates = 0; speculates < 2; speculates++)
        for (int i = 0; i < 3; i++) {
            char text[512];
            snprintf(text, sizeof text,
                     "{\"devices\":[{\"items_per_s\":1000,\"count\":12,\"faults\":["
                     "{\"kind\":\"hang\",\"at_ms\":0}]},{\"items_per_s\":1000,\"count\":4}],"
                     "\"job\":{%s,\"speculate\":%s}}",
                     jobs[i], speculates ? "true" : "false");
            struct outcome outcome = outcome_of(text);
            CHECK(outcome.makespan_ms_max <= most_ms[speculates][i]);
        }
}

/* The last items are left to the fastest device; but not once that is clearly late. */
static void the_end_is_not_left_to_a_device_that_hangs(void)
{
    struct outcome outcome = outcome_of(
        "{\"devices\":[{\"items_per_s\":41716,\"launch_ns\":5995,\"faults\":[{\"kind\":\"hang\","
        "\"at_ms\":377.3}]},{\"items_per_s\":5677,\"launch_ns\":12416}],"
        "\"job\":{\"items\":17978,\"ordered\":false,\"depth\":1}}");
    CHECK(outcome.makespan_ms_max <= 600);
}

static void a_hang_beside_an_idle_device_costs_a_second(void)
{
    struct outcome outcome =
        outcome_of("{\"devices\":[{\"items_per_s\":1000,\"faults\":[{\"kind\":\"hang\"}]},"
                   "{\"items_per_s\":1000}],\"job\":{\"items\":1,\"unit\":1}}");
    CHECK(outcome.makespan_ms_max <= 1001.1);
}

/* Nothing else is going to happen: a lane that can take what is left must be asked now. */
static void the_only_lane_left_is_asked(void)
{
    struct outcome outcome = outcome_of(
        "{\"devices\":[{\"items_per_s\":1000,\"faults\":[{\"kind\":\"lost\",\"at_ms\":0.5}]},"
        "{\"items_per_s\":1000,\"count\":18,\"faults\":[{\"kind\":\"lost\",\"at_ms\":0.1}]},"
        "{\"items_per_s\":1000}],\"job\":{\"items\":1,\"unit\":1}}");
    CHECK(outcome.makespan_ms_max <= 1.5);
}

static void a_job_fails_when_nothing_is_left(void)
{
    struct muster_simulation *result =
        simulate("{\"devices\":[{\"items_per_s\":1000,\"count\":3,\"faults\":[{\"kind\":\"lost\","
                 "\"at_ms\":10.5}]}],\"job\":{\"items\":100,\"unit\":1,\"depth\":1}}",
                 1);
    CHECK_STATUS(MUSTER_E_FAILED, result->status);
    CHECK_EQUAL(1, result->failed_count);
    CHECK_EQUAL(30, result->failed[0].begin);
    CHECK_EQUAL(100, result->failed[0].end);
    CHECK_EQUAL(30, result->items_delivered);
    CHECK_EQUAL(70, result->lost);
    muster_simulation_destroy(result);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(unequal_devices_end_together),
        TEST(unequal_costs_are_evened_out),
        TEST(a_slow_down_costs_little),
        TEST(a_slow_down_does_not_stop_a_window_of_fixed_units),
        TEST(a_deep_queue_of_a_slow_device_does_not_stop_the_others),
        TEST(a_device_that_was_left_out_of_a_window_comes_back),
        TEST(a_loss_costs_little),
        TEST(a_loss_beside_very_slow_devices_costs_little),
        TEST(a_slow_first_launch_costs_nothing_later),
        TEST(few_units_are_spread),
        TEST(a_loss_at_a_launch_is_noticed_at_once),
        TEST(a_device_that_is_lost_from_the_start_is_given_nothing),
        TEST(a_hang_is_noticed_beside_something_slow),
        TEST(a_hang_at_the_end_costs_one_unit_with_copies),
        TEST(a_few_healthy_devices_are_enough),
        TEST(the_end_is_not_left_to_a_device_that_hangs),
        TEST(a_hang_beside_an_idle_device_costs_a_second),
        TEST(the_only_lane_left_is_asked),
        TEST(a_job_fails_when_nothing_is_left),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
