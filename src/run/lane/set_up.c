/*
 * What a lane needs on its device, for the plan it carries out: streams, buffers, events, gates.
 */
#include "run/lane/lane.h"

#include "base/allocator.h"
#include "platform/machine.h"
#include "run/memory/pages.h"
#include "run/memory/spare.h"

#include <string.h>

#define WORKERS_PER_JOB 4u
#define TOUCHED_BYTES ((size_t)2 << 20)
/* What takes less is not worth a line in the log. */
#define LOGGED_NS 1000000u

static struct muster *runtime_of(const struct run_lane *lane)
{
    return lane->work->group.m;
}

static uint32_t stream_count(const struct run_lane *lane)
{
    return lane->plan->declaration->stream_count * lane->plan->width;
}

static muster_status make_device_buffer(struct run_lane *lane, struct lane_buffer *buffer,
                                        uint64_t bytes, bool is_carried, struct muster_error *err)
{
    struct muster *m = runtime_of(lane);
    struct muster_block_info info = { .size = sizeof info };
    muster_stream stream = lane->streams[0].handle;
    muster_status status = spare_take(m, stream, bytes, &buffer->block, err);
    if (status == MUSTER_OK && is_carried)
        status = muster_fill(m, stream, buffer->block, 0, 0, bytes, err);
    if (status == MUSTER_OK)
        status = muster_block_info(m, buffer->block, &info, err);
    buffer->memory = (struct muster_memory){ info.address, info.object, bytes };
    return status;
}

static muster_status make_host_buffer(struct run_lane *lane, struct lane_buffer *buffer,
                                      size_t bytes, bool is_carried, struct muster_error *err)
{
    const struct pages_want want = { .bytes = bytes,
                                     .nodes = platform_node_bit(lane->device->info.numa_node) };
    muster_status status = pages_take(runtime_of(lane), &want, &buffer->pages, err);
    if (status != MUSTER_OK)
        return status;
    buffer->host = buffer->pages->memory;
    if (is_carried)
        memset(buffer->host, 0, bytes);
    return pages_pin(buffer->pages, lane->device, err);
}

static muster_status make_buffers(struct run_lane *lane, struct muster_error *err)
{
    const struct pipe_declaration *declaration = lane->plan->declaration;
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < declaration->buffer_count && status == MUSTER_OK; i++) {
        const struct pipe_buffer *declared = &declaration->buffers[i];
        struct lane_buffer *buffer = &lane->buffers[i];
        buffer->slots = declared->slots;
        if (declared->is_output || (declared->is_input && lane->staged == 0))
            continue;
        /* A staged unit has its own place too. */
        if (declared->is_input)
            buffer->slots = lane->plan->depth;
        uint64_t bytes = (uint64_t)buffer->slots * lane->plan->slot_bytes[i];
        /* Without items there is nothing to keep. */
        if (bytes == 0)
            continue;
        status = declared->is_host
                     ? make_host_buffer(lane, buffer, bytes, declared->is_carried, err)
                     : make_device_buffer(lane, buffer, bytes, declared->is_carried, err);
        /* Where there is no pinned memory to pass inputs through they are copied as they are. */
        if (declared->is_input && status != MUSTER_OK) {
            lane->staged = 0;
            status = MUSTER_OK;
        }
    }
    /* What was allocated in the order of one stream is used on others. */
    if (status == MUSTER_OK && lane->streams[0].stream)
        status = stream_drain(lane->streams[0].stream,
                              platform_deadline_ns(runtime_of(lane)->options.close_ns), err);
    return status;
}

/* What each step has to record, and which arrivals mean that a unit is over. */
static void find_records(struct run_lane *lane)
{
    const struct pipe_plan *order = lane->plan->order;
    const struct pipe_stage *stages = lane->plan->declaration->stages;
    uint32_t sink = lane_sink(lane);
    uint64_t is_followed = 0;
    for (uint32_t i = 0; i < order->edge_count; i++) {
        const struct pipe_edge *edge = &order->edges[i];
        if (edge->kind == MUSTER_EDGE_EVENT || edge->kind == MUSTER_EDGE_ARRIVAL)
            lane->recording |= (uint64_t)1 << edge->from;
        /* A step of the same unit that waits for it arrives later. */
        if (edge->kind == MUSTER_EDGE_EVENT && edge->distance == 0)
            is_followed |= (uint64_t)1 << edge->from;
    }
    for (uint32_t s = 1; s < sink; s++) {
        if (lane_is_host_step(lane, s))
            continue;
        uint32_t later = s + 1;
        while (later < sink &&
               (lane_is_host_step(lane, later) || stages[later - 1].stream != stages[s - 1].stream))
            later++;
        if (later == sink && !(is_followed >> s & 1))
            lane->terminal |= (uint64_t)1 << s;
        lane->segment_last[order->segment[s]] = s;
    }
    lane->recording |= lane->terminal;
}

