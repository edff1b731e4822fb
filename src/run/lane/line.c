/*
 * A pipeline on one device: what it needs there, and the loop that carries out the plan. Steps are
 * enqueued when the edges into them allow it, units oldest first; what is over is looked for by
 * asking the device, quickly at first and then at intervals that go by how long units take.
 */
#include "run/job/pipeline.h"

#include "base/allocator.h"
#include "base/invariant.h"

#include <string.h>

/* So long a GPU's lane looks without a pause before it sleeps. */
#define SPIN_NS 30000u
#define SLEEP_MIN_NS 20000u
#define SLEEP_MAX_NS 1000000u
/* Nobody waits for a lane that was given up. */
#define SLEEP_GIVEN_UP_NS 20000000u
/* A lane sleeps for this part of what a unit takes. */
#define SLEEPS_PER_UNIT 16u
/* Slots begin at such multiples. */
#define SLOT_ALIGNMENT 256u
#define WORKERS_PER_JOB 4u
/* A lane with this much to do can wait for more. */
#define ENOUGH_NS 4000000u

static const struct muster_backend *table_of(const struct line *line)
{
    return &line->lane->device->backend->table;
}

static uint32_t sink_of(const struct line *line)
{
    return line->plan->step_count - 1;
}

static struct line_unit *unit_at(const struct line *line, uint64_t number)
{
    return &line->units[number % line->depth];
}

static uint32_t stream_of(const struct line *line, uint32_t step)
{
    return line->pipeline->declaration.stages[step - 1].stream;
}

static bool is_host(const struct line *line, uint32_t step)
{
    return pipe_is_host(&line->pipeline->declaration, step);
}

/* Where things are. */

static size_t declared_bytes(const struct line_unit *unit, uint32_t buffer, uint32_t part)
{
    const struct muster_job *job = unit->line->job;
    const struct muster_buffer *declared = &job->pipeline->buffers[buffer];
    uint64_t items = unit->slot->claim.range.end - unit->slot->claim.range.begin;
    uint64_t before = part * job->part_items;
    return (size_t)least(items - before, job->part_items) * declared->bytes_per_item +
           declared->bytes_fixed;
}

static size_t part_bytes(const struct line_unit *unit, uint32_t buffer, uint32_t part)
{
    size_t set = *line_bytes(unit, buffer, part);
    return set == SIZE_MAX ? declared_bytes(unit, buffer, part) : set;
}

struct line_place line_place(const struct line_unit *unit, uint32_t buffer, uint32_t first_part,
                             uint32_t part_count)
{
    const struct line *line = unit->line;
    struct muster_job *job = line->job;
    const struct line_buffer *of = &line->buffers[buffer];
    const struct muster_buffer *declared = &line->pipeline->buffers[buffer];
    bool is_carried = declared->flags & MUSTER_CARRIED;
    size_t offset = is_carried ? 0 : first_part * job->strides[buffer];
    size_t slot = (size_t)(unit->number % of->slots) * of->slot_bytes;
    uint32_t last = first_part + part_count - 1;
    struct line_place place = { .capacity = job->strides[buffer] * (is_carried ? 1 : part_count) };
    place.bytes = is_carried
                      ? declared->bytes_fixed
                      : (part_count - 1) * job->strides[buffer] + part_bytes(unit, buffer, last);
    if (of->is_output) {
        uint32_t output = 0;
        while (line->pipeline->outputs[output] != buffer)
            output++;
        place.host = job_buffer(job, unit->slot->buffer) + job->out_offsets[output] + offset;
    } else if (of->is_input && !line->is_staged) {
        uint64_t begin = unit->slot->claim.range.begin;
        char *first = job->desc.source ? unit->slot->ring + source_offset(&job->source, begin)
                                       : (char *)job->desc.input + begin * declared->bytes_per_item;
        place.host = first + offset;
    } else if (of->host) {
        place.host = of->host + slot + offset;
    } else {
        place.memory = &of->memory;
        place.offset = slot + offset;
    }
    return place;
}

/* Setting up. */

static muster_status take_streams(struct line *line, struct muster_error *err)
{
    struct muster *m = line->job->m;
    for (uint32_t i = 0; i < line->pipeline->declaration.stream_count; i++) {
        muster_status status = muster_stream_acquire(m, device_handle_locked(line->lane->device), 0,
                                                     &line->handles[i], err);
        if (status == MUSTER_OK) {
            status = stream_pin(m, line->handles[i], &line->streams[i], err);
            if (status != MUSTER_OK)
                muster_stream_release(m, line->handles[i], NULL);
        }
        if (status != MUSTER_OK)
            return status;
    }
    return MUSTER_OK;
}

static void give_streams(struct line *line)
{
    for (uint32_t i = 0; i < MUSTER_ROLES_MAX; i++) {
        if (!line->streams[i])
            continue;
        stream_unpin(line->streams[i]);
        muster_stream_release(line->job->m, line->handles[i], NULL);
        line->streams[i] = NULL;
    }
}

static muster_status make_device_buffer(struct line *line, struct line_buffer *buffer,
                                        bool is_carried, struct muster_error *err)
{
    struct muster *m = line->job->m;
    struct muster_block_info info = { .size = sizeof info };
    uint64_t bytes = (uint64_t)buffer->slots * buffer->slot_bytes;
    muster_status status = muster_block_allocate(m, line->handles[0], bytes, &buffer->block, err);
    if (status == MUSTER_OK && is_carried)
        status = muster_fill(m, line->handles[0], buffer->block, 0, 0, bytes, err);
    if (status == MUSTER_OK)
        status = muster_block_info(m, buffer->block, &info, err);
    buffer->memory = (struct muster_memory){ info.address, info.object, bytes };
    return status;
}

