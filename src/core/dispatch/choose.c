/*
 * Which device a task is for. Earliest finish: what the device has to do already, or what must be
 * brought if that takes longer, and then the task itself. A body that was never measured on a device
 * is tried there once; until that has ended, others of it count as the slowest device known takes.
 */
#include "core/dispatch/state.h"

#include "base/invariant.h"

/* Nothing at all is known of a body: it counts as this much, so that queues differ by their length. */
#define UNKNOWN_NS 1e5

static uint64_t bit(uint32_t device)
{
    return UINT64_C(1) << device;
}

static bool is_usable(const struct dispatch *dispatch, uint32_t device)
{
    return dispatch->lanes[device].is_there && !dispatch->lanes[device].is_lost;
}

/* Whether the place can hold all that the task uses. */
static bool task_fits(const struct dispatch *dispatch, uint32_t task, uint32_t device)
{
    uint32_t place = dispatch->lanes[device].about.place;
    const struct flow *flow = dispatch->flow;
    uint64_t bytes = 0;
    if (place == FLOW_HOME)
        return true;
    for (uint32_t use = flow->task[task].first_use; use != FLOW_NONE;
         use = flow->uses[use].next_of_task)
        bytes += flow->parts[flow->uses[use].part].bytes;
    return bytes <= dispatch->places[place].about.bytes;
}

uint64_t dispatch_allowed(const struct dispatch *dispatch, uint32_t task)
{
    const struct dispatch_entry *entry = &dispatch->tasks[task];
    uint64_t allowed = 0;
    for (uint32_t i = 0; i < dispatch->sizes.devices; i++)
        if (entry->about.devices & bit(i) && is_usable(dispatch, i) && task_fits(dispatch, task, i))
            allowed |= bit(i);
    return allowed & ~entry->avoided;
}

/* Of the devices that have measured the body, the slowest; 0: none has. */
static double slowest_known_ns(const struct dispatch *dispatch, uint32_t row)
{
    double slowest = 0;
    for (uint32_t i = 0; i < dispatch->sizes.devices; i++) {
        double ns = task_rates_ns(dispatch->rates, row, i);
        slowest = ns > slowest && is_usable(dispatch, i) ? ns : slowest;
    }
    return slowest;
}

double dispatch_expected_ns(const struct dispatch *dispatch, uint32_t task, uint32_t device,
                            bool *is_measured)
{
    uint32_t row = dispatch->tasks[task].row;
    double ns = task_rates_ns(dispatch->rates, row, device);
    *is_measured = ns > 0;
    if (ns == 0)
        ns = task_rates_guess_ns(dispatch->rates, row, device);
    if (ns == 0)
        ns = slowest_known_ns(dispatch, row);
    return ns > 0 ? ns : UNKNOWN_NS;
}

/* What the device has to do until it can begin something more. */
static double queue_ns(const struct dispatch *dispatch, uint32_t device, uint64_t now_ns)
{
    const struct dispatch_lane *lane = &dispatch->lanes[device];
    double ns = lane->expected_ns;
    for (uint32_t task = lane->first_admitted; task != FLOW_NONE;
         task = dispatch->tasks[task].sibling) {
        const struct dispatch_entry *entry = &dispatch->tasks[task];
        double done = entry->phase == DISPATCH_RUNNING ? (double)(now_ns - entry->began_ns) : 0;
        ns -= done < entry->expected_ns ? done : entry->expected_ns;
    }
    return ns > 0 ? ns / lane->about.at_once : 0;
}

static void look_at(const struct dispatch *dispatch, uint32_t task, uint32_t device,
                    uint64_t now_ns, struct dispatch_candidate *out)
{
    double copies = 0;
    out->may_run = true;
    out->run_ns = dispatch_expected_ns(dispatch, task, device, &out->is_measured);
    out->queue_ns = queue_ns(dispatch, device, now_ns);
    out->copy_bytes =
        dispatch_copy_bytes(dispatch, task, dispatch->lanes[device].about.place, &copies);
    out->copies_ns = copies;
    out->finish_ns = (out->queue_ns > copies ? out->queue_ns : copies) + out->run_ns;
}

void dispatch_candidates(const struct dispatch *dispatch, uint32_t task, uint64_t now_ns,
                         struct dispatch_candidate *out)
{
    uint64_t allowed = dispatch_allowed(dispatch, task);
    for (uint32_t i = 0; i < dispatch->sizes.devices; i++) {
        out[i] = (struct dispatch_candidate){ .may_run = false };
        if (allowed & bit(i))
            look_at(dispatch, task, i, now_ns, &out[i]);
    }
}

/* Nothing leads one to expect anything of the body there, and it is not being tried. */
static bool is_to_be_tried(const struct dispatch *dispatch, uint32_t task, uint32_t device)
{
    uint32_t row = dispatch->tasks[task].row;
    return !(dispatch->trials[row] & bit(device)) &&
           task_rates_ns(dispatch->rates, row, device) == 0;
}

