/*
 * Reading a portable kernel's source, and writing it in each language.
 */
#include "../fuzz/kernel_source.c" /* NOLINT(bugprone-suspicious-include): driven below */
#include "../fuzz/mutate.h"
#include "harness.h"

#include <stdio.h>

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

static const struct kernel_parameter *parameter_of(const char *text)
{
    static char source[1024];
    snprintf(source, sizeof source, "MUSTER_KERNEL void f(uint64_t i, %s) { }", text);
    CHECK_STATUS(MUSTER_OK, read_text(source));
    CHECK_EQUAL(1, signature.entries[0].parameter_count);
    return &signature.entries[0].parameters[0];
}

static void a_parameter_is_what_it_is_written_as(void)
{
    static const struct {
        const char *text, *type;
        size_t bytes; /* of the value, or of what it points to */
        bool is_block, is_const;
    } cases[] = {
        { "int8_t x", "int8_t", 1, false, false },
        { "uint8_t x", "uint8_t", 1, false, false },
        { "int16_t x", "int16_t", 2, false, false },
        { "uint16_t x", "uint16_t", 2, false, false },
        { "int32_t x", "int32_t", 4, false, false },
        { "uint32_t x", "uint32_t", 4, false, false },
        { "int64_t x", "int64_t", 8, false, false },
        { "uint64_t x", "uint64_t", 8, false, false },
        { "float x", "float", 4, false, false },
        { "double x", "double", 8, false, false },
        { "int x", "int", 4, false, false },
        { "unsigned x", "unsigned", 4, false, false },
        { "unsigned int x", "unsigned int", 4, false, false },
        { "long x", "long", 0, false, false },
        { "int long x", "int long", 0, false, false },
        { "struct pair x", "struct pair", 0, false, false },
        { "const float x", "const float", 4, false, true },
        { "float const x", "float const", 4, false, true },
        { "volatile float x", "volatile float", 4, false, false },
        { "MUSTER_GLOBAL float *x", "MUSTER_GLOBAL float *", 4, true, false },
        { "MUSTER_GLOBAL const double *x", "MUSTER_GLOBAL const double *", 8, true, true },
        { "const MUSTER_GLOBAL int8_t *x", "const MUSTER_GLOBAL int8_t *", 1, true, true },
        { "MUSTER_GLOBAL uint16_t const * x", "MUSTER_GLOBAL uint16_t const *", 2, true, true },
        { "MUSTER_GLOBAL float *const x", "MUSTER_GLOBAL float * const", 4, true, false },
        { "MUSTER_GLOBAL const float *restrict x", "MUSTER_GLOBAL const float * restrict", 4, true,
          true },
        { "MUSTER_GLOBAL struct pair *x", "MUSTER_GLOBAL struct pair *", 0, true, false },
        { "float /* a */ x // b\n", "float", 4, false, false },
        { "MUSTER_GLOBAL\tfloat\n*\n\nx", "MUSTER_GLOBAL float *", 4, true, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct kernel_parameter *parameter = parameter_of(cases[i].text);
        CHECK_TEXT("x", parameter->name);
        CHECK_TEXT(cases[i].type, parameter->type);
        CHECK_EQUAL(cases[i].is_block, parameter->is_block);
        CHECK_EQUAL(cases[i].is_const, parameter->is_const);
        CHECK_EQUAL(cases[i].is_block ? sizeof(void *) : cases[i].bytes, parameter->bytes);
        CHECK_EQUAL(cases[i].is_block ? cases[i].bytes : 0, parameter->element_bytes);
    }
}

/* A text of `count` pieces, the first of which has number 0. */
static const char *repeated(const char *head, const char *piece, int count, const char *tail)
{
    static char text[8192];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", head);
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, piece, i);
    snprintf(text + used, sizeof text - used, "%s", tail);
    return text;
}

