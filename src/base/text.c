#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Longer names are no slips of the finger. */
#define DISTANCE_BYTES_MAX 64

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/*
 * Reads the digits at the front and gives where they end; NULL if there is none or they exceed 64
 * bits.
 */
static const char *take_digits(const char *text, uint64_t *out)
{
    uint64_t number = 0;
    const char *at = text;
    for (; is_digit(*at); at++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number))
            return NULL;
    if (at == text)
        return NULL;
    *out = number;
    return at;
}

bool text_parse_u64(const char *text, uint64_t *out)
{
    uint64_t number;
    const char *end = take_digits(text, &number);
    if (!end || *end != '\0')
        return false;
    *out = number;
    return true;
}

/* What one of the unit is in bytes, 0 if there is no such unit. */
static uint64_t unit_bytes(const char *unit)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {
        { "", 1 },
        { "B", 1 },
        { "K", UINT64_C(1) << 10 },
        { "M", UINT64_C(1) << 20 },
        { "G", UINT64_C(1) << 30 },
        { "T", UINT64_C(1) << 40 },
        { "P", UINT64_C(1) << 50 },
        { "E", UINT64_C(1) << 60 },
        { "KiB", UINT64_C(1) << 10 },
        { "MiB", UINT64_C(1) << 20 },
        { "GiB", UINT64_C(1) << 30 },
        { "TiB", UINT64_C(1) << 40 },
        { "PiB", UINT64_C(1) << 50 },
        { "EiB", UINT64_C(1) << 60 },
        { "kB", UINT64_C(1000) },
        { "MB", UINT64_C(1000000) },
        { "GB", UINT64_C(1000000000) },
        { "TB", UINT64_C(1000000000000) },
        { "PB", UINT64_C(1000000000000000) },
        { "EB", UINT64_C(1000000000000000000) },
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].name) == 0)
            return units[i].bytes;
    return 0;
}

/* 0.digits, reduced; so 0.50 is 1/2. */
struct fraction {
    uint64_t above, below;
};

static const char *take_fraction(const char *text, struct fraction *out)
{
    uint64_t above = 0, below = 1;
    const char *at = text;
    /* Zeros at the end say nothing and could make the fraction seem too fine. */
    const char *end = text;
    for (; is_digit(*at); at++)
        if (*at != '0')
            end = at + 1;
    if (at == text)
        return NULL;
    for (const char *digit = text; digit < end; digit++) {
        if (__builtin_mul_overflow(below, 10, &below))
            return NULL;
        above = above * 10 + (uint64_t)(*digit - '0'); /* stays below `below` */
    }
    static const uint64_t primes[] = { 2, 5 };
    for (int i = 0; i < 2; i++)
        while (above % primes[i] == 0 && below % primes[i] == 0) {
            above /= primes[i];
            below /= primes[i];
        }
    *out = (struct fraction){ above, below };
    return at;
}

bool text_parse_size(const char *text, uint64_t *out)
{
    uint64_t whole, bytes;
    struct fraction fraction = { 0, 1 };
    const char *at = take_digits(text, &whole);
    if (at && *at == '.')
        at = take_fraction(at + 1, &fraction);
    if (!at)
        return false;
    uint64_t unit = unit_bytes(at);
    if (unit == 0 || unit % fraction.below != 0)
        return false;
    if (__builtin_mul_overflow(whole, unit, &bytes) ||
        __builtin_add_overflow(bytes, unit / fraction.below * fraction.above, &bytes))
        return false;
    *out = bytes;
    return true;
}

void text_put(struct text_room *room, const char *format, ...)
{
    size_t left = room->length < room->capacity ? room->capacity - room->length : 0;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(left > 0 ? room->text + room->length : NULL, left, format, arguments);
    va_end(arguments);
    if (length > 0)
        room->length += (size_t)length;
}

void text_each_line(const char *text, void (*take)(void *user, const char *line), void *user)
{
    char line[TEXT_LINE_BYTES];
    while (*text) {
        size_t bytes = strcspn(text, "\n");
        size_t taken = bytes < sizeof line ? bytes : sizeof line - 1;
        memcpy(line, text, taken);
        line[taken] = '\0';
        if (taken > 0)
            take(user, line);
        text += taken + (text[taken] == '\n');
    }
}

size_t text_distance(const char *one, size_t one_bytes, const char *other, size_t other_bytes,
                     size_t limit)
{
    size_t rows[3][DISTANCE_BYTES_MAX + 1];
    size_t apart = one_bytes > other_bytes ? one_bytes - other_bytes : other_bytes - one_bytes;
    if (one_bytes > DISTANCE_BYTES_MAX || other_bytes > DISTANCE_BYTES_MAX || apart >= limit)
        return limit;
    for (size_t k = 0; k <= other_bytes; k++)
        rows[0][k] = k;
    for (size_t i = 1; i <= one_bytes; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t k = 1; k <= other_bytes; k++) {
            size_t best = above[k - 1] + (one[i - 1] != other[k - 1]);
            best = above[k] + 1 < best ? above[k] + 1 : best;
            best = row[k - 1] + 1 < best ? row[k - 1] + 1 : best;
            if (i > 1 && k > 1 && one[i - 1] == other[k - 2] && one[i - 2] == other[k - 1] &&
                before[k - 2] + 1 < best)
                best = before[k - 2] + 1;
            row[k] = best;
        }
    }
    size_t distance = rows[one_bytes % 3][other_bytes];
    return distance < limit ? distance : limit;
}
