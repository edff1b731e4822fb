#include "run/lane/streams.h"

muster_status streams_take(struct run_device *device, uint32_t count, struct lane_stream *streams,
                           struct muster_error *err)
{
    struct muster *m = device->m;
    muster_stream handles[STREAMS_MAX_LIMIT];
    struct run_device *pinned;
    uint32_t taken = 0;
    muster_status status = device_pin(m, device_handle_locked(device), &pinned, err);
    if (status != MUSTER_OK)
        return status;
    status = streams_acquire(device, 0, count, handles, err);
    for (; status == MUSTER_OK && taken < count; taken++) {
        streams[taken] = (struct lane_stream){ .handle = handles[taken] };
        status = stream_pin(m, handles[taken], &streams[taken].stream, err);
    }
    if (taken > 0 && status != MUSTER_OK) {
        /* The device was lost meanwhile: the last one was not pinned, and the rest not looked at. */
        streams_give(streams, taken - 1);
        streams[taken - 1] = (struct lane_stream){ .stream = NULL };
        for (uint32_t i = taken - 1; i < count; i++)
            muster_stream_release(m, handles[i], NULL);
    }
    device_unpin(device);
    return status;
}

muster_status streams_take_some(struct run_device *device, uint32_t most,
                                struct lane_stream *streams, uint32_t *count,
                                struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    for (*count = 0; *count < most && status == MUSTER_OK;) {
        status = streams_take(device, 1, &streams[*count], err);
        *count += status == MUSTER_OK;
    }
    if (status == MUSTER_E_CAPACITY && *count > 0)
        return MUSTER_OK;
    if (status != MUSTER_OK) {
        streams_give(streams, *count);
        *count = 0;
    }
    return status;
}

void streams_give(struct lane_stream *streams, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!streams[i].stream)
            continue;
        struct muster *m = streams[i].stream->device->m;
        stream_unpin(streams[i].stream);
        muster_stream_release(m, streams[i].handle, NULL);
        streams[i] = (struct lane_stream){ .stream = NULL };
    }
}

bool streams_renew(struct lane_stream *stream)
{
    return stream_renew(stream->stream, NULL) == MUSTER_OK;
}

static const struct muster_backend *table_of(const struct lane_stream *stream)
{
    return &stream->stream->device->backend->table;
}

muster_status streams_record(const struct lane_stream *stream, const struct run_event *event,
                             struct muster_error *err)
{
    return table_of(stream)->event_record(event->state, stream->stream->state, err);
}

muster_status streams_ask(const struct lane_stream *stream, const struct run_event *event)
{
    muster_status status = event ? table_of(stream)->event_query(event->state, NULL)
                                 : table_of(stream)->stream_query(stream->stream->state, NULL);
    return run_is_over(status) ? device_note(stream->stream->device, status, NULL) : status;
}
