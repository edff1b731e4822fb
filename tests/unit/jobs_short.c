/*
 * Jobs on devices that have no memory or no streams for them: left out, waited for, or given smaller
 * units; refused only where nothing can come of waiting.
 */
#include "backend/sim/sim.h"
#include "jobs_support.h"
#include "run/device/device.h"

#define MEBI ((uint64_t)1 << 20)
#define UNIT 1024u
#define ITEMS (64 * UNIT)
/* Of each device. */
#define STREAMS 4u
#define MEMORY (16 * MEBI)

static const char sim[] =
    "[{\"count\": 2, \"items_per_s\": 1e8, \"memory\": \"16MiB\", \"cores\": 8}]";

static struct muster *open_short(struct counting *counting, const struct muster_backend *table)
{
    static const struct muster_backend *tables[1];
    struct muster_options options = MUSTER_OPTIONS_INIT;
    tables[0] = table;
    options.backends = tables;
    options.backend_count = table ? 1 : 0;
    options.devices = table ? table->name : "sim";
    options.sim = sim;
    options.streams_max = STREAMS;
    options.allocator = counting_allocator(counting);
    return open_with(options);
}

static void close_short(struct muster *m, struct counting *counting)
{
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, counting->bytes);
    CHECK_EQUAL(0, counting->wrong);
}

/* All streams of a device, and nearly all of its memory. */
struct hog {
    muster_stream streams[STREAMS];
    uint32_t count;
    muster_block block;
};

static void take_streams(struct muster *m, const char *id, struct hog *hog)
{
    for (hog->count = 0; hog->count < STREAMS; hog->count++)
        hog->streams[hog->count] = acquire(m, find(m, id));
}

static void give_streams(struct muster *m, struct hog *hog)
{
    while (hog->count > 0)
        MUST(muster_stream_release(m, hog->streams[--hog->count], &problem));
}

static void take_memory(struct muster *m, const char *id, struct hog *hog, uint64_t left)
{
    hog->count = 1;
    hog->streams[0] = acquire(m, find(m, id));
    hog->block = allocate(m, hog->streams[0], MEMORY - left);
}

static void give_memory(struct muster *m, struct hog *hog)
{
    MUST(muster_block_free(m, hog->streams[0], hog->block, &problem));
    give_streams(m, hog);
}

static struct muster_run_options how;

static struct muster_job_desc desc_on(struct account *account, struct muster_kernel *kernel,
                                      const char *devices)
{
    struct muster_job_desc desc = account_desc(account, kernel);
    how = (struct muster_run_options){ .size = sizeof how, .unit_items = UNIT, .devices = devices };
    desc.options = &how;
    return desc;
}

/* Two devices, of which one has no streams, or no memory: the other does it all, and it is said. */
static void a_device_without_room_is_left_out(void)
{
    for (int is_memory = 0; is_memory < 2; is_memory++) {
        struct counting counting = COUNTING_INIT;
        struct muster *m = open_short(&counting, NULL);
        struct hog hog;
        struct account account;
        struct muster_report report = full_report();
        account_init(&account, ITEMS);
        if (is_memory)
            take_memory(m, "sim:1", &hog, 4096);
        else
            take_streams(m, "sim:1", &hog);
        struct muster_job_desc desc = desc_on(&account, kernel_of(m, compute), NULL);
        struct muster_job *job = start(m, &desc);
        MUST(muster_job_wait(job, &report, &problem));
        muster_job_destroy(job);
        check_account(&account, ITEMS);
        CHECK_EQUAL(ITEMS, device_in(&report, "sim:0")->items);
        CHECK_TEXT("", device_in(&report, "sim:0")->shortage);
        CHECK_EQUAL(0, device_in(&report, "sim:1")->items);
        CHECK_EQUAL(0, device_in(&report, "sim:1")->retries);
        CHECK_EQUAL(MUSTER_HEALTH_OK, device_in(&report, "sim:1")->health);
        CHECK_CONTAINS(is_memory ? "bytes were asked for" : "streams at most",
                       device_in(&report, "sim:1")->shortage);
        /* What it had taken before it turned out to be too little is back. */
        CHECK_EQUAL(hog.count, load_of(m, find(m, "sim:1")).streams_acquired);
        if (is_memory)
            give_memory(m, &hog);
        else
            give_streams(m, &hog);
        account_deinit(&account);
        close_short(m, &counting);
    }
}

