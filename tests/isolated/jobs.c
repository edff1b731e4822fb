/*
 * Jobs on devices in helper processes, of which some items are fatal: what is named, what comes of the others, and
 * that the device takes part again.
 */
#include "harness.h"

#include <muster/muster.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A wild store, an endless loop and a division by zero, which ends a process. */
static const char source[] = "#include <muster_kernel.h>\n"
                             "MUSTER_KERNEL void step(uint64_t i, MUSTER_GLOBAL const uint32_t "
                             "*in, MUSTER_GLOBAL uint32_t *out)\n"
                             "{\n"
                             "    uint32_t x = in[i];\n"
                             "    if (x == 0xffff0001u)\n"
                             "        *(MUSTER_GLOBAL uint32_t *)(uint64_t)0xdead0000 = 1;\n"
                             "    while (x == 0xffff0002u)\n"
                             "        x = ((MUSTER_GLOBAL volatile const uint32_t *)in)[i];\n"
                             "    if (x == 0xffff0003u)\n"
                             "        x = in[i] / (in[i] - x);\n"
                             "    out[i] = x + 1;\n"
                             "}\n";

#define WILD 0xffff0001u
#define ENDLESS 0xffff0002u
#define DIVIDE 0xffff0003u

/* The log. Lanes and the threads that watch helpers write it at the same time. */
struct told {
    pthread_mutex_t mutex;
    char text[8192];
};

static void write_down(void *user, enum muster_log_level level, const char *text)
{
    struct told *told = user;
    (void)level;
    pthread_mutex_lock(&told->mutex);
    size_t used = strlen(told->text);
    snprintf(told->text + used, sizeof told->text - used, "%s\n", text);
    pthread_mutex_unlock(&told->mutex);
}

static void check_told(struct told *told, int line, const char *text)
{
    pthread_mutex_lock(&told->mutex);
    if (!strstr(told->text, text))
        test_fail(__FILE__, line, "'%s' is not in the log:\n%s", text, told->text);
    pthread_mutex_unlock(&told->mutex);
}
#define CHECK_TOLD(run, text) check_told(&(run)->told, __LINE__, text)

struct run {
    struct muster *m;
    struct muster_kernel *kernel;
    struct told told;
    uint32_t *in, *out;
    muster_status *each;
    uint64_t items;
};

static void open_run(struct run *run, const char *devices, uint64_t items)
{
    struct muster_error err;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    memset(run, 0, sizeof *run);
    pthread_mutex_init(&run->told.mutex, NULL);
    options.devices = devices;
    options.isolate = "all";
    options.log = write_down;
    options.log_user = &run->told;
    CHECK_STATUS(MUSTER_OK, muster_open(&run->m, &options, &err));
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = source,
                                             .code_bytes = sizeof source - 1,
                                             .entry = "step",
                                             .file = "step.c" };
    muster_status status = muster_kernel_from(run->m, "step", &form, 1, &run->kernel, &err);
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s", err.text);
    run->items = items;
    run->in = malloc(items * sizeof *run->in);
    run->out = malloc(items * sizeof *run->out);
    run->each = malloc(items * sizeof *run->each);
    for (uint64_t i = 0; i < items; i++)
        run->in[i] = (uint32_t)i;
}

static void close_run(struct run *run)
{
    muster_kernel_destroy(run->kernel);
    CHECK_STATUS(MUSTER_OK, muster_close(run->m, NULL));
    free(run->in);
    free(run->out);
    free(run->each);
    pthread_mutex_destroy(&run->told.mutex);
}

static muster_status map(struct run *run, uint64_t timeout_ns, bool has_each,
                         struct muster_error *err)
{
    const struct muster_arg args[] = { MUSTER_IN(run->in), MUSTER_OUT(run->out) };
    struct muster_run_options options = { .size = sizeof options };
    options.timeout_ns = timeout_ns;
    if (has_each)
        return muster_for_each_status(run->m, run->kernel, run->items, args, 2, run->each, &options,
                                      NULL, err);
    return muster_for(run->m, run->kernel, run->items, args, 2, &options, NULL, err);
}

/* All items but the fatal ones are right. */
static void check_others(const struct run *run)
{
    for (uint64_t i = 0; i < run->items; i++) {
        if (run->in[i] >= WILD)
            continue;
        if (run->out[i] != run->in[i] + 1 || run->each[i] != MUSTER_OK)
            test_fail(__FILE__, __LINE__, "item %llu is %u, status %s", (unsigned long long)i,
                      run->out[i], muster_status_name(run->each[i]));
    }
}

