/*
 * How large a job's units, its window and its buffers are, and what the core is told of it.
 */
#include "platform/machine.h"
#include "run/job/pipeline.h"

#define TRIES_DEFAULT 3
/* What a buffer holds, if an item is not larger than that. */
#define BUFFER_BYTES ((size_t)2 << 20)
/*
 * The same where a GPU takes part: below some megabytes its driver's calls cost more than its copies. What
 * a source supplies lies in a ring of many units, and is slower to write and to read the larger that is:
 * from 64 MiB on an H200's host did three quarters of what it does in 16.
 */
#define UNIT_BYTES_GPU ((size_t)4 << 20)
#define UNIT_BYTES_SUPPLIED ((size_t)2 << 20)
/* Slices of a GPU share its link: together they have as much under way as the whole has, if that is not too little. */
#define UNIT_BYTES_SLICE_MIN ((size_t)512 << 10)
/*
 * Where units need no buffers they may be of any size: each costs waking the device's cores. Only the
 * first is small, and a unit takes no longer than this, since it cannot always be stopped.
 */
#define DIRECT_FIRST_BYTES ((size_t)16 << 10)
#define DIRECT_NS 100000000u
#define FIRST_PARTS_MIN 64u
/*
 * What a unit of a reduction reads at most, if a device is given copies of the items. Large partials
 * have few lanes (kernel/partial.h), each of them a thread with many items one after the other: with so
 * much more its kernel takes less time than its copy. 256 bins of bytes take an H200 0.27 ms, whether a
 * unit has one block or a thousand.
 */
#define REDUCED_BYTES ((size_t)16 << 20)
#define REDUCED_BYTES_FEW_LANES ((size_t)32 << 20)
/* The first unit where all devices are GPUs, as a part of the largest: others would take as long. */
#define FIRST_OF_LARGEST 16u
/* Units smaller than that go together: each costs a device's driver several calls. */
#define MERGE_BYTES ((size_t)256 << 10)
#define MERGE_MAX 1024u
/* So many units at least for each lane, so that the last ones do not make others wait. */
#define UNITS_PER_LANE_MIN 16u
/* Outputs begin at such multiples within a buffer. */
#define OUTPUT_ALIGNMENT 256u
/* Units that may be undelivered, for each slot of each lane. */
#define UNITS_PER_SLOT 4
/* The same of lanes that are deeper, beside those in the slots. */
#define UNITS_WAITING 3u

bool job_has_gpu(const struct muster_job *job)
{
    uint32_t i = 0;
    while (i < job->lane_count && job->lanes[i].device->info.kind != MUSTER_KIND_GPU)
        i++;
    return i < job->lane_count;
}

bool job_may_have_gpu(const struct muster_job *job)
{
    return job->joining.expected > 0 || job_has_gpu(job);
}

/* How many lanes the GPU has that has most. */
static uint32_t count_slices(const struct muster_job *job)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < job->lane_count; i++) {
        const struct muster_device_info *info = &job->lanes[i].device->info;
        uint32_t same = 0;
        for (uint32_t k = 0; k < job->lane_count; k++)
            same += job->lanes[k].device->info.domain == info->domain;
        if (info->kind == MUSTER_KIND_GPU && same > most)
            most = same;
    }
    return most;
}

size_t job_unit_bytes_gpu(const struct muster_job *job)
{
    size_t bytes = (job->desc.source ? UNIT_BYTES_SUPPLIED : UNIT_BYTES_GPU) / count_slices(job);
    return bytes > UNIT_BYTES_SLICE_MIN ? bytes : UNIT_BYTES_SLICE_MIN;
}

static uint64_t find_nodes(const struct muster_job *job)
{
    bool has_gpu = job_has_gpu(job);
    uint64_t nodes = 0;
    for (uint32_t i = 0; i < job->lane_count; i++) {
        const struct muster_device_info *info = &job->lanes[i].device->info;
        if (!has_gpu || info->kind == MUSTER_KIND_GPU)
            nodes |= platform_node_bit(info->numa_node);
    }
    return nodes;
}

