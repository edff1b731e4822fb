/*
 * Tasks with kernels: on the cpu and on simulated devices, in order with tasks on the host, and what
 * becomes of them when devices fail, hang, or are not available.
 */
#include "backend/cpu/cpu.h"
#include "support.h"

#include <sched.h>

/* Ends a test that hangs, and no other, however busy the machine is. */
#define LONG (120 * SECOND)
#define MANY 64
/* Of what is tried by the hundred. */
#define PART TEST_BY_SANITIZER(1, 2, 8)

/* Two fast devices, of which the first goes as the faults say. */
#define SIM_TWO(faults)                                                                            \
    "[{\"items_per_s\": 1e8, \"launch_ns\": 2000, \"memory\": \"64MiB\", \"faults\": [" faults     \
    "]}, {\"items_per_s\": 1e8, \"launch_ns\": 2000, \"memory\": \"64MiB\"}]"

static struct muster *open_sim(const char *sim)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.cpu_workers = 2;
    options.sim = sim;
    options.close_ns = 2 * SECOND;
    return open_with(options);
}

/* A task over one value. */
static struct muster_task_desc task_of(struct muster_kernel *kernel, const struct muster_arg *args,
                                       size_t count, const char *devices)
{
    /* Hints of the last few tasks: they must stay until the task is submitted. */
    static _Thread_local struct muster_hints kept[64];
    static _Thread_local unsigned next;
    struct muster_hints *hints = &kept[next++ % COUNT_OF(kept)];
    *hints = (struct muster_hints){ .size = sizeof *hints, .devices = devices };
    return (struct muster_task_desc){ .size = sizeof(struct muster_task_desc),
                                      .kernel = kernel,
                                      .args = args,
                                      .arg_count = count,
                                      .items = 1,
                                      .hints = devices ? hints : NULL };
}

static muster_task submit(struct muster *m, struct muster_task_desc desc)
{
    muster_task task = { 0, 0 };
    MUST(muster_submit(m, &desc, 1, &task, &problem));
    return task;
}

static muster_status wait_one(struct muster *m, muster_task task)
{
    return muster_wait(m, &task, 1, LONG, &problem);
}

/* Arguments: where to count. */
static muster_status count_up(uint64_t begin, uint64_t end, void *const *args)
{
    atomic_fetch_add(*(_Atomic unsigned *const *)args[0], (unsigned)(end - begin));
    return MUSTER_OK;
}

/* Arguments: an array of marks, which one to set. */
static muster_status mark(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end;
    _Atomic unsigned *marks = *(_Atomic unsigned *const *)args[0];
    atomic_fetch_add(&marks[*(const uint32_t *)args[1]], 1);
    return MUSTER_OK;
}

static muster_status double_up(uint64_t begin, uint64_t end, void *const *args)
{
    const uint32_t *in = *(const uint32_t *const *)args[0];
    uint32_t *out = *(uint32_t *const *)args[1];
    for (uint64_t i = begin; i < end; i++)
        out[i] = 2 * in[i];
    return MUSTER_OK;
}

/* What tasks do. */

static void check_values_arrive(const char *device)
{
    struct muster *m = open_plain();
    struct muster_kernel *kernel = kernel_of(m, mark);
    _Atomic unsigned marks[MANY] = { 0 }, *at = marks;
    struct muster_task_desc descs[MANY];
    struct muster_arg args[MANY][2];
    uint32_t numbers[MANY];
    muster_task tasks[MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        numbers[i] = i;
        args[i][0] = (struct muster_arg)MUSTER_VALUE(at);
        args[i][1] = (struct muster_arg)MUSTER_VALUE(numbers[i]);
        descs[i] = task_of(kernel, args[i], 2, device);
    }
    MUST(muster_submit(m, descs, MANY, tasks, &problem));
    /* Values were copied. */
    memset(numbers, 0xff, sizeof numbers);
    MUST(muster_wait(m, tasks, MANY, LONG, &problem));
    for (uint32_t i = 0; i < MANY; i++)
        CHECK_EQUAL(1, atomic_load(&marks[i]));
    struct muster_device_load load = load_of(m, find(m, device));
    CHECK_EQUAL(MANY, load.dispatched);
    CHECK_EQUAL(MANY, load.completed);
    CHECK_EQUAL(0, load.queue_depth);
    MUST(muster_close(m, &problem));
}

static void many_in_one_call_each_with_its_values(void)
{
    check_values_arrive("cpu:0");
    check_values_arrive("sim:0");
}

static void check_arrays(const char *device)
{
    enum { ITEMS = 1000 };
    static uint32_t in[ITEMS], out[ITEMS], both[ITEMS];
    struct muster *m = open_plain();
    struct muster_arg args[] = { MUSTER_IN(in), MUSTER_OUT(out) };
    struct muster_arg again[] = { MUSTER_INOUT(both), MUSTER_INOUT(both) };
    for (uint32_t i = 0; i < ITEMS; i++)
        in[i] = both[i] = i;
    struct muster_task_desc desc = task_of(kernel_of(m, double_up), args, 2, device);
    desc.items = ITEMS;
    muster_task first = submit(m, desc);
    desc.args = again;
    desc.arg_count = 2;
    muster_task second = submit(m, desc);
    CHECK_STATUS(MUSTER_OK, wait_one(m, first));
    CHECK_STATUS(MUSTER_OK, wait_one(m, second));
    for (uint32_t i = 0; i < ITEMS; i++) {
        CHECK_EQUAL(2 * i, out[i]);
        /* Two copies of one array: whichever came back last. */
        CHECK(strcmp(device, "cpu:0") != 0 || both[i] == 2 * i);
    }
    struct muster_device_load load = load_of(m, find(m, device));
    CHECK_EQUAL(0, load.memory_used);
    CHECK_EQUAL(2, load.dispatched);
    CHECK_EQUAL(2, load.completed);
    CHECK_EQUAL(0, load.queue_depth);
    MUST(muster_close(m, &problem));
}

static void arrays_are_there_and_come_back(void)
{
    check_arrays("cpu:0");
    check_arrays("sim:1");
}

/* Arguments: resident data, an array that is written. */
static void data_is_resident(void)
{
    enum { ITEMS = 100 };
    static uint32_t table[ITEMS], out[3][ITEMS];
    const char *devices[] = { "cpu:0", "sim:0", "sim:1" };
    struct muster *m = open_plain();
    struct muster_kernel *kernel = kernel_of(m, double_up);
    muster_data data;
    for (uint32_t i = 0; i < ITEMS; i++)
        table[i] = i + 1;
    MUST(muster_data_create(m, table, sizeof table, 0, &data, &problem));
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        struct muster_arg args[] = { MUSTER_ALL(data), MUSTER_OUT(out[d]) };
        args[1].bytes = sizeof out[d][0];
        struct muster_task_desc desc = task_of(kernel, args, 2, devices[d]);
        desc.items = ITEMS;
        submit(m, desc);
    }
    MUST(muster_wait(m, NULL, 0, LONG, &problem));
    for (size_t d = 0; d < COUNT_OF(devices); d++)
        for (uint32_t i = 0; i < ITEMS; i++)
            CHECK_EQUAL(2 * (i + 1), out[d][i]);
    MUST(muster_data_destroy(m, data, &problem));
    MUST(muster_close(m, &problem));
}

/* Arguments: data of one number, where to add it, a door or NULL. */
static muster_status add_from(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end;
    struct door *door = *(struct door *const *)args[2];
    if (door)
        door_pass(door);
    atomic_fetch_add(*(_Atomic unsigned *const *)args[1], **(const uint32_t *const *)args[0]);
    return MUSTER_OK;
}

/* Data that a task reads is not dropped under it. */
static void data_stays_while_tasks_read_it(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = SIM_PLAIN;
    options.close_ns = test_patience(50 * MS);
    struct muster *m = open_with(options);
    struct door door = DOOR_INIT, *at_door = &door, *none = NULL;
    _Atomic unsigned sum = 0, *to = &sum;
    static const uint32_t number = 3;
    muster_data data;
    MUST(muster_data_create(m, &number, sizeof number, 0, &data, &problem));
    struct muster_arg args[] = { MUSTER_ALL(data), MUSTER_VALUE(to), MUSTER_VALUE(at_door) };
    struct muster_arg free_args[] = { MUSTER_ALL(data), MUSTER_VALUE(to), MUSTER_VALUE(none) };
    struct muster_kernel *kernel = kernel_of(m, add_from);
    submit(m, task_of(kernel, args, 3, "sim:0"));
    door_wait_arrived(&door, 1);
    struct muster_task_desc descs[8];
    for (size_t i = 0; i < COUNT_OF(descs); i++)
        descs[i] = task_of(kernel, free_args, 3, "sim:0");
    MUST(muster_submit(m, descs, COUNT_OF(descs), NULL, &problem));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_data_destroy(m, data, &problem));
    door_open(&door);
    MUST(muster_wait(m, NULL, 0, LONG, &problem));
    CHECK_EQUAL(27, atomic_load(&sum));
    MUST(muster_data_destroy(m, data, &problem));
    MUST(muster_close(m, &problem));
}

