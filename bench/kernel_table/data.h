/*
 * What the fourteen kernels of bench/kernel_table work on: how large, and what is in it.
 */
#ifndef BENCH_KERNEL_TABLE_DATA_H
#define BENCH_KERNEL_TABLE_DATA_H

#include "../report.h"
#include "rows.h"

#include <math.h>

#define TABLE_ARGUMENTS_MAX 10

enum table_use { TABLE_VALUE, TABLE_FIRST, TABLE_IN, TABLE_OUT, TABLE_INOUT, TABLE_ALL };

struct table_argument {
    enum table_use use;
    size_t item_bytes; /* of a value all there are */
    size_t bytes;
    void *memory;   /* owns; what kernels read and write */
    void *initial;  /* owns; of TABLE_INOUT: before a run */
    void *expected; /* owns; of results: after it */
    uint64_t value;
};

/* What results are, for those that are compared up to rounding. */
enum table_kind { TABLE_FLOATS, TABLE_WORDS, TABLE_PIXELS };

struct table_row {
    const char *what, *entry;
    table_loop *openmp, *hand, *reference;
    enum table_kind kind;
    uint64_t items, quick; /* how many, and how many to see only that all is right */
    size_t result_bytes;   /* of a reduction */
    bool is_own_order;     /* the peers add in another order, and so come to other bits */
    void (*fill)(struct table_row *row, const struct bench *bench, uint64_t items);
    struct table_argument arguments[TABLE_ARGUMENTS_MAX];
    size_t count;
};

static inline bool table_is_written(const struct table_argument *argument)
{
    return argument->use == TABLE_OUT || argument->use == TABLE_INOUT;
}

static inline void *table_take(const struct bench *bench, size_t bytes)
{
    void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!memory)
        stop(bench, "out of memory");
    memset(memory, 0, bytes);
    return memory;
}

static inline void *table_array(struct table_row *row, const struct bench *bench,
                                enum table_use use, size_t item_bytes, uint64_t items)
{
    struct table_argument *argument = &row->arguments[row->count++];
    *argument = (struct table_argument){ .use = use,
                                         .item_bytes = item_bytes,
                                         .bytes = item_bytes * items,
                                         .memory = table_take(bench, item_bytes * items) };
    return argument->memory;
}

static inline void table_value(struct table_row *row, const void *value, size_t bytes)
{
    struct table_argument *argument = &row->arguments[row->count++];
    *argument = (struct table_argument){ .use = TABLE_VALUE, .item_bytes = bytes, .bytes = bytes };
    memcpy(&argument->value, value, bytes);
}

static inline void table_first(struct table_row *row)
{
    row->arguments[row->count++] = (struct table_argument){ .use = TABLE_FIRST,
                                                            .item_bytes = sizeof(uint64_t),
                                                            .bytes = sizeof(uint64_t) };
}

static inline void table_float(struct table_row *row, float value)
{
    table_value(row, &value, sizeof value);
}

