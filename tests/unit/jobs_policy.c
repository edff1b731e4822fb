/*
 * Jobs whose units are given out by a policy, Muster's or the user's own, on real threads: the policy's
 * choice is kept to, nothing is lost with a device, and what is no policy is refused.
 */
#include "jobs_support.h"

#define UNIT 16
#define UNITS_MAX 400

/* NULL: a user's own. */
static const char *const policies[] = { "round-robin",     "least-loaded", "weighted", "adaptive",
                                        "earliest-finish", "sticky",       NULL };

/* A user's policy that takes any of the candidates, and keeps account. It has no lock. */
struct chooser {
    struct muster_policy policy;
    uint64_t random;
    uint64_t calls;
    uint64_t chosen[3]; /* of each simulated device */
    uint64_t wrong;
    uint64_t affinity; /* that it expects */
    _Atomic int inside;
};

static size_t number_of(const struct muster_candidate *candidate)
{
    return (size_t)(candidate->info->id[4] - '0');
}

static int choose_any(void *state, const struct muster_hints *hints,
                      const struct muster_candidate *const *candidates, size_t count)
{
    struct chooser *chooser = state;
    chooser->wrong += atomic_fetch_add(&chooser->inside, 1) != 0;
    chooser->wrong += hints->size != sizeof *hints || hints->affinity != chooser->affinity;
    chooser->wrong += count == 0 || count > 3;
    for (size_t i = 0; i < count; i++)
        chooser->wrong += candidates[i]->size != sizeof *candidates[i] ||
                          strncmp(candidates[i]->info->id, "sim:", 4) != 0 ||
                          number_of(candidates[i]) >= 3 || candidates[i]->load->queue_depth > 64;
    int choice = (int)draw(&chooser->random, count);
    sched_yield();
    chooser->calls++;
    chooser->chosen[number_of(candidates[choice])]++;
    atomic_fetch_sub(&chooser->inside, 1);
    return choice;
}

static struct muster_policy policy_of(struct chooser *chooser,
                                      int (*choose)(void *state, const struct muster_hints *hints,
                                                    const struct muster_candidate *const *, size_t))
{
    *chooser = (struct chooser){ .random = test_seed() };
    chooser->policy = (struct muster_policy){
        .size = sizeof chooser->policy, .name = "any", .state = chooser, .choose = choose
    };
    return chooser->policy;
}

static struct chooser any;

