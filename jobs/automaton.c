#include "automaton.h"

#include "scan_host.h"

#include <stdlib.h>
#include <string.h>

#define PAIRS 65536u
#define GROUP_BITS_MIN 4u
#define START_BITS_MIN 12u
#define START_BITS_MAX 24u
/* So many bits for each word, that few texts have a bit by chance. */
#define STARTS_PER_WORD 16u
/* With more, most places would pass the nibbles. */
#define NIBBLE_KEYS_MAX 64u
#define NIBBLE_BYTES (3u * 2u * 16u)

/* The first bytes of a word, as the kernel loads them; those it does not have are 0. */
static uint32_t key_of(const uint8_t *letters, uint32_t length)
{
    uint32_t key = 0;
    for (uint32_t i = 0; i < length && i < 4; i++)
        key |= (uint32_t)letters[i] << (8 * i);
    return key;
}

/* The same of a text, as its bytes count. */
static uint32_t text_key(const struct automaton *automaton, const uint8_t *text, size_t length)
{
    uint32_t key = key_of(text, length < 4 ? (uint32_t)length : 4);
    return automaton->fold['A'] == 'a' ? scan_fold(key) : key;
}

static void set_row(uint32_t *rows, uint32_t key)
{
    uint32_t bit = scan_row_bit(key);
    rows[(key & 0xffff) * 2 + (bit >> 5)] |= 1u << (bit & 31);
}

static void fill_row(uint32_t *rows, uint32_t *pairs, uint32_t pair)
{
    rows[pair * 2] = rows[pair * 2 + 1] = UINT32_MAX;
    pairs[pair >> 4] |= SCAN_PAIR_IS_HIT << (pair & 15) * 2;
}

/* What the first bytes of a word let pass. */
static void add_to_rows(struct automaton *automaton, uint32_t key, uint32_t length)
{
    uint32_t *memory = automaton->memory;
    uint32_t *rows = memory + memory[SCAN_AT_ROWS], *pairs = memory + memory[SCAN_AT_PAIRS];
    uint32_t pair = key & 0xffff;
    switch (length) {
    case 1:
        automaton->singles[key] = 1;
        for (uint32_t second = 0; second < 256; second++)
            fill_row(rows, pairs, pair | second << 8);
        break;
    case 2:
        automaton->doubles[pair >> 5] |= 1u << (pair & 31);
        fill_row(rows, pairs, pair);
        break;
    case 3:
        pairs[pair >> 4] |= SCAN_PAIR_HAS_TRIPLES << (pair & 15) * 2;
        for (uint32_t fourth = 0; fourth < 256; fourth++)
            set_row(rows, key | fourth << 24);
        break;
    default:
        set_row(rows, key);
    }
}

static void add_group(uint32_t *memory, uint32_t key, uint32_t more, uint32_t first, uint32_t count)
{
    uint32_t bits = memory[SCAN_GROUP_BITS];
    uint32_t *groups = memory + memory[SCAN_AT_GROUPS];
    uint32_t slot = scan_group_slot(key, more, count == 0, bits);
    while (groups[slot * SCAN_GROUP_WORDS + 2] != SCAN_GROUP_EMPTY)
        slot = (slot + 1) & ((1u << bits) - 1);
    uint32_t *group = groups + slot * SCAN_GROUP_WORDS;
    group[0] = key;
    group[1] = more;
    group[2] = first;
    group[3] = count;
}

