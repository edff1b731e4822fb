/*
 * The prelude of portable kernels: one source that a C compiler, OpenCL drivers and NVRTC all take.
 * Muster puts it before every kernel by itself; a kernel includes it only so that editors know the
 * names. See docs/kernels.md for what the portable form allows.
 *
 *     MUSTER_KERNEL void saxpy(uint64_t i, float a, MUSTER_GLOBAL const float *x,
 *                              MUSTER_GLOBAL float *y)
 *     {
 *         y[i] = a * x[i] + y[i];
 *     }
 */
#ifndef MUSTER_KERNEL_PRELUDE
#define MUSTER_KERNEL_PRELUDE

#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)

#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
typedef char int8_t;
typedef uchar uint8_t;
typedef short int16_t;
typedef ushort uint16_t;
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;
#define MUSTER_KERNEL
#define MUSTER_GLOBAL global
#define MUSTER_CONSTANT constant
#define muster_sqrt(x) sqrt((float)(x))
#define muster_fabs(x) fabs((float)(x))
#define muster_floor(x) floor((float)(x))
#define muster_ceil(x) ceil((float)(x))
#define muster_trunc(x) trunc((float)(x))
#define muster_float_bits(x) as_uint((float)(x))
#define muster_bits_float(x) as_float((uint)(x))
#define muster_atomic_add(at, value) atomic_add(at, value)
#define muster_atomic_min(at, value) atomic_min(at, value)
#define muster_atomic_max(at, value) atomic_max(at, value)
#define muster_double_bits(x) as_ulong((double)(x))
#define muster_bits_double(x) as_double((ulong)(x))
#define muster_sqrt64(x) sqrt((double)(x))
#define MUSTER_MATH static
#define MUSTER_MATH_TABLE constant

#elif defined(__CUDACC__) || defined(__CUDACC_RTC__)

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
#define restrict __restrict__
#define MUSTER_KERNEL static __device__ __forceinline__
#define MUSTER_GLOBAL
#define MUSTER_CONSTANT static __constant__ const
#define muster_sqrt(x) __fsqrt_rn((float)(x))
#define muster_fabs(x) fabsf((float)(x))
#define muster_floor(x) floorf((float)(x))
#define muster_ceil(x) ceilf((float)(x))
#define muster_trunc(x) truncf((float)(x))
#define muster_float_bits(x) __float_as_uint((float)(x))
#define muster_bits_float(x) __uint_as_float((uint32_t)(x))
#define muster_atomic_add(at, value) atomicAdd(at, value)
#define muster_atomic_min(at, value) atomicMin(at, value)
#define muster_atomic_max(at, value) atomicMax(at, value)
#define muster_double_bits(x) ((uint64_t)__double_as_longlong((double)(x)))
#define muster_bits_double(x) __longlong_as_double((long long)(x))
#define muster_sqrt64(x) __dsqrt_rn((double)(x))
#define MUSTER_MATH static __device__ __forceinline__
#define MUSTER_MATH_TABLE static __constant__ const

#else

#include <stdint.h>
/* Inlined, so that the loop over the items can be vectorised. */
#define MUSTER_KERNEL static inline __attribute__((always_inline))
/* Memory of a device; every pointer parameter of a kernel is one. */
#define MUSTER_GLOBAL
/* A table beside a kernel: MUSTER_CONSTANT uint32_t table[4] = { 1, 2, 3, 4 }; */
#define MUSTER_CONSTANT static const
/* Correctly rounded, or exact, on every device. */
#define muster_sqrt(x) __builtin_sqrtf((float)(x))
#define muster_fabs(x) __builtin_fabsf((float)(x))
#define muster_floor(x) __builtin_floorf((float)(x))
#define muster_ceil(x) __builtin_ceilf((float)(x))
#define muster_trunc(x) __builtin_truncf((float)(x))

/* The bits of a float as a number, and back. */
static inline uint32_t muster_float_bits(float value)
{
    union {
        float number;
        uint32_t bits;
    } both;
    both.number = value;
    return both.bits;
}

static inline float muster_bits_float(uint32_t value)
{
    union {
        float number;
        uint32_t bits;
    } both;
    both.bits = value;
    return both.number;
}

static inline uint64_t muster_double_bits(double value)
{
    union {
        double number;
        uint64_t bits;
    } both;
    both.number = value;
    return both.bits;
}

static inline double muster_bits_double(uint64_t value)
{
    union {
        double number;
        uint64_t bits;
    } both;
    both.bits = value;
    return both.number;
}

/*
 * On a uint32_t or int32_t of a block, whichever other items of the launch change it too; gives what
 * was there before. What is added, or the least, does not depend on the order; what is given does.
 */
#define muster_atomic_add(at, value) __atomic_fetch_add(at, value, __ATOMIC_RELAXED)
#define muster_atomic_min(at, value) MUSTER_ATOMIC_IF(at, value, <)
#define muster_atomic_max(at, value) MUSTER_ATOMIC_IF(at, value, >)
#define MUSTER_ATOMIC_IF(at, value, is_better)                                                     \
    __extension__({                                                                                \
        __typeof__(&*(at)) muster_at = (at);                                                       \
        __typeof__(*(at)) muster_value = (value);                                                  \
        __typeof__(*(at)) muster_old = __atomic_load_n(muster_at, __ATOMIC_RELAXED);               \
        while (muster_value is_better muster_old &&                                                \
               !__atomic_compare_exchange_n(muster_at, &muster_old, muster_value, 1,               \
                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED))                   \
            ;                                                                                      \
        muster_old;                                                                                \
    })

#define muster_sqrt64(x) __builtin_sqrt((double)(x))
/* The mathematics' functions and tables. */
#define MUSTER_MATH static inline __attribute__((always_inline))
#define MUSTER_MATH_TABLE static const

#endif

/*
 * Functions such as muster_exp. In what Muster compiles they stand only where the kernel names one.
 * A kernel that defines MUSTER_FAST_MATH before the include takes the device's own instead, which
 * differ between devices.
 */
#ifndef MUSTER_KERNEL_BUILD
#ifdef MUSTER_FAST_MATH
#include "muster_kernel_math_fast.h"
#else
#define MUSTER_NEEDS_QUADRANT
#define MUSTER_NEEDS_ERF
#define MUSTER_NEEDS_POW
#define MUSTER_NEEDS_ATAN2
#define MUSTER_NEEDS_TURNS
#include "muster_kernel_constants.h"
#include "muster_kernel_math.h"
#include "muster_kernel_math_double.h"
#include "muster_kernel_math_two.h"
#endif
#endif

#endif
