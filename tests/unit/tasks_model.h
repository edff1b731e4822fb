/*
 * A plain model of the table of tasks (core/tasks.h): each step is done in the table and in the
 * model, and then both are compared place by place. The model is written from the header: a task is
 * ready if it was released and follows nobody that has not ended. Lists are arrays, nothing is linked.
 */
#ifndef UNIT_TASKS_MODEL_H
#define UNIT_TASKS_MODEL_H

#include "core/tasks.h"
#include "harness.h"

#include <string.h>

#define CAPACITY_MAX 24u
#define EDGES_MAX 40u

struct model_list {
    uint32_t at[EDGES_MAX], count;
};

struct model_task {
    enum tasks_state state;
    uint32_t generation;
    muster_status status;
    bool is_doomed, is_released, is_aside;
    struct model_list followers; /* newest first */
};

static struct {
    uint32_t capacity, edge_capacity, edges;
    struct model_task tasks[CAPACITY_MAX];
    struct model_list spare, ready, aside;
} model;

static struct tasks table;
static _Alignas(64) unsigned char table_memory[4096];

static void list_append(struct model_list *list, uint32_t task)
{
    list->at[list->count++] = task;
}

static void list_prepend(struct model_list *list, uint32_t task)
{
    memmove(&list->at[1], &list->at[0], list->count++ * sizeof list->at[0]);
    list->at[0] = task;
}

/* Takes the first entry that is this task out of the list; false if there is none. */
static bool list_drop(struct model_list *list, uint32_t task)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->at[i] == task) {
            memmove(&list->at[i], &list->at[i + 1], (--list->count - i) * sizeof list->at[0]);
            return true;
        }
    return false;
}

/* How many tasks that have not ended this one follows. */
static uint32_t befores_of(uint32_t task)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < model.capacity; i++)
        for (uint32_t k = 0; k < model.tasks[i].followers.count; k++)
            count += model.tasks[i].followers.at[k] == task;
    return count;
}

static void model_init(uint32_t capacity, uint32_t edge_capacity)
{
    CHECK(tasks_bytes(capacity, edge_capacity) <= sizeof table_memory);
    memset(table_memory, 0xa5, sizeof table_memory);
    memset(&table, 0, sizeof table);
    tasks_init(&table, table_memory, capacity, edge_capacity);
    memset(&model, 0, sizeof model);
    model.capacity = capacity;
    model.edge_capacity = edge_capacity;
    for (uint32_t i = 0; i < capacity; i++)
        list_append(&model.spare, i);
}

static void compare_list(const struct model_list *expected, const struct tasks_list *list)
{
    CHECK_EQUAL(expected->count, list->count);
    uint32_t at = list->head;
    for (uint32_t i = 0; i < expected->count; i++, at = table.entries[at].next)
        CHECK_EQUAL(expected->at[i], at);
}

static void compare(void)
{
    const char *wrong = tasks_check(&table);
    if (wrong)
        test_fail(__FILE__, __LINE__, "%s", wrong);
    uint32_t befores[CAPACITY_MAX] = { 0 };
    for (uint32_t i = 0; i < model.capacity; i++)
        for (uint32_t k = 0; k < model.tasks[i].followers.count; k++)
            befores[model.tasks[i].followers.at[k]]++;
    for (uint32_t i = 0; i < model.capacity; i++) {
        const struct tasks_entry *entry = &table.entries[i];
        const struct model_task *task = &model.tasks[i];
        CHECK_EQUAL(task->state, entry->state);
        CHECK_EQUAL(task->generation, entry->generation);
        if (entry->state == TASKS_FREE)
            continue;
        CHECK_EQUAL(befores[i], entry->after_count);
        CHECK_EQUAL(task->is_doomed, entry->is_doomed);
        CHECK_EQUAL(task->is_released, entry->is_released);
        CHECK_EQUAL(task->is_aside, entry->is_aside);
        CHECK_STATUS(task->status, entry->status);
    }
    CHECK_EQUAL(model.edge_capacity - model.edges, table.free_edge_count);
    CHECK_EQUAL(model.capacity - model.spare.count, table.open_count);
    compare_list(&model.ready, &table.ready[TASKS_PRIORITY_USUAL]);
    compare_list(&model.aside, &table.aside);
    compare_list(&model.spare, &table.spare);
}