/* Memory for one at a time: the others wait for it. More than there is at all is told. */
static void what_does_not_fit_now_waits(void)
{
    enum { ITEMS = 100, TASKS = 6 };
    static char arrays[TASKS][ITEMS][200 << 10];
    struct muster *m = open_sim("[{\"items_per_s\": 1e5, \"memory\": \"32MiB\"}]");
    struct muster_kernel *kernel = kernel_of(m, do_nothing);
    muster_task tasks[TASKS];
    for (size_t i = 0; i < TASKS; i++) {
        struct muster_arg args[] = { MUSTER_OUT(arrays[i]) };
        struct muster_task_desc desc = task_of(kernel, args, 1, "sim:0");
        desc.items = ITEMS;
        tasks[i] = submit(m, desc);
    }
    for (size_t i = 0; i < TASKS; i++)
        CHECK_STATUS(MUSTER_OK, wait_one(m, tasks[i]));
    struct muster_arg args[] = { MUSTER_OUT(arrays[0]) };
    struct muster_task_desc desc = task_of(kernel, args, 1, "sim:0");
    desc.items = 2 * ITEMS;
    CHECK_STATUS(MUSTER_E_TOO_LARGE, wait_one(m, submit(m, desc)));
    MUST(muster_close(m, &problem));
}

static void no_items_no_launch(void)
{
    struct muster *m = open_plain();
    struct muster_task_desc desc = task_of(kernel_of(m, always_fail), NULL, 0, NULL);
    desc.items = 0;
    CHECK_STATUS(MUSTER_OK, wait_one(m, submit(m, desc)));
    MUST(muster_close(m, &problem));
}

/* What is accepted. */

static void mistakes_are_told(void)
{
    struct muster *m = open_plain(), *other = open_plain();
    struct muster_kernel *kernel = kernel_of(m, do_nothing);
    uint32_t number = 1, another = 2;
    char large[MUSTER_ARG_BYTES_MAX + 1] = { 0 };
    struct muster_task_desc good = task_of(kernel, NULL, 0, NULL), bad;
#define REFUSED(status, ...)                                                                       \
    do {                                                                                           \
        struct muster_arg args[] = { __VA_ARGS__ };                                                \
        bad = task_of(kernel, args, COUNT_OF(args), NULL);                                         \
        CHECK_STATUS(status, muster_submit(m, &bad, 1, NULL, &problem));                           \
    } while (0)
    REFUSED(MUSTER_E_INVALID, { MUSTER_ARG_OF(MUSTER_ARG_VALUE), .bytes = 4 });
    REFUSED(MUSTER_E_INVALID, { MUSTER_ARG_OF(MUSTER_ARG_VALUE), .in = &number });
    REFUSED(MUSTER_E_TOO_LARGE, MUSTER_VALUE(large));
    REFUSED(MUSTER_E_INVALID, { MUSTER_ARG_OF(MUSTER_ARG_IN), .bytes = 4 });
    REFUSED(MUSTER_E_INVALID, { MUSTER_ARG_OF(MUSTER_ARG_OUT), .out = &number });
    REFUSED(MUSTER_E_INVALID,
            { MUSTER_ARG_OF(MUSTER_ARG_INOUT), .in = &number, .out = &another, .bytes = 4 });
    REFUSED(MUSTER_E_INVALID, { .kind = (enum muster_arg_kind)99 });
    REFUSED(MUSTER_E_UNKNOWN, { MUSTER_ARG_OF(MUSTER_ARG_ALL), .data = { 7, 7 } });
    struct muster_arg in[] = { MUSTER_IN(&number) };
    bad = task_of(kernel, in, 1, NULL);
    bad.items = UINT64_MAX / 2;
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_submit(m, &bad, 1, NULL, &problem));
    bad = task_of(kernel, NULL, 1, NULL);
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, &bad, 1, NULL, &problem));
    bad = task_of(kernel, in, MUSTER_ARGS_MAX + 1, NULL);
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_submit(m, &bad, 1, NULL, &problem));
    bad = good;
    bad.hints = &(struct muster_hints){ .size = 0, .min_free = 1 };
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, &bad, 1, NULL, &problem));
    bad = good;
    bad.kernel = NULL;
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, &bad, 1, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(other, &good, 1, NULL, &problem));
    /* All or none. */
    struct muster_task_desc pair[] = { good, bad };
    muster_task tasks[2];
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, pair, 2, tasks, &problem));
    MUST(muster_wait(m, NULL, 0, 0, &problem));
    MUST(muster_close(other, &problem));
    MUST(muster_close(m, &problem));
}

static void nothing_eligible_is_refused_with_reasons(void)
{
    struct muster *m = open_plain();
    struct muster_kernel *kernel = kernel_of(m, do_nothing);
    struct muster_task_desc descs[] = { task_of(kernel, NULL, 0, NULL),
                                        task_of(kernel, NULL, 0, "sim:0") };
    struct muster_hints hints = *descs[1].hints;
    hints.min_free = UINT64_MAX;
    descs[1].hints = &hints;
    CHECK_STATUS(MUSTER_E_NO_DEVICE, muster_submit(m, descs, 2, NULL, &problem));
    CHECK_CONTAINS("sim:0: min_free", problem.text);
    CHECK_CONTAINS("sim:1: devices", problem.text);
    /* None of them was accepted. */
    MUST(muster_wait(m, NULL, 0, 0, &problem));
    CHECK_EQUAL(0, load_of(m, find(m, "cpu:0")).dispatched);
    hints.devices = "sim:9";
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_submit(m, descs, 2, NULL, &problem));
    MUST(muster_close(m, &problem));
}

static muster_status count_call(void *user)
{
    atomic_fetch_add((_Atomic unsigned *)user, 1);
    return MUSTER_OK;
}

/* Sizes of tasks: one for all of a call, and what is not known must not be set. */
static void callers_of_other_versions_are_walked_rightly(void)
{
    struct muster *m = open_plain();
    _Atomic unsigned count = 0;
    struct muster_task_desc descs[3];
    for (size_t i = 0; i < COUNT_OF(descs); i++)
        descs[i] =
            (struct muster_task_desc){ .size = sizeof *descs, .fn = count_call, .user = &count };
    muster_task tasks[3];
    descs[2].size -= 8;
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, descs, 3, tasks, &problem));
    /* And one from the future, that asks for something unknown. */
    struct {
        struct muster_task_desc desc;
        uint64_t more;
    } newer = { .desc = { .size = sizeof newer, .fn = count_call, .user = &count } };
    MUST(muster_submit(m, &newer.desc, 1, tasks, &problem));
    newer.more = 1;
    CHECK_STATUS(MUSTER_E_VERSION, muster_submit(m, &newer.desc, 1, tasks, &problem));
    MUST(muster_wait(m, NULL, 0, LONG, &problem));
    CHECK_EQUAL(1, atomic_load(&count));
    MUST(muster_close(m, &problem));
}

/* Order, callbacks, cancelling. */

struct order {
    _Atomic unsigned next;
    unsigned places[8];
};

static void note(struct order *order, unsigned who)
{
    order->places[who] = atomic_fetch_add(&order->next, 1) + 1;
}

struct noting {
    struct order *order;
    unsigned who;
};

static muster_status note_on_host(void *user)
{
    struct noting *noting = user;
    note(noting->order, noting->who);
    return MUSTER_OK;
}

/* Arguments: the order, who. */
static muster_status note_on_device(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end;
    note(*(struct order *const *)args[0], *(const unsigned *)args[1]);
    return MUSTER_OK;
}

