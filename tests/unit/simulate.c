/*
 * A simulation's memory: counted, and ending anywhere; what it tells of scenarios that one can work out
 * by hand. What it decides in others is tests/sim's.
 */
#include "support.h"

static const char *const scenarios[] = {
    "{\"devices\":[{\"name\":\"a\",\"count\":3,\"items_per_s\":1e6},{\"items_per_s\":1e5,"
    "\"faults\":[{\"kind\":\"lost\",\"at_ms\":1}]}],\"job\":{\"items\":20000}}",
    "{\"devices\":[{\"items_per_s\":1e6,\"count\":40}],\"job\":{\"items\":5000,\"mode\":\"place\","
    "\"cost\":{\"kind\":\"pareto\",\"alpha\":2},\"unit\":\"quarter\"}}",
    "{\"devices\":[{\"items_per_s\":1e3,\"faults\":[{\"kind\":\"lost\",\"at_ms\":1}]}],"
    "\"job\":{\"items\":5000}}",
    "{\"devices\":[{\"items_per_s\":1e6,\"count\":2}],\"job\":{\"items\":5000,\"ordered\":false,"
    "\"depth\":3}}",
    "{\"devices\":[{\"items_per_s\":1e6,\"count\":2}],\"job\":{\"items\":10,"
    "\"hints\":{\"min_compute\":[9,0]}}}",
};

/* Memory of which this many pieces are given; then none, or all but one. */
struct ending {
    struct counting counting;
    unsigned left;
    bool is_once, is_over;
    size_t most; /* bytes at a time */
};

static void *take_some(void *user, size_t bytes, size_t alignment)
{
    struct ending *ending = user;
    if (ending->left == 0 && !(ending->is_once && ending->is_over)) {
        ending->is_over = true;
        return NULL;
    }
    ending->left -= ending->left > 0;
    void *memory = counting_allocate(&ending->counting, bytes, alignment);
    size_t now = ending->counting.bytes;
    ending->most = now > ending->most ? now : ending->most;
    return memory;
}

static void give_back(void *user, void *memory, size_t bytes)
{
    struct ending *ending = user;
    counting_release(&ending->counting, memory, bytes);
}

static void memory_may_end_anywhere(void)
{
    struct ending ending = { .counting = COUNTING_INIT };
    const struct muster_simulation_options options = {
        .size = sizeof options,
        .seed = 1,
        .allocator = &(const struct muster_allocator){ sizeof(struct muster_allocator), take_some,
                                                       give_back, &ending }
    };
    for (size_t i = 0; i < 2 * COUNT_OF(scenarios); i++) {
        const char *text = scenarios[i / 2];
        muster_status status = MUSTER_E_NO_MEMORY;
        unsigned n = 0;
        ending.is_once = i % 2;
        for (; status == MUSTER_E_NO_MEMORY; n++) {
            struct muster_simulation *result = NULL;
            ending.left = n;
            ending.is_over = false;
            problem = (struct muster_error){ .text = "" };
            status = muster_simulate(text, strlen(text), &options, &result, &problem);
            CHECK_EQUAL(ending.is_over, status == MUSTER_E_NO_MEMORY);
            CHECK(status == MUSTER_OK || !result);
            CHECK(status == MUSTER_OK || status == MUSTER_E_NO_MEMORY ||
                  status == MUSTER_E_NO_DEVICE);
            CHECK(status == MUSTER_OK || problem.text[0] != '\0');
            muster_simulation_destroy(result);
            CHECK_EQUAL(0, ending.counting.bytes);
            CHECK_EQUAL(0, ending.counting.wrong);
        }
        CHECK(n > 2);
    }
    muster_simulation_destroy(NULL);
}

/* How many bytes the simulation of a job of this many items took, at the most. */
static size_t bytes_for(const char *format, unsigned long long items)
{
    struct ending ending = { .counting = COUNTING_INIT, .left = 1000 };
    const struct muster_simulation_options options = {
        .size = sizeof options,
        .seed = 1,
        .allocator = &(const struct muster_allocator){ sizeof(struct muster_allocator), take_some,
                                                       give_back, &ending }
    };
    struct muster_simulation *result = NULL;
    char text[256];
    snprintf(text, sizeof text, format, items, items / 8);
    MUST(muster_simulate(text, strlen(text), &options, &result, &problem));
    CHECK_EQUAL(items, result->items_delivered);
    CHECK_EQUAL(0, result->duplicated + result->lost + result->out_of_order);
    muster_simulation_destroy(result);
    CHECK_EQUAL(0, ending.counting.bytes);
    return ending.most;
}

