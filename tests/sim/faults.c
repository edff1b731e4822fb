/*
 * What faults cost: machines that a person might own, one fault each, and how far the makespan is
 * above the bound, which knows the faults.
 *
 *     sim_faults [--seed N] [--count N] [--kind K] [--spread X] [--show] [--check]
 *
 * Prints the median, the 99th percentile and the worst ratio for each kind of fault, over `count`
 * machines of each kind. Devices differ in speed by at most X, 30 unless said. The test fails if a job
 * does not end well, or if the 99th percentile is above its limit, which holds for up to 30. --show prints every machine above
 * 1.2, --check checks every invariant after every step.
 */
#include "base/random.h"
#include "storm.h"

#include <inttypes.h>
#include <muster/simulate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPREAD_SANE 30.0
#define DEVICES_MAX 16
#define RATIO_SHOWN 1.2

/*
 * The limits are of the 99th percentile. A unit that fails is run elsewhere, however slow that is, and
 * the bound knows nothing of it.
 */
static const struct kind {
    const char *name;
    int fault; /* -1: none */
    double limit;
    bool has_window; /* in order, a small one, and lanes of up to 8 units */
    int policy;      /* that places units; -1: lanes claim them */
} kinds[] = {
    { "none", -1, 1.1, false, -1 },
    { "slow", MODEL_FAULT_SLOW, 1.2, false, -1 },
    { "loss", MODEL_FAULT_LOST, 1.2, false, -1 },
    { "hang", MODEL_FAULT_HANG, 1.3, false, -1 },
    { "unit_error", MODEL_FAULT_UNIT_ERROR, 1.5, false, -1 },
    { "window", -1, 1.1, true, -1 },
    { "slow, window", MODEL_FAULT_SLOW, 1.2, true, -1 },
    { "adaptive", -1, 1.1, false, SCENARIO_ADAPTIVE },
    { "earliest", -1, 1.1, false, SCENARIO_EARLIEST_FINISH },
};
#define KIND_COUNT (sizeof kinds / sizeof *kinds)

static struct options {
    uint64_t seed, count;
    const char *kind;
    double spread;
    bool shows, checks;
} options = { .seed = 1, .count = 200, .spread = SPREAD_SANE };

static double between(struct random *random, double least, double most)
{
    return least + (most - least) * random_unit(random);
}

/* Without libm, so that every machine makes the same ones. */
static double root(double of)
{
    double value = of;
    for (int i = 0; i < 40; i++)
        value = (value + of / value) / 2;
    return value;
}

/* From 1 to `most`, each doubling as likely. */
static double spread(struct random *random, double most)
{
    double value = 1, step = most;
    for (int i = 0; i < 10; i++) {
        step = root(step);
        value *= random_below(random, 2) ? step : 1;
    }
    return value;
}

static struct model_device make_device(struct random *random, size_t number)
{
    static const double jitters[] = { 0, 0.02, 0.05, 0.1 };
    struct model_device device = { .items_per_s = spread(random, options.spread),
                                   .sensitive = MODEL_DEFAULT_SENSITIVE,
                                   .launch_ns = random_below(random, 20000),
                                   .memory_bytes = UINT64_C(1) << 34,
                                   .jitter = jitters[random_below(random, 4)],
                                   .weight = 1,
                                   .cores = MODEL_DEFAULT_CORES };
    snprintf(device.name, sizeof device.name, "d%zu", number);
    return device;
}

/* Somewhere in the job, at a moment when there is work left. */
static struct model_fault make_fault(struct random *random, enum model_fault_kind kind,
                                     double makespan_ns)
{
    struct model_fault fault = { .kind = kind,
                                 .at_ns = (uint64_t)(makespan_ns * random_unit(random)),
                                 .factor = 1,
                                 .probability = 1 };
    if (kind == MODEL_FAULT_SLOW) {
        fault.factor = 1 / (1 + 9 * random_unit(random));
        fault.for_ns = random_below(random, 2) ? 0 : 1 + (uint64_t)(makespan_ns / 4);
    }
    if (kind == MODEL_FAULT_UNIT_ERROR) {
        fault.at_ns = 0;
        fault.probability = between(random, 0.01, 0.1);
    }
    return fault;
}

