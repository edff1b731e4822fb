/*
 * Jobs with a status for each item, on real threads: whichever items the kernel refuses, wherever they
 * are and whatever happens to devices meanwhile, exactly these fail, and nothing is written for them.
 */
#include "jobs_support.h"

#include "backend/cpu/cpu.h"

#define ITEMS_MAX 4000
/* A verdict that is no refusal: the item fails with MUSTER_E_FAILED the first this many times. */
#define LUCK_ALWAYS 1000

/* What the kernel does with each item. Written before the job, read by kernels. */
static muster_status verdicts[ITEMS_MAX];
static _Atomic int bad_luck[ITEMS_MAX];
/* Not NULL: where runs of less than a unit stop. */
static struct door *_Atomic parts_door;
static _Atomic uint64_t parts_door_first;

static muster_status judge_item(uint64_t item)
{
    int luck = atomic_load(&bad_luck[item]);
    if (luck > 0) {
        if (luck < LUCK_ALWAYS)
            atomic_fetch_sub(&bad_luck[item], 1);
        return MUSTER_E_FAILED;
    }
    return verdicts[item];
}

/* As compute(). What comes after a refused item is not looked at, and what it wrote is rubbish. */
static muster_status compute_or_refuse(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t first = *(const uint64_t *)args[0];
    uint64_t *out = *(uint64_t *const *)args[2];
    struct door *door = atomic_load(&parts_door);
    if (door && begin > 0 && first == atomic_load(&parts_door_first))
        door_pass(door);
    compute(begin, end, args);
    for (uint64_t i = begin; i < end; i++) {
        muster_status verdict = judge_item(first + i);
        if (verdict == MUSTER_OK)
            continue;
        out[i] = 0xbad;
        return verdict;
    }
    return MUSTER_OK;
}

/* Arguments: FIRST, INOUT. Done twice it is wrong. */
static muster_status compute_in_place(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t first = *(const uint64_t *)args[0];
    uint64_t *both = *(uint64_t *const *)args[1];
    for (uint64_t i = begin; i < end; i++) {
        both[i] = answer(first + i, both[i]);
        muster_status verdict = judge_item(first + i);
        if (verdict != MUSTER_OK)
            return verdict;
    }
    return MUSTER_OK;
}

/* The first unit comes late: when the sink has had a hundred items of others. */
static _Atomic uint64_t *_Atomic seen_so_far;

static muster_status compute_the_first_last(uint64_t begin, uint64_t end, void *const *args)
{
    while (*(const uint64_t *)args[0] == 0 && atomic_load(atomic_load(&seen_so_far)) < 100)
        sched_yield();
    return compute_or_refuse(begin, end, args);
}

/* A job's arrays and statuses, and what its sink saw. */
struct map {
    struct account account;
    muster_status each[ITEMS_MAX + 1];
    _Atomic uint64_t seen; /* items the sink was given */
    uint64_t wrong;        /* of these, with another status or result */
    bool has_been[ITEMS_MAX];
};

static muster_status see_statuses(void *user, const struct muster_result *result)
{
    struct map *map = user;
    const uint64_t *out = result->outputs[0];
    for (uint64_t i = result->range.begin; i < result->range.end; i++) {
        uint64_t at = i - result->range.begin;
        map->wrong += !result->statuses || result->statuses[at] != map->each[i] || map->has_been[i];
        map->wrong += map->each[i] == MUSTER_OK && out[at] != answer(i, map->account.in[i]);
        map->has_been[i] = true;
        map->seen++;
    }
    return MUSTER_OK;
}

/* No item is refused yet. */
static struct map *make_map(uint64_t items)
{
    struct map *map = calloc(1, sizeof *map);
    CHECK(map && items <= ITEMS_MAX);
    account_init(&map->account, items);
    for (uint64_t i = 0; i < ITEMS_MAX; i++) {
        verdicts[i] = MUSTER_OK;
        atomic_store(&bad_luck[i], 0);
    }
    for (uint64_t i = 0; i <= items; i++)
        map->each[i] = 4711;
    atomic_store(&parts_door, NULL);
    return map;
}

