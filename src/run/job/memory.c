/*
 * The memory of a job: result buffers, the core's state, copies of arguments, and the kernels that
 * stay as long as it.
 */
#include "base/allocator.h"
#include "platform/machine.h"
#include "run/job/lessons.h"
#include "run/job/pipeline.h"
#include "run/memory/pages.h"

#include <string.h>

/* Where a GPU takes part buffers lie in parts of about this size: a part is pinned when it is first used. */
#define PART_BYTES ((size_t)4 << 20)

static muster_status take_pages(struct muster_job *job, struct muster_error *err)
{
    struct pages_want want = { .is_large = job_has_gpu(job), .nodes = job->nodes };
    uint32_t each = job->buffer_count;
    if (job_may_have_gpu(job)) {
        uint32_t least_each = (job->buffer_count - 1) / LANE_RESULTS_MAX + 1;
        each = job->buffer_bytes < PART_BYTES ? (uint32_t)(PART_BYTES / job->buffer_bytes) : 1;
        each = each < least_each ? least_each : each;
        each = each < job->buffer_count ? each : job->buffer_count;
    }
    job->pages_buffers = each;
    bool fits = !__builtin_mul_overflow(job->buffer_bytes, (size_t)each, &want.bytes);
    for (uint32_t filled = 0; fits && filled < job->buffer_count; filled += each) {
        fits = pages_take(job->m, &want, &job->pages[job->pages_count], NULL) == MUSTER_OK;
        job->pages_count += fits;
    }
    if (fits)
        return MUSTER_OK;
    return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, "use smaller units, or fewer devices",
                             "no host memory for %u buffers of %zu bytes", job->buffer_count,
                             job->buffer_bytes);
}

muster_status job_allocate_buffers(struct muster_job *job, struct muster_error *err)
{
    struct muster *m = job->m;
    job->free_buffers = allocator_take(&m->allocator, job->buffer_count, sizeof *job->free_buffers);
    job->unit_buffers =
        allocator_take(&m->allocator, job->core_options.units_max, sizeof *job->unit_buffers);
    job->unit_failures =
        allocator_take(&m->allocator, job->core_options.units_max, sizeof *job->unit_failures);
    if (job->pipeline)
        job->result_bytes =
            allocator_take(&m->allocator, (size_t)job->buffer_count * MUSTER_ARGS_MAX,
                           job->parts_max * sizeof *job->result_bytes);
    if (!job->free_buffers || !job->unit_buffers || !job->unit_failures ||
        (job->pipeline && !job->result_bytes))
        return run_no_memory(err, "a job");
    /* The first is taken first: those that are used lie together. */
    for (uint32_t i = job->buffer_count; i > 0; i--)
        job->free_buffers[job->free_count++] = i - 1;
    return job->buffer_bytes > 0 ? take_pages(job, err) : MUSTER_OK;
}

void job_lend_memory(struct muster_job *job, struct run_lane *lane, struct pages *ring)
{
    lane->memory = (struct lane_memory){ .results = job->pages,
                                         .result_count = job->pages_count,
                                         .result_buffers = job->pages_buffers,
                                         .ring = ring };
}

/* Lanes of one failure domain have one number, counted within the job. */
static uint32_t domain_of(const struct muster_job *job, uint32_t lane)
{
    uint32_t first = 0;
    while (job->lanes[first].device->info.domain != job->lanes[lane].device->info.domain)
        first++;
    return first;
}

void job_describe_lane(struct muster_job *job, uint32_t lane)
{
    const struct run_device *device = job->lanes[lane].device;
    job_lane_describe(job->core, lane, domain_of(job, lane), device->info.weight);
    if (job_is_direct_on(job, device))
        job_lane_set_direct(job->core, lane);
    if (device->backend->table.device_stop)
        job_lane_set_restartable(job->core, lane);
}

muster_status job_make_core(struct muster_job *job, struct muster_error *err)
{
    size_t bytes = job_bytes(&job->core_options);
    if (bytes == 0)
        return run_bad_argument(err, "a job", "its options contradict each other");
    void *memory = allocator_take(&job->m->allocator, bytes, 1);
    if (!memory)
        return run_no_memory(err, "a job");
    lessons_make_room(job);
    run_lock(job->m);
    job->start_ns = job->end_ns = platform_clock_ns();
    job->start_faults = lessons_page_faults(job->m);
    job->core_options.lesson = lessons_find_locked(job);
    job->core_options.known_per_ns = lessons_rate_locked(job);
    job->core = job->work.core = job_init(memory, &job->core_options, job->start_ns);
    job->core_options.lesson = NULL;
    run_unlock(job->m);
    for (uint32_t i = 0; i < job->lane_count; i++)
        job_describe_lane(job, i);
    for (uint32_t i = job->lane_count; i < job->lane_room; i++)
        job_lane_expect(job->core, i);
    if (job->lane_count < job->lane_room)
        job_opens_later(job->core);
    return MUSTER_OK;
}

