/* Recorded graphs: each run has every task once, after those that it follows. */
#include "core/repeat.h"
#include "flow_model.h"
#include "support.h"

#define TASKS 60u

struct recorded {
    struct bench_flow bench;
    struct repeat *repeat;
    void *run_memory;
    bool follows[TASKS][TASKS];
};

static void record(struct recorded *recorded, uint64_t seed)
{
    struct flow_sizes sizes = model_sizes(TASKS, 1);
    struct random random;
    uint32_t parts[6];
    random_init(&random, seed);
    bench_open(&recorded->bench, &sizes, 4096);
    for (uint32_t i = 0; i < 6; i++)
        parts[i] =
            flow_data_whole(recorded->bench.flow, flow_data_add(recorded->bench.flow, 8, true));
    for (uint32_t i = 0; i < TASKS; i++) {
        struct flow_access access = { parts[random_below(&random, 6)],
                                      1 + (uint32_t)random_below(&random, 3) };
        CHECK_EQUAL(i, bench_submit(&recorded->bench, i, &access, 1));
    }
    memset(recorded->follows, 0, sizeof recorded->follows);
    const struct tasks *tasks = &recorded->bench.tasks;
    for (uint32_t i = 0; i < TASKS; i++)
        for (uint32_t e = tasks->entries[i].first_follower; e != TASKS_NONE;
             e = tasks->edges[e].next)
            recorded->follows[tasks->edges[e].follower][i] = true;
    recorded->repeat = repeat_init(aligned_alloc(64, repeat_bytes(tasks)), tasks);
    recorded->run_memory = aligned_alloc(64, repeat_run_bytes(recorded->repeat));
    CHECK_EQUAL(TASKS, repeat_count(recorded->repeat));
    bench_close(&recorded->bench);
}

static void give(struct recorded *recorded)
{
    free(recorded->repeat);
    free(recorded->run_memory);
}

/* Runs it in a random order; the task `fails` does, if there is one. */
static void run_once(struct recorded *recorded, struct random *random, uint32_t fails)
{
    struct repeat_run *run = repeat_run_begin(recorded->run_memory, recorded->repeat);
    bool has_ended[TASKS] = { false }, is_bad[TASKS] = { false };
    uint32_t open[TASKS], count = 0, ended = 0;
    for (bool is_last = false; !is_last;) {
        uint32_t most = 1 + (uint32_t)random_below(random, 4);
        count += repeat_take(run, most, open + count);
        CHECK(count > 0);
        uint32_t at = (uint32_t)random_below(random, count), task = open[at];
        bool must_be_doomed = false;
        for (uint32_t i = 0; i < TASKS; i++) {
            CHECK(!recorded->follows[task][i] || has_ended[i]);
            must_be_doomed |= recorded->follows[task][i] && is_bad[i];
        }
        CHECK_EQUAL(must_be_doomed, repeat_is_doomed(run, task));
        is_bad[task] = must_be_doomed || task == fails;
        CHECK(!has_ended[task]);
        has_ended[task] = true;
        open[at] = open[--count];
        is_last = repeat_end(run, task,
                             must_be_doomed  ? MUSTER_E_CANCELLED
                             : task == fails ? MUSTER_E_IO
                                             : MUSTER_OK);
        ended++;
    }
    uint32_t first_failed;
    CHECK_EQUAL(TASKS, ended);
    CHECK_EQUAL(0, repeat_ready_count(run));
    CHECK_STATUS(fails < TASKS ? MUSTER_E_IO : MUSTER_OK, repeat_status(run, &first_failed));
    CHECK_EQUAL(fails < TASKS ? fails : UINT32_MAX, first_failed);
}

static void each_run_has_every_task_once_in_order(void)
{
    static struct recorded recorded;
    struct random random;
    random_init(&random, test_seed());
    for (uint32_t i = 0; i < TEST_BY_SANITIZER(200u, 50u, 20u); i++) {
        record(&recorded, test_seed() + i);
        for (uint32_t k = 0; k < 4; k++)
            run_once(&recorded, &random, k % 2 ? (uint32_t)random_below(&random, TASKS) : TASKS);
        give(&recorded);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(each_run_has_every_task_once_in_order) };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
