/*
 * Staging: what an admitted task still needs brought, from where, and what its writes must wait for.
 *
 * A part is read from an instance of itself; else from home; else from a dirty part around it; and
 * if none of these can be copied here directly, what is dirty goes home first. Before a task writes,
 * the dirty parts that overlap what it writes, and do not lie in it, have gone home, no copy of any of
 * them is under way, and what it overwrites as a whole is forgotten: nobody evicts old bytes over new
 * ones.
 */
#include "core/dispatch/state.h"

#include "base/invariant.h"

static void append_copy(struct dispatch *dispatch, uint32_t id)
{
    dispatch->copies[id].next = FLOW_NONE;
    if (dispatch->first_planned == FLOW_NONE)
        dispatch->first_planned = id;
    else
        dispatch->copies[dispatch->last_planned].next = id;
    dispatch->last_planned = id;
}

/* Counts a copy, or takes it off the counts. */
static void count_copy(struct dispatch *dispatch, const struct dispatch_copy *copy, uint32_t one)
{
    struct flow *flow = dispatch->flow;
    double bytes = one == 1 ? (double)copy->bytes : -(double)copy->bytes;
    flow->parts[copy->part].copies += one;
    if (copy->from_part != copy->part)
        flow->parts[copy->from_part].copies += one;
    flow->data[flow->parts[copy->part].data].copies += one;
    if (copy->from_instance != FLOW_NONE)
        flow->instances[copy->from_instance].pins += one;
    if (copy->to_instance != FLOW_NONE)
        flow->instances[copy->to_instance].pins += one;
    dispatch->places[copy->from].out_bytes += bytes;
    dispatch->places[copy->to].in_bytes += bytes;
    dispatch->copy_count += one;
}

bool dispatch_plan_copy(struct dispatch *dispatch, const struct dispatch_copy *copy)
{
    uint32_t id = dispatch->free_copies;
    if (id != FLOW_NONE)
        dispatch->free_copies = dispatch->copies[id].next;
    else if (dispatch->used_copies < dispatch->sizes.copies)
        id = dispatch->used_copies++;
    else
        return false;
    dispatch->copies[id] =
        (struct dispatch_transfer){ .copy = *copy, .state = DISPATCH_COPY_PLANNED };
    dispatch->copies[id].copy.id = id;
    if (copy->to_instance != FLOW_NONE)
        dispatch->flow->instances[copy->to_instance].is_filling = true;
    count_copy(dispatch, copy, 1);
    append_copy(dispatch, id);
    return true;
}

void dispatch_end_copy(struct dispatch *dispatch, uint32_t id)
{
    struct dispatch_transfer *transfer = &dispatch->copies[id];
    const struct dispatch_copy *copy = &transfer->copy;
    if (copy->to_instance != FLOW_NONE)
        dispatch->flow->instances[copy->to_instance].is_filling = false;
    if (copy->from_instance != FLOW_NONE && copy->is_eviction)
        dispatch->flow->instances[copy->from_instance].is_leaving = false;
    count_copy(dispatch, copy, UINT32_MAX);
    transfer->state = DISPATCH_COPY_FREE;
    transfer->next = dispatch->free_copies;
    dispatch->free_copies = id;
}

bool dispatch_next_copy(struct dispatch *dispatch, struct dispatch_copy *out)
{
    uint32_t id = dispatch->first_planned;
    if (id == FLOW_NONE)
        return false;
    dispatch->first_planned = dispatch->copies[id].next;
    dispatch->copies[id].state = DISPATCH_COPY_BEGUN;
    *out = dispatch->copies[id].copy;
    return true;
}

static bool can_go(const struct dispatch *dispatch, uint32_t from, uint32_t to)
{
    return from == to || from == FLOW_HOME || to == FLOW_HOME ||
           dispatch->places[from].about.peers >> (to - 1) & 1;
}

/* A valid instance of the part that can be copied to the place; FLOW_NONE. */
static uint32_t source_for(const struct dispatch *dispatch, uint32_t part, uint32_t to)
{
    const struct flow *flow = dispatch->flow;
    for (uint32_t id = flow->parts[part].first_instance; id != FLOW_NONE;
         id = flow->instances[id].next)
        if (flow->instances[id].is_valid && can_go(dispatch, flow->instances[id].place, to))
            return id;
    return FLOW_NONE;
}

