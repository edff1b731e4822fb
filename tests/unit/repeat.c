/* Recorded graphs: each run has every task once, after those that it follows, and by priority. */
#include "core/repeat.h"
#include "flow_model.h"
#include "support.h"

#define TASKS 60u

struct recorded {
    struct bench_flow bench;
    struct repeat *repeat;
    void *run_memory;
    bool follows[TASKS][TASKS];
    uint8_t priorities[TASKS];
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
    for (uint32_t i = 0; i < TASKS; i++)
        recorded->bench.tasks.entries[i].priority = recorded->priorities[i] =
            (uint8_t)(random_below(&random, 3) * 15);
    recorded->repeat = repeat_init(aligned_alloc(64, repeat_bytes(tasks)), tasks);
    recorded->run_memory = aligned_alloc(64, repeat_run_bytes(recorded->repeat));
    CHECK_EQUAL(TASKS, repeat_count(recorded->repeat));
    for (uint32_t i = 0; i < TASKS; i++)
        recorded->bench.tasks.entries[i].priority = TASKS_PRIORITY_USUAL;
    bench_close(&recorded->bench);
}

static void give(struct recorded *recorded)
{
    free(recorded->repeat);
    free(recorded->run_memory);
}

/* Which are ready, and since when: 0 are not. */
struct ready {
    int64_t since[TASKS], newest, oldest;
};

static void find_ready(const struct recorded *recorded, const bool *has_ended, bool *was_seen,
                       struct ready *ready)
{
    for (uint32_t i = 0; i < TASKS; i++) {
        bool is_ready = !was_seen[i];
        for (uint32_t k = 0; k < TASKS && is_ready; k++)
            is_ready = !recorded->follows[i][k] || has_ended[k];
        if (is_ready)
            ready->since[i] = ++ready->newest;
        was_seen[i] |= is_ready;
    }
}

/* The highest priority first, then the one that was ready first. */
static uint32_t next_of(const struct recorded *recorded, const struct ready *ready)
{
    uint32_t next = TASKS;
    for (uint32_t i = 0; i < TASKS; i++)
        if (ready->since[i] != 0 &&
            (next == TASKS || recorded->priorities[i] > recorded->priorities[next] ||
             (recorded->priorities[i] == recorded->priorities[next] &&
              ready->since[i] < ready->since[next])))
            next = i;
    return next;
}

/* Runs it in a random order; the task `fails` does, if there is one. */
static void run_once(struct recorded *recorded, struct random *random, uint32_t fails)
{
    struct repeat_run *run = repeat_run_begin(recorded->run_memory, recorded->repeat);
    bool has_ended[TASKS] = { false }, is_bad[TASKS] = { false };
    bool was_seen[TASKS] = { false };
    struct ready ready = { .newest = 0 };
    uint32_t open[TASKS], count = 0, ended = 0;
    find_ready(recorded, has_ended, was_seen, &ready);
    for (bool is_last = false; !is_last;) {
        uint32_t most = 1 + (uint32_t)random_below(random, 4);
        for (uint32_t taken = repeat_take(run, most, open + count); taken > 0; taken--) {
            CHECK_EQUAL(next_of(recorded, &ready), open[count]);
            ready.since[open[count++]] = 0;
        }
        CHECK(count > 0);
        if (count > 1 && random_below(random, 4) == 0) {
            uint32_t back = open[--count];
            repeat_put_back(run, back);
            ready.since[back] = --ready.oldest;
        }
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
        find_ready(recorded, has_ended, was_seen, &ready);
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
