/*
 * Kernels: every item once, arguments as they were given.
 */
#include "suite.h"

#include <string.h>

/* False, after the refusal was checked, on a device that runs no C functions. */
static bool has_functions(struct rig *rig, muster_kernel_function function)
{
    if (rig->info->forms & MUSTER_KERNEL_FUNCTION)
        return true;
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = function };
    void *state = rig_state(rig->table.kernel_bytes);
    REFUSED(rig, MUSTER_E_NOT_SUPPORTED, kernel_init, rig->device, &form, state);
    rig_state_free(state);
    return false;
}

/*
 * Counts each item, from the one that its second argument calls the first. Parts that overlapped
 * would be a data race here; one that is empty or turned round fails the launch.
 */
static muster_status count_items(uint64_t begin, uint64_t end, void *const *args)
{
    uint32_t *counts = *(uint32_t *const *)args[0];
    uint64_t first = *(const uint64_t *)args[1];
    if (begin >= end)
        return MUSTER_E_INVALID;
    for (uint64_t i = begin; i < end; i++)
        counts[i - first]++;
    return MUSTER_OK;
}

static void every_item_is_done_once(void)
{
    enum { ITEMS_MAX = 300007 };
    static const uint64_t items[] = { 1, 2, 3, 5, 15, 16, 17, 31, 33, 1000, 4099, ITEMS_MAX };
    struct rig *rig = suite_open();
    if (!has_functions(rig, count_items)) {
        rig_close(rig);
        return;
    }
    void *stream = rig_stream(rig), *kernel = rig_kernel(rig, count_items);
    struct muster_memory *memory = rig_memory(rig, (ITEMS_MAX + 1) * sizeof(uint32_t));
    uint32_t *counts = rig_host(rig, (ITEMS_MAX + 1) * sizeof *counts);
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        /* The end of a range is a number too, so the largest begin is this. */
        const uint64_t begins[] = { 0, 5, UINT32_MAX - UINT64_C(2), UINT64_MAX - items[i] };
        for (size_t b = 0; b < sizeof begins / sizeof *begins; b++) {
            const struct muster_launch_arg args[] = { ARG_MEMORY(memory), ARG_VALUE(begins[b]) };
            rig_fill(rig, stream, memory, 0, 0, (items[i] + 1) * sizeof *counts);
            rig_launch(rig, stream, kernel, begins[b], items[i], args, 2, NULL);
            rig_copy_out(rig, stream, counts, memory, 0, (items[i] + 1) * sizeof *counts);
            FINISHES(rig, stream);
            for (uint64_t item = 0; item < items[i]; item++)
                CHECK_EQUAL(1, counts[item]);
            CHECK_EQUAL(0, counts[items[i]]);
        }
    }
    rig_close(rig);
}

/* The items of a huge range are not looked at, only added up: n of them from b make n b + ... */
static muster_status add_up(uint64_t begin, uint64_t end, void *const *args)
{
    _Atomic uint64_t *sums = *(_Atomic uint64_t *const *)args[0];
    sums[0] += end - begin;
    sums[1] += begin < end ? 1 : 0;
    return MUSTER_OK;
}

static void huge_ranges_are_covered(void)
{
    struct rig *rig = suite_open();
    if (!has_functions(rig, add_up)) {
        rig_close(rig);
        return;
    }
    void *stream = rig_stream(rig), *kernel = rig_kernel(rig, add_up);
    struct muster_memory *memory = rig_memory(rig, 2 * sizeof(uint64_t));
    uint64_t *sums = rig_host(rig, 2 * sizeof *sums);
    /* Short of what a simulated device would compute on for years. */
    static const uint64_t items[] = { UINT64_C(1) << 33, (UINT64_C(1) << 36) + 7 };
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        const struct muster_launch_arg args[] = { ARG_MEMORY(memory) };
        rig_fill(rig, stream, memory, 0, 0, 2 * sizeof *sums);
        rig_launch(rig, stream, kernel, UINT64_MAX - items[i], items[i], args, 1, NULL);
        rig_copy_out(rig, stream, sums, memory, 0, 2 * sizeof *sums);
        FINISHES(rig, stream);
        CHECK(sums[0] == items[i]);
        CHECK(sums[1] > 0);
    }
    rig_close(rig);
}

struct scalars {
    double real;
    uint64_t wide;
    unsigned char bytes[7];
};

#define ARGS_WIDE (MUSTER_ARG_BYTES_MAX / MUSTER_ARGS_MAX)

