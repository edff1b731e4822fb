/*
 * The helper at work: launches, copies, and what streams say when they get somewhere.
 */
#include "backend/isolated/serve.h"

#include "backend/queue.h"
#include "platform/crash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Something that a stream says. Freed when it was said. */
struct mark {
    uint32_t stream, event, generation;
    bool is_broken;
    uint64_t done;
    uint32_t count;
    uint32_t results[];
};

struct stage {
    uint32_t kind, errand, stage, bytes;
    uint64_t offset;
};

void *serve_take(size_t bytes)
{
    void *memory = calloc(1, bytes > 0 ? bytes : 1);
    /* A helper without memory is of no use: the runtime starts another. */
    if (!memory)
        abort();
    return memory;
}

void serve_check(muster_status status, const char *words)
{
    if (muster_status_discards(status) != MUSTER_DISCARD_DEVICE)
        return;
    snprintf(serve.page->crash.text, sizeof serve.page->crash.text, "%s",
             words && *words ? words : muster_status_message(status));
    _Exit(WIRE_EXIT_LOST);
}

void serve_note(struct serve_stream *stream, muster_status status)
{
    serve_check(status, NULL);
    if (status != MUSTER_OK)
        stream->is_broken = true;
}

/* Up. */

static void put_up(const struct wire_up *up)
{
    struct wire_page *page = serve.page;
    platform_mutex_lock(&serve.up_lock);
    uint64_t tail = atomic_load_explicit(&page->up_tail, memory_order_relaxed);
    while (tail - atomic_load_explicit(&page->up_head, memory_order_acquire) >= WIRE_UP_COUNT)
        platform_thread_yield();
    page->up[tail % WIRE_UP_COUNT] = *up;
    /* Sequentially consistent: the receiver says that it sleeps and then looks at the tail. */
    atomic_store(&page->up_tail, tail + 1);
    bool sleeps = atomic_load(&page->up_sleeps) != 0;
    platform_mutex_unlock(&serve.up_lock);
    if (sleeps) {
        atomic_fetch_add(&page->up_word, 1);
        platform_word_wake(&page->up_word);
    }
}

static void tell_done(void)
{
    struct wire_page *page = serve.page;
    atomic_fetch_add(&page->done_word, 1);
    if (atomic_load(&page->done_sleeps) != 0)
        platform_word_wake(&page->done_word);
}

/* A later record of the same event may have been reached before this one. */
static void tell_event(uint32_t event, uint32_t generation, muster_status status)
{
    _Atomic uint64_t *word = &serve.page->events[event];
    uint64_t now = atomic_load_explicit(word, memory_order_relaxed);
    while ((int32_t)(generation - (uint32_t)(now >> 32)) > 0 &&
           !atomic_compare_exchange_weak_explicit(word, &now, wire_event_word(generation, status),
                                                  memory_order_release, memory_order_relaxed)) {}
}

static void tell_failures(const struct mark *mark)
{
    struct wire_page *page = serve.page;
    for (uint32_t i = 0; i < mark->count; i++) {
        uint32_t number = mark->results[i];
        if (atomic_load_explicit(&page->results[number], memory_order_relaxed) == MUSTER_OK)
            continue;
        platform_mutex_lock(&serve.up_lock);
        uint64_t at = atomic_load_explicit(&page->failure_count, memory_order_relaxed);
        atomic_store_explicit(&page->failures[at % WIRE_FAILURES], number, memory_order_relaxed);
        atomic_store_explicit(&page->failure_count, at + 1, memory_order_release);
        platform_mutex_unlock(&serve.up_lock);
    }
}

static void say_mark(void *user, muster_status status)
{
    struct mark *mark = user;
    struct wire_stream_state *stream = &serve.page->streams[mark->stream];
    serve_check(status, NULL);
    if (status == MUSTER_OK && mark->is_broken)
        status = MUSTER_E_STREAM_FAILED;
    tell_failures(mark);
    if (status != MUSTER_OK)
        atomic_store_explicit(&stream->status, status, memory_order_relaxed);
    atomic_store_explicit(&stream->done, mark->done, memory_order_release);
    if (mark->event != WIRE_NONE)
        tell_event(mark->event, mark->generation, status);
    tell_done();
    free(mark);
}

