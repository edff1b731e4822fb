/*
 * Jobs that are ended at any moment, by cancel, destroy or close, from whatever thread; what they
 * leave behind, also when memory runs out while they start; and that they take no more memory the
 * longer they are.
 */
#include "jobs_support.h"

#define SIM_THREE                                                                                  \
    "[{\"items_per_s\": 2e7, \"launch_ns\": 2000}, {\"items_per_s\": 1e7, \"launch_ns\": 2000},"   \
    " {\"items_per_s\": 5e6, \"launch_ns\": 2000, \"faults\":"                                     \
    "  [{\"kind\": \"unit_error\", \"probability\": 0.05}]}]"

enum ending { ENDING_CANCEL, ENDING_DESTROY, ENDING_CLOSE };

/* Starts a job, and ends it when this many items were delivered; what was is right. */
static void end_after(uint64_t delivered, enum ending ending, uint64_t *random)
{
    struct counting counting = COUNTING_INIT;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.cpu_workers = 2;
    options.devices = draw(random, 2) > 0 ? "sim" : NULL;
    options.sim = SIM_THREE;
    options.allocator = counting_allocator(&counting);
    struct muster *m = open_with(options);
    struct muster_report report = full_report();
    struct account account;
    account_init(&account, 5000);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.depth = 1 + (uint32_t)draw(random, 4);
    how.unit_items = draw(random, 2) * (1 + draw(random, 100));
    how.window = draw(random, 2) * (1 + draw(random, 1000));
    how.tries = 12;
    struct muster_job *job = start(m, &desc);
    while (atomic_load(&account.next) < delivered)
        sched_yield();
    if (ending == ENDING_CANCEL) {
        muster_job_cancel(job);
        muster_status status = muster_job_wait(job, &report, &problem);
        CHECK(status == MUSTER_OK || status == MUSTER_E_CANCELLED);
        check_report(&report);
        CHECK_EQUAL(account.next, report.delivered);
        CHECK_EQUAL(0, report.failed_count);
        /* Once more is no harm. */
        muster_job_cancel(job);
        CHECK_STATUS(status, muster_job_wait(job, NULL, &problem));
    }
    if (ending != ENDING_CLOSE)
        muster_job_destroy(job);
    MUST(muster_close(m, &problem));
    CHECK(account.next >= delivered);
    check_account(&account, account.next);
    CHECK_EQUAL(0, counting.bytes);
    CHECK_EQUAL(0, counting.wrong);
    account_deinit(&account);
}

static void end_at_any_moment(enum ending ending)
{
    uint64_t random = test_seed() + ending;
    for (unsigned i = 0; i < test_repetitions(20); i++)
        end_after(i % 4 == 0 ? 0 : draw(&random, 5001), ending, &random);
}

static void a_job_can_be_cancelled_at_any_moment(void)
{
    end_at_any_moment(ENDING_CANCEL);
}

static void a_job_can_be_destroyed_at_any_moment(void)
{
    end_at_any_moment(ENDING_DESTROY);
}

static void the_runtime_can_be_closed_at_any_moment(void)
{
    end_at_any_moment(ENDING_CLOSE);
}

/* Many threads that wait, look, and at last cancel. */
struct onlooker {
    struct muster_job *job;
    uint64_t cancel_at; /* items delivered */
    muster_status status;
    uint64_t wrong;
    pthread_t thread;
};

static void *look_on(void *argument)
{
    struct onlooker *onlooker = argument;
    struct muster_progress progress = { .size = sizeof progress };
    uint64_t before = 0;
    do {
        onlooker->wrong += muster_job_progress(onlooker->job, &progress, NULL) != MUSTER_OK;
        onlooker->wrong += progress.delivered < before || progress.delivered > progress.items;
        before = progress.delivered;
        sched_yield();
    } while (!progress.is_over && progress.delivered < onlooker->cancel_at);
    muster_job_cancel(onlooker->job);
    onlooker->status = muster_job_wait(onlooker->job, NULL, NULL);
    return NULL;
}

