/* What is learned of how long tasks take. */
#include "core/task_rates.h"
#include "support.h"

static struct task_rates *rates;

static void open_rates(uint32_t pairs, uint32_t devices)
{
    rates = task_rates_init(aligned_alloc(64, task_rates_bytes(pairs, devices)), pairs, devices);
}

static void the_first_sample_counts_until_there_is_a_second(void)
{
    open_rates(4, 2);
    uint32_t row = task_rates_row(rates, 7, 3);
    CHECK_EQUAL(0, (int64_t)task_rates_ns(rates, row, 1));
    task_rates_sample(rates, row, 1, 50000);
    CHECK_EQUAL(50000, (int64_t)task_rates_ns(rates, row, 1));
    task_rates_sample(rates, row, 1, 100);
    CHECK_EQUAL(100, (int64_t)task_rates_ns(rates, row, 1));
    CHECK_EQUAL(0, (int64_t)task_rates_ns(rates, row, 0));
    /* Also where it was faster. */
    task_rates_sample(rates, row, 0, 50);
    task_rates_sample(rates, row, 0, 100);
    CHECK_EQUAL(100, (int64_t)task_rates_ns(rates, row, 0));
    free(rates);
}

static void an_outlier_changes_nothing_and_a_slow_down_is_believed_after_three(void)
{
    open_rates(4, 1);
    uint32_t row = task_rates_row(rates, 1, 1);
    for (uint32_t i = 0; i < 6; i++)
        task_rates_sample(rates, row, 0, 100);
    task_rates_sample(rates, row, 0, 90000);
    CHECK_EQUAL(100, (int64_t)task_rates_ns(rates, row, 0));
    for (uint32_t i = 0; i < 5; i++)
        task_rates_sample(rates, row, 0, 100);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQUAL(100, (int64_t)task_rates_ns(rates, row, 0));
        task_rates_sample(rates, row, 0, 400);
    }
    CHECK_EQUAL(400, (int64_t)task_rates_ns(rates, row, 0));
    free(rates);
}

static void what_is_kept_counts_until_two_samples_have_come(void)
{
    struct task_rates_line line = { 3, 9, 1, 700 }, read;
    uint32_t place = 0;
    open_rates(4, 2);
    task_rates_restore(rates, &line);
    CHECK(task_rates_next(rates, &place, &read));
    CHECK(read.body == 3 && read.size_class == 9 && read.device == 1 && read.ns == 700);
    CHECK(!task_rates_next(rates, &place, &read));
    uint32_t row = task_rates_row(rates, 3, 9);
    task_rates_sample(rates, row, 1, 99999);
    CHECK_EQUAL(700, (int64_t)task_rates_ns(rates, row, 1));
    task_rates_sample(rates, row, 1, 500);
    CHECK_EQUAL(500, (int64_t)task_rates_ns(rates, row, 1));
    free(rates);
}

static void other_sizes_and_devices_lead_to_a_guess(void)
{
    open_rates(8, 2);
    uint32_t small = task_rates_row(rates, 1, 10), large = task_rates_row(rates, 1, 12);
    uint32_t other = task_rates_row(rates, 2, 10);
    CHECK_EQUAL(0, (int64_t)task_rates_guess_ns(rates, large, 0));
    task_rates_sample(rates, small, 0, 100);
    CHECK_EQUAL(400, (int64_t)task_rates_guess_ns(rates, large, 0));
    /* Device 1 took three times as long for what both have measured. */
    task_rates_sample(rates, small, 1, 300);
    task_rates_sample(rates, other, 0, 50);
    CHECK_EQUAL(150, (int64_t)task_rates_guess_ns(rates, other, 1));
    free(rates);
}

static void the_row_used_longest_ago_makes_room(void)
{
    open_rates(2, 1);
    task_rates_sample(rates, task_rates_row(rates, 1, 1), 0, 10);
    task_rates_sample(rates, task_rates_row(rates, 2, 1), 0, 20);
    task_rates_row(rates, 1, 1);
    CHECK_EQUAL(0, (int64_t)task_rates_ns(rates, task_rates_row(rates, 3, 1), 0));
    CHECK_EQUAL(10, (int64_t)task_rates_ns(rates, task_rates_row(rates, 1, 1), 0));
    CHECK_EQUAL(0, (int64_t)task_rates_ns(rates, task_rates_row(rates, 2, 1), 0));
    free(rates);
}

static void sizes_within_a_factor_of_two_are_alike(void)
{
    CHECK_EQUAL(0, task_rates_class(0));
    CHECK_EQUAL(1, task_rates_class(1));
    CHECK_EQUAL(task_rates_class(1024), task_rates_class(2047));
    CHECK(task_rates_class(2047) < task_rates_class(2048));
    CHECK_EQUAL(64, task_rates_class(UINT64_MAX));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(the_first_sample_counts_until_there_is_a_second),
        TEST(an_outlier_changes_nothing_and_a_slow_down_is_believed_after_three),
        TEST(what_is_kept_counts_until_two_samples_have_come),
        TEST(other_sizes_and_devices_lead_to_a_guess),
        TEST(the_row_used_longest_ago_makes_room),
        TEST(sizes_within_a_factor_of_two_are_alike),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
