/*
 * The cuda backend on the driver of tests/driver, which fails: every function in turn, once and from
 * then on; contexts that end, work that hangs, memory that runs out. Each call of the runtime says so,
 * nothing is leaked, nothing hangs, and what was reported as done is right.
 */
#include "backend/cuda/driver.h"
#include "driver/control.h"
#include "faulty_allocator.h"
#include "full_report.h"
#include "harness.h"
#include "sweep.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <muster/muster.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS 2000u
#define BYTES (ITEMS * sizeof(uint32_t))
#define LONG_NS UINT64_C(20000000000)
/* For memory, which does not come while the driver says that there is none. */
#define SHORT_NS UINT64_C(10000000)
/* For a unit: a driver that never says that work is done is taken for hung after this. */
#define UNIT_NS UINT64_C(200000000)
/* For what is unfinished at the end: each case that hangs takes this long, several times over. */
#define CLOSE_NS UINT64_C(1000000000)
/* So many times as long, where a busy machine was too slow for that and nothing had failed. */
static uint64_t patience = 1;
#define PATIENCE_LAST 64
#define LABEL_BYTES 160

static const struct test_cuda *control;
static char label[LABEL_BYTES];

static void open_control(void)
{
    if (!control) {
        void *library = dlopen("libcuda.so.1", RTLD_NOW);
        if (!library)
            test_fail(__FILE__, __LINE__, "%s", dlerror());
        const struct test_cuda *(*get)(void);
        *(void **)&get = dlsym(library, TEST_CUDA_CONTROL);
        if (!get)
            test_fail(__FILE__, __LINE__, "this libcuda.so.1 is not the one of the tests");
        control = get();
    }
    control->reset();
}

/* --- a kernel ---------------------------------------------------------------------------------- */

static uint32_t answer(uint32_t item)
{
    return item * 3 + 7;
}

/* Arguments: IN uint32_t, OUT uint32_t. */
/* In drills: so that the CPU is not done before the GPU has come to what fails. */
static _Atomic bool processors_wait;
#define LOOKS_MAX 5000

static muster_status compute(uint64_t begin, uint64_t end, void *const *args)
{
    for (int looks = 0; processors_wait && control->hits() == 0 && looks < LOOKS_MAX; looks++)
        sched_yield();
    const uint32_t *in = *(const uint32_t *const *)args[0];
    uint32_t *out = *(uint32_t *const *)args[1];
    for (uint64_t i = begin; i < end; i++)
        out[i] = in[i] * 3 + 7;
    return MUSTER_OK;
}

static const char source[] =
    "extern \"C\" __global__ void compute(unsigned long long begin, unsigned long long items,\n"
    "                                   const unsigned *in, unsigned *out)\n"
    "{\n"
    "    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;\n"
    "    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "         i < items; i += step)\n"
    "        out[begin + i] = in[begin + i] * 3 + 7;\n"
    "}\n";

static const struct muster_kernel_form forms[] = {
    { .size = sizeof(struct muster_kernel_form),
      .kind = MUSTER_KERNEL_FUNCTION,
      .function = compute },
    { .size = sizeof(struct muster_kernel_form),
      .kind = MUSTER_KERNEL_CUDA,
      .code = source,
      .code_bytes = sizeof source - 1,
      .entry = "compute" },
};

/* --- what a user does -------------------------------------------------------------------------- */

/* Memory that devices read and write: freed when the runtime is gone. */
struct arrays {
    uint32_t in[ITEMS], out[ITEMS], job_out[ITEMS];
};

struct user {
    struct muster *m;
    struct muster_error err;
    struct faulty_allocator allocator;
    struct arrays *arrays;
    uint64_t failures, verified;
    bool is_stuck;     /* a launch may be unfinished: its kernel stays until the runtime goes */
    char last[256];    /* failure, in its own words */
    struct user *next; /* in `hung` */
};

/* Those whose device hangs: it keeps what it was given until the process ends. */
static struct user *hung;

