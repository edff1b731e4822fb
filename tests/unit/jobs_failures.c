/*
 * Jobs that meet trouble, on real threads: devices that are lost, hang or fail units, kernels and
 * sinks that refuse, memory that does not suffice. What is delivered is right, in order and once,
 * and the status says what became of the rest.
 */
#include "jobs_support.h"

#include "backend/cpu/cpu.h"
#include "backend/sim/sim.h"

#define UNIT 64

/* Units in the second half of the job wait until the test says go on. */
static _Atomic bool may_go_on;
static _Atomic uint64_t halfway;

static muster_status compute_in_halves(uint64_t begin, uint64_t end, void *const *args)
{
    while (*(const uint64_t *)args[0] >= atomic_load(&halfway) && !atomic_load(&may_go_on))
        sched_yield();
    return compute(begin, end, args);
}

static void hold_second_half(uint64_t items)
{
    atomic_store(&halfway, items / 2);
    atomic_store(&may_go_on, false);
}

static void run_with_loss(uint64_t repetition)
{
    struct muster *m =
        open_sim(NULL, "[{\"items_per_s\": 4e6, \"launch_ns\": 2000},"
                       " {\"items_per_s\": 1e6, \"launch_ns\": 2000,"
                       "  \"faults\": [{\"kind\": \"lost\", \"at_launch\": 3}]},"
                       " {\"items_per_s\": 2e6, \"launch_ns\": 2000, \"jitter\": 0.5}]");
    muster_device lost = find(m, "sim:1");
    struct muster_report report = full_report();
    struct account account;
    account_init(&account, 96 * UNIT);
    hold_second_half(account.items);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute_in_halves));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = UNIT;
    how.depth = 4;
    /* A copy elsewhere would make the rerun needless, now and then. */
    how.no_copies = 1;
    how.window = repetition % 2 * 40 * UNIT;
    struct muster_job *job = start(m, &desc);
    /* Given three, it will be lost, and there is work left for the others. */
    while (load_of(m, lost).dispatched < 3)
        sched_yield();
    atomic_store(&may_go_on, true);
    MUST(muster_job_wait(job, &report, &problem));
    muster_job_destroy(job);
    check_account(&account, account.items);
    check_report(&report);
    CHECK_EQUAL(account.items, report.delivered);
    CHECK(report.retries > 0);
    CHECK_EQUAL(0, report.failed_count);
    CHECK_EQUAL(MUSTER_HEALTH_LOST, device_in(&report, "sim:1")->health);
    CHECK_EQUAL(MUSTER_HEALTH_OK, device_in(&report, "sim:0")->health);
    CHECK_EQUAL(MUSTER_HEALTH_OK, device_in(&report, "cpu:0")->health);
    CHECK(device_in(&report, "sim:1")->units <= 2);
    /* It is not asked again. */
    atomic_store(&account.next, 0);
    job = start(m, &desc);
    MUST(muster_job_wait(job, &report, &problem));
    muster_job_destroy(job);
    CHECK_EQUAL(3, report.device_count);
    CHECK_EQUAL(0, account.wrong);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

static void a_device_lost_half_way_costs_a_rerun(void)
{
    for (unsigned i = 0; i < test_repetitions(15); i++)
        run_with_loss(i);
}

/* The same with whatever Muster chooses, copies too. */
static void a_loss_at_any_launch_is_survived(void)
{
    uint64_t random = test_seed();
    for (unsigned i = 0; i < test_repetitions(10); i++) {
        char sim[400];
        snprintf(sim, sizeof sim,
                 "[{\"items_per_s\": 4e6, \"faults\": [{\"kind\": \"lost\", \"at_launch\": %u}]},"
                 " {\"items_per_s\": 2e6, \"faults\": [{\"kind\": \"unit_error\","
                 "  \"probability\": 0.1}]}, {\"items_per_s\": 1e6, \"launch_ns\": 3000}]",
                 1 + (unsigned)draw(&random, 12));
        struct muster *m = open_sim("sim", sim);
        struct muster_report report = full_report();
        struct account account;
        account_init(&account, 5000);
        struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
        struct muster_run_options how = { .size = sizeof how };
        desc.options = &how;
        how.depth = 1 + (uint32_t)draw(&random, 4);
        how.unit_items = draw(&random, 2) * 50;
        how.window = draw(&random, 2) * 1000;
        how.tries = 9;
        struct muster_job *job = start(m, &desc);
        MUST(muster_job_wait(job, &report, &problem));
        muster_job_destroy(job);
        check_account(&account, account.items);
        check_report(&report);
        MUST(muster_close(m, &problem));
        account_deinit(&account);
    }
}

