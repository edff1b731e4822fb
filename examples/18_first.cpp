/*
 * The first program of the README in C++: saxpy over a million items on all devices.
 */
#include <cstdio>
#include <muster/muster.hpp>
#include <vector>

int main()
try {
    std::vector<float> x(1000000), y(1000000);
    for (std::size_t i = 0; i < 4; i++) {
        x[i] = static_cast<float>(i + 1);
        y[i] = 10 * x[i];
    }
    muster::runtime m;
    const muster::kernel saxpy = m.load(KERNELS "/saxpy.c", "saxpy");
    m.for_each(saxpy, { muster::value(2.0f), muster::in(x), muster::inout(y) });
    std::printf("%g %g %g %g\n", y[0], y[1], y[2], y[3]);
} catch (const muster::error &failed) {
    std::fprintf(stderr, "%s\n", failed.what());
    return 1;
}
