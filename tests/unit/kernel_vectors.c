/*
 * The loop over a portable kernel's items on a processor: it is vectorised, and gives the bits that
 * the items give one by one, with every compiler that is here. Arguments that overlap see the items
 * in order.
 */
#include "base/allocator.h"
#include "kernel/signature.h"
#include "kernel_support.h"
#include "platform/process.h"

#include <math.h>

static const struct kernel_target functions = { MUSTER_KERNEL_FUNCTION, { 0, 0 }, false };
static const char *const compilers[] = { "gcc", "clang" };
/* Sanitizers do not see what a compiler makes: one is enough there. */
enum { COMPILERS = TEST_BY_SANITIZER(2, 1, 1) };

static muster_status build(const char *text, const char *entry, const struct kernel_target *target,
                           struct kernel_image *image)
{
    const struct muster_kernel_form form = portable_form(text, entry);
    problem = (struct muster_error){ .text = "" };
    return kernel_build(&form, target, &platform_heap, image, &problem);
}

/*
 * Bodies of one shape, with what makes a compiler's work harder: names of the arguments are i, n, a,
 * s, x, z (read), y and w (written).
 */
static const char head[] =
    "#include <muster_kernel.h>\n"
    "struct shape { int32_t radius; uint32_t taps; };\n"
    "MUSTER_CONSTANT float table[8] = { 0.5f, 1.25f, -2.0f, 3.0f, 0.1f, 7.0f, -0.3f, 1e-40f };\n"
    "static float bend(float v, uint32_t turns)\n"
    "{ for (uint32_t k = 0; k < turns; k++) v = v * 0.75f + 0.125f; return v; }\n";

static const struct {
    const char *name, *body;
} kernels[] = {
    { "saxpy", "y[i] = a * x[i] + y[i];" },
    { "constant", "float v = x[i]; for (int k = 0; k < 200; k++) v = v * a + 0.5f; y[i] = v;" },
    { "runtime", "float v = x[i]; for (uint32_t k = 0; k < n; k++) v = v * a + 0.5f; y[i] = v;" },
    { "old_style",
      "uint32_t k; float v = x[i]; for (k = n; k > 0; k--) v = v * a + 0.5f; y[i] = v;" },
    { "window", "float v = 0; for (int32_t d = -s.radius; d <= s.radius; d++) v += x[(int64_t)i + "
                "d + 4] * a; y[i] = v;" },
    { "in_memory", "y[i] = 0; for (uint32_t k = 0; k < s.taps + n; k++) y[i] += a * x[i + k];" },
    { "chosen", "float v = x[i]; for (uint32_t k = 0; k < n; k++) { if (v > 2) v = v * a; else { v "
                "= v + 0.5f; v = v * v; } } y[i] = v;" },
    { "leaves", "if (x[i] < 0) return; y[i] = muster_sqrt(x[i]) / a; if (z[i] & 1) return; w[i] = "
                "z[i] / (n + 1);" },
    { "leaves_late", "float v = x[i]; for (uint32_t k = 0; k < n; k++) { v = v * a; if (v > 100) "
                     "return; } y[i] = v;" },
    { "several", "y[i] = x[i] * a; w[i] = z[i] ^ (uint32_t)i; y[i] = y[i] - a; w[i] += "
                 "muster_float_bits(y[i]);" },
    { "two_loops", "float v = x[i]; for (uint32_t k = 0; k < n; k++) v = v * a + 0.5f;\n"
                   "for (uint32_t k = 1; k < s.taps; k++) v = v - table[k & 7]; y[i] = v;" },
    { "nested", "float v = x[i]; for (uint32_t k = 0; k < n; k++) for (uint32_t l = 0; l < s.taps; "
                "l++) v = v * a + table[l & 7]; y[i] = v;" },
    { "helped", "y[i] = bend(x[i], n) + bend(a, 3);" },
    { "until", "float v = x[i]; uint32_t k = 0; while (k < n && v < 50) { v = v * 1.5f + 1; k++; } "
               "y[i] = v; w[i] = k;" },
    { "own_array", "uint64_t t[64]; uint64_t q = z[i] & 31; t[q] = i; t[q + z[i + 3] % 30 + 1] = "
                   "7; w[i] = (uint32_t)t[q];" },
    { "own_arrays", "float t[16]; for (uint32_t k = 0; k < 16; k++) t[k] = x[i] * (float)k;\n"
                    "for (uint32_t k = 0; k < n; k++) t[k & 15] += t[(z[i] + k) & 15]; y[i] = t[3] "
                    "+ t[z[i] & 15];" },
    { "own_struct", "struct { uint32_t a[4]; } t; for (int k = 0; k < 4; k++) t.a[k] = z[i] + k; "
                    "t.a[z[i] & 3] = 5; w[i] = t.a[z[i + 1] & 3];" },
    { "scattered", "w[(i * 7) % 1024] = z[i]; y[(i * 5 + 1) % 1024] = x[i] * a;" },
    { "hash", "uint32_t v = z[i]; for (uint32_t k = 0; k < n; k++) v = (v ^ v >> 7) * 1664525u + "
              "1013904223u; w[i] = v;" },
    { "narrow", "uint8_t v = (uint8_t)z[i]; for (uint32_t k = 0; k < n; k++) v = (uint8_t)(v * 5 + "
                "3); w[i] = v; y[i] = (float)(int8_t)v;" },
    { "divides", "float v = x[i]; for (uint32_t k = 0; k < n / (s.taps + 1); k++) v = a / (v + 3); "
                 "y[i] = muster_trunc(v) + muster_floor(v);" },
};

