/*
 * How fast a job is simulated: 10,000 devices of four speeds that claim units, of which there are
 * one, five and ten million. Each run is a process of its own, so that its peak of memory is known.
 *
 *     simulate [--repetitions N] [--json FILE]
 *
 * Beside it the raw limit: a heap of as many devices, from which the earliest is taken and put back
 * once for each unit.
 */
#include "report.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define DEVICES 10000
#define UNIT_ITEMS 100
#define SECONDS_TARGET 60.0
/* Memory is flat if ten times as many units take no more than that. */
#define MEMORY_RATIO_TARGET 1.05

static const unsigned millions[] = { 1, 5, 10 };
#define ROWS (sizeof millions / sizeof *millions)

/* In a process of its own; whether the job ended well, with about as many units as there were to be. */
static int simulate(unsigned million)
{
    char text[640];
    struct muster_simulation_options options = { .size = sizeof options, .seed = 1 };
    struct muster_simulation *result;
    struct muster_error err;
    unsigned long long units = million * 1000000ull;
    int length = snprintf(text, sizeof text,
                          "{\"devices\":["
                          "{\"count\":%d,\"items_per_s\":1e6,\"launch_ns\":4000,\"jitter\":0.05},"
                          "{\"count\":%d,\"items_per_s\":2e6,\"launch_ns\":4000,\"jitter\":0.05},"
                          "{\"count\":%d,\"items_per_s\":4e6,\"launch_ns\":4000,\"jitter\":0.05},"
                          "{\"count\":%d,\"items_per_s\":8e6,\"launch_ns\":4000,\"jitter\":0.05}],"
                          "\"job\":{\"items\":%llu,\"unit\":%d,\"mode\":\"claim\"}}",
                          DEVICES / 4, DEVICES / 4, DEVICES / 4, DEVICES / 4, units * UNIT_ITEMS,
                          UNIT_ITEMS);
    if (muster_simulate(text, (size_t)length, &options, &result, &err) != MUSTER_OK) {
        fprintf(stderr, "simulate: %s\n", err.text);
        return 1;
    }
    bool is_good = result->status == MUSTER_OK && result->lost == 0 && result->duplicated == 0 &&
                   result->out_of_order == 0 && result->units >= units &&
                   result->items_delivered == units * UNIT_ITEMS;
    if (!is_good)
        fprintf(stderr, "simulate: the job of %llu units did not end as it had to\n", units);
    muster_simulation_destroy(result);
    return is_good ? 0 : 1;
}

static void sift(uint64_t *heap, size_t count, uint64_t value)
{
    size_t at = 0, child;
    while ((child = 2 * at + 1) < count) {
        child += child + 1 < count && heap[child + 1] < heap[child];
        if (heap[child] >= value)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = value;
}

static int raw(unsigned million)
{
    static uint64_t heap[DEVICES];
    uint64_t random = 1;
    for (uint64_t i = 0; i < million * 1000000ull; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        sift(heap, DEVICES, heap[0] + 10000 + (random >> 50));
    }
    return heap[0] == 0;
}

/* Seconds of wall time and MiB at the peak, of a process that does nothing else. */
static void measure(const struct bench *bench, int (*what)(unsigned), unsigned million,
                    double *seconds, double *mib)
{
    struct rusage usage;
    int status;
    fflush(stdout);
    uint64_t begin_ns = clock_ns();
    pid_t child = fork();
    if (child == 0)
        _exit(what(million));
    while (child > 0 && wait4(child, &status, 0, &usage) < 0)
        if (errno != EINTR)
            child = -1;
    if (child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        stop(bench, "a run failed");
    *seconds = (double)(clock_ns() - begin_ns) / 1e9;
    *mib = (double)usage.ru_maxrss / 1024;
}

int main(int argc, char **argv)
{
    struct bench bench;
    double flat_mib = 0;
    bench_begin(&bench, "simulate", 3, argc, argv);
    printf("%d devices of four speeds, units of %d items, claimed; median (least-greatest) of %d; "
           "raw: a heap of the devices\n\n",
           DEVICES, UNIT_ITEMS, bench.repetitions);
    printf("%10s  %-22s %12s %10s  %8s  %-18s %s\n", "units", "seconds", "units/s", "peak MiB",
           "raw, s", "target", "verdict");
    for (size_t i = 0; i < ROWS; i++) {
        double seconds[REPETITIONS_MAX], mibs[REPETITIONS_MAX], raws[REPETITIONS_MAX], unused;
        for (int k = 0; k < bench.repetitions; k++) {
            measure(&bench, simulate, millions[i], &seconds[k], &mibs[k]);
            measure(&bench, raw, millions[i], &raws[k], &unused);
        }
        struct sample time = summarise(seconds, bench.repetitions),
                      memory = summarise(mibs, bench.repetitions),
                      limit = summarise(raws, bench.repetitions);
        flat_mib = i == 0 ? memory.median : flat_mib;
        bool is_met =
            time.median <= SECONDS_TARGET && memory.median <= flat_mib * MEMORY_RATIO_TARGET;
        char text[64], target[64];
        snprintf(text, sizeof text, "%.2f (%.2f-%.2f)", time.median, time.least, time.greatest);
        snprintf(target, sizeof target, "<= %.0f s, %.1f MiB", SECONDS_TARGET,
                 flat_mib * MEMORY_RATIO_TARGET);
        printf("%9uM  %-22s %12.0f %10.1f  %8.2f  %-18s %s\n", millions[i], text,
               millions[i] * 1e6 / time.median, memory.median, limit.median, target,
               verdict(is_met));
        row_begin(&bench, "claim mode");
        row_number(&bench, "units", millions[i] * 1e6);
        row_sample(&bench, "seconds", time);
        row_number(&bench, "units_per_s", millions[i] * 1e6 / time.median);
        row_sample(&bench, "peak_mib", memory);
        row_sample(&bench, "raw_seconds", limit);
        row_number(&bench, "target_seconds", SECONDS_TARGET);
        row_number(&bench, "target_mib", flat_mib * MEMORY_RATIO_TARGET);
        row_text(&bench, "verdict", verdict(is_met));
        row_end(&bench);
    }
    return bench_end(&bench);
}
