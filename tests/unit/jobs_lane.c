/*
 * Jobs with a kernel on a device with memory of its own: how many calls a unit costs, small units that
 * go together, arguments of many kinds and sizes, and what is noticed while a sink takes its time.
 *
 * The device is a simulated one that says it is a GPU, behind a table that counts.
 */
#include "jobs_support.h"

#include "backend/sim/sim.h"
#include "platform/thread.h"

#include <stdatomic.h>

/* What the lanes of a job ask of the backend and of the runtime's lock. */
static _Atomic uint64_t copies, launches, others, lock_rounds;
static _Atomic bool refuses_host_calls;

void __real_platform_mutex_lock(struct platform_mutex *mutex);
void __wrap_platform_mutex_lock(struct platform_mutex *mutex);

void __wrap_platform_mutex_lock(struct platform_mutex *mutex)
{
    atomic_fetch_add_explicit(&lock_rounds, 1, memory_order_relaxed);
    __real_platform_mutex_lock(mutex);
}

static muster_status count_copy(void *stream, const struct muster_copy_desc *copy,
                                struct muster_error *err)
{
    atomic_fetch_add(&copies, 1);
    return backend_sim.copy(stream, copy, err);
}

static muster_status count_launch(void *stream, void *kernel,
                                  const struct muster_launch_desc *launch, size_t count,
                                  struct muster_error *err)
{
    atomic_fetch_add(&launches, 1);
    return backend_sim.launch(stream, kernel, launch, count, err);
}

static muster_status count_record(void *event, void *stream, struct muster_error *err)
{
    atomic_fetch_add(&others, 1);
    return backend_sim.event_record(event, stream, err);
}

static muster_status count_wait(void *stream, void *event, struct muster_error *err)
{
    atomic_fetch_add(&others, 1);
    return backend_sim.stream_wait(stream, event, err);
}

static muster_status call_or_refuse(void *stream, void (*function)(void *, muster_status),
                                    void *user, struct muster_error *err)
{
    atomic_fetch_add(&others, 1);
    if (atomic_load(&refuses_host_calls))
        return muster_error_fill(err, MUSTER_E_DRIVER, 7, NULL, "no calls today");
    return backend_sim.host_call(stream, function, user, err);
}

static _Atomic bool is_gpu;

static muster_status open_device(void *backend, uint32_t index, void *device,
                                 struct muster_device_info *info, struct muster_error *err)
{
    muster_status status = backend_sim.device_open(backend, index, device, info, err);
    if (atomic_load(&is_gpu))
        info->kind = MUSTER_KIND_GPU;
    return status;
}

static struct muster *open_counted(const char *sim, bool as_gpu)
{
    static struct muster_backend table;
    static const struct muster_backend *const tables[] = { &table };
    table = backend_sim;
    table.name = "counted";
    table.copy = count_copy;
    table.launch = count_launch;
    table.event_record = count_record;
    table.stream_wait = count_wait;
    table.host_call = call_or_refuse;
    table.device_open = open_device;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.backends = (const struct muster_backend **)(uintptr_t)tables;
    options.backend_count = 1;
    options.devices = "counted";
    options.sim = sim;
    atomic_store(&is_gpu, as_gpu);
    atomic_store(&refuses_host_calls, false);
    atomic_store(&copies, 0);
    atomic_store(&launches, 0);
    atomic_store(&others, 0);
    return open_with(options);
}

#define FAST "[{\"items_per_s\": 1e12}]"
#define SMALL 100
#define UNITS 4000

/* The sink of a job with units of SMALL items: each is one of the caller's. */
static muster_status expect_units(void *user, const struct muster_result *result)
{
    struct account *account = user;
    uint64_t items = result->range.end - result->range.begin;
    account->wrong += result->range.begin % SMALL != 0 ||
                      (items != SMALL && result->range.end != account->items) ||
                      result->output_bytes[0] != items * sizeof(uint64_t);
    return keep_account(user, result);
}