static void check_goes_on(struct run *run)
{
    struct muster_error err = { .size = sizeof err };
    for (uint64_t i = 0; i < run->items; i++)
        run->in[i] = (uint32_t)i;
    memset(run->out, 0, run->items * sizeof *run->out);
    muster_status status = map(run, 0, true, &err);
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s", err.text);
    check_others(run);
}

static void three_fatal_items_fail_alone(void)
{
    struct run run;
    struct muster_error err;
    /* On a GPU a wild store and an endless loop are fatal; a division is not. */
    const char *named = getenv("MUSTER_TEST_DEVICE");
    bool is_gpu = named && strncmp(named, "cpu", 3) != 0;
    open_run(&run, is_gpu ? named : "cpu", 20000);
    run.in[5000] = WILD;
    run.in[10001] = is_gpu ? 10001 : DIVIDE;
    run.in[15002] = ENDLESS;
    memset(run.out, 0, run.items * sizeof *run.out);
    muster_status status = map(&run, test_patience(is_gpu ? 500000000 : 250000000), true, &err);
    if (status != MUSTER_E_FAILED)
        test_fail(__FILE__, __LINE__, "%s: %s", muster_status_name(status), err.text);
    check_others(&run);
    CHECK_STATUS(MUSTER_E_CRASHED, run.each[5000]);
    CHECK_STATUS(is_gpu ? MUSTER_OK : MUSTER_E_CRASHED, run.each[10001]);
    CHECK_STATUS(MUSTER_E_TIMEOUT, run.each[15002]);
    if (is_gpu) {
        CHECK_TOLD(&run, "item 5000 on ");
        CHECK_TOLD(&run, "item 15002 on ");
        check_goes_on(&run);
        close_run(&run);
        return;
    }
    CHECK_TOLD(&run, "item 5000 on cpu:0: SIGSEGV at 0xdead0000 in step");
    CHECK_TOLD(&run, "item 10001 on cpu:0: SIGFPE in step");
    CHECK_TOLD(&run, "item 15002 on cpu:0: stopped after its time-out");
    check_goes_on(&run);
    close_run(&run);
}

/* The others of its unit are done by then, and stay so. */
static void the_last_item_of_a_unit_fails_alone(void)
{
    struct run run;
    struct muster_error err;
    open_run(&run, "cpu", 64);
    const struct muster_arg args[] = { MUSTER_IN(run.in), MUSTER_OUT(run.out) };
    const struct muster_run_options options = { .size = sizeof options, .unit_items = 8 };
    run.in[15] = WILD;
    CHECK_STATUS(MUSTER_E_FAILED, muster_for_each_status(run.m, run.kernel, run.items, args, 2,
                                                         run.each, &options, NULL, &err));
    check_others(&run);
    CHECK_STATUS(MUSTER_E_CRASHED, run.each[15]);
    close_run(&run);
}

static void a_fatal_item_is_named_without_statuses(void)
{
    struct run run;
    struct muster_error err;
    open_run(&run, "cpu", 100000);
    run.in[77777] = WILD;
    CHECK_STATUS(MUSTER_E_CRASHED, map(&run, 0, false, &err));
    if (!strstr(err.text, "item 77777 failed on cpu:0") ||
        !strstr(err.text, "SIGSEGV at 0xdead0000"))
        test_fail(__FILE__, __LINE__, "it says: %s", err.text);
    check_goes_on(&run);
    close_run(&run);
}

/* A device whose helpers end again and again stays lost. */
static void restarts_are_limited(void)
{
    struct run run;
    struct muster_error err;
    open_run(&run, "cpu", 1000);
    int ended = 0;
    for (int i = 0; i < 6; i++) {
        run.in[500] = WILD;
        muster_status status = map(&run, 0, false, &err);
        ended += status == MUSTER_E_CRASHED;
        if (status == MUSTER_E_CRASHED)
            continue;
        CHECK_TOLD(&run, "the device is lost");
        break;
    }
    CHECK_EQUAL(3, ended);
    close_run(&run);
}

