/*
 * Host, kernel, host: units of an array go to a device, through a kernel that adds one to each word,
 * and back to a sink. Ours is a pipeline of three stages; beside it, in turn and in the same run, the
 * raw limit (limit.h) and the same as a job with a kernel.
 *
 *     pipe [--device ID] [--memory pinned|pageable|both] [--bytes N] [--unit-max N] [--slots N]
 *          [--profile yes|no] [--repetitions N] [--json FILE]
 *
 * From pageable memory there are two raw programs: one lets the driver copy from where the words
 * lie, the other copies them to pinned memory first, on the thread that enqueues. Ours is held
 * against the better one. Ratios are of runs that followed each other; the verdict is on their median.
 */
#include "words.h"

#define SIZES 6

static const uint64_t sizes[SIZES] = { 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20 };
/* What a unit must reach of the raw limit; below a megabyte, all of it. */
static const double targets[SIZES] = { 1, 1, 0.97, 0.97, 0.97, 0.97 };
/* What a job with a kernel must reach of the pipeline's rate, and how soon a runtime's second job begins. */
#define JOB_TARGET 0.97
#define STARTUP_TARGET_MS 1.0

static struct bench bench = { .name = "pipe", .repetitions = 5 };

static struct options {
    const char *device, *memory, *json;
    uint64_t bytes, unit_max;
    uint32_t slots;
    bool is_profiled;
} options = { .device = "cuda:0",
              .memory = "both",
              .bytes = UINT64_C(2) << 30,
              .unit_max = UINT64_C(64) << 20,
              .slots = 4 };

/* What was measured of one size. */
enum figure {
    OURS,
    JOB,
    RAW,
    STAGED,
    RATIO,
    RATIO_STAGED,
    RATIO_JOB,
    CORES,
    RAW_CORES,
    STARTUP,
    JOB_STARTUP,
    FIGURES
};
static const char *const figure_keys[FIGURES] = { "ours",       "job",           "raw",
                                                  "staged",     "ratio",         "ratio_staged",
                                                  "ratio_job",  "cores",         "raw_cores",
                                                  "startup_ms", "job_startup_ms" };

struct figures {
    double values[FIGURES][REPETITIONS_MAX];
    struct sample samples[FIGURES];
    double merged;
};

struct memory {
    const char *name;
    bool is_pinned;
    uint32_t *in;
};

static struct words words;
static struct limit limit;
static struct limit_lane lane;

static bool is_wanted(const struct memory *memory, enum figure figure)
{
    bool is_staged = figure == STAGED || figure == RATIO_STAGED;
    return !is_staged || (!memory->is_pinned && limit.is_cuda);
}

static void measure_once(const struct memory *memory, const struct words_plan *plan,
                         struct figures *figures, int at)
{
    struct words_plan job_plan = *plan;
    struct words_run run;
    double values[FIGURES] = { 0 };
    job_plan.is_kernel_job = true;
    values[OURS] = words_measure(&words, plan, &run) / 1e9;
    values[CORES] = words_cores(&run);
    values[STARTUP] = words_startup_ms(&run);
    figures->merged = words_merged(&run);
    struct limit_result raw = limit_run(&lane, plan->in, plan->bytes, plan->unit, false);
    values[RAW] = raw.bytes_per_s / 1e9;
    values[RAW_CORES] = raw.cores;
    values[RATIO] = values[OURS] / values[RAW];
    if (is_wanted(memory, STAGED)) {
        raw = limit_run(&lane, plan->in, plan->bytes, plan->unit, true);
        values[STAGED] = raw.bytes_per_s / 1e9;
        values[RATIO_STAGED] = values[OURS] / values[STAGED];
    }
    values[JOB] = words_measure(&words, &job_plan, &run) / 1e9;
    values[RATIO_JOB] = values[JOB] / values[OURS];
    values[JOB_STARTUP] = words_startup_ms(&run);
    for (int i = 0; i < FIGURES && at >= 0; i++)
        figures->values[i][at] = values[i];
}

