/*
 * Streams, gates, copies, fills and calls. All are messages that nobody waits for; what the helper's driver refuses
 * fails the stream there.
 */
#include "backend/isolated/state.h"

#include "base/allocator.h"

static struct isolated_stream *stream_of(void *state)
{
    return ((struct isolated_stream_state *)state)->stream;
}

/* Locks the link and gets room for a message of the stream; NULL, unlocked, with a status. */
static struct wire_head *begin(struct isolated_stream *stream, enum wire_kind kind, size_t bytes,
                               muster_status *status, struct muster_error *err)
{
    struct link *link = stream->link;
    *status = link_lock(link, err);
    if (*status != MUSTER_OK)
        return NULL;
    struct wire_head *head = link_begin(link, kind, bytes);
    if (head)
        return head;
    *status = link_say_lost(link, err);
    link_unlock(link);
    return NULL;
}

static void end(struct isolated_stream *stream, struct wire_head *head)
{
    stream->issued++;
    link_send(stream->link, head);
    link_unlock(stream->link);
}

static void keep_stream_locked(struct link *link, void *user)
{
    struct isolated_stream *stream = user;
    stream->next = link->streams;
    link->streams = stream;
}

muster_status isolated_stream_open(void *device_state, int32_t priority, int is_default,
                                   void *state, struct muster_error *err)
{
    struct isolated_device *device = device_state;
    struct link *link = device->link;
    const struct muster_allocator *allocator = link->backend->services->allocator;
    struct isolated_stream *stream = allocator_take(allocator, 1, sizeof *stream);
    if (!stream)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a stream");
    muster_status status = link_lock(link, err);
    uint32_t id = 0;
    if (status == MUSTER_OK) {
        while (id < WIRE_STREAMS && link->stream_at[id])
            id++;
        if (id == WIRE_STREAMS)
            status = muster_error_fill(err, MUSTER_E_CAPACITY, 0, "close streams",
                                       "a helper has room for %u streams", WIRE_STREAMS);
        else
            link->stream_at[id] = stream;
        /* The last stream with this number had done more than this one has. */
        if (status == MUSTER_OK)
            atomic_store(&link->page->streams[id].done, 0);
        link_unlock(link);
    }
    if (status != MUSTER_OK) {
        allocator_give(allocator, stream, 1, sizeof *stream);
        return status;
    }
    *stream = (struct isolated_stream){ .link = link,
                                        .id = id,
                                        .device = device->id,
                                        .priority = priority,
                                        .is_default = is_default != 0,
                                        .stage = WIRE_NONE,
                                        .first_errand = WIRE_NONE,
                                        .last_errand = WIRE_NONE,
                                        .first_awaited = WIRE_NONE,
                                        .last_awaited = WIRE_NONE };
    const struct wire_stream body = { .priority = priority, .is_default = is_default != 0 };
    const struct link_question question = { .kind = WIRE_STREAM_OPEN,
                                            .a = id,
                                            .b = device->id,
                                            .body = &body,
                                            .body_bytes = sizeof body,
                                            .keep_locked = keep_stream_locked,
                                            .user = stream };
    status = link_ask_again(link, &question, err);
    platform_mutex_lock(&link->lock);
    if (status != MUSTER_OK)
        link->stream_at[id] = NULL;
    platform_mutex_unlock(&link->lock);
    if (status == MUSTER_OK)
        ((struct isolated_stream_state *)state)->stream = stream;
    else
        allocator_give(allocator, stream, 1, sizeof *stream);
    return status;
}

/* Its number is used again when the helper has got to the end of it. */
void isolated_stream_close(void *state)
{
    struct isolated_stream *stream = stream_of(state);
    struct link *link = stream->link;
    uint32_t errand;
    if (link_lock(link, NULL) != MUSTER_OK) {
        platform_mutex_lock(&link->lock);
        stream_free_locked(stream);
        platform_mutex_unlock(&link->lock);
        return;
    }
    stream->is_closed = true;
    /* While the ring is full the helper may end, and the stream with it. */
    uint32_t id = stream->id;
    if (errand_add_locked(stream, ERRAND_GONE, &errand) &&
        link_say(link, WIRE_ERRAND, id, errand, 0))
        link_say(link, WIRE_STREAM_CLOSE, id, 0, 0);
    link_unlock(link);
}

void *isolated_stream_native(void *state)
{
    (void)state;
    return NULL;
}

