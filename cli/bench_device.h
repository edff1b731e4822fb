/*
 * What `muster bench` does with one device: gives it data and a kernel, compares, measures, and
 * puts the outcome in words.
 */
#ifndef CLI_BENCH_DEVICE_H
#define CLI_BENCH_DEVICE_H

#include "inventory.h"

#include <muster/job.h>
#include <stdbool.h>

/* What all devices share. */
struct bench_plan {
    uint64_t target_ns;             /* how long a measurement should take at least */
    uint64_t items_max;             /* of the arrays below */
    bool is_everyone;               /* no device is left out of a job */
    uint32_t *in, *out, *expected;  /* owns */
    struct muster_kernel *portable; /* owns */
    struct muster_kernel *either;   /* owns: also as a function, which needs no compiler */
};

struct bench_device {
    struct muster_device_info info;
    struct muster_device_load load;
    double in_rate, out_rate;     /* bytes a second; 0: not measured, likewise below */
    double kernel_rate, job_rate; /* items a second */
    uint64_t launch_ns;
    uint64_t checked, wrong;    /* items */
    struct muster_error why;    /* what kept it from being measured; status MUSTER_OK: nothing */
    struct muster_error source; /* why kernels in source form are not available on it; likewise */
    char verdict[512];
};

/* Measured times, of which the middle one counts. The first this many are kept. */
#define BENCH_TIMES_MAX 1000
struct bench_median {
    uint64_t times[BENCH_TIMES_MAX];
    size_t count;
};
void bench_median_add(struct bench_median *median, uint64_t ns);
uint64_t bench_median_of(struct bench_median *median);

uint64_t bench_now(void); /* ns */

/* Nothing needs to be released after a failure. */
muster_status bench_plan_init(struct bench_plan *plan, struct muster *m, bool is_quick,
                              struct muster_error *err);
void bench_plan_deinit(struct bench_plan *plan);

/* A failure is in device->why. */
void bench_device_measure(struct muster *m, const struct bench_plan *plan,
                          struct bench_device *device);

/* It was measured, and all it gave back was right. */
bool bench_device_is_right(const struct bench_device *device);

/*
 * Runs the kernel as a job on the devices `ids`, of which `device` is the only one or stands for
 * all, and compares. False, with `err`, if the job fails.
 */
bool bench_job(struct muster *m, const struct bench_plan *plan, struct bench_device *device,
               const char *ids, double *rate, struct muster_error *err);

/* Fills device->verdict; the other devices are what it is compared with. */
void bench_device_judge(const struct bench_plan *plan, struct bench_device *device,
                        const struct bench_device *others, size_t count);

#endif
