/*
 * Jobs whose items are supplied by a function, on real threads: each item is asked for once, in order
 * and no further ahead than the window; units are run again from the ring; and any answer of the
 * function, at any moment, ends in the right status.
 */
#include "jobs_support.h"
#include "source_items.h"

#include "backend/cpu/cpu.h"

#include <fcntl.h>
#include <unistd.h>

/* A source, what its items must turn into, and what it and the sink have seen. */
struct feed {
    uint64_t multiple; /* that units are of; 0: any */
    uint64_t items;    /* there are */
    size_t item_bytes;
    uint64_t at_once; /* items it gives at most; 0: what is asked for */
    struct muster_job_desc desc;
    struct muster_run_options how;
    struct muster_arg args[4];
    _Atomic uint64_t given, delivered;
    uint64_t calls;
    _Atomic uint64_t wrong;
    _Atomic uint64_t ahead_max; /* items given and not delivered */
    _Atomic int inside;
    /* What it does when it is asked for the item. */
    uint64_t special; /* UINT64_MAX: nothing */
    int64_t (*act)(struct feed *feed);
    uint64_t sink_special;
    muster_status (*sink_act)(struct feed *feed);
    struct door *door;
    struct muster_job *job;
    _Atomic bool is_over;
};

static int64_t give_items(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct feed *feed = user;
    uint64_t given = atomic_load(&feed->given), left = feed->items - given;
    feed->wrong += atomic_fetch_add(&feed->inside, 1) != 0;
    feed->wrong += begin != given || items == 0 || bytes != items * feed->item_bytes;
    feed->calls++;
    if (feed->special >= begin && feed->special < begin + items && feed->special <= given) {
        atomic_fetch_sub(&feed->inside, 1);
        return feed->act(feed);
    }
    uint64_t count = items < left ? items : left;
    if (feed->at_once > 0 && count > feed->at_once)
        count = feed->at_once;
    if (feed->special > begin && feed->special - begin < count)
        count = feed->special - begin;
    unsigned char *bytes_to = to;
    for (uint64_t i = 0; i < count; i++)
        for (size_t b = 0; b < feed->item_bytes; b++)
            *bytes_to++ = item_byte(begin + i, b);
    atomic_store(&feed->given, given + count);
    uint64_t ahead = given + count - atomic_load(&feed->delivered);
    if (ahead > atomic_load(&feed->ahead_max))
        atomic_store(&feed->ahead_max, ahead);
    atomic_fetch_sub(&feed->inside, 1);
    return (int64_t)count;
}

static muster_status check_digests(void *user, const struct muster_result *result)
{
    struct feed *feed = user;
    static unsigned char bytes[1 << 16];
    struct muster_range range = result->range;
    bool is_unordered = feed->how.unordered;
    feed->wrong += !is_unordered && range.begin != atomic_load(&feed->delivered);
    feed->wrong += range.end > atomic_load(&feed->given);
    feed->wrong +=
        feed->multiple > 0 && (range.begin % feed->multiple != 0 ||
                               (range.end % feed->multiple != 0 && range.end != feed->items));
    for (uint64_t i = range.begin; i < range.end; i++) {
        for (size_t b = 0; b < feed->item_bytes; b++)
            bytes[b] = item_byte(i, b);
        uint64_t digest_of = ((const uint64_t *)result->outputs[0])[i - range.begin];
        feed->wrong += digest_of != digest_item(bytes, feed->item_bytes, i);
        feed->wrong += memcmp((const char *)result->supplied + (i - range.begin) * feed->item_bytes,
                              bytes, feed->item_bytes) != 0;
    }
    if (feed->sink_act && range.begin >= feed->sink_special) {
        muster_status status = feed->sink_act(feed);
        if (status != MUSTER_OK)
            return status;
    }
    atomic_fetch_add(&feed->delivered, range.end - range.begin);
    return MUSTER_OK;
}