/* Of this many gcc vectorises the loop over the items, and clang. */
enum { VECTORISED = 7, VECTORISED_BY_CLANG = 2 };

static char source[16384];

/* The first this many of them. */
static void make_source(size_t count)
{
    size_t used = (size_t)snprintf(source, sizeof source, "%s", head);
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(
            source + used, sizeof source - used,
            "MUSTER_KERNEL void %s(uint64_t i, uint32_t n, float a, struct shape s, "
            "MUSTER_GLOBAL const float *x, MUSTER_GLOBAL const uint32_t *z, MUSTER_GLOBAL float "
            "*y, "
            "MUSTER_GLOBAL uint32_t *w)\n{\n%s\n}\n",
            kernels[i].name, kernels[i].body);
    CHECK(used < sizeof source);
}

enum { ITEMS = 1024, MARGIN = 64 };

struct shape {
    int32_t radius;
    uint32_t taps;
};

struct results {
    float y[ITEMS];
    uint32_t w[ITEMS];
};

static float x[ITEMS + MARGIN];
static uint32_t z[ITEMS + MARGIN];

static void make_inputs(void)
{
    static const float special[] = { 0.0f, -0.0f, 1e-42f, -1e38f, INFINITY, NAN, 2.0f, 100.0f };
    uint32_t random = (uint32_t)test_seed() | 1;
    for (size_t i = 0; i < ITEMS + MARGIN; i++) {
        random = random * 1664525u + 1013904223u;
        z[i] = random >> 3;
        x[i] = (float)(int32_t)random * 1e-8f;
        if (i % 13 == 0)
            x[i] = special[i / 13 % COUNT_OF(special)];
    }
}

/* Which of the many NaNs comes out is the device's choice. */
static bool are_same(const struct results *a, const struct results *b, bool has_nans)
{
    for (size_t i = 0; i < ITEMS; i++) {
        bool is_same = memcmp(&a->y[i], &b->y[i], sizeof a->y[i]) == 0;
        if (!is_same && !(isnan(a->y[i]) && isnan(b->y[i])))
            return false;
        if (a->w[i] != b->w[i] && !(has_nans && isnan(a->y[i])))
            return false;
    }
    return true;
}

struct call {
    uint64_t begin, end;
    uint32_t n;
    struct shape shape;
    uint64_t at_once;
};