static muster_status make_buffers(struct line *line, struct muster_error *err)
{
    struct muster_job *job = line->job;
    const struct muster_pipeline *pipeline = line->pipeline;
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < pipeline->declaration.buffer_count && status == MUSTER_OK; i++) {
        const struct pipe_buffer *declared = &pipeline->declaration.buffers[i];
        struct line_buffer *buffer = &line->buffers[i];
        size_t bytes = job->strides[i] * (declared->is_carried ? 1 : job->parts_max);
        *buffer = (struct line_buffer){ .slots = declared->slots,
                                        .slot_bytes = (bytes + SLOT_ALIGNMENT - 1) &
                                                      ~(size_t)(SLOT_ALIGNMENT - 1),
                                        .is_input = declared->is_input,
                                        .is_output = declared->is_output };
        if (declared->is_output || (declared->is_input && !line->is_staged))
            continue;
        /* A staged unit has its own place too. */
        if (declared->is_input)
            buffer->slots = line->depth;
        if (!declared->is_host) {
            status = make_device_buffer(line, buffer, declared->is_carried, err);
            continue;
        }
        void *memory;
        bytes = buffer->slots * buffer->slot_bytes;
        status = muster_host_allocate(job->m, device_handle_locked(line->lane->device), bytes,
                                      &memory, err);
        if (status != MUSTER_OK)
            break;
        buffer->host = memory;
        if (declared->is_carried)
            memset(buffer->host, 0, bytes);
    }
    /* What was allocated in the order of one stream is used on others. */
    if (status == MUSTER_OK && line->streams[0])
        status =
            stream_drain(line->streams[0], platform_deadline_ns(job->m->options.close_ns), err);
    return status;
}

/* What each step has to record, and which arrivals mean that a unit is over. */
static void find_records(struct line *line)
{
    const struct pipe_plan *plan = line->plan;
    uint64_t is_followed = 0;
    for (uint32_t i = 0; i < plan->edge_count; i++) {
        const struct pipe_edge *edge = &plan->edges[i];
        if (edge->kind == MUSTER_EDGE_EVENT || edge->kind == MUSTER_EDGE_ARRIVAL)
            line->recording |= (uint64_t)1 << edge->from;
        /* A step of the same unit that waits for it arrives later. */
        if (edge->kind == MUSTER_EDGE_EVENT && edge->distance == 0)
            is_followed |= (uint64_t)1 << edge->from;
    }
    for (uint32_t s = 1; s < sink_of(line); s++) {
        if (is_host(line, s))
            continue;
        uint32_t later = s + 1;
        while (later < sink_of(line) &&
               (is_host(line, later) || stream_of(line, later) != stream_of(line, s)))
            later++;
        if (later == sink_of(line) && !(is_followed >> s & 1))
            line->terminal |= (uint64_t)1 << s;
        line->segment_last[plan->segment[s]] = s;
    }
    line->recording |= line->terminal;
}

/* Which steps of the same unit are over when each is begun or executed. */
static void find_behind(struct line *line)
{
    const struct pipe_plan *plan = line->plan;
    for (uint32_t s = 1; s < sink_of(line); s++) {
        for (uint32_t i = 0; i < plan->edge_count; i++) {
            const struct pipe_edge *edge = &plan->edges[i];
            bool is_waited_for =
                edge->kind == MUSTER_EDGE_EVENT || edge->kind == MUSTER_EDGE_ARRIVAL;
            if (edge->to == s && edge->distance == 0 && is_waited_for)
                line->behind[s] |= (uint64_t)1 << edge->from | line->behind[edge->from];
        }
        for (uint32_t t = 1; t < s; t++) {
            bool is_queued =
                !is_host(line, s) && !is_host(line, t) && stream_of(line, s) == stream_of(line, t);
            if (is_host(line, t) || is_queued)
                line->behind[s] |= (uint64_t)1 << t | line->behind[t];
        }
    }
}

static muster_status make_units(struct line *line, struct muster_error *err)
{
    struct muster *m = line->job->m;
    uint32_t steps = line->plan->step_count, depth = line->depth;
    size_t buffers = line->pipeline->declaration.buffer_count;
    size_t per_unit = steps * (sizeof(struct run_event *) + sizeof(muster_status) +
                               sizeof(uint32_t) + 2 * sizeof(bool)) +
                      buffers * line->job->parts_max * sizeof(size_t);
    per_unit = (per_unit + sizeof(void *) - 1) & ~(sizeof(void *) - 1);
    line->units = allocator_take(&m->allocator, depth, sizeof *line->units);
    line->memory_bytes = per_unit;
    line->memory = allocator_take(&m->allocator, depth, per_unit);
    if (!line->units || !line->memory)
        return run_no_memory(err, "a lane's units");
    for (uint32_t i = 0; i < depth; i++) {
        struct line_unit *unit = &line->units[i];
        char *at = (char *)line->memory + i * per_unit;
        unit->line = line;
        unit->slot = &line->lane->slots[i];
        unit->events = (struct run_event **)(void *)at;
        at += steps * sizeof *unit->events;
        unit->bytes = (size_t *)(void *)at;
        at += buffers * line->job->parts_max * sizeof *unit->bytes;
        unit->results = (muster_status *)(void *)at;
        at += steps * sizeof *unit->results;
        unit->launches = (uint32_t *)(void *)at;
        at += steps * sizeof *unit->launches;
        unit->is_untold = (bool *)at;
        unit->has_arrived = (bool *)at + steps;
        for (uint32_t s = 0; s < steps; s++) {
            muster_status status = MUSTER_OK;
            if (line->recording >> s & 1)
                status = event_take(line->lane->device, &unit->events[s], err);
            if (status != MUSTER_OK)
                return status;
        }
    }
    return MUSTER_OK;
}

