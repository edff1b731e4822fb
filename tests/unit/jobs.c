/*
 * Jobs that go well, on real threads: every kind of argument, sizes from nothing to more than a
 * buffer, every window and depth, several at once; and descriptions that are refused.
 */
#include "jobs_support.h"

#define TABLE 16

/* Two simulated devices of unequal speed. */
#define SIM_UNEQUAL                                                                                \
    "[{\"items_per_s\": 5e7, \"launch_ns\": 2000, \"memory\": \"256MiB\"},"                        \
    " {\"items_per_s\": 1e7, \"launch_ns\": 5000, \"memory\": \"256MiB\"}]"

/* Arguments: VALUE, IN, ALL, INOUT, FIRST, OUT of bytes, OUT. */
static muster_status mix(uint64_t begin, uint64_t end, void *const *args)
{
    uint32_t value = *(const uint32_t *)args[0];
    const uint16_t *in = *(const uint16_t *const *)args[1];
    const uint64_t *table = *(const uint64_t *const *)args[2];
    uint64_t *both = *(uint64_t *const *)args[3];
    uint64_t first = *(const uint64_t *)args[4];
    uint8_t *small = *(uint8_t *const *)args[5];
    uint32_t *out = *(uint32_t *const *)args[6];
    for (uint64_t i = begin; i < end; i++) {
        small[i] = (uint8_t)(first + i);
        out[i] = value * in[i];
        both[i] = both[i] * 3 + table[(first + i) % TABLE];
    }
    return MUSTER_OK;
}

struct arrays {
    uint64_t items;
    uint16_t *in;
    uint64_t *both;
    uint8_t *small;
    uint32_t *out;
};

static uint64_t table[TABLE];

static struct arrays arrays_of(uint64_t items)
{
    struct arrays arrays = { .items = items,
                             .in = malloc((items + 1) * sizeof *arrays.in),
                             .both = malloc((items + 1) * sizeof *arrays.both),
                             .small = malloc(items + 1),
                             .out = malloc((items + 1) * sizeof *arrays.out) };
    CHECK(arrays.in && arrays.both && arrays.small && arrays.out);
    for (uint64_t i = 0; i <= items; i++) {
        arrays.in[i] = (uint16_t)(i * 7);
        arrays.both[i] = i;
        arrays.small[i] = 0xee;
        arrays.out[i] = 0xeeeeeeee;
    }
    for (uint64_t i = 0; i < TABLE; i++)
        table[i] = i * i + 1;
    return arrays;
}

static void check_arrays(const struct arrays *arrays, uint32_t value)
{
    uint64_t wrong = 0, n = arrays->items;
    for (uint64_t i = 0; i < n; i++)
        wrong += arrays->in[i] != (uint16_t)(i * 7) || arrays->small[i] != (uint8_t)i ||
                 arrays->out[i] != value * (uint16_t)(i * 7) ||
                 arrays->both[i] != i * 3 + table[i % TABLE];
    CHECK_EQUAL(0, wrong);
    CHECK(arrays->small[n] == 0xee && arrays->out[n] == 0xeeeeeeee && arrays->both[n] == n);
}

static void arrays_free(struct arrays *arrays)
{
    free(arrays->in);
    free(arrays->both);
    free(arrays->small);
    free(arrays->out);
}

/* The job over all kinds of arguments; `value` is changed before it can be over. */
static void run_mix(struct muster *m, struct muster_kernel *kernel, uint64_t items,
                    const struct muster_run_options *options)
{
    struct arrays arrays = arrays_of(items);
    struct muster_report report = full_report();
    uint32_t value = 12345;
    muster_data data;
    MUST(muster_data_create(m, table, sizeof table, 0, &data, &problem));
    struct muster_arg args[] = { MUSTER_VALUE(value),   MUSTER_IN(arrays.in),
                                 MUSTER_ALL(data),      MUSTER_INOUT(arrays.both),
                                 MUSTER_FIRST,          MUSTER_OUT(arrays.small),
                                 MUSTER_OUT(arrays.out) };
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .kernel = kernel,
                                    .items = items,
                                    .args = args,
                                    .arg_count = COUNT_OF(args),
                                    .options = options };
    struct muster_job *job = start(m, &desc);
    value = 0;
    memset(args, 0xff, sizeof args);
    MUST(muster_job_wait(job, &report, &problem));
    muster_job_destroy(job);
    check_arrays(&arrays, 12345);
    check_report(&report);
    CHECK_EQUAL(items, report.delivered);
    CHECK_EQUAL(0, report.retries);
    CHECK_EQUAL(0, report.failed_count);
    CHECK(report.units <= items);
    MUST(muster_data_destroy(m, data, &problem));
    arrays_free(&arrays);
}

