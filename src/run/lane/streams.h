/*
 * The streams that a lane has of its device's pool. A stream that is given back stays open with the
 * device, for the next who takes one.
 */
#ifndef RUN_STREAMS_H
#define RUN_STREAMS_H

#include "run/device/stream.h"

struct lane_stream {
    muster_stream handle;
    struct run_stream *stream; /* pinned; NULL: there is none */
};

/*
 * Takes this many streams, or none. MUSTER_E_CAPACITY: the pool has fewer now. Then the caller leaves
 * the device out, waits, or makes do with fewer. No lock is held.
 */
muster_status streams_take(struct run_device *device, uint32_t count, struct lane_stream *streams,
                           struct muster_error *err);
/* The same, for as many as there are: `most` at best, and one at least. */
muster_status streams_take_some(struct run_device *device, uint32_t most,
                                struct lane_stream *streams, uint32_t *count,
                                struct muster_error *err);
/* Gives them back; those that are none are left out. No lock is held. */
void streams_give(struct lane_stream *streams, uint32_t count);
/* Puts a fresh stream in the place of one that failed; false if it still has work, or there is none. */
bool streams_renew(struct lane_stream *stream);
/* Puts the event after all that the stream was given. Where that is refused the stream itself is asked. */
muster_status streams_record(const struct lane_stream *stream, const struct run_event *event,
                             struct muster_error *err);
/*
 * How the stream came to the event's last record; NULL: to the end of all that it was given. The answer is
 * not one of run_is_over as long as it has not. No lock is held.
 */
muster_status streams_ask(const struct lane_stream *stream, const struct run_event *event);

#endif
