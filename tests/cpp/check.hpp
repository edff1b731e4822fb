/*
 * Checks for tests in C++: a failed one throws, so that destructors run, which the C harness's
 * longjmp would skip. A program is [NAME...]; its last line is "N passed, N failed".
 */
#ifndef TESTS_CPP_CHECK_HPP
#define TESTS_CPP_CHECK_HPP

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <muster/status.h>
#include <stdexcept>
#include <string>

struct test {
    const char *name;
    void (*run)();
};
/* clang-format off */
#define TEST(function) { #function, function }
/* clang-format on */

class check_failed : public std::runtime_error
{
  public:
    using std::runtime_error::runtime_error;
};

[[noreturn]] inline void check_fail(const char *file, int line, const std::string &what)
{
    throw check_failed(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

#define CHECK(condition)                                                                           \
    ((condition) ? (void)0 : check_fail(__FILE__, __LINE__, "not true: " #condition))
/* The expression throws an exception of this type, which `caught` is then. */
#define CHECK_THROWS(type, expression, ...)                                                        \
    do {                                                                                           \
        bool has_thrown = false;                                                                   \
        try {                                                                                      \
            (void)(expression);                                                                    \
        } catch (const type &caught) {                                                             \
            has_thrown = true;                                                                     \
            (void)caught;                                                                          \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
        if (!has_thrown)                                                                           \
            check_fail(__FILE__, __LINE__, "nothing thrown: " #expression);                        \
    } while (0)

inline void broken(const char *file, int line, const char *condition)
{
    std::fprintf(stderr, "broken invariant %s:%d: %s\n", file, line, condition);
    std::abort();
}

template <size_t count> int test_main(int argc, char **argv, const test (&tests)[count])
{
    muster_set_assert_hook(broken);
    unsigned passed = 0, failed = 0;
    for (const test &one : tests) {
        bool is_wanted = argc < 2;
        for (int i = 1; i < argc; i++)
            is_wanted = is_wanted || std::strcmp(argv[i], one.name) == 0;
        if (!is_wanted)
            continue;
        try {
            one.run();
            passed++;
        } catch (const std::exception &caught) {
            std::printf("%s: %s\n", one.name, caught.what());
            failed++;
        }
    }
    std::printf("%u passed, %u failed\n", passed, failed);
    return failed != 0 || passed == 0;
}

#endif
