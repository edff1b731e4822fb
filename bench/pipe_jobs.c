/*
 * Two jobs at once on one device: each runs the pipeline of words.h, or the same as a job with a kernel,
 * over as many words as the other, started together. Held against one job alone that does all of them, and against a raw program with
 * two threads (limit.h), in turn and in the same run.
 *
 *     pipe_jobs [--device ID] [--bytes N] [--unit N] [--slots N] [--repetitions N] [--json FILE]
 *
 * Without --unit, units of 256 KiB, 1, 4 and 16 MiB.
 */
#include "words.h"

#define SIZES 4

static const uint64_t sizes[SIZES] = { 256 << 10, 1 << 20, 4 << 20, 16 << 20 };

static struct bench bench = { .name = "pipe_jobs", .repetitions = 5 };

static struct options {
    const char *device, *json;
    uint64_t bytes, unit; /* unit 0: all sizes */
    uint32_t slots;
} options = { .device = "cuda:0", .bytes = UINT64_C(2) << 30, .slots = 4 };

/* What two jobs reach of one alone. */
#define TARGET 0.95

enum figure { TWO, ALONE, RAW_TWO, OF_ALONE, OF_RAW, SHARE, CORES, RAW_CORES, FIGURES };
static const char *const figure_keys[FIGURES] = { "ours",      "alone",  "raw",   "ratio_alone",
                                                  "ratio_raw", "slower", "cores", "raw_cores" };

static struct words words;
static struct limit limit;
static struct limit_lane lanes[2];
static uint32_t *in;

/* Both from the beginning of the first to the end of the last; `slower`: what it got of the mean. */
static double run_two(const struct words_plan *plan, double *slower, double *cores)
{
    struct words_run runs[2];
    struct words_plan half = *plan;
    half.bytes = plan->bytes / 2;
    for (int i = 0; i < 2; i++)
        words_start(&runs[i], &words, &half);
    for (int i = 0; i < 2; i++)
        words_wait(&runs[i]);
    uint64_t begin_ns = words_begin_ns(&runs[0]), end_ns = runs[0].last_ns;
    if (words_begin_ns(&runs[1]) < begin_ns)
        begin_ns = words_begin_ns(&runs[1]);
    if (runs[1].last_ns > end_ns)
        end_ns = runs[1].last_ns;
    double rates[2] = { words_rate(&runs[0]), words_rate(&runs[1]) };
    *slower = (rates[0] < rates[1] ? rates[0] : rates[1]) * 2 / (rates[0] + rates[1]);
    *cores = (words_cores(&runs[0]) + words_cores(&runs[1])) / 2;
    for (int i = 0; i < 2; i++)
        words_end(&runs[i]);
    return (double)plan->bytes * 1e9 / (double)(end_ns - begin_ns);
}

