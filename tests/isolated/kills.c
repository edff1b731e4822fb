/*
 * Helpers are killed at random moments under jobs, pipelines and tasks. Whatever is accepted ends exactly once, and what
 * ends well is right. MUSTER_TEST_KILLS says how many kills; the soak has a thousand.
 */
#include "harness.h"

#include "base/random.h"
#include "platform/thread.h"

#include <dirent.h>
#include <muster/muster.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILLS_DEFAULT 6
#define ITEMS 40000u
#define TASKS 40u
#define RESTARTS 3u
#define SECOND_NS UINT64_C(1000000000)

static const char source[] = "#include <muster_kernel.h>\n"
                             "MUSTER_KERNEL void mix(uint64_t i, MUSTER_GLOBAL const uint32_t *in, "
                             "MUSTER_GLOBAL uint32_t *out)\n"
                             "{\n"
                             "    uint32_t x = in[i];\n"
                             "    for (int round = 0; round < 200; round++)\n"
                             "        x = x * 1664525u + 1013904223u;\n"
                             "    out[i] = x;\n"
                             "}\n";

static uint32_t mix(uint32_t x)
{
    for (int round = 0; round < 200; round++)
        x = x * 1664525u + 1013904223u;
    return x;
}

/* The children of this process that are helpers, and no compilers. */
static uint32_t find_helpers(int *pids, uint32_t max)
{
    uint32_t count = 0;
    DIR *folder = opendir("/proc");
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry && count < max;
         entry = readdir(folder)) {
        char path[300], line[512], name[64];
        int pid = atoi(entry->d_name), parent = 0;
        char state = 0;
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *file = pid > 0 ? fopen(path, "r") : NULL;
        if (!file)
            continue;
        if (fgets(line, sizeof line, file) &&
            sscanf(line, "%*d (%63[^)]) %c %d", name, &state, &parent) == 3 && parent == getpid() &&
            state != 'Z' && strncmp(name, "muster-", 7) == 0)
            pids[count++] = pid;
        fclose(file);
    }
    if (folder)
        closedir(folder);
    return count;
}

static struct {
    _Atomic bool is_over;
    _Atomic uint32_t kills;
    _Atomic uint32_t now; /* of this runtime's helpers */
    uint32_t wanted;
} killer;

static void kill_helpers(void *argument)
{
    struct random random;
    (void)argument;
    random_init(&random, test_seed());
    while (!atomic_load(&killer.is_over) && atomic_load(&killer.kills) < killer.wanted) {
        int pids[8];
        const struct timespec pause = { 0, (long)(random_next(&random) % 30000000) };
        nanosleep(&pause, NULL);
        uint32_t count = find_helpers(pids, 8);
        /* As many as a device is started again; then there is another runtime. */
        if (count > 0 && atomic_fetch_add(&killer.now, 1) < RESTARTS &&
            kill(pids[random_next(&random) % count], SIGKILL) == 0)
            atomic_fetch_add(&killer.kills, 1);
    }
}

/* The last lines of the log, for a failure. */
#define LINES 24u
static pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;
static char lines[LINES][200];
static unsigned line_count;

static void keep_line(void *user, enum muster_log_level level, const char *text)
{
    (void)user, (void)level;
    pthread_mutex_lock(&lines_lock);
    snprintf(lines[line_count++ % LINES], sizeof lines[0], "%.3f %s",
             (double)platform_clock_ns() / 1e9, text);
    pthread_mutex_unlock(&lines_lock);
}

static void say_lines(void)
{
    pthread_mutex_lock(&lines_lock);
    for (unsigned i = line_count < LINES ? 0 : line_count - LINES; i < line_count; i++)
        printf("    %s\n", lines[i % LINES]);
    pthread_mutex_unlock(&lines_lock);
    fflush(stdout);
}

static struct muster *open_runtime(void)
{
    struct muster *m;
    struct muster_error err;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "cpu";
    options.isolate = "cpu";
    options.log_level = MUSTER_LOG_DEBUG;
    options.log = keep_line;
    CHECK_STATUS(MUSTER_OK, muster_open(&m, &options, &err));
    return m;
}

static void run_job(struct muster *m, struct muster_kernel *kernel, const uint32_t *in,
                    uint32_t *out)
{
    struct muster_error err = { .size = sizeof err };
    const struct muster_arg args[] = { MUSTER_IN(in), MUSTER_OUT(out) };
    memset(out, 0, ITEMS * sizeof *out);
    muster_status status = muster_for(m, kernel, ITEMS, args, 2, NULL, NULL, &err);
    if (status != MUSTER_OK)
        say_lines();
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "the job ends with %s: %s", muster_status_name(status),
                  err.text);
    for (uint32_t i = 0; status == MUSTER_OK && i < ITEMS; i++)
        if (out[i] != mix(in[i]))
            test_fail(__FILE__, __LINE__, "item %u is wrong", i);
}

