/*
 * The best versions by hand for processors, a column without a bar: other algorithms where there are
 * better ones, the processor's own mathematics (MUSTER_FAST_MATH), and -O3 -march=native -ffast-math. Their bits
 * are their own; bench/kernel_table compares them with the reference up to rounding.
 */
#define MUSTER_FAST_MATH
#define TABLE_NAME(name) table_hand_loop_##name
#define TABLE_LOOP _Pragma("omp parallel for simd")
#define TABLE_PLAIN_LOOP _Pragma("omp parallel for")
#include "rows.h"
#define TABLE_DECLARE_LOOP(name) table_loop table_hand_loop_##name;
TABLE_ROWS(TABLE_DECLARE_LOOP)
#include "loops.h"

#include <stdlib.h>
#include <string.h>

/* Where the loop itself is the best, with these options. */
#define AS_IT_IS(name)                                                                             \
    void table_hand_##name(uint64_t items, void *const *args, void *result)                        \
    {                                                                                              \
        table_hand_loop_##name(items, args, result);                                               \
    }
AS_IT_IS(saxpy)
AS_IT_IS(triad)
AS_IT_IS(nbody)
AS_IT_IS(black_scholes)
AS_IT_IS(mandelbrot)

void table_hand_dot(uint64_t items, void *const *args, void *result)
{
    const float *x = ARRAY(const float, 0), *y = ARRAY(const float, 1);
    double all = 0;
#pragma omp parallel for simd reduction(+ : all)
    for (uint64_t i = 0; i < items; i++)
        all += (double)(x[i] * y[i]);
    *(double *)result = all;
}

/* Several tables, so that equal bytes after each other do not wait for one counter. */
void table_hand_histogram(uint64_t items, void *const *args, void *result)
{
    enum { TABLES = 8 };
    const uint8_t *bytes = ARRAY(const uint8_t, 0);
    struct histogram all = { { 0 } };
#pragma omp parallel
    {
        static _Thread_local uint32_t bins[TABLES][256];
        memset(bins, 0, sizeof bins);
#pragma omp for schedule(static)
        for (uint64_t block = 0; block < (items + 4095) / 4096; block++) {
            uint64_t i = block * 4096, end = i + 4096 < items ? i + 4096 : items;
            for (; i + TABLES <= end; i += TABLES)
                for (int t = 0; t < TABLES; t++)
                    bins[t][bytes[i + (uint64_t)t]]++;
            for (; i < end; i++)
                bins[0][bytes[i]]++;
        }
#pragma omp critical
        for (int k = 0; k < 256; k++)
            for (int t = 0; t < TABLES; t++)
                all.bins[k] += bins[t][k];
    }
    *(struct histogram *)result = all;
}

/* Down the columns first, into one row, then along that. */
void table_hand_convolve(uint64_t items, void *const *args, void *result)
{
    uint32_t width = VALUE(uint32_t, 1), height = VALUE(uint32_t, 2);
    const float *in = ARRAY(const float, 3);
    float *out = ARRAY(float, 4);
    (void)items, (void)result;
#pragma omp parallel
    {
        float *row = malloc((width + 4) * sizeof *row);
#pragma omp for schedule(static)
        for (int64_t y = 0; y < (int64_t)height; y++) {
            const float *rows[5];
            for (int64_t k = 0; k < 5; k++) {
                int64_t at = y + k - 2 < 0 ? 0 : y + k - 2;
                rows[k] = in + (at < (int64_t)height ? at : (int64_t)height - 1) * (int64_t)width;
            }
#pragma omp simd
            for (uint32_t x = 0; x < width; x++)
                row[x + 2] = binomial[0] * (rows[0][x] + rows[4][x]) +
                             binomial[1] * (rows[1][x] + rows[3][x]) + binomial[2] * rows[2][x];
            row[0] = row[1] = row[2];
            row[width + 2] = row[width + 3] = row[width + 1];
            float *to = out + y * (int64_t)width;
#pragma omp simd
            for (uint32_t x = 0; x < width; x++)
                to[x] = binomial[0] * (row[x] + row[x + 4]) +
                        binomial[1] * (row[x + 1] + row[x + 3]) + binomial[2] * row[x + 2];
        }
        free(row);
    }
}

void table_hand_jacobi(uint64_t items, void *const *args, void *result)
{
    uint32_t width = VALUE(uint32_t, 1), height = VALUE(uint32_t, 2);
    const float *in = ARRAY(const float, 3);
    float *out = ARRAY(float, 4);
    (void)items, (void)result;
#pragma omp parallel for schedule(static)
    for (uint32_t y = 0; y < height; y++) {
        const float *here = in + (uint64_t)y * width;
        float *to = out + (uint64_t)y * width;
        if (y == 0 || y + 1 == height) {
            memcpy(to, here, width * sizeof *to);
            continue;
        }
        to[0] = here[0];
        to[width - 1] = here[width - 1];
        const float *above = here - width, *below = here + width;
#pragma omp simd
        for (uint32_t x = 1; x < width - 1; x++)
            to[x] = 0.25f * (above[x] + below[x] + here[x - 1] + here[x + 1]);
    }
}

