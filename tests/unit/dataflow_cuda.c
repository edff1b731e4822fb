/*
 * Tasks with accesses on the cuda backend, over the CUDA driver of the tests: bodies that enqueue on the
 * stream with the context current, kernels, tiles, memory that is too small, contexts that are lost.
 */
#include "driver/control.h"
#include "support.h"

#include <dlfcn.h>

#define LONG (120 * SECOND)
#define EDGE 64u
#define TILE 16u
#define TILES ((EDGE / TILE) * (EDGE / TILE))
/* Tiles that nothing writes. */
#define KEPT 3u

static const struct test_cuda *driver;

/* What bodies call: the driver, as a program has it. */
static struct {
    int (*copy)(uint64_t to, uint64_t from, size_t bytes, void *stream);
    int (*fill)(uint64_t to, unsigned char value, size_t bytes, void *stream);
    int (*current)(void **context);
} cu;

static bool find_cu(void *library)
{
#define FIND(field, name)                                                                          \
    {                                                                                              \
        void *symbol = dlsym(library, name);                                                       \
        memcpy(&cu.field, &symbol, sizeof symbol);                                                 \
    }
    FIND(copy, "cuMemcpyDtoDAsync_v2")
    FIND(fill, "cuMemsetD8Async")
    FIND(current, "cuCtxGetCurrent")
#undef FIND
    return cu.copy && cu.fill && cu.current;
}

static atomic_uint runs_on_cuda;

/* y = x, and its first byte is the value. */
static muster_status copy_cuda(void *user, const struct muster_native *native)
{
    void *context = NULL;
    atomic_fetch_add(&runs_on_cuda, 1);
    if (!native->stream || strcmp(native->backend, "cuda") != 0 || cu.current(&context) != 0 ||
        !context)
        return MUSTER_E_INVALID;
    if (native->pitches[0] != TILE || native->rows[1] != TILE || native->bytes[0] != TILE * TILE)
        return MUSTER_E_NOT_FOUND;
    uint64_t x = (uintptr_t)native->pointers[0], y = (uintptr_t)native->pointers[1];
    int code = cu.copy(y, x, native->bytes[1], native->stream);
    code |= cu.fill(y, (unsigned char)(uintptr_t)user, 1, native->stream);
    return code == 0 ? MUSTER_OK : MUSTER_E_FAILED;
}

static muster_status copy_cpu(void *user, const struct muster_native *native)
{
    for (uint64_t row = 0; row < TILE; row++)
        memcpy((char *)native->pointers[1] + row * native->pitches[1],
               (const char *)native->pointers[0] + row * native->pitches[0], TILE);
    *(unsigned char *)native->pointers[1] = (unsigned char)(uintptr_t)user;
    return MUSTER_OK;
}

static const struct muster_body both[] = { { sizeof *both, "cuda", copy_cuda },
                                           { sizeof *both, "cpu", copy_cpu } };

struct matrix {
    unsigned char bytes[EDGE * EDGE], expected[EDGE * EDGE];
    muster_data whole, tiles[TILES];
};

static struct muster *open_devices(const char *devices, const char *settings)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = devices;
    options.cpu_workers = 2;
    options.close_ns = LONG;
    driver->reset();
    CHECK(driver->set(settings));
    atomic_store(&runs_on_cuda, 0);
    return open_with(options);
}

static uint32_t first_of(uint32_t tile)
{
    return (tile / (EDGE / TILE) * EDGE + tile % (EDGE / TILE)) * TILE;
}

static void set_up(struct muster *m, struct matrix *matrix)
{
    for (uint32_t i = 0; i < EDGE * EDGE; i++)
        matrix->bytes[i] = matrix->expected[i] = (unsigned char)(i * 7 + i / EDGE);
    MUST(muster_data_create(m, matrix->bytes, sizeof matrix->bytes, 0, &matrix->whole, &problem));
    for (uint32_t i = 0; i < TILES; i++)
        MUST(muster_data_tile(m, matrix->whole, i / (EDGE / TILE) * TILE, TILE,
                              i % (EDGE / TILE) * TILE, TILE, EDGE, &matrix->tiles[i], &problem));
}

