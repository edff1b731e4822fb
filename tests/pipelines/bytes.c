/*
 * pipeline_bytes --backend NAME [--shape NAME] [CASE...]
 *
 * Every shape gives the bytes of its serial run, time and again, from a source and from an array, and
 * the report of its edges is as it should be: nothing was recorded that nobody waited for. Exits 77 if
 * the machine has no device of that backend.
 */
#include "machine.h"
#include "shapes.h"

/* From a source and again from an array: eight in all. */
#define REPETITIONS 4
#define WHY_BYTES 160

static const char *backend = "cpu";
static const char *only; /* shape; NULL: all */

static void check_edges(const struct shape *shape, struct muster_job *job)
{
    struct muster_edge_report edges[MUSTER_EDGES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < COUNT_OF(edges); i++)
        edges[i].size = sizeof *edges;
    MUST(muster_job_edges(job, edges, COUNT_OF(edges), &count, &problem));
    CHECK(count <= COUNT_OF(edges));
    for (size_t i = 0; i < count; i++) {
        const struct muster_edge_report *edge = &edges[i];
        if (edge->is_dead || edge->records != edge->expected_records ||
            edge->waits != edge->expected_waits)
            test_fail(__FILE__, __LINE__,
                      "%s: edge %s -> %s (%s): %llu records of %llu, %llu waits of %llu%s",
                      shape->name, edge->from, edge->to, edge->buffer,
                      (unsigned long long)edge->records, (unsigned long long)edge->expected_records,
                      (unsigned long long)edge->waits, (unsigned long long)edge->expected_waits,
                      edge->is_dead ? ", dead" : "");
    }
}

static void check_calls(const struct shape_run *run)
{
    for (uint32_t i = 0; i < shape_stage_count(run->shape); i++) {
        const struct shape_stage *stage = &run->shape->stages[i];
        if (!stage->run)
            continue;
        uint32_t units = shape_units(run->shape), every = stage->every > 1 ? stage->every : 1;
        if (run->units_seen[i] < units && !run->shape->merges)
            test_fail(__FILE__, __LINE__, "%s: stage %s was given %u units of %u", run->shape->name,
                      stage->name, run->units_seen[i], units);
        CHECK(run->calls[i] <= (units + every - 1) / every);
        CHECK(run->shape->merges || run->calls[i] == (units + every - 1) / every);
    }
}

static void run_once(struct shape_run *run, enum shape_input input)
{
    char why[WHY_BYTES];
    struct muster_report report = { .size = sizeof report };
    struct muster_job_desc desc = shape_job(run, input, NULL);
    struct muster_job *job;
    MUST(muster_start(run->m, &desc, &job, &problem));
    muster_status status = muster_job_wait(job, &report, &problem);
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s: %s: %s", run->shape->name, muster_status_name(status),
                  problem.text);
    shape_release_kept(run);
    if (!shape_is_right(run, why, sizeof why))
        test_fail(__FILE__, __LINE__, "%s: %s", run->shape->name, why);
    CHECK_EQUAL(run->shape->items, report.delivered);
    CHECK(report.schedule != MUSTER_SCHEDULE_AUTO);
    CHECK(report.schedule_reason[0]);
    check_edges(run->shape, job);
    /* Where there are several devices a straggler may be run twice. */
    if (report.device_count == 1)
        check_calls(run);
    muster_job_destroy(job);
}

static void run_all(enum shape_forms forms, enum muster_schedule schedule, enum shape_input input,
                    unsigned repetitions)
{
    struct muster *m = machine_open(backend);
    uint32_t run_count = 0;
    for (size_t i = 0; i < shape_count; i++) {
        struct shape_run *run;
        if (only && strcmp(only, shapes[i]->name) != 0)
            continue;
        muster_status status = shape_open(m, shapes[i], forms, schedule, &run, &problem);
        /* Where no host stage holds up the next unit there is nothing to drain before it. */
        if (status == MUSTER_E_ORDER && schedule == MUSTER_SCHEDULE_DRAIN_BEFORE_KICK)
            continue;
        if (status != MUSTER_OK)
            test_fail(__FILE__, __LINE__, "%s: %s", shapes[i]->name, problem.text);
        run_count++;
        for (unsigned r = 0; r < repetitions; r++)
            run_once(run, input);
        shape_close(run);
    }
    CHECK(run_count > 0 || only);
    MUST(muster_close(m, &problem));
}

