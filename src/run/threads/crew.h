/*
 * Threads of the runtime that run what they are given and then wait for more, since starting a
 * thread takes longer than a small job. A job's threads are taken from here: lanes, conductor,
 * source, workers. Guarded by the runtime's lock.
 *
 * User code and drivers may keep a thread for ever. Such a thread is simply not back: nobody waits
 * for it but crew_destroy, whose caller says whether it may.
 */
#ifndef RUN_THREADS_CREW_H
#define RUN_THREADS_CREW_H

#include "run/base/runtime.h"

/* A thread while it runs something; the crew's own. */
struct crew_thread;

/*
 * Runs `run` on a thread that waits, or on a new one. When `run` returns, the thread has no part in
 * what it ran any more and waits for more. `name` is borrowed for ever. `out`, which may be NULL, is
 * written before `run` begins, and NULL on failure.
 */
muster_status crew_run(struct muster *m, void (*run)(void *), void *argument, const char *name,
                       struct crew_thread **out, struct muster_error *err);
/*
 * The thread ends when `run` returns, and runs nothing else: it was given up once, and what kept it
 * may have left it in any state. Called within `run`.
 */
void crew_end_locked(struct crew_thread *thread);
/* How many wait. */
uint32_t crew_parked(struct muster *m);
/* Ends threads that wait. */
void crew_trim(struct muster *m);
/*
 * Ends all of them; nothing is run any more. `is_lost`: some may never come back. Those that have
 * not are left to themselves, and the runtime must stay, with its lock.
 */
void crew_destroy(struct muster *m, bool is_lost);

#endif
