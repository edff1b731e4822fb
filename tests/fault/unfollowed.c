/*
 * Work that runs while the driver will not say so: what it uses is left alone until it is known to
 * be over. Kernels here run until they are let go, so that nothing depends on who is faster.
 */
#include "backend/sim/sim.h"
#include "faulty_allocator.h"
#include "faulty_backend.h"
#include "harness.h"

#include <muster/muster.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define ITEMS 16
#define BYTES (ITEMS * sizeof(uint32_t))
#define LONG_NS 20000000000u

static const char sim[] = "[{\"items_per_s\": 1e12, \"memory\": \"64MiB\"}]";
static const struct faulty_plan no_plan = { .number = 0 };

/* What a kernel waits for and tells. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has_begun, may_end, has_ended;
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static muster_status run_until_let_go(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end;
    pthread_mutex_lock(&gate.lock);
    gate.has_begun = true;
    pthread_cond_broadcast(&gate.changed);
    while (!gate.may_end)
        pthread_cond_wait(&gate.changed, &gate.lock);
    gate.has_ended = true;
    pthread_mutex_unlock(&gate.lock);
    memset(*(uint32_t *const *)args[0], 0, BYTES);
    return MUSTER_OK;
}

static void let_go(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.may_end = true;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

static void wait_until_begun(void)
{
    pthread_mutex_lock(&gate.lock);
    while (!gate.has_begun)
        pthread_cond_wait(&gate.changed, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
}

static bool has_ended(void)
{
    pthread_mutex_lock(&gate.lock);
    bool has_ended = gate.has_ended;
    pthread_mutex_unlock(&gate.lock);
    return has_ended;
}

/* A runtime with one device, one stream, a block and the kernel. */
static struct {
    struct faulty_allocator allocator;
    struct muster *m;
    struct muster_error err;
    muster_device device;
    muster_stream stream;
    muster_block block;
    struct muster_kernel *kernel;
} rig;

static void open_rig(uint64_t close_ns)
{
    const struct muster_backend *backend = faulty_wrap(&backend_sim, &no_plan);
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = run_until_let_go };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    gate.has_begun = gate.may_end = gate.has_ended = false;
    faulty_allocator_init(&rig.allocator, 0, false);
    options.allocator = faulty_allocator_hook(&rig.allocator);
    options.devices = "faulty";
    options.sim = sim;
    options.backends = &backend;
    options.backend_count = 1;
    options.close_ns = close_ns;
    CHECK_STATUS(MUSTER_OK, muster_open(&rig.m, &options, &rig.err));
    CHECK_STATUS(MUSTER_OK, muster_device_find(rig.m, "faulty:0", &rig.device, &rig.err));
    CHECK_STATUS(MUSTER_OK, muster_stream_acquire(rig.m, rig.device, 0, &rig.stream, &rig.err));
    CHECK_STATUS(MUSTER_OK, muster_block_allocate(rig.m, rig.stream, BYTES, &rig.block, &rig.err));
    CHECK_STATUS(MUSTER_OK,
                 muster_kernel_from(rig.m, "until let go", &form, 1, &rig.kernel, &rig.err));
}

static muster_status launch(muster_block block, enum muster_access access, muster_status *result)
{
    const struct muster_operand args[] = {
        { .size = sizeof *args, .block = block, .access = access }
    };
    return muster_launch(rig.m, rig.stream, rig.kernel, 0, 1, args, 1, result, &rig.err);
}

/* Closes, and nothing is left. */
static void close_rig(muster_status expected)
{
    CHECK_STATUS(expected, muster_close(rig.m, &rig.err));
    CHECK_TEXT("", faulty_mistake());
    CHECK_EQUAL(0, rig.allocator.bytes_out);
    if (expected == MUSTER_OK)
        CHECK_EQUAL(0, faulty_orphans());
    faulty_allocator_deinit(&rig.allocator);
}

static void fail_from_now(enum faulty_call call, muster_status status)
{
    faulty_replan(&(struct faulty_plan){ call, 1, true, status });
}

static void memory_in_use_is_not_freed(void)
{
    open_rig(LONG_NS);
    CHECK_STATUS(MUSTER_OK, launch(rig.block, MUSTER_WRITES, NULL));
    wait_until_begun();
    fail_from_now(FAULTY_event_query, MUSTER_E_DRIVER);
    CHECK_STATUS(MUSTER_OK, muster_block_free(rig.m, rig.stream, rig.block, &rig.err));
    CHECK_STATUS(MUSTER_OK, muster_block_estimate(rig.m, rig.device, NULL, 0, &rig.err));
    CHECK(faulty_calls(FAULTY_event_query) > 0);
    CHECK_EQUAL(1, faulty_live(FAULTY_MEMORY));
    let_go();
    close_rig(MUSTER_OK);
}

