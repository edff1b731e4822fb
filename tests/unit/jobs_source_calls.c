/*
 * Sources that are called for several ranges at once: every item is asked for once and comes out in
 * order, whichever call returns first; the first answer in item order that is no number of items
 * decides; and a job ends at any moment, whatever its calls are doing.
 */
#include "jobs_support.h"
#include "source_items.h"

#include "backend/cpu/cpu.h"

#define SIM_MIXED                                                                                  \
    "[{\"items_per_s\": 2e7, \"launch_ns\": 1000}, {\"items_per_s\": 5e6, \"launch_ns\": 1000}]"
#define NOTHING UINT64_MAX

static uint64_t mixed(uint64_t seed, uint64_t value)
{
    value = (value + seed) * UINT64_C(0x9e3779b97f4a7c15);
    return (value ^ value >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 17;
}

struct feed {
    uint64_t items; /* there are */
    size_t item_bytes;
    uint64_t seed;   /* of how long calls take */
    bool gives_less; /* some calls answer fewer items than they were asked for */
    uint64_t ahead;  /* the most items that may be asked for and not delivered; 0: any number */
    struct muster_job_desc desc;
    struct muster_run_options how;
    struct muster_arg args[4];
    _Atomic unsigned char *answered; /* owns: how often each item was */
    _Atomic uint64_t wrong, calls, delivered;
    _Atomic uint32_t inside, inside_max, standing;
    /* What is done where an item is asked for, before it is given. */
    uint64_t special;
    int64_t (*act)(struct feed *feed);
    /* What is answered for items after the last. */
    int64_t (*beyond)(struct feed *feed, uint64_t items, void *to, size_t bytes);
    struct door *door;
    struct muster_job *job;
    _Atomic bool is_over;
};

/* Seldom: on a busy machine each such pause takes as long as everybody else's turn. */
static void pause_now_and_then(const struct feed *feed, uint64_t begin)
{
    if (mixed(feed->seed, begin) % 8 == 0)
        sched_yield();
}

static int64_t answer_for(struct feed *feed, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    if (begin == feed->special)
        return feed->act(feed);
    if (begin > feed->items || (begin == feed->items && feed->special == feed->items))
        return feed->beyond ? feed->beyond(feed, items, to, bytes) : 0;
    uint64_t count = items < feed->items - begin ? items : feed->items - begin;
    if (feed->special > begin && feed->special - begin < count)
        count = feed->special - begin;
    if (feed->gives_less && count > 1 && mixed(feed->seed, begin) % 3 == 0)
        count = 1 + mixed(feed->seed + 1, begin) % count;
    unsigned char *out = to;
    for (uint64_t i = 0; i < count; i++) {
        feed->wrong += atomic_fetch_add(&feed->answered[begin + i], 1) != 0;
        for (size_t b = 0; b < feed->item_bytes; b++)
            *out++ = item_byte(begin + i, b);
    }
    return (int64_t)count;
}

static int64_t give(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct feed *feed = user;
    uint32_t inside = atomic_fetch_add(&feed->inside, 1) + 1;
    uint32_t most = feed->desc.source_calls > 0 ? feed->desc.source_calls : 1;
    feed->wrong += inside > most || items == 0 || bytes != items * feed->item_bytes;
    feed->wrong += begin + items > feed->desc.items;
    feed->wrong += feed->ahead > 0 && begin + items - atomic_load(&feed->delivered) > feed->ahead;
    uint32_t before = atomic_load(&feed->inside_max);
    while (inside > before && !atomic_compare_exchange_weak(&feed->inside_max, &before, inside)) {}
    atomic_fetch_add(&feed->calls, 1);
    pause_now_and_then(feed, begin);
    int64_t answered = answer_for(feed, begin, items, to, bytes);
    pause_now_and_then(feed, begin + 1);
    atomic_fetch_sub(&feed->inside, 1);
    return answered;
}

static muster_status look(void *user, const struct muster_result *result)
{
    static _Thread_local unsigned char bytes[1 << 16];
    struct feed *feed = user;
    struct muster_range range = result->range;
    feed->wrong += !feed->how.unordered && range.begin != atomic_load(&feed->delivered);
    feed->wrong += range.end > feed->items;
    for (uint64_t i = range.begin; i < range.end && range.end <= feed->items; i++) {
        for (size_t b = 0; b < feed->item_bytes; b++)
            bytes[b] = item_byte(i, b);
        feed->wrong += ((const uint64_t *)result->outputs[0])[i - range.begin] !=
                       digest_item(bytes, feed->item_bytes, i);
        feed->wrong += memcmp((const char *)result->supplied + (i - range.begin) * feed->item_bytes,
                              bytes, feed->item_bytes) != 0;
    }
    atomic_fetch_add(&feed->delivered, range.end - range.begin);
    return MUSTER_OK;
}

static struct feed *make_feed(struct muster *m, uint64_t items, size_t item_bytes, uint32_t calls)
{
    struct feed *feed = calloc(1, sizeof *feed);
    CHECK(feed);
    feed->items = items;
    feed->item_bytes = item_bytes;
    feed->special = NOTHING;
    feed->answered = calloc(items + 1, 1);
    CHECK(feed->answered);
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
                                           .sink = look,
                                           .sink_user = feed,
                                           .source = give,
                                           .source_user = feed,
                                           .source_calls = calls,
                                           .options = &feed->how };
    feed->how.size = sizeof feed->how;
    return feed;
}

