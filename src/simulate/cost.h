/*
 * What items cost, relative to the mean: the same for the same seed on every machine, since nothing
 * but the basic operations of arithmetic is used.
 */
#ifndef SIMULATE_COST_H
#define SIMULATE_COST_H

#include "model/scenario.h"

#include <muster/job.h>

struct cost {
    enum scenario_cost kind;
    uint64_t items, seed;
    double alpha;
};

void cost_init(struct cost *cost, const struct scenario_job *job, uint64_t seed);

/* Of all items in the range together. */
double cost_of(const struct cost *cost, struct muster_range range);

/* The dearest item. */
double cost_largest(const struct cost *cost);

#endif
