/*
 * The sim backend: devices described by numbers, "sim:0" and on, which behave in real time through
 * the same interface as real ones. Kernels that are C functions really run, so results are real;
 * only time and faults are pretended.
 */
#ifndef BACKEND_SIM_SIM_H
#define BACKEND_SIM_SIM_H

#include <muster/backend.h>

extern const struct muster_backend backend_sim;

/*
 * Checks a description without making a device of it: what muster_open refuses. NULL is allowed and
 * describes none.
 */
muster_status sim_check(const struct muster_allocator *allocator, const char *description,
                        struct muster_error *err);

#endif
