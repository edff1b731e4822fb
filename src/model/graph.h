/*
 * A scenario whose work is a graph of tasks: devices and a "graph", read from JSON
 * (docs/simulation.md). Everything wrong with it is MUSTER_E_PARSE with the place in the text.
 */
#ifndef MODEL_GRAPH_H
#define MODEL_GRAPH_H

#include "model/description.h"

enum graph_kind { GRAPH_CHOLESKY, GRAPH_LU, GRAPH_STENCIL, GRAPH_FORK_JOIN, GRAPH_RANDOM };
enum graph_policy { GRAPH_EARLIEST_FINISH, GRAPH_EAGER, GRAPH_ROUND_ROBIN };

/* What a task runs, for its cost and for what is learned. */
enum graph_kernel {
    GRAPH_POTRF,
    GRAPH_GETRF,
    GRAPH_TRSM,
    GRAPH_SYRK,
    GRAPH_GEMM,
    GRAPH_STEP,
    GRAPH_FORK,
    GRAPH_WORK,
    GRAPH_JOIN,
    GRAPH_KERNELS
};

#define GRAPH_TASKS_MAX (1u << 20)
#define GRAPH_DEVICES_MAX 64u
#define GRAPH_WIDTH_MAX 60u /* of a fork: its join uses one part of each task, and what it writes */

struct graph_scenario {
    enum graph_kind kind;
    enum graph_policy policy;
    uint32_t tiles; /* a side of the matrix, or tiles of a row, or of a fork */
    uint32_t steps; /* of a stencil or of fork_join */
    uint32_t tasks; /* of a random graph */
    uint64_t tile_bytes;
    double costs[GRAPH_KERNELS]; /* items that a device computes, relative to its items_per_s */
    bool priorities;             /* tasks on long paths go first */
    uint32_t ahead;              /* tasks that a device has staged beside the one it runs */
};

/* The names of kernels, as in "costs". */
extern const char *const graph_kernel_names[GRAPH_KERNELS];

/* Whether the text is an object with the key "graph"; false for what is no object either. */
bool graph_scenario_is_one(const char *text, size_t bytes);
/* As scenario_read. At most GRAPH_DEVICES_MAX devices, which share nothing. */
muster_status graph_scenario_read(const char *text, size_t bytes, struct model_device *devices,
                                  size_t capacity, size_t *count, struct graph_scenario *graph,
                                  struct muster_error *err);

#endif
