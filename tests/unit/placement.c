/*
 * The filter and the policies, as pure functions.
 */
#include "core/placement.h"

#include "base/random.h"
#include "harness.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct placement_hints anything = { .backends = UINT32_MAX };

static uint32_t choose(enum placement_policy policy, const struct placement_device *devices,
                       uint32_t count, const struct placement_hints *hints)
{
    uint32_t turn = 0;
    return placement_choose(policy, devices, count, hints, &turn);
}

static void each_hint_refuses_by_its_name(void)
{
    const uint64_t none[] = { 0 };
    const struct placement_device device = {
        .memory_free = 1000, .compute = { 8, 6 }, .backend = 3, .is_usable = true
    };
    struct placement_device lost = device;
    lost.is_usable = false;
    struct placement_hints hints = anything;
    CHECK_EQUAL(MUSTER_REFUSED_NOT, placement_refusal(&device, 0, &hints));
    CHECK_EQUAL(MUSTER_REFUSED_HEALTH, placement_refusal(&lost, 0, &hints));
    hints.backends = ~(1u << 3);
    CHECK_EQUAL(MUSTER_REFUSED_BACKENDS, placement_refusal(&device, 0, &hints));
    hints = anything;
    hints.devices = none;
    CHECK_EQUAL(MUSTER_REFUSED_DEVICES, placement_refusal(&device, 0, &hints));
    hints = anything;
    hints.min_free = 1000;
    CHECK_EQUAL(MUSTER_REFUSED_NOT, placement_refusal(&device, 0, &hints));
    hints.min_free = 1001;
    CHECK_EQUAL(MUSTER_REFUSED_MIN_FREE, placement_refusal(&device, 0, &hints));
}

static void compute_capability_is_compared_by_both_numbers(void)
{
    const struct placement_device device = { .compute = { 8, 6 }, .is_usable = true };
    static const struct {
        uint16_t needs[2];
        enum muster_refusal refusal;
    } cases[] = { { { 8, 6 }, MUSTER_REFUSED_NOT },    { { 8, 5 }, MUSTER_REFUSED_NOT },
                  { { 7, 9 }, MUSTER_REFUSED_NOT },    { { 8, 7 }, MUSTER_REFUSED_MIN_CC },
                  { { 9, 0 }, MUSTER_REFUSED_MIN_CC }, { { 0, 0 }, MUSTER_REFUSED_NOT } };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct placement_hints hints = anything;
        hints.min_compute[0] = cases[i].needs[0];
        hints.min_compute[1] = cases[i].needs[1];
        CHECK_EQUAL(cases[i].refusal, placement_refusal(&device, 0, &hints));
    }
}

static void round_robin_takes_strict_turns_over_the_eligible(void)
{
    struct placement_device devices[] = { { .is_usable = true, .queued = 100 },
                                          { .is_usable = false },
                                          { .is_usable = true },
                                          { .is_usable = true } };
    static const uint32_t expected[] = { 0, 2, 3, 0, 2, 3, 0 };
    uint32_t turn = 0;
    for (size_t i = 0; i < COUNT(expected); i++)
        CHECK_EQUAL(expected[i], placement_choose(PLACEMENT_ROUND_ROBIN, devices, COUNT(devices),
                                                  &anything, &turn));
    devices[0].is_usable = devices[2].is_usable = devices[3].is_usable = false;
    CHECK_EQUAL(PLACEMENT_NONE,
                placement_choose(PLACEMENT_ROUND_ROBIN, devices, COUNT(devices), &anything, &turn));
    CHECK_EQUAL(PLACEMENT_NONE,
                placement_choose(PLACEMENT_ROUND_ROBIN, devices, 0, &anything, &turn));
}

static void least_loaded_counts_units_and_streams_and_ties_go_to_the_lowest(void)
{
    struct placement_device devices[] = { { .is_usable = true, .queued = 2, .streams_active = 1 },
                                          { .is_usable = true, .queued = 1, .streams_active = 1 },
                                          { .is_usable = true, .queued = 0, .streams_active = 2 } };
    CHECK_EQUAL(1, choose(PLACEMENT_LEAST_LOADED, devices, 3, &anything));
    devices[0].queued = 1;
    CHECK_EQUAL(0, choose(PLACEMENT_LEAST_LOADED, devices, 3, &anything));
    devices[2].streams_active = 1;
    CHECK_EQUAL(2, choose(PLACEMENT_LEAST_LOADED, devices, 3, &anything));
}

static void weighted_divides_by_what_is_queued_and_tiny_weights_count(void)
{
    struct placement_device devices[] = { { .is_usable = true, .weight = 1 },
                                          { .is_usable = true, .weight = 4, .queued = 2 },
                                          { .is_usable = true, .weight = 0 } };
    CHECK_EQUAL(1, choose(PLACEMENT_WEIGHTED, devices, 3, &anything));
    devices[1].queued = 4;
    CHECK_EQUAL(0, choose(PLACEMENT_WEIGHTED, devices, 3, &anything));
    /* 0 counts as 0.01: beaten by 1 / 99, not by 1 / 101. */
    devices[1].is_usable = false;
    devices[0].queued = 98;
    CHECK_EQUAL(0, choose(PLACEMENT_WEIGHTED, devices, 3, &anything));
    devices[0].queued = 100;
    CHECK_EQUAL(2, choose(PLACEMENT_WEIGHTED, devices, 3, &anything));
}

