#include "base/text.h"

#include "harness.h"

static void whole_numbers_are_decimal_digits_only(void)
{
    static const struct {
        const char *text;
        bool good;
        uint64_t number;
    } cases[] = {
        { "0", true, 0 },
        { "007", true, 7 },
        { "18446744073709551615", true, UINT64_MAX },
        { "18446744073709551616", false, 0 },
        { "99999999999999999999999", false, 0 },
        { "", false, 0 },
        { "-1", false, 0 },
        { "+1", false, 0 },
        { " 1", false, 0 },
        { "1 ", false, 0 },
        { "1.0", false, 0 },
        { "0x10", false, 0 },
        { "1e3", false, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t number = 4711;
        if (text_parse_u64(cases[i].text, &number) != cases[i].good)
            test_fail(__FILE__, __LINE__, "\"%s\" is %s", cases[i].text,
                      cases[i].good ? "refused" : "accepted");
        CHECK_EQUAL(cases[i].good ? cases[i].number : 4711, number);
    }
}

static void sizes_have_exact_units(void)
{
    static const struct {
        const char *text;
        bool good;
        uint64_t bytes;
    } cases[] = {
        { "0", true, 0 },
        { "1024", true, 1024 },
        { "7B", true, 7 },
        { "1KiB", true, 1024 },
        { "512MiB", true, 512 * 1048576u },
        { "80GiB", true, UINT64_C(80) << 30 },
        { "3TiB", true, UINT64_C(3) << 40 },
        { "2PiB", true, UINT64_C(2) << 50 },
        { "15EiB", true, UINT64_C(15) << 60 },
        { "1kB", true, 1000 },
        { "2MB", true, 2000000 },
        { "3GB", true, 3000000000 },
        { "4TB", true, 4000000000000 },
        { "5PB", true, 5000000000000000 },
        { "18EB", true, UINT64_C(18000000000000000000) },
        { "1.5GiB", true, UINT64_C(3) << 29 },
        { "0.5KiB", true, 512 },
        { "0.0009765625KiB", true, 1 },
        { "1.50000000000000000000000000MiB", true, 3 << 19 },
        { "1.0", true, 1 },
        { "15.5EiB", true, UINT64_C(31) << 59 },
        { "0.1GB", true, 100000000 },
        { "18.446744073709551615EB", true, UINT64_MAX },
        { "18.446744073709551616EB", false, 0 },
        { "16EiB", false, 0 },
        { "18446744073709551616", false, 0 },
        { "18446744073709551615KiB", false, 0 },
        { "0.1GiB", false, 0 }, /* not a whole number of bytes */
        { "1.5", false, 0 },
        { "0.00000000000000000000001EB", false, 0 },
        { "", false, 0 },
        { "GiB", false, 0 },
        { ".5GiB", false, 0 },
        { "1.GiB", false, 0 },
        { "1 GiB", false, 0 },
        { "1GiB ", false, 0 },
        { "-1GiB", false, 0 },
        { "1gib", false, 0 },
        { "1K", true, 1024 },
        { "900T", true, UINT64_C(900) << 40 },
        { "1G", true, 1 << 30 },
        { "1.5M", true, 3 << 19 },
        { "16E", false, 0 },
        { "1k", false, 0 },
        { "1Ki", false, 0 },
        { "1KB", false, 0 },
        { "1e3", false, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t bytes = 4711;
        if (text_parse_size(cases[i].text, &bytes) != cases[i].good)
            test_fail(__FILE__, __LINE__, "\"%s\" is %s", cases[i].text,
                      cases[i].good ? "refused" : "accepted");
        CHECK_EQUAL(cases[i].good ? cases[i].bytes : 4711, bytes);
    }
}

static void text_stays_in_its_room(void)
{
    char place[8] = "xxxxxxx";
    struct text_room room = { place, sizeof place, 0 };
    text_put(&room, "%d-", 12);
    CHECK_TEXT("12-", place);
    text_put(&room, "%s", "");
    text_put(&room, "%s", "3456");
    CHECK_TEXT("12-3456", place);
    CHECK_EQUAL(7, room.length);
    text_put(&room, "%s", "789");
    text_put(&room, "%s", "0");
    CHECK_TEXT("12-3456", place);
    CHECK_EQUAL(11, room.length);
    struct text_room none = { NULL, 0, 0 };
    text_put(&none, "%s", "only counted");
    CHECK_EQUAL(12, none.length);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(whole_numbers_are_decimal_digits_only),
        TEST(sizes_have_exact_units),
        TEST(text_stays_in_its_room),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
