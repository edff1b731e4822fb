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
#define MUSTER_CELL_FUNCTION static
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

#else

#include <stdint.h>
/* Inlined, so that the loop over the items can be vectorised. */
#define MUSTER_KERNEL static inline __attribute__((always_inline))
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

/* Whether the neighbour has memory: it is within the grid, or the border gives it some. */
MUSTER_CELL_FUNCTION int muster_is_inside(struct muster_cell at, int32_t dx, int32_t dy)
{
    return at.is_inner || at.border != 0 ||
           ((uint64_t)((int64_t)at.x + dx) < at.width &&
            (!at.folds || (uint64_t)((int64_t)at.y + dy) < at.height));
}

/* From the cell to its neighbour, in items: in[i + muster_offset(at, 1, 0, 0)]. */
MUSTER_CELL_FUNCTION int64_t muster_offset(struct muster_cell at, int32_t dx, int32_t dy,
                                           int32_t dz)
{
    int64_t x = dx, y = dy;
    if (!at.is_inner)
        x = muster_fold((int64_t)at.x + dx, at.width, at.border) - (int64_t)at.x;
    if (!at.is_inner && at.folds)
        y = muster_fold((int64_t)at.y + dy, at.height, at.border) - (int64_t)at.y;
    return x + (y + (int64_t)dz * at.height) * at.width;
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