void serve_mark(uint32_t number, uint64_t done, uint32_t event, uint32_t generation)
{
    struct serve_stream *stream = &serve.streams[number];
    struct mark *mark = serve_take(sizeof *mark + stream->result_count * sizeof *mark->results);
    *mark = (struct mark){ .stream = number,
                           .event = event,
                           .generation = generation,
                           .is_broken = stream->is_broken,
                           .done = done,
                           .count = stream->result_count };
    if (stream->result_count > 0)
        memcpy(mark->results, stream->results, stream->result_count * sizeof *mark->results);
    stream->result_count = 0;
    muster_status status = serve.table.host_call(stream->state, say_mark, mark, NULL);
    /* A lost device takes no calls; nothing of it runs, and the stream is at its end. */
    if (status != MUSTER_OK)
        say_mark(mark, status);
}

/* Errands. */

static void say_errand(void *user, muster_status status)
{
    const struct wire_up up = { .kind = WIRE_UP_ERRAND,
                                .errand = (uint32_t)(uintptr_t)user,
                                .status = status };
    put_up(&up);
}

void serve_errand(uint32_t number, uint32_t errand)
{
    struct serve_stream *stream = &serve.streams[number];
    void *user = (void *)(uintptr_t)errand;
    muster_status status = serve.table.host_call(stream->state, say_errand, user, NULL);
    if (status != MUSTER_OK)
        say_errand(user, status);
}

/* Asks the runtime to move a piece, and waits until it has. */
static void ask_stage(void *user, muster_status status)
{
    struct stage *stage = user;
    _Atomic uint32_t *word = &serve.page->stage_words[stage->stage];
    uint32_t seen = atomic_load(word);
    const struct wire_up up = { .kind = stage->kind,
                                .errand = stage->errand,
                                .status = status,
                                .bytes = stage->bytes,
                                .offset = stage->offset };
    /* One that is all there is to be done must end, also on a stream that has failed. */
    if (status == MUSTER_OK || stage->kind == WIRE_UP_WHOLE) {
        put_up(&up);
        while (atomic_load(word) == seen)
            platform_word_wait(word, seen, UINT64_C(1000000000));
    }
    free(stage);
}

static void call_stage(struct serve_stream *stream, const struct stage *stage)
{
    struct stage *copy = serve_take(sizeof *copy);
    *copy = *stage;
    muster_status status = serve.table.host_call(stream->state, ask_stage, copy, NULL);
    if (status != MUSTER_OK)
        free(copy);
    serve_note(stream, status);
}

static const struct muster_memory *memory_at(uint32_t number)
{
    return number < serve.memory_room ? &serve.memories[number].memory : NULL;
}

/* Through the stream's stage, piece by piece: a piece is moved on before the next one comes. */
static void copy_staged(struct serve_stream *stream, const struct wire_copy *copy)
{
    bool is_in = copy->from.memory == WIRE_NONE;
    unsigned char *memory = serve.page->stages[copy->stage];
    for (uint64_t at = 0; at < copy->bytes && !stream->is_broken; at += WIRE_STAGE_BYTES) {
        uint64_t left = copy->bytes - at;
        const struct stage stage = { .kind = is_in ? WIRE_UP_STAGE_IN : WIRE_UP_STAGE_OUT,
                                     .errand = copy->errand,
                                     .stage = copy->stage,
                                     .bytes = left < WIRE_STAGE_BYTES ? (uint32_t)left
                                                                      : WIRE_STAGE_BYTES,
                                     .offset = at };
        const struct wire_place *place = is_in ? &copy->to : &copy->from;
        const struct muster_place device = { .memory = memory_at(place->memory),
                                             .offset = place->offset + at };
        const struct muster_place host = { .host = memory };
        const struct muster_copy_desc desc = { .to = is_in ? device : host,
                                               .from = is_in ? host : device,
                                               .bytes = stage.bytes };
        if (is_in)
            call_stage(stream, &stage);
        serve_note(stream, serve.table.copy(stream->state, &desc, NULL));
        if (!is_in)
            call_stage(stream, &stage);
    }
}

static struct muster_place place_of(const struct wire_place *place, uint64_t bytes)
{
    if (place->memory == WIRE_HOST)
        return (struct muster_place){ .host = serve_host(place->offset, bytes) };
    return (struct muster_place){ .memory = memory_at(place->memory), .offset = place->offset };
}

