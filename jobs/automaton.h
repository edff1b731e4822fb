/*
 * What a list of words is made into: one piece of memory without pointers, which devices keep
 * resident and the host reads too. Some 600 KiB, and about 50 bytes and its
 * own for each word.
 *
 *   rows    for each first pair of bytes, 64 bits by a hash of the next two: most of a text is
 *           turned away here
 *   pairs   for each pair of bytes: is it, or its first byte, a word; are there words of 3 bytes
 *   depths  by a hash of 4 bytes: how many more, up to 4, all words have that begin so
 *   starts  bits by a hash of this many bytes: most of what passed the rows is turned away here
 *   groups  a hash table of words' first 4 bytes and those more, and of words of 3
 *   words   sorted: a group's are neighbours, and are searched by halves
 *   bytes   of the words
 *   nibbles where words are few, for processors that look up 32 nibbles at a time: the words in 8
 *           buckets; for each of their first 3 bytes, by its low and by its high half, a byte with
 *           a bit for each bucket that has such a word
 */
#ifndef JOBS_AUTOMATON_H
#define JOBS_AUTOMATON_H

#include "words.h"

struct automaton {
    uint32_t *memory; /* owns */
    size_t bytes;
    uint32_t *parents; /* owns; for each word the longest other of its group it begins with, + 1 */
    uint32_t word_count;
    uint8_t fold[256]; /* what a byte of the text counts as: itself, or in lower case */
    uint32_t reach;    /* this many bytes from a place on always tell which word begins there */
    /* Words of 1 and 2 bytes: the kernel need not tell them apart. */
    uint8_t singles[256];
    uint32_t doubles[65536 / 32];
};

/*
 * From a sorted list, which is not needed afterwards. `is_folded`: case does not matter; the words have
 * been folded. False: no memory.
 */
bool automaton_init(struct automaton *automaton, const struct words *words, bool is_folded);
void automaton_deinit(struct automaton *automaton);

/* The length is not known: it depends on bytes behind those that are there. */
#define AUTOMATON_UNKNOWN UINT32_MAX

/* The letters of a word, in the order of the list; borrowed from the automaton. */
const uint8_t *automaton_word(const struct automaton *automaton, uint32_t index, uint32_t *length);

/*
 * The longest word that stands at the beginning of a text, its length; 0: none does. `is_all`: the
 * text ends after these bytes. `*work` grows by what it took: bytes and words that were compared.
 */
uint32_t automaton_longest(const struct automaton *automaton, const uint8_t *text, size_t length,
                           bool is_all, uint64_t *work);

/* The first place in [from, to) where a word may begin, `to` if there is none. */
size_t automaton_next(const struct automaton *automaton, const uint8_t *text, size_t from,
                      size_t to, size_t length);

#endif