/* A bit for each item is kept only where nothing else would show one that is delivered twice. */
static void memory_does_not_grow_with_the_items(void)
{
    static const char ordered[] = "{\"devices\":[{\"items_per_s\":1e9}],"
                                  "\"job\":{\"items\":%llu,\"unit\":%llu}}";
    static const char unordered[] = "{\"devices\":[{\"items_per_s\":1e9}],\"job\":{\"items\":%llu,"
                                    "\"unit\":%llu,\"ordered\":false}}";
    const unsigned long long few = 1 << 20, many = UINT64_C(1) << 40;
    CHECK_EQUAL(bytes_for(ordered, few), bytes_for(ordered, many));
    CHECK_EQUAL(bytes_for(ordered, many), bytes_for(unordered, many));
    CHECK(bytes_for(unordered, few) > bytes_for(ordered, few));
}

/* What was told, oldest first. */
struct told {
    struct muster_trace_event events[64];
    size_t count;
};

static void keep_event(void *user, const struct muster_trace_event *event)
{
    struct told *told = user;
    CHECK(told->count < COUNT_OF(told->events));
    told->events[told->count++] = *event;
}

static struct muster_simulation *simulate(const char *text, struct told *told)
{
    const struct muster_simulation_options options = {
        .size = sizeof options, .seed = 1, .event = keep_event, .event_user = told, .check = 1
    };
    struct muster_simulation *result = NULL;
    *told = (struct told){ .count = 0 };
    MUST(muster_simulate(text, strlen(text), &options, &result, &problem));
    CHECK(!result->broken);
    return result;
}

static void check_told(const struct told *told, const struct muster_trace_event *expected,
                       size_t count)
{
    for (size_t i = 0; i < count && i < told->count; i++) {
        const struct muster_trace_event *a = &told->events[i], *b = &expected[i];
        if (a->kind != b->kind || a->outcome != b->outcome || a->begin_ns != b->begin_ns ||
            a->end_ns != b->end_ns || a->range.begin != b->range.begin ||
            a->range.end != b->range.end || a->bytes != b->bytes || a->device != b->device ||
            a->job != 1 || a->status != b->status || a->is_retry != b->is_retry ||
            a->is_copy != b->is_copy)
            test_fail(__FILE__, __LINE__,
                      "event %zu is kind %d, outcome %d, from %llu to %llu, items %llu to %llu", i,
                      (int)a->kind, (int)a->outcome, (unsigned long long)a->begin_ns,
                      (unsigned long long)a->end_ns, (unsigned long long)a->range.begin,
                      (unsigned long long)a->range.end);
    }
    CHECK_EQUAL(count, told->count);
}

#define UNIT_EVENT(first, last, from, to, what)                                                    \
    {                                                                                              \
        .kind = MUSTER_TRACE_UNIT, .outcome = (what), .begin_ns = (from), .end_ns = (to),          \
        .range = {                                                                                 \
            (first),                                                                               \
            (last)                                                                                 \
        }                                                                                          \
    }
#define DELIVERY_EVENT(first, last, at)                                                            \
    {                                                                                              \
        .kind = MUSTER_TRACE_DELIVERY, .begin_ns = (at), .end_ns = (at), .range = {                \
            (first),                                                                               \
            (last)                                                                                 \
        }                                                                                          \
    }

