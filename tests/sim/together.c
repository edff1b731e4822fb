/*
 * All together is never slower than the best alone: the scenarios of examples/scenarios/together, each
 * with every subset of its devices, with everybody, and with devices left out that cost more than they
 * bring. Makespans are compared with that of the best subset.
 */
#include "harness.h"
#include "storm.h"

#include <muster/simulate.h>
#include <stdio.h>
#include <string.h>

#define SEEDS TEST_BY_SANITIZER(3, 1, 1)
/* Where nothing was learned before; jobs below 50 ms may take longer the first time. */
#define FIRST_MAX 1.02
#define FIRST_SHORT_MAX 1.10
#define THIRD_MAX 1.02

static const struct row {
    const char *name;
    double everyone_least, everyone_most; /* what was measured on a real machine, about */
    double first_most;
} rows[] = {
    { "plain-1", 1.15, 1.4, FIRST_SHORT_MAX },
    { "plain-64", 4.5, 6, FIRST_SHORT_MAX },
    { "plain-1024", 1.6, 1.9, FIRST_MAX },
    { "pinned-1", 1.2, 1.4, 1.4 }, /* 8 ms: too short for a trial, the first time */
    { "pinned-64", 3, 4.2, FIRST_SHORT_MAX },
    { "pinned-1024", 2.5, 3.2, FIRST_SHORT_MAX },
    { "gib-plain", 1.9, 2.4, FIRST_MAX },
    { "gib-pinned", 1.7, 2.2, FIRST_MAX },
    { "uneven", 1.2, 3, 1.04 }, /* a few dear items decide when it ends */
    { "edges", 1.2, 1.8, FIRST_MAX },
    { "slices", 1.1, 1.3, FIRST_MAX },
    { "slices-crowd", 1.1, 1.4, FIRST_MAX }, /* one alone is best, two are no better than three */
    { "late", 1.2, 1.4, FIRST_MAX },
    { "slight", 1.15, 1.25, 1.03 }, /* it must have had time to show more */
    { "apart", 0.999, 1.001, FIRST_MAX },
};
#define ROW_COUNT (sizeof rows / sizeof *rows)

static struct storm read_row(const struct row *row)
{
    static char text[STORM_TEXT_MAX];
    char path[4096];
    struct storm storm;
    snprintf(path, sizeof path, "%s/%s.json", TOGETHER_FOLDER, row->name);
    FILE *in = fopen(path, "r");
    if (!in)
        test_fail(__FILE__, __LINE__, "%s is not there", path);
    size_t bytes = fread(text, 1, sizeof text, in);
    fclose(in);
    CHECK(storm_read(&storm, text, bytes, 1));
    return storm;
}

static double makespan(const struct storm *storm, uint64_t seed, int everyone, uint32_t runs,
                       uint32_t *left_out)
{
    static char text[STORM_TEXT_MAX];
    struct muster_simulation *result = NULL;
    struct muster_simulation_options options = {
        .size = sizeof options, .seed = seed, .everyone = everyone, .runs = runs
    };
    size_t bytes = storm_print(storm, text);
    CHECK_STATUS(MUSTER_OK, muster_simulate(text, bytes, &options, &result, NULL));
    CHECK(!result->broken);
    CHECK_STATUS(MUSTER_OK, result->status);
    double ns = (double)result->makespan_ns;
    *left_out = 0;
    for (size_t i = 0; i < result->device_count; i++) {
        CHECK(result->devices[i]->faster_without == 0 || result->devices[i]->faster_without > 1);
        *left_out |= (uint32_t)(result->devices[i]->faster_without > 0) << i;
    }
    muster_simulation_destroy(result);
    return ns;
}

/* The least makespan of any subset, with all that are in it. */
static double best_subset(const struct storm *storm, uint64_t seed, uint32_t *best)
{
    double least = 0;
    uint32_t none;
    for (uint32_t mask = 1; mask < 1u << storm->device_count; mask++) {
        struct storm subset = *storm;
        subset.device_count = 0;
        for (size_t i = 0; i < storm->device_count; i++)
            if (mask >> i & 1)
                subset.devices[subset.device_count++] = storm->devices[i];
        double ns = makespan(&subset, seed, 1, 1, &none);
        if (least == 0 || ns < least) {
            least = ns;
            *best = mask;
        }
    }
    return least;
}

static void run_row(const struct row *row)
{
    struct storm storm = read_row(row);
    for (uint64_t i = 0; i < SEEDS; i++) {
        uint64_t seed = test_seed() + i;
        uint32_t best = 0, out[3];
        double least = best_subset(&storm, seed, &best);
        double all = makespan(&storm, seed, 1, 1, &out[0]) / least;
        double first = makespan(&storm, seed, 0, 1, &out[1]) / least;
        double third = makespan(&storm, seed, 0, 3, &out[2]) / least;
        if (i == 0)
            printf("    %-12s best %7.1f ms, everyone %.2f, first run %.3f, third %.3f\n",
                   row->name, least * 1e-6, all, first, third);
        CHECK_EQUAL(0, out[0]);
        if (all < row->everyone_least || all > row->everyone_most || first > row->first_most ||
            third > THIRD_MAX)
            test_fail(__FILE__, __LINE__,
                      "%s, seed %llu: everyone %.3f, first run %.3f, third run %.3f of the best",
                      row->name, (unsigned long long)seed, all, first, third);
    }
}

