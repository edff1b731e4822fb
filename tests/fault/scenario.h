/*
 * What a careful user does with a runtime, from open to close: every status is looked at, what was
 * got is given back, and after a failure the rest is done that still can be. Used by all programs
 * of this folder, which make one thing after another fail underneath it.
 *
 * It checks by itself that a failure says what it is, that a success leaves the error alone, and
 * that each result whose every step was reported as done is right.
 */
#ifndef FAULT_SCENARIO_H
#define FAULT_SCENARIO_H

#include <muster/muster.h>
#include <stdbool.h>

#define SCENARIO_ITEMS 1024
#define SCENARIO_DEVICES 4

struct scenario_buffers;

struct scenario {
    /* Set by the caller: */
    const char *label;                        /* what was made to fail, for messages */
    const struct muster_backend *backend;     /* given to the runtime; NULL: none */
    const char *devices, *sim;                /* as in muster_options */
    const struct muster_allocator *allocator; /* as in muster_options */
    bool (*allows)(const struct scenario *scenario, const char *step, muster_status status);
    /* Found by scenario_run: */
    uint64_t failures, verified;
    muster_status first_failure; /* MUSTER_OK if there was none */
    bool was_opened;
    muster_status close_status;
    struct muster_error close_error;
    /* The scenario's own: */
    struct muster *m;
    struct muster_error err;
    struct scenario_buffers *buffers[SCENARIO_DEVICES]; /* each outlives the runtime */
    size_t buffers_count;
};

/* Ends the test at the first thing that is wrong. */
void scenario_run(struct scenario *scenario);

/* Frees the memory that devices were given. */
void scenario_deinit(struct scenario *scenario);

/* How many results there are to verify on the devices described below when nothing fails. */
#define SCENARIO_VERIFIED_WHOLE 5
#define SCENARIO_VERIFIED_BRIEF 1

/* A plain device, and one that can be cut: the scenario uses the first, then the parts of the second. */
extern const char scenario_sim[];

#endif
