/*
 * What devices tell a trace. While nothing is recorded that is one flag read.
 */
#include "run/device/device.h"

void trace_device_locked(const struct run_device *device, enum muster_trace_kind kind, uint32_t job,
                         uint64_t bytes)
{
    struct muster *m = device->m;
    if (!recording_is_on(&m->recording))
        return;
    uint64_t now_ns = platform_clock_ns();
    recording_add(&m->recording, &(struct muster_trace_event){ .kind = kind,
                                                               .begin_ns = now_ns,
                                                               .end_ns = now_ns,
                                                               .bytes = bytes,
                                                               .device = device->index,
                                                               .job = job });
}
