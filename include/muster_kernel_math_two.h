/*
 * Mathematics of portable kernels, continued: functions of two and three arguments, and rounding to
 * integers. Between two rounded operations what the first one lost is kept, so that the sum of both
 * parts is right to about 2^-68 and its last rounding decides. Part of muster_kernel_math.h.
 */
#ifndef MUSTER_KERNEL_MATH_TWO
#define MUSTER_KERNEL_MATH_TWO

/* x * y + z rounded once. */
MUSTER_MATH float muster_fma(float x, float y, float z)
{
    double product = (double)x * (double)y, c = (double)z, sum = product + c;
    return muster_math_round(sum, muster_math_lost(product, c, sum));
}

/* To the nearest integer, ties to even. */
MUSTER_MATH float muster_rint(float x)
{
    float a = muster_fabs(x), y = (a + 0x1p23f) - 0x1p23f;
    y = muster_math_signed(a < 0x1p23f ? y : a, x);
    return x == x ? y : muster_bits_float(MUSTER_NAN_BITS);
}

/* To the nearest integer, ties away from 0. */
MUSTER_MATH float muster_round(float x)
{
    float a = muster_fabs(x), y = (a + 0x1p23f) - 0x1p23f;
    y = a - y == 0.5f ? y + 1.0f : y;
    y = muster_math_signed(a < 0x1p23f ? y : a, x);
    return x == x ? y : muster_bits_float(MUSTER_NAN_BITS);
}

MUSTER_MATH float muster_hypot(float x, float y)
{
    double a = (double)x * (double)x, b = (double)y * (double)y, sum = a + b;
    double root = muster_sqrt64(sum), square = root * root;
    double left = ((sum - square) - muster_math_lost_product(root, root, square)) +
                  muster_math_lost(a, b, sum);
    float result = muster_math_round(root, left);
    int is_infinite = muster_math_magnitude(x) == MUSTER_INFINITY_BITS ||
                      muster_math_magnitude(y) == MUSTER_INFINITY_BITS;
    return is_infinite ? muster_bits_float(MUSTER_INFINITY_BITS) : result;
}

/* The significand of |x| as an integer, and its exponent: at least 1. */
MUSTER_MATH uint32_t muster_math_significand(uint32_t bits)
{
    return bits >> 23 ? (bits & 0x7fffffu) | 0x800000u : bits;
}

/* Exact: a division of integers, 40 bits of the quotient at a time. */
MUSTER_MATH float muster_fmod(float x, float y)
{
    uint32_t a = muster_math_magnitude(x), b = muster_math_magnitude(y);
    int is_wrong = a >= MUSTER_INFINITY_BITS || b > MUSTER_INFINITY_BITS || b == 0u;
    uint32_t divisor = is_wrong ? 1u : muster_math_significand(b);
    uint32_t from = a >> 23 ? a >> 23 : 1u, to = b >> 23 ? b >> 23 : 1u;
    uint64_t rest = muster_math_significand(a);
    if (a >= b && !is_wrong) {
        uint32_t steps = from - to;
        rest %= divisor;
        while (steps > 0u) {
            uint32_t now = steps < 40u ? steps : 40u;
            rest = (rest << now) % divisor;
            steps -= now;
        }
        from = to;
    }
    /* rest * 2^(from - 150) is a float: in double nothing is lost. */
    double value =
        (double)(int32_t)(uint32_t)rest * muster_bits_double((uint64_t)(1023u - 150u + from) << 52);
    float result = muster_math_signed((float)value, x);
    return is_wrong ? muster_bits_float(MUSTER_NAN_BITS) : result;
}