static void free_feed(struct feed *feed)
{
    free((void *)feed->answered);
    free(feed);
}

static muster_status run_feed(struct muster *m, struct feed *feed, struct muster_report *report)
{
    MUST(muster_start(m, &feed->desc, &feed->job, &problem));
    *report = full_report();
    muster_status status = muster_job_wait(feed->job, report, &problem);
    muster_job_destroy(feed->job);
    CHECK_EQUAL(0, feed->wrong);
    CHECK_EQUAL(feed->delivered, report->delivered);
    return status;
}

static void run_through(struct muster *m, struct feed *feed)
{
    struct muster_report report;
    muster_status status = run_feed(m, feed, &report);
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", muster_status_name(status), problem.text);
    CHECK_EQUAL(feed->items, feed->delivered);
    CHECK_EQUAL(feed->items, report.items);
    for (uint64_t i = 0; i < feed->items; i++)
        CHECK_EQUAL(1, feed->answered[i]);
    CHECK_EQUAL(0, feed->inside);
}

static void items_come_in_order_whichever_call_returns_first(void)
{
    static const size_t sizes[] = { 1, 3, 8, 100, 4096, 4097, 60000 };
    static const char *const devices[] = { "cpu", "sim", "cpu,sim" };
    uint64_t random = test_seed();
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        struct muster *m = open_sim(devices[d], SIM_MIXED);
        for (unsigned i = 0; i < test_repetitions(COUNT_OF(sizes) * TEST_BY_SANITIZER(4, 2, 1));
             i++) {
            size_t bytes = sizes[i % COUNT_OF(sizes)];
            struct feed *feed = make_feed(m, draw(&random, 8) * (60000 / (100 + bytes)), bytes,
                                          (uint32_t)draw(&random, 10));
            if (draw(&random, 2))
                feed->desc.items = MUSTER_ITEMS_UNKNOWN;
            feed->seed = draw(&random, 1000);
            feed->gives_less = draw(&random, 2);
            feed->how.unit_items = draw(&random, 2) * (1 + draw(&random, 60));
            feed->how.window = feed->ahead = draw(&random, 2) * (1 + draw(&random, 100));
            feed->how.depth = 1 + (uint32_t)draw(&random, 3);
            feed->how.unordered = (int)draw(&random, 2);
            run_through(m, feed);
            free_feed(feed);
        }
        MUST(muster_close(m, &problem));
    }
}

/* Items of a megabyte and more are pieces of their own. */
static void items_may_be_larger_than_what_is_asked_for_at_a_time(void)
{
    struct muster *m = open_sim("cpu", SIM_MIXED);
    struct feed *feed = make_feed(m, 20, 60000, 8);
    feed->desc.items = MUSTER_ITEMS_UNKNOWN;
    feed->how.unit_items = 1;
    run_through(m, feed);
    free_feed(feed);
    MUST(muster_close(m, &problem));
}

/* A source all of whose calls must be inside before one returns. */
#define TOGETHER 8u
static struct door together;

