/*
 * Jobs: checking what is asked for, making lanes, buffers and the core's state, the conductor that
 * delivers in order, and the report.
 */
#include "base/allocator.h"
#include "base/invariant.h"
#include "platform/machine.h"
#include "run/job/pipeline.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_DEFAULT 2
#define DEPTH_MAX 64
#define KEPT_MAX (1u << 20)
#define TRIES_DEFAULT 3
#define HALO_MAX ((uint64_t)1 << 40)
/* What a buffer holds, if an item is not larger than that. */
#define BUFFER_BYTES ((size_t)2 << 20)
/* The same where a GPU takes part: below some megabytes its driver's calls cost more than its copies. */
#define BUFFER_BYTES_GPU ((size_t)4 << 20)
/* Written arguments begin at such multiples within a buffer. */
#define OUTPUT_ALIGNMENT 64u
/* Units that may be undelivered, for each slot of each lane. */
#define UNITS_PER_SLOT 4
/* Of lines, which are deeper: beside those in the slots, for each lane. */
#define LINE_UNITS_WAITING 3u
/* A look at threads that will leave by themselves, where nobody says that they went away. */
#define LOOK_AGAIN_NS 1000000u
/* muster_close waits so long for a thread that is away, in case it returns at once. */
#define ABANDON_GRACE_NS 100000000u

void job_note_locked(struct muster_job *job, const struct muster_error *error)
{
    if (job->error.status == MUSTER_OK)
        job->error = *error;
}

/* Checking what is asked for. */

static muster_status check_arg(const struct muster_arg *arg, struct muster_error *err)
{
    if (arg->halo > 0 && (arg->kind != MUSTER_ARG_SOURCE || arg->halo > HALO_MAX))
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                 "a halo of %llu items; at most %llu, and of a source alone",
                                 (unsigned long long)arg->halo, (unsigned long long)HALO_MAX);
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
        return MUSTER_OK;
    case MUSTER_ARG_SOURCE:
        if (arg->bytes > 0)
            return MUSTER_OK;
        break;
    }
    return run_bad_argument(err, "a job's argument",
                            "its kind is unknown, or it has no memory or size");
}

/* Of what is handed to the kernel by value. */
static size_t value_bytes(const struct muster_arg *arg)
{
    return arg->kind == MUSTER_ARG_VALUE   ? arg->bytes
           : arg->kind == MUSTER_ARG_FIRST ? sizeof(uint64_t)
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
        has_arrays =
            has_arrays || (job_cuts(&desc->args[i]) && (desc->args[i].in || desc->args[i].out));
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

static muster_status check_desc(const struct muster_job_desc *desc, struct muster_error *err)
{
    const struct muster_run_options *options = desc->options;
    if (options->kept_max > KEPT_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL, "kept_max is %u; at most %u",
                                 options->kept_max, KEPT_MAX);
    if (options->depth > DEPTH_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL, "depth is %u; at most %d",
                                 options->depth, DEPTH_MAX);
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
        uint64_t bytes;
        muster_status status = check_arg(&desc->args[i], err);
        if (status != MUSTER_OK)
            return status;
        values += value_bytes(&desc->args[i]);
        if (values > MUSTER_ARG_BYTES_MAX)
            return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "put large values into data",
                                     "the values have more than %d bytes", MUSTER_ARG_BYTES_MAX);
        if (__builtin_mul_overflow(items, (uint64_t)desc->args[i].bytes, &bytes))
            return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL,
                                     "argument %zu of %llu items is larger than any memory", i,
                                     (unsigned long long)desc->items);
    }
    return check_source(desc, err);
}

/* Which policy is meant. */
static muster_status find_policy(struct muster_job *job, struct muster_error *err)
{
    static const char *const names[] = { [JOB_ROUND_ROBIN] = "round-robin",
                                         [JOB_LEAST_LOADED] = "least-loaded",
                                         [JOB_WEIGHTED] = "weighted",
                                         [JOB_ADAPTIVE] = "adaptive",
                                         [JOB_EARLIEST_FINISH] = "earliest-finish" };
    const char *name = job->options.policy;
    job->places = name && strcmp(name, "claim") != 0;
    if (!job->places)
        return MUSTER_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        job->policy = (enum job_policy)i;
        if (strcmp(name, names[i]) == 0)
            return MUSTER_OK;
    }
    bool is_sticky = strcmp(name, "sticky") == 0;
    return muster_error_fill(
        err, MUSTER_E_INVALID, 0,
        "claim, round-robin, least-loaded, weighted, adaptive or earliest-finish",
        "the policy of a job is \"%s\", which %s", name,
        is_sticky ? "goes by a key that units do not have" : "it does not know");
}

/* What the kernel's source says it takes, where there is one. */
static muster_status check_kernel(const struct muster_job_desc *desc, struct muster_error *err)
{
    struct kernel_argument given[MUSTER_ARGS_MAX];
    for (size_t i = 0; i < desc->arg_count; i++) {
        size_t bytes = value_bytes(&desc->args[i]);
        given[i] = (struct kernel_argument){ bytes == 0, bytes };
    }
    return kernel_check_arguments(desc->kernel, given, desc->arg_count, err);
}

/* What it refers to must be this runtime's, and still be there. */
static muster_status check_owners(struct muster *m, const struct muster_job_desc *desc,
                                  struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    void *entry;
    if (desc->pipeline)
        return pipeline_check_job(m, desc, err);
    if (!kernel_is_of(desc->kernel, m))
        return run_bad_argument(err, "a job", "the kernel is another runtime's");
    status = check_kernel(desc, err);
    run_lock(m);
    for (size_t i = 0; i < desc->arg_count && status == MUSTER_OK; i++)
        if (desc->args[i].kind == MUSTER_ARG_ALL)
            status = table_find_locked(&m->data, desc->args[i].data.index,
                                       desc->args[i].data.generation, "data", &entry, err);
    run_unlock(m);
    return status;
}

/* Sizes. */

bool job_has_gpu(const struct muster_job *job)
{
    uint32_t i = 0;
    while (i < job->lane_count && job->lanes[i].device->info.kind != MUSTER_KIND_GPU)
        i++;
    return i < job->lane_count;
}

/* Rounded down to what units are whole numbers of; one at least, where there is any. */
static uint64_t of_multiples(const struct muster_job *job, uint64_t items)
{
    uint64_t multiple = job->options.unit_multiple;
    if (multiple <= 1 || items == 0)
        return items;
    return items < multiple ? multiple : items - items % multiple;
}

/* The window in items: the options give it in items, or in bytes of what waits on the host, or both. */
static uint64_t find_window(const struct muster_job *job)
{
    const struct muster_run_options *options = &job->options;
    uint64_t bytes = job->desc.each_status ? sizeof(muster_status) : 0;
    if (job->pipeline)
        bytes = pipeline_window_bytes(job->pipeline);
    for (size_t i = 0; i < job->desc.arg_count; i++)
        if (job_writes(&job->args[i]) || job->args[i].kind == MUSTER_ARG_SOURCE)
            bytes =
                job->args[i].bytes > UINT64_MAX - bytes ? UINT64_MAX : bytes + job->args[i].bytes;
    if (options->window_bytes == 0 || bytes == 0)
        return of_multiples(job, options->window);
    uint64_t items = options->window_bytes / bytes > 0 ? options->window_bytes / bytes : 1;
    return of_multiples(job, options->window > 0 ? least(options->window, items) : items);
}

