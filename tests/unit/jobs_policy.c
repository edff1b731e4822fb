/*
 * Jobs whose units are given out by a policy, on real threads: the policy's choice is kept to, nothing
 * is lost with a device, and names that are no policies are refused.
 */
#include "jobs_support.h"

#define UNIT 16
#define UNITS_MAX 400

static const char *const policies[] = { "round-robin", "least-loaded", "weighted", "adaptive",
                                        "earliest-finish" };

/* Which thread ran each unit last; a simulated device has one. */
static _Atomic uintptr_t runners[UNITS_MAX];

static muster_status compute_and_sign(uint64_t begin, uint64_t end, void *const *args)
{
    static _Thread_local char mark;
    atomic_store(&runners[*(const uint64_t *)args[0] / UNIT], (uintptr_t)&mark);
    return compute(begin, end, args);
}

static struct muster_report run_placed(struct muster *m, const char *policy, uint64_t units,
                                       uint64_t window, uint32_t depth)
{
    struct muster_report report = full_report();
    struct account account;
    account_init(&account, units * UNIT);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute_and_sign));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.policy = policy;
    how.unit_items = UNIT;
    how.window = window;
    how.depth = depth;
    how.tries = 9;
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, &report, &problem));
    muster_job_destroy(job);
    check_account(&account, account.items);
    check_report(&report);
    account_deinit(&account);
    return report;
}

/* Ten times as fast or not, each has its turn. */
static void round_robin_takes_strict_turns(void)
{
    struct muster *m = open_sim("sim", "[{\"items_per_s\": 1e7}, {\"items_per_s\": 1e6},"
                                       " {\"items_per_s\": 4e6, \"jitter\": 0.5}]");
    for (uint32_t i = 0; i < test_repetitions(6); i++) {
        struct muster_report report = run_placed(m, "round-robin", 90, i % 2 * 7 * UNIT, 1 + i % 4);
        for (size_t d = 0; d < 3; d++)
            CHECK_EQUAL(30, report.devices[d].units);
        for (size_t unit = 3; unit < 90; unit++)
            CHECK(runners[unit] == runners[unit % 3]);
        CHECK(runners[0] != runners[1] && runners[1] != runners[2] && runners[0] != runners[2]);
    }
    MUST(muster_close(m, &problem));
}

/* Less than half of what each of the others has. */
static bool has_little(const struct muster_report *report, size_t device)
{
    bool is_little = true;
    for (size_t i = 0; i < 3; i++)
        is_little &= i == device || report->devices[i].units > 2 * report->devices[device].units;
    return is_little;
}

static void faster_devices_are_given_more(void)
{
    static const char *const by_rate[] = { "adaptive", "earliest-finish" };
    struct muster *m =
        open_sim("sim", "[{\"items_per_s\": 4e5}, {\"items_per_s\": 2e4}, {\"items_per_s\": 4e5}]");
    for (size_t i = 0; i < COUNT_OF(by_rate); i++) {
        struct muster_report report;
        /* Twenty times as fast; not on every run of a busy machine. */
        for (unsigned tries = 0; tries == 0 || (tries < 5 && !has_little(&report, 1)); tries++) {
            report = run_placed(m, by_rate[i], UNITS_MAX, 0, 4);
            CHECK(report.devices[1].units > 0);
        }
        CHECK(has_little(&report, 1));
    }
    MUST(muster_close(m, &problem));
}

static void a_lost_device_loses_nothing(void)
{
    uint64_t random = test_seed();
    for (unsigned i = 0; i < test_repetitions(20); i++) {
        char sim[300];
        snprintf(sim, sizeof sim,
                 "[{\"items_per_s\": 4e6, \"faults\": [{\"kind\": \"lost\", \"at_launch\": %u}]},"
                 " {\"items_per_s\": 2e6, \"faults\": [{\"kind\": \"unit_error\","
                 "  \"probability\": 0.1}]}, {\"items_per_s\": 1e6}]",
                 1 + (unsigned)draw(&random, 12));
        struct muster *m = open_sim("sim", sim);
        run_placed(m, policies[i % COUNT_OF(policies)], 100, draw(&random, 2) * 9 * UNIT,
                   1 + (uint32_t)draw(&random, 4));
        MUST(muster_close(m, &problem));
    }
}

