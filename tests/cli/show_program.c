/*
 * A command that runs jobs and shows them as `muster map` and `muster scan` do, for show.py: either
 * items that only take time, or a copy of a file in items of 64 bytes, or, with the word "pipeline",
 * items that are copied to a device and back.
 */
#include "command.h"
#include "message.h"
#include "show.h"

#include <muster/muster.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define ITEM_BYTES 64
/* What the picture shows is longer than a few units. */
#define UNITS_MOST 400

enum { ITEMS, JOBS, IN, OUT, SHOW };

static const struct option options[] = {
    [ITEMS] = { .name = "items", .kind = OPTION_NUMBER, .value = "N", .help = "in each job" },
    [JOBS] = { .name = "jobs", .kind = OPTION_NUMBER, .value = "N", .help = "one after the other" },
    [IN] = { .name = "in", .kind = OPTION_TEXT, .value = "FILE", .help = "what is copied" },
    [OUT] = { .name = "out", .kind = OPTION_TEXT, .value = "FILE", .help = "where to" },
    SHOW_OPTION_ROWS
};

static const struct command command = { .name = "show",
                                        .argument = "pipeline",
                                        .options = options,
                                        .option_count = sizeof options / sizeof *options };

struct item {
    char bytes[ITEM_BYTES];
};

static muster_status pass_time(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin;
    (void)end;
    (void)args;
    return MUSTER_OK;
}

static muster_status copy(uint64_t begin, uint64_t end, void *const *args)
{
    const struct item *from = *(const struct item *const *)args[0];
    struct item *to = *(struct item *const *)args[1];
    memcpy(to + begin, from + begin, (end - begin) * sizeof *from);
    return MUSTER_OK;
}

/* Up, a kernel, down, each on a stream of its own; with stages in the trace. */
static muster_status make_pipeline(struct muster *m, struct muster_pipeline **out,
                                   struct muster_error *err)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = copy };
    const struct muster_buffer buffers[] = {
        { sizeof *buffers, "in", MUSTER_HOST, ITEM_BYTES, 0, 2, MUSTER_INPUT },
        { sizeof *buffers, "d_in", MUSTER_DEVICE, ITEM_BYTES, 0, 2, 0 },
        { sizeof *buffers, "d_out", MUSTER_DEVICE, ITEM_BYTES, 0, 2, 0 },
        { sizeof *buffers, "out", MUSTER_HOST, ITEM_BYTES, 0, 2, MUSTER_OUTPUT },
    };
    struct muster_stage stages[] = {
        { sizeof *stages, "up", "up", .reads = 1, .writes = 2, .flags = MUSTER_COPY },
        { sizeof *stages, "<work> & more", "work", .reads = 2, .writes = 4 },
        { sizeof *stages, "down", "down", .reads = 4, .writes = 8, .flags = MUSTER_COPY },
    };
    muster_status status = muster_kernel_from(m, "copy", &form, 1, &stages[1].kernel, err);
    if (status == MUSTER_OK)
        status = muster_pipeline_create(m, buffers, 4, stages, 3, NULL, out, err);
    return status;
}

static int64_t supply_zeros(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    (void)user;
    (void)begin;
    memset(to, 0, bytes);
    return (int64_t)items;
}

static muster_status drop(void *user, const struct muster_result *result)
{
    (void)user;
    (void)result;
    return MUSTER_OK;
}

struct files {
    struct muster_file *in, *out; /* NULL: time is passed */
    struct muster_pipeline *pipeline;
};

static muster_status run_job(struct muster *m, struct show *show, uint64_t items,
                             const struct files *files, struct muster_error *err)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = files->in ? copy : pass_time };
    const struct muster_arg args[] = { MUSTER_SOURCE(struct item),
                                       { MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = ITEM_BYTES } };
    struct muster_job_desc desc = { .size = sizeof desc, .items = items };
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    struct muster_job *job;
    if (files->in) {
        desc.args = args;
        desc.arg_count = 2;
        desc.source = muster_file_source;
        desc.source_user = files->in;
        desc.sink = muster_file_sink;
        desc.sink_user = files->out;
    } else if (files->pipeline) {
        desc.pipeline = files->pipeline;
        desc.source = supply_zeros;
        desc.sink = drop;
        how.account = 1;
    }
    if (!files->in)
        how.unit_items = items / UNITS_MOST + 1;
    muster_status status = MUSTER_OK;
    if (!files->pipeline)
        status = muster_kernel_from(m, "test", &form, 1, &desc.kernel, err);
    if (status == MUSTER_OK)
        status = muster_start(m, &desc, &job, err);
    if (status == MUSTER_OK) {
        show_job(show, job);
        status = muster_job_wait(job, NULL, err);
        show_job_end(show);
        muster_job_destroy(job);
    }
    return status;
}

