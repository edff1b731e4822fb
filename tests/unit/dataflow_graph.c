/*
 * Recorded graphs: a run does what the tasks would do that were recorded, in order with others, on other
 * data of the same shape, and as often as it is asked for.
 */
#include "support.h"

#define TILES 5
#define TASKS 200

static struct muster *open_workers(uint32_t workers)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "cpu";
    options.cpu_workers = workers;
    return open_with(options);
}

static muster_status mix(void *user, const struct muster_native *native)
{
    uint64_t *out = native->pointers[native->count - 1];
    *out = *out * 31 + (uintptr_t)user;
    for (size_t i = 0; i + 1 < native->count; i++)
        *out = *out * 31 + *(uint64_t *)native->pointers[i];
    return MUSTER_OK;
}

/* The same tasks each time: submitted, recorded, or done here and now. */
static void submit_all(struct muster *m, const muster_data *data, uint64_t *model)
{
    static const struct muster_body bodies[] = { { sizeof bodies[0], "cpu", mix } };
    for (uintptr_t t = 0; t < TASKS; t++) {
        size_t a = t * 7 % TILES, b = (t * 3 + 1) % TILES, out = (t * 5 + 2) % TILES;
        if (a == out || b == out || a == b)
            continue;
        const struct muster_task_access accesses[] = {
            MUSTER_ACCESS(data[a], MUSTER_READ), MUSTER_ACCESS(data[b], MUSTER_READ),
            MUSTER_ACCESS(data[out], MUSTER_READ_WRITE)
        };
        const struct muster_task_desc desc = { .size = sizeof desc,
                                               .user = (void *)t,
                                               .accesses = accesses,
                                               .access_count = 3,
                                               .bodies = bodies,
                                               .body_count = 1 };
        if (m)
            MUST(muster_submit(m, &desc, 1, NULL, &problem));
        else
            model[out] = ((model[out] * 31 + t) * 31 + model[a]) * 31 + model[b];
    }
}

static void a_run_does_what_was_recorded(void)
{
    for (uint32_t workers = 1; workers < 4; workers++) {
        struct muster *m = open_workers(workers);
        uint64_t values[2 * TILES], model[2 * TILES];
        muster_data data[2 * TILES];
        struct muster_graph_change changes[TILES];
        struct muster_graph *graph;
        for (size_t i = 0; i < 2 * TILES; i++) {
            values[i] = model[i] = i + 1;
            MUST(muster_data_create(m, &values[i], sizeof *values, 0, &data[i], &problem));
        }
        for (size_t i = 0; i < TILES; i++)
            changes[i] = (struct muster_graph_change){ sizeof *changes, data[i], data[TILES + i] };
        MUST(muster_graph_begin(m, &problem));
        CHECK_STATUS(MUSTER_E_ORDER, muster_graph_begin(m, &problem));
        submit_all(m, data, NULL);
        MUST(muster_graph_end(m, &graph, &problem));
        CHECK_EQUAL(1, values[0]); /* nothing has run */
        muster_task task;
        for (int round = 0; round < 5; round++) {
            MUST(muster_graph_run(m, graph, NULL, 0, &task, &problem));
            submit_all(NULL, data, model);
            submit_all(m, data, NULL); /* between the runs */
            submit_all(NULL, data, model);
            MUST(muster_graph_run(m, graph, changes, TILES, NULL, &problem));
            submit_all(NULL, data, model + TILES);
        }
        MUST(muster_wait(m, &task, 1, 60 * SECOND, &problem));
        for (size_t i = 0; i < 2 * TILES; i++)
            MUST(muster_data_destroy(m, data[i], &problem));
        CHECK(memcmp(model, values, sizeof values) == 0);
        muster_graph_destroy(graph);
        MUST(muster_close(m, &problem));
    }
}

static muster_status count_up(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
    return MUSTER_OK;
}

static muster_status fail(void *user)
{
    (void)user;
    return MUSTER_E_FAILED;
}

