/*
 * What a kernel is launched with, for a unit or for tasks; of data a handle, since others may use it too.
 */
#ifndef RUN_LAUNCH_H
#define RUN_LAUNCH_H

#include "run/memory/memory.h"

#include <muster_kernel.h>

struct launch {
    void *state; /* what the device has built of the kernel */
    uint64_t begin, items;
    uint64_t counted; /* items of the unit, where a reduction has fewer in the launch */
    struct muster_launch_arg args[MUSTER_ARGS_MAX];
    muster_data data[MUSTER_ARGS_MAX];              /* generation 0: none */
    struct muster_use blocks[MUSTER_ARGS_MAX];      /* the caller's; access 0: none */
    struct muster_memory memories[MUSTER_ARGS_MAX]; /* host memory that the device works on */
    struct muster_cell cell; /* of the first item, for one of the arguments */
    size_t arg_count;
    bool has_data; /* or blocks of the caller's */
};

/*
 * Makes the data resident, holds it and the blocks, and fills in where they lie: others that use them on
 * other streams are waited for, and wait. Followed by operation_end or operation_abandon. No lock is held.
 */
muster_status launch_hold(struct muster *m, muster_stream stream, struct launch *launch,
                          struct operation_run *run, struct muster_error *err);

#endif
