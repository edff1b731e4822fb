/*
 * Memory of devices and what uses it: blocks, tracked operations on them, data and its resident
 * copies, and pinned host memory.
 */
#ifndef RUN_MEMORY_H
#define RUN_MEMORY_H

#include "run/device/stream.h"

enum holder { HOLDER_NONE, HOLDER_OPERATION, HOLDER_USER };

struct run_block {
    struct run_device *device;
    uint32_t index; /* in the table */
    struct muster_memory memory;
    uint64_t generation; /* of its device: what it held is gone when that is another */
    bool is_declared;    /* not ours to free */
    bool is_copy;        /* a resident copy of data: only for reading, freed through the data */
    bool is_going;       /* being freed: no new use */
    uint64_t used_ns;    /* a copy: when it was last asked for */
    /* A copy: streams, a bit each by slot, for which it was asked for and that did not use it since. */
    uint64_t asked[SLOTS_PER_DEVICE / 64];
    uint64_t asked_at;     /* `releases` of the device when it last was */
    enum holder holder;    /* who is between its waits and its record */
    uint64_t holder_token; /* of the stream that holds it */
    /* A user's: which muster_block_begin, how many blocks it holds, and how this one is used. */
    uint64_t holder_begin;
    size_t holder_count;
    enum muster_access holder_access;
    struct tracker tracker;
};

/* Where data stands on a device. */
struct run_copy {
    struct run_device *device;
    muster_block block;
    bool is_loading;       /* or looked at: others wait until it is known what becomes of it */
    bool is_loaded;        /* was seen to have arrived; until then its stream may still fail */
    struct zombie *zombie; /* owns: what the block's memory will become */
    struct run_copy *next;
};

struct run_data {
    const void *host; /* borrowed until destroy; NULL: it is a size alone, or a part */
    uint64_t bytes;   /* of a tile: of its rows together */
    uint32_t index;   /* in the table */
    uint32_t users;   /* calls under way */
    bool is_going;
    struct run_copy *copies; /* owns */

    /* A copy was made since they were last dropped. Relaxed: a write comes after the reads that it must see. */
    _Atomic bool was_resident;

    /* Where its bytes are on the host. */
    _Atomic(char *) home;   /* of a whole: `host`, or `owned` once it is needed */
    struct run_data *whole; /* that it is a part of, borrowed; NULL: of none */
    muster_data whole_handle;
    uint64_t offset, rows, row_bytes, pitch; /* in the whole; a range is one row */
    uint32_t part_count;                     /* parts that there are of it */
    /* Of a whole, with the lock of the pool of tasks: writes submitted, and those known when copies were dropped. */
    uint64_t writes, writes_dropped;
    struct muster_reduction reduction; /* size 0: none */
    /* Index 0, generation 0: not made yet. Of a reduction, own. */
    muster_data contributions[MUSTER_REDUCE_PARTS];
};

/* The whole that the bytes are of. */
static inline struct run_data *data_whole(struct run_data *data)
{
    return data->whole ? data->whole : data;
}

/* What the device counts its starts with; 1 for ever unless it is in a process of its own. Any thread. */
static inline uint64_t memory_generation(const struct run_device *device)
{
    return device->backend->table.device_generation(device->state);
}

/* operation.c: one operation on tracked blocks, between begin and end. */
struct operation_run {
    struct muster *m;
    struct run_stream *stream;
    struct run_event *event;
    struct flight *flight;
    struct muster_use uses[MUSTER_USES_MAX]; /* merged: each block once */
    size_t use_count;
    struct muster_memory memories[MUSTER_USES_MAX];
};
/*
 * Pins the stream, holds the blocks and makes the stream wait for what conflicts with the uses.
 * `holder` USER: until muster_block_end. On failure nothing is held.
 */
muster_status operation_begin(struct muster *m, muster_stream stream, const struct muster_use *uses,
                              size_t count, enum holder holder, struct operation_run *run,
                              struct muster_error *err);
/* The operation itself was refused: nothing was given to the device. */
void operation_abandon(struct operation_run *run);
/* The operation was given: records it. A flight counts it. */
muster_status operation_end(struct operation_run *run, bool is_unit, uint64_t amount,
                            struct muster_error *err);
/* The memory of a used block. */
const struct muster_memory *operation_memory(const struct operation_run *run, muster_block block);

/* block.c */
/*
 * Whether an argument is in a block that the caller has already, how it is used there, and, with no
 * lock held, whether there is room for `items` of it in the block; the block's device.
 */
static inline bool arg_is_on_device(const struct muster_arg *arg)
{
    return arg->kind >= MUSTER_ARG_DEVICE_IN && arg->kind <= MUSTER_ARG_DEVICE_INOUT;
}
/* What a kernel does with the argument's memory, enum muster_access; 0: it is a value. */
uint32_t arg_access(const struct muster_arg *arg);
muster_status block_check_arg(struct muster *m, const struct muster_arg *arg, uint64_t items,
                              struct run_device **device, struct muster_error *err);
muster_status block_resolve_locked(struct muster *m, muster_block handle, struct run_block **out,
                                   struct muster_error *err);
/*
 * Forgets a block that nobody holds; its memory follows when everything that used it has finished.
 */
void block_drop_locked(struct muster *m, struct run_block *block, struct zombie *zombie);
void blocks_destroy(struct muster *m);
muster_status block_declare(struct muster *m, struct run_device *device,
                            struct muster_memory memory, muster_block *out,
                            struct muster_error *err);

/* part.c */
/*
 * Where the data's first byte is on the host: memory of Muster's is made for data that has none, zeroed.
 * NULL: there is no memory. The caller keeps the data from going. No lock is held.
 */
char *data_home(struct muster *m, struct run_data *data);
/* Gives back what data_home has made. */
void data_home_free(struct muster *m, struct run_data *data);

/* data.c */
/* Finds data that is not going, and keeps it; every success is followed by data_end_use. */
muster_status data_begin_use(struct muster *m, muster_data handle, struct run_data **out,
                             struct muster_error *err);
void data_end_use(struct muster *m, struct run_data *data);
/* A new handle for a record that the caller filled, and that is the table's from then on. */
muster_status data_add(struct muster *m, struct run_data *data, muster_data *out,
                       struct muster_error *err);
/* As muster_data_invalidate and muster_data_destroy, for data that no task has accessed. */
muster_status data_drop_copies(struct muster *m, muster_data data, bool is_last,
                               struct muster_error *err);
/* Drops one resident copy that nobody uses, the one unasked for longest; false if there is none. */
bool data_evict(struct run_device *device);
/* The stream has used a block, which counts if that is a copy. */
void data_used_locked(struct run_block *block, const struct run_stream *stream);
void data_destroy_all(struct muster *m);
/* Whether the caller's memory that the data is shares any with this; data that is gone has none. */
bool data_overlaps(struct muster *m, muster_data data, const void *memory, size_t bytes);

/* host_memory.c */
/* Whether pinned memory of the device is out. */
bool host_memory_used_by_locked(const struct run_device *device);
/*
 * Before the device is closed, and after: its driver lets go of the memory, then the memory goes.
 */
void host_memory_unregister(struct run_device *device);
void host_memory_unmap(struct run_device *device);

#endif
