/*
 * Events: when they complete, what a wait is bound to, and that a wait orders two streams.
 */
#include "suite.h"

#include "base/random.h"
#include "platform/thread.h"

#include <string.h>

static void an_event_never_recorded_is_complete(void)
{
    struct rig *rig = suite_open();
    void *stream = rig_stream(rig), *event = rig_event(rig);
    CHECK_STATUS(MUSTER_OK, rig->table.event_query(event, &rig->err));
    CHECK_STATUS(MUSTER_OK, rig->table.event_wait(event, 0, &rig->err));
    CHECK_STATUS(MUSTER_OK, rig->table.event_wait(event, UINT64_MAX, &rig->err));
    DO(rig, stream_wait, stream, event);
    FINISHES(rig, stream);
    rig_close(rig);
}

static void an_event_completes_when_its_work_is_done(void)
{
    struct rig *rig = suite_open();
    void *gate = rig_gate(rig), *stream = rig_stream(rig), *event = rig_event(rig);
    struct muster_memory *memory = rig_memory(rig, 1000);
    unsigned char *host = rig_host(rig, 1000);
    rig_hold(rig, gate, stream);
    rig_fill(rig, stream, memory, 0, 6, 1000);
    rig_copy_out(rig, stream, host, memory, 0, 1000);
    DO(rig, event_record, event, stream);
    if (gate)
        CHECK_STATUS(MUSTER_E_BUSY, rig->table.event_query(event, &rig->err));
    NOT_YET(rig, gate, event);
    rig_release(rig, gate);
    COMPLETES(rig, MUSTER_OK, event);
    CHECK_STATUS(MUSTER_OK, rig->table.event_query(event, &rig->err));
    CHECK_EQUAL(6, host[999]);
    rig_close(rig);
}

static void a_wait_of_the_host_ends_in_time(void)
{
    struct rig *rig = suite_open();
    void *gate = rig_gate(rig), *stream = rig_stream(rig), *event = rig_event(rig);
    rig_hold(rig, gate, stream);
    DO(rig, event_record, event, stream);
    if (gate) {
        static const uint64_t timeouts_ns[] = { 0, 1, 1000, 2000000 };
        for (size_t i = 0; i < sizeof timeouts_ns / sizeof *timeouts_ns; i++) {
            uint64_t begin_ns = platform_clock_ns();
            REFUSED(rig, MUSTER_E_TIMEOUT, event_wait, event, timeouts_ns[i]);
            CHECK(platform_clock_ns() - begin_ns >= timeouts_ns[i]);
        }
    }
    rig_release(rig, gate);
    COMPLETES(rig, MUSTER_OK, event);
    CHECK_STATUS(MUSTER_OK, rig->table.event_wait(event, UINT64_MAX, &rig->err));
    rig_close(rig);
}

/* One record that several threads wait for. */
struct onlooker {
    struct platform_thread thread;
    struct rig *rig;
    void *event;
    muster_status status;
};

static void look_on(void *argument)
{
    struct onlooker *onlooker = argument;
    onlooker->status = onlooker->rig->table.event_wait(onlooker->event, SOON_NS, NULL);
}

static void several_threads_wait_for_one_event(void)
{
    enum { THREADS = 4 };
    struct rig *rig = suite_open();
    void *gate = rig_gate(rig), *stream = rig_stream(rig), *event = rig_event(rig);
    struct onlooker *onlookers = rig_host(rig, THREADS * sizeof *onlookers);
    rig_hold(rig, gate, stream);
    DO(rig, event_record, event, stream);
    for (int i = 0; i < THREADS; i++) {
        onlookers[i] = (struct onlooker){ .rig = rig, .event = event, .status = MUSTER_E_INTERNAL };
        CHECK_STATUS(MUSTER_OK, platform_thread_start(&onlookers[i].thread, look_on, &onlookers[i],
                                                      "onlooker", NULL, &rig->err));
    }
    rig_release(rig, gate);
    for (int i = 0; i < THREADS; i++) {
        platform_thread_join(&onlookers[i].thread);
        CHECK_STATUS(MUSTER_OK, onlookers[i].status);
    }
    rig_close(rig);
}

