/*
 * The inside of a queue, for queue.c and queue_*.c alone.
 *
 * Streams are queues of operations, carried out by a pool of workers under one short lock.
 *
 * A stream is idle, ready (on the ready list), running (one worker has it), blocked (on a signal or
 * a gate) or delayed (its work is done but a pretended device needs longer). Only its head
 * operation matters, so a stream waits for one thing at a time. Records do not complete events but
 * one-shot signals: a wait holds the signal of the record it is bound to, and so a later record of
 * the same event, on whatever stream, cannot release or hold it.
 *
 * The lock is never held while user code or a copy runs.
 */
#ifndef BACKEND_QUEUE_STATE_H
#define BACKEND_QUEUE_STATE_H

#include "backend/queue.h"
#include "base/ring.h"

#include <stdatomic.h>
#include <stdbool.h>

enum operation_kind {
    OPERATION_RANGE,
    OPERATION_CALL,
    OPERATION_RECORD,
    OPERATION_WAIT,
    OPERATION_GATE
};

/* A function over a range: a kernel, a copy or a fill. */
struct range {
    muster_kernel_function function;
    uint64_t begin, items;
    uint64_t grain;
    enum queue_work work;
    uint32_t arg_count;
    uint16_t arg_offsets[MUSTER_ARGS_MAX];
    _Alignas(16) unsigned char values[MUSTER_ARG_BYTES_MAX + MUSTER_ARGS_MAX * 16];
    muster_status *result;        /* borrowed until the operation has finished */
    struct muster_pieces *pieces; /* likewise; NULL: not in pieces */
    /* Likewise: ends early when this says so, and what was done is of no use; NULL: cannot be stopped. */
    const struct muster_pieces *stop;
    uint32_t piece_arg_count;
    struct {
        uint32_t arg, item_bytes;
    } piece_args[MUSTER_PIECE_ARGS_MAX];
};

struct operation {
    enum operation_kind kind;
    union {
        struct range range;
        struct {
            void (*function)(void *user, muster_status status);
            void *user;
        } call;
        struct queue_signal *signal; /* record and wait: a reference */
        struct {
            struct queue_gate_state *gate;
            uint64_t value;
        } gate;
    };
};

/*
 * One record of one event. Protected by the queue's lock; `references` counts events and
 * operations.
 */
struct queue_signal {
    uint32_t references;
    bool done;
    muster_status status, cause;
    uint64_t time_ns;
    struct queue_stream *waiting;
    struct queue_signal *next_free;
};

enum stream_state { STREAM_IDLE, STREAM_READY, STREAM_RUNNING, STREAM_BLOCKED, STREAM_DELAYED };

/* What a kernel's items take. */
struct queue_pace {
    double item_ns; /* 0: nobody knows */
    double call_ns; /* what a call takes besides */
};

struct queue_stream {
    struct queue *queue;
    struct queue_stream *next_all, *previous_all;
    struct queue_stream *next;  /* on whichever list the state says */
    struct queue_stream **list; /* blocked: the list it is on */
    enum stream_state state;
    bool closed, urgent;
    struct ring ring;
    struct operation *operations;
    muster_status status, cause; /* the stream's failure and what caused it */
    struct queue_outcome delayed;
    muster_status *delayed_result;
    /* The last kernel, and what its items took; for the worker that has the stream. */
    muster_kernel_function paced;
    struct queue_pace pace;
};

/*
 * A range that several workers do together. Lives on the stack of the worker that has the stream.
 */
struct shared_range {
    const struct range *range;
    void *const *args;
    uint64_t part_least, part_most; /* items; whole grains */
    uint32_t shares;                /* a part is such a share of what is left */
    /* Relaxed: claims only; what parts write is published by the lock at the join. */
    _Atomic uint64_t next_item;
    _Atomic int status;     /* the first failure; relaxed likewise */
    uint32_t helpers;       /* under the lock */
    struct queue_pace pace; /* the first worker's, while it is alone */
    /* In pieces: the first item that is not to be done, UINT64_MAX if all are; written under the lock. */
    _Atomic uint64_t ends_at;
    uint32_t waiting; /* under the lock: workers that sleep until their oldest chunk is settled */
    struct queue_chunk
        *finished; /* likewise: chunks that wait for others before them; queue_pieces.c */
    struct shared_range *next;
};

/* Where a worker saves what pieces replace; on the queue's list while nobody does. */
struct queue_scratch {
    struct queue_scratch *next;
    unsigned char *memory; /* owns */
};

struct ready_list {
    struct queue_stream *head, *tail;
};

/* One piece of device memory, on the queue's list until it is given back. */
struct queue_piece {
    struct queue *queue;
    struct queue_piece *next, *previous;
    void *memory;
    size_t bytes;
};

