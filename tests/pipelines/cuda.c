/*
 * Pipelines on the CUDA driver of the tests, which fails: contexts that end in the middle of a copy or
 * a launch, work that does not end, calls that are refused. What was delivered is a correct prefix;
 * where there is a second device, it does the rest.
 */
#include "outcome.h"

#include "driver/control.h"

#include <dlfcn.h>

static const struct test_cuda *control;
/* What a device that hangs keeps is found here, and so is no leak. */
static struct counting counting = COUNTING_INIT;

static void open_control(void)
{
    if (!control) {
        void *library = dlopen("libcuda.so.1", RTLD_NOW);
        if (!library)
            test_fail(__FILE__, __LINE__, "%s", dlerror());
        const struct test_cuda *(*get)(void);
        *(void **)&get = dlsym(library, TEST_CUDA_CONTROL);
        if (!get)
            test_fail(__FILE__, __LINE__, "this libcuda.so.1 is not the one of the tests");
        control = get();
    }
    control->reset();
}

static struct muster *open_cuda(unsigned devices)
{
    char settings[32];
    struct muster_options options = MUSTER_OPTIONS_INIT;
    open_control();
    snprintf(settings, sizeof settings, "devices=%u", devices);
    CHECK(control->set(settings));
    options.devices = "cuda";
    options.close_ns = test_patience(200 * MS);
    options.allocator = counting_allocator(&counting);
    return open_with(options);
}

static const char *const names[] = { "depth_2", "late", "carry_host", "fan_in", "batch" };

/* One job with the fault; gives its status. */
static muster_status run_with(const char *name, unsigned devices, const char *fault)
{
    struct muster *m = open_cuda(devices);
    struct shape_run *run = open_run(m, shape_find(name));
    struct muster_report report;
    struct muster_job_desc desc = shape_job(run, SHAPE_FROM_SOURCE, NULL);
    run->how.no_copies = 1;
    CHECK(control->set(fault));
    muster_status status = run_job(run, &desc, &report);
    CHECK_PREFIX(run, &report);
    if (status == MUSTER_OK && report.delivered != run->shape->items)
        test_fail(__FILE__, __LINE__, "%s, %s: well, and only %llu delivered", name, fault,
                  (unsigned long long)report.delivered);
    CHECK(status == MUSTER_OK || problem.text[0]);
    shape_close(run);
    muster_close(m, NULL);
    control->release();
    return status;
}

static void a_context_that_ends(void)
{
    static const char *const faults[] = { "poison=launch:1:700", "poison=copy:5:700",
                                          "poison=any:17:719", "poison=launch:4:700" };
    for (size_t i = 0; i < COUNT_OF(names); i++)
        for (size_t f = 0; f < COUNT_OF(faults); f++) {
            muster_status status = run_with(names[i], 1, faults[f]);
            if (status != MUSTER_E_DEVICE_LOST)
                test_fail(__FILE__, __LINE__, "%s, %s: %s", names[i], faults[f],
                          muster_status_name(status));
        }
    control->reset();
}

static void calls_that_are_refused(void)
{
    /* A driver that does not tell what has become of its work is taken for hung after that. */
    unit_ns = TEST_BY_SANITIZER(400 * MS, 800 * MS, SECOND);
    static const char *const functions[] = {
        "cuStreamWaitEvent",      "cuEventRecord",
        "cuEventQuery",           "cuLaunchKernel",
        "cuMemcpyHtoDAsync_v2",   "cuMemcpyDtoHAsync_v2",
        "cuStreamWaitValue64_v2", "cuStreamCreateWithPriority"
    };
    static const unsigned numbers[] = { 1, 6, 20 };
    unsigned hits = 0;
    for (size_t i = 0; i < COUNT_OF(functions); i++)
        for (size_t n = 0; n < COUNT_OF(numbers); n++) {
            char fault[80];
            snprintf(fault, sizeof fault, "fail=%s:%u:999", functions[i], numbers[n]);
            run_with(names[(i + n) % COUNT_OF(names)], 1, fault);
            hits += control->hits() > 0;
        }
    CHECK(hits > 10);
    control->reset();
}

static void work_that_does_not_end(void)
{
    static const char *const faults[] = { "hang=launch:4", "hang=copy:7" };
    /* Runs whose items are the device's, which has not come back in time. */
    static struct shape_run *left[COUNT_OF(faults)];
    for (size_t f = 0; f < COUNT_OF(faults); f++) {
        struct muster *m = open_cuda(1);
        struct shape_run *run = open_run(m, shape_find("late"));
        struct muster_report report = { .size = sizeof report };
        struct muster_job_desc desc = shape_job(run, SHAPE_FROM_ARRAY, NULL);
        run->how.timeout_ns = test_patience(50 * MS);
        CHECK(control->set(faults[f]));
        MUST(muster_start(m, &desc, &run->job, &problem));
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_job_wait(run->job, &report, &problem));
        CHECK_PREFIX(run, &report);
        /* When it comes back all can be given back. */
        control->release();
        muster_job_destroy(run->job);
        muster_status closed = muster_close(m, &problem);
        CHECK(closed == MUSTER_OK || closed == MUSTER_E_DEVICE_HUNG);
        run->pipeline = NULL;
        memset(run->kernels, 0, sizeof run->kernels);
        left[f] = run;
        if (closed == MUSTER_OK)
            shape_close(left[f]);
    }
    control->reset();
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_context_that_ends),
        TEST(calls_that_are_refused),
        TEST(work_that_does_not_end),
    };
#ifdef KERNEL_CACHE
    setenv("MUSTER_CACHE", KERNEL_CACHE, 1);
#endif
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
