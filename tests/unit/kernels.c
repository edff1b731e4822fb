/*
 * Kernels: their forms, their arguments, and where a failure goes.
 */
#include "backend/cpu/cpu.h"
#include "support.h"

static const char *const devices[] = { "cpu:0", "sim:0" };

/* Arguments: a block of counters, one for each item. */
static muster_status count_items(uint64_t begin, uint64_t end, void *const *args)
{
    uint32_t *counters = *(uint32_t *const *)args[0];
    if (begin >= end)
        return MUSTER_E_FAILED;
    for (uint64_t i = begin; i < end; i++)
        counters[i]++;
    return MUSTER_OK;
}

static void every_item_of_the_range_is_done_once(void)
{
    enum { ITEMS = 50000 };
    static uint32_t got[ITEMS];
    static const struct {
        uint64_t begin, items;
    } ranges[] = { { 0, ITEMS }, { 0, 1 }, { ITEMS - 1, 1 }, { 17, 4999 }, { 100, 0 }, { 3, 64 } };
    struct muster *m = open_plain();
    struct muster_kernel *count = kernel_of(m, count_items);
    for (size_t d = 0; d < COUNT_OF(devices); d++)
        for (size_t r = 0; r < COUNT_OF(ranges); r++) {
            muster_stream stream = acquire(m, find(m, devices[d]));
            muster_block block = allocate(m, stream, sizeof got);
            MUST(muster_fill(m, stream, block, 0, 0, sizeof got, &problem));
            const struct muster_operand args[] = { MUSTER_BLOCK_UPDATE(block) };
            MUST(muster_launch(m, stream, count, ranges[r].begin, ranges[r].items, args, 1, NULL,
                               &problem));
            MUST(muster_copy_out(m, stream, got, block, 0, sizeof got, &problem));
            wait_for(m, stream);
            for (uint64_t i = 0; i < ITEMS; i++)
                CHECK_EQUAL(i >= ranges[r].begin && i - ranges[r].begin < ranges[r].items, got[i]);
            MUST(muster_block_free(m, stream, block, &problem));
            MUST(muster_stream_release(m, stream, &problem));
        }
    MUST(muster_close(m, &problem));
}

static _Atomic uint64_t seen_begin, seen_end;

static muster_status note_range(uint64_t begin, uint64_t end, void *const *args)
{
    (void)args;
    seen_begin = begin;
    seen_end = end;
    return MUSTER_OK;
}

