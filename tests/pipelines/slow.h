/*
 * The cpu backend with one stream that is slow: each copy, fill and launch on it is held back for a
 * while. What is not ordered behind such an operation overtakes it, every time.
 *
 * There is one in a process at a time. Its device is "slow:0".
 */
#ifndef PIPELINES_SLOW_H
#define PIPELINES_SLOW_H

#include <muster/backend.h>
#include <stdbool.h>

#define SLOW_NONE (-1)

/* Without gates: as a device that cannot wait for values. */
const struct muster_backend *slow_wrap(bool has_gates);

/* Which stream is slow, by the order in which they were opened, and for how long. Before the work. */
void slow_choose(int stream, uint64_t delay_ns);

#endif
