#include "harness.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static jmp_buf leave_test;
static uint64_t seed = 1;

uint64_t test_seed(void)
{
    return seed;
}

unsigned test_repetitions(unsigned base)
{
    const char *factor = getenv("MUSTER_TEST_REPEAT");
    unsigned times = factor ? (unsigned)strtoul(factor, NULL, 10) : 1;
    return times > 0 ? base * times : base;
}

void test_fail(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("    %s:%d: ", file, line);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    longjmp(leave_test, 1);
}

void test_check_equal(const char *file, int line, const char *what, int64_t expected,
                      int64_t actual)
{
    if (expected != actual)
        test_fail(file, line, "%s is %" PRId64 ", expected %" PRId64, what, actual, expected);
}

void test_check_status(const char *file, int line, const char *what, muster_status expected,
                       muster_status actual)
{
    if (expected != actual)
        test_fail(file, line, "%s is %s (%d), expected %s", what, muster_status_name(actual),
                  actual, muster_status_name(expected));
}

void test_check_text(const char *file, int line, const char *what, const char *expected,
                     const char *actual)
{
    if (strcmp(expected, actual) != 0)
        test_fail(file, line, "%s is \"%s\", expected \"%s\"", what, actual, expected);
}

void test_check_contains(const char *file, int line, const char *what, const char *part,
                         const char *text)
{
    if (!strstr(text, part))
        test_fail(file, line, "%s is \"%s\", expected \"%s\" in it", what, text, part);
}

static void stop_on_broken_invariant(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, condition);
    abort();
}

static bool wanted(const char *name, char **names, int count)
{
    if (count == 0)
        return true;
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

int test_main(int argc, char **argv, const struct test *tests, size_t count)
{
    unsigned time_limit_s = 300;
    int first_name = 1;
    const char *from_environment = getenv("MUSTER_TEST_SEED");
    if (from_environment)
        seed = strtoull(from_environment, NULL, 10);
    for (; first_name < argc && strncmp(argv[first_name], "--", 2) == 0; first_name++) {
        const char *option = argv[first_name];
        if (strcmp(option, "--list") == 0) {
            for (size_t i = 0; i < count; i++)
                printf("%s\n", tests[i].name);
            return 0;
        }
        if (first_name + 1 < argc && strcmp(option, "--seed") == 0) {
            seed = strtoull(argv[++first_name], NULL, 10);
        } else if (first_name + 1 < argc && strcmp(option, "--time-limit") == 0) {
            time_limit_s = (unsigned)strtoul(argv[++first_name], NULL, 10);
        } else {
            fprintf(stderr, "usage: %s [--list] [--seed N] [--time-limit SECONDS] [NAME...]\n",
                    argv[0]);
            return 2;
        }
    }
    muster_set_assert_hook(stop_on_broken_invariant);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("seed %" PRIu64 "\n", seed);
    /* A hang is a failure: SIGALRM ends the program, and the last line printed names the test. */
    alarm(time_limit_s);
    volatile size_t passed = 0, failed = 0;
    for (volatile size_t i = 0; i < count; i++) {
        if (!wanted(tests[i].name, argv + first_name, argc - first_name))
            continue;
        printf("  %s\n", tests[i].name);
        if (setjmp(leave_test) == 0) {
            tests[i].run();
            passed++;
        } else {
            printf("    FAILED: %s\n", tests[i].name);
            failed++;
        }
    }
    printf("%zu passed, %zu failed\n", (size_t)passed, (size_t)failed);
    return failed > 0 || passed == 0;
}