/* Of the better raw program. */
static double ratio_of(const struct memory *memory, const struct figures *figures)
{
    double plain = figures->samples[RATIO].median, staged = figures->samples[RATIO_STAGED].median;
    return is_wanted(memory, STAGED) && staged < plain ? staged : plain;
}

static const char *judge(const struct memory *memory, const struct figures *figures, int size)
{
    return limit.is_cuda ? verdict(ratio_of(memory, figures) >= targets[size]) : "no target";
}

static const char *judge_job(const struct figures *figures)
{
    return limit.is_cuda ? verdict(figures->samples[RATIO_JOB].median >= JOB_TARGET) : "no target";
}

/* The first run, which is not measured, has made what a runtime keeps. */
static const char *judge_startup(const struct figures *figures)
{
    return limit.is_cuda ? verdict(figures->samples[STARTUP].median <= STARTUP_TARGET_MS &&
                                   figures->samples[JOB_STARTUP].median <= STARTUP_TARGET_MS)
                         : "no target";
}

static void print_sample(struct sample sample)
{
    char text[40];
    snprintf(text, sizeof text, "%.1f (%.1f-%.1f)", sample.median, sample.least, sample.greatest);
    printf("  %-18s", text);
}

static void print_row(const struct memory *memory, const struct figures *figures, int size)
{
    const struct sample *samples = figures->samples;
    printf("%6llu KiB", (unsigned long long)(sizes[size] >> 10));
    print_sample(samples[OURS]);
    print_sample(samples[RAW]);
    if (is_wanted(memory, STAGED))
        print_sample(samples[STAGED]);
    printf("  %5.3f  %-9s  %5.1f  %5.3f  %-9s  %4.1f  %4.1f  %6.1f  %6.2f  %6.2f  %s\n",
           ratio_of(memory, figures), judge(memory, figures, size), samples[JOB].median,
           samples[RATIO_JOB].median, judge_job(figures), samples[CORES].median,
           samples[RAW_CORES].median, figures->merged, samples[STARTUP].median,
           samples[JOB_STARTUP].median, judge_startup(figures));
}

static void begin_row(const char *what, const struct memory *memory, uint64_t unit)
{
    row_begin(&bench, what);
    row_text(&bench, "memory", memory->name);
    row_number(&bench, "unit_bytes", (double)unit);
}

static void keep_row(const struct memory *memory, const struct figures *figures, int size)
{
    begin_row("unit", memory, sizes[size]);
    for (int i = 0; i < FIGURES; i++)
        if (i != STARTUP && i != JOB_STARTUP && is_wanted(memory, (enum figure)i))
            row_sample(&bench, figure_keys[i], figures->samples[i]);
    row_number(&bench, "units_merged", figures->merged);
    if (limit.is_cuda) {
        row_number(&bench, "target", targets[size]);
        row_number(&bench, "target_job", JOB_TARGET);
    }
    row_text(&bench, "verdict", judge(memory, figures, size));
    row_text(&bench, "verdict_job", judge_job(figures));
    row_end(&bench);
    begin_row("start-up", memory, sizes[size]);
    row_sample(&bench, figure_keys[STARTUP], figures->samples[STARTUP]);
    row_sample(&bench, figure_keys[JOB_STARTUP], figures->samples[JOB_STARTUP]);
    if (limit.is_cuda)
        row_number(&bench, "target", STARTUP_TARGET_MS);
    row_text(&bench, "verdict", judge_startup(figures));
    row_end(&bench);
}

