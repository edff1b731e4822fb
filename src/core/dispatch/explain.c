/* The last choices: what each device was expected to take for a task, which was chosen, and how it went. */
#include "core/dispatch/state.h"

#include <string.h>

struct dispatch_decision *dispatch_decide(struct dispatch *dispatch, uint32_t task, uint64_t now_ns)
{
    struct dispatch_entry *entry = &dispatch->tasks[task];
    if (dispatch->sizes.decisions == 0)
        return NULL;
    const struct dispatch_decision *before = dispatch_decision(dispatch, task);
    uint32_t moves = before ? before->moves + 1 : 0;
    uint64_t number = ++dispatch->decided;
    struct dispatch_decision *decision = &dispatch->decisions[number % dispatch->sizes.decisions];
    uint32_t count = dispatch->sizes.devices;
    *decision = (struct dispatch_decision){
        .number = number,
        .tag = dispatch->flow->task[task].tag,
        .time_ns = now_ns,
        .device = FLOW_NONE,
        .moves = moves,
        .count = count < DISPATCH_EXPLAINED_MAX ? count : DISPATCH_EXPLAINED_MAX,
    };
    entry->decision = number;
    return decision;
}

struct dispatch_decision *dispatch_decision(struct dispatch *dispatch, uint32_t task)
{
    uint64_t number = dispatch->tasks[task].decision;
    if (number == 0)
        return NULL;
    struct dispatch_decision *decision = &dispatch->decisions[number % dispatch->sizes.decisions];
    return decision->number == number ? decision : NULL;
}

void dispatch_note_end(struct dispatch *dispatch, uint32_t task, muster_status status,
                       uint64_t took_ns, uint64_t now_ns)
{
    struct dispatch_decision *decision = dispatch_decision(dispatch, task);
    if (!decision)
        return;
    decision->has_ended = true;
    decision->status = status;
    decision->took_ns = took_ns;
    decision->after_ns = now_ns > decision->time_ns ? now_ns - decision->time_ns : 0;
}

bool dispatch_explain(struct dispatch *dispatch, uint32_t task, uint64_t tag, uint64_t now_ns,
                      struct dispatch_decision *out)
{
    const struct dispatch_entry *entry = &dispatch->tasks[task];
    const struct dispatch_decision *decision = dispatch_decision(dispatch, task);
    if (decision && decision->tag == tag) {
        *out = *decision;
        return true;
    }
    if (entry->phase != DISPATCH_WAITING || entry->about.on_host ||
        dispatch->flow->task[task].tag != tag)
        return false;
    struct dispatch_candidate candidates[DISPATCH_DEVICES_MAX];
    *out = (struct dispatch_decision){ .tag = tag, .device = FLOW_NONE };
    dispatch_candidates(dispatch, task, now_ns, candidates);
    out->count = dispatch->sizes.devices < DISPATCH_EXPLAINED_MAX ? dispatch->sizes.devices
                                                                  : DISPATCH_EXPLAINED_MAX;
    memcpy(out->candidates, candidates, out->count * sizeof *candidates);
    return true;
}
