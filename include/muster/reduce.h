/*
 * Reductions: one value from all items - a sum, a largest item and its place, a histogram - with the
 * same bits whatever devices, unit sizes, retries and losses there are.
 *
 * The kernel is portable source (docs/kernels.md): one function adds an item to a partial result, one
 * joins two of them, and one may say what no items make.
 *
 *     MUSTER_KERNEL void sum(uint64_t i, MUSTER_GLOBAL const float *x, MUSTER_PARTIAL double *all)
 *     {
 *         *all += x[i];
 *     }
 *     MUSTER_COMBINE void sum_combine(MUSTER_PARTIAL double *into, MUSTER_PARTIAL const double *from)
 *     {
 *         *into += *from;
 *     }
 *
 * Items are cut into blocks whose length the partial's size alone decides. Item k of a block is added to
 * lane k modulo the number of lanes; lanes are joined in pairs, and blocks along a binary tree. So the
 * order of the operations depends on the number of items and on nothing else. It is not the order of the
 * items: `combine` must give the same, but for rounding, whichever way items are grouped and ordered.
 */
#ifndef MUSTER_REDUCE_H
#define MUSTER_REDUCE_H

#include <muster/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a reduction makes, and how. The caller sets `size`. */
struct muster_partial {
    size_t size;
    char type[96]; /* as the source has it: "double", "struct place" */
    size_t bytes;
    uint64_t block_items;
    uint32_t lanes;
    uint32_t field_count;
};

/* One of its numbers, or arrays of them. The caller sets `size`. */
struct muster_partial_field {
    size_t size;
    char name[64]; /* "" if the partial is one number */
    char type[16]; /* "float", "uint64_t" and so on */
    size_t offset; /* in bytes */
    size_t bytes;  /* of one number */
    uint64_t count;
    int is_array;
};

/*
 * The partial of a kernel that is a reduction. Any thread. MUSTER_E_NOT_SUPPORTED: it is none, or no form
 * of it is portable source.
 */
MUSTER_API muster_status muster_kernel_partial(const struct muster_kernel *kernel,
                                               struct muster_partial *out,
                                               struct muster_error *err);
/* Its field `index`, counted from 0. MUSTER_E_NOT_FOUND: there are fewer. */
MUSTER_API muster_status muster_kernel_partial_field(const struct muster_kernel *kernel,
                                                     size_t index, struct muster_partial_field *out,
                                                     struct muster_error *err);

/*
 * A reduction, start to end: a job with `result` (muster_job_desc). `args` are what the kernel takes
 * between the item and the partial: MUSTER_IN, MUSTER_VALUE, MUSTER_ALL, MUSTER_FIRST, MUSTER_DEVICE_IN.
 * `bytes` must be the partial's size. Writes `result` only on success; zero items make the kernel's
 * identity. `options` and `report` may be NULL. Units are whole numbers of blocks: options.unit_items and
 * window are rounded up to that. Needs a C compiler or a bundle on this machine, whatever the devices: the
 * host joins the partials of blocks. MUSTER_E_INVALID: the kernel is no reduction, `bytes` is not its
 * partial's, or an argument is written. MUSTER_E_ORDER: called within a kernel.
 */
MUSTER_API muster_status muster_reduce(struct muster *m, struct muster_kernel *kernel,
                                       uint64_t items, const struct muster_arg *args,
                                       size_t arg_count, void *result, size_t bytes,
                                       const struct muster_run_options *options,
                                       struct muster_report *report, struct muster_error *err);

#ifdef __cplusplus
}
#endif

#endif