/* How many items a unit may have: as asked for, or what fits into a buffer of the usual size. */
static uint64_t find_unit_max(const struct muster_job *job)
{
    const struct muster_run_options *options = &job->options;
    size_t item_bytes = job->desc.each_status ? sizeof(muster_status) : 0;
    for (size_t i = 0; i < job->desc.arg_count; i++)
        if (job_cuts(&job->args[i]) &&
            __builtin_add_overflow(item_bytes, job->args[i].bytes, &item_bytes))
            item_bytes = SIZE_MAX;
    if (item_bytes == 0)
        return 0;
    size_t usual = job_has_gpu(job) ? BUFFER_BYTES_GPU : BUFFER_BYTES;
    uint64_t most = usual / item_bytes > 0 ? usual / item_bytes : 1;
    if (options->unit_items > 0)
        most = options->unit_items;
    if (job->window > 0)
        most = least(most, job->window);
    return least(of_multiples(job, most), job->desc.items);
}

/* Makes room in a buffer for a unit of such items; false if no memory is that large. */
static bool add_output(struct muster_job *job, size_t item_bytes, size_t *offset)
{
    size_t end, bytes;
    if (__builtin_mul_overflow((size_t)job->unit_max, item_bytes, &bytes) ||
        __builtin_add_overflow(job->buffer_bytes, bytes, &end) ||
        __builtin_add_overflow(end, OUTPUT_ALIGNMENT - 1, &end))
        return false;
    *offset = job->buffer_bytes;
    job->buffer_bytes = end & ~(size_t)(OUTPUT_ALIGNMENT - 1);
    return true;
}

/* Where each written argument lies in a buffer. */
static muster_status lay_out(struct muster_job *job, struct muster_error *err)
{
    bool fits = true;
    job->window = find_window(job);
    if (job->pipeline && job->window > 0 &&
        job->window < least(job->pipeline->every, job->desc.items))
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "use a larger window",
                                 "a stage takes %u units together, and the window holds %llu items",
                                 job->pipeline->every, (unsigned long long)job->window);
    if (job->pipeline)
        pipeline_plan_units(job);
    else
        job->unit_max = find_unit_max(job);
    if (job->pipeline)
        fits = pipeline_lay_out(job);
    for (size_t i = 0; i < job->desc.arg_count; i++) {
        const struct muster_arg *arg = &job->args[i];
        size_t bytes;
        if (job_writes(arg))
            fits = fits && add_output(job, arg->bytes, &job->out_offsets[i]);
        else if (job_cuts(arg))
            fits = fits && job->unit_max < SIZE_MAX - 2 * arg->halo &&
                   !__builtin_mul_overflow((size_t)job->unit_max + 2 * (size_t)arg->halo,
                                           arg->bytes, &bytes);
    }
    if (job->desc.each_status)
        fits = fits && add_output(job, sizeof(muster_status), &job->status_offset);
    if (fits)
        return MUSTER_OK;
    return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "use smaller units",
                             "a unit of %llu items is larger than any memory",
                             (unsigned long long)job->unit_max);
}

static bool has_inout(const struct muster_job *job)
{
    size_t i = 0;
    while (i < job->desc.arg_count && job->args[i].kind != MUSTER_ARG_INOUT)
        i++;
    return i < job->desc.arg_count;
}

static void set_core_options(struct muster_job *job)
{
    const struct muster_run_options *options = &job->options;
    uint32_t depth = job->pipeline        ? pipeline_depth(job)
                     : options->depth > 0 ? options->depth
                                          : DEPTH_DEFAULT;
    bool carries = job->pipeline && pipeline_carries(job->pipeline);
    bool is_fixed = options->unit_items > 0 || job->has_fixed_units;
    uint32_t slots = job->lane_count * depth;
    job->core_options = (struct job_options){
        .items = job->desc.items,
        .unit = is_fixed ? JOB_UNIT_FIXED : JOB_UNIT_ADAPTIVE,
        .unit_items = job->pipeline ? job->unit_max : options->unit_items,
        .unit_max = job->unit_max,
        .grain = options->unit_multiple,
        .window = job->window,
        .lane_count = job->lane_count,
        .depth = depth,
        .units_max =
            job->pipeline ? slots + LINE_UNITS_WAITING * job->lane_count : UNITS_PER_SLOT * slots,
        /* What was carried on is not there for a second run. */
        .tries = carries              ? 1
                 : options->tries > 0 ? options->tries
                                      : TRIES_DEFAULT,
        .ordered = !options->unordered,
        /* A late attempt would read what delivery has written in its place. */
        .speculate = !options->no_copies && !has_inout(job) && !carries,
        .tolerant = job->desc.each_status != NULL,
        .place = job->places,
        .policy = job->policy,
        .timeout_ns = options->timeout_ns,
    };
    source_plan(job);
    /* Where units run once only, those in the slots are among the undelivered ones. */
    bool runs_once = job->pipeline && job->lane_count == 1;
    job->buffer_count = job->core_options.units_max + (runs_once ? 0 : slots) + options->kept_max;
}

/* Which devices take part. */

/* A kernel of the job's that the device has no form of; NULL if it can run all. */
static struct muster_kernel *find_without_form(const struct muster_job *job,
                                               const struct run_device *device)
{
    struct muster_kernel *without = NULL;
    if (job->pipeline)
        pipeline_has_forms(job->pipeline, device, &without);
    else if (!kernel_has_form(job->desc.kernel, device))
        without = job->desc.kernel;
    return without;
}

/* Whether it can run the job, if it is there. */
static bool is_able(const struct muster_job *job, const struct run_device *device)
{
    if (find_without_form(job, device))
        return false;
    return !job->pipeline || pipeline_plan(job->pipeline, device, job->options.depth == 1, NULL);
}

static bool takes_part_locked(const struct muster_job *job, const struct run_device *device)
{
    const char *devices = job->options.devices;
    if (device_check_locked(device, NULL) != MUSTER_OK || !is_able(job, device))
        return false;
    return !devices || run_list_names(devices, device->info.id);
}

/* A device that would take part if it could run the job; NULL if there is none. */
static const struct run_device *find_unable_locked(const struct muster_job *job)
{
    const char *devices = job->options.devices;
    for (uint32_t i = 0; i < job->m->device_count; i++) {
        const struct run_device *device = job->m->devices[i];
        if (device_check_locked(device, NULL) == MUSTER_OK && !is_able(job, device) &&
            (!devices || run_list_names(devices, device->info.id)))
            return device;
    }
    return NULL;
}

/* Names that no device has are mistakes, to be told at once. */
static muster_status check_devices_locked(const struct muster_job *job, struct muster_error *err)
{
    const struct muster *m = job->m;
    for (const char *at = job->options.devices; at && *at;) {
        size_t length = strcspn(at, ",");
        uint32_t i = 0;
        while (i < m->device_count && (strlen(m->devices[i]->info.id) != length ||
                                       memcmp(m->devices[i]->info.id, at, length) != 0))
            i++;
        if (i == m->device_count)
            return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, "look at `muster devices`",
                                     "the job asks for \"%.*s\", and there is no such device",
                                     (int)length, at);
        at += length + (at[length] == ',');
    }
    return MUSTER_OK;
}

static void find_compilers(const struct muster_job *job)
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
        if (takes_part_locked(job, device) && (!best || device->info.weight > best->info.weight))
            best = device;
    }
    return best;
}

