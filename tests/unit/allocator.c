/*
 * Memory through the hook: zeroed, aligned, and given back with the size that was taken.
 */
#include "base/allocator.h"

#include "harness.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct hook {
    size_t taken, given, alignment, given_bytes;
    void *given_memory;
    bool is_empty;
};

static void *take(void *user, size_t bytes, size_t alignment)
{
    struct hook *hook = user;
    hook->taken = bytes;
    hook->alignment = alignment;
    if (hook->is_empty)
        return NULL;
    void *memory = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    memset(memory, 0xa5, (bytes + alignment - 1) / alignment * alignment);
    return memory;
}

static void give(void *user, void *memory, size_t bytes)
{
    struct hook *hook = user;
    hook->given++;
    hook->given_bytes = bytes;
    hook->given_memory = memory;
    free(memory);
}

static void what_is_taken_is_zeroed_and_goes_back_with_its_size(void)
{
    static const struct {
        size_t count, size, total;
    } cases[] = { { 3, 40, 120 }, { 40, 3, 120 }, { 1, 1, 1 }, { 0, 8, 1 }, { 8, 0, 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hook hook = { .taken = 0 };
        const struct muster_allocator allocator = { sizeof allocator, take, give, &hook };
        unsigned char *memory = allocator_take(&allocator, cases[i].count, cases[i].size);
        CHECK(memory);
        CHECK_EQUAL(cases[i].total, hook.taken);
        CHECK_EQUAL(ALLOCATOR_ALIGNMENT, hook.alignment);
        for (size_t k = 0; k < cases[i].total; k++)
            CHECK_EQUAL(0, memory[k]);
        allocator_give(&allocator, memory, cases[i].count, cases[i].size);
        CHECK_EQUAL(1, hook.given);
        CHECK_EQUAL(cases[i].total, hook.given_bytes);
        CHECK(hook.given_memory == memory);
    }
}

static void nothing_is_given_back_for_nothing(void)
{
    struct hook hook = { .taken = 0 };
    const struct muster_allocator allocator = { sizeof allocator, take, give, &hook };
    allocator_give(&allocator, NULL, 3, 4);
    CHECK_EQUAL(0, hook.given);
}

static void what_cannot_be_is_not_asked_for(void)
{
    struct hook hook = { .taken = 4711, .is_empty = true };
    const struct muster_allocator allocator = { sizeof allocator, take, give, &hook };
    CHECK(!allocator_take(&allocator, SIZE_MAX / 2, 3));
    CHECK(!allocator_take(&allocator, SIZE_MAX, 1));
    CHECK_EQUAL(4711, hook.taken);
    CHECK(!allocator_take(&allocator, 5, 5));
    CHECK_EQUAL(25, hook.taken);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(what_is_taken_is_zeroed_and_goes_back_with_its_size),
        TEST(nothing_is_given_back_for_nothing),
        TEST(what_cannot_be_is_not_asked_for),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
