/*
 * Errands: what the runtime does when a stream of a helper gets there. Calls that were asked for, and copies from and
 * to host memory that the helper does not have. Each is done exactly once and in its stream's order, also when its
 * helper ends.
 */
#include "backend/isolated/state.h"

#include "base/allocator.h"

#include <string.h>

#define ROOM_FIRST 64u

static bool grow_locked(struct link *link)
{
    const struct muster_allocator *allocator = link->backend->services->allocator;
    uint32_t room = link->errand_room > 0 ? 2 * link->errand_room : ROOM_FIRST;
    struct errand *errands = allocator_take(allocator, room, sizeof *errands);
    if (!errands)
        return false;
    if (link->errand_room > 0)
        memcpy(errands, link->errands, link->errand_room * sizeof *errands);
    for (uint32_t i = room; i-- > link->errand_room;) {
        errands[i].next = link->errand_free;
        link->errand_free = i;
    }
    allocator_give(allocator, link->errands, link->errand_room, sizeof *errands);
    link->errands = errands;
    link->errand_room = room;
    return true;
}

struct errand *errand_add_locked(struct isolated_stream *stream, enum errand_kind kind,
                                 uint32_t *number)
{
    struct link *link = stream->link;
    if (link->errand_free == WIRE_NONE && !grow_locked(link))
        return NULL;
    uint32_t at = link->errand_free;
    struct errand *errand = &link->errands[at];
    link->errand_free = errand->next;
    *errand = (struct errand){
        .kind = kind, .next = WIRE_NONE, .stream = stream, .is_spoilt = stream->has_failed
    };
    if (stream->first_errand == WIRE_NONE)
        stream->first_errand = at;
    else
        link->errands[stream->last_errand].next = at;
    stream->last_errand = at;
    *number = at;
    return errand;
}

static void free_locked(struct link *link, uint32_t number)
{
    link->errands[number] = (struct errand){ .kind = ERRAND_FREE, .next = link->errand_free };
    link->errand_free = number;
}

void errand_drop_last_locked(struct isolated_stream *stream, uint32_t number)
{
    struct link *link = stream->link;
    uint32_t *at = &stream->first_errand, before = WIRE_NONE;
    while (*at != number) {
        before = *at;
        at = &link->errands[*at].next;
    }
    *at = WIRE_NONE;
    stream->last_errand = before;
    free_locked(link, number);
}

void stream_free_locked(struct isolated_stream *stream)
{
    struct link *link = stream->link;
    struct isolated_stream **at = &link->streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    link->stream_at[stream->id] = NULL;
    if (stream->stage != WIRE_NONE)
        bits_give(link->stage_used, stream->stage);
    allocator_give(link->backend->services->allocator, stream, 1, sizeof *stream);
}

/* The oldest of the stream's is done. With the lock. */
static void finish_locked(struct isolated_stream *stream)
{
    struct link *link = stream->link;
    uint32_t number = stream->first_errand;
    bool is_gone = link->errands[number].kind == ERRAND_GONE;
    stream->first_errand = link->errands[number].next;
    if (stream->first_errand == WIRE_NONE)
        stream->last_errand = WIRE_NONE;
    free_locked(link, number);
    if (is_gone)
        stream_free_locked(stream);
}

/* A copy of the errand that is its stream's oldest; false if the helper names one that is not. */
static bool find_locked(const struct link *link, uint32_t number, struct errand *out)
{
    if (number >= link->errand_room || link->errands[number].kind == ERRAND_FREE ||
        link->errands[number].stream->first_errand != number)
        return false;
    *out = link->errands[number];
    return true;
}

static void call(const struct errand *errand, muster_status status)
{
    if (errand->kind == ERRAND_CALL)
        errand->function(errand->user, errand->is_spoilt && status == MUSTER_OK
                                           ? MUSTER_E_STREAM_FAILED
                                           : status);
}

/* Host memory alone: nothing of it is the helper's. */
static void move_whole(const struct errand *errand)
{
    if (errand->kind == ERRAND_FILL)
        memset(errand->to, errand->value, errand->bytes);
    else
        memmove(errand->to, errand->from, errand->bytes);
}