/* The rows of a real machine, and what the model says of them. */
static void all_together_are_not_slower_than_the_best_subset(void)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        run_row(&rows[i]);
}

/* The processors work alone until the GPU has been set up, and do next to nothing beside it. */
static void a_slight_device_makes_way_for_one_that_joins(void)
{
    const struct row row = { "slight-joins", 0, 0, 0 };
    struct storm storm = read_row(&row);
    for (uint64_t i = 0; i < SEEDS; i++) {
        uint64_t seed = test_seed() + i;
        uint32_t best = 0, out[2];
        double least = best_subset(&storm, seed, &best);
        double all = makespan(&storm, seed, 1, 1, &out[0]) / least;
        double first = makespan(&storm, seed, 0, 1, &out[1]) / least;
        printf("    best %7.1f ms, everyone %.3f, first run %.3f\n", least * 1e-6, all, first);
        CHECK(best == 1 && out[1] == 2);
        CHECK(all > 1.08 && first < 1.06);
    }
}

/* It ends well, and nothing is broken on the way. */
static struct muster_simulation *simulate_well(const char *text)
{
    struct muster_simulation *result = NULL;
    struct muster_simulation_options options = { .size = sizeof options, .seed = 1, .check = 1 };
    CHECK_STATUS(MUSTER_OK, muster_simulate(text, strlen(text), &options, &result, NULL));
    CHECK(!result->broken);
    CHECK_STATUS(MUSTER_OK, result->status);
    return result;
}

/*
 * Units take an hour and a half, and nobody has measured that. Each is taken for hung; were they stopped
 * then, nobody would ever know how long they take.
 */
static void units_taken_for_hung_end_some_time(void)
{
    static const char text[] =
        "{\"devices\":[{\"items_per_s\":0.05,\"launch_ns\":4294967295,\"jitter\":0.8,"
        "\"faults\":[{\"kind\":\"lost\",\"at_launch\":2},"
        "{\"kind\":\"slow\",\"factor\":1e9,\"at_ms\":1}]},"
        "{\"items_per_s\":1e300,\"count\":3,\"h2d_bytes_per_s\":7.5,\"d2h_bytes_per_s\":1}],"
        "\"job\":{\"items\":258,\"item_bytes_in\":700,\"item_bytes_out\":2,\"unit\":1e9,"
        "\"window\":64,\"mode\":\"place\",\"ordered\":false}}";
    struct muster_simulation *result = simulate_well(text);
    muster_simulation_destroy(result);
}

/*
 * One device never ends anything, and the other fails often: what it failed is run by the first, and in the
 * end a second time by itself. That must not take longer each time.
 */
static void runs_that_are_stopped_do_not_make_others_wait(void)
{
    static const char text[] =
        "{\"devices\":[{\"items_per_s\":1e6,\"launch_ns\":2,\"jitter\":0.9,"
        "\"faults\":[{\"kind\":\"unit_error\",\"probability\":0.5}]},{\"items_per_s\":1e-300}],"
        "\"job\":{\"items\":290,\"unit\":13,\"window\":3,\"depth\":4,\"tries\":50,"
        "\"ordered\":false}}";
    struct muster_simulation *result = simulate_well(text);
    CHECK(result->makespan_ns < UINT64_C(1000000000000));
    muster_simulation_destroy(result);
}

/* What failed on those that take part is run by those left out, and does not wait for anything. */
static void those_left_out_run_what_failed_elsewhere(void)
{
    static const char text[] =
        "{\"resources\":[{\"name\":\"cores\",\"capacity\":16}],\"devices\":["
        "{\"items_per_s\":1e8,\"launch_ns\":4000,\"feeds\":{\"cores\":1.5},\"sensitive\":9,"
        "\"faults\":[{\"kind\":\"unit_error\",\"probability\":0.05,\"at_ms\":100}]},"
        "{\"items_per_s\":1e7,\"launch_ns\":4000,\"uses\":{\"cores\":16}}],"
        "\"job\":{\"items\":40000000,\"window\":400000,\"tries\":20}}";
    struct muster_simulation *result = simulate_well(text);
    CHECK(result->devices[1]->faster_without > 1 && result->retries > 5);
    CHECK(result->makespan_ns < UINT64_C(1000000000));
    muster_simulation_destroy(result);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(units_taken_for_hung_end_some_time),
        TEST(those_left_out_run_what_failed_elsewhere),
        TEST(runs_that_are_stopped_do_not_make_others_wait),
        TEST(a_slight_device_makes_way_for_one_that_joins),
        TEST(all_together_are_not_slower_than_the_best_subset),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
