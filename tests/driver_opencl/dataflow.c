/*
 * Tasks with accesses on OpenCL devices, alone and together with the cpu: bodies that enqueue on the
 * stream's queue what they are given as buffers, kernels that name accesses, tiles, memory that is too
 * small, commands that fail and devices that are lost.
 */
#include "control.h"
#include "unit/support.h"

#include "backend/opencl/driver.h"
#include "base/random.h"

#define EXIT_SKIPPED 77
#define QUEUE_CONTEXT 0x1090u
#define QUEUE_DEVICE 0x1091u
#define LONG (120 * SECOND)
/* A matrix of bytes, and tiles of it. */
#define EDGE 64u
#define TILE 16u
/* Tiles that random steps do not write. */
#define KEPT 3u
#define TILES ((EDGE / TILE) * (EDGE / TILE))

/* ---- What the bodies call: OpenCL, as a program has it ---- */

static struct opencl_driver cl;
static opencl_int (*queue_info)(opencl_queue, opencl_uint, size_t, void *, size_t *);

static bool find_cl(void)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW), *symbol;
    if (!library)
        return false;
#define FIND(result, name, parameters)                                                             \
    symbol = dlsym(library, #name);                                                                \
    memcpy(&cl.name, &symbol, sizeof symbol);
    OPENCL_FUNCTIONS(FIND)
#undef FIND
    symbol = dlsym(library, "clGetCommandQueueInfo");
    memcpy(&queue_info, &symbol, sizeof symbol);
    return queue_info != NULL;
}

/* y = y * 3 + x + value, of bytes, in rows. */
static const char program_text[] =
    "kernel void advance(global const uchar *x, ulong x_pitch, global uchar *y, ulong y_pitch,\n"
    "                    uchar value)\n"
    "{\n"
    "    size_t row = get_global_id(1), column = get_global_id(0);\n"
    "    global uchar *at = y + row * y_pitch + column;\n"
    "    *at = (uchar)(*at * 3 + x[row * x_pitch + column] + value);\n"
    "}\n";

/* One program for the queue's context: kept by the test, and released at its end. */
static struct {
    pthread_mutex_t lock;
    opencl_context context;
    opencl_program program;
} built = { .lock = PTHREAD_MUTEX_INITIALIZER };

static opencl_kernel_object make_kernel(opencl_queue queue)
{
    opencl_context context = NULL;
    opencl_device_id device = NULL;
    opencl_kernel_object kernel = NULL;
    opencl_int code;
    queue_info(queue, QUEUE_CONTEXT, sizeof context, &context, NULL);
    queue_info(queue, QUEUE_DEVICE, sizeof device, &device, NULL);
    pthread_mutex_lock(&built.lock);
    if (!built.program) {
        const char *text = program_text;
        built.context = context;
        built.program = cl.clCreateProgramWithSource(context, 1, &text, NULL, &code);
        if (built.program)
            cl.clBuildProgram(built.program, 1, &device, "", NULL, NULL);
    }
    if (built.program && built.context == context)
        kernel = cl.clCreateKernel(built.program, "advance", &code);
    pthread_mutex_unlock(&built.lock);
    return kernel;
}

static void forget_program(void)
{
    if (built.program)
        cl.clReleaseProgram(built.program);
    built.program = NULL;
}

/* ---- Bodies ---- */

static atomic_uint runs_on_cpu, runs_on_opencl;

static muster_status step_cpu(void *user, const struct muster_native *native)
{
    const unsigned char *x = native->pointers[0];
    unsigned char *y = native->pointers[1];
    for (uint64_t row = 0; row < native->rows[1]; row++)
        for (uint64_t i = 0; i < native->bytes[1] / native->rows[1]; i++)
            y[row * native->pitches[1] + i] =
                (unsigned char)(y[row * native->pitches[1] + i] * 3 +
                                x[row * native->pitches[0] + i] + (uintptr_t)user);
    atomic_fetch_add(&runs_on_cpu, 1);
    return MUSTER_OK;
}

