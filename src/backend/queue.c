/*
 * Streams as queues of operations, carried out by a pool of workers under one short lock.
 *
 * A stream is idle, ready (on the ready list), running (one worker has it), blocked (on a signal or
 * a gate) or delayed (its work is done but a pretended device needs longer). Only its head
 * operation matters, so a stream waits for one thing at a time. Records do not complete events but
 * one-shot signals: a wait holds the signal of the record it is bound to, and so a later record of
 * the same event, on whatever stream, cannot release or hold it.
 *
 * The lock is never held while user code or a copy runs.
 */
#include "backend/queue.h"

#include "base/allocator.h"
#include "base/invariant.h"
#include "base/ring.h"
#include "platform/frame.h"
#include "platform/machine.h"

#include <stdatomic.h>
#include <string.h>

/* A stream's queue starts small and grows as needed; beyond this the caller is told to wait. */
#define OPERATIONS_FIRST 16u
#define OPERATIONS_MAX 65536u
#define ROOM_FOR_RECORD 1u
#define ROOM_FOR_WORK 2u

/*
 * Work that will take longer than this is worth waking other workers for: a wake costs some ten
 * microseconds.
 */
#define SHARE_NS 30000u
/* Parts that each worker's share is cut into, so that workers finish together. */
#define PARTS_PER_WORKER 8u
/* Copies and fills are not cut finer than this. */
#define COPY_GRAIN_BYTES ((uint64_t)256 << 10)

_Static_assert((OPERATIONS_FIRST & (OPERATIONS_FIRST - 1)) == 0, "rings have powers of two");
_Static_assert((OPERATIONS_MAX & (OPERATIONS_MAX - 1)) == 0, "rings have powers of two");

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
    muster_status *result; /* borrowed until the operation has finished */
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
};

/*
 * A range that several workers do together. Lives on the stack of the worker that has the stream.
 */
struct shared_range {
    const struct range *range;
    void *const *args;
    uint64_t part; /* items in each but the last */
    uint32_t part_count;
    _Atomic uint32_t
        next_part; /* relaxed: claims only; what parts write is published by the lock at the join */
    _Atomic int status; /* the first failure; relaxed likewise */
    uint32_t helpers;   /* under the lock */
    struct shared_range *next;
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
    const struct queue_timing *timing;
    void *timing_user;
};

static void lock(struct queue *queue)
{
    platform_mutex_lock(&queue->lock);
}

static void unlock(struct queue *queue)
{
    platform_mutex_unlock(&queue->lock);
}

/* Around what may never come back: the worker's own steps always do. */

static void leave_for_user_code(struct queue *queue)
{
    queue->workers_in_user_code++;
    unlock(queue);
}

static void return_from_user_code(struct queue *queue)
{
    lock(queue);
    queue->workers_in_user_code--;
}

static muster_status say_lost(struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_DEVICE_LOST, 0,
                             "close the runtime, or go on with other devices",
                             "the device is lost");
}

static muster_status say_stream_failed(struct muster_error *err, muster_status cause)
{
    return muster_error_fill(
        err, MUSTER_E_STREAM_FAILED, 0, "release the stream and acquire another",
        "work on the stream failed with %s (%s); what followed on it was not run",
        muster_status_name(cause), muster_status_message(cause));
}

static muster_status say_done(struct muster_error *err, muster_status status, muster_status cause)
{
    switch (status) {
    case MUSTER_OK:
        return MUSTER_OK;
    case MUSTER_E_STREAM_FAILED:
        return say_stream_failed(err, cause);
    case MUSTER_E_DEVICE_LOST:
        return say_lost(err);
    default:
        return muster_error_fill(err, status, 0, NULL, "%s", muster_status_message(status));
    }
}

/* Lists of streams. */

static void make_ready(struct queue_stream *stream)
{
    struct queue *queue = stream->queue;
    struct ready_list *list = stream->urgent ? &queue->urgent : &queue->ready;
    stream->state = STREAM_READY;
    stream->next = NULL;
    if (list->tail)
        list->tail->next = stream;
    else
        list->head = stream;
    list->tail = stream;
    if (queue->workers_idle > 0)
        platform_condition_wake_one(&queue->work);
}

static struct queue_stream *take_from(struct ready_list *list)
{
    struct queue_stream *stream = list->head;
    if (!stream)
        return NULL;
    list->head = stream->next;
    if (!list->head)
        list->tail = NULL;
    return stream;
}

static struct queue_stream *take_ready(struct queue *queue)
{
    struct queue_stream *stream = take_from(&queue->urgent);
    return stream ? stream : take_from(&queue->ready);
}

static void block_on(struct queue_stream *stream, struct queue_stream **list,
                     enum stream_state state)
{
    stream->state = state;
    stream->list = list;
    stream->next = *list;
    *list = stream;
}

static void unblock(struct queue_stream *stream)
{
    struct queue_stream **at = stream->list;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    stream->list = NULL;
}

static void unblock_all(struct queue_stream **list)
{
    while (*list) {
        struct queue_stream *stream = *list;
        unblock(stream);
        make_ready(stream);
    }
}

/* Signals. */

