/*
 * Devices that are not open when a job starts: a thread has their backends opened when the core finds that
 * worth it, waits for them, and gives each device that can run the job a lane. The lane's own thread takes
 * what it needs (run/lane/join.c). The job's end waits for none of them.
 */
#include "run/job/pipeline.h"

#include "base/allocator.h"
#include "core/opening.h"
#include "platform/exit.h"

static bool has_joiner_locked(const struct muster_job *job)
{
    uint32_t i = 0;
    while (i < job->lane_count && !job->lanes[i].is_joining)
        i++;
    return i < job->lane_count;
}

bool joining_has_hope_locked(const struct muster_job *job)
{
    return job->joining.opening != 0 || has_joiner_locked(job);
}

bool joining_is_inside_locked(const struct muster_job *job)
{
    uint32_t i = 0;
    while (i < job->lane_count &&
           !(job->lanes[i].is_joining && job->lanes[i].thread.state == THREAD_INSIDE))
        i++;
    return job->joining.thread.state == THREAD_INSIDE || i < job->lane_count;
}

/* A thread that only looks whether devices would be worth it leaves at once. */
static bool is_getting_ready_locked(const struct muster_job *job)
{
    return joining_is_inside_locked(job) && (job->joining.has_asked || has_joiner_locked(job));
}

uint32_t jobs_joining_locked(const struct muster *m)
{
    uint32_t count = 0;
    for (const struct muster_job *job = m->jobs; job; job = job->next)
        count += is_getting_ready_locked(job);
    for (const struct muster_job *job = m->jobs_left; job; job = job->next)
        count += is_getting_ready_locked(job);
    return count;
}

void joining_end_locked(struct muster_job *job)
{
    bool is_late = false;
    for (uint32_t i = 0; i < job->m->backend_count; i++)
        is_late |= job->joining.late >> i & 1 && !job->m->backends[i]->has_answered;
    if (is_late)
        job->m->unopened_ns += platform_clock_ns() - job->start_ns;
}

/* The lane will not come. If it was the last hope, that is why the job fails. */
static void give_up_locked(struct muster_job *job, uint32_t lane)
{
    struct muster_error problem;
    bool was_running = job_state(job->core) == JOB_RUNNING;
    job_lane_give_up(job->core, lane);
    if (!was_running || job_state(job->core) != JOB_FAILED)
        return;
    muster_error_fill(&problem, MUSTER_E_DEVICE_LOST, 0, "look at the report's devices",
                      "no device is left, and none that was being opened can run the job");
    job_note_locked(job, &problem);
}

void job_joined_locked(struct run_lane *lane, bool takes_part)
{
    struct muster_job *job =
        (struct muster_job *)(void *)((char *)lane->work - offsetof(struct muster_job, work));
    if (takes_part)
        job_lane_join(job->core, lane->index, platform_clock_ns());
    else
        give_up_locked(job, lane->index);
    job_tell_locked(job);
}

static bool has_lane_locked(const struct muster_job *job, const struct run_device *device)
{
    uint32_t i = 0;
    while (i < job->lane_count && job->lanes[i].device != device)
        i++;
    return i < job->lane_count;
}

/* A device that is open by now and can have a lane; NULL if there is none. Pins it. */
static struct run_device *find_locked(struct muster_job *job)
{
    struct muster *m = job->m;
    if (job->lane_count == job->lane_room || job->work.must_leave)
        return NULL;
    for (uint32_t i = 0; i < m->device_count; i++) {
        struct run_device *device = m->devices[i];
        if (has_lane_locked(job, device) || !job_takes_locked(job, device))
            continue;
        device->pins++;
        return device;
    }
    return NULL;
}

/* The lane appears with all that others look at. */
static muster_status add_lane(struct muster_job *job, struct run_device *device,
                              struct lane_plan *plan, struct run_lane **out,
                              struct muster_error *err)
{
    muster_status status = MUSTER_E_CANCELLED;
    run_lock(job->m);
    if (!job->work.must_leave)
        status = job_add_lane_locked(job, device, plan, err);
    if (status == MUSTER_OK) {
        struct run_lane *lane = *out = &job->lanes[job->lane_count - 1];
        const struct run_source *source = &job->source;
        lane->is_joining = true;
        job_lend_memory(job, lane,
                        source->ring_count > 0 ? source->pages[source->ring_count - 1] : NULL);
        job_describe_lane(job, lane->index);
    }
    run_unlock(job->m);
    return status;
}

/* A lane without a thread: as if it could not be set up. */
static void leave_out(struct run_lane *lane, const struct muster_error *why)
{
    lane_tear_down(lane);
    run_lock(lane->work->group.m);
    lane->shortage = *why;
    lane->is_joining = false;
    job_joined_locked(lane, false);
    run_unlock(lane->work->group.m);
}

