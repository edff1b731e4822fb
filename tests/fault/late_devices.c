/*
 * Devices whose driver takes long to open: a job that names none starts on what is open. The driver is opened
 * when the job turns out to be long, or many jobs do; its devices join when they are there, and the job's end
 * does not wait for them. Who names devices, lists or picks them waits. A
 * device that cannot take part is left out and reported. Closing and exit() have an end whatever the
 * driver does.
 */
#include "backend/sim/sim.h"
#include "core/opening.h"
#include "faulty_backend.h"
#include "platform/thread.h"
#include "unit/jobs_support.h"

#include <sys/wait.h>
#include <unistd.h>

#define ITEMS 2048
#define UNIT 8
#define PATIENCE_NS test_patience(40 * MS)

static const char sim[] = "[{\"items_per_s\": 1e8, \"memory\": \"64MiB\"}]";

/* The driver: it opens when it has passed the gate. */
static struct muster_backend table;
static const struct muster_backend *tables[] = { &table };
static muster_status (*open_wrapped)(void *backend, const struct muster_services *services,
                                     uint32_t *device_count, struct muster_error *err);
static struct door gate;
static struct door hall; /* at which kernels stop */
static atomic_bool has_opened;
static uint32_t expected; /* devices, as the backend says */

static muster_status open_slowly(void *backend, const struct muster_services *services,
                                 uint32_t *device_count, struct muster_error *err)
{
    door_pass(&gate);
    muster_status status = open_wrapped(backend, services, device_count, err);
    atomic_store(&has_opened, true);
    return status;
}

static muster_status (*device_open_wrapped)(void *backend, uint32_t index, void *device,
                                            struct muster_device_info *info,
                                            struct muster_error *err);

static muster_status open_as_gpu(void *backend, uint32_t index, void *device,
                                 struct muster_device_info *info, struct muster_error *err)
{
    muster_status status = device_open_wrapped(backend, index, device, info, err);
    info->kind = MUSTER_KIND_GPU;
    return status;
}

static int is_slow(uint32_t *device_count)
{
    *device_count = expected;
    return 1;
}

static struct muster *open_late(const struct faulty_plan *plan, struct counting *counting,
                                const char *devices, const char *described, uint64_t close_ns)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    const struct faulty_plan none = { .number = 0 };
    table = *faulty_wrap(&backend_sim, plan ? plan : &none);
    open_wrapped = table.open;
    table.open = open_slowly;
    table.is_slow = is_slow;
    /* The wrapper knows pages of one device alone. */
    if (strstr(described, "count"))
        table.host_register = NULL, table.host_unregister = NULL;
    expected = 1;
    gate = hall = (struct door)DOOR_INIT;
    atomic_store(&has_opened, false);
    options.backends = tables;
    options.backend_count = 1;
    options.devices = devices;
    options.sim = described;
    options.cpu_workers = 2;
    options.close_ns = close_ns;
    options.allocator = counting ? counting_allocator(counting) : NULL;
    return open_with(options);
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

static void close_and_check(struct muster *m, const struct counting *counting)
{
    MUST(muster_close(m, &problem));
    check_nothing_left(counting);
}

static bool is_first(uint64_t begin, void *const *args)
{
    return *(const uint64_t *)args[0] + begin < UNIT;
}

/* The first unit is done at once, the others take long: the driver is worth opening. */
static muster_status stand_and_compute(uint64_t begin, uint64_t end, void *const *args)
{
    if (!is_first(begin, args))
        door_pass(&hall);
    return compute(begin, end, args);
}

static muster_status await_launch_and_compute(uint64_t begin, uint64_t end, void *const *args)
{
    while (!is_first(begin, args) && faulty_calls(FAULTY_launch) == 0)
        sched_yield();
    return compute(begin, end, args);
}