static void free_map(struct map *map)
{
    account_deinit(&map->account);
    free(map);
}

static struct muster_job_desc map_desc(struct map *map, struct muster_kernel *kernel)
{
    struct muster_job_desc desc = account_desc(&map->account, kernel);
    desc.each_status = map->each;
    desc.sink = see_statuses;
    desc.sink_user = map;
    return desc;
}

/* Of the first `count` items each ended as the kernel says, and nothing was written for the others. */
static void check_items(const struct map *map, uint64_t count)
{
    const struct account *account = &map->account;
    for (uint64_t i = 0; i < count; i++) {
        muster_status expected =
            atomic_load(&bad_luck[i]) == LUCK_ALWAYS ? MUSTER_E_FAILED : verdicts[i];
        if (map->each[i] != expected)
            test_fail(__FILE__, __LINE__, "item %llu is %s, expected %s", (unsigned long long)i,
                      muster_status_name(map->each[i]), muster_status_name(expected));
        uint64_t result = expected == MUSTER_OK ? answer(i, account->in[i]) : UNTOUCHED;
        if (account->out[i] != result)
            test_fail(__FILE__, __LINE__, "item %llu of %s is %llx", (unsigned long long)i,
                      muster_status_name(expected), (unsigned long long)account->out[i]);
    }
    for (uint64_t i = count; i < account->items; i++) {
        CHECK_EQUAL(MUSTER_E_CANCELLED, map->each[i]);
        CHECK_EQUAL(UNTOUCHED, account->out[i]);
    }
    CHECK_EQUAL(4711, map->each[account->items]);
    CHECK_EQUAL(UNTOUCHED, account->out[account->items]);
}

/* The report names exactly what failed, as long as there is room. */
static void check_ranges(const struct map *map, const struct muster_report *report)
{
    uint64_t failed = 0;
    size_t range = 0;
    for (uint64_t i = 0; i < map->account.items; i++) {
        bool has_failed = map->each[i] != MUSTER_OK;
        failed += has_failed;
        while (range < report->failed_count && report->failed[range].end <= i)
            range++;
        bool is_named = range < report->failed_count && report->failed[range].begin <= i;
        if (has_failed != is_named && (has_failed || report->failed_count < MUSTER_JOB_FAILED_MAX))
            test_fail(__FILE__, __LINE__, "item %llu has %s and is %s", (unsigned long long)i,
                      has_failed ? "failed" : "not failed", is_named ? "named" : "not named");
    }
    for (size_t i = 1; i < report->failed_count; i++)
        CHECK(report->failed[i].begin > report->failed[i - 1].end);
    CHECK_EQUAL(failed, report->failed_items);
}

/* Runs the job to its end: all items were delivered, and each ended as it should. */
static struct muster_report run_map(struct muster *m, struct map *map,
                                    const struct muster_job_desc *desc)
{
    struct muster_report report = full_report();
    struct muster_job *job = start(m, desc);
    muster_status status = muster_job_wait(job, &report, &problem);
    muster_job_destroy(job);
    check_items(map, map->account.items);
    check_ranges(map, &report);
    CHECK_STATUS(report.failed_items > 0 ? MUSTER_E_FAILED : MUSTER_OK, status);
    CHECK_EQUAL(map->account.items, report.delivered);
    CHECK_EQUAL(map->account.items, map->seen);
    CHECK_EQUAL(0, map->wrong);
    return report;
}

#define SIM_MIXED                                                                                  \
    "[{\"items_per_s\": 2e7, \"launch_ns\": 1000}, {\"items_per_s\": 5e6, \"launch_ns\": 1000}]"

/* Which items. */

enum pattern { NONE, FIRST, LAST, SOME, MANY, ALL, PATTERN_COUNT };

static void refuse_items(enum pattern pattern, uint64_t items, uint64_t *random)
{
    static const muster_status kinds[] = { MUSTER_E_PARSE, MUSTER_E_IO, -4242 };
    for (uint64_t i = 0; i < items; i++) {
        bool is_refused = (pattern == FIRST && i == 0) || (pattern == LAST && i == items - 1) ||
                          (pattern == SOME && draw(random, 100) == 0) ||
                          (pattern == MANY && draw(random, 2) == 0) || pattern == ALL;
        verdicts[i] = is_refused ? kinds[draw(random, COUNT_OF(kinds))] : MUSTER_OK;
    }
}

