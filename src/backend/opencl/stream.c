/*
 * Streams as in-order command queues, and the commands on them.
 *
 * What becomes of an in-order queue whose command has failed is up to its driver. Here each command
 * waits for the one before it, which makes it a rule: a command that waits for a failed one fails.
 * PoCL 3.1 keeps the rule only for what waits already; what is given to it later never ends. So a
 * stream is looked at before it is given a command and after.
 */
#include "backend/opencl/device.h"

#include "base/allocator.h"

static struct opencl_stream *stream_of(void *state)
{
    return ((struct opencl_stream_state *)state)->stream;
}

static bool has_failed(const struct opencl_stream *stream)
{
    return stream->tail && opencl_event_code(stream->device, stream->tail) < OPENCL_COMPLETE;
}

/* The stream's first events; a power of two, as rings have. */
#define HELD_FIRST 16u

static muster_status grow(struct opencl_stream *stream, struct muster_error *err)
{
    const struct muster_allocator *allocator = opencl_allocator(stream->device);
    uint32_t capacity = stream->ring.capacity > 0 ? 2 * stream->ring.capacity : HELD_FIRST;
    opencl_event *held = allocator_take(allocator, capacity, sizeof *held);
    if (!held)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a command");
    struct ring ring;
    ring_init(&ring, capacity);
    for (uint32_t i = 0; i < ring_count(&stream->ring); i++)
        held[ring_push(&ring)] = stream->held[ring_at(&stream->ring, i)];
    allocator_give(allocator, stream->held, stream->ring.capacity, sizeof *held);
    stream->held = held;
    stream->ring = ring;
    return MUSTER_OK;
}

muster_status opencl_stream_reserve(struct opencl_stream *stream, struct muster_error *err)
{
    struct ring *ring = &stream->ring;
    while (ring_count(ring) > 0) {
        opencl_event oldest = stream->held[ring_at(ring, 0)];
        if (opencl_event_code(stream->device, oldest) != OPENCL_COMPLETE)
            break;
        ring_pop(ring);
        opencl_release(stream->device, oldest);
    }
    return ring_full(ring) ? grow(stream, err) : MUSTER_OK;
}

static void hold(struct opencl_stream *stream, opencl_event event)
{
    stream->held[ring_push(&stream->ring)] = event;
}

void opencl_stream_follow(struct opencl_stream *stream, opencl_event event)
{
    if (stream->device->fails_whole)
        opencl_release(stream->device, stream->tail);
    else if (stream->tail)
        hold(stream, stream->tail);
    stream->tail = event;
    stream->is_flushed = false;
    stream->is_asked = false;
}

muster_status opencl_command_begin(struct opencl_command *command, struct opencl_stream *stream,
                                   const char *what, struct muster_error *err)
{
    struct opencl_device *device = stream->device;
    *command = (struct opencl_command){ .stream = stream,
                                        .what = what,
                                        .wants_event = !device->fails_whole };
    muster_status status = opencl_check(device, err);
    if (status == MUSTER_OK && !device->fails_whole)
        status = opencl_stream_reserve(stream, err);
    if (status != MUSTER_OK || device->fails_whole || !stream->tail)
        return status;
    if (has_failed(stream)) {
        command->is_skipped = true;
        status = opencl_observe(device, stream->tail, err);
        return status == MUSTER_E_DEVICE_LOST ? status : MUSTER_OK;
    }
    command->wait_count = 1;
    command->wait = stream->tail;
    return MUSTER_OK;
}

opencl_event *opencl_command_event(struct opencl_command *command)
{
    return command->wants_event ? &command->event : NULL;
}

const opencl_event *opencl_command_wait(const struct opencl_command *command)
{
    return command->wait_count > 0 ? &command->wait : NULL;
}

muster_status opencl_command_end(struct opencl_command *command, opencl_int code,
                                 struct muster_error *err)
{
    struct opencl_stream *stream = command->stream;
    struct opencl_device *device = stream->device;
    if (command->is_skipped)
        return MUSTER_OK;
    if (code == OPENCL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST && has_failed(stream)) {
        command->is_skipped = true;
        return MUSTER_OK;
    }
    if (code != OPENCL_SUCCESS)
        return opencl_refused(device, code, command->what, err);
    if (!command->wants_event) {
        stream->is_flushed = false;
        stream->is_asked = false;
        stream->has_unmarked_work = true;
        return MUSTER_OK;
    }
    /* If it failed in the meantime the command fails as well, or is never looked at. */
    command->is_skipped = command->wait_count > 0 && has_failed(stream);
    if (command->is_skipped) {
        hold(stream, command->event);
        return MUSTER_OK;
    }
    opencl_stream_follow(stream, command->event);
    stream->has_unmarked_work = false;
    return MUSTER_OK;
}

