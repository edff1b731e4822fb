/*
 * Events: a word of the shared memory each, which says which record has completed and how.
 */
#include "backend/isolated/state.h"

/* A thread looks so long before it sleeps. */
#define SPIN_NS 20000u
#define SLEEP_NS UINT64_C(100000000)

static void keep_event_locked(struct link *link, void *user)
{
    struct isolated_event *event = user;
    event->next = link->events;
    link->events = event;
}

muster_status isolated_event_init(void *device_state, uint32_t flags, void *state,
                                  struct muster_error *err)
{
    struct isolated_device *device = device_state;
    struct isolated_event *event = state;
    struct link *link = device->link;
    muster_status status = link_lock(link, err);
    if (status != MUSTER_OK)
        return status;
    uint32_t id = bits_take(link->event_used, WIRE_EVENTS / 64);
    link_unlock(link);
    if (id == WIRE_NONE)
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0, NULL, "a helper has room for %u events",
                                 WIRE_EVENTS);
    event->link = link;
    event->id = id;
    event->device = device->id;
    event->flags = flags;
    const struct link_question question = { .kind = WIRE_EVENT_INIT,
                                            .a = id,
                                            .b = device->id,
                                            .c = flags,
                                            .keep_locked = keep_event_locked,
                                            .user = event };
    status = link_ask_again(link, &question, err);
    platform_mutex_lock(&link->lock);
    if (status != MUSTER_OK)
        bits_give(link->event_used, id);
    platform_mutex_unlock(&link->lock);
    return status;
}

void isolated_event_deinit(void *state)
{
    struct isolated_event *event = state;
    struct link *link = event->link;
    if (link_lock(link, NULL) == MUSTER_OK)
        link_say(link, WIRE_EVENT_DEINIT, event->id, 0, 0);
    else
        platform_mutex_lock(&link->lock);
    struct isolated_event **at = &link->events;
    while (*at != event)
        at = &(*at)->next;
    *at = event->next;
    bits_give(link->event_used, event->id);
    platform_mutex_unlock(&link->lock);
}

muster_status isolated_event_record(void *state, void *stream_state, struct muster_error *err)
{
    struct isolated_event *event = state;
    struct isolated_stream *stream = ((struct isolated_stream_state *)stream_state)->stream;
    struct link *link = event->link;
    if (event->link != stream->link || event->device != stream->device)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "use an event of the stream's device",
                                 "the event is of another device");
    muster_status status = link_lock(link, err);
    if (status != MUSTER_OK)
        return status;
    struct wire_head *head = link_begin(link, WIRE_EVENT_RECORD, sizeof(struct wire_record));
    if (!head) {
        status = link_say_lost(link, err);
        link_unlock(link);
        return status;
    }
    uint32_t generation = ++link->event_generations[event->id];
    if (generation == 0)
        generation = ++link->event_generations[event->id];
    stream->issued++;
    stream->marked = stream->issued;
    event->stream = stream;
    atomic_store_explicit(&event->spoilt, stream->has_failed ? generation : 0,
                          memory_order_relaxed);
    /* Release: who sees the record sees on what it is. */
    atomic_store_explicit(&event->generation, generation, memory_order_release);
    head->a = event->id;
    head->b = stream->id;
    *(struct wire_record *)(head + 1) =
        (struct wire_record){ .generation = generation, .done = stream->issued };
    link_send(link, head);
    link_unlock(link);
    return MUSTER_OK;
}

/* Calls that the stream had got to before the record come first, though another thread makes them. */
static bool are_calls_made(struct isolated_event *event, uint32_t generation)
{
    struct link *link = event->link;
    if (atomic_load_explicit(&event->up_generation, memory_order_acquire) != generation) {
        atomic_store_explicit(&event->up_needed, errands_up(link), memory_order_relaxed);
        atomic_store_explicit(&event->up_generation, generation, memory_order_release);
    }
    return errands_are_done(link, atomic_load_explicit(&event->up_needed, memory_order_relaxed));
}