static struct feed *make_feed(struct muster *m, uint64_t items, size_t item_bytes)
{
    struct feed *feed = calloc(1, sizeof *feed);
    CHECK(feed);
    feed->items = items;
    feed->item_bytes = item_bytes;
    feed->special = UINT64_MAX;
    const struct muster_arg args[] = { { MUSTER_ARG_OF(MUSTER_ARG_SOURCE), .bytes = item_bytes },
                                       MUSTER_VALUE(feed->item_bytes),
                                       { MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = sizeof(uint64_t) },
                                       MUSTER_FIRST };
    memcpy(feed->args, args, sizeof args);
    feed->desc = (struct muster_job_desc){ .size = sizeof feed->desc,
                                           .kernel = kernel_of(m, digest),
                                           .items = items,
                                           .args = feed->args,
                                           .arg_count = COUNT_OF(feed->args),
                                           .sink = check_digests,
                                           .sink_user = feed,
                                           .source = give_items,
                                           .source_user = feed,
                                           .options = &feed->how };
    feed->how.size = sizeof feed->how;
    return feed;
}

/* Runs the job; gives how it ended. */
static muster_status run_feed(struct muster *m, struct feed *feed, struct muster_report *report)
{
    MUST(muster_start(m, &feed->desc, &feed->job, &problem));
    *report = full_report();
    muster_status status = muster_job_wait(feed->job, report, &problem);
    muster_job_destroy(feed->job);
    CHECK_EQUAL(0, feed->wrong);
    CHECK_EQUAL(feed->delivered, report->delivered);
    CHECK(feed->how.window == 0 || feed->ahead_max <= feed->how.window);
    return status;
}

/* All of it comes through. */
static void run_through(struct muster *m, struct feed *feed)
{
    struct muster_report report;
    muster_status status = run_feed(m, feed, &report);
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", muster_status_name(status), problem.text);
    CHECK_EQUAL(feed->items, feed->delivered);
    CHECK_EQUAL(feed->items, feed->given);
    CHECK_EQUAL(feed->items, report.items);
    CHECK_EQUAL(0, report.failed_count);
}

#define SIM_MIXED                                                                                  \
    "[{\"items_per_s\": 2e7, \"launch_ns\": 1000}, {\"items_per_s\": 5e6, \"launch_ns\": 1000}]"

static void items_come_through_whatever_their_size_and_number(void)
{
    static const size_t sizes[] = { 1, 3, 8, 12, 100, 4096, 4097, 10000 };
    static const char *const devices[] = { "cpu", "sim", "cpu,sim" };
    uint64_t random = test_seed();
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        struct muster *m = open_sim(devices[d], SIM_MIXED);
        for (unsigned i = 0; i < test_repetitions(COUNT_OF(sizes) * TEST_BY_SANITIZER(2, 2, 1));
             i++) {
            size_t bytes = sizes[i % COUNT_OF(sizes)];
            struct feed *feed = make_feed(m, draw(&random, 8) * (200000 / (100 + bytes)), bytes);
            if (draw(&random, 2))
                feed->desc.items = MUSTER_ITEMS_UNKNOWN;
            feed->at_once = draw(&random, 2) * (1 + draw(&random, 20));
            feed->how.unit_items = draw(&random, 2) * (1 + draw(&random, 60));
            feed->how.window = draw(&random, 2) * (1 + draw(&random, 100));
            feed->how.depth = 1 + (uint32_t)draw(&random, 3);
            feed->how.unordered = (int)draw(&random, 2);
            run_through(m, feed);
            free(feed);
        }
        MUST(muster_close(m, &problem));
    }
}

static void units_are_of_whole_multiples(void)
{
    uint64_t random = test_seed();
    struct muster *m = open_sim("cpu,sim", SIM_MIXED);
    for (unsigned i = 0; i < test_repetitions(TEST_BY_SANITIZER(16, 8, 4)); i++) {
        struct feed *feed = make_feed(m, draw(&random, 5000), 8);
        uint64_t multiple = 1 + draw(&random, 300);
        if (draw(&random, 2))
            feed->desc.items = MUSTER_ITEMS_UNKNOWN;
        feed->at_once = draw(&random, 2) * (1 + draw(&random, 20));
        feed->multiple = feed->how.unit_multiple = multiple;
        feed->how.unit_items = draw(&random, 2) * multiple * (1 + draw(&random, 3));
        feed->how.window = draw(&random, 2) * (multiple + draw(&random, 1000));
        run_through(m, feed);
        free(feed);
    }
    struct feed *feed = make_feed(m, 100, 8);
    feed->how.unit_multiple = 10;
    feed->how.unit_items = 15;
    CHECK_STATUS(MUSTER_E_INVALID, muster_start(m, &feed->desc, &feed->job, &problem));
    feed->how.unit_items = 0;
    feed->how.window = 9;
    CHECK_STATUS(MUSTER_E_INVALID, muster_start(m, &feed->desc, &feed->job, &problem));
    free(feed);
    MUST(muster_close(m, &problem));
}