static void call(muster_kernel_function function, const struct call *call, struct results *out)
{
    float a = 0.99f;
    uint32_t n = call->n;
    struct shape shape = call->shape;
    void *px = x, *pz = z, *py = out->y, *pw = out->w,
         *args[] = { &n, &a, &shape, &px, &pz, &py, &pw };
    for (size_t i = 0; i < ITEMS; i++) {
        out->y[i] = (float)i;
        out->w[i] = (uint32_t)i;
    }
    for (uint64_t begin = call->begin; begin < call->end; begin += call->at_once) {
        uint64_t end = begin + call->at_once < call->end ? begin + call->at_once : call->end;
        CHECK_STATUS(MUSTER_OK, function(begin, end, args));
    }
}

static void check_kernel(const char *compiler, const char *name)
{
    static const struct {
        uint64_t begin, end;
    } ranges[] = { { 0, ITEMS }, { 3, ITEMS - 5 }, { 7, 8 }, { 5, 22 } };
    static const uint32_t lengths[] = { 0, 1, 5, 23 };
    static struct results one_by_one, together;
    struct kernel_image image;
    MUST(build(source, name, &functions, &image));
    CHECK(image.form.apart != NULL && image.form.apart != image.form.function);
    CHECK_EQUAL(3 << 5, image.form.written);
    for (size_t r = 0; r < COUNT_OF(ranges); r++)
        for (size_t l = 0; l < COUNT_OF(lengths); l++) {
            struct call how = { ranges[r].begin,
                                ranges[r].end,
                                lengths[l],
                                { (int32_t)l - 1, lengths[(l + r) % COUNT_OF(lengths)] },
                                1 };
            bool has_nans = strcmp(name, "several") == 0;
            call(image.form.function, &how, &one_by_one);
            how.at_once = ITEMS;
            call(image.form.apart, &how, &together);
            if (!are_same(&one_by_one, &together, has_nans))
                test_fail(__FILE__, __LINE__, "%s by %s, n %u: apart differs", name, compiler,
                          lengths[l]);
            call(image.form.function, &how, &together);
            if (!are_same(&one_by_one, &together, has_nans))
                test_fail(__FILE__, __LINE__, "%s by %s, n %u: in order differs", name, compiler,
                          lengths[l]);
        }
    kernel_image_release(&image, &platform_heap);
}

static void items_together_give_the_bits_of_items_alone(void)
{
    char path[PLATFORM_PATH_BYTES];
    use_cache("bits");
    make_source(COUNT_OF(kernels));
    make_inputs();
    for (size_t c = 0; c < COMPILERS; c++) {
        if (!platform_program_find(compilers[c], path)) {
            printf("    without %s: not run\n", compilers[c]);
            continue;
        }
        setenv("MUSTER_CC", compilers[c], 1);
        for (size_t i = 0; i < COUNT_OF(kernels); i++)
            check_kernel(compilers[c], kernels[i].name);
    }
    unsetenv("MUSTER_CC");
}

/* A compiler that also leaves what it made as assembly text, in `text`. */
static bool use_telling_compiler(const char *compiler, char text[KERNEL_PATH_BYTES])
{
    char path[KERNEL_PATH_BYTES], script[2 * KERNEL_PATH_BYTES], found[PLATFORM_PATH_BYTES];
    if (!platform_program_find(compiler, found))
        return false;
    char name[64];
    snprintf(name, sizeof name, "telling-%s", compiler); /* by which a compiler is known */
    path_in(path, name);
    path_in(text, "kernel.s");
    snprintf(script, sizeof script,
             "#!/bin/sh\n%s \"$@\" || exit\nleft=$#\n"
             "while [ $left -gt 0 ]; do\n"
             "    word=$1\n    shift\n    left=$((left - 1))\n"
             "    case $word in\n"
             "    -o) shift; left=$((left - 1)) ;;\n"
             "    *) set -- \"$@\" \"$word\" ;;\n"
             "    esac\ndone\nexec %s \"$@\" -S -o '%s'\n",
             compiler, compiler, text);
    unlink(text);
    write_whole(path, script, strlen(script), 0700);
    setenv("MUSTER_CC", path, 1);
    return true;
}

