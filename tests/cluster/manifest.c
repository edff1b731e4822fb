/*
 * What is stored of a job: it reads as it was written, and what came over a network is refused unless
 * all of it makes sense.
 */
#include "harness.h"

#include "base/random.h"
#include "cluster/manifest.h"

#include <stdio.h>
#include <string.h>

/* As long as a key, a space and a signature are. */
#define TEN "0123456789"
#define SIGNED                                                                                     \
    "signed " TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "01234\n"

static struct manifest sample(void)
{
    struct manifest m = { .items = 1000, .grain = 7, .window = 64, .tries = 3, .weight = 1 };
    snprintf(m.name, sizeof m.name, "blur-12");
    snprintf(m.title, sizeof m.title, "blur.c over a file with spaces");
    snprintf(m.user, sizeof m.user, "me@here");
    snprintf(m.entry, sizeof m.entry, "blur");
    memset(m.kernel.hash, 'a', MANIFEST_HASH_BYTES - 1);
    m.kernel.bytes = 900;
    m.arg_count = 4;
    m.args[0] = (struct manifest_arg){ .kind = MUSTER_ARG_SOURCE,
                                       .bytes = 4,
                                       .element = MUSTER_ELEMENT_FLOAT };
    m.args[1] = (struct manifest_arg){ .kind = MUSTER_ARG_OUT, .bytes = 8 };
    m.args[2] =
        (struct manifest_arg){ .kind = MUSTER_ARG_VALUE, .bytes = 3, .value = { 0, 255, 16 } };
    m.args[3].kind = MUSTER_ARG_ALL;
    memset(m.args[3].table.hash, '0', MANIFEST_HASH_BYTES - 1);
    m.args[3].table.bytes = 12;
    m.item_bytes = 4;
    m.out_item_bytes = 8;
    m.in_offset = 5;
    m.in.bytes = 4005;
    m.in.time_ns = 77;
    memset(m.in.ends, 'f', 64);
    snprintf(m.in.path, sizeof m.in.path, "/data/in put");
    snprintf(m.out_path, sizeof m.out_path, "/data/out");
    snprintf(m.out_part, sizeof m.out_part, "/data/.out.blur-12.part");
    m.out_bytes = 8128;
    m.out_offset = 128;
    return m;
}

static void it_reads_as_it_was_written(void)
{
    static char text[MANIFEST_BYTES_MAX], again[MANIFEST_BYTES_MAX];
    struct manifest m = sample(), read;
    size_t bytes = manifest_print(&m, text);
    CHECK(bytes > 0);
    CHECK_EQUAL(manifest_read(text, bytes, &read, NULL), MUSTER_OK);
    CHECK_EQUAL(manifest_print(&read, again), bytes);
    CHECK(memcmp(text, again, bytes) == 0);
    CHECK_EQUAL(manifest_grains(&read), 143);
    CHECK_EQUAL(manifest_grain(&read, 142).begin, 994);
    CHECK_EQUAL(manifest_grain(&read, 142).end, 1000);
}

/* The text with one part of it replaced. */
static muster_status read_with(const char *old, const char *new, struct muster_error *err)
{
    static char text[MANIFEST_BYTES_MAX], changed[MANIFEST_BYTES_MAX + 256];
    struct manifest m = sample(), read;
    manifest_print(&m, text);
    char *at = strstr(text, old);
    CHECK(at != NULL);
    int length = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, new,
                          at + strlen(old));
    return manifest_read(changed, (size_t)length, &read, err);
}

static void what_makes_no_sense_is_refused(void)
{
    static const char *const wrong[][2] = {
        { "name blur-12", "name ../x" },
        { "name blur-12", "name a.b" },
        { "items 1000", "items 0" },
        { "items 1000", "items 1001" },
        { "items 1000", "items -1" },
        { "grain 7", "grain 0" },
        { "items 1000", "items 18446744073709551615" },
        { "window 64", "window 0" },
        { "tries 3", "tries 99999999999" },
        { "arg out 8 0", "arg out 0 0" },
        { "arg out 8 0", "arg out 8 99" },
        { "arg out 8 0", "arg source 4 0" },
        { "00ff10", "00ff1" },
        { "00ff10", "00FF10" },
        { "kernel aa", "kernel zz" },
        { "in 5 ", "in 6 " },
        { "/data/in put", "data" },
        { "out 128 ", "out 129 " },
        { "part /", "part " },
        { ".out.blur-12.part", ".out.other.part" },
        { "/data/.out", "/home/.out" },
        { "out 128 8128 /data/out\n", "" },
        { "end\n", "end\nsigned\n" },
        { "end\n", "end\nsigned U ff\n" },
        { "end\n", "end\n" SIGNED SIGNED },
        { "end\n", "end\n" SIGNED "weight 1\n" },
        { "end\n", SIGNED "end\n" },
        { "through 0", "through 2" },
        { "end\n", "" },
        { "end\n", "end\nend\n" },
        { "weight 1", "height 1" },
    };
    struct muster_error error;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        muster_status status = read_with(wrong[i][0], wrong[i][1], &error);
        if (status != MUSTER_E_PARSE)
            printf("accepted: %s\n", wrong[i][1]);
        CHECK_EQUAL(status, MUSTER_E_PARSE);
    }
}

/* Its form is all that is looked at here. */
static void a_signature_may_follow(void)
{
    CHECK_EQUAL(read_with("end\n", "end\n" SIGNED, NULL), MUSTER_OK);
}

static void other_versions_are_refused_by_name(void)
{
    struct muster_error error;
    CHECK_EQUAL(read_with("version ", "version 9.", &error), MUSTER_E_VERSION);
    CHECK(strstr(error.text, "9.") != NULL);
    CHECK_EQUAL(read_with("muster-job 1", "muster-job 2", &error), MUSTER_E_VERSION);
    CHECK_EQUAL(read_with("muster-job 1", "other-job 1", &error), MUSTER_E_PARSE);
}

/* Whatever bytes come, nothing is read beyond them; what is accepted prints. */
static void damaged_text_does_no_harm(void)
{
    static char text[MANIFEST_BYTES_MAX], again[MANIFEST_BYTES_MAX];
    struct manifest m = sample(), read;
    struct random random;
    random_init(&random, 7);
    for (int i = 0; i < 3000; i++) {
        size_t bytes = manifest_print(&m, text);
        for (uint64_t k = 0; k <= random_below(&random, 3); k++)
            text[random_below(&random, bytes)] = (char)random_next(&random);
        bytes = random_below(&random, 4) == 0 ? random_below(&random, bytes) : bytes;
        if (manifest_read(text, bytes, &read, NULL) == MUSTER_OK)
            CHECK(manifest_print(&read, again) > 0);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(it_reads_as_it_was_written), TEST(what_makes_no_sense_is_refused),
        TEST(a_signature_may_follow),     TEST(other_versions_are_refused_by_name),
        TEST(damaged_text_does_no_harm),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
