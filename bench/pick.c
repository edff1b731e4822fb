/*
 * What one pick costs, with 8 and with 1,024 devices: choosing, reserving, keeping the decision and
 * releasing it again. Beside the raw limit: a lock taken and released around a look at as many
 * devices, with nothing kept.
 *
 *     pick [--json FILE]
 */
#include "core/placement.h"
#include "platform/thread.h"

#include <muster/backend.h>
#include <muster/muster.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifndef MUSTER_COMMIT
#define MUSTER_COMMIT "unknown"
#endif

#define REPETITIONS 11
#define DEVICES_MAX 1024

/* Devices that exist, and do nothing. */
static uint32_t device_count;

static muster_status idle_open(void *backend, const struct muster_services *services,
                               uint32_t *count, struct muster_error *err)
{
    (void)backend, (void)services, (void)err;
    *count = device_count;
    return MUSTER_OK;
}

static void idle_close(void *backend)
{
    (void)backend;
}

static muster_status idle_device_open(void *backend, uint32_t index, void *device,
                                      struct muster_device_info *info, struct muster_error *err)
{
    (void)backend, (void)device, (void)err;
    info->domain = index;
    info->weight = 1 + index % 3;
    info->memory_total = UINT64_C(1) << 30;
    return MUSTER_OK;
}

static muster_status idle_device_close(void *device)
{
    (void)device;
    return MUSTER_OK;
}

static muster_status refuse(struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, NULL, "a device that does nothing");
}

static muster_status no_sample(void *device, struct muster_device_sample *sample,
                               struct muster_error *err)
{
    (void)device, (void)sample;
    return refuse(err);
}

static muster_status no_allocate(void *device, void *stream, uint64_t bytes,
                                 struct muster_memory *out, struct muster_error *err)
{
    (void)device, (void)stream, (void)bytes, (void)out;
    return refuse(err);
}

static muster_status no_free(void *device, void *stream, struct muster_memory *memory,
                             struct muster_error *err)
{
    (void)device, (void)stream, (void)memory;
    return refuse(err);
}

static muster_status no_stream(void *device, int32_t priority, int is_default, void *stream,
                               struct muster_error *err)
{
    (void)device, (void)priority, (void)is_default, (void)stream;
    return refuse(err);
}

static void no_close(void *object)
{
    (void)object;
}

static void *no_native(void *stream)
{
    return stream;
}

static muster_status no_pair(void *one, void *other, struct muster_error *err)
{
    (void)one, (void)other;
    return refuse(err);
}

static muster_status no_query(void *object, struct muster_error *err)
{
    (void)object;
    return refuse(err);
}

static muster_status no_event(void *device, uint32_t flags, void *event, struct muster_error *err)
{
    (void)device, (void)flags, (void)event;
    return refuse(err);
}

static muster_status no_wait(void *event, uint64_t timeout_ns, struct muster_error *err)
{
    (void)event, (void)timeout_ns;
    return refuse(err);
}

static muster_status no_copy(void *stream, const struct muster_copy_desc *copy,
                             struct muster_error *err)
{
    (void)stream, (void)copy;
    return refuse(err);
}

static muster_status no_fill(void *stream, const struct muster_place *to, uint8_t value,
                             uint64_t bytes, struct muster_error *err)
{
    (void)stream, (void)to, (void)value, (void)bytes;
    return refuse(err);
}

static const struct muster_backend idle = {
    .size = sizeof idle,
    .abi = MUSTER_BACKEND_ABI,
    .name = "idle",
    .open = idle_open,
    .close = idle_close,
    .device_open = idle_device_open,
    .device_close = idle_device_close,
    .device_sample = no_sample,
    .memory_allocate = no_allocate,
    .memory_free = no_free,
    .stream_open = no_stream,
    .stream_close = no_close,
    .stream_native = no_native,
    .stream_wait = no_pair,
    .stream_query = no_query,
    .event_init = no_event,
    .event_deinit = no_close,
    .event_record = no_pair,
    .event_query = no_query,
    .event_wait = no_wait,
    .copy = no_copy,
    .fill = no_fill,
};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct sample {
    double median, least, greatest;
};

static struct sample summarise(double *values)
{
    qsort(values, REPETITIONS, sizeof *values, by_size);
    return (struct sample){ values[REPETITIONS / 2], values[0], values[REPETITIONS - 1] };
}

/* Nanoseconds for a pick and its release, out of many. */
static double measure_pick(struct muster *m, const struct muster_policy *policy, unsigned rounds)
{
    uint64_t begin_ns = platform_clock_ns();
    for (unsigned i = 0; i < rounds; i++) {
        muster_lease lease;
        muster_device device;
        if (muster_pick(m, policy, NULL, &lease, &device, NULL) != MUSTER_OK ||
            muster_lease_release(m, lease, NULL) != MUSTER_OK)
            exit(1);
    }
    return (double)(platform_clock_ns() - begin_ns) / rounds;
}

