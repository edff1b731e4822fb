/*
 * What a task with a kernel costs: an empty kernel with values that differ from task to task, on one
 * device; one at a time, 64 in a call, and one with its result waited for.
 *
 *     kernel_tasks [--device ID] [--repetitions N] [--json FILE]
 *
 * On a CUDA device the raw limit is measured in the same run, through the driver alone and in turn
 * with ours: the same kernel launched in a loop on one stream and on several, 64 of them as a graph,
 * and a launch with a wait. A target that is a multiple of the raw limit is held against the median
 * of the rounds' ratios, since the two are slow and fast together.
 * The exit status tells whether it could measure, not whether targets are met.
 */
#include "peers.h"

#include <dlfcn.h>
#include <errno.h>
#include <muster/muster.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifndef MUSTER_COMMIT
#define MUSTER_COMMIT "unknown"
#endif

/* In a round, of which there are many: what disturbs the machine lasts longer than one. */
#define TASKS 4096
#define WAITS 512
#define BATCH 64
_Static_assert(TASKS % BATCH == 0, "a round is whole calls");
#define STREAMS 4
#define REPETITIONS 31
#define REPETITIONS_MIN 3 /* below that there is no spread to speak of */
#define REPETITIONS_MAX 301

/* One kernel for all: begin, items, and two values. The second entry does many at once. */
static const char ptx[] = ".version 7.0\n"
                          ".target sm_75\n"
                          ".address_size 64\n"
                          ".visible .entry nothing(.param .u64 begin, .param .u64 items,\n"
                          "                        .param .u64 a, .param .u32 b) { ret; }\n"
                          ".visible .entry muster_batch_nothing(.param .u64 records,\n"
                          "                                     .param .u32 count) { ret; }\n";

static void stop(const char *what)
{
    fprintf(stderr, "kernel_tasks: %s\n", what);
    exit(1);
}

/* Ours. */

struct ours {
    struct muster *m;
    struct muster_kernel *kernel;
};

static muster_status nothing(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end, (void)args;
    return MUSTER_OK;
}

static void ours_open(struct ours *ours, const char *device)
{
    const struct muster_kernel_form forms[] = {
        { .size = sizeof *forms, .kind = MUSTER_KERNEL_FUNCTION, .function = nothing },
        { .size = sizeof *forms,
          .kind = MUSTER_KERNEL_PTX,
          .code = ptx,
          .code_bytes = sizeof ptx - 1,
          .entry = "nothing",
          .threads = 32 },
    };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster_error err;
    muster_device found;
    options.devices = device;
    if (muster_open(&ours->m, &options, &err) != MUSTER_OK ||
        muster_device_find(ours->m, device, &found, &err) != MUSTER_OK ||
        muster_kernel_from(ours->m, "nothing", forms, 2, &ours->kernel, &err) != MUSTER_OK)
        stop(err.text);
}

/* Tasks with values of their own, for one call. */
struct call {
    struct muster_task_desc descs[BATCH];
    struct muster_arg args[BATCH][2];
    uint64_t a[BATCH];
    uint32_t b[BATCH];
};

static void prepare(const struct ours *ours, struct call *call)
{
    for (int i = 0; i < BATCH; i++) {
        call->args[i][0] = (struct muster_arg)MUSTER_VALUE(call->a[i]);
        call->args[i][1] = (struct muster_arg)MUSTER_VALUE(call->b[i]);
        call->descs[i] = (struct muster_task_desc){
            .size = sizeof *call->descs,
            .kernel = ours->kernel,
            .args = call->args[i],
            .arg_count = 2,
            .items = 1,
        };
    }
}

static double ours_many(const struct ours *ours, int each)
{
    static struct call call;
    struct muster_error err;
    prepare(ours, &call);
    double begin = now_ns();
    for (int i = 0; i < TASKS; i += each) {
        for (int k = 0; k < each; k++) {
            call.a[k] = (uint64_t)(i + k);
            call.b[k] = (uint32_t)(i + k);
        }
        if (muster_submit(ours->m, call.descs, (size_t)each, NULL, &err) != MUSTER_OK)
            stop(err.text);
    }
    if (muster_wait(ours->m, NULL, 0, UINT64_MAX, &err) != MUSTER_OK)
        stop(err.text);
    return (now_ns() - begin) / TASKS;
}

