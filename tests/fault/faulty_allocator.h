/*
 * An allocator that fails when it is told to, and knows what is out: how much, and whether each
 * piece comes back with the size it was taken with.
 */
#ifndef FAULT_FAULTY_ALLOCATOR_H
#define FAULT_FAULTY_ALLOCATOR_H

#include <muster/runtime.h>
#include <pthread.h>
#include <stdbool.h>

struct faulty_allocator {
    pthread_mutex_t lock;
    uint64_t number;   /* of the allocation that fails, from 1; 0: none */
    bool from_then_on; /* and every later one */
    uint64_t count;    /* allocations asked for */
    bool has_failed;
    size_t bytes_out;
    uint64_t mistakes; /* pieces given back with another size than they were taken with */
    struct faulty_piece *pieces;
    struct muster_allocator hook;
};

void faulty_allocator_init(struct faulty_allocator *allocator, uint64_t number, bool from_then_on);
/* Frees what is still out, so that a runtime that was abandoned on purpose is no leak. */
void faulty_allocator_deinit(struct faulty_allocator *allocator);

/* As muster_options wants it; borrowed of `allocator`. */
const struct muster_allocator *faulty_allocator_hook(struct faulty_allocator *allocator);

#endif