struct queue {
    struct muster_allocator allocator;
    struct platform_mutex lock;
    struct platform_condition work;   /* for workers: something is ready or shared */
    struct platform_condition joined; /* for workers: a helper has left a shared range */
    struct platform_condition done;   /* for the host: a signal was given */
    struct platform_thread *workers;
    uint32_t worker_count, workers_started, workers_left, workers_idle, workers_in_user_code;
    char thread_name[16];
    struct platform_cores cores;
    bool has_cores, closing, abandoned;
    int32_t priority_greatest;
    muster_status status; /* MUSTER_OK, or MUSTER_E_DEVICE_LOST for ever */
    uint32_t host_waiters;
    struct queue_stream *all;
    struct ready_list urgent, ready;
    struct queue_stream *delayed;
    struct shared_range *shared;
    struct queue_signal *free_signals;
    struct queue_piece *pieces;
    struct queue_scratch *scratch;
    const struct queue_timing *timing;
    void *timing_user;
};

static inline void lock(struct queue *queue)
{
    platform_mutex_lock(&queue->lock);
}

static inline void unlock(struct queue *queue)
{
    platform_mutex_unlock(&queue->lock);
}

static inline struct queue *queue_of_device(void *device)
{
    return ((struct queue_device_state *)device)->queue;
}

static inline struct queue_stream *stream_of(void *stream)
{
    return ((struct queue_stream_state *)stream)->stream;
}

/* Streams: queue_stream.c. */

muster_status queue_say_lost(struct muster_error *err);
muster_status queue_say_done(struct muster_error *err, muster_status status, muster_status cause);
void queue_stream_make_ready(struct queue_stream *stream);
struct queue_stream *queue_stream_take_ready(struct queue *queue);
void queue_stream_block_on(struct queue_stream *stream, struct queue_stream **list,
                           enum stream_state state);
void queue_stream_unblock(struct queue_stream *stream);
void queue_stream_unblock_all(struct queue_stream **list);
void queue_stream_fail(struct queue_stream *stream, muster_status cause);
muster_status queue_stream_status(const struct queue_stream *stream);
void queue_stream_free(struct queue_stream *stream);
/* The head operation is over: the stream goes on, or rests. */
void queue_stream_step(struct queue_stream *stream);
/*
 * Takes the lock; on success gives the place for the operation, whose kind is set, and keeps the
 * lock until queue_stream_enqueue_end.
 */
muster_status queue_stream_enqueue_begin(struct queue_stream *stream, enum operation_kind kind,
                                         struct operation **out, struct muster_error *err);
void queue_stream_enqueue_end(struct queue_stream *stream);

/* Signals: queue_event.c. */

void queue_signal_unreference(struct queue *queue, struct queue_signal *signal);
void queue_signal_give(struct queue *queue, struct queue_signal *signal, muster_status status,
                       muster_status cause);

/* Ranges: queue_range.c. */

/* Work of the head operation is over with this status. */
void queue_range_finish(struct queue_stream *stream, muster_status *result, muster_status status);
void queue_range_help(struct queue *queue, struct shared_range *shared);
struct shared_range *queue_range_find_shared(struct queue *queue);
/* Carries out a range. Called with the lock, which is not held while the function runs. */
void queue_range_do(struct queue_stream *stream, struct range *range);

/* Takes the next part, items from the range's first; false if there is none. */
bool queue_range_claim(struct shared_range *shared, uint64_t *first, uint64_t *count);
/* Wakes other workers to do a range with the one that calls. */
void queue_range_share(struct queue *queue, struct shared_range *shared);
/* Waits for those who help. */
void queue_range_join(struct queue *queue, struct shared_range *shared);
/* The first this many items have been done since then: whether the rest is worth waking others for. */
bool queue_range_is_worth_sharing(const struct shared_range *shared, uint64_t done,
                                  uint64_t begin_ns);

/* Pieces: queue_pieces.c. */

/* Whether a launch in pieces is one that can be run. */
/* Whether the launch changes arrays in pieces; else its pieces are only for stopping it. */
bool queue_pieces_has_arrays(const struct muster_launch_desc *launch);
muster_status queue_pieces_check(const struct muster_launch_desc *launch, struct muster_error *err);
/* Notes which arguments come in pieces, and their grain. */
void queue_pieces_plan(struct range *range, const struct muster_launch_desc *launch);
/* How many items a worker claims at once, at most. */
uint64_t queue_pieces_chunk(const struct range *range);
/* Memory to save in, NULL if there is none; the lock is held. */
struct queue_scratch *queue_scratch_take(struct queue *queue);
void queue_scratch_give(struct queue *queue, struct queue_scratch *scratch);
void queue_scratch_free_all(struct queue *queue);
/* Does pieces until none is left. */
void queue_pieces_run(struct queue *queue, struct shared_range *shared,
                      struct queue_scratch *scratch, bool is_first, uint64_t begin_ns);

/* Memory: queue_memory.c. */

void queue_piece_unlink(struct queue_piece *piece);
void queue_piece_free(struct queue_piece *piece);

/* Workers: queue.c. */

muster_status queue_start_workers(struct queue *queue, struct muster_error *err);
/* Called with the lock: wakes a worker for what is ready, if one is idle. */
void queue_wake_worker(struct queue *queue);
/* Around what may never come back: the worker's own steps always do. */
void queue_leave_unlock(struct queue *queue);
void queue_return_lock(struct queue *queue);

#endif
