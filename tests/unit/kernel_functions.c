/*
 * The prelude's small functions on every device that there is, beside plain C: the same bits. Random
 * numbers are those of the published test vectors of Philox 4x32-10 (Random123's kat_vectors).
 */
#include "base/random.h"
#include "support.h"

#include <math.h>

#define ITEMS 1024

static const char source[] =
    "MUSTER_KERNEL void integers(uint64_t i, MUSTER_GLOBAL const int64_t *a,\n"
    "    MUSTER_GLOBAL const int64_t *b, MUSTER_GLOBAL uint64_t *out)\n"
    "{\n"
    "    MUSTER_GLOBAL uint64_t *o = out + i * 24;\n"
    "    int32_t s = (int32_t)a[i], t = (int32_t)b[i];\n"
    "    uint32_t u = (uint32_t)a[i], v = (uint32_t)b[i];\n"
    "    uint64_t x = (uint64_t)a[i], y = (uint64_t)b[i];\n"
    "    o[0] = (uint64_t)(int64_t)muster_min(s, t); o[1] = muster_min(u, v);\n"
    "    o[2] = (uint64_t)muster_min(a[i], b[i]); o[3] = muster_min(x, y);\n"
    "    o[4] = (uint64_t)(int64_t)muster_max(s, t); o[5] = muster_max(u, v);\n"
    "    o[6] = (uint64_t)muster_max(a[i], b[i]); o[7] = muster_max(x, y);\n"
    "    o[8] = (uint64_t)(int64_t)muster_clamp(s, -100, 100);\n"
    "    o[9] = muster_clamp(x, 10u, y);\n"
    "    o[10] = (uint64_t)(int64_t)muster_abs(s); o[11] = (uint64_t)muster_abs(a[i]);\n"
    "    o[12] = muster_abs(u); o[13] = muster_popcount(u); o[14] = muster_popcount(a[i]);\n"
    "    o[15] = muster_clz(u); o[16] = muster_clz(x);\n"
    "    o[17] = muster_rotate(u, v); o[18] = muster_rotate(a[i], v);\n"
    "    o[19] = (uint64_t)(int64_t)muster_mulhi(s, t); o[20] = muster_mulhi(u, v);\n"
    "    o[21] = (uint64_t)muster_mulhi(a[i], b[i]); o[22] = muster_mulhi(x, y);\n"
    "    o[23] = (uint64_t)(muster_clz((uint8_t)u) + muster_popcount((int8_t)u) +\n"
    "                       (uint32_t)muster_min((uint8_t)u, (uint8_t)v));\n"
    "}\n"
    "MUSTER_KERNEL void floats(uint64_t i, MUSTER_GLOBAL const float *a,\n"
    "    MUSTER_GLOBAL const float *b, MUSTER_GLOBAL float *out)\n"
    "{\n"
    "    out[4 * i] = muster_min(a[i], b[i]); out[4 * i + 1] = muster_max(a[i], b[i]);\n"
    "    out[4 * i + 2] = muster_clamp(a[i], -1, b[i]); out[4 * i + 3] = muster_abs(a[i]);\n"
    "}\n"
    "MUSTER_KERNEL void once(uint64_t i, MUSTER_GLOBAL uint32_t *out)\n"
    "{\n"
    "    uint32_t k = 0;\n"
    "    uint32_t least = muster_min(k++, 7u), most = muster_clamp(k++, 0u, 9u + k);\n"
    "    out[i] = k * 100u + least * 10u + most;\n"
    "}\n"
    "MUSTER_KERNEL void philox(uint64_t i, MUSTER_GLOBAL const uint64_t *given,\n"
    "    MUSTER_GLOBAL uint32_t *out)\n"
    "{\n"
    "    struct muster_random4 r = muster_random4(given[3 * i], given[3 * i + 1],\n"
    "                                             given[3 * i + 2]);\n"
    "    for (int k = 0; k < 4; k++)\n"
    "        out[6 * i + (uint32_t)k] = r.word[k];\n"
    "    out[6 * i + 4] = muster_random(given[3 * i], given[3 * i + 1]);\n"
    "    out[6 * i + 5] = muster_float_bits(muster_random_float(given[3 * i], given[3 * i + 1]));\n"
    "}\n";

static int64_t a[ITEMS], b[ITEMS];
static float fa[ITEMS], fb[ITEMS], fout[ITEMS][4];
static uint64_t out[ITEMS][24];

