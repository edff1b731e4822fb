/*
 * Who takes part in a job: by what the whole job delivers, not by what a lane does. Lanes share cores,
 * memory and links with each other, so one that does something may still cost more than it brings.
 *
 * The controller compares: what all lanes together finish in a stretch of time with a lane, and in the
 * next one without it. A lane that costs more than it brings is left out; one that was is tried again
 * later. Where the difference is within the noise the lane takes part. Between two stretches nobody is
 * counted until the lane has run empty, or has finished its first unit.
 *
 * A lane that brings next to nothing is left out without a trial, once it had time to show more: the job
 * cannot lose more than TAKE_PART_SLIGHT by that. Such a lane may cost a lot: all cores of the machine,
 * and units that others wait for, or run a second time. And its units are too long for trials.
 *
 * Of several lanes none may be in the way by itself, and all together are: slices of a GPU, of which one
 * fills the link. So after the lanes that are slow all but the fastest are tried at once.
 *
 * A trial costs what the lane would have brought meanwhile. All trials of a job together cost at most
 * TAKE_PART_COST_MAX of it, so where a job is too short there is none. Units are kept short while the
 * controller measures, see take_part_size. Short jobs that come again are trials as a whole, see
 * whole_jobs.h; they make none of their own.
 *
 * Pure: time is a parameter, memory is the caller's.
 */
#ifndef CORE_TAKE_PART_H
#define CORE_TAKE_PART_H

#include "core/whole_jobs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* With more lanes than this nobody is ever left out. */
#define TAKE_PART_LANES_MAX 64
/* Of a job's time, what its trials may cost together. */
#define TAKE_PART_COST_MAX 0.005
/* The same where there were jobs of its kind before; what those have not spent may be spent too. */
#define TAKE_PART_COST_AGAIN 0.01
/* Of what all deliver, what those that are left out without a trial bring together at most. */
#define TAKE_PART_SLIGHT 0.005
/* What such a lane's report has: nobody has measured how much faster the job is, but it is not slower. */
#define TAKE_PART_SLIGHT_FACTOR 1.001f
#define TAKE_PART_NONE UINT32_MAX

/*
 * What one job has learned for the next of its kind: the same kernel and size class on the same devices
 * in the same order. Plain, kept by the caller; all zero is nothing.
 */
struct take_part_lesson {
    uint64_t left_out;  /* bit i: lane i is left out */
    uint64_t tried;     /* bit i: lane i was tried, and takes part or not as it should */
    uint64_t slight;    /* bit i: lane i is left out since it brings next to nothing */
    bool is_best_tried; /* the fastest was tried alone */
    float faster_without[TAKE_PART_LANES_MAX]; /* of those left out: by what factor the job is */
    double rate;       /* of all that take part, in items per nanosecond; 0: not known */
    double unspent_ns; /* what trials might have cost so far and have not */
    uint32_t jobs;     /* since the last trial */
    bool is_whole;     /* the next one is compared as a whole, and makes no trials */
    struct whole_jobs whole;
};

/* What a lane did in the stretches of a trial with, or without, the lanes that are tried. */
struct take_part_pool {
    double items, ns;
    uint32_t units;
};

/* One lane; the owner has one for each. */
struct take_part_lane {
    uint32_t domain; /* its device; slices of one have the same */
    double weight;
    bool is_out;           /* is left out, also for a trial */
    bool is_gone;          /* cannot be given anything now */
    bool is_lost;          /* and is not expected to come back */
    bool is_tried;         /* and takes part or not as it should */
    bool is_passed;        /* a trial would cost too much now */
    bool is_slight;        /* is left out since it brings next to nothing: */
    double slight;         /* no more than this part of everything */
    bool is_out_by_rule;   /* when nobody is gone: is left out */
    bool is_tried_by_rule; /* likewise */
    float faster_without;  /* is left out: by what factor the job is faster so */
    double gain;           /* above 0: takes part, and the job is faster by this part without it */
    uint32_t held;         /* units it has */
    double held_items;     /* in these */
    uint64_t seen_ns;      /* since when it has had units; 0: it has had none */
    double seen_own;       /* what the job had from it then */
    double seen_all;       /* and from everybody */
    uint32_t finished;     /* units, since it last joined */
    uint64_t largest;      /* unit, in items */
    uint32_t same;         /* units since one was much larger than all before */
    uint64_t finish_ns;    /* of the last one */
    double items;          /* that the job has from it */
    double rate;           /* in items per nanosecond; 0: not known */
    double unit_ns;        /* from one finish to the next, of late */
    double squares, changes; /* relative changes of the rate from unit to unit: sum and number */
    double last_rate;        /* of the last unit of this stretch; 0: none */
    bool has_begun;          /* it has finished something in this stretch, from which time counts */
    uint32_t units;          /* this many after that */
    struct take_part_pool pools[2]; /* of the trial: without the lanes that are tried, with them */
};

