/*
 * Pipelines' jobs whose devices fail: launches that report it, devices that are lost or hang, memory
 * that does not suffice, drivers that refuse a call. Nothing hangs or is left behind, and what was
 * delivered is a correct prefix.
 */
#include "outcome.h"

#include "backend/cpu/cpu.h"
#include "backend/sim/sim.h"
#include "fault/faulty_allocator.h"
#include "fault/faulty_backend.h"
#include "fault/sweep.h"
#include "slow.h"

#define TRIES TEST_BY_SANITIZER(390, 130, 65)

/* What a device that hangs keeps is found here, and so is no leak. */
static struct counting counting = COUNTING_INIT;

static struct muster *open_faulty_sim(const char *fault, bool has_second)
{
    static char sim[512];
    snprintf(sim, sizeof sim,
             "[{\"items_per_s\": 4e6, \"launch_ns\": 10000, \"h2d_bytes_per_s\": 2e7,"
             " \"d2h_bytes_per_s\": 2e7, \"faults\": [%s]}%s]",
             fault, has_second ? ", {\"items_per_s\": 4e6}" : "");
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "sim";
    options.sim = sim;
    options.close_ns = test_patience(200 * MS);
    options.allocator = counting_allocator(&counting);
    return open_with(options);
}

/* A launch that fails: the unit is run again, unless something is carried. */
static void a_launch_that_fails(void)
{
    for (size_t i = 0; i < shape_count; i++) {
        struct muster *m = open_faulty_sim("{\"kind\": \"unit_error\", \"at_launch\": 5}", false);
        struct shape_run *run = open_run(m, shapes[i]);
        struct muster_report report;
        bool has_launches = false;
        for (uint32_t s = 0; s < shape_stage_count(shapes[i]); s++)
            has_launches = has_launches || shapes[i]->stages[s].kernel >= 0;
        struct muster_job_desc desc = shape_job(run, SHAPE_FROM_SOURCE, NULL);
        muster_status status = run_job(run, &desc, &report);
        muster_status expected = has_launches && shapes[i]->carries ? MUSTER_E_FAILED : MUSTER_OK;
        if (status != expected)
            test_fail(__FILE__, __LINE__, "%s: %s: %s", shapes[i]->name, muster_status_name(status),
                      status ? problem.text : "");
        CHECK_PREFIX(run, &report);
        CHECK(status != MUSTER_OK || report.delivered == shapes[i]->items);
        check_usable(run);
        shape_close(run);
        MUST(muster_close(m, &problem));
    }
}

/* A kernel's failure that nobody asks for is its stream's. */
static muster_status launch_unasked(void *stream, void *kernel,
                                    const struct muster_launch_desc *launch, size_t count,
                                    struct muster_error *err)
{
    struct muster_launch_desc unasked = *launch;
    unasked.result = NULL;
    return backend_sim.launch(stream, kernel, &unasked, count, err);
}

/* False: the pipeline has more streams than that. */
static bool run_with_failed_stream(const struct shape *shape, uint32_t streams_max)
{
    struct muster_backend table = backend_sim;
    table.name = "brittle";
    table.launch = launch_unasked;
    const struct muster_backend *tables[] = { &table };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.backends = tables;
    options.backend_count = 1;
    options.devices = "brittle";
    options.sim = "[{\"items_per_s\": 4e6, \"launch_ns\": 10000, \"faults\":"
                  " [{\"kind\": \"unit_error\", \"at_launch\": 5}]}]";
    options.streams_max = streams_max;
    struct muster *m = open_with(options);
    struct shape_run *run = open_run(m, shape);
    struct muster_report report;
    struct muster_job_desc desc = shape_job(run, SHAPE_FROM_SOURCE, NULL);
    muster_status status = run_job(run, &desc, &report);
    if (status != MUSTER_OK && status != MUSTER_E_CAPACITY)
        test_fail(__FILE__, __LINE__, "%s: %s: %s", shape->name, muster_status_name(status),
                  problem.text);
    if (status == MUSTER_OK) {
        CHECK_EQUAL(shape->items, report.delivered);
        CHECK(report.retries > 0);
        check_usable(run);
    }
    CHECK_EQUAL(0, load_of(m, find(m, "brittle:0")).streams_acquired);
    shape_close(run);
    MUST(muster_close(m, &problem));
    return status == MUSTER_OK;
}