/* The dirty part goes home, unless it is on its way already. False: it is nowhere. */
static bool bring_home(struct dispatch *dispatch, uint32_t part)
{
    const struct flow *flow = dispatch->flow;
    uint32_t source = source_for(dispatch, part, FLOW_HOME);
    if (source == FLOW_NONE)
        return false;
    for (uint32_t i = 0; i < dispatch->used_copies && flow->parts[part].copies > 0; i++) {
        const struct dispatch_transfer *transfer = &dispatch->copies[i];
        if (transfer->state != DISPATCH_COPY_FREE && transfer->copy.part == part &&
            transfer->copy.to == FLOW_HOME)
            return true;
    }
    struct dispatch_copy copy = { .part = part,
                                  .from = flow->instances[source].place,
                                  .to = FLOW_HOME,
                                  .from_part = part,
                                  .from_instance = source,
                                  .to_instance = FLOW_NONE,
                                  .bytes = flow->parts[part].bytes };
    dispatch_plan_copy(dispatch, &copy); /* without room for it the task looks again later */
    return true;
}

/* All that is dirty and overlaps the part goes home; of `but_inside` not what lies in it. */
static void bring_neighbours_home(struct dispatch *dispatch, uint32_t part, bool but_inside)
{
    const struct flow *flow = dispatch->flow;
    for (struct flow_walk walk = flow_walk(flow, part); flow_walk_on(flow, &walk);)
        if (flow->parts[walk.part].is_dirty &&
            !(but_inside &&
              shape_contains(&flow->parts[part].shape, &flow->parts[walk.part].shape)))
            bring_home(dispatch, walk.part);
}

/* A dirty part around this one, with an instance that can be copied to the place. */
static uint32_t source_around(const struct dispatch *dispatch, uint32_t part, uint32_t to)
{
    const struct flow *flow = dispatch->flow;
    for (struct flow_walk walk = flow_walk(flow, part);
         flow->parts[part].dirty_near > 0 && flow_walk_on(flow, &walk);) {
        const struct flow_part *around = &flow->parts[walk.part];
        uint32_t id = around->is_dirty ? source_for(dispatch, walk.part, to) : FLOW_NONE;
        if (id != FLOW_NONE && shape_contains(&around->shape, &flow->parts[part].shape))
            return id;
    }
    return FLOW_NONE;
}

/* From where the part is copied to a device's place directly: an instance, or home (FLOW_NONE). */
static bool find_source(const struct dispatch *dispatch, uint32_t part, uint32_t to, uint32_t *out)
{
    *out = source_for(dispatch, part, to);
    if (*out != FLOW_NONE || flow_is_valid(dispatch->flow, part, FLOW_HOME))
        return true;
    *out = source_around(dispatch, part, to);
    return *out != FLOW_NONE;
}

/* Plans what brings the newest bytes to the place; whether they are there. */
static bool bring(struct dispatch *dispatch, uint32_t part, uint32_t place)
{
    struct flow *flow = dispatch->flow;
    uint32_t source;
    if (flow_is_valid(flow, part, place))
        return true;
    if (place == FLOW_HOME) {
        if (flow->parts[part].is_dirty)
            bring_home(dispatch, part);
        bring_neighbours_home(dispatch, part, false);
        return false;
    }
    uint32_t to = flow_instance(flow, part, place);
    if (flow->instances[to].is_filling)
        return false;
    if (find_source(dispatch, part, place, &source)) {
        bool is_home = source == FLOW_NONE;
        struct dispatch_copy copy = {
            .part = part,
            .from = is_home ? FLOW_HOME : flow->instances[source].place,
            .to = place,
            .from_part = is_home ? part : flow->instances[source].part,
            .from_instance = source,
            .to_instance = to,
            .bytes = flow->parts[part].bytes,
        };
        dispatch_plan_copy(dispatch, &copy);
    } else {
        if (flow->parts[part].is_dirty)
            bring_home(dispatch, part);
        bring_neighbours_home(dispatch, part, false);
    }
    return false;
}

static bool is_being_copied(const struct flow *flow, uint32_t part)
{
    if (flow->data[flow->parts[part].data].copies == 0)
        return false;
    if (flow->parts[part].copies > 0)
        return true;
    for (struct flow_walk walk = flow_walk(flow, part); flow_walk_on(flow, &walk);)
        if (flow->parts[walk.part].copies > 0)
            return true;
    return false;
}

/* Drops instances of the part that nobody holds, but for the one at the place. */
static void forget_instances(struct flow *flow, uint32_t part, uint32_t but)
{
    for (uint32_t id = flow->parts[part].first_instance, next; id != FLOW_NONE; id = next) {
        next = flow->instances[id].next;
        if (flow->instances[id].place == but)
            flow->instances[id].is_valid = false;
        else
            flow_instance_drop(flow, id);
    }
    flow_set_dirty(flow, part, false);
}

