#include "platform/fork.h"

#include "platform/thread.h"

#include <muster/backend.h>

_Atomic uint32_t platform_fork_count;

static struct platform_once watched = PLATFORM_ONCE_INIT;
static int refusal; /* what pthread_atfork said */

static void count_fork(void)
{
    atomic_fetch_add_explicit(&platform_fork_count, 1, memory_order_relaxed);
}

static void watch(void)
{
    refusal = pthread_atfork(NULL, NULL, count_fork);
}

muster_status platform_forks_watch(struct muster_error *err)
{
    platform_once_run(&watched, watch);
    return refusal == 0
               ? MUSTER_OK
               : muster_error_fill(err, MUSTER_E_NO_MEMORY, refusal, "free memory of the process",
                                   "no host memory for a handler of fork()");
}