void job_copy_values(struct muster_job *job)
{
    size_t filled = 0;
    for (size_t i = 0; i < job->desc.arg_count; i++) {
        struct muster_arg *arg = &job->args[i];
        if (arg->kind != MUSTER_ARG_VALUE)
            continue;
        memcpy(job->values + filled, arg->in, arg->bytes);
        arg->in = job->values + filled;
        filled += arg->bytes;
    }
}

/* Kernels that stay as long as the job, also when their user has destroyed them. */
struct kernel_hold {
    struct muster_kernel *kernel;
    struct kernel_hold *next;
};

muster_status job_hold_kernel(struct muster_job *job, struct muster_kernel *kernel,
                              struct muster_error *err)
{
    struct muster *m = job->m;
    run_lock(m);
    const struct kernel_hold *at = job->kernels;
    while (at && at->kernel != kernel)
        at = at->next;
    run_unlock(m);
    if (at)
        return MUSTER_OK;
    struct kernel_hold *hold = allocator_take(&m->allocator, 1, sizeof *hold);
    if (!hold)
        return run_no_memory(err, "a job");
    run_lock(m);
    *hold = (struct kernel_hold){ .kernel = kernel, .next = job->kernels };
    job->kernels = hold;
    job->has_own_mathematics |= kernel_has_own_mathematics(kernel);
    kernel_hold_locked(kernel);
    run_unlock(m);
    return MUSTER_OK;
}

muster_status job_hold_kernels(struct muster_job *job, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    if (!job->pipeline)
        return job_hold_kernel(job, job->desc.kernel, err);
    for (uint32_t i = 0; i < job->pipeline->declaration.stage_count && status == MUSTER_OK; i++)
        if (job->pipeline->stages[i].kernel)
            status = job_hold_kernel(job, job->pipeline->stages[i].kernel, err);
    return status;
}

void job_let_kernels_go(struct muster_job *job)
{
    while (job->kernels) {
        struct kernel_hold *hold = job->kernels;
        job->kernels = hold->next;
        kernel_let_go(hold->kernel);
        allocator_give(&job->m->allocator, hold, 1, sizeof *hold);
    }
}

/* Frees the job's own memory; its lanes are torn down and nothing of it is under way. */
void job_free(struct muster_job *job)
{
    struct muster *m = job->m;
    allocator_give(&m->allocator, job->result_bytes, (size_t)job->buffer_count * MUSTER_ARGS_MAX,
                   job->parts_max * sizeof *job->result_bytes);
    for (uint32_t i = 0; job->lanes && i < job->lane_count; i++)
        lane_free(&job->lanes[i]);
    kernel_job_free(job);
    reduction_free(job);
    allocator_give(&m->allocator, job->lane_reports, job->lanes_max, sizeof *job->lane_reports);
    allocator_give(&m->allocator, job->lane_ids, job->lanes_max, sizeof *job->lane_ids);
    allocator_give(&m->allocator, job->lanes, job->lanes_max, sizeof *job->lanes);
    /* The first last: the next job takes first what was given back last, and is pinned. */
    while (job->pages_count > 0)
        pages_give(m, job->pages[--job->pages_count]);
    workers_free(job->work.workers);
    kept_free(job);
    source_free(job);
    halo_free(job);
    asker_free(job);
    allocator_give(&m->allocator, job->unit_failures, job->core_options.units_max,
                   sizeof *job->unit_failures);
    allocator_give(&m->allocator, job->unit_buffers, job->core_options.units_max,
                   sizeof *job->unit_buffers);
    allocator_give(&m->allocator, job->free_buffers, job->buffer_count, sizeof *job->free_buffers);
    if (job->core)
        allocator_give(&m->allocator, job->core, job_bytes(&job->core_options), 1);
    job_let_kernels_go(job);
    pipeline_let_go(job->pipeline);
    allocator_give(&m->allocator, job, 1, sizeof *job);
}