static void measure(uint64_t unit, bool is_kernel_job)
{
    static double values[FIGURES][REPETITIONS_MAX];
    struct sample samples[FIGURES];
    struct words_plan plan = { .in = in,
                               .bytes = options.bytes / (2 * unit) * (2 * unit),
                               .unit = unit,
                               .is_kernel_job = is_kernel_job };
    for (int i = -1; i < bench.repetitions; i++) { /* the first is to warm up */
        struct words_run run;
        int at = i < 0 ? 0 : i;
        values[ALONE][at] = words_measure(&words, &plan, &run) / 1e9;
        values[TWO][at] = run_two(&plan, &values[SHARE][at], &values[CORES][at]) / 1e9;
        struct limit_result raw = limit_run_two(lanes, in, plan.bytes, unit);
        values[RAW_TWO][at] = raw.bytes_per_s / 1e9;
        values[RAW_CORES][at] = raw.cores;
        values[OF_ALONE][at] = values[TWO][at] / values[ALONE][at];
        values[OF_RAW][at] = values[TWO][at] / values[RAW_TWO][at];
    }
    for (int i = 0; i < FIGURES; i++)
        samples[i] = summarise(values[i], bench.repetitions);
    const char *judged = limit.is_cuda ? verdict(samples[OF_ALONE].median >= TARGET) : "no target";
    printf("%-8s %6llu KiB  %6.1f (%.1f-%.1f)  %6.1f (%.1f-%.1f)  %6.1f (%.1f-%.1f)  %9.3f  %-9s  "
           "%7.3f  %6.3f  %5.1f  %4.1f\n",
           is_kernel_job ? "kernel" : "pipeline", (unsigned long long)(unit >> 10),
           samples[TWO].median, samples[TWO].least, samples[TWO].greatest, samples[ALONE].median,
           samples[ALONE].least, samples[ALONE].greatest, samples[RAW_TWO].median,
           samples[RAW_TWO].least, samples[RAW_TWO].greatest, samples[OF_ALONE].median, judged,
           samples[OF_RAW].median, samples[SHARE].median, samples[CORES].median,
           samples[RAW_CORES].median);
    row_begin(&bench, "two jobs");
    row_text(&bench, "kind", is_kernel_job ? "kernel" : "pipeline");
    row_number(&bench, "unit_bytes", (double)unit);
    if (limit.is_cuda)
        row_number(&bench, "target", TARGET);
    row_text(&bench, "verdict", judged);
    for (int i = 0; i < FIGURES; i++)
        row_sample(&bench, figure_keys[i], samples[i]);
    row_end(&bench);
}

static bool read_options(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--device") == 0)
            options.device = value;
        else if (strcmp(argv[i], "--bytes") == 0)
            options.bytes = strtoull(value, NULL, 0);
        else if (strcmp(argv[i], "--unit") == 0)
            options.unit = strtoull(value, NULL, 0) / WORD * WORD;
        else if (strcmp(argv[i], "--slots") == 0)
            options.slots = (uint32_t)strtoul(value, NULL, 0);
        else if (strcmp(argv[i], "--repetitions") == 0)
            bench.repetitions = atoi(value);
        else if (strcmp(argv[i], "--json") == 0)
            options.json = value;
        else
            return false;
    }
    uint64_t largest = options.unit > 0 ? options.unit : sizes[SIZES - 1];
    return argc % 2 == 1 && options.bytes / 8 >= largest && bench.repetitions >= REPETITIONS_MIN &&
           bench.repetitions <= REPETITIONS_MAX;
}

int main(int argc, char **argv)
{
    if (!read_options(argc, argv)) {
        fprintf(stderr, "usage: pipe_jobs [--device ID] [--bytes N] [--unit N] [--slots N] "
                        "[--repetitions N] [--json FILE]\n"
                        "The bytes are at least eight units.\n");
        return 2;
    }
    if (!words_open(&words, &bench, options.device, 0, options.slots)) {
        /* No GPU is no failure of the bench's. */
        printf("pipe_jobs: not measured: %s\n", words_problem.text);
        return 0;
    }
    bench_open(&bench, options.json);
    in = words_array(&words, options.bytes, true);
    limit_open(&limit, &bench, &words.info, 0);
    for (int i = 0; i < 2; i++)
        limit_lane_open(&lanes[i], &limit, options.unit > 0 ? options.unit : sizes[SIZES - 1]);
    printf(
        "two jobs at once on %s, pinned, %llu MiB together, %u slots each; GB/s each way, median "
        "(least-greatest) of %d\n"
        "jobs           unit  ours, both          ours, one alone     raw, two threads    of alone "
        " "
        "target      of raw  slower  cores  raw\n",
        options.device, (unsigned long long)(options.bytes >> 20), options.slots,
        bench.repetitions);
    for (int is_kernel_job = 0; is_kernel_job < 2; is_kernel_job++) {
        for (int size = 0; size < SIZES; size++)
            if (options.unit == 0)
                measure(sizes[size], is_kernel_job);
        if (options.unit > 0)
            measure(options.unit, is_kernel_job);
    }
    printf("slower: the rate of the slower job, of the mean of both\n");
    for (int i = 0; i < 2; i++)
        limit_lane_close(&lanes[i]);
    limit_close(&limit);
    words_close(&words);
    return bench_end(&bench);
}