static void losing_every_device_leaves_a_prefix(void)
{
    for (unsigned i = 0; i < test_repetitions(10); i++) {
        bool is_alone = i % 2;
        struct muster *m = open_sim(is_alone ? "sim:0" : "sim",
                                    "[{\"items_per_s\": 2e6, \"faults\": [{\"kind\": \"lost\","
                                    "  \"at_launch\": 9}]}, {\"items_per_s\": 1e6,"
                                    "  \"faults\": [{\"kind\": \"lost\", \"at_launch\": 5}]}]");
        struct muster_report report = full_report();
        struct account account;
        account_init(&account, 100 * UNIT);
        struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
        struct muster_run_options how = { .size = sizeof how };
        desc.options = &how;
        how.unit_items = UNIT;
        struct muster_job *job = start(m, &desc);
        CHECK_STATUS(MUSTER_E_DEVICE_LOST, muster_job_wait(job, &report, &problem));
        CHECK_CONTAINS("items", problem.text);
        muster_job_destroy(job);
        CHECK(report.delivered <= 12 * UNIT);
        check_account(&account, report.delivered);
        check_report(&report);
        check_failed(&report);
        /* Of two, a unit that ran alone on each when it went is taken for the cause, and fails. */
        bool is_cause = !is_alone && report.failed_count == 1 &&
                        report.failed[0].end - report.failed[0].begin == UNIT;
        CHECK(is_cause || report.failed[report.failed_count - 1].end == account.items);
        for (size_t d = 0; d < report.device_count; d++)
            CHECK_EQUAL(MUSTER_HEALTH_LOST, report.devices[d].health);
        /* None is left for another. */
        CHECK_STATUS(MUSTER_E_NO_DEVICE, muster_start(m, &desc, &job, &problem));
        MUST(muster_close(m, &problem));
        account_deinit(&account);
    }
}

/* Sinks. */

static muster_status refuse_item(struct account *account)
{
    (void)account;
    return MUSTER_E_IO;
}

static muster_status cancel_in_sink(struct account *account)
{
    muster_job_cancel(account->job);
    return MUSTER_OK;
}

static muster_status dawdle(struct account *account)
{
    (void)account;
    uint64_t until = now_ns() + 30 * MS;
    while (now_ns() < until)
        sched_yield();
    return MUSTER_OK;
}

#define SIM_TWO                                                                                    \
    "[{\"items_per_s\": 8e6, \"launch_ns\": 2000}, {\"items_per_s\": 2e6, \"launch_ns\": 2000}]"