static void print_edge(const struct memory *memory, const struct words_plan *plan,
                       const struct muster_edge_report *edge, uint64_t makespan_ns)
{
    static const char *const kinds[] = { "", "event", "enqueue", "arrival", "rule", "gate" };
    const char *kind =
        (size_t)edge->kind < sizeof kinds / sizeof *kinds ? kinds[edge->kind] : "unknown";
    printf("    %-8s %-8s %-6s %-8s %3u  %9llu %9llu  %10.2f  %5.1f %%%s\n", edge->from, edge->to,
           edge->buffer[0] ? edge->buffer : "-", kind, edge->distance,
           (unsigned long long)edge->records, (unsigned long long)edge->waits,
           (double)edge->stall_ns / 1e6, 100.0 * (double)edge->stall_ns / (double)makespan_ns,
           edge->is_dead ? "  dead" : "");
    begin_row("edge", memory, plan->unit);
    row_text(&bench, "from", edge->from);
    row_text(&bench, "to", edge->to);
    row_text(&bench, "buffer", edge->buffer);
    row_text(&bench, "kind", kind);
    row_number(&bench, "distance", edge->distance);
    row_number(&bench, "records", (double)edge->records);
    row_number(&bench, "waits", (double)edge->waits);
    row_number(&bench, "stall_ms", (double)edge->stall_ns / 1e6);
    row_number(&bench, "dead", edge->is_dead != 0);
    row_end(&bench);
}

/* Which edges hold the pipeline up, in a run of its own: to measure that costs time. */
static void account(const struct memory *memory, struct words_plan plan)
{
    struct muster_edge_report edges[WORDS_EDGES_MAX];
    struct words_run run;
    size_t count = 0;
    for (size_t i = 0; i < WORDS_EDGES_MAX; i++)
        edges[i].size = sizeof edges[i];
    plan.is_accounted = true;
    words_start(&run, &words, &plan);
    words_wait(&run);
    if (muster_job_edges(run.job, edges, WORDS_EDGES_MAX, &count, &words_problem) != MUSTER_OK)
        stop(&bench, words_problem.text);
    printf(
        "  %llu KiB, stalls measured, %.1f GB/s; schedule: %s\n"
        "    from     to       buffer kind     dist    records     waits   stall, ms  of the run\n",
        (unsigned long long)(plan.unit >> 10), words_rate(&run) / 1e9, run.report.schedule_reason);
    for (size_t i = 0; i < count && i < WORDS_EDGES_MAX; i++)
        print_edge(memory, &plan, &edges[i], run.report.makespan_ns);
    words_end(&run);
}

/* What threads did for each unit, and how the runtime splits the time. */
static void profile(const struct memory *memory, struct words_plan plan)
{
    struct words_run run;
    plan.is_profiled = true;
    words_measure(&words, &plan, &run);
    double units = (double)(run.units > 1 ? run.units - 1 : 1);
    double every_ns = (double)(run.last_ns - run.first_ns) / units;
    printf("  %llu KiB, a unit every %.0f ns; threads ran for",
           (unsigned long long)(plan.unit >> 10), every_ns);
    begin_row("profile", memory, plan.unit);
    row_number(&bench, "ns_per_unit", every_ns);
    for (int k = 0; k < run.last_threads.count; k++) {
        double ns = threads_since(&run.first_threads, &run.last_threads, k) / units;
        const char *name = run.last_threads.kinds[k].name;
        printf("%s %d %s %.0f", k > 0 ? "," : "", run.last_threads.kinds[k].count, name, ns);
        row_number(&bench, name, ns);
    }
    const struct muster_report *report = &run.report;
    const struct {
        const char *what;
        uint64_t ns;
    } parts[] = { { "transfer", report->transfer_ns },
                  { "overhead", report->overhead_ns },
                  { "starved", report->starved_ns },
                  { "tail", report->tail_ns } };
    printf("\n    the report has for each:");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        double ns = (double)parts[i].ns / (double)run.units;
        printf("%s %s %.0f", i > 0 ? "," : "", parts[i].what, ns);
        row_number(&bench, parts[i].what, ns);
    }
    printf("\n");
    row_end(&bench);
}

static struct words_plan plan_for(const struct memory *memory, uint64_t unit)
{
    return (
        struct words_plan){ .in = memory->in, .bytes = options.bytes / unit * unit, .unit = unit };
}

static void measure(const struct memory *memory, int size)
{
    static struct figures figures;
    struct words_plan plan = plan_for(memory, sizes[size]);
    for (int i = -1; i < bench.repetitions; i++) /* the first is to warm up */
        measure_once(memory, &plan, &figures, i);
    for (int i = 0; i < FIGURES; i++)
        figures.samples[i] = summarise(figures.values[i], bench.repetitions);
    print_row(memory, &figures, size);
    keep_row(memory, &figures, size);
}

