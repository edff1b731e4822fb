/*
 * What was given is seen to finish: also on a device that is lost or quarantined, where work may
 * still run on the caller's memory, on a stream that is full, and if nobody looks.
 */
#include "harness.h"
#include "platform/thread.h"

#include <muster/muster.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SHORT_NS 1000000u
#define LONG_NS 2000000000u

/* Holds kernels until it is opened. */
static struct platform_mutex lock;
static struct platform_condition opened;
static bool is_open;

static void gate_set(bool open)
{
    platform_mutex_lock(&lock);
    is_open = open;
    platform_condition_wake_all(&opened);
    platform_mutex_unlock(&lock);
}

static muster_status wait_at_gate(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end, (void)args;
    platform_mutex_lock(&lock);
    while (!is_open)
        platform_condition_wait(&opened, &lock, UINT64_MAX);
    platform_mutex_unlock(&lock);
    return MUSTER_OK;
}

static muster_status do_nothing(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end, (void)args;
    return MUSTER_OK;
}

static struct muster_kernel *make_kernel(struct muster *m, muster_kernel_function function)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = function };
    struct muster_kernel *kernel;
    CHECK_STATUS(MUSTER_OK, muster_kernel_from(m, "kernel", &form, 1, &kernel, NULL));
    return kernel;
}

static enum muster_health health_of(struct muster *m, muster_device device)
{
    struct muster_device_load load = { .size = sizeof load };
    CHECK_STATUS(MUSTER_OK, muster_device_load(m, device, &load, NULL));
    return load.health;
}

static void results_are_there_after_a_wait_on_a_lost_device(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "sim";
    options.sim = "[{\"items_per_s\":1e6,\"faults\":[{\"kind\":\"lost\",\"at_launch\":2}]}]";
    struct muster *m;
    muster_device device;
    muster_stream first, second;
    muster_status result = MUSTER_E_INTERNAL, status = MUSTER_OK;
    gate_set(false);
    CHECK_STATUS(MUSTER_OK, muster_open(&m, &options, NULL));
    CHECK_STATUS(MUSTER_OK, muster_device_find(m, "sim:0", &device, NULL));
    CHECK_STATUS(MUSTER_OK, muster_stream_acquire(m, device, 0, &first, NULL));
    CHECK_STATUS(MUSTER_OK, muster_stream_acquire(m, device, 0, &second, NULL));
    struct muster_kernel *waits = make_kernel(m, wait_at_gate),
                         *nothing = make_kernel(m, do_nothing);
    /* The device has one thread: no second launch begins, and costs it, before both are given. */
    CHECK_STATUS(MUSTER_OK, muster_launch(m, first, waits, 0, 1, NULL, 0, NULL, NULL));
    CHECK_STATUS(MUSTER_OK, muster_launch(m, second, nothing, 0, 1, NULL, 0, &result, NULL));
    gate_set(true);
    /* The loss is noticed on the first stream; the second's launch must be accounted for as well. */
    while (status == MUSTER_OK) {
        status = muster_launch(m, first, nothing, 0, 1, NULL, 0, NULL, NULL);
        sched_yield();
    }
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, status);
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, muster_stream_wait(m, second, UINT64_MAX, NULL));
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, result);
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

static void a_quarantined_device_is_waited_for(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "sim";
    options.sim = "[{\"items_per_s\":1e6,\"cores\":2,\"slices\":true,"
                  "\"faults\":[{\"kind\":\"lost\",\"at_launch\":2}]}]";
    const uint32_t sizes[] = { 1, 1 };
    struct muster *m;
    muster_device device, slices[2];
    muster_stream lost, held;
    gate_set(false);
    CHECK_STATUS(MUSTER_OK, muster_open(&m, &options, NULL));
    CHECK_STATUS(MUSTER_OK, muster_device_find(m, "sim:0", &device, NULL));
    CHECK_STATUS(MUSTER_OK, muster_device_slice(m, device, sizes, 2, slices, NULL));
    CHECK_STATUS(MUSTER_OK, muster_stream_acquire(m, slices[0], 0, &lost, NULL));
    CHECK_STATUS(MUSTER_OK, muster_stream_acquire(m, slices[1], 0, &held, NULL));
    struct muster_kernel *waits = make_kernel(m, wait_at_gate),
                         *nothing = make_kernel(m, do_nothing);
    CHECK_STATUS(MUSTER_OK, muster_launch(m, held, waits, 0, 1, NULL, 0, NULL, NULL));
    CHECK_STATUS(MUSTER_OK, muster_launch(m, lost, nothing, 0, 1, NULL, 0, NULL, NULL));
    /* It may be gone before the call is over. */
    muster_status status = muster_launch(m, lost, nothing, 0, 1, NULL, 0, NULL, NULL);
    CHECK(status == MUSTER_OK || status == MUSTER_E_DEVICE_LOST);
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, muster_stream_wait(m, lost, UINT64_MAX, NULL));
    CHECK_EQUAL(MUSTER_HEALTH_QUARANTINED, health_of(m, slices[1]));

    /* Nothing new, but what it has is running. */
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, muster_launch(m, held, nothing, 0, 1, NULL, 0, NULL, NULL));
    CHECK_STATUS(MUSTER_E_BUSY, muster_stream_query(m, held, NULL));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_stream_wait(m, held, SHORT_NS, NULL));
    gate_set(true);
    CHECK_STATUS(MUSTER_OK, muster_stream_wait(m, held, UINT64_MAX, NULL));
    CHECK_EQUAL(MUSTER_HEALTH_QUARANTINED, health_of(m, slices[1]));
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

