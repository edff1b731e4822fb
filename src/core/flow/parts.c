/*
 * Parts of data: found by where they are, and linked to those they overlap. The parts of a datum,
 * the whole left out, stand in a treap by their first byte; each knows the last byte below it, so
 * that only branches are entered that may overlap.
 */
#include "core/flow/state.h"

#include "base/invariant.h"

void flow_part_init(struct flow *flow, uint32_t part, uint32_t data, const struct shape *shape)
{
    flow->parts[part] = (struct flow_part){ .shape = *shape,
                                            .bytes = shape_bytes(shape),
                                            .data = data,
                                            .users = 1,
                                            .now = { .first = FLOW_NONE },
                                            .before = { .first = FLOW_NONE },
                                            .first_overlap = FLOW_NONE,
                                            .first_instance = FLOW_NONE,
                                            .next_of_data = FLOW_NONE,
                                            .previous_of_data = FLOW_NONE,
                                            .left = FLOW_NONE,
                                            .right = FLOW_NONE,
                                            .parent = FLOW_NONE,
                                            .end = shape_end(shape),
                                            .end_most = shape_end(shape),
                                            .turn = FLOW_NONE,
                                            .first_waiter = FLOW_NONE,
                                            .last_waiter = FLOW_NONE,
                                            .first_contribution = FLOW_NONE,
                                            .next_contribution = FLOW_NONE };
}

/* What the treap is a heap by: any fixed mixture of the id. */
static uint32_t rank_of(uint32_t part)
{
    uint32_t x = part * 0x9e3779b9u;
    x = (x ^ x >> 15) * 0x85ebca6bu;
    return x ^ x >> 13;
}

static void update_end(struct flow *flow, uint32_t at)
{
    struct flow_part *part = &flow->parts[at];
    uint64_t most = part->end;
    if (part->left != FLOW_NONE && flow->parts[part->left].end_most > most)
        most = flow->parts[part->left].end_most;
    if (part->right != FLOW_NONE && flow->parts[part->right].end_most > most)
        most = flow->parts[part->right].end_most;
    part->end_most = most;
}

/* What points to the part: its parent's link, or the datum's. */
static uint32_t *link_to(struct flow *flow, uint32_t at)
{
    struct flow_part *part = &flow->parts[at];
    if (part->parent == FLOW_NONE)
        return &flow->data[part->data].root;
    struct flow_part *parent = &flow->parts[part->parent];
    return parent->left == at ? &parent->left : &parent->right;
}

/* The child takes its parent's place, and the parent becomes its child. */
static void rotate_up(struct flow *flow, uint32_t child)
{
    uint32_t at = flow->parts[child].parent;
    struct flow_part *up = &flow->parts[child], *down = &flow->parts[at];
    *link_to(flow, at) = child;
    up->parent = down->parent;
    down->parent = child;
    uint32_t moved;
    if (down->left == child) {
        moved = down->left = up->right;
        up->right = at;
    } else {
        moved = down->right = up->left;
        up->left = at;
    }
    if (moved != FLOW_NONE)
        flow->parts[moved].parent = at;
    update_end(flow, at);
    update_end(flow, child);
}

static void tree_insert(struct flow *flow, uint32_t at)
{
    struct flow_part *part = &flow->parts[at];
    uint32_t *link = &flow->data[part->data].root, parent = FLOW_NONE;
    while (*link != FLOW_NONE) {
        struct flow_part *above = &flow->parts[*link];
        parent = *link;
        if (above->end_most < part->end)
            above->end_most = part->end;
        link = part->shape.offset < above->shape.offset ? &above->left : &above->right;
    }
    *link = at;
    part->parent = parent;
    while (part->parent != FLOW_NONE && rank_of(part->parent) < rank_of(at))
        rotate_up(flow, at);
}

static void tree_remove(struct flow *flow, uint32_t at)
{
    struct flow_part *part = &flow->parts[at];
    while (part->left != FLOW_NONE || part->right != FLOW_NONE) {
        uint32_t child = part->left == FLOW_NONE                      ? part->right
                         : part->right == FLOW_NONE                   ? part->left
                         : rank_of(part->left) > rank_of(part->right) ? part->left
                                                                      : part->right;
        rotate_up(flow, child);
    }
    *link_to(flow, at) = FLOW_NONE;
    for (uint32_t up = part->parent; up != FLOW_NONE; up = flow->parts[up].parent)
        update_end(flow, up);
    part->parent = FLOW_NONE;
}

/* Whether something at or below `at` may end after `begin`. */
static bool may_meet(const struct flow *flow, uint32_t at, uint64_t begin)
{
    return at != FLOW_NONE && flow->parts[at].end_most > begin;
}

