/*
 * The best versions by hand for a GPU, a column without a bar: the device's own mathematics (MUSTER_FAST_MATH,
 * nvcc --use_fast_math), contraction, shared memory and other algorithms where they help. Their bits are their
 * own. Blocks have 256 threads; reductions are given fewer blocks than items need, and stride.
 */
#define MUSTER_FAST_MATH
#include <muster_kernel.h>

#define static static __device__
#include "../../examples/kernels/black_scholes.c"
#include "../../examples/kernels/convolve.c"
#include "../../examples/kernels/crc32.c"
#include "../../examples/kernels/edit_distance.c"
#include "../../examples/kernels/jacobi.c"
#include "../../examples/kernels/logistic.c"
#include "../../examples/kernels/mandelbrot.c"
#include "../../examples/kernels/saxpy.c"
#include "../../examples/kernels/softmax.c"
#include "../../examples/kernels/spmv.c"
#include "../../examples/kernels/triad.c"
#undef static

#define HAND extern "C" __global__ void __launch_bounds__(256)
#define IN(type) const type *__restrict__
#define OUT(type) type *__restrict__
#define THREADS 256
#define ITEM (blockIdx.x * (uint64_t)THREADS + threadIdx.x)
#define STRIDE (gridDim.x * (uint64_t)THREADS)

HAND hand_saxpy(uint64_t items, float a, IN(float) x, OUT(float) y)
{
    if (ITEM < items)
        y[ITEM] = a * x[ITEM] + y[ITEM];
}

HAND hand_triad(uint64_t items, float s, IN(float) b, IN(float) c, OUT(float) a)
{
    if (ITEM < items)
        triad(ITEM, s, b, c, a);
}

/* A tile of 16 x 16 with its edges in shared memory, filtered down and then across. */
HAND hand_convolve(uint64_t items, uint64_t first, uint32_t width, uint32_t height, IN(float) in,
                   OUT(float) out)
{
    __shared__ float tile[20][20], rows[16][20];
    if (width % 16 != 0 || height % 16 != 0) {
        if (ITEM < items)
            convolve(ITEM, first, width, height, in, out);
        return;
    }
    int across = (int)(width / 16), left = (int)(blockIdx.x % across) * 16,
        top = (int)(blockIdx.x / across) * 16;
    for (int k = (int)threadIdx.x; k < 400; k += THREADS) {
        int x = min(max(left + k % 20 - 2, 0), (int)width - 1);
        int y = min(max(top + k / 20 - 2, 0), (int)height - 1);
        tile[k / 20][k % 20] = in[(uint64_t)y * width + x];
    }
    __syncthreads();
    for (int k = (int)threadIdx.x; k < 320; k += THREADS) {
        int x = k % 20, y = k / 20;
        rows[y][x] = binomial[0] * (tile[y][x] + tile[y + 4][x]) +
                     binomial[1] * (tile[y + 1][x] + tile[y + 3][x]) + binomial[2] * tile[y + 2][x];
    }
    __syncthreads();
    int x = (int)threadIdx.x % 16, y = (int)threadIdx.x / 16;
    out[(uint64_t)(top + y) * width + left + x] =
        binomial[0] * (rows[y][x] + rows[y][x + 4]) +
        binomial[1] * (rows[y][x + 1] + rows[y][x + 3]) + binomial[2] * rows[y][x + 2];
}

HAND hand_jacobi(uint64_t items, uint64_t first, uint32_t width, uint32_t height, IN(float) in,
                 OUT(float) out)
{
    if (ITEM < items)
        jacobi(ITEM, first, width, height, in, out);
}

/* Bodies in shared memory, 256 at a time, and the device's reciprocal square root. */
HAND hand_nbody(uint64_t items, uint64_t first, uint32_t bodies, IN(float) x, IN(float) y,
                IN(float) z, IN(float) mass, OUT(float) pull_x, OUT(float) pull_y,
                OUT(float) pull_z)
{
    __shared__ float4 some[THREADS];
    bool is_there = ITEM < items;
    uint64_t me = is_there ? first + ITEM : 0;
    float my_x = x[me], my_y = y[me], my_z = z[me], sum_x = 0, sum_y = 0, sum_z = 0;
    for (uint32_t begin = 0; begin < bodies; begin += THREADS) {
        uint32_t k = begin + threadIdx.x;
        some[threadIdx.x] =
            k < bodies ? make_float4(x[k], y[k], z[k], mass[k]) : make_float4(0, 0, 0, 0);
        __syncthreads();
#pragma unroll 8
        for (int other = 0; other < THREADS; other++) {
            float4 body = some[other];
            float dx = body.x - my_x, dy = body.y - my_y, dz = body.z - my_z;
            float square = dx * dx + dy * dy + dz * dz + 1e-4f;
            float root = rsqrtf(square), pull = body.w * root * root * root;
            sum_x += pull * dx;
            sum_y += pull * dy;
            sum_z += pull * dz;
        }
        __syncthreads();
    }
    if (!is_there)
        return;
    pull_x[ITEM] = sum_x;
    pull_y[ITEM] = sum_y;
    pull_z[ITEM] = sum_z;
}