static void a_range_may_lie_anywhere_that_fits(void)
{
    struct muster *m = open_plain();
    muster_stream stream = acquire(m, find(m, "cpu:0"));
    struct muster_kernel *note = kernel_of(m, note_range);
    MUST(muster_launch(m, stream, note, UINT64_MAX - 1, 1, NULL, 0, NULL, &problem));
    wait_for(m, stream);
    CHECK(seen_begin == UINT64_MAX - 1 && seen_end == UINT64_MAX);
    MUST(muster_launch(m, stream, note, UINT64_MAX, 0, NULL, 0, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_launch(m, stream, note, UINT64_MAX, 1, NULL, 0, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_launch(m, stream, note, 2, UINT64_MAX - 1, NULL, 0, NULL, &problem));
    MUST(muster_close(m, &problem));
}

/* Arguments of every kind, all of which the kernel checks. */
struct packed {
    double numbers[3];
    char letter;
};

static muster_status check_arguments(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end;
    const struct packed *packed = args[1];
    const unsigned char *bytes = *(unsigned char *const *)args[0];
    const unsigned char *shifted = *(unsigned char *const *)args[3];
    bool right = bytes[0] == 5 && packed->numbers[2] == 2.5 && packed->letter == 'x' &&
                 *(const char *)args[2] == 'c' && shifted == bytes + 10 &&
                 *(const uint64_t *)args[4] == UINT64_C(0x1234567890abcdef) &&
                 (uintptr_t)args[1] % 8 == 0 && (uintptr_t)args[4] % 8 == 0;
    return right ? MUSTER_OK : MUSTER_E_FAILED;
}

static void arguments_arrive_as_they_were_at_the_call(void)
{
    struct muster *m = open_plain();
    struct muster_kernel *check = kernel_of(m, check_arguments),
                         *stand = kernel_of(m, stand_at_door);
    muster_stream stream = acquire(m, find(m, "cpu:0"));
    muster_block block = allocate(m, stream, 64);
    struct door door = DOOR_INIT;
    struct packed packed = { { 0, 0, 2.5 }, 'x' };
    char letter = 'c';
    uint64_t number = UINT64_C(0x1234567890abcdef);
    MUST(muster_fill(m, stream, block, 0, 5, 64, &problem));
    struct muster_operand args[] = {
        MUSTER_BLOCK_READ(block),
        MUSTER_SCALAR(packed),
        MUSTER_SCALAR(letter),
        { .size = sizeof *args, .block = block, .access = MUSTER_READS, .offset = 10 },
        MUSTER_SCALAR(number)
    };
    muster_status result = MUSTER_E_CANCELLED;
    hold_stream(m, stream, stand, &door);
    MUST(muster_launch(m, stream, check, 0, 1, args, 5, &result, &problem));
    /* Values were copied by the call. */
    memset(&packed, 0, sizeof packed);
    memset(args, 0, sizeof args);
    letter = 0;
    number = 0;
    CHECK_STATUS(MUSTER_OK, result);
    door_open(&door);
    wait_for(m, stream);
    CHECK_STATUS(MUSTER_OK, result);
    MUST(muster_close(m, &problem));
}

static void arguments_have_limits(void)
{
    struct muster *m = open_plain();
    struct muster_kernel *nothing = kernel_of(m, do_nothing);
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        muster_stream stream = acquire(m, find(m, devices[d]));
        muster_block block = allocate(m, stream, 64);
        static unsigned char value[1000];
        struct muster_operand args[MUSTER_ARGS_MAX + 1];
        for (size_t i = 0; i < COUNT_OF(args); i++)
            args[i] = (struct muster_operand)MUSTER_BLOCK_READ(block);
        MUST(muster_launch(m, stream, nothing, 0, 1, args, MUSTER_ARGS_MAX, NULL, &problem));
        CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_launch(m, stream, nothing, 0, 1, args,
                                                       MUSTER_ARGS_MAX + 1, NULL, &problem));
        for (size_t i = 0; i < COUNT_OF(args); i++)
            args[i] = (struct muster_operand){ .size = sizeof *args, .value = value, .bytes = 16 };
        MUST(muster_launch(m, stream, nothing, 0, 1, args, MUSTER_ARGS_MAX, NULL, &problem));
        args[0].bytes = 17;
        CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_launch(m, stream, nothing, 0, 1, args,
                                                       MUSTER_ARGS_MAX, NULL, &problem));
        args[0].bytes = MUSTER_ARG_BYTES_MAX;
        MUST(muster_launch(m, stream, nothing, 0, 1, args, 1, NULL, &problem));
        static const size_t large[] = { MUSTER_ARG_BYTES_MAX + 1, 1000, SIZE_MAX, SIZE_MAX - 15,
                                        SIZE_MAX - 7 };
        for (size_t i = 0; i < COUNT_OF(large); i++) {
            args[0].bytes = 16;
            args[1].bytes =
                large[i]; /* together with the first some of these come round to little */
            CHECK_STATUS(MUSTER_E_TOO_LARGE,
                         muster_launch(m, stream, nothing, 0, 1, args, 2, NULL, &problem));
        }
        args[0] = (struct muster_operand){ .size = sizeof(struct muster_operand), .value = value };
        CHECK_STATUS(MUSTER_E_INVALID,
                     muster_launch(m, stream, nothing, 0, 1, args, 1, NULL, &problem));
        args[0] = (struct muster_operand){ .size = sizeof(struct muster_operand), .bytes = 4 };
        CHECK_STATUS(MUSTER_E_INVALID,
                     muster_launch(m, stream, nothing, 0, 1, args, 1, NULL, &problem));
        args[0] = (struct muster_operand){ .size = sizeof(struct muster_operand),
                                           .block = block,
                                           .access = MUSTER_READS,
                                           .offset = 64 };
        CHECK_STATUS(MUSTER_E_INVALID,
                     muster_launch(m, stream, nothing, 0, 1, args, 1, NULL, &problem));
        args[0].offset = 63;
        MUST(muster_launch(m, stream, nothing, 0, 1, args, 1, NULL, &problem));
        args[0].access = 8;
        CHECK_STATUS(MUSTER_E_INVALID,
                     muster_launch(m, stream, nothing, 0, 1, args, 1, NULL, &problem));
        CHECK_STATUS(MUSTER_E_INVALID,
                     muster_launch(m, stream, nothing, 0, 1, NULL, 1, NULL, &problem));
        CHECK_STATUS(MUSTER_E_INVALID,
                     muster_launch(m, stream, NULL, 0, 1, NULL, 0, NULL, &problem));
        wait_for(m, stream);
    }
    MUST(muster_close(m, &problem));
}

