/*
 * What a lane does with each of its units, as the job has compiled it for the lane's device: steps on
 * streams, the order between them (core/pipeline.h), and where everything of a unit lies.
 *
 * A piece is something of a unit that lies together: a pipeline's buffer, or one argument of a kernel
 * at one end of its way. Pieces lie in buffers, which is what the order is about: unit k works in slot
 * k modulo the buffer's slots. Pieces of an input are in the caller's array or in the source's ring,
 * pieces of an output in the result buffer that the unit was given.
 */
#ifndef RUN_LANE_PLAN_H
#define RUN_LANE_PLAN_H

#include "core/pipeline.h"
#include "run/lane/grid.h"

#include <muster/job.h>

/* Names of stages and buffers, with the zero byte. */
#define LANE_NAME_BYTES 32
/* An argument that is read and written has one on the way in, one on the device, one on the way out. */
#define LANE_PIECES_MAX (3 * MUSTER_ARGS_MAX)
#define LANE_COPIES_MAX (2 * MUSTER_ARGS_MAX)
_Static_assert(LANE_PIECES_MAX >= MUSTER_BUFFERS_MAX, "each of a pipeline's buffers is a piece");
_Static_assert(LANE_COPIES_MAX >= MUSTER_STAGES_MAX, "each of a pipeline's stages may be a copy");
_Static_assert(LANE_PIECES_MAX <= 64, "sets of pieces are words");

struct lane_piece {
    uint32_t buffer; /* of the declaration */
    size_t offset;   /* in each slot of the lane's own buffers */
    size_t item_bytes, fixed_bytes;
    uint64_t group;    /* items that share one of `item_bytes`: the blocks of a reduction; else 1 */
    size_t stride;     /* bytes of one of the caller's units */
    size_t halo;       /* bytes before the unit's first item, and behind its last */
    const char *array; /* of an input: the caller's, borrowed; NULL: the source's */
    /* Of an array with a halo: its margins, borrowed of the job; NULL: it is read around as it is. */
    const char *head, *tail;
    size_t output;      /* of an output: where in a result buffer it begins */
    char *direct;       /* of an output: the caller's array, for units that write there; borrowed */
    uint32_t output_at; /* which of the outputs it is */
};

/* Bytes of this many items of the piece. */
static inline size_t lane_piece_bytes(const struct lane_piece *piece, uint64_t items)
{
    uint64_t count = piece->group > 1 ? items / piece->group + (items % piece->group > 0) : items;
    return (size_t)count * piece->item_bytes;
}

/* From one piece to another. */
struct lane_copy {
    uint32_t from, to;
};

enum operand_kind {
    OPERAND_PIECE,
    OPERAND_VALUE,
    OPERAND_FIRST, /* the number of the unit's first item */
    OPERAND_CELL,  /* the cell of that item */
    OPERAND_ITEMS, /* how many items the launch has */
    OPERAND_DATA,  /* whole and resident */
    OPERAND_BLOCK  /* the unit's items in a block of the caller's */
};

/* What a kernel is given. */
struct lane_operand {
    enum operand_kind kind;
    uint32_t piece;
    const void *value; /* borrowed of the job */
    size_t
        bytes; /* of the value; of an item in the block, or in a piece that is read and written */
    muster_data data;
    muster_block block;
    enum muster_access access;
    uint64_t offset; /* of the first item of all in the block */
};

struct muster_unit;

/* A stage: first its copies, then its kernel or its callback. */
struct lane_step {
    uint32_t first_copy, copy_count;
    /*
     * Launched with the operands from `first_operand` on; without a callback. A stage that has a
     * callback has the kernels that it launches itself in mind here.
     */
    struct muster_kernel *kernel;
    uint32_t first_operand, operand_count;
    /* Of a reduction: each block of this many items, the last maybe shorter, is `lanes` items of a launch. */
    uint64_t block_items;
    uint32_t lanes;
    muster_status (*run)(struct muster_unit *unit, void *user);
    void *user;
    bool takes_all; /* once for all of the caller's units that are in one of the lane's */
};

struct lane_plan {
    const struct pipe_declaration *declaration; /* borrowed of the job */
    const struct pipe_plan *order;              /* borrowed likewise */
    uint32_t depth;                             /* units that the lane holds at most */
    /*
     * Above 1: the only stage has this many streams, since units have nothing to do with each other; one
     * that takes long holds up no other.
     */
    uint32_t width;
    uint64_t items;      /* of the whole job, in the caller's arrays */
    struct grid grid;    /* what the items are */
    uint64_t seam;       /* items at each end of arrays that have margins */
    uint64_t part_items; /* of one of the caller's units */
    uint32_t parts_max;  /* of the caller's units in one of the lane's */
    struct lane_piece pieces[LANE_PIECES_MAX];
    uint32_t piece_count;
    size_t slot_bytes[MUSTER_BUFFERS_MAX]; /* of each buffer */
    struct lane_copy copies[LANE_COPIES_MAX];
    struct lane_operand operands[MUSTER_ARGS_MAX * MUSTER_STAGES_MAX];
    uint32_t operand_count;
    struct lane_step steps[MUSTER_STAGES_MAX]; /* by stage */
    /*
     * Not 0: units that write into the caller's arrays are launched in pieces, and what they have done
     * counts in whole numbers of this many items.
     */
    uint64_t cut_grain;
    bool on_host;        /* kernels work on arrays and result buffers themselves */
    bool is_itemwise;    /* any range of items of a unit can be run alone, and again */
    bool has_host_steps; /* stages on "host" */
    bool sets_bytes;     /* stages may say how many bytes of a piece count */
    bool is_accounted;   /* stages are timed, and stalls edge by edge */
    bool is_timed;       /* the only kernel is timed, and what comes behind it */
    bool
        counts_giving; /* a unit is with the device when all of it was given, else from its start */
};

#endif
