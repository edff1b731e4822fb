/*
 * Devices that do not answer, found by jobs or by tasks. A device is hung while a call of its driver
 * does not return, or while work that was given up has not ended. It refuses new work until then
 * (device_check_locked), and takes work again as soon as the last such call has returned and the
 * last such work has ended. A hang is no loss: it says nothing of the other devices of the failure
 * domain, and slices of the same GPU go on.
 */
#ifndef RUN_WATCH_H
#define RUN_WATCH_H

#include "run/device/device.h"

/*
 * What one lane adds to its device's `stuck_calls` and `overdue`. Changed with m->lock and, where the
 * lane has a lock of its own, with that too: then either is enough to read it.
 */
struct watch {
    struct run_device *device;
    uint32_t job;     /* whose lane it is, by its number in traces; 0: the tasks' */
    uint32_t stuck;   /* driver calls of the lane that do not return */
    uint32_t overdue; /* attempts of the lane that were given up and have not ended */
};

static inline bool watch_is_hung(const struct watch *watch)
{
    return watch->stuck > 0 || watch->overdue > 0;
}

/*
 * This many driver calls do not return, and this many attempts are given up; or they have come back. True
 * if the lane begins to hang, or ends: the caller tells that without the lock.
 */
bool watch_begin_locked(struct watch *watch, uint32_t stuck, uint32_t overdue);
bool watch_end_locked(struct watch *watch, uint32_t stuck, uint32_t overdue);
/* Logs that the device does not answer, or answers again. No lock is held. */
void watch_tell(const struct watch *watch, bool is_hung);

#endif
