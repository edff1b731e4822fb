/*
 * Opening and closing a runtime: options, hooks, and what is left when work or drivers do not end.
 */
#include "backend/cpu/cpu.h"
#include "backend/sim/sim.h"
#include "base/invariant.h"
#include "platform/thread.h"
#include "support.h"

/* Some of everything, all of it left to muster_close. */
static void use_everything(struct muster *m)
{
    static unsigned char table[3000], outs[3][3000];
    static const char *const ids[] = { "cpu:0", "sim:0", "sim:1" };
    struct muster_kernel *add = kernel_of(m, add_number);
    muster_data data = { 0, 0 };
    MUST(muster_data_create(m, table, sizeof table, 0, &data, &problem));
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        muster_device device = find(m, ids[i]);
        unsigned char *out = outs[i];
        muster_stream a = acquire(m, device), b = acquire(m, device), c;
        MUST(muster_stream_default(m, device, &c, &problem));
        muster_block block = allocate(m, a, sizeof outs[i]), resident;
        uint64_t one = 1;
        void *small, *large;
        MUST(muster_host_allocate(m, device, 100, &small, &problem));
        MUST(muster_host_allocate(m, device, 2000000, &large, &problem));
        MUST(muster_fill(m, a, block, 0, 1, sizeof outs[i], &problem));
        const struct muster_operand args[] = { MUSTER_BLOCK_UPDATE(block), MUSTER_SCALAR(one) };
        MUST(muster_launch(m, b, add, 0, 100, args, 2, NULL, &problem));
        MUST(muster_data_resident(m, data, b, &resident, &problem));
        MUST(muster_copy(m, c, block, 0, resident, 0, 100, &problem));
        MUST(muster_copy_out(m, a, out, block, 0, sizeof outs[i], &problem));
        muster_block gone = allocate(m, a, 64);
        MUST(muster_fill(m, b, gone, 0, 1, 64, &problem));
        MUST(muster_block_free(m, c, gone, &problem));
        MUST(muster_stream_release(m, b, &problem));
        load_of(m, device);
    }
}

static void everything_comes_from_the_allocator_and_goes_back(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.allocator = counting_allocator(&counting);
    options.sim = SIM_PLAIN;
    options.devices = "cpu,sim";
    struct muster *m = open_with(options);
    CHECK(counting.bytes > 0);
    use_everything(m);
    size_t count;
    struct muster_backend_report reports[4] = { { .size = sizeof reports[0] },
                                                { .size = sizeof reports[0] },
                                                { .size = sizeof reports[0] },
                                                { .size = sizeof reports[0] } };
    MUST(muster_backend_list(m, reports, 4, &count, &problem));
    const uint32_t sizes[] = { 1, 2 };
    muster_device slices[2];
    CHECK_STATUS(MUSTER_E_BUSY, muster_device_slice(m, find(m, "sim:0"), sizes, 2, slices, NULL));
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, counting.bytes);
    CHECK_EQUAL(0, counting.wrong);
    CHECK(counting.calls > 50);
}

static void half_an_allocator_is_refused(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = NULL;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.allocator = counting_allocator(&counting);
    counting.hook.release = NULL;
    CHECK_STATUS(MUSTER_E_INVALID, muster_open(&m, &options, &problem));
    options.allocator =
        &(struct muster_allocator){ sizeof(struct muster_allocator), NULL, counting_release, NULL };
    CHECK_STATUS(MUSTER_E_INVALID, muster_open(&m, &options, &problem));
    CHECK(m == NULL);
    CHECK_EQUAL(0, counting.calls);
}

static void options_of_other_sizes_are_understood(void)
{
    struct {
        struct muster_options known;
        unsigned char later[40];
    } newer;
    struct muster *m = NULL;
    memset(&newer, 0, sizeof newer);
    newer.known.size = sizeof newer;
    newer.known.streams_max = 3;
    MUST(muster_open(&m, &newer.known, &problem));
    CHECK_EQUAL(3, info_of(m, find(m, "cpu:0")).streams_max);
    MUST(muster_close(m, &problem));
    m = NULL;
    newer.later[39] = 1;
    CHECK_STATUS(MUSTER_E_VERSION, muster_open(&m, &newer.known, &problem));
    CHECK_CONTAINS(muster_version(), problem.text);
    struct muster_options forgotten = MUSTER_OPTIONS_INIT;
    forgotten.size = 0;
    CHECK_STATUS(MUSTER_E_INVALID, muster_open(&m, &forgotten, &problem));
    CHECK_CONTAINS("set `size`", problem.fix);
}

