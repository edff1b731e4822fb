/*
 * The device's memory: pieces of the process's own, on a list until they are given back.
 */
#include "backend/queue_state.h"
#include "base/allocator.h"
#include "base/invariant.h"
#include "platform/machine.h"

void queue_piece_unlink(struct queue_piece *piece)
{
    if (piece->previous)
        piece->previous->next = piece->next;
    else
        piece->queue->pieces = piece->next;
    if (piece->next)
        piece->next->previous = piece->previous;
}

void queue_piece_free(struct queue_piece *piece)
{
    platform_memory_give(piece->memory, piece->bytes);
    allocator_give(&piece->queue->allocator, piece, 1, sizeof *piece);
}

muster_status queue_memory_take(struct queue *queue, uint64_t bytes, int32_t node,
                                struct muster_memory *out, struct muster_error *err)
{
    struct queue_piece *piece = allocator_take(&queue->allocator, 1, sizeof *piece);
    if (!piece)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL,
                                 "no memory to keep account of a block");
    void *memory = bytes <= SIZE_MAX ? platform_memory_take((size_t)bytes, node) : NULL;
    if (!memory) {
        allocator_give(&queue->allocator, piece, 1, sizeof *piece);
        return muster_error_fill(err, MUSTER_E_DEVICE_MEMORY, 0,
                                 "free memory, or ask for less at a time",
                                 "the system has no %llu bytes to give", (unsigned long long)bytes);
    }
    *piece = (struct queue_piece){ .queue = queue, .memory = memory, .bytes = (size_t)bytes };
    lock(queue);
    muster_status status = queue->status != MUSTER_OK ? queue_say_lost(err) : MUSTER_OK;
    if (status == MUSTER_OK) {
        piece->next = queue->pieces;
        if (queue->pieces)
            queue->pieces->previous = piece;
        queue->pieces = piece;
    }
    unlock(queue);
    if (status != MUSTER_OK) {
        platform_memory_give(memory, (size_t)bytes);
        allocator_give(&queue->allocator, piece, 1, sizeof *piece);
        return status;
    }
    *out = (struct muster_memory){ .address = (uintptr_t)memory, .object = piece, .bytes = bytes };
    return MUSTER_OK;
}

static void give_piece(void *user, muster_status status)
{
    struct queue_piece *piece = user;
    struct queue *queue = piece->queue;
    (void)
        status; /* the stream got here, so nothing runs on the memory any more, however it ended */
    lock(queue);
    queue_piece_unlink(piece);
    unlock(queue);
    queue_piece_free(piece);
}

muster_status queue_memory_give(struct queue *queue, void *stream, struct muster_memory *memory,
                                struct muster_error *err)
{
    struct queue_piece *piece = memory->object;
    INVARIANT(piece->queue == queue);
    muster_status status = queue_check(queue, err);
    if (status != MUSTER_OK)
        return status;
    if (stream)
        return queue_host_call(stream, give_piece, piece, err);
    give_piece(piece, MUSTER_OK);
    return MUSTER_OK;
}