/* Memory at an offset, scalars of several sizes, each aligned for its type. */
static muster_status read_arguments(uint64_t begin, uint64_t end, void *const *args)
{
    unsigned char *out = *(unsigned char *const *)args[0];
    const struct scalars *scalars = args[3];
    (void)end;
    out[begin] = *(const unsigned char *)args[1];
    memcpy(out + begin + 1, args[2], sizeof(float));
    memcpy(out + begin + 5, scalars->bytes, sizeof scalars->bytes);
    out[begin + 12] = scalars->real == 2.5 && scalars->wide == UINT64_MAX - 1;
    out[begin + 13] = (uintptr_t)args[2] % _Alignof(float) == 0 &&
                      (uintptr_t)args[3] % _Alignof(struct scalars) == 0;
    return MUSTER_OK;
}

static void arguments_arrive(void)
{
    enum { OFFSET = 33 };
    struct rig *rig = suite_open();
    if (!has_functions(rig, read_arguments)) {
        rig_close(rig);
        return;
    }
    void *gate = rig_gate(rig), *stream = rig_stream(rig);
    void *kernel = rig_kernel(rig, read_arguments);
    struct muster_memory *memory = rig_memory(rig, 100);
    unsigned char *host = rig_host(rig, 100);
    unsigned char byte = 0x42;
    float real = 1.5f;
    struct scalars scalars = { 2.5, UINT64_MAX - 1, "sevenb" };
    struct muster_memory lent = *memory;
    struct muster_launch_arg args[] = {
        { .memory = &lent, .offset = OFFSET }, ARG_VALUE(byte), ARG_VALUE(real), ARG_VALUE(scalars)
    };
    struct muster_launch_desc launch = { .begin = 2, .items = 1, .args = args, .arg_count = 4 };
    rig_hold(rig, gate, stream);
    DO(rig, launch, stream, kernel, &launch, 1);
    /* All of it was copied. */
    byte = 0;
    real = 0;
    memset(&scalars, 0xa5, sizeof scalars);
    memset(&lent, 0xa5, sizeof lent);
    memset(args, 0xa5, sizeof args);
    memset(&launch, 0xa5, sizeof launch);
    rig_copy_out(rig, stream, host, memory, 0, 100);
    rig_release(rig, gate);
    FINISHES(rig, stream);
    const unsigned char *out = host + OFFSET + 2;
    float arrived;
    memcpy(&arrived, out + 1, sizeof arrived);
    CHECK_EQUAL(0x42, out[0]);
    CHECK(arrived == 1.5f);
    CHECK_TEXT("sevenb", (const char *)out + 5);
    CHECK_EQUAL(1, out[12]);
    CHECK_EQUAL(1, out[13]);
    rig_close(rig);
}

static muster_status sum_arguments(uint64_t begin, uint64_t end, void *const *args)
{
    uint32_t *out = *(uint32_t *const *)args[0], sum = 0;
    (void)end;
    for (int i = 1; i < MUSTER_ARGS_MAX; i++)
        for (int at = 0; at < ARGS_WIDE; at++)
            sum += ((const unsigned char *)args[i])[at] * (uint32_t)(i + at);
    out[begin] = sum;
    return MUSTER_OK;
}

static void as_many_arguments_as_allowed(void)
{
    struct rig *rig = suite_open();
    if (!has_functions(rig, sum_arguments)) {
        rig_close(rig);
        return;
    }
    void *stream = rig_stream(rig), *kernel = rig_kernel(rig, sum_arguments);
    struct muster_memory *memory = rig_memory(rig, sizeof(uint32_t));
    uint32_t *host = rig_host(rig, sizeof *host), expected = 0;
    unsigned char values[MUSTER_ARGS_MAX][ARGS_WIDE];
    struct muster_launch_arg args[MUSTER_ARGS_MAX] = { ARG_MEMORY(memory) };
    for (int i = 1; i < MUSTER_ARGS_MAX; i++) {
        for (int at = 0; at < ARGS_WIDE; at++) {
            values[i][at] = (unsigned char)(i * 17 + at);
            expected += values[i][at] * (uint32_t)(i + at);
        }
        args[i] = (struct muster_launch_arg){ .value = values[i], .bytes = ARGS_WIDE };
    }
    rig_launch(rig, stream, kernel, 0, 1, args, MUSTER_ARGS_MAX, NULL);
    rig_copy_out(rig, stream, host, memory, 0, sizeof *host);
    FINISHES(rig, stream);
    CHECK_EQUAL(expected, *host);
    rig_close(rig);
}

