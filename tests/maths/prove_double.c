#define _GNU_SOURCE
#include "prove_double.h"

#include <math.h>
#include <mpfr.h>
#include <muster_kernel.h>
#include <stdio.h>

#define SHOWN_MAX 8

/* What one function of a, or of a and b, is for MPFR and for kernels; and which points it is given. */
struct point {
    double a, b;
};

static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* In (-1, 1). */
static double unit(uint64_t *state)
{
    return (double)(int64_t)next(state) * 0x1p-63;
}

static struct point exp_point(uint64_t *state, unsigned kind)
{
    return (struct point){ kind ? unit(state) * 746 : muster_bits_double(next(state)), 0 };
}

static struct point log_point(uint64_t *state, unsigned kind)
{
    double any = muster_bits_double(next(state)), exponent = unit(state) * (kind == 1 ? 0.5 : 700);
    return (struct point){ kind ? exp(exponent) : any, 0 };
}

/* Anywhere, near 0, and near the multiples of pi / 2. */
static struct point sin_point(uint64_t *state, unsigned kind)
{
    double any = muster_bits_double(next(state)), near = unit(state) * 100;
    double multiple = (double)(next(state) % 100000000) * M_PI_2;
    return (struct point){ kind == 0 ? any : kind == 1 ? near : multiple, 0 };
}

/* Whole numbers, near 1, and anywhere with a result in range. */
static struct point pow_point(uint64_t *state, unsigned kind)
{
    struct point point = { fabs(muster_bits_double(next(state))), 0 };
    if (kind == 1)
        point.a = 1 + 0.5 * unit(state);
    point.b = unit(state) * 746 / log(point.a);
    if (kind == 2)
        point =
            (struct point){ (double)(next(state) % 1000) - 500, (double)(next(state) % 200) - 100 };
    return point;
}

static double exp_of(struct point point)
{
    return muster_exp64(point.a);
}
static double log_of(struct point point)
{
    return muster_log64(point.a);
}
static double sin_of(struct point point)
{
    return muster_sin64(point.a);
}
static double cos_of(struct point point)
{
    return muster_cos64(point.a);
}
static double pow_of(struct point point)
{
    return muster_pow64(point.a, point.b);
}

static void exact(unsigned index, mpfr_t out, mpfr_t a, mpfr_t b)
{
    switch (index) {
    case 0:
        mpfr_exp(out, a, MPFR_RNDN);
        break;
    case 1:
        mpfr_log(out, a, MPFR_RNDN);
        break;
    case 2:
        mpfr_sin(out, a, MPFR_RNDN);
        break;
    case 3:
        mpfr_cos(out, a, MPFR_RNDN);
        break;
    default:
        mpfr_pow(out, a, b, MPFR_RNDN);
    }
}

static const struct {
    const char *name;
    struct point (*point)(uint64_t *state, unsigned kind);
    double (*ours)(struct point point);
} functions[] = {
    { "exp64", exp_point, exp_of }, { "log64", log_point, log_of }, { "sin64", sin_point, sin_of },
    { "cos64", sin_point, cos_of }, { "pow64", pow_point, pow_of },
};

const char *prove_double_name(unsigned index)
{
    return index < sizeof functions / sizeof *functions ? functions[index].name : NULL;
}

/* In units in the last place of the exact value; 2 where there is no such unit and bits differ. */
static double error_of(double is, mpfr_t exactly, mpfr_t difference)
{
    double rounded = mpfr_get_d(exactly, MPFR_RNDN);
    if (rounded != rounded)
        return muster_double_bits(is) == 0x7ff8000000000000u ? 0 : 2;
    if (isinf(rounded) || isinf(is) || rounded == 0)
        return muster_double_bits(is) == muster_double_bits(rounded) ? 0 : 2;
    double place = fmax(ldexp(1, ilogb(rounded) - 52), 0x1p-1074);
    mpfr_sub_d(difference, exactly, is, MPFR_RNDN);
    return fabs(mpfr_get_d(difference, MPFR_RNDN)) / place;
}

bool prove_double(unsigned index, uint64_t points, uint64_t seed)
{
    mpfr_t a, b, out, difference;
    uint64_t state = seed + index, wrong = 0;
    double worst = 0;
    mpfr_inits2(200, a, b, out, difference, (mpfr_ptr)0);
    for (uint64_t i = 0; i < points; i++) {
        struct point point = functions[index].point(&state, (unsigned)(i % 3));
        double is = functions[index].ours(point);
        mpfr_set_d(a, point.a, MPFR_RNDN);
        mpfr_set_d(b, point.b, MPFR_RNDN);
        exact(index, out, a, b);
        double error = error_of(is, out, difference);
        worst = error > worst ? error : worst;
        if (error > 1 && wrong++ < SHOWN_MAX)
            printf("  %s(%a, %a) is %a, wrong by %.3f\n", functions[index].name, point.a, point.b,
                   is, error);
    }
    mpfr_clears(a, b, out, difference, (mpfr_ptr)0);
    printf("%-6s %10llu points by MPFR: at most %.4f units in the last place, %llu wrong\n",
           functions[index].name, (unsigned long long)points, worst, (unsigned long long)wrong);
    fflush(stdout);
    return wrong == 0;
}
