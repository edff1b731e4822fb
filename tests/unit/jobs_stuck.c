/*
 * Jobs with user code that does not return - kernels, sources, sinks, host stages, policies - or does
 * so much later: a job that is cancelled or over ends without it, and so does closing, within `close_ns`.
 * The rest of the runtime goes on; what comes back late finds all that it may touch in its place,
 * and gives it back.
 */
#include "jobs_support.h"

#define ITEMS 256
#define UNIT 8
#define PATIENCE_NS test_patience(40 * MS)

/* Where the user's code stands still, once, until the test lets it go on. */
static struct door *stuck_at;
static atomic_bool is_taken;

static void stand_once(struct door *door)
{
    *door = (struct door)DOOR_INIT;
    stuck_at = door;
    atomic_store(&is_taken, false);
}

static void stand(void)
{
    if (!atomic_exchange(&is_taken, true))
        door_pass(stuck_at);
}

static struct muster *open_patient(struct counting *counting, uint64_t close_ns)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = "[{\"items_per_s\": 1e8}]";
    options.cpu_workers = 2;
    options.close_ns = close_ns;
    options.allocator = counting_allocator(counting);
    return open_with(options);
}

static struct muster *open_stuck(struct counting *counting)
{
    return open_patient(counting, PATIENCE_NS);
}

static void run_well(struct muster *m, const char *devices)
{
    struct account account;
    account_init(&account, ITEMS);
    struct muster_run_options options = { .size = sizeof options, .devices = devices };
    MUST(muster_for(m, kernel_of(m, compute), ITEMS, account.args, COUNT_OF(account.args), &options,
                    NULL, &problem));
    check_prefix(&account, ITEMS, ITEMS);
    account_deinit(&account);
}

/* What stands still, in which part of a job. */
enum part { PART_KERNEL, PART_SOURCE, PART_SINK, PART_STAGE, PART_POLICY, PART_COUNT };

/* A job that gets stuck there. */
struct stuck {
    struct account account;
    uint8_t input[ITEMS];
    struct muster_arg args[2];
    struct muster_kernel *kernel;
    struct muster_pipeline *pipeline;
};

static muster_status compute_and_stand(uint64_t begin, uint64_t end, void *const *args)
{
    if (*(const uint64_t *)args[0] == 4 * UNIT)
        stand();
    return compute(begin, end, args);
}

static int64_t supply(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    (void)user;
    if (begin > 0)
        stand();
    memset(to, 7, bytes);
    return (int64_t)items;
}

static muster_status see_source(uint64_t begin, uint64_t end, void *const *args)
{
    const uint8_t *in = *(const uint8_t *const *)args[0];
    uint8_t *out = *(uint8_t *const *)args[1];
    for (uint64_t i = begin; i < end; i++)
        out[i] = in[i];
    return MUSTER_OK;
}

static muster_status stand_in_sink(struct account *account)
{
    (void)account;
    stand();
    return MUSTER_OK;
}

static muster_status stand_in_stage(struct muster_unit *unit, void *user)
{
    (void)unit, (void)user;
    stand();
    return MUSTER_OK;
}

static int stand_in_policy(void *state, const struct muster_hints *hints,
                           const struct muster_candidate *const *candidates, size_t count)
{
    (void)state, (void)hints, (void)candidates, (void)count;
    stand();
    return 0;
}

static struct muster_pipeline *make_pipeline(struct muster *m)
{
    static const struct muster_buffer buffers[] = {
        { sizeof *buffers, "in", MUSTER_HOST, 1, 0, 0, MUSTER_INPUT },
        { sizeof *buffers, "dev", MUSTER_DEVICE, 1, 0, 0, 0 },
        { sizeof *buffers, "out", MUSTER_HOST, 1, 0, 0, MUSTER_OUTPUT },
    };
    static const struct muster_stage stages[] = {
        { sizeof *stages, "up", "h2d", .reads = 1, .writes = 2, .flags = MUSTER_COPY },
        { sizeof *stages, "down", "d2h", .reads = 2, .writes = 4, .flags = MUSTER_COPY },
        { sizeof *stages, "stand", "host", .reads = 4, .writes = 4, .run = stand_in_stage },
    };
    struct muster_pipeline *pipeline = NULL;
    MUST(muster_pipeline_create(m, buffers, COUNT_OF(buffers), stages, COUNT_OF(stages), NULL,
                                &pipeline, &problem));
    return pipeline;
}