static struct model_list *ready_list_of(uint32_t task)
{
    return model.tasks[task].is_aside ? &model.aside : &model.ready;
}

static void get_ready(uint32_t task)
{
    if (model.tasks[task].is_released && befores_of(task) == 0) {
        model.tasks[task].state = TASKS_READY;
        list_append(ready_list_of(task), task);
    }
}

static uint32_t step_add(void)
{
    uint32_t expected = model.spare.count > 0 ? model.spare.at[0] : TASKS_NONE;
    uint32_t task = tasks_add(&table);
    CHECK_EQUAL(expected, task);
    if (task != TASKS_NONE) {
        list_drop(&model.spare, task);
        model.tasks[task] = (struct model_task){ .state = TASKS_WAITING,
                                                 .generation = model.tasks[task].generation + 1 };
    }
    return task;
}

static void step_set_aside(uint32_t task)
{
    tasks_set_aside(&table, task);
    model.tasks[task].is_aside = true;
}

static bool step_follow(uint32_t task, uint32_t before)
{
    struct model_task *other = &model.tasks[before];
    bool is_over = other->state == TASKS_ENDED, fits = is_over || model.edges < model.edge_capacity;
    CHECK_EQUAL(fits, tasks_follow(&table, task, before));
    if (is_over) {
        model.tasks[task].is_doomed |= other->status != MUSTER_OK;
    } else if (fits) {
        list_prepend(&other->followers, task);
        model.edges++;
    }
    return fits;
}

static void step_unfollow(uint32_t task, uint32_t before)
{
    tasks_unfollow(&table, task, before);
    if (list_drop(&model.tasks[before].followers, task))
        model.edges--;
}

static void step_release(uint32_t task)
{
    tasks_release(&table, task);
    model.tasks[task].is_released = true;
    get_ready(task);
}

static void step_withdraw(uint32_t task)
{
    tasks_withdraw(&table, task);
    if (model.tasks[task].state == TASKS_READY)
        list_drop(ready_list_of(task), task);
    model.tasks[task].state = TASKS_FREE;
    list_prepend(&model.spare, task);
}

static uint32_t step_take(bool is_aside, uint32_t most, uint32_t *out)
{
    struct model_list *list = is_aside ? &model.aside : &model.ready;
    uint32_t expected = most < list->count ? most : list->count;
    CHECK_EQUAL(expected, (is_aside ? tasks_take_aside : tasks_take)(&table, most, out));
    for (uint32_t i = 0; i < expected; i++) {
        CHECK_EQUAL(list->at[0], out[i]);
        list_drop(list, out[i]);
        model.tasks[out[i]].state = TASKS_TAKEN;
    }
    return expected;
}

static void step_take_this(uint32_t task)
{
    bool is_ready = model.tasks[task].state == TASKS_READY;
    CHECK_EQUAL(is_ready, tasks_take_this(&table, task));
    if (is_ready) {
        list_drop(ready_list_of(task), task);
        model.tasks[task].state = TASKS_TAKEN;
    }
}

static void step_put_back(uint32_t task)
{
    tasks_put_back(&table, task);
    model.tasks[task].state = TASKS_READY;
    list_prepend(ready_list_of(task), task);
}

static void step_doom(uint32_t task)
{
    tasks_doom(&table, task);
    model.tasks[task].is_doomed = true;
}

static void step_end(uint32_t task, muster_status status)
{
    struct model_task *it = &model.tasks[task];
    tasks_end(&table, task, status);
    it->state = TASKS_ENDED;
    it->status = status;
    while (it->followers.count > 0) {
        uint32_t follower = it->followers.at[0];
        list_drop(&it->followers, follower);
        model.edges--;
        model.tasks[follower].is_doomed |= status != MUSTER_OK;
        get_ready(follower);
    }
    list_append(&model.spare, task);
}

#endif
