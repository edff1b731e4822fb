/*
 * Every way out of a pipeline's job: the source, a stage, a kernel, a device or the sink fails, somebody
 * cancels, memory does not suffice, the driver refuses. Nothing hangs or is left behind, what was
 * delivered is a correct prefix, the status is that of what failed, and the runtime can go on.
 */
#include "backend/cpu/cpu.h"
#include "backend/sim/sim.h"
#include "fault/faulty_allocator.h"
#include "fault/faulty_backend.h"
#include "fault/sweep.h"
#include "machine.h"
#include "shapes.h"

#define WHY_BYTES 160
/* A unit that has not come that far by then makes its device hung: no test is to wait for long. */
#define UNIT_NS (2 * SECOND)

static struct shape_run *open_run(struct muster *m, const struct shape *shape)
{
    struct shape_run *run;
    MUST(shape_open(m, shape, SHAPE_ALL_FORMS, MUSTER_SCHEDULE_AUTO, &run, &problem));
    return run;
}

static muster_status run_job(struct shape_run *run, struct muster_job_desc *desc,
                             struct muster_report *report)
{
    *report = (struct muster_report){ .size = sizeof *report };
    desc->options.timeout_ns = UNIT_NS;
    muster_status status = muster_start(run->m, desc, &run->job, &problem);
    if (status != MUSTER_OK)
        return status;
    status = muster_job_wait(run->job, report, &problem);
    shape_release_kept(run);
    muster_job_destroy(run->job);
    return status;
}

#define CHECK_PREFIX(run, report) check_prefix(__LINE__, run, report)
static void check_prefix(int line, const struct shape_run *run, const struct muster_report *report)
{
    char why[WHY_BYTES];
    if (!shape_is_prefix(run, why, sizeof why))
        test_fail(__FILE__, line, "%s: %s", run->shape->name, why);
    uint64_t end = run->got.units > 0 ? run->got.ends[run->got.units - 1] : 0;
    /* Units that go together are reported as delivered when all of them are. */
    bool go_together = run->shape->merges || run->shape->stages[1].every > 1;
    if (go_together ? report->delivered > end : report->delivered != end)
        test_fail(__FILE__, line, "%s: %llu items were delivered, the report says %llu",
                  run->shape->name, (unsigned long long)end, (unsigned long long)report->delivered);
}

/* The same run does the whole job, as if nothing had happened. */
static void check_usable(struct shape_run *run)
{
    char why[WHY_BYTES];
    struct muster_report report;
    run->fails = run->dawdles = SHAPE_NOWHERE;
    struct muster_job_desc desc = shape_job(run, SHAPE_FROM_ARRAY, NULL);
    muster_status status = run_job(run, &desc, &report);
    if (status != MUSTER_OK || !shape_is_right(run, why, sizeof why))
        test_fail(__FILE__, __LINE__, "%s, once more: %s", run->shape->name,
                  status != MUSTER_OK ? problem.text : why);
}

/* Something fails at an item of each part of the job; it ends with that status, or another that is allowed. */
static void fail_at(struct shape_run *run, uint32_t where, muster_status failure,
                    muster_status expected)
{
    const uint64_t items = run->shape->items, at[] = { 0, items / 2, items - 1 };
    for (size_t i = 0; i < COUNT_OF(at); i++) {
        struct muster_report report;
        run->fails = where;
        run->fails_at = at[i];
        run->failure = failure;
        struct muster_job_desc desc = shape_job(run, SHAPE_FROM_SOURCE, NULL);
        muster_status status = run_job(run, &desc, &report);
        if (status != expected)
            test_fail(__FILE__, __LINE__, "%s, place %d, item %llu: %s: %s", run->shape->name,
                      (int)where, (unsigned long long)at[i], muster_status_name(status),
                      problem.text);
        CHECK_PREFIX(run, &report);
        CHECK_STATUS(expected, report.status);
        if (expected != MUSTER_OK)
            CHECK(report.delivered <= at[i]);
    }
    check_usable(run);
}

