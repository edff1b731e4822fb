/*
 * Host calls: made by a thread of the device's own, from its own list, so that each is made exactly
 * once also when the driver forgets its callbacks.
 *
 * A call is due when what the stream was given before it is over. What comes after it waits for a
 * user event that the thread sets when the call has returned, and that carries the stream's failure
 * past the call. A driver may also let commands fail ahead of their turn; so calls are counted, and a
 * failed record is not over before the calls in front of it. The thread sleeps while no call is
 * pending.
 */
#include "backend/opencl/device.h"

#include "base/allocator.h"

static struct opencl_call *take_call(struct opencl_device *device)
{
    platform_mutex_lock(&device->lock);
    struct opencl_call *call = device->free_calls;
    if (call)
        device->free_calls = call->next;
    platform_mutex_unlock(&device->lock);
    if (!call)
        call = allocator_take(opencl_allocator(device), 1, sizeof *call);
    if (call)
        *call = (struct opencl_call){ .next = NULL };
    return call;
}

static void give_call(struct opencl_device *device, struct opencl_call *call)
{
    opencl_release(device, call->reached);
    opencl_release(device, call->made);
    platform_mutex_lock(&device->lock);
    call->next = device->free_calls;
    device->free_calls = call;
    platform_mutex_unlock(&device->lock);
}

/* Takes the first call that is due off its stream: MUSTER_E_BUSY if there is none. */
static struct opencl_call *take_due(struct opencl_device *device, muster_status *status,
                                    bool *has_pending)
{
    struct opencl_call *call = NULL;
    bool is_lost = opencl_check(device, NULL) != MUSTER_OK;
    *has_pending = false;
    platform_mutex_lock(&device->lock);
    for (struct opencl_stream *stream = device->streams; stream && !call; stream = stream->next) {
        struct opencl_call *first = stream->first_call;
        if (!first)
            continue;
        *has_pending = true;
        opencl_int code =
            first->reached ? opencl_event_code(device, first->reached) : OPENCL_COMPLETE;
        if (code > OPENCL_COMPLETE && !is_lost && *status == MUSTER_E_BUSY)
            continue;
        if (code == OPENCL_COMPLETE)
            *status = MUSTER_OK;
        else if (code < OPENCL_COMPLETE || is_lost)
            *status = is_lost ? MUSTER_E_DEVICE_LOST : MUSTER_E_STREAM_FAILED;
        stream->first_call = first->next;
        if (!first->next)
            stream->last_call = NULL;
        call = first;
    }
    platform_mutex_unlock(&device->lock);
    return call;
}

static void make_call(struct opencl_device *device, struct opencl_call *call, muster_status status)
{
    const struct opencl_driver *driver = opencl_of(device);
    /* A failure may be the first that is seen of a loss. */
    if (status == MUSTER_E_STREAM_FAILED)
        status = opencl_observe(device, call->reached, NULL);
    if (call->function)
        call->function(call->user, status);
    /* From here on the stream may be over, and be freed. */
    atomic_fetch_add_explicit(&call->stream->calls_made, 1, memory_order_release);
    bool has_failed = !call->function || status != MUSTER_OK;
    opencl_int code =
        has_failed ? OPENCL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST : OPENCL_COMPLETE;
    /* Without it the stream stands still for ever, so a driver that refuses twice is given up. */
    opencl_int said = driver->clSetUserEventStatus(call->made, code);
    if (said != OPENCL_SUCCESS)
        said = driver->clSetUserEventStatus(call->made, code);
    if (said != OPENCL_SUCCESS)
        opencl_lose(device);
    give_call(device, call);
    opencl_ring(device);
}

/* Returns whether calls are pending that are not due yet. */
static bool make_due_calls(struct opencl_device *device, muster_status not_due)
{
    bool has_pending;
    muster_status status = not_due;
    struct opencl_call *call = take_due(device, &status, &has_pending);
    while (call) {
        make_call(device, call, status);
        status = not_due;
        call = take_due(device, &status, &has_pending);
    }
    return has_pending;
}

static void watch(void *argument)
{
    struct opencl_device *device = argument;
    struct opencl_bell *bell = &device->bell;
    uint64_t pause_ns = device->pause_first_ns, looked_at = 0;
    platform_mutex_lock(&bell->lock);
    while (!device->is_stopping) {
        pause_ns = bell->rings != looked_at ? device->pause_first_ns : pause_ns;
        looked_at = bell->rings;
        platform_mutex_unlock(&bell->lock);
        bool has_pending = make_due_calls(device, MUSTER_E_BUSY);
        platform_mutex_lock(&bell->lock);
        if (bell->rings != looked_at || device->is_stopping)
            continue;
        platform_condition_wait(&bell->watcher, &bell->lock,
                                has_pending ? platform_clock_ns() + pause_ns : UINT64_MAX);
        pause_ns = pause_ns * 2 < device->pause_last_ns ? pause_ns * 2 : device->pause_last_ns;
    }
    muster_status status = device->stop_status;
    platform_mutex_unlock(&bell->lock);
    make_due_calls(device, status);
    platform_mutex_lock(&bell->lock);
    device->is_watched = false;
    platform_condition_wake_all(&bell->waiters);
    platform_mutex_unlock(&bell->lock);
}

