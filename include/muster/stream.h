/*
 * Streams: in-order queues on a device, from the device's pool.
 *
 * A stream belongs to the caller that acquired it. Calls on different streams may come from different
 * threads at once; calls on one stream must not overlap. Work on a stream runs in the order given;
 * work on different streams is ordered only where a block (memory.h) is used on both.
 */
#ifndef MUSTER_STREAM_H
#define MUSTER_STREAM_H

#include <muster/device.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    uint32_t index, generation;
} muster_stream;

/* What a stream is. The caller sets `size`. */
struct muster_stream_info {
    size_t size;
    muster_device device;
    uint32_t slot; /* within the device's pool; 0 is the default stream */
    int32_t priority;
    uint64_t planned_bytes; /* see muster_stream_plan */
};

/*
 * Gives a stream no other handle names. MUSTER_E_CAPACITY carries the cap in its text when all are
 * out, MUSTER_E_DRIVER the driver's words, MUSTER_E_NOT_SUPPORTED a priority the device does not
 * have. Does not block.
 */
MUSTER_API muster_status muster_stream_acquire(struct muster *m, muster_device device,
                                               int32_t priority, muster_stream *out,
                                               struct muster_error *err);

/*
 * The device's default stream, for work side by side with code that uses it (CUDA's NULL stream).
 * Always the same handle, never counted against the cap, never released.
 */
MUSTER_API muster_status muster_stream_default(struct muster *m, muster_device device,
                                               muster_stream *out, struct muster_error *err);

/*
 * The handle is stale from now on. Work already given is finished; after that another acquire may
 * get the stream.
 */
MUSTER_API muster_status muster_stream_release(struct muster *m, muster_stream stream,
                                               struct muster_error *err);

/* MUSTER_E_UNKNOWN for a handle never issued, MUSTER_E_STALE for one released. */
MUSTER_API muster_status muster_stream_resolve(struct muster *m, muster_stream stream,
                                               struct muster_stream_info *info,
                                               struct muster_error *err);

/*
 * The vendor's own handle (CUstream, cl_command_queue), owned by the stream, valid until it is
 * released. Work enqueued there directly must be declared: muster_block_begin and muster_block_end.
 * NULL on backends that have none (cpu, sim).
 */
MUSTER_API muster_status muster_stream_native(struct muster *m, muster_stream stream, void **native,
                                              struct muster_error *err);

/*
 * MUSTER_OK: all work given so far is finished. MUSTER_E_BUSY: not yet. Otherwise the first failure
 * on the stream.
 */
MUSTER_API muster_status muster_stream_query(struct muster *m, muster_stream stream,
                                             struct muster_error *err);

/*
 * Blocks until all work given so far is finished, at most `timeout_ns` (UINT64_MAX: for ever), then
 * MUSTER_E_TIMEOUT, and the device counts as suspect until it finishes something. MUSTER_E_ORDER:
 * called within a kernel.
 */
MUSTER_API muster_status muster_stream_wait(struct muster *m, muster_stream stream,
                                            uint64_t timeout_ns, struct muster_error *err);

/*
 * How many bytes a job with this many concurrent branches and streams should plan for: branches x
 * streams x the budget of one stream, UINT64_MAX where that does not fit. One stream's budget is
 * 256 MiB unless MUSTER_POOL_MB_PER_STREAM, read at muster_open, is another positive number of MiB.
 */
MUSTER_API uint64_t muster_stream_plan(const struct muster *m, uint64_t branches, uint64_t streams);

#ifdef __cplusplus
}
#endif

#endif
