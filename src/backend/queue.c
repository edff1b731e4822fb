/*
 * The workers that carry out what streams hold, and the life of a queue.
 */
#include "backend/queue_state.h"
#include "base/allocator.h"
#include "base/invariant.h"

#include <string.h>

/*
 * A worker that makes streams ready goes on with one of them itself, and wakes nobody for a record or a
 * wait. It wakes another for what else is ready when it leaves for longer, and so does a thread that is
 * not a worker when it has made a stream ready.
 */
void queue_wake_worker(struct queue *queue)
{
    if (queue->workers_idle > 0 && (queue->urgent.head || queue->ready.head))
        platform_condition_wake_one(&queue->work);
}

void queue_leave_unlock(struct queue *queue)
{
    queue_wake_worker(queue);
    queue->workers_in_user_code++;
    unlock(queue);
}

void queue_return_lock(struct queue *queue)
{
    lock(queue);
    queue->workers_in_user_code--;
}

/* Carries out a stream's head operation. Called and left with the lock held. */
static void advance(struct queue_stream *stream)
{
    struct queue *queue = stream->queue;
    stream->state = STREAM_RUNNING;
    /* Copied out: while the lock is not held the ring may grow into other memory. */
    const struct operation *head = &stream->operations[ring_at(&stream->ring, 0)];
    muster_status status = queue_stream_status(stream);
    switch (head->kind) {
    case OPERATION_RANGE: {
        struct range range = head->range;
        queue_range_do(stream, &range);
        return;
    }
    case OPERATION_CALL: {
        void (*function)(void *, muster_status) = head->call.function;
        void *user = head->call.user;
        queue_leave_unlock(queue);
        function(user, status);
        queue_return_lock(queue);
        break;
    }
    case OPERATION_RECORD: {
        struct queue_signal *signal = head->signal;
        queue_signal_give(queue, signal, status, stream->cause);
        queue_signal_unreference(queue, signal);
        break;
    }
    case OPERATION_WAIT: {
        struct queue_signal *signal = head->signal;
        if (!signal->done && queue->status == MUSTER_OK) {
            queue_stream_block_on(stream, &signal->waiting, STREAM_BLOCKED);
            return;
        }
        if (signal->done && signal->status != MUSTER_OK)
            queue_stream_fail(stream, signal->cause != MUSTER_OK ? signal->cause : signal->status);
        queue_signal_unreference(queue, signal);
        break;
    }
    case OPERATION_GATE:
        if (head->gate.gate->value < head->gate.value && queue->status == MUSTER_OK) {
            queue_stream_block_on(stream, &head->gate.gate->waiting, STREAM_BLOCKED);
            return;
        }
        break;
    }
    queue_stream_step(stream);
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
            queue_stream_unblock(stream);
            queue_stream_make_ready(stream);
        } else if (stream->state == STREAM_DELAYED) {
            queue_stream_unblock(stream);
            queue_range_finish(stream, stream->delayed_result, MUSTER_E_DEVICE_LOST);
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
            queue_stream_unblock(stream);
            queue_range_finish(stream, stream->delayed_result, stream->delayed.status);
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
        struct shared_range *shared = queue_range_find_shared(queue);
        struct queue_stream *stream = shared ? NULL : queue_stream_take_ready(queue);
        if (shared) {
            queue_range_help(queue, shared);
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

muster_status queue_start_workers(struct queue *queue, struct muster_error *err)
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
    if ((status = platform_mutex_init_brief(&queue->lock, err)) != MUSTER_OK)
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

/* Ends every operation that is left, after the workers have gone. */
static void drop_stream(struct queue *queue, struct queue_stream *stream)
{
    if (stream->list)
        queue_stream_unblock(stream);
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
            queue_signal_unreference(queue, operation->signal);
    }
    queue_stream_free(stream);
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
    queue_scratch_free_all(queue);
    while (queue->pieces) {
        struct queue_piece *piece = queue->pieces;
        queue_piece_unlink(piece);
        queue_piece_free(piece);
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
    return status != MUSTER_OK ? queue_say_lost(err) : MUSTER_OK;
}

void queue_lock(struct queue *queue)
{
    lock(queue);
}

void queue_unlock(struct queue *queue)
{
    unlock(queue);
}