static muster_status run_with_sink(muster_status (*act)(struct account *account), uint64_t window,
                                   struct account *account, struct muster_report *report)
{
    struct muster *m = open_sim(NULL, SIM_TWO);
    account_init(account, 100 * UNIT);
    account->special = 50 * UNIT;
    account->act = act;
    struct muster_job_desc desc = account_desc(account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = UNIT;
    how.window = window;
    MUST(muster_start(m, &desc, &account->job, &problem));
    *report = full_report();
    muster_status status = muster_job_wait(account->job, report, &problem);
    muster_job_destroy(account->job);
    MUST(muster_close(m, &problem));
    check_report(report);
    CHECK_EQUAL(0, account->wrong);
    return status;
}

static void a_sink_that_fails_fails_the_job(void)
{
    for (unsigned i = 0; i < test_repetitions(10); i++) {
        struct account account;
        struct muster_report report;
        muster_status status = run_with_sink(refuse_item, i % 3 * 10 * UNIT, &account, &report);
        CHECK_STATUS(MUSTER_E_IO, status);
        CHECK_CONTAINS("the sink refused items 3200 to 3264", problem.text);
        CHECK_EQUAL(51, account.calls);
        CHECK_EQUAL(50 * UNIT, report.delivered);
        /* Arrays are written before the sink is asked. */
        check_prefix(&account, 51 * UNIT, account.items);
        CHECK_EQUAL(1, report.failed_count);
        CHECK_EQUAL(50 * UNIT, report.failed[0].begin);
        CHECK_EQUAL(51 * UNIT, report.failed[0].end);
        account_deinit(&account);
    }
}

static void a_sink_may_cancel(void)
{
    for (unsigned i = 0; i < test_repetitions(10); i++) {
        struct account account;
        struct muster_report report;
        muster_status status = run_with_sink(cancel_in_sink, i % 3 * 10 * UNIT, &account, &report);
        CHECK_STATUS(MUSTER_E_CANCELLED, status);
        CHECK_CONTAINS("3264 of 6400", problem.text);
        CHECK_EQUAL(51, account.calls);
        CHECK_EQUAL(51 * UNIT, report.delivered);
        check_account(&account, 51 * UNIT);
        CHECK_EQUAL(0, report.failed_count);
        account_deinit(&account);
    }
}

static void a_sink_may_take_its_time(void)
{
    struct account account;
    struct muster_report report;
    CHECK_STATUS(MUSTER_OK, run_with_sink(dawdle, 10 * UNIT, &account, &report));
    check_account(&account, account.items);
    account_deinit(&account);
}

/* Units that fail. */

static void failed_units_are_run_elsewhere(void)
{
    struct muster *m =
        open_sim(NULL, "[{\"items_per_s\": 4e6, \"faults\": [{\"kind\": \"unit_error\"}]},"
                       " {\"items_per_s\": 1e6, \"faults\": [{\"kind\": \"unit_error\","
                       "  \"probability\": 0.3}]}]");
    muster_device bad = find(m, "sim:0");
    struct muster_report report = full_report();
    struct account account;
    account_init(&account, 96 * UNIT);
    hold_second_half(account.items);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute_in_halves));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = UNIT;
    how.tries = 12;
    how.no_copies = 1;
    struct muster_job *job = start(m, &desc);
    while (load_of(m, bad).dispatched == 0)
        sched_yield();
    atomic_store(&may_go_on, true);
    MUST(muster_job_wait(job, &report, &problem));
    muster_job_destroy(job);
    check_account(&account, account.items);
    check_report(&report);
    CHECK(report.retries > 0);
    CHECK(device_in(&report, "sim:0")->retries > 0);
    CHECK_EQUAL(0, device_in(&report, "sim:0")->units);
    /* Bad luck with units is no bad health: a job may leave the device alone, others do not. */
    CHECK_EQUAL(MUSTER_HEALTH_OK, load_of(m, bad).health);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

