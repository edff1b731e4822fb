/*
 * Calls that could only wait for their own caller: each gets MUSTER_E_ORDER at once, and everything
 * goes on. Without that each of these tests hangs.
 */
#include "jobs_support.h"

#define LONG (10 * SECOND)

/* What calls said in user code, where a test cannot end. */
static struct muster *the_runtime;
static muster_status said[16];
static unsigned said_count;

static void note(muster_status status)
{
    said[said_count++ % COUNT_OF(said)] = status;
}

static void check_said(unsigned count)
{
    CHECK_EQUAL(count, said_count);
    for (unsigned i = 0; i < count; i++)
        CHECK_STATUS(MUSTER_E_ORDER, said[i]);
    said_count = 0;
}

static struct muster *open_cpu(uint32_t workers)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "cpu";
    options.cpu_workers = workers;
    said_count = 0;
    return the_runtime = open_with(options);
}

static struct muster_task_desc plain(muster_status (*fn)(void *), void *user)
{
    return (
        struct muster_task_desc){ .size = sizeof(struct muster_task_desc), .fn = fn, .user = user };
}

static muster_task submit(const struct muster_task_desc *desc)
{
    muster_task task = { 0, 0 };
    if (muster_submit(the_runtime, desc, 1, &task, NULL) != MUSTER_OK)
        note(MUSTER_E_INTERNAL);
    return task;
}

/* Tasks. */

static muster_task own, later;
static struct door know_handles; /* the task waits until the test has written down who it is */

static muster_status wait_for_what_cannot_be(void *user)
{
    (void)user;
    struct muster_error err = { .status = MUSTER_OK };
    door_pass(&know_handles);
    note(muster_wait(the_runtime, NULL, 0, UINT64_MAX, &err));
    note(muster_wait(the_runtime, &own, 1, UINT64_MAX, NULL));
    note(muster_wait(the_runtime, &later, 1, UINT64_MAX, NULL));
    note(muster_close(the_runtime, NULL));
    if (err.status != MUSTER_E_ORDER || strlen(err.text) == 0)
        note(MUSTER_E_INTERNAL);
    /* Whether something has ended may be asked. */
    if (muster_wait(the_runtime, &own, 1, 0, NULL) != MUSTER_E_TIMEOUT)
        note(MUSTER_E_INTERNAL);
    return MUSTER_OK;
}

static muster_status nothing(void *user)
{
    (void)user;
    return MUSTER_OK;
}

static void a_task_cannot_wait_for_itself(void)
{
    struct muster *m = open_cpu(2);
    struct muster_task_desc desc = plain(wait_for_what_cannot_be, NULL);
    know_handles = (struct door)DOOR_INIT;
    own = submit(&desc);
    /* On a thread of the pool. */
    door_wait_arrived(&know_handles, 1);
    desc = plain(nothing, NULL);
    desc.after = &own;
    desc.after_count = 1;
    muster_task between = submit(&desc);
    desc.after = &between;
    later = submit(&desc);
    door_open(&know_handles);
    MUST(muster_wait(m, &later, 1, LONG, &problem));
    check_said(4);
    MUST(muster_close(m, &problem));
}

static void wait_when_done(void *user, muster_task task, muster_status status)
{
    (void)user, (void)status;
    note(muster_wait(the_runtime, &task, 1, UINT64_MAX, NULL));
    note(muster_wait(the_runtime, NULL, 0, UINT64_MAX, NULL));
}

static muster_status count_up(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end, (void)args;
    return MUSTER_OK;
}

static void nor_can_the_callback_of_its_end(void)
{
    struct muster *m = open_cpu(1);
    struct muster_task_desc desc = plain(nothing, NULL);
    desc.done = wait_when_done;
    muster_task task = submit(&desc);
    MUST(muster_wait(m, &task, 1, LONG, &problem));
    check_said(2);
    desc = (struct muster_task_desc){
        .size = sizeof desc, .kernel = kernel_of(m, count_up), .items = 1, .done = wait_when_done
    };
    task = submit(&desc);
    MUST(muster_wait(m, &task, 1, LONG, &problem));
    check_said(2);
    MUST(muster_close(m, &problem));
}

/* A thread that waits runs others meanwhile: those are on top of the one that waits. */

static struct door held;
static muster_task holder;

