/*
 * Arguments in device memory that the caller has already, of jobs and of tasks: used where they are,
 * on that device alone, and ordered with what else is done to the block.
 */
#include "support.h"

#include <sched.h>

#define SIM "[{\"items_per_s\":1e9,\"h2d_bytes_per_s\":1e9,\"d2h_bytes_per_s\":1e9,\"count\":2}]"
#define ITEMS 5000u

static const char *const devices[] = { "cpu:0", "sim:1" };
static uint32_t host[ITEMS], back[ITEMS];

static struct muster *open_mixed(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "cpu,sim";
    options.sim = SIM;
    options.cpu_workers = 2;
    for (uint32_t i = 0; i < ITEMS; i++) {
        host[i] = i * 7;
        back[i] = 0;
    }
    return open_with(options);
}

/* out[i] = 3 * in[i] + 1, and adds to what is updated. */
static muster_status triple(uint64_t begin, uint64_t end, void *const *args)
{
    const uint32_t *in = *(void *const *)args[0];
    uint32_t *out = *(void *const *)args[1], *sum = *(void *const *)args[2];
    for (uint64_t i = begin; i < end; i++) {
        out[i] = 3 * in[i] + 1;
        sum[i] += in[i];
    }
    return MUSTER_OK;
}

struct blocks {
    muster_stream stream;
    muster_block in, out, sum;
};

static struct blocks make_blocks(struct muster *m, const char *id)
{
    struct blocks b = { .stream = acquire(m, find(m, id)) };
    b.in = allocate(m, b.stream, sizeof host);
    b.out = allocate(m, b.stream, 2 * sizeof host);
    b.sum = allocate(m, b.stream, sizeof host);
    MUST(muster_copy_in(m, b.stream, b.in, 0, host, sizeof host, &problem));
    MUST(muster_fill(m, b.stream, b.out, 0, 0xee, 2 * sizeof host, &problem));
    MUST(muster_fill(m, b.stream, b.sum, 0, 0, sizeof host, &problem));
    return b;
}

/* Nothing waits for the work that was given before: the blocks know of it. */
static void read_back(struct muster *m, const struct blocks *b, muster_block from, uint64_t offset)
{
    MUST(muster_copy_out(m, b->stream, back, from, offset, sizeof back, &problem));
    MUST(muster_stream_wait(m, b->stream, 60 * SECOND, &problem));
}

static void check_blocks(struct muster *m, const struct blocks *b, uint64_t offset, uint32_t times)
{
    read_back(m, b, b->out, offset);
    for (uint32_t i = 0; i < ITEMS; i++)
        CHECK_EQUAL(3 * host[i] + 1, back[i]);
    read_back(m, b, b->sum, 0);
    for (uint32_t i = 0; i < ITEMS; i++)
        CHECK_EQUAL(times * host[i], back[i]);
}

static void a_job_works_where_its_arguments_are(void)
{
    struct muster *m = open_mixed();
    struct muster_kernel *kernel = kernel_of(m, triple);
    for (size_t d = 0; d < COUNT_OF(devices); d++)
        for (uint64_t unit = 0; unit < 400; unit += 97) {
            struct blocks b = make_blocks(m, devices[d]);
            struct muster_arg args[] = { MUSTER_DEVICE_IN(b.in, uint32_t),
                                         MUSTER_DEVICE_OUT(b.out, uint32_t),
                                         MUSTER_DEVICE_INOUT(b.sum, uint32_t) };
            const struct muster_run_options how = { .size = sizeof how, .unit_items = unit };
            struct muster_report report = full_report();
            args[1].offset = sizeof host / 2;
            MUST(muster_for(m, kernel, ITEMS, args, 3, &how, &report, &problem));
            CHECK_EQUAL(1, report.device_count);
            CHECK_TEXT(devices[d], report.devices[0].id);
            check_blocks(m, &b, args[1].offset, 1);
            /* Beside it nothing was written. */
            read_back(m, &b, b.out, 0);
            CHECK_EQUAL(0xeeeeeeee, back[ITEMS / 2 - 1]);
        }
    MUST(muster_close(m, &problem));
}

/* Beside arrays of the host, which are copied, and with a sink, which gets what those get. */
static muster_status see(void *user, const struct muster_result *result)
{
    _Atomic uint64_t *seen = user;
    if (result->size != sizeof *result || result->output_count != 1)
        return MUSTER_E_FAILED;
    atomic_fetch_add(seen, result->range.end - result->range.begin);
    return MUSTER_OK;
}

