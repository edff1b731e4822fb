/*
 * Whether the kernels' mathematics give the same bits on two devices.
 *
 *     everywhere [--blocks N] [--together] DEVICE DEVICE [FUNCTION...]
 *     everywhere [--blocks N] --keep FOLDER | --against FOLDER DEVICE [FUNCTION...]
 *
 * All 2^32 floats go through each function of one argument, as many points through the others, in
 * 2^22 blocks of 1,024; of each block a digest of the results is compared. --blocks takes N blocks
 * of them, evenly. --together puts all functions into one kernel, which is compiled once. --keep writes
 * what one device has into a file for each function, and --against compares with those, on another
 * machine perhaps; functions without a file are left out. Exits 1 if a digest differs, and 77 if there is no
 * such device.
 */
#include <muster/muster.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCKS_MAX (UINT64_C(1) << 22)
#define INPUTS 1024u
#define TEXT_BYTES 8192
/* This many digests are one in a file. */
#define FOLDED 64u

static const struct {
    const char *name;
    const char *call; /* of floats a, b and c, or 32 bits of doubles folded */
} functions[] = {
    { "exp", "muster_exp(a)" },
    { "exp2", "muster_exp2(a)" },
    { "exp10", "muster_exp10(a)" },
    { "expm1", "muster_expm1(a)" },
    { "log", "muster_log(a)" },
    { "log2", "muster_log2(a)" },
    { "log10", "muster_log10(a)" },
    { "log1p", "muster_log1p(a)" },
    { "sin", "muster_sin(a)" },
    { "cos", "muster_cos(a)" },
    { "tan", "muster_tan(a)" },
    { "asin", "muster_asin(a)" },
    { "acos", "muster_acos(a)" },
    { "atan", "muster_atan(a)" },
    { "sinh", "muster_sinh(a)" },
    { "cosh", "muster_cosh(a)" },
    { "tanh", "muster_tanh(a)" },
    { "cbrt", "muster_cbrt(a)" },
    { "rsqrt", "muster_rsqrt(a)" },
    { "erf", "muster_erf(a)" },
    { "round", "muster_round(a)" },
    { "rint", "muster_rint(a)" },
    { "pow", "muster_pow(a, b)" },
    { "atan2", "muster_atan2(a, b)" },
    { "hypot", "muster_hypot(a, b)" },
    { "fmod", "muster_fmod(a, b)" },
    { "fma", "muster_fma(a, b, c)" },
    { "exp64", "FOLD(muster_exp64(ANY)) + FOLD(muster_exp64(NEAR))" },
    { "log64", "FOLD(muster_log64(ANY))" },
    { "sin64", "FOLD(muster_sin64(ANY)) + FOLD(muster_sin64(NEAR))" },
    { "cos64", "FOLD(muster_cos64(ANY)) + FOLD(muster_cos64(NEAR))" },
    { "pow64", "FOLD(muster_pow64(ANY, NEAR))" },
    { "sqrt64", "FOLD(muster_sqrt64(NEAR * NEAR))" },
};
#define FUNCTION_COUNT (sizeof functions / sizeof *functions)

static const char head[] =
    "#include <muster_kernel.h>\n"
    "static uint32_t mixed(uint32_t x)\n"
    "{\n"
    "    x = (x ^ (x >> 16)) * 0x85ebca6bu;\n"
    "    x = (x ^ (x >> 13)) * 0xc2b2ae35u;\n"
    "    return x ^ (x >> 16);\n"
    "}\n"
    "static uint64_t folded(uint32_t y, uint32_t x)\n"
    "{\n"
    "    uint32_t v = y ^ (x * 0x9e3779b1u);\n"
    "    return (uint64_t)v * (v ^ 0x5bd1e995u);\n"
    "}\n"
    "#define FOLD(value) (uint32_t)(muster_double_bits(value) ^ (muster_double_bits(value) >> "
    "31))\n"
    "#define ANY muster_bits_double(((uint64_t)mixed(x) << 32) | x)\n"
    "#define NEAR ((double)(int32_t)mixed(x) * 0x1p-22 + (double)(int32_t)x * 0x1p-60)\n"
    "MUSTER_KERNEL void digest(uint64_t i, uint64_t unit, uint32_t every, uint32_t inputs,\n"
    "                          MUSTER_GLOBAL uint64_t *out)\n"
    "{\n"
    "    uint64_t sum = 0;\n"
    "    uint32_t first = (uint32_t)(unit + i) * every * inputs;\n"
    "    for (uint32_t k = 0; k < inputs; k++) {\n"
    "        uint32_t x = first + k;\n"
    "        float a = muster_bits_float(x);\n"
    "        float b = muster_bits_float(mixed(x)), c = muster_bits_float(mixed(x + "
    "0x51ed270bu));\n";

