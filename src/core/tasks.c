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
                                   .state = TASKS_WAITING,
                                   .priority = TASKS_PRIORITY_USUAL,
                                   .cause = TASKS_NONE };
    tasks->open_count++;
    return task;
}

static void doom(struct tasks *tasks, uint32_t task, uint32_t cause)
{
    struct tasks_entry *entry = &tasks->entries[task];
    if (!entry->is_doomed)
        entry->cause = cause;
    entry->is_doomed = true;
}

static bool follow(struct tasks *tasks, uint32_t task, uint32_t before, bool is_loose)
{
    struct tasks_entry *entry = &tasks->entries[task], *other = &tasks->entries[before];
    INVARIANT(!entry->is_released && other->is_released);
    if (other->state == TASKS_ENDED) {
        if (!is_loose && other->status != MUSTER_OK)
            doom(tasks, task, before);
        return true;
    }
    uint32_t edge = tasks->free_edges;
    if (edge == TASKS_NONE)
        return false;
    tasks->free_edges = tasks->edges[edge].next;
    tasks->free_edge_count--;
    tasks->edges[edge] = (struct tasks_edge){ .follower = task,
                                              .is_loose = is_loose,
                                              .next = other->first_follower };
    other->first_follower = edge;
    entry->after_count++;
    return true;
}

bool tasks_follow(struct tasks *tasks, uint32_t task, uint32_t before)
{
    return follow(tasks, task, before, false);
}

