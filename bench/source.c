/*
 * What a source supplies, beside an array: words go to a device, through a kernel and back to a sink.
 * The source copies them from plain memory, or makes them, in one call at a time and in several at
 * once; the arrays are plain memory, which Muster stages, and pinned memory, which needs no copy. As a
 * pipeline of three stages and as a job with a kernel, in turn and in the same run.
 *
 *     source [--device ID] [--bytes N] [--unit-max N] [--calls-max N] [--repetitions N] [--json FILE]
 */
#include "words.h"

#define SIZES 4
static const uint64_t sizes[SIZES] = { 64 << 10, 1 << 20, 4 << 20, 16 << 20 };

/* The ways in which words come. */
enum way { CALLS_1, CALLS_2, CALLS_4, CALLS_8, MADE_8, PLAIN, PINNED, WAYS };
static const struct {
    const char *name, *key;
    uint32_t calls; /* 0: an array */
    bool is_made;
} ways[WAYS] = { { "1 call", "calls_1", 1, false },     { "2 calls", "calls_2", 2, false },
                 { "4 calls", "calls_4", 4, false },    { "8 calls", "calls_8", 8, false },
                 { "8, made", "made_8", 8, true },      { "plain array", "plain", 0, false },
                 { "pinned array", "pinned", 0, false } };
/* A source of eight calls at once must reach it, at units of a megabyte. */
#define TARGET_BYTES (UINT64_C(1) << 20)
#define TARGET_GB_PER_S 35.0

static struct bench bench = { .name = "source", .repetitions = 5 };

static struct options {
    const char *device, *json;
    uint64_t bytes, unit_max;
    uint32_t calls_max;
} options = {
    .device = "cuda:0", .bytes = UINT64_C(2) << 30, .unit_max = UINT64_C(16) << 20, .calls_max = 8
};

static struct words words;
static uint32_t *plain, *pinned;

struct figures {
    double rates[WAYS][REPETITIONS_MAX], cores[WAYS][REPETITIONS_MAX];
};

static bool is_wanted(enum way way)
{
    return ways[way].calls <= options.calls_max;
}

static void measure_once(enum way way, struct words_plan plan, struct figures *figures, int at)
{
    struct words_run run;
    plan.calls = ways[way].calls;
    plan.in = way == PLAIN ? plain : way == PINNED ? pinned : NULL;
    plan.from = ways[way].calls > 0 && !ways[way].is_made ? plain : NULL;
    double rate = words_measure(&words, &plan, &run) / 1e9;
    if (at < 0)
        return;
    figures->rates[way][at] = rate;
    figures->cores[way][at] = words_cores(&run);
}

static void keep_row(const struct words_plan *plan, struct figures *figures)
{
    bool has_target =
        words.info.kind == MUSTER_KIND_GPU && plan->unit == TARGET_BYTES && is_wanted(CALLS_8);
    const char *said = "no target";
    row_begin(&bench, plan->is_kernel_job ? "kernel job" : "pipeline");
    row_number(&bench, "unit_bytes", (double)plan->unit);
    printf("%-10s  %6llu KiB", plan->is_kernel_job ? "kernel job" : "pipeline",
           (unsigned long long)(plan->unit >> 10));
    for (int way = 0; way < WAYS; way++) {
        char text[40] = "-";
        if (is_wanted((enum way)way)) {
            struct sample rate = summarise(figures->rates[way], bench.repetitions);
            snprintf(text, sizeof text, "%.1f (%.1f)", rate.median,
                     summarise(figures->cores[way], bench.repetitions).median);
            row_sample(&bench, ways[way].key, rate);
            if (way == CALLS_8 && has_target)
                said = verdict(rate.median >= TARGET_GB_PER_S);
        }
        printf("  %-12s", text);
    }
    printf("  %s\n", said);
    if (has_target)
        row_number(&bench, "target", TARGET_GB_PER_S);
    row_text(&bench, "verdict", said);
    row_end(&bench);
}

static void measure(uint64_t unit, bool is_kernel_job)
{
    static struct figures figures;
    /* Small units take longer; a quarter of the words has enough of them. */
    uint64_t bytes = unit < (1 << 20) ? options.bytes / 4 : options.bytes;
    const struct words_plan plan = { .bytes = bytes / unit * unit,
                                     .unit = unit,
                                     .is_kernel_job = is_kernel_job };
    for (int at = -1; at < bench.repetitions; at++) /* the first is to warm up */
        for (int way = 0; way < WAYS; way++)
            if (is_wanted((enum way)way))
                measure_once((enum way)way, plan, &figures, at);
    keep_row(&plan, &figures);
}

static bool read_options(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--device") == 0)
            options.device = value;
        else if (strcmp(argv[i], "--bytes") == 0)
            options.bytes = strtoull(value, NULL, 0);
        else if (strcmp(argv[i], "--unit-max") == 0)
            options.unit_max = strtoull(value, NULL, 0);
        else if (strcmp(argv[i], "--calls-max") == 0)
            options.calls_max = (uint32_t)strtoul(value, NULL, 0);
        else if (strcmp(argv[i], "--repetitions") == 0)
            bench.repetitions = atoi(value);
        else if (strcmp(argv[i], "--json") == 0)
            options.json = value;
        else
            return false;
    }
    return argc % 2 == 1 && options.unit_max >= sizes[0] && options.calls_max > 0 &&
           options.bytes >= 16 * sizes[0] && options.bytes >= 4 * options.unit_max &&
           bench.repetitions >= REPETITIONS_MIN && bench.repetitions <= REPETITIONS_MAX;
}

int main(int argc, char **argv)
{
    if (!read_options(argc, argv)) {
        fprintf(stderr,
                "usage: source [--device ID] [--bytes N] [--unit-max N] [--calls-max N] "
                "[--repetitions N] [--json FILE]\n"
                "The bytes are at least four times the largest unit, which is 16 MiB unless "
                "--unit-max is less.\n");
        return 2;
    }
    if (!words_open(&words, &bench, options.device, 0, 4)) {
        /* No GPU is no failure of the bench's. */
        printf("source: not measured: %s\n", words_problem.text);
        return 0;
    }
    bench_open(&bench, options.json);
    plain = words_array(&words, options.bytes, false);
    pinned = words_array(&words, options.bytes, true);
    printf(
        "\nwords to %s and back, %llu MiB, from a source that copies them out of plain memory "
        "in this many calls at once, or makes them, and from arrays; GB/s each way and (cores of "
        "the whole process), medians of %d\n%-10s  %10s",
        options.device, (unsigned long long)(options.bytes >> 20), bench.repetitions, "", "unit");
    for (int way = 0; way < WAYS; way++)
        printf("  %-12s", ways[way].name);
    printf("  target\n");
    for (int is_kernel_job = 0; is_kernel_job < 2; is_kernel_job++)
        for (int size = 0; size < SIZES && sizes[size] <= options.unit_max; size++)
            measure(sizes[size], is_kernel_job);
    free(plain);
    words_close(&words);
    return bench_end(&bench);
}