static double ours_waited(const struct ours *ours)
{
    static struct call call;
    struct muster_error err;
    muster_task task;
    prepare(ours, &call);
    double begin = now_ns();
    for (int i = 0; i < WAITS; i++) {
        call.a[0] = (uint64_t)i;
        if (muster_submit(ours->m, call.descs, 1, &task, &err) != MUSTER_OK ||
            muster_wait(ours->m, &task, 1, UINT64_MAX, &err) != MUSTER_OK)
            stop(err.text);
    }
    return (now_ns() - begin) / WAITS;
}

/* Raw: what is needed of the driver, by its own names. */

struct kernel_node {
    void *function;
    unsigned grid[3], block[3], shared_bytes;
    void **parameters, **extra;
    void *kernel, *context;
};

struct raw {
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **);
    int (*synchronize)(void *);
    int (*graph_launch)(void *, void *);
    void *streams[STREAMS], *function, *graph; /* `graph` NULL: there are none */
};

static void *need(void *library, const char *name)
{
    void *function = dlsym(library, name);
    if (!function)
        stop(name);
    return function;
}

#define NEED(pointer, name)                                                                        \
    do {                                                                                           \
        void *found_ = need(library, name);                                                        \
        memcpy(&(pointer), &found_, sizeof found_);                                                \
    } while (0)

/* A graph of as many kernels as one of our calls has, all independent. */
static void raw_make_graph(struct raw *raw, void *library)
{
    int (*create)(void **, unsigned);
    int (*add)(void **, void *, const void *const *, size_t, const struct kernel_node *);
    int (*instantiate)(void **, void *, unsigned long long);
    if (!dlsym(library, "cuGraphAddKernelNode_v2") ||
        !dlsym(library, "cuGraphInstantiateWithFlags") || !dlsym(library, "cuGraphLaunch"))
        return;
    NEED(create, "cuGraphCreate");
    NEED(add, "cuGraphAddKernelNode_v2");
    NEED(instantiate, "cuGraphInstantiateWithFlags");
    NEED(raw->graph_launch, "cuGraphLaunch");
    void *graph, *node;
    if (create(&graph, 0) != 0)
        stop("cuGraphCreate");
    for (int i = 0; i < BATCH; i++) {
        uint64_t begin = 0, items = 1, a = (uint64_t)i;
        uint32_t b = (uint32_t)i;
        void *parameters[] = { &begin, &items, &a, &b };
        const struct kernel_node what = { .function = raw->function,
                                          .grid = { 1, 1, 1 },
                                          .block = { 32, 1, 1 },
                                          .parameters = parameters };
        if (add(&node, graph, NULL, 0, &what) != 0)
            stop("cuGraphAddKernelNode");
    }
    if (instantiate(&raw->graph, graph, 0) != 0)
        stop("cuGraphInstantiateWithFlags");
}

static void raw_open(struct raw *raw, int number)
{
    int (*init)(unsigned), (*device_get)(int *, int), (*retain)(void **, int);
    int (*set_current)(void *), (*stream_create)(void **, unsigned, int);
    int (*module_load)(void **, const void *, unsigned, void *, void *),
        (*get_function)(void **, void *, const char *);
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context, *module;
    int device;
    if (!library)
        stop(dlerror());
    NEED(init, "cuInit");
    NEED(device_get, "cuDeviceGet");
    NEED(retain, "cuDevicePrimaryCtxRetain");
    NEED(set_current, "cuCtxSetCurrent");
    NEED(stream_create, "cuStreamCreateWithPriority");
    NEED(module_load, "cuModuleLoadDataEx");
    NEED(get_function, "cuModuleGetFunction");
    NEED(raw->launch, "cuLaunchKernel");
    NEED(raw->synchronize, "cuStreamSynchronize");
    if (init(0) != 0 || device_get(&device, number) != 0 || retain(&context, device) != 0 ||
        set_current(context) != 0 || module_load(&module, ptx, 0, NULL, NULL) != 0 ||
        get_function(&raw->function, module, "nothing") != 0)
        stop("the driver refused what the raw limit needs");
    for (int i = 0; i < STREAMS; i++)
        if (stream_create(&raw->streams[i], 1, 0) != 0)
            stop("cuStreamCreateWithPriority");
    raw_make_graph(raw, library);
}