/* Where the parts lie; the size of all of it in words. */
static size_t lay_out(uint32_t *header, const struct words *words)
{
    size_t bytes = 0;
    uint32_t bits = GROUP_BITS_MIN;
    for (size_t i = 0; i < words->count; i++)
        bytes += words->list[i].length;
    /* At most half full, so that a search soon meets a free place. */
    while ((size_t)1 << bits < 2 * words->count)
        bits++;
    header[SCAN_GROUP_BITS] = bits;
    header[SCAN_START_BITS] = START_BITS_MIN;
    while (header[SCAN_START_BITS] < START_BITS_MAX &&
           (size_t)1 << header[SCAN_START_BITS] < STARTS_PER_WORD * words->count)
        header[SCAN_START_BITS]++;
    header[SCAN_AT_ROWS] = SCAN_HEADER_WORDS;
    header[SCAN_AT_PAIRS] = header[SCAN_AT_ROWS] + PAIRS * (SCAN_ROW_BITS / 32);
    header[SCAN_AT_DEPTHS] = header[SCAN_AT_PAIRS] + PAIRS / 16;
    header[SCAN_AT_STARTS] = header[SCAN_AT_DEPTHS] + (1u << SCAN_DEPTH_BITS) / 8;
    header[SCAN_AT_GROUPS] = header[SCAN_AT_STARTS] + (1u << header[SCAN_START_BITS]) / 32;
    header[SCAN_AT_WORDS] = header[SCAN_AT_GROUPS] + (1u << bits) * SCAN_GROUP_WORDS;
    header[SCAN_AT_BYTES] = header[SCAN_AT_WORDS] + (uint32_t)words->count * SCAN_WORD_WORDS;
    header[SCAN_AT_NIBBLES] = header[SCAN_AT_BYTES] + (uint32_t)((bytes + 3) / 4);
    return header[SCAN_AT_NIBBLES] + NIBBLE_BYTES / 4;
}

_Static_assert(SCAN_HEADER_WORDS + (size_t)PAIRS * 2 + PAIRS / 16 + PAIRS / 8 +
                       ((size_t)1 << START_BITS_MAX) / 32 + NIBBLE_BYTES / 4 +
                       (size_t)WORDS_MAX * 4 * SCAN_GROUP_WORDS +
                       (size_t)WORDS_MAX * SCAN_WORD_WORDS + WORDS_BYTES_MAX / 4 <
                   UINT32_MAX,
               "every place in the automaton has a number of 32 bits");

static void copy_words(uint32_t *memory, const struct words *words)
{
    uint32_t *entry = memory + memory[SCAN_AT_WORDS];
    uint8_t *bytes = (uint8_t *)(memory + memory[SCAN_AT_BYTES]);
    uint32_t filled = 0;
    for (size_t i = 0; i < words->count; i++, entry += SCAN_WORD_WORDS) {
        const struct word *word = &words->list[i];
        memcpy(bytes + filled, words->bytes + word->offset, word->length);
        entry[0] = filled;
        entry[1] = entry[2] = word->length;
        filled += word->length;
    }
}

static const uint32_t *word_at(const uint32_t *memory, uint32_t index)
{
    return memory + memory[SCAN_AT_WORDS] + (size_t)index * SCAN_WORD_WORDS;
}

static const uint8_t *letters_of(const uint32_t *memory, const uint32_t *word)
{
    return (const uint8_t *)(memory + memory[SCAN_AT_BYTES]) + word[0];
}

static bool begins_with(const uint32_t *memory, const uint32_t *word, const uint32_t *other)
{
    return other[1] < word[1] &&
           memcmp(letters_of(memory, word), letters_of(memory, other), other[1]) == 0;
}

/*
 * A word's parent is among the word before it and that one's parents, since those that begin alike
 * are neighbours.
 */
static void find_parents(struct automaton *automaton, uint32_t first, uint32_t end)
{
    uint32_t *memory = automaton->memory;
    for (uint32_t i = first; i < end; i++) {
        uint32_t parent = i > first ? i : 0;
        uint32_t *word = memory + memory[SCAN_AT_WORDS] + (size_t)i * SCAN_WORD_WORDS;
        while (parent > 0 && !begins_with(memory, word, word_at(memory, parent - 1)))
            parent = automaton->parents[parent - 1];
        automaton->parents[i] = parent;
        if (parent > 0)
            word[2] = word_at(memory, parent - 1)[2];
    }
}

/* The first bytes of a word of at least 4, as far as the depth of the first 4 goes. */
struct start {
    uint32_t key, more;
};

static struct start start_of(const uint32_t *memory, const uint32_t *word)
{
    const uint8_t *letters = letters_of(memory, word);
    struct start start = { key_of(letters, 4), 0 };
    start.more = key_of(letters + 4, scan_depth(memory, start.key));
    return start;
}

