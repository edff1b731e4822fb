#include "model/power.h"

#include <stdint.h>
#include <string.h>

#define LEAST_LOG2 (-900.0)

/* The exponent, and a series for the rest. */
double power_log2(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & ((UINT64_C(1) << 52) - 1)) | (UINT64_C(1023) << 52);
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m /= 2;
        exponent++;
    }
    /* ln m = 2 (z + z^3/3 + z^5/5 + ...) with |z| < 0.172 */
    double z = (m - 1) / (m + 1), square = z * z, sum = 0;
    for (int k = 21; k >= 1; k -= 2)
        sum = sum * square + 1.0 / k;
    return exponent + 2 * z * sum * 1.4426950408889634;
}

double power_exp2(double x)
{
    int whole = (int)(x >= 0 ? x + 0.5 : x - 0.5);
    double rest = (x - whole) * 0.6931471805599453, sum = 1;
    for (int k = 18; k >= 1; k--)
        sum = 1 + sum * rest / k;
    uint64_t bits = (uint64_t)(whole + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

double power_of(double base, double exponent)
{
    double x = exponent * power_log2(base);
    return power_exp2(x > LEAST_LOG2 ? x : LEAST_LOG2);
}
