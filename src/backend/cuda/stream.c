/*
 * Streams and events. CUDA's own meanings are those that are asked for: a wait is bound to the last
 * record issued, an event never recorded is complete.
 */
#include "backend/cuda/state.h"
#include "base/allocator.h"

#define SPIN_NS 100000u
/*
 * A wait asks again after a small part of what it has waited so far, so that it ends only that much
 * too late. Pauses that double would end a wait of 3 ms up to 1 ms late.
 */
#define SLEEPS_PER_WAIT 64u
#define SLEEP_LEAST_NS 20000u
#define SLEEP_MOST_NS 1000000u

static muster_status check_priority(const struct cuda_domain *domain, int32_t priority,
                                    int is_default, struct muster_error *err)
{
    int32_t greatest = is_default ? 0 : domain->info.priority_greatest;
    int32_t least = is_default ? 0 : domain->info.priority_least;
    if (priority >= greatest && priority <= least)
        return MUSTER_OK;
    return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "take a priority of that range",
                             "priority %d is asked for; %s takes %d to %d", priority,
                             is_default ? "the default stream" : "the GPU", greatest, least);
}

static cuda_result make_handle(struct cuda_device *device, int32_t priority, int is_default,
                               cuda_stream_handle *out)
{
    const struct cuda_driver *driver = &device->domain->backend->driver;
    if (is_default) {
        *out = device->green ? device->default_stream : CUDA_STREAM_LEGACY;
        return CUDA_SUCCESS_;
    }
    return device->green
               ? driver->green_stream(out, device->green, CUDA_FLAG_STREAM_NON_BLOCKING, priority)
               : driver->stream_create(out, CUDA_FLAG_STREAM_NON_BLOCKING, priority);
}

/* `cores` is not NULL: on multiprocessors of its own, see stream_open_apart. */
static muster_status open_stream(struct cuda_device *device, int32_t priority, int is_default,
                                 uint32_t *cores, struct cuda_stream *stream,
                                 struct muster_error *err)
{
    struct cuda_domain *domain = device->domain;
    const struct muster_allocator *allocator = domain->backend->services->allocator;
    struct cuda_scope scope;
    muster_status status = check_priority(domain, priority, is_default, err);
    if (status == MUSTER_OK)
        status = cuda_enter(&scope, domain, err);
    if (status != MUSTER_OK)
        return status;
    cuda_domain_reap(domain);
    struct cuda_queue *queue = allocator_take(allocator, 1, sizeof *queue);
    if (!queue) {
        cuda_leave(&scope, CUDA_SUCCESS_, "", NULL);
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a stream");
    }
    queue->device = device;
    queue->is_default = is_default;
    cuda_result result = cores ? cuda_queue_open_apart(device, cores, queue)
                               : make_handle(device, priority, is_default, &queue->handle);
    status = cuda_leave(&scope, result, "making a stream", err);
    if (status != MUSTER_OK) {
        allocator_give(allocator, queue, 1, sizeof *queue);
        return status;
    }
    platform_mutex_lock(&domain->lock);
    queue->next = domain->queues;
    domain->queues = queue;
    platform_mutex_unlock(&domain->lock);
    stream->queue = queue;
    return MUSTER_OK;
}

muster_status cuda_stream_open(void *state, int32_t priority, int is_default, void *stream,
                               struct muster_error *err)
{
    return open_stream(state, priority, is_default, NULL, stream, err);
}

muster_status cuda_stream_open_apart(void *state, uint32_t *cores, void *stream,
                                     struct muster_error *err)
{
    struct cuda_device *device = state;
    if (device->green || !(device->domain->info.capabilities & MUSTER_CAN_SLICE))
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, NULL,
                                 "the GPU cannot be cut here");
    return open_stream(device, 0, 0, cores, stream, err);
}

/* Others may go on using the default stream: only what is on it by now is ours to wait for. */
static void mark_tail(struct cuda_queue *queue)
{
    struct cuda_domain *domain = queue->device->domain;
    const struct cuda_driver *driver = &domain->backend->driver;
    struct cuda_scope scope;
    if (cuda_enter(&scope, domain, NULL) != MUSTER_OK)
        return;
    cuda_event_handle tail = NULL;
    cuda_result result = driver->event_create(&tail, CUDA_FLAG_EVENT_NO_TIMING);
    if (result == CUDA_SUCCESS_) {
        result = driver->event_record(tail, queue->handle);
        /* One that was not recorded is complete: then the whole stream is asked instead. */
        if (result == CUDA_SUCCESS_)
            queue->tail = tail;
        else
            driver->event_destroy(tail);
    }
    cuda_leave(&scope, result, "marking the end of the default stream", NULL);
}

