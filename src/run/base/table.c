/*
 * Handles to objects: base/handle.h with memory from the runtime, growing in powers of two.
 */
#include "run/base/runtime.h"

#include "base/allocator.h"

#include <string.h>

#define TABLE_FIRST 64u
#define TABLE_MAX (1u << 24)

static muster_status grow(struct muster *m, struct run_table *table, struct muster_error *err)
{
    uint32_t before = table->handles.capacity, after = before > 0 ? before * 2 : TABLE_FIRST;
    if (before >= TABLE_MAX)
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0, "release some first",
                                 "%u handles are out", before);
    struct handle_slot *slots = allocator_take(&m->allocator, after, sizeof *slots);
    void **entries = allocator_take(&m->allocator, after, sizeof *entries);
    if (!slots || !entries) {
        allocator_give(&m->allocator, entries, after, sizeof *entries);
        allocator_give(&m->allocator, slots, after, sizeof *slots);
        return run_no_memory(err, "more handles");
    }
    struct handle_slot *old_slots = table->handles.slots;
    void **old_entries = table->entries;
    if (before > 0) {
        memcpy(slots, old_slots, before * sizeof *slots);
        memcpy(entries, old_entries, before * sizeof *entries);
        handle_table_grow(&table->handles, slots, after);
    } else {
        handle_table_init(&table->handles, slots, after);
    }
    table->entries = entries;
    allocator_give(&m->allocator, old_slots, before, sizeof *old_slots);
    allocator_give(&m->allocator, old_entries, before, sizeof *old_entries);
    return MUSTER_OK;
}

muster_status table_add_locked(struct muster *m, struct run_table *table, void *entry,
                               uint32_t *index, uint32_t *generation, struct muster_error *err)
{
    uint32_t slot = table->handles.capacity > 0 ? handle_issue(&table->handles) : HANDLE_NONE;
    if (slot == HANDLE_NONE) {
        muster_status status = grow(m, table, err);
        if (status != MUSTER_OK)
            return status;
        slot = handle_issue(&table->handles);
    }
    table->entries[slot] = entry;
    *index = slot;
    *generation = table->handles.slots[slot].generation;
    return MUSTER_OK;
}

muster_status table_find_locked(const struct run_table *table, uint32_t index, uint32_t generation,
                                const char *what, void **entry, struct muster_error *err)
{
    muster_status status = handle_check(&table->handles, index, generation);
    if (status == MUSTER_E_STALE)
        return muster_error_fill(err, status, 0, "do not use a handle after it was released",
                                 "the handle of a %s that is gone was used", what);
    if (status != MUSTER_OK)
        return muster_error_fill(err, status, 0, "use handles as Muster gave them",
                                 "no such %s was ever given out", what);
    *entry = table->entries[index];
    return MUSTER_OK;
}

void table_remove_locked(struct run_table *table, uint32_t index)
{
    table->entries[index] = NULL;
    handle_retire(&table->handles, index);
}

void table_destroy(struct muster *m, struct run_table *table)
{
    uint32_t capacity = table->handles.capacity;
    allocator_give(&m->allocator, table->handles.slots, capacity, sizeof *table->handles.slots);
    allocator_give(&m->allocator, table->entries, capacity, sizeof *table->entries);
    *table = (struct run_table){ .entries = NULL };
}
