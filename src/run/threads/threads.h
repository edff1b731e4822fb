/*
 * Threads that the runtime's other rooms share: what is known of one that may be inside a driver or
 * user code, workers for host steps, and helpers for large copies.
 */
#ifndef RUN_THREADS_H
#define RUN_THREADS_H

#include "run/threads/crew.h"

enum thread_state { THREAD_NONE, THREAD_INSIDE, THREAD_LEFT };

/*
 * A thread of a job. `is_away`: the thread is inside a driver call or user code, which may never
 * return, so the job's end waits for it at most `close_ns`. After that `is_given_up` is set: the
 * job ends without the thread, and everything that the thread may touch stays until it has left.
 */
struct job_thread {
    struct crew_thread *crew; /* borrowed of the runtime's, from start to leaving */
    enum thread_state state;  /* with the lock */
    /* Relaxed: what a thread did is published by the lock, which it takes when it is back. */
    _Atomic bool is_away, is_given_up;
};

/* The threads of one job. With the runtime's lock. */
struct thread_group {
    struct muster *m;
    uint32_t threads; /* that have not left, whether given up or not */
    void (*left_locked)(struct thread_group *group); /* one has; called with the lock */
};

/* Around what may never return. */
static inline void thread_goes_away(struct job_thread *thread)
{
    atomic_store_explicit(&thread->is_away, true, memory_order_relaxed);
}

static inline void thread_is_back(struct job_thread *thread)
{
    atomic_store_explicit(&thread->is_away, false, memory_order_relaxed);
}

/* The job went on without the thread: it touches nothing of the caller's any more. */
static inline bool thread_is_given_up(const struct job_thread *thread)
{
    return atomic_load_explicit(&thread->is_given_up, memory_order_relaxed);
}

/* workers.c */

/* Starts a thread of the group, which then counts among its `threads`. */
muster_status group_start(struct thread_group *group, struct job_thread *thread,
                          void (*run)(void *), void *argument, const char *name,
                          struct muster_error *err);
/* The last thing that a thread of the group does with the lock. */
void group_leave_locked(struct thread_group *group, struct job_thread *thread);

/* Something for a worker to do. */
struct work {
    void (*run)(void *user);
    void *user;
    struct work *next;
};
struct workers;
/* They count among the group's threads. */
muster_status workers_start(struct thread_group *group, uint32_t count, struct workers **out,
                            struct muster_error *err);
/* Takes what has not begun too. Any thread. */
void workers_give(struct workers *workers, struct work *work);
/* They leave when all that was given has run. Called with or without the lock. NULL is allowed. */
void workers_dismiss(struct workers *workers);
/* The runtime closes without those that are away in user code; nothing more is begun. With the lock. */
void workers_forget(struct workers *workers);
/* After all have left. NULL is allowed. */
void workers_free(struct workers *workers);

/* copiers.c */
/* memcpy, shared with threads that help where it is much. Blocks until all is moved. Any thread. */
void copiers_copy(struct muster *m, void *to, const void *from, size_t bytes);
void copiers_destroy(struct muster *m);

#endif