muster_status opencl_stream_flush(struct opencl_stream *stream, struct muster_error *err)
{
    if (stream->is_flushed)
        return MUSTER_OK;
    opencl_int code = opencl_of(stream->device)->clFlush(stream->queue);
    if (code != OPENCL_SUCCESS)
        return opencl_refused(stream->device, code, "sending commands to the device", err);
    stream->is_flushed = true;
    return MUSTER_OK;
}

static opencl_queue make_queue(const struct opencl_device *device, int32_t priority,
                               opencl_int *code)
{
    const struct opencl_driver *driver = opencl_of(device);
    if (!device->has_priorities)
        return driver->clCreateCommandQueue(device->context, device->id,
                                            OPENCL_QUEUE_PROFILING_ENABLE, code);
    opencl_ulong properties[5] = { OPENCL_QUEUE_PROPERTIES, OPENCL_QUEUE_PROFILING_ENABLE, 0, 0,
                                   0 };
    if (priority != 0) {
        properties[2] = OPENCL_QUEUE_PRIORITY_KHR;
        properties[3] =
            priority < 0 ? OPENCL_QUEUE_PRIORITY_HIGH_KHR : OPENCL_QUEUE_PRIORITY_LOW_KHR;
    }
    return driver->clCreateCommandQueueWithProperties(device->context, device->id, properties,
                                                      code);
}

static muster_status make_stream(struct opencl_device *device, int32_t priority,
                                 struct opencl_stream **out, struct muster_error *err)
{
    struct opencl_stream *stream = allocator_take(opencl_allocator(device), 1, sizeof *stream);
    if (!stream)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a stream");
    opencl_int code = OPENCL_SUCCESS;
    *stream = (struct opencl_stream){ .device = device, .priority = priority, .is_flushed = true };
    stream->queue = make_queue(device, priority, &code);
    if (!stream->queue) {
        allocator_give(opencl_allocator(device), stream, 1, sizeof *stream);
        return opencl_refused(device, code, "making a command queue", err);
    }
    *out = stream;
    return MUSTER_OK;
}

static struct opencl_stream *take_spare(struct opencl_device *device, int32_t priority)
{
    platform_mutex_lock(&device->lock);
    struct opencl_stream **at = &device->spare, *stream;
    while (*at && (*at)->priority != priority)
        at = &(*at)->next;
    stream = *at;
    if (stream)
        *at = stream->next;
    platform_mutex_unlock(&device->lock);
    return stream;
}

muster_status opencl_stream_open(void *device_state, int32_t priority, int is_default, void *state,
                                 struct muster_error *err)
{
    (void)is_default; /* OpenCL has none, so it is a queue like any other */
    struct opencl_device *device = device_state;
    if (priority < (device->has_priorities ? -1 : 0) || priority > (device->has_priorities ? 1 : 0))
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "ask for a priority that the device's info names",
                                 "priority %d; this device has %s", (int)priority,
                                 device->has_priorities ? "-1, 0 and 1" : "0 only");
    muster_status status = opencl_ready(device, err);
    if (status != MUSTER_OK)
        return status;
    opencl_streams_reap(device);
    struct opencl_stream *stream = take_spare(device, priority);
    status = stream ? MUSTER_OK : make_stream(device, priority, &stream, err);
    if (status != MUSTER_OK)
        return status;
    platform_mutex_lock(&device->lock);
    stream->next = device->streams;
    if (stream->next)
        stream->next->previous = stream;
    device->streams = stream;
    platform_mutex_unlock(&device->lock);
    ((struct opencl_stream_state *)state)->stream = stream;
    return MUSTER_OK;
}

static void unlink_stream(struct opencl_stream *stream)
{
    if (stream->previous)
        stream->previous->next = stream->next;
    else
        stream->device->streams = stream->next;
    if (stream->next)
        stream->next->previous = stream->previous;
}