/* 10 us in, 10 us to compute and 20 us out for each of two units: the second waits for the link. */
static void links_and_engine_work_beside_each_other(void)
{
    struct told told;
    struct muster_simulation *result = simulate(
        "{\"devices\":[{\"items_per_s\":1e6,\"h2d_bytes_per_s\":1e9,\"d2h_bytes_per_s\":5e8}],"
        "\"job\":{\"items\":20,\"unit\":10,\"item_bytes_in\":1000,\"item_bytes_out\":1000}}",
        &told);
    struct muster_trace_event expected[] = {
        UNIT_EVENT(0, 10, 0, 40000, MUSTER_TRACE_DONE),
        DELIVERY_EVENT(0, 10, 40000),
        UNIT_EVENT(10, 20, 10000, 60000, MUSTER_TRACE_DONE),
        DELIVERY_EVENT(10, 20, 60000),
        { .kind = MUSTER_TRACE_JOB, .end_ns = 60000, .range = { 0, 20 } },
    };
    expected[0].bytes = expected[2].bytes = 20000;
    check_told(&told, expected, COUNT_OF(expected));
    CHECK_STATUS(MUSTER_OK, result->status);
    CHECK_EQUAL(60000, result->makespan_ns);
    CHECK_EQUAL(40000, result->bound_ns);
    CHECK(result->ratio == 1.5);
    CHECK_EQUAL(2, result->units);
    CHECK_EQUAL(20, result->items_delivered);
    CHECK_EQUAL(20, result->window_max);
    CHECK_EQUAL(0, result->lost + result->duplicated + result->out_of_order + result->retries);
    CHECK_EQUAL(60000, result->devices[0]->busy_ns);
    CHECK_EQUAL(20, result->devices[0]->items);
    CHECK_EQUAL(2, result->devices[0]->units);
    CHECK_TEXT("ok", result->devices[0]->health);
    CHECK_TEXT("sim:0", result->devices[0]->id);
    muster_simulation_destroy(result);
}

/* Without bytes a unit begins when the engine is free; the third fails once and is tried again. */
static void a_unit_that_fails_is_tried_again(void)
{
    struct told told;
    struct muster_simulation *result =
        simulate("{\"devices\":[{\"items_per_s\":1e6,\"faults\":[{\"kind\":\"unit_error\","
                 "\"at_launch\":3,\"probability\":1}]}],"
                 "\"job\":{\"items\":30,\"unit\":10,\"depth\":1}}",
                 &told);
    struct muster_trace_event expected[] = {
        UNIT_EVENT(0, 10, 0, 10000, MUSTER_TRACE_DONE),
        DELIVERY_EVENT(0, 10, 10000),
        UNIT_EVENT(10, 20, 10000, 20000, MUSTER_TRACE_DONE),
        DELIVERY_EVENT(10, 20, 20000),
        UNIT_EVENT(20, 30, 20000, 30000, MUSTER_TRACE_FAILED),
        UNIT_EVENT(20, 30, 30000, 40000, MUSTER_TRACE_DONE),
        DELIVERY_EVENT(20, 30, 40000),
        { .kind = MUSTER_TRACE_JOB, .end_ns = 40000, .range = { 0, 30 } },
    };
    expected[4].status = MUSTER_E_FAILED;
    expected[5].is_retry = true;
    check_told(&told, expected, COUNT_OF(expected));
    CHECK_EQUAL(40000, result->makespan_ns);
    CHECK_EQUAL(30000, result->bound_ns);
    CHECK_EQUAL(1, result->retries);
    CHECK_EQUAL(1, result->devices[0]->retries);
    CHECK_EQUAL(40000, result->devices[0]->busy_ns);
    muster_simulation_destroy(result);
}

/* Lost while it computes: what is not delivered is lost and named, and the job says so. */
static void a_device_that_is_lost_ends_its_job(void)
{
    struct told told;
    struct muster_simulation *result =
        simulate("{\"devices\":[{\"items_per_s\":1e6,\"faults\":[{\"kind\":\"lost\","
                 "\"at_ms\":0.015}]}],\"job\":{\"items\":30,\"unit\":10,\"depth\":1}}",
                 &told);
    struct muster_trace_event expected[] = {
        UNIT_EVENT(0, 10, 0, 10000, MUSTER_TRACE_DONE),
        DELIVERY_EVENT(0, 10, 10000),
        UNIT_EVENT(10, 20, 10000, 15000, MUSTER_TRACE_LOST),
        { .kind = MUSTER_TRACE_DEVICE_LOST, .begin_ns = 15000, .end_ns = 15000 },
        { .kind = MUSTER_TRACE_JOB,
          .outcome = MUSTER_TRACE_FAILED,
          .end_ns = 15000,
          .range = { 0, 30 },
          .status = MUSTER_E_FAILED },
    };
    check_told(&told, expected, COUNT_OF(expected));
    CHECK_STATUS(MUSTER_E_FAILED, result->status);
    CHECK_EQUAL(15000, result->makespan_ns);
    CHECK_EQUAL(0, result->bound_ns);
    CHECK(result->ratio == 0);
    CHECK_EQUAL(10, result->items_delivered);
    CHECK_EQUAL(20, result->lost);
    CHECK_EQUAL(15000, result->devices[0]->busy_ns);
    CHECK_TEXT("lost", result->devices[0]->health);
    uint64_t failed = 0;
    for (size_t i = 0; i < result->failed_count; i++)
        failed += result->failed[i].end - result->failed[i].begin;
    CHECK_EQUAL(20, failed);
    muster_simulation_destroy(result);
}

