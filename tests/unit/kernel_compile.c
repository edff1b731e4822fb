/*
 * Compiling with the machine's C compiler: what it is asked, that everything the result depends on
 * is part of the cache's key, and compilers that fail in every way. Most compilers here are scripts
 * that give a finished object, so that they take no time.
 */
#include "base/allocator.h"
#include "kernel/elf.h"
#include "kernel_support.h"

#include <signal.h>
#include <utime.h>

static const struct kernel_target functions = { MUSTER_KERNEL_FUNCTION, { 0, 0 }, false };
static const struct kernel_target objects = { MUSTER_KERNEL_SHARED_OBJECT, { 0, 0 }, false };

static const char twice[] =
    "MUSTER_KERNEL void twice(uint64_t i, MUSTER_GLOBAL uint32_t *x) { x[i] += x[i]; }\n";

static struct counting counting;
static const struct muster_allocator counted = { sizeof counted, counting_allocate,
                                                 counting_release, &counting };

/* Memory is counted, outputs are written only on success, and nothing is left in TMPDIR. */
static muster_status build_logged(const struct muster_kernel_form *form,
                                  const struct kernel_target *target, const struct kernel_log *log)
{
    char temporary[KERNEL_PATH_BYTES];
    struct kernel_image image, before;
    memset(&image, 0x5a, sizeof image);
    memcpy(&before, &image, sizeof image);
    problem = (struct muster_error){ .text = "" };
    muster_status status =
        kernel_build_logged(form, target, &counted, log, &image, log ? NULL : &problem);
    if (status == MUSTER_OK) {
        CHECK(image.form.kind & target->forms);
        if (image.form.kind == MUSTER_KERNEL_FUNCTION) {
            uint32_t numbers[3] = { 1, 2, 3 };
            void *pointer = numbers, *args[] = { &pointer };
            CHECK_STATUS(MUSTER_OK, image.form.function(1, 3, args));
            CHECK(numbers[0] == 1 && numbers[1] == 4 && numbers[2] == 6);
        } else {
            CHECK_EQUAL(ELF_OURS, elf_look(image.form.code, image.form.code_bytes));
        }
        kernel_image_release(&image, &counted);
    } else {
        CHECK(memcmp(&before, &image, sizeof image) == 0);
        CHECK(log || problem.text[0] != '\0');
    }
    CHECK_EQUAL(0, counting.bytes);
    CHECK_EQUAL(0, counting.wrong);
    path_in(temporary, "temporary");
    CHECK_EQUAL(0, entries_of(temporary, 0, NULL));
    return status;
}

static muster_status build(const struct muster_kernel_form *form,
                           const struct kernel_target *target)
{
    return build_logged(form, target, NULL);
}

/* The real compiler's object, for the scripts; made once. */
static void make_object(void)
{
    char path[KERNEL_PATH_BYTES];
    struct kernel_image image;
    const struct muster_kernel_form form = portable_form(twice, "twice");
    path_in(path, "twice.so");
    if (access(path, R_OK) == 0)
        return;
    char *cache = strdup(getenv("MUSTER_CACHE"));
    unsetenv("MUSTER_CC");
    setenv("MUSTER_CACHE", "", 1);
    MUST(kernel_build(&form, &objects, &platform_heap, &image, &problem));
    write_whole(path, image.form.code, image.form.code_bytes, 0600);
    kernel_image_release(&image, &platform_heap);
    setenv("MUSTER_CACHE", cache, 1);
    free(cache);
}

/* A script as the compiler; %s in it, twice at most, is this program's folder. */
static void use_script(const char *name, const char *text)
{
    char path[KERNEL_PATH_BYTES], script[4096];
    make_object();
    path_in(path, name);
    snprintf(script, sizeof script, text, folder, folder);
    unlink(path);
    write_whole(path, script, strlen(script), 0700);
    setenv("MUSTER_CC", path, 1);
}

/* Notes what it is asked and gives the object that was made at the beginning. */
#define GIVES_OBJECT                                                                               \
    "#!/bin/sh\necho \"$@\" >>'%s/asked'\n"                                                        \
    "while [ \"$1\" != -o ]; do shift; done\ncp '%s/twice.so' \"$2\"\n"