/* Recorded again elsewhere, where it completes at once: the wait still has the first record. */
static void a_later_record_does_not_release_a_wait(void)
{
    struct rig *rig = suite_open();
    void *gate = rig_gate(rig), *event = rig_event(rig), *done = rig_event(rig);
    void *slow = rig_stream(rig), *waiting = rig_stream(rig), *quick = rig_stream(rig);
    struct muster_memory *memory = rig_memory(rig, 100);
    unsigned char *host = rig_host(rig, 100);
    rig_fill(rig, quick, memory, 0, 1, 100);
    FINISHES(rig, quick);
    rig_hold(rig, gate, slow);
    rig_fill(rig, slow, memory, 0, 2, 100);
    DO(rig, event_record, event, slow);
    DO(rig, stream_wait, waiting, event);
    rig_copy_out(rig, waiting, host, memory, 0, 100);
    DO(rig, event_record, done, waiting);
    DO(rig, event_record, event, quick);
    COMPLETES(rig, MUSTER_OK, event);
    NOT_YET(rig, gate, done);
    rig_release(rig, gate);
    COMPLETES(rig, MUSTER_OK, done);
    CHECK_EQUAL(2, host[99]);
    rig_close(rig);
}

/* Recorded again behind something that never comes: the wait does not need it. */
static void a_later_record_does_not_hold_a_wait(void)
{
    struct rig *rig = suite_open();
    void *first_gate = rig_gate(rig), *second_gate = rig_gate(rig);
    void *event = rig_event(rig), *done = rig_event(rig);
    void *quick = rig_stream(rig), *waiting = rig_stream(rig), *slow = rig_stream(rig);
    DO(rig, event_record, event, quick);
    rig_hold(rig, first_gate, waiting);
    DO(rig, stream_wait, waiting, event);
    DO(rig, event_record, done, waiting);
    rig_hold(rig, second_gate, slow);
    DO(rig, event_record, event, slow);
    NOT_YET(rig, second_gate, event);
    NOT_YET(rig, first_gate, done);
    rig_release(rig, first_gate);
    COMPLETES(rig, MUSTER_OK, done);
    NOT_YET(rig, second_gate, event);
    rig_release(rig, second_gate);
    COMPLETES(rig, MUSTER_OK, event);
    rig_close(rig);
}

/* Recorded twice on one stream: the wait in between has the first. */
static void a_wait_has_the_record_before_it(void)
{
    struct rig *rig = suite_open();
    void *first_gate = rig_gate(rig), *second_gate = rig_gate(rig), *event = rig_event(rig);
    void *stream = rig_stream(rig), *early = rig_stream(rig), *late = rig_stream(rig);
    void *early_done = rig_event(rig), *late_done = rig_event(rig);
    rig_hold(rig, first_gate, stream);
    DO(rig, event_record, event, stream);
    DO(rig, stream_wait, early, event);
    DO(rig, event_record, early_done, early);
    rig_hold(rig, second_gate, stream);
    DO(rig, event_record, event, stream);
    DO(rig, stream_wait, late, event);
    DO(rig, event_record, late_done, late);
    NOT_YET(rig, first_gate, early_done);
    rig_release(rig, first_gate);
    COMPLETES(rig, MUSTER_OK, early_done);
    NOT_YET(rig, second_gate, late_done);
    rig_release(rig, second_gate);
    COMPLETES(rig, MUSTER_OK, late_done);
    rig_close(rig);
}

static void streams_cannot_wait_in_a_circle(void)
{
    enum { STREAMS = 4, ROUNDS = 100 };
    struct rig *rig = suite_open();
    void *streams[STREAMS], *events[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = rig_stream(rig);
        events[i] = rig_event(rig);
    }
    /* Each waits for the next one's record, which is always one of the past. */
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < STREAMS; i++) {
            DO(rig, stream_wait, streams[i], events[(i + 1) % STREAMS]);
            DO(rig, stream_wait, streams[i], events[i]);
            DO(rig, event_record, events[i], streams[i]);
        }
    for (int i = 0; i < STREAMS; i++)
        COMPLETES(rig, MUSTER_OK, events[i]);
    rig_close(rig);
}