/* What is written as a whole is not copied any more, wherever it is. */
static void forget_old(struct flow *flow, uint32_t part, uint32_t place)
{
    if (flow->parts[part].is_dirty)
        forget_instances(flow, part, place);
    for (struct flow_walk walk = flow_walk(flow, part);
         flow->parts[part].dirty_near > 0 && flow_walk_on(flow, &walk);)
        if (flow->parts[walk.part].is_dirty)
            forget_instances(flow, walk.part, FLOW_HOME);
}

/* Whether the task can write the part at the place now; plans what must go home before. */
static bool prepare_write(struct dispatch *dispatch, uint32_t part, bool is_whole, uint32_t place)
{
    struct flow *flow = dispatch->flow;
    if (flow_dirty_near(flow, part, is_whole) != FLOW_NONE) {
        bring_neighbours_home(dispatch, part, is_whole);
        return false;
    }
    if (is_being_copied(flow, part))
        return false;
    if (is_whole)
        forget_old(flow, part, place);
    return true;
}

/* What it reads may have been lost after it was chosen. */
static bool is_blamed(struct dispatch *dispatch, uint32_t task)
{
    struct flow_cause cause;
    if (!flow_blame(dispatch->flow, task, &cause))
        return false;
    struct dispatch_entry *entry = &dispatch->tasks[task];
    dispatch_unpin(dispatch, task);
    dispatch_unadmit(dispatch, task);
    dispatch_unaccount(dispatch, task);
    if (entry->is_trial)
        dispatch->trials[entry->row] &= ~(UINT64_C(1) << entry->device);
    dispatch_kill(dispatch, task,
                  cause.status == MUSTER_E_DATA_LOST ? MUSTER_E_DATA_LOST : MUSTER_E_CANCELLED,
                  &cause);
    return true;
}

void dispatch_stage(struct dispatch *dispatch, uint32_t task)
{
    const struct flow *flow = dispatch->flow;
    uint32_t place = dispatch_place_of(dispatch, dispatch->tasks[task].device);
    bool is_there = true;
    if (flow->sizes.places > 1 && is_blamed(dispatch, task))
        return;
    for (uint32_t use = flow->task[task].first_use; use != FLOW_NONE && flow->sizes.places > 1;
         use = flow->uses[use].next_of_task)
        if (flow->uses[use].mode != FLOW_WRITE)
            is_there &= bring(dispatch, flow->uses[use].part, place);
    /* Then the writes: what is forgotten for one must not be read by the same task. */
    for (uint32_t use = flow->task[task].first_use;
         use != FLOW_NONE && is_there && flow->sizes.places > 1; use = flow->uses[use].next_of_task)
        if (flow->uses[use].mode != FLOW_READ)
            is_there &= prepare_write(dispatch, flow->uses[use].part,
                                      flow->uses[use].mode == FLOW_WRITE, place);
    if (is_there)
        dispatch->tasks[task].phase = DISPATCH_STAGED;
}

/* Tasks of one device that are being staged. Those that die meanwhile leave the list. */
static void stage_device(struct dispatch *dispatch, uint32_t device)
{
    for (uint32_t task = dispatch->lanes[device].first_admitted, next; task != FLOW_NONE;
         task = next) {
        next = dispatch->tasks[task].sibling;
        if (dispatch->tasks[task].phase == DISPATCH_STAGING)
            dispatch_stage(dispatch, task);
    }
}

void dispatch_stage_again(struct dispatch *dispatch)
{
    for (uint32_t i = 0; i < dispatch->sizes.devices; i++)
        if (dispatch->lanes[i].is_there && !dispatch->lanes[i].is_lost)
            stage_device(dispatch, i);
    stage_device(dispatch, DISPATCH_HOST);
}

/* How fast the link is, as far as it is known; the slower of what was learned counts little. */
static void learn_link(struct dispatch *dispatch, const struct dispatch_copy *copy,
                       uint64_t elapsed_ns)
{
    struct dispatch_place *place = &dispatch->places[copy->to ? copy->to : copy->from].about;
    double *rate = copy->to ? &place->in_bytes_per_ns : &place->out_bytes_per_ns;
    double seen = (double)copy->bytes / (double)elapsed_ns;
    if (*rate == 0 || seen > *rate)
        *rate = seen;
    else
        *rate += 0.125 * (seen - *rate);
}

