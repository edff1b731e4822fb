/*
 * The part of OpenCL that is used here, declared again so that nothing of a vendor's is needed to
 * build, and found in the loader at run time. tests/driver_opencl/declarations.c compares all of it
 * with CL/cl.h where that is installed.
 */
#ifndef BACKEND_OPENCL_DRIVER_H
#define BACKEND_OPENCL_DRIVER_H

#include "platform/library.h"

#include <stdbool.h>
#include <stdint.h>

/* The comparison gives these itself, so that signatures can be compared exactly. */
#ifndef OPENCL_TYPES_GIVEN
typedef struct opencl_platform_object *opencl_platform;
typedef struct opencl_device_object *opencl_device_id;
typedef struct opencl_context_object *opencl_context;
typedef struct opencl_queue_object *opencl_queue;
typedef struct opencl_buffer_object *opencl_buffer;
typedef struct opencl_event_object *opencl_event;
typedef struct opencl_program_object *opencl_program;
typedef struct opencl_kernel_object *opencl_kernel_object;
typedef int32_t opencl_int;
typedef uint32_t opencl_uint;
typedef uint64_t opencl_ulong;
#endif

/* clang-format off */
#define OPENCL_CONSTANTS(X)                                                                        \
    X(SUCCESS, 0)                                                                                  \
    X(DEVICE_NOT_FOUND, -1)                                                                        \
    X(DEVICE_NOT_AVAILABLE, -2)                                                                    \
    X(MEM_OBJECT_ALLOCATION_FAILURE, -4)                                                           \
    X(OUT_OF_RESOURCES, -5)                                                                        \
    X(OUT_OF_HOST_MEMORY, -6)                                                                      \
    X(BUILD_PROGRAM_FAILURE, -11)                                                                  \
    X(EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, -14)                                              \
    X(INVALID_BUFFER_SIZE, -61)                                                                    \
    X(INVALID_KERNEL_NAME, -46)                                                                    \
    X(INVALID_ARG_SIZE, -51)                                                                       \
    X(COMPLETE, 0)                                                                                 \
    X(TRUE, 1)                                                                                     \
    X(FALSE, 0)                                                                                    \
    X(PLATFORM_NAME, 0x0902)                                                                       \
    X(DEVICE_TYPE, 0x1000)                                                                         \
    X(DEVICE_TYPE_CPU, 1 << 1)                                                                     \
    X(DEVICE_TYPE_GPU, 1 << 2)                                                                     \
    X(DEVICE_MAX_COMPUTE_UNITS, 0x1002)                                                            \
    X(DEVICE_MAX_MEM_ALLOC_SIZE, 0x1010)                                                           \
    X(DEVICE_DOUBLE_FP_CONFIG, 0x1032)                                                             \
    X(DEVICE_SINGLE_FP_CONFIG, 0x101b)                                                             \
    X(DEVICE_GLOBAL_MEM_SIZE, 0x101f)                                                              \
    X(DEVICE_AVAILABLE, 0x1027)                                                                    \
    X(DEVICE_COMPILER_AVAILABLE, 0x1028)                                                           \
    X(DEVICE_NAME, 0x102b)                                                                         \
    X(DEVICE_VERSION, 0x102f)                                                                      \
    X(DEVICE_EXTENSIONS, 0x1030)                                                                   \
    X(DEVICE_PARTITION_MAX_SUB_DEVICES, 0x1043)                                                    \
    X(DEVICE_PARTITION_PROPERTIES, 0x1044)                                                         \
    X(DEVICE_PARTITION_BY_COUNTS, 0x1087)                                                          \
    X(DEVICE_PARTITION_BY_COUNTS_LIST_END, 0)                                                      \
    X(FP_CORRECTLY_ROUNDED_DIVIDE_SQRT, 1 << 7)                                                    \
    X(QUEUE_PROPERTIES, 0x1093)                                                                    \
    X(QUEUE_PROFILING_ENABLE, 1 << 1)                                                              \
    X(MEM_READ_WRITE, 1 << 0)                                                                      \
    X(PROGRAM_BUILD_LOG, 0x1183)                                                                   \
    X(KERNEL_NUM_ARGS, 0x1191)                                                                     \
    X(KERNEL_WORK_GROUP_SIZE, 0x11b0)                                                              \
    X(KERNEL_COMPILE_WORK_GROUP_SIZE, 0x11b1)                                                      \
    X(KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, 0x11b3)                                           \
    X(EVENT_COMMAND_EXECUTION_STATUS, 0x11d3)                                                      \
    X(PROFILING_COMMAND_END, 0x1283)

