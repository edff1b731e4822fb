/*
 * The least time any schedule could take: total cost over the devices' true rates over time, the
 * dearest item on the fastest device, and bytes over the links.
 */
#ifndef SIMULATE_BOUND_H
#define SIMULATE_BOUND_H

#include "simulate/cost.h"

/* A moment at which a device's rate changes; `edges_max` of them are needed for the devices given. */
struct bound_edge {
    uint64_t at_ns;
    uint32_t device;
    int32_t running; /* 1: it begins to compute, -1: it ceases, 0: neither */
    double change;   /* of the rate, in items per nanosecond */
};
size_t bound_edges_max(const struct model_device *devices, size_t count);

/*
 * In nanoseconds; UINT64_MAX if the devices can never do it. When a fault that begins at a launch
 * will come is not known beforehand: what makes a device faster is taken to hold all the time, the
 * others are left out, and both only lower the bound. `edges` is room to work in.
 */
uint64_t bound_ns(const struct model_device *devices, const bool *eligible, size_t count,
                  const struct scenario_job *job, const struct cost *cost,
                  struct bound_edge *edges);

#endif
