/*
 * The bell that sleepers hear, and the driver's callbacks that ring it.
 *
 * An event whose callback was asked for is held until that has come. The driver may make it on a
 * thread of its own, some time after the event reads as complete, and look at the event then; not
 * every driver is trusted to hold it itself. It is let go of a while later, since that thread may
 * look again when the callback has returned, and by a thread of the caller's. Where the driver owes
 * callbacks when the device is closed, the events stay, and with them their queues and context.
 *
 * Callbacks are only hints, so there is a fixed number of places for them, and a call that finds none free
 * does without.
 */
#include "backend/opencl/device.h"

/* What the driver's thread has for finishing with an event after its callback. */
#define RETURN_NS 5000000u

/* Devices that callbacks may find. A number is never used again, so a late one finds nothing. */
static struct {
    struct platform_mutex lock;
    struct opencl_device *devices;
    uint64_t last_number;
} live = { .lock = { PTHREAD_MUTEX_INITIALIZER } };

void opencl_enlist(struct opencl_device *device)
{
    platform_mutex_lock(&live.lock);
    device->number = ++live.last_number;
    device->next_live = live.devices;
    live.devices = device;
    platform_mutex_unlock(&live.lock);
}

void opencl_delist(struct opencl_device *device)
{
    platform_mutex_lock(&live.lock);
    struct opencl_device **at = &live.devices;
    while (*at != device)
        at = &(*at)->next_live;
    *at = device->next_live;
    platform_mutex_unlock(&live.lock);
}

/* The bell's lock is held. */
static void ring(struct opencl_bell *bell)
{
    bell->rings++;
    platform_condition_wake_all(&bell->waiters);
    platform_condition_wake_one(&bell->watcher);
}

void opencl_ring(struct opencl_device *device)
{
    platform_mutex_lock(&device->bell.lock);
    ring(&device->bell);
    platform_mutex_unlock(&device->bell.lock);
}

static void note_callback(struct opencl_bell *bell, struct opencl_callback *callback)
{
    platform_mutex_lock(&bell->lock);
    if (callback->is_due) {
        callback->is_due = false;
        callback->come_ns = platform_clock_ns();
        callback->next = NULL;
        if (bell->last_come)
            bell->last_come->next = callback;
        else
            bell->first_come = callback;
        bell->last_come = callback;
    }
    ring(bell);
    platform_mutex_unlock(&bell->lock);
}

/* On a thread of the driver's, at any time, also when the device is long closed. */
static void on_complete(opencl_event event, opencl_int code, void *user)
{
    (void)event, (void)code;
    uint64_t number = (uintptr_t)user / OPENCL_CALLBACKS_MAX;
    size_t place = (uintptr_t)user % OPENCL_CALLBACKS_MAX;
    platform_mutex_lock(&live.lock);
    struct opencl_device *device = live.devices;
    while (device && device->number != number)
        device = device->next_live;
    if (device)
        note_callback(&device->bell, &device->bell.callbacks[place]);
    platform_mutex_unlock(&live.lock);
}

/* A place for a callback that is due from now on; NULL if all are taken. */
static struct opencl_callback *take_place(struct opencl_bell *bell)
{
    platform_mutex_lock(&bell->lock);
    struct opencl_callback *callback = bell->free;
    if (callback)
        bell->free = callback->next;
    else if (bell->callbacks_used < OPENCL_CALLBACKS_MAX)
        callback = &bell->callbacks[bell->callbacks_used++];
    if (callback)
        callback->is_due = true;
    platform_mutex_unlock(&bell->lock);
    return callback;
}

static void give_place(struct opencl_bell *bell, struct opencl_callback *callback)
{
    platform_mutex_lock(&bell->lock);
    callback->event = NULL;
    callback->is_due = false;
    callback->next = bell->free;
    bell->free = callback;
    platform_mutex_unlock(&bell->lock);
}

