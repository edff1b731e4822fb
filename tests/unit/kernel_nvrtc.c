/*
 * CUDA C++ by an NVRTC that is made here, so that it can be told what to answer and tells what it was
 * asked: platform_library_* are wrapped (CMakeLists.txt). What it looks like is found out once for a
 * process, so each look of another one has a process of its own.
 */
#include "kernel/compile.h"
#include "kernel/mathematics.h"
#include "kernel/translate.h"
#include "kernel_support.h"
#include "platform/library.h"

#include <sys/mman.h>
#include <sys/wait.h>

#define PTX_TEXT ".version 8.0\n.target sm_80\n.entry f()\n{}\n"
#define CUBIN_TEXT "\177ELF cubin"

enum failing { NOTHING, VERSION, ARCH_COUNT, ARCHS, CREATE, COMPILE, LOG_SIZE, LOG, SIZE, GET };

/* What it answers and what it was asked, in memory that processes share. */
struct fake {
    enum failing failing;
    bool is_here;
    const char *lacks; /* a function */
    int version[2];
    int archs[80], arch_count;
    size_t log_bytes, result_bytes; /* with the zero byte; SIZE_MAX: of the texts here */
    char file[KERNEL_PATH_BYTES];   /* that it is loaded from */
    char opened[16][128];
    int open_count, close_count;
    int created, destroyed, compiled;
    char options[8][64], name[64];
    int option_count, header_count;
    bool has_headers;
    char source[1 << 16];
};
static struct fake *fake;

static const char log_text[] = "here.cu(3): error: no such thing\n1 error\n";

static int answer(enum failing what)
{
    return fake->failing == what ? 6 : 0;
}

static int fake_version(int *major, int *minor)
{
    *major = fake->version[0];
    *minor = fake->version[1];
    return answer(VERSION);
}

static const char *fake_error(int result)
{
    return result == 6 ? "NVRTC_ERROR_SIX" : "NVRTC_SUCCESS";
}

static int fake_create(void **program, const char *source, const char *name, int header_count,
                       const char *const *headers, const char *const *header_names)
{
    if (answer(CREATE))
        return 6;
    snprintf(fake->source, sizeof fake->source, "%s", source);
    snprintf(fake->name, sizeof fake->name, "%s", name);
    fake->header_count = header_count;
    fake->has_headers = header_count == 7 && strcmp(header_names[0], "muster_kernel.h") == 0 &&
                        strcmp(header_names[1], "stdint.h") == 0 &&
                        strcmp(headers[0], kernel_prelude) == 0 &&
                        strcmp(headers[1], kernel_prelude) == 0 &&
                        strcmp(header_names[2], "muster_kernel_constants.h") == 0 &&
                        strcmp(headers[2], mathematics_text) == 0;
    fake->created++;
    *program = fake;
    return 0;
}

static int fake_destroy(void **program)
{
    fake->destroyed += *program == fake;
    *program = NULL;
    return 0;
}

static int fake_compile(void *program, int count, const char *const *options)
{
    if (program != fake)
        return 6;
    fake->compiled++;
    fake->option_count = count;
    for (int i = 0; i < count && i < 8; i++)
        snprintf(fake->options[i], sizeof fake->options[i], "%s", options[i]);
    return fake->failing >= COMPILE && fake->failing <= LOG ? 6 : 0;
}

static int fake_log_size(void *program, size_t *bytes)
{
    /* Of what it compiles without a word it has none. */
    bool has_refused = fake->failing == COMPILE;
    *bytes = fake->log_bytes != SIZE_MAX ? fake->log_bytes : has_refused ? sizeof log_text : 1;
    return program != fake || answer(LOG_SIZE) ? 6 : 0;
}

static int fake_log(void *program, char *log)
{
    if (program != fake || answer(LOG))
        return 6;
    memcpy(log, log_text, sizeof log_text);
    return 0;
}

static int fake_cubin_size(void *program, size_t *bytes)
{
    *bytes = fake->result_bytes == SIZE_MAX ? sizeof CUBIN_TEXT - 1 : fake->result_bytes;
    return program != fake || answer(SIZE) ? 6 : 0;
}

static int fake_cubin(void *program, char *cubin)
{
    if (program != fake || answer(GET))
        return 6;
    memcpy(cubin, CUBIN_TEXT, sizeof CUBIN_TEXT - 1);
    return 0;
}

