/*
 * What tasks tell a trace.
 */
#include "run/task/task_pool.h"

void trace_task(struct muster *m, uint64_t begin_ns, muster_status status)
{
    static _Atomic uint32_t thread_count;
    static _Thread_local uint32_t thread;
    /* Relaxed: the numbers only have to differ. */
    if (thread == 0)
        thread = atomic_fetch_add_explicit(&thread_count, 1, memory_order_relaxed) + 1;
    recording_add(&m->recording,
                  &(struct muster_trace_event){
                      .kind = MUSTER_TRACE_TASK,
                      .outcome = status == MUSTER_OK ? MUSTER_TRACE_DONE : MUSTER_TRACE_FAILED,
                      .begin_ns = begin_ns,
                      .end_ns = platform_clock_ns(),
                      .thread = thread,
                      .status = status,
                  });
}

void trace_kernel_task_locked(const struct run_device *device, uint64_t begin_ns, uint64_t end_ns,
                              uint64_t items, muster_status status, bool is_retry)
{
    bool is_device = muster_status_discards(status) == MUSTER_DISCARD_DEVICE;
    recording_add(&device->m->recording,
                  &(struct muster_trace_event){ .kind = MUSTER_TRACE_TASK,
                                                .outcome = status == MUSTER_OK ? MUSTER_TRACE_DONE
                                                           : is_device         ? MUSTER_TRACE_LOST
                                                                       : MUSTER_TRACE_FAILED,
                                                .begin_ns = begin_ns,
                                                .end_ns = end_ns,
                                                .range = { 0, items },
                                                .device = device->index,
                                                .status = status,
                                                .is_retry = is_retry });
}
