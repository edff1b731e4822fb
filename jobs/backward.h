/*
 * Finds the longest word at each place of a text in time that grows only with the text's length. To
 * compare the words at each place would take as long as the words are where a text repeats a word
 * that repeats itself (a^5000 b over a's). Instead a block of text is read from its end to its
 * beginning through a trie of the reversed words, whose state at a place gives the words that begin
 * there. The trie takes some 20 bytes for each byte of the words, so it is made only when it is
 * needed.
 */
#ifndef JOBS_BACKWARD_H
#define JOBS_BACKWARD_H

#include "automaton.h"

struct backward_node;

/* Zero-initialised it is empty. */
struct backward {
    struct backward_node *nodes; /* owns; the first is the root */
    uint32_t *lengths;           /* owns: of the block's places */
    size_t block_bytes;          /* most places of a block */
    uint64_t begin, end;         /* offsets of the block's places in the input */
};

/* False: no memory; it stays empty. */
bool backward_init(struct backward *backward, const struct automaton *automaton);
void backward_deinit(struct backward *backward);

/* Call it before another input: the lengths of the last block do not hold for that. */
void backward_forget(struct backward *backward);

/*
 * The length of the longest word at text[place], 0 if there is none; text[0] is at `offset` of its
 * input. `place` must be at least the automaton's reach before `length`, unless `is_all`: then the
 * input ends at `length`, and any place will do.
 */
uint32_t backward_longest(struct backward *backward, const struct automaton *automaton,
                          const uint8_t *text, size_t place, size_t length, uint64_t offset,
                          bool is_all);

#endif