static struct muster_job *start_kernel(struct muster *m, struct account *account,
                                       muster_status (*function)(uint64_t, uint64_t, void *const *))
{
    /* What a device is given is its own to finish. */
    const struct muster_run_options how = { .size = sizeof how,
                                            .unit_items = UNIT,
                                            .no_copies = 1 };
    account_init(account, ITEMS);
    struct muster_job_desc desc = account_desc(account, kernel_of(m, function));
    desc.options = &how;
    return start(m, &desc);
}

/* Waits for the job; gives what the device has done in it, NULL if it took no part. */
static const struct muster_job_device *end_job(struct muster_job *job, struct account *account,
                                               const char *id)
{
    static struct muster_report report;
    report = full_report();
    MUST(muster_job_wait(job, &report, &problem));
    muster_job_destroy(job);
    check_account(account, ITEMS);
    check_report(&report);
    account_deinit(account);
    for (size_t i = 0; i < report.device_count; i++)
        if (strcmp(report.devices[i].id, id) == 0)
            return &report.devices[i];
    return NULL;
}

/* A job that is over while the driver opens. */
static void run_while_it_opens(struct muster *m)
{
    struct account account;
    struct muster_job *job = start_kernel(m, &account, stand_and_compute);
    door_wait_arrived(&gate, 1);
    door_open(&hall);
    CHECK(!end_job(job, &account, "faulty:0"));
}

/* How long it took. */
static uint64_t run_short(struct muster *m)
{
    struct account account;
    account_init(&account, UNIT);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    uint64_t begin_ns = platform_clock_ns();
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, NULL, &problem));
    uint64_t took_ns = platform_clock_ns() - begin_ns;
    muster_job_destroy(job);
    check_account(&account, UNIT);
    account_deinit(&account);
    return took_ns;
}

static unsigned arrived_at_gate(void)
{
    pthread_mutex_lock(&gate.mutex);
    unsigned arrived = gate.arrived;
    pthread_mutex_unlock(&gate.mutex);
    return arrived;
}

static void a_job_does_not_wait_for_a_driver(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_late(NULL, &counting, NULL, sim, 0);
    run_while_it_opens(m);
    run_short(m);
    CHECK(!atomic_load(&has_opened));
    door_open(&gate);
    close_and_check(m, &counting);
}

/* Opening would cost the cores more than the device could bring. */
static void a_short_job_opens_nothing(void)
{
    uint64_t took_ns;
    do {
        struct counting counting = COUNTING_INIT;
        struct muster *m = open_late(NULL, &counting, NULL, sim, 0);
        took_ns = run_short(m);
        if (arrived_at_gate() > 0)
            CHECK(took_ns >= OPENING_FIRST_NS);
        door_open(&gate);
        close_and_check(m, &counting);
    } while (took_ns >= OPENING_FIRST_NS);
    CHECK_EQUAL(0, arrived_at_gate());
}

/* Whether it has many jobs to come nobody knows; by what it had it will. */
static void many_short_jobs_open_a_driver(void)
{
    for (uint32_t devices = 0; devices < 2; devices++) {
        struct counting counting = COUNTING_INIT;
        struct muster *m = open_late(NULL, &counting, NULL, sim, 0);
        struct account account;
        uint64_t took_ns = 0, longest_ns = 0;
        expected = devices;
        while (arrived_at_gate() == 0) {
            uint64_t job_ns = run_short(m);
            took_ns += job_ns;
            longest_ns = job_ns > longest_ns ? job_ns : longest_ns;
        }
        CHECK(took_ns >= OPENING_UNKNOWN_NS || longest_ns >= OPENING_FIRST_NS);
        door_open(&gate);
        while (!atomic_load(&has_opened))
            sched_yield();
        size_t count = 0;
        muster_device list[8];
        MUST(muster_device_list(m, list, COUNT_OF(list), &count, &problem));
        CHECK_EQUAL(3, count);
        CHECK(end_job(start_kernel(m, &account, compute), &account, "faulty:0"));
        close_and_check(m, &counting);
    }
}

static void nothing_is_opened_before_it_is_wanted(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_late(NULL, &counting, NULL, sim, 0);
    close_and_check(m, &counting);
    CHECK_EQUAL(0, faulty_calls(FAULTY_open));
}

