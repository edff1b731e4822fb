/*
 * How an attempt ended, of a job's unit or of a task: what is made of how giving it went, how its
 * stream came to the end, and what the kernel returned.
 */
#ifndef RUN_JUDGE_H
#define RUN_JUDGE_H

#include "core/job.h"

struct attempt_end {
    muster_status given;  /* how giving it to the device went */
    muster_status ended;  /* how its stream came to the end of it */
    muster_status result; /* what the kernel returned */
    bool is_refused;      /* `given` is what the user's host stage returned */
    bool is_broken_off;   /* it was stopped, since nobody wants it any more */
    bool is_stopped;      /* not all of it was done: where nothing went wrong it was told to stop */
};

/* User code says MUSTER_E_FAILED for bad luck, and anything else for a refusal that will stand. */
static inline bool judge_is_bad_luck(muster_status result)
{
    return result == MUSTER_E_FAILED || result == MUSTER_E_STREAM_FAILED;
}

/* What the core is told. */
enum job_end judge_end(const struct attempt_end *end);
/* What is said of it: MUSTER_OK, or the failure that counts. */
muster_status judge_status(const struct attempt_end *end);

#endif
