/*
 * A runtime belongs to the process that opened it: a child's calls on it fail at once, whatever the
 * parent's threads held when it was forked, and the parent goes on.
 */
#include "support.h"

#include <sys/wait.h>
#include <unistd.h>

/* What a child that waits for a lock of the parent's gets. */
#define CHILD_SECONDS 20u

/* Everything that the parent has when it forks. */
static struct {
    struct muster *m;
    struct muster_kernel *kernel;
    struct muster_pipeline *pipeline;
    struct muster_job *job;
    struct muster_file *file;
    muster_device device;
    muster_stream stream;
    muster_block block;
    muster_data data;
    muster_task task;
    muster_lease lease;
} have;

static muster_status nothing(void *user)
{
    (void)user;
    return MUSTER_OK;
}

/* In the child: the number of the first call that did not say so, 0 if all did. */
static int call_everything(void)
{
    struct muster_error err = { .status = MUSTER_OK };
    struct muster_task_desc task = { .size = sizeof task, .fn = nothing };
    struct muster_job_desc job = { .size = sizeof job, .kernel = have.kernel, .items = 1 };
    struct muster_report report = { .size = sizeof report };
    struct muster_progress progress = { .size = sizeof progress };
    struct muster_device_info info = { .size = sizeof info };
    struct muster_device_load load = { .size = sizeof load };
    struct muster_counters counters = { .size = sizeof counters };
    struct muster_use use = MUSTER_USE(have.block, MUSTER_READS);
    struct muster_job *started;
    struct muster_kernel *kernel;
    muster_device device;
    muster_stream stream;
    muster_block block;
    muster_lease lease;
    muster_task handle;
    void *memory;
    size_t count;
    uint64_t bytes = 8;
    char text[8];
    const muster_status statuses[] = {
        muster_device_list(have.m, NULL, 0, &count, &err),
        muster_device_find(have.m, "cpu:0", &device, &err),
        muster_device_info(have.m, have.device, &info, &err),
        muster_device_load(have.m, have.device, &load, &err),
        muster_stream_acquire(have.m, have.device, 0, &stream, &err),
        muster_stream_query(have.m, have.stream, &err),
        muster_stream_wait(have.m, have.stream, UINT64_MAX, &err),
        muster_stream_release(have.m, have.stream, &err),
        muster_block_allocate(have.m, have.stream, bytes, &block, &err),
        muster_block_begin(have.m, have.stream, &use, 1, &err),
        muster_block_free(have.m, have.stream, have.block, &err),
        muster_copy_out(have.m, have.stream, text, have.block, 0, sizeof text, &err),
        muster_host_allocate(have.m, have.device, 8, &memory, &err),
        muster_data_invalidate(have.m, have.data, &err),
        muster_data_destroy(have.m, have.data, &err),
        muster_launch(have.m, have.stream, have.kernel, 0, 1, NULL, 0, NULL, &err),
        muster_pick(have.m, NULL, NULL, &lease, &device, &err),
        muster_lease_release(have.m, have.lease, &err),
        muster_counters(have.m, &counters, &err),
        muster_trace_start(have.m, NULL, &err),
        muster_kernel_load(have.m, "none.c", "none", &kernel, &err),
        muster_submit(have.m, &task, 1, &handle, &err),
        muster_wait(have.m, NULL, 0, UINT64_MAX, &err),
        muster_wait(have.m, &have.task, 1, UINT64_MAX, &err),
        muster_cancel(have.m, have.task, &err),
        muster_start(have.m, &job, &started, &err),
        muster_for(have.m, have.kernel, 1, NULL, 0, NULL, NULL, &err),
        muster_job_wait(have.job, &report, &err),
        muster_job_report(have.job, &report, &err),
        muster_job_progress(have.job, &progress, &err),
        muster_file_read(have.file, text, sizeof text, &count, &err),
        muster_close(have.m, &err)
    };
    for (size_t i = 0; i < COUNT_OF(statuses); i++)
        if (statuses[i] != MUSTER_E_FORKED)
            return (int)i + 1;
    /* What gives no status does nothing. */
    muster_job_cancel(have.job);
    muster_job_destroy(have.job);
    muster_kernel_destroy(have.kernel);
    muster_pipeline_destroy(have.pipeline);
    muster_file_cancel(have.file);
    muster_file_close(have.file);
    return err.status == MUSTER_E_FORKED && strlen(err.text) > 0 && strlen(err.fix) > 0 ? 0 : 200;
}

static int use_a_runtime_of_its_own(void)
{
    struct muster *m;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster_task_desc task = { .size = sizeof task, .fn = nothing };
    muster_task handle;
    options.devices = "cpu";
    options.cpu_workers = 1;
    bool is_good = muster_open(&m, &options, NULL) == MUSTER_OK &&
                   muster_submit(m, &task, 1, &handle, NULL) == MUSTER_OK &&
                   muster_wait(m, &handle, 1, UINT64_MAX, NULL) == MUSTER_OK &&
                   muster_close(m, NULL) == MUSTER_OK;
    return is_good ? 0 : 1;
}

