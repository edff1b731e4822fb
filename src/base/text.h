/*
 * Text for and from people: numbers and sizes are read strictly, so that a slip is refused and not
 * half understood; what is written never runs over its room and says how much it would have taken.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Decimal digits and nothing else: no sign, no space. False, and `out` untouched, if not so or
 * above 2^64-1.
 */
bool text_parse_u64(const char *text, uint64_t *out);

/*
 * A number of bytes: "1024", or with a unit right behind it. KiB MiB GiB TiB PiB EiB are powers of
 * 1024, and so are K M G T P E, as other commands have them; kB MB GB TB PB EB powers of 1000; B is one byte. "80GiB", "1.5GiB"; a fraction must come
 * out at a whole number of bytes. Units are spelled exactly so: "k", "gb" and "1 GiB" are refused,
 * as is anything above 2^64-1. `out` is written only on success.
 */
bool text_parse_size(const char *text, uint64_t *out);

/*
 * How many characters must be changed, added, removed or swapped to make one name the other; `limit` if
 * that many or more.
 */
size_t text_distance(const char *one, size_t one_bytes, const char *other, size_t other_bytes,
                     size_t limit);

/* Text that grows in a place of a fixed size; starts as { place, capacity, 0 }. */
struct text_room {
    char *text; /* borrowed; may be NULL if capacity is 0 */
    size_t capacity;
    size_t length; /* of all that was put, whether it fitted or not; without the zero byte */
};

/* Appends as far as it fits, always with a zero byte where there is room for one. */
void text_put(struct text_room *room, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* Each line of the text that is not empty, in pieces of at most TEXT_LINE_BYTES - 1 characters. */
#define TEXT_LINE_BYTES 400
void text_each_line(const char *text, void (*take)(void *user, const char *line), void *user);

#endif
