/*
 * The second job of a runtime: what the first has taken from the system and from the driver is there,
 * and what the first has left in it is not seen. On the CUDA driver of the tests, which counts calls.
 */
#include "driver/control.h"
#include "jobs_support.h"
#include "run/threads/crew.h"

#include <dlfcn.h>

#define ITEMS 4096u
#define UNIT 256u

static _Atomic unsigned threads_started;
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    threads_started++;
    return __real_pthread_create(thread, attributes, run, argument);
}

static const struct test_cuda *control;

static struct muster *open_cuda(struct counting *counting)
{
    const struct test_cuda *(*get)(void);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(driver != NULL);
    *(void **)&get = dlsym(driver, TEST_CUDA_CONTROL);
    CHECK(get != NULL);
    control = get();
    control->reset();
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "cuda:0,cpu";
    options.cpu_workers = 2;
    options.allocator = counting_allocator(counting);
    return open_with(options);
}

static void close_cuda(struct muster *m, struct counting *counting)
{
    struct test_cuda_objects left;
    MUST(muster_close(m, &problem));
    control->count(&left);
    CHECK_EQUAL(0, left.registrations);
    CHECK_EQUAL(0, left.allocations);
    CHECK_EQUAL(0, left.streams);
    CHECK_EQUAL(0, left.events);
    CHECK_EQUAL(0, counting->bytes);
}

/* What a job has taken that takes long to get. */
struct taken {
    uint64_t registrations, allocations, streams, events, threads;
};

static struct taken count_taken(void)
{
    return (struct taken){ .registrations = control->calls("cuMemHostRegister_v2"),
                           .allocations = control->calls("cuMemAllocFromPoolAsync") +
                                          control->calls("cuMemAlloc_v2") +
                                          control->calls("cuMemHostAlloc"),
                           .streams = control->calls("cuStreamCreateWithPriority"),
                           .events = control->calls("cuEventCreate"),
                           .threads = threads_started };
}

static void check_nothing_taken(struct taken before)
{
    struct taken now = count_taken();
    CHECK_EQUAL(before.registrations, now.registrations);
    CHECK_EQUAL(before.allocations, now.allocations);
    CHECK_EQUAL(before.streams, now.streams);
    CHECK_EQUAL(before.events, now.events);
    CHECK_EQUAL(before.threads, now.threads);
}

/* Up, down again, and a host stage that adds each item to the sum of those before. */
enum { IN, D, BACK, SUM, OUT, BUFFERS };

static muster_status add_up(struct muster_unit *unit, void *user)
{
    (void)user;
    struct muster_view back = { .size = sizeof back }, sum = { .size = sizeof sum },
                       out = { .size = sizeof out };
    uint64_t begin, end;
    muster_unit_range(unit, &begin, &end);
    if (muster_unit_view(unit, BACK, &back, NULL) || muster_unit_view(unit, SUM, &sum, NULL) ||
        muster_unit_view(unit, OUT, &out, NULL))
        return MUSTER_E_INVALID;
    for (uint64_t i = 0; i < end - begin; i++)
        ((uint64_t *)out.host)[i] = *(uint64_t *)sum.host += ((const uint64_t *)back.host)[i];
    return MUSTER_OK;
}

static struct muster_pipeline *make_pipeline(struct muster *m)
{
    const struct muster_buffer buffers[BUFFERS] = {
        [IN] = { .size = sizeof *buffers, .name = "in", .place = MUSTER_HOST, .bytes_per_item = 8 },
        [D] = { .size = sizeof *buffers, .name = "d", .place = MUSTER_DEVICE, .bytes_per_item = 8 },
        [BACK] = { .size = sizeof *buffers,
                   .name = "back",
                   .place = MUSTER_HOST,
                   .bytes_per_item = 8 },
        [SUM] = { .size = sizeof *buffers,
                  .name = "sum",
                  .place = MUSTER_HOST,
                  .bytes_fixed = 8,
                  .slots = 1,
                  .flags = MUSTER_CARRIED },
        [OUT] = { .size = sizeof *buffers,
                  .name = "out",
                  .place = MUSTER_HOST,
                  .bytes_per_item = 8 },
    };
    const struct muster_stage stages[] = {
        { .size = sizeof *stages,
          .name = "up",
          .stream = "h2d",
          .reads = 1 << IN,
          .writes = 1 << D,
          .flags = MUSTER_COPY },
        { .size = sizeof *stages,
          .name = "down",
          .stream = "d2h",
          .reads = 1 << D,
          .writes = 1 << BACK,
          .flags = MUSTER_COPY },
        { .size = sizeof *stages,
          .name = "add",
          .stream = "host",
          .reads = 1 << BACK | 1 << SUM,
          .writes = 1 << SUM | 1 << OUT,
          .run = add_up },
    };
    struct muster_pipeline *pipeline = NULL;
    MUST(muster_pipeline_create(m, buffers, BUFFERS, stages, COUNT_OF(stages), NULL, &pipeline,
                                &problem));
    return pipeline;
}

