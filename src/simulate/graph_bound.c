#include "simulate/graph_bound.h"

/* Items per nanosecond at best: what makes a device faster for a time may hold all the time. */
static double rate_of(const struct model_device *device)
{
    double rate = device->items_per_s / 1e9;
    for (uint32_t i = 0; i < device->fault_count; i++)
        if (device->faults[i].kind == MODEL_FAULT_SLOW && device->faults[i].factor > 1)
            rate *= device->faults[i].factor;
    return rate / (1 - device->jitter);
}

struct graph_bound graph_bound(const struct model_device *devices, size_t device_count,
                               const struct tasks *tasks, const double *costs, uint32_t task_count,
                               double *levels)
{
    struct graph_bound bound = { .longest = 0 };
    double rates = 0, work = 0, fastest = 0;
    for (size_t i = 0; i < device_count; i++) {
        double rate = rate_of(&devices[i]);
        rates += rate;
        fastest = rate > fastest ? rate : fastest;
    }
    for (uint32_t i = task_count; i > 0; i--) {
        double after = 0;
        for (uint32_t e = tasks->entries[i - 1].first_follower; e != TASKS_NONE;
             e = tasks->edges[e].next) {
            double level = levels[tasks->edges[e].follower];
            after = level > after ? level : after;
        }
        levels[i - 1] = costs[i - 1] / fastest + after;
        bound.longest = levels[i - 1] > bound.longest ? levels[i - 1] : bound.longest;
        work += costs[i - 1];
    }
    bound.critical_path_ns = (uint64_t)bound.longest;
    bound.area_ns = (uint64_t)(work / rates);
    return bound;
}
