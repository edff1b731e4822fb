/*
 * What programs that let jobs fail have in common: how a job is run, and what must hold afterwards
 * whatever came of it.
 */
#ifndef PIPELINES_OUTCOME_H
#define PIPELINES_OUTCOME_H

#include "machine.h"
#include "shapes.h"

#define WHY_BYTES 160
/* A unit that has not come that far by then makes its device hung. */
static uint64_t unit_ns = 30 * SECOND;

static inline struct shape_run *open_run(struct muster *m, const struct shape *shape)
{
    struct shape_run *run;
    MUST(shape_open(m, shape, SHAPE_ALL_FORMS, MUSTER_SCHEDULE_AUTO, &run, &problem));
    return run;
}

static inline muster_status run_job(struct shape_run *run, struct muster_job_desc *desc,
                                    struct muster_report *report)
{
    *report = full_report();
    run->how.timeout_ns = unit_ns;
    muster_status status = muster_start(run->m, desc, &run->job, &problem);
    if (status != MUSTER_OK)
        return status;
    status = muster_job_wait(run->job, report, &problem);
    shape_release_kept(run);
    muster_job_destroy(run->job);
    return status;
}

#define CHECK_PREFIX(run, report) check_prefix(__LINE__, run, report)
static inline void check_prefix(int line, const struct shape_run *run,
                                const struct muster_report *report)
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
static inline void check_usable(struct shape_run *run)
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

#endif
