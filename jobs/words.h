/*
 * A list of words to look for, as `grep -F` understands it: lines of any bytes. Sorted, each once.
 */
#ifndef JOBS_WORDS_H
#define JOBS_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct word {
    size_t offset; /* of its first byte in the list's bytes */
    uint32_t length;
};

/* Zero-initialised it is empty. */
struct words {
    uint8_t *bytes; /* owns */
    size_t used, capacity;
    struct word *list; /* owns */
    size_t count, list_capacity;
    bool has_empty; /* also counts as a word; it is not in the list */
};

/*
 * Most words, and most bytes of them. Far above what is useful, and all that the automaton's 32-bit
 * numbers have to hold.
 */
#define WORDS_MAX (1u << 24)
#define WORDS_BYTES_MAX ((size_t)1 << 30)

enum words_result { WORDS_ADDED, WORDS_NO_MEMORY, WORDS_TOO_MANY };

/* Each line of the text is a word; text without any byte is the empty word. */
enum words_result words_add(struct words *words, const void *text, size_t bytes);

/*
 * The lines of a whole file: one that ends with a newline has no empty line after it, and one of no
 * bytes has no words.
 */
enum words_result words_add_file(struct words *words, const void *text, size_t bytes);

/* Makes A to Z lower case in all words. Before words_sort. */
void words_fold(struct words *words);

/* Sorts by bytes, a word before those that begin with it, and drops what is there twice. */
void words_sort(struct words *words);

void words_deinit(struct words *words);

#endif
