/*
 * Compares our declarations of CUDA's driver interface with the toolkit's own, at compile time: what
 * compiles is right. Built where cuda.h is found.
 */
#include "backend/cuda/driver.h"

#include <cuda.h>

#define SAME_VALUE(ours, theirs, value)                                                            \
    _Static_assert((long)(ours) == (long)(theirs), #ours " is not " #theirs);
CUDA_CONSTANTS(SAME_VALUE)

#define SAME_PLACE(ours, our_member, theirs, their_member)                                         \
    _Static_assert(offsetof(ours, our_member) == offsetof(theirs, their_member),                   \
                   #our_member " lies elsewhere than " #their_member)
_Static_assert(sizeof(cuda_pool_properties) == sizeof(CUmemPoolProps), "pool properties");
SAME_PLACE(cuda_pool_properties, allocation_type, CUmemPoolProps, allocType);
SAME_PLACE(cuda_pool_properties, handle_types, CUmemPoolProps, handleTypes);
SAME_PLACE(cuda_pool_properties, location.type, CUmemPoolProps, location.type);
SAME_PLACE(cuda_pool_properties, location.id, CUmemPoolProps, location.id);
SAME_PLACE(cuda_pool_properties, security, CUmemPoolProps, win32SecurityAttributes);
SAME_PLACE(cuda_pool_properties, max_size, CUmemPoolProps, maxSize);
_Static_assert(sizeof(cuda_resource) == sizeof(CUdevResource), "a device's resource");
SAME_PLACE(cuda_resource, type, CUdevResource, type);
SAME_PLACE(cuda_resource, of.sm.count, CUdevResource, sm.smCount);
SAME_PLACE(cuda_resource, of.sm.least, CUdevResource, sm.minSmPartitionSize);
SAME_PLACE(cuda_resource, of.sm.alignment, CUdevResource, sm.smCoscheduledAlignment);
_Static_assert(sizeof(cuda_uuid) == sizeof(CUuuid), "an identity");
_Static_assert(sizeof(cuda_kernel_node) == sizeof(CUDA_KERNEL_NODE_PARAMS), "a kernel node");
SAME_PLACE(cuda_kernel_node, function, CUDA_KERNEL_NODE_PARAMS, func);
SAME_PLACE(cuda_kernel_node, grid, CUDA_KERNEL_NODE_PARAMS, gridDimX);
SAME_PLACE(cuda_kernel_node, block, CUDA_KERNEL_NODE_PARAMS, blockDimX);
SAME_PLACE(cuda_kernel_node, shared_bytes, CUDA_KERNEL_NODE_PARAMS, sharedMemBytes);
SAME_PLACE(cuda_kernel_node, parameters, CUDA_KERNEL_NODE_PARAMS, kernelParams);
SAME_PLACE(cuda_kernel_node, extra, CUDA_KERNEL_NODE_PARAMS, extra);
SAME_PLACE(cuda_kernel_node, kernel, CUDA_KERNEL_NODE_PARAMS, kern);
SAME_PLACE(cuda_kernel_node, context, CUDA_KERNEL_NODE_PARAMS, ctx);

/* From here on our names are the toolkit's, so that the prototypes must agree exactly. */
#define cuda_result CUresult
#define cuda_device_number CUdevice
#define cuda_pointer CUdeviceptr
#define cuda_attribute CUdevice_attribute
#define cuda_pool_attribute CUmemPool_attribute
#define cuda_jit_option CUjit_option
#define cuda_pointer_attribute CUpointer_attribute
#define cuda_function_attribute CUfunction_attribute
#define cuda_resource_type CUdevResourceType
#define cuda_context CUcontext
#define cuda_green_context CUgreenCtx
#define cuda_stream_handle CUstream
#define cuda_event_handle CUevent
#define cuda_module CUmodule
#define cuda_function CUfunction
#define cuda_pool CUmemoryPool
#define cuda_resource_desc CUdevResourceDesc
#define cuda_host_function CUhostFn
#define cuda_pool_properties CUmemPoolProps
#define cuda_resource CUdevResource
#define cuda_graph_handle CUgraph
#define cuda_graph_node_handle CUgraphNode
#define cuda_graph_exec_handle CUgraphExec
#define cuda_kernel_node CUDA_KERNEL_NODE_PARAMS
#define cuda_uuid CUuuid

#define SAME_PROTOTYPE(member, symbol, parameters)                                                 \
    _Static_assert(__builtin_types_compatible_p(__typeof__(symbol), CUresult parameters),          \
                   #symbol " is declared otherwise");
CUDA_REQUIRED(SAME_PROTOTYPE)
CUDA_OPTIONAL(SAME_PROTOTYPE)

int main(void)
{
    return 0;
}
