/*
 * The steps of units and the edges between them: whether a step may be enqueued or begun, the waits
 * and records around it, and what it does. Steps are enqueued when the edges into them allow it, units
 * oldest first.
 */
#include "run/lane/lane.h"

#include <string.h>

/* Asking whether steps are over. */

/* The unit failed, or is not wanted: what is left of it only records. */
static void void_unit(struct lane_unit *unit, muster_status status, const struct muster_error *why)
{
    if (unit->attempt.given == MUSTER_OK && status != MUSTER_OK) {
        unit->attempt.given = status;
        unit->problem = *why;
    }
    unit->is_void = true;
}

/* Whether the device has come to the end of the step. */
static bool has_arrived(struct lane_unit *unit, uint32_t step)
{
    struct run_lane *lane = unit->lane;
    if (unit->has_arrived[step])
        return true;
    muster_status status = streams_ask(&lane->streams[unit_stream(unit, step)],
                                       unit->is_untold[step] ? NULL : unit->events[step]);
    if (!run_is_over(status)) {
        lane->awaits_device = true;
        return false;
    }
    if (status != MUSTER_OK) {
        unit->attempt.ended = unit->attempt.ended == MUSTER_OK ? status : unit->attempt.ended;
        unit->is_void = true;
        lane->must_renew = true;
        lane->is_lost = lane->is_lost || muster_status_discards(status) == MUSTER_DISCARD_DEVICE;
    }
    unit->has_arrived[step] = true;
    return true;
}

/* On a device that is lost no stream waits for another: that one came to its end says nothing of others. */
static bool are_streams_over(struct run_lane *lane)
{
    for (uint32_t i = 0; i < MUSTER_ROLES_MAX; i++)
        if (lane->streams[i].stream && !run_is_over(streams_ask(&lane->streams[i], NULL))) {
            lane->awaits_device = true;
            return false;
        }
    return true;
}

bool unit_is_over(struct lane_unit *unit)
{
    struct run_lane *lane = unit->lane;
    if (unit->next < lane_sink(lane))
        return false;
    /* A call that is still to come would find the unit gone, and until it has come all is not over. */
    if (atomic_load_explicit(&unit->bells, memory_order_acquire) > 0)
        return false;
    for (uint32_t s = lane_sink(lane) - 1; s > 0; s--)
        if ((lane->terminal >> s & 1) && !has_arrived(unit, s))
            return false;
    return !lane->is_lost || are_streams_over(lane);
}

/* On a thread of the backend's: a stream got to the end of the unit. */
static void ring_bell(void *user, muster_status status)
{
    struct lane_unit *unit = user;
    struct muster *m = unit->lane->work->group.m;
    (void)status; /* how it ended the event says */
    run_lock(m);
    /* Release: what the kernels have written is the lane's from here on. */
    atomic_fetch_sub_explicit(&unit->bells, 1, memory_order_release);
    lane_wake_locked(unit->lane);
    run_unlock(m);
}

/*
 * Behind the last record of a unit's stream. Where the call is refused, or comes too early, the device
 * is asked for the event as it is where there are no calls.
 */
static void hang_bell(struct lane_unit *unit, uint32_t step, void *stream)
{
    struct run_lane *lane = unit->lane;
    if (!lane->has_bell || !(lane->terminal >> step & 1) || run_is_abandoned(lane->work->group.m))
        return;
    atomic_fetch_add_explicit(&unit->bells, 1, memory_order_relaxed);
    if (lane_table(lane)->host_call(stream, ring_bell, unit, NULL) != MUSTER_OK)
        atomic_fetch_sub_explicit(&unit->bells, 1, memory_order_relaxed);
}

/* Edges. */

/* Steps that are not the lane's to order: the job hands out their memory when it is free. */
static bool is_job_step(const struct run_lane *lane, uint32_t step)
{
    return step == lane_sink(lane) || (step == 0 && lane->staged == 0);
}

