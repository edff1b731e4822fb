/*
 * Kernels that nobody trusts: what they try is refused or contained, the item is named, and all other items are right.
 * HOSTILE_KERNELS is the shared object of hostile/kernels.c, HOSTILE_EARLY that of hostile/early.c. Helpers of builds
 * with sanitizers are not closed in, so there only what such a helper survives is tried.
 */
#include "harness.h"

#include "backend/cpu/cpu.h"
#include "kernel/compile.h"
#include "platform/file.h"
#include "platform/helper.h"
#include "platform/machine.h"
#include "platform/sandbox.h"

#include <muster/muster.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOSTILE 0xffff0001u
#define LET_THROUGH 0xffff0002u
#define ITEMS 64u
#define BAD_ITEM 37u
/* Other than a fault this ends only by the time-out, several times. */
#define TIMEOUT_NS UINT64_C(150000000)

struct attempt {
    const char *name;
    const char *told; /* in the log, about the item; NULL: nobody knows */
};

static const struct attempt attempts[] = {
    { "opens_a_file", "refused the system call openat" },
    { "opens_a_socket", "refused the system call socket" },
    { "forks", "refused the system call clone" },
    { "runs_a_program", "refused the system call execve" },
    { "traces_its_parent", "refused the system call ptrace" },
    { "reads_another_process", "refused the system call process_vm_readv" },
    { "opens_another_through_proc", "refused the system call openat" },
    { "opens_its_own_memory", "refused the system call openat" },
    { "fills_memory", "SIGABRT" },
    { "maps_code", "refused the system call mmap" },
    { "makes_data_code", "refused the system call mprotect" },
    { "signals_its_parent", "refused the system call kill" },
    { "signals_all", "refused the system call kill" },
    { "signals_a_thread_of_another", "refused the system call tgkill" },
    { "closes_descriptors", "refused the system call close" },
    { "changes_its_process", "refused the system call prctl" },
    { "changes_the_filter", "refused the system call seccomp" },
    { "makes_a_ring_of_the_system", "refused the system call io_uring_setup" },
    { "writes_to_the_terminal", "refused the system call write" },
    { "starts_threads", "SIGSYS" },
    { "recurses_for_ever", "SIGSEGV" },
    { "takes_a_huge_frame", "SIGSEGV" },
    { "aborts", "SIGABRT" },
    { "ends_the_process", "exit status 0" },
    { "raises_its_limits", "refused the system call prlimit64" },
    { "removes_a_file", "refused the system call unlink" },
    { "makes_a_file_of_memory", "refused the system call memfd_create" },
    { "counts_events", "refused the system call perf_event_open" },
    { "loads_a_filter_into_the_kernel", "refused the system call bpf" },
    { "leaves_its_spaces", "refused the system call unshare" },
    { "catches_refusals", "refused the system call rt_sigaction" },
    { "blocks_signals_and_asks", "SIGSYS" },
    { "never_ends", "stopped after its time-out" },
    { "asks_without_the_library", "refused the system call getuid" },
    { "asks_as_another_processor", "SIGSYS" },
    { "asks_as_x32", "SIGSYS" },
};

static bool can_close(void)
{
    struct muster_error err;
    if (!platform_sandbox_closes()) {
        printf("skipped: helpers of builds with sanitizers are not closed in\n");
        return false;
    }
    if (platform_sandbox_check(&err) == MUSTER_OK)
        return true;
    printf("skipped: %s\n", err.text);
    return false;
}

/* The log. */
struct told {
    pthread_mutex_t mutex;
    char text[8192];
};

static void write_down(void *user, enum muster_log_level level, const char *text)
{
    struct told *told = user;
    (void)level;
    pthread_mutex_lock(&told->mutex);
    size_t used = strlen(told->text);
    snprintf(told->text + used, sizeof told->text - used, "%s\n", text);
    pthread_mutex_unlock(&told->mutex);
}

