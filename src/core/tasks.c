#include "core/tasks.h"

#include "base/invariant.h"

#include <string.h>

static size_t aligned(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

size_t tasks_bytes(uint32_t capacity, uint32_t edge_capacity)
{
    return aligned(capacity * sizeof(struct tasks_entry)) +
           aligned(edge_capacity * sizeof(struct tasks_edge));
}

static void push(struct tasks *tasks, struct tasks_list *list, uint32_t task)
{
    tasks->entries[task].next = TASKS_NONE;
    tasks->entries[task].previous = list->count > 0 ? list->tail : TASKS_NONE;
    if (list->count++ == 0)
        list->head = task;
    else
        tasks->entries[list->tail].next = task;
    list->tail = task;
}

static void push_front(struct tasks *tasks, struct tasks_list *list, uint32_t task)
{
    tasks->entries[task].previous = TASKS_NONE;
    tasks->entries[task].next = list->count > 0 ? list->head : TASKS_NONE;
    if (list->count++ == 0)
        list->tail = task;
    else
        tasks->entries[list->head].previous = task;
    list->head = task;
}

static void take_out(struct tasks *tasks, struct tasks_list *list, uint32_t task)
{
    const struct tasks_entry *entry = &tasks->entries[task];
    if (entry->previous != TASKS_NONE)
        tasks->entries[entry->previous].next = entry->next;
    else
        list->head = entry->next;
    if (entry->next != TASKS_NONE)
        tasks->entries[entry->next].previous = entry->previous;
    else
        list->tail = entry->previous;
    list->count--;
}

void tasks_init(struct tasks *tasks, void *memory, uint32_t capacity, uint32_t edge_capacity)
{
    char *at = memory;
    memset(memory, 0, tasks_bytes(capacity, edge_capacity));
    *tasks = (struct tasks){
        .entries = memory,
        .edges = (struct tasks_edge *)(at + aligned(capacity * sizeof(struct tasks_entry))),
        .capacity = capacity,
        .edge_capacity = edge_capacity,
        .free_edges = edge_capacity > 0 ? 0 : TASKS_NONE,
        .free_edge_count = edge_capacity
    };
    for (uint32_t i = 0; i < edge_capacity; i++)
        tasks->edges[i].next = i + 1 < edge_capacity ? i + 1 : TASKS_NONE;
    for (uint32_t i = 0; i < capacity; i++)
        push(tasks, &tasks->spare, i);
}

void tasks_move_edges(struct tasks *tasks, struct tasks_edge *edges, uint32_t edge_capacity)
{
    uint32_t before = tasks->edge_capacity;
    INVARIANT(edge_capacity > before);
    memcpy(edges, tasks->edges, before * sizeof *edges);
    for (uint32_t i = before; i < edge_capacity; i++)
        edges[i].next = i + 1 < edge_capacity ? i + 1 : tasks->free_edges;
    tasks->free_edges = before;
    tasks->free_edge_count += edge_capacity - before;
    tasks->edge_capacity = edge_capacity;
    tasks->edges = edges;
}

uint32_t tasks_add(struct tasks *tasks)
{
    if (tasks->spare.count == 0)
        return TASKS_NONE;
    uint32_t task = tasks->spare.head;
    take_out(tasks, &tasks->spare, task);
    struct tasks_entry *entry = &tasks->entries[task];
    INVARIANT(entry->state == TASKS_FREE || entry->state == TASKS_ENDED);
    /* 0 is no generation, also after four billion uses. */
    uint32_t generation = entry->generation + 1 > 0 ? entry->generation + 1 : 1;
    *entry = (struct tasks_entry){ .generation = generation,
                                   .first_follower = TASKS_NONE,
                                   .state = TASKS_WAITING };
    tasks->open_count++;
    return task;
}

bool tasks_follow(struct tasks *tasks, uint32_t task, uint32_t before)
{
    struct tasks_entry *entry = &tasks->entries[task], *other = &tasks->entries[before];
    INVARIANT(!entry->is_released && other->is_released);
    if (other->state == TASKS_ENDED) {
        entry->is_doomed = entry->is_doomed || other->status != MUSTER_OK;
        return true;
    }
    uint32_t edge = tasks->free_edges;
    if (edge == TASKS_NONE)
        return false;
    tasks->free_edges = tasks->edges[edge].next;
    tasks->free_edge_count--;
    tasks->edges[edge] = (struct tasks_edge){ task, other->first_follower };
    other->first_follower = edge;
    entry->after_count++;
    return true;
}

/* Takes the edge that `link` names out of its list; the task at its end, which it waits for no more. */
static uint32_t drop_edge(struct tasks *tasks, uint32_t *link)
{
    uint32_t edge = *link, follower = tasks->edges[edge].follower;
    *link = tasks->edges[edge].next;
    tasks->edges[edge].next = tasks->free_edges;
    tasks->free_edges = edge;
    tasks->free_edge_count++;
    tasks->entries[follower].after_count--;
    return follower;
}

void tasks_unfollow(struct tasks *tasks, uint32_t task, uint32_t before)
{
    uint32_t *link = &tasks->entries[before].first_follower;
    while (*link != TASKS_NONE && tasks->edges[*link].follower != task)
        link = &tasks->edges[*link].next;
    if (*link != TASKS_NONE)
        drop_edge(tasks, link);
}

static struct tasks_list *ready_list(struct tasks *tasks, uint32_t task)
{
    return tasks->entries[task].is_aside ? &tasks->aside : &tasks->ready;
}

/* A released task without unfinished predecessors is ready. Others may still get predecessors. */
static void make_ready_if_due(struct tasks *tasks, uint32_t task)
{
    struct tasks_entry *entry = &tasks->entries[task];
    if (!entry->is_released || entry->after_count > 0)
        return;
    INVARIANT(entry->state == TASKS_WAITING);
    entry->state = TASKS_READY;
    push(tasks, ready_list(tasks, task), task);
}

void tasks_set_aside(struct tasks *tasks, uint32_t task)
{
    INVARIANT(!tasks->entries[task].is_released);
    tasks->entries[task].is_aside = true;
}

void tasks_release(struct tasks *tasks, uint32_t task)
{
    INVARIANT(!tasks->entries[task].is_released);
    tasks->entries[task].is_released = true;
    make_ready_if_due(tasks, task);
}

void tasks_release_taken(struct tasks *tasks, uint32_t task)
{
    struct tasks_entry *entry = &tasks->entries[task];
    INVARIANT(!entry->is_released && entry->after_count == 0 && !entry->is_doomed);
    entry->is_released = entry->is_aside = true;
    entry->state = TASKS_TAKEN;
}

void tasks_withdraw(struct tasks *tasks, uint32_t task)
{
    struct tasks_entry *entry = &tasks->entries[task];
    INVARIANT(entry->first_follower == TASKS_NONE && entry->after_count == 0);
    if (entry->state == TASKS_READY)
        take_out(tasks, ready_list(tasks, task), task);
    entry->state = TASKS_FREE;
    tasks->open_count--;
    push_front(tasks, &tasks->spare, task);
}

bool tasks_take_this(struct tasks *tasks, uint32_t task)
{
    if (tasks->entries[task].state != TASKS_READY)
        return false;
    take_out(tasks, ready_list(tasks, task), task);
    tasks->entries[task].state = TASKS_TAKEN;
    return true;
}

static uint32_t take_from(struct tasks *tasks, const struct tasks_list *list, uint32_t most,
                          uint32_t *out)
{
    uint32_t count = 0;
    while (count < most && list->count > 0) {
        out[count] = list->head;
        tasks_take_this(tasks, out[count++]);
    }
    return count;
}

uint32_t tasks_take(struct tasks *tasks, uint32_t most, uint32_t *out)
{
    return take_from(tasks, &tasks->ready, most, out);
}

uint32_t tasks_take_aside(struct tasks *tasks, uint32_t most, uint32_t *out)
{
    return take_from(tasks, &tasks->aside, most, out);
}

void tasks_put_back(struct tasks *tasks, uint32_t task)
{
    INVARIANT(tasks->entries[task].state == TASKS_TAKEN);
    tasks->entries[task].state = TASKS_READY;
    push_front(tasks, ready_list(tasks, task), task);
}

void tasks_doom(struct tasks *tasks, uint32_t task)
{
    INVARIANT(tasks->entries[task].state == TASKS_WAITING);
    tasks->entries[task].is_doomed = true;
}

void tasks_end(struct tasks *tasks, uint32_t task, muster_status status)
{
    struct tasks_entry *entry = &tasks->entries[task];
    INVARIANT(entry->state == TASKS_TAKEN);
    entry->state = TASKS_ENDED;
    entry->status = status;
    tasks->open_count--;
    while (entry->first_follower != TASKS_NONE) {
        uint32_t follower = drop_edge(tasks, &entry->first_follower);
        tasks->entries[follower].is_doomed |= status != MUSTER_OK;
        make_ready_if_due(tasks, follower);
    }
    push(tasks, &tasks->spare, task);
}

/* Stands in `previous` of tasks that a search has seen: they wait, and are on no list. */
#define SEEN (UINT32_MAX - 1)

bool tasks_must_follow(struct tasks *tasks, uint32_t task, uint32_t before)
{
    struct tasks_entry *entries = tasks->entries;
    if (task == before)
        return entries[task].state != TASKS_ENDED;
    if (entries[task].state != TASKS_WAITING)
        return false;
    /* Those seen are linked by `next`, and their followers are looked at in that order. */
    uint32_t head = TASKS_NONE, tail = TASKS_NONE;
    for (uint32_t at = before; at != TASKS_NONE; at = at == before ? head : entries[at].next)
        for (uint32_t e = entries[at].first_follower; e != TASKS_NONE; e = tasks->edges[e].next) {
            uint32_t follower = tasks->edges[e].follower;
            if (entries[follower].previous == SEEN)
                continue;
            entries[follower].previous = SEEN;
            entries[follower].next = TASKS_NONE;
            if (tail == TASKS_NONE)
                head = follower;
            else
                entries[tail].next = follower;
            tail = follower;
        }
    bool is_seen = entries[task].previous == SEEN;
    for (uint32_t at = head; at != TASKS_NONE; at = entries[at].next)
        entries[at].previous = 0;
    return is_seen;
}

muster_status tasks_find(const struct tasks *tasks, uint32_t index, uint32_t generation)
{
    if (index >= tasks->capacity || generation == 0)
        return MUSTER_E_UNKNOWN;
    const struct tasks_entry *entry = &tasks->entries[index];
    if (generation > entry->generation)
        return MUSTER_E_UNKNOWN;
    return generation == entry->generation && entry->state != TASKS_FREE ? MUSTER_OK
                                                                         : MUSTER_E_STALE;
}

/* What is wrong with one task, whatever the others do. */
static const char *check_entry(const struct tasks_entry *entry)
{
    switch (entry->state) {
    case TASKS_WAITING:
        return entry->is_released && entry->after_count == 0 ? "a released task waits for nobody"
                                                             : NULL;
    case TASKS_READY:
    case TASKS_TAKEN:
        if (!entry->is_released)
            return "a task that was not released is ready or taken";
        return entry->after_count > 0 ? "a task that waits for others is ready or taken" : NULL;
    default:
        return entry->generation > 0 && entry->first_follower != TASKS_NONE
                   ? "a task follows one that is not open"
                   : NULL;
    }
}

/* That the list holds its tasks and no others, each once, linked both ways; `states`: bits. */
static const char *check_list(const struct tasks *tasks, const struct tasks_list *list,
                              unsigned states)
{
    uint32_t count = 0, previous = TASKS_NONE;
    for (uint32_t i = list->count > 0 ? list->head : TASKS_NONE; i != TASKS_NONE;
         previous = i, i = tasks->entries[i].next) {
        const struct tasks_entry *entry = &tasks->entries[i];
        if (!(states >> entry->state & 1) ||
            (entry->state == TASKS_READY && entry->is_aside != (list == &tasks->aside)))
            return "a list holds a task of another";
        if (entry->previous != previous || ++count > list->count)
            return "a list is not linked as it should be";
    }
    return count != list->count || (count > 0 && list->tail != previous) ? "a list is miscounted"
                                                                         : NULL;
}

const char *tasks_check(const struct tasks *tasks)
{
    uint32_t open = 0, ready = 0, edges = 0, free_edges = 0, waits = 0;
    const char *wrong = NULL;
    for (uint32_t i = 0; i < tasks->capacity && !wrong; i++) {
        const struct tasks_entry *entry = &tasks->entries[i];
        bool is_open = entry->state != TASKS_FREE && entry->state != TASKS_ENDED;
        wrong = check_entry(entry);
        open += is_open;
        ready += entry->state == TASKS_READY;
        waits += is_open ? entry->after_count : 0;
        for (uint32_t e = is_open ? entry->first_follower : TASKS_NONE; e != TASKS_NONE;
             e = tasks->edges[e].next) {
            if (tasks->entries[tasks->edges[e].follower].state != TASKS_WAITING)
                return "a task that does not wait follows another";
            if (++edges > tasks->edge_capacity)
                return "a list of followers runs in a circle";
        }
    }
    for (uint32_t e = tasks->free_edges; e != TASKS_NONE; e = tasks->edges[e].next)
        if (++free_edges > tasks->edge_capacity)
            return "the list of free edges runs in a circle";
    if (!wrong)
        wrong = check_list(tasks, &tasks->ready, 1u << TASKS_READY);
    if (!wrong)
        wrong = check_list(tasks, &tasks->aside, 1u << TASKS_READY);
    if (!wrong)
        wrong = check_list(tasks, &tasks->spare, 1u << TASKS_FREE | 1u << TASKS_ENDED);
    if (wrong)
        return wrong;
    if (open != tasks->open_count || ready != tasks->ready.count + tasks->aside.count)
        return "open or ready tasks are miscounted";
    if (edges + free_edges != tasks->edge_capacity || free_edges != tasks->free_edge_count ||
        edges != waits)
        return "edges are lost, or tasks wait for nobody";
    if (tasks->spare.count + tasks->open_count != tasks->capacity)
        return "places are lost";
    return NULL;
}
