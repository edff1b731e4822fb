/*
 * The proof's part for functions of double: random points against MPFR, the largest error in units in
 * the last place.
 */
#ifndef MATHS_PROVE_DOUBLE_H
#define MATHS_PROVE_DOUBLE_H

#include <stdbool.h>
#include <stdint.h>

/* NULL after the last. */
const char *prove_double_name(unsigned index);
/* Prints a line. False: an error above one unit, or a zero, infinity or NaN that is not the right one. */
bool prove_double(unsigned index, uint64_t points, uint64_t seed);

#endif