static struct queue_signal *signal_take(struct queue *queue)
{
    struct queue_signal *signal = queue->free_signals;
    if (signal)
        queue->free_signals = signal->next_free;
    else
        signal = allocator_take(&queue->allocator, 1, sizeof *signal);
    if (signal)
        *signal = (struct queue_signal){ .references = 1 };
    return signal;
}

static void signal_unreference(struct queue *queue, struct queue_signal *signal)
{
    if (!signal || --signal->references > 0)
        return;
    INVARIANT(!signal->waiting);
    signal->next_free = queue->free_signals;
    queue->free_signals = signal;
}

static void signal_give(struct queue *queue, struct queue_signal *signal, muster_status status,
                        muster_status cause)
{
    INVARIANT(!signal->done);
    signal->done = true;
    signal->status = status;
    signal->cause = cause;
    signal->time_ns = platform_clock_ns();
    unblock_all(&signal->waiting);
    if (queue->host_waiters > 0)
        platform_condition_wake_all(&queue->done);
}

/* Streams. */

static void stream_fail(struct queue_stream *stream, muster_status cause)
{
    if (stream->status != MUSTER_OK)
        return;
    stream->status = MUSTER_E_STREAM_FAILED;
    stream->cause = cause;
}

static muster_status stream_status(const struct queue_stream *stream)
{
    return stream->queue->status != MUSTER_OK ? stream->queue->status : stream->status;
}

static void stream_free(struct queue_stream *stream)
{
    struct queue *queue = stream->queue;
    if (queue->abandoned)
        return; /* the allocator was lent until close, and that is over */
    if (stream->previous_all)
        stream->previous_all->next_all = stream->next_all;
    else
        queue->all = stream->next_all;
    if (stream->next_all)
        stream->next_all->previous_all = stream->previous_all;
    allocator_give(&queue->allocator, stream->operations, stream->ring.capacity,
                   sizeof *stream->operations);
    allocator_give(&queue->allocator, stream, 1, sizeof *stream);
}

/* The head operation is over: the stream goes on, or rests. */
static void stream_step(struct queue_stream *stream)
{
    ring_pop(&stream->ring);
    if (ring_count(&stream->ring) > 0) {
        make_ready(stream);
        return;
    }
    stream->state = STREAM_IDLE;
    if (stream->closed)
        stream_free(stream);
}

/* Work of the head operation is over with this status. */
static void finish_range(struct queue_stream *stream, muster_status *result, muster_status status)
{
    if (stream->queue->status != MUSTER_OK)
        status = stream->queue->status;
    /* A kernel may return any status, also one that would mean a lost device if it were ours. */
    if (status != MUSTER_OK && result)
        *result = status;
    else if (status != MUSTER_OK)
        stream_fail(stream, status);
    stream_step(stream);
}

/* Ranges. */

static void share(struct queue *queue, struct shared_range *shared)
{
    lock(queue);
    shared->next = queue->shared;
    queue->shared = shared;
    if (queue->workers_idle > 0)
        platform_condition_wake_all(&queue->work);
    unlock(queue);
}

static void join(struct queue *queue, struct shared_range *shared)
{
    lock(queue);
    struct shared_range **at = &queue->shared;
    while (*at != shared)
        at = &(*at)->next;
    *at = shared->next;
    while (shared->helpers > 0)
        platform_condition_wait(&queue->joined, &queue->lock, UINT64_MAX);
    unlock(queue);
}

/* Does parts until none is left. The first worker shares the rest once it sees that this pays. */
static void run_parts(struct shared_range *shared, bool alone, uint64_t begin_ns,
                      struct queue *queue)
{
    const struct range *range = shared->range;
    struct platform_frame frame = { .kind = FRAME_KERNEL };
    bool is_shared = false;
    platform_frame_enter(&frame);
    for (;;) {
        uint32_t part = atomic_fetch_add_explicit(&shared->next_part, 1, memory_order_relaxed);
        if (part >= shared->part_count ||
            atomic_load_explicit(&shared->status, memory_order_relaxed) != MUSTER_OK)
            break;
        uint64_t first = part * shared->part;
        uint64_t count = range->items - first < shared->part ? range->items - first : shared->part;
        uint64_t begin = range->begin + first;
        int status = range->function(begin, begin + count, shared->args), none = MUSTER_OK;
        if (status != MUSTER_OK)
            atomic_compare_exchange_strong_explicit(&shared->status, &none, status,
                                                    memory_order_relaxed, memory_order_relaxed);
        if (!alone || is_shared || part + 1 >= shared->part_count)
            continue;
        uint64_t left_ns =
            (platform_clock_ns() - begin_ns) / (part + 1) * (shared->part_count - part - 1);
        if (left_ns > SHARE_NS) {
            share(queue, shared);
            is_shared = true;
        }
    }
    platform_frame_leave(&frame);
    if (is_shared)
        join(queue, shared);
}

static void help(struct queue *queue, struct shared_range *shared)
{
    shared->helpers++;
    leave_for_user_code(queue);
    run_parts(shared, false, 0, queue);
    return_from_user_code(queue);
    if (--shared->helpers == 0)
        platform_condition_wake_all(&queue->joined);
}

