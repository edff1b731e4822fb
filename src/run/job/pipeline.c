/*
 * Pipelines: checking what is declared, the plans for each way of running it, and printing.
 */
#include "run/job/pipeline.h"

#include "base/allocator.h"

#include <string.h>

#define SLOTS_DEFAULT 2
#define HOST_STREAM "host"
/* Most edges that the user may add. */
#define ADDED_MAX (MUSTER_EDGES_MAX / 4)

/* Checking what is declared. */

static muster_status check_name(const char *name, const char *what, size_t index,
                                struct muster_error *err)
{
    if (!name || !*name)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "give it a name", "%s %zu has no name",
                                 what, index);
    if (strlen(name) >= NAME_BYTES)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL,
                                 "the name of %s %zu has more than %d characters", what, index,
                                 NAME_BYTES - 1);
    return MUSTER_OK;
}

static muster_status check_buffer(const struct muster_buffer *buffer, size_t index,
                                  struct muster_error *err)
{
    const uint32_t known = MUSTER_CARRIED | MUSTER_INPUT | MUSTER_OUTPUT;
    muster_status status = check_name(buffer->name, "buffer", index, err);
    if (status != MUSTER_OK)
        return status;
    const char *wrong = NULL;
    if (buffer->place != MUSTER_DEVICE && buffer->place != MUSTER_HOST)
        wrong = "its place is neither MUSTER_DEVICE nor MUSTER_HOST";
    else if (buffer->bytes_per_item == 0 && buffer->bytes_fixed == 0)
        wrong = "it has no bytes";
    else if (buffer->flags & ~known)
        wrong = "it has unknown flags";
    else if (buffer->slots > MUSTER_SLOTS_MAX)
        wrong = "it has more than 16 slots";
    else if ((buffer->flags & MUSTER_CARRIED) && buffer->slots > 1)
        wrong = "what is carried from unit to unit has one slot";
    else if ((buffer->flags & MUSTER_CARRIED) &&
             (buffer->bytes_per_item > 0 || (buffer->flags & ~(uint32_t)MUSTER_CARRIED)))
        wrong = "what is carried has a fixed size, and is neither input nor output";
    else if ((buffer->flags & (MUSTER_INPUT | MUSTER_OUTPUT)) && buffer->place != MUSTER_HOST)
        wrong = "inputs and outputs are on the host";
    else if ((buffer->flags & MUSTER_INPUT) && (buffer->flags & MUSTER_OUTPUT))
        wrong = "it is input and output";
    if (!wrong)
        return MUSTER_OK;
    return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "buffer '%s': %s", buffer->name,
                             wrong);
}

/* Stages that have no callback say by their buffers what is to be done. */
static const char *wrong_with_copy(const struct muster_stage *stage, uint64_t device_buffers)
{
    if (stage->run || stage->kernel)
        return "a copy has neither callback nor kernel";
    if (__builtin_popcountll(stage->reads) != 1 || __builtin_popcountll(stage->writes) != 1 ||
        stage->reads == stage->writes)
        return "a copy reads one buffer and writes another";
    if (!((stage->reads | stage->writes) & device_buffers))
        return "a copy has the device at one end; on the host a host stage does it";
    return NULL;
}

/* What a stage says that it does with a buffer, enum muster_access. */
static uint32_t access_of(const struct muster_stage *stage, size_t buffer)
{
    return (stage->reads >> buffer & 1 ? MUSTER_READS : 0u) |
           (stage->writes >> buffer & 1 ? MUSTER_WRITES : 0u);
}

/*
 * A kernel without a callback is given the stage's buffers: those it reads, then the others; and the
 * cell before them where there is one.
 */
