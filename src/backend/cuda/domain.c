/*
 * A domain: its context, its loss, and the host calls that must be made whatever becomes of it.
 *
 * The driver makes a host call through deliver(), from a thread of its own, unless the context has
 * failed: then it drops it. So every call is kept in a list of ours until it has returned, and a
 * watcher, asleep while the list is empty, looks every few milliseconds whether the context still
 * lives. Once it does not, the driver's deliveries are declined and the watcher makes the calls
 * that are left, in order.
 *
 * What the driver is given is a number and not a pointer, since nobody can know when a poisoned
 * context makes its last delivery: a number that nothing belongs to any more is ignored.
 */
#include "backend/cuda/state.h"
#include "base/allocator.h"
#include "base/invariant.h"

#include <stdio.h>
#include <string.h>

#define LOOK_NS 4000000u
#define NO_CALL UINT32_MAX
#define CALLS_FIRST 32
#define CALLS_MAX (UINT32_C(1) << 24)

/* Bits of what the driver is given for a call: domain, place, serial. */
#define SLOT_COUNT 256
#define PLACE_BITS 24
#define SERIAL_BITS 32
_Static_assert(sizeof(uintptr_t) * 8 >= 8 + PLACE_BITS + SERIAL_BITS, "a ticket fits a pointer");

/* Every open domain of the process; taken before a domain's own lock. */
static struct platform_mutex table_lock = { PTHREAD_MUTEX_INITIALIZER };
static struct cuda_domain *table[SLOT_COUNT];

static const struct muster_allocator *allocator_of(const struct cuda_domain *domain)
{
    return domain->backend->services->allocator;
}

muster_status cuda_check(struct cuda_domain *domain, struct muster_error *err)
{
    cuda_result lost = atomic_load_explicit(&domain->lost, memory_order_acquire);
    if (lost == CUDA_SUCCESS_)
        return MUSTER_OK;
    cuda_driver_error(&domain->backend->driver, lost, "the GPU's context failed earlier", err);
    return MUSTER_E_DEVICE_LOST;
}

static void mark_lost(struct cuda_domain *domain, cuda_result result)
{
    cuda_result none = CUDA_SUCCESS_;
    /* Pairs with cuda_check. The first cause is kept. */
    if (!atomic_compare_exchange_strong_explicit(&domain->lost, &none, result, memory_order_acq_rel,
                                                 memory_order_acquire))
        return;
    platform_mutex_lock(&domain->lock);
    platform_condition_wake_all(&domain->changed);
    platform_mutex_unlock(&domain->lock);
}

muster_status cuda_fail(struct cuda_domain *domain, cuda_result result, const char *what,
                        struct muster_error *err)
{
    if (cuda_driver_is_loss(result))
        mark_lost(domain, result);
    return cuda_driver_error(&domain->backend->driver, result, what, err);
}

static cuda_result push(struct cuda_scope *scope, struct cuda_domain *domain)
{
    const struct cuda_driver *driver = &domain->backend->driver;
    cuda_context current = NULL;
    *scope = (struct cuda_scope){ .domain = domain };
    if (driver->context_current(&current) == CUDA_SUCCESS_ && current == domain->context)
        return CUDA_SUCCESS_;
    cuda_result result = driver->context_push(domain->context);
    scope->has_pushed = result == CUDA_SUCCESS_;
    return result;
}

static void pop(struct cuda_scope *scope)
{
    cuda_context popped;
    if (scope->has_pushed)
        scope->domain->backend->driver.context_pop(&popped);
}

muster_status cuda_enter(struct cuda_scope *scope, struct cuda_domain *domain,
                         struct muster_error *err)
{
    muster_status status = cuda_check(domain, err);
    if (status != MUSTER_OK)
        return status;
    cuda_result result = push(scope, domain);
    return result == CUDA_SUCCESS_
               ? MUSTER_OK
               : cuda_fail(domain, result, "making the GPU's context current", err);
}