static struct shared_range *find_shared(struct queue *queue)
{
    struct shared_range *shared = queue->shared;
    while (shared &&
           atomic_load_explicit(&shared->next_part, memory_order_relaxed) >= shared->part_count)
        shared = shared->next;
    return shared;
}

static muster_status run_range(struct queue *queue, struct range *range)
{
    void *args[MUSTER_ARGS_MAX];
    for (uint32_t i = 0; i < range->arg_count; i++)
        args[i] = range->values + range->arg_offsets[i];
    uint64_t part = range->items / (queue->worker_count * PARTS_PER_WORKER);
    if (part < range->grain)
        part = range->grain;
    if (queue->worker_count == 1)
        part = range->items;
    struct shared_range shared = { .range = range, .args = args, .part = part };
    shared.part_count = (uint32_t)(range->items / part + (range->items % part != 0));
    run_parts(&shared, queue->worker_count > 1, platform_clock_ns(), queue);
    return atomic_load_explicit(&shared.status, memory_order_relaxed);
}

/* Carries out a range. Called with the lock, which is not held while the function runs. */
static void do_range(struct queue_stream *stream, struct range *range)
{
    struct queue *queue = stream->queue;
    muster_status status = stream_status(stream);
    if (status != MUSTER_OK) {
        finish_range(stream, range->result, status);
        return;
    }
    struct queue_outcome outcome = { .finish_ns = 0 };
    if (queue->timing)
        outcome = queue->timing->begin(queue->timing_user, platform_clock_ns(), range->work,
                                       range->items);
    if (outcome.status == MUSTER_OK && outcome.finish_ns != UINT64_MAX) {
        leave_for_user_code(queue);
        outcome.status = run_range(queue, range);
        return_from_user_code(queue);
    }
    if (queue->timing && queue->status == MUSTER_OK) {
        /*
         * Also when the time has passed already: whether the device answers at all is looked at
         * when it is due.
         */
        stream->delayed = outcome;
        stream->delayed_result = range->result;
        block_on(stream, &queue->delayed, STREAM_DELAYED);
        return;
    }
    finish_range(stream, range->result, outcome.status);
}

/* Carries out a stream's head operation. Called and left with the lock held. */
static void advance(struct queue_stream *stream)
{
    struct queue *queue = stream->queue;
    stream->state = STREAM_RUNNING;
    /* Copied out: while the lock is not held the ring may grow into other memory. */
    const struct operation *head = &stream->operations[ring_at(&stream->ring, 0)];
    muster_status status = stream_status(stream);
    switch (head->kind) {
    case OPERATION_RANGE: {
        struct range range = head->range;
        do_range(stream, &range);
        return;
    }
    case OPERATION_CALL: {
        void (*function)(void *, muster_status) = head->call.function;
        void *user = head->call.user;
        leave_for_user_code(queue);
        function(user, status);
        return_from_user_code(queue);
        break;
    }
    case OPERATION_RECORD: {
        struct queue_signal *signal = head->signal;
        signal_give(queue, signal, status, stream->cause);
        signal_unreference(queue, signal);
        break;
    }
    case OPERATION_WAIT: {
        struct queue_signal *signal = head->signal;
        if (!signal->done && queue->status == MUSTER_OK) {
            block_on(stream, &signal->waiting, STREAM_BLOCKED);
            return;
        }
        if (signal->done && signal->status != MUSTER_OK)
            stream_fail(stream, signal->cause != MUSTER_OK ? signal->cause : signal->status);
        signal_unreference(queue, signal);
        break;
    }
    case OPERATION_GATE:
        if (head->gate.gate->value < head->gate.value && queue->status == MUSTER_OK) {
            block_on(stream, &head->gate.gate->waiting, STREAM_BLOCKED);
            return;
        }
        break;
    }
    stream_step(stream);
}

/* Pretended time. */

static void lose(struct queue *queue)
{
    if (queue->status != MUSTER_OK)
        return;
    queue->status = MUSTER_E_DEVICE_LOST;
    for (struct queue_stream *stream = queue->all, *next; stream; stream = next) {
        next = stream->next_all;
        if (stream->state == STREAM_BLOCKED) {
            unblock(stream);
            make_ready(stream);
        } else if (stream->state == STREAM_DELAYED) {
            unblock(stream);
            finish_range(stream, stream->delayed_result, MUSTER_E_DEVICE_LOST);
        }
    }
}

/* Lets what is due finish. Gives when to come back. */
static uint64_t pass_time(struct queue *queue)
{
    if (!queue->timing)
        return UINT64_MAX;
    uint64_t now_ns = platform_clock_ns(), again_ns;
    muster_status health = queue->timing->look(queue->timing_user, now_ns, &again_ns);
    if (health == MUSTER_E_DEVICE_LOST) {
        lose(queue);
        return UINT64_MAX;
    }
    if (health != MUSTER_OK)
        return again_ns;
    for (struct queue_stream *stream = queue->delayed, *next; stream; stream = next) {
        next = stream->next;
        if (stream->delayed.finish_ns <= now_ns) {
            unblock(stream);
            finish_range(stream, stream->delayed_result, stream->delayed.status);
        } else if (stream->delayed.finish_ns < again_ns) {
            again_ns = stream->delayed.finish_ns;
        }
    }
    return again_ns;
}

