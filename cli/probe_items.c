/*
 * Each item alone: what it writes is seen by comparing before and after with two fills, what it reads
 * by changing everything else. Then guard pages, and items in several orders.
 */
#include "probe_arrays.h"
#include "probe_grid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORDERS 3
#define SAMPLES_MAX 24
#define BLOCK_BYTES ((size_t)4096)

/* Elements [low, high). */
struct span {
    int64_t low, high;
};

static bool is_written(const struct probe *probe, size_t i)
{
    return probe->is_block[i] && !probe->arrays[i].is_const;
}

static bool is_input(const struct probe *probe, size_t i)
{
    return probe->is_block[i] && probe->arrays[i].is_const;
}

/* The elements of a written array that are the item's. */
static struct span own_of(const struct probe_array *array, uint64_t item)
{
    int64_t low = (int64_t)(item * array->per_item);
    return (struct span){ low, low + (int64_t)array->per_item };
}

/* The elements of an input that the item's group may read. */
static struct span readable_of(const struct probe *probe, const struct probe_array *array,
                               uint64_t item)
{
    int64_t group = (int64_t)(array->per_item * probe->group);
    int64_t at = (int64_t)(item / probe->group), halo = (int64_t)array->halo;
    return (struct span){ (at - halo) * group, (at + 1 + halo) * group };
}

bool probe_run_alone(struct probe *probe, uint64_t item)
{
    atomic_fetch_add_explicit(&probe->report->steps, 1, memory_order_relaxed);
    if (probe_run(probe, probe->function, item, item + 1))
        return true;
    probe_tell_fault(probe, item, true);
    return false;
}

static void keep(struct probe *probe)
{
    for (size_t i = 0; i < probe->count; i++)
        if (is_written(probe, i))
            memcpy(probe->arrays[i].kept, probe->arrays[i].room, probe->arrays[i].room_bytes);
}

bool probe_is_as_kept(const struct probe *probe)
{
    for (size_t i = 0; i < probe->count; i++)
        if (is_written(probe, i) &&
            memcmp(probe->arrays[i].kept, probe->arrays[i].room, probe->arrays[i].room_bytes) != 0)
            return false;
    return true;
}

/* What an array held before a run of the variant, at byte `at` of its room. */
static unsigned char before_at(const struct probe_array *array, enum probe_variant variant,
                               size_t at)
{
    if (!array->is_inout)
        return PROBE_FILL(variant);
    return variant == PROBE_ONE ? array->data[at] : array->other[at];
}

/* Whether `bytes` from `at` on are as before a run of the variant. */
static bool is_as_before(const struct probe_array *array, const unsigned char *after,
                         enum probe_variant variant, size_t at, size_t bytes)
{
    static unsigned char fill[2][BLOCK_BYTES];
    const unsigned char *before = variant == PROBE_ONE ? array->data + at : array->other + at;
    if (!array->is_inout) {
        memset(fill[variant], PROBE_FILL(variant), bytes);
        before = fill[variant];
    }
    return memcmp(after + at, before, bytes) == 0;
}

/* The elements that a run of the variant has changed, which left `after`, added to `span`. */
static void add_changed(const struct probe_array *array, const unsigned char *after,
                        enum probe_variant variant, struct span *span)
{
    int64_t first = probe_array_first(array);
    for (size_t block = 0; block < array->room_bytes; block += BLOCK_BYTES) {
        size_t left = array->room_bytes - block, bytes = left < BLOCK_BYTES ? left : BLOCK_BYTES;
        if (is_as_before(array, after, variant, block, bytes))
            continue;
        for (size_t at = block; at < block + bytes; at++) {
            if (after[at] == before_at(array, variant, at))
                continue;
            int64_t element = first + (int64_t)(at / array->bytes);
            span->low = span->low == span->high || element < span->low ? element : span->low;
            span->high = element + 1 > span->high ? element + 1 : span->high;
        }
    }
}

