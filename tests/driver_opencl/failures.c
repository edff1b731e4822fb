/*
 * Commands that the driver accepts and that fail later, and devices that are lost with work in
 * flight: what the interface promises for them.
 */
#include "conformance/rig.h"
#include "control.h"

#include "backend/opencl/opencl.h"
#include "platform/thread.h"
#include <muster/muster.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define EXIT_SKIPPED 77
#define CODE (-5)
#define ILLEGAL_ACCESS (-9999)

static const char source[] = "kernel void add(ulong begin, ulong items, global uchar *block,\n"
                             "                ulong offset, uchar value)\n"
                             "{\n"
                             "    ulong i = get_global_id(0);\n"
                             "    if (i < items)\n"
                             "        block[offset + begin + i] += value;\n"
                             "}\n";

static struct rig *open_rig(void)
{
    loader.set(DOUBLE_WELL, 0, 0);
    loader.forget_callbacks(0);
    return rig_open(&backend_opencl, NULL);
}

static void *kernel_of(struct rig *rig, const char *text, const char *entry, uint32_t threads,
                       muster_status expected)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_OPENCL,
                                             .code = text,
                                             .code_bytes = strlen(text),
                                             .entry = entry,
                                             .threads = threads };
    void *kernel = rig_state(rig->table.kernel_bytes);
    rig_clear_error(rig);
    CHECK_STATUS(expected, rig->table.kernel_init(rig->device, &form, kernel, &rig->err));
    if (expected == MUSTER_OK)
        return kernel;
    rig_state_free(kernel);
    return NULL;
}

static void kernel_free(struct rig *rig, void *kernel)
{
    rig->table.kernel_deinit(kernel);
    rig_state_free(kernel);
}

static void launch_add(struct rig *rig, void *stream, void *kernel, struct muster_memory *memory,
                       muster_status *result)
{
    const unsigned char value = 1;
    const struct muster_launch_arg args[] = { ARG_MEMORY(memory), ARG_VALUE(value) };
    rig_launch(rig, stream, kernel, 0, 10, args, 2, result);
}

/* On NVIDIA's devices a failed command is a lost device, and this is not looked for. */
static bool fails_whole(void)
{
    return getenv("DOUBLE_NVIDIA") != NULL;
}

struct log {
    _Atomic int count;
    muster_status statuses[8];
};

static void write_down(void *user, muster_status status)
{
    struct log *log = user;
    int at = atomic_load(&log->count);
    if (at < 8)
        log->statuses[at] = status;
    atomic_store(&log->count, at + 1);
}

