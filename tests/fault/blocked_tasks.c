/*
 * Calls of a driver that do not return, underneath tasks with kernels. A call that promised to be back in
 * time is; the tasks of the device end or run elsewhere, those of other devices go on; the runtime
 * closes and names the device. When the calls return after all, late, nothing is disturbed.
 */
#include "backend/sim/sim.h"
#include "faulty_backend.h"
#include "harness.h"

#include <dirent.h>
#include <muster/muster.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MS UINT64_C(1000000)
#define LONG (120 * 1000 * MS)
#define SHORT (5 * MS)
#define TIMEOUT test_patience(40 * MS)
#define ITEMS 64
#define MARKS 8
#define RUNS_MAX 64
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static const char sim[] = "[{\"count\": 2, \"items_per_s\": 1e9, \"memory\": \"16MiB\"}]";

static struct muster_error problem;

#define MUST(call) CHECK_STATUS(MUSTER_OK, call)

static uint32_t outputs[RUNS_MAX][ITEMS];

/* What the tasks of one run write and tell. Static: a call that returns late may still use it. */
static struct scene {
    struct muster *m;
    struct muster_kernel *marking, *copying;
    _Atomic unsigned marks[MARKS];
    _Atomic unsigned twices; /* how often arrays were worked on */
    uint32_t in[ITEMS];
    uint32_t *out; /* for this run alone: a device that hung may still write to an earlier one's */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned heard;
} scene = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

/* Arguments: marks, which one. */
static muster_status mark(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end;
    atomic_fetch_add(&(*(_Atomic unsigned *const *)args[0])[*(const uint32_t *)args[1]], 1);
    return MUSTER_OK;
}

/* Arguments: numbers, where twice as much goes. */
static muster_status twice(uint64_t begin, uint64_t end, void *const *args)
{
    const uint32_t *in = *(const uint32_t *const *)args[0];
    uint32_t *out = *(uint32_t *const *)args[1];
    atomic_fetch_add(&scene.twices, 1);
    for (uint64_t i = begin; i < end; i++)
        out[i] = 2 * in[i];
    return MUSTER_OK;
}

static struct muster_kernel *kernel_of(muster_kernel_function function)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = function };
    struct muster_kernel *kernel = NULL;
    MUST(muster_kernel_from(scene.m, "test", &form, 1, &kernel, &problem));
    return kernel;
}

static void open_scene(const struct faulty_plan *plan)
{
    static unsigned runs;
    const struct muster_backend *backends[] = { faulty_wrap(&backend_sim, plan) };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.backends = backends;
    options.backend_count = 1;
    options.devices = "faulty";
    options.sim = sim;
    options.cpu_workers = 1;
    options.close_ns = test_patience(100 * MS);
    MUST(muster_open(&scene.m, &options, &problem));
    for (size_t i = 0; i < MARKS; i++)
        atomic_store(&scene.marks[i], 0);
    scene.out = outputs[runs++ % RUNS_MAX];
    scene.heard = 0;
    atomic_store(&scene.twices, 0);
    scene.marking = kernel_of(mark);
    scene.copying = kernel_of(twice);
}

/* A task that a thread of its own submits, since the call may not return. */
struct request {
    pthread_t thread;
    const char *devices;
    bool has_arrays, is_from_task;
    bool is_silent; /* nobody hears of its end, so the lane's thread is in no hurry to look */
    uint64_t timeout_ns;
    uint64_t items;               /* 0: as many as it has */
    uint32_t number;              /* of the mark that it sets */
    struct muster_kernel *kernel; /* NULL: one that all share */
    muster_task task;
    unsigned heard; /* how often its end was, and which */
    muster_status ended;
};

static void hear(void *user, muster_task task, muster_status status)
{
    struct request *request = user;
    (void)task;
    pthread_mutex_lock(&scene.lock);
    scene.heard++;
    request->heard++;
    request->ended = status;
    pthread_cond_broadcast(&scene.changed);
    pthread_mutex_unlock(&scene.lock);
}