static int64_t give_together(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct feed *feed = user;
    if (atomic_load(&feed->calls) < TOGETHER) {
        int64_t given = give(user, begin, items, to, bytes);
        door_pass(&together);
        return given;
    }
    return give(user, begin, items, to, bytes);
}

static void as_many_calls_run_at_once_as_the_job_says(void)
{
    /* With a window of the caller's, and without. */
    for (unsigned i = 0; i < 4; i++) {
        struct muster *m = open_sim(i % 2 ? "cpu" : "sim", SIM_MIXED);
        struct feed *feed = make_feed(m, 20000, 8, TOGETHER);
        together = (struct door)DOOR_INIT;
        feed->desc.source = give_together;
        feed->how.unit_items = 100;
        feed->how.window = i / 2 * 1000;
        MUST(muster_start(m, &feed->desc, &feed->job, &problem));
        door_wait_arrived(&together, TOGETHER);
        door_open(&together);
        MUST(muster_job_wait(feed->job, NULL, &problem));
        muster_job_destroy(feed->job);
        CHECK_EQUAL(0, feed->wrong);
        CHECK_EQUAL(20000, feed->delivered);
        free_feed(feed);
        MUST(muster_close(m, &problem));
    }
}

/* Lanes work on what is there without a gap while a call is out: all before it, nothing after. */
static int64_t stop_and_give(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct feed *feed = user;
    if (begin <= 500 && begin + items > 500)
        door_pass(feed->door);
    return give(user, begin, items, to, bytes);
}

static void what_lies_after_a_gap_waits(void)
{
    struct door door = DOOR_INIT;
    struct muster *m = open_sim("cpu,sim", SIM_MIXED);
    struct feed *feed = make_feed(m, 4000, 8, 4);
    feed->desc.source = stop_and_give;
    feed->how.window = feed->ahead = 1000;
    feed->how.unit_items = 25;
    feed->door = &door;
    MUST(muster_start(m, &feed->desc, &feed->job, &problem));
    door_wait_arrived(&door, 1);
    /* Pieces are an eighth of the window: this one is items 500 to 625. */
    while (atomic_load(&feed->delivered) < 500)
        sched_yield();
    while (atomic_load(&feed->answered[1499]) == 0)
        sched_yield();
    CHECK_EQUAL(500, feed->delivered);
    CHECK_EQUAL(0, feed->answered[500]);
    door_open(&door);
    MUST(muster_job_wait(feed->job, NULL, &problem));
    muster_job_destroy(feed->job);
    CHECK_EQUAL(0, feed->wrong);
    CHECK_EQUAL(4000, feed->delivered);
    free_feed(feed);
    MUST(muster_close(m, &problem));
}

/* Ends and failures. */

static int64_t end_now(struct feed *feed)
{
    (void)feed;
    return 0;
}

static void a_source_may_end_anywhere(void)
{
    struct muster *m = open_sim("cpu,sim", SIM_MIXED);
    for (uint64_t items = 0; items < TEST_BY_SANITIZER(90, 60, 30); items++)
        for (unsigned i = 0; i < 2; i++) {
            struct feed *feed = make_feed(m, items, 8, 2 + (uint32_t)(items % 4));
            struct muster_report report;
            feed->seed = items;
            feed->gives_less = items % 2;
            feed->desc.items = i ? items + 1 + items % 7 : MUSTER_ITEMS_UNKNOWN;
            feed->how.unit_items = 1 + items % 3;
            feed->how.window = feed->ahead = 16;
            feed->special = items;
            feed->act = end_now;
            muster_status status = run_feed(m, feed, &report);
            if (i == 0) {
                CHECK_STATUS(MUSTER_OK, status);
                CHECK_EQUAL(items, report.delivered);
                CHECK_EQUAL(items, report.items);
            } else {
                char words[60];
                snprintf(words, sizeof words, "the source ended after %u of %u items",
                         (unsigned)items, (unsigned)feed->desc.items);
                CHECK_STATUS(MUSTER_E_IO, status);
                CHECK_CONTAINS(words, problem.text);
            }
            free_feed(feed);
        }
    MUST(muster_close(m, &problem));
}

/* The first in item order comes last: the call that has it waits until another has answered. */
#define FIRST_PLACE 100

static int64_t end_after_others(struct feed *feed)
{
    door_pass(feed->door);
    return 0;
}

