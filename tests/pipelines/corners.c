/*
 * Where a pipeline's job meets what surrounds it: host stages that take their time, a pipeline that
 * goes before its job, devices that cannot run it or come back late, windows that just suffice.
 */
#include "machine.h"
#include "slow.h"

#define ITEMS 64

enum { IN = 1, DEV = 2, OUT = 4 };

static void sleep_ms(unsigned ms)
{
    nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 },
              NULL);
}

/* The host stage dawdles at one unit. */
struct dawdle {
    uint64_t at;
    unsigned ms;
    atomic_uint calls;
};

static muster_status dawdle_at(struct muster_unit *unit, void *user)
{
    struct dawdle *dawdle = user;
    uint64_t begin, end;
    muster_unit_range(unit, &begin, &end);
    atomic_fetch_add(&dawdle->calls, 1);
    if (begin <= dawdle->at && dawdle->at < end)
        sleep_ms(dawdle->ms);
    return MUSTER_OK;
}

static struct muster_pipeline *make(struct muster *m, const struct muster_buffer *buffers,
                                    size_t buffer_count, const struct muster_stage *stages,
                                    size_t stage_count, enum muster_schedule schedule)
{
    const struct muster_pipeline_options options = { .size = sizeof options, .schedule = schedule };
    struct muster_pipeline *pipeline = NULL;
    MUST(muster_pipeline_create(m, buffers, buffer_count, stages, stage_count, &options, &pipeline,
                                &problem));
    return pipeline;
}

/* In, out and a look by the host at what has come out. */
static struct muster_pipeline *make_looked_at(struct muster *m, struct dawdle *dawdle)
{
    const struct muster_buffer buffers[] = {
        { sizeof *buffers, "in", MUSTER_HOST, 4, 0, 0, MUSTER_INPUT },
        { sizeof *buffers, "dev", MUSTER_DEVICE, 4, 0, 0, 0 },
        { sizeof *buffers, "out", MUSTER_HOST, 4, 0, 0, MUSTER_OUTPUT },
    };
    const struct muster_stage stages[] = {
        { sizeof *stages, "in", "h2d", .reads = IN, .writes = DEV, .flags = MUSTER_COPY },
        { sizeof *stages, "out", "d2h", .reads = DEV, .writes = OUT, .flags = MUSTER_COPY },
        { sizeof *stages, "look", "host", .reads = OUT, .run = dawdle_at, .user = dawdle },
    };
    return make(m, buffers, COUNT_OF(buffers), stages, COUNT_OF(stages), MUSTER_SCHEDULE_AUTO);
}

static uint32_t input[ITEMS * 64], output[ITEMS * 64];

/* Of the job that is described next. */
static struct muster_run_options how;

static struct muster_job_desc job_of(struct muster_pipeline *pipeline, uint64_t items)
{
    for (size_t i = 0; i < COUNT_OF(input); i++) {
        input[i] = (uint32_t)i * 7 + 1;
        output[i] = 0;
    }
    struct muster_job_desc desc = {
        .size = sizeof desc, .items = items, .pipeline = pipeline, .input = input, .output = output
    };
    how = (struct muster_run_options){ .size = sizeof how, .unit_items = 4 };
    desc.options = &how;
    return desc;
}

static muster_status run(struct muster *m, const struct muster_job_desc *desc,
                         struct muster_report *report)
{
    struct muster_job *job;
    *report = full_report();
    muster_status status = muster_start(m, desc, &job, &problem);
    if (status != MUSTER_OK)
        return status;
    status = muster_job_wait(job, report, &problem);
    muster_job_destroy(job);
    return status;
}

