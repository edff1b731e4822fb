/*
 * How fast a lane is: items per nanosecond and the fixed cost of a unit, learnt from finished units
 * alone. Quick on purpose - a slow-down by four is believed after three units - unlike the reported
 * throughput (throughput.h). Pure.
 */
#ifndef CORE_RATE_H
#define CORE_RATE_H

#include <stdint.h>

struct rate {
    uint64_t samples;
    double item_ns;       /* time for one item beyond the fixed cost; 0: not measured */
    double overhead_ns;   /* the fixed cost of a unit */
    uint64_t small_items; /* a small, quick unit and what it took: where the fixed cost shows */
    double small_ns;
};

void rate_sample(struct rate *rate, uint64_t items, uint64_t elapsed_ns);

/* What was measured is old: if the next unit is faster, that one counts alone. */
void rate_doubt(struct rate *rate);

/* What a unit of this many items should take; 0 if nothing was measured. */
double rate_predict_ns(const struct rate *rate, double items);

/* Items per nanosecond, 0 if nothing was measured. */
double rate_per_ns(const struct rate *rate);

#endif
