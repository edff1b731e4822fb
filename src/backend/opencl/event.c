/*
 * Events: a cl_event is one record and cannot be used again, so each record replaces it, and
 * waiters hold references of their own. The driver keeps and recycles them; nothing is allocated
 * here.
 *
 * Nobody waits inside the driver, which knows no time-out. A waiting thread looks for a while and then
 * sleeps until the bell is rung, by the driver's callback where it makes one: PoCL 3.1 makes none
 * for a command that failed, NVIDIA's driver none in a context that is lost. So a sleeper looks
 * again now and then.
 */
#include "backend/opencl/device.h"

#include "base/allocator.h"

/* Looks that are cheaper than going to sleep. */
#define SPIN_NS 20000u

void opencl_release(const struct opencl_device *device, opencl_event event)
{
    if (event)
        opencl_of(device)->clReleaseEvent(event);
}

opencl_int opencl_event_code(const struct opencl_device *device, opencl_event event)
{
    opencl_int status = OPENCL_COMPLETE;
    opencl_int code = opencl_of(device)->clGetEventInfo(
        event, OPENCL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
    return code != OPENCL_SUCCESS ? code : status;
}

/* How a launch that is over, or will never be, went for the one who asks for its result. */
static muster_status result_of(const struct opencl_device *device,
                               const struct opencl_result *result, bool is_lost)
{
    if (is_lost)
        return MUSTER_E_DEVICE_LOST;
    bool was_skipped =
        result->before && opencl_event_code(device, result->before) < OPENCL_COMPLETE;
    return was_skipped ? MUSTER_E_STREAM_FAILED : MUSTER_E_FAILED;
}

void opencl_settle_results(struct opencl_device *device)
{
    bool is_lost = opencl_check(device, NULL) != MUSTER_OK;
    platform_mutex_lock(&device->lock);
    struct opencl_result **at = &device->results, *kept = NULL;
    while (*at) {
        struct opencl_result *result = *at;
        opencl_int code = opencl_event_code(device, result->event);
        if (code > OPENCL_COMPLETE && !is_lost) {
            kept = result;
            at = &result->next;
            continue;
        }
        /* One that went well is not touched: its owner may have seen that, and be gone. */
        if (code != OPENCL_COMPLETE)
            *result->result = result_of(device, result, is_lost);
        opencl_release(device, result->event);
        opencl_release(device, result->before);
        *at = result->next;
        result->next = device->free_results;
        device->free_results = result;
    }
    device->last_result = kept;
    platform_mutex_unlock(&device->lock);
}

muster_status opencl_judge(struct opencl_device *device, opencl_int code, struct muster_error *err)
{
    if (code == OPENCL_COMPLETE)
        return MUSTER_OK;
    muster_status status = opencl_check(device, err);
    if (status == MUSTER_OK && code > OPENCL_COMPLETE)
        return MUSTER_E_BUSY;
    if (status == MUSTER_OK)
        status = opencl_refused(device, code, "a command", err);
    opencl_settle_results(device);
    if (status == MUSTER_E_DEVICE_LOST)
        return status;
    return muster_error_fill(err, MUSTER_E_STREAM_FAILED, code,
                             "release the stream and acquire another",
                             "work on the stream failed (%d, %s); what followed on it was not run",
                             (int)code, opencl_code_name(code));
}

muster_status opencl_observe(struct opencl_device *device, opencl_event event,
                             struct muster_error *err)
{
    return opencl_judge(device, opencl_event_code(device, event), err);
}

muster_status opencl_event_init(void *device_state, uint32_t flags, void *state,
                                struct muster_error *err)
{
    struct opencl_device *device = device_state;
    *(struct opencl_event_state *)state =
        (struct opencl_event_state){ .device = device, .flags = flags };
    return opencl_check(device, err);
}

void opencl_event_deinit(void *state)
{
    struct opencl_event_state *event = state;
    platform_mutex_lock(&event->device->lock);
    opencl_event last = event->event;
    event->event = NULL;
    platform_mutex_unlock(&event->device->lock);
    opencl_release(event->device, last);
}

muster_status opencl_event_record(void *state, void *stream_state, struct muster_error *err)
{
    struct opencl_event_state *event = state;
    struct opencl_stream *stream = ((struct opencl_stream_state *)stream_state)->stream;
    struct opencl_device *device = event->device;
    if (device != stream->device)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "record an event of the stream's device",
                                 "the event belongs to another device than the stream");
    muster_status status = opencl_stream_mark(stream, err);
    /* Another queue or the host may wait for it with no further call. */
    if (status == MUSTER_OK)
        status = opencl_stream_flush(stream, err);
    if (status != MUSTER_OK)
        return status;
    opencl_int code = opencl_of(device)->clRetainEvent(stream->tail);
    if (code != OPENCL_SUCCESS)
        return opencl_refused(device, code, "recording an event", err);
    platform_mutex_lock(&device->lock);
    opencl_event before = event->event;
    event->event = stream->tail;
    event->stream = stream;
    event->calls_before = stream->calls_given;
    event->has_callback = false;
    platform_mutex_unlock(&device->lock);
    opencl_release(device, before);
    return MUSTER_OK;
}

