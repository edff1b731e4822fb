/*
 * What devices, picks and tasks tell a trace. Jobs' part is in run/job/conduct.h.
 */
#ifndef RUN_TRACE_H
#define RUN_TRACE_H

#include "run/runtime.h"

void trace_destroy(struct muster *m);
void trace_lost_locked(const struct run_device *device);
void trace_data_locked(const struct run_device *device, uint64_t bytes);
void trace_pick_locked(struct muster *m, uint32_t device);
/* Now, if it is recorded; else 0. */
static inline uint64_t trace_clock(const struct muster *m)
{
    return recording_is_on(&m->recording) ? platform_clock_ns() : 0;
}
/* A task began at `begin_ns`, of trace_clock and not 0, and ended just now. */
void trace_task(struct muster *m, uint64_t begin_ns, muster_status status);
/* One run of a task with a kernel: given to the device at `begin_ns`, seen to be over at `end_ns`. */
void trace_kernel_task_locked(const struct run_device *device, uint64_t begin_ns, uint64_t end_ns,
                              uint64_t items, muster_status status, bool is_retry);

#endif