/* PoCL takes its time where ThreadSanitizer watches all of it. */
static unsigned repetitions(void)
{
    bool is_pocl = strcmp(backend, "opencl") == 0;
    return test_repetitions(is_pocl ? TEST_BY_SANITIZER(REPETITIONS, 2, 1) : REPETITIONS);
}

static void every_shape_from_a_source(void)
{
    run_all(SHAPE_ALL_FORMS, MUSTER_SCHEDULE_AUTO, SHAPE_FROM_SOURCE, repetitions());
}

static void every_shape_from_an_array(void)
{
    run_all(SHAPE_ALL_FORMS, MUSTER_SCHEDULE_AUTO, SHAPE_FROM_ARRAY, repetitions());
}

/* Elsewhere it is the only form that there is. */
static void every_shape_with_portable_kernels(void)
{
    if (strcmp(backend, "cpu") != 0 && strcmp(backend, "sim") != 0)
        return;
    run_all(SHAPE_PORTABLE_ONLY, MUSTER_SCHEDULE_AUTO, SHAPE_FROM_ARRAY, 1);
}

static void every_shape_one_unit_at_a_time(void)
{
    run_all(SHAPE_ALL_FORMS, MUSTER_SCHEDULE_DRAIN_AFTER_KICK, SHAPE_FROM_SOURCE, 1);
}

static void every_shape_that_drains_before_it_kicks(void)
{
    run_all(SHAPE_ALL_FORMS, MUSTER_SCHEDULE_DRAIN_BEFORE_KICK, SHAPE_FROM_ARRAY, 1);
}

/* Units of Muster's own choice, an output array besides, and no sink. */
static void units_of_any_size(void)
{
    struct muster *m = machine_open(backend);
    struct shape_run *run;
    MUST(shape_open(m, shape_find("depth_3"), SHAPE_ALL_FORMS, MUSTER_SCHEDULE_AUTO, &run,
                    &problem));
    static const uint64_t sizes[] = { 0, 1, 2, 1000, 1000000 };
    uint64_t items = run->shape->items;
    uint32_t *out = malloc(items * sizeof *out);
    CHECK(out);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct muster_job_desc desc = shape_job(run, SHAPE_FROM_ARRAY, NULL);
        struct muster_job *job;
        memset(out, 0xee, items * sizeof *out);
        desc.sink = NULL;
        desc.output = out;
        run->how.unit_items = sizes[i];
        MUST(muster_start(m, &desc, &job, &problem));
        MUST(muster_job_wait(job, NULL, &problem));
        muster_job_destroy(job);
        CHECK(memcmp(out, run->expected.bytes[0], items * sizeof *out) == 0);
    }
    free(out);
    shape_close(run);
    MUST(muster_close(m, &problem));
}

/* As many units at a time as the job says, fewer or more than there are slots. */
static void any_depth(void)
{
    static const char *const names[] = { "late", "carry_host", "fan_in", "batch", "host_only" };
    static const uint32_t depths[] = { 1, 2, 3, 5, 16, 64 };
    struct muster *m = machine_open(backend);
    for (size_t i = 0; i < COUNT_OF(names) * COUNT_OF(depths); i++) {
        struct shape_run *run;
        struct muster_job *job;
        char why[WHY_BYTES];
        const struct shape *shape = shape_find(names[i % COUNT_OF(names)]);
        MUST(shape_open(m, shape, SHAPE_ALL_FORMS, MUSTER_SCHEDULE_AUTO, &run, &problem));
        struct muster_job_desc desc = shape_job(run, (enum shape_input)(i % 2), NULL);
        run->how.depth = depths[i / COUNT_OF(names)];
        MUST(muster_start(m, &desc, &job, &problem));
        MUST(muster_job_wait(job, NULL, &problem));
        muster_job_destroy(job);
        if (!shape_is_right(run, why, sizeof why))
            test_fail(__FILE__, __LINE__, "%s, %u deep: %s", shape->name,
                      depths[i / COUNT_OF(names)], why);
        shape_close(run);
    }
    MUST(muster_close(m, &problem));
}

