/*
 * Between records and seats: posting, and collecting what has ended.
 */
#include "run/resident/resident.h"

#include "base/invariant.h"

#include <string.h>

/* How long one who waits for room parks at most: nobody else may look for ends. */
#define ROOM_PARK_NS 50000u

void resident_drop(struct resident_record *record)
{
    struct muster_resident *lane = record->lane;
    platform_mutex_lock(&lane->lock);
    for (uint32_t i = 0; i < record->block_count; i++)
        lane->attached[record->blocks[i]].users--;
    record->next = lane->spare;
    lane->spare = record;
    lane->spare_count++;
    platform_condition_wake_all(&lane->changed);
    platform_mutex_unlock(&lane->lock);
}

/*
 * The one with the least to do, the first among equals: a lane with one task at a time uses one. On a GPU the
 * first seat has all that is short, and nothing else.
 */
static uint32_t choose_seat_locked(const struct muster_resident *lane,
                                   const struct resident_record *record)
{
    bool has_parts = lane->is_pinned && lane->seat_count > 1;
    if (has_parts && !record->is_long)
        return 0;
    uint32_t best = has_parts, least = UINT32_MAX;
    for (uint32_t i = best; i < lane->seat_count && least > 0; i++) {
        uint32_t open = lane->sides[i].posted - lane->sides[i].ended;
        if (open < least) {
            least = open;
            best = i;
        }
    }
    return best;
}

static void orphan_locked(struct muster_resident *lane, struct resident_record *record)
{
    record->status = lane->lost_status;
    record->next = lane->orphans;
    lane->orphans = record;
}

static void put_in_ring_locked(struct muster_resident *lane, struct resident_record *record)
{
    record->seat = choose_seat_locked(lane, record);
    struct resident_side *side = &lane->sides[record->seat];
    uint32_t number = ++side->posted;
    /* Relaxed: who has no lock may see an old one. */
    atomic_store_explicit(&record->number, number, memory_order_relaxed);
    lane->order[(size_t)record->seat * lane->options.entries +
                (number - 1) % lane->options.entries] = record->index;
    struct resident_header *header = resident_header_at(lane, record->seat, number);
    /* Relaxed: the header's first word publishes all of this. */
    atomic_store_explicit(&lane->ends[record->index], 0, memory_order_relaxed);
    atomic_store_explicit(&header->second,
                          resident_second_word(number, record->items, record->pieces),
                          memory_order_relaxed);
    /*
     * Release pairs with the acquire of the thread that takes the header. Sequentially consistent, as is the load
     * of `is_napping` in threads.c: either the seat sees this word before it sleeps, or we see it nap.
     */
    atomic_store_explicit(&header->first,
                          resident_first_word(number, record->index, record->opcode, record->flags),
                          memory_order_seq_cst);
    /* Release: who sees it finds the header. Others may cut meanwhile, so it is added. */
    if (record->seat > 0)
        atomic_fetch_add_explicit(&lane->control->bell, 2, memory_order_release);
    lane->in_ring++;
    lane->tasks++;
    lane->steps += record->step_count;
}

void resident_start_locked(struct muster_resident *lane)
{
    struct muster_error problem = { .size = sizeof problem };
    INVARIANT(lane->state == RESIDENT_OFF);
    lane->state = RESIDENT_STARTING;
    lane->run++;
    lane->starts++;
    uint64_t now_ns = platform_clock_ns();
    for (uint32_t i = 0; i < lane->seat_count; i++) {
        struct resident_side *side = &lane->sides[i];
        /* Relaxed: a sign of life is only compared with another. */
        side->seen_beats = atomic_load_explicit(&lane->signs[i].beats, memory_order_relaxed);
        side->seen_ns = now_ns;
        side->has_begun = false;
    }
    /* Release pairs with the seats' acquire: they find what the last run left. */
    atomic_store_explicit(&lane->control->run, lane->run, memory_order_release);
    platform_mutex_unlock(&lane->lock);
    muster_status status = lane->kind->start(lane, &problem);
    platform_mutex_lock(&lane->lock);
    lane->started_ns = platform_clock_ns();
    lane->last_post_ns = lane->started_ns;
    lane->state = status == MUSTER_OK ? RESIDENT_ON : RESIDENT_OFF;
    if (status != MUSTER_OK) {
        resident_lose_locked(lane, status);
        platform_mutex_unlock(&lane->lock);
        run_log(lane->m, MUSTER_LOG_ERROR, "a resident lane cannot start: %s", problem.text);
        platform_mutex_lock(&lane->lock);
    }
    platform_condition_wake_all(&lane->changed);
    platform_condition_wake_one(&lane->watch_wake);
}

