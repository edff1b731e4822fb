/*
 * What the ways to compile a kernel have in common: the piece of memory they give, where their
 * words go, and the memory of what was compiled before.
 */
#ifndef KERNEL_COMPILE_H
#define KERNEL_COMPILE_H

#include "base/sha256.h"

#include <muster/runtime.h>
#include <stdbool.h>

/* Bytes inside a piece of memory. */
struct kernel_blob {
    void *memory; /* owns, from the allocator */
    size_t memory_bytes;
    const char *data; /* inside it */
    size_t size;
};

void kernel_blob_release(struct kernel_blob *blob, const struct muster_allocator *allocator);

/* Where a compiler's words go, a line at a time: errors of one that refused, else warnings. */
struct kernel_log {
    void (*say)(void *user, enum muster_log_level level, const char *line);
    void *user;
};

/* Gives what a compiler said to `log`, which may be NULL, line by line. */
void kernel_tell(const struct kernel_log *log, enum muster_log_level level, const char *words);

/*
 * A compiler refused: gives all its words to `log`, which may be NULL, and the line that says why
 * to `err`, as MUSTER_E_PARSE.
 */
muster_status kernel_report(const char *compiler, const char *words, const struct kernel_log *log,
                            struct muster_error *err);

/*
 * Looks for what was compiled under this key, in MUSTER_CACHE, XDG_CACHE_HOME/muster or
 * ~/.cache/muster; an empty MUSTER_CACHE switches it off. What is damaged or another user's counts
 * as not there.
 */
bool kernel_cache_find(const uint8_t key[SHA256_BYTES], const struct muster_allocator *allocator,
                       struct kernel_blob *out);
/*
 * What the compiler said when it made what is kept under this key, so that its warnings are told
 * each time; nothing is kept of one that said nothing.
 */
void kernel_cache_keep_words(const uint8_t key[SHA256_BYTES], const char *words,
                             const struct muster_allocator *allocator);
void kernel_cache_tell_words(const uint8_t key[SHA256_BYTES],
                             const struct muster_allocator *allocator,
                             const struct kernel_log *log);
/* Does nothing where that cannot be: the cache is only there to save time. */
void kernel_cache_keep(const uint8_t key[SHA256_BYTES], const void *bytes, size_t size,
                       const struct muster_allocator *allocator);

/* The system's C compiler: MUSTER_CC or cc, gcc, clang, as found in PATH. */
bool compiler_is_here(void);
/* Says that it is not, and what would help. */
muster_status compiler_missing(struct muster_error *err);
enum {
    COMPILE_NATIVE = 1 << 0,   /* for this very processor, else for all of its architecture */
    COMPILE_UNTRUSTED = 1 << 1 /* in a sandbox: it reads itself and writes one folder */
};
/* A shared object from C. MUSTER_E_NOT_SUPPORTED if there is no compiler. */
muster_status compiler_build(const char *source, size_t bytes, uint32_t how,
                             const struct muster_allocator *allocator, const struct kernel_log *log,
                             struct kernel_blob *out, struct muster_error *err);

/* NVIDIA's compiler of CUDA C++, loaded from libnvrtc the first time it is asked for. */
bool nvrtc_is_here(void);
/* Whether it makes machine code for such devices; `is_ptx`: text that their driver can finish. */
bool nvrtc_can_build(const uint16_t compute[2], bool is_ptx);
/* Says why it does not. */
muster_status nvrtc_missing(const uint16_t compute[2], struct muster_error *err);
/*
 * `file` names the source in messages. `is_portable`: contraction off, and functions are the
 * device's. PTX is made for the newest devices it knows that are no newer than `compute`.
 */
muster_status nvrtc_build(const char *source, const char *file, const uint16_t compute[2],
                          bool is_ptx, bool is_portable, const struct muster_allocator *allocator,
                          const struct kernel_log *log, struct kernel_blob *out,
                          uint16_t made_for[2], struct muster_error *err);

#endif