/* It is the user's code that takes its time, not the device. */
static void a_slow_host_stage_is_no_hung_device(void)
{
    static const char *const devices[] = { "sim:0", "sim:0,sim:1" };
    for (size_t i = 0; i < COUNT_OF(devices); i++) {
        struct muster *m = open_plain();
        struct dawdle dawdle = { .at = 20, .ms = (unsigned)test_patience(400) };
        struct muster_pipeline *pipeline = make_looked_at(m, &dawdle);
        struct muster_report report;
        struct muster_job_desc desc = job_of(pipeline, ITEMS);
        how.devices = devices[i];
        how.timeout_ns = test_patience(100 * MS);
        how.no_copies = 1;
        MUST(run(m, &desc, &report));
        CHECK_EQUAL(ITEMS, report.delivered);
        CHECK_EQUAL(ITEMS / 4, atomic_load(&dawdle.calls));
        for (size_t d = 0; d < report.device_count; d++)
            CHECK_EQUAL(MUSTER_HEALTH_OK, report.devices[d].health);
        muster_pipeline_destroy(pipeline);
        MUST(muster_close(m, &problem));
    }
}

static void a_pipeline_goes_before_its_job(void)
{
    struct muster *m = open_plain();
    struct dawdle dawdle = { .at = UINT64_MAX };
    struct muster_pipeline *pipeline = make_looked_at(m, &dawdle);
    struct muster_report report = full_report();
    struct muster_edge_report edges[32];
    struct muster_job *job;
    size_t count;
    for (size_t i = 0; i < COUNT_OF(edges); i++)
        edges[i].size = sizeof edges[i];
    struct muster_job_desc desc = job_of(pipeline, ITEMS);
    MUST(muster_start(m, &desc, &job, &problem));
    MUST(muster_job_wait(job, NULL, &problem));
    muster_pipeline_destroy(pipeline);
    MUST(muster_job_wait(job, &report, &problem));
    MUST(muster_job_edges(job, edges, COUNT_OF(edges), &count, &problem));
    CHECK_TEXT("in", edges[0].from);
    muster_job_destroy(job);
    MUST(muster_close(m, &problem));
}

/* A copy to a buffer of smaller items takes the beginning of each unit, also of merged ones. */
static void a_copy_between_items_of_two_sizes(void)
{
    struct muster *m = machine_open("cpu");
    const struct muster_buffer buffers[] = {
        { sizeof *buffers, "in", MUSTER_HOST, 4, 0, 0, MUSTER_INPUT },
        { sizeof *buffers, "dev", MUSTER_DEVICE, 2, 0, 0, 0 },
        { sizeof *buffers, "out", MUSTER_HOST, 4, 0, 0, MUSTER_OUTPUT },
    };
    const struct muster_stage stages[] = {
        { sizeof *stages, "in", "h2d", .reads = IN, .writes = DEV, .flags = MUSTER_COPY },
        { sizeof *stages, "out", "d2h", .reads = DEV, .writes = OUT, .flags = MUSTER_COPY },
    };
    struct muster_pipeline *pipeline =
        make(m, buffers, COUNT_OF(buffers), stages, COUNT_OF(stages), MUSTER_SCHEDULE_AUTO);
    struct muster_report report;
    struct muster_job_desc desc = job_of(pipeline, COUNT_OF(input));
    MUST(run(m, &desc, &report));
    for (size_t i = 0; i < COUNT_OF(input); i += 4) {
        CHECK_EQUAL(input[i], output[i]);
        CHECK_EQUAL(input[i + 1], output[i + 1]);
    }
    muster_pipeline_destroy(pipeline);
    MUST(muster_close(m, &problem));
}

/* One slot that the host reads while the next unit's copy would write it. */
static struct muster_pipeline *make_gated(struct muster *m, struct dawdle *dawdle,
                                          enum muster_schedule schedule)
{
    const struct muster_buffer buffers[] = {
        { sizeof *buffers, "in", MUSTER_HOST, 4, 0, 0, MUSTER_INPUT },
        { sizeof *buffers, "dev", MUSTER_DEVICE, 4, 0, 0, 0 },
        { sizeof *buffers, "seen", MUSTER_HOST, 4, 0, 1, 0 },
        { sizeof *buffers, "out", MUSTER_HOST, 4, 0, 0, MUSTER_OUTPUT },
    };
    const struct muster_stage stages[] = {
        { sizeof *stages, "in", "h2d", .reads = 1, .writes = 2, .flags = MUSTER_COPY },
        { sizeof *stages, "show", "d2h", .reads = 2, .writes = 4, .flags = MUSTER_COPY },
        { sizeof *stages, "look", "host", .reads = 4, .run = dawdle_at, .user = dawdle },
        { sizeof *stages, "out", "back", .reads = 2, .writes = 8, .flags = MUSTER_COPY },
    };
    return make(m, buffers, COUNT_OF(buffers), stages, COUNT_OF(stages), schedule);
}