/* The oldest callback that has come, if it came before `until_ns`. */
static struct opencl_callback *take_come(struct opencl_bell *bell, uint64_t until_ns)
{
    platform_mutex_lock(&bell->lock);
    struct opencl_callback *callback = bell->first_come;
    if (callback && callback->come_ns >= until_ns)
        callback = NULL;
    if (callback)
        bell->first_come = callback->next;
    if (!bell->first_come)
        bell->last_come = NULL;
    platform_mutex_unlock(&bell->lock);
    return callback;
}

void opencl_release_called(struct opencl_device *device)
{
    struct opencl_bell *bell = &device->bell;
    uint64_t until_ns = platform_clock_ns() - RETURN_NS;
    struct opencl_callback *callback = take_come(bell, until_ns);
    while (callback) {
        opencl_release(device, callback->event);
        give_place(bell, callback);
        callback = take_come(bell, until_ns);
    }
}

void opencl_ask_for_ring(struct opencl_device *device, opencl_event event)
{
    const struct opencl_driver *driver = opencl_of(device);
    struct opencl_bell *bell = &device->bell;
    if (!device->uses_callbacks)
        return;
    opencl_release_called(device);
    struct opencl_callback *callback = take_place(bell);
    if (!callback)
        return;
    if (driver->clRetainEvent(event) != OPENCL_SUCCESS) {
        give_place(bell, callback);
        return;
    }
    /* The callback may come, and its place be another's, before the driver returns. */
    callback->event = event;
    uint64_t user = device->number * OPENCL_CALLBACKS_MAX + (uint64_t)(callback - bell->callbacks);
    if (driver->clSetEventCallback(event, OPENCL_COMPLETE, on_complete, (void *)(uintptr_t)user) ==
        OPENCL_SUCCESS)
        return;
    opencl_release(device, event);
    give_place(bell, callback);
}

static bool is_due(struct opencl_bell *bell, const struct opencl_callback *callback)
{
    platform_mutex_lock(&bell->lock);
    bool due = callback->is_due;
    platform_mutex_unlock(&bell->lock);
    return due;
}

/* Whether callbacks are due that will come: PoCL 3.1 makes none for what failed. */
static bool owes_callbacks(struct opencl_device *device)
{
    struct opencl_bell *bell = &device->bell;
    for (uint32_t i = 0; i < bell->callbacks_used; i++)
        if (is_due(bell, &bell->callbacks[i]) &&
            opencl_event_code(device, bell->callbacks[i].event) >= OPENCL_COMPLETE)
            return true;
    return false;
}

static bool await_callbacks(struct opencl_device *device, uint64_t deadline_ns)
{
    struct opencl_bell *bell = &device->bell;
    for (;;) {
        platform_mutex_lock(&bell->lock);
        uint64_t rings = bell->rings;
        platform_mutex_unlock(&bell->lock);
        if (!owes_callbacks(device))
            return true;
        platform_mutex_lock(&bell->lock);
        while (bell->rings == rings &&
               platform_condition_wait(&bell->waiters, &bell->lock, deadline_ns))
            ;
        bool is_late = bell->rings == rings;
        platform_mutex_unlock(&bell->lock);
        if (is_late)
            return false;
    }
}

/* Gives callbacks that came just now the time to return. */
static void await_returns(struct opencl_bell *bell)
{
    platform_mutex_lock(&bell->lock);
    uint64_t last_ns = bell->last_come ? bell->last_come->come_ns : 0;
    while (bell->last_come &&
           platform_condition_wait(&bell->waiters, &bell->lock, last_ns + RETURN_NS))
        ;
    platform_mutex_unlock(&bell->lock);
}

bool opencl_end_callbacks(struct opencl_device *device, uint64_t deadline_ns)
{
    struct opencl_bell *bell = &device->bell;
    /* A lost context makes no callbacks, and asks after nothing. */
    bool is_quiet = await_callbacks(device, deadline_ns) || opencl_check(device, NULL) != MUSTER_OK;
    await_returns(bell);
    opencl_delist(device);
    for (uint32_t i = 0; i < bell->callbacks_used; i++)
        if (is_quiet || !bell->callbacks[i].is_due)
            opencl_release(device, bell->callbacks[i].event);
    return is_quiet;
}
