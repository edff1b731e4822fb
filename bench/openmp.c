/*
 * Kernels on the processors of this machine beside the same loops by gcc's OpenMP.
 *
 *     openmp [--repetitions N] [--json FILE]
 *
 * Ours is muster_for, start to end, over arrays in plain memory. The peer is
 * `#pragma omp parallel for simd`, in this file, which is compiled with -O3 -march=native
 * -ffp-contract=off. Beside them is the kernel's compiled function alone, called once on each core
 * with its share of the items: what the loop over the items costs without the rest of Muster. The
 * raw limit of a row is the time that its bytes take at the rate at which all cores read or update
 * memory, or its multiply-adds at the rate of a loop that does nothing else, whichever is longer. All
 * take turns, with a pause in between: OpenMP's threads spin for a while after a loop.
 */
#include "jobs.h"

#include "base/allocator.h"
#include "kernel/build.h"
#include "platform/file.h"
#include "platform/machine.h"

#include <omp.h>

#define COEFFICIENTS 65
#define STEPS 200u
#define PAUSE_US 10000
/* A run that is shorter says little about a loop. */
#define RUN_NS_MIN 500000.0
#define TARGET 1.05

static float *x, *y_ours, *y_peer, *y_alone;
static float a = 0.9991f, coefficients[COEFFICIENTS];
static uint32_t length = STEPS;
static volatile uint64_t sunk;
static volatile float sunk_float;

/* The loops by hand. */

static void peer_saxpy(uint64_t items, float *y)
{
    float factor = a;
    const float *from = x;
#pragma omp parallel for simd
    for (uint64_t i = 0; i < items; i++)
        y[i] = factor * from[i] + y[i];
}

static void peer_scale(uint64_t items, float *y)
{
    float factor = a;
    const float *from = x;
#pragma omp parallel for simd
    for (uint64_t i = 0; i < items; i++)
        y[i] = factor * from[i];
}

static void peer_polynomial(uint64_t items, float *y)
{
    const float *from = x, *c = coefficients;
#pragma omp parallel for simd
    for (uint64_t i = 0; i < items; i++) {
        float value = from[i], sum = c[64];
        for (int k = 63; k >= 0; k--)
            sum = sum * value + c[k];
        y[i] = sum;
    }
}

static void peer_constant(uint64_t items, float *y)
{
    float factor = a;
    const float *from = x;
#pragma omp parallel for simd
    for (uint64_t i = 0; i < items; i++) {
        float value = from[i];
        for (int k = 0; k < 200; k++)
            value = value * factor + 0.5f;
        y[i] = value;
    }
}

static void peer_runtime(uint64_t items, float *y)
{
    float factor = a;
    uint32_t steps = length;
    const float *from = x;
#pragma omp parallel for simd
    for (uint64_t i = 0; i < items; i++) {
        float value = from[i];
        for (uint32_t k = 0; k < steps; k++)
            value = value * factor + 0.5f;
        y[i] = value;
    }
}

/* What is measured. */

enum arguments { WITH_FACTOR, WITH_COEFFICIENTS, WITH_LENGTH };

static const struct row {
    const char *what, *entry;
    void (*peer)(uint64_t items, float *y);
    uint64_t items;
    enum arguments arguments;
    bool is_updated;     /* y is read too */
    double bytes, steps; /* of an item: moved, and multiply-adds */
} rows[] = {
    { "saxpy, y is read and written", "saxpy", peer_saxpy, 32000000, WITH_FACTOR, true, 12, 1 },
    { "scale, y is written", "scale", peer_scale, 32000000, WITH_FACTOR, false, 8, 1 },
    { "polynomial of degree 64", "polynomial", peer_polynomial, 16000000, WITH_COEFFICIENTS, false,
      8, 64 },
    { "200 multiply-adds, constant", "constant", peer_constant, 8000000, WITH_FACTOR, false, 8,
      STEPS },
    { "200 multiply-adds, at run time", "runtime", peer_runtime, 2000000, WITH_LENGTH, false, 8,
      STEPS },
};
#define ITEMS_MAX ((uint64_t)32000000)

struct subject {
    const struct bench *bench;
    const struct row *row;
    struct muster *m;
    struct muster_kernel *kernel;
    struct kernel_image image; /* the same, compiled, to be called directly */
    muster_data data;          /* the coefficients */
};

static void run_ours(const struct subject *of)
{
    const struct row *row = of->row;
    struct muster_error err;
    struct muster_arg args[4];
    size_t count = 0;
    if (row->arguments == WITH_COEFFICIENTS)
        args[count++] = (struct muster_arg)MUSTER_ALL(of->data);
    else
        args[count++] = (struct muster_arg)MUSTER_VALUE(a);
    if (row->arguments == WITH_LENGTH)
        args[count++] = (struct muster_arg)MUSTER_VALUE(length);
    args[count++] = (struct muster_arg)MUSTER_IN(x);
    if (row->is_updated)
        args[count++] = (struct muster_arg)MUSTER_INOUT(y_ours);
    else
        args[count++] = (struct muster_arg)MUSTER_OUT(y_ours);
    if (muster_for(of->m, of->kernel, row->items, args, count, NULL, NULL, &err) != MUSTER_OK)
        stop(of->bench, err.text);
}

