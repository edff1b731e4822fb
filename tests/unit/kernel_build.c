/*
 * From a form to what a device takes: by the system's compiler and by NVRTC, with a cache on disk
 * that may be missing, damaged or full, and compilers that may be missing, wrong or stuck.
 */
#include "base/allocator.h"
#include "kernel/build.h"
#include "kernel/elf.h"
#include "platform/file.h"
#include "platform/machine.h"
#include "platform/process.h"
#include "support.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct kernel_target functions = { MUSTER_KERNEL_FUNCTION, { 0, 0 }, false };
static char folder[PLATFORM_PATH_BYTES]; /* of this program, emptied at its end */

static const char saxpy[] =
    "#include <muster_kernel.h>\n"
    "static float twice(float x) { return x + x; }\n"
    "MUSTER_KERNEL void saxpy(uint64_t i, float a, MUSTER_GLOBAL const float *x, "
    "MUSTER_GLOBAL float *y)\n"
    "{ y[i] = twice(a) * x[i] + y[i]; }\n"
    "MUSTER_KERNEL void other(uint64_t i, MUSTER_GLOBAL uint64_t *x) { x[i] = i; }\n";

static struct muster_kernel_form form_of(enum muster_kernel_kind kind, const char *text,
                                         const char *entry)
{
    return (struct muster_kernel_form){ .size = sizeof(struct muster_kernel_form),
                                        .kind = kind,
                                        .code = text,
                                        .code_bytes = strlen(text),
                                        .entry = entry,
                                        .file = "here.c" };
}

static muster_status build(const struct muster_kernel_form *form,
                           const struct kernel_target *target, struct kernel_image *image)
{
    problem = (struct muster_error){ .text = "" };
    return kernel_build(form, target, &platform_heap, image, &problem);
}

static void release(struct kernel_image *image)
{
    kernel_image_release(image, &platform_heap);
}

/* A new folder for the cache, which is then empty. */
static void use_cache(const char *name)
{
    char path[PLATFORM_PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    setenv("MUSTER_CACHE", path, 1);
}

/* The path of the `index`-th file there; how many there are. */
static size_t cached(size_t index, char *path, size_t bytes)
{
    size_t count = 0;
    DIR *all = opendir(getenv("MUSTER_CACHE"));
    for (struct dirent *one; all && (one = readdir(all));) {
        if (one->d_name[0] == '.')
            continue;
        if (count++ == index && path)
            snprintf(path, bytes, "%s/%s", getenv("MUSTER_CACHE"), one->d_name);
    }
    if (all)
        closedir(all);
    return count;
}

static void check_saxpy(const struct kernel_image *image)
{
    float a = 1.5f, x[4] = { 1, 2, 3, 4 }, y[4] = { 10, 20, 30, 40 };
    void *px = x, *py = y, *args[] = { &a, &px, &py };
    CHECK_EQUAL(MUSTER_KERNEL_FUNCTION, image->form.kind);
    CHECK_STATUS(MUSTER_OK, image->form.function(1, 3, args));
    CHECK(y[0] == 10 && y[1] == 26 && y[2] == 39 && y[3] == 40);
}

static void portable_source_becomes_a_function(void)
{
    struct kernel_image image, other;
    struct muster_kernel_form form = form_of(MUSTER_KERNEL_PORTABLE, saxpy, "saxpy");
    use_cache("functions");
    CHECK(kernel_can_build(&form, &functions) && !kernel_is_taken(&form, &functions));
    MUST(build(&form, &functions, &image));
    form.entry = "other";
    MUST(build(&form, &functions, &other));
    check_saxpy(&image);
    uint64_t numbers[4] = { 0 };
    void *pointer = numbers, *args[] = { &pointer };
    CHECK_STATUS(MUSTER_OK, other.form.function(0, 4, args));
    CHECK(numbers[3] == 3);
    release(&image);
    release(&other);
    release(&other);
}

static void a_wrong_entry_is_refused_with_those_there_are(void)
{
    struct kernel_image image;
    const struct muster_kernel_form form = form_of(MUSTER_KERNEL_PORTABLE, saxpy, "daxpy");
    CHECK_STATUS(MUSTER_E_NOT_FOUND, build(&form, &functions, &image));
    CHECK_CONTAINS("here.c has no kernel daxpy; it has saxpy, other", problem.text);
}

static char log_text[4096];

static enum muster_log_level log_level;

static void log_line(void *user, enum muster_log_level level, const char *line)
{
    log_level = level;
    (void)user;
    size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof log_text - used, "%s\n", line);
}

