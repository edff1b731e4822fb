/* Failures that travel with data, turns to commute, reductions, and what is refused. */
#include "flow_model.h"
#include "support.h"

#define WRITES(part)                                                                               \
    {                                                                                              \
        (part), FLOW_WRITE                                                                         \
    }
#define READS(part)                                                                                \
    {                                                                                              \
        (part), FLOW_READ                                                                          \
    }
#define UPDATES(part)                                                                              \
    {                                                                                              \
        (part), FLOW_READ_WRITE                                                                    \
    }
#define COMMUTES(part)                                                                             \
    {                                                                                              \
        (part), FLOW_COMMUTE                                                                       \
    }

static struct bench_flow bench;
static uint32_t data, whole, left, right, inner;

static uint32_t part_of(uint64_t offset, uint64_t bytes)
{
    uint32_t part;
    struct shape shape = { .offset = offset, .rows = 1, .row_bytes = bytes };
    CHECK_EQUAL(FLOW_PART_OK, flow_part_add(bench.flow, data, &shape, &part));
    return part;
}

static void open_one(bool has_content)
{
    struct flow_sizes sizes = model_sizes(64, 1);
    bench_open(&bench, &sizes, 4096);
    data = flow_data_add(bench.flow, MODEL_BYTES, has_content);
    whole = flow_data_whole(bench.flow, data);
    left = part_of(0, 30);
    right = part_of(30, 30);
    inner = part_of(10, 10);
}

static uint32_t submit(uint64_t tag, struct flow_access access)
{
    return bench_submit(&bench, tag, &access, 1);
}

/* Runs the task, which must be ready, to this status; blamed ones end as cancelled. */
static bool run_to(uint32_t task, muster_status status, struct flow_cause *cause)
{
    CHECK(tasks_take_this(&bench.tasks, task));
    bool is_blamed = flow_blame(bench.flow, task, cause);
    if (is_blamed)
        status = MUSTER_E_CANCELLED;
    flow_ended(bench.flow, task, is_blamed ? FLOW_NONE : FLOW_HOME, status,
               is_blamed ? cause : NULL);
    tasks_end(&bench.tasks, task, status);
    CHECK(flow_check(bench.flow) == NULL);
    return !is_blamed;
}

static bool runs(uint32_t task)
{
    struct flow_cause cause;
    return run_to(task, MUSTER_OK, &cause);
}

static void who_reads_what_failed_is_cancelled_and_told_of_the_first(void)
{
    struct flow_cause cause;
    open_one(true);
    uint32_t other = flow_data_whole(bench.flow, flow_data_add(bench.flow, 8, true));
    run_to(submit(70, (struct flow_access)WRITES(left)), MUSTER_E_IO, &cause);
    struct flow_access both[] = { READS(inner), WRITES(other) };
    CHECK(!run_to(bench_submit(&bench, 71, both, 2), MUSTER_OK, &cause));
    CHECK_EQUAL(70, cause.tag);
    CHECK_EQUAL(MUSTER_E_IO, cause.status);
    CHECK_EQUAL(data, cause.data);
    /* What the cancelled one was to write names the first as well. */
    CHECK(!run_to(submit(72, (struct flow_access)READS(other)), MUSTER_OK, &cause));
    CHECK_EQUAL(70, cause.tag);
    CHECK(runs(submit(73, (struct flow_access)READS(right))));
    CHECK(!runs(submit(74, (struct flow_access)READS(whole))));
    CHECK(!runs(submit(75, (struct flow_access)UPDATES(left))));
    bench_close(&bench);
}

static void what_is_overwritten_as_a_whole_is_good_again(void)
{
    struct flow_cause cause;
    open_one(true);
    run_to(submit(1, (struct flow_access)WRITES(left)), MUSTER_E_FAILED, &cause);
    CHECK(runs(submit(2, (struct flow_access)WRITES(inner))));
    CHECK(runs(submit(3, (struct flow_access)READS(inner))));
    CHECK(!runs(submit(4, (struct flow_access)READS(left))));
    CHECK(runs(submit(5, (struct flow_access)WRITES(whole))));
    CHECK(runs(submit(6, (struct flow_access)READS(left))));
    CHECK(runs(submit(7, (struct flow_access)READS(whole))));
    CHECK(!flow_part_blame(bench.flow, whole, &cause));
    bench_close(&bench);
}