/* One record of an event, as it was when it was looked at. */
struct record {
    opencl_event event;
    const struct opencl_stream *stream;
    uint64_t calls_before;
};

/* The stream of a failed record is there until the device is closed. */
static muster_status judge_record(struct opencl_device *device, const struct record *record,
                                  opencl_int code, struct muster_error *err)
{
    if (code < OPENCL_COMPLETE && !device->fails_whole && opencl_check(device, NULL) == MUSTER_OK &&
        atomic_load_explicit(&record->stream->calls_made, memory_order_acquire) <
            record->calls_before)
        return MUSTER_E_BUSY;
    return opencl_judge(device, code, err);
}

static muster_status look(struct opencl_device *device, const struct record *record,
                          struct muster_error *err)
{
    return judge_record(device, record, opencl_event_code(device, record->event), err);
}

/*
 * A reference to the last record, which a record in the meantime does not take away; NULL if there
 * was none.
 */
static muster_status hold(struct opencl_event_state *event, struct record *out,
                          struct muster_error *err)
{
    opencl_int code = OPENCL_SUCCESS;
    platform_mutex_lock(&event->device->lock);
    if (event->event)
        code = opencl_of(event->device)->clRetainEvent(event->event);
    *out = (struct record){ .event = code == OPENCL_SUCCESS ? event->event : NULL,
                            .stream = event->stream,
                            .calls_before = event->calls_before };
    platform_mutex_unlock(&event->device->lock);
    return code == OPENCL_SUCCESS ? MUSTER_OK
                                  : opencl_refused(event->device, code, "looking at an event", err);
}

muster_status opencl_event_query(void *state, struct muster_error *err)
{
    struct opencl_event_state *event = state;
    platform_mutex_lock(&event->device->lock);
    const struct record record = { event->event, event->stream, event->calls_before };
    opencl_int code =
        event->event ? opencl_event_code(event->device, event->event) : OPENCL_COMPLETE;
    platform_mutex_unlock(&event->device->lock);
    return judge_record(event->device, &record, code, err);
}

/* Asks for one callback for each record, however often it is waited for. */
static void ask_once(struct opencl_event_state *event, opencl_event last)
{
    platform_mutex_lock(&event->device->lock);
    bool asks = event->event == last && !event->has_callback;
    if (asks)
        event->has_callback = true;
    platform_mutex_unlock(&event->device->lock);
    if (asks)
        opencl_ask_for_ring(event->device, last);
}

