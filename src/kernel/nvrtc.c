/*
 * Kernels in CUDA C++, by NVRTC, which is loaded where a machine has it and stays loaded.
 */
#include "base/allocator.h"
#include "kernel/compile.h"
#include "kernel/mathematics.h"
#include "kernel/translate.h"
#include "platform/file.h"
#include "platform/library.h"
#include "platform/machine.h"
#include "platform/thread.h"

#include <muster/backend.h>
#include <stdio.h>
#include <string.h>

#define ARCHS_MAX 64

/* As in nvrtc.h, whose types are an opaque pointer and an enumeration with 0 for success. */
typedef void *nvrtc_program;
typedef int nvrtc_result;

#define NVRTC_FUNCTIONS(X)                                                                         \
    X(nvrtcVersion)                                                                                \
    X(nvrtcGetErrorString)                                                                         \
    X(nvrtcCreateProgram)                                                                          \
    X(nvrtcDestroyProgram)                                                                         \
    X(nvrtcCompileProgram)                                                                         \
    X(nvrtcGetProgramLogSize)                                                                      \
    X(nvrtcGetProgramLog)                                                                          \
    X(nvrtcGetCUBINSize)                                                                           \
    X(nvrtcGetCUBIN)                                                                               \
    X(nvrtcGetPTXSize)                                                                             \
    X(nvrtcGetPTX)                                                                                 \
    X(nvrtcGetNumSupportedArchs)                                                                   \
    X(nvrtcGetSupportedArchs)

/* What is known after the first look, and does not change. */
static struct {
    bool is_here;
    int version[2];
    int archs[ARCHS_MAX]; /* 10 x major + minor */
    int arch_count;
    uint64_t identity[4]; /* of its file */
    struct platform_library library;
    nvrtc_result (*nvrtcVersion)(int *major, int *minor);
    const char *(*nvrtcGetErrorString)(nvrtc_result result);
    nvrtc_result (*nvrtcCreateProgram)(nvrtc_program *program, const char *source, const char *name,
                                       int header_count, const char *const *headers,
                                       const char *const *header_names);
    nvrtc_result (*nvrtcDestroyProgram)(nvrtc_program *program);
    nvrtc_result (*nvrtcCompileProgram)(nvrtc_program program, int option_count,
                                        const char *const *options);
    nvrtc_result (*nvrtcGetProgramLogSize)(nvrtc_program program, size_t *bytes);
    nvrtc_result (*nvrtcGetProgramLog)(nvrtc_program program, char *log);
    nvrtc_result (*nvrtcGetCUBINSize)(nvrtc_program program, size_t *bytes);
    nvrtc_result (*nvrtcGetCUBIN)(nvrtc_program program, char *cubin);
    nvrtc_result (*nvrtcGetPTXSize)(nvrtc_program program, size_t *bytes);
    nvrtc_result (*nvrtcGetPTX)(nvrtc_program program, char *ptx);
    nvrtc_result (*nvrtcGetNumSupportedArchs)(int *count);
    nvrtc_result (*nvrtcGetSupportedArchs)(int *archs);
} nvrtc;
static struct platform_once looked = PLATFORM_ONCE_INIT;

static bool open_library(void)
{
    static const char *const names[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so" };
    const char *const folders[] = { "", platform_environment("CUDA_PATH"), "/usr/local/cuda" };
    char path[512];
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++)
        for (size_t n = 0; folders[f] && n < sizeof names / sizeof *names; n++) {
            snprintf(path, sizeof path, "%s%s%s", folders[f], *folders[f] ? "/lib64/" : "",
                     names[n]);
            if (platform_library_open(&nvrtc.library, path, NULL) == MUSTER_OK)
                return true;
        }
    return false;
}