HAND hand_black_scholes(uint64_t items, float rate, float volatility, IN(float) price,
                        IN(float) strike, IN(float) years, OUT(float) call, OUT(float) put)
{
    if (ITEM < items)
        black_scholes(ITEM, rate, volatility, price, strike, years, call, put);
}

/* A warp for each row, so that neighbouring threads read neighbouring columns. */
HAND hand_softmax(uint64_t items, IN(float) in, OUT(float) out)
{
    uint32_t lane = threadIdx.x % 32;
    uint64_t begin = blockIdx.x * (uint64_t)THREADS + threadIdx.x / 32 * 32;
    for (uint64_t row = begin; row < begin + 32 && row < items; row++) {
        float2 two = ((const float2 *)(in + row * COLUMNS))[lane];
        float largest = fmaxf(two.x, two.y);
        for (int width = 16; width > 0; width /= 2)
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, width));
        two.x = __expf(two.x - largest);
        two.y = __expf(two.y - largest);
        float sum = two.x + two.y;
        for (int width = 16; width > 0; width /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, width);
        float by = 1.0f / sum;
        ((float2 *)(out + row * COLUMNS))[lane] = make_float2(two.x * by, two.y * by);
    }
}

/* Eight threads for each row: rows have 16 elements on average. */
HAND hand_spmv(uint64_t items, uint64_t first, IN(uint32_t) begin, IN(uint32_t) column,
               IN(float) value, IN(float) x, OUT(float) y)
{
    uint32_t lane = threadIdx.x % 8;
    uint64_t block = blockIdx.x * (uint64_t)THREADS;
    for (uint32_t k = threadIdx.x / 8; k < THREADS; k += THREADS / 8) {
        uint64_t row = block + k;
        float sum = 0;
        if (row < items)
            for (uint32_t e = begin[first + row] + lane; e < begin[first + row + 1]; e += 8)
                sum += value[e] * x[column[e]];
        for (int width = 4; width > 0; width /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, width);
        if (lane == 0 && row < items)
            y[row] = sum;
    }
}

HAND hand_mandelbrot(uint64_t items, uint64_t first, uint32_t width, uint32_t height,
                     OUT(uint8_t) pixels)
{
    if (ITEM < items)
        mandelbrot(ITEM, first, width, height, pixels);
}

/* Sixteen bytes at a load, and a table of 256 entries in shared memory. */
HAND hand_crc32(uint64_t items, IN(uint8_t) records, OUT(uint32_t) sums)
{
    __shared__ uint32_t of[256];
    uint32_t made = of_four[threadIdx.x & 15u] ^ threadIdx.x >> 4;
    of[threadIdx.x] = of_four[made & 15u] ^ made >> 4;
    __syncthreads();
    if (ITEM >= items)
        return;
    uint32_t crc = 0xffffffffu;
    const uint4 *record = (const uint4 *)(records + ITEM * RECORD);
    for (int k = 0; k < RECORD / 16; k++) {
        uint4 words = record[k];
        const uint32_t four[4] = { words.x, words.y, words.z, words.w };
#pragma unroll
        for (int w = 0; w < 4; w++) {
            crc ^= four[w];
#pragma unroll
            for (int b = 0; b < 4; b++)
                crc = of[crc & 255u] ^ crc >> 8;
        }
    }
    sums[ITEM] = ~crc;
}

