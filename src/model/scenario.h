/*
 * A scenario for the simulator: devices and a job, read from JSON (docs/simulation.md). Everything
 * wrong with it is MUSTER_E_PARSE with the place in the text.
 */
#ifndef MODEL_SCENARIO_H
#define MODEL_SCENARIO_H

#include "model/description.h"

enum scenario_cost { SCENARIO_UNIFORM, SCENARIO_PARETO, SCENARIO_RAMP };
enum scenario_unit { SCENARIO_UNIT_ADAPTIVE, SCENARIO_UNIT_QUARTER, SCENARIO_UNIT_FIXED };
enum scenario_policy {
    SCENARIO_ROUND_ROBIN,
    SCENARIO_LEAST_LOADED,
    SCENARIO_WEIGHTED,
    SCENARIO_ADAPTIVE,
    SCENARIO_EARLIEST_FINISH
};

struct scenario_job {
    uint64_t items; /* at least 1 */
    uint64_t item_bytes_in, item_bytes_out;
    enum scenario_cost cost;
    double alpha; /* of SCENARIO_PARETO, above 1 */
    bool place;   /* units are pushed by `policy`; else lanes take them */
    enum scenario_policy policy;
    enum scenario_unit unit;
    uint64_t unit_items; /* of SCENARIO_UNIT_FIXED */
    bool ordered, speculate;
    bool
        opens_when_worth; /* devices with `opens_ns` take that long from when the core has them opened */
    uint64_t window;      /* items; 0: the simulator's choice */
    uint32_t depth, tries;
    uint64_t min_free_bytes;
    uint16_t min_compute[2];
    struct model_resources resources; /* of the whole scenario: what its devices share */
};

#define SCENARIO_ITEMS_MAX (UINT64_C(1) << 40)
/* Costs that are drawn per item are drawn for each of them. */
#define SCENARIO_DRAWN_ITEMS_MAX (UINT64_C(1) << 28)
#define SCENARIO_DEPTH_MAX 64
#define SCENARIO_TRIES_MAX 100

/*
 * Reads a whole text. `*count` is set to how many devices there are; above `capacity` the status is
 * MUSTER_E_CAPACITY, so `devices` may be NULL with a capacity of 0.
 */
muster_status scenario_read(const char *text, size_t bytes, struct model_device *devices,
                            size_t capacity, size_t *count, struct scenario_job *job,
                            struct muster_error *err);

/* For readers of larger texts: reads the cost object that comes next in `json`. */
muster_status scenario_read_cost(struct json *json, struct scenario_job *job,
                                 struct muster_error *err);

/* May the device be used at all, by the hints? `why` names the hint that refuses it. */
bool scenario_eligible(const struct scenario_job *job, const struct model_device *device,
                       const char **why);

#endif
