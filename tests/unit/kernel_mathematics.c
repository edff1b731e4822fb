/*
 * The kernels' mathematics: who gets them, who cannot run them, what they give where functions have
 * corners, and what is told of a kernel that takes the device's own.
 */
#include "base/allocator.h"
#include "kernel/build.h"
#include "kernel/compile.h"
#include "kernel/mathematics.h"
#include "kernel/translate.h"
#include "platform/library.h"
#include "platform/machine.h"
#include "support.h"

static const struct kernel_target opencl = { MUSTER_KERNEL_OPENCL, { 0, 0 }, false };
static const struct kernel_target without_double = { MUSTER_KERNEL_OPENCL, { 0, 0 }, true };

#define BODY(call)                                                                                 \
    "MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL const float *x, MUSTER_GLOBAL float *y)\n"     \
    "{ y[i] = " call "; }\n"

static struct muster_kernel_form form_of(const char *text)
{
    return (struct muster_kernel_form){ .size = sizeof(struct muster_kernel_form),
                                        .kind = MUSTER_KERNEL_PORTABLE,
                                        .code = text,
                                        .code_bytes = strlen(text),
                                        .entry = "f" };
}

static struct mathematics read_text(const char *text)
{
    return mathematics_read(text, strlen(text));
}

static void a_function_counts_where_it_is_named(void)
{
    struct mathematics found = read_text(BODY("muster_exp(x[i])"));
    CHECK(found.is_named && found.needs_double && !found.is_own);
    CHECK_EQUAL(0, found.tables);
    CHECK_EQUAL(MATHEMATICS_QUADRANT, read_text(BODY("muster_tan(x[i])")).tables);
    CHECK_EQUAL(MATHEMATICS_POW | MATHEMATICS_ERF,
                read_text(BODY("muster_pow(x[i], muster_erf(x[i]))")).tables);
    CHECK_EQUAL(MATHEMATICS_ATAN2, read_text(BODY("muster_atan2(x[i], 1.0f)")).tables);
    CHECK(read_text("#define CALL(x) (1.0f + muster_cbrt(x))\n" BODY("CALL(x[i])")).is_named);
    CHECK(!read_text(BODY("x[i] /* muster_exp */")).is_named);
    CHECK(!read_text(BODY("muster_sqrt(x[i]) + muster_expo(x[i])")).is_named);
    CHECK(!read_text("").is_named);
}

static void fast_math_counts_before_the_include(void)
{
    static const char before[] =
        "#define MUSTER_FAST_MATH\n#include <muster_kernel.h>\n" BODY("muster_exp(x[i])");
    static const char after[] =
        "#include <muster_kernel.h>\n#define MUSTER_FAST_MATH\n" BODY("muster_exp(x[i])");
    static const char used[] = "#ifdef MUSTER_FAST_MATH\n#endif\n" BODY("muster_exp(x[i])");
    CHECK(read_text(before).is_own);
    CHECK(!read_text(after).is_own);
    CHECK(!read_text(used).is_own);
}

/* Terminated; the caller frees it. */
static char *translated(const char *text, enum kernel_language language)
{
    static struct kernel_signature signature;
    char *out, *copy;
    size_t bytes;
    MUST(kernel_signature_read(&signature, text, strlen(text), "f.c", &problem));
    MUST(kernel_translate(&signature, text, strlen(text), "f.c", language, &platform_heap, &out,
                          &bytes, &problem));
    copy = strdup(out);
    allocator_give(&platform_heap, out, bytes + 1, 1);
    CHECK(copy != NULL);
    return copy;
}

static void a_kernel_pays_only_for_what_it_names(void)
{
    static const enum kernel_language languages[] = { KERNEL_C, KERNEL_CUDA_CPP, KERNEL_OPENCL_C };
    for (size_t i = 0; i < COUNT_OF(languages); i++) {
        char *without = translated(BODY("muster_sqrt(x[i])"), languages[i]);
        char *with = translated(BODY("muster_exp(x[i])"), languages[i]);
        CHECK(!strstr(without, "muster_exp_rest"));
        CHECK(!strstr(without, KERNEL_NEEDS_DOUBLE));
        /* The prelude and the wrapper; the mathematics alone is more than that. */
        CHECK(strlen(without) < 32000 && strlen(with) > strlen(without) + 16000);
        CHECK_CONTAINS("muster_exp_rest", with);
        CHECK_CONTAINS(KERNEL_NEEDS_DOUBLE, with);
        /* Before the prelude, which has the word too. */
        CHECK(strstr(with, "#define MUSTER_NEEDS_QUADRANT\n") > strstr(with, "muster_kernel.h"));
        free(without);
        free(with);
    }
}

