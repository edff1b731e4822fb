#include "simulate/agenda.h"

#include "base/random.h"
#include "support.h"

#define ROOM 200

static struct happening memory[ROOM];

static void an_empty_agenda_has_nothing_next(void)
{
    struct agenda agenda;
    struct happening next;
    agenda_init(&agenda, memory, ROOM);
    CHECK_EQUAL(UINT64_MAX, agenda_next_ns(&agenda));
    CHECK(!agenda_next(&agenda, &next));
}

static void the_earliest_is_next(void)
{
    static const uint64_t times[] = { 50, 10, 40, 10, 30, 0, UINT64_MAX - 1 };
    static const uint64_t sorted[] = { 0, 10, 10, 30, 40, 50, UINT64_MAX - 1 };
    struct agenda agenda;
    struct happening next;
    agenda_init(&agenda, memory, ROOM);
    for (size_t i = 0; i < COUNT_OF(times); i++)
        CHECK(agenda_add(&agenda, (struct happening){ .at_ns = times[i] }));
    for (size_t i = 0; i < COUNT_OF(sorted); i++) {
        CHECK_EQUAL(sorted[i], agenda_next_ns(&agenda));
        CHECK(agenda_next(&agenda, &next));
        CHECK_EQUAL(sorted[i], next.at_ns);
    }
    CHECK(!agenda_next(&agenda, &next));
}

static void those_at_one_moment_keep_their_order(void)
{
    struct agenda agenda;
    struct happening next;
    agenda_init(&agenda, memory, ROOM);
    for (uint32_t i = 0; i < ROOM; i++)
        CHECK(agenda_add(&agenda, (struct happening){ .at_ns = 7, .serial = i }));
    for (uint32_t i = 0; i < ROOM; i++) {
        CHECK(agenda_next(&agenda, &next));
        CHECK_EQUAL(i, next.serial);
    }
}

static void a_full_agenda_says_so(void)
{
    struct agenda agenda;
    struct happening next;
    agenda_init(&agenda, memory, 3);
    for (uint64_t i = 0; i < 3; i++)
        CHECK(agenda_add(&agenda, (struct happening){ .at_ns = 3 - i }));
    CHECK(!agenda_add(&agenda, (struct happening){ .at_ns = 0 }));
    CHECK(agenda_next(&agenda, &next));
    CHECK_EQUAL(1, next.at_ns);
    CHECK(agenda_add(&agenda, (struct happening){ .at_ns = 0 }));
    CHECK_EQUAL(0, agenda_next_ns(&agenda));
}

/* Against a list that is searched from end to end. */
static void any_mixture_comes_out_as_from_a_list(void)
{
    struct happening list[ROOM];
    struct random random;
    random_init(&random, test_seed());
    for (unsigned round = 0; round < test_repetitions(200); round++) {
        struct agenda agenda;
        uint32_t count = 0, serial = 0;
        agenda_init(&agenda, memory, ROOM);
        for (int step = 0; step < 400; step++) {
            if (random_below(&random, 5) < 3 && count < ROOM) {
                struct happening one = { .at_ns = random_below(&random, 20), .serial = serial++ };
                CHECK(agenda_add(&agenda, one));
                list[count++] = one;
                continue;
            }
            uint32_t first = 0;
            struct happening next;
            for (uint32_t i = 1; i < count; i++)
                if (list[i].at_ns < list[first].at_ns)
                    first = i;
            CHECK(agenda_next(&agenda, &next) == (count > 0));
            if (count == 0)
                continue;
            CHECK_EQUAL(list[first].serial, next.serial);
            for (uint32_t i = first; i + 1 < count; i++)
                list[i] = list[i + 1];
            count--;
        }
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(an_empty_agenda_has_nothing_next),     TEST(the_earliest_is_next),
        TEST(those_at_one_moment_keep_their_order), TEST(a_full_agenda_says_so),
        TEST(any_mixture_comes_out_as_from_a_list),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
