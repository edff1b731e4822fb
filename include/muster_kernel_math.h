/*
 * Mathematics of portable kernels with the same bits on every device: one sequence of IEEE
 * operations in double (+, -, *, /, square root, and integers), then one rounding to float. No
 * device's own functions are called, and no fused multiply-add: plain C has one only on processors
 * that have it. Included by muster_kernel.h after its constants; Muster adds both to kernels that
 * name one of its functions. scripts/prove-maths compares every float with MPFR: the results are correctly rounded.
 *
 * Every function is written without branches, so that a loop over items is vectorised.
 */
#ifndef MUSTER_KERNEL_MATH
#define MUSTER_KERNEL_MATH

#define MUSTER_NAN_BITS 0x7fc00000u
#define MUSTER_SIGN_BIT 0x80000000u
#define MUSTER_INFINITY_BITS 0x7f800000u
/* Added to a number below 2^51 it leaves the nearest integer in the low bits. */
#define MUSTER_SHIFT 0x1.8p52

/* The nearest float; there is one NaN. */
MUSTER_MATH float muster_math_float(double value)
{
    float result = (float)value;
    return result == result ? result : muster_bits_float(MUSTER_NAN_BITS);
}

/* The bits of |x|, and a magnitude with the sign of x. */
MUSTER_MATH uint32_t muster_math_magnitude(float x)
{
    return muster_float_bits(x) & ~MUSTER_SIGN_BIT;
}

MUSTER_MATH float muster_math_signed(float magnitude, float x)
{
    uint32_t sign = muster_float_bits(x) & MUSTER_SIGN_BIT;
    return magnitude == magnitude ? muster_bits_float(muster_float_bits(magnitude) | sign)
                                  : magnitude;
}

/* An input that double is not enough for: if `bits` is `input`, the result is `output`. */
MUSTER_MATH float muster_math_case(float result, uint32_t bits, uint32_t input, uint32_t output)
{
    return bits == input ? muster_bits_float(output) : result;
}

/* 2^n; `shifted` has n in its low bits. */
MUSTER_MATH double muster_math_power(uint64_t shifted)
{
    return muster_bits_double((shifted + 1023u) << 52);
}

/* The 26 leading bits. */
MUSTER_MATH double muster_math_head(double value)
{
    return muster_bits_double(muster_double_bits(value) & 0xfffffffff8000000u);
}

/* What a + b lost to rounding, whatever their order (Knuth), and for |a| >= |b| or a = 0 (Dekker). */
MUSTER_MATH double muster_math_lost(double a, double b, double sum)
{
    double part = sum - a;
    return (a - (sum - part)) + (b - part);
}

MUSTER_MATH double muster_math_lost_ordered(double a, double b, double sum)
{
    return b - (sum - a);
}

/* a * b - product, which is the rounded a * b (Dekker, Veltkamp's halves by cutting off). */
MUSTER_MATH double muster_math_lost_product(double a, double b, double product)
{
    double a1 = muster_math_head(a), a2 = a - a1, b1 = muster_math_head(b), b2 = b - b1;
    return a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2);
}

/*
 * high + low, |low| <= ulp(high) / 2, rounded once: where there is a low part the last bit of high
 * is made 1 (rounding to odd), so that high is never halfway between two floats by mistake.
 */
MUSTER_MATH float muster_math_round(double high, double low)
{
    uint64_t bits = muster_double_bits(high);
    uint64_t is_even = ~bits & 1u;
    uint64_t is_away = (low > 0.0) == (high > 0.0);
    uint64_t odd = is_away ? bits + is_even : bits - is_even;
    return muster_math_float(low > 0.0 || low < 0.0 ? muster_bits_double(odd) : high);
}

/* e^a - 1 as scale - 1 + scale * p, for |a| < 700. */
#define MUSTER_MATH_EXP(a, scale, p)                                                               \
    double muster_shifted = (a)*MUSTER_LOG2_E + MUSTER_SHIFT;                                      \
    double muster_n = muster_shifted - MUSTER_SHIFT;                                               \
    double muster_r = ((a)-muster_n * MUSTER_LN2_1) - muster_n * MUSTER_LN2_2;                     \
    double scale = muster_math_power(muster_double_bits(muster_shifted));                          \
    double p = muster_r + muster_r * muster_r * muster_exp_rest(muster_r)