static muster_status make_gates(struct line *line, struct muster_error *err)
{
    const struct muster_backend *table = table_of(line);
    for (uint32_t i = 0; i < line->plan->edge_count; i++) {
        if (line->plan->edges[i].kind != MUSTER_EDGE_GATE)
            continue;
        void *gate = allocator_take(&line->job->m->allocator, 1, table->gate_bytes);
        if (!gate)
            return run_no_memory(err, "a gate");
        muster_status status = table->gate_init(line->lane->device->state, gate, err);
        if (status != MUSTER_OK) {
            allocator_give(&line->job->m->allocator, gate, 1, table->gate_bytes);
            return status;
        }
        line->gates[i] = gate;
    }
    return MUSTER_OK;
}

/* Whether workers have to move the input to memory that the device copies from quickly. */
static bool must_stage(const struct line *line)
{
    const struct muster_job *job = line->job;
    uint32_t input = line->pipeline->input;
    if (!job->desc.input || job->desc.items == 0 || line->lane->uses_host_memory)
        return false;
    const struct run_device *device = line->lane->device;
    return !device->backend->table.host_is_fast(device->state, job->desc.input,
                                                (size_t)job->desc.items *
                                                    line->pipeline->buffers[input].bytes_per_item);
}

muster_status line_set_up(struct run_lane *lane, struct muster_error *err)
{
    struct muster_job *job = lane->job;
    struct line *line = allocator_take(&job->m->allocator, 1, sizeof *line);
    if (!line)
        return run_no_memory(err, "a lane");
    lane->line = line;
    *line = (struct line){ .lane = lane, .job = job, .pipeline = job->pipeline };
    line->plan = pipeline_plan(job->pipeline, lane->device, job->core_options.depth == 1, err);
    if (!line->plan)
        return MUSTER_E_NOT_SUPPORTED;
    line->depth = job->core_options.depth;
    line->is_staged = must_stage(line);
    find_records(line);
    find_behind(line);
    muster_status status = MUSTER_OK;
    if (line->is_staged || line->pipeline->has_host_steps) {
        /* Lanes share them. */
        if (!job->workers)
            status = workers_start(job, WORKERS_PER_JOB, &job->workers, err);
    }
    if (status == MUSTER_OK)
        status = take_streams(line, err);
    if (status == MUSTER_OK)
        status = make_buffers(line, err);
    if (status == MUSTER_OK)
        status = make_units(line, err);
    if (status == MUSTER_OK)
        status = make_gates(line, err);
    if (status == MUSTER_OK && account_is_on(line))
        account_set_up(line);
    return status;
}

void line_tear_down(struct run_lane *lane)
{
    struct line *line = lane->line;
    if (!line)
        return;
    struct muster *m = line->job->m;
    const struct muster_backend *table = table_of(line);
    account_free(line);
    for (uint32_t i = 0; i < MUSTER_EDGES_MAX; i++) {
        if (!line->gates[i])
            continue;
        table->gate_deinit(line->gates[i]);
        allocator_give(&m->allocator, line->gates[i], 1, table->gate_bytes);
        line->gates[i] = NULL;
    }
    run_lock(m);
    for (uint32_t i = 0; line->units && i < line->depth; i++)
        for (uint32_t s = 0; line->units[i].events && s < line->plan->step_count; s++) {
            if (line->units[i].events[s])
                event_unreference_locked(lane->device, line->units[i].events[s]);
            line->units[i].events[s] = NULL;
        }
    run_unlock(m);
    for (uint32_t i = 0; i < MUSTER_BUFFERS_MAX; i++) {
        struct line_buffer *buffer = &line->buffers[i];
        if (buffer->block.generation != 0)
            muster_block_free(m, line->handles[0], buffer->block, NULL);
        muster_host_free(m, buffer->host, NULL);
        buffer->block = (muster_block){ 0, 0 };
        buffer->host = NULL;
    }
    give_streams(line);
}

void line_free(struct run_lane *lane)
{
    struct line *line = lane->line;
    if (!line)
        return;
    const struct muster_allocator *allocator = &line->job->m->allocator;
    allocator_give(allocator, line->memory, line->depth, line->memory_bytes);
    allocator_give(allocator, line->units, line->depth, sizeof *line->units);
    allocator_give(allocator, line, 1, sizeof *line);
    lane->line = NULL;
}

/* Asking whether steps are over. */

/* The unit failed, or is not wanted: what is left of it only records. */
static void void_unit(struct line_unit *unit, muster_status status, const struct muster_error *why)
{
    if (unit->slot->given == MUSTER_OK && status != MUSTER_OK) {
        unit->slot->given = status;
        unit->slot->problem = *why;
    }
    unit->is_void = true;
}

