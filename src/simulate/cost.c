#include "simulate/cost.h"

#include "model/power.h"

void cost_init(struct cost *cost, const struct scenario_job *job, uint64_t seed)
{
    *cost =
        (struct cost){ .kind = job->cost, .items = job->items, .seed = seed, .alpha = job->alpha };
}

/* Evenly in (0, 1], from the seed and the item's number alone. */
static double draw(uint64_t seed, uint64_t item)
{
    uint64_t z = seed * 0x9e3779b97f4a7c15u + (item + 1) * 0xd1b54a32d192ed03u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (double)((z >> 11) + 1) * 0x1.0p-53;
}

static double pareto(const struct cost *cost, uint64_t item)
{
    double least = (cost->alpha - 1) / cost->alpha; /* so that the mean is 1 */
    return least * power_exp2(-power_log2(draw(cost->seed, item)) / cost->alpha);
}

double cost_of(const struct cost *cost, struct muster_range range)
{
    double begin = (double)range.begin, end = (double)range.end, sum = 0;
    switch (cost->kind) {
    case SCENARIO_UNIFORM:
        return end - begin;
    case SCENARIO_RAMP:
        /* Item i costs (2 i + 1) / items. */
        return (end - begin) * ((end + begin) / (double)cost->items);
    case SCENARIO_PARETO:
        for (uint64_t i = range.begin; i < range.end; i++)
            sum += pareto(cost, i);
        return sum;
    }
    return 0;
}

double cost_largest(const struct cost *cost)
{
    double largest = 0;
    switch (cost->kind) {
    case SCENARIO_UNIFORM:
        return 1;
    case SCENARIO_RAMP:
        return (2 * (double)cost->items - 1) / (double)cost->items;
    case SCENARIO_PARETO:
        for (uint64_t i = 0; i < cost->items; i++) {
            double one = pareto(cost, i);
            largest = one > largest ? one : largest;
        }
    }
    return largest;
}