/* A column of the table as the bits of a word, by Myers; where letters are is compared, not looked up. */
HAND hand_edit_distance(uint64_t items, IN(uint8_t) left, IN(uint8_t) right, OUT(uint32_t) distance)
{
    if (ITEM >= items)
        return;
    const uint4 *rights = (const uint4 *)(right + ITEM * LETTERS);
    const uint4 two[2] = { rights[0], rights[1] };
    const uint32_t words[8] = { two[0].x, two[0].y, two[0].z, two[0].w,
                                two[1].x, two[1].y, two[1].z, two[1].w };
    uint32_t up = 0xffffffffu, down = 0, score = LETTERS;
    for (uint32_t n = 0; n < LETTERS; n++) {
        uint32_t letter = left[ITEM * LETTERS + n] * 0x01010101u, equal = 0;
#pragma unroll
        for (int w = 0; w < 8; w++) {
            uint32_t same = __vcmpeq4(words[w], letter) & 0x08040201u;
            /* One bit of each byte, gathered by a multiplication. */
            equal |= ((same * 0x01010101u) >> 24) << (4 * w);
        }
        uint32_t vertical = equal | down;
        uint32_t horizontal = (((equal & up) + up) ^ up) | equal;
        uint32_t plus = down | ~(horizontal | up), minus = up & horizontal;
        score += plus >> 31;
        score -= minus >> 31;
        plus = plus << 1 | 1u;
        minus <<= 1;
        up = minus | ~(vertical | plus);
        down = plus & vertical;
    }
    distance[ITEM] = score;
}

/* Reductions: many items a thread, a block's sum by shuffles, one addition for each block. */

static __device__ void add_block(double *to, double value)
{
    __shared__ double warps[THREADS / 32];
    for (int width = 16; width > 0; width /= 2)
        value += __shfl_down_sync(0xffffffffu, value, width);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < THREADS / 32; k++)
            value += warps[k];
        atomicAdd(to, value);
    }
    __syncthreads();
}

HAND hand_dot(uint64_t items, IN(float) x, IN(float) y, double *result)
{
    double sum = 0;
    uint64_t fours = items / 4;
    for (uint64_t i = ITEM; i < fours; i += STRIDE) {
        float4 a = ((const float4 *)x)[i], b = ((const float4 *)y)[i];
        sum += (double)(a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w);
    }
    if (ITEM < items % 4)
        sum += (double)(x[fours * 4 + ITEM] * y[fours * 4 + ITEM]);
    add_block(result, sum);
}

/* A table for each warp. */
HAND hand_histogram(uint64_t items, IN(uint8_t) bytes, unsigned long long *result)
{
    __shared__ unsigned bins[THREADS / 32][256];
    unsigned *mine = bins[threadIdx.x / 32];
    for (unsigned k = threadIdx.x; k < sizeof bins / sizeof(unsigned); k += THREADS)
        bins[0][k] = 0;
    __syncthreads();
    uint64_t sixteens = items / 16;
    for (uint64_t i = ITEM; i < sixteens; i += STRIDE) {
        uint4 words = ((const uint4 *)bytes)[i];
        const uint32_t four[4] = { words.x, words.y, words.z, words.w };
#pragma unroll
        for (int w = 0; w < 4; w++)
#pragma unroll
            for (int b = 0; b < 4; b++)
                atomicAdd(&mine[four[w] >> (8 * b) & 255u], 1u);
    }
    if (ITEM < items % 16)
        atomicAdd(&mine[bytes[sixteens * 16 + ITEM]], 1u);
    __syncthreads();
    for (unsigned k = threadIdx.x; k < 256; k += THREADS) {
        unsigned long long sum = 0;
        for (int w = 0; w < THREADS / 32; w++)
            sum += bins[w][k];
        if (sum > 0)
            atomicAdd(&result[k], sum);
    }
}

HAND hand_logistic(uint64_t items, IN(float) weights, IN(float) features, IN(float) label,
                   struct logistic *result)
{
    double loss = 0, gradient[FEATURES] = { 0 };
    float w[FEATURES];
    for (int k = 0; k < FEATURES; k++)
        w[k] = weights[k];
    for (uint64_t i = ITEM; i < items; i += STRIDE) {
        const float4 *two = (const float4 *)(features + i * FEATURES);
        float4 low = two[0], high = two[1];
        const float f[FEATURES] = { low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w };
        float score = 0;
#pragma unroll
        for (int k = 0; k < FEATURES; k++)
            score += w[k] * f[k];
        float small = __expf(-fabsf(score));
        float error = (score < 0 ? small : 1.0f) / (1.0f + small) - label[i];
        loss += (double)(__logf(1.0f + small) + fmaxf(score, 0.0f) - label[i] * score);
#pragma unroll
        for (int k = 0; k < FEATURES; k++)
            gradient[k] += (double)(error * f[k]);
    }
    add_block(&result->loss, loss);
    for (int k = 0; k < FEATURES; k++)
        add_block(&result->gradient[k], gradient[k]);
}
