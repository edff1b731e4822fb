#include "core/placement.h"

#include "base/invariant.h"

enum muster_refusal placement_refusal(const struct placement_device *device, uint32_t index,
                                      const struct placement_hints *hints)
{
    if (!device->is_usable)
        return MUSTER_REFUSED_HEALTH;
    if (!(hints->backends >> device->backend & 1))
        return MUSTER_REFUSED_BACKENDS;
    if (hints->devices && !(hints->devices[index / 64] >> (index % 64) & 1))
        return MUSTER_REFUSED_DEVICES;
    if (device->compute[0] < hints->min_compute[0] ||
        (device->compute[0] == hints->min_compute[0] && device->compute[1] < hints->min_compute[1]))
        return MUSTER_REFUSED_MIN_CC;
    if (device->memory_free < hints->min_free)
        return MUSTER_REFUSED_MIN_FREE;
    return MUSTER_REFUSED_NOT;
}

/* The best figures measured among the eligible: what a device that nobody has measured counts as. */
struct best {
    float items_per_s, bytes_per_s;
};

static inline double or_best(float measured, float best)
{
    return measured > 0 ? measured : best > 0 ? best : 1;
}

static inline double score_of(enum placement_policy policy, const struct placement_device *device,
                              const struct placement_hints *hints, struct best best)
{
    double next = (double)device->queued + 1;
    switch (policy) {
    case PLACEMENT_WEIGHTED:
        return (device->weight < PLACEMENT_WEIGHT_MIN ? PLACEMENT_WEIGHT_MIN : device->weight) /
               next;
    case PLACEMENT_ADAPTIVE:
        return or_best(device->items_per_s, best.items_per_s) / next;
    case PLACEMENT_EARLIEST_FINISH: {
        /* Leases and work of unknown size count as one item each. */
        double items = (double)device->queued_items + (double)(hints->items > 0 ? hints->items : 1);
        double copy_s = hints->bytes > 0
                            ? (double)hints->bytes / or_best(device->bytes_per_s, best.bytes_per_s)
                            : 0;
        return -((items + (double)device->queued) / or_best(device->items_per_s, best.items_per_s) +
                 copy_s);
    }
    default:
        /* Least loaded; also what sticky falls back to. Round-robin has no better and worse. */
        return policy == PLACEMENT_ROUND_ROBIN
                   ? 0
                   : -((double)device->queued + (double)device->streams_active);
    }
}

/* Whether the score needs figures that the device does not have yet. */
static inline bool is_unmeasured(enum placement_policy policy,
                                 const struct placement_device *device,
                                 const struct placement_hints *hints)
{
    if (policy == PLACEMENT_ADAPTIVE)
        return device->items_per_s <= 0;
    return policy == PLACEMENT_EARLIEST_FINISH &&
           (device->items_per_s <= 0 || (hints->bytes > 0 && device->bytes_per_s <= 0));
}

static uint32_t take_turn(const struct placement_device *devices, uint32_t count,
                          const struct placement_hints *hints, uint32_t *turn)
{
    for (uint32_t step = 0; step < count; step++) {
        uint32_t i = (*turn + step) % count;
        if (placement_refusal(&devices[i], i, hints) != MUSTER_REFUSED_NOT)
            continue;
        *turn = (i + 1) % count;
        return i;
    }
    return PLACEMENT_NONE;
}

struct choice {
    uint32_t index;
    double score;
};

/* Only a better one, or as good with a lower id: ties go to the lowest. */
static inline void consider(struct choice *choice, uint32_t index, double score)
{
    if (choice->index == PLACEMENT_NONE || score > choice->score ||
        (score == choice->score && index < choice->index))
        *choice = (struct choice){ index, score };
}

static inline bool is_eligible(bool is_plain, const struct placement_device *device, uint32_t index,
                               const struct placement_hints *hints)
{
    return is_plain ? device->is_usable
                    : placement_refusal(device, index, hints) == MUSTER_REFUSED_NOT;
}

/*
 * The eligible device with the highest score. Those that nobody has measured are looked at when the
 * best of the others is known; for all policies but earliest-finish that is then the least queued of
 * them. Inlined for each policy, and for hints that ask for nothing.
 */
