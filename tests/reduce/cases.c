#include "cases.h"

#include "base/random.h"

/* The kernels as plain C. */
#include "../../examples/kernels/dot.c"
#include "../../examples/kernels/extremes.c"
#include "../../examples/kernels/histogram.c"
#include "../../examples/kernels/moments.c"
#include "../../examples/kernels/sum.c"
#include "../../examples/kernels/top.c"

/* The rule by hand: 4096 items and 32 lanes up to 256 bytes; 2048 bytes make 32768 items and 8 lanes. */
const struct reduce_case reduce_cases[] = {
    { "sum", sizeof(double), 4096, 32, false, sizeof(float), 1 },
    { "dot", sizeof(double), 4096, 32, false, sizeof(float), 2 },
    { "extremes", sizeof(struct extremes), 4096, 32, true, sizeof(float), 1 },
    { "moments", sizeof(struct moments), 4096, 32, false, sizeof(float), 1 },
    { "histogram", sizeof(struct histogram), 32768, 8, false, 1, 1 },
    { "top", sizeof(struct top), 4096, 32, true, sizeof(float), 1 },
};
const size_t reduce_case_count = COUNT_OF(reduce_cases);

static void identity(const struct reduce_case *which, void *partial)
{
    memset(partial, 0, which->bytes);
    if (strcmp(which->name, "extremes") == 0)
        extremes_identity(partial);
}

static void add(const struct reduce_case *which, const void *const *arrays, uint64_t i,
                void *partial)
{
    switch (which->name[0]) {
    case 's':
        sum(i, arrays[0], partial);
        break;
    case 'd':
        dot(i, arrays[0], arrays[1], partial);
        break;
    case 'e':
        extremes(i, 0, arrays[0], partial);
        break;
    case 'm':
        moments(i, arrays[0], partial);
        break;
    case 'h':
        histogram(i, arrays[0], partial);
        break;
    default:
        top(i, 0, arrays[0], partial);
    }
}

static void combine(const struct reduce_case *which, void *into, const void *from)
{
    switch (which->name[0]) {
    case 's':
        sum_combine(into, from);
        break;
    case 'd':
        dot_combine(into, from);
        break;
    case 'e':
        extremes_combine(into, from);
        break;
    case 'm':
        moments_combine(into, from);
        break;
    case 'h':
        histogram_combine(into, from);
        break;
    default:
        top_combine(into, from);
    }
}

struct walk {
    const struct reduce_case *which;
    const void *const *arrays;
    uint64_t items;
};

union partial {
    _Alignas(16) char bytes[RESULT_MAX];
    double number;
};

/* Lanes [lane, lane + step, ...) of a block: those of the lower half with those of the upper. */
static void join_lanes(const struct walk *walk, uint64_t begin, uint64_t end, uint32_t lane,
                       uint32_t step, union partial *out)
{
    union partial other;
    if (step == walk->which->lanes) {
        identity(walk->which, out);
        for (uint64_t i = begin + lane; i < end; i += step)
            add(walk->which, walk->arrays, i, out);
        return;
    }
    join_lanes(walk, begin, end, lane, 2 * step, out);
    join_lanes(walk, begin, end, lane + step, 2 * step, &other);
    combine(walk->which, out, &other);
}

/* Blocks [first, first + count): the largest power of two of them that is not all, and the rest. */
static void join_blocks(const struct walk *walk, uint64_t first, uint64_t count, union partial *out)
{
    union partial other;
    uint64_t left = 1;
    if (count == 1) {
        uint64_t begin = first * walk->which->block_items;
        uint64_t end = begin + walk->which->block_items;
        join_lanes(walk, begin, end < walk->items ? end : walk->items, 0, 1, out);
        return;
    }
    while (2 * left < count)
        left *= 2;
    join_blocks(walk, first, left, out);
    join_blocks(walk, first + left, count - left, &other);
    combine(walk->which, out, &other);
}

void reduce_expect(const struct reduce_case *which, const void *const *arrays, uint64_t items,
                   void *result)
{
    const struct walk walk = { which, arrays, items };
    union partial all;
    identity(which, &all);
    CHECK(which->bytes <= RESULT_MAX);
    if (items > 0)
        join_blocks(&walk, 0, (items - 1) / which->block_items + 1, &all);
    /* Nothing lies between the fields; after the last of `top` there is. */
    if (strcmp(which->name, "top") == 0)
        memset(all.bytes + offsetof(struct top, count) + sizeof(uint32_t), 0,
               which->bytes - offsetof(struct top, count) - sizeof(uint32_t));
    memcpy(result, &all, which->bytes);
}

void reduce_fill(const struct reduce_case *which, size_t array, void *items, uint64_t count,
                 uint64_t seed)
{
    struct random random;
    random_init(&random, seed + array);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t drawn = random_next(&random);
        /* Of very different sizes, and many that are equal. */
        float number = (float)((int64_t)(drawn % 2001) - 1000) * (drawn >> 20 & 1 ? 1e-3f : 1e6f);
        if (which->takes_first && drawn % 97 == 0)
            number = __builtin_nanf("");
        if (which->item_bytes == 1)
            ((uint8_t *)items)[i] = (uint8_t)(drawn % 3 == 0 ? drawn >> 40 : drawn % 7);
        else
            ((float *)items)[i] = number;
    }
}