#ifdef MUSTER_NEEDS_ATAN2
MUSTER_MATH float muster_atan2(float y, float x)
{
    double a = (double)muster_fabs(y), b = (double)muster_fabs(x);
    int is_steep = a > b;
    double above = is_steep ? b : a, below = is_steep ? a : b;
    /* Infinity over infinity is 1 here; 0 over 0 is 0. */
    above = below > 0x1p200 ? (above > 0x1p200 ? 1.0 : 0.0) : above;
    below = below > 0x1p200 || !(below > 0.0) ? 1.0 : below;
    /* atan(above / below) = atan(row / 64) + atan(n / d); n and d are exact. */
    double shifted = above / below * 64.0 + MUSTER_SHIFT, c = (shifted - MUSTER_SHIFT) * 0.015625;
    /* At most 64, whatever a NaN has there; without ?:, as above. */
    int32_t past = (int32_t)((uint32_t)muster_double_bits(shifted) & 127u) - 64;
    int32_t row = 64 + (past & (past >> 31));
    double n = above - c * below, d = below + c * above, inverse = 1.0 / d;
    double t = n * inverse, product = t * d;
    double t_low = ((n - product) - muster_math_lost_product(t, d, product)) * inverse;
    double z = t * t, p = -1.0 / 11.0;
    p = p * z + 1.0 / 9.0;
    p = p * z - 1.0 / 7.0;
    p = p * z + 1.0 / 5.0;
    p = p * z - 1.0 / 3.0;
    double base = muster_atan2_0[row], high = base + t;
    double low = muster_math_lost_ordered(base, t, high) +
                 (((t_low - t_low * z) + t * (z * p)) + muster_atan2_1[row]);
    double sum = high + low;
    low = muster_math_lost_ordered(high, low, sum);
    high = is_steep ? MUSTER_PI_2 - sum : sum;
    low = is_steep ? muster_math_lost_ordered(MUSTER_PI_2, -sum, high) + (MUSTER_PI_2_LOW - low)
                   : low;
    sum = high + low;
    low = muster_math_lost_ordered(high, low, sum);
    int is_left = muster_float_bits(x) >> 31;
    high = is_left ? 2.0 * MUSTER_PI_2 - sum : sum;
    low = is_left ? muster_math_lost_ordered(2.0 * MUSTER_PI_2, -sum, high) +
                        (2.0 * MUSTER_PI_2_LOW - low)
                  : low;
    sum = high + low;
    low = muster_math_lost_ordered(high, low, sum);
    float result = muster_math_signed(muster_math_round(sum, low), y);
    return x == x && y == y ? result : muster_bits_float(MUSTER_NAN_BITS);
}
#endif

#ifdef MUSTER_NEEDS_POW
/* log(a) for a > 0 that is a float, as high and low. */
#define MUSTER_MATH_POW_LOG(a, high, low)                                                          \
    uint64_t muster_biased =                                                                       \
        muster_double_bits(a) - 0x3fe6a00000000000u + ((uint64_t)2048u << 52);                     \
    double muster_n = muster_bits_double(0x4330000000000000u | (muster_biased >> 52)) -            \
                      (4503599627370496.0 + 2048.0);                                               \
    double muster_m =                                                                              \
        muster_bits_double((muster_biased & 0xfffffffffffffu) + 0x3fe6a00000000000u);              \
    int32_t muster_row = (int32_t)((muster_double_bits(muster_m) >> 45) & 127u);                   \
    /* 25 bits; its square and its cube in two parts are exact. */                                 \
    double muster_r = muster_m * muster_pow_log_0[muster_row] - 1.0;                               \
    double muster_square = muster_r * muster_r;                                                    \
    double muster_square_1 = muster_math_head(muster_square);                                      \
    double muster_cube = muster_square_1 * muster_r;                                               \
    double muster_cube_low = (muster_square - muster_square_1) * muster_r;                         \
    double muster_cube_1 = muster_math_head(muster_cube);                                          \
    double muster_third = muster_cube_1 * MUSTER_THIRD_1;                                          \
    double muster_third_low = muster_cube_1 * MUSTER_THIRD_2 +                                     \
                              ((muster_cube - muster_cube_1) + muster_cube_low) * (1.0 / 3.0);     \
    double muster_start = muster_n * MUSTER_LN2_1 + muster_pow_log_1[muster_row];                  \
    double muster_one = muster_start + muster_r;                                                   \
    double muster_two = muster_one - 0.5 * muster_square;                                          \
    double muster_three = muster_two + muster_third;                                               \
    double muster_rest = muster_math_lost(muster_start, muster_r, muster_one) +                    \
                         muster_math_lost(muster_one, -0.5 * muster_square, muster_two) +          \
                         muster_math_lost(muster_two, muster_third, muster_three) +                \
                         muster_math_pow_log_rest(muster_r, muster_square, muster_third_low) +     \
                         muster_pow_log_2[muster_row] +                                            \
                         (muster_n * MUSTER_LN2_2 + muster_n * MUSTER_LN2_3);                      \
    double high = muster_three + muster_rest;                                                      \
    double low = muster_math_lost_ordered(muster_three, muster_rest, high)

