/*
 * Which called names a portable source may have: those that it or the prelude defines, however they
 * are spelled; for others the portable one is named.
 */
#include "base/random.h"
#include "base/text.h"
#include "kernel/signature.h"
#include "kernel/suggest.h"
#include "support.h"

#define ENTRY                                                                                      \
    "MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL const float *in, MUSTER_GLOBAL float *out)\n"

static struct kernel_signature signature;

static muster_status read_text(const char *text)
{
    return kernel_signature_read(&signature, text, strlen(text), "here.c", &problem);
}

static void a_name_that_nothing_defines_is_refused(void)
{
    static const struct {
        const char *text, *place, *name, *fix;
    } cases[] = {
        { ENTRY "{ out[i] = exp(in[i]); }", "here.c:2:", "'exp'", "" },
        { ENTRY "{ out[i] = (float)drand48(); }", "here.c:2:", "'drand48'", "muster_random(" },
        { ENTRY "{ out[i] = rand(); }", "here.c:2:", "'rand'", "muster_random(" },
        { ENTRY "{ out[i] = fminf(in[i], 0); }", "here.c:2:", "'fminf'", "call muster_min" },
        { ENTRY "{ out[i] = fmax(in[i], 0); }", "here.c:2:", "'fmax'", "call muster_max" },
        { ENTRY "{ out[i] = __builtin_fabsf(in[i]); }", ":2:", "_fabsf'", "call muster_fabs " },
        { ENTRY "{ out[i] = native_sqrt(in[i]); }", ":2:", "'native_sqrt'", "call muster_sqrt" },
        { ENTRY "{ out[i] = __popc(3); }", ":2:", "'__popc'", "call muster_popcount" },
        { ENTRY "{ out[i] = get_global_id(0); }", ":2:", "'get_global_id'", "first parameter" },
        { ENTRY "{ out[i] = muster_squrt(in[i]); }", ":2:", "", "did you mean muster_sqrt?" },
        { "static float helper(float x) { return x; }\n" ENTRY "{ out[i] = helpre(in[i]); }",
          "here.c:3:", "'helpre'", "did you mean helper?" },
        { ENTRY "{ printf(\"x\"); }", "here.c:2:", "'printf'", "define it in the file" },
        /* In parentheses, after return, behind a star. */
        { ENTRY "{ out[i] = (fabsf)(in[i]); }", "here.c:2:", "'fabsf'", "muster_fabs" },
        { ENTRY "{ out[i] = ((fabsf))(in[i]); }", "here.c:2:", "'fabsf'", "muster_fabs" },
        { ENTRY "{ out[i] = (*fabsf)(in[i]); }", "here.c:2:", "'fabsf'", "muster_fabs" },
        { "static float g(float x)\n{ return (fabsf)(x); }\n" ENTRY "{ out[i] = g(in[i]); }",
          "here.c:2:", "'fabsf'", "muster_fabs" },
        /* Through macros. */
        { "#define E exp\n" ENTRY "{ out[i] = E(in[i]); }", "here.c:3:", "'exp'", "" },
        { "#define D E\n#define E exp\n" ENTRY "{ out[i] = D(in[i]); }", ":4:", "'exp'", "" },
        { "#define E(x) exp(x)\n" ENTRY "{ out[i] = E(in[i]); }", "here.c:1:", "'exp'", "" },
        { "#define AP(fn, x) fn(x)\n" ENTRY "{ out[i] = AP(fabsf, in[i]); }", ":3:", "'fabsf'",
          "muster_fabs" },
        { "#define W(fn) static float g(float x) { return fn(x); }\nW(exp)\n" ENTRY
          "{ out[i] = g(in[i]); }",
          "here.c:2:", "'exp'", "" },
        /* One of two definitions. */
        { "#ifdef X\n#define E muster_sqrt\n#else\n#define E exp\n#endif\n" ENTRY
          "{ out[i] = E(in[i]); }",
          ":7:", "'exp'", "" },
        /* Declared, and nowhere defined. */
        { "extern double exp(double);\n" ENTRY "{ out[i] = exp(in[i]); }",
          ":3:", "'exp' is declared but not defined", "" },
        { "static float g(float x);\n" ENTRY "{ out[i] = g(in[i]); }",
          ":3:", "'g' is declared but not defined", "" },
        { "static const float k = sin(1.0f);\n" ENTRY "{ out[i] = k; }", ":1:", "'sin'", "" },
        /* A vendor's type, made like a function's call. */
        { ENTRY "{ out[i] = ((float4)(1, 2, 3, 4)).x; }", ":2:", "'float4'", "" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        muster_status status = read_text(cases[i].text);
        if (status != MUSTER_E_PARSE)
            printf("    accepted: %s\n", cases[i].text);
        CHECK_STATUS(MUSTER_E_PARSE, status);
        CHECK_CONTAINS(cases[i].place, problem.text);
        CHECK_CONTAINS(cases[i].name, problem.text);
        CHECK_CONTAINS(cases[i].fix, problem.fix);
    }
}

static void what_is_defined_may_be_called(void)
{
    static const char *const texts[] = {
        ENTRY "{ out[i] = muster_min(muster_sqrt(in[i]), (float)(i)); }",
        ENTRY "{ if (i) (void)(in); out[i] = (float)sizeof(float) + (float)(uint32_t)(i); }",
        "static float g(float x) { return x; }\n" ENTRY "{ out[i] = g((g)(in[i])); }",
        "static float (g)(float x) { return x; }\n" ENTRY "{ out[i] = g(in[i]); }",
        "static float g(float x);\n" ENTRY "{ out[i] = g(in[i]); }\n"
        "static float g(float x) { return x; }\n",
        "static float g(float x);\n" ENTRY "{ out[i] = in[i]; }",
        "#define SQUARE(x) ((x) * (x))\nstatic const float k = SQUARE(2.0f);\n" ENTRY
        "{ out[i] = SQUARE(in[i]) + k; }",
        "#define exp(x) muster_sqrt(x)\n" ENTRY "{ out[i] = exp(in[i]); }",
        "#define root muster_sqrt\n" ENTRY "{ out[i] = root(in[i]); }",
        "#define OP(name, op) static float name(float a, float b) { return a op b; }\n"
        "OP(add, +)\nOP(sub, -)\n" ENTRY "{ out[i] = add(sub(in[i], 1), 2); }",
        "#define real float\n#define CAST(T, x) ((T)(x))\n" ENTRY
        "{ out[i] = (real)(in[i]) + CAST(float, i); }",
        "typedef float number;\ntypedef struct { float x; } pair;\n" ENTRY
        "{ pair p = { (number)(in[i]) }; out[i] = p.x; }",
        "typedef float real, row[4], *place;\n" ENTRY
        "{ row r = { (real)(in[i]) }; place p = (place)(r); out[i] = (real)(*p); }",
        ENTRY "{ typedef uint32_t word, half; out[i] = (word)(in[i]) + (half)(1); }",
        /* Braces that open in each part of a conditional, and close once. */
        "static float g(float x)\n{\n#ifdef A\n  for (;;) {\n#elif defined(B)\n  if (x) {\n"
        "#else\n  while (0) {\n#endif\n  }\n  return x; }\n"
        "#ifdef A\nstatic float h(float x) {\n#else\nstatic float h(float x) { x++;\n#endif\n"
        "  return x; }\n" ENTRY "{ out[i] = g(h(in[i])); }",
        "#define CALL(f,\\\n  x) f(x)\n#if 1\n#if 0\n#else\n#endif\n#endif\n#else\n#endif\n" ENTRY
        "{ out[i] = CALL(muster_sqrt, in[i]); }",
        ENTRY "{ float (*row)[4] = 0; out[i] = row ? 1 : UINT64_C(2) + UINT32_MAX; }",
        ENTRY "{ for (int k = 0; k < 3; k++) (void)k; while (0) (void)0; switch (i) { default: } "
              "do (void)0; while (0); out[i] = 1; }",
        "/* exp(x) */ // sin(x)\n" ENTRY "{ out[i] = \"exp(\"[0] + '('; }",
        ENTRY "{ out[i] = 1; }\nMUSTER_KERNEL void g(uint64_t i) { f(i, 0, 0); }",
        "#define M(a) { a }\n#define EMPTY\n" ENTRY "{ EMPTY out[i] = 1; }",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        muster_status status = read_text(texts[i]);
        if (status != MUSTER_OK)
            printf("    refused: %s\n    %s\n", texts[i], problem.text);
        CHECK_STATUS(MUSTER_OK, status);
    }
}

/* The list of what is known is the prelude's own text, so that nothing is written twice. */
static void what_the_prelude_has_is_known(void)
{
    static const char *const names[] = {
        "muster_sqrt",   "muster_float_bits", "muster_min",     "muster_clamp",
        "muster_mulhi",  "muster_random",     "muster_random4", "muster_random_float",
        "muster_rotate", "muster_popcount",   "UINT64_C"
    };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char text[256];
        snprintf(text, sizeof text, ENTRY "{ out[i] = %s(1, 2); }", names[i]);
        CHECK_STATUS(MUSTER_OK, read_text(text));
    }
}