/* Host, device, host, another device, host, in one call, with nobody waiting in between. */
static void order_holds_across_host_and_devices(void)
{
    struct muster *m = open_plain();
    struct order order = { .next = 0 }, *to = &order;
    struct muster_kernel *kernel = kernel_of(m, note_on_device);
    struct noting notings[5];
    struct muster_arg args[5][2];
    struct muster_task_desc descs[5];
    muster_task tasks[5];
    for (unsigned i = 0; i < 5; i++) {
        notings[i] = (struct noting){ &order, i };
        args[i][0] = (struct muster_arg)MUSTER_VALUE(to);
        args[i][1] = (struct muster_arg)MUSTER_VALUE(notings[i].who);
        descs[i] = i % 2 ? task_of(kernel, args[i], 2, i == 1 ? "sim:0" : "cpu:0")
                         : (struct muster_task_desc){ .size = sizeof descs[i],
                                                      .fn = note_on_host,
                                                      .user = &notings[i] };
        descs[i].after = i > 0 ? &tasks[i - 1] : NULL;
        descs[i].after_count = i > 0;
    }
    MUST(muster_submit(m, descs, 5, tasks, &problem));
    CHECK_STATUS(MUSTER_OK, wait_one(m, tasks[4]));
    for (unsigned i = 0; i < 5; i++)
        CHECK_EQUAL(i + 1, order.places[i]);
    MUST(muster_close(m, &problem));
}

struct heard {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned count;
    muster_status last;
};
/* clang-format off */
#define HEARD_INIT { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }
/* clang-format on */

static void hear(void *user, muster_task task, muster_status status)
{
    struct heard *heard = user;
    (void)task;
    pthread_mutex_lock(&heard->mutex);
    heard->count++;
    heard->last = status;
    pthread_cond_broadcast(&heard->changed);
    pthread_mutex_unlock(&heard->mutex);
}

/* False if that does not happen. */
static bool heard_all(struct heard *heard, unsigned count)
{
    struct timespec until;
    int code = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(LONG / SECOND);
    pthread_mutex_lock(&heard->mutex);
    while (heard->count < count && code == 0)
        code = pthread_cond_timedwait(&heard->changed, &heard->mutex, &until);
    bool has = heard->count >= count;
    pthread_mutex_unlock(&heard->mutex);
    return has;
}

/*
 * Law 10: what others hold, streams or memory, is waited for and costs no try. More than there is at all
 * is told, also if each array would fit, and closing does not wait.
 */
static void what_others_hold_is_waited_for(void)
{
    enum { ITEMS = 100 };
    static char arrays[2][ITEMS][100 << 10];
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = "[{\"items_per_s\": 1e8, \"memory\": \"16MiB\"}]";
    options.streams_max = 1;
    options.close_ns = test_patience(200 * MS);
    struct muster *m = open_with(options);
    muster_device device = find(m, "sim:0");
    struct muster_kernel *kernel = kernel_of(m, do_nothing);
    muster_stream stream = acquire(m, device);
    muster_task task = submit(m, task_of(kernel, NULL, 0, "sim:0"));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_wait(m, &task, 1, 5 * MS, &problem));
    MUST(muster_stream_release(m, stream, &problem));
    CHECK_STATUS(MUSTER_OK, wait_one(m, task));
    MUST(muster_close(m, &problem));

    options.streams_max = 4 + 1;
    m = open_with(options);
    device = find(m, "sim:0");
    kernel = kernel_of(m, do_nothing);
    stream = acquire(m, device);
    muster_block held;
    MUST(muster_block_allocate(m, stream, 8 << 20, &held, &problem));
    struct muster_arg args[] = { MUSTER_OUT(arrays[0]), MUSTER_OUT(arrays[1]) };
    struct muster_task_desc desc = task_of(kernel, args, 1, "sim:0");
    desc.items = ITEMS;
    task = submit(m, desc);
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_wait(m, &task, 1, 5 * MS, &problem));
    MUST(muster_block_free(m, stream, held, &problem));
    CHECK_STATUS(MUSTER_OK, wait_one(m, task));
    desc.arg_count = 2;
    CHECK_STATUS(MUSTER_E_TOO_LARGE, wait_one(m, submit(m, desc)));
    muster_data data;
    MUST(muster_data_create(m, arrays[1], sizeof arrays[1], 0, &data, &problem));
    struct muster_arg with_data[] = { MUSTER_ALL(data), args[0] };
    desc.args = with_data;
    CHECK_STATUS(MUSTER_E_TOO_LARGE, wait_one(m, submit(m, desc)));
    desc.args = args;
    MUST(muster_block_allocate(m, stream, 8 << 20, &held, &problem));
    struct heard heard = HEARD_INIT;
    desc.arg_count = 1;
    desc.done = hear;
    desc.user = &heard;
    submit(m, desc);
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(1, heard.count);
    CHECK_STATUS(MUSTER_E_DEVICE_MEMORY, heard.last);
}

/* Nobody waits with muster_wait: what the lane's thread sees to end is told, and what follows is given. */
static void an_end_is_heard_of_without_waiting(void)
{
    struct muster *m = open_plain();
    struct heard heard = HEARD_INIT;
    struct muster_task_desc first = task_of(kernel_of(m, do_nothing), NULL, 0, "sim:0");
    for (unsigned i = 0; i < 20; i++) {
        struct muster_task_desc second = task_of(first.kernel, NULL, 0, "sim:1");
        muster_task before = submit(m, first);
        second.after = &before;
        second.after_count = 1;
        second.done = hear;
        second.user = &heard;
        submit(m, second);
        CHECK(heard_all(&heard, i + 1));
        CHECK_STATUS(MUSTER_OK, heard.last);
    }
    /* After a rest in which the thread has parked. */
    struct door nobody = DOOR_INIT;
    for (int i = 0; i < 4; i++)
        door_linger(&nobody, 100);
    first.done = hear;
    first.user = &heard;
    submit(m, first);
    CHECK(heard_all(&heard, 21));
    MUST(muster_close(m, &problem));
}

static uint64_t ended_so_far(struct muster *m)
{
    struct muster_counters counters = { .size = sizeof counters };
    MUST(muster_counters(m, &counters, &problem));
    return counters.tasks_ended;
}

/* One that nobody wants to hear of takes the short way, also to a lane whose thread has parked. */
static void a_parked_thread_hears_of_a_single_task(void)
{
    struct muster *m = open_sim(SIM_TWO(""));
    struct muster_task_desc desc = { .size = sizeof desc,
                                     .kernel = kernel_of(m, do_nothing),
                                     .items = 1 };
    struct door nobody = DOOR_INIT;
    CHECK_STATUS(MUSTER_OK, wait_one(m, submit(m, desc)));
    for (uint64_t round = 2; round < 5; round++) {
        for (int i = 0; i < 2; i++)
            door_linger(&nobody, 100);
        submit(m, desc);
        for (int i = 0; i < 1500 && ended_so_far(m) < round; i++) {
            struct door again = DOOR_INIT;
            door_linger(&again, 2);
        }
        CHECK_EQUAL(round, ended_so_far(m));
    }
    MUST(muster_close(m, &problem));
}

static void a_failure_cancels_what_follows(void)
{
    struct muster *m = open_plain();
    struct heard heard = HEARD_INIT;
    _Atomic unsigned count = 0, *to = &count;
    struct muster_arg args[] = { MUSTER_VALUE(to) };
    muster_task tasks[3];
    struct muster_task_desc descs[] = {
        task_of(kernel_of(m, always_fail), NULL, 0, NULL),
        task_of(kernel_of(m, count_up), args, 1, NULL),
        { .size = sizeof descs[0], .fn = count_call, .user = &count },
    };
    descs[1].after = &tasks[0];
    descs[2].after = &tasks[1];
    descs[1].after_count = descs[2].after_count = 1;
    descs[1].done = hear;
    descs[1].user = &heard;
    MUST(muster_submit(m, descs, 3, tasks, &problem));
    CHECK_STATUS(MUSTER_E_FAILED, wait_one(m, tasks[0]));
    CHECK_STATUS(MUSTER_E_CANCELLED, wait_one(m, tasks[1]));
    CHECK_STATUS(MUSTER_E_CANCELLED, wait_one(m, tasks[2]));
    CHECK_EQUAL(0, atomic_load(&count));
    CHECK_EQUAL(1, heard.count);
    CHECK_STATUS(MUSTER_E_CANCELLED, heard.last);
    MUST(muster_close(m, &problem));
}

static muster_status stand(void *user)
{
    door_pass(user);
    return MUSTER_OK;
}

