/*
 * Which elements a kernel's source shows that it touches, against what a job's arguments give each
 * item: what reaches further is refused before anything runs. What the source does not show stays
 * within the halo all the same.
 */
#include "base/random.h"
#include "kernel/signature.h"
#include "support.h"

#include <muster_kernel.h>
#include <sys/mman.h>
#include <unistd.h>

#define ITEMS 64
#define WIDTH 16

static uint32_t in[4 * ITEMS], out[4 * ITEMS], other[4 * ITEMS];

static struct muster_kernel *load(struct muster *m, const char *text)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = text,
                                             .code_bytes = strlen(text),
                                             .entry = "f",
                                             .file = "here.c" };
    struct muster_kernel *kernel;
    MUST(muster_kernel_from(m, "f", &form, 1, &kernel, &problem));
    return kernel;
}

/* `words` NULL: it is taken. */
static void check_job(struct muster *m, const char *text, uint64_t items,
                      const struct muster_arg *args, size_t count,
                      const struct muster_run_options *options, const char *words, const char *fix)
{
    /* What is taken is compiled, which says nothing new under a sanitizer. */
    static uint32_t taken;
    if (!words && taken++ % TEST_BY_SANITIZER(1, 4, 8) != 0)
        return;
    struct muster_kernel *kernel = load(m, text);
    struct muster_run_options run = { .size = sizeof run };
    if (options)
        run = *options;
    muster_status status = muster_for(m, kernel, items, args, count, &run, NULL, &problem);
    if (words ? status != MUSTER_E_INVALID : status != MUSTER_OK)
        printf("    %s: %s\n", text, problem.text);
    CHECK_STATUS(words ? MUSTER_E_INVALID : MUSTER_OK, status);
    if (words && status == MUSTER_E_INVALID) {
        CHECK_CONTAINS(words, problem.text);
        CHECK_CONTAINS(fix, problem.fix);
    }
    muster_kernel_destroy(kernel);
}

#define HEAD                                                                                       \
    "MUSTER_KERNEL void f(uint64_t i, uint32_t n, MUSTER_GLOBAL const uint32_t *in,\n"             \
    "                     MUSTER_GLOBAL uint32_t *out)\n"

struct reach_case {
    const char *text;
    uint64_t halo;
    const char *words, *fix;
};

static void check_cases(struct muster *m, const struct reach_case *cases, size_t count)
{
    uint32_t n = 3;
    for (size_t i = 0; i < count; i++) {
        const struct muster_arg args[] = { MUSTER_VALUE(n), MUSTER_IN_HALO(in, cases[i].halo),
                                           MUSTER_OUT(out) };
        check_job(m, cases[i].text, ITEMS, args, 3, NULL, cases[i].words, cases[i].fix);
    }
}

