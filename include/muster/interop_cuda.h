/*
 * Side by side with CUDA: Muster's streams and blocks in CUDA's own types, for programs that have
 * cuda.h. The cuda backend works in each device's primary context, the one that the CUDA runtime,
 * cuBLAS and PyTorch use, so pointers and streams of either are good for the other.
 *
 * Everything here is a function of this header, not of the library, which knows no vendor's types.
 */
#ifndef MUSTER_INTEROP_CUDA_H
#define MUSTER_INTEROP_CUDA_H

#include <cuda.h>
#include <muster/muster.h>

/* With muster.hpp the struct is called muster_runtime. */
#ifdef MUSTER_RUNTIME_IS_RENAMED
#define muster muster_runtime
#endif
#ifdef __cplusplus
extern "C" {
#endif

/*
 * The stream's own CUstream, valid until the stream is released; a cudaStream_t too. What is
 * enqueued there and touches blocks goes between muster_block_begin and muster_block_end.
 */
static inline muster_status muster_cuda_stream(struct muster *m, muster_stream stream,
                                               CUstream *out, struct muster_error *err)
{
    void *native = NULL;
    muster_status status = muster_stream_native(m, stream, &native, err);
    if (status == MUSTER_OK)
        *out = (CUstream)native;
    return status;
}

/* Where the block is on its device. */
static inline muster_status muster_cuda_address(struct muster *m, muster_block block,
                                                CUdeviceptr *out, struct muster_error *err)
{
    struct muster_block_info info;
    info.size = sizeof info;
    muster_status status = muster_block_info(m, block, &info, err);
    if (status == MUSTER_OK)
        *out = (CUdeviceptr)info.address;
    return status;
}

/* Makes memory of cuMemAlloc or cudaMalloc known as a block; muster_block_free forgets it. */
static inline muster_status muster_cuda_declare(struct muster *m, muster_device device,
                                                CUdeviceptr memory, uint64_t bytes,
                                                muster_block *out, struct muster_error *err)
{
    return muster_block_declare(m, device, (uint64_t)memory, NULL, bytes, out, err);
}

/*
 * What is enqueued on `after` from now on begins when what `before` has by now is finished: between
 * a stream of Muster's and one of the program's, in either direction. Needs a current context.
 */
static inline CUresult muster_cuda_order(CUstream before, CUstream after)
{
    CUevent event;
    CUresult result = cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS)
        return result;
    result = cuEventRecord(event, before);
    if (result == CUDA_SUCCESS)
        result = cuStreamWaitEvent(after, event, 0);
    /* A wait that is queued outlives its event. */
    cuEventDestroy(event);
    return result;
}

#ifdef __cplusplus
}
#endif
#ifdef MUSTER_RUNTIME_IS_RENAMED
#undef muster
#endif

#endif