/* Where a driver is to be spared, units that are small cost less than a call each. */
static void small_units_share_copies_and_launches(void)
{
    struct muster *m = open_counted(FAST, true);
    struct account account;
    account_init(&account, UNITS * SMALL - 3);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how, .unit_items = SMALL };
    desc.options = &how;
    desc.sink = expect_units;
    atomic_store(&lock_rounds, 0);
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    uint64_t rounds = atomic_load(&lock_rounds);
    check_account(&account, account.items);
    CHECK_EQUAL(UNITS, account.calls);
    CHECK(atomic_load(&launches) <= UNITS / 8);
    CHECK_EQUAL(2 * atomic_load(&launches), atomic_load(&copies));
    CHECK(atomic_load(&copies) + atomic_load(&launches) + atomic_load(&others) < UNITS);
    CHECK(rounds < 2 * UNITS);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* Units that are large enough go alone, and one costs a few rounds through locks, not dozens. */
static void a_unit_costs_few_rounds_through_locks(void)
{
    struct muster *m = open_counted(FAST, false);
    struct account account;
    account_init(&account, UNITS * SMALL);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how, .unit_items = SMALL };
    desc.options = &how;
    desc.sink = expect_units;
    MUST(muster_job_wait(start(m, &desc), NULL, &problem));
    atomic_store(&account.next, 0);
    account.calls = 0;
    atomic_store(&copies, 0);
    atomic_store(&launches, 0);
    atomic_store(&others, 0);
    atomic_store(&lock_rounds, 0);
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, NULL, &problem));
    uint64_t rounds = atomic_load(&lock_rounds);
    muster_job_destroy(job);
    check_account(&account, account.items);
    CHECK_EQUAL(UNITS, account.calls);
    CHECK_EQUAL(UNITS, atomic_load(&launches));
    CHECK_EQUAL(2 * UNITS, atomic_load(&copies));
    /* Records of three steps and two around the kernel, two waits, one call. */
    CHECK(atomic_load(&others) < 9 * UNITS);
    /* The queue behind the device has a lock too, which each of its calls and operations takes. */
    CHECK(rounds < 60 * UNITS);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* Arguments of many kinds and sizes. */

struct odd {
    uint8_t bytes[12];
};

/* FIRST, IN uint8_t, VALUE uint32_t, IN struct odd, INOUT uint64_t, OUT uint16_t, ALL uint32_t. */
static muster_status mix(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t first = *(const uint64_t *)args[0];
    const uint8_t *bytes = *(const uint8_t *const *)args[1];
    uint32_t value = *(const uint32_t *)args[2];
    const struct odd *odds = *(const struct odd *const *)args[3];
    uint64_t *both = *(uint64_t *const *)args[4];
    uint16_t *out = *(uint16_t *const *)args[5];
    const uint32_t *all = *(const uint32_t *const *)args[6];
    for (uint64_t i = begin; i < end; i++) {
        both[i] = both[i] * 3 + first + i + all[(first + i) % 8];
        out[i] = (uint16_t)(bytes[i] + value + odds[i].bytes[(first + i) % 12]);
    }
    return MUSTER_OK;
}

static void run_mix(const char *devices, bool as_gpu, uint64_t items, uint64_t unit, uint32_t depth)
{
    struct muster *m =
        as_gpu ? open_counted("[{\"items_per_s\": 1e12}, {\"items_per_s\": 1e10}]", true)
               : open_sim(devices, "[{\"items_per_s\": 1e12}]");
    uint8_t *bytes = malloc(items);
    struct odd *odds = malloc(items * sizeof *odds);
    uint64_t *both = malloc(items * sizeof *both);
    uint16_t *out = malloc(items * sizeof *out);
    uint32_t value = 77, all[8] = { 1, 2, 3, 5, 8, 13, 21, 34 };
    muster_data data;
    CHECK(bytes && odds && both && out);
    MUST(muster_data_create(m, all, sizeof all, 0, &data, &problem));
    for (uint64_t i = 0; i < items; i++) {
        bytes[i] = (uint8_t)(i * 7);
        for (size_t k = 0; k < sizeof odds->bytes; k++)
            odds[i].bytes[k] = (uint8_t)(i + k * 31);
        both[i] = i << 20;
        out[i] = 0;
    }
    const struct muster_arg args[] = { MUSTER_FIRST,    MUSTER_IN(bytes),   MUSTER_VALUE(value),
                                       MUSTER_IN(odds), MUSTER_INOUT(both), MUSTER_OUT(out),
                                       MUSTER_ALL(data) };
    struct muster_run_options how = { .size = sizeof how, .unit_items = unit, .depth = depth };
    MUST(muster_for(m, kernel_of(m, mix), items, args, COUNT_OF(args), &how, NULL, &problem));
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < items; i++) {
        wrong += both[i] != (i << 20) * 3 + i + all[i % 8];
        wrong += out[i] != (uint16_t)((uint8_t)(i * 7) + 77 + (uint8_t)(i + i % 12 * 31));
    }
    CHECK_EQUAL(0, wrong);
    MUST(muster_close(m, &problem));
    free(bytes);
    free(odds);
    free(both);
    free(out);
}

