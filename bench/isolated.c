/*
 * What a helper process costs: a device in one beside the same device in the program, in turn and in one run.
 *
 *     isolated [--devices ID] [--bytes N] [--repetitions N] [--rows NAME,...] [--json FILE]
 *
 * Rows: job, pipeline (GB/s over arrays of N bytes, from memory of muster_host_allocate and from the program's own),
 * stream (empty kernel tasks, one call each), batch (250 in a call), wait (one, and wait for it), open (muster_open until
 * the device is there), restart (from kill -9 of the helper to the end of the next task), idle (processor time of both
 * processes while there is nothing to do).
 *
 * The raw limit of `wait` is a pair of processes by hand: this program as `isolated --raw ID` has a plain runtime, and
 * does one task whenever a word in shared memory is raised; it looks as long as our helper does before it sleeps. The exit
 * status tells whether it could measure, not whether targets are met.
 */
#include "report.h"

#include <dirent.h>
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define TASKS 40000
#define BATCH 250
#define WAITS 4000
#define LOOK_NS 30000u
#define IDLE_S 1.0
#define JOB_TARGET 0.97
#define STREAM_TARGET_US 2.0
#define BATCH_TARGET_US 0.05
#define WAIT_TARGET 1.3
#define OPEN_TARGET_MS 20.0
#define IDLE_TARGET 0.01

static struct bench bench = { .name = "isolated", .repetitions = 5 };

static struct options {
    const char *devices, *rows, *json;
    uint64_t bytes;
} options = { .devices = "cpu:0", .bytes = UINT64_C(128) << 20 };

static struct muster_error problem;

static const char source[] =
    "MUSTER_KERNEL void change(uint64_t i, MUSTER_GLOBAL const uint32_t *in, MUSTER_GLOBAL "
    "uint32_t *out)\n"
    "{\n"
    "    out[i] = (in[i] ^ in[i] >> 7) * 1664525u + 1013904223u;\n"
    "}\n"
    "MUSTER_KERNEL void nothing(uint64_t i, uint64_t a, uint32_t b)\n"
    "{\n"
    "    (void)i, (void)a, (void)b;\n"
    "}\n";

static uint32_t change(uint32_t word)
{
    return (word ^ word >> 7) * 1664525u + 1013904223u;
}

/* A runtime with the device, in a helper or not. */
struct side {
    struct muster *m;
    muster_device device;
    struct muster_kernel *change, *nothing;
    struct muster_pipeline *pipeline;
    uint32_t *in, *out; /* muster_host_allocate's */
};

static struct muster_kernel *make_kernel(struct muster *m, const char *entry)
{
    struct muster_kernel *kernel;
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = source,
                                             .code_bytes = sizeof source - 1,
                                             .entry = entry };
    if (muster_kernel_from(m, entry, &form, 1, &kernel, &problem) != MUSTER_OK)
        stop(&bench, problem.text);
    return kernel;
}

static void make_pipeline(struct side *side)
{
    enum { IN, D_IN, D_OUT, OUT, BUFFERS };
    const struct muster_buffer buffers[BUFFERS] = {
        [IN] = { sizeof *buffers, "in", MUSTER_HOST, 4, 0, 4, MUSTER_INPUT },
        [D_IN] = { sizeof *buffers, "d_in", MUSTER_DEVICE, 4, 0, 4, 0 },
        [D_OUT] = { sizeof *buffers, "d_out", MUSTER_DEVICE, 4, 0, 4, 0 },
        [OUT] = { sizeof *buffers, "out", MUSTER_HOST, 4, 0, 4, MUSTER_OUTPUT },
    };
    const struct muster_stage stages[] = {
        { sizeof *stages, "up", "h2d", 1u << IN, 1u << D_IN, .flags = MUSTER_COPY },
        { sizeof *stages, "change", "compute", 1u << D_IN, 1u << D_OUT, .kernel = side->change },
        { sizeof *stages, "down", "d2h", 1u << D_OUT, 1u << OUT, .flags = MUSTER_COPY },
    };
    if (muster_pipeline_create(side->m, buffers, BUFFERS, stages, 3, NULL, &side->pipeline,
                               &problem) != MUSTER_OK)
        stop(&bench, problem.text);
}

static void side_open(struct side *side, bool is_isolated)
{
    struct muster_options with = MUSTER_OPTIONS_INIT;
    with.devices = options.devices;
    /* "": not even where the variable says so. */
    with.isolate = is_isolated ? "all" : "";
    with.log_level = MUSTER_LOG_ERROR;
    if (muster_open(&side->m, &with, &problem) != MUSTER_OK ||
        muster_device_find(side->m, options.devices, &side->device, &problem) != MUSTER_OK)
        stop(&bench, problem.text);
}

