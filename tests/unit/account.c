/*
 * What is said of a pipeline that ran: stalls go to the edge that caused them, stages and stalls are in
 * the trace, edges are kept as often as the plan has it, and the figures of devices and the totals see
 * what was done.
 */
#include "jobs_support.h"
#include "trace_support.h"

#define UNIT UINT64_C(64)
#define UNITS UINT64_C(6)
#define ITEMS (UNITS * UNIT)
#define SLEEP_NS test_patience(10 * MS)
#define EDGES_MAX 64

enum { IN, D_IN, D_OUT, OUT };
#define BIT(buffer) (UINT64_C(1) << (buffer))

static void sleep_ns(uint64_t ns)
{
    const struct timespec time = { (time_t)(ns / SECOND), (long)(ns % SECOND) };
    nanosleep(&time, NULL);
}

static muster_status pass_on(uint64_t begin, uint64_t end, void *const *args)
{
    const uint64_t *in = *(const uint64_t *const *)args[0];
    uint64_t *out = *(uint64_t *const *)args[1];
    memcpy(out + begin, in + begin, (end - begin) * sizeof *out);
    return MUSTER_OK;
}

/* The one who has the first item sleeps. */
static muster_status pass_on_slowly(uint64_t begin, uint64_t end, void *const *args)
{
    if (begin == 0)
        sleep_ns(SLEEP_NS);
    return pass_on(begin, end, args);
}

static _Atomic unsigned errors_logged;

static void note_error(void *user, enum muster_log_level level, const char *text)
{
    (void)user;
    if (level == MUSTER_LOG_ERROR) {
        printf("    %s\n", text);
        atomic_fetch_add(&errors_logged, 1);
    }
}

/* A runtime and a pipeline in it, and what came of its job. */
struct bench {
    struct muster *m;
    struct muster_pipeline *pipeline;
    uint64_t in[32 * ITEMS], out[32 * ITEMS];
    struct muster_report report;
    struct muster_edge_report edges[EDGES_MAX];
    size_t edge_count;
};
static struct bench bench;

static void open_bench(const char *devices, const char *sim)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.cpu_workers = 4;
    options.devices = devices;
    options.sim = sim;
    options.log = note_error;
    atomic_store(&errors_logged, 0);
    memset(&bench, 0, sizeof bench);
    bench.m = open_with(options);
    for (uint64_t i = 0; i < COUNT_OF(bench.in); i++)
        bench.in[i] = i * 7 + 1;
}

static void close_bench(void)
{
    muster_pipeline_destroy(bench.pipeline);
    MUST(muster_close(bench.m, &problem));
    CHECK_EQUAL(0, atomic_load(&errors_logged));
}

/* Up, a kernel, down, each on a stream of its own. */
static void make_three(muster_kernel_function function, uint32_t slots_in, uint32_t slots)
{
    const struct muster_buffer buffers[] = {
        [IN] = { sizeof *buffers, "in", MUSTER_HOST, 8, 0, slots, MUSTER_INPUT },
        [D_IN] = { sizeof *buffers, "d_in", MUSTER_DEVICE, 8, 0, slots_in, 0 },
        [D_OUT] = { sizeof *buffers, "d_out", MUSTER_DEVICE, 8, 0, slots, 0 },
        [OUT] = { sizeof *buffers, "out", MUSTER_HOST, 8, 0, slots, MUSTER_OUTPUT },
    };
    const struct muster_stage stages[] = {
        { sizeof *stages, "up", "up", .reads = BIT(IN), .writes = BIT(D_IN), .flags = MUSTER_COPY },
        { sizeof *stages, "work", "work", .reads = BIT(D_IN), .writes = BIT(D_OUT),
          .kernel = kernel_of(bench.m, function) },
        { sizeof *stages, "down", "down", .reads = BIT(D_OUT), .writes = BIT(OUT),
          .flags = MUSTER_COPY },
    };
    MUST(muster_pipeline_create(bench.m, buffers, COUNT_OF(buffers), stages, COUNT_OF(stages), NULL,
                                &bench.pipeline, &problem));
}