static void measure_memory(const char *name)
{
    struct memory memory = { .name = name, .is_pinned = strcmp(name, "pinned") == 0 };
    memory.in = words_array(&words, options.bytes, memory.is_pinned);
    printf(
        "\nhost to %s and back, %s, %llu MiB, %u slots; GB/s each way, median (least-greatest) of "
        "%d; cores of the whole process; start-up of a runtime's later jobs in ms, from the call "
        "to the first unit, not in the rates\n",
        options.device, name, (unsigned long long)(options.bytes >> 20), options.slots,
        bench.repetitions);
    printf("      unit  %-18s  %-18s%s  ratio  target     job    of ours target     cores  raw  "
           "merged  "
           "start-up, job's\n",
           "ours", limit.is_cuda ? "raw, 3 streams" : "raw, one thread",
           is_wanted(&memory, STAGED) ? "  raw, staged       " : "");
    for (int size = 0; size < SIZES && sizes[size] <= options.unit_max; size++)
        measure(&memory, size);
    printf("\n");
    for (int size = 0; size < SIZES && sizes[size] <= options.unit_max; size++) {
        account(&memory, plan_for(&memory, sizes[size]));
        if (options.is_profiled)
            profile(&memory, plan_for(&memory, sizes[size]));
    }
    if (!memory.is_pinned)
        free(memory.in);
}

static bool read_options(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--device") == 0)
            options.device = value;
        else if (strcmp(argv[i], "--memory") == 0)
            options.memory = value;
        else if (strcmp(argv[i], "--bytes") == 0)
            options.bytes = strtoull(value, NULL, 0);
        else if (strcmp(argv[i], "--unit-max") == 0)
            options.unit_max = strtoull(value, NULL, 0);
        else if (strcmp(argv[i], "--slots") == 0)
            options.slots = (uint32_t)strtoul(value, NULL, 0);
        else if (strcmp(argv[i], "--profile") == 0)
            options.is_profiled = strcmp(value, "yes") == 0;
        else if (strcmp(argv[i], "--repetitions") == 0)
            bench.repetitions = atoi(value);
        else if (strcmp(argv[i], "--json") == 0)
            options.json = value;
        else
            return false;
    }
    bool is_known = strcmp(options.memory, "both") == 0 || strcmp(options.memory, "pinned") == 0 ||
                    strcmp(options.memory, "pageable") == 0;
    return argc % 2 == 1 && is_known && options.unit_max >= sizes[0] &&
           options.bytes >= 16 * sizes[0] && options.bytes >= 4 * options.unit_max &&
           bench.repetitions >= REPETITIONS_MIN && bench.repetitions <= REPETITIONS_MAX;
}

int main(int argc, char **argv)
{
    if (!read_options(argc, argv)) {
        fprintf(stderr,
                "usage: pipe [--device ID] [--memory pinned|pageable|both] [--bytes N] "
                "[--unit-max N] [--slots N] [--profile yes|no] [--repetitions N] "
                "[--json FILE]\n"
                "The bytes are at least four times the largest unit, which is 64 MiB unless "
                "--unit-max is less.\n");
        return 2;
    }
    if (!words_open(&words, &bench, options.device, 0, options.slots)) {
        /* No GPU is no failure of the bench's. */
        printf("pipe: not measured: %s\n", words_problem.text);
        return 0;
    }
    bench_open(&bench, options.json);
    limit_open(&limit, &bench, &words.info, 0);
    limit_lane_open(&lane, &limit, options.unit_max);
    if (strcmp(options.memory, "pageable") != 0)
        measure_memory("pinned");
    if (strcmp(options.memory, "pinned") != 0)
        measure_memory("pageable");
    limit_lane_close(&lane);
    limit_close(&limit);
    words_close(&words);
    return bench_end(&bench);
}
