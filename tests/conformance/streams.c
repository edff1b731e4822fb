/*
 * Streams: order within one, none between two, closing, priorities.
 */
#include "suite.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

/* Each byte becomes 3 x + value: any two of these in the other order give another result. */
RIG_FUNCTION(triple_and_add)
{
    unsigned char *bytes = *(unsigned char *const *)args[0];
    unsigned char value = *(const unsigned char *)args[1];
    for (uint64_t i = begin; i < end; i++)
        bytes[i] = (unsigned char)(bytes[i] * 3 + value);
    return MUSTER_OK;
}
RIG_CODE(triple_and_add, "KERNEL triple_and_add(HEAD, BLOCK(u8, bytes), u8 value)\n"
                         "{\n"
                         "    IN(u8, bytes)\n"
                         "    EACH(at) bytes[begin + at] = (u8)(bytes[begin + at] * 3 + value);\n"
                         "}\n");

static void operations_take_effect_in_order(void)
{
    enum { BYTES = 20000, ROUNDS = 200 };
    struct rig *rig = suite_open();
    void *stream = rig_stream(rig), *kernel = rig_kernel_of(rig, &triple_and_add_code);
    struct muster_memory *memory = rig_memory(rig, BYTES), *other = rig_memory(rig, BYTES);
    unsigned char *host = rig_host(rig, (size_t)BYTES), expected = 1;
    rig_fill(rig, stream, memory, 0, 1, BYTES);
    for (int i = 0; i < ROUNDS; i++) {
        const unsigned char value = (unsigned char)(i * 7 + 1);
        if (kernel) {
            const struct muster_launch_arg args[] = { ARG_MEMORY(memory), ARG_VALUE(value) };
            rig_launch(rig, stream, kernel, 0, BYTES, args, 2, NULL);
            expected = (unsigned char)(expected * 3 + value);
        } else {
            rig_fill(rig, stream, memory, 0, value, BYTES);
            expected = value;
        }
        /* Around through another piece, so that a copy that comes too early loses a step. */
        const struct muster_copy_desc away = { .to = { .memory = other },
                                               .from = { .memory = memory },
                                               .bytes = BYTES };
        const struct muster_copy_desc back = { .to = { .memory = memory },
                                               .from = { .memory = other },
                                               .bytes = BYTES };
        DO(rig, copy, stream, &away);
        rig_fill(rig, stream, memory, 0, 0, BYTES);
        DO(rig, copy, stream, &back);
    }
    rig_copy_out(rig, stream, host, memory, 0, BYTES);
    FINISHES(rig, stream);
    for (int i = 0; i < BYTES; i++)
        CHECK_EQUAL(expected, host[i]);
    rig_close(rig);
}

static void streams_do_not_wait_for_each_other(void)
{
    struct rig *rig = suite_open();
    void *gate = rig_gate(rig), *held = rig_stream(rig), *held_done = rig_event(rig);
    struct muster_memory *memory = rig_memory(rig, 100);
    unsigned char *host = rig_host(rig, 2);
    rig_hold(rig, gate, held);
    rig_fill(rig, held, memory, 0, 1, 50);
    rig_copy_out(rig, held, host, memory, 0, 1);
    DO(rig, event_record, held_done, held);
    /* More than any device has workers, and each is done while the first is held. */
    for (int i = 0; i < 40; i++) {
        void *free_stream = rig_stream(rig);
        rig_fill(rig, free_stream, memory, 50, (uint8_t)(i + 1), 50);
        rig_copy_out(rig, free_stream, host + 1, memory, 50, 1);
        FINISHES(rig, free_stream);
        CHECK_EQUAL(i + 1, host[1]);
        rig_stream_close(rig, free_stream);
    }
    NOT_YET(rig, gate, held_done);
    rig_release(rig, gate);
    COMPLETES(rig, MUSTER_OK, held_done);
    CHECK_EQUAL(1, host[0]);
    rig_close(rig);
}

