/*
 * Mathematics of portable kernels, continued: functions of double. The same bits on every device; the
 * error is below one unit in the last place, as scripts/prove-maths measures. Comes after
 * muster_kernel_math.h.
 */
#ifndef MUSTER_KERNEL_MATH_DOUBLE
#define MUSTER_KERNEL_MATH_DOUBLE

#define MUSTER_NAN64 muster_bits_double(0x7ff8000000000000u)
#define MUSTER_INFINITY64 muster_bits_double(0x7ff0000000000000u)

MUSTER_MATH double muster_math_abs(double x)
{
    return muster_bits_double(muster_double_bits(x) & 0x7fffffffffffffffu);
}

/* 2^n for -1022 <= n <= 1023. */
MUSTER_MATH double muster_math_scale(int32_t n)
{
    return muster_bits_double((uint64_t)(uint32_t)(1023 + n) << 52);
}

/* e^(a + a_low). */
MUSTER_MATH double muster_math_exp64(double a, double a_low)
{
    a_low = a > -746.0 && a < 710.0 ? a_low : 0.0;
    a = muster_math_clamp(a, -746.0, 710.0);
    double shifted = a * MUSTER_LOG2_E + MUSTER_SHIFT, n = shifted - MUSTER_SHIFT;
    double first = a - n * MUSTER_LN2_1, second = n * MUSTER_LN2_2, third = first - second;
    double left = muster_math_lost(first, -second, third) + (a_low - n * MUSTER_LN2_3);
    double r = third + left, low = muster_math_lost(third, left, r);
    double p = r + (low + r * r * muster_exp_rest(r));
    /* In two steps: 2^n may be no double. */
    int32_t whole = (int32_t)(uint32_t)muster_double_bits(shifted), halved = whole >> 1;
    return (1.0 + p) * muster_math_scale(halved) * muster_math_scale(whole - halved);
}

MUSTER_MATH double muster_exp64(double x)
{
    double y = muster_math_exp64(x, 0.0);
    return x == x ? y : MUSTER_NAN64;
}

MUSTER_MATH double muster_log64(double x)
{
    double a = x < 0x1p-1022 ? x * 0x1p54 : x;
    MUSTER_MATH_SPLIT(a, n, f);
    n = x < 0x1p-1022 ? n - 54.0 : n;
    double half_square = 0.5 * f * f, high = n * MUSTER_LN2_1, sum = high + f;
    double low = muster_math_lost_ordered(high, f, sum) - half_square;
    double y = sum + (low + (muster_math_log_rest(f, half_square) + n * MUSTER_LN2_2));
    y = x < MUSTER_INFINITY64 ? y : x;
    y = x >= 0.0 ? y : MUSTER_NAN64;
    return x == 0.0 ? -MUSTER_INFINITY64 : y;
}

#ifdef MUSTER_NEEDS_TURNS
#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)
#define muster_math_high(a, b) mul_hi((ulong)(a), (ulong)(b))
#elif defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define muster_math_high(a, b) __umul64hi(a, b)
#else
__extension__ typedef unsigned __int128 muster_math_wide;
#define muster_math_high(a, b) ((uint64_t)(((muster_math_wide)(a) * (b)) >> 64))
#endif

/*
 * sin(x + turn pi / 2). From pi / 4 on (Payne and Hanek): the integer that is x's significand times
 * 192 bits of 2 / pi, from the first on that makes no multiple of 4.
 */
MUSTER_MATH double muster_math_sin64(double x, uint32_t turn)
{
    uint64_t bits = muster_double_bits(x) & 0x7fffffffffffffffu;
    uint32_t exponent = (uint32_t)(bits >> 52);
    uint32_t is_small = bits < 0x3fe921fb54442d18u, is_finite = exponent < 2047u;
    /* From bit exponent - 1075 - 2 + 64 of the table on. */
    uint32_t at = is_small || !is_finite ? 0u : exponent - 1013u, word = at >> 6, shift = at & 63u;
    uint64_t m = (bits & 0xfffffffffffffu) | 0x10000000000000u;
    uint64_t w0 = muster_turns[word], w1 = muster_turns[word + 1], w2 = muster_turns[word + 2];
    uint64_t w3 = muster_turns[word + 3];
    w0 = (w0 << shift) | ((w1 >> 1) >> (63u - shift));
    w1 = (w1 << shift) | ((w2 >> 1) >> (63u - shift));
    w2 = (w2 << shift) | ((w3 >> 1) >> (63u - shift));
    uint64_t lower = m * w1 + muster_math_high(m, w2);
    uint64_t upper = m * w0 + muster_math_high(m, w1) + (lower < m * w1);
    uint64_t n = (upper + ((uint64_t)1u << 61)) >> 62;
    int64_t part = (int64_t)(upper - (n << 62));
    /* The part in quarters of a turn, 2^-126 each: four numbers of 32 bits are exact. */
    double a = (double)(int32_t)(part >> 32) * 0x1p-30;
    double b = (double)(uint32_t)part * 0x1p-62, c = (double)(uint32_t)(lower >> 32) * 0x1p-94;
    double d = (double)(uint32_t)lower * 0x1p-126, first = a + b, second = c + d;
    double left = muster_math_lost(a, b, first) + second, q = first + left;
    double q_low = muster_math_lost(first, left, q), q1 = muster_math_head(q);
    double high = q1 * MUSTER_PI_2_1;
    double low = q1 * MUSTER_PI_2_2 + ((q - q1) + q_low) * MUSTER_PI_2;
    double size = muster_bits_double(bits), t = is_small ? size : high + low;
    double t_low = is_small ? 0.0 : muster_math_lost_ordered(high, low, t);
    uint32_t is_odd = muster_double_bits(x) >> 63 ? 1u : 0u;
    uint32_t quarter = (is_small ? 0u : (uint32_t)n & 3u);
    /* sin(-x + turn) = -sin(x - turn) */
    quarter = is_odd ? quarter + 4u - turn : quarter + turn;
    double s = muster_math_sin(t, t_low), cosine = muster_math_cos(t, t_low);
    double y = quarter & 1u ? cosine : s;
    y = (quarter >> 1 & 1u) != is_odd ? -y : y;
    return is_finite ? y : MUSTER_NAN64;
}