/* Whether the edge lets the unit's step be enqueued or begun. */
static bool lets_pass(struct lane_unit *unit, const struct pipe_edge *edge)
{
    struct run_lane *lane = unit->lane;
    if (unit->number < lane->oldest + edge->distance || is_job_step(lane, edge->from) ||
        (edge->kind == MUSTER_EDGE_GATE && !unit->asks))
        return true;
    struct lane_unit *before = lane_unit_at(lane, unit->number - edge->distance);
    if (before->next <= edge->from)
        return false;
    /* A stream cannot wait for what was not recorded. */
    bool is_event = edge->kind == MUSTER_EDGE_EVENT;
    bool must_ask = edge->kind == MUSTER_EDGE_ARRIVAL ||
                    (is_event && (unit->asks || before->is_untold[edge->from]));
    return !must_ask || has_arrived(before, edge->from);
}

static void count_stall(struct lane_unit *unit, uint64_t now_ns)
{
    if (unit->asked_ns != 0 && unit->holder != PIPE_NONE) {
        unit->lane->counts[unit->holder].stall_ns += now_ns - unit->asked_ns;
        account_stall(unit, unit->holder, (struct time_span){ unit->asked_ns, now_ns });
    }
    unit->asked_ns = 0;
}

/*
 * Whether an older unit has a step on the stream of this one that was not recorded and is not over. Its end is seen
 * when the stream has nothing left, so nothing may follow it there until then: it could be a wait at a gate that the
 * older unit is to open.
 */
static bool has_untold_before(struct lane_unit *unit, uint32_t step)
{
    struct run_lane *lane = unit->lane;
    uint32_t stream = unit_stream(unit, step);
    for (uint64_t number = lane->oldest; number < unit->number; number++) {
        struct lane_unit *before = lane_unit_at(lane, number);
        for (uint32_t s = 0; before->is_running && s < before->next; s++)
            if (before->is_untold[s] && unit_stream(before, s) == stream && !has_arrived(before, s))
                return true;
    }
    return false;
}

/* Whether all edges into the next step do. */
static bool may_go_on(struct lane_unit *unit, uint32_t step)
{
    struct run_lane *lane = unit->lane;
    const struct pipe_plan *order = lane->plan->order;
    uint32_t holder = PIPE_NONE;
    bool may = true;
    for (uint32_t i = 0; i < order->edge_count && may; i++)
        if (order->edges[i].to == step && !lets_pass(unit, &order->edges[i])) {
            may = false;
            holder = i;
        }
    /* Each segment is enqueued in unit order. */
    if (may && lane->plan->width == 1 && !lane_is_host_step(lane, step) &&
        unit->number > lane->oldest)
        may = lane_unit_at(lane, unit->number - 1)->next > lane->segment_last[order->segment[step]];
    if (may && lane->must_renew && !lane_is_host_step(lane, step))
        may = !has_untold_before(unit, step);
    if (!lane->plan->is_accounted)
        return may;
    uint64_t now_ns = platform_clock_ns();
    if (may || (unit->asked_ns != 0 && unit->holder != holder))
        count_stall(unit, now_ns);
    if (!may && unit->asked_ns == 0) {
        unit->asked_ns = now_ns;
        unit->holder = holder;
    }
    return may;
}

/* Kinds of edges, as bits: what a stream is told, what the host publishes, what it looks at. */
#define BIT(kind) (1u << (kind))
#define RECORDED_KINDS (BIT(MUSTER_EDGE_EVENT) | BIT(MUSTER_EDGE_ARRIVAL))
#define QUEUED_KINDS (BIT(MUSTER_EDGE_EVENT) | BIT(MUSTER_EDGE_GATE))
#define ALL_KINDS (~0u)

static void count_waits(struct lane_unit *unit, uint32_t step, uint32_t kinds)
{
    struct run_lane *lane = unit->lane;
    for (uint32_t i = 0; i < lane->plan->order->edge_count; i++) {
        const struct pipe_edge *edge = &lane->plan->order->edges[i];
        if (edge->to == step && (BIT(edge->kind) & kinds) && unit->number >= edge->distance)
            lane->counts[i].waits++;
    }
}