static void a_source_may_give_one_item_at_a_time(void)
{
    struct muster *m = open_sim("cpu,sim", SIM_MIXED);
    struct feed *feed = make_feed(m, 3000, 5);
    feed->at_once = 1;
    run_through(m, feed);
    CHECK(feed->calls >= 3000);
    free(feed);
    MUST(muster_close(m, &problem));
}

static void fixed_units_wait_until_they_are_full(void)
{
    struct muster *m = open_sim("sim", SIM_MIXED);
    struct feed *feed = make_feed(m, 1000, 16);
    struct muster_report report;
    feed->at_once = 7;
    feed->how.unit_items = 64;
    feed->desc.items = MUSTER_ITEMS_UNKNOWN;
    MUST(run_feed(m, feed, &report));
    CHECK_EQUAL(1000, feed->delivered);
    CHECK_EQUAL(16, report.units);
    free(feed);
    /* Of units larger than the window the window is what there is. */
    feed = make_feed(m, 1000, 16);
    feed->how.unit_items = 64;
    feed->how.window = 10;
    MUST(run_feed(m, feed, &report));
    CHECK_EQUAL(100, report.units);
    free(feed);
    MUST(muster_close(m, &problem));
}

static void a_source_without_items_ends_at_once(void)
{
    struct muster *m = open_sim("cpu,sim", SIM_MIXED);
    struct feed *feed = make_feed(m, 0, 8);
    feed->desc.items = MUSTER_ITEMS_UNKNOWN;
    run_through(m, feed);
    CHECK_EQUAL(1, feed->calls);
    free(feed);
    feed = make_feed(m, 0, 8);
    run_through(m, feed);
    CHECK_EQUAL(0, feed->calls);
    free(feed);
    MUST(muster_close(m, &problem));
}

/* Answers that are no items. */

static int64_t end_now(struct feed *feed)
{
    (void)feed;
    return 0;
}

static int64_t give_too_many(struct feed *feed)
{
    (void)feed;
    return INT64_MAX;
}

static int64_t fail_to_read(struct feed *feed)
{
    (void)feed;
    return MUSTER_E_PARSE;
}

static int64_t fail_absurdly(struct feed *feed)
{
    (void)feed;
    return INT64_MIN;
}

static void run_to_failure(int64_t (*act)(struct feed *feed), bool is_known, muster_status status,
                           const char *words)
{
    struct muster *m = open_sim("cpu,sim", SIM_MIXED);
    for (unsigned i = 0; i < test_repetitions(6); i++) {
        struct feed *feed = make_feed(m, 4000, 8);
        struct muster_report report;
        feed->desc.items = is_known ? 4000 : MUSTER_ITEMS_UNKNOWN;
        feed->how.window = i % 2 * 500;
        feed->special = i < 2 ? 0 : 1234;
        feed->act = act;
        CHECK_STATUS(status, run_feed(m, feed, &report));
        CHECK_CONTAINS(words, problem.text);
        CHECK(report.delivered <= feed->special);
        CHECK(report.failed_count > 0);
        CHECK(report.failed[0].begin >= report.delivered);
        CHECK_EQUAL(feed->desc.items, report.failed[report.failed_count - 1].end);
        free(feed);
    }
    MUST(muster_close(m, &problem));
}

static void what_a_source_says_ends_the_job(void)
{
    run_to_failure(end_now, true, MUSTER_E_IO, "of 4000 items");
    run_to_failure(give_too_many, true, MUSTER_E_INVALID, "the source was asked for");
    run_to_failure(fail_to_read, true, MUSTER_E_PARSE, "the source failed at item");
    run_to_failure(fail_to_read, false, MUSTER_E_PARSE, "the source failed at item");
    run_to_failure(fail_absurdly, false, MUSTER_E_IO, "the source failed at item");
}

static int64_t cancel_in_source(struct feed *feed)
{
    muster_job_cancel(feed->job);
    return 0;
}