static void a_device_without_double_is_not_eligible(void)
{
    const struct muster_kernel_form form = form_of(BODY("muster_exp(x[i])"));
    const struct muster_kernel_form plain = form_of(BODY("muster_sqrt(x[i])"));
    const struct muster_kernel_form own =
        form_of("#define MUSTER_FAST_MATH\n" BODY("muster_exp(x[i])"));
    struct kernel_image image;
    CHECK(kernel_can_build(&form, &opencl));
    CHECK(!kernel_can_build(&form, &without_double));
    CHECK(kernel_can_build(&plain, &without_double));
    CHECK(kernel_can_build(&own, &without_double));
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED,
                 kernel_build(&form, &without_double, &platform_heap, &image, &problem));
    CHECK_CONTAINS("compute in double", problem.text);
    CHECK_CONTAINS("MUSTER_FAST_MATH", problem.fix);
    /* What a bundle has made of it is not either. */
    MUST(kernel_build(&form, &opencl, &platform_heap, &image, &problem));
    bool is_taken = kernel_is_taken(&image.form, &opencl);
    bool is_taken_without = kernel_is_taken(&image.form, &without_double);
    kernel_image_release(&image, &platform_heap);
    CHECK(is_taken && !is_taken_without);
}

#define ZERO 0x00000000u
#define NEGATIVE 0x80000000u
#define ONE 0x3f800000u
#define INFINITE 0x7f800000u
#define NAN_BITS 0x7fc00000u