static void every_kind_of_argument_arrives(void)
{
    static const char *const lists[] = { "cpu:0", "sim:0", "sim:0,sim:1", NULL };
    struct muster *m = open_sim(NULL, SIM_UNEQUAL);
    struct muster_kernel *kernel = kernel_of(m, mix);
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        const struct muster_run_options options = { .size = sizeof options, .devices = lists[i] };
        run_mix(m, kernel, 30000, &options);
    }
    MUST(muster_close(m, &problem));
}

static void any_size_window_and_depth_will_do(void)
{
    static const uint64_t sizes[] = { 1, 2, 3, 64, 1000, 4097 },
                          units[] = { 0, 0, 1, 7, 100, 5000 },
                          windows[] = { 0, 1, 5, 64, 5000, UINT64_MAX };
    struct muster *m = open_sim(NULL, SIM_UNEQUAL);
    struct muster_kernel *kernel = kernel_of(m, mix);
    uint64_t random = test_seed();
    for (unsigned i = 0; i < test_repetitions(25); i++) {
        const struct muster_run_options options = {
            .size = sizeof options,
            .devices = draw(&random, 3) > 0 ? NULL : "sim:1,cpu:0",
            .unit_items = units[draw(&random, COUNT_OF(units))],
            .window = windows[draw(&random, COUNT_OF(windows))],
            .depth = (uint32_t)draw(&random, 9),
            .tries = (uint32_t)draw(&random, 3),
            .unordered = draw(&random, 2) > 0,
            .no_copies = draw(&random, 2) > 0,
        };
        run_mix(m, kernel, sizes[draw(&random, COUNT_OF(sizes))], &options);
    }
    MUST(muster_close(m, &problem));
}

static void no_items_are_a_job_too(void)
{
    struct muster *m = open_sim(NULL, SIM_UNEQUAL);
    struct muster_kernel *kernel = kernel_of(m, mix);
    struct muster_report report = full_report();
    const struct muster_run_options options = { .size = sizeof options }, few = {
        .size = sizeof few, .unit_items = 3, .window = 2, .depth = 1
    };
    run_mix(m, kernel, 0, &options);
    run_mix(m, kernel, 0, &few);
    MUST(muster_for(m, kernel, 0, NULL, 0, NULL, &report, &problem));
    CHECK_EQUAL(0, report.units);
    CHECK_EQUAL(0, report.failed_count);
    MUST(muster_close(m, &problem));
}

/* Arguments: IN, OUT, bytes of an item. */
static muster_status copy_items(uint64_t begin, uint64_t end, void *const *args)
{
    const char *in = *(const char *const *)args[0];
    char *out = *(char *const *)args[1];
    uint64_t bytes = *(const uint64_t *)args[2];
    memcpy(out + begin * bytes, in + begin * bytes, (end - begin) * bytes);
    return MUSTER_OK;
}