/* Room for a lane on each device there is. */
static muster_status allocate_lanes(struct muster_job *job, struct muster_error *err)
{
    struct muster *m = job->m;
    run_lock(m);
    job->lanes_max = m->device_count;
    run_unlock(m);
    job->lanes = allocator_take(&m->allocator, job->lanes_max, sizeof *job->lanes);
    job->lane_ids = allocator_take(&m->allocator, job->lanes_max, sizeof *job->lane_ids);
    job->lane_reports = allocator_take(&m->allocator, job->lanes_max, sizeof *job->lane_reports);
    return job->lanes && job->lane_ids && job->lane_reports ? MUSTER_OK
                                                            : run_no_memory(err, "lanes");
}

/* Pins the devices of the job; each has a lane. */
static muster_status find_devices(struct muster_job *job, struct muster_error *err)
{
    struct muster *m = job->m;
    struct muster_error problem;
    muster_status status = device_probe_all(m, err);
    if (status != MUSTER_OK)
        return status;
    if ((status = allocate_lanes(job, err)) != MUSTER_OK)
        return status;
    find_compilers(job);
    run_lock(m);
    status = check_devices_locked(job, err);
    uint32_t lanes_max = job->pipeline ? pipeline_lanes_max(job->pipeline) : job->lanes_max;
    /* Host stages alone have no use for a device. */
    bool is_one = job->pipeline && lanes_max == 1 && job->pipeline->declaration.stream_count > 0;
    const struct run_device *only = is_one ? find_heaviest_locked(job) : NULL;
    /* Devices that came after the room was made are for the next job. */
    for (uint32_t i = 0; status == MUSTER_OK && i < job->lanes_max && job->lane_count < lanes_max;
         i++) {
        struct run_device *device = m->devices[i];
        if ((only && device != only) || !takes_part_locked(job, device))
            continue;
        struct run_lane *lane = &job->lanes[job->lane_count];
        *lane = (struct run_lane){
            .job = job, .device = device, .has_device_pin = true, .index = job->lane_count
        };
        device->pins++;
        memcpy(job->lane_ids[job->lane_count], device->info.id, sizeof job->lane_ids[0]);
        job->lane_count++;
    }
    const struct run_device *unable = job->lane_count == 0 ? find_unable_locked(job) : NULL;
    char stuck[sizeof job->lane_ids[0]] = "";
    for (uint32_t i = 0; i < m->device_count; i++)
        if (m->devices[i]->stuck_calls > 0)
            memcpy(stuck, m->devices[i]->info.id, sizeof stuck);
    run_unlock(m);
    if (status != MUSTER_OK || job->lane_count > 0)
        return status;
    if (unable) {
        struct muster_kernel *without = find_without_form(job, unable);
        if (without)
            kernel_explain_no_form(without, unable, &problem);
        else
            pipeline_plan(job->pipeline, unable, job->options.depth == 1, &problem);
        return muster_error_fill(err, MUSTER_E_NO_DEVICE, 0, problem.fix,
                                 "no device can run the job: %s", problem.text);
    }
    if (*stuck)
        return muster_error_fill(
            err, MUSTER_E_NO_DEVICE, 0, "try again when the driver answers, or restart the process",
            "no device can run the job: the driver of %s does not answer", stuck);
    return muster_error_fill(err, MUSTER_E_NO_DEVICE, 0, "look at `muster devices`",
                             "no device can run the job: %s",
                             job->options.devices ? job->options.devices : "all were asked");
}

/* Memory. */

static muster_status allocate_buffers(struct muster_job *job, struct muster_error *err)
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
    while (job->free_count < job->buffer_count) {
        job->free_buffers[job->free_count] = job->free_count;
        job->free_count++;
    }
    if (job->buffer_bytes == 0)
        return MUSTER_OK;
    if (__builtin_mul_overflow(job->buffer_bytes, (size_t)job->buffer_count, &job->memory_bytes) ||
        !(job->memory = platform_pages_map(job->memory_bytes, -1)))
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, "use smaller units, or fewer devices",
                                 "no host memory for %u buffers of %zu bytes", job->buffer_count,
                                 job->buffer_bytes);
    if (job_has_gpu(job))
        platform_pages_prefer_large(job->memory, job->memory_bytes);
    return MUSTER_OK;
}

/* Lanes of one failure domain have one number, counted within the job. */
static uint32_t domain_of(const struct muster_job *job, uint32_t lane)
{
    uint32_t first = 0;
    while (job->lanes[first].device->info.domain != job->lanes[lane].device->info.domain)
        first++;
    return first;
}

static muster_status make_core(struct muster_job *job, struct muster_error *err)
{
    size_t bytes = job_bytes(&job->core_options);
    if (bytes == 0)
        return run_bad_argument(err, "a job", "its options contradict each other");
    void *memory = allocator_take(&job->m->allocator, bytes, 1);
    if (!memory)
        return run_no_memory(err, "a job");
    job->start_ns = job->end_ns = platform_clock_ns();
    job->core = job_init(memory, &job->core_options, job->start_ns);
    for (uint32_t i = 0; i < job->lane_count; i++)
        job_lane_describe(job->core, i, domain_of(job, i), job->lanes[i].device->info.weight);
    return MUSTER_OK;
}

static void copy_values(struct muster_job *job)
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
    kernel_hold_locked(kernel);
    run_unlock(m);
    return MUSTER_OK;
}

static muster_status hold_kernels(struct muster_job *job, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    if (!job->pipeline)
        return job_hold_kernel(job, job->desc.kernel, err);
    for (uint32_t i = 0; i < job->pipeline->declaration.stage_count && status == MUSTER_OK; i++)
        if (job->pipeline->stages[i].kernel)
            status = job_hold_kernel(job, job->pipeline->stages[i].kernel, err);
    return status;
}

static void let_kernels_go(struct muster_job *job)
{
    while (job->kernels) {
        struct kernel_hold *hold = job->kernels;
        job->kernels = hold->next;
        kernel_let_go(hold->kernel);
        allocator_give(&job->m->allocator, hold, 1, sizeof *hold);
    }
}

/* Frees the job's own memory; its lanes are torn down and nothing of it is under way. */
static void free_job(struct muster_job *job)
{
    struct muster *m = job->m;
    uint32_t depth = job->core_options.depth;
    allocator_give(&m->allocator, job->result_bytes, (size_t)job->buffer_count * MUSTER_ARGS_MAX,
                   job->parts_max * sizeof *job->result_bytes);
    for (uint32_t i = 0; job->lanes && i < job->lane_count; i++) {
        line_free(&job->lanes[i]);
        allocator_give(&m->allocator, job->lanes[i].buffers,
                       (size_t)job->buffer_count * MUSTER_ARGS_MAX, sizeof(muster_block));
        allocator_give(&m->allocator, job->lanes[i].slots, depth, sizeof(struct lane_slot));
    }
    allocator_give(&m->allocator, job->lane_reports, job->lanes_max, sizeof *job->lane_reports);
    allocator_give(&m->allocator, job->lane_ids, job->lanes_max, sizeof *job->lane_ids);
    allocator_give(&m->allocator, job->lanes, job->lanes_max, sizeof *job->lanes);
    if (job->memory)
        platform_pages_unmap(job->memory, job->memory_bytes);
    kept_free(job);
    source_free(job);
    allocator_give(&m->allocator, job->unit_failures, job->core_options.units_max,
                   sizeof *job->unit_failures);
    allocator_give(&m->allocator, job->unit_buffers, job->core_options.units_max,
                   sizeof *job->unit_buffers);
    allocator_give(&m->allocator, job->free_buffers, job->buffer_count, sizeof *job->free_buffers);
    if (job->core)
        allocator_give(&m->allocator, job->core, job_bytes(&job->core_options), 1);
    let_kernels_go(job);
    pipeline_let_go(job->pipeline);
    allocator_give(&m->allocator, job, 1, sizeof *job);
}