static void a_source_that_fails(void)
{
    struct muster *m = machine_open("cpu");
    for (size_t i = 0; i < shape_count; i++) {
        if (shapes[i]->has_no_input)
            continue;
        struct shape_run *run = open_run(m, shapes[i]);
        fail_at(run, SHAPE_SOURCE, MUSTER_E_IO, MUSTER_E_IO);
        CHECK_CONTAINS("", problem.text);
        shape_close(run);
    }
    MUST(muster_close(m, &problem));
}

/* A failure of the user's own, which is final, and one that has the unit run again until its tries are out. */
static void every_stage_that_fails(void)
{
    static const muster_status failures[] = { MUSTER_E_PARSE, MUSTER_E_FAILED };
    struct muster *m = machine_open("cpu");
    for (size_t i = 0; i < shape_count; i++) {
        struct shape_run *run = open_run(m, shapes[i]);
        for (uint32_t s = 0; s < shape_stage_count(shapes[i]); s++)
            for (size_t f = 0; f < COUNT_OF(failures) && shapes[i]->stages[s].run; f++)
                fail_at(run, s, failures[f], failures[f]);
        shape_close(run);
    }
    MUST(muster_close(m, &problem));
}

static void a_failing_stage_is_named(void)
{
    struct muster *m = machine_open("cpu");
    struct shape_run *run = open_run(m, shape_find("late"));
    struct muster_report report;
    run->fails = 3;
    run->fails_at = 500;
    run->failure = MUSTER_E_PARSE;
    struct muster_job_desc desc = shape_job(run, SHAPE_FROM_ARRAY, NULL);
    CHECK_STATUS(MUSTER_E_PARSE, run_job(run, &desc, &report));
    CHECK_CONTAINS("decide", problem.text);
    CHECK_EQUAL(1, report.failed_count);
    CHECK_EQUAL(500 / 173 * 173, report.failed[0].begin);
    shape_close(run);
    MUST(muster_close(m, &problem));
}

static void a_sink_that_fails_or_cancels(void)
{
    struct muster *m = machine_open("cpu");
    for (size_t i = 0; i < shape_count; i++) {
        struct shape_run *run = open_run(m, shapes[i]);
        fail_at(run, SHAPE_SINK, MUSTER_E_IO, MUSTER_E_IO);
        run->fails = SHAPE_SINK;
        run->fails_at = shapes[i]->items / 2;
        run->failure = MUSTER_OK;
        /* It is in the sink that the job is cancelled, which the sink must know. */
        struct muster_job_desc desc = shape_job(run, SHAPE_FROM_SOURCE, NULL);
        struct muster_report report;
        CHECK_STATUS(MUSTER_E_CANCELLED, run_job(run, &desc, &report));
        CHECK_PREFIX(run, &report);
        check_usable(run);
        shape_close(run);
    }
    MUST(muster_close(m, &problem));
}

/* Another thread cancels, at any moment. */
static void cancelled_at_any_moment(void)
{
    uint64_t random = test_seed();
    struct muster *m = machine_open("cpu");
    for (size_t i = 0; i < shape_count; i++) {
        struct shape_run *run = open_run(m, shapes[i]);
        for (unsigned r = 0; r < test_repetitions(4); r++) {
            struct muster_report report = { .size = sizeof report };
            struct muster_job_desc desc = shape_job(run, (enum shape_input)(r % 2), NULL);
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
            struct timespec moment = { .tv_nsec = (long)((random >> 33) % 6000000) };
            MUST(muster_start(m, &desc, &run->job, &problem));
            nanosleep(&moment, NULL);
            muster_job_cancel(run->job);
            muster_status status = muster_job_wait(run->job, &report, &problem);
            shape_release_kept(run);
            muster_job_destroy(run->job);
            CHECK(status == MUSTER_OK || status == MUSTER_E_CANCELLED);
            CHECK_PREFIX(run, &report);
        }
        check_usable(run);
        shape_close(run);
    }
    MUST(muster_close(m, &problem));
}

