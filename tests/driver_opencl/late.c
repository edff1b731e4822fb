/*
 * See late.h. The program's references are counted here, since the driver's own count has its own
 * in it.
 */
#include "late.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define EVENT_COMMAND_QUEUE 0x11d0u
#define EVENT_CONTEXT 0x11d4u
#define BUCKETS 4096u
/* How long after its event's completion a callback comes, and how often completion is looked for. */
#define LATE_NS UINT64_C(2000000)
#define LOOK_NS 200000

struct held {
    opencl_event event;
    int references;
    struct held *next;
};

struct due {
    opencl_event event; /* owns */
    opencl_queue queue;
    opencl_context context;
    void (*notify)(opencl_event, opencl_int, void *);
    void *user;
    uint64_t complete_ns; /* 0: not seen to be */
    struct due *next;
};

static struct {
    _Atomic(const struct opencl_driver *) driver;
    _Atomic bool delays;
    _Atomic(const pthread_t *) in_callback; /* the thread that makes one now; NULL: none does */
    pthread_mutex_t lock;
    struct held *buckets[BUCKETS];
    struct due *due;
} late = { .lock = PTHREAD_MUTEX_INITIALIZER };

static const struct opencl_driver *real(void)
{
    return atomic_load_explicit(&late.driver, memory_order_acquire);
}

static bool is_on(void)
{
    return real() != NULL;
}

bool late_is_delaying(void)
{
    return is_on() && atomic_load(&late.delays);
}

void late_delay(bool delays)
{
    atomic_store(&late.delays, delays);
}

static void stop(const char *what)
{
    fprintf(stderr, "the tests' OpenCL loader: %s\n", what);
    abort();
}

void late_check_caller(void)
{
    const pthread_t *thread = atomic_load(&late.in_callback);
    if (thread && pthread_equal(*thread, pthread_self()))
        stop("the driver was called from within a callback");
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static opencl_int code_of(opencl_event event)
{
    opencl_int code = 0;
    real()->clGetEventInfo(event, OPENCL_EVENT_COMMAND_EXECUTION_STATUS, sizeof code, &code, NULL);
    return code;
}

static struct held **find(opencl_event event)
{
    struct held **at = &late.buckets[((uintptr_t)event >> 4) % BUCKETS];
    while (*at && (*at)->event != event)
        at = &(*at)->next;
    return at;
}

void late_event_held(opencl_event event)
{
    if (!is_on() || !event)
        return;
    pthread_mutex_lock(&late.lock);
    struct held **at = find(event);
    if (!*at) {
        *at = calloc(1, sizeof **at);
        if (!*at)
            stop("no memory");
        (*at)->event = event;
    }
    (*at)->references++;
    pthread_mutex_unlock(&late.lock);
}

/* What has failed may never get its callback, and then it is not waited for. */
static bool is_due(opencl_event event)
{
    for (const struct due *due = late.due; due; due = due->next)
        if (due->event == event)
            return code_of(event) >= OPENCL_COMPLETE;
    return false;
}

void late_event_released(opencl_event event)
{
    if (!is_on())
        return;
    late_check_caller();
    pthread_mutex_lock(&late.lock);
    struct held **at = find(event), *held = *at;
    if (held && --held->references == 0) {
        if (is_due(event))
            stop("an event was released before its callback has come");
        *at = held->next;
        free(held);
    }
    pthread_mutex_unlock(&late.lock);
}

static void check_objects(opencl_queue queue, opencl_context context)
{
    late_check_caller();
    pthread_mutex_lock(&late.lock);
    for (const struct due *due = late.due; due; due = due->next)
        if (code_of(due->event) >= OPENCL_COMPLETE &&
            ((queue && due->queue == queue) || (context && due->context == context)))
            stop("a queue or a context was released before the callbacks of its events have come");
    pthread_mutex_unlock(&late.lock);
}

void late_queue_released(opencl_queue queue)
{
    if (is_on())
        check_objects(queue, NULL);
}

void late_context_released(opencl_context context)
{
    if (is_on())
        check_objects(NULL, context);
}

opencl_int late_callback(opencl_event event, void (*notify)(opencl_event, opencl_int, void *),
                         void *user)
{
    struct due *due = calloc(1, sizeof *due);
    if (!due)
        return OPENCL_OUT_OF_HOST_MEMORY;
    *due = (struct due){ .event = event, .notify = notify, .user = user };
    real()->clGetEventInfo(event, EVENT_COMMAND_QUEUE, sizeof due->queue, &due->queue, NULL);
    real()->clGetEventInfo(event, EVENT_CONTEXT, sizeof due->context, &due->context, NULL);
    real()->clRetainEvent(event);
    pthread_mutex_lock(&late.lock);
    due->next = late.due;
    late.due = due;
    pthread_mutex_unlock(&late.lock);
    return OPENCL_SUCCESS;
}

/* One whose event has been complete for long enough; the lock is held. */
static struct due *take_ripe(void)
{
    for (struct due **at = &late.due; *at; at = &(*at)->next) {
        struct due *due = *at;
        if (due->notify && due->complete_ns == 0 && code_of(due->event) <= OPENCL_COMPLETE)
            due->complete_ns = now_ns();
        if (due->complete_ns > 0 && now_ns() - due->complete_ns >= LATE_NS) {
            *at = due->next;
            return due;
        }
    }
    return NULL;
}

static void *deliver(void *unused)
{
    static pthread_t self;
    (void)unused;
    self = pthread_self();
    for (;;) {
        pthread_mutex_lock(&late.lock);
        struct due *due = take_ripe();
        pthread_mutex_unlock(&late.lock);
        if (!due) {
            nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
            continue;
        }
        atomic_store(&late.in_callback, &self);
        due->notify(due->event, code_of(due->event), due->user);
        atomic_store(&late.in_callback, NULL);
        real()->clReleaseEvent(due->event);
        free(due);
    }
    return NULL;
}

void late_begin(const struct opencl_driver *driver)
{
    pthread_t thread;
    if (is_on())
        return;
    late_delay(true);
    atomic_store_explicit(&late.driver, driver, memory_order_release);
    if (pthread_create(&thread, NULL, deliver, NULL) != 0)
        stop("no thread for callbacks");
    pthread_detach(thread);
}
