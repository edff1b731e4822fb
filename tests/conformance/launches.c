/*
 * Kernels: every item once, arguments as they were given.
 */
#include "suite.h"

#include <string.h>

/*
 * Counts each item, from the one that its second argument calls the first. Parts that overlapped
 * would be a data race here; one that is empty or turned round fails the launch.
 */
RIG_FUNCTION(count_items)
{
    uint32_t *counts = *(uint32_t *const *)args[0];
    uint64_t first = *(const uint64_t *)args[1];
    if (begin >= end)
        return MUSTER_E_INVALID;
    for (uint64_t i = begin; i < end; i++)
        counts[i - first]++;
    return MUSTER_OK;
}
RIG_CODE(count_items, "KERNEL count_items(HEAD, BLOCK(u32, counts), u64 first)\n"
                      "{\n"
                      "    IN(u32, counts)\n"
                      "    EACH(at) counts[begin + at - first]++;\n"
                      "}\n");

static void every_item_is_done_once(void)
{
    enum { ITEMS_MAX = 300007 };
    static const uint64_t items[] = { 1, 2, 3, 5, 15, 16, 17, 31, 33, 1000, 4099, ITEMS_MAX };
    struct rig *rig = suite_open();
    void *kernel = rig_kernel_of(rig, &count_items_code);
    if (!kernel) {
        rig_leave_out(rig, "it runs no kernels");
        return;
    }
    void *stream = rig_stream(rig);
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
RIG_FUNCTION(add_up)
{
    _Atomic uint64_t *sums = *(_Atomic uint64_t *const *)args[0];
    sums[0] += end - begin;
    sums[1] += begin < end ? 1 : 0;
    return MUSTER_OK;
}

static void add_up_huge_ranges(struct rig *rig)
{
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
}

/*
 * With a thread for each item every one is visited, and one in MILESTONE leaves a mark: so few that
 * memory is not what is waited for.
 */
#define MILESTONE (UINT64_C(1) << 20)

RIG_FUNCTION(mark_milestones)
{
    (void)begin, (void)end, (void)args;
    return MUSTER_E_NOT_SUPPORTED;
}
RIG_CODE(mark_milestones, "KERNEL mark_milestones(HEAD, BLOCK(u32, marks), u64 first, u64 all)\n"
                          "{\n"
                          "    IN(u32, marks)\n"
                          "    EACH(at) {\n"
                          "        u64 item = begin + at - first;\n"
                          "        if (item % 1048576 == 0)\n"
                          "            marks[item / 1048576]++;\n"
                          "        if (item == all - 1)\n"
                          "            marks[all / 1048576 + 1]++;\n"
                          "    }\n"
                          "}\n");

static void visit_huge_ranges(struct rig *rig)
{
    /* OpenCL may be a few cores of the host, which take their time. */
    bool is_opencl = rig->info->forms & MUSTER_KERNEL_OPENCL;
    const int bits = rig->info->kind == MUSTER_KIND_CPU ? 26
                     /* And so does a GPU under a tool that follows each of its threads. */
                     : rig_holds_nothing() ? 28
                     : is_opencl           ? 32
                                           : 34;
    const uint64_t items = (UINT64_C(1) << bits) + 7;
    const uint64_t begin = UINT64_MAX - items, marks = items / MILESTONE + 2;
    void *stream = rig_stream(rig), *kernel = rig_kernel_of(rig, &mark_milestones_code);
    if (!kernel) {
        rig_leave_out(rig, "it runs no kernels");
        return;
    }
    struct muster_memory *memory = rig_memory(rig, marks * sizeof(uint32_t));
    uint32_t *host = rig_host(rig, marks * sizeof *host);
    const struct muster_launch_arg args[] = { ARG_MEMORY(memory), ARG_VALUE(begin),
                                              ARG_VALUE(items) };
    rig_fill(rig, stream, memory, 0, 0, marks * sizeof *host);
    rig_launch(rig, stream, kernel, begin, items, args, 3, NULL);
    rig_copy_out(rig, stream, host, memory, 0, marks * sizeof *host);
    FINISHES(rig, stream);
    for (uint64_t i = 0; i < marks; i++)
        CHECK_EQUAL(1, host[i]);
}

static void huge_ranges_are_covered(void)
{
    struct rig *rig = suite_open();
    if (rig_runs_functions(rig))
        add_up_huge_ranges(rig);
    else
        visit_huge_ranges(rig);
    rig_close(rig);
}

struct scalars {
    double real;
    uint64_t wide;
    unsigned char bytes[7];
};

#define ARGS_WIDE (MUSTER_ARG_BYTES_MAX / MUSTER_ARGS_MAX)

/* Memory at an offset, scalars of several sizes, each aligned for its type. */
RIG_FUNCTION(read_arguments)
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
RIG_CODE(
    read_arguments,
    "struct scalars { u64 real, wide; u8 bytes[7]; };\n"
    "KERNEL read_arguments(HEAD, BLOCK(u8, out), u8 byte, float real, struct scalars scalars)\n"
    "{\n"
    "    IN(u8, out)\n"
    "    union { float real; u8 bytes[4]; } split;\n"
    "    split.real = real;\n"
    "    EACH(at) {\n"
    "        out[begin] = byte;\n"
    "        for (int i = 0; i < 4; i++)\n"
    "            out[begin + 1 + i] = split.bytes[i];\n"
    "        for (int i = 0; i < 7; i++)\n"
    "            out[begin + 5 + i] = scalars.bytes[i];\n"
    "        out[begin + 12] = scalars.real == (u64)0x4004000000000000 &&\n"
    "                          scalars.wide == (u64)-2;\n"
    "        out[begin + 13] = 1;\n"
    "    }\n"
    "}\n");

static void arguments_arrive(void)
{
    enum { OFFSET = 33 };
    struct rig *rig = suite_open();
    void *kernel = rig_kernel_of(rig, &read_arguments_code);
    if (!kernel) {
        rig_leave_out(rig, "it runs no kernels");
        return;
    }
    void *gate = rig_gate(rig), *stream = rig_stream(rig);
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

RIG_FUNCTION(sum_arguments)
{
    uint32_t *out = *(uint32_t *const *)args[0], sum = 0;
    (void)end;
    for (int i = 1; i < MUSTER_ARGS_MAX; i++)
        for (int at = 0; at < ARGS_WIDE; at++)
            sum += ((const unsigned char *)args[i])[at] * (uint32_t)(i + at);
    out[begin] = sum;
    return MUSTER_OK;
}
RIG_CODE(
    sum_arguments,
    "struct wide { u8 bytes[16]; };\n"
    "#define ADD(n) for (int at = 0; at < 16; at++) sum += a##n.bytes[at] * (u32)(n + at);\n"
    "#define W(n) struct wide a##n\n"
    "KERNEL sum_arguments(HEAD, BLOCK(u32, out), W(1), W(2), W(3), W(4), W(5), W(6), W(7), W(8),\n"
    "                     W(9), W(10), W(11), W(12), W(13), W(14), W(15))\n"
    "{\n"
    "    IN(u32, out)\n"
    "    u32 sum = 0;\n"
    "    ADD(1) ADD(2) ADD(3) ADD(4) ADD(5) ADD(6) ADD(7) ADD(8) ADD(9) ADD(10) ADD(11)\n"
    "    ADD(12) ADD(13) ADD(14) ADD(15)\n"
    "    EACH(item) out[begin + item] = sum;\n"
    "}\n");

static void as_many_arguments_as_allowed(void)
{
    struct rig *rig = suite_open();
    void *kernel = rig_kernel_of(rig, &sum_arguments_code);
    if (!kernel) {
        rig_leave_out(rig, "it runs no kernels");
        return;
    }
    void *stream = rig_stream(rig);
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
RIG_FUNCTION(append)
{
    uint32_t *list = *(uint32_t *const *)args[0];
    uint32_t value = *(const uint32_t *)args[1];
    (void)begin, (void)end;
    list[++list[0]] = value;
    return value % 10 == 9 ? MUSTER_E_FAILED : MUSTER_OK;
}
RIG_CODE(append, "KERNEL append(HEAD, BLOCK(u32, list), u32 value)\n"
                 "{\n"
                 "    IN(u32, list)\n"
                 "    EACH(at) { u32 end = ++list[0]; list[end] = value; }\n"
                 "}\n");

/* Again and again, since a backend may keep what it made of the first; and behind a closed gate. */
static void a_batch_runs_in_order(void)
{
    enum { LAUNCHES = 200, ROUNDS = 4 };
    struct rig *rig = suite_open();
    void *kernel = rig_kernel_of(rig, &append_code);
    if (!kernel) {
        rig_leave_out(rig, "it runs no kernels");
        return;
    }
    void *stream = rig_stream(rig), *gate = rig_gate(rig);
    bool reports = rig_runs_functions(rig);
    struct muster_memory *memory = rig_memory(rig, (LAUNCHES + 1) * sizeof(uint32_t));
    uint32_t *host = rig_host(rig, (LAUNCHES + 1) * sizeof *host);
    muster_status *results = rig_host(rig, LAUNCHES * sizeof *results);
    uint32_t values[LAUNCHES];
    struct muster_launch_arg args[LAUNCHES][2];
    struct muster_launch_desc launches[LAUNCHES];
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        args[i][0] = (struct muster_launch_arg)ARG_MEMORY(memory);
        args[i][1] = (struct muster_launch_arg)ARG_VALUE(values[i]);
        launches[i] = (struct muster_launch_desc){
            .begin = i, .items = 1, .args = args[i], .arg_count = 2, .result = &results[i]
        };
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < LAUNCHES; i++)
            values[i] = round * 1000 + i;
        rig_fill(rig, stream, memory, 0, 0, sizeof *host);
        if (round == ROUNDS - 1)
            rig_hold(rig, gate, stream);
        DO(rig, launch, stream, kernel, launches, LAUNCHES);
        memset(values, 0xa5, sizeof values);
        rig_copy_out(rig, stream, host, memory, 0, (LAUNCHES + 1) * sizeof *host);
        if (round == ROUNDS - 1)
            rig_release(rig, gate);
        FINISHES(rig, stream);
        CHECK_EQUAL(LAUNCHES, host[0]);
        for (uint32_t i = 0; i < LAUNCHES; i++) {
            CHECK_EQUAL(round * 1000 + i, host[i + 1]);
            CHECK_STATUS(reports && i % 10 == 9 ? MUSTER_E_FAILED : MUSTER_OK, results[i]);
        }
    }
    rig_close(rig);
}

/* Where several launches have one result, a failure stays there. */
static void launches_share_a_result(void)
{
    struct rig *rig = suite_open();
    void *kernel = rig_kernel_of(rig, &append_code);
    if (!kernel) {
        rig_leave_out(rig, "it runs no kernels");
        return;
    }
    void *stream = rig_stream(rig);
    bool reports = rig_runs_functions(rig);
    struct muster_memory *memory = rig_memory(rig, 4 * sizeof(uint32_t));
    muster_status *result = rig_host(rig, sizeof *result);
    *result = MUSTER_OK;
    rig_fill(rig, stream, memory, 0, 0, sizeof(uint32_t));
    for (uint32_t value = 8; value < 11; value++) {
        const struct muster_launch_arg args[] = { ARG_MEMORY(memory), ARG_VALUE(value) };
        rig_launch(rig, stream, kernel, 0, 1, args, 2, result);
    }
    FINISHES(rig, stream);
    CHECK_STATUS(reports ? MUSTER_E_FAILED : MUSTER_OK, *result);
    rig_close(rig);
}

/* One kernel on many streams at once, and gone when all of them are done with it. */
static void a_kernel_serves_many_streams(void)
{
    enum { STREAMS = 6, ITEMS = 20000 };
    struct rig *rig = suite_open();
    void *kernel = rig_kernel_of(rig, &count_items_code);
    if (!kernel) {
        rig_leave_out(rig, "it runs no kernels");
        return;
    }
    void *streams[STREAMS];
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

static void a_function_is_run_or_refused(void)
{
    struct rig *rig = suite_open();
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = count_items };
    void *state = rig_state(rig->table.kernel_bytes);
    if (rig->info->forms & MUSTER_KERNEL_FUNCTION) {
        DO(rig, kernel_init, rig->device, &form, state);
        rig->table.kernel_deinit(state);
    } else {
        REFUSED(rig, MUSTER_E_NOT_SUPPORTED, kernel_init, rig->device, &form, state);
    }
    rig_state_free(state);
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
    TEST(every_item_is_done_once),
    TEST(huge_ranges_are_covered),
    TEST(arguments_arrive),
    TEST(as_many_arguments_as_allowed),
    TEST(a_batch_runs_in_order),
    TEST(launches_share_a_result),
    TEST(a_kernel_serves_many_streams),
    TEST(a_function_is_run_or_refused),
    TEST(an_unknown_form_is_refused),
};
SUITE_PART(launches);
