/*
 * A first-in, first-out ring over memory of its owner: only the counting, so one piece of code
 * serves elements of any type. Not for several threads at once; the owner's lock does that.
 */
#ifndef BASE_RING_H
#define BASE_RING_H

#include <stdbool.h>
#include <stdint.h>

struct ring {
    uint32_t capacity; /* a power of two */
    uint32_t head;     /* of the oldest; runs freely and wraps */
    uint32_t tail;     /* of the next free */
};

static inline void ring_init(struct ring *ring, uint32_t capacity)
{
    *ring = (struct ring){ .capacity = capacity };
}

static inline uint32_t ring_count(const struct ring *ring)
{
    return ring->tail - ring->head;
}

static inline bool ring_full(const struct ring *ring)
{
    return ring_count(ring) == ring->capacity;
}

/* Where element `position` places after the oldest lies. */
static inline uint32_t ring_at(const struct ring *ring, uint32_t position)
{
    return (ring->head + position) & (ring->capacity - 1);
}

/* Takes the next free place; the ring is not full. */
static inline uint32_t ring_push(struct ring *ring)
{
    return ring->tail++ & (ring->capacity - 1);
}

/* Gives up the oldest; the ring is not empty. */
static inline uint32_t ring_pop(struct ring *ring)
{
    return ring->head++ & (ring->capacity - 1);
}

#endif
