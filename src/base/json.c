#include "base/json.h"

#include "base/invariant.h"

#include <float.h>
#include <string.h>

_Static_assert(JSON_DEPTH_MAX <= 32, "one bit per depth in json.objects and json.begun");
_Static_assert(DBL_MANT_DIG == 53 && DBL_MAX_EXP == 1024 && sizeof(double) == 8,
               "binary64 is built bit by bit");

static bool fail_at(struct json *json, size_t at, const char *problem)
{
    if (!json->problem) {
        json->problem = problem;
        json->problem_at = at;
    }
    return false;
}

static bool fail(struct json *json, const char *problem)
{
    return fail_at(json, json->at, problem);
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

/* The byte there, or -1 behind the end. */
static int byte_at(const struct json *json, size_t at)
{
    return at < json->bytes ? (unsigned char)json->text[at] : -1;
}

static void skip_space(struct json *json)
{
    for (;;) {
        int c = byte_at(json, json->at);
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
            return;
        json->at++;
    }
}

/*
 * How many bytes the UTF-8 character at `at` has, 0 if there is none: not UTF-8, or cut off by the
 * end.
 */
static size_t utf8_length(const struct json *json, size_t at)
{
    int first = byte_at(json, at);
    if (first < 0x80)
        return first >= 0 ? 1 : 0;
    /* The second byte's range shuts out overlong forms, surrogates and what is above U+10FFFF. */
    int low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    int high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    int second = byte_at(json, at + 1);
    if (length == 0 || second < low || second > high)
        return 0;
    for (size_t i = 2; i < length; i++) {
        int next = byte_at(json, at + i);
        if (next < 0x80 || next > 0xbf)
            return 0;
    }
    return length;
}

/* The four hexadecimal digits at `at`, or -1. */
static int32_t hex4(const struct json *json, size_t at)
{
    int32_t code = 0;
    for (size_t i = 0; i < 4; i++) {
        int c = byte_at(json, at + i);
        int digit = is_digit(c)            ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        code = code * 16 + digit;
    }
    return code;
}

static size_t utf8_encode(uint32_t code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    out[0] = (char)(first[length] | code);
    return length;
}

/* One character of a string, as UTF-8. */
struct character {
    char bytes[4];
    size_t length;
    size_t source_bytes; /* how much of the text stands for it */
    const char *problem;
};

static struct character escaped_code(const struct json *json, size_t at)
{
    struct character out = { .source_bytes = 6 };
    int32_t code = hex4(json, at + 2);
    if (code < 0) {
        out.problem = "\\u must be followed by four hexadecimal digits";
        return out;
    }
    if (code >= 0xd800 && code <= 0xdfff) {
        int32_t low =
            byte_at(json, at + 6) == '\\' && byte_at(json, at + 7) == 'u' ? hex4(json, at + 8) : -1;
        if (code >= 0xdc00 || low < 0xdc00 || low > 0xdfff) {
            out.problem = "half of a surrogate pair";
            return out;
        }
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        out.source_bytes = 12;
    }
    out.length = utf8_encode((uint32_t)code, out.bytes);
    return out;
}

/* The character that begins at `at`, which is inside a string and not its closing quote. */
static struct character character_at(const struct json *json, size_t at)
{
    int c = byte_at(json, at);
    struct character out = { .length = 1, .source_bytes = 1 };
    if (c < 0) {
        out.problem = "the text ends inside a string";
    } else if (c < 0x20) {
        out.problem = "a control character in a string must be written as an escape";
    } else if (c != '\\') {
        out.length = out.source_bytes = utf8_length(json, at);
        memcpy(out.bytes, json->text + at, out.length);
        if (out.length == 0)
            out.problem = "not UTF-8";
    } else {
        static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
        int letter = byte_at(json, at + 1);
        if (letter == 'u')
            return escaped_code(json, at);
        const char *found = letter > 0 ? strchr(letters, letter) : NULL;
        if (!found)
            out.problem = "an unknown escape in a string";
        else
            out.bytes[0] = meanings[found - letters];
        out.source_bytes = 2;
    }
    return out;
}

static bool read_string(struct json *json, struct json_value *value)
{
    value->type = JSON_STRING;
    value->begin = json->at++;
    while (byte_at(json, json->at) != '"') {
        struct character character = character_at(json, json->at);
        if (character.problem)
            return fail(json, character.problem);
        json->at += character.source_bytes;
    }
    value->end = ++json->at;
    return true;
}

static bool skip_digits(struct json *json, const char *problem)
{
    if (!is_digit(byte_at(json, json->at)))
        return fail(json, problem);
    while (is_digit(byte_at(json, json->at)))
        json->at++;
    return true;
}

static bool read_number(struct json *json, struct json_value *value)
{
    value->type = JSON_NUMBER;
    value->begin = json->at;
    if (byte_at(json, json->at) == '-')
        json->at++;
    if (byte_at(json, json->at) == '0') {
        json->at++;
        if (is_digit(byte_at(json, json->at)))
            return fail_at(json, json->at - 1, "a number must not begin with a needless 0");
    } else if (!skip_digits(json, "a number needs a digit here")) {
        return false;
    }
    if (byte_at(json, json->at) == '.') {
        json->at++;
        if (!skip_digits(json, "a number needs a digit after its point"))
            return false;
    }
    int c = byte_at(json, json->at);
    if (c == 'e' || c == 'E') {
        json->at++;
        c = byte_at(json, json->at);
        if (c == '+' || c == '-')
            json->at++;
        if (!skip_digits(json, "a number needs a digit in its exponent"))
            return false;
    }
    value->end = json->at;
    return true;
}

static bool is_word(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
}

static bool read_word(struct json *json, struct json_value *value)
{
    static const struct {
        const char *text;
        enum json_type type;
    } words[] = { { "null", JSON_NULL }, { "false", JSON_FALSE }, { "true", JSON_TRUE } };
    size_t length = 0;
    while (is_word(byte_at(json, json->at + length)))
        length++;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (length != strlen(words[i].text) ||
            memcmp(json->text + json->at, words[i].text, length) != 0)
            continue;
        *value = (struct json_value){ words[i].type, json->at, json->at + length };
        json->at += length;
        return true;
    }
    return fail(json, byte_at(json, json->at) < 0 ? "the text ends where a value should be"
                                                  : "not a JSON value");
}