static muster_status start_watcher(struct opencl_device *device, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    platform_mutex_lock(&device->bell.lock);
    if (!device->is_watched)
        status = platform_thread_start(&device->watcher, watch, device, "muster-opencl", NULL, err);
    device->is_watched = status == MUSTER_OK;
    platform_mutex_unlock(&device->bell.lock);
    return status;
}

bool opencl_watcher_stop(struct opencl_device *device, uint64_t deadline_ns, muster_status status)
{
    struct opencl_bell *bell = &device->bell;
    platform_mutex_lock(&bell->lock);
    device->is_stopping = true;
    device->stop_status = status;
    platform_condition_wake_all(&bell->watcher);
    while (device->is_watched && platform_condition_wait(&bell->waiters, &bell->lock, deadline_ns))
        ;
    bool is_gone = !device->is_watched;
    platform_mutex_unlock(&bell->lock);
    if (is_gone)
        platform_thread_join(&device->watcher);
    else
        platform_thread_detach(&device->watcher);
    return is_gone;
}

/* Puts the call behind what the stream was given. On failure nothing was accepted. */
static muster_status place(struct opencl_stream *stream, struct opencl_call *call, bool only_fails,
                           struct muster_error *err)
{
    struct opencl_device *device = stream->device;
    const struct opencl_driver *driver = opencl_of(device);
    opencl_int code = OPENCL_SUCCESS;
    call->made = driver->clCreateUserEvent(device->context, &code);
    if (!call->made)
        return opencl_refused(device, code, "a host call", err);
    opencl_event behind = NULL;
    if (stream->tail) {
        code = driver->clRetainEvent(stream->tail);
        call->reached = code == OPENCL_SUCCESS ? stream->tail : NULL;
    }
    /* A stream that has failed is given nothing: then the user event itself comes next in it. */
    if (only_fails ||
        (call->reached && opencl_event_code(device, call->reached) < OPENCL_COMPLETE)) {
        code = code == OPENCL_SUCCESS ? driver->clRetainEvent(call->made) : code;
        behind = call->made;
    } else if (code == OPENCL_SUCCESS) {
        code = driver->clEnqueueBarrierWithWaitList(stream->queue, 1, &call->made, &behind);
    }
    if (code != OPENCL_SUCCESS) {
        driver->clSetUserEventStatus(call->made, OPENCL_COMPLETE);
        return opencl_refused(device, code, "a host call", err);
    }
    opencl_stream_follow(stream, behind);
    return MUSTER_OK;
}

static muster_status give(struct opencl_stream *stream, struct opencl_call *call, bool only_fails,
                          struct muster_error *err)
{
    struct opencl_device *device = stream->device;
    muster_status status = start_watcher(device, err);
    /* Work that has no event here is behind a marker. */
    if (status == MUSTER_OK && (stream->has_unmarked_work || stream->is_native))
        status = opencl_stream_mark(stream, err);
    if (status == MUSTER_OK)
        status = opencl_stream_reserve(stream, err);
    if (status == MUSTER_OK)
        status = place(stream, call, only_fails, err);
    if (status != MUSTER_OK) {
        give_call(device, call);
        return status;
    }
    stream->calls_given++;
    if (call->reached)
        opencl_ask_for_ring(device, call->reached);
    platform_mutex_lock(&device->lock);
    if (stream->last_call)
        stream->last_call->next = call;
    else
        stream->first_call = call;
    stream->last_call = call;
    platform_mutex_unlock(&device->lock);
    opencl_ring(device);
    return MUSTER_OK;
}

static muster_status accept(struct opencl_stream *stream,
                            void (*function)(void *user, muster_status status), void *user,
                            struct muster_error *err)
{
    struct opencl_device *device = stream->device;
    const struct opencl_driver *driver = opencl_of(device);
    muster_status status = opencl_check(device, err);
    if (status != MUSTER_OK)
        return status;
    struct opencl_call *call = take_call(device);
    if (!call)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a host call");
    call->function = function;
    call->user = user;
    call->stream = stream;
    /* The call may be made, and be gone, as soon as it is given. */
    status = give(stream, call, !function, err);
    if (status != MUSTER_OK)
        return status;
    driver->clFlush(stream->queue);
    stream->is_flushed = true;
    return MUSTER_OK;
}

muster_status opencl_host_call(void *state, void (*function)(void *user, muster_status status),
                               void *user, struct muster_error *err)
{
    struct opencl_stream *stream = ((struct opencl_stream_state *)state)->stream;
    return accept(stream, function, user, err);
}

muster_status opencl_fail_later(struct opencl_stream *stream, struct muster_error *err)
{
    return accept(stream, NULL, NULL, err);
}