static void the_compiler_s_own_words_come_back(void)
{
    static const char wrong[] = "MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL int *x)\n{\n"
                                "    x[i] = nowhere;\n    y = 1;\n}\n";
    const struct kernel_log log = { log_line, NULL };
    struct kernel_image image;
    const struct muster_kernel_form form = form_of(MUSTER_KERNEL_PORTABLE, wrong, "f");
    use_cache("words");
    log_text[0] = '\0';
    CHECK_STATUS(MUSTER_E_PARSE,
                 kernel_build_logged(&form, &functions, &platform_heap, &log, &image, &problem));
    CHECK_CONTAINS("here.c:3:", problem.text);
    CHECK_CONTAINS("nowhere", problem.text);
    CHECK(problem.fix[0] != '\0');
    CHECK_CONTAINS("here.c:3:", log_text);
    CHECK_CONTAINS("here.c:4:", log_text);
    CHECK_EQUAL(0, cached(0, NULL, 0));
}

/* A file that counts how often it is run before it does what cc does. */
static void use_counting_compiler(char *counter, size_t bytes)
{
    char path[PLATFORM_PATH_BYTES + 64], text[2 * PLATFORM_PATH_BYTES];
    snprintf(counter, bytes, "%s/count", folder);
    snprintf(path, sizeof path, "%s/counting-cc", folder);
    snprintf(text, sizeof text, "#!/bin/sh\necho x >>'%s'\nexec cc \"$@\"\n", counter);
    unlink(path);
    unlink(counter);
    MUST(platform_file_write(path, text, strlen(text), &problem));
    CHECK_EQUAL(0, chmod(path, 0700));
    setenv("MUSTER_CC", path, 1);
}

static long runs_of(const char *counter)
{
    struct stat facts;
    return stat(counter, &facts) == 0 ? (long)facts.st_size / 2 : 0;
}

static void what_was_compiled_is_found_again(void)
{
    char counter[PLATFORM_PATH_BYTES + 64];
    struct kernel_image image;
    struct muster_kernel_form form = form_of(MUSTER_KERNEL_PORTABLE, saxpy, "saxpy");
    use_cache("again/and/deeper");
    use_counting_compiler(counter, sizeof counter);
    for (int i = 0; i < 3; i++) {
        MUST(build(&form, &functions, &image));
        check_saxpy(&image);
        release(&image);
        CHECK_EQUAL(1, runs_of(counter));
    }
    /* Other source, and other code from the same source, are other things. */
    form.code_bytes--;
    MUST(build(&form, &functions, &image));
    release(&image);
    CHECK_EQUAL(2, runs_of(counter));
    form.code_bytes++;
    const struct kernel_target objects = { MUSTER_KERNEL_SHARED_OBJECT, { 0, 0 }, false };
    MUST(build(&form, &objects, &image));
    CHECK_EQUAL(ELF_OURS, elf_look(image.form.code, image.form.code_bytes));
    release(&image);
    CHECK_EQUAL(3, runs_of(counter));
    CHECK_EQUAL(3, cached(0, NULL, 0));
    setenv("MUSTER_CACHE", "", 1);
    MUST(build(&form, &functions, &image));
    release(&image);
    CHECK_EQUAL(4, runs_of(counter));
    unsetenv("MUSTER_CC");
}

