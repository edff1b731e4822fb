/*
 * What is in flight: events, recycled, and the operations they stand behind. An operation is
 * counted as given when it is given and as finished when somebody first sees that it is: when its
 * stream is waited for or queried, when load is asked for, a stream acquired, or a flight needed.
 */
#include "run/device/stream.h"

#include "base/allocator.h"
#include "base/invariant.h"

muster_status event_take(struct run_device *device, struct run_event **out,
                         struct muster_error *err)
{
    struct muster *m = device->m;
    run_lock(m);
    struct run_event *event = device->free_events;
    if (event)
        device->free_events = event->next_free;
    run_unlock(m);
    if (!event) {
        event = allocator_take(&m->allocator, 1, sizeof *event);
        void *state = allocator_take(&m->allocator, 1, device->backend->table.event_bytes);
        muster_status status = event && state
                                   ? device_note(device,
                                                 device->backend->table.event_init(
                                                     device->state, MUSTER_EVENT_ORDER, state, err),
                                                 err)
                                   : run_no_memory(err, "an event");
        if (status != MUSTER_OK) {
            allocator_give(&m->allocator, state, 1, device->backend->table.event_bytes);
            allocator_give(&m->allocator, event, 1, sizeof *event);
            return status;
        }
        event->state = state;
        run_lock(m);
        event->next_all = device->events;
        device->events = event;
        run_unlock(m);
    }
    event->references = 1;
    event->has_failed = false;
    *out = event;
    return MUSTER_OK;
}

void event_unreference_locked(struct run_device *device, struct run_event *event)
{
    INVARIANT(event->references > 0);
    if (--event->references > 0)
        return;
    event->next_free = device->free_events;
    device->free_events = event;
}

void marks_unreference_locked(struct run_device *device, const struct tracker_marks *marks)
{
    for (uint32_t i = 0; i < marks->count; i++)
        event_unreference_locked(device, marks->marks[i].event);
}

void events_destroy(struct run_device *device)
{
    timing_marks_destroy(device);
    device->free_events = NULL;
    /* Lanes that a hung device has left behind still have theirs, and do not use them any more. */
    while (device->events) {
        struct run_event *event = device->events;
        device->events = event->next_all;
        device->backend->table.event_deinit(event->state);
        allocator_give(&device->m->allocator, event->state, 1, device->backend->table.event_bytes);
        allocator_give(&device->m->allocator, event, 1, sizeof *event);
    }
}

struct flight *flight_take(struct run_device *device, struct muster_error *err)
{
    struct muster *m = device->m;
    run_lock(m);
    struct flight *flight = device->free_flights;
    if (flight)
        device->free_flights = flight->next;
    run_unlock(m);
    if (!flight)
        flight = allocator_take(&m->allocator, 1, sizeof *flight);
    if (flight)
        *flight = (struct flight){ .next = NULL };
    else
        run_no_memory(err, "an operation");
    return flight;
}

void flight_give_locked(struct run_device *device, struct flight *flight)
{
    flight->next = device->free_flights;
    device->free_flights = flight;
}

struct throughput_mark unit_begin_locked(struct run_device *device, uint64_t items, uint64_t now_ns)
{
    device->dispatched++;
    device->queued_items += items;
    struct throughput_mark mark = throughput_begin(&device->items, now_ns);
    /* The first is shown at once: the next end may be far off. */
    if (device->items.depth == 1) {
        device->busy_since_ns = now_ns;
        live_device_locked(device);
    }
    return mark;
}

void unit_end_locked(struct run_device *device, struct throughput_mark mark, uint64_t items,
                     enum load_end how, uint64_t now_ns)
{
    bool is_done = how == LOAD_DONE || how == LOAD_UNTIMED;
    throughput_end(&device->items, now_ns, mark, how == LOAD_DONE ? items : 0);
    if (device->items.depth == 0 && device->busy_since_ns > 0) {
        device->busy_ns += now_ns > device->busy_since_ns ? now_ns - device->busy_since_ns : 0;
        device->busy_since_ns = 0;
    }
    device->queued_items -= items;
    device->completed += is_done;
    device->failed += how == LOAD_FAILED;
    device->dispatched -= how == LOAD_WITHDRAWN;
    if (is_done && device->health == MUSTER_HEALTH_SUSPECT)
        device->health = MUSTER_HEALTH_OK;
}

void flight_begin_locked(struct run_stream *stream, struct flight *flight)
{
    struct run_device *device = stream->device;
    uint64_t now_ns = platform_clock_ns();
    if (flight->is_unit) {
        flight->mark = unit_begin_locked(device, flight->amount, now_ns);
    } else {
        device->bytes_in_flight += flight->amount;
        flight->mark = throughput_begin(&device->bytes, now_ns);
    }
    flight->next = NULL;
    device->streams_active += stream->oldest == NULL;
    if (stream->newest)
        stream->newest->next = flight;
    else
        stream->oldest = flight;
    stream->newest = flight;
    device_view_locked(device);
}

