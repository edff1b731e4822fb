/* Queues of tasks: pairing heaps, linked through the tasks. */
#include "core/dispatch/state.h"

#include "base/invariant.h"

static bool is_before(const struct dispatch *dispatch, uint32_t a, uint32_t b)
{
    const struct dispatch_entry *x = &dispatch->tasks[a], *y = &dispatch->tasks[b];
    return x->about.priority != y->about.priority ? x->about.priority > y->about.priority
                                                  : x->serial < y->serial;
}

/* Two heaps, neither with siblings, become one. */
static uint32_t meld(struct dispatch *dispatch, uint32_t a, uint32_t b)
{
    if (a == FLOW_NONE || b == FLOW_NONE)
        return a == FLOW_NONE ? b : a;
    uint32_t top = is_before(dispatch, a, b) ? a : b, below = top == a ? b : a;
    struct dispatch_entry *up = &dispatch->tasks[top], *down = &dispatch->tasks[below];
    down->sibling = up->child;
    if (up->child != FLOW_NONE)
        dispatch->tasks[up->child].previous = below;
    down->previous = top;
    up->child = below;
    return top;
}

/* The siblings from `first` on become one heap: in pairs, then from the last pair to the first. */
static uint32_t meld_all(struct dispatch *dispatch, uint32_t first)
{
    uint32_t pairs = FLOW_NONE, heap = FLOW_NONE;
    while (first != FLOW_NONE) {
        uint32_t a = first, b = dispatch->tasks[a].sibling;
        first = b == FLOW_NONE ? FLOW_NONE : dispatch->tasks[b].sibling;
        dispatch->tasks[a].sibling = FLOW_NONE;
        if (b != FLOW_NONE)
            dispatch->tasks[b].sibling = FLOW_NONE;
        uint32_t pair = meld(dispatch, a, b);
        dispatch->tasks[pair].sibling = pairs;
        pairs = pair;
    }
    while (pairs != FLOW_NONE) {
        uint32_t next = dispatch->tasks[pairs].sibling;
        dispatch->tasks[pairs].sibling = FLOW_NONE;
        heap = meld(dispatch, heap, pairs);
        pairs = next;
    }
    return heap;
}

void dispatch_push(struct dispatch *dispatch, uint32_t queue, uint32_t task)
{
    struct dispatch_entry *entry = &dispatch->tasks[task];
    entry->child = entry->sibling = entry->previous = FLOW_NONE;
    dispatch->queues[queue] = meld(dispatch, dispatch->queues[queue], task);
    dispatch->lanes[queue].queued++;
}

uint32_t dispatch_pop(struct dispatch *dispatch, uint32_t queue)
{
    uint32_t task = dispatch->queues[queue];
    if (task == FLOW_NONE)
        return FLOW_NONE;
    dispatch->queues[queue] = meld_all(dispatch, dispatch->tasks[task].child);
    dispatch->lanes[queue].queued--;
    return task;
}

void dispatch_unqueue(struct dispatch *dispatch, uint32_t queue, uint32_t task)
{
    struct dispatch_entry *entry = &dispatch->tasks[task];
    if (dispatch->queues[queue] == task) {
        dispatch_pop(dispatch, queue);
        return;
    }
    struct dispatch_entry *before = &dispatch->tasks[entry->previous];
    if (before->child == task)
        before->child = entry->sibling;
    else
        before->sibling = entry->sibling;
    if (entry->sibling != FLOW_NONE)
        dispatch->tasks[entry->sibling].previous = entry->previous;
    uint32_t below = meld_all(dispatch, entry->child);
    dispatch->queues[queue] = meld(dispatch, dispatch->queues[queue], below);
    dispatch->lanes[queue].queued--;
}

uint32_t dispatch_late_one(const struct dispatch *dispatch, uint32_t queue)
{
    uint32_t task = dispatch->queues[queue];
    while (task != FLOW_NONE && dispatch->tasks[task].child != FLOW_NONE)
        task = dispatch->tasks[task].child;
    return task;
}

void dispatch_append(struct dispatch *dispatch, uint32_t *first, uint32_t *last, uint32_t task)
{
    dispatch->tasks[task].sibling = FLOW_NONE;
    if (*first == FLOW_NONE)
        *first = task;
    else
        dispatch->tasks[*last].sibling = task;
    *last = task;
}
