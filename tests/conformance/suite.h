/*
 * The conformance suite: what include/muster/backend.h asks of every backend, as tests. Each file
 * holds the cases of one subject; the same cases run for every backend, and one that needs what a
 * device does not have checks that it is refused in this many words.
 */
#ifndef CONFORMANCE_SUITE_H
#define CONFORMANCE_SUITE_H

#include "rig.h"

/* The backend that --backend names, opened again. */
struct rig *suite_open(void);

struct suite_part {
    const struct test *tests;
    size_t count;
};

extern const struct suite_part suite_devices, suite_memory, suite_copies, suite_streams,
    suite_events, suite_gates, suite_calls, suite_launches, suite_pieces, suite_failures,
    suite_threads;

#define SUITE_PART(name)                                                                           \
    const struct suite_part suite_##name = { tests, sizeof tests / sizeof *tests }

#endif
