/*
 * Reading a portable kernel's source, and writing it in each language.
 */
#include "../fuzz/kernel_source.c" /* NOLINT(bugprone-suspicious-include): driven below */
#include "../fuzz/mutate.h"
#include "harness.h"

#define ENTRY(parameters) "MUSTER_KERNEL void f(" parameters ") { }\n"

static struct kernel_signature signature;
static struct muster_error err;

static muster_status read_text(const char *text)
{
    err = (struct muster_error){ .text = "" };
    return kernel_signature_read(&signature, text, strlen(text), "f.c", &err);
}

static void a_signature_is_read(void)
{
    CHECK_STATUS(MUSTER_OK, read_text("// MUSTER_KERNEL void no(\n"
                                      "#define MUSTER_KERNEL_LIKE \\\n MUSTER_KERNEL nothing\n"
                                      "static const char *s = \"MUSTER_KERNEL void no(\";\n"
                                      "MUSTER_KERNEL void declared(uint64_t i);\n"
                                      "MUSTER_KERNEL /* here */ void\n  f(const uint64_t item,\n"
                                      "  float a, // a value\n  uint32_t const n, struct pair p,\n"
                                      "  MUSTER_GLOBAL const float *restrict x,\n"
                                      "  const MUSTER_GLOBAL uint8_t* y) { y[item]; }\n"
                                      "MUSTER_KERNEL void g(uint64_t i) { }\n"));
    CHECK_EQUAL(2, signature.count);
    const struct kernel_entry *f = kernel_signature_find(&signature, "f");
    CHECK(f != NULL && kernel_signature_find(&signature, "g") != NULL);
    CHECK(kernel_signature_find(&signature, "declared") == NULL);
    CHECK_EQUAL(5, f->parameter_count);
    CHECK_TEXT("float", f->parameters[0].type);
    CHECK_EQUAL(4, f->parameters[0].bytes);
    CHECK_TEXT("uint32_t const", f->parameters[1].type);
    CHECK_EQUAL(4, f->parameters[1].bytes);
    CHECK_TEXT("struct pair", f->parameters[2].type);
    CHECK_EQUAL(0, f->parameters[2].bytes);
    CHECK_TEXT("MUSTER_GLOBAL const float * restrict", f->parameters[3].type);
    CHECK(f->parameters[3].is_block && !f->parameters[2].is_block);
    CHECK_TEXT("const MUSTER_GLOBAL uint8_t *", f->parameters[4].type);
    CHECK_EQUAL(0, kernel_signature_find(&signature, "g")->parameter_count);
}