static void arguments_of_many_sizes_lie_side_by_side(void)
{
    static const uint64_t units[] = { 0, 1, 7, 5000 };
    for (size_t i = 0; i < COUNT_OF(units); i++)
        for (uint32_t depth = 0; depth < 4; depth += 3) {
            uint64_t items = units[i] == 1 ? 400 : 20003;
            run_mix(NULL, true, items, units[i], depth);
            run_mix("sim", false, items, units[i], depth);
            run_mix("cpu,sim", false, items, units[i], depth);
        }
}

/* A source's items with what lies around them. */

#define HALO 3

static uint64_t value_of(uint64_t item)
{
    return item * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

static int64_t supply(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    (void)user, (void)bytes;
    for (uint64_t i = 0; i < items; i++)
        ((uint64_t *)to)[i] = value_of(begin + i);
    return (int64_t)items;
}

/* SOURCE with a halo, OUT. */
static muster_status add_neighbours(uint64_t begin, uint64_t end, void *const *args)
{
    const uint64_t *in = *(const uint64_t *const *)args[0];
    uint64_t *out = *(uint64_t *const *)args[1];
    for (uint64_t i = begin; i < end; i++) {
        out[i] = 0;
        for (int k = -HALO; k <= HALO; k++)
            out[i] += (uint64_t)(k + HALO + 1) * in[(int64_t)i + k];
    }
    return MUSTER_OK;
}

struct neighbours {
    uint64_t items, next, wrong, calls;
};

static muster_status check_neighbours(void *user, const struct muster_result *result)
{
    struct neighbours *of = user;
    const uint64_t *supplied = result->supplied;
    of->wrong += result->range.begin != of->next;
    for (uint64_t i = result->range.begin; i < result->range.end; i++) {
        uint64_t sum = 0;
        for (int k = -HALO; k <= HALO; k++)
            if ((int64_t)i + k >= 0 && i + (uint64_t)k < of->items)
                sum += (uint64_t)(k + HALO + 1) * value_of(i + (uint64_t)k);
        of->wrong += ((const uint64_t *)result->outputs[0])[i - result->range.begin] != sum;
        of->wrong += supplied[i - result->range.begin] != value_of(i);
    }
    of->next = result->range.end;
    of->calls++;
    return MUSTER_OK;
}

static void merged_units_have_their_neighbours(void)
{
    struct muster *m = open_counted(FAST, true);
    const struct muster_arg args[] = {
        MUSTER_SOURCE_HALO(uint64_t, HALO),
        { .size = sizeof(struct muster_arg), .kind = MUSTER_ARG_OUT, .bytes = sizeof(uint64_t) }
    };
    struct neighbours of = { .items = 1000 * SMALL + 1 };
    struct muster_run_options how = { .size = sizeof how, .unit_items = SMALL };
    const struct muster_job_desc desc = { .size = sizeof desc,
                                          .kernel = kernel_of(m, add_neighbours),
                                          .items = of.items,
                                          .args = args,
                                          .arg_count = COUNT_OF(args),
                                          .source = supply,
                                          .sink = check_neighbours,
                                          .sink_user = &of,
                                          .options = &how };
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    CHECK_EQUAL(0, of.wrong);
    CHECK_EQUAL(of.items, of.next);
    CHECK_EQUAL(1001, of.calls);
    CHECK(atomic_load(&launches) < 500);
    MUST(muster_close(m, &problem));
}

/* Items that fail, in units that went together. */

#define BAD(item) ((item) % 1009 == 17)

static muster_status refuse_some(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t first = *(const uint64_t *)args[0];
    compute(begin, end, args);
    for (uint64_t i = begin; i < end; i++)
        if (BAD(first + i))
            return MUSTER_E_INVALID;
    return MUSTER_OK;
}

static void merged_units_fail_item_by_item(void)
{
    for (int as_gpu = 0; as_gpu < 2; as_gpu++) {
        struct muster *m = open_counted(FAST, as_gpu);
        struct account account;
        account_init(&account, 100 * SMALL);
        muster_status *each = malloc(account.items * sizeof *each);
        struct muster_report report = full_report();
        struct muster_run_options how = { .size = sizeof how, .unit_items = SMALL };
        uint64_t wrong = 0, bad = 0;
        CHECK(each);
        CHECK_STATUS(MUSTER_E_FAILED, muster_for_each_status(
                                          m, kernel_of(m, refuse_some), account.items, account.args,
                                          COUNT_OF(account.args), each, &how, &report, &problem));
        for (uint64_t i = 0; i < account.items; i++) {
            bad += BAD(i);
            wrong += each[i] != (BAD(i) ? MUSTER_E_INVALID : MUSTER_OK);
            wrong += account.out[i] != (BAD(i) ? UNTOUCHED : answer(i, account.in[i]));
        }
        CHECK_EQUAL(0, wrong);
        CHECK_EQUAL(bad, report.failed_items);
        CHECK_EQUAL(0, load_of(m, find(m, "counted:0")).queue_depth);
        MUST(muster_close(m, &problem));
        free(each);
        account_deinit(&account);
    }
}

/* Results that are kept have a buffer each, so units go alone. */

static struct muster_kept *kept[UNITS];
static uint64_t kept_count;

static muster_status keep_some(void *user, const struct muster_result *result)
{
    struct muster_error err;
    if (kept_count < 8)
        expect_units(user, result);
    else
        return expect_units(user, result);
    return muster_result_retain(result, &kept[kept_count++], &err);
}

static void kept_results_stay_beside_small_units(void)
{
    struct muster *m = open_counted(FAST, true);
    struct account account;
    account_init(&account, 400 * SMALL);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how, .unit_items = SMALL, .kept_max = 8 };
    desc.options = &how;
    desc.sink = keep_some;
    kept_count = 0;
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, NULL, &problem));
    uint64_t wrong = 0;
    for (uint64_t k = 0; k < kept_count; k++) {
        const struct muster_result *result = muster_kept_result(kept[k]);
        for (uint64_t i = result->range.begin; i < result->range.end; i++)
            wrong += ((const uint64_t *)result->outputs[0])[i - result->range.begin] !=
                     answer(i, account.in[i]);
        muster_result_release(kept[k]);
    }
    muster_job_destroy(job);
    CHECK_EQUAL(8, kept_count);
    CHECK_EQUAL(0, wrong);
    check_account(&account, account.items);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* A driver that makes no calls in stream order: the end of a unit is noticed all the same. */
