/*
 * Jobs with a driver call, a kernel or user code that never returns, or does so much later: every
 * call that promises an end ends, says what it has given up, and leaves the rest of the runtime at
 * work. What comes back late does no harm, and gives back all that it kept.
 */
#include "backend/sim/sim.h"
#include "faulty_backend.h"
#include "unit/jobs_support.h"

#include <dirent.h>

#define ITEMS 256
#define UNIT 8
#define PATIENCE_NS test_patience(40 * MS)

static const char sim[] = "[{\"items_per_s\": 1e8, \"memory\": \"64MiB\", \"cores\": 8,"
                          " \"slices\": true}]";

/* The runtime, with a device whose driver can be blocked and one that is sound. */
static const struct muster_backend *table;

static struct muster *open_keeping(const char *devices, struct counting *counting,
                                   uint64_t close_ns, uint64_t kept_bytes)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    const struct faulty_plan none = { .number = 0 };
    table = faulty_wrap(&backend_sim, &none);
    options.backends = &table;
    options.backend_count = 1;
    options.devices = devices;
    options.sim = sim;
    options.cpu_workers = 2;
    options.close_ns = close_ns;
    options.kept_bytes = kept_bytes;
    options.allocator = counting_allocator(counting);
    return open_with(options);
}

static struct muster *open_patient(const char *devices, struct counting *counting,
                                   uint64_t close_ns)
{
    return open_keeping(devices, counting, close_ns, 0);
}

static struct muster *open_stuck(const char *devices, struct counting *counting)
{
    return open_patient(devices, counting, PATIENCE_NS);
}

/* Ways to be stuck: calls of a lane's, of which the n-th and all later ones block. */
struct way {
    enum faulty_call call;
    uint64_t number;
};

enum { FIRST_COPY = 0 };
static const struct way ways[] = {
    { FAULTY_copy, 1 },          { FAULTY_copy, 4 },         { FAULTY_launch, 3 },
    { FAULTY_event_query, 1 },   { FAULTY_event_record, 2 }, { FAULTY_host_call, 2 },
    { FAULTY_event_elapsed, 1 },
};

static void block(const struct way *way)
{
    faulty_block(&(struct faulty_block){ .call = way->call,
                                         .number = way->number,
                                         .from_then_on = true,
                                         .device = FAULTY_EVERY_DEVICE });
}

/* Of the job that is described next. */
static struct muster_run_options how;

static struct muster_job_desc desc_of(struct account *account, struct muster_kernel *kernel,
                                      const char *devices)
{
    struct muster_job_desc desc = account_desc(account, kernel);
    how = (struct muster_run_options){ .size = sizeof how, .unit_items = UNIT, .devices = devices };
    desc.options = &how;
    return desc;
}

/* How often the kernel of a job that gets stuck was run. */
static _Atomic unsigned runs;

static muster_status compute_counted(uint64_t begin, uint64_t end, void *const *args)
{
    atomic_fetch_add(&runs, 1);
    return compute(begin, end, args);
}

/* Others do nothing before one is stuck. */
static atomic_bool is_stuck;

static muster_status wait_and_compute(uint64_t begin, uint64_t end, void *const *args)
{
    if (!atomic_load(&is_stuck))
        atomic_store(&is_stuck, faulty_await_blocked(1));
    return compute(begin, end, args);
}

/* A job that is done well. */
static void run_well(struct muster *m, const char *devices)
{
    struct account account;
    struct muster_report report = full_report();
    account_init(&account, ITEMS);
    struct muster_job_desc desc = desc_of(&account, kernel_of(m, compute), devices);
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, &report, &problem));
    muster_job_destroy(job);
    check_account(&account, ITEMS);
    account_deinit(&account);
}

/* The names of threads that this program's jobs may leave to themselves. */
static bool is_given_up(const char *name)
{
    static const char *const names[] = { "muster-lane", "muster-job", "muster-source",
                                         "muster-stage", "muster-close" };
    size_t i = 0;
    while (i < COUNT_OF(names) && strncmp(name, names[i], strlen(names[i])) != 0)
        i++;
    return i < COUNT_OF(names);
}

/* All that a job had of the device is given back; the last piece when its thread gets there. */
static void await_given_back(struct muster *m, const char *id)
{
    muster_device device = find(m, id);
    for (;;) {
        struct muster_device_load load = load_of(m, device);
        if (load.streams_acquired == 0 && load.queue_depth == 0 && load.bytes_in_flight == 0 &&
            load.memory_used == 0 && load.memory_unreclaimed == 0 && load.streams_active == 0)
            return;
        sched_yield();
    }
}