static void what_is_not_given_can_be_cancelled(void)
{
    struct muster *m = open_plain();
    struct door door = DOOR_INIT, *at = &door;
    _Atomic unsigned count = 0, *to = &count;
    struct muster_arg args[] = { MUSTER_VALUE(to) }, stand_args[] = { MUSTER_VALUE(at) };
    struct muster_task_desc host = { .size = sizeof host, .fn = stand, .user = &door };
    muster_task first = submit(m, host);
    struct muster_task_desc desc = task_of(kernel_of(m, count_up), args, 1, NULL);
    desc.after = &first;
    desc.after_count = 1;
    muster_task waiting = submit(m, desc), kept = submit(m, desc);
    muster_task given = submit(m, task_of(kernel_of(m, stand_at_door), stand_args, 1, "cpu:0"));
    MUST(muster_cancel(m, waiting, &problem));
    CHECK_STATUS(MUSTER_E_BUSY, muster_cancel(m, given, &problem));
    door_open(&door);
    CHECK_STATUS(MUSTER_E_CANCELLED, wait_one(m, waiting));
    CHECK_STATUS(MUSTER_OK, wait_one(m, kept));
    CHECK_STATUS(MUSTER_OK, wait_one(m, given));
    CHECK_STATUS(MUSTER_E_STALE, muster_cancel(m, given, &problem));
    CHECK_EQUAL(1, atomic_load(&count));
    MUST(muster_close(m, &problem));
}

/* Failures. */

/* Arguments: a number to count down; fails until it is 0. */
static muster_status fail_some(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end;
    return atomic_fetch_sub(*(_Atomic int *const *)args[0], 1) > 0 ? MUSTER_E_FAILED : MUSTER_OK;
}

static void bad_luck_is_tried_elsewhere(void)
{
    struct muster *m = open_plain();
    _Atomic int left = 2, *at = &left;
    struct muster_arg args[] = { MUSTER_VALUE(at) };
    CHECK_STATUS(MUSTER_OK,
                 wait_one(m, submit(m, task_of(kernel_of(m, fail_some), args, 1, NULL))));
    unsigned used = 0;
    const char *devices[] = { "cpu:0", "sim:0", "sim:1" };
    for (size_t i = 0; i < COUNT_OF(devices); i++)
        used += load_of(m, find(m, devices[i])).dispatched > 0;
    CHECK_EQUAL(3, used);
    /* Three tries in all, on one device where there is no other. */
    atomic_store(&left, 3);
    CHECK_STATUS(MUSTER_E_FAILED,
                 wait_one(m, submit(m, task_of(kernel_of(m, fail_some), args, 1, "cpu:0"))));
    CHECK_EQUAL(0, atomic_load(&left));
    MUST(muster_close(m, &problem));
}

/* A kernel's failure that nobody asks for is its stream's. */
static muster_status launch_unasked(void *stream, void *kernel,
                                    const struct muster_launch_desc *launches, size_t count,
                                    struct muster_error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct muster_launch_desc unasked = launches[i];
        unasked.result = NULL;
        muster_status status = backend_cpu.launch(stream, kernel, &unasked, 1, err);
        if (status != MUSTER_OK)
            return status;
    }
    return MUSTER_OK;
}

/* A failed stream takes nothing more: the next try needs another, though the pool is empty. */
static void failed_streams_are_replaced_when_all_are_out(void)
{
    struct muster_backend table = backend_cpu;
    table.name = "brittle";
    table.launch = launch_unasked;
    const struct muster_backend *tables[] = { &table };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.backends = tables;
    options.backend_count = 1;
    options.cpu_workers = 1;
    options.streams_max = 1;
    struct muster *m = open_with(options);
    _Atomic int left = 2, *at = &left;
    struct muster_arg args[] = { MUSTER_VALUE(at) };
    struct muster_kernel *kernel = kernel_of(m, fail_some);
    CHECK_STATUS(MUSTER_OK, wait_one(m, submit(m, task_of(kernel, args, 1, "brittle:0"))));
    CHECK_EQUAL(-1, atomic_load(&left));
    for (unsigned i = 0; i < 10; i++)
        CHECK_STATUS(MUSTER_OK, wait_one(m, submit(m, task_of(kernel, args, 1, "brittle:0"))));
    struct muster_device_load load = load_of(m, find(m, "brittle:0"));
    CHECK_EQUAL(13, load.dispatched);
    CHECK_EQUAL(11, load.completed);
    CHECK_EQUAL(2, load.failed);
    CHECK_EQUAL(1, load.streams_acquired);
    MUST(muster_close(m, &problem));
}

/* Arguments: where to count, an array. */
static muster_status refuse(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end;
    atomic_fetch_add(*(_Atomic unsigned *const *)args[0], 1);
    return MUSTER_E_INVALID;
}

static muster_status spoil(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end;
    atomic_fetch_add(*(_Atomic unsigned *const *)args[0], 1);
    (*(uint32_t *const *)args[1])[0]++;
    return MUSTER_E_FAILED;
}

static void what_the_kernel_refuses_is_final(void)
{
    struct muster *m = open_plain();
    _Atomic unsigned count = 0, *at = &count;
    uint32_t number = 7;
    struct muster_arg args[] = { MUSTER_VALUE(at), MUSTER_INOUT(&number) };
    CHECK_STATUS(MUSTER_E_INVALID,
                 wait_one(m, submit(m, task_of(kernel_of(m, refuse), args, 1, NULL))));
    CHECK_EQUAL(1, atomic_load(&count));
    /* Bad luck, but what it read is written over: a second run would see something else. */
    CHECK_STATUS(MUSTER_E_FAILED,
                 wait_one(m, submit(m, task_of(kernel_of(m, spoil), args, 2, "cpu:0"))));
    CHECK_STATUS(MUSTER_E_FAILED,
                 wait_one(m, submit(m, task_of(kernel_of(m, spoil), args, 2, "sim:0,sim:1"))));
    CHECK_EQUAL(3, atomic_load(&count));
    MUST(muster_close(m, &problem));
}

/* A device is lost with tasks on it: all are done, on the other, values and arrays alike. */
static void a_lost_device_costs_nothing(void)
{
    enum { TASKS = 400, ITEMS = 16 };
    static _Atomic unsigned marks[TASKS];
    static uint32_t in[TASKS][ITEMS], out[TASKS][ITEMS];
    struct muster *m = open_sim(SIM_TWO("{\"kind\": \"lost\", \"at_ms\": 3}"));
    struct muster_kernel *kernel = kernel_of(m, mark), *copying = kernel_of(m, double_up);
    _Atomic unsigned *at = marks;
    for (uint32_t i = 0; i < TASKS; i++) {
        struct muster_arg args[] = { MUSTER_VALUE(at), MUSTER_VALUE(i) };
        struct muster_arg arrays[] = { MUSTER_IN(in[i]), MUSTER_OUT(out[i]) };
        arrays[0].bytes = arrays[1].bytes = sizeof in[i][0];
        atomic_store(&marks[i], 0);
        for (uint32_t k = 0; k < ITEMS; k++)
            in[i][k] = i + k;
        submit(m, task_of(kernel, args, 2, "sim:0,sim:1"));
        if (i % 8 != 0)
            continue;
        struct muster_task_desc desc = task_of(copying, arrays, 2, "sim:0,sim:1");
        desc.items = ITEMS;
        submit(m, desc);
    }
    MUST(muster_wait(m, NULL, 0, LONG, &problem));
    for (uint32_t i = 0; i < TASKS; i++) {
        CHECK(atomic_load(&marks[i]) >= 1);
        for (uint32_t k = 0; k < ITEMS && i % 8 == 0; k++)
            CHECK_EQUAL(2 * (i + k), out[i][k]);
    }
    MUST(muster_close(m, &problem));
}

/* The tasks that are on the device when it is lost are seen to run elsewhere. */
static void tasks_in_flight_move_on(void)
{
    struct muster *m =
        open_sim("[{\"items_per_s\": 10, \"memory\": \"64MiB\", \"faults\": [{\"kind\": \"lost\","
                 " \"at_ms\": 30}]}, {\"items_per_s\": 1e8, \"memory\": \"64MiB\"}]");
    struct muster_kernel *kernel = kernel_of(m, do_nothing);
    uint32_t number = 5;
    struct muster_arg update[] = { MUSTER_INOUT(&number) };
    enum { LARGE, EITHER, UPDATE, ONLY, TASKS };
    muster_task tasks[TASKS];
    /* The other is kept busy with so much that the slow one is chosen. */
    struct muster_task_desc descs[TASKS] = {
        [LARGE] = task_of(kernel, NULL, 0, "sim:1"),
        [EITHER] = task_of(kernel, NULL, 0, "sim:0,sim:1"),
        [UPDATE] = task_of(kernel, update, 1, "sim:0"),
        [ONLY] = task_of(kernel, NULL, 0, "sim:0"),
    };
    descs[LARGE].items = 3000000;
    MUST(muster_submit(m, descs, TASKS, tasks, &problem));
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, wait_one(m, tasks[ONLY]));
    CHECK_STATUS(MUSTER_OK, wait_one(m, tasks[EITHER]));
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, wait_one(m, tasks[UPDATE]));
    CHECK_EQUAL(MUSTER_HEALTH_LOST, load_of(m, find(m, "sim:0")).health);
    MUST(muster_close(m, &problem));
}

