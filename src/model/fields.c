#include "model/fields.h"

#include "base/invariant.h"
#include "base/text.h"

#include <float.h>
#include <inttypes.h>
#include <muster/backend.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define RANGES_FIX "docs/simulation.md lists every key and its range"

/* Milliseconds to nanoseconds. */
#define MS_DECIMALS 6

/* How much of a value a message repeats. */
#define EXCERPT_BYTES_MAX 40

const struct field_range field_above_zero = { 0, DBL_MAX, true, false, "a number above 0" };
const struct field_range field_not_negative = { 0, DBL_MAX, false, false, "a number of 0 or more" };
const struct field_range field_below_one = { 0, 1, false, true, "a number from 0 to below 1" };
const struct field_range field_probability = { 0, 1, false, false, "a number from 0 to 1" };

muster_status field_error(const struct json *json, size_t at, struct muster_error *err,
                          const char *fix, const char *format, ...)
{
    struct json_place place = json_place(json, at);
    char words[sizeof err->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    return muster_error_fill(err, MUSTER_E_PARSE, 0, fix,
                             "line %" PRIu64 ", column %" PRIu64 ": %s", place.line, place.column,
                             words);
}

muster_status field_json_error(const struct json *json, struct muster_error *err)
{
    return field_error(json, json->problem_at, err, "the text must be JSON as in RFC 8259", "%s",
                       json->problem);
}

/*
 * Copies a scalar or a key as it stands in the text, so that what is escaped there stays so in a
 * message.
 */
static const char *excerpt(const struct json *json, const struct json_value *value,
                           char out[EXCERPT_BYTES_MAX + 4])
{
    size_t bytes = value->end - value->begin;
    bool all = bytes <= EXCERPT_BYTES_MAX;
    if (!all) {
        bytes = EXCERPT_BYTES_MAX;
        while ((json->text[value->begin + bytes] & 0xc0) == 0x80)
            bytes--;
    }
    memcpy(out, json->text + value->begin, bytes);
    strcpy(out + bytes, all ? "" : "...");
    return out;
}

muster_status field_wrong(const struct json *json, const struct json_value *value, const char *key,
                          const char *wanted, struct muster_error *err)
{
    char text[EXCERPT_BYTES_MAX + 4];
    bool scalar = value->type != JSON_ARRAY && value->type != JSON_OBJECT;
    return field_error(json, value->begin, err, RANGES_FIX, "\"%s\" must be %s, not %s", key,
                       wanted, scalar ? excerpt(json, value, text) : json_type_name(value->type));
}

bool fields_given(const struct fields *fields, uint32_t key)
{
    return fields->seen >> key & 1;
}

/* Which of the names it is, or why it is none. */
static muster_status find_key(const struct json *json, const struct fields *fields,
                              const struct json_value *name, uint32_t *key,
                              struct muster_error *err)
{
    uint32_t found = 0;
    while (found < fields->count && !json_equals(json, name, fields->names[found]))
        found++;
    if (found == fields->count) {
        char text[EXCERPT_BYTES_MAX + 4];
        return field_error(json, name->begin, err, fields->fix, "unknown key %s of %s",
                           excerpt(json, name, text), fields->of);
    }
    if (fields_given(fields, found))
        return field_error(json, name->begin, err, "give each key once",
                           "key \"%s\" of %s is given twice", fields->names[found], fields->of);
    *key = found;
    return MUSTER_OK;
}

bool fields_next(struct json *json, struct fields *fields, uint32_t *key, struct muster_error *err)
{
    INVARIANT(fields->count <= FIELDS_MAX);
    if (fields->status)
        return false;
    struct json_value name;
    if (!json_next_key(json, &name)) {
        fields->status = json->problem ? field_json_error(json, err) : MUSTER_OK;
        return false;
    }
    fields->status = find_key(json, fields, &name, key, err);
    if (fields->status)
        return false;
    fields->seen |= UINT32_C(1) << *key;
    fields->at[*key] = name.begin;
    return true;
}

static muster_status read_typed(struct json *json, enum json_type type, const char *key,
                                const char *wanted, struct json_value *value,
                                struct muster_error *err)
{
    if (!json_read(json, value))
        return field_json_error(json, err);
    return value->type == type ? MUSTER_OK : field_wrong(json, value, key, wanted, err);
}

muster_status field_double(struct json *json, const char *key, const struct field_range *range,
                           double *out, struct muster_error *err)
{
    struct json_value value;
    muster_status status = read_typed(json, JSON_NUMBER, key, range->words, &value, err);
    if (status)
        return status;
    double number;
    if (!json_double(json, &value, &number) || number < range->least || number > range->most ||
        (range->least_out && number == range->least) || (range->most_out && number == range->most))
        return field_wrong(json, &value, key, range->words, err);
    *out = number;
    return MUSTER_OK;
}

muster_status field_u64(struct json *json, const char *key, uint64_t least, uint64_t most,
                        uint64_t *out, struct muster_error *err)
{
    char wanted[80];
    snprintf(wanted, sizeof wanted, "a whole number from %" PRIu64 " to %" PRIu64, least, most);
    struct json_value value;
    muster_status status = read_typed(json, JSON_NUMBER, key, wanted, &value, err);
    if (status)
        return status;
    uint64_t number;
    if (!json_u64(json, &value, &number) || number < least || number > most)
        return field_wrong(json, &value, key, wanted, err);
    *out = number;
    return MUSTER_OK;
}

muster_status field_ms(struct json *json, const char *key, uint64_t least_ns, uint64_t *out_ns,
                       struct muster_error *err)
{
    char wanted[80];
    snprintf(wanted, sizeof wanted, "a time in milliseconds, at least %" PRIu64 " ns", least_ns);
    struct json_value value;
    muster_status status = read_typed(json, JSON_NUMBER, key, wanted, &value, err);
    if (status)
        return status;
    uint64_t number_ns;
    if (!json_scaled_u64(json, &value, MS_DECIMALS, &number_ns) || number_ns < least_ns)
        return field_wrong(json, &value, key, wanted, err);
    *out_ns = number_ns;
    return MUSTER_OK;
}

muster_status field_size(struct json *json, const char *key, uint64_t *out,
                         struct muster_error *err)
{
    struct json_value value;
    if (!json_read(json, &value))
        return field_json_error(json, err);
    char text[64];
    uint64_t bytes = 0;
    bool understood = value.type == JSON_NUMBER && json_u64(json, &value, &bytes);
    if (value.type == JSON_STRING)
        understood = json_copy(json, &value, text, sizeof text) && text_parse_size(text, &bytes);
    if (!understood || bytes == 0)
        return field_wrong(json, &value, key, "a number of bytes above 0, or a size like \"80GiB\"",
                           err);
    *out = bytes;
    return MUSTER_OK;
}

muster_status field_text(struct json *json, const char *key, char *out, size_t capacity,
                         struct muster_error *err)
{
    char wanted[80];
    snprintf(wanted, sizeof wanted, "a text of 1 to %zu bytes without control characters",
             capacity - 1);
    struct json_value value;
    muster_status status = read_typed(json, JSON_STRING, key, wanted, &value, err);
    if (status)
        return status;
    bool good = json_copy(json, &value, out, capacity) && out[0] != '\0';
    for (const char *c = out; good && *c; c++)
        good = (unsigned char)*c >= 0x20 && *c != 0x7f;
    if (good)
        return MUSTER_OK;
    out[0] = '\0';
    return field_wrong(json, &value, key, wanted, err);
}

muster_status field_choice(struct json *json, const char *key, const char *const *words,
                           uint32_t count, uint32_t *out, struct muster_error *err)
{
    char wanted[120] = "one of";
    for (uint32_t i = 0; i < count; i++) {
        size_t used = strlen(wanted);
        snprintf(wanted + used, sizeof wanted - used, "%s \"%s\"", i > 0 ? "," : "", words[i]);
    }
    struct json_value value;
    muster_status status = read_typed(json, JSON_STRING, key, wanted, &value, err);
    if (status)
        return status;
    for (uint32_t i = 0; i < count; i++)
        if (json_equals(json, &value, words[i])) {
            *out = i;
            return MUSTER_OK;
        }
    return field_wrong(json, &value, key, wanted, err);
}

muster_status field_bool(struct json *json, const char *key, bool *out, struct muster_error *err)
{
    struct json_value value;
    if (!json_read(json, &value))
        return field_json_error(json, err);
    if (value.type != JSON_TRUE && value.type != JSON_FALSE)
        return field_wrong(json, &value, key, "true or false", err);
    *out = value.type == JSON_TRUE;
    return MUSTER_OK;
}

muster_status field_version(struct json *json, const char *key, uint16_t out[2],
                            struct muster_error *err)
{
    struct json_value array;
    const char *wanted = "two whole numbers as in [9, 0]";
    muster_status status = read_typed(json, JSON_ARRAY, key, wanted, &array, err);
    uint64_t parts[2] = { 0, 0 };
    uint32_t count = 0;
    while (!status && json_next_element(json)) {
        if (count == 2)
            return field_error(json, array.begin, err, RANGES_FIX, "\"%s\" must be %s, not more",
                               key, wanted);
        status = field_u64(json, key, 0, UINT16_MAX, &parts[count++], err);
    }
    if (status)
        return status;
    if (json->problem)
        return field_json_error(json, err);
    if (count < 2)
        return field_error(json, array.begin, err, RANGES_FIX, "\"%s\" must be %s, not fewer", key,
                           wanted);
    out[0] = (uint16_t)parts[0];
    out[1] = (uint16_t)parts[1];
    return MUSTER_OK;
}

muster_status field_enter(struct json *json, const char *key, enum json_type type,
                          struct muster_error *err)
{
    struct json_value value;
    return read_typed(json, type, key, json_type_name(type), &value, err);
}

muster_status field_enter_object(struct json *json, const char *key, size_t *at,
                                 struct muster_error *err)
{
    struct json_value value;
    if (!json_read(json, &value))
        return field_json_error(json, err);
    *at = value.begin;
    return value.type == JSON_OBJECT ? MUSTER_OK : field_wrong(json, &value, key, "an object", err);
}