/* What cannot take part is named with the hint that keeps it out; the rest do the work. */
/* Both want all of the one core: while they share it each has half its rate. */
static void devices_that_share_slow_each_other_down(void)
{
    struct told told;
    struct muster_simulation *result =
        simulate("{\"resources\":[{\"name\":\"core\",\"capacity\":1}],\"devices\":["
                 "{\"items_per_s\":1e6,\"uses\":{\"core\":1}},"
                 "{\"items_per_s\":1e6,\"uses\":{\"core\":1},\"sensitive\":2}],"
                 "\"job\":{\"items\":30,\"unit\":15,\"depth\":1,\"speculate\":false}}",
                 &told);
    /* 15 items in 30 us; the other has done a quarter by then, and 11.25 items are left. */
    struct muster_trace_event expected[] = {
        UNIT_EVENT(0, 15, 0, 30000, MUSTER_TRACE_DONE),
        DELIVERY_EVENT(0, 15, 30000),
        UNIT_EVENT(15, 30, 0, 37500, MUSTER_TRACE_DONE),
        DELIVERY_EVENT(15, 30, 37500),
        { .kind = MUSTER_TRACE_JOB, .end_ns = 37500, .range = { 0, 30 } },
    };
    expected[2].device = 1;
    check_told(&told, expected, COUNT_OF(expected));
    muster_simulation_destroy(result);
}

static void a_device_takes_part_from_when_it_opens(void)
{
    struct told told;
    struct muster_simulation *result =
        simulate("{\"devices\":[{\"items_per_s\":1e6},{\"items_per_s\":1e6,\"opens_ms\":0.025}],"
                 "\"job\":{\"items\":50,\"unit\":10,\"depth\":1}}",
                 &told);
    uint64_t first_ns = UINT64_MAX;
    for (size_t i = 0; i < told.count; i++)
        if (told.events[i].kind == MUSTER_TRACE_UNIT && told.events[i].device == 1 &&
            told.events[i].begin_ns < first_ns)
            first_ns = told.events[i].begin_ns;
    CHECK_EQUAL(25000, first_ns);
    CHECK_EQUAL(40000, result->makespan_ns);
    CHECK_EQUAL(37500, result->bound_ns);
    muster_simulation_destroy(result);
}

/* A GPU ten times as fast that takes 400 ms to open: how many items it does. */
static uint64_t items_of_late(uint64_t items, uint64_t *makespan_ns)
{
    struct muster_simulation *result = NULL;
    char text[256];
    snprintf(text, sizeof text,
             "{\"devices\":[{\"items_per_s\":1e6},{\"items_per_s\":1e7,\"opens_ms\":400}],"
             "\"job\":{\"items\":%llu,\"opens_when_worth\":true}}",
             (unsigned long long)items);
    MUST(muster_simulate(text, strlen(text), NULL, &result, &problem));
    uint64_t late = result->devices[1]->items;
    *makespan_ns = result->makespan_ns;
    muster_simulation_destroy(result);
    return late;
}

static void a_device_is_opened_when_it_is_worth_it(void)
{
    uint64_t makespan_ns;
    /* 0.45 s alone: opened at once the device would be ready for the last ninth. */
    CHECK_EQUAL(0, items_of_late(450000, &makespan_ns));
    CHECK_EQUAL(450000000, makespan_ns);
    /* 5 s alone, 0.818 s if it is opened at once: 20 ms later. */
    CHECK(items_of_late(5000000, &makespan_ns) > 4000000);
    CHECK(makespan_ns >= 836000000 && makespan_ns < 850000000);
}

/*
 * The slow device has a unit that the fast one runs too. What has lost is stopped when that is known, or
 * runs to its end where the device cannot be stopped.
 */
