/*
 * The longest word at each place of a text, in a time that depends on the text's length alone: where
 * words repeat themselves and the text repeats them, comparing at each place takes as long as the
 * words are. A block of text is read from its end to its beginning through a trie of the words read
 * backward, which knows at each place the words that begin there. The trie takes some 20 bytes for
 * each byte of the words, so it is made when it is needed.
 */
#ifndef JOBS_BACKWARD_H
#define JOBS_BACKWARD_H

#include "automaton.h"

struct backward_node;

/* Zero-initialised it has nothing. */
struct backward {
    struct backward_node *nodes; /* owns; the first is the root */
    uint32_t *lengths;           /* owns: of the block's places */
    size_t block_bytes;          /* most places of a block */
    uint64_t begin, end;         /* offsets of the block's places in the input */
};

/* False: no memory, and it has nothing. */
bool backward_init(struct backward *backward, const struct automaton *automaton);
void backward_deinit(struct backward *backward);

/* Another input: what is known of a block is not of this one. */
void backward_forget(struct backward *backward);

/*
 * The length of the longest word at text[place], 0 if there is none; text[0] is at `offset` of its
 * input. Right for places at which `length` tells: the automaton's reach before it, or all of them
 * if the text ends there.
 */
uint32_t backward_longest(struct backward *backward, const struct automaton *automaton,
                          const uint8_t *text, size_t place, size_t length, uint64_t offset,
                          bool is_all);

#endif
