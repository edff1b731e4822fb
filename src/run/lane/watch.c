#include "run/lane/watch.h"

#include "base/invariant.h"

/* Threads that wait for the device, or choose among devices, look again. */
static bool note_locked(const struct watch *watch, bool was_hung)
{
    bool is_hung = watch_is_hung(watch);
    device_view_locked(watch->device);
    platform_condition_wake_all(&watch->device->m->changed);
    if (is_hung != was_hung)
        trace_device_locked(watch->device,
                            is_hung ? MUSTER_TRACE_DEVICE_HUNG : MUSTER_TRACE_DEVICE_BACK,
                            watch->job, 0);
    return is_hung != was_hung;
}

bool watch_begin_locked(struct watch *watch, uint32_t stuck, uint32_t overdue)
{
    struct run_device *device = watch->device;
    bool was_hung = watch_is_hung(watch);
    watch->stuck += stuck;
    watch->overdue += overdue;
    device->stuck_calls += stuck;
    device->overdue += overdue;
    return note_locked(watch, was_hung);
}

bool watch_end_locked(struct watch *watch, uint32_t stuck, uint32_t overdue)
{
    struct run_device *device = watch->device;
    bool was_hung = watch_is_hung(watch);
    INVARIANT(watch->stuck >= stuck && watch->overdue >= overdue);
    watch->stuck -= stuck;
    watch->overdue -= overdue;
    device->stuck_calls -= stuck;
    device->overdue -= overdue;
    return note_locked(watch, was_hung);
}

void watch_tell(const struct watch *watch, bool is_hung)
{
    run_log(watch->device->m, is_hung ? MUSTER_LOG_ERROR : MUSTER_LOG_INFO,
            is_hung ? "%s does not answer: it is given nothing until it does" : "%s answers again",
            watch->device->info.id);
}