static muster_status step_opencl(void *user, const struct muster_native *native)
{
    opencl_queue queue = native->stream;
    opencl_buffer x = native->pointers[0], y = native->pointers[1];
    const unsigned char value = (unsigned char)(uintptr_t)user;
    const size_t global[] = { native->bytes[1] / native->rows[1], native->rows[1] };
    atomic_fetch_add(&runs_on_opencl, 1);
    if (!queue || !x || !y || strcmp(native->backend, "opencl") != 0 ||
        native->bytes[0] != native->bytes[1] || native->device.generation == 0)
        return MUSTER_E_INVALID;
    opencl_kernel_object kernel = make_kernel(queue);
    if (!kernel)
        return MUSTER_E_FAILED;
    opencl_int code = cl.clSetKernelArg(kernel, 0, sizeof x, &x);
    code |= cl.clSetKernelArg(kernel, 1, sizeof native->pitches[0], &native->pitches[0]);
    code |= cl.clSetKernelArg(kernel, 2, sizeof y, &y);
    code |= cl.clSetKernelArg(kernel, 3, sizeof native->pitches[1], &native->pitches[1]);
    code |= cl.clSetKernelArg(kernel, 4, sizeof value, &value);
    if (code == OPENCL_SUCCESS)
        code = cl.clEnqueueNDRangeKernel(queue, kernel, 2, NULL, global, NULL, 0, NULL, NULL);
    cl.clReleaseKernel(kernel);
    return code == OPENCL_SUCCESS ? MUSTER_OK : MUSTER_E_FAILED;
}

static const struct muster_body both[] = { { sizeof *both, "opencl", step_opencl },
                                           { sizeof *both, "cpu", step_cpu } };

/* ---- Runtimes ---- */

static int64_t live_before;

static struct muster *open_devices(const char *devices)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.cpu_workers = 2;
    options.devices = devices;
    options.close_ns = LONG;
    loader.set(DOUBLE_WELL, 0, 0);
    atomic_store(&runs_on_cpu, 0);
    atomic_store(&runs_on_opencl, 0);
    live_before = loader.live();
    return open_with(options);
}

/* Nothing that Muster or the bodies made is left. */
static void close_all(struct muster *m)
{
    forget_program();
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(live_before, loader.live());
}

static muster_data create(struct muster *m, void *host, uint64_t bytes)
{
    muster_data data = { 0, 0 };
    MUST(muster_data_create(m, host, bytes, 0, &data, &problem));
    return data;
}

/* ---- A matrix in tiles, and what it should be ---- */

struct matrix {
    unsigned char bytes[EDGE * EDGE], expected[EDGE * EDGE];
    muster_data whole, tiles[TILES];
    bool is_well[TILES];
};

static void set_up(struct muster *m, struct matrix *matrix)
{
    for (uint32_t i = 0; i < EDGE * EDGE; i++)
        matrix->bytes[i] = matrix->expected[i] = (unsigned char)(i * 7 + i / EDGE);
    matrix->whole = create(m, matrix->bytes, sizeof matrix->bytes);
    for (uint32_t i = 0; i < TILES; i++)
        MUST(muster_data_tile(m, matrix->whole, i / (EDGE / TILE) * TILE, TILE,
                              i % (EDGE / TILE) * TILE, TILE, EDGE, &matrix->tiles[i], &problem));
}

static void expect(struct matrix *matrix, uint32_t x, uint32_t y, uint32_t value)
{
    uint32_t from = (x / (EDGE / TILE) * EDGE + x % (EDGE / TILE)) * TILE,
             to = (y / (EDGE / TILE) * EDGE + y % (EDGE / TILE)) * TILE;
    for (uint32_t row = 0; row < TILE; row++)
        for (uint32_t i = 0; i < TILE; i++) {
            unsigned char *at = &matrix->expected[to + row * EDGE + i];
            *at = (unsigned char)(*at * 3 + matrix->expected[from + row * EDGE + i] + value);
        }
}

static struct muster_task_desc step_of(const struct muster_task_access *accesses, uint32_t value,
                                       size_t body_count)
{
    return (struct muster_task_desc){ .size = sizeof(struct muster_task_desc),
                                      .user = (void *)(uintptr_t)value,
                                      .accesses = accesses,
                                      .access_count = 2,
                                      .bodies = both,
                                      .body_count = body_count,
                                      .name = "step" };
}