/* Nobody holds the device or anything of it: only then it can be cut. */
static void check_free(struct muster *m, const char *id)
{
    const uint32_t sizes[] = { 4, 4 };
    muster_device slices[2];
    MUST(muster_device_slice(m, find(m, id), sizes, 2, slices, &problem));
}

static void check_nothing_left(const struct counting *counting)
{
    CHECK_TEXT("", faulty_mistake());
    for (int object = 0; object < FAULTY_OBJECT_COUNT; object++)
        CHECK_EQUAL(0, faulty_live((enum faulty_object)object));
    CHECK_EQUAL(0, faulty_orphans());
    CHECK_EQUAL(0, counting->bytes);
    CHECK_EQUAL(0, counting->wrong);
}

static void a_cancelled_job_ends_and_gives_all_back_later(void)
{
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        struct counting counting = COUNTING_INIT;
        struct muster *m = open_stuck("faulty,cpu", &counting);
        struct muster_report report = full_report();
        struct muster_progress progress = { .size = sizeof progress };
        struct account account;
        account_init(&account, ITEMS);
        struct muster_job_desc desc = desc_of(&account, kernel_of(m, compute_counted), "faulty:0");
        atomic_store(&runs, 0);
        block(&ways[i]);
        struct muster_job *job = start(m, &desc);
        CHECK(faulty_await_blocked(1));
        muster_job_cancel(job);
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_job_wait(job, &report, &problem));
        CHECK_CONTAINS("faulty:0", problem.text);
        CHECK_TEXT("faulty:0", problem.device);
        CHECK_EQUAL(account.next, report.delivered);
        MUST(muster_job_progress(job, &progress, &problem));
        CHECK_CONTAINS("faulty:0", progress.waits_for);
        muster_job_destroy(job);
        check_account(&account, report.delivered);
        /* The rest of the runtime is at work; the device is given nothing more. */
        load_of(m, find(m, "faulty:0"));
        run_well(m, NULL);
        muster_stream stream;
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG,
                     muster_stream_acquire(m, find(m, "faulty:0"), 0, &stream, &problem));
        faulty_unblock(MUSTER_OK);
        await_given_back(m, "faulty:0");
        /* What comes back to a job that is over gives the device nothing more. */
        if (i == FIRST_COPY)
            CHECK_EQUAL(0, runs);
        run_well(m, "faulty:0");
        await_given_back(m, "faulty:0");
        check_free(m, "faulty:0");
        MUST(muster_close(m, &problem));
        check_nothing_left(&counting);
        account_deinit(&account);
    }
}

/* The same for the units of a pipeline, which its lane enqueues stage by stage. */
static void a_cancelled_pipeline_ends_and_gives_all_back_later(void)
{
    static const struct way some[] = { { FAULTY_copy, 1 },
                                       { FAULTY_copy, 5 },
                                       { FAULTY_stream_wait, 1 },
                                       { FAULTY_event_record, 3 },
                                       { FAULTY_event_query, 2 } };
    static const struct muster_buffer buffers[] = {
        { sizeof *buffers, "in", MUSTER_HOST, 8, 0, 0, MUSTER_INPUT },
        { sizeof *buffers, "dev", MUSTER_DEVICE, 8, 0, 0, 0 },
        { sizeof *buffers, "out", MUSTER_HOST, 8, 0, 0, MUSTER_OUTPUT },
    };
    static const struct muster_stage stages[] = {
        { sizeof *stages, "up", "h2d", .reads = 1, .writes = 2, .flags = MUSTER_COPY },
        { sizeof *stages, "down", "d2h", .reads = 2, .writes = 4, .flags = MUSTER_COPY },
    };
    static uint64_t in[ITEMS], out[ITEMS];
    for (size_t i = 0; i < COUNT_OF(some); i++) {
        struct counting counting = COUNTING_INIT;
        struct muster *m = open_stuck("faulty,cpu", &counting);
        struct muster_pipeline *pipeline = NULL;
        MUST(muster_pipeline_create(m, buffers, COUNT_OF(buffers), stages, COUNT_OF(stages), NULL,
                                    &pipeline, &problem));
        struct muster_job_desc desc = { .size = sizeof desc,
                                        .items = ITEMS,
                                        .pipeline = pipeline,
                                        .input = in,
                                        .output = out,
                                        .options = &(struct muster_run_options){
                                            .size = sizeof(struct muster_run_options),
                                            .unit_items = UNIT,
                                            .devices = "faulty:0" } };
        block(&some[i]);
        struct muster_job *job = start(m, &desc);
        CHECK(faulty_await_blocked(1));
        muster_job_cancel(job);
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_job_wait(job, NULL, &problem));
        CHECK_TEXT("faulty:0", problem.device);
        muster_job_destroy(job);
        muster_pipeline_destroy(pipeline);
        run_well(m, NULL);
        faulty_unblock(MUSTER_OK);
        await_given_back(m, "faulty:0");
        check_free(m, "faulty:0");
        MUST(muster_close(m, &problem));
        check_nothing_left(&counting);
    }
}

