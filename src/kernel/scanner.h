/*
 * The words of a text in C or one of its relatives, read once from front to back: comments, spaces
 * and line splices are skipped, a preprocessor line is one word. Nothing is allocated, nothing
 * recurses.
 */
#ifndef KERNEL_SCANNER_H
#define KERNEL_SCANNER_H

#include <stdbool.h>
#include <stddef.h>

enum word_kind {
    WORD_END,
    WORD_NAME,       /* an identifier; also the digits and letters of a number */
    WORD_LITERAL,    /* a string or a character */
    WORD_UNFINISHED, /* one that is not closed on its line, which it reaches to the end of */
    WORD_DIRECTIVE,  /* a preprocessor line with its continuations */
    WORD_SIGN        /* any other character */
};

struct word {
    enum word_kind kind;
    const char *text; /* borrowed from the scanned text */
    size_t bytes;
    size_t line; /* 1 is the first */
};

struct scanner {
    const char *text; /* borrowed */
    size_t bytes, at, line;
    bool is_fresh; /* nothing but space stood on this line yet */
};

void scanner_init(struct scanner *scanner, const char *text, size_t bytes);
/* For a text that begins in the middle of line `line`: a # there begins no directive. */
void scanner_init_within(struct scanner *scanner, const char *text, size_t bytes, size_t line);
/* False at the end. */
bool scanner_next(struct scanner *scanner, struct word *word);
bool word_is(const struct word *word, const char *text);

#endif
