/*
 * What jobs have learned, kept by the runtime for the next job of the same kind: the same kernel or
 * pipeline, about as many items, the same devices. Of several devices it is who should take part
 * (core/take_part.h), of one how fast it was.
 */
#ifndef RUN_LESSONS_H
#define RUN_LESSONS_H

#include "run/job/job.h"

/* This many kinds of jobs are remembered; of more, those that ran last. */
#define LESSONS_MAX 64u

/*
 * The job would run on these devices: sets its kind, unless it may not learn. The devices that are set
 * aside, by bits: others were faster without them, or are to be tried without them, and the job is laid
 * out for the others alone. Only where nobody is missed if a device is lost half way: the others work on
 * host memory, which is not lost, or those set aside are slices of a GPU that others are slices of too.
 * A job that is laid out for more devices would be slower. With the lock.
 */
uint64_t lessons_set_kind_locked(struct muster_job *job, struct run_device *const *devices,
                                 uint32_t count);
/* Makes room for lessons, if the job may learn any; without memory there are none. No lock is held. */
void lessons_make_room(const struct muster_job *job);
/*
 * The lesson for the job, as its core's options want it: NULL if there is none, or if the job's devices
 * are not all known yet. If some are set aside, that of the others, or NULL if all of these take part.
 * Stays as it is as long as the lock is held.
 */
const struct take_part_lesson *lessons_find_locked(const struct muster_job *job);
/* How many items a nanosecond an earlier job of its kind did, on the one device it has; 0: not known. With the lock. */
double lessons_rate_locked(const struct muster_job *job);
/* How many pages the process has got so far, and jobs have pinned: of a job, those until its end less those at its start. */
uint64_t lessons_page_faults(struct muster *m);
/* The job is over: what it has learned is kept, if there is room. With the lock. */
void lessons_keep_locked(const struct muster_job *job);
void lessons_destroy(struct muster *m);

#endif