static void an_event_may_go_while_waits_are_queued(void)
{
    enum { WAITING = 3 };
    struct rig *rig = suite_open();
    void *gate = rig_gate(rig), *slow = rig_stream(rig), *event = rig_event(rig);
    void *waiting[WAITING], *done[WAITING];
    struct muster_memory *memory = rig_memory(rig, 10);
    unsigned char *host = rig_host(rig, WAITING);
    rig_hold(rig, gate, slow);
    rig_fill(rig, slow, memory, 0, 9, 10);
    DO(rig, event_record, event, slow);
    for (int i = 0; i < WAITING; i++) {
        waiting[i] = rig_stream(rig);
        done[i] = rig_event(rig);
        DO(rig, stream_wait, waiting[i], event);
        rig_copy_out(rig, waiting[i], host + i, memory, (uint64_t)i, 1);
        DO(rig, event_record, done[i], waiting[i]);
    }
    rig_event_deinit(rig, event);
    /* Others are made in the meantime, perhaps of what it was made of. */
    for (int i = 0; i < 10; i++) {
        void *other = rig_event(rig), *stream = rig_stream(rig);
        DO(rig, event_record, other, stream);
        COMPLETES(rig, MUSTER_OK, other);
    }
    NOT_YET(rig, gate, done[0]);
    rig_release(rig, gate);
    for (int i = 0; i < WAITING; i++) {
        COMPLETES(rig, MUSTER_OK, done[i]);
        CHECK_EQUAL(9, host[i]);
    }
    rig_close(rig);
}

/*
 * A wait that the stream has not got to yet is bound to a record that is over and whose event is
 * gone: what is recorded meanwhile, perhaps in its place, does not hold it.
 */
static void a_queued_wait_outlives_its_event(void)
{
    enum { OTHERS = 10 };
    struct rig *rig = suite_open();
    void *gate = rig_gate(rig), *others_gate = rig_gate(rig);
    void *quick = rig_stream(rig), *waiting = rig_stream(rig), *held = rig_stream(rig);
    void *event = rig_event(rig), *done = rig_event(rig), *others[OTHERS];
    rig_hold(rig, gate, waiting);
    DO(rig, event_record, event, quick);
    DO(rig, stream_wait, waiting, event);
    DO(rig, event_record, done, waiting);
    COMPLETES(rig, MUSTER_OK, event);
    rig_event_deinit(rig, event);
    rig_hold(rig, others_gate, held);
    for (int i = 0; i < OTHERS; i++) {
        others[i] = rig_event(rig);
        DO(rig, event_record, others[i], held);
    }
    NOT_YET(rig, gate, done);
    rig_release(rig, gate);
    COMPLETES(rig, MUSTER_OK, done);
    NOT_YET(rig, others_gate, others[0]);
    rig_release(rig, others_gate);
    for (int i = 0; i < OTHERS; i++)
        COMPLETES(rig, MUSTER_OK, others[i]);
    rig_close(rig);
}

/* A recorded event may also go while nobody waits and its record is still queued. */
static void an_event_may_go_before_its_record(void)
{
    struct rig *rig = suite_open();
    void *gate = rig_gate(rig), *stream = rig_stream(rig);
    rig_hold(rig, gate, stream);
    for (int i = 0; i < 100; i++) {
        void *event = rig_event(rig);
        DO(rig, event_record, event, stream);
        rig_event_deinit(rig, event);
    }
    rig_release(rig, gate);
    FINISHES(rig, stream);
    rig_close(rig);
}

/* Slow on purpose, and at the end most of all, so that a reader that does not wait sees it. */
RIG_FUNCTION(write_slowly)
{
    volatile uint32_t *numbers = *(uint32_t *const *)args[0];
    uint32_t value = *(const uint32_t *)args[1];
    for (uint64_t i = begin; i < end; i++) {
        for (uint32_t step = 0; step < 20; step++)
            numbers[i] = step;
        numbers[i] = value;
    }
    return MUSTER_OK;
}
RIG_CODE(write_slowly, "KERNEL write_slowly(HEAD, BLOCK(volatile u32, numbers), u32 value)\n"
                       "{\n"
                       "    IN(volatile u32, numbers)\n"
                       "    EACH(at) {\n"
                       "        for (u32 step = 0; step < 20; step++)\n"
                       "            numbers[begin + at] = step;\n"
                       "        numbers[begin + at] = value;\n"
                       "    }\n"
                       "}\n");