/* The device had no memory for the instance: all who are being staged there for it are refused. */
static void refuse_all(struct dispatch *dispatch, const struct dispatch_copy *copy)
{
    const struct flow *flow = dispatch->flow;
    dispatch_evict_all(dispatch, copy->to);
    dispatch->refusals++;
    for (uint32_t i = 0; i < dispatch->sizes.devices; i++) {
        uint32_t task = dispatch->lanes[i].first_admitted, next;
        for (; task != FLOW_NONE && dispatch->lanes[i].about.place == copy->to; task = next) {
            next = dispatch->tasks[task].sibling;
            bool uses_it = false;
            for (uint32_t use = flow->task[task].first_use; use != FLOW_NONE;
                 use = flow->uses[use].next_of_task)
                uses_it |= flow->uses[use].part == copy->part;
            /* One that is admitted again at once is not refused twice for one copy. */
            if (!uses_it || dispatch->tasks[task].phase != DISPATCH_STAGING ||
                dispatch->tasks[task].refused_at == dispatch->refusals)
                continue;
            dispatch->tasks[task].refused_at = dispatch->refusals;
            dispatch_refused(dispatch, task);
        }
    }
}

void dispatch_copied(struct dispatch *dispatch, uint32_t id, muster_status status,
                     uint64_t elapsed_ns)
{
    struct dispatch_transfer *transfer = &dispatch->copies[id];
    struct dispatch_copy copy = transfer->copy;
    struct flow *flow = dispatch->flow;
    if (transfer->state != DISPATCH_COPY_BEGUN)
        return;
    bool was_full = dispatch->copy_count >= dispatch->sizes.copies;
    dispatch_end_copy(dispatch, id);
    if (status == MUSTER_OK) {
        dispatch->figures.copies++;
        dispatch->figures.copied_bytes += copy.bytes;
        dispatch->figures.written_back_bytes += copy.is_eviction ? copy.bytes : 0;
        if (elapsed_ns > 0)
            learn_link(dispatch, &copy, elapsed_ns);
        if (copy.to == FLOW_HOME)
            flow_set_dirty(flow, copy.part, false);
        else
            flow->instances[copy.to_instance].is_valid = true;
        if (copy.is_eviction && flow->instances[copy.from_instance].pins == 0) {
            dispatch->figures.evictions++;
            flow_instance_drop(flow, copy.from_instance);
        }
    }
    if (status == MUSTER_E_DEVICE_MEMORY && copy.to != FLOW_HOME)
        refuse_all(dispatch, &copy);
    /* A task that waits to write the part, or one that overlaps it, may be anywhere. */
    dispatch_stage_again(dispatch);
    for (uint32_t place = 1; place < flow->sizes.places; place++)
        if (was_full || place == copy.to || place == copy.from)
            dispatch_fill_place(dispatch, place);
}

bool dispatch_next_freed(struct dispatch *dispatch, uint32_t *instance)
{
    *instance = flow_next_freed(dispatch->flow);
    return *instance != FLOW_NONE;
}

/* What links take for this many bytes, after what they have to carry already. */
static double link_ns(double bytes, double waiting, double rate)
{
    return rate > 0 ? (bytes + waiting) / rate : 0;
}

uint64_t dispatch_copy_bytes(const struct dispatch *dispatch, uint32_t task, uint32_t place,
                             double *copies_ns)
{
    const struct flow *flow = dispatch->flow;
    const struct dispatch_memory *to = &dispatch->places[place];
    uint64_t bytes = 0;
    double home_ns = 0;
    for (uint32_t use = flow->task[task].first_use; use != FLOW_NONE && flow->sizes.places > 1;
         use = flow->uses[use].next_of_task) {
        uint32_t part = flow->uses[use].part, source;
        if (flow->uses[use].mode == FLOW_WRITE || flow_is_valid(flow, part, place))
            continue;
        bytes += flow->parts[part].bytes;
        bool is_direct = place != FLOW_HOME && find_source(dispatch, part, place, &source);
        source = is_direct ? FLOW_NONE : flow->parts[part].first_instance;
        if (source == FLOW_NONE)
            continue;
        const struct dispatch_memory *from = &dispatch->places[flow->instances[source].place];
        double ns =
            link_ns((double)flow->parts[part].bytes, from->out_bytes, from->about.out_bytes_per_ns);
        home_ns = ns > home_ns ? ns : home_ns;
    }
    *copies_ns = home_ns;
    if (bytes > 0 && place != FLOW_HOME)
        *copies_ns += link_ns((double)bytes, to->in_bytes, to->about.in_bytes_per_ns);
    return bytes;
}
