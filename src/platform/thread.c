#include "platform/thread.h"

#include "base/invariant.h"

#include <errno.h>
#include <muster/backend.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t platform_clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t platform_clock_coarse_ns(void)
{
    return read_clock(CLOCK_MONOTONIC_COARSE);
}

uint64_t platform_deadline_ns(uint64_t timeout_ns)
{
    uint64_t deadline_ns;
    if (timeout_ns == UINT64_MAX ||
        __builtin_add_overflow(platform_clock_ns(), timeout_ns, &deadline_ns))
        return UINT64_MAX;
    return deadline_ns;
}

void platform_once_run(struct platform_once *once, void (*function)(void))
{
    pthread_once(&once->once, function);
}

static muster_status refused(struct muster_error *err, const char *what, int code)
{
    return muster_error_fill(
        err, code == ENOMEM || code == EAGAIN ? MUSTER_E_NO_MEMORY : MUSTER_E_DRIVER, code,
        code == EAGAIN ? "raise the limit on threads (ulimit -u, or the container's)" : NULL,
        "the system refused to make a %s: %s", what, strerror(code));
}

muster_status platform_mutex_init(struct platform_mutex *mutex, struct muster_error *err)
{
    int code = pthread_mutex_init(&mutex->mutex, NULL);
    return code ? refused(err, "lock", code) : MUSTER_OK;
}

