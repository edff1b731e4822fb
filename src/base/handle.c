#include "base/handle.h"

#include "base/invariant.h"

static void add_slots(struct handle_table *table, uint32_t from, uint32_t to)
{
    /* Linked back to front, so that low indices are issued first. */
    for (uint32_t i = to; i-- > from;) {
        table->slots[i] = (struct handle_slot){ .generation = 1, .next_free = table->free_head };
        table->free_head = i;
    }
}

void handle_table_init(struct handle_table *table, struct handle_slot *slots, uint32_t capacity)
{
    *table =
        (struct handle_table){ .slots = slots, .capacity = capacity, .free_head = HANDLE_NONE };
    add_slots(table, 0, capacity);
}

void handle_table_grow(struct handle_table *table, struct handle_slot *slots, uint32_t capacity)
{
    uint32_t before = table->capacity;
    INVARIANT(capacity >= before);
    table->slots = slots;
    table->capacity = capacity;
    add_slots(table, before, capacity);
}

uint32_t handle_issue(struct handle_table *table)
{
    uint32_t index = table->free_head;
    if (index == HANDLE_NONE)
        return HANDLE_NONE;
    struct handle_slot *slot = &table->slots[index];
    INVARIANT(!slot->live);
    table->free_head = slot->next_free;
    slot->live = 1;
    slot->issued_once = 1;
    table->live_count++;
    return index;
}

void handle_retire(struct handle_table *table, uint32_t index)
{
    struct handle_slot *slot = &table->slots[index];
    INVARIANT(index < table->capacity && slot->live);
    slot->live = 0;
    table->live_count--;
    /*
     * A slot whose generations are used up is never issued again: a wrapped one would revive old
     * handles.
     */
    if (++slot->generation == 0) {
        slot->generation = UINT32_MAX;
        return;
    }
    slot->next_free = table->free_head;
    table->free_head = index;
}

muster_status handle_check(const struct handle_table *table, uint32_t index, uint32_t generation)
{
    if (index >= table->capacity)
        return MUSTER_E_UNKNOWN;
    const struct handle_slot *slot = &table->slots[index];
    if (slot->live && slot->generation == generation)
        return MUSTER_OK;
    bool issued = slot->issued_once && generation != 0 &&
                  (slot->live ? generation < slot->generation : generation <= slot->generation);
    /*
     * A free slot holds its next generation, which nobody has been given yet - unless it is used
     * up.
     */
    if (!slot->live && generation == slot->generation && slot->generation != UINT32_MAX)
        issued = false;
    return issued ? MUSTER_E_STALE : MUSTER_E_UNKNOWN;
}