/* MUSTER_E_BUSY, or how the last record completed; `is_told`: by the helper of now, which can say more. */
static muster_status look(struct isolated_event *event, bool *is_told)
{
    struct link *link = event->link;
    uint32_t generation = atomic_load_explicit(&event->generation, memory_order_acquire);
    *is_told = false;
    if (generation == 0)
        return MUSTER_OK;
    uint64_t word = atomic_load_explicit(&link->page->events[event->id], memory_order_acquire);
    if (word >> 32 != generation) {
        if (atomic_load_explicit(&event->failed, memory_order_acquire) == generation)
            return MUSTER_E_STREAM_FAILED;
        return MUSTER_E_BUSY;
    }
    if (!are_calls_made(event, generation))
        return MUSTER_E_BUSY;
    muster_status status = wire_status((int32_t)(uint32_t)word);
    awaited_look(link);
    *is_told = status != MUSTER_OK;
    bool is_spoilt = atomic_load_explicit(&event->spoilt, memory_order_relaxed) == generation;
    return status == MUSTER_OK && is_spoilt ? MUSTER_E_STREAM_FAILED : status;
}

/* One that nothing will complete any more. */
static muster_status say_dead(const struct isolated_event *event, struct muster_error *err)
{
    struct link *link = event->link;
    /* Acquire: who sees it sees how the last helper ended, which does not change any more. */
    if (atomic_load_explicit(&link->is_dead, memory_order_acquire) == 0)
        return MUSTER_E_BUSY;
    return link_say_lost(link, err);
}

static muster_status explain(const struct isolated_event *event, muster_status status, bool is_told,
                             struct muster_error *err)
{
    struct muster_error words = { .size = 0 };
    if (!err || status == MUSTER_OK || status == MUSTER_E_BUSY)
        return status;
    const struct link_question question = { .kind = WIRE_EVENT_EXPLAIN, .a = event->id };
    if (is_told && link_ask(event->link, &question, &words) == status)
        return muster_error_fill(err, status, words.driver_code, *words.fix ? words.fix : NULL,
                                 "%s", words.text);
    return muster_error_fill(err, status, 0, NULL, "%s", muster_status_message(status));
}

muster_status isolated_event_query(void *state, struct muster_error *err)
{
    struct isolated_event *event = state;
    bool is_told;
    muster_status status = look(event, &is_told);
    if (status == MUSTER_E_BUSY)
        return say_dead(event, err);
    return explain(event, status, is_told, err);
}

muster_status isolated_event_wait(void *state, uint64_t timeout_ns, struct muster_error *err)
{
    struct isolated_event *event = state;
    struct link *link = event->link;
    uint64_t begin_ns = platform_clock_ns(), deadline_ns = platform_deadline_ns(timeout_ns);
    bool is_told;
    for (;;) {
        uint32_t seen = atomic_load(&link->page->done_word);
        muster_status status = look(event, &is_told);
        if (status == MUSTER_E_BUSY)
            status = say_dead(event, err);
        uint64_t now_ns = platform_clock_ns();
        if (status != MUSTER_E_BUSY)
            return status == MUSTER_E_DEVICE_LOST ? status : explain(event, status, is_told, err);
        if (now_ns >= deadline_ns)
            return muster_error_fill(err, MUSTER_E_TIMEOUT, 0, NULL,
                                     "the event has not completed within the time allowed");
        if (wire_looks_on(link->page, now_ns - begin_ns, SPIN_NS))
            platform_thread_yield();
        else
            link_rest(link, seen,
                      deadline_ns - now_ns < SLEEP_NS ? deadline_ns - now_ns : SLEEP_NS);
    }
}

muster_status isolated_event_elapsed(void *begin_state, void *end_state, uint64_t *ns,
                                     struct muster_error *err)
{
    struct isolated_event *begin = begin_state, *end = end_state;
    uint64_t answer;
    if (begin->link != end->link)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "the events are of two devices");
    const struct link_question question = { .kind = WIRE_EVENT_ELAPSED,
                                            .a = begin->id,
                                            .b = end->id,
                                            .answer = &answer,
                                            .answer_bytes = sizeof answer };
    muster_status status = link_ask(begin->link, &question, err);
    if (status == MUSTER_OK)
        *ns = answer;
    return status;
}