static bool did(struct user *u, const char *step, muster_status status)
{
    if (status == MUSTER_OK)
        return true;
    if (u->err.status != status || !*u->err.text)
        test_fail(__FILE__, __LINE__, "%s: %s failed with %s and does not say why", label, step,
                  muster_status_name(status));
    u->failures++;
    u->is_stuck =
        u->is_stuck || strcmp(step, "muster_stream_wait") == 0 || status == MUSTER_E_DEVICE_HUNG;
    snprintf(u->last, sizeof u->last, "%s", u->err.text);
    u->err = (struct muster_error){ .size = sizeof u->err };
    return false;
}

static void verify(struct user *u, const uint32_t *out, const char *what)
{
    for (uint32_t i = 0; i < ITEMS; i++)
        if (out[i] != answer(i))
            test_fail(__FILE__, __LINE__, "%s: %s[%u] is %u, expected %u", label, what, i, out[i],
                      answer(i));
    u->verified++;
}

static struct user *user_make(void)
{
    struct user *u = malloc(sizeof *u);
    CHECK(u);
    *u = (struct user){ .err = { .size = sizeof u->err } };
    faulty_allocator_init(&u->allocator, 0, false);
    u->arrays = malloc(sizeof *u->arrays);
    CHECK(u->arrays);
    for (uint32_t i = 0; i < ITEMS; i++)
        u->arrays->in[i] = i;
    memset(u->arrays->out, 0xee, sizeof u->arrays->out);
    memset(u->arrays->job_out, 0xee, sizeof u->arrays->job_out);
    return u;
}

static bool user_open(struct user *u, const char *devices)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = devices;
    options.close_ns = patience * CLOSE_NS;
    options.allocator = faulty_allocator_hook(&u->allocator);
    return did(u, "muster_open", muster_open(&u->m, &options, &u->err));
}

/* Copies, launches and waits on a stream of its own. */
static void work_by_hand(struct user *u, muster_device device, struct muster_kernel *kernel)
{
    muster_stream stream;
    muster_block blocks[2];
    if (!did(u, "muster_stream_acquire", muster_stream_acquire(u->m, device, 0, &stream, &u->err)))
        return;
    const uint64_t bytes[] = { BYTES, BYTES };
    bool has_blocks =
        did(u, "muster_block_allocate_many",
            muster_block_allocate_many(u->m, stream, bytes, 2, SHORT_NS, blocks, &u->err));
    if (has_blocks) {
        const struct muster_operand args[] = { MUSTER_BLOCK_READ(blocks[0]),
                                               MUSTER_BLOCK_WRITE(blocks[1]) };
        bool is_right =
            did(u, "muster_fill", muster_fill(u->m, stream, blocks[1], 0, 0, BYTES, &u->err)) &&
            did(u, "muster_copy_in",
                muster_copy_in(u->m, stream, blocks[0], 0, u->arrays->in, BYTES, &u->err)) &&
            did(u, "muster_launch",
                muster_launch(u->m, stream, kernel, 0, ITEMS, args, 2, NULL, &u->err)) &&
            did(u, "muster_copy_out",
                muster_copy_out(u->m, stream, u->arrays->out, blocks[1], 0, BYTES, &u->err));
        if (did(u, "muster_stream_wait", muster_stream_wait(u->m, stream, LONG_NS, &u->err)) &&
            is_right)
            verify(u, u->arrays->out, "what was computed");
        for (int i = 0; i < 2; i++)
            did(u, "muster_block_free", muster_block_free(u->m, stream, blocks[i], &u->err));
    }
    did(u, "muster_stream_release", muster_stream_release(u->m, stream, &u->err));
}

/* A job that left a device hanging is not over for its arrays, but what it delivered is right. */
static muster_status run_job(struct user *u, struct muster_kernel *kernel,
                             const struct muster_run_options *options, struct muster_report *report)
{
    const struct muster_arg args[] = { MUSTER_IN(u->arrays->in), MUSTER_OUT(u->arrays->job_out) };
    muster_status status = muster_for(u->m, kernel, ITEMS, args, 2, options, report, &u->err);
    bool is_delivered = status == MUSTER_E_DEVICE_HUNG && report && report->delivered == ITEMS;
    if (did(u, "muster_for", status) || is_delivered)
        verify(u, u->arrays->job_out, "the job's result");
    return status;
}

