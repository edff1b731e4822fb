/*
 * The fixed cut of a job into grains, and a set of grains. A grain is the smallest piece whose result
 * is stored: grain g is the same range of items for ever, whichever worker runs it and whenever.
 */
#ifndef CORE_GRAINS_H
#define CORE_GRAINS_H

#include <muster/job.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most grains of a job: a set of them takes a bit for each, 8 MiB. */
#define GRAINS_MAX (UINT64_C(1) << 26)

/* How many grains of this many items there are, the last of which may be smaller; 0 if `grain` is 0. */
uint64_t grains_count(uint64_t items, uint64_t grain);
/* The items of grains [from, to). */
struct muster_range grains_items(uint64_t items, uint64_t grain, struct muster_range grains);

/* A set of grains below `count`. The caller gives the memory, which is borrowed. */
struct grain_set {
    uint64_t *words;
    uint64_t count;
    uint64_t members;
};

size_t grain_set_bytes(uint64_t count);
/* Empty. */
void grain_set_init(struct grain_set *set, void *memory, uint64_t count);
/* Adds those of the range that are below `count`; gives how many were not members before. */
uint64_t grain_set_add(struct grain_set *set, struct muster_range range);
/* Takes out those of the range; gives how many were members. */
uint64_t grain_set_remove(struct grain_set *set, struct muster_range range);
bool grain_set_has(const struct grain_set *set, uint64_t grain);
/* The end of the run that `from` is in: all from there to it are members, or none is; at most `limit`. */
uint64_t grain_set_run_end(const struct grain_set *set, uint64_t from, uint64_t limit);

#endif