static void with_every_device_lost_each_task_fails(void)
{
    struct muster *m = open_sim("[{\"items_per_s\": 100, \"memory\": \"64MiB\", \"faults\":"
                                " [{\"kind\": \"lost\", \"at_ms\": 20}]}]");
    struct heard heard = HEARD_INIT;
    struct muster_task_desc desc = task_of(kernel_of(m, do_nothing), NULL, 0, "sim:0");
    struct muster_task_desc descs[32];
    muster_task tasks[COUNT_OF(descs)];
    desc.done = hear;
    desc.user = &heard;
    for (size_t i = 0; i < COUNT_OF(descs); i++)
        descs[i] = desc;
    MUST(muster_submit(m, descs, COUNT_OF(descs), tasks, &problem));
    CHECK(heard_all(&heard, COUNT_OF(tasks)));
    for (size_t i = 8; i < COUNT_OF(tasks); i++)
        CHECK_STATUS(MUSTER_E_DEVICE_LOST, wait_one(m, tasks[i]));
    CHECK_EQUAL(COUNT_OF(tasks), heard.count);
    CHECK_STATUS(MUSTER_E_NO_DEVICE, muster_submit(m, &desc, 1, NULL, &problem));
    CHECK_CONTAINS("health", problem.text);
    MUST(muster_close(m, &problem));
}

/* A device stops answering: noticed by the time-out, also if nobody waits. */
/* False: `large` was done before the others had a device, so that they need not be on the one that hangs. */
static bool hang_beside(uint64_t large)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.cpu_workers = 2;
    options.sim = SIM_TWO("{\"kind\": \"hang\", \"at_ms\": 0}");
    options.close_ns = test_patience(200 * MS);
    struct muster *m = open_with(options);
    struct heard heard = HEARD_INIT;
    uint32_t number = 1;
    struct muster_arg array[] = { MUSTER_IN(&number) };
    struct muster_kernel *kernel = kernel_of(m, do_nothing);
    enum { LARGE, HOLDS, MOVES, LAST, TASKS };
    muster_task tasks[TASKS];
    struct muster_task_desc descs[TASKS] = {
        [LARGE] = task_of(kernel, NULL, 0, "sim:1"),
        [HOLDS] = task_of(kernel, array, 1, "sim:0,sim:1"),
        [MOVES] = task_of(kernel, NULL, 0, "sim:0,sim:1"),
        [LAST] = task_of(kernel, NULL, 0, "sim:0"),
    };
    descs[LARGE].items = large;
    descs[LAST].timeout_ns = test_patience(30 * MS);
    descs[LAST].done = hear;
    descs[LAST].user = &heard;
    MUST(muster_submit(m, descs, TASKS, tasks, &problem));
    CHECK(heard_all(&heard, 1));
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, heard.last);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, wait_one(m, tasks[LAST]));
    CHECK_STATUS(MUSTER_OK, wait_one(m, tasks[MOVES]));
    /* Its array may still be read there. */
    muster_status held = wait_one(m, tasks[HOLDS]);
    CHECK(held == MUSTER_E_DEVICE_HUNG || held == MUSTER_OK);
    muster_status closed = muster_close(m, &problem);
    CHECK(closed == MUSTER_OK || closed == MUSTER_E_DEVICE_HUNG);
    return held == MUSTER_E_DEVICE_HUNG;
}

static void a_hung_device_is_noticed(void)
{
    uint64_t large = 2000000;
    for (int i = 0; !hang_beside(large); i++, large *= 4)
        CHECK(i < 4);
}

/* Arguments: where to add, two numbers. */
static muster_status add_both(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end;
    uint64_t sum = *(const uint32_t *)args[1] + *(const uint64_t *)args[2];
    atomic_fetch_add(*(_Atomic uint64_t *const *)args[0], sum);
    return MUSTER_OK;
}

/* A task that is run elsewhere, since its device hangs, has the values it was submitted with. */
static void values_move_with_their_task(void)
{
    struct muster *m = open_sim(SIM_TWO("{\"kind\": \"hang\", \"at_ms\": 0}"));
    static _Atomic uint64_t sum;
    _Atomic uint64_t *to = &sum;
    uint32_t small = 7;
    uint64_t large = UINT64_C(1) << 40;
    struct muster_arg args[] = { MUSTER_VALUE(to), MUSTER_VALUE(small), MUSTER_VALUE(large) };
    struct muster_kernel *kernel = kernel_of(m, add_both);
    atomic_store(&sum, 0);
    /* The other is kept busy, and with so much, that the first is chosen. */
    static struct door door;
    struct door *at = &door;
    struct muster_arg stands[] = { MUSTER_VALUE(at) };
    door = (struct door)DOOR_INIT;
    struct muster_task_desc busy = task_of(kernel_of(m, stand_at_door), stands, 1, "sim:1");
    busy.items = 2000000;
    submit(m, busy);
    struct muster_task_desc moves = task_of(kernel, args, 3, "sim:0,sim:1");
    moves.timeout_ns = test_patience(30 * MS);
    muster_task task = submit(m, moves);
    CHECK_EQUAL(1, load_of(m, find(m, "sim:0")).dispatched);
    door_open(&door);
    /* They were copied. */
    small = 0, large = 0;
    CHECK_STATUS(MUSTER_OK, wait_one(m, task));
    CHECK_EQUAL((UINT64_C(1) << 40) + 7, atomic_load(&sum));
    muster_status closed = muster_close(m, &problem);
    CHECK(closed == MUSTER_OK || closed == MUSTER_E_DEVICE_HUNG);
}

/* Many. */

static void a_hundred_thousand_in_a_bounded_table(void)
{
    enum { TASKS = 100000 / PART, AT_ONCE = 100 };
    struct counting counting = COUNTING_INIT;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.cpu_workers = 2;
    options.allocator = counting_allocator(&counting);
    struct muster *m = open_with(options);
    _Atomic unsigned count = 0, *at = &count;
    struct muster_arg args[] = { MUSTER_VALUE(at) };
    struct muster_task_desc descs[AT_ONCE];
    for (size_t i = 0; i < AT_ONCE; i++)
        descs[i] = task_of(kernel_of(m, count_up), args, 1, "cpu:0");
    for (size_t i = 1; i < AT_ONCE; i++)
        descs[i].kernel = descs[0].kernel;
    for (unsigned i = 0; i < TASKS / AT_ONCE; i++)
        MUST(muster_submit(m, descs, AT_ONCE, NULL, &problem));
    CHECK(counting.bytes < 80u << 20);
    MUST(muster_wait(m, NULL, 0, 3 * LONG, &problem));
    CHECK_EQUAL(TASKS, atomic_load(&count));
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, counting.bytes);
    CHECK_EQUAL(0, counting.wrong);
}

struct producer {
    pthread_t thread;
    struct muster *m;
    struct muster_kernel *kernel;
    _Atomic unsigned *marks;
    uint32_t first, count;
    muster_status status;
};

static void *produce(void *argument)
{
    struct producer *producer = argument;
    struct muster_error ignored;
    muster_task before = { 0, 0 };
    for (uint32_t i = 0; i < producer->count && producer->status == MUSTER_OK; i++) {
        uint32_t number = producer->first + i;
        struct muster_arg args[] = { MUSTER_VALUE(producer->marks), MUSTER_VALUE(number) };
        struct muster_task_desc desc = task_of(producer->kernel, args, 2, NULL);
        desc.after = &before;
        desc.after_count = i % 5 == 4;
        muster_task task;
        producer->status = muster_submit(producer->m, &desc, 1, &task, &ignored);
        before = task;
        if (i % 17 == 16 && producer->status == MUSTER_OK)
            producer->status = muster_wait(producer->m, &task, 1, LONG, &ignored);
        /* What was waited for has been done, not merely given. */
        if (i % 17 == 16 && atomic_load(&producer->marks[number]) != 1)
            producer->status = MUSTER_E_INTERNAL;
    }
    return NULL;
}