static void side_prepare(struct side *side)
{
    void *in, *out;
    side->change = make_kernel(side->m, "change");
    side->nothing = make_kernel(side->m, "nothing");
    make_pipeline(side);
    if (muster_host_allocate(side->m, side->device, options.bytes, &in, &problem) != MUSTER_OK ||
        muster_host_allocate(side->m, side->device, options.bytes, &out, &problem) != MUSTER_OK)
        stop(&bench, problem.text);
    side->in = in;
    side->out = out;
}

static void side_close(struct side *side)
{
    muster_pipeline_destroy(side->pipeline);
    muster_kernel_destroy(side->change);
    muster_kernel_destroy(side->nothing);
    if (side->in) {
        muster_host_free(side->m, side->in, NULL);
        muster_host_free(side->m, side->out, NULL);
    }
    if (muster_close(side->m, &problem) != MUSTER_OK)
        stop(&bench, problem.text);
    *side = (struct side){ .m = NULL };
}

/* ---- GB/s, both directions together. ---- */

static void fill(uint32_t *in)
{
    for (uint64_t i = 0; i < options.bytes / 4; i++)
        in[i] = (uint32_t)i * 2654435761u;
}

static double rate(const struct side *side, bool is_pipeline, const uint32_t *in, uint32_t *out)
{
    uint64_t items = options.bytes / 4;
    const struct muster_arg args[] = { MUSTER_IN(in), MUSTER_OUT(out) };
    memset(out, 0, 4096);
    struct muster_job_desc desc = { .size = sizeof desc, .items = items };
    struct muster_job *job;
    uint64_t begin_ns = clock_ns();
    if (is_pipeline) {
        desc.pipeline = side->pipeline;
        desc.input = in;
        desc.output = out;
    } else {
        desc.kernel = side->change;
        desc.args = args;
        desc.arg_count = 2;
    }
    if (muster_start(side->m, &desc, &job, &problem) != MUSTER_OK ||
        muster_job_wait(job, NULL, &problem) != MUSTER_OK)
        stop(&bench, problem.text);
    double seconds = (double)(clock_ns() - begin_ns) / 1e9;
    muster_job_destroy(job);
    for (uint64_t i = 0; i < items; i += items / 1000 + 1)
        if (out[i] != change(in[i]))
            stop(&bench, "a result is wrong");
    return 2 * (double)options.bytes / seconds / 1e9;
}

/* Of two samples that were taken in turn: theirs, the ratio of each turn, and what is wanted of that. */
static void report_pair(const char *what, const char *unit, double *plain, double *isolated,
                        double target, bool is_ratio)
{
    double values[REPETITIONS_MAX];
    for (int i = 0; i < bench.repetitions; i++)
        values[i] = is_ratio ? isolated[i] / plain[i] : isolated[i] - plain[i];
    struct sample a = summarise(plain, bench.repetitions);
    struct sample b = summarise(isolated, bench.repetitions);
    struct sample of = summarise(values, bench.repetitions);
    bool is_met = is_ratio ? of.median >= target : of.median <= target;
    const char *judged = target != 0 ? verdict(is_met) : "no target";
    printf("%-24s %9.3f (%.3f-%.3f)  %9.3f (%.3f-%.3f) %-5s %s%8.3f  %s\n", what, a.median, a.least,
           a.greatest, b.median, b.least, b.greatest, unit, is_ratio ? "x" : "+", of.median,
           judged);
    row_begin(&bench, what);
    row_sample(&bench, "plain", a);
    row_sample(&bench, "isolated", b);
    row_sample(&bench, is_ratio ? "ratio" : "more", of);
    row_text(&bench, "unit", unit);
    if (target != 0)
        row_number(&bench, "target", target);
    row_text(&bench, "verdict", judged);
    row_end(&bench);
}

static void measure_rates(struct side *sides, bool is_pipeline, bool is_own)
{
    double values[2][REPETITIONS_MAX];
    uint32_t *own[2] = { NULL, NULL };
    if (is_own) {
        for (int i = 0; i < 2; i++)
            if (!(own[i] = malloc(options.bytes)))
                stop(&bench, "no memory for the arrays");
        fill(own[0]);
        memset(own[1], 0, options.bytes);
    }
    for (int i = -2; i < bench.repetitions; i++) /* the first are to warm up */
        for (int s = 0; s < 2; s++)
            values[s][i < 0 ? 0 : i] = rate(&sides[s], is_pipeline, is_own ? own[0] : sides[s].in,
                                            is_own ? own[1] : sides[s].out);
    char what[64];
    snprintf(what, sizeof what, "%s, %s memory", is_pipeline ? "pipeline" : "job",
             is_own ? "own" : "Muster's");
    report_pair(what, "GB/s", values[0], values[1], is_own ? 0 : JOB_TARGET, true);
    free(own[0]);
    free(own[1]);
}