/* Whether the device has come to the end of the step. */
static bool has_arrived(struct line_unit *unit, uint32_t step)
{
    struct line *line = unit->line;
    if (unit->has_arrived[step])
        return true;
    muster_status status =
        unit->is_untold[step]
            ? table_of(line)->stream_query(line->streams[stream_of(line, step)]->state, NULL)
            : table_of(line)->event_query(unit->events[step]->state, NULL);
    if (status != MUSTER_OK && !run_is_over(status)) {
        line->awaits_device = true;
        return false;
    }
    if (status != MUSTER_OK) {
        unit->slot->ended = unit->slot->ended == MUSTER_OK ? status : unit->slot->ended;
        unit->is_void = true;
        line->must_renew = true;
        line->is_lost = line->is_lost || muster_status_discards(status) == MUSTER_DISCARD_DEVICE;
    }
    unit->has_arrived[step] = true;
    return true;
}

/* Whether all of the unit is over: nothing of it is with the device, nor with a worker. */
static bool is_over(struct line_unit *unit)
{
    const struct line *line = unit->line;
    if (unit->next < sink_of(line))
        return false;
    for (uint32_t s = sink_of(line) - 1; s > 0; s--)
        if ((line->terminal >> s & 1) && !has_arrived(unit, s))
            return false;
    return true;
}

/* Edges. */

/* Steps that are not the line's to order: the job hands out their memory when it is free. */
static bool is_job_step(const struct line *line, uint32_t step)
{
    return step == sink_of(line) || (step == 0 && !line->is_staged);
}

/* Whether the edge lets the unit's step be enqueued or begun. */
static bool lets_pass(struct line_unit *unit, const struct pipe_edge *edge)
{
    struct line *line = unit->line;
    if (unit->number < line->oldest + edge->distance || is_job_step(line, edge->from) ||
        (edge->kind == MUSTER_EDGE_GATE && !unit->asks))
        return true;
    struct line_unit *before = unit_at(line, unit->number - edge->distance);
    if (before->next <= edge->from)
        return false;
    /* A stream cannot wait for what was not recorded. */
    bool is_event = edge->kind == MUSTER_EDGE_EVENT;
    bool must_ask = edge->kind == MUSTER_EDGE_ARRIVAL ||
                    (is_event && (unit->asks || before->is_untold[edge->from]));
    return !must_ask || has_arrived(before, edge->from);
}

static void count_stall(struct line_unit *unit, uint64_t now_ns)
{
    if (unit->asked_ns != 0 && unit->holder != PIPE_NONE) {
        unit->line->counts[unit->holder].stall_ns += now_ns - unit->asked_ns;
        account_stall(unit, unit->holder, (struct time_span){ unit->asked_ns, now_ns });
    }
    unit->asked_ns = 0;
}

/* Whether all edges into the next step do. */
static bool may_go_on(struct line_unit *unit, uint32_t step)
{
    struct line *line = unit->line;
    const struct pipe_plan *plan = line->plan;
    uint32_t holder = PIPE_NONE;
    bool may = true;
    for (uint32_t i = 0; i < plan->edge_count && may; i++)
        if (plan->edges[i].to == step && !lets_pass(unit, &plan->edges[i])) {
            may = false;
            holder = i;
        }
    /* Each segment is enqueued in unit order. */
    if (may && !is_host(line, step) && unit->number > line->oldest)
        may = unit_at(line, unit->number - 1)->next > line->segment_last[plan->segment[step]];
    if (!account_is_on(line))
        return may;
    uint64_t now_ns = platform_clock_ns();
    if (may || (unit->asked_ns != 0 && unit->holder != holder))
        count_stall(unit, now_ns);
    if (!may && unit->asked_ns == 0) {
        unit->asked_ns = now_ns;
        unit->holder = holder;
    }
    return may;
}

/* Kinds of edges, as bits: what a stream is told, what the host publishes, what it looks at. */
#define BIT(kind) (1u << (kind))
#define RECORDED_KINDS (BIT(MUSTER_EDGE_EVENT) | BIT(MUSTER_EDGE_ARRIVAL))
#define QUEUED_KINDS (BIT(MUSTER_EDGE_EVENT) | BIT(MUSTER_EDGE_GATE))
#define ALL_KINDS (~0u)

static void count_waits(struct line_unit *unit, uint32_t step, uint32_t kinds)
{
    struct line *line = unit->line;
    for (uint32_t i = 0; i < line->plan->edge_count; i++) {
        const struct pipe_edge *edge = &line->plan->edges[i];
        if (edge->to == step && (BIT(edge->kind) & kinds) && unit->number >= edge->distance)
            line->counts[i].waits++;
    }
}

static void count_records(struct line_unit *unit, uint32_t step, uint32_t kinds)
{
    struct line *line = unit->line;
    for (uint32_t i = 0; i < line->plan->edge_count; i++)
        if (line->plan->edges[i].from == step && (BIT(line->plan->edges[i].kind) & kinds))
            line->counts[i].records++;
}

/* Opens what waits for the end of this host step, whatever came of it. */
static void publish(struct line_unit *unit, uint32_t step)
{
    struct line *line = unit->line;
    for (uint32_t i = 0; i < line->plan->edge_count; i++) {
        struct muster_error problem = { .size = sizeof problem };
        if (line->plan->edges[i].kind != MUSTER_EDGE_GATE || line->plan->edges[i].from != step)
            continue;
        muster_status status =
            table_of(line)->gate_publish(line->gates[i], unit->number + 1, &problem);
        line->counts[i].records += status == MUSTER_OK;
        line->was_refused = line->was_refused || status != MUSTER_OK;
        if (status != MUSTER_OK)
            void_unit(unit, device_note(line->lane->device, status, &problem), &problem);
    }
}

