/*
 * When a worker has been silent for too long. Silence counts only while the submitter itself can hear:
 * while its link is up, and no longer than SILENCE_ALONE_NS after it last heard anybody. So a cut link, a
 * server that fails over and a submitter that was stopped lose no worker: a worker that alone is silent is lost.
 */
#ifndef CORE_FLEET_SILENCE_H
#define CORE_FLEET_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

/* Two beats. */
#define SILENCE_ALONE_NS UINT64_C(1000000000)

/* Time in which the submitter could hear. */
struct silence {
    uint64_t counted_ns; /* up to at_ns */
    uint64_t at_ns;      /* so far it was counted */
    uint64_t heard_ns;   /* when anybody was heard last */
    uint64_t floor_ns;   /* of counted_ns: a worker heard before counts as heard then */
    bool is_up;
};

/* The link is up. */
void silence_init(struct silence *silence, uint64_t now_ns);
/* The link is up, or down. When it comes up again, everybody's silence begins again. */
void silence_link(struct silence *silence, bool is_up, uint64_t now_ns);
/* Somebody was heard: gives the moment to remember for that worker. */
uint64_t silence_heard(struct silence *silence, uint64_t now_ns);
/* How long a worker was silent that was heard at that moment, of time that counts. */
uint64_t silence_of(const struct silence *silence, uint64_t heard_at, uint64_t now_ns);
/* When that will be so long, if nobody is heard before; UINT64_MAX: not as long as nobody is. */
uint64_t silence_due(const struct silence *silence, uint64_t heard_at, uint64_t limit_ns);

#endif
