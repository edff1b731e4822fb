/*
 * The plan that a kernel with arguments compiles to, for a job's units and for a task. On a device with
 * memory of its own it is up - kernel - down: one stage copies all arrays that are read to the device,
 * one launches, one copies all that is written back. Where kernels work on host memory there is the
 * launch alone, on arrays, ring and result buffer: what is read and written is copied to the result
 * buffer first, unless the unit writes into the caller's arrays.
 *
 * Arguments of one direction share a buffer, each at its place in the slot: they come and go together.
 */
#ifndef RUN_KERNEL_PLAN_H
#define RUN_KERNEL_PLAN_H

#include "run/lane/plan.h"

/* The buffers of the plan, in this order; those that there is no argument for are left out. */
enum kernel_role { ROLE_INPUT, ROLE_IN, ROLE_OUT, ROLE_OUTPUT, KERNEL_ROLES };

struct kernel_plan {
    struct pipe_declaration declaration;
    struct pipe_plan order;
    uint32_t buffers[KERNEL_ROLES]; /* which buffer of the declaration; PIPE_NONE: none */
    bool on_host;
};

/* What is to be run. */
struct kernel_work {
    struct muster_kernel *kernel;
    const struct muster_arg *args; /* borrowed */
    size_t arg_count;
    uint64_t unit_items; /* of a unit at most */
    uint64_t part_items; /* of one of the caller's units */
    /* Of a reduction, else 0: items of a block, and the items of a launch that it is. */
    uint64_t block_items;
    uint32_t lanes;
    const struct margins *margins; /* of each argument; NULL: none has a halo, which is in items */
};

static inline bool arg_is_written(const struct muster_arg *arg)
{
    return arg->kind == MUSTER_ARG_OUT || arg->kind == MUSTER_ARG_INOUT ||
           arg->kind == MUSTER_ARG_PARTIAL;
}

/*
 * Bytes of an item, for choosing sizes. Of a partial an item has a small part, which counts as a byte:
 * also where nothing is read there must be a largest unit.
 */
static inline size_t arg_item_bytes(const struct muster_arg *arg)
{
    return arg->kind == MUSTER_ARG_PARTIAL ? 1 : arg->bytes;
}

/* Whether it is an array of which a unit has a part. */
static inline bool arg_is_cut(const struct muster_arg *arg)
{
    return arg->kind == MUSTER_ARG_IN || arg->kind == MUSTER_ARG_SOURCE || arg_is_written(arg);
}

static inline bool arg_is_read(const struct muster_arg *arg)
{
    return arg_is_cut(arg) && arg->kind != MUSTER_ARG_OUT && arg->kind != MUSTER_ARG_PARTIAL;
}

/* What is read and written by which stage, in memory that is zero; the order is the caller's to derive. */
void kernel_plan_declare(struct kernel_plan *plan, const struct kernel_work *work, bool on_host,
                         uint32_t slots);
/*
 * Pieces, copies, operands and steps, into a plan that has none. Where the outputs begin in a result
 * buffer is the caller's to say.
 */
void kernel_plan_compile(const struct kernel_plan *of, const struct kernel_work *work,
                         struct lane_plan *plan);

#endif