muster_status cuda_leave(struct cuda_scope *scope, cuda_result result, const char *what,
                         struct muster_error *err)
{
    pop(scope);
    if (result == CUDA_SUCCESS_)
        return MUSTER_OK;
    if (result == CUDA_NOT_READY) /* asked for all the time, and no words are wanted */
        return MUSTER_E_BUSY;
    return cuda_fail(scope->domain, result, what, err);
}

/* Calls. All of these with the domain's lock held. */

static bool grow_calls(struct cuda_domain *domain)
{
    uint32_t old = domain->call_capacity, capacity = old ? 2 * old : CALLS_FIRST;
    if (capacity > CALLS_MAX)
        return false;
    struct cuda_call *calls = allocator_take(allocator_of(domain), capacity, sizeof *calls);
    if (!calls)
        return false;
    if (old)
        memcpy(calls, domain->calls, old * sizeof *calls);
    allocator_give(allocator_of(domain), domain->calls, old, sizeof *calls);
    domain->calls = calls;
    domain->call_capacity = capacity;
    for (uint32_t i = capacity; i-- > old;) {
        calls[i].next = domain->call_free;
        domain->call_free = i;
    }
    return true;
}

static uint32_t add_call(struct cuda_domain *domain)
{
    if (domain->call_free == NO_CALL && !grow_calls(domain))
        return NO_CALL;
    uint32_t place = domain->call_free;
    struct cuda_call *call = &domain->calls[place];
    domain->call_free = call->next;
    call->serial++;
    call->state = CUDA_CALL_GIVING;
    call->next = NO_CALL;
    call->previous = domain->call_last;
    if (domain->call_last != NO_CALL)
        domain->calls[domain->call_last].next = place;
    else
        domain->call_first = place;
    domain->call_last = place;
    domain->calls_given++;
    return place;
}

static void remove_call(struct cuda_domain *domain, uint32_t place)
{
    struct cuda_call *call = &domain->calls[place];
    if (call->previous != NO_CALL)
        domain->calls[call->previous].next = call->next;
    else
        domain->call_first = call->next;
    if (call->next != NO_CALL)
        domain->calls[call->next].previous = call->previous;
    else
        domain->call_last = call->previous;
    call->queue->calls--;
    call->state = CUDA_CALL_FREE;
    call->next = domain->call_free;
    domain->call_free = place;
    domain->calls_given--;
}

/* Whether the driver will not make the call any more, and what it is made with then. */
static muster_status broken(const struct cuda_domain *domain, const struct cuda_call *call)
{
    if (atomic_load_explicit(&domain->lost, memory_order_acquire) != CUDA_SUCCESS_)
        return MUSTER_E_DEVICE_LOST;
    return call->queue->device->is_abandoned ? MUSTER_E_DEVICE_HUNG : MUSTER_OK;
}

/* Makes a call, without the lock while it runs; it is in nobody else's hands. */
static void run_call(struct cuda_domain *domain, uint32_t place, muster_status status)
{
    struct cuda_call call = domain->calls[place];
    domain->calls[place].state = CUDA_CALL_RUNNING;
    domain->calls_running++;
    platform_mutex_unlock(&domain->lock);
    call.function(call.user, status);
    platform_mutex_lock(&domain->lock);
    domain->calls_running--;
    remove_call(domain, place);
    if (domain->is_closing || broken(domain, &call) != MUSTER_OK)
        platform_condition_wake_all(&domain->changed);
}

/* By the driver. Left to the watcher once that makes the calls, so that they keep their order. */
static void deliver(void *user)
{
    uintptr_t ticket = (uintptr_t)user;
    uint32_t serial = (uint32_t)ticket;
    uint32_t place = (uint32_t)(ticket >> SERIAL_BITS) & ((UINT32_C(1) << PLACE_BITS) - 1);
    uint32_t slot = (uint32_t)(ticket >> (SERIAL_BITS + PLACE_BITS));
    platform_mutex_lock(&table_lock);
    struct cuda_domain *domain = table[slot];
    if (domain)
        platform_mutex_lock(&domain->lock);
    platform_mutex_unlock(&table_lock);
    if (!domain)
        return;
    struct cuda_call *call = place < domain->call_capacity ? &domain->calls[place] : NULL;
    bool is_waiting = call && call->serial == serial &&
                      (call->state == CUDA_CALL_GIVING || call->state == CUDA_CALL_GIVEN);
    if (is_waiting && broken(domain, call) == MUSTER_OK)
        run_call(domain, place, MUSTER_OK);
    platform_mutex_unlock(&domain->lock);
}

