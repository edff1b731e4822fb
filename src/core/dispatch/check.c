/* Whether everything fits together: for tests. */
#include "core/dispatch/state.h"

/* Pins that admitted tasks and copies must hold on an instance. */
static uint32_t pins_of(const struct dispatch *dispatch, uint32_t instance)
{
    const struct flow *flow = dispatch->flow;
    uint32_t part = flow->instances[instance].part, place = flow->instances[instance].place;
    uint32_t pins = 0;
    for (uint32_t i = 0; i < dispatch->used_copies; i++)
        if (dispatch->copies[i].state != DISPATCH_COPY_FREE)
            pins += (dispatch->copies[i].copy.from_instance == instance) +
                    (dispatch->copies[i].copy.to_instance == instance);
    for (uint32_t task = 0; task < dispatch->sizes.tasks; task++) {
        const struct dispatch_entry *entry = &dispatch->tasks[task];
        if (entry->phase == DISPATCH_ABSENT || !entry->pins ||
            dispatch_place_of(dispatch, entry->device) != place)
            continue;
        for (uint32_t use = flow->task[task].first_use; use != FLOW_NONE;
             use = flow->uses[use].next_of_task)
            pins += flow->uses[use].part == part;
    }
    return pins;
}

static const char *check_lane(const struct dispatch *dispatch, uint32_t device)
{
    const struct dispatch_lane *lane = &dispatch->lanes[device];
    uint32_t admitted = 0, running = 0;
    for (uint32_t task = lane->first_admitted; task != FLOW_NONE;
         task = dispatch->tasks[task].sibling) {
        const struct dispatch_entry *entry = &dispatch->tasks[task];
        if (entry->device != device || entry->phase < DISPATCH_STAGING ||
            entry->phase > DISPATCH_RUNNING)
            return "a device has admitted a task of another";
        running += entry->phase == DISPATCH_RUNNING;
        if (++admitted > lane->admitted)
            return "admitted tasks are miscounted";
    }
    return admitted == lane->admitted && running == lane->running ? NULL
                                                                  : "admitted tasks are miscounted";
}

static const char *check_place(const struct dispatch *dispatch, uint32_t place)
{
    const struct flow *flow = dispatch->flow;
    if (flow->places[place].bytes > dispatch->places[place].about.bytes)
        return "a place holds more than it has room for";
    for (uint32_t id = flow->places[place].newest; id != FLOW_NONE; id = flow->instances[id].older)
        if (flow->instances[id].pins != pins_of(dispatch, id))
            return "an instance is pinned by nobody, or not by whom it should be";
    return NULL;
}

const char *dispatch_check(const struct dispatch *dispatch)
{
    const char *wrong = NULL;
    uint32_t copies = 0;
    for (uint32_t i = 0; i < DISPATCH_QUEUES && !wrong; i++)
        wrong = check_lane(dispatch, i);
    for (uint32_t place = 1; place < dispatch->flow->sizes.places && !wrong; place++)
        wrong = check_place(dispatch, place);
    for (uint32_t i = 0; i < dispatch->used_copies; i++)
        copies += dispatch->copies[i].state != DISPATCH_COPY_FREE;
    if (!wrong && copies != dispatch->copy_count)
        wrong = "copies are miscounted";
    return wrong ? wrong : flow_check(dispatch->flow);
}