static void a_device_joins_when_it_is_open(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_late(NULL, &counting, NULL, sim, 0);
    struct account account;
    struct muster_job *job = start_kernel(m, &account, await_launch_and_compute);
    door_open(&gate);
    const struct muster_job_device *device = end_job(job, &account, "faulty:0");
    CHECK(device && device->items > 0 && device->health == MUSTER_HEALTH_OK);
    CHECK_TEXT("", device->shortage);
    /* The next one has it from the start. */
    CHECK(end_job(start_kernel(m, &account, compute), &account, "faulty:0"));
    close_and_check(m, &counting);
}

static void several_jobs_are_joined(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_late(NULL, &counting, NULL, sim, 0);
    struct account accounts[3];
    struct muster_job *jobs[3];
    for (size_t i = 0; i < COUNT_OF(jobs); i++)
        jobs[i] = start_kernel(m, &accounts[i], stand_and_compute);
    door_open(&gate);
    /* All are held up until the device is in each. */
    for (size_t i = 0; i < COUNT_OF(jobs); i++)
        for (size_t count = 0; count < 3; sched_yield()) {
            struct muster_job_device devices[3];
            for (size_t d = 0; d < COUNT_OF(devices); d++)
                devices[d].size = sizeof devices[d];
            MUST(muster_job_devices(jobs[i], devices, COUNT_OF(devices), &count, &problem));
        }
    door_open(&hall);
    for (size_t i = 0; i < COUNT_OF(jobs); i++)
        CHECK(end_job(jobs[i], &accounts[i], "faulty:0"));
    close_and_check(m, &counting);
}

/* Takes its results when the device gets ready. */
static muster_status sink_late(void *user, const struct muster_result *result)
{
    uint64_t *out = user;
    while (faulty_calls(FAULTY_stream_open) == 0)
        sched_yield();
    memcpy(out + result->range.begin, result->outputs[0],
           (result->range.end - result->range.begin) * sizeof *out);
    return MUSTER_OK;
}

/* A pipeline whose pinned inputs, outputs and workers are those of any job. */
static void a_device_joins_a_pipeline(void)
{
    static const struct muster_buffer buffers[] = {
        { sizeof *buffers, "in", MUSTER_HOST, 8, 0, 0, MUSTER_INPUT },
        { sizeof *buffers, "dev", MUSTER_DEVICE, 8, 0, 0, 0 },
        { sizeof *buffers, "out", MUSTER_HOST, 8, 0, 0, MUSTER_OUTPUT },
    };
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_late(NULL, &counting, NULL, sim, 0);
    const struct muster_stage stages[] = {
        { sizeof *stages, "up", "h2d", .reads = 1, .writes = 2, .flags = MUSTER_COPY },
        { sizeof *stages, "down", "d2h", .reads = 2, .writes = 4, .flags = MUSTER_COPY },
    };
    struct muster_pipeline *pipeline = NULL;
    MUST(muster_pipeline_create(m, buffers, COUNT_OF(buffers), stages, COUNT_OF(stages), NULL,
                                &pipeline, &problem));
    static uint64_t in[1 << 16], out[1 << 16];
    for (size_t i = 0; i < COUNT_OF(in); i++)
        in[i] = i * 7;
    const struct muster_run_options how = { .size = sizeof how, .unit_items = 16, .window = 1024 };
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .items = COUNT_OF(in),
                                    .pipeline = pipeline,
                                    .input = in,
                                    .sink = sink_late,
                                    .sink_user = out,
                                    .options = &how };
    struct muster_job *job = start(m, &desc);
    door_open(&gate);
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    CHECK(memcmp(in, out, sizeof in) == 0);
    close_and_check(m, &counting);
}

