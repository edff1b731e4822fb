/*
 * Proves the kernels' mathematics: each function of one argument over all 2^32 floats, functions of
 * more over random and hard points. glibc's double decides every point whose exact value is not too
 * near a rounding boundary; MPFR with 240 bits decides the rest. Prints counts, one line a function;
 * exits 1 if a result is not the correctly rounded one, bit for bit, NaN being 0x7fc00000.
 *
 *     prove [-j THREADS] [-p POINTS] [-e EVERY] [-s SEED] [FUNCTION...]
 *
 * Functions of double have no correct rounding but a bound, over a thousandth of the points.
 * -e 64 takes every 64th block of 65,536 floats only: no proof, but quick.
 */
#define _GNU_SOURCE
#include "prove_double.h"

#include <math.h>
#include <mpfr.h>
#include <muster_kernel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHUNK 65536u
#define SHOWN_MAX 24
/* glibc's double functions are within 4 of its last bits; the margin is 8. */
#define MARGIN 0x1p-49

enum shape { EVERY, ODD, EVEN };

static double reference_rsqrt(double x)
{
    return 1.0 / sqrt(x);
}
static int mpfr_rsqrt(mpfr_t out, const mpfr_t in, mpfr_rnd_t rounding)
{
    return mpfr_rec_sqrt(out, in, rounding);
}
static double reference_round(double x)
{
    return round(x);
}
static double reference_rint(double x)
{
    return rint(x);
}
/* Exact: what MPFR says of the way is not wanted. */
static int exactly_round(mpfr_t out, const mpfr_t in, mpfr_rnd_t rounding)
{
    (void)rounding;
    mpfr_round(out, in);
    return 0;
}
static int exactly_rint(mpfr_t out, const mpfr_t in, mpfr_rnd_t rounding)
{
    (void)rounding;
    mpfr_rint(out, in, MPFR_RNDN);
    return 0;
}

/* name, shape, glibc, MPFR */
#define ONE_ARGUMENT(X)                                                                            \
    X(exp, EVERY, exp, mpfr_exp)                                                                   \
    X(exp2, EVERY, exp2, mpfr_exp2)                                                                \
    X(exp10, EVERY, exp10, mpfr_exp10)                                                             \
    X(expm1, EVERY, expm1, mpfr_expm1)                                                             \
    X(log, EVERY, log, mpfr_log)                                                                   \
    X(log2, EVERY, log2, mpfr_log2)                                                                \
    X(log10, EVERY, log10, mpfr_log10)                                                             \
    X(log1p, EVERY, log1p, mpfr_log1p)                                                             \
    X(sin, ODD, sin, mpfr_sin)                                                                     \
    X(cos, EVEN, cos, mpfr_cos)                                                                    \
    X(tan, ODD, tan, mpfr_tan)                                                                     \
    X(asin, ODD, asin, mpfr_asin)                                                                  \
    X(acos, EVERY, acos, mpfr_acos)                                                                \
    X(atan, ODD, atan, mpfr_atan)                                                                  \
    X(sinh, ODD, sinh, mpfr_sinh)                                                                  \
    X(cosh, EVEN, cosh, mpfr_cosh)                                                                 \
    X(tanh, ODD, tanh, mpfr_tanh)                                                                  \
    X(cbrt, ODD, cbrt, mpfr_cbrt)                                                                  \
    X(rsqrt, EVERY, reference_rsqrt, mpfr_rsqrt)                                                   \
    X(erf, ODD, erf, mpfr_erf)                                                                     \
    X(round, ODD, reference_round, exactly_round)                                                  \
    X(rint, ODD, reference_rint, exactly_rint)

typedef void bulk(const float *x, const float *y, const float *z, float *out, size_t count);
typedef void bulk_double(const float *x, const float *y, const float *z, double *out, size_t count);