static int64_t fail_after_others(struct feed *feed)
{
    door_pass(feed->door);
    return MUSTER_E_PARSE;
}

static int64_t fail_beyond(struct feed *feed, uint64_t items, void *to, size_t bytes)
{
    (void)items, (void)to, (void)bytes;
    door_open(feed->door);
    return MUSTER_E_INVALID;
}

static int64_t end_beyond(struct feed *feed, uint64_t items, void *to, size_t bytes)
{
    (void)items, (void)to, (void)bytes;
    door_open(feed->door);
    return 0;
}

static int64_t scribble_beyond(struct feed *feed, uint64_t items, void *to, size_t bytes)
{
    memset(to, 0xee, bytes);
    door_open(feed->door);
    return (int64_t)items;
}

static int64_t boast_beyond(struct feed *feed, uint64_t items, void *to, size_t bytes)
{
    (void)to, (void)bytes;
    door_open(feed->door);
    return (int64_t)items + 1;
}

static void the_first_answer_in_item_order_decides(void)
{
    int64_t (*const beyond[])(struct feed *, uint64_t, void *,
                              size_t) = { fail_beyond, end_beyond, scribble_beyond, boast_beyond };
    struct muster *m = open_sim("cpu,sim", SIM_MIXED);
    for (unsigned i = 0; i < 2 * COUNT_OF(beyond); i++) {
        struct door door = DOOR_INIT;
        struct feed *feed = make_feed(m, FIRST_PLACE, 8, 4);
        struct muster_report report;
        bool fails = i % 2;
        feed->desc.items = MUSTER_ITEMS_UNKNOWN;
        feed->how.window = feed->ahead = 1000;
        feed->how.unit_items = 20;
        feed->special = FIRST_PLACE;
        feed->act = fails ? fail_after_others : end_after_others;
        feed->beyond = beyond[i / 2];
        feed->door = &door;
        muster_status status = run_feed(m, feed, &report);
        if (fails) {
            CHECK_STATUS(MUSTER_E_PARSE, status);
            CHECK_CONTAINS("the source failed at item 100:", problem.text);
            CHECK(report.delivered <= FIRST_PLACE);
        } else {
            CHECK_STATUS(MUSTER_OK, status);
            CHECK_EQUAL(FIRST_PLACE, report.delivered);
            CHECK_EQUAL(FIRST_PLACE, report.items);
        }
        free_feed(feed);
    }
    MUST(muster_close(m, &problem));
}

static int64_t give_too_many(struct feed *feed)
{
    (void)feed;
    return INT64_MAX;
}

static int64_t fail_absurdly(struct feed *feed)
{
    (void)feed;
    return INT64_MIN;
}

static void any_call_may_fail(void)
{
    static const struct {
        int64_t (*act)(struct feed *feed);
        muster_status status;
        const char *words;
    } answers[] = { { give_too_many, MUSTER_E_INVALID, "the source was asked for" },
                    { fail_absurdly, MUSTER_E_IO, "the source failed at item" },
                    { end_now, MUSTER_E_IO, "of 4000 items" } };
    uint64_t random = test_seed();
    struct muster *m = open_sim("cpu,sim", SIM_MIXED);
    for (unsigned i = 0; i < test_repetitions(COUNT_OF(answers) * TEST_BY_SANITIZER(6, 4, 2));
         i++) {
        struct feed *feed = make_feed(m, 4000, 8, 8);
        struct muster_report report;
        feed->seed = draw(&random, 1000);
        feed->gives_less = draw(&random, 2);
        feed->how.window = feed->ahead = draw(&random, 2) * 500;
        feed->special = draw(&random, 4000);
        feed->act = answers[i % COUNT_OF(answers)].act;
        CHECK_STATUS(answers[i % COUNT_OF(answers)].status, run_feed(m, feed, &report));
        CHECK_CONTAINS(answers[i % COUNT_OF(answers)].words, problem.text);
        CHECK(report.delivered <= feed->special);
        CHECK(report.failed_count > 0 && report.failed[0].begin >= report.delivered);
        CHECK_EQUAL(4000, report.failed[report.failed_count - 1].end);
        free_feed(feed);
    }
    MUST(muster_close(m, &problem));
}

/*
 * The end comes while another call still writes: what the kernel reads after the last item is zeros
 * all the same.
 */