static muster_status check_kernel(const struct muster_pipeline *pipeline,
                                  const struct muster_stage *stage, struct muster_error *err)
{
    struct kernel_argument args[MUSTER_ARGS_MAX + 1];
    size_t count = 0;
    if (pipeline_gives_cell(pipeline, stage))
        args[count++] = (struct kernel_argument){ .bytes = sizeof(struct muster_cell) };
    for (int is_read = 1; is_read >= 0; is_read--)
        for (uint32_t i = 0; i < pipeline->declaration.buffer_count; i++)
            if (access_of(stage, i) != 0 && (stage->reads >> i & 1) == (uint64_t)is_read)
                args[count++] = (struct kernel_argument){
                    .is_block = true,
                    .bytes = pipeline->buffers[i].bytes_per_item,
                    .access = access_of(stage, i),
                    .is_cut = true,
                    .cells = pipeline->with_halo >> i & 1 ? pipeline->grid.first.reach : 0
                };
    if (count > MUSTER_ARGS_MAX)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                 "stage '%s': its kernel has too many buffers", stage->name);
    /* What lies beside an item in a buffer is the pipeline's own matter, but for cells. */
    const struct kernel_items items = { .together = UINT64_MAX,
                                        .is_grid = pipeline_gives_cell(pipeline, stage),
                                        .has_depth = pipeline->grid.first.depth > 0,
                                        .reach = pipeline->grid.first.reach };
    muster_status status = kernel_check_arguments(stage->kernel, args, count, err);
    return status == MUSTER_OK ? kernel_check_reach(stage->kernel, args, count, &items, err)
                               : status;
}

/* Kernels without a callback. */
static muster_status check_kernels(const struct muster_pipeline *pipeline, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < pipeline->declaration.stage_count && status == MUSTER_OK; i++)
        if (pipeline->stages[i].kernel && !pipeline->stages[i].run)
            status = check_kernel(pipeline, &pipeline->stages[i], err);
    return status;
}

/* The buffers of a stage that are of one place. */
static uint64_t places(const struct muster_buffer *buffers, size_t count,
                       enum muster_buffer_place place)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < count; i++)
        mask |= buffers[i].place == place ? (uint64_t)1 << i : 0;
    return mask;
}

/* Those in which units that lie one behind the other have something between their items. */
static uint64_t with_fixed_part(const struct muster_buffer *buffers, size_t count)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < count; i++)
        if (buffers[i].bytes_fixed > 0 && !(buffers[i].flags & MUSTER_CARRIED))
            mask |= (uint64_t)1 << i;
    return mask;
}

static muster_status check_stage(const struct muster *m, const struct muster_stage *stage,
                                 size_t index, const struct muster_buffer *buffers,
                                 size_t buffer_count, struct muster_error *err)
{
    const uint32_t known = MUSTER_COPY | MUSTER_CARRIES | MUSTER_MERGES;
    uint64_t uses = stage->reads | stage->writes;
    muster_status status = check_name(stage->name, "stage", index, err);
    if (status == MUSTER_OK)
        status = check_name(stage->stream, "the stream of stage", index, err);
    if (status != MUSTER_OK)
        return status;
    bool is_host = strcmp(stage->stream, HOST_STREAM) == 0;
    const char *wrong = NULL;
    if (stage->flags & ~known)
        wrong = "it has unknown flags";
    else if (uses >> buffer_count)
        wrong = "it uses a buffer that does not exist";
    else if (strcmp(stage->name, "source") == 0 || strcmp(stage->name, "sink") == 0)
        wrong = "that name is taken";
    else if (stage->every > MUSTER_EVERY_MAX)
        wrong = "it takes more than 64 units together";
    else if (stage->kernel && !kernel_is_of(stage->kernel, m))
        wrong = "the kernel is another runtime's";
    else if (is_host && (uses & places(buffers, buffer_count, MUSTER_DEVICE)))
        wrong = "a host stage cannot reach device buffers: copy them in a stage of its own";
    else if (is_host && !stage->run)
        wrong = "a host stage needs a callback";
    else if (stage->flags & MUSTER_COPY)
        wrong = wrong_with_copy(stage, places(buffers, buffer_count, MUSTER_DEVICE));
    else if (!stage->run && !stage->kernel)
        wrong = "it has no callback, no kernel and is no copy";
    else if (!stage->run && (uses & places(buffers, buffer_count, MUSTER_HOST)))
        wrong = "a kernel without a callback has device buffers only";
    else if (!stage->run && __builtin_popcountll(uses) > MUSTER_ARGS_MAX)
        wrong = "its kernel has too many buffers";
    else if (!stage->run && stage->kernel && stage->every > 1 &&
             (uses & with_fixed_part(buffers, buffer_count)))
        wrong = "a kernel takes items that lie close: a callback is for units with a fixed part";
    if (wrong)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "stage '%s': %s", stage->name,
                                 wrong);
    return MUSTER_OK;
}