/* Nobody but the user has what is missing: to wait would be for nothing. */
static void the_only_device_without_room_is_told_at_once(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_short(&counting, NULL);
    struct hog hog;
    struct account account;
    struct muster_job *job = NULL;
    account_init(&account, ITEMS);
    struct muster_job_desc desc = desc_on(&account, kernel_of(m, compute), "sim:0");
    take_streams(m, "sim:0", &hog);
    CHECK_STATUS(MUSTER_E_CAPACITY, muster_start(m, &desc, &job, &problem));
    CHECK_TEXT("sim:0", problem.device);
    give_streams(m, &hog);
    take_memory(m, "sim:0", &hog, 4096);
    CHECK_STATUS(MUSTER_E_DEVICE_MEMORY, muster_start(m, &desc, &job, &problem));
    give_memory(m, &hog);
    how.unit_items = 1 << 20;
    account.args[1].bytes = 512;
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_start(m, &desc, &job, &problem));
    CHECK(!job);
    CHECK_EQUAL(0, load_of(m, find(m, "sim:0")).streams_acquired);
    CHECK_EQUAL(0, load_of(m, find(m, "sim:0")).memory_used);
    account_deinit(&account);
    close_short(m, &counting);
}

/* Units that Muster sizes are made so small that they fit, down to what is left of the memory. */
static void units_are_made_smaller_where_memory_is_short(void)
{
    static const uint64_t left[] = { 8 * MEBI, MEBI, MEBI / 16 };
    for (size_t i = 0; i < COUNT_OF(left); i++) {
        struct counting counting = COUNTING_INIT;
        struct muster *m = open_short(&counting, NULL);
        struct hog hog;
        struct account account;
        account_init(&account, 16 * ITEMS);
        struct muster_job_desc desc = desc_on(&account, kernel_of(m, compute), "sim:0");
        how.unit_items = 0;
        take_memory(m, "sim:0", &hog, left[i]);
        struct muster_job *job = start(m, &desc);
        CHECK(load_of(m, find(m, "sim:0")).memory_used <= MEMORY);
        MUST(muster_job_wait(job, NULL, &problem));
        muster_job_destroy(job);
        check_account(&account, 16 * ITEMS);
        give_memory(m, &hog);
        account_deinit(&account);
        close_short(m, &counting);
    }
}

static struct door door;
static muster_status compute_at_door(uint64_t begin, uint64_t end, void *const *args)
{
    door_pass(&door);
    return compute(begin, end, args);
}

/* A job that has all streams of a device until the door is opened. */
static struct muster_job *start_holder(struct muster *m, struct account *account)
{
    door = (struct door)DOOR_INIT;
    account_init(account, ITEMS);
    struct muster_job_desc desc = desc_on(account, kernel_of(m, compute_at_door), "sim:0");
    how.depth = STREAMS;
    struct muster_job *job = start(m, &desc);
    door_wait_arrived(&door, 1);
    return job;
}

/* It starts, does nothing, and is done when the other job has given back what it had. */
static void what_another_job_has_is_waited_for(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_short(&counting, NULL);
    struct account first, second;
    struct muster_report report = full_report();
    struct muster_job *holder = start_holder(m, &first);
    account_init(&second, ITEMS);
    struct muster_job_desc desc = desc_on(&second, kernel_of(m, compute), "sim:0");
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_report(job, &report, &problem));
    CHECK_EQUAL(0, report.delivered);
    CHECK_CONTAINS("streams at most", device_in(&report, "sim:0")->shortage);
    door_open(&door);
    MUST(muster_job_wait(holder, NULL, &problem));
    MUST(muster_job_wait(job, &report, &problem));
    CHECK_EQUAL(ITEMS, device_in(&report, "sim:0")->items);
    CHECK_EQUAL(0, report.retries);
    check_account(&first, ITEMS);
    check_account(&second, ITEMS);
    muster_job_destroy(holder);
    muster_job_destroy(job);
    account_deinit(&first);
    account_deinit(&second);
    close_short(m, &counting);
}

static void a_job_that_waits_can_be_cancelled_and_closed(void)
{
    for (int is_closed = 0; is_closed < 2; is_closed++) {
        struct counting counting = COUNTING_INIT;
        struct muster *m = open_short(&counting, NULL);
        struct account first, second;
        struct muster_job *holder = start_holder(m, &first);
        account_init(&second, ITEMS);
        struct muster_job_desc desc = desc_on(&second, kernel_of(m, compute), "sim:0");
        struct muster_job *job = start(m, &desc);
        if (!is_closed) {
            muster_job_cancel(job);
            CHECK_STATUS(MUSTER_E_CANCELLED, muster_job_wait(job, NULL, &problem));
            muster_job_destroy(job);
        }
        door_open(&door);
        if (!is_closed) {
            MUST(muster_job_wait(holder, NULL, &problem));
            check_account(&first, ITEMS);
        }
        close_short(m, &counting);
        account_deinit(&first);
        account_deinit(&second);
    }
}