/* The job is over while its joiner is in a driver's call: at each step of the way. */
static void the_end_does_not_wait_for_a_joiner(void)
{
    static const enum faulty_call calls[] = { FAULTY_device_open, FAULTY_kernel_init,
                                              FAULTY_stream_open, FAULTY_memory_allocate,
                                              FAULTY_event_init };
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        struct counting counting = COUNTING_INIT;
        struct muster *m = open_late(NULL, &counting, NULL, sim, 0);
        struct account account;
        faulty_block(&(struct faulty_block){
            .call = calls[i], .number = 1, .from_then_on = true, .device = FAULTY_EVERY_DEVICE });
        struct muster_job *job = start_kernel(m, &account, stand_and_compute);
        door_open(&gate);
        CHECK(faulty_await_blocked(1));
        door_open(&hall);
        struct muster_progress progress = { .size = sizeof progress };
        MUST(muster_job_wait(job, NULL, &problem));
        MUST(muster_job_progress(job, &progress, &problem));
        CHECK(progress.is_over);
        CHECK_EQUAL(0, faulty_calls(FAULTY_launch));
        const struct muster_job_device *device = end_job(job, &account, "faulty:0");
        CHECK(!device || device->items == 0);
        CHECK_EQUAL(1, faulty_blocked());
        faulty_unblock(MUSTER_OK);
        close_and_check(m, &counting);
    }
}

static void a_job_can_be_cancelled_while_it_is_joined(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_late(NULL, &counting, NULL, sim, 0);
    struct account account;
    faulty_block(&(struct faulty_block){
        .call = FAULTY_stream_open, .number = 1, .device = FAULTY_EVERY_DEVICE });
    struct muster_job *job = start_kernel(m, &account, stand_and_compute);
    door_wait_arrived(&hall, 1);
    door_open(&gate);
    CHECK(faulty_await_blocked(1));
    muster_job_cancel(job);
    door_open(&hall);
    CHECK_STATUS(MUSTER_E_CANCELLED, muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    account_deinit(&account);
    faulty_unblock(MUSTER_OK);
    close_and_check(m, &counting);
}

/* Until the report says why the device is left out. */
static void await_left_out(struct muster_job *job, const char *id)
{
    for (;; sched_yield()) {
        struct muster_job_device devices[4];
        size_t count = 0;
        for (size_t d = 0; d < COUNT_OF(devices); d++)
            devices[d].size = sizeof devices[d];
        MUST(muster_job_devices(job, devices, COUNT_OF(devices), &count, &problem));
        for (size_t i = 0; i < count; i++)
            if (strcmp(devices[i].id, id) == 0 && *devices[i].shortage)
                return;
    }
}

static void a_joiner_that_cannot_take_part_is_left_out_and_reported(void)
{
    static const struct {
        enum faulty_call call;
        muster_status status;
    } ways[] = { { FAULTY_kernel_init, MUSTER_E_PARSE },
                 { FAULTY_kernel_init, MUSTER_E_DEVICE_MEMORY },
                 { FAULTY_stream_open, MUSTER_E_DRIVER },
                 { FAULTY_stream_open, MUSTER_E_DEVICE_LOST } };
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        struct counting counting = COUNTING_INIT;
        const struct faulty_plan plan = {
            .call = ways[i].call, .number = 1, .from_then_on = true, .status = ways[i].status
        };
        struct muster *m = open_late(&plan, &counting, NULL, sim, 0);
        struct account account;
        struct muster_job *job = start_kernel(m, &account, stand_and_compute);
        door_open(&gate);
        await_left_out(job, "faulty:0");
        door_open(&hall);
        const struct muster_job_device *device = end_job(job, &account, "faulty:0");
        CHECK(device && *device->shortage);
        CHECK_EQUAL(0, device->items);
        CHECK_EQUAL(0, device->retries);
        close_and_check(m, &counting);
    }
}

