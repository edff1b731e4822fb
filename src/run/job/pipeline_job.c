/*
 * Jobs with a pipeline: what they are checked for, how large their units are, and how results that
 * hold several of the caller's units reach his sink one by one.
 */
#include "run/job/pipeline.h"

#include <stdio.h>
#include <string.h>

/* What a slot of the largest buffer holds, where an item is not larger than that. */
#define UNIT_BYTES ((size_t)1 << 20)
#define UNIT_BYTES_GPU ((size_t)4 << 20)
/* Units smaller than that go together: each costs a device's driver several calls. */
#define MERGE_BYTES ((size_t)256 << 10)
#define MERGE_BYTES_GPU ((size_t)4 << 20)
#define MERGE_MAX 1024u
/* So many units at least for each lane, so that the last ones do not make others wait. */
#define UNITS_PER_LANE_MIN 16u
#define DEPTH_MIN 2u
/* From this size on a unit more than there are slots keeps the device busy. */
#define LARGE_UNIT_BYTES ((size_t)16 << 20)
#define OUTPUT_ALIGNMENT 256u
/* Of several units in a slot each begins at such a multiple, where they have items and a fixed part. */
#define PART_ALIGNMENT 16u

muster_status pipeline_check_job(struct muster *m, const struct muster_job_desc *desc,
                                 struct muster_error *err)
{
    const struct muster_pipeline *pipeline = desc->pipeline;
    const char *wrong = NULL;
    if (pipeline->m != m)
        wrong = "the pipeline is another runtime's";
    else if (desc->kernel || desc->arg_count > 0 || desc->each_status)
        wrong = "it has a pipeline, and a kernel, arguments or each_status besides";
    else if (desc->source && desc->input)
        wrong = "it has a source and an input array";
    else if (pipeline->input == PIPE_NONE && (desc->source || desc->input))
        wrong = "the pipeline has no input, and there is a source or an array for one";
    else if (pipeline->input != PIPE_NONE && !desc->source && !desc->input && desc->items > 0)
        wrong = "the pipeline has an input, and there is neither source nor array for it";
    else if (desc->items == MUSTER_ITEMS_UNKNOWN && (!desc->source || desc->output))
        wrong = "a number of items that is not known needs a source, and goes with no arrays";
    else if (desc->output && (pipeline->output_count != 1 ||
                              pipeline->buffers[pipeline->outputs[0]].bytes_fixed > 0))
        wrong = "an output array is for a pipeline with one output, without a fixed part";
    else if (desc->options->kept_max > 0 && pipeline->every > 1)
        wrong = "results cannot be kept where a stage takes several units together";
    if (wrong)
        return run_bad_argument(err, "a pipeline's job", wrong);
    uint64_t bytes, items = desc->items == MUSTER_ITEMS_UNKNOWN ? 0 : desc->items;
    for (uint32_t i = 0; i < pipeline->declaration.buffer_count; i++)
        if (__builtin_mul_overflow(items, (uint64_t)pipeline->buffers[i].bytes_per_item, &bytes))
            return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL,
                                     "buffer '%s' of %llu items is larger than any memory",
                                     pipeline->buffers[i].name, (unsigned long long)items);
    return MUSTER_OK;
}

uint64_t pipeline_window_bytes(const struct muster_pipeline *pipeline)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < pipeline->declaration.buffer_count; i++) {
        const struct pipe_buffer *buffer = &pipeline->declaration.buffers[i];
        if ((buffer->is_input || buffer->is_output) &&
            __builtin_add_overflow(bytes, (uint64_t)pipeline->buffers[i].bytes_per_item, &bytes))
            bytes = UINT64_MAX;
    }
    return bytes;
}

static size_t largest_item(const struct muster_pipeline *pipeline)
{
    size_t bytes = 1;
    for (uint32_t i = 0; i < pipeline->declaration.buffer_count; i++)
        if (pipeline->buffers[i].bytes_per_item > bytes)
            bytes = pipeline->buffers[i].bytes_per_item;
    return bytes;
}

static uint64_t at_least_one(uint64_t number)
{
    return number > 0 ? number : 1;
}

/* How many of the caller's units share copies and launches. */
static uint64_t find_merge(const struct muster_job *job, size_t item_bytes)
{
    const struct muster_run_options *options = &job->options;
    size_t target = job_has_gpu(job) ? MERGE_BYTES_GPU : MERGE_BYTES;
    if (!job->pipeline->may_merge || options->kept_max > 0 || options->unit_items == 0 ||
        options->unit_items > target / item_bytes)
        return 1;
    uint64_t count = least(target / (options->unit_items * item_bytes), MERGE_MAX);
    if (job->desc.items != MUSTER_ITEMS_UNKNOWN)
        count = least(count, job->desc.items / options->unit_items /
                                 ((uint64_t)UNITS_PER_LANE_MIN * job->lane_count));
    if (job->window > 0)
        count = least(count, job->window / options->unit_items / (2 * (uint64_t)job->lane_count));
    return at_least_one(count);
}

