#include "scan_function.h"

#include "scan_host.h"

#include <stdbool.h>

/* Text that one call has to do, and where it is in it. */
struct passage {
    const uint8_t *text;
    size_t length;
    const uint32_t *automaton;
    bool is_by_line;
    size_t next; /* places before it do not matter */
};

/* Which of the 64 places from `at` on may begin a word, by their first 4 bytes. */
static uint64_t sift(const struct passage *passage, size_t at)
{
    const uint32_t *rows = passage->automaton + passage->automaton[SCAN_AT_ROWS];
    const uint8_t *text = passage->text + at;
    uint64_t bits = 0;
    /* No branch: what passes is as good as random where the words are many. */
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t key = scan_load(text + i), bit = scan_row_bit(key);
        uint32_t row = rows[(key & 0xffff) * 2 + (bit >> 5)];
        bits |= (uint64_t)(row >> (bit & 31) & 1) << i;
    }
    return bits;
}

/* The same for the end, where fewer than 4 bytes may be left: nothing is known of such places. */
static uint64_t sift_end(const struct passage *passage, size_t at)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < 64; i++) {
        bool has_key = passage->length - at - i >= 4;
        if (!has_key || scan_may_begin(passage->automaton, scan_load(passage->text + at + i)))
            bits |= (uint64_t)1 << i;
    }
    return bits;
}

static uint32_t check(const struct passage *passage, size_t at)
{
    size_t left = passage->length - at;
    if (left < 4)
        return SCAN_UNKNOWN;
    return scan_check(passage->automaton, scan_load(passage->text + at), passage->text + at,
                      left < UINT32_MAX ? (uint32_t)left : UINT32_MAX);
}

/* Of 64 places that may begin a word, those that do or of which it is not known. */
static uint64_t check_all(struct passage *passage, size_t at, uint64_t bits)
{
    uint64_t kept = 0;
    while (bits != 0) {
        uint32_t i = (uint32_t)__builtin_ctzll(bits);
        uint32_t found = check(passage, at + i);
        bits &= bits - 1;
        if (found == SCAN_NO)
            continue;
        kept |= (uint64_t)1 << i;
        if (found == SCAN_UNKNOWN || !passage->is_by_line)
            continue;
        const uint8_t *end = memchr(passage->text + at + i, '\n', passage->length - at - i);
        passage->next = end ? (size_t)(end - passage->text) : passage->length;
        if (passage->next >= at + 64)
            break;
        bits &= UINT64_MAX << (passage->next - at);
    }
    return kept;
}

muster_status scan_function(uint64_t begin, uint64_t end, void *const *args)
{
    struct passage passage = { .text = *(const uint8_t *const *)args[0] + begin * SCAN_ITEM,
                               .length = (size_t)(end - begin) * SCAN_ITEM,
                               .automaton = *(const uint32_t *const *)args[1],
                               .is_by_line = *(const uint32_t *)args[2] != 0 };
    uint64_t *marks = *(uint64_t *const *)args[3] + begin * SCAN_ITEM_MARKS;
    for (size_t at = 0; at < passage.length; at += 64) {
        uint64_t bits = 0;
        if (passage.next < at + 64) {
            bits = at + 64 + 3 <= passage.length ? sift(&passage, at) : sift_end(&passage, at);
            if (passage.next > at)
                bits &= UINT64_MAX << (passage.next - at);
            bits = check_all(&passage, at, bits);
        }
        marks[at / 64] = bits;
    }
    return MUSTER_OK;
}
