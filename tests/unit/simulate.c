/*
 * A simulation's memory: counted, and ending anywhere. What a simulation decides is tests/sim's.
 */
#include "support.h"

static const char *const scenarios[] = {
    "{\"devices\":[{\"name\":\"a\",\"count\":3,\"items_per_s\":1e6},{\"items_per_s\":1e5,"
    "\"faults\":[{\"kind\":\"lost\",\"at_ms\":1}]}],\"job\":{\"items\":20000}}",
    "{\"devices\":[{\"items_per_s\":1e6,\"count\":40}],\"job\":{\"items\":5000,\"mode\":\"place\","
    "\"cost\":{\"kind\":\"pareto\",\"alpha\":2},\"unit\":\"quarter\"}}",
    "{\"devices\":[{\"items_per_s\":1e3,\"faults\":[{\"kind\":\"lost\",\"at_ms\":1}]}],"
    "\"job\":{\"items\":5000}}",
};

/* Memory that ends after so many pieces, for good. */
struct ending {
    struct counting counting;
    unsigned left;
};

static void *take_some(void *user, size_t bytes, size_t alignment)
{
    struct ending *ending = user;
    if (ending->left == 0)
        return NULL;
    ending->left--;
    return counting_allocate(&ending->counting, bytes, alignment);
}

static void give_back(void *user, void *memory, size_t bytes)
{
    struct ending *ending = user;
    counting_release(&ending->counting, memory, bytes);
}

static void memory_may_end_anywhere(void)
{
    struct ending ending = { .counting = COUNTING_INIT };
    const struct muster_simulation_options options = {
        .size = sizeof options, .seed = 1, .allocator = { take_some, give_back, &ending }
    };
    for (size_t i = 0; i < COUNT_OF(scenarios); i++) {
        muster_status status = MUSTER_E_NO_MEMORY;
        unsigned n = 0;
        for (; status == MUSTER_E_NO_MEMORY; n++) {
            struct muster_simulation *result = NULL;
            ending.left = n;
            problem = (struct muster_error){ .text = "" };
            status =
                muster_simulate(scenarios[i], strlen(scenarios[i]), &options, &result, &problem);
            CHECK(status == MUSTER_OK || (status == MUSTER_E_NO_MEMORY && !result));
            CHECK(status == MUSTER_OK || problem.text[0] != '\0');
            muster_simulation_destroy(result);
            CHECK_EQUAL(0, ending.counting.bytes);
            CHECK_EQUAL(0, ending.counting.wrong);
        }
        CHECK(n > 5);
    }
    muster_simulation_destroy(NULL);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(memory_may_end_anywhere) };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
