/*
 * A device's byte budget: reserve, then allocate, then free, then - when the device has finished
 * with it - reclaim. Allocated memory that nobody uses may be kept for the next who wants some. Every byte is in exactly one of these states, and together they never exceed
 * the limit. Pure; the owner locks.
 */
#ifndef CORE_BUDGET_H
#define CORE_BUDGET_H

#include <muster/status.h>

struct budget {
    uint64_t limit;
    uint64_t reserved;    /* promised, the driver has not been asked yet */
    uint64_t used;        /* allocated */
    uint64_t unreclaimed; /* freed, but work on it may still run */
    uint64_t kept;        /* allocated, but nobody's: it can be used again, or freed */
};

void budget_init(struct budget *budget, uint64_t limit);

/* Bytes not spoken for. */
uint64_t budget_free(const struct budget *budget);

/* The sum of several requests, UINT64_MAX if it does not fit. */
uint64_t budget_sum(const uint64_t *bytes, size_t count);

/*
 * MUSTER_OK, MUSTER_E_DEVICE_MEMORY (not now, or only if kept memory is freed) or MUSTER_E_TOO_LARGE
 * (never). Changes nothing.
 */
muster_status budget_check(const struct budget *budget, uint64_t bytes);

/* As budget_check, and takes the bytes if they fit. Undone by budget_cancel. */
muster_status budget_reserve(struct budget *budget, uint64_t bytes);
void budget_cancel(struct budget *budget, uint64_t bytes);

/* The driver gave what was reserved. */
void budget_allocated(struct budget *budget, uint64_t bytes);
void budget_freed(struct budget *budget, uint64_t bytes);
void budget_reclaimed(struct budget *budget, uint64_t bytes);
/* What was used is kept; what was kept is used again. */
void budget_kept(struct budget *budget, uint64_t bytes);
void budget_reused(struct budget *budget, uint64_t bytes);

#endif
