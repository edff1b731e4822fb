/*
 * Kernels in C, by the compiler that the machine has.
 */
#include "base/allocator.h"
#include "kernel/compile.h"
#include "kernel/elf.h"
#include "platform/file.h"
#include "platform/helper.h"
#include "platform/machine.h"
#include "platform/process.h"
#include "platform/sandbox.h"

#include <limits.h>
#include <muster/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMPILE_NS_MAX (120 * UINT64_C(1000000000))
#define WORDS_BYTES ((size_t)256 << 10)
#define OBJECT_BYTES_MAX ((size_t)256 << 20)

/*
 * The same arithmetic everywhere: no contraction, no excess precision (-std=c11). What is left out
 * (errno, traps) no kernel can see, and the loop is vectorised for it.
 */
static const char *const options[] = {
    "-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off",
    "-fno-math-errno", "-fno-trapping-math",
    /* A helper that no kernel of the file calls is no mistake. */
    "-Wall", "-Wno-unused-function", "-Wno-unknown-pragmas",
    /* What would give a wrong result, or a crash in mid-run. */
    "-Werror=implicit-function-declaration", "-Werror=implicit-int", "-Werror=int-conversion",
    "-Werror=incompatible-pointer-types", "-Wl,-z,defs"
};
/*
 * For this very processor. On many processors with AVX-512 compilers use half of each register. With
 * whole registers kernels that are limited by arithmetic take half the time, and those that are
 * limited by memory the same time. Other architectures spell it in too many ways.
 */
static const char *const native_options[] = {
#if defined(__x86_64__)
    "-march=native", "-mprefer-vector-width=512"
#else
    "-fPIC"
#endif
};
/*
 * clang vectorises over the items only where no loop is left in the body. It unrolls loops of
 * constant length for that: by default up to about 64 multiply-adds, with this option up to about 400.
 */
static const char *const clang_options[] = {
    "-mllvm", "-unroll-threshold=2000", "-Werror=incompatible-pointer-types-discards-qualifiers",
    "-Wno-unused-const-variable"
};
/* A pointer that loses its const could write what the caller says is only read. */
static const char *const gcc_options[] = { "-Werror=discarded-qualifiers" };
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static bool find_compiler(char path[PLATFORM_PATH_BYTES])
{
    const char *asked = platform_environment("MUSTER_CC");
    if (asked && *asked)
        return platform_program_find(asked, path);
    return platform_program_find("cc", path) || platform_program_find("gcc", path) ||
           platform_program_find("clang", path);
}

/* By the name of the file that a link such as cc leads to. False for a script that starts it. */
static bool is_clang(const char *path)
{
    char file[PATH_MAX];
    const char *name = realpath(path, file) ? strrchr(file, '/') : NULL;
    return name && strstr(name, "clang");
}

bool compiler_is_here(void)
{
    char path[PLATFORM_PATH_BYTES];
    return find_compiler(path);
}

muster_status compiler_missing(struct muster_error *err)
{
    const char *asked = platform_environment("MUSTER_CC");
    if (asked && *asked)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "set MUSTER_CC to the compiler's path, or unset it",
                                 "MUSTER_CC is %s, which is not a program", asked);
    return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                             "install cc, gcc or clang, set MUSTER_CC, or use a bundle",
                             "there is no C compiler here for a kernel in source form");
}

/* A compiler's command line. */
struct words {
    const char *all[COUNT_OF(options) + COUNT_OF(native_options) + COUNT_OF(clang_options) + 11];
    size_t count;
};

static void add(struct words *words, const char *const *more, size_t count)
{
    memcpy(words->all + words->count, more, count * sizeof *more);
    words->count += count;
}

/* The compiler and its options, without files. */
static void add_options(struct words *words, const char *path, uint32_t how)
{
    add(words, &path, 1);
    add(words, options, COUNT_OF(options));
    if (how & COMPILE_NATIVE)
        add(words, native_options, COUNT_OF(native_options));
    if (is_clang(path))
        add(words, clang_options, COUNT_OF(clang_options));
    else
        add(words, gcc_options, COUNT_OF(gcc_options));
}

/* All that the result depends on. */
static void make_key(const char *path, const char *source, size_t bytes, uint32_t how,
                     uint8_t key[SHA256_BYTES])
{
    struct words words = { .count = 0 };
    char features[8192];
    uint64_t identity[4] = { 0 };
    struct sha256 hash;
    sha256_init(&hash);
    sha256_add_text(&hash, "muster " MUSTER_VERSION_STRING " C");
    add_options(&words, path, how);
    for (size_t i = 0; i < words.count; i++)
        sha256_add_text(&hash, words.all[i]);
    if (how & COMPILE_UNTRUSTED)
        sha256_add_text(&hash, "untrusted");
    platform_file_identity(path, identity);
    sha256_add(&hash, identity, sizeof identity);
    if (how & COMPILE_NATIVE) {
        platform_processor_features(features, sizeof features);
        sha256_add_text(&hash, features);
        platform_processor_name(features, sizeof features);
        sha256_add_text(&hash, features);
    }
    sha256_add_field(&hash, source, bytes);
    sha256_finish(&hash, key);
}

