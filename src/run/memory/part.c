/*
 * Parts of data, where data lies on the host, and how contributions to it are combined: what does not
 * need tasks (those are in run/task/flow.h).
 */
#include "run/memory/memory.h"

#include "base/allocator.h"
#include "core/shape.h"

static muster_status say_outside(struct muster_error *err, const struct run_data *whole)
{
    return muster_error_fill(err, MUSTER_E_INVALID, 0, "stay within the data",
                             "the part does not lie within the data, which has %llu bytes",
                             (unsigned long long)whole->bytes);
}

/* A new part of a whole that is in use, at a place that was checked. */
static muster_status add_part(struct muster *m, muster_data handle, struct run_data *whole,
                              const struct shape *shape, muster_data *out, struct muster_error *err)
{
    struct run_data *part = allocator_take(&m->allocator, 1, sizeof *part);
    if (!part)
        return run_no_memory(err, "a part of data");
    part->whole = whole;
    part->whole_handle = handle;
    part->offset = shape->offset;
    part->rows = shape->rows;
    part->row_bytes = shape->row_bytes;
    part->pitch = shape->rows > 1 ? shape->pitch : shape->row_bytes;
    part->bytes = shape->rows * shape->row_bytes;
    muster_status status = data_add(m, part, out, err);
    if (status != MUSTER_OK) {
        allocator_give(&m->allocator, part, 1, sizeof *part);
        return status;
    }
    run_lock(m);
    whole->part_count++;
    run_unlock(m);
    return status;
}

static muster_status create(struct muster *m, muster_data handle, struct shape shape,
                            muster_data *out, struct muster_error *err)
{
    struct run_data *data;
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = data_begin_use(m, handle, &data, err);
    if (status != MUSTER_OK)
        return status;
    struct run_data *whole = data_whole(data);
    muster_data whole_handle = data->whole ? data->whole_handle : handle;
    if (data->rows > 1) {
        status = muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "make it a part of the whole",
                                   "a part of a tile");
    } else if (!shape_is_within(&shape, data->bytes)) {
        status = say_outside(err, data);
    } else {
        shape.offset += data->offset;
        shape = shape_normal(shape);
        status = add_part(m, whole_handle, whole, &shape, out, err);
    }
    data_end_use(m, data);
    return status;
}

muster_status muster_data_part(struct muster *m, muster_data data, uint64_t offset, uint64_t bytes,
                               muster_data *out, struct muster_error *err)
{
    if (!m || !out || bytes == 0)
        return run_bad_argument(err, "muster_data_part", "an argument is NULL or bytes is 0");
    const struct shape shape = { .offset = offset, .rows = 1, .row_bytes = bytes, .pitch = bytes };
    return create(m, data, shape, out, err);
}

muster_status muster_data_tile(struct muster *m, muster_data data, uint64_t row, uint64_t rows,
                               uint64_t column_bytes, uint64_t row_bytes, uint64_t pitch,
                               muster_data *out, struct muster_error *err)
{
    uint64_t offset;
    if (!m || !out || rows == 0 || row_bytes == 0)
        return run_bad_argument(err, "muster_data_tile",
                                "an argument is NULL, or the tile has no rows or bytes");
    if (column_bytes > pitch || row_bytes > pitch - column_bytes)
        return run_bad_argument(err, "muster_data_tile",
                                "a row of the tile reaches past the end of a row of the data");
    if (rows > SHAPE_ROWS_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "make several tiles of it",
                                 "a tile of %llu rows", (unsigned long long)rows);
    if (__builtin_mul_overflow(row, pitch, &offset) ||
        __builtin_add_overflow(offset, column_bytes, &offset))
        return run_bad_argument(err, "muster_data_tile",
                                "the tile begins past the end of the data");
    const struct shape shape = {
        .offset = offset, .rows = rows, .row_bytes = row_bytes, .pitch = pitch
    };
    return create(m, data, shape, out, err);
}

muster_status muster_data_reduction(struct muster *m, muster_data handle,
                                    const struct muster_reduction *reduction,
                                    struct muster_error *err)
{
    struct run_data *data;
    struct muster_reduction read;
    if (!m || !reduction)
        return run_bad_argument(err, "muster_data_reduction", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = layout_read(LAYOUT(muster_reduction), reduction, &read, err);
    if (status == MUSTER_OK && (!read.begin || !read.combine))
        status = run_bad_argument(err, "muster_data_reduction", "a function is NULL");
    if (status == MUSTER_OK)
        status = data_begin_use(m, handle, &data, err);
    if (status != MUSTER_OK)
        return status;
    run_lock(m);
    if (data->reduction.size > 0)
        status = muster_error_fill(err, MUSTER_E_BUSY, 0, NULL, "the data has a reduction already");
    else
        data->reduction = read;
    run_unlock(m);
    data_end_use(m, data);
    return status;
}

char *data_home(struct muster *m, struct run_data *data)
{
    struct run_data *whole = data_whole(data);
    /* Acquire pairs with the exchange below: what is there has been zeroed. */
    char *home = atomic_load_explicit(&whole->home, memory_order_acquire);
    if (!home) {
        char *made = allocator_take(&m->allocator, 1, (size_t)whole->bytes);
        if (made && atomic_compare_exchange_strong_explicit(
                        &whole->home, &home, made, memory_order_acq_rel, memory_order_acquire))
            home = made;
        else if (made)
            allocator_give(&m->allocator, made, 1, (size_t)whole->bytes);
    }
    return home ? home + data->offset : NULL;
}

void data_home_free(struct muster *m, struct run_data *data)
{
    char *home = atomic_load_explicit(&data->home, memory_order_acquire);
    if (!data->whole && !data->host)
        allocator_give(&m->allocator, home, 1, (size_t)data->bytes);
    atomic_store_explicit(&data->home, NULL, memory_order_relaxed);
}