/* What the compiler was asked since it was asked this last, line by line; how often. */
static int asked(char *words, size_t room)
{
    char path[KERNEL_PATH_BYTES];
    static char all[1 << 16];
    int count = 0;
    path_in(path, "asked");
    if (access(path, R_OK) != 0)
        return 0;
    all[read_whole(path, all, sizeof all - 1)] = '\0';
    for (const char *at = all; (at = strchr(at, '\n')); at++)
        count++;
    if (words)
        snprintf(words, room, " %.*s ", (int)strcspn(all, "\n"), all);
    unlink(path);
    return count;
}

static void it_is_asked_for_exact_arithmetic(void)
{
    static const char *const always[] = {
        " -std=c11 ",         " -O3 ", " -shared ", " -fPIC ", " -fvisibility=hidden ",
        " -ffp-contract=off "
    };
    char words[4096];
    const struct muster_kernel_form form = portable_form(twice, "twice");
    setenv("MUSTER_CACHE", "", 1);
    use_script("cc-asked", GIVES_OBJECT);
    for (int is_native = 0; is_native < 2; is_native++) {
        MUST(build(&form, is_native ? &functions : &objects));
        CHECK_EQUAL(1, asked(words, sizeof words));
        for (size_t i = 0; i < COUNT_OF(always); i++)
            CHECK_CONTAINS(always[i], words);
        CHECK(!strstr(words, "fast"));
#if defined(__x86_64__)
        /* What is kept in a bundle must run on every such processor. */
        CHECK_EQUAL(is_native, strstr(words, "-march=native") != NULL);
#endif
    }
}

/* One rounding or two: the bits say whether a product and a sum were made into one operation. */
static void products_and_sums_are_not_fused(void)
{
    static const char source[] =
        "MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL const float *a, MUSTER_GLOBAL float *y)\n"
        "{ y[i] = a[i] * a[i] - y[i]; }\n";
    struct kernel_image image;
    const struct muster_kernel_form form = portable_form(source, "f");
    enum { COUNT = 64 };
    float a[COUNT], y[COUNT], expected[COUNT], fused[COUNT];
    bool is_other = false;
    unsetenv("MUSTER_CC");
    setenv("MUSTER_CACHE", "", 1);
    MUST(kernel_build(&form, &functions, &platform_heap, &image, &problem));
    for (int i = 0; i < COUNT; i++) {
        volatile float product = (1 + (float)(i + 1) / 4096) * (1 + (float)(i + 1) / 4096);
        a[i] = 1 + (float)(i + 1) / 4096;
        y[i] = product;
        expected[i] = 0;
        fused[i] = __builtin_fmaf(a[i], a[i], -product);
        is_other = is_other || fused[i] != 0;
    }
    void *pa = a, *py = y, *args[] = { &pa, &py };
    CHECK_STATUS(MUSTER_OK, image.form.function(0, COUNT, args));
    kernel_image_release(&image, &platform_heap);
    CHECK(is_other);
    CHECK(memcmp(expected, y, sizeof y) == 0);
}

/* Builds; whether the compiler had to be run. */
static bool is_compiled(const struct muster_kernel_form *form, const struct kernel_target *target)
{
    MUST(build(form, target));
    int times = asked(NULL, 0);
    CHECK(times <= 1);
    return times == 1;
}

