/*
 * The helper: opens the real backend and serves what the runtime writes into the shared memory, until it is killed or
 * its parent is gone. It never cleans up: what it holds goes with its process.
 */
#include "backend/isolated/serve.h"

#include "backend/registry.h"
#include "base/invariant.h"
#include "platform/machine.h"
#include "platform/sandbox.h"

#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPIN_NS 30000u
#define SLEEP_NS UINT64_C(1000000000)

struct serve serve;

static void log_nothing(const struct muster_services *services, enum muster_log_level level,
                        const char *text)
{
    (void)services, (void)level, (void)text;
}

static struct platform_thread leash;

static void hold_leash(void *argument)
{
    (void)argument;
    platform_leash_hold();
}

static muster_status open_backend(const struct wire_head *head, void *answer, uint32_t *bytes,
                                  struct muster_error *err)
{
    uint32_t count = 0;
    size_t length = head->bytes - sizeof *head;
    const char *text = (const char *)(head + 1);
    if (length > 0 && memchr(text, 0, length)) {
        serve.sim = serve_take(length);
        memcpy(serve.sim, text, strlen(text) + 1);
    }
    serve.services = (struct muster_services){ .size = sizeof serve.services,
                                               .allocator = &platform_heap,
                                               .log = log_nothing,
                                               .sim = serve.sim && *serve.sim ? serve.sim : NULL,
                                               .cpu_workers = head->a };
    serve.backend = serve_take(serve.table.backend_bytes);
    muster_status status = serve.table.open(serve.backend, &serve.services, &count, err);
    const struct wire_opened opened = { .device_count = count, .has_host = serve.host != NULL };
    memcpy(answer, &opened, sizeof opened);
    *bytes = sizeof opened;
    if (status == MUSTER_OK && serve.is_sandboxed)
        status = serve_close_files(err);
    if (status == MUSTER_OK && serve.is_sandboxed)
        status = platform_thread_start(&leash, hold_leash, NULL, "muster-leash", NULL, err);
    return status;
}

static void answer(const struct wire_head *head)
{
    struct wire_reply *reply = &serve.page->reply;
    struct muster_error err = { .size = sizeof err };
    uint32_t bytes = 0;
    muster_status status =
        head->kind == WIRE_OPEN             ? open_backend(head, reply->payload, &bytes, &err)
        : head->kind == WIRE_LAUNCH_CHECKED ? serve_launch(head, &err)
                                            : serve_object(head, reply->payload, &bytes, &err);
    if (status == MUSTER_OK && head->kind == WIRE_DEVICE_OPEN)
        status = serve_close_calls(&err);
    serve_check(status, err.text);
    reply->status = status;
    reply->driver_code = err.driver_code;
    reply->bytes = bytes;
    snprintf(reply->text, sizeof reply->text, "%s",
             *err.text ? err.text : muster_status_message(status));
    snprintf(reply->fix, sizeof reply->fix, "%s", err.fix);
    atomic_store_explicit(&reply->number, head->answer, memory_order_release);
    atomic_fetch_add(&serve.page->reply_word, 1);
    platform_word_wake(&serve.page->reply_word);
}

static struct serve_stream *stream_at(uint32_t number)
{
    return number < WIRE_STREAMS && serve.streams[number].state ? &serve.streams[number] : NULL;
}

static void wait_for_event(const struct wire_head *head)
{
    struct serve_stream *stream = stream_at(head->a);
    if (stream && head->b < WIRE_EVENTS && serve.events[head->b] && !stream->is_broken)
        serve_note(stream, serve.table.stream_wait(stream->state, serve.events[head->b], NULL));
}

/* First the word, then the driver's event: who waits for that in the driver finds the word written. */
static void record(const struct wire_head *head)
{
    const struct wire_record *body = (const void *)(head + 1);
    struct serve_stream *stream = stream_at(head->b);
    if (!stream || head->a >= WIRE_EVENTS || !serve.events[head->a])
        return;
    serve.event_generations[head->a] = (uint32_t)body->generation;
    serve_mark(head->b, body->done, head->a, (uint32_t)body->generation);
    serve_note(stream, serve.table.event_record(serve.events[head->a], stream->state, NULL));
}

static void work(const struct wire_head *head)
{
    struct serve_stream *stream;
    switch (head->kind) {
    case WIRE_STREAM_WAIT:
        wait_for_event(head);
        break;
    case WIRE_STREAM_MARK:
        if (stream_at(head->a))
            serve_mark(head->a, head->c, WIRE_NONE, 0);
        break;
    case WIRE_EVENT_RECORD:
        record(head);
        break;
    case WIRE_GATE_PUBLISH:
        if (head->a < GATES_MAX && serve.gates[head->a])
            serve.table.gate_publish(serve.gates[head->a], head->c, NULL);
        break;
    case WIRE_GATE_WAIT:
        stream = stream_at(head->b);
        if (stream && head->a < GATES_MAX && serve.gates[head->a])
            serve_note(stream,
                       serve.table.gate_wait(serve.gates[head->a], stream->state, head->c, NULL));
        break;
    case WIRE_COPY:
        if (stream_at(head->a))
            serve_copy(head->a, (const void *)(head + 1));
        break;
    case WIRE_FILL:
        if (stream_at(head->a))
            serve_fill(head->a, (const void *)(head + 1), (uint32_t)head->c);
        break;
    case WIRE_ERRAND:
        if (stream_at(head->a))
            serve_errand(head->a, head->b);
        break;
    case WIRE_LAUNCH:
        if (stream_at(head->a))
            serve_launch(head, NULL);
        break;
    default:
        serve_close_object(head);
        break;
    }
}