static void damage_in_the_cache_costs_a_compilation(void)
{
    char counter[PLATFORM_PATH_BYTES + 64], path[PLATFORM_PATH_BYTES + 128];
    struct kernel_image image;
    struct stat facts;
    const struct muster_kernel_form form = form_of(MUSTER_KERNEL_PORTABLE, saxpy, "saxpy");
    use_cache("damage");
    use_counting_compiler(counter, sizeof counter);
    MUST(build(&form, &functions, &image));
    release(&image);
    CHECK_EQUAL(1, cached(0, path, sizeof path));
    CHECK_EQUAL(0, stat(path, &facts));
    const off_t sizes[] = { 0, 71, 72, facts.st_size - 1 };
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        CHECK_EQUAL(0, truncate(path, sizes[i]));
        MUST(build(&form, &functions, &image));
        check_saxpy(&image);
        release(&image);
        CHECK_EQUAL(2 + (long)i, runs_of(counter));
    }
    long runs = runs_of(counter);
    for (off_t at = 0; at < facts.st_size; at += facts.st_size / 4) {
        FILE *file = fopen(path, "r+b");
        CHECK(file != NULL);
        fseek(file, at, SEEK_SET);
        int byte = fgetc(file);
        fseek(file, at, SEEK_SET);
        fputc(byte ^ 0x10, file);
        fclose(file);
        MUST(build(&form, &functions, &image));
        check_saxpy(&image);
        release(&image);
        CHECK_EQUAL(++runs, runs_of(counter));
    }
    /* What others can write to is not loaded. */
    CHECK_EQUAL(0, chmod(path, 0666));
    MUST(build(&form, &functions, &image));
    release(&image);
    CHECK_EQUAL(++runs, runs_of(counter));
    unsetenv("MUSTER_CC");
}

static void no_place_for_a_cache_is_no_failure(void)
{
    struct kernel_image image;
    const struct muster_kernel_form form = form_of(MUSTER_KERNEL_PORTABLE, saxpy, "saxpy");
    static const char *const places[] = { "/dev/null/cache", "/proc/nowhere", "/dev/full" };
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        setenv("MUSTER_CACHE", places[i], 1);
        MUST(build(&form, &functions, &image));
        check_saxpy(&image);
        release(&image);
    }
}

static void a_machine_without_a_compiler_says_so(void)
{
    struct kernel_image image;
    const struct muster_kernel_form form = form_of(MUSTER_KERNEL_PORTABLE, saxpy, "saxpy");
    const struct kernel_target opencl = { MUSTER_KERNEL_OPENCL, { 0, 0 }, false };
    char *path = strdup(getenv("PATH"));
    use_cache("none");
    setenv("PATH", "/nonexistent", 1);
    bool can = kernel_can_build(&form, &functions);
    bool can_opencl = kernel_can_build(&form, &opencl);
    muster_status status = build(&form, &functions, &image);
    setenv("PATH", path, 1);
    free(path);
    CHECK(!can && can_opencl);
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, status);
    CHECK_CONTAINS("no C compiler", problem.text);
    CHECK_CONTAINS("MUSTER_CC", problem.fix);
    setenv("MUSTER_CC", "/nonexistent/cc", 1);
    CHECK(!kernel_can_build(&form, &functions));
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, build(&form, &functions, &image));
    CHECK_CONTAINS("/nonexistent/cc", problem.text);
    unsetenv("MUSTER_CC");
}

