/*
 * Tasks with kernels among more devices than fit into a few words.
 */
#include "support.h"

#include "backend/sim/sim.h"

#define BACKENDS 5
#define DEVICES_EACH 64

static _Atomic unsigned runs;

static muster_status count_run(uint64_t begin, uint64_t end, void *const *args)
{
    (void)args;
    atomic_fetch_add(&runs, (unsigned)(end - begin));
    return MUSTER_OK;
}

static struct muster *open_many(void)
{
    static struct muster_backend tables[BACKENDS];
    static const struct muster_backend *backends[BACKENDS];
    static const char *const names[BACKENDS] = { "a", "b", "c", "d", "e" };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    for (size_t i = 0; i < BACKENDS; i++) {
        tables[i] = backend_sim;
        tables[i].name = names[i];
        backends[i] = &tables[i];
    }
    options.backends = backends;
    options.backend_count = BACKENDS;
    options.devices = "a,b,c,d,e";
    options.sim = "[{\"items_per_s\":1e9,\"count\":64}]";
    return open_with(options);
}

static void a_task_reaches_every_device(void)
{
    struct muster *m = open_many();
    struct muster_kernel *kernel = kernel_of(m, count_run);
    static const char *const ids[] = { "a:0", "d:63", "e:0", "e:63" };
    size_t count;
    CHECK_STATUS(MUSTER_E_CAPACITY, muster_device_list(m, NULL, 0, &count, &problem));
    CHECK_EQUAL(BACKENDS * DEVICES_EACH, count);
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        const struct muster_hints hints = { .size = sizeof hints, .devices = ids[i] };
        const struct muster_task_desc desc = {
            .size = sizeof desc, .kernel = kernel, .items = 3, .hints = &hints
        };
        muster_task task;
        atomic_store(&runs, 0);
        MUST(muster_submit(m, &desc, 1, &task, &problem));
        MUST(muster_wait(m, &task, 1, 60 * SECOND, &problem));
        CHECK_EQUAL(3, atomic_load(&runs));
        CHECK_EQUAL(1, load_of(m, find(m, ids[i])).completed);
    }
    /* Nothing is asked of the device: any will do, and one is found. */
    const struct muster_task_desc plain = { .size = sizeof plain, .kernel = kernel, .items = 1 };
    atomic_store(&runs, 0);
    for (int i = 0; i < 20; i++)
        MUST(muster_submit(m, &plain, 1, NULL, &problem));
    MUST(muster_wait(m, NULL, 0, 60 * SECOND, &problem));
    CHECK_EQUAL(20, atomic_load(&runs));
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(a_task_reaches_every_device) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
