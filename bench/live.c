/*
 * What the live page costs the runtime that shows it: an empty task submitted alone and in batches, a unit
 * of a job, open and close; each with the page and without, in turns, in one process.
 *
 *     live [--repetitions N] [--json FILE]
 *
 * The machine's load changes by more than what is to be measured. So a repetition is many short bursts, with
 * and without one after the other, and what counts is the least tenth of each: bursts that nobody disturbed.
 * Raw is what the page adds to a task, a store when it is submitted and one when it has ended, and to a unit,
 * done alone. A runtime without the page makes the stores too, to memory of its own: that is quicker than
 * asking.
 */
#include "observe/live.h"

#include "report.h"

#define BURSTS 400
#define TASKS 2500
/* Of this many bursts one is quicker than what counts. */
#define QUICK 10
#define BATCH 250
#define UNITS 2000
#define RAW 20000

static struct muster *runtimes[2]; /* without, with */
static struct muster_kernel *kernels[2];

static muster_status nothing(void *user)
{
    (void)user;
    return MUSTER_OK;
}

static muster_status no_items(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin;
    (void)end;
    (void)args;
    return MUSTER_OK;
}

static struct muster *open_one(const struct bench *bench, bool is_live)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster_error err;
    struct muster *m;
    options.devices = "cpu";
    options.no_live = !is_live;
    if (muster_open(&m, &options, &err) != MUSTER_OK)
        stop(bench, err.text);
    return m;
}

/* Nanoseconds for one of what a burst does many times. */
static double tasks(const struct bench *bench, int which, int each)
{
    struct muster_task_desc descs[BATCH];
    for (int i = 0; i < each; i++)
        descs[i] = (struct muster_task_desc){ .size = sizeof *descs, .fn = nothing };
    uint64_t begin_ns = clock_ns();
    for (int i = 0; i < TASKS; i += each)
        if (muster_submit(runtimes[which], descs, (size_t)each, NULL, NULL) != MUSTER_OK)
            stop(bench, "a task was refused");
    if (muster_wait(runtimes[which], NULL, 0, UINT64_MAX, NULL) != MUSTER_OK)
        stop(bench, "tasks failed");
    return (double)(clock_ns() - begin_ns) / TASKS;
}

static double tasks_alone(const struct bench *bench, int which)
{
    return tasks(bench, which, 1);
}

static double tasks_in_batches(const struct bench *bench, int which)
{
    return tasks(bench, which, BATCH);
}

static double units(const struct bench *bench, int which)
{
    static const struct muster_arg args[] = { { .size = sizeof *args, .kind = MUSTER_ARG_FIRST } };
    struct muster_run_options options = { .size = sizeof options, .unit_items = 1 };
    struct muster_error err;
    uint64_t begin_ns = clock_ns();
    if (muster_for(runtimes[which], kernels[which], UNITS, args, 1, &options, NULL, &err) !=
        MUSTER_OK)
        stop(bench, err.text);
    return (double)(clock_ns() - begin_ns) / UNITS;
}

static double opening(const struct bench *bench, int which)
{
    uint64_t begin_ns = clock_ns();
    muster_close(open_one(bench, which == 1), NULL);
    return (double)(clock_ns() - begin_ns);
}

/* The least tenth of a repetition's bursts. */
static double quick(double *values, int count)
{
    summarise(values, count); /* which sorts them */
    return values[count / QUICK];
}

static void measure(struct bench *bench, const char *what, int bursts,
                    double (*burst)(const struct bench *bench, int which), double target_ns)
{
    static double values[2][REPETITIONS_MAX], costs[REPETITIONS_MAX];
    static double round[2][BURSTS];
    burst(bench, 0);
    burst(bench, 1);
    for (int r = 0; r < bench->repetitions; r++) {
        for (int i = 0; i < bursts; i++) {
            /* Who comes first changes, so that neither always meets what the other left. */
            int first = i % 2;
            round[first][i] = burst(bench, first);
            round[!first][i] = burst(bench, !first);
        }
        for (int which = 0; which < 2; which++)
            values[which][r] = quick(round[which], bursts);
        costs[r] = values[1][r] - values[0][r];
    }
    struct sample without = summarise(values[0], bench->repetitions);
    struct sample with = summarise(values[1], bench->repetitions);
    struct sample cost = summarise(costs, bench->repetitions);
    printf("%-26s %9.1f ns without %9.1f ns with   cost %8.2f ns (%.2f to %.2f)", what,
           without.median, with.median, cost.median, cost.least, cost.greatest);
    if (target_ns > 0)
        printf("   target %.0f: %s", target_ns, verdict(cost.median <= target_ns));
    printf("\n");
    row_begin(bench, what);
    row_sample(bench, "without_ns", without);
    row_sample(bench, "with_ns", with);
    row_sample(bench, "cost_ns", cost);
    if (target_ns > 0)
        row_number(bench, "target_ns", target_ns);
    row_end(bench);
}

