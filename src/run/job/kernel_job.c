/*
 * Jobs with a kernel and arguments: how they compile to a plan (run/lane/kernel_plan.h), and how many units
 * a device has at a time. Units that write into the caller's arrays (direct.c) have no result buffer.
 */
#include "run/job/pipeline.h"

#include "base/allocator.h"

/* Units at a time on each of the ways up, through the kernel and down; and where that is a GPU. */
#define SLOTS 2u
#define SLOTS_GPU 4u
#define LARGE_UNIT_BYTES ((size_t)16 << 20)

static uint32_t slots_of(const struct muster_job *job)
{
    uint32_t slots = job_may_have_gpu(job) ? SLOTS_GPU : SLOTS;
    uint32_t depth = job->options.depth;
    return depth > 0 && depth < slots ? depth : slots;
}

static muster_status make_plan(struct muster_job *job, const struct kernel_work *work, bool on_host,
                               struct muster_error *err)
{
    struct muster *m = job->m;
    struct kernel_plan *plan = allocator_take(&m->allocator, 1, sizeof *plan);
    if (!plan)
        return run_no_memory(err, "a job's plan");
    kernel_plan_declare(plan, work, on_host, slots_of(job));
    size_t bytes = pipe_scratch_bytes(&plan->declaration);
    void *scratch = allocator_take(&m->allocator, bytes, 1);
    muster_status status = scratch ? pipe_derive(&plan->declaration, MUSTER_SCHEDULE_PIPELINED,
                                                 false, &plan->order, scratch, err)
                                   : run_no_memory(err, "the proof of a job's plan");
    allocator_give(&m->allocator, scratch, bytes, 1);
    if (status == MUSTER_OK)
        job->kernel_plans[on_host] = plan;
    else
        allocator_give(&m->allocator, plan, 1, sizeof *plan);
    return status;
}

void kernel_job_free(struct muster_job *job)
{
    for (size_t i = 0; i < 2; i++)
        allocator_give(&job->m->allocator, job->kernel_plans[i], 1, sizeof(struct kernel_plan));
}

/* Blocks may be changed by what is run twice; blocks of a reduction and edges are not items. */
static bool is_itemwise(const struct muster_job *job)
{
    for (size_t i = 0; i < job->desc.arg_count; i++)
        if (job->args[i].kind == MUSTER_ARG_DEVICE_OUT ||
            job->args[i].kind == MUSTER_ARG_DEVICE_INOUT)
            return false;
    return !job_reduces(job) && job->seam == 0 && !job->grid.is_given;
}

muster_status kernel_job_compile(struct muster_job *job, const struct run_device *device,
                                 struct lane_plan *plan, struct muster_error *err)
{
    bool on_host = plan->on_host;
    struct kernel_work work = { .kernel = job->desc.kernel,
                                .args = job->args,
                                .arg_count = job->desc.arg_count,
                                .unit_items = job->unit_max,
                                .margins = job->margins,
                                .part_items = job->part_items };
    if (job_reduces(job)) {
        work.block_items = job->reduction.with.partial->block_items;
        work.lanes = job->reduction.with.partial->lanes;
    }
    muster_status status = MUSTER_OK;
    if (!job->kernel_plans[on_host])
        status = make_plan(job, &work, on_host, err);
    if (status != MUSTER_OK)
        return status;
    kernel_plan_compile(job->kernel_plans[on_host], &work, plan);
    for (uint32_t i = 0; i < plan->piece_count; i++)
        plan->pieces[i].output = job->outputs[plan->pieces[i].output_at].offset;
    if (job->output == JOB_OUTPUT_CUTS && job_is_direct_on(job, device))
        plan->cut_grain = job->core_options.grain > 0 ? job->core_options.grain : 1;
    plan->is_itemwise = is_itemwise(job);
    /* On the host units have nothing to do with each other. */
    plan->depth = on_host && job->options.depth == 0 ? JOB_DEPTH_DEFAULT : job->core_options.depth;
    plan->width = on_host ? (uint32_t)least(plan->depth, MUSTER_ROLES_MAX) : 1;
    return MUSTER_OK;
}

size_t kernel_job_item_bytes(const struct muster_job *job)
{
    size_t up = 0, down = 0;
    for (size_t i = 0; i < job->desc.arg_count; i++) {
        const struct muster_arg *arg = &job->args[i];
        if (arg_is_read(arg) && __builtin_add_overflow(up, arg->bytes, &up))
            up = SIZE_MAX;
        if (arg_is_written(arg) && __builtin_add_overflow(down, arg_item_bytes(arg), &down))
            down = SIZE_MAX;
    }
    return up > down ? up : down;
}

uint32_t kernel_job_depth(const struct muster_job *job)
{
    uint32_t asked = job->options.depth;
    if (asked > 0 || !job_may_have_gpu(job))
        return asked > 0 ? asked : JOB_DEPTH_DEFAULT;
    /* From this size on a unit more than there are slots keeps the device busy. */
    size_t item_bytes = kernel_job_item_bytes(job);
    bool is_large = item_bytes > 0 && job->unit_max >= LARGE_UNIT_BYTES / item_bytes;
    return is_large ? SLOTS_GPU + 1 : 2 * SLOTS_GPU;
}
