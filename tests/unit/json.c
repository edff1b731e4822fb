#include "base/json.h"

#include "../fuzz/json.c" /* NOLINT(bugprone-suspicious-include): driven below */
#include "../fuzz/mutate.h"
#include "harness.h"

#include <inttypes.h>
#include <stdio.h>

static struct json json_of(const char *text)
{
    struct json json;
    json_init(&json, text, strlen(text));
    return json;
}

static void a_document_is_walked(void)
{
    struct json json =
        json_of(" {\"a\" : [1, -2.5e3,true,false,null, \"x\"],\n \"b\":{ } , \"c\":[ ]}\r\n\t");
    struct json_value value, key;
    CHECK(json_read(&json, &value) && value.type == JSON_OBJECT && value.begin == 1);
    CHECK(json_next_key(&json, &key) && json_equals(&json, &key, "a"));
    CHECK(json_read(&json, &value) && value.type == JSON_ARRAY);
    static const enum json_type types[] = { JSON_NUMBER, JSON_NUMBER, JSON_TRUE,
                                            JSON_FALSE,  JSON_NULL,   JSON_STRING };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        CHECK(json_next_element(&json) && json_read(&json, &value));
        CHECK_EQUAL(types[i], value.type);
    }
    CHECK(!json_next_element(&json));
    CHECK(json_next_key(&json, &key) && json_equals(&json, &key, "b"));
    CHECK_EQUAL(2, json_place(&json, key.begin).line);
    CHECK_EQUAL(2, json_place(&json, key.begin).column);
    CHECK(json_read(&json, &value) && value.type == JSON_OBJECT && !json_next_key(&json, &key));
    CHECK(json_next_key(&json, &key) && json_equals(&json, &key, "c"));
    CHECK(json_read(&json, &value) && value.type == JSON_ARRAY && !json_next_element(&json));
    CHECK(!json_next_key(&json, &key) && !json.problem);
    CHECK(json_finish(&json));
}

static void values_are_skipped_whole(void)
{
    struct json json = json_of("[{\"a\":[[],{\"b\":[1,{}]}],\"c\":\"]}\"},7]");
    struct json_value value;
    uint64_t number;
    CHECK(json_read(&json, &value) && json_next_element(&json) && json_skip(&json));
    CHECK(json_next_element(&json) && json_read(&json, &value) && json_u64(&json, &value, &number));
    CHECK_EQUAL(7, number);
    CHECK(!json_next_element(&json) && json_finish(&json));
}

static void sound_texts_are_accepted(void)
{
    static const char *const texts[] = {
        "0",
        "-0.0e-0",
        " \t\r\n null \n",
        "\"\"",
        "[]",
        "{}",
        "[[],[]]",
        "[[1],[2,3]]",
        "[{\"a\":1},{\"a\":2}]",
        "{\"\":{\"\":0}}",
        "[1,[2],3,{}]",
        "{\"a\":[1],\"b\":[2],\"a\":3}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct json json = json_of(texts[i]);
        if (!json_skip(&json) || !json_finish(&json))
            test_fail(__FILE__, __LINE__, "%s: %s", texts[i], json.problem);
    }
}

/* A letter, a digit or a _ right after a word makes it another one: the whole is no value. */
static void words_end_where_no_letter_follows(void)
{
    static const char *const words[] = { "null", "false", "true" };
    static const char more[] = "azAZ09_mM5";
    char text[16];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (const char *c = more; *c; c++) {
            snprintf(text, sizeof text, " %s%c", words[i], *c);
            struct json json = json_of(text);
            CHECK(!json_skip(&json));
            CHECK_TEXT("not a JSON value", json.problem);
            CHECK_EQUAL(1, json.problem_at);
        }
}