static void a_source_may_cancel(void)
{
    struct muster *m = open_sim("cpu,sim", SIM_MIXED);
    for (unsigned i = 0; i < test_repetitions(6); i++) {
        struct feed *feed = make_feed(m, 4000, 8);
        struct muster_report report;
        feed->desc.items = i % 2 ? 4000 : MUSTER_ITEMS_UNKNOWN;
        feed->special = 1234;
        feed->act = cancel_in_source;
        CHECK_STATUS(MUSTER_E_CANCELLED, run_feed(m, feed, &report));
        CHECK_CONTAINS(i % 2 ? "of 4000 items" : "items", problem.text);
        CHECK(!strstr(problem.text, "18446744073709551615"));
        CHECK(report.delivered <= 1234);
        free(feed);
    }
    MUST(muster_close(m, &problem));
}

/* Gives other threads time to do what they should not. */
static void linger(void)
{
    uint64_t until = now_ns() + 20 * MS;
    while (now_ns() < until)
        sched_yield();
}

/* A sink that is slower than the source. */

static muster_status dawdle(struct feed *feed)
{
    (void)feed;
    uint64_t until = now_ns() + 100000;
    while (now_ns() < until)
        sched_yield();
    return MUSTER_OK;
}

static uint64_t resident_bytes(void)
{
    char text[128] = "";
    int file = open("/proc/self/statm", O_RDONLY);
    CHECK(file >= 0 && read(file, text, sizeof text - 1) > 0);
    close(file);
    unsigned long pages = 0;
    CHECK(sscanf(text, "%*u %lu", &pages) == 1);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static _Atomic uint64_t resident_early, resident_late;

static muster_status dawdle_and_measure(struct feed *feed)
{
    uint64_t bytes = resident_bytes(), delivered = atomic_load(&feed->delivered);
    if (delivered < feed->items / 4 && bytes > atomic_load(&resident_early))
        atomic_store(&resident_early, bytes);
    if (delivered > feed->items / 4 && bytes > atomic_load(&resident_late))
        atomic_store(&resident_late, bytes);
    return dawdle(feed);
}

static void a_source_faster_than_the_sink_is_held_back(void)
{
    struct muster *m = open_sim("cpu,sim", SIM_MIXED);
    struct feed *feed = make_feed(m, TEST_BY_SANITIZER(100000, 100000, 40000), 1000);
    feed->how.window = 4096;
    feed->how.unit_items = 256;
    feed->sink_act = dawdle_and_measure;
    run_through(m, feed);
    CHECK(feed->ahead_max > 0);
    /* 40 MB went through at least; what may be there at a time was so in the first quarter. */
    CHECK(resident_late < resident_early + (8 << 20));
    free(feed);
    MUST(muster_close(m, &problem));
}

/* Devices that fail. */

static void a_lost_device_costs_a_run_from_the_ring(void)
{
    uint64_t random = test_seed();
    for (unsigned i = 0; i < test_repetitions(12); i++) {
        char sim[300];
        snprintf(sim, sizeof sim,
                 "[{\"items_per_s\": 2e7, \"faults\": [{\"kind\": \"lost\", \"at_launch\": %u}]},"
                 " {\"items_per_s\": 5e6, \"faults\": [{\"kind\": \"unit_error\","
                 "  \"probability\": 0.1}]}, {\"items_per_s\": 5e6}]",
                 1 + (unsigned)draw(&random, 20));
        struct muster *m = open_sim("sim", sim);
        struct feed *feed = make_feed(m, 3000, 24);
        feed->desc.items = i % 2 ? 3000 : MUSTER_ITEMS_UNKNOWN;
        feed->how.window = 200;
        feed->how.tries = 9;
        feed->how.unit_items = draw(&random, 2) * 20;
        run_through(m, feed);
        free(feed);
        MUST(muster_close(m, &problem));
    }
}

static void losing_every_device_leaves_a_prefix(void)
{
    for (unsigned i = 0; i < test_repetitions(6); i++) {
        struct muster *m =
            open_sim("sim", "[{\"items_per_s\": 2e7, \"faults\": [{\"kind\": \"lost\","
                            " \"at_launch\": 9}]}]");
        struct feed *feed = make_feed(m, 3000, 24);
        struct muster_report report;
        feed->desc.items = i % 2 ? 3000 : MUSTER_ITEMS_UNKNOWN;
        feed->how.unit_items = 50;
        CHECK_STATUS(MUSTER_E_DEVICE_LOST, run_feed(m, feed, &report));
        CHECK(report.delivered <= 9 * 50);
        CHECK_EQUAL(feed->desc.items, report.failed[report.failed_count - 1].end);
        free(feed);
        MUST(muster_close(m, &problem));
    }
}

/*
 * A kernel that stops at a door the first time it is given the unit, and then looks whether what it
 * was to read is still there: it must be, though a copy of it was first, was delivered, and the ring
 * goes on.
 */
#define STRAGGLER 80
#define STRAGGLER_WINDOW 64
static struct door *_Atomic straggler_door;
static _Atomic uint64_t straggler_place; /* the unit's first item */
static _Atomic int straggler_runs;
static _Atomic uint64_t changed_under_it;

static muster_status digest_at_door(uint64_t begin, uint64_t end, void *const *args)
{
    const unsigned char *in = *(const unsigned char *const *)args[0];
    size_t item_bytes = *(const size_t *)args[1];
    uint64_t first = *(const uint64_t *)args[3];
    if (first == atomic_load(&straggler_place) && begin == 0 &&
        atomic_fetch_add(&straggler_runs, 1) == 0) {
        door_pass(atomic_load(&straggler_door));
        for (uint64_t i = begin; i < end; i++)
            for (size_t b = 0; b < item_bytes; b++)
                if (in[i * item_bytes + b] != item_byte(first + i, b))
                    atomic_fetch_add(&changed_under_it, 1);
    }
    return digest(begin, end, args);
}

/* Lets the straggler go on once all has been done that can be without it, and a little later. */
static void *open_door_when_full(void *argument)
{
    struct feed *feed = argument;
    while (atomic_load(&feed->delivered) < STRAGGLER + STRAGGLER_WINDOW)
        sched_yield();
    linger();
    door_open(feed->door);
    return NULL;
}

/* Two devices that work in host memory, and so in the ring itself. */
static struct muster *open_twins(struct muster_backend *twin, const struct muster_backend **table)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    *twin = backend_cpu;
    twin->name = "twin";
    *table = twin;
    options.cpu_workers = 1;
    options.backends = table;
    options.backend_count = 1;
    options.devices = "cpu:0,twin:0";
    return open_with(options);
}