static void a_unit_out_of_tries_fails_the_job(void)
{
    struct muster *m = open_sim("sim", "[{\"count\": 2, \"items_per_s\": 4e6,"
                                       " \"faults\": [{\"kind\": \"unit_error\"}]}]");
    struct muster_report report = full_report();
    struct account account;
    account_init(&account, 100 * UNIT);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = UNIT;
    struct muster_job *job = start(m, &desc);
    CHECK_STATUS(MUSTER_E_FAILED, muster_job_wait(job, &report, &problem));
    muster_job_destroy(job);
    CHECK_CONTAINS("failed on sim:", problem.text);
    CHECK_EQUAL(0, report.delivered);
    CHECK(report.retries >= 2);
    check_account(&account, 0);
    check_failed(&report);
    CHECK(report.failed[0].begin % UNIT == 0);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* A kernel that refuses one item on every device. */
#define REFUSED_ITEM (30 * UNIT + 5)
static _Atomic unsigned refusals;

static muster_status compute_but_one(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t first = *(const uint64_t *)args[0];
    if (first + begin <= REFUSED_ITEM && REFUSED_ITEM < first + end) {
        atomic_fetch_add(&refusals, 1);
        return MUSTER_E_PARSE;
    }
    return compute(begin, end, args);
}

static void what_a_kernel_refuses_is_not_tried_again(void)
{
    for (unsigned i = 0; i < test_repetitions(10); i++) {
        /* An earlier failure that was made good again is not what the job failed of. */
        struct muster *m = open_sim(
            i % 2 ? "cpu,sim" : "sim",
            "[{\"items_per_s\": 8e6}, {\"items_per_s\": 4e6, \"faults\": [{\"kind\":"
            " \"unit_error\", \"at_launch\": 1}, {\"kind\": \"unit_error\", \"at_launch\": 2}]}]");
        struct muster_report report = full_report();
        struct account account;
        account_init(&account, 100 * UNIT);
        struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute_but_one));
        struct muster_run_options how = { .size = sizeof how };
        desc.options = &how;
        how.unit_items = UNIT;
        how.no_copies = 1;
        atomic_store(&refusals, 0);
        struct muster_job *job = start(m, &desc);
        CHECK_STATUS(MUSTER_E_PARSE, muster_job_wait(job, &report, &problem));
        muster_job_destroy(job);
        CHECK_CONTAINS("items 1920 to 1984 failed on", problem.text);
        CHECK(*problem.device);
        CHECK_EQUAL(1, refusals);
        CHECK(report.delivered <= 30 * UNIT);
        check_account(&account, report.delivered);
        check_failed(&report);
        CHECK_EQUAL(1, report.failed_count);
        CHECK_EQUAL(30 * UNIT, report.failed[0].begin);
        CHECK_EQUAL(31 * UNIT, report.failed[0].end);
        MUST(muster_close(m, &problem));
        account_deinit(&account);
    }
}

/* Devices that hang. */

static struct muster *open_hanging(const char *devices, const char *sim)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.cpu_workers = 2;
    options.devices = devices;
    options.sim = sim;
    options.close_ns = test_patience(300 * MS);
    return open_with(options);
}

/* Closing names the device, and takes no longer than it may. */
static void close_hanging(struct muster *m)
{
    uint64_t begin_ns = now_ns();
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(m, &problem));
    CHECK_CONTAINS("sim:0", problem.text);
    CHECK(now_ns() - begin_ns < test_patience(4 * SECOND));
}

static void a_hung_device_is_left_behind(void)
{
    struct muster *m =
        open_hanging(NULL, "[{\"items_per_s\": 4e6, \"faults\": [{\"kind\": \"hang\","
                           "  \"at_launch\": 3}]}, {\"items_per_s\": 1e6}]");
    muster_device hung = find(m, "sim:0");
    struct muster_report report = full_report();
    struct account account;
    account_init(&account, 96 * UNIT);
    hold_second_half(account.items);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute_in_halves));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = UNIT;
    how.depth = 4;
    how.no_copies = 1;
    how.timeout_ns = test_patience(400 * MS);
    struct muster_job *job = start(m, &desc);
    while (load_of(m, hung).dispatched < 3)
        sched_yield();
    atomic_store(&may_go_on, true);
    /* Others have done all of it; what it still holds is told, since it may read the arrays yet. */
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_job_wait(job, &report, &problem));
    CHECK_CONTAINS("6144 of 6144 items were delivered", problem.text);
    check_account(&account, account.items);
    CHECK_EQUAL(account.items, report.delivered);
    CHECK_EQUAL(0, report.failed_count);
    CHECK(report.retries > 0);
    CHECK_EQUAL(MUSTER_HEALTH_SUSPECT, device_in(&report, "sim:0")->health);
    muster_job_destroy(job);
    close_hanging(m);
    account_deinit(&account);
}

/* The tenth unit is begun when the eighth is done; the ninth may not be copied back any more. */
#define UNITS_BEFORE_HANG 8
#define SIM_HANGS "[{\"items_per_s\": 4e6, \"faults\": [{\"kind\": \"hang\", \"at_launch\": 10}]}]"

/* It has been given the unit that it hangs at, and the results before that are out. */
static void wait_for_hang(struct muster *m, const struct account *account)
{
    while (load_of(m, find(m, "sim:0")).dispatched < 10 ||
           atomic_load(&account->next) < UNITS_BEFORE_HANG * UNIT)
        sched_yield();
}

