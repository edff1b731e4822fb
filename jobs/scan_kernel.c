/*
 * The kernel of `scan`, in the portable form: each item is SCAN_ITEM bytes of text, and what comes
 * out is a bit for each of them that says whether a word may begin there. Where the item's own bytes,
 * or a few of a long word's, do not suffice to tell, the bit is set: its reader looks again. The same functions serve the
 * host, which includes this file; automaton.h says what is in the automaton.
 */
#include <muster_kernel.h>

#define SCAN_ITEM 1024u
#define SCAN_ITEM_MARKS (SCAN_ITEM / 64u)

/* The automaton's first words: where its parts lie, counted in words from its beginning. */
#define SCAN_AT_ROWS 0
#define SCAN_AT_PAIRS 1
#define SCAN_AT_GROUPS 2
#define SCAN_AT_WORDS 3
#define SCAN_AT_BYTES 4
#define SCAN_GROUP_BITS 5
#define SCAN_AT_NIBBLES 6 /* 0: there are none */
#define SCAN_AT_DEPTHS 7
#define SCAN_AT_STARTS 8
#define SCAN_START_BITS 9
#define SCAN_HEADER_WORDS 10

/* A row for each pair of bytes, with a bit for each hash of the two that follow. */
#define SCAN_ROW_BITS 64u
#define SCAN_ROW_FACTOR 0x9e3779b1u
/* What a pair has: 2 bits. */
#define SCAN_PAIR_IS_HIT 1u
#define SCAN_PAIR_HAS_TRIPLES 2u
/* For each hash of 4 bytes how many more, up to 4, all words that begin so have. */
#define SCAN_DEPTH_BITS 16u
#define SCAN_DEPTH_MAX 4u
/* A group is 4 bytes, those more, the first word and how many begin so. No count: a triple. */
#define SCAN_GROUP_WORDS 4u
#define SCAN_GROUP_EMPTY 0xffffffffu
/* A word is where its bytes are, its length, and that of the shortest in its group it begins with. */
#define SCAN_WORD_WORDS 3u

/* What the kernel is asked for. */
#define SCAN_BY_LINE                                                                               \
    1u               /* after a word that is there for sure the rest of its line does not matter */
#define SCAN_FOLD 2u /* the words are in lower case, and the text's letters are compared as such */

/* This many bytes of a word are compared; where more would have to be, it is not known. */
#define SCAN_COMPARED_MAX 32u

#define SCAN_NO 0u
#define SCAN_YES 1u
#define SCAN_UNKNOWN 2u

/* 4 bytes with A to Z in lower case; other bytes stay. */
static uint32_t scan_fold(uint32_t bytes)
{
    uint32_t low = bytes & 0x7f7f7f7fu;
    uint32_t from_a = low + 0x3f3f3f3fu, after_z = low + 0x25252525u;
    return bytes | (from_a & ~after_z & ~bytes & 0x80808080u) >> 2;
}

/* Which bit of a row the 4 bytes in `key` have. */
static uint32_t scan_row_bit(uint32_t key)
{
    return ((key >> 16) * SCAN_ROW_FACTOR) >> 26;
}

/* Whether a word may begin with the 4 bytes in `key`. */
static uint32_t scan_may_begin(MUSTER_GLOBAL const uint32_t *automaton, uint32_t key)
{
    uint32_t bit = scan_row_bit(key);
    MUSTER_GLOBAL const uint32_t *rows = automaton + automaton[SCAN_AT_ROWS];
    return (rows[(key & 0xffffu) * 2u + (bit >> 5)] >> (bit & 31u)) & 1u;
}

static uint32_t scan_pair(MUSTER_GLOBAL const uint32_t *automaton, uint32_t key)
{
    uint32_t pair = key & 0xffffu;
    return (automaton[automaton[SCAN_AT_PAIRS] + (pair >> 4)] >> ((pair & 15u) * 2u)) & 3u;
}