muster_status cuda_call_give(struct cuda_queue *queue,
                             void (*function)(void *user, muster_status status), void *user,
                             struct muster_error *err)
{
    struct cuda_domain *domain = queue->device->domain;
    struct cuda_scope scope;
    muster_status status = cuda_enter(&scope, domain, err);
    if (status != MUSTER_OK)
        return status;
    platform_mutex_lock(&domain->lock);
    uint32_t place = add_call(domain);
    uintptr_t ticket = 0;
    if (place != NO_CALL) {
        struct cuda_call *call = &domain->calls[place];
        call->function = function;
        call->user = user;
        call->queue = queue;
        queue->calls++;
        ticket = (((uintptr_t)domain->slot << PLACE_BITS | place) << SERIAL_BITS) | call->serial;
        if (domain->calls_given == 1)
            platform_condition_wake_all(&domain->changed);
    }
    platform_mutex_unlock(&domain->lock);
    if (place == NO_CALL) {
        cuda_leave(&scope, CUDA_SUCCESS_, "", NULL);
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a host call");
    }
    cuda_result result = domain->backend->driver.host_call(queue->handle, deliver, (void *)ticket);
    /* Until here the watcher left it alone, so that a call refused is never made. */
    platform_mutex_lock(&domain->lock);
    struct cuda_call *call = &domain->calls[place];
    bool is_ours = call->serial == (uint32_t)ticket && call->state == CUDA_CALL_GIVING;
    if (!is_ours)
        result = CUDA_SUCCESS_; /* it has been made: whatever the driver says, it was accepted */
    else if (result != CUDA_SUCCESS_)
        remove_call(domain, place);
    else
        call->state = CUDA_CALL_GIVEN;
    if (atomic_load_explicit(&domain->lost, memory_order_acquire))
        platform_condition_wake_all(&domain->changed);
    platform_mutex_unlock(&domain->lock);
    return cuda_leave(&scope, result, "giving a host call to a stream", err);
}

/* The first call that is left to the watcher, when none runs that may have to come before it. */
static uint32_t next_left(const struct cuda_domain *domain)
{
    uint32_t place = domain->calls_running == 0 ? domain->call_first : NO_CALL;
    while (place != NO_CALL && (domain->calls[place].state != CUDA_CALL_GIVEN ||
                                broken(domain, &domain->calls[place]) == MUSTER_OK))
        place = domain->calls[place].next;
    return place;
}

/* Asks the streams that have calls whether their context still lives. */
static void look(struct cuda_domain *domain)
{
    const struct cuda_driver *driver = &domain->backend->driver;
    for (struct cuda_queue *queue = domain->queues; queue; queue = queue->next) {
        if (queue->calls == 0)
            continue;
        queue->looks++;
        platform_mutex_unlock(&domain->lock);
        struct cuda_scope scope;
        cuda_result result = push(&scope, domain);
        if (result == CUDA_SUCCESS_)
            result = driver->stream_query(queue->handle);
        pop(&scope);
        if (cuda_driver_is_loss(result))
            mark_lost(domain, result);
        platform_mutex_lock(&domain->lock);
        queue->looks--;
    }
}