static muster_status check_distinct(const struct muster_buffer *buffers, size_t buffer_count,
                                    const struct muster_stage *stages, size_t stage_count,
                                    struct muster_error *err)
{
    for (size_t i = 0; i < buffer_count; i++)
        for (size_t j = i + 1; j < buffer_count; j++)
            if (strcmp(buffers[i].name, buffers[j].name) == 0)
                return muster_error_fill(err, MUSTER_E_INVALID, 0, "name them apart",
                                         "two buffers are called '%s'", buffers[i].name);
    for (size_t i = 0; i < stage_count; i++)
        for (size_t j = i + 1; j < stage_count; j++)
            if (strcmp(stages[i].name, stages[j].name) == 0)
                return muster_error_fill(err, MUSTER_E_INVALID, 0, "name them apart",
                                         "two stages are called '%s'", stages[i].name);
    return MUSTER_OK;
}

static muster_status check_edges(const struct muster_pipeline_options *options, size_t stage_count,
                                 struct muster_error *err)
{
    for (size_t i = 0; i < options->edge_count; i++)
        if (options->edges[i].from >= stage_count || options->edges[i].to >= stage_count ||
            options->edges[i].distance > MUSTER_SLOTS_MAX)
            return muster_error_fill(
                err, MUSTER_E_INVALID, 0, NULL,
                "added edge %zu is between missing stages, or over more than %d units", i,
                MUSTER_SLOTS_MAX);
    return MUSTER_OK;
}

static muster_status check(const struct muster *m, const struct muster_buffer *buffers,
                           size_t buffer_count, const struct muster_stage *stages,
                           size_t stage_count, const struct muster_pipeline_options *options,
                           struct muster_error *err)
{
    if (stage_count == 0)
        return run_bad_argument(err, "muster_pipeline_create", "there are no stages");
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < buffer_count && status == MUSTER_OK; i++)
        status = check_buffer(&buffers[i], i, err);
    for (size_t i = 0; i < stage_count && status == MUSTER_OK; i++)
        status = check_stage(m, &stages[i], i, buffers, buffer_count, err);
    if (status == MUSTER_OK)
        status = check_distinct(buffers, buffer_count, stages, stage_count, err);
    return status == MUSTER_OK ? check_edges(options, stage_count, err) : status;
}

/* Making it. */

static const char *keep_name(char to[NAME_BYTES], const char *name)
{
    memcpy(to, name, strlen(name) + 1);
    return to;
}

/* The number of the stream of that name, which is added if it is new; PIPE_NONE: there is no room. */
static uint32_t find_stream(struct muster_pipeline *pipeline, const char *name)
{
    struct pipe_declaration *declaration = &pipeline->declaration;
    uint32_t i = 0;
    while (i < declaration->stream_count && strcmp(declaration->streams[i], name) != 0)
        i++;
    if (i == MUSTER_ROLES_MAX)
        return PIPE_NONE;
    if (i == declaration->stream_count)
        declaration->streams[declaration->stream_count++] =
            keep_name(pipeline->stream_names[i], name);
    return i;
}