static muster_status sleep_until(struct opencl_event_state *event, const struct record *last,
                                 uint64_t deadline_ns, struct muster_error *err)
{
    struct opencl_device *device = event->device;
    struct opencl_bell *bell = &device->bell;
    uint64_t pause_ns = device->pause_first_ns;
    ask_once(event, last->event);
    for (;;) {
        platform_mutex_lock(&bell->lock);
        uint64_t rings = bell->rings;
        platform_mutex_unlock(&bell->lock);
        muster_status status = look(device, last, err);
        uint64_t now_ns = platform_clock_ns();
        if (status != MUSTER_E_BUSY || now_ns >= deadline_ns)
            return status;
        uint64_t until_ns = now_ns + pause_ns < deadline_ns ? now_ns + pause_ns : deadline_ns;
        platform_mutex_lock(&bell->lock);
        while (bell->rings == rings &&
               platform_condition_wait(&bell->waiters, &bell->lock, until_ns))
            ;
        platform_mutex_unlock(&bell->lock);
        pause_ns = pause_ns * 2 < device->pause_last_ns ? pause_ns * 2 : device->pause_last_ns;
    }
}

muster_status opencl_event_wait(void *state, uint64_t timeout_ns, struct muster_error *err)
{
    struct opencl_event_state *event = state;
    struct opencl_device *device = event->device;
    uint64_t begin_ns = platform_clock_ns(), deadline_ns = platform_deadline_ns(timeout_ns);
    struct record last = { .event = NULL };
    muster_status status = opencl_event_query(event, err);
    if (status == MUSTER_E_BUSY)
        status = hold(event, &last, err);
    if (!last.event)
        return status;
    status = look(device, &last, err);
    while (status == MUSTER_E_BUSY) {
        uint64_t now_ns = platform_clock_ns();
        if (now_ns >= deadline_ns || now_ns - begin_ns >= SPIN_NS)
            break;
        platform_thread_yield();
        status = look(device, &last, err);
    }
    if (status == MUSTER_E_BUSY && platform_clock_ns() < deadline_ns)
        status = sleep_until(event, &last, deadline_ns, err);
    opencl_release(device, last.event);
    if (status == MUSTER_E_BUSY)
        status = muster_error_fill(err, MUSTER_E_TIMEOUT, 0, NULL, "not finished after %llu ms",
                                   (unsigned long long)(timeout_ns / 1000000));
    return status;
}

static muster_status time_of(struct opencl_device *device, opencl_event event, opencl_ulong *ns,
                             struct muster_error *err)
{
    muster_status status = opencl_observe(device, event, err);
    if (status != MUSTER_OK)
        return status;
    opencl_int code = opencl_of(device)->clGetEventProfilingInfo(
        event, OPENCL_PROFILING_COMMAND_END, sizeof *ns, ns, NULL);
    return code == OPENCL_SUCCESS ? MUSTER_OK
                                  : opencl_refused(device, code, "asking for an event's time", err);
}

muster_status opencl_event_elapsed(void *begin_state, void *end_state, uint64_t *ns,
                                   struct muster_error *err)
{
    struct opencl_event_state *begin = begin_state, *end = end_state;
    if (!(begin->flags & end->flags & MUSTER_EVENT_TIMING))
        return muster_error_fill(err, MUSTER_E_INVALID, 0,
                                 "make both events with MUSTER_EVENT_TIMING",
                                 "an event made for ordering carries no time");
    if (begin->device != end->device)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                 "the events belong to two devices");
    struct record first = { .event = NULL }, last = { .event = NULL };
    muster_status status = hold(begin, &first, err);
    if (status == MUSTER_OK)
        status = hold(end, &last, err);
    opencl_ulong from_ns = 0, to_ns = 0;
    if (status == MUSTER_OK && (!first.event || !last.event))
        status = muster_error_fill(err, MUSTER_E_INVALID, 0, "record both events",
                                   "an event was never recorded");
    if (status == MUSTER_OK)
        status = time_of(begin->device, first.event, &from_ns, err);
    if (status == MUSTER_OK)
        status = time_of(begin->device, last.event, &to_ns, err);
    opencl_release(begin->device, first.event);
    opencl_release(begin->device, last.event);
    if (status == MUSTER_OK)
        *ns = to_ns > from_ns ? to_ns - from_ns : 0;
    return status;
}