/* Workers. */

static void work(void *argument)
{
    struct queue *queue = argument;
    lock(queue);
    while (!queue->closing) {
        uint64_t again_ns = pass_time(queue);
        struct shared_range *shared = find_shared(queue);
        struct queue_stream *stream = shared ? NULL : take_ready(queue);
        if (shared) {
            help(queue, shared);
        } else if (stream) {
            advance(stream);
        } else {
            queue->workers_idle++;
            platform_condition_wait(&queue->work, &queue->lock, again_ns);
            queue->workers_idle--;
        }
    }
    queue->workers_left++;
    platform_condition_wake_all(&queue->done);
    unlock(queue);
}

static muster_status start_workers(struct queue *queue, struct muster_error *err)
{
    /* Called by stream_open only, which the runtime may call from several threads at once. */
    muster_status status = MUSTER_OK;
    lock(queue);
    while (status == MUSTER_OK && queue->workers_started < queue->worker_count) {
        status =
            platform_thread_start(&queue->workers[queue->workers_started], work, queue,
                                  queue->thread_name, queue->has_cores ? &queue->cores : NULL, err);
        if (status == MUSTER_OK)
            queue->workers_started++;
    }
    unlock(queue);
    return status;
}

muster_status queue_create(struct queue **out, const struct queue_options *options,
                           struct muster_error *err)
{
    INVARIANT(options->worker_count > 0);
    struct queue *queue = allocator_take(options->allocator, 1, sizeof *queue);
    if (!queue)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL,
                                 "no memory for a device's queue");
    queue->allocator = *options->allocator;
    queue->worker_count = options->worker_count;
    queue->timing = options->timing;
    queue->timing_user = options->timing_user;
    queue->priority_greatest = options->priority_greatest;
    strncpy(queue->thread_name, options->thread_name, sizeof queue->thread_name - 1);
    queue->has_cores = options->cores != NULL;
    if (options->cores)
        queue->cores = *options->cores;
    muster_status status;
    queue->workers = allocator_take(&queue->allocator, queue->worker_count, sizeof *queue->workers);
    if (!queue->workers) {
        status =
            muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a device's workers");
        goto no_workers;
    }
    if ((status = platform_mutex_init(&queue->lock, err)) != MUSTER_OK)
        goto no_lock;
    if ((status = platform_condition_init(&queue->work, err)) != MUSTER_OK)
        goto no_work;
    if ((status = platform_condition_init(&queue->joined, err)) != MUSTER_OK)
        goto no_joined;
    if ((status = platform_condition_init(&queue->done, err)) != MUSTER_OK)
        goto no_done;
    *out = queue;
    return MUSTER_OK;
no_done:
    platform_condition_deinit(&queue->joined);
no_joined:
    platform_condition_deinit(&queue->work);
no_work:
    platform_mutex_deinit(&queue->lock);
no_lock:
    allocator_give(&queue->allocator, queue->workers, queue->worker_count, sizeof *queue->workers);
no_workers:
    allocator_give(options->allocator, queue, 1, sizeof *queue);
    return status;
}

/* Memory. */

static void piece_unlink(struct queue_piece *piece)
{
    if (piece->previous)
        piece->previous->next = piece->next;
    else
        piece->queue->pieces = piece->next;
    if (piece->next)
        piece->next->previous = piece->previous;
}

static void piece_free(struct queue_piece *piece)
{
    platform_memory_give(piece->memory, piece->bytes);
    allocator_give(&piece->queue->allocator, piece, 1, sizeof *piece);
}

/* Ends every operation that is left, after the workers have gone. */
static void drop_stream(struct queue *queue, struct queue_stream *stream)
{
    if (stream->list)
        unblock(stream);
    if (stream->state == STREAM_DELAYED) {
        if (stream->delayed_result)
            *stream->delayed_result = MUSTER_E_DEVICE_HUNG;
        ring_pop(&stream->ring);
    }
    while (ring_count(&stream->ring) > 0) {
        struct operation *operation = &stream->operations[ring_pop(&stream->ring)];
        if (operation->kind == OPERATION_CALL)
            operation->call.function(operation->call.user, MUSTER_E_DEVICE_HUNG);
        else if (operation->kind == OPERATION_RANGE && operation->range.result)
            *operation->range.result = MUSTER_E_DEVICE_HUNG;
        else if (operation->kind == OPERATION_RECORD || operation->kind == OPERATION_WAIT)
            signal_unreference(queue, operation->signal);
    }
    stream_free(stream);
}

