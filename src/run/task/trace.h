/*
 * What tasks tell a trace.
 */
#ifndef RUN_TASK_TRACE_H
#define RUN_TASK_TRACE_H

#include "run/base/runtime.h"

/* A task began at `begin_ns`, of trace_clock and not 0, and ended just now. */
void trace_task(struct muster *m, uint64_t begin_ns, muster_status status);
/* One run of a task with a kernel: given to the device at `begin_ns`, seen to be over at `end_ns`. */
void trace_kernel_task_locked(const struct run_device *device, uint64_t begin_ns, uint64_t end_ns,
                              uint64_t items, muster_status status, bool is_retry);

#endif