static void raw_launch(const struct raw *raw, int i, int stream_count)
{
    uint64_t begin = 0, items = 1, a = (uint64_t)i;
    uint32_t b = (uint32_t)i;
    void *parameters[] = { &begin, &items, &a, &b };
    if (raw->launch(raw->function, 1, 1, 1, 32, 1, 1, 0, raw->streams[i % stream_count], parameters,
                    NULL) != 0)
        stop("cuLaunchKernel");
}

static void raw_wait(const struct raw *raw)
{
    for (int i = 0; i < STREAMS; i++)
        if (raw->synchronize(raw->streams[i]) != 0)
            stop("cuStreamSynchronize");
}

static double raw_many(const struct raw *raw, int stream_count)
{
    double begin = now_ns();
    for (int i = 0; i < TASKS; i++)
        raw_launch(raw, i, stream_count);
    raw_wait(raw);
    return (now_ns() - begin) / TASKS;
}

static double raw_graphs(const struct raw *raw)
{
    double begin = now_ns();
    for (int i = 0; i < TASKS / BATCH; i++)
        if (raw->graph_launch(raw->graph, raw->streams[0]) != 0)
            stop("cuGraphLaunch");
    raw_wait(raw);
    return (now_ns() - begin) / TASKS;
}

static double raw_waited(const struct raw *raw)
{
    double begin = now_ns();
    for (int i = 0; i < WAITS; i++) {
        raw_launch(raw, i, 1);
        if (raw->synchronize(raw->streams[0]) != 0)
            stop("cuStreamSynchronize");
    }
    return (now_ns() - begin) / WAITS;
}

/* The table. */

/* What is measured in each round; the ratio of the two is sorted by itself. */
enum party { OURS, RAW, PARTIES, RATIO = PARTIES, FIGURES };

struct row {
    const char *what, *kind;
    double target_us, target_of_raw; /* 0: none */
    bool has_raw;
    double values[FIGURES][REPETITIONS_MAX];
};

static double measure(const struct row *row, enum party party, const struct ours *ours,
                      const struct raw *raw)
{
    if (strcmp(row->kind, "wait") == 0)
        return party == OURS ? ours_waited(ours) : raw_waited(raw);
    if (strcmp(row->kind, "batch") == 0)
        return party == OURS ? ours_many(ours, BATCH) : raw_graphs(raw);
    return party == OURS ? ours_many(ours, 1)
                         : raw_many(raw, strcmp(row->kind, "streams") == 0 ? STREAMS : 1);
}

static double median(const struct row *row, enum party figure, int count)
{
    return (row->values[figure][(count - 1) / 2] + row->values[figure][count / 2]) / 2;
}

/* "-" where there is nothing to compare with. */
static const char *verdict(const struct row *row, int count)
{
    if (!row->has_raw || (row->target_us <= 0 && row->target_of_raw <= 0))
        return "-";
    bool is_met = row->target_of_raw > 0 ? median(row, RATIO, count) <= row->target_of_raw
                                         : median(row, OURS, count) <= row->target_us;
    return is_met ? "met" : "MISSED";
}

static void print_row(const struct row *row, int count)
{
    printf("%-34s", row->what);
    for (int figure = 0; figure < FIGURES; figure++) {
        char text[64] = "-";
        if (figure == OURS || row->has_raw)
            snprintf(text, sizeof text, "%.3f (%.3f-%.3f)", median(row, (enum party)figure, count),
                     row->values[figure][0], row->values[figure][count - 1]);
        printf("  %-22s", text);
    }
    if (row->target_of_raw > 0)
        printf("  %.3g of raw, %s\n", row->target_of_raw, verdict(row, count));
    else if (row->target_us > 0)
        printf("  %.3g us, %s\n", row->target_us, verdict(row, count));
    else
        printf("  -\n");
}

