#include "faulty_allocator.h"

#include <stdlib.h>

/* Stands before each piece, in as many bytes as the piece's alignment needs. */
struct faulty_piece {
    struct faulty_piece *next, *previous;
    void *start;
    size_t bytes;
};

static void *take(void *user, size_t bytes, size_t alignment)
{
    struct faulty_allocator *allocator = user;
    pthread_mutex_lock(&allocator->lock);
    uint64_t number = ++allocator->count;
    bool fails = allocator->number > 0 && (allocator->from_then_on ? number >= allocator->number
                                                                   : number == allocator->number);
    allocator->has_failed = allocator->has_failed || fails;
    pthread_mutex_unlock(&allocator->lock);
    size_t before = (sizeof(struct faulty_piece) + alignment - 1) & ~(alignment - 1);
    void *start = NULL;
    if (fails || posix_memalign(&start, alignment, before + bytes) != 0)
        return NULL;
    char *memory = (char *)start + before;
    struct faulty_piece *piece = (struct faulty_piece *)(void *)memory - 1;
    *piece = (struct faulty_piece){ .start = start, .bytes = bytes };
    pthread_mutex_lock(&allocator->lock);
    piece->next = allocator->pieces;
    if (allocator->pieces)
        allocator->pieces->previous = piece;
    allocator->pieces = piece;
    allocator->bytes_out += bytes;
    pthread_mutex_unlock(&allocator->lock);
    return memory;
}

static void give(void *user, void *memory, size_t bytes)
{
    struct faulty_allocator *allocator = user;
    struct faulty_piece *piece = (struct faulty_piece *)memory - 1;
    pthread_mutex_lock(&allocator->lock);
    allocator->mistakes += piece->bytes != bytes;
    allocator->bytes_out -= piece->bytes;
    if (piece->previous)
        piece->previous->next = piece->next;
    else
        allocator->pieces = piece->next;
    if (piece->next)
        piece->next->previous = piece->previous;
    pthread_mutex_unlock(&allocator->lock);
    free(piece->start);
}

void faulty_allocator_init(struct faulty_allocator *allocator, uint64_t number, bool from_then_on)
{
    *allocator = (struct faulty_allocator){ .number = number, .from_then_on = from_then_on };
    pthread_mutex_init(&allocator->lock, NULL);
}

void faulty_allocator_deinit(struct faulty_allocator *allocator)
{
    while (allocator->pieces)
        give(allocator, allocator->pieces + 1, allocator->pieces->bytes);
    pthread_mutex_destroy(&allocator->lock);
}

const struct muster_allocator *faulty_allocator_hook(struct faulty_allocator *allocator)
{
    allocator->hook = (struct muster_allocator){ sizeof allocator->hook, take, give, allocator };
    return &allocator->hook;
}
