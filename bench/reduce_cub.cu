/*
 * CUB's reductions of data that is on the device already: a row beside bench/reduce, without a bar.
 *
 *     reduce_cub [LOG2]
 */
#include <cub/device/device_histogram.cuh>
#include <cub/device/device_reduce.cuh>
#include <cstdio>
#include <cstdlib>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/tuple.h>

#define REPETITIONS 7

static void must(cudaError_t status)
{
    if (status == cudaSuccess)
        return;
    std::printf("reduce_cub: %s\n", cudaGetErrorString(status));
    std::exit(status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ? 77 : 1);
}

struct widen {
    __host__ __device__ double operator()(float x) const
    {
        return x;
    }
};

struct multiply {
    __host__ __device__ double operator()(thrust::tuple<float, float> both) const
    {
        return (double)thrust::get<0>(both) * (double)thrust::get<1>(both);
    }
};

/* The best of several runs, in GB/s. */
template <class Run> static void measure(const char *what, double bytes, Run run)
{
    size_t room = 0;
    void *memory = nullptr;
    cudaEvent_t begin, end;
    float best = 1e9f;
    must(run(nullptr, room));
    must(cudaMalloc(&memory, room));
    must(cudaEventCreate(&begin));
    must(cudaEventCreate(&end));
    for (int r = 0; r < REPETITIONS; r++) {
        float ms = 0;
        must(cudaEventRecord(begin));
        must(run(memory, room));
        must(cudaEventRecord(end));
        must(cudaEventSynchronize(end));
        must(cudaEventElapsedTime(&ms, begin, end));
        best = ms < best ? ms : best;
    }
    std::printf("%-32s %8.1f GB/s, data on the device\n", what, bytes / best / 1e6);
    must(cudaFree(memory));
}

int main(int argc, char **argv)
{
    long long items = 1ll << (argc > 1 ? std::atoi(argv[1]) : 28);
    float *x = nullptr, *y = nullptr;
    void *out = nullptr;
    must(cudaMalloc(&x, items * sizeof *x));
    must(cudaMalloc(&y, items * sizeof *y));
    must(cudaMalloc(&out, 256 * sizeof(unsigned long long)));
    must(cudaMemset(x, 0x3c, items * sizeof *x));
    must(cudaMemset(y, 0x3d, items * sizeof *y));
    auto wide = thrust::make_transform_iterator(x, widen());
    auto products = thrust::make_transform_iterator(
        thrust::make_zip_iterator(thrust::make_tuple(x, y)), multiply());
    measure("CUB: sum of floats, in double", 4.0 * items, [&](void *memory, size_t &room) {
        return cub::DeviceReduce::Sum(memory, room, wide, (double *)out, items);
    });
    measure("CUB: dot of floats, in double", 8.0 * items, [&](void *memory, size_t &room) {
        return cub::DeviceReduce::Sum(memory, room, products, (double *)out, items);
    });
    measure("CUB: 256 bins of bytes", 1.0 * items, [&](void *memory, size_t &room) {
        return cub::DeviceHistogram::HistogramEven(memory, room, (const unsigned char *)x,
                                                   (unsigned long long *)out, 257, 0, 256, items);
    });
    return 0;
}
