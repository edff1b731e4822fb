/*
 * What a job is asked to be: whether that makes sense, and whether all it refers to is there.
 */
#include "run/job/pipeline.h"

#include <string.h>

#define DEPTH_MAX 64
#define KEPT_MAX (1u << 20)
#define ADDRESSES_MAX ((uint64_t)1 << 56)

static muster_status check_arg(const struct muster_arg *arg, struct muster_error *err)
{
    switch (arg->kind) {
    case MUSTER_ARG_IN:
        if (arg->in && arg->bytes > 0)
            return MUSTER_OK;
        break;
    case MUSTER_ARG_OUT:
        if (arg->bytes > 0)
            return MUSTER_OK;
        break;
    case MUSTER_ARG_INOUT:
        if (arg->in && arg->bytes > 0)
            return MUSTER_OK;
        break;
    case MUSTER_ARG_VALUE:
        if (arg->in && arg->bytes > 0 && arg->bytes <= MUSTER_ARG_BYTES_MAX)
            return MUSTER_OK;
        break;
    case MUSTER_ARG_ALL:
    case MUSTER_ARG_FIRST:
    case MUSTER_ARG_GRID:
    case MUSTER_ARG_PICTURES:
    case MUSTER_ARG_ITEMS:
    case MUSTER_ARG_PARTIAL:
        return MUSTER_OK;
    case MUSTER_ARG_SOURCE:
    case MUSTER_ARG_DEVICE_IN:
    case MUSTER_ARG_DEVICE_OUT:
    case MUSTER_ARG_DEVICE_INOUT:
        if (arg->bytes > 0)
            return MUSTER_OK;
        break;
    case MUSTER_ARG_ACCESS: /* of tasks */
    case MUSTER_ARG_PITCH:
        break;
    }
    return run_bad_argument(err, "a job's argument",
                            "its kind is unknown, or it has no memory or size");
}

/* Of what is handed to the kernel by value. */
static size_t value_bytes(const struct muster_arg *arg)
{
    return arg->kind == MUSTER_ARG_VALUE                                    ? arg->bytes
           : arg->kind == MUSTER_ARG_FIRST || arg->kind == MUSTER_ARG_ITEMS ? sizeof(uint64_t)
           : arg_is_grid(arg) ? sizeof(struct muster_cell)
                              : 0;
}

/* What the caller gave, as this library has it; then `desc` points into the job alone. */
static muster_status read_desc(struct muster_job *job, const struct muster_job_desc *given,
                               struct muster_error *err)
{
    struct muster_job_desc *desc = &job->desc;
    muster_status status = layout_read(LAYOUT(muster_job_desc), given, desc, err);
    if (status != MUSTER_OK)
        return status;
    if ((!desc->kernel && !desc->pipeline) || (!desc->args && desc->arg_count > 0))
        return run_bad_argument(err, "a job", "it has no kernel or no arguments");
    if (desc->arg_count > MUSTER_ARGS_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "pack values into a struct",
                                 "%zu arguments; at most %d", desc->arg_count, MUSTER_ARGS_MAX);
    if (desc->options)
        status = layout_read(LAYOUT(muster_run_options), desc->options, &job->options, err);
    if (status == MUSTER_OK)
        status = layout_check_all(LAYOUT(muster_arg), desc->args, desc->arg_count, err);
    if (status != MUSTER_OK)
        return status;
    for (size_t i = 0; i < desc->arg_count; i++)
        layout_complete(LAYOUT(muster_arg), (const char *)desc->args + i * desc->args->size,
                        &job->args[i]);
    desc->options = &job->options;
    desc->args = job->args;
    return MUSTER_OK;
}