/* A step from one tile to another, on the first `body_count` backends of `both`. */
static muster_task submit(struct muster *m, struct matrix *matrix, uint32_t x, uint32_t y,
                          uint32_t value, size_t body_count)
{
    const struct muster_task_access accesses[] = { MUSTER_ACCESS(matrix->tiles[x], MUSTER_READ),
                                                   MUSTER_ACCESS(matrix->tiles[y],
                                                                 MUSTER_READ_WRITE) };
    const struct muster_task_desc desc = step_of(accesses, value, body_count);
    muster_task task = { 0, 0 };
    MUST(muster_submit(m, &desc, 1, &task, &problem));
    expect(matrix, x, y, value);
    return task;
}

/* All of it is right. */
static void check_all(struct muster *m, struct matrix *matrix)
{
    for (uint32_t i = 0; i < TILES; i++)
        MUST(muster_data_destroy(m, matrix->tiles[i], &problem));
    MUST(muster_data_destroy(m, matrix->whole, &problem));
    CHECK(memcmp(matrix->expected, matrix->bytes, sizeof matrix->bytes) == 0);
}

/* The devices are found and have done something. */
static void begin(struct muster *m, struct matrix *matrix)
{
    set_up(m, matrix);
    for (uint32_t t = 0; t < 4; t++)
        submit(m, matrix, t, t + 4, 1, 2);
    MUST(muster_wait(m, NULL, 0, LONG, &problem));
}

/* ---- Tests ---- */

static void bodies_enqueue_on_the_queue(void)
{
    static struct matrix matrix;
    struct muster *m = open_devices("opencl");
    set_up(m, &matrix);
    for (uint32_t t = 0; t < 40; t++)
        submit(m, &matrix, t % 5, 5 + t % 3, t, 1);
    check_all(m, &matrix);
    CHECK_EQUAL(40, atomic_load(&runs_on_opencl));
    close_all(m);
}

/* A fill and a copy between two buffers, with a token that has none. */
static muster_status copy_opencl(void *user, const struct muster_native *native)
{
    (void)user;
    if (native->count != 3 || native->pointers[1] || native->bytes[1] != 0)
        return MUSTER_E_INVALID;
    opencl_queue queue = native->stream;
    static const unsigned char five = 5;
    opencl_int code = cl.clEnqueueFillBuffer(queue, native->pointers[2], &five, 1, 0,
                                             native->bytes[2], 0, NULL, NULL);
    code |= cl.clEnqueueCopyBuffer(queue, native->pointers[0], native->pointers[2], 8, 16, 32, 0,
                                   NULL, NULL);
    return code == OPENCL_SUCCESS ? MUSTER_OK : MUSTER_E_FAILED;
}

static void parts_are_buffers_of_their_own(void)
{
    struct muster *m = open_devices("opencl,cpu");
    unsigned char bytes[256];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    muster_data whole = create(m, bytes, sizeof bytes), token = create(m, NULL, 0), parts[2];
    MUST(muster_data_part(m, whole, 64, 64, &parts[0], &problem));
    MUST(muster_data_part(m, whole, 160, 64, &parts[1], &problem));
    const struct muster_task_access accesses[] = { MUSTER_ACCESS(parts[0], MUSTER_READ),
                                                   MUSTER_ACCESS(token, MUSTER_TOKEN),
                                                   MUSTER_ACCESS(parts[1], MUSTER_WRITE) };
    static const struct muster_body bodies[] = { { sizeof *bodies, "opencl", copy_opencl } };
    const struct muster_task_desc desc = { .size = sizeof desc,
                                           .accesses = accesses,
                                           .access_count = 3,
                                           .bodies = bodies,
                                           .body_count = 1 };
    MUST(muster_submit(m, &desc, 1, NULL, &problem));
    MUST(muster_data_destroy(m, parts[1], &problem));
    MUST(muster_data_destroy(m, parts[0], &problem));
    MUST(muster_data_destroy(m, token, &problem));
    MUST(muster_data_destroy(m, whole, &problem));
    for (unsigned i = 0; i < sizeof bytes; i++)
        CHECK_EQUAL(i < 160 || i >= 224                  ? i
                    : i - 160 >= 16 && i - 160 < 16 + 32 ? 64 + 8 + (i - 160 - 16)
                                                         : 5,
                    bytes[i]);
    close_all(m);
}

