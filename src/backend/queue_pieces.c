/*
 * Launches in pieces: arrays that are read and written are changed where they are, and what a piece
 * replaces is saved before, so that a launch that ends early leaves a prefix. Workers claim chunks of
 * pieces. A chunk is settled when all before it are; until then its worker keeps what it has saved and
 * goes on with the next chunk, up to CHUNKS_HELD of them. Where the launch ends early, workers put back
 * what they have saved of everything after that place.
 *
 * The thread that finishes the oldest chunk settles all that follow it and are finished, also those of other
 * workers. Were each to settle its own, a worker that is held up would leave a chain behind: all others
 * sleep, and each has to be woken to settle the next.
 *
 * What is saved is written once and rarely read: with pieces that fit into the nearest cache beside
 * what the kernel reads, and chunks that fit into the next one, it costs nearly nothing. Through scratch
 * memory and back, in order, the same took up to twice as long on two cores.
 */
#include "backend/queue_state.h"
#include "base/allocator.h"
#include "platform/frame.h"
#include "platform/machine.h"

#include <string.h>

/* What a piece and a chunk take, with all arrays. */
#define PIECE_BYTES ((uint64_t)4 << 10)
#define CHUNK_BYTES ((uint64_t)256 << 10)
#define CHUNKS_HELD 8u
/* Looks at whether it is a chunk's turn before the worker sleeps. */
#define TURN_LOOKS 64u

_Static_assert(MUSTER_PIECE_BYTES_MAX <= CHUNK_BYTES, "a chunk has at least one piece");

/* Planning. */

static uint64_t grain_of(const struct muster_launch_desc *launch)
{
    return launch->pieces->grain > 1 ? launch->pieces->grain : 1;
}

bool queue_pieces_has_arrays(const struct muster_launch_desc *launch)
{
    size_t i = 0;
    while (i < launch->arg_count && launch->args[i].item_bytes == 0)
        i++;
    return i < launch->arg_count;
}

muster_status queue_pieces_check(const struct muster_launch_desc *launch, struct muster_error *err)
{
    uint64_t bytes = 0, least;
    uint32_t arrays = 0;
    for (size_t i = 0; i < launch->arg_count; i++) {
        const struct muster_launch_arg *arg = &launch->args[i];
        if (arg->item_bytes > 0 && !arg->memory)
            return muster_error_fill(err, MUSTER_E_INVALID, 0, "give the array as memory",
                                     "argument %zu is a value, and cannot come in pieces", i);
        arrays += arg->item_bytes > 0;
        bytes +=
            arg->item_bytes < MUSTER_PIECE_BYTES_MAX ? arg->item_bytes : MUSTER_PIECE_BYTES_MAX + 1;
    }
    if (arrays > MUSTER_PIECE_ARGS_MAX || __builtin_mul_overflow(grain_of(launch), bytes, &least) ||
        least > MUSTER_PIECE_BYTES_MAX)
        return muster_error_fill(
            err, MUSTER_E_TOO_LARGE, 0, "give the launch copies of its arrays",
            "pieces of %llu items in %u arrays, too many for %d bytes in %d arrays",
            (unsigned long long)grain_of(launch), arrays, MUSTER_PIECE_BYTES_MAX,
            MUSTER_PIECE_ARGS_MAX);
    return MUSTER_OK;
}

void queue_pieces_plan(struct range *range, const struct muster_launch_desc *launch)
{
    range->pieces = launch->pieces;
    range->grain = grain_of(launch);
    for (size_t i = 0; i < launch->arg_count; i++) {
        uint32_t item_bytes = (uint32_t)launch->args[i].item_bytes;
        if (item_bytes == 0)
            continue;
        range->piece_args[range->piece_arg_count].arg = (uint32_t)i;
        range->piece_args[range->piece_arg_count++].item_bytes = item_bytes;
    }
}

/* As many whole grains as fit into this many bytes, at least one. */
static uint64_t items_in(const struct range *range, uint64_t bytes)
{
    uint64_t grain_bytes = 0;
    for (uint32_t i = 0; i < range->piece_arg_count; i++)
        grain_bytes += range->grain * range->piece_args[i].item_bytes;
    return bytes > grain_bytes ? bytes / grain_bytes * range->grain : range->grain;
}

uint64_t queue_pieces_chunk(const struct range *range)
{
    return items_in(range, CHUNK_BYTES);
}

/* What is saved. */

/* Each array of a chunk begins at a cache line. */
#define BACKUP_BYTES (CHUNK_BYTES + MUSTER_PIECE_ARGS_MAX * 64u)
#define SCRATCH_BYTES ((size_t)CHUNKS_HELD * BACKUP_BYTES)

struct queue_scratch *queue_scratch_take(struct queue *queue)
{
    struct queue_scratch *scratch = queue->scratch;
    if (scratch) {
        queue->scratch = scratch->next;
        return scratch;
    }
    scratch = allocator_take(&queue->allocator, 1, sizeof *scratch);
    if (!scratch)
        return NULL;
    scratch->memory = platform_memory_take(SCRATCH_BYTES, -1);
    if (scratch->memory)
        return scratch;
    allocator_give(&queue->allocator, scratch, 1, sizeof *scratch);
    return NULL;
}

