/*
 * An attempt: one run of a job's unit, or of a task, on a device. What is made of how giving it went, how
 * its streams came to the end and what the kernel returned; and the attempt in its device's figures, from
 * when it is given to the device to when it has ended.
 */
#ifndef RUN_ATTEMPT_H
#define RUN_ATTEMPT_H

#include "core/job.h"
#include "run/device/stream.h"

struct attempt {
    muster_status result; /* what the kernel returned; written by the backend, and so first */
    muster_status given;  /* how giving it to the device went */
    muster_status ended;  /* how its streams came to the end of it */
    bool is_refused;      /* `given` is what the user's host stage returned */
    bool is_broken_off;   /* it was stopped, since nobody wants it any more */
    bool is_stopped;      /* not all of it was done: where nothing went wrong it was told to stop */
    bool is_overdue;      /* it was given up, and counts in its lane's watch until it has ended */
    bool is_bystander;    /* its device was started again, and another attempt is to blame */
    bool is_counted;      /* in the device's figures, with this many items */
    uint64_t items;
    struct throughput_mark mark;
};

/* User code says MUSTER_E_FAILED for bad luck, and anything else for a refusal that will stand. */
static inline bool attempt_is_bad_luck(muster_status result)
{
    return result == MUSTER_E_FAILED || result == MUSTER_E_STREAM_FAILED;
}

/*
 * A kernel that ended the process it ran in, or was ended with it. Its stream has failed because of that, which says
 * nothing more.
 */
static inline bool attempt_is_blamed(const struct attempt *attempt)
{
    return attempt->ended == MUSTER_E_STREAM_FAILED
               ? attempt->result == MUSTER_E_CRASHED || attempt->result == MUSTER_E_TIMEOUT
               : attempt->result == MUSTER_E_CRASHED;
}

/* What the core is told. */
enum job_end attempt_end(const struct attempt *attempt);
/* What is said of it: MUSTER_OK, or the failure that counts. */
muster_status attempt_status(const struct attempt *attempt);

/* The next choice of a device sees it at once. With m->lock. */
void attempt_count_locked(struct attempt *attempt, struct run_device *device, uint64_t items,
                          uint64_t now_ns);
/*
 * Nothing, if it is not counted. After the last of several the caller brings the device's view up to date
 * (device_view_locked). With m->lock.
 */
void attempt_uncount_locked(struct attempt *attempt, struct run_device *device, enum load_end how,
                            uint64_t now_ns);

#endif