muster_status queue_destroy(struct queue *queue, uint64_t grace_ns)
{
    uint64_t deadline_ns = platform_deadline_ns(grace_ns);
    lock(queue);
    queue->closing = true;
    platform_condition_wake_all(&queue->work);
    /* On a busy machine a worker that only has to leave may take longer than any grace. */
    bool in_time = true;
    while (queue->workers_left < queue->workers_started && in_time)
        in_time =
            platform_condition_wait(&queue->done, &queue->lock,
                                    queue->workers_in_user_code > 0 ? deadline_ns : UINT64_MAX) ||
            queue->workers_in_user_code == 0;
    queue->abandoned = queue->workers_left < queue->workers_started;
    unlock(queue);
    if (queue->abandoned) {
        for (uint32_t i = 0; i < queue->workers_started; i++)
            platform_thread_detach(&queue->workers[i]);
        return MUSTER_E_DEVICE_HUNG;
    }
    for (uint32_t i = 0; i < queue->workers_started; i++)
        platform_thread_join(&queue->workers[i]);
    while (queue->all)
        drop_stream(queue, queue->all);
    while (queue->free_signals) {
        struct queue_signal *signal = queue->free_signals;
        queue->free_signals = signal->next_free;
        allocator_give(&queue->allocator, signal, 1, sizeof *signal);
    }
    while (queue->pieces) {
        struct queue_piece *piece = queue->pieces;
        piece_unlink(piece);
        piece_free(piece);
    }
    platform_condition_deinit(&queue->done);
    platform_condition_deinit(&queue->joined);
    platform_condition_deinit(&queue->work);
    platform_mutex_deinit(&queue->lock);
    struct muster_allocator allocator = queue->allocator;
    allocator_give(&allocator, queue->workers, queue->worker_count, sizeof *queue->workers);
    allocator_give(&allocator, queue, 1, sizeof *queue);
    return MUSTER_OK;
}

muster_status queue_check(struct queue *queue, struct muster_error *err)
{
    lock(queue);
    muster_status status = queue->status;
    unlock(queue);
    return status != MUSTER_OK ? say_lost(err) : MUSTER_OK;
}

void queue_lock(struct queue *queue)
{
    lock(queue);
}

void queue_unlock(struct queue *queue)
{
    unlock(queue);
}

static struct queue *queue_of_device(void *device)
{
    return ((struct queue_device_state *)device)->queue;
}

static struct queue_stream *stream_of(void *stream)
{
    return ((struct queue_stream_state *)stream)->stream;
}

muster_status queue_stream_open(void *device, int32_t priority, int is_default, void *state,
                                struct muster_error *err)
{
    struct queue *queue = queue_of_device(device);
    (void)is_default; /* host threads have no stream that comes before all others */
    if (priority > 0 || priority < queue->priority_greatest)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "ask for a priority the device has",
                                 "priority %d was asked for; the device has %d (most urgent) to 0",
                                 priority, queue->priority_greatest);
    muster_status status = start_workers(queue, err);
    if (status != MUSTER_OK)
        return status;
    struct queue_stream *stream = allocator_take(&queue->allocator, 1, sizeof *stream);
    struct operation *operations =
        allocator_take(&queue->allocator, OPERATIONS_FIRST, sizeof *operations);
    lock(queue);
    if (queue->status != MUSTER_OK)
        status = say_lost(err);
    else if (!stream || !operations)
        status =
            muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a stream's queue");
    if (status != MUSTER_OK) {
        unlock(queue);
        allocator_give(&queue->allocator, operations, OPERATIONS_FIRST, sizeof *operations);
        allocator_give(&queue->allocator, stream, 1, sizeof *stream);
        return status;
    }
    stream->queue = queue;
    stream->urgent = priority < 0;
    stream->operations = operations;
    ring_init(&stream->ring, OPERATIONS_FIRST);
    stream->next_all = queue->all;
    if (queue->all)
        queue->all->previous_all = stream;
    queue->all = stream;
    unlock(queue);
    ((struct queue_stream_state *)state)->stream = stream;
    return MUSTER_OK;
}

void queue_stream_close(void *state)
{
    struct queue_stream *stream = stream_of(state);
    struct queue *queue = stream->queue;
    lock(queue);
    stream->closed = true;
    if (stream->state == STREAM_IDLE)
        stream_free(stream);
    unlock(queue);
}

void *queue_stream_native(void *stream)
{
    (void)stream;
    return NULL;
}

muster_status queue_stream_query(void *state, struct muster_error *err)
{
    struct queue_stream *stream = stream_of(state);
    struct queue *queue = stream->queue;
    lock(queue);
    /* Also on a lost device: while host code of it still runs, its memory must stay. */
    muster_status status = stream->state == STREAM_IDLE ? stream_status(stream) : MUSTER_E_BUSY;
    muster_status cause = stream->cause;
    unlock(queue);
    return status == MUSTER_E_BUSY ? status : say_done(err, status, cause);
}

static muster_status grow(struct queue *queue, struct queue_stream *stream,
                          struct muster_error *err)
{
    uint32_t before = stream->ring.capacity, count = ring_count(&stream->ring);
    if (before == OPERATIONS_MAX)
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0,
                                 "wait for the stream before giving it more",
                                 "the stream already holds %u unfinished operations", count);
    struct operation *more = allocator_take(&queue->allocator, (size_t)before * 2, sizeof *more);
    if (!more)
        return muster_error_fill(
            err, MUSTER_E_NO_MEMORY, 0, "wait for the stream before giving it more",
            "no memory for more than %u unfinished operations of a stream", before);
    for (uint32_t i = 0; i < count; i++)
        more[i] = stream->operations[ring_at(&stream->ring, i)];
    allocator_give(&queue->allocator, stream->operations, before, sizeof *more);
    stream->operations = more;
    stream->ring = (struct ring){ .capacity = before * 2, .tail = count };
    return MUSTER_OK;
}

