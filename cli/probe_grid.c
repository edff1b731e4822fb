#include "probe_grid.h"

#include <muster/backend.h>
#include <stdio.h>
#include <string.h>

/* By how much a halo is made greater to see whether that changes anything. */
#define MORE 6u
#define CELLS_MAX 16384u
#define PICTURES 4u

static uint32_t greatest(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

bool probe_grid_set(struct probe *probe)
{
    const struct probe_options *options = probe->options;
    uint32_t halo = (uint32_t)options->halo, width = options->sides[0], height = options->sides[1],
             depth = options->sides[2];
    struct muster_cell *first = &probe->first;
    if (!probe->has_grid)
        return true;
    /* So large that some cells have all of their neighbours, and that halos can be told apart. */
    if (width == 0 && probe->has_depth && !options->is_pictures) {
        width = greatest(5, 2 * halo + 3);
        height = greatest(4, 2 * halo + 2);
        depth = greatest(8, 4 * halo + 4);
    } else if (width == 0) {
        width = greatest(8, 2 * halo + 4);
        height = options->is_pictures ? greatest(4, 2 * halo + 4) : greatest(12, 4 * halo + 4);
    }
    if (options->is_pictures) {
        width += width % 2;
        height += height % 2;
    }
    *first = (struct muster_cell){ .width = width,
                                   .height = height,
                                   .depth = depth,
                                   .reach = halo,
                                   .folds = options->is_pictures || depth > 0 };
    uint64_t area = (uint64_t)width * height, items = area;
    probe->group = first->folds ? area : width;
    if (options->is_pictures) {
        first->chroma_width = width / 2;
        first->chroma_height = height / 2;
        probe->group += area / 2;
        items = PICTURES * probe->group;
    } else if (depth > 0 && area <= CELLS_MAX) {
        items = area * depth;
    }
    if (items > CELLS_MAX || options->items > 0) {
        muster_error_fill(
            &probe->report->error, MUSTER_E_INVALID, 0, "give a small --grid, and no --items",
            "kernel %s is tried on all cells of a grid, at most %u", probe->entry, CELLS_MAX);
        return false;
    }
    probe->items = items;
    return true;
}

static void give_cell(struct probe *probe, uint32_t reach, uint32_t border)
{
    probe->first.reach = reach;
    probe->first.border = border;
    memcpy(probe->values[probe->cell], &probe->first, sizeof probe->first);
}

/* Whether a greater halo than `reach` changes nothing; `*item` is one for which it does. */
static bool is_enough(struct probe *probe, uint32_t reach, uint64_t *item, bool *is_enough)
{
    *is_enough = true;
    for (uint32_t border = MUSTER_BORDER_ZERO; border <= MUSTER_BORDER_WRAP; border++)
        for (uint64_t i = 0; i < probe->items && *is_enough; i++) {
            give_cell(probe, reach, border);
            if (!probe_baseline(probe, i))
                return false;
            give_cell(probe, reach + MORE, border);
            probe_arrays_reset(probe, PROBE_ONE);
            if (!probe_run_alone(probe, i))
                return false;
            *is_enough = probe_is_as_kept(probe);
            *item = i;
        }
    return true;
}

bool probe_grid_check(struct probe *probe)
{
    uint32_t given = (uint32_t)probe->options->halo, needed = 0;
    uint64_t item = 0, culprit = 0;
    bool is_right = false, is_given_enough = false;
    char fix[PROBE_TEXT_BYTES];
    if (!probe->has_grid || probe->reads_reach)
        return true;
    probe_doing(probe, "kernel %s with greater halos", probe->entry);
    if (!is_enough(probe, given, &culprit, &is_given_enough))
        return false;
    for (; needed <= PROBE_HALO_MAX && !is_right; needed += !is_right)
        if (!is_enough(probe, needed, &item, &is_right))
            return false;
    probe->cells = is_right ? needed : given;
    give_cell(probe, greatest(given, (uint32_t)probe->cells), MUSTER_BORDER_ZERO);
    if (is_given_enough)
        return true;
    struct muster_cell at = muster_cell_at(probe->first, culprit);
    if (is_right)
        snprintf(fix, sizeof fix, "declare a halo of %u (MUSTER_IN_HALO, --halo %u)", needed,
                 needed);
    else
        snprintf(fix, sizeof fix, "keep to neighbours that are at most %u cells away",
                 PROBE_HALO_MAX);
    probe_find(probe->report, PROBE_NEIGHBOUR, "", (int64_t)culprit, -1, fix,
               "item %llu (x %u, y %u, z %u) reads a neighbour beyond the halo of %u",
               (unsigned long long)culprit, at.x, at.y, at.z, given);
    return true;
}
