/*
 * Kernels: what runs over a range of items.
 */
#ifndef MUSTER_KERNEL_H
#define MUSTER_KERNEL_H

#include <muster/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

struct muster_kernel;

/* The forms a kernel can be given in. Bits, so that a device can say which it takes. */
enum muster_kernel_kind {
    MUSTER_KERNEL_FUNCTION = 1 << 0,      /* a C function of this process */
    MUSTER_KERNEL_PORTABLE = 1 << 1,      /* source of the portable form (docs/kernels.md) */
    MUSTER_KERNEL_SHARED_OBJECT = 1 << 2, /* an image that has a muster_kernel_function */
    MUSTER_KERNEL_OPENCL = 1 << 3,        /* OpenCL C source */
    MUSTER_KERNEL_CUDA = 1 << 4,          /* CUDA C++ source, for NVRTC */
    MUSTER_KERNEL_PTX = 1 << 5,
    MUSTER_KERNEL_CUBIN = 1 << 6 /* or a fat binary */
};

/*
 * A kernel as a C function: does items [begin, end). args[i] points to argument i: for a block to a
 * `void *` with its address, for a value to the value. Called for disjoint parts of a range from
 * several threads at once. A status other than MUSTER_OK fails the launch.
 */
typedef muster_status (*muster_kernel_function)(uint64_t begin, uint64_t end, void *const *args);

/*
 * One form of a kernel. Forms for OpenCL and CUDA are functions that are started with at least one
 * thread for each item, or with fewer that stride:
 *
 *     kernel void entry(ulong begin, ulong items, ...)                          OpenCL C
 *     extern "C" __global__ void entry(uint64_t begin, uint64_t items, ...)     CUDA C++
 *
 * and do items [begin, begin + items). Arguments follow in order: a value as it is; for a block, in
 * CUDA C++ a pointer, in OpenCL C a `global` pointer to the block and a `ulong` with the offset in
 * bytes.
 */
struct muster_kernel_form {
    size_t size;
    enum muster_kernel_kind kind;
    muster_kernel_function function; /* MUSTER_KERNEL_FUNCTION */
    /* All other kinds: source, or image. */
    const void *code;
    size_t code_bytes;
    const char *entry;   /* the function's name in it */
    uint32_t threads;    /* of a block or work-group, OpenCL and CUDA forms; 0: chosen */
    uint16_t compute[2]; /* MUSTER_KERNEL_CUBIN: what it was made for; {0, 0}: not known */
};

/* Most arguments of one launch, and most bytes of their values together. */
#define MUSTER_ARGS_MAX 16
#define MUSTER_ARG_BYTES_MAX 256

/* One argument of a launch: a block with how it is used, or a value. */
struct muster_operand {
    muster_block block;
    uint32_t access;   /* enum muster_access for a block, 0 for a value */
    uint64_t offset;   /* into the block */
    const void *value; /* copied by the call */
    size_t bytes;      /* of the value */
};
/* clang-format off */
#define MUSTER_BLOCK_READ(block_) { .block = (block_), .access = MUSTER_READS }
#define MUSTER_BLOCK_WRITE(block_) { .block = (block_), .access = MUSTER_WRITES }
#define MUSTER_BLOCK_UPDATE(block_) { .block = (block_), .access = MUSTER_READS_WRITES }
#define MUSTER_SCALAR(variable) { .value = &(variable), .bytes = sizeof(variable) }
/* clang-format on */

/*
 * A kernel from its forms, at least one; a device uses the first it can. The forms are copied, what
 * they point to is borrowed until muster_kernel_destroy. Nothing is built yet. `name` is for
 * reports.
 */
MUSTER_API muster_status muster_kernel_from(struct muster *m, const char *name,
                                            const struct muster_kernel_form *forms, size_t count,
                                            struct muster_kernel **out, struct muster_error *err);

/* Waits for nothing: no launch of it may be unfinished. NULL is allowed. */
MUSTER_API void muster_kernel_destroy(struct muster_kernel *kernel);

/*
 * Runs the kernel over items [begin, begin + items) in stream order; zero items is allowed and runs
 * nothing. How the kernel itself ended is written to `*result` if that is given: MUSTER_OK by this
 * call, and a failure by the call that sees it finish, muster_stream_wait for one, so it must live
 * until then. Without a `result` a failure fails the stream. MUSTER_E_NOT_SUPPORTED: no form that
 * this device can use.
 */
MUSTER_API muster_status muster_launch(struct muster *m, muster_stream stream,
                                       struct muster_kernel *kernel, uint64_t begin, uint64_t items,
                                       const struct muster_operand *args, size_t arg_count,
                                       muster_status *result, struct muster_error *err);

#ifdef __cplusplus
}
#endif

#endif