static void a_failure_goes_to_its_result_and_leaves_the_stream_alone(void)
{
    struct muster *m = open_plain();
    struct muster_kernel *fail = kernel_of(m, always_fail), *nothing = kernel_of(m, do_nothing);
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        muster_stream stream = acquire(m, find(m, devices[d]));
        muster_status results[5] = { 1, 1, 1, 1, 1 };
        for (unsigned i = 0; i < 4; i++)
            MUST(muster_launch(m, stream, i % 2 ? fail : nothing, 0, 100, NULL, 0, &results[i],
                               &problem));
        MUST(muster_launch(m, stream, fail, 0, 0, NULL, 0, &results[4], &problem));
        wait_for(m, stream);
        for (unsigned i = 0; i < 4; i++)
            CHECK_STATUS(i % 2 ? MUSTER_E_FAILED : MUSTER_OK, results[i]);
        CHECK_STATUS(MUSTER_OK, results[4]); /* no items, nothing ran */
        /* A result is not touched by a launch that was refused. */
        results[0] = 1;
        CHECK_STATUS(MUSTER_E_INVALID, muster_launch(m, stream, nothing, 2, UINT64_MAX, NULL, 0,
                                                     &results[0], &problem));
        CHECK_EQUAL(1, results[0]);
    }
    MUST(muster_close(m, &problem));
}

static _Atomic unsigned ran;

static muster_status count_runs(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end, (void)args;
    ran++;
    return MUSTER_OK;
}

static void a_failure_without_a_result_fails_the_stream(void)
{
    struct muster *m = open_plain();
    struct muster_kernel *fail = kernel_of(m, always_fail), *count = kernel_of(m, count_runs);
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        muster_device device = find(m, devices[d]);
        muster_stream stream = acquire(m, device), follower = acquire(m, device),
                      apart = acquire(m, device);
        muster_block block = allocate(m, stream, 64);
        MUST(muster_fill(m, stream, block, 0, 0, 64, &problem));
        unsigned char host[64] = { 9 };
        muster_status skipped = MUSTER_OK;
        const struct muster_operand write[] = { MUSTER_BLOCK_UPDATE(block) };
        ran = 0;
        MUST(muster_launch(m, stream, count, 0, 1, NULL, 0, NULL, &problem));
        MUST(muster_launch(m, stream, fail, 0, 1, write, 1, NULL, &problem));
        MUST(muster_launch(m, stream, count, 0, 1, NULL, 0, &skipped, &problem));
        /* Who reads what was not written fails too, and nobody else. */
        MUST(muster_copy_out(m, follower, host, block, 0, 64, &problem));
        MUST(muster_launch(m, apart, count, 0, 1, NULL, 0, NULL, &problem));
        CHECK_STATUS(MUSTER_E_STREAM_FAILED, muster_stream_wait(m, stream, 60 * SECOND, &problem));
        CHECK_EQUAL(MUSTER_DISCARD_STREAM, muster_status_discards(problem.status));
        CHECK_STATUS(MUSTER_E_STREAM_FAILED,
                     muster_stream_wait(m, follower, 60 * SECOND, &problem));
        wait_for(m, apart);
        CHECK_EQUAL(2, ran);
        CHECK_EQUAL(9, host[0]);
        CHECK_STATUS(MUSTER_E_STREAM_FAILED, skipped);
        struct muster_device_load load = load_of(m, device);
        CHECK_EQUAL(4, load.dispatched);
        CHECK_EQUAL(2, load.completed);
        CHECK_EQUAL(2, load.failed);
        CHECK_EQUAL(MUSTER_HEALTH_OK, load.health);
    }
    MUST(muster_close(m, &problem));
}