/* Delivery. */

muster_status job_call_sink(struct muster_job *job, const struct muster_result *result)
{
    if (!job->desc.sink)
        return MUSTER_OK;
    thread_goes_away(&job->conductor);
    muster_status status = job->desc.sink(job->desc.sink_user, result);
    thread_is_back(&job->conductor);
    return status;
}

/* Writes the items that did not fail. */
static void write_array(struct muster *m, char *to, const char *from, size_t item_bytes,
                        const muster_status *statuses, uint64_t items)
{
    for (uint64_t begin = 0, end; begin < items; begin = end) {
        bool is_good = !statuses || statuses[begin] == MUSTER_OK;
        end = statuses ? begin + 1 : items;
        while (end < items && (statuses[end] == MUSTER_OK) == is_good)
            end++;
        if (is_good)
            copiers_copy(m, to + begin * item_bytes, from + begin * item_bytes,
                         (end - begin) * item_bytes);
    }
}

/* Writes the caller's arrays and calls the sink. No lock is held. */
static muster_status deliver(struct muster_job *job, uint32_t buffer, struct muster_range range,
                             const char *supplied)
{
    const void *outputs[MUSTER_ARGS_MAX];
    size_t bytes[MUSTER_ARGS_MAX];
    size_t count = 0;
    uint64_t items = range.end - range.begin;
    const muster_status *statuses = job_statuses(job, buffer);
    if (job->pipeline)
        return pipeline_deliver(job, buffer, range);
    for (size_t i = 0; i < job->desc.arg_count; i++) {
        const struct muster_arg *arg = &job->args[i];
        if (!job_writes(arg))
            continue;
        const char *from = job_buffer(job, buffer) + job->out_offsets[i];
        if (arg->out)
            write_array(job->m, (char *)arg->out + range.begin * arg->bytes, from, arg->bytes,
                        statuses, items);
        outputs[count] = from;
        bytes[count++] = items * arg->bytes;
    }
    if (statuses)
        memcpy(job->desc.each_status + range.begin, statuses, items * sizeof *statuses);
    const struct muster_result result = { .size = sizeof result,
                                          .range = range,
                                          .outputs = outputs,
                                          .output_count = count,
                                          .output_bytes = bytes,
                                          .statuses = statuses,
                                          .supplied = supplied,
                                          .job = job,
                                          .buffer = buffer };
    return job_call_sink(job, &result);
}

/*
 * Adds a range to MUSTER_JOB_FAILED_MAX of them at most, which stay in item order and apart. One for
 * which there is no room is joined with its neighbour, and so is what lies between.
 */
static void add_failed(struct muster_range *ranges, size_t *count, struct muster_range range)
{
    size_t first = *count;
    while (first > 0 && ranges[first - 1].end >= range.begin)
        first--;
    size_t last = first;
    while (last < *count && ranges[last].begin <= range.end)
        last++;
    if (first == last && *count == MUSTER_JOB_FAILED_MAX) {
        first -= first > 0;
        last = first + 1;
    }
    if (first < last) {
        range.begin = least(range.begin, ranges[first].begin);
        range.end = ranges[last - 1].end > range.end ? ranges[last - 1].end : range.end;
    }
    memmove(&ranges[first + 1], &ranges[last], (*count - last) * sizeof *ranges);
    ranges[first] = range;
    *count += 1 - (last - first);
}

static bool has_failed_items(const struct muster_job *job, uint32_t buffer,
                             struct muster_range range)
{
    const muster_status *statuses = job_statuses(job, buffer);
    uint64_t i = 0, items = range.end - range.begin;
    while (statuses && i < items && statuses[i] == MUSTER_OK)
        i++;
    return statuses && i < items;
}

/* Of a unit that was delivered: which of its items failed. */
static void note_statuses_locked(struct muster_job *job, uint32_t buffer, struct muster_range range)
{
    const muster_status *statuses = job_statuses(job, buffer);
    uint64_t items = range.end - range.begin;
    for (uint64_t begin = 0, end; statuses && begin < items; begin = end) {
        end = begin + 1;
        if (statuses[begin] == MUSTER_OK)
            continue;
        while (end < items && statuses[end] != MUSTER_OK)
            end++;
        const struct muster_range failed = { range.begin + begin, range.begin + end };
        if (job->failed_items == 0)
            muster_error_fill(&job->first_failed, MUSTER_E_FAILED, 0, "look at each_status",
                              "item %llu failed: %s", (unsigned long long)failed.begin,
                              muster_status_message(statuses[begin]));
        job->failed_items += end - begin;
        add_failed(job->failed, &job->failed_count, failed);
    }
}

/* Delivers the next result, if there is one. Called with the lock, which is not held meanwhile. */
static bool deliver_next_locked(struct muster_job *job)
{
    uint32_t unit;
    struct muster_range range;
    if (!job_next_result(job->core, &unit, &range))
        return false;
    bool has_failed = job_has_failed(job->core, unit);
    uint32_t buffer = has_failed ? job_take_buffer_locked(job) : job->unit_buffers[unit];
    muster_status failure = job->unit_failures[unit];
    const struct run_source *source = &job->source;
    /*
     * Undelivered items stay in the ring. It may be left for another meanwhile, and that is not left
     * for this one again before the unit is delivered: all that is read from there lies at or after
     * the oldest undelivered item, and a ring is left to what a hung device reads before that.
     */
    const char *supplied = source->ring ? source->ring + source_offset(source, range.begin) : NULL;
    uint64_t begin_ns = trace_clock(job->m);
    run_unlock(job->m);
    /* A unit of which nothing came back is delivered as what it is. */
    for (uint64_t i = 0; has_failed && i < range.end - range.begin; i++)
        job_statuses(job, buffer)[i] = failure;
    muster_status status = deliver(job, buffer, range, supplied);
    bool has_failures = status == MUSTER_OK && has_failed_items(job, buffer, range);
    run_lock(job->m);
    /* The job has been concluded without this result. */
    if (thread_is_given_up(&job->conductor))
        return true;
    /* Reports may be asked for at any time, so this one is written with the lock. */
    if (has_failures)
        note_statuses_locked(job, buffer, range);
    if (status == MUSTER_OK) {
        job_delivered(job->core, unit);
        job->end_ns = platform_clock_ns();
    } else {
        struct muster_error problem;
        muster_error_fill(&problem, status, 0, NULL, "the sink refused items %llu to %llu: %s",
                          (unsigned long long)range.begin, (unsigned long long)range.end,
                          muster_status_message(status));
        job_note_locked(job, &problem);
        job_sink_failed(job->core, unit);
    }
    trace_delivery_locked(job, range, begin_ns, status);
    if (!job->kept_now)
        job->free_buffers[job->free_count++] = buffer;
    job->kept_now = NULL;
    job_wake_locked(job);
    return true;
}

/* Waiting. */

#define MISSING_BYTES 128