static void results_are_right_at_the_corners(void)
{
    static const struct {
        const char *call;
        uint32_t in, out;
    } cases[] = {
        { "muster_exp(x[i])", ONE, 0x402df854u },
        { "muster_exp(x[i])", ZERO, ONE },
        { "muster_exp(x[i])", INFINITE | NEGATIVE, ZERO },
        { "muster_exp(x[i])", 0x42b17218u, INFINITE },
        { "muster_exp(x[i])", 0xc2cff1b5u, ZERO },
        { "muster_exp(x[i])", 0xc2cff1b4u, 0x00000001u },
        { "muster_exp(x[i])", 0xffc12345u, NAN_BITS },
        /* Those that a double does not decide. */
        { "muster_exp2(x[i])", 0x3b429d37u, 0x3f804385u },
        { "muster_exp2(x[i])", 0xbcf3a937u, 0x3f7ac6b1u },
        { "muster_log10(x[i])", 0x0efeee7au, 0xc1e99d23u },
        { "muster_sin(x[i])", 0x46199998u, 0xbeb1fa5du },
        { "muster_cos(x[i])", 0xdf18b878u, 0x3f7f14bbu },
        { "muster_cos(x[i])", 0x6115cb11u, 0x3f78142fu },
        { "muster_sin(x[i])", 0xc6199998u, 0x3eb1fa5du },
        { "muster_acos(x[i])", 0x328885a3u, 0x3fc90fdbu },
        { "muster_acos(x[i])", 0x39826222u, 0x3fc907b5u },
        { "muster_sinh(x[i])", 0x3a1285ffu, 0x3a1285ffu },
        { "muster_atan(x[i])", 0x3d8d6b23u, 0x3d8d31c3u },
        /* Those that one rounding decides and two do not. */
        { "muster_log1p(x[i])", 0x35400003u, 0x353fffffu },
        { "muster_log(x[i])", 0x3c413d3au, 0xc08e158fu },
        { "muster_expm1(x[i])", NEGATIVE, NEGATIVE },
        { "muster_log(x[i])", ZERO, INFINITE | NEGATIVE },
        { "muster_log(x[i])", ONE | NEGATIVE, NAN_BITS },
        { "muster_log2(x[i])", 0x00000001u, 0xc3150000u },
        { "muster_log1p(x[i])", NEGATIVE, NEGATIVE },
        { "muster_log1p(x[i])", ONE | NEGATIVE, INFINITE | NEGATIVE },
        { "muster_sin(x[i])", 0x7f7fffffu, 0xbf0599b3u },
        { "muster_cos(x[i])", INFINITE, NAN_BITS },
        { "muster_tan(x[i])", 0x00000001u, 0x00000001u },
        { "muster_asin(x[i])", 0x3f800001u, NAN_BITS },
        { "muster_acos(x[i])", ONE, ZERO },
        { "muster_tanh(x[i])", INFINITE, ONE },
        { "muster_cbrt(x[i])", 0xc1d80000u, 0xc0400000u },
        { "muster_cbrt(x[i])", 0x00000001u, 0x26a14518u },
        { "muster_rsqrt(x[i])", NEGATIVE, INFINITE | NEGATIVE },
        { "muster_rsqrt(x[i])", 0x40800000u, 0x3f000000u },
        { "muster_erf(x[i])", NEGATIVE, NEGATIVE },
        { "muster_erf(x[i])", INFINITE, ONE },
        { "muster_rint(x[i])", 0x40200000u, 0x40000000u },
        { "muster_round(x[i])", 0x40200000u, 0x40400000u },
        { "muster_round(x[i])", 0x3effffffu, ZERO },
        { "muster_rint(x[i])", 0xbe800000u, NEGATIVE },
        { "muster_pow(x[i], 0.0f)", NAN_BITS, ONE },
        { "muster_pow(x[i], 3.0f)", 0xc0000000u, 0xc1000000u },
        { "muster_pow(x[i], 0.5f)", ONE | NEGATIVE, NAN_BITS },
        { "muster_pow(x[i], -1.0f)", NEGATIVE, INFINITE | NEGATIVE },
        /* Halfway between two floats, exactly. */
        { "muster_pow(x[i], 2.0f)", 0x5c810800u, 0x79821220u },
        { "muster_pow(x[i], -25.0f)", 0x42800000u, ZERO },
        { "muster_atan2(x[i], -0.0f)", ZERO, 0x40490fdbu },
        { "muster_atan2(x[i], 2.0f)", 0x007fffffu, 0x003fffffu },
        { "muster_hypot(x[i], 4.0f)", 0x40400000u, 0x40a00000u },
        { "muster_hypot(x[i], muster_bits_float(0x7f800000u))", NAN_BITS, INFINITE },
        { "muster_fmod(x[i], 3.0f)", 0xc0e00000u, 0xbf800000u },
        { "muster_fmod(x[i], 0.0f)", ONE, NAN_BITS },
        { "muster_fmod(x[i], muster_bits_float(1u))", 0x7f7fffffu, ZERO },
        { "muster_fma(x[i], x[i], -1.0f)", 0x3f800003u, 0x35400002u },
    };
    static const struct kernel_target functions = { MUSTER_KERNEL_FUNCTION, { 0, 0 }, false };
    static char text[64 * 128];
    static uint32_t in[COUNT_OF(cases)], out[COUNT_OF(cases)];
    struct kernel_image image;
    /* One kernel with a case for each item: compilers take their time. */
    size_t used = (size_t)snprintf(text, sizeof text,
                                   "MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL const float *x, "
                                   "MUSTER_GLOBAL float *y)\n{\n    switch (i) {\n");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        in[i] = cases[i].in;
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "    case %zu: y[i] = %s; break;\n", i, cases[i].call);
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "    }\n}\n");
    CHECK(used < sizeof text);
    const struct muster_kernel_form form = form_of(text);
    MUST(kernel_build(&form, &functions, &platform_heap, &image, &problem));
    const void *from = in;
    void *to = out, *args[] = { &from, &to };
    muster_status status = image.form.function(0, COUNT_OF(cases), args);
    kernel_image_release(&image, &platform_heap);
    CHECK_STATUS(MUSTER_OK, status);
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        if (out[i] != cases[i].out)
            test_fail(__FILE__, __LINE__, "%s of 0x%08x is 0x%08x, should be 0x%08x", cases[i].call,
                      cases[i].in, out[i], cases[i].out);
}