/* A failure that is there at once, and one that comes when everything has been given. */
static void a_failed_command_fails_what_follows(enum double_mode mode)
{
    struct rig *rig = open_rig();
    void *stream = rig_stream(rig), *waiting = rig_stream(rig), *well = rig_stream(rig);
    void *before = rig_event(rig), *after = rig_event(rig), *late = rig_event(rig);
    void *kernel = kernel_of(rig, source, "add", 0, MUSTER_OK);
    struct muster_memory *memory = rig_memory(rig, 10);
    unsigned char *host = rig_host(rig, 10);
    muster_status *results = rig_host(rig, 2 * sizeof *results);
    struct log *log = rig_host(rig, sizeof *log), *waiting_log = rig_host(rig, sizeof *log);
    rig_fill(rig, well, memory, 0, 1, 10);
    FINISHES(rig, well);
    DO(rig, event_record, before, stream);
    DO(rig, host_call, stream, write_down, log);
    loader.set(mode, 1, CODE);
    launch_add(rig, stream, kernel, memory, &results[0]);
    loader.set(mode == DOUBLE_LATE ? DOUBLE_WELL : mode, 0, CODE);
    launch_add(rig, stream, kernel, memory, &results[1]);
    rig_fill(rig, stream, memory, 0, 9, 10);
    DO(rig, host_call, stream, write_down, log);
    DO(rig, event_record, after, stream);
    DO(rig, stream_wait, waiting, after);
    rig_fill(rig, waiting, memory, 0, 8, 10);
    DO(rig, host_call, waiting, write_down, waiting_log);
    if (mode == DOUBLE_LATE)
        CHECK_STATUS(MUSTER_E_BUSY, rig->table.event_query(after, NULL));
    loader.fail_now();
    COMPLETES(rig, MUSTER_E_STREAM_FAILED, after);
    CHECK_EQUAL(CODE, results[0] == MUSTER_E_FAILED ? CODE : 0);
    CHECK_STATUS(MUSTER_E_STREAM_FAILED, results[1]);
    COMPLETES(rig, MUSTER_OK, before);
    ENDS_WITH(rig, MUSTER_E_STREAM_FAILED, waiting);
    /* The calls came, in order, and before the events behind them. */
    CHECK_EQUAL(2, atomic_load(&log->count));
    CHECK_STATUS(MUSTER_OK, log->statuses[0]);
    CHECK_STATUS(MUSTER_E_STREAM_FAILED, log->statuses[1]);
    CHECK_EQUAL(1, atomic_load(&waiting_log->count));
    CHECK_STATUS(MUSTER_E_STREAM_FAILED, waiting_log->statuses[0]);
    /* Given later it is skipped as well, and others work on. */
    launch_add(rig, stream, kernel, memory, &results[1]);
    CHECK_STATUS(MUSTER_E_STREAM_FAILED, results[1]);
    DO(rig, host_call, stream, write_down, log);
    DO(rig, event_record, late, stream);
    COMPLETES(rig, MUSTER_E_STREAM_FAILED, late);
    CHECK_EQUAL(3, atomic_load(&log->count));
    DO(rig, stream_wait, well, before);
    rig_copy_out(rig, well, host, memory, 0, 10);
    FINISHES(rig, well);
    for (int i = 0; i < 10; i++)
        CHECK_EQUAL(1, host[i]);
    /* One that waits for the failure now fails too, after what it was given before. */
    rig_fill(rig, well, memory, 0, 5, 10);
    DO(rig, event_record, before, well);
    DO(rig, stream_wait, well, after);
    ENDS_WITH(rig, MUSTER_E_STREAM_FAILED, well);
    COMPLETES(rig, MUSTER_OK, before);
    kernel_free(rig, kernel);
    rig_close_broken(rig, MUSTER_OK);
}

static void a_failure_reaches_what_follows(void)
{
    if (!fails_whole())
        a_failed_command_fails_what_follows(DOUBLE_FAILED);
}

static void a_late_failure_reaches_what_waits(void)
{
    if (!fails_whole())
        a_failed_command_fails_what_follows(DOUBLE_LATE);
}

struct lock {
    _Atomic bool is_open, is_reached;
};

static void hold(void *user, muster_status status)
{
    struct lock *lock = user;
    (void)status;
    atomic_store(&lock->is_reached, true);
    while (!atomic_load(&lock->is_open))
        platform_thread_yield();
}

/* The driver makes no callback any more; what was unfinished is answered from the mark. */
static void lose_a_device(int code)
{
    struct rig *rig = open_rig();
    void *held = rig_stream(rig), *idle = rig_stream(rig);
    void *done = rig_event(rig), *unfinished = rig_event(rig), *fresh = rig_event(rig);
    void *kernel = kernel_of(rig, source, "add", 0, MUSTER_OK);
    struct muster_memory *memory = rig_memory(rig, 10);
    static struct lock locks[2]; /* outlive the rig, and a test that fails */
    static struct log logs[2];
    struct lock *lock = &locks[code == CODE];
    struct log *log = &logs[code == CODE];
    muster_status *result = rig_host(rig, sizeof *result);
    const struct muster_place place = { .memory = memory };
    rig_fill(rig, held, memory, 0, 1, 10);
    DO(rig, event_record, done, held);
    DO(rig, host_call, held, hold, lock);
    launch_add(rig, held, kernel, memory, result);
    DO(rig, host_call, held, write_down, log);
    DO(rig, host_call, held, write_down, log);
    DO(rig, event_record, unfinished, held);
    while (!atomic_load(&lock->is_reached))
        platform_thread_yield();
    loader.forget_callbacks(1);
    loader.set(DOUBLE_LOST, 0, code);
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, rig->table.fill(idle, &place, 1, 10, &rig->err));
    CHECK_CONTAINS("lost", rig->err.text);
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, rig->table.event_wait(unfinished, SOON_NS, &rig->err));
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, *result);
    CHECK_STATUS(MUSTER_OK, rig->table.event_query(done, &rig->err));
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, rig->table.event_record(fresh, idle, &rig->err));
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, rig->table.host_call(idle, write_down, log, &rig->err));
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, rig->table.stream_query(idle, &rig->err));
    atomic_store(&lock->is_open, true);
    kernel_free(rig, kernel);
    rig_close_broken(rig, MUSTER_OK);
    loader.set(DOUBLE_WELL, 0, 0);
    CHECK_EQUAL(2, atomic_load(&log->count));
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(MUSTER_E_DEVICE_LOST, log->statuses[i]);
}

