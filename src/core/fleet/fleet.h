/*
 * The submitter's side of a job on many machines: core/job.h with workers as lanes and grains as items,
 * and the protocol of fleet/wire.h around it. Pure: requests go in, answers come out, time is a
 * parameter; who carries messages, stores results and writes the output is elsewhere (src/cluster, or
 * the simulator).
 *
 *     fleet_init; fleet_note_stored for all that the store has; then, for each message:
 *     fleet_request -> an answer now, or none yet; after every call: fleet_next_reply until false,
 *     fleet_next_result until false; fleet_look when fleet_look_due says so.
 *
 * What holds, whatever is lost, late, repeated or reordered on the way:
 *   - a claim with the same SEQ gets the same answer, until it was reported done or failed;
 *   - a grain is delivered once, in order, and only after its result was found in the store;
 *   - at most `window` grains are claimed or stored and not delivered;
 *   - a worker's report counts only with the ticket it was given, of this epoch;
 *   - no message can make a grain count as delivered: "done" only makes it looked for.
 */
#ifndef CORE_FLEET_FLEET_H
#define CORE_FLEET_FLEET_H

#include "core/fleet/silence.h"
#include "core/fleet/wire.h"
#include "core/grains.h"
#include "core/job.h"

/* A worker is lost after this, if the options do not say. */
#define FLEET_SILENCE_NS UINT64_C(3000000000)
/* What runs longer than expected by far is overdue after this at the earliest: engines stall for 4-9 s. */
#define FLEET_OVERDUE_NS UINT64_C(30000000000)
/*
 * A submitter that goes on with an earlier one's job gives nothing out before: by then each worker has
 * said with a beat what it runs.
 */
#define FLEET_GATHER_NS UINT64_C(1000000000)
/* A run that this many beats in a row do not speak of is not run: its claim's answer never came. */
#define FLEET_BEATS_MISSED 8
/* Most grains of a window: units take memory for each. */
#define FLEET_WINDOW_MAX (UINT64_C(1) << 20)
#define FLEET_LANES_MAX 16384u

struct fleet_options {
    uint64_t grains; /* of the job: 1 to GRAINS_MAX */
    /* Grains below it are durably in the output: what the submitter before noted as its progress. */
    uint64_t begin;
    uint64_t window;     /* grains; 0: as large as it can be */
    uint64_t unit_ns;    /* a super-unit should not take longer; 0: any time */
    uint32_t lane_count; /* workers at one time */
    uint32_t slots;      /* super-units that a worker may hold: 1 to WIRE_SLOTS_MAX */
    uint32_t tries;      /* runs of a grain before it fails; at least 1 */
    uint64_t epoch;      /* this submitter's, at least 1 */
    uint64_t silence_ns; /* 0: FLEET_SILENCE_NS */
};

enum fleet_state {
    FLEET_RUNNING,
    FLEET_DONE, /* every grain was delivered */
    FLEET_FAILED,
    FLEET_CANCELLED,
    FLEET_SUPERSEDED /* a newer submitter has the job: this one leaves, and touches nothing more */
};

/* What becomes of a request. */
enum fleet_answer {
    FLEET_ANSWERED, /* the answer is to be sent now */
    FLEET_PARKED, /* a claim for which there is nothing now: fleet_next_reply will have its answer */
    FLEET_SILENT /* no answer: it came from beyond this submitter's time, or is none of its business */
};

/*
 * An answer. `place` is the slot asked for, below lane_count x slots: who carries messages keeps for
 * each place where its last claim wants its answer (FLEET_PARKED; a repeated claim replaces that).
 */
struct fleet_reply {
    uint32_t place; /* of a claim; else JOB_NONE */
    struct wire_reply reply;
};

/* What made the job fail, for a message that names it. */
struct fleet_failure {
    struct muster_range grains; /* empty: nothing has failed */
    uint64_t worker;            /* where it failed last */
    enum wire_class class_;
    bool is_loss; /* workers died of it: there is no class */
};