static void count_records(struct lane_unit *unit, uint32_t step, uint32_t kinds)
{
    struct run_lane *lane = unit->lane;
    for (uint32_t i = 0; i < lane->plan->order->edge_count; i++) {
        const struct pipe_edge *edge = &lane->plan->order->edges[i];
        if (edge->from == step && (BIT(edge->kind) & kinds))
            lane->counts[i].records++;
    }
}

void unit_count_sink(struct lane_unit *unit)
{
    count_records(unit, lane_sink(unit->lane), ALL_KINDS);
    count_waits(unit, lane_sink(unit->lane), ALL_KINDS);
}

/* Opens what waits for the end of this host step, whatever came of it. */
static void publish(struct lane_unit *unit, uint32_t step)
{
    struct run_lane *lane = unit->lane;
    for (uint32_t i = 0; i < lane->plan->order->edge_count; i++) {
        const struct pipe_edge *edge = &lane->plan->order->edges[i];
        struct muster_error problem = { .size = sizeof problem };
        if (edge->kind != MUSTER_EDGE_GATE || edge->from != step)
            continue;
        muster_status status =
            lane_table(lane)->gate_publish(lane->gates[i], unit->number + 1, &problem);
        lane->counts[i].records += status == MUSTER_OK;
        lane->was_refused = lane->was_refused || status != MUSTER_OK;
        if (status != MUSTER_OK)
            void_unit(unit, device_note(lane->device, status, &problem), &problem);
    }
}

/* Enqueueing. */

/* One wait on the stream, for what unit number `before` does. */
static muster_status queue_wait(struct run_lane *lane, uint32_t index, void *stream,
                                uint64_t before, struct muster_error *err)
{
    const struct muster_backend *table = lane_table(lane);
    const struct pipe_edge *edge = &lane->plan->order->edges[index];
    const struct lane_unit *of = lane_unit_at(lane, before);
    muster_status status = MUSTER_OK;
    bool is_event = edge->kind == MUSTER_EDGE_EVENT;
    /* What is not in flight any more is over. */
    if (before >= lane->oldest && is_event && !of->is_untold[edge->from])
        status = table->stream_wait(stream, of->events[edge->from]->state, err);
    else if (before >= lane->oldest && !is_event)
        status = table->gate_wait(lane->gates[index], stream, before + 1, err);
    lane->counts[index].waits += status == MUSTER_OK;
    lane->was_refused = lane->was_refused || status != MUSTER_OK;
    return status;
}

/* The waits that make it safe to do what the step does. */
static muster_status queue_waits(struct lane_unit *unit, uint32_t step, struct muster_error *err)
{
    struct run_lane *lane = unit->lane;
    void *stream = lane->streams[unit_stream(unit, step)].stream->state;
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < lane->plan->order->edge_count && status == MUSTER_OK; i++) {
        const struct pipe_edge *edge = &lane->plan->order->edges[i];
        if (edge->to == step && (BIT(edge->kind) & QUEUED_KINDS) && unit->number >= edge->distance)
            status = queue_wait(lane, i, stream, unit->number - edge->distance, err);
    }
    return status;
}

static muster_status copy_bytes(struct lane_unit *unit, uint32_t step,
                                const struct muster_copy_desc *desc, struct muster_error *err)
{
    const struct run_lane *lane = unit->lane;
    struct run_counts *counts = &lane->work->group.m->counts;
    bool is_up = desc->to.memory && !desc->from.memory,
         is_down = desc->from.memory && !desc->to.memory;
    if (is_up || is_down)
        run_count(is_up ? &counts->bytes_in : &counts->bytes_out, desc->bytes);
    /* Between two places on the host the stream's own order is what counts. */
    muster_status status =
        lane_table(lane)->copy(lane->streams[unit_stream(unit, step)].stream->state, desc, err);
    unit->copied_bytes += status == MUSTER_OK && (is_up || is_down) ? desc->bytes : 0;
    return status;
}