void cuda_stream_close(void *state)
{
    struct cuda_queue *queue = ((struct cuda_stream *)state)->queue;
    struct cuda_domain *domain = queue->device->domain;
    if (queue->is_default)
        mark_tail(queue);
    platform_mutex_lock(&domain->lock);
    queue->is_closed = true;
    platform_mutex_unlock(&domain->lock);
    cuda_domain_reap(domain);
}

void *cuda_stream_native(void *state)
{
    return ((struct cuda_stream *)state)->queue->handle;
}

/* A thread without a context cannot launch, and libraries would take that of the first GPU. */
muster_status cuda_native_enter(void *state, struct muster_error *err)
{
    struct cuda_domain *domain = ((struct cuda_stream *)state)->queue->device->domain;
    muster_status status = cuda_check(domain, err);
    if (status != MUSTER_OK)
        return status;
    cuda_result result = domain->backend->driver.context_push(domain->context);
    return result == CUDA_SUCCESS_
               ? MUSTER_OK
               : cuda_fail(domain, result, "making the GPU's context current", err);
}

void cuda_native_leave(void *state)
{
    cuda_context popped;
    ((struct cuda_stream *)state)->queue->device->domain->backend->driver.context_pop(&popped);
}

muster_status cuda_stream_query(void *state, struct muster_error *err)
{
    struct cuda_queue *queue = ((struct cuda_stream *)state)->queue;
    struct cuda_domain *domain = queue->device->domain;
    struct cuda_scope scope;
    muster_status status = cuda_enter(&scope, domain, err);
    if (status != MUSTER_OK)
        return status;
    cuda_result result = domain->backend->driver.stream_query(queue->handle);
    return cuda_leave(&scope, result, "asking a stream", err);
}

muster_status cuda_stream_wait(void *state, void *event_state, struct muster_error *err)
{
    struct cuda_queue *queue = ((struct cuda_stream *)state)->queue;
    struct cuda_domain *domain = queue->device->domain;
    struct cuda_event *event = event_state;
    struct cuda_scope scope;
    if (event->flags & MUSTER_EVENT_TIMING)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "wait for an event made for ordering",
                                 "a timing event orders nothing");
    if (event->device != queue->device)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "wait for it on the host",
                                 "a stream cannot wait for an event of another device");
    muster_status status = cuda_enter(&scope, domain, err);
    if (status != MUSTER_OK)
        return status;
    cuda_result result = domain->backend->driver.stream_wait_event(queue->handle, event->handle, 0);
    return cuda_leave(&scope, result, "waiting for an event on a stream", err);
}

muster_status cuda_event_init(void *state, uint32_t flags, void *event_state,
                              struct muster_error *err)
{
    struct cuda_device *device = state;
    struct cuda_event *event = event_state;
    struct cuda_scope scope;
    muster_status status = cuda_enter(&scope, device->domain, err);
    if (status != MUSTER_OK)
        return status;
    event->device = device;
    event->flags = flags;
    cuda_result result = device->domain->backend->driver.event_create(
        &event->handle,
        flags & MUSTER_EVENT_TIMING ? CUDA_FLAG_EVENT_TIMING : CUDA_FLAG_EVENT_NO_TIMING);
    return cuda_leave(&scope, result, "making an event", err);
}

void cuda_event_deinit(void *state)
{
    struct cuda_event *event = state;
    struct cuda_domain *domain = event->device->domain;
    struct cuda_scope scope;
    if (cuda_enter(&scope, domain, NULL) == MUSTER_OK)
        cuda_leave(&scope, domain->backend->driver.event_destroy(event->handle), "", NULL);
}

muster_status cuda_event_record(void *state, void *stream_state, struct muster_error *err)
{
    struct cuda_event *event = state;
    struct cuda_queue *queue = ((struct cuda_stream *)stream_state)->queue;
    struct cuda_domain *domain = queue->device->domain;
    struct cuda_scope scope;
    if (event->device != queue->device)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "make an event for each device",
                                 "an event is recorded on a stream of another device");
    muster_status status = cuda_enter(&scope, domain, err);
    if (status != MUSTER_OK)
        return status;
    cuda_result result = domain->backend->driver.event_record(event->handle, queue->handle);
    /* Only now: who counts the record before the driver has it would take the old one for it. */
    if (result == CUDA_SUCCESS_)
        atomic_fetch_add_explicit(&event->issued, 1, memory_order_release);
    return cuda_leave(&scope, result, "recording an event", err);
}