#define END_PLACE 98u
static _Atomic uint64_t after_end, scribbles;

static muster_status sum_halo(uint64_t begin, uint64_t end, void *const *args)
{
    const unsigned char *in = *(const unsigned char *const *)args[0];
    unsigned char *out = *(unsigned char *const *)args[1];
    uint64_t first = *(const uint64_t *)args[2];
    /* Only what comes too late for the last unit could be there later. */
    while (first + end >= END_PLACE && atomic_load(&scribbles) < 3)
        sched_yield();
    for (uint64_t i = begin; i < end; i++) {
        out[i] = in[i];
        for (uint64_t k = 1; k <= 4; k++)
            if (first + i + k >= END_PLACE)
                atomic_fetch_add(&after_end, in[i + k]);
    }
    return MUSTER_OK;
}

static int64_t scribble_late(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct feed *feed = user;
    if (begin < END_PLACE) {
        uint64_t count = items < END_PLACE - begin ? items : END_PLACE - begin;
        memset(to, 1, count);
        return (int64_t)count;
    }
    if (begin == END_PLACE) {
        /* All that lie after it are inside by now. */
        door_wait_arrived(feed->door, 3);
        atomic_store(&feed->is_over, true);
        return 0;
    }
    door_pass(feed->door);
    memset(to, 0xee, bytes);
    atomic_fetch_add(&scribbles, 1);
    return 0;
}

static void *open_at_the_end(void *argument)
{
    struct feed *feed = argument;
    while (!atomic_load(&feed->is_over))
        sched_yield();
    door_open(feed->door);
    return NULL;
}

static void after_the_end_there_are_zeros(void)
{
    struct door door = DOOR_INIT;
    struct muster *m = open_sim("cpu", SIM_MIXED);
    struct feed *feed = make_feed(m, END_PLACE, 1, 4);
    const struct muster_arg args[] = { { MUSTER_ARG_OF(MUSTER_ARG_SOURCE), .bytes = 1, .halo = 4 },
                                       { MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = 1 },
                                       MUSTER_FIRST };
    pthread_t opener;
    memcpy(feed->args, args, sizeof args);
    feed->door = &door;
    feed->desc.arg_count = 3;
    feed->desc.kernel = kernel_of(m, sum_halo);
    feed->desc.source = scribble_late;
    feed->desc.sink = NULL;
    feed->desc.items = MUSTER_ITEMS_UNKNOWN;
    /* Pieces of 50 items: the end is in the second, and the third begins within its halo. */
    feed->how.window = 400;
    feed->how.unit_items = 10;
    atomic_store(&after_end, 0);
    atomic_store(&scribbles, 0);
    CHECK(pthread_create(&opener, NULL, open_at_the_end, feed) == 0);
    MUST(muster_start(m, &feed->desc, &feed->job, &problem));
    MUST(muster_job_wait(feed->job, NULL, &problem));
    muster_job_destroy(feed->job);
    CHECK(pthread_join(opener, NULL) == 0);
    CHECK_EQUAL(0, after_end);
    free_feed(feed);
    MUST(muster_close(m, &problem));
}

/* Devices that fail, and the ring. */

static void a_lost_device_costs_a_run_from_the_ring(void)
{
    uint64_t random = test_seed();
    for (unsigned i = 0; i < test_repetitions(TEST_BY_SANITIZER(10, 6, 4)); i++) {
        char sim[300];
        snprintf(sim, sizeof sim,
                 "[{\"items_per_s\": 2e7, \"faults\": [{\"kind\": \"lost\", \"at_launch\": %u}]},"
                 " {\"items_per_s\": 5e6, \"faults\": [{\"kind\": \"unit_error\","
                 "  \"probability\": 0.1}]}, {\"items_per_s\": 5e6}]",
                 1 + (unsigned)draw(&random, 20));
        struct muster *m = open_sim("sim", sim);
        struct feed *feed = make_feed(m, 3000, 24, 5);
        feed->desc.items = i % 2 ? 3000 : MUSTER_ITEMS_UNKNOWN;
        feed->seed = draw(&random, 1000);
        feed->how.window = feed->ahead = 200;
        feed->how.tries = 9;
        feed->how.unit_items = draw(&random, 2) * 20;
        run_through(m, feed);
        free_feed(feed);
        MUST(muster_close(m, &problem));
    }
}

