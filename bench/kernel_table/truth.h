/*
 * The reference of bench/kernel_table is the kernels' own source. So that a mistake there is no
 * truth, a few of its items are compared with what another author would write: other algorithms, double
 * precision, the C library's mathematics.
 */
#ifndef BENCH_KERNEL_TABLE_TRUTH_H
#define BENCH_KERNEL_TABLE_TRUTH_H

#include "data.h"

#include <math.h>

#define TRUTH_ITEMS 50

static inline const float *truth_floats(const struct table_row *row, size_t k)
{
    const struct table_argument *argument = &row->arguments[k];
    return argument->initial    ? argument->initial
           : argument->expected ? argument->expected
                                : argument->memory;
}

static inline uint32_t truth_number(const struct table_row *row, size_t k)
{
    return (uint32_t)row->arguments[k].value;
}

static inline bool is_near(double found, double wanted, double scale)
{
    return fabs(found - wanted) <= 2e-5 * (fabs(wanted) + scale);
}

static inline bool truth_saxpy(const struct table_row *row, uint64_t i, const void *result)
{
    const float *x = truth_floats(row, 1), *y = truth_floats(row, 2),
                *out = row->arguments[2].expected;
    (void)result;
    return is_near(out[i], (double)0.7f * x[i] + y[i], 1);
}

static inline bool truth_triad(const struct table_row *row, uint64_t i, const void *result)
{
    (void)result;
    return is_near(truth_floats(row, 3)[i],
                   truth_floats(row, 1)[i] + (double)3.1f * truth_floats(row, 2)[i], 1);
}

/* Of all items; `i` is how many there are. */
static inline bool truth_dot(const struct table_row *row, uint64_t items, const void *result)
{
    const float *x = truth_floats(row, 0), *y = truth_floats(row, 1);
    double sum = 0, size = 0, found;
    memcpy(&found, result, sizeof found);
    for (uint64_t i = 0; i < items; i++) {
        sum += (double)x[i] * y[i];
        size += fabs((double)x[i] * y[i]);
    }
    return fabs(found - sum) <= 1e-12 * size;
}

static inline bool truth_histogram(const struct table_row *row, uint64_t items, const void *result)
{
    const uint8_t *bytes = row->arguments[0].memory;
    const uint64_t *bins = result;
    uint64_t count = 0, all = 0;
    for (uint64_t i = 0; i < items; i++)
        count += bytes[i] == 17;
    for (int k = 0; k < 256; k++)
        all += bins[k];
    return bins[17] == count && all == items;
}

static inline bool truth_convolve(const struct table_row *row, uint64_t i, const void *result)
{
    static const double weights[] = { 1, 4, 6, 4, 1 };
    int width = (int)truth_number(row, 1), height = (int)truth_number(row, 2);
    int x = (int)(i % (uint64_t)width), y = (int)(i / (uint64_t)width);
    double sum = 0;
    (void)result;
    for (int dy = -2; dy <= 2; dy++)
        for (int dx = -2; dx <= 2; dx++) {
            int cx = x + dx < 0 ? 0 : x + dx >= width ? width - 1 : x + dx;
            int cy = y + dy < 0 ? 0 : y + dy >= height ? height - 1 : y + dy;
            sum += weights[dy + 2] * weights[dx + 2] / 256 *
                   truth_floats(row, 3)[cy * (int64_t)width + cx];
        }
    return is_near(truth_floats(row, 4)[i], sum, 0);
}

static inline bool truth_jacobi(const struct table_row *row, uint64_t i, const void *result)
{
    const float *in = truth_floats(row, 3), *out = truth_floats(row, 4);
    uint64_t width = truth_number(row, 1), height = truth_number(row, 2), x = i % width,
             y = i / width;
    (void)result;
    if (x == 0 || x == width - 1 || y == 0 || y == height - 1)
        return out[i] == in[i];
    double sum = (double)in[i - 1] + in[i + 1] + in[i - width] + in[i + width];
    return is_near(out[i], sum / 4, 0);
}

static inline bool truth_nbody(const struct table_row *row, uint64_t i, const void *result)
{
    double pull[3] = { 0 };
    bool is_good = true;
    (void)result;
    for (uint64_t k = 0; k < truth_number(row, 1); k++) {
        double d[3], square = (double)1e-4f;
        for (size_t a = 0; a < 3; a++) {
            d[a] = (double)truth_floats(row, 2 + a)[k] - truth_floats(row, 2 + a)[i];
            square += d[a] * d[a];
        }
        for (size_t a = 0; a < 3; a++)
            pull[a] += truth_floats(row, 5)[k] * d[a] * pow(square, -1.5);
    }
    for (size_t a = 0; a < 3; a++)
        is_good = is_good && is_near(truth_floats(row, 6 + a)[i], pull[a], truth_number(row, 1));
    return is_good;
}

static inline bool truth_black_scholes(const struct table_row *row, uint64_t i, const void *result)
{
    const double rate = 0.02f, volatility = 0.3f;
    double price = truth_floats(row, 2)[i], strike = truth_floats(row, 3)[i],
           years = truth_floats(row, 4)[i], call = truth_floats(row, 5)[i],
           put = truth_floats(row, 6)[i], spread = volatility * sqrt(years);
    double d1 = (log(price / strike) + (rate + volatility * volatility / 2) * years) / spread;
    double now = strike * exp(-rate * years);
    (void)result;
    /* And by arbitrage: call - put = price - what the strike is worth now. */
    return is_near(call, price * erfc(-d1 / sqrt(2)) / 2 - now * erfc((spread - d1) / sqrt(2)) / 2,
                   price + strike) &&
           is_near(call - put, price - now, price + strike);
}