static void exactly_the_refused_items_fail(void)
{
    static const char *const devices[] = { "cpu", "sim", "cpu,sim" };
    uint64_t random = test_seed();
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        struct muster *m = open_sim(devices[d], SIM_MIXED);
        struct muster_kernel *kernel = kernel_of(m, compute_or_refuse);
        for (unsigned i = 0; i < test_repetitions(PATTERN_COUNT * 2); i++) {
            uint64_t items = 1 + draw(&random, 500);
            struct map *map = make_map(items);
            refuse_items((enum pattern)(i % PATTERN_COUNT), items, &random);
            struct muster_job_desc desc = map_desc(map, kernel);
            struct muster_run_options how = { .size = sizeof how };
            desc.options = &how;
            how.unit_items = draw(&random, 2) * (1 + draw(&random, 100));
            how.window = draw(&random, 2) * (1 + draw(&random, 200));
            how.depth = 1 + (uint32_t)draw(&random, 3);
            how.unordered = (int)draw(&random, 2);
            run_map(m, map, &desc);
            free_map(map);
        }
        MUST(muster_close(m, &problem));
    }
}

static void the_first_failure_is_told(void)
{
    struct muster *m = open_sim("sim", SIM_MIXED);
    struct map *map = make_map(300);
    verdicts[123] = MUSTER_E_PARSE;
    verdicts[200] = MUSTER_E_IO;
    struct muster_report report = full_report();
    CHECK_STATUS(MUSTER_E_FAILED,
                 muster_for_each_status(m, kernel_of(m, compute_or_refuse), 300, map->account.args,
                                        3, map->each, NULL, &report, &problem));
    CHECK_CONTAINS("item 123 failed", problem.text);
    CHECK_CONTAINS("each_status", problem.fix);
    check_items(map, 300);
    CHECK_EQUAL(2, report.failed_count);
    CHECK_EQUAL(300, report.delivered);
    MUST(muster_close(m, &problem));
    free_map(map);
}

static void arrays_that_are_changed_in_place_keep_what_failed(void)
{
    uint64_t random = test_seed();
    static const char *const devices[] = { "cpu", "sim" };
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        struct muster *m = open_sim(devices[d], SIM_MIXED);
        struct muster_kernel *kernel = kernel_of(m, compute_in_place);
        for (unsigned r = 0; r < test_repetitions(5); r++) {
            struct map *map = make_map(400);
            struct account *account = &map->account;
            refuse_items(r == 0 ? ALL : SOME, 400, &random);
            memcpy(account->out, account->in, 400 * sizeof *account->in);
            const struct muster_arg args[] = { MUSTER_FIRST, MUSTER_INOUT(account->out) };
            muster_status status =
                muster_for_each_status(m, kernel, 400, args, 2, map->each, NULL, NULL, &problem);
            CHECK(status == MUSTER_OK || status == MUSTER_E_FAILED);
            for (uint64_t i = 0; i < 400; i++) {
                CHECK_EQUAL(verdicts[i], map->each[i]);
                CHECK_EQUAL(verdicts[i] == MUSTER_OK ? answer(i, account->in[i]) : account->in[i],
                            account->out[i]);
            }
            free_map(map);
        }
        MUST(muster_close(m, &problem));
    }
}

/* Bad luck. */