static void refused_host_calls_cost_no_unit(void)
{
    struct muster *m = open_counted(FAST, false);
    struct account account;
    account_init(&account, 50 * SMALL);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_report report = full_report();
    struct muster_run_options how = { .size = sizeof how, .unit_items = SMALL };
    desc.options = &how;
    atomic_store(&refuses_host_calls, true);
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, &report, &problem));
    muster_job_destroy(job);
    check_account(&account, account.items);
    CHECK_EQUAL(0, report.retries);
    CHECK_EQUAL(0, load_of(m, find(m, "counted:0")).queue_depth);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* A sink that takes its time. */

static struct door sink_door = DOOR_INIT;

static muster_status wait_at_door(struct account *account)
{
    (void)account;
    door_pass(&sink_door);
    return MUSTER_OK;
}

/* While the sink has the conductor, a device that hangs is noticed, and another does its units. */
static void a_long_sink_does_not_hide_a_hung_device(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "sim";
    options.sim = "[{\"items_per_s\": 1e8, \"faults\": [{\"kind\": \"hang\", \"at_launch\": 2}]},"
                  " {\"items_per_s\": 1e5}]";
    options.close_ns = test_patience(100 * MS);
    struct muster *m = open_with(options);
    struct account account;
    account_init(&account, 40 * SMALL);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_report report = full_report();
    struct muster_run_options how = { .size = sizeof how,
                                      .unit_items = SMALL,
                                      .timeout_ns = test_patience(100 * MS) };
    desc.options = &how;
    account.special = 0;
    account.act = wait_at_door;
    struct muster_job *job = start(m, &desc);
    door_wait_arrived(&sink_door, 1);
    do
        MUST(muster_job_report(job, &report, &problem));
    while (device_in(&report, "sim:0")->health == MUSTER_HEALTH_OK);
    CHECK_EQUAL(0, report.delivered);
    door_open(&sink_door);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_job_wait(job, &report, &problem));
    CHECK_EQUAL(account.items, report.delivered);
    muster_job_destroy(job);
    check_account(&account, account.items);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(m, &problem));
    account_deinit(&account);
}

