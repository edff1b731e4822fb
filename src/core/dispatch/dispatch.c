/* Memory, and the way of a task from ready to its end. */
#include "core/dispatch/state.h"

#include "base/invariant.h"

#include <string.h>

#define TAKEN_AT_ONCE 64u

static size_t aligned(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

size_t dispatch_bytes(const struct dispatch_sizes *sizes)
{
    return aligned(sizeof(struct dispatch)) +
           aligned(sizes->tasks * sizeof(struct dispatch_entry)) +
           aligned(sizes->copies * sizeof(struct dispatch_transfer)) +
           aligned(sizes->rate_pairs * sizeof(uint64_t)) +
           aligned(sizes->decisions * sizeof(struct dispatch_decision)) +
           task_rates_bytes(sizes->rate_pairs, sizes->devices);
}

struct dispatch *dispatch_init(void *memory, const struct dispatch_sizes *sizes, struct flow *flow,
                               enum dispatch_policy policy)
{
    struct dispatch *dispatch = memory;
    char *at = (char *)memory + aligned(sizeof *dispatch);
    INVARIANT(sizes->devices > 0 && sizes->devices <= DISPATCH_DEVICES_MAX &&
              sizes->copies >= FLOW_ACCESSES_MAX && sizes->rate_pairs > 0);
    memset(memory, 0, dispatch_bytes(sizes));
    *dispatch = (struct dispatch){ .sizes = *sizes,
                                   .flow = flow,
                                   .policy = policy,
                                   .first_dead = FLOW_NONE,
                                   .first_undecided = FLOW_NONE,
                                   .first_planned = FLOW_NONE,
                                   .free_copies = FLOW_NONE };
    dispatch->tasks = (void *)at;
    at += aligned(sizes->tasks * sizeof(struct dispatch_entry));
    dispatch->copies = (void *)at;
    at += aligned(sizes->copies * sizeof(struct dispatch_transfer));
    dispatch->trials = (void *)at;
    at += aligned(sizes->rate_pairs * sizeof(uint64_t));
    dispatch->decisions = (void *)at;
    at += aligned(sizes->decisions * sizeof(struct dispatch_decision));
    dispatch->rates = task_rates_init(at, sizes->rate_pairs, sizes->devices);
    for (uint32_t i = 0; i < DISPATCH_QUEUES; i++) {
        dispatch->queues[i] = FLOW_NONE;
        dispatch->lanes[i].first_admitted = FLOW_NONE;
    }
    for (uint32_t i = 0; i < FLOW_PLACES_MAX; i++)
        dispatch->places[i].admitting = FLOW_NONE;
    dispatch->lanes[DISPATCH_HOST].is_there = true;
    dispatch->lanes[DISPATCH_HOST].about.at_once = UINT32_MAX / 2;
    return dispatch;
}

void dispatch_flow_moved(struct dispatch *dispatch, struct flow *flow)
{
    dispatch->flow = flow;
}

bool dispatch_wants_instances(const struct dispatch *dispatch)
{
    return dispatch->wants_instances;
}

void dispatch_place(struct dispatch *dispatch, uint32_t place,
                    const struct dispatch_place *description)
{
    INVARIANT(place > FLOW_HOME && place < dispatch->flow->sizes.places);
    dispatch->places[place].about = *description;
}

void dispatch_device(struct dispatch *dispatch, uint32_t device,
                     const struct dispatch_device *description)
{
    INVARIANT(device < dispatch->sizes.devices && description->at_once > 0);
    dispatch->lanes[device].about = *description;
    if (description->ahead == 0)
        dispatch->lanes[device].about.ahead = 1;
    dispatch->lanes[device].is_there = true;
}

struct task_rates *dispatch_rates(struct dispatch *dispatch)
{
    return dispatch->rates;
}

const struct dispatch_figures *dispatch_figures(const struct dispatch *dispatch)
{
    return &dispatch->figures;
}

uint64_t dispatch_fits(const struct dispatch *dispatch, const struct flow_access *accesses,
                       uint32_t count, uint64_t devices)
{
    uint64_t bytes = 0, fits = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += dispatch->flow->parts[accesses[i].part].bytes;
    for (uint32_t i = 0; i < dispatch->sizes.devices; i++) {
        const struct dispatch_lane *lane = &dispatch->lanes[i];
        if (lane->is_there && (lane->about.place == FLOW_HOME ||
                               bytes <= dispatch->places[lane->about.place].about.bytes))
            fits |= UINT64_C(1) << i;
    }
    return fits & devices;
}

void dispatch_describe(struct dispatch *dispatch, uint32_t task,
                       const struct dispatch_task *description)
{
    struct dispatch_entry *entry = &dispatch->tasks[task];
    uint64_t size = description->size;
    INVARIANT(entry->phase == DISPATCH_ABSENT);
    for (uint32_t use = dispatch->flow->task[task].first_use;
         use != FLOW_NONE && description->size == 0; use = dispatch->flow->uses[use].next_of_task)
        size += dispatch->flow->parts[dispatch->flow->uses[use].part].bytes;
    *entry = (struct dispatch_entry){ .about = *description,
                                      .serial = ++dispatch->serial,
                                      .device = FLOW_NONE,
                                      .phase = DISPATCH_WAITING };
    if (!description->on_host)
        entry->row = task_rates_row(dispatch->rates, description->body, task_rates_class(size));
}

void dispatch_undescribe(struct dispatch *dispatch, uint32_t task)
{
    INVARIANT(dispatch->tasks[task].phase == DISPATCH_WAITING);
    dispatch->tasks[task].phase = DISPATCH_ABSENT;
}

void dispatch_kill(struct dispatch *dispatch, uint32_t task, muster_status status,
                   const struct flow_cause *cause)
{
    struct dispatch_entry *entry = &dispatch->tasks[task];
    struct flow_cause own = { status, dispatch->flow->task[task].tag, 0 };
    entry->cause = cause ? *cause : own;
    entry->status = status;
    entry->phase = DISPATCH_DEAD;
    dispatch_note_end(dispatch, task, status, 0, dispatch->now_ns);
    entry->device = FLOW_NONE;
    flow_ended(dispatch->flow, task, FLOW_NONE, status, cause);
    dispatch_append(dispatch, &dispatch->first_dead, &dispatch->last_dead, task);
}

uint32_t dispatch_next_dead(struct dispatch *dispatch, muster_status *status,
                            struct flow_cause *cause)
{
    uint32_t task = dispatch->first_dead;
    if (task == FLOW_NONE)
        return FLOW_NONE;
    struct dispatch_entry *entry = &dispatch->tasks[task];
    dispatch->first_dead = entry->sibling;
    *status = entry->status;
    *cause = entry->cause;
    entry->phase = DISPATCH_ABSENT;
    dispatch->open--;
    return task;
}

/* Tasks whose turn to commute may have come. */
static void retry_turns(struct dispatch *dispatch, uint64_t now_ns)
{
    for (uint32_t task; (task = flow_commute_next(dispatch->flow)) != FLOW_NONE;) {
        INVARIANT(dispatch->tasks[task].phase == DISPATCH_TURN);
        if (flow_commute_take(dispatch->flow, task))
            dispatch_place_task(dispatch, task, now_ns);
    }
}

void dispatch_ready(struct dispatch *dispatch, uint64_t now_ns)
{
    struct tasks *tasks = dispatch->flow->tasks;
    uint32_t taken[TAKEN_AT_ONCE], count;
    dispatch->now_ns = now_ns;
    retry_turns(dispatch, now_ns);
    while ((count = tasks_take_dispatched(tasks, TAKEN_AT_ONCE, taken)) > 0)
        for (uint32_t i = 0; i < count; i++) {
            INVARIANT(dispatch->tasks[taken[i]].phase == DISPATCH_WAITING);
            dispatch->open++;
            if (tasks->entries[taken[i]].is_doomed)
                dispatch_kill(dispatch, taken[i], MUSTER_E_CANCELLED, NULL);
            else
                dispatch_place_task(dispatch, taken[i], now_ns);
        }
    retry_turns(dispatch, now_ns);
    if (dispatch->wants_instances)
        for (uint32_t place = 1; place < dispatch->flow->sizes.places; place++)
            dispatch_fill_place(dispatch, place);
}

/* Of the staged tasks the first by priority, then age. */
static uint32_t best_staged(const struct dispatch *dispatch, uint32_t device)
{
    uint32_t best = FLOW_NONE;
    for (uint32_t task = dispatch->lanes[device].first_admitted; task != FLOW_NONE;
         task = dispatch->tasks[task].sibling) {
        const struct dispatch_entry *entry = &dispatch->tasks[task];
        if (entry->phase == DISPATCH_STAGED &&
            (best == FLOW_NONE || entry->about.priority > dispatch->tasks[best].about.priority))
            best = task;
    }
    return best;
}

uint32_t dispatch_next_task(struct dispatch *dispatch, uint32_t device, uint64_t now_ns)
{
    struct dispatch_lane *lane = &dispatch->lanes[device];
    if (!lane->is_there || lane->is_lost || lane->running >= lane->about.at_once)
        return FLOW_NONE;
    if (device != DISPATCH_HOST) {
        dispatch_fill(dispatch, device);
        if (lane->admitted == lane->running && dispatch_steal(dispatch, device, now_ns))
            dispatch_fill(dispatch, device);
    }
    uint32_t task = best_staged(dispatch, device);
    if (task == FLOW_NONE)
        return FLOW_NONE;
    dispatch->tasks[task].phase = DISPATCH_RUNNING;
    dispatch->tasks[task].began_ns = now_ns;
    lane->running++;
    return task;
}

/* A sample of what the body takes; the first on a device makes what is queued there look different. */
static void learn(struct dispatch *dispatch, uint32_t task, uint64_t elapsed_ns, uint64_t now_ns)
{
    struct dispatch_entry *entry = &dispatch->tasks[task];
    double before = task_rates_ns(dispatch->rates, entry->row, entry->device);
    task_rates_sample(dispatch->rates, entry->row, entry->device, elapsed_ns);
    double after = task_rates_ns(dispatch->rates, entry->row, entry->device);
    dispatch->trials[entry->row] &= ~(UINT64_C(1) << entry->device);
    if (after > 2 * before || before > 2 * after)
        dispatch_choose_again(dispatch, entry->device, now_ns);
}

void dispatch_ended(struct dispatch *dispatch, uint32_t task, muster_status status,
                    uint64_t elapsed_ns, uint64_t now_ns)
{
    struct dispatch_entry *entry = &dispatch->tasks[task];
    uint32_t device = entry->device, place = dispatch_place_of(dispatch, device);
    INVARIANT(entry->phase == DISPATCH_RUNNING);
    dispatch_unpin(dispatch, task);
    dispatch_unadmit(dispatch, task);
    dispatch_unaccount(dispatch, task);
    dispatch_note_end(dispatch, task, status,
                      elapsed_ns > 0 ? elapsed_ns : now_ns - entry->began_ns, now_ns);
    flow_ended(dispatch->flow, task, place, status, NULL);
    entry->phase = DISPATCH_ABSENT;
    dispatch->open--;
    if (device == DISPATCH_HOST)
        return;
    if (status == MUSTER_OK && elapsed_ns > 0)
        learn(dispatch, task, elapsed_ns, now_ns);
    else
        dispatch->trials[entry->row] &= ~(UINT64_C(1) << device);
    dispatch_fill_place(dispatch, place);
}

void dispatch_put_back(struct dispatch *dispatch, uint32_t task, bool avoid, uint64_t now_ns)
{
    struct dispatch_entry *entry = &dispatch->tasks[task];
    uint32_t place = dispatch_place_of(dispatch, entry->device);
    INVARIANT(entry->phase == DISPATCH_RUNNING && entry->device != DISPATCH_HOST);
    dispatch->now_ns = now_ns;
    /* Where it can run nowhere else it is tried there again: how it fails is how it ends. */
    if (avoid && (dispatch_allowed(dispatch, task) & ~(UINT64_C(1) << entry->device)) != 0)
        entry->avoided |= UINT64_C(1) << entry->device;
    dispatch_refused(dispatch, task);
    if (place != FLOW_HOME)
        dispatch_evict_all(dispatch, place);
    dispatch_fill_place(dispatch, place);
}

uint32_t dispatch_chosen(const struct dispatch *dispatch, uint32_t task)
{
    return dispatch->tasks[task].device;
}

bool dispatch_is_idle(const struct dispatch *dispatch)
{
    return dispatch->open == 0 && dispatch->copy_count == 0;
}