static void a_driver_that_finds_nothing_changes_nothing(void)
{
    static const muster_status statuses[] = { MUSTER_E_NOT_FOUND, MUSTER_E_DRIVER };
    for (size_t i = 0; i < COUNT_OF(statuses); i++) {
        struct counting counting = COUNTING_INIT;
        const struct faulty_plan plan = {
            .call = FAULTY_open, .number = 1, .from_then_on = true, .status = statuses[i]
        };
        struct muster *m = open_late(&plan, &counting, NULL, sim, 0);
        struct account account;
        struct muster_job *job = start_kernel(m, &account, stand_and_compute);
        door_open(&gate);
        size_t count = 0;
        muster_device devices[4];
        MUST(muster_device_list(m, devices, COUNT_OF(devices), &count, &problem));
        CHECK_EQUAL(2, count);
        door_open(&hall);
        CHECK(!end_job(job, &account, "faulty:0"));
        close_and_check(m, &counting);
    }
}

/* A backend may have more devices than it said, or be slow and expect none: those are for the next job. */
static void devices_that_nobody_expected_are_for_the_next_job(void)
{
    static const char two[] = "[{\"items_per_s\": 1e8, \"count\": 2}]";
    for (uint32_t most = 0; most < 4; most++) {
        struct counting counting = COUNTING_INIT;
        struct muster *m = open_late(NULL, &counting, NULL, two, 0);
        struct account account;
        struct muster_report report = full_report();
        size_t count = 0;
        muster_device devices[8];
        expected = most;
        struct muster_job *job = start_kernel(m, &account, stand_and_compute);
        door_open(&gate);
        MUST(muster_device_list(m, devices, COUNT_OF(devices), &count, &problem));
        CHECK_EQUAL(5, count);
        /* cpu, two of sim, and as many of the late ones as there is room for. */
        size_t lanes = 3 + (most < 2 ? most : 2);
        do {
            MUST(muster_job_report(job, &report, &problem));
            sched_yield();
        } while (report.device_count < lanes);
        door_open(&hall);
        end_job(job, &account, "");
        MUST(muster_for(m, kernel_of(m, compute), 0, NULL, 0, NULL, &report, &problem));
        CHECK_EQUAL(5, report.device_count);
        close_and_check(m, &counting);
    }
}

/* Its devices, if any, are probably others' under another name. */
static void a_driver_of_which_nothing_is_expected_is_not_opened_by_one_job(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_late(NULL, &counting, NULL, sim, 0);
    struct account account;
    expected = 0;
    struct muster_job *job = start_kernel(m, &account, stand_and_compute);
    /* Long enough for one of which devices are expected. */
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_job_wait_for(job, 2 * OPENING_SURE_NS, NULL, &problem));
    CHECK_EQUAL(0, arrived_at_gate());
    door_open(&hall);
    CHECK(!end_job(job, &account, "faulty:0"));
    door_open(&gate);
    close_and_check(m, &counting);
}

/* A thread that waits for the driver. */
struct waiter {
    struct muster *m;
    muster_status (*run)(struct waiter *waiter);
    pthread_t thread;
    muster_status status;
    struct muster_error error;
    struct muster_report report;
    size_t count;
    bool had_opened; /* when it came back */
    struct door back;
};

static void *wait_for_driver(void *argument)
{
    struct waiter *waiter = argument;
    waiter->status = waiter->run(waiter);
    waiter->had_opened = atomic_load(&has_opened);
    door_linger(&waiter->back, 1);
    return NULL;
}

static void run_waiter(struct muster *m, struct waiter *waiter,
                       muster_status (*run)(struct waiter *waiter))
{
    *waiter = (struct waiter){ .m = m,
                               .run = run,
                               .error = { .size = sizeof waiter->error },
                               .report = full_report(),
                               .back = DOOR_INIT };
    CHECK_EQUAL(0, pthread_create(&waiter->thread, NULL, wait_for_driver, waiter));
    door_wait_arrived(&gate, 1);
    /* A chance for one that does not wait to come back. */
    door_linger(&waiter->back, 2);
    door_open(&gate);
    pthread_join(waiter->thread, NULL);
    CHECK(waiter->had_opened);
}