static void watch(void *argument)
{
    struct cuda_domain *domain = argument;
    platform_mutex_lock(&domain->lock);
    while (!domain->is_closing || domain->calls_given > 0) {
        bool is_lost = atomic_load_explicit(&domain->lost, memory_order_acquire) != CUDA_SUCCESS_;
        uint32_t left = next_left(domain);
        if (left != NO_CALL) {
            run_call(domain, left, broken(domain, &domain->calls[left]));
        } else if (is_lost || domain->calls_given == 0) {
            platform_condition_wait(&domain->changed, &domain->lock, UINT64_MAX);
        } else {
            uint64_t deadline_ns = platform_deadline_ns(LOOK_NS);
            while (platform_condition_wait(&domain->changed, &domain->lock, deadline_ns) &&
                   !domain->is_closing && next_left(domain) == NO_CALL)
                ;
            if (domain->calls_given > 0)
                look(domain);
        }
    }
    platform_mutex_unlock(&domain->lock);
}

/* Streams that are closed and not gone. */

/* Only what the driver says is over is: another answer than that leaves it in doubt. */
static bool has_ended(struct cuda_domain *domain, const struct cuda_queue *queue)
{
    const struct cuda_driver *driver = &domain->backend->driver;
    if (atomic_load_explicit(&domain->lost, memory_order_acquire))
        return true;
    cuda_result result =
        queue->tail ? driver->event_query(queue->tail) : driver->stream_query(queue->handle);
    if (cuda_driver_is_loss(result))
        mark_lost(domain, result);
    return result == CUDA_SUCCESS_ || cuda_driver_is_loss(result);
}

/* Takes one out that nothing of is left, NULL if there is none. */
static struct cuda_queue *take_ended(struct cuda_domain *domain)
{
    platform_mutex_lock(&domain->lock);
    struct cuda_queue **at = &domain->queues;
    struct cuda_queue *found = NULL;
    while (*at && !found) {
        struct cuda_queue *queue = *at;
        if (queue->is_closed && queue->calls == 0 && queue->looks == 0) {
            /* Held, so that the watcher and others pass it by. */
            queue->looks++;
            platform_mutex_unlock(&domain->lock);
            bool ended = has_ended(domain, queue);
            platform_mutex_lock(&domain->lock);
            queue->looks--;
            if (ended) {
                at = &domain->queues;
                while (*at != queue)
                    at = &(*at)->next;
                *at = queue->next;
                found = queue;
                break;
            }
        }
        at = &queue->next;
    }
    platform_mutex_unlock(&domain->lock);
    return found;
}

static void free_queue(struct cuda_domain *domain, struct cuda_queue *queue)
{
    const struct cuda_driver *driver = &domain->backend->driver;
    if (!queue->is_default)
        driver->stream_destroy(queue->handle);
    if (queue->green)
        driver->green_destroy(queue->green);
    if (queue->tail)
        driver->event_destroy(queue->tail);
    for (size_t i = 0; i < sizeof queue->record_events / sizeof *queue->record_events; i++)
        if (queue->record_events[i])
            driver->event_destroy(queue->record_events[i]);
    cuda_graphs_free(domain, queue);
    cuda_pinned_release(domain, CUDA_PINNED_STAGE, queue->stage);
    cuda_pinned_release(domain, CUDA_PINNED_STAGE_LARGE, queue->large_stage);
    cuda_pinned_release(domain, CUDA_PINNED_RECORDS, queue->records);
    allocator_give(allocator_of(domain), queue, 1, sizeof *queue);
}

void cuda_domain_reap(struct cuda_domain *domain)
{
    struct cuda_scope scope;
    struct cuda_queue *queue;
    if (push(&scope, domain) != CUDA_SUCCESS_ && !atomic_load(&domain->lost))
        return;
    while ((queue = take_ended(domain)))
        free_queue(domain, queue);
    pop(&scope);
}

/* With the lock held. */
static bool has_queues(const struct cuda_domain *domain, const struct cuda_device *device)
{
    const struct cuda_queue *queue = domain->queues;
    while (queue && queue->device != device)
        queue = queue->next;
    return queue != NULL;
}