void serve_copy(uint32_t number, const struct wire_copy *copy)
{
    struct serve_stream *stream = &serve.streams[number];
    bool is_here = copy->to.memory != WIRE_NONE && copy->from.memory != WIRE_NONE;
    bool is_on_host = copy->to.memory == WIRE_NONE && copy->from.memory == WIRE_NONE;
    if (is_here && !stream->is_broken) {
        const struct muster_copy_desc desc = { .to = place_of(&copy->to, copy->bytes),
                                               .from = place_of(&copy->from, copy->bytes),
                                               .bytes = copy->bytes };
        bool is_there = (desc.to.memory || desc.to.host) && (desc.from.memory || desc.from.host);
        serve_note(stream,
                   is_there ? serve.table.copy(stream->state, &desc, NULL) : MUSTER_E_INVALID);
    } else if (is_on_host && !stream->is_broken) {
        const struct stage whole = { WIRE_UP_WHOLE, copy->errand, copy->stage, 0, 0 };
        call_stage(stream, &whole);
        if (!stream->is_broken)
            return;
    } else if (!is_here && copy->stage < WIRE_STAGES) {
        copy_staged(stream, copy);
    }
    if (copy->errand != WIRE_NONE)
        serve_errand(number, copy->errand);
}

void serve_fill(uint32_t number, const struct wire_fill *fill, uint32_t stage)
{
    struct serve_stream *stream = &serve.streams[number];
    const struct muster_place to = { .memory = memory_at(fill->to.memory),
                                     .offset = fill->to.offset };
    if (fill->errand != WIRE_NONE) {
        const struct stage whole = { WIRE_UP_WHOLE, fill->errand, stage, 0, 0 };
        if (!stream->is_broken)
            call_stage(stream, &whole);
        if (stream->is_broken)
            serve_errand(number, fill->errand);
    } else if (!stream->is_broken) {
        serve_note(stream,
                   serve.table.fill(stream->state, &to, (uint8_t)fill->value, fill->bytes, NULL));
    }
}

/* Launches. */

static void follow(struct serve_stream *stream, uint32_t result)
{
    if (stream->result_count == stream->result_room) {
        uint32_t room = stream->result_room > 0 ? 2 * stream->result_room : 64;
        uint32_t *grown = serve_take(room * sizeof *grown);
        if (stream->result_count > 0)
            memcpy(grown, stream->results, stream->result_count * sizeof *grown);
        free(stream->results);
        stream->results = grown;
        stream->result_room = room;
    }
    stream->results[stream->result_count++] = result;
}

static const unsigned char *read_args(const unsigned char *at, const struct wire_launch *launch,
                                      struct muster_launch_arg *args, struct muster_memory *hosts)
{
    for (uint32_t i = 0; i < launch->arg_count; i++) {
        struct wire_arg arg;
        memcpy(&arg, at, sizeof arg);
        at += sizeof arg;
        args[i] = (struct muster_launch_arg){ .offset = arg.offset };
        if (arg.memory == WIRE_HOST) {
            hosts[i] = (struct muster_memory){ .address = (uintptr_t)serve_host(arg.offset, 0),
                                               .bytes = serve.page->host_bytes - arg.offset };
            args[i].memory = &hosts[i];
            args[i].offset = 0;
        } else if (arg.memory != WIRE_NONE) {
            args[i].memory = memory_at(arg.memory);
        } else {
            args[i].value = at;
            args[i].bytes = arg.bytes;
            at += (arg.bytes + 7u) & ~7u;
        }
    }
    return at;
}

#define LAUNCHES_AT_ONCE 64u

/* Several at once, so that the driver can take them as one. */
static muster_status give(struct serve_stream *stream, struct serve_kernel *kernel,
                          const struct muster_launch_desc *launches, const uint32_t *numbers,
                          uint32_t count, struct muster_error *err)
{
    if (stream->is_broken || !kernel->state) {
        for (uint32_t i = 0; i < count; i++)
            atomic_store(&serve.page->results[numbers[i]], MUSTER_E_STREAM_FAILED);
        return MUSTER_OK;
    }
    muster_status status = serve.table.launch(stream->state, kernel->state, launches, count, err);
    /* Those before the one that was refused may have been given: none is known to have been done. */
    for (uint32_t i = 0; status != MUSTER_OK && i < count; i++) {
        atomic_store(&serve.page->results[numbers[i]], status);
        stream->is_broken = stream->is_broken || !launches[i].result;
    }
    return status;
}

