/*
 * Values of a description, each read by itself: what is taken, what is refused, what is left behind.
 */
#include "model/fields.h"

#include "harness.h"

#include <stdio.h>
#include <string.h>

static struct muster_error err;

static struct json json_of(const char *text)
{
    struct json json;
    json_init(&json, text, strlen(text));
    return json;
}

static void a_text_has_no_control_characters(void)
{
    for (unsigned c = 0; c < 0x100; c++) {
        char text[32], out[8] = "before";
        snprintf(text, sizeof text, "\"a\\u%04xb\"", c);
        struct json json = json_of(text);
        bool good = c >= 0x20 && c != 0x7f;
        CHECK_STATUS(good ? MUSTER_OK : MUSTER_E_PARSE,
                     field_text(&json, "name", out, sizeof out, &err));
        if (!good) {
            CHECK_TEXT("", out);
            CHECK_CONTAINS("\"name\" must be a text of 1 to 7 bytes without control characters",
                           err.text);
        } else if (c < 0x80) {
            CHECK(out[0] == 'a' && (unsigned char)out[1] == c && out[2] == 'b' && out[3] == '\0');
        } else {
            CHECK_EQUAL(4, strlen(out));
        }
    }
}

static void a_text_fits_or_is_refused(void)
{
    static const struct {
        const char *json, *text;
    } cases[] = {
        { "\"1234567\"", "1234567" },   { "\"x\"", "x" },
        { "\"12345678\"", NULL },       { "\"\"", NULL },
        { "\"123456\xc3\xa9\"", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json json = json_of(cases[i].json);
        char out[8] = "before";
        CHECK_STATUS(cases[i].text ? MUSTER_OK : MUSTER_E_PARSE,
                     field_text(&json, "name", out, sizeof out, &err));
        CHECK_TEXT(cases[i].text ? cases[i].text : "", out);
    }
}

static void milliseconds_are_rounded_down(void)
{
    static const struct {
        const char *json;
        bool good;
        uint64_t ns;
    } cases[] = {
        { "1", true, 1000000 },
        { "0.000001", true, 1 },
        { "0.0000019", true, 1 },
        { "0.0000009", false, 0 }, /* at least a nanosecond here */
        { "1e-6", true, 1 },
        { "18446744073709.551615", true, UINT64_MAX },
        { "18446744073709.551616", false, 0 },
        { "-1", false, 0 },
        { "\"1\"", false, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json json = json_of(cases[i].json);
        uint64_t ns = 77;
        CHECK_STATUS(cases[i].good ? MUSTER_OK : MUSTER_E_PARSE,
                     field_ms(&json, "at_ms", 1, &ns, &err));
        CHECK_EQUAL(cases[i].good ? cases[i].ns : 77, ns);
    }
}

static void ranges_end_where_they_say(void)
{
    static const struct {
        const struct field_range *range;
        const char *json;
        bool good;
    } cases[] = {
        { &field_above_zero, "0", false },      { &field_above_zero, "5e-324", true },
        { &field_above_zero, "1e308", true },   { &field_above_zero, "-1", false },
        { &field_not_negative, "0", true },     { &field_not_negative, "-5e-324", false },
        { &field_not_negative, "1e308", true }, { &field_below_one, "0", true },
        { &field_below_one, "0.999999", true }, { &field_below_one, "1", false },
        { &field_below_one, "-0.1", false },    { &field_probability, "0", true },
        { &field_probability, "1", true },      { &field_probability, "1.000001", false },
        { &field_probability, "-1e-9", false }, { &field_probability, "true", false },
        { &field_above_zero, "1e309", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json json = json_of(cases[i].json);
        double out = 77;
        CHECK_STATUS(cases[i].good ? MUSTER_OK : MUSTER_E_PARSE,
                     field_double(&json, "x", cases[i].range, &out, &err));
        CHECK(cases[i].good != (out == 77));
        CHECK(cases[i].good || strstr(err.text, cases[i].range->words));
    }
}

static void whole_numbers_end_where_they_say(void)
{
    static const struct {
        const char *json;
        bool good;
    } cases[] = { { "3", true },   { "9", true },    { "2", false },    { "10", false },
                  { "5.0", true }, { "5.5", false }, { "null", false }, { "", false } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json json = json_of(cases[i].json);
        uint64_t out = 77;
        CHECK_STATUS(cases[i].good ? MUSTER_OK : MUSTER_E_PARSE,
                     field_u64(&json, "n", 3, 9, &out, &err));
        CHECK(cases[i].good != (out == 77));
    }
}

static void sizes_choices_flags_and_versions(void)
{
    static const char *const words[] = { "one", "two", "three" };
    uint64_t bytes = 77;
    uint32_t choice = 77;
    uint16_t version[2] = { 7, 7 };
    bool flag = false;
    struct json json = json_of("\"1.5KiB\"");
    CHECK_STATUS(MUSTER_OK, field_size(&json, "m", &bytes, &err));
    CHECK_EQUAL(1536, bytes);
    json = json_of("\"0KiB\"");
    CHECK_STATUS(MUSTER_E_PARSE, field_size(&json, "m", &bytes, &err));
    json = json_of("true");
    CHECK_STATUS(MUSTER_E_PARSE, field_size(&json, "m", &bytes, &err));
    CHECK_EQUAL(1536, bytes);
    for (uint32_t i = 0; i < 3; i++) {
        char text[16];
        snprintf(text, sizeof text, "\"%s\"", words[i]);
        json = json_of(text);
        CHECK_STATUS(MUSTER_OK, field_choice(&json, "c", words, 3, &choice, &err));
        CHECK_EQUAL(i, choice);
    }
    json = json_of("\"three\"");
    CHECK_STATUS(MUSTER_E_PARSE, field_choice(&json, "c", words, 2, &choice, &err));
    CHECK_CONTAINS("\"c\" must be one of \"one\", \"two\", not \"three\"", err.text);
    json = json_of("true");
    CHECK_STATUS(MUSTER_OK, field_bool(&json, "f", &flag, &err));
    CHECK(flag);
    json = json_of("0");
    CHECK_STATUS(MUSTER_E_PARSE, field_bool(&json, "f", &flag, &err));
    CHECK(flag);
    json = json_of("false");
    CHECK_STATUS(MUSTER_OK, field_bool(&json, "f", &flag, &err));
    CHECK(!flag);
    static const char *const wrong[] = { "[1]", "[1,2,3]", "[]", "[1,65536]", "[1,", "[1,2", "3" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        json = json_of(wrong[i]);
        CHECK_STATUS(MUSTER_E_PARSE, field_version(&json, "v", version, &err));
        CHECK(version[0] == 7 && version[1] == 7);
    }
    json = json_of("[65535, 1]");
    CHECK_STATUS(MUSTER_OK, field_version(&json, "v", version, &err));
    CHECK(version[0] == 65535 && version[1] == 1);
    json = json_of("{}");
    CHECK_STATUS(MUSTER_E_PARSE, field_enter(&json, "e", JSON_ARRAY, &err));
    json = json_of("[]");
    CHECK_STATUS(MUSTER_OK, field_enter(&json, "e", JSON_ARRAY, &err));
}

static void an_object_s_keys_come_once_each(void)
{
    static const char *const names[] = { "a", "b", "c" };
    static const struct {
        const char *json, *message;
        uint32_t seen;
    } cases[] = {
        { "{\"c\":1,\"a\":2}", NULL, 5 },
        { "{}", NULL, 0 },
        { "{\"b\":1,\"b\":2}", "line 1, column 8: key \"b\" of it is given twice", 2 },
        { "{\"a\":1,\"d\":2}", "line 1, column 8: unknown key \"d\" of it", 1 },
        { "{\"a\":1", "line 1, column 7: ',' or '}' must follow here", 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fields fields = { .names = names, .count = 3, .of = "it", .fix = "fix it" };
        struct json json = json_of(cases[i].json);
        struct json_value top;
        uint32_t key = 77;
        CHECK(json_read(&json, &top));
        while (fields_next(&json, &fields, &key, &err)) {
            uint64_t number;
            CHECK_EQUAL(cases[i].json[fields.at[key] + 1], names[key][0]);
            CHECK_STATUS(MUSTER_OK, field_u64(&json, names[key], 0, 9, &number, &err));
        }
        CHECK_STATUS(cases[i].message ? MUSTER_E_PARSE : MUSTER_OK, fields.status);
        CHECK_EQUAL(cases[i].seen, fields.seen);
        for (uint32_t k = 0; k < 3; k++)
            CHECK_EQUAL(cases[i].seen >> k & 1, fields_given(&fields, k));
        if (cases[i].message)
            CHECK_TEXT(cases[i].message, err.text);
        /* A flaw, the caller's too, ends the reading. */
        fields.status = MUSTER_E_PARSE;
        CHECK(!fields_next(&json, &fields, &key, &err));
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_text_has_no_control_characters), TEST(a_text_fits_or_is_refused),
        TEST(milliseconds_are_rounded_down),    TEST(ranges_end_where_they_say),
        TEST(whole_numbers_end_where_they_say), TEST(sizes_choices_flags_and_versions),
        TEST(an_object_s_keys_come_once_each),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
