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

/* Gives the first edge back; the task at its end. */
static uint32_t drop_edge(struct tasks *tasks, struct tasks_entry *entry)
{
    uint32_t edge = entry->first_follower;
    entry->first_follower = tasks->edges[edge].next;
    tasks->edges[edge].next = tasks->free_edges;
    tasks->free_edges = edge;
    tasks->free_edge_count++;
    return tasks->edges[edge].follower;
}

void tasks_unfollow(struct tasks *tasks, uint32_t task, uint32_t before)
{
    struct tasks_entry *other = &tasks->entries[before];
    if (other->state == TASKS_ENDED)
        return;
    uint32_t follower = drop_edge(tasks, other);
    INVARIANT(follower == task);
    tasks->entries[follower].after_count--;
    (void)task;
}

static struct tasks_list *ready_list(struct tasks *tasks, uint32_t task)
{
    return tasks->entries[task].is_aside ? &tasks->aside : &tasks->ready;
}

static void make_ready(struct tasks *tasks, uint32_t task)
{
    tasks->entries[task].state = TASKS_READY;
    push(tasks, ready_list(tasks, task), task);
}

void tasks_set_aside(struct tasks *tasks, uint32_t task)
{
    INVARIANT(!tasks->entries[task].is_released);
    tasks->entries[task].is_aside = true;
}

void tasks_release(struct tasks *tasks, uint32_t task)
{
    tasks->entries[task].is_released = true;
    if (tasks->entries[task].after_count == 0)
        make_ready(tasks, task);
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
        uint32_t number = drop_edge(tasks, entry);
        struct tasks_entry *follower = &tasks->entries[number];
        follower->is_doomed = follower->is_doomed || status != MUSTER_OK;
        if (--follower->after_count == 0)
            make_ready(tasks, number);
    }
    push(tasks, &tasks->spare, task);
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

const char *tasks_check(const struct tasks *tasks)
{
    uint32_t open = 0, ready = 0, edges = 0, listed = 0, waits = 0;
    for (uint32_t i = 0; i < tasks->capacity; i++) {
        const struct tasks_entry *entry = &tasks->entries[i];
        bool is_open = entry->state != TASKS_FREE && entry->state != TASKS_ENDED;
        open += is_open;
        ready += entry->state == TASKS_READY;
        waits += is_open ? entry->after_count : 0;
        for (uint32_t e = is_open ? entry->first_follower : TASKS_NONE; e != TASKS_NONE;
             e = tasks->edges[e].next)
            if (++edges > tasks->edge_capacity)
                return "a list of followers runs in a circle";
        if (entry->state == TASKS_READY && entry->after_count > 0)
            return "a ready task waits for another";
    }
    for (int aside = 0; aside < 2; aside++) {
        const struct tasks_list *list = aside ? &tasks->aside : &tasks->ready;
        for (uint32_t i = list->count > 0 ? list->head : TASKS_NONE; i != TASKS_NONE;
             i = tasks->entries[i].next)
            if (tasks->entries[i].state != TASKS_READY || tasks->entries[i].is_aside != aside ||
                ++listed > tasks->capacity)
                return "a list of ready tasks holds another";
    }
    if (open != tasks->open_count || ready != tasks->ready.count + tasks->aside.count ||
        listed != ready)
        return "open or ready tasks are miscounted";
    if (edges + tasks->free_edge_count != tasks->edge_capacity || edges != waits)
        return "edges are lost, or tasks wait for nobody";
    if (tasks->spare.count + tasks->open_count != tasks->capacity)
        return "places are lost";
    return NULL;
}
