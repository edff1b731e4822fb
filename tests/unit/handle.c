#include "base/handle.h"

#include "base/random.h"
#include "support.h"

static void slots_are_issued_once_and_in_order(void)
{
    struct handle_slot slots[5];
    struct handle_table table;
    memset(slots, 0xff, sizeof slots);
    handle_table_init(&table, slots, COUNT_OF(slots));
    for (uint32_t i = 0; i < COUNT_OF(slots); i++) {
        CHECK_STATUS(MUSTER_E_UNKNOWN, handle_check(&table, i, 1));
        CHECK_EQUAL(i, handle_issue(&table));
        CHECK_STATUS(MUSTER_OK, handle_check(&table, i, 1));
    }
    CHECK_EQUAL(HANDLE_NONE, handle_issue(&table));
    CHECK_EQUAL(5, table.live_count);
}

static void what_was_never_issued_is_unknown(void)
{
    struct handle_slot slots[2];
    struct handle_table table;
    handle_table_init(&table, slots, COUNT_OF(slots));
    CHECK_STATUS(MUSTER_E_UNKNOWN, handle_check(&table, 0, 0));
    CHECK_STATUS(MUSTER_E_UNKNOWN, handle_check(&table, 0, 1));
    CHECK_STATUS(MUSTER_E_UNKNOWN, handle_check(&table, 2, 1));
    CHECK_STATUS(MUSTER_E_UNKNOWN, handle_check(&table, UINT32_MAX, UINT32_MAX));
    CHECK_EQUAL(0, handle_issue(&table));
    CHECK_STATUS(MUSTER_E_UNKNOWN, handle_check(&table, 0, 0));
    CHECK_STATUS(MUSTER_E_UNKNOWN, handle_check(&table, 0, 2));
    handle_retire(&table, 0);
    CHECK_STATUS(MUSTER_E_STALE, handle_check(&table, 0, 1));
    CHECK_STATUS(MUSTER_E_UNKNOWN, handle_check(&table, 0, 2));
}

static void a_reused_slot_does_not_revive_old_handles(void)
{
    struct handle_slot slots[1];
    struct handle_table table;
    handle_table_init(&table, slots, 1);
    for (uint32_t generation = 1; generation <= 100; generation++) {
        CHECK_EQUAL(0, handle_issue(&table));
        for (uint32_t old = 1; old < generation; old++)
            CHECK_STATUS(MUSTER_E_STALE, handle_check(&table, 0, old));
        CHECK_STATUS(MUSTER_OK, handle_check(&table, 0, generation));
        handle_retire(&table, 0);
    }
}

static void a_slot_whose_generations_are_used_up_is_left_alone(void)
{
    struct handle_slot slots[2];
    struct handle_table table;
    handle_table_init(&table, slots, COUNT_OF(slots));
    slots[0].generation = UINT32_MAX;
    CHECK_EQUAL(0, handle_issue(&table));
    CHECK_STATUS(MUSTER_OK, handle_check(&table, 0, UINT32_MAX));
    handle_retire(&table, 0);
    CHECK_STATUS(MUSTER_E_STALE, handle_check(&table, 0, UINT32_MAX));
    CHECK_STATUS(MUSTER_E_STALE, handle_check(&table, 0, 1));
    CHECK_STATUS(MUSTER_E_UNKNOWN, handle_check(&table, 0, 0));
    CHECK_EQUAL(1, handle_issue(&table));
    CHECK_EQUAL(HANDLE_NONE, handle_issue(&table));
}

/* Every handle that was ever given is remembered, and what it must answer. */
static void random_use_agrees_with_a_ledger(void)
{
    enum { CAPACITY = 64, ISSUES = 4000 };
    static struct handle_slot small[8], large[CAPACITY];
    static struct {
        uint32_t index, generation;
        bool live;
    } ledger[ISSUES];
    struct random random;
    struct handle_table table;
    random_init(&random, test_seed());
    handle_table_init(&table, small, 8);
    uint32_t issued = 0, live = 0;
    while (issued < ISSUES) {
        if (table.capacity == 8 && live == 8) {
            memcpy(large, small, sizeof small);
            handle_table_grow(&table, large, CAPACITY);
        }
        if (random_below(&random, 2) == 0 && live < table.capacity) {
            uint32_t index = handle_issue(&table);
            CHECK(index < table.capacity);
            for (uint32_t i = 0; i < issued; i++)
                CHECK(!ledger[i].live || ledger[i].index != index);
            ledger[issued].index = index;
            ledger[issued].generation = table.slots[index].generation;
            ledger[issued++].live = true;
            live++;
        } else if (live > 0) {
            uint32_t i;
            do
                i = (uint32_t)random_below(&random, issued);
            while (!ledger[i].live);
            handle_retire(&table, ledger[i].index);
            ledger[i].live = false;
            live--;
        }
        CHECK_EQUAL(live, table.live_count);
        uint32_t any = (uint32_t)random_below(&random, issued);
        if (issued > 0)
            CHECK_STATUS(ledger[any].live ? MUSTER_OK : MUSTER_E_STALE,
                         handle_check(&table, ledger[any].index, ledger[any].generation));
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(slots_are_issued_once_and_in_order),
        TEST(what_was_never_issued_is_unknown),
        TEST(a_reused_slot_does_not_revive_old_handles),
        TEST(a_slot_whose_generations_are_used_up_is_left_alone),
        TEST(random_use_agrees_with_a_ledger),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
