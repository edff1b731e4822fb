#include "probe_reduction.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEVELS 64
#define PAIRS 200
/* Of the numbers that are joined: more than rounding makes of a few operations in single precision. */
#define ROUNDING 1e-4

/* Whether the source has that function, which it may leave out. */
static bool has_identity(const struct muster_kernel_form *form)
{
    char name[160];
    snprintf(name, sizeof name, "%s_identity", form->entry);
    return memmem(form->code, form->code_bytes, "MUSTER_IDENTITY", 15) &&
           memmem(form->code, form->code_bytes, name, strlen(name));
}

char *probe_reduction_source(const struct muster_kernel_form *form,
                             const struct muster_kernel *kernel,
                             const struct muster_partial *partial)
{
    struct muster_kernel_parameter parameter = { .size = sizeof parameter };
    const char *entry = form->entry;
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    fwrite(form->code, 1, form->code_bytes, out);
    /* A type of its own: one that is called as the kernel is has another name in the wrapper. */
    fprintf(out, "\ntypedef %s muster_made_%s;\n", partial->type, entry);
    fprintf(out, "MUSTER_CONSTANT muster_made_%s muster_zero_%s = { 0 };\n", entry, entry);
    fprintf(out, "MUSTER_KERNEL void " PROBE_MAP_PREFIX "%s(uint64_t muster_at", entry);
    for (size_t i = 0; muster_kernel_parameter(kernel, i, &parameter, NULL) == MUSTER_OK; i++)
        fprintf(out, ", %s %s", parameter.type, parameter.name);
    fprintf(out, ", MUSTER_GLOBAL muster_made_%s *muster_partial)\n{\n", entry);
    fprintf(out, "    muster_made_%s muster_all = muster_zero_%s;\n", entry, entry);
    if (has_identity(form))
        fprintf(out, "    %s_identity(&muster_all);\n", entry);
    fprintf(out, "    %s(muster_at", entry);
    for (size_t i = 0; muster_kernel_parameter(kernel, i, &parameter, NULL) == MUSTER_OK; i++)
        fprintf(out, ", %s", parameter.name);
    fprintf(out, ", &muster_all);\n    muster_partial[muster_at] = muster_all;\n}\n");
    bool is_whole = !ferror(out);
    if (fclose(out) != 0 || !is_whole) {
        free(text);
        return NULL;
    }
    return text;
}

unsigned char *probe_reduction_fields(const struct muster_kernel *kernel, size_t bytes)
{
    struct muster_partial_field field = { .size = sizeof field };
    unsigned char *fields = calloc(bytes > 0 ? bytes : 1, 1);
    for (size_t i = 0; fields && muster_kernel_partial_field(kernel, i, &field, NULL) == MUSTER_OK;
         i++)
        memset(fields + field.offset, 1, (size_t)field.count * field.bytes);
    return fields;
}

/* Joining. */

struct joining {
    struct probe *probe;
    const struct muster_kernel *kernel;
    const struct probe_joins *joins;
    unsigned char *levels, *room; /* own: LEVELS partials, and 8 */
    size_t bytes;
};

static unsigned char *room_at(const struct joining *joining, size_t index)
{
    return joining->room + index * joining->bytes;
}

static const unsigned char *partial_of(const struct joining *joining, uint64_t item)
{
    const struct probe_array *array = &joining->probe->arrays[joining->probe->count - 1];
    return array->kept + (array->base - array->room) + item * joining->bytes;
}

/* Two partials into one; `to` may be one of them. */
static void join(const struct joining *joining, const unsigned char *a, const unsigned char *b,
                 unsigned char *to)
{
    unsigned char *pair = room_at(joining, 6);
    memmove(pair, a, joining->bytes);
    memmove(pair + joining->bytes, b, joining->bytes);
    joining->joins->fold(0, joining->levels, pair, 2);
    memcpy(to, joining->levels + joining->bytes, joining->bytes);
}

static double number_at(const unsigned char *at, const char *type)
{
    float single;
    double real;
    if (strcmp(type, "float") == 0) {
        memcpy(&single, at, sizeof single);
        return (double)single;
    }
    memcpy(&real, at, sizeof real);
    return real;
}

