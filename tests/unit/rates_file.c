/* The text that learned rates are kept in: what is written is read, and any bytes are refused or understood. */
#include "core/rates_file.h"
#include "base/random.h"
#include "support.h"

static struct rates_file_line read_back[RATES_FILE_LINES_MAX];

static muster_status read_text(const char *text, size_t *count)
{
    return rates_file_read(text, strlen(text), read_back, count, &problem);
}

static void what_is_written_is_read(void)
{
    struct rates_file_line lines[] = {
        { "trsm", "cuda:0/1", "NVIDIA H200", 23, 123456 },
        { "a \"name\"\\ with\n\x01 all", "opencl:0", "pthread-\xc3\xa4", 0, 1 },
        { "last", "cpu:0", "x", RATES_FILE_CLASS_MAX, RATES_FILE_NS_MAX },
    };
    char text[4096];
    size_t bytes = rates_file_write(lines, COUNT_OF(lines), NULL, 0), count = 0;
    CHECK(bytes < sizeof text);
    CHECK_EQUAL(bytes, rates_file_write(lines, COUNT_OF(lines), text, sizeof text));
    MUST(rates_file_read(text, bytes, read_back, &count, &problem));
    CHECK_EQUAL(COUNT_OF(lines), count);
    for (size_t i = 0; i < count; i++) {
        CHECK(strcmp(lines[i].body, read_back[i].body) == 0);
        CHECK(strcmp(lines[i].device, read_back[i].device) == 0);
        CHECK(strcmp(lines[i].model, read_back[i].model) == 0);
        CHECK_EQUAL(lines[i].size_class, read_back[i].size_class);
        CHECK_EQUAL(lines[i].ns, read_back[i].ns);
    }
    /* No more than there is room for is written. */
    for (size_t room = 0; room < bytes; room++) {
        memset(text, '#', sizeof text);
        CHECK_EQUAL(bytes, rates_file_write(lines, COUNT_OF(lines), text, room));
        CHECK_EQUAL('#', text[room]);
    }
}

static void names_that_no_text_can_hold_are_left_out(void)
{
    const struct rates_file_line lines[] = { { "good", "cpu:0", "x", 1, 2 },
                                             { "\xff\xfe", "cpu:0", "x", 1, 2 },
                                             { "too", "cpu:0", "x", 1, 2 } };
    char text[1024];
    size_t count = 0, bytes = rates_file_write(lines, 3, text, sizeof text);
    MUST(rates_file_read(text, bytes, read_back, &count, &problem));
    CHECK_EQUAL(2, count);
    CHECK(strcmp("too", read_back[1].body) == 0);
}

static void none_is_a_file_too(void)
{
    char text[256];
    size_t count = 7, bytes = rates_file_write(NULL, 0, text, sizeof text);
    MUST(rates_file_read(text, bytes, read_back, &count, &problem));
    CHECK_EQUAL(0, count);
}

#define LINE "{\"body\": \"a\", \"device\": \"d\", \"model\": \"m\", \"size_class\": 1, \"ns\": 5}"
#define FILE_OF(lines) "{\"muster_rates\": 1, \"rates\": [" lines "]}"