static void everything_has_its_limit(void)
{
    static const char kernel[] = "MUSTER_KERNEL void f%d(uint64_t i) { }\n";
    static const struct {
        int most;
        const char *head, *piece, *tail, *words;
    } cases[] = {
        { 32, "", kernel, "", "at most 32 kernels" },
        { 16, "MUSTER_KERNEL void f(uint64_t i", ", int a%d", ") { }", "at most 16 parameters" },
        { 63, "MUSTER_KERNEL void ", "n", "(uint64_t i) { }", "1 to 63 characters" },
        { 4, "", "#include <muster_kernel.h>\n", ENTRY("uint64_t i"), "too often" },
        { 95, "MUSTER_KERNEL void f(uint64_t i, ", "t", " x) { }", "type is too long" },
        { 88, "MUSTER_KERNEL void f(uint64_t i, struct ", "t", " x) { }", "type is too long" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_STATUS(MUSTER_OK, read_text(repeated(cases[i].head, cases[i].piece, cases[i].most,
                                                   cases[i].tail)));
        CHECK_STATUS(MUSTER_E_PARSE, read_text(repeated(cases[i].head, cases[i].piece,
                                                        cases[i].most + 1, cases[i].tail)));
        CHECK_CONTAINS(cases[i].words, err.text);
    }
    CHECK_STATUS(MUSTER_OK, read_text(repeated("", kernel, 32, "")));
    CHECK_EQUAL(32, signature.count);
    for (int i = 0; i < 32; i++) {
        char name[8];
        snprintf(name, sizeof name, "f%d", i);
        CHECK(kernel_signature_find(&signature, name) == &signature.entries[i]);
    }
    CHECK(!kernel_signature_find(&signature, "f32") && !kernel_signature_find(&signature, "f"));
    /* A declaration is no kernel, and takes no place. */
    CHECK_STATUS(MUSTER_OK, read_text(repeated("MUSTER_KERNEL void d(uint64_t i);\n", kernel, 31,
                                               "MUSTER_KERNEL void f0(uint64_t i);\n"
                                               "MUSTER_KERNEL void d(uint64_t i) { }\n")));
    CHECK_EQUAL(32, signature.count);
    CHECK_STATUS(MUSTER_OK,
                 read_text(repeated("MUSTER_KERNEL void f(uint64_t i, int ", "n", 63, ") { }")));
    CHECK_EQUAL(63, strlen(signature.entries[0].parameters[0].name));
    CHECK_STATUS(MUSTER_E_PARSE,
                 read_text(repeated("MUSTER_KERNEL void f(uint64_t i, int ", "n", 64, ") { }")));
    CHECK_CONTAINS("at most 63 characters", err.text);
}

/* The place of what is wrong is its own line, whatever stands before it. */
static void lines_are_counted(void)
{
    static const struct {
        const char *text;
        int line;
    } cases[] = {
        { "MUSTER_KERNEL int f(uint64_t i) { }", 1 },
        { "\nMUSTER_KERNEL int f(uint64_t i) { }", 2 },
        { "\r\n\r\nMUSTER_KERNEL int f(uint64_t i) { }", 3 },
        { "/* a\nb\n*/ MUSTER_KERNEL int f(uint64_t i) { }", 3 },
        { "// a\n// b \\\n c\nMUSTER_KERNEL int f(uint64_t i) { }", 4 },
        { "#define A \\\n b \\\n c\nMUSTER_KERNEL int f(uint64_t i) { }", 4 },
        { "int a; /* a\n */ MUSTER_KERNEL\n int f(uint64_t i) { }", 3 },
        { "static int a = '\\n', b = \"\\n\\\"\"[0];\nMUSTER_KERNEL int f(uint64_t i) { }", 2 },
        { "#define S \"/*\"\n#define T '\\''\nMUSTER_KERNEL int f(uint64_t i) { }", 3 },
        { "\n\n#pragma omp\n", 3 },
        { "#define A \\\n asm\n", 2 },
        { "a\n?\?=\n", 2 },
        { "a\r\n\r", 2 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char place[32];
        CHECK_STATUS(MUSTER_E_PARSE, read_text(cases[i].text));
        snprintf(place, sizeof place, "f.c:%d: ", cases[i].line);
        CHECK_CONTAINS(place, err.text);
    }
}

static void a_mark_in_a_text_is_seen_where_it_is_code(void)
{
    static const struct {
        const char *text;
        bool is_in;
    } cases[] = {
        { "MUSTER_KERNEL", true },
        { "x MUSTER_KERNEL y", true },
        { "#define X MUSTER_KERNEL\n", false },
        { "// MUSTER_KERNEL\n", false },
        { "/* MUSTER_KERNEL */", false },
        { "\"MUSTER_KERNEL\"", false },
        { "MUSTER_KERNEL_X", false },
        { "XMUSTER_KERNEL", false },
        { "MUSTER_KERNE", false },
        { "", false },
        { "'\"' MUSTER_KERNEL '\"'", true },
        { "/* a */MUSTER_KERNEL", true },
        { "// a\nMUSTER_KERNEL", true },
        { "\"open\nMUSTER_KERNEL", true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_EQUAL(cases[i].is_in, kernel_signature_is_in(cases[i].text, strlen(cases[i].text)));
}

static void what_is_wrong_is_told_with_its_place(void)
{
    static const struct {
        const char *text, *words;
    } wrong[] = {
        { "", "no function is marked" },
        { "int f(void) { return 0; }", "no function is marked" },
        { "\n\nMUSTER_KERNEL int f(uint64_t i) {}", "f.c:3: at 'int': void follows" },
        { "MUSTER_KERNEL void", "the end" },
        { "MUSTER_KERNEL void (uint64_t i) {}", "name has 1 to 63" },
        { "MUSTER_KERNEL void f;", "'(' follows" },
        { ENTRY(""), "a type and a name" },
        { ENTRY("void"), "a type and a name" },
        { ENTRY("uint64_t"), "a type and a name" },
        { ENTRY("uint32_t i"), "first parameter" },
        { ENTRY("uint64_t i, float"), "a type and a name" },
        { ENTRY("uint64_t i,"), "a type and a name" },
        { ENTRY("uint64_t i, const float *x"), "a pointer needs MUSTER_GLOBAL" },
        { ENTRY("uint64_t i, MUSTER_GLOBAL float x"), "only a pointer takes MUSTER_GLOBAL" },
        { ENTRY("uint64_t i, MUSTER_GLOBAL float **x"), "pointer to a pointer" },
        { ENTRY("uint64_t i, MUSTER_GLOBAL float x[]"), "value or a pointer" },
        { ENTRY("uint64_t i, void (*f)(void)"), "value or a pointer" },
        { ENTRY("uint64_t i, float x = 1"), "value or a pointer" },
        { ENTRY("uint64_t i,\n#if 1\n float x\n#endif\n"),
          "f.c:2: at '#if 1': a kernel's parameters" },
        { "MUSTER_KERNEL\n#if 1\nvoid f(uint64_t i) { }",
          "f.c:2: at '#if 1': a kernel's parameters" },
        { "MUSTER_KERNEL void\n#if 1\nf(uint64_t i) { }",
          "f.c:2: at '#if 1': a kernel's parameters" },
        { "MUSTER_KERNEL void f\n#if 1\n(uint64_t i) { }",
          "f.c:2: at '#if 1': a kernel's parameters" },
        { "MUSTER_KERNEL void f(\n#if 1\nuint64_t i) { }",
          "f.c:2: at '#if 1': a kernel's parameters" },
        { "MUSTER_KERNEL void f(uint64_t i)\n#if 1\n{ }",
          "f.c:2: at '#if 1': a kernel's parameters" },
        { "MUSTER_KERNEL void f(uint64_t i", "the end" },
        { "MUSTER_KERNEL void f(uint64_t i) int x;", "body follows" },
        { ENTRY("uint64_t i") ENTRY("uint64_t i"), ": two kernels have the same name" },
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

/* Every way to spell what would have a compiler, or an assembler, read another file. */
static void nothing_else_can_be_included(void)
{
#define TAIL "\n" ENTRY("uint64_t i")
    static const char *const spellings[] = {
        "#include \"/etc/passwd\"" TAIL,
        "#include </etc/passwd>" TAIL,
        "#include<stdio.h>" TAIL,
        "  #  include  <stdio.h>" TAIL,
        "#\tinclude\t<stdio.h>" TAIL,
        "#\finclude <stdio.h>" TAIL,
        "#\vinclude <stdio.h>" TAIL,
        "\f#include <stdio.h>" TAIL,
        "#/**/include <stdio.h>" TAIL,
        "#/* a\nb */include <stdio.h>" TAIL,
        "/**/#include <stdio.h>" TAIL,
        "/* a\nb */ # /**/ include /**/ <stdio.h>" TAIL,
        "#include/**/<stdio.h>" TAIL,
        "#include NAME" TAIL,
        "#define NAME <stdio.h>\n#include NAME" TAIL,
        "#include" TAIL,
        "#include <muster_kernel.h" TAIL,
        "#include <muster_kernel.h\"" TAIL,
        "#include \"muster_kernel.h>" TAIL,
        "#include \"./muster_kernel.h\"" TAIL,
        "#include <muster_kernel.h> <stdio.h>" TAIL,
        "#include_next <stdio.h>" TAIL,
        "#include_next <muster_kernel.h>" TAIL,
        "#import <stdio.h>" TAIL,
        "#import <muster_kernel.h>" TAIL,
        "#embed \"/etc/passwd\"" TAIL,
        "#line 1 \"/etc/passwd\"" TAIL,
        "# 1 \"/etc/passwd\"" TAIL,
        "#ident \"x\"" TAIL,
        "#assert machine(x)" TAIL,
        "#pragma GCC dependency \"/etc/passwd\"" TAIL,
        "#pragma GCC pch_preprocess \"/etc/passwd\"" TAIL,
        "#pragma GCC optimize (\"fast-math\")" TAIL,
        "#pragma STDC FP_CONTRACT ON" TAIL,
        "#pragma clang module import x" TAIL,
        "#\\\ninclude <stdio.h>" TAIL,
        "#inc\\\nlude <stdio.h>" TAIL,
        "#inc\\\r\nlude <stdio.h>" TAIL,
        "#inc\\ \nlude <stdio.h>" TAIL,
        "#inc\\\t\r\nlude <stdio.h>" TAIL,
        "#inc\\\n\\\nlude <stdio.h>" TAIL,
        "# \\\n include <stdio.h>" TAIL,
        "#define A \\ \n#include <stdio.h>" TAIL,
        "\\\n#include <stdio.h>" TAIL,
        "// some see the next line in this comment \\ \nint x;" TAIL,
        "/\\\n* x */#include <stdio.h>" TAIL,
        "/* x *\\\n/#include <stdio.h>\n/* */" TAIL,
        "%:include <stdio.h>" TAIL,
        "%: include <stdio.h>" TAIL,
        "%\\\n:include <stdio.h>" TAIL,
        "/**/%:include <stdio.h>" TAIL,
        "?\?=include <stdio.h>" TAIL,
        "#inc?\?/\nlude <stdio.h>" TAIL,
        "/* *?\?/\n/\n#include <stdio.h>\n/* */" TAIL,
        "int x;\r#include <stdio.h>" TAIL,
        "// a comment\r#include <stdio.h>" TAIL,
        "#define S \"/*\"\n#include <stdio.h>\n/* */" TAIL,
        "#define S '/*'\n#include <stdio.h>\n/* */" TAIL,
        "#define S \"//\"\n#include <stdio.h>" TAIL,
        "#if 0\n don't /*\n#endif\n#include <stdio.h>\n/* */" TAIL,
        "char *s = \"/*\\\n\"; /*\"\n#include <stdio.h>\n/* */" TAIL,
        "int s = R\"(\")\"; __asm__(\".incbin \\\"/etc/passwd\\\"\");//\"" TAIL,
        "int s = 1'000; __asm__(\"nop\");" TAIL,
        "#if __has_include(<stdio.h>)\n#endif" TAIL,
        "#if 0\n#elif __has_include(\"/etc/passwd\")\n#endif" TAIL,
        "#if __has_include_next(<stdio.h>)\n#endif" TAIL,
        "#if __has_include__(<stdio.h>)\n#endif" TAIL,
        "#if __has_embed(\"/etc/passwd\")\n#endif" TAIL,
        "#define HAS __has_include\n#if HAS(<stdio.h>)\n#endif" TAIL,
        "#ifdef __has_\\\ninclude\n#endif" TAIL,
        "#define P(a, b) a##b\n#if P(__has_, include)(<stdio.h>)\n#endif" TAIL,
        "#define P(a, b) a # # b\n#define Q(a, b) a %:%: b" TAIL,
        "#define P(a, b) a ?\?=?\?= b" TAIL,
        "asm(\".incbin \\\"/etc/passwd\\\"\");" TAIL,
        "__asm(\".incbin \\\"/etc/passwd\\\"\");" TAIL,
        "__asm__(\".inc\" \"bin \\\"/etc/passwd\\\"\");" TAIL,
        "#define A asm\nA(\"nop\");" TAIL,
        "__as\\\nm__(\"nop\");" TAIL,
        "int x __asm__(\"y\");" TAIL,
        "\\u0061sm(\"nop\");" TAIL,
        "_Pragma(\"GCC dependency \\\"/etc/passwd\\\"\")" TAIL,
        "__pragma(message(\"x\"))" TAIL,
        "__attribute__((section(\"a\\n.incbin \\\"/etc/passwd\\\"\"))) int x;" TAIL,
        "__attribute((section(\"a\"))) int x;" TAIL,
        "__declspec(x) int y;" TAIL,
        "[[gnu::section(\"a\")]] int x;" TAIL,
        "<:<:gnu::section(\"a\"):>:> int x;" TAIL,
        "MUSTER_KERNEL void f(uint64_t i, asm int x) { }",
        "MUSTER_KERNEL void asm(uint64_t i) { }",
        ENTRY("uint64_t i") "// \\",
        ENTRY("uint64_t i") "#define A \\",
    };
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        muster_status status = read_text(spellings[i]);
        if (status != MUSTER_E_PARSE)
            fprintf(stderr, "taken: %s\n", spellings[i]);
        CHECK_STATUS(MUSTER_E_PARSE, status);
        CHECK_CONTAINS("f.c:", err.text);
        CHECK(err.fix[0] != '\0');
    }
}

static void what_only_looks_like_an_include_is_taken(void)
{
    static const char *const spellings[] = {
        "#include <muster_kernel.h>" TAIL,
        "#include \"muster_kernel.h\" /* the\n prelude */ // it is" TAIL,
        " # /**/ include /**/ <muster_kernel.h>" TAIL,
        "// #include <stdio.h>" TAIL,
        "/*\n#include <stdio.h>\n*/" TAIL,
        "// one \\\n#include <stdio.h>" TAIL,
        "static const char *s = \"#include <stdio.h> asm %: ##\";" TAIL,
        "#define include 1\nstatic int x = include;" TAIL,
        "#define MAX(a, b) \\\n    ((a) > (b) ? (a) : (b))" TAIL,
        "#define MAX(a, b) \\\r\n    ((a) > (b) ? (a) : (b))\r" TAIL,
        "#define TWO(a) a; \\\na" TAIL,
        "#define TWO(a)\t\\\na; \\\n\ta\n\n\\\n" TAIL,
        ENTRY("uint64_t i") "#define A x\\\n",
        "#\n#if defined(__CUDACC__) && 1\n#elif 0\n#else\n#endif\n#undef A" TAIL,
        "#if 0\n#error \"not /* here\"\n#endif" TAIL,
        "#pragma unroll 4\n#pragma GCC ivdep\n#pragma GCC unroll 4\n#pragma once" TAIL,
        "#pragma OPENCL EXTENSION cl_khr_fp64 : enable" TAIL,
        "static int plasm, asmx, has_include, a[2]; static int b(int x) { return a[a[x % 2]]; "
        "}" TAIL,
        "static int x(int a) { return a ? '?' : '\\''; } static const char *t = \"what?? "
        "is\";" TAIL,
        "static int x(int a, int b) { return a < b ? a%b : b > a; }" TAIL,
    };
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        muster_status status = read_text(spellings[i]);
        if (status != MUSTER_OK)
            fprintf(stderr, "refused: %s: %s\n", spellings[i], err.text);
        CHECK_STATUS(MUSTER_OK, status);
        CHECK_EQUAL(i < 3, signature.include_count);
        LLVMFuzzerTestOneInput((const uint8_t *)spellings[i], strlen(spellings[i]));
    }
}

/* Two question marks and a slash are a backslash to some compilers, which would eat the quote. */
static void a_file_s_name_cannot_leave_its_quotes(void)
{
    char *out;
    size_t bytes;
    static const char text[] = ENTRY("uint64_t i");
    CHECK_STATUS(MUSTER_OK, read_text(text));
    CHECK_STATUS(MUSTER_OK,
                 kernel_translate(&signature, text, strlen(text), "a\"b\\c\nd\te\x1f ~?\?/",
                                  KERNEL_C, &platform_heap, &out, &bytes, &err));
    CHECK_CONTAINS("# 1 \"abcde ~/\"\n", out);
    allocator_give(&platform_heap, out, bytes + 1, 1);
}

static void the_prelude_s_own_line_is_taken_out(void)
{
    char *out;
    size_t bytes;
    static const char text[] = "#include <muster_kernel.h>\nMUSTER_KERNEL void f(uint64_t i) { }\n";
    CHECK_STATUS(MUSTER_OK, read_text(text));
    CHECK_STATUS(MUSTER_OK, kernel_translate(&signature, text, strlen(text), "f.c", KERNEL_C,
                                             &platform_heap, &out, &bytes, &err));
    CHECK_CONTAINS("# 1 \"f.c\"\n\nMUSTER_KERNEL void f(", out);
    CHECK(strstr(out, "#include <muster_kernel.h>\n") == NULL);
    allocator_give(&platform_heap, out, bytes + 1, 1);
    /* More than once, in several lines: what stands around them stays at its lines. */
    static const char more[] =
        "int a;\n#include <muster_kernel.h> /* b\n c */\nint d;\n"
        "#include \"muster_kernel.h\"\nMUSTER_KERNEL void f(uint64_t i) { }\n"
        "#include <muster_kernel.h>";
    CHECK_STATUS(MUSTER_OK, read_text(more));
    CHECK_STATUS(MUSTER_OK, kernel_translate(&signature, more, strlen(more), "f.c", KERNEL_C,
                                             &platform_heap, &out, &bytes, &err));
    CHECK_CONTAINS("# 1 \"f.c\"\nint a;\n\n\nint d;\n\nMUSTER_KERNEL void f(uint64_t i) { }\n"
                   "\n#undef f\n",
                   out);
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

static void only_what_looks_like_an_entry_is_guessed(void)
{
    static const struct {
        enum muster_kernel_kind kind;
        const char *text;
        size_t count;
        const char *first;
    } cases[] = {
        { MUSTER_KERNEL_CUDA, "", 0, "" },
        { MUSTER_KERNEL_CUDA, "__global__ void f(int a);", 1, "f" },
        { MUSTER_KERNEL_CUDA, "__global__ f;", 0, "" },
        { MUSTER_KERNEL_CUDA, "__global__ f { }", 0, "" },
        { MUSTER_KERNEL_CUDA, "__global__ f; void g(int a) { }", 0, "" },
        { MUSTER_KERNEL_CUDA, "__global__ f { g(1) }", 0, "" },
        { MUSTER_KERNEL_CUDA, "__global__ void 9(int a)", 0, "" },
        { MUSTER_KERNEL_CUDA, "__global__ void __launch_bounds__(8, f(2)) g(int a)", 1, "g" },
        { MUSTER_KERNEL_CUDA, "__global__ __attribute__((x(1))) void g(int a)", 1, "g" },
        { MUSTER_KERNEL_CUDA, "__global__ void muster_batch_f(int a) { }", 0, "" },
        { MUSTER_KERNEL_CUDA, "__global__ void muster_batch_(int a) { }", 1, "muster_batch_" },
        { MUSTER_KERNEL_CUDA, "kernel void f(int a) { }", 0, "" },
        { MUSTER_KERNEL_OPENCL, "__global__ void f(int a) { }", 0, "" },
        { MUSTER_KERNEL_OPENCL, "kernel void f(int a) { } __kernel void g(int a) { }", 2, "f" },
        { MUSTER_KERNEL_PTX, ".visible .entry f(\n)", 1, "f" },
        { MUSTER_KERNEL_PTX, "kernel void f(int a) { }", 0, "" },
        { MUSTER_KERNEL_CUDA,
          "__global__ void n234567890123456789012345678901234567890123456789012345678901234()", 0,
          "" },
        { MUSTER_KERNEL_CUDA,
          "__global__ void n23456789012345678901234567890123456789012345678901234567890123()", 1,
          "n23456789012345678901234567890123456789012345678901234567890123" },
    };
    char names[2][KERNEL_NAME_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(names, 0, sizeof names);
        CHECK_EQUAL(cases[i].count, kernel_entries_guess(cases[i].kind, cases[i].text,
                                                         strlen(cases[i].text), names, 1));
        CHECK_TEXT(cases[i].first, names[0]);
        CHECK_TEXT("", names[1]);
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
        "#/**/include <x>\n%:include <x>\n#inc\\\nlude <x>\n?\?=include <x>\n" ENTRY("uint64_t i"),
        "#define S \"/*\" '//' \\\n ## \r\n__has_include asm [[ \\ _Pragma" TAIL,
        "// a \\\n b\n#pragma unroll\nR\"(\"a)\" 1'0 \"b\\\" /*\"*/ '\\\\'" TAIL,
    };
    mutate_all(test_seed(), corpus, sizeof corpus / sizeof *corpus,
               test_repetitions(TEST_BY_SANITIZER(100000, 50000, 5000)));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(a_signature_is_read),
                                         TEST(a_parameter_is_what_it_is_written_as),
                                         TEST(everything_has_its_limit),
                                         TEST(lines_are_counted),
                                         TEST(a_mark_in_a_text_is_seen_where_it_is_code),
                                         TEST(what_is_wrong_is_told_with_its_place),
                                         TEST(nothing_else_can_be_included),
                                         TEST(what_only_looks_like_an_include_is_taken),
                                         TEST(a_file_s_name_cannot_leave_its_quotes),
                                         TEST(the_prelude_s_own_line_is_taken_out),
                                         TEST(each_language_gets_its_wrapper),
                                         TEST(entries_of_other_languages_are_found),
                                         TEST(only_what_looks_like_an_entry_is_guessed),
                                         TEST(any_text_is_read_or_refused) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
