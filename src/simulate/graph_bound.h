/*
 * The least time that any schedule of a graph could take: its longest path with each task on its
 * fastest device, and all of its work over the rates of all devices. Copies count as nothing.
 */
#ifndef SIMULATE_GRAPH_BOUND_H
#define SIMULATE_GRAPH_BOUND_H

#include "core/tasks.h"
#include "model/device_model.h"

#include <stddef.h>

struct graph_bound {
    uint64_t critical_path_ns, area_ns;
    double longest; /* of `levels` */
};

/*
 * `tasks`: all of them, in the order of submission from place 0 on, none taken. `costs`: items.
 * `levels` is filled: the time of the longest path that begins with each.
 */
struct graph_bound graph_bound(const struct model_device *devices, size_t device_count,
                               const struct tasks *tasks, const double *costs, uint32_t task_count,
                               double *levels);

#endif
