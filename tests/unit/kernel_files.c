/*
 * Kernels from files and bundles, and what the runtime does with them: which form a device uses,
 * what is told when there is none, and that arguments fit the source.
 */
#include "../fuzz/bundle.c" /* NOLINT(bugprone-suspicious-include): driven below */
#include "base/random.h"
#include "platform/file.h"
#include "platform/machine.h"
#include "support.h"

#include <muster/bundle.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[PLATFORM_PATH_BYTES]; /* of this program, emptied at its end */

static const char saxpy[] =
    "MUSTER_KERNEL void saxpy(uint64_t i, float a, MUSTER_GLOBAL const float *x, "
    "MUSTER_GLOBAL float *y)\n{ y[i] = a * x[i] + y[i]; }\n";
static const char two[] =
    "MUSTER_KERNEL void one(uint64_t i, MUSTER_GLOBAL int *x) { x[i] = 1; }\n"
    "MUSTER_KERNEL void two(uint64_t i, MUSTER_GLOBAL int *x) { x[i] = 2; }\n";

/* The path of a file in the folder; it stays until the next two are asked for. */
static const char *path_of(const char *name)
{
    static char paths[2][PLATFORM_PATH_BYTES + 64];
    static unsigned turn;
    char *path = paths[turn++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static const char *write_file(const char *name, const void *bytes, size_t size)
{
    const char *path = path_of(name);
    MUST(platform_file_replace(path, bytes, size, &problem));
    return path;
}

static const char *write_text(const char *name, const char *text)
{
    return write_file(name, text, strlen(text));
}

#define ITEMS 1000

/* y = 2 x + y on the device, through a launch. */
static void run_saxpy(struct muster *m, const char *device, struct muster_kernel *kernel)
{
    static float x[ITEMS], y[ITEMS];
    float a = 2;
    for (int i = 0; i < ITEMS; i++) {
        x[i] = (float)i;
        y[i] = 1;
    }
    muster_stream stream = acquire(m, find(m, device));
    muster_block from = allocate(m, stream, sizeof x), to = allocate(m, stream, sizeof y);
    MUST(muster_copy_in(m, stream, from, 0, x, sizeof x, &problem));
    MUST(muster_copy_in(m, stream, to, 0, y, sizeof y, &problem));
    const struct muster_operand args[] = { MUSTER_SCALAR(a), MUSTER_BLOCK_READ(from),
                                           MUSTER_BLOCK_UPDATE(to) };
    MUST(muster_launch(m, stream, kernel, 0, ITEMS, args, 3, NULL, &problem));
    MUST(muster_copy_out(m, stream, y, to, 0, sizeof y, &problem));
    wait_for(m, stream);
    for (int i = 0; i < ITEMS; i++)
        CHECK(y[i] == 2 * (float)i + 1);
    MUST(muster_stream_release(m, stream, &problem));
}

static void a_source_file_runs_on_every_device(void)
{
    struct muster *m = open_plain();
    struct muster_kernel *kernel;
    MUST(muster_kernel_load(m, write_text("saxpy.c", saxpy), NULL, &kernel, &problem));
    run_saxpy(m, "cpu:0", kernel);
    run_saxpy(m, "sim:0", kernel);
    muster_kernel_destroy(kernel);
    MUST(muster_kernel_load(m, path_of("saxpy.c"), "saxpy", &kernel, &problem));
    static float x[ITEMS], y[ITEMS];
    float a = 1;
    const struct muster_arg args[] = { MUSTER_VALUE(a), MUSTER_IN(x), MUSTER_INOUT(y) };
    MUST(muster_for(m, kernel, ITEMS, args, 3, NULL, NULL, &problem));
    MUST(muster_close(m, &problem));
}

/* A compiler that has gone is no matter to a kernel that is built. */
static void what_is_built_needs_no_compiler(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "cpu";
    struct muster *m = open_with(options);
    struct muster_kernel *kernel, *other;
    static float x[ITEMS], y[ITEMS];
    float a = 1;
    const struct muster_arg args[] = { MUSTER_VALUE(a), MUSTER_IN(x), MUSTER_INOUT(y) };
    MUST(muster_kernel_load(m, write_text("saxpy.c", saxpy), NULL, &kernel, &problem));
    MUST(muster_kernel_load(m, path_of("saxpy.c"), NULL, &other, &problem));
    MUST(muster_for(m, kernel, ITEMS, args, 3, NULL, NULL, &problem));
    setenv("MUSTER_CC", "/nonexistent/cc", 1);
    muster_status again = muster_for(m, kernel, ITEMS, args, 3, NULL, NULL, &problem);
    struct muster_task_desc task = { .size = sizeof task, .kernel = kernel, .items = ITEMS };
    task.args = args;
    task.arg_count = 3;
    muster_status as_task = muster_submit(m, &task, 1, NULL, &problem);
    muster_status of_other = muster_for(m, other, ITEMS, args, 3, NULL, NULL, &problem);
    unsetenv("MUSTER_CC");
    CHECK_STATUS(MUSTER_OK, again);
    CHECK_STATUS(MUSTER_OK, as_task);
    CHECK_STATUS(MUSTER_E_NO_DEVICE, of_other);
    MUST(muster_close(m, &problem));
}

static void what_is_given_is_copied(void)
{
    struct muster *m = open_plain();
    struct muster_kernel *kernel;
    char text[sizeof saxpy], entry[] = "saxpy", file[] = "copy.c";
    memcpy(text, saxpy, sizeof text);
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = text,
                                             .code_bytes = sizeof text - 1,
                                             .entry = entry,
                                             .file = file };
    MUST(muster_kernel_from(m, "copy", &form, 1, &kernel, &problem));
    memset(text, 'x', sizeof text);
    memset(entry, 'x', sizeof entry);
    memset(file, 'x', sizeof file);
    run_saxpy(m, "cpu:0", kernel);
    MUST(muster_close(m, &problem));
}

static void forms_are_checked_for_their_kind(void)
{
    struct muster *m = open_plain();
    struct muster_kernel *kernel;
    const struct muster_kernel_form good = { .size = sizeof good,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = saxpy,
                                             .code_bytes = sizeof saxpy - 1,
                                             .entry = "saxpy" };
    struct muster_kernel_form form = good;
    form.code = NULL;
    CHECK_STATUS(MUSTER_E_INVALID, muster_kernel_from(m, "k", &form, 1, &kernel, &problem));
    form = good, form.code_bytes = 0;
    CHECK_STATUS(MUSTER_E_INVALID, muster_kernel_from(m, "k", &form, 1, &kernel, &problem));
    form = good, form.entry = NULL;
    CHECK_STATUS(MUSTER_E_INVALID, muster_kernel_from(m, "k", &form, 1, &kernel, &problem));
    form = good, form.entry = "";
    CHECK_STATUS(MUSTER_E_INVALID, muster_kernel_from(m, "k", &form, 1, &kernel, &problem));
    form = good, form.kind = (enum muster_kernel_kind)3;
    CHECK_STATUS(MUSTER_E_INVALID, muster_kernel_from(m, "k", &form, 1, &kernel, &problem));
    form = good, form.size = 8;
    CHECK_STATUS(MUSTER_E_INVALID, muster_kernel_from(m, "k", &form, 1, &kernel, &problem));
    form = good, form.entry = "daxpy";
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_kernel_from(m, "k", &form, 1, &kernel, &problem));
    CHECK_CONTAINS("daxpy", problem.text);
    CHECK_STATUS(MUSTER_E_INVALID, muster_kernel_load(m, NULL, NULL, &kernel, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_kernel_load_files(m, NULL, 0, NULL, &kernel, &problem));
    MUST(muster_close(m, &problem));
}

static void files_that_are_no_kernel_are_refused(void)
{
    static const struct {
        const char *name, *text, *entry;
        muster_status status;
        const char *words;
    } files[] = {
        { "empty.c", "", NULL, MUSTER_E_PARSE, "is empty" },
        { "plain.c", "int f(void);", NULL, MUSTER_E_PARSE, "no function is marked" },
        { "photo.jpg", "\xff\xd8\xff", NULL, MUSTER_E_PARSE, "is no kernel" },
        { "two.c", two, NULL, MUSTER_E_INVALID, "has several kernels, one and two" },
        { "two.c", two, "three", MUSTER_E_NOT_FOUND, "has no kernel three" },
        { "two.c", two, "", MUSTER_E_INVALID, "1 to 63" },
        { "nothing.cu", "// no MUSTER_KERNEL\nint x;", NULL, MUSTER_E_NOT_FOUND,
          "shows no kernel" },
        { "cut.so", "\177ELF and then nothing", "f", MUSTER_E_PARSE, "not a whole shared object" },
    };
    struct muster *m = open_plain();
    struct muster_kernel *kernel = NULL;
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        const char *path = write_text(files[i].name, files[i].text);
        CHECK_STATUS(files[i].status,
                     muster_kernel_load(m, path, files[i].entry, &kernel, &problem));
        CHECK_CONTAINS(files[i].words, problem.text);
        CHECK(!kernel);
    }
    CHECK_STATUS(MUSTER_E_NOT_FOUND,
                 muster_kernel_load(m, path_of("missing.c"), NULL, &kernel, &problem));
    CHECK(muster_kernel_load(m, folder, NULL, &kernel, &problem) < 0);
    MUST(muster_close(m, &problem));
}