/* A device with merged units that goes at any launch, beside one that stays. */
static void a_loss_between_merged_units_costs_a_rerun(void)
{
    for (unsigned launch = 1; launch < 12; launch++) {
        char sim[200];
        snprintf(sim, sizeof sim,
                 "[{\"items_per_s\": 1e9, \"faults\": [{\"kind\": \"lost\", \"at_launch\": %u}]},"
                 " {\"items_per_s\": 1e9}]",
                 launch);
        struct muster *m = open_counted(sim, true);
        struct account account;
        account_init(&account, 600 * SMALL);
        struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
        struct muster_run_options how = { .size = sizeof how, .unit_items = SMALL };
        desc.options = &how;
        desc.sink = expect_units;
        struct muster_job *job = start(m, &desc);
        MUST(muster_job_wait(job, NULL, &problem));
        muster_job_destroy(job);
        check_account(&account, account.items);
        CHECK_EQUAL(600, account.calls);
        CHECK_EQUAL(0, load_of(m, find(m, "counted:1")).queue_depth);
        MUST(muster_close(m, &problem));
        account_deinit(&account);
    }
}

/* Cancelled at any of the caller's units: what was delivered is a prefix of whole units. */
static muster_status cancel_own(struct account *account)
{
    muster_job_cancel(account->job);
    return MUSTER_OK;
}

static void a_merged_job_can_be_cancelled_anywhere(void)
{
    struct muster *m = open_counted("[{\"items_per_s\": 1e9}]", true);
    for (uint64_t at = 0; at < 600; at += 37) {
        struct account account;
        account_init(&account, 600 * SMALL);
        struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
        struct muster_run_options how = { .size = sizeof how, .unit_items = SMALL };
        desc.options = &how;
        desc.sink = expect_units;
        account.special = at * SMALL;
        account.act = cancel_own;
        MUST(muster_start(m, &desc, &account.job, &problem));
        muster_status status = muster_job_wait(account.job, NULL, &problem);
        CHECK(status == MUSTER_E_CANCELLED || status == MUSTER_OK);
        muster_job_destroy(account.job);
        CHECK_EQUAL(0, account.wrong);
        CHECK(account.next > at * SMALL);
        CHECK_EQUAL(0, load_of(m, find(m, "counted:0")).queue_depth);
        CHECK_EQUAL(0, load_of(m, find(m, "counted:0")).streams_acquired);
        account_deinit(&account);
    }
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(small_units_share_copies_and_launches),
        TEST(a_unit_costs_few_rounds_through_locks),
        TEST(arguments_of_many_sizes_lie_side_by_side),
        TEST(merged_units_have_their_neighbours),
        TEST(merged_units_fail_item_by_item),
        TEST(kept_results_stay_beside_small_units),
        TEST(refused_host_calls_cost_no_unit),
        TEST(a_long_sink_does_not_hide_a_hung_device),
        TEST(a_loss_between_merged_units_costs_a_rerun),
        TEST(a_merged_job_can_be_cancelled_anywhere),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