/* The first, by its first byte, below `at` that may overlap what begins there. */
static uint32_t lowest(const struct flow *flow, uint32_t at, uint64_t begin)
{
    while (may_meet(flow, flow->parts[at].left, begin))
        at = flow->parts[at].left;
    return at;
}

/* The next after `at` that begins before `end` and may end after `begin`; FLOW_NONE. */
static uint32_t tree_next(const struct flow *flow, uint32_t at, uint64_t begin)
{
    if (may_meet(flow, flow->parts[at].right, begin))
        return lowest(flow, flow->parts[at].right, begin);
    uint32_t parent = flow->parts[at].parent;
    while (parent != FLOW_NONE && flow->parts[parent].right == at) {
        at = parent;
        parent = flow->parts[at].parent;
    }
    return parent;
}

/* Calls for each part that overlaps: links it to `part` unless that is FLOW_NONE. How many there are. */
static uint32_t meet(struct flow *flow, uint32_t data, const struct shape *shape, uint32_t part,
                     uint32_t *same)
{
    uint32_t count = 0, root = flow->data[data].root;
    uint64_t end = shape_end(shape);
    uint32_t at =
        may_meet(flow, root, shape->offset) ? lowest(flow, root, shape->offset) : FLOW_NONE;
    for (; at != FLOW_NONE && flow->parts[at].shape.offset < end;
         at = tree_next(flow, at, shape->offset)) {
        struct flow_part *other = &flow->parts[at];
        if (at == part || !shape_overlaps(&other->shape, shape))
            continue;
        count++;
        if (part == FLOW_NONE) {
            if (shape_equals(&other->shape, shape))
                *same = at;
            continue;
        }
        for (uint32_t way = 0; way < 2; way++) {
            uint32_t pair = flow_pool_next(&flow->overlap_pool);
            flow_pool_take(&flow->overlap_pool, flow->overlaps[pair].next);
            struct flow_part *from = way ? other : &flow->parts[part];
            flow->overlaps[pair] = (struct flow_overlap){ way ? part : at, from->first_overlap };
            from->first_overlap = pair;
        }
    }
    return count;
}

/* What the parts that it overlaps say about it: what is dirty there, and what is good again. */
static void learn_of_neighbours(struct flow *flow, uint32_t id)
{
    struct flow_part *part = &flow->parts[id];
    for (struct flow_walk walk = flow_walk(flow, id); flow_walk_on(flow, &walk);) {
        const struct flow_part *other = &flow->parts[walk.part];
        part->dirty_near += other->is_dirty;
        if (other->good_at > part->good_at && shape_contains(&other->shape, &part->shape))
            part->good_at = other->good_at;
    }
}

enum flow_part_result flow_part_add(struct flow *flow, uint32_t data_id, const struct shape *given,
                                    uint32_t *out)
{
    struct flow_data *data = &flow->data[data_id];
    if (!shape_is_within(given, data->bytes))
        return FLOW_PART_OUTSIDE;
    struct shape shape = shape_normal(*given);
    uint32_t same = FLOW_NONE;
    if (shape_equals(&shape, &flow->parts[data->whole].shape))
        same = data->whole;
    uint32_t met = same == FLOW_NONE ? meet(flow, data_id, &shape, FLOW_NONE, &same) : 0;
    if (same != FLOW_NONE) {
        flow->parts[same].users++;
        *out = same;
        return FLOW_PART_OK;
    }
    uint32_t id = flow_pool_next(&flow->part_pool);
    if (id == FLOW_NONE)
        return FLOW_PART_NO_PARTS;
    if (met > (flow->overlap_pool.capacity - flow->overlap_pool.count) / 2)
        return FLOW_PART_NO_OVERLAPS;
    struct flow_part *part = &flow->parts[id];
    flow_pool_take(&flow->part_pool, part->next_of_data);
    flow_part_init(flow, id, data_id, &shape);
    meet(flow, data_id, &shape, id, &same);
    tree_insert(flow, id);
    part->next_of_data = data->first_part;
    if (data->first_part != FLOW_NONE)
        flow->parts[data->first_part].previous_of_data = id;
    data->first_part = id;
    learn_of_neighbours(flow, id);
    *out = id;
    return FLOW_PART_OK;
}

/* Takes the pair that leads from one part to the other out of its list. */
static void drop_pair(struct flow *flow, uint32_t from, uint32_t to)
{
    uint32_t *link = &flow->parts[from].first_overlap;
    while (flow->overlaps[*link].other != to)
        link = &flow->overlaps[*link].next;
    uint32_t pair = *link;
    *link = flow->overlaps[pair].next;
    flow->overlaps[pair].next = flow_pool_give(&flow->overlap_pool, pair);
}