/* Which buffer units come from, and which the sink is given. */
static muster_status find_ends(struct muster_pipeline *pipeline, struct muster_error *err)
{
    struct pipe_declaration *declaration = &pipeline->declaration;
    uint64_t reads = 0, writes = 0;
    uint32_t flags = 0;
    for (uint32_t i = 0; i < declaration->stage_count; i++) {
        reads |= pipeline->stages[i].reads;
        writes |= pipeline->stages[i].writes;
    }
    for (uint32_t i = 0; i < declaration->buffer_count; i++)
        flags |= pipeline->buffers[i].flags;
    pipeline->input = PIPE_NONE;
    for (uint32_t i = 0; i < declaration->buffer_count; i++) {
        struct muster_buffer *buffer = &pipeline->buffers[i];
        bool is_read = reads >> i & 1, is_written = writes >> i & 1;
        bool may_be_end = buffer->place == MUSTER_HOST && !(buffer->flags & MUSTER_CARRIED);
        bool is_input = flags & MUSTER_INPUT ? (buffer->flags & MUSTER_INPUT) != 0
                                             : may_be_end && is_read && !is_written;
        bool is_output = flags & MUSTER_OUTPUT ? (buffer->flags & MUSTER_OUTPUT) != 0
                                               : may_be_end && is_written && !is_read;
        const char *wrong = NULL;
        if (is_input && pipeline->input != PIPE_NONE)
            wrong = "there are two inputs; say which is one with MUSTER_INPUT";
        else if (is_input && (is_written || !is_read || buffer->bytes_fixed > 0))
            wrong = "an input is read, written by no stage, and has items only";
        else if (is_output && !is_written)
            wrong = "an output is written by a stage";
        else if (is_output && pipeline->output_count == MUSTER_ARGS_MAX)
            wrong = "there are more than 16 outputs";
        else if (!is_read && !is_written)
            wrong = "no stage uses it";
        else if (!is_input && is_read && !is_written && !(buffer->flags & MUSTER_CARRIED))
            wrong = "it is read, and no stage writes it";
        if (wrong)
            return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "buffer '%s': %s",
                                     buffer->name, wrong);
        declaration->buffers[i].is_input = is_input;
        declaration->buffers[i].is_output = is_output;
        /*
         * They lie in the job's own memory, which no edge of the line's hands out again: another edge
         * must not be left out because one of these would have made up for it.
         */
        declaration->buffers[i].is_unshared = is_input || is_output;
        if (is_input)
            pipeline->input = i;
        if (is_output)
            pipeline->outputs[pipeline->output_count++] = i;
    }
    return MUSTER_OK;
}

/* How many of the caller's units go together, and whether Muster may choose that. */
static muster_status find_parts(struct muster_pipeline *pipeline, struct muster_error *err)
{
    pipeline->every = 1;
    pipeline->may_merge = true;
    for (uint32_t i = 0; i < pipeline->declaration.stage_count; i++) {
        const struct muster_stage *stage = &pipeline->stages[i];
        bool is_plain = (stage->flags & (MUSTER_COPY | MUSTER_MERGES)) || !stage->run;
        pipeline->may_merge = pipeline->may_merge && is_plain && !(stage->flags & MUSTER_CARRIES);
        if (stage->every <= 1)
            continue;
        if (pipeline->every > 1 && stage->every != pipeline->every)
            return muster_error_fill(err, MUSTER_E_INVALID, 0, "give all of them one number",
                                     "stage '%s' takes %u units together, another %u", stage->name,
                                     stage->every, pipeline->every);
        pipeline->every = stage->every;
    }
    for (uint32_t i = 0; i < pipeline->declaration.buffer_count; i++)
        if (pipeline->buffers[i].bytes_fixed > 0)
            pipeline->may_merge = false;
    pipeline->may_merge = pipeline->may_merge && pipeline->every == 1;
    return MUSTER_OK;
}

static muster_status declare(struct muster_pipeline *pipeline, const struct muster_buffer *buffers,
                             const struct muster_stage *stages, struct muster_error *err)
{
    struct pipe_declaration *declaration = &pipeline->declaration;
    for (uint32_t i = 0; i < declaration->buffer_count; i++) {
        struct muster_buffer *buffer = &pipeline->buffers[i];
        bool is_carried = buffers[i].flags & MUSTER_CARRIED;
        *buffer = buffers[i];
        buffer->name = keep_name(pipeline->buffer_names[i], buffers[i].name);
        if (buffer->slots == 0)
            buffer->slots = is_carried ? 1 : SLOTS_DEFAULT;
        if (buffer->slots > pipeline->slots_max)
            pipeline->slots_max = buffer->slots;
        declaration->buffers[i] = (struct pipe_buffer){ .name = buffer->name,
                                                        .slots = buffer->slots,
                                                        .is_host = buffer->place == MUSTER_HOST,
                                                        .is_carried = is_carried };
    }
    for (uint32_t i = 0; i < declaration->stage_count; i++) {
        struct muster_stage *stage = &pipeline->stages[i];
        bool is_host = strcmp(stages[i].stream, HOST_STREAM) == 0;
        *stage = stages[i];
        stage->name = keep_name(pipeline->stage_names[i], stages[i].name);
        uint32_t stream = is_host ? PIPE_HOST : find_stream(pipeline, stages[i].stream);
        if (!is_host && stream == PIPE_NONE)
            return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "let stages share streams",
                                     "the stages name more than %d streams", MUSTER_ROLES_MAX);
        stage->stream = is_host ? HOST_STREAM : declaration->streams[stream];
        pipeline->has_host_steps = pipeline->has_host_steps || is_host;
        declaration->stages[i] = (struct pipe_stage){ .name = stage->name,
                                                      .stream = stream,
                                                      .reads = stage->reads,
                                                      .writes = stage->writes,
                                                      .carries = stage->flags & MUSTER_CARRIES };
    }
    muster_status status = find_ends(pipeline, err);
    return status == MUSTER_OK ? find_parts(pipeline, err) : status;
}