static bool heard_all(unsigned count)
{
    struct timespec until;
    int code = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(LONG / (1000 * MS));
    pthread_mutex_lock(&scene.lock);
    while (scene.heard < count && code == 0)
        code = pthread_cond_timedwait(&scene.changed, &scene.lock, &until);
    bool has = scene.heard >= count;
    pthread_mutex_unlock(&scene.lock);
    return has;
}

static muster_status submit(struct request *request)
{
    _Atomic unsigned *marks = scene.marks;
    const struct muster_arg values[] = { MUSTER_VALUE(marks), MUSTER_VALUE(request->number) };
    const struct muster_arg arrays[] = { MUSTER_IN(scene.in), MUSTER_OUT(scene.out) };
    struct muster_kernel *shared = request->has_arrays ? scene.copying : scene.marking;
    struct muster_kernel *kernel = request->kernel ? request->kernel : shared;
    const struct muster_task_desc desc = { .size = sizeof desc,
                                           .kernel = kernel,
                                           .user = request,
                                           .done = request->is_silent ? NULL : hear,
                                           .args = request->has_arrays ? arrays : values,
                                           .arg_count = 2,
                                           .items = request->items > 0    ? request->items
                                                    : request->has_arrays ? ITEMS
                                                                          : 1,
                                           .timeout_ns = request->timeout_ns,
                                           .hints = &(struct muster_hints){
                                               .size = sizeof(struct muster_hints),
                                               .devices = request->devices } };
    struct muster_error ignored;
    return muster_submit(scene.m, &desc, 1, &request->task, &ignored);
}

static muster_status submit_within(void *user)
{
    return submit(user);
}

static void *submit_aside(void *argument)
{
    struct request *request = argument;
    const struct muster_task_desc host = { .size = sizeof host,
                                           .fn = submit_within,
                                           .user = request };
    struct muster_error ignored;
    if (request->is_from_task)
        muster_submit(scene.m, &host, 1, NULL, &ignored);
    else
        submit(request);
    return NULL;
}

static void start(struct request *request)
{
    CHECK_EQUAL(0, pthread_create(&request->thread, NULL, submit_aside, request));
}

/* Waits until no thread of a lane's is left: each has come out of the driver and gone. */
static void await_lanes_gone(void)
{
    unsigned left = 1;
    for (unsigned i = 0; i < LONG / MS && left > 0; i++) {
        DIR *tasks = opendir("/proc/self/task");
        left = 0;
        for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
            char path[300], name[32] = "";
            snprintf(path, sizeof path, "/proc/self/task/%.200s/comm", entry->d_name);
            FILE *file = fopen(path, "r");
            left +=
                file && fgets(name, sizeof name, file) && strncmp(name, "muster-kernels", 14) == 0;
            if (file)
                fclose(file);
        }
        if (tasks)
            closedir(tasks);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    CHECK_EQUAL(0, left);
}

static struct muster_device_load load_of(const char *id)
{
    struct muster_device_load load = { .size = sizeof load };
    muster_device device = { 0, 0 };
    MUST(muster_device_find(scene.m, id, &device, &problem));
    MUST(muster_device_load(scene.m, device, &load, &problem));
    return load;
}

/* Nothing counts against the device any more, once the thread has come out of its driver. */
static void await_idle(const char *id)
{
    struct muster_device_load load = load_of(id);
    for (unsigned i = 0; i < LONG / MS &&
                         (load.queue_depth > 0 || load.bytes_in_flight > 0 || load.memory_used > 0);
         i++) {
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        load = load_of(id);
    }
    CHECK_EQUAL(0, load.queue_depth);
    CHECK_EQUAL(0, load.bytes_in_flight);
    CHECK_EQUAL(0, load.memory_used);
}

/*
 * The device takes work again, now that its driver has answered and what was given up has ended. It
 * has been noticed when the device is sound.
 */
static void check_usable_again(uint32_t number)
{
    struct request request = { .devices = "faulty:0", .number = number };
    for (unsigned i = 0; i < LONG / MS && load_of("faulty:0").health != MUSTER_HEALTH_OK; i++)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    CHECK_EQUAL(MUSTER_HEALTH_OK, load_of("faulty:0").health);
    MUST(submit(&request));
    MUST(muster_wait(scene.m, &request.task, 1, LONG, &problem));
    CHECK_EQUAL(1, atomic_load(&scene.marks[number]));
}