/* One copy of a step, for some parts of the unit; how much it moves, and what of it counts then. */
static muster_status copy_parts(struct lane_unit *unit, uint32_t step, const struct lane_copy *copy,
                                uint32_t first_part, uint32_t part_count, struct muster_error *err)
{
    struct run_lane *lane = unit->lane;
    const struct pipe_declaration *declaration = lane->plan->declaration;
    const struct lane_piece *piece = &lane->plan->pieces[copy->from];
    const struct lane_piece *target = &lane->plan->pieces[copy->to];
    struct unit_place from = unit_place(unit, copy->from, first_part, part_count);
    struct unit_place to = unit_place(unit, copy->to, first_part, part_count);
    bool is_set = part_count == 1 && unit_set_bytes(unit, copy->from, first_part) != SIZE_MAX;
    size_t bytes = is_set ? from.bytes : from.bytes < to.bytes ? from.bytes : to.bytes;
    if (bytes > to.capacity)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "make the buffer larger",
                                 "stage '%s' copies %zu bytes to '%s', which has room for %zu",
                                 declaration->stages[step - 1].name, bytes,
                                 declaration->buffers[target->buffer].name, to.capacity);
    if (is_set)
        *unit_bytes(unit, copy->to, first_part) = bytes;
    /* What is changed in the caller's array is there. */
    if (bytes == 0 || (from.host && from.host == to.host))
        return MUSTER_OK;
    /* Of a unit that is done again in sections this one alone; with what lies around it. */
    size_t skipped = 0;
    if (unit->section.end - unit->section.begin < unit_items(unit)) {
        skipped = (size_t)unit->section.begin * piece->item_bytes;
        bytes = (size_t)(unit->section.end - unit->section.begin) * piece->item_bytes;
    }
    /* A stage may leave out of the halo what it has no room for. */
    size_t halo = piece->halo < target->halo ? piece->halo : target->halo;
    struct muster_copy_desc desc = {
        .to = { .memory = to.memory,
                .offset = to.memory ? to.offset + skipped - halo : 0,
                .host = to.memory ? NULL : to.host + skipped - halo },
        .from = { .memory = from.memory,
                  .offset = from.memory ? from.offset + skipped - halo : 0,
                  .host = from.memory ? NULL : from.host + skipped - halo },
        .bytes = bytes + 2 * halo
    };
    if (!piece->head || halo == 0 || from.memory || (lane->staged >> copy->from & 1))
        return copy_bytes(unit, step, &desc, err);
    /* From the caller's array: what lies around it is elsewhere. */
    int64_t at = from.host + skipped - halo - piece->array;
    muster_status status = MUSTER_OK;
    for (size_t left = desc.bytes; left > 0 && status == MUSTER_OK; left -= desc.bytes) {
        const char *found;
        desc.bytes = unit_array_run(lane->plan, piece, at, left, &found);
        desc.from.host = (char *)(uintptr_t)found;
        status = copy_bytes(unit, step, &desc, err);
        at += (int64_t)desc.bytes;
        desc.to.offset += to.memory ? desc.bytes : 0;
        desc.to.host = to.memory ? NULL : (char *)desc.to.host + desc.bytes;
    }
    return status;
}

static muster_status do_parts(struct lane_unit *unit, uint32_t step, uint32_t first_part,
                              uint32_t part_count, struct muster_error *err)
{
    const struct run_lane *lane = unit->lane;
    const struct lane_step *of = &lane->plan->steps[step - 1];
    muster_status status = MUSTER_OK;
    /* A job that is over did not wait for its user's code or for a driver: nothing more is begun. */
    for (uint32_t i = 0; i < of->copy_count && status == MUSTER_OK; i++)
        if (!thread_is_given_up(&lane->thread))
            status = copy_parts(unit, step, &lane->plan->copies[of->first_copy + i], first_part,
                                part_count, err);
    if (status != MUSTER_OK || thread_is_given_up(&lane->thread))
        return status;
    if (of->run)
        return unit_call(unit, step, first_part, part_count, err);
    return of->kernel ? unit_launch_step(unit, step, first_part, part_count, err) : MUSTER_OK;
}

