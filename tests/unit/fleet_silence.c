#include "core/fleet/silence.h"

#include "support.h"

static struct silence silence;

/* Somebody beats every half second up to a moment; gives when. */
static uint64_t beat(uint64_t from_ns, uint64_t to_ns)
{
    uint64_t at_ns = from_ns;
    for (; at_ns <= to_ns; at_ns += SECOND / 2)
        silence_heard(&silence, at_ns);
    return at_ns - SECOND / 2;
}

static void who_is_silent_while_others_speak_is_silent(void)
{
    silence_init(&silence, 0);
    uint64_t one = silence_heard(&silence, 0);
    beat(0, 3 * SECOND);
    CHECK_EQUAL(3 * SECOND, silence_of(&silence, one, 3 * SECOND));
    uint64_t other = silence_heard(&silence, 3 * SECOND);
    CHECK_EQUAL(0, silence_of(&silence, other, 3 * SECOND));
    CHECK_EQUAL(SECOND / 4, silence_of(&silence, other, 3 * SECOND + SECOND / 4));
}

static void nobody_is_silent_for_long_when_all_are(void)
{
    silence_init(&silence, 0);
    uint64_t one = silence_heard(&silence, 0);
    CHECK_EQUAL(SILENCE_ALONE_NS, silence_of(&silence, one, SECOND));
    CHECK_EQUAL(SILENCE_ALONE_NS, silence_of(&silence, one, 1000 * SECOND));
    CHECK_EQUAL(UINT64_MAX, silence_due(&silence, one, 3 * SECOND));
}

/* Servers fail over: the first worker that is heard again has no advantage of the others. */
static void all_begin_anew_after_nobody_was_heard(void)
{
    silence_init(&silence, 0);
    uint64_t one = silence_heard(&silence, 0);
    silence_heard(&silence, 0);
    silence_heard(&silence, 9 * SECOND);
    CHECK_EQUAL(0, silence_of(&silence, one, 9 * SECOND));
    beat(9 * SECOND, 11 * SECOND);
    CHECK_EQUAL(2 * SECOND, silence_of(&silence, one, 11 * SECOND));
}

static void a_link_that_is_down_hears_nobody(void)
{
    silence_init(&silence, 0);
    uint64_t one = silence_heard(&silence, 0);
    beat(0, 2 * SECOND);
    silence_link(&silence, false, 2 * SECOND);
    CHECK_EQUAL(2 * SECOND, silence_of(&silence, one, 2 * SECOND + SECOND / 2));
    CHECK_EQUAL(UINT64_MAX, silence_due(&silence, one, 3 * SECOND));
    silence_link(&silence, true, 60 * SECOND);
    CHECK_EQUAL(0, silence_of(&silence, one, 60 * SECOND));
    beat(60 * SECOND, 63 * SECOND);
    CHECK_EQUAL(3 * SECOND, silence_of(&silence, one, 63 * SECOND));
}

static void the_due_moment_is_when_it_has_been_so_long(void)
{
    silence_init(&silence, 5 * SECOND);
    uint64_t one = silence_heard(&silence, 5 * SECOND);
    uint64_t last = beat(5 * SECOND, 7 * SECOND + SECOND / 2);
    uint64_t due = silence_due(&silence, one, 3 * SECOND);
    CHECK_EQUAL(last + SECOND / 2, due);
    CHECK(silence_of(&silence, one, due - 1) < 3 * SECOND);
    CHECK_EQUAL(3 * SECOND, silence_of(&silence, one, due));
    CHECK_EQUAL(last, silence_due(&silence, one, SECOND));
}

static void a_clock_that_stands_still_or_goes_back_harms_nothing(void)
{
    silence_init(&silence, 10 * SECOND);
    uint64_t one = silence_heard(&silence, 10 * SECOND);
    silence_heard(&silence, 9 * SECOND);
    CHECK_EQUAL(0, silence_of(&silence, one, 9 * SECOND));
    CHECK_EQUAL(SECOND / 2, silence_of(&silence, one, 10 * SECOND + SECOND / 2));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(who_is_silent_while_others_speak_is_silent),
        TEST(nobody_is_silent_for_long_when_all_are),
        TEST(all_begin_anew_after_nobody_was_heard),
        TEST(a_link_that_is_down_hears_nobody),
        TEST(the_due_moment_is_when_it_has_been_so_long),
        TEST(a_clock_that_stands_still_or_goes_back_harms_nothing),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