static void run_tasks(struct muster *m, struct muster_kernel *kernel, const uint32_t *in,
                      uint32_t *out)
{
    muster_task tasks[TASKS];
    uint32_t count = 0;
    uint32_t each = ITEMS / TASKS;
    memset(out, 0, ITEMS * sizeof *out);
    for (; count < TASKS; count++) {
        const struct muster_arg args[] = { MUSTER_IN(in + count * each),
                                           MUSTER_OUT(out + count * each) };
        struct muster_task_desc desc = {
            .size = sizeof desc, .kernel = kernel, .items = each, .args = args, .arg_count = 2
        };
        struct muster_error err;
        muster_status status = muster_submit(m, &desc, 1, &tasks[count], &err);
        if (status != MUSTER_OK)
            test_fail(__FILE__, __LINE__, "a task is refused: %s", err.text);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct muster_error err;
        muster_status status = muster_wait(m, &tasks[i], 1, UINT64_MAX, &err);
        if (status != MUSTER_OK)
            test_fail(__FILE__, __LINE__, "a task ends with %s: %s", muster_status_name(status),
                      err.text);
        for (uint32_t k = 0; status == MUSTER_OK && k < each; k++)
            if (out[i * each + k] != mix(in[i * each + k]))
                test_fail(__FILE__, __LINE__, "task %u, item %u is wrong", i, k);
    }
}

/* Copies to the device, the kernel, and back. */
static struct muster_pipeline *make_pipeline(struct muster *m, struct muster_kernel *kernel)
{
    enum { IN, D_IN, D_OUT, OUT, BUFFERS };
    struct muster_pipeline *pipeline = NULL;
    struct muster_error err;
    const struct muster_buffer buffers[BUFFERS] = {
        [IN] = { sizeof *buffers, "in", MUSTER_HOST, 4, 0, 3, MUSTER_INPUT },
        [D_IN] = { sizeof *buffers, "d_in", MUSTER_DEVICE, 4, 0, 3, 0 },
        [D_OUT] = { sizeof *buffers, "d_out", MUSTER_DEVICE, 4, 0, 3, 0 },
        [OUT] = { sizeof *buffers, "out", MUSTER_HOST, 4, 0, 3, MUSTER_OUTPUT },
    };
    const struct muster_stage stages[] = {
        { sizeof *stages, "up", "h2d", 1u << IN, 1u << D_IN, .flags = MUSTER_COPY },
        { sizeof *stages, "mix", "compute", 1u << D_IN, 1u << D_OUT, .kernel = kernel },
        { sizeof *stages, "down", "d2h", 1u << D_OUT, 1u << OUT, .flags = MUSTER_COPY },
    };
    muster_status status =
        muster_pipeline_create(m, buffers, BUFFERS, stages, 3, NULL, &pipeline, &err);
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "the pipeline is refused: %s", err.text);
    return pipeline;
}

static void run_pipeline(struct muster *m, struct muster_pipeline *pipeline, const uint32_t *in,
                         uint32_t *out)
{
    struct muster_error err = { .size = sizeof err };
    struct muster_job *job = NULL;
    const struct muster_run_options options = { .size = sizeof options, .unit_items = ITEMS / 16 };
    const struct muster_job_desc desc = { .size = sizeof desc,
                                          .items = ITEMS,
                                          .pipeline = pipeline,
                                          .input = in,
                                          .output = out,
                                          .options = &options };
    memset(out, 0, ITEMS * sizeof *out);
    muster_status status = muster_start(m, &desc, &job, &err);
    if (status == MUSTER_OK)
        status = muster_job_wait(job, NULL, &err);
    muster_job_destroy(job);
    if (status != MUSTER_OK)
        say_lines();
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "the pipeline ends with %s: %s", muster_status_name(status),
                  err.text);
    for (uint32_t i = 0; status == MUSTER_OK && i < ITEMS; i++)
        if (out[i] != mix(in[i]))
            test_fail(__FILE__, __LINE__, "item %u of the pipeline is wrong", i);
}

/* Of the runtime's memory, which helpers map too. */
static uint32_t *take_shared(struct muster *m)
{
    void *memory = NULL;
    muster_device device;
    CHECK_STATUS(MUSTER_OK, muster_device_find(m, "cpu:0", &device, NULL));
    CHECK_STATUS(MUSTER_OK,
                 muster_host_allocate(m, device, ITEMS * sizeof(uint32_t), &memory, NULL));
    return memory;
}

