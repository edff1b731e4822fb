#include "base/invariant.h"
#include "support.h"

static const struct {
    muster_status code;
    const char *name, *message;
} statuses[] = {
#define ENTRY(name, code, message) { code, #name, message },
    MUSTER_STATUS_LIST(ENTRY)
#undef ENTRY
};

static void every_status_has_a_name_and_a_message_of_its_own(void)
{
    for (size_t i = 0; i < COUNT_OF(statuses); i++) {
        CHECK_TEXT(statuses[i].name, muster_status_name(statuses[i].code));
        CHECK_TEXT(statuses[i].message, muster_status_message(statuses[i].code));
        for (size_t k = 0; k < i; k++) {
            CHECK(statuses[i].code != statuses[k].code);
            CHECK(strcmp(statuses[i].message, statuses[k].message) != 0);
        }
    }
}

/* Programs are compiled with these numbers. */
static void codes_stay_what_they_are(void)
{
    CHECK_EQUAL(0, MUSTER_OK);
    CHECK_EQUAL(-1, MUSTER_E_INVALID);
    CHECK_EQUAL(-3, MUSTER_E_STALE);
    CHECK_EQUAL(-5, MUSTER_E_CAPACITY);
    CHECK_EQUAL(-18, MUSTER_E_VERSION);
    CHECK_EQUAL(-19, MUSTER_E_ORDER);
    CHECK_EQUAL(-20, MUSTER_E_CRASHED);
    CHECK_EQUAL(-21, MUSTER_E_DATA_LOST);
    CHECK_EQUAL(-22, MUSTER_E_DENIED);
    CHECK_EQUAL(-100, MUSTER_E_STREAM_FAILED);
    CHECK_EQUAL(-200, MUSTER_E_DEVICE_LOST);
    CHECK_EQUAL(-201, MUSTER_E_DEVICE_HUNG);
    CHECK_EQUAL(-300, MUSTER_E_INTERNAL);
    CHECK_EQUAL(-301, MUSTER_E_FORKED);
}

static void numbers_that_are_no_status_are_told(void)
{
    static const muster_status numbers[] = { 1, -23, -99, -101, -299, -1000, INT32_MAX, INT32_MIN };
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        CHECK_TEXT("MUSTER_E_?", muster_status_name(numbers[i]));
        CHECK_TEXT("not a status of Muster", muster_status_message(numbers[i]));
    }
}

static void the_group_says_what_to_discard(void)
{
    CHECK_EQUAL(MUSTER_DISCARD_NOTHING, muster_status_discards(MUSTER_OK));
    CHECK_EQUAL(MUSTER_DISCARD_REQUEST, muster_status_discards(MUSTER_E_INVALID));
    CHECK_EQUAL(MUSTER_DISCARD_REQUEST, muster_status_discards(MUSTER_E_VERSION));
    CHECK_EQUAL(MUSTER_DISCARD_REQUEST, muster_status_discards(-99));
    CHECK_EQUAL(MUSTER_DISCARD_STREAM, muster_status_discards(MUSTER_E_STREAM_FAILED));
    CHECK_EQUAL(MUSTER_DISCARD_STREAM, muster_status_discards(-199));
    CHECK_EQUAL(MUSTER_DISCARD_DEVICE, muster_status_discards(MUSTER_E_DEVICE_LOST));
    CHECK_EQUAL(MUSTER_DISCARD_DEVICE, muster_status_discards(MUSTER_E_DEVICE_HUNG));
    CHECK_EQUAL(MUSTER_DISCARD_RUNTIME, muster_status_discards(MUSTER_E_INTERNAL));
    CHECK_EQUAL(MUSTER_DISCARD_RUNTIME, muster_status_discards(MUSTER_E_FORKED));
}

static void an_error_is_filled_whole(void)
{
    struct muster_error err;
    memset(&err, 0xff, sizeof err);
    CHECK_STATUS(MUSTER_E_DRIVER, muster_error_fill(&err, MUSTER_E_DRIVER, 700, "try again",
                                                    "%s refused %d bytes", "cuMemAlloc", 17));
    CHECK_EQUAL(sizeof err, err.size);
    CHECK_STATUS(MUSTER_E_DRIVER, err.status);
    CHECK_EQUAL(700, err.driver_code);
    CHECK_TEXT("", err.device);
    CHECK_TEXT("cuMemAlloc refused 17 bytes", err.text);
    CHECK_TEXT("try again", err.fix);
    muster_error_fill(&err, MUSTER_E_BUSY, 0, NULL, "busy");
    CHECK_TEXT("", err.fix);
    CHECK_STATUS(MUSTER_E_BUSY, muster_error_fill(NULL, MUSTER_E_BUSY, 0, NULL, "busy"));
}

static void long_words_are_cut_off_and_terminated(void)
{
    char words[1000];
    struct muster_error err;
    memset(words, 'x', sizeof words);
    words[sizeof words - 1] = 0;
    muster_error_fill(&err, MUSTER_E_IO, 0, words, "%s", words);
    CHECK_EQUAL(sizeof err.text - 1, strlen(err.text));
    CHECK_EQUAL(sizeof err.fix - 1, strlen(err.fix));
}

static void an_error_can_be_reworded_in_place(void)
{
    struct muster_error err;
    muster_error_fill(&err, MUSTER_E_IO, 5, "look at the disk", "no space");
    muster_error_fill(&err, MUSTER_E_IO, err.driver_code, err.fix, "cannot write: %s", err.text);
    CHECK_TEXT("cannot write: no space", err.text);
    CHECK_TEXT("look at the disk", err.fix);
}

static unsigned hook_calls;
static char hook_condition[64];

static void note_broken(const char *file, int line, const char *condition)
{
    hook_calls += file != NULL && line > 0;
    strncpy(hook_condition, condition, sizeof hook_condition - 1);
}

static void a_broken_invariant_calls_the_hook_and_is_counted(void)
{
    const char *file;
    int line;
    uint64_t before = invariant_count(&file, &line);
    muster_set_assert_hook(note_broken);
    INVARIANT(1 + 1 == 2);
    CHECK_EQUAL(0, hook_calls);
    INVARIANT(1 + 1 == 3);
    CHECK_EQUAL(1, hook_calls);
    CHECK_TEXT("1 + 1 == 3", hook_condition);
    CHECK_EQUAL(before + 1, invariant_count(&file, &line));
    CHECK_CONTAINS("status.c", file);
    CHECK(line > 0);
    /* Without a hook it is only counted, and the first one stays what is told. */
    int first_line = line;
    muster_set_assert_hook(NULL);
    INVARIANT(1 + 1 == 4);
    CHECK_EQUAL(1, hook_calls);
    CHECK_EQUAL(before + 2, invariant_count(&file, &line));
    CHECK_EQUAL(first_line, line);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(every_status_has_a_name_and_a_message_of_its_own),
        TEST(codes_stay_what_they_are),
        TEST(numbers_that_are_no_status_are_told),
        TEST(the_group_says_what_to_discard),
        TEST(an_error_is_filled_whole),
        TEST(long_words_are_cut_off_and_terminated),
        TEST(an_error_can_be_reworded_in_place),
        TEST(a_broken_invariant_calls_the_hook_and_is_counted),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
