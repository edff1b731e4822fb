/*
 * One kernel file on every device, alone and all together: the same bytes everywhere, the share that
 * each took, and how near the whole came to what its parts can do.
 *
 *     everywhere [--bytes N] [--rounds N] [--kernel FILE] [--pinned ID] [--workers N]
 *                [--json FILE] [IDS...]
 *
 * Each IDS is a comma-separated list of devices that run the job together; without any, all devices.
 * Each device of a list is measured alone first; the sum of these rates is the bound. Slices are
 * made by MUSTER_SLICES, and OpenCL beside CUDA on one GPU is asked for by naming both.
 */
#include <muster/muster.h>
#include <muster_kernel.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/mix.c"

#ifndef MUSTER_COMMIT
#define MUSTER_COMMIT "unknown"
#endif
#define REPETITIONS 3
#define DEVICES_MAX 64
#define RESULTS_MAX 64
/* One item in this many is compared with a serial run. */
#define SAMPLED 1009

struct result {
    char ids[256];
    double seconds, rate, bound_rate; /* items a second */
    bool is_equal;
    struct muster_report report;
    struct muster_job_device devices[DEVICES_MAX];
};

static struct bench {
    uint64_t bytes, items;
    uint32_t rounds, workers;
    const char *kernel_file, *pinned, *json;
    struct muster *m;
    struct muster_kernel *kernel;
    uint32_t *in, *out, *first;
    struct result results[RESULTS_MAX];
    size_t count;
} b = { .bytes = UINT64_C(1) << 30, .rounds = 4, .kernel_file = "bench/kernels/mix.c" };

static struct muster_error problem;

static void fail(const char *what)
{
    fprintf(stderr, "everywhere: %s: %s%s%s\n", what, problem.text, problem.fix[0] ? "; " : "",
            problem.fix);
    exit(1);
}

/* Memory that is pinned for one device, or plain. */
static uint32_t *take(void)
{
    void *memory = NULL;
    if (b.pinned) {
        muster_device device;
        if (muster_device_find(b.m, b.pinned, &device, &problem) != MUSTER_OK ||
            muster_host_allocate(b.m, device, b.bytes, &memory, &problem) != MUSTER_OK)
            fail("pinned memory");
    } else {
        memory = malloc(b.bytes);
    }
    if (!memory)
        fail("out of memory");
    return memory;
}

/* The fastest of a few runs of the job on these devices. */
static void run(const char *ids, struct result *result)
{
    struct muster_arg args[] = { MUSTER_VALUE(b.rounds), MUSTER_IN(b.in), MUSTER_OUT(b.out) };
    const struct muster_run_options options = { .size = sizeof options, .devices = ids };
    snprintf(result->ids, sizeof result->ids, "%s", ids);
    result->is_equal = true;
    for (int i = 0; i < REPETITIONS; i++) {
        struct muster_job_device devices[DEVICES_MAX];
        struct muster_report report = { .size = sizeof report,
                                        .devices = devices,
                                        .device_capacity = DEVICES_MAX };
        for (int d = 0; d < DEVICES_MAX; d++)
            devices[d].size = sizeof *devices;
        memset(b.out, 0xee, b.bytes);
        if (muster_for(b.m, b.kernel, b.items, args, 3, &options, &report, &problem) != MUSTER_OK)
            fail(ids);
        for (uint64_t item = 0; item < b.items; item += SAMPLED * (1 + b.rounds / 16)) {
            uint32_t got = b.out[item];
            mix(item, b.rounds, b.in, b.out);
            result->is_equal = result->is_equal && got == b.out[item];
        }
        if (!b.first) {
            b.first = malloc(b.bytes);
            if (!b.first)
                fail("out of memory");
            memcpy(b.first, b.out, b.bytes);
        }
        result->is_equal = result->is_equal && memcmp(b.first, b.out, b.bytes) == 0;
        double seconds = (double)report.makespan_ns / 1e9;
        if (i == 0 || seconds < result->seconds) {
            result->seconds = seconds;
            result->report = report;
            result->report.devices = result->devices;
            memcpy(result->devices, devices, sizeof devices);
        }
    }
    result->rate = (double)b.items / result->seconds;
}

static const struct result *find(const char *ids)
{
    for (size_t i = 0; i < b.count; i++)
        if (strcmp(b.results[i].ids, ids) == 0)
            return &b.results[i];
    return NULL;
}

static void print(const struct result *result)
{
    printf("%-28s %8.1f ms %7.2f GB/s  ratio %5.3f  bytes %s\n", result->ids, result->seconds * 1e3,
           (double)b.bytes / result->seconds / 1e9, result->bound_rate / result->rate,
           result->is_equal ? "equal" : "DIFFER");
    for (size_t i = 0; i < result->report.device_count && result->report.device_count > 1; i++) {
        const struct muster_job_device *device = &result->report.devices[i];
        printf("    %-24s %5.1f %%  busy %5.1f %%  %llu units\n", device->id,
               100.0 * (double)device->items / (double)b.items,
               100.0 * (double)device->busy_ns / (double)result->report.makespan_ns,
               (unsigned long long)device->units);
    }
    const struct muster_report *report = &result->report;
    printf(
        "    work %.1f, start-up %.1f, transfer %.1f, overhead %.1f, starved %.1f, tail %.1f ms\n",
        (double)report->bound_ns / 1e6, (double)report->startup_ns / 1e6,
        (double)report->transfer_ns / 1e6, (double)report->overhead_ns / 1e6,
        (double)report->starved_ns / 1e6, (double)report->tail_ns / 1e6);
    fflush(stdout);
}

