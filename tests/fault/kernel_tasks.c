/*
 * Every backend call fails in turn underneath tasks with kernels, and every allocation: what was
 * accepted ends, once, and is heard of; what ended well is right; nothing is leaked.
 */
#include "backend/cpu/cpu.h"
#include "backend/sim/sim.h"
#include "faulty_allocator.h"
#include "faulty_backend.h"
#include "harness.h"
#include "sweep.h"

#include <inttypes.h>
#include <muster/muster.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define LONG (120 * 1000 * MS)
#define ITEMS 64
#define MARKS 8
#define TASKS (MARKS + 3)

static const char sim[] = "[{\"items_per_s\": 1e9, \"memory\": \"1MiB\"}]";

struct failure {
    enum faulty_call call;
    muster_status status;
};

static const struct failure failures[] = {
    { FAULTY_stream_open, MUSTER_E_DRIVER },
    { FAULTY_stream_open, MUSTER_E_DEVICE_LOST },
    { FAULTY_event_init, MUSTER_E_DRIVER },
    { FAULTY_event_init, MUSTER_E_DEVICE_LOST },
    { FAULTY_event_record, MUSTER_E_NO_MEMORY },
    { FAULTY_event_record, MUSTER_E_DEVICE_LOST },
    { FAULTY_event_query, MUSTER_E_DRIVER },
    { FAULTY_event_query, MUSTER_E_STREAM_FAILED },
    { FAULTY_event_query, MUSTER_E_DEVICE_LOST },
    { FAULTY_stream_query, MUSTER_E_DRIVER },
    { FAULTY_stream_wait, MUSTER_E_DRIVER },
    { FAULTY_memory_allocate, MUSTER_E_DRIVER },
    { FAULTY_memory_free, MUSTER_E_DRIVER },
    { FAULTY_memory_allocate, MUSTER_E_DEVICE_MEMORY },
    { FAULTY_copy, MUSTER_E_DRIVER },
    { FAULTY_copy, MUSTER_E_DEVICE_LOST },
    { FAULTY_kernel_init, MUSTER_E_DRIVER },
    { FAULTY_kernel_init, MUSTER_E_DEVICE_LOST },
    { FAULTY_launch, MUSTER_E_DRIVER },
    { FAULTY_launch, MUSTER_E_DEVICE_LOST },
};

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
    for (uint64_t i = begin; i < end; i++)
        out[i] = 2 * in[i];
    return MUSTER_OK;
}

/* One run, with all that devices are given. */
struct scene {
    char label[160];
    struct muster *m;
    struct muster_error err;
    _Atomic unsigned marks[MARKS], heard[TASKS];
    uint32_t in[ITEMS], out[3][ITEMS];
    muster_task tasks[TASKS];
    bool is_accepted[TASKS];
};

struct listener {
    struct scene *scene;
    size_t task;
};

static struct listener listeners[TASKS];

static void hear(void *user, muster_task task, muster_status status)
{
    const struct listener *listener = user;
    (void)task, (void)status;
    atomic_fetch_add(&listener->scene->heard[listener->task], 1);
}

static struct muster_kernel *make_kernel(struct scene *scene, muster_kernel_function function)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = function };
    struct muster_kernel *kernel = NULL;
    muster_kernel_from(scene->m, "test", &form, 1, &kernel, &scene->err);
    return kernel;
}

static void submit(struct scene *scene, size_t task, struct muster_kernel *kernel,
                   const struct muster_arg *args, uint64_t items)
{
    listeners[task] = (struct listener){ scene, task };
    const struct muster_task_desc desc = { .size = sizeof desc,
                                           .kernel = kernel,
                                           .user = &listeners[task],
                                           .done = hear,
                                           .args = args,
                                           .arg_count = 2,
                                           .items = items };
    if (kernel)
        scene->is_accepted[task] =
            muster_submit(scene->m, &desc, 1, &scene->tasks[task], &scene->err) == MUSTER_OK;
}

static void submit_all(struct scene *scene)
{
    struct muster_kernel *marking = make_kernel(scene, mark), *copying = make_kernel(scene, twice);
    _Atomic unsigned *marks = scene->marks;
    for (uint32_t i = 0; i < MARKS; i++) {
        const struct muster_arg args[] = { MUSTER_VALUE(marks), MUSTER_VALUE(i) };
        submit(scene, i, marking, args, 1);
    }
    const struct muster_arg arrays[] = { MUSTER_IN(&scene->in[0]), MUSTER_OUT(&scene->out[0][0]) };
    submit(scene, MARKS, copying, arrays, ITEMS);
    muster_data data;
    if (muster_data_create(scene->m, scene->in, sizeof scene->in, 0, &data, &scene->err) !=
        MUSTER_OK)
        return;
    for (size_t i = 1; i < 3; i++) {
        const struct muster_arg args[] = { MUSTER_ALL(data), MUSTER_OUT(&scene->out[i][0]) };
        submit(scene, MARKS + i, copying, args, ITEMS);
    }
}