static muster_status think(struct muster_unit *unit, void *user)
{
    struct muster_view from = { .size = sizeof from }, to = { .size = sizeof to };
    MUST(muster_unit_view(unit, 2, &from, &problem));
    MUST(muster_unit_view(unit, 3, &to, &problem));
    memcpy(to.host, from.host, from.bytes);
    if (user)
        sleep_ns(SLEEP_NS);
    return MUSTER_OK;
}

/* Through the device to a host stage and back through it. */
static void make_with_host(bool is_slow)
{
    const struct muster_buffer buffers[] = {
        { sizeof *buffers, "in", MUSTER_HOST, 8, 0, 2, MUSTER_INPUT },
        { sizeof *buffers, "d_in", MUSTER_DEVICE, 8, 0, 2, 0 },
        { sizeof *buffers, "half", MUSTER_HOST, 8, 0, 2, 0 },
        { sizeof *buffers, "whole", MUSTER_HOST, 8, 0, 2, 0 },
        { sizeof *buffers, "d_out", MUSTER_DEVICE, 8, 0, 2, 0 },
        { sizeof *buffers, "out", MUSTER_HOST, 8, 0, 2, MUSTER_OUTPUT },
    };
    const struct muster_stage stages[] = {
        { sizeof *stages, "up", "a", .reads = BIT(0), .writes = BIT(1), .flags = MUSTER_COPY },
        { sizeof *stages, "back", "b", .reads = BIT(1), .writes = BIT(2), .flags = MUSTER_COPY },
        { sizeof *stages, "think", "host", .reads = BIT(2), .writes = BIT(3), .run = think,
          .user = is_slow ? &bench : NULL },
        { sizeof *stages, "again", "a", .reads = BIT(3), .writes = BIT(4), .flags = MUSTER_COPY },
        { sizeof *stages, "down", "b", .reads = BIT(4), .writes = BIT(5), .flags = MUSTER_COPY },
    };
    MUST(muster_pipeline_create(bench.m, buffers, COUNT_OF(buffers), stages, COUNT_OF(stages), NULL,
                                &bench.pipeline, &problem));
}

static struct muster_job *start_bench(uint64_t items, uint32_t depth, int account)
{
    return start(bench.m, &(struct muster_job_desc){ .size = sizeof(struct muster_job_desc),
                                                     .items = items,
                                                     .pipeline = bench.pipeline,
                                                     .input = bench.in,
                                                     .output = bench.out,
                                                     .options = &(struct muster_run_options){
                                                         .size = sizeof(struct muster_run_options),
                                                         .unit_items = UNIT,
                                                         .depth = depth,
                                                         .account = account } });
}

static void read_edges(struct muster_job *job)
{
    for (size_t i = 0; i < EDGES_MAX; i++)
        bench.edges[i] = (struct muster_edge_report){ .size = sizeof bench.edges[i] };
    MUST(muster_job_edges(job, bench.edges, EDGES_MAX, &bench.edge_count, &problem));
}

static void run_bench(uint64_t items, uint32_t depth, int account)
{
    struct muster_job *job = start_bench(items, depth, account);
    bench.report = (struct muster_report){ .size = sizeof bench.report };
    MUST(muster_job_wait(job, &bench.report, &problem));
    read_edges(job);
    muster_job_destroy(job);
    CHECK(memcmp(bench.in, bench.out, items * sizeof *bench.in) == 0);
}

static bool is_edge(const struct muster_edge_report *edge, const char *from, const char *to)
{
    return strcmp(edge->from, from) == 0 && strcmp(edge->to, to) == 0;
}

/* How long the edge has held its step up, and how long all others did. */
static uint64_t stall_of(const char *from, const char *to, uint64_t *others_ns)
{
    uint64_t stall_ns = 0;
    *others_ns = 0;
    for (size_t i = 0; i < bench.edge_count; i++)
        *(is_edge(&bench.edges[i], from, to) ? &stall_ns : others_ns) += bench.edges[i].stall_ns;
    return stall_ns;
}