static void a_kernel_says_what_it_takes(void)
{
    struct muster *m = open_plain();
    struct muster_kernel *kernel;
    struct muster_kernel_parameter parameter = { .size = sizeof parameter };
    MUST(muster_kernel_load(m, write_text("saxpy.c", saxpy), NULL, &kernel, &problem));
    MUST(muster_kernel_parameter(kernel, 0, &parameter, &problem));
    CHECK_TEXT("a", parameter.name);
    CHECK_TEXT("float", parameter.type);
    CHECK(!parameter.is_block && parameter.bytes == 4);
    MUST(muster_kernel_parameter(kernel, 1, &parameter, &problem));
    CHECK_TEXT("x", parameter.name);
    CHECK(parameter.is_block && parameter.is_const && parameter.bytes == 4);
    MUST(muster_kernel_parameter(kernel, 2, &parameter, &problem));
    CHECK_TEXT("y", parameter.name);
    CHECK(parameter.is_block && !parameter.is_const);
    CHECK_EQUAL(MUSTER_E_NOT_FOUND, muster_kernel_parameter(kernel, 3, &parameter, &problem));
    parameter.size = 1;
    CHECK_EQUAL(MUSTER_E_INVALID, muster_kernel_parameter(kernel, 0, &parameter, &problem));
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

static void arguments_must_fit_the_source(void)
{
    struct muster *m = open_plain();
    struct muster_kernel *kernel;
    static float x[ITEMS], y[ITEMS];
    float a = 1;
    double wide = 1;
    MUST(muster_kernel_load(m, write_text("saxpy.c", saxpy), NULL, &kernel, &problem));
    muster_stream stream = acquire(m, find(m, "cpu:0"));
    muster_block block = allocate(m, stream, sizeof x);
    const struct muster_operand few[] = { MUSTER_SCALAR(a), MUSTER_BLOCK_READ(block) };
    CHECK_STATUS(MUSTER_E_INVALID, muster_launch(m, stream, kernel, 0, 1, few, 2, NULL, &problem));
    CHECK_CONTAINS("saxpy takes 3 arguments, and was given 2", problem.text);
    const struct muster_operand mixed[] = { MUSTER_BLOCK_READ(block), MUSTER_SCALAR(a),
                                            MUSTER_BLOCK_UPDATE(block) };
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_launch(m, stream, kernel, 0, 1, mixed, 3, NULL, &problem));
    CHECK_CONTAINS("argument 0 of kernel saxpy is a value (float), and was given a block",
                   problem.text);
    const struct muster_operand large[] = { MUSTER_SCALAR(wide), MUSTER_BLOCK_READ(block),
                                            MUSTER_BLOCK_UPDATE(block) };
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_launch(m, stream, kernel, 0, 1, large, 3, NULL, &problem));
    CHECK_CONTAINS("has 4 bytes (float), and was given 8", problem.text);
    const struct muster_arg short_list[] = { MUSTER_VALUE(a), MUSTER_IN(x) };
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_for(m, kernel, ITEMS, short_list, 2, NULL, NULL, &problem));
    CHECK_CONTAINS("takes 3 arguments, and was given 2", problem.text);
    const struct muster_arg wrong[] = { MUSTER_VALUE(wide), MUSTER_IN(x), MUSTER_INOUT(y) };
    CHECK_STATUS(MUSTER_E_INVALID, muster_for(m, kernel, ITEMS, wrong, 3, NULL, NULL, &problem));
    MUST(muster_close(m, &problem));
}