/* A kernel task has no items to look at: it fails as a whole, and its device goes on. */
static void a_task_is_stopped_after_its_time(void)
{
    struct run run;
    struct muster_error err;
    muster_task task;
    open_run(&run, "cpu", 100);
    const struct muster_arg args[] = { MUSTER_IN(run.in), MUSTER_OUT(run.out) };
    struct muster_task_desc desc = { .size = sizeof desc,
                                     .kernel = run.kernel,
                                     .items = run.items,
                                     .args = args,
                                     .arg_count = 2,
                                     .timeout_ns = test_patience(100000000) };
    run.in[50] = ENDLESS;
    CHECK_STATUS(MUSTER_OK, muster_submit(run.m, &desc, 1, &task, &err));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_wait(run.m, &task, 1, UINT64_MAX, &err));
    run.in[50] = WILD;
    CHECK_STATUS(MUSTER_OK, muster_submit(run.m, &desc, 1, &task, &err));
    CHECK_STATUS(MUSTER_E_CRASHED, muster_wait(run.m, &task, 1, UINT64_MAX, &err));
    run.in[50] = 50;
    CHECK_STATUS(MUSTER_OK, muster_submit(run.m, &desc, 1, &task, &err));
    CHECK_STATUS(MUSTER_OK, muster_wait(run.m, &task, 1, UINT64_MAX, &err));
    CHECK_EQUAL(51, run.out[50]);
    close_run(&run);
}

/* What was on the device is gone with its helper, and nobody is given something else for it. */
static void what_a_helper_held_is_not_used(void)
{
    struct run run;
    struct muster_error err;
    muster_device device;
    muster_stream stream;
    muster_block block;
    uint32_t host[16] = { 7 };
    open_run(&run, "cpu", 1000);
    CHECK_STATUS(MUSTER_OK, muster_device_find(run.m, "cpu:0", &device, &err));
    CHECK_STATUS(MUSTER_OK, muster_stream_acquire(run.m, device, 0, &stream, &err));
    CHECK_STATUS(MUSTER_OK, muster_block_allocate(run.m, stream, sizeof host, &block, &err));
    CHECK_STATUS(MUSTER_OK, muster_copy_in(run.m, stream, block, 0, host, sizeof host, &err));
    CHECK_STATUS(MUSTER_OK, muster_stream_wait(run.m, stream, UINT64_MAX, &err));
    run.in[500] = WILD;
    CHECK_STATUS(MUSTER_E_CRASHED, map(&run, 0, false, &err));
    CHECK_STATUS(MUSTER_E_STALE, muster_copy_out(run.m, stream, host, block, 0, sizeof host, &err));
    CHECK_STATUS(MUSTER_OK, muster_block_free(run.m, stream, block, &err));
    CHECK_STATUS(MUSTER_OK, muster_block_allocate(run.m, stream, sizeof host, &block, &err));
    CHECK_STATUS(MUSTER_OK, muster_copy_in(run.m, stream, block, 0, host, sizeof host, &err));
    CHECK_STATUS(MUSTER_OK, muster_copy_out(run.m, stream, host, block, 0, sizeof host, &err));
    CHECK_STATUS(MUSTER_OK, muster_stream_wait(run.m, stream, UINT64_MAX, &err));
    CHECK_STATUS(MUSTER_OK, muster_block_free(run.m, stream, block, &err));
    close_run(&run);
}

static muster_status do_nothing(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end, (void)args;
    return MUSTER_OK;
}

static void a_function_of_the_program_is_not_eligible(void)
{
    struct run run;
    struct muster_error err;
    struct muster_kernel *kernel;
    open_run(&run, "cpu", 10);
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = do_nothing };
    CHECK_STATUS(MUSTER_OK, muster_kernel_from(run.m, "nothing", &form, 1, &kernel, &err));
    muster_status status = muster_for(run.m, kernel, 10, NULL, 0, NULL, NULL, &err);
    CHECK(status == MUSTER_E_NO_DEVICE || status == MUSTER_E_NOT_SUPPORTED);
    if (!strstr(err.text, "a C function of the program cannot run in a helper"))
        test_fail(__FILE__, __LINE__, "it says: %s", err.text);
    muster_kernel_destroy(kernel);
    close_run(&run);
}

static const struct test tests[] = {
    TEST(a_task_is_stopped_after_its_time),          TEST(what_a_helper_held_is_not_used),
    TEST(a_function_of_the_program_is_not_eligible), TEST(three_fatal_items_fail_alone),
    TEST(a_fatal_item_is_named_without_statuses),    TEST(restarts_are_limited),
    TEST(the_last_item_of_a_unit_fails_alone),
};

int main(int argc, char **argv)
{
    /* Without MUSTER_HELPER the program is its own helper. */
    int served = muster_helper_main(argc, argv);
    if (served >= 0)
        return served;
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