static void neighbours_beyond_the_halo_are_refused(void)
{
    static const struct reach_case cases[] = {
        { HEAD "{ out[i] = in[i + 1]; }", 0, "line 3: item i touches element i+1 of 'in'",
          "halo of 1" },
        { HEAD "{ out[i] = in[i + 1]; }", 1, NULL, NULL },
        { HEAD "{ out[i] = in[i - 1]; }", 0, "element i-1 of 'in'", "halo of 1" },
        { HEAD "{ out[i] = in[(int64_t)i - 3]; }", 2, "element i-3 of 'in'", "halo of 3" },
        { HEAD "{ out[i] = in[(int64_t)i - 3]; }", 3, NULL, NULL },
        { HEAD "{ out[i] = *(in + i + 2); }", 1, "element i+2", "halo of 2" },
        { HEAD "{ uint32_t a = 2 * *(in + i + 2); out[i] = a; }", 1, "element i+2", "halo of 2" },
        { HEAD "{\nMUSTER_GLOBAL const uint32_t *at = in + i;\nout[i] = at[0] + at[-2]; }", 1,
          "line 5: item i touches element i-2", "halo of 2" },
        { HEAD "{ uint32_t s = 0; for (int k = -4; k <= 4; k++) s += in[i + k]; out[i] = s; }", 3,
          "element i-4", "halo of 4" },
        { HEAD "{ uint32_t s = 0; for (int k = -4; k <= 4; k++) s += in[i + k]; out[i] = s; }", 4,
          NULL, NULL },
        { HEAD "{ uint32_t s = 0, k; for (k = 0; k < 9; k += 4) s += in[i + k]; out[i] = s; }", 7,
          "element i+8", "halo of 8" },
        { HEAD "{ uint32_t s = 0, k; for (k = 0; k < 9; k += 4) s += in[i + k]; out[i] = s; }", 8,
          NULL, NULL },
        { HEAD "{ uint32_t s = 0; for (int k = 5; k > -3; --k) s += in[i + k]; out[i] = s; }", 4,
          "element i+5", "halo of 5" },
        { HEAD
          "{ uint32_t s = 0; for (int k = 0; k < 9; k++) { s += k; } for (int k = 0; k < 2; k++)\n"
          "{ s += in[i + k]; } out[i] = s; }",
          0, "line 4: item i touches element i+1", "halo of 1" },
        { "#define FAR (2 * 3)\n" HEAD "{ out[i] = in[i + FAR]; }", 5, "line 4: ", "halo of 6" },
        { "enum { NEAR = 1, FAR };\n" HEAD "{ out[i] = in[i + FAR]; }", 1, "element i+2",
          "halo of 2" },
        { "enum { NEAR = 1, FAR };\n" HEAD "{ out[i] = in[i + FAR]; }", 2, NULL, NULL },
        /* Functions that are called, with what they are given. */
        { "static uint32_t g(MUSTER_GLOBAL const uint32_t *a, uint64_t j, int d)\n"
          "{ return a[j + d]; }\n" HEAD "{ out[i] = g(in, i, 0) + g(in, i, -2); }",
          1, "line 2: item i touches element i-2 of 'in'", "halo of 2" },
        { "static uint32_t g(MUSTER_GLOBAL const uint32_t *a) { return a[0] + a[1]; }\n" HEAD
          "{ out[i] = g(in + i); }",
          0, "element i+1", "halo of 1" },
        /* Other numbers of elements than an item has. */
        { HEAD "{ out[i] = in[2 * i]; }", 0, "element 2 * i of 'in', and an item has 1", "--item" },
        { HEAD "{ out[4 * i + 1] = in[i]; }", 0, "element 4 * i of 'out'", "--out-item" },
        /* What others may write. */
        { HEAD "{ out[i] = in[i]; out[i + 1] = 0; }", 0, "element i+1 of 'out'", "its own" },
    };
    struct muster *m = open_plain();
    check_cases(m, cases, COUNT_OF(cases));
    MUST(muster_close(m, &problem));
}

static void places_that_are_not_the_items_are_refused(void)
{
    static const struct reach_case cases[] = {
        { HEAD "{\nout[in[i]]++; }", 0, "line 4: item i writes 'out' at a place that data choose",
          "muster reduce" },
        { HEAD "{ uint32_t v = in[i] & 15u;\nif (v > 2)\n    out[v] += 1; }", 0,
          "line 5: ", "reduction" },
        { HEAD "{ uint32_t a, b; a = in[i]; b = a / 2; out[b % 16u] = 1; }", 0, "data choose",
          "atomic_add" },
        { HEAD "{ if (i < n) muster_atomic_add(&out[in[i]], 1u); }", 0, "data choose",
          "reduction" },
        { HEAD "{ out[0] += in[i]; }", 0, "all items write the same element of 'out'",
          "reduction" },
        { HEAD "{ out[n] = in[i]; }", 0, "same element", "reduction" },
        { HEAD "{ out[i] = in[0]; }", 0, "reads 'in' at a place that is not its own",
          "MUSTER_ALL" },
        { HEAD "{ out[i] = in[in[i]]; }", 0, "reads 'in' at a place", "--table" },
    };
    struct muster *m = open_plain();
    memset(in, 0, sizeof in);
    check_cases(m, cases, COUNT_OF(cases));
    MUST(muster_close(m, &problem));
}