/* ---- Tasks. ---- */

struct call {
    struct muster_task_desc descs[BATCH];
    struct muster_arg args[BATCH][2];
    uint64_t a[BATCH];
    uint32_t b[BATCH];
};

static void prepare(const struct side *side, struct call *call)
{
    for (int i = 0; i < BATCH; i++) {
        call->a[i] = (uint64_t)i;
        call->args[i][0] = (struct muster_arg)MUSTER_VALUE(call->a[i]);
        call->args[i][1] = (struct muster_arg)MUSTER_VALUE(call->b[i]);
        call->descs[i] = (struct muster_task_desc){ .size = sizeof *call->descs,
                                                    .kernel = side->nothing,
                                                    .args = call->args[i],
                                                    .arg_count = 2,
                                                    .items = 1 };
    }
}

/* Microseconds a task. */
static double many(const struct side *side, int each)
{
    static struct call call;
    prepare(side, &call);
    uint64_t begin_ns = clock_ns();
    for (int i = 0; i < TASKS; i += each)
        if (muster_submit(side->m, call.descs, (size_t)each, NULL, &problem) != MUSTER_OK)
            stop(&bench, problem.text);
    if (muster_wait(side->m, NULL, 0, UINT64_MAX, &problem) != MUSTER_OK)
        stop(&bench, problem.text);
    return (double)(clock_ns() - begin_ns) / 1e3 / TASKS;
}

static bool one_task(const struct side *side)
{
    static struct call call;
    muster_task task;
    prepare(side, &call);
    return muster_submit(side->m, call.descs, 1, &task, &problem) == MUSTER_OK &&
           muster_wait(side->m, &task, 1, UINT64_MAX, &problem) == MUSTER_OK;
}

static double waited(const struct side *side)
{
    uint64_t begin_ns = clock_ns();
    for (int i = 0; i < WAITS; i++)
        if (!one_task(side))
            stop(&bench, problem.text);
    return (double)(clock_ns() - begin_ns) / 1e3 / WAITS;
}

static void measure_tasks(struct side *sides, const char *what, int each, double target)
{
    double values[2][REPETITIONS_MAX];
    for (int i = -1; i < bench.repetitions; i++)
        for (int s = 0; s < 2; s++)
            values[s][i < 0 ? 0 : i] = many(&sides[s], each);
    report_pair(what, "us", values[0], values[1], target, false);
}

/* ---- A pair of processes by hand. ---- */

struct pair {
    _Atomic uint32_t asked, done, is_over;
};