MUSTER_MATH double muster_math_clamp(double value, double low, double high)
{
    value = value < low ? low : value;
    return value > high ? high : value;
}

MUSTER_MATH double muster_math_exp(double a)
{
    MUSTER_MATH_EXP(a, scale, p);
    return scale + scale * p;
}

MUSTER_MATH double muster_math_expm1(double a)
{
    MUSTER_MATH_EXP(a, scale, p);
    return (scale - 1.0) + scale * p;
}

MUSTER_MATH float muster_exp(float x)
{
    return muster_math_float(muster_math_exp(muster_math_clamp((double)x, -105.0, 90.0)));
}

MUSTER_MATH float muster_exp2(float x)
{
    double a = muster_math_clamp((double)x, -160.0, 130.0);
    double shifted = a + MUSTER_SHIFT, r = a - (shifted - MUSTER_SHIFT);
    double scale = muster_math_power(muster_double_bits(shifted));
    double p = r * MUSTER_LN2 + (r * MUSTER_LN2_LOW + r * r * muster_exp2_rest(r));
    float y = muster_math_float(scale + scale * p);
    y = muster_math_case(y, muster_float_bits(x), 0x3b429d37u, 0x3f804385u);
    return muster_math_case(y, muster_float_bits(x), 0xbcf3a937u, 0x3f7ac6b1u);
}

MUSTER_MATH float muster_exp10(float x)
{
    double a = muster_math_clamp((double)x, -48.0, 40.0);
    double shifted = a * MUSTER_LOG2_10 + MUSTER_SHIFT, n = shifted - MUSTER_SHIFT;
    double r = (a - n * MUSTER_LOG10_2_1) - n * MUSTER_LOG10_2_2;
    double scale = muster_math_power(muster_double_bits(shifted));
    double p = r * MUSTER_LN10_1 + (r * MUSTER_LN10_2 + r * r * muster_exp10_rest(r));
    return muster_math_float(scale + scale * p);
}

MUSTER_MATH float muster_expm1(float x)
{
    double a = muster_math_clamp((double)x, -40.0, 90.0);
    float y = muster_math_float(muster_math_expm1(a));
    return x == 0.0f ? x : y;
}

MUSTER_MATH float muster_sinh(float x)
{
    double a = (double)muster_fabs(x), p = muster_math_expm1(a > 95.0 ? 95.0 : a);
    float y = muster_math_float(0.5 * (p + p / (p + 1.0)));
    y = muster_math_case(y, muster_math_magnitude(x), 0x3a1285ffu, 0x3a1285ffu);
    return muster_math_signed(y, x);
}

MUSTER_MATH float muster_cosh(float x)
{
    double a = (double)muster_fabs(x), p = muster_math_exp(a > 95.0 ? 95.0 : a);
    return muster_math_float(0.5 * (p + 1.0 / p));
}

MUSTER_MATH float muster_tanh(float x)
{
    double a = (double)muster_fabs(x), p = muster_math_expm1(a > 12.0 ? 24.0 : a + a);
    return muster_math_signed(muster_math_float(p / (p + 2.0)), x);
}

/*
 * The number a > 0 as 2^n (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2). Then the log of 1 + f is
 * f - f^2 / 2 + rest, of which the rest is small.
 */
