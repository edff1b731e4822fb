/*
 * How densely a program of this folder tries its numbers: each, where that takes seconds; every few
 * under a sanitizer, where it would take minutes. MUSTER_TEST_STRIDE says otherwise; another seed
 * begins elsewhere, so that runs with several seeds reach them all.
 */
#ifndef FAULT_SWEEP_H
#define FAULT_SWEEP_H

#include "harness.h"

#include <stdlib.h>

#if defined(__has_feature)
#define SWEEP_HAS(feature) __has_feature(feature)
#else
#define SWEEP_HAS(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || SWEEP_HAS(thread_sanitizer)
#define SWEEP_STRIDE(with_asan, with_tsan) (with_tsan)
#elif defined(__SANITIZE_ADDRESS__) || SWEEP_HAS(address_sanitizer)
#define SWEEP_STRIDE(with_asan, with_tsan) (with_asan)
#else
#define SWEEP_STRIDE(with_asan, with_tsan) 1
#endif

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