static void check_counts(void)
{
    CHECK(bench.edge_count > 0);
    for (size_t i = 0; i < bench.edge_count; i++) {
        const struct muster_edge_report *edge = &bench.edges[i];
        if (edge->records != edge->expected_records || edge->waits != edge->expected_waits)
            test_fail(__FILE__, __LINE__,
                      "%s -> %s: %llu records and %llu waits, not %llu and %llu", edge->from,
                      edge->to, (unsigned long long)edge->records, (unsigned long long)edge->waits,
                      (unsigned long long)edge->expected_records,
                      (unsigned long long)edge->expected_waits);
        CHECK(edge->expected_records > 0 && !edge->is_dead);
        /* The first units of each lane have nobody before them. */
        CHECK(edge->expected_records - edge->expected_waits <=
              edge->distance * bench.report.device_count);
    }
}

/* A stage behind a slow one stands still; those before it have slots enough to go on. */
static void a_stall_goes_to_the_edge_that_caused_it(void)
{
    const uint64_t slept_ns = UNITS * SLEEP_NS;
    uint64_t stall_ns = 0, others_ns = 0;
    open_bench("cpu", NULL);
    make_three(pass_on_slowly, 8, 8);
    /* On a busy machine others take their time, too. */
    for (int tries = 0; tries < 5; tries++) {
        run_bench(ITEMS, 0, 1);
        stall_ns = stall_of("work", "down", &others_ns);
        CHECK(stall_ns >= slept_ns / 2);
        if (stall_ns <= 2 * slept_ns && others_ns < slept_ns / 4)
            break;
    }
    CHECK(stall_ns <= 2 * slept_ns);
    CHECK(others_ns < slept_ns / 4);
    close_bench();
}

/* With one slot the stage before the slow one has to wait for it as well. */
static void a_full_buffer_holds_up_who_fills_it(void)
{
    uint64_t others_ns;
    open_bench("cpu", NULL);
    make_three(pass_on_slowly, 1, 8);
    run_bench(ITEMS, 0, 1);
    CHECK(stall_of("work", "up", &others_ns) >= (UNITS - 1) * SLEEP_NS / 2);
    CHECK(stall_of("work", "down", &others_ns) >= SLEEP_NS / 2);
    close_bench();
}

static int64_t supply_late(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    uint64_t count = items < UNIT ? items : UNIT;
    (void)user, (void)bytes;
    sleep_ns(SLEEP_NS);
    if (begin == ITEMS)
        return 0;
    memcpy(to, bench.in + begin, count * sizeof *bench.in);
    return (int64_t)count;
}

/* A stream that has nothing to do is not held up. */
static void a_slow_source_is_no_stall(void)
{
    uint64_t others_ns = UINT64_MAX;
    open_bench("cpu", NULL);
    make_three(pass_on, 2, 2);
    for (int tries = 0; tries < 5 && others_ns >= UNITS * SLEEP_NS / 4; tries++) {
        struct muster_job *job =
            start(bench.m, &(struct muster_job_desc){ .size = sizeof(struct muster_job_desc),
                                                      .items = ITEMS,
                                                      .pipeline = bench.pipeline,
                                                      .source = supply_late,
                                                      .output = bench.out,
                                                      .options = &(struct muster_run_options){
                                                          .size = sizeof(struct muster_run_options),
                                                          .unit_items = UNIT,
                                                          .account = 1 } });
        MUST(muster_job_wait(job, NULL, &problem));
        read_edges(job);
        muster_job_destroy(job);
        stall_of("", "", &others_ns);
    }
    CHECK(others_ns < UNITS * SLEEP_NS / 4);
    close_bench();
}

