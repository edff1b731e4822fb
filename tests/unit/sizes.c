/*
 * Every public struct that says how large it is, with sizes that it cannot have: never more is read or
 * written than there is. Each struct lies at the end of its memory, where AddressSanitizer sees the
 * first byte behind it.
 */
#include "support.h"

static struct muster *m;
static struct muster_kernel *kernel;
static struct muster_job *job, *pipeline_job;
static struct muster_file *file;
static muster_device device;
static muster_stream stream;
static muster_block block;

static muster_status nothing(void *user)
{
    (void)user;
    return MUSTER_OK;
}

static muster_status write_nothing(void *user, const char *text, size_t bytes)
{
    (void)user, (void)text, (void)bytes;
    return MUSTER_OK;
}

/* One call for each struct; `at` is the struct with nothing set but its size. */

static muster_status with_options(void *at)
{
    struct muster *other;
    muster_status status = muster_open(&other, at, &problem);
    return status == MUSTER_OK ? muster_close(other, &problem) : status;
}

static muster_status with_device_info(void *at)
{
    return muster_device_info(m, device, at, &problem);
}

static muster_status with_device_load(void *at)
{
    return muster_device_load(m, device, at, &problem);
}

static muster_status with_stream_info(void *at)
{
    return muster_stream_resolve(m, stream, at, &problem);
}

static muster_status with_block_info(void *at)
{
    return muster_block_info(m, block, at, &problem);
}

static muster_status with_file_options(void *at)
{
    struct muster_file *other;
    muster_status status = muster_file_read_open(m, "/dev/null", at, &other, &problem);
    if (status == MUSTER_OK)
        muster_file_close(other);
    return status;
}

static muster_status with_file_report(void *at)
{
    return muster_file_report(file, at, &problem);
}

static muster_status with_run_options(void *at)
{
    return muster_for(m, kernel, 1, NULL, 0, at, NULL, &problem);
}

static muster_status with_report_of_for(void *at)
{
    return muster_for(m, kernel, 1, NULL, 0, NULL, at, &problem);
}

static muster_status with_job_desc(void *at)
{
    struct muster_job_desc *desc = at;
    struct muster_job *other;
    if (desc->size >= sizeof *desc) {
        desc->kernel = kernel;
        desc->items = 1;
    }
    muster_status status = muster_start(m, desc, &other, &problem);
    if (status == MUSTER_OK)
        muster_job_destroy(other);
    return status;
}

static muster_status with_progress(void *at)
{
    return muster_job_progress(job, at, &problem);
}

static muster_status with_report(void *at)
{
    return muster_job_report(job, at, &problem);
}

static muster_status with_report_of_wait(void *at)
{
    return muster_job_wait(job, at, &problem);
}

static muster_status with_form(void *at)
{
    struct muster_kernel_form *form = at;
    struct muster_kernel *other;
    if (form->size >= sizeof *form) {
        form->kind = MUSTER_KERNEL_FUNCTION;
        form->function = do_nothing;
    }
    muster_status status = muster_kernel_from(m, "test", form, 1, &other, &problem);
    if (status == MUSTER_OK)
        muster_kernel_destroy(other);
    return status;
}

static muster_status create_pipeline(const struct muster_pipeline_options *options,
                                     struct muster_pipeline **out)
{
    const struct muster_buffer buffers[] = { { "in", MUSTER_HOST, 8, 0, 0, 0 },
                                             { "d", MUSTER_DEVICE, 8, 0, 0, 0 },
                                             { "out", MUSTER_HOST, 8, 0, 0, 0 } };
    const struct muster_stage stages[] = {
        { .name = "up", .stream = "h2d", 1 << 0, 1 << 1, .flags = MUSTER_COPY },
        { .name = "down", .stream = "d2h", 1 << 1, 1 << 2, .flags = MUSTER_COPY },
    };
    return muster_pipeline_create(m, buffers, 3, stages, 2, options, out, &problem);
}

static muster_status with_pipeline_options(void *at)
{
    struct muster_pipeline *pipeline;
    muster_status status = create_pipeline(at, &pipeline);
    if (status == MUSTER_OK)
        muster_pipeline_destroy(pipeline);
    return status;
}

static muster_status with_hints(void *at)
{
    muster_lease lease;
    muster_device chosen;
    muster_status status = muster_pick(m, NULL, at, &lease, &chosen, &problem);
    return status == MUSTER_OK ? muster_lease_release(m, lease, &problem) : status;
}

