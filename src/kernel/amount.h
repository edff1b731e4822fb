/*
 * What an expression of a kernel stands for, as far as its source shows without running it: a multiple
 * of the item's number plus a constant, which may be known as a range alone. A pointer is that many
 * elements into an array. Everything else is unknown, which is always a right answer.
 */
#ifndef KERNEL_AMOUNT_H
#define KERNEL_AMOUNT_H

#include "kernel/scanner.h"

#include <stdint.h>

#define AMOUNT_NO_ARRAY (-1)

struct amount {
    bool is_known;
    int32_t array;     /* the parameter that it points into, or AMOUNT_NO_ARRAY */
    int64_t step;      /* times the item's number */
    int64_t low, high; /* added to that; both are possible values */
};

#define AMOUNT_NAMES_MAX 384

/* A name and what it stands for. */
struct amount_name {
    struct word name;
    struct amount amount;
    uint32_t assigned;   /* places that give it a value, loops aside */
    uint32_t loop_count; /* loops whose variable it is */
    bool is_changed;     /* it is counted up, or its address is taken */
    bool is_given;       /* from outside: a parameter or a constant of the file */
};

#define AMOUNT_LOOPS_MAX 64

/* What a loop's variable is within the loop. */
struct amount_loop {
    struct word variable;
    struct amount range;
    uint32_t begin, end; /* words of its head and body */
};

struct amount_names {
    struct amount_name all[AMOUNT_NAMES_MAX];
    uint32_t count;
    bool is_full; /* some were left out, and are unknown */
    struct amount_loop loops[AMOUNT_LOOPS_MAX];
    uint32_t loop_count;
};

/* The same as the constant. */
struct amount amount_constant(int64_t number);
struct amount amount_unknown(void);
struct amount amount_add(const struct amount *a, const struct amount *b);
bool amount_is_constant(const struct amount *amount);

/* Adds a name that stands for the amount; one that is there already becomes unknown. */
void amount_name_give(struct amount_names *names, const struct word *name,
                      const struct amount *amount);
/* What it stands for everywhere; unknown if it is none of them, or a loop's variable. */
struct amount amount_name_find(const struct amount_names *names, const struct word *name);

/* What words [begin, end) stand for. */
struct amount amount_of(const struct amount_names *names, const struct word *words, uint32_t begin,
                        uint32_t end);

/*
 * Adds the variables of a function's body that have one value, or are those of loops with a constant
 * first and last value. A name that is assigned in any other way is unknown.
 */
void amount_learn(struct amount_names *names, const struct word *words, uint32_t begin,
                  uint32_t end);
/* Adds the constants of a file: what #define and enum give a number. */
void amount_learn_constants(struct amount_names *names, const struct word *words, uint32_t count);

/* The parenthesis, bracket or brace that closes the one at `open`; `end` if none does. */
uint32_t words_find_close(const struct word *words, uint32_t open, uint32_t end);
bool words_are_same(const struct word *a, const struct word *b);
bool word_is_name(const struct word *word);
/* Whether the name is a type of C or of the prelude, or part of one. */
bool word_is_type(const struct word *word);

#endif