/* The source says when it ends. */
static void a_number_of_items_that_is_not_known(void)
{
    struct muster *m = machine_open(backend);
    static const char *const names[] = { "depth_2", "late", "carry_host", "batch", "small" };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct shape_run *run;
        struct muster_job *job;
        char why[WHY_BYTES];
        MUST(shape_open(m, shape_find(names[i]), SHAPE_ALL_FORMS, MUSTER_SCHEDULE_AUTO, &run,
                        &problem));
        struct muster_job_desc desc = shape_job(run, SHAPE_FROM_SOURCE, NULL);
        desc.items = MUSTER_ITEMS_UNKNOWN;
        MUST(muster_start(m, &desc, &job, &problem));
        MUST(muster_job_wait(job, NULL, &problem));
        muster_job_destroy(job);
        if (!shape_is_right(run, why, sizeof why))
            test_fail(__FILE__, __LINE__, "%s: %s", names[i], why);
        shape_close(run);
    }
    MUST(muster_close(m, &problem));
}

static void no_items_at_all(void)
{
    struct muster *m = machine_open(backend);
    struct shape_run *run;
    struct muster_job *job;
    MUST(shape_open(m, shape_find("late"), SHAPE_ALL_FORMS, MUSTER_SCHEDULE_AUTO, &run, &problem));
    struct muster_job_desc desc = shape_job(run, SHAPE_FROM_ARRAY, NULL);
    desc.items = 0;
    MUST(muster_start(m, &desc, &job, &problem));
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    CHECK_EQUAL(0, run->got.units);
    shape_close(run);
    MUST(muster_close(m, &problem));
}

/* What a job may not say beside its pipeline. */
static void jobs_that_do_not_fit_their_pipeline(void)
{
    struct muster *m = machine_open(backend);
    struct shape_run *run, *made;
    struct muster_job *job;
    MUST(shape_open(m, shape_find("depth_2"), SHAPE_ALL_FORMS, MUSTER_SCHEDULE_AUTO, &run,
                    &problem));
    MUST(shape_open(m, shape_find("generator"), SHAPE_ALL_FORMS, MUSTER_SCHEDULE_AUTO, &made,
                    &problem));
    struct muster_job_desc desc = shape_job(run, SHAPE_FROM_ARRAY, NULL);
    desc.kernel = run->kernels[SHAPE_MIX];
    CHECK_STATUS(MUSTER_E_INVALID, muster_start(m, &desc, &job, &problem));
    CHECK_CONTAINS("kernel", problem.text);
    desc = shape_job(run, SHAPE_FROM_SOURCE, NULL);
    desc.input = run->in;
    CHECK_STATUS(MUSTER_E_INVALID, muster_start(m, &desc, &job, &problem));
    CHECK_CONTAINS("source", problem.text);
    desc = shape_job(run, SHAPE_FROM_ARRAY, NULL);
    desc.input = NULL;
    CHECK_STATUS(MUSTER_E_INVALID, muster_start(m, &desc, &job, &problem));
    CHECK_CONTAINS("input", problem.text);
    desc = shape_job(made, SHAPE_FROM_ARRAY, NULL);
    desc.input = run->in;
    CHECK_STATUS(MUSTER_E_INVALID, muster_start(m, &desc, &job, &problem));
    CHECK_CONTAINS("no input", problem.text);
    desc = shape_job(run, SHAPE_FROM_ARRAY, NULL);
    desc.items = UINT64_MAX / 2;
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_start(m, &desc, &job, &problem));
    shape_close(run);
    shape_close(made);
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(every_shape_from_a_source),
        TEST(every_shape_from_an_array),
        TEST(every_shape_with_portable_kernels),
        TEST(every_shape_one_unit_at_a_time),
        TEST(every_shape_that_drains_before_it_kicks),
        TEST(units_of_any_size),
        TEST(any_depth),
        TEST(a_number_of_items_that_is_not_known),
        TEST(no_items_at_all),
        TEST(jobs_that_do_not_fit_their_pipeline),
    };
    const char *told = take_option(&argc, argv, "--backend");
    backend = told ? told : backend;
    only = take_option(&argc, argv, "--shape");
    if (only && !shape_find(only))
        return printf("no shape is called %s\n", only), 2;
    return machine_has(backend) ? test_main(argc, argv, tests, COUNT_OF(tests)) : EXIT_SKIPPED;
}