static void no_options_and_no_runtime_are_allowed_where_said(void)
{
    struct muster *m = NULL;
    MUST(muster_open(&m, NULL, &problem));
    find(m, "cpu:0");
    MUST(muster_close(m, NULL));
    MUST(muster_close(NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_open(NULL, NULL, &problem));
    CHECK_TEXT(MUSTER_VERSION_STRING, muster_version());
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.backend_count = 1;
    CHECK_STATUS(MUSTER_E_INVALID, muster_open(&m, &options, &problem));
}

static void simulated_devices_that_make_no_sense_are_refused_at_open(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = NULL;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.allocator = counting_allocator(&counting);
    static const struct {
        const char *text;
        muster_status status;
        const char *words;
    } wrong[] = {
        { "[{\"items_per_s\": 0}]", MUSTER_E_PARSE, "line 1, column" },
        { "[{\"items_per_s\": 1e6, \"speed\": 2}]", MUSTER_E_PARSE, "speed" },
        { "[{\"items_per_s\": 1e6", MUSTER_E_PARSE, "line 1" },
        { "[]", MUSTER_E_PARSE, "" },
        { "/nonexistent/devices.json", MUSTER_E_NOT_FOUND, "/nonexistent/devices.json" },
        { "nonsense", MUSTER_E_NOT_FOUND, "nonsense" },
        { "[{\"items_per_s\": 1, \"count\": 65}]", MUSTER_E_CAPACITY, "65" },
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        options.sim = wrong[i].text;
        CHECK_STATUS(wrong[i].status, muster_open(&m, &options, &problem));
        CHECK_CONTAINS(wrong[i].words, problem.text);
        setenv("MUSTER_SIM", wrong[i].text, 1);
        options.sim = NULL;
        CHECK_STATUS(wrong[i].status, muster_open(&m, &options, &problem));
        CHECK_CONTAINS(wrong[i].words, problem.text);
        CHECK_STATUS(wrong[i].status, muster_open(&m, &options, NULL));
    }
    CHECK(m == NULL);
    CHECK_EQUAL(0, counting.bytes);
    /* The option goes before the variable; an empty variable is none. */
    options.sim = SIM_PLAIN;
    MUST(muster_open(&m, &options, &problem));
    MUST(muster_close(m, &problem));
    setenv("MUSTER_SIM", "", 1);
    options.sim = NULL;
    MUST(muster_open(&m, &options, &problem));
    muster_device device;
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_device_find(m, "sim:0", &device, &problem));
    MUST(muster_close(m, &problem));
    setenv("MUSTER_SIM", SIM_PLAIN, 1);
    MUST(muster_open(&m, &options, &problem));
    unsetenv("MUSTER_SIM");
    find(m, "sim:1");
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, counting.bytes);
}

static void backend_files_that_cannot_be_had_are_refused_at_open(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = NULL;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.allocator = counting_allocator(&counting);
    options.backend_paths = "/nonexistent/backend.so";
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_open(&m, &options, &problem));
    CHECK_CONTAINS("/nonexistent/backend.so", problem.text);
    options.backend_paths = "/dev/null";
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_open(&m, &options, &problem));
    options.backend_paths = "libc.so.6"; /* loads, and is none */
    CHECK_STATUS(MUSTER_E_INVALID, muster_open(&m, &options, &problem));
    CHECK_CONTAINS("exports no backend", problem.text);
    options.backend_paths = NULL;
    setenv("MUSTER_BACKENDS", "/nonexistent/other.so", 1);
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_open(&m, &options, &problem));
    CHECK_CONTAINS("other.so", problem.text);
    setenv("MUSTER_BACKENDS", "", 1);
    MUST(muster_open(&m, &options, &problem));
    MUST(muster_close(m, &problem));
    unsetenv("MUSTER_BACKENDS");
    options.backend_paths = "::";
    MUST(muster_open(&m, &options, &problem));
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, counting.bytes);
}

static void two_backends_of_one_name_are_refused(void)
{
    struct muster *m = NULL;
    const struct muster_backend *tables[] = { &backend_cpu };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.backends = tables;
    options.backend_count = 1;
    CHECK_STATUS(MUSTER_E_INVALID, muster_open(&m, &options, &problem));
    CHECK_CONTAINS("two backends named cpu", problem.text);
}

struct lines {
    pthread_mutex_t mutex;
    unsigned count[5];
    char last[200];
};

static void keep_line(void *user, enum muster_log_level level, const char *text)
{
    struct lines *lines = user;
    pthread_mutex_lock(&lines->mutex);
    lines->count[level]++;
    snprintf(lines->last, sizeof lines->last, "%s", text);
    pthread_mutex_unlock(&lines->mutex);
}