static void work(struct user *u)
{
    muster_device device;
    struct muster_kernel *kernel = NULL;
    size_t count;
    struct muster_run_options options = { .size = sizeof options,
                                          .unit_items = ITEMS / 8,
                                          .timeout_ns = patience * UNIT_NS };
    if (!did(u, "muster_device_list", muster_device_list(u->m, &device, 1, &count, &u->err)) ||
        count == 0)
        return;
    if (!did(u, "muster_kernel_from",
             muster_kernel_from(u->m, "compute", forms, 2, &kernel, &u->err)))
        return;
    work_by_hand(u, device, kernel);
    run_job(u, kernel, &options, NULL);
    if (!u->is_stuck)
        muster_kernel_destroy(kernel);
}

/* Slices of the device, and a job on all of them. */
static void work_in_slices(struct user *u)
{
    static const uint32_t sizes[] = { 16, 32, 84 };
    muster_device device, slices[3];
    size_t count;
    struct muster_kernel *kernel = NULL;
    struct muster_run_options options = { .size = sizeof options,
                                          .unit_items = ITEMS / 8,
                                          .timeout_ns = patience * UNIT_NS };
    if (!did(u, "muster_device_list", muster_device_list(u->m, &device, 1, &count, &u->err)) ||
        count == 0 ||
        !did(u, "muster_device_slice",
             muster_device_slice(u->m, device, sizes, 3, slices, &u->err)) ||
        !did(u, "muster_kernel_from",
             muster_kernel_from(u->m, "compute", forms, 2, &kernel, &u->err)))
        return;
    run_job(u, kernel, &options, NULL);
    if (!u->is_stuck)
        muster_kernel_destroy(kernel);
}

/* Everything of a hung device stays, and the arrays that it may still write to with it. */
static muster_status user_close(struct user *u)
{
    muster_status status = muster_close(u->m, &u->err);
    if (status != MUSTER_OK && (u->err.status != status || !*u->err.text))
        test_fail(__FILE__, __LINE__, "%s: muster_close fails and does not say why", label);
    return status;
}

static void user_delete(struct user *u, bool is_hung)
{
    control->release();
    if (is_hung) {
        u->next = hung;
        hung = u;
        return;
    }
    if (u->allocator.bytes_out > 0 || u->allocator.mistakes > 0)
        test_fail(__FILE__, __LINE__, "%s: %zu bytes are left", label, u->allocator.bytes_out);
    faulty_allocator_deinit(&u->allocator);
    free(u->arrays);
    free(u);
}

/* --- sweeps ------------------------------------------------------------------------------------ */

/* What gives things back: where it fails, the driver keeps them. */
static bool gives_back(const char *function)
{
    static const char *const words[] = { "Destroy",    "Free",       "Release", "Unload",
                                         "Unregister", "PopCurrent", "any" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(function, words[i]))
            return true;
    return false;
}

/* Whether an answer makes the backend give the whole device up, and with it what it holds. */
static bool is_loss(int code)
{
    return code == CUDA_LAUNCH_FAILED;
}

/* Runs the scenario as told; false when the call that was to fail never came. */
static bool run_with(const char *mode, const char *function, uint64_t number, int code,
                     void (*scenario)(struct user *u), uint64_t *verified)
{
    char setting[LABEL_BYTES];
    open_control();
    snprintf(setting, sizeof setting, "%s=%s:%" PRIu64 ":%d", mode, function, number, code);
    snprintf(label, sizeof label, "%s", number > 0 ? setting : "nothing fails");
    CHECK(number == 0 || control->set(setting));
    struct user *u = user_make();
    muster_status closed = MUSTER_OK;
    if (user_open(u, "cuda")) {
        scenario(u);
        closed = user_close(u);
    }
    uint64_t hits = control->hits();
    bool fails_by_itself = hits == 0 && (u->failures > 0 || closed != MUSTER_OK);
    if (fails_by_itself && patience < PATIENCE_LAST) {
        user_delete(u, closed == MUSTER_E_DEVICE_HUNG);
        patience *= 8;
        bool is_hit = run_with(mode, function, number, code, scenario, verified);
        patience = 1;
        return is_hit;
    }
    if (fails_by_itself)
        test_fail(__FILE__, __LINE__, "%s: a call failed though the driver did not: %s", label,
                  closed != MUSTER_OK ? u->err.text : u->last);
    if (closed != MUSTER_OK && closed != MUSTER_E_DEVICE_HUNG)
        test_fail(__FILE__, __LINE__, "%s: muster_close answers %s: %s", label,
                  muster_status_name(closed), u->err.text);
    if (closed == MUSTER_OK && !gives_back(function) && !is_loss(code) &&
        control->left_behind() > 0)
        test_fail(__FILE__, __LINE__, "%s: %" PRIu64 " objects of the driver are left behind",
                  label, control->left_behind());
    *verified = u->verified;
    user_delete(u, closed == MUSTER_E_DEVICE_HUNG);
    return hits > 0;
}