static struct feed *make_straggling(struct muster *m, struct door *door)
{
    struct feed *feed = make_feed(m, 2000, 8);
    feed->desc.kernel = kernel_of(m, digest_at_door);
    feed->how.window = STRAGGLER_WINDOW;
    feed->how.unit_items = 8;
    feed->how.depth = 1;
    feed->door = door;
    atomic_store(&straggler_door, door);
    atomic_store(&straggler_place, STRAGGLER);
    atomic_store(&straggler_runs, 0);
    atomic_store(&changed_under_it, 0);
    return feed;
}

static void what_a_straggler_reads_stays(void)
{
    struct door door = DOOR_INIT;
    struct muster_backend twin;
    const struct muster_backend *table;
    struct muster *m = open_twins(&twin, &table);
    struct feed *feed = make_straggling(m, &door);
    pthread_t opener;
    CHECK(pthread_create(&opener, NULL, open_door_when_full, feed) == 0);
    run_through(m, feed);
    CHECK(pthread_join(opener, NULL) == 0);
    CHECK_EQUAL(2, straggler_runs);
    CHECK_EQUAL(0, changed_under_it);
    free(feed);
    MUST(muster_close(m, &problem));
}

static _Atomic int hung_devices;

/* Lets the straggler go when all is delivered, and looks before that whether a device hangs. */
static void *open_door_at_the_end(void *argument)
{
    struct feed *feed = argument;
    struct muster_report report = full_report();
    struct muster_error err;
    while (atomic_load(&feed->delivered) < feed->items)
        sched_yield();
    atomic_store(&hung_devices, muster_job_report(feed->job, &report, &err) == MUSTER_OK ? 0 : 1);
    for (size_t i = 0; i < report.device_count; i++)
        atomic_fetch_add(&hung_devices, report.devices[i].health != MUSTER_HEALTH_OK);
    door_open(feed->door);
    return NULL;
}