static void a_compiler_that_gives_nothing_is_noticed(void)
{
    static const char *const scripts[] = { "#!/bin/sh\nexit 3\n", "#!/bin/sh\nexit 0\n",
                                           "#!/bin/sh\nkill -9 $$\n", "not a program at all" };
    struct kernel_image image;
    const struct muster_kernel_form form = form_of(MUSTER_KERNEL_PORTABLE, saxpy, "saxpy");
    char path[PLATFORM_PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/odd-cc", folder);
    use_cache("odd");
    setenv("MUSTER_CC", path, 1);
    for (size_t i = 0; i < COUNT_OF(scripts); i++) {
        unlink(path);
        MUST(platform_file_write(path, scripts[i], strlen(scripts[i]), &problem));
        CHECK_EQUAL(0, chmod(path, 0700));
        CHECK(build(&form, &functions, &image) < 0);
        CHECK(problem.text[0] != '\0');
    }
    unsetenv("MUSTER_CC");
    CHECK_EQUAL(0, cached(0, NULL, 0));
}

static void a_compiler_works_where_children_are_not_waited_for(void)
{
    struct kernel_image image;
    const struct muster_kernel_form form = form_of(MUSTER_KERNEL_PORTABLE, saxpy, "saxpy");
    use_cache("children");
    signal(SIGCHLD, SIG_IGN);
    muster_status status = build(&form, &functions, &image);
    const struct muster_kernel_form wrong =
        form_of(MUSTER_KERNEL_PORTABLE, "MUSTER_KERNEL void f(uint64_t i) { nothing; }", "f");
    struct kernel_image none;
    muster_status refused = kernel_build(&wrong, &functions, &platform_heap, &none, NULL);
    signal(SIGCHLD, SIG_DFL);
    MUST(status);
    check_saxpy(&image);
    release(&image);
    CHECK_STATUS(MUSTER_E_PARSE, refused);
}

static void a_program_that_does_not_end_is_ended(void)
{
    static const char *const arguments[] = { "sh", "-c", "echo started; sleep 1000 & sleep 1000",
                                             NULL };
    struct platform_process_end end;
    char output[64];
    CHECK_STATUS(MUSTER_E_TIMEOUT,
                 platform_process_run("/bin/sh", arguments, NULL, output, sizeof output,
                                      test_patience(200 * MS), &end, &problem));
    CHECK_TEXT("started\n", output);
    static const char *const long_words[] = {
        "sh", "-c", "i=0; while [ $i -lt 3000 ]; do echo 0123456789 >&2; i=$((i+1)); done; exit 7",
        NULL
    };
    MUST(platform_process_run("/bin/sh", long_words, NULL, output, sizeof output, 60 * SECOND, &end,
                              &problem));
    CHECK_EQUAL(7, end.code);
    CHECK_EQUAL(63, end.output_bytes);
}

/* The bytes of a shared object with saxpy in it. */
static struct kernel_image build_object(void)
{
    static struct kernel_image image;
    const struct kernel_target objects = { MUSTER_KERNEL_SHARED_OBJECT, { 0, 0 }, false };
    const struct muster_kernel_form form = form_of(MUSTER_KERNEL_PORTABLE, saxpy, "saxpy");
    MUST(build(&form, &objects, &image));
    return image;
}

static void a_shared_object_is_loaded_from_memory(void)
{
    use_cache("objects");
    struct kernel_image object = build_object(), image[3];
    /* Several at once, and again after one has gone: each must be its own. */
    for (size_t i = 0; i < 3; i++)
        MUST(build(&object.form, &functions, &image[i]));
    release(&image[1]);
    MUST(build(&object.form, &functions, &image[1]));
    for (size_t i = 0; i < 3; i++) {
        check_saxpy(&image[i]);
        for (size_t j = 0; j < i; j++)
            CHECK(image[i].form.function != image[j].form.function);
    }
    for (size_t i = 0; i < 3; i++)
        release(&image[i]);
    struct muster_kernel_form form = object.form;
    form.entry = "daxpy";
    CHECK_STATUS(MUSTER_E_NOT_FOUND, build(&form, &functions, &image[0]));
    CHECK_CONTAINS("no function daxpy", problem.text);
    release(&object);
}

static void a_truncated_shared_object_is_refused(void)
{
    use_cache("objects");
    struct kernel_image object = build_object(), image;
    struct muster_kernel_form form = object.form;
    for (size_t part = 0; part < 64; part++) {
        form.code_bytes = 1 + object.form.code_bytes * part / 64;
        if (kernel_can_build(&form, &functions)) {
            /* Only what no segment needs was cut off. */
            if (build(&form, &functions, &image) == MUSTER_OK)
                release(&image);
        } else {
            CHECK_STATUS(MUSTER_E_PARSE, build(&form, &functions, &image));
            CHECK_CONTAINS("not a whole shared object", problem.text);
        }
    }
    char *copy = malloc(object.form.code_bytes);
    CHECK(copy != NULL);
    memcpy(copy, object.form.code, object.form.code_bytes);
    copy[18] = 1; /* another machine */
    copy[19] = 1;
    form = object.form;
    form.code = copy;
    bool can = kernel_can_build(&form, &functions);
    free(copy);
    CHECK(!can);
    release(&object);
}

static void forms_for_opencl_need_no_compiler(void)
{
    struct kernel_image image;
    const struct kernel_target opencl = { MUSTER_KERNEL_OPENCL, { 0, 0 }, false };
    const struct muster_kernel_form form = form_of(MUSTER_KERNEL_PORTABLE, saxpy, "saxpy");
    MUST(build(&form, &opencl, &image));
    CHECK_EQUAL(MUSTER_KERNEL_OPENCL, image.form.kind);
    CHECK_EQUAL(strlen(image.form.code), image.form.code_bytes);
    CHECK_CONTAINS("kernel void saxpy(ulong muster_begin", (const char *)image.form.code);
    release(&image);
    const struct muster_kernel_form cuda = form_of(MUSTER_KERNEL_CUDA, "x", "f");
    CHECK(!kernel_can_build(&cuda, &opencl));
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, build(&cuda, &opencl, &image));
}

