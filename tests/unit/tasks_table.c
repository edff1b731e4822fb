/*
 * The table of tasks against a plain model of it (tasks_model.h): random walks over all of its steps,
 * in any order that the header allows. Tasks that are not released yet stay so over many steps, so
 * others are taken, end and come back between any two steps of a submission.
 */
#include "base/random.h"
#include "tasks_model.h"

#define CAPACITY CAPACITY_MAX
#define STEPS TEST_BY_SANITIZER(100000u, 100000u, 20000u)
#define BEFORES_MAX 6u

/* What a task follows, as its submitter knows it: by handle. */
static struct {
    uint32_t count, index[BEFORES_MAX], generation[BEFORES_MAX];
} drafts[CAPACITY];

/* A task for which the condition holds, at random; TASKS_NONE if there is none. */
static uint32_t some(struct random *random, bool (*is_right)(uint32_t task))
{
    uint32_t begin = (uint32_t)random_below(random, CAPACITY);
    for (uint32_t i = 0; i < CAPACITY; i++)
        if (is_right((begin + i) % CAPACITY))
            return (begin + i) % CAPACITY;
    return TASKS_NONE;
}

static bool is_open(uint32_t task)
{
    return model.tasks[task].state != TASKS_FREE && model.tasks[task].state != TASKS_ENDED;
}

static bool is_draft(uint32_t task)
{
    return is_open(task) && !model.tasks[task].is_released;
}

static bool is_known(uint32_t task)
{
    return model.tasks[task].state != TASKS_FREE && model.tasks[task].is_released;
}

static bool is_waiting(uint32_t task)
{
    return model.tasks[task].state == TASKS_WAITING;
}

static bool is_taken(uint32_t task)
{
    return model.tasks[task].state == TASKS_TAKEN;
}

static void random_add(struct random *random)
{
    uint32_t task = step_add();
    if (task == TASKS_NONE)
        return;
    drafts[task].count = 0;
    if (random_below(random, 4) == 0)
        step_set_aside(task);
}

static void random_follow(struct random *random)
{
    uint32_t task = some(random, is_draft), before = some(random, is_known);
    if (task == TASKS_NONE || before == TASKS_NONE || drafts[task].count == BEFORES_MAX)
        return;
    if (!step_follow(task, before))
        return;
    drafts[task].index[drafts[task].count] = before;
    drafts[task].generation[drafts[task].count++] = model.tasks[before].generation;
}

/* Whatever else has happened meanwhile, and in any order. */
static void random_unfollow(struct random *random, uint32_t task)
{
    uint32_t i = (uint32_t)random_below(random, drafts[task].count);
    uint32_t before = drafts[task].index[i], generation = drafts[task].generation[i];
    uint32_t last = --drafts[task].count;
    drafts[task].index[i] = drafts[task].index[last];
    drafts[task].generation[i] = drafts[task].generation[last];
    if (tasks_find(&table, before, generation) == MUSTER_OK)
        step_unfollow(task, before);
}

static bool can_be_withdrawn(uint32_t task)
{
    return is_open(task) && !is_taken(task) && model.tasks[task].followers.count == 0;
}

/* A task of a call that is refused: also one that was released, with all that it follows. */
static void random_withdraw(struct random *random)
{
    uint32_t task = some(random, random_below(random, 3) > 0 ? is_draft : can_be_withdrawn);
    if (task == TASKS_NONE)
        return;
    while (drafts[task].count > 0) {
        random_unfollow(random, task);
        if (is_draft(task))
            compare();
    }
    step_withdraw(task);
}

