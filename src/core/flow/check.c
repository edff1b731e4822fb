/* Whether everything fits together: for tests. */
#include "core/flow/state.h"

static const char *check_group(const struct flow *flow, uint32_t part,
                               const struct flow_group *group, uint8_t name)
{
    uint32_t count = 0;
    for (uint32_t id = group->first; id != FLOW_NONE; id = flow->uses[id].next)
        if (flow->uses[id].part != part || flow->uses[id].group != name || ++count > group->count)
            return "a group holds a use of another";
    return count == group->count ? NULL : "a group is miscounted";
}

/* How many parts of the datum a part overlaps, by comparing it with each; `dirty`: of them. */
static uint32_t count_overlaps(const struct flow *flow, uint32_t id, uint32_t *dirty)
{
    const struct flow_part *part = &flow->parts[id];
    const struct flow_data *data = &flow->data[part->data];
    uint32_t count = 0;
    *dirty = 0;
    for (uint32_t other = data->first_part; other != FLOW_NONE;
         other = flow->parts[other].next_of_data)
        if (other != id && shape_overlaps(&part->shape, &flow->parts[other].shape)) {
            count++;
            *dirty += flow->parts[other].is_dirty;
        }
    if (!part->is_whole) {
        count++;
        *dirty += flow->parts[data->whole].is_dirty;
    }
    return count;
}

static const char *check_instances(const struct flow *flow, uint32_t id)
{
    const struct flow_part *part = &flow->parts[id];
    bool has_valid = false;
    for (uint32_t at = part->first_instance; at != FLOW_NONE; at = flow->instances[at].next) {
        const struct flow_instance *instance = &flow->instances[at];
        if (instance->part != id || instance->place == FLOW_HOME)
            return "an instance is on the list of another part";
        has_valid |= instance->is_valid;
    }
    if (part->is_dirty && !has_valid)
        return "a dirty part is nowhere";
    return has_valid && part->dirty_near > 0 && part->is_dirty ? "two dirty parts overlap" : NULL;
}

static const char *check_part(const struct flow *flow, uint32_t id)
{
    const struct flow_part *part = &flow->parts[id];
    uint32_t dirty, count = 0, expected = count_overlaps(flow, id, &dirty);
    for (struct flow_walk walk = flow_walk(flow, id); flow_walk_on(flow, &walk); count++)
        if (flow->parts[walk.part].data != part->data ||
            !shape_overlaps(&part->shape, &flow->parts[walk.part].shape))
            return "a part is linked to one that it does not overlap";
    if (count != expected)
        return "a part is not linked to one that it overlaps";
    if (dirty != part->dirty_near)
        return "dirty parts are miscounted";
    const char *wrong = check_group(flow, id, &part->now, FLOW_USE_NOW);
    if (!wrong)
        wrong = check_group(flow, id, &part->before, FLOW_USE_BEFORE);
    return wrong ? wrong : check_instances(flow, id);
}

static const char *check_places(const struct flow *flow)
{
    for (uint32_t place = 1; place < flow->sizes.places; place++) {
        uint64_t bytes = 0;
        uint32_t last = FLOW_NONE;
        for (uint32_t id = flow->places[place].newest; id != FLOW_NONE;
             last = id, id = flow->instances[id].older) {
            if (flow->instances[id].place != place || flow->instances[id].newer != last)
                return "the instances of a place are not linked as they should be";
            bytes += flow->parts[flow->instances[id].part].bytes;
        }
        if (bytes != flow->places[place].bytes || flow->places[place].oldest != last)
            return "the bytes of a place are miscounted";
    }
    return NULL;
}

const char *flow_check(const struct flow *flow)
{
    uint32_t parts = 0, uses = 0;
    const char *wrong = check_places(flow);
    for (uint32_t d = 0; d < flow->data_pool.used && !wrong; d++) {
        const struct flow_data *data = &flow->data[d];
        uint32_t spoiled = 0;
        if (!data->is_there)
            continue;
        for (uint32_t id = data->whole, next; id != FLOW_NONE && !wrong; id = next) {
            next = id == data->whole ? data->first_part : flow->parts[id].next_of_data;
            wrong = check_part(flow, id);
            spoiled += flow->parts[id].spoilt_at > 0;
            uses += flow->parts[id].now.count + flow->parts[id].before.count;
            parts++;
        }
        if (!wrong && spoiled != data->spoiled)
            wrong = "spoiled parts are miscounted";
    }
    if (wrong)
        return wrong;
    if (parts != flow->part_pool.count)
        return "parts are lost";
    return uses <= flow->use_pool.count ? NULL : "uses are lost";
}