static void bad_luck_is_tried_again_and_then_isolated(void)
{
    struct muster *m = open_sim("sim", SIM_MIXED);
    struct muster_kernel *kernel = kernel_of(m, compute_or_refuse);
    for (unsigned r = 0; r < test_repetitions(5); r++) {
        struct map *map = make_map(320);
        struct muster_job_desc desc = map_desc(map, kernel);
        struct muster_run_options how = { .size = sizeof how };
        desc.options = &how;
        how.unit_items = 32;
        how.no_copies = 1;
        /* Twice is within three tries, also of a unit in which something else is being looked for. */
        atomic_store(&bad_luck[70], 2);
        verdicts[130] = MUSTER_E_PARSE;
        atomic_store(&bad_luck[150], 2);
        /* Always is not: the others of its unit are good all the same. */
        atomic_store(&bad_luck[200], LUCK_ALWAYS);
        struct muster_report report = run_map(m, map, &desc);
        CHECK_EQUAL(2, report.failed_items);
        CHECK(report.retries >= 6);
        free_map(map);
    }
    MUST(muster_close(m, &problem));
}

static void with_a_single_try_bad_luck_is_isolated_at_once(void)
{
    struct muster *m = open_sim("sim", SIM_MIXED);
    struct map *map = make_map(100);
    struct muster_job_desc desc = map_desc(map, kernel_of(m, compute_or_refuse));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.tries = 1;
    how.no_copies = 1;
    atomic_store(&bad_luck[0], LUCK_ALWAYS);
    atomic_store(&bad_luck[99], LUCK_ALWAYS);
    CHECK_EQUAL(2, run_map(m, map, &desc).failed_items);
    free_map(map);
    MUST(muster_close(m, &problem));
}

/* A driver that will not have one unit, which is no fault of any of its items. */
static _Atomic uint64_t unwanted;

static muster_status launch_or_refuse(void *stream, void *kernel,
                                      const struct muster_launch_desc *launch, size_t count,
                                      struct muster_error *err)
{
    if (*(const uint64_t *)launch->args[0].value == atomic_load(&unwanted))
        return muster_error_fill(err, MUSTER_E_DRIVER, 42, "ask again", "not this one");
    return backend_cpu.launch(stream, kernel, launch, count, err);
}

static void a_unit_that_cannot_be_run_fails_as_a_whole(void)
{
    struct muster_backend table = backend_cpu;
    const struct muster_backend *tables[] = { &table };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    table.name = "moody";
    table.launch = launch_or_refuse;
    options.cpu_workers = 2;
    options.backends = tables;
    options.backend_count = 1;
    options.devices = "moody";
    struct muster *m = open_with(options);
    struct map *map = make_map(400);
    struct muster_report report = full_report();
    struct muster_job_desc desc = map_desc(map, kernel_of(m, compute_or_refuse));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = 40;
    atomic_store(&unwanted, 120);
    struct muster_job *job = start(m, &desc);
    CHECK_STATUS(MUSTER_E_FAILED, muster_job_wait(job, &report, &problem));
    muster_job_destroy(job);
    for (uint64_t i = 0; i < 400; i++) {
        bool is_bad = i >= 120 && i < 160;
        CHECK_EQUAL(is_bad ? MUSTER_E_DRIVER : MUSTER_OK, map->each[i]);
        CHECK_EQUAL(is_bad ? UNTOUCHED : answer(i, map->account.in[i]), map->account.out[i]);
    }
    CHECK_EQUAL(0, map->wrong);
    CHECK_EQUAL(400, map->seen);
    CHECK_EQUAL(1, report.failed_count);
    CHECK_EQUAL(2, report.retries);
    MUST(muster_close(m, &problem));
    free_map(map);
}

/* Reports. */

static void ranges_are_merged_whatever_the_order(void)
{
    struct muster *m = open_sim("cpu,sim", SIM_MIXED);
    struct muster_kernel *kernel = kernel_of(m, compute_the_first_last);
    uint64_t random = test_seed();
    for (unsigned r = 0; r < test_repetitions(5); r++) {
        struct map *map = make_map(600);
        refuse_items(ALL, 600, &random);
        struct muster_job_desc desc = map_desc(map, kernel);
        struct muster_run_options how = { .size = sizeof how };
        desc.options = &how;
        atomic_store(&seen_so_far, &map->seen);
        how.unit_items = 7;
        how.unordered = 1;
        how.depth = 4;
        struct muster_report report = run_map(m, map, &desc);
        CHECK_EQUAL(1, report.failed_count);
        CHECK_EQUAL(600, report.failed[0].end);
        free_map(map);
    }
    MUST(muster_close(m, &problem));
}

