/*
 * Headers of .npy files: sound ones of each version, damaged ones, and cut anywhere. What `map` does with
 * them, beside NumPy, is in tests/cli/map_files.py.
 */
#include "../fuzz/npy.c" /* NOLINT(bugprone-suspicious-include): driven below */
#include "base/random.h"
#include "harness.h"

#include <stdio.h>

/* Without what stands before the text, which has zeros. */
static const char *const texts[] = {
    "{'descr': '<f4', 'fortran_order': False, 'shape': (60, 100), }  \n",
    "{\"descr\": \"|u1\", 'shape': (), 'fortran_order': False}\n",
    "{'descr': '|V12', 'fortran_order': False, 'shape': (18446744073709551615,), }\n",
    "{'descr': '<i8', 'fortran_order': True, 'shape': (3,4,5,6), }\n",
    "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (3,), }\n",
    "{}\n",
    "",
};

static size_t make(char *out, const char *text, size_t bytes, unsigned version)
{
    size_t before = version == 1 ? 10 : 12;
    memcpy(out, NPY_MAGIC, NPY_MAGIC_BYTES);
    out[6] = (char)version;
    memset(out + 7, 0, before - 7);
    out[8] = (char)(bytes & 0xff);
    out[9] = (char)(bytes >> 8);
    memcpy(out + before, text, bytes);
    return before + bytes;
}

static void sound_headers_are_read(void)
{
    char header[512];
    struct muster_error err;
    struct npy npy;
    for (unsigned version = 1; version <= 3; version++) {
        size_t bytes = make(header, texts[0], strlen(texts[0]), version);
        CHECK_STATUS(MUSTER_OK, npy_read(&npy, header, bytes, &err));
        CHECK(npy.kind == 'f' && npy.element_bytes == 4 && npy.dimensions == 2);
        CHECK(npy.shape[0] == 60 && npy.shape[1] == 100 && npy.elements == 6000);
        CHECK(npy_is_type(&npy, "MUSTER_GLOBAL const float *"));
        CHECK(!npy_is_type(&npy, "MUSTER_GLOBAL const uint32_t *"));
        CHECK(npy_is_type(&npy, "MUSTER_GLOBAL const struct pixel *"));
        CHECK_STATUS(MUSTER_OK, npy_read(&npy, header,
                                         make(header, texts[1], strlen(texts[1]), version), &err));
        CHECK(npy.kind == 'u' && npy.dimensions == 0 && npy.elements == 1);
    }
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED,
                 npy_read(&npy, header, make(header, texts[0], strlen(texts[0]), 4), &err));
}

static void numbers_that_are_too_large_are_refused(void)
{
    static const char *const wrong[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,,2), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
        "1,1,1,1,1,1,1,1,1,1,1,1,1,1), }",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}",
    };
    char header[512];
    struct muster_error err;
    struct npy npy;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_STATUS(MUSTER_E_PARSE,
                     npy_read(&npy, header, make(header, wrong[i], strlen(wrong[i]), 1), &err));
}

/* Any byte, or one that means something. */
static char pick(struct random *random)
{
    static const char letters[] = "{}(),:'0<>| ";
    uint64_t any = random_below(random, 512);
    return any < 256 ? (char)any : letters[any % (sizeof letters - 1)];
}

static void damaged_headers_are_refused_or_read(void)
{
    struct random random;
    char header[512];
    random_init(&random, test_seed());
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (unsigned version = 1; version <= 3; version++) {
            size_t bytes = make(header, texts[i], strlen(texts[i]), version);
            for (size_t cut = 0; cut <= bytes; cut++)
                LLVMFuzzerTestOneInput((const uint8_t *)header, cut);
            for (unsigned k = 0; k < test_repetitions(TEST_BY_SANITIZER(3000, 1000, 500)); k++) {
                char damaged[512];
                memcpy(damaged, header, bytes);
                for (size_t n = 1 + random_below(&random, 4); n > 0; n--)
                    damaged[random_below(&random, bytes)] = pick(&random);
                LLVMFuzzerTestOneInput((const uint8_t *)damaged, bytes);
            }
        }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(sound_headers_are_read),
        TEST(numbers_that_are_too_large_are_refused),
        TEST(damaged_headers_are_refused_or_read),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
