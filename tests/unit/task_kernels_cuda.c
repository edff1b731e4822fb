/*
 * Tasks with kernels on the cuda backend, over the CUDA driver of the tests: what goes as one launch,
 * and what becomes of tasks whose context is lost or whose device hangs.
 */
#include "driver/control.h"
#include "support.h"

#include <dlfcn.h>

#define LONG (20 * SECOND)
#define MANY 64

static const struct test_cuda *driver;

/* Runs on every device; the address is the host's, which this driver's devices reach. */
static const char source[] =
    "#include <muster_kernel.h>\n"
    "MUSTER_KERNEL void mark(uint64_t i, uint64_t address, uint32_t which)\n"
    "{\n"
    "    ((MUSTER_GLOBAL uint32_t *)address)[which] += (uint32_t)(i + 1);\n"
    "}\n"
    "MUSTER_KERNEL void idle(uint64_t i, uint64_t a, uint32_t b)\n"
    "{\n"
    "    (void)i, (void)a, (void)b;\n"
    "}\n"
    "MUSTER_KERNEL void twice(uint64_t i, MUSTER_GLOBAL const uint32_t *in,\n"
    "                         MUSTER_GLOBAL uint32_t *out)\n"
    "{\n"
    "    out[i] = 2 * in[i];\n"
    "}\n";

static struct muster *open_cuda(uint64_t close_ns)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.close_ns = close_ns;
    driver->reset();
    return open_with(options);
}

static struct muster_kernel *build(struct muster *m, const char *entry)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = source,
                                             .code_bytes = sizeof source - 1,
                                             .entry = entry };
    struct muster_kernel *kernel = NULL;
    MUST(muster_kernel_from(m, entry, &form, 1, &kernel, &problem));
    return kernel;
}

/* Marks, one for each of many tasks. */
struct marks {
    uint32_t counts[MANY];
    uint64_t address;
    uint32_t numbers[MANY];
    struct muster_arg args[MANY][2];
    struct muster_hints hints;
    struct muster_task_desc descs[MANY];
    muster_task tasks[MANY];
};

static void prepare(struct marks *marks, struct muster_kernel *kernel, const char *devices)
{
    memset(marks, 0, sizeof *marks);
    marks->address = (uintptr_t)marks->counts;
    marks->hints = (struct muster_hints){ .size = sizeof marks->hints, .devices = devices };
    for (uint32_t i = 0; i < MANY; i++) {
        marks->numbers[i] = i;
        marks->args[i][0] = (struct muster_arg)MUSTER_VALUE(marks->address);
        marks->args[i][1] = (struct muster_arg)MUSTER_VALUE(marks->numbers[i]);
        marks->descs[i] = (struct muster_task_desc){
            .size = sizeof *marks->descs,
            .kernel = kernel,
            .args = marks->args[i],
            .arg_count = 2,
            .items = 1,
            .hints = &marks->hints,
        };
    }
}

static void check_marks(const struct marks *marks)
{
    for (uint32_t i = 0; i < MANY; i++)
        CHECK_EQUAL(1, marks->counts[i]);
}

static void one_call_is_one_launch(void)
{
    static struct marks marks;
    struct muster *m = open_cuda(5 * SECOND);
    prepare(&marks, build(m, "mark"), "cuda:0");
    /* The first builds the kernel. */
    MUST(muster_submit(m, marks.descs, 1, marks.tasks, &problem));
    MUST(muster_wait(m, marks.tasks, 1, LONG, &problem));
    marks.counts[0] = 0;
    uint64_t before = driver->calls("cuLaunchKernel"), records = driver->calls("cuEventRecord");
    MUST(muster_submit(m, marks.descs, MANY, marks.tasks, &problem));
    CHECK_EQUAL(before + 1, driver->calls("cuLaunchKernel"));
    MUST(muster_wait(m, marks.tasks, MANY, LONG, &problem));
    check_marks(&marks);
    CHECK(driver->calls("cuEventRecord") - records < MANY / 4);
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, driver->left_behind());
}

static void one_at_a_time(void)
{
    static struct marks marks;
    struct muster *m = open_cuda(5 * SECOND);
    prepare(&marks, build(m, "mark"), "cuda:0");
    for (uint32_t i = 0; i < MANY; i++)
        MUST(muster_submit(m, &marks.descs[i], 1, &marks.tasks[i], &problem));
    MUST(muster_wait(m, marks.tasks, MANY, LONG, &problem));
    check_marks(&marks);
    MUST(muster_close(m, &problem));
}

static void arrays_and_data(void)
{
    enum { ITEMS = 5000 };
    static uint32_t in[ITEMS], out[ITEMS], from_data[ITEMS];
    struct muster *m = open_cuda(5 * SECOND);
    muster_data data;
    for (uint32_t i = 0; i < ITEMS; i++)
        in[i] = i;
    MUST(muster_data_create(m, in, sizeof in, 0, &data, &problem));
    struct muster_arg args[] = { MUSTER_IN(&in[0]), MUSTER_OUT(&out[0]) };
    struct muster_arg data_args[] = { MUSTER_ALL(data), MUSTER_OUT(&from_data[0]) };
    struct muster_task_desc desc = {
        .size = sizeof desc,
        .kernel = build(m, "twice"),
        .args = args,
        .arg_count = 2,
        .items = ITEMS,
        .hints = &(struct muster_hints){ .size = sizeof(struct muster_hints), .devices = "cuda:0" }
    };
    MUST(muster_submit(m, &desc, 1, NULL, &problem));
    desc.args = data_args;
    MUST(muster_submit(m, &desc, 1, NULL, &problem));
    MUST(muster_wait(m, NULL, 0, LONG, &problem));
    for (uint32_t i = 0; i < ITEMS; i++) {
        CHECK_EQUAL(2 * i, out[i]);
        CHECK_EQUAL(2 * i, from_data[i]);
    }
    MUST(muster_close(m, &problem));
}