static void a_lost_device_answers_from_the_mark(void)
{
    lose_a_device(CODE);
}

static void an_illegal_access_loses_the_device(void)
{
    lose_a_device(ILLEGAL_ACCESS);
}

static void what_follows_a_call_waits_for_it(void)
{
    struct rig *rig = open_rig();
    static struct lock lock;
    void *stream = rig_stream(rig), *after = rig_event(rig);
    struct muster_memory *memory = rig_memory(rig, 10);
    DO(rig, host_call, stream, hold, &lock);
    rig_fill(rig, stream, memory, 0, 1, 10);
    DO(rig, event_record, after, stream);
    while (!atomic_load(&lock.is_reached))
        platform_thread_yield();
    REFUSED(rig, MUSTER_E_TIMEOUT, event_wait, after, LOOK_NS);
    atomic_store(&lock.is_open, true);
    COMPLETES(rig, MUSTER_OK, after);
    rig_close(rig);
}

/* The driver's callbacks are only hints. */
static void calls_and_waits_need_no_callbacks(void)
{
    const uint64_t bytes = 4 << 20; /* so that a call is not due yet when it is given */
    int64_t live = loader.live();
    loader.delay_callbacks(1);
    struct rig *rig = open_rig();
    void *stream = rig_stream(rig), *done = rig_event(rig);
    struct muster_memory *memory = rig_memory(rig, bytes);
    struct log *log = rig_host(rig, sizeof *log);
    loader.forget_callbacks(1);
    for (int i = 0; i < 5; i++) {
        rig_fill(rig, stream, memory, 0, 1, bytes);
        DO(rig, host_call, stream, write_down, log);
    }
    DO(rig, event_record, done, stream);
    COMPLETES(rig, MUSTER_OK, done);
    CHECK_EQUAL(5, atomic_load(&log->count));
    rig_close(rig);
    /* They might still come, and look at what they are for. */
    CHECK(loader.live() > live);
    loader.forget_callbacks(0);
    loader.delay_callbacks(0);
}

/* Also when its completion was seen long before. */
static void an_event_is_held_until_its_callback_has_come(void)
{
    loader.delay_callbacks(1);
    struct rig *rig = open_rig();
    static struct lock lock;
    void *stream = rig_stream(rig), *done = rig_event(rig);
    struct muster_memory *memory = rig_memory(rig, 10);
    struct log *log = rig_host(rig, sizeof *log);
    uint64_t asked = loader.callbacks();
    DO(rig, host_call, stream, hold, &lock);
    while (!atomic_load(&lock.is_reached))
        platform_thread_yield();
    for (int i = 0; i < 3; i++) {
        DO(rig, event_record, done, stream);
        REFUSED(rig, MUSTER_E_TIMEOUT, event_wait, done, LOOK_NS);
    }
    atomic_store(&lock.is_open, true);
    for (int i = 0; i < 20; i++) {
        rig_fill(rig, stream, memory, 0, 1, 10);
        DO(rig, host_call, stream, write_down, log);
        DO(rig, event_record, done, stream);
        COMPLETES(rig, MUSTER_OK, done);
    }
    /* Of what is over when it is looked at none are asked for. */
    CHECK(loader.callbacks() >= asked + 3);
    rig_close(rig);
    loader.delay_callbacks(0);
}

static void a_device_is_closed_when_its_callbacks_have_come(void)
{
    int64_t live = loader.live();
    loader.delay_callbacks(1);
    struct rig *rig = open_rig();
    void *stream = rig_stream(rig), *done = rig_event(rig);
    struct muster_memory *memory = rig_memory(rig, 10);
    struct log *log = rig_host(rig, sizeof *log);
    rig_fill(rig, stream, memory, 0, 1, 10);
    DO(rig, host_call, stream, write_down, log);
    DO(rig, event_record, done, stream);
    COMPLETES(rig, MUSTER_OK, done);
    rig_close(rig);
    CHECK_EQUAL(live, loader.live());
    loader.delay_callbacks(0);
}