static muster_status speak_and_refuse(void *backend, const struct muster_services *services,
                                      uint32_t *device_count, struct muster_error *err)
{
    (void)backend, (void)device_count;
    services->log(services, MUSTER_LOG_INFO, "looking");
    services->log(services, MUSTER_LOG_DEBUG, "looking closely");
    return muster_error_fill(err, MUSTER_E_DRIVER, 3, NULL, "the driver is too old");
}

static void the_log_hook_gets_what_its_level_asks_for(void)
{
    static const struct {
        enum muster_log_level level;
        unsigned warnings, infos, debugs;
    } cases[] = { { 0, 1, 0, 0 },
                  { MUSTER_LOG_ERROR, 0, 0, 0 },
                  { MUSTER_LOG_WARNING, 1, 0, 0 },
                  { MUSTER_LOG_INFO, 1, 1, 0 },
                  { MUSTER_LOG_DEBUG, 1, 1, 1 } };
    struct muster_backend table = backend_cpu;
    const struct muster_backend *tables[] = { &table };
    table.name = "silent";
    table.open = speak_and_refuse;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct lines lines = { .mutex = PTHREAD_MUTEX_INITIALIZER };
        struct muster_options options = MUSTER_OPTIONS_INIT;
        options.backends = tables;
        options.backend_count = 1;
        options.log = keep_line;
        options.log_user = &lines;
        options.log_level = cases[i].level;
        struct muster *m = open_with(options);
        muster_device device;
        CHECK_STATUS(MUSTER_E_DRIVER, muster_device_find(m, "silent:0", &device, &problem));
        CHECK_EQUAL(cases[i].warnings, lines.count[MUSTER_LOG_WARNING]);
        CHECK_EQUAL(cases[i].infos, lines.count[MUSTER_LOG_INFO]);
        CHECK_EQUAL(cases[i].debugs, lines.count[MUSTER_LOG_DEBUG]);
        if (cases[i].warnings)
            CHECK_CONTAINS("backend silent is not usable: the driver is too old", lines.last);
        MUST(muster_close(m, &problem));
    }
}

static void two_runtimes_do_not_know_each_other(void)
{
    struct muster *a = open_plain(), *b = open_plain();
    muster_stream first = acquire(a, find(a, "sim:0")), second = acquire(b, find(b, "sim:0"));
    CHECK_EQUAL(1, load_of(a, find(a, "sim:0")).streams_acquired);
    muster_block block = allocate(a, first, 64);
    CHECK_EQUAL(0, load_of(b, find(b, "sim:0")).memory_used);
    CHECK_STATUS(MUSTER_E_UNKNOWN, muster_fill(b, second, block, 0, 1, 1, &problem));
    struct muster_kernel *kernel = kernel_of(a, do_nothing);
    CHECK_STATUS(MUSTER_E_INVALID, muster_launch(b, second, kernel, 0, 1, NULL, 0, NULL, &problem));
    MUST(muster_close(a, &problem));
    MUST(muster_fill(b, second, allocate(b, second, 8), 0, 1, 8, &problem));
    wait_for(b, second);
    MUST(muster_close(b, &problem));
}

static void opening_and_closing_a_hundred_times_leaves_nothing(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.allocator = counting_allocator(&counting);
    options.sim = SIM_PLAIN;
    for (unsigned i = 0; i < 100; i++) {
        struct muster *m = open_with(options);
        if (i % 4 == 0)
            use_everything(m);
        MUST(muster_close(m, &problem));
        CHECK_EQUAL(0, counting.bytes);
    }
}

/* Close waits for what was given: the values are there when it returns. */
static void close_finishes_work_in_flight(void)
{
    for (unsigned kind = 0; kind < 2; kind++) {
        struct counting counting = COUNTING_INIT;
        struct muster_options options = MUSTER_OPTIONS_INIT;
        options.allocator = counting_allocator(&counting);
        options.cpu_workers = 2;
        options.sim = SIM_PLAIN;
        struct muster *m = open_with(options);
        muster_device device = find(m, kind == 0 ? "cpu:0" : "sim:0");
        struct muster_kernel *add = kernel_of(m, add_number);
        enum { ITEMS = 2000, STEPS = 10 };
        static uint64_t got[ITEMS];
        uint64_t one = 1;
        muster_status results[STEPS];
        memset(got, 0, sizeof got);
        muster_stream a = acquire(m, device), b = acquire(m, device);
        muster_block block = allocate(m, a, sizeof got);
        MUST(muster_fill(m, a, block, 0, 0, sizeof got, &problem));
        for (unsigned i = 0; i < STEPS; i++) {
            const struct muster_operand args[] = { MUSTER_BLOCK_UPDATE(block), MUSTER_SCALAR(one) };
            MUST(muster_launch(m, i % 2 ? a : b, add, 0, ITEMS, args, 2, &results[i], &problem));
        }
        MUST(muster_copy_out(m, b, got, block, 0, sizeof got, &problem));
        MUST(muster_stream_release(m, b, &problem));
        MUST(muster_close(m, &problem));
        for (size_t i = 0; i < ITEMS; i++)
            CHECK_EQUAL(STEPS, got[i]);
        for (unsigned i = 0; i < STEPS; i++)
            CHECK_STATUS(MUSTER_OK, results[i]);
        CHECK_EQUAL(0, counting.bytes);
    }
}