void queue_scratch_give(struct queue *queue, struct queue_scratch *scratch)
{
    if (!scratch)
        return;
    scratch->next = queue->scratch;
    queue->scratch = scratch;
}

void queue_scratch_free_all(struct queue *queue)
{
    while (queue->scratch) {
        struct queue_scratch *scratch = queue->scratch;
        queue->scratch = scratch->next;
        platform_memory_give(scratch->memory, SCRATCH_BYTES);
        allocator_give(&queue->allocator, scratch, 1, sizeof *scratch);
    }
}

struct queue_chunk {
    uint64_t first, count;    /* items, from the launch's first */
    uint64_t done;            /* this many of them are replaced */
    unsigned char *saved;     /* what they were */
    struct queue_chunk *next; /* on the list of the finished, under the lock */
    bool is_listed;           /* likewise */
};

/* Saves these items of the chunk as its `at`-th and following, or puts them back. */
static void copy_items(const struct shared_range *shared, const struct queue_chunk *chunk,
                       uint64_t from, uint64_t count, uint64_t at, bool is_back)
{
    const struct range *range = shared->range;
    unsigned char *saved = chunk->saved;
    for (uint32_t i = 0; i < range->piece_arg_count; i++) {
        size_t item_bytes = range->piece_args[i].item_bytes;
        char *array = *(char *const *)shared->args[range->piece_args[i].arg] +
                      (range->begin + from) * item_bytes;
        unsigned char *copy = saved + at * item_bytes;
        if (is_back)
            memcpy(array, copy, count * item_bytes);
        else
            memcpy(copy, array, count * item_bytes);
        saved += (chunk->count * item_bytes + 63) & ~(size_t)63;
    }
}

/* The end, and the turn of a chunk. */

static bool is_stopped(const struct shared_range *shared)
{
    return (__atomic_load_n(&shared->range->pieces->state, __ATOMIC_ACQUIRE) &
            MUSTER_PIECES_STOPPED) != 0;
}

/* Whether the launch has ended before this item. */
static bool is_after_end(const struct shared_range *shared, uint64_t item)
{
    return atomic_load_explicit(&shared->ends_at, memory_order_relaxed) <= item;
}

/* The launch ends here, unless it has ended before: the first in the order of items counts. */
static void end_at(struct queue *queue, struct shared_range *shared, uint64_t item,
                   muster_status status)
{
    lock(queue);
    if (!is_after_end(shared, item)) {
        atomic_store_explicit(&shared->ends_at, item, memory_order_relaxed);
        atomic_store_explicit(&shared->status, status, memory_order_relaxed);
    }
    platform_condition_wake_all(&queue->joined);
    unlock(queue);
}

static bool is_its_turn(const struct shared_range *shared, const struct queue_chunk *chunk)
{
    return muster_pieces_done(shared->range->pieces) == chunk->first;
}

/* All before the chunk is done, and so is what was done of it. */
static bool is_settled(const struct shared_range *shared, const struct queue_chunk *chunk)
{
    return chunk->done > 0 &&
           muster_pieces_done(shared->range->pieces) >= chunk->first + chunk->done;
}

/* Waits until the chunk is settled, or is to be put back. */
static void wait_for(struct queue *queue, struct shared_range *shared,
                     const struct queue_chunk *chunk)
{
    for (uint32_t i = 0; i < TURN_LOOKS; i++) {
        if (is_settled(shared, chunk) || is_after_end(shared, chunk->first))
            return;
        platform_thread_yield();
    }
    lock(queue);
    shared->waiting++;
    while (!is_settled(shared, chunk) && !is_after_end(shared, chunk->first))
        platform_condition_wait(&queue->joined, &queue->lock, UINT64_MAX);
    shared->waiting--;
    unlock(queue);
}

/* Takes the finished chunk that begins where all is done off the list; NULL: there is none. */
static struct queue_chunk *take_oldest_locked(struct shared_range *shared)
{
    for (struct queue_chunk **at = &shared->finished; *at; at = &(*at)->next)
        if (is_its_turn(shared, *at)) {
            struct queue_chunk *oldest = *at;
            *at = oldest->next;
            oldest->is_listed = false;
            return oldest;
        }
    return NULL;
}

/* The worker has done what it does of the chunk: settles that, and what was waiting for it. */
static void finish(struct queue *queue, struct shared_range *shared, struct queue_chunk *chunk)
{
    bool is_any = false;
    if (chunk->done == 0)
        return; /* the launch has ended before it */
    lock(queue);
    chunk->next = shared->finished;
    shared->finished = chunk;
    chunk->is_listed = true;
    for (struct queue_chunk *oldest; (oldest = take_oldest_locked(shared)); is_any = true)
        __atomic_fetch_add(&shared->range->pieces->state, oldest->done << MUSTER_PIECES_SHIFT,
                           __ATOMIC_RELEASE);
    if (is_any && shared->waiting > 0)
        platform_condition_wake_all(&queue->joined);
    unlock(queue);
}

