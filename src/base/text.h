/*
 * Numbers and sizes written by people: strict, so that a slip is refused and not half understood.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Decimal digits and nothing else: no sign, no space. False, and `out` untouched, if not so or
 * above 2^64-1.
 */
bool text_parse_u64(const char *text, uint64_t *out);

/*
 * A number of bytes: "1024", or with a unit right behind it. KiB MiB GiB TiB PiB EiB are powers of
 * 1024; kB MB GB TB PB EB powers of 1000; B is one byte. "80GiB", "1.5GiB"; a fraction must come
 * out at a whole number of bytes. Units are spelled exactly so: "K", "gb" and "1 GiB" are refused,
 * as is anything above 2^64-1. `out` is written only on success.
 */
bool text_parse_size(const char *text, uint64_t *out);

#endif