/*
 * Takes the lock; on success gives the place for the operation and keeps the lock until
 * enqueue_end. `room` is how many must fit: whoever was given work must be able to record it, so
 * everything but a record leaves a place for one.
 */
static muster_status enqueue_begin(struct queue_stream *stream, uint32_t room,
                                   struct operation **out, struct muster_error *err)
{
    struct queue *queue = stream->queue;
    lock(queue);
    muster_status status = MUSTER_OK;
    if (queue->status != MUSTER_OK)
        status = say_lost(err);
    else if (stream->ring.capacity - ring_count(&stream->ring) < room)
        status = grow(queue, stream, err);
    if (status != MUSTER_OK) {
        unlock(queue);
        return status;
    }
    *out = &stream->operations[ring_at(&stream->ring, ring_count(&stream->ring))];
    return MUSTER_OK;
}

static void enqueue_end(struct queue_stream *stream)
{
    ring_push(&stream->ring);
    if (stream->state == STREAM_IDLE)
        make_ready(stream);
    unlock(stream->queue);
}

muster_status queue_stream_wait(void *state, void *event_state, struct muster_error *err)
{
    struct queue_stream *stream = stream_of(state);
    struct queue_event_state *event = event_state;
    if (event->flags & MUSTER_EVENT_TIMING)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "record an event made for ordering",
                                 "a timing event cannot order streams");
    if (event->queue != stream->queue)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "wait on the host instead",
                                 "a stream cannot wait for an event of another device");
    struct operation *operation;
    muster_status status = enqueue_begin(stream, ROOM_FOR_WORK, &operation, err);
    if (status != MUSTER_OK)
        return status;
    if (!event->signal) {
        unlock(stream->queue);
        return MUSTER_OK;
    }
    operation->kind = OPERATION_WAIT;
    operation->signal = event->signal;
    event->signal->references++;
    enqueue_end(stream);
    return MUSTER_OK;
}

muster_status queue_event_init(void *device, uint32_t flags, void *event_state,
                               struct muster_error *err)
{
    *(struct queue_event_state *)event_state =
        (struct queue_event_state){ .queue = queue_of_device(device), .flags = flags };
    return queue_check(queue_of_device(device), err);
}

void queue_event_deinit(void *event_state)
{
    struct queue_event_state *event = event_state;
    lock(event->queue);
    signal_unreference(event->queue, event->signal);
    unlock(event->queue);
    event->signal = NULL;
}

muster_status queue_event_record(void *event_state, void *state, struct muster_error *err)
{
    struct queue_event_state *event = event_state;
    struct queue_stream *stream = stream_of(state);
    if (event->queue != stream->queue)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "record an event of the stream's device",
                                 "the event belongs to another device than the stream");
    struct operation *operation;
    muster_status status = enqueue_begin(stream, ROOM_FOR_RECORD, &operation, err);
    if (status != MUSTER_OK)
        return status;
    struct queue_signal *signal = signal_take(stream->queue);
    if (!signal) {
        unlock(stream->queue);
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory to record an event");
    }
    signal_unreference(stream->queue, event->signal);
    event->signal = signal;
    signal->references++;
    operation->kind = OPERATION_RECORD;
    operation->signal = signal;
    enqueue_end(stream);
    return MUSTER_OK;
}

muster_status queue_event_wait(void *event_state, uint64_t timeout_ns, struct muster_error *err)
{
    struct queue_event_state *event = event_state;
    struct queue *queue = event->queue;
    uint64_t deadline_ns = timeout_ns > 0 ? platform_deadline_ns(timeout_ns) : 0;
    lock(queue);
    struct queue_signal *signal = event->signal;
    if (!signal) {
        unlock(queue);
        return MUSTER_OK;
    }
    /* Held, so that a record or deinit in the meantime does not take it away. */
    signal->references++;
    queue->host_waiters++;
    bool in_time = timeout_ns > 0;
    while (!signal->done && in_time)
        in_time = platform_condition_wait(&queue->done, &queue->lock, deadline_ns);
    queue->host_waiters--;
    bool done = signal->done;
    muster_status status = signal->status, cause = signal->cause;
    signal_unreference(queue, signal);
    unlock(queue);
    if (!done)
        return muster_error_fill(err, MUSTER_E_TIMEOUT, 0, NULL, "not finished after %llu ms",
                                 (unsigned long long)(timeout_ns / 1000000));
    return say_done(err, status, cause);
}

muster_status queue_event_query(void *event_state, struct muster_error *err)
{
    muster_status status = queue_event_wait(event_state, 0, err);
    return status == MUSTER_E_TIMEOUT ? MUSTER_E_BUSY : status;
}