/* Enqueueing. */

/* One wait on the stream, for what unit number `before` does. */
static muster_status queue_wait(struct line *line, uint32_t index, void *stream, uint64_t before,
                                struct muster_error *err)
{
    const struct muster_backend *table = table_of(line);
    const struct pipe_edge *edge = &line->plan->edges[index];
    muster_status status = MUSTER_OK;
    bool is_event = edge->kind == MUSTER_EDGE_EVENT;
    /* What is not in flight any more is over. */
    if (before >= line->oldest && is_event && !unit_at(line, before)->is_untold[edge->from])
        status = table->stream_wait(stream, unit_at(line, before)->events[edge->from]->state, err);
    else if (before >= line->oldest && !is_event)
        status = table->gate_wait(line->gates[index], stream, before + 1, err);
    line->counts[index].waits += status == MUSTER_OK;
    line->was_refused = line->was_refused || status != MUSTER_OK;
    return status;
}

/* The waits that make it safe to do what the step does. */
static muster_status queue_waits(struct line_unit *unit, uint32_t step, struct muster_error *err)
{
    struct line *line = unit->line;
    void *stream = line->streams[stream_of(line, step)]->state;
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < line->plan->edge_count && status == MUSTER_OK; i++) {
        const struct pipe_edge *edge = &line->plan->edges[i];
        if (edge->to == step && (BIT(edge->kind) & QUEUED_KINDS) && unit->number >= edge->distance)
            status = queue_wait(line, i, stream, unit->number - edge->distance, err);
    }
    return status;
}

/* How much a copy moves, and what of it counts afterwards. */
static muster_status copy_part(struct line_unit *unit, uint32_t step, uint32_t first_part,
                               uint32_t part_count, struct muster_error *err)
{
    struct line *line = unit->line;
    const struct muster_stage *stage = &line->pipeline->stages[step - 1];
    uint32_t from_buffer = (uint32_t)__builtin_ctzll(stage->reads);
    uint32_t to_buffer = (uint32_t)__builtin_ctzll(stage->writes);
    struct line_place from = line_place(unit, from_buffer, first_part, part_count);
    struct line_place to = line_place(unit, to_buffer, first_part, part_count);
    bool is_set = part_count == 1 && *line_bytes(unit, from_buffer, first_part) != SIZE_MAX;
    size_t bytes = is_set ? from.bytes : from.bytes < to.bytes ? from.bytes : to.bytes;
    if (bytes > to.capacity)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "make the buffer larger",
                                 "stage '%s' copies %zu bytes to '%s', which has room for %zu",
                                 stage->name, bytes, line->pipeline->buffers[to_buffer].name,
                                 to.capacity);
    if (is_set)
        *line_bytes(unit, to_buffer, first_part) = bytes;
    if (bytes == 0)
        return MUSTER_OK;
    const struct muster_copy_desc copy = {
        .to = { .memory = to.memory, .offset = to.offset, .host = to.host },
        .from = { .memory = from.memory, .offset = from.offset, .host = from.host },
        .bytes = bytes
    };
    if (to.memory && !from.memory)
        run_count(&line->job->m->counts.bytes_in, bytes);
    else if (from.memory && !to.memory)
        run_count(&line->job->m->counts.bytes_out, bytes);
    unit->slot->copied_bytes += !to.memory == !from.memory ? 0 : bytes;
    void *stream = line->streams[stream_of(line, step)]->state;
    /* Between two places on the host the stream's own order is what counts. */
    return table_of(line)->copy(stream, &copy, err);
}

static muster_status do_parts(struct line_unit *unit, uint32_t step, uint32_t first_part,
                              uint32_t part_count, struct muster_error *err)
{
    const struct muster_stage *stage = &unit->line->pipeline->stages[step - 1];
    if (stage->flags & MUSTER_COPY)
        return copy_part(unit, step, first_part, part_count, err);
    if (!stage->run)
        return unit_launch_stage(unit, step, first_part, part_count, err);
    return unit_call(unit, step, first_part, part_count, err);
}

/* Whether one copy moves all parts: they lie alike at both ends, and none has a size of its own. */
static bool copies_once(const struct line_unit *unit, const struct muster_stage *stage)
{
    const struct muster_job *job = unit->line->job;
    uint32_t from = (uint32_t)__builtin_ctzll(stage->reads);
    uint32_t to = (uint32_t)__builtin_ctzll(stage->writes);
    uint32_t part = 0;
    if (job->strides[from] != job->strides[to])
        return false;
    while (part < unit->part_count && *line_bytes(unit, from, part) == SIZE_MAX)
        part++;
    return part == unit->part_count;
}