/* Which steps of the same unit are over when each is begun or executed. */
static void find_behind(struct run_lane *lane)
{
    const struct pipe_plan *order = lane->plan->order;
    const struct pipe_stage *stages = lane->plan->declaration->stages;
    for (uint32_t s = 1; s < lane_sink(lane); s++) {
        for (uint32_t i = 0; i < order->edge_count; i++) {
            const struct pipe_edge *edge = &order->edges[i];
            bool is_waited_for =
                edge->kind == MUSTER_EDGE_EVENT || edge->kind == MUSTER_EDGE_ARRIVAL;
            if (edge->to == s && edge->distance == 0 && is_waited_for)
                lane->behind[s] |= (uint64_t)1 << edge->from | lane->behind[edge->from];
        }
        for (uint32_t t = 1; t < s; t++) {
            bool is_queued = !lane_is_host_step(lane, s) && !lane_is_host_step(lane, t) &&
                             stages[s - 1].stream == stages[t - 1].stream;
            if (lane_is_host_step(lane, t) || is_queued)
                lane->behind[s] |= (uint64_t)1 << t | lane->behind[t];
        }
    }
}

/* They stay when all else is given back, since others look at them; false if there is no memory. */
static bool allocate_units(struct run_lane *lane, size_t per_unit)
{
    struct muster *m = runtime_of(lane);
    uint32_t depth = lane->plan->depth;
    if (lane->units)
        return true;
    struct lane_unit *units = allocator_take(&m->allocator, depth, sizeof *units);
    void *memory = allocator_take(&m->allocator, depth, per_unit);
    for (uint32_t i = 0; units && i < depth; i++)
        units[i].lane = lane;
    if (!units || !memory) {
        allocator_give(&m->allocator, memory, depth, per_unit);
        allocator_give(&m->allocator, units, depth, sizeof *units);
        return false;
    }
    run_lock(m);
    lane->units = units;
    lane->unit_memory = memory;
    lane->unit_bytes = per_unit;
    run_unlock(m);
    return true;
}

static muster_status make_units(struct run_lane *lane, struct muster_error *err)
{
    uint32_t steps = lane->plan->order->step_count, depth = lane->plan->depth;
    size_t bytes = lane->plan->sets_bytes ? lane->plan->piece_count * lane->plan->parts_max : 0;
    size_t per_unit = steps * (sizeof(struct run_event *) + sizeof(muster_status) +
                               sizeof(uint32_t) + 2 * sizeof(bool)) +
                      bytes * sizeof(size_t);
    per_unit = (per_unit + sizeof(void *) - 1) & ~(sizeof(void *) - 1);
    if (!allocate_units(lane, per_unit))
        return run_no_memory(err, "a lane's units");
    for (uint32_t i = 0; i < depth; i++) {
        struct lane_unit *unit = &lane->units[i];
        char *at = (char *)lane->unit_memory + i * per_unit;
        unit->events = (struct run_event **)(void *)at;
        at += steps * sizeof *unit->events;
        unit->bytes = bytes > 0 ? (size_t *)(void *)at : NULL;
        at += bytes * sizeof *unit->bytes;
        unit->results_of = (muster_status *)(void *)at;
        at += steps * sizeof *unit->results_of;
        unit->launches = (uint32_t *)(void *)at;
        at += steps * sizeof *unit->launches;
        unit->is_untold = (bool *)at;
        unit->has_arrived = (bool *)at + steps;
        for (uint32_t s = 0; s < steps; s++) {
            muster_status status = MUSTER_OK;
            if (lane->recording >> s & 1)
                status = event_take(lane->device, &unit->events[s], err);
            if (status != MUSTER_OK)
                return status;
        }
    }
    return MUSTER_OK;
}

