/*
 * What a kernel's source shows that its items touch, against what a job's arguments give each item.
 */
#include "run/memory/kernel.h"

#include "kernel/signature.h"

#include <muster/backend.h>
#include <stdio.h>

/* A kernel while its arguments are compared. */
struct comparing {
    const struct muster_kernel *kernel;
    const struct kernel_entry *entry;
    const struct kernel_argument *args;
    const struct kernel_items *items;
    struct muster_error *err;
};

static const char *name_of(const struct comparing *comparing, size_t index)
{
    return comparing->entry->parameters[index].name;
}

/* Elements of an item; 0: not known. */
static int64_t elements_of(const struct comparing *comparing, size_t index)
{
    size_t bytes = comparing->entry->parameters[index].element_bytes;
    return bytes > 0 ? (int64_t)(comparing->args[index].bytes / bytes) : 0;
}

static muster_status refuse_step(const struct comparing *comparing, size_t index,
                                 const struct reach_index *place)
{
    return muster_error_fill(
        comparing->err, MUSTER_E_INVALID, 0,
        "give items of that many elements (bytes of the argument, --item, --out-item), or index "
        "with the item's own",
        "kernel %s, line %u: item i touches element %lld * i of '%.40s', and an item has %lld "
        "there",
        kernel_name(comparing->kernel), place->low_line, (long long)place->step,
        name_of(comparing, index), (long long)elements_of(comparing, index));
}

/* Elements beyond the item's own and its halo. */
static muster_status refuse_place(const struct comparing *comparing, size_t index,
                                  const struct reach_index *place, int64_t beyond)
{
    const struct kernel_argument *arg = &comparing->args[index];
    int64_t own = elements_of(comparing, index);
    long long needed = (beyond < 0 ? -beyond + own - 1 : beyond) / own;
    bool is_read = !(arg->access & MUSTER_WRITES);
    char fix[128];
    if (is_read)
        snprintf(fix, sizeof fix,
                 "declare a halo of %lld (MUSTER_IN_HALO, --halo %lld), or pass the array whole "
                 "(MUSTER_ALL, --table)",
                 needed, needed);
    else
        snprintf(fix, sizeof fix, "let each item write its own elements only");
    return muster_error_fill(
        comparing->err, MUSTER_E_INVALID, 0, fix,
        "kernel %s, line %u: item i touches element %s%+lld of '%.40s', which is another item's; "
        "its halo is %llu",
        kernel_name(comparing->kernel), beyond < 0 ? place->low_line : place->high_line,
        own > 1 ? "i * its elements " : "i",
        beyond < 0 ? (long long)place->low : (long long)place->high, name_of(comparing, index),
        (unsigned long long)arg->halo);
}

static muster_status check_index(const struct comparing *comparing, size_t index,
                                 const struct reach_index *place)
{
    const struct kernel_argument *arg = &comparing->args[index];
    uint64_t together = comparing->items->together;
    int64_t own = elements_of(comparing, index);
    if (own <= 0 || comparing->items->count <= 1)
        return MUSTER_OK;
    if (place->step != own)
        return together > 1 ? MUSTER_OK : refuse_step(comparing, index, place);
    uint64_t halo = arg->halo, around;
    /* Within its own multiple the kernel knows where it is. */
    if (together > 1 && halo < together - 1)
        halo = together - 1;
    if (__builtin_mul_overflow(halo, (uint64_t)own, &around) || around > INT64_MAX / 2)
        return MUSTER_OK;
    if (place->low < -(int64_t)around)
        return refuse_place(comparing, index, place, place->low);
    if (place->high >= own + (int64_t)around)
        return refuse_place(comparing, index, place, place->high);
    return MUSTER_OK;
}

static muster_status check_foreign(const struct comparing *comparing, size_t index)
{
    const struct reach *reach = &comparing->entry->reach.arrays[index];
    bool is_written = comparing->args[index].access & MUSTER_WRITES;
    if (comparing->items->count <= 1 || comparing->items->together > 1)
        return MUSTER_OK;
    if (reach->foreign == REACH_BY_DATA && is_written)
        return muster_error_fill(
            comparing->err, MUSTER_E_INVALID, 0,
            "count and add up with a reduction (muster_reduce, muster reduce), or with "
            "muster_atomic_add in a block of the unit's own",
            "kernel %s, line %u: item i writes '%.40s' at a place that data choose, which other "
            "items may write too",
            kernel_name(comparing->kernel), reach->foreign_line, name_of(comparing, index));
    if (reach->foreign == REACH_FIXED && is_written)
        return muster_error_fill(
            comparing->err, MUSTER_E_INVALID, 0,
            "write to element i, or make one result of all items with a reduction (muster_reduce, "
            "muster reduce)",
            "kernel %s, line %u: all items write the same element of '%.40s'",
            kernel_name(comparing->kernel), reach->foreign_line, name_of(comparing, index));
    if (reach->foreign != REACH_OWN && !is_written)
        return muster_error_fill(
            comparing->err, MUSTER_E_INVALID, 0,
            "pass the array whole: MUSTER_ALL, --table NAME=FILE",
            "kernel %s, line %u: item i reads '%.40s' at a place that is not its own, and a unit "
            "has only its own items of it",
            kernel_name(comparing->kernel), reach->foreign_line, name_of(comparing, index));
    return MUSTER_OK;
}