static struct muster_kernel *load(struct muster *m, const char *entry)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = source,
                                             .code_bytes = sizeof source - 1,
                                             .entry = entry,
                                             .file = "functions.c" };
    struct muster_kernel *kernel;
    MUST(muster_kernel_from(m, entry, &form, 1, &kernel, &problem));
    return kernel;
}

/* On each backend of this machine, by name: also OpenCL on the CPU. */
static void on_each(void (*check)(struct muster *m, const char *backend))
{
    static const char *const backends[] = { "cpu", "opencl", "cuda" };
    for (size_t i = 0; i < COUNT_OF(backends); i++) {
        struct muster_options options = MUSTER_OPTIONS_INIT;
        struct muster *m;
        muster_device device;
        size_t count = 0;
        options.devices = backends[i];
        MUST(muster_open(&m, &options, &problem));
        muster_status status = muster_device_list(m, &device, 1, &count, &problem);
        if (status == MUSTER_OK || status == MUSTER_E_CAPACITY) {
            printf("    on %s\n", backends[i]);
            check(m, backends[i]);
        } else {
            CHECK(i > 0);
            printf("    not on %s: %s\n", backends[i], problem.text);
        }
        MUST(muster_close(m, &problem));
    }
}

static uint64_t bits_of(uint64_t x)
{
    uint64_t count = 0;
    for (; x > 0; x >>= 1)
        count += x & 1;
    return count;
}

static uint64_t zeros_before(uint64_t x, int bits)
{
    uint64_t count = 0;
    for (int k = bits - 1; k >= 0 && !(x >> k & 1); k--)
        count++;
    return count;
}

#define LEAST(x, y) ((y) < (x) ? (y) : (x))
#define MOST(x, y) ((x) < (y) ? (y) : (x))

static void expect_integers(int64_t p, int64_t q, uint64_t o[24])
{
    int32_t s = (int32_t)p, t = (int32_t)q;
    uint32_t u = (uint32_t)p, v = (uint32_t)q;
    uint64_t x = (uint64_t)p, y = (uint64_t)q;
    __extension__ typedef __int128 wide;
    __extension__ typedef unsigned __int128 unsigned_wide;
    const uint64_t expected[24] = {
        (uint64_t)(int64_t)LEAST(s, t),
        LEAST(u, v),
        (uint64_t)LEAST(p, q),
        LEAST(x, y),
        (uint64_t)(int64_t)MOST(s, t),
        MOST(u, v),
        (uint64_t)MOST(p, q),
        MOST(x, y),
        (uint64_t)(int64_t)LEAST(MOST(s, -100), 100),
        LEAST(MOST(x, 10u), y),
        (uint64_t)(int64_t)(s == INT32_MIN ? s
                            : s < 0        ? -s
                                           : s),
        (uint64_t)(p == INT64_MIN ? p
                   : p < 0        ? -p
                                  : p),
        u,
        bits_of(u),
        bits_of(x),
        zeros_before(u, 32),
        zeros_before(x, 64),
        (uint32_t)((uint64_t)u << v % 32 | (uint64_t)u >> (32 - v % 32)),
        v % 64 ? x << v % 64 | x >> (64 - v % 64) : x,
        (uint64_t)(int64_t)((int64_t)s * t >> 32),
        (uint64_t)u * v >> 32,
        (uint64_t)((wide)p * q >> 64),
        (uint64_t)((unsigned_wide)x * y >> 64),
        zeros_before((uint8_t)u, 32) + bits_of((uint32_t)(int8_t)u) + LEAST((uint8_t)u, (uint8_t)v)
    };
    memcpy(o, expected, sizeof expected);
}

static void check_integers(struct muster *m, const char *backend)
{
    static const int64_t edges[] = { 0,  1,         -1,        2,          INT32_MAX, INT32_MIN,
                                     31, INT64_MAX, INT64_MIN, UINT32_MAX, 64,        -64 };
    struct random random;
    struct muster_kernel *kernel = load(m, "integers");
    random_init(&random, test_seed());
    for (size_t i = 0; i < ITEMS; i++) {
        size_t of = COUNT_OF(edges);
        a[i] = i < of * of ? edges[i / of] : (int64_t)random_next(&random);
        b[i] = i < of * of ? edges[i % of] : (int64_t)random_next(&random) >> i % 60;
    }
    const struct muster_arg args[] = { MUSTER_IN(a), MUSTER_IN(b), MUSTER_OUT(out) };
    memset(out, 0, sizeof out);
    MUST(muster_for(m, kernel, ITEMS, args, 3, NULL, NULL, &problem));
    for (size_t i = 0; i < ITEMS; i++) {
        uint64_t expected[24];
        expect_integers(a[i], b[i], expected);
        for (size_t k = 0; k < 24; k++)
            if (expected[k] != out[i][k])
                test_fail(__FILE__, __LINE__, "%s: result %zu of %lld and %lld is %llx, not %llx",
                          backend, k, (long long)a[i], (long long)b[i],
                          (unsigned long long)out[i][k], (unsigned long long)expected[k]);
    }
}