/* Whether each item's elements are in its own `per_item`, with this many items more on both sides. */
static bool fits(const struct span *spans, const uint64_t *at, size_t count, int64_t per_item,
                 int64_t halo)
{
    for (size_t i = 0; i < count; i++) {
        int64_t item = (int64_t)at[i];
        if (spans[i].low < spans[i].high && (spans[i].low < per_item * (item - halo) ||
                                             spans[i].high > per_item * (item + 1 + halo)))
            return false;
    }
    return true;
}

/* How far an item is from the next, if that is always the same; else 1. */
static uint64_t find_stride(const struct span *spans, const uint64_t *at, size_t count)
{
    int64_t stride = 0;
    for (size_t i = 1; i < count; i++) {
        int64_t items = (int64_t)(at[i] - at[i - 1]), apart = spans[i].low - spans[i - 1].low;
        if (items <= 0 || spans[i].low == spans[i].high || apart <= 0 || apart % items != 0 ||
            (stride > 0 && apart / items != stride))
            return 1;
        stride = apart / items;
    }
    return stride > 0 ? (uint64_t)stride : 1;
}

/* Writes. */

static bool find_writes_of(struct probe *probe, uint64_t item, struct span *spans)
{
    for (int run = 0; run < 3; run++) {
        enum probe_variant variant = run == 1 ? PROBE_OTHER : PROBE_ONE;
        probe_arrays_reset(probe, variant);
        if (!probe_run_alone(probe, item))
            return false;
        if (run == 0)
            keep(probe);
        for (size_t i = 0; i < probe->count; i++)
            if (is_written(probe, i) && run < 2)
                add_changed(&probe->arrays[i], probe->arrays[i].room, variant,
                            &spans[i * probe->items + item]);
    }
    for (size_t i = 0; i < probe->count; i++) {
        struct probe_array *array = &probe->arrays[i];
        size_t at = 0;
        if (!is_input(probe, i) || memcmp(array->room, array->data, array->room_bytes) == 0)
            continue;
        while (at < array->room_bytes && array->room[at] == array->data[at])
            at++;
        int64_t element = probe_array_first(array) + (int64_t)(at / array->bytes);
        probe_find(probe->report, PROBE_CONST_WRITE, array->name, (int64_t)item, element,
                   "remove the const and pass it as MUSTER_INOUT, or write elsewhere",
                   "item %llu writes element %lld of %s, which is const", (unsigned long long)item,
                   (long long)element, array->name);
        return false;
    }
    if (!probe_is_as_kept(probe))
        probe_find(probe->report, PROBE_STATE, "", (int64_t)item, -1,
                   "use no variables outside of functions, and set each variable before it is read",
                   "item %llu gives another result when it is run again", (unsigned long long)item);
    return true;
}

/* Each item on large arrays: how many elements of each result an item has. */
static bool find_writes(struct probe *probe)
{
    struct span *spans = calloc(probe->count * probe->items + 1, sizeof *spans);
    uint64_t *at = calloc(probe->items + 1, sizeof *at);
    bool is_done = spans && at;
    for (uint64_t item = 0; item < probe->items && is_done; item++) {
        probe_doing(probe, "item %llu of kernel %s alone", (unsigned long long)item, probe->entry);
        at[item] = item;
        is_done = find_writes_of(probe, item, spans);
    }
    for (size_t i = 0; i < probe->count && is_done; i++) {
        struct probe_array *array = &probe->arrays[i];
        const struct span *its = spans + i * probe->items;
        if (!is_written(probe, i) || array->per_item > 0)
            continue;
        int64_t most = probe_array_end(array) / (int64_t)probe->items;
        for (int64_t k = 1; k <= most && array->per_item == 0; k++)
            if (fits(its, at, probe->items, k, 0))
                array->per_item = (uint64_t)k;
        if (array->per_item == 0)
            array->per_item = find_stride(its, at, probe->items);
        if (array->per_item > (uint64_t)most)
            array->per_item = 1;
    }
    free(spans);
    free(at);
    return is_done;
}

