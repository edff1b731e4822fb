/*
 * A foreign program in C++: finds the installed headers and library, runs a lambda as a kernel,
 * and gets an exception back.
 */
#include <cstdio>
#include <muster/muster.hpp>
#include <stdexcept>
#include <vector>

static bool runs_lambdas(muster::runtime &m)
{
    const muster::kernel twice =
        m.function("twice", [](uint64_t begin, uint64_t end, muster::kernel_args a) {
            for (uint64_t i = begin; i < end; i++)
                a.array<int>(0)[i] *= 2;
        });
    std::vector<int> x(1000, 21);
    m.for_each(twice, { muster::inout(x) });
    muster::task task = m.submit([] { throw std::runtime_error("mine"); });
    try {
        task.wait();
        return false;
    } catch (const std::runtime_error &) {
        return x[0] == 42 && x[999] == 42;
    }
}

int main()
try {
    muster::options how;
    how.devices = "cpu";
    muster::runtime m(how);
    const bool is_right = runs_lambdas(m);
    std::printf("%s %s\n", m.info(m.devices().at(0)).id, is_right ? "right" : "WRONG");
    m.close();
    return is_right ? 0 : 1;
} catch (const muster::error &failed) {
    std::fprintf(stderr, "%s\n", failed.what());
    return 1;
}
