/*
 * When a driver that takes long to open is worth opening for jobs that can do without it. Opening costs the
 * cores that work meanwhile, and a process that ends in the middle of it pays for the driver's clean-up: a
 * job that is over before its driver is ready must not have opened it. Pure: the caller has the clock.
 */
#ifndef CORE_OPENING_H
#define CORE_OPENING_H

#include <stdbool.h>
#include <stdint.h>

/* What opening a driver takes: CUDA and NVIDIA's OpenCL on an H200, some 0.4 s. */
#define OPENING_NS UINT64_C(400000000)
/* From this on the rate of a job is trusted; it is looked at from OPENING_FIRST_NS on. */
#define OPENING_SURE_NS UINT64_C(50000000)
#define OPENING_FIRST_NS UINT64_C(20000000)
/* What jobs may take without the driver where nobody knows how much is to come. */
#define OPENING_UNKNOWN_NS UINT64_C(250000000)

#define OPENING_NEVER UINT64_MAX

struct opening {
    uint64_t start_ns;  /* of the job */
    uint64_t begun_ns;  /* when its first unit was claimed; OPENING_NEVER: none was */
    uint64_t items;     /* UINT64_MAX: nobody knows how many */
    uint64_t claimed;   /* of these: done, or under way */
    uint64_t before_ns; /* what earlier jobs of the runtime took without the driver */
    bool is_alone;      /* no device that is open can go on */
    bool has_devices;   /* devices are expected that could take part in the job */
};

/*
 * Whether to open it now. At once, if no other device can go on, or if earlier jobs took
 * OPENING_UNKNOWN_NS: more will come. A driver of which no devices are expected is opened for no other
 * reason. Else when the unclaimed items take longer, at the rate so far, than the opening and a
 * quarter of it; before OPENING_SURE_NS of work it must take longer in proportion. What is under way counts
 * as done: how much of it is, nobody knows, and early in a job it is the larger part. Where the number of
 * items is not known: when this job and earlier ones took OPENING_UNKNOWN_NS.
 */
bool opening_is_worth(const struct opening *opening, uint64_t now_ns);

/* When to ask again, after a no. */
uint64_t opening_look_ns(const struct opening *opening, uint64_t now_ns);

#endif
