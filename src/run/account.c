/*
 * How long a stream stood still before a step because of an edge: by timing events before and behind
 * each step, read when the unit is over. The time from the end of what the stream did before to the
 * beginning of the step is put down to the wait whose producer was the last to end.
 */
#include "run/pipeline.h"

#include "base/allocator.h"

struct account {
    void **begins, **ends; /* own: timing events by unit instance and step; NULL: none */
    void *base;            /* owns: recorded before everything */
    uint64_t *ended_ns;    /* by unit instance and step, since base */
    uint64_t *stream_ns;   /* when each stream last ended something */
    size_t count;
    bool *is_marked; /* by unit instance and step */
};

static void *make_event(struct line *line)
{
    const struct muster_backend *table = &line->lane->device->backend->table;
    struct muster_allocator *allocator = &line->job->m->allocator;
    void *event = allocator_take(allocator, 1, table->event_bytes);
    if (event &&
        table->event_init(line->lane->device->state, MUSTER_EVENT_TIMING, event, NULL) == MUSTER_OK)
        return event;
    allocator_give(allocator, event, 1, table->event_bytes);
    return NULL;
}

static void free_event(struct line *line, void *event)
{
    const struct muster_backend *table = &line->lane->device->backend->table;
    if (!event)
        return;
    table->event_deinit(event);
    allocator_give(&line->job->m->allocator, event, 1, table->event_bytes);
}

void account_free(struct line *line)
{
    struct account *account = line->account;
    struct muster_allocator *allocator = &line->job->m->allocator;
    if (!account)
        return;
    for (size_t i = 0; i < account->count; i++) {
        if (account->begins)
            free_event(line, account->begins[i]);
        if (account->ends)
            free_event(line, account->ends[i]);
    }
    free_event(line, account->base);
    allocator_give(allocator, account->begins, account->count, sizeof *account->begins);
    allocator_give(allocator, account->ends, account->count, sizeof *account->ends);
    allocator_give(allocator, account->ended_ns, account->count, sizeof *account->ended_ns);
    allocator_give(allocator, account->stream_ns, MUSTER_ROLES_MAX, sizeof *account->stream_ns);
    allocator_give(allocator, account->is_marked, account->count, sizeof *account->is_marked);
    allocator_give(allocator, account, 1, sizeof *account);
    line->account = NULL;
}

void account_set_up(struct line *line)
{
    struct muster_allocator *allocator = &line->job->m->allocator;
    if (!line->streams[0])
        return;
    struct account *account = allocator_take(allocator, 1, sizeof *account);
    if (!account)
        return;
    line->account = account;
    account->count = (size_t)line->depth * line->plan->step_count;
    account->begins = allocator_take(allocator, account->count, sizeof *account->begins);
    account->ends = allocator_take(allocator, account->count, sizeof *account->ends);
    account->ended_ns = allocator_take(allocator, account->count, sizeof *account->ended_ns);
    account->stream_ns = allocator_take(allocator, MUSTER_ROLES_MAX, sizeof *account->stream_ns);
    account->is_marked = allocator_take(allocator, account->count, sizeof *account->is_marked);
    bool is_good = account->begins && account->ends && account->ended_ns && account->stream_ns &&
                   account->is_marked && (account->base = make_event(line));
    for (size_t i = 0; is_good && i < account->count; i++)
        is_good = (account->begins[i] = make_event(line)) && (account->ends[i] = make_event(line));
    if (is_good)
        is_good = line->lane->device->backend->table.event_record(
                      account->base, line->streams[0]->state, NULL) == MUSTER_OK;
    if (!is_good)
        account_free(line);
}

static size_t index_of(const struct line *line, uint64_t number, uint32_t step)
{
    return (size_t)(number % line->depth) * line->plan->step_count + step;
}

static void *stream_of(const struct line *line, uint32_t step)
{
    return line->streams[line->pipeline->declaration.stages[step - 1].stream]->state;
}

void account_begin_step(struct line_unit *unit, uint32_t step)
{
    struct line *line = unit->line;
    if (!line->account)
        return;
    size_t i = index_of(line, unit->number, step);
    line->account->is_marked[i] =
        line->lane->device->backend->table.event_record(line->account->begins[i],
                                                        stream_of(line, step), NULL) == MUSTER_OK;
}

void account_end_step(struct line_unit *unit, uint32_t step)
{
    struct line *line = unit->line;
    if (!line->account)
        return;
    size_t i = index_of(line, unit->number, step);
    if (line->lane->device->backend->table.event_record(line->account->ends[i],
                                                        stream_of(line, step), NULL) != MUSTER_OK)
        line->account->is_marked[i] = false;
}

/* The event edge into the step whose producer ended last, and when. */
static uint32_t last_holder(const struct line_unit *unit, uint32_t step, uint64_t *ended_ns)
{
    const struct line *line = unit->line;
    uint32_t holder = PIPE_NONE;
    for (uint32_t i = 0; i < line->plan->edge_count; i++) {
        const struct pipe_edge *edge = &line->plan->edges[i];
        if (edge->to != step || edge->kind != MUSTER_EDGE_EVENT || unit->number < edge->distance ||
            edge->distance >= line->depth)
            continue;
        uint64_t ns =
            line->account->ended_ns[index_of(line, unit->number - edge->distance, edge->from)];
        if (holder == PIPE_NONE || ns > *ended_ns) {
            holder = i;
            *ended_ns = ns;
        }
    }
    return holder;
}

void account_unit(struct line_unit *unit)
{
    struct line *line = unit->line;
    struct account *account = line->account;
    const struct muster_backend *table = &line->lane->device->backend->table;
    if (!account)
        return;
    for (uint32_t s = 1; s + 1 < line->plan->step_count; s++) {
        size_t i = index_of(line, unit->number, s);
        uint64_t begin_ns, end_ns, held_ns = 0;
        if (pipe_is_host(&line->pipeline->declaration, s) || !account->is_marked[i] ||
            table->event_elapsed(account->base, account->begins[i], &begin_ns, NULL) != MUSTER_OK ||
            table->event_elapsed(account->base, account->ends[i], &end_ns, NULL) != MUSTER_OK)
            continue;
        uint64_t *stream_ns = &account->stream_ns[line->pipeline->declaration.stages[s - 1].stream];
        uint32_t holder = last_holder(unit, s, &held_ns);
        uint64_t until_ns = begin_ns < held_ns ? begin_ns : held_ns;
        if (holder != PIPE_NONE && until_ns > *stream_ns)
            line->counts[holder].stall_ns += until_ns - *stream_ns;
        account->ended_ns[i] = end_ns;
        *stream_ns = end_ns > *stream_ns ? end_ns : *stream_ns;
    }
}