/* Of extensions, which CL/cl.h does not have. */
#define OPENCL_EXTENSION_CONSTANTS(X)                                                              \
    X(PLATFORM_NOT_FOUND_KHR, -1001)                                                               \
    X(QUEUE_PRIORITY_KHR, 0x1096)                                                                  \
    X(QUEUE_PRIORITY_HIGH_KHR, 1 << 0)                                                             \
    X(QUEUE_PRIORITY_LOW_KHR, 1 << 2)                                                              \
    X(DEVICE_PCI_BUS_INFO_KHR, 0x410f)                                                             \
    X(DEVICE_PCI_BUS_ID_NV, 0x4008)                                                                \
    X(DEVICE_PCI_SLOT_ID_NV, 0x4009)                                                               \
    X(DEVICE_PCI_DOMAIN_ID_NV, 0x400a)                                                             \
    X(DEVICE_GLOBAL_FREE_MEMORY_AMD, 0x4039)
/* clang-format on */

#define OPENCL_CONSTANT(name, value) OPENCL_##name = (value),
enum opencl_constant {
    OPENCL_CONSTANTS(OPENCL_CONSTANT) OPENCL_EXTENSION_CONSTANTS(OPENCL_CONSTANT)
};
#undef OPENCL_CONSTANT
#define OPENCL_DEVICE_TYPE_ALL UINT64_C(0xffffffff) /* does not fit an enumeration */
/* What NVIDIA's driver answers after an illegal access; not in any header. */
#define OPENCL_ILLEGAL_ACCESS_NV (-9999)