/* Whether the function has such an instruction. */
static bool has_instruction(const char *assembly, const char *function, const char *instruction)
{
    char label[80];
    snprintf(label, sizeof label, "\n%s", function); /* a compiler may add to the name */
    const char *begin = strstr(assembly, label);
    CHECK(begin != NULL);
    const char *end = strstr(begin, ".cfi_endproc"), *found = strstr(begin, instruction);
    return found && (!end || found < end);
}

/* The first `count` kernels, from what a compiler made of them. */
static void check_vectors(const char *compiler, size_t count)
{
#if defined(__x86_64__)
    if (COMPILERS == 1)
        return;
    static char assembly[1 << 22];
    char text[KERNEL_PATH_BYTES], function[80];
    struct kernel_image image;
    if (!use_telling_compiler(compiler, text)) {
        printf("    without %s: not run\n", compiler);
        return;
    }
    use_cache(compiler);
    make_source(VECTORISED);
    MUST(build(source, "saxpy", &functions, &image));
    kernel_image_release(&image, &platform_heap);
    assembly[read_whole(text, assembly, sizeof assembly - 1)] = '\0';
    for (size_t i = 0; i < count; i++) {
        snprintf(function, sizeof function, "muster_items_%s", kernels[i].name);
        if (!has_instruction(assembly, function, "mulps"))
            test_fail(__FILE__, __LINE__, "%s multiplies one item at a time", kernels[i].name);
    }
    unsetenv("MUSTER_CC");
#else
    (void)compiler, (void)count;
    printf("    not on this processor\n");
#endif
}

static void gcc_computes_many_items_at_once(void)
{
    check_vectors("gcc", VECTORISED);
}

static void clang_computes_many_items_at_once(void)
{
    check_vectors("clang", VECTORISED_BY_CLANG);
}

static void loops_are_found_that_the_arguments_decide(void)
{
    static const struct {
        const char *header;
        size_t loops;
    } cases[] = { { "for (uint32_t k = 0; k < n; k++) ;", 1 },
                  { "for (const uint32_t k = 0; n != 0; ) ;", 1 },
                  { "uint64_t k; for (k = 3; k <= 2 * n + 1; k++) ;", 1 },
                  { "for (int32_t k = -s.low; k <= s.low; k++) ;", 1 },
                  { "for (uint32_t k = 0 /* first */; k < n // all\n; k++) ;", 1 },
                  { "for (uint32_t k = 0; k < n; k++) for (uint32_t l = 0; l < s.low; l++) ;", 2 },
                  { "for (uint32_t k = 0; k < (uint32_t)a; k++) ;", 1 },
                  { "for (uint32_t k = 0; k < 8; k++) ;", 1 },
                  { "for (uint32_t k = 0; k < n && k < 5; k++) ;", 1 },
                  /* These read memory, call, could trap, or know more than the arguments. */
                  { "for (uint32_t k = 0; k < x[0]; k++) ;", 0 },
                  { "for (uint32_t k = 0; k < *x; k++) ;", 0 },
                  { "for (uint32_t k = 0; k < n / s.low; k++) ;", 0 },
                  { "for (uint32_t k = 0; k < n % s.low; k++) ;", 0 },
                  { "for (uint32_t k = other(n); k < n; k++) ;", 0 },
                  { "for (uint32_t k = 0; k < i; k++) ;", 0 },
                  { "uint32_t m = n; for (uint32_t k = 0; k < m; k++) ;", 0 },
                  { "for (uint32_t k = 0, l = 1; k < n; k++) ;", 0 },
                  { "for (;;) return;", 0 },
                  { "for (; n > 0; n--) ;", 0 },
                  { "for (struct shape t = s; t.low < n; t.low++) ;", 0 },
                  { "", 0 } };
    static struct kernel_signature signature;
    for (size_t c = 0; c < COUNT_OF(cases); c++) {
        char text[512];
        snprintf(text, sizeof text,
                 "struct shape { int32_t low; };\n"
                 "static uint32_t other(uint32_t n) { return n; }\n"
                 "MUSTER_KERNEL void f(uint64_t i, uint32_t n, float a, struct shape s, "
                 "MUSTER_GLOBAL uint32_t *x)\n{ %s }\n"
                 "static uint32_t g(uint32_t n) { for (uint32_t k = 0; k < n; k++) ; return n; }\n",
                 cases[c].header);
        MUST(kernel_signature_read(&signature, text, strlen(text), "f.c", &problem));
        if (signature.entries[0].loop_count != cases[c].loops)
            test_fail(__FILE__, __LINE__, "%s: %zu loops", cases[c].header,
                      signature.entries[0].loop_count);
    }
    /* Of many the first are taken. */
    char many[4096] = "MUSTER_KERNEL void f(uint64_t i, uint32_t n)\n{\n";
    for (int k = 0; k < 2 * KERNEL_LOOPS_MAX; k++)
        strcat(many, "for (uint32_t k = 0; k < n; k++) ;\n");
    strcat(many, "}\n");
    MUST(kernel_signature_read(&signature, many, strlen(many), "f.c", &problem));
    CHECK_EQUAL(KERNEL_LOOPS_MAX, signature.entries[0].loop_count);
}