static void a_reader_sees_what_the_writer_wrote(void)
{
    enum { COUNT = 20000 };
    struct rig *rig = suite_open();
    void *kernel = rig_kernel_of(rig, &write_slowly_code), *writer = rig_stream(rig);
    void *reader = rig_stream(rig), *written = rig_event(rig), *read = rig_event(rig);
    struct muster_memory *memory = rig_memory(rig, COUNT * sizeof(uint32_t));
    uint32_t *host = rig_host(rig, COUNT * sizeof *host);
    unsigned rounds = test_repetitions(60);
    for (uint32_t round = 1; round <= rounds; round++) {
        const uint32_t value = round * UINT32_C(0x01010101);
        const struct muster_launch_arg args[] = { ARG_MEMORY(memory), ARG_VALUE(value) };
        /* The writer must not overtake the reader of the round before. */
        DO(rig, stream_wait, writer, read);
        if (kernel)
            rig_launch(rig, writer, kernel, 0, COUNT, args, 2, NULL);
        else
            rig_fill(rig, writer, memory, 0, (uint8_t)round, COUNT * sizeof *host);
        DO(rig, event_record, written, writer);
        DO(rig, stream_wait, reader, written);
        rig_copy_out(rig, reader, host, memory, 0, COUNT * sizeof *host);
        DO(rig, event_record, read, reader);
        if (round % 4 != 0)
            continue; /* and so several rounds are queued behind each other */
        COMPLETES(rig, MUSTER_OK, read);
        for (int i = 0; i < COUNT; i++)
            CHECK_EQUAL(value, host[i]);
    }
    rig_close(rig);
}

/* The same with the writer held: a stream that does not wait reads before it is written. */
static void a_reader_waits_for_a_held_writer(void)
{
    struct rig *rig = suite_open();
    void *writer = rig_stream(rig), *reader = rig_stream(rig);
    void *written = rig_event(rig), *read = rig_event(rig);
    struct muster_memory *memory = rig_memory(rig, 4096);
    unsigned char *host = rig_host(rig, 4096);
    for (int round = 1; round <= 10; round++) {
        void *gate = rig_gate(rig);
        rig_hold(rig, gate, writer);
        rig_fill(rig, writer, memory, 0, (uint8_t)round, 4096);
        DO(rig, event_record, written, writer);
        DO(rig, stream_wait, reader, written);
        rig_copy_out(rig, reader, host, memory, 0, 4096);
        DO(rig, event_record, read, reader);
        NOT_YET(rig, gate, read);
        rig_release(rig, gate);
        COMPLETES(rig, MUSTER_OK, read);
        for (int i = 0; i < 4096; i++)
            CHECK_EQUAL(round, host[i]);
    }
    rig_close(rig);
}

RIG_FUNCTION(add_and_store)
{
    const unsigned char *from = *(unsigned char *const *)args[0];
    unsigned char *to = *(unsigned char *const *)args[1];
    unsigned char value = *(const unsigned char *)args[2];
    for (uint64_t i = begin; i < end; i++)
        to[i] = (unsigned char)(from[i] + value);
    return MUSTER_OK;
}
RIG_CODE(add_and_store, "KERNEL add_and_store(HEAD, BLOCK(u8, from), BLOCK(u8, to), u8 value)\n"
                        "{\n"
                        "    IN(u8, from) IN(u8, to)\n"
                        "    EACH(at) to[begin + at] = (u8)(from[begin + at] + value);\n"
                        "}\n");

/*
 * In, compute and out on three streams over few slots: each slot is used again while earlier units
 * are in flight, and each of the four kinds of edge is needed. Units differ in size, so that now
 * one stream and now another is behind.
 */