/* Sleeps until there is a message; looks for a while first. */
static uint64_t await_message(uint64_t head)
{
    struct wire_page *page = serve.page;
    uint64_t tail = atomic_load_explicit(&page->down_tail, memory_order_acquire);
    uint64_t begin_ns = tail == head ? platform_clock_ns() : 0;
    while (tail == head && wire_looks_on(page, platform_clock_ns() - begin_ns, SPIN_NS)) {
        platform_thread_yield();
        tail = atomic_load_explicit(&page->down_tail, memory_order_acquire);
    }
    while (tail == head) {
        uint32_t seen = atomic_load(&page->down_word);
        /* Sequentially consistent: the runtime moves the tail and then looks who sleeps. */
        atomic_store(&page->down_sleeps, 1);
        tail = atomic_load(&page->down_tail);
        if (tail == head)
            platform_word_wait(&page->down_word, seen, SLEEP_NS);
        if (!leash.started)
            platform_leash_look();
        atomic_store(&page->down_sleeps, 0);
        tail = atomic_load(&page->down_tail);
    }
    return tail;
}

static void serve_for_ever(void)
{
    struct wire_page *page = serve.page;
    uint64_t at = 0;
    for (;;) {
        uint64_t tail = await_message(at);
        while (at != tail) {
            const struct wire_head *head = (const void *)(page->down + at % WIRE_DOWN_BYTES);
            if (head->bytes < 16 || head->bytes % 16 != 0)
                abort();
            if (head->kind >= WIRE_OPEN && head->kind <= WIRE_LAUNCH_CHECKED)
                answer(head);
            else if (head->kind != WIRE_PAD)
                work(head);
            at += head->bytes;
            atomic_store_explicit(&page->down_head, at, memory_order_release);
            atomic_fetch_add_explicit(&page->beats, 1, memory_order_relaxed);
        }
        /* A thread may wait for room. */
        if (atomic_load(&page->done_sleeps) != 0) {
            atomic_fetch_add(&page->done_word, 1);
            platform_word_wake(&page->done_word);
        }
    }
}

/* Before anything else: later nothing may be opened any more. */
static void map_host(void)
{
    uint64_t bytes = serve.page->host_bytes;
    if (bytes == 0 || bytes > SIZE_MAX)
        return;
    serve.host = platform_shared_map(PLATFORM_CHILD_HOST, (size_t)bytes);
    platform_descriptor_close(PLATFORM_CHILD_HOST);
}

static const struct muster_backend *find_backend(const char *name)
{
    size_t count;
    const struct muster_backend *const *built_in = registry_built_in(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(built_in[i]->name, name) == 0)
            return built_in[i];
    return NULL;
}

int isolated_serve(const char *backend, bool is_sandboxed)
{
    const struct muster_backend *table = find_backend(backend);
    serve.is_sandboxed = is_sandboxed;
    serve.page = platform_shared_map(PLATFORM_CHILD_MEMORY, sizeof *serve.page);
    if (!serve.page || !table || serve.page->magic != WIRE_MAGIC ||
        serve.page->version != WIRE_VERSION || serve.page->bytes != sizeof *serve.page ||
        registry_complete(table, &serve.table, NULL) != MUSTER_OK ||
        platform_mutex_init(&serve.up_lock, NULL) != MUSTER_OK ||
        (!is_sandboxed &&
         platform_thread_start(&leash, hold_leash, NULL, "muster-leash", NULL, NULL) != MUSTER_OK))
        return 2;
    map_host();
    platform_thread_rename("muster-serve");
    serve_watch();
    serve_for_ever();
    return 0;
}

int muster_helper_main(int argc, char **argv)
{
    platform_helper_is_self();
    if (argc > 3 && strcmp(argv[1], HELPER_CONFINE) == 0)
        return platform_sandbox_run(argv + 2);
    bool is_sandboxed = argc == 4 && strcmp(argv[3], ISOLATED_SANDBOX) == 0;
    if ((argc != 3 && !is_sandboxed) || strcmp(argv[1], ISOLATED_ARGUMENT) != 0)
        return -1;
    return isolated_serve(argv[2], is_sandboxed);
}

void muster_helper_function(const char *name, muster_kernel_function function)
{
    INVARIANT(name && function);
    bool has_room = platform_helper_share(name, function);
    INVARIANT(has_room);
    (void)has_room;
}