static void a_device_may_report_failures_of_its_own(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = "[{\"items_per_s\": 1e6,"
                  "  \"faults\": [{\"kind\": \"unit_error\", \"at_launch\": 2}]}]";
    struct muster *m = open_with(options);
    muster_device device = find(m, "sim:0");
    muster_stream stream = acquire(m, device);
    struct muster_kernel *count = kernel_of(m, count_runs);
    muster_status results[3];
    ran = 0;
    for (unsigned i = 0; i < 3; i++)
        MUST(muster_launch(m, stream, count, 0, 1, NULL, 0, &results[i], &problem));
    wait_for(m, stream);
    for (unsigned i = 0; i < 3; i++)
        CHECK_STATUS(i == 1 ? MUSTER_E_FAILED : MUSTER_OK, results[i]);
    CHECK_EQUAL(2, ran);
    CHECK_EQUAL(1, load_of(m, device).failed);
    MUST(muster_close(m, &problem));
}

static void forms_are_checked(void)
{
    struct muster *m = open_plain();
    struct muster_kernel *kernel = NULL;
    struct muster_kernel_form form = { .size = sizeof form,
                                       .kind = MUSTER_KERNEL_FUNCTION,
                                       .function = do_nothing };
    CHECK_STATUS(MUSTER_E_INVALID, muster_kernel_from(m, "k", &form, 0, &kernel, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_kernel_from(m, "k", NULL, 1, &kernel, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_kernel_from(m, "k", &form, 1, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_kernel_from(NULL, "k", &form, 1, &kernel, &problem));
    form.size--;
    CHECK_STATUS(MUSTER_E_INVALID, muster_kernel_from(m, "k", &form, 1, &kernel, &problem));
    form.size++;
    form.function = NULL;
    CHECK_STATUS(MUSTER_E_INVALID, muster_kernel_from(m, "k", &form, 1, &kernel, &problem));
    form.function = do_nothing;
    form.kind = (enum muster_kernel_kind)1024;
    CHECK_STATUS(MUSTER_E_INVALID, muster_kernel_from(m, "k", &form, 1, &kernel, &problem));
    CHECK(kernel == NULL);
    form.kind = MUSTER_KERNEL_FUNCTION;
    MUST(muster_kernel_from(m, NULL, &form, 1, &kernel, &problem));
    muster_kernel_destroy(kernel);
    muster_kernel_destroy(NULL);
    MUST(muster_close(m, &problem));
}

/* A backend that takes no form at all, one that fails to build, and one that counts. */
static uint32_t forms_taken;
static _Atomic unsigned builds, refusals_left, unbuilds;
static struct door *build_door; /* builders linger there, if set */

static muster_status open_choosy(void *backend, uint32_t index, void *device,
                                 struct muster_device_info *info, struct muster_error *err)
{
    muster_status status = backend_cpu.device_open(backend, index, device, info, err);
    info->forms = forms_taken;
    return status;
}

static muster_status build_counted(void *device, const struct muster_kernel_form *form,
                                   void *kernel, struct muster_error *err)
{
    builds++;
    if (build_door)
        door_linger(build_door, 2);
    if (refusals_left > 0) {
        refusals_left--;
        return muster_error_fill(err, MUSTER_E_DRIVER, 5, NULL, "the compiler is not at home");
    }
    return backend_cpu.kernel_init(device, form, kernel, err);
}

static void unbuild_counted(void *kernel)
{
    unbuilds++;
    backend_cpu.kernel_deinit(kernel);
}

static struct muster *open_with_choosy(uint32_t forms)
{
    static struct muster_backend table;
    static const struct muster_backend *const tables[] = { &table };
    table = backend_cpu;
    table.name = "choosy";
    table.device_open = open_choosy;
    table.kernel_init = build_counted;
    table.kernel_deinit = unbuild_counted;
    forms_taken = forms;
    builds = refusals_left = unbuilds = 0;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.backends = tables;
    options.backend_count = 1;
    return open_with(options);
}

static void a_device_without_a_form_for_it_refuses_the_kernel(void)
{
    struct muster *m = open_with_choosy(0);
    muster_device device = find(m, "choosy:0");
    muster_stream stream = acquire(m, device);
    struct muster_kernel *nothing = kernel_of(m, do_nothing);
    muster_status result = 1;
    for (unsigned i = 0; i < 2; i++) {
        CHECK_STATUS(MUSTER_E_NOT_SUPPORTED,
                     muster_launch(m, stream, nothing, 0, 1, NULL, 0, &result, &problem));
        CHECK_CONTAINS("choosy:0", problem.text);
        CHECK_CONTAINS("test", problem.text);
        CHECK_TEXT("choosy:0", problem.device);
    }
    CHECK_EQUAL(1, result);
    CHECK_EQUAL(0, builds);
    CHECK_EQUAL(0, load_of(m, device).dispatched);
    MUST(muster_stream_release(m, stream, &problem));
    MUST(muster_close(m, &problem));
}

static void a_kernel_is_built_once_for_a_device_and_again_after_a_refusal(void)
{
    struct muster *m = open_with_choosy(MUSTER_KERNEL_FUNCTION);
    muster_device device = find(m, "choosy:0");
    muster_stream stream = acquire(m, device);
    struct muster_kernel *nothing = kernel_of(m, do_nothing);
    CHECK_EQUAL(0, builds);
    refusals_left = 2;
    for (unsigned i = 0; i < 2; i++) {
        CHECK_STATUS(MUSTER_E_DRIVER,
                     muster_launch(m, stream, nothing, 0, 1, NULL, 0, NULL, &problem));
        CHECK_TEXT("the compiler is not at home", problem.text);
    }
    for (unsigned i = 0; i < 5; i++)
        MUST(muster_launch(m, stream, nothing, 0, 1, NULL, 0, NULL, &problem));
    CHECK_EQUAL(3, builds);
    wait_for(m, stream);
    CHECK_EQUAL(0, unbuilds);
    muster_kernel_destroy(nothing);
    CHECK_EQUAL(1, unbuilds);
    kernel_of(m, do_nothing);
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(1, unbuilds); /* the second was never built */
}

struct launcher {
    struct muster *m;
    muster_device device;
    struct muster_kernel *kernel;
    pthread_barrier_t *start;
    muster_status status;
};

static void *launch_one(void *argument)
{
    struct launcher *launcher = argument;
    muster_stream stream;
    launcher->status = muster_stream_acquire(launcher->m, launcher->device, 0, &stream, NULL);
    pthread_barrier_wait(launcher->start);
    if (launcher->status == MUSTER_OK)
        launcher->status =
            muster_launch(launcher->m, stream, launcher->kernel, 0, 1, NULL, 0, NULL, NULL);
    if (launcher->status == MUSTER_OK)
        launcher->status = muster_stream_wait(launcher->m, stream, 60 * SECOND, NULL);
    muster_stream_release(launcher->m, stream, NULL);
    return NULL;
}

static void many_who_launch_at_once_build_once(void)
{
    enum { LAUNCHERS = 6 };
    struct muster *m = open_with_choosy(MUSTER_KERNEL_FUNCTION);
    muster_device device = find(m, "choosy:0");
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, LAUNCHERS);
    for (unsigned round = 1; round <= test_repetitions(5); round++) {
        struct door door = DOOR_INIT;
        build_door = &door;
        struct muster_kernel *kernel = kernel_of(m, do_nothing);
        struct launcher launchers[LAUNCHERS];
        pthread_t threads[LAUNCHERS];
        for (unsigned i = 0; i < LAUNCHERS; i++) {
            launchers[i] = (struct launcher){ m, device, kernel, &start, MUSTER_OK };
            CHECK_EQUAL(0, pthread_create(&threads[i], NULL, launch_one, &launchers[i]));
        }
        for (unsigned i = 0; i < LAUNCHERS; i++) {
            pthread_join(threads[i], NULL);
            CHECK_STATUS(MUSTER_OK, launchers[i].status);
        }
        CHECK_EQUAL(round, builds);
        muster_kernel_destroy(kernel);
    }
    build_door = NULL;
    pthread_barrier_destroy(&start);
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(every_item_of_the_range_is_done_once),
        TEST(a_range_may_lie_anywhere_that_fits),
        TEST(arguments_arrive_as_they_were_at_the_call),
        TEST(arguments_have_limits),
        TEST(a_failure_goes_to_its_result_and_leaves_the_stream_alone),
        TEST(a_failure_without_a_result_fails_the_stream),
        TEST(a_device_may_report_failures_of_its_own),
        TEST(forms_are_checked),
        TEST(a_device_without_a_form_for_it_refuses_the_kernel),
        TEST(a_kernel_is_built_once_for_a_device_and_again_after_a_refusal),
        TEST(many_who_launch_at_once_build_once),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
