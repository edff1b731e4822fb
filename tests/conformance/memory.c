/*
 * Device memory.
 */
#include "suite.h"

#include "base/random.h"

#include <string.h>

#define MIB (UINT64_C(1) << 20)

static void memory_of_many_sizes_comes_and_goes(void)
{
    static const uint64_t sizes[] = { 1, 2, 63, 64, 65, 4096, 65537, 1 * MIB, 33 * MIB + 1 };
    struct rig *rig = suite_open();
    void *stream = rig_stream(rig);
    unsigned char *host = rig_host(rig, 2);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int with_stream = 0; with_stream < 2; with_stream++) {
            struct muster_memory memory = { .bytes = 0 };
            DO(rig, memory_allocate, rig->device, with_stream ? stream : NULL, sizes[i], &memory);
            CHECK(memory.address != 0 || memory.object);
            CHECK(memory.bytes >= sizes[i]);
            /* All of it can be used: the first and the last byte. */
            rig_fill(rig, stream, &memory, 0, 3, 1);
            rig_fill(rig, stream, &memory, sizes[i] - 1, 4, 1);
            rig_copy_out(rig, stream, host, &memory, 0, 1);
            rig_copy_out(rig, stream, host + 1, &memory, sizes[i] - 1, 1);
            FINISHES(rig, stream);
            CHECK_EQUAL(sizes[i] == 1 ? 4 : 3, host[0]);
            CHECK_EQUAL(4, host[1]);
            DO(rig, memory_free, rig->device, with_stream ? stream : NULL, &memory);
        }
    rig_close(rig);
}

#define PIECES 300
#define PIECE_BYTES_MAX 5000

static void pieces_do_not_touch_each_other(void)
{
    struct rig *rig = suite_open();
    struct random random;
    random_init(&random, test_seed());
    void *stream = rig_stream(rig);
    unsigned char *host = rig_host(rig, PIECE_BYTES_MAX);
    struct muster_memory *pieces[PIECES];
    uint64_t sizes[PIECES];
    for (int i = 0; i < PIECES; i++) {
        sizes[i] = 1 + random_next(&random) % PIECE_BYTES_MAX;
        pieces[i] = rig_memory(rig, sizes[i]);
        rig_fill(rig, stream, pieces[i], 0, (uint8_t)i, sizes[i]);
    }
    FINISHES(rig, stream);
    /* Given back in no order; those that are left keep what they hold. */
    for (int left = PIECES; left > 0; left--) {
        int i = (int)(random_next(&random) % (uint64_t)left);
        rig_copy_out(rig, stream, host, pieces[i], 0, sizes[i]);
        FINISHES(rig, stream);
        for (uint64_t at = 1; at < sizes[i]; at++)
            CHECK_EQUAL(host[0], host[at]);
        rig_memory_free(rig, NULL, pieces[i]);
        pieces[i] = pieces[left - 1];
        sizes[i] = sizes[left - 1];
    }
    rig_close(rig);
}

static void what_can_never_fit_is_refused(void)
{
    struct rig *rig = suite_open();
    void *stream = rig_stream(rig);
    static const uint64_t sizes[] = { UINT64_MAX, UINT64_MAX - 63, UINT64_MAX / 2 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct muster_memory memory = { .bytes = 12345 };
        REFUSED(rig, MUSTER_E_DEVICE_MEMORY, memory_allocate, rig->device, stream, sizes[i],
                &memory);
        CHECK_EQUAL(12345, memory.bytes);
    }
    /* And nothing is the worse for it. */
    rig_fill(rig, stream, rig_memory(rig, 1 * MIB), 0, 1, 1 * MIB);
    FINISHES(rig, stream);
    rig_close(rig);
}

static void freed_memory_can_be_had_again(void)
{
    struct rig *rig = suite_open();
    void *stream = rig_stream(rig);
    /* Together more than the device has, if it is not a very large one. */
    uint64_t bytes =
        rig->info->memory_total / 4 < 64 * MIB ? rig->info->memory_total / 4 : 64 * MIB;
    bool in_order = rig->info->capabilities & MUSTER_CAN_STREAM_MEMORY;
    for (int i = 0; i < 40; i++) {
        struct muster_memory *memory = rig_memory(rig, bytes);
        rig_fill(rig, stream, memory, bytes - 1, 1, 1);
        FINISHES(rig, stream);
        rig_memory_free(rig, in_order ? stream : NULL, memory);
        FINISHES(rig, stream);
    }
    rig_close(rig);
}

/* Freed in stream order: what was given before still has it. */
static void a_free_waits_for_its_turn(void)
{
    enum { BYTES = 3000, ROUNDS = 50 };
    struct rig *rig = suite_open();
    if (!(rig->info->capabilities & MUSTER_CAN_STREAM_MEMORY)) {
        /* Then the caller waits, which the other cases do. */
        rig_close(rig);
        return;
    }
    void *gate = rig_gate(rig), *stream = rig_stream(rig), *done = rig_event(rig);
    unsigned char *host = rig_host(rig, (size_t)BYTES * ROUNDS);
    rig_hold(rig, gate, stream);
    for (int i = 0; i < ROUNDS; i++) {
        struct muster_memory memory;
        DO(rig, memory_allocate, rig->device, stream, BYTES, &memory);
        rig_fill(rig, stream, &memory, 0, (uint8_t)(i + 1), BYTES);
        rig_copy_out(rig, stream, host + (size_t)i * BYTES, &memory, 0, BYTES);
        DO(rig, memory_free, rig->device, stream, &memory);
        memset(&memory, 0xa5, sizeof memory);
    }
    DO(rig, event_record, done, stream);
    NOT_YET(rig, gate, done);
    rig_release(rig, gate);
    COMPLETES(rig, MUSTER_OK, done);
    for (int i = 0; i < ROUNDS; i++)
        for (int at = 0; at < BYTES; at++)
            CHECK_EQUAL(i + 1, host[i * BYTES + at]);
    rig_close(rig);
}

static void host_memory_can_be_registered(void)
{
    enum { BYTES = 100000 };
    struct rig *rig = suite_open();
    void *stream = rig_stream(rig);
    unsigned char *host = rig_host(rig, BYTES);
    struct muster_memory *memory = rig_memory(rig, BYTES);
    for (int i = 1; i <= 3; i++) {
        DO(rig, host_register, rig->device, host, BYTES);
        rig_fill(rig, stream, memory, 0, (uint8_t)i, BYTES);
        rig_copy_out(rig, stream, host, memory, 0, BYTES);
        FINISHES(rig, stream);
        rig->table.host_unregister(rig->device, host);
        CHECK_EQUAL(i, host[BYTES - 1]);
    }
    rig_close(rig);
}

static const struct test tests[] = {
    TEST(memory_of_many_sizes_comes_and_goes), TEST(pieces_do_not_touch_each_other),
    TEST(what_can_never_fit_is_refused),       TEST(freed_memory_can_be_had_again),
    TEST(a_free_waits_for_its_turn),           TEST(host_memory_can_be_registered),
};
SUITE_PART(memory);
