/*
 * Where a job's time went: the parts are the makespan, and on devices of known speed and known links
 * each is what it must be.
 */
#include "jobs_support.h"

#define UNIT UINT64_C(2000)
#define UNITS UINT64_C(10)
/* A unit: so long a kernel, more on a busy machine, so that what holds threads up matters less. */
#define KERNEL_NS test_patience(2 * MS)
#define NS(ms) test_patience((ms)*MS)

/* A device whose links move a unit's items that many times as fast as it computes them. */
static const char *sim_links(unsigned times)
{
    static char sim[128];
    double items_per_s = (double)UNIT * SECOND / (double)KERNEL_NS;
    snprintf(sim, sizeof sim,
             "[{\"items_per_s\": %g, \"h2d_bytes_per_s\": %g, \"d2h_bytes_per_s\": %g}]",
             items_per_s, times * 8 * items_per_s, times * 8 * items_per_s);
    return sim;
}

static void run_job(const char *devices, const char *sim, uint32_t depth,
                    struct muster_report *report)
{
    struct muster *m = open_sim(devices, sim);
    struct account account;
    account_init(&account, UNITS * UNIT);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = UNIT;
    how.depth = depth;
    struct muster_job *job = start(m, &desc);
    *report = (struct muster_report){ .size = sizeof *report };
    MUST(muster_job_wait(job, report, &problem));
    muster_job_destroy(job);
    check_account(&account, account.items);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* The parts were rounded down one by one. */
static void check_sum(const struct muster_report *report)
{
    uint64_t sum = report->bound_ns + report->startup_ns + report->transfer_ns +
                   report->overhead_ns + report->starved_ns + report->tail_ns;
    CHECK(sum <= report->makespan_ns + 10 && sum + 10 >= report->makespan_ns);
}

static void transfers_that_nothing_hides_are_found(void)
{
    struct muster_report report = { .makespan_ns = 1 };
    /* On a busy machine a thread may be kept from working for longer than all transfers take. */
    for (int tries = 0; tries < 5 && report.transfer_ns < report.makespan_ns / 3 + 1; tries++) {
        run_job("sim", sim_links(1), 1, &report);
        check_sum(&report);
    }
    /* Sleeps may be long, never short. What the thread was kept from is overhead, or part of it. */
    CHECK(report.bound_ns >= NS(19));
    CHECK(report.transfer_ns + report.overhead_ns >= NS(38));
    CHECK(report.transfer_ns >= report.makespan_ns / 3);
    CHECK(report.transfer_ns <= report.makespan_ns - report.bound_ns);
}

static void transfers_behind_kernels_are_no_loss(void)
{
    struct muster_report report;
    /* All but the first way in and the last way out, 4 of 40 ms, can be hidden; not on every run of a busy machine. */
    for (unsigned tries = 0; tries == 0 || (tries < 5 && report.transfer_ns >= NS(20)); tries++) {
        run_job("sim", sim_links(1), 3, &report);
        check_sum(&report);
        CHECK(report.transfer_ns + report.overhead_ns >= NS(3));
    }
    CHECK(report.transfer_ns < NS(20));
}

/* Three units at a time, each at its kernel or waiting for another's most of the time. */
static void kernels_that_wait_for_each_other_count_once(void)
{
    struct muster_report report;
    /* A device that the machine holds up catches up, and then seems faster than it is. */
    for (unsigned tries = 0; tries == 0 || (tries < 5 && report.bound_ns < NS(19)); tries++) {
        run_job("sim", sim_links(2), 3, &report);
        check_sum(&report);
    }
    CHECK(report.bound_ns >= NS(19));
    /* The first way in and the last way out take 1 ms each. */
    CHECK(report.transfer_ns + report.overhead_ns >= NS(18) / 10);
    CHECK(report.transfer_ns >= NS(1) / 4);
}

static void a_device_on_host_memory_has_no_transfers(void)
{
    struct muster_report report;
    run_job("cpu", NULL, 2, &report);
    check_sum(&report);
    CHECK_EQUAL(0, report.transfer_ns);
    CHECK(report.bound_ns > 0);
}

static void unequal_devices_share_the_loss_by_rate(void)
{
    struct muster_report report;
    run_job(NULL, "[{\"items_per_s\": 8e5}, {\"items_per_s\": 1e5, \"launch_ns\": 100000}]", 1,
            &report);
    check_sum(&report);
    CHECK(report.bound_ns > 0 && report.bound_ns <= report.makespan_ns);
}

static muster_status pass_on(uint64_t begin, uint64_t end, void *const *args)
{
    const uint64_t *in = *(const uint64_t *const *)args[0];
    uint64_t *out = *(uint64_t *const *)args[1];
    memcpy(out + begin, in + begin, (end - begin) * sizeof *out);
    return MUSTER_OK;
}

/* Its stages are on their way at the same time, and all of that is work. */
static void a_pipeline_is_work_from_its_first_unit_on(void)
{
    struct muster *m = open_sim("sim", sim_links(1));
    const struct muster_buffer buffers[] = {
        { sizeof *buffers, "in", MUSTER_HOST, 8, 0, 2, MUSTER_INPUT },
        { sizeof *buffers, "d_in", MUSTER_DEVICE, 8, 0, 2, 0 },
        { sizeof *buffers, "d_out", MUSTER_DEVICE, 8, 0, 2, 0 },
        { sizeof *buffers, "out", MUSTER_HOST, 8, 0, 2, MUSTER_OUTPUT }
    };
    const struct muster_stage stages[] = {
        { sizeof *stages, "up", "up", .reads = 1, .writes = 2, .flags = MUSTER_COPY },
        { sizeof *stages, "on", "on", .reads = 2, .writes = 4, .kernel = kernel_of(m, pass_on) },
        { sizeof *stages, "down", "down", .reads = 4, .writes = 8, .flags = MUSTER_COPY },
    };
    struct muster_pipeline *pipeline;
    struct account account;
    struct muster_report report = { .size = sizeof report };
    account_init(&account, UNITS * UNIT);
    MUST(muster_pipeline_create(m, buffers, COUNT_OF(buffers), stages, COUNT_OF(stages), NULL,
                                &pipeline, &problem));
    struct muster_job *job =
        start(m, &(struct muster_job_desc){
                     .size = sizeof(struct muster_job_desc),
                     .items = account.items,
                     .pipeline = pipeline,
                     .input = account.in,
                     .output = account.out,
                     .options = &(struct muster_run_options){
                         .size = sizeof(struct muster_run_options), .unit_items = UNIT } });
    MUST(muster_job_wait(job, &report, &problem));
    muster_job_destroy(job);
    CHECK(memcmp(account.in, account.out, account.items * sizeof *account.in) == 0);
    check_sum(&report);
    /* No stream is done with all units in less than 20 ms. */
    CHECK(report.bound_ns >= NS(19));
    CHECK(report.startup_ns > 0);
    muster_pipeline_destroy(pipeline);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(transfers_that_nothing_hides_are_found),
        TEST(transfers_behind_kernels_are_no_loss),
        TEST(kernels_that_wait_for_each_other_count_once),
        TEST(a_device_on_host_memory_has_no_transfers),
        TEST(unequal_devices_share_the_loss_by_rate),
        TEST(a_pipeline_is_work_from_its_first_unit_on),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
