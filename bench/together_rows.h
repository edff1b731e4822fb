/*
 * The rows of bench/together: 24 kinds of work such that each level of each factor meets each level of
 * every other factor in at least one row. `together --pairs` checks that.
 */
#ifndef BENCH_TOGETHER_ROWS_H
#define BENCH_TOGETHER_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum factor { ARITHMETIC, ITEMS, FROM, ORDER, FORM, LENGTH, DEVICES, FACTORS };
enum { NONE, SOME, HEAVY };
enum { UNIFORM, UNEVEN };
enum { ARRAY, SOURCE }; /* of `muster map`: a file, a pipe */
enum { ORDERED, UNORDERED };
enum { JOB, PIPELINE, MAP };
enum { MS_8, MS_40, MS_250, S_2 };
enum { CPU_GPU, SLICES, CPU_SLICES };

#define LEVELS_MAX 4
#define ROWS 24

struct row {
    uint8_t level[FACTORS];
};

static const struct {
    const char *name;
    uint8_t count;
    const char *level[LEVELS_MAX];
} factors[FACTORS] = {
    [ARITHMETIC] = { "arithmetic", 3, { "none", "some", "heavy" } },
    [ITEMS] = { "items", 2, { "uniform", "uneven" } },
    [FROM] = { "from", 2, { "array", "source" } },
    [ORDER] = { "order", 2, { "ordered", "unordered" } },
    [FORM] = { "form", 3, { "job", "pipeline", "map" } },
    [LENGTH] = { "length", 4, { "8 ms", "40 ms", "250 ms", "2 s" } },
    [DEVICES] = { "devices", 3, { "cpu+gpu", "slices", "cpu+slices" } },
};

/*
 * Arrays through little arithmetic are short rows, since two seconds of them do not fit into memory.
 * Rows of the same devices follow each other, so that few runtimes are opened.
 */
static const struct row rows[ROWS] = {
    { { HEAVY, UNEVEN, SOURCE, ORDERED, JOB, MS_8, CPU_GPU } },
    { { NONE, UNEVEN, ARRAY, UNORDERED, JOB, MS_40, CPU_GPU } },
    { { SOME, UNIFORM, ARRAY, ORDERED, JOB, MS_40, CPU_GPU } },
    { { NONE, UNIFORM, SOURCE, UNORDERED, PIPELINE, MS_40, CPU_GPU } },
    { { NONE, UNEVEN, ARRAY, UNORDERED, MAP, MS_40, CPU_GPU } },
    { { SOME, UNEVEN, ARRAY, ORDERED, MAP, MS_40, CPU_GPU } },
    { { NONE, UNIFORM, SOURCE, ORDERED, PIPELINE, MS_250, CPU_GPU } },
    { { HEAVY, UNEVEN, ARRAY, UNORDERED, MAP, MS_250, CPU_GPU } },
    { { HEAVY, UNEVEN, ARRAY, ORDERED, MAP, S_2, CPU_GPU } },
    { { SOME, UNEVEN, SOURCE, UNORDERED, JOB, MS_8, SLICES } },
    { { SOME, UNIFORM, SOURCE, UNORDERED, JOB, MS_8, SLICES } },
    { { HEAVY, UNIFORM, SOURCE, ORDERED, JOB, MS_8, SLICES } },
    { { NONE, UNIFORM, ARRAY, ORDERED, PIPELINE, MS_8, SLICES } },
    { { HEAVY, UNEVEN, ARRAY, ORDERED, JOB, MS_40, SLICES } },
    { { NONE, UNEVEN, SOURCE, ORDERED, MAP, MS_40, SLICES } },
    { { HEAVY, UNIFORM, ARRAY, UNORDERED, JOB, MS_250, SLICES } },
    { { NONE, UNEVEN, SOURCE, ORDERED, PIPELINE, S_2, SLICES } },
    { { SOME, UNEVEN, SOURCE, UNORDERED, PIPELINE, MS_8, CPU_SLICES } },
    { { HEAVY, UNIFORM, ARRAY, ORDERED, PIPELINE, MS_8, CPU_SLICES } },
    { { NONE, UNIFORM, ARRAY, UNORDERED, MAP, MS_8, CPU_SLICES } },
    { { SOME, UNIFORM, ARRAY, UNORDERED, PIPELINE, MS_40, CPU_SLICES } },
    { { HEAVY, UNIFORM, SOURCE, ORDERED, JOB, MS_250, CPU_SLICES } },
    { { SOME, UNEVEN, SOURCE, UNORDERED, PIPELINE, MS_250, CPU_SLICES } },
    { { SOME, UNIFORM, SOURCE, UNORDERED, JOB, S_2, CPU_SLICES } },
};

static inline const char *row_word(const struct row *row, enum factor factor)
{
    return factors[factor].level[row->level[factor]];
}

static inline void row_words(const struct row *row, char *text, size_t room)
{
    snprintf(text, room, "%-5s %-7s %-6s %-9s %-8s %6s %-10s", row_word(row, ARITHMETIC),
             row_word(row, ITEMS), row_word(row, FROM), row_word(row, ORDER), row_word(row, FORM),
             row_word(row, LENGTH), row_word(row, DEVICES));
}

static inline bool has_pair(const struct row *table, size_t count, int f, int a, int g, int b)
{
    for (size_t i = 0; i < count; i++)
        if (table[i].level[f] == a && table[i].level[g] == b)
            return true;
    return false;
}

/* Pairs of levels of two factors that no row has. `said`: names them there; NULL: does not. */
static inline size_t missing_pairs(const struct row *table, size_t count, size_t *pairs, FILE *said)
{
    size_t missing = 0;
    *pairs = 0;
    for (int f = 0; f < FACTORS; f++)
        for (int g = f + 1; g < FACTORS; g++)
            for (int a = 0; a < factors[f].count; a++)
                for (int b = 0; b < factors[g].count; b++) {
                    ++*pairs;
                    if (has_pair(table, count, f, a, g, b))
                        continue;
                    missing++;
                    if (said)
                        fprintf(said, "no row has %s and %s\n", factors[f].level[a],
                                factors[g].level[b]);
                }
    return missing;
}

#endif