/* A host call that the driver has no event for is refused, and is not made out of its order. */
static void a_call_without_its_event_is_refused(void)
{
    struct rig *rig = open_rig();
    struct log *log = rig_host(rig, sizeof *log);
    for (uint64_t at = 1; at <= 2; at++) {
        void *stream = rig_stream(rig);
        int before = atomic_load(&log->count);
        loader.set(DOUBLE_ONCE, at, CODE);
        muster_status status = rig->table.host_call(stream, write_down, log, &rig->err);
        bool is_failed = loader.count() >= at;
        loader.set(DOUBLE_WELL, 0, 0);
        CHECK(is_failed);
        CHECK_STATUS(MUSTER_E_DRIVER, status);
        DO(rig, host_call, stream, write_down, log);
        FINISHES(rig, stream);
        CHECK_EQUAL(before + 1, atomic_load(&log->count));
    }
    rig_close(rig);
}

/* A callback finds its own device among those that are open, whichever was opened last. */
static void callbacks_find_their_own_device(void)
{
    int64_t live = loader.live();
    loader.delay_callbacks(1);
    for (int first = 0; first < 2; first++) {
        struct rig *rigs[2];
        for (int i = 0; i < 2; i++)
            rigs[i] = open_rig();
        for (int i = 0; i < 2; i++) {
            static struct lock locks[2][2];
            struct lock *lock = &locks[first][i];
            void *stream = rig_stream(rigs[i]), *done = rig_event(rigs[i]);
            DO(rigs[i], host_call, stream, hold, lock);
            while (!atomic_load(&lock->is_reached))
                platform_thread_yield();
            DO(rigs[i], event_record, done, stream);
            REFUSED(rigs[i], MUSTER_E_TIMEOUT, event_wait, done, LOOK_NS);
            atomic_store(&lock->is_open, true);
            COMPLETES(rigs[i], MUSTER_OK, done);
        }
        /* Closing waits for the callbacks that are due, and lets go of what they needed. */
        rig_close(rigs[first]);
        rig_close(rigs[1 - first]);
        CHECK_EQUAL(live, loader.live());
    }
    loader.delay_callbacks(0);
}

/* As MUSTER_OPENCL_CALLBACKS=0 asks for it; what is over is found all the same, and soon. */
static void a_driver_can_be_asked_for_no_callbacks(void)
{
    uint64_t asked = loader.callbacks();
    setenv("MUSTER_OPENCL_CALLBACKS", "0", 1);
    struct rig *rig = open_rig();
    unsetenv("MUSTER_OPENCL_CALLBACKS");
    static struct lock lock;
    void *stream = rig_stream(rig), *done = rig_event(rig);
    struct log *log = rig_host(rig, sizeof *log);
    DO(rig, host_call, stream, hold, &lock);
    DO(rig, host_call, stream, write_down, log);
    DO(rig, event_record, done, stream);
    REFUSED(rig, MUSTER_E_TIMEOUT, event_wait, done, LOOK_NS);
    atomic_store(&lock.is_open, true);
    COMPLETES(rig, MUSTER_OK, done);
    CHECK_EQUAL(1, atomic_load(&log->count));
    rig_close(rig);
    CHECK_EQUAL(asked, loader.callbacks());
}

/* Want of registers is no lost device. */
static void resources_that_lack_cost_one_request(void)
{
    struct rig *rig = open_rig();
    void *stream = rig_stream(rig), *kernel = kernel_of(rig, source, "add", 0, MUSTER_OK);
    struct muster_memory *memory = rig_memory(rig, 10);
    unsigned char value = 1;
    const struct muster_launch_arg args[] = { ARG_MEMORY(memory), ARG_VALUE(value) };
    const struct muster_launch_desc launch = { .items = 10, .args = args, .arg_count = 2 };
    rig_fill(rig, stream, memory, 0, 1, 10);
    FINISHES(rig, stream);
    loader.set(DOUBLE_ONCE, 6, CODE); /* four arguments of the kernel, begin, items */
    muster_status status = rig->table.launch(stream, kernel, &launch, 1, &rig->err);
    loader.set(DOUBLE_WELL, 0, 0);
    CHECK_STATUS(MUSTER_E_DRIVER, status);
    CHECK_EQUAL(CODE, rig->err.driver_code);
    FINISHES(rig, stream);
    kernel_free(rig, kernel);
    rig_close(rig);
}