static bool open_container(struct json *json, struct json_value *value, enum json_type type)
{
    if (json->depth == JSON_DEPTH_MAX)
        return fail(json, "nested too deeply");
    uint32_t bit = UINT32_C(1) << json->depth++;
    json->objects = type == JSON_OBJECT ? json->objects | bit : json->objects & ~bit;
    json->begun &= ~bit;
    *value = (struct json_value){ type, json->at, json->at + 1 };
    json->at++;
    return true;
}

void json_init(struct json *json, const char *text, size_t bytes)
{
    *json = (struct json){ .text = text, .bytes = bytes, .value_due = true };
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        fail(json, "a byte order mark must not stand before JSON");
}

bool json_read(struct json *json, struct json_value *value)
{
    if (json->problem)
        return false;
    INVARIANT(json->value_due);
    json->value_due = false;
    skip_space(json);
    int c = byte_at(json, json->at);
    if (c == '"')
        return read_string(json, value);
    if (c == '-' || is_digit(c))
        return read_number(json, value);
    if (c == '{' || c == '[')
        return open_container(json, value, c == '{' ? JSON_OBJECT : JSON_ARRAY);
    return read_word(json, value);
}

static bool in_object(const struct json *json)
{
    return json->objects >> (json->depth - 1) & 1;
}

/* Steps over the comma before the next element, or over the bracket that ends them all. */
static bool next_in_container(struct json *json)
{
    bool object = in_object(json);
    uint32_t bit = UINT32_C(1) << (json->depth - 1);
    skip_space(json);
    int c = byte_at(json, json->at);
    if (c == (object ? '}' : ']')) {
        json->at++;
        json->depth--;
        return false;
    }
    if (json->begun & bit) {
        if (c != ',')
            return fail(json,
                        object ? "',' or '}' must follow here" : "',' or ']' must follow here");
        json->at++;
        skip_space(json);
    }
    json->begun |= bit;
    return true;
}

bool json_next_key(struct json *json, struct json_value *key)
{
    if (json->problem)
        return false;
    INVARIANT(!json->value_due && json->depth > 0 && in_object(json));
    if (!next_in_container(json))
        return false;
    if (byte_at(json, json->at) != '"')
        return fail(json, "a key in quotes must stand here");
    if (!read_string(json, key))
        return false;
    skip_space(json);
    if (byte_at(json, json->at) != ':')
        return fail(json, "':' must follow a key");
    json->at++;
    json->value_due = true;
    return true;
}

bool json_next_element(struct json *json)
{
    if (json->problem)
        return false;
    INVARIANT(!json->value_due && json->depth > 0 && !in_object(json));
    json->value_due = next_in_container(json);
    return json->value_due;
}

bool json_skip(struct json *json)
{
    uint32_t depth = json->depth;
    struct json_value ignored;
    if (!json_read(json, &ignored))
        return false;
    while (json->depth > depth) {
        bool more = in_object(json) ? json_next_key(json, &ignored) : json_next_element(json);
        if (more)
            json_read(json, &ignored);
        if (json->problem)
            return false;
    }
    return true;
}