/* A device that has room again takes part from then on. */
static void a_device_that_has_room_again_joins(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_short(&counting, NULL);
    struct hog hog;
    struct account account;
    struct muster_report report = full_report();
    account_init(&account, ITEMS);
    door = (struct door)DOOR_INIT;
    take_streams(m, "sim:1", &hog);
    struct muster_job_desc desc = desc_on(&account, kernel_of(m, compute_at_door), NULL);
    how.no_copies = 1;
    struct muster_job *job = start(m, &desc);
    /* The other device has all that it can hold, and stands at the door. */
    door_wait_arrived(&door, 1);
    give_streams(m, &hog);
    door_wait_arrived(&door, 2);
    door_open(&door);
    MUST(muster_job_wait(job, &report, &problem));
    muster_job_destroy(job);
    check_account(&account, ITEMS);
    CHECK(device_in(&report, "sim:1")->items > 0);
    account_deinit(&account);
    close_short(m, &counting);
}

/* Memory that a unit wants when it is given: the driver has none for data, this many times. */
static _Atomic int refusals;
static _Atomic uint64_t data_bytes;

static muster_status allocate_or_refuse(void *device, void *stream, uint64_t bytes,
                                        struct muster_memory *out, struct muster_error *err)
{
    if (bytes == data_bytes && refusals > 0 && refusals-- > 0)
        return muster_error_fill(err, MUSTER_E_DEVICE_MEMORY, 2, NULL, "no memory today");
    return backend_sim.memory_allocate(device, stream, bytes, out, err);
}

static muster_status add_table(uint64_t begin, uint64_t end, void *const *args)
{
    const uint64_t *in = *(const uint64_t *const *)args[0];
    const uint64_t *table = *(const uint64_t *const *)args[1];
    uint64_t *out = *(uint64_t *const *)args[2];
    for (uint64_t i = begin; i < end; i++)
        out[i] = in[i] + table[0];
    return MUSTER_OK;
}

static void a_unit_without_memory_costs_no_try(void)
{
    enum { WORDS = 12345 };
    static uint64_t in[ITEMS], out[ITEMS], words[WORDS];
    struct counting counting = COUNTING_INIT;
    struct muster_backend table = backend_sim;
    table.name = "mean";
    table.memory_allocate = allocate_or_refuse;
    struct muster *m = open_short(&counting, &table);
    struct muster_report report = full_report();
    muster_data data;
    words[0] = 5;
    data_bytes = sizeof words;
    refusals = 12;
    MUST(muster_data_create(m, words, sizeof words, 0, &data, &problem));
    for (uint64_t i = 0; i < ITEMS; i++)
        in[i] = i;
    struct muster_arg args[] = { MUSTER_IN(in), MUSTER_ALL(data), MUSTER_OUT(out) };
    struct muster_run_options options = { .size = sizeof options, .unit_items = UNIT, .tries = 1 };
    MUST(muster_for(m, kernel_of(m, add_table), ITEMS, args, 3, &options, &report, &problem));
    for (uint64_t i = 0; i < ITEMS; i++)
        CHECK_EQUAL(i + 5, out[i]);
    CHECK_EQUAL(0, report.retries);
    CHECK_EQUAL(0, refusals);
    /* Alone, with nobody who could give some back, it is a failure like any other. */
    MUST(muster_data_invalidate(m, data, &problem));
    refusals = INT32_MAX;
    options.devices = "mean:0";
    options.tries = 3;
    options.depth = 1;
    CHECK_STATUS(MUSTER_E_DEVICE_MEMORY, muster_for(m, kernel_of(m, add_table), ITEMS, args, 3,
                                                    &options, &report, &problem));
    CHECK_CONTAINS("no memory today", problem.text);
    close_short(m, &counting);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_device_without_room_is_left_out),
        TEST(the_only_device_without_room_is_told_at_once),
        TEST(units_are_made_smaller_where_memory_is_short),
        TEST(what_another_job_has_is_waited_for),
        TEST(a_job_that_waits_can_be_cancelled_and_closed),
        TEST(a_device_that_has_room_again_joins),
        TEST(a_unit_without_memory_costs_no_try),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