static const char *const functions[] = {
#define NAME(member, symbol, parameters) #symbol,
    CUDA_REQUIRED(NAME) CUDA_OPTIONAL(NAME)
#undef NAME
};

static void sweep_function(const char *function, void (*scenario)(struct user *u))
{
    static const char *const modes[] = { "fail", "fail_from" };
    /* A refusal that is nobody's fault, want of memory where some is asked for, and the end. */
    const int codes[] = { CUDA_OPERATING_SYSTEM, CUDA_LAUNCH_FAILED,
                          strstr(function, "Alloc") ? CUDA_OUT_OF_MEMORY : 0 };
    uint64_t verified;
    for (size_t mode = 0; mode < 2; mode++)
        for (size_t code = 0; code < 3 && codes[code] != 0; code++) {
            /* What ends a context fails from then on by itself. */
            if (mode == 1 && is_loss(codes[code]))
                continue;
            /* The first few, then with growing steps. */
            for (uint64_t number = 1;
                 run_with(modes[mode], function, number, codes[code], scenario, &verified);)
                number = number < 3 ? number + 1 : number * 3;
        }
}

static void each_function_fails(void)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        sweep_function(functions[i], work);
}

static void each_function_fails_with_slices(void)
{
    static const char *const named[] = {
        "cuDeviceGetDevResource", "cuDevSmResourceSplitByCount", "cuDevResourceGenerateDesc",
        "cuGreenCtxCreate",       "cuGreenCtxDestroy",           "cuGreenCtxStreamCreate",
        "cuLaunchKernel"
    };
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        sweep_function(named[i], work_in_slices);
}

static void all_functions_fail_from_some_call_on(void)
{
    uint64_t verified, stride = sweep_stride(SWEEP_STRIDE(23, 101) * 5);
    for (uint64_t number = sweep_first(stride);
         run_with("fail_from", "any", number, CUDA_LAUNCH_FAILED, work, &verified);
         number += stride) {}
}

static void without_a_failure_all_is_verified(void)
{
    uint64_t verified;
    struct test_cuda_objects objects;
    CHECK(!run_with("fail", "any", 0, 0, work, &verified));
    CHECK_EQUAL(2, verified);
    CHECK_EQUAL(0, control->left_behind());
    control->count(&objects);
    CHECK_EQUAL(0, objects.contexts);
    CHECK(!run_with("fail", "any", 0, 0, work_in_slices, &verified));
    CHECK_EQUAL(1, verified);
    CHECK_EQUAL(0, control->left_behind());
}

/* --- drills ------------------------------------------------------------------------------------ */

static const struct muster_job_device *find_device(const struct muster_report *report,
                                                   const char *id)
{
    for (size_t i = 0; i < report->device_count; i++)
        if (strcmp(report->devices[i].id, id) == 0)
            return &report->devices[i];
    test_fail(__FILE__, __LINE__, "%s: the report does not name %s", label, id);
    return NULL;
}