static void a_test_before_the_items_has_no_effect(void)
{
    /* What would go wrong if the bound were evaluated, or counted down, before the items. */
    static const char text[] =
        "MUSTER_KERNEL void f(uint64_t i, uint32_t n, int32_t d, MUSTER_GLOBAL uint32_t *w)\n"
        "{ uint32_t v = 0;\n"
        "  for (uint32_t k = n; k-- > 0;) v++;\n"
        "  if (d != 0) for (int32_t k = 0; k < 100 / d; k++) v += 1000;\n"
        "  w[i] = v; }\n";
    struct kernel_image image;
    uint32_t w[40] = { 0 }, n = 6;
    int32_t d = 0;
    void *pw = w, *args[] = { &n, &d, &pw };
    use_cache("effect");
    MUST(build(text, "f", &functions, &image));
    CHECK_STATUS(MUSTER_OK, image.form.apart(0, 40, args));
    for (size_t i = 0; i < 40; i++)
        CHECK_EQUAL(6, w[i]);
    d = 50;
    CHECK_STATUS(MUSTER_OK, image.form.apart(0, 40, args));
    CHECK_EQUAL(2006, w[39]);
    kernel_image_release(&image, &platform_heap);
}

static void a_shared_object_keeps_both_functions(void)
{
    static const struct kernel_target objects = { MUSTER_KERNEL_SHARED_OBJECT, { 0, 0 }, false };
    struct kernel_image object, image;
    use_cache("objects");
    make_source(VECTORISED);
    MUST(build(source, "chosen", &objects, &object));
    CHECK(object.form.apart == NULL);
    MUST(kernel_build(&object.form, &functions, &platform_heap, &image, &problem));
    CHECK(image.form.function != NULL && image.form.apart != NULL);
    CHECK_EQUAL(3 << 5, image.form.written);
    kernel_image_release(&image, &platform_heap);
    kernel_image_release(&object, &platform_heap);
}

/* The processor, which the tests can change as if another machine used the same cache. */
static const char *other_features, *other_name;

void __real_platform_processor_features(char *text, size_t bytes);
void __wrap_platform_processor_features(char *text, size_t bytes);
void __wrap_platform_processor_features(char *text, size_t bytes)
{
    if (other_features)
        snprintf(text, bytes, "%s", other_features);
    else
        __real_platform_processor_features(text, bytes);
}

void __real_platform_processor_name(char *text, size_t bytes);
void __wrap_platform_processor_name(char *text, size_t bytes);
void __wrap_platform_processor_name(char *text, size_t bytes)
{
    if (other_name)
        snprintf(text, bytes, "%s", other_name);
    else
        __real_platform_processor_name(text, bytes);
}