/* Threads that were given up end by themselves; there is nothing left of Muster's to ask when. */
static void await_threads_gone(void)
{
    bool is_there;
    do {
        DIR *folder = opendir("/proc/self/task");
        CHECK(folder != NULL);
        is_there = false;
        for (struct dirent *entry; (entry = readdir(folder));) {
            char path[300], name[32] = "";
            snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
            FILE *file = fopen(path, "r");
            if (!file)
                continue;
            is_there = is_there || (fgets(name, sizeof name, file) && is_given_up(name));
            fclose(file);
        }
        closedir(folder);
        sched_yield();
    } while (is_there);
}

/* What comes back after that does not ask the caller's allocator, which belongs to the caller again. */
static void closing_ends_whatever_blocks(void)
{
    /* What the device may still read stays for good: it does not say when it has done so. */
    static struct account accounts[COUNT_OF(ways)];
    static struct counting counting[COUNT_OF(ways)];
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        counting[i] = (struct counting)COUNTING_INIT;
        struct muster *m = open_stuck("faulty,cpu", &counting[i]);
        struct account *account = &accounts[i];
        account_init(account, ITEMS);
        struct muster_job_desc desc = desc_of(account, kernel_of(m, compute), "faulty:0");
        block(&ways[i]);
        struct muster_job *job = start(m, &desc);
        CHECK(faulty_await_blocked(1));
        if (i % 2)
            muster_job_destroy(job);
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(m, &problem));
        CHECK_CONTAINS("faulty:0", problem.text);
        CHECK_TEXT("faulty:0", problem.device);
        counting_close(&counting[i]);
        CHECK_EQUAL(0, account->wrong);
        faulty_unblock(i % 3 == 1 ? MUSTER_E_DRIVER : MUSTER_OK);
        await_threads_gone();
        CHECK_EQUAL(0, counting_late(&counting[i]));
        CHECK_TEXT("", faulty_mistake());
    }
}

/* With nobody left to run it the job fails, and muster_for ends. */
static void a_job_ends_by_itself_when_its_only_device_hangs(void)
{
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        struct counting counting = COUNTING_INIT;
        struct muster *m = open_stuck("faulty,cpu", &counting);
        struct muster_report report = full_report();
        struct account account;
        account_init(&account, ITEMS);
        struct muster_run_options options = { .size = sizeof options,
                                              .unit_items = UNIT,
                                              .devices = "faulty:0",
                                              .timeout_ns = test_patience(20 * MS) };
        block(&ways[i]);
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG,
                     muster_for(m, kernel_of(m, compute), ITEMS, account.args,
                                COUNT_OF(account.args), &options, &report, &problem));
        CHECK_TEXT("faulty:0", problem.device);
        check_prefix(&account, report.delivered, report.delivered);
        run_well(m, "cpu:0");
        faulty_unblock(MUSTER_OK);
        await_given_back(m, "faulty:0");
        MUST(muster_close(m, &problem));
        check_nothing_left(&counting);
        account_deinit(&account);
    }
}

/* Beside a sound device all is delivered, and the one that hangs is named. */
static void what_others_have_done_is_delivered(void)
{
    static const struct way some[] = { { FAULTY_copy, 1 }, { FAULTY_launch, 1 } };
    for (size_t i = 0; i < COUNT_OF(some); i++) {
        struct counting counting = COUNTING_INIT;
        struct muster *m = open_stuck("faulty,cpu", &counting);
        struct muster_report report = full_report();
        struct account account;
        account_init(&account, ITEMS);
        struct muster_job_desc desc = desc_of(&account, kernel_of(m, wait_and_compute), NULL);
        /* A sound device is not taken for one that hangs, also on a busy machine. */
        how.timeout_ns = test_patience(500 * MS);
        atomic_store(&is_stuck, false);
        block(&some[i]);
        struct muster_job *job = start(m, &desc);
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_job_wait(job, &report, &problem));
        CHECK_CONTAINS("faulty:0", problem.text);
        CHECK_EQUAL(ITEMS, report.delivered);
        check_account(&account, ITEMS);
        muster_job_destroy(job);
        faulty_unblock(MUSTER_OK);
        await_given_back(m, "faulty:0");
        MUST(muster_close(m, &problem));
        check_nothing_left(&counting);
        account_deinit(&account);
    }
}