static uint32_t earliest_finish(const struct dispatch *dispatch, uint32_t task, uint64_t allowed,
                                uint64_t now_ns, struct dispatch_decision *decision)
{
    uint32_t best = FLOW_NONE;
    double best_ns = 0;
    for (uint32_t i = 0; i < dispatch->sizes.devices; i++) {
        struct dispatch_candidate own, *candidate = &own;
        if (decision && i < decision->count)
            candidate = &decision->candidates[i];
        if (!(allowed & bit(i)))
            continue;
        look_at(dispatch, task, i, now_ns, candidate);
        double ns = candidate->finish_ns;
        /* A trial counts as if it took no time: devices with nothing to do are tried first. */
        if (is_to_be_tried(dispatch, task, i))
            ns -= candidate->run_ns;
        if (best == FLOW_NONE || ns < best_ns) {
            best = i;
            best_ns = ns;
        }
    }
    return best;
}

/* Other policies do not ask what it would take; an explanation does. */
static void look_at_all(const struct dispatch *dispatch, uint32_t task, uint64_t allowed,
                        uint64_t now_ns, struct dispatch_decision *decision)
{
    for (uint32_t i = 0; decision && i < decision->count; i++)
        if (allowed & bit(i))
            look_at(dispatch, task, i, now_ns, &decision->candidates[i]);
}

static uint32_t in_turn(struct dispatch *dispatch, uint64_t allowed)
{
    for (;;) {
        uint32_t device = dispatch->turn++ % dispatch->sizes.devices;
        if (allowed & bit(device))
            return device;
    }
}

void dispatch_unaccount(struct dispatch *dispatch, uint32_t task)
{
    struct dispatch_entry *entry = &dispatch->tasks[task];
    dispatch->lanes[entry->device].expected_ns -= entry->expected_ns;
    dispatch->version++;
}

void dispatch_enqueue(struct dispatch *dispatch, uint32_t task, uint32_t device)
{
    struct dispatch_entry *entry = &dispatch->tasks[task];
    bool is_measured;
    entry->device = device;
    entry->phase = DISPATCH_QUEUED;
    entry->expected_ns = 0;
    entry->is_trial = false;
    if (device < DISPATCH_DEVICES_MAX) {
        entry->expected_ns = dispatch_expected_ns(dispatch, task, device, &is_measured);
        entry->is_trial = !is_measured;
        dispatch->trials[entry->row] |= is_measured ? 0 : bit(device);
    }
    dispatch->lanes[device].expected_ns += entry->expected_ns;
    dispatch->version++;
    struct dispatch_decision *decision = dispatch_decision(dispatch, task);
    if (decision && device < DISPATCH_DEVICES_MAX) {
        decision->moves += decision->device != FLOW_NONE && decision->device != device;
        decision->device = device;
    }
    dispatch_push(dispatch, device, task);
    if (device != DISPATCH_COMMON)
        dispatch_fill(dispatch, device);
}

void dispatch_place_task(struct dispatch *dispatch, uint32_t task, uint64_t now_ns)
{
    struct dispatch_entry *entry = &dispatch->tasks[task];
    struct flow_cause cause;
    entry->device = FLOW_NONE;
    if (flow_blame(dispatch->flow, task, &cause)) {
        bool is_lost = cause.status == MUSTER_E_DATA_LOST;
        dispatch_kill(dispatch, task, is_lost ? MUSTER_E_DATA_LOST : MUSTER_E_CANCELLED, &cause);
        return;
    }
    if (!flow_commute_take(dispatch->flow, task)) {
        entry->phase = DISPATCH_TURN;
        return;
    }
    if (entry->about.on_host) {
        dispatch_enqueue(dispatch, task, DISPATCH_HOST);
        return;
    }
    uint64_t allowed = dispatch_allowed(dispatch, task);
    if (allowed == 0) {
        dispatch_kill(dispatch, task, MUSTER_E_NO_DEVICE, NULL);
        return;
    }
    struct dispatch_decision *decision = dispatch_decide(dispatch, task, now_ns);
    if (dispatch->policy != DISPATCH_EARLIEST_FINISH)
        look_at_all(dispatch, task, allowed, now_ns, decision);
    switch (dispatch->policy) {
    case DISPATCH_EAGER:
        dispatch_enqueue(dispatch, task, DISPATCH_COMMON);
        return;
    case DISPATCH_ROUND_ROBIN:
        dispatch_enqueue(dispatch, task, in_turn(dispatch, allowed));
        return;
    case DISPATCH_USER:
        entry->phase = DISPATCH_UNDECIDED;
        dispatch_append(dispatch, &dispatch->first_undecided, &dispatch->last_undecided, task);
        return;
    case DISPATCH_EARLIEST_FINISH:
        break;
    }
    dispatch_enqueue(dispatch, task, earliest_finish(dispatch, task, allowed, now_ns, decision));
}

