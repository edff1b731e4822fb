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
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_for(m, kernel_of(m, do_nothing), ITEMS, NULL, 0, NULL, &report, &problem));
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* Waiting for some time. */

static struct door held = DOOR_INIT;
static muster_status within_wait, within_look;
static struct muster_job *_Atomic held_job;

static muster_status hold(void *user, const struct muster_result *result)
{
    (void)user, (void)result;
    door_pass(&held);
    while (!atomic_load(&held_job))
        sched_yield();
    within_wait = muster_job_wait_for(atomic_load(&held_job), 1, NULL, NULL);
    within_look = muster_job_wait_for(atomic_load(&held_job), 0, NULL, NULL);
    return MUSTER_OK;
}

static void *wait_long(void *job)
{
    return (void *)(intptr_t)muster_job_wait_for(job, 600 * SECOND, NULL, NULL);
}

static void a_wait_ends_in_time_and_can_be_repeated(void)
{
    struct muster *m = open_sim("cpu", NULL);
    struct muster_job_desc desc = {
        .size = sizeof desc, .kernel = kernel_of(m, do_nothing), .items = 10, .sink = hold
    };
    held = (struct door)DOOR_INIT;
    struct muster_job *job = start(m, &desc);
    door_wait_arrived(&held, 1);
    struct muster_report report = { .size = sizeof report, .delivered = 77 };
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_job_wait_for(job, 0, &report, &problem));
    CHECK_STATUS(MUSTER_E_TIMEOUT, problem.status);
    uint64_t begin_ns = now_ns();
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_job_wait_for(job, 5 * MS, &report, &problem));
    CHECK(now_ns() - begin_ns >= 5 * MS);
    CHECK_EQUAL(77, report.delivered);
    /* Others wait at the same time, and hear of the end. */
    pthread_t threads[3];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, wait_long, job));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_job_wait_for(job, 1 * MS, NULL, NULL));
    atomic_store(&held_job, job);
    door_open(&held);
    MUST(muster_job_wait_for(job, 600 * SECOND, &report, &problem));
    CHECK_EQUAL(10, report.delivered);
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        void *status;
        CHECK_EQUAL(0, pthread_join(threads[i], &status));
        CHECK_STATUS(MUSTER_OK, (muster_status)(intptr_t)status);
    }
    /* The sink could not wait for itself, but look. */
    CHECK_STATUS(MUSTER_E_ORDER, within_wait);
    CHECK_STATUS(MUSTER_E_TIMEOUT, within_look);
    MUST(muster_job_wait_for(job, 0, &report, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_job_wait_for(NULL, 0, NULL, &problem));
    muster_job_destroy(job);
    MUST(muster_close(m, &problem));
}

/* A job that is cancelled while its sink is stuck: the time-out is kept, and so is close_ns. */
static void a_wait_in_time_for_a_job_that_is_stuck(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "cpu";
    options.close_ns = test_patience(50 * MS);
    struct muster *m = open_with(options);
    struct muster_job_desc desc = {
        .size = sizeof desc, .kernel = kernel_of(m, do_nothing), .items = 10, .sink = hold
    };
    held = (struct door)DOOR_INIT;
    atomic_store(&held_job, NULL);
    struct muster_job *job = start(m, &desc);
    door_wait_arrived(&held, 1);
    muster_job_cancel(job);
    muster_status status;
    do
        status = muster_job_wait_for(job, 1 * MS, NULL, &problem);
    while (status == MUSTER_E_TIMEOUT);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, status);
    CHECK_CONTAINS("the sink", problem.text);
    atomic_store(&held_job, job);
    door_open(&held);
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(a_job_has_all_devices_and_tells_of_each),
                                         TEST(a_wait_ends_in_time_and_can_be_repeated),
                                         TEST(a_wait_in_time_for_a_job_that_is_stuck) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
