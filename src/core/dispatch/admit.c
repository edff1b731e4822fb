/*
 * Room for what tasks use: admission and eviction.
 *
 * At each place one task at a time waits for room. It holds pins on those of its instances that are
 * there, so no two tasks can wait for each other's, and everybody else who holds pins there needs no
 * more room: they run and let go. What is evicted for the one that waits is not brought back before
 * it has run, since nobody else is admitted meanwhile.
 */
#include "core/dispatch/state.h"

#include "base/invariant.h"

/* So often a device may refuse memory that it should have before the task goes elsewhere. */
#define REFUSALS_EACH 3u

/* Bytes of instances that the task still needs at the place. */
static uint64_t missing_bytes(const struct flow *flow, uint32_t task, uint32_t place)
{
    uint64_t bytes = 0;
    for (uint32_t use = flow->task[task].first_use; use != FLOW_NONE;
         use = flow->uses[use].next_of_task)
        if (flow_instance(flow, flow->uses[use].part, place) == FLOW_NONE)
            bytes += flow->parts[flow->uses[use].part].bytes;
    return bytes;
}

/* Each of the task's instances at its place is pinned once, or let go. */
static void pin(struct dispatch *dispatch, uint32_t task, bool is_pin)
{
    struct flow *flow = dispatch->flow;
    uint32_t place = dispatch_place_of(dispatch, dispatch->tasks[task].device);
    for (uint32_t use = flow->task[task].first_use; use != FLOW_NONE && place != FLOW_HOME;
         use = flow->uses[use].next_of_task) {
        uint32_t id = flow_instance(flow, flow->uses[use].part, place);
        if (id == FLOW_NONE)
            continue;
        INVARIANT(is_pin || flow->instances[id].pins > 0);
        flow->instances[id].pins += is_pin ? 1u : UINT32_MAX;
        if (is_pin)
            flow_instance_touch(flow, id);
    }
    dispatch->tasks[task].pins = is_pin;
}

void dispatch_unpin(struct dispatch *dispatch, uint32_t task)
{
    if (dispatch->tasks[task].pins)
        pin(dispatch, task, false);
}

static bool is_needed(const struct flow *flow, uint32_t part)
{
    return flow->parts[part].now.count + flow->parts[part].before.count > 0;
}

/* Whether the newest bytes of what it holds are nowhere else. */
static bool is_only_one(const struct flow *flow, uint32_t id)
{
    const struct flow_part *part = &flow->parts[flow->instances[id].part];
    if (!flow->instances[id].is_valid || !part->is_dirty)
        return false;
    for (uint32_t other = part->first_instance; other != FLOW_NONE;
         other = flow->instances[other].next)
        if (other != id && flow->instances[other].is_valid && !flow->instances[other].is_leaving)
            return false;
    return true;
}

/* It goes, or is first copied home. False if there is no room for the copy. */
static bool evict(struct dispatch *dispatch, uint32_t id)
{
    struct flow *flow = dispatch->flow;
    struct flow_instance *instance = &flow->instances[id];
    if (!is_only_one(flow, id)) {
        dispatch->figures.evictions++;
        flow_instance_drop(flow, id);
        return true;
    }
    struct dispatch_copy copy = { .part = instance->part,
                                  .from = instance->place,
                                  .to = FLOW_HOME,
                                  .from_part = instance->part,
                                  .from_instance = id,
                                  .to_instance = FLOW_NONE,
                                  .bytes = flow->parts[instance->part].bytes,
                                  .is_eviction = true };
    if (!dispatch_plan_copy(dispatch, &copy))
        return false;
    instance->is_leaving = true;
    return true;
}

/* Bytes that will be free at the place when what is leaving has left. */
static uint64_t leaving_bytes(const struct flow *flow, uint32_t place)
{
    uint64_t bytes = 0;
    for (uint32_t id = flow->places[place].oldest; id != FLOW_NONE; id = flow->instances[id].newer)
        if (flow->instances[id].is_leaving && flow->instances[id].pins == 1) /* the copy's pin */
            bytes += flow->parts[flow->instances[id].part].bytes;
    return bytes;
}

/* Evicts until this many bytes will be free, if that can be; whether they are free now. */
static bool make_room(struct dispatch *dispatch, uint32_t place, uint64_t bytes)
{
    struct flow *flow = dispatch->flow;
    uint64_t capacity = dispatch->places[place].about.bytes;
    if (flow->places[place].bytes + bytes <= capacity)
        return true;
    uint64_t leaving = leaving_bytes(flow, place);
    for (uint32_t needed = 0; needed < 2; needed++)
        for (uint32_t id = flow->places[place].oldest, next; id != FLOW_NONE; id = next) {
            const struct flow_instance *instance = &flow->instances[id];
            next = instance->newer;
            if (flow->places[place].bytes - leaving + bytes <= capacity)
                return flow->places[place].bytes + bytes <= capacity;
            if (instance->pins > 0 || instance->is_leaving ||
                (needed == 0 && is_needed(flow, instance->part)))
                continue;
            uint64_t own = flow->parts[instance->part].bytes;
            bool goes_by_copy = is_only_one(flow, id);
            if (!evict(dispatch, id))
                return false;
            leaving += goes_by_copy ? own : 0;
        }
    return flow->places[place].bytes + bytes <= capacity;
}