static muster_status run_on_named(struct waiter *waiter)
{
    const struct muster_run_options how = { .size = sizeof how, .devices = "cpu:0,faulty:0" };
    return muster_for(waiter->m, kernel_of(waiter->m, compute), 0, NULL, 0, &how, &waiter->report,
                      &waiter->error);
}

static muster_status run_on_unknown(struct waiter *waiter)
{
    const struct muster_run_options how = { .size = sizeof how, .devices = "faulty:7" };
    return muster_for(waiter->m, kernel_of(waiter->m, compute), 0, NULL, 0, &how, NULL,
                      &waiter->error);
}

static muster_status run_on_any(struct waiter *waiter)
{
    return muster_for(waiter->m, kernel_of(waiter->m, compute), 0, NULL, 0, NULL, &waiter->report,
                      &waiter->error);
}

static muster_status run_with_policy(struct waiter *waiter)
{
    const struct muster_run_options how = { .size = sizeof how, .policy = "round-robin" };
    return muster_for(waiter->m, kernel_of(waiter->m, compute), 0, NULL, 0, &how, &waiter->report,
                      &waiter->error);
}

/* None of the devices can run it. */
static muster_status run_on_none(struct waiter *waiter)
{
    static const char ptx[] = "of no device here";
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PTX,
                                             .code = ptx,
                                             .code_bytes = sizeof ptx,
                                             .entry = "none" };
    struct muster_kernel *kernel = NULL;
    MUST(muster_kernel_from(waiter->m, "none", &form, 1, &kernel, &waiter->error));
    return muster_for(waiter->m, kernel, 1, NULL, 0, NULL, NULL, &waiter->error);
}

static muster_status list(struct waiter *waiter)
{
    muster_device devices[8];
    return muster_device_list(waiter->m, devices, COUNT_OF(devices), &waiter->count,
                              &waiter->error);
}

static muster_status pick(struct waiter *waiter)
{
    const struct muster_hints hints = { .size = sizeof hints, .devices = "faulty:0" };
    muster_lease lease;
    muster_device device;
    muster_status status = muster_pick(waiter->m, NULL, &hints, &lease, &device, &waiter->error);
    if (status == MUSTER_OK)
        muster_lease_release(waiter->m, lease, NULL);
    return status;
}