void pipeline_plan_units(struct muster_job *job)
{
    const struct muster_run_options *options = &job->options;
    size_t item_bytes = largest_item(job->pipeline);
    size_t usual = job_has_gpu(job) ? UNIT_BYTES_GPU : UNIT_BYTES;
    uint64_t every = job->pipeline->every;
    job->part_items =
        options->unit_items > 0 ? options->unit_items : at_least_one(usual / item_bytes / every);
    uint64_t parts = every > 1 ? every : find_merge(job, item_bytes);
    if (job->window > 0)
        job->part_items = at_least_one(least(job->part_items, job->window / parts));
    job->part_items = at_least_one(least(job->part_items, job->desc.items));
    if (__builtin_mul_overflow(job->part_items, parts, &job->unit_max))
        job->unit_max = UINT64_MAX;
    job->unit_max = at_least_one(least(job->unit_max, job->desc.items));
    job->parts_max = (uint32_t)((job->unit_max - 1) / job->part_items + 1);
    job->has_fixed_units = options->unit_items > 0 || every > 1;
}

bool pipeline_lay_out(struct muster_job *job)
{
    const struct muster_pipeline *pipeline = job->pipeline;
    for (uint32_t i = 0; i < pipeline->declaration.buffer_count; i++) {
        size_t bytes;
        const struct muster_buffer *buffer = &pipeline->buffers[i];
        if (__builtin_mul_overflow((size_t)job->part_items, buffer->bytes_per_item, &bytes) ||
            __builtin_add_overflow(bytes, buffer->bytes_fixed, &bytes))
            return false;
        /* Devices do not take items that lie anywhere; records and plain items are their own measure. */
        bool is_mixed = buffer->bytes_fixed > 0 && buffer->bytes_per_item > 0;
        if (is_mixed && job->parts_max > 1) {
            if (__builtin_add_overflow(bytes, PART_ALIGNMENT - 1, &bytes))
                return false;
            bytes &= ~(size_t)(PART_ALIGNMENT - 1);
        }
        job->strides[i] = bytes;
        if (__builtin_mul_overflow(bytes, (size_t)job->parts_max * buffer->slots, &bytes) ||
            bytes > SIZE_MAX / 4)
            return false;
    }
    for (uint32_t i = 0; i < pipeline->output_count; i++) {
        size_t bytes = job->strides[pipeline->outputs[i]] * job->parts_max;
        job->out_offsets[i] = job->buffer_bytes;
        if (__builtin_add_overflow(job->buffer_bytes, bytes + OUTPUT_ALIGNMENT - 1,
                                   &job->buffer_bytes))
            return false;
        job->buffer_bytes &= ~(size_t)(OUTPUT_ALIGNMENT - 1);
    }
    return true;
}

uint32_t pipeline_depth(const struct muster_job *job)
{
    const struct muster_pipeline *pipeline = job->pipeline;
    const struct pipe_plan *plan =
        pipeline_plan(pipeline, job->lanes[0].device, job->options.depth == 1, NULL);
    size_t largest = 0;
    if (plan && plan->schedule == MUSTER_SCHEDULE_DRAIN_AFTER_KICK)
        return 1;
    /* Deeper than the proof of gates counts on, a lane could get stuck: unit_pipeline_depth. */
    const struct pipe_plan *gated = pipeline->plans[PLAN_WITH_GATES];
    uint32_t asked = job->options.depth, proven = pipe_depth(&pipeline->declaration);
    if (asked > 0)
        return gated && gated->needs_gates && asked > proven ? proven : asked;
    for (uint32_t i = 0; i < pipeline->declaration.buffer_count; i++)
        if (job->strides[i] * job->parts_max > largest)
            largest = job->strides[i] * job->parts_max;
    uint32_t depth =
        largest >= LARGE_UNIT_BYTES ? pipeline->slots_max + 1 : 2 * pipeline->slots_max;
    return depth > DEPTH_MIN ? depth : DEPTH_MIN;
}

bool pipeline_carries(const struct muster_pipeline *pipeline)
{
    uint32_t kind = 0;
    while (!pipeline->plans[kind])
        kind++;
    return pipeline->plans[kind]->carries;
}

uint32_t pipeline_lanes_max(const struct muster_pipeline *pipeline)
{
    /* Host stages alone gain nothing from another device, they share the workers. */
    bool is_host_only = pipeline->declaration.stream_count == 0;
    return is_host_only || pipeline_carries(pipeline) ? 1 : UINT32_MAX;
}

void pipeline_report(const struct muster_job *job, struct muster_report *report)
{
    const struct line *line = job->lanes[0].line;
    if (!line || !line->plan)
        return;
    report->schedule = line->plan->schedule;
    _Static_assert(sizeof report->schedule_reason == sizeof line->plan->reason, "one is the other");
    memcpy(report->schedule_reason, line->plan->reason, sizeof report->schedule_reason);
}

