/*
 * A storm: a random machine, a random job on it and faults of every kind, made from a seed. The same
 * form holds what is read from a file, so that either can be judged and shrunk.
 */
#ifndef SIM_STORM_H
#define SIM_STORM_H

#include "model/scenario.h"

#define STORM_DEVICES_MAX 40
#define STORM_TEXT_MAX (1u << 17)
#define STORM_VERDICT_MAX 256

struct storm {
    struct model_device devices[STORM_DEVICES_MAX];
    size_t device_count;
    struct scenario_job job;
    uint64_t seed; /* of the simulation */
};

void storm_make(struct storm *storm, uint64_t seed);

/* As the JSON of a scenario; the number of bytes, without the terminator. */
size_t storm_print(const struct storm *storm, char text[STORM_TEXT_MAX]);
/* False if it is no scenario or has too many devices; says why on standard error. */
bool storm_read(struct storm *storm, const char *text, size_t bytes, uint64_t seed);

/*
 * Simulates it twice, checking every invariant after every step, and judges the answer. NULL, or
 * what is wrong, in `room`.
 */
const char *storm_judge(const struct storm *storm, char room[STORM_VERDICT_MAX]);

/* Leaves out and simplifies whatever it can, as long as something is still wrong with it. */
void storm_shrink(struct storm *storm);

#endif