static void adaptive_tries_what_nobody_has_measured(void)
{
    struct placement_device devices[] = { { .is_usable = true, .items_per_s = 100, .queued = 1 },
                                          { .is_usable = true, .items_per_s = 10 },
                                          { .is_usable = true, .items_per_s = 0 } };
    /* 50, 10, and the unmeasured one counts as 100. */
    CHECK_EQUAL(2, choose(PLACEMENT_ADAPTIVE, devices, 3, &anything));
    devices[2].queued = 2;
    CHECK_EQUAL(0, choose(PLACEMENT_ADAPTIVE, devices, 3, &anything));
    devices[0].is_usable = false;
    devices[2].queued = 0;
    CHECK_EQUAL(1, choose(PLACEMENT_ADAPTIVE, devices, 3, &anything));
    devices[1].items_per_s = 0;
    CHECK_EQUAL(1, choose(PLACEMENT_ADAPTIVE, devices, 3, &anything));
}

/* A device that does less than an item a second is measured all the same: it is not the best one. */
static void a_very_slow_device_counts_as_measured(void)
{
    struct placement_device devices[] = { { .is_usable = true, .items_per_s = 0.25f },
                                          { .is_usable = true, .items_per_s = 8, .queued = 3 } };
    const struct placement_hints one = { .backends = UINT32_MAX, .items = 1 };
    CHECK_EQUAL(1, choose(PLACEMENT_ADAPTIVE, devices, COUNT(devices), &anything));
    devices[1].queued = 0;
    CHECK_EQUAL(1, choose(PLACEMENT_EARLIEST_FINISH, devices, COUNT(devices), &one));
    /* Unmeasured it counts as the best, and the lowest of equals is taken. */
    devices[0].items_per_s = 0;
    CHECK_EQUAL(0, choose(PLACEMENT_ADAPTIVE, devices, COUNT(devices), &anything));
}

static void earliest_finish_weighs_backlog_size_and_copy(void)
{
    struct placement_device devices[] = {
        { .is_usable = true, .items_per_s = 1000, .bytes_per_s = 1e6, .queued_items = 900 },
        { .is_usable = true, .items_per_s = 100, .bytes_per_s = 1e9 },
    };
    struct placement_hints hints = anything;
    hints.items = 10; /* 0.91 s against 0.1 s */
    CHECK_EQUAL(1, choose(PLACEMENT_EARLIEST_FINISH, devices, 2, &hints));
    hints.items = 1000; /* 1.9 s against 10 s */
    CHECK_EQUAL(0, choose(PLACEMENT_EARLIEST_FINISH, devices, 2, &hints));
    hints.bytes = 100000000; /* and 100 s against 0.1 s to get it there */
    CHECK_EQUAL(1, choose(PLACEMENT_EARLIEST_FINISH, devices, 2, &hints));
}

static void sticky_keeps_a_key_at_home_until_that_is_far_ahead(void)
{
    struct placement_device devices[8] = { { .weight = 0 } };
    uint32_t homes[8] = { 0 };
    for (size_t i = 0; i < COUNT(devices); i++)
        devices[i].is_usable = true;
    for (uint64_t key = 0; key < 800; key++) {
        struct placement_hints hints = anything;
        hints.affinity = key;
        uint32_t home = choose(PLACEMENT_STICKY, devices, 8, &hints);
        homes[home]++;
        CHECK_EQUAL(home, choose(PLACEMENT_STICKY, devices, 8, &hints));
        devices[home].queued = PLACEMENT_STICKY_AHEAD;
        CHECK_EQUAL(home, choose(PLACEMENT_STICKY, devices, 8, &hints));
        devices[home].queued = PLACEMENT_STICKY_AHEAD + 1;
        CHECK(choose(PLACEMENT_STICKY, devices, 8, &hints) != home);
        devices[home].queued = 0;
        /* When another device goes, this key stays. */
        uint32_t other = (home + 1) % 8;
        devices[other].is_usable = false;
        CHECK_EQUAL(home, choose(PLACEMENT_STICKY, devices, 8, &hints));
        devices[other].is_usable = true;
    }
    for (size_t i = 0; i < 8; i++)
        CHECK(homes[i] > 50 && homes[i] < 150);
}

