/*
 * Jobs on many machines, simulated: what simulate.c asks for where a scenario has machines.
 */
#ifndef SIMULATE_MACHINES_RUN_H
#define SIMULATE_MACHINES_RUN_H

#include <muster/simulate.h>

/* As muster_simulate, of a text with machines; the options and the allocator were read. */
muster_status machines_simulate(const char *text, size_t bytes,
                                const struct muster_simulation_options *options,
                                const struct muster_allocator *allocator,
                                struct muster_simulation **out, struct muster_error *err);

struct machines_sim;
/* Until all jobs have ended: machines.c. */
void machines_run(struct machines_sim *sim);

#endif
