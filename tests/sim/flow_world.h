/*
 * A world for data flow: real bytes at several places, tasks that mix them, and the code that carries out
 * what dispatch.h says, in any order that `pick` chooses. Bytes that nobody may read are scrambled:
 * freed memory, new memory, the old bytes of what is to be written whole.
 */
#ifndef SIM_FLOW_WORLD_H
#define SIM_FLOW_WORLD_H

#include "base/random.h"
#include "core/dispatch.h"

#define WORLD_DATA 4u
#define WORLD_BYTES 48u /* of a datum */
#define WORLD_PARTS 24u
#define WORLD_TASKS_MAX 256u /* with those that are inserted for reductions */
#define WORLD_DEVICES_MAX 8u
#define WORLD_INSTANCES 256u
#define WORLD_COPIES 64u
#define WORLD_USES_MAX 4u

enum world_kind { WORLD_MIX, WORLD_REDUCE, WORLD_INIT, WORLD_COMBINE, WORLD_FETCH };

struct world_task {
    enum world_kind kind;
    uint32_t count;
    struct flow_access accesses[1 + FLOW_CONTRIBUTIONS];
    uint32_t number; /* of the submission: what it mixes in */
    uint64_t devices;
    int32_t priority;
    bool fails;
    /* What became of it. */
    uint32_t ends;
    muster_status status;
    uint32_t index;
};

/* What is submitted: made from a seed, the same for every schedule. */
struct world_plan {
    uint64_t seed;
    uint32_t data_count, part_count, task_count, device_count, place_count;
    uint64_t data_bytes[WORLD_DATA];
    struct {
        uint32_t data;
        struct shape shape;
    } parts[WORLD_PARTS];
    struct {
        uint32_t count, part[WORLD_USES_MAX], mode[WORLD_USES_MAX]; /* 0: reduces */
        uint64_t devices;
        int32_t priority;
        bool fails;
    } tasks[WORLD_TASKS_MAX];
    struct dispatch_device devices[WORLD_DEVICES_MAX];
    struct dispatch_place places[WORLD_DEVICES_MAX + 1];
    enum dispatch_policy policy;
    uint32_t losses;   /* devices that are lost on the way */
    bool has_refusals; /* memory is refused now and then */
    bool commutes;     /* then bytes may differ from those of the serial run */
};

struct world_rules {
    bool many_parts, failures, losses, refusals, overlaps;
    uint32_t tasks_most, devices_most;
};
void world_make(struct world_plan *plan, uint64_t seed, const struct world_rules *rules);

/* One of `count` things, at least 1, that may happen next. */
typedef uint32_t (*world_pick)(void *user, uint32_t count);

struct world_outcome {
    uint8_t bytes[WORLD_DATA][WORLD_BYTES];
    bool is_good[WORLD_DATA][WORLD_BYTES]; /* not spoiled */
    uint32_t task_count;
    muster_status statuses[WORLD_TASKS_MAX];
    uint64_t steps;
};
/* Runs the plan on all its devices. NULL, or what went wrong. `checks`: every invariant, every step. */
const char *world_run(const struct world_plan *plan, world_pick pick, void *user, bool checks,
                      struct world_outcome *out);
/* One task after another, at home: what everything must come to. */
const char *world_run_serially(const struct world_plan *plan, struct world_outcome *out);
/* NULL, or how they differ: good bytes in both must be the same, and so must failures without losses. */
const char *world_compare(const struct world_plan *plan, const struct world_outcome *serial,
                          const struct world_outcome *other);

#endif