static void add_missing(char *text, const char *format, ...)
{
    size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    if (length > 0 && length + 2 < MISSING_BYTES) {
        memcpy(text + length, ", ", 3);
        length += 2;
    }
    vsnprintf(text + length, MISSING_BYTES - length, format, arguments);
    va_end(arguments);
}

/*
 * What the job's end waits for, or has given up: devices, drivers' calls, the user's code. False if
 * there is nothing. `device` is the first of the devices, or NULL.
 */
static bool name_missing_locked(const struct muster_job *job, char *text,
                                struct run_device **device)
{
    text[0] = 0;
    *device = NULL;
    for (uint32_t i = 0; i < job->lane_count; i++) {
        const struct run_lane *lane = &job->lanes[i];
        const char *id = job->lane_ids[i];
        if (lane->thread.state != THREAD_INSIDE)
            continue;
        if (!*device)
            *device = lane->device;
        if (lane->line && lane->line->is_held_up)
            add_missing(text, "a host stage, for %s", id);
        else if (lane->running > 0)
            add_missing(text, "%s, which still holds %u unit%s", id, lane->running,
                        lane->running == 1 ? "" : "s");
        else
            add_missing(text, "the driver of %s", id);
    }
    if (job->source.thread.state == THREAD_INSIDE)
        add_missing(text, "the source");
    if (job->conductor.state == THREAD_INSIDE &&
        atomic_load_explicit(&job->conductor.is_away, memory_order_relaxed))
        add_missing(text, "the sink");
    return text[0] != 0;
}

/*
 * The job is over, or cancelled: lanes leave, also while the sink is busy, and from now on those that
 * are away have `close_ns` to come back.
 */
static void begin_patience_locked(struct muster_job *job)
{
    if (job->must_leave || job_state(job->core) == JOB_RUNNING)
        return;
    job->must_leave = true;
    job->give_up_ns = platform_deadline_ns(job->m->options.close_ns);
    job_wake_locked(job);
}

static void cancel_locked(struct muster_job *job)
{
    job_cancel(job->core);
    begin_patience_locked(job);
    job_wake_locked(job);
}

/* When to look again, if all that is awaited comes back by itself, and soon. */
static uint64_t next_look_ns(const struct muster_job *job, uint64_t now_ns)
{
    return now_ns < job->give_up_ns ? job->give_up_ns : now_ns + LOOK_AGAIN_NS;
}

/* How the job ended, in the caller's terms. */
static void conclude_locked(struct muster_job *job)
{
    struct muster_error problem = { .size = sizeof problem };
    char of_all[32] = "";
    if (job_items(job->core) != MUSTER_ITEMS_UNKNOWN)
        snprintf(of_all, sizeof of_all, " of %llu", (unsigned long long)job_items(job->core));
    switch (job_state(job->core)) {
    case JOB_DONE:
        job->status = job->failed_items > 0 ? MUSTER_E_FAILED : MUSTER_OK;
        job->error = job->failed_items > 0 ? job->first_failed : problem;
        break;
    case JOB_CANCELLED:
        job->status = muster_error_fill(&problem, MUSTER_E_CANCELLED, 0, NULL,
                                        "the job was cancelled after %llu%s items",
                                        (unsigned long long)job_items_delivered(job->core), of_all);
        job->error = problem;
        break;
    default:
        muster_error_fill(&problem, MUSTER_E_FAILED, 0, NULL, "the job failed");
        job_note_locked(job, &problem);
        job->status = job->error.status;
    }
    /* What was given up may still use the caller's memory, also of a job that others have finished. */
    struct run_device *device;
    char missing[MISSING_BYTES];
    bool is_left = name_missing_locked(job, missing, &device);
    if (is_left) {
        job->status = muster_error_fill(&job->error, MUSTER_E_DEVICE_HUNG, 0,
                                        "keep the job's arrays until the runtime is closed",
                                        "no answer from %s; %llu%s items were delivered", missing,
                                        (unsigned long long)job_items_delivered(job->core), of_all);
        if (device)
            run_error_device(&job->error, device);
    }
    if (job_state(job->core) != JOB_DONE || is_left)
        job->end_ns = platform_clock_ns();
}

/* Lanes that hang, and whose thread does not return from their driver. */
static void note_stuck_locked(struct muster_job *job)
{
    for (uint32_t i = 0; i < job->lane_count; i++) {
        struct job_lane_report report;
        job_lane_report(job->core, i, &report);
        if (report.is_hung)
            lane_note_stuck_locked(&job->lanes[i]);
    }
}

/* Reports. */

static void report_lanes_locked(const struct muster_job *job, uint64_t end_ns,
                                struct muster_report *report)
{
    struct loss loss = { .rate = 0 };
    for (uint32_t i = 0; i < job->lane_count; i++) {
        const struct run_lane *lane = &job->lanes[i];
        struct muster_job_device *device = &job->lane_reports[i];
        struct job_lane_report core;
        uint64_t busy_ns = lane->busy_ns;
        if (!job->is_over && lane->running > 0 && end_ns > lane->busy_since_ns)
            busy_ns += end_ns - lane->busy_since_ns;
        job_lane_report(job->core, i, &core);
        *device = (struct muster_job_device){ .size = sizeof *device,
                                              .items = core.items,
                                              .units = core.units,
                                              .retries = core.retries,
                                              .late = core.copies_lost,
                                              .busy_ns = busy_ns };
        snprintf(device->id, sizeof device->id, "%s", job->lane_ids[i]);
        device->health = core.is_lost   ? MUSTER_HEALTH_LOST
                         : core.is_hung ? MUSTER_HEALTH_SUSPECT
                                        : MUSTER_HEALTH_OK;
        if (busy_ns > 0)
            device->items_per_s = (double)core.items / (double)busy_ns * 1e9;
        loss_add_locked(&loss, lane, core.items, end_ns);
    }
    loss_report(&loss, report);
}

static void make_report_locked(const struct muster_job *job, uint64_t end_ns,
                               struct muster_report *report)
{
    *report = (struct muster_report){ .size = sizeof *report,
                                      .device_count = job->lane_count,
                                      .status = job->status,
                                      .items = job_items(job->core),
                                      .delivered = job_items_delivered(job->core),
                                      .units = job_units_made(job->core),
                                      .retries = job_retries(job->core),
                                      .makespan_ns = end_ns - job->start_ns };
    report->failed_count = job_failed_ranges(job->core, report->failed, MUSTER_JOB_FAILED_MAX);
    for (size_t i = 0; i < job->failed_count; i++)
        add_failed(report->failed, &report->failed_count, job->failed[i]);
    report->failed_items = job->failed_items;
    if (job->pipeline)
        pipeline_report(job, report);
    report_lanes_locked(job, end_ns, report);
}

/* Brings the report up to date. Units that come back late do not change it any more. */
static void look_again_locked(struct muster_job *job)
{
    if (!job->is_over)
        make_report_locked(job, platform_clock_ns(), &job->report);
}

/* Before anything is waited for: what the caller has room for. */
static muster_status check_report(const struct muster_report *report, struct muster_error *err)
{
    if (!report)
        return MUSTER_OK;
    muster_status status = layout_check_room(LAYOUT(muster_report), report, err);
    if (status == MUSTER_OK && report->devices)
        status = layout_check_rooms(LAYOUT(muster_job_device), report->devices,
                                    report->device_capacity, err);
    return status;
}

