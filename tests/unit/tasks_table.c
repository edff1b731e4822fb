/*
 * The table of tasks against a plain model of it: random operations, the table checked after each,
 * and what is in it compared place by place.
 */
#include "base/random.h"
#include "core/tasks.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#define CAPACITY 24u
#define EDGES 40u
#define STEPS 300000u

static struct tasks table;
static _Alignas(64) unsigned char memory[65536];

struct model_list {
    uint32_t at[CAPACITY], count;
};

/* Orders are counted in a matrix and lists are arrays: nothing here is linked. */
static struct {
    enum tasks_state states[CAPACITY];
    uint32_t generations[CAPACITY];
    muster_status statuses[CAPACITY];
    bool doomed[CAPACITY], released[CAPACITY];
    uint32_t before[CAPACITY][CAPACITY]; /* [task][the one it follows] */
    struct model_list spare, ready;
    uint32_t edges;
} model;

static void append(struct model_list *list, uint32_t task)
{
    list->at[list->count++] = task;
}

static void prepend(struct model_list *list, uint32_t task)
{
    memmove(&list->at[1], &list->at[0], list->count++ * sizeof list->at[0]);
    list->at[0] = task;
}

static void drop(struct model_list *list, uint32_t task)
{
    uint32_t i = 0;
    while (list->at[i] != task)
        i++;
    memmove(&list->at[i], &list->at[i + 1], (--list->count - i) * sizeof list->at[0]);
}

static uint32_t befores_of(uint32_t task)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < CAPACITY; i++)
        count += model.before[task][i];
    return count;
}

static void model_init(void)
{
    CHECK(tasks_bytes(CAPACITY, EDGES) <= sizeof memory);
    memset(memory, 0xa5, sizeof memory);
    tasks_init(&table, memory, CAPACITY, EDGES);
    memset(&model, 0, sizeof model);
    for (uint32_t i = 0; i < CAPACITY; i++)
        append(&model.spare, i);
}

static void compare(void)
{
    const char *wrong = tasks_check(&table);
    if (wrong)
        test_fail(__FILE__, __LINE__, "%s", wrong);
    for (uint32_t i = 0; i < CAPACITY; i++) {
        const struct tasks_entry *entry = &table.entries[i];
        CHECK_EQUAL(model.states[i], entry->state);
        CHECK_EQUAL(model.generations[i], entry->generation);
        if (entry->state == TASKS_FREE)
            continue;
        CHECK_EQUAL(befores_of(i), entry->after_count);
        CHECK_EQUAL(model.doomed[i], entry->is_doomed);
        CHECK_EQUAL(model.released[i], entry->is_released);
        CHECK_STATUS(model.statuses[i], entry->status);
    }
    CHECK_EQUAL(EDGES - model.edges, table.free_edge_count);
    CHECK_EQUAL(CAPACITY - model.spare.count, table.open_count);
    uint32_t at = table.ready.head;
    CHECK_EQUAL(model.ready.count, table.ready.count);
    for (uint32_t i = 0; i < model.ready.count; i++, at = table.entries[at].next)
        CHECK_EQUAL(model.ready.at[i], at);
    at = table.spare.head;
    for (uint32_t i = 0; i < model.spare.count; i++, at = table.entries[at].next)
        CHECK_EQUAL(model.spare.at[i], at);
}

static uint32_t add(void)
{
    uint32_t expected = model.spare.count > 0 ? model.spare.at[0] : TASKS_NONE;
    uint32_t task = tasks_add(&table);
    CHECK_EQUAL(expected, task);
    if (task != TASKS_NONE) {
        drop(&model.spare, task);
        model.states[task] = TASKS_WAITING;
        model.generations[task]++;
        model.statuses[task] = MUSTER_OK;
        model.doomed[task] = model.released[task] = false;
    }
    return task;
}

static bool follow(uint32_t task, uint32_t before)
{
    bool is_over = model.states[before] == TASKS_ENDED, fits = is_over || model.edges < EDGES;
    CHECK_EQUAL(fits, tasks_follow(&table, task, before));
    if (is_over) {
        model.doomed[task] = model.doomed[task] || model.statuses[before] != MUSTER_OK;
    } else if (fits) {
        model.before[task][before]++;
        model.edges++;
    }
    return fits;
}

