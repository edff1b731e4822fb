/*
 * From the form a kernel is given in to one that a device's backend takes: portable source becomes
 * C, OpenCL C or CUDA C++, C becomes a shared object, CUDA C++ becomes machine code. What was
 * compiled once is found again on disk by its content.
 */
#ifndef KERNEL_BUILD_H
#define KERNEL_BUILD_H

#include "base/fold.h"
#include "kernel/compile.h"

#include <muster/kernel.h>
#include <stdbool.h>

/* What a kernel is built for. */
struct kernel_target {
    uint32_t forms;      /* enum muster_kernel_kind, or-ed: what the backend takes itself */
    uint16_t compute[2]; /* of a CUDA device, {0, 0} elsewhere */
    bool lacks_double;   /* of an OpenCL device */
};

/* A form that was built. */
struct kernel_image {
    struct muster_kernel_form
        form;     /* of a kind in target.forms; borrows from the image and from the
                                       form it was built of */
    void *memory; /* owns, from the allocator */
    size_t bytes;
    void *library; /* owns: a loaded shared object */
};

/*
 * Whether the target takes the form as it is: of a kind it takes and, where it is machine code,
 * made for such a device.
 */
bool kernel_is_taken(const struct muster_kernel_form *form, const struct kernel_target *target);

/*
 * Whether the form is taken, or can be made into one the target takes, with the compilers that this
 * machine has. The first question about a CUDA device loads NVRTC; all others are cheap.
 */
bool kernel_can_build(const struct muster_kernel_form *form, const struct kernel_target *target);

/*
 * May take seconds: runs a compiler. The compiler's own words are in `err` on failure. Any thread.
 * A form that is taken as it is comes back as it is.
 */
muster_status kernel_build(const struct muster_kernel_form *form,
                           const struct kernel_target *target,
                           const struct muster_allocator *allocator, struct kernel_image *out,
                           struct muster_error *err);

/* The same, with all that a compiler that refuses says going to `log`, which may be NULL. */
muster_status kernel_build_logged(const struct muster_kernel_form *form,
                                  const struct kernel_target *target,
                                  const struct muster_allocator *allocator,
                                  const struct kernel_log *log, struct kernel_image *out,
                                  struct muster_error *err);

/*
 * The same of source that is not trusted: the compiler runs in a sandbox. Only what becomes a shared object that
 * this process does not load can be built; else MUSTER_E_NOT_SUPPORTED.
 */
muster_status kernel_build_untrusted(const struct muster_kernel_form *form,
                                     const struct kernel_target *target,
                                     const struct muster_allocator *allocator,
                                     const struct kernel_log *log, struct kernel_image *out,
                                     struct muster_error *err);

/*
 * The two functions of base/fold.h beside the entry of an image that is a function; false where it is no
 * reduction, or was not made by Muster.
 */
bool kernel_image_fold(const struct kernel_image *image, fold_function *fold,
                       folded_function *folded);
void kernel_image_release(struct kernel_image *image, const struct muster_allocator *allocator);

#endif
