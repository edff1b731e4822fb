/* The C library's memory, for simulations that are given no allocator. */
#ifndef SIMULATE_ALLOCATE_H
#define SIMULATE_ALLOCATE_H

#include <muster/runtime.h>

extern const struct muster_allocator simulate_allocator;

#endif
