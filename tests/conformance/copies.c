/*
 * Copies and fills.
 */
#include "suite.h"

#include "base/random.h"

#include <string.h>

static unsigned char pattern(uint64_t at)
{
    return (unsigned char)((at * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

static void fill_pattern(unsigned char *to, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        to[i] = pattern(i);
}

static void bytes_arrive_at_every_size(void)
{
    static const uint64_t sizes[] = { 1,
                                      2,
                                      3,
                                      63,
                                      64,
                                      65,
                                      4095,
                                      4097,
                                      65536,
                                      262143,
                                      262145,
                                      (1 << 20) - 1,
                                      1 << 20,
                                      (1 << 20) + 1,
                                      (5 << 20) + 13 };
    enum { LARGEST = (5 << 20) + 13, MARGIN = 7 };
    struct rig *rig = suite_open();
    void *stream = rig_stream(rig);
    unsigned char *from = rig_host(rig, LARGEST), *to = rig_host(rig, LARGEST + 2 * MARGIN);
    struct muster_memory *memory = rig_memory(rig, LARGEST + 2 * MARGIN);
    fill_pattern(from, LARGEST);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t bytes = sizes[i], offset = i % (MARGIN + 1);
        memset(to, 0xee, bytes + 2 * MARGIN);
        rig_copy_in(rig, stream, memory, offset, from, bytes);
        rig_copy_out(rig, stream, to + MARGIN, memory, offset, bytes);
        FINISHES(rig, stream);
        CHECK(memcmp(to + MARGIN, from, bytes) == 0);
        CHECK_EQUAL(0xee, to[MARGIN - 1]);
        CHECK_EQUAL(0xee, to[MARGIN + bytes]);
    }
    rig_close(rig);
}

/* The source of a copy may be memory that nobody can write to. */
static void a_source_is_only_read(void)
{
    static const char text[] = "read only";
    struct rig *rig = suite_open();
    void *stream = rig_stream(rig);
    struct muster_memory *memory = rig_memory(rig, sizeof text);
    char *to = rig_host(rig, sizeof text);
    rig_copy_in(rig, stream, memory, 0, text, sizeof text);
    rig_copy_out(rig, stream, to, memory, 0, sizeof text);
    FINISHES(rig, stream);
    CHECK_TEXT(text, to);
    rig_close(rig);
}

static void bytes_move_inside_the_device(void)
{
    enum { BYTES = (1 << 20) + 77 };
    struct rig *rig = suite_open();
    void *stream = rig_stream(rig);
    unsigned char *from = rig_host(rig, BYTES), *to = rig_host(rig, BYTES);
    struct muster_memory *first = rig_memory(rig, BYTES + 5), *second = rig_memory(rig, BYTES + 9);
    fill_pattern(from, BYTES);
    rig_copy_in(rig, stream, first, 5, from, BYTES);
    const struct muster_copy_desc across = { .to = { .memory = second, .offset = 9 },
                                             .from = { .memory = first, .offset = 5 },
                                             .bytes = BYTES };
    DO(rig, copy, stream, &across);
    /* Within one piece too. */
    const struct muster_copy_desc within = { .to = { .memory = second, .offset = 1000 },
                                             .from = { .memory = second, .offset = 9 },
                                             .bytes = 500 };
    DO(rig, copy, stream, &within);
    rig_copy_out(rig, stream, to, second, 9, BYTES);
    FINISHES(rig, stream);
    CHECK(memcmp(to, from, 991) == 0);
    CHECK(memcmp(to + 991, from, 500) == 0);
    CHECK(memcmp(to + 1491, from + 1491, BYTES - 1491) == 0);
    rig_close(rig);
}

static void a_fill_touches_its_bytes_only(void)
{
    static const struct {
        uint64_t offset, bytes;
    } fills[] = { { 0, 1 }, { 1, 1 }, { 3, 62 }, { 64, 64 }, { 65, 4096 }, { 13, (1 << 20) + 3 } };
    enum { BYTES = (1 << 20) + 100 };
    struct rig *rig = suite_open();
    void *stream = rig_stream(rig);
    unsigned char *to = rig_host(rig, BYTES);
    struct muster_memory *memory = rig_memory(rig, BYTES);
    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++) {
        uint64_t begin = fills[i].offset, end = begin + fills[i].bytes;
        rig_fill(rig, stream, memory, 0, 0x11, BYTES);
        rig_fill(rig, stream, memory, begin, (uint8_t)(0xf0 + i), fills[i].bytes);
        rig_copy_out(rig, stream, to, memory, 0, BYTES);
        FINISHES(rig, stream);
        for (uint64_t at = 0; at < BYTES; at++)
            CHECK_EQUAL(at >= begin && at < end ? 0xf0 + i : 0x11, to[at]);
    }
    rig_close(rig);
}

/* What the calls were given by pointer is theirs no longer when they return. */
static void descriptions_are_copied(void)
{
    enum { BYTES = 1000 };
    struct rig *rig = suite_open();
    void *gate = rig_gate(rig), *stream = rig_stream(rig);
    unsigned char *from = rig_host(rig, BYTES), *to = rig_host(rig, BYTES);
    struct muster_memory *memory = rig_memory(rig, BYTES);
    fill_pattern(from, BYTES);
    rig_hold(rig, gate, stream);
    struct muster_memory lent = *memory;
    struct muster_copy_desc copy = { .to = { .memory = &lent },
                                     .from = { .host = from },
                                     .bytes = BYTES };
    struct muster_place place = { .memory = &lent, .offset = 10 };
    DO(rig, copy, stream, &copy);
    DO(rig, fill, stream, &place, 9, 5);
    copy = (struct muster_copy_desc){ .to = { .host = to },
                                      .from = { .memory = &lent },
                                      .bytes = BYTES };
    DO(rig, copy, stream, &copy);
    memset(&lent, 0xa5, sizeof lent);
    memset(&copy, 0xa5, sizeof copy);
    memset(&place, 0xa5, sizeof place);
    rig_release(rig, gate);
    FINISHES(rig, stream);
    memset(from + 10, 9, 5);
    CHECK(memcmp(to, from, BYTES) == 0);
    rig_close(rig);
}

static void streams_copy_side_by_side(void)
{
    enum { STREAMS = 5, ROUNDS = 20, BYTES_MAX = 400000 };
    struct rig *rig = suite_open();
    struct random random;
    random_init(&random, test_seed());
    void *streams[STREAMS];
    struct muster_memory *memories[STREAMS];
    unsigned char *from = rig_host(rig, BYTES_MAX + 1000), *to[STREAMS];
    uint64_t bytes[STREAMS], shift[STREAMS];
    fill_pattern(from, BYTES_MAX + 1000);
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = rig_stream(rig);
        memories[i] = rig_memory(rig, BYTES_MAX);
        to[i] = rig_host(rig, BYTES_MAX);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < STREAMS; i++) {
            bytes[i] = 1 + random_next(&random) % BYTES_MAX;
            shift[i] = random_next(&random) % 1000;
            rig_copy_in(rig, streams[i], memories[i], 0, from + shift[i], bytes[i]);
            rig_copy_out(rig, streams[i], to[i], memories[i], 0, bytes[i]);
        }
        for (int i = 0; i < STREAMS; i++) {
            FINISHES(rig, streams[i]);
            CHECK(memcmp(to[i], from + shift[i], bytes[i]) == 0);
        }
    }
    rig_close(rig);
}

static const struct test tests[] = {
    TEST(bytes_arrive_at_every_size),   TEST(a_source_is_only_read),
    TEST(bytes_move_inside_the_device), TEST(a_fill_touches_its_bytes_only),
    TEST(descriptions_are_copied),      TEST(streams_copy_side_by_side),
};
SUITE_PART(copies);