static void random_step(struct random *random)
{
    uint32_t task, out[4];
    switch (random_below(random, 20)) {
    case 0:
    case 1:
    case 2:
        random_add(random);
        break;
    case 3:
    case 4:
    case 5:
    case 6:
        random_follow(random);
        break;
    case 7:
        if ((task = some(random, is_draft)) != TASKS_NONE && drafts[task].count > 0)
            random_unfollow(random, task);
        break;
    case 8:
        random_withdraw(random);
        break;
    case 9:
    case 10:
    case 11:
        if ((task = some(random, is_draft)) != TASKS_NONE)
            step_release(task);
        break;
    case 12:
    case 13:
        step_take(random_below(random, 2), (uint32_t)random_below(random, 5), out);
        break;
    case 14:
        step_take_this((uint32_t)random_below(random, CAPACITY));
        break;
    case 15:
        if (random_below(random, 4) == 0 && (task = some(random, is_waiting)) != TASKS_NONE)
            step_doom(task);
        break;
    case 16:
        if ((task = some(random, is_taken)) != TASKS_NONE)
            step_put_back(task);
        break;
    default:
        if ((task = some(random, is_taken)) != TASKS_NONE)
            step_end(task, random_below(random, 6) == 0 ? MUSTER_E_FAILED : MUSTER_OK);
    }
}

/* By trying all tasks until none is added: who cannot be ready before that one has ended. */
static bool must_follow(uint32_t task, uint32_t before)
{
    bool is_after[CAPACITY] = { false };
    is_after[before] = is_open(before);
    for (bool has_grown = true; has_grown;) {
        has_grown = false;
        for (uint32_t i = 0; i < CAPACITY; i++)
            for (uint32_t k = 0; is_after[i] && k < model.tasks[i].followers.count; k++) {
                uint32_t follower = model.tasks[i].followers.at[k];
                has_grown |= !is_after[follower];
                is_after[follower] = true;
            }
    }
    return is_after[task];
}

static void check_some_order(struct random *random)
{
    uint32_t task = (uint32_t)random_below(random, CAPACITY);
    uint32_t before = (uint32_t)random_below(random, CAPACITY);
    if (model.tasks[task].state != TASKS_FREE && model.tasks[before].state != TASKS_FREE)
        CHECK_EQUAL(must_follow(task, before), tasks_must_follow(&table, task, before));
}

static void it_does_what_the_model_does(void)
{
    struct random random;
    random_init(&random, test_seed());
    for (unsigned round = 0; round < test_repetitions(3); round++) {
        uint32_t task, out[CAPACITY];
        static struct tasks_edge edges[2][EDGES_MAX];
        uint32_t edges_now = 0;
        model_init(CAPACITY, EDGES_MAX / 4);
        compare();
        for (unsigned i = 0; i < STEPS; i++) {
            random_step(&random);
            /* Now and then there is more room, in other memory. */
            if (model.edge_capacity < EDGES_MAX && random_below(&random, STEPS / 64) == 0) {
                uint32_t room = EDGES_MAX - model.edge_capacity;
                model.edge_capacity += 1 + (uint32_t)random_below(&random, room);
                edges_now ^= 1;
                memset(edges[edges_now], 0xa5, sizeof edges[edges_now]);
                tasks_move_edges(&table, edges[edges_now], model.edge_capacity);
                memset(edges[edges_now ^ 1], 0xa5, sizeof edges[0]);
            }
            check_some_order(&random);
            compare();
        }
        /* Whatever was submitted ends, once everything that is ready is run. */
        while ((task = some(&random, is_draft)) != TASKS_NONE)
            step_release(task);
        for (bool is_going_on = true; is_going_on;) {
            is_going_on = step_take(false, CAPACITY, out) + step_take(true, CAPACITY, out) > 0;
            while ((task = some(&random, is_taken)) != TASKS_NONE)
                step_end(task, MUSTER_OK);
            compare();
        }
        CHECK_EQUAL(0, table.open_count);
        CHECK_EQUAL(model.edge_capacity, table.free_edge_count);
    }
}

