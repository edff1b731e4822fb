#include "simulate/cost.h"

#include <stdbool.h>
#include <string.h>

void cost_init(struct cost *cost, const struct scenario_job *job, uint64_t seed)
{
    *cost =
        (struct cost){ .kind = job->cost, .items = job->items, .seed = seed, .alpha = job->alpha };
}

/* Base 2 logarithm of a normal number: the exponent, and a series for the rest. */
static double log2_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & ((UINT64_C(1) << 52) - 1)) | (UINT64_C(1023) << 52);
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m /= 2;
        exponent++;
    }
    /* ln m = 2 (z + z^3/3 + z^5/5 + ...) with |z| < 0.172 */
    double z = (m - 1) / (m + 1), square = z * z, sum = 0;
    for (int k = 21; k >= 1; k -= 2)
        sum = sum * square + 1.0 / k;
    return exponent + 2 * z * sum * 1.4426950408889634;
}

/* 2 to the power x, for |x| below 1000. */
static double exp2_of(double x)
{
    int whole = (int)(x >= 0 ? x + 0.5 : x - 0.5);
    double rest = (x - whole) * 0.6931471805599453, sum = 1;
    for (int k = 18; k >= 1; k--)
        sum = 1 + sum * rest / k;
    uint64_t bits = (uint64_t)(whole + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
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
    return least * exp2_of(-log2_of(draw(cost->seed, item)) / cost->alpha);
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