/* A task for the other device is taken, run and waited for. */
static void check_other_device(uint32_t number)
{
    struct request request = { .devices = "faulty:1", .number = number };
    MUST(submit(&request));
    MUST(muster_wait(scene.m, &request.task, 1, LONG, &problem));
    CHECK_EQUAL(1, atomic_load(&scene.marks[number]));
}

struct blocked {
    enum faulty_call call;
    bool has_arrays;      /* the task takes the way with copies */
    bool is_from_task;    /* a lane's thread is blocked, not the one that submits */
    muster_status opened; /* how the call ends, late */
};

static const struct blocked blocked_calls[] = {
    { FAULTY_launch, false, false, MUSTER_OK },
    { FAULTY_launch, false, true, MUSTER_OK },
    { FAULTY_launch, false, true, MUSTER_E_DRIVER },
    { FAULTY_event_query, false, false, MUSTER_OK },
    { FAULTY_event_query, false, true, MUSTER_E_STREAM_FAILED },
    { FAULTY_event_record, false, true, MUSTER_OK },
    { FAULTY_stream_open, false, false, MUSTER_OK },
    { FAULTY_stream_open, false, true, MUSTER_E_DRIVER },
    { FAULTY_event_init, false, true, MUSTER_OK },
    { FAULTY_copy, true, false, MUSTER_OK },
    { FAULTY_copy, true, true, MUSTER_E_DRIVER },
    { FAULTY_launch, true, true, MUSTER_OK },
    { FAULTY_event_query, true, true, MUSTER_OK },
    { FAULTY_memory_allocate, true, true, MUSTER_OK },
    { FAULTY_stream_query, false, false, MUSTER_OK },
    { FAULTY_ANY, true, true, MUSTER_OK },
};

/* Whether the device may have run the kernel already. */
static bool is_after_launch(enum faulty_call call)
{
    return call == FAULTY_event_record || call == FAULTY_event_query || call == FAULTY_stream_query;
}

static void begin(const struct blocked *blocked, struct request *request)
{
    /* A stream is asked itself where its event cannot be recorded. */
    const struct faulty_plan plan = { .call = FAULTY_event_record,
                                      .number = blocked->call == FAULTY_stream_query,
                                      .from_then_on = true,
                                      .status = MUSTER_E_NO_MEMORY };
    printf("    %s%s%s, then %s\n", faulty_call_name(blocked->call),
           blocked->has_arrays ? " with copies" : "", blocked->is_from_task ? " by the lane" : "",
           muster_status_name(blocked->opened));
    open_scene(&plan);
    if (blocked->call == FAULTY_ANY) {
        /* To build a kernel may take longer than a task's time. */
        struct request first = { .devices = "faulty:0", .has_arrays = blocked->has_arrays };
        MUST(submit(&first));
        MUST(muster_wait(scene.m, NULL, 0, LONG, &problem));
        scene.heard = 0;
    }
    faulty_block(&(struct faulty_block){ blocked->call, 1, true, 0 });
    if (blocked->call != FAULTY_ANY)
        request->kernel = kernel_of(blocked->has_arrays ? twice : mark);
    request->has_arrays = blocked->has_arrays;
    request->is_from_task = blocked->is_from_task;
    start(request);
    CHECK(faulty_await_blocked(1));
}

/* Without a time-out of the task's: others keep their promises, and closing ends it. */
static void check_waits_and_closing(const struct blocked *blocked)
{
    struct request request = { .devices = "faulty:0" };
    begin(blocked, &request);
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_wait(scene.m, NULL, 0, SHORT, &problem));
    CHECK(faulty_blocked() > 0);
    CHECK_STATUS(MUSTER_E_BUSY, muster_cancel(scene.m, request.task, &problem));
    check_other_device(1);
    /* One more for the same device: a task that submits it is not held. */
    struct request second = { .devices = "faulty:0", .is_from_task = true };
    start(&second);
    pthread_join(second.thread, NULL);
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_wait(scene.m, NULL, 0, SHORT, &problem));
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(scene.m, &problem));
    CHECK_CONTAINS("faulty:0", problem.text);
    CHECK(strcmp("faulty:0", problem.device) == 0);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, request.ended);
    CHECK(faulty_blocked() > 0);
    faulty_unblock(blocked->opened);
    pthread_join(request.thread, NULL);
    await_lanes_gone();
    CHECK_EQUAL(1, request.heard);
    CHECK_EQUAL(1, second.heard);
    CHECK(strcmp("", faulty_mistake()) == 0);
}

