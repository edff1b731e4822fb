/*
 * Cutting a device that is known: nothing of any room may be in use on it.
 */
#include "base/allocator.h"
#include "run/device/stream.h"
#include "run/memory/spare.h"
#include "run/task/tasks.h"

/* How long a cut waits for calls that only look at the device. */
#define CUT_PATIENCE_NS 1000000000u

/* Nothing of the device may be in use; from then on nothing new is. */
static muster_status begin_cut(struct muster *m, muster_device handle, struct run_device **out,
                               struct muster_error *err)
{
    struct run_device *device;
    run_lock(m);
    muster_status status = device_resolve_locked(m, handle, &device, err);
    bool is_known = status == MUSTER_OK;
    if (status == MUSTER_OK)
        status = device_check_locked(device, err);
    /* Calls that look at it, the poller's too, are over soon, if its driver answers at all. */
    uint64_t deadline_ns = platform_deadline_ns(CUT_PATIENCE_NS);
    while (status == MUSTER_OK && device->pins > 0 &&
           platform_condition_wait(&m->changed, &m->lock, deadline_ns))
        status = device_check_locked(device, err);
    if (status == MUSTER_OK && device->parent) {
        status = muster_error_fill(err, MUSTER_E_INVALID, 0, "cut the whole device in one call",
                                   "%s is a slice already", device->info.id);
    } else if (status == MUSTER_OK && !(device->info.capabilities & MUSTER_CAN_SLICE)) {
        status = muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                   "look for MUSTER_CAN_SLICE in its capabilities",
                                   "%s cannot be cut", device->info.id);
    } else if (status == MUSTER_OK &&
               (device->pins > 0 || device->streams_acquired > 0 || device->block_count > 0 ||
                device->zombies || device->streams_active > 0 || device->leases > 0 ||
                host_memory_used_by_locked(device))) {
        status = muster_error_fill(err, MUSTER_E_BUSY, 0,
                                   "release its streams, blocks and pinned memory first",
                                   "%s is in use", device->info.id);
    }
    if (status == MUSTER_OK) {
        device->is_closing = true;
        device_view_locked(device);
        *out = device;
    } else if (is_known) {
        run_error_device(err, device);
    }
    run_unlock(m);
    return status;
}

muster_status muster_device_slice(struct muster *m, muster_device handle, const uint32_t *sizes,
                                  size_t count, muster_device *out, struct muster_error *err)
{
    if (!m || !sizes || !out || count == 0)
        return run_bad_argument(err, "muster_device_slice", "an argument is NULL, or count is 0");
    if (run_is_forked(m))
        return run_say_forked(err);
    for (size_t i = 0; i < count; i++)
        if (sizes[i] == 0)
            return run_bad_argument(err, "muster_device_slice", "a slice of size 0");
    struct run_device **slices = allocator_take(&m->allocator, count, sizeof *slices);
    if (!slices)
        return run_no_memory(err, "slices");
    struct run_device *device;
    muster_status status = device_pin(m, handle, &device, err);
    if (status != MUSTER_OK)
        goto done;
    /* What has finished is not in use any more, also if nobody has looked since. */
    tasks_leave_device(m, device);
    flights_retire_all(device);
    spare_trim(device);
    zombies_reclaim(device);
    device_unpin(device);
    status = begin_cut(m, handle, &device, err);
    if (status != MUSTER_OK)
        goto done;
    backends_begin_probe(m, device->backend);
    status = device_cut(device, sizes, count, slices, err);
    run_lock(m);
    bool made = status == MUSTER_OK;
    if (made)
        status = devices_add_locked(m, slices, count, err);
    for (size_t i = 0; i < count && status == MUSTER_OK; i++)
        out[i] = device_handle_locked(slices[i]);
    device->is_sliced = status == MUSTER_OK;
    device->is_closing = false;
    device_view_locked(device);
    run_unlock(m);
    if (status != MUSTER_OK) {
        for (size_t i = made ? count : 0; i-- > 0;)
            device_destroy_unused(slices[i]);
        run_error_device(err, device);
        if (device->has_hung_slice)
            device_note(device, MUSTER_E_DEVICE_HUNG, NULL);
    }
    backends_end_probe(m, device->backend);
done:
    allocator_give(&m->allocator, slices, count, sizeof *slices);
    return status;
}