static int build_and_count(const struct kernel_target *target)
{
    static const char text[] = "MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL uint64_t *x) "
                               "{ x[i] = i; }\n";
    struct kernel_image image;
    MUST(build(text, "f", target, &image));
    kernel_image_release(&image, &platform_heap);
    return cached(0, NULL);
}

static void code_for_another_processor_is_not_used(void)
{
    static const struct kernel_target objects = { MUSTER_KERNEL_SHARED_OBJECT, { 0, 0 }, false };
    use_cache("shared");
    CHECK_EQUAL(1, build_and_count(&functions));
    other_features = "fpu sse sse2";
    CHECK_EQUAL(2, build_and_count(&functions));
    other_name = "another processor with the same features";
    CHECK_EQUAL(3, build_and_count(&functions));
    /* What is for all processors of the architecture is the same on all of them. */
    CHECK_EQUAL(4, build_and_count(&objects));
    other_features = other_name = NULL;
    CHECK_EQUAL(4, build_and_count(&objects));
    CHECK_EQUAL(4, build_and_count(&functions));
}

/* Which of the two functions a launch calls. */
static atomic_int calls_in_order, calls_apart;

static muster_status note_in_order(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end, (void)args;
    atomic_fetch_add(&calls_in_order, 1);
    return MUSTER_OK;
}

static muster_status note_apart(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end, (void)args;
    atomic_fetch_add(&calls_apart, 1);
    return MUSTER_OK;
}

static void check_called(struct muster *m, muster_stream stream, struct muster_kernel *kernel,
                         const struct muster_operand *args, bool is_apart, int line)
{
    atomic_store(&calls_in_order, 0);
    atomic_store(&calls_apart, 0);
    MUST(muster_launch(m, stream, kernel, 0, 1, args, 4, NULL, &problem));
    wait_for(m, stream);
    if (calls_apart != is_apart || calls_in_order == is_apart)
        test_fail(__FILE__, line, "in order %d, apart %d", calls_in_order, calls_apart);
}

static void overlapping_arguments_are_told_from_others(void)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = note_in_order,
                                             .apart = note_apart,
                                             .written = 1u << 3 };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = SIM_PLAIN;
    struct muster *m = open_with(options);
    static const char *const devices[] = { "cpu:0", "sim:0" };
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        struct muster_kernel *kernel = NULL;
        muster_stream stream = acquire(m, find(m, devices[d]));
        muster_block a = allocate(m, stream, 64), b = allocate(m, stream, 64),
                     c = allocate(m, stream, 64);
        float value = 1;
        MUST(muster_kernel_from(m, "both", &form, 1, &kernel, &problem));
        struct muster_operand args[] = { MUSTER_BLOCK_READ(a), MUSTER_SCALAR(value),
                                         MUSTER_BLOCK_READ(b), MUSTER_BLOCK_UPDATE(c) };
        check_called(m, stream, kernel, args, true, __LINE__);
        /* Two that are only read may be the same. */
        args[2].block = a;
        check_called(m, stream, kernel, args, true, __LINE__);
        args[2].offset = 8;
        check_called(m, stream, kernel, args, true, __LINE__);
        args[2].block = c;
        args[2].offset = 0;
        check_called(m, stream, kernel, args, false, __LINE__);
        /* How far an argument reaches is not known, so parts of one block may overlap. */
        args[2].offset = 32;
        check_called(m, stream, kernel, args, false, __LINE__);
        args[2] = (struct muster_operand)MUSTER_BLOCK_READ(b);
        args[3].block = a;
        args[3].offset = 32;
        check_called(m, stream, kernel, args, false, __LINE__);
        muster_kernel_destroy(kernel);
    }
    MUST(muster_close(m, &problem));
}