static void threads_may_cancel_and_wait_beside_each_other(void)
{
    uint64_t random = test_seed();
    struct muster *m = open_sim(NULL, SIM_THREE);
    struct muster_kernel *kernel = kernel_of(m, compute);
    for (unsigned r = 0; r < test_repetitions(15); r++) {
        struct onlooker onlookers[4];
        struct account account;
        account_init(&account, 20000);
        struct muster_job_desc desc = account_desc(&account, kernel);
        struct muster_run_options how = { .size = sizeof how };
        desc.options = &how;
        how.window = 500;
        how.tries = 12;
        struct muster_job *job = start(m, &desc);
        for (size_t i = 0; i < COUNT_OF(onlookers); i++) {
            onlookers[i] = (struct onlooker){ .job = job, .cancel_at = draw(&random, 25000) };
            CHECK(pthread_create(&onlookers[i].thread, NULL, look_on, &onlookers[i]) == 0);
        }
        for (size_t i = 0; i < COUNT_OF(onlookers); i++)
            pthread_join(onlookers[i].thread, NULL);
        for (size_t i = 0; i < COUNT_OF(onlookers); i++) {
            CHECK_EQUAL(0, onlookers[i].wrong);
            CHECK_EQUAL(onlookers[0].status, onlookers[i].status);
        }
        CHECK(onlookers[0].status == MUSTER_OK || onlookers[0].status == MUSTER_E_CANCELLED);
        muster_job_destroy(job);
        check_account(&account, account.next);
        account_deinit(&account);
    }
    MUST(muster_close(m, &problem));
}

/* An allocator that fails from some call on, once or for ever. */
struct failing {
    struct counting counting;
    _Atomic bool is_armed;
    _Atomic uint64_t calls;
    uint64_t fails_at;
    bool for_ever;
    _Atomic bool has_failed;
};

static void *allocate_or_fail(void *user, size_t bytes, size_t alignment)
{
    struct failing *failing = user;
    if (atomic_load(&failing->is_armed)) {
        uint64_t call = atomic_fetch_add(&failing->calls, 1) + 1;
        if (call == failing->fails_at || (failing->for_ever && call > failing->fails_at)) {
            atomic_store(&failing->has_failed, true);
            return NULL;
        }
    }
    return counting_allocate(&failing->counting, bytes, alignment);
}

static void release_of_failing(void *user, void *memory, size_t bytes)
{
    counting_release(&((struct failing *)user)->counting, memory, bytes);
}

/* False when the allocation that was to fail never came. */
static bool run_short_of_memory(uint64_t fails_at, bool for_ever)
{
    struct failing failing = { .counting = COUNTING_INIT,
                               .fails_at = fails_at,
                               .for_ever = for_ever };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.cpu_workers = 2;
    options.sim = "[{\"items_per_s\": 1e7}]";
    options.allocator =
        &(struct muster_allocator){ sizeof(struct muster_allocator), allocate_or_fail,
                                    release_of_failing, &failing };
    struct muster *m = open_with(options);
    struct account account;
    account_init(&account, 300);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = 20;
    how.depth = 1;
    struct muster_job *job = NULL;
    uint64_t delivered = 0;
    atomic_store(&failing.is_armed, true);
    muster_status status = muster_start(m, &desc, &job, &problem);
    bool was_started = status == MUSTER_OK;
    if (was_started) {
        struct muster_report report = full_report();
        status = muster_job_wait(job, &report, &problem);
        delivered = report.delivered;
        muster_job_destroy(job);
    }
    atomic_store(&failing.is_armed, false);
    bool has_failed = atomic_load(&failing.has_failed);
    if (status != MUSTER_OK && (!has_failed || status != MUSTER_E_NO_MEMORY || !*problem.text))
        test_fail(__FILE__, __LINE__, "allocation %llu: %s: %s", (unsigned long long)fails_at,
                  muster_status_name(status), problem.text);
    /* One that is missing while it runs is made good by another try. */
    CHECK(!was_started || for_ever || status == MUSTER_OK);
    CHECK(status != MUSTER_OK || delivered == account.items);
    check_account(&account, delivered);
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, failing.counting.bytes);
    CHECK_EQUAL(0, failing.counting.wrong);
    account_deinit(&account);
    return has_failed;
}

