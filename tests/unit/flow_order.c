/*
 * The order of tasks from what they use, against a model that compares sets of bytes: a task is ready
 * exactly when every earlier task that it conflicts with has ended.
 */
#include "flow_model.h"
#include "support.h"

#define TASKS 64u
#define USES_MAX 4u
#define PARTS 14u

struct model_task {
    uint32_t count, index;
    struct flow_access accesses[USES_MAX];
    uint64_t sets[USES_MAX];
    uint32_t data[USES_MAX];
    bool has_ended, is_open, must_be_blamed, fails;
};

static struct {
    uint32_t part, data;
    uint64_t set;
} parts[2 * PARTS];
static uint32_t part_count;

static bool in_conflict(const struct model_task *a, const struct model_task *b)
{
    for (uint32_t i = 0; i < a->count; i++)
        for (uint32_t k = 0; k < b->count; k++) {
            if (a->data[i] != b->data[k] || !(a->sets[i] & b->sets[k]))
                continue;
            uint32_t x = a->accesses[i].mode, y = b->accesses[k].mode;
            bool together =
                x == y && (x == FLOW_READ ||
                           (x == FLOW_COMMUTE && a->accesses[i].part == b->accesses[k].part));
            if (!together)
                return true;
        }
    return false;
}

static void make_parts(struct bench_flow *bench, struct random *random, bool disjoint)
{
    part_count = 0;
    for (uint32_t d = 0; d < 2; d++) {
        uint32_t data = flow_data_add(bench->flow, MODEL_BYTES, true);
        struct shape shape = { .rows = 1, .row_bytes = MODEL_BYTES };
        parts[part_count].part = flow_data_whole(bench->flow, data);
        parts[part_count].data = data;
        parts[part_count++].set = model_set(&shape);
        for (uint32_t i = 1; i < PARTS; i++) {
            struct shape tile = { .offset = (i - 1) * 4, .rows = 1, .row_bytes = 4 };
            shape = disjoint ? tile : random_shape(random);
            CHECK_EQUAL(FLOW_PART_OK,
                        flow_part_add(bench->flow, data, &shape, &parts[part_count].part));
            parts[part_count].data = data;
            parts[part_count++].set = model_set(&shape);
        }
    }
    CHECK(flow_check(bench->flow) == NULL);
}

static void draw(struct model_task *task, struct random *random)
{
    static const uint32_t modes[] = { FLOW_READ, FLOW_READ, FLOW_WRITE, FLOW_READ_WRITE,
                                      FLOW_COMMUTE };
    *task = (struct model_task){ .is_open = true };
    uint32_t count = 1 + (uint32_t)random_below(random, USES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = (uint32_t)random_below(random, part_count);
        task->accesses[i] = (struct flow_access){ parts[at].part, modes[random_below(random, 5)] };
    }
    task->count = flow_merge(task->accesses, count);
    for (uint32_t i = 0; i < task->count; i++)
        for (uint32_t p = 0; p < part_count; p++)
            if (parts[p].part == task->accesses[i].part) {
                task->sets[i] = parts[p].set;
                task->data[i] = parts[p].data;
            }
}

/* Whether the table says of each open task what the model says. */
static void compare(struct bench_flow *bench, struct model_task *tasks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        bool waits = false;
        for (uint32_t k = 0; k < i && !tasks[i].has_ended; k++)
            waits |= !tasks[k].has_ended && in_conflict(&tasks[k], &tasks[i]);
        if (!tasks[i].has_ended)
            CHECK_EQUAL(waits ? TASKS_WAITING : TASKS_READY,
                        bench->tasks.entries[tasks[i].index].state);
    }
}

static void end_some(struct bench_flow *bench, struct model_task *tasks, uint32_t count,
                     struct random *random)
{
    uint32_t begin = (uint32_t)random_below(random, count);
    for (uint32_t i = 0; i < count; i++) {
        struct model_task *task = &tasks[(begin + i) % count];
        if (task->has_ended || !tasks_take_this(&bench->tasks, task->index))
            continue;
        flow_ended(bench->flow, task->index, FLOW_HOME, MUSTER_OK, NULL);
        tasks_end(&bench->tasks, task->index, MUSTER_OK);
        task->has_ended = true;
        return;
    }
}

static void walk_orders(bool disjoint)
{
    for (uint32_t round = 0; round < TEST_BY_SANITIZER(400u, 100u, 40u); round++) {
        struct bench_flow bench;
        struct random random;
        struct flow_sizes sizes = model_sizes(TASKS, 1);
        static struct model_task tasks[TASKS];
        random_init(&random, test_seed() * 1000 + round);
        bench_open(&bench, &sizes, 4096);
        make_parts(&bench, &random, disjoint);
        for (uint32_t i = 0; i < TASKS; i++) {
            draw(&tasks[i], &random);
            tasks[i].index = bench_submit(&bench, i, tasks[i].accesses, tasks[i].count);
            if (random_below(&random, 4) == 0)
                end_some(&bench, tasks, i + 1, &random);
            compare(&bench, tasks, i + 1);
        }
        CHECK(flow_check(bench.flow) == NULL);
        for (uint32_t i = 0; i < TASKS; i++) {
            end_some(&bench, tasks, TASKS, &random);
            compare(&bench, tasks, TASKS);
        }
        CHECK_EQUAL(0, bench.tasks.open_count);
        CHECK(flow_check(bench.flow) == NULL);
        bench_close(&bench);
    }
}