muster_status platform_mutex_init_brief(struct platform_mutex *mutex, struct muster_error *err)
{
    pthread_mutexattr_t attributes;
    int code = pthread_mutexattr_init(&attributes);
    if (code)
        return refused(err, "lock", code);
    code = pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
    if (code == 0)
        code = pthread_mutex_init(&mutex->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return code ? refused(err, "lock", code) : MUSTER_OK;
}

void platform_mutex_deinit(struct platform_mutex *mutex)
{
    int code = pthread_mutex_destroy(&mutex->mutex);
    INVARIANT(code == 0);
    (void)code;
}

void platform_mutex_lock(struct platform_mutex *mutex)
{
    int code = pthread_mutex_lock(&mutex->mutex);
    INVARIANT(code == 0);
    (void)code;
}

bool platform_mutex_try_lock(struct platform_mutex *mutex)
{
    int code = pthread_mutex_trylock(&mutex->mutex);
    INVARIANT(code == 0 || code == EBUSY);
    return code == 0;
}

void platform_mutex_unlock(struct platform_mutex *mutex)
{
    int code = pthread_mutex_unlock(&mutex->mutex);
    INVARIANT(code == 0);
    (void)code;
}

muster_status platform_condition_init(struct platform_condition *condition,
                                      struct muster_error *err)
{
    pthread_condattr_t attributes;
    int code = pthread_condattr_init(&attributes);
    if (code)
        return refused(err, "condition", code);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    code = pthread_cond_init(&condition->condition, &attributes);
    pthread_condattr_destroy(&attributes);
    return code ? refused(err, "condition", code) : MUSTER_OK;
}

void platform_condition_deinit(struct platform_condition *condition)
{
    pthread_cond_destroy(&condition->condition);
}

void platform_condition_wake_one(struct platform_condition *condition)
{
    pthread_cond_signal(&condition->condition);
}

void platform_condition_wake_all(struct platform_condition *condition)
{
    pthread_cond_broadcast(&condition->condition);
}

bool platform_condition_wait(struct platform_condition *condition, struct platform_mutex *mutex,
                             uint64_t deadline_ns)
{
    if (deadline_ns == UINT64_MAX) {
        pthread_cond_wait(&condition->condition, &mutex->mutex);
        return true;
    }
    struct timespec until = { .tv_sec = (time_t)(deadline_ns / 1000000000u),
                              .tv_nsec = (long)(deadline_ns % 1000000000u) };
    return pthread_cond_timedwait(&condition->condition, &mutex->mutex, &until) != ETIMEDOUT;
}

/*
 * A driver may give the thread an alternate signal stack of its own: LLVM does, in PoCL. The thread ends
 * with the one that it began with, because AddressSanitizer unmaps whatever is there then.
 */
static void *run_thread(void *argument)
{
    struct platform_thread *thread = argument;
    stack_t own;
    bool is_known = sigaltstack(NULL, &own) == 0;
    thread->run(thread->argument);
    if (is_known)
        sigaltstack(&own, NULL);
    return NULL;
}

static void bind_thread(pthread_t thread, const struct platform_cores *cores)
{
    cpu_set_t *set = CPU_ALLOC(PLATFORM_CORES_MAX);
    if (!set)
        return;
    size_t size = CPU_ALLOC_SIZE(PLATFORM_CORES_MAX);
    CPU_ZERO_S(size, set);
    for (unsigned core = 0; core < PLATFORM_CORES_MAX; core++)
        if (cores->bits[core / 64] >> (core % 64) & 1)
            CPU_SET_S(core, size, set);
    pthread_setaffinity_np(thread, size, set);
    CPU_FREE(set);
}

/*
 * A thread's stack is what the process may use (ulimit -s), which can be less than a driver or a
 * user's function takes: then it is this.
 */
#define STACK_BYTES_MIN ((size_t)1 << 20)

static int create_thread(struct platform_thread *thread)
{
    pthread_attr_t attributes;
    size_t bytes = 0;
    int code = pthread_attr_init(&attributes);
    if (code)
        return code;
    if (pthread_attr_getstacksize(&attributes, &bytes) == 0 && bytes < STACK_BYTES_MIN)
        code = pthread_attr_setstacksize(&attributes, STACK_BYTES_MIN);
    if (code == 0)
        code = pthread_create(&thread->thread, &attributes, run_thread, thread);
    pthread_attr_destroy(&attributes);
    return code;
}

static void name_thread(pthread_t thread, const char *name)
{
    char short_name[16]; /* the kernel's limit */
    snprintf(short_name, sizeof short_name, "%s", name);
    pthread_setname_np(thread, short_name);
}

/* As in linux/sched/types.h, which libc's own headers do not get on with. */
struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

/* The least that the system allows. */
#define SLICE_NS 100000u

void platform_thread_hurry(void)
{
    struct scheduling now;
    if (syscall(SYS_sched_getattr, 0, &now, sizeof now, 0) != 0 || now.policy != SCHED_OTHER)
        return;
    now.size = sizeof now;
    now.runtime_ns = SLICE_NS;
    /* Systems that know no slices ignore it or refuse it: the thread goes on as it was. */
    syscall(SYS_sched_setattr, 0, &now, 0);
}

void platform_thread_rename(const char *name)
{
    name_thread(pthread_self(), name);
}

muster_status platform_thread_start(struct platform_thread *thread, void (*run)(void *),
                                    void *argument, const char *name,
                                    const struct platform_cores *cores, struct muster_error *err)
{
    INVARIANT(!thread->started);
    thread->run = run;
    thread->argument = argument;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = create_thread(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code)
        return refused(err, "thread", code);
    thread->started = true;
    name_thread(thread->thread, name);
    if (cores)
        bind_thread(thread->thread, cores);
    return MUSTER_OK;
}

void platform_thread_join(struct platform_thread *thread)
{
    if (!thread->started)
        return;
    pthread_join(thread->thread, NULL);
    thread->started = false;
}

void platform_thread_detach(struct platform_thread *thread)
{
    if (!thread->started)
        return;
    pthread_detach(thread->thread);
    thread->started = false;
}

uint64_t platform_thread_sharpen(void)
{
    int before = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    if (before <= 0 || prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0) != 0)
        return 0;
    return (uint64_t)before;
}

void platform_thread_blunt(uint64_t before)
{
    if (before > 0)
        prctl(PR_SET_TIMERSLACK, (unsigned long)before, 0, 0, 0);
}

void platform_thread_yield(void)
{
    sched_yield();
}
