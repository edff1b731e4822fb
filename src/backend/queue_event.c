/*
 * Events, the signals of their records, and gates.
 */
#include "backend/queue_state.h"
#include "base/allocator.h"
#include "base/invariant.h"

static struct queue_signal *queue_signal_take(struct queue *queue)
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

void queue_signal_unreference(struct queue *queue, struct queue_signal *signal)
{
    if (!signal || --signal->references > 0)
        return;
    INVARIANT(!signal->waiting);
    signal->next_free = queue->free_signals;
    queue->free_signals = signal;
}

void queue_signal_give(struct queue *queue, struct queue_signal *signal, muster_status status,
                       muster_status cause)
{
    INVARIANT(!signal->done);
    signal->done = true;
    signal->status = status;
    signal->cause = cause;
    signal->time_ns = platform_clock_ns();
    queue_stream_unblock_all(&signal->waiting);
    if (queue->host_waiters > 0)
        platform_condition_wake_all(&queue->done);
}

/* Events. */

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
    muster_status status = queue_stream_enqueue_begin(stream, OPERATION_WAIT, &operation, err);
    if (status != MUSTER_OK)
        return status;
    if (!event->signal) {
        unlock(stream->queue);
        return MUSTER_OK;
    }
    operation->signal = event->signal;
    event->signal->references++;
    queue_stream_enqueue_end(stream);
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
    queue_signal_unreference(event->queue, event->signal);
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
    muster_status status = queue_stream_enqueue_begin(stream, OPERATION_RECORD, &operation, err);
    if (status != MUSTER_OK)
        return status;
    struct queue_signal *signal = queue_signal_take(stream->queue);
    if (!signal) {
        unlock(stream->queue);
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory to record an event");
    }
    queue_signal_unreference(stream->queue, event->signal);
    event->signal = signal;
    signal->references++;
    operation->signal = signal;
    queue_stream_enqueue_end(stream);
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
    queue_signal_unreference(queue, signal);
    unlock(queue);
    if (!done)
        return muster_error_fill(err, MUSTER_E_TIMEOUT, 0, NULL, "not finished after %llu ms",
                                 (unsigned long long)(timeout_ns / 1000000));
    return queue_say_done(err, status, cause);
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

/* Gates. */

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
    queue_stream_unblock_all(&gate->waiting);
    queue_wake_worker(gate->queue);
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
    muster_status status = queue_stream_enqueue_begin(stream, OPERATION_GATE, &operation, err);
    if (status != MUSTER_OK)
        return status;
    operation->gate.gate = gate_state;
    operation->gate.value = value;
    queue_stream_enqueue_end(stream);
    return MUSTER_OK;
}