static void many_held_streams_leave_room_for_others(void)
{
    enum { HELD_MAX = 20 };
    struct rig *rig = suite_open();
    const int held = rig_is_gpu(rig) ? MUSTER_HELD_STREAMS_MIN : HELD_MAX;
    void *gate = rig_gate(rig), *streams[HELD_MAX], *free_stream = rig_stream(rig);
    struct muster_memory *memory = rig_memory(rig, (uint64_t)held + 1);
    unsigned char *host = rig_host(rig, HELD_MAX + 1);
    for (int i = 0; i < held; i++) {
        streams[i] = rig_stream(rig);
        rig_hold(rig, gate, streams[i]);
        rig_fill(rig, streams[i], memory, (uint64_t)i, (uint8_t)(i + 1), 1);
    }
    rig_fill(rig, free_stream, memory, (uint64_t)held, 99, 1);
    FINISHES(rig, free_stream);
    rig_release(rig, gate);
    for (int i = 0; i < held; i++)
        FINISHES(rig, streams[i]);
    rig_copy_out(rig, free_stream, host, memory, 0, (uint64_t)held + 1);
    FINISHES(rig, free_stream);
    for (int i = 0; i < held; i++)
        CHECK_EQUAL(i + 1, host[i]);
    CHECK_EQUAL(99, host[held]);
    rig_close(rig);
}

static void a_query_says_whether_all_is_done(void)
{
    struct rig *rig = suite_open();
    void *gate = rig_gate(rig), *stream = rig_stream(rig);
    struct muster_memory *memory = rig_memory(rig, 10);
    CHECK_STATUS(MUSTER_OK, rig->table.stream_query(stream, &rig->err));
    rig_hold(rig, gate, stream);
    rig_fill(rig, stream, memory, 0, 1, 10);
    if (gate)
        CHECK_STATUS(MUSTER_E_BUSY, rig->table.stream_query(stream, &rig->err));
    rig_release(rig, gate);
    FINISHES(rig, stream);
    CHECK_STATUS(MUSTER_OK, rig->table.stream_query(stream, &rig->err));
    rig_close(rig);
}

RIG_FUNCTION(add_one)
{
    uint32_t *counts = *(uint32_t *const *)args[0];
    for (uint64_t i = begin; i < end; i++)
        counts[i]++;
    return MUSTER_OK;
}
RIG_CODE(add_one, "KERNEL add_one(HEAD, BLOCK(u32, counts))\n"
                  "{\n"
                  "    IN(u32, counts)\n"
                  "    EACH(at) counts[begin + at]++;\n"
                  "}\n");

static void thousands_of_operations_can_be_queued(void)
{
    enum { OPERATIONS = 5000 };
    struct rig *rig = suite_open();
    void *gate = rig_gate(rig), *stream = rig_stream(rig),
         *kernel = rig_kernel_of(rig, &add_one_code);
    struct muster_memory *memory = rig_memory(rig, OPERATIONS * sizeof(uint32_t));
    uint32_t *host = rig_host(rig, OPERATIONS * sizeof *host);
    rig_fill(rig, stream, memory, 0, 0, OPERATIONS * sizeof *host);
    FINISHES(rig, stream); /* so that a queue that is a ring does not begin at its first place */
    rig_hold(rig, gate, stream);
    const struct muster_launch_arg args[] = { ARG_MEMORY(memory) };
    for (uint64_t i = 0; i < OPERATIONS; i++) {
        if (i == MUSTER_QUEUED_MIN && rig_is_gpu(rig))
            rig_release(rig, gate);
        if (kernel)
            rig_launch(rig, stream, kernel, i, 1, args, 1, NULL);
        else
            rig_fill(rig, stream, memory, i * sizeof *host, 1, 1);
    }
    rig_copy_out(rig, stream, host, memory, 0, OPERATIONS * sizeof *host);
    rig_release(rig, gate);
    FINISHES(rig, stream);
    for (int i = 0; i < OPERATIONS; i++)
        CHECK_EQUAL(1, host[i]);
    rig_close(rig);
}