/* Gives back what the stream has but its queue, and makes it as good as new. */
static void clear_stream(struct opencl_stream *stream)
{
    struct opencl_device *device = stream->device;
    while (ring_count(&stream->ring) > 0)
        opencl_release(device, stream->held[ring_pop(&stream->ring)]);
    allocator_give(opencl_allocator(device), stream->held, stream->ring.capacity,
                   sizeof *stream->held);
    opencl_release(device, stream->tail);
    *stream = (struct opencl_stream){
        .device = device, .queue = stream->queue, .priority = stream->priority, .is_flushed = true
    };
}

static void free_stream(struct opencl_stream *stream)
{
    struct opencl_device *device = stream->device;
    clear_stream(stream);
    if (!device->is_owed)
        opencl_of(device)->clReleaseCommandQueue(stream->queue);
    allocator_give(opencl_allocator(device), stream, 1, sizeof *stream);
}

static bool is_over(const struct opencl_stream *stream)
{
    return atomic_load_explicit(&stream->calls_made, memory_order_acquire) == stream->calls_given &&
           (!stream->tail || opencl_event_code(stream->device, stream->tail) <= OPENCL_COMPLETE ||
            opencl_check(stream->device, NULL) != MUSTER_OK);
}

bool opencl_streams_reap(struct opencl_device *device)
{
    struct opencl_stream *over = NULL;
    bool is_complete = true;
    opencl_release_called(device);
    platform_mutex_lock(&device->lock);
    for (struct opencl_stream *stream = device->streams, *next; stream; stream = next) {
        next = stream->next;
        if (!stream->is_closed)
            continue;
        is_complete &= is_over(stream);
        if (!is_over(stream) || has_failed(stream))
            continue;
        unlink_stream(stream);
        stream->next = over;
        over = stream;
    }
    platform_mutex_unlock(&device->lock);
    while (over) {
        struct opencl_stream *stream = over;
        over = stream->next;
        clear_stream(stream);
        platform_mutex_lock(&device->lock);
        stream->next = device->spare;
        device->spare = stream;
        platform_mutex_unlock(&device->lock);
    }
    return is_complete;
}

void opencl_streams_free(struct opencl_device *device)
{
    while (device->streams) {
        struct opencl_stream *stream = device->streams;
        unlink_stream(stream);
        free_stream(stream);
    }
    while (device->spare) {
        struct opencl_stream *stream = device->spare;
        device->spare = stream->next;
        free_stream(stream);
    }
}

muster_status opencl_stream_mark(struct opencl_stream *stream, struct muster_error *err)
{
    struct opencl_command command;
    muster_status status = opencl_command_begin(&command, stream, "asking after a stream", err);
    if (status != MUSTER_OK || command.is_skipped)
        return status;
    command.wants_event = true;
    opencl_int code = opencl_of(stream->device)
                          ->clEnqueueMarkerWithWaitList(stream->queue, command.wait_count,
                                                        opencl_command_wait(&command),
                                                        opencl_command_event(&command));
    return opencl_command_end(&command, code, err);
}

void opencl_stream_close(void *state)
{
    struct opencl_stream *stream = stream_of(state);
    struct opencl_device *device = stream->device;
    /* Some drivers wait when a queue with work is released, so that is left for when it is over. */
    if (stream->has_unmarked_work || stream->is_native)
        opencl_stream_mark(stream, NULL);
    opencl_stream_flush(stream, NULL);
    platform_mutex_lock(&device->lock);
    stream->is_closed = true;
    platform_mutex_unlock(&device->lock);
    opencl_streams_reap(device);
}

void *opencl_stream_native(void *state)
{
    struct opencl_stream *stream = stream_of(state);
    stream->is_native = true;
    return stream->queue;
}

/*
 * Work that others enqueue on the queue has no event here, so the first question sets a marker
 * behind it, and the answer is that marker's.
 */
muster_status opencl_stream_query(void *state, struct muster_error *err)
{
    struct opencl_stream *stream = stream_of(state);
    muster_status status = opencl_check(stream->device, err);
    if (status == MUSTER_OK &&
        (stream->has_unmarked_work || (stream->is_native && !stream->is_asked))) {
        status = opencl_stream_mark(stream, err);
        stream->is_asked = status == MUSTER_OK;
    }
    if (status != MUSTER_OK || !stream->tail)
        return status;
    status = opencl_stream_flush(stream, err);
    if (status == MUSTER_OK)
        status = opencl_observe(stream->device, stream->tail, err);
    if (status == MUSTER_E_STREAM_FAILED &&
        atomic_load_explicit(&stream->calls_made, memory_order_acquire) < stream->calls_given)
        status = MUSTER_E_BUSY;
    if (status != MUSTER_E_BUSY)
        stream->is_asked = false;
    return status;
}