static int fake_ptx_size(void *program, size_t *bytes)
{
    *bytes = fake->result_bytes == SIZE_MAX ? sizeof PTX_TEXT : fake->result_bytes;
    return program != fake || answer(SIZE) ? 6 : 0;
}

static int fake_ptx(void *program, char *ptx)
{
    if (program != fake || answer(GET))
        return 6;
    memcpy(ptx, PTX_TEXT, sizeof PTX_TEXT);
    return 0;
}

static int fake_arch_count(int *count)
{
    *count = fake->arch_count;
    return answer(ARCH_COUNT);
}

static int fake_archs(int *archs)
{
    memcpy(archs, fake->archs, (size_t)fake->arch_count * sizeof *archs);
    return answer(ARCHS);
}

static const struct {
    const char *name;
    void (*function)(void);
} symbols[] = {
    { "nvrtcVersion", (void (*)(void))fake_version },
    { "nvrtcGetErrorString", (void (*)(void))fake_error },
    { "nvrtcCreateProgram", (void (*)(void))fake_create },
    { "nvrtcDestroyProgram", (void (*)(void))fake_destroy },
    { "nvrtcCompileProgram", (void (*)(void))fake_compile },
    { "nvrtcGetProgramLogSize", (void (*)(void))fake_log_size },
    { "nvrtcGetProgramLog", (void (*)(void))fake_log },
    { "nvrtcGetCUBINSize", (void (*)(void))fake_cubin_size },
    { "nvrtcGetCUBIN", (void (*)(void))fake_cubin },
    { "nvrtcGetPTXSize", (void (*)(void))fake_ptx_size },
    { "nvrtcGetPTX", (void (*)(void))fake_ptx },
    { "nvrtcGetNumSupportedArchs", (void (*)(void))fake_arch_count },
    { "nvrtcGetSupportedArchs", (void (*)(void))fake_archs },
};

muster_status __wrap_platform_library_open(struct platform_library *library, const char *name,
                                           struct muster_error *err);
void *__wrap_platform_library_symbol(const struct platform_library *library, const char *name);
void __wrap_platform_library_close(struct platform_library *library);
bool __wrap_platform_symbol_file(const void *symbol, char *path, size_t bytes);

muster_status __wrap_platform_library_open(struct platform_library *library, const char *name,
                                           struct muster_error *err)
{
    (void)library, (void)err;
    if (fake->open_count < 16)
        snprintf(fake->opened[fake->open_count++], 128, "%s", name);
    return fake->is_here ? MUSTER_OK : MUSTER_E_NOT_FOUND;
}

void *__wrap_platform_library_symbol(const struct platform_library *library, const char *name)
{
    (void)library;
    void *symbol = NULL;
    for (size_t i = 0; i < COUNT_OF(symbols); i++)
        if (strcmp(symbols[i].name, name) == 0 && !(fake->lacks && strcmp(fake->lacks, name) == 0))
            memcpy(&symbol, &symbols[i].function, sizeof symbol);
    return symbol;
}

void __wrap_platform_library_close(struct platform_library *library)
{
    (void)library;
    fake->close_count++;
}

bool __wrap_platform_symbol_file(const void *symbol, char *path, size_t bytes)
{
    (void)symbol;
    snprintf(path, bytes, "%s", fake->file);
    return fake->file[0] != '\0';
}

static void reset(void)
{
    static const int archs[] = { 100, 75, 90, 80 };
    memset(fake, 0, sizeof *fake);
    fake->is_here = true;
    fake->version[0] = 13;
    fake->version[1] = 1;
    memcpy(fake->archs, archs, sizeof archs);
    fake->arch_count = COUNT_OF(archs);
    fake->log_bytes = fake->result_bytes = SIZE_MAX;
}

/* What a process of its own gives, a number from 0 to 255. */
static int in_process(int (*body)(void))
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(body());
    CHECK_EQUAL(child, waitpid(child, &status, 0));
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int is_here(void)
{
    const uint16_t compute[2] = { 9, 0 };
    return nvrtc_is_here() + 2 * nvrtc_can_build(compute, false) +
           4 * nvrtc_can_build(compute, true);
}