static void unfollow(uint32_t task, uint32_t before)
{
    tasks_unfollow(&table, task, before);
    if (model.states[before] != TASKS_ENDED) {
        model.before[task][before]--;
        model.edges--;
    }
}

static void release(uint32_t task)
{
    tasks_release(&table, task);
    model.released[task] = true;
    if (befores_of(task) == 0) {
        model.states[task] = TASKS_READY;
        append(&model.ready, task);
    }
}

static void withdraw(uint32_t task)
{
    tasks_withdraw(&table, task);
    if (model.states[task] == TASKS_READY)
        drop(&model.ready, task);
    model.states[task] = TASKS_FREE;
    prepend(&model.spare, task);
}

static void end(uint32_t task, muster_status status)
{
    /* Followers that were added last become ready first; the table's order is the one to copy. */
    uint32_t order[EDGES], count = 0;
    for (uint32_t e = table.entries[task].first_follower; e != TASKS_NONE; e = table.edges[e].next)
        order[count++] = table.edges[e].follower;
    tasks_end(&table, task, status);
    model.states[task] = TASKS_ENDED;
    model.statuses[task] = status;
    for (uint32_t i = 0; i < count; i++) {
        CHECK(model.before[order[i]][task] > 0);
        model.before[order[i]][task]--;
        model.edges--;
        model.doomed[order[i]] = model.doomed[order[i]] || status != MUSTER_OK;
        if (befores_of(order[i]) == 0) {
            model.states[order[i]] = TASKS_READY;
            append(&model.ready, order[i]);
        }
    }
    for (uint32_t i = 0; i < CAPACITY; i++)
        CHECK_EQUAL(0, model.before[i][task]);
    append(&model.spare, task);
}

static void put_back(uint32_t task)
{
    tasks_put_back(&table, task);
    model.states[task] = TASKS_READY;
    prepend(&model.ready, task);
}

/* A place in this state, at random; TASKS_NONE if there is none. */
static uint32_t some(struct random *random, enum tasks_state state)
{
    uint32_t begin = (uint32_t)random_below(random, CAPACITY);
    for (uint32_t i = 0; i < CAPACITY; i++)
        if (model.states[(begin + i) % CAPACITY] == state)
            return (begin + i) % CAPACITY;
    return TASKS_NONE;
}

/* A call of up to four tasks, each after some others; it may be taken back half way. */
static void random_call(struct random *random)
{
    uint32_t tasks[4], befores[4][3], counts[4] = { 0 };
    uint32_t count = 1 + (uint32_t)random_below(random, 4);
    bool fits = true, is_refused = random_below(random, 5) == 0;
    for (uint32_t i = 0; i < count; i++)
        if ((tasks[i] = add()) == TASKS_NONE)
            count = i;
    for (uint32_t i = 0; i < count && fits; i++) {
        uint32_t wanted = (uint32_t)random_below(random, 4);
        while (counts[i] < wanted && fits) {
            uint32_t before = (uint32_t)random_below(random, CAPACITY);
            if (model.states[before] == TASKS_FREE || !model.released[before])
                break;
            fits = follow(tasks[i], before);
            befores[i][counts[i]] = before;
            counts[i] += fits;
        }
        if (fits)
            release(tasks[i]);
        compare();
    }
    if (fits && !is_refused)
        return;
    for (uint32_t i = count; i-- > 0;) {
        while (counts[i] > 0)
            unfollow(tasks[i], befores[i][--counts[i]]);
        withdraw(tasks[i]);
        compare();
    }
}

static void random_take(struct random *random)
{
    uint32_t most = (uint32_t)random_below(random, 5), out[5];
    uint32_t expected = most < model.ready.count ? most : model.ready.count;
    CHECK_EQUAL(expected, tasks_take(&table, most, out));
    for (uint32_t i = 0; i < expected; i++) {
        CHECK_EQUAL(model.ready.at[0], out[i]);
        drop(&model.ready, out[i]);
        model.states[out[i]] = TASKS_TAKEN;
    }
}

