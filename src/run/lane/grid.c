#include "run/lane/grid.h"

#include <muster/backend.h>

#include <string.h>

/* A halo of items. */
#define HALO_MAX ((uint64_t)1 << 40)
/* A copy of an array that is not longer than this many seams is cheaper than its margins. */
#define SHORT_SEAMS 4u

/* Grids. */

static muster_status say_size(const struct muster_arg *arg, struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_INVALID, 0,
                             "give a width and a height, and of chroma both or neither",
                             "a grid of %u x %u x %u cells, chroma %u x %u", arg->width,
                             arg->height, arg->depth, arg->chroma_width, arg->chroma_height);
}

muster_status grid_read(const struct muster_arg *arg, struct grid *grid, struct muster_error *err)
{
    *grid = (struct grid){ .is_given = arg != NULL, .line = 1 };
    if (!arg)
        return MUSTER_OK;
    bool is_picture = arg->kind == MUSTER_ARG_PICTURES;
    bool has_chroma = arg->chroma_width > 0 || arg->chroma_height > 0;
    if (arg->width == 0 || arg->height == 0 || (has_chroma && !is_picture) ||
        (arg->chroma_width == 0) != (arg->chroma_height == 0) || (is_picture && arg->depth > 0))
        return say_size(arg, err);
    grid->first = (struct muster_cell){ .width = arg->width,
                                        .height = arg->height,
                                        .depth = arg->depth,
                                        .folds = is_picture || arg->depth > 0,
                                        .chroma_width = arg->chroma_width,
                                        .chroma_height = arg->chroma_height };
    uint64_t area = (uint64_t)arg->width * arg->height;
    uint64_t chroma = (uint64_t)arg->chroma_width * arg->chroma_height;
    bool is_large = chroma > UINT64_MAX / 4 || area > UINT64_MAX - 2 * chroma;
    if (!is_large) {
        grid->line = grid->first.folds ? area + 2 * chroma : arg->width;
        grid->items = is_picture ? 0 : area;
        is_large = arg->depth > 0 && __builtin_mul_overflow(area, arg->depth, &grid->items);
    }
    if (is_large)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL,
                                 "a grid of %u x %u x %u cells is larger than any memory",
                                 arg->width, arg->height, arg->depth);
    return MUSTER_OK;
}

muster_status grid_check_items(const struct grid *grid, uint64_t items, struct muster_error *err)
{
    if (!grid->is_given)
        return MUSTER_OK;
    const struct muster_cell *first = &grid->first;
    if (grid->items > 0 && items != grid->items && items != 0)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "make items the number of cells",
                                 "the job has %llu items, and its grid %u x %u x %u cells",
                                 (unsigned long long)items, first->width, first->height,
                                 first->depth > 0 ? first->depth : 1);
    if (grid->items == 0 && items != MUSTER_ITEMS_UNKNOWN && items % grid->line != 0)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "make items a multiple of it",
                                 "the job has %llu items, and a picture %llu cells",
                                 (unsigned long long)items, (unsigned long long)grid->line);
    return MUSTER_OK;
}

muster_status grid_add_halo(struct grid *grid, uint64_t halo, enum muster_border border,
                            uint64_t *items, struct muster_error *err)
{
    bool has_lines = !grid->is_given || !grid->first.folds || grid->first.depth > 0;
    uint64_t needed;
    if ((uint32_t)border > MUSTER_BORDER_WRAP)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "use one of MUSTER_BORDER_*",
                                 "a border of kind %d", (int)border);
    bool is_wide = halo > INT32_MAX && grid->is_given;
    if (__builtin_mul_overflow(halo, has_lines ? grid->line : 0, &needed) || is_wide)
        needed = UINT64_MAX;
    if (needed > HALO_MAX)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "use a smaller halo",
                                 "a halo of %llu %s; at most %llu items", (unsigned long long)halo,
                                 grid->is_given ? "cells" : "items", (unsigned long long)HALO_MAX);
    if (grid->is_given && grid->first.reach > 0 && halo > 0 &&
        grid->first.border != (uint32_t)border)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "give all halos the same border",
                                 "halos of one grid have the borders %u and %d", grid->first.border,
                                 (int)border);
    if (grid->is_given && halo > 0) {
        grid->first.border = border;
        if (halo > grid->first.reach)
            grid->first.reach = (uint32_t)halo;
    }
    *items = needed;
    return MUSTER_OK;
}

struct muster_cell grid_cell(const struct grid *grid, uint64_t item)
{
    struct muster_cell cell = grid->first;
    if (cell.folds)
        cell.z = (uint32_t)(item / grid->line);
    else
        cell.y = (uint32_t)(item / grid->line);
    return cell;
}

/* Margins. */

static bool is_short(const struct margins_of *of)
{
    return of->items / SHORT_SEAMS <= of->seam;
}

size_t margins_bytes(const struct margins_of *of)
{
    uint64_t items;
    size_t bytes;
    if (of->halo == 0 || of->items == 0)
        return 0;
    items = is_short(of) ? of->items + 2 * of->halo : 2 * (of->seam + 2 * of->halo);
    return __builtin_mul_overflow(items, of->item_bytes, &bytes) ? SIZE_MAX : bytes;
}

/* Line `line` of the array, which may lie outside; NULL: zeros. */
static const char *find_line(const struct margins_of *of, int64_t line)
{
    int64_t count = (int64_t)(of->items / of->line);
    size_t bytes = (size_t)of->line * of->item_bytes;
    if ((line < 0 || line >= count) && of->border == MUSTER_BORDER_ZERO)
        return NULL;
    return of->array + (size_t)muster_fold(line, count, of->border) * bytes;
}

/* Items from `from` to `to`, both at lines, into memory that is zero. */
static void fill(char *memory, const struct margins_of *of, int64_t from, int64_t to)
{
    size_t bytes = (size_t)of->line * of->item_bytes;
    int64_t line = from / (int64_t)of->line, end = to / (int64_t)of->line;
    int64_t count = (int64_t)(of->items / of->line);
    while (line < end) {
        const char *found = find_line(of, line);
        /* Within the array lines follow each other. */
        int64_t lines = line < 0 || line >= count ? 1 : (end < count ? end : count) - line;
        if (found)
            memcpy(memory, found, (size_t)lines * bytes);
        memory += (size_t)lines * bytes;
        line += lines;
    }
}

muster_status margins_init(struct margins *margins, const struct margins_of *of,
                           const struct muster_allocator *allocator, struct muster_error *err)
{
    size_t bytes = margins_bytes(of);
    *margins = (struct margins){ .array = of->array };
    if (bytes == 0)
        return MUSTER_OK;
    margins->memory = bytes < SIZE_MAX ? allocator_take(allocator, bytes, 1) : NULL;
    if (!margins->memory)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, "use a smaller halo",
                                 "no host memory for the %zu bytes around an array with a halo",
                                 bytes);
    margins->bytes = bytes;
    int64_t halo = (int64_t)of->halo, count = (int64_t)of->items, seam = (int64_t)of->seam;
    if (is_short(of)) {
        fill(margins->memory, of, -halo, count + halo);
        margins->array = margins->memory + of->halo * of->item_bytes;
        return MUSTER_OK;
    }
    margins->head = margins->memory;
    margins->tail = margins->memory + bytes / 2;
    fill(margins->memory, of, -halo, seam + halo);
    fill(margins->memory + bytes / 2, of, count - seam - halo, count + halo);
    return MUSTER_OK;
}

void margins_deinit(struct margins *margins, const struct muster_allocator *allocator)
{
    allocator_give(allocator, margins->memory, margins->bytes, 1);
    margins->memory = NULL;
}
