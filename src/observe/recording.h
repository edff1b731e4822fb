/*
 * A recording: events of a fixed size in memory that was taken at the start. Any number of threads
 * add to it at once without a lock, an allocation or a system call; while nothing is recorded they
 * read one flag.
 */
#ifndef OBSERVE_RECORDING_H
#define OBSERVE_RECORDING_H

#include <muster/trace.h>
#include <stdatomic.h>
#include <stdbool.h>

struct recorded;

/* Zeroed: there is none. */
struct recording {
    _Atomic bool is_on;
    _Atomic uint32_t inside;   /* threads that are adding */
    _Atomic uint64_t claimed;  /* places given out, also those that are not there */
    struct recorded *places;   /* owns; NULL: there is no recording */
    _Atomic uint64_t capacity; /* 0: there is no recording; its counts may be read at any time */
    uint64_t origin_ns;        /* when it began */
};

/* Whether it is worth gathering an event. It may be off by the time that one is added. */
static inline bool recording_is_on(const struct recording *recording)
{
    /* Relaxed: recording_add looks again. */
    return atomic_load_explicit(&recording->is_on, memory_order_relaxed);
}

/* False: no memory. Starting, stopping, reading and discarding are the caller's to take turns in. */
bool recording_start(struct recording *recording, const struct muster_allocator *allocator,
                     uint64_t capacity, uint64_t now_ns);
/* From here on nothing is added. */
void recording_stop(struct recording *recording);
void recording_discard(struct recording *recording, const struct muster_allocator *allocator);

/* Any thread, whether it is on or not. Counted as dropped if there is no place left. */
void recording_add(struct recording *recording, const struct muster_trace_event *event);

/* Those that are whole, oldest first; also while others are added. */
void recording_read(const struct recording *recording,
                    void (*event)(void *user, const struct muster_trace_event *event), void *user);
uint64_t recording_count(const struct recording *recording);
uint64_t recording_dropped(const struct recording *recording);

#endif
