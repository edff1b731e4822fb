/*
 * How large a source's own types are: as C lays them out, and as the compiler says when it builds them.
 */
#include "kernel/signature.h"
#include "support.h"

static struct kernel_signature signature;

#define TYPES                                                                                      \
    "#define SIDE 3\n"                                                                             \
    "enum { FEW = 2, MORE, MOST = MORE * 2 };\n"                                                   \
    "struct pair { float low; uint32_t high; };\n"                                                 \
    "struct padded { uint8_t tag; double value; uint16_t more; };\n"                               \
    "typedef struct { float x, y, z; } point;\n"                                                   \
    "typedef struct pair couple;\n"                                                                \
    "typedef uint16_t pixel;\n"                                                                    \
    "struct nested { struct pair pairs[FEW]; point at; uint8_t rest; };\n"                         \
    "struct grid { float cell[SIDE][0x4 + MOST]; int8_t end; };\n"                                 \
    "union either { double real; uint8_t bytes[11]; };\n"                                          \
    "struct outer { union either one; unsigned char small; short middle; pixel last; };\n"         \
    "typedef struct named { int32_t a; unsigned b, c; } named;\n"

/* Each with what it takes; 0: nobody knows without compiling. */
static const struct {
    const char *type;
    size_t bytes;
} cases[] = {
    { "struct pair", 8 },   { "struct padded", 24 }, { "point", 12 },        { "couple", 8 },
    { "pixel", 2 },         { "struct nested", 32 }, { "struct grid", 124 }, { "union either", 16 },
    { "struct outer", 24 }, { "struct named", 12 },  { "named", 12 },
};

static void each_type_has_the_compiler_s_size(void)
{
    static char text[8192];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", TYPES);
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        used += (size_t)snprintf(
            text + used, sizeof text - used,
            "MUSTER_KERNEL void f%zu(uint64_t i, %s value, MUSTER_GLOBAL const %s *in,\n"
            "MUSTER_GLOBAL %s *out) { (void)value; out[i] = in[i]; }\n",
            i, cases[i].type, cases[i].type, cases[i].type);
    CHECK_STATUS(MUSTER_OK, kernel_signature_read(&signature, text, used, "here.c", &problem));
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CHECK_EQUAL(cases[i].bytes, signature.entries[i].parameters[0].bytes);
        CHECK_EQUAL(cases[i].bytes, signature.entries[i].parameters[1].element_bytes);
    }
    /* The compiler compares each, and all of the file is compiled for one. */
    struct muster *m = open_plain();
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = text,
                                             .code_bytes = used,
                                             .entry = "f0" };
    struct muster_kernel *kernel;
    struct pair {
        float low;
        uint32_t high;
    } pairs[10] = { { 1, 2 } }, copies[10], value = { 0, 0 };
    MUST(muster_kernel_from(m, "f0", &form, 1, &kernel, &problem));
    const struct muster_arg args[] = { MUSTER_VALUE(value), MUSTER_IN(pairs), MUSTER_OUT(copies) };
    MUST(muster_for(m, kernel, 10, args, 3, NULL, NULL, &problem));
    CHECK(copies[0].low == 1 && copies[0].high == 2);
    /* What is smaller is refused now. */
    const struct muster_arg small[] = { MUSTER_VALUE(value), MUSTER_IN((const float *)pairs),
                                        MUSTER_OUT(copies) };
    CHECK_STATUS(MUSTER_E_INVALID, muster_for(m, kernel, 10, small, 3, NULL, NULL, &problem));
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

static void what_cannot_be_told_is_unknown(void)
{
    static const char *const types[] = {
        "struct t { long a; };",
        "struct t { uint32_t a : 3; };",
        "struct t { float *a; };",
        "struct t { float a[N]; };",
        "struct t { struct other a; };",
        "struct t { struct { int a; } b; };",
        "struct t { int a[0]; };",
        "struct t;",
        "struct t { uint8_t a[1000000000][1000000000]; };",
        "struct t { size_t n; };",
        "struct t { int (*f)(void); };",
        "struct t { unsigned long a; };",
    };
    char text[400];
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        snprintf(text, sizeof text,
                 "%s\nMUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL const struct t *in) { }",
                 types[i]);
        CHECK_STATUS(MUSTER_OK,
                     kernel_signature_read(&signature, text, strlen(text), "here.c", &problem));
        CHECK_EQUAL(0, signature.entries[0].parameters[0].element_bytes);
    }
}

/* The arrays of a partial have any constant length. */
static void lengths_in_a_partial_are_constants(void)
{
    static const struct {
        const char *length;
        uint64_t count;
    } lengths[] = { { "0x10", 16 },       { "010", 8 },   { "BINS", 12 },   { "FEW", 3 },
                    { "2 * FEW + 1", 7 }, { "(FEW)", 3 }, { "256u", 256 },  { "NONE", 0 },
                    { "n", 0 },           { "1.5", 0 },   { "FEW - 3", 0 }, { "", 0 } };
    char text[600];
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        snprintf(
            text, sizeof text,
            "#define BINS (4 * 3)\nenum few { ONE = 1, TWO, FEW };\nstruct all { uint32_t "
            "bins[%s]; };\n"
            "MUSTER_KERNEL void f(uint64_t i, MUSTER_PARTIAL struct all *a) { a->bins[0]++; }\n"
            "MUSTER_COMBINE void f_combine(MUSTER_PARTIAL struct all *a, MUSTER_PARTIAL const "
            "struct all *b)\n"
            "{ a->bins[0] += b->bins[0]; }\n",
            lengths[i].length);
        muster_status status =
            kernel_signature_read(&signature, text, strlen(text), "here.c", &problem);
        CHECK_STATUS(lengths[i].count > 0 ? MUSTER_OK : MUSTER_E_PARSE, status);
        if (status == MUSTER_OK)
            CHECK_EQUAL(lengths[i].count, signature.entries[0].partial.fields[0].count);
        else
            CHECK_CONTAINS("here.c:3:", problem.text);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(each_type_has_the_compiler_s_size),
        TEST(what_cannot_be_told_is_unknown),
        TEST(lengths_in_a_partial_are_constants),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
