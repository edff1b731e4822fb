/* What failed, by the data it was to write. */
#include "core/flow/state.h"

static bool is_spoiled(const struct flow_part *part)
{
    return part->spoilt_at > 0;
}

void flow_spoil(struct flow *flow, uint32_t id, const struct flow_cause *cause)
{
    struct flow_part *part = &flow->parts[id];
    flow->data[part->data].spoiled += !is_spoiled(part);
    part->spoilt_at = ++flow->clock;
    part->cause = *cause;
}

static void forget(struct flow *flow, struct flow_part *part)
{
    flow->data[part->data].spoiled -= is_spoiled(part);
    part->spoilt_at = 0;
    part->good_at = flow->clock;
}

void flow_mend(struct flow *flow, uint32_t id)
{
    struct flow_part *part = &flow->parts[id];
    if (flow->data[part->data].spoiled == 0)
        return;
    forget(flow, part);
    for (struct flow_walk walk = flow_walk(flow, id); flow_walk_on(flow, &walk);)
        if (shape_contains(&part->shape, &flow->parts[walk.part].shape))
            forget(flow, &flow->parts[walk.part]);
}

bool flow_part_blame(const struct flow *flow, uint32_t id, struct flow_cause *cause)
{
    const struct flow_part *part = &flow->parts[id];
    if (flow->data[part->data].spoiled == 0)
        return false;
    if (is_spoiled(part)) {
        *cause = part->cause;
        return true;
    }
    for (struct flow_walk walk = flow_walk(flow, id); flow_walk_on(flow, &walk);) {
        const struct flow_part *other = &flow->parts[walk.part];
        if (other->spoilt_at > part->good_at) {
            *cause = other->cause;
            return true;
        }
    }
    return false;
}

bool flow_blame(const struct flow *flow, uint32_t task, struct flow_cause *cause)
{
    for (uint32_t use = flow->task[task].first_use; use != FLOW_NONE;
         use = flow->uses[use].next_of_task)
        if (flow->uses[use].mode != FLOW_WRITE &&
            flow_part_blame(flow, flow->uses[use].part, cause))
            return true;
    return false;
}
