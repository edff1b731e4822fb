/*
 * What a reduction's source says of its partial: the rules for lanes and blocks, the layout that is read
 * from the source, and sources that are refused, each with what is wrong.
 */
#include "harness.h"
#include "kernel/signature.h"

#include <muster/muster.h>
#include <stdlib.h>
#include <string.h>

static struct kernel_signature *signature;
static struct muster_error problem;

static muster_status read_source(const char *text)
{
    problem = (struct muster_error){ .size = sizeof problem };
    return kernel_signature_read(signature, text, strlen(text), "here.c", &problem);
}

#define KERNEL(type) "MUSTER_KERNEL void k(uint64_t i, MUSTER_PARTIAL " type " *p) { p; }\n"
#define COMBINE(type)                                                                              \
    "MUSTER_COMBINE void k_combine(MUSTER_PARTIAL " type " *a, MUSTER_PARTIAL const " type         \
    " *b) { a; }\n"

static void lanes_and_blocks_depend_on_the_size_alone(void)
{
    static const struct {
        size_t bytes;
        uint32_t lanes, threads;
        uint64_t items;
    } rules[] = { { 1, 32, 128, 4096 },    { 8, 32, 128, 4096 },    { 128, 32, 128, 4096 },
                  { 129, 32, 128, 4096 },  { 384, 32, 128, 8192 },  { 512, 32, 64, 8192 },
                  { 513, 16, 64, 16384 },  { 1024, 16, 32, 16384 }, { 2048, 8, 16, 32768 },
                  { 2049, 4, 16, 65536 },  { 8192, 2, 4, 131072 },  { 16384, 1, 2, 262144 },
                  { 16385, 1, 2, 524288 }, { 32768, 1, 1, 524288 } };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        CHECK_EQUAL(rules[i].lanes, partial_lanes(rules[i].bytes));
        CHECK_EQUAL(rules[i].items, partial_block_items(rules[i].bytes));
        CHECK_EQUAL(rules[i].threads, partial_threads(rules[i].bytes));
    }
    /* The lanes of a block are in one block of threads, and in one warp. */
    for (size_t bytes = 1; bytes <= PARTIAL_BYTES_MAX; bytes++) {
        CHECK(partial_threads(bytes) >= partial_lanes(bytes));
        CHECK(partial_block_items(bytes) % partial_lanes(bytes) == 0);
    }
}

static void a_number_is_a_partial(void)
{
    CHECK_STATUS(MUSTER_OK, read_source(KERNEL("float") COMBINE("float")));
    const struct kernel_entry *entry = &signature->entries[0];
    CHECK(kernel_entry_reduces(entry));
    CHECK_EQUAL(0, entry->parameter_count);
    CHECK_TEXT("float", entry->partial.type);
    CHECK_EQUAL(4, entry->partial.bytes);
    CHECK_EQUAL(1, entry->partial.field_count);
    CHECK_TEXT("", entry->partial.fields[0].name);
    CHECK(!entry->partial.has_identity);
}

static void a_struct_is_laid_out_as_in_C(void)
{
    struct all {
        uint8_t a;
        double b, c[3];
        int16_t d[2];
        float e;
        uint8_t f;
    };
    CHECK_STATUS(
        MUSTER_OK,
        read_source(
            "#define THREE 3u /* of them */\n"
            "struct other { float x[7]; };\n"
            "struct all { uint8_t a; double b, c[THREE]; int16_t d[2];\n"
            " float e; uint8_t f; };\n" KERNEL("struct all") COMBINE(
                "struct all") "MUSTER_IDENTITY void k_identity(MUSTER_PARTIAL struct all *p)"
                              " { p->a = 1; }\n"));
    const struct kernel_partial *partial = &signature->entries[0].partial;
    CHECK_EQUAL(sizeof(struct all), partial->bytes);
    CHECK_EQUAL(6, partial->field_count);
    CHECK_EQUAL(offsetof(struct all, b), partial->fields[1].offset);
    CHECK_TEXT("c", partial->fields[2].name);
    CHECK_TEXT("double", partial->fields[2].type);
    CHECK_EQUAL(3, partial->fields[2].count);
    CHECK(partial->fields[2].is_array && !partial->fields[1].is_array);
    CHECK_EQUAL(offsetof(struct all, e), partial->fields[4].offset);
    CHECK_EQUAL(offsetof(struct all, f), partial->fields[5].offset);
    CHECK(partial->has_identity);
}

