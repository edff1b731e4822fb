/*
 * What callers ask of a job beside its results: its devices, however many, and to wait for some time
 * only.
 */
#include "jobs_support.h"

#define MANY "[{\"items_per_s\":1e9,\"count\":64}]"

/* One device more than the sixty-four that reports once had room for. */
static void a_job_has_all_devices_and_tells_of_each(void)
{
    enum { DEVICES = 65, ITEMS = 4096 };
    struct muster *m = open_sim("cpu,sim", MANY);
    struct account account;
    account_init(&account, ITEMS);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_job *job = start(m, &desc);
    struct muster_report report = full_report();
    MUST(muster_job_wait(job, &report, &problem));
    check_account(&account, ITEMS);
    CHECK_EQUAL(DEVICES, report.device_count);
    static struct muster_job_device devices[DEVICES + 1];
    for (size_t i = 0; i < COUNT_OF(devices); i++)
        devices[i] = (struct muster_job_device){ .size = sizeof *devices, .items = 77 };
    size_t count = 0;
    CHECK_STATUS(MUSTER_E_CAPACITY,
                 muster_job_devices(job, devices, DEVICES - 1, &count, &problem));
    CHECK_EQUAL(DEVICES, count);
    CHECK_EQUAL(77, devices[0].items);
    CHECK_STATUS(MUSTER_E_CAPACITY, muster_job_devices(job, NULL, 0, &count, &problem));
    MUST(muster_job_devices(job, devices, COUNT_OF(devices), &count, &problem));
    CHECK_EQUAL(DEVICES, count);
    CHECK_EQUAL(77, devices[DEVICES].items);
    uint64_t items = 0;
    for (size_t i = 0; i < DEVICES; i++) {
        char id[24];
        snprintf(id, sizeof id, i == 0 ? "cpu:0" : "sim:%zu", i - 1);
        CHECK_TEXT(id, devices[i].id);
        CHECK_TEXT(id, report.devices[i].id);
        CHECK_EQUAL(report.devices[i].items, devices[i].items);
        items += devices[i].items;
    }
    CHECK_EQUAL(ITEMS, items);
    /* As many as there is room for, or none. */
    devices[1].items = 77;
    report.devices = devices;
    report.device_capacity = 1;
    MUST(muster_job_report(job, &report, &problem));
    CHECK(report.device_count == DEVICES && report.device_capacity == 1);
    CHECK(report.devices == devices && devices[1].items == 77);
    report.devices = NULL;
    MUST(muster_job_wait(job, &report, &problem));
    CHECK_EQUAL(DEVICES, report.device_count);
    CHECK_STATUS(MUSTER_E_INVALID, muster_job_devices(NULL, devices, 1, &count, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_job_devices(job, NULL, 1, &count, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_job_devices(job, devices, DEVICES, NULL, &problem));
    muster_job_destroy(job);
    /* A job from start to end tells the same. */
    report = full_report();
    MUST(muster_for(m, kernel_of(m, do_nothing), ITEMS, NULL, 0, NULL, &report, &problem));
    CHECK_EQUAL(DEVICES, report.device_count);
    CHECK_TEXT("sim:63", report.devices[64].id);
    report.devices[3].size = 8;
    CHECK_STATUS(MUSTER_E_INVALID, muster_for(m, kernel_of(m, do_nothing), ITEMS, NULL, 0, NULL,
                                              &report, &problem));
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(a_job_has_all_devices_and_tells_of_each) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
