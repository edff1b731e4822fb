/*
 * When stages were at work, how long edges held them up, and whether edges were kept as planned.
 *
 * On a stream the times come from timing events before and behind each step, read when the unit is
 * over. A stall is the time from when the stream had ended what it did before, and the step had been
 * given to it, to the beginning of the step; it is put down to the wait whose producer was the last to
 * end. All times are on the host's clock: it is known when one event, the base, was on the device.
 */
#include "run/lane/lane.h"

#include "base/allocator.h"

#include <stdio.h>

/* Shorter stalls are counted, and not shown in a trace. */
#define STALL_SHOWN_NS 5000u
/* The base is recorded again until the host has seen it come and go in so short a time. */
#define BASE_GOOD_NS 50000u
#define BASE_TRIES 8u
#define BASE_WAIT_NS UINT64_C(1000000000)

struct account {
    void **begins, **ends;   /* own: timing events by unit instance and step; NULL: none */
    void *base;              /* owns: recorded before everything */
    uint64_t base_ns;        /* when that was */
    struct time_span *spans; /* by unit instance and step; end 0: not known */
    uint64_t *given_ns;      /* by unit instance and step: when the stream was given it */
    uint64_t *stream_ns;     /* when each stream last ended something */
    size_t count;
    bool *is_marked; /* by unit instance and step */
};

static void *make_event(struct run_lane *lane)
{
    const struct muster_backend *table = lane_table(lane);
    struct muster_allocator *allocator = &lane->work->group.m->allocator;
    void *event = allocator_take(allocator, 1, table->event_bytes);
    if (event &&
        table->event_init(lane->device->state, MUSTER_EVENT_TIMING, event, NULL) == MUSTER_OK)
        return event;
    allocator_give(allocator, event, 1, table->event_bytes);
    return NULL;
}

static void free_event(struct run_lane *lane, void *event)
{
    const struct muster_backend *table = lane_table(lane);
    if (!event)
        return;
    table->event_deinit(event);
    allocator_give(&lane->work->group.m->allocator, event, 1, table->event_bytes);
}

void account_free(struct run_lane *lane)
{
    struct account *account = lane->account;
    struct muster_allocator *allocator = &lane->work->group.m->allocator;
    if (!account)
        return;
    for (size_t i = 0; i < account->count; i++) {
        if (account->begins)
            free_event(lane, account->begins[i]);
        if (account->ends)
            free_event(lane, account->ends[i]);
    }
    free_event(lane, account->base);
    allocator_give(allocator, account->begins, account->count, sizeof *account->begins);
    allocator_give(allocator, account->ends, account->count, sizeof *account->ends);
    allocator_give(allocator, account->spans, account->count, sizeof *account->spans);
    allocator_give(allocator, account->given_ns, account->count, sizeof *account->given_ns);
    allocator_give(allocator, account->stream_ns, MUSTER_ROLES_MAX, sizeof *account->stream_ns);
    allocator_give(allocator, account->is_marked, account->count, sizeof *account->is_marked);
    allocator_give(allocator, account, 1, sizeof *account);
    lane->account = NULL;
}

/* Between these two looks at the clock it was on the device, whose stream has nothing else to do. */
static bool record_base(struct run_lane *lane)
{
    const struct muster_backend *table = lane_table(lane);
    struct account *account = lane->account;
    uint64_t before_ns, after_ns;
    uint32_t tries = 0;
    do {
        before_ns = platform_clock_ns();
        if (table->event_record(account->base, lane->streams[0].stream->state, NULL) != MUSTER_OK ||
            table->event_wait(account->base, BASE_WAIT_NS, NULL) != MUSTER_OK)
            return false;
        after_ns = platform_clock_ns();
    } while (after_ns - before_ns > BASE_GOOD_NS && ++tries < BASE_TRIES);
    account->base_ns = before_ns + (after_ns - before_ns) / 2;
    return true;
}

void account_set_up(struct run_lane *lane)
{
    struct muster_allocator *allocator = &lane->work->group.m->allocator;
    if (!lane->streams[0].stream)
        return;
    struct account *account = allocator_take(allocator, 1, sizeof *account);
    if (!account)
        return;
    lane->account = account;
    account->count = (size_t)lane->plan->depth * lane->plan->order->step_count;
    account->begins = allocator_take(allocator, account->count, sizeof *account->begins);
    account->ends = allocator_take(allocator, account->count, sizeof *account->ends);
    account->spans = allocator_take(allocator, account->count, sizeof *account->spans);
    account->given_ns = allocator_take(allocator, account->count, sizeof *account->given_ns);
    account->stream_ns = allocator_take(allocator, MUSTER_ROLES_MAX, sizeof *account->stream_ns);
    account->is_marked = allocator_take(allocator, account->count, sizeof *account->is_marked);
    bool is_good = account->begins && account->ends && account->spans && account->given_ns &&
                   account->stream_ns && account->is_marked && (account->base = make_event(lane));
    for (size_t i = 0; is_good && i < account->count; i++)
        is_good = (account->begins[i] = make_event(lane)) && (account->ends[i] = make_event(lane));
    if (!is_good || !record_base(lane))
        account_free(lane);
}