static void all_that_the_result_depends_on_is_in_the_key(void)
{
    static const char thrice[] =
        "MUSTER_KERNEL void twice(uint64_t i, MUSTER_GLOBAL uint32_t *x) { x[i] += x[i] ; }\n";
    struct muster_kernel_form form = portable_form(twice, "twice");
    char path[KERNEL_PATH_BYTES];
    use_cache("key");
    use_script("cc-one", GIVES_OBJECT);
    CHECK(is_compiled(&form, &functions) && !is_compiled(&form, &functions));
    /* For all processors, or for this one. */
    CHECK(is_compiled(&form, &objects) && !is_compiled(&form, &objects));
    /* Each byte of the source, also where only its length differs. */
    form.code = thrice;
    form.code_bytes = strlen(thrice);
    CHECK(is_compiled(&form, &functions) && !is_compiled(&form, &functions));
    form.code_bytes--;
    CHECK(is_compiled(&form, &functions) && !is_compiled(&form, &functions));
    /* The file's name is in what compilers and debuggers say. */
    form.file = "there.c";
    CHECK(is_compiled(&form, &functions) && !is_compiled(&form, &functions));
    form.file = NULL;
    CHECK(is_compiled(&form, &functions) && !is_compiled(&form, &functions));
    /* Another compiler, and the same one under another name. */
    use_script("cc-two", GIVES_OBJECT "#\n");
    CHECK(is_compiled(&form, &functions) && !is_compiled(&form, &functions));
    path_in(path, "cc-one");
    setenv("MUSTER_CC", path, 1);
    CHECK(!is_compiled(&form, &functions));
    CHECK_EQUAL(7, cached(0, NULL));
}

/* Sets the time of the last change of the content back to what it was. */
static void set_times(const char *path, const struct stat *facts)
{
    const struct timespec times[2] = { facts->st_atim, facts->st_mtim };
    CHECK_EQUAL(0, utimensat(AT_FDCWD, path, times, 0));
}

static void a_compiler_that_is_replaced_at_its_path_is_another(void)
{
    static const char other[] = GIVES_OBJECT "# 1";
    const struct muster_kernel_form form = portable_form(twice, "twice");
    char path[KERNEL_PATH_BYTES], script[4096], before[4096];
    struct stat facts;
    use_cache("replaced");
    use_script("cc-replaced", other);
    path_in(path, "cc-replaced");
    CHECK(is_compiled(&form, &functions) && !is_compiled(&form, &functions));
    CHECK_EQUAL(0, stat(path, &facts));
    size_t size = read_whole(path, before, sizeof before);
    /* Another file of the same size and time in its place, as a package manager puts it there. */
    char new_path[KERNEL_PATH_BYTES];
    path_in(new_path, "cc.new");
    write_whole(new_path, before, size, 0700);
    set_times(new_path, &facts);
    CHECK_EQUAL(0, rename(new_path, path));
    CHECK(is_compiled(&form, &functions) && !is_compiled(&form, &functions));
    /* The same file, of the same size and time, with other bytes. */
    memcpy(script, before, size);
    script[size - 1] = '2';
    CHECK_EQUAL(0, stat(path, &facts));
    write_whole(path, script, size, 0700);
    set_times(path, &facts);
    CHECK(is_compiled(&form, &functions) && !is_compiled(&form, &functions));
    /* Another time alone, and another size. */
    facts.st_mtim.tv_sec -= 100;
    set_times(path, &facts);
    CHECK(is_compiled(&form, &functions) && !is_compiled(&form, &functions));
    use_script("cc-replaced", GIVES_OBJECT "# longer\n");
    CHECK(is_compiled(&form, &functions) && !is_compiled(&form, &functions));
    CHECK_EQUAL(5, cached(0, NULL));
}