static uint32_t float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float least_of(float x, float y)
{
    return y < x || isnan(x) ? y : x;
}

static float most_of(float x, float y)
{
    return x < y || isnan(x) ? y : x;
}

/* All NaNs count as equal. */
static bool is_same(float x, float y)
{
    return float_bits(x) == float_bits(y) || (isnan(x) && isnan(y));
}

static void check_floats(struct muster *m, const char *backend)
{
    static const float edges[] = { 0.0f, -0.0f, 1.0f, -1.0f, INFINITY, -INFINITY, NAN, 1e30f };
    struct random random;
    struct muster_kernel *kernel = load(m, "floats");
    random_init(&random, test_seed());
    for (size_t i = 0; i < ITEMS; i++) {
        size_t of = COUNT_OF(edges);
        fa[i] = i < of * of ? edges[i / of] : (float)(int64_t)random_next(&random) * 1e-18f;
        fb[i] = i < of * of ? edges[i % of] : (float)(int64_t)random_next(&random) * 1e-18f;
    }
    const struct muster_arg args[] = { MUSTER_IN(fa), MUSTER_IN(fb), MUSTER_OUT(fout) };
    MUST(muster_for(m, kernel, ITEMS, args, 3, NULL, NULL, &problem));
    for (size_t i = 0; i < ITEMS; i++) {
        const float expected[4] = { least_of(fa[i], fb[i]), most_of(fa[i], fb[i]),
                                    least_of(most_of(fa[i], -1), fb[i]), fabsf(fa[i]) };
        for (size_t k = 0; k < 4; k++)
            if (!is_same(expected[k], fout[i][k]))
                test_fail(__FILE__, __LINE__, "%s: result %zu of %g and %g is %g, not %g", backend,
                          k, (double)fa[i], (double)fb[i], (double)fout[i][k], (double)expected[k]);
    }
}

static void check_once(struct muster *m, const char *backend)
{
    static uint32_t results[8];
    struct muster_kernel *kernel = load(m, "once");
    const struct muster_arg args[] = { MUSTER_OUT(results) };
    (void)backend;
    MUST(muster_for(m, kernel, 8, args, 1, NULL, NULL, &problem));
    for (int i = 0; i < 8; i++)
        CHECK_EQUAL(201, results[i]);
}

static void check_philox(struct muster *m, const char *backend)
{
    /* Seed, counter and stream, then the four words. */
    static const uint64_t given[3][3] = { { 0, 0, 0 },
                                          { UINT64_MAX, UINT64_MAX, UINT64_MAX },
                                          { 0x299f31d0a4093822, 0x85a308d3243f6a88,
                                            0x0370734413198a2e } };
    static const uint32_t expected[3][4] = { { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 },
                                             { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd },
                                             { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } };
    static uint32_t results[3][6];
    struct muster_kernel *kernel = load(m, "philox");
    const struct muster_arg args[] = { MUSTER_IN(given), MUSTER_OUT(results) };
    (void)backend;
    MUST(muster_for(m, kernel, 3, args, 2, NULL, NULL, &problem));
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < 4; k++)
            CHECK_EQUAL(expected[i][k], results[i][k]);
    /* The first is also the block that the short form takes its word from. */
    CHECK_EQUAL(expected[0][0], results[0][4]);
    CHECK_EQUAL(float_bits((float)(expected[0][0] >> 8) / 16777216.0f), results[0][5]);
}

static void integers_have_the_same_bits_everywhere(void)
{
    on_each(check_integers);
}

static void floats_have_the_same_bits_everywhere(void)
{
    on_each(check_floats);
}

static void arguments_are_evaluated_once(void)
{
    on_each(check_once);
}

static void random_numbers_are_the_published_ones(void)
{
    on_each(check_philox);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(integers_have_the_same_bits_everywhere),
        TEST(floats_have_the_same_bits_everywhere),
        TEST(arguments_are_evaluated_once),
        TEST(random_numbers_are_the_published_ones),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
