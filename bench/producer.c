/*
 * Memory while a producer is ten times faster than the consumer: jobs over ten million items whose
 * results go to a sink that takes ten times as long as making them does. Resident memory is sampled
 * all the time and must stay within what the window and the slots hold, however long the input is.
 *
 *     producer [--repetitions N] [--json FILE]
 *
 * The producer is the kernel, or a source that the job reads its items from; then there is a window
 * of them too. A slot holds a unit, and a unit is at most the window. Beside ours, the raw limit,
 * which is what the window holds, and what a queue without a bound would hold at its peak: nine
 * tenths of everything.
 */
#include "jobs.h"

#include <stdatomic.h>

#define ITEMS 10000000u
#define ITEM_BYTES 256u
#define WINDOW 4096u
#define DEPTH 2 /* slots of a device */
#define SLOWER 10
#define SAMPLES 10
#define SAMPLE_PAUSE_NS 2000000
/* Fewer samples of resident memory than that do not show a peak. */
#define SAMPLES_MIN 100

struct item {
    uint64_t words[ITEM_BYTES / sizeof(uint64_t)];
};
_Static_assert(sizeof(struct item) == ITEM_BYTES, "an item is its words");

static void fill(struct item *item, uint64_t number)
{
    for (size_t i = 0; i < sizeof item->words / sizeof *item->words; i++)
        item->words[i] = number + i;
}

static muster_status make_items(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t first = *(const uint64_t *)args[0];
    struct item *out = *(struct item *const *)args[1];
    for (uint64_t i = begin; i < end; i++)
        fill(&out[i], first + i);
    return MUSTER_OK;
}

static muster_status pass_items(uint64_t begin, uint64_t end, void *const *args)
{
    const struct item *in = *(const struct item *const *)args[0];
    struct item *out = *(struct item *const *)args[1];
    memcpy(&out[begin], &in[begin], (end - begin) * sizeof *in);
    return MUSTER_OK;
}

static int64_t supply(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    (void)user, (void)bytes;
    for (uint64_t i = 0; i < items; i++)
        fill((struct item *)to + i, begin + i);
    return (int64_t)items;
}

/* Resident memory, as the kernel counts it when asked to count. */
static uint64_t resident_bytes(const struct bench *bench)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    unsigned long long kib = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Rss: %llu kB", &kib) == 1)
            break;
    if (file)
        fclose(file);
    if (kib == 0)
        stop(bench, "/proc/self/smaps_rollup has no Rss");
    return kib * 1024;
}

struct consumer {
    uint64_t pause_ns_per_1000; /* items; 0: as fast as it can */
    uint64_t until_ns;
    uint64_t items, unit_max;
    _Atomic uint64_t delivered;
    bool is_wrong;
};

static muster_status consume(void *user, const struct muster_result *result)
{
    struct consumer *consumer = user;
    const struct item *items = result->outputs[0];
    uint64_t count = result->range.end - result->range.begin;
    consumer->is_wrong = consumer->is_wrong || result->range.begin != consumer->items ||
                         items[0].words[0] != result->range.begin ||
                         items[count - 1].words[1] != result->range.end;
    consumer->items = result->range.end;
    consumer->unit_max = count > consumer->unit_max ? count : consumer->unit_max;
    uint64_t now_ns = clock_ns();
    if (consumer->until_ns < now_ns)
        consumer->until_ns = now_ns;
    consumer->until_ns += count * consumer->pause_ns_per_1000 / 1000;
    while (clock_ns() < consumer->until_ns)
        continue;
    atomic_store(&consumer->delivered, consumer->items);
    return MUSTER_OK;
}

struct setting {
    const char *name;
    bool has_source;
    uint64_t window;
};

static const struct setting settings[] = {
    { "kernel, window of 4,096", false, WINDOW },
    { "source, window of 4,096", true, WINDOW },
    { "kernel, window by Muster", false, 0 },
};

static struct muster_job_desc describe(const struct setting *setting, struct muster_kernel *kernel,
                                       const struct muster_arg *args, uint64_t items,
                                       struct consumer *consumer)
{
    return (struct muster_job_desc){ .size = sizeof(struct muster_job_desc),
                                     .kernel = kernel,
                                     .items = items,
                                     .args = args,
                                     .arg_count = 2,
                                     .sink = consume,
                                     .sink_user = consumer,
                                     .source = setting->has_source ? supply : NULL,
                                     .options = &(struct muster_run_options){
                                         .size = sizeof(struct muster_run_options),
                                         .window = setting->window,
                                         .depth = DEPTH } };
}

struct measured {
    uint64_t peak, unit_max;
    uint64_t estimate;   /* muster_job_memory_estimate */
    uint64_t bound;      /* the window and the slots, or else the estimate */
    double mib[SAMPLES]; /* extra resident memory when each tenth was delivered */
    unsigned sample_count;
};

/* Watches resident memory until the job is over. */
static void watch(const struct bench *bench, struct muster_job *job, struct consumer *consumer,
                  uint64_t before, struct measured *out)
{
    struct muster_progress progress = { .size = sizeof progress };
    unsigned filled = 0;
    do {
        struct timespec pause = { 0, SAMPLE_PAUSE_NS };
        nanosleep(&pause, NULL);
        uint64_t now = resident_bytes(bench), extra = now > before ? now - before : 0;
        out->peak = extra > out->peak ? extra : out->peak;
        out->sample_count++;
        uint64_t tenths = atomic_load(&consumer->delivered) * SAMPLES / ITEMS;
        while (filled < tenths)
            out->mib[filled++] = (double)extra / (1 << 20);
        if (muster_job_progress(job, &progress, NULL) != MUSTER_OK)
            stop(bench, "a job does not tell its progress");
    } while (!progress.is_over);
    while (filled < SAMPLES) {
        out->mib[filled] = filled > 0 ? out->mib[filled - 1] : 0;
        filled++;
    }
}

