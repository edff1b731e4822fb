#include "core/throughput.h"

#include "support.h"

/* Nearly equal: sums of a few roundings apart. */
static void check_rate(double expected, double actual)
{
    double apart = actual > expected ? actual - expected : expected - actual;
    if (apart > expected * 1e-9)
        test_fail(__FILE__, __LINE__, "rate is %.12g, expected %.12g", actual, expected);
}

static void the_first_piece_seeds_the_average(void)
{
    struct throughput throughput = { .per_s = 0 };
    struct throughput_mark mark = throughput_begin(&throughput, 5 * SECOND);
    CHECK_EQUAL(1, throughput.depth);
    check_rate(0, throughput.per_s);
    throughput_end(&throughput, 7 * SECOND, mark, 100);
    CHECK_EQUAL(0, throughput.depth);
    check_rate(50, throughput.per_s);
}

static void later_pieces_count_a_tenth(void)
{
    struct throughput throughput = { .per_s = 0 };
    double expected = 100;
    uint64_t now_ns = 0;
    for (unsigned i = 0; i < 20; i++) {
        uint64_t amount = i == 0 ? 100 : 200;
        struct throughput_mark mark = throughput_begin(&throughput, now_ns);
        now_ns += SECOND;
        throughput_end(&throughput, now_ns, mark, amount);
        if (i > 0)
            expected = 0.9 * expected + 0.1 * 200;
        check_rate(expected, throughput.per_s);
        now_ns += 10 * SECOND; /* idle time between pieces is not the device's slowness */
    }
    CHECK(throughput.per_s > 185 && throughput.per_s < 200);
}

/* n pieces of 10 items at once, on a device that does 10 items a second. */
static void pieces_side_by_side_show_the_rate_of_the_device(void)
{
    for (uint64_t n = 1; n <= 8; n++) {
        struct throughput throughput = { .per_s = 0 };
        struct throughput_mark marks[8];
        for (uint64_t i = 0; i < n; i++)
            marks[i] = throughput_begin(&throughput, 0);
        CHECK_EQUAL(n, throughput.depth);
        for (uint64_t i = 0; i < n; i++) {
            throughput_end(&throughput, n * SECOND, marks[i], 10);
            check_rate(10, throughput.per_s);
        }
    }
}

/* The second begins when the first is half done; each shares the device with the other half its time. */
static void overlap_is_counted_by_the_share_of_time(void)
{
    struct throughput throughput = { .per_s = 0 };
    struct throughput_mark first = throughput_begin(&throughput, 0);
    struct throughput_mark second = throughput_begin(&throughput, 1 * SECOND);
    throughput_end(&throughput, 2 * SECOND, first, 20); /* beside 1.5 on average: 20 x 1.5 / 2 */
    check_rate(15, throughput.per_s);
    throughput_end(&throughput, 3 * SECOND, second, 20);
    check_rate(15, throughput.per_s);
}

static void what_failed_leaves_the_average_as_it_is(void)
{
    struct throughput throughput = { .per_s = 0 };
    struct throughput_mark mark = throughput_begin(&throughput, 0);
    throughput_end(&throughput, SECOND, mark, 0);
    check_rate(0, throughput.per_s);
    mark = throughput_begin(&throughput, SECOND);
    throughput_end(&throughput, 2 * SECOND, mark, 10);
    mark = throughput_begin(&throughput, 2 * SECOND);
    throughput_end(&throughput, 3 * SECOND, mark, 0);
    check_rate(10, throughput.per_s);
    CHECK_EQUAL(0, throughput.depth);
}

static void no_time_and_clocks_that_step_back_are_survived(void)
{
    struct throughput throughput = { .per_s = 0 };
    struct throughput_mark mark = throughput_begin(&throughput, SECOND);
    throughput_end(&throughput, SECOND, mark, 3);
    check_rate(3e9, throughput.per_s);
    mark = throughput_begin(&throughput, SECOND / 2);
    throughput_end(&throughput, SECOND / 4, mark, 3);
    check_rate(3e9, throughput.per_s);
    CHECK_EQUAL(SECOND, throughput.changed_ns);
}

static void the_area_may_wrap(void)
{
    struct throughput throughput = { .area = UINT64_MAX - SECOND, .changed_ns = 0 };
    struct throughput_mark mark = throughput_begin(&throughput, 0);
    struct throughput_mark other = throughput_begin(&throughput, 0);
    throughput_end(&throughput, 2 * SECOND, mark, 10);
    throughput_end(&throughput, 2 * SECOND, other, 10);
    check_rate(10, throughput.per_s);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(the_first_piece_seeds_the_average),
        TEST(later_pieces_count_a_tenth),
        TEST(pieces_side_by_side_show_the_rate_of_the_device),
        TEST(overlap_is_counted_by_the_share_of_time),
        TEST(what_failed_leaves_the_average_as_it_is),
        TEST(no_time_and_clocks_that_step_back_are_survived),
        TEST(the_area_may_wrap),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