static _Atomic unsigned lines_logged;

static void count_lines(void *user, enum muster_log_level level, const char *text)
{
    (void)user, (void)level;
    lines_logged += strstr(text, "nowhere") != NULL;
}

static void a_refusal_is_told_each_time_and_compiled_once(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.log = count_lines;
    struct muster *m = open_with(options);
    struct muster_kernel *kernel;
    static int x[ITEMS];
    const char *path = write_text(
        "wrong.c", "MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL int *x)\n{ x[i] = nowhere; }\n");
    MUST(muster_kernel_load(m, path, NULL, &kernel, &problem));
    muster_stream stream = acquire(m, find(m, "cpu:0"));
    muster_block block = allocate(m, stream, sizeof x);
    const struct muster_operand args[] = { MUSTER_BLOCK_UPDATE(block) };
    unsigned first = 0;
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(MUSTER_E_PARSE,
                     muster_launch(m, stream, kernel, 0, 1, args, 1, NULL, &problem));
        CHECK_CONTAINS("wrong.c:2:", problem.text);
        CHECK_TEXT("cpu:0", problem.device);
        first = i == 0 ? lines_logged : first;
        CHECK(lines_logged > 0 && lines_logged == first);
    }
    const struct muster_arg job_args[] = { MUSTER_OUT(x) };
    CHECK(muster_for(m, kernel, ITEMS, job_args, 1, NULL, NULL, &problem) < 0);
    CHECK_CONTAINS("nowhere", problem.text);
    MUST(muster_close(m, &problem));
}