muster_status serve_launch(const struct wire_head *head, struct muster_error *err)
{
    struct serve_stream *stream = &serve.streams[head->a];
    const unsigned char *at = (const unsigned char *)(head + 1);
    static struct muster_launch_arg args[LAUNCHES_AT_ONCE][MUSTER_ARGS_MAX];
    static struct muster_memory hosts[LAUNCHES_AT_ONCE][MUSTER_ARGS_MAX];
    static struct muster_launch_desc launches[LAUNCHES_AT_ONCE];
    static uint32_t numbers[LAUNCHES_AT_ONCE];
    muster_status first = MUSTER_OK;
    uint32_t count = 0;
    for (uint64_t i = 0; i < head->c; i++) {
        struct wire_launch launch;
        memcpy(&launch, at, sizeof launch);
        at = read_args(at + sizeof launch, &launch, args[count], hosts[count]);
        muster_status *result = (muster_status *)(void *)&serve.page->results[launch.result];
        launches[count] = (struct muster_launch_desc){ .begin = launch.begin,
                                                       .items = launch.items,
                                                       .args = args[count],
                                                       .arg_count = launch.arg_count,
                                                       .flags = launch.flags,
                                                       .result = launch.is_asked ? result : NULL };
        numbers[count++] = launch.result;
        follow(stream, launch.result);
        if (count == LAUNCHES_AT_ONCE || i + 1 == head->c) {
            muster_status status =
                give(stream, &serve.kernels[head->b], launches, numbers, count, err);
            first = first == MUSTER_OK ? status : first;
            count = 0;
        }
    }
    /* Who was told does not look at the result. */
    if (head->kind == WIRE_LAUNCH_CHECKED && first != MUSTER_OK) {
        atomic_store(&serve.page->results[numbers[0]], MUSTER_OK);
        stream->result_count--;
    }
    return first;
}

/* What threads execute. */

static _Atomic uint32_t thread_count;
/* Plus 1; 0: this thread has not called a kernel yet. */
static _Thread_local uint32_t thread_number;

static void enter(const muster_status *result, uint64_t begin, uint64_t end)
{
    if (thread_number == 0) {
        thread_number = 1 + atomic_fetch_add(&thread_count, 1);
        platform_crash_prepare_thread();
    }
    if (thread_number > WIRE_THREADS)
        return;
    struct wire_thread *thread = &serve.page->threads[thread_number - 1];
    const muster_status *first = (const muster_status *)(const void *)serve.page->results;
    bool is_known = result >= first && result < first + WIRE_RESULTS;
    atomic_store_explicit(&thread->result, is_known ? (uint32_t)(result - first) + 1 : 0,
                          memory_order_relaxed);
    atomic_store_explicit(&thread->begin, begin, memory_order_relaxed);
    atomic_store_explicit(&thread->end, end, memory_order_relaxed);
    atomic_store_explicit(&thread->is_busy, WIRE_BUSY, memory_order_release);
}

static void leave(void)
{
    if (thread_number <= WIRE_THREADS)
        atomic_store_explicit(&serve.page->threads[thread_number - 1].is_busy, WIRE_BUSY_BEFORE,
                              memory_order_release);
}

static void note_crash(int signal, uint64_t address)
{
    struct wire_crash *crash = &serve.page->crash;
    bool is_kernel = thread_number > 0 && thread_number <= WIRE_THREADS &&
                     atomic_load(&serve.page->threads[thread_number - 1].is_busy) == WIRE_BUSY;
    /* The first is to blame: what a dying process does may fail, too. */
    if (atomic_load(&crash->signal) != 0)
        return;
    atomic_store(&crash->address, address);
    atomic_store(&crash->thread, is_kernel ? thread_number - 1 : WIRE_NONE);
    atomic_store(&crash->signal, (uint32_t)signal);
}

void serve_watch(void)
{
    static const struct queue_watch watch = { .enter = enter, .leave = leave };
    queue_watch = &watch;
    platform_crash_watch(note_crash);
    platform_crash_prepare_thread();
}
