#include "json.h"

#include "utf8.h"

#include <stdio.h>
#include <stdlib.h>

void json_init(struct json *json, struct output *out)
{
    json->out = out;
    json->comma = false;
}

static void quote(struct output *out, const char *text)
{
    output_text(out, "\"");
    while (*text) {
        uint32_t character;
        size_t bytes = utf8_read(text, &character);
        if (character == '"' || character == '\\') {
            output_text(out, "\\");
            output_bytes(out, text, bytes);
        } else if (utf8_is_control(character)) {
            char escape[8];
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)character);
            output_text(out, escape);
        } else if (character == UTF8_REPLACEMENT) {
            output_text(out, "\xEF\xBF\xBD");
        } else {
            output_bytes(out, text, bytes);
        }
        text += bytes;
    }
    output_text(out, "\"");
}

static void begin_value(struct json *json, const char *key)
{
    if (json->comma)
        output_text(json->out, ",");
    json->comma = true;
    if (key) {
        quote(json->out, key);
        output_text(json->out, ":");
    }
}

void json_begin_object(struct json *json, const char *key)
{
    begin_value(json, key);
    output_text(json->out, "{");
    json->comma = false;
}

void json_end_object(struct json *json)
{
    output_text(json->out, "}");
    json->comma = true;
}

void json_begin_array(struct json *json, const char *key)
{
    begin_value(json, key);
    output_text(json->out, "[");
    json->comma = false;
}

void json_end_array(struct json *json)
{
    output_text(json->out, "]");
    json->comma = true;
}

void json_text(struct json *json, const char *key, const char *text)
{
    begin_value(json, key);
    quote(json->out, text);
}

void json_number(struct json *json, const char *key, uint64_t number)
{
    begin_value(json, key);
    output_number(json->out, number);
}

void json_integer(struct json *json, const char *key, int64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)number);
    begin_value(json, key);
    output_text(json->out, text);
}

void json_real(struct json *json, const char *key, double number)
{
    char text[32];
    /* Infinities and NaN are the numbers whose difference with themselves is not 0. */
    if (number - number != 0) {
        json_null(json, key);
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    begin_value(json, key);
    output_text(json->out, text);
}

void json_null(struct json *json, const char *key)
{
    begin_value(json, key);
    output_text(json->out, "null");
}