static void a_unit_is_not_counted_before_it_ends(void)
{
    struct muster_device_load load = { .size = sizeof load };
    muster_status result = MUSTER_E_INTERNAL;
    open_rig(LONG_NS);
    CHECK_STATUS(MUSTER_OK, launch(rig.block, MUSTER_WRITES, &result));
    wait_until_begun();
    fail_from_now(FAULTY_event_query, MUSTER_E_DRIVER);
    CHECK_STATUS(MUSTER_OK, muster_device_load(rig.m, rig.device, &load, &rig.err));
    CHECK_EQUAL(1, load.queue_depth);
    CHECK_EQUAL(0, load.failed);
    let_go();
    /* The stream's own word is enough. */
    CHECK_STATUS(MUSTER_OK, muster_stream_wait(rig.m, rig.stream, LONG_NS, &rig.err));
    CHECK_STATUS(MUSTER_OK, result);
    CHECK_STATUS(MUSTER_OK, muster_device_load(rig.m, rig.device, &load, &rig.err));
    CHECK_EQUAL(0, load.queue_depth);
    CHECK_EQUAL(1, load.completed);
    close_rig(MUSTER_OK);
}

static void data_in_use_is_not_destroyed(void)
{
    static uint32_t table[ITEMS];
    muster_data data;
    muster_block resident;
    muster_stream other;
    open_rig(LONG_NS);
    CHECK_STATUS(MUSTER_OK, muster_data_create(rig.m, table, BYTES, 0, &data, &rig.err));
    CHECK_STATUS(MUSTER_OK, launch(rig.block, MUSTER_WRITES, NULL));
    /* Queued behind the kernel, so that the host's memory is still to be read. */
    CHECK_STATUS(MUSTER_OK, muster_data_resident(rig.m, data, rig.stream, &resident, &rig.err));
    CHECK_STATUS(MUSTER_OK, muster_stream_acquire(rig.m, rig.device, 0, &other, &rig.err));
    wait_until_begun();
    fail_from_now(FAULTY_event_wait, MUSTER_E_DRIVER);
    CHECK_STATUS(MUSTER_E_DRIVER, muster_data_destroy(rig.m, data, &rig.err));
    CHECK_STATUS(MUSTER_E_DRIVER, muster_data_invalidate(rig.m, data, &rig.err));
    faulty_replan(&no_plan);
    let_go();
    CHECK_STATUS(MUSTER_OK, muster_data_destroy(rig.m, data, &rig.err));
    close_rig(MUSTER_OK);
}

static void *let_go_when_waited_for(void *has_returned)
{
    pthread_mutex_t *lock = &gate.lock;
    for (;;) {
        pthread_mutex_lock(lock);
        bool is_over = *(bool *)has_returned;
        pthread_mutex_unlock(lock);
        if (is_over || faulty_calls(FAULTY_stream_query) > 0)
            break;
        nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
    }
    let_go();
    return NULL;
}

/* Nothing could wait for it later, so the call itself does, and then it has gone well. */
static void what_cannot_be_recorded_is_waited_for(void)
{
    struct muster_device_load load = { .size = sizeof load };
    bool has_returned = false;
    muster_status result = MUSTER_E_INTERNAL;
    pthread_t thread;
    open_rig(LONG_NS);
    fail_from_now(FAULTY_event_record, MUSTER_E_DRIVER);
    CHECK(pthread_create(&thread, NULL, let_go_when_waited_for, &has_returned) == 0);
    muster_status status = launch(rig.block, MUSTER_WRITES, &result);
    bool was_waited_for = has_ended();
    pthread_mutex_lock(&gate.lock);
    has_returned = true;
    pthread_mutex_unlock(&gate.lock);
    pthread_join(thread, NULL);
    CHECK_STATUS(MUSTER_OK, status);
    CHECK(was_waited_for);
    CHECK_STATUS(MUSTER_OK, result);
    CHECK_STATUS(MUSTER_OK, muster_device_load(rig.m, rig.device, &load, &rig.err));
    CHECK_EQUAL(1, load.dispatched);
    CHECK_EQUAL(1, load.completed);
    /* The same for a free: it is done, and says so. */
    CHECK_STATUS(MUSTER_OK, muster_block_free(rig.m, rig.stream, rig.block, &rig.err));
    CHECK_EQUAL(0, faulty_live(FAULTY_MEMORY));
    close_rig(MUSTER_OK);
}

