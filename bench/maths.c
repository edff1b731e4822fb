/*
 * What the kernels' mathematics cost beside each device's own: glibc's on processors, those of PoCL
 * or a vendor's OpenCL, CUDA's. One kernel calls a function for numbers that it makes itself, once as
 * it is and once with MUSTER_FAST_MATH; time is that of the whole job. On GPUs an item makes many
 * calls, so that results take no time to fetch; on processors each makes one, as kernels do.
 *
 *     maths [--devices LIST] [--repetitions N] [--json FILE]
 */
#include "report.h"

#define ITEMS (UINT64_C(1) << 22)
#define GPU_ITEMS (UINT64_C(1) << 20)
#define TEXT_BYTES 2048
#define WANTED_NS 8000000u /* shorter jobs would measure their start */
#define INPUTS_MAX (1u << 20)

static const struct {
    const char *name, *call;
    float low, high;
} functions[] = {
    { "loop alone", "a", -10, 10 },
    { "exp", "muster_exp(a)", -80, 80 },
    { "exp2", "muster_exp2(a)", -120, 120 },
    { "exp10", "muster_exp10(a)", -35, 35 },
    { "expm1", "muster_expm1(a)", -10, 10 },
    { "log", "muster_log(a)", 1e-6f, 1000 },
    { "log2", "muster_log2(a)", 1e-6f, 1000 },
    { "log10", "muster_log10(a)", 1e-6f, 1000 },
    { "log1p", "muster_log1p(a)", -0.9f, 10 },
    { "sin", "muster_sin(a)", -100, 100 },
    { "cos", "muster_cos(a)", -100, 100 },
    { "tan", "muster_tan(a)", -100, 100 },
    { "sin, large", "muster_sin(a)", -1e30f, 1e30f },
    { "asin", "muster_asin(a)", -1, 1 },
    { "acos", "muster_acos(a)", -1, 1 },
    { "atan", "muster_atan(a)", -10, 10 },
    { "sinh", "muster_sinh(a)", -10, 10 },
    { "cosh", "muster_cosh(a)", -10, 10 },
    { "tanh", "muster_tanh(a)", -5, 5 },
    { "cbrt", "muster_cbrt(a)", -1000, 1000 },
    { "rsqrt", "muster_rsqrt(a)", 1e-6f, 1000 },
    { "erf", "muster_erf(a)", -3, 3 },
    { "round", "muster_round(a)", -1000, 1000 },
    { "rint", "muster_rint(a)", -1000, 1000 },
    { "pow", "muster_pow(muster_fabs(a), b)", 1e-3f, 50 },
    { "atan2", "muster_atan2(a, b)", -10, 10 },
    { "hypot", "muster_hypot(a, b)", -10, 10 },
    { "fmod", "muster_fmod(a, b)", 0.1f, 1000 },
    { "fma", "muster_fma(a, b, a)", -10, 10 },
    { "exp64", "(float)muster_exp64((double)a)", -80, 80 },
    { "log64", "(float)muster_log64((double)a)", 1e-6f, 1000 },
    { "sin64", "(float)muster_sin64((double)a)", -100, 100 },
    { "cos64", "(float)muster_cos64((double)a)", -100, 100 },
    { "pow64", "(float)muster_pow64((double)a, (double)b)", 1e-3f, 50 },
};
#define FUNCTION_COUNT (sizeof functions / sizeof *functions)

static uint32_t out[ITEMS];

static struct muster_kernel *make(const struct bench *bench, struct muster *m, const char *call,
                                  bool is_own, bool is_gpu)
{
    char text[TEXT_BYTES];
    struct muster_error error = { .size = sizeof error };
    struct muster_kernel *kernel;
    int bytes = snprintf(
        text, sizeof text,
        "%s#include <muster_kernel.h>\n"
        "static float number(uint32_t x, float low, float range)\n"
        "{ return low + range * ((float)(int32_t)((x * 0x9e3779b1u) >> 8) * 0x1p-24f); }\n"
        "MUSTER_KERNEL void cost(uint64_t i, float low, float range, uint32_t inputs,\n"
        "                        MUSTER_GLOBAL uint32_t *out)\n"
        "{\n"
        "    uint32_t sum = 0;\n"
        "    %s\n"
        "        uint32_t x = (uint32_t)i * inputs + k;\n"
        "        float a = number(x, low, range), b = number(x + 0x51ed270bu, low, range);\n"
        "        sum ^= muster_float_bits(%s) + (uint32_t)(b != b);\n"
        "    }\n"
        "    out[i] = sum;\n"
        "}\n",
        is_own ? "#define MUSTER_FAST_MATH\n" : "",
        is_gpu ? "for (uint32_t k = 0; k < inputs; k++) {" : "{ uint32_t k = 0;", call);
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = text,
                                             .code_bytes = (size_t)bytes,
                                             .entry = "cost" };
    if (muster_kernel_from(m, "cost", &form, 1, &kernel, &error) != MUSTER_OK)
        stop(bench, error.text);
    return kernel;
}

