/*
 * Data flow: data that tasks say they read and write, and that moves to where they run by itself.
 *
 * Data (memory.h: muster_data_create) is host memory, or a size alone; of 0 bytes it is a token, which
 * orders tasks and nothing else. Each device has at most one
 * replica of it, and the host is one more place. Tasks (task.h: `accesses`) are ordered by what they
 * access, in the order of their submission; what a task reads is brought to its device before, and
 * what it writes makes the other replicas invalid. From the first task that accesses data until
 * muster_data_acquire or muster_data_destroy the caller leaves its host memory alone.
 */
#ifndef MUSTER_DATA_H
#define MUSTER_DATA_H

#include <muster/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a task accesses data. */
enum muster_mode {
    MUSTER_READ = 1,
    MUSTER_WRITE = 2, /* all of it: what was there before is not brought */
    MUSTER_READ_WRITE = 3,
    /* As MUSTER_READ_WRITE, but tasks that follow each other with this mode may change places. */
    MUSTER_COMMUTE = 4,
    /*
     * Adds to it, in a contribution that holds the reduction's identity at first (muster_data_reduction).
     * Tasks that follow each other with this mode run at the same time; before the next that
     * accesses it otherwise the contributions are combined in a fixed order, so the bits do not depend
     * on who ran when.
     */
    MUSTER_REDUCE = 5,
    /* Of tokens, data of 0 bytes: order alone, as MUSTER_READ_WRITE has it. */
    MUSTER_TOKEN = 6
};

/* One access of a task; the caller sets `size`, the same in all of one task. */
struct muster_task_access {
    size_t size;
    muster_data data;
    uint32_t mode; /* enum muster_mode */
};

/* Most accesses of one task. */
#define MUSTER_ACCESSES_MAX 16

#ifdef __cplusplus
}
inline struct muster_task_access muster_task_access_of(muster_data data, enum muster_mode mode)
{
    struct muster_task_access access = {};
    access.size = sizeof access;
    access.data = data;
    access.mode = mode;
    return access;
}
#define MUSTER_ACCESS(data_, mode_) muster_task_access_of(data_, mode_)
extern "C" {
#else
/* clang-format off */
#define MUSTER_ACCESS(data_, mode_) { .size = sizeof(struct muster_task_access), .data = (data_), .mode = (mode_) }
/* clang-format on */
#endif

/*
 * A range of data as data of its own. Parts conflict with each other, and with the whole, exactly
 * where they overlap; a part of a part is one of the whole. Destroy it before the whole.
 * MUSTER_E_INVALID: it does not lie within the data.
 */
MUSTER_API muster_status muster_data_part(struct muster *m, muster_data data, uint64_t offset,
                                          uint64_t bytes, muster_data *out,
                                          struct muster_error *err);

/*
 * A tile: `rows` rows of `row_bytes` bytes, the first at byte `column_bytes` of row `row`, where rows
 * of the whole are `pitch` bytes apart. On a device with memory of its own the rows follow each other
 * without gaps; on the host they are where they are. A tile of a tile is not supported.
 */
MUSTER_API muster_status muster_data_tile(struct muster *m, muster_data data, uint64_t row,
                                          uint64_t rows, uint64_t column_bytes, uint64_t row_bytes,
                                          uint64_t pitch, muster_data *out,
                                          struct muster_error *err);

/*
 * How contributions are begun and combined: both are called by threads of Muster's, for all bytes
 * of the data or part, in rows without gaps. Needed before the first access with MUSTER_REDUCE; functions and
 * `user` are borrowed until the data is destroyed.
 */
struct muster_reduction {
    size_t size;
    void *user;
    void (*begin)(void *user, void *to, uint64_t bytes); /* writes the identity */
    void (*combine)(void *user, void *into, const void *from, uint64_t bytes);
};
MUSTER_API muster_status muster_data_reduction(struct muster *m, muster_data data,
                                               const struct muster_reduction *reduction,
                                               struct muster_error *err);

/* Contributions of one reduction: the n-th task adds to contribution n modulo this. */
#define MUSTER_REDUCE_PARTS 8

/*
 * The caller accesses the data on the host, as a task would that is submitted now: waits for the
 * tasks before, brings the data home, and holds up tasks that conflict until muster_data_release. `mode` is
 * MUSTER_READ, MUSTER_WRITE or MUSTER_READ_WRITE. `*pointer` is the data's first byte; a tile's rows
 * are as far apart as the caller said. Several readers at once; each success is released once, by any
 * thread. Any thread, not within a task or kernel: MUSTER_E_ORDER. MUSTER_E_TIMEOUT: nothing was
 * acquired. Another failure: that of the task that should have written it.
 */
MUSTER_API muster_status muster_data_acquire(struct muster *m, muster_data data,
                                             enum muster_mode mode, uint64_t timeout_ns,
                                             void **pointer, struct muster_error *err);
MUSTER_API muster_status muster_data_release(struct muster *m, muster_data data,
                                             struct muster_error *err);

/*
 * What a native body is given. It must only enqueue on `stream`, and not wait: other tasks that use the same
 * memory may be kept waiting until it returns. On `cpu` and `sim` there is no stream, and the body does its
 * work before it returns. Valid until it returns.
 *
 * On `cuda` the device's primary context is current in the calling thread. On `opencl` each part is a buffer of its
 * own in the queue's context (muster_opencl_context), from byte 0 on. A command that the body has enqueued and
 * that fails later without the device being lost is known to the owner of its event alone.
 */
struct muster_native {
    size_t size;
    muster_device device;
    const char *backend;
    void *stream; /* CUstream, cl_command_queue; NULL where work is done at once */
    /* One for each access, in their order. */
    size_t count;
    void *const *pointers; /* address on the device or host; a cl_mem on OpenCL; NULL for a token */
    const uint64_t *bytes; /* of its rows together */
    const uint64_t *pitches; /* bytes from row to row; of a range: its bytes */
    const uint64_t *rows;    /* 1, but for tiles */
};

/*
 * One form of a task's body: for devices of `backend` ("cpu", "sim", "cuda", "opencl"). It is called by
 * a thread of Muster's, with no lock held.
 */
struct muster_body {
    size_t size;
    const char *backend;
    muster_status (*enqueue)(void *user, const struct muster_native *native);
};

/* Most forms of one task. */
#define MUSTER_BODIES_MAX 4

#ifdef __cplusplus
}
#endif

#endif