static void each_allocation_may_fail(void)
{
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        uint64_t number = 1;
        while (run_short_of_memory(number, for_ever))
            number++;
        CHECK(number > 10);
    }
}

/* Law 10: the longest job takes no more memory than its window. */

static uint64_t resident_bytes(void)
{
    char line[128];
    unsigned long long kibibytes = 0;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file);
    while (fgets(line, sizeof line, file) && sscanf(line, "VmRSS: %llu", &kibibytes) != 1)
        ;
    fclose(file);
    return kibibytes * 1024;
}

#define RECORD_BYTES 64

struct slow_sink {
    uint64_t next, wrong, grain;
    _Atomic uint64_t delivered;
};

static muster_status fill_records(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t first = *(const uint64_t *)args[0];
    char *out = *(char *const *)args[1];
    for (uint64_t i = begin; i < end; i++)
        memset(out + i * RECORD_BYTES, (int)(first + i) & 0xff, RECORD_BYTES);
    return MUSTER_OK;
}

/* A thousand times slower than the devices: the producers are always ahead. */
static muster_status take_slowly(void *user, const struct muster_result *result)
{
    struct slow_sink *sink = user;
    const unsigned char *records = result->outputs[0];
    uint64_t items = result->range.end - result->range.begin;
    sink->wrong += result->range.begin != sink->next;
    sink->next = result->range.end;
    for (uint64_t i = 0; i < items; i++)
        sink->wrong += records[i * RECORD_BYTES + 63] != ((result->range.begin + i) & 0xff);
    uint64_t until = now_ns() + items * sink->grain;
    while (now_ns() < until)
        sched_yield();
    atomic_store(&sink->delivered, sink->next);
    return MUSTER_OK;
}

/*
 * Runs a job of this many items behind a slow sink; gives by how much more the process has grown than
 * it was estimated to.
 */
static uint64_t grow_by(struct muster *m, uint64_t items, uint64_t grain, bool is_told)
{
    struct slow_sink sink = { .grain = grain };
    const struct muster_arg args[] = { MUSTER_FIRST,
                                       { MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = RECORD_BYTES } };
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .kernel = kernel_of(m, fill_records),
                                    .items = items,
                                    .args = args,
                                    .arg_count = 2,
                                    .sink = take_slowly,
                                    .sink_user = &sink,
                                    .options = &(struct muster_run_options){
                                        .size = sizeof(struct muster_run_options),
                                        .window = 4096,
                                        .unit_items = 256 } };
    uint64_t before = resident_bytes(), most = before, estimate;
    MUST(muster_job_memory_estimate(m, &desc, &estimate, &problem));
    struct muster_job *job = start(m, &desc);
    for (uint64_t tenth = 1; tenth <= 10; tenth++) {
        while (atomic_load(&sink.delivered) < items / 10 * tenth)
            sched_yield();
        uint64_t now = resident_bytes();
        most = now > most ? now : most;
        if (is_told)
            printf("    %llu0 %% delivered: %llu KiB resident\n", (unsigned long long)tenth,
                   (unsigned long long)(now / 1024));
    }
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    CHECK_EQUAL(0, sink.wrong);
    CHECK_EQUAL(items, sink.next);
    return most - before > estimate ? most - before - estimate : 0;
}

/* With MUSTER_TEST_REPEAT=50 ten million items pass; without the window all would be held. */
static void memory_does_not_grow_with_the_job(void)
{
    uint64_t items = 200000 * (uint64_t)test_repetitions(1);
    struct muster *m = open_sim(NULL, SIM_THREE);
    grow_by(m, 20000, 0, false);
    uint64_t grown = grow_by(m, items, 2000, test_repetitions(1) > 1);
    /* All results would be 12 MiB at least; what ThreadSanitizer notes down would be more. */
    CHECK(grown <= TEST_BY_SANITIZER(1u << 20, 1u << 20, UINT64_MAX));
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_job_can_be_cancelled_at_any_moment),
        TEST(a_job_can_be_destroyed_at_any_moment),
        TEST(the_runtime_can_be_closed_at_any_moment),
        TEST(threads_may_cancel_and_wait_beside_each_other),
        TEST(each_allocation_may_fail),
        TEST(memory_does_not_grow_with_the_job),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
