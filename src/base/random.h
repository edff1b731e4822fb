/*
 * Seeded random numbers (xoshiro256** seeded by splitmix64): the same sequence from the same seed
 * on every machine.
 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t state[4];
};

void random_init(struct random *random, uint64_t seed);
uint64_t random_next(struct random *random);
/* Uniform in [0, bound), without bias; 0 if bound is 0. */
uint64_t random_below(struct random *random, uint64_t bound);
/* Uniform in [0, 1), 53 bits. */
double random_unit(struct random *random);

#endif