static void tasks_are_ready_exactly_when_those_they_conflict_with_have_ended(void)
{
    walk_orders(false);
}

static void tiles_that_do_not_overlap_are_ordered_with_the_whole(void)
{
    walk_orders(true);
}

static void shapes_overlap_and_contain_as_their_bytes_do(void)
{
    struct random random;
    random_init(&random, test_seed());
    for (uint32_t i = 0; i < TEST_BY_SANITIZER(300000u, 100000u, 50000u); i++) {
        struct shape a = random_shape(&random), b = random_shape(&random);
        struct shape x = shape_normal(a), y = shape_normal(b);
        uint64_t sa = model_set(&a), sb = model_set(&b);
        CHECK_EQUAL(sa, model_set(&x));
        CHECK_EQUAL((sa & sb) != 0, shape_overlaps(&x, &y));
        CHECK_EQUAL((sa & sb) == sb, shape_contains(&x, &y));
        CHECK_EQUAL(sa == sb, shape_equals(&x, &y));
    }
}

static void shapes_beyond_the_data_are_refused(void)
{
    static const struct shape wrong[] = {
        { .offset = 60, .rows = 1, .row_bytes = 1 },
        { .offset = 0, .rows = 1, .row_bytes = 61 },
        { .offset = 0, .rows = 0, .row_bytes = 1 },
        { .offset = 0, .rows = 1, .row_bytes = 0 },
        { .offset = 0, .rows = 2, .row_bytes = 10, .pitch = 9 },
        { .offset = 0, .rows = 7, .row_bytes = 10, .pitch = 10 },
        { .offset = 0, .rows = 2, .row_bytes = 1, .pitch = UINT64_MAX },
        { .offset = UINT64_MAX, .rows = 1, .row_bytes = 2 },
        { .offset = 0, .rows = UINT64_MAX, .row_bytes = 1, .pitch = UINT64_C(1) << 40 },
    };
    struct shape right = { .offset = 0, .rows = 6, .row_bytes = 10, .pitch = 10 };
    for (uint32_t i = 0; i < COUNT_OF(wrong); i++)
        CHECK(!shape_is_within(&wrong[i], 60));
    CHECK(shape_is_within(&right, 60));
}

/* A part is found again, by all who name the same bytes, until the last has let it go. */
static void parts_of_the_same_bytes_are_one(void)
{
    struct bench_flow bench;
    struct flow_sizes sizes = model_sizes(8, 1);
    bench_open(&bench, &sizes, 64);
    uint32_t data = flow_data_add(bench.flow, 60, true), a, b, c, d;
    struct shape rows = { .offset = 0, .rows = 3, .row_bytes = 20, .pitch = 20 };
    struct shape range = { .offset = 0, .rows = 1, .row_bytes = 60 };
    struct shape half = { .offset = 10, .rows = 2, .row_bytes = 5, .pitch = 10 };
    CHECK_EQUAL(FLOW_PART_OK, flow_part_add(bench.flow, data, &rows, &a));
    CHECK_EQUAL(flow_data_whole(bench.flow, data), a);
    CHECK_EQUAL(FLOW_PART_OK, flow_part_add(bench.flow, data, &range, &b));
    CHECK_EQUAL(a, b);
    CHECK_EQUAL(FLOW_PART_OK, flow_part_add(bench.flow, data, &half, &c));
    CHECK_EQUAL(FLOW_PART_OK, flow_part_add(bench.flow, data, &half, &d));
    CHECK_EQUAL(c, d);
    flow_part_remove(bench.flow, c);
    CHECK(flow_check(bench.flow) == NULL);
    flow_part_remove(bench.flow, d);
    CHECK(flow_check(bench.flow) == NULL);
    flow_part_remove(bench.flow, a);
    CHECK_EQUAL(FLOW_PART_OUTSIDE,
                flow_part_add(bench.flow, data, &(struct shape){ 60, 1, 1, 0 }, &a));
    flow_data_remove(bench.flow, data);
    CHECK(flow_check(bench.flow) == NULL);
    bench_close(&bench);
}