void dispatch_evict_all(struct dispatch *dispatch, uint32_t place)
{
    struct flow *flow = dispatch->flow;
    for (uint32_t id = flow->places[place].oldest, next; id != FLOW_NONE; id = next) {
        next = flow->instances[id].newer;
        if (flow->instances[id].pins == 0 && !flow->instances[id].is_leaving &&
            !evict(dispatch, id))
            return;
    }
}

/* Devices that may run the task and have not refused it. */
static bool has_others(const struct dispatch *dispatch, uint32_t task)
{
    return dispatch_allowed(dispatch, task) != 0;
}

void dispatch_refused(struct dispatch *dispatch, uint32_t task)
{
    struct dispatch_entry *entry = &dispatch->tasks[task];
    uint64_t device = UINT64_C(1) << entry->device;
    dispatch_unpin(dispatch, task);
    dispatch_unadmit(dispatch, task);
    dispatch_unaccount(dispatch, task);
    dispatch->trials[entry->row] &= ~device;
    dispatch->figures.moved++;
    if (++entry->refusals % REFUSALS_EACH == 0)
        entry->avoided |= device;
    if (has_others(dispatch, task))
        dispatch_place_task(dispatch, task, dispatch->now_ns);
    else
        dispatch_kill(dispatch, task, MUSTER_E_DEVICE_MEMORY, NULL);
}

/* Instances of all that the task uses; false if the flow has no more of them. */
static bool add_instances(struct dispatch *dispatch, uint32_t task, uint32_t place)
{
    struct flow *flow = dispatch->flow;
    uint32_t missing = 0;
    for (uint32_t use = flow->task[task].first_use; use != FLOW_NONE;
         use = flow->uses[use].next_of_task)
        missing += flow_instance(flow, flow->uses[use].part, place) == FLOW_NONE;
    dispatch->wants_instances = missing > flow->instance_pool.capacity - flow->instance_pool.count;
    if (dispatch->wants_instances)
        return false;
    for (uint32_t use = flow->task[task].first_use; use != FLOW_NONE;
         use = flow->uses[use].next_of_task)
        if (flow_instance(flow, flow->uses[use].part, place) == FLOW_NONE)
            flow_instance_add(flow, flow->uses[use].part, place);
    return true;
}

/* Reserves everything for the first task of the queue, or says that it has to wait. */
static bool reserve(struct dispatch *dispatch, uint32_t task, uint32_t place)
{
    struct dispatch_memory *memory = &dispatch->places[place];
    if (place == FLOW_HOME)
        return true;
    if (memory->admitting != FLOW_NONE && memory->admitting != task)
        return false;
    memory->admitting = task;
    if (!dispatch->tasks[task].pins)
        pin(dispatch, task, true);
    if (!make_room(dispatch, place, missing_bytes(dispatch->flow, task, place)))
        return false;
    pin(dispatch, task, false);
    if (!add_instances(dispatch, task, place)) {
        pin(dispatch, task, true);
        return false;
    }
    pin(dispatch, task, true);
    memory->admitting = FLOW_NONE;
    return true;
}

static void admit(struct dispatch *dispatch, uint32_t device, uint32_t task)
{
    struct dispatch_lane *lane = &dispatch->lanes[device];
    uint32_t *link = &lane->first_admitted;
    while (*link != FLOW_NONE)
        link = &dispatch->tasks[*link].sibling;
    *link = task;
    dispatch->tasks[task].sibling = FLOW_NONE;
    dispatch->tasks[task].phase = DISPATCH_STAGING;
    lane->admitted++;
    dispatch_stage(dispatch, task);
}

/* The task that the device would admit next: the one it is admitting, else the first of its queue. */
static uint32_t next_of(const struct dispatch *dispatch, uint32_t device)
{
    uint32_t admitting = dispatch->places[dispatch_place_of(dispatch, device)].admitting;
    if (admitting != FLOW_NONE && dispatch->tasks[admitting].device == device)
        return admitting;
    return dispatch->queues[device];
}

void dispatch_fill(struct dispatch *dispatch, uint32_t device)
{
    struct dispatch_lane *lane = &dispatch->lanes[device];
    uint32_t place = dispatch_place_of(dispatch, device);
    uint32_t task;
    while (!lane->is_lost && lane->admitted < lane->about.at_once + lane->about.ahead &&
           (task = next_of(dispatch, device)) != FLOW_NONE && reserve(dispatch, task, place)) {
        dispatch_unqueue(dispatch, device, task);
        admit(dispatch, device, task);
    }
}

void dispatch_fill_place(struct dispatch *dispatch, uint32_t place)
{
    for (uint32_t i = 0; i < dispatch->sizes.devices; i++)
        if (dispatch->lanes[i].is_there && dispatch->lanes[i].about.place == place)
            dispatch_fill(dispatch, i);
}

void dispatch_unadmit(struct dispatch *dispatch, uint32_t task)
{
    struct dispatch_entry *entry = &dispatch->tasks[task];
    struct dispatch_lane *lane = &dispatch->lanes[entry->device];
    uint32_t *link = &lane->first_admitted;
    while (*link != task)
        link = &dispatch->tasks[*link].sibling;
    *link = entry->sibling;
    lane->admitted--;
    lane->running -= entry->phase == DISPATCH_RUNNING;
}