static void parts_and_many_data_in_one_graph(void)
{
    enum { COUNT = 300 };
    struct muster *m = open_workers(2);
    static unsigned char bytes[COUNT];
    static muster_data parts[COUNT + 1];
    atomic_int ran = 0;
    struct muster_graph *graph;
    muster_task task;
    MUST(muster_data_create(m, bytes, COUNT, 0, &parts[COUNT], &problem));
    for (uint64_t i = 0; i < COUNT; i++)
        MUST(i % 2 ? muster_data_part(m, parts[COUNT], i, 1, &parts[i], &problem)
                   : muster_data_create(m, &bytes[i], 1, 0, &parts[i], &problem));
    MUST(muster_graph_begin(m, &problem));
    for (size_t i = 0; i <= COUNT; i++) {
        const struct muster_task_access access = MUSTER_ACCESS(parts[i], MUSTER_READ_WRITE);
        const struct muster_task_desc desc = { .size = sizeof desc,
                                               .fn = count_up,
                                               .user = &ran,
                                               .accesses = &access,
                                               .access_count = 1 };
        MUST(muster_submit(m, &desc, 1, NULL, &problem));
    }
    MUST(muster_graph_end(m, &graph, &problem));
    for (int round = 0; round < 3; round++)
        MUST(muster_graph_run(m, graph, NULL, 0, &task, &problem));
    MUST(muster_wait(m, &task, 1, 60 * SECOND, &problem));
    CHECK_EQUAL(3 * (COUNT + 1), atomic_load(&ran));
    muster_graph_destroy(graph);
    for (size_t i = 0; i <= COUNT; i++)
        MUST(muster_data_destroy(m, parts[i], &problem));
    MUST(muster_close(m, &problem));
}

static void a_failure_ends_what_follows_it(void)
{
    struct muster *m = open_workers(2);
    uint64_t values[2] = { 0, 0 };
    atomic_int ran = 0;
    struct muster_graph *graph;
    muster_data data[2];
    muster_task task;
    void *pointer;
    for (int i = 0; i < 2; i++)
        MUST(muster_data_create(m, &values[i], sizeof *values, 0, &data[i], &problem));
    MUST(muster_graph_begin(m, &problem));
    for (int i = 0; i < 4; i++) {
        const struct muster_task_access access = MUSTER_ACCESS(data[i % 2], MUSTER_READ_WRITE);
        const struct muster_task_desc desc = { .size = sizeof desc,
                                               .fn = i == 0 ? fail : count_up,
                                               .user = &ran,
                                               .name = i == 0 ? "breaks" : NULL,
                                               .accesses = &access,
                                               .access_count = 1 };
        MUST(muster_submit(m, &desc, 1, NULL, &problem));
    }
    MUST(muster_graph_end(m, &graph, &problem));
    MUST(muster_graph_run(m, graph, NULL, 0, &task, &problem));
    CHECK_STATUS(MUSTER_E_FAILED, muster_wait(m, &task, 1, 60 * SECOND, &problem));
    CHECK_CONTAINS("'breaks'", problem.text);
    CHECK_EQUAL(2, atomic_load(&ran));
    CHECK_STATUS(MUSTER_E_FAILED,
                 muster_data_acquire(m, data[0], MUSTER_READ, SECOND, &pointer, &problem));
    MUST(muster_graph_run(m, graph, NULL, 0, &task, &problem));
    CHECK_STATUS(MUSTER_E_CANCELLED, muster_wait(m, &task, 1, 60 * SECOND, &problem));
    CHECK_EQUAL(2, atomic_load(&ran));
    for (int i = 0; i < 2; i++)
        (void)muster_data_destroy(m, data[i], &problem);
    CHECK_STATUS(MUSTER_E_STALE, muster_graph_run(m, graph, NULL, 0, &task, &problem));
    muster_graph_destroy(graph);
    MUST(muster_close(m, &problem));
}

static void what_cannot_be_recorded_is_refused(void)
{
    struct muster *m = open_workers(1);
    uint64_t value = 0;
    struct muster_graph *graph;
    muster_data data;
    MUST(muster_data_create(m, &value, sizeof value, 0, &data, &problem));
    const struct muster_task_access access = MUSTER_ACCESS(data, MUSTER_READ_WRITE);
    struct muster_task_desc desc = {
        .size = sizeof desc, .fn = fail, .accesses = &access, .access_count = 1, .timeout_ns = 0
    };
    const muster_task before = { 0, 1 };
    CHECK_STATUS(MUSTER_E_INVALID, muster_graph_end(m, &graph, &problem));
    MUST(muster_graph_begin(m, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_graph_end(m, &graph, &problem)); /* nothing in it */
    MUST(muster_graph_begin(m, &problem));
    desc.after = &before;
    desc.after_count = 1;
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, &desc, 1, NULL, &problem));
    desc.after_count = 0;
    desc.access_count = 0;
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, &desc, 1, NULL, &problem));
    desc.access_count = 1;
    MUST(muster_submit(m, &desc, 1, NULL, &problem));
    MUST(muster_graph_end(m, &graph, &problem));
    muster_graph_destroy(graph);
    muster_graph_destroy(NULL);
    MUST(muster_data_destroy(m, data, &problem));
    MUST(muster_close(m, &problem));
}

