/*
 * A unit or a task in its device's figures, from when it is given to the device to when it has ended.
 * All with m->lock.
 */
#ifndef RUN_LOAD_H
#define RUN_LOAD_H

#include "run/device/stream.h"

enum load_end {
    LOAD_DONE,
    LOAD_UNTIMED, /* done, but its end was seen too late to measure anything by */
    LOAD_FAILED,
    LOAD_WITHDRAWN /* the device was not given it after all, or counts it elsewhere */
};

/* The next choice of a device sees it at once. */
struct throughput_mark load_begin_locked(struct run_device *device, uint64_t items,
                                         uint64_t now_ns);
/* After the last of several the caller brings the device's view up to date (device_view_locked). */
void load_end_locked(struct run_device *device, struct throughput_mark mark, uint64_t items,
                     enum load_end how, uint64_t now_ns);

#endif
