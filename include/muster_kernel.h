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

#define MUSTER_IS_OPENCL
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
#define MUSTER_COMBINE
#define MUSTER_IDENTITY
#define MUSTER_PARTIAL private
#define MUSTER_GLOBAL global
#define MUSTER_CONSTANT constant
#define MUSTER_CELL_FUNCTION static
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
#define MUSTER_INLINE static inline
#define MUSTER_POPCOUNT32(x) ((uint32_t)popcount(x))
#define MUSTER_POPCOUNT64(x) ((uint32_t)popcount(x))
#define MUSTER_CLZ32(x) ((uint32_t)clz(x))
#define MUSTER_CLZ64(x) ((uint32_t)clz(x))
#define MUSTER_FABS64(x) fabs(x)
#define MUSTER_MULHI_U64(a, b) mul_hi((ulong)(a), (ulong)(b))
#define MUSTER_MULHI_I64(a, b) mul_hi((long)(a), (long)(b))

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
#define MUSTER_COMBINE static __device__ __forceinline__
#define MUSTER_IDENTITY static __device__ __forceinline__
#define MUSTER_PARTIAL
#define MUSTER_GLOBAL
#define MUSTER_CONSTANT static __constant__ const
#define MUSTER_CELL_FUNCTION static __device__ __forceinline__
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
#define MUSTER_INLINE static __device__ __forceinline__
#define MUSTER_POPCOUNT32(x) ((uint32_t)__popc(x))
#define MUSTER_POPCOUNT64(x) ((uint32_t)__popcll(x))
#define MUSTER_CLZ32(x) ((uint32_t)__clz((int)(x)))
#define MUSTER_CLZ64(x) ((uint32_t)__clzll((long long)(x)))
#define MUSTER_FABS64(x) fabs(x)
#define MUSTER_MULHI_U64(a, b) __umul64hi(a, b)
#define MUSTER_MULHI_I64(a, b) __mul64hi(a, b)

#else

#include <stdint.h>
#define MUSTER_INLINE static inline
/* Inlined, so that the loop over the items can be vectorised. */
#define MUSTER_KERNEL static inline __attribute__((always_inline))
/*
 * A reduction: a kernel whose last parameter is MUSTER_PARTIAL T *p adds an item to the partial p.
 *     MUSTER_COMBINE void NAME_combine(MUSTER_PARTIAL T *into, MUSTER_PARTIAL const T *from)
 * joins two partials, and MUSTER_IDENTITY void NAME_identity(MUSTER_PARTIAL T *p), which may be left
 * out, makes one of no items; without it that is all zeros.
 */
#define MUSTER_COMBINE static inline __attribute__((always_inline))
#define MUSTER_IDENTITY static inline __attribute__((always_inline))
#define MUSTER_PARTIAL
/* Memory of a device; every pointer parameter of a kernel is one. */
#define MUSTER_GLOBAL
/* A table beside a kernel: MUSTER_CONSTANT uint32_t table[4] = { 1, 2, 3, 4 }; */
#define MUSTER_CONSTANT static const
#define MUSTER_CELL_FUNCTION static inline
/* Correctly rounded, or exact, on every device. */
#define muster_sqrt(x) __builtin_sqrtf((float)(x))
#define muster_fabs(x) __builtin_fabsf((float)(x))
#define muster_floor(x) __builtin_floorf((float)(x))
#define muster_ceil(x) __builtin_ceilf((float)(x))
#define muster_trunc(x) __builtin_truncf((float)(x))
/* The processor's instructions leave the answer for 0 open. */
#define MUSTER_POPCOUNT32(x) ((uint32_t)__builtin_popcount(x))
#define MUSTER_POPCOUNT64(x) ((uint32_t)__builtin_popcountll(x))
#define MUSTER_CLZ32(x) ((x) ? (uint32_t)__builtin_clz(x) : 32u)
#define MUSTER_CLZ64(x) ((x) ? (uint32_t)__builtin_clzll(x) : 64u)
#define MUSTER_FABS64(x) __builtin_fabs(x)
#define MUSTER_MULHI_U64(a, b) ((uint64_t)(__extension__((unsigned __int128)(a) * (b) >> 64)))
#define MUSTER_MULHI_I64(a, b) ((int64_t)(__extension__((__int128)(a) * (b) >> 64)))

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