static void set_policy(struct muster_run_options *how, const char *policy)
{
    policy_of(&any, choose_any);
    how->policy = policy;
    how->user_policy = policy ? NULL : &any.policy;
}

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
    set_policy(&how, policy);
    how.unit_items = UNIT;
    how.window = window;
    how.depth = depth;
    how.tries = 9;
    /* Who is idle on a busy machine must not run what another was chosen for. */
    how.no_copies = 1;
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
    char sim[128];
    double times = (double)test_patience(1);
    /* Twenty times as fast. */
    snprintf(sim, sizeof sim,
             "[{\"items_per_s\": %g}, {\"items_per_s\": %g}, {\"items_per_s\": %g}]", 4e5 / times,
             2e4 / times, 4e5 / times);
    struct muster *m = open_sim("sim", sim);
    for (size_t i = 0; i < COUNT_OF(by_rate); i++) {
        struct muster_report report = run_placed(m, by_rate[i], UNITS_MAX, 0, 4);
        CHECK(report.devices[1].units > 0);
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

/* A key whose home is the first device. */
static uint64_t find_key(struct muster *m)
{
    struct muster_hints hints = { .size = sizeof hints };
    const struct muster_policy *sticky = muster_policy_named("sticky");
    for (;; hints.affinity++) {
        muster_lease lease;
        muster_device device;
        MUST(muster_pick(m, sticky, &hints, &lease, &device, &problem));
        MUST(muster_lease_release(m, lease, &problem));
        if (strcmp(info_of(m, device).id, "sim:0") == 0)
            return hints.affinity;
    }
}

static void a_hung_device_is_passed_over(void)
{
    for (size_t i = 0; i < COUNT_OF(policies); i++) {
        struct muster_options options = MUSTER_OPTIONS_INIT;
        options.devices = "sim";
        options.sim = "[{\"items_per_s\": 4e6, \"faults\": [{\"kind\": \"hang\","
                      "  \"at_launch\": 2}]}, {\"items_per_s\": 2e6}]";
        options.close_ns = test_patience(100 * MS);
        struct muster *m = open_with(options);
        struct account account;
        account_init(&account, 100 * UNIT);
        struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
        struct muster_run_options how = { .size = sizeof how };
        desc.options = &how;
        set_policy(&how, policies[i]);
        how.unit_items = UNIT;
        any.affinity = how.affinity = find_key(m);
        /* Longer than a busy machine keeps the other one waiting. */
        how.timeout_ns = test_patience(400 * MS);
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
    struct muster *m = open_sim("sim", "[{\"items_per_s\": 4e6}, {\"items_per_s\": 1e6}]");
    for (size_t i = 0; i < COUNT_OF(policies); i++) {
        struct account account;
        account_init(&account, 20000);
        struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
        struct muster_run_options how = { .size = sizeof how };
        desc.options = &how;
        set_policy(&how, policies[i]);
        struct muster_job *job = start(m, &desc);
        MUST(muster_job_wait(job, NULL, &problem));
        muster_job_destroy(job);
        check_account(&account, account.items);
        account_deinit(&account);
        CHECK_EQUAL(0, any.wrong);
    }
    MUST(muster_close(m, &problem));
}

static void names_that_are_no_policies_are_refused(void)
{
    static const char *const wrong[] = { "", "fastest", "Claim", "sticky " };
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
        char expected[64];
        snprintf(expected, sizeof expected, "unknown policy '%s'; known: claim, ", wrong[i]);
        CHECK_CONTAINS(expected, problem.text);
        CHECK_CONTAINS("earliest-finish, sticky", problem.text);
        CHECK_STATUS(MUSTER_E_INVALID, muster_job_memory_estimate(m, &desc, &bytes, &problem));
    }
    /* Both, or a policy that has nothing to ask. */
    struct muster_job *none = NULL;
    set_policy(&how, NULL);
    how.policy = "claim";
    CHECK_STATUS(MUSTER_E_INVALID, muster_start(m, &desc, &none, &problem));
    how.policy = NULL;
    any.policy.choose = NULL;
    CHECK_STATUS(MUSTER_E_INVALID, muster_start(m, &desc, &none, &problem));
    how.user_policy = NULL;
    how.policy = "claim";
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* Units that its home has room for go there, the same for all jobs and picks of the key. */
static void sticky_units_go_home(void)
{
    struct muster *m =
        open_sim("sim", "[{\"items_per_s\": 1e6}, {\"items_per_s\": 1e6}, {\"items_per_s\": 1e6}]");
    unsigned homes[3] = { 0 };
    for (uint64_t key = 0; key < 24; key++) {
        struct muster_report report = full_report();
        struct muster_hints hints = { .size = sizeof hints, .affinity = key };
        muster_lease lease;
        muster_device device;
        MUST(muster_pick(m, muster_policy_named("sticky"), &hints, &lease, &device, &problem));
        MUST(muster_lease_release(m, lease, &problem));
        struct account account;
        account_init(&account, 4 * UNIT);
        struct muster_run_options how = { .size = sizeof how };
        how.affinity = key;
        how.unit_items = UNIT;
        how.depth = 4;
        how.no_copies = 1;
        if (key % 2)
            how.policy = "sticky";
        else
            how.user_policy = muster_policy_named("sticky");
        MUST(muster_for(m, kernel_of(m, compute), account.items, account.args,
                        COUNT_OF(account.args), &how, &report, &problem));
        const struct muster_job_device *home = device_in(&report, info_of(m, device).id);
        CHECK_EQUAL(4, home->units);
        homes[home->id[4] - '0']++;
        account_deinit(&account);
    }
    CHECK(homes[0] > 0 && homes[1] > 0 && homes[2] > 0);
    MUST(muster_close(m, &problem));
}

/* Asked once for each unit, and each goes where it says. */
static void a_users_policy_is_kept_to(void)
{
    struct muster *m = open_sim("sim", "[{\"items_per_s\": 1e7}, {\"items_per_s\": 1e6},"
                                       " {\"items_per_s\": 4e6}]");
    for (uint32_t i = 0; i < test_repetitions(6); i++) {
        struct muster_report report = run_placed(m, NULL, 90, i % 2 * 7 * UNIT, 1 + i % 4);
        CHECK_EQUAL(0, any.wrong);
        CHECK_EQUAL(90, any.calls);
        for (size_t d = 0; d < 3; d++)
            CHECK_EQUAL(any.chosen[d], report.devices[d].units);
    }
    MUST(muster_close(m, &problem));
}

/* Runs a job by a user's policy over this many units of two simulated devices. */
static muster_status run_own(const struct muster_policy *policy, uint64_t units,
                             struct muster_report *report)
{
    struct muster *m = open_sim("sim", "[{\"items_per_s\": 1e6}, {\"items_per_s\": 1e6}]");
    struct account account;
    account_init(&account, units * UNIT);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = UNIT;
    how.user_policy = policy;
    how.affinity = 7;
    struct muster_job *job = start(m, &desc);
    muster_status status = muster_job_wait(job, report, &problem);
    muster_job_destroy(job);
    check_account(&account, report->delivered);
    MUST(muster_close(m, NULL));
    account_deinit(&account);
    return status;
}

/* Where it chooses none nothing is placed before something changes. */
static int choose_the_second(void *state, const struct muster_hints *hints,
                             const struct muster_candidate *const *candidates, size_t count)
{
    struct chooser *chooser = state;
    chooser->wrong += hints->affinity != 7;
    for (size_t i = 0; chooser->calls++ > 0 && i < count; i++)
        if (number_of(candidates[i]) == 1)
            return (int)i;
    return -1;
}

static void a_policy_may_choose_none(void)
{
    struct chooser chooser;
    struct muster_policy policy = policy_of(&chooser, choose_the_second);
    struct muster_report report = full_report();
    MUST(run_own(&policy, 50, &report));
    CHECK_EQUAL(0, chooser.wrong);
    CHECK_EQUAL(0, device_in(&report, "sim:0")->units);
    CHECK_EQUAL(50, device_in(&report, "sim:1")->units);
}

static int choose_past_the_end(void *state, const struct muster_hints *hints,
                               const struct muster_candidate *const *candidates, size_t count)
{
    struct chooser *chooser = state;
    (void)hints, (void)candidates;
    return chooser->calls++ < 5 ? 0 : (int)count;
}

static void a_choice_of_nothing_fails_the_job(void)
{
    struct chooser chooser;
    struct muster_policy policy = policy_of(&chooser, choose_past_the_end);
    struct muster_report report = full_report();
    CHECK_STATUS(MUSTER_E_INVALID, run_own(&policy, 50, &report));
    CHECK_CONTAINS("policy any chose", problem.text);
    CHECK(report.delivered <= 5 * UNIT);
    CHECK_EQUAL(6, chooser.calls);
}

/* The load that it is shown counts what it has chosen, whether devices know of that yet or not. */
static struct door held;
static atomic_bool is_held;
static atomic_uint seen_calls;

static int choose_the_first(void *state, const struct muster_hints *hints,
                            const struct muster_candidate *const *candidates, size_t count)
{
    struct chooser *chooser = state;
    (void)hints;
    for (size_t i = 0; atomic_load(&is_held) && i < count; i++)
        chooser->wrong +=
            candidates[i]->load->queue_depth != chooser->chosen[number_of(candidates[i])];
    chooser->chosen[number_of(candidates[0])]++;
    atomic_fetch_add(&seen_calls, 1);
    return 0;
}

static muster_status compute_held(uint64_t begin, uint64_t end, void *const *args)
{
    door_pass(&held);
    return compute(begin, end, args);
}

static void candidates_count_what_was_chosen(void)
{
    struct muster *m = open_sim("sim", "[{\"items_per_s\": 1e6}, {\"items_per_s\": 1e6}]");
    struct chooser chooser;
    struct muster_policy policy = policy_of(&chooser, choose_the_first);
    struct account account;
    account_init(&account, 20 * UNIT);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute_held));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = UNIT;
    how.depth = 4;
    how.user_policy = &policy;
    held = (struct door)DOOR_INIT;
    atomic_store(&is_held, true);
    atomic_store(&seen_calls, 0);
    struct muster_job *job = start(m, &desc);
    /* All that there is room for. */
    while (atomic_load(&seen_calls) < 8)
        sched_yield();
    CHECK_EQUAL(4, chooser.chosen[0]);
    CHECK_EQUAL(4, chooser.chosen[1]);
    atomic_store(&is_held, false);
    door_open(&held);
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    check_account(&account, account.items);
    CHECK_EQUAL(0, chooser.wrong);
    CHECK_EQUAL(20, chooser.chosen[0] + chooser.chosen[1]);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* A sink that does not return before more units were run than were placed when it was called. */
static atomic_uint runs;

static muster_status compute_and_count(uint64_t begin, uint64_t end, void *const *args)
{
    atomic_fetch_add(&runs, 1);
    return compute(begin, end, args);
}

static muster_status await_runs(struct account *account)
{
    (void)account;
    while (atomic_load(&runs) < 6)
        sched_yield();
    return MUSTER_OK;
}

static void units_are_placed_while_a_sink_runs(void)
{
    struct muster *m = open_sim("sim", "[{\"items_per_s\": 1e6}, {\"items_per_s\": 1e6}]");
    struct account account;
    account_init(&account, 20 * UNIT);
    account.special = 0;
    account.act = await_runs;
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute_and_count));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    set_policy(&how, NULL);
    how.unit_items = UNIT;
    how.depth = 1;
    atomic_store(&runs, 0);
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    check_account(&account, account.items);
    CHECK_EQUAL(0, any.wrong);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* One policy for all: its state has no lock. */
