/*
 * Starting a job: describing it, setting up its lanes, starting its threads; and jobs from start to
 * end.
 */
#include "base/allocator.h"
#include "observe/nvtx.h"
#include "run/job/pipeline.h"

#include <muster/reduce.h>

/* Units are halved, twice at a time, at most so often where no device has memory for the usual ones. */
#define HALVINGS_MAX 12u

muster_status job_start_lane(struct run_lane *lane, struct muster_error *err)
{
    struct lane_work *work = lane->work;
    run_lock(work->group.m);
    work->lane_threads++;
    run_unlock(work->group.m);
    muster_status status =
        group_start(&work->group, &lane->thread, lane_run, lane, "muster-lane", err);
    if (status == MUSTER_OK)
        return MUSTER_OK;
    run_lock(work->group.m);
    work->lane_threads--;
    run_unlock(work->group.m);
    return status;
}

static muster_status start_threads(struct muster_job *job, struct muster_error *err)
{
    uint32_t count = job->lane_count;
    muster_status status = source_start(job, err);
    for (uint32_t i = 0; i < job->lane_count && status == MUSTER_OK; i++)
        if (!job->lanes[i].is_joining)
            status = job_start_lane(&job->lanes[i], err);
    if (status == MUSTER_OK)
        status = asker_start(job, err);
    if (status == MUSTER_OK)
        status =
            group_start(&job->work.group, &job->conductor, job_conduct, job, "muster-job", err);
    /* The last: the end of a job that could not be started does not wait for it. */
    if (status == MUSTER_OK)
        status = joining_start(job, err);
    if (status == MUSTER_OK)
        joining_start_lanes(job, count);
    return status;
}

muster_status job_make_plan(struct muster_job *job, const struct run_device *device,
                            struct lane_plan **out, struct muster_error *err)
{
    struct lane_plan *plan = allocator_take(&job->m->allocator, 1, sizeof *plan);
    if (!plan)
        return run_no_memory(err, "a lane");
    plan->items = job->desc.items;
    plan->on_host = job_works_on_host(job, device);
    plan->grid = job->grid;
    plan->seam = halo_seam(job);
    plan->part_items = job->part_items;
    plan->parts_max = job->parts_max;
    muster_status status = job->pipeline ? pipeline_compile(job, device, plan, err)
                                         : kernel_job_compile(job, device, plan, err);
    if (status == MUSTER_OK)
        *out = plan;
    else
        allocator_give(&job->m->allocator, plan, 1, sizeof *plan);
    return status;
}

/* The plan for the lane's device, and what it takes there: now, or on the lane's own thread. */
static muster_status set_up_lane(struct muster_job *job, struct run_lane *lane, bool is_put_off,
                                 struct muster_error *err)
{
    muster_status status = job_make_plan(job, lane->device, &lane->plan, err);
    if (status != MUSTER_OK)
        return status;
    job_lend_memory(job, lane, job->source.pages[0]);
    if (!is_put_off)
        return lane_set_up(lane, err);
    if ((status = lane_start_workers(&job->work, err)) == MUSTER_OK)
        joining_put_off(lane);
    return status;
}

/*
 * Sets up those that can be. A device that turns out to be lost is one that was lost a moment later, and
 * one that has no room now may have later: others go on. Those that take long are set up by their own
 * threads, if there is one that the job can begin with.
 */
static muster_status set_up_lanes(struct muster_job *job, struct muster_error *err)
{
    struct muster_error problem, first = { .status = MUSTER_OK };
    bool has_one = false;
    /* A lane of an earlier job may be joining a device still. */
    run_lock(job->m);
    for (uint32_t i = 0; i < job->lane_count; i++)
        job->lanes[i].is_slow = joining_is_slow_locked(job, job->lanes[i].device);
    run_unlock(job->m);
    for (uint32_t turn = 0; turn < 2 * job->lane_count; turn++) {
        uint32_t i = turn % job->lane_count;
        struct run_lane *lane = &job->lanes[i];
        if (lane->is_slow == (turn < job->lane_count))
            continue;
        muster_status status = set_up_lane(job, lane, lane->is_slow && has_one, &problem);
        bool is_lost = muster_status_discards(status) == MUSTER_DISCARD_DEVICE;
        has_one = has_one || status == MUSTER_OK;
        if (status == MUSTER_OK)
            continue;
        if (!is_lost && (!short_is(status) || !lane->plan)) {
            if (err)
                *err = problem;
            return status;
        }
        if (first.status == MUSTER_OK)
            first = problem;
        if (is_lost)
            job_lane_lost(job->core, i, job->start_ns);
        else
            short_begin(lane, &problem);
    }
    run_lock(job->m);
    bool is_refused = first.status != MUSTER_OK && !job_has_hope_locked(job);
    run_unlock(job->m);
    if (is_refused && err)
        *err = first;
    return is_refused ? first.status : MUSTER_OK;
}

