/*
 * What order costs: the throughput of jobs that deliver in item order beside the same jobs that
 * deliver as results come. Items cost unequal time, the sink looks at every result, and the devices
 * are the processors of this machine, alone or with simulated ones of other speeds.
 *
 *     order [--repetitions N] [--json FILE]
 *
 * The two kinds of run take turns, and each pair gives a ratio. Beside them, where there are no
 * simulated devices, the raw limit: as many threads that claim units with an atomic counter and call
 * the sink under a lock, in any order.
 */
#include "jobs.h"

#include <sched.h>
#include <stdatomic.h>

#define RATIO_TARGET 0.97
#define ITEMS 1000000u
#define STEPS_MEAN 120u
/* Items of one block cost the same, so that units differ. */
#define BLOCK_ITEMS 256u
#define SINK_STEPS 8u
#define THREADS_MAX 256
#define RAW_UNIT_MAX 16384u
/* A run that is shorter says nothing about throughput. */
#define RUN_NS_MIN 30000000u

static const char three_devices[] =
    "[{\"items_per_s\": 1e6, \"launch_ns\": 4000, \"jitter\": 0.3},"
    " {\"items_per_s\": 2e6, \"launch_ns\": 4000, \"jitter\": 0.3},"
    " {\"items_per_s\": 4e6, \"launch_ns\": 4000, \"jitter\": 0.3}]";

struct setting {
    const char *name, *sim;
    uint64_t unit_items, window;
};

static const struct setting settings[] = {
    { "cpu, adaptive units", NULL, 0, 0 },
    { "cpu, units of 256", NULL, 256, 0 },
    { "cpu, units of 16,384", NULL, 16384, 0 },
    { "cpu and 1:2:4, adaptive units", three_devices, 0, 0 },
    { "cpu and 1:2:4, units of 256", three_devices, 256, 0 },
    { "cpu and 1:2:4, units of 4,096", three_devices, 4096, 0 },
    { "cpu and 1:2:4, a window of 65,536", three_devices, 0, 65536 },
};

/* Between nothing and twice the mean, the same for a block of items wherever it is run. */
static unsigned steps_of(uint64_t item)
{
    return (unsigned)(spend(item / BLOCK_ITEMS + 1, 4) >> 32) % (2 * STEPS_MEAN + 1);
}

static muster_status compute(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t first = *(const uint64_t *)args[0];
    uint64_t *out = *(uint64_t *const *)args[1];
    for (uint64_t i = begin; i < end; i++)
        out[i] = is_simulated() ? first + i : spend(first + i, steps_of(first + i));
    return MUSTER_OK;
}

struct consumer {
    uint64_t sum, items, next, out_of_order;
};

static void consume(struct consumer *consumer, struct muster_range range, const uint64_t *values)
{
    consumer->out_of_order += range.begin != consumer->next;
    consumer->next = range.end;
    for (uint64_t i = 0; i < range.end - range.begin; i++)
        consumer->sum += spend(values[i], SINK_STEPS);
    consumer->items += range.end - range.begin;
}

static muster_status sink(void *user, const struct muster_result *result)
{
    consume(user, result->range, result->outputs[0]);
    return MUSTER_OK;
}

/* Items a second. */
static double measure(const struct bench *bench, struct muster *m, struct muster_kernel *kernel,
                      const struct setting *setting, bool is_ordered)
{
    const struct muster_arg args[] = {
        MUSTER_FIRST, { MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = sizeof(uint64_t) }
    };
    struct consumer consumer = { 0 };
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .kernel = kernel,
                                    .items = ITEMS,
                                    .args = args,
                                    .arg_count = 2,
                                    .sink = sink,
                                    .sink_user = &consumer,
                                    .options = &(struct muster_run_options){
                                        .size = sizeof(struct muster_run_options),
                                        .unit_items = setting->unit_items,
                                        .window = setting->window,
                                        .unordered = !is_ordered } };
    struct muster_report report;
    uint64_t begin_ns = clock_ns();
    run_job(bench, m, &desc, &report);
    uint64_t took_ns = clock_ns() - begin_ns;
    if (consumer.items != ITEMS || (is_ordered && consumer.out_of_order > 0))
        stop(bench, "the sink did not get all items in order");
    if (took_ns < RUN_NS_MIN)
        stop(bench, "a run was too short to be measured");
    return ITEMS * 1e9 / (double)took_ns;
}