static void what_is_wrong_is_told_with_its_place(void)
{
    static const struct {
        const char *text, *words;
    } wrong[] = {
        { "", "no function is marked" },
        { "int f(void) { return 0; }", "no function is marked" },
        { "\n\nMUSTER_KERNEL int f(uint64_t i) {}", "f.c:3: void follows" },
        { "MUSTER_KERNEL void", "the end" },
        { "MUSTER_KERNEL void (uint64_t i) {}", "name has 1 to 63" },
        { "MUSTER_KERNEL void f;", "'(' follows" },
        { ENTRY(""), "a type and a name" },
        { ENTRY("void"), "a type and a name" },
        { ENTRY("uint64_t"), "a type and a name" },
        { ENTRY("uint32_t i"), "first parameter" },
        { ENTRY("uint64_t i, float"), "a type and a name" },
        { ENTRY("uint64_t i,"), "a type and a name" },
        { ENTRY("uint64_t i, const float *x"), "MUSTER_GLOBAL stands before every pointer" },
        { ENTRY("uint64_t i, MUSTER_GLOBAL float x"), "MUSTER_GLOBAL stands before every pointer" },
        { ENTRY("uint64_t i, MUSTER_GLOBAL float **x"), "pointer to a pointer" },
        { ENTRY("uint64_t i, MUSTER_GLOBAL float x[]"), "value or a pointer" },
        { ENTRY("uint64_t i, void (*f)(void)"), "value or a pointer" },
        { ENTRY("uint64_t i, float x = 1"), "value or a pointer" },
        { ENTRY("uint64_t i,\n#if 1\n float x\n#endif\n"), "f.c:2: a kernel's parameters" },
        { "MUSTER_KERNEL void f(uint64_t i", "the end" },
        { "MUSTER_KERNEL void f(uint64_t i) int x;", "body follows" },
        { ENTRY("uint64_t i") ENTRY("uint64_t i"), "f.c:2: two kernels have the same name" },
        { "#include <stdio.h>\n" ENTRY("uint64_t i"), "f.c:1: a portable kernel may include only" },
        { " # include \"muster_kernel.hpp\n" ENTRY("uint64_t i"), "may include only" },
        { ENTRY(
              "uint64_t i, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8,"
              "int a9, int b0, int b1, int b2, int b3, int b4, int b5, int b6"),
          "at most 16 parameters" },
        { ENTRY("uint64_t i, "
                "an_unusually_long_name_of_a_type_that_goes_on_and_on_and_on_and_on_and_on_"
                "and_on_and_on_and_never_ends x"),
          "type is too long" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_STATUS(MUSTER_E_PARSE, read_text(wrong[i].text));
        CHECK_CONTAINS(wrong[i].words, err.text);
        CHECK(err.fix[0] != '\0');
    }
    static const char zero[] = "MUSTER_KERNEL void f(uint64_t i) { }\0";
    CHECK_STATUS(MUSTER_E_PARSE, kernel_signature_read(&signature, zero, sizeof zero, "f.c", &err));
    CHECK_CONTAINS("zero bytes", err.text);
}

static void the_prelude_s_own_line_is_taken_out(void)
{
    char *out;
    size_t bytes;
    static const char text[] = "#include <muster_kernel.h>\nMUSTER_KERNEL void f(uint64_t i) { }\n";
    CHECK_STATUS(MUSTER_OK, read_text(text));
    CHECK_STATUS(MUSTER_OK, kernel_translate(&signature, text, strlen(text), "f.c", KERNEL_C,
                                             &platform_heap, &out, &bytes, &err));
    CHECK_CONTAINS("#line 1 \"f.c\"\n\nMUSTER_KERNEL void f(", out);
    CHECK(strstr(out, "#include <muster_kernel.h>\n") == NULL);
    allocator_give(&platform_heap, out, bytes + 1, 1);
}

static void each_language_gets_its_wrapper(void)
{
    static const char text[] =
        "MUSTER_KERNEL void f(uint64_t i, float a, MUSTER_GLOBAL int *x) { }";
    static const struct {
        enum kernel_language language;
        const char *words[3];
    } expected[] = {
        { KERNEL_C,
          { "int f(uint64_t muster_begin, uint64_t muster_end, void *const *muster_args)",
            "MUSTER_GLOBAL int * muster_1 = *(MUSTER_GLOBAL int * *)muster_args[1];",
            "muster_item_f(muster_i, muster_0, muster_1);" } },
        { KERNEL_CUDA_CPP,
          { "extern \"C\" __global__ void f(uint64_t muster_begin, uint64_t muster_items,\nfloat",
            "extern \"C\" __global__ void muster_batch_f(const unsigned char *muster_records, "
            "uint32_t muster_count)",
            "muster_item_f(muster_begin + muster_i, muster_0, muster_1);" } },
        { KERNEL_OPENCL_C,
          { "kernel void f(ulong muster_begin, ulong muster_items,\nfloat muster_0,\n"
            "global uchar *muster_block_1, ulong muster_offset_1)",
            "MUSTER_GLOBAL int * muster_1 = (MUSTER_GLOBAL int *)(muster_block_1 + "
            "muster_offset_1)",
            "#pragma OPENCL FP_CONTRACT OFF" } },
    };
    CHECK_STATUS(MUSTER_OK, read_text(text));
    for (size_t i = 0; i < 3; i++) {
        char *out;
        size_t bytes;
        CHECK_STATUS(MUSTER_OK,
                     kernel_translate(&signature, text, strlen(text), "f.c", expected[i].language,
                                      &platform_heap, &out, &bytes, &err));
        for (size_t w = 0; w < 3; w++)
            CHECK_CONTAINS(expected[i].words[w], out);
        allocator_give(&platform_heap, out, bytes + 1, 1);
    }
}

static void entries_of_other_languages_are_found(void)
{
    char names[8][KERNEL_NAME_BYTES];
    static const char cuda[] = "/* __global__ void no( */ extern \"C\" __global__ void "
                               "__launch_bounds__(256) one(int a) {}\n"
                               "extern \"C\" __global__ void two(int a) {}";
    static const char opencl[] =
        "kernel void __attribute__((reqd_work_group_size(1,1,1))) one(int a)"
        "{}\n__kernel void two(global int *x) {}";
    static const char ptx[] =
        ".version 8.0\n.target sm_90\n.visible .entry one(\n.param .u64 p)\n{}\n"
        ".visible .entry muster_batch_one(\n)\n{}\n.entry two(\n){}";
    static const struct {
        enum muster_kernel_kind kind;
        const char *text;
    } texts[] = { { MUSTER_KERNEL_CUDA, cuda },
                  { MUSTER_KERNEL_OPENCL, opencl },
                  { MUSTER_KERNEL_PTX, ptx } };
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQUAL(
            2, kernel_entries_guess(texts[i].kind, texts[i].text, strlen(texts[i].text), names, 8));
        CHECK_TEXT("one", names[0]);
        CHECK_TEXT("two", names[1]);
        CHECK_EQUAL(
            2, kernel_entries_guess(texts[i].kind, texts[i].text, strlen(texts[i].text), names, 0));
    }
}

static void any_text_is_read_or_refused(void)
{
    static const char *const corpus[] = {
        "",
        "#include \"muster_kernel.h\"\n" ENTRY("uint64_t i, float a, MUSTER_GLOBAL const float *x"),
        "MUSTER_KERNEL void f(uint64_t i) { }\nMUSTER_KERNEL void g(uint64_t i) { }",
        "/* a */ // b\n#define X \\\n y /* \n */ z\n'\\'' \"\\\"\" MUSTER_KERNEL void ",
        "MUSTER_KERNEL\nMUSTER_KERNEL void f(const uint64_t i, MUSTER_GLOBAL uint8_t *restrict p);",
        "extern \"C\" __global__ void __launch_bounds__(1) x(int a) {}\n.entry y()kernel void z()",
    };
    mutate_all(test_seed(), corpus, sizeof corpus / sizeof *corpus,
               test_repetitions(TEST_BY_SANITIZER(100000, 50000, 5000)));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(a_signature_is_read),
                                         TEST(what_is_wrong_is_told_with_its_place),
                                         TEST(the_prelude_s_own_line_is_taken_out),
                                         TEST(each_language_gets_its_wrapper),
                                         TEST(entries_of_other_languages_are_found),
                                         TEST(any_text_is_read_or_refused) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
