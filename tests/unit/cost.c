#include "simulate/cost.h"

#include "harness.h"

#include <math.h>
#include <string.h>

#define ITEMS 100000

static struct cost cost_with(enum scenario_cost kind, double alpha, uint64_t items, uint64_t seed)
{
    const struct scenario_job job = { .items = items, .cost = kind, .alpha = alpha };
    struct cost cost;
    cost_init(&cost, &job, seed);
    return cost;
}

static double one(const struct cost *cost, uint64_t item)
{
    return cost_of(cost, (struct muster_range){ item, item + 1 });
}

static double all(const struct cost *cost)
{
    return cost_of(cost, (struct muster_range){ 0, cost->items });
}

static void uniform_items_cost_one(void)
{
    struct cost cost = cost_with(SCENARIO_UNIFORM, 0, UINT64_C(1) << 40, 1);
    CHECK(one(&cost, 0) == 1 && one(&cost, (UINT64_C(1) << 40) - 1) == 1);
    CHECK(all(&cost) == 0x1p40);
    CHECK(cost_of(&cost, (struct muster_range){ 5, 5 }) == 0);
    CHECK(cost_largest(&cost) == 1);
}

static void a_ramp_rises_evenly_to_twice_the_mean(void)
{
    struct cost cost = cost_with(SCENARIO_RAMP, 0, 1000, 1);
    CHECK(all(&cost) == 1000);
    CHECK(one(&cost, 0) == 0.001 && one(&cost, 999) == 1.999);
    CHECK(cost_largest(&cost) == 1.999);
    double sum = 0;
    for (uint64_t i = 0; i < 1000; i++)
        sum += one(&cost, i);
    CHECK(fabs(sum - 1000) < 1e-9);
    CHECK(cost_of(&cost, (struct muster_range){ 0, 500 }) == 250);
    CHECK(cost_of(&cost, (struct muster_range){ 500, 1000 }) == 750);
    struct cost single = cost_with(SCENARIO_RAMP, 0, 1, 1);
    CHECK(all(&single) == 1 && cost_largest(&single) == 1);
}

/* The distribution: the part of items above x times the least is x to the power -alpha. */
static void pareto_costs_are_distributed_so(void)
{
    static const double alphas[] = { 1.2, 1.5, 2, 3, 10 };
    for (size_t a = 0; a < sizeof alphas / sizeof *alphas; a++) {
        struct cost cost = cost_with(SCENARIO_PARETO, alphas[a], ITEMS, test_seed());
        double least = (alphas[a] - 1) / alphas[a];
        for (double x = 1; x <= 16; x *= 2) {
            unsigned above = 0;
            for (uint64_t i = 0; i < ITEMS; i++) {
                double value = one(&cost, i);
                CHECK(value >= least * (1 - 1e-12));
                above += value >= least * x;
            }
            double expected = ITEMS * pow(x, -alphas[a]);
            CHECK(fabs(above - expected) <= 5 * sqrt(expected) + 1);
        }
    }
}

static void pareto_costs_have_mean_one(void)
{
    /* With alpha 3 the spread is finite, so the mean of many is close. */
    struct cost cost = cost_with(SCENARIO_PARETO, 3, 1000000, test_seed());
    CHECK(fabs(all(&cost) / 1e6 - 1) < 0.005);
}

static void ranges_add_up(void)
{
    struct cost cost = cost_with(SCENARIO_PARETO, 1.5, ITEMS, 7);
    double sum = 0, largest = 0;
    for (uint64_t i = 0; i < ITEMS; i++) {
        double value = one(&cost, i);
        sum += value;
        largest = value > largest ? value : largest;
    }
    CHECK(sum == all(&cost));
    CHECK(largest == cost_largest(&cost));
    double halves = cost_of(&cost, (struct muster_range){ 0, ITEMS / 2 }) +
                    cost_of(&cost, (struct muster_range){ ITEMS / 2, ITEMS });
    CHECK(fabs(halves - sum) < 1e-9 * sum);
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t digest(const struct cost *cost)
{
    uint64_t digest = 14695981039346656037u;
    for (uint64_t i = 0; i < cost->items; i++)
        digest = (digest ^ bits_of(one(cost, i))) * 1099511628211u;
    return digest;
}

static void the_seed_alone_decides(void)
{
    struct cost a = cost_with(SCENARIO_PARETO, 1.5, ITEMS, 1);
    struct cost b = cost_with(SCENARIO_PARETO, 1.5, ITEMS, 1);
    struct cost c = cost_with(SCENARIO_PARETO, 1.5, ITEMS, 2);
    struct cost longer = cost_with(SCENARIO_PARETO, 1.5, ITEMS + 1, 1);
    CHECK(digest(&a) == digest(&b));
    CHECK(digest(&a) != digest(&c));
    for (uint64_t i = 0; i < ITEMS; i++)
        CHECK(one(&a, i) == one(&longer, i));
}

/* The same bits on every machine: this number was not computed on yours. */
static void costs_are_bit_for_bit_repeatable(void)
{
    struct cost cost = cost_with(SCENARIO_PARETO, 1.5, ITEMS, 1);
    CHECK(digest(&cost) == UINT64_C(0xdf3ab04f5aeda80f));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(uniform_items_cost_one),
        TEST(a_ramp_rises_evenly_to_twice_the_mean),
        TEST(pareto_costs_are_distributed_so),
        TEST(pareto_costs_have_mean_one),
        TEST(ranges_add_up),
        TEST(the_seed_alone_decides),
        TEST(costs_are_bit_for_bit_repeatable),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