/* Destroying is cancelling, waiting and freeing. */
static void destroyed_in_the_middle(void)
{
    struct muster *m = machine_open("cpu");
    for (size_t i = 0; i < shape_count; i++) {
        struct shape_run *run = open_run(m, shapes[i]);
        struct muster_job_desc desc = shape_job(run, SHAPE_FROM_SOURCE, NULL);
        /* What it keeps it could not give back. */
        desc.sink = NULL;
        MUST(muster_start(m, &desc, &run->job, &problem));
        muster_job_destroy(run->job);
        shape_close(run);
    }
    MUST(muster_close(m, &problem));
}

/* --- devices ----------------------------------------------------------------------------------- */

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
    options.close_ns = SECOND;
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

static void run_with_loss(const struct shape *shape, unsigned at, bool has_second)
{
    char fault[80];
    snprintf(fault, sizeof fault, "{\"kind\": \"lost\", \"at_launch\": %u}", at);
    struct muster *m = open_faulty_sim(fault, has_second);
    struct shape_run *run = open_run(m, shape);
    struct muster_report report;
    struct muster_job_desc desc = shape_job(run, SHAPE_FROM_SOURCE, NULL);
    desc.options.no_copies = 1;
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

/* It does not come back: what it holds is left to it, and the job ends. */
static void a_device_that_hangs(void)
{
    static const char *const names[] = { "depth_2", "late", "carry_host" };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct muster *m = open_faulty_sim("{\"kind\": \"hang\", \"at_launch\": 4}", i == 0);
        struct shape_run *run = open_run(m, shape_find(names[i]));
        struct muster_report report = { .size = sizeof report };
        struct muster_job_desc desc = shape_job(run, SHAPE_FROM_ARRAY, NULL);
        desc.options.timeout_ns = 50 * MS;
        MUST(muster_start(m, &desc, &run->job, &problem));
        muster_status status = muster_job_wait(run->job, &report, &problem);
        CHECK_PREFIX(run, &report);
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG, status);
        if (i == 0)
            CHECK_EQUAL(run->shape->items, report.delivered);
        muster_job_destroy(run->job);
        muster_status closed = muster_close(m, &problem);
        CHECK(closed == MUSTER_OK || closed == MUSTER_E_DEVICE_HUNG);
        /* Pipeline and kernels went with the runtime; the items are the device's as long as it is. */
        run->pipeline = NULL;
        memset(run->kernels, 0, sizeof run->kernels);
        if (closed == MUSTER_OK)
            shape_close(run);
    }
}

/* --- memory and drivers ------------------------------------------------------------------------ */

/* What a careful user does, with whatever fails underneath. Returns the first failure. */
static muster_status use_pipeline(const struct muster_options *options, const struct shape *shape,
                                  struct muster_error *err)
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
    static const char *const names[] = { "late", "carry_host", "batch" };
    uint64_t stride = sweep_stride(SWEEP_STRIDE(5, 9)), tried = 0;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        for (uint64_t n = sweep_first(stride);; n += stride) {
            struct faulty_allocator allocator;
            faulty_allocator_init(&allocator, n, (n & 1) != 0);
            struct muster_options options = MUSTER_OPTIONS_INIT;
            options.devices = "cpu";
            options.cpu_workers = 3;
            options.allocator = faulty_allocator_hook(&allocator);
            struct muster_error err = { .size = sizeof err };
            muster_status status = use_pipeline(&options, shape_find(names[i]), &err);
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
            options.close_ns = 200 * MS;
            struct muster_error err = { .size = sizeof err };
            muster_status status = use_pipeline(&options, shape_find(name), &err);
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
        }
    CHECK(had_failed > 40);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_source_that_fails),
        TEST(every_stage_that_fails),
        TEST(a_failing_stage_is_named),
        TEST(a_sink_that_fails_or_cancels),
        TEST(cancelled_at_any_moment),
        TEST(destroyed_in_the_middle),
        TEST(a_launch_that_fails),
        TEST(a_device_that_is_lost),
        TEST(a_device_that_hangs),
        TEST(every_allocation_that_fails),
        TEST(every_call_that_the_driver_refuses),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
