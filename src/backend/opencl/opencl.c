/*
 * The backend's table, and finding the devices of all drivers that the loader knows.
 */
#include "backend/opencl/opencl.h"

#include "backend/opencl/device.h"
#include "base/allocator.h"
#include "platform/machine.h"

#include <stdio.h>
#include <string.h>

#define PLATFORMS_MAX 16u
#define DEVICES_PER_PLATFORM_MAX 64u

/* Commands without which nothing here works came with 1.2. */
static bool is_usable(const struct opencl_driver *driver, opencl_device_id id)
{
    char version[512] = "";
    unsigned major = 0, minor = 0;
    opencl_uint available = 0;
    driver->clGetDeviceInfo(id, OPENCL_DEVICE_AVAILABLE, sizeof available, &available, NULL);
    driver->clGetDeviceInfo(id, OPENCL_DEVICE_VERSION, sizeof version - 1, version, NULL);
    return available && sscanf(version, "OpenCL %u.%u", &major, &minor) == 2 &&
           (major > 1 || minor >= 2);
}

static muster_status add(struct opencl *opencl, opencl_device_id id, struct muster_error *err)
{
    if (opencl->count == opencl->capacity) {
        uint32_t capacity = opencl->capacity > 0 ? 2 * opencl->capacity : 8;
        const struct muster_allocator *allocator = opencl->services->allocator;
        opencl_device_id *ids = allocator_take(allocator, capacity, sizeof(opencl_device_id));
        if (!ids)
            return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL,
                                     "no memory for the list of devices");
        for (uint32_t i = 0; i < opencl->count; i++)
            ids[i] = opencl->ids[i];
        allocator_give(allocator, opencl->ids, opencl->capacity, sizeof(opencl_device_id));
        opencl->ids = ids;
        opencl->capacity = capacity;
    }
    opencl->ids[opencl->count++] = id;
    return MUSTER_OK;
}

/* A platform that fails to list its devices costs only its own. */
static muster_status add_platform(struct opencl *opencl, opencl_platform platform,
                                  uint32_t *too_old, struct muster_error *err)
{
    const struct opencl_driver *driver = &opencl->driver;
    opencl_device_id ids[DEVICES_PER_PLATFORM_MAX];
    opencl_uint count = 0;
    opencl_int code = driver->clGetDeviceIDs(platform, OPENCL_DEVICE_TYPE_ALL,
                                             DEVICES_PER_PLATFORM_MAX, ids, &count);
    if (code != OPENCL_SUCCESS && code != OPENCL_DEVICE_NOT_FOUND) {
        char name[512] = "?", text[640];
        driver->clGetPlatformInfo(platform, OPENCL_PLATFORM_NAME, sizeof name - 1, name, NULL);
        snprintf(text, sizeof text, "the OpenCL driver \"%s\" does not list its devices: %d, %s",
                 name, (int)code, opencl_code_name(code));
        opencl->services->log(opencl->services, MUSTER_LOG_WARNING, text);
    }
    if (code != OPENCL_SUCCESS)
        return MUSTER_OK;
    muster_status status = MUSTER_OK;
    for (opencl_uint i = 0; i < count && i < DEVICES_PER_PLATFORM_MAX && status == MUSTER_OK; i++) {
        if (is_usable(driver, ids[i]))
            status = add(opencl, ids[i], err);
        else
            (*too_old)++;
    }
    return status;
}

static void opencl_close(void *state)
{
    struct opencl *opencl = state;
    allocator_give(opencl->services->allocator, opencl->ids, opencl->capacity,
                   sizeof(opencl_device_id));
}