static bool find_functions(void)
{
    bool has_all = true;
#define NVRTC_FIND(name)                                                                           \
    {                                                                                              \
        void *symbol = platform_library_symbol(&nvrtc.library, #name);                             \
        has_all = has_all && symbol;                                                               \
        memcpy(&nvrtc.name, &symbol, sizeof symbol);                                               \
    }
    NVRTC_FUNCTIONS(NVRTC_FIND)
#undef NVRTC_FIND
    return has_all;
}

static void look(void)
{
    if (!open_library())
        return;
    int count = 0;
    nvrtc.is_here = find_functions() &&
                    nvrtc.nvrtcVersion(&nvrtc.version[0], &nvrtc.version[1]) == 0 &&
                    nvrtc.nvrtcGetNumSupportedArchs(&count) == 0 && count > 0 &&
                    count <= ARCHS_MAX && nvrtc.nvrtcGetSupportedArchs(nvrtc.archs) == 0;
    nvrtc.arch_count = count;
    char path[PLATFORM_PATH_BYTES];
    void *symbol = nvrtc.is_here ? platform_library_symbol(&nvrtc.library, "nvrtcVersion") : NULL;
    if (symbol && platform_symbol_file(symbol, path, sizeof path))
        platform_file_identity(path, nvrtc.identity);
    if (!nvrtc.is_here)
        platform_library_close(&nvrtc.library);
}

bool nvrtc_is_here(void)
{
    platform_once_run(&looked, look);
    return nvrtc.is_here;
}

/* The architecture to compile for, 0 if it knows none that will do. */
static int find_arch(const uint16_t compute[2], bool is_ptx)
{
    int wanted = compute[0] * 10 + compute[1], best = 0;
    for (int i = 0; i < nvrtc.arch_count; i++) {
        int arch = nvrtc.archs[i];
        if (arch == wanted || (is_ptx && arch < wanted && arch > best))
            best = arch;
        if (arch == wanted)
            break;
    }
    return best;
}

bool nvrtc_can_build(const uint16_t compute[2], bool is_ptx)
{
    return nvrtc_is_here() && find_arch(compute, is_ptx) > 0;
}

muster_status nvrtc_missing(const uint16_t compute[2], struct muster_error *err)
{
    if (!nvrtc_is_here())
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "install NVRTC (libnvrtc), or use a bundle",
                                 "there is no NVRTC here for a kernel in source form");
    return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                             "use another version of NVRTC, or a bundle made with one",
                             "NVRTC %d.%d does not compile for compute capability %u.%u",
                             nvrtc.version[0], nvrtc.version[1], compute[0], compute[1]);
}

static muster_status refused(nvrtc_result result, const char *what, struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_DRIVER, result, NULL, "NVRTC cannot %s: %s", what,
                             nvrtc.nvrtcGetErrorString(result));
}

static muster_status no_memory(struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, "free memory of the process",
                             "no host memory for a kernel that NVRTC compiled");
}

/* What it said of a program that it compiled. */
static void tell_warnings(nvrtc_program program, const uint8_t key[SHA256_BYTES],
                          const struct muster_allocator *allocator, const struct kernel_log *log)
{
    size_t bytes = 0;
    if (nvrtc.nvrtcGetProgramLogSize(program, &bytes) != 0 || bytes <= 1)
        return;
    char *words = allocator_take(allocator, bytes + 1, 1);
    if (words && nvrtc.nvrtcGetProgramLog(program, words) == 0) {
        kernel_tell(log, MUSTER_LOG_WARNING, words);
        kernel_cache_keep_words(key, words, allocator);
    }
    allocator_give(allocator, words, bytes + 1, 1);
}

static muster_status report_log(nvrtc_program program, nvrtc_result result,
                                const struct muster_allocator *allocator,
                                const struct kernel_log *log, struct muster_error *err)
{
    size_t bytes = 0;
    if (nvrtc.nvrtcGetProgramLogSize(program, &bytes) != 0 || bytes <= 1)
        return refused(result, "compile the kernel", err);
    char *words = allocator_take(allocator, bytes + 1, 1);
    if (!words)
        return no_memory(err);
    muster_status status = nvrtc.nvrtcGetProgramLog(program, words) == 0
                               ? kernel_report("NVRTC", words, log, err)
                               : refused(result, "compile the kernel", err);
    allocator_give(allocator, words, bytes + 1, 1);
    return status;
}

