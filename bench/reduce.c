/*
 * Reductions beside gcc's OpenMP and beside what memory and links allow.
 *
 *     reduce [--items LOG2] [--devices LIST] [--resident 1] [--check 1] [--profile 1] [--repetitions N] [--json FILE]
 *
 * On processors (without --devices): muster_reduce, start to end, over arrays in plain memory; the same sum
 * by OpenMP's `reduction`, in this file, compiled with -O3 -march=native; and the raw limit, the bytes at
 * the rate at which all cores read memory. With --devices: the same jobs on those devices, over memory that
 * is pinned, and the raw limit is the driver's own copies to the first of them.
 *
 * With --resident 1 the data is on the device already, as it is for CUB in reduce_cub.cu; there is no target.
 * --profile 1 prints where the time of the last run of each row went.
 *
 * --check 1 also runs every row on cpu, on the devices, on both, on both with a simulated device that is
 * lost on the way, and in ten sizes of units, and compares the bits; a difference is a failure.
 */
#include "jobs.h"
#include "limit.h"

#include <muster/reduce.h>
#include <omp.h>

#define PAUSE_US 10000
#define TARGET 0.9
#define LINK_UNIT ((uint64_t)16 << 20)

struct histogram {
    uint64_t bins[256];
};

static float *x, *y;
static volatile uint64_t sunk;

/* The loops by hand. */

static void peer_sum(uint64_t items, void *result)
{
    double all = 0;
    const float *from = x;
#pragma omp parallel for simd reduction(+ : all)
    for (uint64_t i = 0; i < items; i++)
        all += from[i];
    memcpy(result, &all, sizeof all);
}

static void peer_dot(uint64_t items, void *result)
{
    double all = 0;
    const float *from = x, *other = y;
#pragma omp parallel for simd reduction(+ : all)
    for (uint64_t i = 0; i < items; i++)
        all += (double)from[i] * (double)other[i];
    memcpy(result, &all, sizeof all);
}

static void peer_histogram(uint64_t items, void *result)
{
    uint64_t bins[256] = { 0 };
    const uint8_t *bytes = (const uint8_t *)x;
#pragma omp parallel for reduction(+ : bins[:256])
    for (uint64_t i = 0; i < items; i++)
        bins[bytes[i]]++;
    memcpy(result, bins, sizeof bins);
}

static const struct row {
    const char *what, *entry;
    void (*peer)(uint64_t items, void *result);
    size_t item_bytes, arrays, result_bytes;
} rows[] = {
    { "sum of floats, in double", "sum", peer_sum, sizeof(float), 1, sizeof(double) },
    { "dot of floats, in double", "dot", peer_dot, sizeof(float), 2, sizeof(double) },
    { "256 bins of bytes", "histogram", peer_histogram, 1, 1, sizeof(struct histogram) },
};

struct subject {
    struct bench bench;
    struct muster *m;
    struct muster_kernel *kernel;
    const struct row *row;
    uint64_t items;
    const char *devices; /* NULL: processors */
    bool checks, profiles, is_resident;
    muster_block blocks[2]; /* the arrays, where they are resident */
    char cpus[256];         /* the ids of all processors */
};

static void reduce_into(const struct subject *of, const char *devices, uint64_t unit_items,
                        void *result, struct muster_report *report)
{
    struct muster_arg args[2];
    struct muster_error err;
    const struct muster_run_options options = { .size = sizeof options,
                                                .devices = devices,
                                                .unit_items = unit_items };
    for (size_t i = 0; i < of->row->arrays; i++) {
        args[i] = (struct muster_arg){ MUSTER_ARG_OF(MUSTER_ARG_IN), .in = i == 0 ? x : y,
                                       .bytes = of->row->item_bytes };
        if (of->is_resident)
            args[i] = (struct muster_arg){ MUSTER_ARG_OF(MUSTER_ARG_DEVICE_IN),
                                           .block = of->blocks[i], .bytes = of->row->item_bytes };
    }
    if (muster_reduce(of->m, of->kernel, of->items, args, of->row->arrays, result,
                      of->row->result_bytes, &options, report, &err) != MUSTER_OK)
        stop(&of->bench, err.text);
}

static void reduce(const struct subject *of, const char *devices, uint64_t unit_items, void *result)
{
    reduce_into(of, devices, unit_items, result, NULL);
}