static void sleep_on(_Atomic uint32_t *word, uint32_t seen)
{
    uint64_t begin_ns = clock_ns();
    while (atomic_load(word) == seen && clock_ns() - begin_ns < LOOK_NS)
        sched_yield();
    while (atomic_load(word) == seen)
        syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

static void raise_word(_Atomic uint32_t *word)
{
    atomic_fetch_add(word, 1);
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* The other process: the shared words are its descriptor 3. */
static int serve_raw(const char *devices)
{
    struct side side = { .m = NULL };
    options.devices = devices;
    struct pair *pair = mmap(NULL, sizeof *pair, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
    if (pair == MAP_FAILED)
        return 1;
    side_open(&side, false);
    side.nothing = make_kernel(side.m, "nothing");
    bool is_well = one_task(&side);
    for (uint32_t seen = 0; is_well && !atomic_load(&pair->is_over); seen++) {
        raise_word(&pair->done);
        sleep_on(&pair->asked, seen);
        is_well = one_task(&side);
    }
    side_close(&side);
    return !is_well;
}

static int start_raw(struct pair **pair)
{
    int file = memfd_create("isolated-raw", 0);
    if (file < 0 || ftruncate(file, sizeof **pair) != 0)
        stop(&bench, "no shared memory");
    *pair = mmap(NULL, sizeof **pair, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    int pid = fork();
    if (pid == 0) {
        dup2(file, 3);
        execl("/proc/self/exe", "isolated", "--raw", options.devices, (char *)NULL);
        _exit(127);
    }
    close(file);
    sleep_on(&(*pair)->done, 0);
    return pid;
}

static double raw_waited(struct pair *pair)
{
    uint64_t begin_ns = clock_ns();
    for (int i = 0; i < WAITS; i++) {
        uint32_t seen = atomic_load(&pair->done);
        raise_word(&pair->asked);
        sleep_on(&pair->done, seen);
    }
    return (double)(clock_ns() - begin_ns) / 1e3 / WAITS;
}

static void measure_wait(struct side *sides)
{
    double values[3][REPETITIONS_MAX], ratios[REPETITIONS_MAX];
    struct pair *pair;
    int pid = start_raw(&pair), status;
    for (int i = -1; i < bench.repetitions; i++) {
        int at = i < 0 ? 0 : i;
        values[0][at] = waited(&sides[0]);
        values[1][at] = waited(&sides[1]);
        values[2][at] = raw_waited(pair);
        ratios[at] = values[1][at] / values[2][at];
    }
    atomic_store(&pair->is_over, 1);
    raise_word(&pair->asked);
    waitpid(pid, &status, 0);
    munmap(pair, sizeof *pair);
    struct sample samples[3], ratio = summarise(ratios, bench.repetitions);
    for (int s = 0; s < 3; s++)
        samples[s] = summarise(values[s], bench.repetitions);
    const char *judged = verdict(ratio.median <= WAIT_TARGET);
    printf("%-24s %9.3f (%.3f-%.3f)  %9.3f (%.3f-%.3f) us    raw pair %.3f (%.3f-%.3f), x%8.3f of "
           "it  %s\n",
           "submit and wait", samples[0].median, samples[0].least, samples[0].greatest,
           samples[1].median, samples[1].least, samples[1].greatest, samples[2].median,
           samples[2].least, samples[2].greatest, ratio.median, judged);
    row_begin(&bench, "submit and wait");
    row_sample(&bench, "plain", samples[0]);
    row_sample(&bench, "isolated", samples[1]);
    row_sample(&bench, "raw", samples[2]);
    row_sample(&bench, "ratio_raw", ratio);
    row_text(&bench, "unit", "us");
    row_number(&bench, "target", WAIT_TARGET);
    row_text(&bench, "verdict", judged);
    row_end(&bench);
}

/* ---- Helpers come and go. ---- */

static void measure_open(void)
{
    double values[2][REPETITIONS_MAX];
    for (int i = -1; i < bench.repetitions; i++)
        for (int s = 0; s < 2; s++) {
            struct side side = { .m = NULL };
            uint64_t begin_ns = clock_ns();
            side_open(&side, s == 1);
            values[s][i < 0 ? 0 : i] = (double)(clock_ns() - begin_ns) / 1e6;
            side_close(&side);
        }
    report_pair("open", "ms", values[0], values[1],
                strncmp(options.devices, "cpu", 3) == 0 ? OPEN_TARGET_MS : 0, false);
}

/* The helper among this process's children; 0: none. */
static int find_helper(void)
{
    int found = 0;
    DIR *folder = opendir("/proc");
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry && !found;
         entry = readdir(folder)) {
        char path[300], line[512], name[64], state;
        int parent = 0;
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *file = atoi(entry->d_name) > 0 ? fopen(path, "r") : NULL;
        if (!file)
            continue;
        if (fgets(line, sizeof line, file) &&
            sscanf(line, "%*d (%63[^)]) %c %d", name, &state, &parent) == 3 && parent == getpid() &&
            state != 'Z' && strncmp(name, "muster-", 7) == 0)
            found = atoi(entry->d_name);
        fclose(file);
    }
    if (folder)
        closedir(folder);
    return found;
}

static void report_limit(const char *what, const char *unit, double *values, double target)
{
    struct sample of = summarise(values, bench.repetitions);
    const char *judged = target > 0 ? verdict(of.median <= target) : "no target";
    printf("%-24s %35s %9.3f (%.3f-%.3f) %-5s %s\n", what, "", of.median, of.least, of.greatest,
           unit, judged);
    row_begin(&bench, what);
    row_sample(&bench, "isolated", of);
    row_text(&bench, "unit", unit);
    if (target > 0)
        row_number(&bench, "target", target);
    row_text(&bench, "verdict", judged);
    row_end(&bench);
}

static void measure_restart(void)
{
    double values[REPETITIONS_MAX];
    bool is_cpu = strncmp(options.devices, "cpu", 3) == 0;
    for (int i = 0; i < bench.repetitions; i++) {
        /* One of its own: a device is started again three times a minute. */
        struct side side = { .m = NULL };
        side_open(&side, true);
        side.nothing = make_kernel(side.m, "nothing");
        if (!one_task(&side))
            stop(&bench, problem.text);
        int helper = find_helper();
        uint64_t begin_ns = clock_ns();
        if (helper == 0 || kill(helper, SIGKILL) != 0)
            stop(&bench, "there is no helper");
        /* A task that the old helper still takes is run again in the next one; then the old one is gone. */
        while (!one_task(&side) || kill(helper, 0) == 0)
            if (clock_ns() - begin_ns > UINT64_C(10000000000))
                stop(&bench, "the device does not come back");
        values[i] = (double)(clock_ns() - begin_ns) / 1e6;
        side_close(&side);
    }
    report_limit("restart", "ms", values,
                 is_cpu                                     ? 50
                 : strncmp(options.devices, "cuda", 4) == 0 ? 500
                                                            : 0);
}

/* Of all threads of the process, in nanoseconds. */
static double cpu_ns(int pid)
{
    char path[64];
    double total = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
        char file_path[400];
        unsigned long long ran;
        snprintf(file_path, sizeof file_path, "%s/%s/schedstat", path, entry->d_name);
        FILE *file = entry->d_name[0] != '.' ? fopen(file_path, "r") : NULL;
        if (file && fscanf(file, "%llu", &ran) == 1)
            total += (double)ran;
        if (file)
            fclose(file);
    }
    if (folder)
        closedir(folder);
    return total;
}

static void measure_idle(void)
{
    double values[REPETITIONS_MAX];
    struct side side = { .m = NULL };
    side_open(&side, true);
    side.nothing = make_kernel(side.m, "nothing");
    if (!one_task(&side))
        stop(&bench, problem.text);
    int helper = find_helper();
    for (int i = 0; i < bench.repetitions; i++) {
        const struct timespec pause = { (time_t)IDLE_S, 0 };
        double before = cpu_ns(getpid()) + cpu_ns(helper);
        uint64_t begin_ns = clock_ns();
        nanosleep(&pause, NULL);
        values[i] =
            100 * (cpu_ns(getpid()) + cpu_ns(helper) - before) / (double)(clock_ns() - begin_ns);
    }
    side_close(&side);
    report_limit("idle, of one core", "%", values, 100 * IDLE_TARGET);
}

static bool wants(const char *row)
{
    size_t length = strlen(row);
    for (const char *at = options.rows; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && strncmp(at, row, length) == 0)
            return true;
    return !options.rows;
}

static bool read_options(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--devices") == 0)
            options.devices = value;
        else if (strcmp(argv[i], "--bytes") == 0)
            options.bytes = strtoull(value, NULL, 0) / 4096 * 4096;
        else if (strcmp(argv[i], "--rows") == 0)
            options.rows = value;
        else if (strcmp(argv[i], "--repetitions") == 0)
            bench.repetitions = atoi(value);
        else if (strcmp(argv[i], "--json") == 0)
            options.json = value;
        else
            return false;
    }
    return argc % 2 == 1 && options.bytes >= 1 << 20 && bench.repetitions >= REPETITIONS_MIN &&
           bench.repetitions <= REPETITIONS_MAX;
}

int main(int argc, char **argv)
{
    int served = muster_helper_main(argc, argv);
    if (served >= 0)
        return served;
    if (argc == 3 && strcmp(argv[1], "--raw") == 0)
        return serve_raw(argv[2]);
    if (!read_options(argc, argv)) {
        fprintf(
            stderr,
            "usage: isolated [--devices ID] [--bytes N] [--rows NAME,...] [--repetitions %d-%d] "
            "[--json FILE]\n",
            REPETITIONS_MIN, REPETITIONS_MAX);
        return 2;
    }
    bench_open(&bench, options.json);
    printf("%s, %llu MiB an array\n%-24s %-25s  %-25s\n", options.devices,
           (unsigned long long)(options.bytes >> 20), "", "plain", "isolated");
    if (wants("open"))
        measure_open();
    if (wants("restart"))
        measure_restart();
    if (wants("idle"))
        measure_idle();
    struct side sides[2] = { { .m = NULL }, { .m = NULL } };
    for (int s = 0; s < 2; s++) {
        side_open(&sides[s], s == 1);
        side_prepare(&sides[s]);
        fill(sides[s].in);
    }
    for (int kind = 0; kind < 2; kind++)
        for (int own = 0; own < 2; own++)
            if (wants(kind ? "pipeline" : "job"))
                measure_rates(sides, kind, own);
    if (wants("stream"))
        measure_tasks(sides, "tasks, one a call", 1, STREAM_TARGET_US);
    if (wants("batch"))
        measure_tasks(sides, "tasks, 250 a call", BATCH, BATCH_TARGET_US);
    if (wants("wait"))
        measure_wait(sides);
    for (int s = 0; s < 2; s++)
        side_close(&sides[s]);
    return bench_end(&bench);
}