/* None of these says where it goes, or all say that it stays at home. */
static void what_is_right_or_not_shown_is_taken(void)
{
    static const struct reach_case cases[] = {
        { HEAD "{ out[i] = in[i]; }", 0, NULL, NULL },
        { HEAD "{ uint64_t k = i; out[k] = in[k]; }", 0, NULL, NULL },
        { HEAD "{ out[i ^ (in[i] & 0u)] = 1; }", 0, NULL, NULL },
        { HEAD "{ uint32_t at = in[i] * 0u; at = at + (uint32_t)i; out[at] = 1; }", 0, NULL, NULL },
        { HEAD "{ if (i == 0) out[0] = 1; }", 0, NULL, NULL },
        { HEAD "{ if (n > 5) out[i + 100] = in[i]; }", 100, "element i+100 of 'out'", "own" },
        { HEAD "{ uint64_t k = i + 1; k -= 1; out[k] = in[k]; }", 0, NULL, NULL },
        { HEAD "{ for (uint32_t k = 0; k < n; k++) out[i] = in[i + k * 0]; }", 0, NULL, NULL },
        { "#define ME (i)\n" HEAD "{ out[ME] = in[ME]; }", 0, NULL, NULL },
        { "static uint64_t own(uint64_t a) { return a; }\n" HEAD "{ out[own(i)] = in[own(i)]; }", 0,
          NULL, NULL },
        { HEAD "{ uint32_t t[4] = { 0, 0, 0, 0 }; t[in[i] & 3u] = 1; out[i] = t[0]; }", 0, NULL,
          NULL },
        { HEAD "{ out += i; out[0] = in[i]; }", 0, NULL, NULL },
        { HEAD "{ in += i; in -= 1; out[i] = in[1]; }", 0, NULL, NULL },
        { HEAD "{ uint32_t t[5], s = 0; for (uint32_t k = 0; k <= 4; k++) t[k] = k;\n"
               "for (uint32_t k = 1; k <= 1; k++) s += in[i + k - 1] + t[k]; out[i] = s; }",
          0, NULL, NULL },
        { HEAD "{ uint32_t s = 0; for (uint32_t k = 1; k <= 1; k++) { s += in[i + k - 1]; }\n"
               "for (uint32_t k = 0; k <= 4; k++) s += k; for (uint32_t k = 0; k < 3; k++)\n"
               "for (uint32_t j = k; j < 1; j++) s += in[i + j]; out[i] = s; }",
          0, NULL, NULL },
        /* Not in every round. */
        { HEAD
          "{ uint32_t s = 0; for (uint32_t k = 0; k < 1; k++) s += k > 0 ? in[i + k - 1] : 0;\n"
          "for (int k = -3; k < 1; k++) if (k >= 0) s += in[i + k]; out[i] = s; }",
          0, NULL, NULL },
        { HEAD "{ uint32_t v; for (v = 0; v < 3; v++) { } out[i + v - v] = in[i]; }", 0, NULL,
          NULL },
    };
    struct muster *m = open_plain();
    check_cases(m, cases, COUNT_OF(cases));
    /* Items that belong together, items of several elements, one item, and arrays that are whole. */
    uint32_t n = 3;
    const struct muster_arg plain[] = { MUSTER_VALUE(n), MUSTER_IN(in), MUSTER_OUT(out) };
    struct muster_run_options run = { .size = sizeof run, .unit_multiple = 8 };
    const char *beside =
        HEAD "{ out[i] = in[i % 8 < 7 ? i + 1 : i] + (i % 8 > 0 ? in[i - 1] : 0); }";
    check_job(m, beside, ITEMS, plain, 3, &run, NULL, NULL);
    run.multiple_is_for_speed = 1;
    check_job(m, beside, ITEMS, plain, 3, &run, "element i-1", "halo of 1");
    run.multiple_is_for_speed = 0;
    run.unit_multiple = 0;
    check_job(m, beside, ITEMS, plain, 3, &run, "element i-1", "halo of 1");
    check_job(m, HEAD "{ out[0] = in[0] + i; }", 1, plain, 3, NULL, NULL, NULL);
    struct muster_arg wide[] = { MUSTER_VALUE(n), MUSTER_IN(in), MUSTER_OUT(out) };
    wide[1].bytes = 4 * sizeof *in;
    const char *four = HEAD "{ uint32_t k, s = 0; for (k = 0; k < 4; k++) s += in[4 * i + k]; "
                            "out[i] = s; }";
    check_job(m, four, ITEMS, wide, 3, NULL, NULL, NULL);
    check_job(m, HEAD "{ out[i] = in[4 * i + 4]; }", ITEMS, wide, 3, NULL,
              "element i * its elements +4 of 'in'", "halo of 1");
    muster_data data;
    MUST(muster_data_create(m, in, sizeof in, 0, &data, &problem));
    const struct muster_arg whole[] = { MUSTER_VALUE(n), MUSTER_ALL(data), MUSTER_OUT(out) };
    check_job(m, HEAD "{ out[i] = in[i + 1] + in[0] + in[in[i]]; }", ITEMS, whole, 3, NULL, NULL,
              NULL);
    MUST(muster_data_destroy(m, data, &problem));
    MUST(muster_close(m, &problem));
}

