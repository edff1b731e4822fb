/*
 * Streams: the lists they are on, the operations they hold, and how they fail.
 */
#include "backend/queue_state.h"
#include "base/allocator.h"

/* A stream's queue starts small and grows as needed; beyond this the caller is told to wait. */
#define OPERATIONS_FIRST 16u
#define OPERATIONS_MAX 65536u
#define ROOM_FOR_RECORD 1u
#define ROOM_FOR_WORK 2u

_Static_assert((OPERATIONS_FIRST & (OPERATIONS_FIRST - 1)) == 0, "rings have powers of two");
_Static_assert((OPERATIONS_MAX & (OPERATIONS_MAX - 1)) == 0, "rings have powers of two");

muster_status queue_say_lost(struct muster_error *err)
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

muster_status queue_say_done(struct muster_error *err, muster_status status, muster_status cause)
{
    switch (status) {
    case MUSTER_OK:
        return MUSTER_OK;
    case MUSTER_E_STREAM_FAILED:
        return say_stream_failed(err, cause);
    case MUSTER_E_DEVICE_LOST:
        return queue_say_lost(err);
    default:
        return muster_error_fill(err, status, 0, NULL, "%s", muster_status_message(status));
    }
}

/* Lists. */

void queue_stream_make_ready(struct queue_stream *stream)
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

struct queue_stream *queue_stream_take_ready(struct queue *queue)
{
    struct queue_stream *stream = take_from(&queue->urgent);
    return stream ? stream : take_from(&queue->ready);
}

void queue_stream_block_on(struct queue_stream *stream, struct queue_stream **list,
                           enum stream_state state)
{
    stream->state = state;
    stream->list = list;
    stream->next = *list;
    *list = stream;
}

void queue_stream_unblock(struct queue_stream *stream)
{
    struct queue_stream **at = stream->list;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    stream->list = NULL;
}

void queue_stream_unblock_all(struct queue_stream **list)
{
    while (*list) {
        struct queue_stream *stream = *list;
        queue_stream_unblock(stream);
        queue_stream_make_ready(stream);
    }
}

/* Life. */

void queue_stream_fail(struct queue_stream *stream, muster_status cause)
{
    if (stream->status != MUSTER_OK)
        return;
    stream->status = MUSTER_E_STREAM_FAILED;
    stream->cause = cause;
}

muster_status queue_stream_status(const struct queue_stream *stream)
{
    return stream->queue->status != MUSTER_OK ? stream->queue->status : stream->status;
}

void queue_stream_free(struct queue_stream *stream)
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

void queue_stream_step(struct queue_stream *stream)
{
    ring_pop(&stream->ring);
    if (ring_count(&stream->ring) > 0) {
        queue_stream_make_ready(stream);
        return;
    }
    stream->state = STREAM_IDLE;
    if (stream->closed)
        queue_stream_free(stream);
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
    muster_status status = queue_start_workers(queue, err);
    if (status != MUSTER_OK)
        return status;
    struct queue_stream *stream = allocator_take(&queue->allocator, 1, sizeof *stream);
    struct operation *operations =
        allocator_take(&queue->allocator, OPERATIONS_FIRST, sizeof *operations);
    lock(queue);
    if (queue->status != MUSTER_OK)
        status = queue_say_lost(err);
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
        queue_stream_free(stream);
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
    muster_status status =
        stream->state == STREAM_IDLE ? queue_stream_status(stream) : MUSTER_E_BUSY;
    muster_status cause = stream->cause;
    unlock(queue);
    return status == MUSTER_E_BUSY ? status : queue_say_done(err, status, cause);
}

/* Operations. */

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

muster_status queue_stream_enqueue_begin(struct queue_stream *stream, enum operation_kind kind,
                                         struct operation **out, struct muster_error *err)
{
    struct queue *queue = stream->queue;
    /* A caller whose work was taken must be able to record it: the rest leaves a place for a record. */
    uint32_t room = kind == OPERATION_RECORD ? ROOM_FOR_RECORD : ROOM_FOR_WORK;
    lock(queue);
    muster_status status = MUSTER_OK;
    if (queue->status != MUSTER_OK)
        status = queue_say_lost(err);
    else if (stream->ring.capacity - ring_count(&stream->ring) < room)
        status = grow(queue, stream, err);
    if (status != MUSTER_OK) {
        unlock(queue);
        return status;
    }
    *out = &stream->operations[ring_at(&stream->ring, ring_count(&stream->ring))];
    (*out)->kind = kind;
    return MUSTER_OK;
}

void queue_stream_enqueue_end(struct queue_stream *stream)
{
    ring_push(&stream->ring);
    if (stream->state == STREAM_IDLE) {
        queue_stream_make_ready(stream);
        queue_wake_worker(stream->queue);
    }
    unlock(stream->queue);
}

muster_status queue_host_call(void *state, void (*function)(void *user, muster_status status),
                              void *user, struct muster_error *err)
{
    struct queue_stream *stream = stream_of(state);
    struct operation *operation;
    muster_status status = queue_stream_enqueue_begin(stream, OPERATION_CALL, &operation, err);
    if (status != MUSTER_OK)
        return status;
    operation->call.function = function;
    operation->call.user = user;
    queue_stream_enqueue_end(stream);
    return MUSTER_OK;
}
