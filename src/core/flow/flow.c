/* Memory, and data. */
#include "core/flow/state.h"

#include "base/invariant.h"

#include <string.h>

static size_t aligned(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Where the tables are, one after another. */
struct layout {
    size_t data, parts, overlaps, uses, task, instances, end;
};

static struct layout layout_of(const struct flow_sizes *sizes)
{
    struct layout at = { .data = aligned(sizeof(struct flow)) };
    at.parts = at.data + aligned(sizes->data * sizeof(struct flow_data));
    at.overlaps = at.parts + aligned(sizes->parts * sizeof(struct flow_part));
    at.uses = at.overlaps + aligned(sizes->overlaps * sizeof(struct flow_overlap));
    at.task = at.uses + aligned(sizes->uses * sizeof(struct flow_use));
    at.instances = at.task + aligned(sizes->tasks * sizeof(struct flow_task));
    at.end = at.instances + aligned(sizes->instances * sizeof(struct flow_instance));
    return at;
}

size_t flow_bytes(const struct flow_sizes *sizes)
{
    if (sizes->places == 0 || sizes->places > FLOW_PLACES_MAX || sizes->tasks == 0)
        return 0;
    return layout_of(sizes).end;
}

static void set_tables(struct flow *flow, void *memory, const struct flow_sizes *sizes)
{
    char *at = memory;
    struct layout layout = layout_of(sizes);
    flow->sizes = *sizes;
    flow->data = (void *)(at + layout.data);
    flow->parts = (void *)(at + layout.parts);
    flow->overlaps = (void *)(at + layout.overlaps);
    flow->uses = (void *)(at + layout.uses);
    flow->task = (void *)(at + layout.task);
    flow->instances = (void *)(at + layout.instances);
    flow->data_pool.capacity = sizes->data;
    flow->part_pool.capacity = sizes->parts;
    flow->overlap_pool.capacity = sizes->overlaps;
    flow->use_pool.capacity = sizes->uses;
    flow->instance_pool.capacity = sizes->instances;
}

struct flow *flow_init(void *memory, const struct flow_sizes *sizes, struct tasks *tasks)
{
    static const struct flow_pool empty = { .free = FLOW_NONE };
    struct flow *flow = memory;
    *flow = (struct flow){ .tasks = tasks,
                           .data_pool = empty,
                           .part_pool = empty,
                           .overlap_pool = empty,
                           .use_pool = empty,
                           .instance_pool = empty,
                           .first_freed = FLOW_NONE,
                           .first_retry = FLOW_NONE,
                           .last_retry = FLOW_NONE };
    for (uint32_t i = 0; i < FLOW_PLACES_MAX; i++)
        flow->places[i] = (struct flow_place){ .newest = FLOW_NONE, .oldest = FLOW_NONE };
    set_tables(flow, memory, sizes);
    memset(flow->task, 0, sizes->tasks * sizeof *flow->task);
    return flow;
}

struct flow *flow_move(void *memory, const struct flow *old, const struct flow_sizes *sizes)
{
    const struct flow_sizes *had = &old->sizes;
    struct flow *flow = memory;
    INVARIANT(sizes->tasks == had->tasks && sizes->places == had->places &&
              sizes->uses >= had->uses && sizes->data >= had->data && sizes->parts >= had->parts &&
              sizes->overlaps >= had->overlaps && sizes->instances >= had->instances);
    *flow = *old;
    set_tables(flow, memory, sizes);
    memcpy(flow->data, old->data, old->data_pool.used * sizeof *flow->data);
    memcpy(flow->parts, old->parts, old->part_pool.used * sizeof *flow->parts);
    memcpy(flow->overlaps, old->overlaps, old->overlap_pool.used * sizeof *flow->overlaps);
    memcpy(flow->uses, old->uses, old->use_pool.used * sizeof *flow->uses);
    memcpy(flow->task, old->task, had->tasks * sizeof *flow->task);
    memcpy(flow->instances, old->instances, old->instance_pool.used * sizeof *flow->instances);
    return flow;
}

const struct flow_sizes *flow_sizes_of(const struct flow *flow)
{
    return &flow->sizes;
}

uint32_t flow_pool_next(const struct flow_pool *pool)
{
    if (pool->free != FLOW_NONE)
        return pool->free;
    return pool->used < pool->capacity ? pool->used : FLOW_NONE;
}

uint32_t flow_data_add(struct flow *flow, uint64_t bytes, bool has_content)
{
    uint32_t id = flow_pool_next(&flow->data_pool), whole = flow_pool_next(&flow->part_pool);
    if (id == FLOW_NONE || whole == FLOW_NONE)
        return FLOW_NONE;
    struct flow_data *data = &flow->data[id];
    flow_pool_take(&flow->data_pool, data->whole);
    flow_pool_take(&flow->part_pool, flow->parts[whole].next_of_data);
    *data = (struct flow_data){ .bytes = bytes,
                                .whole = whole,
                                .first_part = FLOW_NONE,
                                .root = FLOW_NONE,
                                .is_there = true,
                                .has_content = has_content || bytes == 0 };
    struct shape shape = { .rows = 1, .row_bytes = bytes };
    flow_part_init(flow, whole, id, &shape);
    flow->parts[whole].is_whole = true;
    return id;
}

uint32_t flow_data_whole(const struct flow *flow, uint32_t data)
{
    return flow->data[data].whole;
}

bool flow_data_is_used(const struct flow *flow, uint32_t data)
{
    return flow->data[data].open_uses > 0 || flow->data[data].copies > 0;
}

void flow_data_remove(struct flow *flow, uint32_t id)
{
    struct flow_data *data = &flow->data[id];
    INVARIANT(data->is_there && !flow_data_is_used(flow, id));
    flow_parts_forget(flow, id);
    data->is_there = false;
    data->whole = flow_pool_give(&flow->data_pool, id);
}

uint32_t flow_part_data(const struct flow *flow, uint32_t part)
{
    return flow->parts[part].data;
}

const struct shape *flow_part_shape(const struct flow *flow, uint32_t part)
{
    return &flow->parts[part].shape;
}