/* Each device of the list alone, unless that was done, then all of them. */
static void measure(const char *ids)
{
    char list[256], *rest = list;
    double sum = 0;
    size_t devices = 0;
    snprintf(list, sizeof list, "%s", ids);
    for (char *id; (id = strtok_r(rest, ",", &rest)); devices++) {
        const struct result *alone = find(id);
        if (!alone && b.count < RESULTS_MAX) {
            struct result *result = &b.results[b.count];
            run(id, result);
            result->bound_rate = result->rate;
            b.count++;
            print(result);
            alone = result;
        }
        sum += alone ? alone->rate : 0;
    }
    if (devices < 2 || b.count == RESULTS_MAX)
        return;
    struct result *result = &b.results[b.count++];
    run(ids, result);
    result->bound_rate = sum;
    print(result);
}

/* The ids of all devices that are there. */
static const char *all_devices(void)
{
    static char ids[DEVICES_MAX * 25];
    muster_device devices[DEVICES_MAX];
    size_t count = 0, filled = 0;
    if (muster_device_list(b.m, devices, DEVICES_MAX, &count, &problem) != MUSTER_OK)
        fail("devices");
    for (size_t i = 0; i < count; i++) {
        struct muster_device_info info = { .size = sizeof info };
        muster_device_info(b.m, devices[i], &info, NULL);
        filled +=
            (size_t)snprintf(ids + filled, sizeof ids - filled, "%s%s", i > 0 ? "," : "", info.id);
    }
    return ids;
}

static void write_json(void)
{
    FILE *file = b.json ? fopen(b.json, "w") : NULL;
    if (!file)
        return;
    fprintf(file,
            "{\"bench\": \"everywhere\", \"commit\": \"%s\", \"bytes\": %llu, \"rounds\": %u, "
            "\"kernel\": \"%s\", \"pinned\": %s, \"results\": [",
            MUSTER_COMMIT, (unsigned long long)b.bytes, b.rounds, b.kernel_file,
            b.pinned ? "true" : "false");
    for (size_t i = 0; i < b.count; i++) {
        const struct result *result = &b.results[i];
        fprintf(file,
                "%s\n  {\"devices\": \"%s\", \"seconds\": %.6f, \"items_per_s\": %.0f, "
                "\"bound_items_per_s\": %.0f, \"ratio\": %.4f, \"equal\": %s, \"shares\": {",
                i > 0 ? "," : "", result->ids, result->seconds, result->rate, result->bound_rate,
                result->bound_rate / result->rate, result->is_equal ? "true" : "false");
        for (size_t d = 0; d < result->report.device_count; d++)
            fprintf(file, "%s\"%s\": %.4f", d > 0 ? ", " : "", result->report.devices[d].id,
                    (double)result->report.devices[d].items / (double)b.items);
        fprintf(file, "}}");
    }
    fprintf(file, "\n]}\n");
    fclose(file);
}

int main(int argc, char **argv)
{
    int at = 1;
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
        const char *value = argv[at + 1];
        if (strcmp(argv[at], "--bytes") == 0)
            b.bytes = strtoull(value, NULL, 0) & ~UINT64_C(3);
        else if (strcmp(argv[at], "--rounds") == 0)
            b.rounds = (uint32_t)strtoul(value, NULL, 0);
        else if (strcmp(argv[at], "--kernel") == 0)
            b.kernel_file = value;
        else if (strcmp(argv[at], "--pinned") == 0)
            b.pinned = value;
        else if (strcmp(argv[at], "--workers") == 0)
            b.workers = (uint32_t)strtoul(value, NULL, 0);
        else if (strcmp(argv[at], "--json") == 0)
            b.json = value;
        else
            break;
    }
    if (b.bytes < 4 || (at < argc && argv[at][0] == '-')) {
        fprintf(stderr, "usage: everywhere [--bytes N] [--rounds N] [--kernel FILE] [--pinned ID] "
                        "[--workers N] [--json FILE] [IDS...]\n");
        return 2;
    }
    struct muster_options options = MUSTER_OPTIONS_INIT;
    char wanted[1024] = "";
    for (int i = at; i < argc; i++)
        snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), "%s%s", i > at ? "," : "",
                 argv[i]);
    options.devices = wanted[0] ? wanted : NULL;
    options.cpu_workers = b.workers;
    b.items = b.bytes / sizeof *b.in;
    if (muster_open(&b.m, &options, &problem) != MUSTER_OK ||
        muster_kernel_load(b.m, b.kernel_file, "mix", &b.kernel, &problem) != MUSTER_OK)
        fail(b.kernel_file);
    b.in = take();
    b.out = take();
    for (uint64_t i = 0; i < b.items; i++)
        b.in[i] = (uint32_t)(i * 2654435761u) ^ (uint32_t)(i >> 13);
    printf("%s over %llu MiB, %u rounds, %s memory, commit %s\n", b.kernel_file,
           (unsigned long long)(b.bytes >> 20), b.rounds, b.pinned ? "pinned" : "plain",
           MUSTER_COMMIT);
    for (int i = at; i < argc; i++)
        measure(argv[i]);
    if (at == argc)
        measure(all_devices());
    write_json();
    bool is_equal = true;
    for (size_t i = 0; i < b.count; i++)
        is_equal = is_equal && b.results[i].is_equal;
    muster_close(b.m, NULL);
    return is_equal ? 0 : 1;
}