static uint64_t run(const struct bench *bench, struct muster *m, struct muster_kernel *kernel,
                    const char *device, size_t function, uint64_t items, uint32_t inputs)
{
    float low = functions[function].low, range = functions[function].high - low;
    const struct muster_arg args[] = { MUSTER_VALUE(low), MUSTER_VALUE(range), MUSTER_VALUE(inputs),
                                       MUSTER_OUT(out) };
    const struct muster_run_options options = { .size = sizeof options, .devices = device };
    struct muster_error error = { .size = sizeof error };
    uint64_t begin = clock_ns();
    if (muster_for(m, kernel, items, args, 4, &options, NULL, &error) != MUSTER_OK)
        stop(bench, error.text);
    return clock_ns() - begin;
}

/* Nanoseconds for one call, all of the device working. */
static struct sample measure(const struct bench *bench, struct muster *m, const char *device,
                             size_t function, bool is_own, bool is_gpu)
{
    double values[REPETITIONS_MAX];
    uint32_t inputs = is_gpu ? 8 : 1;
    uint64_t items = is_gpu ? GPU_ITEMS : ITEMS;
    struct muster_kernel *kernel = make(bench, m, functions[function].call, is_own, is_gpu);
    run(bench, m, kernel, device, function, items, inputs); /* compiles */
    while (is_gpu && inputs < INPUTS_MAX &&
           run(bench, m, kernel, device, function, items, inputs) < WANTED_NS)
        inputs *= 2;
    for (int r = 0; r < bench->repetitions; r++)
        values[r] = (double)run(bench, m, kernel, device, function, items, inputs) /
                    ((double)items * inputs);
    muster_kernel_destroy(kernel);
    return summarise(values, bench->repetitions);
}

/* Asked for by name, an OpenCL device is there even if it is a GPU that is listed as CUDA's. */
static struct muster *open_device(const struct bench *bench, const char *device,
                                  struct muster_device_info *info)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster_error error = { .size = sizeof error };
    struct muster *m;
    muster_device found;
    options.devices = device;
    muster_status status = muster_open(&m, &options, &error);
    if (status == MUSTER_OK) {
        status = muster_device_find(m, device, &found, &error);
        if (status == MUSTER_OK)
            status = muster_device_info(m, found, info, &error);
        if (status == MUSTER_OK)
            return m;
        muster_close(m, NULL);
    }
    if (status != MUSTER_E_NOT_FOUND)
        stop(bench, error.text);
    printf("\n%s: not here\n", device);
    return NULL;
}

static void measure_device(struct bench *bench, const char *device)
{
    struct muster_device_info info = { .size = sizeof info };
    struct muster *m = open_device(bench, device, &info);
    if (!m)
        return;
    bool is_gpu = info.kind == MUSTER_KIND_GPU;
    printf("\n%s, %s: ns for one call, the whole device working, median (least-greatest)\n%-12s "
           "%-26s %-26s %s\n",
           device, info.name, "", "the same bits everywhere", "the device's own", "ratio");
    for (size_t f = 0; f < FUNCTION_COUNT; f++) {
        struct sample ours = measure(bench, m, device, f, false, is_gpu);
        struct sample own = measure(bench, m, device, f, true, is_gpu);
        printf("%-12s %8.4f (%.4f-%.4f)   %8.4f (%.4f-%.4f)   %5.2f\n", functions[f].name,
               ours.median, ours.least, ours.greatest, own.median, own.least, own.greatest,
               ours.median / own.median);
        row_begin(bench, functions[f].name);
        row_text(bench, "device", device);
        row_text(bench, "device_name", info.name);
        row_sample(bench, "ns", ours);
        row_sample(bench, "own_ns", own);
        row_end(bench);
    }
    muster_close(m, NULL);
}

int main(int argc, char **argv)
{
    struct bench bench = { .name = "maths", .repetitions = 5 };
    char devices[256] = "cpu:0,opencl:0,cuda:0", *rest = devices;
    const char *json = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--devices") == 0)
            snprintf(devices, sizeof devices, "%s", argv[i + 1]);
        else if (strcmp(argv[i], "--json") == 0)
            json = argv[i + 1];
        else
            bench.repetitions = strcmp(argv[i], "--repetitions") == 0 ? atoi(argv[i + 1]) : 0;
    }
    if (argc % 2 == 0 || bench.repetitions < REPETITIONS_MIN ||
        bench.repetitions > REPETITIONS_MAX) {
        fprintf(stderr, "usage: maths [--devices LIST] [--repetitions %d-%d] [--json FILE]\n",
                REPETITIONS_MIN, REPETITIONS_MAX);
        return 2;
    }
    bench_open(&bench, json);
    for (char *device; (device = strsep(&rest, ","));)
        measure_device(&bench, device);
    return bench_end(&bench);
}
