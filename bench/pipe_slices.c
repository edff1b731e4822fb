/*
 * One job over several devices, made for the slices of one GPU: the pipeline of words.h with one
 * source and one ordered sink. Its rate, the share of each device, and that results come in order.
 *
 *     pipe_slices [--devices ID,...] [--bytes N] [--unit N] [--rounds N] [--slots N]
 *                 [--repetitions N] [--json FILE]
 *
 * Three ways: words of a pinned array that the link limits, words that a source generates on one
 * thread, and words with --rounds steps of arithmetic each, which the multiprocessors limit. The
 * limit of the first is a raw program with three streams on the whole device (limit.h), of the
 * second the generator alone, of the third the sum of what each device reaches by itself.
 */
#include "words.h"

static struct bench bench = { .name = "pipe_slices", .repetitions = 5 };

static struct options {
    const char *devices, *json;
    uint64_t bytes, unit;
    uint32_t rounds, slots;
} options = { .devices = "cuda:0/0,cuda:0/1,cuda:0/2",
              .bytes = UINT64_C(1) << 29,
              .unit = 1 << 20,
              .rounds = 8000,
              .slots = 4 };

/* Most that the sum of what the devices reach alone may be, of what they reach together. */
#define BALANCE_TARGET 1.03

struct way {
    const char *what;
    bool is_generated;
    bool is_judged;
    bool is_kernel_job;
};

static struct words words;
static struct limit limit;
static struct limit_lane lane;

static double generate(void)
{
    uint32_t *to = malloc(options.unit);
    if (!to)
        stop(&bench, "there is no memory for a unit");
    words_source(NULL, 0, options.unit / WORD, to, options.unit);
    uint64_t begin_ns = clock_ns();
    for (uint64_t at = 0; at + options.unit <= options.bytes; at += options.unit)
        words_source(NULL, at / WORD, options.unit / WORD, to, options.unit);
    double rate = (double)(options.bytes / options.unit * options.unit) * 1e9 /
                  (double)(clock_ns() - begin_ns);
    free(to);
    return rate;
}

/* What each device reaches by itself, together. */
static double sum_alone(const struct words_plan *plan)
{
    char list[256], *rest = list;
    double sum = 0;
    snprintf(list, sizeof list, "%s", options.devices);
    for (char *id; (id = strtok_r(rest, ",", &rest));) {
        struct words_plan alone = *plan;
        struct words_run run;
        alone.devices = id;
        sum += words_measure(&words, &alone, &run);
    }
    return sum;
}

static double limit_of(const struct way *way, const struct words_plan *plan)
{
    if (way->is_generated)
        return generate();
    if (way->is_judged)
        return sum_alone(plan);
    return limit_run(&lane, plan->in, plan->bytes, plan->unit, false).bytes_per_s;
}

static void keep_shares(const struct muster_report *report)
{
    double shares[REPORT_DEVICES_MAX];
    for (size_t i = 0; i < report->device_count; i++) {
        const struct muster_job_device *device = &report->devices[i];
        shares[i] = (double)device->items / (double)report->delivered;
        printf("    %-12s %5.1f %%, %llu units, busy %5.1f %%\n", device->id, 100 * shares[i],
               (unsigned long long)device->units,
               100.0 * (double)device->busy_ns / (double)report->makespan_ns);
    }
    row_numbers(&bench, "shares", shares, report->device_count);
}