/* The launch ended before the chunk: what was done of it is undone. */
static void put_back(struct queue *queue, struct shared_range *shared, struct queue_chunk *chunk)
{
    lock(queue);
    if (chunk->is_listed) {
        struct queue_chunk **at = &shared->finished;
        while (*at != chunk)
            at = &(*at)->next;
        *at = chunk->next;
        chunk->is_listed = false;
    }
    unlock(queue);
    copy_items(shared, chunk, chunk->first, chunk->done, 0, true);
}

/* Workers. */

/* Claims the next chunk; false if there is none, or none is to be begun any more. */
static bool next_chunk(struct shared_range *shared, struct queue_chunk *chunk)
{
    *chunk = (struct queue_chunk){ .done = 0 };
    return !is_stopped(shared) &&
           atomic_load_explicit(&shared->ends_at, memory_order_relaxed) == UINT64_MAX &&
           queue_range_claim(shared, &chunk->first, &chunk->count);
}

static void run_chunk(struct queue *queue, struct shared_range *shared, struct queue_chunk *chunk)
{
    const struct range *range = shared->range;
    uint64_t piece = items_in(range, PIECE_BYTES);
    bool is_front = false;
    while (chunk->done < chunk->count) {
        uint64_t first = chunk->first + chunk->done, begin = range->begin + first;
        uint64_t count = chunk->count - chunk->done;
        count = count < piece ? count : piece;
        if (is_after_end(shared, first))
            return;
        if (is_stopped(shared)) {
            end_at(queue, shared, first, MUSTER_OK);
            return;
        }
        /* When all before the chunk is done, nothing of it is put back but the piece that fails. */
        is_front = is_front || is_its_turn(shared, chunk);
        uint64_t at = is_front ? 0 : chunk->done;
        copy_items(shared, chunk, first, count, at, false);
        muster_status status = range->function(begin, begin + count, shared->args);
        if (status != MUSTER_OK) {
            copy_items(shared, chunk, first, count, at, true);
            end_at(queue, shared, first, status);
            return;
        }
        chunk->done += count;
    }
}

/* The chunks a worker holds, a ring, and the memory that it may save others in. */
struct holding {
    struct queue_chunk chunks[CHUNKS_HELD];
    uint32_t oldest, count;
    unsigned char *free[CHUNKS_HELD]; /* a stack: CHUNKS_HELD - count of them */
};

/* Lets go of the chunks that are settled, or are put back because the launch ended before them. */
static void let_go(struct queue *queue, struct shared_range *shared, struct holding *holding)
{
    while (holding->count > 0) {
        struct queue_chunk *oldest = &holding->chunks[holding->oldest];
        bool is_over = is_after_end(shared, oldest->first);
        if (!is_over && !is_settled(shared, oldest))
            return;
        if (is_over)
            put_back(queue, shared, oldest);
        holding->count--;
        /* What was used last is used first: it is in the cache. */
        holding->free[CHUNKS_HELD - 1 - holding->count] = oldest->saved;
        holding->oldest = (holding->oldest + 1) % CHUNKS_HELD;
    }
}

void queue_pieces_run(struct queue *queue, struct shared_range *shared,
                      struct queue_scratch *scratch, bool is_first, uint64_t begin_ns)
{
    struct platform_frame frame = { .kind = FRAME_KERNEL };
    struct holding holding = { .count = 0 };
    bool is_shared = false;
    for (uint32_t i = 0; i < CHUNKS_HELD; i++)
        holding.free[CHUNKS_HELD - 1 - i] = scratch->memory + (size_t)i * BACKUP_BYTES;
    platform_frame_enter(&frame);
    for (;;) {
        struct queue_chunk *chunk = &holding.chunks[(holding.oldest + holding.count) % CHUNKS_HELD];
        if (!next_chunk(shared, chunk))
            break;
        chunk->saved = holding.free[CHUNKS_HELD - 1 - holding.count];
        run_chunk(queue, shared, chunk);
        holding.count++;
        finish(queue, shared, chunk);
        let_go(queue, shared, &holding);
        if (holding.count == CHUNKS_HELD) {
            wait_for(queue, shared, &holding.chunks[holding.oldest]);
            let_go(queue, shared, &holding);
        }
        if (is_first && !is_shared && queue->worker_count > 1 &&
            queue_range_is_worth_sharing(shared, chunk->first + chunk->count, begin_ns)) {
            queue_range_share(queue, shared);
            is_shared = true;
        }
    }
    while (holding.count > 0) {
        wait_for(queue, shared, &holding.chunks[holding.oldest]);
        let_go(queue, shared, &holding);
    }
    platform_frame_leave(&frame);
    if (is_shared)
        queue_range_join(queue, shared);
}