/* Many parts come and go: those that overlap are linked, and no others. */
static void parts_know_whom_they_overlap(void)
{
    struct bench_flow bench;
    struct random random;
    struct flow_sizes sizes = model_sizes(8, 1);
    uint32_t held[100], count = 0;
    random_init(&random, test_seed());
    bench_open(&bench, &sizes, 64);
    uint32_t data = flow_data_add(bench.flow, MODEL_BYTES, true);
    for (uint32_t i = 0; i < TEST_BY_SANITIZER(3000u, 1000u, 300u); i++) {
        if (count < COUNT_OF(held) && random_below(&random, 5) < 3) {
            struct shape shape = random_shape(&random);
            enum flow_part_result result = flow_part_add(bench.flow, data, &shape, &held[count]);
            CHECK(result == FLOW_PART_OK || result == FLOW_PART_NO_OVERLAPS);
            count += result == FLOW_PART_OK;
        } else if (count > 0) {
            uint32_t at = (uint32_t)random_below(&random, count);
            flow_part_remove(bench.flow, held[at]);
            held[at] = held[--count];
        }
        const char *wrong = i % 10 == 0 ? flow_check(bench.flow) : NULL;
        if (wrong)
            test_fail(__FILE__, __LINE__, "%s", wrong);
    }
    flow_data_remove(bench.flow, data);
    bench_close(&bench);
}

/* Nothing has changed when there is no room, and the same call succeeds after a move. */
static void room_is_asked_for_before_anything_changes(void)
{
    struct bench_flow bench;
    struct flow_sizes sizes = { .tasks = 8, .places = 1, .uses = 2, .data = 1, .parts = 1 };
    bench_open(&bench, &sizes, 1);
    uint32_t data = flow_data_add(bench.flow, 8, true), part = flow_data_whole(bench.flow, data);
    CHECK_EQUAL(FLOW_NONE, flow_data_add(bench.flow, 8, true));
    struct flow_access write = { part, FLOW_WRITE };
    uint32_t a = bench_submit(&bench, 1, &write, 1), b = bench_submit(&bench, 2, &write, 1);
    uint32_t c = tasks_add(&bench.tasks);
    CHECK_EQUAL(FLOW_NO_USES, flow_order(bench.flow, c, 3, &write, 1));
    sizes.uses = 8;
    sizes.data = 2;
    sizes.parts = 3;
    void *larger = aligned_alloc(64, flow_bytes(&sizes));
    bench.flow = flow_move(larger, bench.flow, &sizes);
    free(bench.flow_memory);
    bench.flow_memory = larger;
    CHECK_EQUAL(FLOW_NO_EDGES, flow_order(bench.flow, c, 3, &write, 1));
    CHECK_EQUAL(1, flow_edges_most(bench.flow, &write, 1));
    struct tasks_edge edges[8];
    tasks_move_edges(&bench.tasks, edges, 8);
    CHECK_EQUAL(FLOW_ORDERED, flow_order(bench.flow, c, 3, &write, 1));
    tasks_release(&bench.tasks, c);
    uint32_t order[] = { a, b, c };
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t task;
        CHECK_EQUAL(1, tasks_take(&bench.tasks, 8, &task));
        CHECK_EQUAL(order[i], task);
        flow_ended(bench.flow, task, FLOW_HOME, MUSTER_OK, NULL);
        tasks_end(&bench.tasks, task, MUSTER_OK);
    }
    CHECK(flow_data_add(bench.flow, 8, false) != FLOW_NONE);
    CHECK(flow_check(bench.flow) == NULL);
    bench_close(&bench);
}

/* What is withdrawn leaves nothing: those after it wait for those before it. */
static void a_task_that_is_withdrawn_leaves_the_order_as_it_was(void)
{
    struct bench_flow bench;
    struct flow_sizes sizes = model_sizes(8, 1);
    bench_open(&bench, &sizes, 64);
    uint32_t part = flow_data_whole(bench.flow, flow_data_add(bench.flow, 8, true));
    struct flow_access write = { part, FLOW_WRITE }, read = { part, FLOW_READ };
    uint32_t a = bench_submit(&bench, 1, &write, 1), b = bench_submit(&bench, 2, &read, 1);
    uint32_t c = tasks_add(&bench.tasks);
    CHECK_EQUAL(FLOW_ORDERED, flow_order(bench.flow, c, 3, &write, 1));
    flow_unorder(bench.flow, c);
    tasks_unfollow(&bench.tasks, c, b);
    tasks_withdraw(&bench.tasks, c);
    uint32_t d = bench_submit(&bench, 4, &read, 1);
    CHECK_EQUAL(TASKS_WAITING, bench.tasks.entries[d].state);
    tasks_take_this(&bench.tasks, a);
    flow_ended(bench.flow, a, FLOW_HOME, MUSTER_OK, NULL);
    tasks_end(&bench.tasks, a, MUSTER_OK);
    CHECK_EQUAL(TASKS_READY, bench.tasks.entries[b].state);
    bench_close(&bench);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(shapes_overlap_and_contain_as_their_bytes_do),
        TEST(shapes_beyond_the_data_are_refused),
        TEST(parts_of_the_same_bytes_are_one),
        TEST(parts_know_whom_they_overlap),
        TEST(tasks_are_ready_exactly_when_those_they_conflict_with_have_ended),
        TEST(tiles_that_do_not_overlap_are_ordered_with_the_whole),
        TEST(room_is_asked_for_before_anything_changes),
        TEST(a_task_that_is_withdrawn_leaves_the_order_as_it_was),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