/* Rounded down to what units are whole numbers of; one at least, where there is any. */
uint64_t job_of_multiples(const struct muster_job *job, uint64_t items)
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
        if (arg_is_written(&job->args[i]) || job->args[i].kind == MUSTER_ARG_SOURCE)
            bytes = arg_item_bytes(&job->args[i]) > UINT64_MAX - bytes
                        ? UINT64_MAX
                        : bytes + arg_item_bytes(&job->args[i]);
    if (options->window_bytes == 0 || bytes == 0)
        return job_of_multiples(job, options->window);
    uint64_t items = options->window_bytes / bytes > 0 ? options->window_bytes / bytes : 1;
    return job_of_multiples(job, options->window > 0 ? least(options->window, items) : items);
}

static uint64_t at_least_one(uint64_t number)
{
    return number > 0 ? number : 1;
}

uint64_t job_find_merge(const struct muster_job *job, size_t item_bytes)
{
    const struct muster_run_options *options = &job->options;
    size_t target = (job_has_gpu(job) ? job_unit_bytes_gpu(job) : MERGE_BYTES) >> job->halvings;
    if (options->kept_max > 0 || options->unit_items == 0 ||
        options->unit_items > target / item_bytes)
        return 1;
    uint64_t count = least(target / (options->unit_items * item_bytes), MERGE_MAX);
    if (job->desc.items != MUSTER_ITEMS_UNKNOWN)
        count = least(count, job->desc.items / options->unit_items /
                                 ((uint64_t)UNITS_PER_LANE_MIN * job->lane_room));
    if (job->window > 0)
        count = least(count, job->window / options->unit_items / (2 * (uint64_t)job->lane_room));
    return at_least_one(count);
}

void job_set_units(struct muster_job *job, uint64_t part_items, uint64_t parts)
{
    if (job->window > 0)
        part_items = at_least_one(least(part_items, job_of_multiples(job, job->window / parts)));
    job->part_items = at_least_one(least(part_items, job->desc.items));
    if (__builtin_mul_overflow(job->part_items, parts, &job->unit_max))
        job->unit_max = UINT64_MAX;
    job->unit_max = at_least_one(least(job->unit_max, job->desc.items));
    job->parts_max = (uint32_t)((job->unit_max - 1) / job->part_items + 1);
}

/* Whether a lane is given copies of the caller's arrays, now or when it joins. */
static bool copies_items(const struct muster_job *job)
{
    bool reads = false, copies = job->joining.expected > 0;
    for (size_t i = 0; i < job->desc.arg_count; i++)
        reads = reads || arg_is_read(&job->args[i]);
    for (uint32_t i = 0; i < job->lane_count; i++)
        copies = copies || !(job->lanes[i].device->info.capabilities & MUSTER_CAN_USE_HOST_MEMORY);
    return reads && copies;
}

/* Whether only partials of a unit, which are small, wait in memory of Muster's. */
static bool holds_partials_only(const struct muster_job *job)
{
    return job_reduces(job) && !job->desc.source;
}

/*
 * Whether units may be as large as suits their devices: nothing of them waits in memory of Muster's, or
 * only partials and no copies of items.
 */
static bool has_large_units(const struct muster_job *job)
{
    return !job->desc.source &&
           (!job->needs_buffers || (holds_partials_only(job) && !copies_items(job)));
}

static bool are_all_gpus(const struct muster_job *job)
{
    uint32_t i = 0;
    while (i < job->lane_count && job->lanes[i].device->info.kind == MUSTER_KIND_GPU)
        i++;
    return i == job->lane_count && job->lane_count == job->lane_room;
}

/* The largest unit of a reduction. */
static uint64_t find_reduced(const struct muster_job *job, size_t item_bytes)
{
    const struct kernel_partial *partial = job->reduction.with.partial;
    if (!has_large_units(job))
        return (partial->lanes < PARTIAL_LANES_MAX ? REDUCED_BYTES_FEW_LANES : REDUCED_BYTES) /
               item_bytes;
    uint64_t blocks = BUFFER_BYTES / partial->bytes;
    return blocks * partial->block_items;
}
_Static_assert(BUFFER_BYTES >= PARTIAL_BYTES_MAX, "a buffer holds a partial");

/* Bytes of an item in all that is cut, and in its status. */
static size_t all_item_bytes(const struct muster_job *job)
{
    size_t bytes = job->desc.each_status ? sizeof(muster_status) : 0;
    for (size_t i = 0; i < job->desc.arg_count; i++)
        if (arg_is_cut(&job->args[i]) &&
            __builtin_add_overflow(bytes, arg_item_bytes(&job->args[i]), &bytes))
            bytes = SIZE_MAX;
    return bytes;
}