static muster_status compute_slowly(uint64_t begin, uint64_t end, void *const *args)
{
    nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    return compute(begin, end, args);
}

/* A device that was given up by a job that goes on is used by it again. */
static void a_driver_that_returns_in_time_is_used_again(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_patient("faulty,cpu", &counting, 60 * SECOND);
    struct muster_report report = full_report();
    struct account account;
    account_init(&account, 4 * ITEMS);
    struct muster_job_desc desc = desc_of(&account, kernel_of(m, compute_slowly), NULL);
    how.timeout_ns = test_patience(300 * MS);
    block(&(struct way){ FAULTY_copy, 1 });
    struct muster_job *job = start(m, &desc);
    do
        MUST(muster_job_report(job, &report, &problem));
    while (device_in(&report, "faulty:0")->health == MUSTER_HEALTH_OK);
    faulty_unblock(MUSTER_OK);
    MUST(muster_job_wait(job, &report, &problem));
    CHECK(device_in(&report, "faulty:0")->units > 0);
    check_account(&account, 4 * ITEMS);
    muster_job_destroy(job);
    MUST(muster_close(m, &problem));
    check_nothing_left(&counting);
    account_deinit(&account);
}

/* What a job gives back at its end goes by way of the driver too, where it is not kept. */
static void a_job_ends_though_its_memory_is_not_taken_back(void)
{
    for (unsigned i = 0; i < 2; i++) {
        struct counting counting = COUNTING_INIT;
        struct muster *m = open_keeping("faulty,cpu", &counting, PATIENCE_NS, 1);
        struct muster_report report = full_report();
        struct account account;
        account_init(&account, ITEMS);
        struct muster_job_desc desc = desc_of(&account, kernel_of(m, compute), "faulty:0");
        block(&(struct way){ FAULTY_host_unregister, 1 });
        struct muster_job *job = start(m, &desc);
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_job_wait(job, &report, &problem));
        CHECK_EQUAL(ITEMS, report.delivered);
        check_account(&account, ITEMS);
        /* Until its driver answers the device is given nothing, and the error says so. */
        struct muster_job *next;
        CHECK_STATUS(MUSTER_E_NO_DEVICE, muster_start(m, &desc, &next, &problem));
        CHECK_CONTAINS("the driver of faulty:0 does not answer", problem.text);
        if (i == 0) {
            muster_job_destroy(job);
            faulty_unblock(MUSTER_OK);
            await_given_back(m, "faulty:0");
            MUST(muster_close(m, &problem));
            check_nothing_left(&counting);
        } else {
            CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(m, &problem));
            faulty_unblock(MUSTER_OK);
            await_threads_gone();
        }
        account_deinit(&account);
    }
}

/*
 * Nothing is under way, and the driver does not return from what closing asks of it: also not from
 * letting go of memory that was kept.
 */
static void closing_ends_though_a_driver_does_not_let_go(void)
{
    static const enum faulty_call calls[] = { FAULTY_stream_query, FAULTY_host_unregister };
    static struct counting counting[COUNT_OF(calls)] = { COUNTING_INIT, COUNTING_INIT };
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        struct muster *m = open_stuck("faulty", &counting[i]);
        run_well(m, NULL);
        block(&(struct way){ calls[i], 1 });
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(m, &problem));
        counting_close(&counting[i]);
        faulty_unblock(MUSTER_OK);
        await_threads_gone();
        CHECK_EQUAL(0, counting_late(&counting[i]));
    }
}

/* A job ends well though a driver would not let go of its memory: that is kept, not given back. */
static void what_is_kept_needs_no_driver(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_stuck("faulty,cpu", &counting);
    block(&(struct way){ FAULTY_host_unregister, 1 });
    for (unsigned i = 0; i < 3; i++)
        run_well(m, "faulty:0");
    faulty_unblock(MUSTER_OK);
    MUST(muster_close(m, &problem));
    check_nothing_left(&counting);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_cancelled_job_ends_and_gives_all_back_later),
        TEST(a_cancelled_pipeline_ends_and_gives_all_back_later),
        TEST(closing_ends_whatever_blocks),
        TEST(a_job_ends_by_itself_when_its_only_device_hangs),
        TEST(what_others_have_done_is_delivered),
        TEST(a_driver_that_returns_in_time_is_used_again),
        TEST(a_job_ends_though_its_memory_is_not_taken_back),
        TEST(closing_ends_though_a_driver_does_not_let_go),
        TEST(what_is_kept_needs_no_driver),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
