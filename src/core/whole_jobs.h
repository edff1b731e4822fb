/*
 * Whole jobs as trials, for jobs too short for a trial of their own, or whose own trials have left nobody
 * out: of several jobs of one kind one is run without a lane, and the time of an item with the lane and
 * without it decides (take_part.h).
 *
 * The second job of a kind is a trial. Any other must have been saved for: all jobs put by
 * WHOLE_JOBS_COST of their time, and a trial is made when that pays for what it is expected to cost.
 *
 * Pure: plain data, no clock. All zero is nothing learned.
 */
#ifndef CORE_WHOLE_JOBS_H
#define CORE_WHOLE_JOBS_H

#include <stdbool.h>
#include <stdint.h>

/* After the first of a kind, shorter jobs make no trials of their own; longer ones are never trials. */
#define WHOLE_JOBS_LEAST_NS 100e6
#define WHOLE_JOBS_MOST_NS 1e9
/* Of the time of all jobs, what trials may cost after the first one. */
#define WHOLE_JOBS_COST 0.01
#define WHOLE_JOBS_LANES_MAX 64
/* Of each side, the times of so many jobs are kept. */
#define WHOLE_JOBS_KEPT 4

enum { WHOLE_JOBS_WITHOUT, WHOLE_JOBS_WITH, WHOLE_JOBS_SIDES };

struct whole_jobs {
    uint64_t left_out; /* bit i: lane i is left out */
    uint64_t tried;    /* bit i: and that, or that it is not, was found by whole jobs */
    uint32_t trial;    /* 1 + the lane that is tried; 0: none */
    bool is_without;   /* the next job leaves the lane of the trial out */
    bool has_begun;    /* there was a trial: others must be saved for */
    /* Of the trial: the times of an item, the newest of each side at times_known % WHOLE_JOBS_KEPT. */
    double times_ns[WHOLE_JOBS_SIDES][WHOLE_JOBS_KEPT];
    uint32_t times_known[WHOLE_JOBS_SIDES];
    double saved_ns;
};

/* A job of the kind that has ended well. */
struct whole_job {
    double job_ns, items;
    uint32_t lane_count;
    double shares[WHOLE_JOBS_LANES_MAX]; /* of the items, by lane */
};

/* The lanes that the next job leaves out. */
uint64_t whole_jobs_left_out(const struct whole_jobs *jobs);

/*
 * The job, which left out what whole_jobs_left_out said, is over. A lane that a trial has left out for
 * good is returned as 1 + its index, with `gain`, by what part jobs are faster; 0: none.
 */
uint32_t whole_jobs_ended(struct whole_jobs *jobs, const struct whole_job *job, double *gain);

#endif