static void it_is_looked_for_where_it_may_be(void)
{
    static const char *const names[] = { "libnvrtc.so.13",
                                         "libnvrtc.so.12",
                                         "libnvrtc.so",
                                         "/given/lib64/libnvrtc.so.13",
                                         "/given/lib64/libnvrtc.so.12",
                                         "/given/lib64/libnvrtc.so",
                                         "/usr/local/cuda/lib64/libnvrtc.so.13",
                                         "/usr/local/cuda/lib64/libnvrtc.so.12",
                                         "/usr/local/cuda/lib64/libnvrtc.so" };
    setenv("CUDA_PATH", "/given", 1);
    reset();
    fake->is_here = false;
    CHECK_EQUAL(0, in_process(is_here));
    CHECK_EQUAL(COUNT_OF(names), fake->open_count);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        CHECK_TEXT(names[i], fake->opened[i]);
    unsetenv("CUDA_PATH");
    reset();
    fake->is_here = false;
    CHECK_EQUAL(0, in_process(is_here));
    CHECK_EQUAL(6, fake->open_count);
    reset();
    CHECK_EQUAL(7, in_process(is_here));
    CHECK_EQUAL(1, fake->open_count);
    CHECK_EQUAL(0, fake->close_count);
}

/* Not used at all, and closed again. */
static void one_that_lacks_something_is_not_used(void)
{
    for (size_t i = 0; i < COUNT_OF(symbols); i++) {
        reset();
        fake->lacks = symbols[i].name;
        CHECK_EQUAL(0, in_process(is_here));
        CHECK_EQUAL(1, fake->close_count);
    }
    for (int failing = VERSION; failing <= ARCHS; failing++) {
        reset();
        fake->failing = (enum failing)failing;
        CHECK_EQUAL(0, in_process(is_here));
        CHECK_EQUAL(1, fake->close_count);
    }
    static const int counts[] = { -1, 0, 65 };
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        reset();
        fake->arch_count = counts[i];
        CHECK_EQUAL(0, in_process(is_here));
    }
    reset();
    fake->arch_count = 64;
    CHECK_EQUAL(7, in_process(is_here));
}

static struct counting counting;
static const struct muster_allocator counted = { sizeof counted, counting_allocate,
                                                 counting_release, &counting };
static const char cuda[] = "extern \"C\" __global__ void f() { }";

static muster_status compile(const char *source, uint16_t major, uint16_t minor, bool is_ptx,
                             bool is_portable, uint16_t made_for[2])
{
    const uint16_t compute[2] = { major, minor };
    struct kernel_blob blob;
    problem = (struct muster_error){ .text = "" };
    muster_status status = nvrtc_build(source, "here.cu", compute, is_ptx, is_portable, &counted,
                                       NULL, &blob, made_for, &problem);
    if (status == MUSTER_OK) {
        const char *expected = is_ptx ? PTX_TEXT : CUBIN_TEXT;
        CHECK_EQUAL(strlen(expected), blob.size);
        CHECK(memcmp(expected, blob.data, blob.size) == 0);
        /* Text is followed by a zero byte that is not counted. */
        CHECK(!is_ptx || blob.data[blob.size] == '\0');
        kernel_blob_release(&blob, &counted);
    } else {
        CHECK(problem.text[0] != '\0');
    }
    CHECK_EQUAL(0, counting.bytes);
    CHECK_EQUAL(0, counting.wrong);
    CHECK_EQUAL(fake->created, fake->destroyed);
    return status;
}

/* How often it compiles the same twice: 1, or 0 if it was found at once. */
static int compile_twice(void)
{
    uint16_t made_for[2];
    int before = fake->compiled;
    bool is_good = compile(cuda, 9, 0, false, false, made_for) == MUSTER_OK &&
                   compile(cuda, 9, 0, false, false, made_for) == MUSTER_OK;
    return is_good ? fake->compiled - before : 99;
}

