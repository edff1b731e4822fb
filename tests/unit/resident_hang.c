/*
 * A kernel of a resident lane that never returns, on `cpu:0` or the device that MUSTER_TEST_DEVICE names. It is
 * never got rid of in this process, so it is alone in its program.
 */
#include "support.h"

static const char source[] =
    "#include \"muster_kernel.h\"\n"
    "MUSTER_KERNEL void nothing(uint64_t i) { (void)i; }\n"
    "MUSTER_KERNEL void endless(uint64_t i, uint32_t a, MUSTER_GLOBAL uint32_t *x)\n"
    "{ while (a != 0) { x[i] += a; a = (a * 3u) | 1u; } }\n";

static struct muster_kernel *kernel_named(struct muster *m, const char *name)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = source,
                                             .code_bytes = sizeof source - 1,
                                             .entry = name };
    struct muster_kernel *kernel = NULL;
    MUST(muster_kernel_from(m, name, &form, 1, &kernel, &problem));
    return kernel;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static _Atomic unsigned ended;
static void count_end(void *user, muster_task task, muster_status status)
{
    (void)user, (void)task, (void)status;
    atomic_fetch_add(&ended, 1);
}

static void an_endless_kernel_costs_the_lane(void)
{
    const char *name = getenv("MUSTER_TEST_DEVICE");
    struct muster_options runtime = MUSTER_OPTIONS_INIT;
    struct muster_resident_options options = MUSTER_RESIDENT_OPTIONS_INIT;
    runtime.close_ns = 200 * MS;
    runtime.cpu_workers = 2;
    struct muster *m = open_with(runtime);
    muster_device device = find(m, name && *name ? name : "cpu:0");
    struct muster_kernel *kernels[] = { kernel_named(m, "nothing"), kernel_named(m, "endless") };
    struct muster_resident *lane = NULL;
    muster_stream stream = acquire(m, device);
    options.hang_ns = test_patience(200 * MS);
    if (getenv("MUSTER_TEST_SERIAL"))
        options.threads = options.cores = 1;
    MUST(muster_resident_create(m, device, kernels, 2, &options, &lane, &problem));
    /* In a block that belongs to the test: what still runs at the end writes to no memory of a function. */
    uint32_t zero[4] = { 0 }, a = 1;
    muster_block block = allocate(m, stream, sizeof zero);
    MUST(muster_copy_in(m, stream, block, 0, zero, sizeof zero, &problem));
    MUST(muster_resident_attach(lane, &block, 1, &problem));
    struct muster_task_desc empty = {
        .size = sizeof empty, .resident = lane, .kernel = kernels[0], .items = 1, .done = count_end
    };
    muster_task tasks[40];
    MUST(muster_submit(m, &empty, 1, tasks, &problem));
    MUST(muster_wait(m, tasks, 1, UINT64_MAX, &problem));
    const struct muster_arg args[] = { MUSTER_VALUE(a), MUSTER_DEVICE_INOUT(block, uint32_t) };
    struct muster_task_desc endless = { .size = sizeof endless,
                                        .resident = lane,
                                        .kernel = kernels[1],
                                        .items = 1,
                                        .args = args,
                                        .arg_count = 2,
                                        .done = count_end };
    uint64_t begin_ns = now_ns();
    MUST(muster_submit(m, &endless, 1, &tasks[0], &problem));
    for (int i = 1; i < 40; i++)
        MUST(muster_submit(m, &empty, 1, &tasks[i], &problem));
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_wait(m, tasks, 1, UINT64_MAX, &problem));
    printf("the lane was given up after %.0f ms, with hang_ns of %.0f ms\n",
           (double)(now_ns() - begin_ns) / 1e6, (double)options.hang_ns / 1e6);
    CHECK(now_ns() - begin_ns < 5 * options.hang_ns);
    /* Everything ends, once; on other seats some have ended well. */
    for (int i = 1; i < 40; i++) {
        muster_status status = muster_wait(m, &tasks[i], 1, UINT64_MAX, &problem);
        CHECK(status == MUSTER_OK || status == MUSTER_E_DEVICE_HUNG);
    }
    MUST(muster_wait(m, NULL, 0, UINT64_MAX, &problem));
    CHECK_EQUAL(41, atomic_load(&ended));
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_submit(m, &empty, 1, NULL, &problem));
    struct muster_resident_report report = { .size = sizeof report };
    MUST(muster_resident_report(lane, &report, &problem));
    CHECK_EQUAL(MUSTER_RESIDENT_LOST, report.state);
    CHECK_EQUAL(0, report.posted);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_resident_park(lane, &problem));
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_resident_destroy(lane, &problem));
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(an_endless_kernel_costs_the_lane) };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
