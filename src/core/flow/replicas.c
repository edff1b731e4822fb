/* Instances of parts at devices' places, and where the newest bytes are. */
#include "core/flow/state.h"

#include "base/invariant.h"

uint32_t flow_instance(const struct flow *flow, uint32_t part, uint32_t place)
{
    uint32_t id = flow->parts[part].first_instance;
    while (id != FLOW_NONE && flow->instances[id].place != place)
        id = flow->instances[id].next;
    return id;
}

bool flow_is_dirty(const struct flow *flow, uint32_t part)
{
    return flow->parts[part].is_dirty;
}

bool flow_is_valid(const struct flow *flow, uint32_t part, uint32_t place)
{
    /* A token is everywhere: there is nothing to copy. */
    if (flow->parts[part].bytes == 0)
        return true;
    if (place == FLOW_HOME)
        return !flow->parts[part].is_dirty && flow->parts[part].dirty_near == 0;
    uint32_t id = flow_instance(flow, part, place);
    return id != FLOW_NONE && flow->instances[id].is_valid;
}

static void unlink_from_place(struct flow *flow, uint32_t id)
{
    const struct flow_instance *instance = &flow->instances[id];
    struct flow_place *place = &flow->places[instance->place];
    if (instance->newer != FLOW_NONE)
        flow->instances[instance->newer].older = instance->older;
    else
        place->newest = instance->older;
    if (instance->older != FLOW_NONE)
        flow->instances[instance->older].newer = instance->newer;
    else
        place->oldest = instance->newer;
}

static void link_to_place(struct flow *flow, uint32_t id)
{
    struct flow_instance *instance = &flow->instances[id];
    struct flow_place *place = &flow->places[instance->place];
    instance->newer = FLOW_NONE;
    instance->older = place->newest;
    if (place->newest != FLOW_NONE)
        flow->instances[place->newest].newer = id;
    else
        place->oldest = id;
    place->newest = id;
}

uint32_t flow_instance_add(struct flow *flow, uint32_t part, uint32_t place)
{
    uint32_t id = flow_pool_next(&flow->instance_pool);
    INVARIANT(place != FLOW_HOME && flow_instance(flow, part, place) == FLOW_NONE);
    if (id == FLOW_NONE)
        return FLOW_NONE;
    flow_pool_take(&flow->instance_pool, flow->instances[id].next);
    flow->instances[id] = (struct flow_instance){ .part = part,
                                                  .place = place,
                                                  .next = flow->parts[part].first_instance };
    flow->parts[part].first_instance = id;
    flow->places[place].bytes += flow->parts[part].bytes;
    link_to_place(flow, id);
    return id;
}

void flow_instance_touch(struct flow *flow, uint32_t id)
{
    unlink_from_place(flow, id);
    link_to_place(flow, id);
}

void flow_instance_drop(struct flow *flow, uint32_t id)
{
    struct flow_instance *instance = &flow->instances[id];
    uint32_t *link = &flow->parts[instance->part].first_instance;
    INVARIANT(instance->pins == 0);
    while (*link != id)
        link = &flow->instances[*link].next;
    *link = instance->next;
    unlink_from_place(flow, id);
    flow->places[instance->place].bytes -= flow->parts[instance->part].bytes;
    instance->part = FLOW_NONE;
    instance->next = flow->first_freed;
    flow->first_freed = id;
}

uint32_t flow_next_freed(struct flow *flow)
{
    uint32_t id = flow->first_freed;
    if (id == FLOW_NONE)
        return FLOW_NONE;
    flow->first_freed = flow->instances[id].next;
    flow->instances[id].next = flow_pool_give(&flow->instance_pool, id);
    return id;
}

void flow_set_dirty(struct flow *flow, uint32_t id, bool is_dirty)
{
    struct flow_part *part = &flow->parts[id];
    if (part->is_dirty == is_dirty || part->bytes == 0)
        return;
    part->is_dirty = is_dirty;
    for (struct flow_walk walk = flow_walk(flow, id); flow_walk_on(flow, &walk);)
        flow->parts[walk.part].dirty_near += is_dirty ? 1u : UINT32_MAX;
}

/* All instances of the part but one are dropped. */
static void drop_others(struct flow *flow, uint32_t part, uint32_t but)
{
    for (uint32_t id = flow->parts[part].first_instance, next; id != FLOW_NONE; id = next) {
        next = flow->instances[id].next;
        if (id != but)
            flow_instance_drop(flow, id);
    }
}

void flow_wrote(struct flow *flow, uint32_t id, uint32_t place)
{
    uint32_t own = place == FLOW_HOME ? FLOW_NONE : flow_instance(flow, id, place);
    INVARIANT(place == FLOW_HOME || own != FLOW_NONE);
    drop_others(flow, id, own);
    for (struct flow_walk walk = flow_walk(flow, id); flow_walk_on(flow, &walk);) {
        drop_others(flow, walk.part, FLOW_NONE);
        flow_set_dirty(flow, walk.part, false);
    }
    if (own != FLOW_NONE)
        flow->instances[own].is_valid = true;
    flow_set_dirty(flow, id, own != FLOW_NONE);
}

uint32_t flow_dirty_near(const struct flow *flow, uint32_t id, bool but_inside)
{
    const struct flow_part *part = &flow->parts[id];
    if (part->dirty_near == 0)
        return FLOW_NONE;
    for (struct flow_walk walk = flow_walk(flow, id); flow_walk_on(flow, &walk);)
        if (flow->parts[walk.part].is_dirty &&
            !(but_inside && shape_contains(&part->shape, &flow->parts[walk.part].shape)))
            return walk.part;
    return FLOW_NONE;
}