static void write_devices_locked(const struct muster_job *job, struct muster_job_device *out,
                                 size_t capacity)
{
    for (uint32_t i = 0; i < job->lane_count && i < capacity; i++)
        layout_write_at(LAYOUT(muster_job_device), out, i, &job->lane_reports[i]);
}

static void write_report_locked(struct muster_job *job, struct muster_report *report)
{
    look_again_locked(job);
    struct muster_report filled = job->report;
    filled.devices = report->devices;
    filled.device_capacity = report->device_capacity;
    layout_write(LAYOUT(muster_report), report, &filled);
    if (report->devices)
        write_devices_locked(job, report->devices, report->device_capacity);
}

/* The end. */

/* Looks for what is overdue if it is time to, and else waits until it is or something changes. */
static void look_or_wait_locked(struct muster_job *job)
{
    uint64_t due_ns = job_look_due(job->core), now_ns = platform_clock_ns();
    if (now_ns < due_ns) {
        platform_condition_wait(&job->changed, &job->m->lock,
                                least(due_ns, next_look_ns(job, now_ns)));
        return;
    }
    bool was_running = job_state(job->core) == JOB_RUNNING;
    job_look(job->core, now_ns);
    trace_look_locked(job);
    note_stuck_locked(job);
    if (was_running && job_state(job->core) == JOB_FAILED) {
        struct muster_error problem;
        muster_error_fill(&problem, MUSTER_E_DEVICE_HUNG, 0, NULL,
                          "no device is left: the last does not answer");
        job_note_locked(job, &problem);
    }
    job_wake_locked(job);
}

/*
 * Whether the end waits for the thread. One that had its time and is away, or whose device still
 * `has_work`, is given up.
 */
static bool is_awaited_locked(struct job_thread *thread, bool has_work, bool had_time)
{
    if (thread->state != THREAD_INSIDE || thread_is_given_up(thread))
        return false;
    bool is_away = atomic_load_explicit(&thread->is_away, memory_order_relaxed);
    if (!had_time || !(is_away || has_work))
        return true;
    atomic_store_explicit(&thread->is_given_up, true, memory_order_relaxed);
    return false;
}

static bool are_awaited_locked(struct muster_job *job)
{
    bool had_time = platform_clock_ns() >= job->give_up_ns;
    bool are_awaited = is_awaited_locked(&job->source.thread, false, had_time);
    for (uint32_t i = 0; i < job->lane_count; i++) {
        struct run_lane *lane = &job->lanes[i];
        struct job_lane_report report;
        job_lane_report(job->core, i, &report);
        /* A lane that the core found to hang had its time while the job ran. */
        bool is_awaited =
            is_awaited_locked(&lane->thread, lane->running > 0, had_time || report.is_hung);
        if (thread_is_given_up(&lane->thread))
            lane_note_stuck_locked(lane);
        are_awaited = are_awaited || is_awaited;
    }
    return are_awaited;
}

/*
 * The end of the job: waits until lanes and source have left or are given up, and concludes. Looks
 * on meanwhile: a lane whose device hangs would never leave. Called with the lock, by one thread.
 */
static void end_locked(struct muster_job *job)
{
    job->is_ending = true;
    begin_patience_locked(job);
    while (are_awaited_locked(job))
        look_or_wait_locked(job);
    conclude_locked(job);
    trace_job_locked(job);
    job->is_over = true;
    make_report_locked(job, job->end_ns, &job->report);
    job_wake_locked(job);
}

/* Waits until the job is over. Its sink has as much time as all others, and is then given up. */
static void wait_until_over_locked(struct muster_job *job)
{
    while (!job->is_over) {
        begin_patience_locked(job);
        uint64_t now_ns = platform_clock_ns();
        if (now_ns >= job->give_up_ns && !job->is_ending &&
            !is_awaited_locked(&job->conductor, false, true))
            end_locked(job);
        else
            platform_condition_wait(&job->changed, &job->m->lock, next_look_ns(job, now_ns));
    }
}

/* The job's own thread: delivers, looks for what is overdue, and sees the lanes out. */
static void conduct(void *argument)
{
    struct muster_job *job = argument;
    struct platform_frame frame = { .kind = FRAME_JOB, .runtime = job->m, .object = job };
    platform_frame_enter(&frame);
    run_lock(job->m);
    while (!job->is_known)
        platform_condition_wait(&job->changed, &job->m->lock, UINT64_MAX);
    while (!thread_is_given_up(&job->conductor)) {
        if (deliver_next_locked(job))
            continue;
        if (job_state(job->core) != JOB_RUNNING) {
            end_locked(job);
            break;
        }
        look_or_wait_locked(job);
    }
    job_thread_leave_locked(job, &job->conductor);
    run_unlock(job->m);
    platform_frame_leave(&frame);
}

/* Threads. */

muster_status job_thread_start(struct muster_job *job, struct job_thread *thread,
                               void (*run)(void *), void *argument, const char *name,
                               struct muster_error *err)
{
    run_lock(job->m);
    thread->state = THREAD_INSIDE;
    job->threads++;
    run_unlock(job->m);
    muster_status status = platform_thread_start(&thread->thread, run, argument, name, NULL, err);
    if (status == MUSTER_OK)
        return MUSTER_OK;
    run_lock(job->m);
    thread->state = THREAD_NONE;
    job->threads--;
    run_unlock(job->m);
    return status;
}

void job_thread_leave_locked(struct muster_job *job, struct job_thread *thread)
{
    thread->state = THREAD_LEFT;
    job->threads--;
    job_wake_locked(job);
}

/* All have left. */
static void join_threads(struct muster_job *job)
{
    platform_thread_join(&job->conductor.thread);
    platform_thread_join(&job->source.thread.thread);
    for (uint32_t i = 0; job->lanes && i < job->lane_count; i++)
        platform_thread_join(&job->lanes[i].thread.thread);
    workers_free(job->workers);
    job->workers = NULL;
}

/* Those that have not come back end by themselves, if ever. Called with the lock. */
static void detach_threads_locked(struct muster_job *job)
{
    platform_thread_detach(&job->conductor.thread);
    platform_thread_detach(&job->source.thread.thread);
    for (uint32_t i = 0; i < job->lane_count; i++)
        platform_thread_detach(&job->lanes[i].thread.thread);
    workers_detach(job->workers);
}

static bool has_given_up_locked(const struct muster_job *job)
{
    bool has = thread_is_given_up(&job->conductor) || thread_is_given_up(&job->source.thread);
    for (uint32_t i = 0; i < job->lane_count; i++)
        has = has || thread_is_given_up(&job->lanes[i].thread);
    return has;
}

/* The job is over: leaves it to those threads that were given up, or frees it. */
static void leave_job(struct muster_job *job)
{
    struct muster *m = job->m;
    run_lock(m);
    if (job->lane_threads == 0)
        workers_dismiss(job->workers);
    while (job->threads > 0 && !has_given_up_locked(job))
        platform_condition_wait(&job->changed, &m->lock, UINT64_MAX);
    job->next = m->jobs_left;
    m->jobs_left = job;
    run_unlock(m);
    jobs_free_left(m);
}

/* Starting. */

static muster_status start_lane(struct run_lane *lane, struct muster_error *err)
{
    struct muster_job *job = lane->job;
    run_lock(job->m);
    job->lane_threads++;
    run_unlock(job->m);
    muster_status status = job_thread_start(job, &lane->thread, lane_run, lane, "muster-lane", err);
    if (status == MUSTER_OK)
        return MUSTER_OK;
    run_lock(job->m);
    job->lane_threads--;
    run_unlock(job->m);
    return status;
}