static void too_many_names_are_refused(void)
{
    size_t room = (NAMES_MAX + 8) * 24 + 256, used = 0;
    char *text = malloc(room);
    CHECK(text != NULL);
    for (int i = 0; i < NAMES_MAX; i++)
        used += (size_t)snprintf(text + used, room - used, "#define name%d 1\n", i);
    snprintf(text + used, room - used, ENTRY "{ out[i] = 1; }\n");
    CHECK_STATUS(MUSTER_E_PARSE, read_text(text));
    CHECK_CONTAINS("too many names", problem.text);
    free(text);
    CHECK_STATUS(MUSTER_OK, read_text(ENTRY "{ out[i] = 1; }"));
}

static size_t distance(const char *one, const char *other)
{
    return text_distance(one, strlen(one), other, strlen(other), 4);
}

static void names_are_as_far_apart_as_slips_of_a_finger(void)
{
    CHECK_EQUAL(0, distance("sqrt", "sqrt"));
    CHECK_EQUAL(1, distance("sqrt", "sqr"));
    CHECK_EQUAL(1, distance("sqrt", "sqtr"));
    CHECK_EQUAL(1, distance("sqrt", "sqrtf"));
    CHECK_EQUAL(1, distance("sqrt", "sart"));
    CHECK_EQUAL(2, distance("sqrt", "qrtf"));
    CHECK_EQUAL(4, distance("sqrt", "exponential"));
    CHECK_EQUAL(3, distance("", "abc"));
}

/* Whatever the text, it is read or refused, and nothing runs over. */
static void any_text_is_read(void)
{
    static const char *const pieces[] = {
        "#define ", "f",   "(", ")", "{", "}",  ",", ";",  "=",       "x",          "\n", "exp",
        "typedef ", "(x)", "*", "&", " ", "\"", "'", "if", "return ", "muster_min", "##", "\\\n"
    };
    struct muster_error ignored;
    struct random source;
    random_init(&source, test_seed());
    for (uint32_t turn = 0; turn < 3000; turn++) {
        char text[512] = ENTRY "{ out[i] = 1; }\n";
        while (strlen(text) < sizeof text - 32)
            strcat(text, pieces[random_below(&source, COUNT_OF(pieces))]);
        kernel_signature_read(&signature, text, strlen(text), "any.c", &ignored);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_name_that_nothing_defines_is_refused),
        TEST(what_is_defined_may_be_called),
        TEST(what_the_prelude_has_is_known),
        TEST(too_many_names_are_refused),
        TEST(names_are_as_far_apart_as_slips_of_a_finger),
        TEST(any_text_is_read),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
