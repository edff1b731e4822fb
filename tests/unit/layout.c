/*
 * Structs of older and newer programs (docs/abi.md), with a struct that has grown: what a program did
 * not know is 0, and what the library does not know must not be set. Each lies at the end of its
 * memory.
 */
#include "base/layout.h"

#include "harness.h"

#include <stdlib.h>

static struct muster_error problem;

/* A struct in its third version, of which the first ended with `first`. */
struct grown {
    size_t size;
    uint64_t first;
    uint64_t second, third;
};

static const struct layout layout = { "struct grown", 2 * sizeof(uint64_t), sizeof(struct grown) };

/* `count` structs of `size` bytes, of which byte i is i. */
static unsigned char *make(size_t size, size_t count)
{
    unsigned char *at = malloc(size * count);
    CHECK(at != NULL);
    for (size_t i = 0; i < size * count; i++)
        at[i] = (unsigned char)i;
    for (size_t i = 0; i < count; i++)
        memcpy(at + i * size, &size, sizeof size);
    return at;
}

static void an_older_struct_is_completed(void)
{
    for (size_t size = layout.first; size < layout.known; size += 8) {
        unsigned char *given = make(size, 1), expected[sizeof(struct grown)] = { 0 };
        struct grown read;
        memset(&read, 0xff, sizeof read);
        CHECK_STATUS(MUSTER_OK, layout_read(&layout, given, &read, &problem));
        memcpy(expected, given, size);
        memcpy(expected, &layout.known, sizeof layout.known);
        CHECK(memcmp(expected, &read, sizeof read) == 0);
        free(given);
    }
}

static void a_newer_struct_must_not_set_what_is_not_known(void)
{
    unsigned char *given = make(layout.known + 16, 1);
    struct grown read;
    CHECK_STATUS(MUSTER_E_VERSION, layout_read(&layout, given, &read, &problem));
    memset(given + layout.known, 0, 16);
    CHECK_STATUS(MUSTER_OK, layout_read(&layout, given, &read, &problem));
    CHECK_EQUAL(sizeof read, read.size);
    given[layout.known + 15] = 1;
    CHECK_STATUS(MUSTER_E_VERSION, layout_read(&layout, given, &read, &problem));
    free(given);
}

static void arrays_are_stepped_by_the_first_size(void)
{
    for (size_t size = layout.first; size <= layout.known + 16; size += 8) {
        unsigned char *given = make(size, 3);
        struct grown copies[3], copy;
        muster_status status;
        for (size_t i = 0; i < 3 && size > layout.known; i++)
            memset(given + i * size + layout.known, 0, size - layout.known);
        const struct grown *all = layout_read_all(&layout, given, 3, copies, &status, &problem);
        CHECK_STATUS(MUSTER_OK, status);
        CHECK_EQUAL(size == layout.known, (const void *)all == given);
        for (size_t i = 0; i < 3; i++) {
            const struct grown *at = layout_at(&layout, given, i, &copy);
            CHECK(memcmp(&all[i].first, given + i * size + 8, 8) == 0);
            CHECK(at->first == all[i].first && at->second == all[i].second);
            CHECK_EQUAL(size > 16, all[i].second != 0);
        }
        given[2 * size]++;
        layout_read_all(&layout, given, 3, copies, &status, &problem);
        CHECK_STATUS(MUSTER_E_INVALID, status);
        CHECK_CONTAINS("number 0 and 2", problem.text);
        free(given);
    }
}

static void what_is_filled_ends_where_the_callers_does(void)
{
    const struct grown filled = { .size = 1, .first = 11, .second = 12, .third = 13 };
    for (size_t size = layout.first; size <= layout.known + 16; size += 8) {
        unsigned char *room = make(size, 2);
        CHECK_STATUS(MUSTER_OK, layout_check_rooms(&layout, room, 2, &problem));
        for (size_t i = 0; i < 2; i++)
            layout_write_at(&layout, room, i, &filled);
        for (size_t i = 0; i < 2; i++) {
            unsigned char expected[sizeof filled + 16] = { 0 };
            memcpy(expected, &filled, sizeof filled);
            memcpy(expected, &size, sizeof size);
            CHECK(memcmp(expected, room + i * size, size) == 0);
        }
        free(room);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(an_older_struct_is_completed),
                                         TEST(a_newer_struct_must_not_set_what_is_not_known),
                                         TEST(arrays_are_stepped_by_the_first_size),
                                         TEST(what_is_filled_ends_where_the_callers_does) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