static void a_device_without_the_plan_takes_no_part(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    const struct muster_backend *table = slow_wrap(false);
    options.sim = SIM_PLAIN;
    options.backends = &table;
    options.backend_count = 1;
    struct muster *m = open_with(options);
    struct dawdle dawdle = { .at = UINT64_MAX };
    struct muster_pipeline *pipeline = make_gated(m, &dawdle, MUSTER_SCHEDULE_GATED);
    struct muster_report report;
    struct muster_job_desc desc = job_of(pipeline, ITEMS);
    how.devices = "sim:0,slow:0";
    MUST(run(m, &desc, &report));
    CHECK_EQUAL(1, report.device_count);
    CHECK_TEXT("sim:0", report.devices[0].id);
    CHECK_EQUAL(MUSTER_SCHEDULE_GATED, report.schedule);
    how.devices = "slow:0";
    CHECK_STATUS(MUSTER_E_NO_DEVICE, run(m, &desc, &report));
    CHECK_CONTAINS("wait for a value", problem.text);
    how.devices = "sim:0";
    how.depth = 1;
    MUST(run(m, &desc, &report));
    CHECK_EQUAL(ITEMS, report.delivered);
    muster_pipeline_destroy(pipeline);
    MUST(muster_close(m, &problem));
}

/* Closes while the first unit's host stage is at work, and others wait at the gate for it. */
static muster_status close_at_gate(struct dawdle *dawdle, uint64_t close_ns)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "cpu";
    options.cpu_workers = 6;
    options.close_ns = close_ns;
    struct muster *m = open_with(options);
    struct muster_pipeline *pipeline = make_gated(m, dawdle, MUSTER_SCHEDULE_GATED);
    struct muster_job *job;
    struct muster_job_desc desc = job_of(pipeline, ITEMS);
    MUST(muster_start(m, &desc, &job, &problem));
    while (atomic_load(&dawdle->calls) == 0)
        sleep_ms(1);
    sleep_ms(20);
    return muster_close(m, &problem);
}

/* What waits at a gate is let go; a host stage that outlasts the runtime's patience is named. */
static void closing_while_a_host_stage_holds_a_gate(void)
{
    struct dawdle dawdle = { .at = 0, .ms = 300 };
    MUST(close_at_gate(&dawdle, 100 * SECOND));
    /* It returns some time after that. */
    static struct dawdle late = { .at = 0 };
    late.ms = (unsigned)test_patience(700);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, close_at_gate(&late, 200 * MS));
    CHECK_CONTAINS("a host stage", problem.text);
}

/* What a device that seemed to hang has kept is there again when it has come back, gates or not. */
static void come_back(bool is_gated)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    const struct muster_backend *table = slow_wrap(true);
    options.backends = &table;
    options.backend_count = 1;
    options.devices = "slow";
    options.cpu_workers = 6;
    /* All that there are are the job's. */
    options.streams_max = is_gated ? 3 : 2;
    struct muster *m = open_with(options);
    struct dawdle dawdle = { .at = UINT64_MAX };
    struct muster_pipeline *pipeline =
        is_gated ? make_gated(m, &dawdle, MUSTER_SCHEDULE_GATED) : make_looked_at(m, &dawdle);
    struct muster_report report;
    struct muster_job_desc desc = job_of(pipeline, 8);
    how.timeout_ns = 20 * MS;
    slow_choose(1, 100 * MS);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, run(m, &desc, &report));
    how.timeout_ns = 0;
    muster_status status = run(m, &desc, &report);
    /* Until it is back it is given nothing, or its streams are still out. */
    for (int ms = 0; ms < 30000 && (status == MUSTER_E_CAPACITY || status == MUSTER_E_NO_DEVICE);
         ms++) {
        sleep_ms(1);
        status = run(m, &desc, &report);
    }
    MUST(status);
    muster_pipeline_destroy(pipeline);
    MUST(muster_close(m, &problem));
}

static void a_device_that_comes_back_gives_all_back(void)
{
    come_back(false);
    come_back(true);
}