static void run_copy(struct muster *m, struct muster_kernel *kernel, uint64_t items, size_t bytes)
{
    size_t total = (size_t)items * bytes;
    char *in = malloc(total), *out = malloc(total);
    uint64_t item_bytes = bytes;
    CHECK(in && out);
    for (size_t i = 0; i < total; i++)
        in[i] = (char)(i * 31 + (i >> 9));
    memset(out, 0xee, total);
    const struct muster_arg args[] = { { MUSTER_ARG_OF(MUSTER_ARG_IN), .in = in, .bytes = bytes },
                                       { MUSTER_ARG_OF(MUSTER_ARG_OUT), .out = out,
                                         .bytes = bytes },
                                       MUSTER_VALUE(item_bytes) };
    MUST(muster_for(m, kernel, items, args, 3, NULL, NULL, &problem));
    CHECK(memcmp(in, out, total) == 0);
    free(in);
    free(out);
}

static void items_of_any_size_fit(void)
{
    struct muster *m = open_sim(NULL, SIM_UNEQUAL);
    struct muster_kernel *kernel = kernel_of(m, copy_items);
    run_copy(m, kernel, 3, (size_t)5 << 20);
    run_copy(m, kernel, 1, ((size_t)4 << 20) + 1);
    run_copy(m, kernel, 2000000, 3);
    run_copy(m, kernel, 9, (size_t)1 << 20);
    MUST(muster_close(m, &problem));
}

static void outputs_may_be_for_the_sink_alone(void)
{
    struct muster *m = open_sim(NULL, SIM_UNEQUAL);
    struct muster_kernel *kernel = kernel_of(m, compute);
    struct account account;
    account_init(&account, 20000);
    account.args[2].out = NULL;
    struct muster_job_desc desc = account_desc(&account, kernel);
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, NULL, &problem));
    /* As often as anybody likes. */
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    CHECK_EQUAL(0, account.wrong);
    CHECK_EQUAL(account.items, account.next);
    check_prefix(&account, 0, 0);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

struct seen {
    _Atomic uint64_t items, sum;
    uint64_t wrong;
};

static muster_status add_up(void *user, const struct muster_result *result)
{
    struct seen *seen = user;
    seen->wrong += result->output_count != 0;
    for (uint64_t i = result->range.begin; i < result->range.end; i++)
        atomic_fetch_add(&seen->sum, i);
    atomic_fetch_add(&seen->items, result->range.end - result->range.begin);
    return MUSTER_OK;
}

/* Nothing is written, and units have no size that memory sets. */
static void a_job_may_have_no_arrays(void)
{
    struct muster *m = open_sim(NULL, SIM_UNEQUAL);
    struct seen seen = { 0, 0, 0 };
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .kernel = kernel_of(m, do_nothing),
                                    .items = 100000,
                                    .sink = add_up,
                                    .sink_user = &seen,
                                    .options = &(struct muster_run_options){
                                        .size = sizeof(struct muster_run_options),
                                        .unordered = 1 } };
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    CHECK_EQUAL(0, seen.wrong);
    CHECK_EQUAL(100000, seen.items);
    CHECK_EQUAL(UINT64_C(100000) * 99999 / 2, seen.sum);
    uint64_t bytes = 1;
    MUST(muster_job_memory_estimate(m, &desc, &bytes, &problem));
    CHECK_EQUAL(0, bytes);
    MUST(muster_close(m, &problem));
}

/* Law 10: what is claimed and not delivered stays within the window. */
static struct account *watched;
static _Atomic uint64_t widest;

static muster_status compute_in_window(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t used = *(const uint64_t *)args[0] + end - atomic_load(&watched->next),
             before = atomic_load(&widest);
    while (used > before && !atomic_compare_exchange_weak(&widest, &before, used))
        ;
    return compute(begin, end, args);
}

static muster_status wait_for_claims(struct account *account)
{
    /* Everything that may be claimed is, or a while has passed. */
    uint64_t until = now_ns() + 20 * MS;
    while (atomic_load(&widest) < *(uint64_t *)account->user && now_ns() < until)
        sched_yield();
    return MUSTER_OK;
}