/* Appends its argument: launches that come in another order leave another text. */
static muster_status append(uint64_t begin, uint64_t end, void *const *args)
{
    uint32_t *list = *(uint32_t *const *)args[0];
    uint32_t value = *(const uint32_t *)args[1];
    (void)begin, (void)end;
    list[++list[0]] = value;
    return value % 10 == 9 ? MUSTER_E_FAILED : MUSTER_OK;
}

static void a_batch_runs_in_order(void)
{
    enum { LAUNCHES = 100 };
    struct rig *rig = suite_open();
    if (!has_functions(rig, append)) {
        rig_close(rig);
        return;
    }
    void *stream = rig_stream(rig), *kernel = rig_kernel(rig, append);
    struct muster_memory *memory = rig_memory(rig, (LAUNCHES + 1) * sizeof(uint32_t));
    uint32_t *host = rig_host(rig, (LAUNCHES + 1) * sizeof *host);
    muster_status *results = rig_host(rig, LAUNCHES * sizeof *results);
    uint32_t values[LAUNCHES];
    struct muster_launch_arg args[LAUNCHES][2];
    struct muster_launch_desc launches[LAUNCHES];
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        values[i] = i;
        args[i][0] = (struct muster_launch_arg)ARG_MEMORY(memory);
        args[i][1] = (struct muster_launch_arg)ARG_VALUE(values[i]);
        launches[i] = (struct muster_launch_desc){
            .begin = i, .items = 1, .args = args[i], .arg_count = 2, .result = &results[i]
        };
    }
    rig_fill(rig, stream, memory, 0, 0, sizeof *host);
    DO(rig, launch, stream, kernel, launches, LAUNCHES);
    rig_copy_out(rig, stream, host, memory, 0, (LAUNCHES + 1) * sizeof *host);
    FINISHES(rig, stream);
    CHECK_EQUAL(LAUNCHES, host[0]);
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        CHECK_EQUAL(i, host[i + 1]);
        CHECK_STATUS(i % 10 == 9 ? MUSTER_E_FAILED : MUSTER_OK, results[i]);
    }
    rig_close(rig);
}

/* One kernel on many streams at once, and gone when all of them are done with it. */
static void a_kernel_serves_many_streams(void)
{
    enum { STREAMS = 6, ITEMS = 20000 };
    struct rig *rig = suite_open();
    if (!has_functions(rig, count_items)) {
        rig_close(rig);
        return;
    }
    void *kernel = rig_kernel(rig, count_items), *streams[STREAMS];
    struct muster_memory *memories[STREAMS];
    uint32_t *counts = rig_host(rig, ITEMS * sizeof *counts);
    const uint64_t first = 0;
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = rig_stream(rig);
        memories[i] = rig_memory(rig, ITEMS * sizeof *counts);
        const struct muster_launch_arg args[] = { ARG_MEMORY(memories[i]), ARG_VALUE(first) };
        rig_fill(rig, streams[i], memories[i], 0, 0, ITEMS * sizeof *counts);
        for (int times = 0; times <= i; times++)
            rig_launch(rig, streams[i], kernel, 0, ITEMS, args, 2, NULL);
    }
    for (int i = 0; i < STREAMS; i++) {
        rig_copy_out(rig, streams[i], counts, memories[i], 0, ITEMS * sizeof *counts);
        FINISHES(rig, streams[i]);
        for (int item = 0; item < ITEMS; item++)
            CHECK_EQUAL(i + 1, counts[item]);
    }
    rig_close(rig);
}

/* No such bit exists, nor will it soon. */
static void an_unknown_form_is_refused(void)
{
    struct rig *rig = suite_open();
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = (enum muster_kernel_kind)(1 << 30) };
    void *state = rig_state(rig->table.kernel_bytes);
    REFUSED(rig, MUSTER_E_NOT_SUPPORTED, kernel_init, rig->device, &form, state);
    rig_state_free(state);
    rig_close(rig);
}

static const struct test tests[] = {
    TEST(every_item_is_done_once),    TEST(huge_ranges_are_covered),
    TEST(arguments_arrive),           TEST(as_many_arguments_as_allowed),
    TEST(a_batch_runs_in_order),      TEST(a_kernel_serves_many_streams),
    TEST(an_unknown_form_is_refused),
};
SUITE_PART(launches);
