/*
 * Generation handles: a table of slots over memory of its owner. A handle is the slot's index and
 * the generation it was issued with; releasing a slot moves the generation on, so an old handle is
 * told apart from whatever took its place. Not for several threads at once; the owner's lock does
 * that.
 */
#ifndef BASE_HANDLE_H
#define BASE_HANDLE_H

#include <muster/status.h>

#define HANDLE_NONE UINT32_MAX

struct handle_slot {
    uint32_t generation; /* of the current or, if free, of the next issue; never 0 */
    uint32_t next_free;
    uint8_t live;
    uint8_t issued_once;
};

struct handle_table {
    struct handle_slot *slots; /* borrowed from the owner until the table is not used any more */
    uint32_t capacity;
    uint32_t free_head, live_count;
};

/* The slots need not be cleared. */
void handle_table_init(struct handle_table *table, struct handle_slot *slots, uint32_t capacity);

/* More room: `slots` holds what the old memory held, and the new slots after it. */
void handle_table_grow(struct handle_table *table, struct handle_slot *slots, uint32_t capacity);

/* A free slot's index, now live, or HANDLE_NONE. */
uint32_t handle_issue(struct handle_table *table);

/* The slot must be live. Its handles are stale from now on. */
void handle_retire(struct handle_table *table, uint32_t index);

/* MUSTER_OK, MUSTER_E_STALE, or MUSTER_E_UNKNOWN for a handle that was never issued. */
muster_status handle_check(const struct handle_table *table, uint32_t index, uint32_t generation);

#endif