#define MUSTER_MATH_SPLIT(a, n, f)                                                                 \
    uint64_t muster_biased =                                                                       \
        muster_double_bits(a) - 0x3fe6a09e667f3bcdu + ((uint64_t)2048u << 52);                     \
    double n = muster_bits_double(0x4330000000000000u | (muster_biased >> 52)) -                   \
               (4503599627370496.0 + 2048.0);                                                      \
    double f = muster_bits_double((muster_biased & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0

MUSTER_MATH double muster_math_log_rest(double f, double half_square)
{
    double s = f / (2.0 + f), z = s * s;
    return s * (half_square + z * muster_log_rest(z));
}

/* What is not a number above 0 has a logarithm of its own. */
MUSTER_MATH float muster_math_log_edges(float y, float x)
{
    y = muster_float_bits(x) == MUSTER_INFINITY_BITS ? x : y;
    y = x >= 0.0f ? y : muster_bits_float(MUSTER_NAN_BITS);
    return x == 0.0f ? muster_bits_float(MUSTER_INFINITY_BITS | MUSTER_SIGN_BIT) : y;
}

/* n log 2 + log(1 + f), rounded once: near 1 too many logs lie halfway between floats in double. */
MUSTER_MATH float muster_math_log(double n, double f)
{
    double half_square = 0.5 * f * f, high = n * MUSTER_LN2_1, sum = high + f;
    double low = muster_math_lost_ordered(high, f, sum) - half_square;
    low = low + (muster_math_log_rest(f, half_square) + n * MUSTER_LN2_2);
    double result = sum + low;
    return muster_math_round(result, muster_math_lost_ordered(sum, low, result));
}

MUSTER_MATH float muster_log(float x)
{
    double a = (double)x;
    MUSTER_MATH_SPLIT(a, n, f);
    return muster_math_log_edges(muster_math_log(n, f), x);
}

MUSTER_MATH float muster_log1p(float x)
{
    double a = (double)x, whole = 1.0 + a;
    MUSTER_MATH_SPLIT(whole, n, f);
    f = n == 0.0 ? a : f;
    float y = muster_math_log(n, f);
    y = muster_float_bits(x) == MUSTER_INFINITY_BITS ? x : y;
    y = x >= -1.0f ? y : muster_bits_float(MUSTER_NAN_BITS);
    y = x == -1.0f ? muster_bits_float(MUSTER_INFINITY_BITS | MUSTER_SIGN_BIT) : y;
    return x == 0.0f ? x : y;
}

/* n_high + n_low + log(1 + f) * (c1 + c2); c1 and n_high have few bits. */
MUSTER_MATH double muster_math_log_base(double n_high, double n_low, double f, double c1, double c2)
{
    double half_square = 0.5 * f * f, high = muster_math_head(f - half_square);
    double low = ((f - high) - half_square) + muster_math_log_rest(f, half_square);
    double product = high * c1, sum = n_high + product;
    return sum + (muster_math_lost_ordered(n_high, product, sum) +
                  (((high + low) * c2 + low * c1) + n_low));
}

MUSTER_MATH float muster_log2(float x)
{
    double a = (double)x;
    MUSTER_MATH_SPLIT(a, n, f);
    double y = muster_math_log_base(n, 0.0, f, MUSTER_LOG2_E_1, MUSTER_LOG2_E_2);
    return muster_math_log_edges(muster_math_float(y), x);
}

MUSTER_MATH float muster_log10(float x)
{
    double a = (double)x;
    MUSTER_MATH_SPLIT(a, n, f);
    double y = muster_math_log_base(n * MUSTER_LOG10_2_1, n * MUSTER_LOG10_2_2, f, MUSTER_LOG10_E_1,
                                    MUSTER_LOG10_E_2);
    float result =
        muster_math_case(muster_math_float(y), muster_float_bits(x), 0x0efeee7au, 0xc1e99d23u);
    return muster_math_log_edges(result, x);
}

#ifdef MUSTER_NEEDS_QUADRANT
/*
 * |x| as n pi / 2 + t + t_low with |t| <= pi / 4 (Payne and Hanek, with a row of the table for each
 * exponent from 2^24 on). `shifted` has n in its low bits.
 */
#define MUSTER_MATH_QUADRANT(x, shifted, t, t_low)                                                 \
    /* At least 0; without ?:, which would keep gcc from vectorising the loads of the table. */    \
    int32_t muster_past = (int32_t)(muster_math_magnitude(x) >> 23) - 150;                         \
    int32_t muster_row = muster_past & ~(muster_past >> 31);                                       \
    double muster_m = (double)muster_fabs(x) *                                                     \
                      muster_bits_double((uint64_t)(uint32_t)(1023 - muster_row) << 52);           \
    double muster_a = muster_m * muster_quadrant_0[muster_row];                                    \
    double muster_b = muster_m * muster_quadrant_1[muster_row];                                    \
    double muster_c = muster_m * muster_quadrant_2[muster_row];                                    \
    double muster_count = muster_a + muster_b;                                                     \
    double muster_shifted = muster_count + MUSTER_SHIFT;                                           \
    double muster_part = muster_a - (muster_shifted - MUSTER_SHIFT);                               \
    double muster_q = muster_part + muster_b;                                                      \
    double muster_q_low = muster_math_lost(muster_part, muster_b, muster_q) + muster_c;            \
    double muster_q1 = muster_math_head(muster_q);                                                 \
    double muster_high = muster_q1 * MUSTER_PI_2_1;                                                \
    double muster_low =                                                                            \
        muster_q1 * MUSTER_PI_2_2 + ((muster_q - muster_q1) + muster_q_low) * MUSTER_PI_2;         \
    uint64_t shifted = muster_double_bits(muster_shifted);                                         \
    double t = muster_high + muster_low;                                                           \
    double t_low = muster_math_lost_ordered(muster_high, muster_low, t)

MUSTER_MATH double muster_math_sin(double t, double t_low)
{
    double z = t * t;
    return t + (t_low + t * (z * muster_sin_rest(z)));
}

MUSTER_MATH double muster_math_cos(double t, double t_low)
{
    double z = t * t, half_square = 0.5 * z, w = 1.0 - half_square;
    return w + (((1.0 - w) - half_square) + (z * z * muster_cos_rest(z) - t * t_low));
}

/* sin(t + n pi / 2) */
MUSTER_MATH double muster_math_turned(uint64_t n, double t, double t_low)
{
    double s = muster_math_sin(t, t_low), c = muster_math_cos(t, t_low), y = n & 1u ? c : s;
    return n & 2u ? -y : y;
}

MUSTER_MATH float muster_sin(float x)
{
    MUSTER_MATH_QUADRANT(x, n, t, t_low);
    uint32_t sign = muster_float_bits(x) & MUSTER_SIGN_BIT;
    float y = (float)muster_math_turned(n, t, t_low);
    y = muster_math_case(y, muster_math_magnitude(x), 0x46199998u, 0xbeb1fa5du);
    y = muster_bits_float(muster_float_bits(y) ^ sign);
    return muster_math_magnitude(x) < MUSTER_INFINITY_BITS ? y : muster_bits_float(MUSTER_NAN_BITS);
}

MUSTER_MATH float muster_cos(float x)
{
    MUSTER_MATH_QUADRANT(x, n, t, t_low);
    float y = (float)muster_math_turned(n + 1u, t, t_low);
    y = muster_math_case(y, muster_math_magnitude(x), 0x5f18b878u, 0x3f7f14bbu);
    y = muster_math_case(y, muster_math_magnitude(x), 0x6115cb11u, 0x3f78142fu);
    return muster_math_magnitude(x) < MUSTER_INFINITY_BITS ? y : muster_bits_float(MUSTER_NAN_BITS);
}

MUSTER_MATH float muster_tan(float x)
{
    MUSTER_MATH_QUADRANT(x, n, t, t_low);
    uint32_t sign = muster_float_bits(x) & MUSTER_SIGN_BIT;
    double s = muster_math_sin(t, t_low), c = muster_math_cos(t, t_low);
    float y = (float)((n & 1u ? -c : s) / (n & 1u ? s : c));
    y = muster_bits_float(muster_float_bits(y) ^ sign);
    return muster_math_magnitude(x) < MUSTER_INFINITY_BITS ? y : muster_bits_float(MUSTER_NAN_BITS);
}
#endif

/* asin(t) - t for |t| <= 1 / 2 with z = t^2. */
MUSTER_MATH double muster_math_asin_rest(double t, double z)
{
    return t * (z * muster_asin_rest(z));
}

MUSTER_MATH float muster_asin(float x)
{
    double a = (double)muster_fabs(x);
    double z = a > 0.5 ? 0.5 * (1.0 - a) : a * a, t = a > 0.5 ? muster_sqrt64(z) : a;
    double rest = muster_math_asin_rest(t, z);
    double y = a > 0.5 ? MUSTER_PI_2 - (2.0 * t + (2.0 * rest - MUSTER_PI_2_LOW)) : t + rest;
    return muster_math_signed(muster_math_float(y), x);
}

MUSTER_MATH float muster_acos(float x)
{
    double v = (double)x, a = (double)muster_fabs(x);
    double z = a > 0.5 ? 0.5 * (1.0 - a) : v * v, t = a > 0.5 ? muster_sqrt64(z) : v;
    double rest = muster_math_asin_rest(t, z);
    double middle = MUSTER_PI_2 - (t + (rest - MUSTER_PI_2_LOW));
    double left = 2.0 * (MUSTER_PI_2 - (t + (rest - MUSTER_PI_2_LOW))), right = 2.0 * (t + rest);
    float y = muster_math_float(a > 0.5 ? (v < 0.0 ? left : right) : middle);
    y = muster_math_case(y, muster_float_bits(x), 0x328885a3u, 0x3fc90fdbu);
    return muster_math_case(y, muster_float_bits(x), 0x39826222u, 0x3fc907b5u);
}

MUSTER_MATH float muster_atan(float x)
{
    double a = (double)muster_fabs(x);
    a = a > 0x1p100 ? 0x1p100 : a;
    int is_large = a > 2.414213562373095, is_middle = a > 0.4142135623730951;
    double above = is_large ? -1.0 : is_middle ? a - 1.0 : a;
    double below = is_large ? a : is_middle ? a + 1.0 : 1.0;
    double base = is_large ? MUSTER_PI_2 : is_middle ? 0.5 * MUSTER_PI_2 : 0.0;
    double base_low = is_large ? MUSTER_PI_2_LOW : is_middle ? 0.5 * MUSTER_PI_2_LOW : 0.0;
    double t = above / below, z = t * t, sum = base + t;
    double low = muster_math_lost_ordered(base, t, sum) + base_low;
    double y = sum + (low + t * (z * muster_atan_rest(z)));
    float result =
        muster_math_case(muster_math_float(y), muster_math_magnitude(x), 0x3d8d6b23u, 0x3d8d31c3u);
    return muster_math_signed(result, x);
}

MUSTER_MATH float muster_rsqrt(float x)
{
    return muster_math_float(1.0 / muster_sqrt64((double)x));
}

MUSTER_MATH float muster_cbrt(float x)
{
    double a = (double)muster_fabs(x);
    uint32_t high = (uint32_t)(muster_double_bits(a) >> 32);
    /* A third of the exponent, then two steps of order four towards a^(-1/3). */
    double t = muster_bits_double((uint64_t)(0x553ef0ffu - high / 3u) << 32);
    double e = 1.0 - a * t * t * t;
    t = t + t * e * (1.0 / 3.0 + e * (2.0 / 9.0 + e * (14.0 / 81.0)));
    e = 1.0 - a * t * t * t;
    t = t + t * e * (1.0 / 3.0 + e * (2.0 / 9.0 + e * (14.0 / 81.0)));
    double y = a * t * t;
    y = y - (y * y * y - a) * (t * t * (1.0 / 3.0));
    float result = (float)y;
    result = a > 0.0 && a < 0x1p130 ? result : (float)a;
    return muster_math_signed(muster_math_float((double)result), x);
}

#ifdef MUSTER_NEEDS_ERF
MUSTER_MATH float muster_erf(float x)
{
    /* From 4 on the row is any, and so is what comes of it. */
    double a = (double)muster_fabs(x), shifted = (a * 4.0 - 0.5) + MUSTER_SHIFT;
    double z = a - ((shifted - MUSTER_SHIFT) * 0.25 + 0.125);
    int32_t row = (int32_t)(muster_double_bits(shifted) & 15u);
    double p = muster_erf_12[row];
    p = p * z + muster_erf_11[row];
    p = p * z + muster_erf_10[row];
    p = p * z + muster_erf_9[row];
    p = p * z + muster_erf_8[row];
    p = p * z + muster_erf_7[row];
    p = p * z + muster_erf_6[row];
    p = p * z + muster_erf_5[row];
    p = p * z + muster_erf_4[row];
    p = p * z + muster_erf_3[row];
    p = p * z + muster_erf_2[row];
    p = p * z + muster_erf_1[row];
    p = p * z + muster_erf_0[row];
    float y = (float)(a * p);
    y = a < 3.9990234375 ? y : 1.0f;
    y = muster_math_signed(y, x);
    return x == x ? y : muster_bits_float(MUSTER_NAN_BITS);
}
#endif

#endif