/* The result of a kernel in whose C `from`, which stands there once, was replaced. */
static uint32_t run_broken(const char *call, const char *from, const char *to, uint32_t in)
{
    char text[512];
    struct kernel_blob blob;
    struct platform_image image;
    uint32_t out = 0;
    snprintf(text, sizeof text, BODY("%s"), call);
    char *sound = translated(text, KERNEL_C), *at = strstr(sound, from);
    char *broken = malloc(strlen(sound) + strlen(to) + 1);
    CHECK(at && !strstr(at + 1, from) && broken);
    sprintf(broken, "%.*s%s%s", (int)(at - sound), sound, to, at + strlen(from));
    MUST(compiler_build(broken, strlen(broken), COMPILE_NATIVE, &platform_heap, NULL, &blob,
                        &problem));
    free(sound);
    free(broken);
    MUST(platform_image_open(&image, blob.data, blob.size, &problem));
    kernel_blob_release(&blob, &platform_heap);
    muster_kernel_function function;
    void *symbol = platform_library_symbol(&image.library, "f");
    const void *block = &in;
    void *to_block = &out, *args[] = { &block, &to_block };
    CHECK(symbol != NULL);
    memcpy(&function, &symbol, sizeof symbol);
    CHECK_STATUS(MUSTER_OK, function(0, 1, args));
    platform_image_close(&image);
    return out;
}

/* Mutations of the header, which scripts/mutate cannot make: the library holds it as text. */
static void every_correction_is_needed(void)
{
    static const struct {
        const char *call, *from, *to;
        uint32_t in, right;
    } cases[] = {
        { "muster_exp2(x[i])", "0x3b429d37u", "1u", 0x3b429d37u, 0x3f804385u },
        { "muster_exp2(x[i])", "0xbcf3a937u", "1u", 0xbcf3a937u, 0x3f7ac6b1u },
        { "muster_log10(x[i])", "0x0efeee7au", "1u", 0x0efeee7au, 0xc1e99d23u },
        { "muster_sin(x[i])", "0x46199998u", "1u", 0x46199998u, 0xbeb1fa5du },
        { "muster_cos(x[i])", "0x5f18b878u", "1u", 0x5f18b878u, 0x3f7f14bbu },
        { "muster_cos(x[i])", "0x6115cb11u", "1u", 0x6115cb11u, 0x3f78142fu },
        { "muster_acos(x[i])", "0x328885a3u", "1u", 0x328885a3u, 0x3fc90fdbu },
        { "muster_acos(x[i])", "0x39826222u", "1u", 0x39826222u, 0x3fc907b5u },
        { "muster_atan(x[i])", "0x3d8d6b23u", "1u", 0x3d8d6b23u, 0x3d8d31c3u },
        { "muster_sinh(x[i])", "0x3a1285ffu, 0x3a1285ffu", "1u, 1u", 0x3a1285ffu, 0x3a1285ffu },
        /* Rounded twice. */
        { "muster_log1p(x[i])", "low > 0.0 || low < 0.0 ?", "low > 1.0 ?", 0x35400003u,
          0x353fffffu },
        /* A power that is halfway between two floats. */
        { "muster_pow(x[i], 2.0f)", "high * 0x1p-66", "high * 0x1p-300", 0x5c810800u, 0x79821220u },
        { "muster_pow(x[i], -25.0f)", "is_exact |= muster_m == 1.0;", "", 0x42800000u, ZERO },
        /* The bits of 2 / pi that only large numbers need. */
        { "muster_sin(x[i])", "muster_m * muster_quadrant_1[muster_row]", "0.0", 0x7f7fffffu,
          0xbf0599b3u },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        uint32_t out = run_broken(cases[i].call, cases[i].from, cases[i].to, cases[i].in);
        if (out == cases[i].right)
            test_fail(__FILE__, __LINE__, "without %s, %s of 0x%08x is right too", cases[i].from,
                      cases[i].call, cases[i].in);
    }
}

static uint32_t own_mathematics_of(const char *text)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "cpu";
    struct muster *m = open_with(options);
    static float x[1000], y[1000];
    const struct muster_arg args[] = { MUSTER_IN(x), MUSTER_OUT(y) };
    const struct muster_kernel_form form = form_of(text);
    struct muster_kernel *kernel;
    struct muster_report report = { .size = sizeof report };
    MUST(muster_kernel_from(m, "f", &form, 1, &kernel, &problem));
    MUST(muster_for(m, kernel, COUNT_OF(x), args, 2, NULL, &report, &problem));
    CHECK(y[7] == 1.0f);
    MUST(muster_close(m, &problem));
    return report.own_mathematics;
}

