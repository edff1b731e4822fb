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
#define MUSTER_COMBINE
#define MUSTER_IDENTITY
#define MUSTER_PARTIAL private
#define MUSTER_GLOBAL global
#define MUSTER_CONSTANT constant
#define muster_sqrt(x) sqrt((float)(x))
#define muster_fabs(x) fabs((float)(x))
#define muster_floor(x) floor((float)(x))
#define muster_ceil(x) ceil((float)(x))
#define muster_trunc(x) trunc((float)(x))
#define muster_float_bits(x) as_uint((float)(x))
#define muster_bits_float(x) as_float((uint)(x))

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
#define muster_sqrt(x) __fsqrt_rn((float)(x))
#define muster_fabs(x) fabsf((float)(x))
#define muster_floor(x) floorf((float)(x))
#define muster_ceil(x) ceilf((float)(x))
#define muster_trunc(x) truncf((float)(x))
#define muster_float_bits(x) __float_as_uint((float)(x))
#define muster_bits_float(x) __uint_as_float((uint32_t)(x))

#else

#include <stdint.h>
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

#endif

#endif