static struct muster *shared;

static void *pick_often(void *argument)
{
    for (unsigned i = 0; i < 40; i++) {
        muster_lease lease;
        muster_device device;
        struct muster_error said;
        muster_status status = muster_pick(shared, &any.policy, NULL, &lease, &device, &said);
        CHECK(status == MUSTER_OK || status == MUSTER_E_BUSY);
        if (status == MUSTER_OK)
            CHECK_STATUS(MUSTER_OK, muster_lease_release(shared, lease, &said));
    }
    return argument;
}

static void jobs_and_picks_take_turns_at_a_policy(void)
{
    struct account accounts[3];
    struct muster_job *jobs[3];
    struct muster_run_options how = { .size = sizeof how };
    pthread_t thread;
    shared = open_sim("sim", "[{\"count\": 3, \"items_per_s\": 1e8}]");
    set_policy(&how, NULL);
    how.unit_items = UNIT;
    for (size_t i = 0; i < COUNT_OF(jobs); i++) {
        account_init(&accounts[i], 60 * UNIT);
        struct muster_job_desc desc = account_desc(&accounts[i], kernel_of(shared, compute));
        desc.options = &how;
        jobs[i] = start(shared, &desc);
    }
    CHECK_EQUAL(0, pthread_create(&thread, NULL, pick_often, NULL));
    for (size_t i = 0; i < COUNT_OF(jobs); i++) {
        MUST(muster_job_wait(jobs[i], NULL, &problem));
        muster_job_destroy(jobs[i]);
        check_account(&accounts[i], accounts[i].items);
        account_deinit(&accounts[i]);
    }
    CHECK_EQUAL(0, pthread_join(thread, NULL));
    CHECK_EQUAL(0, any.wrong);
    MUST(muster_close(shared, &problem));
}