/* A source belongs to one argument; without the number of items there can be no array of them. */
static muster_status check_source(const struct muster_job_desc *desc, struct muster_error *err)
{
    size_t sources = 0;
    bool has_arrays = desc->each_status != NULL;
    for (size_t i = 0; i < desc->arg_count; i++) {
        sources += desc->args[i].kind == MUSTER_ARG_SOURCE;
        has_arrays = has_arrays || arg_is_on_device(&desc->args[i]) ||
                     (arg_is_cut(&desc->args[i]) && (desc->args[i].in || desc->args[i].out));
    }
    if (sources != (desc->source ? 1u : 0u))
        return muster_error_fill(
            err, MUSTER_E_INVALID, 0, "give a source and one MUSTER_SOURCE argument, or neither",
            "the job has %s source and %zu arguments for it", desc->source ? "a" : "no", sources);
    if (desc->items == MUSTER_ITEMS_UNKNOWN && (!desc->source || has_arrays))
        return run_bad_argument(
            err, "a job",
            "a number of items that is not known needs a source, and goes with no arrays");
    return MUSTER_OK;
}

/* An array in memory is smaller than what any processor addresses; a source may come from anywhere. */
static uint64_t array_bytes_max(const struct muster_arg *arg)
{
    return arg_is_cut(arg) && (arg->in || arg->out) ? ADDRESSES_MAX : UINT64_MAX - 1;
}

static muster_status check_fields(const struct muster_job_desc *desc, struct muster_error *err)
{
    const struct muster_run_options *options = desc->options;
    if (options->kept_max > KEPT_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL, "kept_max is %u; at most %u",
                                 options->kept_max, KEPT_MAX);
    if (options->depth > DEPTH_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL, "depth is %u; at most %d",
                                 options->depth, DEPTH_MAX);
    if (desc->source_calls > SOURCE_CALLS_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL, "source_calls is %u; at most %u",
                                 desc->source_calls, SOURCE_CALLS_MAX);
    uint64_t multiple = options->unit_multiple;
    if (multiple > 1 && (desc->pipeline || desc->each_status))
        return run_bad_argument(err, "a job",
                                "unit_multiple goes with neither a pipeline nor each_status");
    if (multiple > 1 && (options->unit_items % multiple != 0 ||
                         (options->window > 0 && options->window < multiple)))
        return muster_error_fill(
            err, MUSTER_E_INVALID, 0, "make unit_items a multiple of it, and window as large as it",
            "unit_multiple is %llu, unit_items %llu and window %llu", (unsigned long long)multiple,
            (unsigned long long)options->unit_items, (unsigned long long)options->window);
    if (desc->pipeline)
        return MUSTER_OK;
    size_t values = 0;
    /* Of a source that ends some time only what is there at a time has to fit. */
    uint64_t items = desc->items == MUSTER_ITEMS_UNKNOWN ? 0 : desc->items;
    for (size_t i = 0; i < desc->arg_count; i++) {
        uint64_t bytes = 0;
        muster_status status = check_arg(&desc->args[i], err);
        if (status != MUSTER_OK)
            return status;
        values += value_bytes(&desc->args[i]);
        if (values > MUSTER_ARG_BYTES_MAX)
            return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "put large values into data",
                                     "the values have more than %d bytes", MUSTER_ARG_BYTES_MAX);
        if (desc->args[i].kind != MUSTER_ARG_PARTIAL &&
            __builtin_mul_overflow(items, (uint64_t)desc->args[i].bytes, &bytes))
            bytes = UINT64_MAX;
        if (desc->args[i].kind != MUSTER_ARG_PARTIAL && bytes > array_bytes_max(&desc->args[i]))
            return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL,
                                     "argument %zu of %llu items is larger than any memory", i,
                                     (unsigned long long)desc->items);
    }
    return check_source(desc, err);
}

