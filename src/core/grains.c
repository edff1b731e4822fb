#include "core/grains.h"

#include <string.h>

#define WORD_BITS UINT64_C(64)

uint64_t grains_count(uint64_t items, uint64_t grain)
{
    return grain == 0 ? 0 : items / grain + (items % grain > 0);
}

/* Where the grain begins; `items` if that is beyond them. */
static uint64_t item_of(uint64_t items, uint64_t grain, uint64_t index)
{
    uint64_t item;
    return __builtin_mul_overflow(index, grain, &item) || item > items ? items : item;
}

struct muster_range grains_items(uint64_t items, uint64_t grain, struct muster_range grains)
{
    return (struct muster_range){ item_of(items, grain, grains.begin),
                                  item_of(items, grain, grains.end) };
}

size_t grain_set_bytes(uint64_t count)
{
    return (size_t)grains_count(count, WORD_BITS) * sizeof(uint64_t);
}

void grain_set_init(struct grain_set *set, void *memory, uint64_t count)
{
    *set = (struct grain_set){ .words = memory, .count = count };
    memset(memory, 0, grain_set_bytes(count));
}

/* The bits of one word that [from, to) covers, which begins in it. */
static uint64_t mask_of(uint64_t from, uint64_t to)
{
    uint64_t first = from % WORD_BITS, bits = to - from;
    uint64_t mask = bits >= WORD_BITS ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    return mask << first;
}

static uint64_t next_word(uint64_t from, uint64_t to)
{
    uint64_t next = (from / WORD_BITS + 1) * WORD_BITS;
    return next < to ? next : to;
}

static struct muster_range within(const struct grain_set *set, struct muster_range range)
{
    if (range.end > set->count)
        range.end = set->count;
    return range;
}

uint64_t grain_set_add(struct grain_set *set, struct muster_range range)
{
    uint64_t added = 0;
    range = within(set, range);
    for (uint64_t at = range.begin; at < range.end; at = next_word(at, range.end)) {
        uint64_t *word = &set->words[at / WORD_BITS], mask = mask_of(at, range.end);
        added += (uint64_t)__builtin_popcountll(mask & ~*word);
        *word |= mask;
    }
    set->members += added;
    return added;
}

uint64_t grain_set_remove(struct grain_set *set, struct muster_range range)
{
    uint64_t removed = 0;
    range = within(set, range);
    for (uint64_t at = range.begin; at < range.end; at = next_word(at, range.end)) {
        uint64_t *word = &set->words[at / WORD_BITS], mask = mask_of(at, range.end);
        removed += (uint64_t)__builtin_popcountll(mask & *word);
        *word &= ~mask;
    }
    set->members -= removed;
    return removed;
}

bool grain_set_has(const struct grain_set *set, uint64_t grain)
{
    return grain < set->count && (set->words[grain / WORD_BITS] >> grain % WORD_BITS & 1) > 0;
}

uint64_t grain_set_run_end(const struct grain_set *set, uint64_t from, uint64_t limit)
{
    if (limit > set->count)
        limit = set->count;
    bool is_member = grain_set_has(set, from);
    for (uint64_t at = from; at < limit; at = next_word(at, limit)) {
        uint64_t word = set->words[at / WORD_BITS];
        uint64_t others = (is_member ? ~word : word) & mask_of(at, limit);
        if (others != 0)
            return at - at % WORD_BITS + (uint64_t)__builtin_ctzll(others);
    }
    return limit;
}