/* Does the step: once for all parts, or for one after the other. */
static muster_status do_step(struct line_unit *unit, uint32_t step, struct muster_error *err)
{
    const struct muster_pipeline *pipeline = unit->line->pipeline;
    const struct muster_stage *stage = &pipeline->stages[step - 1];
    bool is_once = (stage->every > 1 || pipeline->may_merge) &&
                   (!(stage->flags & MUSTER_COPY) || copies_once(unit, stage));
    muster_status status = MUSTER_OK;
    if (is_once)
        return do_parts(unit, step, 0, unit->part_count, err);
    /* A job that is over did not wait for its user's code or for a driver: nothing more is begun. */
    for (uint32_t part = 0; part < unit->part_count && status == MUSTER_OK &&
                            !thread_is_given_up(&unit->line->lane->thread);
         part++)
        status = do_parts(unit, step, part, 1, err);
    return status;
}

/* False: a wait was refused. Then it is tried again when all that it waits for is over. */
static bool enqueue(struct line_unit *unit, uint32_t step)
{
    struct line *line = unit->line;
    struct muster_error problem = { .size = sizeof problem };
    void *stream = line->streams[stream_of(line, step)]->state;
    muster_status status = unit->asks ? MUSTER_OK : queue_waits(unit, step, &problem);
    if (status != MUSTER_OK) {
        void_unit(unit, device_note(line->lane->device, status, &problem), &problem);
        unit->asks = true;
        return false;
    }
    unit->asks = false;
    count_waits(unit, step, ~QUEUED_KINDS);
    account_begin_step(unit, step);
    if (!unit->is_void)
        status = do_step(unit, step, &problem);
    if (status < MUSTER_OK)
        void_unit(unit, device_note(line->lane->device, status, &problem), &problem);
    account_end_step(unit, step);
    count_records(unit, step, ~RECORDED_KINDS);
    if (!(line->recording >> step & 1))
        return true;
    status = table_of(line)->event_record(unit->events[step]->state, stream, &problem);
    unit->is_untold[step] = status != MUSTER_OK;
    if (status == MUSTER_OK)
        count_records(unit, step, RECORDED_KINDS);
    if (status != MUSTER_OK) {
        line->was_refused = true;
        void_unit(unit, device_note(line->lane->device, status, &problem), &problem);
        line->must_renew = true;
    }
    return true;
}

/* Host steps. */

/* On a worker: moves the unit's part of the caller's array to where the device can copy it from. */
static void stage_input(struct line_unit *unit)
{
    struct line *line = unit->line;
    uint32_t input = line->pipeline->input;
    struct line_place to = line_place(unit, input, 0, unit->part_count);
    size_t item_bytes = line->pipeline->buffers[input].bytes_per_item;
    copiers_copy(line->job->m, to.host,
                 (const char *)line->job->desc.input + unit->slot->claim.range.begin * item_bytes,
                 to.bytes);
}

static void run_host_step(void *argument)
{
    struct line_unit *unit = argument;
    struct muster_job *job = unit->line->job;
    unit->step_status = MUSTER_OK;
    unit->step_problem.size = sizeof unit->step_problem;
    unit->host_span.begin_ns = account_is_on(unit->line) ? platform_clock_ns() : 0;
    if (unit->next == 0)
        stage_input(unit);
    else
        unit->step_status = do_step(unit, unit->next, &unit->step_problem);
    unit->host_span.end_ns = account_is_on(unit->line) ? platform_clock_ns() : 0;
    run_lock(job->m);
    /* Release: the lane's thread goes on with what the step has written. */
    atomic_store_explicit(&unit->host_state, HOST_RETURNED, memory_order_release);
    job_wake_locked(job);
    run_unlock(job->m);
}

static void begin_host_step(struct line_unit *unit)
{
    count_waits(unit, unit->next, ALL_KINDS);
    unit->work = (struct work){ .run = run_host_step, .user = unit };
    atomic_store_explicit(&unit->host_state, HOST_RUNNING, memory_order_relaxed);
    unit->line->host_steps++;
    workers_give(unit->line->job->workers, &unit->work);
}

static void end_host_step(struct line_unit *unit)
{
    atomic_store_explicit(&unit->host_state, HOST_IDLE, memory_order_relaxed);
    count_records(unit, unit->next, ~BIT(MUSTER_EDGE_GATE));
    publish(unit, unit->next);
    if (unit->step_status < MUSTER_OK) {
        unit->slot->is_refused = unit->slot->given == MUSTER_OK;
        void_unit(unit, unit->step_status, &unit->step_problem);
    }
    unit->next++;
}

/* Among those that are over when the host step begins: others may be saying so right now. */
static bool has_failed_kernel(const struct line_unit *unit, uint32_t step)
{
    uint64_t left = unit->line->behind[step];
    while (left != 0 && unit->results[__builtin_ctzll(left)] == MUSTER_OK)
        left &= left - 1;
    return left != 0;
}

/* Going on with it: true if the next host step was begun, is over or is not needed. */
static bool move_host_step(struct line_unit *unit)
{
    uint32_t state = atomic_load_explicit(&unit->host_state, memory_order_acquire);
    if (state == HOST_RUNNING)
        return false;
    if (state == HOST_RETURNED) {
        unit->line->host_steps--;
        if (account_is_on(unit->line))
            account_host_step(unit, unit->next);
        end_host_step(unit);
        return true;
    }
    if (!may_go_on(unit, unit->next))
        return false;
    /* What a kernel that failed has left is nothing for the user's code to look at. */
    unit->is_void = unit->is_void || has_failed_kernel(unit, unit->next);
    if (unit->is_void) {
        unit->step_status = MUSTER_OK;
        count_waits(unit, unit->next, ALL_KINDS);
        end_host_step(unit);
        return true;
    }
    begin_host_step(unit);
    return true;
}