static void run_alone(const struct subject *of)
{
    const struct row *row = of->row;
    muster_kernel_function function =
        of->image.form.apart ? of->image.form.apart : of->image.form.function;
    void *from = x, *to = y_alone, *c = coefficients, *args[4];
    size_t count = 0;
    args[count++] = row->arguments == WITH_COEFFICIENTS ? (void *)&c : (void *)&a;
    if (row->arguments == WITH_LENGTH)
        args[count++] = &length;
    args[count++] = &from;
    args[count++] = &to;
#pragma omp parallel
    {
        uint64_t threads = (uint64_t)omp_get_num_threads(), me = (uint64_t)omp_get_thread_num();
        function(row->items * me / threads, row->items * (me + 1) / threads, args);
    }
}

static void run_peer(const struct subject *of)
{
    of->row->peer(of->row->items, y_peer);
}

/* The raw limits. */

/* Bytes a second that all cores move together, where they only read or also write. */
static double memory_rate(void)
{
    const uint64_t *words = (const uint64_t *)(const void *)x, count = ITEMS_MAX / 2;
    uint64_t sum = 0, *updated = (uint64_t *)(void *)y_alone, begin_ns = clock_ns();
#pragma omp parallel for simd reduction(+ : sum)
    for (uint64_t i = 0; i < count; i++)
        sum += words[i];
    sunk = sum;
    uint64_t middle_ns = clock_ns();
#pragma omp parallel for simd
    for (uint64_t i = 0; i < count; i++)
        updated[i] += 1;
    double reads = (double)count * 8e9 / (double)(middle_ns - begin_ns),
           updates = (double)count * 16e9 / (double)(clock_ns() - middle_ns);
    return reads > updates ? reads : updates;
}

#define LANES 16
#define CHAINS 12
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

/* Multiply-adds a second of all cores together, with enough of them that depend on no other. */
static double step_rate(void)
{
    enum { ROUNDS = 1000000 };
    double steps = 0;
    float sum = 0;
    uint64_t begin_ns = clock_ns();
#pragma omp parallel reduction(+ : steps, sum)
    {
        lanes chains[CHAINS], factor = (lanes){ 0 } + a;
        for (int c = 0; c < CHAINS; c++)
            chains[c] = (lanes){ 0 } + (float)c;
        for (int r = 0; r < ROUNDS; r++)
            for (int c = 0; c < CHAINS; c++)
                chains[c] = chains[c] * factor + 0.5f;
        for (int c = 0; c < CHAINS; c++)
            sum += chains[c][0];
        steps += (double)ROUNDS * CHAINS * LANES;
    }
    sunk_float = sum;
    return steps * 1e9 / (double)(clock_ns() - begin_ns);
}

/* One run of one of them, in ns, not counting what comes before. */
static double measure(const struct subject *of, void (*run)(const struct subject *), float *y)
{
    uint64_t items = of->row->items;
#pragma omp parallel for simd
    for (uint64_t i = 0; i < items; i++)
        y[i] = (float)(i & 1023);
    usleep(PAUSE_US);
    uint64_t begin_ns = clock_ns();
    run(of);
    double ns = (double)(clock_ns() - begin_ns);
    if (ns < RUN_NS_MIN)
        stop(of->bench, "a run was too short to say anything");
    return ns;
}