static struct muster_job *start_stuck(struct muster *m, struct stuck *stuck, enum part part)
{
    account_init(&stuck->account, ITEMS);
    stuck->kernel = kernel_of(m, part == PART_SOURCE ? see_source : compute_and_stand);
    stuck->pipeline = NULL;
    struct muster_job_desc desc = account_desc(&stuck->account, stuck->kernel);
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = UNIT;
    how.no_copies = 1;
    if (part == PART_KERNEL)
        how.devices = "cpu:0";
    const struct muster_policy policy = { .size = sizeof policy,
                                          .name = "mine",
                                          .choose = stand_in_policy };
    if (part == PART_POLICY) {
        desc.kernel = kernel_of(m, compute);
        how.user_policy = &policy;
    }
    if (part == PART_SINK) {
        /* Nobody stands in the kernel. */
        desc.kernel = kernel_of(m, compute);
        stuck->account.special = 5 * UNIT;
        stuck->account.act = stand_in_sink;
    }
    if (part == PART_SOURCE) {
        const struct muster_arg args[] = { MUSTER_SOURCE(uint8_t),
                                           { MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = 1 } };
        memcpy(stuck->args, args, sizeof args);
        desc.args = stuck->args;
        desc.arg_count = COUNT_OF(args);
        desc.items = MUSTER_ITEMS_UNKNOWN;
        desc.source = supply;
        desc.sink = NULL;
        how.window = ITEMS;
    }
    if (part == PART_STAGE) {
        stuck->pipeline = make_pipeline(m);
        desc = (struct muster_job_desc){ .size = sizeof desc,
                                         .items = ITEMS,
                                         .pipeline = stuck->pipeline,
                                         .input = stuck->input,
                                         .options = desc.options };
    }
    struct muster_job *job = start(m, &desc);
    door_wait_arrived(stuck_at, 1);
    return job;
}

static const char *const parts[PART_COUNT] = { "still holds", "the source", "the sink",
                                               "a host stage", "the policy" };

static void await_given_back(struct muster *m, const char *id)
{
    muster_device device = find(m, id);
    for (;;) {
        struct muster_device_load load = load_of(m, device);
        if (load.streams_acquired == 0 && load.queue_depth == 0 && load.bytes_in_flight == 0 &&
            load.memory_used == 0 && load.memory_unreclaimed == 0)
            return;
        sched_yield();
    }
}

static void a_cancelled_job_ends_without_user_code(void)
{
    for (unsigned part = 0; part < PART_COUNT; part++) {
        struct counting counting = COUNTING_INIT;
        struct door door;
        stand_once(&door);
        struct muster *m = open_stuck(&counting);
        struct stuck stuck;
        struct muster_report report = full_report(), later = report;
        struct muster_job *job = start_stuck(m, &stuck, (enum part)part);
        muster_job_cancel(job);
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_job_wait(job, &report, &problem));
        CHECK_CONTAINS(parts[part], problem.text);
        /* What its user destroys stays for those that are still in it. */
        muster_kernel_destroy(stuck.kernel);
        muster_pipeline_destroy(stuck.pipeline);
        run_well(m, "sim:0");
        /* A report is what it was, whatever comes back later. */
        door_open(&door);
        door_wait_left(&door, 1);
        await_given_back(m, "cpu:0");
        await_given_back(m, "sim:0");
        MUST(muster_job_report(job, &later, &problem));
        CHECK(memcmp(&report, &later, sizeof report) == 0);
        muster_job_destroy(job);
        run_well(m, NULL);
        MUST(muster_close(m, &problem));
        CHECK_EQUAL(0, stuck.account.wrong);
        CHECK_EQUAL(0, counting.bytes);
        CHECK_EQUAL(0, counting.wrong);
        account_deinit(&stuck.account);
    }
}

/* Destroying, then closing: what is left is left with the process. */
static void closing_ends_without_user_code(void)
{
    static struct counting counting[2 * PART_COUNT];
    static struct stuck stuck[2 * PART_COUNT];
    static struct door doors[2 * PART_COUNT];
    for (unsigned i = 0; i < 2 * PART_COUNT; i++) {
        unsigned part = i / 2;
        counting[i] = (struct counting)COUNTING_INIT;
        stand_once(&doors[i]);
        struct muster *m = open_stuck(&counting[i]);
        struct muster_job *job = start_stuck(m, &stuck[i], (enum part)part);
        if (i % 2)
            muster_job_destroy(job);
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(m, &problem));
        if (part != PART_KERNEL)
            CHECK_CONTAINS(parts[part], problem.text);
        counting_close(&counting[i]);
        door_open(&doors[i]);
        door_wait_left(&doors[i], 1);
        /* Threads that were abandoned end by themselves; there is nothing of Muster's to ask when. */
        for (unsigned k = 0; k < 50; k++)
            sched_yield();
        CHECK_EQUAL(0, counting_late(&counting[i]));
    }
}

