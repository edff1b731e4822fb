/*
 * Tasks of a resident lane as they stand in its ring (base/resident.h): whether one may be run, and running
 * it step by step. Pure. Nothing in a body is trusted: what resident_check lets pass stays within the body
 * and within the blocks that the lane has, and ends.
 */
#ifndef CORE_RESIDENT_H
#define CORE_RESIDENT_H

#include "base/resident.h"

#include <muster/status.h>
#include <stdbool.h>
#include <stddef.h>

/* What one kernel of the lane takes, as far as that is known. */
struct resident_opcode {
    bool is_known;
    uint8_t arg_count;
    uint16_t blocks;                   /* bit i: argument i is an array */
    uint16_t written;                  /* bit i: it may be written */
    uint32_t bytes[RESIDENT_ARGS_MAX]; /* of the value, or of an item; 0: not known */
};

/* A block that is attached to the lane. */
struct resident_block {
    uint64_t address, bytes;
    uint32_t generation; /* 0: there is none */
};

struct resident_table {
    const struct resident_opcode *opcodes;
    uint32_t opcode_count;
    const struct resident_block *blocks;
    uint32_t block_count;
};

/* How one body is wrong. */
enum resident_wrong {
    RESIDENT_RIGHT,
    RESIDENT_BAD_SHAPE,  /* sizes, counts or reserved fields */
    RESIDENT_BAD_OPCODE, /* one that the lane does not have */
    RESIDENT_BAD_ARGS,   /* not the arguments that it takes */
    RESIDENT_BAD_BLOCK,  /* not attached, or not any more */
    RESIDENT_BAD_RANGE,  /* beyond an array's end */
    RESIDENT_BAD_FLAG,   /* the flag that ends a step is none */
    RESIDENT_ENDLESS     /* more runs than RESIDENT_RUNS_MAX */
};
/* Runs of all steps together: a program ends. */
#define RESIDENT_RUNS_MAX (UINT64_C(1) << 32)

/* Of a body of `bytes` readable bytes, aligned to 16. `step` and `arg`, which may be NULL, say where. */
enum resident_wrong resident_check(const void *body, size_t bytes,
                                   const struct resident_table *table, uint32_t *step,
                                   uint32_t *arg);
const char *resident_wrong_words(enum resident_wrong wrong);

/* Fills the operands' addresses of a body that was checked against the same table. */
void resident_find(void *body, const struct resident_table *table);

/* The body's parts; of one that was checked. */
const struct resident_step *resident_steps(const void *body);
struct resident_operand *resident_operands(void *body);

/* Runs an opcode over items [0, items); `args` as a muster_kernel_function has them. */
typedef muster_status (*resident_call)(void *user, uint32_t opcode, uint64_t items,
                                       void *const *args);
/*
 * Runs all steps of a body that was checked and whose addresses are this process's. `go_on` is asked
 * between runs; if it says no the status is MUSTER_E_CANCELLED. The first failure ends it.
 */
muster_status resident_run(void *body, resident_call call, bool (*go_on)(void *user), void *user);

#endif