#define DEFINE_ONE(name, shape, glibc, with_mpfr)                                                  \
    static void bulk_##name(const float *restrict x, const float *y, const float *z,               \
                            float *restrict out, size_t count)                                     \
    {                                                                                              \
        (void)y;                                                                                   \
        (void)z;                                                                                   \
        for (size_t i = 0; i < count; i++)                                                         \
            out[i] = muster_##name(x[i]);                                                          \
    }                                                                                              \
    static void double_##name(const float *x, const float *y, const float *z, double *out,         \
                              size_t count)                                                        \
    {                                                                                              \
        (void)y;                                                                                   \
        (void)z;                                                                                   \
        for (size_t i = 0; i < count; i++)                                                         \
            out[i] = glibc((double)x[i]);                                                          \
    }                                                                                              \
    static int exact_##name(mpfr_t out, mpfr_t x, mpfr_t y, mpfr_t z)                              \
    {                                                                                              \
        (void)y;                                                                                   \
        (void)z;                                                                                   \
        return with_mpfr(out, x, MPFR_RNDZ);                                                       \
    }
ONE_ARGUMENT(DEFINE_ONE)

/* name, glibc, MPFR; fmod and fma are exact in glibc's float. */
#define MORE_ARGUMENTS(X)                                                                          \
    X(pow, muster_pow(x[i], y[i]), pow((double)x[i], (double)y[i]),                                \
      mpfr_pow(out, x, y, MPFR_RNDZ))                                                              \
    X(atan2, muster_atan2(x[i], y[i]), atan2((double)x[i], (double)y[i]),                          \
      mpfr_atan2(out, x, y, MPFR_RNDZ))                                                            \
    X(hypot, muster_hypot(x[i], y[i]), hypot((double)x[i], (double)y[i]),                          \
      mpfr_hypot(out, x, y, MPFR_RNDZ))                                                            \
    X(fmod, muster_fmod(x[i], y[i]), fmod((double)x[i], (double)y[i]),                             \
      mpfr_fmod(out, x, y, MPFR_RNDZ))                                                             \
    X(fma, muster_fma(x[i], y[i], z[i]), fma((double)x[i], (double)y[i], (double)z[i]),            \
      mpfr_fma(out, x, y, z, MPFR_RNDZ))

#define DEFINE_MORE(name, ours, glibc, with_mpfr)                                                  \
    static void bulk_##name(const float *restrict x, const float *restrict y,                      \
                            const float *restrict z, float *restrict out, size_t count)            \
    {                                                                                              \
        (void)z;                                                                                   \
        for (size_t i = 0; i < count; i++)                                                         \
            out[i] = ours;                                                                         \
    }                                                                                              \
    static void double_##name(const float *x, const float *y, const float *z, double *out,         \
                              size_t count)                                                        \
    {                                                                                              \
        (void)z;                                                                                   \
        for (size_t i = 0; i < count; i++)                                                         \
            out[i] = glibc;                                                                        \
    }                                                                                              \
    static int exact_##name(mpfr_t out, mpfr_t x, mpfr_t y, mpfr_t z)                              \
    {                                                                                              \
        (void)z;                                                                                   \
        return with_mpfr;                                                                          \
    }
MORE_ARGUMENTS(DEFINE_MORE)

struct function {
    const char *name;
    enum shape shape;
    unsigned arguments;
    bulk *ours;
    bulk_double *glibc;
    int (*exact)(mpfr_t out, mpfr_t x, mpfr_t y, mpfr_t z);
};

