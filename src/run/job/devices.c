/*
 * Which devices take part in a job, and why none does.
 */
#include "base/allocator.h"
#include "run/job/lessons.h"
#include "run/job/pipeline.h"

#include <string.h>

/* A kernel of the job's that the device has no form of; NULL if it can run all. */
static struct muster_kernel *find_without_form_locked(const struct muster_job *job,
                                                      const struct run_device *device)
{
    struct muster_kernel *without = NULL;
    if (job->pipeline)
        pipeline_has_forms_locked(job->pipeline, device, &without);
    else if (!kernel_has_form_locked(job->desc.kernel, device))
        without = job->desc.kernel;
    return without;
}

/* Whether it can run the job, if it is there. */
static bool is_able_locked(const struct muster_job *job, const struct run_device *device)
{
    if (find_without_form_locked(job, device))
        return false;
    return !job->pipeline || pipeline_plan(job->pipeline, device, job->options.depth == 1, NULL);
}

bool job_takes_locked(const struct muster_job *job, const struct run_device *device)
{
    const char *devices = job->options.devices;
    if (device_check_locked(device, NULL) != MUSTER_OK || !is_able_locked(job, device) ||
        (job->only && job->only != device))
        return false;
    return !devices || run_list_names(devices, device->info.id);
}

/* A device that would take part if it could run the job; NULL if there is none. */
static const struct run_device *find_unable_locked(const struct muster_job *job)
{
    const char *devices = job->options.devices;
    for (uint32_t i = 0; i < job->m->device_count; i++) {
        const struct run_device *device = job->m->devices[i];
        if (device_check_locked(device, NULL) == MUSTER_OK && !is_able_locked(job, device) &&
            (!job->only || job->only == device) &&
            (!devices || run_list_names(devices, device->info.id)))
            return device;
    }
    return NULL;
}

/* Names that no device has are mistakes, to be reported at once. */
static muster_status check_devices_locked(const struct muster_job *job, struct muster_error *err)
{
    const struct muster *m = job->m;
    for (const char *at = job->options.devices; at && *at;) {
        size_t length = strcspn(at, ",");
        uint32_t i = 0;
        while (i < m->device_count && (strlen(m->devices[i]->info.id) != length ||
                                       memcmp(m->devices[i]->info.id, at, length) != 0))
            i++;
        char fix[sizeof err->fix];
        if (i == m->device_count)
            return muster_error_fill(
                err, MUSTER_E_NOT_FOUND, 0, device_fix_locked(m, at, length, fix, sizeof fix),
                "the job asks for the unknown device \"%.*s\"", (int)length, at);
        at += length + (at[length] == ',');
    }
    return MUSTER_OK;
}

void job_find_compilers(const struct muster_job *job)
{
    if (!job->pipeline)
        kernel_find_compilers(job->desc.kernel);
    for (uint32_t i = 0; job->pipeline && i < job->pipeline->declaration.stage_count; i++)
        if (job->pipeline->stages[i].kernel)
            kernel_find_compilers(job->pipeline->stages[i].kernel);
}

/* The heaviest that takes part: where units cannot be shared, the first would be any. */
static const struct run_device *find_heaviest_locked(const struct muster_job *job)
{
    const struct run_device *best = NULL;
    for (uint32_t i = 0; i < job->m->device_count; i++) {
        const struct run_device *device = job->m->devices[i];
        if (job_takes_locked(job, device) && (!best || device->info.weight > best->info.weight))
            best = device;
    }
    return best;
}

/* Room for a lane on each device there is, and on those that are expected. */
static muster_status allocate_lanes(struct muster_job *job, struct muster_error *err)
{
    struct muster *m = job->m;
    run_lock(m);
    job->lanes_max = m->device_count + job->joining.expected;
    run_unlock(m);
    job->lanes = allocator_take(&m->allocator, job->lanes_max, sizeof *job->lanes);
    job->lane_ids = allocator_take(&m->allocator, job->lanes_max, sizeof *job->lane_ids);
    job->lane_reports = allocator_take(&m->allocator, job->lanes_max, sizeof *job->lane_reports);
    return job->lanes && job->lane_ids && job->lane_reports ? MUSTER_OK
                                                            : run_no_memory(err, "lanes");
}

/*
 * Whether it can start on the devices that are open: others can join it then. One that names devices wants
 * those, one that pushes units chooses among all, and one that has a single lane wants the best.
 */
static bool may_have_joiners(const struct muster_job *job)
{
    return !job->m->options.devices && !job->m->options.slices && !job->options.devices &&
           !job->places && !job->asker.policy.choose && !job->only &&
           (!job->pipeline || pipeline_lanes_max(job->pipeline) > 1);
}

/* Opens devices: those that open quickly, if one of them can run the job; else all. */
static muster_status open_devices(struct muster_job *job, bool may_start_early,
                                  struct muster_error *err)
{
    struct muster *m = job->m;
    struct run_joining *joining = &job->joining;
    muster_status status = MUSTER_OK;
    if (may_start_early && may_have_joiners(job)) {
        struct device_late late;
        status = device_probe_quick(m, &late, err);
        if (status != MUSTER_OK)
            return status;
        job_find_compilers(job);
        if (late.all == 0)
            return MUSTER_OK;
        run_lock(m);
        bool can_start = find_heaviest_locked(job) != NULL;
        run_unlock(m);
        if (can_start) {
            joining->late = late.all;
            /* Those that nobody expects are for a later job. */
            joining->opening = late.awaited;
            joining->expected = late.expected;
            return MUSTER_OK;
        }
    }
    status = device_probe_all(m, err);
    if (status == MUSTER_OK)
        status = device_check_slices(m, err);
    job_find_compilers(job);
    return status;
}