static void those_who_name_devices_wait(void)
{
    static const struct {
        const char *devices; /* of the runtime */
        muster_status (*run)(struct waiter *waiter);
        muster_status status;
        size_t lanes;
    } ways[] = {
        { NULL, run_on_named, MUSTER_OK, 2 },
        { "cpu,faulty", run_on_any, MUSTER_OK, 2 },
        { "faulty:0", run_on_any, MUSTER_OK, 1 },
        { NULL, run_with_policy, MUSTER_OK, 3 },
        { NULL, run_on_unknown, MUSTER_E_NOT_FOUND, 0 },
        { "cpu,faulty:7", run_on_any, MUSTER_E_NOT_FOUND, 0 },
        { NULL, run_on_none, MUSTER_E_NO_DEVICE, 0 },
        { NULL, pick, MUSTER_OK, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        struct counting counting = COUNTING_INIT;
        struct muster *m = open_late(NULL, &counting, ways[i].devices, sim, 0);
        struct waiter waiter;
        run_waiter(m, &waiter, ways[i].run);
        CHECK_STATUS(ways[i].status, waiter.status);
        if (ways[i].lanes > 0)
            CHECK_EQUAL(ways[i].lanes, waiter.report.device_count);
        close_and_check(m, &counting);
    }
}

static void those_who_list_devices_wait_also_while_a_job_runs(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_late(NULL, &counting, NULL, sim, 0);
    struct waiter waiter;
    run_while_it_opens(m);
    run_waiter(m, &waiter, list);
    CHECK_STATUS(MUSTER_OK, waiter.status);
    CHECK_EQUAL(3, waiter.count);
    close_and_check(m, &counting);
}

/* A driver that is open, of GPUs whose first lanes take long to set up. */
static struct muster *open_gpus(const struct faulty_plan *plan, struct counting *counting,
                                const char *described)
{
    struct muster *m = open_late(plan, counting, NULL, described, 0);
    device_open_wrapped = table.device_open;
    table.device_open = open_as_gpu;
    table.is_slow = NULL;
    door_open(&gate);
    muster_close(m, &problem);
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.backends = tables;
    options.backend_count = 1;
    options.sim = described;
    options.cpu_workers = 2;
    options.allocator = counting_allocator(counting);
    return open_with(options);
}

static struct muster_job *start_named(struct muster *m, struct account *account,
                                      const char *devices,
                                      muster_status (*function)(uint64_t, uint64_t, void *const *))
{
    const struct muster_run_options how = {
        .size = sizeof how, .unit_items = UNIT, .no_copies = 1, .devices = devices
    };
    account_init(account, ITEMS);
    struct muster_job_desc desc = account_desc(account, kernel_of(m, function));
    desc.options = &how;
    return start(m, &desc);
}

/* Its memory and its kernels: a named GPU is there, and joins when it is ready. */
static void a_job_does_not_wait_for_the_first_lane_on_a_gpu(void)
{
    static const enum faulty_call calls[] = { FAULTY_kernel_init, FAULTY_stream_open,
                                              FAULTY_memory_allocate, FAULTY_event_init };
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        struct counting counting = COUNTING_INIT;
        struct muster *m = open_gpus(NULL, &counting, sim);
        struct account account;
        faulty_block(&(struct faulty_block){
            .call = calls[i], .number = 1, .from_then_on = true, .device = FAULTY_EVERY_DEVICE });
        struct muster_job *job = start_named(m, &account, "cpu:0,faulty:0", stand_and_compute);
        CHECK(faulty_await_blocked(1));
        door_open(&hall);
        const struct muster_job_device *device = end_job(job, &account, "faulty:0");
        CHECK(device && device->items == 0);
        faulty_unblock(MUSTER_OK);
        close_and_check(m, &counting);
    }
}

static void the_first_lane_on_a_gpu_joins(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_gpus(NULL, &counting, sim);
    struct account account;
    struct muster_job *job = start_named(m, &account, "cpu:0,faulty:0", await_launch_and_compute);
    const struct muster_job_device *device = end_job(job, &account, "faulty:0");
    CHECK(device && device->items > 0);
    close_and_check(m, &counting);
}

/* One that is alone is waited for, and what it fails with is what the job is refused with. */
static void the_only_gpu_is_waited_for(void)
{
    static const char two[] = "[{\"items_per_s\": 1e8, \"count\": 2}]";
    struct counting counting = COUNTING_INIT;
    const struct faulty_plan plan = {
        .call = FAULTY_stream_open, .number = 1, .from_then_on = true, .status = MUSTER_E_DRIVER
    };
    struct muster *m = open_gpus(&plan, &counting, two);
    const struct muster_run_options how = { .size = sizeof how, .devices = "faulty:0,faulty:1" };
    CHECK_STATUS(MUSTER_E_DRIVER,
                 muster_for(m, kernel_of(m, compute), 8, NULL, 0, &how, NULL, &problem));
    close_and_check(m, &counting);
}

/* Law 16: the driver never answers. */
static void closing_has_an_end(void)
{
    for (int has_allocator = 0; has_allocator < 2; has_allocator++) {
        struct counting counting = COUNTING_INIT;
        struct door later = DOOR_INIT;
        struct muster *m =
            open_late(NULL, has_allocator ? &counting : NULL, NULL, sim, PATIENCE_NS);
        run_while_it_opens(m);
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(m, &problem));
        CHECK_CONTAINS("the driver of faulty", problem.text);
        counting_close(&counting);
        /* It answers at last: all that it touches is there, and nothing of the caller's is used. */
        door_open(&gate);
        door_wait_left(&gate, 1);
        while (!atomic_load(&has_opened))
            sched_yield();
        /* A chance to go on opening. */
        door_linger(&later, 2);
        CHECK_EQUAL(0, faulty_calls(FAULTY_device_open));
        CHECK_EQUAL(0, counting_late(&counting));
    }
}