bool cuda_domain_settle(struct cuda_device *device)
{
    struct cuda_domain *domain = device->domain;
    uint64_t deadline_ns = platform_deadline_ns(CUDA_CLOSE_GRACE_NS), step_ns = 100000;
    for (;;) {
        cuda_domain_reap(domain);
        platform_mutex_lock(&domain->lock);
        bool is_done = !has_queues(domain, device), in_time = platform_clock_ns() < deadline_ns;
        if (!is_done && in_time)
            platform_condition_wait(&domain->changed, &domain->lock, platform_deadline_ns(step_ns));
        platform_mutex_unlock(&domain->lock);
        if (is_done || !in_time)
            return is_done;
        step_ns = step_ns < 4000000 ? 2 * step_ns : step_ns;
    }
}

/* With the lock held. */
static bool has_calls(const struct cuda_domain *domain, const struct cuda_device *device)
{
    uint32_t place = domain->call_first;
    while (place != NO_CALL && domain->calls[place].queue->device != device)
        place = domain->calls[place].next;
    return place != NO_CALL;
}

void cuda_domain_abandon(struct cuda_device *device)
{
    struct cuda_domain *domain = device->domain;
    uint64_t deadline_ns = platform_deadline_ns(CUDA_CLOSE_GRACE_NS);
    platform_mutex_lock(&domain->lock);
    device->is_abandoned = true;
    platform_condition_wake_all(&domain->changed);
    while (has_calls(domain, device) &&
           platform_condition_wait(&domain->changed, &domain->lock, deadline_ns))
        ;
    platform_mutex_unlock(&domain->lock);
}

static muster_status take_slot(struct cuda_domain *domain, struct muster_error *err)
{
    uint32_t slot = 0;
    platform_mutex_lock(&table_lock);
    while (slot < SLOT_COUNT && table[slot])
        slot++;
    if (slot < SLOT_COUNT)
        table[slot] = domain;
    platform_mutex_unlock(&table_lock);
    domain->slot = slot;
    return slot < SLOT_COUNT ? MUSTER_OK
                             : muster_error_fill(err, MUSTER_E_CAPACITY, 0, "close a runtime",
                                                 "%d GPUs are open in this process", SLOT_COUNT);
}

static void give_slot(struct cuda_domain *domain)
{
    platform_mutex_lock(&table_lock);
    table[domain->slot] = NULL;
    platform_mutex_unlock(&table_lock);
}

muster_status cuda_domain_init(struct cuda_domain *domain, struct muster_error *err)
{
    domain->call_free = domain->call_first = domain->call_last = NO_CALL;
    muster_status status = platform_mutex_init(&domain->lock, err);
    if (status != MUSTER_OK)
        return status;
    status = platform_condition_init(&domain->changed, err);
    if (status != MUSTER_OK)
        goto no_condition;
    status = take_slot(domain, err);
    if (status != MUSTER_OK)
        goto no_slot;
    status = platform_thread_start(&domain->watcher, watch, domain, "muster-cuda", NULL, err);
    if (status == MUSTER_OK)
        return status;
    give_slot(domain);
no_slot:
    platform_condition_deinit(&domain->changed);
no_condition:
    platform_mutex_deinit(&domain->lock);
    return status;
}

bool cuda_domain_deinit(struct cuda_domain *domain)
{
    platform_mutex_lock(&domain->lock);
    bool is_over = domain->calls_given == 0 && !domain->queues;
    if (is_over) {
        domain->is_closing = true;
        platform_condition_wake_all(&domain->changed);
    }
    platform_mutex_unlock(&domain->lock);
    if (!is_over)
        return false;
    /* Without calls the watcher leaves by itself, however late it gets to run. */
    platform_thread_join(&domain->watcher);
    give_slot(domain);
    /* A delivery that found the domain just before has left it when the lock is free. */
    platform_mutex_lock(&domain->lock);
    INVARIANT(domain->calls_given == 0 && !domain->queues);
    platform_mutex_unlock(&domain->lock);
    allocator_give(allocator_of(domain), domain->calls, domain->call_capacity,
                   sizeof *domain->calls);
    platform_condition_deinit(&domain->changed);
    platform_mutex_deinit(&domain->lock);
    return true;
}