/* A driver that takes work and then refuses everything is given up, with what it may still touch. */
static void what_cannot_be_waited_for_is_given_up(void)
{
    struct muster_device_load load = { .size = sizeof load };
    open_rig(LONG_NS);
    CHECK_STATUS(MUSTER_OK, launch(rig.block, MUSTER_WRITES, NULL));
    wait_until_begun();
    const struct muster_use use = MUSTER_USE(rig.block, MUSTER_WRITES);
    CHECK_STATUS(MUSTER_OK, muster_block_begin(rig.m, rig.stream, &use, 1, &rig.err));
    fail_from_now(FAULTY_ANY, MUSTER_E_DRIVER);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_block_end(rig.m, rig.stream, &use, 1, &rig.err));
    CHECK_TEXT("faulty:0", rig.err.device);
    CHECK_STATUS(MUSTER_OK, muster_device_load(rig.m, rig.device, &load, &rig.err));
    CHECK_EQUAL(MUSTER_HEALTH_LOST, load.health);
    faulty_replan(&no_plan);
    /* Nobody holds the block any more, but the kernel writes to it. */
    CHECK_STATUS(MUSTER_OK, muster_block_free(rig.m, rig.stream, rig.block, &rig.err));
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, muster_block_estimate(rig.m, rig.device, NULL, 0, &rig.err));
    CHECK_EQUAL(1, faulty_live(FAULTY_MEMORY));
    let_go();
    close_rig(MUSTER_E_DEVICE_HUNG);
}

/* What was begun can be ended, and what was held is free again. */
static void check_loss_between_begin_and_end(bool has_an_event)
{
    muster_stream other;
    muster_block unrelated;
    open_rig(LONG_NS);
    const struct muster_use use = MUSTER_USE(rig.block, MUSTER_WRITES);
    CHECK_STATUS(MUSTER_OK, muster_stream_acquire(rig.m, rig.device, 0, &other, &rig.err));
    CHECK_STATUS(MUSTER_OK, muster_block_allocate(rig.m, other, BYTES, &unrelated, &rig.err));
    CHECK_STATUS(MUSTER_OK, muster_block_begin(rig.m, rig.stream, &use, 1, &rig.err));
    /* Takes the event that begin gave back, so that end has to make one. */
    if (!has_an_event)
        CHECK_STATUS(MUSTER_OK, muster_fill(rig.m, other, unrelated, 0, 0, BYTES, &rig.err));
    fail_from_now(FAULTY_ANY, MUSTER_E_DEVICE_LOST);
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, muster_block_end(rig.m, rig.stream, &use, 1, &rig.err));
    CHECK_STATUS(MUSTER_OK, muster_block_free(rig.m, rig.stream, rig.block, &rig.err));
    CHECK_STATUS(MUSTER_OK, muster_stream_release(rig.m, rig.stream, &rig.err));
    close_rig(MUSTER_OK);
}

static void a_lost_device_holds_nothing(void)
{
    check_loss_between_begin_and_end(true);
    check_loss_between_begin_and_end(false);
}

/* Though the block that was taken for it cannot be freed in order either. */
static void a_failed_load_leaves_nothing(void)
{
    static uint32_t table[ITEMS];
    muster_data data;
    muster_block resident;
    open_rig(LONG_NS);
    CHECK_STATUS(MUSTER_OK, muster_data_create(rig.m, table, BYTES, 0, &data, &rig.err));
    CHECK_EQUAL(1, faulty_live(FAULTY_MEMORY));
    fail_from_now(FAULTY_event_init, MUSTER_E_DRIVER);
    CHECK_STATUS(MUSTER_E_DRIVER,
                 muster_data_resident(rig.m, data, rig.stream, &resident, &rig.err));
    CHECK(faulty_calls(FAULTY_memory_allocate) == 1);
    CHECK_EQUAL(1, faulty_live(FAULTY_MEMORY));
    close_rig(MUSTER_OK);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(memory_in_use_is_not_freed),
        TEST(a_unit_is_not_counted_before_it_ends),
        TEST(data_in_use_is_not_destroyed),
        TEST(what_cannot_be_recorded_is_waited_for),
        TEST(what_cannot_be_waited_for_is_given_up),
        TEST(a_lost_device_holds_nothing),
        TEST(a_failed_load_leaves_nothing),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
