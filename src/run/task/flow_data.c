/*
 * What core calls each piece of data, and the memory that core and the records of tasks are in.
 */
#include "run/task/flow.h"

#include "base/allocator.h"
#include "base/invariant.h"

#include <string.h>

#define SLOTS_AT_FIRST 256u
#define USES_AT_FIRST 8192u
#define PARTS_AT_FIRST 512u
#define CHUNK_RECORDS 128u

struct flow_chunk {
    struct flow_chunk *next;
    struct flow_task records[CHUNK_RECORDS];
};

static const struct flow_sizes at_first = { .tasks = MUSTER_TASKS_MAX,
                                            .places = FLOW_PLACES_MAX,
                                            .uses = USES_AT_FIRST,
                                            .data = PARTS_AT_FIRST / 2,
                                            .parts = PARTS_AT_FIRST,
                                            .overlaps = PARTS_AT_FIRST,
                                            .instances = 1 };

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Twice as much of whatever is wanted in a larger size than there is. */
static uint32_t grown(uint32_t now, uint32_t wanted)
{
    return wanted <= now ? now : larger(wanted, now < UINT32_MAX / 2 ? 2 * now : now);
}

static size_t aligned(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Core's memory, and after it what is kept of its instances and data. */
static size_t memory_bytes(const struct flow_sizes *sizes)
{
    size_t bytes = flow_bytes(sizes);
    return bytes == 0 ? 0
                      : aligned(bytes) + aligned(sizes->instances * sizeof(struct flow_instance)) +
                            aligned(sizes->data * sizeof(struct run_data *));
}

/* Uses the new memory, which is zeroed. */
static void move(struct task_pool *pool, void *memory, const struct flow_sizes *sizes)
{
    struct flow_pool *flow = &pool->flow;
    char *at = (char *)memory + aligned(flow_bytes(sizes));
    struct flow_instance *instances = (void *)at;
    struct run_data **wholes =
        (void *)(at + aligned(sizes->instances * sizeof(struct flow_instance)));
    if (flow->core) {
        const struct flow_sizes *now = flow_sizes_of(flow->core);
        memcpy(instances, flow->instances, now->instances * sizeof *instances);
        memcpy(wholes, flow->wholes, now->data * sizeof *wholes);
        flow->core = flow_move(memory, flow->core, sizes);
    } else {
        flow->core = flow_init(memory, sizes, &pool->tasks);
    }
    if (flow->dispatch)
        dispatch_flow_moved(flow->dispatch, flow->core);
    flow->instances = instances;
    flow->wholes = wholes;
    flow->memory = memory;
}

muster_status flow_grow_locked(struct task_pool *pool, const struct flow_sizes *wanted,
                               struct muster_error *err)
{
    struct flow_pool *flow = &pool->flow;
    const struct muster_allocator *allocator = &pool->m->allocator;
    struct flow_sizes sizes = flow->core ? *flow_sizes_of(flow->core) : at_first;
    if (flow->core) {
        sizes.uses = grown(sizes.uses, wanted->uses);
        sizes.data = grown(sizes.data, wanted->data);
        sizes.parts = grown(sizes.parts, wanted->parts);
        sizes.overlaps = grown(sizes.overlaps, wanted->overlaps);
        sizes.instances = grown(sizes.instances, wanted->instances);
    }
    size_t bytes = memory_bytes(&sizes);
    platform_mutex_unlock(&pool->lock);
    void *memory = bytes > 0 ? allocator_take(allocator, 1, bytes) : NULL;
    platform_mutex_lock(&pool->lock);
    if (!memory)
        return run_no_memory(err, "the order of accesses");
    const struct flow_sizes *now = flow->core ? flow_sizes_of(flow->core) : NULL;
    /* Another thread may have done it. */
    bool is_used =
        !now || (sizes.uses >= now->uses && sizes.data >= now->data && sizes.parts >= now->parts &&
                 sizes.overlaps >= now->overlaps && sizes.instances >= now->instances);
    void *spare = memory;
    size_t spare_bytes = bytes;
    if (is_used) {
        spare = flow->memory;
        spare_bytes = now ? memory_bytes(now) : 0;
        move(pool, memory, &sizes);
    }
    platform_mutex_unlock(&pool->lock);
    allocator_give(allocator, spare, 1, spare_bytes);
    platform_mutex_lock(&pool->lock);
    return MUSTER_OK;
}

/* There is a slot for the handle. With the lock, which is not held all the time. */
static muster_status make_slots_locked(struct task_pool *pool, uint32_t index,
                                       struct muster_error *err)
{
    struct flow_pool *flow = &pool->flow;
    uint32_t count = larger(flow->slot_count, SLOTS_AT_FIRST);
    while (count <= index)
        count *= 2;
    if (index < flow->slot_count)
        return MUSTER_OK;
    platform_mutex_unlock(&pool->lock);
    struct flow_slot *slots = allocator_take(&pool->m->allocator, count, sizeof *slots), *spare;
    platform_mutex_lock(&pool->lock);
    if (!slots)
        return run_no_memory(err, "data that tasks access");
    uint32_t spare_count = count;
    spare = slots;
    if (count > flow->slot_count) {
        spare = flow->slots;
        spare_count = flow->slot_count;
        if (spare)
            memcpy(slots, spare, spare_count * sizeof *slots);
        flow->slots = slots;
        flow->slot_count = count;
    }
    platform_mutex_unlock(&pool->lock);
    allocator_give(&pool->m->allocator, spare, spare_count, sizeof *spare);
    platform_mutex_lock(&pool->lock);
    return MUSTER_OK;
}

/* Core's part for the data, whose whole it knows; FLOW_NONE if there is no room, of `wanted`. */
static uint32_t add_part_locked(struct flow_pool *flow, const struct run_data *data,
                                const struct flow_slot *whole, struct flow_sizes *wanted)
{
    uint32_t part;
    const struct flow_sizes *now = flow_sizes_of(flow->core);
    const struct shape shape = shape_normal((struct shape){ .offset = data->offset,
                                                            .rows = data->rows,
                                                            .row_bytes = data->row_bytes,
                                                            .pitch = data->pitch });
    switch (flow_part_add(flow->core, whole->datum, &shape, &part)) {
    case FLOW_PART_OK:
        return part;
    case FLOW_PART_NO_PARTS:
        *wanted = (struct flow_sizes){ .parts = now->parts + 1 };
        break;
    case FLOW_PART_NO_OVERLAPS:
        *wanted = (struct flow_sizes){ .overlaps = now->overlaps + 1 };
        break;
    case FLOW_PART_OUTSIDE:
        INVARIANT(false);
    }
    return FLOW_NONE;
}

/* The same for a whole. */
static uint32_t add_whole_locked(struct flow_pool *flow, struct run_data *data, uint32_t *datum,
                                 struct flow_sizes *wanted)
{
    const struct flow_sizes *now = flow_sizes_of(flow->core);
    *datum = flow_data_add(flow->core, data->bytes, data->host != NULL);
    *wanted = (struct flow_sizes){ .data = now->data + 1, .parts = now->parts + 1 };
    if (*datum == FLOW_NONE)
        return FLOW_NONE;
    flow->wholes[*datum] = data;
    return flow_data_whole(flow->core, *datum);
}

/* Data that is kept from going is made known; its whole is known already. */
static muster_status add_locked(struct task_pool *pool, muster_data handle, struct run_data *data,
                                struct muster_error *err)
{
    struct flow_pool *flow = &pool->flow;
    muster_status status = make_slots_locked(pool, handle.index, err);
    if (status == MUSTER_OK && !flow->core)
        status = flow_grow_locked(pool, &at_first, err);
    while (status == MUSTER_OK && !flow_slot_of(flow, handle)) {
        struct flow_sizes wanted;
        uint32_t datum = FLOW_NONE;
        uint32_t part =
            data->whole
                ? add_part_locked(flow, data, flow_slot_of(flow, data->whole_handle), &wanted)
                : add_whole_locked(flow, data, &datum, &wanted);
        if (part == FLOW_NONE)
            status = flow_grow_locked(pool, &wanted, err);
        else
            flow->slots[handle.index] = (struct flow_slot){
                .generation = handle.generation, .part = part, .datum = datum, .data = data
            };
    }
    return status;
}

muster_status flow_know_locked(struct task_pool *pool, muster_data handle, struct muster_error *err)
{
    struct run_data *data;
    platform_mutex_unlock(&pool->lock);
    muster_status status = data_begin_use(pool->m, handle, &data, err);
    platform_mutex_lock(&pool->lock);
    if (status != MUSTER_OK)
        return status;
    pool->flow.has_parts |= data->whole != NULL;
    if (data->whole)
        status = add_locked(pool, data->whole_handle, data->whole, err);
    if (status == MUSTER_OK)
        status = add_locked(pool, handle, data, err);
    platform_mutex_unlock(&pool->lock);
    data_end_use(pool->m, data);
    platform_mutex_lock(&pool->lock);
    return status;
}

void flow_forget_locked(struct task_pool *pool, muster_data handle)
{
    struct flow_pool *flow = &pool->flow;
    struct flow_slot *slot = flow_slot_of(flow, handle);
    if (!slot)
        return;
    if (slot->datum != FLOW_NONE)
        flow_data_remove(flow->core, slot->datum);
    else
        flow_part_remove(flow->core, slot->part);
    slot->generation = 0;
    flow_pump_locked(pool);
}

muster_status flow_make_records_locked(struct task_pool *pool, uint32_t count,
                                       struct muster_error *err)
{
    struct flow_pool *flow = &pool->flow;
    while (flow->spare_count < count) {
        platform_mutex_unlock(&pool->lock);
        struct flow_chunk *chunk = allocator_take(&pool->m->allocator, 1, sizeof *chunk);
        platform_mutex_lock(&pool->lock);
        if (!chunk)
            return run_no_memory(err, "tasks with accesses");
        chunk->next = flow->chunks;
        flow->chunks = chunk;
        for (uint32_t i = 0; i < CHUNK_RECORDS; i++) {
            chunk->records[i].next = flow->spare;
            flow->spare = &chunk->records[i];
        }
        flow->spare_count += CHUNK_RECORDS;
    }
    return MUSTER_OK;
}

muster_status flow_make_notes_locked(struct task_pool *pool, struct muster_error *err)
{
    const struct muster_allocator *allocator = &pool->m->allocator;
    platform_mutex_unlock(&pool->lock);
    struct flow_note *notes = allocator_take(allocator, MUSTER_TASKS_MAX, sizeof *notes);
    platform_mutex_lock(&pool->lock);
    if (!notes)
        return run_no_memory(err, "the names of tasks");
    if (!pool->flow.notes) {
        pool->flow.notes = notes;
        return MUSTER_OK;
    }
    platform_mutex_unlock(&pool->lock);
    allocator_give(allocator, notes, MUSTER_TASKS_MAX, sizeof *notes);
    platform_mutex_lock(&pool->lock);
    return MUSTER_OK;
}

void flow_free(struct task_pool *pool)
{
    const struct muster_allocator *allocator = &pool->m->allocator;
    struct flow_pool *flow = &pool->flow;
    flow_dispatch_free(pool);
    flow_free_rates(pool);
    if (flow->core)
        allocator_give(allocator, flow->memory, 1, memory_bytes(flow_sizes_of(flow->core)));
    allocator_give(allocator, flow->slots, flow->slot_count, sizeof *flow->slots);
    allocator_give(allocator, flow->notes, flow->notes ? MUSTER_TASKS_MAX : 0, sizeof *flow->notes);
    while (flow->chunks) {
        struct flow_chunk *chunk = flow->chunks;
        flow->chunks = chunk->next;
        allocator_give(allocator, chunk, 1, sizeof *chunk);
    }
    while (flow->ended_gates) {
        struct flow_gate *gate = flow->ended_gates;
        flow->ended_gates = gate->next;
        allocator_give(allocator, gate, 1, sizeof *gate);
    }
}
