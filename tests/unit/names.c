#include "support.h"

#include <muster/bundle.h>
#include <muster/policy.h>

static const char *kind_name(int number)
{
    return muster_device_kind_name((enum muster_device_kind)number);
}

static const char *health_name(int number)
{
    return muster_health_name((enum muster_health)number);
}

static const char *refusal_name(int number)
{
    return muster_refusal_name((enum muster_refusal)number);
}

/* The forms are bits. */
static const char *form_name(int number)
{
    return muster_kernel_kind_name((enum muster_kernel_kind)(1 << number));
}

/* Programs and scripts compare with these words. */
static void every_constant_has_a_name_of_its_own(void)
{
    const struct {
        const char *(*name)(int number);
        int last;
        const char *first_word, *last_word;
    } lists[] = {
        { kind_name, MUSTER_KIND_SIMULATED, "other", "simulated" },
        { health_name, MUSTER_HEALTH_LOST, "ok", "lost" },
        { refusal_name, MUSTER_REFUSED_MIN_FREE, "not refused", "min_free" },
        { form_name, 6, "function", "cubin" },
    };
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        CHECK_TEXT(lists[i].first_word, lists[i].name(0));
        CHECK_TEXT(lists[i].last_word, lists[i].name(lists[i].last));
        for (int a = 0; a <= lists[i].last; a++)
            for (int b = 0; b < a; b++)
                CHECK(strcmp(lists[i].name(a), lists[i].name(b)) != 0);
    }
}

static void a_number_that_is_none_has_words_too(void)
{
    CHECK(kind_name(99) && *kind_name(99));
    CHECK(health_name(99) && *health_name(99));
    CHECK(refusal_name(99) && *refusal_name(99));
    CHECK(form_name(20) && *form_name(20));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(every_constant_has_a_name_of_its_own),
        TEST(a_number_that_is_none_has_words_too),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