static void a_job_says_that_no_device_has_a_form(void)
{
    struct muster *m = open_plain();
    struct muster_kernel *kernel;
    static int x[ITEMS];
    const struct muster_kernel_form form = {
        .size = sizeof form, .kind = MUSTER_KERNEL_PTX, .code = "ptx", .code_bytes = 3, .entry = "f"
    };
    MUST(muster_kernel_from(m, "elsewhere", &form, 1, &kernel, &problem));
    const struct muster_run_options options = { .size = sizeof options, .devices = "cpu:0,sim:0" };
    const struct muster_arg args[] = { MUSTER_OUT(x) };
    CHECK_STATUS(MUSTER_E_NO_DEVICE,
                 muster_for(m, kernel, ITEMS, args, 1, &options, NULL, &problem));
    CHECK_CONTAINS("no form of kernel elsewhere", problem.text);
    muster_kernel_destroy(kernel);
    /* The same for source where nothing compiles it. */
    MUST(muster_kernel_load(m, write_text("saxpy.c", saxpy), NULL, &kernel, &problem));
    float a = 1, y[4] = { 0 };
    const struct muster_arg saxpy_args[] = { MUSTER_VALUE(a), MUSTER_IN(y), MUSTER_INOUT(y) };
    setenv("MUSTER_CC", "/nonexistent/cc", 1);
    muster_status status = muster_for(m, kernel, 4, saxpy_args, 3, &options, NULL, &problem);
    unsetenv("MUSTER_CC");
    CHECK_STATUS(MUSTER_E_NO_DEVICE, status);
    CHECK_CONTAINS("/nonexistent/cc", problem.text);
    MUST(muster_close(m, &problem));
}