/*
 * Another device has done all of it: the sink has had everything, once. A device that is known to
 * hang has had its time, and is not waited for again.
 */
static void what_others_have_done_is_delivered(void)
{
    struct counting counting = COUNTING_INIT;
    struct door door;
    stand_once(&door);
    struct muster *m = open_patient(&counting, 1000 * SECOND);
    struct account account;
    struct muster_report report = full_report();
    account_init(&account, ITEMS);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute_and_stand));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = UNIT;
    how.timeout_ns = test_patience(30 * MS);
    /* No device writes into the array itself: what hangs there could not be told from a result. */
    how.kept_max = 1;
    struct muster_job *job = start(m, &desc);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_job_wait(job, &report, &problem));
    CHECK_EQUAL(ITEMS, report.delivered);
    CHECK_EQUAL(ITEMS, report.items);
    check_account(&account, ITEMS);
    door_open(&door);
    muster_job_destroy(job);
    await_given_back(m, "cpu:0");
    await_given_back(m, "sim:0");
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, counting.bytes);
    account_deinit(&account);
}

static struct door kernel_door, sink_door;

static muster_status stand_in_kernel(uint64_t begin, uint64_t end, void *const *args)
{
    if (*(const uint64_t *)args[0] == 4 * UNIT)
        door_pass(&kernel_door);
    return compute(begin, end, args);
}

static muster_status stand_before_end(struct account *account)
{
    (void)account;
    door_pass(&sink_door);
    return MUSTER_OK;
}

/* While the sink stands still it is a thread that waits for the job who notices what hangs. */
struct waiter {
    struct muster_job *job;
    struct muster_report report;
    struct muster_error error;
    muster_status status;
};

static void *wait_aside(void *argument)
{
    struct waiter *waiter = argument;
    waiter->status = muster_job_wait(waiter->job, &waiter->report, &waiter->error);
    return NULL;
}

/* The only device hangs, and is back while the sink still keeps the job from ending: it is named. */
static void a_device_that_hung_is_named_though_it_is_back(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_patient(&counting, 1000 * SECOND);
    struct muster_progress progress = { .size = sizeof progress };
    struct muster_report report = full_report();
    struct account account;
    kernel_door = sink_door = (struct door)DOOR_INIT;
    account_init(&account, ITEMS);
    account.special = 0;
    account.act = stand_before_end;
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, stand_in_kernel));
    struct muster_run_options how = { .size = sizeof how, .devices = "sim:0", .unit_items = UNIT };
    desc.options = &how;
    how.timeout_ns = test_patience(30 * MS);
    struct muster_job *job = start(m, &desc);
    struct waiter waiter = { job, full_report(), { .size = sizeof waiter.error }, MUSTER_OK };
    pthread_t thread;
    door_wait_arrived(&sink_door, 1);
    door_wait_arrived(&kernel_door, 1);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, wait_aside, &waiter));
    do
        MUST(muster_job_report(job, &report, &problem));
    while (device_in(&report, "sim:0")->health == MUSTER_HEALTH_OK);
    door_open(&kernel_door);
    do
        MUST(muster_job_progress(job, &progress, &problem));
    while (strstr(progress.waits_for, "sim:0"));
    door_open(&sink_door);
    CHECK_EQUAL(0, pthread_join(thread, NULL));
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, waiter.status);
    CHECK_TEXT("sim:0", waiter.error.device);
    CHECK_CONTAINS("sim:0 does not answer", waiter.error.text);
    check_account(&account, waiter.report.delivered);
    muster_job_destroy(job);
    await_given_back(m, "sim:0");
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, counting.bytes);
    account_deinit(&account);
}

