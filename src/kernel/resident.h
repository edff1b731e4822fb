/*
 * Several portable kernels as one CUDA kernel that stays on the device (kernel/resident_kernel.cu): each is
 * in a namespace of its own, with a function that runs it over a range of items.
 */
#ifndef KERNEL_RESIDENT_H
#define KERNEL_RESIDENT_H

#include "kernel/build.h"

#define KERNEL_RESIDENT_ENTRY "muster_resident"

/*
 * CUDA C++ for blocks of `threads` threads; the forms are of the portable kind. `*out` is terminated; given back
 * with allocator_give(..., *bytes + 1, 1). MUSTER_E_NOT_SUPPORTED: only some of them take MUSTER_FAST_MATH.
 */
muster_status kernel_resident_source(const struct muster_kernel_form *const *forms, size_t count,
                                     uint32_t threads, const struct muster_allocator *allocator,
                                     char **out, size_t *bytes, struct muster_error *err);

/*
 * The same compiled for a device: the image's form is a cubin, or PTX. Given back with kernel_image_release.
 */
muster_status kernel_resident_build(const struct muster_kernel_form *const *forms, size_t count,
                                    uint32_t threads, const struct kernel_target *target,
                                    const struct muster_allocator *allocator,
                                    const struct kernel_log *log, struct kernel_image *out,
                                    struct muster_error *err);

#endif