/* Another NVRTC gives other code. */
static void which_nvrtc_it_was_is_in_the_key(void)
{
    reset();
    use_cache("versions");
    path_in(fake->file, "libnvrtc.so");
    write_whole(fake->file, "a", 1, 0600);
    CHECK_EQUAL(1, in_process(compile_twice));
    CHECK_EQUAL(0, in_process(compile_twice));
    fake->version[0]++;
    CHECK_EQUAL(1, in_process(compile_twice));
    fake->version[1]++;
    CHECK_EQUAL(1, in_process(compile_twice));
    write_whole(fake->file, "ab", 2, 0600);
    CHECK_EQUAL(1, in_process(compile_twice));
    CHECK_EQUAL(0, in_process(compile_twice));
    CHECK_EQUAL(4, cached(0, NULL));
}

static void all_that_it_is_asked_is_in_the_key(void)
{
    uint16_t made_for[2];
    reset();
    use_cache("asked");
    for (int again = 0; again < 2; again++) {
        MUST(compile(cuda, 9, 0, false, false, made_for));
        MUST(compile(cuda, 9, 0, false, true, made_for));
        MUST(compile(cuda, 8, 0, false, false, made_for));
        MUST(compile(cuda, 9, 0, true, false, made_for));
        MUST(compile(cuda, 8, 0, true, false, made_for));
        MUST(compile("extern \"C\" __global__ void g() { }", 9, 0, false, false, made_for));
        CHECK_EQUAL(6, fake->compiled);
        /* The same PTX serves all newer devices. */
        MUST(compile(cuda, 8, 9, true, false, made_for));
        CHECK_EQUAL(6, fake->compiled);
        CHECK(made_for[0] == 8 && made_for[1] == 0);
    }
    CHECK_EQUAL(6, cached(0, NULL));
}

static void it_is_asked_for_the_device_and_for_exact_arithmetic(void)
{
    static const char *const portable[] = { "--gpu-architecture=sm_90", "--std=c++17",
                                            "--fmad=false", "--device-as-default-execution-space" };
    uint16_t made_for[2];
    reset();
    setenv("MUSTER_CACHE", "", 1);
    MUST(compile(cuda, 9, 0, false, true, made_for));
    CHECK_EQUAL(4, fake->option_count);
    for (int i = 0; i < 4; i++)
        CHECK_TEXT(portable[i], fake->options[i]);
    CHECK(made_for[0] == 9 && made_for[1] == 0);
    CHECK_TEXT("here.cu", fake->name);
    CHECK_TEXT(cuda, fake->source);
    CHECK(fake->has_headers);
    /* Contraction is the author's matter in CUDA C++. */
    MUST(compile(cuda, 7, 5, true, false, made_for));
    CHECK_EQUAL(2, fake->option_count);
    CHECK_TEXT("--gpu-architecture=compute_75", fake->options[0]);
    CHECK_TEXT("--std=c++17", fake->options[1]);
    CHECK(made_for[0] == 7 && made_for[1] == 5);
}

