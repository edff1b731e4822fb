#include "base/ring.h"

#include "base/random.h"
#include "support.h"

static void first_in_is_first_out(void)
{
    struct ring ring;
    unsigned elements[4];
    ring_init(&ring, 4);
    CHECK_EQUAL(0, ring_count(&ring));
    for (unsigned i = 0; i < 4; i++) {
        CHECK(!ring_full(&ring));
        elements[ring_push(&ring)] = i;
    }
    CHECK(ring_full(&ring));
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQUAL(i, elements[ring_at(&ring, i)]);
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQUAL(i, elements[ring_pop(&ring)]);
    CHECK_EQUAL(0, ring_count(&ring));
}

static void one_place_is_enough(void)
{
    struct ring ring;
    ring_init(&ring, 1);
    for (unsigned i = 0; i < 10; i++) {
        CHECK_EQUAL(0, ring_push(&ring));
        CHECK(ring_full(&ring));
        CHECK_EQUAL(0, ring_pop(&ring));
    }
}

/* The counters start just before they wrap. */
static void random_use_agrees_with_a_list_across_the_wrap(void)
{
    struct random random;
    struct ring ring;
    uint64_t elements[16], first = 0, next = 0;
    random_init(&random, test_seed());
    ring_init(&ring, 16);
    ring.head = ring.tail = UINT32_MAX - 40;
    for (unsigned step = 0; step < 20000; step++) {
        bool push = random_below(&random, 2) == 0;
        if (push && !ring_full(&ring))
            elements[ring_push(&ring)] = next++;
        else if (!push && ring_count(&ring) > 0)
            CHECK_EQUAL(first++, elements[ring_pop(&ring)]);
        CHECK_EQUAL(next - first, ring_count(&ring));
        CHECK_EQUAL(next - first == 16, ring_full(&ring));
        for (uint32_t i = 0; i < ring_count(&ring); i++)
            CHECK_EQUAL(first + i, elements[ring_at(&ring, i)]);
    }
    CHECK(ring.tail < UINT32_MAX - 40);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(first_in_is_first_out),
        TEST(one_place_is_enough),
        TEST(random_use_agrees_with_a_list_across_the_wrap),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
