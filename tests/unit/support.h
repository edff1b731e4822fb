/*
 * What the tests of the runtime have in common: opening one, kernels that can be held back, an
 * allocator that counts, a backend that is another one in disguise.
 */
#ifndef UNIT_SUPPORT_H
#define UNIT_SUPPORT_H

#include "full_report.h"
#include "harness.h"

#include <muster/backend.h>
#include <muster/muster.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* What the last call that was given it said; MUST prints it. */
static struct muster_error problem;

/* The call must succeed; its last argument is &problem. */
#define MUST(call) must(__FILE__, __LINE__, #call, (call))
static inline void must(const char *file, int line, const char *what, muster_status status)
{
    if (status != MUSTER_OK)
        test_fail(file, line, "%s is %s: %s", what, muster_status_name(status), problem.text);
}

/* Two devices of the same speed and one that is small; launches take 10 us and 1 us an item. */
#define SIM_PLAIN                                                                                  \
    "[{\"count\": 2, \"items_per_s\": 1e6, \"launch_ns\": 10000, \"memory\": \"64MiB\","           \
    "  \"cores\": 8, \"slices\": true}]"

static inline struct muster *open_with(struct muster_options options)
{
    struct muster *m = NULL;
    MUST(muster_open(&m, &options, &problem));
    return m;
}

/* A cpu device whose streams can all be held back at once, and the simulated devices. */
static inline struct muster *open_plain(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.cpu_workers = 6;
    options.sim = SIM_PLAIN;
    return open_with(options);
}

static inline muster_device find(struct muster *m, const char *id)
{
    muster_device device = { 0, 0 };
    MUST(muster_device_find(m, id, &device, &problem));
    return device;
}

static inline muster_stream acquire(struct muster *m, muster_device device)
{
    muster_stream stream = { 0, 0 };
    MUST(muster_stream_acquire(m, device, 0, &stream, &problem));
    return stream;
}

static inline muster_block allocate(struct muster *m, muster_stream stream, uint64_t bytes)
{
    muster_block block = { 0, 0 };
    MUST(muster_block_allocate(m, stream, bytes, &block, &problem));
    return block;
}

static inline struct muster_device_load load_of(struct muster *m, muster_device device)
{
    struct muster_device_load load = { .size = sizeof load };
    MUST(muster_device_load(m, device, &load, &problem));
    return load;
}

static inline struct muster_device_info info_of(struct muster *m, muster_device device)
{
    struct muster_device_info info = { .size = sizeof info };
    MUST(muster_device_info(m, device, &info, &problem));
    return info;
}

static inline void wait_for(struct muster *m, muster_stream stream)
{
    MUST(muster_stream_wait(m, stream, 60 * SECOND, &problem));
}

static inline struct muster_kernel *kernel_of(struct muster *m, muster_kernel_function function)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = function };
    struct muster_kernel *kernel = NULL;
    MUST(muster_kernel_from(m, "test", &form, 1, &kernel, &problem));
    return kernel;
}

/* A door that kernels stop at until it is opened. */
struct door {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_open;
    unsigned arrived, left;
};
/* clang-format off */
#define DOOR_INIT { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }
/* clang-format on */

static inline void door_pass(struct door *door)
{
    pthread_mutex_lock(&door->mutex);
    door->arrived++;
    pthread_cond_broadcast(&door->changed);
    while (!door->is_open)
        pthread_cond_wait(&door->changed, &door->mutex);
    door->left++;
    pthread_cond_broadcast(&door->changed);
    pthread_mutex_unlock(&door->mutex);
}

static inline void door_open(struct door *door)
{
    pthread_mutex_lock(&door->mutex);
    door->is_open = true;
    pthread_cond_broadcast(&door->changed);
    pthread_mutex_unlock(&door->mutex);
}

static inline void door_wait_arrived(struct door *door, unsigned count)
{
    pthread_mutex_lock(&door->mutex);
    while (door->arrived < count)
        pthread_cond_wait(&door->changed, &door->mutex);
    pthread_mutex_unlock(&door->mutex);
}

static inline void door_wait_left(struct door *door, unsigned count)
{
    pthread_mutex_lock(&door->mutex);
    while (door->left < count)
        pthread_cond_wait(&door->changed, &door->mutex);
    pthread_mutex_unlock(&door->mutex);
}

/* Stays until `count` have come, or a short while: a chance for others to come in beside. */
static inline void door_linger(struct door *door, unsigned count)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&door->mutex);
    door->arrived++;
    pthread_cond_broadcast(&door->changed);
    while (door->arrived < count &&
           pthread_cond_timedwait(&door->changed, &door->mutex, &until) == 0)
        ;
    pthread_mutex_unlock(&door->mutex);
}