static void a_name_of_its_own_is_found(void)
{
    CHECK_STATUS(MUSTER_OK,
                 read_source("typedef struct { float z; } first;\n"
                             "typedef struct tag { uint64_t n; float x; } pair;\n" KERNEL("pair")
                                 COMBINE("pair")));
    CHECK_EQUAL(16, signature->entries[0].partial.bytes);
    CHECK_EQUAL(2, signature->entries[0].partial.field_count);
}

static void what_is_wrong_is_said(void)
{
    static const struct {
        const char *source, *says;
    } refused[] = {
        { KERNEL("float"), "no k_combine" },
        { "MUSTER_KERNEL void k(uint64_t i, struct muster_cell at, MUSTER_PARTIAL float *p) "
          "{}" COMBINE("float"),
          "takes no struct muster_cell" },
        { KERNEL("float") COMBINE("double"), "other parameters are expected of 'k_combine'" },
        { KERNEL("float") "MUSTER_COMBINE void k_combine(MUSTER_PARTIAL float *a, float b) {}",
          "other parameters" },
        { KERNEL("float") COMBINE("float") "MUSTER_IDENTITY void k_identity(float *p) {}",
          "'k_identity'" },
        { KERNEL("struct s") COMBINE("struct s"), "'struct s' of its partial is not in the file" },
        { "struct s { float *x; };" KERNEL("struct s") COMBINE("struct s"), "no name at '*'" },
        { "struct s { struct t y; };" KERNEL("struct s") COMBINE("struct s"), "type 'struct'" },
        { "struct s { float x[N]; };" KERNEL("struct s") COMBINE("struct s"), "is 'N'" },
        { "struct s { float x[0]; };" KERNEL("struct s") COMBINE("struct s"), "is '0'" },
        { "struct s { float x[2][2]; };" KERNEL("struct s") COMBINE("struct s"),
          "';' is expected" },
        { "struct s { };" KERNEL("struct s") COMBINE("struct s"), "has no fields" },
        { "struct s { double x[4097]; };" KERNEL("struct s") COMBINE("struct s"), "32768 bytes" },
        { "struct s { double x[999999999]; };" KERNEL("struct s") COMBINE("struct s"), "32768" },
        { "MUSTER_KERNEL void k(uint64_t i, MUSTER_PARTIAL float *p, float a) { }", "last" },
        { "MUSTER_KERNEL void k(uint64_t i, MUSTER_PARTIAL const float *p) { }", "not const" },
        { "MUSTER_KERNEL void k(uint64_t i, MUSTER_PARTIAL float p) { }", "MUSTER_GLOBAL" },
        { "MUSTER_KERNEL void k(uint64_t i, MUSTER_GLOBAL float *x, MUSTER_PARTIAL float *p) { }",
          "'x' is not const" },
        { "MUSTER_KERNEL void k(uint64_t i, float a, float b, float c, float d, float e, float f,"
          " float g, float h, float j, float l, float m, float n, float o, float q, float r,"
          " MUSTER_PARTIAL float *p) { }",
          "at most 14" },
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        CHECK_STATUS(MUSTER_E_PARSE, read_source(refused[i].source));
        CHECK_CONTAINS(refused[i].says, problem.text);
        CHECK(problem.fix[0] != '\0');
    }
}

/* Every beginning of a good source is good or refused, and is read within its bounds. */
static void any_beginning_is_read_safely(void)
{
    static const char whole[] =
        "#define N 4\nstruct s { float x[N], y; uint64_t at; };\n" KERNEL("struct s")
            COMBINE("struct s") "MUSTER_IDENTITY void k_identity(MUSTER_PARTIAL struct s *p) {}";
    for (size_t length = 0; length < sizeof whole; length++) {
        char *copy = malloc(length > 0 ? length : 1);
        CHECK(copy != NULL);
        memcpy(copy, whole, length);
        muster_status status = kernel_signature_read(signature, copy, length, "here.c", &problem);
        CHECK(status == MUSTER_OK || status == MUSTER_E_PARSE);
        free(copy);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(lanes_and_blocks_depend_on_the_size_alone),
                                         TEST(a_number_is_a_partial),
                                         TEST(a_struct_is_laid_out_as_in_C),
                                         TEST(a_name_of_its_own_is_found),
                                         TEST(what_is_wrong_is_said),
                                         TEST(any_beginning_is_read_safely) };
    signature = calloc(1, sizeof *signature);
    int code = signature ? test_main(argc, argv, tests, sizeof tests / sizeof *tests) : 1;
    free(signature);
    return code;
}
