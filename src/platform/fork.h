/*
 * Telling a process from the one that forked it, at no cost for those who never fork: the handler
 * that counts is run by fork() itself.
 */
#ifndef PLATFORM_FORK_H
#define PLATFORM_FORK_H

#include <muster/status.h>
#include <stdatomic.h>

/* Written by fork() in the child, before anything else runs there; relaxed: by its only thread. */
extern _Atomic uint32_t platform_fork_count;

/* Counts from now on; for the first caller, others have nothing to do. */
muster_status platform_forks_watch(struct muster_error *err);

/* Changes with each fork() between this process and the one that first watched. */
static inline uint32_t platform_forks(void)
{
    return atomic_load_explicit(&platform_fork_count, memory_order_relaxed);
}

#endif