/* Enqueues and begins what it can of a unit; true if that was anything. */
static bool move_unit(struct line_unit *unit)
{
    struct line *line = unit->line;
    bool has_moved = false;
    while (unit->next < sink_of(line)) {
        uint32_t step = unit->next;
        unit->is_void = unit->is_void || line->is_over;
        /* With one unit the device was lost to all: nothing of them is given to it any more. */
        if (line->is_lost && !unit->is_void) {
            unit->slot->ended = MUSTER_E_DEVICE_LOST;
            unit->is_void = true;
        }
        /* The window keeps what a slot may still read; the edge is kept by that. */
        if (step == 0 && !line->is_staged) {
            count_waits(unit, 0, ALL_KINDS);
            count_records(unit, 0, ALL_KINDS);
            unit->next++;
            continue;
        }
        if (is_host(line, step)) {
            if (!move_host_step(unit))
                break;
            has_moved = true;
            continue;
        }
        if (!may_go_on(unit, step))
            break;
        if (enqueue(unit, step))
            unit->next++;
        has_moved = true;
    }
    return has_moved;
}

static bool move_units(struct line *line)
{
    bool has_moved = false;
    line->awaits_device = false;
    for (uint64_t number = line->oldest; number < line->next; number++)
        has_moved = move_unit(unit_at(line, number)) || has_moved;
    return has_moved;
}

/* Units come and go. */

/* The device's figures see units, as of other jobs; the totals see launches. */
static void begin_load_locked(struct line_unit *unit)
{
    struct run_device *device = unit->line->lane->device;
    struct lane_slot *slot = unit->slot;
    uint64_t items = slot->claim.range.end - slot->claim.range.begin;
    slot->mark = unit_begin_locked(device, items, slot->kicked_ns);
    run_count(&device->m->counts.line_units, 1);
    device_view_locked(device);
}

static void end_load_locked(struct line_unit *unit, bool is_done, uint64_t now_ns)
{
    struct run_device *device = unit->line->lane->device;
    struct run_counts *counts = &device->m->counts;
    const struct lane_slot *slot = unit->slot;
    uint64_t items = slot->claim.range.end - slot->claim.range.begin;
    unit_end_locked(device, slot->mark, items, is_done, now_ns);
    run_count(is_done ? &counts->line_units_done : &counts->line_units_failed, 1);
    device_view_locked(device);
}

static void count_launches_ended(const struct line_unit *unit)
{
    const struct line *line = unit->line;
    struct run_counts *counts = &line->job->m->counts;
    for (uint32_t s = 1; s < sink_of(line); s++) {
        bool is_done = unit->slot->ended == MUSTER_OK && unit->results[s] == MUSTER_OK;
        if (unit->launches[s] > 0)
            run_count(is_done ? &counts->line_launches_done : &counts->line_launches_failed,
                      unit->launches[s]);
    }
}

/*
 * Whether the device has enough to do for a while: a unit for each stream and one more, and of more
 * than that not so many that others could have done them long before.
 */
static bool has_enough(const struct line *line)
{
    uint64_t count = line->next - line->oldest;
    return count == line->depth || (count > line->pipeline->declaration.stream_count &&
                                    count * line->interval_ns > ENOUGH_NS);
}

static bool claim_locked(struct line *line)
{
    struct lane_slot *slot = &line->lane->slots[line->next % line->depth];
    if (has_enough(line) || line->must_renew || line->job->must_leave ||
        !lane_claim_locked(line->lane, slot))
        return false;
    if (slot->stage != STAGE_RUNNING)
        return true;
    struct line_unit *unit = unit_at(line, line->next);
    uint64_t items = slot->claim.range.end - slot->claim.range.begin;
    uint32_t steps = line->plan->step_count;
    unit->number = line->next++;
    unit->part_count = (uint32_t)((items - 1) / line->job->part_items + 1);
    unit->next = 0;
    unit->is_void = unit->asks = false;
    unit->asked_ns = 0;
    for (uint32_t s = 0; s < steps; s++) {
        unit->results[s] = MUSTER_OK;
        unit->is_untold[s] = unit->has_arrived[s] = false;
        unit->launches[s] = 0;
    }
    for (size_t i = 0; i < line->pipeline->declaration.buffer_count * line->job->parts_max; i++)
        unit->bytes[i] = SIZE_MAX;
    slot->given = slot->ended = slot->result = MUSTER_OK;
    slot->is_refused = false;
    slot->marked = 0;
    slot->at_kernel = (struct time_span){ 0, 0 };
    slot->copied_bytes = 0;
    begin_load_locked(unit);
    return true;
}

/* What is to be told of the unit's outputs when they are delivered. */
static void note_bytes_locked(struct line_unit *unit)
{
    const struct line *line = unit->line;
    for (uint32_t i = 0; i < line->pipeline->output_count; i++)
        for (uint32_t part = 0; part < unit->part_count; part++)
            *job_result_bytes(line->job, unit->slot->buffer, i, part) =
                part_bytes(unit, line->pipeline->outputs[i], part);
}