/*
 * How many items a unit may have: as asked for, or what fits into a buffer of the usual size. Only where
 * there are drivers to be spared several go together: who chose small units wants them shared out.
 */
static void plan_units(struct muster_job *job)
{
    bool has_gpu = job_has_gpu(job);
    size_t all_bytes = all_item_bytes(job), way_bytes = kernel_job_item_bytes(job);
    /* Where nothing is read or written, units may be of any size. */
    job->part_items = UINT64_MAX;
    job->parts_max = 1;
    if (all_bytes == 0 || job->desc.items == 0)
        return;
    uint64_t usual = has_gpu && way_bytes > 0 ? job_unit_bytes_gpu(job) / way_bytes
                     : has_large_units(job)   ? UINT64_MAX
                                              : BUFFER_BYTES / all_bytes;
    if (job_reduces(job) && !job->desc.source)
        usual = find_reduced(job, way_bytes > 0 ? way_bytes : all_bytes);
    usual >>= job->halvings;
    uint64_t asked = job->options.unit_items;
    uint64_t items = job_of_multiples(job, asked > 0 ? asked : at_least_one(usual));
    job_set_units(job, items, has_gpu && way_bytes > 0 ? job_find_merge(job, way_bytes) : 1);
}

bool job_add_output(struct muster_job *job, const struct job_result_place *output)
{
    size_t end, bytes;
    if (__builtin_mul_overflow(output->stride, (size_t)job->parts_max, &bytes) ||
        __builtin_add_overflow(job->buffer_bytes, bytes, &end) ||
        __builtin_add_overflow(end, OUTPUT_ALIGNMENT - 1, &end))
        return false;
    job->outputs[job->output_count] = *output;
    job->outputs[job->output_count++].offset = job->buffer_bytes;
    job->buffer_bytes = end & ~(size_t)(OUTPUT_ALIGNMENT - 1);
    return true;
}

/* Makes room for what the argument is in a unit; false if no memory is that large. */
static bool lay_out_arg(struct muster_job *job, const struct muster_arg *arg)
{
    size_t stride, bytes;
    uint64_t group = arg->kind == MUSTER_ARG_PARTIAL ? job->options.unit_multiple : 1;
    /* Parts are whole numbers of blocks, but for a job that is shorter than one. */
    uint64_t in_part = (job->part_items - 1) / group + 1;
    if (!arg_is_cut(arg) || job->unit_max == 0)
        return true;
    if (job->unit_max >= SIZE_MAX - 2 * arg->halo ||
        __builtin_mul_overflow((size_t)job->unit_max + 2 * (size_t)arg->halo, arg->bytes, &bytes) ||
        __builtin_mul_overflow((size_t)in_part, arg->bytes, &stride))
        return false;
    return !arg_is_written(arg) ||
           job_add_output(job, &(struct job_result_place){ .stride = stride,
                                                           .item_bytes = arg->bytes,
                                                           .group = group,
                                                           .array = arg->out });
}

/* The same for the items' statuses. */
static bool lay_out_statuses(struct muster_job *job)
{
    size_t bytes, end;
    job->status_offset = job->buffer_bytes;
    if (!job->desc.each_status)
        return true;
    if (__builtin_mul_overflow((size_t)job->unit_max, sizeof(muster_status), &bytes) ||
        __builtin_add_overflow(job->buffer_bytes, bytes, &end) ||
        __builtin_add_overflow(end, OUTPUT_ALIGNMENT - 1, &end))
        return false;
    job->buffer_bytes = end & ~(size_t)(OUTPUT_ALIGNMENT - 1);
    return true;
}

/* Where each written argument lies in a buffer. */
muster_status job_lay_out(struct muster_job *job, struct muster_error *err)
{
    bool fits = true;
    job_find_output(job);
    job->window = find_window(job);
    if (job->pipeline && job->window > 0 &&
        job->window < least(job->pipeline->every, job->desc.items))
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "use a larger window",
                                 "a stage takes %u units together, and the window holds %llu items",
                                 job->pipeline->every, (unsigned long long)job->window);
    if (job->pipeline)
        pipeline_plan_units(job);
    else
        plan_units(job);
    if (job->pipeline)
        fits = pipeline_lay_out(job);
    for (size_t i = 0; i < job->desc.arg_count; i++)
        fits = fits && lay_out_arg(job, &job->args[i]);
    fits = fits && lay_out_statuses(job);
    /* Where nothing is ever written into a buffer, they have no memory. */
    if (!job->needs_buffers)
        job->buffer_bytes = 0;
    if (fits)
        return MUSTER_OK;
    return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "use smaller units",
                             "a unit of %llu items is larger than any memory",
                             (unsigned long long)job->unit_max);
}

