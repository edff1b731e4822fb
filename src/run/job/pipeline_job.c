/*
 * Jobs with a pipeline: what they are checked for, how large their units are, and how results that
 * hold several of the caller's units reach the sink one by one.
 */
#include "run/job/pipeline.h"

#include <stdio.h>
#include <string.h>

/* What a slot of the largest buffer holds, where an item is not larger than that. */
#define UNIT_BYTES ((size_t)1 << 20)
#define DEPTH_MIN 2u
/* From this size on a unit more than there are slots keeps the device busy. */
#define LARGE_UNIT_BYTES ((size_t)16 << 20)
/* Slots begin at such multiples. */
#define SLOT_ALIGNMENT 256u
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

void pipeline_plan_units(struct muster_job *job)
{
    const struct muster_run_options *options = &job->options;
    size_t item_bytes = largest_item(job->pipeline);
    /* In several parts each is a whole number of lines too. */
    size_t usual = (job_has_gpu(job) ? job_unit_bytes_gpu(job) : UNIT_BYTES) >> job->halvings;
    uint64_t every = job->pipeline->every;
    uint64_t part_items = options->unit_items > 0
                              ? options->unit_items
                              : job_of_multiples(job, at_least_one(usual / item_bytes / every));
    bool may_merge = every == 1 && job->pipeline->may_merge;
    job_set_units(job, part_items, may_merge ? job_find_merge(job, item_bytes) : every);
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
        size_t halo;
        if (__builtin_mul_overflow(bytes, (size_t)job->parts_max, &bytes) ||
            __builtin_mul_overflow((size_t)pipeline->halos[i], 2 * buffer->bytes_per_item, &halo) ||
            __builtin_add_overflow(bytes, halo, &bytes) ||
            __builtin_mul_overflow(bytes, (size_t)buffer->slots, &bytes) || bytes > SIZE_MAX / 4)
            return false;
    }
    bool fits = true;
    for (uint32_t i = 0; i < pipeline->output_count && fits; i++)
        fits = job_add_output(
            job, &(struct job_result_place){
                     .stride = job->strides[pipeline->outputs[i]],
                     .item_bytes = pipeline->buffers[pipeline->outputs[i]].bytes_per_item,
                     .array = job->desc.output });
    return fits;
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

static void compile_stage(struct lane_plan *plan, const struct muster_pipeline *pipeline,
                          uint32_t index)
{
    const struct muster_stage *stage = &pipeline->stages[index];
    const uint64_t masks[] = { stage->reads, stage->writes & ~stage->reads };
    struct lane_step *step = &plan->steps[index];
    *step = (struct lane_step){ .first_copy = index,
                                .copy_count = stage->flags & MUSTER_COPY ? 1 : 0,
                                .kernel = stage->kernel,
                                .first_operand = plan->operand_count,
                                .run = stage->run,
                                .user = stage->user,
                                .takes_all = stage->every > 1 || pipeline->may_merge };
    if (step->copy_count > 0) {
        plan->copies[index] = (struct lane_copy){ (uint32_t)__builtin_ctzll(stage->reads),
                                                  (uint32_t)__builtin_ctzll(stage->writes) };
        return;
    }
    /* A callback says itself what it launches. */
    if (!stage->run && stage->kernel && pipeline_gives_cell(pipeline, stage))
        plan->operands[plan->operand_count++] = (struct lane_operand){ .kind = OPERAND_CELL };
    for (size_t m = 0; m < 2 && !stage->run; m++)
        for (uint64_t left = masks[m]; left != 0; left &= left - 1)
            plan->operands[plan->operand_count++] =
                (struct lane_operand){ .kind = OPERAND_PIECE,
                                       .piece = (uint32_t)__builtin_ctzll(left) };
    step->operand_count = plan->operand_count - step->first_operand;
}

muster_status pipeline_compile(struct muster_job *job, const struct run_device *device,
                               struct lane_plan *plan, struct muster_error *err)
{
    const struct muster_pipeline *pipeline = job->pipeline;
    plan->declaration = &pipeline->declaration;
    plan->order = pipeline_plan(pipeline, device, job->core_options.depth == 1, err);
    if (!plan->order)
        return MUSTER_E_NOT_SUPPORTED;
    plan->piece_count = pipeline->declaration.buffer_count;
    for (uint32_t i = 0; i < plan->piece_count; i++) {
        const struct muster_buffer *buffer = &pipeline->buffers[i];
        bool is_carried = buffer->flags & MUSTER_CARRIED;
        size_t halo = (size_t)pipeline->halos[i] * buffer->bytes_per_item;
        size_t bytes = job->strides[i] * (is_carried ? 1 : job->parts_max) + 2 * halo;
        plan->slot_bytes[i] = (bytes + SLOT_ALIGNMENT - 1) & ~(size_t)(SLOT_ALIGNMENT - 1);
        plan->pieces[i] = (struct lane_piece){ .buffer = i,
                                               .item_bytes = buffer->bytes_per_item,
                                               .fixed_bytes = buffer->bytes_fixed,
                                               .stride = job->strides[i],
                                               .halo = halo };
    }
    if (pipeline->input != PIPE_NONE && job->desc.input) {
        plan->pieces[pipeline->input].array = job->margins[0].array;
        plan->pieces[pipeline->input].head = job->margins[0].head;
        plan->pieces[pipeline->input].tail = job->margins[0].tail;
    }
    for (uint32_t i = 0; i < pipeline->output_count; i++) {
        plan->pieces[pipeline->outputs[i]].output = job->outputs[i].offset;
        plan->pieces[pipeline->outputs[i]].output_at = i;
    }
    for (uint32_t i = 0; i < pipeline->declaration.stage_count; i++)
        compile_stage(plan, pipeline, i);
    plan->depth = job->core_options.depth;
    plan->width = 1;
    plan->has_host_steps = pipeline->has_host_steps;
    plan->sets_bytes = true;
    plan->is_accounted = job->options.account;
    return MUSTER_OK;
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
    const struct lane_plan *plan = job->lanes[0].plan;
    if (!plan || !plan->order)
        return;
    report->schedule = plan->order->schedule;
    _Static_assert(sizeof report->schedule_reason == sizeof plan->order->reason,
                   "one is the other");
    memcpy(report->schedule_reason, plan->order->reason, sizeof report->schedule_reason);
}

/* Counts of one edge over all lanes that have the plan, and what they should be. */
static struct edge_count count_edge(const struct muster_job *job, const struct pipe_plan *plan,
                                    uint32_t edge, struct edge_count *expected)
{
    struct edge_count sum = { 0, 0, 0 };
    *expected = sum;
    for (uint32_t i = 0; i < job->lane_count; i++) {
        const struct run_lane *lane = &job->lanes[i];
        if (!lane->plan || lane->plan->order != plan)
            continue;
        sum.records += lane->counts[edge].records;
        sum.waits += lane->counts[edge].waits;
        sum.stall_ns += lane->counts[edge].stall_ns;
        expected->records += lane->next;
        expected->waits += account_waits(lane, &plan->edges[edge]);
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
    const struct pipe_plan *plan = job->lanes[0].plan->order;
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
