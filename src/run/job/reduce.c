/*
 * Jobs that reduce. To lanes such a job is an ordinary one whose kernel writes a partial for each block of
 * items; delivery is in order, so the conductor joins the partials along the tree of base/fold.h as they
 * come. The tree and the blocks depend on the items alone, and so does the result.
 */
#include "run/job/pipeline.h"

#include "base/allocator.h"

#include <muster/reduce.h>

static muster_status refuse(struct muster_error *err, const char *what)
{
    return muster_error_fill(err, MUSTER_E_INVALID, 0, "leave it out, or use a job without result",
                             "a job with a result goes with no %s", what);
}

/* What makes no sense beside a result. */
static muster_status check(const struct muster_job *job, struct muster_error *err)
{
    const struct muster_job_desc *desc = &job->desc;
    const struct muster_run_options *options = &job->options;
    if (desc->pipeline)
        return refuse(err, "pipeline");
    if (desc->sink)
        return refuse(err, "sink");
    if (desc->each_status)
        return refuse(err, "each_status");
    if (options->kept_max > 0)
        return refuse(err, "kept_max");
    if (options->unit_multiple > 1)
        return refuse(err, "unit_multiple: units are whole numbers of blocks");
    for (size_t i = 0; i < desc->arg_count; i++) {
        enum muster_arg_kind kind = desc->args[i].kind;
        if (arg_is_written(&desc->args[i]) || kind == MUSTER_ARG_DEVICE_OUT ||
            kind == MUSTER_ARG_DEVICE_INOUT || kind == MUSTER_ARG_ITEMS)
            return muster_error_fill(err, MUSTER_E_INVALID, 0, "use MUSTER_IN",
                                     "argument %zu of a reduction is written; it may only read", i);
        /* Launches at the ends of an array, and rows, are no whole numbers of blocks. */
        if (desc->args[i].halo > 0 || arg_is_grid(&desc->args[i]))
            return muster_error_fill(
                err, MUSTER_E_INVALID, 0,
                "make an array of what the neighbours give first, and reduce it",
                "argument %zu of a reduction is a grid or has a halo", i);
    }
    return MUSTER_OK;
}

static uint64_t round_up(uint64_t items, uint64_t multiple)
{
    uint64_t over = items % multiple;
    if (over == 0)
        return items;
    return items > UINT64_MAX - multiple ? items - over : items + (multiple - over);
}

static muster_status add_partials(void *user, const struct muster_result *result)
{
    struct job_reduction *reduction = user;
    uint64_t block_items = reduction->with.partial->block_items;
    uint64_t items = result->range.end - result->range.begin;
    uint64_t blocks = items / block_items + (items % block_items > 0);
    /* Blocks would be others than those of the tree. */
    INVARIANT(result->range.begin == reduction->blocks * block_items);
    reduction->with.fold(reduction->blocks, reduction->levels, result->outputs[0], blocks);
    reduction->blocks += blocks;
    return MUSTER_OK;
}

muster_status reduction_read(struct muster_job *job, struct muster_error *err)
{
    struct muster_job_desc *desc = &job->desc;
    struct job_reduction *reduction = &job->reduction;
    struct kernel_fold with;
    bool is_ours = desc->kernel && kernel_is_of(desc->kernel, job->m);
    if (!desc->result && (!is_ours || !kernel_partial_of(desc->kernel)))
        return MUSTER_OK;
    if (!is_ours)
        return run_bad_argument(err, "a job",
                                "it has a result, and no kernel or another runtime's");
    if (!desc->result)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "use muster_reduce, or set result",
                                 "kernel %s is a reduction, which has no result for each item",
                                 kernel_name(desc->kernel));
    muster_status status = check(job, err);
    if (status == MUSTER_OK && desc->arg_count > MUSTER_ARGS_MAX - PARTIAL_HIDDEN_ARGS)
        status = muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "pack values into a struct",
                                   "%zu arguments of a reduction; at most %d", desc->arg_count,
                                   MUSTER_ARGS_MAX - PARTIAL_HIDDEN_ARGS);
    if (status == MUSTER_OK)
        status = kernel_get_fold(desc->kernel, &with, err);
    if (status != MUSTER_OK)
        return status;
    if (desc->result_bytes != with.partial->bytes)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "give a result of the partial's type",
                                 "the result has %zu bytes; the partial of kernel %s, %.64s, has "
                                 "%zu",
                                 desc->result_bytes, kernel_name(desc->kernel), with.partial->type,
                                 with.partial->bytes);
    reduction->levels = allocator_take(&job->m->allocator, FOLD_LEVELS + 1, with.partial->bytes);
    if (!reduction->levels)
        return run_no_memory(err, "the partials of a reduction");
    reduction->with = with;
    job->args[desc->arg_count++] =
        (struct muster_arg){ MUSTER_ARG_OF(MUSTER_ARG_PARTIAL), .bytes = with.partial->bytes };
    job->args[desc->arg_count++] =
        (struct muster_arg){ MUSTER_ARG_OF(MUSTER_ARG_ITEMS), .bytes = sizeof(uint64_t) };
    job->options.unit_multiple = with.partial->block_items;
    job->options.unit_items = round_up(job->options.unit_items, with.partial->block_items);
    job->options.window = round_up(job->options.window, with.partial->block_items);
    job->options.unordered = 0;
    desc->sink = add_partials;
    desc->sink_user = reduction;
    return MUSTER_OK;
}

static char *result_of(const struct muster_job *job)
{
    return job->reduction.levels + FOLD_LEVELS * job->reduction.with.partial->bytes;
}

void reduction_finish(struct muster_job *job)
{
    job->reduction.with.folded(job->reduction.blocks, job->reduction.levels, result_of(job));
}

void reduction_write(const struct muster_job *job)
{
    const struct kernel_partial *partial = job->reduction.with.partial;
    char *to = job->desc.result;
    /* What lies between the fields is whatever a device's memory had: it must be the same bits too. */
    memset(to, 0, partial->bytes);
    for (size_t i = 0; i < partial->field_count; i++) {
        const struct partial_field *field = &partial->fields[i];
        memcpy(to + field->offset, result_of(job) + field->offset,
               field->bytes * (size_t)field->count);
    }
}

void reduction_free(struct muster_job *job)
{
    if (job_reduces(job))
        allocator_give(&job->m->allocator, job->reduction.levels, FOLD_LEVELS + 1,
                       job->reduction.with.partial->bytes);
}
