/*
 * What every device must come to: the loops one item after the other, compiled without optimisation
 * that a loop could suffer from, and reductions along the tree that docs/kernels.md describes.
 */
#define TABLE_NAME(name) table_reference_##name
#define TABLE_LOOP
#define TABLE_PLAIN_LOOP
#include "loops.h"

#include <string.h>

#define PARTIAL_MAX sizeof(struct histogram)
#define LANES_MAX 32u

struct reduction {
    size_t bytes; /* of the partial */
    void *const *args;
    void (*add)(uint64_t i, void *const *args, void *partial);
    void (*join)(void *into, const void *from);
};

static uint64_t block_items(const struct reduction *of)
{
    uint64_t items = 1;
    while (items < 16 * of->bytes)
        items *= 2;
    return items > 4096 ? items : 4096;
}

static void reduce_block(const struct reduction *of, uint64_t begin, uint64_t end, void *result)
{
    _Alignas(16) char lanes[LANES_MAX][PARTIAL_MAX];
    uint64_t count = LANES_MAX;
    while (count * of->bytes > 16384)
        count /= 2;
    memset(lanes, 0, sizeof lanes);
    for (uint64_t i = begin; i < end; i++)
        of->add(i, of->args, lanes[(i - begin) % count]);
    for (uint64_t width = count / 2; width > 0; width /= 2)
        for (uint64_t l = 0; l < width; l++)
            of->join(lanes[l], lanes[l + width]);
    memcpy(result, lanes[0], of->bytes);
}

/* Blocks [begin, end) of all; the first power of two of them, and the rest. */
static void reduce_blocks(const struct reduction *of, uint64_t items, uint64_t begin, uint64_t end,
                          void *result)
{
    uint64_t size = block_items(of), half = 1;
    if (end - begin == 1) {
        reduce_block(of, begin * size, end * size < items ? end * size : items, result);
        return;
    }
    while (half * 2 < end - begin)
        half *= 2;
    _Alignas(16) char rest[PARTIAL_MAX];
    reduce_blocks(of, items, begin, begin + half, result);
    reduce_blocks(of, items, begin + half, end, rest);
    of->join(result, rest);
}

static void reduce(const struct reduction *of, uint64_t items, void *result)
{
    uint64_t size = block_items(of);
    reduce_blocks(of, items, 0, (items + size - 1) / size, result);
}

static void add_dot(uint64_t i, void *const *args, void *partial)
{
    dot(i, ARRAY(const float, 0), ARRAY(const float, 1), partial);
}

static void join_dot(void *into, const void *from)
{
    dot_combine(into, from);
}

void table_reference_dot(uint64_t items, void *const *args, void *result)
{
    reduce(&(struct reduction){ sizeof(double), args, add_dot, join_dot }, items, result);
}

static void add_histogram(uint64_t i, void *const *args, void *partial)
{
    histogram(i, ARRAY(const uint8_t, 0), partial);
}

static void join_histogram(void *into, const void *from)
{
    histogram_combine(into, from);
}

void table_reference_histogram(uint64_t items, void *const *args, void *result)
{
    reduce(&(struct reduction){ sizeof(struct histogram), args, add_histogram, join_histogram },
           items, result);
}

static void add_logistic(uint64_t i, void *const *args, void *partial)
{
    logistic(i, ARRAY(const float, 0), ARRAY(const float, 1), ARRAY(const float, 2), partial);
}

static void join_logistic(void *into, const void *from)
{
    logistic_combine(into, from);
}

void table_reference_logistic(uint64_t items, void *const *args, void *result)
{
    reduce(&(struct reduction){ sizeof(struct logistic), args, add_logistic, join_logistic }, items,
           result);
}