uint32_t dispatch_next_undecided(struct dispatch *dispatch, uint64_t *version)
{
    uint32_t task = dispatch->first_undecided;
    if (task != FLOW_NONE)
        dispatch->first_undecided = dispatch->tasks[task].sibling;
    *version = dispatch->version;
    return task;
}

bool dispatch_choose(struct dispatch *dispatch, uint32_t task, uint32_t device, uint64_t version,
                     uint64_t now_ns)
{
    uint64_t allowed = dispatch_allowed(dispatch, task);
    INVARIANT(dispatch->tasks[task].phase == DISPATCH_UNDECIDED);
    if (allowed == 0) {
        dispatch_kill(dispatch, task, MUSTER_E_NO_DEVICE, NULL);
        return true;
    }
    if (device == FLOW_NONE) {
        dispatch_enqueue(dispatch, task, earliest_finish(dispatch, task, allowed, now_ns, NULL));
        return true;
    }
    if (version != dispatch->version || device >= dispatch->sizes.devices ||
        !(allowed & bit(device))) {
        dispatch_append(dispatch, &dispatch->first_undecided, &dispatch->last_undecided, task);
        return false;
    }
    dispatch_enqueue(dispatch, task, device);
    return true;
}

/* Out of its device's queue. */
static void unchoose(struct dispatch *dispatch, uint32_t task)
{
    struct dispatch_entry *entry = &dispatch->tasks[task];
    INVARIANT(entry->phase == DISPATCH_QUEUED);
    if (dispatch->places[dispatch_place_of(dispatch, entry->device)].admitting == task) {
        dispatch->places[dispatch_place_of(dispatch, entry->device)].admitting = FLOW_NONE;
        dispatch_unpin(dispatch, task);
    }
    dispatch_unaccount(dispatch, task);
    if (entry->is_trial)
        dispatch->trials[entry->row] &= ~bit(entry->device);
    entry->is_trial = false;
}

void dispatch_choose_again(struct dispatch *dispatch, uint32_t device, uint64_t now_ns)
{
    uint32_t first = FLOW_NONE, last = FLOW_NONE, task;
    if (dispatch->policy != DISPATCH_EARLIEST_FINISH && device != DISPATCH_COMMON &&
        !dispatch->lanes[device].is_lost)
        return;
    while ((task = dispatch_pop(dispatch, device)) != FLOW_NONE) {
        unchoose(dispatch, task);
        dispatch_append(dispatch, &first, &last, task);
    }
    while (first != FLOW_NONE) {
        task = first;
        first = dispatch->tasks[task].sibling;
        dispatch->figures.moved += dispatch->lanes[device].is_lost;
        dispatch_place_task(dispatch, task, now_ns);
    }
}

/* With a common queue: the first of it that this device may run. */
static bool take_common(struct dispatch *dispatch, uint32_t device)
{
    uint32_t first = FLOW_NONE, last = FLOW_NONE, task;
    while ((task = dispatch_pop(dispatch, DISPATCH_COMMON)) != FLOW_NONE &&
           !(dispatch_allowed(dispatch, task) & bit(device)))
        dispatch_append(dispatch, &first, &last, task);
    while (first != FLOW_NONE) {
        uint32_t other = first;
        first = dispatch->tasks[other].sibling;
        dispatch_push(dispatch, DISPATCH_COMMON, other);
    }
    if (task == FLOW_NONE)
        return false;
    dispatch_enqueue(dispatch, task, device);
    return true;
}

bool dispatch_steal(struct dispatch *dispatch, uint32_t device, uint64_t now_ns)
{
    uint32_t victim = FLOW_NONE;
    double most_ns = 0;
    if (dispatch->policy == DISPATCH_EAGER)
        return dispatch->lanes[device].queued == 0 && take_common(dispatch, device);
    if (dispatch->policy != DISPATCH_EARLIEST_FINISH || dispatch->lanes[device].queued > 0)
        return false;
    for (uint32_t i = 0; i < dispatch->sizes.devices; i++) {
        double ns = dispatch->lanes[i].queued > 0 ? queue_ns(dispatch, i, now_ns) : 0;
        if (ns > most_ns) {
            most_ns = ns;
            victim = i;
        }
    }
    if (victim == FLOW_NONE || victim == device)
        return false;
    uint32_t task = dispatch_late_one(dispatch, victim);
    struct dispatch_candidate here;
    if (!(dispatch_allowed(dispatch, task) & bit(device)))
        return false;
    look_at(dispatch, task, device, now_ns, &here);
    if (here.finish_ns >= most_ns)
        return false;
    unchoose(dispatch, task);
    dispatch_unqueue(dispatch, victim, task);
    dispatch->figures.moved++;
    dispatch_enqueue(dispatch, task, device);
    return true;
}