/* The least of those that share a place, since all words there must have as many bytes. */
static void fill_depths(uint32_t *memory, uint32_t count)
{
    uint32_t *depths = memory + memory[SCAN_AT_DEPTHS];
    for (uint32_t i = 0; i < (1u << SCAN_DEPTH_BITS) / 8; i++)
        depths[i] = 0x11111111u * SCAN_DEPTH_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t *word = word_at(memory, i);
        uint32_t key = key_of(letters_of(memory, word), 4);
        if (word[1] < 4 || word[1] - 4 >= scan_depth(memory, key))
            continue;
        uint32_t slot = scan_depth_slot(key), shift = (slot & 7) * 4;
        depths[slot >> 3] = (depths[slot >> 3] & ~(15u << shift)) | (word[1] - 4) << shift;
    }
}

static void add_start(uint32_t *memory, struct start start)
{
    uint32_t bit = scan_hash(start.key, start.more) >> (32 - memory[SCAN_START_BITS]);
    memory[memory[SCAN_AT_STARTS] + (bit >> 5)] |= 1u << (bit & 31);
}

/* Words of at least 4 bytes from `first` on that begin alike; gives where they end. */
static uint32_t index_group(struct automaton *automaton, uint32_t first, uint32_t count)
{
    uint32_t *memory = automaton->memory, end = first + 1;
    struct start start = start_of(memory, word_at(memory, first));
    for (; end < count && word_at(memory, end)[1] >= 4; end++) {
        struct start other = start_of(memory, word_at(memory, end));
        if (other.key != start.key || other.more != start.more)
            break;
    }
    add_start(memory, start);
    add_group(memory, start.key, start.more, first, end - first);
    find_parents(automaton, first, end);
    return end;
}

static void index_words(struct automaton *automaton, uint32_t count)
{
    uint32_t *memory = automaton->memory;
    for (uint32_t first = 0, end; first < count; first = end) {
        const uint32_t *word = word_at(memory, first);
        uint32_t key = key_of(letters_of(memory, word), word[1]);
        add_to_rows(automaton, key, word[1]);
        end = first + 1;
        if (word[1] == 3)
            add_group(memory, key, 0, first, 0);
        if (word[1] >= 4)
            end = index_group(automaton, first, count);
    }
    automaton->reach = 4 + SCAN_DEPTH_MAX;
    for (uint32_t i = 0; i < count; i++)
        if (word_at(memory, i)[1] > automaton->reach)
            automaton->reach = word_at(memory, i)[1];
}

/* How many beginnings of 3 bytes the words have. They are sorted, so equal ones are neighbours. */
static uint32_t count_beginnings(const uint32_t *memory, uint32_t count)
{
    uint32_t beginnings = 0, last = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t *word = word_at(memory, i);
        uint32_t key = key_of(letters_of(memory, word), word[1] < 3 ? word[1] : 3);
        beginnings += i == 0 || key != last;
        last = key;
    }
    return beginnings;
}

/* Neighbours have the same bucket, since they begin alike. */
static void fill_nibbles(uint32_t *memory, uint32_t count)
{
    uint32_t beginnings = count_beginnings(memory, count);
    uint8_t *nibbles = (uint8_t *)(memory + memory[SCAN_AT_NIBBLES]);
    if (beginnings > NIBBLE_KEYS_MAX) {
        memory[SCAN_AT_NIBBLES] = 0;
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t *word = word_at(memory, i);
        const uint8_t *letters = letters_of(memory, word);
        uint8_t bucket = (uint8_t)(1u << (uint64_t)i * 8 / count);
        for (uint32_t k = 0; k < 3; k++)
            for (uint32_t half = 0; half < 16; half++) {
                bool is_any = k >= word[1];
                if (is_any || (letters[k] & 15u) == half)
                    nibbles[k * 32 + half] |= bucket;
                if (is_any || letters[k] >> 4 == half)
                    nibbles[k * 32 + 16 + half] |= bucket;
            }
    }
}