static void a_pipeline_over_few_slots_loses_nothing(void)
{
    enum { SLOTS = 3, BYTES_MAX = 40000 };
    struct rig *rig = suite_open();
    struct random random;
    random_init(&random, test_seed());
    void *kernel = rig_kernel_of(rig, &add_and_store_code);
    void *in = rig_stream(rig), *compute = rig_stream(rig), *out = rig_stream(rig);
    struct {
        struct muster_memory *in, *out;
        void *copied, *computed, *drained;
    } slots[SLOTS];
    for (int i = 0; i < SLOTS; i++) {
        slots[i].in = rig_memory(rig, BYTES_MAX);
        slots[i].out = rig_memory(rig, BYTES_MAX);
        slots[i].copied = rig_event(rig);
        slots[i].computed = rig_event(rig);
        slots[i].drained = rig_event(rig);
    }
    unsigned units = test_repetitions(150);
    size_t total = 0;
    uint32_t *sizes = rig_host(rig, units * sizeof *sizes);
    for (unsigned i = 0; i < units; i++) {
        sizes[i] = 1 + (uint32_t)(random_next(&random) % (i % 5 == 0 ? BYTES_MAX : 3000));
        total += sizes[i];
    }
    unsigned char *from = rig_host(rig, total), *to = rig_host(rig, total);
    for (size_t i = 0; i < total; i++)
        from[i] = (unsigned char)random_next(&random);

    size_t at = 0;
    for (unsigned unit = 0; unit < units; at += sizes[unit++]) {
        int slot = (int)(unit % SLOTS);
        const unsigned char value = kernel ? (unsigned char)unit : 0;
        DO(rig, stream_wait, in, slots[slot].computed);
        rig_copy_in(rig, in, slots[slot].in, 0, from + at, sizes[unit]);
        DO(rig, event_record, slots[slot].copied, in);

        DO(rig, stream_wait, compute, slots[slot].copied);
        DO(rig, stream_wait, compute, slots[slot].drained);
        if (kernel) {
            const struct muster_launch_arg args[] = { ARG_MEMORY(slots[slot].in),
                                                      ARG_MEMORY(slots[slot].out),
                                                      ARG_VALUE(value) };
            rig_launch(rig, compute, kernel, 0, sizes[unit], args, 3, NULL);
        } else {
            const struct muster_copy_desc copy = { .to = { .memory = slots[slot].out },
                                                   .from = { .memory = slots[slot].in },
                                                   .bytes = sizes[unit] };
            DO(rig, copy, compute, &copy);
        }
        DO(rig, event_record, slots[slot].computed, compute);

        DO(rig, stream_wait, out, slots[slot].computed);
        rig_copy_out(rig, out, to + at, slots[slot].out, 0, sizes[unit]);
        DO(rig, event_record, slots[slot].drained, out);
    }
    FINISHES(rig, out);
    at = 0;
    for (unsigned unit = 0; unit < units; at += sizes[unit++])
        for (uint32_t i = 0; i < sizes[unit]; i++)
            CHECK_EQUAL((unsigned char)(from[at + i] + (kernel ? unit : 0)), to[at + i]);
    rig_close(rig);
}

static void timing_events_do_not_order(void)
{
    struct rig *rig = suite_open();
    void *stream = rig_stream(rig);
    void *timing = rig_event_on(rig, rig->device, MUSTER_EVENT_TIMING);
    REFUSED(rig, MUSTER_E_INVALID, stream_wait, stream, timing);
    DO(rig, event_record, timing, stream);
    REFUSED(rig, MUSTER_E_INVALID, stream_wait, stream, timing);
    COMPLETES(rig, MUSTER_OK, timing);
    CHECK_STATUS(MUSTER_OK, rig->table.event_query(timing, &rig->err));
    FINISHES(rig, stream);
    rig_close(rig);
}

static void ordering_events_carry_no_time(void)
{
    struct rig *rig = suite_open();
    void *stream = rig_stream(rig), *order = rig_event(rig);
    void *timing = rig_event_on(rig, rig->device, MUSTER_EVENT_TIMING);
    muster_status expected = rig->given->event_elapsed ? MUSTER_E_INVALID : MUSTER_E_NOT_SUPPORTED;
    uint64_t ns = 12345;
    DO(rig, event_record, order, stream);
    DO(rig, event_record, timing, stream);
    COMPLETES(rig, MUSTER_OK, timing);
    REFUSED(rig, expected, event_elapsed, order, timing, &ns);
    REFUSED(rig, expected, event_elapsed, timing, order, &ns);
    CHECK_EQUAL(12345, ns);
    rig_close(rig);
}

#define SPIN_NS UINT64_C(2000000)

RIG_FUNCTION(spin)
{
    uint64_t begin_ns = platform_clock_ns();
    (void)begin, (void)end, (void)args;
    while (platform_clock_ns() - begin_ns < SPIN_NS)
        ;
    return MUSTER_OK;
}
/* Two ticks of a clock in each nanosecond: no device has a faster one. */
RIG_CODE(spin, "KERNEL spin(HEAD)\n"
               "{\n"
               "    EACH(at) { SPIN_TICKS(4000000) }\n"
               "}\n");