static void the_window_is_kept(void)
{
    struct muster *m = open_sim(NULL, SIM_UNEQUAL);
    struct muster_kernel *kernel = kernel_of(m, compute_in_window);
    static const uint64_t units[] = { 0, 10 };
    for (size_t u = 0; u < COUNT_OF(units); u++) {
        uint64_t window = 100;
        struct account account;
        account_init(&account, 20000);
        account.special = 300;
        account.act = wait_for_claims;
        account.user = &window;
        watched = &account;
        widest = 0;
        struct muster_job_desc desc = account_desc(&account, kernel);
        struct muster_run_options how = { .size = sizeof how };
        desc.options = &how;
        how.window = window;
        how.unit_items = units[u];
        /* A copy that comes too late runs on items that have been delivered. */
        how.no_copies = 1;
        struct muster_job *job = start(m, &desc);
        MUST(muster_job_wait(job, NULL, &problem));
        muster_job_destroy(job);
        check_account(&account, account.items);
        CHECK(widest <= window);
        CHECK(widest > window / 4);
        account_deinit(&account);
    }
    MUST(muster_close(m, &problem));
}

struct caller {
    struct muster *m;
    struct muster_kernel *kernel;
    uint64_t seed;
    struct account account;
    muster_status status;
    pthread_t thread;
};

static void *call_jobs(void *argument)
{
    struct caller *caller = argument;
    for (unsigned i = 0; i < test_repetitions(6) && caller->status == MUSTER_OK; i++) {
        struct muster_job_desc desc = account_desc(&caller->account, caller->kernel);
        struct muster_run_options how = { .size = sizeof how };
        desc.options = &how;
        struct muster_job *job;
        atomic_store(&caller->account.next, 0);
        desc.items = 1 + draw(&caller->seed, caller->account.items);
        how.window = draw(&caller->seed, 2) * 512;
        caller->status = muster_start(caller->m, &desc, &job, NULL);
        if (caller->status != MUSTER_OK)
            break;
        caller->status = muster_job_wait(job, NULL, NULL);
        caller->account.wrong += atomic_load(&caller->account.next) != desc.items;
        muster_job_destroy(job);
    }
    return NULL;
}

static void jobs_run_side_by_side(void)
{
    struct muster *m = open_sim(NULL, SIM_UNEQUAL);
    struct muster_kernel *kernel = kernel_of(m, compute);
    struct caller callers[4];
    for (size_t i = 0; i < COUNT_OF(callers); i++) {
        callers[i] = (struct caller){ .m = m, .kernel = kernel, .seed = test_seed() + i };
        account_init(&callers[i].account, 5000);
        CHECK(pthread_create(&callers[i].thread, NULL, call_jobs, &callers[i]) == 0);
    }
    for (size_t i = 0; i < COUNT_OF(callers); i++)
        pthread_join(callers[i].thread, NULL);
    for (size_t i = 0; i < COUNT_OF(callers); i++) {
        CHECK_STATUS(MUSTER_OK, callers[i].status);
        CHECK_EQUAL(0, callers[i].account.wrong);
        account_deinit(&callers[i].account);
    }
    MUST(muster_close(m, &problem));
}

static muster_status stand_in_sink(struct account *account)
{
    door_pass(account->user);
    return MUSTER_OK;
}

