#include "core/budget.h"

#include "base/random.h"
#include "support.h"

static void not_now_and_never_are_told_apart(void)
{
    struct budget budget;
    budget_init(&budget, 100);
    CHECK_STATUS(MUSTER_OK, budget_check(&budget, 100));
    CHECK_STATUS(MUSTER_E_TOO_LARGE, budget_check(&budget, 101));
    CHECK_STATUS(MUSTER_OK, budget_reserve(&budget, 60));
    CHECK_STATUS(MUSTER_OK, budget_check(&budget, 40));
    CHECK_STATUS(MUSTER_E_DEVICE_MEMORY, budget_reserve(&budget, 41));
    CHECK_STATUS(MUSTER_E_TOO_LARGE, budget_reserve(&budget, UINT64_MAX));
    CHECK_EQUAL(60, budget.reserved);
    CHECK_EQUAL(40, budget_free(&budget));
    budget_cancel(&budget, 60);
    CHECK_EQUAL(100, budget_free(&budget));
}

static void freed_bytes_count_until_they_are_reclaimed(void)
{
    struct budget budget;
    budget_init(&budget, 100);
    CHECK_STATUS(MUSTER_OK, budget_reserve(&budget, 100));
    budget_allocated(&budget, 100);
    CHECK_EQUAL(100, budget.used);
    budget_freed(&budget, 30);
    CHECK_EQUAL(70, budget.used);
    CHECK_EQUAL(30, budget.unreclaimed);
    CHECK_STATUS(MUSTER_E_DEVICE_MEMORY, budget_reserve(&budget, 1));
    budget_reclaimed(&budget, 30);
    CHECK_STATUS(MUSTER_OK, budget_reserve(&budget, 30));
}

static void kept_bytes_count_until_they_are_used_or_freed(void)
{
    struct budget budget;
    budget_init(&budget, 100);
    CHECK_STATUS(MUSTER_OK, budget_reserve(&budget, 80));
    budget_allocated(&budget, 80);
    budget_kept(&budget, 50);
    CHECK_EQUAL(30, budget.used);
    CHECK_EQUAL(50, budget.kept);
    CHECK_EQUAL(20, budget_free(&budget));
    CHECK_STATUS(MUSTER_E_DEVICE_MEMORY, budget_reserve(&budget, 21));
    budget_reused(&budget, 10);
    CHECK_EQUAL(40, budget.used);
    CHECK_EQUAL(40, budget.kept);
    budget_reused(&budget, 40);
    budget_freed(&budget, 80);
    budget_reclaimed(&budget, 80);
    CHECK_EQUAL(100, budget_free(&budget));
}

static void sums_saturate(void)
{
    const uint64_t bytes[] = { 1, UINT64_MAX - 2, 1, 1 };
    CHECK_EQUAL(0, budget_sum(bytes, 0));
    CHECK(budget_sum(bytes, 2) == UINT64_MAX - 1);
    CHECK(budget_sum(bytes, 3) == UINT64_MAX);
    CHECK(budget_sum(bytes, 4) == UINT64_MAX);
}

static void the_largest_budget_can_be_filled(void)
{
    struct budget budget;
    budget_init(&budget, UINT64_MAX);
    CHECK_STATUS(MUSTER_OK, budget_reserve(&budget, UINT64_MAX));
    CHECK_EQUAL(0, budget_free(&budget));
    CHECK_STATUS(MUSTER_E_DEVICE_MEMORY, budget_check(&budget, 1));
    CHECK_STATUS(MUSTER_OK, budget_check(&budget, 0));
}

enum piece_state { NOWHERE, RESERVED, USED, UNRECLAIMED, STATES };

/* Each piece is in one state; the sums over the pieces are what the budget must show. */
static void random_use_agrees_with_a_list_of_pieces(void)
{
    enum { PIECES = 40 };
    struct random random;
    random_init(&random, test_seed());
    for (unsigned round = 0; round < 20; round++) {
        struct {
            enum piece_state state;
            uint64_t bytes;
        } pieces[PIECES] = { { NOWHERE, 0 } };
        struct budget budget;
        uint64_t limit = 1 + random_below(&random, 1000), sums[STATES] = { 0 };
        budget_init(&budget, limit);
        for (unsigned step = 0; step < 3000; step++) {
            size_t i = (size_t)random_below(&random, PIECES);
            enum piece_state next = NOWHERE;
            switch (pieces[i].state) {
            case NOWHERE: {
                uint64_t bytes = random_below(&random, limit + limit / 8);
                uint64_t taken = sums[RESERVED] + sums[USED] + sums[UNRECLAIMED];
                muster_status expected = bytes > limit           ? MUSTER_E_TOO_LARGE
                                         : bytes + taken > limit ? MUSTER_E_DEVICE_MEMORY
                                                                 : MUSTER_OK;
                CHECK_STATUS(expected, budget_check(&budget, bytes));
                CHECK_STATUS(expected, budget_reserve(&budget, bytes));
                pieces[i].bytes = bytes;
                next = expected == MUSTER_OK ? RESERVED : NOWHERE;
                break;
            }
            case RESERVED:
                next = random_below(&random, 4) == 0 ? NOWHERE : USED;
                if (next == NOWHERE)
                    budget_cancel(&budget, pieces[i].bytes);
                else
                    budget_allocated(&budget, pieces[i].bytes);
                break;
            case USED:
                next = UNRECLAIMED;
                budget_freed(&budget, pieces[i].bytes);
                break;
            default:
                budget_reclaimed(&budget, pieces[i].bytes);
            }
            sums[pieces[i].state] -= pieces[i].bytes * (pieces[i].state != NOWHERE);
            sums[next] += pieces[i].bytes * (next != NOWHERE);
            pieces[i].state = next;
            CHECK_EQUAL(sums[RESERVED], budget.reserved);
            CHECK_EQUAL(sums[USED], budget.used);
            CHECK_EQUAL(sums[UNRECLAIMED], budget.unreclaimed);
            uint64_t taken = budget.reserved + budget.used + budget.unreclaimed;
            CHECK(taken <= limit);
            CHECK_EQUAL(limit - taken, budget_free(&budget));
        }
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(not_now_and_never_are_told_apart),
        TEST(freed_bytes_count_until_they_are_reclaimed),
        TEST(kept_bytes_count_until_they_are_used_or_freed),
        TEST(sums_saturate),
        TEST(the_largest_budget_can_be_filled),
        TEST(random_use_agrees_with_a_list_of_pieces),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
