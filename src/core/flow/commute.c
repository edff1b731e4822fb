/*
 * Turns: of the tasks that commute on a part one runs at a time. A task takes all its turns at once
 * or none, so no two can wait for each other.
 */
#include "core/flow/state.h"

#include "base/invariant.h"

static void push(struct flow *flow, uint32_t *first, uint32_t *last, uint32_t task)
{
    flow->task[task].next_waiter = FLOW_NONE;
    if (*first == FLOW_NONE)
        *first = task;
    else
        flow->task[*last].next_waiter = task;
    *last = task;
}

static uint32_t pop(struct flow *flow, uint32_t *first)
{
    uint32_t task = *first;
    if (task != FLOW_NONE)
        *first = flow->task[task].next_waiter;
    return task;
}

/* The part is free: the task that waits longest for it may try. */
static void wake(struct flow *flow, struct flow_part *part)
{
    uint32_t task = pop(flow, &part->first_waiter);
    if (task != FLOW_NONE)
        push(flow, &flow->first_retry, &flow->last_retry, task);
}

bool flow_commute_take(struct flow *flow, uint32_t task)
{
    struct flow_task *entry = &flow->task[task];
    if (!entry->commutes || entry->has_turns)
        return true;
    struct flow_part *busy = NULL;
    for (uint32_t id = entry->first_use; id != FLOW_NONE; id = flow->uses[id].next_of_task) {
        struct flow_part *part = &flow->parts[flow->uses[id].part];
        if (flow->uses[id].mode == FLOW_COMMUTE && part->turn != FLOW_NONE && !busy)
            busy = part;
    }
    for (uint32_t id = entry->first_use; id != FLOW_NONE; id = flow->uses[id].next_of_task) {
        struct flow_part *part = &flow->parts[flow->uses[id].part];
        if (flow->uses[id].mode != FLOW_COMMUTE)
            continue;
        if (!busy)
            part->turn = task;
        else if (part->turn == FLOW_NONE)
            wake(flow, part); /* this task may have been woken for it, and cannot use it */
    }
    if (busy)
        push(flow, &busy->first_waiter, &busy->last_waiter, task);
    else
        entry->has_turns = true;
    return !busy;
}

void flow_commute_give(struct flow *flow, uint32_t task)
{
    struct flow_task *entry = &flow->task[task];
    INVARIANT(entry->has_turns);
    entry->has_turns = false;
    for (uint32_t id = entry->first_use; id != FLOW_NONE; id = flow->uses[id].next_of_task) {
        struct flow_part *part = &flow->parts[flow->uses[id].part];
        if (flow->uses[id].mode != FLOW_COMMUTE)
            continue;
        INVARIANT(part->turn == task);
        part->turn = FLOW_NONE;
        wake(flow, part);
    }
}

uint32_t flow_commute_next(struct flow *flow)
{
    return pop(flow, &flow->first_retry);
}