static bool is_told(struct told *told, const char *item, const char *text)
{
    pthread_mutex_lock(&told->mutex);
    const char *at = strstr(told->text, item);
    size_t length = at ? strcspn(at, "\n") : 0;
    char line[512];
    snprintf(line, sizeof line, "%.*s", (int)length, at ? at : "");
    pthread_mutex_unlock(&told->mutex);
    return strstr(line, text) != NULL;
}

static struct muster *open_untrusted(struct told *told, const char *devices)
{
    struct muster *m = NULL;
    struct muster_error err;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    memset(told->text, 0, sizeof told->text);
    options.devices = devices;
    options.untrusted = 1;
    options.cpu_workers = 2;
    options.log = write_down;
    options.log_user = told;
    muster_status status = muster_open(&m, &options, &err);
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", err.text, err.fix);
    return m;
}

static struct muster_kernel *load(struct muster *m, const char *path, const char *entry)
{
    struct muster_kernel *kernel = NULL;
    struct muster_error err;
    char *object;
    size_t bytes;
    if (platform_file_read(&platform_heap, path, (size_t)1 << 24, &object, &bytes, &err) !=
        MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s", err.text);
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_SHARED_OBJECT,
                                             .code = object,
                                             .code_bytes = bytes,
                                             .entry = entry };
    muster_status status = muster_kernel_from(m, entry, &form, 1, &kernel, &err);
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s", err.text);
    free(object);
    return kernel;
}

static muster_status map(struct muster *m, struct muster_kernel *kernel, const uint32_t *in,
                         uint32_t *out, muster_status *each, struct muster_error *err)
{
    const struct muster_arg args[] = { MUSTER_IN(in), MUSTER_OUT(out) };
    struct muster_run_options options = { .size = sizeof options };
    options.timeout_ns = test_patience(TIMEOUT_NS);
    return muster_for_each_status(m, kernel, ITEMS, args, 2, each, &options, NULL, err);
}

static void fill(uint32_t *in)
{
    for (uint32_t i = 0; i < ITEMS; i++)
        in[i] = i;
    in[BAD_ITEM] = HOSTILE;
}

static void try(struct told *told, const struct attempt *attempt)
{
    uint32_t in[ITEMS], out[ITEMS] = { 0 };
    muster_status each[ITEMS];
    char item[64];
    struct muster_error err = { .size = sizeof err };
    struct muster *m = open_untrusted(told, "cpu");
    struct muster_kernel *kernel = load(m, HOSTILE_KERNELS, attempt->name);
    fill(in);
    muster_status status = map(m, kernel, in, out, each, &err);
    if (status != MUSTER_E_FAILED)
        test_fail(__FILE__, __LINE__, "%s: %s, item %x: %s; the log:\n%s", attempt->name,
                  muster_status_name(status), out[BAD_ITEM], err.text, told->text);
    for (uint32_t i = 0; i < ITEMS; i++)
        if (i != BAD_ITEM && (out[i] != in[i] + 1 || each[i] != MUSTER_OK))
            test_fail(__FILE__, __LINE__, "%s: item %u is %u, %s", attempt->name, i, out[i],
                      muster_status_name(each[i]));
    bool is_slow = strcmp(attempt->name, "never_ends") == 0;
    if (each[BAD_ITEM] != (is_slow ? MUSTER_E_TIMEOUT : MUSTER_E_CRASHED) ||
        out[BAD_ITEM] == LET_THROUGH)
        test_fail(__FILE__, __LINE__, "%s: the item is %x, %s", attempt->name, out[BAD_ITEM],
                  muster_status_name(each[BAD_ITEM]));
    snprintf(item, sizeof item, "item %u on cpu:0: ", BAD_ITEM);
    if (!is_told(told, item, attempt->told))
        test_fail(__FILE__, __LINE__, "%s: '%s' of the item is not in the log:\n%s", attempt->name,
                  attempt->told, told->text);
    muster_kernel_destroy(kernel);
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

static void hostile_items_fail_alone_and_are_named(void)
{
    static struct told told = { .mutex = PTHREAD_MUTEX_INITIALIZER };
    if (!can_close())
        return;
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++)
        try(&told, &attempts[i]);
}

