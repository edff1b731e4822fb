#include "harness.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_STEP 8
#define PATIENCE_LAST 64

static jmp_buf leave_test;
static uint64_t seed = 1;
/* Of the test that runs, or is run first. */
static uint64_t patience = 1;
static atomic_bool has_asked_for_patience; /* on any thread */

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

uint64_t test_patience(uint64_t ns)
{
    atomic_store(&has_asked_for_patience, true);
    return ns * patience;
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

/*
 * Goes on in a new process, with this test and those after it: a test that has failed leaves threads
 * and memory behind. Comes back if that cannot be.
 */
static void run_again(char **argv, const struct test *tests, size_t count, char **names,
                      int name_count, unsigned time_limit_s, size_t passed, size_t failed)
{
    char numbers[5][24];
    snprintf(numbers[0], sizeof numbers[0], "%" PRIu64, seed);
    snprintf(numbers[1], sizeof numbers[1], "%u", time_limit_s);
    snprintf(numbers[2], sizeof numbers[2], "%" PRIu64, patience * PATIENCE_STEP);
    snprintf(numbers[3], sizeof numbers[3], "%zu", passed);
    snprintf(numbers[4], sizeof numbers[4], "%zu", failed);
    const char *const options[] = { argv[0],    "--seed",     numbers[0], "--time-limit",
                                    numbers[1], "--patience", numbers[2], "--passed",
                                    numbers[3], "--failed",   numbers[4] };
    size_t length = sizeof options / sizeof *options;
    const char **words = calloc(length + count + 1, sizeof *words);
    if (!words)
        return;
    memcpy(words, options, sizeof options);
    for (size_t i = 0; i < count; i++)
        if (wanted(tests[i].name, names, name_count))
            words[length++] = tests[i].name;
    printf("    again, with time-outs %s times as long\n", numbers[2]);
    fflush(NULL);
    execv("/proc/self/exe", (char *const *)(uintptr_t)words);
    free(words);
}

int test_main(int argc, char **argv, const struct test *tests, size_t count)
{
    unsigned time_limit_s = 600;
    volatile size_t passed = 0, failed = 0;
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
        } else if (first_name + 1 < argc && strcmp(option, "--patience") == 0) {
            patience = strtoull(argv[++first_name], NULL, 10);
        } else if (first_name + 1 < argc && strcmp(option, "--passed") == 0) {
            passed = strtoull(argv[++first_name], NULL, 10);
        } else if (first_name + 1 < argc && strcmp(option, "--failed") == 0) {
            failed = strtoull(argv[++first_name], NULL, 10);
        } else {
            fprintf(stderr,
                    "usage: %s [--list] [--seed N] [--time-limit SECONDS] [--patience TIMES] "
                    "[NAME...]\n",
                    argv[0]);
            return 2;
        }
    }
    muster_set_assert_hook(stop_on_broken_invariant);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("seed %" PRIu64 "\n", seed);
    /* A hang is a failure: SIGALRM ends the program, and the last line printed names the test. */
    alarm(time_limit_s);
    for (volatile size_t i = 0; i < count; i++) {
        if (!wanted(tests[i].name, argv + first_name, argc - first_name))
            continue;
        printf("  %s\n", tests[i].name);
        atomic_store(&has_asked_for_patience, false);
        if (setjmp(leave_test) == 0) {
            tests[i].run();
            passed++;
        } else {
            if (atomic_load(&has_asked_for_patience) && patience < PATIENCE_LAST &&
                !getenv("MUSTER_TEST_IMPATIENT"))
                run_again(argv, tests + i, count - i, argv + first_name, argc - first_name,
                          time_limit_s, passed, failed);
            printf("    FAILED: %s\n", tests[i].name);
            failed++;
        }
        patience = 1;
    }
    printf("%zu passed, %zu failed\n", (size_t)passed, (size_t)failed);
    return failed > 0 || passed == 0;
}