static muster_status refuse_near(const struct comparing *comparing, uint32_t line, const char *what,
                                 const char *name, long long away, uint64_t halo)
{
    char fix[128];
    snprintf(fix, sizeof fix, "give the array a halo of %lld: MUSTER_IN_HALO, or --halo %lld", away,
             away);
    return muster_error_fill(
        comparing->err, MUSTER_E_INVALID, 0, fix,
        "kernel %s, line %u: a neighbour %s'%.40s' is %lld cells away, and the "
        "halo is %llu",
        kernel_name(comparing->kernel), line, what, name, away, (unsigned long long)halo);
}

/* Neighbours of one array, or of those without a name: `halo` is what all of these have at least. */
static muster_status check_near(const struct comparing *comparing, const struct reach *reach,
                                const char *what, const char *name, uint64_t halo)
{
    const struct kernel_items *items = comparing->items;
    for (size_t i = 0; i < 3 && reach->near_line > 0; i++)
        if (reach->near[i] > (int64_t)(halo < INT32_MAX ? halo : INT32_MAX))
            return refuse_near(comparing, reach->near_line, what, name, (long long)reach->near[i],
                               halo);
    if (reach->near_line > 0 && reach->near[2] > 0 && !items->has_depth)
        return muster_error_fill(comparing->err, MUSTER_E_INVALID, 0,
                                 "use MUSTER_GRID_3D, or leave dz at 0",
                                 "kernel %s, line %u: a neighbour is in another plane, and the "
                                 "grid has two dimensions",
                                 kernel_name(comparing->kernel), reach->near_line);
    if (reach->free_line > 0 && halo < items->reach)
        return muster_error_fill(
            comparing->err, MUSTER_E_INVALID, 0,
            "give every array that is read a halo of that many cells, or name the parameter and a "
            "constant distance in muster_near",
            "kernel %s, line %u: how far away a neighbour %s'%.40s' is, is not in the source; its "
            "halo is %llu, and the largest of the job %u",
            kernel_name(comparing->kernel), reach->free_line, what, name, (unsigned long long)halo,
            items->reach);
    return MUSTER_OK;
}

/* Without a halo the memory around a unit is not its neighbours, or not the job's at all. */
static muster_status check_cells(const struct comparing *comparing, size_t count)
{
    const struct reach_all *all = &comparing->entry->reach;
    uint64_t least = UINT64_MAX;
    muster_status status = MUSTER_OK;
    if (!all->reads_neighbours || !comparing->items->is_grid)
        return MUSTER_OK;
    if (comparing->items->reach == 0)
        return muster_error_fill(comparing->err, MUSTER_E_INVALID, 0,
                                 "give the array one: MUSTER_IN_HALO, or --halo 1 of muster map",
                                 "kernel %s reads neighbours, and no argument has a halo",
                                 kernel_name(comparing->kernel));
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        const struct kernel_argument *arg = &comparing->args[i];
        if (!arg->is_block)
            continue;
        status = check_near(comparing, &all->arrays[i], "in ", name_of(comparing, i), arg->cells);
        if (arg->is_cut && !(arg->access & MUSTER_WRITES) && arg->cells < least)
            least = arg->cells;
    }
    if (status != MUSTER_OK)
        return status;
    return check_near(comparing, &all->unnamed, "in an array of ", "the kernel",
                      least == UINT64_MAX ? 0 : least);
}

muster_status kernel_check_reach(const struct muster_kernel *kernel,
                                 const struct kernel_argument *args, size_t count,
                                 const struct kernel_items *items, struct muster_error *err)
{
    const struct comparing comparing = { kernel, kernel_entry(kernel), args, items, err };
    muster_status status = MUSTER_OK;
    if (!comparing.entry)
        return MUSTER_OK;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        const struct reach *reach = &comparing.entry->reach.arrays[i];
        if (!args[i].is_cut)
            continue;
        status = check_foreign(&comparing, i);
        for (uint32_t k = 0; k < reach->index_count && status == MUSTER_OK; k++)
            status = check_index(&comparing, i, &reach->indices[k]);
    }
    return status == MUSTER_OK ? check_cells(&comparing, count) : status;
}
