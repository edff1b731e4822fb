/*
 * One portable source in its three languages gives the same bits. What CUDA C++ and OpenCL C look
 * like is run here by the host's compilers, behind a few definitions that stand for those
 * languages; with devices the conformance suite runs the same.
 */
#include "base/allocator.h"
#include "base/batch.h"
#include "kernel/build.h"
#include "kernel/translate.h"
#include "platform/file.h"
#include "platform/library.h"
#include "platform/machine.h"
#include "platform/process.h"
#include "support.h"

#include <unistd.h>

#define ITEMS 1000

static char folder[PLATFORM_PATH_BYTES]; /* of this program, emptied at its end */

static const char source[] =
    "#include \"muster_kernel.h\"\n"
    "struct pair { float low; uint32_t high[3]; };\n"
    "MUSTER_CONSTANT float table[4] = { 0.1f, 0.7f, 1.3f, 3.14159f };\n"
    "static float bend(float x, MUSTER_GLOBAL const int8_t *signs, uint64_t i)\n"
    "{ return signs[i % 8] < 0 ? -x : x; }\n"
    "MUSTER_KERNEL void mixed(uint64_t i, struct pair p, MUSTER_GLOBAL const uint32_t *restrict "
    "in,\n"
    "                         const uint8_t shift, MUSTER_GLOBAL const int8_t *signs,\n"
    "                         MUSTER_GLOBAL float *out)\n"
    "{\n"
    "    uint32_t hash = (in[i] ^ p.high[i % 3]) * 2654435761u;\n"
    "    hash ^= hash >> shift;\n"
    "    float x = (float)(hash >> 8) * 1.1920929e-7f;\n"
    "    float y = x * table[hash & 3] + p.low / (1.0f + x);\n"
    "    y = bend(muster_sqrt(y) - muster_floor(x * 3.0f), signs, i);\n"
    "    y += muster_exp(x) * muster_sin(y * 1e9f) + muster_pow(x, y) + muster_erf(x);\n"
    "    hash ^= muster_rotate(muster_popcount(hash) + muster_clz(hash >> 9), i) ^\n"
    "            muster_mulhi(hash, 77u) ^ (uint32_t)muster_mulhi((int64_t)hash << 31, -5) ^\n"
    "            muster_random(hash, i);\n"
    "    y = muster_clamp(y, -muster_abs(x), 2) + muster_min(muster_random_float(3, i), 0.5);\n"
    "    out[i] = muster_bits_float(muster_float_bits(y) ^ hash ^ (uint32_t)(i == 5));\n"
    "}\n";

static const char cuda_words[] =
    "#define __CUDACC_RTC__\n#define __global__\n#define __device__\n#define __constant__\n"
    "#define __forceinline__ inline\n"
    "extern \"C\" { struct { unsigned x, y, z; } blockIdx, blockDim, threadIdx, gridDim; }\n"
    "#define __fsqrt_rn __builtin_sqrtf\n#define floorf __builtin_floorf\n"
    "#define __dsqrt_rn __builtin_sqrt\n"
    "static long long __double_as_longlong(double x)\n"
    "{ long long u; __builtin_memcpy(&u, &x, 8); return u; }\n"
    "static double __longlong_as_double(long long u)\n"
    "{ double x; __builtin_memcpy(&x, &u, 8); return x; }\n"
    "#define fabsf __builtin_fabsf\n#define fabs __builtin_fabs\n"
    "#define __popc __builtin_popcount\n#define __popcll __builtin_popcountll\n"
    "#define __clz(x) ((x) ? __builtin_clz((unsigned)(x)) : 32)\n"
    "#define __clzll(x) ((x) ? __builtin_clzll((unsigned long)(x)) : 64)\n"
    "#define __umul64hi(a, b) ((unsigned long)((unsigned __int128)(a) * (b) >> 64))\n"
    "#define __mul64hi(a, b) ((long)((__int128)(a) * (b) >> 64))\n"
    "static unsigned __float_as_uint(float x) { unsigned u; __builtin_memcpy(&u, &x, 4); return u; "
    "}\n"
    "static float __uint_as_float(unsigned u) { float x; __builtin_memcpy(&x, &u, 4); return x; "
    "}\n";