static muster_status with_decision(void *at)
{
    size_t count;
    return muster_explain(m, at, 1, &count, &problem);
}

static muster_status with_simulation_options(void *at)
{
    static const char text[] = "{\"devices\":[{\"items_per_s\":1e6}],\"job\":{\"items\":1}}";
    struct muster_simulation *simulation;
    muster_status status = muster_simulate(text, sizeof text - 1, at, &simulation, &problem);
    if (status == MUSTER_OK)
        muster_simulation_destroy(simulation);
    return status;
}

static muster_status with_task_desc(void *at)
{
    struct muster_task_desc *desc = at;
    muster_task task;
    if (desc->size >= sizeof *desc)
        desc->fn = nothing;
    muster_status status = muster_submit(m, desc, 1, &task, &problem);
    return status == MUSTER_OK ? muster_wait(m, &task, 1, 60 * SECOND, &problem) : status;
}

static muster_status with_trace_options(void *at)
{
    muster_status status = muster_trace_start(m, at, &problem);
    return status == MUSTER_OK ? muster_trace_stop(m, NULL, &problem) : status;
}

static muster_status with_writer_options(void *at)
{
    struct muster_trace_writer_options *options = at;
    struct muster_trace_writer *writer;
    if (options->size >= sizeof *options)
        options->write = write_nothing;
    muster_status status = muster_trace_writer_create(options, &writer, &problem);
    if (status == MUSTER_OK)
        muster_trace_writer_destroy(writer);
    return status;
}

static muster_status with_counters(void *at)
{
    return muster_counters(m, at, &problem);
}

static muster_status with_kernel_parameter(void *at)
{
    return muster_kernel_parameter(kernel, 0, at, &problem);
}

/* Of these there are several; the first has the size. */

static muster_status with_backend_report(void *at)
{
    struct muster_backend_report reports[16];
    size_t count;
    for (size_t i = 0; i < COUNT_OF(reports); i++)
        reports[i].size = sizeof *reports;
    memcpy(reports, at, sizeof reports->size);
    return muster_backend_list(m, reports, COUNT_OF(reports), &count, &problem);
}

static muster_status with_edge_report(void *at)
{
    struct muster_edge_report reports[64];
    size_t count;
    for (size_t i = 0; i < COUNT_OF(reports); i++)
        reports[i].size = sizeof *reports;
    memcpy(reports, at, sizeof reports->size);
    return muster_job_edges(pipeline_job, reports, COUNT_OF(reports), &count, &problem);
}

static const struct {
    const char *name;
    size_t size;
    muster_status (*call)(void *at);
    bool may_be_older; /* smaller ones are completed */
    bool is_distance;  /* the size is how far apart they lie, too */
} cases[] = {
    { "options", sizeof(struct muster_options), with_options, true, false },
    { "device_info", sizeof(struct muster_device_info), with_device_info, false, false },
    { "device_load", sizeof(struct muster_device_load), with_device_load, false, false },
    { "stream_info", sizeof(struct muster_stream_info), with_stream_info, false, false },
    { "block_info", sizeof(struct muster_block_info), with_block_info, false, false },
    { "file_options", sizeof(struct muster_file_options), with_file_options, true, false },
    { "file_report", sizeof(struct muster_file_report), with_file_report, false, false },
    { "run_options", sizeof(struct muster_run_options), with_run_options, false, false },
    { "report", sizeof(struct muster_report), with_report, false, false },
    { "report of for", sizeof(struct muster_report), with_report_of_for, false, false },
    { "report of wait", sizeof(struct muster_report), with_report_of_wait, false, false },
    { "job_desc", sizeof(struct muster_job_desc), with_job_desc, false, false },
    { "progress", sizeof(struct muster_progress), with_progress, false, false },
    { "kernel_form", sizeof(struct muster_kernel_form), with_form, false, false },
    { "pipeline_options", sizeof(struct muster_pipeline_options), with_pipeline_options, false,
      false },
    { "hints", sizeof(struct muster_hints), with_hints, false, false },
    { "decision", sizeof(struct muster_decision), with_decision, false, false },
    { "simulation_options", sizeof(struct muster_simulation_options), with_simulation_options,
      false, false },
    { "task_desc", sizeof(struct muster_task_desc), with_task_desc, true, true },
    { "trace_options", sizeof(struct muster_trace_options), with_trace_options, false, false },
    { "trace_writer_options", sizeof(struct muster_trace_writer_options), with_writer_options,
      false, false },
    { "counters", sizeof(struct muster_counters), with_counters, false, false },
    { "kernel_parameter", sizeof(struct muster_kernel_parameter), with_kernel_parameter, false,
      false },
    { "backend_report", sizeof(struct muster_backend_report), with_backend_report, false, false },
    { "edge_report", sizeof(struct muster_edge_report), with_edge_report, false, false },
};

