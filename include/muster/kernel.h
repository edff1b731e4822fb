/*
 * Kernels: what runs over a range of items.
 */
#ifndef MUSTER_KERNEL_H
#define MUSTER_KERNEL_H

#include <muster/memory.h>

#ifdef __cplusplus
MUSTER_SAME_NAMES_BEGIN
extern "C" {
#endif

struct muster_kernel;

/*
 * What a kernel finds where an argument with a halo has no data: before its first item and after its
 * last, and in a grid beyond every edge of it.
 */
enum muster_border {
    MUSTER_BORDER_ZERO = 0,  /* zeros */
    MUSTER_BORDER_CLAMP = 1, /* the nearest item; in a grid the nearest cell */
    MUSTER_BORDER_WRAP =
        2 /* the data goes round: before the first comes the last. Not of a source */
};

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
 * several threads at once. A status other than MUSTER_OK fails the launch. It must not wait
 * for Muster's work, which may need this thread: calls that would wait fail with MUSTER_E_ORDER.
 */
typedef muster_status (*muster_kernel_function)(uint64_t begin, uint64_t end, void *const *args);

/*
 * For a program that is its own helper (muster_helper_main): names a function that helpers are to have, too, so that
 * kernels that are this function run on isolated devices. It uses nothing of the program but its arguments. Called
 * before muster_helper_main, with the same functions whatever the command line; at most 64, with names of at most 63
 * characters. Both stay.
 */
MUSTER_API void muster_helper_function(const char *name, muster_kernel_function function);

/*
 * One form of a kernel. Forms for OpenCL and CUDA are functions that are started with at least one
 * thread for each item, or with fewer that stride:
 *
 *     kernel void entry(ulong begin, ulong items, ...)                          OpenCL C
 *     extern "C" __global__ void entry(uint64_t begin, uint64_t items, ...)     CUDA C++
 *
 * and do items [begin, begin + items); a launch of very many items may become several calls.
 * Arguments follow in order: a value as it is; for a block, in CUDA C++ a pointer, in OpenCL C a
 * `global` pointer to the block and a `ulong` with the offset in bytes.
 */
struct muster_kernel_form {
    size_t size;
    enum muster_kernel_kind kind;
    muster_kernel_function function; /* MUSTER_KERNEL_FUNCTION */
    /* All other kinds: source, or image. Backends get source and PTX with a zero byte after it. */
    const void *code;
    size_t code_bytes;
    const char *entry;   /* the function's name in it, at most 63 characters */
    uint32_t threads;    /* of a block or work-group, OpenCL and CUDA forms; 0: chosen */
    uint16_t compute[2]; /* cubin and PTX: what it was made for; {0, 0}: not known */
    const char *file;    /* what compilers call the source in their messages; NULL: the entry */
    /*
     * MUSTER_KERNEL_FUNCTION, optional: does the same as `function`, with pointers that are
     * `restrict`. It is called instead where no argument that may be written, bit i of `written` for
     * argument i, shares memory with another argument.
     */
    muster_kernel_function apart;
    uint32_t written;
};

/* Most arguments of one launch, and most bytes of their values together. */
#define MUSTER_ARGS_MAX 16
#define MUSTER_ARG_BYTES_MAX 256

/* One argument of a launch: a block with how it is used, or a value. */
struct muster_operand {
    size_t size;
    muster_block block;
    uint32_t access;   /* enum muster_access for a block, 0 for a value */
    uint64_t offset;   /* into the block */
    const void *value; /* copied by the call */
    size_t bytes;      /* of the value */
};
#ifdef __cplusplus
}
inline struct muster_operand muster_operand_block(muster_block block, enum muster_access access)
{
    struct muster_operand operand = {};
    operand.size = sizeof operand;
    operand.block = block;
    operand.access = access;
    return operand;
}
inline struct muster_operand muster_operand_value(const void *value, size_t bytes)
{
    struct muster_operand operand = {};
    operand.size = sizeof operand;
    operand.value = value;
    operand.bytes = bytes;
    return operand;
}
#define MUSTER_BLOCK_READ(block_) muster_operand_block(block_, MUSTER_READS)
#define MUSTER_BLOCK_WRITE(block_) muster_operand_block(block_, MUSTER_WRITES)
#define MUSTER_BLOCK_UPDATE(block_) muster_operand_block(block_, MUSTER_READS_WRITES)
#define MUSTER_SCALAR(variable) muster_operand_value(&(variable), sizeof(variable))
extern "C" {
#else
/* clang-format off */
#define MUSTER_BLOCK_READ(block_) { .size = sizeof(struct muster_operand), .block = (block_), .access = MUSTER_READS }
#define MUSTER_BLOCK_WRITE(block_) { .size = sizeof(struct muster_operand), .block = (block_), .access = MUSTER_WRITES }
#define MUSTER_BLOCK_UPDATE(block_) { .size = sizeof(struct muster_operand), .block = (block_), .access = MUSTER_READS_WRITES }
#define MUSTER_SCALAR(variable) { .size = sizeof(struct muster_operand), .value = &(variable), .bytes = sizeof(variable) }
/* clang-format on */
#endif

/*
 * A kernel from its forms, at least one. All is copied; functions are borrowed until
 * muster_kernel_destroy. Nothing is compiled yet, but portable source is read: MUSTER_E_PARSE says
 * where it is wrong, and launches with other arguments than it has are refused.
 * `name` is for reports.
 *
 * A device uses the first form that it takes as it is, else the first that can be made into one:
 * portable source and shared objects wherever functions run, portable source on OpenCL devices, and
 * portable and CUDA source on CUDA devices if NVRTC is there. What the first launch on a device, or
 * a job, compiles is kept on disk (MUSTER_CACHE) and found again by its content. A form that does
 * not compile is not tried again: every launch there fails with the compiler's words, the log has
 * all of them.
 */
MUSTER_API muster_status muster_kernel_from(struct muster *m, const char *name,
                                            const struct muster_kernel_form *forms, size_t count,
                                            struct muster_kernel **out, struct muster_error *err);

/*
 * A kernel from a file: portable source (.c), CUDA C++ (.cu), OpenCL C (.cl), PTX, a cubin, a
 * shared object, or a bundle of them (bundle.h), told by what is in it and then by its name.
 * `entry` NULL: the only one there is; a cubin and a shared object need it. Blocks while the
 * file is read. MUSTER_E_NOT_FOUND: no such file, or no such entry in it.
 */
MUSTER_API muster_status muster_kernel_load(struct muster *m, const char *path, const char *entry,
                                            struct muster_kernel **out, struct muster_error *err);

/* The same from several files, which hold forms of one kernel; the first has the first say. */
MUSTER_API muster_status muster_kernel_load_files(struct muster *m, const char *const *paths,
                                                  size_t count, const char *entry,
                                                  struct muster_kernel **out,
                                                  struct muster_error *err);

/* One of a kernel's parameters, as its portable source writes it. The caller sets `size`. */
struct muster_kernel_parameter {
    size_t size;
    char name[64];
    char type[96]; /* as written, words apart by one space: "MUSTER_GLOBAL const float *" */
    int is_block;  /* not 0: a pointer, to a block */
    int is_const;  /* not 0: the value, or what the pointer points to, cannot be changed */
    size_t bytes;  /* of the value, or of what it points to; 0: not known without compiling */
};

/*
 * What the kernel takes after the item's number: parameter `index`, counted from 0. Any thread.
 * MUSTER_E_NOT_FOUND: there are fewer. MUSTER_E_NOT_SUPPORTED: no form of it is portable source, so
 * its parameters are unknown.
 */
MUSTER_API muster_status muster_kernel_parameter(const struct muster_kernel *kernel, size_t index,
                                                 struct muster_kernel_parameter *out,
                                                 struct muster_error *err);

/* Waits for nothing: no launch of it may be unfinished. NULL is allowed. */
MUSTER_API void muster_kernel_destroy(struct muster_kernel *kernel);

/*
 * Runs the kernel over items [begin, begin + items) in stream order; zero items is allowed and runs
 * nothing. How the kernel itself ended is written to `*result` if that is given: MUSTER_OK by this
 * call, and a failure by the call that sees it finish, muster_stream_wait for one, so it must live
 * until then. Without a `result` a failure fails the stream. The first launch on a device may
 * compile the kernel, which blocks. MUSTER_E_NOT_SUPPORTED: no form that this device can use.
 * MUSTER_E_PARSE: the compiler refused it. MUSTER_E_INVALID: among others, not the arguments that
 * the kernel's source names.
 */
MUSTER_API muster_status muster_launch(struct muster *m, muster_stream stream,
                                       struct muster_kernel *kernel, uint64_t begin, uint64_t items,
                                       const struct muster_operand *args, size_t arg_count,
                                       muster_status *result, struct muster_error *err);

#ifdef __cplusplus
}
MUSTER_SAME_NAMES_END
#endif

#endif