static void machine_code_fits_its_generation(void)
{
    struct muster_kernel_form form = form_of(MUSTER_KERNEL_CUBIN, "x", "f");
    const struct kernel_target target = { MUSTER_KERNEL_CUBIN | MUSTER_KERNEL_PTX,
                                          { 9, 0 },
                                          false };
    static const struct {
        enum muster_kernel_kind kind;
        uint16_t compute[2];
        bool fits;
    } cases[] = {
        { MUSTER_KERNEL_CUBIN, { 0, 0 }, true },  { MUSTER_KERNEL_CUBIN, { 9, 0 }, true },
        { MUSTER_KERNEL_CUBIN, { 9, 1 }, false }, { MUSTER_KERNEL_CUBIN, { 8, 0 }, false },
        { MUSTER_KERNEL_PTX, { 8, 9 }, true },    { MUSTER_KERNEL_PTX, { 9, 0 }, true },
        { MUSTER_KERNEL_PTX, { 10, 0 }, false },  { MUSTER_KERNEL_PTX, { 0, 0 }, true }
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        form.kind = cases[i].kind;
        memcpy(form.compute, cases[i].compute, sizeof form.compute);
        CHECK_EQUAL(cases[i].fits, kernel_is_taken(&form, &target));
    }
}

static void cuda_source_becomes_machine_code(void)
{
    struct kernel_image image;
    const struct muster_kernel_form form = form_of(MUSTER_KERNEL_PORTABLE, saxpy, "saxpy");
    struct kernel_target target = { MUSTER_KERNEL_CUBIN | MUSTER_KERNEL_PTX, { 9, 0 }, false };
    use_cache("cuda");
    if (!kernel_can_build(&form, &target)) {
        CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, build(&form, &target, &image));
        CHECK_CONTAINS("NVRTC", problem.text);
        printf("    without NVRTC: only that this is said\n");
        return;
    }
    MUST(build(&form, &target, &image));
    CHECK_EQUAL(MUSTER_KERNEL_CUBIN, image.form.kind);
    CHECK(image.form.compute[0] == 9 && image.form.compute[1] == 0);
    CHECK_EQUAL(ELF_CUBIN, elf_look(image.form.code, image.form.code_bytes));
    release(&image);
    /* Newer than any that NVRTC knows: text that the driver finishes. */
    target.compute[0] = 90;
    MUST(build(&form, &target, &image));
    CHECK_EQUAL(MUSTER_KERNEL_PTX, image.form.kind);
    CHECK_EQUAL(strlen(image.form.code), image.form.code_bytes);
    CHECK_CONTAINS(".entry muster_batch_saxpy", (const char *)image.form.code);
    CHECK(strstr(image.form.code, "fma.") == NULL);
    CHECK(image.form.compute[0] > 8 && image.form.compute[0] < 90);
    release(&image);
    target.compute[0] = 1;
    CHECK(!kernel_can_build(&form, &target));
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, build(&form, &target, &image));
    CHECK_CONTAINS("compute capability 1.0", problem.text);
    target.compute[0] = 9;
    const struct muster_kernel_form cuda = form_of(
        MUSTER_KERNEL_CUDA,
        "#include <stdint.h>\nextern \"C\" __global__ void f(uint64_t b, uint64_t n, int *x) "
        "{\n x[threadIdx.x] = undefined_name; }",
        "f");
    CHECK_STATUS(MUSTER_E_PARSE, build(&cuda, &target, &image));
    CHECK_CONTAINS("here.c(3)", problem.text);
    CHECK_CONTAINS("undefined_name", problem.text);
}

