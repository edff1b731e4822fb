/*
 * Work over ranges: how a total is cut into units.
 */
#ifndef MUSTER_JOB_H
#define MUSTER_JOB_H

#include <muster/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Items [begin, end). */
struct muster_range {
    uint64_t begin, end;
};

/*
 * The plain rule: max(1, total / (4 x devices)) items a unit, for any numbers; 0 without items or
 * devices.
 */
MUSTER_API uint64_t muster_partition_unit(uint64_t total, uint64_t devices);

/* How many units that makes. */
MUSTER_API uint64_t muster_partition_count(uint64_t total, uint64_t devices);

/* Unit number `index`; an empty range past the last. */
MUSTER_API struct muster_range muster_partition_at(uint64_t total, uint64_t devices,
                                                   uint64_t index);

/*
 * Writes all units: contiguous, none empty, the last clipped, together exactly [0, total). `*count`
 * is always set to how many there are; with `capacity` too small the status is MUSTER_E_CAPACITY
 * and no unit is written. Pure; any thread.
 */
MUSTER_API muster_status muster_partition(uint64_t total, uint64_t devices,
                                          struct muster_range *out, uint64_t capacity,
                                          uint64_t *count, struct muster_error *err);

#ifdef __cplusplus
}
#endif

#endif
