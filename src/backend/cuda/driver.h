/*
 * What this backend uses of CUDA's driver interface, declared by us and found in libcuda.so.1 at run
 * time, so that one binary serves machines with and without it.
 *
 * Names of types and constants are ours, numbers and layouts are the driver's; where the toolkit's
 * cuda.h is found, tests/checks/cuda_declarations.c compares them one by one. Functions are listed
 * under the names the library exports, versions included, since that is what the loader looks up.
 */
#ifndef BACKEND_CUDA_DRIVER_H
#define BACKEND_CUDA_DRIVER_H

#include "platform/library.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef unsigned int cuda_result; /* 0: success */
typedef int cuda_device_number;
typedef unsigned long long cuda_pointer;
typedef unsigned int cuda_attribute;
typedef unsigned int cuda_pool_attribute;
typedef unsigned int cuda_jit_option;
typedef unsigned int cuda_pointer_attribute;
typedef unsigned int cuda_function_attribute;
typedef unsigned int cuda_resource_type;
typedef struct CUctx_st *cuda_context;
typedef struct CUgreenCtx_st *cuda_green_context;
typedef struct CUstream_st *cuda_stream_handle;
typedef struct CUevent_st *cuda_event_handle;
typedef struct CUmod_st *cuda_module;
typedef struct CUfunc_st *cuda_function;
typedef struct CUmemPoolHandle_st *cuda_pool;
typedef struct CUdevResourceDesc_st *cuda_resource_desc;
typedef struct CUgraph_st *cuda_graph_handle;
typedef struct CUgraphNode_st *cuda_graph_node_handle;
typedef struct CUgraphExec_st *cuda_graph_exec_handle;
typedef void (*cuda_host_function)(void *user);

typedef struct {
    char bytes[16];
} cuda_uuid;

typedef struct {
    unsigned int allocation_type;
    unsigned int handle_types;
    struct {
        unsigned int type;
        int id;
    } location;
    void *security;
    size_t max_size;
    unsigned char reserved[56];
} cuda_pool_properties;

typedef struct {
    cuda_resource_type type;
    unsigned char internal[92];
    union {
        struct {
            unsigned int count;     /* multiprocessors in it */
            unsigned int least;     /* of a part */
            unsigned int alignment; /* a part is a multiple of this */
        } sm;
        unsigned char oversize[48];
    } of;
} cuda_resource;

/* A launch as a node of a graph. */
typedef struct {
    cuda_function function;
    unsigned int grid[3], block[3];
    unsigned int shared_bytes;
    void **parameters;
    void **extra;
    void *kernel; /* looked at, as is the context, where there is no function */
    cuda_context context;
} cuda_kernel_node;

/* The default stream that waits for all blocking streams of its context. */
#define CUDA_STREAM_LEGACY ((cuda_stream_handle)0x1)