/*
 * A job that waits for its turn at a policy ends when it is cancelled, even with another job in the policy. The job
 * itself has one unit placed and no other.
 */
static int choose_held(void *state, const struct muster_hints *hints,
                       const struct muster_candidate *const *candidates, size_t count)
{
    struct chooser *chooser = state;
    (void)candidates, (void)count;
    if (hints->affinity == 7)
        return chooser->calls++ == 0 ? 0 : -1;
    door_pass(&held);
    return 0;
}

static void *pick_held(void *argument)
{
    muster_lease lease;
    muster_device device;
    struct muster_error said;
    CHECK_STATUS(MUSTER_OK, muster_pick(shared, argument, NULL, &lease, &device, &said));
    CHECK_STATUS(MUSTER_OK, muster_lease_release(shared, lease, &said));
    return NULL;
}

/* Its device hangs too, so that nothing else happens meanwhile. */
static struct door hung;

static muster_status compute_hung(uint64_t begin, uint64_t end, void *const *args)
{
    door_pass(&hung);
    return compute(begin, end, args);
}

static void a_job_does_not_wait_for_its_turn_when_it_ends(void)
{
    struct chooser chooser;
    struct muster_policy policy = policy_of(&chooser, choose_held);
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct account account;
    pthread_t thread;
    options.devices = "sim";
    options.sim = "[{\"items_per_s\": 1e6}]";
    options.close_ns = test_patience(100 * MS);
    shared = open_with(options);
    held = hung = (struct door)DOOR_INIT;
    account_init(&account, 20 * UNIT);
    struct muster_job_desc desc = account_desc(&account, kernel_of(shared, compute_hung));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = UNIT;
    how.affinity = 7;
    how.user_policy = &policy;
    struct muster_job *job = start(shared, &desc);
    door_wait_arrived(&hung, 1);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, pick_held, &policy));
    door_wait_arrived(&held, 1);
    /* By then the job has come to wait for its turn; if it has not, nothing is shown and all is well. */
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_job_wait_for(job, 150 * MS, NULL, &problem));
    muster_job_cancel(job);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_job_wait(job, NULL, &problem));
    CHECK_CONTAINS("sim:0", problem.text);
    CHECK(!strstr(problem.text, "policy"));
    door_open(&hung);
    /* The device is refused until it has finished what was given up. */
    muster_device device = find(shared, "sim:0");
    while (load_of(shared, device).health != MUSTER_HEALTH_OK)
        sched_yield();
    door_open(&held);
    CHECK_EQUAL(0, pthread_join(thread, NULL));
    muster_job_destroy(job);
    check_account(&account, 0);
    while (load_of(shared, device).streams_acquired > 0)
        sched_yield();
    MUST(muster_close(shared, &problem));
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
        TEST(sticky_units_go_home),
        TEST(a_users_policy_is_kept_to),
        TEST(a_policy_may_choose_none),
        TEST(a_choice_of_nothing_fails_the_job),
        TEST(candidates_count_what_was_chosen),
        TEST(units_are_placed_while_a_sink_runs),
        TEST(jobs_and_picks_take_turns_at_a_policy),
        TEST(a_job_does_not_wait_for_its_turn_when_it_ends),
        TEST(a_device_that_fails_all_is_quarantined),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
