/*
 * What a resident lane's two sides read and write: the host, which posts, and the device, which looks. Here
 * are the layouts; the kernel that stays on a CUDA device is generated from the same numbers
 * (kernel/resident.c). All memory is the host's, which the device can read and write.
 *
 *     control      16 bytes: which run of the lane is wanted
 *     signs        one line per seat: a sign of life, and how far the seat got
 *     headers      per seat a ring of 16-byte headers
 *     ends         8 bytes per record: how the task in it ended
 *     bodies       RESIDENT_BODY_MAX per record: steps, arguments, data
 *
 * A seat is what looks at one ring of headers: a block of a CUDA kernel, or a thread. A record is a task's
 * place; a header names the record of one task.
 *
 * Order. The host writes the body, zero to the record's end, the header's second word, and then its first
 * with release. A seat reads a header as one piece of 16 bytes, or the first word with acquire and then
 * the second; it takes it only if both words carry the number that it expects, so half of a header is not
 * taken for one. Then it reads the body. It writes outputs, and then the end with release (on CUDA: a fence
 * for the system and a store), which the host reads with acquire. The number of a header grows by one
 * with each in its ring and is in the record's end too: what an earlier task left is told from it.
 */
#ifndef BASE_RESIDENT_H
#define BASE_RESIDENT_H

#include <stdint.h>

#define RESIDENT_SEATS_MAX 64
#define RESIDENT_OPCODES_MAX 64
#define RESIDENT_STEPS_MAX 64
#define RESIDENT_OPERANDS_MAX 64
#define RESIDENT_ARGS_MAX 16
#define RESIDENT_VALUES_MAX 256
#define RESIDENT_DATA_MAX 2048
#define RESIDENT_BODY_MAX 8192
/* A body up to this size is read by one warp at once: 32 x 16 bytes. */
#define RESIDENT_SMALL_BODY 512
/* Items up to this many are one warp's work. */
#define RESIDENT_SMALL_ITEMS 128
#define RESIDENT_SIGN_BYTES 64

/*
 * A header's first word: the number in its ring (32 bits, from 1), the record (16), the opcode (8) and
 * flags (8). Its second: items (32 bits), 16-byte pieces of the body (16), and the number's low half again.
 */
#define RESIDENT_HAS_BODY 1
#define RESIDENT_IS_SMALL 2 /* one opcode, few items, small body: for one warp */
#define RESIDENT_IS_WIDE 4  /* worth the help of other seats */

static inline uint64_t resident_first_word(uint32_t number, uint32_t record, uint32_t opcode,
                                           uint32_t flags)
{
    return (uint64_t)number << 32 | (uint64_t)(record & 0xffff) << 16 | (opcode & 0xff) << 8 |
           (flags & 0xff);
}
static inline uint64_t resident_second_word(uint32_t number, uint32_t items, uint32_t pieces)
{
    return (uint64_t)items << 32 | (uint64_t)(pieces & 0xffff) << 16 | (number & 0xffff);
}

/* The end of a record: the header's number, then a muster_status. */
static inline uint64_t resident_end(uint32_t number, int32_t status)
{
    return (uint64_t)number << 32 | (uint32_t)status;
}

/* A body: this head, the steps, the operands, the values, the data. All begin at multiples of 16. */
struct resident_head {
    uint16_t step_count, operand_count;
    uint32_t bytes;    /* of all of the body */
    uint32_t data_at;  /* = bytes if there is none */
    uint32_t reserved; /* 0 */
};

#define RESIDENT_NO_OPERAND 0xffff

struct resident_step {
    uint16_t opcode, arg_count;
    uint32_t items;
    uint32_t repeat; /* never 0 */
    uint16_t until;  /* an operand; RESIDENT_NO_OPERAND: none */
    uint16_t reserved;
    uint64_t until_at;               /* bytes into it */
    uint8_t args[RESIDENT_ARGS_MAX]; /* operands */
    uint64_t spare;                  /* 0 */
};

enum resident_kind { RESIDENT_VALUE = 1, RESIDENT_BLOCK = 2, RESIDENT_DATA = 3 };
#define RESIDENT_READS 1
#define RESIDENT_WRITES 2

struct resident_operand {
    uint8_t kind, access; /* of a value 0 */
    uint16_t slot;        /* of a block: in the lane's table */
    uint32_t generation;  /* likewise */
    uint32_t at;          /* of a value or data: in the body */
    uint32_t bytes;       /* of the value; of an item in the array */
    uint64_t offset;      /* into the block; of data: its bytes */
    uint64_t address;     /* of a block: where it is for the device, once it was found */
};

_Static_assert(sizeof(struct resident_head) == 16, "whole pieces");
_Static_assert(sizeof(struct resident_step) == 48, "whole pieces");
_Static_assert(sizeof(struct resident_operand) == 32, "whole pieces");
_Static_assert(sizeof(struct resident_head) + RESIDENT_STEPS_MAX * sizeof(struct resident_step) +
                       RESIDENT_OPERANDS_MAX * sizeof(struct resident_operand) +
                       RESIDENT_VALUES_MAX + RESIDENT_DATA_MAX + 2 * 16 <=
                   RESIDENT_BODY_MAX,
               "the largest task fits");

#endif