/* X(our name, the toolkit's name, value) */
#define CUDA_CONSTANTS(X)                                                                          \
    X(CUDA_FLAG_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING, 0x1)                                  \
    X(CUDA_FLAG_EVENT_TIMING, CU_EVENT_DEFAULT, 0x0)                                               \
    X(CUDA_FLAG_EVENT_NO_TIMING, CU_EVENT_DISABLE_TIMING, 0x2)                                     \
    X(CUDA_FLAG_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE, 0x1)                                      \
    X(CUDA_FLAG_HOST_MAPPED, CU_MEMHOSTALLOC_DEVICEMAP, 0x2)                                       \
    X(CUDA_FLAG_REGISTER_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE, 0x1)                               \
    X(CUDA_FLAG_REGISTER_MAPPED, CU_MEMHOSTREGISTER_DEVICEMAP, 0x2)                                \
    X(CUDA_FLAG_WAIT_GEQ, CU_STREAM_WAIT_VALUE_GEQ, 0x0)                                           \
    X(CUDA_FLAG_GREEN_DEFAULT_STREAM, CU_GREEN_CTX_DEFAULT_STREAM, 0x1)                            \
    X(CUDA_ATTRIBUTE_THREADS_MAX, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1)                    \
    X(CUDA_ATTRIBUTE_GRID_X, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 5)                                \
    X(CUDA_ATTRIBUTE_CLOCK_KHZ, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 13)                                \
    X(CUDA_ATTRIBUTE_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                \
    X(CUDA_ATTRIBUTE_COPY_ENGINES, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 40)                     \
    X(CUDA_ATTRIBUTE_UNIFIED_ADDRESSES, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41)                \
    X(CUDA_ATTRIBUTE_COMPUTE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)              \
    X(CUDA_ATTRIBUTE_COMPUTE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)              \
    X(CUDA_ATTRIBUTE_PRIORITIES, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 78)              \
    X(CUDA_ATTRIBUTE_HOST_REGISTER, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 99)               \
    X(CUDA_ATTRIBUTE_MEMORY_POOLS, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 115)                \
    X(CUDA_ATTRIBUTE_WAIT_VALUE_64, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 122)        \
    X(CUDA_ATTRIBUTE_HOST_NUMA, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 134)                             \
    X(CUDA_POOL_RELEASE_THRESHOLD, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 4)                           \
    X(CUDA_POOL_RESERVED, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 5)                                 \
    X(CUDA_POOL_USED, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 7)                                         \
    X(CUDA_POOL_REUSE_BY_WAITING, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 3)            \
    X(CUDA_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                               \
    X(CUDA_MEMORY_TYPE_HOST, CU_MEMORYTYPE_HOST, 1)                                                \
    X(CUDA_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED, 1)                                    \
    X(CUDA_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE, 1)                                        \
    X(CUDA_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BUFFER, 5)                                              \
    X(CUDA_JIT_ERROR_LOG_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)                             \
    X(CUDA_FUNCTION_THREADS_MAX, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0)                       \
    X(CUDA_RESOURCE_SM, CU_DEV_RESOURCE_TYPE_SM, 1)                                                \
    X(CUDA_SUCCESS_, CUDA_SUCCESS, 0)                                                              \
    X(CUDA_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE, 1)                                             \
    X(CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, 2)                                             \
    X(CUDA_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED, 3)                                         \
    X(CUDA_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED, 4)                                             \
    X(CUDA_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY, 34)                                              \
    X(CUDA_NEWER_DRIVER, CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, 36)                                \
    X(CUDA_DEVICE_UNAVAILABLE, CUDA_ERROR_DEVICE_UNAVAILABLE, 46)                                  \
    X(CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE, 100)                                                   \
    X(CUDA_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE, 101)                                         \
    X(CUDA_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE, 200)                                           \
    X(CUDA_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT, 201)                                       \
    X(CUDA_NO_BINARY, CUDA_ERROR_NO_BINARY_FOR_GPU, 209)                                           \
    X(CUDA_ECC, CUDA_ERROR_ECC_UNCORRECTABLE, 214)                                                 \
    X(CUDA_INVALID_PTX, CUDA_ERROR_INVALID_PTX, 218)                                               \
    X(CUDA_NVLINK, CUDA_ERROR_NVLINK_UNCORRECTABLE, 220)                                           \
    X(CUDA_NO_JIT, CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221)                                         \
    X(CUDA_NEWER_PTX, CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222)                                     \
    X(CUDA_JIT_DISABLED, CUDA_ERROR_JIT_COMPILATION_DISABLED, 223)                                 \
    X(CUDA_CONTAINED, CUDA_ERROR_CONTAINED, 226)                                                   \
    X(CUDA_INVALID_SOURCE, CUDA_ERROR_INVALID_SOURCE, 300)                                         \
    X(CUDA_OPERATING_SYSTEM, CUDA_ERROR_OPERATING_SYSTEM, 304)                                     \
    X(CUDA_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE, 400)                                         \
    X(CUDA_NOT_FOUND, CUDA_ERROR_NOT_FOUND, 500)                                                   \
    X(CUDA_NOT_READY, CUDA_ERROR_NOT_READY, 600)                                                   \
    X(CUDA_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS, 700)                                       \
    X(CUDA_LAUNCH_RESOURCES, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701)                              \
    X(CUDA_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT, 702)                                         \
    X(CUDA_CONTEXT_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED, 709)                                \
    X(CUDA_ASSERT, CUDA_ERROR_ASSERT, 710)                                                         \
    X(CUDA_ALREADY_REGISTERED, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712)                     \
    X(CUDA_NOT_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713)                             \
    X(CUDA_HARDWARE_STACK, CUDA_ERROR_HARDWARE_STACK_ERROR, 714)                                   \
    X(CUDA_ILLEGAL_INSTRUCTION, CUDA_ERROR_ILLEGAL_INSTRUCTION, 715)                               \
    X(CUDA_MISALIGNED, CUDA_ERROR_MISALIGNED_ADDRESS, 716)                                         \
    X(CUDA_ADDRESS_SPACE, CUDA_ERROR_INVALID_ADDRESS_SPACE, 717)                                   \
    X(CUDA_INVALID_PC, CUDA_ERROR_INVALID_PC, 718)                                                 \
    X(CUDA_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED, 719)                                           \
    X(CUDA_TENSOR_MEMORY, CUDA_ERROR_TENSOR_MEMORY_LEAK, 721)                                      \
    X(CUDA_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED, 800)                                           \
    X(CUDA_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED, 801)                                           \
    X(CUDA_SYSTEM_NOT_READY, CUDA_ERROR_SYSTEM_NOT_READY, 802)                                     \
    X(CUDA_DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803)                                \
    X(CUDA_NOT_COMPATIBLE, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804)                         \
    X(CUDA_MPS_TERMINATED, CUDA_ERROR_MPS_CLIENT_TERMINATED, 810)                                  \
    X(CUDA_EXTERNAL_DEVICE, CUDA_ERROR_EXTERNAL_DEVICE, 911)                                       \
    X(CUDA_RESOURCE_CONFIGURATION, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, 915)                 \
    X(CUDA_UNKNOWN, CUDA_ERROR_UNKNOWN, 999)

enum cuda_constant {
#define CUDA_CONSTANT(ours, theirs, value) ours = value,
    CUDA_CONSTANTS(CUDA_CONSTANT)
#undef CUDA_CONSTANT
};

/*
 * X(member, symbol, (parameters)): the symbol as the library exports it. A driver of CUDA 11.2 or
 * later has all that are required; the last of the optional ones came with 12.5.
 */
#define CUDA_DRIVER_WANTED "11.2"
#define CUDA_REQUIRED(X)                                                                           \
    X(init, cuInit, (unsigned int))                                                                \
    X(driver_version, cuDriverGetVersion, (int *))                                                 \
    X(error_name, cuGetErrorName, (cuda_result, const char **))                                    \
    X(error_string, cuGetErrorString, (cuda_result, const char **))                                \
    X(device_count, cuDeviceGetCount, (int *))                                                     \
    X(device_get, cuDeviceGet, (cuda_device_number *, int))                                        \
    X(device_name, cuDeviceGetName, (char *, int, cuda_device_number))                             \
    X(device_total, cuDeviceTotalMem_v2, (size_t *, cuda_device_number))                           \
    X(device_attribute, cuDeviceGetAttribute, (int *, cuda_attribute, cuda_device_number))         \
    X(device_pci, cuDeviceGetPCIBusId, (char *, int, cuda_device_number))                          \
    X(primary_retain, cuDevicePrimaryCtxRetain, (cuda_context *, cuda_device_number))              \
    X(primary_release, cuDevicePrimaryCtxRelease_v2, (cuda_device_number))                         \
    X(context_push, cuCtxPushCurrent_v2, (cuda_context))                                           \
    X(context_pop, cuCtxPopCurrent_v2, (cuda_context *))                                           \
    X(context_current, cuCtxGetCurrent, (cuda_context *))                                          \
    X(context_priorities, cuCtxGetStreamPriorityRange, (int *, int *))                             \
    X(memory_info, cuMemGetInfo_v2, (size_t *, size_t *))                                          \
    X(memory_allocate, cuMemAlloc_v2, (cuda_pointer *, size_t))                                    \
    X(memory_free, cuMemFree_v2, (cuda_pointer))                                                   \
    X(pool_create, cuMemPoolCreate, (cuda_pool *, const cuda_pool_properties *))                   \
    X(pool_destroy, cuMemPoolDestroy, (cuda_pool))                                                 \
    X(pool_set, cuMemPoolSetAttribute, (cuda_pool, cuda_pool_attribute, void *))                   \
    X(pool_get, cuMemPoolGetAttribute, (cuda_pool, cuda_pool_attribute, void *))                   \
    X(pool_trim, cuMemPoolTrimTo, (cuda_pool, size_t))                                             \
    X(pool_allocate, cuMemAllocFromPoolAsync,                                                      \
      (cuda_pointer *, size_t, cuda_pool, cuda_stream_handle))                                     \
    X(pool_free, cuMemFreeAsync, (cuda_pointer, cuda_stream_handle))                               \
    X(host_allocate, cuMemHostAlloc, (void **, size_t, unsigned int))                              \
    X(host_free, cuMemFreeHost, (void *))                                                          \
    X(host_register, cuMemHostRegister_v2, (void *, size_t, unsigned int))                         \
    X(host_unregister, cuMemHostUnregister, (void *))                                              \
    X(pointer_attribute, cuPointerGetAttribute, (void *, cuda_pointer_attribute, cuda_pointer))    \
    X(stream_create, cuStreamCreateWithPriority, (cuda_stream_handle *, unsigned int, int))        \
    X(stream_destroy, cuStreamDestroy_v2, (cuda_stream_handle))                                    \
    X(stream_query, cuStreamQuery, (cuda_stream_handle))                                           \
    X(stream_wait_event, cuStreamWaitEvent, (cuda_stream_handle, cuda_event_handle, unsigned int)) \
    X(event_create, cuEventCreate, (cuda_event_handle *, unsigned int))                            \
    X(event_destroy, cuEventDestroy_v2, (cuda_event_handle))                                       \
    X(event_record, cuEventRecord, (cuda_event_handle, cuda_stream_handle))                        \
    X(event_query, cuEventQuery, (cuda_event_handle))                                              \
    X(event_elapsed, cuEventElapsedTime, (float *, cuda_event_handle, cuda_event_handle))          \
    X(copy_in, cuMemcpyHtoDAsync_v2, (cuda_pointer, const void *, size_t, cuda_stream_handle))     \
    X(copy_out, cuMemcpyDtoHAsync_v2, (void *, cuda_pointer, size_t, cuda_stream_handle))          \
    X(copy_inside, cuMemcpyDtoDAsync_v2, (cuda_pointer, cuda_pointer, size_t, cuda_stream_handle)) \
    X(fill, cuMemsetD8Async, (cuda_pointer, unsigned char, size_t, cuda_stream_handle))            \
    X(host_call, cuLaunchHostFunc, (cuda_stream_handle, cuda_host_function, void *))               \
    X(module_load, cuModuleLoadDataEx,                                                             \
      (cuda_module *, const void *, unsigned int, cuda_jit_option *, void **))                     \
    X(module_unload, cuModuleUnload, (cuda_module))                                                \
    X(module_function, cuModuleGetFunction, (cuda_function *, cuda_module, const char *))          \
    X(function_attribute, cuFuncGetAttribute, (int *, cuda_function_attribute, cuda_function))     \
    X(launch, cuLaunchKernel,                                                                      \
      (cuda_function, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,        \
       unsigned int, unsigned int, cuda_stream_handle, void **, void **))
#define CUDA_OPTIONAL(X)                                                                           \
    X(device_uuid, cuDeviceGetUuid_v2, (cuda_uuid *, cuda_device_number))                          \
    X(stream_wait_value, cuStreamWaitValue64_v2,                                                   \
      (cuda_stream_handle, cuda_pointer, uint64_t, unsigned int))                                  \
    X(function_parameter, cuFuncGetParamInfo, (cuda_function, size_t, size_t *, size_t *))         \
    X(device_resource, cuDeviceGetDevResource,                                                     \
      (cuda_device_number, cuda_resource *, cuda_resource_type))                                   \
    X(resource_split, cuDevSmResourceSplitByCount,                                                 \
      (cuda_resource *, unsigned int *, const cuda_resource *, cuda_resource *, unsigned int,      \
       unsigned int))                                                                              \
    X(resource_describe, cuDevResourceGenerateDesc,                                                \
      (cuda_resource_desc *, cuda_resource *, unsigned int))                                       \
    X(green_create, cuGreenCtxCreate,                                                              \
      (cuda_green_context *, cuda_resource_desc, cuda_device_number, unsigned int))                \
    X(green_destroy, cuGreenCtxDestroy, (cuda_green_context))                                      \
    X(green_stream, cuGreenCtxStreamCreate,                                                        \
      (cuda_stream_handle *, cuda_green_context, unsigned int, int))                               \
    X(graph_create, cuGraphCreate, (cuda_graph_handle *, unsigned int))                            \
    X(graph_add_kernel, cuGraphAddKernelNode_v2,                                                   \
      (cuda_graph_node_handle *, cuda_graph_handle, const cuda_graph_node_handle *, size_t,        \
       const cuda_kernel_node *))                                                                  \
    X(graph_instantiate, cuGraphInstantiateWithFlags,                                              \
      (cuda_graph_exec_handle *, cuda_graph_handle, unsigned long long))                           \
    X(graph_set_kernel, cuGraphExecKernelNodeSetParams_v2,                                         \
      (cuda_graph_exec_handle, cuda_graph_node_handle, const cuda_kernel_node *))                  \
    X(graph_launch, cuGraphLaunch, (cuda_graph_exec_handle, cuda_stream_handle))                   \
    X(graph_exec_destroy, cuGraphExecDestroy, (cuda_graph_exec_handle))                            \
    X(graph_destroy, cuGraphDestroy, (cuda_graph_handle))

struct cuda_driver {
    struct platform_library library;
    int version; /* 12040 is CUDA 12.4 */
#define CUDA_FUNCTION(member, symbol, parameters) cuda_result(*member) parameters;
    CUDA_REQUIRED(CUDA_FUNCTION)
    CUDA_OPTIONAL(CUDA_FUNCTION) /* NULL where the library has none */
#undef CUDA_FUNCTION
};

/*
 * Loads the library and looks its functions up. MUSTER_E_NOT_FOUND: there is none;
 * MUSTER_E_NOT_SUPPORTED: it is too old.
 */
muster_status cuda_driver_open(struct cuda_driver *driver, struct muster_error *err);
void cuda_driver_close(struct cuda_driver *driver);

/*
 * The status for what a call of the driver answered. `err` gets the driver's words and `what` was
 * asked, a phrase such as "copying 4096 bytes".
 */
muster_status cuda_driver_error(const struct cuda_driver *driver, cuda_result result,
                                const char *what, struct muster_error *err);
/* Whether every further call in the context will answer the same. */
bool cuda_driver_is_loss(cuda_result result);

#endif
