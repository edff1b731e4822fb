/*
 * From the places where a word may begin to what is found, with grep's rules: the longest word at
 * the first place, then on behind it; each line once. Is given the text of each input in pieces, in
 * order, on one thread. What a piece's end leaves open is kept until it is known: where lines are
 * wanted, or how a word stands in its line, a line that has not ended; else fewer bytes than the
 * longest word has.
 */
#ifndef JOBS_FINDER_H
#define JOBS_FINDER_H

#include "backward.h"

#define FINDER_PATIENCE ((uint64_t)1 << 20)
#define FINDER_WORK_PER_BYTE 32

enum finder_want {
    FINDER_COUNTS, /* how many lines have a word */
    FINDER_LINES,  /* those lines */
    FINDER_MATCHES /* every word */
};

struct finder_hit {
    uint64_t offset;      /* in its input, of the line or word */
    uint64_t line_number; /* from 1; 0 unless it was asked for */
    const uint8_t *bytes; /* without the newline */
    size_t length;
};

struct finder {
    enum finder_want want;
    bool is_numbered;
    bool has_empty;     /* the empty word, which every line has */
    bool is_word;       /* neither side of what is found has a letter, a digit or _ */
    bool is_whole;      /* what is found is a whole line; then is_word does not matter */
    bool is_inverted;   /* lines without a word are what is found; they have no matches */
    bool is_first_only; /* nothing is looked for after the first of an input */
    const struct automaton *automaton;
    /*
     * Of a text of n bytes the words at its places are compared for at most so much and
     * FINDER_WORK_PER_BYTE x n; then it is read backward.
     */
    uint64_t patience;
    /* False: nothing more is wanted. */
    bool (*hit)(void *user, const struct finder_hit *hit);
    void *user;
    /* The finder's own. */
    uint8_t *kept; /* owns: text that has been given and not dealt with */
    size_t kept_bytes, kept_capacity;
    uint64_t at;   /* offset in the input of the text to be dealt with */
    uint64_t next; /* offset before which nothing is looked for */
    bool is_in_counted_line;
    uint64_t match_end; /* of the last match: what follows is not held to stand beside a letter */
    uint64_t lines_told_to; /* inverted: offset of the first line that is not told or found yet */
    uint64_t work;          /* done at places of this input */
    struct backward backward;
    bool is_backward, has_no_memory;    /* `backward` is made; it could not be */
    uint64_t numbered_to, lines_before; /* newlines before that offset */
    /* Lines with a word so far; where every word is wanted, only whether it is 0 means something. */
    uint64_t count;
};

enum finder_result { FINDER_GOES_ON, FINDER_STOPPED, FINDER_NO_MEMORY };

/* Before the first piece of each input. */
void finder_begin(struct finder *finder);

/*
 * The next piece. Bit `mark_at` + i of `marks` says whether a word may begin at text[i]. `is_end`:
 * the input ends behind it.
 */
enum finder_result finder_take(struct finder *finder, const uint8_t *text, size_t length,
                               const uint64_t *marks, size_t mark_at, bool is_end);

/*
 * The first match in a whole line from `*at` on, which is set to its place: for those who show where in
 * the line it is. The match's length; 0: there is none.
 */
uint32_t finder_match(struct finder *finder, const uint8_t *line, size_t length, size_t *at);

void finder_deinit(struct finder *finder);

#endif
