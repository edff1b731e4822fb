/*
 * Side by side with OpenCL: Muster's streams and blocks in OpenCL's own types, for programs that
 * have CL/cl.h. The opencl backend makes one context for each device, and OpenCL shares nothing
 * between contexts: the program makes its own kernels and buffers in the stream's context.
 *
 * Everything here is a function of this header, not of the library, which knows no vendor's types.
 * The context needs libOpenCL at link time; the rest does not.
 */
#ifndef MUSTER_INTEROP_OPENCL_H
#define MUSTER_INTEROP_OPENCL_H

#include <CL/cl.h>
#include <muster/muster.h>

/* With muster.hpp the struct is called muster_runtime. */
#ifdef MUSTER_RUNTIME_IS_RENAMED
#define muster muster_runtime
#endif
#ifdef __cplusplus
extern "C" {
#endif

/*
 * The stream's own in-order command queue, valid until the stream is released. What is enqueued
 * there and touches blocks goes between muster_block_begin and muster_block_end.
 */
static inline muster_status muster_opencl_queue(struct muster *m, muster_stream stream,
                                                cl_command_queue *out, struct muster_error *err)
{
    void *native = NULL;
    muster_status status = muster_stream_native(m, stream, &native, err);
    if (status == MUSTER_OK)
        *out = (cl_command_queue)native;
    return status;
}

/* The block's buffer; Muster's, and valid until the block is freed. */
static inline muster_status muster_opencl_buffer(struct muster *m, muster_block block, cl_mem *out,
                                                 struct muster_error *err)
{
    struct muster_block_info info;
    info.size = sizeof info;
    muster_status status = muster_block_info(m, block, &info, err);
    if (status == MUSTER_OK)
        *out = (cl_mem)info.object;
    return status;
}

/*
 * Makes a buffer of the program's, made in the device's context, known as a block;
 * muster_block_free forgets it.
 */
static inline muster_status muster_opencl_declare(struct muster *m, muster_device device,
                                                  cl_mem buffer, uint64_t bytes, muster_block *out,
                                                  struct muster_error *err)
{
    return muster_block_declare(m, device, 0, buffer, bytes, out, err);
}

/* The context and the device that a queue of Muster's has; Muster's, valid as the queue is. */
static inline cl_int muster_opencl_context(cl_command_queue queue, cl_context *context,
                                           cl_device_id *device)
{
    cl_int code = clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof *context, context, NULL);
    if (code == CL_SUCCESS)
        code = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof *device, device, NULL);
    return code;
}

#ifdef __cplusplus
}
#endif
#ifdef MUSTER_RUNTIME_IS_RENAMED
#undef muster
#endif

#endif