static void what_is_wrong_is_said_with_its_place(void)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        { "", "line 1" },
        { "[]", "not an object" },
        { "{}", "no rates" },
        { "{\"muster_rates\": 1}", "no rates" },
        { "{\"muster_rates\": \"1\", \"rates\": []}", "no version" },
        { "{\"rates\": [], \"muster_rates\": 1}", "wrong place" },
        { "{\"muster_rates\": 1, \"rates\": [], \"more\": 1}", "unknown field" },
        { "{\"muster_rates\": 1, \"rates\": [], \"rates\": []}", "wrong place" },
        { "{\"muster_rates\": 1, \"rates\": {}}", "not an array" },
        { FILE_OF("1"), "not an object" },
        { FILE_OF(LINE "," LINE ","), "line 1" },
        { FILE_OF("{\"body\": \"a\"}"), "without all its fields" },
        { FILE_OF("{\"body\": \"a\", \"body\": \"b\"}"), "twice" },
        { FILE_OF("{\"other\": \"a\"}"), "unknown field" },
        { FILE_OF("{\"body\": \"\"}"), "not allowed" },
        { FILE_OF("{\"body\": 1}"), "not allowed" },
        { FILE_OF("{\"ns\": 0}"), "not allowed" },
        { FILE_OF("{\"ns\": -1}"), "not allowed" },
        { FILE_OF("{\"ns\": 1e300}"), "not allowed" },
        { FILE_OF("{\"ns\": 1000000000000001}"), "not allowed" },
        { FILE_OF("{\"size_class\": 65}"), "not allowed" },
        { FILE_OF("{\"device\": \"123456789012345678901234\"}"), "not allowed" },
        { FILE_OF(LINE) "x", "line 1" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t count = 77;
        CHECK_STATUS(MUSTER_E_PARSE, read_text(cases[i].text, &count));
        CHECK_CONTAINS(cases[i].said, problem.text);
        CHECK_EQUAL(77, count);
    }
    size_t count = 77;
    CHECK_STATUS(MUSTER_E_VERSION, read_text("{\"muster_rates\": 2, \"rates\": []}", &count));
    CHECK_EQUAL(77, count);
}

static void too_many_lines_are_refused(void)
{
    enum { ROOM = 1 << 20 };
    char *text = malloc(ROOM);
    size_t bytes = (size_t)snprintf(text, ROOM, "{\"muster_rates\": 1, \"rates\": ["), count = 0;
    for (uint32_t i = 0; i <= RATES_FILE_LINES_MAX; i++)
        bytes += (size_t)snprintf(text + bytes, ROOM - bytes, "%s" LINE, i > 0 ? "," : "");
    bytes += (size_t)snprintf(text + bytes, ROOM - bytes, "]}");
    CHECK_STATUS(MUSTER_E_PARSE, rates_file_read(text, bytes, read_back, &count, &problem));
    CHECK_CONTAINS("too many", problem.text);
    free(text);
}

/* Bytes of a good file changed, cut and doubled at random: refused, or read and written as the same. */
static void any_bytes_are_read(void)
{
    static const char good[] = FILE_OF(LINE ",\n" LINE);
    struct random random;
    random_init(&random, test_seed());
    for (uint32_t round = 0; round < 20000; round++) {
        char text[2 * sizeof good], again[8192];
        size_t bytes = sizeof good - 1, count = 0;
        memcpy(text, good, bytes);
        for (uint64_t i = random_below(&random, 4) + 1; i > 0; i--)
            text[random_below(&random, bytes)] = random_below(&random, 3) == 0
                                                     ? (char)random_below(&random, 256)
                                                     : good[random_below(&random, bytes)];
        bytes -= random_below(&random, 8) == 0 ? random_below(&random, bytes) : 0;
        char *exact = malloc(bytes + 1);
        memcpy(exact, text, bytes);
        muster_status status = rates_file_read(exact, bytes, read_back, &count, &problem);
        free(exact);
        if (status != MUSTER_OK) {
            CHECK(status == MUSTER_E_PARSE || status == MUSTER_E_VERSION);
            continue;
        }
        struct rates_file_line lines[4];
        size_t first = count;
        CHECK(count <= COUNT_OF(lines));
        memcpy(lines, read_back, count * sizeof *lines);
        bytes = rates_file_write(lines, count, again, sizeof again);
        MUST(rates_file_read(again, bytes, read_back, &count, &problem));
        CHECK_EQUAL(first, count);
        CHECK(memcmp(lines, read_back, count * sizeof *lines) == 0);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(what_is_written_is_read),    TEST(names_that_no_text_can_hold_are_left_out),
        TEST(none_is_a_file_too),         TEST(what_is_wrong_is_said_with_its_place),
        TEST(too_many_lines_are_refused), TEST(any_bytes_are_read),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