muster_status queue_event_elapsed(void *begin_state, void *end_state, uint64_t *ns,
                                  struct muster_error *err)
{
    struct queue_event_state *begin = begin_state, *end = end_state;
    if (!(begin->flags & end->flags & MUSTER_EVENT_TIMING))
        return muster_error_fill(err, MUSTER_E_INVALID, 0,
                                 "make both events with MUSTER_EVENT_TIMING",
                                 "an event made for ordering carries no time");
    if (begin->queue != end->queue)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                 "the events belong to two devices");
    lock(begin->queue);
    bool recorded = begin->signal && end->signal;
    bool done = recorded && begin->signal->done && end->signal->done;
    uint64_t from_ns = done ? begin->signal->time_ns : 0, to_ns = done ? end->signal->time_ns : 0;
    unlock(begin->queue);
    if (!recorded)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "record both events",
                                 "an event was never recorded");
    if (!done)
        return MUSTER_E_BUSY;
    *ns = to_ns > from_ns ? to_ns - from_ns : 0;
    return MUSTER_OK;
}

muster_status queue_gate_init(void *device, void *gate, struct muster_error *err)
{
    *(struct queue_gate_state *)gate =
        (struct queue_gate_state){ .queue = queue_of_device(device) };
    return queue_check(queue_of_device(device), err);
}

void queue_gate_deinit(void *gate)
{
    INVARIANT(!((struct queue_gate_state *)gate)->waiting);
    (void)gate;
}

muster_status queue_gate_publish(void *gate_state, uint64_t value, struct muster_error *err)
{
    struct queue_gate_state *gate = gate_state;
    lock(gate->queue);
    if (value > gate->value)
        gate->value = value;
    /* Those still short of their value block again when they are looked at. */
    unblock_all(&gate->waiting);
    unlock(gate->queue);
    return queue_check(gate->queue, err);
}

muster_status queue_gate_wait(void *gate_state, void *state, uint64_t value,
                              struct muster_error *err)
{
    struct queue_stream *stream = stream_of(state);
    if (((struct queue_gate_state *)gate_state)->queue != stream->queue)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "make a gate for each device",
                                 "a stream cannot wait for a gate of another device");
    struct operation *operation;
    muster_status status = enqueue_begin(stream, ROOM_FOR_WORK, &operation, err);
    if (status != MUSTER_OK)
        return status;
    operation->kind = OPERATION_GATE;
    operation->gate.gate = gate_state;
    operation->gate.value = value;
    enqueue_end(stream);
    return MUSTER_OK;
}

muster_status queue_host_call(void *state, void (*function)(void *user, muster_status status),
                              void *user, struct muster_error *err)
{
    struct queue_stream *stream = stream_of(state);
    struct operation *operation;
    muster_status status = enqueue_begin(stream, ROOM_FOR_WORK, &operation, err);
    if (status != MUSTER_OK)
        return status;
    operation->kind = OPERATION_CALL;
    operation->call.function = function;
    operation->call.user = user;
    enqueue_end(stream);
    return MUSTER_OK;
}

muster_status queue_memory_take(struct queue *queue, uint64_t bytes, int32_t node,
                                struct muster_memory *out, struct muster_error *err)
{
    struct queue_piece *piece = allocator_take(&queue->allocator, 1, sizeof *piece);
    if (!piece)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL,
                                 "no memory to keep account of a block");
    void *memory = bytes <= SIZE_MAX ? platform_memory_take((size_t)bytes, node) : NULL;
    if (!memory) {
        allocator_give(&queue->allocator, piece, 1, sizeof *piece);
        return muster_error_fill(err, MUSTER_E_DEVICE_MEMORY, 0,
                                 "free memory, or ask for less at a time",
                                 "the system has no %llu bytes to give", (unsigned long long)bytes);
    }
    *piece = (struct queue_piece){ .queue = queue, .memory = memory, .bytes = (size_t)bytes };
    lock(queue);
    muster_status status = queue->status != MUSTER_OK ? say_lost(err) : MUSTER_OK;
    if (status == MUSTER_OK) {
        piece->next = queue->pieces;
        if (queue->pieces)
            queue->pieces->previous = piece;
        queue->pieces = piece;
    }
    unlock(queue);
    if (status != MUSTER_OK) {
        platform_memory_give(memory, (size_t)bytes);
        allocator_give(&queue->allocator, piece, 1, sizeof *piece);
        return status;
    }
    *out = (struct muster_memory){ .address = (uintptr_t)memory, .object = piece, .bytes = bytes };
    return MUSTER_OK;
}

static void give_piece(void *user, muster_status status)
{
    struct queue_piece *piece = user;
    struct queue *queue = piece->queue;
    (void)
        status; /* the stream got here, so nothing runs on the memory any more, however it ended */
    lock(queue);
    piece_unlink(piece);
    unlock(queue);
    piece_free(piece);
}

muster_status queue_memory_give(struct queue *queue, void *stream, struct muster_memory *memory,
                                struct muster_error *err)
{
    struct queue_piece *piece = memory->object;
    INVARIANT(piece->queue == queue);
    muster_status status = queue_check(queue, err);
    if (status != MUSTER_OK)
        return status;
    if (stream)
        return queue_host_call(stream, give_piece, piece, err);
    give_piece(piece, MUSTER_OK);
    return MUSTER_OK;
}

