/*
 * A strict reader of JSON (RFC 8259) over a text in memory, read once from front to back.
 *
 * No memory is allocated and nothing recurses over the input. The first problem sticks: from then
 * on every call answers false, so a caller loops and asks once, at the end, whether json.problem is
 * set. Values carry their offset in the text; json_place turns it into a line and a column for a
 * message.
 *
 *     json_init(&json, text, bytes);
 *     if (json_read(&json, &value) && value.type == JSON_OBJECT)
 *         while (json_next_key(&json, &key))
 *             if (json_equals(&json, &key, "name")) json_read(&json, &name);
 *             else json_skip(&json);
 *     if (!json_finish(&json)) ... json.problem, json_place(&json, json.problem_at)
 *
 * Refused beside what the grammar refuses: text that is not UTF-8, a byte order mark, half of a
 * surrogate pair, nesting deeper than JSON_DEPTH_MAX. Keys that occur twice are the caller's to
 * notice.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_DEPTH_MAX 32

enum json_type {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
};

/*
 * A value, or a key, which is a string. Offsets are into the text; a string's include its quotes.
 */
struct json_value {
    enum json_type type;
    size_t begin, end; /* of an array or object: of its opening bracket */
};

struct json {
    const char *text; /* borrowed for as long as the reader is used */
    size_t bytes;
    size_t at;
    uint32_t depth;
    uint32_t objects;    /* bit d: what is open at depth d is an object */
    uint32_t begun;      /* bit d: it has given an element already */
    bool value_due;      /* the next thing must be a value */
    const char *problem; /* NULL: none so far; a constant text */
    size_t problem_at;
};

/* Line and column count from 1; a column is a character, not a byte. */
struct json_place {
    uint64_t line, column;
};

void json_init(struct json *json, const char *text, size_t bytes);

/*
 * Reads the next value. An array or object is entered: json_next_element or json_next_key then
 * gives what is in it.
 */
bool json_read(struct json *json, struct json_value *value);

/*
 * Is there another member in the innermost open object? Gives its key; its value is to be read or
 * skipped next.
 */
bool json_next_key(struct json *json, struct json_value *key);

/* Is there another element in the innermost open array? It is to be read or skipped next. */
bool json_next_element(struct json *json);

/* Reads over the next value and all that is in it. */
bool json_skip(struct json *json);

/* Nothing but white space is left, and there was no problem. */
bool json_finish(struct json *json);

struct json_place json_place(const struct json *json, size_t at);

/* Does the string say exactly this, escapes resolved? */
bool json_equals(const struct json *json, const struct json_value *string, const char *text);

/*
 * Copies the string as UTF-8, escapes resolved, with a terminator. False if it does not fit or
 * holds a zero character, which the copy could not show; the buffer is then empty.
 */
bool json_copy(const struct json *json, const struct json_value *string, char *buffer,
               size_t capacity);

/*
 * The number as a double: the nearest, ties to even, for up to 19 significant digits; what more
 * digits would add is cut off, which costs at most one unit in the last place. False if it is
 * beyond the largest double. The same bits on every machine.
 */
bool json_double(const struct json *json, const struct json_value *number, double *out);

/*
 * The number exactly: false if it is negative, has a fraction or is above 2^64-1. "4e3" and
 * "4000.0" are 4000.
 */
bool json_u64(const struct json *json, const struct json_value *number, uint64_t *out);

/*
 * The number x 10^decimals, rounded down: "0.25" with 6 decimals is 250000. False if it is negative
 * or above 2^64-1.
 */
bool json_scaled_u64(const struct json *json, const struct json_value *number, uint32_t decimals,
                     uint64_t *out);

/* "a number", "an object": for messages. */
const char *json_type_name(enum json_type type);

#endif
