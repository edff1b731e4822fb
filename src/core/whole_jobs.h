/*
 * Whole jobs as trials, for jobs too short for a trial of their own, or whose own trials have left nobody
 * out: of several jobs of one kind one is run without a lane, and the time of an item with the lane and
 * without it decides (take_part.h).
 *
 * If one lane is left, the lane that did most beside it is tried in its place, once: beside others both may
 * have been slower than they are alone, and the one that was left out may be the faster one.
 *
 * The second job of a kind is a trial; of three lanes and more it runs on the one alone that has done most, or
 * the largest slice of its device: in a short job a small one may have come first. Any other must have been saved for: all jobs put by
 * WHOLE_JOBS_COST of their time, and a trial is made when that pays for what it is expected to cost.
 *
 * A job that was the first to touch its memory, or to have it pinned, is no measure, on neither side. Without some devices
 * it is laid out again, and that is the first time.
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
/* Of each side, the times of this many jobs are kept. */
#define WHOLE_JOBS_KEPT 4

enum { WHOLE_JOBS_WITHOUT, WHOLE_JOBS_WITH, WHOLE_JOBS_SIDES };

struct whole_jobs {
    uint64_t left_out;  /* bit i: lane i is left out */
    uint64_t tried;     /* bit i: and that, or that it is not, was found by whole jobs */
    uint64_t trial;     /* the lanes that are tried, by bits; 0: none */
    bool is_without;    /* the next job leaves those of the trial out */
    bool is_best_tried; /* the lane that does most, alone */
    bool was_cold;      /* the first job without them was the first to touch its memory */
    bool has_begun;     /* there was a trial: others must be saved for */
    /* Of the trial: the times of an item, the newest of each side at times_known % WHOLE_JOBS_KEPT. */
    double times_ns[WHOLE_JOBS_SIDES][WHOLE_JOBS_KEPT];
    uint32_t times_known[WHOLE_JOBS_SIDES];
    double faults; /* pages that an item has cost, in the last job with those that are tried */
    /* If all but one are tried: that one, the one that did most beside it, and what its items take at most. */
    uint32_t first, second;
    double second_ns;
    bool is_second_tried;
    double saved_ns;
};

/* A job of the kind that has ended well. */
struct whole_job {
    double job_ns, items;
    double faults; /* pages got or pinned: the first job with an array is slower than others */
    uint32_t lane_count;
    double shares[WHOLE_JOBS_LANES_MAX]; /* of the items, by lane */
    /* 1 + the heaviest lane of the same device, of which it is a slice; 0: the lane itself. */
    uint32_t heaviest[WHOLE_JOBS_LANES_MAX];
};

/* The lanes that the next job leaves out. */
uint64_t whole_jobs_left_out(const struct whole_jobs *jobs);

/*
 * The job, which left out what whole_jobs_left_out said, is over. The lanes that a trial has left out for
 * good are returned, by bits, with `gain`, by what part jobs are faster.
 */
uint64_t whole_jobs_ended(struct whole_jobs *jobs, const struct whole_job *job, double *gain);

#endif