static void a_closed_stream_still_finishes(void)
{
    enum { BYTES = 5000, ROUNDS = 20 };
    struct rig *rig = suite_open();
    struct muster_memory *memory = rig_memory(rig, BYTES);
    unsigned char *host = rig_host(rig, BYTES);
    for (int i = 1; i <= ROUNDS; i++) {
        void *gate = rig_gate(rig), *stream = rig_stream(rig), *done = rig_event(rig);
        rig_hold(rig, gate, stream);
        rig_fill(rig, stream, memory, 0, (uint8_t)i, BYTES);
        rig_copy_out(rig, stream, host, memory, 0, BYTES);
        DO(rig, event_record, done, stream);
        rig_stream_close(rig, stream);
        NOT_YET(rig, i == 1 ? gate : NULL, done);
        rig_release(rig, gate);
        COMPLETES(rig, MUSTER_OK, done);
        CHECK_EQUAL(i, host[0]);
        CHECK_EQUAL(i, host[BYTES - 1]);
    }
    rig_close(rig);
}

/* Not looked at any further than that it is a stream: what it means is the vendor's. */
static void the_default_stream_works(void)
{
    struct rig *rig = suite_open();
    void *stream = rig_stream_on(rig, rig->device, 0, true);
    struct muster_memory *memory = rig_memory(rig, 10);
    unsigned char *host = rig_host(rig, 10);
    rig->table.stream_native(stream);
    rig_fill(rig, stream, memory, 0, 8, 10);
    rig_copy_out(rig, stream, host, memory, 0, 10);
    FINISHES(rig, stream);
    CHECK_EQUAL(8, host[9]);
    rig_close(rig);
}

static void priorities_are_kept_or_refused(void)
{
    struct rig *rig = suite_open();
    struct muster_memory *memory = rig_memory(rig, 100);
    int32_t least = rig->info->priority_least, greatest = rig->info->priority_greatest;
    for (int32_t priority = greatest; priority <= least; priority++) {
        void *stream = rig_stream_on(rig, rig->device, priority, false);
        rig_fill(rig, stream, memory, 0, 1, 100);
        FINISHES(rig, stream);
    }
    void *state = rig_state(rig->table.stream_bytes);
    REFUSED(rig, MUSTER_E_NOT_SUPPORTED, stream_open, rig->device, greatest - 1, false, state);
    REFUSED(rig, MUSTER_E_NOT_SUPPORTED, stream_open, rig->device, least + 1, false, state);
    rig_state_free(state);
    rig_close(rig);
}

/* A device that is used for long does not grow with what was opened and closed on it. */
static void what_is_closed_is_given_back(void)
{
    enum { FIRST = 4, CYCLES = 40, BYTES = 4096 };
    struct rig *rig = suite_open();
    size_t steady = 0;
    for (int i = 0; i < FIRST + CYCLES; i++) {
        void *stream = rig_stream(rig), *other = rig_stream(rig), *event = rig_event(rig);
        struct muster_memory *memory = rig_memory(rig, BYTES);
        rig_fill(rig, stream, memory, 0, 1, BYTES);
        DO(rig, event_record, event, stream);
        DO(rig, stream_wait, other, event);
        FINISHES(rig, stream);
        FINISHES(rig, other);
        rig_memory_free(rig, stream, memory);
        FINISHES(rig, stream);
        rig_event_deinit(rig, event);
        rig_stream_close(rig, stream);
        rig_stream_close(rig, other);
        if (i == FIRST - 1)
            steady = atomic_load(&rig->bytes_taken);
    }
    /* What runs beside may take a moment; a test that never ends has failed. */
    while (atomic_load(&rig->bytes_taken) > steady)
        sched_yield();
    rig_close(rig);
}

static const struct test tests[] = {
    TEST(operations_take_effect_in_order),
    TEST(streams_do_not_wait_for_each_other),
    TEST(many_held_streams_leave_room_for_others),
    TEST(a_query_says_whether_all_is_done),
    TEST(thousands_of_operations_can_be_queued),
    TEST(a_closed_stream_still_finishes),
    TEST(the_default_stream_works),
    TEST(priorities_are_kept_or_refused),
    TEST(what_is_closed_is_given_back),
};
SUITE_PART(streams);