/* What a kernel makes of one block of 1,024 numbers, both arguments in it. */
static void launch_within(const char *text, uint64_t from, uint64_t to, uint64_t items,
                          uint32_t numbers[ITEMS])
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster_kernel *kernel = NULL;
    options.cpu_workers = 1;
    struct muster *m = open_with(options);
    const struct muster_kernel_form form = portable_form(text, "f");
    muster_stream stream = acquire(m, find(m, "cpu:0"));
    muster_block block = allocate(m, stream, ITEMS * sizeof *numbers);
    MUST(muster_kernel_from(m, "f", &form, 1, &kernel, &problem));
    MUST(muster_copy_in(m, stream, block, 0, numbers, ITEMS * sizeof *numbers, &problem));
    const struct muster_operand args[] = { { .size = sizeof *args,
                                             .block = block,
                                             .access = MUSTER_READS,
                                             .offset = from * sizeof *numbers },
                                           { .size = sizeof *args,
                                             .block = block,
                                             .access = MUSTER_WRITES,
                                             .offset = to * sizeof *numbers } };
    MUST(muster_launch(m, stream, kernel, 0, items, args, 2, NULL, &problem));
    MUST(muster_copy_out(m, stream, numbers, block, 0, ITEMS * sizeof *numbers, &problem));
    wait_for(m, stream);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

static void arguments_that_overlap_see_the_items_in_order(void)
{
    static const char twice[] =
        "MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL const uint32_t *in, "
        "MUSTER_GLOBAL uint32_t *out)\n{ out[i] = in[i] * 3u; out[i] = out[i] + in[i]; }\n";
    static const char copies[] =
        "MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL const uint32_t *in, "
        "MUSTER_GLOBAL uint32_t *out)\n{ out[i] = in[i]; }\n";
    static uint32_t numbers[ITEMS];
    char path[PLATFORM_PATH_BYTES];
    for (size_t c = 0; c < COMPILERS; c++) {
        if (!platform_program_find(compilers[c], path))
            continue;
        setenv("MUSTER_CC", compilers[c], 1);
        use_cache("overlap");
        for (uint32_t i = 0; i < ITEMS; i++)
            numbers[i] = i + 1;
        launch_within(twice, 0, 0, ITEMS, numbers); /* in its place */
        for (uint32_t i = 0; i < ITEMS; i++)
            CHECK_EQUAL(6 * (i + 1), numbers[i]);
        for (uint32_t i = 0; i < ITEMS; i++)
            numbers[i] = i + 1;
        launch_within(copies, 0, 1, ITEMS - 1, numbers); /* each item reads what the last wrote */
        for (uint32_t i = 0; i < ITEMS; i++)
            CHECK_EQUAL(1, numbers[i]);
        for (uint32_t i = 0; i < ITEMS; i++)
            numbers[i] = i + 1;
        launch_within(copies, 3, 0, ITEMS - 3, numbers); /* each reads before it is written */
        for (uint32_t i = 0; i < ITEMS - 3; i++)
            CHECK_EQUAL(i + 4, numbers[i]);
        for (uint32_t i = 0; i < ITEMS; i++)
            numbers[i] = i + 1;
        launch_within(copies, 0, ITEMS / 2, ITEMS / 2, numbers); /* two halves of a block */
        for (uint32_t i = 0; i < ITEMS; i++)
            CHECK_EQUAL(i % (ITEMS / 2) + 1, numbers[i]);
    }
    unsetenv("MUSTER_CC");
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(items_together_give_the_bits_of_items_alone),
        TEST(gcc_computes_many_items_at_once),
        TEST(clang_computes_many_items_at_once),
        TEST(loops_are_found_that_the_arguments_decide),
        TEST(a_test_before_the_items_has_no_effect),
        TEST(a_shared_object_keeps_both_functions),
        TEST(code_for_another_processor_is_not_used),
        TEST(overlapping_arguments_are_told_from_others),
        TEST(arguments_that_overlap_see_the_items_in_order),
    };
    return kernel_test_main(argc, argv, tests, COUNT_OF(tests));
}