static void post(struct muster_resident *lane, struct resident_record *record)
{
    platform_mutex_lock(&lane->lock);
    if (lane->is_lost) {
        orphan_locked(lane, record);
        platform_condition_wake_one(&lane->watch_wake);
        platform_mutex_unlock(&lane->lock);
        return;
    }
    put_in_ring_locked(lane, record);
    uint32_t seat = record->seat;
    if (lane->state == RESIDENT_OFF)
        resident_start_locked(lane);
    else
        lane->last_post_ns = platform_clock_coarse_ns();
    platform_mutex_unlock(&lane->lock);
    lane->kind->ring(lane, seat);
}

void resident_post(struct resident_record *record)
{
    struct muster_resident *lane = record->lane;
    /* Once it is in the ring others may end it, and then the lane: not before we have left it. */
    atomic_fetch_add_explicit(&lane->lookers, 1, memory_order_relaxed);
    post(lane, record);
    /* Release pairs with the acquire of is_used_locked. */
    atomic_fetch_sub_explicit(&lane->lookers, 1, memory_order_release);
}

void resident_lose_locked(struct muster_resident *lane, muster_status status)
{
    lane->is_lost = true;
    lane->lost_status = status;
    /* Relaxed: programs that still run see it sooner or later. */
    atomic_fetch_or_explicit(&lane->control->bell, 1, memory_order_relaxed);
    atomic_store_explicit(&lane->control->run, 0, memory_order_relaxed);
    for (uint32_t seat = 0; seat < lane->seat_count; seat++) {
        struct resident_side *side = &lane->sides[seat];
        while (side->ended != side->posted) {
            uint32_t index = lane->order[(size_t)seat * lane->options.entries +
                                         side->ended++ % lane->options.entries];
            orphan_locked(lane, &lane->records[index]);
            lane->in_ring--;
        }
    }
    INVARIANT(lane->in_ring == 0);
}

bool resident_has_ended(const struct resident_record *record)
{
    /* Acquire pairs with the seat's release of the end: outputs are there. */
    uint64_t end = atomic_load_explicit(&record->lane->ends[record->index], memory_order_acquire);
    return (uint32_t)(end >> 32) == atomic_load_explicit(&record->number, memory_order_relaxed);
}

static void bring_outputs(struct muster_resident *lane, const struct resident_record *record)
{
    const char *body = resident_body(lane, record);
    for (uint32_t i = 0; i < record->output_count; i++)
        memcpy(record->outputs[i].host, body + record->outputs[i].at, record->outputs[i].bytes);
}

/* Only what a status can be: the device's memory is not to be trusted. */
static muster_status status_of(uint64_t end)
{
    int32_t status = (int32_t)(uint32_t)end;
    return status <= 0 && status > -1000 ? (muster_status)status : MUSTER_E_FAILED;
}

/* The records of one seat that have ended, from the first that has not on none. */
static void collect_seat_locked(struct muster_resident *lane, uint32_t seat,
                                struct resident_record ***last)
{
    struct resident_side *side = &lane->sides[seat];
    while (side->ended != side->posted) {
        uint32_t number = side->ended + 1;
        struct resident_record *record =
            &lane->records[lane->order[(size_t)seat * lane->options.entries +
                                       (number - 1) % lane->options.entries]];
        uint64_t end = atomic_load_explicit(&lane->ends[record->index], memory_order_acquire);
        if ((uint32_t)(end >> 32) != number)
            break;
        record->status = status_of(end);
        record->next = NULL;
        **last = record;
        *last = &record->next;
        side->ended++;
        lane->in_ring--;
    }
}

struct resident_record *resident_collect(struct muster_resident *lane)
{
    struct resident_record *first = NULL, **last = &first;
    platform_mutex_lock(&lane->lock);
    for (uint32_t seat = 0; seat < lane->seat_count && lane->in_ring > 0; seat++)
        collect_seat_locked(lane, seat, &last);
    struct resident_record *orphans = lane->orphans;
    lane->orphans = NULL;
    platform_mutex_unlock(&lane->lock);
    for (struct resident_record *record = first; record; record = record->next)
        if (record->status == MUSTER_OK)
            bring_outputs(lane, record);
    *last = orphans;
    return first;
}

void resident_listen(struct muster_resident *lane)
{
    /* Relaxed: the lock below, and the watch's, order the rest. */
    if (atomic_load_explicit(&lane->is_listening, memory_order_relaxed))
        return;
    platform_mutex_lock(&lane->lock);
    if (lane->in_ring > 0 || lane->orphans) {
        atomic_store_explicit(&lane->is_listening, true, memory_order_seq_cst);
        platform_condition_wake_one(&lane->watch_wake);
    }
    platform_mutex_unlock(&lane->lock);
}

void resident_await_room(struct muster_resident *lane)
{
    platform_mutex_lock(&lane->lock);
    lane->full++;
    if (!lane->spare)
        platform_condition_wait(&lane->changed, &lane->lock, platform_deadline_ns(ROOM_PARK_NS));
    platform_mutex_unlock(&lane->lock);
}