static void many_producers_each_task_once(void)
{
    enum { PRODUCERS = 4, EACH = 500 };
    static _Atomic unsigned marks[PRODUCERS * EACH];
    struct muster *m = open_plain();
    struct muster_kernel *kernel = kernel_of(m, mark);
    struct producer producers[PRODUCERS];
    for (size_t i = 0; i < COUNT_OF(marks); i++)
        atomic_store(&marks[i], 0);
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){
            .m = m, .kernel = kernel, .marks = marks, .first = i * EACH, .count = EACH
        };
        CHECK_EQUAL(0, pthread_create(&producers[i].thread, NULL, produce, &producers[i]));
    }
    for (uint32_t i = 0; i < PRODUCERS; i++)
        pthread_join(producers[i].thread, NULL);
    for (uint32_t i = 0; i < PRODUCERS; i++)
        CHECK_STATUS(MUSTER_OK, producers[i].status);
    MUST(muster_wait(m, NULL, 0, LONG, &problem));
    for (size_t i = 0; i < COUNT_OF(marks); i++)
        CHECK_EQUAL(1, atomic_load(&marks[i]));
    MUST(muster_close(m, &problem));
}

/* A device that has done its tasks can be cut, and its slices take tasks in its place. */
static void a_device_is_cut_between_tasks(void)
{
    struct muster *m = open_plain();
    struct door door = DOOR_INIT, *at = &door;
    struct muster_arg args[] = { MUSTER_VALUE(at) };
    struct muster_kernel *kernel = kernel_of(m, do_nothing);
    const uint32_t sizes[] = { 3, 5 };
    muster_device slices[2];
    muster_task held = submit(m, task_of(kernel_of(m, stand_at_door), args, 1, "sim:0"));
    CHECK_STATUS(MUSTER_E_BUSY,
                 muster_device_slice(m, find(m, "sim:0"), sizes, 2, slices, &problem));
    door_open(&door);
    CHECK_STATUS(MUSTER_OK, wait_one(m, held));
    MUST(muster_device_slice(m, find(m, "sim:0"), sizes, 2, slices, &problem));
    CHECK_STATUS(MUSTER_OK, wait_one(m, submit(m, task_of(kernel, NULL, 0, "sim:0/1"))));
    CHECK_STATUS(MUSTER_OK, wait_one(m, submit(m, task_of(kernel, NULL, 0, "sim:1"))));
    /* One that cannot be cut goes on taking tasks. */
    CHECK_STATUS(MUSTER_OK, wait_one(m, submit(m, task_of(kernel, NULL, 0, "cpu:0"))));
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED,
                 muster_device_slice(m, find(m, "cpu:0"), sizes, 2, slices, &problem));
    CHECK_STATUS(MUSTER_OK, wait_one(m, submit(m, task_of(kernel, NULL, 0, "cpu:0"))));
    MUST(muster_close(m, &problem));
}

/*
 * A time-out gives up the attempt and no more. The device takes nothing until that has ended, and then
 * works as before; the other slice of the same silicon never notices, nor does a task that has time.
 */
static void a_time_out_costs_one_attempt(void)
{
    struct muster *m = open_plain();
    struct door door = DOOR_INIT, *at = &door;
    struct muster_arg args[] = { MUSTER_VALUE(at) };
    struct muster_kernel *kernel = kernel_of(m, do_nothing);
    static uint32_t in[4] = { 1, 2, 3, 4 }, out[4];
    struct muster_arg arrays[] = { MUSTER_IN(in), MUSTER_OUT(out) };
    const uint32_t sizes[] = { 3, 5 };
    muster_device slices[2];
    MUST(muster_device_slice(m, find(m, "sim:0"), sizes, 2, slices, &problem));
    CHECK_EQUAL(info_of(m, slices[0]).domain, info_of(m, slices[1]).domain);
    struct muster_task_desc late = task_of(kernel_of(m, stand_at_door), args, 1, "sim:0/0");
    late.timeout_ns = test_patience(30 * MS);
    muster_task first = submit(m, late);
    struct muster_task_desc patient = task_of(kernel_of(m, double_up), arrays, 2, "sim:0/0");
    patient.items = 4;
    muster_task second = submit(m, patient);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, wait_one(m, first));
    CHECK_EQUAL(MUSTER_HEALTH_SUSPECT, load_of(m, slices[0]).health);
    CHECK_EQUAL(MUSTER_HEALTH_OK, load_of(m, slices[1]).health);
    struct muster_task_desc small = task_of(kernel, NULL, 0, "sim:0/0");
    CHECK_STATUS(MUSTER_E_NO_DEVICE, muster_submit(m, &small, 1, NULL, &problem));
    muster_stream stream;
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_stream_acquire(m, slices[0], 0, &stream, &problem));
    CHECK_STATUS(MUSTER_OK, wait_one(m, submit(m, task_of(kernel, NULL, 0, "sim:0/1"))));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_wait(m, &second, 1, 1 * MS, &problem));
    door_open(&door);
    CHECK_STATUS(MUSTER_OK, wait_one(m, second));
    CHECK_EQUAL(8, out[3]);
    while (load_of(m, slices[0]).health != MUSTER_HEALTH_OK)
        sched_yield();
    struct muster_device_load load = load_of(m, slices[0]);
    CHECK_EQUAL(0, load.queue_depth);
    CHECK_EQUAL(1, load.failed);
    CHECK_EQUAL(2, load.dispatched);
    for (int i = 0; i < 2 * MANY; i++)
        submit(m, small);
    MUST(muster_wait(m, NULL, 0, LONG, &problem));
    MUST(muster_close(m, &problem));
}

static void stand_and_hear(void *user, muster_task task, muster_status status)
{
    (void)task, (void)status;
    door_pass(user);
}

/* A `done` that does not return holds a thread that runs tasks, and none that watches devices. */
static void a_callback_that_does_not_return_stops_no_watching(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.cpu_workers = 1;
    options.sim = SIM_PLAIN;
    struct muster *m = open_with(options);
    struct door callback = DOOR_INIT, late = DOOR_INIT, *at = &late;
    struct muster_arg args[] = { MUSTER_VALUE(at) };
    struct muster_task_desc told = task_of(kernel_of(m, do_nothing), NULL, 0, "sim:0");
    told.done = stand_and_hear;
    told.user = &callback;
    muster_task first = submit(m, told);
    door_wait_arrived(&callback, 1);
    struct muster_task_desc hangs = task_of(kernel_of(m, stand_at_door), args, 1, "sim:0");
    hangs.timeout_ns = test_patience(20 * MS);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, wait_one(m, submit(m, hangs)));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_wait(m, &first, 1, 1 * MS, &problem));
    door_open(&callback);
    CHECK_STATUS(MUSTER_OK, wait_one(m, first));
    door_open(&late);
    MUST(muster_close(m, &problem));
}

static muster_status do_nothing_on_host(void *user)
{
    (void)user;
    return MUSTER_OK;
}

static uint64_t bytes_out(struct counting *counting)
{
    pthread_mutex_lock(&counting->mutex);
    uint64_t bytes = counting->bytes;
    pthread_mutex_unlock(&counting->mutex);
    return bytes;
}

/*
 * What is given up comes back, time and again, and the records of tasks with it: many rounds take no
 * more memory than two, as records may come back a little after the device does.
 */
static void records_come_back_from_a_hung_device(void)
{
    enum { ROUNDS = 12 };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct counting counting = COUNTING_INIT;
    options.allocator = counting_allocator(&counting);
    options.sim = SIM_PLAIN;
    struct muster *m = open_with(options);
    muster_device device = find(m, "sim:0");
    struct muster_task_desc host = { .size = sizeof host, .fn = do_nothing_on_host };
    CHECK_STATUS(MUSTER_OK, wait_one(m, submit(m, host)));
    uint64_t before = bytes_out(&counting), first = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct door door = DOOR_INIT, *at = &door;
        struct muster_arg args[] = { MUSTER_VALUE(at) };
        struct muster_kernel *kernel = kernel_of(m, stand_at_door);
        struct muster_task_desc late = task_of(kernel, args, 1, "sim:0");
        late.timeout_ns = test_patience(10 * MS);
        muster_task tasks[MANY];
        struct muster_task_desc descs[MANY];
        for (int i = 0; i < MANY; i++)
            descs[i] = late;
        MUST(muster_submit(m, descs, MANY, tasks, &problem));
        for (int i = 0; i < MANY; i++)
            CHECK_STATUS(MUSTER_E_DEVICE_HUNG, wait_one(m, tasks[i]));
        /* Its user may let it go; the device has it until it is done. */
        muster_kernel_destroy(kernel);
        door_open(&door);
        while (load_of(m, device).health != MUSTER_HEALTH_OK)
            sched_yield();
        if (round == 0)
            first = bytes_out(&counting) - before;
    }
    CHECK(bytes_out(&counting) - before <= 2 * first);
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, counting.bytes);
}