static void work_survives_kills(void)
{
    const char *wanted = getenv("MUSTER_TEST_KILLS");
    struct platform_thread thread = { .started = false };
    uint32_t *in = malloc(ITEMS * sizeof *in), *out = malloc(ITEMS * sizeof *out);
    for (uint32_t i = 0; i < ITEMS; i++)
        in[i] = i * 2654435761u;
    killer.wanted = wanted ? (uint32_t)strtoul(wanted, NULL, 10) : KILLS_DEFAULT;
    CHECK_STATUS(MUSTER_OK,
                 platform_thread_start(&thread, kill_helpers, NULL, "killer", NULL, NULL));
    while (atomic_load(&killer.kills) < killer.wanted) {
        atomic_store(&killer.now, 0);
        struct muster *m = open_runtime();
        struct muster_kernel *kernel = NULL;
        struct muster_error err;
        const struct muster_kernel_form form = { .size = sizeof form,
                                                 .kind = MUSTER_KERNEL_PORTABLE,
                                                 .code = source,
                                                 .code_bytes = sizeof source - 1,
                                                 .entry = "mix" };
        CHECK_STATUS(MUSTER_OK, muster_kernel_from(m, "mix", &form, 1, &kernel, &err));
        struct muster_pipeline *pipeline = make_pipeline(m, kernel);
        uint32_t *shared_in = take_shared(m), *shared_out = take_shared(m);
        memcpy(shared_in, in, ITEMS * sizeof *in);
        for (int round = 0; round < 4 || (atomic_load(&killer.now) < RESTARTS &&
                                          atomic_load(&killer.kills) < killer.wanted);
             round++) {
            run_job(m, kernel, in, out);
            run_tasks(m, kernel, in, out);
            run_pipeline(m, pipeline, in, out);
            run_job(m, kernel, shared_in, shared_out);
            run_tasks(m, kernel, shared_in, shared_out);
            run_pipeline(m, pipeline, shared_in, shared_out);
        }
        muster_pipeline_destroy(pipeline);
        muster_kernel_destroy(kernel);
        muster_status status = muster_close(m, &err);
        if (status != MUSTER_OK)
            test_fail(__FILE__, __LINE__, "closing ends with %s: %s", muster_status_name(status),
                      err.text);
    }
    atomic_store(&killer.is_over, true);
    platform_thread_join(&thread);
    /* Nobody is left behind. */
    int pids[8];
    CHECK_EQUAL(0, find_helpers(pids, 8));
    free(in);
    free(out);
}

/* Whether the process is there, and no zombie. */
static bool is_there(int pid)
{
    char path[64], line[256] = "", state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (file && fgets(line, sizeof line, file))
        sscanf(line, "%*d (%*[^)]) %c", &state);
    if (file)
        fclose(file);
    return state != 'Z';
}

/* A program that works until it is killed. Says first which helpers it has. */
static void work_for_ever(int to)
{
    int helpers[8];
    struct muster *m = open_runtime();
    struct muster_kernel *kernel = NULL;
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = source,
                                             .code_bytes = sizeof source - 1,
                                             .entry = "mix" };
    muster_kernel_from(m, "mix", &form, 1, &kernel, NULL);
    uint32_t *in = take_shared(m), *out = take_shared(m);
    if (find_helpers(helpers, 8) != 1)
        helpers[0] = 0;
    (void)!write(to, helpers, sizeof *helpers);
    for (;;)
        run_job(m, kernel, in, out);
}

/*
 * A program that is killed leaves no helper: it sees its parent's end of the pipe go. All memory is of files without a
 * name, which goes with the last process that has it.
 */
static void a_dead_parent_leaves_nothing(void)
{
    struct random random;
    random_init(&random, test_seed());
    for (unsigned round = 0; round < (unsigned)TEST_BY_SANITIZER(8, 3, 3); round++) {
        int numbers[2], helper = 0;
        CHECK(pipe(numbers) == 0);
        int pid = fork();
        if (pid == 0)
            work_for_ever(numbers[1]);
        CHECK(read(numbers[0], &helper, sizeof helper) == sizeof helper);
        CHECK(helper > 0 && is_there(helper));
        const struct timespec pause = { 0, (long)(random_next(&random) % 20000000) };
        nanosleep(&pause, NULL);
        CHECK(kill(pid, SIGKILL) == 0);
        uint64_t begin_ns = platform_clock_ns();
        while (is_there(helper) && platform_clock_ns() - begin_ns < test_patience(SECOND_NS))
            platform_thread_yield();
        CHECK(!is_there(helper));
        CHECK(waitpid(pid, NULL, 0) == pid);
        close(numbers[0]);
        close(numbers[1]);
    }
}

static const struct test tests[] = {
    TEST(work_survives_kills),
    TEST(a_dead_parent_leaves_nothing),
};

int main(int argc, char **argv)
{
    /* Without MUSTER_HELPER the program is its own helper. */
    int served = muster_helper_main(argc, argv);
    if (served >= 0)
        return served;
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