static const char portable[] =
    "#include <muster_kernel.h>\n"
    "MUSTER_KERNEL void step(uint64_t row, MUSTER_GLOBAL const uint8_t *x, uint64_t x_pitch,\n"
    "                        MUSTER_GLOBAL uint8_t *y, uint64_t y_pitch, uint32_t value)\n"
    "{\n"
    "    for (uint64_t i = 0; i < 16; i++)\n"
    "        y[row * y_pitch + i] = (uint8_t)(y[row * y_pitch + i] * 3 + x[row * x_pitch + i]\n"
    "                                         + value);\n"
    "}\n";

static struct muster_kernel *portable_kernel(struct muster *m)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = portable,
                                             .code_bytes = sizeof portable - 1,
                                             .entry = "step" };
    struct muster_kernel *kernel = NULL;
    MUST(muster_kernel_from(m, "step", &form, 1, &kernel, &problem));
    return kernel;
}

/* The same step as a kernel that names what it accesses. */
static muster_task submit_kernel(struct muster *m, struct matrix *matrix,
                                 struct muster_kernel *kernel, uint32_t x, uint32_t y,
                                 uint32_t value)
{
    const struct muster_task_access accesses[] = { MUSTER_ACCESS(matrix->tiles[x], MUSTER_READ),
                                                   MUSTER_ACCESS(matrix->tiles[y],
                                                                 MUSTER_READ_WRITE) };
    const struct muster_arg args[] = { MUSTER_ACCESSED(0), MUSTER_PITCH(0), MUSTER_ACCESSED(1),
                                       MUSTER_PITCH(1), MUSTER_VALUE(value) };
    const struct muster_task_desc desc = { .size = sizeof desc,
                                           .kernel = kernel,
                                           .args = args,
                                           .arg_count = 5,
                                           .items = TILE,
                                           .accesses = accesses,
                                           .access_count = 2 };
    muster_task task = { 0, 0 };
    MUST(muster_submit(m, &desc, 1, &task, &problem));
    expect(matrix, x, y, value);
    return task;
}

/* Random steps, by `kernel` or by bodies, that only read the last three tiles. */
static void submit_random(struct muster *m, struct matrix *matrix, struct muster_kernel *kernel,
                          uint64_t seed, uint32_t count, muster_task *tasks)
{
    struct random random;
    random_init(&random, seed);
    for (uint32_t t = 0; t < count; t++) {
        uint32_t x = (uint32_t)random_below(&random, TILES),
                 y = (uint32_t)random_below(&random, TILES - KEPT - 1);
        y = x == y ? y + 1 : y;
        tasks[t] =
            kernel ? submit_kernel(m, matrix, kernel, x, y, t) : submit(m, matrix, x, y, t, 2);
    }
}

static void kernels_name_accesses(const char *devices)
{
    static struct matrix matrix;
    struct muster *m = open_devices(devices);
    struct muster_kernel *kernel = portable_kernel(m);
    set_up(m, &matrix);
    for (uint32_t t = 0; t < 60; t++)
        submit_kernel(m, &matrix, kernel, t % 5, 5 + t % 7, t);
    check_all(m, &matrix);
    muster_kernel_destroy(kernel);
    close_all(m);
}

static void kernels_are_given_buffers(void)
{
    kernels_name_accesses("opencl");
}

static void kernels_run_there_and_on_the_cpu(void)
{
    kernels_name_accesses("opencl,cpu");
}

static void both_devices_together(void)
{
    enum { COUNT = 300 };
    static struct matrix matrix;
    static muster_task tasks[COUNT];
    struct muster *m = open_devices("opencl,cpu");
    set_up(m, &matrix);
    submit_random(m, &matrix, NULL, 3, COUNT, tasks);
    check_all(m, &matrix);
    /* Each is tried at least once. */
    CHECK(atomic_load(&runs_on_opencl) > 0);
    CHECK(atomic_load(&runs_on_cpu) > 0);
    CHECK_EQUAL(COUNT, atomic_load(&runs_on_opencl) + atomic_load(&runs_on_cpu));
    close_all(m);
}