/* Whether two numbers of a field are the same, but for the rounding of what `from` has. */
static bool is_near(const unsigned char *a, const unsigned char *b,
                    const unsigned char *const *from, size_t count, size_t offset,
                    const struct muster_partial_field *field, bool is_exact)
{
    bool is_float = strcmp(field->type, "float") == 0 || strcmp(field->type, "double") == 0;
    if (!is_float)
        return memcmp(a + offset, b + offset, field->bytes) == 0;
    double x = number_at(a + offset, field->type), y = number_at(b + offset, field->type);
    if ((isnan(x) && isnan(y)) || !(x < y || x > y))
        return isnan(x) == isnan(y);
    double size = fabs(x) + fabs(y);
    for (size_t i = 0; i < count; i++)
        size += fabs(number_at(from[i] + offset, field->type));
    return !is_exact && fabs(x - y) <= ROUNDING * size;
}

/* The name of the field that differs; NULL: none. */
static const char *find_difference(const struct joining *joining, const unsigned char *a,
                                   const unsigned char *b, const unsigned char *const *from,
                                   size_t count, bool is_exact, struct muster_partial_field *field)
{
    field->size = sizeof *field;
    for (size_t i = 0; muster_kernel_partial_field(joining->kernel, i, field, NULL) == MUSTER_OK;
         i++)
        for (uint64_t k = 0; k < field->count; k++)
            if (!is_near(a, b, from, count, field->offset + (size_t)k * field->bytes, field,
                         is_exact))
                return *field->name ? field->name : "result";
    return NULL;
}

static void check_identity(const struct joining *joining, uint64_t item)
{
    const unsigned char *its = partial_of(joining, item);
    struct muster_partial_field field;
    unsigned char *none = room_at(joining, 0), *joined = room_at(joining, 1);
    joining->joins->folded(0, joining->levels, none);
    for (int is_first = 0; is_first < 2; is_first++) {
        join(joining, is_first ? none : its, is_first ? its : none, joined);
        const char *name = find_difference(joining, joined, its, NULL, 0, true, &field);
        if (name)
            probe_find(
                joining->probe->report, PROBE_IDENTITY, "", (int64_t)item, -1,
                "give an identity that combine leaves unchanged; without one it is all zeros",
                "joining the partial of item %llu with that of no items changes its %s",
                (unsigned long long)item, name);
    }
}

static void check_orders(const struct joining *joining, const uint64_t *items)
{
    const unsigned char *from[] = { partial_of(joining, items[0]), partial_of(joining, items[1]),
                                    partial_of(joining, items[2]) };
    unsigned char *one = room_at(joining, 2), *other = room_at(joining, 3);
    struct muster_partial_field field;
    join(joining, from[0], from[1], one);
    join(joining, from[1], from[0], other);
    const char *name = find_difference(joining, one, other, from, 2, false, &field);
    if (name)
        probe_find(joining->probe->report, PROBE_ORDER, "", (int64_t)items[0], -1,
                   "make combine give the same result in either order; of equal items take the "
                   "lower number",
                   "joining items %llu and %llu gives another %s in the other order",
                   (unsigned long long)items[0], (unsigned long long)items[1], name);
    join(joining, one, from[2], one);
    join(joining, from[1], from[2], other);
    join(joining, from[0], other, other);
    name = find_difference(joining, one, other, from, 3, false, &field);
    if (name)
        probe_find(joining->probe->report, PROBE_ORDER, "", (int64_t)items[0], -1,
                   "make combine give the same result for every grouping",
                   "joining items %llu, %llu and %llu gives another %s in another grouping",
                   (unsigned long long)items[0], (unsigned long long)items[1],
                   (unsigned long long)items[2], name);
}

void probe_reduction_joins(struct probe *probe, const struct muster_kernel *kernel,
                           const struct probe_joins *joins)
{
    size_t bytes = probe->partial_bytes;
    struct joining joining = { .probe = probe,
                               .kernel = kernel,
                               .joins = joins,
                               .levels = calloc(LEVELS, bytes),
                               .room = calloc(8, bytes),
                               .bytes = bytes };
    for (uint64_t i = 0; i < probe->items && joining.levels && joining.room; i++) {
        probe_doing(probe, "joining item %llu of kernel %s", (unsigned long long)i, probe->entry);
        check_identity(&joining, i);
    }
    for (int i = 0; i < PAIRS && joining.levels && joining.room; i++) {
        const uint64_t items[] = { probe_random(probe) % probe->items,
                                   probe_random(probe) % probe->items,
                                   probe_random(probe) % probe->items };
        probe_doing(probe, "joining items of kernel %s in several orders", probe->entry);
        /* An item is in one partial. */
        if (items[0] != items[1] && items[1] != items[2] && items[0] != items[2])
            check_orders(&joining, items);
    }
    free(joining.levels);
    free(joining.room);
}