static muster_status open_files(struct muster *m, const struct option_value *values,
                                struct files *files, uint64_t *items, struct muster_error *err)
{
    const struct muster_file_options how = { .size = sizeof how, .item_bytes = ITEM_BYTES };
    if (!values[IN].given)
        return MUSTER_OK;
    muster_status status = muster_file_read_open(m, values[IN].text, &how, &files->in, err);
    if (status == MUSTER_OK)
        status = muster_file_write_open(m, values[OUT].text, &how, &files->out, err);
    if (status == MUSTER_OK)
        status = muster_file_items(files->in, items, err);
    return status;
}

static muster_status run_all(struct muster *m, struct show *show, uint64_t items, uint64_t jobs,
                             const struct files *files, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    for (uint64_t i = 0; i < jobs && status == MUSTER_OK; i++)
        status = run_job(m, show, items, files, err);
    if (status == MUSTER_OK && files->out) {
        show_note(show, "writing to disk");
        status = muster_file_finish(files->out, err);
    }
    show_file(show, "input", files->in);
    show_file(show, "output", files->out);
    return status;
}

static enum exit_code run(const struct option_value *values, bool is_pipeline, struct output *out)
{
    const struct muster_options how = MUSTER_OPTIONS_INIT;
    const char *taken[] = { values[IN].text, values[OUT].text };
    uint64_t jobs = values[JOBS].given ? values[JOBS].number : 1;
    uint64_t items = values[ITEMS].number;
    struct files files = { NULL, NULL, NULL };
    struct muster_error error;
    struct muster *m;
    if (muster_open(&m, &how, &error) != MUSTER_OK) {
        message_library(NULL, &error);
        return EXIT_FAILED;
    }
    muster_status status = open_files(m, values, &files, &items, &error);
    if (status == MUSTER_OK && is_pipeline)
        status = make_pipeline(m, &files.pipeline, &error);
    struct show_options shown = {
        .command = "show",
        .title = values[IN].given ? values[IN].text : "time over nothing",
        .total = items == MUSTER_ITEMS_UNKNOWN ? SHOW_UNKNOWN
                 : values[IN].given            ? items * ITEM_BYTES
                                               : items * jobs,
        .item_bytes = values[IN].given ? ITEM_BYTES : 0,
        .stdout_is_data = values[OUT].given && strcmp(values[OUT].text, "-") == 0,
        .taken = taken,
        .taken_count = 2,
    };
    show_read_options(&values[SHOW], &shown);
    struct show *show = status == MUSTER_OK ? show_begin(m, &shown) : NULL;
    bool is_written = show != NULL;
    if (show) {
        status = run_all(m, show, items, jobs, &files, &error);
        is_written = show_end(show, status, out);
    }
    if (status != MUSTER_OK)
        message_library(NULL, &error);
    muster_pipeline_destroy(files.pipeline);
    muster_close(m, NULL);
    return status == MUSTER_OK && is_written ? EXIT_DONE : EXIT_FAILED;
}

int main(int argc, char **argv)
{
    static struct output out;
    struct option_value values[OPTIONS_MAX];
    const char *argument;
    signal(SIGPIPE, SIG_IGN);
    output_init(&out, STDOUT_FILENO);
    if (option_parse(&command, argv + 1, (size_t)argc - 1, values, &argument) != OPTION_RUN)
        return EXIT_USAGE;
    enum exit_code code = run(values, argument != NULL, &out);
    return output_finish(&out) ? (int)code : EXIT_FAILED;
}
