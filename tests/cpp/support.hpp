/*
 * A runtime for tests: the processor and a simulated device.
 */
#ifndef TESTS_CPP_SUPPORT_HPP
#define TESTS_CPP_SUPPORT_HPP

#include <muster/muster.hpp>

#include "check.hpp"
#include <numeric>
#include <vector>

inline muster::runtime open_for_test()
{
    muster::options how;
    how.devices = "cpu,sim";
    how.sim = "[{\"items_per_s\":1e8}]";
    return muster::runtime(how);
}

/* 0, 1, 2 ... */
inline std::vector<float> counted(std::size_t count)
{
    std::vector<float> made(count);
    std::iota(made.begin(), made.end(), 0.0f);
    return made;
}

/* y = 2 x + 1, a kernel that is a lambda. */
inline muster::kernel make_linear(muster::runtime &m)
{
    return m.function("linear", [](uint64_t begin, uint64_t end, muster::kernel_args a) {
        const float *x = a.array<const float>(0);
        float *y = a.array<float>(1);
        for (uint64_t i = begin; i < end; i++)
            y[i] = 2 * x[i] + 1;
    });
}

struct own_exception : std::runtime_error {
    using std::runtime_error::runtime_error;
};

#endif