static char logged[4096];

static void keep_log(const struct muster_services *services, enum muster_log_level level,
                     const char *text)
{
    (void)services, (void)level;
    size_t used = strlen(logged);
    snprintf(logged + used, sizeof logged - used, "%s\n", text);
}

static void a_source_that_does_not_build_says_why(void)
{
    struct rig *rig = open_rig();
    rig->services.log = keep_log;
    logged[0] = 0;
    kernel_of(rig, "kernel void add(ulong begin, ulong items) { undeclared_word = 1; }", "add", 0,
              MUSTER_E_PARSE);
    CHECK_CONTAINS("add does not build", rig->err.text);
    CHECK_CONTAINS("undeclared_word", logged);
    CHECK(rig->err.driver_code != 0);
    kernel_of(rig, source, "no_such_entry", 0, MUSTER_E_INVALID);
    CHECK_CONTAINS("no_such_entry", rig->err.text);
    kernel_of(rig, source, "add", 1u << 30, MUSTER_E_TOO_LARGE);
    CHECK_CONTAINS("groups of 1073741824", rig->err.text);
    /* And the device is none the worse for it. */
    kernel_free(rig, kernel_of(rig, source, "add", 1, MUSTER_OK));
    rig_close(rig);
}

static void arguments_that_do_not_fit_are_refused(void)
{
    struct rig *rig = open_rig();
    void *stream = rig_stream(rig), *kernel = kernel_of(rig, source, "add", 0, MUSTER_OK);
    struct muster_memory *memory = rig_memory(rig, 10);
    unsigned char value = 1;
    uint64_t wide = 1;
    struct muster_launch_arg args[] = { ARG_MEMORY(memory), ARG_VALUE(value), ARG_VALUE(value) };
    struct muster_launch_desc launch = { .items = 10, .args = args, .arg_count = 3 };
    REFUSED(rig, MUSTER_E_INVALID, launch, stream, kernel, &launch, 1);
    CHECK_CONTAINS("the kernel has 5", rig->err.text);
    launch.arg_count = 1;
    REFUSED(rig, MUSTER_E_INVALID, launch, stream, kernel, &launch, 1);
    launch.arg_count = 2;
    args[1] = (struct muster_launch_arg)ARG_VALUE(wide);
    REFUSED(rig, MUSTER_E_INVALID, launch, stream, kernel, &launch, 1);
    CHECK_CONTAINS("argument 1", rig->err.text);
    args[1] = (struct muster_launch_arg)ARG_VALUE(value);
    DO(rig, launch, stream, kernel, &launch, 1);
    FINISHES(rig, stream);
    kernel_free(rig, kernel);
    rig_close(rig);
}

static void one_piece_has_a_limit(void)
{
    struct rig *rig = open_rig();
    struct muster_memory memory = { .bytes = 12345 };
    REFUSED(rig, MUSTER_E_DEVICE_MEMORY, memory_allocate, rig->device, NULL,
            rig->info->memory_total, &memory);
    CHECK(strstr(rig->err.text, "at most") || strstr(rig->err.text, "no memory"));
    CHECK_EQUAL(12345, memory.bytes);
    rig_close(rig);
}