/*
 * The first unit of a device, which nobody has measured, was run a second time and delivered. Nobody
 * waits for the first run any more, long before the device is taken to hang.
 */
static void a_late_attempt_does_not_hold_the_source(void)
{
    struct door door = DOOR_INIT;
    struct muster_backend twin;
    const struct muster_backend *table;
    struct muster_report report = full_report();
    struct muster *m = open_twins(&twin, &table);
    struct feed *feed = make_straggling(m, &door);
    pthread_t opener;
    atomic_store(&straggler_place, 0);
    MUST(muster_start(m, &feed->desc, &feed->job, &problem));
    CHECK(pthread_create(&opener, NULL, open_door_at_the_end, feed) == 0);
    MUST(muster_job_wait(feed->job, &report, &problem));
    CHECK(pthread_join(opener, NULL) == 0);
    muster_job_destroy(feed->job);
    CHECK_EQUAL(0, hung_devices);
    CHECK_EQUAL(feed->items, report.delivered);
    CHECK_EQUAL(2, straggler_runs);
    CHECK_EQUAL(0, changed_under_it);
    CHECK_EQUAL(0, feed->wrong);
    free(feed);
    MUST(muster_close(m, &problem));
}

/* A time-out that only the device that hangs runs into. */
#define TIMEOUT test_patience(100 * MS)

/* The same where the unit took so long that its device was taken to hang, and the ring was left to it. */
static void *open_door_half_way(void *argument)
{
    struct feed *feed = argument;
    while (atomic_load(&feed->delivered) < feed->items / 2 && !atomic_load(&feed->is_over))
        sched_yield();
    door_open(feed->door);
    return NULL;
}

/* Reads its unit when the source is as far ahead as it may be, or has had the time to be. */
static muster_status check_late(void *user, const struct muster_result *result)
{
    struct feed *feed = user;
    uint64_t last = result->range.begin + feed->how.window, until = now_ns() + 20 * MS;
    while (atomic_load(&feed->given) < (last < feed->items ? last : feed->items) &&
           now_ns() < until)
        sched_yield();
    return check_digests(user, result);
}

static void read_while_hung(unsigned depth)
{
    struct door door = DOOR_INIT;
    struct muster_backend twin;
    const struct muster_backend *table;
    struct muster_report report;
    struct muster *m = open_twins(&twin, &table);
    struct feed *feed = make_straggling(m, &door);
    feed->items = feed->desc.items = 4000;
    feed->desc.sink = check_late;
    feed->how.depth = depth;
    feed->how.no_copies = 1;
    feed->how.timeout_ns = TIMEOUT;
    pthread_t opener;
    CHECK(pthread_create(&opener, NULL, open_door_half_way, feed) == 0);
    muster_status status = run_feed(m, feed, &report);
    atomic_store(&feed->is_over, true);
    CHECK(pthread_join(opener, NULL) == 0);
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, changed_under_it);
    CHECK_EQUAL(feed->items, report.delivered);
    /* It may come back before the end, or after it. */
    CHECK(status == MUSTER_OK || status == MUSTER_E_DEVICE_HUNG);
    CHECK_EQUAL(2, straggler_runs);
    free(feed);
}

static void what_a_hung_device_and_the_sink_read_stays(void)
{
    for (unsigned i = 0; i < test_repetitions(3); i++)
        read_while_hung(1 + i % 2);
}

static void a_hung_device_does_not_hold_the_source(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "sim";
    options.sim = "[{\"items_per_s\": 2e7, \"faults\": [{\"kind\": \"hang\", \"at_launch\": 3}]},"
                  " {\"items_per_s\": 5e6}]";
    options.close_ns = test_patience(200 * MS);
    struct muster *m = open_with(options);
    struct feed *feed = make_feed(m, 4000, 8);
    struct muster_report report;
    feed->how.unit_items = 10;
    feed->how.window = 100;
    feed->how.timeout_ns = TIMEOUT;
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, run_feed(m, feed, &report));
    CHECK_EQUAL(feed->items, report.delivered);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(m, &problem));
    free(feed);
}

/* Ends. */

static int64_t stop_at_door(struct feed *feed)
{
    door_pass(feed->door);
    return 0;
}

enum ending { ENDING_CANCEL, ENDING_DESTROY, ENDING_CLOSE };