static muster_status set_up(struct muster_job *job, struct muster_error *err)
{
    muster_status status = job_find_devices(job, true, err);
    if (status == MUSTER_OK)
        status = job_lay_out(job, err);
    if (status != MUSTER_OK)
        return status;
    job_set_core_options(job);
    if ((status = job_allocate_buffers(job, err)) != MUSTER_OK ||
        (status = kept_set_up(job, err)) != MUSTER_OK ||
        (status = source_set_up(job, err)) != MUSTER_OK ||
        (status = halo_set_up(job, err)) != MUSTER_OK ||
        (status = asker_set_up(job, err)) != MUSTER_OK ||
        (status = job_make_core(job, err)) != MUSTER_OK)
        return status;
    return set_up_lanes(job, err);
}

/* Lanes without a thread, which would do it itself. */
static void tear_down(struct muster_job *job)
{
    for (uint32_t i = 0; job->lanes && i < job->lane_count; i++) {
        run_lock(job->m);
        bool has_thread = job->lanes[i].thread.state == THREAD_INSIDE;
        run_unlock(job->m);
        if (!has_thread)
            lane_tear_down(&job->lanes[i]);
    }
}

/* The fields that sizes depend on, for a job that is not there yet. */
static muster_status describe(struct muster_job *job, struct muster *m,
                              const struct muster_job_desc *desc, struct muster_error *err)
{
    job->m = m;
    job->work = (struct lane_work){ .group = { .m = m, .left_locked = job_thread_left_locked },
                                    .calls = &job_lane_calls,
                                    .object = job };
    job->give_up_ns = UINT64_MAX;
    muster_status status = job_read_desc(job, desc, err);
    if (status != MUSTER_OK)
        return status;
    job_copy_values(job);
    status = job_find_policy(job, err);
    if (status == MUSTER_OK)
        job->pipeline = pipeline_hold(job->desc.pipeline);
    return status == MUSTER_OK ? job_hold_kernels(job, err) : status;
}

static muster_status init_conditions(struct muster_job *job, struct muster_error *err)
{
    muster_status status = platform_condition_init(&job->changed, err);
    if (status != MUSTER_OK)
        return status;
    if ((status = platform_condition_init(&job->news, err)) != MUSTER_OK)
        goto no_news;
    if ((status = platform_condition_init(&job->source.changed, err)) != MUSTER_OK)
        goto no_source;
    if ((status = platform_condition_init(&job->asker.changed, err)) != MUSTER_OK)
        goto no_asker;
    return MUSTER_OK;
no_asker:
    platform_condition_deinit(&job->source.changed);
no_source:
    platform_condition_deinit(&job->news);
no_news:
    platform_condition_deinit(&job->changed);
    return status;
}

/* `unit_max` is how many items a unit has then, at most; unchanged if it did not get so far. */
static muster_status start_job(struct muster *m, const struct muster_job_desc *desc,
                               uint32_t halvings, uint64_t *unit_max, struct muster_job **out,
                               struct muster_error *err)
{
    struct muster_job *job = allocator_take(&m->allocator, 1, sizeof *job);
    if (!job)
        return run_no_memory(err, "a job");
    muster_status status = describe(job, m, desc, err);
    /* It would take turns with the policy that starts it. */
    if (status == MUSTER_OK && job->asker.policy.choose && platform_frame_is_in(FRAME_POLICY, m))
        status = run_say_stuck(err, "muster_start with a user policy");
    if (status == MUSTER_OK)
        status = init_conditions(job, err);
    if (status != MUSTER_OK) {
        job_free(job);
        return status;
    }
    job->work.number = (uint32_t)run_count(&m->counts.jobs_numbered, 1) + 1;
    job->halvings = halvings;
    status = job_hold_data(job, err);
    if (status == MUSTER_OK)
        status = set_up(job, err);
    *unit_max = job->unit_max;
    if (status == MUSTER_OK && (status = start_threads(job, err)) != MUSTER_OK)
        job_stop_threads(job);
    if (status != MUSTER_OK) {
        job_let_go(m, job->held, job->held_count);
        tear_down(job);
        job_leave(job);
        return status;
    }
    *out = job;
    run_count(&m->counts.jobs_started, 1);
    /* Nothing is delivered yet. */
    for (uint64_t i = 0; job->desc.each_status && i < job->desc.items; i++)
        job->desc.each_status[i] = MUSTER_E_CANCELLED;
    if (nvtx_is_on()) {
        char name[LIVE_NAME_BYTES];
        job_name(job, name, sizeof name);
        job->range = nvtx_begin(NVTX_JOBS, job->desc.items, "job %u %s", job->work.number, name);
    }
    run_lock(m);
    /* From here on its own callbacks may destroy it. */
    uint32_t number = job->work.number, may_join = job->joining.expected;
    uint32_t lanes = job->core_options.lane_count - may_join;
    job->next = m->jobs;
    m->jobs = job;
    job->is_known = true;
    live_job_begin_locked(job);
    if (m->is_closing)
        job_cancel_locked(job);
    job_wake_locked(job);
    run_unlock(m);
    run_log(m, MUSTER_LOG_INFO, "job %u: started; devices: %u, and %u may join", number, lanes,
            may_join);
    return MUSTER_OK;
}

