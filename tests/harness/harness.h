/*
 * The test harness: plain programs, no library, so they run on a machine that has nothing
 * installed.
 *
 *     static void a_block_can_be_freed(void) { ... CHECK(x == 1); CHECK_STATUS(MUSTER_OK,
 * muster_...(&err)); } int main(int argc, char **argv)
 *     {
 *         static const struct test tests[] = { TEST(a_block_can_be_freed) };
 *         return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
 *     }
 *
 * Usage of such a program: [--list] [--seed N] [--time-limit SECONDS] [--patience TIMES] [NAME...].
 * Each test ends at its first failed check. Broken invariants of the library stop the program. The
 * last line is "N passed, N failed".
 */
#ifndef TEST_HARNESS_H
#define TEST_HARNESS_H

#include <muster/status.h>
#include <stdbool.h>
#include <stdint.h>

struct test {
    const char *name;
    void (*run)(void);
};
/* clang-format off */
#define TEST(function) { #function, function }
/* clang-format on */

int test_main(int argc, char **argv, const struct test *tests, size_t count);

/* The seed of this run: --seed, or MUSTER_TEST_SEED, or 1. */
uint64_t test_seed(void);

/* How often loops that look for races should run: `base`, or base x MUSTER_TEST_REPEAT. */
unsigned test_repetitions(unsigned base);

/*
 * How long a test lets the library wait for what never comes: `ns`, or more. A test that has asked and
 * fails is run again in a new process, with 8 and at last 64 times as long, because a busy machine
 * may keep what is sound from working for longer than any short time-out. What fails because of a bug
 * fails each time. Not while MUSTER_TEST_IMPATIENT is set.
 */
uint64_t test_patience(uint64_t ns);

/* One of three values, by the sanitizer that this program is built with: each slows it down. */
#if defined(__has_feature)
#define TEST_HAS(feature) __has_feature(feature)
#else
#define TEST_HAS(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || TEST_HAS(thread_sanitizer)
#define TEST_BY_SANITIZER(plain, with_asan, with_tsan) (with_tsan)
#elif defined(__SANITIZE_ADDRESS__) || TEST_HAS(address_sanitizer)
#define TEST_BY_SANITIZER(plain, with_asan, with_tsan) (with_asan)
#else
#define TEST_BY_SANITIZER(plain, with_asan, with_tsan) (plain)
#endif

/* Ends the current test as failed; must be called on the test's own thread. */
_Noreturn void test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define CHECK(condition)                                                                           \
    ((condition) ? (void)0 : test_fail(__FILE__, __LINE__, "not true: %s", #condition))
#define CHECK_EQUAL(expected, actual)                                                              \
    test_check_equal(__FILE__, __LINE__, #actual, (int64_t)(expected), (int64_t)(actual))
#define CHECK_STATUS(expected, actual)                                                             \
    test_check_status(__FILE__, __LINE__, #actual, (expected), (actual))
#define CHECK_TEXT(expected, actual)                                                               \
    test_check_text(__FILE__, __LINE__, #actual, (expected), (actual))
/* `part` stands somewhere in `text`. */
#define CHECK_CONTAINS(part, text) test_check_contains(__FILE__, __LINE__, #text, (part), (text))

void test_check_equal(const char *file, int line, const char *what, int64_t expected,
                      int64_t actual);
void test_check_status(const char *file, int line, const char *what, muster_status expected,
                       muster_status actual);
void test_check_text(const char *file, int line, const char *what, const char *expected,
                     const char *actual);
void test_check_contains(const char *file, int line, const char *what, const char *part,
                         const char *text);

#endif
