/*
 * SHA-256 against the examples that its standard gives, in pieces of every size.
 */
#include "base/sha256.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>

static void check_hash(const char *expected, const void *data, size_t bytes, size_t step)
{
    struct sha256 hash;
    uint8_t out[SHA256_BYTES];
    char text[2 * SHA256_BYTES + 1];
    sha256_init(&hash);
    for (size_t at = 0; at < bytes; at += step)
        sha256_add(&hash, (const char *)data + at, bytes - at < step ? bytes - at : step);
    sha256_finish(&hash, out);
    for (size_t i = 0; i < sizeof out; i++)
        snprintf(text + 2 * i, 3, "%02x", out[i]);
    CHECK_TEXT(expected, text);
}

static void the_standard_s_examples_come_out(void)
{
    static char million[1000000];
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    memset(million, 'a', sizeof million);
    check_hash("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "", 0, 1);
    for (size_t step = 1; step < 130; step += 7) {
        check_hash("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "abc", 3,
                   step);
        check_hash("248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1", two_blocks,
                   strlen(two_blocks), step);
        check_hash("cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0", million,
                   sizeof million, step);
    }
}

static void lengths_around_a_block_differ(void)
{
    uint8_t seen[130][SHA256_BYTES];
    static const char zeros[130];
    for (size_t bytes = 0; bytes < 130; bytes++) {
        struct sha256 hash;
        sha256_init(&hash);
        sha256_add(&hash, zeros, bytes);
        sha256_finish(&hash, seen[bytes]);
        for (size_t other = 0; other < bytes; other++)
            CHECK(memcmp(seen[bytes], seen[other], SHA256_BYTES) != 0);
    }
}

static void fields_are_told_apart(void)
{
    struct sha256 one, two;
    uint8_t a[SHA256_BYTES], b[SHA256_BYTES];
    sha256_init(&one);
    sha256_add_text(&one, "ab");
    sha256_add_text(&one, "c");
    sha256_finish(&one, a);
    sha256_init(&two);
    sha256_add_text(&two, "a");
    sha256_add_text(&two, "bc");
    sha256_finish(&two, b);
    CHECK(memcmp(a, b, sizeof a) != 0);
    /* The length in 8 bytes, the least first, and then the field. */
    static const uint8_t plain[] = { 2, 1, 0, 0, 0, 0, 0, 0 };
    static uint8_t field[258];
    memset(field, 'f', sizeof field);
    sha256_init(&one);
    sha256_add_field(&one, field, sizeof field);
    sha256_finish(&one, a);
    sha256_init(&two);
    sha256_add(&two, plain, sizeof plain);
    sha256_add(&two, field, sizeof field);
    sha256_finish(&two, b);
    CHECK(memcmp(a, b, sizeof a) == 0);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(the_standard_s_examples_come_out),
                                         TEST(lengths_around_a_block_differ),
                                         TEST(fields_are_told_apart) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
