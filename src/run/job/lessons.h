/*
 * What jobs have learned of who should take part (core/take_part.h), kept by the runtime for the next job
 * of the same kind: the same kernel or pipeline, about as many items, the same devices.
 */
#ifndef RUN_LESSONS_H
#define RUN_LESSONS_H

#include "run/job/job.h"

/* So many kinds of jobs are remembered; of more, those that ran last. */
#define LESSONS_MAX 64u

/* Makes room for lessons, if the job may learn any; without memory there are none. No lock is held. */
void lessons_make_room(const struct muster_job *job);
/*
 * The lesson for the job, as its core's options want it: NULL if there is none, or if the job's devices
 * are not all known yet. Stays where it is until lessons_keep_locked. With the lock.
 */
const struct take_part_lesson *lessons_find_locked(const struct muster_job *job);
/* The job is over: what it has learned is kept, if there is room. With the lock. */
void lessons_keep_locked(const struct muster_job *job);
void lessons_destroy(struct muster *m);

#endif