static void both_kinds_go_together(void)
{
    struct muster *m = open_mixed();
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        struct blocks b = make_blocks(m, devices[d]);
        static uint32_t out[ITEMS];
        _Atomic uint64_t seen = 0;
        memset(out, 0, sizeof out);
        const struct muster_arg args[] = { MUSTER_DEVICE_IN(b.in, uint32_t), MUSTER_OUT(out),
                                           MUSTER_DEVICE_INOUT(b.sum, uint32_t) };
        const struct muster_job_desc desc = { .size = sizeof desc,
                                              .kernel = kernel_of(m, triple),
                                              .items = ITEMS,
                                              .args = args,
                                              .arg_count = 3,
                                              .sink = see,
                                              .sink_user = &seen };
        struct muster_job *job;
        MUST(muster_start(m, &desc, &job, &problem));
        MUST(muster_job_wait(job, NULL, &problem));
        muster_job_destroy(job);
        CHECK_EQUAL(ITEMS, atomic_load(&seen));
        for (uint32_t i = 0; i < ITEMS; i++)
            CHECK_EQUAL(3 * host[i] + 1, out[i]);
        /* A task, the same way. */
        memset(out, 0, sizeof out);
        const struct muster_task_desc task = {
            .size = sizeof task, .kernel = desc.kernel, .args = args, .arg_count = 3, .items = ITEMS
        };
        MUST(muster_submit(m, &task, 1, NULL, &problem));
        MUST(muster_wait(m, NULL, 0, 250 * SECOND, &problem));
        for (uint32_t i = 0; i < ITEMS; i++)
            CHECK_EQUAL(3 * host[i] + 1, out[i]);
        read_back(m, &b, b.sum, 0);
        for (uint32_t i = 0; i < ITEMS; i++)
            CHECK_EQUAL(2 * host[i], back[i]);
    }
    MUST(muster_close(m, &problem));
}

/* Tasks that nobody put in order use one block: none is lost, also in one call. */
static void tasks_work_where_their_arguments_are(void)
{
    enum { CALLS = 8, EACH = 16 };
    struct muster *m = open_mixed();
    struct muster_kernel *kernel = kernel_of(m, triple);
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        struct blocks b = make_blocks(m, devices[d]);
        const struct muster_arg args[] = { MUSTER_DEVICE_IN(b.in, uint32_t),
                                           MUSTER_DEVICE_OUT(b.out, uint32_t),
                                           MUSTER_DEVICE_INOUT(b.sum, uint32_t) };
        struct muster_task_desc descs[EACH];
        for (size_t i = 0; i < EACH; i++)
            descs[i] = (struct muster_task_desc){ .size = sizeof *descs,
                                                  .kernel = kernel,
                                                  .args = args,
                                                  .arg_count = 3,
                                                  .items = ITEMS };
        for (int i = 0; i < CALLS; i++)
            MUST(muster_submit(m, descs, EACH, NULL, &problem));
        MUST(muster_wait(m, NULL, 0, 250 * SECOND, &problem));
        check_blocks(m, &b, 0, CALLS * EACH);
        CHECK_EQUAL(CALLS * EACH, load_of(m, find(m, devices[d])).completed);
    }
    MUST(muster_close(m, &problem));
}

/*
 * Adds one to each item, and now and then lets others have their turn between reading and writing: not
 * each time, since on a busy machine a turn of all the others takes long.
 */
static muster_status add_one(uint64_t begin, uint64_t end, void *const *args)
{
    static _Atomic unsigned runs;
    uint32_t *sum = *(void *const *)args[0];
    bool gives_way = atomic_fetch_add(&runs, 1) % 16 == 0;
    for (uint64_t i = begin; i < end; i++) {
        uint32_t was = sum[i];
        if (gives_way && i == begin)
            sched_yield();
        sum[i] = was + 1;
    }
    return MUSTER_OK;
}