/* Gives a barrier behind the record; the stream is the caller's, the record is held. */
static muster_status wait_for(struct opencl_stream *stream, opencl_event record,
                              struct muster_error *err)
{
    struct opencl_device *device = stream->device;
    struct opencl_command command;
    muster_status status = opencl_command_begin(&command, stream, "waiting for an event", err);
    if (status != MUSTER_OK || command.is_skipped)
        return status;
    opencl_int code = opencl_event_code(device, record);
    if (code == OPENCL_COMPLETE)
        return MUSTER_OK;
    if (code < OPENCL_COMPLETE) {
        status = opencl_observe(device, record, err);
        return status == MUSTER_E_DEVICE_LOST ? status : opencl_fail_later(stream, err);
    }
    const opencl_event list[2] = { record, command.wait };
    code = opencl_of(device)->clEnqueueBarrierWithWaitList(stream->queue, 1 + command.wait_count,
                                                           list, opencl_command_event(&command));
    if (code == OPENCL_SUCCESS && !device->fails_whole &&
        opencl_event_code(device, record) < OPENCL_COMPLETE) {
        /* Failed while the barrier was given, which the driver may never look at again. */
        hold(stream, command.event);
        return opencl_fail_later(stream, err);
    }
    return opencl_command_end(&command, code, err);
}

muster_status opencl_stream_wait(void *state, void *event_state, struct muster_error *err)
{
    struct opencl_stream *stream = stream_of(state);
    struct opencl_event_state *event = event_state;
    if (event->flags & MUSTER_EVENT_TIMING)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "record an event made for ordering",
                                 "a timing event cannot order streams");
    if (event->device != stream->device)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "wait on the host instead",
                                 "a stream cannot wait for an event of another device");
    /* Nobody else records or ends it meanwhile. */
    if (!event->event)
        return opencl_check(stream->device, err);
    return wait_for(stream, event->event, err);
}

/* Where in its buffer a place is; the runtime has checked that it lies within. */
static opencl_buffer buffer_of(const struct muster_place *place)
{
    return place->memory->object;
}

muster_status opencl_copy(void *state, const struct muster_copy_desc *copy,
                          struct muster_error *err)
{
    struct opencl_stream *stream = stream_of(state);
    const struct opencl_driver *driver = opencl_of(stream->device);
    const struct muster_place *to = &copy->to, *from = &copy->from;
    struct opencl_command command;
    muster_status status = opencl_command_begin(&command, stream, "a copy", err);
    if (status != MUSTER_OK || command.is_skipped)
        return status;
    const opencl_event *wait = opencl_command_wait(&command);
    opencl_event *event = opencl_command_event(&command);
    opencl_int code;
    if (to->memory && from->memory)
        code =
            driver->clEnqueueCopyBuffer(stream->queue, buffer_of(from), buffer_of(to), from->offset,
                                        to->offset, copy->bytes, command.wait_count, wait, event);
    else if (to->memory)
        code =
            driver->clEnqueueWriteBuffer(stream->queue, buffer_of(to), OPENCL_FALSE, to->offset,
                                         copy->bytes, from->host, command.wait_count, wait, event);
    else
        code =
            driver->clEnqueueReadBuffer(stream->queue, buffer_of(from), OPENCL_FALSE, from->offset,
                                        copy->bytes, to->host, command.wait_count, wait, event);
    return opencl_command_end(&command, code, err);
}

muster_status opencl_fill(void *state, const struct muster_place *to, uint8_t value, uint64_t bytes,
                          struct muster_error *err)
{
    struct opencl_stream *stream = stream_of(state);
    struct opencl_command command;
    muster_status status = opencl_command_begin(&command, stream, "a fill", err);
    if (status != MUSTER_OK || command.is_skipped)
        return status;
    opencl_int code =
        opencl_of(stream->device)
            ->clEnqueueFillBuffer(stream->queue, buffer_of(to), &value, sizeof value, to->offset,
                                  bytes, command.wait_count, opencl_command_wait(&command),
                                  opencl_command_event(&command));
    return opencl_command_end(&command, code, err);
}
