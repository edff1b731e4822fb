/*
 * The first program of the README in C++: saxpy over a million items on all devices.
 */
#include <cstdio>
#include <muster/muster.hpp>
#include <vector>

#ifndef KERNELS
#define KERNELS "kernels" /* the folder beside this file */
#endif

int main()
try {
    std::vector<float> x{ 1, 2, 3, 4 }, y{ 10, 20, 30, 40 };
    x.resize(1000000);
    y.resize(1000000);
    muster::runtime m;
    const muster::kernel saxpy = m.load(KERNELS "/saxpy.c", "saxpy");
    m.for_each(saxpy, { muster::value(2.0f), muster::in(x), muster::inout(y) });
    std::printf("%g %g %g %g\n", y[0], y[1], y[2], y[3]);
} catch (const muster::error &failed) {
    std::fprintf(stderr, "%s\n", failed.what());
    return 1;
}
