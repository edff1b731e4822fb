/*
 * Neighbours in a job: its grid and halos as they were asked for, and the margins of its arrays. A
 * halo of `job->args` is in items of memory once it was read here (run/lane/grid.h).
 */
#include "run/job/pipeline.h"

static uint64_t greatest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The argument that is the grid; NULL: there is none. */
static muster_status find_grid(const struct muster_job *job, const struct muster_arg **out,
                               struct muster_error *err)
{
    *out = NULL;
    for (size_t i = 0; i < job->desc.arg_count; i++) {
        if (!arg_is_grid(&job->args[i]))
            continue;
        if (*out)
            return run_bad_argument(err, "a job", "it has two grids");
        *out = &job->args[i];
    }
    return MUSTER_OK;
}

static bool overlap(const struct muster_job *job, const struct muster_arg *read,
                    const struct muster_arg *written)
{
    uintptr_t a = (uintptr_t)read->in, b = (uintptr_t)written->out;
    return written->out && a < b + job->desc.items * written->bytes &&
           b < a + job->desc.items * read->bytes;
}

/* Neighbours are read at any time, so nobody may write to them. */
static muster_status check_overlaps(const struct muster_job *job, size_t arg,
                                    struct muster_error *err)
{
    for (size_t i = 0; i < job->desc.arg_count; i++)
        if (arg_is_written(&job->args[i]) && overlap(job, &job->args[arg], &job->args[i]))
            return muster_error_fill(err, MUSTER_E_INVALID, 0, "write into another array",
                                     "argument %zu has a halo and shares memory with argument "
                                     "%zu, which the job writes",
                                     arg, i);
    return MUSTER_OK;
}

static muster_status say_wrap(struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_INVALID, 0,
                             "use MUSTER_BORDER_ZERO or MUSTER_BORDER_CLAMP, or an array",
                             "a source cannot wrap: its last item comes last");
}

static muster_status read_halo(struct muster_job *job, size_t index, struct muster_error *err)
{
    struct muster_arg *arg = &job->args[index];
    bool is_source = arg->kind == MUSTER_ARG_SOURCE;
    if (arg->halo == 0 && arg->border == MUSTER_BORDER_ZERO)
        return MUSTER_OK;
    if (!is_source && arg->kind != MUSTER_ARG_IN)
        return muster_error_fill(
            err, MUSTER_E_INVALID, 0, "use MUSTER_IN_HALO and another array for what is written",
            "argument %zu has a halo or a border; only arrays that are read and sources have one",
            index);
    if (is_source && arg->border == MUSTER_BORDER_WRAP)
        return say_wrap(err);
    job->cells[index] = arg->halo;
    muster_status status = grid_add_halo(&job->grid, arg->halo, arg->border, &arg->halo, err);
    if (status == MUSTER_OK && !is_source && (arg->halo > 0 || job->grid.first.reach > 0))
        status = check_overlaps(job, index, err);
    if (!is_source)
        job->seam = greatest(job->seam, arg->halo);
    return status;
}

/* Units are whole lines. */
static muster_status set_multiple(struct muster_job *job, struct muster_error *err)
{
    struct muster_run_options *options = &job->options;
    uint64_t line = job->grid.line, multiple = options->unit_multiple;
    const char *name = !job->grid.first.folds      ? "row"
                       : job->grid.first.depth > 0 ? "plane"
                                                   : "picture";
    /* Blocks of a reduction are Muster's, and of no meaning to its kernel. */
    bool is_ours = options->multiple_is_for_speed || job_reduces(job);
    job->together = multiple > 1 && !is_ours ? multiple : 1;
    if (!job->grid.is_given)
        return MUSTER_OK;
    job->together = line;
    if (multiple <= 1)
        multiple = line;
    if (multiple % line != 0 || options->unit_items % line != 0 ||
        (options->window > 0 && options->window < multiple))
        return muster_error_fill(
            err, MUSTER_E_INVALID, 0, "give multiples of it",
            "units are whole numbers of the grid's %ss, which have %llu cells; unit_items is %llu, "
            "unit_multiple %llu and window %llu",
            name, (unsigned long long)line, (unsigned long long)options->unit_items,
            (unsigned long long)options->unit_multiple, (unsigned long long)options->window);
    options->unit_multiple = multiple;
    return MUSTER_OK;
}

muster_status halo_read(struct muster_job *job, struct muster_error *err)
{
    const struct muster_pipeline *pipeline = job->desc.pipeline;
    const struct muster_arg *arg;
    muster_status status = find_grid(job, &arg, err);
    if (pipeline)
        job->grid = pipeline->grid;
    else if (status == MUSTER_OK)
        status = grid_read(arg, &job->grid, err);
    if (status == MUSTER_OK)
        status = grid_check_items(&job->grid, job->desc.items, err);
    if (status == MUSTER_OK && arg && job->desc.each_status)
        status = run_bad_argument(err, "a job", "a grid goes with no each_status");
    for (size_t i = 0; i < job->desc.arg_count && status == MUSTER_OK; i++)
        status = read_halo(job, i, err);
    if (pipeline && status == MUSTER_OK)
        status = pipeline_read_halo(job, err);
    return status == MUSTER_OK ? set_multiple(job, err) : status;
}