/* Failed streams take nothing more: the lane needs others, though the pool is empty. */
static void failed_streams_are_replaced_when_all_are_out(void)
{
    for (size_t i = 0; i < shape_count; i++) {
        bool has_launches = false;
        for (uint32_t s = 0; s < shape_stage_count(shapes[i]); s++)
            has_launches = has_launches || shapes[i]->stages[s].kernel >= 0;
        uint32_t streams = 1;
        while (has_launches && !shapes[i]->carries && !run_with_failed_stream(shapes[i], streams))
            streams++;
    }
}

static void run_with_loss(const struct shape *shape, unsigned at, bool has_second)
{
    char fault[80];
    snprintf(fault, sizeof fault, "{\"kind\": \"lost\", \"at_launch\": %u}", at);
    struct muster *m = open_faulty_sim(fault, has_second);
    struct shape_run *run = open_run(m, shape);
    struct muster_report report;
    struct muster_job_desc desc = shape_job(run, SHAPE_FROM_SOURCE, NULL);
    run->how.no_copies = 1;
    muster_status status = run_job(run, &desc, &report);
    CHECK_PREFIX(run, &report);
    if (status != MUSTER_OK && status != MUSTER_E_DEVICE_LOST)
        test_fail(__FILE__, __LINE__, "%s, launch %u: %s: %s", shape->name, at,
                  muster_status_name(status), problem.text);
    CHECK(status != MUSTER_OK || report.delivered == shape->items);
    /* Another device does what is left, unless only one could. */
    if (has_second && !shape->carries)
        CHECK_STATUS(MUSTER_OK, status);
    shape_close(run);
    muster_close(m, NULL);
}

static void a_device_that_is_lost(void)
{
    uint64_t random = test_seed() + 7;
    for (size_t i = 0; i < shape_count; i++)
        for (unsigned has_second = 0; has_second < 2; has_second++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
            run_with_loss(shapes[i], 1 + (unsigned)(random >> 33) % 20, has_second);
        }
}

/* Runs left to devices that hang: the items are the device's as long as it is. */
static struct shape_run *left[3];

static muster_status run_with_hang(const char *name, bool has_second, size_t place)
{
    struct muster *m = open_faulty_sim("{\"kind\": \"hang\", \"at_launch\": 4}", has_second);
    struct shape_run *run = open_run(m, shape_find(name));
    struct muster_report report = { .size = sizeof report };
    struct muster_job_desc desc = shape_job(run, SHAPE_FROM_ARRAY, NULL);
    run->how.timeout_ns = test_patience(50 * MS);
    MUST(muster_start(m, &desc, &run->job, &problem));
    muster_status status = muster_job_wait(run->job, &report, &problem);
    CHECK_PREFIX(run, &report);
    if (has_second)
        CHECK_EQUAL(run->shape->items, report.delivered);
    muster_job_destroy(run->job);
    muster_status closed = muster_close(m, &problem);
    CHECK(closed == MUSTER_OK || closed == MUSTER_E_DEVICE_HUNG);
    /* Pipeline and kernels went with the runtime. */
    run->pipeline = NULL;
    memset(run->kernels, 0, sizeof run->kernels);
    left[place] = run;
    if (closed == MUSTER_OK)
        shape_close(left[place]);
    return status;
}

/* It does not come back: what it holds is left to it, and the job ends. */
static void a_device_that_hangs(void)
{
    static const char *const names[] = { "depth_2", "late", "carry_host" };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        muster_status status = run_with_hang(names[i], i == 0, i);
        /* On a busy machine the second device may do all before the first comes to its fourth launch. */
        for (int again = 0; i == 0 && status == MUSTER_OK && again < 20; again++)
            status = run_with_hang(names[i], true, i);
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG, status);
    }
}

/* --- memory and drivers ------------------------------------------------------------------------ */