/* Derives and proves one of the plans; where it is not possible it is kept why. */
static muster_status make_plan(struct muster_pipeline *pipeline, enum pipeline_plan_kind kind,
                               enum muster_schedule schedule, void *scratch,
                               struct muster_error *err)
{
    struct pipe_plan *plan = allocator_take(&pipeline->m->allocator, 1, sizeof *plan);
    if (!plan)
        return run_no_memory(err, "a pipeline's plan");
    if (pipe_derive(&pipeline->declaration, schedule, kind == PLAN_WITH_GATES, plan, scratch,
                    &pipeline->refusals[kind]) == MUSTER_OK)
        pipeline->plans[kind] = plan;
    else
        allocator_give(&pipeline->m->allocator, plan, 1, sizeof *plan);
    return MUSTER_OK;
}

static muster_status make_plans(struct muster_pipeline *pipeline, enum muster_schedule schedule,
                                struct muster_error *err)
{
    struct muster *m = pipeline->m;
    size_t bytes = pipe_scratch_bytes(&pipeline->declaration);
    void *scratch = allocator_take(&m->allocator, bytes, 1);
    if (!scratch)
        return run_no_memory(err, "the proof of a pipeline");
    muster_status status = MUSTER_OK;
    /* One that was asked for by name is the only one. */
    for (uint32_t kind = 0; kind < PLAN_KINDS && status == MUSTER_OK; kind++)
        status = make_plan(pipeline, (enum pipeline_plan_kind)kind,
                           schedule == MUSTER_SCHEDULE_AUTO && kind == PLAN_ONE_BY_ONE
                               ? MUSTER_SCHEDULE_DRAIN_AFTER_KICK
                               : schedule,
                           scratch, err);
    allocator_give(&m->allocator, scratch, bytes, 1);
    for (uint32_t kind = 0; kind < PLAN_KINDS && status == MUSTER_OK; kind++)
        if (pipeline->plans[kind])
            return MUSTER_OK;
    if (status == MUSTER_OK && err)
        *err = pipeline->refusals[PLAN_WITH_GATES];
    return status == MUSTER_OK ? pipeline->refusals[PLAN_WITH_GATES].status : status;
}

static void free_pipeline(struct muster_pipeline *pipeline)
{
    struct muster *m = pipeline->m;
    for (uint32_t kind = 0; kind < PLAN_KINDS; kind++)
        allocator_give(&m->allocator, pipeline->plans[kind], 1, sizeof(struct pipe_plan));
    allocator_give(&m->allocator, pipeline->added, pipeline->added_count, sizeof *pipeline->added);
    allocator_give(&m->allocator, pipeline, 1, sizeof *pipeline);
}

static muster_status keep_edges(struct muster_pipeline *pipeline,
                                const struct muster_pipeline_options *options,
                                struct muster_error *err)
{
    if (options->edge_count == 0)
        return MUSTER_OK;
    pipeline->added =
        allocator_take(&pipeline->m->allocator, options->edge_count, sizeof *pipeline->added);
    if (!pipeline->added)
        return run_no_memory(err, "a pipeline's edges");
    pipeline->added_count = (uint32_t)options->edge_count;
    memcpy(pipeline->added, options->edges, options->edge_count * sizeof *options->edges);
    pipeline->declaration.added = pipeline->added;
    pipeline->declaration.added_count = pipeline->added_count;
    return MUSTER_OK;
}

/* What the caller gave, as this library has it. */
struct given {
    struct muster_pipeline_options options;
    const struct muster_buffer *buffers;
    const struct muster_stage *stages;
    struct muster_buffer buffer_copies[MUSTER_BUFFERS_MAX];
    struct muster_stage stage_copies[MUSTER_STAGES_MAX];
    struct muster_edge edge_copies[ADDED_MAX];
    struct muster_arg grid;
};