struct fleet_lane {
    uint64_t worker; /* 0: nobody has this lane */
    uint32_t held;
    uint64_t silent_ns;
    struct job_lane_report report; /* grains count as items */
};

struct fleet_counts {
    uint64_t claims;  /* answered with a run */
    uint64_t repeats; /* the same answer once more */
    uint64_t parked;  /* claims that had to wait */
    uint64_t adopted; /* runs of an earlier epoch, or that nobody knew, that go on */
    uint64_t late;    /* reports that did not count */
    uint64_t lost;    /* workers, by silence */
    uint64_t left;    /* workers that said so */
    uint64_t missing; /* grains whose stored result had vanished */
    uint64_t refused; /* requests that made no sense */
};

struct fleet;

/* How many bytes fleet_init wants, aligned as for any type; 0 if the options make no sense. */
size_t fleet_bytes(const struct fleet_options *options);
struct fleet *fleet_init(void *memory, const struct fleet_options *options, uint64_t now_ns);

/*
 * The results of these grains are in the store. At the start, for all that an earlier submitter has
 * left; later calls are allowed, and spare work where nobody has claimed the grain yet.
 */
void fleet_note_stored(struct fleet *fleet, struct muster_range grains, uint64_t now_ns);

/*
 * A request that wire_read_request has accepted. `out` is set if it is FLEET_ANSWERED; of a parked claim
 * `out->place` is.
 */
enum fleet_answer fleet_request(struct fleet *fleet, const struct wire_request *request,
                                uint64_t now_ns, struct fleet_reply *out);
/* The next parked claim that has its answer now; false if none has. */
bool fleet_next_reply(struct fleet *fleet, uint64_t now_ns, struct fleet_reply *out);

/* The submitter's link to the servers went down or came up again. It begins as up. */
void fleet_link(struct fleet *fleet, bool is_up, uint64_t now_ns);
/* Finds silent workers and overdue runs; due at fleet_look_due, which is UINT64_MAX for never. */
void fleet_look(struct fleet *fleet, uint64_t now_ns);
uint64_t fleet_look_due(const struct fleet *fleet);

/*
 * The grains to be delivered next, in order: all of them are reported as stored. The caller looks for
 * the results from the first on, and says how many left (fleet_delivered) or are not in the store
 * (fleet_missing: these are run again); then asks again. Nothing else may be called with these grains.
 */
bool fleet_next_result(struct fleet *fleet, struct muster_range *grains);
void fleet_delivered(struct fleet *fleet, uint64_t grains, uint64_t now_ns);
void fleet_missing(struct fleet *fleet, uint64_t grains, uint64_t now_ns);
/* Results of grains below it have left. What of that is durable, only the caller knows. */
uint64_t fleet_delivered_until(const struct fleet *fleet);

void fleet_cancel(struct fleet *fleet);
/* Delivery is impossible (the output cannot be written): the job fails. */
void fleet_fail(struct fleet *fleet);
/*
 * The newest epoch that a message has told of, 0 if none is above this submitter's own. Messages
 * prove nothing: the caller looks whether that epoch exists, and if so calls fleet_supersede.
 */
uint64_t fleet_epoch_told(const struct fleet *fleet);
void fleet_supersede(struct fleet *fleet);

enum fleet_state fleet_state(const struct fleet *fleet);
void fleet_failure(const struct fleet *fleet, struct fleet_failure *out);
void fleet_lane(const struct fleet *fleet, uint32_t lane, uint64_t now_ns, struct fleet_lane *out);
/* Workers that have a lane. */
uint32_t fleet_workers(const struct fleet *fleet);
void fleet_counts(const struct fleet *fleet, struct fleet_counts *out);
uint64_t fleet_window_used(const struct fleet *fleet);
uint64_t fleet_retries(const struct fleet *fleet);

/* Checks every invariant, at a cost that grows with the job: for tests. NULL, or what is wrong. */
const char *fleet_check(const struct fleet *fleet);

#endif
