/*
 * The inside of a job. Only job.c, which decides, and job_check.c, which checks that the state is
 * consistent, may include this.
 */
#ifndef CORE_JOB_STATE_H
#define CORE_JOB_STATE_H

#include "core/job.h"

/* The largest `patience` of a unit; it grows with each device that hangs on the unit. */
#define PATIENCE_MAX 16.0
/* A unit that has run alone on so many failure domains that were then lost has failed itself. */
#define DOMAINS_TAKEN_MAX 2

enum unit_state {
    UNIT_FREE,
    UNIT_WAITING,
    UNIT_RUNNING,
    UNIT_DONE,
    UNIT_LEAVING,
    UNIT_FAILED,
    UNIT_CANCELLED /* the job ended before it did */
};

struct unit {
    struct muster_range range;
    enum unit_state state;
    uint32_t previous, next; /* in item order; `next` also links free units */
    uint32_t retry_next;     /* while waiting: the list of units to run again */
    uint32_t last_lane;      /* where it failed last, JOB_NONE if it did not */
    uint32_t tries, domains_taken;
    uint32_t newest_run; /* attempts whose completion counts, the last begun first; JOB_NONE */
    uint64_t waiting_ns; /* while waiting: since when */
    double patience;     /* how many times as long as others it may take */
    bool is_suspect;     /* its device died under it: runs alone */
    bool has_failed;     /* where that is tolerated: it is done, without a result */
};

struct attempt {
    uint32_t unit, lane, generation;
    uint32_t older_run; /* of the same unit, while this one is active; JOB_NONE */
    uint64_t items;     /* the unit may be gone before a late attempt is */
    bool is_out;        /* occupies its lane's slot */
    bool is_active;     /* its completion counts */
    bool is_kicked, is_copy, is_alone;
    bool is_restarted; /* how long it took says nothing about the lane */
    uint64_t kicked_ns;
};

struct lane {
    uint32_t domain;
    double weight;
    bool is_lost, is_hung;
    bool is_idle;  /* holds nothing, asked for something and got nothing */
    uint32_t held; /* slots occupied */
    uint64_t held_items;
    struct rate rate;
    double counted;   /* its part of the job's rate_sum */
    uint64_t largest; /* unit it has finished */
    uint64_t last_finish_ns;
    bool is_held_up; /* by the user's own code: nothing it has is overdue */
    uint64_t held_up_until_ns;
    struct job_lane_report report;
};

struct domain {
    uint32_t held; /* slots occupied, but those of lanes that are lost or hung */
    bool is_alone; /* runs a suspect */
};

struct job {
    struct job_options options;
    enum job_state state;
    bool is_cut_short; /* no lane is left, or no input: what is not done will not be */
    bool sink_failed;
    uint64_t supply;     /* the first item that has not arrived */
    uint64_t next_claim; /* the first item never claimed */
    uint64_t delivered_items;
    uint64_t undelivered; /* items claimed and not delivered */
    uint64_t unfinished;  /* of these, items of units that are not done */
    uint64_t units_made, retries;
    uint32_t oldest, newest; /* undelivered units in item order */
    uint32_t free_units;
    uint32_t retry_first;           /* in item order */
    uint32_t done_first, done_last; /* unordered: finished units in the order they finished */
    uint32_t suspects;              /* attempts of suspects on usable lanes */
    uint32_t draining; /* the lane whose domain is kept from new work for a suspect's sake */
    uint32_t usable;   /* lanes neither lost nor hung */
    uint32_t idle;     /* of these, lanes that are idle */
    uint32_t out;      /* attempts on usable lanes */
    uint32_t turn;     /* round-robin: the lane after the last one */
    double rate_sum;   /* of the usable lanes, in items per nanosecond */
    uint32_t fastest;  /* of the usable, measured lanes; JOB_NONE */
    double runner_up;  /* no other lane is faster than this */
    double slowest_ns; /* the longest that a run took which ended well */
    uint64_t look_ns;  /* nothing is overdue, or worth a second run, before */
    struct unit *units;
    struct attempt *attempts; /* lane i has [i x depth, (i + 1) x depth) */
    struct lane *lanes;
    struct domain *domains;
};

static inline uint64_t items_of(const struct unit *unit)
{
    return unit->range.end - unit->range.begin;
}

/* Whether something is still to be run; else there is only to be delivered. */
static inline bool has_work(const struct job *job)
{
    return job->unfinished > 0 || job->next_claim < job->options.items;
}

static inline bool is_usable(const struct lane *lane)
{
    return !lane->is_lost && !lane->is_hung;
}

static inline bool has_runs(const struct unit *unit)
{
    return unit->newest_run != JOB_NONE;
}

/* Rounded down. */
static inline uint64_t whole_grains(const struct job *job, uint64_t items)
{
    return job->options.grain > 1 ? items - items % job->options.grain : items;
}

/* When the lane's oldest started attempt is overdue, UINT64_MAX if it has none. */
uint64_t job_overdue_ns(const struct job *job, uint32_t lane);

#endif