#define CELLS                                                                                      \
    "MUSTER_KERNEL void f(uint64_t i, struct muster_cell at, int32_t d,\n"                         \
    "                     MUSTER_GLOBAL const uint32_t *a, MUSTER_GLOBAL const uint32_t *b,\n"     \
    "                     MUSTER_GLOBAL uint32_t *out)\n"
#define GET                                                                                        \
    "static uint32_t get(MUSTER_GLOBAL const uint32_t *x, uint64_t i, struct muster_cell at,\n"    \
    "                    int dx, int dy) { return muster_near(x, i, at, dx, dy); }\n"

static void cells_beyond_the_halo_are_refused(void)
{
    static const struct {
        const char *text;
        uint64_t a, b;
        const char *words;
    } cases[] = {
        { CELLS "{ out[i] = muster_near(a, i, at, 2, 0); }", 1, 1,
          "is 2 cells away, and the halo is 1" },
        { CELLS "{ out[i] = muster_near(a, i, at, 0, -2); }", 1, 1, "'a' is 2 cells away" },
        { CELLS "{ out[i] = muster_near(a, i, at, 0, -2); }", 2, 0, NULL },
        { CELLS "{ out[i] = muster_near(b, i, at, 1, 0); }", 1, 0, "'b' is 1 cells away" },
        { CELLS "{ out[i] = a[i + muster_offset(at, 0, 3, 0)]; }", 2, 2, "'a' is 3 cells" },
        { CELLS "{ out[i] = muster_near_3d(a, i, at, 0, 0, 1); }", 1, 1, "two dimensions" },
        { CELLS "{ uint32_t s = 0; for (int y = -2; y <= 2; y++) for (int x = -1; x < 2; x++)\n"
                "s += muster_near(a, i, at, x, y); out[i] = s; }",
          1, 1, "line 5: a neighbour in 'a' is 2" },
        { CELLS "{ uint32_t s = 0; for (int y = -2; y <= 2; y++) for (int x = -1; x < 2; x++)\n"
                "s += muster_near(a, i, at, x, y); out[i] = s; }",
          2, 0, NULL },
        /* In a function that it calls. */
        { GET CELLS "{ out[i] = get(a, i, at, 1, 0); }", 0, 0,
          "reads neighbours, and no argument" },
        { GET CELLS "{ out[i] = get(a, i, at, 1, 0) + get(a, i, at, 0, 3); }", 2, 2,
          "line 2: a neighbour in 'a' is 3 cells" },
        { GET CELLS "{ out[i] = get(a, i, at, 1, 0); }", 1, 0, NULL },
        { GET CELLS "{ out[i] = get(b, i, at, 1, 0); }", 1, 0, "'b' is 1" },
        { "#define NEXT(x) muster_near(x, i, at, 1, 0)\n" CELLS "{ out[i] = NEXT(a); }", 0, 0,
          "reads neighbours" },
        /* Nobody knows how far, or in which array. */
        { CELLS "{ out[i] = muster_near(a, i, at, d, 0); }", 1, 0, NULL },
        { CELLS "{ out[i] = muster_near(b, i, at, d, 0); }", 1, 0, "is not in the source" },
        { "#define NEXT(x) muster_near(x, i, at, 1, 0)\n" CELLS "{ out[i] = NEXT(a); }", 1, 0,
          "is not in the source" },
        { "#define NEXT(x) muster_near(x, i, at, 1, 0)\n" CELLS "{ out[i] = NEXT(a); }", 1, 1,
          NULL },
        { CELLS "{ out[i] = muster_near(out, i, at, 1, 0); }", 1, 1, "'out' is 1" },
    };
    struct muster *m = open_plain();
    int32_t d = 1;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct muster_arg args[] = { MUSTER_GRID(WIDTH, ITEMS / WIDTH), MUSTER_VALUE(d),
                                           MUSTER_IN_HALO(in, cases[i].a),
                                           MUSTER_IN_HALO(other, cases[i].b), MUSTER_OUT(out) };
        check_job(m, cases[i].text, ITEMS, args, 5, NULL, cases[i].words, "");
    }
    MUST(muster_close(m, &problem));
}