static void progress_is_told(void)
{
    struct muster *m = open_sim(NULL, SIM_UNEQUAL);
    struct door door = DOOR_INIT;
    struct muster_progress progress = { .size = sizeof progress };
    struct account account;
    account_init(&account, 1000);
    account.special = 500;
    account.act = stand_in_sink;
    account.user = &door;
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = 100;
    struct muster_job *job = start(m, &desc);
    door_wait_arrived(&door, 1);
    MUST(muster_job_progress(job, &progress, &problem));
    CHECK_EQUAL(1000, progress.items);
    CHECK_EQUAL(500, progress.delivered);
    CHECK(!progress.is_over && progress.elapsed_ns > 0 && progress.items_per_s > 0);
    CHECK(progress.remaining_ns > 0 && progress.remaining_ns < UINT64_MAX);
    door_open(&door);
    MUST(muster_job_wait(job, NULL, &problem));
    MUST(muster_job_progress(job, &progress, &problem));
    CHECK_EQUAL(1000, progress.delivered);
    CHECK_EQUAL(0, progress.remaining_ns);
    CHECK(progress.is_over);
    muster_job_destroy(job);
    muster_job_destroy(NULL);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* What a report says in mid-job, with the sink standing at item 500, and at the end. */
static void a_report_can_be_had_at_any_time(void)
{
    struct muster *m = open_sim(NULL, SIM_UNEQUAL);
    struct door door = DOOR_INIT;
    struct muster_report now = full_report(), end = full_report();
    struct account account;
    uint64_t items = 0, busy_ns = 0;
    account_init(&account, 1000);
    account.special = 500;
    account.act = stand_in_sink;
    account.user = &door;
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = 100;
    struct muster_job *job = start(m, &desc);
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_job_report(job, &(struct muster_report){ .size = 0 }, &problem));
    door_wait_arrived(&door, 1);
    MUST(muster_job_report(job, &now, &problem));
    CHECK_STATUS(MUSTER_OK, now.status);
    CHECK_EQUAL(1000, now.items);
    CHECK_EQUAL(500, now.delivered);
    CHECK(now.device_count > 1 && now.makespan_ns > 0);
    for (size_t i = 0; i < now.device_count; i++) {
        items += now.devices[i].items;
        busy_ns += now.devices[i].busy_ns;
        CHECK(now.devices[i].busy_ns <= now.makespan_ns);
    }
    CHECK(items >= 500 && items <= 1000 && busy_ns > 0);
    uint64_t parts_ns = now.bound_ns + now.startup_ns + now.transfer_ns + now.overhead_ns +
                        now.starved_ns + now.tail_ns;
    CHECK(parts_ns + 6 >= now.makespan_ns && parts_ns <= now.makespan_ns + 6);
    /* Time goes on though nothing is delivered. */
    MUST(muster_job_report(job, &end, &problem));
    CHECK_EQUAL(500, end.delivered);
    CHECK(end.makespan_ns > now.makespan_ns);
    door_open(&door);
    MUST(muster_job_wait(job, &end, &problem));
    CHECK(end.makespan_ns >= now.makespan_ns);
    MUST(muster_job_report(job, &now, &problem));
    CHECK_EQUAL(1000, now.delivered);
    CHECK_EQUAL(end.makespan_ns, now.makespan_ns);
    CHECK_EQUAL(end.bound_ns, now.bound_ns);
    CHECK_EQUAL(end.device_count, now.device_count);
    for (size_t i = 0; i < now.device_count && i < end.device_count; i++) {
        CHECK_EQUAL(end.devices[i].items, now.devices[i].items);
        CHECK_EQUAL(end.devices[i].busy_ns, now.devices[i].busy_ns);
    }
    muster_job_destroy(job);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* Kernels stop here until the test has seen what it waits for. */
static struct door entrance;

static muster_status compute_behind_door(uint64_t begin, uint64_t end, void *const *args)
{
    door_pass(&entrance);
    return compute(begin, end, args);
}

/*
 * One device goes to sleep over its only unit. When the other has done its own, it is too early to
 * say so; when it is not, the unit is run a second time, long before a time-out would make the first
 * device hung, and the results are there while it still sleeps.
 */
static void a_straggler_is_overtaken(void)
{
    char sim[160];
    snprintf(sim, sizeof sim,
             "[{\"items_per_s\": 1e6, \"faults\": [{\"kind\": \"hang\", \"at_launch\": 1,"
             "  \"for_ms\": %llu}]}, {\"items_per_s\": 1e6}]",
             (unsigned long long)test_patience(1500));
    struct muster *m = open_sim("sim", sim);
    muster_device device = find(m, "sim:0");
    struct muster_report report = full_report();
    struct account account;
    account_init(&account, 80000);
    entrance = (struct door)DOOR_INIT;
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute_behind_door));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = 40000;
    how.depth = 1;
    struct muster_job *job = start(m, &desc);
    while (load_of(m, device).dispatched == 0)
        sched_yield();
    door_open(&entrance);
    MUST(muster_job_wait(job, &report, &problem));
    muster_job_destroy(job);
    check_account(&account, account.items);
    CHECK_EQUAL(1, device_in(&report, "sim:0")->late);
    CHECK_EQUAL(0, device_in(&report, "sim:0")->units);
    CHECK_EQUAL(MUSTER_HEALTH_OK, device_in(&report, "sim:0")->health);
    CHECK(report.makespan_ns < test_patience(900 * MS));
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

