/*
 * Threads, locks and parking. Waiting is always by parking; time-outs are on the monotonic clock.
 */
#ifndef PLATFORM_THREAD_H
#define PLATFORM_THREAD_H

#include <muster/status.h>
#include <pthread.h>
#include <stdbool.h>

struct platform_mutex {
    pthread_mutex_t mutex;
};

struct platform_condition {
    pthread_cond_t condition;
};

/* For what is done once in a process. */
struct platform_once {
    pthread_once_t once;
};
/* clang-format off */
#define PLATFORM_ONCE_INIT { PTHREAD_ONCE_INIT }
/* clang-format on */

/* The cores a thread may run on, as a bit set. */
#define PLATFORM_CORES_MAX 4096
struct platform_cores {
    uint64_t bits[PLATFORM_CORES_MAX / 64];
};

/* Stays where it is from start to join or detach. */
struct platform_thread {
    pthread_t thread;
    void (*run)(void *);
    void *argument;
    bool started;
};

uint64_t platform_clock_ns(void);
/* The same to within some milliseconds, and much cheaper. */
uint64_t platform_clock_coarse_ns(void);

/* `now` + `timeout_ns`, UINT64_MAX if that is for ever. */
uint64_t platform_deadline_ns(uint64_t timeout_ns);

/* The first caller runs it; all others wait until it has. */
void platform_once_run(struct platform_once *once, void (*function)(void));

muster_status platform_mutex_init(struct platform_mutex *mutex, struct muster_error *err);
/*
 * The same for a lock that is only ever held for a moment and that many threads may want at once: they
 * try for a moment before they sleep, so that they do not have to be woken one after the other.
 */
muster_status platform_mutex_init_brief(struct platform_mutex *mutex, struct muster_error *err);
void platform_mutex_deinit(struct platform_mutex *mutex);
void platform_mutex_lock(struct platform_mutex *mutex);
/* False if somebody has it. */
bool platform_mutex_try_lock(struct platform_mutex *mutex);
void platform_mutex_unlock(struct platform_mutex *mutex);

muster_status platform_condition_init(struct platform_condition *condition,
                                      struct muster_error *err);
void platform_condition_deinit(struct platform_condition *condition);
void platform_condition_wake_one(struct platform_condition *condition);
void platform_condition_wake_all(struct platform_condition *condition);
/*
 * Parks until woken (or for no reason) or until the clock shows `deadline_ns`; false if that has
 * passed.
 */
bool platform_condition_wait(struct platform_condition *condition, struct platform_mutex *mutex,
                             uint64_t deadline_ns);

/*
 * Starts a thread that takes no signals, so that the embedding program's handlers run on its own
 * threads. `cores` may be NULL; a core set the system refuses is ignored, since where a thread runs
 * is a matter of speed only.
 */
muster_status platform_thread_start(struct platform_thread *thread, void (*run)(void *),
                                    void *argument, const char *name,
                                    const struct platform_cores *cores, struct muster_error *err);
/* What the calling thread is called from now on, in the system's lists. */
void platform_thread_rename(const char *name);
/*
 * The calling thread feeds devices: it sleeps most of the time and should run at once when it is woken,
 * also where kernels keep all cores busy. Short slices, which Linux has since 6.12; elsewhere nothing.
 */
void platform_thread_hurry(void);
/*
 * Timed waits of the calling thread end when they should, and not up to 50 us later as the system likes it
 * (Linux's timer slack). Gives what to pass to platform_thread_blunt; 0 where there is no such thing.
 */
uint64_t platform_thread_sharpen(void);
void platform_thread_blunt(uint64_t before);
/* Lets others run first. */
void platform_thread_yield(void);
/* Both do nothing if the thread was never started. */
void platform_thread_join(struct platform_thread *thread);
void platform_thread_detach(struct platform_thread *thread);

#endif