static const struct function functions[] = {
#define ROW(name, shape, glibc, with_mpfr)                                                         \
    { #name, shape, 1, bulk_##name, double_##name, exact_##name },
    ONE_ARGUMENT(ROW)
#undef ROW
#define ROW(name, ours, glibc, with_mpfr)                                                          \
    { #name, EVERY, 2, bulk_##name, double_##name, exact_##name },
        MORE_ARGUMENTS(ROW)
};
#define FUNCTION_COUNT (sizeof functions / sizeof *functions)

struct buffers {
    float x[CHUNK], y[CHUNK], z[CHUNK], ours[CHUNK], mirrored[CHUNK];
    double glibc[CHUNK];
};

struct proof {
    const struct function *function;
    uint64_t chunk_count, every, seed;
    _Atomic uint64_t next, by_double, by_mpfr, by_symmetry, wrong;
    pthread_mutex_t lock;
    unsigned shown;
};

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The bits that the exact value rounds to. */
static uint32_t exact_bits(const struct function *function, float x, float y, float z)
{
    mpfr_t in[3], out;
    mpfr_inits2(240, in[0], in[1], in[2], out, (mpfr_ptr)0);
    mpfr_set_flt(in[0], x, MPFR_RNDN);
    mpfr_set_flt(in[1], y, MPFR_RNDN);
    mpfr_set_flt(in[2], z, MPFR_RNDN);
    /* Towards 0 and, if that lost something, away again by a quarter: never halfway by mistake. */
    if (function->exact(out, in[0], in[1], in[2]) != 0) {
        mpfr_prec_round(out, 242, MPFR_RNDN);
        mpfr_signbit(out) ? mpfr_nextbelow(out) : mpfr_nextabove(out);
    }
    float result = mpfr_get_flt(out, MPFR_RNDN);
    mpfr_clears(in[0], in[1], in[2], out, (mpfr_ptr)0);
    return result == result ? bits_of(result) : 0x7fc00000u;
}

static void report_wrong(struct proof *proof, const struct buffers *buffers, size_t i, uint32_t is,
                         uint32_t should_be)
{
    atomic_fetch_add(&proof->wrong, 1);
    pthread_mutex_lock(&proof->lock);
    if (proof->shown++ < SHOWN_MAX) {
        printf("  %s(0x%08x", proof->function->name, bits_of(buffers->x[i]));
        if (proof->function->arguments > 1)
            printf(", 0x%08x, 0x%08x", bits_of(buffers->y[i]), bits_of(buffers->z[i]));
        printf(") is 0x%08x, should be 0x%08x\n", is, should_be);
    }
    pthread_mutex_unlock(&proof->lock);
}

static void check(struct proof *proof, struct buffers *buffers, size_t count)
{
    const struct function *function = proof->function;
    uint64_t by_mpfr = 0;
    function->ours(buffers->x, buffers->y, buffers->z, buffers->ours, count);
    function->glibc(buffers->x, buffers->y, buffers->z, buffers->glibc, count);
    for (size_t i = 0; i < count; i++) {
        double d = buffers->glibc[i];
        float low = (float)(d - d * MARGIN), high = (float)(d + d * MARGIN);
        uint32_t is = bits_of(buffers->ours[i]);
        /* Infinities: the margin makes NaNs of them. */
        uint32_t decided = d != d               ? 0x7fc00000u
                           : isinf(d) || d == 0 ? bits_of((float)d)
                                                : bits_of(low);
        bool is_near = d == d && !isinf(d) && bits_of(low) != bits_of(high);
        if (is_near || is != decided) {
            decided = exact_bits(function, buffers->x[i], buffers->y[i], buffers->z[i]);
            by_mpfr++;
        }
        if (is != decided)
            report_wrong(proof, buffers, i, is, decided);
    }
    atomic_fetch_add(&proof->by_mpfr, by_mpfr);
    atomic_fetch_add(&proof->by_double, count - by_mpfr);
}

/* Negative numbers of an odd or even function: the result of the positive one, turned over or not. */
static void check_mirrored(struct proof *proof, struct buffers *buffers, size_t count)
{
    const struct function *function = proof->function;
    uint32_t turn = function->shape == ODD ? 0x80000000u : 0;
    function->ours(buffers->x, NULL, NULL, buffers->ours, count);
    for (size_t i = 0; i < count; i++)
        buffers->y[i] = float_of(bits_of(buffers->x[i]) ^ 0x80000000u);
    function->ours(buffers->y, NULL, NULL, buffers->mirrored, count);
    for (size_t i = 0; i < count; i++) {
        uint32_t is = bits_of(buffers->ours[i]), other = bits_of(buffers->mirrored[i]);
        uint32_t should_be = other == 0x7fc00000u ? other : other ^ turn;
        if (is != should_be)
            report_wrong(proof, buffers, i, is, should_be);
    }
    atomic_fetch_add(&proof->by_symmetry, count);
}

static uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Numbers at which functions change their nature, and their neighbours. */
static float special(uint64_t random)
{
    static const uint32_t known[] = { 0x00000000, 0x00000001, 0x00000002, 0x007fffff, 0x00800000,
                                      0x00800001, 0x33800000, 0x34000000, 0x3e800000, 0x3f000000,
                                      0x3f3504f3, 0x3f7fffff, 0x3f800000, 0x3f800001, 0x3fb504f3,
                                      0x3fc00000, 0x40000000, 0x40400000, 0x40490fdb, 0x40800000,
                                      0x40a00000, 0x41100000, 0x41200000, 0x42fe0000, 0x43000000,
                                      0x4b000000, 0x4b000001, 0x4b7fffff, 0x4b800000, 0x4b800001,
                                      0x4f000000, 0x5f000000, 0x7f000000, 0x7f7fffff, 0x7f800000,
                                      0x7f800001, 0x7fc00000, 0x7fffffff, 0x3eaaaaab, 0x42c80000 };
    uint32_t bits = known[random % (sizeof known / sizeof *known)];
    return float_of(bits ^ (uint32_t)((random >> 32 & 1) << 31));
}

static float within(uint64_t random, int low, int high)
{
    uint32_t exponent = (uint32_t)(127 + low + (int)(random >> 40) % (high - low));
    return float_of((uint32_t)(random & 0x807fffffu) | exponent << 23);
}

/* x = a^(2^k) 2^e and y = n / 2^k with an odd a: the power may be halfway between two floats. */
static void exact_power(uint64_t random, float *x, float *y)
{
    unsigned k = random % 4, n = 1 + (random >> 2) % 15, a = 1 + 2 * ((random >> 8) % 4096);
    double base = a;
    for (unsigned i = 0; i < k; i++)
        base *= base;
    while (base >= 0x1p24)
        base = sqrt(base);
    int step = 1 << k, e = step * ((int)((random >> 24) % 61) - 30);
    *x = (float)ldexp(base, e);
    *y = (float)n / (float)(1 << k);
}

static void fill_random(const struct function *function, uint64_t seed, struct buffers *buffers)
{
    uint64_t state = seed;
    bool is_pow = strcmp(function->name, "pow") == 0;
    for (size_t i = 0; i < CHUNK; i++) {
        uint64_t a = random_next(&state), b = random_next(&state), c = random_next(&state);
        float *x = &buffers->x[i], *y = &buffers->y[i], *z = &buffers->z[i];
        *x = float_of((uint32_t)a), *y = float_of((uint32_t)b), *z = float_of((uint32_t)c);
        switch (a >> 32 & 7) {
        case 0:
            *x = special(random_next(&state)), *y = special(random_next(&state));
            *z = special(random_next(&state));
            break;
        case 1: /* one special */
            *(b >> 32 & 1 ? x : y) = special(c);
            break;
        case 2: /* small whole numbers, halves, quarters */
            *x = (float)(int)(a >> 50) * (b >> 60 & 1 ? 0.25f : 1.0f);
            *y = (float)((int)(b >> 56) - 128) * (c >> 60 & 1 ? 0.125f : 1.0f);
            *z = (float)((int)(c >> 40) - (1 << 23));
            break;
        case 3: /* near each other */
            *x = within(a, -8, 8), *y = within(b, -8, 8);
            *z = -(*x * *y) * (c >> 60 & 1 ? 1.0f : 0x1p-24f);
            break;
        case 4:
            if (is_pow)
                exact_power(b, x, y);
            else
                *y = float_of(bits_of(*x) + (uint32_t)(b % 1024) - 512);
            break;
        default: /* a result within range */
            if (is_pow) {
                *x = a >> 36 & 1 ? float_of((uint32_t)(a & 0x7fffffff))
                                 : float_of(0x3f800000u + (uint32_t)(a & 0xffffff) - 0x800000u);
                double wanted = (double)(int64_t)b * 0x1p-63 * 150;
                *y = (float)(wanted / log2((double)*x));
            } else if (a >> 36 & 1) {
                *x = within(a, -30, 30), *y = within(b, -30, 30), *z = within(c, -60, 60);
            }
        }
    }
}

static void *work(void *argument)
{
    struct proof *proof = argument;
    const struct function *function = proof->function;
    struct buffers *buffers = malloc(sizeof *buffers);
    if (!buffers)
        abort();
    memset(buffers, 0, sizeof *buffers);
    for (;;) {
        uint64_t chunk = proof->every * atomic_fetch_add(&proof->next, 1);
        if (chunk >= proof->chunk_count)
            break;
        if (function->arguments > 1) {
            fill_random(function, proof->seed + chunk * UINT64_C(0xd1342543de82ef95), buffers);
            check(proof, buffers, CHUNK);
            continue;
        }
        for (uint32_t i = 0; i < CHUNK; i++)
            buffers->x[i] = float_of((uint32_t)(chunk * CHUNK) + i);
        if (function->shape != EVERY && chunk >= proof->chunk_count / 2)
            check_mirrored(proof, buffers, CHUNK);
        else
            check(proof, buffers, CHUNK);
    }
    free(buffers);
    mpfr_free_cache();
    return NULL;
}

static bool prove(const struct function *function, unsigned threads, uint64_t points,
                  uint64_t every, uint64_t seed)
{
    struct proof proof = { .function = function, .every = 1, .seed = seed };
    struct timespec begin, end;
    pthread_t ids[256];
    proof.chunk_count =
        function->arguments == 1 ? (UINT64_C(1) << 32) / CHUNK : (points + CHUNK - 1) / CHUNK;
    if (function->arguments == 1)
        proof.every = every;
    pthread_mutex_init(&proof.lock, NULL);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, work, &proof) != 0)
            abort();
    for (unsigned i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    pthread_mutex_destroy(&proof.lock);
    printf("%-6s %10llu points: %10llu by double, %10llu by symmetry, %8llu by MPFR: %llu wrong"
           "  (%.1f s)\n",
           function->name,
           (unsigned long long)(proof.by_double + proof.by_symmetry + proof.by_mpfr),
           (unsigned long long)proof.by_double, (unsigned long long)proof.by_symmetry,
           (unsigned long long)proof.by_mpfr, (unsigned long long)proof.wrong,
           (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
    fflush(stdout);
    return proof.wrong == 0;
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
    unsigned threads = 2, proved = 0;
    uint64_t points = 1000000000, every = 1, seed = 1;
    bool is_right = true;
    int at = 1;
    for (; at + 1 < count && words[at][0] == '-'; at += 2) {
        char *end;
        unsigned long long value = strtoull(words[at + 1], &end, 10);
        if (*end || value == 0 || strlen(words[at]) != 2 || !strchr("jpse", words[at][1])) {
            fprintf(stderr,
                    "usage: prove [-j THREADS] [-p POINTS] [-e EVERY] [-s SEED] [FUNCTION...]\n");
            return 2;
        }
        if (words[at][1] == 'j')
            threads = value < 256 ? (unsigned)value : 256;
        else if (words[at][1] == 'p')
            points = value;
        else if (words[at][1] == 'e')
            every = value;
        else
            seed = value;
    }
    for (size_t i = 0; i < FUNCTION_COUNT; i++)
        if (is_asked(functions[i].name, words + at, count - at)) {
            proved++;
            is_right = prove(&functions[i], threads, points, every, seed) && is_right;
        }
    /* One thread, MPFR each time: fewer points. */
    for (unsigned i = 0; prove_double_name(i); i++)
        if (is_asked(prove_double_name(i), words + at, count - at)) {
            proved++;
            is_right = prove_double(i, points / 1000, seed) && is_right;
        }
    if (proved == 0) {
        fprintf(stderr, "prove: no function of that name\n");
        return 2;
    }
    return is_right ? 0 : 1;
}