/* What is carried stays on one device: not the first, but the one that is best at it. */
static void what_is_carried_goes_to_the_heaviest_device(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "sim";
    options.sim = "[{\"items_per_s\": 4e6, \"weight\": 1}, {\"items_per_s\": 8e6, \"weight\": 8},"
                  " {\"items_per_s\": 4e6, \"weight\": 2}]";
    struct muster *m = open_with(options);
    const struct muster_buffer buffers[] = {
        { sizeof *buffers, "in", MUSTER_HOST, 4, 0, 0, MUSTER_INPUT },
        { sizeof *buffers, "dev", MUSTER_DEVICE, 4, 0, 0, 0 },
        { sizeof *buffers, "out", MUSTER_HOST, 4, 0, 0, MUSTER_OUTPUT },
    };
    const struct muster_stage stages[] = {
        { sizeof *stages, "in", "h2d", .reads = IN, .writes = DEV, .flags = MUSTER_COPY },
        { sizeof *stages, "out", "d2h", .reads = DEV, .writes = OUT,
          .flags = MUSTER_COPY | MUSTER_CARRIES },
    };
    struct muster_pipeline *pipeline =
        make(m, buffers, COUNT_OF(buffers), stages, COUNT_OF(stages), MUSTER_SCHEDULE_AUTO);
    struct muster_report report;
    struct muster_job_desc desc = job_of(pipeline, ITEMS);
    MUST(run(m, &desc, &report));
    CHECK_EQUAL(1, report.device_count);
    CHECK_TEXT("sim:1", report.devices[0].id);
    how.devices = "sim:0,sim:2";
    MUST(run(m, &desc, &report));
    CHECK_TEXT("sim:2", report.devices[0].id);
    muster_pipeline_destroy(pipeline);
    MUST(muster_close(m, &problem));
}

/* Fails once, for one item. */
static atomic_uint kernel_failures;
static atomic_uint misplaced; /* arrays that it was given where no uint32_t can be */

static muster_status add_one(uint64_t begin, uint64_t end, void *const *args)
{
    const uint32_t *from = *(void *const *)args[0];
    uint32_t *to = *(void *const *)args[1];
    if ((uintptr_t)from % sizeof *from != 0 || (uintptr_t)to % sizeof *to != 0) {
        atomic_fetch_add(&misplaced, 1);
        return MUSTER_E_INVALID;
    }
    for (uint64_t i = begin; i < end; i++) {
        if (from[i] == input[8] && atomic_fetch_add(&kernel_failures, 1) == 0)
            return MUSTER_E_FAILED;
        to[i] = from[i] + 1;
    }
    return MUSTER_OK;
}

static muster_status check_sum(struct muster_unit *unit, void *user)
{
    struct muster_view view = { .size = sizeof view };
    uint64_t begin, end;
    atomic_uint *mistakes = user;
    muster_unit_range(unit, &begin, &end);
    muster_status status = muster_unit_view(unit, 3, &view, NULL);
    for (uint64_t i = begin; status == MUSTER_OK && i < end; i++)
        *mistakes += ((uint32_t *)view.host)[i - begin] != input[i] + 1;
    return status;
}

/*
 * A kernel is launched for each of four units that share all else. One of the launches fails: the
 * others do not make up for it, and the host does not get to see what it left.
 */
