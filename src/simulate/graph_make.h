/* The tasks of a graph that a scenario describes, one after another in the order of submission. */
#ifndef SIMULATE_GRAPH_MAKE_H
#define SIMULATE_GRAPH_MAKE_H

#include "base/random.h"
#include "model/graph.h"

#define GRAPH_USES_MAX (GRAPH_WIDTH_MAX + 2)

struct graph_use {
    uint32_t tile;
    uint32_t mode; /* enum flow_mode */
};

struct graph_task {
    enum graph_kernel kernel;
    double cost;
    uint32_t count;
    struct graph_use uses[GRAPH_USES_MAX];
};

struct graph_maker {
    const struct graph_scenario *graph;
    struct random random;
    uint32_t step, i, k, phase; /* where it is */
    uint32_t made;
};

void graph_maker_init(struct graph_maker *maker, const struct graph_scenario *graph, uint64_t seed);
/* How many tiles there are, all of tile_bytes. */
uint32_t graph_tiles(const struct graph_scenario *graph);
/* False after the last. */
bool graph_next(struct graph_maker *maker, struct graph_task *out);

#endif