static void expect(struct matrix *matrix, uint32_t x, uint32_t y, uint32_t value)
{
    for (uint32_t row = 0; row < TILE; row++)
        memcpy(&matrix->expected[first_of(y) + row * EDGE],
               &matrix->expected[first_of(x) + row * EDGE], TILE);
    matrix->expected[first_of(y)] = (unsigned char)value;
}

static muster_task submit(struct muster *m, struct matrix *matrix, uint32_t t, size_t body_count)
{
    uint32_t x = t * 5 % TILES, y = (t * 3 + 1) % (TILES - KEPT);
    y = x == y ? (y + 1) % (TILES - KEPT) : y;
    const struct muster_task_access accesses[] = { MUSTER_ACCESS(matrix->tiles[x], MUSTER_READ),
                                                   MUSTER_ACCESS(matrix->tiles[y],
                                                                 MUSTER_READ_WRITE) };
    const struct muster_task_desc desc = { .size = sizeof desc,
                                           .user = (void *)(uintptr_t)t,
                                           .accesses = accesses,
                                           .access_count = 2,
                                           .bodies = both,
                                           .body_count = body_count };
    muster_task task = { 0, 0 };
    MUST(muster_submit(m, &desc, 1, &task, &problem));
    expect(matrix, x, y, t);
    return task;
}

/* How many tiles came home; those are right. */
static uint32_t check_tiles(struct muster *m, struct matrix *matrix)
{
    uint32_t well = 0;
    for (uint32_t i = 0; i < TILES; i++) {
        muster_status status = muster_data_destroy(m, matrix->tiles[i], &problem);
        CHECK(status != MUSTER_E_TIMEOUT);
        well += status == MUSTER_OK;
        for (uint32_t row = 0; row < TILE && status == MUSTER_OK; row++)
            CHECK(memcmp(&matrix->expected[first_of(i) + row * EDGE],
                         &matrix->bytes[first_of(i) + row * EDGE], TILE) == 0);
    }
    (void)muster_data_destroy(m, matrix->whole, &problem);
    return well;
}

static void run_all(const char *devices, const char *settings, uint32_t count, size_t body_count)
{
    static struct matrix matrix;
    struct muster *m = open_devices(devices, settings);
    set_up(m, &matrix);
    for (uint32_t t = 0; t < count; t++)
        submit(m, &matrix, t, body_count);
    CHECK_EQUAL(TILES, check_tiles(m, &matrix));
    CHECK(atomic_load(&runs_on_cuda) > 0);
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, driver->left_behind());
}

static void bodies_enqueue_with_the_context_current(void)
{
    run_all("cuda", "devices=1", 60, 1);
}

static void two_devices_and_the_cpu(void)
{
    run_all("cuda,cpu", "devices=2", 200, 2);
}

/* A context goes in the middle of it: the rest is done elsewhere, and what was only there is named. */
static void a_lost_context_leaves_the_rest(const char *settings)
{
    enum { COUNT = 100 };
    static struct matrix matrix;
    static muster_task tasks[COUNT];
    struct muster *m = open_devices("cuda,cpu", "devices=1");
    set_up(m, &matrix);
    for (uint32_t t = 0; t < COUNT; t++) {
        if (t == 20)
            CHECK(driver->set(settings));
        tasks[t] = submit(m, &matrix, t, 2);
    }
    for (uint32_t t = 0; t < COUNT; t++)
        CHECK(muster_wait(m, &tasks[t], 1, LONG, &problem) != MUSTER_E_TIMEOUT);
    CHECK(check_tiles(m, &matrix) >= KEPT);
    MUST(muster_close(m, &problem));
}

static void a_context_may_be_lost_any_time(void)
{
    a_lost_context_leaves_the_rest("poison=any:1:700");
    a_lost_context_leaves_the_rest("poison=any:9:700");
    a_lost_context_leaves_the_rest("lost=700");
    a_lost_context_leaves_the_rest("fail=cuMemAllocFromPoolAsync:1:2");
    a_lost_context_leaves_the_rest("fail=cuEventRecord:5:999");
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(bodies_enqueue_with_the_context_current),
        TEST(two_devices_and_the_cpu),
        TEST(a_context_may_be_lost_any_time),
    };
    const struct test_cuda *(*control)(void);
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = library ? dlsym(library, TEST_CUDA_CONTROL) : NULL;
    if (!found || !find_cu(library))
        return 77;
    memcpy(&control, &found, sizeof control);
    driver = control();
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