/* Five tiles fit; there are sixteen, and all go through. */
static void what_does_not_fit_is_brought_home(void)
{
    static struct matrix matrix;
    setenv("DOUBLE_MEMORY", "1500", 1);
    struct muster *m = open_devices("opencl");
    CHECK_EQUAL(1500, info_of(m, find(m, "opencl:0")).memory_total);
    set_up(m, &matrix);
    for (uint32_t t = 0; t < 100; t++)
        submit(m, &matrix, t * 5 % TILES, (t * 5 + 1 + t % 3) % TILES, t, 1);
    check_all(m, &matrix);
    close_all(m);
    unsetenv("DOUBLE_MEMORY");
}

/* ---- Failures ---- */

/* Every task ends, and data that is given back without an error is right. */
static uint32_t check_what_is_left(struct muster *m, struct matrix *matrix,
                                   const muster_task *tasks, uint32_t count)
{
    uint32_t well = 0;
    for (uint32_t t = 0; t < count; t++) {
        muster_status status = muster_wait(m, &tasks[t], 1, LONG, &problem);
        CHECK(status != MUSTER_E_TIMEOUT && status != MUSTER_E_STALE);
    }
    for (uint32_t i = 0; i < TILES; i++) {
        uint32_t at = (i / (EDGE / TILE) * EDGE + i % (EDGE / TILE)) * TILE;
        if (muster_data_destroy(m, matrix->tiles[i], &problem) != MUSTER_OK)
            continue;
        well++;
        for (uint32_t row = 0; row < TILE; row++)
            CHECK(memcmp(&matrix->expected[at + row * EDGE], &matrix->bytes[at + row * EDGE],
                         TILE) == 0);
    }
    (void)muster_data_destroy(m, matrix->whole, &problem);
    return well;
}

/* A command is accepted and fails: what it was to write is spoiled, and the device goes on. */
static void a_failed_command_spoils_what_it_writes(void)
{
    static struct matrix matrix;
    struct muster *m = open_devices("opencl");
    struct muster_kernel *kernel = portable_kernel(m);
    muster_task tasks[TILES];
    set_up(m, &matrix);
    submit_kernel(m, &matrix, kernel, 14, 15, 1);
    MUST(muster_wait(m, NULL, 0, LONG, &problem));
    /* Two copies in, then the launch. */
    loader.set(DOUBLE_FAILED, 3, -5);
    tasks[0] = submit_kernel(m, &matrix, kernel, 0, 1, 7);
    CHECK_STATUS(MUSTER_E_STREAM_FAILED, muster_wait(m, &tasks[0], 1, LONG, &problem));
    loader.set(DOUBLE_WELL, 0, 0);
    /* The others are not touched by it, what reads it is cancelled. */
    uint32_t count = 1;
    tasks[count++] = submit_kernel(m, &matrix, kernel, 1, 2, 9);
    CHECK_STATUS(MUSTER_E_CANCELLED, muster_wait(m, &tasks[1], 1, LONG, &problem));
    for (uint32_t i = 3; i < 10; i++)
        tasks[count++] = submit_kernel(m, &matrix, kernel, 0, i, i);
    for (uint32_t i = 2; i < count; i++)
        MUST(muster_wait(m, &tasks[i], 1, LONG, &problem));
    CHECK_EQUAL(TILES - 2, check_what_is_left(m, &matrix, tasks, count));
    muster_kernel_destroy(kernel);
    close_all(m);
}

/*
 * Whichever command fails. Kernels of Muster's: of one that a body has enqueued OpenCL tells nobody but the
 * owner of its event.
 */
static void any_command_may_fail(void)
{
    enum { COUNT = 60 };
    static struct matrix matrix;
    static muster_task tasks[COUNT];
    for (uint64_t at = 1; at < 40; at += 4) {
        struct muster *m = open_devices("opencl,cpu");
        struct muster_kernel *kernel = portable_kernel(m);
        begin(m, &matrix);
        loader.set(DOUBLE_FAILED, at, -5);
        submit_random(m, &matrix, kernel, at, COUNT, tasks);
        CHECK(check_what_is_left(m, &matrix, tasks, COUNT) >= KEPT);
        loader.set(DOUBLE_WELL, 0, 0);
        muster_kernel_destroy(kernel);
        close_all(m);
    }
}

