#include "core/shape.h"

bool shape_is_within(const struct shape *shape, uint64_t bytes)
{
    if (shape->rows == 0 || shape->rows > SHAPE_ROWS_MAX || shape->row_bytes > bytes ||
        shape->offset > bytes - shape->row_bytes || (shape->row_bytes == 0 && bytes > 0))
        return false;
    if (shape->rows == 1)
        return true;
    if (shape->pitch < shape->row_bytes)
        return false;
    uint64_t last = bytes - shape->row_bytes - shape->offset; /* where the last row may begin */
    return shape->pitch <= last / (shape->rows - 1);
}

uint64_t shape_bytes(const struct shape *shape)
{
    return shape->rows * shape->row_bytes;
}

uint64_t shape_end(const struct shape *shape)
{
    return shape->offset + (shape->rows - 1) * shape->pitch + shape->row_bytes;
}

struct shape shape_normal(struct shape shape)
{
    if (shape.rows > 1 && shape.pitch == shape.row_bytes) {
        shape.row_bytes *= shape.rows;
        shape.rows = 1;
    }
    if (shape.rows == 1)
        shape.pitch = 0;
    return shape;
}

bool shape_equals(const struct shape *a, const struct shape *b)
{
    return a->offset == b->offset && a->rows == b->rows && a->row_bytes == b->row_bytes &&
           a->pitch == b->pitch;
}

/* How many rows of the shape end at or before a byte. */
static uint64_t rows_up_to(const struct shape *shape, uint64_t at)
{
    if (at < shape->offset + shape->row_bytes)
        return 0;
    if (shape->rows == 1)
        return 1;
    uint64_t rows = (at - shape->offset - shape->row_bytes) / shape->pitch + 1;
    return rows < shape->rows ? rows : shape->rows;
}

/* Whether a byte of the shape is among those from `begin` to before `end`. */
static bool meets_range(const struct shape *shape, uint64_t begin, uint64_t end)
{
    uint64_t row = rows_up_to(shape, begin); /* the first that ends after `begin` */
    return row < shape->rows && shape->offset + row * shape->pitch < end;
}

/* Whether all these bytes are the shape's, which is normal: they lie in one row. */
static bool has_range(const struct shape *shape, uint64_t begin, uint64_t end)
{
    uint64_t row = rows_up_to(shape, begin);
    if (row == shape->rows)
        return false;
    uint64_t at = shape->offset + row * shape->pitch;
    return at <= begin && end <= at + shape->row_bytes;
}

/* Rows at the same distances: those of `b`, moved by whole rows, meet `a`'s in at most two ways. */
static bool overlaps_alike(const struct shape *a, const struct shape *b)
{
    const struct shape *low = a->offset <= b->offset ? a : b, *high = low == a ? b : a;
    uint64_t distance = high->offset - low->offset;
    uint64_t rows = distance / low->pitch, rest = distance % low->pitch;
    /* high's first row begins in low's row number `rows`, at `rest`. */
    if (rest < low->row_bytes && rows < low->rows)
        return true;
    /* Or it reaches into the row after that. */
    return rest + high->row_bytes > low->pitch && rows + 1 < low->rows;
}

bool shape_overlaps(const struct shape *a, const struct shape *b)
{
    if (a->row_bytes == 0 || b->row_bytes == 0 || shape_end(a) <= b->offset ||
        shape_end(b) <= a->offset)
        return false;
    if (a->rows > 1 && b->rows > 1 && a->pitch == b->pitch)
        return overlaps_alike(a, b);
    const struct shape *few = a->rows <= b->rows ? a : b, *many = few == a ? b : a;
    for (uint64_t row = 0; row < few->rows; row++) {
        uint64_t begin = few->offset + row * few->pitch;
        if (meets_range(many, begin, begin + few->row_bytes))
            return true;
    }
    return false;
}

bool shape_contains(const struct shape *outer, const struct shape *inner)
{
    if (inner->offset < outer->offset || shape_end(inner) > shape_end(outer))
        return false;
    if (outer->rows == 1)
        return true;
    if (inner->rows > outer->rows && inner->pitch == outer->pitch)
        return false;
    for (uint64_t row = 0; row < inner->rows; row++) {
        uint64_t begin = inner->offset + row * inner->pitch;
        if (!has_range(outer, begin, begin + inner->row_bytes))
            return false;
        if (inner->pitch ==
            outer->pitch) /* the other rows lie alike, and the last one's end was looked at */
            return true;
    }
    return true;
}