static void what_has_lost_is_stopped_where_it_can_be(void)
{
    static const char *const devices[] = { "", ",\"stoppable\":false" };
    for (int i = 0; i < 2; i++) {
        struct told told;
        char text[512];
        snprintf(text, sizeof text,
                 "{\"devices\":[{\"items_per_s\":1e6},{\"items_per_s\":1e3%s}],"
                 "\"job\":{\"items\":40,\"unit\":10,\"depth\":1,\"window\":20}}",
                 devices[i]);
        struct muster_simulation *result = simulate(text, &told);
        uint32_t late = 0, late_before_end = 0;
        for (size_t k = 0; k < told.count; k++) {
            const struct muster_trace_event *event = &told.events[k];
            bool is_late = event->kind == MUSTER_TRACE_UNIT && event->outcome == MUSTER_TRACE_LATE;
            late += is_late;
            late_before_end += is_late && event->end_ns < result->makespan_ns;
            CHECK(!is_late || event->device == 1);
        }
        CHECK(late > 0);
        CHECK_EQUAL(i == 0, late_before_end > 0);
        muster_simulation_destroy(result);
    }
}

static void refused_devices_take_no_part(void)
{
    struct told told;
    struct muster_simulation *result = simulate(
        "{\"devices\":[{\"items_per_s\":1e6,\"memory\":1000,\"name\":\"small\"},"
        "{\"items_per_s\":1e6,\"memory\":2000},{\"items_per_s\":1e6,\"memory\":2000,\"compute\":"
        "[8,0]}],\"job\":{\"items\":10,\"unit\":10,\"hints\":{\"min_free\":2000,"
        "\"min_compute\":[8,0]}}}",
        &told);
    CHECK_EQUAL(3, result->device_count);
    CHECK_TEXT("small", result->devices[0]->name);
    CHECK_TEXT("min_free", result->devices[0]->refused);
    CHECK_TEXT("min_compute", result->devices[1]->refused);
    CHECK(!result->devices[2]->refused);
    CHECK_TEXT("sim:2", result->devices[2]->id);
    CHECK_EQUAL(10, result->devices[2]->items);
    CHECK_EQUAL(0, result->devices[0]->items + result->devices[1]->items);
    CHECK_EQUAL(10000, result->bound_ns);
    CHECK_EQUAL(2, told.events[0].device);
    muster_simulation_destroy(result);

    static const char none[] =
        "{\"devices\":[{\"items_per_s\":1,\"memory\":1000,\"count\":3},{\"items_per_s\":1,"
        "\"memory\":3000}],\"job\":{\"items\":1,\"hints\":{\"min_free\":2000,\"min_compute\":"
        "[8,0]}}}";
    result = NULL;
    CHECK_STATUS(MUSTER_E_NO_DEVICE, muster_simulate(none, strlen(none), NULL, &result, &problem));
    CHECK(!result);
    CHECK_CONTAINS("sim:0 to sim:2 by min_free, sim:3 by min_compute", problem.text);
}

static void wrong_arguments_are_refused(void)
{
    static const char text[] = "{\"devices\":[{\"items_per_s\":1}],\"job\":{\"items\":1}}";
    struct muster_allocator half = { sizeof half, take_some, NULL, NULL };
    struct muster_simulation_options options = { .size = sizeof options - 1 };
    struct muster_simulation *result = NULL;
    CHECK_STATUS(MUSTER_E_INVALID, muster_simulate(NULL, 0, NULL, &result, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_simulate(text, strlen(text), NULL, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_simulate(text, strlen(text), &options, &result, NULL));
    CHECK(!result);
    /* One function without the other is no allocator. */
    options.size = sizeof options;
    options.allocator = &half;
    CHECK_STATUS(MUSTER_E_INVALID, muster_simulate(text, strlen(text), &options, &result, NULL));
    half = (struct muster_allocator){ sizeof half, NULL, give_back, NULL };
    CHECK_STATUS(MUSTER_E_INVALID, muster_simulate(text, strlen(text), &options, &result, NULL));
    CHECK(!result);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(memory_may_end_anywhere),
        TEST(memory_does_not_grow_with_the_items),
        TEST(links_and_engine_work_beside_each_other),
        TEST(a_unit_that_fails_is_tried_again),
        TEST(a_device_that_is_lost_ends_its_job),
        TEST(devices_that_share_slow_each_other_down),
        TEST(a_device_takes_part_from_when_it_opens),
        TEST(a_device_is_opened_when_it_is_worth_it),
        TEST(what_has_lost_is_stopped_where_it_can_be),
        TEST(refused_devices_take_no_part),
        TEST(wrong_arguments_are_refused),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
