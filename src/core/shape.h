/*
 * Where a part lies in its data: rows of bytes at equal distances. A range is one row. Pure.
 */
#ifndef CORE_SHAPE_H
#define CORE_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

struct shape {
    uint64_t offset;    /* of the first row, from the beginning of the data */
    uint64_t rows;      /* at least 1 */
    uint64_t row_bytes; /* at least 1; 0 only for data of 0 bytes */
    uint64_t pitch;     /* from one row to the next; at least row_bytes, not used for one row */
};

#define SHAPE_ROWS_MAX (UINT64_C(1) << 24)

/* Whether it is well formed and lies in `bytes` bytes. */
bool shape_is_within(const struct shape *shape, uint64_t bytes);
/* Bytes that it names, and the end of the last of them. */
uint64_t shape_bytes(const struct shape *shape);
uint64_t shape_end(const struct shape *shape);
/* The same bytes always have the same form: rows without gaps are one row, one row has no pitch. */
struct shape shape_normal(struct shape shape);
bool shape_equals(const struct shape *a, const struct shape *b);

/*
 * Whether they have a byte in common, and whether all bytes of `inner` are in `outer`. Exact; at
 * once where the pitches are equal or one is a range, else in as many steps as the fewer rows.
 */
bool shape_overlaps(const struct shape *a, const struct shape *b);
bool shape_contains(const struct shape *outer, const struct shape *inner);

#endif