static inline bool truth_logistic(const struct table_row *row, uint64_t items, const void *result)
{
    double loss = 0, gradient[8] = { 0 }, found[9];
    bool is_good = true;
    memcpy(found, result, sizeof found);
    for (uint64_t i = 0; i < items; i++) {
        const float *features = truth_floats(row, 1) + i * 8;
        double score = 0, label = truth_floats(row, 2)[i];
        for (int k = 0; k < 8; k++)
            score += (double)truth_floats(row, 0)[k] * features[k];
        double likely = 1 / (1 + exp(-score));
        loss -= log(label > 0 ? likely : 1 - likely);
        for (int k = 0; k < 8; k++)
            gradient[k] += (likely - label) * features[k];
    }
    for (int k = 0; k < 8; k++)
        is_good = is_good && is_near(found[k + 1], gradient[k], (double)items * 1e-2);
    return is_good && is_near(found[0], loss, 0);
}

static inline bool truth_softmax(const struct table_row *row, uint64_t i, const void *result)
{
    const float *in = truth_floats(row, 0) + i * 64, *out = truth_floats(row, 1) + i * 64;
    double sum = 0;
    bool is_good = true;
    (void)result;
    for (int k = 0; k < 64; k++)
        sum += exp(in[k]);
    for (int k = 0; k < 64; k++)
        is_good = is_good && is_near(out[k], exp(in[k]) / sum, 0);
    return is_good;
}

static inline bool truth_spmv(const struct table_row *row, uint64_t i, const void *result)
{
    const uint32_t *begin = row->arguments[1].memory, *column = row->arguments[2].memory;
    double sum = 0;
    (void)result;
    for (uint32_t k = begin[i]; k < begin[i + 1]; k++)
        sum += (double)truth_floats(row, 3)[k] * truth_floats(row, 4)[column[k]];
    return is_near(truth_floats(row, 5)[i], sum, 1);
}

/* Bit by bit, from the polynomial. */
static inline bool truth_crc32(const struct table_row *row, uint64_t i, const void *result)
{
    const uint8_t *record = (const uint8_t *)row->arguments[0].memory + i * 64;
    const uint32_t *sums = row->arguments[1].expected;
    uint32_t crc = ~0u;
    (void)result;
    for (int bit = 0; bit < 64 * 8; bit++) {
        uint32_t odd = (crc ^ (uint32_t)record[bit / 8] >> bit % 8) & 1;
        crc = crc >> 1 ^ (odd ? 0xedb88320u : 0);
    }
    return sums[i] == ~crc;
}

/* The whole table. */
static inline bool truth_edit_distance(const struct table_row *row, uint64_t i, const void *result)
{
    const char *left = (const char *)row->arguments[0].memory + i * 32,
               *right = (const char *)row->arguments[1].memory + i * 32;
    const uint32_t *found = row->arguments[2].expected;
    uint32_t table[33][33];
    (void)result;
    for (uint32_t a = 0; a <= 32; a++)
        for (uint32_t b = 0; b <= 32; b++) {
            uint32_t best = a == 0 ? b : b == 0 ? a : ~0u;
            if (a > 0 && b > 0) {
                best = table[a - 1][b - 1] + (left[a - 1] == right[b - 1] ? 0 : 1);
                best = table[a - 1][b] + 1 < best ? table[a - 1][b] + 1 : best;
                best = table[a][b - 1] + 1 < best ? table[a][b - 1] + 1 : best;
            }
            table[a][b] = best;
        }
    return found[i] == table[32][32];
}

/* What is surely within the set is black, and what is surely outside is not. */
static inline bool truth_mandelbrot(const struct table_row *row, uint64_t i, const void *result)
{
    const uint8_t *pixel = (const uint8_t *)row->arguments[3].expected + 3 * i;
    double width = truth_number(row, 1), height = truth_number(row, 2), step = 3.6 / width;
    double re = -2.45 + (fmod((double)i, width) + 0.5) * step,
           im = (height / 2 - floor((double)i / width) - 0.5) * step,
           size = sqrt(re * re + im * im);
    int light = pixel[0] + pixel[1] + pixel[2];
    (void)result;
    return size < 0.2 ? light == 0 : size < 2.1 || light > 0;
}

/* Whether the reference is right, of all items or of some. */
static inline bool truth_is_told(const struct table_row *row, uint64_t items, const void *result)
{
    static const struct {
        const char *entry;
        bool (*is_true)(const struct table_row *row, uint64_t i, const void *result);
    } truths[] = { { "saxpy", truth_saxpy },       { "triad", truth_triad },
                   { "dot", truth_dot },           { "histogram", truth_histogram },
                   { "convolve", truth_convolve }, { "jacobi", truth_jacobi },
                   { "nbody", truth_nbody },       { "black_scholes", truth_black_scholes },
                   { "logistic", truth_logistic }, { "softmax", truth_softmax },
                   { "spmv", truth_spmv },         { "mandelbrot", truth_mandelbrot },
                   { "crc32", truth_crc32 },       { "edit_distance", truth_edit_distance } };
    bool is_good = true;
    for (size_t t = 0; t < sizeof truths / sizeof *truths; t++) {
        if (strcmp(truths[t].entry, row->entry) != 0)
            continue;
        if (row->result_bytes > 0)
            return truths[t].is_true(row, items, result);
        for (uint64_t n = 0; n < TRUTH_ITEMS; n++)
            is_good =
                is_good && truths[t].is_true(row, n * (items - 1) / (TRUTH_ITEMS - 1), result);
    }
    return is_good;
}

#endif