struct round {
    struct muster *m;
    const char *devices[2];
    const char *folder; /* NULL: two devices are compared */
    bool is_kept;       /* the folder is written */
    uint64_t blocks;
    uint64_t *digests[2];
};

static void die(const char *what, const struct muster_error *error)
{
    fprintf(stderr, "everywhere: %s: %s\n", what, error->text);
    exit(error->status == MUSTER_E_NOT_FOUND || error->status == MUSTER_E_NO_DEVICE ? 77 : 1);
}

static bool is_double(size_t function)
{
    return strncmp(functions[function].call, "FOLD", 4) == 0;
}

/* The kernel of functions [first, end). */
static size_t write_kernel(char *text, size_t first, size_t end)
{
    size_t used = (size_t)snprintf(text, TEXT_BYTES, "%s", head);
    for (size_t i = first; i < end; i++)
        used += (size_t)snprintf(text + used, TEXT_BYTES - used,
                                 is_double(i)
                                     ? "        sum += folded(%s, x + %zuu);\n"
                                     : "        sum += folded(muster_float_bits(%s), x + %zuu);\n",
                                 functions[i].call, i);
    used += (size_t)snprintf(text + used, TEXT_BYTES - used,
                             "        sum += (uint64_t)((b != b) & (c != c) & (a != a));\n"
                             "    }\n    out[i] = sum;\n}\n");
    return used;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* What the device has of the functions; the time it took. */
static double run(const struct round *round, struct muster_kernel *kernel, size_t device)
{
    uint32_t every = (uint32_t)(BLOCKS_MAX / round->blocks), inputs = INPUTS;
    struct muster_error error = { .size = sizeof error };
    const struct muster_arg args[] = { MUSTER_FIRST, MUSTER_VALUE(every), MUSTER_VALUE(inputs),
                                       MUSTER_OUT(round->digests[device]) };
    const struct muster_run_options options = { .size = sizeof options,
                                                .devices = round->devices[device] };
    double begin = seconds();
    if (muster_for(round->m, kernel, round->blocks, args, 4, &options, NULL, &error) != MUSTER_OK)
        die(round->devices[device], &error);
    return seconds() - begin;
}

static struct muster_kernel *build(const struct round *round, size_t first, size_t end)
{
    char text[TEXT_BYTES];
    struct muster_error error = { .size = sizeof error };
    struct muster_kernel *kernel;
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = text,
                                             .code_bytes = write_kernel(text, first, end),
                                             .entry = "digest" };
    if (muster_kernel_from(round->m, "digest", &form, 1, &kernel, &error) != MUSTER_OK)
        die("the kernel", &error);
    return kernel;
}

/* How many digests of the functions [first, end) differ. */
static uint64_t compare(const struct round *round, size_t first, size_t end)
{
    struct muster_kernel *kernel = build(round, first, end);
    double took[2] = { run(round, kernel, 0), run(round, kernel, 1) };
    muster_kernel_destroy(kernel);
    uint64_t different = 0;
    for (uint64_t i = 0; i < round->blocks; i++)
        different += round->digests[0][i] != round->digests[1][i];
    printf("%-8s %10llu inputs, %llu of %llu blocks different  (%s %.2f s, %s %.2f s)\n",
           end - first == 1 ? functions[first].name : "together",
           (unsigned long long)(round->blocks * INPUTS), (unsigned long long)different,
           (unsigned long long)round->blocks, round->devices[0], took[0], round->devices[1],
           took[1]);
    fflush(stdout);
    return different;
}

