/*
 * Random damage to texts, from a seed: what a fuzzer does, without coverage, for machines that have
 * none.
 */
#ifndef FUZZ_MUTATE_H
#define FUZZ_MUTATE_H

#include "base/random.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUTATE_BYTES_MAX 4096

/* Inserts what fits. Gives the new size. */
static inline size_t mutate_insert(char *text, size_t size, size_t at, const char *piece,
                                   size_t bytes)
{
    if (size + bytes > MUTATE_BYTES_MAX)
        return size;
    memmove(text + at + bytes, text + at, size - at);
    memcpy(text + at, piece, bytes);
    return size + bytes;
}

/*
 * One change to text[0..size): a byte, a piece removed, repeated or taken from `other`, a token.
 * Gives the new size.
 */
static inline size_t mutate_once(struct random *random, char *text, size_t size, const char *other)
{
    static const char *const tokens[] = {
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\u0000",
        "\\ud83d",
        "\\ude00",
        "null",
        "true",
        "-",
        "0",
        "1e999",
        "1e-999",
        "18446744073709551616",
        "\xff",
        "\xc3",
    };
    char piece[64];
    size_t at = random_below(random, size + 1);
    size_t bytes = random_below(random, sizeof piece);
    switch (random_below(random, 6)) {
    case 0:
        if (at < size)
            text[at] = (char)random_next(random);
        return size;
    case 1:
        bytes = bytes < size - at ? bytes : size - at;
        memmove(text + at, text + at + bytes, size - at - bytes);
        return size - bytes;
    case 2:
        bytes = bytes < size - at ? bytes : size - at;
        memcpy(piece, text + at, bytes);
        return mutate_insert(text, size, at, piece, bytes);
    case 3:
        other += random_below(random, strlen(other) + 1);
        return mutate_insert(text, size, at, other, bytes < strlen(other) ? bytes : strlen(other));
    case 4: {
        const char *token = tokens[random_below(random, sizeof tokens / sizeof *tokens)];
        return mutate_insert(text, size, at, token, strlen(token));
    }
    default:
        return at;
    }
}

/*
 * Gives `rounds` damaged texts to LLVMFuzzerTestOneInput, which stops the program if it finds
 * fault.
 */
static inline void mutate_all(uint64_t seed, const char *const *corpus, size_t count,
                              unsigned rounds)
{
    struct random random;
    random_init(&random, seed);
    static char text[MUTATE_BYTES_MAX];
    for (unsigned round = 0; round < rounds; round++) {
        const char *from = corpus[random_below(&random, count)];
        size_t size = strlen(from);
        memcpy(text, from, size);
        for (uint64_t changes = 1 + random_below(&random, 4); changes > 0; changes--)
            size = mutate_once(&random, text, size, corpus[random_below(&random, count)]);
        /* In memory of exactly its size, so that AddressSanitizer sees a read behind the end. */
        uint8_t *exact = malloc(size > 0 ? size : 1);
        if (!exact)
            abort();
        memcpy(exact, text, size);
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
}

#endif