/* PoCL drives the processor, which cpu:0 is; as a GPU that nobody else has it is not hidden. */
static void the_same_silicon_is_listed_once(void)
{
    struct muster *m;
    struct muster_error problem;
    struct muster_backend_report reports[8];
    muster_device devices[64];
    size_t count, backends, doubles = 0;
    loader.set(DOUBLE_WELL, 0, 0);
    CHECK_STATUS(MUSTER_OK, muster_open(&m, NULL, &problem));
    CHECK_STATUS(MUSTER_OK, muster_device_list(m, devices, 64, &count, &problem));
    for (size_t i = 0; i < count; i++) {
        struct muster_device_info info = { .size = sizeof info };
        CHECK_STATUS(MUSTER_OK, muster_device_info(m, devices[i], &info, &problem));
        doubles += strcmp(info.backend, "opencl") == 0;
    }
    CHECK((doubles > 0) == fails_whole());
    for (size_t i = 0; i < 8; i++)
        reports[i].size = sizeof reports[i];
    CHECK_STATUS(MUSTER_OK, muster_backend_list(m, reports, 8, &backends, &problem));
    for (size_t i = 0; i < backends; i++)
        if (strcmp(reports[i].name, "opencl") == 0 && !fails_whole())
            CHECK_CONTAINS("hidden: the same silicon as cpu:0", reports[i].hidden);
    if (!fails_whole()) {
        CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_device_find(m, "opencl:0", &devices[0], &problem));
        CHECK_CONTAINS("the same silicon as cpu:0", problem.text);
    }
    CHECK_STATUS(MUSTER_OK, muster_close(m, &problem));
    const struct muster_options named = { .size = sizeof named, .devices = "opencl" };
    CHECK_STATUS(MUSTER_OK, muster_open(&m, &named, &problem));
    CHECK_STATUS(MUSTER_OK, muster_device_find(m, "opencl:0", &devices[0], &problem));
    CHECK_STATUS(MUSTER_OK, muster_close(m, &problem));
}

/* A kernel over a few items on the first OpenCL device. */
static muster_status run_portable(const char *text, struct muster_error *err)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = text,
                                             .code_bytes = strlen(text),
                                             .entry = "f" };
    static float x[16], y[16];
    const struct muster_arg args[] = { MUSTER_IN(x), MUSTER_OUT(y) };
    struct muster *m;
    struct muster_kernel *kernel;
    options.devices = "opencl";
    CHECK_STATUS(MUSTER_OK, muster_open(&m, &options, err));
    CHECK_STATUS(MUSTER_OK, muster_kernel_from(m, "f", &form, 1, &kernel, err));
    muster_status status = muster_for(m, kernel, 16, args, 2, NULL, NULL, err);
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
    return status;
}

static void a_device_without_double_takes_no_part(void)
{
#define PORTABLE(call)                                                                             \
    "MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL const float *x, MUSTER_GLOBAL float *y)\n"     \
    "{ y[i] = " call "(x[i]); }\n"
    struct muster_error err = { .size = sizeof err };
    loader.set(DOUBLE_WELL, 0, 0);
    setenv("DOUBLE_SINGLE", "1", 1);
    muster_status mathematics = run_portable(PORTABLE("muster_exp"), &err);
    muster_status plain = run_portable(PORTABLE("muster_sqrt"), NULL);
    unsetenv("DOUBLE_SINGLE");
    CHECK_STATUS(MUSTER_E_NO_DEVICE, mathematics);
    CHECK(strstr(err.text, "compute in double") != NULL);
    CHECK_STATUS(MUSTER_OK, plain);
    CHECK_STATUS(MUSTER_OK, run_portable(PORTABLE("muster_exp"), NULL));
}

static const struct test tests[] = {
    TEST(a_failure_reaches_what_follows),
    TEST(a_late_failure_reaches_what_waits),
    TEST(a_lost_device_answers_from_the_mark),
    TEST(an_illegal_access_loses_the_device),
    TEST(calls_and_waits_need_no_callbacks),
    TEST(resources_that_lack_cost_one_request),
    TEST(a_source_that_does_not_build_says_why),
    TEST(arguments_that_do_not_fit_are_refused),
    TEST(one_piece_has_a_limit),
    TEST(the_same_silicon_is_listed_once),
    TEST(what_follows_a_call_waits_for_it),
    TEST(an_event_is_held_until_its_callback_has_come),
    TEST(a_device_is_closed_when_its_callbacks_have_come),
    TEST(a_call_without_its_event_is_refused),
    TEST(callbacks_find_their_own_device),
    TEST(a_driver_can_be_asked_for_no_callbacks),
    TEST(a_device_without_double_takes_no_part),
};

int main(int argc, char **argv)
{
    if (!control_find()) {
        printf("skipped: the OpenCL loader here is not the tests' own\n");
        return EXIT_SKIPPED;
    }
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