static void check_before_hang(const struct account *account)
{
    CHECK(account->next == UNITS_BEFORE_HANG * UNIT ||
          account->next == (UNITS_BEFORE_HANG + 1) * UNIT);
    check_account(account, account->next);
}

static void with_only_hung_devices_the_job_ends(void)
{
    struct muster *m = open_hanging("sim", SIM_HANGS);
    struct muster_report report = full_report();
    struct account account;
    account_init(&account, 100 * UNIT);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = UNIT;
    how.timeout_ns = test_patience(200 * MS);
    struct muster_job *job = start(m, &desc);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_job_wait(job, &report, &problem));
    CHECK_CONTAINS("still holds", problem.text);
    check_before_hang(&account);
    CHECK_EQUAL(account.next, report.delivered);
    check_failed(&report);
    CHECK_EQUAL(1, report.failed_count);
    CHECK_EQUAL(report.delivered, report.failed[0].begin);
    CHECK_EQUAL(account.items, report.failed[0].end);
    muster_job_destroy(job);
    close_hanging(m);
    account_deinit(&account);
}

/* Law 8: a job that is over for another reason does not wait for a hung device either. */
static void a_cancelled_job_does_not_wait_for_a_hung_device(void)
{
    struct muster *m = open_hanging("sim", SIM_HANGS);
    struct account account;
    account_init(&account, 100 * UNIT);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = UNIT;
    how.timeout_ns = test_patience(200 * MS);
    struct muster_job *job = start(m, &desc);
    wait_for_hang(m, &account);
    muster_job_cancel(job);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    check_before_hang(&account);
    close_hanging(m);
    account_deinit(&account);
}

/* Nobody has found the device hung yet, and nobody would for a long time. */
static void closing_does_not_wait_for_a_hung_job(void)
{
    struct muster *m = open_hanging("sim", SIM_HANGS);
    struct account account;
    account_init(&account, 100 * UNIT);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = UNIT;
    how.timeout_ns = 100 * SECOND;
    start(m, &desc);
    wait_for_hang(m, &account);
    close_hanging(m);
    check_before_hang(&account);
    account_deinit(&account);
}

/* What the device held comes back with it: streams, memory, and the job's own. */
static void a_device_that_comes_back_late_gives_all_back(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "sim";
    char sim[128];
    snprintf(sim, sizeof sim,
             "[{\"items_per_s\": 4e6, \"faults\": [{\"kind\": \"hang\", \"at_launch\": 10,"
             "  \"for_ms\": %llu}]}]",
             (unsigned long long)test_patience(500));
    options.sim = sim;
    options.allocator = counting_allocator(&counting);
    options.streams_max = 3;
    struct muster *m = open_with(options);
    muster_device device = find(m, "sim:0");
    struct account account;
    account_init(&account, 100 * UNIT);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    struct muster_job *job;
    how.unit_items = UNIT;
    how.timeout_ns = test_patience(100 * MS);
    job = start(m, &desc);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    check_before_hang(&account);
    CHECK_EQUAL(3, load_of(m, device).streams_acquired);
    /* The device is refused until it is back; then all streams are free, as soon as its lane has left. */
    how.timeout_ns = 0;
    for (;;) {
        atomic_store(&account.next, 0);
        muster_status status = muster_start(m, &desc, &job, &problem);
        if (status == MUSTER_OK)
            break;
        CHECK(status == MUSTER_E_NO_DEVICE || status == MUSTER_E_CAPACITY);
        sched_yield();
    }
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    check_account(&account, account.items);
    CHECK_EQUAL(0, load_of(m, device).streams_acquired);
    CHECK_EQUAL(0, load_of(m, device).memory_used);
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, counting.bytes);
    account_deinit(&account);
}

/* Memory. */

static void memory_that_does_not_suffice_is_told_at_the_start(void)
{
    struct muster *m = open_sim("sim", "[{\"items_per_s\": 4e6, \"memory\": \"512KiB\"}]");
    struct account account;
    account_init(&account, 400000);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    struct muster_job *job = NULL;
    how.unit_items = 100000;
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_start(m, &desc, &job, &problem));
    CHECK(!job);
    CHECK_TEXT("sim:0", problem.device);
    CHECK(*problem.text && *problem.fix);
    CHECK_EQUAL(0, load_of(m, find(m, "sim:0")).memory_used);
    CHECK_EQUAL(0, load_of(m, find(m, "sim:0")).streams_acquired);
    how.unit_items = 10000;
    job = start(m, &desc);
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    check_account(&account, account.items);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* Backends that can do less, or do it badly. */