/* All of the oldest unit is over. */
static void finish_locked(struct line *line)
{
    struct line_unit *unit = unit_at(line, line->oldest);
    struct lane_slot *slot = unit->slot;
    count_records(unit, sink_of(line), ALL_KINDS);
    count_waits(unit, sink_of(line), ALL_KINDS);
    for (uint32_t s = 1; s < sink_of(line) && slot->result == MUSTER_OK; s++)
        slot->result = unit->results[s];
    /* From its first step on the device has it: stages are given one by one while others run. */
    slot->given_ns = slot->kicked_ns;
    slot->ended_ns = platform_clock_ns();
    line->unit_ns = slot->ended_ns - slot->kicked_ns;
    /* From the end of one to the end of the next, on the average; less than a unit takes. */
    if (line->ended_ns != 0)
        line->interval_ns = (3 * line->interval_ns + (slot->ended_ns - line->ended_ns)) / 4;
    line->ended_ns = slot->ended_ns;
    /* What was broken off because the job is over says nothing of the unit. */
    slot->is_broken_off = unit->is_void && slot->given == MUSTER_OK && slot->ended == MUSTER_OK &&
                          slot->result == MUSTER_OK;
    note_bytes_locked(unit);
    count_launches_ended(unit);
    end_load_locked(unit,
                    slot->given == MUSTER_OK && slot->ended == MUSTER_OK &&
                        slot->result == MUSTER_OK && !slot->is_broken_off,
                    slot->ended_ns);
    line->oldest++;
    line->job->outstanding--;
    slot->stage = STAGE_FINISHED;
    lane_finish_locked(slot);
}

/* All streams anew, after one failed and nothing is in flight. */
static void renew_streams(struct line *line)
{
    for (uint32_t i = 0; i < line->pipeline->declaration.stream_count; i++)
        stream_renew(line->streams[i], NULL);
    line->must_renew = false;
}

/* Host stages are the user's code: however long they take, the device is not to blame. */
static void note_host_steps_locked(struct line *line)
{
    struct muster_job *job = line->job;
    bool is_held_up = line->host_steps > 0;
    uint64_t due_ns = job_look_due(job->core);
    if (is_held_up == line->is_held_up)
        return;
    line->is_held_up = is_held_up;
    job_lane_held_up(job->core, line->lane->index, is_held_up, platform_clock_ns());
    if (job_look_due(job->core) < due_ns)
        job_wake_locked(job);
}

/* Called with the lock. Looks on for a while, or sleeps until there is news or it is time to look. */
static void wait_locked(struct line *line)
{
    struct muster_job *job = line->job;
    uint64_t now_ns = platform_clock_ns();
    if (!line->awaits_device) {
        platform_condition_wait(&job->changed, &job->m->lock, UINT64_MAX);
        return;
    }
    bool is_gpu = line->lane->device->info.kind == MUSTER_KIND_GPU;
    if (is_gpu && now_ns - line->moved_ns < SPIN_NS) {
        run_unlock(job->m);
        platform_thread_yield();
        run_lock(job->m);
        return;
    }
    uint64_t pause_ns = line->unit_ns / SLEEPS_PER_UNIT;
    pause_ns = pause_ns < SLEEP_MIN_NS ? SLEEP_MIN_NS : least(pause_ns, SLEEP_MAX_NS);
    if (thread_is_given_up(&line->lane->thread))
        pause_ns = SLEEP_GIVEN_UP_NS;
    platform_condition_wait(&job->changed, &job->m->lock, now_ns + pause_ns);
}

/* Called with the lock, which the lane's thread lets go of. */
static void leave_locked(struct line *line)
{
    /* Units that the device has not finished are ended for its figures: they may never finish. */
    for (uint64_t number = line->oldest; number < line->next; number++)
        end_load_locked(unit_at(line, number), false, platform_clock_ns());
    lane_unlock(line->lane);
    if (account_is_on(line) && !line->was_refused && line->oldest == line->next)
        account_check(line);
}

void line_forget(struct run_lane *lane)
{
    struct line *line = lane->line;
    for (; line && line->oldest < line->next; line->oldest++) {
        unit_at(line, line->oldest)->slot->stage = STAGE_FREE;
        line->job->outstanding--;
    }
}

void line_run(struct run_lane *lane)
{
    struct line *line = lane->line;
    struct muster_job *job = lane->job;
    for (uint32_t i = 0; i < job->pipeline->declaration.stage_count; i++)
        if (job->pipeline->stages[i].kernel)
            kernel_prepare(job->pipeline->stages[i].kernel, lane->device);
    lane_lock(lane);
    for (;;) {
        uint64_t seen = job->changes, due_ns = job_look_due(job->core);
        bool has_moved = claim_locked(line);
        /* A claim that got nothing may have brought the next look forward: the conductor's matter. */
        if (job_look_due(job->core) < due_ns) {
            job_wake_locked(job);
            seen = job->changes;
        }
        line->is_over = job_state(job->core) != JOB_RUNNING;
        lane_unlock(lane);
        has_moved = move_units(line) || has_moved;
        bool is_oldest_over = line->oldest < line->next && is_over(unit_at(line, line->oldest));
        if (is_oldest_over)
            account_unit(unit_at(line, line->oldest));
        if (line->must_renew && line->oldest == line->next) {
            renew_streams(line);
            has_moved = true;
        }
        lane_lock(lane);
        note_host_steps_locked(line);
        if (is_oldest_over)
            finish_locked(line);
        if (is_oldest_over || has_moved) {
            line->moved_ns = platform_clock_ns();
            continue;
        }
        if (job->must_leave && lane_may_leave_locked(lane))
            break;
        if (job->changes == seen)
            wait_locked(line);
    }
    leave_locked(line);
}