static void close_names_a_device_that_does_not_answer(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.allocator = counting_allocator(&counting);
    options.sim = "[{\"items_per_s\": 1e6},"
                  " {\"items_per_s\": 1e6, \"faults\": [{\"kind\": \"hang\", \"at_launch\": 2}]}]";
    options.close_ns = test_patience(30 * MS);
    struct muster *m = open_with(options);
    muster_device good = find(m, "sim:0"), bad = find(m, "sim:1");
    muster_stream streams[] = { acquire(m, good), acquire(m, bad), acquire(m, bad) };
    struct muster_kernel *nothing = kernel_of(m, do_nothing);
    unsigned char out[64] = { 0 };
    muster_status results[3] = { 1, 1, 1 };
    muster_block block = allocate(m, streams[1], 1000);
    MUST(muster_launch(m, streams[0], nothing, 0, 1, NULL, 0, &results[0], &problem));
    MUST(muster_launch(m, streams[1], nothing, 0, 1, NULL, 0, &results[1], &problem));
    wait_for(m, streams[1]);
    MUST(muster_launch(m, streams[2], nothing, 0, 1, NULL, 0, &results[2], &problem));
    MUST(muster_copy_out(m, streams[1], out, block, 0, sizeof out, &problem));
    uint64_t before_ns = platform_clock_ns();
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(m, &problem));
    uint64_t took_ns = platform_clock_ns() - before_ns;
    CHECK(took_ns >= 25 * MS && took_ns < test_patience(5 * SECOND));
    CHECK_TEXT("sim:1", problem.device);
    CHECK_CONTAINS("units: 1,", problem.text);
    CHECK_CONTAINS("blocks: 1, bytes: 1000", problem.text);
    CHECK_STATUS(MUSTER_OK, results[0]);
    CHECK_STATUS(MUSTER_OK, results[1]);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, results[2]);
    CHECK_EQUAL(0, counting.bytes); /* nothing of it runs, so nothing need be left */
}

/*
 * A kernel that does not return is left with what it may touch. Nothing may be asked of the
 * allocator after close: its state is not the runtime's any more, also when the kernel returns.
 */
static void close_abandons_a_kernel_that_does_not_return(void)
{
    static struct counting counting = COUNTING_INIT;
    static struct door door = DOOR_INIT;
    static uint64_t out[16];
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.allocator = counting_allocator(&counting);
    options.cpu_workers = 3;
    options.close_ns = test_patience(10 * MS);
    struct muster *m = open_with(options);
    muster_device device = find(m, "cpu:0");
    muster_stream stream = acquire(m, device), other = acquire(m, device);
    struct muster_kernel *stand = kernel_of(m, stand_at_door);
    muster_block block = allocate(m, stream, sizeof out);
    MUST(muster_fill(m, stream, block, 0, 1, sizeof out, &problem));
    hold_stream(m, stream, stand, &door);
    MUST(muster_copy_out(m, stream, out, block, 0, sizeof out, &problem));
    MUST(muster_fill(m, other, block, 0, 2, sizeof out, &problem));
    door_wait_arrived(&door, 1);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(m, &problem));
    CHECK_TEXT("cpu:0", problem.device);
    CHECK(counting.bytes > 0);
    counting_close(&counting);
    door_open(&door);
    door_wait_left(&door, 1);
    /* The thread that was abandoned ends by itself; there is nothing left of Muster's to ask when. */
    for (unsigned i = 0; i < 50; i++)
        sched_yield();
    CHECK_EQUAL(0, counting_late(&counting));
    CHECK_EQUAL(0, out[0]);
}

static struct door sample_door = DOOR_INIT;

static muster_status stand_in_sample(void *device, struct muster_device_sample *sample,
                                     struct muster_error *err)
{
    door_pass(&sample_door);
    return backend_cpu.device_sample(device, sample, err);
}