muster_status job_add_lane_locked(struct muster_job *job, struct run_device *device,
                                  struct lane_plan *plan, struct muster_error *err)
{
    struct run_lane *lane = &job->lanes[job->lane_count];
    *lane = (struct run_lane){ .work = &job->work,
                               .device = device,
                               .watch = { .device = device, .job = job->work.number },
                               .has_device_pin = true,
                               .index = job->lane_count,
                               .plan = plan };
    muster_status status = platform_condition_init(&lane->changed, err);
    if (status != MUSTER_OK)
        return status;
    device->pins++;
    memcpy(job->lane_ids[job->lane_count], device->info.id, sizeof job->lane_ids[0]);
    job->work.lane_count = ++job->lane_count;
    return MUSTER_OK;
}

/* Those of the first `known` devices that take no part, by bits in the order of those that could. */
static uint64_t find_aside_locked(struct muster_job *job, uint32_t known)
{
    struct run_device *could[TAKE_PART_LANES_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < known; i++) {
        if (!job_takes_locked(job, job->m->devices[i]))
            continue;
        if (count == TAKE_PART_LANES_MAX)
            return 0;
        could[count++] = job->m->devices[i];
    }
    return lessons_set_kind_locked(job, could, count);
}

/* Keeps the names of those set aside, after the lanes', for the report. */
static void name_aside_locked(struct muster_job *job, uint32_t known, uint64_t aside)
{
    for (uint32_t i = 0, number = 0; i < known; i++) {
        const struct run_device *device = job->m->devices[i];
        if (job_takes_locked(job, device) && aside >> number++ & 1)
            memcpy(job->lane_ids[job->lane_count + job->aside_count++], device->info.id,
                   sizeof job->lane_ids[0]);
    }
}

muster_status job_find_devices(struct muster_job *job, bool may_start_early,
                               struct muster_error *err)
{
    struct muster *m = job->m;
    struct muster_error problem;
    muster_status status = open_devices(job, may_start_early, err);
    if (status != MUSTER_OK)
        return status;
    if ((status = allocate_lanes(job, err)) != MUSTER_OK)
        return status;
    run_lock(m);
    status = check_devices_locked(job, err);
    uint32_t lanes_max = job->pipeline ? pipeline_lanes_max(job->pipeline) : job->lanes_max;
    /* Host stages alone have no use for a device. */
    bool is_one = job->pipeline && lanes_max == 1 && job->pipeline->declaration.stream_count > 0;
    const struct run_device *only = is_one ? find_heaviest_locked(job) : NULL;
    /* Devices that came after the room was made are for the next job. */
    uint32_t known = job->lanes_max - job->joining.expected;
    uint64_t aside = 0;
    if (status == MUSTER_OK && !is_one && job->joining.expected == 0)
        aside = find_aside_locked(job, known);
    for (uint32_t i = 0, number = 0;
         status == MUSTER_OK && i < known && job->lane_count < lanes_max; i++) {
        struct run_device *device = m->devices[i];
        if ((only && device != only) || !job_takes_locked(job, device))
            continue;
        if (aside == 0 || !(aside >> number++ & 1))
            status = job_add_lane_locked(job, device, NULL, err);
    }
    if (aside != 0)
        name_aside_locked(job, known, aside);
    job->lane_room = job->lane_count + job->joining.expected;
    const struct run_device *unable = job->lane_count == 0 ? find_unable_locked(job) : NULL;
    struct muster_kernel *without = unable ? find_without_form_locked(job, unable) : NULL;
    char stuck[sizeof job->lane_ids[0]] = "";
    for (uint32_t i = 0; i < m->device_count; i++)
        if (m->devices[i]->stuck_calls > 0 || m->devices[i]->overdue > 0)
            memcpy(stuck, m->devices[i]->info.id, sizeof stuck);
    run_unlock(m);
    if (status != MUSTER_OK || job->lane_count > 0)
        return status;
    if (unable) {
        if (without)
            kernel_explain_no_form(without, unable, &problem);
        else
            pipeline_plan(job->pipeline, unable, job->options.depth == 1, &problem);
        return muster_error_fill(err, MUSTER_E_NO_DEVICE, 0, problem.fix,
                                 "no device can run the job: %s", problem.text);
    }
    if (job->only)
        return muster_error_fill(err, MUSTER_E_NO_DEVICE, 0, "copy the arguments elsewhere",
                                 "no device can run the job: its arguments are in the memory of "
                                 "%s, which is not usable or not among its devices",
                                 job->only->info.id);
    if (*stuck)
        return muster_error_fill(
            err, MUSTER_E_NO_DEVICE, 0, "try again when the driver answers, or restart the process",
            "no device can run the job: the driver of %s does not answer", stuck);
    return muster_error_fill(err, MUSTER_E_NO_DEVICE, 0, "look at `muster devices`",
                             "no device can run the job: %s",
                             job->options.devices ? job->options.devices : "all were asked");
}