/*
 * A kernel that stops at a door the first time it is given the unit, and then looks whether what it
 * was to read is still there: it must be, though its device was taken to hang and the source goes on.
 */
#define STRAGGLER 80
static struct door *_Atomic straggler_door;
static _Atomic int straggler_runs;
static _Atomic uint64_t changed_under_it;

static muster_status digest_at_door(uint64_t begin, uint64_t end, void *const *args)
{
    const unsigned char *in = *(const unsigned char *const *)args[0];
    size_t item_bytes = *(const size_t *)args[1];
    uint64_t first = *(const uint64_t *)args[3];
    if (first == STRAGGLER && begin == 0 && atomic_fetch_add(&straggler_runs, 1) == 0) {
        door_pass(atomic_load(&straggler_door));
        for (uint64_t i = begin; i < end; i++)
            for (size_t b = 0; b < item_bytes; b++)
                if (in[i * item_bytes + b] != item_byte(first + i, b))
                    atomic_fetch_add(&changed_under_it, 1);
    }
    return digest(begin, end, args);
}

static void *open_door_half_way(void *argument)
{
    struct feed *feed = argument;
    while (atomic_load(&feed->delivered) < feed->items / 2 && !atomic_load(&feed->is_over))
        sched_yield();
    door_open(feed->door);
    return NULL;
}

/*
 * The last call that there is room for beside the straggler: returns when all before it is delivered.
 * So it is out when the ring could be left.
 */
#define LAST_PIECE (STRAGGLER + 64 - 8)
static int64_t give_last_late(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct feed *feed = user;
    while (begin == LAST_PIECE && atomic_load(&feed->delivered) < LAST_PIECE &&
           !atomic_load(&feed->is_over))
        sched_yield();
    /* The source's other threads have time to do what they should not. */
    for (uint64_t until = begin == LAST_PIECE ? now_ns() + 60 * MS : 0; now_ns() < until;)
        sched_yield();
    return give(user, begin, items, to, bytes);
}

static void what_a_hung_device_reads_stays(void)
{
    struct door door = DOOR_INIT;
    struct muster_backend twin = backend_cpu;
    const struct muster_backend *tables[] = { &twin };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster_report report;
    twin.name = "twin";
    options.cpu_workers = 1;
    options.backends = tables;
    options.backend_count = 1;
    options.devices = "cpu:0,twin:0";
    struct muster *m = open_with(options);
    struct feed *feed = make_feed(m, 4000, 8, 4);
    feed->desc.kernel = kernel_of(m, digest_at_door);
    feed->desc.source = give_last_late;
    feed->how.window = feed->ahead = 64;
    feed->how.unit_items = 8;
    feed->how.depth = 1;
    feed->how.no_copies = 1;
    feed->how.timeout_ns = test_patience(100 * MS);
    feed->door = &door;
    atomic_store(&straggler_door, &door);
    atomic_store(&straggler_runs, 0);
    atomic_store(&changed_under_it, 0);
    pthread_t opener;
    CHECK(pthread_create(&opener, NULL, open_door_half_way, feed) == 0);
    muster_status status = run_feed(m, feed, &report);
    atomic_store(&feed->is_over, true);
    CHECK(pthread_join(opener, NULL) == 0);
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, changed_under_it);
    CHECK_EQUAL(feed->items, report.delivered);
    CHECK(status == MUSTER_OK || status == MUSTER_E_DEVICE_HUNG);
    free_feed(feed);
}

/* Pipelines. */

static muster_status look_at_copy(void *user, const struct muster_result *result)
{
    struct feed *feed = user;
    const unsigned char *out = result->outputs[0];
    feed->wrong += result->range.begin != atomic_load(&feed->delivered);
    for (uint64_t i = result->range.begin; i < result->range.end; i++)
        for (size_t b = 0; b < feed->item_bytes; b++)
            feed->wrong += *out++ != item_byte(i, b);
    atomic_store(&feed->delivered, result->range.end);
    return MUSTER_OK;
}

