/*
 * Tells a child process from its parent. fork() itself runs the handler that counts, so a process
 * that never forks pays nothing.
 */
#ifndef PLATFORM_FORK_H
#define PLATFORM_FORK_H

#include <muster/status.h>
#include <stdatomic.h>

/* Written by the handler in the child, which has one thread then: relaxed is enough. */
extern _Atomic uint32_t platform_fork_count;

/* Installs the handler, once for the process; later calls do nothing. */
muster_status platform_forks_watch(struct muster_error *err);

/* How many forks lie between this process and the one that installed the handler. */
static inline uint32_t platform_forks(void)
{
    return atomic_load_explicit(&platform_fork_count, memory_order_relaxed);
}

#endif
