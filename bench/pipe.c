/*
 * Host, kernel, host: units of pinned memory go to a CUDA device, through a kernel that adds one to
 * each word, and back. Ours is a job with a sink; the raw limit is three streams of the driver's, in
 * turn, from the same run.
 *
 *     pipe [--device ID] [--bytes N] [--repetitions N] [--json FILE]
 */
#include "report.h"

#include <dlfcn.h>

#define STREAMS 3
#define SIZES 6
#define DEPTH 4

static const uint64_t sizes[SIZES] = { 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20 };
/* What a unit must reach of the raw limit; below a megabyte, all of it. */
static const double targets[SIZES] = { 1, 1, 0.97, 0.97, 0.97, 0 };

static const char ours_source[] = "MUSTER_KERNEL void add(uint64_t i, MUSTER_GLOBAL const uint32_t "
                                  "*in, MUSTER_GLOBAL uint32_t *out)\n"
                                  "{\n"
                                  "    out[i] = in[i] + 1;\n"
                                  "}\n";

static const char raw_ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry add(.param .u64 words, .param .u64 count)\n"
    "{\n"
    "    .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %d<6>;\n"
    "    ld.param.u64 %d1, [words]; ld.param.u64 %d2, [count];\n"
    "    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    "    mad.lo.s32 %r1, %r1, %r2, %r3; cvt.u64.u32 %d3, %r1;\n"
    "    setp.ge.u64 %p, %d3, %d2; @%p ret;\n"
    "    shl.b64 %d4, %d3, 2; add.s64 %d4, %d1, %d4;\n"
    "    ld.global.u32 %r4, [%d4]; add.u32 %r4, %r4, 1; st.global.u32 [%d4], %r4; ret;\n"
    "}\n";

static struct bench bench = { .name = "pipe", .repetitions = 5 };
static struct muster_error problem;

/* The driver, as far as the raw limit needs it. */
static struct {
    int (*synchronize)(void *), (*copy_in)(uint64_t, const void *, size_t, void *),
        (*copy_out)(void *, uint64_t, size_t, void *),
        (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **);
    void *function, *streams[STREAMS];
    uint64_t memory[STREAMS];
    void *out[STREAMS];
} raw;

#define NEED(pointer, name)                                                                        \
    do {                                                                                           \
        void *symbol = dlsym(library, name);                                                       \
        if (!symbol)                                                                               \
            stop(&bench, "the driver lacks " name);                                                \
        memcpy(&(pointer), &symbol, sizeof symbol);                                                \
    } while (0)

static void raw_open(int number)
{
    int (*init)(unsigned), (*retain)(void **, int), (*set_current)(void *),
        (*stream_create)(void **, unsigned), (*load)(void **, const void *),
        (*get_function)(void **, void *, const char *), (*allocate)(uint64_t *, size_t),
        (*allocate_host)(void **, size_t, unsigned);
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context, *module;
    if (!library)
        stop(&bench, "there is no libcuda.so.1");
    NEED(init, "cuInit");
    NEED(retain, "cuDevicePrimaryCtxRetain");
    NEED(set_current, "cuCtxSetCurrent");
    NEED(stream_create, "cuStreamCreate");
    NEED(load, "cuModuleLoadData");
    NEED(get_function, "cuModuleGetFunction");
    NEED(allocate, "cuMemAlloc_v2");
    NEED(allocate_host, "cuMemHostAlloc");
    NEED(raw.synchronize, "cuStreamSynchronize");
    NEED(raw.copy_in, "cuMemcpyHtoDAsync_v2");
    NEED(raw.copy_out, "cuMemcpyDtoHAsync_v2");
    NEED(raw.launch, "cuLaunchKernel");
    bool is_good = init(0) == 0 && retain(&context, number) == 0 && set_current(context) == 0 &&
                   load(&module, raw_ptx) == 0 && get_function(&raw.function, module, "add") == 0;
    for (int i = 0; i < STREAMS && is_good; i++)
        is_good = stream_create(&raw.streams[i], 1) == 0 &&
                  allocate(&raw.memory[i], sizes[SIZES - 1]) == 0 &&
                  allocate_host(&raw.out[i], sizes[SIZES - 1], 0) == 0;
    if (!is_good)
        stop(&bench, "the driver refused what the raw limit needs");
}

/* Bytes a second, each way. */
static double raw_rate(const char *in, uint64_t bytes, uint64_t unit)
{
    uint64_t begin_ns = clock_ns(), count = unit / 4;
    for (uint64_t at = 0, i = 0; at + unit <= bytes; at += unit, i++) {
        void *stream = raw.streams[i % STREAMS];
        void *parameters[] = { &raw.memory[i % STREAMS], &count };
        if (raw.synchronize(stream) != 0 ||
            raw.copy_in(raw.memory[i % STREAMS], in + at, unit, stream) != 0 ||
            raw.launch(raw.function, (unsigned)((count + 255) / 256), 1, 1, 256, 1, 1, 0, stream,
                       parameters, NULL) != 0 ||
            raw.copy_out(raw.out[i % STREAMS], raw.memory[i % STREAMS], unit, stream) != 0)
            stop(&bench, "the driver refused work");
    }
    for (int i = 0; i < STREAMS; i++)
        raw.synchronize(raw.streams[i]);
    return (double)(bytes / unit * unit) * 1e9 / (double)(clock_ns() - begin_ns);
}

struct ours {
    struct muster *m;
    struct muster_kernel *kernel;
    const char *device;
    uint32_t *in;
    uint64_t wrong;
};

static muster_status look(void *user, const struct muster_result *result)
{
    struct ours *ours = user;
    const uint32_t *out = result->outputs[0];
    uint64_t items = result->range.end - result->range.begin;
    ours->wrong += out[0] != ours->in[result->range.begin] + 1 ||
                   out[items - 1] != ours->in[result->range.end - 1] + 1;
    return MUSTER_OK;
}