/* A distance that only the run knows is held to the halo: arrays lie between pages that nobody may touch. */
static void cells_whose_distance_is_not_shown_stay_within_the_halo(void)
{
    static const int32_t far[] = { 0, 1, -1, 2, -2, 100, -100, INT32_MAX, INT32_MIN };
    struct muster *m = open_plain();
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = ITEMS * sizeof *in;
    char *memory = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory + page, page, PROT_READ | PROT_WRITE) == 0);
    struct muster_kernel *kernel =
        load(m, CELLS
             "{ out[i] = muster_near_3d(a, i, at, d, -d, d) + 0 * muster_near(b, i, at, 0, 0); }");
    for (int is_last = 0; is_last < 2; is_last++) {
        uint32_t *cells = (uint32_t *)(void *)(memory + page + (is_last ? page - bytes : 0));
        for (uint32_t i = 0; i < ITEMS; i++)
            cells[i] = i + 1;
        for (size_t k = 0; k < COUNT_OF(far); k++)
            for (int border = MUSTER_BORDER_ZERO; border <= MUSTER_BORDER_WRAP; border++) {
                int32_t d = far[k],
                        near = d > 1    ? 1
                               : d < -1 ? -1
                                        : d,
                        up = d == INT32_MIN ? -1 : -near;
                const struct muster_arg args[] = {
                    MUSTER_GRID(WIDTH, ITEMS / WIDTH), MUSTER_VALUE(d),
                    MUSTER_IN_BORDER(cells, 1, (enum muster_border)border),
                    MUSTER_IN_BORDER(cells, 1, (enum muster_border)border), MUSTER_OUT(out)
                };
                struct muster_run_options run = { .size = sizeof run, .unit_items = WIDTH };
                MUST(muster_for(m, kernel, ITEMS, args, 5, &run, NULL, &problem));
                for (int64_t i = 0; i < ITEMS; i++) {
                    int64_t x = i % WIDTH + near, y = i / WIDTH + up, rows = ITEMS / WIDTH;
                    bool is_out = x < 0 || x >= WIDTH || y < 0 || y >= rows;
                    x = muster_fold(x, WIDTH, (uint32_t)border);
                    y = muster_fold(y, rows, (uint32_t)border);
                    uint32_t expected =
                        is_out && border == MUSTER_BORDER_ZERO ? 0 : (uint32_t)(y * WIDTH + x) + 1;
                    CHECK_EQUAL(expected, out[i]);
                }
            }
    }
    muster_kernel_destroy(kernel);
    munmap(memory, 3 * page);
    MUST(muster_close(m, &problem));
}

/* Sources that no table of it has room for are read as far as there is, and never beyond. */
static void large_and_strange_sources_are_read(void)
{
    static struct kernel_signature signature;
    static char text[400000];
    static const char *const parts[] = { "for (int k = 0; k < 9; k++) ",
                                         "out[i + k] = in[i];",
                                         "{",
                                         "}",
                                         "k = (",
                                         ")",
                                         "int k = 3; ",
                                         "in[",
                                         "]",
                                         "muster_near(in, i",
                                         ", ",
                                         "1",
                                         "* (",
                                         "+ ",
                                         "- -",
                                         "&k ",
                                         "g(",
                                         "enum { A, B = 2 }",
                                         "\n#define X 3\n",
                                         "= ",
                                         "; ",
                                         "i " };
    struct random random;
    random_init(&random, 7);
    for (int turn = 0; turn < TEST_BY_SANITIZER(300, 90, 31); turn++) {
        size_t used =
            (size_t)snprintf(text, sizeof text, "static int g(int a) { return a; }\n" HEAD "{ ");
        size_t count = turn % 30 == 0 ? 20000 : 40;
        for (size_t i = 0; i < count; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s",
                                     parts[random_next(&random) % COUNT_OF(parts)]);
        snprintf(text + used, sizeof text - used, "\n}\n");
        (void)kernel_signature_read(&signature, text, strlen(text), "here.c", &problem);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(neighbours_beyond_the_halo_are_refused),
        TEST(places_that_are_not_the_items_are_refused),
        TEST(what_is_right_or_not_shown_is_taken),
        TEST(cells_beyond_the_halo_are_refused),
        TEST(cells_whose_distance_is_not_shown_stay_within_the_halo),
        TEST(large_and_strange_sources_are_read),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