/* Who reads is no reason to cancel who writes after it. */
static void a_reader_that_fails_spoils_nothing(void)
{
    struct flow_cause cause;
    open_one(true);
    uint32_t reader = submit(1, (struct flow_access)READS(left));
    uint32_t writer = submit(2, (struct flow_access)UPDATES(left));
    run_to(reader, MUSTER_E_FAILED, &cause);
    CHECK(!bench.tasks.entries[writer].is_doomed);
    CHECK(runs(writer));
    bench_close(&bench);
}

static void a_part_that_is_let_go_leaves_its_failure(void)
{
    struct flow_cause cause;
    open_one(true);
    run_to(submit(9, (struct flow_access)WRITES(inner)), MUSTER_E_FAILED, &cause);
    flow_part_remove(bench.flow, inner);
    CHECK(flow_part_blame(bench.flow, left, &cause));
    CHECK_EQUAL(9, cause.tag);
    CHECK(flow_check(bench.flow) == NULL);
    bench_close(&bench);
}

static void reading_what_nobody_wrote_is_seen(void)
{
    open_one(false);
    struct flow_access accesses[] = { WRITES(right), READS(inner) };
    CHECK_EQUAL(1, flow_unwritten(bench.flow, accesses, 2));
    submit(1, (struct flow_access)WRITES(right));
    CHECK_EQUAL(1, flow_unwritten(bench.flow, accesses, 2));
    submit(2, (struct flow_access)WRITES(left));
    CHECK_EQUAL(2, flow_unwritten(bench.flow, accesses, 2));
    bench_close(&bench);
}

static void parts_of_one_task_that_clash_are_seen(void)
{
    open_one(true);
    struct flow_access good[] = { READS(inner), READS(left), WRITES(right) };
    struct flow_access bad[] = { READS(right), READS(inner), WRITES(left) };
    struct flow_access merged[] = { READS(left), WRITES(left), READS(right), READS(right) };
    CHECK_EQUAL(3, flow_clash(bench.flow, good, 3));
    CHECK_EQUAL(2, flow_clash(bench.flow, bad, 3));
    CHECK_EQUAL(2, flow_merge(merged, 4));
    CHECK_EQUAL(FLOW_READ_WRITE, merged[0].mode);
    CHECK_EQUAL(FLOW_READ, merged[1].mode);
    bench_close(&bench);
}

static void end_it(uint32_t task)
{
    flow_ended(bench.flow, task, FLOW_HOME, MUSTER_OK, NULL);
    tasks_end(&bench.tasks, task, MUSTER_OK);
}

static void commuting_tasks_have_turns(void)
{
    open_one(true);
    uint32_t tasks[3];
    for (uint32_t i = 0; i < 3; i++) {
        tasks[i] = submit(i, (struct flow_access)COMMUTES(left));
        CHECK_EQUAL(TASKS_READY, bench.tasks.entries[tasks[i]].state);
        tasks_take_this(&bench.tasks, tasks[i]);
    }
    CHECK(flow_commute_take(bench.flow, tasks[1]));
    CHECK(flow_commute_take(bench.flow, tasks[1])); /* it has it already */
    CHECK(!flow_commute_take(bench.flow, tasks[0]));
    CHECK(!flow_commute_take(bench.flow, tasks[2]));
    CHECK_EQUAL(FLOW_NONE, flow_commute_next(bench.flow));
    end_it(tasks[1]);
    CHECK_EQUAL(tasks[0], flow_commute_next(bench.flow));
    CHECK(flow_commute_take(bench.flow, tasks[0]));
    CHECK_EQUAL(FLOW_NONE, flow_commute_next(bench.flow));
    end_it(tasks[0]);
    CHECK_EQUAL(tasks[2], flow_commute_next(bench.flow));
    bench_close(&bench);
}

/* The first that is woken waits for another part as well: the next must not be forgotten. */
static void a_turn_that_cannot_be_used_goes_to_the_next(void)
{
    open_one(true);
    struct flow_access two[] = { COMMUTES(left), COMMUTES(right) };
    uint32_t on_left = submit(1, (struct flow_access)COMMUTES(left));
    uint32_t on_right = submit(2, (struct flow_access)COMMUTES(right));
    uint32_t both = bench_submit(&bench, 3, two, 2);
    uint32_t next = submit(4, (struct flow_access)COMMUTES(left));
    CHECK(flow_commute_take(bench.flow, on_left) && flow_commute_take(bench.flow, on_right));
    CHECK(!flow_commute_take(bench.flow, both) && !flow_commute_take(bench.flow, next));
    tasks_take_this(&bench.tasks, on_left);
    end_it(on_left);
    CHECK_EQUAL(both, flow_commute_next(bench.flow));
    CHECK(!flow_commute_take(bench.flow, both));
    CHECK_EQUAL(next, flow_commute_next(bench.flow));
    CHECK(flow_commute_take(bench.flow, next));
    bench_close(&bench);
}