/* What a careful user does, with whatever fails underneath and a source that takes source_ns a unit. Returns the first failure. */
static muster_status use_pipeline(const struct muster_options *options, const struct shape *shape,
                                  uint64_t source_ns, struct muster_error *err)
{
    struct muster *m;
    struct shape_run *run;
    struct muster_report report;
    char why[WHY_BYTES];
    muster_status status = muster_open(&m, options, err);
    if (status != MUSTER_OK)
        return status;
    status = shape_open(m, shape, SHAPE_ALL_FORMS, MUSTER_SCHEDULE_AUTO, &run, err);
    if (status != MUSTER_OK) {
        muster_close(m, NULL);
        return status;
    }
    struct muster_job_desc desc = shape_job(run, SHAPE_FROM_SOURCE, NULL);
    run->dawdles = source_ns > 0 ? SHAPE_SOURCE : SHAPE_NOWHERE;
    run->dawdle_ns = source_ns;
    status = run_job(run, &desc, &report);
    if (status != MUSTER_OK)
        *err = problem;
    if (!shape_is_prefix(run, why, sizeof why) ||
        (status == MUSTER_OK && !shape_is_right(run, why, sizeof why)))
        test_fail(__FILE__, __LINE__, "%s: %s", shape->name, why);
    shape_close(run);
    muster_status closed = muster_close(m, status == MUSTER_OK ? err : NULL);
    return status == MUSTER_OK ? closed : status;
}

static void every_allocation_that_fails(void)
{
    static const char *const names[] = { "late", "carry_host" };
    uint64_t stride = sweep_stride(TEST_BY_SANITIZER(2, 5, 9)), tried = 0;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        for (uint64_t n = sweep_first(stride);; n += stride) {
            struct faulty_allocator allocator;
            faulty_allocator_init(&allocator, n, (n & 1) != 0);
            struct muster_options options = MUSTER_OPTIONS_INIT;
            options.devices = "cpu";
            options.cpu_workers = 3;
            options.allocator = faulty_allocator_hook(&allocator);
            struct muster_error err = { .size = sizeof err };
            muster_status status = use_pipeline(&options, shape_find(names[i]), 0, &err);
            CHECK(allocator.has_failed || status == MUSTER_OK);
            /* A thread that could not be started is told as such. */
            if (status != MUSTER_OK && status != MUSTER_E_NO_MEMORY)
                test_fail(__FILE__, __LINE__, "%s, allocation %llu: %s: %s", names[i],
                          (unsigned long long)n, muster_status_name(status), err.text);
            CHECK_EQUAL(0, allocator.bytes_out);
            CHECK_EQUAL(0, allocator.mistakes);
            bool was_last = !allocator.has_failed;
            faulty_allocator_deinit(&allocator);
            if (was_last)
                break;
            tried++;
        }
    CHECK(tried > 20);
}

static void every_call_that_the_driver_refuses(void)
{
    static const enum faulty_call calls[] = {
        FAULTY_memory_allocate, FAULTY_stream_open, FAULTY_stream_wait, FAULTY_event_init,
        FAULTY_event_record,    FAULTY_event_query, FAULTY_gate_init,   FAULTY_gate_publish,
        FAULTY_gate_wait,       FAULTY_copy,        FAULTY_kernel_init, FAULTY_launch
    };
    static const muster_status statuses[] = { MUSTER_E_DRIVER, MUSTER_E_DEVICE_LOST };
    static const char *const names[] = { "late", "carry_host" };
    static const uint64_t numbers[] = { 1, 2, 7 };
    const struct muster_backend *table;
    unsigned had_failed = 0;
    const uint64_t usual_ns = unit_ns;
    /* A driver that does not tell what has become of its work is taken for hung after that. */
    unit_ns = test_patience(TEST_BY_SANITIZER(400 * MS, 800 * MS, SECOND));
    for (size_t k = 0; k < COUNT_OF(calls) * COUNT_OF(statuses) * COUNT_OF(names); k++)
        for (size_t n = 0; n < COUNT_OF(numbers); n++) {
            /* What waits at a gate would not end with the device that is said to be lost. */
            bool is_loss = statuses[k / 2 % 2] == MUSTER_E_DEVICE_LOST;
            const char *name = names[is_loss ? 0 : k % COUNT_OF(names)];
            struct faulty_plan plan = { .call = calls[k / 4],
                                        .number = numbers[n],
                                        .from_then_on = n == 1,
                                        .status = statuses[k / 2 % 2] };
            table = faulty_wrap(&backend_cpu, &plan);
            struct muster_options options = MUSTER_OPTIONS_INIT;
            options.backends = &table;
            options.backend_count = 1;
            options.devices = "faulty";
            options.cpu_workers = 3;
            options.close_ns = test_patience(200 * MS);
            struct muster_error err = { .size = sizeof err };
            struct faulty_allocator allocator;
            faulty_allocator_init(&allocator, 0, false);
            options.allocator = faulty_allocator_hook(&allocator);
            muster_status status = use_pipeline(&options, shape_find(name), 0, &err);
            had_failed += faulty_has_failed();
            if (*faulty_mistake())
                test_fail(__FILE__, __LINE__, "%s, %s number %llu with %s: %s", name,
                          faulty_call_name(plan.call), (unsigned long long)plan.number,
                          muster_status_name(plan.status), faulty_mistake());
            CHECK(status == MUSTER_OK || *err.text || !faulty_has_failed());
            for (int object = 0; object < FAULTY_OBJECT_COUNT; object++)
                if (faulty_live((enum faulty_object)object) != 0)
                    test_fail(__FILE__, __LINE__, "%s, %s number %llu with %s: %llu objects left",
                              name, faulty_call_name(plan.call), (unsigned long long)plan.number,
                              muster_status_name(plan.status),
                              (unsigned long long)faulty_live((enum faulty_object)object));
            faulty_bury();
            faulty_allocator_deinit(&allocator);
        }
    unit_ns = usual_ns;
    CHECK(had_failed > 40);
}