muster_status muster_start(struct muster *m, const struct muster_job_desc *desc,
                           struct muster_job **out, struct muster_error *err)
{
    if (!m || !desc || !out)
        return run_bad_argument(err, "muster_start", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    jobs_destroy_unwanted(m);
    jobs_free_left(m);
    uint64_t unit_max = UINT64_MAX, before;
    uint32_t halvings = 0;
    muster_status status;
    /* No device has memory for its slots: smaller units need smaller ones. */
    do {
        before = unit_max;
        status = start_job(m, desc, halvings, &unit_max, out, err);
    } while ((status == MUSTER_E_DEVICE_MEMORY || status == MUSTER_E_TOO_LARGE) &&
             unit_max < before && (halvings += 2) <= HALVINGS_MAX);
    return status;
}

muster_status muster_job_memory_estimate(struct muster *m, const struct muster_job_desc *desc,
                                         uint64_t *bytes, struct muster_error *err)
{
    if (!m || !desc || !bytes)
        return run_bad_argument(err, "muster_job_memory_estimate", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    struct muster_job *job = allocator_take(&m->allocator, 1, sizeof *job);
    if (!job)
        return run_no_memory(err, "an estimate");
    muster_status status = describe(job, m, desc, err);
    if (status == MUSTER_OK)
        status = job_find_devices(job, false, err);
    if (status == MUSTER_OK)
        status = job_lay_out(job, err);
    if (status == MUSTER_OK) {
        job_set_core_options(job);
        if (__builtin_mul_overflow((uint64_t)job->buffer_bytes, job->buffer_count, bytes) ||
            __builtin_add_overflow(*bytes, (uint64_t)job->source.ring_bytes, bytes) ||
            __builtin_add_overflow(*bytes, (uint64_t)halo_bytes(job), bytes))
            *bytes = UINT64_MAX;
    }
    tear_down(job);
    job_free(job);
    return status;
}

/* A job from its start to its end. */
static muster_status run_job(struct muster *m, struct muster_job_desc *desc,
                             const struct muster_run_options *options, struct muster_report *report,
                             struct muster_error *err)
{
    struct muster_job *job;
    if (platform_frame_is_in(FRAME_KERNEL, NULL))
        return run_say_stuck(err, "a job from start to end");
    muster_status status = job_check_report(report, err);
    desc->options = options;
    if (status == MUSTER_OK)
        status = muster_start(m, desc, &job, err);
    if (status != MUSTER_OK)
        return status;
    status = muster_job_wait(job, report, err);
    muster_job_destroy(job);
    return status;
}

muster_status muster_for(struct muster *m, struct muster_kernel *kernel, uint64_t items,
                         const struct muster_arg *args, size_t arg_count,
                         const struct muster_run_options *options, struct muster_report *report,
                         struct muster_error *err)
{
    struct muster_job_desc desc = {
        .size = sizeof desc, .kernel = kernel, .items = items, .args = args, .arg_count = arg_count
    };
    return run_job(m, &desc, options, report, err);
}

muster_status muster_reduce(struct muster *m, struct muster_kernel *kernel, uint64_t items,
                            const struct muster_arg *args, size_t arg_count, void *result,
                            size_t bytes, const struct muster_run_options *options,
                            struct muster_report *report, struct muster_error *err)
{
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .kernel = kernel,
                                    .items = items,
                                    .args = args,
                                    .arg_count = arg_count,
                                    .result = result,
                                    .result_bytes = bytes };
    if (!m || !kernel || !result)
        return run_bad_argument(err, "muster_reduce", "an argument is NULL");
    return run_job(m, &desc, options, report, err);
}

muster_status muster_for_each_status(struct muster *m, struct muster_kernel *kernel, uint64_t items,
                                     const struct muster_arg *args, size_t arg_count,
                                     muster_status *each_status,
                                     const struct muster_run_options *options,
                                     struct muster_report *report, struct muster_error *err)
{
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .kernel = kernel,
                                    .items = items,
                                    .args = args,
                                    .arg_count = arg_count,
                                    .each_status = each_status };
    if (!each_status && items > 0)
        return run_bad_argument(err, "muster_for_each_status", "each_status is NULL");
    return run_job(m, &desc, options, report, err);
}
