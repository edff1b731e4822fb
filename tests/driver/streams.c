/*
 * Streams and events. A stream is a queue and a thread that works it off; an event is the last record
 * that was issued for it, and every record is an object of its own, so that a wait keeps the one it
 * was given for.
 */
#include "inside.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How often something that has no wake-up call is looked at. */
#define LOOK_NS 100000
#define FLAG_DISABLE_TIMING 2u
#define LEGACY ((CUstream)1)
#define PER_THREAD ((CUstream)2)

struct event {
    struct object object;
    pthread_mutex_t mutex; /* of `last`: it may be asked for while it is recorded */
    struct record *last;   /* NULL: never recorded */
    unsigned flags;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void pause_a_little(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
}

static void condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* Wakes up now and then, to see that the context has ended. */
static void condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    uint64_t until_ns = now_ns() + 20 * LOOK_NS;
    struct timespec until = { .tv_sec = (time_t)(until_ns / 1000000000u),
                              .tv_nsec = (long)(until_ns % 1000000000u) };
    pthread_cond_timedwait(condition, mutex, &until);
}

/* --- records ----------------------------------------------------------------------------------- */

static struct record *record_make(void)
{
    struct record *record = calloc(1, sizeof *record);
    if (!record)
        return NULL;
    atomic_init(&record->references, 1);
    pthread_mutex_init(&record->mutex, NULL);
    condition_init(&record->reached);
    return record;
}

static struct record *record_hold(struct record *record)
{
    if (record)
        atomic_fetch_add_explicit(&record->references, 1, memory_order_relaxed);
    return record;
}

static void record_drop(struct record *record)
{
    if (!record || atomic_fetch_sub_explicit(&record->references, 1, memory_order_acq_rel) != 1)
        return;
    pthread_cond_destroy(&record->reached);
    pthread_mutex_destroy(&record->mutex);
    free(record);
}

static void record_reach(struct record *record)
{
    pthread_mutex_lock(&record->mutex);
    record->is_reached = true;
    record->at_ns = now_ns();
    pthread_cond_broadcast(&record->reached);
    pthread_mutex_unlock(&record->mutex);
}

static bool record_is_reached(struct record *record)
{
    pthread_mutex_lock(&record->mutex);
    bool is_reached = record->is_reached;
    pthread_mutex_unlock(&record->mutex);
    return is_reached;
}

/* Whether what the stream still has is to be dropped. */
static bool is_over(struct stream *stream)
{
    return device_is_over(stream->object.device) ||
           atomic_load_explicit(&stream->is_dead, memory_order_relaxed);
}

static void record_wait(struct record *record, struct stream *stream)
{
    pthread_mutex_lock(&record->mutex);
    while (!record->is_reached && !is_over(stream))
        condition_wait(&record->reached, &record->mutex);
    pthread_mutex_unlock(&record->mutex);
}

/* --- what a stream does ------------------------------------------------------------------------ */

static void wait_for_value(const struct operation *operation, struct stream *stream)
{
    const _Atomic uint64_t *word = operation->from;
    while ((int64_t)(atomic_load_explicit(word, memory_order_acquire) - operation->value) < 0 &&
           !is_over(stream))
        pause_a_little();
}

static void call_host(const struct operation *operation)
{
    in_host_function = true;
    operation->function(operation->user);
    in_host_function = false;
}

static void perform(const struct operation *operation, struct stream *stream)
{
    switch (operation->kind) {
    case OPERATION_COPY:
        memmove(operation->to, operation->from, operation->bytes);
        break;
    case OPERATION_FILL:
        memset(operation->to, (int)operation->value, operation->bytes);
        break;
    case OPERATION_LAUNCH:
        operation->run(operation->payload);
        break;
    case OPERATION_NOTHING:
    case OPERATION_RECORD: /* see finish */
        break;
    case OPERATION_WAIT:
        record_wait(operation->record, stream);
        break;
    case OPERATION_WAIT_VALUE:
        wait_for_value(operation, stream);
        break;
    case OPERATION_WRITE_VALUE:
        atomic_store_explicit((_Atomic uint64_t *)operation->to, operation->value,
                              memory_order_release);
        break;
    case OPERATION_HOST:
        call_host(operation);
        break;
    }
}