/* The same with a file, or writes it. Digests that differ there stand for FOLDED blocks each. */
static uint64_t compare_with_file(const struct round *round, size_t function)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", round->folder, functions[function].name);
    FILE *file = fopen(path, round->is_kept ? "wx" : "r");
    if (!file) {
        printf("%-8s left out: %s %s\n", functions[function].name, path,
               round->is_kept ? "is there already" : "is not there");
        return 0;
    }
    struct muster_kernel *kernel = build(round, function, function + 1);
    double took = run(round, kernel, 0);
    muster_kernel_destroy(kernel);
    uint64_t different = 0, count = 0, kept;
    for (uint64_t i = 0; i < round->blocks; count++) {
        uint64_t sum = 0;
        for (uint64_t end = i + FOLDED; i < round->blocks && i < end; i++)
            sum = sum * UINT64_C(0x100000001b3) + round->digests[0][i];
        if (round->is_kept)
            different += fwrite(&sum, sizeof sum, 1, file) != 1;
        else
            different += fread(&kept, sizeof kept, 1, file) != 1 || kept != sum;
    }
    different += fclose(file) != 0;
    printf("%-8s %10llu inputs, %llu of %llu digests %s  (%s %.2f s)\n", functions[function].name,
           (unsigned long long)(round->blocks * INPUTS), (unsigned long long)different,
           (unsigned long long)count, round->is_kept ? "not written" : "different",
           round->devices[0], took);
    fflush(stdout);
    return different;
}

static bool is_asked(const char *name, char **names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return count == 0;
}

int main(int count, char **words)
{
    struct round round = { .blocks = BLOCKS_MAX };
    struct muster_error error = { .size = sizeof error };
    uint64_t different = 0;
    bool is_together = false;
    int at = 1;
    for (; at < count && words[at][0] == '-'; at++) {
        if (strcmp(words[at], "--together") == 0)
            is_together = true;
        else if (strcmp(words[at], "--blocks") == 0 && at + 1 < count)
            round.blocks = strtoull(words[++at], NULL, 10);
        round.is_kept = round.is_kept || strcmp(words[at], "--keep") == 0;
        if ((strcmp(words[at], "--keep") == 0 || strcmp(words[at], "--against") == 0) &&
            at + 1 < count)
            round.folder = words[++at];
    }
    int device_count = round.folder ? 1 : 2;
    if (count - at < device_count || round.blocks == 0 || round.blocks > BLOCKS_MAX) {
        fprintf(stderr, "usage: everywhere [--blocks N] [--together] DEVICE DEVICE [FUNCTION...]\n"
                        "       everywhere [--blocks N] --keep FOLDER | --against FOLDER DEVICE "
                        "[FUNCTION...]\n");
        return 2;
    }
    char both[128] = "";
    for (int d = 0; d < device_count; d++) {
        round.devices[d] = words[at + d];
        snprintf(both + strlen(both), sizeof both - strlen(both), "%s%s", d > 0 ? "," : "",
                 round.devices[d]);
    }
    const struct muster_options options = { .size = sizeof options, .devices = both };
    if (muster_open(&round.m, &options, &error) != MUSTER_OK)
        die("opening", &error);
    for (int d = 0; d < device_count; d++) {
        muster_device found;
        round.digests[d] = calloc(round.blocks, sizeof *round.digests[d]);
        if (!round.digests[d])
            return 1;
        if (muster_device_find(round.m, round.devices[d], &found, &error) != MUSTER_OK)
            die(round.devices[d], &error);
    }
    if (is_together && !round.folder)
        different = compare(&round, 0, FUNCTION_COUNT);
    for (size_t i = 0; i < FUNCTION_COUNT && (!is_together || round.folder || different > 0); i++)
        if (is_asked(functions[i].name, words + at + device_count, count - at - device_count))
            different += round.folder ? compare_with_file(&round, i) : compare(&round, i, i + 1);
    muster_close(round.m, NULL);
    free(round.digests[0]);
    free(round.digests[1]);
    return different > 0;
}