/* Counts of one edge over all lanes that have the plan, and what they should be. */
static struct edge_count count_edge(const struct muster_job *job, const struct pipe_plan *plan,
                                    uint32_t edge, struct edge_count *expected)
{
    struct edge_count sum = { 0, 0, 0 };
    *expected = sum;
    for (uint32_t i = 0; i < job->lane_count; i++) {
        const struct line *line = job->lanes[i].line;
        if (!line || line->plan != plan)
            continue;
        sum.records += line->counts[edge].records;
        sum.waits += line->counts[edge].waits;
        sum.stall_ns += line->counts[edge].stall_ns;
        expected->records += line->next;
        expected->waits += account_waits(line, &plan->edges[edge]);
    }
    return sum;
}

muster_status muster_job_edges(struct muster_job *job, struct muster_edge_report *out,
                               size_t capacity, size_t *count, struct muster_error *err)
{
    if (!job || !job->pipeline || !count || (!out && capacity > 0))
        return run_bad_argument(err, "muster_job_edges",
                                "an argument is NULL, or the job has no pipeline");
    if (run_is_forked(job->m))
        return run_say_forked(err);
    run_lock(job->m);
    bool is_over = job->is_over;
    run_unlock(job->m);
    if (!is_over)
        return muster_error_fill(err, MUSTER_E_BUSY, 0, "wait for the job first",
                                 "the job is not over");
    const struct pipe_declaration *declaration = &job->pipeline->declaration;
    const struct pipe_plan *plan = job->lanes[0].line->plan;
    *count = plan->edge_count;
    muster_status status = layout_check_rooms(LAYOUT(muster_edge_report), out, capacity, err);
    if (status != MUSTER_OK)
        return status;
    for (uint32_t i = 0; i < plan->edge_count && i < capacity; i++) {
        const struct pipe_edge *edge = &plan->edges[i];
        struct edge_count expected, sum = count_edge(job, plan, i, &expected);
        struct muster_edge_report report = { .kind = edge->kind,
                                             .distance = edge->distance,
                                             .records = sum.records,
                                             .waits = sum.waits,
                                             .stall_ns = sum.stall_ns,
                                             .is_dead = sum.records > 0 && sum.waits == 0 &&
                                                        expected.waits > 0,
                                             .expected_records = expected.records,
                                             .expected_waits = expected.waits };
        snprintf(report.from, sizeof report.from, "%s", pipe_step_name(declaration, edge->from));
        snprintf(report.to, sizeof report.to, "%s", pipe_step_name(declaration, edge->to));
        if (edge->buffer != PIPE_NONE)
            snprintf(report.buffer, sizeof report.buffer, "%s",
                     declaration->buffers[edge->buffer].name);
        layout_write_at(LAYOUT(muster_edge_report), out, i, &report);
    }
    return capacity >= plan->edge_count
               ? MUSTER_OK
               : muster_error_fill(err, MUSTER_E_CAPACITY, 0, "give more room",
                                   "the pipeline has %u edges; there is room for %zu",
                                   plan->edge_count, capacity);
}

/* One of the caller's units. */
static muster_status deliver_part(struct muster_job *job, uint32_t buffer, uint32_t part,
                                  struct muster_range range)
{
    const struct muster_pipeline *pipeline = job->pipeline;
    const void *outputs[MUSTER_ARGS_MAX];
    size_t bytes[MUSTER_ARGS_MAX];
    for (uint32_t i = 0; i < pipeline->output_count; i++) {
        outputs[i] = job_buffer(job, buffer) + job->out_offsets[i] +
                     part * job->strides[pipeline->outputs[i]];
        bytes[i] = *job_result_bytes(job, buffer, i, part);
        job->delivery_bytes += bytes[i];
    }
    if (job->desc.output) {
        size_t item_bytes = pipeline->buffers[pipeline->outputs[0]].bytes_per_item;
        copiers_copy(job->m, (char *)job->desc.output + range.begin * item_bytes, outputs[0],
                     (size_t)(range.end - range.begin) * item_bytes);
    }
    const struct muster_result result = { .size = sizeof result,
                                          .range = range,
                                          .outputs = outputs,
                                          .output_count = pipeline->output_count,
                                          .output_bytes = bytes,
                                          .job = job,
                                          .buffer = buffer };
    return job_call_sink(job, &result);
}

muster_status pipeline_deliver(struct muster_job *job, uint32_t buffer, struct muster_range range)
{
    muster_status status = MUSTER_OK;
    uint32_t part = 0;
    job->delivery_bytes = 0;
    for (uint64_t begin = range.begin; begin < range.end && status == MUSTER_OK; part++) {
        uint64_t end = begin + least(job->part_items, range.end - begin);
        status = deliver_part(job, buffer, part, (struct muster_range){ begin, end });
        /* The job has ended without the sink, so the array belongs to the caller again. */
        if (thread_is_given_up(&job->conductor))
            return status;
        begin = end;
    }
    return status;
}
