/*
 * Bundles: the forms of one or more kernels in one file, so that a machine without compilers can
 * run them on all its devices. `muster kernel build` makes them, muster_kernel_load takes them.
 */
#ifndef MUSTER_BUNDLE_H
#define MUSTER_BUNDLE_H

#include <muster/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

struct muster_bundle;

/* An empty one. Needs no runtime. One thread at a time may use it. */
MUSTER_API muster_status muster_bundle_create(struct muster_bundle **out, struct muster_error *err);
/* NULL is allowed. */
MUSTER_API void muster_bundle_destroy(struct muster_bundle *bundle);

/*
 * Adds what a file holds: any that muster_kernel_load takes. `entry` NULL: all kernels in it. A
 * cubin and a shared object need it, unless the bundle has one kernel so far, whose form it is
 * then taken for.
 */
MUSTER_API muster_status muster_bundle_add_file(struct muster_bundle *bundle, const char *path,
                                                const char *entry, struct muster_error *err);

/* Adds a form, which is copied. A function of this process cannot be in a bundle. */
MUSTER_API muster_status muster_bundle_add_form(struct muster_bundle *bundle,
                                                const struct muster_kernel_form *form,
                                                struct muster_error *err);

/*
 * Compiles all source in it to `kind`: portable source to MUSTER_KERNEL_SHARED_OBJECT (for all
 * processors of this machine's architecture) or MUSTER_KERNEL_OPENCL, portable and CUDA source to
 * MUSTER_KERNEL_CUBIN or MUSTER_KERNEL_PTX for devices of this compute capability. The new forms
 * stand before all others, so that they are preferred. May take seconds. MUSTER_E_NOT_FOUND: no
 * source in it becomes that. MUSTER_E_NOT_SUPPORTED: this machine lacks the compiler.
 * MUSTER_E_PARSE: the compiler refused. On failure nothing is added.
 */
MUSTER_API muster_status muster_bundle_build(struct muster_bundle *bundle,
                                             enum muster_kernel_kind kind,
                                             const uint16_t compute[2], struct muster_error *err);

/*
 * Where the lines go that compilers say while muster_bundle_build runs: errors of one that refuses,
 * else warnings. NULL: nowhere but to the file that MUSTER_LOG names. `user` is borrowed until the
 * bundle is destroyed.
 */
MUSTER_API void muster_bundle_log(struct muster_bundle *bundle,
                                  void (*log)(void *user, enum muster_log_level level,
                                              const char *text),
                                  void *user);

/*
 * What is in it: form number `index`, counted from 0; NULL past the last. Borrowed until the bundle
 * is changed or destroyed.
 */
MUSTER_API const struct muster_kernel_form *muster_bundle_form(const struct muster_bundle *bundle,
                                                               size_t index);

/*
 * Writes the bundle to a file, whole or not at all, by the rules of muster_file_write_open; a link
 * is followed. An empty bundle is refused. MUSTER_E_IO: the path names something that is not a
 * file, such as a folder or a pipe.
 */
MUSTER_API muster_status muster_bundle_write(const struct muster_bundle *bundle, const char *path,
                                             struct muster_error *err);

/* "portable", "shared object", "OpenCL C" ...; never NULL. */
MUSTER_API const char *muster_kernel_kind_name(enum muster_kernel_kind kind);

#ifdef __cplusplus
}
#endif

#endif
