/*
 * UTF-8 read defensively: names come from drivers and files, and need not be valid.
 */
#ifndef CLI_UTF8_H
#define CLI_UTF8_H

#include <stdbool.h>
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

/*
 * Whether a character could steer a terminal: C0, delete, and C1, which some terminals obey like an
 * escape sequence.
 */
bool utf8_is_control(uint32_t character);

/*
 * What may be shown on a terminal of the first character of `text`, which is not empty: itself, or
 * "?" for a control character, a newline among them, and for what is not valid. Gives how many bytes
 * of `text` it took; `*shown` has `*shown_bytes` and is not terminated. All that names and messages
 * bring to a terminal goes through here.
 */
size_t utf8_show(const char *text, const char **shown, size_t *shown_bytes);

/* The same of a whole text, as much as fits; terminated. */
void utf8_show_all(const char *text, char *out, size_t room);

#endif
