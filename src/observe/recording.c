#include "observe/recording.h"

#include "base/allocator.h"
#include "platform/thread.h"

#include <string.h>

/* A cache line or two of its own, so that threads do not write to each other's. */
#define AFTER_SIZE sizeof(size_t)
struct recorded {
    _Alignas(64) unsigned char event[sizeof(struct muster_trace_event) - AFTER_SIZE];
    _Atomic bool is_whole;
};
_Static_assert(sizeof(struct recorded) == 128, "trace.h names the size");

bool recording_start(struct recording *recording, const struct muster_allocator *allocator,
                     uint64_t capacity, uint64_t now_ns)
{
    recording->places = allocator_take(allocator, capacity, sizeof *recording->places);
    if (!recording->places)
        return false;
    /* Relaxed, as all that counts. */
    atomic_store_explicit(&recording->capacity, capacity, memory_order_relaxed);
    recording->origin_ns = now_ns;
    atomic_store_explicit(&recording->claimed, 0, memory_order_relaxed);
    /* A thread that sees it on, in recording_add, sees all of the above. */
    atomic_store_explicit(&recording->is_on, true, memory_order_seq_cst);
    return true;
}

void recording_stop(struct recording *recording)
{
    /*
     * Sequentially consistent, as is its counterpart in recording_add: either that sees it off, or
     * this sees it inside and waits for it. It is not long there, and waits for nothing.
     */
    atomic_store_explicit(&recording->is_on, false, memory_order_seq_cst);
    while (atomic_load_explicit(&recording->inside, memory_order_seq_cst) > 0)
        platform_thread_yield();
}

void recording_discard(struct recording *recording, const struct muster_allocator *allocator)
{
    uint64_t capacity = atomic_exchange_explicit(&recording->capacity, 0, memory_order_relaxed);
    allocator_give(allocator, recording->places, capacity, sizeof *recording->places);
    recording->places = NULL;
}

void recording_add(struct recording *recording, const struct muster_trace_event *event)
{
    if (!recording_is_on(recording))
        return;
    /* See recording_stop for the order of these two. */
    atomic_fetch_add_explicit(&recording->inside, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&recording->is_on, memory_order_seq_cst)) {
        uint64_t place = atomic_fetch_add_explicit(&recording->claimed, 1, memory_order_relaxed);
        if (place < atomic_load_explicit(&recording->capacity, memory_order_relaxed)) {
            memcpy(recording->places[place].event, (const char *)event + AFTER_SIZE,
                   sizeof recording->places[place].event);
            /* Release: pairs with the acquire in recording_read. */
            atomic_store_explicit(&recording->places[place].is_whole, true, memory_order_release);
        }
    }
    atomic_fetch_sub_explicit(&recording->inside, 1, memory_order_seq_cst);
}

uint64_t recording_count(const struct recording *recording)
{
    uint64_t claimed = atomic_load_explicit(&recording->claimed, memory_order_relaxed);
    uint64_t capacity = atomic_load_explicit(&recording->capacity, memory_order_relaxed);
    return claimed < capacity ? claimed : capacity;
}

uint64_t recording_dropped(const struct recording *recording)
{
    uint64_t claimed = atomic_load_explicit(&recording->claimed, memory_order_relaxed);
    uint64_t capacity = atomic_load_explicit(&recording->capacity, memory_order_relaxed);
    return capacity > 0 && claimed > capacity ? claimed - capacity : 0;
}

static void tell(const struct recorded *recorded,
                 void (*event)(void *user, const struct muster_trace_event *event), void *user)
{
    struct muster_trace_event whole = { .size = sizeof whole };
    memcpy((char *)&whole + AFTER_SIZE, recorded->event, sizeof recorded->event);
    event(user, &whole);
}

void recording_read(const struct recording *recording,
                    void (*event)(void *user, const struct muster_trace_event *event), void *user)
{
    uint64_t count = recording_count(recording);
    for (uint64_t i = 0; i < count; i++)
        if (atomic_load_explicit(&recording->places[i].is_whole, memory_order_acquire))
            tell(&recording->places[i], event, user);
}