static void a_launch_that_fails_among_others(void)
{
    static const char *const devices[] = { "cpu", "sim" };
    for (size_t i = 0; i < COUNT_OF(devices); i++) {
        struct muster *m = machine_open(devices[i]);
        struct muster_kernel *kernel = kernel_of(m, add_one);
        atomic_uint mistakes = 0;
        const struct muster_buffer buffers[] = {
            { sizeof *buffers, "in", MUSTER_HOST, 4, 0, 0, MUSTER_INPUT },
            { sizeof *buffers, "dev", MUSTER_DEVICE, 4, 0, 0, 0 },
            { sizeof *buffers, "sum", MUSTER_DEVICE, 4, 0, 0, 0 },
            { sizeof *buffers, "out", MUSTER_HOST, 4, 0, 0, MUSTER_OUTPUT },
        };
        const struct muster_stage stages[] = {
            { sizeof *stages, "in", "h2d", .reads = 1, .writes = 2, .flags = MUSTER_COPY },
            { sizeof *stages, "add", "compute", .reads = 2, .writes = 4, .kernel = kernel },
            { sizeof *stages, "out", "d2h", .reads = 4, .writes = 8, .flags = MUSTER_COPY },
            { sizeof *stages, "check", "host", .reads = 8, .run = check_sum, .user = &mistakes,
              .every = 4 },
        };
        struct muster_pipeline *pipeline =
            make(m, buffers, COUNT_OF(buffers), stages, COUNT_OF(stages), MUSTER_SCHEDULE_AUTO);
        struct muster_report report;
        struct muster_job_desc desc = job_of(pipeline, ITEMS);
        atomic_store(&kernel_failures, 0);
        MUST(run(m, &desc, &report));
        CHECK_EQUAL(1, report.retries);
        CHECK_EQUAL(0, atomic_load(&mistakes));
        for (size_t item = 0; item < ITEMS; item++)
            CHECK_EQUAL(input[item] + 1, output[item]);
        muster_pipeline_destroy(pipeline);
        muster_kernel_destroy(kernel);
        MUST(muster_close(m, &problem));
    }
}

/* An edge over two units is not dead because several lanes had two units each. */
static void edges_of_lanes_with_few_units_are_not_dead(void)
{
    struct muster *m = open_plain();
    struct dawdle dawdle = { .at = UINT64_MAX };
    struct muster_pipeline *pipeline = make_looked_at(m, &dawdle);
    struct muster_edge_report edges[32];
    struct muster_job *job;
    size_t count, far = 0;
    for (size_t i = 0; i < COUNT_OF(edges); i++)
        edges[i].size = sizeof edges[i];
    struct muster_job_desc desc = job_of(pipeline, 16);
    how.devices = "sim:0,sim:1";
    how.policy = "round-robin";
    MUST(muster_start(m, &desc, &job, &problem));
    MUST(muster_job_wait(job, NULL, &problem));
    MUST(muster_job_edges(job, edges, COUNT_OF(edges), &count, &problem));
    for (size_t i = 0; i < count; i++) {
        CHECK(!edges[i].is_dead);
        far += edges[i].distance == 2 && edges[i].waits == 0;
    }
    CHECK(far > 0);
    muster_job_destroy(job);
    muster_pipeline_destroy(pipeline);
    MUST(muster_close(m, &problem));
}

/* Units that share a slot begin where a device can work, though their sizes are odd. */
static void units_of_odd_sizes_are_aligned(void)
{
    struct muster *m = machine_open("cpu");
    struct muster_kernel *kernel = kernel_of(m, add_one);
    const struct muster_buffer buffers[] = {
        { sizeof *buffers, "in", MUSTER_HOST, 4, 0, 0, MUSTER_INPUT },
        { sizeof *buffers, "dev", MUSTER_DEVICE, 4, 6, 0, 0 },
        { sizeof *buffers, "sum", MUSTER_DEVICE, 4, 6, 0, 0 },
        { sizeof *buffers, "out", MUSTER_HOST, 4, 0, 0, MUSTER_OUTPUT },
    };
    struct dawdle dawdle = { .at = UINT64_MAX };
    struct muster_stage stages[] = {
        { sizeof *stages, "in", "h2d", .reads = 1, .writes = 2, .flags = MUSTER_COPY },
        { sizeof *stages, "add", "compute", .reads = 2, .writes = 4, .kernel = kernel },
        { sizeof *stages, "out", "d2h", .reads = 4, .writes = 8, .flags = MUSTER_COPY },
        { sizeof *stages, "look", "host", .reads = 8, .run = dawdle_at, .user = &dawdle,
          .every = 4 },
    };
    struct muster_pipeline *pipeline =
        make(m, buffers, COUNT_OF(buffers), stages, COUNT_OF(stages), MUSTER_SCHEDULE_AUTO);
    struct muster_report report;
    struct muster_job_desc desc = job_of(pipeline, ITEMS);
    atomic_store(&kernel_failures, 1);
    atomic_store(&misplaced, 0);
    MUST(run(m, &desc, &report));
    CHECK_EQUAL(0, atomic_load(&misplaced));
    for (size_t item = 0; item < ITEMS; item++)
        CHECK_EQUAL(input[item] + 1, output[item]);
    muster_pipeline_destroy(pipeline);
    /* All at once, a kernel would take what lies between units for items. */
    stages[1].every = 4;
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_pipeline_create(m, buffers, COUNT_OF(buffers), stages, COUNT_OF(stages),
                                        NULL, &pipeline, &problem));
    CHECK_CONTAINS("fixed part", problem.text);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