static muster_status make_gates(struct run_lane *lane, struct muster_error *err)
{
    const struct muster_backend *table = lane_table(lane);
    const struct muster_allocator *allocator = &runtime_of(lane)->allocator;
    for (uint32_t i = 0; i < lane->plan->order->edge_count; i++) {
        if (lane->plan->order->edges[i].kind != MUSTER_EDGE_GATE)
            continue;
        void *gate = allocator_take(allocator, 1, table->gate_bytes);
        if (!gate)
            return run_no_memory(err, "a gate");
        muster_status status = table->gate_init(lane->device->state, gate, err);
        if (status != MUSTER_OK) {
            allocator_give(allocator, gate, 1, table->gate_bytes);
            return status;
        }
        lane->gates[i] = gate;
    }
    return MUSTER_OK;
}

/* Inputs that workers have to move to memory from which the device copies quickly. */
static uint64_t find_staged(const struct run_lane *lane)
{
    const struct lane_plan *plan = lane->plan;
    uint64_t items = plan->items;
    uint64_t staged = 0;
    if (lane->plan->on_host || items == 0)
        return 0;
    for (uint32_t i = 0; i < plan->piece_count; i++) {
        const struct lane_piece *piece = &plan->pieces[i];
        if (plan->declaration->buffers[piece->buffer].is_input && piece->array &&
            !lane_table(lane)->host_is_fast(lane->device->state, piece->array,
                                            (size_t)items * piece->item_bytes))
            staged |= (uint64_t)1 << i;
    }
    return staged;
}

muster_status lane_start_workers(struct lane_work *work, struct muster_error *err)
{
    return work->workers ? MUSTER_OK
                         : workers_start(&work->group, WORKERS_PER_JOB, &work->workers, err);
}

/*
 * To pin memory that nobody has touched yet takes some 10 ms for 30 MB, in which no thread of the process
 * gets pages or maps any. While others work already a ring is touched first, piece by piece, and by a job
 * that is over meanwhile no further.
 */
static muster_status make_ring_known(struct run_lane *lane)
{
    struct pages *ring = lane->memory.ring;
    for (size_t at = 0, bytes = ring ? pages_span(ring) : 0; lane->is_joining && at < bytes;) {
        size_t piece = bytes - at < TOUCHED_BYTES ? bytes - at : TOUCHED_BYTES;
        if (!lane_is_wanted(lane))
            return MUSTER_E_CANCELLED;
        platform_pages_touch(ring->memory + at, piece);
        at += piece;
    }
    pages_pin(ring, lane->device, NULL);
    return MUSTER_OK;
}

void lane_make_results_known(struct run_lane *lane, uint32_t buffer)
{
    struct lane_memory *memory = &lane->memory;
    if (lane->plan->on_host || memory->result_count == 0)
        return;
    uint32_t part = buffer / memory->result_buffers;
    if (memory->known_results >> part & 1)
        return;
    memory->known_results |= (uint64_t)1 << part;
    pages_pin(memory->results[part], lane->device, NULL);
}

static muster_status take_all(struct run_lane *lane, struct muster_error *err)
{
    lane->staged = find_staged(lane);
    lane->has_bell = lane->device->info.kind != MUSTER_KIND_GPU;
    find_records(lane);
    find_behind(lane);
    muster_status status = MUSTER_OK;
    if (lane->staged != 0 || lane->plan->has_host_steps)
        status = lane_start_workers(lane->work, err);
    /* Host stages alone need none. */
    if (status == MUSTER_OK && stream_count(lane) > 0)
        status = streams_take(lane->device, stream_count(lane), lane->streams, err);
    if (status == MUSTER_OK)
        status = make_buffers(lane, err);
    if (status == MUSTER_OK)
        status = make_units(lane, err);
    if (status == MUSTER_OK)
        status = make_gates(lane, err);
    if (status != MUSTER_OK)
        return status;
    if (lane->plan->is_accounted)
        account_set_up(lane);
    if (lane->plan->is_timed)
        timing_set_up(lane);
    /* Copies are faster from and to memory that the driver knows; they work without. */
    return lane->plan->on_host ? MUSTER_OK : make_ring_known(lane);
}

void lane_log(const struct run_lane *lane, const char *what, uint64_t begin_ns)
{
    uint64_t took_ns = platform_clock_ns() - begin_ns;
    if (took_ns >= LOGGED_NS)
        run_log(runtime_of(lane), MUSTER_LOG_INFO, "job %u: %s: %s took %.1f ms", lane->watch.job,
                lane->device->info.id, what, (double)took_ns / 1e6);
}