static void more_ranges_than_there_is_room_for_are_joined(void)
{
    struct muster *m = open_sim("cpu,sim", SIM_MIXED);
    struct muster_kernel *kernel = kernel_of(m, compute_or_refuse);
    for (int unordered = 0; unordered < 2; unordered++) {
        struct map *map = make_map(900);
        for (uint64_t i = 0; i < 900; i += 3)
            verdicts[i] = MUSTER_E_PARSE;
        struct muster_job_desc desc = map_desc(map, kernel);
        struct muster_run_options how = { .size = sizeof how };
        desc.options = &how;
        how.unordered = unordered;
        struct muster_report report = run_map(m, map, &desc);
        CHECK_EQUAL(MUSTER_JOB_FAILED_MAX, report.failed_count);
        CHECK_EQUAL(300, report.failed_items);
        free_map(map);
    }
    MUST(muster_close(m, &problem));
}

static void what_does_not_start_leaves_statuses_alone(void)
{
    struct muster *m = open_sim("sim", SIM_MIXED);
    struct map *map = make_map(100);
    struct muster_job *job = NULL;
    struct muster_kernel *kernel = kernel_of(m, compute_or_refuse);
    struct muster_job_desc desc = map_desc(map, kernel);
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.devices = "sim:9";
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_start(m, &desc, &job, &problem));
    CHECK_EQUAL(4711, map->each[0]);
    CHECK_STATUS(MUSTER_E_INVALID, muster_for_each_status(m, kernel, 100, map->account.args, 3,
                                                          NULL, NULL, NULL, &problem));
    CHECK_CONTAINS("each_status", problem.text);
    MUST(muster_for_each_status(m, kernel, 0, map->account.args, 3, NULL, NULL, NULL, &problem));
    MUST(muster_close(m, &problem));
    free_map(map);
}

/* Trouble while items are being told apart. */

static void a_device_lost_at_any_launch_changes_no_status(void)
{
    uint64_t random = test_seed();
    for (unsigned r = 0; r < test_repetitions(20); r++) {
        char sim[256];
        snprintf(sim, sizeof sim,
                 "[{\"items_per_s\": 2e7, \"launch_ns\": 1000, \"faults\":"
                 " [{\"kind\": \"lost\", \"at_launch\": %u}]}, {\"items_per_s\": 5e6}]",
                 1 + r % 25);
        struct muster *m = open_sim("sim", sim);
        struct map *map = make_map(300);
        refuse_items(r % 2 ? MANY : SOME, 300, &random);
        struct muster_job_desc desc = map_desc(map, kernel_of(m, compute_or_refuse));
        struct muster_run_options how = { .size = sizeof how };
        desc.options = &how;
        how.unit_items = 50;
        how.no_copies = (int)draw(&random, 2);
        run_map(m, map, &desc);
        MUST(muster_close(m, &problem));
        free_map(map);
    }
}

static void losing_every_device_leaves_exact_statuses(void)
{
    uint64_t random = test_seed();
    for (unsigned r = 0; r < test_repetitions(10); r++) {
        char sim[256];
        snprintf(sim, sizeof sim,
                 "[{\"items_per_s\": 2e7, \"launch_ns\": 1000, \"faults\":"
                 " [{\"kind\": \"lost\", \"at_launch\": %u}]}]",
                 2 + r);
        struct muster *m = open_sim("sim", sim);
        struct muster_report report = full_report();
        struct map *map = make_map(1000);
        refuse_items(SOME, 1000, &random);
        verdicts[3] = MUSTER_E_PARSE;
        struct muster_job_desc desc = map_desc(map, kernel_of(m, compute_or_refuse));
        struct muster_run_options how = { .size = sizeof how };
        desc.options = &how;
        how.unit_items = 50;
        struct muster_job *job = start(m, &desc);
        CHECK_STATUS(MUSTER_E_DEVICE_LOST, muster_job_wait(job, &report, &problem));
        muster_job_destroy(job);
        check_items(map, report.delivered);
        CHECK(report.delivered % 50 == 0 && report.delivered < 1000);
        CHECK_EQUAL(0, map->wrong);
        CHECK_EQUAL(report.delivered, map->seen);
        /* What was refused and what was never done stand in one list. */
        CHECK_EQUAL(report.delivered > 0 ? 3 : 0, report.failed[0].begin);
        CHECK_EQUAL(1000, report.failed[report.failed_count - 1].end);
        MUST(muster_close(m, &problem));
        free_map(map);
    }
}