/* Where the time of one more run goes. */
static void profile(const struct subject *of)
{
    struct muster_job_device devices[REPORT_DEVICES_MAX];
    struct muster_report report = full_report(devices);
    struct histogram found;
    uint64_t begin_ns = clock_ns();
    reduce_into(of, of->devices ? of->devices : of->cpus, 0, &found, &report);
    printf("  us: %.0f in all, makespan %.0f = bound %.0f + start %.0f + transfer %.0f + overhead "
           "%.0f + "
           "starved %.0f + tail %.0f; %llu units",
           (double)(clock_ns() - begin_ns) / 1e3, (double)report.makespan_ns / 1e3,
           (double)report.bound_ns / 1e3, (double)report.startup_ns / 1e3,
           (double)report.transfer_ns / 1e3, (double)report.overhead_ns / 1e3,
           (double)report.starved_ns / 1e3, (double)report.tail_ns / 1e3,
           (unsigned long long)report.units);
    for (size_t i = 0; i < report.device_count; i++)
        printf("; %s: %llu items in %llu units, busy %.0f", devices[i].id,
               (unsigned long long)devices[i].items, (unsigned long long)devices[i].units,
               (double)devices[i].busy_ns / 1e3);
    printf("\n");
}

/* Bytes a second that all cores read together. */
static double memory_rate(const struct subject *of)
{
    const uint64_t *words = (const uint64_t *)(const void *)x, quarter = of->items / 8;
    uint64_t sum = 0, begin_ns = clock_ns();
    /* At four places at once: one alone does not keep the memory busy. */
#pragma omp parallel for simd reduction(+ : sum)
    for (uint64_t i = 0; i < quarter; i++)
        sum += words[i] + words[quarter + i] + words[2 * quarter + i] + words[3 * quarter + i];
    sunk = sum;
    return (double)(4 * quarter) * sizeof *words * 1e9 / (double)(clock_ns() - begin_ns);
}

/* Bytes a second that the driver copies to the device from this memory, by three streams in turn. */
static double link_rate(const struct subject *of, const struct limit_lane *lane)
{
    const struct limit_driver *driver = &lane->limit->driver;
    uint64_t bytes = of->items * sizeof *x, units = bytes / LINK_UNIT, begin_ns = clock_ns();
    for (uint64_t i = 0; i < units; i++)
        if (driver->copy_in(lane->memory[i % LIMIT_STREAMS], (const char *)x + i * LINK_UNIT,
                            LINK_UNIT, lane->streams[i % LIMIT_STREAMS]) != 0)
            stop(&of->bench, "the driver refused a copy");
    for (int s = 0; s < LIMIT_STREAMS; s++)
        driver->synchronize(lane->streams[s]);
    return (double)(units * LINK_UNIT) * 1e9 / (double)(clock_ns() - begin_ns);
}

/* The ids of all processors, one for each node, separated by commas. */
static void name_processors(const struct subject *of, char *ids, size_t room)
{
    muster_device all[REPORT_DEVICES_MAX];
    size_t count = 0;
    struct muster_error err;
    if (muster_device_list(of->m, all, REPORT_DEVICES_MAX, &count, &err) != MUSTER_OK)
        stop(&of->bench, err.text);
    for (size_t i = 0; i < count; i++) {
        struct muster_device_info info = { .size = sizeof info };
        size_t used = strlen(ids);
        if (muster_device_info(of->m, all[i], &info, &err) == MUSTER_OK &&
            strncmp(info.id, "cpu:", 4) == 0)
            snprintf(ids + used, room - used, "%s%s", used > 0 ? "," : "", info.id);
    }
}

/* One for each row: once lost, a device is gone. */
#define LOST                                                                                       \
    "[{\"count\": 3, \"items_per_s\": 1e6, \"faults\": [{\"kind\": \"lost\", \"at_launch\": 3}]}]"
#define SIZES 10

/* Everywhere, and in ten sizes of units: the bits of the first run. */
static bool check(const struct subject *of, const void *expected)
{
    char both[512], lost[560];
    struct histogram found;
    bool is_equal = true;
    const char *sets[] = { of->cpus, of->devices, both, lost };
    snprintf(both, sizeof both, "%s%s%s", of->cpus, of->devices ? "," : "",
             of->devices ? of->devices : "");
    snprintf(lost, sizeof lost, "%s,sim:%d", both, (int)(of->row - rows));
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        if (!of->devices && (i == 1 || i == 2))
            continue;
        reduce(of, sets[i], 0, &found);
        is_equal = is_equal && memcmp(&found, expected, of->row->result_bytes) == 0;
        printf("  %-12s %-40s %s\n", of->row->entry, sets[i], is_equal ? "equal" : "DIFFERS");
    }
    /* From a thousandth of the items on, each twice the one before and a little more. */
    for (uint64_t i = 0, unit = of->items >> 10; i < SIZES; i++, unit = 2 * unit + 4097) {
        reduce(of, of->devices ? of->devices : of->cpus, unit, &found);
        is_equal = is_equal && memcmp(&found, expected, of->row->result_bytes) == 0;
    }
    printf("  %-12s %-40s %s\n", of->row->entry, "ten sizes of units",
           is_equal ? "equal" : "DIFFER");
    return is_equal;
}

