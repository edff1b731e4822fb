/*
 * The partial results of a reduction: what its type is made of, and which lanes and blocks form and
 * join them. All that depends on nothing but the source, so that every device makes the same bits.
 */
#ifndef KERNEL_PARTIAL_H
#define KERNEL_PARTIAL_H

#include "kernel/amount.h"

#include <muster/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PARTIAL_FIELDS_MAX 16
/* What a launch of a reduction has after its arguments: where the partials go, and how many items. */
#define PARTIAL_HIDDEN_ARGS 2
/* The lanes of a block stand on a stack, or in the memory that the threads of a GPU's block share. */
#define PARTIAL_BYTES_MAX ((size_t)32 << 10)
#define PARTIAL_LANES_MAX 32u
#define PARTIAL_LANES_BYTES ((size_t)16 << 10)
#define PARTIAL_BLOCK_ITEMS ((uint64_t)4096)
/* A block has at least this many items for each byte of its partial. */
#define PARTIAL_ITEMS_PER_BYTE 16u

/* One of the numbers, or arrays of numbers, of a partial. A partial that is a number has one without a name. */
struct partial_field {
    char name[64];
    char type[16];
    size_t bytes; /* of one number */
    uint64_t count;
    bool is_array;
    size_t offset;
};

struct kernel_partial {
    char type
        [96]; /* as a declaration has it: "double", "struct place"; "": the kernel is no reduction */
    size_t bytes;
    uint32_t lanes;       /* that a block's items go to in turn, a power of two */
    uint64_t block_items; /* a power of two */
    uint32_t threads;     /* of a block of the GPU's, whose lanes it has memory for */
    bool has_identity;    /* else no items make zeros */
    size_t field_count;
    struct partial_field fields[PARTIAL_FIELDS_MAX];
};

/* The rules, from the partial's size alone. */
uint32_t partial_lanes(size_t bytes);
uint64_t partial_block_items(size_t bytes);
uint32_t partial_threads(size_t bytes);

/*
 * Completes a partial of which `type` is set, for kernel `name` in this source, whose constants are the
 * lengths of arrays: its layout, its combine and its identity. MUSTER_E_PARSE says what is missing.
 */
muster_status partial_resolve(struct kernel_partial *partial, const char *name,
                              const struct amount_names *constants, const char *code, size_t bytes,
                              const char *file, struct muster_error *err);

#endif