/* Who wrote which element, as the number of the item plus 1; 0: nobody. */
struct writers {
    uint32_t *of[MUSTER_ARGS_MAX]; /* owns */
    bool has_any[MUSTER_ARGS_MAX];
};

static void tell_write(struct probe *probe, const struct probe_array *array, uint64_t item,
                       int64_t element, uint32_t writer)
{
    int64_t owner = element / (int64_t)array->per_item;
    bool is_owned = element >= 0 && owner < (int64_t)probe->items;
    if (writer > 0 && writer != item + 1)
        probe_find(probe->report, PROBE_SHARED_WRITE, array->name, (int64_t)item, element,
                   "give each item an element of its own, and join them after the job",
                   "items %u and %llu both write element %lld of %s: the result depends on the "
                   "order of items",
                   writer - 1, (unsigned long long)item, (long long)element, array->name);
    else if (!is_owned)
        probe_find(probe->report, PROBE_FOREIGN_WRITE, array->name, (int64_t)item, element,
                   "write the item's own elements, which begin at i times their number",
                   "item %llu writes element %lld of %s, which belongs to no item",
                   (unsigned long long)item, (long long)element, array->name);
    else if (owner != (int64_t)item)
        probe_find(probe->report, PROBE_FOREIGN_WRITE, array->name, (int64_t)item, element,
                   "write the item's own elements, which begin at i times their number",
                   "item %llu writes element %lld of %s, which belongs to item %lld",
                   (unsigned long long)item, (long long)element, array->name, (long long)owner);
}

/*
 * One element after both variants; `kept` has the first. Gives whether a byte that was written depends
 * on what was there before.
 */
static bool judge_element(struct probe *probe, size_t index, struct writers *writers, uint64_t item,
                          int64_t element)
{
    struct probe_array *array = &probe->arrays[index];
    struct span own = own_of(array, item);
    bool is_own = element >= own.low && element < own.high, is_changed = false, depends = false;
    size_t place = (size_t)(element - probe_array_first(array));
    for (size_t k = 0; k < array->bytes; k++) {
        size_t at = place * array->bytes + k;
        bool is_byte_changed = array->kept[at] != before_at(array, PROBE_ONE, at) ||
                               array->room[at] != before_at(array, PROBE_OTHER, at);
        is_changed |= is_byte_changed;
        depends |= is_byte_changed && array->kept[at] != array->room[at];
    }
    if (is_changed) {
        uint32_t *writer = &writers->of[index][place];
        writers->has_any[index] = true;
        if (!is_own || *writer > 0)
            tell_write(probe, array, item, element, *writer);
        *writer = *writer > 0 ? *writer : (uint32_t)item + 1;
    } else if (is_own && !array->is_inout) {
        probe_find(probe->report, PROBE_UNWRITTEN, array->name, (int64_t)item, element,
                   "write it in every case, or declare the array as read and written (--inout)",
                   "item %llu does not write element %lld of %s: its old value stays",
                   (unsigned long long)item, (long long)element, array->name);
    }
    return depends && is_own && !array->is_inout;
}

/* Whether the item's results change with elements [from, to) of a written array that are not its own. */
static bool depends_on(struct probe *probe, struct probe_array *array, uint64_t item, int64_t from,
                       int64_t to)
{
    struct span own = own_of(array, item);
    probe_arrays_reset(probe, PROBE_ONE);
    probe_array_set(array, PROBE_OTHER, from, to < own.low ? to : own.low);
    probe_array_set(array, PROBE_OTHER, from > own.high ? from : own.high, to);
    if (!probe_run_alone(probe, item))
        return false;
    for (size_t i = 0; i < probe->count; i++) {
        const struct probe_array *result = &probe->arrays[i];
        if (!is_written(probe, i))
            continue;
        struct span its = own_of(result, item);
        size_t at = (size_t)(its.low - probe_array_first(result)) * result->bytes;
        if (memcmp(result->room + at, result->kept + at,
                   (size_t)(its.high - its.low) * result->bytes) != 0)
            return true;
    }
    return false;
}