static void it_compiles_for_the_devices_it_knows(void)
{
    static const struct {
        uint16_t compute[2], ptx[2];
        bool has_cubin, has_ptx;
    } cases[] = {
        { { 7, 5 }, { 7, 5 }, true, true },    { { 7, 4 }, { 0, 0 }, false, false },
        { { 7, 6 }, { 7, 5 }, false, true },   { { 8, 0 }, { 8, 0 }, true, true },
        { { 8, 9 }, { 8, 0 }, false, true },   { { 9, 0 }, { 9, 0 }, true, true },
        { { 10, 0 }, { 10, 0 }, true, true },  { { 12, 1 }, { 10, 0 }, false, true },
        { { 90, 0 }, { 10, 0 }, false, true }, { { 0, 0 }, { 0, 0 }, false, false },
    };
    const struct muster_kernel_form form = portable_form(
        "MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL float *x) { x[i] = 1; }\n", "f");
    reset();
    setenv("MUSTER_CACHE", "", 1);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const uint16_t *compute = cases[i].compute;
        uint16_t made_for[2];
        CHECK_EQUAL(cases[i].has_cubin, nvrtc_can_build(compute, false));
        CHECK_EQUAL(cases[i].has_ptx, nvrtc_can_build(compute, true));
        CHECK_STATUS(cases[i].has_cubin ? MUSTER_OK : MUSTER_E_NOT_SUPPORTED,
                     compile(cuda, compute[0], compute[1], false, true, made_for));
        CHECK_STATUS(cases[i].has_ptx ? MUSTER_OK : MUSTER_E_NOT_SUPPORTED,
                     compile(cuda, compute[0], compute[1], true, true, made_for));
        if (cases[i].has_ptx)
            CHECK(memcmp(made_for, cases[i].ptx, sizeof made_for) == 0);
        else
            CHECK_CONTAINS("13.1", problem.text);
        /* Machine code where it can be, else text; only what the device takes. */
        for (uint32_t forms = 1; forms < 4; forms++) {
            const struct kernel_target target = { (forms & 1 ? MUSTER_KERNEL_CUBIN : 0) |
                                                      (forms & 2 ? MUSTER_KERNEL_PTX : 0),
                                                  { compute[0], compute[1] },
                                                  false };
            bool is_cubin = forms & 1 && cases[i].has_cubin;
            bool can = is_cubin || (forms & 2 && cases[i].has_ptx);
            struct kernel_image image;
            CHECK_EQUAL(can, kernel_can_build(&form, &target));
            CHECK_STATUS(can ? MUSTER_OK : MUSTER_E_NOT_SUPPORTED,
                         kernel_build(&form, &target, &counted, &image, &problem));
            if (can) {
                CHECK_EQUAL(is_cubin ? MUSTER_KERNEL_CUBIN : MUSTER_KERNEL_PTX, image.form.kind);
                CHECK(memcmp(image.form.compute, is_cubin ? compute : cases[i].ptx,
                             sizeof image.form.compute) == 0);
                CHECK_EQUAL(4, fake->option_count);
                CHECK_CONTAINS("muster_batch_f", fake->source);
                kernel_image_release(&image, &counted);
            } else {
                CHECK_CONTAINS("compute capability", problem.text);
            }
        }
    }
    CHECK_EQUAL(0, counting.bytes);
}

/* CUDA C++ is given as it is, and nobody promised that it is terminated. */
static void cuda_source_is_passed_on(void)
{
    struct muster_kernel_form form = portable_form(cuda, "f");
    const struct kernel_target target = { MUSTER_KERNEL_CUBIN, { 9, 0 }, false };
    struct kernel_image image;
    reset();
    setenv("MUSTER_CACHE", "", 1);
    form.kind = MUSTER_KERNEL_CUDA;
    form.code_bytes = 17;
    MUST(kernel_build(&form, &target, &counted, &image, &problem));
    kernel_image_release(&image, &counted);
    CHECK_TEXT("extern \"C\" __glob", fake->source);
    CHECK_TEXT("here.c", fake->name);
    CHECK_EQUAL(2, fake->option_count);
    CHECK_EQUAL(0, counting.bytes);
}

static size_t log_lines;

static enum muster_log_level log_level;

static void note_line(void *user, enum muster_log_level level, const char *line)
{
    log_level = level;
    (void)user, (void)line;
    log_lines++;
}

static void any_of_its_calls_may_fail(void)
{
    static const struct {
        enum failing failing;
        size_t log_bytes, result_bytes;
        muster_status status;
        const char *words;
    } cases[] = {
        { CREATE, SIZE_MAX, SIZE_MAX, MUSTER_E_DRIVER, "NVRTC_ERROR_SIX" },
        { COMPILE, SIZE_MAX, SIZE_MAX, MUSTER_E_PARSE, "here.cu(3): error: no such thing" },
        { COMPILE, 1, SIZE_MAX, MUSTER_E_DRIVER, "NVRTC_ERROR_SIX" },
        { COMPILE, 0, SIZE_MAX, MUSTER_E_DRIVER, "NVRTC_ERROR_SIX" },
        { LOG_SIZE, SIZE_MAX, SIZE_MAX, MUSTER_E_DRIVER, "NVRTC_ERROR_SIX" },
        { LOG, SIZE_MAX, SIZE_MAX, MUSTER_E_DRIVER, "NVRTC_ERROR_SIX" },
        { SIZE, SIZE_MAX, SIZE_MAX, MUSTER_E_DRIVER, "NVRTC_ERROR_SIX" },
        { GET, SIZE_MAX, SIZE_MAX, MUSTER_E_DRIVER, "NVRTC_ERROR_SIX" },
        { NOTHING, SIZE_MAX, 0, MUSTER_E_DRIVER, "size" },
        { NOTHING, SIZE_MAX, 1, MUSTER_E_DRIVER, "size" },
    };
    uint16_t made_for[2];
    use_cache("failing");
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (int is_ptx = 0; is_ptx < 2; is_ptx++) {
            reset();
            fake->failing = cases[i].failing;
            fake->log_bytes = cases[i].log_bytes;
            fake->result_bytes = cases[i].result_bytes;
            CHECK_STATUS(cases[i].status, compile(cuda, 9, 0, is_ptx, false, made_for));
            CHECK_CONTAINS(cases[i].words, problem.text);
            if (cases[i].status == MUSTER_E_DRIVER && cases[i].failing != NOTHING)
                CHECK_EQUAL(6, problem.driver_code);
            CHECK_EQUAL(cases[i].failing != CREATE, fake->destroyed);
        }
    CHECK(cached(0, NULL) <= 0);
    const uint16_t compute[2] = { 9, 0 };
    const struct kernel_log log = { note_line, NULL };
    struct kernel_blob blob;
    reset();
    fake->failing = COMPILE;
    CHECK_STATUS(MUSTER_E_PARSE, nvrtc_build(cuda, "here.cu", compute, false, false, &counted, &log,
                                             &blob, made_for, &problem));
    CHECK_EQUAL(2, log_lines);
}