static bool write_json(const char *path, const char *host, const char *commit, const char *device,
                       int count, const struct row *rows, size_t row_count)
{
    FILE *file = fopen(path, "w");
    if (!file) {
        fprintf(stderr, "kernel_tasks: %s: %s\n", path, strerror(errno));
        return false;
    }
    fprintf(file,
            "{\"bench\":\"kernel_tasks\",\"host\":\"%s\",\"commit\":\"%s\",\"version\":\"%s\","
            "\"device\":\"%s\",\"repetitions\":%d,\"rows\":[",
            host, commit, muster_version(), device, count);
    for (size_t i = 0; i < row_count; i++) {
        const char *const names[] = { [OURS] = "ours", [RAW] = "raw", [RATIO] = "ratio" };
        fprintf(file, "%s{\"what\":\"%s\",\"unit\":\"us\",", i > 0 ? "," : "", rows[i].what);
        for (int figure = 0; figure < FIGURES; figure++) {
            fprintf(file, "\"%s\":", names[figure]);
            if (figure == OURS || rows[i].has_raw)
                fprintf(file, "{\"median\":%.9g,\"least\":%.9g,\"greatest\":%.9g},",
                        median(&rows[i], (enum party)figure, count), rows[i].values[figure][0],
                        rows[i].values[figure][count - 1]);
            else
                fprintf(file, "null,");
        }
        fprintf(file, "\"target\":%.9g,\"target_of_raw\":%.9g,\"verdict\":\"%s\"}",
                rows[i].target_us, rows[i].target_of_raw, verdict(&rows[i], count));
    }
    fprintf(file, "]}\n");
    bool has_failed = ferror(file) != 0;
    return fclose(file) == 0 && !has_failed;
}

static void take_row(struct row *row, const struct ours *ours, const struct raw *raw, int count)
{
    row->has_raw = raw && (strcmp(row->kind, "batch") != 0 || raw->graph);
    /* Once for nothing: kernels are built, streams opened. */
    measure(row, OURS, ours, raw);
    if (row->has_raw)
        measure(row, RAW, ours, raw);
    for (int i = 0; i < count; i++) {
        /* Each is first as often as the other. */
        for (int turn = 0; turn < PARTIES; turn++) {
            enum party party = (i + turn) % 2 == 0 ? OURS : RAW;
            if (party == OURS || row->has_raw)
                row->values[party][i] = measure(row, party, ours, raw) * 1e-3;
        }
        row->values[RATIO][i] = row->has_raw ? row->values[OURS][i] / row->values[RAW][i] : 0;
    }
    for (int figure = 0; figure < FIGURES; figure++)
        qsort(row->values[figure], (size_t)count, sizeof(double), compare_values);
}

int main(int argc, char **argv)
{
    static struct row rows[] = {
        { .what = "one at a time, us a task", .kind = "one", .target_of_raw = 1.10 },
        { .what = "the same, raw on 4 streams", .kind = "streams" },
        { .what = "64 in a call, us a task", .kind = "batch", .target_us = 0.3 },
        { .what = "submit and wait, us", .kind = "wait", .target_of_raw = 1.1 },
    };
    const size_t row_count = sizeof rows / sizeof *rows;
    int repetitions = REPETITIONS;
    const char *json = NULL, *device = "cpu:0";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--repetitions") == 0)
            repetitions = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--json") == 0)
            json = argv[i + 1];
        else if (strcmp(argv[i], "--device") == 0)
            device = argv[i + 1];
        else
            repetitions = 0;
    }
    if (argc % 2 == 0 || repetitions < REPETITIONS_MIN || repetitions > REPETITIONS_MAX) {
        fprintf(stderr, "usage: kernel_tasks [--device ID] [--repetitions %d-%d] [--json FILE]\n",
                REPETITIONS_MIN, REPETITIONS_MAX);
        return 2;
    }
    struct utsname system;
    struct ours ours;
    struct raw raw = { .graph = NULL };
    bool has_raw = strncmp(device, "cuda:", 5) == 0;
    const char *commit = getenv("MUSTER_COMMIT");
    commit = commit ? commit : MUSTER_COMMIT;
    uname(&system);
    ours_open(&ours, device);
    if (has_raw)
        raw_open(&raw, atoi(device + 5));
    printf("host %s, %ld cores, %s %s, commit %s, muster %s, device %s\n", system.nodename,
           sysconf(_SC_NPROCESSORS_ONLN), system.sysname, system.release, commit, muster_version(),
           device);
    printf("median (least-greatest) of %d rounds; raw: the driver alone%s\n\n", repetitions,
           has_raw ? "" : ", for CUDA devices only");
    printf("%-34s  %-22s  %-22s  %-22s  %s\n", "empty kernels", "ours", "raw", "ours / raw",
           "target, verdict");
    for (size_t i = 0; i < row_count; i++) {
        take_row(&rows[i], &ours, has_raw ? &raw : NULL, repetitions);
        print_row(&rows[i], repetitions);
        fflush(stdout);
    }
    muster_close(ours.m, NULL);
    return json && !write_json(json, system.nodename, commit, device, repetitions, rows, row_count)
               ? 1
               : 0;
}