muster_status lane_set_up(struct run_lane *lane, struct muster_error *err)
{
    uint64_t begin_ns = platform_clock_ns();
    muster_status status;
    uint64_t generation;
    /* A device that was started again meanwhile is set up again. */
    do {
        lane->generation = generation = memory_generation(lane->device);
        status = take_all(lane, err);
        if (status != MUSTER_OK && generation != memory_generation(lane->device))
            lane_give_back(lane);
    } while (status != MUSTER_OK && generation != memory_generation(lane->device));
    lane_log(lane, "taking streams and memory", begin_ns);
    if (status != MUSTER_OK)
        return status;
    run_lock(runtime_of(lane));
    lane->has_all = true;
    lane->device->lanes++;
    lane->device->had_lanes = true;
    run_unlock(runtime_of(lane));
    return MUSTER_OK;
}

/* Giving it back. */

static void give_gates(struct run_lane *lane)
{
    const struct muster_backend *table = lane_table(lane);
    for (uint32_t i = 0; i < MUSTER_EDGES_MAX; i++) {
        if (!lane->gates[i])
            continue;
        table->gate_deinit(lane->gates[i]);
        allocator_give(&runtime_of(lane)->allocator, lane->gates[i], 1, table->gate_bytes);
        lane->gates[i] = NULL;
    }
}

static void give_units(struct run_lane *lane)
{
    timing_give_anchors(lane);
    for (uint32_t i = 0; lane->units && i < lane->plan->depth; i++) {
        struct lane_unit *unit = &lane->units[i];
        timing_give_back(unit);
        run_lock(runtime_of(lane));
        for (uint32_t s = 0; unit->events && s < lane->plan->order->step_count; s++) {
            if (unit->events[s])
                event_unreference_locked(lane->device, unit->events[s]);
            unit->events[s] = NULL;
        }
        run_unlock(runtime_of(lane));
    }
}

static void give_buffers(struct run_lane *lane)
{
    struct muster *m = runtime_of(lane);
    for (uint32_t i = 0; i < MUSTER_BUFFERS_MAX; i++) {
        struct lane_buffer *buffer = &lane->buffers[i];
        if (buffer->block.generation != 0)
            spare_give(m, lane->streams[0].handle, buffer->block);
        pages_leave(buffer->pages, lane->device);
        pages_give(m, buffer->pages);
        buffer->block = (muster_block){ 0, 0 };
        buffer->host = NULL;
        buffer->pages = NULL;
    }
}

static void unpin(struct run_lane *lane)
{
    for (uint32_t i = 0; i < lane->memory.result_count; i++)
        if (lane->memory.known_results >> i & 1)
            pages_leave(lane->memory.results[i], lane->device);
    lane->memory.known_results = 0;
    pages_leave(lane->memory.ring, lane->device);
}

void lane_give_back(struct run_lane *lane)
{
    struct muster *m = runtime_of(lane);
    unpin(lane);
    account_free(lane);
    give_gates(lane);
    give_units(lane);
    give_buffers(lane);
    streams_give(lane->streams, MUSTER_ROLES_MAX);
    /* When all is back: others wait for it as long as the lane counts. */
    run_lock(m);
    lane->device->lanes -= lane->has_all;
    lane->has_all = false;
    run_unlock(m);
}

static bool has_running_units(const struct run_lane *lane)
{
    uint32_t i = 0;
    run_lock(runtime_of(lane));
    while (lane->units && i < lane->plan->depth && !lane->units[i].is_running)
        i++;
    run_unlock(runtime_of(lane));
    return lane->units && i < lane->plan->depth;
}

void lane_tear_down(struct run_lane *lane)
{
    /* A device that still works on one of the units keeps all that there is, until it comes back. */
    bool is_kept = has_running_units(lane);
    if (lane->has_device_pin)
        device_unpin(lane->device);
    lane->has_device_pin = false;
    if (!is_kept && lane->plan)
        lane_give_back(lane);
}

void lane_free(struct run_lane *lane)
{
    const struct muster_allocator *allocator = &runtime_of(lane)->allocator;
    platform_condition_deinit(&lane->changed);
    if (!lane->plan)
        return;
    allocator_give(allocator, lane->unit_memory, lane->plan->depth, lane->unit_bytes);
    allocator_give(allocator, lane->units, lane->plan->depth, sizeof *lane->units);
    allocator_give(allocator, lane->plan, 1, sizeof *lane->plan);
    lane->plan = NULL;
}