static void the_compiler_is_the_one_that_is_named(void)
{
    const struct muster_kernel_form form = portable_form(twice, "twice");
    char path[KERNEL_PATH_BYTES], *old = strdup(getenv("PATH"));
    setenv("MUSTER_CACHE", "", 1);
    static const char *const names[] = { "clang", "gcc", "cc" };
    for (size_t i = 0; i < 3; i++) {
        path_in(path, names[i]);
        unlink(path);
    }
    /* Without MUSTER_CC: cc before gcc before clang. */
    for (size_t i = 0; i < 3; i++) {
        char said[64];
        snprintf(said, sizeof said, "#!/bin/sh\necho %s-here >&2; exit 1\n#%%.0s%%.0s", names[i]);
        use_script(names[i], said);
        unsetenv("MUSTER_CC");
        setenv("PATH", folder, 1);
        CHECK(kernel_can_build(&form, &functions));
        CHECK_STATUS(MUSTER_E_PARSE, build(&form, &functions));
        snprintf(said, sizeof said, "%s-here", names[i]);
        CHECK_CONTAINS(said, problem.text);
        setenv("PATH", old, 1);
    }
    /* One that is named is taken or nothing is; an empty name is none. */
    setenv("PATH", folder, 1);
    setenv("MUSTER_CC", "gcc", 1);
    CHECK_STATUS(MUSTER_E_PARSE, build(&form, &functions));
    CHECK_CONTAINS("gcc-here", problem.text);
    setenv("MUSTER_CC", "", 1);
    CHECK_STATUS(MUSTER_E_PARSE, build(&form, &functions));
    CHECK_CONTAINS("cc-here", problem.text);
    path_in(path, "cc");
    CHECK_EQUAL(0, chmod(path, 0600));
    setenv("MUSTER_CC", "cc", 1);
    CHECK(geteuid() == 0 || !kernel_can_build(&form, &functions));
    setenv("MUSTER_CC", "nowhere", 1);
    CHECK(!kernel_can_build(&form, &functions) && !kernel_can_build(&form, &objects));
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, build(&form, &functions));
    CHECK_CONTAINS("nowhere", problem.text);
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, build(&form, &objects));
    setenv("PATH", old, 1);
    unsetenv("MUSTER_CC");
    free(old);
}

static void a_compiler_that_fails_leaves_nothing(void)
{
#define OUTPUT "while [ \"$1\" != -o ]; do shift; done\n"
    static const struct {
        const char *script;
        muster_status status;
        const char *words;
    } cases[] = {
        { "echo 'kernel.c:1: error: here' >&2\nexit 1\n", MUSTER_E_PARSE, "error: here" },
        { "echo 'kernel.c:1: error: here'\nexit 1\n", MUSTER_E_PARSE, "error: here" },
        { "printf '\\n\\n  only this'; exit 1\n", MUSTER_E_PARSE, "only this" },
        { "printf 'note: first\\nx.c:2: error: second\\nx.c:3: error: third\\n'; exit 1\n",
          MUSTER_E_PARSE, ": x.c:2: error: second" },
        { "exit 3\n", MUSTER_E_PARSE, "does not say why" },
        { "printf '\\n \\n'; exit 3\n", MUSTER_E_PARSE, "does not say why" },
        { "kill -9 $$\n", MUSTER_E_PARSE, "does not say why" },
        { "echo 'internal error: dying' >&2; kill -SEGV $$\n", MUSTER_E_PARSE, "dying" },
        { OUTPUT "cp '%s/twice.so' \"$2\"; echo 'error: late'; exit 1\n#%.0s", MUSTER_E_PARSE,
          "error: late" },
        { "exit 0\n", MUSTER_E_PARSE, "made no shared object" },
        { OUTPUT ": >\"$2\"\n", MUSTER_E_PARSE, "made no shared object" },
        { OUTPUT "echo none >\"$2\"\n", MUSTER_E_PARSE, "made no shared object" },
        { OUTPUT "head -c 63 '%s/twice.so' >\"$2\"\n#%.0s", MUSTER_E_PARSE,
          "made no shared object" },
        { OUTPUT "head -c 2000 '%s/twice.so' >\"$2\"\n#%.0s", MUSTER_E_PARSE,
          "made no shared object" },
        { OUTPUT "mkdir \"$2\"; rmdir \"$2\"; exit 0\n", MUSTER_E_PARSE, "made no shared object" },
    };
    const struct muster_kernel_form form = portable_form(twice, "twice");
    use_cache("failing");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char script[1024];
        snprintf(script, sizeof script, "#!/bin/sh\n%s", cases[i].script);
        use_script("cc-failing", script);
        for (int is_native = 0; is_native < 2; is_native++) {
            CHECK_STATUS(cases[i].status, build(&form, is_native ? &functions : &objects));
            CHECK_CONTAINS(cases[i].words, problem.text);
            CHECK_CONTAINS("cc-failing", problem.text);
        }
    }
    CHECK(cached(0, NULL) <= 0);
    use_script("cc-failing", "no program at all");
    CHECK(build(&form, &functions) < 0);
    CHECK(cached(0, NULL) <= 0);
}

