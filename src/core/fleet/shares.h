/*
 * Whose turn it is: several jobs share one worker's time by their weights. The job whose share is
 * behind gets the next slot. A job that has no work for a while gains no credit: when it is back it
 * stands where the one that is behind most stands.
 */
#ifndef CORE_FLEET_SHARES_H
#define CORE_FLEET_SHARES_H

#include <stdbool.h>
#include <stdint.h>

#define SHARES_NONE UINT32_MAX

struct share {
    double weight; /* above 0 */
    double used;   /* time charged, over the weight */
    bool is_here, is_dry;
};

struct shares {
    struct share *list; /* borrowed: `capacity` of them */
    uint32_t capacity;
    double floor; /* no job in use was ever further behind */
};

void shares_init(struct shares *shares, struct share *memory, uint32_t capacity);
/* A weight that is not above 0 counts as 1. Gives its number, SHARES_NONE if there is no room. */
uint32_t shares_add(struct shares *shares, double weight);
void shares_remove(struct shares *shares, uint32_t job);
/* It has nothing to run now, or has again. */
void shares_set_dry(struct shares *shares, uint32_t job, bool is_dry);
/* So much time of the worker went to it. */
void shares_charge(struct shares *shares, uint32_t job, uint64_t ns);
/* The job that is behind most, of those that have work; the first of several. SHARES_NONE if none has. */
uint32_t shares_next(const struct shares *shares);

#endif