static muster_status read_given(struct given *given, const struct muster_buffer *buffers,
                                size_t buffer_count, const struct muster_stage *stages,
                                size_t stage_count, const struct muster_pipeline_options *options,
                                struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    given->options = (struct muster_pipeline_options){ .size = sizeof given->options };
    if (options)
        status = layout_read(LAYOUT(muster_pipeline_options), options, &given->options, err);
    if (status != MUSTER_OK)
        return status;
    if (!given->options.edges && given->options.edge_count > 0)
        return run_bad_argument(err, "muster_pipeline_create", "there are no edges");
    if (buffer_count > MUSTER_BUFFERS_MAX || stage_count > MUSTER_STAGES_MAX ||
        given->options.edge_count > ADDED_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL,
                                 "%zu buffers, %zu stages and %zu added edges; at most %d, %d "
                                 "and %d",
                                 buffer_count, stage_count, given->options.edge_count,
                                 MUSTER_BUFFERS_MAX, MUSTER_STAGES_MAX, ADDED_MAX);
    given->buffers = layout_read_all(LAYOUT(muster_buffer), buffers, buffer_count,
                                     given->buffer_copies, &status, err);
    if (status == MUSTER_OK)
        given->stages = layout_read_all(LAYOUT(muster_stage), stages, stage_count,
                                        given->stage_copies, &status, err);
    if (status == MUSTER_OK)
        given->options.edges =
            layout_read_all(LAYOUT(muster_edge), given->options.edges, given->options.edge_count,
                            given->edge_copies, &status, err);
    if (status != MUSTER_OK || !given->options.grid)
        return status;
    status = layout_read(LAYOUT(muster_arg), given->options.grid, &given->grid, err);
    given->options.grid = &given->grid;
    return status;
}

muster_status muster_pipeline_create(struct muster *m, const struct muster_buffer *buffers,
                                     size_t buffer_count, const struct muster_stage *stages,
                                     size_t stage_count,
                                     const struct muster_pipeline_options *options,
                                     struct muster_pipeline **out, struct muster_error *err)
{
    struct given given;
    if (!m || (!buffers && buffer_count > 0) || !stages || !out)
        return run_bad_argument(err, "muster_pipeline_create", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status =
        read_given(&given, buffers, buffer_count, stages, stage_count, options, err);
    if (status == MUSTER_OK)
        status =
            check(m, given.buffers, buffer_count, given.stages, stage_count, &given.options, err);
    if (status != MUSTER_OK)
        return status;
    if ((unsigned)given.options.schedule > MUSTER_SCHEDULE_DRAIN_AFTER_KICK)
        return run_bad_argument(err, "muster_pipeline_create", "the schedule is unknown");
    struct muster_pipeline *pipeline = allocator_take(&m->allocator, 1, sizeof *pipeline);
    if (!pipeline)
        return run_no_memory(err, "a pipeline");
    pipeline->m = m;
    pipeline->declaration.buffer_count = (uint32_t)buffer_count;
    pipeline->declaration.stage_count = (uint32_t)stage_count;
    status = declare(pipeline, given.buffers, given.stages, err);
    if (status == MUSTER_OK)
        status = pipeline_set_halos(pipeline, &given.options, err);
    if (status == MUSTER_OK)
        status = check_kernels(pipeline, err);
    if (status == MUSTER_OK)
        status = keep_edges(pipeline, &given.options, err);
    if (status == MUSTER_OK)
        status = make_plans(pipeline, given.options.schedule, err);
    if (status != MUSTER_OK) {
        free_pipeline(pipeline);
        return status;
    }
    run_lock(m);
    pipeline->number = ++m->next_token;
    pipeline->next = m->pipelines;
    m->pipelines = pipeline;
    run_unlock(m);
    *out = pipeline;
    return MUSTER_OK;
}

void muster_pipeline_destroy(struct muster_pipeline *pipeline)
{
    if (!pipeline || run_is_forked(pipeline->m))
        return;
    struct muster *m = pipeline->m;
    run_lock(m);
    struct muster_pipeline **at = &m->pipelines;
    while (*at != pipeline)
        at = &(*at)->next;
    *at = pipeline->next;
    pipeline->is_gone = true;
    bool is_last = pipeline->jobs == 0;
    run_unlock(m);
    if (is_last)
        free_pipeline(pipeline);
}

struct muster_pipeline *pipeline_hold(struct muster_pipeline *pipeline)
{
    if (!pipeline)
        return NULL;
    run_lock(pipeline->m);
    pipeline->jobs++;
    run_unlock(pipeline->m);
    return pipeline;
}

void pipeline_let_go(struct muster_pipeline *pipeline)
{
    if (!pipeline)
        return;
    run_lock(pipeline->m);
    bool is_last = --pipeline->jobs == 0 && pipeline->is_gone;
    run_unlock(pipeline->m);
    if (is_last)
        free_pipeline(pipeline);
}

void pipelines_destroy_all(struct muster *m)
{
    while (m->pipelines)
        muster_pipeline_destroy(m->pipelines);
}

/* Looking at it. */

const struct pipe_plan *pipeline_plan(const struct muster_pipeline *pipeline,
                                      const struct run_device *device, bool is_one_by_one,
                                      struct muster_error *err)
{
    bool has_gates = device->info.capabilities & MUSTER_CAN_WAIT_VALUE;
    enum pipeline_plan_kind kind = is_one_by_one ? PLAN_ONE_BY_ONE
                                   : has_gates   ? PLAN_WITH_GATES
                                                 : PLAN_WITHOUT_GATES;
    if (pipeline->plans[kind] && (has_gates || !pipeline->plans[kind]->needs_gates))
        return pipeline->plans[kind];
    if (pipeline->plans[kind])
        muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "ask for another schedule, or for none",
                          "the pipeline's schedule needs a device that can wait for a value");
    else if (err)
        *err = pipeline->refusals[kind];
    return NULL;
}

