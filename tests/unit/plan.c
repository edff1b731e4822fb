#include "core/plan.h"

#include "support.h"

#define MIB (UINT64_C(1) << 20)

static const struct {
    const char *text;
    uint64_t bytes;
} texts[] = {
    { NULL, 256 * MIB },
    { "128", 128 * MIB },
    { "1", MIB },
    { "0128", 128 * MIB },
    { "0", 256 * MIB },
    { "000", 256 * MIB },
    { "-5", 256 * MIB },
    { "+5", 256 * MIB },
    { "abc", 256 * MIB },
    { "", 256 * MIB },
    { " ", 256 * MIB },
    { " 128", 256 * MIB },
    { "128 ", 256 * MIB },
    { "128abc", 256 * MIB },
    { "0x80", 256 * MIB },
    { "1.5", 256 * MIB },
    { "1e3", 256 * MIB },
    { "17592186044415", UINT64_MAX - (MIB - 1) }, /* the last whose bytes fit */
    { "17592186044416", UINT64_MAX },
    { "18446744073709551615", UINT64_MAX },
    { "18446744073709551616", UINT64_MAX },
    { "99999999999999999999999999999999999999", UINT64_MAX },
    { "99999999999999999999999999999999999999x", 256 * MIB },
};

static void a_stream_plans_what_the_text_says_or_the_default(void)
{
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        CHECK(plan_stream_bytes(texts[i].text) == texts[i].bytes);
}

static void a_job_plans_the_product_and_saturates(void)
{
    CHECK_EQUAL(0, plan_job_bytes(0, 5, 5));
    CHECK_EQUAL(0, plan_job_bytes(5, 0, UINT64_MAX));
    CHECK_EQUAL(0, plan_job_bytes(UINT64_MAX, 0, UINT64_MAX));
    CHECK_EQUAL(2 * 3 * 256 * MIB, plan_job_bytes(2, 3, 256 * MIB));
    CHECK(plan_job_bytes(1, 1, UINT64_MAX) == UINT64_MAX);
    CHECK(plan_job_bytes(2, 1, UINT64_MAX / 2) == UINT64_MAX - 1);
    CHECK(plan_job_bytes(2, 1, UINT64_MAX / 2 + 1) == UINT64_MAX);
    CHECK(plan_job_bytes(UINT64_MAX, UINT64_MAX, 1) == UINT64_MAX);
    CHECK(plan_job_bytes(UINT64_C(1) << 32, UINT64_C(1) << 32, 1) == UINT64_MAX);
}

static void the_variable_is_read_at_open(void)
{
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        if (texts[i].text)
            setenv("MUSTER_POOL_MB_PER_STREAM", texts[i].text, 1);
        else
            unsetenv("MUSTER_POOL_MB_PER_STREAM");
        struct muster *m = open_plain();
        setenv("MUSTER_POOL_MB_PER_STREAM", "3", 1);
        CHECK(muster_stream_plan(m, 1, 1) == texts[i].bytes);
        CHECK(muster_stream_plan(m, 3, 2) == plan_job_bytes(3, 2, texts[i].bytes));
        CHECK(muster_stream_plan(m, UINT64_MAX, 2) == UINT64_MAX);
        CHECK_EQUAL(0, muster_stream_plan(m, 0, 2));
        struct muster_stream_info info = { .size = sizeof info };
        muster_stream stream = acquire(m, find(m, "cpu:0"));
        MUST(muster_stream_resolve(m, stream, &info, &problem));
        CHECK(info.planned_bytes == texts[i].bytes);
        MUST(muster_close(m, &problem));
    }
    unsetenv("MUSTER_POOL_MB_PER_STREAM");
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_stream_plans_what_the_text_says_or_the_default),
        TEST(a_job_plans_the_product_and_saturates),
        TEST(the_variable_is_read_at_open),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