static muster_status hold(void *user)
{
    (void)user;
    door_pass(&held);
    return MUSTER_OK;
}

static muster_status wait_for_the_one_below(void *user)
{
    (void)user;
    note(muster_wait(the_runtime, &own, 1, UINT64_MAX, NULL));
    door_open(&held);
    return MUSTER_OK;
}

static muster_status help_while_waiting(void *user)
{
    (void)user;
    door_pass(&know_handles);
    struct muster_task_desc desc = plain(wait_for_the_one_below, NULL);
    submit(&desc);
    return muster_wait(the_runtime, &holder, 1, UINT64_MAX, NULL);
}

static void *run_holder(void *user)
{
    *(muster_status *)user = muster_wait(the_runtime, &holder, 1, UINT64_MAX, NULL);
    return NULL;
}

static void a_task_cannot_wait_for_the_one_it_runs_on_top_of(void)
{
    struct muster *m = open_cpu(1);
    pthread_t thread;
    muster_status status = MUSTER_OK;
    held = know_handles = (struct door)DOOR_INIT;
    struct muster_task_desc desc = plain(hold, NULL);
    desc.is_awaited = 1;
    holder = submit(&desc);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, run_holder, &status));
    door_wait_arrived(&held, 1);
    desc = plain(help_while_waiting, NULL);
    own = submit(&desc);
    door_open(&know_handles);
    pthread_join(thread, NULL);
    CHECK_STATUS(MUSTER_OK, status);
    MUST(muster_wait(m, NULL, 0, LONG, &problem));
    check_said(1);
    MUST(muster_close(m, &problem));
}

/* Jobs. */

static struct muster_job *the_job;
static struct door know_job;
static _Atomic bool has_tried;

/* Once for each job, in one of its callbacks. */
static void try_to_wait_for_the_job(void)
{
    door_pass(&know_job);
    if (atomic_exchange(&has_tried, true))
        return;
    note(muster_job_wait(the_job, NULL, NULL));
    note(muster_close(the_runtime, NULL));
}

static muster_status waiting_sink(void *user, const struct muster_result *result)
{
    (void)user, (void)result;
    try_to_wait_for_the_job();
    return MUSTER_OK;
}

struct short_lived {
    struct muster_job *job;
    struct door door;
};

static muster_status destroying_sink(void *user, const struct muster_result *result)
{
    (void)result;
    struct short_lived *mine = user;
    door_pass(&mine->door);
    /* What was finished is still delivered. */
    muster_job_destroy(mine->job);
    mine->job = NULL;
    return MUSTER_OK;
}

static int64_t waiting_source(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    (void)user, (void)begin;
    try_to_wait_for_the_job();
    memset(to, 0, bytes);
    return (int64_t)items;
}

static muster_status waiting_stage(struct muster_unit *unit, void *user)
{
    (void)unit, (void)user;
    try_to_wait_for_the_job();
    return MUSTER_OK;
}

static void start_known(struct muster *m, struct muster_job_desc desc)
{
    desc.size = sizeof desc;
    know_job = (struct door)DOOR_INIT;
    atomic_store(&has_tried, false);
    MUST(muster_start(m, &desc, &the_job, &problem));
    door_open(&know_job);
}

static void finish(void)
{
    MUST(muster_job_wait(the_job, NULL, &problem));
    muster_job_destroy(the_job);
    check_said(2);
}