static void tasks_of_one_call_update_one_after_the_other(void)
{
    enum { CALLS = 20, EACH = 64, FEW = 4 };
    struct muster *m = open_mixed();
    struct muster_kernel *kernel = kernel_of(m, add_one);
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        struct blocks b = make_blocks(m, devices[d]);
        const struct muster_arg args[] = { MUSTER_DEVICE_INOUT(b.sum, uint32_t) };
        struct muster_task_desc descs[EACH];
        for (size_t i = 0; i < EACH; i++)
            descs[i] = (struct muster_task_desc){
                .size = sizeof *descs, .kernel = kernel, .args = args, .arg_count = 1, .items = FEW
            };
        for (int i = 0; i < CALLS; i++)
            MUST(muster_submit(m, descs, EACH, NULL, &problem));
        MUST(muster_wait(m, NULL, 0, 250 * SECOND, &problem));
        read_back(m, &b, b.sum, 0);
        for (uint32_t i = 0; i < FEW; i++)
            CHECK_EQUAL(CALLS * EACH, back[i]);
    }
    MUST(muster_close(m, &problem));
}

/* The caller's own work on the block, before and after, on another stream. */
static struct door held;

static muster_status hold_and_triple(uint64_t begin, uint64_t end, void *const *args)
{
    door_pass(&held);
    return triple(begin, end, args);
}

static void uses_of_a_block_are_ordered(void)
{
    struct muster *m = open_mixed();
    struct muster_kernel *kernel = kernel_of(m, hold_and_triple), *quick = kernel_of(m, triple);
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        struct blocks b = make_blocks(m, devices[d]);
        const struct muster_operand before[] = { MUSTER_BLOCK_READ(b.in), MUSTER_BLOCK_WRITE(b.out),
                                                 MUSTER_BLOCK_UPDATE(b.sum) };
        const struct muster_arg args[] = { MUSTER_DEVICE_IN(b.out, uint32_t),
                                           MUSTER_DEVICE_OUT(b.in, uint32_t),
                                           MUSTER_DEVICE_INOUT(b.sum, uint32_t) };
        held = (struct door)DOOR_INIT;
        MUST(muster_launch(m, b.stream, kernel, 0, ITEMS, before, 3, NULL, &problem));
        const struct muster_job_desc desc = {
            .size = sizeof desc, .kernel = quick, .items = ITEMS, .args = args, .arg_count = 3
        };
        struct muster_job *job;
        MUST(muster_start(m, &desc, &job, &problem));
        /* It stands at the blocks, which the launch has. */
        CHECK_STATUS(MUSTER_E_TIMEOUT, muster_job_wait_for(job, 20 * MS, NULL, &problem));
        door_open(&held);
        MUST(muster_job_wait(job, NULL, &problem));
        muster_job_destroy(job);
        read_back(m, &b, b.in, 0);
        for (uint32_t i = 0; i < ITEMS; i++)
            CHECK_EQUAL(3 * (3 * host[i] + 1) + 1, back[i]);
        read_back(m, &b, b.sum, 0);
        for (uint32_t i = 0; i < ITEMS; i++)
            CHECK_EQUAL(host[i] + 3 * host[i] + 1, back[i]);
    }
    MUST(muster_close(m, &problem));
}

static void refuse(struct muster *m, muster_status expected, const struct muster_arg *args,
                   const char *ids, const char *part)
{
    const struct muster_run_options how = { .size = sizeof how, .devices = ids };
    const struct muster_hints hints = { .size = sizeof hints, .devices = ids };
    const struct muster_task_desc task = { .size = sizeof task,
                                           .kernel = kernel_of(m, triple),
                                           .args = args,
                                           .arg_count = 3,
                                           .items = ITEMS,
                                           .hints = ids ? &hints : NULL };
    CHECK_STATUS(expected, muster_for(m, task.kernel, ITEMS, args, 3, &how, NULL, &problem));
    CHECK_CONTAINS(part, problem.text);
    CHECK_STATUS(expected, muster_submit(m, &task, 1, NULL, &problem));
    CHECK_CONTAINS(part, problem.text);
}

