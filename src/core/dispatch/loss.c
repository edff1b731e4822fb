/* A device is gone: what was only there is lost, and its tasks go elsewhere. */
#include "core/dispatch/state.h"

#include "base/invariant.h"

static bool place_is_used(const struct dispatch *dispatch, uint32_t place)
{
    for (uint32_t i = 0; i < dispatch->sizes.devices; i++)
        if (dispatch->lanes[i].is_there && !dispatch->lanes[i].is_lost &&
            dispatch->lanes[i].about.place == place)
            return true;
    return false;
}

/* Copies from and to the place are given up, planned ones and others. */
static void give_up_copies(struct dispatch *dispatch, uint32_t place)
{
    uint32_t first = dispatch->first_planned;
    dispatch->first_planned = FLOW_NONE;
    for (uint32_t id = first, next; id != FLOW_NONE; id = next) {
        struct dispatch_transfer *transfer = &dispatch->copies[id];
        next = transfer->next;
        if (transfer->copy.from == place || transfer->copy.to == place) {
            dispatch_end_copy(dispatch, id);
        } else if (dispatch->first_planned == FLOW_NONE) {
            dispatch->first_planned = dispatch->last_planned = id;
            transfer->next = FLOW_NONE;
        } else {
            dispatch->copies[dispatch->last_planned].next = id;
            dispatch->last_planned = id;
            transfer->next = FLOW_NONE;
        }
    }
    for (uint32_t id = 0; id < dispatch->used_copies; id++) {
        const struct dispatch_transfer *transfer = &dispatch->copies[id];
        if (transfer->state == DISPATCH_COPY_BEGUN &&
            (transfer->copy.from == place || transfer->copy.to == place))
            dispatch_end_copy(dispatch, id);
    }
}

/* The instance goes; what was newest there alone is spoiled. */
static void lose_instance(struct flow *flow, uint32_t id)
{
    uint32_t part = flow->instances[id].part;
    bool was_valid = flow->instances[id].is_valid;
    flow_instance_drop(flow, id);
    if (!was_valid || !flow->parts[part].is_dirty)
        return;
    for (uint32_t other = flow->parts[part].first_instance; other != FLOW_NONE;
         other = flow->instances[other].next)
        if (flow->instances[other].is_valid)
            return;
    struct flow_cause cause = { MUSTER_E_DATA_LOST, 0, flow->parts[part].data };
    flow_set_dirty(flow, part, false);
    flow_spoil(flow, part, &cause);
}

static bool updates(const struct flow *flow, uint32_t task)
{
    for (uint32_t use = flow->task[task].first_use; use != FLOW_NONE;
         use = flow->uses[use].next_of_task)
        if (flow->uses[use].mode == FLOW_READ_WRITE || flow->uses[use].mode == FLOW_COMMUTE)
            return true;
    return false;
}

/* Admitted tasks leave the device; they are linked by `sibling`. */
static uint32_t take_admitted(struct dispatch *dispatch, uint32_t device)
{
    struct dispatch_lane *lane = &dispatch->lanes[device];
    uint32_t first = lane->first_admitted;
    for (uint32_t task = first; task != FLOW_NONE; task = dispatch->tasks[task].sibling) {
        dispatch_unpin(dispatch, task);
        dispatch_unaccount(dispatch, task);
        dispatch->figures.moved++;
    }
    lane->first_admitted = FLOW_NONE;
    lane->admitted = lane->running = 0;
    return first;
}

/*
 * They are chosen for again. One that was updating memory which is still there may have changed half
 * of it: it has failed.
 */
static void rerun(struct dispatch *dispatch, uint32_t first, bool memory_is_there, uint64_t now_ns)
{
    for (uint32_t task = first, next; task != FLOW_NONE; task = next) {
        struct dispatch_entry *entry = &dispatch->tasks[task];
        next = entry->sibling;
        if (entry->phase == DISPATCH_RUNNING && memory_is_there && updates(dispatch->flow, task))
            dispatch_kill(dispatch, task, MUSTER_E_DEVICE_LOST, NULL);
        else
            dispatch_place_task(dispatch, task, now_ns);
    }
}

void dispatch_lost(struct dispatch *dispatch, uint32_t device, uint64_t now_ns)
{
    struct dispatch_lane *lane = &dispatch->lanes[device];
    struct flow *flow = dispatch->flow;
    uint32_t place = lane->about.place;
    if (!lane->is_there || lane->is_lost)
        return;
    lane->is_lost = true;
    dispatch->version++;
    for (uint32_t i = 0; i < dispatch->sizes.rate_pairs; i++)
        dispatch->trials[i] &= ~(UINT64_C(1) << device);
    uint32_t first = take_admitted(dispatch, device);
    uint32_t admitting = dispatch->places[place].admitting;
    if (admitting != FLOW_NONE && dispatch->tasks[admitting].device == device) {
        dispatch_unpin(dispatch, admitting);
        dispatch->places[place].admitting = FLOW_NONE;
    }
    bool memory_is_there = place == FLOW_HOME || place_is_used(dispatch, place);
    if (!memory_is_there) {
        give_up_copies(dispatch, place);
        while (flow->places[place].newest != FLOW_NONE)
            lose_instance(flow, flow->places[place].newest);
    }
    rerun(dispatch, first, memory_is_there, now_ns);
    dispatch_choose_again(dispatch, device, now_ns);
    if (dispatch->policy == DISPATCH_EAGER)
        dispatch_choose_again(dispatch, DISPATCH_COMMON, now_ns);
    dispatch_stage_again(dispatch);
    for (uint32_t i = 0; i < flow->sizes.places; i++)
        dispatch_fill_place(dispatch, i);
}