/* Whether one copy moves all parts: they lie alike at both ends, and none has a size of its own. */
static bool copies_once(const struct lane_unit *unit, const struct lane_copy *copy)
{
    const struct lane_plan *plan = unit->lane->plan;
    uint32_t part = 0;
    if (plan->pieces[copy->from].stride != plan->pieces[copy->to].stride)
        return false;
    while (part < unit->part_count && unit_set_bytes(unit, copy->from, part) == SIZE_MAX)
        part++;
    return part == unit->part_count;
}

/* Does the step: once for all parts, or for one after the other. */
muster_status unit_do_step(struct lane_unit *unit, uint32_t step, struct muster_error *err)
{
    const struct run_lane *lane = unit->lane;
    const struct lane_step *of = &lane->plan->steps[step - 1];
    bool is_once = of->takes_all;
    for (uint32_t i = 0; i < of->copy_count; i++)
        is_once = is_once && copies_once(unit, &lane->plan->copies[of->first_copy + i]);
    muster_status status = MUSTER_OK;
    if (is_once)
        return do_parts(unit, step, 0, unit->part_count, err);
    for (uint32_t part = 0;
         part < unit->part_count && status == MUSTER_OK && !thread_is_given_up(&lane->thread);
         part++)
        status = do_parts(unit, step, part, 1, err);
    return status;
}

/* False: a wait was refused. Then it is tried again when all that it waits for is over. */
static bool enqueue(struct lane_unit *unit, uint32_t step)
{
    struct run_lane *lane = unit->lane;
    struct muster_error problem = { .size = sizeof problem };
    const struct lane_stream *stream = &lane->streams[unit_stream(unit, step)];
    muster_status status = unit->asks ? MUSTER_OK : queue_waits(unit, step, &problem);
    if (status != MUSTER_OK) {
        void_unit(unit, device_note(lane->device, status, &problem), &problem);
        unit->asks = true;
        return false;
    }
    unit->asks = false;
    count_waits(unit, step, ~QUEUED_KINDS);
    account_begin_step(unit, step);
    if (!unit->is_void)
        status = unit_do_step(unit, step, &problem);
    if (status < MUSTER_OK)
        void_unit(unit, device_note(lane->device, status, &problem), &problem);
    account_end_step(unit, step);
    if (step + 1 == lane_sink(lane))
        timing_anchor(unit, stream->stream);
    count_records(unit, step, ~RECORDED_KINDS);
    if (!(lane->recording >> step & 1))
        return true;
    status = streams_record(stream, unit->events[step], &problem);
    unit->is_untold[step] = status != MUSTER_OK;
    if (status == MUSTER_OK)
        count_records(unit, step, RECORDED_KINDS);
    if (status != MUSTER_OK) {
        lane->was_refused = true;
        void_unit(unit, device_note(lane->device, status, &problem), &problem);
        lane->must_renew = true;
    }
    hang_bell(unit, step, stream->stream->state);
    return true;
}

/* Host steps. */

static void run_host_step(void *argument)
{
    struct lane_unit *unit = argument;
    struct run_lane *lane = unit->lane;
    struct muster *m = lane->work->group.m;
    bool is_accounted = lane->plan->is_accounted;
    unit->step_status = MUSTER_OK;
    unit->step_problem.size = sizeof unit->step_problem;
    unit->host_span.begin_ns = is_accounted ? platform_clock_ns() : 0;
    if (unit->next == 0)
        unit_stage_input(unit);
    else
        unit->step_status = unit_do_step(unit, unit->next, &unit->step_problem);
    unit->host_span.end_ns = is_accounted ? platform_clock_ns() : 0;
    run_lock(m);
    /* Release: the lane's thread goes on with what the step has written. */
    atomic_store_explicit(&unit->host_state, HOST_RETURNED, memory_order_release);
    lane_wake_locked(lane);
    run_unlock(m);
}

static void begin_host_step(struct lane_unit *unit)
{
    count_waits(unit, unit->next, ALL_KINDS);
    unit->work = (struct work){ .run = run_host_step, .user = unit };
    atomic_store_explicit(&unit->host_state, HOST_RUNNING, memory_order_relaxed);
    unit->lane->host_steps++;
    workers_give(unit->lane->work->workers, &unit->work);
}

