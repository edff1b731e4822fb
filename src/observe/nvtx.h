/*
 * Ranges for profilers that understand NVTX, such as Nsight Systems. A profiler names a library in
 * NVTX_INJECTION64_PATH; without that nothing is loaded, and each place below reads one flag.
 *
 * The profiler's code is called with no lock of Muster's held. Ranges are in the domain "muster", and their
 * payload is a number of items. A range may begin on one thread and end on another; what is pushed is popped
 * by the same thread.
 */
#ifndef OBSERVE_NVTX_H
#define OBSERVE_NVTX_H

#include <muster/status.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum nvtx_category { NVTX_JOBS = 1, NVTX_UNITS, NVTX_TASKS, NVTX_DELIVERIES, NVTX_CATEGORY_END };

extern _Atomic bool nvtx_has_profiler;

/* Relaxed: it is set once, before anything is begun, and what it guards was written before that. */
static inline bool nvtx_is_on(void)
{
    return atomic_load_explicit(&nvtx_has_profiler, memory_order_relaxed);
}

/*
 * Loads what the profiler has named, once for the process; later calls do nothing. MUSTER_E_NOT_FOUND: it
 * could not be loaded, or does not want to; told once.
 */
muster_status nvtx_start(struct muster_error *err);

/* A number for nvtx_end; 0 if there is no profiler. */
uint64_t nvtx_begin(enum nvtx_category category, uint64_t items, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* 0 is allowed. */
void nvtx_end(uint64_t range);

void nvtx_push(enum nvtx_category category, uint64_t items, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void nvtx_pop(void);

#endif