static void a_hung_device_is_passed_over(void)
{
    for (size_t i = 0; i < COUNT_OF(policies); i++) {
        struct muster_options options = MUSTER_OPTIONS_INIT;
        options.devices = "sim";
        options.sim = "[{\"items_per_s\": 4e6, \"faults\": [{\"kind\": \"hang\","
                      "  \"at_launch\": 2}]}, {\"items_per_s\": 2e6}]";
        options.close_ns = 100 * MS;
        struct muster *m = open_with(options);
        struct account account;
        account_init(&account, 100 * UNIT);
        struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
        struct muster_run_options how = { .size = sizeof how };
        desc.options = &how;
        how.policy = policies[i];
        how.unit_items = UNIT;
        /* Longer than a busy machine keeps the other one waiting. */
        how.timeout_ns = 400 * MS;
        struct muster_job *job = start(m, &desc);
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_job_wait(job, NULL, &problem));
        muster_job_destroy(job);
        check_account(&account, account.items);
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(m, &problem));
        account_deinit(&account);
    }
}

/* As large as the policy's lane should have them; any device of the machine. */
static void adaptive_units_are_placed_too(void)
{
    struct muster *m = open_sim(NULL, "[{\"items_per_s\": 4e6}, {\"items_per_s\": 1e6}]");
    for (size_t i = 0; i < COUNT_OF(policies); i++) {
        struct account account;
        account_init(&account, 20000);
        struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
        struct muster_run_options how = { .size = sizeof how };
        desc.options = &how;
        how.policy = policies[i];
        struct muster_job *job = start(m, &desc);
        MUST(muster_job_wait(job, NULL, &problem));
        muster_job_destroy(job);
        check_account(&account, account.items);
        account_deinit(&account);
    }
    MUST(muster_close(m, &problem));
}

static void names_that_are_no_policies_are_refused(void)
{
    static const char *const wrong[] = { "", "fastest", "Claim", "sticky" };
    struct muster *m = open_sim("sim", "[{\"items_per_s\": 4e6}]");
    struct account account;
    account_init(&account, 100);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct muster_job *job = NULL;
        uint64_t bytes;
        how.policy = wrong[i];
        CHECK_STATUS(MUSTER_E_INVALID, muster_start(m, &desc, &job, &problem));
        CHECK_CONTAINS(wrong[i], problem.text);
        CHECK_CONTAINS("earliest-finish", problem.fix);
        CHECK_STATUS(MUSTER_E_INVALID, muster_job_memory_estimate(m, &desc, &bytes, &problem));
    }
    CHECK_CONTAINS("key", problem.text);
    how.policy = "claim";
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* A device that fails every unit is left alone for a while, and the report says so. */
static void a_device_that_fails_all_is_quarantined(void)
{
    struct muster *m =
        open_sim("sim", "[{\"items_per_s\": 1e7, \"faults\": [{\"kind\": \"unit_error\","
                        " \"probability\": 1}]}, {\"items_per_s\": 1e6}, {\"items_per_s\": 1e6}]");
    struct muster_report report = run_placed(m, "round-robin", 200, 0, 2);
    CHECK_EQUAL(MUSTER_HEALTH_QUARANTINED, device_in(&report, "sim:0")->health);
    CHECK_EQUAL(MUSTER_HEALTH_OK, device_in(&report, "sim:1")->health);
    CHECK_EQUAL(0, device_in(&report, "sim:0")->units);
    CHECK(device_in(&report, "sim:0")->retries >= 8);
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(round_robin_takes_strict_turns),
        TEST(faster_devices_are_given_more),
        TEST(a_lost_device_loses_nothing),
        TEST(a_hung_device_is_passed_over),
        TEST(adaptive_units_are_placed_too),
        TEST(names_that_are_no_policies_are_refused),
        TEST(a_device_that_fails_all_is_quarantined),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