/*
 * Streams share a device's queues, and a queue gets past an operation when that begins, or past a wait
 * when it is over: what stands behind a wait waits too, whatever stream it is of. Nothing but the turn
 * is passed on, so that ThreadSanitizer takes none of this for an order that CUDA promises.
 */
static void await_turn(const struct operation *operation, struct stream *stream)
{
    _Atomic uint64_t *passed = &stream->object.device->passed[stream->queue];
    while (atomic_load_explicit(passed, memory_order_relaxed) < operation->turn && !is_over(stream))
        pause_a_little();
}

static void pass_turn(struct stream *stream)
{
    atomic_fetch_add_explicit(&stream->object.device->passed[stream->queue], 1,
                              memory_order_relaxed);
}

static void work_off(struct operation *operation, struct stream *stream)
{
    bool is_wait = operation->kind == OPERATION_WAIT || operation->kind == OPERATION_WAIT_VALUE;
    await_turn(operation, stream);
    if (!is_wait)
        pass_turn(stream);
    /* Also when the context is to end: cuDevicePrimaryCtxRelease waits for such work for ever. */
    while (operation->hangs && !fault_hang_is_released(operation->hang_ticket))
        pause_a_little();
    if (!is_over(stream) && operation->poison != CUDA_SUCCESS)
        device_poison(stream->object.device, operation->poison);
    /* Calls of the host may last, and waits end when the context does. */
    bool is_counted = !is_wait && operation->kind != OPERATION_HOST;
    struct device *device = stream->object.device;
    if (is_counted)
        atomic_fetch_add_explicit(&device->performing, 1, memory_order_relaxed);
    /* A wait may end because the context has: what follows it is not done. */
    if (!is_over(stream))
        perform(operation, stream);
    if (is_counted)
        atomic_fetch_sub_explicit(&device->performing, 1, memory_order_release);
    if (is_wait)
        pass_turn(stream);
}

static void operation_free(struct operation *operation)
{
    record_drop(operation->record);
    if (operation->drop)
        operation->drop(operation->payload);
    free(operation);
}

/* A stream that gets work has the queue that the fewest share, until it is idle again. */
static void take_queue(struct stream *stream)
{
    _Atomic uint32_t *sharing = stream->object.device->sharing;
    uint32_t queue = 0;
    for (uint32_t i = 1; i < QUEUES; i++)
        if (atomic_load_explicit(&sharing[i], memory_order_relaxed) <
            atomic_load_explicit(&sharing[queue], memory_order_relaxed))
            queue = i;
    atomic_fetch_add_explicit(&sharing[queue], 1, memory_order_relaxed);
    stream->queue = queue;
}

static void give_queue(struct stream *stream)
{
    atomic_fetch_sub_explicit(&stream->object.device->sharing[stream->queue], 1,
                              memory_order_relaxed);
}

/*
 * Who sees a record reached finds the stream past it, and who finds the stream past it sees it reached:
 * both are said at once. Called with the stream's mutex.
 */
static void finish(struct stream *stream, struct record *record)
{
    if (record && !is_over(stream))
        record_reach(record);
    record_drop(record);
    stream->finished++;
    if (stream->finished == stream->issued)
        give_queue(stream);
    pthread_cond_broadcast(&stream->changed);
}

static void *run_stream(void *argument)
{
    struct stream *stream = argument;
    pthread_mutex_lock(&stream->mutex);
    for (;;) {
        while (!stream->head && !stream->is_closed)
            pthread_cond_wait(&stream->changed, &stream->mutex);
        struct operation *operation = stream->head;
        if (!operation)
            break;
        stream->head = operation->next;
        pthread_mutex_unlock(&stream->mutex);
        work_off(operation, stream);
        struct record *record =
            operation->kind == OPERATION_RECORD ? record_hold(operation->record) : NULL;
        operation_free(operation);
        pthread_mutex_lock(&stream->mutex);
        finish(stream, record);
    }
    pthread_mutex_unlock(&stream->mutex);
    atomic_store(&stream->is_done, true);
    return NULL;
}

