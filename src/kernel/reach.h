/*
 * Which elements of its arrays a kernel touches, as far as its source shows: places beside the item's
 * own, neighbours of a cell, and places that are not the item's at all. A job compares that with what
 * its arguments promise, before anything runs. What the source does not show is left to
 * `muster kernel check`.
 */
#ifndef KERNEL_REACH_H
#define KERNEL_REACH_H

#include "kernel/amount.h"

#include <muster/kernel.h>

#define REACH_INDICES_MAX 4
#define REACH_WORDS_MAX 8192
#define REACH_FUNCTIONS_MAX 128
/* Functions with their arguments that are followed from one kernel. */
#define REACH_CALLS_MAX 48
#define REACH_PARAMETERS_MAX 20

/* Item i touches elements step * i + low to step * i + high. */
struct reach_index {
    int64_t step, low, high;
    uint32_t low_line, high_line;
};

/* An element that is chosen by something else than the item's number. */
enum reach_foreign {
    REACH_OWN = 0,
    REACH_BY_DATA, /* counts[in[i]] */
    REACH_FIXED    /* sum[0], whatever the item */
};

/* Of one array. */
struct reach {
    struct reach_index indices[REACH_INDICES_MAX];
    uint32_t index_count;
    enum reach_foreign foreign;
    uint32_t foreign_line;
    /* With muster_near and muster_offset: */
    int64_t near[3];    /* how far away in x, y and z at most, where that is constant */
    uint32_t near_line; /* of the furthest; 0: never */
    uint32_t free_line; /* where the source does not show how far; 0: nowhere */
};

/* Of one kernel. */
struct reach_all {
    struct reach arrays[MUSTER_ARGS_MAX]; /* by parameter */
    struct reach unnamed;                 /* neighbours in arrays of which it is not known which */
    bool reads_neighbours; /* it, or a function that it calls, names muster_near ... */
};

struct reach_function {
    struct word name;
    uint32_t open, body, end; /* its parenthesis, its brace, and the brace that ends it */
};

/* A function and what it is called with. */
struct reach_call {
    uint32_t function;
    uint32_t count;
    struct amount arguments[REACH_PARAMETERS_MAX];
};

/* Room to work in. Large: not for the stack. */
struct reach_room {
    struct word words[REACH_WORDS_MAX];
    uint32_t count;
    bool is_whole;  /* all words of the source are there */
    bool has_macro; /* a macro of the source names muster_near or muster_offset */
    struct reach_function functions[REACH_FUNCTIONS_MAX];
    uint32_t function_count;
    struct reach_call calls[REACH_CALLS_MAX];
    uint32_t call_count;
    struct amount_names constants, names;
};

/* Before reach_read: the words and functions of the source. */
void reach_prepare(struct reach_room *room, const char *code, size_t bytes);

struct kernel_entry;
/* Fills `entry->reach`. */
void reach_read(struct reach_room *room, struct kernel_entry *entry);

#endif