bool pipeline_has_forms_locked(const struct muster_pipeline *pipeline,
                               const struct run_device *device, struct muster_kernel **without)
{
    for (uint32_t i = 0; i < pipeline->declaration.stage_count; i++) {
        struct muster_kernel *kernel = pipeline->stages[i].kernel;
        if (kernel && !kernel_has_form_locked(kernel, device)) {
            if (without)
                *without = kernel;
            return false;
        }
    }
    return true;
}

muster_status muster_pipeline_print(const struct muster_pipeline *pipeline,
                                    enum muster_schedule schedule, enum muster_print_format format,
                                    char *text, size_t capacity, size_t *needed,
                                    struct muster_error *err)
{
    static const enum pipeline_plan_kind kinds[] = {
        [MUSTER_SCHEDULE_AUTO] = PLAN_WITHOUT_GATES,
        [MUSTER_SCHEDULE_PIPELINED] = PLAN_WITHOUT_GATES,
        [MUSTER_SCHEDULE_GATED] = PLAN_WITH_GATES,
        [MUSTER_SCHEDULE_DRAIN_BEFORE_KICK] = PLAN_WITHOUT_GATES,
        [MUSTER_SCHEDULE_DRAIN_AFTER_KICK] = PLAN_ONE_BY_ONE,
    };
    if (!pipeline || (!text && capacity > 0) ||
        (unsigned)schedule > MUSTER_SCHEDULE_DRAIN_AFTER_KICK ||
        (unsigned)format > MUSTER_PRINT_DOT)
        return run_bad_argument(err, "muster_pipeline_print",
                                "an argument is NULL, or the schedule or format is not known");
    const struct pipe_plan *plan = pipeline->plans[kinds[schedule]];
    if (!plan && err)
        *err = pipeline->refusals[kinds[schedule]];
    if (!plan)
        return pipeline->refusals[kinds[schedule]].status;
    if (schedule != MUSTER_SCHEDULE_AUTO && plan->schedule != schedule)
        return muster_error_fill(err, MUSTER_E_ORDER, 0, "print what MUSTER_SCHEDULE_AUTO gives",
                                 "the pipeline is not run by that schedule: %s", plan->reason);
    size_t length = pipe_print(&pipeline->declaration, plan, format, text, capacity);
    if (needed)
        *needed = length + 1;
    return length < capacity ? MUSTER_OK
                             : muster_error_fill(err, MUSTER_E_CAPACITY, 0, "give more room",
                                                 "the pipeline takes %zu bytes to print; there is "
                                                 "room for %zu",
                                                 length + 1, capacity);
}