static void strings_are_resolved(void)
{
    static const struct {
        const char *json, *text;
    } cases[] = {
        { "\"\"", "" },
        { "\"plain\"", "plain" },
        { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t" },
        { "\"\\u0041\\u00e9\\u20AC\"", "A\xc3\xa9\xe2\x82\xac" },
        { "\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80" },
        { "\"\\uDBFF\\uDFFF\"", "\xf4\x8f\xbf\xbf" },
        { "\"\\ud7ff\\ue000\\uffff\"", "\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf" },
        { "\"\\u007f\\u0080\\u07ff\\u0800\"", "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80" },
        { "\"\xc3\xa9 \xf0\x9f\x98\x80 \x7f\"", "\xc3\xa9 \xf0\x9f\x98\x80 \x7f" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json json = json_of(cases[i].json);
        struct json_value value;
        char text[64];
        CHECK(json_read(&json, &value) && value.type == JSON_STRING && json_finish(&json));
        CHECK(json_copy(&json, &value, text, sizeof text));
        CHECK_TEXT(cases[i].text, text);
        CHECK(json_equals(&json, &value, cases[i].text));
        CHECK(!json_equals(&json, &value, "plai") && !json_equals(&json, &value, "plain "));
        /* Exactly enough, and one too few. */
        CHECK(json_copy(&json, &value, text, strlen(cases[i].text) + 1));
        CHECK(!json_copy(&json, &value, text, strlen(cases[i].text)));
    }
}

/* Escapes at the ends of the two halves: only a first with a second makes a character. */
static void surrogates_come_in_pairs(void)
{
    static const unsigned codes[] = { 0x0041, 0xd7ff, 0xd800, 0xdbff, 0xdc00, 0xdfff, 0xe000 };
    const size_t count = sizeof codes / sizeof *codes;
    for (size_t i = 0; i < count * count; i++) {
        unsigned one = codes[i / count], other = codes[i % count];
        bool is_first = one >= 0xd800 && one <= 0xdbff, is_second = one >= 0xdc00 && one <= 0xdfff;
        bool other_first = other >= 0xd800 && other <= 0xdbff;
        bool other_second = other >= 0xdc00 && other <= 0xdfff;
        bool good = is_first ? other_second : !is_second && !other_first && !other_second;
        char text[32];
        snprintf(text, sizeof text, "\"\\u%04x\\u%04X\"", one, other);
        struct json json = json_of(text);
        if (json_skip(&json) != good)
            test_fail(__FILE__, __LINE__, "%s is %s", text, good ? "refused" : "taken");
        if (!good)
            CHECK_TEXT("half of a surrogate pair", json.problem);
    }
}

static void a_zero_character_is_read_but_not_copied(void)
{
    struct json json = json_of("\"a\\u0000b\"");
    struct json_value value;
    char text[16] = "before";
    CHECK(json_read(&json, &value) && json_finish(&json));
    CHECK(!json_copy(&json, &value, text, sizeof text));
    CHECK_TEXT("", text);
    CHECK(!json_equals(&json, &value, "a"));
}

static bool as_double(const char *text, double *out)
{
    struct json json = json_of(text);
    struct json_value value;
    CHECK(json_read(&json, &value) && value.type == JSON_NUMBER && json_finish(&json));
    return json_double(&json, &value, out);
}

static void check_bits(const char *text, double expected)
{
    double number = 0;
    uint64_t got, wanted;
    if (!as_double(text, &number))
        test_fail(__FILE__, __LINE__, "%s is refused", text);
    memcpy(&got, &number, sizeof got);
    memcpy(&wanted, &expected, sizeof wanted);
    if (got != wanted)
        test_fail(__FILE__, __LINE__, "%s is %a, expected %a", text, number, expected);
}

static void numbers_are_the_nearest_doubles(void)
{
    check_bits("0", 0.0);
    check_bits("-0", -0.0);
    check_bits("-0.0e5", -0.0);
    check_bits("8e6", 8e6);
    check_bits("0.25", 0.25);
    check_bits("5E+10", 5e10);
    check_bits("0.1", 0x1.999999999999ap-4);
    check_bits("1e23", 0x1.52d02c7e14af6p+76);             /* lies next to a half */
    check_bits("9007199254740993", 0x1p+53);               /* a half, to even: down */
    check_bits("9007199254740995", 0x1.0000000000002p+53); /* a half, to even: up */
    check_bits("18446744073709551615", 0x1p+64);
    check_bits("1.7976931348623157e308", 0x1.fffffffffffffp+1023);
    check_bits("1.7976931348623158e308", 0x1.fffffffffffffp+1023);
    check_bits("2.2250738585072014e-308", 0x1p-1022);
    check_bits("2.2250738585072011e-308", 0x0.fffffffffffffp-1022);
    check_bits("4.9406564584124654e-324", 0x1p-1074);
    check_bits("2.4703282292062328e-324", 0x1p-1074); /* just above half of the smallest */
    check_bits("2.4703282292062327e-324", 0.0);
    check_bits("1e-400", 0.0);
    check_bits("1e-99999999999999999999999", 0.0);
    check_bits("0e99999999999999999999999", 0.0);
    check_bits("10000000000000000000000000000000000000000e-40", 1.0);
    check_bits("0.00000000000000000000000000000000000000001e41", 1.0);
    double number;
    CHECK(!as_double("1.7976931348623159e308", &number));
    CHECK(!as_double("1e309", &number));
    CHECK(!as_double("-1e400", &number));
    CHECK(!as_double("1e99999999999999999999999", &number));
}

static void random_numbers_agree_with_the_c_library(void)
{
    struct random random;
    random_init(&random, test_seed());
    for (unsigned i = 0; i < test_repetitions(TEST_BY_SANITIZER(50000, 25000, 5000)); i++) {
        char text[64];
        uint64_t digits = random_next(&random) >> random_below(&random, 64);
        if (digits >
            UINT64_C(
                9999999999999999999)) /* 20 digits are read too, if they fit, but not promised */
            digits /= 10;
        snprintf(text, sizeof text, "%" PRIu64 "e%d", digits,
                 (int)random_below(&random, 680) - 350);
        double expected = strtod(text, NULL), number;
        if (as_double(text, &number))
            check_bits(text, expected);
        else
            CHECK(expected > 1.7976931348623157e308);
    }
}

static void doubles_survive_being_written(void)
{
    struct random random;
    random_init(&random, test_seed() + 1);
    for (unsigned i = 0; i < test_repetitions(TEST_BY_SANITIZER(50000, 25000, 5000)); i++) {
        uint64_t bits = random_next(&random);
        double number;
        memcpy(&number, &bits, sizeof number);
        if (number - number != 0)
            continue;
        char text[64];
        snprintf(text, sizeof text, "%.16e", number);
        check_bits(text, number);
    }
}

static void whole_numbers_are_exact(void)
{
    static const struct {
        const char *text;
        bool good;
        uint64_t number;
    } cases[] = {
        { "0", true, 0 },
        { "-0", true, 0 },
        { "4000", true, 4000 },
        { "4e3", true, 4000 },
        { "4000.000", true, 4000 },
        { "0.004e6", true, 4000 },
        { "40000e-1", true, 4000 },
        { "9007199254740993", true, UINT64_C(9007199254740993) },
        { "18446744073709551615", true, UINT64_MAX },
        { "18446744073709551615.000000000000000000000", true, UINT64_MAX },
        { "1844674407370955161.5e1", true, UINT64_MAX },
        { "0.000018446744073709551615e24", true, UINT64_MAX },
        { "0e999", true, 0 },
        { "18446744073709551616", false, 0 },
        { "1844674407370955161.6e1", false, 0 },
        { "1.8446744073709551616e19", false, 0 },
        { "1e20", false, 0 },
        { "1e99999999999999999999", false, 0 },
        { "-1", false, 0 },
        { "0.5", false, 0 },
        { "1e-1", false, 0 },
        { "1e-99999999999999999999", false, 0 },
        { "18446744073709551614.5", false, 0 },
        { "1.00000000000000000000000000000001", false, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json json = json_of(cases[i].text);
        struct json_value value;
        uint64_t number = 4711;
        CHECK(json_read(&json, &value));
        if (json_u64(&json, &value, &number) != cases[i].good)
            test_fail(__FILE__, __LINE__, "%s is %s", cases[i].text,
                      cases[i].good ? "refused" : "accepted");
        CHECK_EQUAL(cases[i].good ? cases[i].number : 4711, number);
    }
}

static void decimals_are_scaled_exactly(void)
{
    static const struct {
        const char *text;
        bool good;
        uint64_t number;
    } cases[] = {
        { "100", true, 100000000 },
        { "0.3", true, 300000 },
        { "0.1", true, 100000 },
        { "1e-6", true, 1 },
        { "33.333333333333336", true, 33333333 },
        { "0.0000019999999999999999999999999999", true, 1 },
        { "9.99e-7", true, 0 },
        { "18446744073709.551615", true, UINT64_MAX },
        { "18446744073709.5516159", true, UINT64_MAX },
        { "18446744073709.551616", false, 0 },
        { "1844674407370955161.6", false, 0 },
        { "1e300", false, 0 },
        { "-1e-9", false, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json json = json_of(cases[i].text);
        struct json_value value;
        uint64_t number = 4711;
        CHECK(json_read(&json, &value));
        if (json_scaled_u64(&json, &value, 6, &number) != cases[i].good)
            test_fail(__FILE__, __LINE__, "%s is %s", cases[i].text,
                      cases[i].good ? "refused" : "accepted");
        CHECK_EQUAL(cases[i].good ? cases[i].number : 4711, number);
    }
}

static void flaws_are_found_where_they_are(void)
{
    static const struct {
        const char *text, *problem;
        unsigned line, column;
    } cases[] = {
        { "", "the text ends where a value should be", 1, 1 },
        { " \n ", "the text ends where a value should be", 2, 2 },
        { "[1,2", "',' or ']' must follow here", 1, 5 },
        { "[1 2]", "',' or ']' must follow here", 1, 4 },
        { "[1,]", "not a JSON value", 1, 4 },
        { "[,1]", "not a JSON value", 1, 2 },
        { "[nulla]", "not a JSON value", 1, 2 },
        { "[nullz]", "not a JSON value", 1, 2 },
        { "[nullA]", "not a JSON value", 1, 2 },
        { "[nullZ]", "not a JSON value", 1, 2 },
        { "[null0]", "not a JSON value", 1, 2 },
        { "[null9]", "not a JSON value", 1, 2 },
        { "[null_]", "not a JSON value", 1, 2 },
        { "[1}", "',' or ']' must follow here", 1, 3 },
        { "{\"a\":1]", "',' or '}' must follow here", 1, 7 },
        { "{\"a\" 1}", "':' must follow a key", 1, 6 },
        { "{\"a\":}", "not a JSON value", 1, 6 },
        { "{\"a\":1,}", "a key in quotes must stand here", 1, 8 },
        { "{a:1}", "a key in quotes must stand here", 1, 2 },
        { "{'a':1}", "a key in quotes must stand here", 1, 2 },
        { "{\"a\":1 // no\n}", "',' or '}' must follow here", 1, 8 },
        { "1 2", "nothing may follow the end of the value", 1, 3 },
        { "{}\n\n]", "nothing may follow the end of the value", 3, 1 },
        { "nul", "not a JSON value", 1, 1 },
        { "nulls", "not a JSON value", 1, 1 },
        { "True", "not a JSON value", 1, 1 },
        { "NaN", "not a JSON value", 1, 1 },
        { "[Infinity]", "not a JSON value", 1, 2 },
        { "-Infinity", "a number needs a digit here", 1, 2 },
        { "+1", "not a JSON value", 1, 1 },
        { ".5", "not a JSON value", 1, 1 },
        { "01", "a number must not begin with a needless 0", 1, 1 },
        { "-012", "a number must not begin with a needless 0", 1, 2 },
        { "1.", "a number needs a digit after its point", 1, 3 },
        { "1.e3", "a number needs a digit after its point", 1, 3 },
        { "1e", "a number needs a digit in its exponent", 1, 3 },
        { "1e+", "a number needs a digit in its exponent", 1, 4 },
        { "0x10", "nothing may follow the end of the value", 1, 2 },
        { "\"abc", "the text ends inside a string", 1, 5 },
        { "\"abc\\", "an unknown escape in a string", 1, 5 },
        { "\"a\\x\"", "an unknown escape in a string", 1, 3 },
        { "\"a\nb\"", "a control character in a string must be written as an escape", 1, 3 },
        { "\"\x1f\"", "a control character in a string must be written as an escape", 1, 2 },
        { "\"\\u12g4\"", "\\u must be followed by four hexadecimal digits", 1, 2 },
        { "\"\\u12", "\\u must be followed by four hexadecimal digits", 1, 2 },
        { "\"\\ud800\"", "half of a surrogate pair", 1, 2 },
        { "\"\\ud800\\u0041\"", "half of a surrogate pair", 1, 2 },
        { "\"ab\\udc00\"", "half of a surrogate pair", 1, 4 },
        { "\"\\ud800\\ud800\"", "half of a surrogate pair", 1, 2 },
        { "\"\xc3\xa9\x80\"", "not UTF-8", 1, 3 }, /* a column is a character */
        { "\"\xc0\xaf\"", "not UTF-8", 1, 2 },     /* overlong */
        { "\"\xe0\x9f\xbf\"", "not UTF-8", 1, 2 },
        { "\"\xf0\x8f\xbf\xbf\"", "not UTF-8", 1, 2 },
        { "\"\xed\xa0\x80\"", "not UTF-8", 1, 2 },     /* a surrogate */
        { "\"\xf4\x90\x80\x80\"", "not UTF-8", 1, 2 }, /* above U+10FFFF */
        { "\"\xf5\x80\x80\x80\"", "not UTF-8", 1, 2 },
        { "\"\xe2\x82\"", "not UTF-8", 1, 2 },
        { "\"\xe2\x82", "not UTF-8", 1, 2 },
        { "\xef\xbb\xbf[]", "a byte order mark must not stand before JSON", 1, 1 },
        { "[\"\xc3\xa9\",\n  \"\xf0\x9f\x98\x80\" 1]", "',' or ']' must follow here", 2, 7 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json json = json_of(cases[i].text);
        if (json_skip(&json) && json_finish(&json))
            test_fail(__FILE__, __LINE__, "accepted: %s", cases[i].text);
        struct json_place place = json_place(&json, json.problem_at);
        if (strcmp(json.problem, cases[i].problem) != 0 || place.line != cases[i].line ||
            place.column != cases[i].column)
            test_fail(__FILE__, __LINE__,
                      "%s: \"%s\" at %" PRIu64 ":%" PRIu64 ", expected \"%s\" at %u:%u",
                      cases[i].text, json.problem, place.line, place.column, cases[i].problem,
                      cases[i].line, cases[i].column);
    }
}

static void a_zero_byte_is_no_end(void)
{
    struct json json;
    json_init(&json, "1\0", 2);
    CHECK(json_skip(&json) && !json_finish(&json));
    CHECK_EQUAL(1, json.problem_at);
}

static void a_problem_sticks(void)
{
    struct json json = json_of("[x]");
    struct json_value value;
    CHECK(json_read(&json, &value) && json_next_element(&json) && !json_read(&json, &value));
    CHECK(!json_next_element(&json) && !json_next_key(&json, &value) && !json_read(&json, &value));
    CHECK(!json_skip(&json) && !json_finish(&json));
    CHECK_TEXT("not a JSON value", json.problem);
    CHECK_EQUAL(1, json.problem_at);
}

static void nesting_is_bounded(void)
{
    char text[2 * JSON_DEPTH_MAX + 3];
    for (size_t depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        text[2 * depth] = '\0';
        struct json json = json_of(text);
        CHECK((json_skip(&json) && json_finish(&json)) == (depth == JSON_DEPTH_MAX));
    }
    struct json json = json_of(text);
    CHECK(!json_skip(&json));
    CHECK_TEXT("nested too deeply", json.problem);
    CHECK_EQUAL(JSON_DEPTH_MAX, json.problem_at);
}

static void damaged_texts_do_no_harm(void)
{
    static const char *const corpus[] = {
        "{\"devices\":[{\"name\":\"fast\",\"items_per_s\":8e6,\"compute\":[9,0]}],\n "
        "\"b\":[true,false,null]}",
        "[\"\\u00e9\\ud83d\\ude00\\n\\\"\\\\\\/"
        "\",-0.5e-10,1E+20,18446744073709551615,{},[],\"\xc3\xa9\"]",
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
        "{\"a\":{\"b\":{\"c\":0.000000001234567890123456789}}}",
    };
    mutate_all(test_seed(), corpus, sizeof corpus / sizeof *corpus,
               test_repetitions(TEST_BY_SANITIZER(200000, 100000, 10000)));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_document_is_walked),
        TEST(values_are_skipped_whole),
        TEST(sound_texts_are_accepted),
        TEST(words_end_where_no_letter_follows),
        TEST(strings_are_resolved),
        TEST(surrogates_come_in_pairs),
        TEST(a_zero_character_is_read_but_not_copied),
        TEST(numbers_are_the_nearest_doubles),
        TEST(random_numbers_agree_with_the_c_library),
        TEST(doubles_survive_being_written),
        TEST(whole_numbers_are_exact),
        TEST(decimals_are_scaled_exactly),
        TEST(flaws_are_found_where_they_are),
        TEST(a_zero_byte_is_no_end),
        TEST(a_problem_sticks),
        TEST(nesting_is_bounded),
        TEST(damaged_texts_do_no_harm),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
