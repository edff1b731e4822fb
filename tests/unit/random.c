#include "base/random.h"

#include "harness.h"

#include <stddef.h>

static void the_sequence_is_the_published_one(void)
{
    /*
     * splitmix64 from 0, as its authors give it; then xoshiro256** from those, by another program.
     */
    struct random random;
    random_init(&random, 0);
    CHECK(random.state[0] == UINT64_C(0xe220a8397b1dcdaf));
    CHECK(random.state[1] == UINT64_C(0x6e789e6aa1b965f4));
    CHECK(random.state[2] == UINT64_C(0x06c45d188009454f));
    CHECK(random.state[3] == UINT64_C(0xf88bb8a8724c81ec));
    static const uint64_t expected[] = { UINT64_C(0x99ec5f36cb75f2b4), UINT64_C(0xbf6e1f784956452a),
                                         UINT64_C(0x1a5f849d4933e6e0),
                                         UINT64_C(0x6aa594f1262d2d2c) };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        CHECK(random_next(&random) == expected[i]);
}

static void the_same_seed_gives_the_same_numbers(void)
{
    struct random a, b, c;
    random_init(&a, 42);
    random_init(&b, 42);
    random_init(&c, 43);
    int same = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t number = random_next(&a);
        CHECK(number == random_next(&b));
        same += number == random_next(&c);
    }
    CHECK_EQUAL(0, same);
}

static void numbers_below_a_bound_are_even(void)
{
    struct random random;
    random_init(&random, test_seed());
    CHECK_EQUAL(0, random_below(&random, 0));
    CHECK_EQUAL(0, random_below(&random, 1));
    enum { BOUND = 7, DRAWS = 70000 };
    int counts[BOUND] = { 0 };
    for (int i = 0; i < DRAWS; i++) {
        uint64_t number = random_below(&random, BOUND);
        CHECK(number < BOUND);
        counts[number]++;
    }
    /* 10,000 each with a standard deviation of 93: six of them. */
    for (int i = 0; i < BOUND; i++)
        CHECK(counts[i] > 10000 - 560 && counts[i] < 10000 + 560);
    /*
     * A bound of 3/4 of the range, where taking the remainder would make the first third twice as
     * likely.
     */
    uint64_t bound = UINT64_C(3) << 62;
    int first_third = 0;
    for (int i = 0; i < 30000; i++) {
        uint64_t number = random_below(&random, bound);
        CHECK(number < bound);
        first_third += number < bound / 3;
    }
    CHECK(first_third > 10000 - 490 && first_third < 10000 + 490);
}

static void units_are_below_one_and_centred(void)
{
    struct random random;
    random_init(&random, test_seed());
    double sum = 0, least = 1, most = 0;
    enum { DRAWS = 100000 };
    for (int i = 0; i < DRAWS; i++) {
        double unit = random_unit(&random);
        CHECK(unit >= 0 && unit < 1);
        sum += unit;
        least = unit < least ? unit : least;
        most = unit > most ? unit : most;
    }
    /* The mean has a standard deviation of 0.0009. */
    CHECK(sum / DRAWS > 0.4945 && sum / DRAWS < 0.5055);
    CHECK(least < 0.001 && most > 0.999);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(the_sequence_is_the_published_one),
        TEST(the_same_seed_gives_the_same_numbers),
        TEST(numbers_below_a_bound_are_even),
        TEST(units_are_below_one_and_centred),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