static muster_status fill_with_seven(uint64_t begin, uint64_t end, void *const *args)
{
    int *x = *(int *const *)args[0];
    for (uint64_t i = begin; i < end; i++)
        x[i] = 7;
    return MUSTER_OK;
}

static void a_form_that_is_taken_goes_before_one_that_must_be_built(void)
{
    struct muster *m = open_plain();
    struct muster_kernel *kernel;
    static int x[ITEMS];
    const struct muster_kernel_form forms[] = {
        { .size = sizeof forms[0],
          .kind = MUSTER_KERNEL_PORTABLE,
          .code = two,
          .code_bytes = sizeof two - 1,
          .entry = "one" },
        { .size = sizeof forms[0], .kind = MUSTER_KERNEL_FUNCTION, .function = fill_with_seven }
    };
    MUST(muster_kernel_from(m, "both", forms, 2, &kernel, &problem));
    const struct muster_arg args[] = { MUSTER_OUT(x) };
    MUST(muster_for(m, kernel, ITEMS, args, 1, NULL, NULL, &problem));
    for (int i = 0; i < ITEMS; i++)
        CHECK_EQUAL(7, x[i]);
    MUST(muster_close(m, &problem));
}

/* A thread that launches a kernel whose one argument is a block. */
struct launcher {
    pthread_t thread;
    struct muster *m;
    struct muster_kernel *kernel;
    muster_stream stream;
    muster_block block;
    muster_status status;
};

static void *launch(void *argument)
{
    struct launcher *launcher = argument;
    const struct muster_operand args[] = { MUSTER_BLOCK_UPDATE(launcher->block) };
    launcher->status =
        muster_launch(launcher->m, launcher->stream, launcher->kernel, 0, 1, args, 1, NULL, NULL);
    return NULL;
}

/* Several threads want a kernel for one device at once; gives how much its compiler said. */
static unsigned launch_at_once(struct muster *m, const char *text, unsigned threads,
                               muster_status expected)
{
    struct launcher launchers[4];
    struct muster_kernel *kernel;
    MUST(muster_kernel_load(m, write_text("at_once.c", text), NULL, &kernel, &problem));
    lines_logged = 0;
    for (unsigned i = 0; i < threads; i++) {
        muster_stream stream = acquire(m, find(m, "cpu:0"));
        launchers[i] = (struct launcher){
            .m = m, .kernel = kernel, .stream = stream, .block = allocate(m, stream, 64)
        };
    }
    for (unsigned i = 0; i < threads; i++)
        CHECK_EQUAL(0, pthread_create(&launchers[i].thread, NULL, launch, &launchers[i]));
    for (unsigned i = 0; i < threads; i++)
        pthread_join(launchers[i].thread, NULL);
    for (unsigned i = 0; i < threads; i++) {
        CHECK_STATUS(expected, launchers[i].status);
        wait_for(m, launchers[i].stream);
        MUST(muster_stream_release(m, launchers[i].stream, &problem));
    }
    return lines_logged;
}

static void several_threads_build_it_once(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.log = count_lines;
    options.cpu_workers = 2;
    struct muster *m = open_with(options);
    static const char wrong[] =
        "MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL int *x) { x[i] = nowhere; }";
    unsigned alone = launch_at_once(m, wrong, 1, MUSTER_E_PARSE);
    CHECK(alone > 0);
    CHECK_EQUAL(alone, launch_at_once(m, wrong, 4, MUSTER_E_PARSE));
    launch_at_once(m, "MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL int *x) { x[i] = 1; }", 4,
                   MUSTER_OK);
    MUST(muster_close(m, &problem));
}