static muster_status start_threads(struct muster_job *job, struct muster_error *err)
{
    muster_status status = source_start(job, err);
    for (uint32_t i = 0; i < job->lane_count && status == MUSTER_OK; i++)
        status = start_lane(&job->lanes[i], err);
    if (status == MUSTER_OK)
        status = job_thread_start(job, &job->conductor, conduct, job, "muster-job", err);
    return status;
}

static muster_status set_up(struct muster_job *job, struct muster_error *err)
{
    muster_status status = find_devices(job, err);
    if (status == MUSTER_OK)
        status = lay_out(job, err);
    if (status != MUSTER_OK)
        return status;
    set_core_options(job);
    if ((status = allocate_buffers(job, err)) != MUSTER_OK ||
        (status = kept_set_up(job, err)) != MUSTER_OK ||
        (status = source_set_up(job, err)) != MUSTER_OK ||
        (status = make_core(job, err)) != MUSTER_OK)
        return status;
    for (uint32_t i = 0; i < job->lane_count && status == MUSTER_OK; i++) {
        status = lane_set_up(&job->lanes[i], err);
        /* A device that turns out to be lost is one that was lost a moment later: others go on. */
        if (muster_status_discards(status) == MUSTER_DISCARD_DEVICE) {
            job_lane_lost(job->core, i, job->start_ns);
            status = job_state(job->core) == JOB_FAILED ? status : MUSTER_OK;
        }
    }
    return status;
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

/* Ends threads that were started though not all could be. */
static void stop(struct muster_job *job)
{
    run_lock(job->m);
    cancel_locked(job);
    while (are_awaited_locked(job))
        look_or_wait_locked(job);
    run_unlock(job->m);
}

/* The fields that sizes depend on, for a job that is not there yet. */
static muster_status describe(struct muster_job *job, struct muster *m,
                              const struct muster_job_desc *desc, struct muster_error *err)
{
    job->m = m;
    job->give_up_ns = UINT64_MAX;
    muster_status status = read_desc(job, desc, err);
    if (status == MUSTER_OK)
        status = check_desc(&job->desc, err);
    if (status == MUSTER_OK)
        status = check_owners(m, &job->desc, err);
    if (status != MUSTER_OK)
        return status;
    copy_values(job);
    status = find_policy(job, err);
    if (status == MUSTER_OK)
        job->pipeline = pipeline_hold(job->desc.pipeline);
    return status == MUSTER_OK ? hold_kernels(job, err) : status;
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
    struct muster_job *job = allocator_take(&m->allocator, 1, sizeof *job);
    if (!job)
        return run_no_memory(err, "a job");
    muster_status status = describe(job, m, desc, err);
    if (status == MUSTER_OK)
        status = platform_condition_init(&job->changed, err);
    if (status != MUSTER_OK) {
        free_job(job);
        return status;
    }
    job->number = (uint32_t)run_count(&m->counts.jobs_numbered, 1) + 1;
    status = set_up(job, err);
    if (status == MUSTER_OK && (status = start_threads(job, err)) != MUSTER_OK)
        stop(job);
    if (status != MUSTER_OK) {
        tear_down(job);
        leave_job(job);
        return status;
    }
    *out = job;
    run_count(&m->counts.jobs_started, 1);
    /* Nothing is delivered yet. */
    for (uint64_t i = 0; job->desc.each_status && i < job->desc.items; i++)
        job->desc.each_status[i] = MUSTER_E_CANCELLED;
    run_lock(m);
    job->next = m->jobs;
    m->jobs = job;
    job->is_known = true;
    if (m->is_closing)
        cancel_locked(job);
    job_wake_locked(job);
    run_unlock(m);
    return MUSTER_OK;
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
        status = find_devices(job, err);
    if (status == MUSTER_OK)
        status = lay_out(job, err);
    if (status == MUSTER_OK) {
        set_core_options(job);
        if (__builtin_mul_overflow((uint64_t)job->buffer_bytes, job->buffer_count, bytes) ||
            __builtin_add_overflow(*bytes, (uint64_t)job->source.ring_bytes, bytes))
            *bytes = UINT64_MAX;
    }
    tear_down(job);
    free_job(job);
    return status;
}

/* Ending. */

/* Whether the job's end has to wait for what this thread is in. */
static bool is_within(const struct muster_job *job)
{
    return platform_frame_is_in(FRAME_JOB, job) || platform_frame_is_in(FRAME_KERNEL, NULL);
}

muster_status muster_job_wait(struct muster_job *job, struct muster_report *report,
                              struct muster_error *err)
{
    if (!job)
        return run_bad_argument(err, "muster_job_wait", "job is NULL");
    muster_status status = check_report(report, err);
    if (status != MUSTER_OK)
        return status;
    if (run_is_forked(job->m))
        return run_say_forked(err);
    run_lock(job->m);
    if (!job->is_over && is_within(job)) {
        run_unlock(job->m);
        return run_say_stuck(err, "muster_job_wait");
    }
    wait_until_over_locked(job);
    status = job->status;
    if (report)
        write_report_locked(job, report);
    if (err && status != MUSTER_OK)
        *err = job->error;
    run_unlock(job->m);
    return status;
}

muster_status muster_job_report(struct muster_job *job, struct muster_report *report,
                                struct muster_error *err)
{
    if (!job || !report)
        return run_bad_argument(err, "muster_job_report", "an argument is NULL");
    muster_status status = check_report(report, err);
    if (status != MUSTER_OK)
        return status;
    if (run_is_forked(job->m))
        return run_say_forked(err);
    run_lock(job->m);
    write_report_locked(job, report);
    run_unlock(job->m);
    return MUSTER_OK;
}

muster_status muster_job_devices(struct muster_job *job, struct muster_job_device *out,
                                 size_t capacity, size_t *count, struct muster_error *err)
{
    if (!job || !count || (!out && capacity > 0))
        return run_bad_argument(err, "muster_job_devices", "an argument is NULL");
    muster_status status = layout_check_rooms(LAYOUT(muster_job_device), out, capacity, err);
    if (status != MUSTER_OK)
        return status;
    if (run_is_forked(job->m))
        return run_say_forked(err);
    *count = job->lane_count;
    if (capacity < job->lane_count)
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0, "give room for *count devices",
                                 "the job has %u devices, and there is room for %zu",
                                 job->lane_count, capacity);
    run_lock(job->m);
    look_again_locked(job);
    write_devices_locked(job, out, capacity);
    run_unlock(job->m);
    return MUSTER_OK;
}

void muster_job_cancel(struct muster_job *job)
{
    if (!job || run_is_forked(job->m))
        return;
    run_lock(job->m);
    cancel_locked(job);
    run_unlock(job->m);
}

