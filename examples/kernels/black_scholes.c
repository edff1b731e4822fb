/*
 * What European options are worth by Black and Scholes: a call and a put for each item. The prelude's
 * logarithm, exponential and error function make it the same number on every device.
 */
#include <muster_kernel.h>

/* The share of a normal distribution below x. */
static float normal_below(float x)
{
    return 0.5f + 0.5f * muster_erf(x * 0.70710678f);
}

MUSTER_KERNEL void black_scholes(uint64_t i, float rate, float volatility,
                                 MUSTER_GLOBAL const float *price,
                                 MUSTER_GLOBAL const float *strike,
                                 MUSTER_GLOBAL const float *years, MUSTER_GLOBAL float *call,
                                 MUSTER_GLOBAL float *put)
{
    float spread = volatility * muster_sqrt(years[i]);
    float d1 =
        (muster_log(price[i] / strike[i]) + (rate + 0.5f * volatility * volatility) * years[i]) /
        spread;
    float below1 = normal_below(d1), below2 = normal_below(d1 - spread);
    float discounted = strike[i] * muster_exp(-rate * years[i]);
    call[i] = price[i] * below1 - discounted * below2;
    put[i] = discounted * (1.0f - below2) - price[i] * (1.0f - below1);
}