/* Closing. */

static void closing_waits_for_what_runs(void)
{
    struct muster *m = open_plain();
    static _Atomic unsigned count;
    _Atomic unsigned *at = &count;
    atomic_store(&count, 0);
    struct heard heard = HEARD_INIT;
    struct muster_arg args[] = { MUSTER_VALUE(at) };
    struct muster_task_desc descs[50];
    for (size_t i = 0; i < COUNT_OF(descs); i++) {
        descs[i] = task_of(i > 0 ? descs[0].kernel : kernel_of(m, count_up), args, 1, NULL);
        descs[i].done = hear;
        descs[i].user = &heard;
    }
    MUST(muster_submit(m, descs, COUNT_OF(descs), NULL, &problem));
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(COUNT_OF(descs), atomic_load(&count));
    CHECK_EQUAL(COUNT_OF(descs), heard.count);
}

/* A task that submits a kernel, whose end submits such a task again, as often as is left. */
struct relay {
    struct muster *m;
    struct muster_kernel *kernel;
    unsigned left, ended;
    _Atomic bool is_inside; /* its sink has begun */
    muster_status worst;
};

static muster_status pass_on(void *user);

static void pass_back(void *user, muster_task task, muster_status status)
{
    (void)task;
    struct relay *relay = user;
    struct muster_task_desc desc = { .size = sizeof desc, .fn = pass_on, .user = relay };
    relay->ended++;
    if (status == MUSTER_OK && relay->left > 0)
        status = muster_submit(relay->m, &desc, 1, NULL, NULL);
    relay->worst = relay->worst == MUSTER_OK ? status : relay->worst;
}

static muster_status pass_on(void *user)
{
    struct relay *relay = user;
    struct muster_task_desc desc = task_of(relay->kernel, NULL, 0, "cpu:0");
    desc.done = pass_back;
    desc.user = relay;
    relay->left--;
    return muster_submit(relay->m, &desc, 1, NULL, NULL);
}

/* What was accepted ends, also if it was submitted by a task that began when the runtime closed. */
static void closing_runs_what_tasks_submit_meanwhile(void)
{
    for (unsigned round = 0; round < 10; round++) {
        struct muster *m = open_plain();
        struct relay relay = { .m = m, .kernel = kernel_of(m, do_nothing), .left = 5 };
        struct muster_task_desc desc = { .size = sizeof desc, .fn = pass_on, .user = &relay };
        /* It begins when somebody waits for it, which nobody does, or at the end. */
        desc.is_awaited = 1;
        submit(m, desc);
        MUST(muster_close(m, &problem));
        CHECK_EQUAL(5, relay.ended);
        CHECK_STATUS(MUSTER_OK, relay.worst);
    }
}

static muster_status take_result(void *user, const struct muster_result *result)
{
    (void)result;
    struct muster_task_desc desc = { .size = sizeof desc, .fn = pass_on, .user = user };
    return muster_submit(((struct relay *)user)->m, &desc, 1, NULL, NULL);
}

/* Starts a job and leaves it to the runtime. */
static muster_status start_job(void *user)
{
    struct relay *relay = user;
    struct muster_job *job;
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .kernel = relay->kernel,
                                    .items = 1,
                                    .sink = take_result,
                                    .sink_user = relay };
    return muster_start(relay->m, &desc, &job, NULL);
}

/* The same for jobs: what a task starts while the runtime closes ends before anything goes. */
static void closing_ends_jobs_that_tasks_start_meanwhile(void)
{
    for (unsigned round = 0; round < 10; round++) {
        struct muster *m = open_plain();
        struct relay relay = { .m = m, .kernel = kernel_of(m, do_nothing), .left = 1 };
        struct muster_task_desc desc = { .size = sizeof desc, .fn = start_job, .user = &relay };
        desc.is_awaited = 1;
        submit(m, desc);
        MUST(muster_close(m, &problem));
        /* It may have been cancelled before its result was there. */
        CHECK_EQUAL(1 - relay.left, relay.ended);
        CHECK_STATUS(MUSTER_OK, relay.worst);
    }
}

/* Tasks that are in the middle of a call when the runtime closes, or make it while it does. */

static muster_status wait_for_kernel(void *user)
{
    struct relay *relay = user;
    struct muster_task_desc desc = task_of(relay->kernel, NULL, 0, "sim:0");
    muster_task task;
    relay->worst = muster_submit(relay->m, &desc, 1, &task, NULL);
    if (relay->worst == MUSTER_OK)
        relay->worst = muster_wait(relay->m, &task, 1, UINT64_MAX, NULL);
    relay->ended++;
    return MUSTER_OK;
}

/* As a kernel of a device that hangs ends, so does a task that waits for it, on any device. */
static void closing_ends_a_task_that_waits_for_a_hung_device(void)
{
    for (int is_awaited = 0; is_awaited < 2; is_awaited++) {
        struct muster_options options = MUSTER_OPTIONS_INIT;
        options.sim = SIM_TWO("{\"kind\": \"hang\", \"at_ms\": 0}");
        options.close_ns = test_patience(100 * MS);
        struct muster *m = open_with(options);
        struct relay relay = { .m = m, .kernel = kernel_of(m, do_nothing) };
        struct muster_task_desc desc = { .size = sizeof desc, .fn = wait_for_kernel };
        desc.user = &relay;
        desc.is_awaited = is_awaited;
        submit(m, desc);
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(m, &problem));
        CHECK_EQUAL(1, relay.ended);
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG, relay.worst);
    }
}

/* Two devices that hang, the second too while the end of a task of the first is told. */
#define SIM_BOTH_HANG                                                                              \
    "[{\"count\": 2, \"items_per_s\": 1e8, \"launch_ns\": 2000, \"memory\": \"64MiB\", "           \
    "\"faults\": [{\"kind\": \"hang\", \"at_ms\": 0}]}]"

static void wait_for_second(void *user, muster_task task, muster_status status)
{
    (void)task, (void)status;
    struct relay *relay = user;
    struct muster_task_desc desc = task_of(relay->kernel, NULL, 0, "sim:1");
    muster_task second;
    relay->worst = muster_submit(relay->m, &desc, 1, &second, NULL);
    if (relay->worst == MUSTER_OK)
        relay->worst = muster_wait(relay->m, &second, 1, UINT64_MAX, NULL);
    relay->ended++;
}

/* The thread that gives a lane up tells its tasks' users, who may wait for another that is to be given up. */
static void closing_ends_a_callback_that_waits_for_a_hung_device(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = SIM_BOTH_HANG;
    options.close_ns = test_patience(100 * MS);
    struct muster *m = open_with(options);
    struct relay relay = { .m = m, .kernel = kernel_of(m, do_nothing) };
    struct muster_task_desc desc = task_of(relay.kernel, NULL, 0, "sim:0");
    desc.done = wait_for_second;
    desc.user = &relay;
    submit(m, desc);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(m, &problem));
    CHECK_EQUAL(1, relay.ended);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, relay.worst);
}

/* A job from start to end within a task, on a device or on all. */
struct inner_job {
    struct muster *m;
    struct muster_kernel *kernel;
    const char *devices;
    _Atomic bool has_begun;
    muster_status status;
};

static muster_status run_inner_job(void *user)
{
    struct inner_job *inner = user;
    struct muster_run_options options = { .size = sizeof options, .devices = inner->devices };
    atomic_store(&inner->has_begun, true);
    inner->status = muster_for(inner->m, inner->kernel, 1000, NULL, 0, &options, NULL, NULL);
    return MUSTER_OK;
}