/* The lowest element on which the results depend: the end of the shortest part that changes them. */
static int64_t find_lowest(struct probe *probe, struct probe_array *array, uint64_t item,
                           bool (*does)(struct probe *, struct probe_array *, uint64_t, int64_t,
                                        int64_t),
                           int64_t from, int64_t to)
{
    int64_t low = from, high = to;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (does(probe, array, item, from, middle))
            high = middle;
        else
            low = middle;
    }
    return low;
}

static void tell_foreign_read(struct probe *probe, struct probe_array *array, uint64_t item)
{
    int64_t first = probe_array_first(array), end = probe_array_end(array);
    int64_t element = find_lowest(probe, array, item, depends_on, first, end);
    probe_find(probe->report, PROBE_ORDER, array->name, (int64_t)item, element,
               "read inputs only, and the item's own elements of what is read and written",
               "item %llu reads element %lld of %s, which another item may write: the result "
               "depends on the order of items",
               (unsigned long long)item, (long long)element, array->name);
}

static bool judge_item(struct probe *probe, struct writers *writers, uint64_t item)
{
    bool reads_before = false;
    const char *what = "";
    probe_arrays_reset(probe, PROBE_ONE);
    if (!probe_run_alone(probe, item))
        return false;
    keep(probe);
    probe_arrays_reset(probe, PROBE_OTHER);
    if (!probe_run_alone(probe, item))
        return false;
    for (size_t i = 0; i < probe->count; i++) {
        struct probe_array *array = &probe->arrays[i];
        if (!is_written(probe, i))
            continue;
        /* The item's own elements, and from there to all that it has changed. */
        struct span span = own_of(array, item);
        add_changed(array, array->kept, PROBE_ONE, &span);
        add_changed(array, array->room, PROBE_OTHER, &span);
        for (int64_t e = span.low; e < span.high; e++)
            if (judge_element(probe, i, writers, item, e) && !reads_before) {
                reads_before = true;
                what = array->name;
            }
    }
    bool is_foreign = false;
    for (size_t i = 0; i < probe->count; i++)
        if (is_written(probe, i) &&
            depends_on(probe, &probe->arrays[i], item, INT64_MIN / 2, INT64_MAX / 2)) {
            is_foreign = true;
            tell_foreign_read(probe, &probe->arrays[i], item);
        }
    if (reads_before && !is_foreign)
        probe_find(probe->report, PROBE_UNSET_READ, what, (int64_t)item, -1,
                   "write it first; if the array is read and written, use --inout and MUSTER_INOUT",
                   "item %llu reads %s before it writes it: the result depends on the old value",
                   (unsigned long long)item, what);
    return probe->fault.signal == 0;
}

static bool judge_writes(struct probe *probe)
{
    struct writers writers = { .of = { NULL } };
    bool is_done = true;
    for (size_t i = 0; i < probe->count && is_done; i++) {
        const struct probe_array *array = &probe->arrays[i];
        if (!is_written(probe, i))
            continue;
        writers.of[i] = calloc(array->room_bytes / array->bytes + 1, sizeof *writers.of[i]);
        is_done = writers.of[i] != NULL;
    }
    for (uint64_t item = 0; item < probe->items && is_done; item++) {
        probe_doing(probe, "item %llu of kernel %s alone", (unsigned long long)item, probe->entry);
        is_done = judge_item(probe, &writers, item);
    }
    for (size_t i = 0; i < probe->count; i++) {
        if (is_done && is_written(probe, i) && probe->arrays[i].is_inout && !writers.has_any[i])
            probe_find(probe->report, PROBE_UNWRITTEN, probe->arrays[i].name, -1, -1,
                       "make it const and pass it as MUSTER_IN", "no item writes %s",
                       probe->arrays[i].name);
        free(writers.of[i]);
    }
    return is_done;
}