/* The poller is stuck in a driver; work on healthy devices is waited for all the same. */
static void close_with_a_stuck_driver_still_finishes_the_work_of_others(void)
{
    static struct muster_backend table;
    static const struct muster_backend *const tables[] = { &table };
    static struct counting counting = COUNTING_INIT;
    table = backend_cpu;
    table.name = "stuck";
    table.device_sample = stand_in_sample;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.allocator = counting_allocator(&counting);
    options.backends = tables;
    options.backend_count = 1;
    options.close_ns = test_patience(200 * MS);
    /* Five steps of 20 ms. */
    options.sim = "[{\"items_per_s\": 1e6, \"launch_ns\": 20000000}]";
    struct muster *m = open_with(options);
    muster_device stuck = find(m, "stuck:0"), good = find(m, "sim:0");
    struct muster_device_load load = { .size = sizeof load };
    uint64_t before_ns = platform_clock_ns();
    MUST(muster_device_load(m, stuck, &load, &problem));
    uint64_t first_ns = platform_clock_ns() - before_ns;
    CHECK_EQUAL(0, load.sampled_ns);
    CHECK(first_ns < 5 * SECOND);
    before_ns = platform_clock_ns();
    MUST(muster_device_load(m, stuck, &load, &problem));
    CHECK(platform_clock_ns() - before_ns < 900 * MS); /* nobody waits for it twice */
    enum { ITEMS = 10 };
    static uint64_t got[ITEMS];
    uint64_t one = 1;
    muster_stream stream = acquire(m, good);
    struct muster_kernel *add = kernel_of(m, add_number);
    muster_block block = allocate(m, stream, sizeof got);
    MUST(muster_fill(m, stream, block, 0, 0, sizeof got, &problem));
    for (unsigned i = 0; i < 5; i++) {
        const struct muster_operand args[] = { MUSTER_BLOCK_UPDATE(block), MUSTER_SCALAR(one) };
        MUST(muster_launch(m, stream, add, 0, ITEMS, args, 2, NULL, &problem));
    }
    MUST(muster_copy_out(m, stream, got, block, 0, sizeof got, &problem));
    /* What failed is told, and what did not even begin: the last would take an hour. */
    struct muster_kernel *fail = kernel_of(m, always_fail), *nothing = kernel_of(m, do_nothing);
    static muster_status results[2];
    MUST(muster_launch(m, stream, fail, 0, 1, NULL, 0, &results[0], &problem));
    MUST(
        muster_launch(m, stream, nothing, 0, UINT64_C(3600000000), NULL, 0, &results[1], &problem));
    before_ns = platform_clock_ns();
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(m, &problem));
    CHECK(platform_clock_ns() - before_ns < test_patience(5 * SECOND));
    CHECK_EQUAL(5, got[ITEMS - 1]);
    CHECK_STATUS(MUSTER_E_FAILED, results[0]);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, results[1]);
    door_open(&sample_door);
    door_wait_left(&sample_door, 1);
}

static unsigned broken;

static void note_broken(const char *file, int line, const char *condition)
{
    (void)file, (void)line, (void)condition;
    broken++;
}

static void a_broken_invariant_is_reported_by_close(void)
{
    struct muster *a = open_plain();
    muster_set_assert_hook(note_broken);
    INVARIANT(!"broken by this test");
    struct muster *b = open_plain();
    CHECK_EQUAL(1, broken);
    CHECK_STATUS(MUSTER_E_INTERNAL, muster_close(a, &problem));
    CHECK_CONTAINS("runtime.c", problem.text);
    MUST(muster_close(b, &problem)); /* was not open when it happened */
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(everything_comes_from_the_allocator_and_goes_back),
        TEST(half_an_allocator_is_refused),
        TEST(options_of_other_sizes_are_understood),
        TEST(no_options_and_no_runtime_are_allowed_where_said),
        TEST(simulated_devices_that_make_no_sense_are_refused_at_open),
        TEST(backend_files_that_cannot_be_had_are_refused_at_open),
        TEST(two_backends_of_one_name_are_refused),
        TEST(the_log_hook_gets_what_its_level_asks_for),
        TEST(two_runtimes_do_not_know_each_other),
        TEST(opening_and_closing_a_hundred_times_leaves_nothing),
        TEST(close_finishes_work_in_flight),
        TEST(close_names_a_device_that_does_not_answer),
        TEST(close_abandons_a_kernel_that_does_not_return),
        TEST(close_with_a_stuck_driver_still_finishes_the_work_of_others),
        TEST(a_broken_invariant_is_reported_by_close),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