/* Compiles `input` to `output`, both files; what the compiler says goes to the cache, too. */
static muster_status run_compiler(const char *folder, const char *path, const char *input,
                                  const char *output, uint32_t how, const uint8_t key[SHA256_BYTES],
                                  const struct muster_allocator *allocator,
                                  const struct kernel_log *log, struct muster_error *err)
{
    const char *const files[] = { "-o", output, input, "-lm", NULL };
    const char *program = path;
    char helper[HELPER_PATH_BYTES];
    struct words command = { .count = 0 };
    if (how & COMPILE_UNTRUSTED) {
        const char *const before[] = { "muster-helper", HELPER_CONFINE, folder };
        if (!platform_helper_find(helper))
            return muster_error_fill(
                err, MUSTER_E_NOT_FOUND, 0,
                "install muster-helper beside the program, or set MUSTER_HELPER",
                "no muster-helper to run a compiler in a sandbox");
        add(&command, before, COUNT_OF(before));
        program = helper;
    }
    add_options(&command, path, how);
    add(&command, files, COUNT_OF(files));
    struct platform_process_end end;
    char *words = allocator_take(allocator, WORDS_BYTES, 1);
    if (!words)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, "free memory of the process",
                                 "no host memory for a compiler's words");
    const uint64_t most_ns =
        how & COMPILE_UNTRUSTED ? SANDBOX_COMPILER_S * UINT64_C(1000000000) : COMPILE_NS_MAX;
    muster_status status =
        platform_process_run(program, command.all, folder, words, WORDS_BYTES, most_ns, &end, err);
    /* Where the code is not known, the file that should be there tells. */
    if (status == MUSTER_OK && end.code != 0 && (end.code > 0 || access(output, R_OK) != 0))
        status = kernel_report(path, words, log, err);
    else if (status == MUSTER_OK) {
        kernel_tell(log, MUSTER_LOG_WARNING, words);
        kernel_cache_keep_words(key, words, allocator);
    }
    allocator_give(allocator, words, WORDS_BYTES, 1);
    return status;
}

/* What a compiler made that says it is done, but may be none at all. */
static muster_status read_object(const char *path, const char *output,
                                 const struct muster_allocator *allocator, char **object,
                                 size_t *bytes, struct muster_error *err)
{
    muster_status status =
        platform_file_read(allocator, output, OBJECT_BYTES_MAX, object, bytes, err);
    if (status == MUSTER_OK && elf_look(*object, *bytes) == ELF_OURS)
        return MUSTER_OK;
    if (status == MUSTER_OK)
        allocator_give(allocator, *object, *bytes + 1, 1);
    else if (status != MUSTER_E_NOT_FOUND)
        return status;
    return muster_error_fill(err, MUSTER_E_PARSE, 0, "set MUSTER_CC to a C compiler, or unset it",
                             "%s reported success, but made no shared object", path);
}

static muster_status compile_in(const char *folder, const char *path, const char *source,
                                size_t bytes, uint32_t how, const uint8_t key[SHA256_BYTES],
                                const struct muster_allocator *allocator,
                                const struct kernel_log *log, struct kernel_blob *out,
                                struct muster_error *err)
{
    char input[PLATFORM_PATH_BYTES + 16], output[PLATFORM_PATH_BYTES + 16], *object;
    size_t object_bytes;
    snprintf(input, sizeof input, "%s/kernel.c", folder);
    snprintf(output, sizeof output, "%s/kernel.so", folder);
    muster_status status = platform_file_write(input, source, bytes, err);
    if (status == MUSTER_OK)
        status = run_compiler(folder, path, input, output, how, key, allocator, log, err);
    if (status == MUSTER_OK)
        status = read_object(path, output, allocator, &object, &object_bytes, err);
    if (status == MUSTER_OK)
        *out = (struct kernel_blob){ object, object_bytes + 1, object, object_bytes };
    return status;
}

muster_status compiler_build(const char *source, size_t bytes, uint32_t how,
                             const struct muster_allocator *allocator, const struct kernel_log *log,
                             struct kernel_blob *out, struct muster_error *err)
{
    char path[PLATFORM_PATH_BYTES], folder[PLATFORM_PATH_BYTES];
    uint8_t key[SHA256_BYTES];
    if (!find_compiler(path))
        return compiler_missing(err);
    make_key(path, source, bytes, how, key);
    if (kernel_cache_find(key, allocator, out)) {
        kernel_cache_tell_words(key, allocator, log);
        return MUSTER_OK;
    }
    muster_status status = platform_folder_make_temporary(folder, err);
    if (status != MUSTER_OK)
        return status;
    status = compile_in(folder, path, source, bytes, how, key, allocator, log, out, err);
    platform_folder_remove_temporary(folder);
    if (status == MUSTER_OK)
        kernel_cache_keep(key, out->data, out->size, allocator);
    return status;
}
