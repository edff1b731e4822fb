/*
 * The order among tasks, from what they use.
 *
 * A part keeps its open uses in two groups: `now`, the newest that need no order among each other,
 * and `before`, which all of `now` wait for. Older ones need no place: all of `before` wait for them.
 * A use leaves its group when its task ends, so both hold open tasks only.
 */
#include "core/flow/state.h"

#include "base/invariant.h"

static struct flow_group *group_of(struct flow_part *part, uint8_t group)
{
    return group == FLOW_USE_NOW ? &part->now : &part->before;
}

static void enter(struct flow *flow, uint32_t id)
{
    struct flow_use *use = &flow->uses[id];
    struct flow_group *now = &flow->parts[use->part].now;
    use->group = FLOW_USE_NOW;
    use->previous = FLOW_NONE;
    use->next = now->first;
    if (now->first != FLOW_NONE)
        flow->uses[now->first].previous = id;
    now->first = id;
    now->count++;
}

static void leave(struct flow *flow, uint32_t id)
{
    struct flow_use *use = &flow->uses[id];
    if (use->group == FLOW_USE_PAST)
        return;
    struct flow_group *group = group_of(&flow->parts[use->part], use->group);
    if (use->previous != FLOW_NONE)
        flow->uses[use->previous].next = use->next;
    else
        group->first = use->next;
    if (use->next != FLOW_NONE)
        flow->uses[use->next].previous = use->previous;
    group->count--;
}

/* A use that no use of `now` can join begins a new group. */
static void begin_group(struct flow *flow, struct flow_part *part)
{
    for (uint32_t id = part->before.first; id != FLOW_NONE; id = flow->uses[id].next)
        flow->uses[id].group = FLOW_USE_PAST;
    part->before = part->now;
    part->now = (struct flow_group){ .first = FLOW_NONE };
    for (uint32_t id = part->before.first; id != FLOW_NONE; id = flow->uses[id].next)
        flow->uses[id].group = FLOW_USE_BEFORE;
}

/* Reads join reads, and commuting uses each other. */
static bool joins(uint8_t group_mode, uint32_t mode)
{
    return group_mode == mode && (mode == FLOW_READ || mode == FLOW_COMMUTE);
}

/*
 * The open uses of a part that a new one must follow; `is_own` for the part that the new use is of.
 * Commuting uses of another part that overlaps are not of one kind with it.
 */
static const struct flow_group *conflicts(const struct flow_part *part, uint32_t mode, bool is_own)
{
    if (part->now.count == 0)
        return &part->before;
    bool goes_together =
        is_own ? joins(part->now_mode, mode) : mode == FLOW_READ && part->now_mode == FLOW_READ;
    return goes_together ? &part->before : &part->now;
}

/* An edge from each task of the group, unless this call has added it already. */
static void follow_group(struct flow *flow, uint32_t task, const struct flow_group *group)
{
    for (uint32_t id = group->first; id != FLOW_NONE; id = flow->uses[id].next) {
        uint32_t before = flow->uses[id].task;
        if (flow->task[before].mark == flow->mark)
            continue;
        flow->task[before].mark = flow->mark;
        bool has_room = tasks_come_after(flow->tasks, task, before);
        INVARIANT(has_room);
        (void)has_room;
    }
}

/* Whether anybody but the part itself may have uses that conflict. */
static bool has_neighbours(const struct flow *flow, const struct flow_part *part)
{
    if (part->is_whole)
        return flow->data[part->data].first_part != FLOW_NONE;
    const struct flow_part *whole = &flow->parts[flow->data[part->data].whole];
    return part->first_overlap != FLOW_NONE || whole->now.count + whole->before.count > 0;
}

static void follow_all(struct flow *flow, uint32_t task, const struct flow_access *access)
{
    const struct flow_part *part = &flow->parts[access->part];
    follow_group(flow, task, conflicts(part, access->mode, true));
    if (!has_neighbours(flow, part))
        return;
    for (struct flow_walk walk = flow_walk(flow, access->part); flow_walk_on(flow, &walk);)
        follow_group(flow, task, conflicts(&flow->parts[walk.part], access->mode, false));
}

static void add_use(struct flow *flow, uint32_t task, const struct flow_access *access,
                    uint32_t **link)
{
    struct flow_part *part = &flow->parts[access->part];
    struct flow_data *data = &flow->data[part->data];
    uint32_t id = flow_pool_next(&flow->use_pool);
    flow_pool_take(&flow->use_pool, flow->uses[id].next);
    if (part->now.count > 0 && !joins(part->now_mode, access->mode))
        begin_group(flow, part);
    flow->uses[id] = (struct flow_use){
        .task = task, .part = access->part, .next_of_task = FLOW_NONE, .mode = (uint8_t)access->mode
    };
    enter(flow, id);
    part->now_mode = (uint8_t)(access->mode == FLOW_READ_WRITE ? FLOW_WRITE : access->mode);
    if (access->mode != FLOW_READ)
        part->is_written = data->is_written = true;
    data->open_uses++;
    **link = id;
    *link = &flow->uses[id].next_of_task;
}

uint32_t flow_edges_most(const struct flow *flow, const struct flow_access *accesses,
                         uint32_t count)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct flow_part *part = &flow->parts[accesses[i].part];
        most += conflicts(part, accesses[i].mode, true)->count;
        if (!has_neighbours(flow, part))
            continue;
        for (struct flow_walk walk = flow_walk(flow, accesses[i].part); flow_walk_on(flow, &walk);)
            most += conflicts(&flow->parts[walk.part], accesses[i].mode, false)->count;
    }
    return most;
}