/* What margins are made of: of argument `index`, or of a pipeline's input. */
static struct margins_of describe(const struct muster_job *job, size_t index)
{
    struct margins_of of = { .items = job->desc.items, .seam = job->seam, .line = job->grid.line };
    if (job->pipeline) {
        const struct muster_buffer *input = &job->pipeline->buffers[job->pipeline->input];
        of.array = job->desc.input;
        of.item_bytes = input->bytes_per_item;
        of.halo = job->pipeline->halos[job->pipeline->input];
        of.border = job->pipeline->border;
    } else if (job->args[index].kind == MUSTER_ARG_IN) {
        of.array = job->args[index].in;
        of.item_bytes = job->args[index].bytes;
        of.halo = job->args[index].halo;
        of.border = job->args[index].border;
    }
    return of;
}

/* How many arrays may have margins. */
static size_t count_arrays(const struct muster_job *job)
{
    return job->pipeline ? job->desc.input != NULL : job->desc.arg_count;
}

muster_status halo_set_up(struct muster_job *job, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < count_arrays(job) && status == MUSTER_OK; i++) {
        struct margins_of of = describe(job, i);
        status = margins_init(&job->margins[i], &of, &job->m->allocator, err);
    }
    return status;
}

size_t halo_bytes(const struct muster_job *job)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count_arrays(job); i++) {
        struct margins_of of = describe(job, i);
        if (__builtin_add_overflow(bytes, margins_bytes(&of), &bytes))
            bytes = SIZE_MAX;
    }
    return bytes;
}

void halo_free(struct muster_job *job)
{
    for (size_t i = 0; i < MUSTER_ARGS_MAX; i++)
        margins_deinit(&job->margins[i], &job->m->allocator);
}

uint64_t halo_seam(const struct muster_job *job)
{
    bool has_margins = false;
    for (size_t i = 0; i < MUSTER_ARGS_MAX; i++)
        has_margins = has_margins || job->margins[i].head;
    return has_margins ? job->seam : 0;
}

/* Pipelines. */

/* Whether one copy of the input alone fills the buffer. */
static bool is_copied_from_input(const struct muster_pipeline *pipeline, uint32_t buffer)
{
    uint32_t writers = 0;
    bool is_copy = false;
    for (uint32_t i = 0; i < pipeline->declaration.stage_count; i++) {
        const struct muster_stage *stage = &pipeline->stages[i];
        if (!(stage->writes >> buffer & 1))
            continue;
        writers++;
        is_copy = (stage->flags & MUSTER_COPY) && stage->reads >> pipeline->input & 1;
    }
    return writers == 1 && is_copy && pipeline->buffers[buffer].place == MUSTER_DEVICE &&
           pipeline->buffers[buffer].bytes_fixed == 0;
}

static muster_status check_halo(const struct muster_pipeline *pipeline, struct muster_error *err)
{
    if (pipeline->input == PIPE_NONE)
        return run_bad_argument(err, "muster_pipeline_create", "a halo is of an input");
    for (uint32_t i = 0; i < pipeline->declaration.stage_count; i++) {
        const struct muster_stage *stage = &pipeline->stages[i];
        if ((stage->reads >> pipeline->input & 1) && !(stage->flags & MUSTER_COPY))
            return muster_error_fill(err, MUSTER_E_INVALID, 0, "copy it to a device buffer first",
                                     "stage '%s' reads the input, which has a halo", stage->name);
    }
    return MUSTER_OK;
}

muster_status pipeline_set_halos(struct muster_pipeline *pipeline,
                                 const struct muster_pipeline_options *options,
                                 struct muster_error *err)
{
    uint64_t halo = 0;
    if (options->grid && !arg_is_grid(options->grid))
        return run_bad_argument(err, "muster_pipeline_create", "its grid is no grid");
    muster_status status = grid_read(options->grid, &pipeline->grid, err);
    if (status == MUSTER_OK)
        status = grid_add_halo(&pipeline->grid, options->halo, options->border, &halo, err);
    if (status == MUSTER_OK && options->halo > 0)
        status = check_halo(pipeline, err);
    if (status != MUSTER_OK || options->halo == 0)
        return status;
    pipeline->border = options->border;
    for (uint32_t i = 0; i < pipeline->declaration.buffer_count; i++)
        if (i == pipeline->input || is_copied_from_input(pipeline, i)) {
            pipeline->halos[i] = halo;
            pipeline->with_halo |= (uint64_t)1 << i;
        }
    return MUSTER_OK;
}

bool pipeline_gives_cell(const struct muster_pipeline *pipeline, const struct muster_stage *stage)
{
    return pipeline->grid.is_given && (stage->reads & pipeline->with_halo) != 0;
}

muster_status pipeline_read_halo(struct muster_job *job, struct muster_error *err)
{
    const struct muster_pipeline *pipeline = job->desc.pipeline;
    const struct muster_job_desc *desc = &job->desc;
    if (pipeline->input == PIPE_NONE)
        return MUSTER_OK;
    const struct muster_buffer *input = &pipeline->buffers[pipeline->input];
    if (desc->source && pipeline->border == MUSTER_BORDER_WRAP)
        return say_wrap(err);
    if (!desc->input || pipeline->with_halo == 0)
        return MUSTER_OK;
    job->seam = pipeline->halos[pipeline->input];
    uintptr_t in = (uintptr_t)desc->input, out = (uintptr_t)desc->output;
    size_t out_bytes = 0;
    if (desc->output && pipeline->output_count > 0)
        out_bytes = desc->items * pipeline->buffers[pipeline->outputs[0]].bytes_per_item;
    if (in < out + out_bytes && out < in + desc->items * input->bytes_per_item)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "write into another array",
                                 "the input has a halo and shares memory with the output");
    return MUSTER_OK;
}