static void note_done(struct cuda_event *event, uint64_t record)
{
    uint64_t done = atomic_load_explicit(&event->done, memory_order_relaxed);
    while (done < record &&
           !atomic_compare_exchange_weak_explicit(&event->done, &done, record, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

muster_status cuda_event_query(void *state, struct muster_error *err)
{
    struct cuda_event *event = state;
    struct cuda_domain *domain = event->device->domain;
    struct cuda_scope scope;
    uint64_t issued = atomic_load_explicit(&event->issued, memory_order_acquire);
    /* What is known to be complete stays so, also after a loss. */
    if (atomic_load_explicit(&event->done, memory_order_acquire) >= issued)
        return MUSTER_OK;
    muster_status status = cuda_enter(&scope, domain, err);
    if (status != MUSTER_OK)
        return status;
    cuda_result result = domain->backend->driver.event_query(event->handle);
    if (result == CUDA_SUCCESS_)
        note_done(event, issued);
    return cuda_leave(&scope, result, "asking an event", err);
}

/* Parks until the event may be complete, or a loss wakes it. */
static void park(struct cuda_domain *domain, uint64_t waited_ns, uint64_t deadline_ns)
{
    uint64_t step_ns = waited_ns / SLEEPS_PER_WAIT, now_ns = platform_clock_ns();
    step_ns = step_ns < SLEEP_LEAST_NS  ? SLEEP_LEAST_NS
              : step_ns > SLEEP_MOST_NS ? SLEEP_MOST_NS
                                        : step_ns;
    platform_mutex_lock(&domain->lock);
    platform_condition_wait(&domain->changed, &domain->lock,
                            deadline_ns - now_ns > step_ns ? now_ns + step_ns : deadline_ns);
    platform_mutex_unlock(&domain->lock);
}

muster_status cuda_event_wait(void *state, uint64_t timeout_ns, struct muster_error *err)
{
    struct cuda_event *event = state;
    muster_status status = cuda_event_query(event, err);
    if (status != MUSTER_E_BUSY)
        return status;
    uint64_t begin_ns = platform_clock_ns(), deadline_ns = platform_deadline_ns(timeout_ns);
    uint64_t now_ns = begin_ns, slack = 0;
    bool is_sharp = false;
    while (status == MUSTER_E_BUSY && now_ns < deadline_ns) {
        if (now_ns - begin_ns < SPIN_NS) {
            platform_thread_yield();
        } else {
            if (!is_sharp)
                slack = platform_thread_sharpen();
            is_sharp = true;
            park(event->device->domain, now_ns - begin_ns, deadline_ns);
        }
        status = cuda_event_query(event, err);
        now_ns = platform_clock_ns();
    }
    if (is_sharp)
        platform_thread_blunt(slack);
    if (status != MUSTER_E_BUSY)
        return status;
    return muster_error_fill(err, MUSTER_E_TIMEOUT, 0, "wait longer, or treat the device as hung",
                             "an event is not complete after %llu ns",
                             (unsigned long long)timeout_ns);
}

muster_status cuda_event_elapsed(void *begin_state, void *end_state, uint64_t *ns,
                                 struct muster_error *err)
{
    struct cuda_event *begin = begin_state, *end = end_state;
    struct cuda_domain *domain = begin->device->domain;
    struct cuda_scope scope;
    float milliseconds = 0;
    if (!(begin->flags & end->flags & MUSTER_EVENT_TIMING))
        return muster_error_fill(err, MUSTER_E_INVALID, 0,
                                 "make both events with MUSTER_EVENT_TIMING",
                                 "an event made for ordering carries no time");
    if (begin->device != end->device)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                 "the events belong to two devices");
    if (atomic_load(&begin->issued) == 0 || atomic_load(&end->issued) == 0)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "record both events",
                                 "an event was never recorded");
    muster_status status = cuda_enter(&scope, domain, err);
    if (status != MUSTER_OK)
        return status;
    cuda_result result =
        domain->backend->driver.event_elapsed(&milliseconds, begin->handle, end->handle);
    status = cuda_leave(&scope, result, "measuring between two events", err);
    if (status == MUSTER_OK)
        *ns = milliseconds > 0 ? (uint64_t)((double)milliseconds * 1e6) : 0;
    return status;
}

muster_status cuda_host_call(void *state, void (*function)(void *user, muster_status status),
                             void *user, struct muster_error *err)
{
    return cuda_call_give(((struct cuda_stream *)state)->queue, function, user, err);
}
