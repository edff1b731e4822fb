/*
 * The inside of a fleet, shared by fleet.c, fleet_lanes.c and fleet_requests.c. Nobody else may include
 * this.
 */
#ifndef CORE_FLEET_STATE_H
#define CORE_FLEET_STATE_H

#include "core/fleet/fleet.h"

/* Parked claims that are tried after something has changed; all are after a look. */
#define FLEET_ASKED_AT_ONCE 8u

enum place_state {
    PLACE_EMPTY,
    PLACE_PARKED,  /* its claim has no answer yet */
    PLACE_RUNNING, /* it has a run, whose ticket is out */
    PLACE_REPORTED /* that has ended; what comes of this SEQ now is late */
};

/* A slot of a lane's worker. */
struct place {
    enum place_state state;
    uint64_t seq; /* of its last claim; of one that is EMPTY nothing is known */
    struct job_ticket ticket;
    struct muster_range grains;
    uint32_t beats_missed;
    struct wire_run was;     /* adopted: what the worker called it before; else epoch 0 */
    uint32_t previous, next; /* PARKED: the list of those, the longest first */
};

struct worker_lane {
    uint64_t worker; /* 0: nobody's */
    uint64_t heard_at;
    uint32_t previous,
        next; /* by when they were heard, the longest ago first; free lanes use `next` */
    uint32_t hash_next;
};

struct fleet {
    struct fleet_options options;
    struct job *job;
    struct grain_set stored;
    struct silence silence;
    struct worker_lane *lanes;
    struct place *places; /* lane i has [i x slots, (i + 1) x slots) */
    uint32_t *heads;      /* of the table of workers, `head_count` of them, a power of two */
    uint32_t head_count, head_shift;
    uint32_t free_lane, workers;
    uint32_t heard_first, heard_last;
    uint32_t park_first, park_last, parked;
    uint32_t asks;    /* parked claims that are to be tried now */
    uint32_t leaving; /* the unit whose results leave; JOB_NONE */
    struct muster_range leaving_grains;
    uint64_t epoch_told;
    uint64_t gather_until_ns; /* nothing is given out before */
    bool is_superseded;
    struct fleet_failure failure;
    struct fleet_counts counts;
};

static inline uint32_t lane_of_place(const struct fleet *fleet, uint32_t place)
{
    return place / fleet->options.slots;
}

static inline bool is_over(const struct fleet *fleet)
{
    return job_state(fleet->job) != JOB_RUNNING;
}

/* Something has changed: this many parked claims are tried. */
static inline void ask_parked(struct fleet *fleet, uint32_t count)
{
    if (fleet->asks < count)
        fleet->asks = count;
}

/* Lanes: fleet_lanes.c. */

void fleet_lanes_init(struct fleet *fleet);
/* JOB_NONE if it has none. */
uint32_t fleet_lane_find(const struct fleet *fleet, uint64_t worker);
/* A lane for a worker that has none; JOB_NONE if there is none left. */
uint32_t fleet_lane_take(struct fleet *fleet, uint64_t worker, uint64_t now_ns);
void fleet_lane_heard(struct fleet *fleet, uint32_t lane, uint64_t now_ns);
/* Its worker is gone: what it held is anybody's. */
void fleet_lane_free(struct fleet *fleet, uint32_t lane, bool is_loss, uint64_t now_ns);

void fleet_park(struct fleet *fleet, uint32_t place);
void fleet_unpark(struct fleet *fleet, uint32_t place);

/* Requests: fleet_requests.c. */

/* Gives the place a run, if there is one for it now. */
bool fleet_claim(struct fleet *fleet, uint32_t place, uint64_t now_ns);
/* The answer to its claim. */
void fleet_tell_run(const struct fleet *fleet, uint32_t place, struct fleet_reply *out);
void fleet_tell_over(const struct fleet *fleet, uint32_t place, struct fleet_reply *out);
/* After anything that may have made the job fail: what was it? */
void fleet_note_failure(struct fleet *fleet, uint64_t worker, enum wire_class class_, bool is_loss);

#endif
