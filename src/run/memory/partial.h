/*
 * Kernels that are reductions: what their partials are, and how the host joins those of blocks.
 */
#ifndef RUN_PARTIAL_H
#define RUN_PARTIAL_H

#include "base/fold.h"
#include "kernel/partial.h"
#include "run/memory/kernel.h"

struct kernel_fold {
    const struct kernel_partial *partial; /* borrowed of the kernel, as the rest */
    fold_function fold;
    folded_function folded;
};

/* NULL: the kernel is no reduction. */
const struct kernel_partial *kernel_partial_of(const struct muster_kernel *kernel);
/* May run a compiler, so with no lock held. MUSTER_E_INVALID: the kernel is no reduction. */
muster_status kernel_get_fold(struct muster_kernel *kernel, struct kernel_fold *out,
                              struct muster_error *err);

#endif