static void waits_are_kept_and_closing_ends(void)
{
    for (size_t i = 0; i < COUNT_OF(blocked_calls); i++)
        check_waits_and_closing(&blocked_calls[i]);
}

/* With a time-out: the task ends or moves while the call is blocked, and then the call returns. */
static void check_timeout(const struct blocked *blocked)
{
    struct request request = { .devices = "faulty:0,faulty:1", .timeout_ns = TIMEOUT, .number = 3 };
    begin(blocked, &request);
    CHECK(heard_all(1));
    CHECK(faulty_blocked() > 0);
    /* Arrays are in the device's hands; values are run elsewhere, once. */
    CHECK_STATUS(blocked->has_arrays ? MUSTER_E_DEVICE_HUNG : MUSTER_OK, request.ended);
    unsigned runs = atomic_load(&scene.marks[3]), given = is_after_launch(blocked->call);
    CHECK(blocked->has_arrays ? runs == 0 : runs >= 1 && runs <= 1 + given);
    /* The task has ended, so its kernel may go; the driver still has it. */
    muster_kernel_destroy(request.kernel);
    check_other_device(1);
    MUST(muster_wait(scene.m, NULL, 0, LONG, &problem));
    struct muster_device_load load = load_of("faulty:1");
    CHECK_EQUAL(0, load.queue_depth);
    CHECK_EQUAL(0, load.memory_used);
    /* Hung, and not lost: it is given nothing as long as the call is blocked. */
    CHECK_EQUAL(MUSTER_HEALTH_SUSPECT, load_of("faulty:0").health);
    struct request refused = { .devices = "faulty:0", .number = 4 };
    CHECK_STATUS(MUSTER_E_NO_DEVICE, submit(&refused));
    faulty_unblock(blocked->opened);
    pthread_join(request.thread, NULL);
    await_idle("faulty:0");
    check_other_device(2);
    check_usable_again(5);
    MUST(muster_close(scene.m, &problem));
    await_lanes_gone();
    CHECK_EQUAL(1, request.heard);
    /* What was given up before its launch is not launched when the call returns. */
    if (blocked->call == FAULTY_copy || blocked->call == FAULTY_memory_allocate)
        CHECK_EQUAL(0, atomic_load(&scene.twices));
    CHECK(strcmp("", faulty_mistake()) == 0);
    for (int kind = 0; kind < FAULTY_OBJECT_COUNT; kind++)
        CHECK_EQUAL(0, faulty_live((enum faulty_object)kind));
    faulty_bury();
}

static void a_time_out_fires_while_a_call_blocks(void)
{
    for (size_t i = 0; i < COUNT_OF(blocked_calls); i++)
        check_timeout(&blocked_calls[i]);
}

/* Memory is freed when somebody sees that a task has finished with it: a later one, for instance. */
static void a_free_that_blocks_holds_nobody(void)
{
    enum { TASKS_MAX = 500 };
    static struct request requests[TASKS_MAX];
    const struct faulty_plan none = { .number = 0 };
    unsigned count = 0;
    open_scene(&none);
    faulty_block(&(struct faulty_block){ FAULTY_memory_free, 1, true, 0 });
    while (count < TASKS_MAX && faulty_blocked() == 0) {
        struct request *request = &requests[count++];
        *request =
            (struct request){ .devices = "faulty:0", .has_arrays = true, .is_from_task = true };
        start(request);
        pthread_join(request->thread, NULL);
        muster_wait(scene.m, NULL, 0, SHORT, &problem);
    }
    CHECK(faulty_await_blocked(1));
    check_other_device(1);
    muster_status closed = muster_close(scene.m, &problem);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, closed);
    CHECK_CONTAINS("faulty:0", problem.text);
    faulty_unblock(MUSTER_OK);
    await_lanes_gone();
    for (unsigned i = 0; i < count; i++)
        CHECK_EQUAL(1, requests[i].heard);
    CHECK(strcmp("", faulty_mistake()) == 0);
}