muster_status muster_job_progress(struct muster_job *job, struct muster_progress *progress,
                                  struct muster_error *err)
{
    if (!job || !progress)
        return run_bad_argument(err, "muster_job_progress", "an argument is NULL");
    muster_status status = layout_check_room(LAYOUT(muster_progress), progress, err);
    if (status != MUSTER_OK)
        return status;
    if (run_is_forked(job->m))
        return run_say_forked(err);
    run_lock(job->m);
    uint64_t now_ns = job->is_over ? job->end_ns : platform_clock_ns();
    struct muster_progress now = { .items = job_items(job->core),
                                   .delivered = job_items_delivered(job->core),
                                   .elapsed_ns = now_ns - job->start_ns,
                                   .remaining_ns = UINT64_MAX,
                                   .is_over = job->is_over };
    struct run_device *device;
    if (job_state(job->core) != JOB_RUNNING)
        name_missing_locked(job, now.waits_for, &device);
    run_unlock(job->m);
    if (now.delivered > 0 && now.elapsed_ns > 0) {
        double rate = (double)now.delivered / (double)now.elapsed_ns;
        now.items_per_s = rate * 1e9;
        if (now.items != MUSTER_ITEMS_UNKNOWN)
            now.remaining_ns = (uint64_t)((double)(now.items - now.delivered) / rate);
    }
    layout_write(LAYOUT(muster_progress), progress, &now);
    return MUSTER_OK;
}

void jobs_free_left(struct muster *m)
{
    struct muster_job *gone = NULL;
    run_lock(m);
    for (struct muster_job **at = &m->jobs_left; *at;) {
        struct muster_job *job = *at;
        if (job->threads > 0 || job->outstanding > 0) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        job->next = gone;
        gone = job;
    }
    run_unlock(m);
    while (gone) {
        struct muster_job *job = gone;
        gone = job->next;
        join_threads(job);
        platform_condition_deinit(&job->changed);
        free_job(job);
    }
}

void jobs_destroy_unwanted(struct muster *m)
{
    struct muster_job *job;
    do {
        run_lock(m);
        job = m->jobs;
        while (job && !(job->is_unwanted && job->is_over))
            job = job->next;
        if (job)
            job->is_unwanted = false;
        run_unlock(m);
        muster_job_destroy(job);
    } while (job);
}

void muster_job_destroy(struct muster_job *job)
{
    if (!job || run_is_forked(job->m))
        return;
    struct muster *m = job->m;
    muster_job_cancel(job);
    run_lock(m);
    job->is_unwanted = !job->is_over && is_within(job);
    bool is_later = job->is_unwanted;
    run_unlock(m);
    if (is_later)
        return;
    muster_job_wait(job, NULL, NULL);
    files_leave_job(job);
    run_lock(m);
    while (job->users > 0)
        platform_condition_wait(&job->changed, &m->lock, UINT64_MAX);
    struct muster_job **at = &m->jobs;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    run_unlock(m);
    leave_job(job);
}

/* Closing. */

/* Whether a thread of the job's has something of ours to do before it is away or has left. */
static bool is_busy_locked(const struct job_thread *thread)
{
    return thread->state == THREAD_INSIDE &&
           !atomic_load_explicit(&thread->is_away, memory_order_relaxed);
}

static bool has_busy_threads_locked(const struct muster_job *job)
{
    bool has = is_busy_locked(&job->conductor) || is_busy_locked(&job->source.thread);
    for (uint32_t i = 0; i < job->lane_count; i++)
        has = has || is_busy_locked(&job->lanes[i].thread);
    return has;
}

/*
 * Waits for the threads of a job that was given up, as long as it has time; then tells them to leave,
 * and counts those that are away. Called with the lock.
 */
static void abandon_locked(struct muster_job *job, struct jobs_lost *lost)
{
    struct muster *m = job->m;
    char missing[MISSING_BYTES];
    struct run_device *device;
    while (job->threads > 0 && platform_condition_wait(&job->changed, &m->lock, job->give_up_ns)) {}
    if (name_missing_locked(job, missing, &device) && !*lost->what.text) {
        muster_error_fill(&lost->what, MUSTER_E_DEVICE_HUNG, 0, NULL, "%s", missing);
        if (device)
            run_error_device(&lost->what, device);
    }
    for (uint32_t i = 0; i < job->lane_count; i++)
        if (job->lanes[i].thread.state == THREAD_INSIDE)
            job->lanes[i].device->had_its_time = true;
    job->is_abandoned = true;
    job_wake_locked(job);
    /* A thread that is away may be so for a moment only. */
    uint64_t grace_ns = platform_deadline_ns(ABANDON_GRACE_NS);
    while (job->threads > 0 && (platform_clock_ns() < grace_ns || has_busy_threads_locked(job)))
        platform_condition_wait(&job->changed, &m->lock, platform_clock_ns() + LOOK_AGAIN_NS);
    lost->threads += job->threads;
    lost->in_user_code += job->threads - job->lane_threads;
}

void jobs_cancel_all(struct muster *m)
{
    run_lock(m);
    m->is_closing = true;
    for (struct muster_job *job = m->jobs; job; job = job->next)
        cancel_locked(job);
    run_unlock(m);
}

void jobs_await_all(struct muster *m)
{
    run_lock(m);
    for (struct muster_job *job = m->jobs; job;) {
        if (job->is_over) {
            job = job->next;
            continue;
        }
        job->users++;
        wait_until_over_locked(job);
        job->users--;
        job_wake_locked(job);
        job = m->jobs;
    }
    run_unlock(m);
}

void jobs_destroy_all(struct muster *m, struct jobs_lost *lost)
{
    *lost = (struct jobs_lost){ .what = { .size = sizeof lost->what } };
    while (m->jobs)
        muster_job_destroy(m->jobs);
    run_lock(m);
    for (struct muster_job *job = m->jobs_left; job; job = job->next)
        abandon_locked(job, lost);
    for (struct muster_job *job = m->jobs_left; lost->threads > 0 && job; job = job->next)
        detach_threads_locked(job);
    run_unlock(m);
    if (lost->threads > 0)
        return;
    for (struct muster_job *job = m->jobs_left; job; job = job->next)
        join_threads(job);
    jobs_free_left(m);
}

void jobs_free_last(struct muster *m, bool all)
{
    for (struct muster_job *job = m->jobs_left; job; job = job->next)
        for (uint32_t i = 0; i < job->lane_count && !all; i++) {
            if (!job->lanes[i].device->is_hung)
                line_forget(&job->lanes[i]);
            lane_tear_down(&job->lanes[i]);
        }
    run_lock(m);
    for (struct muster_job *job = m->jobs_left; all && job; job = job->next)
        job->outstanding = 0;
    run_unlock(m);
    jobs_free_left(m);
    /* What a device that hangs may still run is not unloaded with kernels either, from here on. */
    for (struct muster_job *job = m->jobs_left; job; job = job->next)
        let_kernels_go(job);
}

/* A job from its start to its end. */
static muster_status run_job(struct muster *m, struct muster_job_desc *desc,
                             const struct muster_run_options *options, struct muster_report *report,
                             struct muster_error *err)
{
    struct muster_job *job;
    if (platform_frame_is_in(FRAME_KERNEL, NULL))
        return run_say_stuck(err, "a job from start to end");
    muster_status status = check_report(report, err);
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

muster_status muster_map(struct muster *m, struct muster_kernel *kernel, uint64_t items,
                         const struct muster_arg *args, size_t arg_count,
                         muster_status *each_status, const struct muster_run_options *options,
                         struct muster_report *report, struct muster_error *err)
{
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .kernel = kernel,
                                    .items = items,
                                    .args = args,
                                    .arg_count = arg_count,
                                    .each_status = each_status };
    if (!each_status && items > 0)
        return run_bad_argument(err, "muster_map", "each_status is NULL");
    return run_job(m, &desc, options, report, err);
}
