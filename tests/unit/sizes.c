/*
 * Every public struct that says how large it is (docs/abi.md), with sizes that it can have and sizes
 * that it cannot: never more is read or written than there is. Each struct lies at the end of its
 * memory, where AddressSanitizer sees the first byte after it. The table has a row for each struct of
 * base/layout.h, which scripts/check-structs compares with the headers.
 */
#include "support.h"

#include "backend/cpu/cpu.h"
#include "base/layout.h"
#include "base/random.h"
#include "cluster/submitter.h"

#include <unistd.h>

static struct muster *m;
static struct muster_kernel *kernel, *portable, *summing;
static struct muster_resident *lane;
static struct muster_job *job, *pipeline_job;
static struct muster_file *file;
static bool layouts_want_jobs; /* of the cluster's servers; workers would run them */
static muster_device device;
static muster_stream stream;
static muster_block blocks[2];

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

static int choose_first(void *state, const struct muster_hints *hints,
                        const struct muster_candidate *const *candidates, size_t count)
{
    (void)state, (void)hints, (void)candidates, (void)count;
    return 0;
}

static void *take(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void give(void *user, void *memory, size_t bytes)
{
    (void)user, (void)bytes;
    free(memory);
}

/*
 * One call for each struct. `at` is `count` structs with nothing set but their sizes, of which the
 * first is looked at before anything of them is written: they may be too small.
 */

/* Whether all is there that the calls below set, which is of the first layout. */
static bool is_whole(enum layout_number number, const void *at)
{
    size_t size = layout_size(at);
    return size >= layouts[number].first && size <= LAYOUT_BYTES_MAX && size % sizeof size == 0;
}

/* Sets all but the size to what `from` has, as far as there is room. */
static void set(enum layout_number number, void *at, const void *from)
{
    size_t size = layout_size(at), known = layouts[number].known;
    memcpy((char *)at + sizeof size, (const char *)from + sizeof size,
           (size < known ? size : known) - sizeof size);
}

/* Struct i of an array that is whole. */
static void *element(void *at, size_t i)
{
    return (char *)at + i * layout_size(at);
}

static muster_status open_with_options(const struct muster_options *options)
{
    struct muster *other;
    muster_status status = muster_open(&other, options, &problem);
    return status == MUSTER_OK ? muster_close(other, &problem) : status;
}

static muster_status with_options(void *at, size_t count)
{
    (void)count;
    return open_with_options(at);
}

static muster_status with_allocator(void *at, size_t count)
{
    struct muster_allocator *allocator = at;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    (void)count;
    if (is_whole(LAYOUT_muster_allocator, at)) {
        allocator->allocate = take;
        allocator->release = give;
    }
    options.allocator = at;
    return open_with_options(&options);
}

static muster_status with_backend(void *at, size_t count)
{
    static const struct muster_backend *found[1];
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster_backend *backend = at;
    (void)count;
    /* What stands before the functions has been there in every version. */
    if (layout_size(at) >= offsetof(struct muster_backend, open) &&
        layout_size(at) <= LAYOUT_BYTES_MAX) {
        set(LAYOUT_muster_backend, at, &backend_cpu);
        backend->name = "mine";
    }
    found[0] = backend;
    options.backends = found;
    options.backend_count = 1;
    muster_status status = open_with_options(&options);
    /* A table that is too small to say its version is of another one. */
    bool is_other =
        status == MUSTER_E_VERSION && (layout_size(at) < offsetof(struct muster_backend, open) ||
                                       layout_size(at) > LAYOUT_BYTES_MAX);
    if (is_other)
        muster_error_fill(&problem, MUSTER_E_INVALID, 0, "set `size`", "%s", "");
    return is_other ? MUSTER_E_INVALID : status;
}

static muster_status with_device_info(void *at, size_t count)
{
    (void)count;
    return muster_device_info(m, device, at, &problem);
}

static muster_status with_device_load(void *at, size_t count)
{
    (void)count;
    return muster_device_load(m, device, at, &problem);
}

static muster_status with_backend_report(void *at, size_t count)
{
    return muster_backend_list(m, at, count, &(size_t){ 0 }, &problem);
}

static muster_status with_hints(void *at, size_t count)
{
    muster_lease lease;
    muster_device chosen;
    (void)count;
    muster_status status = muster_pick(m, NULL, at, &lease, &chosen, &problem);
    return status == MUSTER_OK ? muster_lease_release(m, lease, &problem) : status;
}

static muster_status with_policy(void *at, size_t count)
{
    struct muster_policy *policy = at;
    muster_lease lease;
    muster_device chosen;
    (void)count;
    if (is_whole(LAYOUT_muster_policy, at)) {
        policy->name = "first";
        policy->choose = choose_first;
    }
    muster_status status = muster_pick(m, at, NULL, &lease, &chosen, &problem);
    return status == MUSTER_OK ? muster_lease_release(m, lease, &problem) : status;
}

static muster_status with_decision(void *at, size_t count)
{
    return muster_explain(m, at, count, &(size_t){ 0 }, &problem);
}

static muster_status with_stream_info(void *at, size_t count)
{
    (void)count;
    return muster_stream_resolve(m, stream, at, &problem);
}

static muster_status with_use(void *at, size_t count)
{
    for (size_t i = 0; i < count && is_whole(LAYOUT_muster_use, at); i++) {
        struct muster_use *use = element(at, i);
        use->block = blocks[i];
        use->access = MUSTER_READS;
    }
    muster_status status = muster_block_begin(m, stream, at, count, &problem);
    return status == MUSTER_OK ? muster_block_end(m, stream, at, count, &problem) : status;
}

static muster_status with_block_info(void *at, size_t count)
{
    (void)count;
    return muster_block_info(m, blocks[0], at, &problem);
}

static muster_status with_form(void *at, size_t count)
{
    struct muster_kernel *other;
    for (size_t i = 0; i < count && is_whole(LAYOUT_muster_kernel_form, at); i++) {
        struct muster_kernel_form *form = element(at, i);
        form->kind = MUSTER_KERNEL_FUNCTION;
        form->function = do_nothing;
    }
    muster_status status = muster_kernel_from(m, "test", at, count, &other, &problem);
    if (status == MUSTER_OK)
        muster_kernel_destroy(other);
    return status;
}

static muster_status with_operand(void *at, size_t count)
{
    for (size_t i = 0; i < count && is_whole(LAYOUT_muster_operand, at); i++) {
        struct muster_operand *operand = element(at, i);
        operand->block = blocks[i];
        operand->access = MUSTER_READS;
    }
    muster_status status = muster_launch(m, stream, kernel, 0, 1, at, count, NULL, &problem);
    return status == MUSTER_OK ? muster_stream_wait(m, stream, 60 * SECOND, &problem) : status;
}

static muster_status with_kernel_parameter(void *at, size_t count)
{
    (void)count;
    return muster_kernel_parameter(portable, 0, at, &problem);
}

static muster_status with_partial(void *at, size_t count)
{
    (void)count;
    return muster_kernel_partial(summing, at, &problem);
}

static muster_status with_partial_field(void *at, size_t count)
{
    (void)count;
    return muster_kernel_partial_field(summing, 0, at, &problem);
}

/* What the pipelines here are made of, unless they are given something else. */

static const struct muster_buffer good_buffers[] = {
    { sizeof *good_buffers, "in", MUSTER_HOST, 8, 0, 0, MUSTER_INPUT },
    { sizeof *good_buffers, "d", MUSTER_DEVICE, 8, 0, 0, 0 },
    { sizeof *good_buffers, "out", MUSTER_HOST, 8, 0, 0, MUSTER_OUTPUT }
};
static const struct muster_stage good_stages[] = {
    { sizeof *good_stages, "up", "h2d", 1 << 0, 1 << 1, .flags = MUSTER_COPY },
    { sizeof *good_stages, "down", "d2h", 1 << 1, 1 << 2, .flags = MUSTER_COPY },
};

static muster_status with_pipeline(const void *buffers, const void *stages, const void *options)
{
    struct muster_pipeline *pipeline;
    muster_status status =
        muster_pipeline_create(m, buffers, 3, stages, 2, options, &pipeline, &problem);
    if (status == MUSTER_OK)
        muster_pipeline_destroy(pipeline);
    return status;
}

static muster_status with_buffer(void *at, size_t count)
{
    for (size_t i = 0; i < count && is_whole(LAYOUT_muster_buffer, at); i++)
        set(LAYOUT_muster_buffer, element(at, i), &good_buffers[i]);
    return with_pipeline(at, good_stages, NULL);
}

static muster_status with_stage(void *at, size_t count)
{
    for (size_t i = 0; i < count && is_whole(LAYOUT_muster_stage, at); i++)
        set(LAYOUT_muster_stage, element(at, i), &good_stages[i]);
    return with_pipeline(good_buffers, at, NULL);
}

static muster_status with_edge(void *at, size_t count)
{
    const struct muster_pipeline_options options = { .size = sizeof options,
                                                     .edges = at,
                                                     .edge_count = count };
    for (size_t i = 0; i < count && is_whole(LAYOUT_muster_edge, at); i++) {
        struct muster_edge *edge = element(at, i);
        edge->to = 1;
        edge->distance = (uint32_t)i;
    }
    return with_pipeline(good_buffers, good_stages, &options);
}

static muster_status with_pipeline_options(void *at, size_t count)
{
    (void)count;
    return with_pipeline(good_buffers, good_stages, at);
}

static muster_status with_edge_report(void *at, size_t count)
{
    return muster_job_edges(pipeline_job, at, count, &(size_t){ 0 }, &problem);
}

/* Within a stage of a job of one unit. */

static struct {
    enum layout_number number;
    void *at;
    size_t count;
    muster_status status;
} in_stage;

static muster_status call_in_stage(struct muster_unit *unit, void *user)
{
    (void)user;
    if (in_stage.number == LAYOUT_muster_view) {
        in_stage.status = muster_unit_view(unit, 1, in_stage.at, &problem);
        return MUSTER_OK;
    }
    for (size_t i = 0; i < in_stage.count && is_whole(LAYOUT_muster_unit_arg, in_stage.at); i++)
        ((struct muster_unit_arg *)element(in_stage.at, i))->buffer = 1;
    in_stage.status = muster_unit_launch(unit, kernel, 1, in_stage.at, in_stage.count, &problem);
    return MUSTER_OK;
}

static muster_status with_stage_call(enum layout_number number, void *at, size_t count)
{
    static const uint64_t input[1];
    const struct muster_stage stages[] = {
        good_stages[0],
        { sizeof *stages, "call", "compute", 1 << 1, 1 << 1, .run = call_in_stage },
        good_stages[1],
    };
    struct muster_job_desc desc = { .size = sizeof desc, .items = 1, .input = input };
    struct muster_job *other;
    MUST(muster_pipeline_create(m, good_buffers, 3, stages, 3, NULL, &desc.pipeline, &problem));
    in_stage.number = number;
    in_stage.at = at;
    in_stage.count = count;
    in_stage.status = MUSTER_E_INTERNAL;
    struct muster_error err;
    MUST(muster_start(m, &desc, &other, &err));
    MUST(muster_job_wait(other, NULL, &err));
    muster_job_destroy(other);
    muster_pipeline_destroy(desc.pipeline);
    return in_stage.status;
}

static muster_status with_view(void *at, size_t count)
{
    return with_stage_call(LAYOUT_muster_view, at, count);
}

static muster_status with_unit_arg(void *at, size_t count)
{
    return with_stage_call(LAYOUT_muster_unit_arg, at, count);
}

static muster_status with_arg(void *at, size_t count)
{
    static const uint32_t value = 7;
    for (size_t i = 0; i < count && is_whole(LAYOUT_muster_arg, at); i++) {
        struct muster_arg *arg = element(at, i);
        arg->kind = MUSTER_ARG_VALUE;
        arg->in = &value;
        arg->bytes = sizeof value;
    }
    muster_status status = muster_for(m, kernel, 1, at, count, NULL, NULL, &problem);
    if (status != MUSTER_OK)
        return status;
    const struct muster_task_desc desc = {
        .size = sizeof desc, .kernel = kernel, .args = at, .arg_count = count, .items = 1
    };
    muster_task task;
    status = muster_submit(m, &desc, 1, &task, &problem);
    return status == MUSTER_OK ? muster_wait(m, &task, 1, 60 * SECOND, &problem) : status;
}

static muster_status with_run_options(void *at, size_t count)
{
    (void)count;
    return muster_for(m, kernel, 1, NULL, 0, at, NULL, &problem);
}

static muster_status with_job_desc(void *at, size_t count)
{
    struct muster_job_desc *desc = at;
    struct muster_job *other;
    (void)count;
    if (is_whole(LAYOUT_muster_job_desc, at)) {
        desc->kernel = kernel;
        desc->items = 1;
    }
    muster_status status = muster_start(m, desc, &other, &problem);
    if (status == MUSTER_OK)
        muster_job_destroy(other);
    return status;
}

static muster_status with_progress(void *at, size_t count)
{
    (void)count;
    return muster_job_progress(job, at, &problem);
}

static muster_status with_job_device(void *at, size_t count)
{
    struct muster_report report = { .size = sizeof report,
                                    .devices = at,
                                    .device_capacity = count };
    muster_status status = muster_for(m, kernel, 1, NULL, 0, NULL, &report, &problem);
    if (status == MUSTER_OK)
        CHECK_EQUAL(1, report.device_count);
    if (status == MUSTER_OK)
        status = muster_job_devices(job, at, count, &(size_t){ 0 }, &problem);
    return status;
}

static muster_status with_report(void *at, size_t count)
{
    (void)count;
    muster_status status = muster_job_report(job, at, &problem);
    if (status == MUSTER_OK)
        status = muster_job_wait(job, at, &problem);
    return status == MUSTER_OK ? muster_for(m, kernel, 1, NULL, 0, NULL, at, &problem) : status;
}

static muster_status with_task_desc(void *at, size_t count)
{
    muster_task tasks[2];
    for (size_t i = 0; i < count && is_whole(LAYOUT_muster_task_desc, at); i++)
        ((struct muster_task_desc *)element(at, i))->fn = nothing;
    muster_status status = muster_submit(m, at, count, tasks, &problem);
    return status == MUSTER_OK ? muster_wait(m, tasks, count, 60 * SECOND, &problem) : status;
}

static muster_status with_task_access(void *at, size_t count)
{
    muster_data data[2];
    for (size_t i = 0; i < COUNT_OF(data); i++)
        MUST(muster_data_create(m, NULL, 0, 0, &data[i], &problem));
    for (size_t i = 0; i < count && is_whole(LAYOUT_muster_task_access, at); i++) {
        struct muster_task_access *access = element(at, i);
        access->data = data[i];
        access->mode = MUSTER_TOKEN;
    }
    const struct muster_task_desc desc = {
        .size = sizeof desc, .fn = nothing, .accesses = at, .access_count = count
    };
    muster_task task;
    muster_status status = muster_submit(m, &desc, 1, &task, &problem);
    if (status == MUSTER_OK)
        status = muster_wait(m, &task, 1, 60 * SECOND, &problem);
    for (size_t i = 0; i < COUNT_OF(data); i++)
        MUST(muster_data_destroy(m, data[i], NULL));
    return status;
}

static muster_status do_native(void *user, const struct muster_native *native)
{
    (void)user;
    return native->count == 0 ? MUSTER_OK : MUSTER_E_FAILED;
}

static muster_status with_body(void *at, size_t count)
{
    static const char *const backends[] = { "cpu", "sim" };
    for (size_t i = 0; i < count && is_whole(LAYOUT_muster_body, at); i++) {
        struct muster_body *body = element(at, i);
        body->backend = backends[i];
        body->enqueue = do_native;
    }
    const struct muster_task_desc desc = { .size = sizeof desc, .bodies = at, .body_count = count };
    muster_task task;
    muster_status status = muster_submit(m, &desc, 1, &task, &problem);
    return status == MUSTER_OK ? muster_wait(m, &task, 1, 60 * SECOND, &problem) : status;
}

static void begin_nothing(void *user, void *to, uint64_t bytes)
{
    (void)user;
    (void)to;
    (void)bytes;
}

static void combine_nothing(void *user, void *into, const void *from, uint64_t bytes)
{
    (void)from;
    begin_nothing(user, into, bytes);
}

static muster_status with_reduction(void *at, size_t count)
{
    muster_data data;
    (void)count;
    MUST(muster_data_create(m, NULL, 64, 0, &data, &problem));
    if (is_whole(LAYOUT_muster_reduction, at)) {
        ((struct muster_reduction *)at)->begin = begin_nothing;
        ((struct muster_reduction *)at)->combine = combine_nothing;
    }
    muster_status status = muster_data_reduction(m, data, at, &problem);
    MUST(muster_data_destroy(m, data, NULL));
    return status;
}

static muster_status with_task_decision(void *at, size_t count)
{
    muster_data data;
    muster_task task;
    (void)count;
    MUST(muster_data_create(m, NULL, 0, 0, &data, NULL));
    const struct muster_task_access access = MUSTER_ACCESS(data, MUSTER_TOKEN);
    const struct muster_task_desc desc = {
        .size = sizeof desc, .kernel = kernel, .items = 1, .accesses = &access, .access_count = 1
    };
    MUST(muster_submit(m, &desc, 1, &task, &problem));
    MUST(muster_wait(m, &task, 1, 60 * SECOND, &problem));
    muster_status status = muster_task_explain(m, task, at, &problem);
    MUST(muster_data_destroy(m, data, NULL));
    return status;
}

static muster_status with_graph_change(void *at, size_t count)
{
    muster_data data;
    struct muster_graph *graph;
    muster_task task;
    MUST(muster_data_create(m, NULL, 64, 0, &data, NULL));
    const struct muster_task_access access = MUSTER_ACCESS(data, MUSTER_WRITE);
    const struct muster_task_desc desc = {
        .size = sizeof desc, .fn = nothing, .accesses = &access, .access_count = 1
    };
    MUST(muster_graph_begin(m, NULL));
    MUST(muster_submit(m, &desc, 1, NULL, NULL));
    MUST(muster_graph_end(m, &graph, NULL));
    muster_status status = muster_graph_run(m, graph, at, count, &task, &problem);
    if (status == MUSTER_OK)
        status = muster_wait(m, &task, 1, 60 * SECOND, &problem);
    muster_graph_destroy(graph);
    MUST(muster_data_destroy(m, data, NULL));
    return status;
}

static muster_status with_file_options(void *at, size_t count)
{
    struct muster_file *other;
    (void)count;
    muster_status status = muster_file_read_open(m, "/dev/null", at, &other, &problem);
    if (status == MUSTER_OK)
        muster_file_close(other);
    return status;
}

static muster_status with_file_report(void *at, size_t count)
{
    (void)count;
    return muster_file_report(file, at, &problem);
}

static muster_status with_simulation_options(void *at, size_t count)
{
    static const char text[] = "{\"devices\":[{\"items_per_s\":1e6}],\"job\":{\"items\":1}}";
    struct muster_simulation *simulation;
    (void)count;
    muster_status status = muster_simulate(text, sizeof text - 1, at, &simulation, &problem);
    if (status != MUSTER_OK)
        return status;
    CHECK_EQUAL(sizeof *simulation, simulation->size);
    CHECK_EQUAL(sizeof **simulation->devices, simulation->devices[0]->size);
    muster_simulation_destroy(simulation);
    return MUSTER_OK;
}

static muster_status with_trace_event(void *at, size_t count)
{
    const struct muster_trace_writer_options options = { .size = sizeof options,
                                                         .write = write_nothing };
    struct muster_trace_writer *writer;
    (void)count;
    if (is_whole(LAYOUT_muster_trace_event, at))
        ((struct muster_trace_event *)at)->kind = MUSTER_TRACE_JOB;
    MUST(muster_trace_writer_create(&options, &writer, &problem));
    muster_trace_writer_add(writer, at);
    muster_status status = muster_trace_writer_end(writer, 0, NULL);
    /* The writer's status is all that an event can say. */
    muster_error_fill(&problem, status, 0, "set `size`", "%s", "");
    muster_trace_writer_destroy(writer);
    return status;
}

static muster_status with_trace_options(void *at, size_t count)
{
    (void)count;
    muster_status status = muster_trace_start(m, at, &problem);
    return status == MUSTER_OK ? muster_trace_stop(m, NULL, &problem) : status;
}

static muster_status with_writer_options(void *at, size_t count)
{
    struct muster_trace_writer *writer;
    (void)count;
    if (is_whole(LAYOUT_muster_trace_writer_options, at))
        ((struct muster_trace_writer_options *)at)->write = write_nothing;
    muster_status status = muster_trace_writer_create(at, &writer, &problem);
    if (status == MUSTER_OK)
        muster_trace_writer_destroy(writer);
    return status;
}

static muster_status with_counters(void *at, size_t count)
{
    (void)count;
    return muster_counters(m, at, &problem);
}

/* A look at this process: its runtime has a device and a job. */
static muster_status look(size_t *runtime, struct muster_live **live)
{
    struct muster_live_runtime seen = { .size = sizeof seen };
    MUST(muster_live_look(live, &problem));
    for (*runtime = 0; muster_live_runtime(*live, *runtime, &seen, NULL) == MUSTER_OK; (*runtime)++)
        if (seen.pid == (uint64_t)getpid() && seen.jobs > 0)
            return MUSTER_OK;
    return MUSTER_E_NOT_FOUND;
}

#define WITH_LIVE(name, call)                                                                      \
    static muster_status name(void *at, size_t count)                                              \
    {                                                                                              \
        struct muster_live *live;                                                                  \
        size_t runtime;                                                                            \
        (void)count;                                                                               \
        MUST(look(&runtime, &live));                                                               \
        muster_status status = call;                                                               \
        muster_live_destroy(live);                                                                 \
        return status;                                                                             \
    }
WITH_LIVE(with_live_info, muster_live_info(live, at, &problem))
WITH_LIVE(with_live_runtime, muster_live_runtime(live, runtime, at, &problem))
WITH_LIVE(with_live_device, muster_live_device(live, runtime, 0, at, &problem))
WITH_LIVE(with_live_job, muster_live_job(live, runtime, 0, at, &problem))
WITH_LIVE(with_live_lane, muster_live_lane(live, runtime, 0, 0, at, &problem))

/*
 * A cluster whose servers have one job and one worker, and answer nothing else.
 */
static muster_status fake_get(struct transport_link *link, const char *bucket, const char *key,
                              struct transport_message *out, struct muster_error *err)
{
    static char text[MANIFEST_BYTES_MAX];
    static const char worker_text[] = "host 1 cpu:0";
    (void)link, (void)err;
    *out = (struct transport_message){ .bytes = worker_text, .size = sizeof worker_text - 1 };
    if (strcmp(bucket, CLUSTER_WORKERS) == 0)
        return MUSTER_OK;
    if (strcmp(key, "one") != 0)
        return MUSTER_E_NOT_FOUND;
    struct manifest stored = {
        .name = "one", .items = 8, .grain = 1, .window = 64, .tries = 3, .weight = 1, .arg_count = 2
    };
    memset(stored.kernel.hash, 'a', MANIFEST_HASH_BYTES - 1);
    stored.args[0] = (struct manifest_arg){ .kind = MUSTER_ARG_SOURCE, .bytes = 4 };
    stored.args[1] = (struct manifest_arg){ .kind = MUSTER_ARG_OUT, .bytes = 4 };
    out->bytes = text;
    out->size = manifest_print(&stored, text);
    return MUSTER_OK;
}

static muster_status fake_keys(struct transport_link *link, const char *bucket,
                               void (*each)(void *user, const char *key), void *user,
                               struct muster_error *err)
{
    (void)link, (void)err;
    if (strcmp(bucket, CLUSTER_WORKERS) == 0 || layouts_want_jobs)
        each(user, "one");
    return MUSTER_OK;
}

static muster_status fake_put(struct transport_link *link, const char *bucket, const char *key,
                              const void *bytes, size_t size, struct muster_error *err)
{
    (void)link, (void)bucket, (void)key, (void)bytes, (void)size, (void)err;
    return MUSTER_OK;
}

static muster_status fake_remove(struct transport_link *link, const char *bucket, const char *key,
                                 struct muster_error *err)
{
    (void)link, (void)bucket, (void)key, (void)err;
    return MUSTER_OK;
}

static muster_status fake_ask(struct transport_link *link, const char *subject, const void *bytes,
                              size_t size, uint64_t timeout_ns, struct transport_message *out,
                              struct muster_error *err)
{
    (void)link, (void)subject, (void)bytes, (void)size, (void)timeout_ns, (void)out, (void)err;
    return MUSTER_E_NOT_FOUND;
}

static muster_status fake_listen(struct transport_link *link, const char *subject,
                                 struct transport_listen **out, struct muster_error *err)
{
    (void)link, (void)subject, (void)err;
    *out = NULL;
    return MUSTER_OK;
}

static muster_status fake_next(struct transport_listen *listen, uint64_t timeout_ns,
                               struct transport_message *out)
{
    (void)listen, (void)timeout_ns, (void)out;
    usleep(1000);
    return MUSTER_E_TIMEOUT;
}

static void fake_unlisten(struct transport_listen *listen)
{
    (void)listen;
}

static void fake_release(struct transport_message *message)
{
    (void)message;
}

static const struct transport fake_transport = { .size = sizeof fake_transport,
                                                 .get = fake_get,
                                                 .keys = fake_keys,
                                                 .put = fake_put,
                                                 .remove = fake_remove,
                                                 .ask = fake_ask,
                                                 .listen = fake_listen,
                                                 .next = fake_next,
                                                 .unlisten = fake_unlisten,
                                                 .release = fake_release };
static struct muster_cluster fake_cluster = { .transport = &fake_transport, .id = 1 };

/* A submitter's job in which one worker has claimed something. */
static struct muster_cluster_job *make_cluster_job(void)
{
    struct muster_cluster_job *made = calloc(1, sizeof *made);
    const struct fleet_options options = {
        .grains = 8, .lane_count = SUBMITTER_LANES, .slots = 1, .tries = 1, .epoch = 1
    };
    struct wire_request claim = { .kind = WIRE_CLAIM, .worker = 1, .held_count = 1 };
    struct fleet_reply reply;
    CHECK(made != NULL);
    claim.held[0].seq = 1;
    made->cluster = &fake_cluster;
    made->manifest.items = 8;
    made->manifest.grain = 1;
    MUST(platform_mutex_init(&made->lock, &problem));
    made->fleet =
        fleet_init(aligned_alloc(64, (fleet_bytes(&options) + 63) / 64 * 64), &options, 1);
    CHECK(made->fleet != NULL);
    CHECK(fleet_request(made->fleet, &claim, 2, &reply) != FLEET_SILENT);
    return made;
}

static void free_cluster_job(struct muster_cluster_job *made)
{
    platform_mutex_deinit(&made->lock);
    free(made->fleet);
    free(made);
}

/* What is refused for the words alone that are missing was read. */
static muster_status unless_words(muster_status status, const char *words)
{
    return status == MUSTER_E_INVALID && strstr(problem.text, words) ? MUSTER_OK : status;
}

static muster_status with_cluster_options(void *at, size_t count)
{
    struct muster_cluster *cluster;
    (void)count;
    return unless_words(muster_cluster_open("", at, &cluster, &problem), "needs an address");
}

static muster_status with_cluster_desc(void *at, size_t count)
{
    struct muster_cluster_job *made;
    (void)count;
    return unless_words(muster_cluster_submit(&fake_cluster, at, &made, &problem),
                        "needs a kernel's file");
}

static muster_status with_cluster_progress(void *at, size_t count)
{
    struct muster_cluster_job *made = make_cluster_job();
    (void)count;
    muster_status status = muster_cluster_progress(made, at, &problem);
    free_cluster_job(made);
    return status;
}

static muster_status with_cluster_share(void *at, size_t count)
{
    struct muster_cluster_job *made = make_cluster_job();
    size_t found = 0;
    muster_status status = muster_cluster_shares(made, at, count, &found, &problem);
    if (status == MUSTER_OK)
        CHECK_EQUAL(1, found);
    free_cluster_job(made);
    return status;
}

static muster_status with_cluster_entry(void *at, size_t count)
{
    size_t found = 0;
    layouts_want_jobs = true;
    muster_status status = muster_cluster_list(&fake_cluster, at, count, &found, &problem);
    layouts_want_jobs = false;
    if (status == MUSTER_OK)
        CHECK_EQUAL(1, found);
    return status;
}

static muster_status with_cluster_machine(void *at, size_t count)
{
    size_t found = 0;
    muster_status status = muster_cluster_machines(&fake_cluster, at, count, &found, &problem);
    if (status == MUSTER_OK)
        CHECK_EQUAL(1, found);
    return status;
}

static muster_status with_cluster_worker_options(void *at, size_t count)
{
    struct muster_cluster_worker *worker = NULL;
    (void)count;
    muster_status status = muster_cluster_worker_start(&fake_cluster, m, at, &worker, &problem);
    muster_cluster_worker_destroy(worker);
    return status;
}

static muster_status with_resident_options(void *at, size_t count)
{
    struct muster_resident *other;
    (void)count;
    muster_status status = muster_resident_create(m, device, &kernel, 1, at, &other, &problem);
    if (status == MUSTER_OK)
        MUST(muster_resident_destroy(other, &problem));
    return status;
}

static muster_status with_resident_step(void *at, size_t count)
{
    for (size_t i = 0; i < count && is_whole(LAYOUT_muster_resident_step, at); i++)
        ((struct muster_resident_step *)element(at, i))->kernel = kernel;
    const struct muster_task_desc desc = {
        .size = sizeof desc, .resident = lane, .steps = at, .step_count = count
    };
    muster_task task;
    muster_status status = muster_submit(m, &desc, 1, &task, &problem);
    return status == MUSTER_OK ? muster_wait(m, &task, 1, 60 * SECOND, &problem) : status;
}

static muster_status with_resident_report(void *at, size_t count)
{
    (void)count;
    return muster_resident_report(lane, at, &problem);
}

enum role {
    GIVEN = 1, /* by Muster to callbacks, and back by them at most: nobody sets its size */
    READ,      /* by Muster: a field that is not known must not be set */
    FILLED     /* by Muster */
};

static const struct {
    enum role role;
    muster_status (*call)(void *at, size_t count);
    size_t count; /* of an array; 0: there is one */
} cases[LAYOUT_COUNT] = {
#define CASE(struct_, ...) [LAYOUT_muster_##struct_] = { __VA_ARGS__ }
    CASE(allocator, READ, with_allocator, 0),
    CASE(options, READ, with_options, 0),
    CASE(services, GIVEN, NULL, 0),
    CASE(backend, READ, with_backend, 0),
    CASE(device_info, FILLED, with_device_info, 0),
    CASE(device_load, FILLED, with_device_load, 0),
    CASE(backend_report, FILLED, with_backend_report, 16),
    CASE(hints, READ, with_hints, 0),
    CASE(candidate, GIVEN, NULL, 0),
    CASE(policy, READ, with_policy, 0),
    CASE(decision, FILLED, with_decision, 2),
    CASE(stream_info, FILLED, with_stream_info, 0),
    CASE(use, READ, with_use, 2),
    CASE(block_info, FILLED, with_block_info, 0),
    CASE(kernel_form, READ, with_form, 2),
    CASE(operand, READ, with_operand, 2),
    CASE(kernel_parameter, FILLED, with_kernel_parameter, 0),
    CASE(partial, FILLED, with_partial, 0),
    CASE(partial_field, FILLED, with_partial_field, 0),
    CASE(buffer, READ, with_buffer, 3),
    CASE(stage, READ, with_stage, 2),
    CASE(edge, READ, with_edge, 2),
    CASE(pipeline_options, READ, with_pipeline_options, 0),
    CASE(edge_report, FILLED, with_edge_report, 64),
    CASE(view, FILLED, with_view, 0),
    CASE(unit_arg, READ, with_unit_arg, 2),
    CASE(arg, READ, with_arg, 2),
    CASE(run_options, READ, with_run_options, 0),
    CASE(result, GIVEN, NULL, 0),
    CASE(job_desc, READ, with_job_desc, 0),
    CASE(progress, FILLED, with_progress, 0),
    CASE(job_device, FILLED, with_job_device, 2),
    CASE(report, FILLED, with_report, 0),
    CASE(task_desc, READ, with_task_desc, 2),
    CASE(task_access, READ, with_task_access, 2),
    CASE(body, READ, with_body, 2),
    CASE(reduction, READ, with_reduction, 0),
    CASE(native, GIVEN, NULL, 0),
    CASE(graph_change, READ, with_graph_change, 2),
    CASE(task_decision, FILLED, with_task_decision, 0),
    CASE(file_options, READ, with_file_options, 0),
    CASE(file_report, FILLED, with_file_report, 0),
    CASE(simulation_options, READ, with_simulation_options, 0),
    CASE(simulation_device, GIVEN, NULL, 0),
    CASE(simulation_job, GIVEN, NULL, 0),
    CASE(simulation, GIVEN, NULL, 0),
    CASE(graph_simulation_device, GIVEN, NULL, 0),
    CASE(graph_simulation, GIVEN, NULL, 0),
    CASE(trace_event, READ, with_trace_event, 0),
    CASE(trace_options, READ, with_trace_options, 0),
    CASE(trace_writer_options, READ, with_writer_options, 0),
    CASE(counters, FILLED, with_counters, 0),
    CASE(live_info, FILLED, with_live_info, 0),
    CASE(live_runtime, FILLED, with_live_runtime, 0),
    CASE(live_device, FILLED, with_live_device, 0),
    CASE(live_job, FILLED, with_live_job, 0),
    CASE(live_lane, FILLED, with_live_lane, 0),
    CASE(cluster_options, READ, with_cluster_options, 0),
    CASE(cluster_desc, READ, with_cluster_desc, 0),
    CASE(cluster_progress, FILLED, with_cluster_progress, 0),
    CASE(cluster_share, FILLED, with_cluster_share, 2),
    CASE(cluster_entry, FILLED, with_cluster_entry, 2),
    CASE(cluster_machine, FILLED, with_cluster_machine, 2),
    CASE(cluster_worker_options, READ, with_cluster_worker_options, 0),
    CASE(resident_options, READ, with_resident_options, 0),
    CASE(resident_step, READ, with_resident_step, 2),
    CASE(resident_report, FILLED, with_resident_report, 0),
#undef CASE
};

/* How the structs of a call are made. */
struct make {
    size_t size;           /* of each */
    size_t last_size;      /* of the last, if that is another; 0: it is not */
    unsigned char unknown; /* what stands after the fields that the library knows */
};

/* Structs that end where their memory does; of a size that cannot be, as much as is known. */
static muster_status call(size_t number, struct make make)
{
    const struct layout *layout = &layouts[number];
    size_t count = cases[number].count > 0 ? cases[number].count : 1;
    size_t bytes = make.size > LAYOUT_BYTES_MAX ? layout->known
                   : make.size < sizeof(size_t) ? sizeof(size_t)
                                                : make.size;
    unsigned char *at = calloc(count, bytes);
    CHECK(at != NULL);
    for (size_t i = 0; i < count; i++) {
        unsigned char *one = at + i * bytes;
        if (bytes > layout->known)
            memset(one + layout->known, make.unknown, bytes - layout->known);
        size_t size = make.last_size > 0 && i + 1 == count ? make.last_size : make.size;
        memcpy(one, &size, sizeof size);
    }
    memset(&problem, 0, sizeof problem);
    muster_status status = cases[number].call(at, count);
    /* What was filled says so: nothing is left of what is not known. */
    for (size_t i = 0; status == MUSTER_OK && cases[number].role == FILLED && i < 1; i++)
        for (size_t k = layout->known; k < bytes; k++)
            CHECK_EQUAL(0, at[i * bytes + k]);
    if (status == MUSTER_OK)
        CHECK_EQUAL(make.size, layout_size(at));
    free(at);
    return status;
}

static void check(size_t number, struct make make, muster_status expected)
{
    muster_status status = call(number, make);
    if (status != expected)
        test_fail(__FILE__, __LINE__, "%s of %zu bytes, the last %zu, unknown %u: %s, %s",
                  layouts[number].name, make.size, make.last_size, make.unknown,
                  muster_status_name(status), problem.text);
    if (status == MUSTER_E_INVALID)
        CHECK_CONTAINS("set `size`", problem.fix);
}

static void open_all(void)
{
    static const char source[] =
        "#include <muster_kernel.h>\n"
        "MUSTER_KERNEL void one(uint64_t item, MUSTER_GLOBAL float *x) { x[item] = 1; }\n";
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = source,
                                             .code_bytes = sizeof source - 1,
                                             .entry = "one" };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "cpu";
    options.cpu_workers = 1;
    m = open_with(options);
    device = find(m, "cpu:0");
    stream = acquire(m, device);
    for (size_t i = 0; i < COUNT_OF(blocks); i++)
        blocks[i] = allocate(m, stream, 64);
    kernel = kernel_of(m, do_nothing);
    MUST(muster_resident_create(m, device, &kernel, 1, NULL, &lane, &problem));
    MUST(muster_kernel_from(m, "one", &form, 1, &portable, &problem));
    static const char sum[] = "#include <muster_kernel.h>\n"
                              "MUSTER_KERNEL void sum(uint64_t item, MUSTER_GLOBAL const float *x, "
                              "MUSTER_PARTIAL double *all)\n"
                              "{ *all += x[item]; }\n"
                              "MUSTER_COMBINE void sum_combine(MUSTER_PARTIAL double *a, "
                              "MUSTER_PARTIAL const double *b)\n"
                              "{ *a += *b; }\n";
    const struct muster_kernel_form reduction = { .size = sizeof reduction,
                                                  .kind = MUSTER_KERNEL_PORTABLE,
                                                  .code = sum,
                                                  .code_bytes = sizeof sum - 1,
                                                  .entry = "sum" };
    MUST(muster_kernel_from(m, "sum", &reduction, 1, &summing, &problem));
    MUST(muster_file_read_open(m, "/dev/null", NULL, &file, &problem));
    struct muster_job_desc desc = { .size = sizeof desc, .kernel = kernel, .items = 1 };
    MUST(muster_start(m, &desc, &job, &problem));
    MUST(muster_job_wait(job, NULL, &problem));
    static const uint64_t input[1];
    struct muster_job_desc through = { .size = sizeof through, .items = 1, .input = input };
    MUST(muster_pipeline_create(m, good_buffers, 3, good_stages, 2, NULL, &through.pipeline,
                                &problem));
    MUST(muster_start(m, &through, &pipeline_job, &problem));
    MUST(muster_job_wait(pipeline_job, NULL, &problem));
    muster_lease lease;
    muster_device chosen;
    for (int i = 0; i < 2; i++) {
        MUST(muster_pick(m, NULL, NULL, &lease, &chosen, &problem));
        MUST(muster_lease_release(m, lease, &problem));
    }
}