/* Result, name, parameters. All are of OpenCL 1.2 or older. */
/* clang-format off */
#define OPENCL_FUNCTIONS(X)                                                                        \
    X(opencl_int, clGetPlatformIDs, (opencl_uint, opencl_platform *, opencl_uint *))               \
    X(opencl_int, clGetPlatformInfo, (opencl_platform, opencl_uint, size_t, void *, size_t *))     \
    X(opencl_int, clGetDeviceIDs,                                                                  \
      (opencl_platform, opencl_ulong, opencl_uint, opencl_device_id *, opencl_uint *))             \
    X(opencl_int, clGetDeviceInfo, (opencl_device_id, opencl_uint, size_t, void *, size_t *))      \
    X(opencl_int, clCreateSubDevices,                                                              \
      (opencl_device_id, const intptr_t *, opencl_uint, opencl_device_id *, opencl_uint *))        \
    X(opencl_int, clReleaseDevice, (opencl_device_id))                                             \
    X(opencl_context, clCreateContext,                                                             \
      (const intptr_t *, opencl_uint, const opencl_device_id *,                                    \
       void (*)(const char *, const void *, size_t, void *), void *, opencl_int *))                \
    X(opencl_int, clReleaseContext, (opencl_context))                                              \
    X(opencl_queue, clCreateCommandQueue,                                                          \
      (opencl_context, opencl_device_id, opencl_ulong, opencl_int *))                              \
    X(opencl_int, clReleaseCommandQueue, (opencl_queue))                                           \
    X(opencl_int, clFlush, (opencl_queue))                                                         \
    X(opencl_buffer, clCreateBuffer, (opencl_context, opencl_ulong, size_t, void *, opencl_int *)) \
    X(opencl_int, clReleaseMemObject, (opencl_buffer))                                             \
    X(opencl_int, clEnqueueMigrateMemObjects,                                                      \
      (opencl_queue, opencl_uint, const opencl_buffer *, opencl_ulong, opencl_uint,                \
       const opencl_event *, opencl_event *))                                                      \
    X(opencl_int, clEnqueueReadBuffer,                                                             \
      (opencl_queue, opencl_buffer, opencl_uint, size_t, size_t, void *, opencl_uint,              \
       const opencl_event *, opencl_event *))                                                      \
    X(opencl_int, clEnqueueWriteBuffer,                                                            \
      (opencl_queue, opencl_buffer, opencl_uint, size_t, size_t, const void *, opencl_uint,        \
       const opencl_event *, opencl_event *))                                                      \
    X(opencl_int, clEnqueueCopyBuffer,                                                             \
      (opencl_queue, opencl_buffer, opencl_buffer, size_t, size_t, size_t, opencl_uint,            \
       const opencl_event *, opencl_event *))                                                      \
    X(opencl_int, clEnqueueFillBuffer,                                                             \
      (opencl_queue, opencl_buffer, const void *, size_t, size_t, size_t, opencl_uint,             \
       const opencl_event *, opencl_event *))                                                      \
    X(opencl_int, clEnqueueMarkerWithWaitList,                                                     \
      (opencl_queue, opencl_uint, const opencl_event *, opencl_event *))                           \
    X(opencl_int, clEnqueueBarrierWithWaitList,                                                    \
      (opencl_queue, opencl_uint, const opencl_event *, opencl_event *))                           \
    X(opencl_event, clCreateUserEvent, (opencl_context, opencl_int *))                             \
    X(opencl_int, clSetUserEventStatus, (opencl_event, opencl_int))                                \
    X(opencl_int, clSetEventCallback,                                                              \
      (opencl_event, opencl_int, void (*)(opencl_event, opencl_int, void *), void *))              \
    X(opencl_int, clGetEventInfo, (opencl_event, opencl_uint, size_t, void *, size_t *))           \
    X(opencl_int, clGetEventProfilingInfo, (opencl_event, opencl_uint, size_t, void *, size_t *))  \
    X(opencl_int, clRetainEvent, (opencl_event))                                                   \
    X(opencl_int, clReleaseEvent, (opencl_event))                                                  \
    X(opencl_program, clCreateProgramWithSource,                                                   \
      (opencl_context, opencl_uint, const char **, const size_t *, opencl_int *))                  \
    X(opencl_int, clBuildProgram,                                                                  \
      (opencl_program, opencl_uint, const opencl_device_id *, const char *,                        \
       void (*)(opencl_program, void *), void *))                                                  \
    X(opencl_int, clGetProgramBuildInfo,                                                           \
      (opencl_program, opencl_device_id, opencl_uint, size_t, void *, size_t *))                   \
    X(opencl_int, clReleaseProgram, (opencl_program))                                              \
    X(opencl_kernel_object, clCreateKernel, (opencl_program, const char *, opencl_int *))          \
    X(opencl_int, clReleaseKernel, (opencl_kernel_object))                                         \
    X(opencl_int, clGetKernelInfo, (opencl_kernel_object, opencl_uint, size_t, void *, size_t *))  \
    X(opencl_int, clGetKernelWorkGroupInfo,                                                        \
      (opencl_kernel_object, opencl_device_id, opencl_uint, size_t, void *, size_t *))             \
    X(opencl_int, clSetKernelArg, (opencl_kernel_object, opencl_uint, size_t, const void *))       \
    X(opencl_int, clEnqueueNDRangeKernel,                                                          \
      (opencl_queue, opencl_kernel_object, opencl_uint, const size_t *, const size_t *,            \
       const size_t *, opencl_uint, const opencl_event *, opencl_event *))

/* Of OpenCL 2.0: NULL in an older loader. */
#define OPENCL_OPTIONAL_FUNCTIONS(X)                                                               \
    X(opencl_queue, clCreateCommandQueueWithProperties,                                            \
      (opencl_context, opencl_device_id, const opencl_ulong *, opencl_int *))
/* clang-format on */

struct opencl_driver {
    struct platform_library library;
#define OPENCL_FUNCTION(result, name, parameters) result(*name) parameters;
    OPENCL_FUNCTIONS(OPENCL_FUNCTION)
    OPENCL_OPTIONAL_FUNCTIONS(OPENCL_FUNCTION)
#undef OPENCL_FUNCTION
};

/*
 * MUSTER_E_NOT_FOUND if the machine has no loader. The loader stays loaded for good: drivers leave
 * threads of their own behind.
 */
muster_status opencl_driver_load(struct opencl_driver *driver, struct muster_error *err);

/* "CL_OUT_OF_RESOURCES", or "an error of its own" for what OpenCL does not define. */
const char *opencl_code_name(opencl_int code);

#endif