MUSTER_MATH double muster_sin64(double x)
{
    double y = muster_math_sin64(x, 0u);
    return x == 0.0 ? x : y;
}

MUSTER_MATH double muster_cos64(double x)
{
    return muster_math_sin64(x, 1u);
}
#endif

#ifdef MUSTER_NEEDS_POW
/* To the nearest integer, for 0 <= x <= 2^52. */
MUSTER_MATH double muster_math_rint64(double x)
{
    return (x + 0x1p52) - 0x1p52;
}

MUSTER_MATH double muster_pow64(double x, double y)
{
    double size = muster_math_abs(x), b = muster_math_clamp(y, -0x1p70, 0x1p70);
    double infinity = MUSTER_INFINITY64, way = muster_math_abs(b), halved = 0.5 * way;
    uint32_t is_negative = (uint32_t)(muster_double_bits(x) >> 63);
    uint32_t is_whole = (way >= 0x1p52) | (muster_math_rint64(way) == way);
    uint32_t is_odd = is_whole & (way < 0x1p53) & (muster_math_rint64(halved) != halved);
    double a = size < 0x1p-1022 ? size * 0x1p54 : size;
    uint64_t biased = muster_double_bits(a) - 0x3fe6a00000000000u + ((uint64_t)2048u << 52);
    double n =
        muster_bits_double(0x4330000000000000u | (biased >> 52)) - (4503599627370496.0 + 2048.0);
    double m = muster_bits_double((biased & 0xfffffffffffffu) + 0x3fe6a00000000000u);
    int32_t row = (int32_t)((muster_double_bits(m) >> 45) & 127u);
    n = size < 0x1p-1022 ? n - 54.0 : n;
    /* m times the row's inverse less 1, in two parts; then the first terms of the log of it. */
    double m1 = muster_math_head(m), inverse = muster_pow_log_0[row];
    double r1 = m1 * inverse - 1.0, r2 = (m - m1) * inverse, r = r1 + r2;
    double r_low = muster_math_lost(r1, r2, r), square = r * r;
    double square_low = muster_math_lost_product(r, r, square);
    double p = 1.0 / 11.0;
    p = p * r - 1.0 / 10.0;
    p = p * r + 1.0 / 9.0;
    p = p * r - 1.0 / 8.0;
    p = p * r + 1.0 / 7.0;
    p = p * r - 1.0 / 6.0;
    p = p * r + 1.0 / 5.0;
    p = p * r - 1.0 / 4.0;
    p = p * r + 1.0 / 3.0;
    double zero = n * MUSTER_LN2_1, one = zero + muster_pow_log_1[row], two = one + r;
    double three = two - 0.5 * square;
    double rest = muster_math_lost(zero, muster_pow_log_1[row], one) +
                  muster_math_lost(one, r, two) + muster_math_lost(two, -0.5 * square, three) +
                  ((r_low - r * r_low) - 0.5 * square_low + square * r * p) +
                  muster_pow_log_2[row] + (n * MUSTER_LN2_2 + n * MUSTER_LN2_3);
    double high = three + rest, low = muster_math_lost_ordered(three, rest, high);
    /* Times b, rounded and what that lost. */
    double t = high * b, t_low = muster_math_lost_product(high, b, t) + low * b;
    double result = muster_math_exp64(t, t_low);
    result = size > 0.0 ? result : b < 0.0 ? infinity : 0.0;
    result = size < infinity ? result : b < 0.0 ? 0.0 : infinity;
    result = is_negative & is_odd ? -result : result;
    uint32_t is_nan =
        (is_negative & (size > 0.0) & (size < infinity) & (is_whole ^ 1u)) | (x != x) | (y != y);
    result = is_nan ? MUSTER_NAN64 : result;
    return y == 0.0 || x == 1.0 ? 1.0 : result;
}
#endif

#endif