static void an_estimate_is_what_is_taken(void)
{
    struct muster *m = open_sim(NULL, SIM_UNEQUAL);
    struct account account;
    account_init(&account, 100000);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    uint64_t bytes = 0, more = 0;
    how.devices = "sim:0";
    how.unit_items = 1000;
    how.depth = 1;
    MUST(muster_job_memory_estimate(m, &desc, &bytes, &problem));
    CHECK(bytes >= 2 * 8000 && bytes <= 6 * 8064);
    how.depth = 8;
    how.devices = NULL;
    MUST(muster_job_memory_estimate(m, &desc, &more, &problem));
    CHECK_EQUAL(24 * bytes, more);
    /* No unit is larger than the window. */
    how.window = 10;
    MUST(muster_job_memory_estimate(m, &desc, &more, &problem));
    CHECK(more < 100000);
    CHECK_EQUAL(0, load_of(m, find(m, "sim:0")).streams_acquired);

    desc.arg_count = 99;
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_job_memory_estimate(m, &desc, &more, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_job_memory_estimate(m, &desc, NULL, &problem));
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* Refused, with nothing started and nothing kept; the words contain `part`. */
static void refuse(struct muster *m, muster_status expected, const struct muster_job_desc *desc,
                   const char *part)
{
    struct muster_job *job = NULL;
    CHECK_STATUS(expected, muster_start(m, desc, &job, &problem));
    CHECK(!job);
    CHECK_CONTAINS(part, problem.text);
    CHECK_EQUAL(0, load_of(m, find(m, "sim:0")).streams_acquired);
    CHECK_EQUAL(0, load_of(m, find(m, "sim:0")).memory_used);
}

static void wrong_arguments_are_refused(void)
{
    struct muster *m = open_sim(NULL, SIM_UNEQUAL);
    struct account account;
    account_init(&account, 10);
    const struct muster_job_desc right = account_desc(&account, kernel_of(m, compute));
    struct muster_job_desc desc = right;
    char large[200] = "";
    const struct muster_arg wrong[] = {
        { MUSTER_ARG_OF((enum muster_arg_kind)0) },
        { MUSTER_ARG_OF((enum muster_arg_kind)7) },
        { MUSTER_ARG_OF(MUSTER_ARG_IN), .bytes = 8 },
        { MUSTER_ARG_OF(MUSTER_ARG_IN), .in = account.in },
        { MUSTER_ARG_OF(MUSTER_ARG_OUT), .out = account.out },
        { MUSTER_ARG_OF(MUSTER_ARG_INOUT), .out = account.out, .bytes = 8 },
        { MUSTER_ARG_OF(MUSTER_ARG_INOUT), .in = account.in },
        { MUSTER_ARG_OF(MUSTER_ARG_VALUE), .bytes = 8 },
        { MUSTER_ARG_OF(MUSTER_ARG_VALUE), .in = account.in },
        { MUSTER_ARG_OF(MUSTER_ARG_VALUE), .in = account.in, .bytes = MUSTER_ARG_BYTES_MAX + 1 },
    };
    desc.arg_count = 1;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        desc.args = &wrong[i];
        refuse(m, MUSTER_E_INVALID, &desc, "argument");
    }
    const struct muster_arg values[] = { MUSTER_VALUE(large), MUSTER_VALUE(large) };
    desc.args = values;
    desc.arg_count = 2;
    refuse(m, MUSTER_E_TOO_LARGE, &desc, "values");
    const struct muster_arg huge[] = {
        { MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = SIZE_MAX - 10 },
        { MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = SIZE_MAX / 2 + 1 },
        { MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = SIZE_MAX / 2 + 1 },
    };
    desc.args = huge;
    desc.items = 1;
    desc.arg_count = 1;
    refuse(m, MUSTER_E_TOO_LARGE, &desc, "larger than any memory");
    desc.args = huge + 1;
    desc.arg_count = 2;
    refuse(m, MUSTER_E_TOO_LARGE, &desc, "larger than any memory");
    desc.items = 2;
    desc.arg_count = 1;
    refuse(m, MUSTER_E_TOO_LARGE, &desc, "larger than any memory");

    muster_data data;
    MUST(muster_data_create(m, table, sizeof table, 0, &data, &problem));
    MUST(muster_data_destroy(m, data, &problem));
    const struct muster_arg stale[] = { MUSTER_ALL(data) };
    desc = right;
    desc.args = stale;
    desc.arg_count = 1;
    refuse(m, MUSTER_E_STALE, &desc, "data");
    const struct muster_arg unknown[] = { MUSTER_ALL(((muster_data){ 77, 3 })) };
    desc.args = unknown;
    refuse(m, MUSTER_E_UNKNOWN, &desc, "data");
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

static void wrong_descriptions_are_refused(void)
{
    struct muster *m = open_sim(NULL, SIM_UNEQUAL), *other = open_sim("cpu", NULL);
    struct account account;
    account_init(&account, 10);
    struct muster_run_options how = { .size = sizeof how };
    struct muster_job_desc right = account_desc(&account, kernel_of(m, compute)), desc;
    right.options = &how;
    desc = right;
    struct muster_job *job;
    desc.size = sizeof desc - 1;
    refuse(m, MUSTER_E_INVALID, &desc, "size");
    desc = right;
    how.size = 1;
    refuse(m, MUSTER_E_INVALID, &desc, "size");
    how.size = sizeof how;
    desc = right;
    desc.kernel = NULL;
    refuse(m, MUSTER_E_INVALID, &desc, "no kernel");
    desc.kernel = kernel_of(other, compute);
    refuse(m, MUSTER_E_INVALID, &desc, "another runtime");
    desc = right;
    desc.args = NULL;
    refuse(m, MUSTER_E_INVALID, &desc, "no arguments");
    desc.arg_count = MUSTER_ARGS_MAX + 1;
    desc.args = right.args;
    refuse(m, MUSTER_E_TOO_LARGE, &desc, "17 arguments");
    desc = right;
    how.depth = 65;
    refuse(m, MUSTER_E_TOO_LARGE, &desc, "depth is 65");
    how.depth = 0;
    desc = right;
    how.devices = "cpu:0,sim:9";
    refuse(m, MUSTER_E_NOT_FOUND, &desc, "sim:9");
    how.devices = "";
    refuse(m, MUSTER_E_NO_DEVICE, &desc, "no device");
    CHECK_STATUS(MUSTER_E_INVALID, muster_start(NULL, &right, &job, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_start(m, NULL, &job, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_start(m, &right, NULL, &problem));
    struct muster_report report = { .size = 3 };
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_for(m, right.kernel, 1, NULL, 0, NULL, &report, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_job_wait(NULL, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_job_progress(NULL, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_job_report(NULL, NULL, &problem));
    muster_job_cancel(NULL);
    check_prefix(&account, 0, 0);
    MUST(muster_close(other, &problem));
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(every_kind_of_argument_arrives),
        TEST(any_size_window_and_depth_will_do),
        TEST(no_items_are_a_job_too),
        TEST(items_of_any_size_fit),
        TEST(outputs_may_be_for_the_sink_alone),
        TEST(a_job_may_have_no_arrays),
        TEST(the_window_is_kept),
        TEST(jobs_run_side_by_side),
        TEST(progress_is_told),
        TEST(a_report_can_be_had_at_any_time),
        TEST(a_straggler_is_overtaken),
        TEST(an_estimate_is_what_is_taken),
        TEST(wrong_arguments_are_refused),
        TEST(wrong_descriptions_are_refused),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
