/*
 * How large the types are that a portable source defines: structs, unions and other names for types.
 * Every device lays them out by the same rules of C. What cannot be told is unknown.
 */
#ifndef KERNEL_TYPES_H
#define KERNEL_TYPES_H

#include "kernel/amount.h"

#define TYPES_MAX 64

struct known_type {
    struct word name;
    bool has_tag; /* it is called "struct NAME" or "union NAME", else NAME */
    size_t bytes, alignment;
};

struct types {
    struct known_type all[TYPES_MAX];
    uint32_t count;
};

/* All that the words define, in their order; `constants` are the lengths of arrays. */
void types_read(struct types *types, const struct word *words, uint32_t count,
                const struct amount_names *constants);
/* Of a parameter's type as written ("MUSTER_GLOBAL const struct pair *"): what it, or what it points to, takes.
 * 0: not known. */
size_t types_find(const struct types *types, const char *type);

#endif