/* The stream's oldest operation has ended with this status. */
static void finish_oldest_locked(struct run_stream *stream, muster_status status)
{
    struct run_device *device = stream->device;
    struct flight *flight = stream->oldest;
    stream->oldest = flight->next;
    if (!stream->oldest) {
        stream->newest = NULL;
        device->streams_active--;
    }
    flight->event->has_failed = status != MUSTER_OK && run_is_over(status);
    if (status == MUSTER_OK)
        status = flight->result;
    if (flight->user_result)
        *flight->user_result = status;
    uint64_t now_ns = platform_clock_ns();
    bool is_done = status == MUSTER_OK;
    if (flight->is_unit) {
        unit_end_locked(device, flight->mark, flight->amount, is_done ? LOAD_DONE : LOAD_FAILED,
                        now_ns);
    } else {
        throughput_end(&device->bytes, now_ns, flight->mark, is_done ? flight->amount : 0);
        device->bytes_in_flight -= flight->amount;
    }
    if (status == MUSTER_OK && device->health == MUSTER_HEALTH_SUSPECT)
        device->health = MUSTER_HEALTH_OK;
    device_view_locked(device);
    event_unreference_locked(device, flight->event);
    flight_give_locked(device, flight);
}

void flights_retire(struct run_stream *stream)
{
    flights_retire_after(stream, MUSTER_E_BUSY);
}

void flights_retire_after(struct run_stream *stream, muster_status stream_status)
{
    struct run_device *device = stream->device;
    struct muster *m = device->m;
    run_lock(m);
    while (stream->retiring && device->stuck_calls == 0)
        platform_condition_wait(&m->changed, &m->lock, UINT64_MAX);
    /* A driver that does not return from a call is not asked again. */
    if (!stream->oldest || stream->retiring || device->stuck_calls > 0) {
        run_unlock(m);
        return;
    }
    stream->retiring = true;
    while (stream->oldest) {
        struct run_event *event = stream->oldest->event;
        event->references++;
        run_unlock(m);
        muster_status status = device->backend->table.event_query(event->state, NULL);
        run_lock(m);
        bool is_oldest = stream->oldest && stream->oldest->event == event;
        event_unreference_locked(device, event);
        if (!run_is_over(status) && run_is_over(stream_status))
            status = stream_status;
        /* If the answer took so long that the runtime was closed, the operation was ended there. */
        if (!run_is_over(status) || !is_oldest)
            break;
        device_note_locked(device, status, NULL);
        finish_oldest_locked(stream, status);
    }
    stream->retiring = false;
    platform_condition_wake_all(&m->changed);
    run_unlock(m);
}

void flights_retire_all(struct run_device *device)
{
    for (uint32_t i = 0; i < device->stream_count; i++)
        flights_retire(&device->streams[i]);
}

static muster_status say_timed_out(struct run_device *device, struct muster_error *err)
{
    muster_status status = muster_error_fill(
        err, MUSTER_E_TIMEOUT, 0, NULL, "%s has not finished in the time allowed", device->info.id);
    return device_note(device, status, err);
}

/* Polls of a driver that cannot be waited for: after this part of what it has taken so far. */
#define POLLS_PER_WAIT 32u
#define POLL_LEAST_NS 20000u
#define POLL_MOST_NS 2000000u

muster_status stream_drain(struct run_stream *stream, uint64_t deadline_ns,
                           struct muster_error *err)
{
    struct run_device *device = stream->device;
    struct muster *m = device->m;
    const struct muster_backend *table = &device->backend->table;
    uint64_t begin_ns = platform_clock_ns();
    struct muster_error problem = { .size = sizeof problem };
    for (;;) {
        /*
         * The newest operation's event is what to wait for; only work that was enqueued natively
         * has none.
         */
        run_lock(m);
        struct run_event *event = stream->newest ? stream->newest->event : NULL;
        if (event)
            event->references++;
        run_unlock(m);
        uint64_t now_ns = platform_clock_ns();
        uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
        muster_status status;
        if (event) {
            status = table->event_wait(event->state,
                                       deadline_ns == UINT64_MAX ? UINT64_MAX : left_ns, NULL);
            run_lock(m);
            event_unreference_locked(device, event);
            run_unlock(m);
            flights_retire(stream);
            if (status == MUSTER_E_TIMEOUT)
                return say_timed_out(device, err);
        }
        status = table->stream_query(stream->state, &problem);
        if (status != MUSTER_E_BUSY) {
            flights_retire_after(stream, status);
            if (err && status != MUSTER_OK)
                *err = problem;
            return device_note(device, status, err);
        }
        if (left_ns == 0)
            return say_timed_out(device, err);
        /* Parked, not spun: nothing wakes this but the clock. */
        now_ns = platform_clock_ns();
        uint64_t pause_ns = (now_ns - begin_ns) / POLLS_PER_WAIT;
        pause_ns = pause_ns < POLL_LEAST_NS  ? POLL_LEAST_NS
                   : pause_ns > POLL_MOST_NS ? POLL_MOST_NS
                                             : pause_ns;
        uint64_t until_ns = now_ns + pause_ns;
        run_lock(m);
        platform_condition_wait(&m->changed, &m->lock,
                                until_ns < deadline_ns ? until_ns : deadline_ns);
        run_unlock(m);
    }
}

void flights_end(struct run_device *device)
{
    struct muster *m = device->m;
    for (uint32_t i = 0; i < device->stream_count; i++) {
        struct run_stream *stream = &device->streams[i];
        flights_retire(stream);
        run_lock(m);
        while (stream->oldest)
            finish_oldest_locked(stream, MUSTER_E_DEVICE_HUNG);
        run_unlock(m);
    }
}

void flights_destroy(struct run_device *device)
{
    struct muster *m = device->m;
    while (device->free_flights) {
        struct flight *flight = device->free_flights;
        device->free_flights = flight->next;
        allocator_give(&m->allocator, flight, 1, sizeof *flight);
    }
}