static bool has_arg(const struct muster_job *job, enum muster_arg_kind kind)
{
    size_t i = 0;
    while (i < job->desc.arg_count && job->args[i].kind != kind)
        i++;
    return i < job->desc.arg_count;
}

void job_set_core_options(struct muster_job *job)
{
    const struct muster_run_options *options = &job->options;
    uint32_t depth = job->pipeline ? pipeline_depth(job) : kernel_job_depth(job);
    bool carries = job->pipeline && pipeline_carries(job->pipeline);
    /*
     * Where several of the caller's units go together the core chooses how many: fewer for a slow
     * device, and towards the end, so that all devices finish together.
     */
    bool is_merged = job->parts_max > 1 && (!job->pipeline || job->pipeline->every == 1);
    bool is_fixed = !is_merged && (options->unit_items > 0 || job->has_fixed_units);
    uint32_t slots = job->lane_room * depth;
    bool is_deep = job->pipeline || job_may_have_gpu(job);
    /* Lanes that may come have slots too: a job that ends before touches no more memory than it must. */
    uint32_t waiting = job->joining.expected > 0 ? 1 : UNITS_WAITING;
    uint32_t units = is_deep ? slots + waiting * job->lane_room : UNITS_PER_SLOT * slots;
    /* Each that is out may be cut in two. */
    if (is_deep && job->output == JOB_OUTPUT_CUTS)
        units += slots;
    bool do_gpus_reduce = are_all_gpus(job) && holds_partials_only(job);
    uint64_t first = 0, unit_ns = 0;
    /* Of a device that is alone all units but the first are as large as they can be. */
    if (has_large_units(job) || (do_gpus_reduce && job->lane_room == 1))
        /* Well below the caller's own limit. */
        unit_ns = options->timeout_ns > 0 ? least(DIRECT_NS, at_least_one(options->timeout_ns / 8))
                                          : DIRECT_NS;
    if (unit_ns > 0 || do_gpus_reduce)
        first = job->desc.items / FIRST_PARTS_MIN;
    /* A GPU needs as long for a few items as for many thousands. */
    if (do_gpus_reduce && !has_large_units(job))
        first = least(first, job->unit_max / FIRST_OF_LARGEST);
    else if (!job_has_gpu(job) && first > 0)
        first = least(first, DIRECT_FIRST_BYTES / all_item_bytes(job));
    job->core_options = (struct job_options){
        .items = job->desc.items,
        .unit = is_fixed ? JOB_UNIT_FIXED : JOB_UNIT_ADAPTIVE,
        .unit_items = job->unit_max > 0 ? job->unit_max : options->unit_items,
        .unit_max = job->unit_max,
        .first_items = first,
        .unit_ns = unit_ns,
        .first_alone = unit_ns > 0 && job_has_gpu(job),
        .grain = is_merged ? job->part_items : options->unit_multiple,
        .window = is_merged ? job->window - job->window % job->part_items : job->window,
        .lane_count = job->lane_room,
        .depth = depth,
        .units_max = units,
        /* What was carried on, or updated in its place, is not there for a second run. */
        .tries = carries || has_arg(job, MUSTER_ARG_DEVICE_INOUT) ? 1
                 : options->tries > 0                             ? options->tries
                                                                  : TRIES_DEFAULT,
        .ordered = !options->unordered,
        /* A late attempt would read what delivery has written in its place. */
        .speculate = !options->no_copies && !has_arg(job, MUSTER_ARG_INOUT) && !carries,
        .tolerant = job->desc.each_status != NULL,
        .place = job->places,
        .policy = job->policy,
        .home = job_home(job),
        .output = job->output,
        .timeout_ns = options->timeout_ns,
        .leaves_out = !options->everyone && (job->aside_count == 0 || job->leaves_out_more),
    };
    job->nodes = find_nodes(job);
    source_plan(job);
    /* Where units run once only, those in the slots are among the undelivered ones. */
    bool runs_once = is_deep && job->lane_room == 1;
    job->buffer_count = job->core_options.units_max + (runs_once ? 0 : slots) + options->kept_max;
}