static size_t log_lines, log_longest;
static char log_last[512];

static enum muster_log_level log_level;

static void note_line(void *user, enum muster_log_level level, const char *line)
{
    log_level = level;
    CHECK(user == &log_lines);
    CHECK(strchr(line, '\n') == NULL && line[0] != '\0');
    log_lines++;
    log_longest = strlen(line) > log_longest ? strlen(line) : log_longest;
    snprintf(log_last, sizeof log_last, "%s", line);
}

/* More words than anybody keeps: what counts is found, nothing blocks, nothing runs over. */
static void a_compiler_may_talk_a_lot(void)
{
    const struct muster_kernel_form form = portable_form(twice, "twice");
    const struct kernel_log log = { note_line, &log_lines };
    setenv("MUSTER_CACHE", "", 1);
    use_script("cc-talking",
               "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' x >&2\n" GIVES_OBJECT);
    MUST(build(&form, &functions));
    CHECK_EQUAL(1, asked(NULL, 0));
    use_script(
        "cc-talking",
        "#!/bin/sh\necho 'x.c:1: error: first'\nhead -c 3000000 /dev/zero | tr '\\0' x\nexit 1");
    CHECK_STATUS(MUSTER_E_PARSE, build(&form, &functions));
    CHECK_CONTAINS("error: first", problem.text);
    log_lines = log_longest = 0;
    CHECK_STATUS(MUSTER_E_PARSE, build_logged(&form, &functions, &log));
    /* All of the long line, in pieces, as far as it was kept. */
    CHECK(log_lines > 100 && log_level == MUSTER_LOG_ERROR);
    CHECK(log_longest >= 300 && log_longest < sizeof log_last - 1);
    /* Lines apart, empty ones left out, the last without an end. */
    use_script("cc-talking", "#!/bin/sh\nprintf '\\n\\none\\n\\ntwo\\nerror: three'\nexit 1\n");
    log_lines = 0;
    CHECK_STATUS(MUSTER_E_PARSE, build_logged(&form, &functions, &log));
    CHECK_EQUAL(3, log_lines);
    CHECK_TEXT("error: three", log_last);
    /* What it says of what went well are warnings, told again when the object is found again. */
    use_cache("talking");
    use_script("cc-talking", "#!/bin/sh\necho 'x.c:1: beware'\n" GIVES_OBJECT);
    for (int i = 0; i < 2; i++) {
        log_lines = 0;
        CHECK_STATUS(MUSTER_OK, build_logged(&form, &functions, &log));
        CHECK_EQUAL(1, log_lines);
        CHECK_EQUAL(MUSTER_LOG_WARNING, log_level);
        CHECK_TEXT("x.c:1: beware", log_last);
    }
    CHECK_EQUAL(1, asked(NULL, 0));
    setenv("MUSTER_CACHE", "", 1);
    use_script("cc-talking", "#!/bin/sh\n" GIVES_OBJECT);
    log_lines = 0;
    CHECK_STATUS(MUSTER_OK, build_logged(&form, &functions, &log));
    CHECK_EQUAL(0, log_lines);
    asked(NULL, 0);
}

static void without_a_temporary_folder_it_says_so(void)
{
    char path[KERNEL_PATH_BYTES];
    const struct muster_kernel_form form = portable_form(twice, "twice");
    use_cache("temporary-cache");
    use_script("cc-one", GIVES_OBJECT);
    setenv("TMPDIR", "/nonexistent/folder", 1);
    muster_status status = build(&form, &functions);
    path_in(path, "temporary");
    setenv("TMPDIR", path, 1);
    CHECK_STATUS(MUSTER_E_IO, status);
    CHECK_CONTAINS("/nonexistent/folder", problem.text);
    CHECK_CONTAINS("TMPDIR", problem.fix);
    CHECK_EQUAL(0, asked(NULL, 0));
}