static muster_status take_result(nvrtc_program program, bool is_ptx,
                                 const struct muster_allocator *allocator, struct kernel_blob *out,
                                 struct muster_error *err)
{
    size_t bytes = 0;
    nvrtc_result result =
        is_ptx ? nvrtc.nvrtcGetPTXSize(program, &bytes) : nvrtc.nvrtcGetCUBINSize(program, &bytes);
    if (result != 0 || bytes <= 1)
        return refused(result, "tell the size of the kernel", err);
    char *memory = allocator_take(allocator, bytes + 1, 1);
    if (!memory)
        return no_memory(err);
    result = is_ptx ? nvrtc.nvrtcGetPTX(program, memory) : nvrtc.nvrtcGetCUBIN(program, memory);
    if (result != 0) {
        allocator_give(allocator, memory, bytes + 1, 1);
        return refused(result, "give the kernel", err);
    }
    /*
     * It counts the zero byte behind a text; here all text is followed by one that is not counted.
     */
    *out = (struct kernel_blob){ memory, bytes + 1, memory, is_ptx ? bytes - 1 : bytes };
    return MUSTER_OK;
}

/* Kernels may include the prelude, also by the name that C knows its types by. */
static muster_status compile(const char *source, const char *file, const char *const *options,
                             int option_count, bool is_ptx, const uint8_t key[SHA256_BYTES],
                             const struct muster_allocator *allocator, const struct kernel_log *log,
                             struct kernel_blob *out, struct muster_error *err)
{
    /* The first part of the mathematics brings the others. */
    static const char *const header_names[] = {
        KERNEL_PRELUDE_NAME,         "stdint.h",
        "muster_kernel_constants.h", "muster_kernel_math.h",
        "muster_kernel_math_two.h",  "muster_kernel_math_double.h",
        "muster_kernel_math_fast.h",
    };
    const char *const headers[] = {
        kernel_prelude, kernel_prelude, mathematics_text, "", "", "", mathematics_fast_text,
    };
    _Static_assert(sizeof headers == sizeof header_names, "a text for each name");
    nvrtc_program program;
    nvrtc_result result = nvrtc.nvrtcCreateProgram(
        &program, source, file, (int)(sizeof headers / sizeof *headers), headers, header_names);
    if (result != 0)
        return refused(result, "take the kernel", err);
    result = nvrtc.nvrtcCompileProgram(program, option_count, options);
    muster_status status = result == 0 ? take_result(program, is_ptx, allocator, out, err)
                                       : report_log(program, result, allocator, log, err);
    if (status == MUSTER_OK)
        tell_warnings(program, key, allocator, log);
    nvrtc.nvrtcDestroyProgram(&program);
    return status;
}

muster_status nvrtc_build(const char *source, const char *file, const uint16_t compute[2],
                          bool is_ptx, bool is_portable, const struct muster_allocator *allocator,
                          const struct kernel_log *log, struct kernel_blob *out,
                          uint16_t made_for[2], struct muster_error *err)
{
    if (!nvrtc_can_build(compute, is_ptx))
        return nvrtc_missing(compute, err);
    int arch = find_arch(compute, is_ptx);
    char target[48];
    snprintf(target, sizeof target, "--gpu-architecture=%s_%d", is_ptx ? "compute" : "sm", arch);
    const char *const options[] = { target, "--std=c++17", "--fmad=false",
                                    "--device-as-default-execution-space" };
    int option_count = is_portable ? 4 : 2;
    struct sha256 hash;
    uint8_t key[SHA256_BYTES];
    sha256_init(&hash);
    sha256_add_text(&hash, "muster " MUSTER_VERSION_STRING " CUDA");
    sha256_add(&hash, nvrtc.version, sizeof nvrtc.version);
    sha256_add(&hash, nvrtc.identity, sizeof nvrtc.identity);
    for (int i = 0; i < option_count; i++)
        sha256_add_text(&hash, options[i]);
    sha256_add_text(&hash, kernel_prelude);
    sha256_add_text(&hash, mathematics_text);
    sha256_add_text(&hash, mathematics_fast_text);
    sha256_add_text(&hash, source);
    sha256_finish(&hash, key);
    made_for[0] = (uint16_t)(arch / 10);
    made_for[1] = (uint16_t)(arch % 10);
    if (kernel_cache_find(key, allocator, out)) {
        kernel_cache_tell_words(key, allocator, log);
        return MUSTER_OK;
    }
    muster_status status =
        compile(source, file, options, option_count, is_ptx, key, allocator, log, out, err);
    if (status == MUSTER_OK)
        kernel_cache_keep(key, out->data, out->size, allocator);
    return status;
}
