/*
 * What workers and submitters say to each other, as text: one line a message, words with one space
 * between, numbers decimal (a worker's id hexadecimal). What is read came over a network: each word is
 * checked, and nothing is taken from a message that does not parse as a whole.
 *
 * Requests of a worker. EPOCH is the newest submitter it has heard of, 0 for none. A RUN is
 * "TICKET_EPOCH ATTEMPT GENERATION FROM TO": grains [FROM, TO), and what the submitter called them.
 *
 *     1 claim EPOCH WORKER SLOT SEQ            work for this slot; the same SEQ gets the same answer
 *     1 done EPOCH WORKER SLOT SEQ RUN         all its grains are stored
 *     1 fail EPOCH WORKER SLOT SEQ RUN CLASS AT   AT: the grain that failed, or - if nobody knows
 *     1 beat EPOCH WORKER {SLOT SEQ RUN}       it lives, and runs these
 *     1 gone EPOCH WORKER                      it leaves, and runs nothing any more
 *
 * Answers of a submitter. EPOCH is its own.
 *
 *     1 run EPOCH SLOT SEQ RUN                 to claim
 *     1 over EPOCH done|failed|cancelled       to any request: the job has ended
 *     1 ok EPOCH                               to done, fail, gone: heard, and need not be said again
 *     1 late EPOCH                             to claim: SEQ is an old one
 *     1 full EPOCH                             there is no room for another worker: try again later
 *     1 slots EPOCH {SLOT SEQ drop | SLOT SEQ run RUN}   to beat: stop that one; that is its name now
 */
#ifndef CORE_FLEET_WIRE_H
#define CORE_FLEET_WIRE_H

#include <muster/job.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first word of each message. Who speaks another version is refused by name. */
#define WIRE_VERSION 1
/* Slots of a worker for one job. */
#define WIRE_SLOTS_MAX 16
/* No message is longer, the terminator included: 16 runs at most. */
#define WIRE_BYTES_MAX 2560
/* No grain: nobody knows which one failed. */
#define WIRE_NO_GRAIN UINT64_MAX

enum wire_read {
    WIRE_OK,
    WIRE_VERSION_OTHER, /* well formed so far, but of another version: `version` says which */
    WIRE_BAD            /* nothing of it is used */
};

enum wire_request_kind {
    WIRE_CLAIM,
    WIRE_DONE,
    WIRE_FAIL,
    WIRE_BEAT,
    WIRE_GONE,
    WIRE_REQUEST_KINDS
};

enum wire_class {
    WIRE_CLASS_UNIT,   /* it failed: another worker may do better */
    WIRE_CLASS_USER,   /* the user's code refused it: never run again */
    WIRE_CLASS_MEMORY, /* no memory for it now: no try is counted */
    WIRE_CLASS_STORE,  /* its result could not be stored */
    WIRE_CLASS_BACK,   /* given back, not its fault: the worker leaves or was told to drop it */
    WIRE_CLASSES
};

/* One super-unit as a submitter has named it. */
struct wire_run {
    uint64_t epoch; /* of the submitter that gave it */
    uint32_t attempt, generation;
    struct muster_range grains;
};

struct wire_held {
    uint32_t slot;
    uint64_t seq;
    struct wire_run run;
};

struct wire_request {
    enum wire_request_kind kind;
    uint64_t epoch, worker; /* worker: not 0 */
    struct wire_held
        held[WIRE_SLOTS_MAX]; /* claim: slot and seq of the first; done, fail: the first */
    uint32_t held_count;      /* of a beat; else 1, of gone 0 */
    enum wire_class class_;   /* of fail */
    uint64_t at;              /* of fail: in the run's grains, or WIRE_NO_GRAIN */
};

enum wire_reply_kind {
    WIRE_RUN,
    WIRE_OVER,
    WIRE_HEARD, /* ok */
    WIRE_LATE,
    WIRE_FULL,
    WIRE_SLOTS,
    WIRE_REPLY_KINDS
};

enum wire_end { WIRE_END_DONE, WIRE_END_FAILED, WIRE_END_CANCELLED, WIRE_ENDS };

struct wire_reply {
    enum wire_reply_kind kind;
    uint64_t epoch;                        /* at least 1 */
    enum wire_end end;                     /* of over */
    struct wire_held held[WIRE_SLOTS_MAX]; /* run: the first */
    bool drops[WIRE_SLOTS_MAX];            /* of slots: held[i] is to be stopped, and has no run */
    uint32_t held_count;
};

/* Writes the message with a terminator; gives its bytes without that. What is given must be valid. */
size_t wire_print_request(const struct wire_request *request, char text[WIRE_BYTES_MAX]);
size_t wire_print_reply(const struct wire_reply *reply, char text[WIRE_BYTES_MAX]);

/*
 * Reads a message of this many bytes, which need no terminator. `*version` is set unless it is WIRE_BAD,
 * `out` only if it is WIRE_OK. Runs have at least one grain and end at GRAINS_MAX at most, slots are
 * below WIRE_SLOTS_MAX and differ.
 */
enum wire_read wire_read_request(const char *text, size_t bytes, struct wire_request *out,
                                 uint64_t *version);
enum wire_read wire_read_reply(const char *text, size_t bytes, struct wire_reply *out,
                               uint64_t *version);

#endif
