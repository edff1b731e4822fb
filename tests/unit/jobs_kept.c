/*
 * Results that a sink keeps: they stay as they are while the job goes on, and there is a limit to
 * them; and the window in bytes.
 */
#include "jobs_support.h"

#define ITEMS UINT64_C(20000)
#define UNIT UINT64_C(100)
#define KEPT 7u

struct keeper {
    struct account *account;
    struct muster_kept *kept[KEPT];
    unsigned count, refused, wrong;
    bool releases; /* the oldest, when there is no room */
};

static bool is_right(const struct muster_result *result, const struct account *account)
{
    const uint64_t *out = result->outputs[0];
    for (uint64_t i = result->range.begin; i < result->range.end; i++)
        if (out[i - result->range.begin] != answer(i, account->in[i]))
            return false;
    return true;
}

static void release_oldest(struct keeper *keeper)
{
    keeper->wrong += !is_right(muster_kept_result(keeper->kept[0]), keeper->account);
    muster_result_release(keeper->kept[0]);
    keeper->count--;
    memmove(&keeper->kept[0], &keeper->kept[1], keeper->count * sizeof keeper->kept[0]);
}

static muster_status keep(void *user, const struct muster_result *result)
{
    struct keeper *keeper = user;
    struct muster_kept *kept;
    struct muster_error err;
    keeper->wrong += !is_right(result, keeper->account);
    if (keeper->count == KEPT) {
        keeper->wrong += muster_result_retain(result, &kept, &err) != MUSTER_E_CAPACITY;
        keeper->refused++;
        if (!keeper->releases)
            return MUSTER_OK;
        release_oldest(keeper);
    }
    keeper->wrong += muster_result_retain(result, &kept, &err) != MUSTER_OK;
    keeper->kept[keeper->count++] = kept;
    /* Once is enough. */
    keeper->wrong += muster_result_retain(result, &kept, &err) != MUSTER_E_INVALID;
    return MUSTER_OK;
}

static void run(const char *devices, const char *sim, bool releases)
{
    struct muster *m = open_sim(devices, sim);
    struct account account;
    account_init(&account, ITEMS);
    struct keeper keeper = { .account = &account, .releases = releases };
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    desc.sink = keep;
    desc.sink_user = &keeper;
    how.unit_items = UNIT;
    how.kept_max = KEPT;
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, NULL, &problem));
    CHECK_EQUAL(KEPT, keeper.count);
    CHECK(keeper.refused == ITEMS / UNIT - KEPT);
    /* Also when the job is over they are what they were. */
    while (keeper.count > 0)
        release_oldest(&keeper);
    CHECK_EQUAL(0, keeper.wrong);
    muster_job_destroy(job);
    check_prefix(&account, ITEMS, ITEMS);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

static void what_is_kept_stays_as_it_is(void)
{
    run("cpu", NULL, false);
    run("sim", "[{\"count\": 2, \"items_per_s\": 1e7, \"h2d_bytes_per_s\": 1e9}]", false);
}

static void what_is_released_can_be_kept_again(void)
{
    run("cpu", NULL, true);
    run("sim", "[{\"count\": 2, \"items_per_s\": 1e7, \"h2d_bytes_per_s\": 1e9}]", true);
}

static void without_room_nothing_is_kept(void)
{
    struct muster *m = open_sim("cpu", NULL);
    struct account account;
    account_init(&account, 10);
    struct keeper keeper = { .account = &account };
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    desc.sink = keep;
    desc.sink_user = &keeper;
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    CHECK(keeper.wrong > 0);
    how.kept_max = UINT32_MAX;
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_start(m, &desc, &job, &problem));
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

struct measured {
    struct muster_job *job;
    uint64_t largest;
};

static muster_status measure(void *user, const struct muster_result *result)
{
    struct measured *measured = user;
    uint64_t items = result->range.end - result->range.begin;
    measured->largest = items > measured->largest ? items : measured->largest;
    return MUSTER_OK;
}