static void measure(const struct way *way, const uint32_t *in)
{
    double ours[REPETITIONS_MAX], limits[REPETITIONS_MAX], ratios[REPETITIONS_MAX],
        cores[REPETITIONS_MAX];
    struct words_plan plan = { .in = way->is_generated ? NULL : in,
                               .bytes = options.bytes / options.unit * options.unit,
                               .unit = options.unit,
                               .is_kernel_job = way->is_kernel_job };
    struct words_run run;
    for (int i = -1; i < bench.repetitions; i++) { /* the first is to warm up */
        int at = i < 0 ? 0 : i;
        ours[at] = words_measure(&words, &plan, &run) / 1e9;
        cores[at] = words_cores(&run);
        limits[at] = limit_of(way, &plan) / 1e9;
        ratios[at] = limits[at] / ours[at];
    }
    struct sample o = summarise(ours, bench.repetitions), l = summarise(limits, bench.repetitions),
                  r = summarise(ratios, bench.repetitions), c = summarise(cores, bench.repetitions);
    bool is_judged = way->is_judged && limit.is_cuda;
    printf("%-36s  %6.2f (%.2f-%.2f)  %6.2f (%.2f-%.2f)  %11.3f  %-9s  %4.1f\n", way->what,
           o.median, o.least, o.greatest, l.median, l.least, l.greatest, r.median,
           is_judged ? verdict(r.median <= BALANCE_TARGET) : "no target", c.median);
    row_begin(&bench, way->what);
    row_text(&bench, "devices", options.devices);
    row_number(&bench, "unit_bytes", (double)options.unit);
    row_sample(&bench, "ours", o);
    row_sample(&bench, "raw", l);
    row_sample(&bench, "ratio", r);
    row_sample(&bench, "cores", c);
    if (is_judged) {
        row_number(&bench, "target", BALANCE_TARGET);
        row_text(&bench, "verdict", verdict(r.median <= BALANCE_TARGET));
    }
    keep_shares(&run.report);
    row_end(&bench);
}

static bool read_options(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--devices") == 0)
            options.devices = value;
        else if (strcmp(argv[i], "--bytes") == 0)
            options.bytes = strtoull(value, NULL, 0);
        else if (strcmp(argv[i], "--unit") == 0)
            options.unit = strtoull(value, NULL, 0) / WORD * WORD;
        else if (strcmp(argv[i], "--rounds") == 0)
            options.rounds = (uint32_t)strtoul(value, NULL, 0);
        else if (strcmp(argv[i], "--slots") == 0)
            options.slots = (uint32_t)strtoul(value, NULL, 0);
        else if (strcmp(argv[i], "--repetitions") == 0)
            bench.repetitions = atoi(value);
        else if (strcmp(argv[i], "--json") == 0)
            options.json = value;
        else
            return false;
    }
    return argc % 2 == 1 && options.unit > 0 && options.bytes / 8 >= options.unit &&
           bench.repetitions >= REPETITIONS_MIN && bench.repetitions <= REPETITIONS_MAX;
}

int main(int argc, char **argv)
{
    static const struct way linked = { .what = "an array, limited by the link" },
                            generated = { .what = "a source", .is_generated = true },
                            computed = { .what = "an array, limited by arithmetic",
                                         .is_judged = true },
                            kernel = { .what = "the same as a kernel's job",
                                       .is_judged = true,
                                       .is_kernel_job = true };
    if (!read_options(argc, argv)) {
        fprintf(stderr, "usage: pipe_slices [--devices ID,...] [--bytes N] [--unit N] [--rounds N] "
                        "[--slots N] [--repetitions N] [--json FILE]\n"
                        "The bytes are at least eight units.\n");
        return 2;
    }
    if (!words_open(&words, &bench, options.devices, 0, options.slots)) {
        /* No GPU, or none that is cut, is no failure of the bench's. */
        printf("pipe_slices: not measured: %s\n", words_problem.text);
        return 0;
    }
    bench_open(&bench, options.json);
    limit_open(&limit, &bench, &words.info, 0);
    limit_lane_open(&lane, &limit, options.unit);
    printf(
        "one job on %s, %llu MiB in units of %llu KiB, one ordered sink, order checked; GB/s each "
        "way, median (least-greatest) of %d\n%-36s  %-18s  %-18s  limit/ours  target     cores\n",
        options.devices, (unsigned long long)(options.bytes >> 20),
        (unsigned long long)(options.unit >> 10), bench.repetitions, "", "ours", "limit");
    const uint32_t *in = words_array(&words, options.bytes, true);
    measure(&linked, in);
    measure(&generated, in);
    words_close(&words);
    if (!words_open(&words, &bench, options.devices, options.rounds, options.slots))
        stop(&bench, words_problem.text);
    in = words_array(&words, options.bytes, true);
    measure(&computed, in);
    measure(&kernel, in);
    limit_lane_close(&lane);
    limit_close(&limit);
    words_close(&words);
    return bench_end(&bench);
}