/* The smallest case: all that a new task follows so far ends before it is released. */
static void a_task_is_not_ready_before_it_is_released(void)
{
    model_init(CAPACITY, EDGES_MAX);
    uint32_t first = step_add(), second = step_add(), third = step_add(), out[CAPACITY];
    step_release(first);
    step_release(second);
    step_take(false, 2, out);
    step_follow(third, first);
    step_end(first, MUSTER_OK);
    compare();
    CHECK_EQUAL(0, step_take(false, 1, out));
    step_follow(third, second);
    step_release(third);
    compare();
    CHECK_EQUAL(0, step_take(false, 1, out));
    step_end(second, MUSTER_OK);
    compare();
    CHECK_EQUAL(1, step_take(false, CAPACITY, out));
    CHECK_EQUAL(third, out[0]);
}

/* One that was set aside and taken in one step is never among those that are ready, and ends as others do. */
static void a_new_task_is_taken_at_once(void)
{
    static max_align_t memory[16384];
    struct tasks tasks;
    uint32_t out[2];
    CHECK(tasks_bytes(4, 4) <= sizeof memory);
    tasks_init(&tasks, memory, 4, 4);
    uint32_t first = tasks_add(&tasks), second = tasks_add(&tasks);
    tasks_release_taken(&tasks, first);
    CHECK_EQUAL(TASKS_TAKEN, tasks.entries[first].state);
    CHECK_EQUAL(0, tasks_take_aside(&tasks, 2, out));
    CHECK(tasks_follow(&tasks, second, first));
    tasks_release(&tasks, second);
    CHECK_EQUAL(0, tasks_take(&tasks, 2, out));
    CHECK(!tasks_check(&tasks));
    tasks_put_back(&tasks, first);
    CHECK_EQUAL(1, tasks_take_aside(&tasks, 2, out));
    CHECK_EQUAL(first, out[0]);
    tasks_end(&tasks, first, MUSTER_OK);
    CHECK_EQUAL(1, tasks_take(&tasks, 2, out));
    tasks_end(&tasks, second, MUSTER_OK);
    CHECK_EQUAL(0, tasks.open_count);
    CHECK(!tasks_check(&tasks));
}

static void handles_are_told_apart(void)
{
    model_init(CAPACITY, EDGES_MAX);
    CHECK_STATUS(MUSTER_E_UNKNOWN, tasks_find(&table, 0, 0));
    CHECK_STATUS(MUSTER_E_UNKNOWN, tasks_find(&table, 0, 1));
    CHECK_STATUS(MUSTER_E_UNKNOWN, tasks_find(&table, CAPACITY, 1));
    uint32_t task = step_add();
    CHECK_STATUS(MUSTER_OK, tasks_find(&table, task, 1));
    CHECK_STATUS(MUSTER_E_UNKNOWN, tasks_find(&table, task, 2));
    step_withdraw(task);
    CHECK_STATUS(MUSTER_E_STALE, tasks_find(&table, task, 1));
    CHECK_EQUAL(task, step_add());
    CHECK_STATUS(MUSTER_E_STALE, tasks_find(&table, task, 1));
    CHECK_STATUS(MUSTER_OK, tasks_find(&table, task, 2));
    CHECK_STATUS(MUSTER_E_UNKNOWN, tasks_find(&table, task, 3));
    /* 0 is never a generation. */
    step_release(task);
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
    model_init(CAPACITY, EDGES_MAX);
    uint32_t first = step_add();
    step_release(first);
    step_take_this(first);
    step_end(first, MUSTER_E_FAILED);
    for (int round = 0; round < 10; round++) {
        uint32_t tasks[4];
        for (int i = 0; i < 4; i++)
            tasks[i] = step_add();
        for (int i = 4; i-- > 0;)
            step_withdraw(tasks[i]);
        compare();
    }
    CHECK_STATUS(MUSTER_OK, tasks_find(&table, first, 1));
    CHECK_STATUS(MUSTER_E_FAILED, table.entries[first].status);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(it_does_what_the_model_does),
                                         TEST(a_task_is_not_ready_before_it_is_released),
                                         TEST(a_new_task_is_taken_at_once),
                                         TEST(handles_are_told_apart),
                                         TEST(a_refused_call_forgets_no_more) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