static struct muster *open_backend(const struct muster_backend *table, const char *devices)
{
    static const struct muster_backend *tables[1];
    struct muster_options options = MUSTER_OPTIONS_INIT;
    tables[0] = table;
    options.cpu_workers = 2;
    options.backends = tables;
    options.backend_count = 1;
    options.devices = devices;
    options.sim = SIM_TWO;
    return open_with(options);
}

static _Atomic unsigned failures_left;

static muster_status fail_some_times(uint64_t begin, uint64_t end, void *const *args)
{
    unsigned left = atomic_load(&failures_left);
    while (left > 0 && !atomic_compare_exchange_weak(&failures_left, &left, left - 1))
        ;
    return left > 0 ? MUSTER_E_FAILED : compute(begin, end, args);
}

/* A kernel's failure that nobody asks for is its stream's. */
static muster_status launch_unasked(void *stream, void *kernel,
                                    const struct muster_launch_desc *launch, size_t count,
                                    struct muster_error *err)
{
    struct muster_launch_desc unasked = *launch;
    unasked.result = NULL;
    return backend_cpu.launch(stream, kernel, &unasked, count, err);
}

/* A failed stream takes nothing more: the unit's next try needs another, though the pool is empty. */
static void failed_streams_are_replaced_when_all_are_out(void)
{
    struct muster_backend table = backend_cpu;
    table.name = "brittle";
    table.launch = launch_unasked;
    const struct muster_backend *tables[] = { &table };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.backends = tables;
    options.backend_count = 1;
    options.cpu_workers = 1;
    options.devices = "brittle";
    options.streams_max = 2;
    struct muster *m = open_with(options);
    muster_device device = find(m, "brittle:0");
    struct muster_report report = full_report();
    struct account account;
    account_init(&account, 96 * UNIT);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, fail_some_times));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = UNIT;
    how.depth = 2;
    atomic_store(&failures_left, 2);
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, &report, &problem));
    CHECK_EQUAL(2, report.retries);
    check_account(&account, account.items);
    /* The job has its streams until it is over, and then others have them. */
    CHECK_EQUAL(0, load_of(m, device).streams_acquired);
    muster_job_destroy(job);
    for (unsigned i = 0; i < 2; i++)
        wait_for(m, acquire(m, device));
    muster_stream none;
    CHECK_STATUS(MUSTER_E_CAPACITY, muster_stream_acquire(m, device, 0, &none, &problem));
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* Without calls in stream order a lane waits for each unit, and all comes out the same. */
static void a_backend_without_host_calls_will_do(void)
{
    struct muster_backend table = backend_sim;
    table.name = "plain";
    table.host_call = NULL;
    struct muster *m = open_backend(&table, "plain");
    struct account account;
    account_init(&account, 20 * UNIT);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = UNIT;
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    check_account(&account, account.items);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* Every seventh launch is refused, in a way that is the unit's own bad luck. */
static _Atomic unsigned launches;

static muster_status launch_or_refuse(void *stream, void *kernel,
                                      const struct muster_launch_desc *launch, size_t count,
                                      struct muster_error *err)
{
    if (atomic_fetch_add(&launches, 1) % 7 == 6)
        return muster_error_fill(err, MUSTER_E_DRIVER, 42, "ask again", "no launch today");
    return backend_cpu.launch(stream, kernel, launch, count, err);
}

static void a_launch_that_is_refused_is_tried_again(void)
{
    struct muster_backend table = backend_cpu;
    table.name = "moody";
    table.launch = launch_or_refuse;
    struct muster *m = open_backend(&table, "moody");
    struct muster_report report = full_report();
    struct account account;
    account_init(&account, 50 * UNIT);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = UNIT;
    how.no_copies = 1;
    atomic_store(&launches, 0);
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, &report, &problem));
    muster_job_destroy(job);
    check_account(&account, account.items);
    CHECK(report.retries >= 7);
    /* With a single try the driver's own words are what the job ends with. */
    how.tries = 1;
    atomic_store(&account.next, 0);
    job = start(m, &desc);
    CHECK_STATUS(MUSTER_E_DRIVER, muster_job_wait(job, &report, &problem));
    muster_job_destroy(job);
    CHECK_CONTAINS("no launch today", problem.text);
    CHECK_TEXT("ask again", problem.fix);
    CHECK_EQUAL(42, problem.driver_code);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* A driver that registers memory and must hear when that goes, as long as it answers. */