static void cancelling_while_items_are_told_apart_delivers_nothing_of_them(void)
{
    static const char *const devices[] = { "cpu", "sim:0" };
    for (unsigned r = 0; r < test_repetitions(4); r++) {
        struct muster *m = open_sim(devices[r % 2], SIM_MIXED);
        struct map *map = make_map(96);
        struct door door = DOOR_INIT;
        /* The second unit fails, and its second half waits at the door. */
        verdicts[40] = MUSTER_E_PARSE;
        atomic_store(&parts_door_first, 32);
        struct muster_job_desc desc = map_desc(map, kernel_of(m, compute_or_refuse));
        struct muster_run_options how = { .size = sizeof how };
        desc.options = &how;
        how.unit_items = 32;
        how.depth = 1;
        how.no_copies = 1;
        atomic_store(&parts_door, &door);
        struct muster_job *job = start(m, &desc);
        door_wait_arrived(&door, 1);
        muster_job_cancel(job);
        door_open(&door);
        struct muster_report report = full_report();
        CHECK_STATUS(MUSTER_E_CANCELLED, muster_job_wait(job, &report, &problem));
        muster_job_destroy(job);
        CHECK(report.delivered <= 32);
        check_items(map, report.delivered);
        CHECK_EQUAL(0, map->wrong);
        MUST(muster_close(m, &problem));
        free_map(map);
    }
}

/* A job that is closed at any moment has exact statuses for what it delivered. */
static void destroying_at_any_moment_leaves_exact_statuses(void)
{
    uint64_t random = test_seed();
    for (unsigned r = 0; r < test_repetitions(12); r++) {
        struct counting counting = COUNTING_INIT;
        struct muster_options options = MUSTER_OPTIONS_INIT;
        options.cpu_workers = 2;
        options.sim = SIM_MIXED;
        options.allocator = counting_allocator(&counting);
        struct muster *m = open_with(options);
        struct map *map = make_map(2000);
        refuse_items(SOME, 2000, &random);
        struct muster_job_desc desc = map_desc(map, kernel_of(m, compute_or_refuse));
        struct muster_job *job = start(m, &desc);
        struct muster_progress progress = { .size = sizeof progress };
        struct muster_report report = full_report();
        uint64_t until = draw(&random, 2000);
        do {
            MUST(muster_job_progress(job, &progress, &problem));
            MUST(muster_job_report(job, &report, &problem));
            CHECK(report.delivered >= progress.delivered &&
                  report.failed_items <= report.delivered);
            sched_yield();
        } while (progress.delivered < until);
        muster_job_destroy(job);
        check_items(map, map->seen);
        CHECK_EQUAL(0, map->wrong);
        MUST(muster_close(m, &problem));
        CHECK_EQUAL(0, counting.bytes);
        free_map(map);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(exactly_the_refused_items_fail),
        TEST(the_first_failure_is_told),
        TEST(arrays_that_are_changed_in_place_keep_what_failed),
        TEST(bad_luck_is_tried_again_and_then_isolated),
        TEST(with_a_single_try_bad_luck_is_isolated_at_once),
        TEST(a_unit_that_cannot_be_run_fails_as_a_whole),
        TEST(ranges_are_merged_whatever_the_order),
        TEST(more_ranges_than_there_is_room_for_are_joined),
        TEST(what_does_not_start_leaves_statuses_alone),
        TEST(a_device_lost_at_any_launch_changes_no_status),
        TEST(losing_every_device_leaves_exact_statuses),
        TEST(cancelling_while_items_are_told_apart_delivers_nothing_of_them),
        TEST(destroying_at_any_moment_leaves_exact_statuses),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