/* Whatever was at devices is dropped, and the place is free. */
static void free_part(struct flow *flow, uint32_t id)
{
    struct flow_part *part = &flow->parts[id];
    INVARIANT(part->now.count == 0 && part->before.count == 0 && part->copies == 0);
    while (part->first_instance != FLOW_NONE)
        flow_instance_drop(flow, part->first_instance);
    part->users = 0;
    part->next_of_data = flow_pool_give(&flow->part_pool, id);
}

/*
 * What failed in a part that goes is known as of the whole, and of the parts that overlap it. The others
 * are as good as they were.
 */
static void spoil_whole(struct flow *flow, uint32_t gone, const struct flow_cause *cause)
{
    const struct flow_data *data = &flow->data[flow->parts[gone].data];
    struct flow_cause other;
    for (uint32_t id = data->first_part; id != FLOW_NONE; id = flow->parts[id].next_of_data)
        if (id != gone && !shape_overlaps(&flow->parts[id].shape, &flow->parts[gone].shape) &&
            !flow_part_blame(flow, id, &other))
            flow->parts[id].good_at = flow->clock + 1;
    flow_spoil(flow, data->whole, cause);
}

bool flow_part_is_used(const struct flow *flow, uint32_t id)
{
    const struct flow_part *part = &flow->parts[id];
    if (part->is_whole)
        return flow_data_is_used(flow, part->data);
    return part->now.count > 0 || part->before.count > 0 || part->copies > 0;
}

void flow_part_remove(struct flow *flow, uint32_t id)
{
    struct flow_part *part = &flow->parts[id];
    struct flow_data *data = &flow->data[part->data];
    INVARIANT(part->users > 0);
    if (part->is_whole || --part->users > 0) {
        part->users -= part->is_whole && part->users > 1;
        return;
    }
    /*
     * What failed there stays known: of all bytes, since nobody else has this shape. Newest bytes that are
     * on devices alone and that nobody may read go with it.
     */
    struct flow_cause cause = part->cause;
    bool is_spoiled = part->spoilt_at > part->good_at;
    if (part->is_dirty) {
        is_spoiled = flow_part_blame(flow, id, &cause);
        INVARIANT(is_spoiled);
        flow_set_dirty(flow, id, false);
    }
    if (is_spoiled)
        spoil_whole(flow, id, &cause);
    flow_mend(flow, id);
    while (part->first_overlap != FLOW_NONE) {
        uint32_t other = flow->overlaps[part->first_overlap].other;
        drop_pair(flow, id, other);
        drop_pair(flow, other, id);
    }
    tree_remove(flow, id);
    if (part->previous_of_data != FLOW_NONE)
        flow->parts[part->previous_of_data].next_of_data = part->next_of_data;
    else
        data->first_part = part->next_of_data;
    if (part->next_of_data != FLOW_NONE)
        flow->parts[part->next_of_data].previous_of_data = part->previous_of_data;
    free_part(flow, id);
}

void flow_parts_forget(struct flow *flow, uint32_t data_id)
{
    struct flow_data *data = &flow->data[data_id];
    for (uint32_t id = data->first_part, next; id != FLOW_NONE; id = next) {
        next = flow->parts[id].next_of_data;
        while (flow->parts[id].first_overlap != FLOW_NONE) {
            uint32_t pair = flow->parts[id].first_overlap;
            flow->parts[id].first_overlap = flow->overlaps[pair].next;
            flow->overlaps[pair].next = flow_pool_give(&flow->overlap_pool, pair);
        }
        free_part(flow, id);
    }
    free_part(flow, data->whole);
}

struct flow_walk flow_walk(const struct flow *flow, uint32_t part)
{
    const struct flow_part *at = &flow->parts[part];
    const struct flow_data *data = &flow->data[at->data];
    struct flow_walk walk = { .next = at->is_whole ? data->first_part : at->first_overlap,
                              .whole = at->is_whole ? FLOW_NONE : data->whole,
                              .is_list_of_data = at->is_whole };
    return walk;
}

bool flow_walk_on(const struct flow *flow, struct flow_walk *walk)
{
    if (walk->whole != FLOW_NONE) {
        walk->part = walk->whole;
        walk->whole = FLOW_NONE;
        return true;
    }
    if (walk->next == FLOW_NONE)
        return false;
    if (walk->is_list_of_data) {
        walk->part = walk->next;
        walk->next = flow->parts[walk->part].next_of_data;
    } else {
        walk->part = flow->overlaps[walk->next].other;
        walk->next = flow->overlaps[walk->next].next;
    }
    return true;
}