static void stalls_are_not_measured_unasked(void)
{
    uint64_t others_ns;
    open_bench("cpu", NULL);
    make_three(pass_on_slowly, 2, 2);
    MUST(muster_trace_start(bench.m, NULL, &problem));
    run_bench(ITEMS, 0, 0);
    struct text text = { NULL, 0 };
    MUST(muster_trace_write(bench.m, keep_text, &text, &problem));
    struct shown_trace trace = read_trace(&text);
    CHECK_EQUAL(0, stall_of("work", "down", &others_ns) + others_ns);
    CHECK_EQUAL(0, count_kind(&trace, "stage") + count_kind(&trace, "stall"));
    CHECK_EQUAL(UNITS, count_kind(&trace, "unit"));
    check_counts();
    free(trace.events);
    free(text.bytes);
    close_bench();
}

/* What spans of a kind and name there are in the trace. */
struct sum {
    const char *kind, *name;
    uint64_t count, ns, least_ns;
};

static struct sum sum_spans(const struct shown_trace *trace, const char *kind, const char *name)
{
    struct sum sum = { kind, name, 0, 0, UINT64_MAX };
    for (size_t i = 0; i < trace->count; i++) {
        const struct shown *shown = &trace->events[i];
        if (!is_kind(shown, kind) || strcmp(shown->name, name) != 0)
            continue;
        CHECK(shown->pid == 4 && shown->job == 1 && shown->end - shown->first == UNIT);
        sum.count++;
        sum.ns += shown->length_ns;
        sum.least_ns = shown->length_ns < sum.least_ns ? shown->length_ns : sum.least_ns;
    }
    return sum;
}

/* Each unit's stages lie in the time of the unit. */
static void check_stages_in_units(const struct shown_trace *trace)
{
    for (size_t i = 0; i < trace->count; i++) {
        const struct shown *stage = &trace->events[i];
        size_t found = 0;
        for (size_t k = 0; is_kind(stage, "stage") && k < trace->count; k++) {
            const struct shown *unit = &trace->events[k];
            found += is_kind(unit, "unit") && unit->first == stage->first &&
                     unit->begin_ns <= stage->begin_ns &&
                     unit->begin_ns + unit->length_ns >= stage->begin_ns + stage->length_ns;
        }
        CHECK(!is_kind(stage, "stage") || found == 1);
    }
}

static struct shown_trace trace_bench(void)
{
    MUST(muster_trace_start(bench.m, NULL, &problem));
    run_bench(ITEMS, 0, 1);
    struct text text = { NULL, 0 };
    MUST(muster_trace_write(bench.m, keep_text, &text, &problem));
    struct shown_trace trace = read_trace(&text);
    free(text.bytes);
    check_tracks(&trace);
    check_stages_in_units(&trace);
    return trace;
}

static void stages_and_stalls_are_in_the_trace(void)
{
    static const char *const stages[] = { "up", "work", "down" };
    uint64_t others_ns;
    open_bench("cpu", NULL);
    make_three(pass_on_slowly, 8, 8);
    struct shown_trace trace = trace_bench();
    for (size_t i = 0; i < COUNT_OF(stages); i++)
        CHECK_EQUAL(UNITS, sum_spans(&trace, "stage", stages[i]).count);
    CHECK(sum_spans(&trace, "stage", "work").least_ns >= SLEEP_NS);
    struct sum stalls = sum_spans(&trace, "stall", "work -> down, d_out");
    uint64_t stall_ns = stall_of("work", "down", &others_ns);
    /* But for those that are too short to be shown. */
    CHECK(stalls.count > 0 && stalls.ns <= stall_ns && stall_ns - stalls.ns < UNITS * 5000);
    size_t named = 0;
    for (size_t i = 0; i < trace.count; i++)
        named += strcmp(trace.events[i].name, "thread_name") == 0 &&
                 strncmp(trace.events[i].label, "cpu:0 stream ", 13) == 0;
    CHECK_EQUAL(3, named);
    free(trace.events);
    close_bench();
}