static void elapsed_time_is_sane(void)
{
    struct rig *rig = suite_open();
    void *gate = rig_gate(rig), *stream = rig_stream(rig), *kernel = rig_kernel_of(rig, &spin_code);
    void *begin = rig_event_on(rig, rig->device, MUSTER_EVENT_TIMING);
    void *end = rig_event_on(rig, rig->device, MUSTER_EVENT_TIMING);
    uint64_t ns = 0, begin_ns = platform_clock_ns();
    if (!rig->given->event_elapsed) {
        REFUSED(rig, MUSTER_E_NOT_SUPPORTED, event_elapsed, begin, end, &ns);
        rig_close(rig);
        return;
    }
    /* There is no time between what was recorded and what was not. */
    REFUSED(rig, MUSTER_E_INVALID, event_elapsed, begin, end, &ns);
    DO(rig, event_record, begin, stream);
    FINISHES(rig, stream);
    REFUSED(rig, MUSTER_E_INVALID, event_elapsed, begin, end, &ns);
    REFUSED(rig, MUSTER_E_INVALID, event_elapsed, end, begin, &ns);
    DO(rig, event_record, begin, stream);
    rig_hold(rig, gate, stream);
    if (kernel)
        rig_launch(rig, stream, kernel, 0, 1, NULL, 0, NULL);
    DO(rig, event_record, end, stream);
    if (gate)
        CHECK_STATUS(MUSTER_E_BUSY, rig->table.event_elapsed(begin, end, &ns, &rig->err));
    rig_release(rig, gate);
    COMPLETES(rig, MUSTER_OK, end);
    DO(rig, event_elapsed, begin, end, &ns);
    CHECK(ns <= platform_clock_ns() - begin_ns);
    /* A device's clock may run a little differently; in OpenCL a kernel has none to go by. */
    bool is_opencl = rig->info->forms & MUSTER_KERNEL_OPENCL;
    CHECK(!kernel || ns >= (is_opencl ? 1 : SPIN_NS * 9 / 10));
    rig_close(rig);
}

static void events_of_another_device_are_refused(void)
{
    struct rig *rig = suite_open();
    if (rig->device_count > 1) {
        void *other = rig->devices[1].state;
        void *own_stream = rig_stream(rig), *own_event = rig_event(rig);
        void *their_stream = rig_stream_on(rig, other, 0, false);
        void *their_event = rig_event_on(rig, other, MUSTER_EVENT_ORDER);
        DO(rig, event_record, own_event, own_stream);
        DO(rig, event_record, their_event, their_stream);
        REFUSED(rig, MUSTER_E_NOT_SUPPORTED, stream_wait, own_stream, their_event);
        REFUSED(rig, MUSTER_E_NOT_SUPPORTED, stream_wait, their_stream, own_event);
        REFUSED(rig, MUSTER_E_INVALID, event_record, own_event, their_stream);
        REFUSED(rig, MUSTER_E_INVALID, event_record, their_event, own_stream);
        COMPLETES(rig, MUSTER_OK, own_event);
        COMPLETES(rig, MUSTER_OK, their_event);
    }
    rig_close(rig);
}

static const struct test tests[] = {
    TEST(an_event_never_recorded_is_complete),
    TEST(an_event_completes_when_its_work_is_done),
    TEST(a_wait_of_the_host_ends_in_time),
    TEST(several_threads_wait_for_one_event),
    TEST(a_later_record_does_not_release_a_wait),
    TEST(a_later_record_does_not_hold_a_wait),
    TEST(a_wait_has_the_record_before_it),
    TEST(streams_cannot_wait_in_a_circle),
    TEST(an_event_may_go_while_waits_are_queued),
    TEST(a_queued_wait_outlives_its_event),
    TEST(an_event_may_go_before_its_record),
    TEST(a_reader_sees_what_the_writer_wrote),
    TEST(a_reader_waits_for_a_held_writer),
    TEST(a_pipeline_over_few_slots_loses_nothing),
    TEST(timing_events_do_not_order),
    TEST(ordering_events_carry_no_time),
    TEST(elapsed_time_is_sane),
    TEST(events_of_another_device_are_refused),
};
SUITE_PART(events);