/* The rules of DESIGN.md's table, one device at a time, without any of the shortcuts. */
static double plain_score(enum placement_policy policy, const struct placement_device *device,
                          const struct placement_hints *hints, double best_items, double best_bytes)
{
    double depth = device->queued, rate = device->items_per_s, link = device->bytes_per_s;
    double weight = device->weight;
    rate = rate > 0 ? rate : best_items > 0 ? best_items : 1;
    link = link > 0 ? link : best_bytes > 0 ? best_bytes : 1;
    if (policy == PLACEMENT_WEIGHTED)
        return (weight < 0.01 ? 0.01 : weight) / (depth + 1);
    if (policy == PLACEMENT_ADAPTIVE)
        return rate / (depth + 1);
    if (policy == PLACEMENT_EARLIEST_FINISH) {
        double own = hints->items > 0 ? (double)hints->items : 1;
        double items = (double)device->queued_items + own + depth;
        return -(items / rate + (hints->bytes > 0 ? (double)hints->bytes / link : 0));
    }
    return -(depth + device->streams_active);
}

static bool plainly_fits(const struct placement_device *device, uint32_t index,
                         const struct placement_hints *hints)
{
    uint32_t has = device->compute[0] * 65536u + device->compute[1];
    uint32_t needs = hints->min_compute[0] * 65536u + hints->min_compute[1];
    return device->is_usable && device->memory_free >= hints->min_free && has >= needs &&
           (hints->backends & 1u << device->backend) &&
           (!hints->devices || (hints->devices[index / 64] & UINT64_C(1) << index % 64));
}

/* Every policy with a score, on machines and hints drawn at random, beside the rules as they stand. */
static void policies_choose_by_their_rule(void)
{
    static const float rates[] = { 0, 0, 0.125f, 0.5f, 1, 2, 8, 1000 };
    static const enum placement_policy policies[] = { PLACEMENT_LEAST_LOADED, PLACEMENT_WEIGHTED,
                                                      PLACEMENT_ADAPTIVE,
                                                      PLACEMENT_EARLIEST_FINISH };
    struct random random;
    random_init(&random, test_seed());
    for (unsigned round = 0; round < test_repetitions(4000); round++) {
        struct placement_device devices[70];
        uint32_t count =
            random_below(&random, 4) ? 1 + (uint32_t)random_below(&random, 5) : COUNT(devices);
        const uint64_t some[] = { random_next(&random), random_next(&random) };
        struct placement_hints hints = anything;
        if (random_below(&random, 2)) {
            hints = (struct placement_hints){ .min_free = random_below(&random, 3),
                                              .min_compute = { 1, 1 },
                                              .backends = (uint32_t)random_next(&random),
                                              .devices = random_below(&random, 2) ? some : NULL };
        }
        hints.items = random_below(&random, 3);
        hints.bytes = random_below(&random, 3);
        double best_items = 0, best_bytes = 0;
        for (uint32_t i = 0; i < count; i++) {
            devices[i] = (struct placement_device){
                .memory_free = random_below(&random, 4),
                .queued_items = random_below(&random, 4),
                .weight = rates[random_below(&random, COUNT(rates))],
                .items_per_s = rates[random_below(&random, COUNT(rates))],
                .bytes_per_s = rates[random_below(&random, COUNT(rates))],
                .queued = (uint32_t)random_below(&random, 4),
                .streams_active = (uint32_t)random_below(&random, 3),
                .compute = { (uint16_t)random_below(&random, 3),
                             (uint16_t)random_below(&random, 3) },
                .backend = (uint8_t)random_below(&random, 32),
                .is_usable = random_below(&random, 8) > 0,
            };
            if (!plainly_fits(&devices[i], i, &hints))
                continue;
            best_items = devices[i].items_per_s > best_items ? devices[i].items_per_s : best_items;
            best_bytes = devices[i].bytes_per_s > best_bytes ? devices[i].bytes_per_s : best_bytes;
        }
        for (size_t p = 0; p < COUNT(policies); p++) {
            uint32_t expected = PLACEMENT_NONE;
            double highest = 0;
            for (uint32_t i = 0; i < count; i++) {
                double score =
                    plain_score(policies[p], &devices[i], &hints, best_items, best_bytes);
                CHECK(score == placement_score(policies[p], &devices[i], &hints, (float)best_items,
                                               (float)best_bytes));
                CHECK_EQUAL(plainly_fits(&devices[i], i, &hints),
                            placement_refusal(&devices[i], i, &hints) == MUSTER_REFUSED_NOT);
                if (plainly_fits(&devices[i], i, &hints) &&
                    (expected == PLACEMENT_NONE || score > highest)) {
                    expected = i;
                    highest = score;
                }
            }
            CHECK_EQUAL(expected, choose(policies[p], devices, count, &hints));
        }
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(each_hint_refuses_by_its_name),
        TEST(compute_capability_is_compared_by_both_numbers),
        TEST(round_robin_takes_strict_turns_over_the_eligible),
        TEST(least_loaded_counts_units_and_streams_and_ties_go_to_the_lowest),
        TEST(weighted_divides_by_what_is_queued_and_tiny_weights_count),
        TEST(adaptive_tries_what_nobody_has_measured),
        TEST(a_very_slow_device_counts_as_measured),
        TEST(earliest_finish_weighs_backlog_size_and_copy),
        TEST(policies_choose_by_their_rule),
        TEST(sticky_keeps_a_key_at_home_until_that_is_far_ahead),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