/* What others of the same helper compute may be wrong then, but the program goes on, and so do later jobs. */
static void a_kernel_that_writes_over_its_helper_harms_nobody_else(void)
{
    static struct told told = { .mutex = PTHREAD_MUTEX_INITIALIZER };
    uint32_t in[ITEMS], out[ITEMS] = { 0 };
    muster_status each[ITEMS];
    struct muster_error err;
    if (!can_close())
        return;
    struct muster *m = open_untrusted(&told, "cpu");
    struct muster_kernel *kernel = load(m, HOSTILE_KERNELS, "writes_over_everything");
    fill(in);
    CHECK(map(m, kernel, in, out, each, &err) != MUSTER_OK);
    muster_kernel_destroy(kernel);
    muster_close(m, NULL);
    m = open_untrusted(&told, "cpu");
    kernel = load(m, HOSTILE_KERNELS, "aborts");
    in[BAD_ITEM] = BAD_ITEM;
    CHECK_STATUS(MUSTER_OK, map(m, kernel, in, out, each, &err));
    CHECK_EQUAL(BAD_ITEM + 1, out[BAD_ITEM]);
    muster_kernel_destroy(kernel);
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

/* Nothing of an object runs before its kernel is launched: one that asks for that is refused. */
static void an_object_runs_nothing_when_it_is_loaded(void)
{
    static struct told told = { .mutex = PTHREAD_MUTEX_INITIALIZER };
    uint32_t in[ITEMS], out[ITEMS] = { 0 };
    struct muster_error err;
    const struct muster_arg args[] = { MUSTER_IN(in), MUSTER_OUT(out) };
    struct muster *m = open_untrusted(&told, "cpu");
    struct muster_kernel *kernel = load(m, HOSTILE_EARLY, "early");
    fill(in);
    CHECK_STATUS(MUSTER_E_INVALID, muster_for(m, kernel, ITEMS, args, 2, NULL, NULL, &err));
    CHECK_CONTAINS("functions that run when it is loaded", err.text);
    muster_kernel_destroy(kernel);
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

static const char portable[] = "#include <muster_kernel.h>\n"
                               "MUSTER_KERNEL void next(uint64_t i, MUSTER_GLOBAL const uint32_t "
                               "*in, MUSTER_GLOBAL uint32_t *out)\n"
                               "{\n"
                               "    out[i] = in[i] + 1;\n"
                               "}\n";

static struct muster_kernel *make_portable(struct muster *m)
{
    struct muster_kernel *kernel = NULL;
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = portable,
                                             .code_bytes = sizeof portable - 1,
                                             .entry = "next" };
    CHECK_STATUS(MUSTER_OK, muster_kernel_from(m, "next", &form, 1, &kernel, NULL));
    return kernel;
}

static void source_is_compiled_and_run(void)
{
    static struct told told = { .mutex = PTHREAD_MUTEX_INITIALIZER };
    uint32_t in[ITEMS], out[ITEMS] = { 0 };
    muster_status each[ITEMS];
    struct muster_error err = { .size = sizeof err };
    struct muster *m = open_untrusted(&told, "cpu");
    if (!m)
        return;
    struct muster_kernel *kernel = make_portable(m);
    fill(in);
    muster_status status = map(m, kernel, in, out, each, &err);
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s", err.text);
    for (uint32_t i = 0; i < ITEMS; i++)
        CHECK_EQUAL(in[i] + 1, out[i]);
    muster_kernel_destroy(kernel);
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

/* By a compiler that can do nothing but that. The prelude's rules do not let such sources come so far. */
static void compile(const char *source, const char *said)
{
    struct kernel_blob blob = { .memory = NULL };
    struct muster_error err = { .size = sizeof err };
    muster_status status = compiler_build(source, strlen(source), COMPILE_UNTRUSTED, &platform_heap,
                                          NULL, &blob, &err);
    if (!said) {
        if (status != MUSTER_OK)
            test_fail(__FILE__, __LINE__, "%s", err.text);
        kernel_blob_release(&blob, &platform_heap);
        return;
    }
    if (status == MUSTER_OK)
        test_fail(__FILE__, __LINE__, "compiled: %s", source);
    else if (!strstr(err.text, said))
        test_fail(__FILE__, __LINE__, "of %s it says: %s", source, err.text);
}

static void the_compiler_is_closed_in(void)
{
    char secret[] = "/tmp/muster-secret-XXXXXX", source[512];
    int file = mkstemp(secret);
    CHECK(file >= 0 && write(file, "int secret;\n", 12) == 12);
    close(file);
    compile("double root(double x);\n#include <math.h>\ndouble root(double x){return sqrt(x);}\n",
            NULL);
    if (can_close()) {
        snprintf(source, sizeof source, "#include \"%s\"\n", secret);
        compile(source, "ermission denied");
        compile("#include \"/etc/passwd\"\n", "ermission denied");
        snprintf(source, sizeof source, "__asm__(\".incbin \\\"%s\\\"\");\n", secret);
        compile(source, "");
        compile("__asm__(\".incbin \\\"/etc/passwd\\\"\");\n", "");
        compile("#include \"/proc/self/environ\"\n", "ermission denied");
        compile("static const int many[600000000] = { 1 };\nconst int *at(int i) { return many + "
                "i; }\n",
                "limit exceeded");
    }
    unlink(secret);
}

/* The same calls that a compiler could make if it were taken over: from the wrapper, by a shell. */
static int run_closed(const char *command)
{
    char folder[] = "/tmp/muster-closed-XXXXXX", path[HELPER_PATH_BYTES];
    int status = -1;
    CHECK(mkdtemp(folder) && platform_helper_find(path));
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(126);
        execl(path, "muster-helper", HELPER_CONFINE, folder, "/bin/sh", "-c", command,
              (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    char remove[128];
    snprintf(remove, sizeof remove, "rm -rf %s", folder);
    CHECK_EQUAL(0, system(remove));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void what_the_compiler_runs_is_closed_in(void)
{
    if (!can_close())
        return;
    setenv("MUSTER_TEST_SECRET", "known", 1);
    CHECK_EQUAL(
        0, run_closed("echo > $TMPDIR/own && cat $TMPDIR/own && test -z \"$MUSTER_TEST_SECRET\""));
    CHECK(run_closed("cat /etc/passwd") != 0);
    CHECK(run_closed("cat /proc/1/environ") != 0);
    CHECK(run_closed("echo > /tmp/muster-hostile") != 0);
    CHECK(access("/tmp/muster-hostile", F_OK) != 0);
    CHECK(run_closed("ln -s /etc/passwd $TMPDIR/link") != 0);
    CHECK(run_closed("mkfifo $TMPDIR/pipe") != 0);
    CHECK(run_closed("kill -0 $PPID") != 0);
    CHECK(run_closed("chmod 777 /usr") != 0);
    CHECK(run_closed("touch /usr/bin") != 0);
    CHECK(run_closed("ulimit -v unlimited") != 0);
    CHECK(run_closed("head -c 300000000 /dev/zero > $TMPDIR/large") != 0);
}

/* A device without a sandbox is not eligible, and says why. */
static void devices_without_a_sandbox_are_refused(void)
{
    struct muster *m = NULL;
    struct muster_error err = { .size = sizeof err };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    static const uint32_t in[4];
    uint32_t out[4];
    struct muster_backend plain = backend_cpu;
    const struct muster_backend *given[] = { &plain };
    plain.name = "plain";
    options.devices = "plain";
    options.backends = given;
    options.backend_count = 1;
    options.untrusted = 1;
    CHECK_STATUS(MUSTER_OK, muster_open(&m, &options, &err));
    struct muster_kernel *kernel = make_portable(m);
    const struct muster_arg args[] = { MUSTER_IN(in), MUSTER_OUT(out) };
    CHECK(muster_for(m, kernel, 4, args, 2, NULL, NULL, &err) != MUSTER_OK);
    if (!strstr(err.text, "plain:0") || !strstr(err.text, "its helper is no sandbox"))
        test_fail(__FILE__, __LINE__, "it says: %s", err.text);
    muster_kernel_destroy(kernel);
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

static void reductions_are_refused(void)
{
    static const char source[] =
        "#include <muster_kernel.h>\n"
        "struct sum { uint64_t total; };\n"
        "MUSTER_KERNEL void add(uint64_t i, MUSTER_GLOBAL const uint32_t *in, MUSTER_PARTIAL "
        "struct sum *p)\n"
        "{\n"
        "    p->total += in[i];\n"
        "}\n"
        "MUSTER_COMBINE void add_combine(MUSTER_PARTIAL struct sum *p, MUSTER_PARTIAL const "
        "struct sum *q)\n"
        "{\n"
        "    p->total += q->total;\n"
        "}\n";
    static struct told told = { .mutex = PTHREAD_MUTEX_INITIALIZER };
    struct muster_kernel *kernel = NULL;
    struct muster_error err = { .size = sizeof err };
    static const uint32_t in[4];
    uint64_t total;
    struct muster *m = open_untrusted(&told, "cpu");
    if (!m)
        return;
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = source,
                                             .code_bytes = sizeof source - 1,
                                             .entry = "add" };
    muster_status status = muster_kernel_from(m, "add", &form, 1, &kernel, &err);
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s", err.text);
    const struct muster_arg args[] = { MUSTER_IN(in) };
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED,
                 muster_reduce(m, kernel, 4, args, 1, &total, sizeof total, NULL, NULL, &err));
    if (!strstr(err.text, "joined by its own code in the program"))
        test_fail(__FILE__, __LINE__, "it says: %s", err.text);
    muster_kernel_destroy(kernel);
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

/* Tests often run as root, and users do not. */
static void it_works_without_root(void)
{
    static struct told told = { .mutex = PTHREAD_MUTEX_INITIALIZER };
    if (!can_close())
        return;
    if (geteuid() != 0) {
        printf("skipped: this is not root\n");
        return;
    }
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        char path[HELPER_PATH_BYTES];
        if (setgid(65534) != 0 || setuid(65534) != 0)
            _exit(77);
        /* Else its own files in /proc are root's. */
        prctl(PR_SET_DUMPABLE, 1);
        setenv("HOME", "/nonexistent", 1);
        if (!platform_helper_find(path) || access(path, X_OK) != 0 ||
            access(HOSTILE_KERNELS, R_OK) != 0)
            _exit(77);
        try(&told, &attempts[0]);
        source_is_compiled_and_run();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        printf("skipped: another user cannot reach the helper\n");
    else
        CHECK_EQUAL(0, status);
}

static const struct test tests[] = {
    TEST(hostile_items_fail_alone_and_are_named),
    TEST(a_kernel_that_writes_over_its_helper_harms_nobody_else),
    TEST(an_object_runs_nothing_when_it_is_loaded),
    TEST(source_is_compiled_and_run),
    TEST(the_compiler_is_closed_in),
    TEST(what_the_compiler_runs_is_closed_in),
    TEST(devices_without_a_sandbox_are_refused),
    TEST(reductions_are_refused),
    TEST(it_works_without_root),
};

int main(int argc, char **argv)
{
    struct muster_error err;
    /* Without MUSTER_HELPER the program is its own helper. */
    int served = muster_helper_main(argc, argv);
    if (served >= 0)
        return served;
    if (platform_sandbox_check(&err) != MUSTER_OK) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