static int64_t give(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    (void)bytes;
    memcpy(to, (const uint64_t *)user + begin, items * 8);
    return (int64_t)items;
}

/* From an array of plain memory, or from a source. */
static void run_sums(struct muster *m, struct muster_pipeline *pipeline, bool has_source)
{
    static uint64_t in[ITEMS], out[ITEMS];
    for (uint64_t i = 0; i < ITEMS; i++)
        in[i] = i * 3 + 1;
    memset(out, 0xee, sizeof out);
    const struct muster_run_options how = { .size = sizeof how,
                                            .devices = "cuda:0",
                                            .unit_items = UNIT };
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .pipeline = pipeline,
                                    .items = ITEMS,
                                    .input = has_source ? NULL : in,
                                    .output = out,
                                    .source = has_source ? give : NULL,
                                    .source_user = in,
                                    .options = &how };
    struct muster_job *job;
    MUST(muster_start(m, &desc, &job, &problem));
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    for (uint64_t i = 0, sum = 0; i < ITEMS; i++)
        CHECK_EQUAL(sum += in[i], out[i]);
}

static void wait_parked(struct muster *m, uint32_t least)
{
    while (crew_parked(m) < least)
        sched_yield();
}

/* The sums begin at nought again: what is carried is zeros though its pages are old. */
static void a_pipelines_second_job_takes_nothing_new(void)
{
    for (int has_source = 0; has_source < 2; has_source++) {
        struct counting counting = COUNTING_INIT;
        struct muster *m = open_cuda(&counting);
        struct muster_pipeline *pipeline = make_pipeline(m);
        run_sums(m, pipeline, has_source);
        CHECK(count_taken().registrations > 0);
        for (unsigned i = 0; i < 3; i++) {
            /* A lane, the conductor, four workers; the source. */
            wait_parked(m, 6 + (unsigned)has_source);
            struct taken before = count_taken();
            run_sums(m, pipeline, has_source);
            check_nothing_taken(before);
        }
        /* Until it is told to give all back. */
        wait_parked(m, 6 + (unsigned)has_source);
        muster_trim(m);
        struct test_cuda_objects now;
        control->count(&now);
        CHECK_EQUAL(0, now.registrations);
        CHECK_EQUAL(0, crew_parked(m));
        run_sums(m, pipeline, has_source);
        close_cuda(m, &counting);
    }
}

/* The kernel's job copies too, to and from its own buffers. */
static void a_kernels_second_job_takes_nothing_new(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = SIM_PLAIN;
    options.devices = "sim";
    options.allocator = counting_allocator(&counting);
    struct muster *m = open_with(options);
    struct muster_kernel *kernel = kernel_of(m, compute);
    uint64_t kept = 0;
    for (unsigned i = 0; i < 4; i++) {
        struct account account;
        account_init(&account, ITEMS);
        unsigned before = threads_started;
        const struct muster_run_options how = { .size = sizeof how, .unit_items = UNIT };
        struct muster_job_desc desc = account_desc(&account, kernel);
        desc.options = &how;
        struct muster_job *job = start(m, &desc);
        MUST(muster_job_wait(job, NULL, &problem));
        muster_job_destroy(job);
        check_account(&account, ITEMS);
        account_deinit(&account);
        /* Two lanes and the conductor. */
        wait_parked(m, 3);
        CHECK(i == 0 || threads_started == before);
        CHECK(i == 0 || m->pages_bytes == kept);
        CHECK_EQUAL(0, load_of(m, find(m, "sim:0")).memory_used);
        kept = m->pages_bytes;
        CHECK(kept > 0);
    }
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, counting.bytes);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_pipelines_second_job_takes_nothing_new),
        TEST(a_kernels_second_job_takes_nothing_new),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