/* The object is there: what is missing is the function in it. */
static void an_object_without_the_entry_is_told(void)
{
    static const char other[] = "MUSTER_KERNEL void other(uint64_t i) { }\n";
    const struct muster_kernel_form form = portable_form(other, "other");
    use_cache("entry");
    use_script("cc-one", GIVES_OBJECT);
    CHECK_STATUS(MUSTER_E_NOT_FOUND, build(&form, &functions));
    CHECK_CONTAINS("other", problem.text);
    asked(NULL, 0);
}

#define THREADS 4

static void *build_in_thread(void *user)
{
    static const struct muster_kernel_form form = { .size = sizeof form,
                                                    .kind = MUSTER_KERNEL_PORTABLE,
                                                    .code = twice,
                                                    .code_bytes = sizeof twice - 1,
                                                    .entry = "twice",
                                                    .file = "here.c" };
    struct kernel_image image;
    muster_status *status = user;
    *status = kernel_build(&form, &functions, &platform_heap, &image, NULL);
    if (*status == MUSTER_OK) {
        uint32_t number = 21;
        void *pointer = &number, *args[] = { &pointer };
        *status = image.form.function(0, 1, args);
        if (number != 42)
            *status = MUSTER_E_INTERNAL;
        kernel_image_release(&image, &platform_heap);
    }
    return NULL;
}

static void threads_build_one_kernel_at_once(void)
{
    pthread_t threads[THREADS];
    muster_status statuses[THREADS];
    char path[KERNEL_PATH_BYTES];
    use_cache("threads");
    use_script("cc-one", GIVES_OBJECT);
    for (size_t i = 0; i < THREADS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, build_in_thread, &statuses[i]));
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < THREADS; i++)
        CHECK_STATUS(MUSTER_OK, statuses[i]);
    CHECK_EQUAL(1, cached(0, NULL));
    path_in(path, "temporary");
    CHECK_EQUAL(0, entries_of(path, 0, NULL));
    CHECK(asked(NULL, 0) >= 1);
    const struct muster_kernel_form form = portable_form(twice, "twice");
    CHECK(!is_compiled(&form, &functions));
}

/* Refused before any compiler is run, and told where. */
static void a_source_that_includes_is_not_compiled(void)
{
    static const char *const sources[] = {
        "#include <stdio.h>\n",
        "#/**/include \"/etc/passwd\"\n",
        "%:include \"/etc/passwd\"\n",
        "__asm__(\".incbin \\\"/etc/passwd\\\"\");\n",
    };
    static const struct kernel_target opencl = { MUSTER_KERNEL_OPENCL, { 0, 0 }, false };
    char text[512];
    setenv("MUSTER_CACHE", "", 1);
    use_script("cc-one", GIVES_OBJECT);
    for (size_t i = 0; i < COUNT_OF(sources); i++) {
        snprintf(text, sizeof text, "\n%s%s", sources[i], twice);
        const struct muster_kernel_form form = portable_form(text, "twice");
        CHECK_STATUS(MUSTER_E_PARSE, build(&form, &functions));
        CHECK_CONTAINS("here.c:2:", problem.text);
        CHECK_STATUS(MUSTER_E_PARSE, build(&form, &objects));
        CHECK_STATUS(MUSTER_E_PARSE, build(&form, &opencl));
    }
    CHECK_EQUAL(0, asked(NULL, 0));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(it_is_asked_for_exact_arithmetic),
        TEST(products_and_sums_are_not_fused),
        TEST(all_that_the_result_depends_on_is_in_the_key),
        TEST(a_compiler_that_is_replaced_at_its_path_is_another),
        TEST(the_compiler_is_the_one_that_is_named),
        TEST(a_compiler_that_fails_leaves_nothing),
        TEST(a_compiler_may_talk_a_lot),
        TEST(without_a_temporary_folder_it_says_so),
        TEST(an_object_without_the_entry_is_told),
        TEST(threads_build_one_kernel_at_once),
        TEST(a_source_that_includes_is_not_compiled),
    };
    counting = (struct counting)COUNTING_INIT;
    return kernel_test_main(argc, argv, tests, COUNT_OF(tests));
}