/* Sets `has_failed` unless the CPU was done before the GPU came to what fails. */
static muster_status drill_once(const char *setting, uint64_t timeout_ns, muster_status expected,
                                struct muster_report *report, bool *has_failed)
{
    struct muster_kernel *kernel;
    struct muster_run_options options = { .size = sizeof options,
                                          .unit_items = ITEMS / 50,
                                          .timeout_ns = timeout_ns };
    open_control();
    snprintf(label, sizeof label, "%s", setting);
    CHECK(control->set(setting));
    struct user *u = user_make();
    CHECK(user_open(u, "cpu,cuda"));
    CHECK_STATUS(MUSTER_OK, muster_kernel_from(u->m, "compute", forms, 2, &kernel, &u->err));
    *report = full_report();
    processors_wait = true;
    muster_status ended = run_job(u, kernel, &options, report);
    processors_wait = false;
    *has_failed = control->hits() > 0;
    if (ended != (*has_failed ? expected : MUSTER_OK))
        test_fail(__FILE__, __LINE__, "%s: the job ends with %s: %s", label,
                  muster_status_name(ended), u->last);
    CHECK_EQUAL(1, u->verified);
    if (!u->is_stuck)
        muster_kernel_destroy(kernel);
    muster_status closed = user_close(u);
    user_delete(u, closed == MUSTER_E_DEVICE_HUNG);
    return closed;
}

/* A job on the CPU and a GPU that fails half way: right, and the report says what happened. */
static muster_status drill(const char *setting, uint64_t timeout_ns, muster_status expected,
                           struct muster_report *report)
{
    bool has_failed = false;
    muster_status closed = MUSTER_OK;
    for (int tries = 0; tries < 50 && !has_failed; tries++)
        closed = drill_once(setting, timeout_ns, expected, report, &has_failed);
    CHECK(has_failed);
    return closed;
}

static void a_context_that_ends_costs_a_second_run(void)
{
    static const char *const settings[] = { "poison=launch:2:700", "poison=copy:2:719",
                                            "poison=any:1:214" };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct muster_report report;
        CHECK_STATUS(MUSTER_OK, drill(settings[i], 0, MUSTER_OK, &report));
        CHECK_EQUAL(MUSTER_HEALTH_LOST, find_device(&report, "cuda:0")->health);
        CHECK_EQUAL(MUSTER_HEALTH_OK, find_device(&report, "cpu:0")->health);
    }
}

static void work_that_hangs_is_noticed_in_time(void)
{
    struct muster_report report;
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG,
                 drill("hang=launch:1", test_patience(50000000), MUSTER_E_DEVICE_HUNG, &report));
    CHECK(find_device(&report, "cuda:0")->health != MUSTER_HEALTH_OK);
}

static void what_does_not_fit_is_refused(void)
{
    muster_device device;
    muster_stream stream;
    muster_block block;
    size_t count;
    open_control();
    snprintf(label, sizeof label, "little memory");
    CHECK(control->set("memory=1048576"));
    struct user *u = user_make();
    CHECK(user_open(u, "cuda"));
    CHECK_STATUS(MUSTER_OK, muster_device_list(u->m, &device, 1, &count, &u->err));
    CHECK_STATUS(MUSTER_OK, muster_stream_acquire(u->m, device, 0, &stream, &u->err));
    muster_status status = muster_block_allocate(u->m, stream, 4 << 20, &block, &u->err);
    CHECK(status != MUSTER_OK);
    CHECK(strlen(u->err.text) > 0);
    u->err = (struct muster_error){ .size = sizeof u->err };
    CHECK_STATUS(MUSTER_OK, muster_stream_release(u->m, stream, &u->err));
    /* And what fits is still done. */
    work(u);
    CHECK_EQUAL(2, u->verified);
    CHECK_STATUS(MUSTER_OK, user_close(u));
    user_delete(u, false);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(without_a_failure_all_is_verified),      TEST(what_does_not_fit_is_refused),
        TEST(a_context_that_ends_costs_a_second_run), TEST(each_function_fails),
        TEST(each_function_fails_with_slices),        TEST(all_functions_fail_from_some_call_on),
        TEST(work_that_hangs_is_noticed_in_time),
    };
    setenv("MUSTER_CACHE", KERNEL_CACHE, 0);
    int result = test_main(argc, argv, tests, sizeof tests / sizeof *tests);
    /* Ends what devices that hang have kept. */
    if (control)
        control->reset();
    return result;
}