/*
 * A record that the driver refuses, of a step that is slow: nobody goes past it, and when it is over the
 * lane goes on by itself.
 */
static void nobody_passes_what_was_not_recorded(void)
{
    const struct muster_backend *table;
    const uint64_t usual_ns = unit_ns;
    unit_ns = 100 * SECOND;
    for (uint64_t i = 0; i < 36; i++) {
        uint64_t number = 12 + i % 9;
        const struct faulty_plan plan = { .call = FAULTY_event_record,
                                          .number = number,
                                          .status = MUSTER_E_DRIVER };
        table = faulty_wrap(slow_wrap(true), &plan);
        /* The stream of "update"; late by as much as a few units take. */
        slow_choose(2, MS + i / 9 * MS / 2);
        struct muster_options options = MUSTER_OPTIONS_INIT;
        options.backends = &table;
        options.backend_count = 1;
        options.devices = "faulty";
        options.cpu_workers = 6;
        struct muster_error err = { .size = sizeof err };
        muster_status status = use_pipeline(&options, shape_find("five_streams"), 0, &err);
        if (status != MUSTER_OK)
            test_fail(__FILE__, __LINE__, "record %llu: %s", (unsigned long long)number, err.text);
        CHECK(faulty_has_failed());
        faulty_bury();
    }
    unit_ns = usual_ns;
}

/*
 * A record that the driver refuses, of a step before the host's: the next unit, already taken, must not wait at the
 * host step's gate on the same stream, or neither would end. Which units are taken by then is chance, so it is tried
 * often: of each third record, which is that of a kernel, and with a source slow enough for the lane to take two units
 * at once.
 */
static void a_gate_does_not_hold_up_what_was_not_recorded(void)
{
    const struct muster_backend *table;
    unsigned had_failed = 0;
    for (uint64_t i = 0; i < TRIES; i++) {
        const struct faulty_plan plan = { .call = FAULTY_event_record,
                                          .number = 6 + 3 * (i % 13),
                                          .status = MUSTER_E_DRIVER };
        table = faulty_wrap(&backend_cpu, &plan);
        struct muster_options options = MUSTER_OPTIONS_INIT;
        options.backends = &table;
        options.backend_count = 1;
        options.devices = "faulty";
        options.cpu_workers = 3;
        struct muster_error err = { .size = sizeof err };
        muster_status status = use_pipeline(&options, shape_find("carry_host"), MS / 10, &err);
        if (status != MUSTER_OK && status != MUSTER_E_DRIVER)
            test_fail(__FILE__, __LINE__, "record %llu: %s: %s", (unsigned long long)plan.number,
                      muster_status_name(status), err.text);
        had_failed += faulty_has_failed();
        faulty_bury();
    }
    CHECK(had_failed > TRIES / 2);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_launch_that_fails),
        TEST(failed_streams_are_replaced_when_all_are_out),
        TEST(a_device_that_is_lost),
        TEST(a_device_that_hangs),
        TEST(every_allocation_that_fails),
        TEST(every_call_that_the_driver_refuses),
        TEST(nobody_passes_what_was_not_recorded),
        TEST(a_gate_does_not_hold_up_what_was_not_recorded),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