static void take_this(uint32_t task)
{
    bool is_ready = model.states[task] == TASKS_READY;
    CHECK_EQUAL(is_ready, tasks_take_this(&table, task));
    if (is_ready) {
        drop(&model.ready, task);
        model.states[task] = TASKS_TAKEN;
    }
}

static void random_step(struct random *random)
{
    uint32_t task;
    switch (random_below(random, 8)) {
    case 0:
    case 1:
        random_call(random);
        break;
    case 2:
        random_take(random);
        break;
    case 3:
        take_this((uint32_t)random_below(random, CAPACITY));
        break;
    case 4:
        if ((task = some(random, TASKS_WAITING)) != TASKS_NONE) {
            tasks_doom(&table, task);
            model.doomed[task] = true;
        }
        break;
    case 5:
        if ((task = some(random, TASKS_TAKEN)) != TASKS_NONE)
            put_back(task);
        break;
    default:
        if ((task = some(random, TASKS_TAKEN)) != TASKS_NONE)
            end(task, random_below(random, 6) == 0 ? MUSTER_E_FAILED : MUSTER_OK);
    }
}

static void it_does_what_the_model_does(void)
{
    struct random random;
    random_init(&random, test_seed());
    for (unsigned round = 0; round < test_repetitions(3); round++) {
        model_init();
        compare();
        for (unsigned i = 0; i < STEPS / 3; i++) {
            random_step(&random);
            compare();
        }
        /* Whatever was submitted ends, once everything that is ready is run. */
        uint32_t task;
        while ((task = some(&random, TASKS_TAKEN)) != TASKS_NONE || model.ready.count > 0) {
            if (task != TASKS_NONE)
                end(task, MUSTER_OK);
            else
                random_take(&random);
            compare();
        }
        CHECK_EQUAL(0, table.open_count);
        CHECK_EQUAL(EDGES, table.free_edge_count);
    }
}

static void handles_are_told_apart(void)
{
    model_init();
    CHECK_STATUS(MUSTER_E_UNKNOWN, tasks_find(&table, 0, 0));
    CHECK_STATUS(MUSTER_E_UNKNOWN, tasks_find(&table, 0, 1));
    CHECK_STATUS(MUSTER_E_UNKNOWN, tasks_find(&table, CAPACITY, 1));
    uint32_t task = add();
    CHECK_STATUS(MUSTER_OK, tasks_find(&table, task, 1));
    CHECK_STATUS(MUSTER_E_UNKNOWN, tasks_find(&table, task, 2));
    withdraw(task);
    CHECK_STATUS(MUSTER_E_STALE, tasks_find(&table, task, 1));
    CHECK_EQUAL(task, add());
    CHECK_STATUS(MUSTER_E_STALE, tasks_find(&table, task, 1));
    CHECK_STATUS(MUSTER_OK, tasks_find(&table, task, 2));
    CHECK_STATUS(MUSTER_E_UNKNOWN, tasks_find(&table, task, 3));
    /* 0 is never a generation. */
    release(task);
    CHECK(tasks_take_this(&table, task));
    tasks_end(&table, task, MUSTER_OK);
    table.entries[task].generation = UINT32_MAX;
    for (uint32_t i = 1; i < CAPACITY; i++)
        tasks_add(&table);
    CHECK_EQUAL(task, tasks_add(&table));
    CHECK_STATUS(MUSTER_OK, tasks_find(&table, task, 1));
}

/* However often something is refused, no more is forgotten than the first time. */
static void a_refused_call_forgets_no_more(void)
{
    model_init();
    uint32_t first = add();
    release(first);
    take_this(first);
    end(first, MUSTER_E_FAILED);
    for (int round = 0; round < 10; round++) {
        uint32_t tasks[4];
        for (int i = 0; i < 4; i++)
            tasks[i] = add();
        for (int i = 4; i-- > 0;)
            withdraw(tasks[i]);
        compare();
    }
    CHECK_STATUS(MUSTER_OK, tasks_find(&table, first, 1));
    CHECK_STATUS(MUSTER_E_FAILED, table.entries[first].status);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(it_does_what_the_model_does),
                                         TEST(handles_are_told_apart),
                                         TEST(a_refused_call_forgets_no_more) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
