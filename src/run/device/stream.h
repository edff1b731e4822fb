/*
 * What a device is given: its streams, the events between them, the operations in flight, and freed
 * memory that those may still use.
 */
#ifndef RUN_STREAM_H
#define RUN_STREAM_H

#include "core/tracker.h"
#include "run/device/device.h"

/*
 * An ordering event of one device, recycled through the device's list when its last reference goes.
 */
struct run_event {
    void *state; /* owns */
    uint32_t references;
    bool has_failed; /* was seen to be over, and to have failed */
    struct run_event *next_all, *next_free;
};

/* An operation that was given and has not been seen to finish. */
struct flight {
    struct flight *next;
    struct run_event *event; /* a reference */
    bool is_unit;            /* a launch: counted as a unit, in items; else a copy, in bytes */
    uint64_t amount;
    struct throughput_mark mark;
    muster_status result;       /* written by the backend */
    muster_status *user_result; /* where the user wants it, NULL: nowhere */
};

enum slot_state {
    SLOT_EMPTY,    /* no driver stream */
    SLOT_OPENING,  /* somebody is asking the driver */
    SLOT_ACQUIRED, /* a handle is out */
    SLOT_RELEASED  /* a driver stream that nobody has; it may still finish earlier work */
};

struct run_stream {
    struct run_device *device;
    void *state; /* owns; NULL while empty */
    enum slot_state slot;
    uint32_t generation; /* of the current, else of the next handle; from 1 */
    int32_t priority;
    uint64_t token;       /* names the driver's stream in trackers; never 0, never used twice */
    uint64_t released_at; /* `releases` of its device when it last was; 0: never */
    uint32_t pins;        /* calls under way */
    bool retiring;        /* somebody looks at its flights */
    bool broken;          /* what it does cannot be followed any more: never given out again */
    struct flight *oldest, *newest;
};

/* Freed memory that the device may still be using. */
struct zombie {
    struct zombie *next;
    struct muster_memory memory;
    bool must_free;             /* the backend has not been told yet */
    struct tracker_marks until; /* references */
};

/* A timing event. */
struct timing_mark {
    struct run_device *device;
    void *state; /* owns */
    struct timing_mark *next_all, *next_free;
};

/* stream.c */
/* Resolves and pins; every success is followed by stream_unpin. */
muster_status stream_pin(struct muster *m, muster_stream handle, struct run_stream **out,
                         struct muster_error *err);
void stream_unpin(struct run_stream *stream);
muster_status stream_pin_locked(struct muster *m, muster_stream handle, struct run_stream **out,
                                struct muster_error *err);
/*
 * The same for calls that give nothing new: also on a device that is lost or quarantined, where
 * work given before may still be running on memory of the caller's.
 */
muster_status stream_pin_to_finish(struct muster *m, muster_stream handle, struct run_stream **out,
                                   struct muster_error *err);
void stream_unpin_locked(struct run_stream *stream);
/*
 * So many streams of a device that is pinned, all in one step, or none: MUSTER_E_CAPACITY if the pool
 * has fewer now.
 */
muster_status streams_acquire(struct run_device *device, int32_t priority, uint32_t count,
                              muster_stream *out, struct muster_error *err);
/*
 * Puts another stream of the driver in the place of one that failed, under the same handle: a pool
 * that is full has no second one to give. The stream is pinned and nobody else uses it. On failure,
 * also if it still has work to do, all stays as it was.
 */
muster_status stream_renew(struct run_stream *stream, struct muster_error *err);
void streams_destroy(struct run_device *device);

/* flight.c */
muster_status event_take(struct run_device *device, struct run_event **out,
                         struct muster_error *err);
void event_unreference_locked(struct run_device *device, struct run_event *event);
void marks_unreference_locked(struct run_device *device, const struct tracker_marks *marks);
void events_destroy(struct run_device *device);
struct flight *flight_take(struct run_device *device, struct muster_error *err);
void flight_give_locked(struct run_device *device, struct flight *flight);
void flight_begin_locked(struct run_stream *stream, struct flight *flight);
enum load_end {
    LOAD_DONE,
    LOAD_UNTIMED, /* done, but its end was seen too late to measure anything by */
    LOAD_FAILED,
    LOAD_WITHDRAWN /* the device was not given it after all */
};
/* A unit of this many items was given to the device, and has ended so. */
struct throughput_mark unit_begin_locked(struct run_device *device, uint64_t items,
                                         uint64_t now_ns);
void unit_end_locked(struct run_device *device, struct throughput_mark mark, uint64_t items,
                     enum load_end how, uint64_t now_ns);
/* Sees which operations have finished, and counts them. */
void flights_retire(struct run_stream *stream);
/* The same after the stream itself was asked: if that is over, so is all that was given to it. */
void flights_retire_after(struct run_stream *stream, muster_status stream_status);
/* The same for all streams of a device. */
void flights_retire_all(struct run_device *device);
/* Ends what is left, and gives the memory back; the latter only when the device is closed. */
void flights_end(struct run_device *device);
void flights_destroy(struct run_device *device);
/*
 * Blocks until the stream has finished what it was given; MUSTER_E_TIMEOUT, or the stream's or
 * device's failure.
 */
muster_status stream_drain(struct run_stream *stream, uint64_t deadline_ns,
                           struct muster_error *err);

/* timing.c */
/* NULL if the device cannot time: the caller works without it. */
struct timing_mark *timing_mark_take(struct run_device *device);
void timing_mark_give_locked(struct timing_mark *mark);
void timing_marks_destroy(struct run_device *device);

/* zombie.c */
struct zombie *zombie_take(struct muster *m);
void zombie_give(struct muster *m, struct zombie *zombie);
/* Frees what the device has finished with. */
void zombies_reclaim(struct run_device *device);
void zombies_destroy(struct run_device *device);

#endif