CUresult stream_give(struct stream *stream, const struct operation *given)
{
    struct operation *operation = malloc(sizeof *operation);
    if (!operation) {
        if (given->drop)
            given->drop(given->payload);
        record_drop(given->record);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *operation = *given;
    operation->next = NULL;
    pthread_mutex_lock(&stream->mutex);
    while (stream->issued - stream->finished >= QUEUED_MAX && !is_over(stream))
        condition_wait(&stream->changed, &stream->mutex);
    if (stream->issued == stream->finished)
        take_queue(stream);
    operation->turn = atomic_fetch_add_explicit(&stream->object.device->given[stream->queue], 1,
                                                memory_order_relaxed);
    if (stream->head)
        stream->tail->next = operation;
    else
        stream->head = operation;
    stream->tail = operation;
    stream->issued++;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
    return CUDA_SUCCESS;
}

CUresult stream_give_launch(struct stream *stream, void (*run)(void *payload),
                            void (*drop)(void *payload), void *payload)
{
    struct operation operation = {
        .kind = OPERATION_LAUNCH, .run = run, .drop = drop, .payload = payload
    };
    operation.poison = fault_of_work(WORK_LAUNCH, &operation.hangs);
    if (operation.hangs)
        operation.hang_ticket = fault_hang_ticket();
    return stream_give(stream, &operation);
}

CUresult stream_drain(struct stream *stream)
{
    struct device *device = stream->object.device;
    pthread_mutex_lock(&stream->mutex);
    uint64_t until = stream->issued;
    while (stream->finished < until && !device_is_over(device))
        condition_wait(&stream->changed, &stream->mutex);
    pthread_mutex_unlock(&stream->mutex);
    return atomic_load_explicit(&device->sticky, memory_order_relaxed);
}

/* --- streams ----------------------------------------------------------------------------------- */

static void close_stream(struct stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    stream->is_closed = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
}

static void stream_drop(struct stream *stream)
{
    if (atomic_fetch_sub_explicit(&stream->references, 1, memory_order_acq_rel) != 1)
        return;
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->mutex);
    free(stream);
}

void stream_end(struct stream *stream)
{
    close_stream(stream);
    pthread_join(stream->thread, NULL);
    object_remove(&stream->object);
    stream_drop(stream);
}

/* The youngest stream that is older than that, held; NULL: there is none. */
static struct stream *hold_older(struct device *device, uint64_t number)
{
    struct stream *found = NULL;
    pthread_mutex_lock(&device->mutex);
    for (struct object *object = device->objects; object; object = object->next) {
        struct stream *stream = (struct stream *)object;
        if (object->kind == KIND_STREAM && !stream->is_zombie && stream->number < number &&
            (!found || stream->number > found->number))
            found = stream;
    }
    if (found)
        atomic_fetch_add_explicit(&found->references, 1, memory_order_relaxed);
    pthread_mutex_unlock(&device->mutex);
    return found;
}

/* Others may make and destroy streams meanwhile. */
void streams_drain(struct device *device)
{
    uint64_t number = UINT64_MAX;
    for (struct stream *stream; (stream = hold_older(device, number)); stream_drop(stream)) {
        number = stream->number;
        stream_drain(stream);
    }
}

/* Destroyed streams, or those of them whose threads have left. One at a time: the list may change. */
static void reap(struct device *device, bool has_to_wait)
{
    struct stream *found;
    do {
        found = NULL;
        pthread_mutex_lock(&device->mutex);
        for (struct object *object = device->objects; object && !found; object = object->next) {
            struct stream *stream = (struct stream *)object;
            if (object->kind == KIND_STREAM && stream->is_zombie &&
                (has_to_wait || atomic_load(&stream->is_done))) {
                stream->is_zombie = false;
                found = stream;
            }
        }
        pthread_mutex_unlock(&device->mutex);
        if (found)
            stream_end(found);
    } while (found);
}

void streams_kill(struct device *device)
{
    pthread_mutex_lock(&device->mutex);
    for (struct object *object = device->objects; object; object = object->next)
        if (object->kind == KIND_STREAM)
            atomic_store(&((struct stream *)object)->is_dead, true);
    device->primary.legacy = NULL;
    pthread_mutex_unlock(&device->mutex);
    reap(device, true);
}