bool automaton_init(struct automaton *automaton, const struct words *words, bool is_folded)
{
    uint32_t header[SCAN_HEADER_WORDS] = { 0 };
    size_t size = lay_out(header, words);
    *automaton = (struct automaton){ .bytes = size * sizeof(uint32_t),
                                     .word_count = (uint32_t)words->count };
    for (uint32_t byte = 0; byte < 256; byte++)
        automaton->fold[byte] = (uint8_t)(is_folded ? scan_fold(byte) : byte);
    automaton->memory = calloc(size, sizeof(uint32_t));
    automaton->parents = calloc(words->count + 1, sizeof *automaton->parents);
    if (!automaton->memory || !automaton->parents) {
        automaton_deinit(automaton);
        return false;
    }
    memcpy(automaton->memory, header, sizeof header);
    memset(automaton->memory + header[SCAN_AT_GROUPS], 0xff,
           ((size_t)1 << header[SCAN_GROUP_BITS]) * SCAN_GROUP_WORDS * sizeof(uint32_t));
    copy_words(automaton->memory, words);
    fill_depths(automaton->memory, (uint32_t)words->count);
    index_words(automaton, (uint32_t)words->count);
    fill_nibbles(automaton->memory, (uint32_t)words->count);
    return true;
}

void automaton_deinit(struct automaton *automaton)
{
    free(automaton->memory);
    free(automaton->parents);
    *automaton = (struct automaton){ 0 };
}

const uint8_t *automaton_word(const struct automaton *automaton, uint32_t index, uint32_t *length)
{
    const uint32_t *word = word_at(automaton->memory, index);
    *length = word[1];
    return letters_of(automaton->memory, word);
}

/* The longest word of the group at the beginning of a text. */
static uint32_t longest_in_group(const struct automaton *automaton, uint32_t group,
                                 const uint8_t *text, size_t length, bool is_all, uint64_t *work)
{
    const uint32_t *memory = automaton->memory;
    uint32_t low = memory[group + 2], high = low + memory[group + 3];
    uint32_t before = 0; /* the last word that is not behind the text, + 1 */
    size_t before_same = 0;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const uint32_t *word = word_at(memory, middle);
        const uint8_t *letters = letters_of(memory, word);
        size_t same = 4;
        while (same < word[1] && same < length && automaton->fold[text[same]] == letters[same])
            same++;
        *work += same;
        if (same < word[1] && same == length && !is_all)
            return AUTOMATON_UNKNOWN;
        if (same < word[1] && (same == length || automaton->fold[text[same]] < letters[same])) {
            high = middle;
        } else {
            low = middle + 1;
            before = middle + 1;
            before_same = same;
        }
    }
    for (; before > 0 && word_at(memory, before - 1)[1] > before_same; ++*work)
        before = automaton->parents[before - 1];
    return before > 0 ? word_at(memory, before - 1)[1] : 0;
}

/* The same of words that no group has. */
static uint32_t longest_short(const struct automaton *automaton, uint32_t key, size_t length)
{
    const uint32_t *memory = automaton->memory;
    uint32_t pair = key & 0xffff;
    if (length >= 3 && (scan_pair(memory, key) & SCAN_PAIR_HAS_TRIPLES) &&
        scan_find_group(memory, key & 0xffffff, 0, 1))
        return 3;
    if (length >= 2 && automaton->doubles[pair >> 5] >> (pair & 31) & 1)
        return 2;
    return automaton->singles[key & 0xff];
}

uint32_t automaton_longest(const struct automaton *automaton, const uint8_t *text, size_t length,
                           bool is_all, uint64_t *work)
{
    const uint32_t *memory = automaton->memory;
    uint32_t key = text_key(automaton, text, length), found = 0;
    if (length < 4 && !is_all)
        return AUTOMATON_UNKNOWN;
    if (length >= 4 && !scan_may_begin(memory, key))
        return 0;
    uint32_t depth = scan_depth(memory, key);
    if (length >= 4 + depth) {
        uint32_t more = text_key(automaton, text + 4, depth);
        uint32_t group =
            scan_may_go_on(memory, key, more) ? scan_find_group(memory, key, more, 0) : 0;
        if (group)
            found = longest_in_group(automaton, group, text, length, is_all, work);
    } else if (!is_all) {
        return AUTOMATON_UNKNOWN;
    }
    return found > 0 || length == 0 ? found : longest_short(automaton, key, length);
}

size_t automaton_next(const struct automaton *automaton, const uint8_t *text, size_t from,
                      size_t to, size_t length)
{
    while (from < to && length - from >= 4 &&
           !scan_may_begin(automaton->memory, text_key(automaton, text + from, 4)))
        from++;
    return from;
}
