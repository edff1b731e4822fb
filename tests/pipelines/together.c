/*
 * Pipelines beside each other: two jobs on one device, one pipeline in two jobs, and one job on
 * several devices with one source and one sink in order.
 */
#include "machine.h"
#include "shapes.h"

#define WHY_BYTES 160

static struct muster *open_sim_devices(const char *sim, const char *devices)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = devices;
    options.sim = sim;
    options.cpu_workers = 6;
    return open_with(options);
}

static struct shape_run *open_run(struct muster *m, const char *name)
{
    struct shape_run *run;
    MUST(shape_open(m, shape_find(name), SHAPE_ALL_FORMS, MUSTER_SCHEDULE_AUTO, &run, &problem));
    return run;
}

static struct muster_job *start(struct shape_run *run, enum shape_input input)
{
    struct muster_job_desc desc = shape_job(run, input, NULL);
    struct muster_job *job;
    MUST(muster_start(run->m, &desc, &job, &problem));
    return job;
}

static struct muster_report end(struct shape_run *run, struct muster_job *job)
{
    char why[WHY_BYTES];
    struct muster_report report = full_report();
    MUST(muster_job_wait(job, &report, &problem));
    shape_release_kept(run);
    muster_job_destroy(job);
    if (!shape_is_right(run, why, sizeof why))
        test_fail(__FILE__, __LINE__, "%s: %s", run->shape->name, why);
    return report;
}

static void two_jobs_on_one_device(void)
{
    static const char *const pairs[][2] = { { "depth_4", "late" },
                                            { "carry_host", "fan_in" },
                                            { "batch", "carry_device" },
                                            { "five_streams", "small" },
                                            { "host_only", "two_outputs" } };
    static const char *const backends[] = { "cpu", "sim" };
    for (size_t b = 0; b < COUNT_OF(backends); b++) {
        struct muster *m = machine_open(backends[b]);
        for (size_t i = 0; i < COUNT_OF(pairs); i++)
            for (unsigned r = 0; r < test_repetitions(3); r++) {
                struct shape_run *one = open_run(m, pairs[i][0]), *other = open_run(m, pairs[i][1]);
                struct muster_job *first = start(one, SHAPE_FROM_SOURCE);
                struct muster_job *second = start(other, SHAPE_FROM_ARRAY);
                end(other, second);
                end(one, first);
                shape_close(one);
                shape_close(other);
            }
        MUST(muster_close(m, &problem));
    }
}

/* The jobs share the pipeline, not its memory. */
static void one_pipeline_in_three_jobs(void)
{
    struct muster *m = machine_open("cpu");
    struct shape_run *runs[3];
    struct muster_job *jobs[3];
    for (unsigned r = 0; r < test_repetitions(5); r++) {
        for (size_t i = 0; i < COUNT_OF(runs); i++) {
            runs[i] = open_run(m, "depth_3");
            struct muster_job_desc desc = shape_job(runs[i], (enum shape_input)(i % 2), NULL);
            desc.pipeline = runs[0]->pipeline;
            MUST(muster_start(m, &desc, &jobs[i], &problem));
        }
        for (size_t i = 0; i < COUNT_OF(runs); i++)
            end(runs[i], jobs[i]);
        for (size_t i = 0; i < COUNT_OF(runs); i++)
            shape_close(runs[i]);
    }
    MUST(muster_close(m, &problem));
}

#define SIM_THREE                                                                                  \
    "[{\"count\": 2, \"items_per_s\": 1e6, \"launch_ns\": 20000, \"h2d_bytes_per_s\": 2e7},"       \
    " {\"items_per_s\": 4e5, \"launch_ns\": 20000, \"d2h_bytes_per_s\": 2e7}]"

static unsigned devices_at_work(const struct muster_report *report)
{
    unsigned count = 0;
    for (size_t i = 0; i < report->device_count; i++)
        count += report->devices[i].units > 0;
    return count;
}

static void several_devices_and_one_sink(void)
{
    struct muster *m = open_sim_devices(SIM_THREE, "sim");
    unsigned most = 0;
    for (size_t i = 0; i < shape_count; i++)
        for (unsigned r = 0; r < test_repetitions(2); r++) {
            struct shape_run *run = open_run(m, shapes[i]->name);
            struct muster_report report = end(run, start(run, (enum shape_input)(r % 2)));
            unsigned at_work = devices_at_work(&report);
            most = at_work > most ? at_work : most;
            /* What passes from unit to unit does not pass from device to device. */
            if (shapes[i]->carries && shapes[i]->added.distance == 0)
                CHECK_EQUAL(1, at_work);
            shape_close(run);
        }
    CHECK_EQUAL(3, most);
    MUST(muster_close(m, &problem));
}

static void devices_of_all_kinds(void)
{
    struct muster *m = open_sim_devices(SIM_THREE, "cpu,sim");
    static const char *const names[] = { "depth_2", "late_twice", "batch", "fan_in", "host_only" };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct shape_run *run = open_run(m, names[i]);
        end(run, start(run, SHAPE_FROM_SOURCE));
        shape_close(run);
    }
    MUST(muster_close(m, &problem));
}

/* Streams are limited: a job that does not get its own is refused, and the others go on. */
static void streams_that_do_not_suffice(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "cpu";
    options.cpu_workers = 4;
    options.streams_max = 6;
    struct muster *m = open_with(options);
    struct shape_run *one = open_run(m, "five_streams"), *other = open_run(m, "five_streams");
    struct muster_job *first = start(one, SHAPE_FROM_SOURCE), *second = NULL;
    struct muster_job_desc desc = shape_job(other, SHAPE_FROM_SOURCE, NULL);
    muster_status status = muster_start(m, &desc, &second, &problem);
    if (status == MUSTER_OK)
        end(other, second);
    else
        CHECK(problem.text[0]);
    end(one, first);
    end(other, start(other, SHAPE_FROM_SOURCE));
    shape_close(one);
    shape_close(other);
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(two_jobs_on_one_device),       TEST(one_pipeline_in_three_jobs),
        TEST(several_devices_and_one_sink), TEST(devices_of_all_kinds),
        TEST(streams_that_do_not_suffice),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