MUSTER_MATH double muster_math_pow_log_rest(double r, double square, double third_low)
{
    double p = 1.0 / 11.0;
    p = p * r - 1.0 / 10.0;
    p = p * r + 1.0 / 9.0;
    p = p * r - 1.0 / 8.0;
    p = p * r + 1.0 / 7.0;
    p = p * r - 1.0 / 6.0;
    p = p * r + 1.0 / 5.0;
    p = p * r - 1.0 / 4.0;
    return square * square * p + third_low;
}

/* e^(t + t_low), rounded to a float; is_exact: results halfway between floats are possible. */
MUSTER_MATH float muster_math_pow_exp(double t, double t_low, int is_exact)
{
    t_low = t > -110.0 && t < 90.0 ? t_low : 0.0;
    t = muster_math_clamp(t, -110.0, 90.0);
    double shifted = t * (64.0 * MUSTER_LOG2_E) + MUSTER_SHIFT;
    double n = (shifted - MUSTER_SHIFT) * 0.015625;
    int32_t row = (int32_t)(muster_double_bits(shifted) & 63u);
    double scale = muster_bits_double((((muster_double_bits(shifted) + 65536u) >> 6) - 1u) << 52);
    double first = t - n * MUSTER_LN2_1, second = n * MUSTER_LN2_2, third = first - second;
    double left = muster_math_lost(first, -second, third) + (t_low - n * MUSTER_LN2_3);
    double r = third + left, r_low = muster_math_lost(third, left, r);
    double r1 = muster_math_head(r), r2 = (r - r1) + r_low;
    double p = 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    double half_square = 0.5 * r1 * r1, e = r1 + half_square;
    double e_low = muster_math_lost_ordered(r1, half_square, e) +
                   (r2 + (r2 * (r1 + 0.5 * r2) + r * r * r * p));
    double e1 = muster_math_head(e), e2 = (e - e1) + e_low;
    double base = muster_pow_exp_0[row], base_low = muster_pow_exp_1[row];
    double product = base * e1, sum = base + product;
    double rest = muster_math_lost_ordered(base, product, sum) +
                  (base_low + (base * e2 + base_low * (e1 + e2)));
    double high = sum + rest, low = muster_math_lost_ordered(sum, rest, high);
    low = is_exact && (low < 0.0 ? -low : low) < high * 0x1p-66 ? 0.0 : low;
    return muster_math_round(high * scale, low * scale);
}

MUSTER_MATH float muster_pow(float x, float y)
{
    double a = (double)muster_fabs(x), b = (double)y;
    uint32_t infinity = MUSTER_INFINITY_BITS, is_negative = muster_float_bits(x) >> 31;
    b = muster_math_clamp(b, -0x1p129, 0x1p129);
    /* Floats from 2^24 on are even. */
    double whole = muster_math_clamp(b, -0x1p26, 0x1p26), shifted = whole + MUSTER_SHIFT;
    uint32_t is_whole = shifted - MUSTER_SHIFT == whole;
    uint32_t is_odd = is_whole & (uint32_t)muster_double_bits(shifted) & 1u;
    double eighths = 8.0 * whole, eighths_shifted = eighths + MUSTER_SHIFT;
    int is_exact = eighths_shifted - MUSTER_SHIFT == eighths && b > 0.0 && b < 16.0;
    MUSTER_MATH_POW_LOG(a, high, low);
    double high_1 = muster_math_head(high), p1 = high_1 * b, p2 = (high - high_1) * b, t = p1 + p2;
    /* Powers of 2^e too: 2^-150 is halfway between 0 and the least float. */
    is_exact |= muster_m == 1.0;
    float result = muster_math_pow_exp(t, muster_math_lost_ordered(p1, p2, t) + low * b, is_exact);
    result = a > 0.0 ? result : muster_bits_float(b < 0.0 ? infinity : 0u);
    result = a > 0x1p200 ? muster_bits_float(b < 0.0 ? 0u : infinity) : result;
    result = is_negative & is_odd ? -result : result;
    uint32_t is_nan =
        (is_negative & (a > 0.0) & (a < 0x1p200) & (is_whole ^ 1u)) | (x != x) | (y != y);
    result = is_nan ? muster_bits_float(MUSTER_NAN_BITS) : result;
    return y == 0.0f || x == 1.0f ? 1.0f : result;
}
#endif

#endif