static void host_stages_are_in_the_trace(void)
{
    uint64_t others_ns;
    open_bench("cpu", NULL);
    make_with_host(true);
    struct shown_trace trace = trace_bench();
    struct sum thoughts = sum_spans(&trace, "stage", "think");
    CHECK_EQUAL(UNITS, thoughts.count);
    CHECK(thoughts.least_ns >= SLEEP_NS);
    CHECK_EQUAL(UNITS, sum_spans(&trace, "stage", "again").count);
    check_counts();
    /* Whatever the schedule, somebody waits for who thinks. */
    stall_of("", "", &others_ns);
    CHECK(others_ns >= SLEEP_NS / 2 && count_kind(&trace, "stall") > 0);
    free(trace.events);
    close_bench();
}

#define SIM_TWO "[{\"count\": 2, \"items_per_s\": 1e7, \"launch_ns\": 2000}]"

static void edges_are_kept_as_often_as_planned(void)
{
    static const char *const devices[] = { "cpu", "sim" };
    for (size_t i = 0; i < COUNT_OF(devices); i++)
        for (uint32_t depth = 0; depth < 4; depth++)
            for (int has_host = 0; has_host < 2; has_host++) {
                open_bench(devices[i], SIM_TWO);
                if (has_host)
                    make_with_host(false);
                else
                    make_three(pass_on, 2, 3);
                run_bench(32 * ITEMS, depth, 1);
                check_counts();
                close_bench();
            }
}

/* Units that are not wanted any more still wait and record. */
static void a_cancelled_job_keeps_its_edges(void)
{
    open_bench("cpu", NULL);
    make_three(pass_on_slowly, 2, 2);
    struct muster_job *job = start_bench(32 * ITEMS, 0, 1);
    sleep_ns(2 * SLEEP_NS);
    muster_job_cancel(job);
    CHECK_STATUS(MUSTER_E_CANCELLED, muster_job_wait(job, NULL, &problem));
    read_edges(job);
    for (size_t i = 0; i < bench.edge_count; i++) {
        CHECK_EQUAL(bench.edges[i].expected_records, bench.edges[i].records);
        CHECK_EQUAL(bench.edges[i].expected_waits, bench.edges[i].waits);
    }
    muster_job_destroy(job);
    close_bench();
}

static muster_status launch_twice(struct muster_unit *unit, void *user)
{
    uint64_t begin, end;
    const struct muster_unit_arg args[] = { MUSTER_VIEW(D_IN), MUSTER_VIEW(D_OUT) };
    muster_unit_range(unit, &begin, &end);
    for (int i = 0; i < 2; i++)
        MUST(muster_unit_launch(unit, user, end - begin, args, COUNT_OF(args), &problem));
    return MUSTER_OK;
}

static void make_twice(void)
{
    struct muster_kernel *kernel = kernel_of(bench.m, pass_on);
    const struct muster_buffer buffers[] = {
        [IN] = { sizeof *buffers, "in", MUSTER_HOST, 8, 0, 2, MUSTER_INPUT },
        [D_IN] = { sizeof *buffers, "d_in", MUSTER_DEVICE, 8, 0, 2, 0 },
        [D_OUT] = { sizeof *buffers, "d_out", MUSTER_DEVICE, 8, 0, 2, 0 },
        [OUT] = { sizeof *buffers, "out", MUSTER_HOST, 8, 0, 2, MUSTER_OUTPUT },
    };
    const struct muster_stage stages[] = {
        { sizeof *stages, "up", "a", .reads = BIT(IN), .writes = BIT(D_IN), .flags = MUSTER_COPY },
        { sizeof *stages, "twice", "b", .reads = BIT(D_IN), .writes = BIT(D_OUT),
          .run = launch_twice, .user = kernel, .kernel = kernel },
        { sizeof *stages, "down", "a", .reads = BIT(D_OUT), .writes = BIT(OUT),
          .flags = MUSTER_COPY },
    };
    MUST(muster_pipeline_create(bench.m, buffers, COUNT_OF(buffers), stages, COUNT_OF(stages), NULL,
                                &bench.pipeline, &problem));
}

