#include "simulate/agenda.h"

void agenda_init(struct agenda *agenda, struct happening *memory, size_t capacity)
{
    *agenda = (struct agenda){ .heap = memory, .capacity = capacity };
}

static bool before(const struct happening *a, const struct happening *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

bool agenda_add(struct agenda *agenda, struct happening happening)
{
    if (agenda->count == agenda->capacity)
        return false;
    happening.order = agenda->next_order++;
    size_t at = agenda->count++;
    while (at > 0 && before(&happening, &agenda->heap[(at - 1) / 2])) {
        agenda->heap[at] = agenda->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    agenda->heap[at] = happening;
    return true;
}

uint64_t agenda_next_ns(const struct agenda *agenda)
{
    return agenda->count > 0 ? agenda->heap[0].at_ns : UINT64_MAX;
}

bool agenda_next(struct agenda *agenda, struct happening *out)
{
    if (agenda->count == 0)
        return false;
    *out = agenda->heap[0];
    struct happening last = agenda->heap[--agenda->count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= agenda->count)
            break;
        if (child + 1 < agenda->count && before(&agenda->heap[child + 1], &agenda->heap[child]))
            child++;
        if (!before(&agenda->heap[child], &last))
            break;
        agenda->heap[at] = agenda->heap[child];
        at = child;
    }
    if (agenda->count > 0)
        agenda->heap[at] = last;
    return true;
}