static uint32_t scan_depth_slot(uint32_t key)
{
    return (key * 0x9e3779b1u) >> (32u - SCAN_DEPTH_BITS);
}

/* How many bytes behind the 4 in `key` all words have that begin so. */
static uint32_t scan_depth(MUSTER_GLOBAL const uint32_t *automaton, uint32_t key)
{
    uint32_t slot = scan_depth_slot(key);
    return automaton[automaton[SCAN_AT_DEPTHS] + (slot >> 3)] >> (slot & 7u) * 4u & 15u;
}

/* The first `depth` bytes of 4. */
static uint32_t scan_first(uint32_t bytes, uint32_t depth)
{
    return bytes & (uint32_t)(((uint64_t)1 << depth * 8u) - 1u);
}

static uint32_t scan_hash(uint32_t key, uint32_t more)
{
    uint32_t hash = key * 0x85ebca6bu ^ (more + 0x165667b1u) * 0xc2b2ae35u;
    return (hash ^ hash >> 15) * 0x27d4eb2fu;
}

/* Whether a word of 4 bytes or more may begin with these: many texts have the first 4 of some word. */
static uint32_t scan_may_go_on(MUSTER_GLOBAL const uint32_t *automaton, uint32_t key, uint32_t more)
{
    uint32_t hash = scan_hash(key, scan_first(more, scan_depth(automaton, key)));
    uint32_t bit = hash >> (32u - automaton[SCAN_START_BITS]);
    return automaton[automaton[SCAN_AT_STARTS] + (bit >> 5)] >> (bit & 31u) & 1u;
}

static uint32_t scan_group_slot(uint32_t key, uint32_t more, uint32_t is_triple, uint32_t bits)
{
    uint32_t hash = scan_hash(is_triple ? ~key : key, more);
    return (hash ^ hash >> 16) & ((1u << bits) - 1u);
}

/* Where the group is, in words from the automaton's beginning; 0: there is none. */
static uint32_t scan_find_group(MUSTER_GLOBAL const uint32_t *automaton, uint32_t key,
                                uint32_t more, uint32_t is_triple)
{
    uint32_t bits = automaton[SCAN_GROUP_BITS];
    uint32_t slot = scan_group_slot(key, more, is_triple, bits);
    for (;;) {
        uint32_t at = automaton[SCAN_AT_GROUPS] + slot * SCAN_GROUP_WORDS;
        if (automaton[at + 2u] == SCAN_GROUP_EMPTY)
            return 0;
        if (automaton[at] == key && automaton[at + 1u] == more &&
            (automaton[at + 3u] == 0u) == (is_triple != 0u))
            return at;
        slot = (slot + 1u) & ((1u << bits) - 1u);
    }
}

/*
 * Whether a word of the group is what the text begins with, of which `length` bytes are known. Any
 * word that shares enough with the text for its shortest beginning will do.
 */
static uint32_t scan_search_group(MUSTER_GLOBAL const uint32_t *automaton, uint32_t group,
                                  MUSTER_GLOBAL const uint8_t *text, uint32_t length,
                                  uint32_t flags)
{
    MUSTER_GLOBAL const uint8_t *bytes =
        (MUSTER_GLOBAL const uint8_t *)(automaton + automaton[SCAN_AT_BYTES]);
    uint32_t low = automaton[group + 2u], high = low + automaton[group + 3u];
    uint32_t known = length < SCAN_COMPARED_MAX ? length : SCAN_COMPARED_MAX;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2u, same = 4u;
        uint32_t word = automaton[SCAN_AT_WORDS] + middle * SCAN_WORD_WORDS;
        MUSTER_GLOBAL const uint8_t *letters = bytes + automaton[word];
        uint32_t enough = automaton[word + 2u], letter = 0u;
        for (; same < enough && same < known; same++) {
            letter = flags & SCAN_FOLD ? scan_fold(text[same]) : text[same];
            if (letter != letters[same])
                break;
        }
        if (same >= enough)
            return SCAN_YES;
        if (same >= known)
            return SCAN_UNKNOWN;
        if (letter < letters[same])
            high = middle;
        else
            low = middle + 1u;
    }
    return SCAN_NO;
}

