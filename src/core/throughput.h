/*
 * The reported throughput of a device: an exponential moving average over finished pieces, in units
 * per second of wall time with concurrency counted, so that two pieces side by side on one device
 * show the device's rate and not half of it. Pure; time is a parameter.
 */
#ifndef CORE_THROUGHPUT_H
#define CORE_THROUGHPUT_H

#include <stdint.h>

#define THROUGHPUT_ALPHA 0.1

struct throughput {
    uint64_t depth;      /* pieces in flight */
    uint64_t area;       /* depth summed over time, in piece-nanoseconds; wraps */
    uint64_t changed_ns; /* when depth last changed */
    double per_s;        /* 0 until the first piece has finished */
};

/* What a piece keeps from its begin to its end. */
struct throughput_mark {
    uint64_t begin_ns, area;
};

struct throughput_mark throughput_begin(struct throughput *throughput, uint64_t now_ns);

/* The piece has ended; `amount` 0 (it failed) leaves the average as it is. */
void throughput_end(struct throughput *throughput, uint64_t now_ns, struct throughput_mark mark,
                    uint64_t amount);

#endif
