/*
 * Neighbours: grids whose cells are a job's items, and what lies around an array with a halo.
 *
 * A line is what units are whole numbers of: an item, a row, a plane, a picture. Lines before the first
 * and after the last of an array are in margins, which are made once for a job. Around all else the
 * array itself is read. A device that works on host memory is given a unit in up to three launches: the
 * items near the array's begin with the head margin, those near its end with the tail, and the
 * others, which are nearly all, with the array. For other devices each copy of a unit takes its halo
 * along, from the array and from the margins.
 */
#ifndef RUN_LANE_GRID_H
#define RUN_LANE_GRID_H

#include "base/allocator.h"

#include <muster/job.h>
#include <muster_kernel.h>
#include <stdbool.h>

struct grid {
    bool is_given;            /* else items are their own lines, and have no cells */
    uint64_t line;            /* items */
    uint64_t items;           /* all of its cells; 0: it has any number of lines */
    struct muster_cell first; /* of item 0 */
};

static inline bool arg_is_grid(const struct muster_arg *arg)
{
    return arg->kind == MUSTER_ARG_GRID || arg->kind == MUSTER_ARG_PICTURES;
}

/* What the argument says; NULL: there is none, and items are lines. */
muster_status grid_read(const struct muster_arg *arg, struct grid *grid, struct muster_error *err);
/* Whether this many items, or MUSTER_ITEMS_UNKNOWN, are its cells. */
muster_status grid_check_items(const struct grid *grid, uint64_t items, struct muster_error *err);
/*
 * A halo in cells as items in memory, which neighbours in other lines take: 0 of pictures. All halos of
 * a grid have one border.
 */
muster_status grid_add_halo(struct grid *grid, uint64_t halo, enum muster_border border,
                            uint64_t *items, struct muster_error *err);
/* The cell of an item that begins a line. */
struct muster_cell grid_cell(const struct grid *grid, uint64_t item);

/* What lies around an array of a job. */
struct margins {
    char *memory; /* owns; NULL: the array has no halo */
    size_t bytes;
    const char *array; /* the caller's, or a copy of a short one with its margins around it */
    const char *head;  /* items from -halo to seam + halo; NULL: there are no borders */
    const char *tail;  /* items from count - seam - halo to count + halo */
};

/* An array whose margins are made: `halo` is in items. */
struct margins_of {
    const char *array;
    uint64_t items;
    size_t item_bytes;
    uint64_t halo;
    uint64_t
        seam; /* items at each end that are launched with the margins: the job's largest halo */
    uint64_t line;
    enum muster_border border;
};

/* Bytes that the margins take; SIZE_MAX: more than any memory has. */
size_t margins_bytes(const struct margins_of *of);
/* MUSTER_E_NO_MEMORY. An array without halo has none. */
muster_status margins_init(struct margins *margins, const struct margins_of *of,
                           const struct muster_allocator *allocator, struct muster_error *err);
void margins_deinit(struct margins *margins, const struct muster_allocator *allocator);

#endif