/* False if there is no memory for it: what the core expects of it is given up at the end. */
static bool admit(struct muster_job *job, struct run_device *device)
{
    struct muster_error problem = { .size = sizeof problem };
    struct lane_plan *plan = NULL;
    struct run_lane *lane;
    muster_status status = MUSTER_OK;
    /* Here and not on the lane's thread: there may be several of those. */
    if (!(device->info.capabilities & MUSTER_CAN_USE_HOST_MEMORY))
        status = lane_start_workers(&job->work, &problem);
    if (status == MUSTER_OK)
        status = job_make_plan(job, device, &plan, &problem);
    if (status == MUSTER_OK)
        status = add_lane(job, device, plan, &lane, &problem);
    device_unpin(device);
    if (status != MUSTER_OK) {
        allocator_give(&job->m->allocator, plan, 1, sizeof *plan);
        if (status != MUSTER_E_CANCELLED)
            run_log(job->m, MUSTER_LOG_WARNING, "%s does not join the job: %s", device->info.id,
                    problem.text);
        return false;
    }
    if (job_start_lane(lane, &problem) != MUSTER_OK)
        leave_out(lane, &problem);
    return true;
}

/* Which of the backends have not answered. */
static uint32_t find_opening_locked(const struct muster_job *job)
{
    uint32_t opening = 0;
    for (uint32_t i = 0; i < job->m->backend_count; i++)
        if (job->joining.opening >> i & 1 && !job->m->backends[i]->has_answered)
            opening |= (uint32_t)1 << i;
    return opening;
}

/* That loads what the vendor has for the new devices. */
static void find_compilers(struct muster_job *job)
{
    thread_goes_away(&job->joining.thread);
    platform_exit_hold();
    job_find_compilers(job);
    platform_exit_release();
    thread_is_back(&job->joining.thread);
}

/*
 * Has the backends opened if that is worth it by now, without the lock meanwhile; true if so. Else
 * `*look_ns` is when to ask again, UINT64_MAX if that was done before.
 */
static bool ask_locked(struct muster_job *job, uint64_t *look_ns)
{
    struct run_joining *joining = &job->joining;
    struct muster *m = job->m;
    *look_ns = UINT64_MAX;
    if (joining->has_asked || !job_should_open(job->core, joining->expected > 0, m->unopened_ns,
                                               platform_clock_ns(), look_ns))
        return false;
    joining->has_asked = true;
    /* Devices that nobody expects are mostly others' too: one long job is no reason to open those. */
    uint32_t late = m->unopened_ns >= OPENING_UNKNOWN_NS ? joining->late : joining->opening;
    run_unlock(m);
    thread_goes_away(&joining->thread);
    for (uint32_t i = 0; i < m->backend_count; i++)
        if (late >> i & 1)
            backends_open_aside(m, m->backends[i]);
    thread_is_back(&joining->thread);
    run_lock(m);
    return true;
}

static void join_all(void *argument)
{
    struct muster_job *job = argument;
    struct lane_work *work = &job->work;
    struct muster *m = job->m;
    bool can_admit = true;
    run_lock(m);
    for (;;) {
        uint64_t look_ns;
        uint32_t opening = find_opening_locked(job);
        bool is_news = opening != job->joining.opening;
        if (work->must_leave || !can_admit || (opening == 0 && !is_news))
            break;
        if (!is_news) {
            if (!ask_locked(job, &look_ns))
                platform_condition_wait(&m->changed, &m->lock, look_ns);
            continue;
        }
        run_unlock(m);
        find_compilers(job);
        run_lock(m);
        for (struct run_device *device; can_admit && (device = find_locked(job));) {
            run_unlock(m);
            can_admit = admit(job, device);
            run_lock(m);
        }
        job->joining.opening = opening;
    }
    job->joining.opening = 0;
    for (uint32_t i = job->lane_count; i < job->lane_room && !work->must_leave; i++)
        give_up_locked(job, i);
    job->lane_room = job->lane_count;
    job_tell_locked(job);
    if (--work->lane_threads == 0)
        workers_dismiss(work->workers);
    group_leave_locked(&work->group, &job->joining.thread);
    run_unlock(m);
}

bool joining_is_slow_locked(const struct muster_job *job, const struct run_device *device)
{
    return device->info.kind == MUSTER_KIND_GPU && !device->had_lanes && job->lane_count > 1 &&
           !job->places && !job->asker.policy.choose;
}

void joining_put_off(struct run_lane *lane)
{
    lane->is_joining = true;
    job_lane_expect(lane->work->core, lane->index);
}

void joining_start_lanes(struct muster_job *job, uint32_t count)
{
    struct muster_error problem;
    for (uint32_t i = 0; i < count; i++)
        if (job->lanes[i].is_joining && job_start_lane(&job->lanes[i], &problem) != MUSTER_OK)
            leave_out(&job->lanes[i], &problem);
}

muster_status joining_start(struct muster_job *job, struct muster_error *err)
{
    struct lane_work *work = &job->work;
    uint64_t look_ns;
    if (job->joining.late == 0)
        return MUSTER_OK;
    run_lock(job->m);
    ask_locked(job, &look_ns);
    run_unlock(job->m);
    if (job->joining.expected == 0)
        return MUSTER_OK;
    /* Counts as a lane's: the workers stay for those that come. */
    run_lock(job->m);
    work->lane_threads++;
    run_unlock(job->m);
    muster_status status =
        group_start(&work->group, &job->joining.thread, join_all, job, "muster-join", err);
    if (status == MUSTER_OK)
        return MUSTER_OK;
    run_lock(job->m);
    work->lane_threads--;
    run_unlock(job->m);
    return status;
}