static void a_sink_cannot_wait_for_its_job(void)
{
    struct muster *m = open_cpu(2);
    struct account account;
    account_init(&account, 100);
    start_known(m, (struct muster_job_desc){ .kernel = kernel_of(m, compute),
                                             .items = 100,
                                             .args = account.args,
                                             .arg_count = 3,
                                             .sink = waiting_sink });
    finish();
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

static void nor_can_a_source(void)
{
    struct muster *m = open_cpu(2);
    uint64_t out[100];
    const struct muster_arg args[] = { MUSTER_FIRST, MUSTER_SOURCE(uint64_t), MUSTER_OUT(out) };
    start_known(m, (struct muster_job_desc){ .kernel = kernel_of(m, compute),
                                             .items = 100,
                                             .args = args,
                                             .arg_count = 3,
                                             .source = waiting_source });
    finish();
    MUST(muster_close(m, &problem));
}

static void check_stage(const char *stream)
{
    struct muster *m = open_cpu(2);
    static uint64_t in[100], out[100];
    const struct muster_buffer buffers[] = { { sizeof *buffers, "in", MUSTER_HOST, 8, 0, 0, 0 },
                                             { sizeof *buffers, "d", MUSTER_DEVICE, 8, 0, 0, 0 },
                                             { sizeof *buffers, "out", MUSTER_HOST, 8, 0, 0,
                                               MUSTER_OUTPUT } };
    const bool is_host = strcmp(stream, "host") == 0;
    const struct muster_stage stages[] = {
        { sizeof *stages, "up", "h2d", 1 << 0, 1 << 1, .flags = MUSTER_COPY },
        { sizeof *stages, "down", "d2h", 1 << 1, 1 << 2, .flags = MUSTER_COPY },
        { sizeof *stages, "look", stream, is_host ? 1 << 2 : 1 << 1, 0, .run = waiting_stage },
    };
    struct muster_pipeline *pipeline;
    MUST(muster_pipeline_create(m, buffers, 3, stages, 3, NULL, &pipeline, &problem));
    start_known(m, (struct muster_job_desc){
                       .pipeline = pipeline, .items = 100, .input = in, .output = out });
    finish();
    MUST(muster_close(m, &problem));
}

static void nor_can_a_stage(void)
{
    check_stage("host");
    check_stage("compute");
}

/* It goes when the sink has returned, with all that it had; others are not disturbed. */
static void a_sink_may_destroy_its_job(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "cpu";
    options.cpu_workers = 2;
    options.allocator = counting_allocator(&counting);
    struct muster *m = the_runtime = open_with(options);
    struct muster_kernel *kernel = kernel_of(m, compute);
    struct account account;
    account_init(&account, 100);
    struct short_lived jobs[3];
    const struct muster_job_desc desc = {
        .size = sizeof desc,
        .kernel = kernel,
        .items = 100,
        .args = account.args,
        .arg_count = 3,
        .options = &(struct muster_run_options){ .size = sizeof(struct muster_run_options),
                                                 .unit_items = 10 },
        .sink = destroying_sink
    };
    for (size_t i = 0; i < COUNT_OF(jobs); i++) {
        struct muster_job_desc mine = desc;
        mine.sink_user = &jobs[i];
        jobs[i] = (struct short_lived){ NULL, DOOR_INIT };
        MUST(muster_start(m, &mine, &jobs[i].job, &problem));
        door_open(&jobs[i].door);
        door_wait_left(&jobs[i].door, 1);
    }
    MUST(muster_for(m, kernel, 100, account.args, 3, NULL, NULL, &problem));
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, counting.bytes);
    account_deinit(&account);
}

/* Kernels. */

static struct muster_kernel *inner;
static muster_stream own_stream;

static muster_status call_from_within(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end, (void)args;
    if (said_count > 0)
        return MUSTER_OK;
    struct muster_task_desc desc = plain(nothing, NULL);
    muster_status statuses[4];
    note(muster_for(the_runtime, inner, 4, NULL, 0, NULL, NULL, NULL));
    note(muster_for_each_status(the_runtime, inner, 4, NULL, 0, statuses, NULL, NULL, NULL));
    note(muster_stream_wait(the_runtime, own_stream, UINT64_MAX, NULL));
    note(muster_close(the_runtime, NULL));
    /* One that nobody runs meanwhile, so that it must be waited for. */
    muster_task task = submit(&desc);
    muster_status status = muster_wait(the_runtime, &task, 1, UINT64_MAX, NULL);
    note(status == MUSTER_OK ? MUSTER_E_ORDER : status);
    return MUSTER_OK;
}

static void a_kernel_cannot_wait_for_its_device(void)
{
    struct muster *m = open_cpu(1);
    inner = kernel_of(m, count_up);
    own_stream = acquire(m, find(m, "cpu:0"));
    MUST(muster_for(m, kernel_of(m, call_from_within), 1, NULL, 0, NULL, NULL, &problem));
    check_said(5);
    MUST(muster_close(m, &problem));
}

/* Policies. */

static int pick_within(void *state, const struct muster_hints *hints,
                       const struct muster_candidate *const *candidates, size_t count)
{
    (void)hints, (void)candidates, (void)count;
    muster_lease lease;
    muster_device device;
    note(muster_pick(the_runtime, state, NULL, &lease, &device, NULL));
    return 0;
}