/* The n-th allocation fails, and all after it if `is_lasting`. */
struct failing {
    struct counting counting;
    unsigned countdown;
    bool is_lasting, has_failed;
};

static void *failing_allocate(void *user, size_t bytes, size_t alignment)
{
    struct failing *failing = user;
    if (failing->countdown > 0)
        failing->countdown--;
    if (failing->countdown == 0 && (!failing->has_failed || failing->is_lasting)) {
        failing->has_failed = true;
        return NULL;
    }
    return counting_allocate(&failing->counting, bytes, alignment);
}

static void failing_release(void *user, void *memory, size_t bytes)
{
    struct failing *failing = user;
    counting_release(&failing->counting, memory, bytes);
}

/* Gives whether all allocations went well. */
static bool build_failing(const struct muster_kernel_form *form, const struct kernel_target *target,
                          unsigned n, bool is_lasting)
{
    struct failing failing = { .counting = COUNTING_INIT,
                               .countdown = n,
                               .is_lasting = is_lasting };
    const struct muster_allocator allocator = { sizeof allocator, failing_allocate, failing_release,
                                                &failing };
    struct kernel_image image;
    muster_status status = kernel_build(form, target, &allocator, &image, &problem);
    CHECK(status == MUSTER_OK || (failing.has_failed && status == MUSTER_E_NO_MEMORY));
    if (status == MUSTER_OK)
        kernel_image_release(&image, &allocator);
    CHECK_EQUAL(0, failing.counting.bytes);
    CHECK_EQUAL(0, failing.counting.wrong);
    return !failing.has_failed;
}

static void any_allocation_may_fail(void)
{
    static const struct kernel_target targets[] = {
        { MUSTER_KERNEL_FUNCTION, { 0, 0 }, false },
        { MUSTER_KERNEL_SHARED_OBJECT, { 0, 0 }, false },
        { MUSTER_KERNEL_OPENCL, { 0, 0 }, false },
        { MUSTER_KERNEL_CUBIN, { 9, 0 }, false }
    };
    const struct muster_kernel_form form = form_of(MUSTER_KERNEL_PORTABLE, saxpy, "saxpy");
    use_cache("allocations");
    for (size_t t = 0; t < COUNT_OF(targets); t++)
        for (int is_lasting = 0; is_lasting < 2 && kernel_can_build(&form, &targets[t]);
             is_lasting++)
            for (unsigned n = 1; !build_failing(&form, &targets[t], n, is_lasting); n++)
                CHECK(n < 100);
}

static void remove_all(void)
{
    char command[PLATFORM_PATH_BYTES + 32];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    (void)!system(command);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(portable_source_becomes_a_function),
        TEST(a_wrong_entry_is_refused_with_those_there_are),
        TEST(the_compiler_s_own_words_come_back),
        TEST(what_was_compiled_is_found_again),
        TEST(damage_in_the_cache_costs_a_compilation),
        TEST(no_place_for_a_cache_is_no_failure),
        TEST(a_machine_without_a_compiler_says_so),
        TEST(a_compiler_that_gives_nothing_is_noticed),
        TEST(a_compiler_works_where_children_are_not_waited_for),
        TEST(a_program_that_does_not_end_is_ended),
        TEST(a_shared_object_is_loaded_from_memory),
        TEST(a_truncated_shared_object_is_refused),
        TEST(forms_for_opencl_need_no_compiler),
        TEST(machine_code_fits_its_generation),
        TEST(cuda_source_becomes_machine_code),
        TEST(any_allocation_may_fail),
    };
    if (platform_folder_make_temporary(folder, NULL) != MUSTER_OK)
        return 1;
    unsetenv("MUSTER_CC");
    int code = test_main(argc, argv, tests, COUNT_OF(tests));
    remove_all();
    return code;
}