/* A job belongs to the task that is within it: closing cancels it, and leaves it to that task. */
static void closing_waits_for_a_task_within_a_job(void)
{
    static muster_device devices[64];
    for (unsigned round = 0; round < 30; round++) {
        struct muster *m = open_plain();
        struct muster_kernel *kernel = kernel_of(m, do_nothing);
        struct inner_job inner[4];
        size_t device_count;
        /* Here, not in a task: a driver may leave its thread a stack for signals, which asan unmaps. */
        MUST(muster_device_list(m, devices, COUNT_OF(devices), &device_count, &problem));
        for (size_t i = 0; i < COUNT_OF(inner); i++) {
            inner[i] = (struct inner_job){ .m = m, .kernel = kernel, .status = MUSTER_E_INTERNAL };
            submit(m, (struct muster_task_desc){ .size = sizeof(struct muster_task_desc),
                                                 .fn = run_inner_job,
                                                 .user = &inner[i] });
        }
        while (round % 2 == 0 && !atomic_load(&inner[0].has_begun))
            sched_yield();
        MUST(muster_close(m, &problem));
        for (size_t i = 0; i < COUNT_OF(inner); i++)
            CHECK(inner[i].status == MUSTER_OK || inner[i].status == MUSTER_E_CANCELLED);
    }
}

/* Nor does a job that a task begins when the runtime closes hold that, if its device hangs. */
static void closing_ends_a_task_within_a_job_of_a_hung_device(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = SIM_TWO("{\"kind\": \"hang\", \"at_ms\": 0}");
    options.close_ns = test_patience(100 * MS);
    struct muster *m = open_with(options);
    struct inner_job inner = { .m = m, .kernel = kernel_of(m, do_nothing), .devices = "sim:0" };
    struct muster_task_desc desc = { .size = sizeof desc, .fn = run_inner_job, .user = &inner };
    desc.is_awaited = 1;
    submit(m, desc);
    muster_status status = muster_close(m, &problem);
    /* It may have been cancelled before the device had any of it. */
    CHECK(status == MUSTER_OK || status == MUSTER_E_DEVICE_HUNG);
    CHECK(inner.status == MUSTER_E_CANCELLED || inner.status == MUSTER_E_DEVICE_HUNG);
}

/* A sink that returns when the runtime closes, and submits what starts a job then. */
static muster_status submit_last(void *user, const struct muster_result *result)
{
    (void)result;
    struct relay *relay = user;
    struct muster_task_desc desc = { .size = sizeof desc, .fn = start_job, .user = relay };
    muster_status status = MUSTER_OK;
    atomic_store(&relay->is_inside, true);
    /* From then on jobs are cancelled. */
    while (status == MUSTER_OK)
        status = muster_for(relay->m, relay->kernel, 1, NULL, 0, NULL, NULL, NULL);
    relay->worst = status;
    desc.is_awaited = 1;
    return muster_submit(relay->m, &desc, 1, NULL, NULL);
}

static void closing_ends_jobs_that_start_last(void)
{
    struct muster *m = open_plain();
    struct relay relay = { .m = m, .kernel = kernel_of(m, do_nothing), .left = 1 };
    struct muster_job *job;
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .kernel = relay.kernel,
                                    .items = 1,
                                    .sink = submit_last,
                                    .sink_user = &relay };
    /* Threads that run tasks are parked when the last one comes, and it is left to the end. */
    submit(m, task_of(relay.kernel, NULL, 0, "cpu:0"));
    MUST(muster_wait(m, NULL, 0, LONG, &problem));
    MUST(muster_start(m, &desc, &job, &problem));
    while (!atomic_load(&relay.is_inside))
        sched_yield();
    MUST(muster_close(m, &problem));
    CHECK_STATUS(MUSTER_E_CANCELLED, relay.worst);
}

static void closing_leaves_a_hung_device(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = SIM_TWO("{\"kind\": \"hang\", \"at_ms\": 0}");
    options.close_ns = test_patience(100 * MS);
    struct muster *m = open_with(options);
    struct heard heard = HEARD_INIT;
    struct muster_task_desc desc = task_of(kernel_of(m, do_nothing), NULL, 0, "sim:0");
    desc.done = hear;
    desc.user = &heard;
    for (unsigned i = 0; i < 10; i++)
        submit(m, desc);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(m, &problem));
    CHECK_EQUAL(10, heard.count);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, heard.last);
}

/* Each allocation, or every few, fails once: nothing is lost, and what is accepted ends. */

struct failing {
    struct counting counting;
    _Atomic int64_t left; /* allocations until one fails */
};

static void *failing_allocate(void *user, size_t bytes, size_t alignment)
{
    struct failing *failing = user;
    return atomic_fetch_sub(&failing->left, 1) == 0
               ? NULL
               : counting_allocate(&failing->counting, bytes, alignment);
}

static void failing_release(void *user, void *memory, size_t bytes)
{
    counting_release(&((struct failing *)user)->counting, memory, bytes);
}

static bool run_with_failure(struct failing *failing, int64_t which)
{
    static uint32_t in[4] = { 1, 2, 3, 4 }, out[4];
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster *m;
    atomic_store(&failing->left, which);
    options.allocator = &(struct muster_allocator){ sizeof(struct muster_allocator),
                                                    failing_allocate, failing_release, failing };
    options.cpu_workers = 1;
    options.sim = SIM_PLAIN;
    if (muster_open(&m, &options, &problem) != MUSTER_OK)
        return true;
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = double_up };
    struct muster_kernel *kernel;
    struct muster_arg args[] = { MUSTER_IN(in), MUSTER_OUT(out) };
    args[0].bytes = args[1].bytes = sizeof in[0];
    muster_status status = muster_kernel_from(m, "test", &form, 1, &kernel, &problem);
    const char *devices[] = { "cpu:0", "sim:0" };
    for (size_t d = 0; d < COUNT_OF(devices) && status == MUSTER_OK; d++) {
        struct muster_task_desc desc = task_of(kernel, args, 2, devices[d]);
        muster_task task;
        desc.items = 4;
        memset(out, 0, sizeof out);
        status = muster_submit(m, &desc, 1, &task, &problem);
        if (status == MUSTER_OK)
            status = muster_wait(m, &task, 1, LONG, &problem);
        CHECK(status != MUSTER_E_TIMEOUT);
        CHECK(status != MUSTER_OK || out[3] == 8);
    }
    MUST(muster_close(m, &problem));
    return status != MUSTER_OK || atomic_load(&failing->left) < 0;
}

static void running_out_of_memory_loses_nothing(void)
{
    bool has_failed = true;
    for (int64_t which = 0; which < 2000 && has_failed; which += PART) {
        struct failing failing = { .counting = COUNTING_INIT };
        has_failed = run_with_failure(&failing, which);
        CHECK_EQUAL(0, failing.counting.bytes);
        CHECK_EQUAL(0, failing.counting.wrong);
    }
    CHECK(!has_failed);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(many_in_one_call_each_with_its_values),
        TEST(arrays_are_there_and_come_back),
        TEST(data_is_resident),
        TEST(data_stays_while_tasks_read_it),
        TEST(what_does_not_fit_now_waits),
        TEST(what_others_hold_is_waited_for),
        TEST(no_items_no_launch),
        TEST(mistakes_are_told),
        TEST(nothing_eligible_is_refused_with_reasons),
        TEST(callers_of_other_versions_are_walked_rightly),
        TEST(order_holds_across_host_and_devices),
        TEST(an_end_is_heard_of_without_waiting),
        TEST(a_parked_thread_hears_of_a_single_task),
        TEST(a_failure_cancels_what_follows),
        TEST(what_is_not_given_can_be_cancelled),
        TEST(bad_luck_is_tried_elsewhere),
        TEST(failed_streams_are_replaced_when_all_are_out),
        TEST(what_the_kernel_refuses_is_final),
        TEST(a_lost_device_costs_nothing),
        TEST(tasks_in_flight_move_on),
        TEST(with_every_device_lost_each_task_fails),
        TEST(a_hung_device_is_noticed),
        TEST(values_move_with_their_task),
        TEST(a_hundred_thousand_in_a_bounded_table),
        TEST(many_producers_each_task_once),
        TEST(a_device_is_cut_between_tasks),
        TEST(a_time_out_costs_one_attempt),
        TEST(a_callback_that_does_not_return_stops_no_watching),
        TEST(records_come_back_from_a_hung_device),
        TEST(closing_waits_for_what_runs),
        TEST(closing_runs_what_tasks_submit_meanwhile),
        TEST(closing_ends_jobs_that_tasks_start_meanwhile),
        TEST(closing_ends_a_task_that_waits_for_a_hung_device),
        TEST(closing_ends_a_callback_that_waits_for_a_hung_device),
        TEST(closing_waits_for_a_task_within_a_job),
        TEST(closing_ends_a_task_within_a_job_of_a_hung_device),
        TEST(closing_ends_jobs_that_start_last),
        TEST(closing_leaves_a_hung_device),
        TEST(running_out_of_memory_loses_nothing),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