static const char opencl_words[] =
    "#define __OPENCL_VERSION__ 120\n#define kernel\n#define global\n#define constant const\n"
    "typedef unsigned char uchar; typedef unsigned short ushort; typedef unsigned uint;\n"
    "typedef unsigned long ulong;\n#define sqrt __builtin_sqrtf\n#define floor __builtin_floorf\n"
    "static ulong as_ulong(double x) { ulong u; __builtin_memcpy(&u, &x, 8); return u; }\n"
    "static double as_double(ulong u) { double x; __builtin_memcpy(&x, &u, 8); return x; }\n"
    "#define cl_khr_fp64 1\n#define fabs __builtin_fabs\n"
    "#define popcount(x) (sizeof(x) == 8 ? __builtin_popcountll(x) : __builtin_popcount(x))\n"
    "#define clz(x) ((x) ? sizeof(x) == 8 ? __builtin_clzll(x) : __builtin_clz(x) : 8 * "
    "sizeof(x))\n"
    "#define mul_hi(a, b) _Generic((a), long: (__int128)(a) * (b) >> 64, default: (unsigned "
    "__int128)(a) * (b) >> 64)\n"
    "static uint as_uint(float x) { uint u; __builtin_memcpy(&u, &x, 4); return u; }\n"
    "static float as_float(uint u) { float x; __builtin_memcpy(&x, &u, 4); return x; }\n"
    "ulong the_id, the_size;\n#define get_global_id(d) the_id\n#define get_global_size(d) "
    "the_size\n";

struct pair {
    float low;
    uint32_t high[3];
};

static struct pair pair = { 0.3f, { 17, 40503, 0x9e3779b9 } };
static uint8_t shift = 15;
static int8_t signs[8] = { 1, -1, 1, 1, -1, -1, 1, -1 };
static uint32_t in[ITEMS];
static float expected[ITEMS], out[ITEMS];

/* The source as the host's compiler takes it, loaded; false if there is no such compiler. */
static bool load(enum kernel_language language, const char *compiler, const char *words,
                 struct platform_library *library)
{
    static struct kernel_signature signature;
    char path[PLATFORM_PATH_BYTES], name[PLATFORM_PATH_BYTES + 32],
        object[PLATFORM_PATH_BYTES + 32];
    static unsigned turn; /* each load has files of its own */
    char output[2048], *text;
    size_t bytes;
    if (!platform_program_find(compiler, path))
        return false;
    MUST(kernel_signature_read(&signature, source, strlen(source), "mixed.c", &problem));
    MUST(kernel_translate(&signature, source, strlen(source), "mixed.c", language, &platform_heap,
                          &text, &bytes, &problem));
    char *all = malloc(strlen(words) + bytes + 1);
    CHECK(all != NULL);
    strcpy(all, words);
    strcat(all, text);
    allocator_give(&platform_heap, text, bytes + 1, 1);
    snprintf(name, sizeof name, "%s/text%u.%s", folder, ++turn,
             language == KERNEL_CUDA_CPP ? "cpp" : "c");
    snprintf(object, sizeof object, "%s/text%u.so", folder, turn);
    MUST(platform_file_write(name, all, strlen(all), &problem));
    free(all);
    const char *const arguments[] = {
        compiler,          "-O2", "-w",   "-fPIC", "-shared", "-ffp-contract=off",
        "-fno-math-errno", "-o",  object, name,    "-lm",     NULL
    };
    struct platform_process_end end;
    MUST(platform_process_run(path, arguments, NULL, output, sizeof output, 60 * SECOND, &end,
                              &problem));
    if (end.code != 0)
        test_fail(__FILE__, __LINE__, "%s", output);
    MUST(platform_library_open(library, object, &problem));
    return true;
}

static void *symbol_of(const struct platform_library *library, const char *name)
{
    void *symbol = platform_library_symbol(library, name);
    CHECK(symbol != NULL);
    return symbol;
}

/* What the form for the processor gives. */
static void make_expected(void)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = source,
                                             .code_bytes = strlen(source),
                                             .entry = "mixed",
                                             .file = "mixed.c" };
    const struct kernel_target target = { MUSTER_KERNEL_FUNCTION, { 0, 0 }, false };
    struct kernel_image image;
    for (uint32_t i = 0; i < ITEMS; i++)
        in[i] = i * 2246822519u + 374761393u;
    MUST(kernel_build(&form, &target, &platform_heap, &image, &problem));
    void *from = in, *sign = signs, *to = expected, *args[] = { &pair, &from, &shift, &sign, &to };
    CHECK_STATUS(MUSTER_OK, image.form.function(0, ITEMS, args));
    kernel_image_release(&image, &platform_heap);
}

static void check_range(uint64_t begin, uint64_t end)
{
    for (uint64_t i = 0; i < ITEMS; i++) {
        uint32_t bits[2] = { 0, 0 };
        if (i >= begin && i < end)
            memcpy(&bits[0], &expected[i], 4);
        memcpy(&bits[1], &out[i], 4);
        CHECK_EQUAL(bits[0], bits[1]);
    }
    memset(out, 0, sizeof out);
}

struct dimensions {
    unsigned x, y, z;
};