static void *end_job(void *argument)
{
    struct feed *feed = argument;
    /* The job waits for its source, so another thread has to let it go. */
    nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    door_open(feed->door);
    return NULL;
}

static void a_job_may_end_while_its_source_is_busy(void)
{
    for (unsigned i = 0; i < test_repetitions(9); i++) {
        struct counting counting = COUNTING_INIT;
        struct door door = DOOR_INIT;
        struct muster_options options = MUSTER_OPTIONS_INIT;
        options.cpu_workers = 2;
        options.sim = SIM_MIXED;
        options.allocator = counting_allocator(&counting);
        struct muster *m = open_with(options);
        struct feed *feed = make_feed(m, 4000, 8);
        feed->door = &door;
        feed->special = i % 2 * 500;
        feed->act = stop_at_door;
        MUST(muster_start(m, &feed->desc, &feed->job, &problem));
        door_wait_arrived(&door, 1);
        /* Before the source can say that it is at its end. */
        if (i % 3 == ENDING_CANCEL)
            muster_job_cancel(feed->job);
        pthread_t opener;
        CHECK(pthread_create(&opener, NULL, end_job, feed) == 0);
        if (i % 3 == ENDING_CANCEL)
            CHECK_STATUS(MUSTER_E_CANCELLED, muster_job_wait(feed->job, NULL, &problem));
        if (i % 3 != ENDING_CLOSE)
            muster_job_destroy(feed->job);
        MUST(muster_close(m, &problem));
        CHECK(pthread_join(opener, NULL) == 0);
        CHECK_EQUAL(0, counting.bytes);
        CHECK_EQUAL(0, feed->wrong);
        free(feed);
    }
}

static muster_status refuse_results(struct feed *feed)
{
    (void)feed;
    return MUSTER_E_IO;
}

static void a_sink_that_fails_stops_the_source(void)
{
    struct muster *m = open_sim("cpu,sim", SIM_MIXED);
    struct feed *feed = make_feed(m, UINT64_C(1) << 40, 8);
    struct muster_report report;
    feed->desc.items = MUSTER_ITEMS_UNKNOWN;
    feed->sink_act = refuse_results;
    feed->sink_special = 500;
    CHECK_STATUS(MUSTER_E_IO, run_feed(m, feed, &report));
    CHECK_CONTAINS("the sink refused", problem.text);
    free(feed);
    MUST(muster_close(m, &problem));
}

/*
 * The source fails while the sink is busy with unit 0 and the items of unit 1 are being told apart:
 * unit 1 was never done, and is not delivered. Should the failure come too late to stop it, it is whole.
 */
static struct door telling_door = DOOR_INIT;
static _Atomic int telling_runs;

static muster_status digest_but_one(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t first = *(const uint64_t *)args[3];
    if (first == 32 && begin == 0 && atomic_fetch_add(&telling_runs, 1) == 0)
        return MUSTER_E_PARSE;
    if (first == 32)
        door_pass(&telling_door);
    return digest(begin, end, args);
}

static muster_status wait_while_telling(struct feed *feed)
{
    door_wait_arrived(&telling_door, 1);
    door_open(feed->door);
    linger();
    door_open(&telling_door);
    door_wait_left(&telling_door, 1);
    linger();
    return MUSTER_OK;
}

static int64_t fail_behind_door(struct feed *feed)
{
    door_pass(feed->door);
    return MUSTER_E_PARSE;
}

static void what_was_half_told_apart_is_not_delivered(void)
{
    struct door door = DOOR_INIT;
    static muster_status each[4000];
    /* One worker: nothing of the unit is done before its first items have failed. */
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "sim";
    options.sim = "[{\"items_per_s\": 2e7, \"launch_ns\": 1000}]";
    struct muster *m = open_with(options);
    struct feed *feed = make_feed(m, 4000, 8);
    struct muster_report report;
    feed->desc.kernel = kernel_of(m, digest_but_one);
    feed->desc.each_status = each;
    feed->how.unit_items = 32;
    feed->door = &door;
    feed->special = 64;
    feed->act = fail_behind_door;
    feed->sink_act = wait_while_telling;
    CHECK_STATUS(MUSTER_E_PARSE, run_feed(m, feed, &report));
    CHECK(report.delivered == 32 || report.delivered == 64);
    for (size_t i = 0; i < 4000; i++)
        CHECK_EQUAL(i < report.delivered ? MUSTER_OK : MUSTER_E_CANCELLED, each[i]);
    free(feed);
    MUST(muster_close(m, &problem));
}