/* What the kernel's source says it takes, where there is one. */
static muster_status check_kernel(const struct muster_job *job, struct muster_error *err)
{
    const struct muster_job_desc *desc = &job->desc;
    struct kernel_argument given[MUSTER_ARGS_MAX];
    for (size_t i = 0; i < desc->arg_count; i++) {
        const struct muster_arg *arg = &desc->args[i];
        size_t bytes = value_bytes(arg);
        given[i] = (struct kernel_argument){ .is_block = bytes == 0,
                                             .bytes = bytes > 0 ? bytes : arg->bytes,
                                             .access = arg_access(arg),
                                             .element = arg->element,
                                             .is_cut = arg_is_cut(arg),
                                             .halo = arg->halo,
                                             .cells = job->cells[i] };
    }
    muster_status status = job_reduces(job)
                               ? kernel_check_reduction(desc->kernel, given,
                                                        desc->arg_count - PARTIAL_HIDDEN_ARGS, err)
                               : kernel_check_arguments(desc->kernel, given, desc->arg_count, err);
    const struct kernel_items items = { .count = desc->items,
                                        .together = job->together,
                                        .is_grid = job->grid.is_given,
                                        .has_depth = job->grid.first.depth > 0,
                                        .reach = job->grid.first.reach };
    size_t count = desc->arg_count - (job_reduces(job) ? PARTIAL_HIDDEN_ARGS : 0);
    return status == MUSTER_OK ? kernel_check_reach(desc->kernel, given, count, &items, err)
                               : status;
}

/* Arguments in device memory are of one device, which alone can run the job. */
static muster_status find_only(struct muster_job *job, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < job->desc.arg_count && status == MUSTER_OK; i++) {
        const struct muster_arg *arg = &job->args[i];
        struct run_device *device;
        if (!arg_is_on_device(arg))
            continue;
        status = block_check_arg(job->m, arg, job->desc.items, &device, err);
        if (status != MUSTER_OK)
            break;
        if (job->only && job->only != device)
            status = muster_error_fill(err, MUSTER_E_INVALID, 0, "copy one to the other device",
                                       "arguments are in the memory of %s and of %s",
                                       job->only->info.id, device->info.id);
        if (arg->kind == MUSTER_ARG_DEVICE_INOUT && job->desc.each_status)
            status = run_bad_argument(err, "a job",
                                      "an argument that is updated in device memory goes with no "
                                      "each_status, which may need a second run");
        job->only = device;
    }
    return status;
}

/* What it refers to must be this runtime's, and still be there. */
static muster_status check_owners(struct muster_job *job, struct muster_error *err)
{
    struct muster *m = job->m;
    const struct muster_job_desc *desc = &job->desc;
    muster_status status = MUSTER_OK;
    void *entry;
    if (desc->pipeline)
        return pipeline_check_job(m, desc, err);
    if (!kernel_is_of(desc->kernel, m))
        return run_bad_argument(err, "a job", "the kernel is another runtime's");
    status = check_kernel(job, err);
    run_lock(m);
    for (size_t i = 0; i < desc->arg_count && status == MUSTER_OK; i++)
        if (desc->args[i].kind == MUSTER_ARG_ALL)
            status = table_find_locked(&m->data, desc->args[i].data.index,
                                       desc->args[i].data.generation, "data", &entry, err);
    run_unlock(m);
    return status == MUSTER_OK ? find_only(job, err) : status;
}

muster_status job_read_desc(struct muster_job *job, const struct muster_job_desc *given,
                            struct muster_error *err)
{
    muster_status status = read_desc(job, given, err);
    for (size_t i = 0; i < job->desc.arg_count && status == MUSTER_OK; i++)
        if (job->args[i].kind == MUSTER_ARG_PARTIAL || job->args[i].kind == MUSTER_ARG_ITEMS)
            status = run_bad_argument(err, "a job's argument", "its kind is Muster's own");
    if (status == MUSTER_OK)
        status = reduction_read(job, err);
    if (status == MUSTER_OK)
        status = check_fields(&job->desc, err);
    if (status == MUSTER_OK)
        status = halo_read(job, err);
    return status == MUSTER_OK ? check_owners(job, err) : status;
}