static muster_status keep_device(void *user, const struct muster_native *native)
{
    *(muster_device *)user = native->device;
    return MUSTER_OK;
}

/* A body that is only recorded, never submitted, runs on a device of the runtime's; without one it is refused. */
static void bodies_run_on_a_device_or_not_at_all(void)
{
    static const struct muster_body body = { sizeof body, "cpu", keep_device };
    for (int has_cpu = 1; has_cpu >= 0; has_cpu--) {
        struct muster_options options = MUSTER_OPTIONS_INIT;
        struct muster_device_info info = { .size = sizeof info };
        struct muster_graph *graph;
        muster_device seen = { UINT32_MAX, UINT32_MAX };
        muster_data token;
        muster_task task;
        options.devices = has_cpu ? "cpu" : "sim";
        options.sim = "[{\"items_per_s\":1e6}]";
        struct muster *m = open_with(options);
        MUST(muster_data_create(m, NULL, 0, 0, &token, &problem));
        const struct muster_task_access access = MUSTER_ACCESS(token, MUSTER_TOKEN);
        const struct muster_task_desc desc = { .size = sizeof desc,
                                               .user = &seen,
                                               .accesses = &access,
                                               .access_count = 1,
                                               .bodies = &body,
                                               .body_count = 1 };
        MUST(muster_graph_begin(m, &problem));
        MUST(muster_submit(m, &desc, 1, NULL, &problem));
        MUST(muster_graph_end(m, &graph, &problem));
        muster_status status = muster_graph_run(m, graph, NULL, 0, &task, &problem);
        if (has_cpu) {
            MUST(status);
            MUST(muster_wait(m, &task, 1, 60 * SECOND, &problem));
            MUST(muster_device_info(m, seen, &info, &problem));
            CHECK_TEXT("cpu:0", info.id);
        } else {
            CHECK_STATUS(MUSTER_E_NO_DEVICE, status);
        }
        muster_graph_destroy(graph);
        MUST(muster_data_destroy(m, token, &problem));
        MUST(muster_close(m, &problem));
    }
}

/* Tasks that wait for each other. */
struct meeting {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned count, wanted;
};
/* clang-format off */
#define MEETING_INIT { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }
/* clang-format on */

static muster_status come(void *user)
{
    struct meeting *meeting = user;
    pthread_mutex_lock(&meeting->mutex);
    meeting->count++;
    pthread_cond_broadcast(&meeting->changed);
    pthread_mutex_unlock(&meeting->mutex);
    return MUSTER_OK;
}

/* Until as many have come as are wanted, in a time in which they must. */
static muster_status wait_for_others(void *user)
{
    struct meeting *meeting = user;
    struct timespec until;
    int code = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    pthread_mutex_lock(&meeting->mutex);
    while (meeting->count < meeting->wanted && code == 0)
        code = pthread_cond_timedwait(&meeting->changed, &meeting->mutex, &until);
    pthread_mutex_unlock(&meeting->mutex);
    return code == 0 ? MUSTER_OK : MUSTER_E_FAILED;
}

static muster_status meet(void *user)
{
    (void)come(user);
    return wait_for_others(user);
}

/* A chance for the other threads to park. */
static muster_status linger(void *user)
{
    door_linger(user, 2);
    return MUSTER_OK;
}

static void record(struct muster *m, muster_status (*fn)(void *), void *user, muster_data data,
                   uint32_t mode, int priority)
{
    const struct muster_task_access access = MUSTER_ACCESS(data, mode);
    const struct muster_task_desc desc = { .size = sizeof desc,
                                           .fn = fn,
                                           .user = user,
                                           .accesses = &access,
                                           .access_count = 1,
                                           .priority = priority };
    MUST(muster_submit(m, &desc, 1, NULL, &problem));
}

