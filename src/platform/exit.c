#include "platform/exit.h"

#include "platform/fork.h"
#include "platform/thread.h"

#include <stdlib.h>
#include <unistd.h>

static struct platform_once prepared = PLATFORM_ONCE_INIT;
static struct platform_mutex lock;
static struct platform_condition released;
static bool is_ready;
/* With the lock: how many threads, and platform_forks of the process whose threads they are. */
static uint32_t held, forks;
static _Thread_local bool holds;

static void wait_until_released(void)
{
    uint64_t until_ns = platform_deadline_ns(PLATFORM_EXIT_NS);
    if (holds)
        return;
    platform_mutex_lock(&lock);
    /* A child has none of its parent's threads. */
    while (held > 0 && forks == platform_forks() &&
           platform_condition_wait(&released, &lock, until_ns)) {}
    platform_mutex_unlock(&lock);
}

/* The C library's, as C++ compilers use it for thread_local; not in every one. */
/* NOLINTBEGIN(bugprone-reserved-identifier) */
extern int __cxa_thread_atexit_impl(void (*function)(void *), void *argument, void *object)
    __attribute__((weak));
extern void *__dso_handle;
/* NOLINTEND(bugprone-reserved-identifier) */

static void wait_first(void *argument)
{
    (void)argument;
    wait_until_released();
}

static void prepare(void)
{
    forks = platform_forks();
    if (platform_mutex_init(&lock, NULL) != MUSTER_OK)
        return;
    is_ready =
        platform_condition_init(&released, NULL) == MUSTER_OK && atexit(wait_until_released) == 0;
}

void platform_exit_watch(void)
{
    static _Thread_local bool is_watching;
    if (is_watching || gettid() != getpid() || !__cxa_thread_atexit_impl)
        return;
    platform_once_run(&prepared, prepare);
    is_watching = is_ready && __cxa_thread_atexit_impl(wait_first, NULL, &__dso_handle) == 0;
}

void platform_exit_hold(void)
{
    platform_once_run(&prepared, prepare);
    if (!is_ready)
        return;
    platform_mutex_lock(&lock);
    if (forks != platform_forks())
        held = 0;
    forks = platform_forks();
    held++;
    platform_mutex_unlock(&lock);
    holds = true;
}

void platform_exit_release(void)
{
    if (!holds)
        return;
    holds = false;
    platform_mutex_lock(&lock);
    held--;
    platform_condition_wake_all(&released);
    platform_mutex_unlock(&lock);
}