static bool measure(struct subject *of, const struct limit_lane *lane)
{
    static double ours[REPETITIONS_MAX], peer[REPETITIONS_MAX], raw[REPETITIONS_MAX],
        ratios[REPETITIONS_MAX];
    struct bench *bench = &of->bench;
    struct histogram first, found;
    bool is_equal = true;
    double bytes = (double)of->items * (double)(of->row->item_bytes * of->row->arrays);
    for (int r = -1; r < bench->repetitions; r++) {
        usleep(PAUSE_US);
        uint64_t begin_ns = clock_ns();
        reduce(of, of->devices ? of->devices : of->cpus, 0, &found);
        double ours_ns = (double)(clock_ns() - begin_ns), peer_ns = 0;
        if (r < 0)
            first = found;
        is_equal = is_equal && memcmp(&found, &first, of->row->result_bytes) == 0;
        usleep(PAUSE_US);
        double rate = lane ? link_rate(of, lane) : memory_rate(of);
        if (!lane) {
            usleep(PAUSE_US);
            begin_ns = clock_ns();
            of->row->peer(of->items, &found);
            peer_ns = (double)(clock_ns() - begin_ns);
        }
        if (r < 0)
            continue;
        ours[r] = bytes / ours_ns;
        peer[r] = lane ? 0 : bytes / peer_ns;
        raw[r] = rate / 1e9;
        ratios[r] = ours[r] / (lane ? raw[r] : peer[r]);
    }
    struct sample a = summarise(ours, bench->repetitions), b = summarise(peer, bench->repetitions),
                  c = summarise(raw, bench->repetitions),
                  ratio = summarise(ratios, bench->repetitions);
    printf("%-26s %7.2f (%.2f-%.2f)  %7.2f (%.2f-%.2f)  %7.2f  %6.3f (%.3f-%.3f) %-6s %s\n",
           of->row->what, a.median, a.least, a.greatest, b.median, b.least, b.greatest, c.median,
           ratio.median, ratio.least, ratio.greatest,
           of->is_resident ? "-" : verdict(ratio.median >= TARGET), is_equal ? "equal" : "DIFFER");
    if (of->profiles)
        profile(of);
    row_begin(bench, of->row->what);
    row_number(bench, "items", (double)of->items);
    row_text(bench, "devices", of->devices ? of->devices : "cpu");
    row_sample(bench, "ours_gb_per_s", a);
    if (!lane)
        row_sample(bench, "openmp_gb_per_s", b);
    row_sample(bench, "raw_gb_per_s", c);
    row_sample(bench, lane ? "of_the_link" : "of_openmp", ratio);
    if (of->is_resident) {
        row_text(bench, "data", "on the device");
    } else {
        row_number(bench, "target", TARGET);
        row_text(bench, "verdict", verdict(ratio.median >= TARGET));
    }
    row_text(bench, "bits", is_equal ? "equal" : "DIFFER");
    row_end(bench);
    return is_equal && (!of->checks || check(of, &first));
}

static void open_kernel(struct subject *of)
{
    char path[512];
    struct muster_error err;
    /* Built elsewhere, it finds them from the folder that it is started in. */
    snprintf(path, sizeof path, "%s/%s.c",
             access(MUSTER_EXAMPLE_KERNELS, R_OK) == 0 ? MUSTER_EXAMPLE_KERNELS
                                                       : "examples/kernels",
             of->row->entry);
    if (muster_kernel_load(of->m, path, of->row->entry, &of->kernel, &err) != MUSTER_OK)
        stop(&of->bench, err.text);
}