static size_t index_of(const struct run_lane *lane, uint64_t number, uint32_t step)
{
    return (size_t)(number % lane->plan->depth) * lane->plan->order->step_count + step;
}

static uint32_t stream_of(const struct run_lane *lane, uint32_t step)
{
    return lane->plan->declaration->stages[step - 1].stream;
}

void account_begin_step(struct lane_unit *unit, uint32_t step)
{
    struct run_lane *lane = unit->lane;
    if (!lane->account)
        return;
    const struct muster_backend *table = lane_table(lane);
    void *stream = lane->streams[stream_of(lane, step)].stream->state;
    size_t i = index_of(lane, unit->number, step);
    lane->account->given_ns[i] = platform_clock_ns();
    /* Of a unit that is not wanted any more the step does nothing. */
    lane->account->is_marked[i] =
        !unit->is_void && table->event_record(lane->account->begins[i], stream, NULL) == MUSTER_OK;
}

void account_end_step(struct lane_unit *unit, uint32_t step)
{
    struct run_lane *lane = unit->lane;
    if (!lane->account)
        return;
    const struct muster_backend *table = lane_table(lane);
    size_t i = index_of(lane, unit->number, step);
    if (lane->account->is_marked[i] &&
        table->event_record(lane->account->ends[i],
                            lane->streams[stream_of(lane, step)].stream->state, NULL) != MUSTER_OK)
        lane->account->is_marked[i] = false;
}

void account_host_step(struct lane_unit *unit, uint32_t step)
{
    struct run_lane *lane = unit->lane;
    trace_step(unit, MUSTER_TRACE_STAGE, unit->host_span, 0, unit->step_status,
               pipe_step_name(lane->plan->declaration, step));
    if (!lane->account)
        return;
    size_t i = index_of(lane, unit->number, step);
    lane->account->spans[i] = unit->host_span;
    lane->account->is_marked[i] = true;
}

static void show_stall(const struct lane_unit *unit, uint32_t index, struct time_span span,
                       uint32_t stream)
{
    const struct run_lane *lane = unit->lane;
    const struct pipe_declaration *declaration = lane->plan->declaration;
    const struct pipe_edge *edge = &lane->plan->order->edges[index];
    bool has_buffer = edge->buffer != PIPE_NONE;
    char name[3 * LANE_NAME_BYTES + 8];
    if (span.end_ns - span.begin_ns < STALL_SHOWN_NS)
        return;
    snprintf(name, sizeof name, "%s -> %s%s%s", pipe_step_name(declaration, edge->from),
             pipe_step_name(declaration, edge->to), has_buffer ? ", " : "",
             has_buffer ? declaration->buffers[edge->buffer].name : "");
    trace_step(unit, MUSTER_TRACE_STALL, span, stream, MUSTER_OK, name);
}

void account_stall(const struct lane_unit *unit, uint32_t edge, struct time_span span)
{
    show_stall(unit, edge, span, 0);
}

/* Of what the stream waited for before the step: the edge whose producer ended last, and when. */
static uint32_t last_holder(const struct lane_unit *unit, uint32_t step, uint64_t *ended_ns)
{
    const struct run_lane *lane = unit->lane;
    uint32_t holder = PIPE_NONE;
    for (uint32_t i = 0; i < lane->plan->order->edge_count; i++) {
        const struct pipe_edge *edge = &lane->plan->order->edges[i];
        bool is_queued = edge->kind == MUSTER_EDGE_EVENT || edge->kind == MUSTER_EDGE_GATE;
        if (edge->to != step || !is_queued || unit->number < edge->distance ||
            edge->distance >= lane->plan->depth)
            continue;
        uint64_t number = unit->number - edge->distance;
        uint64_t ns = lane->account->spans[index_of(lane, number, edge->from)].end_ns;
        if (holder == PIPE_NONE || ns > *ended_ns) {
            holder = i;
            *ended_ns = ns;
        }
    }
    return holder;
}

/* When the device was at the step, as far as its clock and the host's go together. */
static bool read_span(const struct lane_unit *unit, uint32_t step, struct time_span *span)
{
    const struct run_lane *lane = unit->lane;
    const struct account *account = lane->account;
    const struct muster_backend *table = lane_table(lane);
    size_t i = index_of(lane, unit->number, step);
    uint64_t begin_ns, end_ns;
    if (!account->is_marked[i] ||
        table->event_elapsed(account->base, account->begins[i], &begin_ns, NULL) != MUSTER_OK ||
        table->event_elapsed(account->base, account->ends[i], &end_ns, NULL) != MUSTER_OK)
        return false;
    *span = (struct time_span){ account->base_ns + begin_ns, account->base_ns + end_ns };
    return true;
}