/* The raw limit. */

static struct raw {
    _Atomic uint64_t next;
    uint64_t unit_items;
    pthread_mutex_t lock;
    struct consumer consumer;
} raw = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void *raw_work(void *user)
{
    static _Thread_local uint64_t values[RAW_UNIT_MAX];
    struct muster_range range;
    while ((range.begin = atomic_fetch_add(&raw.next, raw.unit_items)) < ITEMS) {
        range.end = range.begin + raw.unit_items < ITEMS ? range.begin + raw.unit_items : ITEMS;
        for (uint64_t i = range.begin; i < range.end; i++)
            values[i - range.begin] = spend(i, steps_of(i));
        pthread_mutex_lock(&raw.lock);
        consume(&raw.consumer, range, values);
        pthread_mutex_unlock(&raw.lock);
    }
    return user;
}

static double measure_raw(const struct bench *bench, uint64_t unit_items)
{
    pthread_t threads[THREADS_MAX];
    cpu_set_t allowed;
    int count = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    count = count < THREADS_MAX ? count : THREADS_MAX;
    atomic_store(&raw.next, 0);
    raw.unit_items = unit_items;
    raw.consumer = (struct consumer){ 0 };
    uint64_t begin_ns = clock_ns();
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, raw_work, NULL) != 0)
            stop(bench, "no thread");
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    if (raw.consumer.items != ITEMS)
        stop(bench, "the raw loop missed items");
    return ITEMS * 1e9 / (double)(clock_ns() - begin_ns);
}

static void take_row(struct bench *bench, const struct setting *setting)
{
    double ordered[REPETITIONS_MAX], unordered[REPETITIONS_MAX], plain[REPETITIONS_MAX],
        ratios[REPETITIONS_MAX];
    struct muster *m = open_runtime(bench, setting->sim ? "cpu,sim" : "cpu", setting->sim);
    struct muster_kernel *kernel = make_kernel(bench, m, compute);
    measure(bench, m, kernel, setting, true);
    for (int i = 0; i < bench->repetitions; i++) {
        bool is_first = i % 2 == 0; /* the second may find it warmer */
        if (is_first)
            ordered[i] = measure(bench, m, kernel, setting, true);
        unordered[i] = measure(bench, m, kernel, setting, false);
        if (!is_first)
            ordered[i] = measure(bench, m, kernel, setting, true);
        ratios[i] = ordered[i] / unordered[i];
        if (!setting->sim)
            plain[i] = measure_raw(bench, setting->unit_items ? setting->unit_items : 1024);
    }
    muster_close(m, NULL);
    struct sample ratio = summarise(ratios, bench->repetitions);
    struct sample with = summarise(ordered, bench->repetitions),
                  without = summarise(unordered, bench->repetitions);
    char raw_text[32] = "-";
    row_begin(bench, setting->name);
    row_text(bench, "unit", "items/s");
    row_sample(bench, "ordered", with);
    row_sample(bench, "unordered", without);
    if (!setting->sim) {
        struct sample limit = summarise(plain, bench->repetitions);
        snprintf(raw_text, sizeof raw_text, "%.2f", limit.median / 1e6);
        row_sample(bench, "raw", limit);
    }
    row_sample(bench, "ratio", ratio);
    row_number(bench, "target", RATIO_TARGET);
    row_text(bench, "verdict", verdict(ratio.median >= RATIO_TARGET));
    printf("%-36s %8.2f %10.2f %8s   %.3f (%.3f-%.3f)     >= %.2f  %s\n", setting->name,
           with.median / 1e6, without.median / 1e6, raw_text, ratio.median, ratio.least,
           ratio.greatest, RATIO_TARGET, verdict(ratio.median >= RATIO_TARGET));
    row_end(bench);
}

int main(int argc, char **argv)
{
    struct bench bench;
    bench_begin(&bench, "order", 25, argc, argv);
    printf(
        "%u items of unequal cost, a sink that looks at each; million items a second, medians of "
        "%d;\nraw: threads, an atomic counter, the sink under a lock\n\n",
        ITEMS, bench.repetitions);
    printf("%-36s %8s %10s %8s   %-22s %-8s %s\n", "", "ordered", "unordered", "raw",
           "ordered / unordered", "target", "verdict");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        take_row(&bench, &settings[i]);
    return bench_end(&bench);
}