static muster_status refuse(struct muster_unit *unit, void *user)
{
    (void)unit;
    struct dawdle *dawdle = user;
    return atomic_fetch_add(&dawdle->calls, 1) == 0 ? (muster_status)dawdle->at : MUSTER_OK;
}

/* A host stage says MUSTER_E_FAILED for bad luck, and anything else for a refusal that will stand. */
static void what_a_host_stage_refuses_is_not_tried_again(void)
{
    static const muster_status said[] = { MUSTER_E_PARSE, MUSTER_E_FAILED };
    for (size_t i = 0; i < COUNT_OF(said); i++) {
        struct muster *m = machine_open("cpu");
        struct dawdle dawdle = { .at = (uint64_t)said[i] };
        const struct muster_stage stages[] = {
            { sizeof *stages, "look", "host", .run = refuse, .user = &dawdle },
        };
        struct muster_pipeline *pipeline =
            make(m, NULL, 0, stages, COUNT_OF(stages), MUSTER_SCHEDULE_AUTO);
        struct muster_report report;
        struct muster_job_desc desc = job_of(pipeline, 4);
        desc.input = desc.output = NULL;
        CHECK_STATUS(i == 0 ? MUSTER_E_PARSE : MUSTER_OK, run(m, &desc, &report));
        CHECK_EQUAL(i == 0 ? 1 : 2, atomic_load(&dawdle.calls));
        if (i == 0)
            CHECK_CONTAINS("look", problem.text);
        muster_pipeline_destroy(pipeline);
        MUST(muster_close(m, &problem));
    }
}

static void a_window_that_holds_no_batch(void)
{
    struct muster *m = machine_open("cpu");
    const struct muster_buffer buffers[] = {
        { sizeof *buffers, "in", MUSTER_HOST, 4, 0, 0, MUSTER_INPUT },
        { sizeof *buffers, "dev", MUSTER_DEVICE, 4, 0, 0, 0 },
        { sizeof *buffers, "out", MUSTER_HOST, 4, 0, 0, MUSTER_OUTPUT },
    };
    const struct muster_stage stages[] = {
        { sizeof *stages, "in", "h2d", .reads = IN, .writes = DEV, .flags = MUSTER_COPY },
        { sizeof *stages, "out", "d2h", .reads = DEV, .writes = OUT, .flags = MUSTER_COPY,
          .every = 8 },
    };
    struct muster_pipeline *pipeline =
        make(m, buffers, COUNT_OF(buffers), stages, COUNT_OF(stages), MUSTER_SCHEDULE_AUTO);
    struct muster_report report;
    struct muster_job_desc desc = job_of(pipeline, ITEMS);
    how.window = 7;
    CHECK_STATUS(MUSTER_E_TOO_LARGE, run(m, &desc, &report));
    how.window = 8;
    MUST(run(m, &desc, &report));
    muster_pipeline_destroy(pipeline);
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_slow_host_stage_is_no_hung_device),
        TEST(a_pipeline_goes_before_its_job),
        TEST(a_copy_between_items_of_two_sizes),
        TEST(a_device_without_the_plan_takes_no_part),
        TEST(closing_while_a_host_stage_holds_a_gate),
        TEST(a_device_that_comes_back_gives_all_back),
        TEST(what_is_carried_goes_to_the_heaviest_device),
        TEST(edges_of_lanes_with_few_units_are_not_dead),
        TEST(a_launch_that_fails_among_others),
        TEST(units_of_odd_sizes_are_aligned),
        TEST(what_a_host_stage_refuses_is_not_tried_again),
        TEST(a_window_that_holds_no_batch),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