/* Reads. */

/* Whether the item's results change with elements [from, to) of an input. */
static bool reads_from(struct probe *probe, struct probe_array *array, uint64_t item, int64_t from,
                       int64_t to)
{
    probe_arrays_reset(probe, PROBE_ONE);
    probe_array_set(array, PROBE_OTHER, from, to);
    bool is_run = probe_run(probe, probe->function, item, item + 1);
    atomic_fetch_add_explicit(&probe->report->steps, 1, memory_order_relaxed);
    probe_array_set(array, PROBE_ONE, from, to);
    return !is_run || !probe_is_as_kept(probe);
}

/* The highest element plus 1, likewise. */
static int64_t find_highest(struct probe *probe, struct probe_array *array, uint64_t item,
                            int64_t from, int64_t to)
{
    int64_t low = from, high = to;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (reads_from(probe, array, item, middle, to))
            low = middle;
        else
            high = middle;
    }
    return high;
}

bool probe_baseline(struct probe *probe, uint64_t item)
{
    probe_arrays_reset(probe, PROBE_ONE);
    bool is_done = probe_run_alone(probe, item);
    keep(probe);
    return is_done;
}

static void choose_samples(struct probe *probe, uint64_t *at, size_t *count)
{
    uint64_t last = probe->items - 1;
    *count = 0;
    for (uint64_t k = 0; k < SAMPLES_MAX; k++) {
        uint64_t item = k * last / (SAMPLES_MAX - 1);
        if (*count == 0 || item > at[*count - 1])
            at[(*count)++] = item;
    }
}

/* How an input is cut, from what some items read of it. */
static void infer_reads(struct probe *probe, struct probe_array *array, const struct span *spans,
                        const uint64_t *at, size_t count)
{
    uint64_t groups[SAMPLES_MAX], group = probe->group, group_count = probe->items / group;
    int64_t most = probe_array_end(array) / (int64_t)probe->items;
    int64_t halo_max =
        (int64_t)(group_count / 4 < PROBE_HALO_MAX ? group_count / 4 : PROBE_HALO_MAX);
    uint64_t given = array->per_item;
    for (size_t i = 0; i < count; i++)
        groups[i] = at[i] / group;
    array->per_item = 0;
    for (int64_t halo = 0; halo <= halo_max && array->per_item == 0; halo++)
        for (int64_t k = given > 0 ? (int64_t)given : 1; k <= (given > 0 ? (int64_t)given : most);
             k++)
            if (fits(spans, groups, count, k * (int64_t)group, halo)) {
                array->per_item = (uint64_t)k;
                array->halo = (uint64_t)halo;
                break;
            }
    if (array->per_item > 0)
        return;
    array->per_item = given > 0 ? given : 1;
    array->is_whole = given == 0;
}

static void tell_neighbour(struct probe *probe, const struct probe_array *array, uint64_t item,
                           int64_t element, uint64_t needed)
{
    char fix[PROBE_TEXT_BYTES];
    /* Of cells more is known: probe_grid_check. */
    if (probe->has_grid && probe_has(probe->report, PROBE_NEIGHBOUR))
        return;
    snprintf(fix, sizeof fix,
             "declare a halo of %llu items (--halo %llu), or pass the array whole (--whole %s)",
             (unsigned long long)needed, (unsigned long long)needed, array->name);
    probe_find(probe->report, PROBE_NEIGHBOUR, array->name, (int64_t)item, element, fix,
               "item %llu reads element %lld of %s, beyond its own range", (unsigned long long)item,
               (long long)element, array->name);
}

/*
 * Of a grid: whether the item reads other cells of its own line, which come with it in any case; for what is
 * said of the array.
 */
