/*
 * Which device a piece of work goes to: the filter by hints and the built-in policies. Pure: looks
 * at a compact array that its owner keeps up to date under its lock, so that choosing and reserving
 * are one step there.
 */
#ifndef CORE_PLACEMENT_H
#define CORE_PLACEMENT_H

#include <muster/policy.h>
#include <stdbool.h>

#define PLACEMENT_NONE UINT32_MAX

/* What a decision looks at. Small, since a pick runs over one for each device. */
struct placement_device {
    uint64_t memory_free;
    uint64_t queued_items; /* of the units that are queued */
    float weight;
    float items_per_s, bytes_per_s; /* measured; 0: not yet */
    uint32_t queued;                /* units given and not finished, and leases */
    uint32_t streams_active;
    uint16_t compute[2];
    uint8_t backend; /* its number, below 32 */
    bool is_usable;  /* in the pool, and neither lost nor quarantined */
};
_Static_assert(sizeof(struct placement_device) <= 48, "a thousand of them fit into a cache");

struct placement_hints {
    uint64_t min_free;
    uint16_t min_compute[2];
    uint32_t backends;       /* bit i: backend i may be used */
    const uint64_t *devices; /* bit i: device i may be used; NULL: all */
    uint64_t affinity, items, bytes;
};

enum placement_policy {
    PLACEMENT_ROUND_ROBIN,
    PLACEMENT_LEAST_LOADED,
    PLACEMENT_WEIGHTED,
    PLACEMENT_ADAPTIVE,
    PLACEMENT_EARLIEST_FINISH,
    PLACEMENT_STICKY,
    PLACEMENT_POLICY_COUNT
};

enum muster_refusal placement_refusal(const struct placement_device *device, uint32_t index,
                                      const struct placement_hints *hints);

/* Weights below this count as this. */
#define PLACEMENT_WEIGHT_MIN 0.01
/* "sticky": the key's home is the eligible device for which this is largest. */
uint64_t placement_affinity(uint64_t key, uint32_t device);
/* It leaves its device when that is ahead of the least loaded by more than this many units. */
#define PLACEMENT_STICKY_AHEAD 4

/*
 * The chosen device, PLACEMENT_NONE if the hints refuse all. `turn` is round-robin's: where the
 * next turn begins; it is moved on.
 */
uint32_t placement_choose(enum placement_policy policy, const struct placement_device *devices,
                          uint32_t count, const struct placement_hints *hints, uint32_t *turn);

/*
 * How good a device is in the policy's eyes; larger is better. For explanations; `best_items_per_s`
 * and `best_bytes_per_s` are the best measured among the eligible, 0 if there are none.
 */
double placement_score(enum placement_policy policy, const struct placement_device *device,
                       const struct placement_hints *hints, float best_items_per_s,
                       float best_bytes_per_s);

#endif
