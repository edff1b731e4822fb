#include "words.h"

#include <stdlib.h>
#include <string.h>

static void *grow(void *memory, size_t *capacity, size_t needed, size_t item_bytes)
{
    size_t larger = *capacity * 2 > needed ? *capacity * 2 : needed;
    void *grown = realloc(memory, larger * item_bytes);
    if (grown)
        *capacity = larger;
    return grown;
}

static enum words_result add_line(struct words *words, const uint8_t *line, size_t length)
{
    if (length == 0) {
        words->has_empty = true;
        return WORDS_ADDED;
    }
    if (words->count == WORDS_MAX || length > WORDS_BYTES_MAX - words->used)
        return WORDS_TOO_MANY;
    if (words->used + length > words->capacity) {
        uint8_t *bytes = grow(words->bytes, &words->capacity, words->used + length, 1);
        if (!bytes)
            return WORDS_NO_MEMORY;
        words->bytes = bytes;
    }
    if (words->count == words->list_capacity) {
        struct word *list =
            grow(words->list, &words->list_capacity, words->count + 64, sizeof *list);
        if (!list)
            return WORDS_NO_MEMORY;
        words->list = list;
    }
    memcpy(words->bytes + words->used, line, length);
    words->list[words->count++] = (struct word){ words->used, (uint32_t)length };
    words->used += length;
    return WORDS_ADDED;
}

enum words_result words_add(struct words *words, const void *text, size_t bytes)
{
    const uint8_t *line = text;
    enum words_result result;
    for (;;) {
        const uint8_t *end = bytes > 0 ? memchr(line, '\n', bytes) : NULL;
        size_t length = end ? (size_t)(end - line) : bytes;
        result = add_line(words, line, length);
        if (result != WORDS_ADDED || !end)
            return result;
        line = end + 1;
        bytes -= length + 1;
    }
}

enum words_result words_add_file(struct words *words, const void *text, size_t bytes)
{
    if (bytes == 0)
        return WORDS_ADDED;
    const uint8_t *last = (const uint8_t *)text + bytes - 1;
    return words_add(words, text, *last == '\n' ? bytes - 1 : bytes);
}

void words_fold(struct words *words)
{
    for (size_t i = 0; i < words->used; i++)
        if (words->bytes[i] >= 'A' && words->bytes[i] <= 'Z')
            words->bytes[i] |= 0x20;
}

static int compare(const void *left, const void *right, void *user)
{
    const uint8_t *bytes = user;
    const struct word *a = left, *b = right;
    uint32_t common = a->length < b->length ? a->length : b->length;
    int order = memcmp(bytes + a->offset, bytes + b->offset, common);
    return order != 0 ? order : (a->length > b->length) - (a->length < b->length);
}

void words_sort(struct words *words)
{
    size_t kept = 0;
    if (words->count == 0)
        return;
    qsort_r(words->list, words->count, sizeof *words->list, compare, words->bytes);
    for (size_t i = 0; i < words->count; i++)
        if (kept == 0 || compare(&words->list[kept - 1], &words->list[i], words->bytes) != 0)
            words->list[kept++] = words->list[i];
    words->count = kept;
}

void words_deinit(struct words *words)
{
    free(words->bytes);
    free(words->list);
    *words = (struct words){ 0 };
}