/* A lock around a look at every device's queue. */
static double measure_raw(unsigned rounds)
{
    static struct placement_device devices[DEVICES_MAX];
    struct platform_mutex lock;
    volatile uint32_t best = 0;
    platform_mutex_init(&lock, NULL);
    uint64_t begin_ns = platform_clock_ns();
    for (unsigned i = 0; i < rounds; i++) {
        platform_mutex_lock(&lock);
        uint32_t least = 0;
        for (uint32_t d = 1; d < device_count; d++)
            if (devices[d].queued < devices[least].queued)
                least = d;
        best = least;
        devices[best].queued++;
        platform_mutex_unlock(&lock);
    }
    double ns = (double)(platform_clock_ns() - begin_ns) / rounds;
    platform_mutex_deinit(&lock);
    return ns;
}

struct row {
    uint32_t devices;
    const char *policy;
    double target_ns;
    struct sample ours, raw;
};

static void take_row(struct row *row)
{
    const struct muster_backend *const backends[] = { &idle };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster *m;
    double ours[REPETITIONS], raw[REPETITIONS];
    unsigned rounds = row->devices > 100 ? 20000 : 200000;
    options.devices = "idle";
    options.backends = backends;
    options.backend_count = 1;
    device_count = row->devices;
    if (muster_open(&m, &options, NULL) != MUSTER_OK)
        exit(1);
    const struct muster_policy *policy = muster_policy_named(row->policy);
    measure_pick(m, policy, rounds / 10);
    for (int i = 0; i < REPETITIONS; i++) {
        ours[i] = measure_pick(m, policy, rounds);
        raw[i] = measure_raw(rounds);
    }
    row->ours = summarise(ours);
    row->raw = summarise(raw);
    muster_close(m, NULL);
}

static bool write_json(const char *path, const struct row *rows, size_t count)
{
    struct utsname system;
    FILE *file = fopen(path, "w");
    if (!file || uname(&system) != 0) {
        perror(path);
        return false;
    }
    fprintf(file,
            "{\"bench\":\"pick\",\"host\":\"%s\",\"kernel\":\"%s\",\"cores\":%ld,\"commit\":\"%s\","
            "\"version\":\"%s\",\"repetitions\":%d,\"rows\":[",
            system.nodename, system.release, sysconf(_SC_NPROCESSORS_ONLN), MUSTER_COMMIT,
            muster_version(), REPETITIONS);
    for (size_t i = 0; i < count; i++)
        fprintf(file,
                "%s{\"devices\":%u,\"policy\":\"%s\",\"ours_ns\":%.1f,\"least_ns\":%.1f,"
                "\"greatest_ns\":%.1f,\"raw_ns\":%.1f,\"target_ns\":%.0f}",
                i > 0 ? "," : "", rows[i].devices, rows[i].policy, rows[i].ours.median,
                rows[i].ours.least, rows[i].ours.greatest, rows[i].raw.median, rows[i].target_ns);
    fprintf(file, "]}\n");
    return fclose(file) == 0;
}

int main(int argc, char **argv)
{
    struct row rows[] = { { .devices = 8, .policy = "round-robin", .target_ns = 100 },
                          { .devices = 8, .policy = "least-loaded", .target_ns = 100 },
                          { .devices = 8, .policy = "adaptive", .target_ns = 100 },
                          { .devices = 1024, .policy = "least-loaded", .target_ns = 3000 },
                          { .devices = 1024, .policy = "adaptive", .target_ns = 3000 } };
    const size_t count = sizeof rows / sizeof *rows;
    if (argc != 1 && (argc != 3 || strcmp(argv[1], "--json") != 0)) {
        fprintf(stderr, "usage: pick [--json FILE]\n");
        return 2;
    }
    printf("commit %s, muster %s; one pick with its release, ns: median (least-greatest) of %d\n\n",
           MUSTER_COMMIT, muster_version(), REPETITIONS);
    printf("%8s  %-14s %-24s %-24s %8s  %s\n", "devices", "policy", "ours", "raw: lock and look",
           "target", "verdict");
    for (size_t i = 0; i < count; i++) {
        char ours[48], raw[48];
        take_row(&rows[i]);
        snprintf(ours, sizeof ours, "%.0f (%.0f-%.0f)", rows[i].ours.median, rows[i].ours.least,
                 rows[i].ours.greatest);
        snprintf(raw, sizeof raw, "%.0f (%.0f-%.0f)", rows[i].raw.median, rows[i].raw.least,
                 rows[i].raw.greatest);
        printf("%8u  %-14s %-24s %-24s %8.0f  %s\n", rows[i].devices, rows[i].policy, ours, raw,
               rows[i].target_ns, rows[i].ours.median <= rows[i].target_ns ? "met" : "MISSED");
    }
    return argc == 3 && !write_json(argv[2], rows, count);
}
