/*
 * Assertions on Muster's own invariants. They never stop the process: the embedder's hook decides,
 * and without one the first failure is remembered and reported by muster_close. Caller mistakes are
 * statuses, never these.
 */
#ifndef BASE_INVARIANT_H
#define BASE_INVARIANT_H

#include <muster/status.h>
#include <stdbool.h>

/* Active in every build but the measured one, which defines MUSTER_NO_INVARIANTS. */
#ifdef MUSTER_NO_INVARIANTS
#define INVARIANT(condition) ((void)0)
#else
#define INVARIANT(condition)                                                                       \
    ((condition) ? (void)0 : invariant_broken(__FILE__, __LINE__, #condition))
#endif

void invariant_broken(const char *file, int line, const char *condition);

/* How many were broken in this process, and where the first was ("" and 0 if none). */
uint64_t invariant_count(const char **file, int *line);

#endif