/* What makes no sense. */

static void wrong_descriptions_are_refused(void)
{
    struct muster *m = open_sim("cpu,sim", SIM_MIXED);
    struct feed *feed = make_feed(m, 100, 8);
    struct muster_job *job = NULL;
    struct muster_job_desc desc = feed->desc;
    uint64_t array[8], bytes;
    desc.source = NULL;
    CHECK_STATUS(MUSTER_E_INVALID, muster_start(m, &desc, &job, &problem));
    CHECK_CONTAINS("no source and 1 arguments", problem.text);
    desc = feed->desc;
    desc.arg_count = 0;
    CHECK_STATUS(MUSTER_E_INVALID, muster_start(m, &desc, &job, &problem));
    desc = feed->desc;
    desc.items = MUSTER_ITEMS_UNKNOWN;
    feed->args[2].out = array;
    CHECK_STATUS(MUSTER_E_INVALID, muster_start(m, &desc, &job, &problem));
    CHECK_CONTAINS("no arrays", problem.text);
    feed->args[2].out = NULL;
    desc.source = NULL;
    CHECK_STATUS(MUSTER_E_INVALID, muster_start(m, &desc, &job, &problem));
    /* Units and windows of any size are refused, or found to need too much memory. */
    desc = feed->desc;
    desc.items = MUSTER_ITEMS_UNKNOWN;
    feed->how.unit_items = UINT64_MAX / 4;
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_start(m, &desc, &job, &problem));
    feed->how.unit_items = 0;
    feed->how.window = UINT64_MAX / 2;
    CHECK_STATUS(MUSTER_E_NO_MEMORY, muster_start(m, &desc, &job, &problem));
    /* No more is needed than there are items. */
    desc.items = 100;
    MUST(muster_job_memory_estimate(m, &desc, &bytes, &problem));
    CHECK(bytes < 1 << 20);
    CHECK(!job);
    free(feed);
    MUST(muster_close(m, &problem));
}

static void progress_tells_when_the_number_is_known(void)
{
    struct door door = DOOR_INIT;
    struct muster *m = open_sim("cpu,sim", SIM_MIXED);
    struct feed *feed = make_feed(m, 100, 8);
    struct muster_progress progress = { .size = sizeof progress };
    feed->desc.items = MUSTER_ITEMS_UNKNOWN;
    feed->special = 100;
    feed->act = stop_at_door;
    feed->door = &door;
    MUST(muster_start(m, &feed->desc, &feed->job, &problem));
    door_wait_arrived(&door, 1);
    MUST(muster_job_progress(feed->job, &progress, &problem));
    CHECK(progress.items == MUSTER_ITEMS_UNKNOWN && progress.remaining_ns == UINT64_MAX);
    door_open(&door);
    MUST(muster_job_wait(feed->job, NULL, &problem));
    MUST(muster_job_progress(feed->job, &progress, &problem));
    CHECK_EQUAL(100, progress.items);
    CHECK_EQUAL(100, progress.delivered);
    muster_job_destroy(feed->job);
    free(feed);
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(items_come_through_whatever_their_size_and_number),
        TEST(units_are_of_whole_multiples),
        TEST(a_source_may_give_one_item_at_a_time),
        TEST(fixed_units_wait_until_they_are_full),
        TEST(a_source_without_items_ends_at_once),
        TEST(what_a_source_says_ends_the_job),
        TEST(a_source_may_cancel),
        TEST(a_source_faster_than_the_sink_is_held_back),
        TEST(a_lost_device_costs_a_run_from_the_ring),
        TEST(losing_every_device_leaves_a_prefix),
        TEST(what_a_straggler_reads_stays),
        TEST(a_late_attempt_does_not_hold_the_source),
        TEST(what_a_hung_device_and_the_sink_read_stays),
        TEST(a_hung_device_does_not_hold_the_source),
        TEST(a_job_may_end_while_its_source_is_busy),
        TEST(a_sink_that_fails_stops_the_source),
        TEST(what_was_half_told_apart_is_not_delivered),
        TEST(wrong_descriptions_are_refused),
        TEST(progress_tells_when_the_number_is_known),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