/* Pinned for the first of the devices, or plain. */
static float *take(const struct subject *of, muster_device device)
{
    struct muster_error err;
    void *memory = NULL;
    if (of->devices) {
        if (muster_host_allocate(of->m, device, of->items * sizeof *x, &memory, &err) != MUSTER_OK)
            stop(&of->bench, err.text);
    } else if (!(memory = aligned_alloc(4096, of->items * sizeof *x))) {
        stop(&of->bench, "out of memory");
    }
    float *numbers = memory;
#pragma omp parallel for
    for (uint64_t i = 0; i < of->items; i++)
        numbers[i] = (float)((i * 2654435761u) >> 8 & 0xffff) * 1e-3f - 30.0f;
    return numbers;
}

/* Copies of both arrays on the device. */
static void make_resident(struct subject *of, muster_device device)
{
    struct muster_error err;
    muster_stream stream;
    uint64_t bytes = of->items * sizeof *x;
    bool is_done = muster_stream_acquire(of->m, device, 0, &stream, &err) == MUSTER_OK;
    for (size_t i = 0; i < 2; i++)
        is_done = is_done &&
                  muster_block_allocate(of->m, stream, bytes, &of->blocks[i], &err) == MUSTER_OK &&
                  muster_copy_in(of->m, stream, of->blocks[i], 0, i == 0 ? x : y, bytes, &err) ==
                      MUSTER_OK;
    if (!is_done || muster_stream_wait(of->m, stream, UINT64_MAX, &err) != MUSTER_OK)
        stop(&of->bench, err.text);
    muster_stream_release(of->m, stream, NULL);
}

int main(int argc, char **argv)
{
    struct subject of = { .items = (uint64_t)1 << 27 };
    struct limit limit;
    struct limit_lane lane;
    char first[24] = "";
    int kept = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--items") == 0 && atoi(argv[i + 1]) >= 23 && atoi(argv[i + 1]) <= 34) {
            of.items = (uint64_t)1 << atoi(argv[i + 1]);
        } else if (strcmp(argv[i], "--devices") == 0) {
            of.devices = argv[i + 1];
        } else if (strcmp(argv[i], "--check") == 0) {
            of.checks = atoi(argv[i + 1]) != 0;
        } else if (strcmp(argv[i], "--profile") == 0) {
            of.profiles = atoi(argv[i + 1]) != 0;
        } else if (strcmp(argv[i], "--resident") == 0) {
            of.is_resident = atoi(argv[i + 1]) != 0;
        } else {
            argv[kept++] = argv[i];
            argv[kept++] = argv[i + 1];
        }
    }
    bench_begin(&of.bench, "reduce", 7, kept, argv);
    if (of.is_resident && (!of.devices || of.checks || strchr(of.devices, ',')))
        stop(&of.bench, "--resident 1 goes with one device and without --check");
    of.m = open_runtime(&of.bench,
                        of.devices  ? NULL
                        : of.checks ? "cpu,sim"
                                    : "cpu",
                        of.checks ? LOST : NULL);
    name_processors(&of, of.cpus, sizeof of.cpus);
    muster_device device = { 0, 0 };
    struct muster_device_info info = { .size = sizeof info };
    struct muster_error err;
    if (of.devices) {
        snprintf(first, sizeof first, "%.*s", (int)strcspn(of.devices, ","), of.devices);
        if (muster_device_find(of.m, first, &device, &err) != MUSTER_OK ||
            muster_device_info(of.m, device, &info, &err) != MUSTER_OK)
            stop(&of.bench, err.text);
        limit_open(&limit, &of.bench, &info, 0);
        if (!limit.is_cuda)
            stop(&of.bench, "--devices begins with a cuda device, whose link is measured");
        limit_lane_open(&lane, &limit, LINK_UNIT);
    }
    x = take(&of, device);
    y = take(&of, device);
    if (of.is_resident)
        make_resident(&of, device);
    printf("2^%d items; GB/s, median (least-greatest) of %d; target: ours / %s >= %.1f\n\n"
           "%-26s %-22s  %-22s  %-7s  ratio\n",
           63 - __builtin_clzll(of.items), of.bench.repetitions, of.devices ? "link" : "OpenMP",
           TARGET, "", of.devices ? of.devices : "ours", of.devices ? "" : "OpenMP",
           of.devices ? "link" : "memory");
    bool is_equal = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        of.row = &rows[i];
        open_kernel(&of);
        is_equal = measure(&of, of.devices ? &lane : NULL) && is_equal;
        muster_kernel_destroy(of.kernel);
    }
    if (of.devices) {
        limit_lane_close(&lane);
        limit_close(&limit);
    } else {
        free(x);
        free(y);
    }
    muster_close(of.m, NULL);
    int code = bench_end(&of.bench);
    return is_equal ? code : 1;
}