static void the_report_says_that_bits_may_differ(void)
{
    CHECK_EQUAL(0, own_mathematics_of(BODY("muster_exp(x[i])")));
    CHECK_EQUAL(1, own_mathematics_of("#define MUSTER_FAST_MATH\n" BODY("muster_exp(x[i])")));
    CHECK_EQUAL(0, own_mathematics_of("#define MUSTER_FAST_MATH\n" BODY("x[i] + 1.0f")));
}

static void atomics_count_what_all_items_do(void)
{
    enum { ITEMS = 100000, BINS = 64 };
    static const char text[] = "MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL uint32_t *bins, "
                               "MUSTER_GLOBAL int32_t *ends)\n"
                               "{\n"
                               "    uint32_t hash = (uint32_t)i * 2654435761u;\n"
                               "    muster_atomic_add(&bins[hash >> 26], 1u);\n"
                               "    muster_atomic_min(&ends[0], (int32_t)hash);\n"
                               "    muster_atomic_max(&ends[1], (int32_t)hash);\n"
                               "    muster_atomic_max(&bins[64], hash);\n"
                               "    muster_atomic_min(&bins[65], hash);\n"
                               "}\n";
    uint32_t bins[BINS + 2] = { 0 }, expected[BINS + 2] = { 0 };
    int32_t ends[2] = { INT32_MAX, INT32_MIN }, expected_ends[2] = { INT32_MAX, INT32_MIN };
    bins[BINS + 1] = expected[BINS + 1] = UINT32_MAX;
    for (uint32_t i = 0; i < ITEMS; i++) {
        uint32_t hash = i * 2654435761u;
        expected[hash >> 26]++;
        expected_ends[0] = (int32_t)hash < expected_ends[0] ? (int32_t)hash : expected_ends[0];
        expected_ends[1] = (int32_t)hash > expected_ends[1] ? (int32_t)hash : expected_ends[1];
        expected[BINS] = hash > expected[BINS] ? hash : expected[BINS];
        expected[BINS + 1] = hash < expected[BINS + 1] ? hash : expected[BINS + 1];
    }
    struct muster *m = open_plain();
    const struct muster_kernel_form form = form_of(text);
    struct muster_kernel *kernel;
    muster_stream stream = acquire(m, find(m, "cpu:0"));
    muster_block counts = allocate(m, stream, sizeof bins),
                 edges = allocate(m, stream, sizeof ends);
    const struct muster_operand args[] = { MUSTER_BLOCK_UPDATE(counts),
                                           MUSTER_BLOCK_UPDATE(edges) };
    MUST(muster_kernel_from(m, "f", &form, 1, &kernel, &problem));
    MUST(muster_copy_in(m, stream, counts, 0, bins, sizeof bins, &problem));
    MUST(muster_copy_in(m, stream, edges, 0, ends, sizeof ends, &problem));
    MUST(muster_launch(m, stream, kernel, 0, ITEMS, args, 2, NULL, &problem));
    MUST(muster_copy_out(m, stream, bins, counts, 0, sizeof bins, &problem));
    MUST(muster_copy_out(m, stream, ends, edges, 0, sizeof ends, &problem));
    MUST(muster_stream_wait(m, stream, UINT64_MAX, &problem));
    MUST(muster_block_free(m, stream, counts, &problem));
    MUST(muster_block_free(m, stream, edges, &problem));
    MUST(muster_close(m, &problem));
    for (size_t i = 0; i < BINS + 2; i++)
        CHECK_EQUAL(expected[i], bins[i]);
    CHECK_EQUAL((uint32_t)expected_ends[0], (uint32_t)ends[0]);
    CHECK_EQUAL((uint32_t)expected_ends[1], (uint32_t)ends[1]);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_function_counts_where_it_is_named),  TEST(fast_math_counts_before_the_include),
        TEST(a_kernel_pays_only_for_what_it_names), TEST(a_device_without_double_is_not_eligible),
        TEST(results_are_right_at_the_corners),     TEST(every_correction_is_needed),
        TEST(the_report_says_that_bits_may_differ), TEST(atomics_count_what_all_items_do),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