/* A bundle with source of two kernels, and what was compiled of it. */
static struct muster_bundle *make_bundle(void)
{
    struct muster_bundle *bundle;
    MUST(muster_bundle_create(&bundle, &problem));
    MUST(muster_bundle_add_file(bundle, write_text("two.c", two), NULL, &problem));
    MUST(muster_bundle_build(bundle, MUSTER_KERNEL_OPENCL, NULL, &problem));
    MUST(muster_bundle_build(bundle, MUSTER_KERNEL_SHARED_OBJECT, NULL, &problem));
    return bundle;
}

static void check_bundle(const struct muster_bundle *bundle)
{
    static const struct {
        enum muster_kernel_kind kind;
        const char *entry;
    } expected[] = { { MUSTER_KERNEL_SHARED_OBJECT, "one" }, { MUSTER_KERNEL_SHARED_OBJECT, "two" },
                     { MUSTER_KERNEL_OPENCL, "one" },        { MUSTER_KERNEL_OPENCL, "two" },
                     { MUSTER_KERNEL_PORTABLE, "one" },      { MUSTER_KERNEL_PORTABLE, "two" } };
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        const struct muster_kernel_form *form = muster_bundle_form(bundle, i);
        CHECK(form);
        CHECK_EQUAL(expected[i].kind, form->kind);
        CHECK_TEXT(expected[i].entry, form->entry);
    }
    CHECK(!muster_bundle_form(bundle, COUNT_OF(expected)));
}

static void a_bundle_comes_back_as_it_was_and_needs_no_compiler(void)
{
    struct muster_bundle *bundle = make_bundle(), *again;
    check_bundle(bundle);
    MUST(muster_bundle_write(bundle, path_of("two.bundle"), &problem));
    muster_bundle_destroy(bundle);
    MUST(muster_bundle_create(&again, &problem));
    MUST(muster_bundle_add_file(again, path_of("two.bundle"), NULL, &problem));
    check_bundle(again);
    CHECK_STATUS(MUSTER_E_NOT_FOUND,
                 muster_bundle_add_file(again, path_of("two.bundle"), "three", &problem));
    check_bundle(again);
    muster_bundle_destroy(again);
    struct muster *m = open_plain();
    struct muster_kernel *kernel;
    static int x[ITEMS];
    const struct muster_arg args[] = { MUSTER_OUT(x) };
    MUST(muster_kernel_load(m, path_of("two.bundle"), "two", &kernel, &problem));
    setenv("MUSTER_CC", "/nonexistent/cc", 1);
    muster_status status = muster_for(m, kernel, ITEMS, args, 1, NULL, NULL, &problem);
    unsetenv("MUSTER_CC");
    MUST(status);
    for (int i = 0; i < ITEMS; i++)
        CHECK_EQUAL(2, x[i]);
    MUST(muster_close(m, &problem));
}