static bool measure_row(struct bench *bench, const struct subject *of)
{
    static const struct {
        void (*run)(const struct subject *);
        float **y;
    } ways[] = { { run_ours, &y_ours }, { run_peer, &y_peer }, { run_alone, &y_alone } };
    enum { WAYS = sizeof ways / sizeof *ways };
    static double ns[WAYS][REPETITIONS_MAX], ratios[REPETITIONS_MAX], alone[REPETITIONS_MAX];
    const struct row *row = of->row;
    double bytes_per_s = 0, steps_per_s = 0;
    bool is_equal = true;
    for (int r = -1; r < bench->repetitions; r++) { /* the first is a warm-up */
        double bytes_once = memory_rate(), steps_once = step_rate();
        bytes_per_s = bytes_once > bytes_per_s ? bytes_once : bytes_per_s;
        steps_per_s = steps_once > steps_per_s ? steps_once : steps_per_s;
        for (int w = 0; w < WAYS; w++) {
            int way = (w + r + 1) % WAYS;
            double one = measure(of, ways[way].run, *ways[way].y);
            if (r >= 0)
                ns[way][r] = one;
        }
        size_t bytes = row->items * sizeof *x;
        is_equal =
            is_equal && memcmp(y_ours, y_peer, bytes) == 0 && memcmp(y_alone, y_peer, bytes) == 0;
    }
    for (int r = 0; r < bench->repetitions; r++) {
        ratios[r] = ns[0][r] / ns[1][r];
        alone[r] = ns[2][r] / ns[1][r];
    }
    double memory_ns = (double)row->items * row->bytes * 1e9 / bytes_per_s,
           arithmetic_ns = (double)row->items * row->steps * 1e9 / steps_per_s,
           limit_ns = memory_ns > arithmetic_ns ? memory_ns : arithmetic_ns;
    struct sample ours = summarise(ns[0], bench->repetitions),
                  peer = summarise(ns[1], bench->repetitions),
                  kernel = summarise(ns[2], bench->repetitions),
                  ratio = summarise(ratios, bench->repetitions),
                  kernel_ratio = summarise(alone, bench->repetitions);
    printf("%-31s %7.2f (%.2f-%.2f)  %7.2f (%.2f-%.2f)  %6.3f (%.3f-%.3f)  %-6s %6.3f "
           "(%.3f-%.3f)  %7.2f %-10s %s\n",
           row->what, ours.median / 1e6, ours.least / 1e6, ours.greatest / 1e6, peer.median / 1e6,
           peer.least / 1e6, peer.greatest / 1e6, ratio.median, ratio.least, ratio.greatest,
           verdict(ratio.median <= TARGET), kernel_ratio.median, kernel_ratio.least,
           kernel_ratio.greatest, limit_ns / 1e6,
           memory_ns > arithmetic_ns ? "memory" : "arithmetic", is_equal ? "equal" : "DIFFER");
    row_begin(bench, row->what);
    row_number(bench, "items", (double)row->items);
    row_sample(bench, "ours_ns", ours);
    row_sample(bench, "openmp_ns", peer);
    row_sample(bench, "kernel_ns", kernel);
    row_sample(bench, "ratio", ratio);
    row_sample(bench, "kernel_ratio", kernel_ratio);
    row_number(bench, "raw_ns", limit_ns);
    row_text(bench, "limited_by", memory_ns > arithmetic_ns ? "memory" : "arithmetic");
    row_number(bench, "target", TARGET);
    row_text(bench, "verdict", verdict(ratio.median <= TARGET));
    row_text(bench, "bits", is_equal ? "equal" : "DIFFER");
    row_end(bench);
    return is_equal;
}

#define FILE_NAME MUSTER_BENCH_KERNELS "/arrays.c"

/* The row's kernel, for jobs and to be called. */
static void open_kernel(struct subject *of)
{
    static const struct kernel_target functions = { MUSTER_KERNEL_FUNCTION, { 0, 0 }, false };
    struct muster_error err;
    char *source;
    size_t bytes;
    if (muster_kernel_load(of->m, FILE_NAME, of->row->entry, &of->kernel, &err) != MUSTER_OK ||
        platform_file_read(&platform_heap, FILE_NAME, 1 << 20, &source, &bytes, &err) != MUSTER_OK)
        stop(of->bench, err.text);
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = source,
                                             .code_bytes = bytes,
                                             .entry = of->row->entry };
    if (kernel_build(&form, &functions, &platform_heap, &of->image, &err) != MUSTER_OK)
        stop(of->bench, err.text);
    allocator_give(&platform_heap, source, bytes + 1, 1);
}

static float *take(const struct bench *bench)
{
    float *memory = aligned_alloc(64, ITEMS_MAX * sizeof *memory);
    if (!memory)
        stop(bench, "out of memory");
#pragma omp parallel for simd
    for (uint64_t i = 0; i < ITEMS_MAX; i++)
        memory[i] = (float)(i % 2003) * 1e-3f - 1.0f;
    return memory;
}

int main(int argc, char **argv)
{
    struct bench bench;
    struct muster_error err;
    bool is_equal = true;
    bench_begin(&bench, "openmp", 11, argc, argv);
    x = take(&bench);
    y_ours = take(&bench);
    y_peer = take(&bench);
    y_alone = take(&bench);
    for (int k = 0; k < COEFFICIENTS; k++)
        coefficients[k] = 1.0f / (float)(k + 1);
    printf(
        "gcc %s, OpenMP with %d threads\n"
        "median (least-greatest) of %d, ms; kernel: its function alone / OpenMP; raw: at the best "
        "rate in these runs\ntarget: ours / OpenMP <= %.2f\n\n%-31s %-22s  %-22s  %-28s  %-20s  "
        "%-18s bits\n",
        __VERSION__, omp_get_max_threads(), bench.repetitions, TARGET, "", "ours", "OpenMP",
        "ours / OpenMP", "kernel", "raw limit");
    struct subject of = { .bench = &bench, .m = open_runtime(&bench, "cpu", NULL) };
    if (muster_data_create(of.m, coefficients, sizeof coefficients, 0, &of.data, &err) != MUSTER_OK)
        stop(&bench, err.text);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        of.row = &rows[i];
        open_kernel(&of);
        is_equal = measure_row(&bench, &of) && is_equal;
        kernel_image_release(&of.image, &platform_heap);
        muster_kernel_destroy(of.kernel);
    }
    muster_data_destroy(of.m, of.data, NULL);
    muster_close(of.m, NULL);
    free(x);
    free(y_ours);
    free(y_peer);
    free(y_alone);
    int code = bench_end(&bench);
    return is_equal ? code : 1;
}