static void mistakes_are_refused(void)
{
    struct muster *m = open_mixed();
    struct blocks b = make_blocks(m, "sim:0"), other = make_blocks(m, "sim:1");
    const struct muster_arg right[] = { MUSTER_DEVICE_IN(b.in, uint32_t),
                                        MUSTER_DEVICE_OUT(b.out, uint32_t),
                                        MUSTER_DEVICE_INOUT(b.sum, uint32_t) };
    struct muster_arg args[3];
#define WITH(field, value) (memcpy(args, right, sizeof args), (void)(args[1].field = (value)), args)
    refuse(m, MUSTER_E_INVALID, WITH(bytes, 0), NULL, "size");
    refuse(m, MUSTER_E_INVALID, WITH(bytes, 9), NULL, "not in a block of");
    refuse(m, MUSTER_E_INVALID, WITH(bytes, SIZE_MAX / ITEMS), NULL, "not in a block of");
    refuse(m, MUSTER_E_INVALID, WITH(offset, sizeof host + 1), NULL, "not in a block of");
    refuse(m, MUSTER_E_INVALID, WITH(offset, UINT64_MAX - 3), NULL, "not in a block of");
    refuse(m, MUSTER_E_INVALID, WITH(block, other.out), NULL, "sim:0 and of sim:1");
    refuse(m, MUSTER_E_UNKNOWN, WITH(block, ((muster_block){ 999, 1 })), NULL, "block");
    refuse(m, MUSTER_E_NO_DEVICE, right, "cpu:0,sim:1", "memory of sim:0");
    muster_block gone = allocate(m, b.stream, sizeof host);
    MUST(muster_block_free(m, b.stream, gone, &problem));
    refuse(m, MUSTER_E_STALE, WITH(block, gone), NULL, "block");
    /* A resident copy is read, and not written. */
    muster_data data;
    muster_block resident;
    MUST(muster_data_create(m, host, sizeof host, 0, &data, &problem));
    MUST(muster_data_resident(m, data, b.stream, &resident, &problem));
    refuse(m, MUSTER_E_INVALID, WITH(block, resident), NULL, "only for reading");
    /* A second run would add once more. */
    static muster_status each[ITEMS];
    CHECK_STATUS(MUSTER_E_INVALID, muster_for_each_status(m, kernel_of(m, triple), ITEMS, right, 3,
                                                          each, NULL, NULL, &problem));
    MUST(muster_close(m, &problem));
}

/* A unit that fails is run again where that is the same as once, and else not. */
static _Atomic int failures_left;

static muster_status fail_some(uint64_t begin, uint64_t end, void *const *args)
{
    muster_status status = triple(begin, end, args);
    return atomic_fetch_sub(&failures_left, 1) > 0 ? MUSTER_E_FAILED : status;
}

static void what_is_updated_is_run_once(void)
{
    struct muster *m = open_mixed();
    struct muster_kernel *kernel = kernel_of(m, fail_some);
    struct blocks b = make_blocks(m, "cpu:0");
    static uint32_t sum[ITEMS];
    const struct muster_arg once[] = { MUSTER_DEVICE_IN(b.in, uint32_t),
                                       MUSTER_DEVICE_OUT(b.out, uint32_t),
                                       MUSTER_DEVICE_INOUT(b.sum, uint32_t) };
    const struct muster_arg again[] = { MUSTER_DEVICE_IN(b.in, uint32_t),
                                        MUSTER_DEVICE_OUT(b.out, uint32_t), MUSTER_OUT(sum) };
    const struct muster_run_options how = { .size = sizeof how, .unit_items = 100, .depth = 1 };
    struct muster_report report = { .size = sizeof report };
    atomic_store(&failures_left, 1);
    CHECK_STATUS(MUSTER_E_FAILED, muster_for(m, kernel, ITEMS, once, 3, &how, &report, &problem));
    CHECK_EQUAL(0, report.retries);
    struct muster_task_desc task = {
        .size = sizeof task, .kernel = kernel, .args = once, .arg_count = 3, .items = 100
    };
    muster_task handle;
    atomic_store(&failures_left, 1);
    MUST(muster_submit(m, &task, 1, &handle, &problem));
    CHECK_STATUS(MUSTER_E_FAILED, muster_wait(m, &handle, 1, 60 * SECOND, &problem));
    atomic_store(&failures_left, 1);
    MUST(muster_for(m, kernel, ITEMS, again, 3, &how, &report, &problem));
    CHECK_EQUAL(1, report.retries);
    task.args = again;
    atomic_store(&failures_left, 1);
    MUST(muster_submit(m, &task, 1, &handle, &problem));
    MUST(muster_wait(m, &handle, 1, 60 * SECOND, &problem));
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(a_job_works_where_its_arguments_are),
                                         TEST(both_kinds_go_together),
                                         TEST(tasks_work_where_their_arguments_are),
                                         TEST(tasks_of_one_call_update_one_after_the_other),
                                         TEST(uses_of_a_block_are_ordered),
                                         TEST(mistakes_are_refused),
                                         TEST(what_is_updated_is_run_once) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
