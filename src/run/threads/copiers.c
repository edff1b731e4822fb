/*
 * Threads that help to move bytes in host memory: one thread alone moves a fifth of what the machine
 * can. A thread with a large copy copies too, piece by piece, and idle helpers join it; so a copy
 * never waits for another's.
 */
#include "run/threads/threads.h"

#include "base/allocator.h"
#include "platform/machine.h"

#include <string.h>

/* Less is not worth waking anybody. */
#define SHARED_FROM_BYTES ((size_t)256 << 10)
#define PIECE_BYTES ((size_t)128 << 10)
#define COPIERS_MAX 8

/* One copy that may be joined, on the stack of the thread that asked for it. */
struct shared_copy {
    char *to;
    const char *from;
    size_t bytes;
    size_t next; /* the first byte nobody has taken */
    uint32_t busy;
    struct shared_copy *below; /* the stack of copies that have pieces left */
};

struct copiers {
    struct platform_mutex lock;
    struct platform_condition work; /* for threads that are idle */
    struct platform_condition done; /* for those whose last piece is in another's hands */
    struct shared_copy *open;
    struct platform_thread threads[COPIERS_MAX];
    uint32_t thread_count;
    bool must_stop;
};

static void take_off_locked(struct copiers *copiers, struct shared_copy *copy)
{
    struct shared_copy **at = &copiers->open;
    while (*at && *at != copy)
        at = &(*at)->below;
    if (*at)
        *at = copy->below;
}

/* Moves one piece, if there is one. Called with the lock, which is not held meanwhile. */
static bool move_piece_locked(struct copiers *copiers, struct shared_copy *copy)
{
    size_t begin = copy->next, left = copy->bytes - begin;
    size_t bytes = left < PIECE_BYTES ? left : PIECE_BYTES;
    if (left == 0)
        return false;
    copy->next += bytes;
    if (copy->next == copy->bytes)
        take_off_locked(copiers, copy);
    copy->busy++;
    platform_mutex_unlock(&copiers->lock);
    memcpy(copy->to + begin, copy->from + begin, bytes);
    platform_mutex_lock(&copiers->lock);
    if (--copy->busy == 0 && copy->next == copy->bytes)
        platform_condition_wake_all(&copiers->done);
    return true;
}

static void help(void *argument)
{
    struct copiers *copiers = argument;
    platform_thread_hurry();
    platform_mutex_lock(&copiers->lock);
    while (!copiers->must_stop) {
        if (!copiers->open || !move_piece_locked(copiers, copiers->open))
            platform_condition_wait(&copiers->work, &copiers->lock, UINT64_MAX);
    }
    platform_mutex_unlock(&copiers->lock);
}

static void stop(struct muster *m, struct copiers *copiers)
{
    platform_mutex_lock(&copiers->lock);
    copiers->must_stop = true;
    platform_condition_wake_all(&copiers->work);
    platform_mutex_unlock(&copiers->lock);
    for (uint32_t i = 0; i < copiers->thread_count; i++)
        platform_thread_join(&copiers->threads[i]);
    platform_condition_deinit(&copiers->done);
    platform_condition_deinit(&copiers->work);
    platform_mutex_deinit(&copiers->lock);
    allocator_give(&m->allocator, copiers, 1, sizeof *copiers);
}

/* With as many threads as are free, which may be none. */
static struct copiers *start(struct muster *m)
{
    struct copiers *copiers = allocator_take(&m->allocator, 1, sizeof *copiers);
    if (!copiers)
        return NULL;
    if (platform_mutex_init(&copiers->lock, NULL) != MUSTER_OK)
        goto no_lock;
    if (platform_condition_init(&copiers->work, NULL) != MUSTER_OK)
        goto no_work;
    if (platform_condition_init(&copiers->done, NULL) != MUSTER_OK)
        goto no_done;
    uint32_t wanted = platform_core_count() / 2;
    wanted = wanted < COPIERS_MAX ? wanted : COPIERS_MAX;
    while (copiers->thread_count < wanted &&
           platform_thread_start(&copiers->threads[copiers->thread_count], help, copiers,
                                 "muster-copy", NULL, NULL) == MUSTER_OK)
        copiers->thread_count++;
    return copiers;
no_done:
    platform_condition_deinit(&copiers->work);
no_work:
    platform_mutex_deinit(&copiers->lock);
no_lock:
    allocator_give(&m->allocator, copiers, 1, sizeof *copiers);
    return NULL;
}

/* NULL: there are none, and the caller copies alone. */
static struct copiers *get(struct muster *m)
{
    run_lock(m);
    struct copiers *copiers = m->copiers;
    run_unlock(m);
    if (copiers)
        return copiers;
    struct copiers *fresh = start(m);
    run_lock(m);
    if (!m->copiers) {
        m->copiers = fresh;
        fresh = NULL;
    }
    copiers = m->copiers;
    run_unlock(m);
    if (fresh)
        stop(m, fresh);
    return copiers;
}

void copiers_copy(struct muster *m, void *to, const void *from, size_t bytes)
{
    struct copiers *copiers = bytes >= SHARED_FROM_BYTES ? get(m) : NULL;
    if (!copiers || copiers->thread_count == 0) {
        memcpy(to, from, bytes);
        return;
    }
    struct shared_copy copy = { .to = to, .from = from, .bytes = bytes };
    platform_mutex_lock(&copiers->lock);
    copy.below = copiers->open;
    copiers->open = &copy;
    platform_condition_wake_all(&copiers->work);
    while (move_piece_locked(copiers, &copy)) {}
    while (copy.busy > 0)
        platform_condition_wait(&copiers->done, &copiers->lock, UINT64_MAX);
    platform_mutex_unlock(&copiers->lock);
}

void copiers_destroy(struct muster *m)
{
    if (m->copiers)
        stop(m, m->copiers);
    m->copiers = NULL;
}