static void closing_has_an_end_when_a_joiner_is_stuck(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_late(NULL, &counting, NULL, sim, PATIENCE_NS);
    struct account account;
    faulty_block(&(struct faulty_block){
        .call = FAULTY_stream_open, .number = 1, .device = FAULTY_EVERY_DEVICE });
    struct muster_job *job = start_kernel(m, &account, stand_and_compute);
    door_open(&gate);
    CHECK(faulty_await_blocked(1));
    door_open(&hall);
    end_job(job, &account, "faulty:0");
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(m, &problem));
    CHECK_CONTAINS("the driver of faulty:0", problem.text);
    counting_close(&counting);
    faulty_unblock(MUSTER_OK);
    CHECK_EQUAL(0, counting_late(&counting));
}

/*
 * exit() while the driver opens waits until it has. What the driver itself has registered for the process's
 * end, in the middle of its opening, would else run under its feet.
 */
extern int __cxa_thread_atexit_impl(void (*function)(void *), void *argument, void *object);
extern void *__dso_handle;

static void see_that_it_has_opened(void)
{
    _exit(atomic_load(&has_opened) ? 0 : 3);
}

static void let_it_open(void)
{
    door_open(&gate);
}

static void let_it_open_first(void *argument)
{
    (void)argument;
    let_it_open();
}

static void *leave(void *argument)
{
    (void)argument;
    exit(1);
}

static void exit_in_the_middle(bool is_first_thread)
{
    static struct counting counting = COUNTING_INIT;
    pthread_t thread;
    /* The last that exit() calls; of what is registered below, the last comes first. */
    atexit(see_that_it_has_opened);
    struct muster *m = open_late(NULL, &counting, NULL, sim, 0);
    run_while_it_opens(m);
    if (is_first_thread) {
        /* As the driver would: it must not be called before the driver is open. */
        atexit(see_that_it_has_opened);
        __cxa_thread_atexit_impl(let_it_open_first, NULL, &__dso_handle);
        exit(1);
    }
    atexit(let_it_open);
    pthread_create(&thread, NULL, leave, NULL);
    pthread_join(thread, NULL);
}

static void exit_waits_for_a_driver_that_opens(void)
{
    for (int i = 0; i < 2; i++) {
        int how = 0;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            exit_in_the_middle(i == 0);
        CHECK_EQUAL(child, waitpid(child, &how, 0));
        CHECK(WIFEXITED(how));
        CHECK_EQUAL(0, WEXITSTATUS(how));
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        /* First: its child has no threads of others. */
        TEST(exit_waits_for_a_driver_that_opens),
        TEST(a_job_does_not_wait_for_a_driver),
        TEST(a_short_job_opens_nothing),
        TEST(many_short_jobs_open_a_driver),
        TEST(nothing_is_opened_before_it_is_wanted),
        TEST(a_device_joins_when_it_is_open),
        TEST(several_jobs_are_joined),
        TEST(a_device_joins_a_pipeline),
        TEST(the_end_does_not_wait_for_a_joiner),
        TEST(a_job_can_be_cancelled_while_it_is_joined),
        TEST(a_joiner_that_cannot_take_part_is_left_out_and_reported),
        TEST(a_driver_that_finds_nothing_changes_nothing),
        TEST(devices_that_nobody_expected_are_for_the_next_job),
        TEST(a_driver_of_which_nothing_is_expected_is_not_opened_by_one_job),
        TEST(those_who_name_devices_wait),
        TEST(those_who_list_devices_wait_also_while_a_job_runs),
        TEST(a_job_does_not_wait_for_the_first_lane_on_a_gpu),
        TEST(the_first_lane_on_a_gpu_joins),
        TEST(the_only_gpu_is_waited_for),
        TEST(closing_has_an_end),
        TEST(closing_has_an_end_when_a_joiner_is_stuck),
    };
    /* Where tests are run by hand: one slow driver is enough. */
    setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