CUresult stream_make(struct context *context, unsigned flags, int priority, struct stream **out)
{
    static _Atomic uint64_t numbers;
    struct device *device = context->device;
    reap(device, false);
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    atomic_init(&stream->references, 1);
    stream->number = atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed);
    stream->flags = flags;
    /* The real driver takes the nearest it has. */
    stream->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    pthread_mutex_init(&stream->mutex, NULL);
    condition_init(&stream->changed);
    object_add(&stream->object, KIND_STREAM, device);
    if (pthread_create(&stream->thread, NULL, run_stream, stream) != 0) {
        object_remove(&stream->object);
        stream_drop(stream);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = stream;
    return CUDA_SUCCESS;
}

CUresult stream_resolve(CUstream handle, struct stream **out)
{
    struct context *context = context_current();
    if (handle && handle != LEGACY && handle != PER_THREAD) {
        *out = handle;
        bool is_stream = handle->object.kind == KIND_STREAM && !handle->is_zombie;
        return is_stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    }
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    CUresult result = CUDA_SUCCESS;
    if (!context->legacy)
        result = stream_make(context, 0, 0, &context->legacy);
    *out = context->legacy;
    pthread_mutex_unlock(&mutex);
    return result;
}

API(cuStreamCreateWithPriority, CUstream *stream, unsigned flags, int priority)
{
    BEGIN(CHECK_CONTEXT);
    if (!stream || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    return stream_make(context_current(), flags, priority, stream);
}

API(cuStreamDestroy_v2, CUstream stream)
{
    BEGIN(CHECK_CONTEXT);
    if (!stream || stream == LEGACY || stream == PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    struct device *device = stream->object.device;
    pthread_mutex_lock(&device->mutex);
    bool is_stream = stream->object.kind == KIND_STREAM && !stream->is_zombie;
    if (is_stream)
        stream->is_zombie = true;
    pthread_mutex_unlock(&device->mutex);
    if (!is_stream)
        return CUDA_ERROR_INVALID_HANDLE;
    close_stream(stream);
    return CUDA_SUCCESS;
}

API(cuStreamQuery, CUstream handle)
{
    struct stream *stream;
    BEGIN(CHECK_CONTEXT);
    CUresult result = stream_resolve(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&stream->mutex);
    bool is_idle = stream->finished == stream->issued;
    pthread_mutex_unlock(&stream->mutex);
    return is_idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

API(cuStreamSynchronize, CUstream handle)
{
    struct stream *stream;
    BEGIN(CHECK_CONTEXT);
    CUresult result = stream_resolve(handle, &stream);
    return result != CUDA_SUCCESS ? result : stream_drain(stream);
}

API(cuStreamWaitEvent, CUstream handle, CUevent event, unsigned flags)
{
    struct stream *stream;
    BEGIN(CHECK_CONTEXT);
    CUresult result = stream_resolve(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!IS(event, KIND_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&event->mutex);
    struct record *record = record_hold(event->last);
    pthread_mutex_unlock(&event->mutex);
    if (!record)
        return CUDA_SUCCESS;
    return stream_give(stream, &(struct operation){ .kind = OPERATION_WAIT, .record = record });
}

API(cuStreamWaitValue64_v2, CUstream handle, CUdeviceptr address, uint64_t value, unsigned flags)
{
    struct stream *stream;
    BEGIN(CHECK_CONTEXT);
    CUresult result = stream_resolve(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!settings.has_gates)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (address == 0 || address % 8 != 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return stream_give(stream, &(struct operation){ .kind = OPERATION_WAIT_VALUE,
                                                    .from = (const void *)(uintptr_t)address,
                                                    .value = value });
}

API(cuStreamWriteValue64_v2, CUstream handle, CUdeviceptr address, uint64_t value, unsigned flags)
{
    struct stream *stream;
    BEGIN(CHECK_CONTEXT);
    CUresult result = stream_resolve(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (address == 0 || address % 8 != 0 || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    return stream_give(stream, &(struct operation){ .kind = OPERATION_WRITE_VALUE,
                                                    .to = (void *)(uintptr_t)address,
                                                    .value = value });
}

API(cuLaunchHostFunc, CUstream handle, CUhostFn function, void *user)
{
    struct stream *stream;
    BEGIN(CHECK_CONTEXT);
    CUresult result = stream_resolve(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!function)
        return CUDA_ERROR_INVALID_VALUE;
    return stream_give(
        stream, &(struct operation){ .kind = OPERATION_HOST, .function = function, .user = user });
}

/* --- events ------------------------------------------------------------------------------------ */

void event_free(struct object *object)
{
    struct event *event = (struct event *)object;
    object_remove(object);
    record_drop(event->last);
    pthread_mutex_destroy(&event->mutex);
    free(event);
}

API(cuEventCreate, CUevent *out, unsigned flags)
{
    BEGIN(CHECK_CONTEXT);
    if (!out || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    struct event *event = calloc(1, sizeof *event);
    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_init(&event->mutex, NULL);
    event->flags = flags;
    object_add(&event->object, KIND_EVENT, context_current()->device);
    *out = event;
    return CUDA_SUCCESS;
}

API(cuEventDestroy_v2, CUevent event)
{
    BEGIN(CHECK_CONTEXT);
    if (!IS(event, KIND_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    event_free(&event->object);
    return CUDA_SUCCESS;
}

API(cuEventRecord, CUevent event, CUstream handle)
{
    struct stream *stream;
    BEGIN(CHECK_CONTEXT);
    CUresult result = stream_resolve(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!IS(event, KIND_EVENT) || event->object.device != stream->object.device)
        return CUDA_ERROR_INVALID_HANDLE;
    struct record *record = record_make();
    if (!record)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = stream_give(
        stream, &(struct operation){ .kind = OPERATION_RECORD, .record = record_hold(record) });
    if (result != CUDA_SUCCESS) {
        record_drop(record);
        return result;
    }
    pthread_mutex_lock(&event->mutex);
    struct record *before = event->last;
    event->last = record;
    pthread_mutex_unlock(&event->mutex);
    record_drop(before);
    return CUDA_SUCCESS;
}

static struct record *last_record(struct event *event)
{
    pthread_mutex_lock(&event->mutex);
    struct record *record = record_hold(event->last);
    pthread_mutex_unlock(&event->mutex);
    return record;
}

API(cuEventQuery, CUevent event)
{
    BEGIN(CHECK_CONTEXT);
    if (!IS(event, KIND_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    struct record *record = last_record(event);
    bool is_reached = !record || record_is_reached(record);
    record_drop(record);
    return is_reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

API(cuEventSynchronize, CUevent event)
{
    BEGIN(CHECK_CONTEXT);
    if (!IS(event, KIND_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    struct record *record = last_record(event);
    while (record && !record_is_reached(record) && !device_is_over(event->object.device))
        pause_a_little();
    record_drop(record);
    return atomic_load_explicit(&event->object.device->sticky, memory_order_relaxed);
}

/* 0 and CUDA_ERROR_INVALID_HANDLE: it carries no time. */
static CUresult time_of(struct event *event, uint64_t *at_ns)
{
    struct record *record = IS(event, KIND_EVENT) ? last_record(event) : NULL;
    if (!record)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&record->mutex);
    CUresult result = event->flags & FLAG_DISABLE_TIMING ? CUDA_ERROR_INVALID_HANDLE
                      : record->is_reached               ? CUDA_SUCCESS
                                                         : CUDA_ERROR_NOT_READY;
    *at_ns = record->at_ns;
    pthread_mutex_unlock(&record->mutex);
    record_drop(record);
    return result;
}

API(cuEventElapsedTime, float *ms, CUevent begin, CUevent end)
{
    uint64_t begin_ns, end_ns;
    BEGIN(CHECK_CONTEXT);
    CUresult result = time_of(begin, &begin_ns);
    if (result == CUDA_SUCCESS)
        result = time_of(end, &end_ns);
    if (result == CUDA_SUCCESS)
        *ms = (float)((double)(int64_t)(end_ns - begin_ns) / 1e6);
    return result;
}
