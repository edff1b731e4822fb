/*
 * Every OpenCL call fails once, and then every one from there on: nothing crashes, hangs or leaks,
 * and each host call that was accepted is made exactly once.
 */
#include "control.h"
#include "fault/sweep.h"

#include "backend/opencl/opencl.h"
#include "backend/registry.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define EXIT_SKIPPED 77
#define SOON_NS UINT64_C(20000000000)
#define BYTES 1000
#define CALLS 3

static const char source[] = "kernel void twice(ulong begin, ulong items, global uchar *block,\n"
                             "                  ulong offset)\n"
                             "{\n"
                             "    ulong i = get_global_id(0);\n"
                             "    if (i < items)\n"
                             "        block[offset + begin + i] *= 2;\n"
                             "}\n";

static _Atomic int64_t bytes_taken;

static void *counting_allocate(void *user, size_t bytes, size_t alignment)
{
    void *memory = NULL;
    (void)user;
    if (posix_memalign(&memory, alignment, bytes) != 0)
        return NULL;
    atomic_fetch_add(&bytes_taken, (int64_t)bytes);
    return memory;
}

static void counting_release(void *user, void *memory, size_t bytes)
{
    (void)user;
    atomic_fetch_sub(&bytes_taken, (int64_t)bytes);
    free(memory);
}

static void ignore_log(const struct muster_services *services, enum muster_log_level level,
                       const char *text)
{
    (void)services, (void)level, (void)text;
}

static const struct muster_allocator counting_allocator = { sizeof counting_allocator,
                                                            counting_allocate, counting_release,
                                                            NULL };
static const struct muster_services services = {
    .size = sizeof services,
    .allocator = &counting_allocator,
    .log = ignore_log,
};

struct call {
    bool is_accepted;
    _Atomic int made;
};

/* What a run has made, so that exactly that is closed. */
struct bench {
    struct muster_backend table;
    void *backend, *device, *streams[2], *events[2], *kernel;
    bool has_backend, has_device, has_streams[2], has_events[2], has_kernel, has_memory;
    struct muster_memory memory;
    struct call calls[CALLS];
    muster_status result;
    unsigned char in[BYTES], out[BYTES];
    struct muster_error err;
};

static void note(void *user, muster_status status)
{
    (void)status;
    atomic_fetch_add(&((struct call *)user)->made, 1);
}

/* Each step needs those before it; the first that fails ends the run. */
#define TRY(slot, ...)                                                                             \
    do {                                                                                           \
        muster_status status_ = bench->table.slot(__VA_ARGS__, &bench->err);                       \
        if (status_ != MUSTER_OK)                                                                  \
            return status_;                                                                        \
    } while (0)

static muster_status set_up(struct bench *bench)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_OPENCL,
                                             .code = source,
                                             .code_bytes = sizeof source - 1,
                                             .entry = "twice" };
    struct muster_device_info info = { .size = sizeof info };
    uint32_t count = 0;
    TRY(open, bench->backend, &services, &count);
    bench->has_backend = true;
    TRY(device_open, bench->backend, 0, bench->device, &info);
    bench->has_device = true;
    TRY(memory_allocate, bench->device, NULL, BYTES, &bench->memory);
    bench->has_memory = true;
    for (int i = 0; i < 2; i++) {
        TRY(stream_open, bench->device, 0, 0, bench->streams[i]);
        bench->has_streams[i] = true;
        TRY(event_init, bench->device, 0, bench->events[i]);
        bench->has_events[i] = true;
    }
    TRY(kernel_init, bench->device, &form, bench->kernel);
    bench->has_kernel = true;
    return MUSTER_OK;
}

static muster_status give_call(struct bench *bench, int stream, int number)
{
    TRY(host_call, bench->streams[stream], note, &bench->calls[number]);
    bench->calls[number].is_accepted = true;
    return MUSTER_OK;
}

static muster_status give_work(struct bench *bench)
{
    const struct muster_place place = { .memory = &bench->memory };
    const struct muster_copy_desc in = { .to = { .memory = &bench->memory, .offset = 1 },
                                         .from = { .host = bench->in },
                                         .bytes = BYTES - 1 };
    const struct muster_copy_desc out = { .to = { .host = bench->out },
                                          .from = { .memory = &bench->memory },
                                          .bytes = BYTES };
    const struct muster_launch_arg args[] = { { .memory = &bench->memory } };
    const struct muster_launch_desc launch = {
        .items = BYTES, .args = args, .arg_count = 1, .result = &bench->result
    };
    TRY(fill, bench->streams[0], &place, 3, BYTES);
    muster_status status = give_call(bench, 0, 0);
    if (status != MUSTER_OK)
        return status;
    TRY(copy, bench->streams[0], &in);
    TRY(launch, bench->streams[0], bench->kernel, &launch, 1);
    TRY(event_record, bench->events[0], bench->streams[0]);
    TRY(stream_wait, bench->streams[1], bench->events[0]);
    status = give_call(bench, 1, 1);
    if (status != MUSTER_OK)
        return status;
    TRY(copy, bench->streams[1], &out);
    status = give_call(bench, 1, 2);
    if (status != MUSTER_OK)
        return status;
    TRY(event_record, bench->events[1], bench->streams[1]);
    TRY(event_wait, bench->events[1], SOON_NS);
    return MUSTER_OK;
}