/* Tasks of one call that write a block of the caller's are launched one after the other. */
static void tasks_that_write_one_block_are_launched_apart(void)
{
    enum { ITEMS = 256, TASKS = 8 };
    static uint32_t in[ITEMS], out[ITEMS];
    struct muster *m = open_cuda(5 * SECOND);
    muster_stream stream = acquire(m, find(m, "cuda:0"));
    muster_block from = allocate(m, stream, sizeof in), to = allocate(m, stream, sizeof in);
    for (uint32_t i = 0; i < ITEMS; i++)
        in[i] = i;
    MUST(muster_copy_in(m, stream, from, 0, in, sizeof in, &problem));
    struct muster_arg args[TASKS][2];
    struct muster_task_desc descs[TASKS];
    struct muster_kernel *kernel = build(m, "twice");
    for (size_t i = 0; i < TASKS; i++) {
        args[i][0] = (struct muster_arg)MUSTER_DEVICE_IN(from, uint32_t);
        args[i][1] = (struct muster_arg)MUSTER_DEVICE_OUT(to, uint32_t);
        descs[i] = (struct muster_task_desc){
            .size = sizeof *descs, .kernel = kernel, .args = args[i], .arg_count = 2, .items = ITEMS
        };
    }
    /* The first builds the kernel. */
    MUST(muster_submit(m, descs, 1, NULL, &problem));
    MUST(muster_wait(m, NULL, 0, LONG, &problem));
    uint64_t before = driver->calls("cuLaunchKernel");
    MUST(muster_submit(m, descs, TASKS, NULL, &problem));
    MUST(muster_wait(m, NULL, 0, LONG, &problem));
    CHECK_EQUAL(before + TASKS, driver->calls("cuLaunchKernel"));
    MUST(muster_copy_out(m, stream, out, to, 0, sizeof out, &problem));
    MUST(muster_stream_wait(m, stream, LONG, &problem));
    for (uint32_t i = 0; i < ITEMS; i++)
        CHECK_EQUAL(2 * i, out[i]);
    MUST(muster_close(m, &problem));
}

/* The context is poisoned by one of many: all of them end, elsewhere if there is a place. */
static void a_lost_context_moves_its_tasks(void)
{
    static struct marks marks;
    struct muster *m = open_cuda(5 * SECOND);
    /* One that touches nothing: what a lost context did until then is in no order with the rest. */
    prepare(&marks, build(m, "idle"), "cuda:0,cpu:0");
    CHECK(driver->set("poison=launch:3:700"));
    for (uint32_t i = 0; i < MANY; i++)
        MUST(muster_submit(m, &marks.descs[i], 1, &marks.tasks[i], &problem));
    MUST(muster_wait(m, marks.tasks, MANY, LONG, &problem));
    struct muster_device_load lost = load_of(m, find(m, "cuda:0"));
    CHECK_EQUAL(MUSTER_HEALTH_LOST, lost.health);
    CHECK(lost.failed > 0);
    CHECK_EQUAL(MANY, lost.completed + load_of(m, find(m, "cpu:0")).completed);
    MUST(muster_close(m, &problem));
}

static void with_no_place_left_they_fail(void)
{
    static struct marks marks;
    struct muster *m = open_cuda(5 * SECOND);
    prepare(&marks, build(m, "mark"), "cuda:0");
    CHECK(driver->set("poison=launch:1:700"));
    muster_status status = muster_submit(m, marks.descs, MANY, marks.tasks, &problem);
    CHECK_STATUS(MUSTER_OK, status);
    for (uint32_t i = 0; i < MANY; i++)
        CHECK_STATUS(MUSTER_E_DEVICE_LOST, muster_wait(m, &marks.tasks[i], 1, LONG, &problem));
    CHECK_STATUS(MUSTER_E_NO_DEVICE, muster_submit(m, marks.descs, 1, NULL, &problem));
    muster_close(m, &problem);
}

static void a_launch_that_hangs_is_noticed(void)
{
    static struct marks marks;
    struct muster *m = open_cuda(200 * MS);
    prepare(&marks, build(m, "mark"), "cuda:0");
    CHECK(driver->set("hang=launch:1"));
    marks.descs[0].timeout_ns = test_patience(30 * MS);
    MUST(muster_submit(m, marks.descs, 2, marks.tasks, &problem));
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_wait(m, &marks.tasks[0], 1, LONG, &problem));
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_wait(m, &marks.tasks[1], 1, LONG, &problem));
    driver->release();
    muster_close(m, &problem);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(one_call_is_one_launch),
        TEST(one_at_a_time),
        TEST(arrays_and_data),
        TEST(tasks_that_write_one_block_are_launched_apart),
        TEST(a_lost_context_moves_its_tasks),
        TEST(with_no_place_left_they_fail),
        TEST(a_launch_that_hangs_is_noticed),
    };
    const struct test_cuda *(*control)(void);
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = library ? dlsym(library, TEST_CUDA_CONTROL) : NULL;
    if (!found)
        return 77;
    memcpy(&control, &found, sizeof control);
    driver = control();
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