/* No unit is larger than the window, and the window is what fits into its bytes. */
static void the_window_may_be_in_bytes(void)
{
    struct muster *m = open_sim("cpu", NULL);
    struct account account;
    account_init(&account, ITEMS);
    struct measured measured = { .largest = 0 };
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    desc.sink = measure;
    desc.sink_user = &measured;
    how.unit_items = 1000;
    how.window_bytes = 50 * sizeof(uint64_t) + 3;
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    CHECK_EQUAL(50, measured.largest);
    uint64_t none, small, large;
    /* A processor writes into the array itself, unless the sink may keep results. */
    MUST(muster_job_memory_estimate(m, &desc, &none, &problem));
    CHECK_EQUAL(0, none);
    how.kept_max = 1;
    MUST(muster_job_memory_estimate(m, &desc, &small, &problem));
    how.window_bytes = 0;
    MUST(muster_job_memory_estimate(m, &desc, &large, &problem));
    CHECK(small < large);
    check_prefix(&account, ITEMS, ITEMS);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* Units after the first begin when this is opened. */
static struct door later_units = DOOR_INIT;
/* Of the first unit. */
#define FAILING_ITEM UINT64_C(3)

static muster_status compute_or_fail(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t first = *(const uint64_t *)args[0];
    if (first > 0 && begin == 0)
        door_pass(&later_units);
    compute(begin, end, args);
    return first == 0 && begin <= FAILING_ITEM && FAILING_ITEM < end ? MUSTER_E_FAILED : MUSTER_OK;
}

static muster_status keep_and_release(void *user, const struct muster_result *result)
{
    struct keeper *keeper = user;
    struct muster_kept *kept;
    struct muster_error err;
    keeper->wrong += muster_result_retain(result, &kept, &err) != MUSTER_OK;
    if (result->range.begin > 0) {
        muster_result_release(kept);
        return MUSTER_OK;
    }
    muster_result_release(kept);
    door_open(&later_units);
    /* Two have their memory already; more than that take what is free. */
    door_wait_arrived(&later_units, 6);
    /* The result is the sink's until it returns. */
    for (uint64_t i = 0; i < result->range.end; i++) {
        bool has_failed = i == FAILING_ITEM;
        keeper->wrong += (result->statuses[i] != MUSTER_OK) != has_failed;
        keeper->wrong += !has_failed && ((const uint64_t *)result->outputs[0])[i] !=
                                            answer(i, keeper->account->in[i]);
    }
    keeper->count++;
    return MUSTER_OK;
}

/* What is released within the sink is given to no other unit before the sink has returned. */
static void what_is_released_at_once_still_counts(void)
{
    static muster_status each[ITEMS];
    struct muster *m = open_sim("cpu", NULL);
    struct account account;
    account_init(&account, ITEMS);
    struct keeper keeper = { .account = &account };
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute_or_fail));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    desc.sink = keep_and_release;
    desc.sink_user = &keeper;
    desc.each_status = each;
    how.unit_items = UNIT;
    how.kept_max = 1;
    how.tries = 1;
    how.no_copies = 1;
    struct muster_job *job = start(m, &desc);
    struct muster_report report = full_report();
    CHECK_STATUS(MUSTER_E_FAILED, muster_job_wait(job, &report, &problem));
    CHECK_EQUAL(1, keeper.count);
    CHECK_EQUAL(0, keeper.wrong);
    CHECK_EQUAL(1, report.failed_items);
    CHECK_EQUAL(1, report.failed_count);
    CHECK_EQUAL(FAILING_ITEM, report.failed[0].begin);
    CHECK_EQUAL(FAILING_ITEM + 1, report.failed[0].end);
    for (uint64_t i = 0; i < ITEMS; i++)
        CHECK_STATUS(i == FAILING_ITEM ? MUSTER_E_FAILED : MUSTER_OK, each[i]);
    muster_job_destroy(job);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(what_is_kept_stays_as_it_is),
        TEST(what_is_released_can_be_kept_again),
        TEST(what_is_released_at_once_still_counts),
        TEST(without_room_nothing_is_kept),
        TEST(the_window_may_be_in_bytes),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
