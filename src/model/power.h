/*
 * Powers and logarithms that every machine computes alike: nothing but the basic operations of
 * arithmetic is used.
 */
#ifndef MODEL_POWER_H
#define MODEL_POWER_H

/* Base 2 logarithm of a normal number above 0. */
double power_log2(double x);
/* 2 to the power x, for |x| below 1000. */
double power_exp2(double x);
/* A normal number above 0 to any power that is not negative; what is below 2^-900 is that. */
double power_of(double base, double exponent);

#endif