/* The struct as its caller has it: of `size` bytes, or of as many as it is if that cannot be. */
static muster_status call(size_t i, size_t size, unsigned char behind)
{
    size_t bytes = size == SIZE_MAX ? cases[i].size : size < sizeof size ? sizeof size : size;
    unsigned char *at = malloc(bytes);
    CHECK(at != NULL);
    memset(at, 0, bytes);
    if (bytes > cases[i].size)
        memset(at + cases[i].size, behind, bytes - cases[i].size);
    memcpy(at, &size, sizeof size);
    muster_status status = cases[i].call(at);
    free(at);
    return status;
}

/* The size was not what it was refused for, if it was. */
static bool is_accepted(muster_status status)
{
    return status == MUSTER_OK || status == MUSTER_E_NOT_SUPPORTED;
}

static void check(size_t i, size_t size, bool is_right, muster_status status)
{
    if (!is_right)
        test_fail(__FILE__, __LINE__, "%s of %zu bytes: %s, %s", cases[i].name, size,
                  muster_status_name(status), problem.text);
}

static void open_all(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "cpu";
    options.cpu_workers = 1;
    m = open_with(options);
    device = find(m, "cpu:0");
    stream = acquire(m, device);
    block = allocate(m, stream, 64);
    kernel = kernel_of(m, do_nothing);
    struct muster_file_options file_options = { .size = sizeof file_options };
    MUST(muster_file_read_open(m, "/dev/null", &file_options, &file, &problem));
    struct muster_job_desc desc = { .size = sizeof desc, .kernel = kernel, .items = 1 };
    MUST(muster_start(m, &desc, &job, &problem));
    MUST(muster_job_wait(job, NULL, &problem));
    static const uint64_t input[1];
    struct muster_job_desc through = { .size = sizeof through, .items = 1, .input = input };
    MUST(create_pipeline(NULL, &through.pipeline));
    MUST(muster_start(m, &through, &pipeline_job, &problem));
    MUST(muster_job_wait(pipeline_job, NULL, &problem));
}

static void close_all(void)
{
    muster_job_destroy(job);
    muster_job_destroy(pipeline_job);
    MUST(muster_close(m, &problem));
}

static void no_size_does_harm(void)
{
    open_all();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        static const size_t small[] = { 0, 1, sizeof(size_t) - 1 };
        for (size_t k = 0; k < COUNT_OF(small); k++)
            check(i, small[k], call(i, small[k], 0) == MUSTER_E_INVALID, MUSTER_OK);
        muster_status status = call(i, cases[i].size - 1, 0);
        bool is_good = cases[i].may_be_older && !cases[i].is_distance;
        check(i, cases[i].size - 1, status == (is_good ? MUSTER_OK : MUSTER_E_INVALID), status);
        status = call(i, cases[i].size, 0);
        check(i, cases[i].size, is_accepted(status), status);
        size_t more = cases[i].size + (cases[i].is_distance ? sizeof(size_t) : 1);
        status = call(i, more, 0);
        check(i, more, is_accepted(status), status);
        status = call(i, SIZE_MAX, 0);
        is_good = cases[i].may_be_older ? status == MUSTER_E_INVALID : is_accepted(status);
        check(i, SIZE_MAX, is_good, status);
    }
    close_all();
}

/* A field of a newer version that is set is refused where such fields are looked for. */
static void a_field_that_is_not_known_is_refused(void)
{
    open_all();
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        if (cases[i].may_be_older) {
            muster_status status = call(i, cases[i].size + sizeof(size_t), 1);
            check(i, cases[i].size + sizeof(size_t), status == MUSTER_E_VERSION, status);
        }
    close_all();
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(no_size_does_harm),
                                         TEST(a_field_that_is_not_known_is_refused) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