/* Runs it in a child; what it says, 100 + the signal that ended it. */
static int in_child(int (*function)(void))
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        _exit(function());
    }
    CHECK(child > 0);
    CHECK_EQUAL(child, waitpid(child, &status, 0));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static struct door held;

static muster_status hold(void *user, const struct muster_result *result)
{
    (void)user, (void)result;
    door_pass(&held);
    return MUSTER_OK;
}

static void open_everything(void)
{
    static const char data[64];
    struct muster *m = have.m = open_plain();
    struct muster_task_desc task = { .size = sizeof task, .fn = nothing };
    struct muster_file_options file = { .size = sizeof file };
    held = (struct door)DOOR_INIT;
    have.kernel = kernel_of(m, do_nothing);
    have.device = find(m, "cpu:0");
    have.stream = acquire(m, have.device);
    have.block = allocate(m, have.stream, 64);
    MUST(muster_data_create(m, data, sizeof data, 0, &have.data, &problem));
    MUST(muster_submit(m, &task, 1, &have.task, &problem));
    muster_device device;
    MUST(muster_pick(m, NULL, NULL, &have.lease, &device, &problem));
    MUST(muster_file_read_open(m, "/dev/null", &file, &have.file, &problem));
    const struct muster_buffer buffers[] = { { sizeof *buffers, "in", MUSTER_HOST, 8, 0, 0, 0 },
                                             { sizeof *buffers, "d", MUSTER_DEVICE, 8, 0, 0, 0 },
                                             { sizeof *buffers, "out", MUSTER_HOST, 8, 0, 0, 0 } };
    const struct muster_stage stages[] = {
        { sizeof *stages, "up", "h2d", 1 << 0, 1 << 1, .flags = MUSTER_COPY },
        { sizeof *stages, "down", "d2h", 1 << 1, 1 << 2, .flags = MUSTER_COPY },
    };
    MUST(muster_pipeline_create(m, buffers, 3, stages, 2, NULL, &have.pipeline, &problem));
    struct muster_job_desc job = { .size = sizeof job,
                                   .kernel = have.kernel,
                                   .items = 10,
                                   .sink = hold,
                                   .options = &(struct muster_run_options){
                                       .size = sizeof(struct muster_run_options) } };
    MUST(muster_start(m, &job, &have.job, &problem));
    door_wait_arrived(&held, 1);
}

/* The parent has all it had, also what the child tried to close. */
static void close_everything(void)
{
    door_open(&held);
    MUST(muster_job_wait(have.job, NULL, &problem));
    muster_job_destroy(have.job);
    MUST(muster_wait(have.m, NULL, 0, 60 * SECOND, &problem));
    MUST(muster_for(have.m, have.kernel, 10, NULL, 0, NULL, NULL, &problem));
    wait_for(have.m, have.stream);
    MUST(muster_lease_release(have.m, have.lease, &problem));
    MUST(muster_close(have.m, &problem));
}

static void a_childs_calls_fail_at_once(void)
{
    open_everything();
    CHECK_EQUAL(0, in_child(call_everything));
    close_everything();
}

static int call_in_grandchild(void)
{
    return in_child(call_everything);
}

static void so_do_those_of_its_children(void)
{
    open_everything();
    CHECK_EQUAL(0, in_child(call_in_grandchild));
    close_everything();
}

/* Whatever lock another thread holds when the process is copied: it is held for ever there. */

static _Atomic bool must_stop;

static void *hammer(void *user)
{
    (void)user;
    struct muster_task_desc task = { .size = sizeof task, .fn = nothing };
    muster_device device;
    muster_lease lease;
    while (!atomic_load(&must_stop)) {
        muster_submit(have.m, &task, 1, NULL, NULL);
        if (muster_pick(have.m, NULL, NULL, &lease, &device, NULL) == MUSTER_OK)
            muster_lease_release(have.m, lease, NULL);
    }
    return NULL;
}

static void whatever_other_threads_are_doing(void)
{
    pthread_t threads[2];
    open_everything();
    atomic_store(&must_stop, false);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, hammer, NULL));
    int code = 0;
    for (unsigned i = 0; i < test_repetitions(20) && code == 0; i++)
        code = in_child(call_everything);
    atomic_store(&must_stop, true);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(0, code);
    close_everything();
}

static void a_child_may_open_its_own(void)
{
    /*
     * ThreadSanitizer allows no threads in a child of a program with threads, and AddressSanitizer's
     * allocator stays locked there if a thread of the parent was in it.
     */
    if (TEST_BY_SANITIZER(false, true, true))
        return;
    open_everything();
    CHECK_EQUAL(0, in_child(use_a_runtime_of_its_own));
    close_everything();
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(a_childs_calls_fail_at_once),
                                         TEST(so_do_those_of_its_children),
                                         TEST(whatever_other_threads_are_doing),
                                         TEST(a_child_may_open_its_own) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
