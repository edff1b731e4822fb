/*
 * All jobs and files of a runtime, for closing it.
 */
#ifndef RUN_JOBS_H
#define RUN_JOBS_H

#include "run/base/runtime.h"

/* job.c */
/* Threads of jobs that were away in a driver or in user code at the end, and have been detached. */
struct jobs_lost {
    uint32_t threads, in_user_code;
    struct muster_error
        what; /* names what jobs have waited for without success, threads or devices */
};
/* The runtime closes: cancels every job, also those that are started from here on. */
void jobs_cancel_all(struct muster *m);
/* Waits until every job is over, and leaves it to the thread that has started it. */
void jobs_await_all(struct muster *m);
/*
 * Destroys every job; no user code is within one, unless it was given up. What has not come back
 * within `close_ns` is left to what it does.
 */
void jobs_destroy_all(struct muster *m, struct jobs_lost *lost);
/* Frees destroyed jobs whose threads have all left. */
void jobs_free_left(struct muster *m);
/*
 * At the end, when no job has a thread any more and devices were drained: frees jobs whose devices
 * have come back after all, or `all`, when devices are gone.
 */
void jobs_free_last(struct muster *m, bool all);
/* How many jobs, also those that are over, have a thread that waits for devices or sets one up. */
uint32_t jobs_joining_locked(const struct muster *m);
/* Destroys jobs that their own callbacks destroyed, now that they are over. */
void jobs_destroy_unwanted(struct muster *m);

/* file.c */
/* Before the job's memory goes: waits for what files still write of it, and has them forget it. */
void files_leave_job(struct muster_job *job);
/* Nobody waits for the other end of a pipe any more. */
void files_cancel_all(struct muster *m);
void files_destroy_all(struct muster *m);

#endif