static void measure(const struct bench *bench, const struct setting *setting, struct measured *out)
{
    struct muster *m = open_runtime(bench, "cpu", NULL);
    struct muster_kernel *kernel =
        make_kernel(bench, m, setting->has_source ? pass_items : make_items);
    const struct muster_arg kernel_makes[] = {
        MUSTER_FIRST, { MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = sizeof(struct item) }
    };
    const struct muster_arg source_makes[] = {
        MUSTER_SOURCE(struct item), { MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = sizeof(struct item) }
    };
    const struct muster_arg *args = setting->has_source ? source_makes : kernel_makes;
    struct muster_report report;
    struct muster_error err;
    struct muster_job *job;

    /* How fast they are made when nobody holds them up; and all that a first job brings with it. */
    struct consumer fast = { 0 };
    struct muster_job_desc desc = describe(setting, kernel, args, ITEMS / 10, &fast);
    run_job(bench, m, &desc, &report);
    uint64_t made_ns_per_1000 = report.makespan_ns / (ITEMS / 10 / 1000);

    struct consumer slow = { .pause_ns_per_1000 = SLOWER * made_ns_per_1000 };
    desc = describe(setting, kernel, args, ITEMS, &slow);
    *out = (struct measured){ 0 };
    if (muster_job_memory_estimate(m, &desc, &out->estimate, &err) != MUSTER_OK)
        stop(bench, err.text);
    size_t devices;
    if (muster_device_list(m, NULL, 0, &devices, NULL) != MUSTER_E_CAPACITY)
        stop(bench, "there are no devices");
    out->bound = setting->window == 0 ? out->estimate
                                      : setting->window * ITEM_BYTES * (1 + DEPTH * devices) *
                                            (setting->has_source ? 2 : 1);
    uint64_t before = resident_bytes(bench);
    if (muster_start(m, &desc, &job, &err) != MUSTER_OK)
        stop(bench, err.text);
    watch(bench, job, &slow, before, out);
    if (muster_job_wait(job, NULL, &err) != MUSTER_OK)
        stop(bench, err.text);
    muster_job_destroy(job);
    muster_close(m, NULL);
    out->unit_max = slow.unit_max;
    if (slow.is_wrong || slow.items != ITEMS)
        stop(bench, "the sink did not get all items in order");
    if (out->sample_count < SAMPLES_MIN)
        stop(bench, "too few samples of resident memory");
}

static void take_row(struct bench *bench, const struct setting *setting)
{
    double peaks[REPETITIONS_MAX];
    struct measured measured;
    for (int i = 0; i < bench->repetitions; i++) {
        measure(bench, setting, &measured);
        peaks[i] = (double)measured.peak / (1 << 20);
    }
    struct sample peak = summarise(peaks, bench->repetitions);
    double target = (double)measured.bound / (1 << 20);
    double window = (double)setting->window * ITEM_BYTES / (1 << 20);
    char window_text[32] = "-";
    if (setting->window > 0)
        snprintf(window_text, sizeof window_text, "%.2f", window);
    printf("%-26s %6.2f (%.2f-%.2f)  %8s  %8.0f   <= %-7.2f %-7s ", setting->name, peak.median,
           peak.least, peak.greatest, window_text, (double)ITEMS * ITEM_BYTES * 0.9 / (1 << 20),
           target, verdict(peak.greatest <= target));
    for (int i = 0; i < SAMPLES; i++)
        printf(" %.1f", measured.mib[i]);
    printf("\n");
    row_begin(bench, setting->name);
    row_text(bench, "unit", "MiB");
    row_number(bench, "items", ITEMS);
    row_number(bench, "item_bytes", ITEM_BYTES);
    row_number(bench, "largest_unit_items", (double)measured.unit_max);
    row_sample(bench, "peak_extra", peak);
    if (setting->window > 0)
        row_number(bench, "raw_window", window);
    row_number(bench, "estimate", (double)measured.estimate / (1 << 20));
    row_number(bench, "unbounded", (double)ITEMS * ITEM_BYTES * 0.9 / (1 << 20));
    row_numbers(bench, "at_each_tenth", measured.mib, SAMPLES);
    row_number(bench, "target", target);
    row_text(bench, "verdict", verdict(peak.greatest <= target));
    row_end(bench);
}

int main(int argc, char **argv)
{
    struct bench bench;
    bench_begin(&bench, "producer", 3, argc, argv);
    printf(
        "%u items of %u bytes, made %d times as fast as they are taken; MiB of resident memory "
        "beyond that\nbefore the job, median (least-greatest) of %d; target: what the window and "
        "the slots hold\n\n",
        ITEMS, ITEM_BYTES, SLOWER, bench.repetitions);
    printf("%-26s %-18s  %8s  %8s   %-10s %-8s%s\n", "made by", "ours, peak", "raw", "no bound",
           "target", "verdict", "as each tenth of the items was delivered");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        take_row(&bench, &settings[i]);
    return bench_end(&bench);
}