void stream_mark_locked(struct isolated_stream *stream)
{
    if (stream->marked >= stream->issued || stream->is_closed || stream->has_failed)
        return;
    if (link_say(stream->link, WIRE_STREAM_MARK, stream->id, 0, stream->issued))
        stream->marked = stream->issued;
}

muster_status isolated_stream_query(void *state, struct muster_error *err)
{
    struct isolated_stream *stream = stream_of(state);
    struct link *link = stream->link;
    muster_status status = link_lock(link, err);
    if (status != MUSTER_OK)
        return status;
    bool is_over = stream_done(stream) == stream->issued;
    if (!is_over && stream->marked < stream->issued &&
        link_say(link, WIRE_STREAM_MARK, stream->id, 0, stream->issued))
        stream->marked = stream->issued;
    muster_status said = wire_status(
        atomic_load_explicit(&link->page->streams[stream->id].status, memory_order_acquire));
    is_over = is_over && errands_are_done(link, errands_up(link));
    status = !is_over ? MUSTER_E_BUSY : stream->has_failed ? MUSTER_E_STREAM_FAILED : said;
    if (is_over)
        awaited_look_locked(link);
    link_unlock(link);
    if (status == MUSTER_E_STREAM_FAILED)
        muster_error_fill(err, status, 0, NULL, "%s", muster_status_message(status));
    return status;
}

muster_status isolated_stream_wait(void *state, void *event_state, struct muster_error *err)
{
    struct isolated_stream *stream = stream_of(state);
    struct isolated_event *event = event_state;
    muster_status status;
    if (event->flags & MUSTER_EVENT_TIMING)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "use an event for order",
                                 "a timing event orders nothing");
    if (event->link != stream->link || event->device != stream->device)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "wait on the host",
                                 "the event is of another device");
    struct wire_head *head = begin(stream, WIRE_STREAM_WAIT, 0, &status, err);
    if (!head)
        return status;
    uint32_t generation = atomic_load_explicit(&event->generation, memory_order_relaxed);
    uint32_t failed = atomic_load_explicit(&event->failed, memory_order_relaxed);
    uint32_t spoilt = atomic_load_explicit(&event->spoilt, memory_order_relaxed);
    if (stream->has_failed || generation == 0) {
        link_unlock(stream->link);
        return MUSTER_OK;
    }
    /* What a helper's end has failed fails this one too; the helper of now knows nothing of it. */
    if (failed == generation || spoilt == generation) {
        stream->has_failed = event->stream != stream;
        if (failed == generation) {
            link_unlock(stream->link);
            return MUSTER_OK;
        }
    }
    head->a = stream->id;
    head->b = event->id;
    end(stream, head);
    return MUSTER_OK;
}

/* Gates. */

static void keep_gate_locked(struct link *link, void *user)
{
    struct isolated_gate *gate = user;
    gate->next = link->gates;
    link->gates = gate;
}

muster_status isolated_gate_init(void *device_state, void *state, struct muster_error *err)
{
    struct isolated_device *device = device_state;
    struct isolated_gate *gate = state;
    struct link *link = device->link;
    muster_status status = link_lock(link, err);
    if (status != MUSTER_OK)
        return status;
    *gate = (struct isolated_gate){ .link = link,
                                    .id = bits_take(link->gate_used, GATES_MAX / 64),
                                    .device = device->id };
    link_unlock(link);
    if (gate->id == WIRE_NONE)
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0, NULL, "a helper has room for %u gates",
                                 GATES_MAX);
    const struct link_question question = { .kind = WIRE_GATE_INIT,
                                            .a = gate->id,
                                            .b = device->id,
                                            .keep_locked = keep_gate_locked,
                                            .user = gate };
    status = link_ask_again(link, &question, err);
    platform_mutex_lock(&link->lock);
    if (status != MUSTER_OK)
        bits_give(link->gate_used, gate->id);
    platform_mutex_unlock(&link->lock);
    return status;
}

void isolated_gate_deinit(void *state)
{
    struct isolated_gate *gate = state;
    struct link *link = gate->link;
    if (link_lock(link, NULL) == MUSTER_OK)
        link_say(link, WIRE_GATE_DEINIT, gate->id, 0, 0);
    else
        platform_mutex_lock(&link->lock);
    struct isolated_gate **at = &link->gates;
    while (*at != gate)
        at = &(*at)->next;
    *at = gate->next;
    bits_give(link->gate_used, gate->id);
    platform_mutex_unlock(&link->lock);
}