static void make_machine(struct storm *storm, const struct kind *kind, uint64_t seed)
{
    /* Some have few devices, of which one that is lost is a large part. */
    static const uint64_t counts[] = { 3, 7, DEVICES_MAX - 1 };
    struct random random;
    double rate = 0;
    random_init(&random, seed);
    *storm = (struct storm){ .seed = random_below(&random, 1000000) };
    storm->device_count = (size_t)(2 + random_below(&random, counts[random_below(&random, 3)]));
    for (size_t i = 0; i < storm->device_count; i++) {
        storm->devices[i] = make_device(&random, i);
        rate += storm->devices[i].items_per_s;
    }
    /* A job of 0.3 to 10 s: what faults cost must not be hidden by its length, nor by its start. */
    double makespan_ns = 3e8 * spread(&random, 30);
    uint64_t items = (uint64_t)(1e4 * spread(&random, 30));
    for (size_t i = 0; i < storm->device_count; i++)
        storm->devices[i].items_per_s *= (double)items / (rate * makespan_ns * 1e-9);
    storm->job = (struct scenario_job){ .items = items,
                                        .unit = SCENARIO_UNIT_ADAPTIVE,
                                        .ordered = random_below(&random, 2),
                                        .speculate = true,
                                        .depth = (uint32_t)(1 + random_below(&random, 3)),
                                        .tries = 10 };
    storm->job.place = kind->policy >= 0;
    if (storm->job.place)
        storm->job.policy = (enum scenario_policy)kind->policy;
    if (kind->has_window) {
        double parts = 20 * spread(&random, 30);
        storm->job.window = 20 + (uint64_t)((double)items / parts);
        storm->job.depth = (uint32_t)(1 + random_below(&random, 8));
        storm->job.ordered = true;
    }
    size_t struck = (size_t)random_below(&random, storm->device_count);
    if (kind->fault >= 0) {
        storm->devices[struck].fault_count = 1;
        storm->devices[struck].faults[0] =
            make_fault(&random, (enum model_fault_kind)kind->fault, makespan_ns);
    }
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The machine's ratio; 0 if the job does not end well, which is said. */
static double ratio_of(const struct storm *storm, const char *name)
{
    static char text[STORM_TEXT_MAX];
    struct muster_simulation_options how = { .size = sizeof how,
                                             .seed = storm->seed,
                                             .check = options.checks };
    struct muster_simulation *result;
    size_t bytes = storm_print(storm, text);
    muster_status status = muster_simulate(text, bytes, &how, &result, NULL);
    if (status != MUSTER_OK) {
        printf("%s: not run: %s\n", name, muster_status_name(status));
        return 0;
    }
    double ratio = result->ratio;
    if (result->status != MUSTER_OK || result->broken || result->lost || result->duplicated ||
        result->out_of_order) {
        printf("%s: %s\n%s", name, result->broken ? result->broken : "the job failed", text);
        ratio = 0;
    } else if (options.shows && ratio > RATIO_SHOWN) {
        printf("%s: %.3f\n%s", name, ratio, text);
    }
    muster_simulation_destroy(result);
    return ratio;
}

static bool measure(const struct kind *kind)
{
    double *ratios = calloc(options.count, sizeof *ratios);
    uint64_t above = 0, failed = 0, last = options.count - 1;
    if (!ratios)
        abort();
    for (uint64_t i = 0; i < options.count; i++) {
        struct storm storm;
        char name[64];
        snprintf(name, sizeof name, "%s, seed %" PRIu64, kind->name, options.seed + i);
        make_machine(&storm, kind, options.seed + i);
        ratios[i] = ratio_of(&storm, name);
        failed += !(ratios[i] > 0);
        above += ratios[i] > RATIO_SHOWN;
    }
    qsort(ratios, options.count, sizeof *ratios, by_size);
    double p99 = ratios[last * 99 / 100];
    bool has_limit = kind->limit > 0 && options.spread <= SPREAD_SANE;
    bool is_good = failed == 0 && (!has_limit || p99 <= kind->limit);
    printf("%-12s %9" PRIu64 " %8.4f %8.4f %8.4f %8.4f %7" PRIu64 " %7" PRIu64 "%s\n", kind->name,
           options.count, ratios[last / 2], ratios[last * 9 / 10], p99, ratios[last], above, failed,
           is_good ? "" : "  FAILED");
    free(ratios);
    return is_good;
}

static bool read_options(int argc, char **argv)
{
    const char *seed = getenv("MUSTER_TEST_SEED");
    if (seed)
        options.seed = strtoull(seed, NULL, 10);
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--show") == 0) {
            options.shows = true;
            continue;
        }
        if (strcmp(argv[i], "--check") == 0) {
            options.checks = true;
            continue;
        }
        if (!value)
            return false;
        if (strcmp(argv[i], "--seed") == 0)
            options.seed = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--count") == 0)
            options.count = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--kind") == 0)
            options.kind = value;
        else if (strcmp(argv[i], "--spread") == 0)
            options.spread = strtod(value, NULL);
        else
            return false;
        i++;
    }
    return options.count > 0 && options.spread >= 1;
}

int main(int argc, char **argv)
{
    bool is_good = true;
    if (!read_options(argc, argv)) {
        fprintf(stderr,
                "usage: %s [--seed N] [--count N] [--kind K] [--spread X] [--show] [--check]\n",
                argv[0]);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("makespan / bound of machines with a spread of at most %.0f, from seed %" PRIu64 "\n",
           options.spread, options.seed);
    printf("%-12s %9s %8s %8s %8s %8s %7s %7s\n", "fault", "machines", "median", "p90", "p99",
           "worst", "> 1.2", "failed");
    for (size_t i = 0; i < KIND_COUNT; i++)
        if (!options.kind || strcmp(options.kind, kinds[i].name) == 0)
            is_good = measure(&kinds[i]) && is_good;
    return is_good ? 0 : 1;
}