static void check_array(const struct scene *scene, const uint32_t *out)
{
    for (uint32_t i = 0; i < ITEMS; i++)
        if (out[i] != 2 * scene->in[i])
            test_fail(__FILE__, __LINE__, "%s: item %u is wrong", scene->label, i);
}

/* Each has ended, and if well its result is there. */
static void check_task(struct scene *scene, size_t task)
{
    if (!scene->is_accepted[task])
        return;
    muster_status status = muster_wait(scene->m, &scene->tasks[task], 1, LONG, &scene->err);
    if (status == MUSTER_E_TIMEOUT)
        test_fail(__FILE__, __LINE__, "%s: task %zu does not end", scene->label, task);
    if (status != MUSTER_OK)
        return;
    if (task < MARKS)
        CHECK(atomic_load(&scene->marks[task]) >= 1);
    else
        check_array(scene, scene->out[task - MARKS]);
}

static muster_status run(struct scene *scene, const struct muster_options *options)
{
    if (muster_open(&scene->m, options, &scene->err) != MUSTER_OK)
        return MUSTER_OK;
    for (uint32_t i = 0; i < ITEMS; i++)
        scene->in[i] = i + 1;
    submit_all(scene);
    for (size_t i = 0; i < TASKS; i++)
        check_task(scene, i);
    muster_status status = muster_close(scene->m, &scene->err);
    for (size_t i = 0; i < TASKS; i++)
        if (atomic_load(&scene->heard[i]) != scene->is_accepted[i])
            test_fail(__FILE__, __LINE__, "%s: task %zu was heard of %u times", scene->label, i,
                      atomic_load(&scene->heard[i]));
    return status;
}

/* Runs with a failure planned; false when the call that was to fail never came. */
static bool run_planned(const struct muster_backend *wrapped, const struct faulty_plan *plan)
{
    static struct scene scene;
    struct faulty_allocator allocator;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    const struct muster_backend *backend = faulty_wrap(wrapped, plan);
    const struct muster_backend *backends[] = { backend };
    memset(&scene, 0, sizeof scene);
    snprintf(scene.label, sizeof scene.label, "%s: %s number %" PRIu64 "%s is %s", wrapped->name,
             faulty_call_name(plan->call), plan->number, plan->from_then_on ? " and all after" : "",
             muster_status_name(plan->status));
    faulty_allocator_init(&allocator, 0, false);
    options.allocator = faulty_allocator_hook(&allocator);
    options.backends = backends;
    options.backend_count = 1;
    options.devices = "faulty";
    options.sim = sim;
    options.cpu_workers = 1;
    options.close_ns = 60 * MS;
    muster_status status = run(&scene, &options);
    if (status != MUSTER_OK && status != MUSTER_E_DEVICE_HUNG)
        test_fail(__FILE__, __LINE__, "%s: close says %s", scene.label, scene.err.text);
    if (*faulty_mistake())
        test_fail(__FILE__, __LINE__, "%s: the runtime broke the contract: %s", scene.label,
                  faulty_mistake());
    bool has_failed = faulty_has_failed();
    for (int kind = 0; kind < FAULTY_OBJECT_COUNT && status == MUSTER_OK; kind++)
        if (faulty_live((enum faulty_object)kind) > 0)
            test_fail(__FILE__, __LINE__, "%s: objects of kind %d are left", scene.label, kind);
    if (status == MUSTER_OK && (allocator.bytes_out > 0 || allocator.mistakes > 0))
        test_fail(__FILE__, __LINE__, "%s: %zu bytes leaked, %" PRIu64 " wrong", scene.label,
                  allocator.bytes_out, allocator.mistakes);
    faulty_bury();
    faulty_allocator_deinit(&allocator);
    return has_failed;
}

static void sweep(const struct muster_backend *wrapped)
{
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        for (int from_then_on = 0; from_then_on < 2; from_then_on++) {
            uint64_t stride = sweep_stride(SWEEP_STRIDE(4, 16));
            struct faulty_plan plan = { failures[i].call, 1, from_then_on, failures[i].status };
            /* A lost device fails from then on by itself; one that says nothing takes its time. */
            if (from_then_on && failures[i].status == MUSTER_E_DEVICE_LOST)
                continue;
            while (plan.number < 60 && run_planned(wrapped, &plan))
                plan.number += stride;
        }
}

static void each_call_fails_on_cpu(void)
{
    sweep(&backend_cpu);
}

static void each_call_fails_on_sim(void)
{
    sweep(&backend_sim);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(each_call_fails_on_cpu),
        TEST(each_call_fails_on_sim),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