/* Whether a word begins the text, which has its first 4 bytes in `key` and passed the rows. */
static uint32_t scan_check(MUSTER_GLOBAL const uint32_t *automaton, uint32_t key,
                           MUSTER_GLOBAL const uint8_t *text, uint32_t length, uint32_t flags)
{
    uint32_t pair = scan_pair(automaton, key), depth, more = 0u, group;
    if (pair & SCAN_PAIR_IS_HIT)
        return SCAN_YES;
    if ((pair & SCAN_PAIR_HAS_TRIPLES) && scan_find_group(automaton, key & 0xffffffu, 0u, 1u))
        return SCAN_YES;
    depth = scan_depth(automaton, key);
    if (length < 4u + depth)
        return SCAN_UNKNOWN;
    for (uint32_t k = 0; k < depth; k++)
        more |= (uint32_t)text[4u + k] << (8u * k);
    if (flags & SCAN_FOLD)
        more = scan_fold(more);
    if (!scan_may_go_on(automaton, key, more))
        return SCAN_NO;
    group = scan_find_group(automaton, key, more, 0u);
    return group ? scan_search_group(automaton, group, text, length, flags) : SCAN_NO;
}

/* Which of the 4 places in `low` may begin a word; `high` is what follows. */
static uint32_t scan_sift(MUSTER_GLOBAL const uint32_t *automaton, uint32_t low, uint32_t high)
{
    uint32_t may = scan_may_begin(automaton, low);
    may |= scan_may_begin(automaton, low >> 8 | high << 24) << 1;
    may |= scan_may_begin(automaton, low >> 16 | high << 16) << 2;
    return may | scan_may_begin(automaton, low >> 24 | high << 8) << 3;
}

MUSTER_KERNEL void scan(uint64_t item, MUSTER_GLOBAL const uint8_t *texts,
                        MUSTER_GLOBAL const uint32_t *automaton, uint32_t flags,
                        MUSTER_GLOBAL uint64_t *marks)
{
    MUSTER_GLOBAL const uint8_t *text = texts + item * SCAN_ITEM;
    MUSTER_GLOBAL const uint32_t *quads = (MUSTER_GLOBAL const uint32_t *)text;
    const uint32_t last = SCAN_ITEM / 4u - 1u;
    uint32_t next = 0, low = flags & SCAN_FOLD ? scan_fold(quads[0]) : quads[0];
    uint64_t bits = 0;
    for (uint32_t quad = 0; quad <= last; quad++) {
        uint32_t high = quad < last ? quads[quad + 1u] : 0u;
        uint32_t may;
        if (flags & SCAN_FOLD)
            high = scan_fold(high);
        may = scan_sift(automaton, low, high);
        /* Of the last 3 places not even 4 bytes are known. */
        if (quad == last)
            may |= 14u;
        for (uint32_t k = 0; may >> k != 0u; k++) {
            uint32_t at = quad * 4u + k, found = SCAN_UNKNOWN;
            if (at < next || (may >> k & 1u) == 0u)
                continue;
            if (at + 4u <= SCAN_ITEM) {
                uint32_t key = k ? low >> k * 8u | high << (32u - k * 8u) : low;
                found = scan_check(automaton, key, text + at, SCAN_ITEM - at, flags);
            }
            if (found != SCAN_NO)
                bits |= (uint64_t)1 << (at % 64u);
            if (found == SCAN_YES && (flags & SCAN_BY_LINE)) {
                next = at;
                while (next < SCAN_ITEM && text[next] != 10u)
                    next++;
            }
        }
        if (quad % 16u == 15u) {
            marks[item * SCAN_ITEM_MARKS + quad / 16u] = bits;
            bits = 0;
        }
        low = high;
    }
}
