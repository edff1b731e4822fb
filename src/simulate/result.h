/*
 * What a simulation gives to the caller: one piece that muster_simulation_destroy gives back.
 */
#ifndef SIMULATE_RESULT_H
#define SIMULATE_RESULT_H

#include <muster/simulate.h>

struct result {
    struct muster_simulation simulation;               /* first: what the caller sees */
    struct muster_simulation_device *devices;          /* owns */
    const struct muster_simulation_device **pointers;  /* owns: what the caller sees of them */
    struct muster_simulation_job *jobs;                /* owns */
    const struct muster_simulation_job **job_pointers; /* owns */
    struct muster_allocator allocator;
};

/* All 0, with this many devices and jobs that know their size and devices that are "ok". NULL: no memory. */
struct result *result_make(const struct muster_allocator *allocator, size_t device_count,
                           size_t job_count);

/* The status of a simulation that there is no host memory for. */
muster_status result_no_memory(struct muster_error *err);

#endif
