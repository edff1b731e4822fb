/*
 * Portable source in each of its three languages: the prelude, the source itself at its own lines,
 * and a wrapper for each entry that has the entry's name and does a range of items.
 */
#ifndef KERNEL_TRANSLATE_H
#define KERNEL_TRANSLATE_H

#include "kernel/mathematics.h"
#include "kernel/signature.h"

#include <muster/runtime.h>

/* include/muster_kernel.h, terminated. */
extern const char kernel_prelude[];

/* Stands in OpenCL C whose mathematics need a device with double. */
#define KERNEL_NEEDS_DOUBLE "#define MUSTER_KERNEL_NEEDS_DOUBLE"

enum kernel_language { KERNEL_C, KERNEL_CUDA_CPP, KERNEL_OPENCL_C };

/*
 * `file` is what compilers call the source in their messages. `*out` is terminated; given back with
 * allocator_give(..., *bytes + 1, 1).
 */
muster_status kernel_translate(const struct kernel_signature *signature, const char *code,
                               size_t code_bytes, const char *file, enum kernel_language language,
                               const struct muster_allocator *allocator, char **out, size_t *bytes,
                               struct muster_error *err);

struct writer;
/* What of the prelude and the mathematics stands before sources. */
void translate_put_prelude(struct writer *writer, bool checks_near,
                           const struct mathematics *mathematics, enum kernel_language language);
/* The source at its own lines; those that include the prelude are left empty. */
void translate_put_source(struct writer *writer, const struct kernel_signature *signature,
                          const char *code, size_t bytes, const char *file,
                          enum kernel_language language);

#endif