bool json_finish(struct json *json)
{
    if (json->problem)
        return false;
    INVARIANT(!json->value_due && json->depth == 0);
    skip_space(json);
    return json->at == json->bytes || fail(json, "nothing may follow the end of the value");
}

struct json_place json_place(const struct json *json, size_t at)
{
    struct json_place place = { 1, 1 };
    for (size_t i = 0; i < at && i < json->bytes; i++) {
        unsigned char c = (unsigned char)json->text[i];
        if (c == '\n')
            place = (struct json_place){ place.line + 1, 1 };
        else if (c < 0x80 || c > 0xbf) /* not within a character */
            place.column++;
    }
    return place;
}

bool json_equals(const struct json *json, const struct json_value *string, const char *text)
{
    size_t at = string->begin + 1;
    size_t left = strlen(text);
    while (at < string->end - 1) {
        struct character character = character_at(json, at);
        if (character.length > left || memcmp(character.bytes, text, character.length) != 0)
            return false;
        text += character.length;
        left -= character.length;
        at += character.source_bytes;
    }
    return left == 0;
}

bool json_copy(const struct json *json, const struct json_value *string, char *buffer,
               size_t capacity)
{
    size_t used = 0;
    for (size_t at = string->begin + 1; at < string->end - 1;) {
        struct character character = character_at(json, at);
        if (used + character.length >= capacity || character.bytes[0] == '\0') {
            if (capacity > 0)
                buffer[0] = '\0';
            return false;
        }
        memcpy(buffer + used, character.bytes, character.length);
        used += character.length;
        at += character.source_bytes;
    }
    if (used >= capacity)
        return false;
    buffer[used] = '\0';
    return true;
}

/* Beyond these a number of 64 bits x 10^exponent is 0 or infinite, whatever its digits are. */
#define EXPONENT_MAX 400
#define EXPONENT_MIN (-400)

/* digits x 10^exponent; `cut`: the text has further digits other than 0, which did not fit. */
struct decimal {
    bool negative, cut;
    uint64_t digits;
    int64_t exponent;
};

static int64_t exponent_of(const struct json *json, size_t at, size_t end)
{
    bool negative = at < end && json->text[at] == '-';
    int64_t exponent = 0;
    for (; at < end; at++)
        if (is_digit(json->text[at]) && exponent < INT64_MAX / 20)
            exponent = exponent * 10 + (json->text[at] - '0');
    return negative ? -exponent : exponent;
}

static struct decimal decimal_of(const struct json *json, const struct json_value *number)
{
    struct decimal out = { .negative = json->text[number->begin] == '-' };
    bool fraction = false, full = false;
    for (size_t at = number->begin + out.negative; at < number->end; at++) {
        char c = json->text[at];
        if (c == 'e' || c == 'E') {
            out.exponent += exponent_of(json, at + 1, number->end);
            break;
        }
        if (c == '.') {
            fraction = true;
            continue;
        }
        uint64_t longer;
        full = full || __builtin_mul_overflow(out.digits, 10, &longer) ||
               __builtin_add_overflow(longer, (uint64_t)(c - '0'), &longer);
        if (full) {
            out.cut |= c != '0';
            out.exponent += !fraction;
        } else {
            out.digits = longer;
            out.exponent -= fraction;
        }
    }
    return out;
}

/* Room for 2^64 x 10^EXPONENT_MAX, and for 2^64 x 2^BIG_SHIFT; 10^400 has 1329 bits. */
#define BIG_WORDS 48
#define BIG_SHIFT_WORDS 44
_Static_assert(BIG_WORDS * 32 >= 64 + 1329, "products fit");
_Static_assert(BIG_WORDS >= BIG_SHIFT_WORDS + 2, "dividends fit");
_Static_assert(BIG_SHIFT_WORDS * 32 >= 1329 + 54,
               "quotients keep the 53 bits of a double and one to round by");

/* A large whole number, the least word first, the last one not 0. */
struct big {
    uint32_t words[BIG_WORDS];
    uint32_t count;
};

static struct big big_of(uint64_t number, uint32_t shift_words)
{
    struct big big = { .count = shift_words };
    for (; number > 0; number >>= 32)
        big.words[big.count++] = (uint32_t)number;
    return big;
}