/* Ends a scene in which the first device does not answer queries. */
static void close_blocked(void)
{
    CHECK(faulty_await_blocked(1));
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(scene.m, &problem));
    faulty_unblock(MUSTER_OK);
    await_lanes_gone();
    CHECK(strcmp("", faulty_mistake()) == 0);
}

static void open_without_answers(void)
{
    const struct faulty_plan none = { .number = 0 };
    open_scene(&none);
    faulty_block(&(struct faulty_block){ FAULTY_event_query, 1, true, 0 });
}

/* A waiting thread would be the first to ask the driver, at once after it has submitted. */
static void a_wait_that_must_end_asks_no_driver(void)
{
    struct request first = { .devices = "faulty:0", .is_silent = true };
    struct request second = { .devices = "faulty:1", .is_silent = true };
    /* It has a time-out itself. */
    open_without_answers();
    MUST(submit(&first));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_wait(scene.m, &first.task, 1, SHORT, &problem));
    close_blocked();
    /* The task has. */
    open_without_answers();
    first.timeout_ns = TIMEOUT;
    MUST(submit(&first));
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_wait(scene.m, &first.task, 1, UINT64_MAX, &problem));
    close_blocked();
    /* It waits for another device's. */
    open_without_answers();
    first.timeout_ns = 0;
    MUST(submit(&first));
    MUST(submit(&second));
    MUST(muster_wait(scene.m, &second.task, 1, UINT64_MAX, &problem));
    close_blocked();
}

/* Stays until the gate is open. */
static _Atomic bool is_open;

static muster_status stand(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end, (void)args;
    while (!atomic_load(&is_open))
        nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
    return MUSTER_OK;
}

/*
 * While one task is given up, another is on its way through a launch that is slow and then fails: the
 * thread that launches still has that one, and brings it to another device.
 */
static void a_launch_under_way_keeps_its_task(void)
{
    const struct faulty_plan none = { .number = 0 };
    struct request first = { .devices = "faulty:0" }, late = { .devices = "faulty:0" };
    struct request other = { .devices = "faulty:1", .number = 1 };
    struct request second = { .devices = "faulty:0,faulty:1", .number = 2 };
    atomic_store(&is_open, false);
    open_scene(&none);
    /* The kernel is built on both. */
    MUST(submit(&first));
    MUST(submit(&other));
    MUST(muster_wait(scene.m, NULL, 0, LONG, &problem));
    scene.heard = 0;
    late.kernel = other.kernel = kernel_of(stand);
    late.timeout_ns = TIMEOUT;
    other.is_silent = true;
    /* The other device has far more to do, so that the first is chosen. */
    other.items = 1000000;
    for (int i = 0; i < 16; i++)
        MUST(submit(&other));
    MUST(submit(&late));
    faulty_block(&(struct faulty_block){ FAULTY_launch, 1, true, 0 });
    start(&second);
    CHECK(faulty_await_blocked(1));
    CHECK(heard_all(1));
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, late.ended);
    faulty_unblock(MUSTER_E_DRIVER);
    pthread_join(second.thread, NULL);
    atomic_store(&is_open, true);
    CHECK(heard_all(2));
    CHECK_STATUS(MUSTER_OK, second.ended);
    CHECK_EQUAL(1, second.heard);
    CHECK_EQUAL(1, atomic_load(&scene.marks[2]));
    check_usable_again(5);
    MUST(muster_close(scene.m, &problem));
    CHECK(strcmp("", faulty_mistake()) == 0);
    faulty_bury();
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(waits_are_kept_and_closing_ends),   TEST(a_time_out_fires_while_a_call_blocks),
        TEST(a_free_that_blocks_holds_nobody),   TEST(a_wait_that_must_end_asks_no_driver),
        TEST(a_launch_under_way_keeps_its_task),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