static void a_policy_cannot_pick_by_a_users_policy(void)
{
    struct muster *m = open_cpu(1);
    struct muster_policy policy = {
        .size = sizeof policy, .name = "mine", .choose = pick_within, .state = &policy
    };
    muster_lease lease;
    muster_device device;
    MUST(muster_pick(m, &policy, NULL, &lease, &device, &problem));
    check_said(1);
    MUST(muster_lease_release(m, lease, &problem));
    MUST(muster_close(m, &problem));
}

static struct muster_job *own_job;

static int call_within(void *state, const struct muster_hints *hints,
                       const struct muster_candidate *const *candidates, size_t count)
{
    if (said_count > 0)
        return 0;
    struct muster_run_options how = { .size = sizeof how, .user_policy = state };
    struct muster_job_desc desc = {
        .size = sizeof desc, .kernel = inner, .items = 4, .options = &how
    };
    struct muster_job *job = NULL;
    pick_within(state, hints, candidates, count);
    note(muster_job_wait(own_job, NULL, NULL));
    note(muster_start(the_runtime, &desc, &job, NULL));
    note(muster_close(the_runtime, NULL));
    /* A job that nobody has to ask for can be waited for. */
    muster_status status = muster_for(the_runtime, inner, 4, NULL, 0, NULL, NULL, NULL);
    note(status == MUSTER_OK ? MUSTER_E_ORDER : status);
    muster_job_destroy(own_job);
    door_pass(&know_handles);
    return 0;
}

static int choose_none(void *state, const struct muster_hints *hints,
                       const struct muster_candidate *const *candidates, size_t count)
{
    (void)state, (void)hints, (void)candidates, (void)count;
    return -1;
}

static int wait_within(void *state, const struct muster_hints *hints,
                       const struct muster_candidate *const *candidates, size_t count)
{
    (void)state, (void)hints, (void)candidates, (void)count;
    note(muster_job_wait(own_job, NULL, NULL));
    return 0;
}

/* One that asks another policy may have to wait for the turn of this one. */
static void nor_for_a_job_that_asks_another(void)
{
    struct muster *m = open_cpu(1);
    const struct muster_policy none = { .size = sizeof none,
                                        .name = "none",
                                        .choose = choose_none };
    const struct muster_policy mine = { .size = sizeof mine,
                                        .name = "mine",
                                        .choose = wait_within };
    struct muster_run_options how = { .size = sizeof how, .user_policy = &none };
    struct muster_job_desc desc = {
        .size = sizeof desc, .kernel = kernel_of(m, count_up), .items = 100, .options = &how
    };
    muster_lease lease;
    muster_device device;
    MUST(muster_start(m, &desc, &own_job, &problem));
    MUST(muster_pick(m, &mine, NULL, &lease, &device, &problem));
    check_said(1);
    muster_job_destroy(own_job);
    MUST(muster_close(m, &problem));
}

static void nor_wait_for_a_job_that_asks_it(void)
{
    struct muster *m = open_cpu(1);
    inner = kernel_of(m, count_up);
    struct muster_policy policy = {
        .size = sizeof policy, .name = "mine", .choose = call_within, .state = &policy
    };
    struct muster_run_options how = { .size = sizeof how, .user_policy = &policy };
    struct muster_job_desc desc = {
        .size = sizeof desc, .kernel = inner, .items = 100, .options = &how
    };
    know_handles = (struct door)DOOR_INIT;
    door_open(&know_handles);
    MUST(muster_start(m, &desc, &own_job, &problem));
    door_wait_left(&know_handles, 1);
    MUST(muster_close(m, &problem));
    check_said(5);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(a_task_cannot_wait_for_itself),
                                         TEST(nor_can_the_callback_of_its_end),
                                         TEST(a_task_cannot_wait_for_the_one_it_runs_on_top_of),
                                         TEST(a_sink_cannot_wait_for_its_job),
                                         TEST(nor_can_a_source),
                                         TEST(nor_can_a_stage),
                                         TEST(a_sink_may_destroy_its_job),
                                         TEST(a_kernel_cannot_wait_for_its_device),
                                         TEST(a_policy_cannot_pick_by_a_users_policy),
                                         TEST(nor_wait_for_a_job_that_asks_it),
                                         TEST(nor_for_a_job_that_asks_another) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
