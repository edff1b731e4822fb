/*
 * What the benches that run real jobs have in common: a runtime with the processors of this machine
 * and simulated devices, and a kernel that costs time on the former only. A simulated device calls
 * the kernel and then sees to it that the time of its description has passed; the cores that it has
 * not got are not to be used for it.
 */
#ifndef BENCH_JOBS_H
#define BENCH_JOBS_H

#include "report.h"

#include <pthread.h>
#include <sys/prctl.h>

/* Whether this thread is a simulated device's. */
static inline bool is_simulated(void)
{
    static _Thread_local int known; /* 1: it is, -1: it is not */
    if (known == 0) {
        char name[16] = "";
        prctl(PR_GET_NAME, name);
        known = strcmp(name, "muster-sim") == 0 ? 1 : -1;
    }
    return known > 0;
}

/* What an item makes a thread do: this many steps that depend on each other. */
static inline uint64_t spend(uint64_t value, unsigned steps)
{
    for (unsigned i = 0; i < steps; i++)
        value = value * 6364136223846793005u + 1442695040888963407u;
    return value;
}

/* A runtime with the devices of these backends, some of them described. */
static inline struct muster *open_runtime(const struct bench *bench, const char *devices,
                                          const char *sim)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster_error err;
    struct muster *m;
    options.devices = devices;
    options.sim = sim;
    if (muster_open(&m, &options, &err) != MUSTER_OK)
        stop(bench, err.text);
    return m;
}

static inline struct muster_kernel *make_kernel(const struct bench *bench, struct muster *m,
                                                muster_status (*function)(uint64_t, uint64_t,
                                                                          void *const *))
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = function };
    struct muster_error err;
    struct muster_kernel *kernel;
    if (muster_kernel_from(m, "bench", &form, 1, &kernel, &err) != MUSTER_OK)
        stop(bench, err.text);
    return kernel;
}

/*
 * Runs a job to its end, which must be a good one. What the report says of each device stands until the
 * next job.
 */
static inline void run_job(const struct bench *bench, struct muster *m,
                           const struct muster_job_desc *desc, struct muster_report *report)
{
    static struct muster_job_device devices[REPORT_DEVICES_MAX];
    struct muster_error err;
    struct muster_job *job;
    *report = full_report(devices);
    if (muster_start(m, desc, &job, &err) != MUSTER_OK ||
        muster_job_wait(job, report, &err) != MUSTER_OK)
        stop(bench, err.text);
    muster_job_destroy(job);
    if (report->delivered != desc->items)
        stop(bench, "a job did not deliver all its items");
}

#endif