static bool reads_line(struct probe *probe, struct probe_array *array, uint64_t item)
{
    int64_t line = (int64_t)(array->per_item * probe->group), own = (int64_t)array->per_item;
    int64_t begin = (int64_t)(item / probe->group) * line, at = (int64_t)item * own;
    return reads_from(probe, array, item, begin, at) ||
           reads_from(probe, array, item, at + own, begin + line);
}

/* Cells at a fixed distance that is more than any halo: another plane of a grid that has none. */
static void tell_far_cells(struct probe *probe, const struct probe_array *array,
                           const struct span *spans, const uint64_t *at, size_t count)
{
    size_t seen = 0;
    int64_t apart = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t here = spans[i].low - (int64_t)at[i];
        if (spans[i].low == spans[i].high || (seen > 0 && here != apart))
            continue;
        apart = here;
        seen++;
    }
    if (seen == count && count > 2)
        probe_find(probe->report, PROBE_NEIGHBOUR, array->name, (int64_t)at[0], spans[0].low,
                   "use muster_near with a halo; --grid WxHxD tries it in three dimensions",
                   "item %llu reads element %lld of %s, which no halo holds",
                   (unsigned long long)at[0], (long long)spans[0].low, array->name);
}

static bool find_reads_of(struct probe *probe, struct probe_array *array)
{
    struct span spans[SAMPLES_MAX];
    uint64_t at[SAMPLES_MAX];
    size_t count;
    int64_t first = probe_array_first(array), end = probe_array_end(array);
    choose_samples(probe, at, &count);
    for (size_t i = 0; i < count; i++) {
        spans[i] = (struct span){ 0, 0 };
        probe_doing(probe, "item %llu of kernel %s with other values of %s",
                    (unsigned long long)at[i], probe->entry, array->name);
        if (!probe_baseline(probe, at[i]))
            return false;
        if (reads_from(probe, array, at[i], first, end))
            spans[i] = (struct span){ find_lowest(probe, array, at[i], reads_from, first, end),
                                      find_highest(probe, array, at[i], first, end) };
    }
    bool is_asked = array->is_whole;
    if (!array->is_whole)
        infer_reads(probe, array, spans, at, count);
    if (array->is_whole && !is_asked && probe->has_grid)
        tell_far_cells(probe, array, spans, at, count);
    if (array->is_whole)
        return true;
    for (size_t i = 0; i < count && probe->has_grid && !array->is_near; i++) {
        if (!probe_baseline(probe, at[i]))
            return false;
        array->is_near = reads_line(probe, array, at[i]);
    }
    uint64_t needed = array->halo;
    array->halo = probe->options->halo;
    for (size_t i = 0; i < count && needed > array->halo; i++) {
        struct span may = readable_of(probe, array, at[i]);
        if (spans[i].low < spans[i].high && (spans[i].low < may.low || spans[i].high > may.high))
            tell_neighbour(probe, array, at[i],
                           spans[i].high > may.high ? spans[i].high - 1 : spans[i].low, needed);
    }
    array->halo = needed > array->halo ? needed : array->halo;
    return true;
}

/* Everything that the item must not read is changed. */
static bool check_reads_of(struct probe *probe, struct probe_array *array)
{
    int64_t first = probe_array_first(array), end = probe_array_end(array);
    for (uint64_t item = 0; item < probe->items; item++) {
        struct span may = readable_of(probe, array, item);
        if (!probe_baseline(probe, item))
            return false;
        probe_doing(probe, "item %llu of kernel %s with other values of %s",
                    (unsigned long long)item, probe->entry, array->name);
        if (reads_from(probe, array, item, first, may.low))
            tell_neighbour(probe, array, item, find_highest(probe, array, item, first, may.low) - 1,
                           1);
        else if (reads_from(probe, array, item, may.high, end))
            tell_neighbour(probe, array, item,
                           find_lowest(probe, array, item, reads_from, may.high, end), 1);
    }
    return true;
}