bool tasks_come_after(struct tasks *tasks, uint32_t task, uint32_t before)
{
    return follow(tasks, task, before, true);
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

void tasks_unfollow_all(struct tasks *tasks, uint32_t task)
{
    for (uint32_t i = 0; i < tasks->capacity && tasks->entries[task].after_count > 0; i++) {
        uint32_t *link = &tasks->entries[i].first_follower;
        bool is_open =
            tasks->entries[i].state != TASKS_FREE && tasks->entries[i].state != TASKS_ENDED;
        while (is_open && *link != TASKS_NONE) {
            if (tasks->edges[*link].follower == task)
                drop_edge(tasks, link);
            else
                link = &tasks->edges[*link].next;
        }
    }
}

static struct tasks_list *ready_list(struct tasks *tasks, uint32_t task)
{
    const struct tasks_entry *entry = &tasks->entries[task];
    return entry->is_aside        ? &tasks->aside
           : entry->is_dispatched ? &tasks->dispatched
                                  : &tasks->ready[entry->priority];
}

/* Puts a task on the list of those that are ready, as its newest or its oldest. */
static void push_ready(struct tasks *tasks, uint32_t task, bool is_oldest)
{
    struct tasks_entry *entry = &tasks->entries[task];
    entry->state = TASKS_READY;
    if (is_oldest)
        push_front(tasks, ready_list(tasks, task), task);
    else
        push(tasks, ready_list(tasks, task), task);
    if (entry->is_aside || entry->is_dispatched)
        return;
    tasks->ready_priorities |= 1u << entry->priority;
    tasks->ready_count++;
}

static void take_ready(struct tasks *tasks, uint32_t task)
{
    const struct tasks_entry *entry = &tasks->entries[task];
    struct tasks_list *list = ready_list(tasks, task);
    take_out(tasks, list, task);
    if (entry->is_aside || entry->is_dispatched)
        return;
    tasks->ready_count--;
    if (list->count == 0)
        tasks->ready_priorities &= ~(1u << entry->priority);
}

static uint32_t highest_priority(const struct tasks *tasks)
{
    return 31u - (uint32_t)__builtin_clz(tasks->ready_priorities);
}

uint32_t tasks_newest_ready(const struct tasks *tasks)
{
    return tasks->ready_count > 0 ? tasks->ready[highest_priority(tasks)].tail : TASKS_NONE;
}

/* A released task without unfinished predecessors is ready. Others may still get predecessors. */
static void make_ready_if_due(struct tasks *tasks, uint32_t task)
{
    struct tasks_entry *entry = &tasks->entries[task];
    if (!entry->is_released || entry->after_count > 0)
        return;
    INVARIANT(entry->state == TASKS_WAITING);
    push_ready(tasks, task, false);
}

void tasks_set_aside(struct tasks *tasks, uint32_t task)
{
    INVARIANT(!tasks->entries[task].is_released);
    tasks->entries[task].is_aside = true;
}

void tasks_set_dispatched(struct tasks *tasks, uint32_t task)
{
    INVARIANT(!tasks->entries[task].is_released);
    tasks->entries[task].is_dispatched = true;
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
        take_ready(tasks, task);
    entry->state = TASKS_FREE;
    tasks->open_count--;
    push_front(tasks, &tasks->spare, task);
}

bool tasks_take_this(struct tasks *tasks, uint32_t task)
{
    if (tasks->entries[task].state != TASKS_READY)
        return false;
    take_ready(tasks, task);
    tasks->entries[task].state = TASKS_TAKEN;
    return true;
}

uint32_t tasks_take(struct tasks *tasks, uint32_t most, uint32_t *out)
{
    uint32_t count = 0;
    while (count < most && tasks->ready_count > 0) {
        out[count] = tasks->ready[highest_priority(tasks)].head;
        tasks_take_this(tasks, out[count++]);
    }
    return count;
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

uint32_t tasks_take_aside(struct tasks *tasks, uint32_t most, uint32_t *out)
{
    return take_from(tasks, &tasks->aside, most, out);
}

uint32_t tasks_take_dispatched(struct tasks *tasks, uint32_t most, uint32_t *out)
{
    return take_from(tasks, &tasks->dispatched, most, out);
}

void tasks_bring_back(struct tasks *tasks, uint32_t task)
{
    INVARIANT(tasks->entries[task].state == TASKS_TAKEN && tasks->entries[task].is_dispatched);
    tasks->entries[task].is_dispatched = false;
    push_ready(tasks, task, false);
}

void tasks_put_back(struct tasks *tasks, uint32_t task)
{
    INVARIANT(tasks->entries[task].state == TASKS_TAKEN);
    push_ready(tasks, task, true);
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
        bool is_loose = tasks->edges[entry->first_follower].is_loose;
        uint32_t follower = drop_edge(tasks, &entry->first_follower);
        if (status != MUSTER_OK && !is_loose)
            doom(tasks, follower, task);
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
static const char *check_list(struct tasks *tasks, const struct tasks_list *list, unsigned states)
{
    uint32_t count = 0, previous = TASKS_NONE;
    for (uint32_t i = list->count > 0 ? list->head : TASKS_NONE; i != TASKS_NONE;
         previous = i, i = tasks->entries[i].next) {
        const struct tasks_entry *entry = &tasks->entries[i];
        if (!(states >> entry->state & 1) ||
            (entry->state == TASKS_READY && list != ready_list(tasks, i)))
            return "a list holds a task of another";
        if (entry->previous != previous || ++count > list->count)
            return "a list is not linked in both directions";
    }
    return count != list->count || (count > 0 && list->tail != previous) ? "a list is miscounted"
                                                                         : NULL;
}

const char *tasks_check(struct tasks *tasks)
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
    uint32_t on_lists = 0;
    for (uint32_t i = 0; i < TASKS_PRIORITIES && !wrong; i++) {
        on_lists += tasks->ready[i].count;
        wrong = check_list(tasks, &tasks->ready[i], 1u << TASKS_READY);
        if (!wrong && (tasks->ready[i].count > 0) != (tasks->ready_priorities >> i & 1))
            wrong = "a list of ready tasks is not marked as it is";
    }
    if (!wrong && on_lists != tasks->ready_count)
        wrong = "ready tasks are miscounted";
    if (!wrong)
        wrong = check_list(tasks, &tasks->aside, 1u << TASKS_READY);
    if (!wrong)
        wrong = check_list(tasks, &tasks->dispatched, 1u << TASKS_READY);
    if (!wrong)
        wrong = check_list(tasks, &tasks->spare, 1u << TASKS_FREE | 1u << TASKS_ENDED);
    if (wrong)
        return wrong;
    if (open != tasks->open_count ||
        ready != tasks->ready_count + tasks->aside.count + tasks->dispatched.count)
        return "open or ready tasks are miscounted";
    if (edges + free_edges != tasks->edge_capacity || free_edges != tasks->free_edge_count ||
        edges != waits)
        return "edges are lost, or tasks wait for nobody";
    if (tasks->spare.count + tasks->open_count != tasks->capacity)
        return "places are lost";
    return NULL;
}