muster_status isolated_gate_publish(void *state, uint64_t value, struct muster_error *err)
{
    struct isolated_gate *gate = state;
    struct link *link = gate->link;
    muster_status status = link_lock(link, err);
    if (status != MUSTER_OK)
        return status;
    if (value > gate->value)
        gate->value = value;
    if (!link_say(link, WIRE_GATE_PUBLISH, gate->id, 0, value))
        status = link_say_lost(link, err);
    link_unlock(link);
    return status;
}

muster_status isolated_gate_wait(void *state, void *stream_state, uint64_t value,
                                 struct muster_error *err)
{
    struct isolated_gate *gate = state;
    struct isolated_stream *stream = stream_of(stream_state);
    muster_status status;
    if (gate->link != stream->link || gate->device != stream->device)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "the gate is of another device");
    struct wire_head *head = begin(stream, WIRE_GATE_WAIT, 0, &status, err);
    if (!head)
        return status;
    if (stream->has_failed) {
        link_unlock(stream->link);
        return MUSTER_OK;
    }
    head->a = gate->id;
    head->b = stream->id;
    head->c = value;
    end(stream, head);
    return MUSTER_OK;
}

/* Copies and fills. */

static bool take_stage_locked(struct isolated_stream *stream)
{
    if (stream->stage == WIRE_NONE)
        stream->stage = bits_take(stream->link->stage_used, WIRE_STAGES / 64);
    return stream->stage != WIRE_NONE;
}

static bool find_place_locked(const struct link *link, const struct muster_place *place,
                              uint64_t bytes, struct wire_place *out)
{
    *out = (struct wire_place){ .memory = WIRE_NONE, .offset = place->memory ? place->offset : 0 };
    if (!place->memory)
        return place->host != NULL;
    out->memory = memory_find_locked(link, place->memory, place->offset, bytes);
    return out->memory != WIRE_NONE;
}

static muster_status say_no_place(struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_INVALID, 0, "use memory that the device allocated",
                             "a copy or fill is not within memory of the device");
}

/* The errand of a copy or fill that touches host memory. */
static muster_status add_errand_locked(struct isolated_stream *stream, enum errand_kind kind,
                                       struct errand **errand, uint32_t *number,
                                       struct muster_error *err)
{
    if (!take_stage_locked(stream))
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0, "use memory from muster_host_allocate",
                                 "more than %u streams copy plain host memory at once",
                                 WIRE_STAGES);
    *errand = errand_add_locked(stream, kind, number);
    return *errand ? MUSTER_OK
                   : muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a copy");
}

static char *host_of(const struct muster_place *place)
{
    return place->memory ? NULL : (char *)place->host;
}

muster_status stream_fence_locked(struct isolated_stream *stream, struct muster_error *err)
{
    struct link *link = stream->link;
    struct errand *errand;
    struct wire_copy body = { .to.memory = WIRE_NONE, .from.memory = WIRE_NONE };
    if (!stream->has_calls || stream->has_failed || stream->first_errand == WIRE_NONE) {
        stream->has_calls = stream->has_calls && stream->first_errand != WIRE_NONE;
        return MUSTER_OK;
    }
    struct wire_head *head = link_begin(link, WIRE_COPY, sizeof body);
    if (!head || stream->has_failed)
        return head ? MUSTER_OK : link_say_lost(link, err);
    muster_status status = add_errand_locked(stream, ERRAND_FENCE, &errand, &body.errand, err);
    if (status != MUSTER_OK)
        return status;
    body.stage = stream->stage;
    head->a = stream->id;
    *(struct wire_copy *)(head + 1) = body;
    stream->issued++;
    stream->has_calls = false;
    link_send(link, head);
    return MUSTER_OK;
}

/* Through the stream's stage, or by the program alone if both are its memory. With the lock. */
static muster_status copy_by_errand_locked(struct isolated_stream *stream,
                                           const struct muster_copy_desc *copy,
                                           struct wire_copy *body, struct muster_error *err)
{
    struct errand *errand;
    muster_status status = add_errand_locked(stream, ERRAND_COPY, &errand, &body->errand, err);
    if (status != MUSTER_OK)
        return status;
    errand->to = host_of(&copy->to);
    errand->from = host_of(&copy->from);
    errand->bytes = copy->bytes;
    body->stage = stream->stage;
    return MUSTER_OK;
}