static void a_pipeline_takes_them_too(void)
{
    enum { IN, DEVICE, OUT };
    const struct muster_buffer buffers[] = {
        { sizeof *buffers, "in", MUSTER_HOST, 24, 0, 2, MUSTER_INPUT },
        { sizeof *buffers, "device", MUSTER_DEVICE, 24, 0, 2, 0 },
        { sizeof *buffers, "out", MUSTER_HOST, 24, 0, 2, MUSTER_OUTPUT }
    };
    const struct muster_stage stages[] = {
        { .size = sizeof(struct muster_stage),
          .name = "up",
          .stream = "h2d",
          .reads = 1,
          .writes = 2,
          .flags = MUSTER_COPY },
        { .size = sizeof(struct muster_stage),
          .name = "down",
          .stream = "d2h",
          .reads = 2,
          .writes = 4,
          .flags = MUSTER_COPY },
    };
    uint64_t random = test_seed();
    struct muster *m = open_sim("cpu,sim", SIM_MIXED);
    struct muster_pipeline *pipeline = NULL;
    MUST(muster_pipeline_create(m, buffers, COUNT_OF(buffers), stages, COUNT_OF(stages), NULL,
                                &pipeline, &problem));
    for (unsigned i = 0; i < test_repetitions(TEST_BY_SANITIZER(8, 6, 4)); i++) {
        struct feed *feed = make_feed(m, 1 + draw(&random, 6000), 24, 1 + i);
        feed->seed = draw(&random, 1000);
        feed->gives_less = draw(&random, 2);
        feed->desc.kernel = NULL;
        feed->desc.args = NULL;
        feed->desc.arg_count = 0;
        feed->desc.pipeline = pipeline;
        feed->desc.sink = look_at_copy;
        feed->desc.items = i % 2 ? feed->items : MUSTER_ITEMS_UNKNOWN;
        feed->how.unit_items = draw(&random, 2) * 30;
        feed->how.window = feed->ahead = draw(&random, 2) * 500;
        run_through(m, feed);
        free_feed(feed);
    }
    muster_pipeline_destroy(pipeline);
    MUST(muster_close(m, &problem));
}

/* Ending. */

static int64_t stand(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct feed *feed = user;
    atomic_fetch_add(&feed->standing, 1);
    if (begin >= feed->special)
        door_pass(feed->door);
    int64_t given = give(user, begin, items, to, bytes);
    atomic_fetch_sub(&feed->standing, 1);
    return given;
}

enum ending { ENDING_CANCEL, ENDING_DESTROY, ENDING_CLOSE };

static void *open_later(void *argument)
{
    struct feed *feed = argument;
    uint64_t until = now_ns() + 2 * MS;
    while (now_ns() < until)
        sched_yield();
    door_open(feed->door);
    return NULL;
}

static void a_job_may_end_while_all_calls_are_busy(void)
{
    for (unsigned i = 0; i < test_repetitions(9); i++) {
        struct counting counting = COUNTING_INIT;
        struct door door = DOOR_INIT;
        struct muster_options options = MUSTER_OPTIONS_INIT;
        options.cpu_workers = 2;
        options.sim = SIM_MIXED;
        options.allocator = counting_allocator(&counting);
        struct muster *m = open_with(options);
        struct feed *feed = make_feed(m, 8000, 8, 8);
        feed->door = &door;
        feed->desc.source = stand;
        feed->how.window = 800;
        feed->how.unit_items = 20;
        feed->special = i % 2 * 2000;
        feed->act = end_now;
        MUST(muster_start(m, &feed->desc, &feed->job, &problem));
        door_wait_arrived(&door, 8);
        if (i % 3 == ENDING_CANCEL)
            muster_job_cancel(feed->job);
        pthread_t opener;
        CHECK(pthread_create(&opener, NULL, open_later, feed) == 0);
        if (i % 3 == ENDING_CANCEL)
            CHECK_STATUS(MUSTER_E_CANCELLED, muster_job_wait(feed->job, NULL, &problem));
        CHECK(i % 3 != ENDING_CANCEL || feed->standing == 0);
        if (i % 3 != ENDING_CLOSE)
            muster_job_destroy(feed->job);
        MUST(muster_close(m, &problem));
        CHECK(pthread_join(opener, NULL) == 0);
        CHECK_EQUAL(0, counting.bytes);
        CHECK_EQUAL(0, feed->wrong);
        /* Nothing more is asked for once the job is cancelled. */
        CHECK(i % 6 != ENDING_CANCEL || feed->calls == 8);
        free_feed(feed);
    }
}