/* 32 bits that look random, of a number. */
static inline uint32_t table_mix(uint64_t number)
{
    number = (number + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    number = (number ^ number >> 29) * 0x94d049bb133111ebu;
    return (uint32_t)(number >> 32);
}

/* Floats from `low` to below `high`. */
static inline void table_floats(struct table_row *row, const struct bench *bench,
                                enum table_use use, uint64_t items, float low, float high)
{
    uint64_t salt = (uint64_t)row->count << 40;
    float *numbers = table_array(row, bench, use, sizeof *numbers, items);
    for (uint64_t i = 0; i < items; i++)
        numbers[i] = low + (high - low) * ((float)(table_mix(salt + i) >> 8) * 0x1p-24f);
}

/* `each` bytes an item, of the first this many letters from `low` on. */
static inline void table_bytes(struct table_row *row, const struct bench *bench, uint64_t items,
                               size_t each, unsigned low, unsigned letters)
{
    uint64_t salt = (uint64_t)row->count << 40;
    uint8_t *bytes = table_array(row, bench, TABLE_IN, each, items);
    for (uint64_t i = 0; i < items * each; i++)
        bytes[i] = (uint8_t)(low + table_mix(salt + i) % letters);
}

static inline void fill_saxpy(struct table_row *row, const struct bench *bench, uint64_t items)
{
    table_float(row, 0.7f);
    table_floats(row, bench, TABLE_IN, items, -1, 1);
    table_floats(row, bench, TABLE_INOUT, items, -1, 1);
}

static inline void fill_triad(struct table_row *row, const struct bench *bench, uint64_t items)
{
    table_float(row, 3.1f);
    table_floats(row, bench, TABLE_IN, items, -1, 1);
    table_floats(row, bench, TABLE_IN, items, -1, 1);
    table_array(row, bench, TABLE_OUT, sizeof(float), items);
}

static inline void fill_dot(struct table_row *row, const struct bench *bench, uint64_t items)
{
    table_floats(row, bench, TABLE_IN, items, -1, 1);
    table_floats(row, bench, TABLE_IN, items, -1, 1);
}

static inline void fill_histogram(struct table_row *row, const struct bench *bench, uint64_t items)
{
    table_bytes(row, bench, items, 1, 0, 256);
}

/* Twice as wide as high, as near as it goes. */
static inline void table_picture(struct table_row *row, uint64_t items)
{
    uint32_t height = 1;
    while ((uint64_t)height * height * 2 < items)
        height++;
    while (items % height != 0)
        height--;
    uint32_t width = (uint32_t)(items / height);
    table_first(row);
    table_value(row, &width, sizeof width);
    table_value(row, &height, sizeof height);
}

static inline void fill_picture(struct table_row *row, const struct bench *bench, uint64_t items)
{
    table_picture(row, items);
    table_floats(row, bench, TABLE_ALL, items, 0, 1);
    table_array(row, bench, TABLE_OUT, sizeof(float), items);
}

static inline void fill_nbody(struct table_row *row, const struct bench *bench, uint64_t items)
{
    uint32_t bodies = (uint32_t)items;
    table_first(row);
    table_value(row, &bodies, sizeof bodies);
    for (int k = 0; k < 3; k++)
        table_floats(row, bench, TABLE_ALL, items, -1, 1);
    table_floats(row, bench, TABLE_ALL, items, 0.1f, 1);
    for (int k = 0; k < 3; k++)
        table_array(row, bench, TABLE_OUT, sizeof(float), items);
}

static inline void fill_black_scholes(struct table_row *row, const struct bench *bench,
                                      uint64_t items)
{
    table_float(row, 0.02f);
    table_float(row, 0.3f);
    table_floats(row, bench, TABLE_IN, items, 5, 30);
    table_floats(row, bench, TABLE_IN, items, 1, 100);
    table_floats(row, bench, TABLE_IN, items, 0.25f, 10);
    table_array(row, bench, TABLE_OUT, sizeof(float), items);
    table_array(row, bench, TABLE_OUT, sizeof(float), items);
}

static inline void fill_logistic(struct table_row *row, const struct bench *bench, uint64_t items)
{
    table_floats(row, bench, TABLE_ALL, 8, -2, 2);
    table_floats(row, bench, TABLE_IN, items * 8, -1, 1);
    row->arguments[1].item_bytes = 8 * sizeof(float);
    table_floats(row, bench, TABLE_IN, items, 0, 2);
    float *labels = row->arguments[2].memory;
    for (uint64_t i = 0; i < items; i++)
        labels[i] = labels[i] < 1.0f ? 0.0f : 1.0f;
}

static inline void fill_softmax(struct table_row *row, const struct bench *bench, uint64_t items)
{
    table_floats(row, bench, TABLE_IN, items * 64, -8, 8);
    row->arguments[0].item_bytes = 64 * sizeof(float);
    table_array(row, bench, TABLE_OUT, 64 * sizeof(float), items);
}

/* Rows of 0 to 31 elements, in columns near the diagonal and far from it. */
static inline void fill_spmv(struct table_row *row, const struct bench *bench, uint64_t items)
{
    table_first(row);
    uint32_t *begin = table_array(row, bench, TABLE_ALL, sizeof *begin, items + 1);
    for (uint64_t r = 0; r < items; r++)
        begin[r + 1] = begin[r] + table_mix(r) % 32;
    uint32_t *column = table_array(row, bench, TABLE_ALL, sizeof *column, begin[items]);
    for (uint64_t r = 0; r < items; r++)
        for (uint32_t k = begin[r]; k < begin[r + 1]; k++)
            column[k] =
                (uint32_t)(k % 4 == 0 ? table_mix(k) % items : (r + table_mix(k) % 1024) % items);
    table_floats(row, bench, TABLE_ALL, begin[items], -1, 1);
    table_floats(row, bench, TABLE_ALL, items, -1, 1);
    table_array(row, bench, TABLE_OUT, sizeof(float), items);
}

static inline void fill_mandelbrot(struct table_row *row, const struct bench *bench, uint64_t items)
{
    table_picture(row, items);
    table_array(row, bench, TABLE_OUT, 3, items);
}

static inline void fill_crc32(struct table_row *row, const struct bench *bench, uint64_t items)
{
    table_bytes(row, bench, items, 64, 0, 256);
    table_array(row, bench, TABLE_OUT, sizeof(uint32_t), items);
}

static inline void fill_edit_distance(struct table_row *row, const struct bench *bench,
                                      uint64_t items)
{
    table_bytes(row, bench, items, 32, 'a', 4);
    table_bytes(row, bench, items, 32, 'a', 4);
    table_array(row, bench, TABLE_OUT, sizeof(uint32_t), items);
}

/* args[k] for the loops and for functions of kernels. */
static inline void table_bind(struct table_row *row, void **args)
{
    for (size_t k = 0; k < row->count; k++)
        args[k] = row->arguments[k].memory ? (void *)&row->arguments[k].memory
                                           : (void *)&row->arguments[k].value;
}

/* As before a run: nothing that a run leaves can be taken for the next one's result. */
static inline void table_reset(struct table_row *row)
{
    for (size_t k = 0; k < row->count; k++) {
        struct table_argument *argument = &row->arguments[k];
        if (argument->use == TABLE_INOUT)
            memcpy(argument->memory, argument->initial, argument->bytes);
        else if (argument->use == TABLE_OUT)
            memset(argument->memory, 0xa5, argument->bytes);
    }
}

/* Makes the data, runs the reference and keeps what it came to. */
static inline void table_open(struct table_row *row, const struct bench *bench, uint64_t items,
                              void *result)
{
    void *args[TABLE_ARGUMENTS_MAX];
    row->count = 0;
    row->fill(row, bench, items);
    for (size_t k = 0; k < row->count; k++) {
        struct table_argument *argument = &row->arguments[k];
        if (argument->use == TABLE_INOUT) {
            argument->initial = table_take(bench, argument->bytes);
            memcpy(argument->initial, argument->memory, argument->bytes);
        }
    }
    table_reset(row);
    table_bind(row, args);
    row->reference(items, args, result);
    for (size_t k = 0; k < row->count; k++) {
        struct table_argument *argument = &row->arguments[k];
        if (!table_is_written(argument))
            continue;
        argument->expected = table_take(bench, argument->bytes);
        memcpy(argument->expected, argument->memory, argument->bytes);
    }
}

/* Whether all that was written is what the reference came to. */
static inline bool table_is_equal(const struct table_row *row, const void *result,
                                  const void *expected)
{
    bool is_equal = memcmp(result, expected, row->result_bytes) == 0;
    for (size_t k = 0; k < row->count; k++) {
        const struct table_argument *argument = &row->arguments[k];
        if (table_is_written(argument))
            is_equal =
                is_equal && memcmp(argument->memory, argument->expected, argument->bytes) == 0;
    }
    return is_equal;
}

/* Of what is rounded in another way. */
#define TABLE_ROUNDING 1e-3
/* Of the bytes of a picture whose edges are where rounding decides. */
#define TABLE_PIXELS_APART 0.02

static inline bool table_is_near_number(double a, double b)
{
    double size = fabs(a) > fabs(b) ? fabs(a) : fabs(b);
    return fabs(a - b) <= TABLE_ROUNDING * (size > 1 ? size : 1);
}

static inline bool table_is_near_array(const struct table_row *row,
                                       const struct table_argument *argument)
{
    uint64_t apart = 0;
    if (row->kind == TABLE_WORDS)
        return memcmp(argument->memory, argument->expected, argument->bytes) == 0;
    for (size_t i = 0; row->kind == TABLE_PIXELS && i < argument->bytes; i++)
        apart += ((const uint8_t *)argument->memory)[i] != ((const uint8_t *)argument->expected)[i];
    for (size_t i = 0; row->kind == TABLE_FLOATS && i < argument->bytes / sizeof(float); i++)
        if (!table_is_near_number((double)((const float *)argument->memory)[i],
                                  (double)((const float *)argument->expected)[i]))
            return false;
    return (double)apart <= TABLE_PIXELS_APART * (double)argument->bytes;
}

/* Whether all that was written is the same up to rounding. */
static inline bool table_is_near(const struct table_row *row, const void *result,
                                 const void *expected)
{
    bool is_near = row->is_own_order || memcmp(result, expected, row->result_bytes) == 0;
    for (size_t i = 0; row->is_own_order && i < row->result_bytes / sizeof(double); i++)
        is_near = is_near &&
                  table_is_near_number(((const double *)result)[i], ((const double *)expected)[i]);
    for (size_t k = 0; k < row->count; k++)
        if (table_is_written(&row->arguments[k]))
            is_near = is_near && table_is_near_array(row, &row->arguments[k]);
    return is_near;
}

static inline void table_close(struct table_row *row)
{
    for (size_t k = 0; k < row->count; k++) {
        free(row->arguments[k].memory);
        free(row->arguments[k].initial);
        free(row->arguments[k].expected);
    }
}

#define TABLE_PAIR(name)                                                                           \
    .entry = #name, .openmp = table_openmp_##name, .hand = table_hand_##name,                      \
    .reference = table_reference_##name
/* clang-format off */
static struct table_row table_rows[] = {
    { "saxpy", TABLE_PAIR(saxpy), .items = 1 << 25, .quick = 20011, .fill = fill_saxpy },
    { "triad", TABLE_PAIR(triad), .items = 1 << 25, .quick = 20011, .fill = fill_triad },
    { "dot product", TABLE_PAIR(dot), .items = 1 << 25, .quick = 100003, .result_bytes = 8,
      .is_own_order = true, .fill = fill_dot },
    { "histogram of bytes", TABLE_PAIR(histogram), .items = 1 << 27, .quick = 100003, .result_bytes = 2048,
      .fill = fill_histogram },
    { "5x5 convolution", TABLE_PAIR(convolve), .items = 1 << 21, .quick = 20000, .fill = fill_picture },
    { "Jacobi step", TABLE_PAIR(jacobi), .items = 1 << 24, .quick = 20000, .fill = fill_picture },
    { "n-body", TABLE_PAIR(nbody), .items = 1 << 13, .quick = 501, .fill = fill_nbody },
    { "Black-Scholes", TABLE_PAIR(black_scholes), .items = 1 << 21, .quick = 5003, .fill = fill_black_scholes },
    { "logistic regression", TABLE_PAIR(logistic), .items = 1 << 21, .quick = 20011, .result_bytes = 72,
      .is_own_order = true, .fill = fill_logistic },
    { "row softmax", TABLE_PAIR(softmax), .items = 1 << 17, .quick = 503, .fill = fill_softmax },
    { "sparse matrix, vector", TABLE_PAIR(spmv), .items = 1 << 20, .quick = 5003, .fill = fill_spmv },
    { "Mandelbrot", TABLE_PAIR(mandelbrot), .items = 1 << 18, .quick = 2048, .fill = fill_mandelbrot,
      .kind = TABLE_PIXELS },
    { "CRC-32 of 64 bytes", TABLE_PAIR(crc32), .items = 1 << 19, .quick = 2003, .fill = fill_crc32,
      .kind = TABLE_WORDS },
    { "edit distance of 32", TABLE_PAIR(edit_distance), .items = 1 << 16, .quick = 503,
      .fill = fill_edit_distance, .kind = TABLE_WORDS },
};
/* clang-format on */
#define TABLE_COUNT (sizeof table_rows / sizeof *table_rows)
#define TABLE_RESULT_MAX 2048

#endif