static bool find_reads(struct probe *probe)
{
    bool is_done = true;
    for (size_t i = 0; i < probe->count && is_done; i++) {
        if (!is_input(probe, i))
            continue;
        is_done = find_reads_of(probe, &probe->arrays[i]);
        if (is_done && !probe->arrays[i].is_whole)
            is_done = check_reads_of(probe, &probe->arrays[i]);
    }
    return is_done;
}

/* Guard pages, and orders. */

static bool run_all(struct probe *probe, muster_kernel_function function, uint64_t begin,
                    uint64_t end)
{
    atomic_fetch_add_explicit(&probe->report->steps, 1, memory_order_relaxed);
    if (probe_run(probe, function, begin, end))
        return true;
    probe_tell_fault(probe, begin, end - begin == 1);
    return false;
}

static bool run_guarded(struct probe *probe, bool at_end)
{
    if (!probe_arrays_guard(probe, at_end))
        return true; /* there is no room for all that the items would have */
    probe->is_guarded = true;
    for (uint64_t item = 0; item < probe->items; item++) {
        probe_doing(probe, "item %llu of kernel %s between guard pages", (unsigned long long)item,
                    probe->entry);
        probe_arrays_reset(probe, PROBE_ONE);
        if (!probe_run_alone(probe, item))
            return false;
    }
    probe_doing(probe, "all items of kernel %s between guard pages", probe->entry);
    probe_arrays_reset(probe, PROBE_ONE);
    return run_all(probe, probe->function, 0, probe->items) &&
           run_all(probe, probe->apart, 0, probe->items);
}

static void shuffle(struct probe *probe, uint64_t *order)
{
    for (uint64_t i = probe->items; i > 1; i--) {
        uint64_t other = probe_random(probe) % i, item = order[i - 1];
        order[i - 1] = order[other];
        order[other] = item;
    }
}

static bool run_in_order(struct probe *probe, const uint64_t *order)
{
    probe_doing(probe, "the items of kernel %s in another order", probe->entry);
    probe_arrays_reset(probe, PROBE_ONE);
    for (uint64_t i = 0; i < probe->items; i++)
        if (!run_all(probe, probe->function, order[i], order[i] + 1))
            return false;
    return true;
}

/* The order of items must not matter. What they give in their own order is kept for devices. */
static bool check_orders(struct probe *probe)
{
    uint64_t *order = calloc(probe->items + 1, sizeof *order);
    bool is_done = order != NULL, is_same = true;
    for (uint64_t i = 0; i < probe->items && is_done; i++)
        order[i] = i;
    is_done = is_done && run_in_order(probe, order);
    if (is_done)
        keep(probe);
    for (uint64_t i = 0; i < probe->items && is_done; i++)
        order[i] = probe->items - 1 - i;
    for (int turn = 0; turn <= ORDERS && is_done && is_same; turn++) {
        if (turn > 0)
            shuffle(probe, order);
        is_done = run_in_order(probe, order);
        is_same = probe_is_as_kept(probe);
    }
    if (is_done && is_same) {
        probe_arrays_reset(probe, PROBE_ONE);
        is_done = run_all(probe, probe->apart, 0, probe->items / 2) &&
                  run_all(probe, probe->apart, probe->items / 2, probe->items);
        is_same = probe_is_as_kept(probe);
    }
    if (is_done && !is_same && !probe_has(probe->report, PROBE_SHARED_WRITE))
        probe_find(probe->report, PROBE_ORDER, "", -1, -1,
                   "let each item read inputs only, and write its own elements only",
                   "the result depends on the order of items");
    free(order);
    return is_done;
}

bool probe_items(struct probe *probe)
{
    if (!find_writes(probe) || !judge_writes(probe) || !probe_grid_check(probe) ||
        !find_reads(probe))
        return false;
    return run_guarded(probe, true) && run_guarded(probe, false) && check_orders(probe);
}