/*
 * Limits of the fixed-width types, which plain C has from stdint.h.
 */
#ifndef UINT64_C
#define UINT64_C(number) number##ul
#define INT64_C(number) number##l
#endif
#ifndef UINT64_MAX
#define INT8_MAX 127
#define INT8_MIN (-128)
#define UINT8_MAX 255
#define INT16_MAX 32767
#define INT16_MIN (-32768)
#define UINT16_MAX 65535
#define INT32_MAX 2147483647
#define INT32_MIN (-2147483647 - 1)
#define UINT32_MAX 4294967295u
#define INT64_MAX 9223372036854775807l
#define INT64_MIN (-9223372036854775807l - 1)
#define UINT64_MAX 18446744073709551615ul
#endif

/*
 * Small functions for numbers of any type:
 *
 *     muster_min(a, b)  muster_max(a, b)  muster_clamp(x, low, high)  muster_abs(x)
 *     muster_popcount(x)  muster_clz(x)  muster_rotate(x, left)  muster_mulhi(a, b)
 *
 * The type is that of a + b in C, so 8 and 16 bits become 32, and each argument is evaluated once.
 * The last four take integers alone. docs/kernels.md says what they give at the edges.
 */
/* clang-format off */
#define MUSTER_NUMBERS(type, name)                                                                 \
    MUSTER_INLINE type muster_min_##name(type a, type b) { return b < a ? b : a; }                 \
    MUSTER_INLINE type muster_max_##name(type a, type b) { return a < b ? b : a; }                 \
    MUSTER_INLINE type muster_clamp_##name(type x, type low, type high)                            \
    { return muster_min_##name(muster_max_##name(x, low), high); }
/* A number counts for more than a NaN, as in C's fmin; of equal ones, zeros too, the first. */
#define MUSTER_FLOATS(type, name)                                                                  \
    MUSTER_INLINE type muster_min_##name(type a, type b) { return b < a || a != a ? b : a; }       \
    MUSTER_INLINE type muster_max_##name(type a, type b) { return a < b || a != a ? b : a; }       \
    MUSTER_INLINE type muster_clamp_##name(type x, type low, type high)                            \
    { return muster_min_##name(muster_max_##name(x, low), high); }
/* clang-format on */
MUSTER_NUMBERS(int32_t, i32)
MUSTER_NUMBERS(uint32_t, u32)
MUSTER_NUMBERS(int64_t, i64)
MUSTER_NUMBERS(uint64_t, u64)
MUSTER_FLOATS(float, f32)

/* Of the least number, whose opposite does not fit, it is the number itself. */
MUSTER_INLINE int32_t muster_abs_i32(int32_t x)
{
    return x < 0 ? (int32_t)(0u - (uint32_t)x) : x;
}

MUSTER_INLINE int64_t muster_abs_i64(int64_t x)
{
    return x < 0 ? (int64_t)((uint64_t)0 - (uint64_t)x) : x;
}

MUSTER_INLINE uint32_t muster_abs_u32(uint32_t x)
{
    return x;
}

MUSTER_INLINE uint64_t muster_abs_u64(uint64_t x)
{
    return x;
}

MUSTER_INLINE float muster_abs_f32(float x)
{
    return muster_fabs(x);
}

MUSTER_INLINE uint32_t muster_popcount_u32(uint32_t x)
{
    return MUSTER_POPCOUNT32(x);
}

MUSTER_INLINE uint32_t muster_popcount_u64(uint64_t x)
{
    return MUSTER_POPCOUNT64(x);
}

MUSTER_INLINE uint32_t muster_clz_u32(uint32_t x)
{
    return MUSTER_CLZ32(x);
}

MUSTER_INLINE uint32_t muster_clz_u64(uint64_t x)
{
    return MUSTER_CLZ64(x);
}

MUSTER_INLINE uint32_t muster_rotate_u32(uint32_t x, uint32_t left)
{
    return x << (left & 31u) | x >> ((0u - left) & 31u);
}

MUSTER_INLINE uint64_t muster_rotate_u64(uint64_t x, uint32_t left)
{
    return x << (left & 63u) | x >> ((0u - left) & 63u);
}

MUSTER_INLINE int32_t muster_mulhi_i32(int32_t a, int32_t b)
{
    return (int32_t)((int64_t)a * b >> 32);
}

MUSTER_INLINE uint32_t muster_mulhi_u32(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}

MUSTER_INLINE int64_t muster_mulhi_i64(int64_t a, int64_t b)
{
    return MUSTER_MULHI_I64(a, b);
}

MUSTER_INLINE uint64_t muster_mulhi_u64(uint64_t a, uint64_t b)
{
    return MUSTER_MULHI_U64(a, b);
}

#if !defined(MUSTER_IS_OPENCL) || defined(cl_khr_fp64)
MUSTER_FLOATS(double, f64)
MUSTER_INLINE double muster_abs_f64(double x)
{
    return MUSTER_FABS64(x);
}
#define MUSTER_FOR_DOUBLE(name) , double : muster_##name##_f64
#else
#define MUSTER_FOR_DOUBLE(name)
#endif

/* Each of several arguments, in the type that all of them have together. */
#define MUSTER_FIRST_OF(a, b) (1 ? (a) : (b))
#define MUSTER_SECOND_OF(a, b) (0 ? (a) : (b))

#if defined(__cplusplus) || defined(__OPENCL_C_VERSION__)

/* OpenCL C has functions of one name by the attribute that its own functions have. */
#ifdef __cplusplus
#define MUSTER_OVERLOADED MUSTER_INLINE
#else
#define MUSTER_OVERLOADED MUSTER_INLINE __attribute__((overloadable))
#endif
/* clang-format off */
#define MUSTER_OVERLOADS(type, name)                                                               \
    MUSTER_OVERLOADED type muster_min_of(type a, type b) { return muster_min_##name(a, b); }       \
    MUSTER_OVERLOADED type muster_max_of(type a, type b) { return muster_max_##name(a, b); }       \
    MUSTER_OVERLOADED type muster_clamp_of(type x, type low, type high)                            \
    { return muster_clamp_##name(x, low, high); }                                                  \
    MUSTER_OVERLOADED type muster_abs_of(type x) { return muster_abs_##name(x); }
#define MUSTER_INTEGER_OVERLOADS(type, name, bits, result)                                         \
    MUSTER_OVERLOADS(type, name)                                                                   \
    MUSTER_OVERLOADED uint32_t muster_popcount_of(type x) { return muster_popcount_##bits(x); }    \
    MUSTER_OVERLOADED uint32_t muster_clz_of(type x) { return muster_clz_##bits(x); }              \
    MUSTER_OVERLOADED result muster_rotate_of(type x, uint32_t left)                               \
    { return muster_rotate_##bits(x, left); }                                                      \
    MUSTER_OVERLOADED type muster_mulhi_of(type a, type b) { return muster_mulhi_##name(a, b); }
/* clang-format on */
MUSTER_INTEGER_OVERLOADS(int, i32, u32, uint32_t)
MUSTER_INTEGER_OVERLOADS(unsigned, u32, u32, uint32_t)
MUSTER_INTEGER_OVERLOADS(long, i64, u64, uint64_t)
MUSTER_INTEGER_OVERLOADS(unsigned long, u64, u64, uint64_t)
#ifdef __cplusplus
MUSTER_INTEGER_OVERLOADS(long long, i64, u64, uint64_t)
MUSTER_INTEGER_OVERLOADS(unsigned long long, u64, u64, uint64_t)
#endif
MUSTER_OVERLOADS(float, f32)
#if !defined(MUSTER_IS_OPENCL) || defined(cl_khr_fp64)
MUSTER_OVERLOADS(double, f64)
#endif
#define MUSTER_FOR_NUMBER(x, name) muster_##name##_of
#define MUSTER_FOR_INTEGER(x, name) muster_##name##_of
#define MUSTER_FOR_BITS(x, name) muster_##name##_of

#else

#ifdef MUSTER_IS_OPENCL
#define MUSTER_FOR_LONG_LONG(signed_, unsigned_)
#else
#define MUSTER_FOR_LONG_LONG(signed_, unsigned_)                                                   \
    , long long : signed_, unsigned long long : unsigned_
#endif
/* clang-format off */
#define MUSTER_FOR_INTEGERS(i32, u32, i64, u64)                                                    \
    int: i32, unsigned: u32, long: i64, unsigned long: u64 MUSTER_FOR_LONG_LONG(i64, u64)
#define MUSTER_FOR_INTEGER(x, name)                                                                \
    _Generic((x), MUSTER_FOR_INTEGERS(muster_##name##_i32, muster_##name##_u32,                    \
                                      muster_##name##_i64, muster_##name##_u64))
#define MUSTER_FOR_BITS(x, name)                                                                   \
    _Generic((x), MUSTER_FOR_INTEGERS(muster_##name##_u32, muster_##name##_u32,                    \
                                      muster_##name##_u64, muster_##name##_u64))
#define MUSTER_FOR_NUMBER(x, name)                                                                 \
    _Generic((x), MUSTER_FOR_INTEGERS(muster_##name##_i32, muster_##name##_u32,                    \
                                      muster_##name##_i64, muster_##name##_u64),                   \
             float: muster_##name##_f32 MUSTER_FOR_DOUBLE(name))
/* clang-format on */

#endif

#define muster_min(a, b)                                                                           \
    (MUSTER_FOR_NUMBER(MUSTER_FIRST_OF(a, b), min)(MUSTER_FIRST_OF(a, b), MUSTER_SECOND_OF(a, b)))
#define muster_max(a, b)                                                                           \
    (MUSTER_FOR_NUMBER(MUSTER_FIRST_OF(a, b), max)(MUSTER_FIRST_OF(a, b), MUSTER_SECOND_OF(a, b)))
#define muster_clamp(x, low, high)                                                                 \
    (MUSTER_FOR_NUMBER(1   ? (x)                                                                   \
                       : 1 ? (low)                                                                 \
                           : (high),                                                               \
                       clamp)(1   ? (x)                                                            \
                              : 1 ? (low)                                                          \
                                  : (high),                                                        \
                              0   ? (x)                                                            \
                              : 1 ? (low)                                                          \
                                  : (high),                                                        \
                              0   ? (x)                                                            \
                              : 0 ? (low)                                                          \
                                  : (high)))
#define muster_abs(x) (MUSTER_FOR_NUMBER(+(x), abs)(+(x)))
#define muster_popcount(x) (MUSTER_FOR_BITS(+(x), popcount)(+(x)))
#define muster_clz(x) (MUSTER_FOR_BITS(+(x), clz)(+(x)))
#define muster_rotate(x, left) (MUSTER_FOR_BITS(+(x), rotate)(+(x), (uint32_t)(left)))
#define muster_mulhi(a, b)                                                                         \
    (MUSTER_FOR_INTEGER(MUSTER_FIRST_OF(a, b), mulhi)(MUSTER_FIRST_OF(a, b),                       \
                                                      MUSTER_SECOND_OF(a, b)))

/*
 * Random numbers that depend on nothing but their arguments, so that items can be computed in any
 * order and on any device: Philox 4x32-10 (Salmon and others, "Parallel random numbers: as easy as
 * 1, 2, 3", 2011). A seed has 2^64 streams of 2^64 blocks of four words.
 */
struct muster_random4 {
    uint32_t word[4];
};

MUSTER_INLINE struct muster_random4 muster_random4(uint64_t seed, uint64_t counter, uint64_t stream)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    struct muster_random4 c;
    int round;
    c.word[0] = (uint32_t)counter;
    c.word[1] = (uint32_t)(counter >> 32);
    c.word[2] = (uint32_t)stream;
    c.word[3] = (uint32_t)(stream >> 32);
    for (round = 0; round < 10; round++) {
        uint64_t even = (uint64_t)0xd2511f53u * c.word[0], odd = (uint64_t)0xcd9e8d57u * c.word[2];
        c.word[0] = (uint32_t)(odd >> 32) ^ c.word[1] ^ key0;
        c.word[1] = (uint32_t)odd;
        c.word[2] = (uint32_t)(even >> 32) ^ c.word[3] ^ key1;
        c.word[3] = (uint32_t)even;
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    return c;
}

/* 32 random bits: the first word of block `counter`. */
MUSTER_INLINE uint32_t muster_random(uint64_t seed, uint64_t counter)
{
    return muster_random4(seed, counter, 0).word[0];
}

/* One of 2^24 numbers from 0 to below 1, each as likely, from the same bits. */
MUSTER_INLINE float muster_random_float(uint64_t seed, uint64_t counter)
{
    return (float)(muster_random(seed, counter) >> 8) * 5.9604644775390625e-8f;
}

/*
 * A cell of a grid, for kernels of jobs with MUSTER_GRID or MUSTER_PICTURES (muster/job.h). A portable
 * kernel that has a parameter of this type is given the cell of its item:
 *
 *     MUSTER_KERNEL void blur(uint64_t i, struct muster_cell at, MUSTER_GLOBAL const float *in,
 *                             MUSTER_GLOBAL float *out)
 *     {
 *         out[i] = 0.5f * in[i] + 0.25f * (muster_near(in, i, at, -1, 0) + muster_near(in, i, at, 1, 0));
 *     }
 */
struct muster_cell {
    uint32_t x, y, z;              /* of pictures z is the picture's number, modulo 2^32 */
    uint32_t width, height, depth; /* of the grid; of pictures width and height are the plane's */
    uint32_t plane;                /* of a picture: 0, 1 or 2 */
    uint32_t border;               /* enum muster_border: 0 zeros, 1 clamped, 2 wrapped */
    uint32_t reach;                /* the job's largest halo */
    /* Muster's own: */
    uint32_t is_inner; /* no neighbour within reach lies beyond an edge that has to be looked at */
    uint32_t folds;    /* y is looked at too; else rows beyond the first and last are in memory */
    uint32_t chroma_width, chroma_height;
};

/* Where `at` lies in a line of `count` cells with this border. */
MUSTER_CELL_FUNCTION int64_t muster_fold(int64_t at, int64_t count, uint32_t border)
{
    if (at >= 0 && at < count)
        return at;
    if (border != 2)
        return at < 0 ? 0 : count - 1;
    at %= count;
    return at < 0 ? at + count : at;
}

/*
 * How far away a neighbour is, at most the job's halo. Muster defines MUSTER_CHECKS_NEAR where the
 * source does not show that it is no further: then a neighbour that is further is the one at the
 * halo, and never memory that is not the job's.
 */
#ifdef MUSTER_CHECKS_NEAR
MUSTER_CELL_FUNCTION int32_t muster_within(uint32_t reach, int32_t away)
{
    int64_t most = (int64_t)reach;
    return away > most ? (int32_t)most : away < -most ? (int32_t)-most : away;
}
#else
#define muster_within(reach, away) (away)
#endif

/* Whether the neighbour has memory: it is within the grid, or the border gives it some. */
MUSTER_CELL_FUNCTION int muster_is_inside(struct muster_cell at, int32_t dx, int32_t dy)
{
    int64_t x = muster_within(at.reach, dx), y = muster_within(at.reach, dy);
    return at.is_inner || at.border != 0 ||
           ((uint64_t)((int64_t)at.x + x) < at.width &&
            (!at.folds || (uint64_t)((int64_t)at.y + y) < at.height));
}

/* From the cell to its neighbour, in items: in[i + muster_offset(at, 1, 0, 0)]. */
MUSTER_CELL_FUNCTION int64_t muster_offset(struct muster_cell at, int32_t dx, int32_t dy,
                                           int32_t dz)
{
    int64_t x = muster_within(at.reach, dx), y = muster_within(at.reach, dy);
    int64_t z = muster_within(at.depth > 0 ? at.reach : 0, dz);
    if (!at.is_inner)
        x = muster_fold((int64_t)at.x + x, at.width, at.border) - (int64_t)at.x;
    if (!at.is_inner && at.folds)
        y = muster_fold((int64_t)at.y + y, at.height, at.border) - (int64_t)at.y;
    return x + (y + z * at.height) * at.width;
}

/*
 * What `array`, an argument with a halo, has at item i's neighbour: a number. dx, dy and dz are at most
 * the halo. Of structs, which have no zero, muster_offset finds the place.
 */
#define muster_near(array, i, at, dx, dy) muster_near_3d(array, i, at, dx, dy, 0)
#define muster_near_3d(array, i, at, dx, dy, dz)                                                   \
    (muster_is_inside(at, dx, dy) ? (array)[(int64_t)(i) + muster_offset(at, dx, dy, dz)] : 0)

/* 64 bits are slow to divide on many devices. */
MUSTER_CELL_FUNCTION uint64_t muster_divide(uint64_t a, uint64_t b)
{
    return (a | b) >> 32 == 0 ? (uint64_t)((uint32_t)a / (uint32_t)b) : a / b;
}

/* The cell of the item that is `i` items after the unit's first one, whose cell is `first`. */
MUSTER_CELL_FUNCTION struct muster_cell muster_cell_at(struct muster_cell first, uint64_t i)
{
    struct muster_cell at = first;
    uint64_t area = (uint64_t)first.width * first.height;
    uint64_t chroma = (uint64_t)first.chroma_width * first.chroma_height;
    uint64_t row, from = first.reach;
    if (first.folds) {
        uint64_t planes = muster_divide(i, area + 2 * chroma);
        i -= planes * (area + 2 * chroma);
        at.z = first.z + (uint32_t)planes;
        if (i >= area) {
            at.plane = i - area < chroma ? 1 : 2;
            i -= area + (at.plane - 1) * chroma;
            at.width = first.chroma_width;
            at.height = first.chroma_height;
        }
    }
    row = muster_divide(i, at.width);
    at.x = (uint32_t)(i - row * at.width);
    at.y = first.y + (uint32_t)row;
    at.is_inner = at.x >= from && at.x + from < at.width &&
                  (!first.folds || (at.y >= from && at.y + from < at.height));
    return at;
}

/* Of the items from the cell's to `end`: where its row ends, and where those begin and end that are inner. */
MUSTER_CELL_FUNCTION uint64_t muster_row_end(struct muster_cell at, uint64_t i, uint64_t end)
{
    uint64_t stop = i + (at.width - at.x);
    return stop < end ? stop : end;
}

MUSTER_CELL_FUNCTION uint64_t muster_inner_begin(struct muster_cell at, uint64_t i, uint64_t stop)
{
    uint64_t reach = at.reach, first = at.x < reach ? i + (reach - at.x) : i;
    if (at.folds && (at.y < reach || at.y + reach >= at.height))
        return stop;
    return first < stop ? first : stop;
}

MUSTER_CELL_FUNCTION uint64_t muster_inner_end(struct muster_cell at, uint64_t i, uint64_t begin,
                                               uint64_t stop)
{
    uint64_t reach = at.reach;
    uint64_t last = at.x + reach < at.width ? i + (at.width - reach - at.x) : i;
    last = last < stop ? last : stop;
    return last > begin ? last : begin;
}

#endif