static void print_raw(struct bench *bench, const char *what, double *values, double target_ns)
{
    struct sample raw = summarise(values, bench->repetitions);
    printf("%-26s %9.2f ns (%.2f to %.2f)", what, raw.median, raw.least, raw.greatest);
    if (target_ns > 0)
        printf("   target %.0f: %s", target_ns, verdict(raw.median <= target_ns));
    printf("\n");
    row_begin(bench, what);
    row_sample(bench, "raw_ns", raw);
    row_end(bench);
}

/* The stores themselves, to a page that is mapped. */
static void measure_raw(struct bench *bench)
{
    static double values[2][REPETITIONS_MAX];
    static struct live live;
    struct live_device device = { .id = "cpu:0" };
    struct live_job job = { .number = 1 };
    struct live_lane lane = { .job = 1 };
    struct muster_error err;
    if (live_open(&live, clock_ns(), &err) != MUSTER_OK)
        stop(bench, err.text);
    for (int r = 0; r < bench->repetitions; r++) {
        static double round[2][BURSTS];
        for (int burst = 0; burst < BURSTS; burst++) {
            uint64_t begin_ns = clock_ns();
            for (uint64_t i = 0; i < RAW; i++) {
                live_set(&live.page->tasks.submitted, i);
                live_set(&live.page->tasks.ended, i);
                /* As a lock between two would: the compiler joins none of them. */
                __asm__ volatile("" ::: "memory");
            }
            round[0][burst] = (double)(clock_ns() - begin_ns) / RAW;
            begin_ns = clock_ns();
            for (uint64_t i = 0; i < RAW / 100; i++) {
                /* When it ends and the next begins, what its lane has, and what the job has. */
                device.completed = job.delivered = lane.items = i;
                live_put(live.page->devices[0].words, &device, LIVE_WORDS(live_device));
                live_put(live.page->devices[0].words, &device, LIVE_WORDS(live_device));
                live_put(live.page->jobs[0].lanes[0].words, &lane, LIVE_WORDS(live_lane));
                live_put(live.page->jobs[0].words, &job, LIVE_WORDS(live_job));
                live_put(live.page->jobs[0].words, &job, LIVE_WORDS(live_job));
            }
            round[1][burst] = (double)(clock_ns() - begin_ns) / (RAW / 100);
        }
        values[0][r] = quick(round[0], BURSTS);
        values[1][r] = quick(round[1], BURSTS);
    }
    live_close(&live);
    print_raw(bench, "raw: a task's two stores", values[0], 1);
    print_raw(bench, "raw: a unit's five records", values[1], 0);
}

int main(int argc, char **argv)
{
    struct bench bench;
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = no_items };
    bench_begin(&bench, "live", 5, argc, argv);
    printf("medians of %d repetitions, each the least tenth of many bursts\n\n", bench.repetitions);
    for (int i = 0; i < 2; i++) {
        runtimes[i] = open_one(&bench, i == 1);
        if (muster_kernel_from(runtimes[i], "empty", &form, 1, &kernels[i], NULL) != MUSTER_OK)
            stop(&bench, "no kernel");
    }
    measure_raw(&bench);
    measure(&bench, "empty task alone", BURSTS, tasks_alone, 1);
    measure(&bench, "empty task in batches", BURSTS, tasks_in_batches, 1);
    measure(&bench, "unit of a job", 60, units, 0);
    measure(&bench, "open and close", 20, opening, 0);
    for (int i = 0; i < 2; i++)
        muster_close(runtimes[i], NULL);
    return bench_end(&bench);
}