/* From the first unit on: what a job needs before it is a row of its own. */
static double ours_rate(struct ours *ours, uint64_t bytes, uint64_t unit, double *startup_ms)
{
    struct muster_arg args[] = { MUSTER_IN(ours->in),
                                 { .kind = MUSTER_ARG_OUT, .bytes = sizeof *ours->in } };
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .kernel = ours->kernel,
                                    .items = bytes / 4,
                                    .args = args,
                                    .arg_count = 2,
                                    .sink = look,
                                    .sink_user = ours,
                                    .options = { .size = sizeof desc.options,
                                                 .devices = ours->device,
                                                 .unit_items = unit / 4,
                                                 .depth = DEPTH } };
    struct muster_report report = { .size = sizeof report };
    struct muster_job *job;
    if (muster_start(ours->m, &desc, &job, &problem) != MUSTER_OK ||
        muster_job_wait(job, &report, &problem) != MUSTER_OK)
        stop(&bench, problem.text);
    muster_job_destroy(job);
    *startup_ms = (double)report.startup_ns / 1e6;
    return (double)bytes * 1e9 / (double)(report.makespan_ns - report.startup_ns);
}

static void measure(struct ours *ours, uint64_t bytes, int size)
{
    double mine[REPETITIONS_MAX], limit[REPETITIONS_MAX], ratios[REPETITIONS_MAX], startup_ms = 0;
    uint64_t unit = sizes[size], used = unit < (1 << 20) ? bytes / 4 : bytes;
    for (int i = -1; i < bench.repetitions; i++) {
        double a = ours_rate(ours, used, unit, &startup_ms);
        double b = raw_rate((const char *)ours->in, used, unit);
        if (i < 0)
            continue; /* to warm up */
        mine[i] = a / 1e9;
        limit[i] = b / 1e9;
        ratios[i] = a / b;
    }
    struct sample m = summarise(mine, bench.repetitions), l = summarise(limit, bench.repetitions),
                  r = summarise(ratios, bench.repetitions);
    printf("%6llu KiB  %6.1f (%.1f-%.1f)  %6.1f (%.1f-%.1f)  %5.3f  %s; start-up %.1f ms\n",
           (unsigned long long)(unit >> 10), m.median, m.least, m.greatest, l.median, l.least,
           l.greatest, r.median,
           targets[size] <= 0          ? "no target"
           : r.median >= targets[size] ? "met"
                                       : "MISSED",
           startup_ms);
    fflush(stdout);
    if (bench.json)
        fprintf(bench.json,
                "%s\n  {\"unit_bytes\": %llu, \"ours_gb_per_s\": %.3f, \"raw_gb_per_s\": %.3f, "
                "\"ratio\": %.4f, \"target\": %.2f, \"startup_ms\": %.2f}",
                size > 0 ? "," : "", (unsigned long long)unit, m.median, l.median, r.median,
                targets[size], startup_ms);
}

int main(int argc, char **argv)
{
    struct ours ours = { .device = "cuda:0" };
    uint64_t bytes = UINT64_C(2) << 30;
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--device") == 0)
            ours.device = value;
        else if (strcmp(argv[i], "--bytes") == 0)
            bytes = strtoull(value, NULL, 0);
        else if (strcmp(argv[i], "--repetitions") == 0)
            bench.repetitions = atoi(value);
        else if (strcmp(argv[i], "--json") == 0)
            bench.json = fopen(value, "w");
        else
            bytes = 0;
    }
    if (bytes < 4 * sizes[SIZES - 1] || bench.repetitions < REPETITIONS_MIN ||
        bench.repetitions > REPETITIONS_MAX || strncmp(ours.device, "cuda:", 5) != 0) {
        fprintf(stderr,
                "usage: pipe [--device cuda:N] [--bytes N] [--repetitions N] [--json FILE]\n");
        return 2;
    }
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = ours.device;
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = ours_source,
                                             .code_bytes = sizeof ours_source - 1,
                                             .entry = "add" };
    muster_device device;
    void *in;
    if (muster_open(&ours.m, &options, &problem) != MUSTER_OK ||
        muster_device_find(ours.m, ours.device, &device, &problem) != MUSTER_OK) {
        /* No GPU is no failure of the bench's. */
        printf("pipe: not measured: %s\n", problem.text);
        muster_close(ours.m, NULL);
        return 0;
    }
    if (muster_kernel_from(ours.m, "add", &form, 1, &ours.kernel, &problem) != MUSTER_OK ||
        muster_host_allocate(ours.m, device, bytes, &in, &problem) != MUSTER_OK)
        stop(&bench, problem.text);
    ours.in = in;
    for (uint64_t i = 0; i < bytes / 4; i++)
        ours.in[i] = (uint32_t)i;
    raw_open(atoi(ours.device + 5));
    printf("host -> kernel -> host, pinned, %llu MiB, commit %s; GB/s each way, median (least-"
           "greatest) of %d\n    unit    ours                raw, 3 streams      ratio  target\n",
           (unsigned long long)(bytes >> 20), MUSTER_COMMIT, bench.repetitions);
    if (bench.json)
        fprintf(bench.json, "{\"bench\": \"pipe\", \"commit\": \"%s\", \"rows\": [", MUSTER_COMMIT);
    for (int size = 0; size < SIZES; size++)
        measure(&ours, bytes, size);
    if (bench.json) {
        fprintf(bench.json, "\n], \"wrong\": %llu}\n", (unsigned long long)ours.wrong);
        fclose(bench.json);
    }
    muster_close(ours.m, NULL);
    return ours.wrong > 0;
}
