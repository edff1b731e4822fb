/*
 * Device memory: buffer objects, which have no address.
 */
#include "backend/opencl/device.h"

/* Room is reserved before the driver is asked, so that two callers cannot have the same. */
static bool reserve(struct opencl_device *device, uint64_t bytes)
{
    uint64_t used = atomic_load_explicit(&device->memory_used, memory_order_relaxed);
    do {
        if (bytes > device->memory_total || used > device->memory_total - bytes)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&device->memory_used, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

static void unreserve(struct opencl_device *device, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&device->memory_used, bytes, memory_order_relaxed);
}

/*
 * Drivers allocate when a buffer is first used. Moving it to the device is a use that changes
 * nothing, so that it need not be ordered with the first use of the caller's.
 */
static opencl_int touch(struct opencl_device *device, opencl_buffer buffer)
{
    const struct opencl_driver *driver = opencl_of(device);
    platform_mutex_lock(&device->queue_lock);
    opencl_int code =
        driver->clEnqueueMigrateMemObjects(device->queue, 1, &buffer, 0, 0, NULL, NULL);
    if (code == OPENCL_SUCCESS)
        code = driver->clFlush(device->queue);
    platform_mutex_unlock(&device->queue_lock);
    return code;
}

muster_status opencl_memory_allocate(void *state, void *stream, uint64_t bytes,
                                     struct muster_memory *out, struct muster_error *err)
{
    (void)stream;
    struct opencl_device *device = state;
    const struct opencl_driver *driver = opencl_of(device);
    muster_status status = opencl_ready(device, err);
    if (status != MUSTER_OK)
        return status;
    if (bytes > device->allocation_max || bytes > SIZE_MAX)
        return muster_error_fill(err, MUSTER_E_DEVICE_MEMORY, 0, "ask for several smaller pieces",
                                 "%llu bytes in one piece; this device gives at most %llu",
                                 (unsigned long long)bytes,
                                 (unsigned long long)device->allocation_max);
    if (!reserve(device, bytes))
        return muster_error_fill(
            err, MUSTER_E_DEVICE_MEMORY, 0, "free memory, or ask for less at a time",
            "%llu bytes; of the device's %llu, %llu are in use", (unsigned long long)bytes,
            (unsigned long long)device->memory_total,
            (unsigned long long)atomic_load_explicit(&device->memory_used, memory_order_relaxed));
    opencl_int code = OPENCL_SUCCESS;
    opencl_buffer buffer =
        driver->clCreateBuffer(device->context, OPENCL_MEM_READ_WRITE, (size_t)bytes, NULL, &code);
    if (buffer)
        code = touch(device, buffer);
    if (buffer && code == OPENCL_SUCCESS) {
        *out = (struct muster_memory){ .object = buffer, .bytes = bytes };
        return MUSTER_OK;
    }
    if (buffer)
        driver->clReleaseMemObject(buffer);
    unreserve(device, bytes);
    status = opencl_refused(device, code, "allocating memory", err);
    /* Here it is memory that a driver means by its resources. */
    if (status == MUSTER_E_DRIVER && code == OPENCL_OUT_OF_RESOURCES)
        status = muster_error_fill(err, MUSTER_E_DEVICE_MEMORY, code,
                                   "free memory, or ask for less at a time",
                                   "the device has no %llu bytes to give (%s)",
                                   (unsigned long long)bytes, opencl_code_name(code));
    return status;
}

muster_status opencl_memory_free(void *state, void *stream, struct muster_memory *memory,
                                 struct muster_error *err)
{
    (void)stream; /* the device has finished with it */
    struct opencl_device *device = state;
    /* Given back also where the answer is that the device is lost, and then perhaps tried again. */
    if (memory->object) {
        opencl_of(device)->clReleaseMemObject(memory->object);
        unreserve(device, memory->bytes);
        memory->object = NULL;
    }
    return opencl_check(device, err);
}
