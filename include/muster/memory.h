/*
 * Memory: blocks on devices, pinned memory on the host, data that stays resident.
 *
 * A block knows its last writer and its open readers. Using it on one stream therefore waits, on
 * the device and not on the host, for uses of it on others: a read waits for the last write, a
 * write and a free wait for everything.
 */
#ifndef MUSTER_MEMORY_H
#define MUSTER_MEMORY_H

#include <muster/stream.h>

#ifdef __cplusplus
MUSTER_SAME_NAMES_BEGIN
extern "C" {
#endif

/*
 * Memory of one device. Stale after muster_block_free; after the loss of its device it can still be
 * freed, and nothing else.
 */
typedef struct {
    uint32_t index, generation;
} muster_block;

/*
 * A registered piece of host memory that may stay resident on devices: a table, a model, weights.
 */
typedef struct {
    uint32_t index, generation;
} muster_data;

enum muster_access { MUSTER_READS = 1, MUSTER_WRITES = 2, MUSTER_READS_WRITES = 3 };

/* One declared use of a block. */
struct muster_use {
    size_t size;
    muster_block block;
    enum muster_access access;
};
#ifdef __cplusplus
}
inline struct muster_use muster_use_of(muster_block block, enum muster_access access)
{
    struct muster_use use = {};
    use.size = sizeof use;
    use.block = block;
    use.access = access;
    return use;
}
#define MUSTER_USE(block_, access_) muster_use_of(block_, access_)
extern "C" {
#else
/* clang-format off */
#define MUSTER_USE(block_, access_) { .size = sizeof(struct muster_use), .block = (block_), .access = (access_) }
/* clang-format on */
#endif

/* Most blocks that one operation may use. */
#define MUSTER_USES_MAX 16

/* Where a block is. The caller sets `size`. */
struct muster_block_info {
    size_t size;
    muster_device device;
    uint64_t bytes;
    uint64_t address; /* the device's address, 0 where memory has none (OpenCL) */
    void *object;     /* the vendor's memory object (cl_mem), NULL where there is none */
};

/*
 * Allocates in stream order: the block may be used on `stream` at once and on other streams through
 * the tracker. Counted against the device's budget before the driver is asked. MUSTER_E_TOO_LARGE:
 * more than the budget will ever hold; MUSTER_E_DEVICE_MEMORY: not now. Resident copies of data
 * that are not in use are dropped to make room. Does not block.
 */
MUSTER_API muster_status muster_block_allocate(struct muster *m, muster_stream stream,
                                               uint64_t bytes, muster_block *out,
                                               struct muster_error *err);

/*
 * All `count` blocks or none, reserved as one, so two callers cannot each hold half of what both
 * need. Waits up to `timeout_ns` for memory that was freed but not reclaimed yet, or that other
 * threads free.
 */
MUSTER_API muster_status muster_block_allocate_many(struct muster *m, muster_stream stream,
                                                    const uint64_t *bytes, size_t count,
                                                    uint64_t timeout_ns, muster_block *out,
                                                    struct muster_error *err);

/*
 * Whether there is room now; allocates nothing and promises nothing. Resident copies of data count
 * as taken, though an allocation may drop them.
 */
MUSTER_API muster_status muster_block_estimate(struct muster *m, muster_device device,
                                               const uint64_t *bytes, size_t count,
                                               struct muster_error *err);

/*
 * Frees in stream order, after all uses on all streams. The handle is stale at once; the memory
 * follows.
 */
MUSTER_API muster_status muster_block_free(struct muster *m, muster_stream stream,
                                           muster_block block, struct muster_error *err);

/*
 * Makes memory that Muster did not allocate known, so that uses of it are ordered: `address` or
 * `object` as the vendor gave them. Not counted against the budget; muster_block_free forgets it
 * and frees nothing.
 */
MUSTER_API muster_status muster_block_declare(struct muster *m, muster_device device,
                                              uint64_t address, void *object, uint64_t bytes,
                                              muster_block *out, struct muster_error *err);

/* Where the block is and how large. Any thread. */
MUSTER_API muster_status muster_block_info(struct muster *m, muster_block block,
                                           struct muster_block_info *info,
                                           struct muster_error *err);

/*
 * Around work that the caller enqueues on the native stream: `begin` makes the stream wait for
 * whatever conflicts with the uses, `end` records them. Between the two, other calls that use these
 * blocks fail with MUSTER_E_BUSY, so always end it, with the same uses. Muster's own operations below do
 * this themselves.
 *
 * A block that a failed stream should have written has no valid contents: a stream that reads it
 * fails too. After the caller has waited for the failed stream, any other stream can write or free
 * the block.
 */
MUSTER_API muster_status muster_block_begin(struct muster *m, muster_stream stream,
                                            const struct muster_use *uses, size_t count,
                                            struct muster_error *err);
MUSTER_API muster_status muster_block_end(struct muster *m, muster_stream stream,
                                          const struct muster_use *uses, size_t count,
                                          struct muster_error *err);

/*
 * Asynchronous copies, in stream order. Host memory must stay as it is until the copy has finished
 * (muster_stream_wait); only pinned host memory is copied without a hidden stop. Ranges are
 * checked. Blocks are of the stream's device, both of them in muster_copy, which copies between
 * two blocks or two ranges of one that do not overlap: from device to device the way is through the
 * host.
 */
MUSTER_API muster_status muster_copy_in(struct muster *m, muster_stream stream, muster_block to,
                                        uint64_t offset, const void *from, uint64_t bytes,
                                        struct muster_error *err);
MUSTER_API muster_status muster_copy_out(struct muster *m, muster_stream stream, void *to,
                                         muster_block from, uint64_t offset, uint64_t bytes,
                                         struct muster_error *err);
MUSTER_API muster_status muster_copy(struct muster *m, muster_stream stream, muster_block to,
                                     uint64_t to_offset, muster_block from, uint64_t from_offset,
                                     uint64_t bytes, struct muster_error *err);
MUSTER_API muster_status muster_fill(struct muster *m, muster_stream stream, muster_block block,
                                     uint64_t offset, uint8_t value, uint64_t bytes,
                                     struct muster_error *err);

/*
 * Pinned host memory: the process's own, near the device's NUMA node, registered with its driver.
 * Survives the loss of the device. Page-aligned from a page up, 64 bytes below. Freed by
 * muster_host_free, or by muster_close.
 */
MUSTER_API muster_status muster_host_allocate(struct muster *m, muster_device device, size_t bytes,
                                              void **out, struct muster_error *err);
MUSTER_API muster_status muster_host_free(struct muster *m, void *memory, struct muster_error *err);

/*
 * Registers `bytes` at `host` as data. The memory stays the caller's and must stay as it is until
 * muster_data_destroy or muster_data_invalidate; data that tasks write (data.h) is memory that can be
 * written, which they alone use meanwhile. `host` NULL: a size alone, whose memory is made where and when a task
 * writes it; 0 bytes are a token. `flags` must be 0. Nothing is copied yet.
 */
MUSTER_API muster_status muster_data_create(struct muster *m, const void *host, uint64_t bytes,
                                            uint32_t flags, muster_data *out,
                                            struct muster_error *err);

/*
 * Makes the data resident on the stream's device, if it is not, and gives the block that holds it
 * there. Waits for no task that writes the data: acquire it before (data.h). MUSTER_E_INVALID: it has no host memory
 * in one piece. Only for reading, and valid until the data is invalidated or destroyed. The copy stays
 * until the stream has used it or was released. After that Muster may drop it while nothing uses
 * it, so call again before each use; while the copy is still there the call costs nothing.
 */
MUSTER_API muster_status muster_data_resident(struct muster *m, muster_data data,
                                              muster_stream stream, muster_block *out,
                                              struct muster_error *err);

/*
 * Drops the replicas, for the host memory is going to change: blocks until everything that accesses it or
 * them has finished, at most the runtime's close_ns, then MUSTER_E_TIMEOUT. What tasks have written is
 * brought home before.
 */
MUSTER_API muster_status muster_data_invalidate(struct muster *m, muster_data data,
                                                struct muster_error *err);

/*
 * As muster_data_invalidate, and the handle is stale: the host memory is the caller's alone again. With
 * another status than MUSTER_E_TIMEOUT, MUSTER_E_BUSY and MUSTER_E_ORDER the handle is stale too, and the
 * host memory is not what tasks should have written.
 */
MUSTER_API muster_status muster_data_destroy(struct muster *m, muster_data data,
                                             struct muster_error *err);

#ifdef __cplusplus
}
MUSTER_SAME_NAMES_END
#endif

#endif