/* Arguments: the door. One item, so that one thread stands there. */
static inline muster_status stand_at_door(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end;
    door_pass(*(struct door *const *)args[0]);
    return MUSTER_OK;
}

/* Holds the stream back: what is given to it now runs once the door is open. */
static inline void hold_stream(struct muster *m, muster_stream stream, struct muster_kernel *stand,
                               struct door *door)
{
    const struct muster_operand args[] = { MUSTER_SCALAR(door) };
    MUST(muster_launch(m, stream, stand, 0, 1, args, 1, NULL, &problem));
}

/* Arguments: a block of uint64_t, a number that is added to each. */
static inline muster_status add_number(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t *numbers = *(uint64_t *const *)args[0], number = *(const uint64_t *)args[1];
    for (uint64_t i = begin; i < end; i++)
        numbers[i] += number;
    return MUSTER_OK;
}

static inline muster_status do_nothing(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end, (void)args;
    return MUSTER_OK;
}

static inline muster_status always_fail(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end, (void)args;
    return MUSTER_E_FAILED;
}

/*
 * An allocator that counts, and checks that what comes back has the size it was taken with. It knows
 * where everything is, so that what an abandoned device keeps is not taken for a leak.
 */
struct counting {
    pthread_mutex_t mutex;
    struct counting_piece *pieces;
    uint64_t bytes, calls;
    uint64_t wrong; /* came back with another size, or were written beyond their end */
    uint64_t late;  /* calls after muster_close */
    bool is_closed;
    struct muster_allocator hook;
};
/* clang-format off */
#define COUNTING_INIT { .mutex = PTHREAD_MUTEX_INITIALIZER }
/* clang-format on */

/* In front of each piece. */
struct counting_piece {
    _Alignas(64) struct counting_piece *next;
    struct counting_piece *previous;
    size_t bytes;
};

#define COUNTING_FILL 0xa5
/* With at least 64 bytes after it, which nobody may touch. */
static inline size_t counting_room(size_t bytes)
{
    return (bytes + 127) / 64 * 64;
}

static inline bool counting_is_whole(const struct counting_piece *piece)
{
    const unsigned char *memory = (const unsigned char *)(piece + 1);
    for (size_t i = piece->bytes; i < counting_room(piece->bytes); i++)
        if (memory[i] != COUNTING_FILL)
            return false;
    return true;
}

static inline void *counting_allocate(void *user, size_t bytes, size_t alignment)
{
    struct counting *counting = user;
    if (alignment > sizeof(struct counting_piece))
        return NULL;
    struct counting_piece *piece =
        aligned_alloc(_Alignof(struct counting_piece), sizeof *piece + counting_room(bytes));
    if (!piece)
        return NULL;
    memset(piece + 1, COUNTING_FILL, counting_room(bytes));
    pthread_mutex_lock(&counting->mutex);
    *piece = (struct counting_piece){ .next = counting->pieces, .bytes = bytes };
    if (piece->next)
        piece->next->previous = piece;
    counting->pieces = piece;
    counting->bytes += bytes;
    counting->calls++;
    counting->late += counting->is_closed;
    pthread_mutex_unlock(&counting->mutex);
    return piece + 1;
}

static inline void counting_release(void *user, void *memory, size_t bytes)
{
    struct counting *counting = user;
    struct counting_piece *piece = (struct counting_piece *)memory - 1;
    pthread_mutex_lock(&counting->mutex);
    if (piece->previous)
        piece->previous->next = piece->next;
    else
        counting->pieces = piece->next;
    if (piece->next)
        piece->next->previous = piece->previous;
    counting->wrong += piece->bytes != bytes || !counting_is_whole(piece);
    counting->bytes -= piece->bytes;
    counting->late += counting->is_closed;
    pthread_mutex_unlock(&counting->mutex);
    free(piece);
}

static inline void counting_close(struct counting *counting)
{
    pthread_mutex_lock(&counting->mutex);
    counting->is_closed = true;
    pthread_mutex_unlock(&counting->mutex);
}

static inline uint64_t counting_late(struct counting *counting)
{
    pthread_mutex_lock(&counting->mutex);
    uint64_t late = counting->late;
    pthread_mutex_unlock(&counting->mutex);
    return late;
}

/* As muster_options wants it; borrowed of `counting`. */
static inline const struct muster_allocator *counting_allocator(struct counting *counting)
{
    counting->hook = (struct muster_allocator){ sizeof counting->hook, counting_allocate,
                                                counting_release, counting };
    return &counting->hook;
}

#endif
