/*
 * What happens next in virtual time: a binary heap of happenings, those at the same moment in the
 * order in which they were added.
 */
#ifndef SIMULATE_AGENDA_H
#define SIMULATE_AGENDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct happening {
    uint64_t at_ns;
    uint64_t order; /* set by agenda_add */
    uint32_t kind, lane;
    uint32_t slot, serial;
};

struct agenda {
    struct happening *heap; /* borrowed from the owner */
    size_t count, capacity;
    uint64_t next_order;
};

void agenda_init(struct agenda *agenda, struct happening *memory, size_t capacity);
/* False if there is no room. */
bool agenda_add(struct agenda *agenda, struct happening happening);
/* When the earliest is, UINT64_MAX if there is none. */
uint64_t agenda_next_ns(const struct agenda *agenda);
/* The earliest, taken out; false if there is none. */
bool agenda_next(struct agenda *agenda, struct happening *out);

#endif