static void a_bundle_refuses_what_cannot_be_in_it(void)
{
    struct muster_bundle *bundle;
    const uint16_t compute[2] = { 9, 0 };
    const struct muster_kernel_form function = { .size = sizeof function,
                                                 .kind = MUSTER_KERNEL_FUNCTION,
                                                 .function = do_nothing };
    MUST(muster_bundle_create(&bundle, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_bundle_add_form(bundle, &function, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_bundle_write(bundle, path_of("none.bundle"), &problem));
    CHECK_STATUS(MUSTER_E_NOT_FOUND,
                 muster_bundle_build(bundle, MUSTER_KERNEL_CUBIN, compute, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_bundle_build(bundle, MUSTER_KERNEL_PTX, NULL, &problem));
    CHECK_STATUS(MUSTER_E_NOT_FOUND,
                 muster_bundle_add_file(bundle, path_of("nowhere"), NULL, &problem));
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = saxpy,
                                             .code_bytes = sizeof saxpy - 1,
                                             .entry = "saxpy" };
    MUST(muster_bundle_add_form(bundle, &form, &problem));
    CHECK_STATUS(MUSTER_E_IO, muster_bundle_write(bundle, "/proc/none.bundle", &problem));
    CHECK_EQUAL(0, mkfifo(path_of("pipe"), 0600));
    CHECK_STATUS(MUSTER_E_IO, muster_bundle_write(bundle, path_of("pipe"), &problem));
    struct stat facts;
    CHECK_EQUAL(0, stat(path_of("pipe"), &facts));
    CHECK(S_ISFIFO(facts.st_mode));
    CHECK_EQUAL(0, unlink(path_of("pipe")));
    muster_bundle_destroy(bundle);
    muster_bundle_destroy(NULL);
}

/* The bundle's bytes; its owner frees them. */
static uint8_t *bundle_bytes(size_t *bytes)
{
    struct muster_bundle *bundle = make_bundle();
    size_t count = 0;
    while (muster_bundle_form(bundle, count))
        count++;
    const struct muster_kernel_form *forms = muster_bundle_form(bundle, 0);
    *bytes = format_bytes(forms, count);
    uint8_t *out = malloc(*bytes);
    CHECK(out != NULL);
    format_write(forms, count, out);
    muster_bundle_destroy(bundle);
    return out;
}

static void a_damaged_bundle_is_refused(void)
{
    struct muster_bundle *bundle;
    size_t bytes;
    uint8_t *good = bundle_bytes(&bytes);
    MUST(muster_bundle_create(&bundle, &problem));
    for (size_t cut = 8; cut < bytes; cut += 1 + bytes / 37) {
        const char *path = write_file("cut.bundle", good, cut);
        CHECK_STATUS(MUSTER_E_PARSE, muster_bundle_add_file(bundle, path, NULL, &problem));
        CHECK_CONTAINS("damaged bundle", problem.text);
    }
    for (size_t at = 12; at < bytes; at += 1 + bytes / 37) {
        good[at] ^= 0x40;
        const char *path = write_file("flipped.bundle", good, bytes);
        CHECK_STATUS(MUSTER_E_PARSE, muster_bundle_add_file(bundle, path, NULL, &problem));
        good[at] ^= 0x40;
    }
    good[8] = 99;
    CHECK_STATUS(
        MUSTER_E_VERSION,
        muster_bundle_add_file(bundle, write_file("new.bundle", good, bytes), NULL, &problem));
    free(good);
    muster_bundle_destroy(bundle);
}

static void any_bytes_are_a_bundle_or_refused(void)
{
    struct random random;
    size_t bytes;
    /* Small enough that damage hits the table more often than code. */
    static const struct muster_kernel_form forms[] = {
        { .size = sizeof forms[0],
          .kind = MUSTER_KERNEL_PORTABLE,
          .code = "abc",
          .code_bytes = 3,
          .entry = "f",
          .file = "f.c" },
        { .size = sizeof forms[0],
          .kind = MUSTER_KERNEL_PTX,
          .code = "ptx",
          .code_bytes = 3,
          .entry = "f",
          .compute = { 9, 0 } },
        { .size = sizeof forms[0],
          .kind = MUSTER_KERNEL_CUBIN,
          .code = "c",
          .code_bytes = 1,
          .entry = "g",
          .threads = 128 },
    };
    bytes = format_bytes(forms, COUNT_OF(forms));
    uint8_t *good = malloc(bytes);
    CHECK(good != NULL);
    format_write(forms, COUNT_OF(forms), good);
    random_init(&random, test_seed());
    for (unsigned round = 0; round < test_repetitions(TEST_BY_SANITIZER(40000, 20000, 2000));
         round++) {
        size_t size = random_below(&random, 4) == 0 ? random_below(&random, bytes + 1) : bytes;
        uint8_t *damaged = malloc(size > 0 ? size : 1);
        CHECK(damaged != NULL);
        memcpy(damaged, good, size);
        for (uint64_t changes = random_below(&random, 5); changes > 0 && size > 0; changes--)
            damaged[random_below(&random, size)] = random_below(&random, 3) == 0
                                                       ? (uint8_t)random_next(&random)
                                                       : (uint8_t)random_below(&random, 8);
        LLVMFuzzerTestOneInput(damaged, size);
        free(damaged);
    }
    free(good);
}

static void several_files_make_one_kernel(void)
{
    struct muster *m = open_plain();
    struct muster_kernel *kernel;
    struct muster_bundle *bundle;
    char source[PLATFORM_PATH_BYTES + 64], object[PLATFORM_PATH_BYTES + 64];
    MUST(muster_bundle_create(&bundle, &problem));
    snprintf(source, sizeof source, "%s", write_text("saxpy.c", saxpy));
    MUST(muster_bundle_add_file(bundle, source, NULL, &problem));
    MUST(muster_bundle_build(bundle, MUSTER_KERNEL_SHARED_OBJECT, NULL, &problem));
    const struct muster_kernel_form *form = muster_bundle_form(bundle, 0);
    snprintf(object, sizeof object, "%s", write_file("saxpy.so", form->code, form->code_bytes));
    muster_bundle_destroy(bundle);
    /* A shared object does not tell its kernel's name, the source before it does. */
    const char *const files[] = { source, object }, *const reversed[] = { object, source };
    MUST(muster_kernel_load_files(m, files, 2, NULL, &kernel, &problem));
    run_saxpy(m, "cpu:0", kernel);
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_kernel_load_files(m, reversed, 2, NULL, &kernel, &problem));
    CHECK_CONTAINS("which of its functions", problem.text);
    MUST(muster_kernel_load_files(m, reversed, 2, "saxpy", &kernel, &problem));
    run_saxpy(m, "sim:1", kernel);
    MUST(muster_close(m, &problem));
}

static void nothing_of_a_kernel_is_left(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.allocator = counting_allocator(&counting);
    struct muster *m = open_with(options);
    struct muster_kernel *kernel;
    MUST(muster_kernel_load(m, write_text("saxpy.c", saxpy), NULL, &kernel, &problem));
    run_saxpy(m, "cpu:0", kernel);
    muster_kernel_destroy(kernel);
    MUST(muster_kernel_load(m, path_of("saxpy.c"), NULL, &kernel, &problem));
    run_saxpy(m, "cpu:0", kernel);
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, counting.bytes);
    CHECK_EQUAL(0, counting.wrong);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_source_file_runs_on_every_device),
        TEST(what_is_built_needs_no_compiler),
        TEST(what_is_given_is_copied),
        TEST(forms_are_checked_for_their_kind),
        TEST(files_that_are_no_kernel_are_refused),
        TEST(a_kernel_says_what_it_takes),
        TEST(arguments_must_fit_the_source),
        TEST(a_refusal_is_told_each_time_and_compiled_once),
        TEST(a_job_says_that_no_device_has_a_form),
        TEST(a_form_that_is_taken_goes_before_one_that_must_be_built),
        TEST(several_threads_build_it_once),
        TEST(a_bundle_comes_back_as_it_was_and_needs_no_compiler),
        TEST(a_bundle_refuses_what_cannot_be_in_it),
        TEST(a_damaged_bundle_is_refused),
        TEST(any_bytes_are_a_bundle_or_refused),
        TEST(several_files_make_one_kernel),
        TEST(nothing_of_a_kernel_is_left),
    };
    char command[PLATFORM_PATH_BYTES + 32], cache[PLATFORM_PATH_BYTES + 32];
    if (platform_folder_make_temporary(folder, NULL) != MUSTER_OK)
        return 1;
    snprintf(cache, sizeof cache, "%s/cache", folder);
    setenv("MUSTER_CACHE", cache, 1);
    unsetenv("MUSTER_CC");
    int code = test_main(argc, argv, tests, COUNT_OF(tests));
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    (void)!system(command);
    return code;
}
