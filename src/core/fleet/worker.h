/*
 * A worker's side of one job on many machines (fleet/wire.h): what to ask and when to ask again, which
 * runs to do, and what to report. Pure. Who carries messages asks worker_next_request whenever
 * worker_due says so and after every other call, sends each request it gives, and hands in what comes
 * back with worker_reply; an answer that never comes costs nothing but time.
 *
 * A slot claims, runs one super-unit, reports it, and claims again. Its SEQ grows with each claim, and
 * by it late answers are told apart.
 */
#ifndef CORE_FLEET_WORKER_H
#define CORE_FLEET_WORKER_H

#include "core/fleet/wire.h"

#define WORKER_BEAT_NS UINT64_C(500000000)
/* A claim waits at the submitter: asked again after this, which also replaces a lost answer. */
#define WORKER_CLAIM_AGAIN_NS UINT64_C(1000000000)
/* A report that was not answered is repeated after this, each time twice as long, at most the other. */
#define WORKER_REPORT_AGAIN_NS UINT64_C(250000000)
#define WORKER_REPORT_AGAIN_MAX_NS UINT64_C(2000000000)

enum worker_slot_state {
    WORKER_FREE,
    WORKER_CLAIMING,
    WORKER_GIVEN, /* there is a run: worker_next_run has it */
    WORKER_RUNNING,
    WORKER_REPORTING
};

struct worker_slot {
    enum worker_slot_state state;
    struct wire_held held; /* its number, its last SEQ, and from GIVEN on what it runs */
    uint64_t order;        /* of the answer: runs are done in this order */
    uint64_t due_ns;       /* CLAIMING, REPORTING: when to ask, or to ask again */
    uint64_t wait_ns;
    bool is_unwanted; /* the submitter has said to drop it */
    bool has_failed;  /* REPORTING: fail, else done */
    enum wire_class class_;
    uint64_t at;
};

struct worker {
    uint64_t id, epoch;          /* the newest submitter heard of */
    uint32_t slot_count, wanted; /* slots that may claim */
    uint64_t beat_due_ns, gone_due_ns, next_order;
    uint32_t gone_said;
    bool leaves, is_gone, is_over;
    enum wire_end end;
    struct worker_slot slots[WIRE_SLOTS_MAX];
};

/*
 * `id` is not 0 and no other worker's, not even that of an earlier process on this machine. 1 to
 * WIRE_SLOTS_MAX slots; all may claim at once unless worker_want says otherwise.
 */
void worker_init(struct worker *worker, uint64_t id, uint32_t slots, uint64_t now_ns);
/* At most this many slots are to hold something: where jobs share the worker (fleet/shares.h). */
void worker_want(struct worker *worker, uint32_t slots);
/* It claims nothing more; when it has nothing left it says gone (SIGTERM). */
void worker_leave(struct worker *worker);
/* Claims that wait are asked again at once: the link is back, or a new submitter was announced. */
void worker_hurry(struct worker *worker, uint64_t now_ns);

/* The next request to send now; false if none is due. */
bool worker_next_request(struct worker *worker, uint64_t now_ns, struct wire_request *out);
/* When the next is due, UINT64_MAX for never. */
uint64_t worker_due(const struct worker *worker);
/*
 * What the submitter answered to `request`. Answers of submitters older than the newest heard of, of other
 * SEQs and of no sense are ignored: false.
 */
bool worker_reply(struct worker *worker, const struct wire_request *request,
                  const struct wire_reply *reply, uint64_t now_ns);

/* The next run to be begun, in the order of the answers; false if there is none. */
bool worker_next_run(struct worker *worker, uint32_t *slot, struct muster_range *grains);
/* Nobody wants it any more: to be broken off if it can be, then worker_failed with WIRE_CLASS_BACK. */
bool worker_should_drop(const struct worker *worker, uint32_t slot);
/* All its grains are stored, by this worker or by the one that was first. */
void worker_stored(struct worker *worker, uint32_t slot, uint64_t now_ns);
/* `at`: the grain that failed, WIRE_NO_GRAIN if nobody knows. */
void worker_failed(struct worker *worker, uint32_t slot, enum wire_class class_, uint64_t at,
                   uint64_t now_ns);

/* The job has ended; what is left to run is not wanted. */
bool worker_is_over(const struct worker *worker, enum wire_end *end);
/* It has left: the submitter knows, or was told often enough. */
bool worker_is_gone(const struct worker *worker);
/* Slots that claim, run or report. */
uint32_t worker_used(const struct worker *worker);

#endif