static void figures_and_totals_see_pipelines(void)
{
    struct muster_counters counters = { .size = sizeof counters };
    open_bench("sim", "[{\"items_per_s\": 1e7}]");
    make_twice();
    run_bench(ITEMS, 0, 0);
    MUST(muster_counters(bench.m, &counters, &problem));
    struct muster_device_load load = load_of(bench.m, find(bench.m, "sim:0"));
    CHECK_EQUAL(UNITS, bench.report.units);
    CHECK_EQUAL(UNITS, load.dispatched);
    CHECK_EQUAL(UNITS, load.completed);
    CHECK_EQUAL(0, load.queue_depth + load.failed);
    CHECK(load.items_per_s > 0);
    CHECK_EQUAL(2 * UNITS, counters.launches);
    CHECK_EQUAL(2 * UNITS, counters.launches_done);
    CHECK_EQUAL(0, counters.launches_failed);
    CHECK_EQUAL(8 * ITEMS, counters.bytes_in);
    CHECK_EQUAL(8 * ITEMS, counters.bytes_out);
    CHECK_EQUAL(8 * ITEMS, counters.bytes_delivered);
    close_bench();
}

static muster_status refuse(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end, (void)args;
    return MUSTER_E_INVALID;
}

static void failed_units_are_counted_as_such(void)
{
    struct muster_counters counters = { .size = sizeof counters };
    open_bench("cpu", NULL);
    make_three(refuse, 2, 2);
    struct muster_job *job = start_bench(ITEMS, 0, 1);
    CHECK(muster_job_wait(job, NULL, &problem) < 0);
    muster_job_destroy(job);
    MUST(muster_counters(bench.m, &counters, &problem));
    struct muster_device_load load = load_of(bench.m, find(bench.m, "cpu:0"));
    CHECK(load.failed > 0);
    CHECK_EQUAL(0, load.completed + load.queue_depth);
    CHECK_EQUAL(load.dispatched, load.failed);
    CHECK(counters.launches_failed > 0);
    CHECK_EQUAL(counters.launches, counters.launches_done + counters.launches_failed);
    close_bench();
}

static void copies_that_nothing_hides_are_transfer(void)
{
    struct muster_report *report = &bench.report;
    /* A unit: 2 ms of kernel, 2 ms in, 2 ms out. */
    char sim[128];
    double times = (double)test_patience(1);
    snprintf(sim, sizeof sim,
             "[{\"items_per_s\": %g, \"h2d_bytes_per_s\": %g, \"d2h_bytes_per_s\": %g}]",
             3.2e4 / times, 2.56e5 / times, 2.56e5 / times);
    open_bench("sim", sim);
    make_three(pass_on, 2, 2);
    for (int tries = 0; tries < 5; tries++) {
        run_bench(ITEMS, 1, 1);
        uint64_t sum = report->bound_ns + report->startup_ns + report->transfer_ns +
                       report->overhead_ns + report->starved_ns + report->tail_ns;
        CHECK(sum <= report->makespan_ns + 10 && sum + 10 >= report->makespan_ns);
        CHECK(report->bound_ns >= test_patience(UNITS * 19 * MS / 10));
        if (report->transfer_ns >= report->makespan_ns / 2)
            break;
    }
    CHECK(report->transfer_ns >= report->makespan_ns / 2);
    run_bench(ITEMS, 1, 0);
    CHECK_EQUAL(0, report->transfer_ns);
    close_bench();
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_stall_goes_to_the_edge_that_caused_it),
        TEST(a_full_buffer_holds_up_who_fills_it),
        TEST(a_slow_source_is_no_stall),
        TEST(stalls_are_not_measured_unasked),
        TEST(stages_and_stalls_are_in_the_trace),
        TEST(host_stages_are_in_the_trace),
        TEST(edges_are_kept_as_often_as_planned),
        TEST(a_cancelled_job_keeps_its_edges),
        TEST(figures_and_totals_see_pipelines),
        TEST(failed_units_are_counted_as_such),
        TEST(copies_that_nothing_hides_are_transfer),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
