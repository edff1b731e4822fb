#include "core/grains.h"

#include "base/random.h"
#include "support.h"

static struct muster_range range(uint64_t begin, uint64_t end)
{
    return (struct muster_range){ begin, end };
}

static void the_cut_is_the_same_for_ever(void)
{
    CHECK_EQUAL(0, grains_count(0, 10));
    CHECK_EQUAL(0, grains_count(10, 0));
    CHECK_EQUAL(1, grains_count(1, 10));
    CHECK_EQUAL(3, grains_count(21, 10));
    CHECK_EQUAL(2, grains_count(20, 10));
    struct muster_range last = grains_items(21, 10, range(2, 3));
    CHECK_EQUAL(20, last.begin);
    CHECK_EQUAL(21, last.end);
    struct muster_range all = grains_items(21, 10, range(0, 3));
    CHECK(all.begin == 0 && all.end == 21);
}

static void the_cut_does_not_overflow(void)
{
    struct muster_range items = grains_items(UINT64_MAX, UINT64_MAX - 1, range(1, 2));
    CHECK(items.begin == UINT64_MAX - 1 && items.end == UINT64_MAX);
    CHECK_EQUAL(2, grains_count(UINT64_MAX, UINT64_MAX - 1));
}

static void a_set_counts_its_members_once(void)
{
    uint64_t words[4];
    struct grain_set set;
    CHECK_EQUAL(sizeof words, grain_set_bytes(200));
    grain_set_init(&set, words, 200);
    CHECK_EQUAL(100, grain_set_add(&set, range(50, 150)));
    CHECK_EQUAL(20, grain_set_add(&set, range(140, 170)));
    CHECK_EQUAL(120, set.members);
    CHECK(!grain_set_has(&set, 49) && grain_set_has(&set, 50) && grain_set_has(&set, 169));
    CHECK(!grain_set_has(&set, 170) && !grain_set_has(&set, 1000));
    CHECK_EQUAL(30, grain_set_remove(&set, range(0, 80)));
    CHECK_EQUAL(90, set.members);
    CHECK_EQUAL(30, grain_set_add(&set, range(170, UINT64_MAX)));
    CHECK_EQUAL(0, grain_set_add(&set, range(300, 400)));
}

static void runs_end_where_membership_changes(void)
{
    uint64_t words[4];
    struct grain_set set;
    grain_set_init(&set, words, 200);
    grain_set_add(&set, range(64, 128));
    CHECK_EQUAL(64, grain_set_run_end(&set, 0, 200));
    CHECK_EQUAL(128, grain_set_run_end(&set, 64, 200));
    CHECK_EQUAL(100, grain_set_run_end(&set, 64, 100));
    CHECK_EQUAL(200, grain_set_run_end(&set, 128, 1000));
    CHECK_EQUAL(200, grain_set_run_end(&set, 200, 300));
}

/* Against a set that is a byte for each. */
static void a_set_is_what_it_says(void)
{
    static bool plain[1000];
    uint64_t words[16];
    struct grain_set set;
    struct random random;
    random_init(&random, test_seed());
    memset(plain, 0, sizeof plain);
    grain_set_init(&set, words, 1000);
    for (unsigned i = 0; i < 3000; i++) {
        uint64_t from = random_below(&random, 1000), to = from + random_below(&random, 200);
        bool adds = random_below(&random, 2) > 0;
        uint64_t changed = 0, members = 0, end = from;
        for (uint64_t g = from; g < to && g < 1000; g++) {
            changed += plain[g] != adds;
            plain[g] = adds;
        }
        CHECK_EQUAL(changed, adds ? grain_set_add(&set, range(from, to))
                                  : grain_set_remove(&set, range(from, to)));
        for (uint64_t g = 0; g < 1000; g++)
            members += plain[g];
        CHECK_EQUAL(members, set.members);
        from = random_below(&random, 1000);
        for (end = from; end < 1000 && plain[end] == plain[from]; end++)
            ;
        CHECK_EQUAL(end, grain_set_run_end(&set, from, 1000));
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(the_cut_is_the_same_for_ever),  TEST(the_cut_does_not_overflow),
        TEST(a_set_counts_its_members_once), TEST(runs_end_where_membership_changes),
        TEST(a_set_is_what_it_says),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