static void big_multiply(struct big *big, uint32_t by)
{
    uint64_t carry = 0;
    for (uint32_t i = 0; i < big->count; i++) {
        carry += (uint64_t)big->words[i] * by;
        big->words[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry > 0)
        big->words[big->count++] = (uint32_t)carry;
}

/* Gives whether there was a remainder. */
static bool big_divide(struct big *big, uint32_t by)
{
    uint64_t rest = 0;
    for (uint32_t i = big->count; i-- > 0;) {
        rest = rest << 32 | big->words[i];
        big->words[i] = (uint32_t)(rest / by);
        rest %= by;
    }
    while (big->count > 0 && big->words[big->count - 1] == 0)
        big->count--;
    return rest > 0;
}

/* The bit with that place value; 0 outside. */
static uint32_t big_bit(const struct big *big, int64_t place)
{
    if (place < 0 || place >= (int64_t)big->count * 32)
        return 0;
    return big->words[place / 32] >> (place % 32) & 1;
}

/*
 * The double nearest to big x 2^exponent, or to a little more if `more`. False if that is too
 * large.
 */
static bool nearest_double(const struct big *big, bool more, int64_t exponent, double *out)
{
    int64_t top = (int64_t)big->count * 32 - 1;
    while (!big_bit(big, top))
        top--;
    /*
     * The place of the last bit kept: the 53rd, or an earlier one where doubles have no finer bit.
     */
    int64_t last = top - 52;
    if (last + exponent < -1074)
        last = -1074 - exponent;
    uint64_t significand = 0;
    for (int64_t place = top; place >= last; place--)
        significand = significand << 1 | big_bit(big, place);
    for (int64_t place = last - 2; place >= 0 && !more; place--)
        more = big_bit(big, place);
    if (big_bit(big, last - 1) && (more || (significand & 1)))
        significand++;
    /*
     * The leading bit of a normal number, and a carry out of rounding, add 1 to the exponent's
     * field.
     */
    int64_t field = last + exponent + 1074;
    if (field > 2045)
        return false;
    uint64_t bits = ((uint64_t)field << 52) + significand;
    if (bits >> 52 == 2047)
        return false;
    memcpy(out, &bits, sizeof bits);
    return true;
}

bool json_double(const struct json *json, const struct json_value *number, double *out)
{
    /* Steps of 10^9, the largest power of ten in a word. */
    static const uint32_t powers[] = {
        1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000
    };
    struct decimal decimal = decimal_of(json, number);
    double size = 0;
    if (decimal.digits > 0 && decimal.exponent > EXPONENT_MAX)
        return false;
    if (decimal.digits > 0 && decimal.exponent >= EXPONENT_MIN) {
        bool more = decimal.cut, divide = decimal.exponent < 0;
        struct big big = big_of(decimal.digits, divide ? BIG_SHIFT_WORDS : 0);
        for (int64_t left = divide ? -decimal.exponent : decimal.exponent; left > 0; left -= 9) {
            uint32_t by = left >= 9 ? 1000000000 : powers[left];
            if (divide)
                more |= big_divide(&big, by);
            else
                big_multiply(&big, by);
        }
        if (!nearest_double(&big, more, divide ? -BIG_SHIFT_WORDS * 32 : 0, &size))
            return false;
    }
    *out = decimal.negative ? -size : size;
    return true;
}

/*
 * decimal.digits x 10^exponent, without what is behind the point; *exact says whether nothing was.
 */
static bool whole_part(const struct decimal *decimal, int64_t exponent, uint64_t *out, bool *exact)
{
    uint64_t whole = decimal->digits;
    /* Digits are cut off only where they would exceed 64 bits, so before the point they do. */
    if ((decimal->negative && whole > 0) || (decimal->cut && exponent > 0))
        return false;
    *exact = !decimal->cut;
    for (; exponent > 0 && whole > 0; exponent--)
        if (__builtin_mul_overflow(whole, 10, &whole))
            return false;
    for (; exponent < 0 && whole > 0; exponent++) {
        *exact = *exact && whole % 10 == 0;
        whole /= 10;
    }
    *out = whole;
    return true;
}

bool json_u64(const struct json *json, const struct json_value *number, uint64_t *out)
{
    struct decimal decimal = decimal_of(json, number);
    uint64_t whole;
    bool exact;
    if (!whole_part(&decimal, decimal.exponent, &whole, &exact) || !exact)
        return false;
    *out = whole;
    return true;
}

bool json_scaled_u64(const struct json *json, const struct json_value *number, uint32_t decimals,
                     uint64_t *out)
{
    struct decimal decimal = decimal_of(json, number);
    bool exact;
    return whole_part(&decimal, decimal.exponent + decimals, out, &exact);
}

const char *json_type_name(enum json_type type)
{
    static const char *const names[] = { "null",     "false",    "true",     "a number",
                                         "a string", "an array", "an object" };
    return names[type];
}