/* One of the calls does not return: the job is given up after close_ns, and named. */
static void a_call_that_does_not_return_is_given_up(void)
{
    struct counting counting = COUNTING_INIT;
    struct door door = DOOR_INIT;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster_progress progress = { .size = sizeof progress };
    options.cpu_workers = 2;
    options.sim = SIM_MIXED;
    options.close_ns = test_patience(30 * MS);
    options.allocator = counting_allocator(&counting);
    struct muster *m = open_with(options);
    struct feed *feed = make_feed(m, 8000, 8, 4);
    feed->door = &door;
    feed->desc.source = stop_and_give;
    feed->how.window = 800;
    MUST(muster_start(m, &feed->desc, &feed->job, &problem));
    door_wait_arrived(&door, 1);
    muster_job_cancel(feed->job);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_job_wait(feed->job, NULL, &problem));
    CHECK_CONTAINS("no answer from the source", problem.text);
    MUST(muster_job_progress(feed->job, &progress, &problem));
    CHECK_TEXT("the source", progress.waits_for);
    muster_job_destroy(feed->job);
    door_open(&door);
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, feed->wrong);
    CHECK_EQUAL(0, counting.bytes);
    free_feed(feed);
}

/* What a source may do of its own job. */

static int64_t destroy_and_wait(struct feed *feed)
{
    struct muster_error err;
    feed->wrong += muster_job_wait(feed->job, NULL, &err) != MUSTER_E_ORDER;
    muster_job_destroy(feed->job);
    return 0;
}

static void a_call_may_destroy_the_job_beside_others(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.cpu_workers = 2;
    options.sim = SIM_MIXED;
    options.allocator = counting_allocator(&counting);
    for (unsigned i = 0; i < test_repetitions(6); i++) {
        struct muster *m = open_with(options);
        struct feed *feed = make_feed(m, 8000, 8, 8);
        feed->seed = i;
        feed->special = i * 700;
        feed->act = destroy_and_wait;
        feed->how.window = feed->ahead = 800;
        MUST(muster_start(m, &feed->desc, &feed->job, &problem));
        MUST(muster_close(m, &problem));
        CHECK_EQUAL(0, feed->wrong);
        CHECK_EQUAL(0, feed->inside);
        CHECK_EQUAL(0, counting.bytes);
        free_feed(feed);
    }
}

static void how_many_calls_is_limited(void)
{
    struct muster *m = open_sim("cpu,sim", SIM_MIXED);
    struct feed *feed = make_feed(m, 2000, 8, 64);
    uint64_t one, many;
    run_through(m, feed);
    feed->desc.source_calls = 65;
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_start(m, &feed->desc, &feed->job, &problem));
    CHECK_CONTAINS("source_calls is 65; at most 64", problem.text);
    /* No more memory than the window that was asked for, and else no more than twice as much. */
    feed->desc.items = MUSTER_ITEMS_UNKNOWN;
    for (unsigned i = 0; i < 2; i++) {
        feed->how.window = i * 100000;
        feed->desc.source_calls = 1;
        MUST(muster_job_memory_estimate(m, &feed->desc, &one, &problem));
        feed->desc.source_calls = 8;
        MUST(muster_job_memory_estimate(m, &feed->desc, &many, &problem));
        CHECK(many >= one && many <= (i ? one : 2 * one));
    }
    free_feed(feed);
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(items_come_in_order_whichever_call_returns_first),
        TEST(items_may_be_larger_than_what_is_asked_for_at_a_time),
        TEST(as_many_calls_run_at_once_as_the_job_says),
        TEST(what_lies_after_a_gap_waits),
        TEST(a_source_may_end_anywhere),
        TEST(the_first_answer_in_item_order_decides),
        TEST(any_call_may_fail),
        TEST(after_the_end_there_are_zeros),
        TEST(a_lost_device_costs_a_run_from_the_ring),
        TEST(what_a_hung_device_reads_stays),
        TEST(a_pipeline_takes_them_too),
        TEST(a_job_may_end_while_all_calls_are_busy),
        TEST(a_call_that_does_not_return_is_given_up),
        TEST(a_call_may_destroy_the_job_beside_others),
        TEST(how_many_calls_is_limited),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