/* Appends an argument's value; the caller has made sure that it fits. */
static void add_value(struct range *range, size_t *filled, const void *value, size_t bytes)
{
    range->arg_offsets[range->arg_count++] = (uint16_t)*filled;
    memcpy(range->values + *filled, value, bytes);
    *filled += (bytes + 15) & ~(size_t)15; /* so that any scalar is aligned */
}

static void *address_of(const struct muster_place *place)
{
    return place->memory ? (char *)(uintptr_t)place->memory->address + place->offset : place->host;
}

static muster_status copy_bytes(uint64_t begin, uint64_t end, void *const *args)
{
    char *to = *(char *const *)args[0];
    const char *from = *(const char *const *)args[1];
    memcpy(to + begin, from + begin, end - begin);
    return MUSTER_OK;
}

static muster_status fill_bytes(uint64_t begin, uint64_t end, void *const *args)
{
    char *to = *(char *const *)args[0];
    memset(to + begin, *(const uint8_t *)args[1], end - begin);
    return MUSTER_OK;
}

muster_status queue_copy(void *state, const struct muster_copy_desc *copy, struct muster_error *err)
{
    struct queue_stream *stream = stream_of(state);
    struct operation *operation;
    muster_status status = enqueue_begin(stream, ROOM_FOR_WORK, &operation, err);
    if (status != MUSTER_OK)
        return status;
    operation->kind = OPERATION_RANGE;
    operation->range =
        (struct range){ .function = copy_bytes, .items = copy->bytes, .grain = COPY_GRAIN_BYTES };
    operation->range.work = !copy->from.memory ? QUEUE_COPY_IN
                            : !copy->to.memory ? QUEUE_COPY_OUT
                                               : QUEUE_COPY_INSIDE;
    size_t filled = 0;
    void *to = address_of(&copy->to), *from = address_of(&copy->from);
    add_value(&operation->range, &filled, &to, sizeof to);
    add_value(&operation->range, &filled, &from, sizeof from);
    enqueue_end(stream);
    return MUSTER_OK;
}

muster_status queue_fill(void *state, const struct muster_place *place, uint8_t value,
                         uint64_t bytes, struct muster_error *err)
{
    struct queue_stream *stream = stream_of(state);
    struct operation *operation;
    muster_status status = enqueue_begin(stream, ROOM_FOR_WORK, &operation, err);
    if (status != MUSTER_OK)
        return status;
    operation->kind = OPERATION_RANGE;
    operation->range = (struct range){
        .function = fill_bytes, .items = bytes, .grain = COPY_GRAIN_BYTES, .work = QUEUE_COPY_INSIDE
    };
    size_t filled = 0;
    void *to = address_of(place);
    add_value(&operation->range, &filled, &to, sizeof to);
    add_value(&operation->range, &filled, &value, sizeof value);
    enqueue_end(stream);
    return MUSTER_OK;
}

muster_status queue_kernel_init(void *device, const struct muster_kernel_form *form, void *kernel,
                                struct muster_error *err)
{
    if (form->kind != MUSTER_KERNEL_FUNCTION || !form->function)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "give the kernel as a C function",
                                 "this device runs C functions only");
    ((struct queue_kernel_state *)kernel)->function = form->function;
    return queue_check(queue_of_device(device), err);
}

void queue_kernel_deinit(void *kernel)
{
    (void)kernel;
}

static muster_status enqueue_launch(struct queue_stream *stream, muster_kernel_function function,
                                    const struct muster_launch_desc *launch,
                                    struct muster_error *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < launch->arg_count; i++)
        bytes += launch->args[i].memory ? sizeof(void *) : launch->args[i].bytes;
    if (launch->arg_count > MUSTER_ARGS_MAX || bytes > MUSTER_ARG_BYTES_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "put large arguments into a block",
                                 "%zu arguments of %zu bytes; at most %d of %d", launch->arg_count,
                                 bytes, MUSTER_ARGS_MAX, MUSTER_ARG_BYTES_MAX);
    struct operation *operation;
    muster_status status = enqueue_begin(stream, ROOM_FOR_WORK, &operation, err);
    if (status != MUSTER_OK)
        return status;
    operation->kind = OPERATION_RANGE;
    struct range *range = &operation->range;
    *range = (struct range){ .function = function,
                             .begin = launch->begin,
                             .items = launch->items,
                             .grain = 1,
                             .work = QUEUE_COMPUTE,
                             .result = launch->result };
    size_t filled = 0;
    for (size_t i = 0; i < launch->arg_count; i++) {
        const struct muster_launch_arg *arg = &launch->args[i];
        char *address = arg->memory ? (char *)(uintptr_t)arg->memory->address + arg->offset : NULL;
        if (arg->memory)
            add_value(range, &filled, &address, sizeof address);
        else
            add_value(range, &filled, arg->value, arg->bytes);
    }
    enqueue_end(stream);
    return MUSTER_OK;
}

muster_status queue_launch(void *state, void *kernel, const struct muster_launch_desc *launches,
                           size_t count, struct muster_error *err)
{
    muster_kernel_function function = ((struct queue_kernel_state *)kernel)->function;
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++)
        status = enqueue_launch(stream_of(state), function, &launches[i], err);
    return status;
}