/* The mathematics of many samples at once, then their sums. */
void table_hand_logistic(uint64_t items, void *const *args, void *result)
{
    enum { BLOCK = 256 };
    const float *weights = ARRAY(const float, 0), *features = ARRAY(const float, 1),
                *label = ARRAY(const float, 2);
    double loss = 0, gradient[FEATURES] = { 0 };
#pragma omp parallel for schedule(static) reduction(+ : loss, gradient[:FEATURES])
    for (uint64_t block = 0; block < (items + BLOCK - 1) / BLOCK; block++) {
        uint64_t begin = block * BLOCK;
        uint32_t count = (uint32_t)(items - begin < BLOCK ? items - begin : BLOCK);
        float errors[BLOCK], sum = 0, sums[FEATURES] = { 0 };
        for (uint32_t i = 0; i < count; i++) {
            float score = 0;
            for (uint32_t k = 0; k < FEATURES; k++)
                score += weights[k] * features[(begin + i) * FEATURES + k];
            errors[i] = score;
        }
#pragma omp simd reduction(+ : sum)
        for (uint32_t i = 0; i < count; i++) {
            float score = errors[i], small = muster_exp(-muster_fabs(score));
            errors[i] = (score < 0 ? small : 1.0f) / (1.0f + small) - label[begin + i];
            sum += muster_log(1.0f + small) + (score > 0 ? score : 0) - label[begin + i] * score;
        }
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t k = 0; k < FEATURES; k++)
                sums[k] += errors[i] * features[(begin + i) * FEATURES + k];
        loss += (double)sum;
        for (uint32_t k = 0; k < FEATURES; k++)
            gradient[k] += (double)sums[k];
    }
    struct logistic *all = result;
    all->loss = loss;
    memcpy(all->gradient, gradient, sizeof gradient);
}

void table_hand_softmax(uint64_t items, void *const *args, void *result)
{
    const float *in = ARRAY(const float, 0);
    float *out = ARRAY(float, 1);
    (void)result;
#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < items; i++) {
        const float *row = in + i * COLUMNS;
        float *to = out + i * COLUMNS, largest = row[0], sum = 0;
#pragma omp simd reduction(max : largest)
        for (uint32_t k = 0; k < COLUMNS; k++)
            largest = row[k] > largest ? row[k] : largest;
#pragma omp simd reduction(+ : sum)
        for (uint32_t k = 0; k < COLUMNS; k++) {
            to[k] = muster_exp(row[k] - largest);
            sum += to[k];
        }
        float by = 1.0f / sum;
#pragma omp simd
        for (uint32_t k = 0; k < COLUMNS; k++)
            to[k] *= by;
    }
}

void table_hand_spmv(uint64_t items, void *const *args, void *result)
{
    const uint32_t *begin = ARRAY(const uint32_t, 1), *column = ARRAY(const uint32_t, 2);
    const float *value = ARRAY(const float, 3), *x = ARRAY(const float, 4);
    float *y = ARRAY(float, 5);
    (void)result;
#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < items; i++) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (uint32_t k = begin[i]; k < begin[i + 1]; k++)
            sum += value[k] * x[column[k]];
        y[i] = sum;
    }
}

/* Eight bytes at a time. */
void table_hand_crc32(uint64_t items, void *const *args, void *result)
{
    static uint32_t of[8][256];
    const uint8_t *records = ARRAY(const uint8_t, 0);
    uint32_t *sums = ARRAY(uint32_t, 1);
    (void)result;
    if (of[0][1] == 0) {
        for (uint32_t k = 0; k < 256; k++) {
            uint32_t crc = of_four[k & 15u] ^ k >> 4;
            of[0][k] = of_four[crc & 15u] ^ crc >> 4;
        }
        for (uint32_t t = 1; t < 8; t++)
            for (uint32_t k = 0; k < 256; k++)
                of[t][k] = of[t - 1][k] >> 8 ^ of[0][of[t - 1][k] & 255u];
    }
#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < items; i++) {
        uint32_t crc = 0xffffffffu;
        for (uint32_t k = 0; k < RECORD; k += 8) {
            uint32_t low, high;
            memcpy(&low, records + i * RECORD + k, 4);
            memcpy(&high, records + i * RECORD + k + 4, 4);
            low ^= crc;
            crc = of[7][low & 255u] ^ of[6][low >> 8 & 255u] ^ of[5][low >> 16 & 255u] ^
                  of[4][low >> 24] ^ of[3][high & 255u] ^ of[2][high >> 8 & 255u] ^
                  of[1][high >> 16 & 255u] ^ of[0][high >> 24];
        }
        sums[i] = ~crc;
    }
}

/* A column of the table as the bits of a word, by Myers. */
void table_hand_edit_distance(uint64_t items, void *const *args, void *result)
{
    const uint8_t *left = ARRAY(const uint8_t, 0), *right = ARRAY(const uint8_t, 1);
    uint32_t *distance = ARRAY(uint32_t, 2);
    (void)result;
#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < items; i++) {
        uint32_t where[256] = { 0 }, up = 0xffffffffu, down = 0, score = LETTERS;
        for (uint32_t k = 0; k < LETTERS; k++)
            where[right[i * LETTERS + k]] |= 1u << k;
        for (uint32_t n = 0; n < LETTERS; n++) {
            uint32_t equal = where[left[i * LETTERS + n]], vertical = equal | down;
            uint32_t horizontal = (((equal & up) + up) ^ up) | equal;
            uint32_t plus = down | ~(horizontal | up), minus = up & horizontal;
            score += plus >> 31;
            score -= minus >> 31;
            plus = plus << 1 | 1u;
            minus <<= 1;
            up = minus | ~(vertical | plus);
            down = plus & vertical;
        }
        distance[i] = score;
    }
}