/* The device goes in the middle: the cpu does the rest, and only what was newest there is lost. */
static void a_lost_device_leaves_the_rest(void)
{
    enum { COUNT = 60 };
    static struct matrix matrix;
    static muster_task tasks[COUNT];
    for (uint64_t at = 1; at < 400; at += 57) {
        struct muster *m = open_devices("opencl,cpu");
        begin(m, &matrix);
        loader.set(DOUBLE_LOST, at, -9999);
        submit_random(m, &matrix, NULL, at, COUNT, tasks);
        CHECK(check_what_is_left(m, &matrix, tasks, COUNT) >= KEPT);
        loader.set(DOUBLE_WELL, 0, 0);
        forget_program();
        MUST(muster_close(m, &problem));
    }
}

/* Any one call is refused. */
static void any_call_may_be_refused(void)
{
    enum { COUNT = 30 };
    static struct matrix matrix;
    static muster_task tasks[COUNT];
    for (uint64_t at = 1; at < 300; at += 23) {
        struct muster *m = open_devices("opencl,cpu");
        begin(m, &matrix);
        loader.set(DOUBLE_ONCE, at, -6);
        submit_random(m, &matrix, NULL, at, COUNT, tasks);
        CHECK(check_what_is_left(m, &matrix, tasks, COUNT) >= KEPT);
        loader.set(DOUBLE_WELL, 0, 0);
        forget_program();
        MUST(muster_close(m, &problem));
    }
}

/* A body says that it has failed. */
static muster_status refuse(void *user, const struct muster_native *native)
{
    (void)native;
    atomic_fetch_add((atomic_uint *)user, 1);
    return MUSTER_E_NOT_FOUND;
}

static void what_a_body_returns_is_how_the_task_ends(void)
{
    struct muster *m = open_devices("opencl");
    atomic_uint calls = 0;
    unsigned char bytes[64] = { 0 };
    muster_data data = create(m, bytes, sizeof bytes);
    const struct muster_task_access access = MUSTER_ACCESS(data, MUSTER_READ_WRITE);
    static const struct muster_body bodies[] = { { sizeof *bodies, "opencl", refuse } };
    const struct muster_task_desc desc = { .size = sizeof desc,
                                           .user = &calls,
                                           .accesses = &access,
                                           .access_count = 1,
                                           .bodies = bodies,
                                           .body_count = 1,
                                           .name = "refuses" };
    muster_task task;
    MUST(muster_submit(m, &desc, 1, &task, &problem));
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_wait(m, &task, 1, LONG, &problem));
    CHECK_CONTAINS("refuses", problem.text);
    CHECK_EQUAL(1, atomic_load(&calls));
    (void)muster_data_destroy(m, data, &problem);
    close_all(m);
}

static bool is_there(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster *m = NULL;
    muster_device device;
    options.devices = "opencl";
    if (!control_find() || !find_cl() || muster_open(&m, &options, &problem) != MUSTER_OK)
        return false;
    bool found = muster_device_find(m, "opencl:0", &device, &problem) == MUSTER_OK;
    MUST(muster_close(m, &problem));
    return found;
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(bodies_enqueue_on_the_queue),
        TEST(parts_are_buffers_of_their_own),
        TEST(kernels_are_given_buffers),
        TEST(kernels_run_there_and_on_the_cpu),
        TEST(both_devices_together),
        TEST(what_does_not_fit_is_brought_home),
        TEST(a_failed_command_spoils_what_it_writes),
        TEST(any_command_may_fail),
        TEST(a_lost_device_leaves_the_rest),
        TEST(any_call_may_be_refused),
        TEST(what_a_body_returns_is_how_the_task_ends),
    };
    if (!is_there()) {
        printf("no OpenCL device, or not the tests' loader\n");
        return EXIT_SKIPPED;
    }
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