/* After four billion orders: an old mark must not be taken for one of this order. */
static void forget_marks(struct flow *flow)
{
    for (uint32_t i = 0; i < flow->sizes.tasks; i++)
        flow->task[i].mark = 0;
    flow->mark = 1;
}

enum flow_order_result flow_order(struct flow *flow, uint32_t task, uint64_t tag,
                                  const struct flow_access *accesses, uint32_t count)
{
    INVARIANT(count <= FLOW_ACCESSES_MAX && !flow->task[task].is_ordered);
    if (count > flow->use_pool.capacity - flow->use_pool.count)
        return FLOW_NO_USES;
    /* Rarely short: then it is worth counting. */
    if (flow->tasks->free_edge_count < flow->use_pool.count &&
        flow->tasks->free_edge_count < flow_edges_most(flow, accesses, count))
        return FLOW_NO_EDGES;
    struct flow_task *entry = &flow->task[task];
    uint32_t *link = &entry->first_use;
    entry->tag = tag;
    entry->first_use = FLOW_NONE;
    entry->is_ordered = true;
    entry->commutes = entry->has_turns = false;
    if (++flow->mark == 0)
        forget_marks(flow);
    for (uint32_t i = 0; i < count; i++) {
        follow_all(flow, task, &accesses[i]);
        entry->commutes |= accesses[i].mode == FLOW_COMMUTE;
    }
    /* After all have been looked at: no task follows itself. */
    for (uint32_t i = 0; i < count; i++)
        add_use(flow, task, &accesses[i], &link);
    return FLOW_ORDERED;
}

/* Its uses leave their parts and are free. */
static void drop_uses(struct flow *flow, uint32_t task)
{
    struct flow_task *entry = &flow->task[task];
    for (uint32_t id = entry->first_use, next; id != FLOW_NONE; id = next) {
        struct flow_use *use = &flow->uses[id];
        next = use->next_of_task;
        leave(flow, id);
        flow->data[flow->parts[use->part].data].open_uses--;
        use->next = flow_pool_give(&flow->use_pool, id);
    }
    entry->first_use = FLOW_NONE;
    entry->is_ordered = false;
}

void flow_unorder(struct flow *flow, uint32_t task)
{
    drop_uses(flow, task);
}

void flow_ended(struct flow *flow, uint32_t task, uint32_t place, muster_status status,
                const struct flow_cause *cause)
{
    struct flow_task *entry = &flow->task[task];
    INVARIANT(entry->is_ordered);
    for (uint32_t id = entry->first_use; id != FLOW_NONE; id = flow->uses[id].next_of_task) {
        const struct flow_use *use = &flow->uses[id];
        if (use->mode == FLOW_READ)
            continue;
        if (place != FLOW_NONE && flow->sizes.places > 1)
            flow_wrote(flow, use->part, place);
        if (status == MUSTER_OK) {
            if (use->mode == FLOW_WRITE)
                flow_mend(flow, use->part);
            continue;
        }
        struct flow_cause own = { status, entry->tag, flow->parts[use->part].data };
        flow_spoil(flow, use->part, cause ? cause : &own);
    }
    if (entry->has_turns)
        flow_commute_give(flow, task);
    drop_uses(flow, task);
}

uint32_t flow_merge(struct flow_access *accesses, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = 0;
        while (at < kept && accesses[at].part != accesses[i].part)
            at++;
        if (at == kept)
            accesses[kept++] = accesses[i];
        else if (accesses[at].mode != accesses[i].mode)
            accesses[at].mode = FLOW_READ_WRITE;
    }
    return kept;
}

static bool clash(const struct flow *flow, const struct flow_access *a, const struct flow_access *b)
{
    const struct flow_part *x = &flow->parts[a->part], *y = &flow->parts[b->part];
    return x->data == y->data && (a->mode != FLOW_READ || b->mode != FLOW_READ) &&
           shape_overlaps(&x->shape, &y->shape);
}

uint32_t flow_clash(const struct flow *flow, const struct flow_access *accesses, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (clash(flow, &accesses[k], &accesses[i]))
                return i;
    return count;
}

static bool is_written(const struct flow *flow, uint32_t id)
{
    const struct flow_part *part = &flow->parts[id];
    const struct flow_data *data = &flow->data[part->data];
    if (data->has_content || part->is_written)
        return true;
    if (!data->is_written)
        return false;
    for (struct flow_walk walk = flow_walk(flow, id); flow_walk_on(flow, &walk);)
        if (flow->parts[walk.part].is_written)
            return true;
    return false;
}

uint32_t flow_unwritten(const struct flow *flow, const struct flow_access *accesses, uint32_t count)
{
    uint32_t i = 0;
    while (i < count && (accesses[i].mode == FLOW_WRITE || is_written(flow, accesses[i].part)))
        i++;
    return i;
}

uint32_t flow_accesses(const struct flow *flow, uint32_t task,
                       struct flow_access out[FLOW_ACCESSES_MAX])
{
    uint32_t count = 0;
    for (uint32_t id = flow->task[task].first_use; id != FLOW_NONE;
         id = flow->uses[id].next_of_task)
        out[count++] = (struct flow_access){ flow->uses[id].part, flow->uses[id].mode };
    return count;
}
