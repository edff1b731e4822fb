/*
 * What CUDA C++ has that C++ has not, for code that the tests run on the host. Comes before a kernel's
 * source. As with NVRTC there are no standard headers and no fixed-width types.
 */
#include "image.h"

/* Kept where kernels are looked for. */
#ifndef TEST_KEEP_GLOBAL
#define __global__
#endif
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __noinline__ __attribute__((noinline))
/* No assembler of a GPU's: what a resident lane's kernel has for that is plain C++. */
#define MUSTER_NO_PTX
/* Of a block of threads: those run one after the other, on one thread of the host. */
#define __shared__ static thread_local
#define __trap() __builtin_trap()
#define MUSTER_TEST_DRIVER 1
#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __CUDA_ARCH__ 900

typedef test_dimensions dim3;
static thread_local test_dimensions blockIdx, threadIdx;
static thread_local test_dimensions blockDim, gridDim;

template <class T, class V> static inline T atomicAdd(T *at, V value)
{
    return __atomic_fetch_add(at, (T)value, __ATOMIC_RELAXED);
}
template <class T, class V> static inline T atomicSub(T *at, V value)
{
    return __atomic_fetch_sub(at, (T)value, __ATOMIC_RELAXED);
}
template <class T, class V> static inline T atomicOr(T *at, V value)
{
    return __atomic_fetch_or(at, (T)value, __ATOMIC_RELAXED);
}
template <class T, class V> static inline T atomicExch(T *at, V value)
{
    return __atomic_exchange_n(at, (T)value, __ATOMIC_RELAXED);
}
template <class T, class U, class V> static inline T atomicCAS(T *at, U expected, V value)
{
    T old = (T)expected;
    __atomic_compare_exchange_n(at, &old, (T)value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return old;
}
static inline void __threadfence()
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
static inline void __threadfence_system()
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/*
 * Threads run one after the other, in the order of their numbers: a thread that comes here finds what lower
 * ones have written before theirs.
 */
static inline void __syncwarp(unsigned mask)
{
    (void)mask;
}

/* What the prelude of portable kernels asks of CUDA. */
static inline unsigned __float_as_uint(float value)
{
    return __builtin_bit_cast(unsigned, value);
}
static inline float __uint_as_float(unsigned value)
{
    return __builtin_bit_cast(float, value);
}
#define __fsqrt_rn __builtin_sqrtf
#define fabsf __builtin_fabsf
#define floorf __builtin_floorf
#define ceilf __builtin_ceilf
#define truncf __builtin_truncf
#define fabs __builtin_fabs
#define __ffs __builtin_ffs
#define __popc __builtin_popcount
#define __popcll __builtin_popcountll
#define __clz(x) ((x) ? __builtin_clz((unsigned)(x)) : 32)
#define __clzll(x) ((x) ? __builtin_clzll((unsigned long long)(x)) : 64)
#define __umul64hi(a, b) ((unsigned long long)((unsigned __int128)(a) * (b) >> 64))
#define __mul64hi(a, b) ((long long)((__int128)(a) * (b) >> 64))

extern "C" int clock_gettime(int clock, struct timespec *now) noexcept;
struct timespec {
    long seconds, nanoseconds;
};

/* Two ticks for each nanosecond: no slower than the clock of a device. */
static inline long long clock64()
{
    timespec now;
    clock_gettime(1, &now);
    return 2 * (now.seconds * 1000000000ll + now.nanoseconds);
}

namespace test_cuda
{
template <unsigned long... I> struct sequence {
};

template <class F> struct signature;
template <class... P> struct signature<void (*)(P...)> {
    static constexpr unsigned long count = sizeof...(P);
    struct table {
        unsigned long sizes[count + 1], offsets[count + 1];
    };
    static constexpr table make_table()
    {
        table made = { { sizeof(P)..., 0 }, {} };
        const unsigned long alignments[] = { alignof(P)..., 1 };
        unsigned long at = 0;
        for (unsigned long i = 0; i < count; i++) {
            at = (at + alignments[i] - 1) / alignments[i] * alignments[i];
            made.offsets[i] = at;
            at += made.sizes[i];
        }
        return made;
    }
    static constexpr table sizes_and_offsets = make_table();

    template <unsigned long... I>
    static inline void call(void (*kernel)(P...), void **parameters, sequence<I...>)
    {
        (void)parameters;
        kernel(*(P *)parameters[I]...);
    }
    static inline void call(void (*kernel)(P...), void **parameters)
    {
        call(kernel, parameters, sequence<__integer_pack(count)...>());
    }
};

template <auto kernel>
void run(const test_dimensions *grid, const test_dimensions *block, unsigned long begin,
         unsigned long end, void **parameters)
{
    gridDim = *grid;
    blockDim = *block;
    for (unsigned long at = begin; at < end; at++) {
        blockIdx = { (unsigned)(at % grid->x), (unsigned)(at / grid->x % grid->y),
                     (unsigned)(at / grid->x / grid->y) };
        for (threadIdx.z = 0; threadIdx.z < block->z; threadIdx.z++)
            for (threadIdx.y = 0; threadIdx.y < block->y; threadIdx.y++)
                for (threadIdx.x = 0; threadIdx.x < block->x; threadIdx.x++)
                    signature<decltype(kernel)>::call(kernel, parameters);
    }
}
} // namespace test_cuda

#define TEST_KERNEL(name)                                                                          \
    extern "C" __attribute__((visibility("default"))) const test_kernel test_kernel_##name;        \
    const test_kernel test_kernel_##name = {                                                       \
        test_cuda::signature<decltype(&name)>::count,                                              \
        test_cuda::signature<decltype(&name)>::sizes_and_offsets.sizes,                            \
        test_cuda::signature<decltype(&name)>::sizes_and_offsets.offsets, test_cuda::run<&name>    \
    };