/* The part of the copy that the helper can do by itself as one; 0: none. With the lock. */
static uint64_t find_shared_locked(struct isolated_stream *stream,
                                   const struct muster_copy_desc *copy, uint64_t at,
                                   struct wire_copy *body)
{
    bool is_out = !copy->to.memory;
    uint64_t bytes = copy->bytes - at;
    struct wire_place *host = is_out ? &body->to : &body->from;
    const char *memory = host_of(is_out ? &copy->to : &copy->from);
    if (!memory || (is_out && !copy->from.memory))
        return memory ? 0 : bytes;
    uint64_t together = host_find(stream->link, memory + at, bytes, &host->offset);
    if (together > 0) {
        host->memory = WIRE_HOST;
        host_renew_locked(stream->link, stream->device, host->offset, together);
    }
    return together;
}

/* One message, of the rest of the copy or as much as lies together. Writes how much that is. */
static muster_status copy_part(struct isolated_stream *stream, const struct muster_copy_desc *copy,
                               uint64_t *at, struct muster_error *err)
{
    struct link *link = stream->link;
    struct wire_copy body = { .errand = WIRE_NONE, .stage = WIRE_NONE };
    muster_status status = link_lock(link, err);
    if (status != MUSTER_OK)
        return status;
    if (!find_place_locked(link, &copy->to, copy->bytes, &body.to) ||
        !find_place_locked(link, &copy->from, copy->bytes, &body.from)) {
        link_unlock(link);
        return say_no_place(err);
    }
    body.bytes = find_shared_locked(stream, copy, *at, &body);
    if (body.to.memory == WIRE_HOST || body.from.memory == WIRE_HOST)
        status = stream_fence_locked(stream, err);
    struct wire_head *head = status == MUSTER_OK ? link_begin(link, WIRE_COPY, sizeof body) : NULL;
    if (!head)
        status = status == MUSTER_OK ? link_say_lost(link, err) : status;
    else if (body.bytes == 0 && !stream->has_failed)
        status = copy_by_errand_locked(stream, copy, &body, err);
    if (status != MUSTER_OK || stream->has_failed) {
        *at = copy->bytes;
        link_unlock(link);
        return status;
    }
    if (body.bytes == 0)
        body.bytes = copy->bytes;
    body.to.offset += body.to.memory == WIRE_HOST ? 0 : *at;
    body.from.offset += body.from.memory == WIRE_HOST ? 0 : *at;
    *at += body.bytes;
    head->a = stream->id;
    *(struct wire_copy *)(head + 1) = body;
    end(stream, head);
    return MUSTER_OK;
}

muster_status isolated_copy(void *state, const struct muster_copy_desc *copy,
                            struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    /* A ring's memory may begin again in the middle. */
    for (uint64_t at = 0; at < copy->bytes && status == MUSTER_OK;)
        status = copy_part(stream_of(state), copy, &at, err);
    return status;
}

muster_status isolated_fill(void *state, const struct muster_place *to, uint8_t value,
                            uint64_t bytes, struct muster_error *err)
{
    struct isolated_stream *stream = stream_of(state);
    struct link *link = stream->link;
    struct wire_fill body = { .bytes = bytes, .value = value, .errand = WIRE_NONE };
    muster_status status;
    struct wire_head *head = begin(stream, WIRE_FILL, sizeof body, &status, err);
    if (!head)
        return status;
    if (!find_place_locked(link, to, bytes, &body.to))
        status = say_no_place(err);
    struct errand *errand = NULL;
    if (status == MUSTER_OK && !stream->has_failed && !to->memory)
        status = add_errand_locked(stream, ERRAND_FILL, &errand, &body.errand, err);
    if (status != MUSTER_OK || stream->has_failed) {
        link_unlock(link);
        return status;
    }
    if (errand) {
        errand->to = to->host;
        errand->value = value;
        errand->bytes = bytes;
    }
    head->a = stream->id;
    head->c = stream->stage;
    *(struct wire_fill *)(head + 1) = body;
    end(stream, head);
    return MUSTER_OK;
}

muster_status isolated_host_call(void *state, void (*function)(void *user, muster_status status),
                                 void *user, struct muster_error *err)
{
    struct isolated_stream *stream = stream_of(state);
    struct link *link = stream->link;
    uint32_t number;
    muster_status status;
    struct wire_head *head = begin(stream, WIRE_ERRAND, 0, &status, err);
    if (!head)
        return status;
    struct errand *errand = errand_add_locked(stream, ERRAND_CALL, &number);
    if (!errand) {
        link_unlock(link);
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a call");
    }
    stream->has_calls = true;
    errand->function = function;
    errand->user = user;
    head->a = stream->id;
    head->b = number;
    end(stream, head);
    return MUSTER_OK;
}