static unsigned allocations_left;

static void *failing_allocate(void *user, size_t bytes, size_t alignment)
{
    return allocations_left-- == 0 ? NULL : counting_allocate(user, bytes, alignment);
}

static void memory_may_end(void)
{
    static const struct muster_allocator failing = { sizeof failing, failing_allocate,
                                                     counting_release, &counting };
    const uint16_t compute[2] = { 9, 0 };
    uint16_t made_for[2];
    struct kernel_blob blob;
    reset();
    setenv("MUSTER_CACHE", "", 1);
    for (int is_refused = 0; is_refused < 2; is_refused++) {
        fake->failing = is_refused ? COMPILE : NOTHING;
        allocations_left = 0;
        CHECK_STATUS(MUSTER_E_NO_MEMORY, nvrtc_build(cuda, "f", compute, false, false, &failing,
                                                     NULL, &blob, made_for, &problem));
        CHECK_EQUAL(0, counting.bytes);
        CHECK_EQUAL(fake->created, fake->destroyed);
    }
    /* The whole way of each form of source: each allocation fails, with all after it. */
    const struct kernel_target target = { MUSTER_KERNEL_CUBIN, { 9, 0 }, false };
    for (int is_cuda = 0; is_cuda < 2; is_cuda++) {
        struct muster_kernel_form form =
            portable_form("MUSTER_KERNEL void f(uint64_t i) { }\n", "f");
        form.kind = is_cuda ? MUSTER_KERNEL_CUDA : MUSTER_KERNEL_PORTABLE;
        muster_status status = MUSTER_E_NO_MEMORY;
        unsigned n = 0;
        reset();
        for (; status != MUSTER_OK; n++) {
            struct kernel_image image;
            allocations_left = n;
            status = kernel_build(&form, &target, &failing, &image, &problem);
            CHECK(status == MUSTER_OK || status == MUSTER_E_NO_MEMORY);
            if (status == MUSTER_OK)
                kernel_image_release(&image, &failing);
            CHECK_EQUAL(0, counting.bytes);
            CHECK_EQUAL(fake->created, fake->destroyed);
        }
        CHECK(n >= 3);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        /* Those with processes of their own first, before this one has looked. */
        TEST(it_is_looked_for_where_it_may_be),
        TEST(one_that_lacks_something_is_not_used),
        TEST(which_nvrtc_it_was_is_in_the_key),
        TEST(all_that_it_is_asked_is_in_the_key),
        TEST(it_is_asked_for_the_device_and_for_exact_arithmetic),
        TEST(it_compiles_for_the_devices_it_knows),
        TEST(cuda_source_is_passed_on),
        TEST(any_of_its_calls_may_fail),
        TEST(memory_may_end),
    };
    counting = (struct counting)COUNTING_INIT;
    fake = mmap(NULL, sizeof *fake, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (fake == MAP_FAILED)
        return 1;
    setenv("MUSTER_CC", "/nonexistent/cc", 1);
    return kernel_test_main(argc, argv, tests, COUNT_OF(tests));
}