static void run_recorded(struct muster *m)
{
    struct muster_graph *graph;
    muster_task task;
    MUST(muster_graph_end(m, &graph, &problem));
    MUST(muster_graph_run(m, graph, NULL, 0, &task, &problem));
    MUST(muster_wait(m, &task, 1, 60 * SECOND, &problem));
    muster_graph_destroy(graph);
}

/* What becomes ready when the other threads are parked is not left to the one that has the run. */
static void idle_threads_join_a_run(void)
{
    struct muster *m = open_workers(2);
    uint64_t value = 0;
    muster_data data;
    struct door door = DOOR_INIT;
    struct meeting meeting = MEETING_INIT;
    meeting.wanted = 2;
    MUST(muster_data_create(m, &value, sizeof value, 0, &data, &problem));
    MUST(muster_graph_begin(m, &problem));
    record(m, linger, &door, data, MUSTER_READ_WRITE, 0);
    record(m, meet, &meeting, data, MUSTER_READ, 0);
    record(m, meet, &meeting, data, MUSTER_READ, 0);
    run_recorded(m);
    MUST(muster_data_destroy(m, data, &problem));
    MUST(muster_close(m, &problem));
}

/* Short tasks are taken many at a time; one of them is long, and those after it must not wait for it. */
static void a_long_task_of_a_run_holds_up_nothing(void)
{
    enum { BEFORE = 300, AFTER = 20 };
    struct muster *m = open_workers(2);
    uint64_t value = 0;
    muster_data data;
    atomic_int ran = 0;
    struct meeting meeting = MEETING_INIT;
    meeting.wanted = AFTER;
    MUST(muster_data_create(m, &value, sizeof value, 0, &data, &problem));
    MUST(muster_graph_begin(m, &problem));
    for (int i = 0; i < BEFORE; i++)
        record(m, count_up, &ran, data, MUSTER_READ, 0);
    record(m, wait_for_others, &meeting, data, MUSTER_READ, 0);
    for (int i = 0; i < AFTER; i++)
        record(m, come, &meeting, data, MUSTER_READ, 0);
    run_recorded(m);
    CHECK_EQUAL(BEFORE, atomic_load(&ran));
    MUST(muster_data_destroy(m, data, &problem));
    MUST(muster_close(m, &problem));
}

static int order_count;

static muster_status note_order(void *user)
{
    *(int *)user = order_count++;
    return MUSTER_OK;
}

static muster_status stand(void *user)
{
    door_pass(user);
    return MUSTER_OK;
}

static void recorded_priorities_count(void)
{
    enum { COUNT = 10 };
    struct muster *m = open_workers(1);
    uint64_t value = 0;
    int order[COUNT];
    muster_data data;
    struct door door = DOOR_INIT;
    const struct muster_task_desc stands = { .size = sizeof stands, .fn = stand, .user = &door };
    MUST(muster_data_create(m, &value, sizeof value, 0, &data, &problem));
    MUST(muster_graph_begin(m, &problem));
    for (int i = 0; i < COUNT; i++)
        record(m, note_order, &order[i], data, MUSTER_READ, i % 2);
    struct muster_graph *graph;
    muster_task task;
    MUST(muster_graph_end(m, &graph, &problem));
    /* The only thread is away, so this one runs them all. */
    MUST(muster_submit(m, &stands, 1, NULL, &problem));
    door_wait_arrived(&door, 1);
    MUST(muster_graph_run(m, graph, NULL, 0, &task, &problem));
    MUST(muster_wait(m, &task, 1, 60 * SECOND, &problem));
    for (int i = 0; i < COUNT; i++)
        CHECK_EQUAL(i % 2 ? i / 2 : COUNT / 2 + i / 2, order[i]);
    door_open(&door);
    muster_graph_destroy(graph);
    MUST(muster_data_destroy(m, data, &problem));
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_run_does_what_was_recorded),          TEST(parts_and_many_data_in_one_graph),
        TEST(a_failure_ends_what_follows_it),        TEST(what_cannot_be_recorded_is_refused),
        TEST(bodies_run_on_a_device_or_not_at_all),  TEST(idle_threads_join_a_run),
        TEST(a_long_task_of_a_run_holds_up_nothing), TEST(recorded_priorities_count),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
