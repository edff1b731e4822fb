/*
 * How densely a program of this folder tries its numbers: each, where that takes seconds; every few
 * under a sanitizer, where it would take minutes. MUSTER_TEST_STRIDE says otherwise; another seed
 * begins elsewhere, so that runs with several seeds reach them all.
 */
#ifndef FAULT_SWEEP_H
#define FAULT_SWEEP_H

#include "harness.h"

#include <stdlib.h>

#define SWEEP_STRIDE(with_asan, with_tsan) TEST_BY_SANITIZER(1, with_asan, with_tsan)

static inline uint64_t sweep_stride(uint64_t unless_told)
{
    const char *told = getenv("MUSTER_TEST_STRIDE");
    uint64_t stride = told ? strtoull(told, NULL, 10) : unless_told;
    return stride > 0 ? stride : 1;
}

static inline uint64_t sweep_first(uint64_t stride)
{
    return 1 + test_seed() % stride;
}

#endif