static inline __attribute__((always_inline)) uint32_t
find_highest(enum placement_policy policy, bool is_plain, const struct placement_device *devices,
             uint32_t count, const struct placement_hints *hints)
{
    struct choice choice = { .index = PLACEMENT_NONE };
    const bool uses_rates = policy == PLACEMENT_ADAPTIVE || policy == PLACEMENT_EARLIEST_FINISH;
    struct best best = { 0, 0 };
    uint32_t unmeasured = PLACEMENT_NONE, unmeasured_queued = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const struct placement_device *device = &devices[i];
        if (!is_eligible(is_plain, device, i, hints))
            continue;
        if (uses_rates && device->items_per_s > best.items_per_s)
            best.items_per_s = device->items_per_s;
        if (policy == PLACEMENT_EARLIEST_FINISH && device->bytes_per_s > best.bytes_per_s)
            best.bytes_per_s = device->bytes_per_s;
        if (!is_unmeasured(policy, device, hints)) {
            consider(&choice, i, score_of(policy, device, hints, best));
        } else if (device->queued < unmeasured_queued || unmeasured == PLACEMENT_NONE) {
            unmeasured = i;
            unmeasured_queued = device->queued;
        }
    }
    if (unmeasured != PLACEMENT_NONE && policy != PLACEMENT_EARLIEST_FINISH)
        consider(&choice, unmeasured, score_of(policy, &devices[unmeasured], hints, best));
    for (uint32_t i = 0;
         policy == PLACEMENT_EARLIEST_FINISH && unmeasured != PLACEMENT_NONE && i < count; i++)
        if (is_eligible(is_plain, &devices[i], i, hints) &&
            is_unmeasured(policy, &devices[i], hints))
            consider(&choice, i, score_of(policy, &devices[i], hints, best));
    return choice.index;
}

static uint32_t find_by(enum placement_policy policy, const struct placement_device *devices,
                        uint32_t count, const struct placement_hints *hints)
{
    bool is_plain = hints->min_free == 0 && hints->min_compute[0] == 0 &&
                    hints->min_compute[1] == 0 && hints->backends == UINT32_MAX && !hints->devices;
#define FIND(which)                                                                                \
    (is_plain ? find_highest(which, true, devices, count, hints)                                   \
              : find_highest(which, false, devices, count, hints))
    switch (policy) {
    case PLACEMENT_WEIGHTED:
        return FIND(PLACEMENT_WEIGHTED);
    case PLACEMENT_ADAPTIVE:
        return FIND(PLACEMENT_ADAPTIVE);
    case PLACEMENT_EARLIEST_FINISH:
        return FIND(PLACEMENT_EARLIEST_FINISH);
    default:
        return FIND(PLACEMENT_LEAST_LOADED);
    }
#undef FIND
}

static uint64_t mix(uint64_t key)
{
    key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9u;
    key = (key ^ (key >> 27)) * 0x94d049bb133111ebu;
    return key ^ (key >> 31);
}

uint64_t placement_affinity(uint64_t key, uint32_t device)
{
    return mix(key * 0x9e3779b97f4a7c15u + mix(device + 1));
}

/*
 * The device whose hash with the key is largest: when devices come and go, only the keys of those
 * that went move.
 */
static uint32_t find_home(const struct placement_device *devices, uint32_t count,
                          const struct placement_hints *hints)
{
    uint32_t home = PLACEMENT_NONE;
    uint64_t largest = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (placement_refusal(&devices[i], i, hints) != MUSTER_REFUSED_NOT)
            continue;
        uint64_t hash = placement_affinity(hints->affinity, i);
        if (home == PLACEMENT_NONE || hash > largest) {
            home = i;
            largest = hash;
        }
    }
    return home;
}

uint32_t placement_choose(enum placement_policy policy, const struct placement_device *devices,
                          uint32_t count, const struct placement_hints *hints, uint32_t *turn)
{
    INVARIANT(policy < PLACEMENT_POLICY_COUNT);
    if (policy == PLACEMENT_ROUND_ROBIN)
        return take_turn(devices, count, hints, turn);
    uint32_t chosen = find_by(policy, devices, count, hints);
    if (policy != PLACEMENT_STICKY || chosen == PLACEMENT_NONE)
        return chosen;
    uint32_t home = find_home(devices, count, hints);
    const struct best none = { 0, 0 };
    double ahead = score_of(policy, &devices[chosen], hints, none) -
                   score_of(policy, &devices[home], hints, none);
    return ahead > PLACEMENT_STICKY_AHEAD ? chosen : home;
}

double placement_score(enum placement_policy policy, const struct placement_device *device,
                       const struct placement_hints *hints, float best_items_per_s,
                       float best_bytes_per_s)
{
    return score_of(policy, device, hints, (struct best){ best_items_per_s, best_bytes_per_s });
}
