/* Which contribution a reducing task updates, and when they are to be combined. */
#include "core/flow/state.h"

#include "base/invariant.h"

void flow_reduce_prepare(struct flow *flow, uint32_t part,
                         const uint32_t contributions[FLOW_CONTRIBUTIONS])
{
    uint32_t next = FLOW_NONE;
    INVARIANT(!flow_reduce_is_prepared(flow, part));
    for (uint32_t i = FLOW_CONTRIBUTIONS; i > 0; i--) {
        flow->parts[contributions[i - 1]].next_contribution = next;
        next = contributions[i - 1];
    }
    flow->parts[part].first_contribution = next;
}

bool flow_reduce_is_prepared(const struct flow *flow, uint32_t part)
{
    return flow->parts[part].first_contribution != FLOW_NONE;
}

uint32_t flow_reduce_next(struct flow *flow, uint32_t id, uint64_t operation, bool *is_first)
{
    struct flow_part *part = &flow->parts[id];
    INVARIANT(flow_reduce_is_prepared(flow, id));
    INVARIANT(part->reduced == 0 || part->operation == operation);
    flow->data[part->data].reducing += part->reduced == 0;
    part->operation = operation;
    *is_first = part->reduced < FLOW_CONTRIBUTIONS;
    uint32_t contribution = part->first_contribution;
    for (uint32_t i = part->reduced % FLOW_CONTRIBUTIONS; i > 0; i--)
        contribution = flow->parts[contribution].next_contribution;
    /* Of what is above FLOW_CONTRIBUTIONS only the place in the turn matters: no overflow. */
    if (++part->reduced == 2 * FLOW_CONTRIBUTIONS)
        part->reduced = FLOW_CONTRIBUTIONS;
    return contribution;
}

uint32_t flow_reduce_pending(const struct flow *flow, uint32_t id, uint64_t operation)
{
    const struct flow_part *part = &flow->parts[id];
    if (flow->data[part->data].reducing == 0)
        return FLOW_NONE;
    if (part->reduced > 0 && (operation == 0 || part->operation != operation))
        return id;
    for (struct flow_walk walk = flow_walk(flow, id); flow_walk_on(flow, &walk);)
        if (flow->parts[walk.part].reduced > 0)
            return walk.part;
    return FLOW_NONE;
}

uint32_t flow_reduce_combine(struct flow *flow, uint32_t id,
                             struct flow_access out[1 + FLOW_CONTRIBUTIONS], uint64_t *operation)
{
    struct flow_part *part = &flow->parts[id];
    uint32_t count = 0, contribution = part->first_contribution;
    INVARIANT(part->reduced > 0);
    out[count++] = (struct flow_access){ id, FLOW_READ_WRITE };
    while (count <= part->reduced && count <= FLOW_CONTRIBUTIONS) {
        out[count++] = (struct flow_access){ contribution, FLOW_READ };
        contribution = flow->parts[contribution].next_contribution;
    }
    *operation = part->operation;
    part->reduced = 0;
    flow->data[part->data].reducing--;
    return count;
}
