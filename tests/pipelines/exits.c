/*
 * Every way out of a pipeline's job that its user has: the source, a stage or the sink fails, somebody
 * cancels. Nothing hangs or is left behind, what was delivered is a correct prefix, the status is that
 * of what failed, and the runtime can go on.
 */
#include "outcome.h"

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

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_source_that_fails),      TEST(every_stage_that_fails),
        TEST(a_failing_stage_is_named), TEST(a_sink_that_fails_or_cancels),
        TEST(cancelled_at_any_moment),  TEST(destroyed_in_the_middle),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
