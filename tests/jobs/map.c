/*
 * What `map` reads: headers of videos, sound, damaged and cut anywhere, and values as text. What it
 * does with them is in tests/cli/map.py.
 */
#include "../fuzz/mutate.h"
#include "../fuzz/y4m.c" /* NOLINT(bugprone-suspicious-include): driven below */
#include "harness.h"
#include "value.h"

static const char *const headers[] = {
    "YUV4MPEG2 W320 H240 F25:1 Ip A1:1 C420jpeg XYSCSS=420JPEG",
    "YUV4MPEG2 W1 H65535 F0:0 I? A0:0 Cmono",
    "YUV4MPEG2 C444 H7  W9 X",
    "YUV4MPEG2 W4 H4 C422",
    "YUV4MPEG2",
    "",
};

static void planes_have_the_sizes_of_their_colour_space(void)
{
    static const struct {
        const char *line;
        uint32_t chroma_width, chroma_height;
        uint64_t bytes;
    } known[] = {
        { "YUV4MPEG2 W5 H3", 3, 2, 27 },
        { "YUV4MPEG2 W5 H3 C420mpeg2", 3, 2, 27 },
        { "YUV4MPEG2 W5 H3 C411", 2, 3, 27 },
        { "YUV4MPEG2 W5 H3 C422", 3, 3, 33 },
        { "YUV4MPEG2 W5 H3 C444", 5, 3, 45 },
        { "YUV4MPEG2 W5 H3 Cmono", 0, 0, 15 },
        { "YUV4MPEG2 W65535 H65535 C444", 65535, 65535, UINT64_C(12884508675) },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct y4m y4m;
        struct muster_error err;
        CHECK_STATUS(MUSTER_OK, y4m_read(&y4m, known[i].line, strlen(known[i].line), &err));
        CHECK_EQUAL(known[i].chroma_width, y4m.chroma_width);
        CHECK_EQUAL(known[i].chroma_height, y4m.chroma_height);
        CHECK_EQUAL(known[i].bytes, y4m.frame_bytes);
    }
}

static void damaged_headers_are_refused_or_sound(void)
{
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        for (size_t bytes = 0; bytes <= strlen(headers[i]); bytes++)
            LLVMFuzzerTestOneInput((const uint8_t *)headers[i], bytes);
    mutate_all(test_seed(), headers, sizeof headers / sizeof *headers,
               test_repetitions(TEST_BY_SANITIZER(20000, 5000, 2000)));
}

static void damaged_values_are_refused_or_read(void)
{
    static const char *const types[] = { "int8_t",  "uint16_t", "const int32_t", "uint64_t",
                                         "int64_t", "float",    "double",        "struct s" };
    static const char letters[] = "0123456789-+.eEx0fFnai \t:";
    struct random random;
    random_init(&random, test_seed());
    for (unsigned i = 0; i < test_repetitions(20000); i++) {
        char text[12];
        size_t length = random_below(&random, sizeof text);
        unsigned char out[VALUE_BYTES];
        struct muster_error err;
        for (size_t k = 0; k < length; k++)
            text[k] = letters[random_below(&random, sizeof letters - 1)];
        text[length] = '\0';
        const char *type = types[random_below(&random, sizeof types / sizeof *types)];
        muster_status status = value_read("it", type, text, out, &err);
        CHECK(status == MUSTER_OK || status == MUSTER_E_INVALID);
        CHECK(status != MUSTER_OK || length > 0);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(planes_have_the_sizes_of_their_colour_space),
                                         TEST(damaged_headers_are_refused_or_sound),
                                         TEST(damaged_values_are_refused_or_read) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