static void contributions_are_taken_in_turn_and_combined_in_order(void)
{
    uint32_t contributions[FLOW_CONTRIBUTIONS];
    struct flow_access accesses[1 + FLOW_CONTRIBUTIONS];
    uint64_t operation;
    bool is_first;
    open_one(true);
    for (uint32_t i = 0; i < FLOW_CONTRIBUTIONS; i++)
        contributions[i] = flow_data_whole(bench.flow, flow_data_add(bench.flow, 30, false));
    CHECK(!flow_reduce_is_prepared(bench.flow, left));
    flow_reduce_prepare(bench.flow, left, contributions);
    CHECK(flow_reduce_is_prepared(bench.flow, left));
    for (uint32_t round = 0; round < 2; round++) {
        uint32_t count = round == 0 ? 21 : 3;
        CHECK_EQUAL(FLOW_NONE, flow_reduce_pending(bench.flow, left, 5));
        for (uint32_t i = 0; i < count; i++) {
            CHECK_EQUAL(contributions[i % FLOW_CONTRIBUTIONS],
                        flow_reduce_next(bench.flow, left, 5, &is_first));
            CHECK_EQUAL(i < FLOW_CONTRIBUTIONS, is_first);
        }
        CHECK_EQUAL(FLOW_NONE, flow_reduce_pending(bench.flow, left, 5));
        CHECK_EQUAL(FLOW_NONE, flow_reduce_pending(bench.flow, right, 0));
        CHECK_EQUAL(left, flow_reduce_pending(bench.flow, left, 6));
        CHECK_EQUAL(left, flow_reduce_pending(bench.flow, left, 0));
        CHECK_EQUAL(left, flow_reduce_pending(bench.flow, inner, 0));
        CHECK_EQUAL(left, flow_reduce_pending(bench.flow, whole, 5));
        uint32_t used = count < FLOW_CONTRIBUTIONS ? count : FLOW_CONTRIBUTIONS;
        CHECK_EQUAL(1 + used, flow_reduce_combine(bench.flow, left, accesses, &operation));
        CHECK_EQUAL(5, operation);
        CHECK(accesses[0].part == left && accesses[0].mode == FLOW_READ_WRITE);
        for (uint32_t i = 0; i < used; i++)
            CHECK(accesses[1 + i].part == contributions[i] && accesses[1 + i].mode == FLOW_READ);
        CHECK_EQUAL(FLOW_NONE, flow_reduce_pending(bench.flow, whole, 0));
    }
    bench_close(&bench);
}

/* No bytes, no places: only who follows whom. */
static void tokens_order_and_nothing_else(void)
{
    struct flow_cause cause;
    open_one(true);
    uint32_t token = flow_data_whole(bench.flow, flow_data_add(bench.flow, 0, false));
    uint32_t a = submit(1, (struct flow_access)WRITES(token));
    uint32_t b = submit(2, (struct flow_access)READS(token));
    CHECK_EQUAL(TASKS_WAITING, bench.tasks.entries[b].state);
    run_to(a, MUSTER_E_FAILED, &cause);
    CHECK(!runs(b));
    CHECK(flow_check(bench.flow) == NULL);
    bench_close(&bench);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(who_reads_what_failed_is_cancelled_and_told_of_the_first),
        TEST(what_is_overwritten_as_a_whole_is_good_again),
        TEST(a_reader_that_fails_spoils_nothing),
        TEST(a_part_that_is_let_go_leaves_its_failure),
        TEST(reading_what_nobody_wrote_is_seen),
        TEST(parts_of_one_task_that_clash_are_seen),
        TEST(commuting_tasks_have_turns),
        TEST(a_turn_that_cannot_be_used_goes_to_the_next),
        TEST(contributions_are_taken_in_turn_and_combined_in_order),
        TEST(tokens_order_and_nothing_else),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