/* Nothing was given up: the memory of a job goes when it is destroyed. */
static void a_destroyed_job_leaves_nothing(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_patient(&counting, 60 * SECOND);
    struct muster_kernel *kernel = kernel_of(m, compute);
    struct account account;
    uint64_t bytes = 0;
    account_init(&account, ITEMS);
    for (unsigned i = 0; i < 50; i++) {
        struct muster_run_options options = { .size = sizeof options, .devices = "cpu:0" };
        MUST(muster_for(m, kernel, ITEMS, account.args, COUNT_OF(account.args), &options, NULL,
                        &problem));
        /* The first have made what is used again. */
        if (i == 9)
            bytes = counting.bytes;
    }
    CHECK(counting.bytes < 2 * bytes);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* Code that came from a file is not unloaded while a thread is in it. */
static void a_kernel_stays_loaded_while_it_runs(void)
{
    static const char source[] =
        "MUSTER_KERNEL void await(uint64_t i, MUSTER_GLOBAL const uint32_t *in,"
        " MUSTER_GLOBAL uint32_t *out)\n"
        "{ MUSTER_GLOBAL const volatile uint32_t *at = in + i; out[i] = 1;"
        " while (*at == 0) out[i]++; }\n";
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .entry = "await",
                                             .code = source,
                                             .code_bytes = strlen(source) };
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_stuck(&counting);
    struct muster_kernel *kernel = NULL;
    static _Atomic uint32_t in[64];
    static uint32_t out[64];
    MUST(muster_kernel_from(m, "await", &form, 1, &kernel, &problem));
    const struct muster_arg args[] = { { MUSTER_ARG_OF(MUSTER_ARG_IN),
                                         .in = (const void *)(uintptr_t)in, .bytes = sizeof *in },
                                       MUSTER_OUT(out) };
    struct muster_run_options options = { .size = sizeof options,
                                          .devices = "cpu:0",
                                          .timeout_ns = test_patience(100 * MS) };
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_for(m, kernel, COUNT_OF(in), args, COUNT_OF(args),
                                                  &options, NULL, &problem));
    muster_kernel_destroy(kernel);
    for (size_t i = 0; i < COUNT_OF(in); i++)
        atomic_store(&in[i], 1);
    await_given_back(m, "cpu:0");
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, counting.bytes);
}

/*
 * A device that still runs a unit which was given up refuses new work of every kind, and takes it again
 * when the unit has ended. The other slice of the same device never notices.
 */
static void a_unit_that_was_given_up_keeps_its_device_from_others(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "sim";
    options.sim = "[{\"items_per_s\": 1e7, \"cores\": 2, \"slices\": true}]";
    options.allocator = counting_allocator(&counting);
    struct muster *m = open_with(options);
    const uint32_t sizes[] = { 1, 1 };
    muster_device slices[2];
    MUST(muster_device_slice(m, find(m, "sim:0"), sizes, 2, slices, &problem));
    muster_device device = slices[0];
    struct door door;
    stand_once(&door);
    struct account account;
    account_init(&account, ITEMS);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute_and_stand));
    struct muster_run_options how = { .size = sizeof how,
                                      .devices = "sim:0/0",
                                      .unit_items = UNIT };
    how.timeout_ns = test_patience(100 * MS);
    desc.options = &how;
    struct muster_job *job = start(m, &desc), *second = NULL;
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_job_wait(job, NULL, &problem));
    CHECK_EQUAL(MUSTER_HEALTH_SUSPECT, load_of(m, device).health);
    CHECK_STATUS(MUSTER_E_NO_DEVICE, muster_start(m, &desc, &second, &problem));
    CHECK_CONTAINS("sim:0/0", problem.text);
    const struct muster_hints hints = { .size = sizeof hints, .devices = "sim:0/0" };
    const struct muster_task_desc task = {
        .size = sizeof task, .kernel = kernel_of(m, see_source), .items = 0, .hints = &hints
    };
    CHECK_STATUS(MUSTER_E_NO_DEVICE, muster_submit(m, &task, 1, NULL, &problem));
    muster_stream stream;
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_stream_acquire(m, device, 0, &stream, &problem));
    CHECK_EQUAL(MUSTER_HEALTH_OK, load_of(m, slices[1]).health);
    run_well(m, "sim:0/1");
    door_open(&door);
    while (load_of(m, device).health != MUSTER_HEALTH_OK)
        sched_yield();
    run_well(m, "sim:0/0");
    muster_job_destroy(job);
    account_deinit(&account);
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, counting.bytes);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_cancelled_job_ends_without_user_code),
        TEST(closing_ends_without_user_code),
        TEST(what_others_have_done_is_delivered),
        TEST(a_destroyed_job_leaves_nothing),
        TEST(a_kernel_stays_loaded_while_it_runs),
        TEST(a_unit_that_was_given_up_keeps_its_device_from_others),
        TEST(a_device_that_hung_is_named_though_it_is_back),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
