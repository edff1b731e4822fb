#include "backend/opencl/driver.h"

#include <muster/backend.h>
#include <string.h>

/* The second is for machines where only the development file is installed. */
static const char *const loader_names[] = { "libOpenCL.so.1", "libOpenCL.so" };

static muster_status find(struct opencl_driver *driver, struct muster_error *err)
{
    const char *missing = NULL;
    void *symbol;
#define FIND(result, name, parameters)                                                             \
    symbol = platform_library_symbol(&driver->library, #name);                                     \
    memcpy(&driver->name, &symbol, sizeof symbol);                                                 \
    if (!symbol && !missing)                                                                       \
        missing = #name;
    OPENCL_FUNCTIONS(FIND)
    const char *required = missing;
    OPENCL_OPTIONAL_FUNCTIONS(FIND)
#undef FIND
    if (required)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "install a loader of OpenCL 1.2 or later (ocl-icd-libopencl1)",
                                 "the OpenCL loader has no %s", required);
    return MUSTER_OK;
}

muster_status opencl_driver_load(struct opencl_driver *driver, struct muster_error *err)
{
    struct muster_error first = { .size = sizeof first };
    struct muster_error again = { .size = sizeof again };
    if (platform_library_open(&driver->library, loader_names[0], &first) != MUSTER_OK &&
        platform_library_open(&driver->library, loader_names[1], &again) != MUSTER_OK)
        return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0,
                                 "install an OpenCL loader (ocl-icd-libopencl1) and a driver",
                                 "no OpenCL here: %s", first.text);
    return find(driver, err);
}

/* Also those that are only ever seen in messages. */
#define CODES(X)                                                                                   \
    X(SUCCESS, 0)                                                                                  \
    X(DEVICE_NOT_FOUND, -1)                                                                        \
    X(DEVICE_NOT_AVAILABLE, -2)                                                                    \
    X(COMPILER_NOT_AVAILABLE, -3)                                                                  \
    X(MEM_OBJECT_ALLOCATION_FAILURE, -4)                                                           \
    X(OUT_OF_RESOURCES, -5)                                                                        \
    X(OUT_OF_HOST_MEMORY, -6)                                                                      \
    X(PROFILING_INFO_NOT_AVAILABLE, -7)                                                            \
    X(MEM_COPY_OVERLAP, -8)                                                                        \
    X(BUILD_PROGRAM_FAILURE, -11)                                                                  \
    X(EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, -14)                                              \
    X(DEVICE_PARTITION_FAILED, -18)                                                                \
    X(INVALID_VALUE, -30)                                                                          \
    X(INVALID_PLATFORM, -32)                                                                       \
    X(INVALID_DEVICE, -33)                                                                         \
    X(INVALID_CONTEXT, -34)                                                                        \
    X(INVALID_QUEUE_PROPERTIES, -35)                                                               \
    X(INVALID_COMMAND_QUEUE, -36)                                                                  \
    X(INVALID_MEM_OBJECT, -38)                                                                     \
    X(INVALID_BUILD_OPTIONS, -43)                                                                  \
    X(INVALID_PROGRAM, -44)                                                                        \
    X(INVALID_PROGRAM_EXECUTABLE, -45)                                                             \
    X(INVALID_KERNEL_NAME, -46)                                                                    \
    X(INVALID_KERNEL, -48)                                                                         \
    X(INVALID_ARG_INDEX, -49)                                                                      \
    X(INVALID_ARG_VALUE, -50)                                                                      \
    X(INVALID_ARG_SIZE, -51)                                                                       \
    X(INVALID_KERNEL_ARGS, -52)                                                                    \
    X(INVALID_WORK_GROUP_SIZE, -54)                                                                \
    X(INVALID_WORK_ITEM_SIZE, -55)                                                                 \
    X(INVALID_EVENT_WAIT_LIST, -57)                                                                \
    X(INVALID_EVENT, -58)                                                                          \
    X(INVALID_OPERATION, -59)                                                                      \
    X(INVALID_BUFFER_SIZE, -61)                                                                    \
    X(INVALID_GLOBAL_WORK_SIZE, -63)                                                               \
    X(INVALID_DEVICE_PARTITION_COUNT, -68)                                                         \
    X(PLATFORM_NOT_FOUND_KHR, -1001)

const char *opencl_code_name(opencl_int code)
{
    switch (code) {
#define NAME(name, value)                                                                          \
    case value:                                                                                    \
        return "CL_" #name;
        CODES(NAME)
#undef NAME
    case OPENCL_ILLEGAL_ACCESS_NV:
        return "NVIDIA's code for an illegal access";
    default:
        return "an error of its own";
    }
}