/* Waits until the streams are over, as the runtime does before it closes a device. */
static void settle(struct bench *bench)
{
    for (int i = 0; i < 2; i++)
        for (int looks = 0; bench->has_streams[i] && looks < 20000; looks++) {
            muster_status status = bench->table.stream_query(bench->streams[i], NULL);
            if (status == MUSTER_OK || status == MUSTER_E_STREAM_FAILED ||
                status == MUSTER_E_DEVICE_LOST)
                break;
            bench->table.event_wait(bench->events[i], 100000, NULL);
        }
}

static void tear_down(struct bench *bench)
{
    settle(bench);
    for (int i = 0; i < 2; i++) {
        if (bench->has_streams[i])
            bench->table.stream_close(bench->streams[i]);
        if (bench->has_events[i])
            bench->table.event_deinit(bench->events[i]);
    }
    if (bench->has_kernel)
        bench->table.kernel_deinit(bench->kernel);
    if (bench->has_memory)
        bench->table.memory_free(bench->device, NULL, &bench->memory, NULL);
    if (bench->has_device)
        CHECK_STATUS(MUSTER_OK, bench->table.device_close(bench->device));
    if (bench->has_backend)
        bench->table.close(bench->backend);
}

static void check_result(const struct bench *bench)
{
    CHECK_STATUS(MUSTER_OK, bench->result);
    CHECK_EQUAL(6, bench->out[0]);
    for (int i = 1; i < BYTES; i++)
        CHECK_EQUAL(14, bench->out[i]);
}

/* One run; whether it got through. */
static bool run(void)
{
    static struct bench bench;
    int64_t live_before = loader.live();
    memset(&bench, 0, sizeof bench);
    memset(bench.in, 7, BYTES);
    CHECK_STATUS(MUSTER_OK, registry_complete(&backend_opencl, &bench.table, &bench.err));
    bench.backend = calloc(1, bench.table.backend_bytes);
    bench.device = calloc(1, bench.table.device_bytes);
    bench.kernel = calloc(1, bench.table.kernel_bytes);
    for (int i = 0; i < 2; i++) {
        bench.streams[i] = calloc(1, bench.table.stream_bytes);
        bench.events[i] = calloc(1, bench.table.event_bytes);
    }
    muster_status status = set_up(&bench);
    if (status == MUSTER_OK)
        status = give_work(&bench);
    if (status == MUSTER_OK)
        check_result(&bench);
    else
        CHECK(bench.err.text[0]);
    tear_down(&bench);
    for (int i = 0; i < CALLS; i++)
        CHECK_EQUAL(bench.calls[i].is_accepted, atomic_load(&bench.calls[i].made));
    CHECK_EQUAL(0, atomic_load(&bytes_taken));
    CHECK_EQUAL(live_before, loader.live());
    free(bench.backend);
    free(bench.device);
    free(bench.kernel);
    for (int i = 0; i < 2; i++) {
        free(bench.streams[i]);
        free(bench.events[i]);
    }
    return status == MUSTER_OK;
}

static uint64_t calls_of_a_run(void)
{
    loader.set(DOUBLE_WELL, 0, 0);
    CHECK(run());
    return loader.count();
}

/* Every `step`th call, since each run builds a kernel; fewer under a sanitizer. */
static void fail_each(enum double_mode mode, int code, uint64_t step)
{
    uint64_t stride = step * sweep_stride(SWEEP_STRIDE(2, 4));
    uint64_t calls = calls_of_a_run(), tried = 0, failed = 0;
    for (uint64_t at = sweep_first(stride); at <= calls; at += stride, tried++) {
        loader.set(mode, at, code);
        failed += !run();
        loader.set(DOUBLE_WELL, 0, 0);
    }
    printf("    %llu of %llu calls made a run fail\n", (unsigned long long)failed,
           (unsigned long long)tried);
    CHECK(tried > 0 && failed >= tried / 3);
    CHECK(run());
}

static void a_call_that_fails_once_costs_one_request(void)
{
    fail_each(DOUBLE_ONCE, -5, 1);
}

static void out_of_host_memory_costs_one_request(void)
{
    fail_each(DOUBLE_ONCE, -6, 4);
}

static void a_device_may_be_lost_at_any_call(void)
{
    fail_each(DOUBLE_LOST, -5, 1);
}

static void an_illegal_access_may_come_at_any_call(void)
{
    fail_each(DOUBLE_LOST, -9999, 4);
}

static const struct test tests[] = {
    TEST(a_call_that_fails_once_costs_one_request),
    TEST(out_of_host_memory_costs_one_request),
    TEST(a_device_may_be_lost_at_any_call),
    TEST(an_illegal_access_may_come_at_any_call),
};

int main(int argc, char **argv)
{
    if (!control_find()) {
        printf("skipped: the OpenCL loader here is not the tests' own\n");
        return EXIT_SKIPPED;
    }
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
