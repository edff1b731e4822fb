#include "base/random.h"
#include "support.h"

/* The rule as it is written down, in numbers that cannot overflow. */
__extension__ typedef unsigned __int128 wide;

static wide unit_on_paper(uint64_t total, uint64_t devices)
{
    if (total == 0 || devices == 0)
        return 0;
    wide unit = (wide)total / ((wide)4 * devices);
    return unit > 0 ? unit : 1;
}

static void check_by_walking(uint64_t total, uint64_t devices)
{
    static struct muster_range units[1024];
    uint64_t count = 77, unit = (uint64_t)unit_on_paper(total, devices), at = 0, expected = 0;
    CHECK_EQUAL(unit, muster_partition_unit(total, devices));
    MUST(muster_partition(total, devices, units, COUNT_OF(units), &count, &problem));
    while (unit > 0 && at < total) {
        uint64_t end = at + unit < total ? at + unit : total;
        CHECK(expected < count);
        CHECK_EQUAL(at, units[expected].begin);
        CHECK_EQUAL(end, units[expected].end);
        struct muster_range one = muster_partition_at(total, devices, expected);
        CHECK(one.begin == at && one.end == end);
        at = end;
        expected++;
    }
    CHECK_EQUAL(expected, count);
    CHECK_EQUAL(expected, muster_partition_count(total, devices));
    struct muster_range past = muster_partition_at(total, devices, count);
    CHECK_EQUAL(past.begin, past.end);
}

static void small_numbers_agree_with_walking_through_them(void)
{
    for (uint64_t total = 0; total <= 400; total++)
        for (uint64_t devices = 0; devices <= 110; devices++)
            check_by_walking(total, devices);
}

/* Any unit of any pair: what it must be follows from its number alone. */
static void check_by_arithmetic(uint64_t total, uint64_t devices, uint64_t any)
{
    wide unit = unit_on_paper(total, devices);
    wide count = unit == 0 ? 0 : ((wide)total + unit - 1) / unit;
    CHECK(muster_partition_unit(total, devices) == unit);
    CHECK(muster_partition_count(total, devices) == count);
    if (count == 0)
        return;
    const uint64_t indices[] = { 0, (uint64_t)(any % count), (uint64_t)count - 1 };
    for (size_t i = 0; i < COUNT_OF(indices); i++) {
        wide begin = indices[i] * unit, end = begin + unit < total ? begin + unit : total;
        struct muster_range range = muster_partition_at(total, devices, indices[i]);
        CHECK(range.begin == begin && range.end == end && range.begin < range.end);
    }
    CHECK_EQUAL(total, muster_partition_at(total, devices, (uint64_t)count - 1).end);
    struct muster_range past = muster_partition_at(total, devices, UINT64_MAX);
    CHECK(past.begin == past.end || count > UINT64_MAX);
}

static void large_numbers_agree_with_128_bits(void)
{
    struct random random;
    random_init(&random, test_seed());
    for (unsigned round = 0; round < 200000; round++) {
        /* Of every magnitude, and often right beside a power of two. */
        uint64_t total = random_next(&random) >> random_below(&random, 64);
        uint64_t devices = random_next(&random) >> random_below(&random, 64);
        if (random_below(&random, 4) == 0)
            total = (UINT64_C(1) << random_below(&random, 64)) - random_below(&random, 2);
        if (random_below(&random, 4) == 0)
            devices = (UINT64_C(1) << random_below(&random, 64)) - random_below(&random, 2);
        check_by_arithmetic(total, devices, random_next(&random));
    }
}

static void the_ends_of_the_range_do_not_overflow(void)
{
    static const uint64_t ends[] = { 0,
                                     1,
                                     2,
                                     3,
                                     4,
                                     5,
                                     UINT64_MAX / 4 - 1,
                                     UINT64_MAX / 4,
                                     UINT64_MAX / 4 + 1,
                                     UINT64_MAX / 2,
                                     UINT64_MAX / 2 + 1,
                                     UINT64_MAX - 1,
                                     UINT64_MAX };
    for (size_t t = 0; t < COUNT_OF(ends); t++)
        for (size_t d = 0; d < COUNT_OF(ends); d++)
            check_by_arithmetic(ends[t], ends[d], 12345);
    CHECK_EQUAL(UINT64_MAX / 4, muster_partition_unit(UINT64_MAX, 1));
    CHECK_EQUAL(5, muster_partition_count(UINT64_MAX, 1));
    CHECK_EQUAL(1, muster_partition_unit(UINT64_MAX, UINT64_MAX));
    CHECK(muster_partition_count(UINT64_MAX, UINT64_MAX) == UINT64_MAX);
}

static void nothing_to_do_or_nobody_to_do_it_makes_no_units(void)
{
    struct muster_range unit = { 7, 7 };
    uint64_t count = 77;
    MUST(muster_partition(0, 3, &unit, 1, &count, &problem));
    CHECK_EQUAL(0, count);
    MUST(muster_partition(UINT64_MAX, 0, NULL, 0, &count, &problem));
    CHECK_EQUAL(0, count);
    CHECK_EQUAL(7, unit.begin);
}

static void too_little_room_writes_no_unit(void)
{
    struct muster_range units[12];
    uint64_t count = 0;
    memset(units, 0x5a, sizeof units);
    CHECK_STATUS(MUSTER_E_CAPACITY, muster_partition(100, 3, units, 11, &count, &problem));
    CHECK_EQUAL(13, count);
    CHECK_CONTAINS("13", problem.text);
    CHECK_CONTAINS("11", problem.text);
    for (size_t i = 0; i < sizeof units; i++)
        CHECK_EQUAL(0x5a, ((unsigned char *)units)[i]);
    CHECK_STATUS(MUSTER_E_CAPACITY,
                 muster_partition(UINT64_MAX, UINT64_MAX, units, 12, &count, NULL));
    CHECK(count == UINT64_MAX);
    CHECK_STATUS(MUSTER_E_CAPACITY, muster_partition(100, 3, NULL, 0, &count, NULL));
    CHECK_EQUAL(13, count);
}

static void no_place_for_the_answer_is_refused(void)
{
    struct muster_range unit;
    uint64_t count;
    CHECK_STATUS(MUSTER_E_INVALID, muster_partition(1, 1, &unit, 1, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_partition(1, 1, NULL, 1, &count, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(small_numbers_agree_with_walking_through_them),
        TEST(large_numbers_agree_with_128_bits),
        TEST(the_ends_of_the_range_do_not_overflow),
        TEST(nothing_to_do_or_nobody_to_do_it_makes_no_units),
        TEST(too_little_room_writes_no_unit),
        TEST(no_place_for_the_answer_is_refused),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