static muster_status opencl_open(void *state, const struct muster_services *services,
                                 uint32_t *device_count, struct muster_error *err)
{
    struct opencl *opencl = state;
    *opencl = (struct opencl){ .services = services };
    muster_status status = opencl_driver_load(&opencl->driver, err);
    if (status != MUSTER_OK)
        return status;
    opencl_platform platforms[PLATFORMS_MAX];
    opencl_uint count = 0;
    opencl_int code = opencl->driver.clGetPlatformIDs(PLATFORMS_MAX, platforms, &count);
    if (code == OPENCL_PLATFORM_NOT_FOUND_KHR || (code == OPENCL_SUCCESS && count == 0))
        return muster_error_fill(
            err, MUSTER_E_NOT_FOUND, code,
            "install a driver (pocl-opencl-icd, or the GPU vendor's), or look at OCL_ICD_VENDORS",
            "the OpenCL loader is here, but no driver: none is registered, or it does not load");
    if (code != OPENCL_SUCCESS)
        return muster_error_fill(err, MUSTER_E_DRIVER, code, "check the OpenCL installation",
                                 "OpenCL does not list its platforms: %d, %s", (int)code,
                                 opencl_code_name(code));
    uint32_t too_old = 0;
    for (opencl_uint i = 0; i < count && i < PLATFORMS_MAX && status == MUSTER_OK; i++)
        status = add_platform(opencl, platforms[i], &too_old, err);
    if (status == MUSTER_OK && opencl->count == 0)
        status = muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, NULL,
                                   "%u OpenCL driver%s here, and no device%s", (unsigned)count,
                                   count == 1 ? "" : "s",
                                   too_old > 0 ? " that is available and has OpenCL 1.2" : "");
    if (status == MUSTER_OK)
        *device_count = opencl->count;
    else
        opencl_close(opencl);
    return status;
}

static bool is_driver(const char *name)
{
    size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, ".icd") == 0;
}

/* Of a driver for what no other backend has: not NVIDIA's GPUs, nor the processor. */
static bool is_driver_of_others(const char *name)
{
    return is_driver(name) && strncmp(name, "nvidia", 6) != 0 && strncmp(name, "pocl", 4) != 0;
}

/* Drivers load compilers, and NVIDIA's takes as long as CUDA. */
static int opencl_is_slow(uint32_t *device_count)
{
    const char *folder = platform_environment("OCL_ICD_VENDORS");
    if (!folder)
        folder = "/etc/OpenCL/vendors";
    *device_count = platform_folder_count(folder, is_driver_of_others);
    return platform_folder_count(folder, is_driver) > 0;
}

const struct muster_backend backend_opencl = {
    .size = sizeof(struct muster_backend),
    .abi = MUSTER_BACKEND_ABI,
    .name = "opencl",
    .backend_bytes = sizeof(struct opencl),
    .device_bytes = sizeof(struct opencl_device),
    .stream_bytes = sizeof(struct opencl_stream_state),
    .event_bytes = sizeof(struct opencl_event_state),
    .kernel_bytes = sizeof(struct opencl_kernel_state),
    .open = opencl_open,
    .is_slow = opencl_is_slow,
    .close = opencl_close,
    .device_open = opencl_device_open,
    .device_close = opencl_device_close,
    .device_sample = opencl_device_sample,
    .slice_plan = opencl_slice_plan,
    .slice_open = opencl_slice_open,
    .slice_unplan = opencl_slice_unplan,
    .memory_allocate = opencl_memory_allocate,
    .memory_free = opencl_memory_free,
    .stream_open = opencl_stream_open,
    .stream_close = opencl_stream_close,
    .stream_native = opencl_stream_native,
    .stream_wait = opencl_stream_wait,
    .stream_query = opencl_stream_query,
    .event_init = opencl_event_init,
    .event_deinit = opencl_event_deinit,
    .event_record = opencl_event_record,
    .event_query = opencl_event_query,
    .event_wait = opencl_event_wait,
    .event_elapsed = opencl_event_elapsed,
    .copy = opencl_copy,
    .fill = opencl_fill,
    .host_call = opencl_host_call,
    .kernel_init = opencl_kernel_init,
    .kernel_deinit = opencl_kernel_deinit,
    .launch = opencl_launch,
};
