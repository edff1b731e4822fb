/*
 * UTF-8 read defensively: names come from drivers and files, and need not be valid.
 */
#ifndef CLI_UTF8_H
#define CLI_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define UTF8_REPLACEMENT 0xFFFDu

/*
 * Reads one character from `text`, which is not empty, and returns how many bytes it took, at
 * least 1. What is not valid UTF-8 (also surrogates, overlong forms, beyond U+10FFFF) is read as
 * UTF8_REPLACEMENT, one for each longest broken part.
 */
size_t utf8_read(const char *text, uint32_t *character);

/* How many characters `text` has, each broken part counted as one. */
size_t utf8_count(const char *text);

#endif