static void one_source_gives_the_same_bits_as_cuda(void)
{
    struct platform_library library;
    make_expected();
    if (!load(KERNEL_CUDA_CPP, "c++", cuda_words, &library)) {
        printf("    without a C++ compiler: not run\n");
        return;
    }
    void (*mixed)(uint64_t, uint64_t, struct pair, const uint32_t *, uint8_t, const int8_t *,
                  float *);
    void *symbol = symbol_of(&library, "mixed");
    memcpy(&mixed, &symbol, sizeof symbol);
    struct dimensions *block_index = symbol_of(&library, "blockIdx"),
                      *thread_index = symbol_of(&library, "threadIdx");
    *(struct dimensions *)symbol_of(&library, "blockDim") = (struct dimensions){ 32, 1, 1 };
    *(struct dimensions *)symbol_of(&library, "gridDim") = (struct dimensions){ 22, 1, 1 };
    /* A thread for each item, and four more. */
    for (unsigned thread = 0; thread < 22 * 32; thread++) {
        block_index->x = thread / 32;
        thread_index->x = thread % 32;
        mixed(100, 700, pair, in, shift, signs, out);
    }
    check_range(100, 800);
    platform_library_close(&library);
}

/* One record as base/batch.h says. */
static size_t put_record(uint8_t *records, size_t at, uint64_t begin, uint64_t items)
{
    const void *from = in, *sign = signs, *to = out;
    const struct {
        const void *value;
        size_t bytes;
    } args[] = { { &pair, sizeof pair }, { &from, 8 }, { &shift, 1 }, { &sign, 8 }, { &to, 8 } };
    memcpy(records + at + BATCH_BEGIN, &begin, 8);
    memcpy(records + at + BATCH_ITEMS, &items, 8);
    size_t end = at + BATCH_ARGS;
    for (size_t i = 0; i < COUNT_OF(args); i++) {
        end = batch_next(end);
        memcpy(records + end, args[i].value, args[i].bytes);
        end += args[i].bytes;
    }
    return batch_next(end);
}

static void many_launches_travel_as_one(void)
{
    enum { TASKS = 7, EACH = 100 };
    static _Alignas(16) uint8_t records[TASKS * 256];
    struct platform_library library;
    make_expected();
    if (!load(KERNEL_CUDA_CPP, "c++", cuda_words, &library)) {
        printf("    without a C++ compiler: not run\n");
        return;
    }
    void (*batch)(const unsigned char *, uint32_t);
    void *symbol = symbol_of(&library, BATCH_PREFIX "mixed");
    memcpy(&batch, &symbol, sizeof symbol);
    size_t at = 0;
    for (uint64_t task = 0; task < TASKS; task++)
        at = put_record(records, at, task * EACH, EACH);
    struct dimensions *block_index = symbol_of(&library, "blockIdx"),
                      *thread_index = symbol_of(&library, "threadIdx");
    *(struct dimensions *)symbol_of(&library, "blockDim") = (struct dimensions){ 8, 1, 1 };
    *(struct dimensions *)symbol_of(&library, "gridDim") = (struct dimensions){ 3, 4, 1 };
    for (unsigned y = 0; y < 4; y++)
        for (unsigned thread = 0; thread < 3 * 8; thread++) {
            *block_index = (struct dimensions){ thread / 8, y, 0 };
            thread_index->x = thread % 8;
            batch(records, TASKS);
        }
    check_range(0, TASKS * EACH);
    platform_library_close(&library);
}

static void one_source_gives_the_same_bits_as_opencl(void)
{
    struct platform_library library;
    make_expected();
    CHECK(load(KERNEL_OPENCL_C, "cc", opencl_words, &library));
    void (*mixed)(uint64_t, uint64_t, struct pair, void *, uint64_t, uint8_t, void *, uint64_t,
                  void *, uint64_t);
    void *symbol = symbol_of(&library, "mixed");
    memcpy(&mixed, &symbol, sizeof symbol);
    uint64_t *id = symbol_of(&library, "the_id");
    *(uint64_t *)symbol_of(&library, "the_size") = 96;
    /* Blocks that begin before the argument does. */
    for (*id = 0; *id < 96; ++*id)
        mixed(3, 900, pair, (char *)in - 64, 64, shift, signs, 0, (char *)out - 4096, 4096);
    check_range(3, 903);
    platform_library_close(&library);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(one_source_gives_the_same_bits_as_cuda),
                                         TEST(many_launches_travel_as_one),
                                         TEST(one_source_gives_the_same_bits_as_opencl) };
    char command[PLATFORM_PATH_BYTES + 32];
    if (platform_folder_make_temporary(folder, NULL) != MUSTER_OK)
        return 1;
    unsetenv("MUSTER_CC");
    setenv("MUSTER_CACHE", "", 1);
    int code = test_main(argc, argv, tests, COUNT_OF(tests));
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    (void)!system(command);
    return code;
}