/*
 * Clocks drift apart. No step begins before it was given to its stream, nor ends after it was seen to
 * have ended: where that seems so the base was at another time than was thought.
 */
static void set_clock(struct lane_unit *unit, uint64_t now_ns)
{
    struct run_lane *lane = unit->lane;
    uint64_t early_ns = 0, late_ns = 0;
    for (uint32_t s = 1; s + 1 < lane->plan->order->step_count; s++) {
        struct time_span span;
        if (pipe_is_host(lane->plan->declaration, s) || !read_span(unit, s, &span))
            continue;
        uint64_t given_ns = lane->account->given_ns[index_of(lane, unit->number, s)];
        if (given_ns > span.begin_ns && given_ns - span.begin_ns > early_ns)
            early_ns = given_ns - span.begin_ns;
        if (span.end_ns > now_ns && span.end_ns - now_ns > late_ns)
            late_ns = span.end_ns - now_ns;
    }
    lane->account->base_ns += early_ns;
    lane->account->base_ns -= early_ns > 0 ? 0 : least(late_ns, lane->account->base_ns);
}

/* The step of the unit, on its stream. */
static void account_step(struct lane_unit *unit, uint32_t step)
{
    struct run_lane *lane = unit->lane;
    struct account *account = lane->account;
    size_t i = index_of(lane, unit->number, step);
    uint32_t stream = stream_of(lane, step);
    uint64_t *stream_ns = &account->stream_ns[stream];
    struct time_span span, *known = &account->spans[i];
    uint64_t held_ns = 0;
    *known = (struct time_span){ 0, 0 };
    if (!read_span(unit, step, &span))
        return;
    /* What follows on a stream does not begin before, whatever was said of the clock meanwhile. */
    span.begin_ns = span.begin_ns > *stream_ns ? span.begin_ns : *stream_ns;
    span.end_ns = span.end_ns > span.begin_ns ? span.end_ns : span.begin_ns;
    uint32_t holder = last_holder(unit, step, &held_ns);
    uint64_t from_ns = *stream_ns > account->given_ns[i] ? *stream_ns : account->given_ns[i];
    uint64_t until_ns = least(span.begin_ns, held_ns);
    if (holder != PIPE_NONE && until_ns > from_ns) {
        lane->counts[holder].stall_ns += until_ns - from_ns;
        show_stall(unit, holder, (struct time_span){ from_ns, until_ns }, stream + 1);
    }
    trace_step(unit, MUSTER_TRACE_STAGE, span, stream + 1, unit->results_of[step],
               lane->plan->declaration->stages[step - 1].name);
    *known = span;
    *stream_ns = span.end_ns;
}

/* From the first stage that is no copy to the last: that is work, and all else transfers. */
static struct time_span work_span(const struct lane_unit *unit)
{
    const struct run_lane *lane = unit->lane;
    struct time_span work = { UINT64_MAX, 0 };
    bool copies = false;
    for (uint32_t s = 1; s + 1 < lane->plan->order->step_count; s++) {
        const struct time_span *span = &lane->account->spans[index_of(lane, unit->number, s)];
        if (lane->plan->steps[s - 1].copy_count > 0) {
            copies = true;
            continue;
        }
        if (span->end_ns == 0)
            return (struct time_span){ 0, 0 };
        work.begin_ns = least(work.begin_ns, span->begin_ns);
        work.end_ns = span->end_ns > work.end_ns ? span->end_ns : work.end_ns;
    }
    return copies ? work : (struct time_span){ 0, 0 };
}

void account_unit(struct lane_unit *unit)
{
    struct run_lane *lane = unit->lane;
    if (!lane->account)
        return;
    set_clock(unit, platform_clock_ns());
    for (uint32_t s = 1; s + 1 < lane->plan->order->step_count; s++)
        if (!pipe_is_host(lane->plan->declaration, s))
            account_step(unit, s);
    if (!lane->plan->on_host && !unit->is_void)
        unit->at_kernel = work_span(unit);
}

void account_check(const struct run_lane *lane)
{
    const struct pipe_declaration *declaration = lane->plan->declaration;
    for (uint32_t i = 0; i < lane->plan->order->edge_count; i++) {
        const struct pipe_edge *edge = &lane->plan->order->edges[i];
        const struct edge_count *count = &lane->counts[i];
        uint64_t waits = account_waits(lane, edge);
        if (count->records == lane->next && count->waits == waits)
            continue;
        run_log(
            lane->work->group.m, MUSTER_LOG_ERROR,
            "%s: %s -> %s, %u units on: recorded %llu times and waited for %llu times; the plan "
            "has %llu and %llu: please report this",
            lane->device->info.id, pipe_step_name(declaration, edge->from),
            pipe_step_name(declaration, edge->to), edge->distance,
            (unsigned long long)count->records, (unsigned long long)count->waits,
            (unsigned long long)lane->next, (unsigned long long)waits);
    }
}