enum take_part_phase {
    TAKE_PART_SETTLING,  /* lanes are being measured for the first time */
    TAKE_PART_MEASURING, /* a stretch of a trial */
    TAKE_PART_CHANGING,  /* between two of them: the lane runs empty, or does its first unit */
    TAKE_PART_RESTING    /* no trial */
};

struct take_part {
    struct take_part_lane *lanes; /* borrowed */
    uint32_t count, depth;
    enum take_part_phase phase;
    double done;                   /* items that are finished */
    double slight;                 /* the part that those bring that are left out without a trial */
    uint64_t begin_ns;             /* of the job */
    uint64_t phase_ns;             /* when the phase began */
    uint64_t rest_ns;              /* how long the next rest is */
    double left;                   /* items that are not finished */
    double spent_ns, saved_ns;     /* what trials have cost; what earlier jobs have left */
    double rest_rate, smooth_rate; /* of all that take part: when the rest began, and of late */
    uint32_t rest_units;           /* finished since */
    uint64_t set;                  /* lanes of the trial, by bits */
    uint32_t step;                 /* of the trial; in odd ones they are other than before it */
    bool were_out;                 /* before the trial */
    bool is_best_tried;            /* the fastest alone, since who takes part last changed */
    uint64_t trial_ns;             /* when it began */
    double trials_ns;              /* how long those before it took */
    double trial_job_ns;           /* how long the job seemed to take then */
    uint64_t away_ns;              /* since when they have been other than before */
    double away_sum_ns;            /* how long they have been in earlier steps */
    uint32_t jobs;
    bool is_again; /* there were jobs of its kind before */
    bool is_whole; /* the job is one of those that are compared as a whole */
    bool is_mixed; /* who takes part has changed meanwhile, so it cannot be compared */
    struct whole_jobs whole;
    double lesson_rate;  /* what earlier jobs delivered; 0: not known */
    uint64_t now_ns;     /* when something last happened */
    uint32_t version;    /* of who takes part */
    double rate;         /* of all that take part */
    uint32_t in;         /* lanes that take part and can be given units */
    uint32_t gone, away; /* lanes that are gone; of these, that may come back */
};

/* `lanes` has `count`, 2 to TAKE_PART_LANES_MAX, each with up to `depth` units. `lesson` may be NULL. */
void take_part_init(struct take_part *part, struct take_part_lane *lanes, uint32_t count,
                    uint32_t depth, const struct take_part_lesson *lesson, uint64_t now_ns);

/* Of which device the lane is, and how fast that should be beside others. Without it each has its own. */
void take_part_describe(struct take_part *part, uint32_t lane, uint32_t domain, double weight);

/* Whether the lane may be given units now. Somebody may, if anybody can. When it changes, `version` does. */
bool take_part_is_in(const struct take_part *part, uint32_t lane);

/* How long units should take now. */
struct take_part_size {
    double most_ns;      /* 0: any time */
    double overhead_max; /* the part of a unit that its fixed cost may be; 0: as always */
};
struct take_part_size take_part_size(const struct take_part *part);

/* The lane has been given a unit of this many items. */
void take_part_begun(struct take_part *part, uint32_t lane, uint64_t items);
/* A unit of the lane's is over, whether it counts or not. */
void take_part_ended(struct take_part *part, uint32_t lane, uint64_t items);
/* The job has this many items more from the lane, and is left with this many unfinished. */
void take_part_finished(struct take_part *part, uint32_t lane, uint64_t items, uint64_t left,
                        uint64_t now_ns);
/* A unit of the lane's came to its end that another lane had finished before. */
void take_part_late(struct take_part *part, uint32_t lane, uint64_t now_ns);
/*
 * The lane cannot be given anything any more, or can again; is_lost: it is not expected back. If others were counted on instead of those
 * left out, these take part again.
 */
void take_part_gone(struct take_part *part, uint32_t lane, bool is_gone, bool is_lost);
/* Those that take part do not come on: everybody does, and no trial for a while. */
void take_part_stuck(struct take_part *part, uint64_t now_ns);

/* At the end of the job, with this many page faults. is_done: all of its items were finished. */
void take_part_learn(const struct take_part *part, struct take_part_lesson *lesson, bool is_done,
                     uint64_t faults, uint64_t now_ns);
/* At the end of a job that was laid out without the lanes that whole_jobs_left_out names. */
void take_part_learn_without(struct take_part_lesson *lesson, double job_ns, double items,
                             uint64_t faults);
/* By what factor the job is faster without the lane, which is left out; 0 if it is not. */
double take_part_faster_without(const struct take_part *part, uint32_t lane);

#endif