/* Between host memory and the stream's stage; the piece is what the errand can have at most. */
static bool move_stage(struct link *link, const struct errand *errand, const struct wire_up *up)
{
    uint32_t stage = errand->stream->stage;
    bool fits = errand->kind == ERRAND_COPY && stage < WIRE_STAGES && up->bytes > 0 &&
                up->bytes <= WIRE_STAGE_BYTES && up->offset <= errand->bytes &&
                up->bytes <= errand->bytes - up->offset;
    if (!fits)
        return false;
    unsigned char *memory = link->page->stages[stage];
    if (up->kind == WIRE_UP_STAGE_IN && errand->from)
        memcpy(memory, errand->from + up->offset, up->bytes);
    else if (up->kind == WIRE_UP_STAGE_OUT && errand->to)
        memcpy(errand->to + up->offset, memory, up->bytes);
    else
        return false;
    return true;
}

static void tell_stage(struct link *link, const struct errand *errand)
{
    uint32_t stage = errand->stream->stage;
    _Atomic uint32_t *word = &link->page->stage_words[stage < WIRE_STAGES ? stage : WIRE_STAGES];
    atomic_fetch_add(word, 1);
    platform_word_wake(word);
}

/* What came up is done as it says if it can be so; else the helper lies, and waits for ever. */
static void run(struct link *link, const struct wire_up *up)
{
    struct errand errand;
    platform_mutex_lock(&link->lock);
    bool is_known = find_locked(link, up->errand, &errand);
    platform_mutex_unlock(&link->lock);
    if (!is_known)
        return;
    bool is_copy = errand.kind == ERRAND_COPY || errand.kind == ERRAND_FILL;
    if (errand.kind == ERRAND_FENCE && up->kind == WIRE_UP_WHOLE) {
        tell_stage(link, &errand);
    } else if (is_copy && up->kind == WIRE_UP_WHOLE && errand.to &&
               (errand.from || errand.kind == ERRAND_FILL)) {
        if (wire_status(up->status) == MUSTER_OK)
            move_whole(&errand);
        tell_stage(link, &errand);
    } else if (is_copy && up->kind != WIRE_UP_ERRAND) {
        if (move_stage(link, &errand, up))
            tell_stage(link, &errand);
        return;
    } else {
        /* The user's function may look at results. */
        awaited_look(link);
        call(&errand, wire_status(up->status));
    }
    platform_mutex_lock(&link->lock);
    finish_locked(errand.stream);
    platform_mutex_unlock(&link->lock);
}

bool errands_run(struct link *link)
{
    struct wire_page *page = link->page;
    uint64_t head = atomic_load_explicit(&page->up_head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&page->up_tail, memory_order_acquire);
    if (head == tail || tail - head > WIRE_UP_COUNT)
        return false;
    for (; head != tail; head++) {
        const struct wire_up up = page->up[head % WIRE_UP_COUNT];
        atomic_store_explicit(&page->up_head, head + 1, memory_order_release);
        run(link, &up);
        /* Release: who sees that it is done sees what it did. */
        atomic_store_explicit(&link->up_done, head + 1, memory_order_release);
    }
    atomic_fetch_add(&page->done_word, 1);
    if (atomic_load(&page->done_sleeps) != 0)
        platform_word_wake(&page->done_word);
    return true;
}

uint64_t errands_up(const struct link *link)
{
    uint64_t done = atomic_load_explicit(&link->up_done, memory_order_acquire);
    uint64_t tail = atomic_load_explicit(&link->page->up_tail, memory_order_acquire);
    return tail - done <= WIRE_UP_COUNT ? tail : done;
}

bool errands_are_done(const struct link *link, uint64_t up)
{
    return (int64_t)(atomic_load_explicit(&link->up_done, memory_order_acquire) - up) >= 0;
}

void errands_fail(struct isolated_stream *stream)
{
    struct link *link = stream->link;
    platform_mutex_lock(&link->lock);
    bool is_last = stream->first_errand == WIRE_NONE;
    while (!is_last) {
        struct errand errand = link->errands[stream->first_errand];
        platform_mutex_unlock(&link->lock);
        call(&errand, MUSTER_E_STREAM_FAILED);
        platform_mutex_lock(&link->lock);
        finish_locked(stream);
        is_last = errand.kind == ERRAND_GONE || stream->first_errand == WIRE_NONE;
    }
    platform_mutex_unlock(&link->lock);
}