static void a_full_stream_refuses_and_is_otherwise_well(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "cpu";
    options.close_ns = LONG_NS; /* what a failed record would wait before giving up the device */
    unsigned char bytes[64] = { 0 };
    struct muster *m;
    struct muster_error err;
    muster_device device;
    muster_stream stream, other;
    muster_block block;
    gate_set(false);
    CHECK_STATUS(MUSTER_OK, muster_open(&m, &options, NULL));
    CHECK_STATUS(MUSTER_OK, muster_device_find(m, "cpu:0", &device, NULL));
    CHECK_STATUS(MUSTER_OK, muster_stream_acquire(m, device, 0, &stream, NULL));
    CHECK_STATUS(MUSTER_OK, muster_stream_acquire(m, device, 0, &other, NULL));
    struct muster_kernel *waits = make_kernel(m, wait_at_gate);
    CHECK_STATUS(MUSTER_OK, muster_block_allocate(m, other, sizeof bytes, &block, NULL));
    CHECK_STATUS(MUSTER_OK, muster_launch(m, stream, waits, 0, 1, NULL, 0, NULL, NULL));
    /*
     * An operation and its record make two; the wait for the other stream makes the number odd, so
     * that it would be a record that does not fit.
     */
    muster_status status = MUSTER_OK;
    uint8_t given = 0;
    while (status == MUSTER_OK) {
        status = muster_fill(m, stream, block, 0, (uint8_t)(given + 1), sizeof bytes, &err);
        given = (uint8_t)(given + (status == MUSTER_OK));
    }
    CHECK_STATUS(MUSTER_E_CAPACITY, status);
    CHECK_CONTAINS("unfinished operations", err.text);
    CHECK_EQUAL(MUSTER_HEALTH_OK, health_of(m, device));
    gate_set(true);
    CHECK_STATUS(MUSTER_OK, muster_stream_wait(m, stream, UINT64_MAX, NULL));
    CHECK_STATUS(MUSTER_OK, muster_copy_out(m, stream, bytes, block, 0, sizeof bytes, NULL));
    CHECK_STATUS(MUSTER_OK, muster_stream_wait(m, stream, UINT64_MAX, NULL));
    /* What was refused was not done. */
    CHECK_EQUAL(given, bytes[0]);
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

/* Counts what is out. Calls may come from several threads. */
static _Atomic size_t bytes_out;

static void *count_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    void *memory = aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
    bytes_out += memory ? bytes : 0;
    return memory;
}

static void count_release(void *user, void *memory, size_t bytes)
{
    (void)user;
    bytes_out -= memory ? bytes : 0;
    free(memory);
}

static _Atomic unsigned launches_run;

static muster_status count_launch(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end, (void)args;
    launches_run++;
    return MUSTER_OK;
}

static void give(struct muster *m, muster_stream stream, struct muster_kernel *kernel,
                 unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        unsigned before = launches_run;
        CHECK_STATUS(MUSTER_OK, muster_launch(m, stream, kernel, 0, 1, NULL, 0, NULL, NULL));
        /* Never more than a few at once, and yet nobody asks Muster how they are. */
        while (launches_run == before)
            sched_yield();
    }
}

static void giving_work_without_looking_does_not_grow(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "cpu";
    options.allocator = &(struct muster_allocator){ sizeof(struct muster_allocator), count_allocate,
                                                    count_release, NULL };
    struct muster *m;
    muster_device device;
    muster_stream stream;
    bytes_out = 0;
    CHECK_STATUS(MUSTER_OK, muster_open(&m, &options, NULL));
    CHECK_STATUS(MUSTER_OK, muster_device_find(m, "cpu:0", &device, NULL));
    CHECK_STATUS(MUSTER_OK, muster_stream_acquire(m, device, 0, &stream, NULL));
    struct muster_kernel *kernel = make_kernel(m, count_launch);
    give(m, stream, kernel, 100);
    size_t after_some = bytes_out;
    give(m, stream, kernel, 5000);
    /* What one that is not finished yet may need, and not what each has needed. */
    CHECK(bytes_out < after_some + 8192);
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
    CHECK_EQUAL(0, bytes_out);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(results_are_there_after_a_wait_on_a_lost_device),
        TEST(a_quarantined_device_is_waited_for),
        TEST(a_full_stream_refuses_and_is_otherwise_well),
        TEST(giving_work_without_looking_does_not_grow),
    };
    if (platform_mutex_init(&lock, NULL) || platform_condition_init(&opened, NULL))
        return 1;
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