static void end_host_step(struct lane_unit *unit)
{
    atomic_store_explicit(&unit->host_state, HOST_IDLE, memory_order_relaxed);
    count_records(unit, unit->next, ~BIT(MUSTER_EDGE_GATE));
    publish(unit, unit->next);
    if (unit->step_status < MUSTER_OK) {
        unit->attempt.is_refused = unit->attempt.given == MUSTER_OK;
        void_unit(unit, unit->step_status, &unit->step_problem);
    }
    unit->next++;
}

/* Among those that are over when the host step begins: others may be saying so right now. */
static bool has_failed_kernel(const struct lane_unit *unit, uint32_t step)
{
    uint64_t left = unit->lane->behind[step];
    while (left != 0 && unit->results_of[__builtin_ctzll(left)] == MUSTER_OK)
        left &= left - 1;
    return left != 0;
}

/* Going on with it: true if the next host step was begun, is over or is not needed. */
static bool move_host_step(struct lane_unit *unit)
{
    uint32_t state = atomic_load_explicit(&unit->host_state, memory_order_acquire);
    if (state == HOST_RUNNING)
        return false;
    if (state == HOST_RETURNED) {
        unit->lane->host_steps--;
        if (unit->lane->plan->is_accounted)
            account_host_step(unit, unit->next);
        end_host_step(unit);
        return true;
    }
    if (!may_go_on(unit, unit->next))
        return false;
    /* What a kernel that failed has left is nothing for the user's code to look at. */
    unit->is_void = unit->is_void || has_failed_kernel(unit, unit->next);
    if (unit->is_void) {
        unit->step_status = MUSTER_OK;
        count_waits(unit, unit->next, ALL_KINDS);
        end_host_step(unit);
        return true;
    }
    begin_host_step(unit);
    return true;
}

/* Of a unit that was just taken: no item has failed yet. */
static void clear_statuses(struct lane_unit *unit)
{
    for (uint64_t i = 0; unit->statuses && i < unit_items(unit); i++)
        unit->statuses[i] = MUSTER_OK;
    unit->is_fresh = false;
}

/* Enqueues and begins what it can of a unit; true if that was anything. */
static bool move_unit(struct lane_unit *unit)
{
    struct run_lane *lane = unit->lane;
    bool has_moved = false;
    if (unit->is_fresh && unit->results)
        lane_make_results_known(lane, unit->buffer);
    if (unit->is_fresh)
        clear_statuses(unit);
    while (unit->next < lane_sink(lane)) {
        uint32_t step = unit->next;
        unit->is_void = unit->is_void || lane->is_over;
        /* With one unit the device was lost to all: nothing of them is given to it any more. */
        if (lane->is_lost && !unit->is_void) {
            unit->attempt.ended = MUSTER_E_DEVICE_LOST;
            unit->is_void = true;
        }
        /* The window keeps what a unit may still read; the edge is kept by that. */
        if (step == 0 && lane->staged == 0) {
            count_waits(unit, 0, ALL_KINDS);
            count_records(unit, 0, ALL_KINDS);
            unit->next++;
            continue;
        }
        if (lane_is_host_step(lane, step)) {
            if (!move_host_step(unit))
                break;
            has_moved = true;
            continue;
        }
        if (!may_go_on(unit, step))
            break;
        if (enqueue(unit, step))
            unit->next++;
        has_moved = true;
    }
    if (has_moved && unit->next == lane_sink(lane) && lane->plan->counts_giving)
        unit->given_ns = platform_clock_ns();
    return has_moved;
}

bool lane_move_units(struct run_lane *lane)
{
    bool has_moved = false;
    lane->awaits_device = false;
    for (uint32_t i = 0; lane->running > 0 && i < lane->plan->depth; i++) {
        struct lane_unit *unit = lane_unit_nth(lane, i);
        has_moved = (unit && move_unit(unit)) || has_moved;
    }
    return has_moved;
}