static void close_all(void)
{
    muster_job_destroy(job);
    muster_job_destroy(pipeline_job);
    MUST(muster_close(m, &problem));
}

/* Each rule for each struct. */
static void every_struct_keeps_the_rules(void)
{
    open_all();
    for (size_t i = 0; i < LAYOUT_COUNT; i++) {
        size_t first = layouts[i].first, known = layouts[i].known, word = sizeof(size_t);
        if (cases[i].role == 0)
            test_fail(__FILE__, __LINE__, "%s is in no table here", layouts[i].name);
        if (cases[i].role == GIVEN)
            continue;
        const size_t refused[] = { 0,
                                   1,
                                   word - 1,
                                   word,
                                   first - word,
                                   first - 1,
                                   known + 1,
                                   LAYOUT_BYTES_MAX + word,
                                   SIZE_MAX - word + 1,
                                   SIZE_MAX };
        for (size_t k = 0; k < COUNT_OF(refused); k++)
            if (refused[k] < first || refused[k] > known)
                check(i, (struct make){ .size = refused[k] }, MUSTER_E_INVALID);
        for (size_t size = first; size <= known + 2 * word; size += word)
            check(i, (struct make){ .size = size }, MUSTER_OK);
        check(i, (struct make){ .size = known + word, .unknown = 1 },
              cases[i].role == READ ? MUSTER_E_VERSION : MUSTER_OK);
        if (cases[i].count > 0) {
            check(i, (struct make){ .size = known, .last_size = known + word }, MUSTER_E_INVALID);
            check(i, (struct make){ .size = known + word, .last_size = known }, MUSTER_E_INVALID);
        }
    }
    close_all();
}

static void any_size_is_safe(void)
{
    struct random random;
    random_init(&random, test_seed());
    open_all();
    for (size_t round = 0; round < 40; round++)
        for (size_t i = 0; i < LAYOUT_COUNT; i++) {
            if (cases[i].role == GIVEN)
                continue;
            size_t size = random_below(&random, 8) == 0
                              ? (size_t)random_next(&random) >> random_below(&random, 64)
                              : random_below(&random, layouts[i].known + 64);
            unsigned char unknown = (unsigned char)random_below(&random, 2);
            bool is_good =
                size >= layouts[i].first && size <= LAYOUT_BYTES_MAX && size % sizeof size == 0;
            bool is_newer = is_good && cases[i].role == READ && size > layouts[i].known && unknown;
            check(i, (struct make){ .size = size, .unknown = unknown },
                  is_newer  ? MUSTER_E_VERSION
                  : is_good ? MUSTER_OK
                            : MUSTER_E_INVALID);
        }
    close_all();
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(every_struct_keeps_the_rules),
                                         TEST(any_size_is_safe) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