static _Atomic int registered, registered_at_close;

static muster_status count_register(void *device, void *memory, size_t bytes,
                                    struct muster_error *err)
{
    (void)device, (void)memory, (void)bytes, (void)err;
    atomic_fetch_add(&registered, 1);
    return MUSTER_OK;
}

static void count_unregister(void *device, void *memory)
{
    (void)device, (void)memory;
    atomic_fetch_sub(&registered, 1);
}

static muster_status note_close(void *device)
{
    atomic_store(&registered_at_close, atomic_load(&registered));
    return backend_sim.device_close(device);
}

static void memory_stays_known_to_a_device_that_hangs(void)
{
    static const struct muster_backend *tables[1];
    struct muster_backend table = backend_sim;
    for (int is_reused = 0; is_reused < 2; is_reused++) {
        struct muster_options options = MUSTER_OPTIONS_INIT;
        table.name = "told";
        table.host_register = count_register;
        table.host_unregister = count_unregister;
        table.device_close = note_close;
        tables[0] = &table;
        options.backends = tables;
        options.backend_count = 1;
        options.devices = "told";
        char sim[128];
        snprintf(sim, sizeof sim,
                 "[{\"items_per_s\": 4e6, \"faults\": [{\"kind\": \"hang\","
                 " \"at_launch\": 5, \"for_ms\": %llu}]}]",
                 (unsigned long long)test_patience(300));
        options.sim = sim;
        options.kept_bytes = 1; /* nothing is kept for the next job */
        struct muster *m = open_with(options);
        struct account account;
        account_init(&account, 20 * UNIT);
        struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
        struct muster_run_options how = { .size = sizeof how };
        desc.options = &how;
        how.unit_items = UNIT;
        how.timeout_ns = test_patience(50 * MS);
        atomic_store(&registered, 0);
        struct muster_job *job = start(m, &desc);
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_job_wait(job, NULL, &problem));
        muster_job_destroy(job);
        CHECK(atomic_load(&registered) > 0);
        /* What it had is given back by the next job that comes by, or by close. */
        while (is_reused && atomic_load(&registered) > 0) {
            how.devices = "nobody";
            CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_start(m, &desc, &job, &problem));
            sched_yield();
        }
        MUST(muster_close(m, &problem));
        CHECK_EQUAL(0, registered_at_close);
        account_deinit(&account);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_device_lost_half_way_costs_a_rerun),
        TEST(a_loss_at_any_launch_is_survived),
        TEST(losing_every_device_leaves_a_prefix),
        TEST(a_sink_that_fails_fails_the_job),
        TEST(a_sink_may_cancel),
        TEST(a_sink_may_take_its_time),
        TEST(failed_units_are_run_elsewhere),
        TEST(a_unit_out_of_tries_fails_the_job),
        TEST(what_a_kernel_refuses_is_not_tried_again),
        TEST(a_hung_device_is_left_behind),
        TEST(with_only_hung_devices_the_job_ends),
        TEST(a_cancelled_job_does_not_wait_for_a_hung_device),
        TEST(closing_does_not_wait_for_a_hung_job),
        TEST(a_device_that_comes_back_late_gives_all_back),
        TEST(memory_that_does_not_suffice_is_told_at_the_start),
        TEST(failed_streams_are_replaced_when_all_are_out),
        TEST(a_backend_without_host_calls_will_do),
        TEST(a_launch_that_is_refused_is_tried_again),
        TEST(memory_stays_known_to_a_device_that_hangs),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
