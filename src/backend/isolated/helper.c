/*
 * Helpers: where their program is, starting them, noticing their end, and putting everything into the next one.
 */
#include "backend/isolated/state.h"

#include "base/allocator.h"
#include "platform/helper.h"
#include "platform/sandbox.h"

#include <stdio.h>
#include <string.h>

#define RECEIVER_SLEEP_NS UINT64_C(1000000000)

static muster_status start_process(struct link *link, struct muster_error *err)
{
    char path[HELPER_PATH_BYTES];
    bool is_sandboxed = link->backend->is_sandboxed;
    const char *const arguments[] = { "muster-helper", ISOLATED_ARGUMENT, link->backend->name,
                                      is_sandboxed ? ISOLATED_SANDBOX : NULL, NULL };
    if (!platform_helper_find(path))
        return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0,
                                 "install muster-helper beside the program, or set MUSTER_HELPER",
                                 "no muster-helper for the isolated backend %s",
                                 link->backend->name);
    /* A sandbox gets nothing of other devices. */
    const struct muster_services *services = link->backend->services;
    int host = services->host_file_find && !is_sandboxed ? services->host_file : -1;
    return platform_child_start(&link->child, path, arguments, link->memory, host,
                                !is_sandboxed || !platform_sandbox_closes(), err);
}

/* All that the last helper may have written is forgotten, but how events and streams ended. */
static void clear_page(struct link *link)
{
    struct wire_page *page = link->page;
    atomic_store(&page->down_tail, 0);
    atomic_store(&page->down_head, 0);
    atomic_store(&page->down_sleeps, 0);
    /* Counts go on: a thread may still look at what had come up. All of it has been done. */
    uint64_t up = atomic_load(&link->up_done) + WIRE_UP_COUNT;
    atomic_store(&page->up_tail, up);
    atomic_store(&page->up_head, up);
    atomic_store(&link->up_done, up);
    atomic_store(&page->crash.signal, 0);
    atomic_store(&page->crash.thread, WIRE_NONE);
    page->crash.text[0] = 0;
    for (uint32_t i = 0; i < WIRE_THREADS; i++) {
        atomic_store(&page->threads[i].is_busy, WIRE_BUSY_NEVER);
        atomic_store(&page->threads[i].result, 0);
    }
    memcpy(page->backend, link->backend->name, strlen(link->backend->name) + 1);
    page->magic = WIRE_MAGIC;
    page->version = WIRE_VERSION;
    page->bytes = sizeof *page;
    const struct muster_services *services = link->backend->services;
    page->host_bytes =
        services->host_file_find && !link->backend->is_sandboxed ? services->host_file_bytes : 0;
}

/* Has the helper open its backend. */
static muster_status open_there(struct link *link, struct muster_error *err)
{
    const struct muster_services *services = link->backend->services;
    struct wire_opened opened;
    const struct link_question question = { .kind = WIRE_OPEN,
                                            .a = services->cpu_workers,
                                            .body = services->sim,
                                            .body_bytes =
                                                services->sim ? strlen(services->sim) + 1 : 0,
                                            .answer = &opened,
                                            .answer_bytes = sizeof opened };
    if (question.body_bytes > WIRE_MESSAGE_BYTES_MAX / 2)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "describe fewer devices",
                                 "the description of simulated devices is too long for a helper");
    muster_status status = link_ask_starting(link, &question, err);
    if (status == MUSTER_OK && opened.device_count == 0)
        status = muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, NULL, "the helper has no devices");
    /* Later helpers start while another thread may read the count, without the lock. */
    if (status == MUSTER_OK && link->generation == 0)
        link->device_count =
            opened.device_count < ISOLATED_DEVICES_MAX ? opened.device_count : ISOLATED_DEVICES_MAX;
    bool has_host = services->host_file_find && opened.has_host;
    /* What the first one could, the others must: jobs count on it. */
    if (status == MUSTER_OK && link->generation > 0 && has_host != (link->has_host != 0))
        status = muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, "raise the limit on address space",
                                   "the helper cannot map the host's memory");
    /* Release, as host_find says. */
    if (status == MUSTER_OK)
        atomic_store_explicit(&link->has_host, has_host, memory_order_release);
    return status;
}

/* A helper that runs and has opened its backend. */
static muster_status start(struct link *link, struct muster_error *err)
{
    struct platform_child_end end;
    clear_page(link);
    muster_status status = start_process(link, err);
    if (status != MUSTER_OK)
        return status;
    status = open_there(link, err);
    if (status != MUSTER_OK) {
        platform_child_kill(&link->child);
        platform_child_collect(&link->child, &end);
    }
    return status;
}

/* Restoring. */

static muster_status restore_device(struct link *link, enum wire_kind kind, uint32_t a, uint32_t b,
                                    struct muster_error *err)
{
    struct muster_device_info info;
    const struct link_question question = {
        .kind = kind, .a = a, .b = b, .answer = &info, .answer_bytes = sizeof info
    };
    return link_ask_starting(link, &question, err);
}

static muster_status restore_devices(struct link *link, struct muster_error *err)
{
    if (!link->is_open[0])
        return MUSTER_OK;
    muster_status status = restore_device(link, WIRE_DEVICE_OPEN, link->index, 0, err);
    if (status == MUSTER_OK)
        status = link_measure(link, err);
    if (status == MUSTER_OK && link->slice_count > 0) {
        const struct link_question plan = { .kind = WIRE_SLICE_PLAN,
                                            .b = (uint32_t)link->slice_count,
                                            .body = link->slice_sizes,
                                            .body_bytes =
                                                link->slice_count * sizeof *link->slice_sizes };
        status = link_ask_starting(link, &plan, err);
    }
    for (uint32_t i = 1; i < DEVICES_OF_LINK_MAX && status == MUSTER_OK; i++)
        if (link->is_open[i])
            status = restore_device(link, WIRE_SLICE_OPEN, 0, i - 1, err);
    return status;
}

static muster_status restore_memory(struct link *link, struct muster_error *err)
{
    const struct wire_allocation body = { .stream = WIRE_NONE };
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < link->memory_count && status == MUSTER_OK; i++) {
        const struct isolated_memory *memory = &link->memories[i];
        const struct link_question question = { .kind = WIRE_MEMORY_ALLOCATE,
                                                .a = i,
                                                .b = memory->device,
                                                .c = memory->bytes,
                                                .body = &body,
                                                .body_bytes = sizeof body };
        if (memory->device != WIRE_NONE)
            status = link_ask_starting(link, &question, err);
    }
    return status;
}

muster_status link_restore(struct link *link, struct muster_error *err)
{
    muster_status status = restore_devices(link, err);
    for (struct isolated_stream *at = link->streams; at && status == MUSTER_OK; at = at->next) {
        const struct wire_stream body = { .priority = at->priority, .is_default = at->is_default };
        const struct link_question question = { .kind = WIRE_STREAM_OPEN,
                                                .a = at->id,
                                                .b = at->device,
                                                .body = &body,
                                                .body_bytes = sizeof body };
        status = link_ask_starting(link, &question, err);
    }
    for (struct isolated_event *at = link->events; at && status == MUSTER_OK; at = at->next) {
        const struct link_question question = {
            .kind = WIRE_EVENT_INIT, .a = at->id, .b = at->device, .c = at->flags
        };
        status = link_ask_starting(link, &question, err);
    }
    for (struct isolated_gate *at = link->gates; at && status == MUSTER_OK; at = at->next) {
        const struct link_question question = {
            .kind = WIRE_GATE_INIT, .a = at->id, .b = at->device, .c = at->value
        };
        status = link_ask_starting(link, &question, err);
    }
    /* Kernels are built again when they are launched. */
    return status == MUSTER_OK ? restore_memory(link, err) : status;
}

/* The end of a helper. */

/* Whether one more may be started now, and counts it. */
static bool may_restart_locked(struct link *link, bool is_counted)
{
    uint64_t now_ns = platform_clock_ns();
    uint64_t oldest_ns = link->restarts[link->restart_next];
    if (!is_counted)
        return true;
    if (oldest_ns != 0 && now_ns - oldest_ns < ISOLATED_RESTARTS_NS)
        return false;
    link->restarts[link->restart_next] = now_ns;
    link->restart_next = (link->restart_next + 1) % ISOLATED_RESTARTS_MAX;
    return true;
}

/* A crash that the debugger's user looks for costs nothing. */
static bool is_looked_for_locked(const struct link *link)
{
    for (const struct isolated_stream *stream = link->streams; stream; stream = stream->next)
        if (stream->first_awaited != WIRE_NONE && link->awaited[stream->first_awaited].is_suspect)
            return true;
    return false;
}

static void fail_streams_locked(struct link *link)
{
    for (struct isolated_stream *stream = link->streams; stream; stream = stream->next) {
        if (stream_done(stream) < stream->issued || stream->first_errand != WIRE_NONE)
            stream->has_failed = true;
        stream->marked = stream->issued;
        atomic_store(&link->page->streams[stream->id].done, stream->issued);
    }
}

static void fail_events_locked(struct link *link)
{
    for (struct isolated_event *event = link->events; event; event = event->next) {
        uint32_t generation = atomic_load_explicit(&event->generation, memory_order_relaxed);
        uint64_t word = atomic_load_explicit(&link->page->events[event->id], memory_order_relaxed);
        if (generation != 0 && word >> 32 != generation)
            atomic_store_explicit(&event->failed, generation, memory_order_release);
    }
}

/* No lock is held: errands are the user's functions. Nobody adds any, since the link is starting. */
static void fail_errands(struct link *link)
{
    platform_mutex_lock(&link->lock);
    for (struct isolated_stream *stream = link->streams, *next; stream; stream = next) {
        next = stream->next;
        platform_mutex_unlock(&link->lock);
        errands_fail(stream);
        platform_mutex_lock(&link->lock);
    }
    platform_mutex_unlock(&link->lock);
}

static void tell_waiting(struct link *link)
{
    atomic_fetch_add(&link->page->done_word, 1);
    platform_word_wake(&link->page->done_word);
    atomic_fetch_add(&link->page->reply_word, 1);
    platform_word_wake(&link->page->reply_word);
}

static void log_end(const struct link *link, bool is_back, const struct muster_error *err)
{
    const struct muster_services *services = link->backend->services;
    char text[400];
    snprintf(text, sizeof text, "the helper of %s:%u ended: %s; %s%s%s", link->backend->name,
             link->index, link->crash, is_back ? "another was started" : "the device is lost",
             is_back || !*err->text ? "" : ": ", is_back ? "" : err->text);
    services->log(services, is_back ? MUSTER_LOG_WARNING : MUSTER_LOG_ERROR, text);
}

/* The helper has ended: what it held fails, then the next one is started. On the receiver. */
static void recover(struct link *link)
{
    struct platform_child_end end;
    struct muster_error err = { .size = sizeof err };
    platform_mutex_lock(&link->lock);
    link->state = LINK_STARTING;
    /* First of all: who sees that something has failed sees that it was with the helper. */
    atomic_store_explicit(&link->generation_now, ++link->generation, memory_order_release);
    platform_child_collect(&link->child, &end);
    bool is_counted = !is_looked_for_locked(link);
    awaited_fail_locked(link, &end);
    fail_streams_locked(link);
    bool may_restart = !link->must_end && may_restart_locked(link, is_counted);
    link->was_stopped = false;
    platform_mutex_unlock(&link->lock);
    fail_errands(link);
    /* After the calls that come before them. */
    platform_mutex_lock(&link->lock);
    fail_events_locked(link);
    platform_mutex_unlock(&link->lock);
    bool is_back = false;
    /* A thread that has an answer of the old helper notes first what it has opened. */
    platform_mutex_lock(&link->call_lock);
    for (uint32_t tries = 0; may_restart && !is_back && tries < ISOLATED_RESTARTS_MAX; tries++) {
        is_back = start(link, &err) == MUSTER_OK;
        if (is_back && link_restore(link, &err) != MUSTER_OK) {
            platform_child_kill(&link->child);
            platform_child_collect(&link->child, &end);
            is_back = false;
        }
    }
    platform_mutex_lock(&link->lock);
    if (is_back && link->must_end) {
        platform_child_kill(&link->child);
        platform_child_collect(&link->child, &end);
        is_back = false;
    }
    link->state = is_back ? LINK_UP : LINK_DEAD;
    atomic_store_explicit(&link->is_dead, !is_back, memory_order_release);
    atomic_store_explicit(&link->ended, 0, memory_order_release);
    link->is_watched = is_back;
    bool must_end = link->must_end;
    platform_condition_wake_all(&link->changed);
    platform_mutex_unlock(&link->lock);
    platform_mutex_unlock(&link->call_lock);
    tell_waiting(link);
    if (!must_end)
        log_end(link, is_back, &err);
}

/* Sleeps until the helper has ended, and tells the receiver. */
static void watch(void *argument)
{
    struct link *link = argument;
    platform_mutex_lock(&link->lock);
    for (;;) {
        while (!link->is_watched && !link->must_end && link->state != LINK_DEAD)
            platform_condition_wait(&link->changed, &link->lock, UINT64_MAX);
        if (!link->is_watched)
            break;
        const struct platform_child child = link->child;
        link->is_watched = false;
        platform_mutex_unlock(&link->lock);
        platform_child_await(&child, UINT64_MAX);
        /* Release: what the helper has written is there. */
        atomic_store_explicit(&link->ended, 1, memory_order_release);
        atomic_fetch_add(&link->page->up_word, 1);
        platform_word_wake(&link->page->up_word);
        tell_waiting(link);
        platform_mutex_lock(&link->lock);
    }
    platform_mutex_unlock(&link->lock);
}

static void receive(void *argument)
{
    struct link *link = argument;
    struct wire_page *page = link->page;
    for (;;) {
        uint32_t seen = atomic_load(&page->up_word);
        bool has_ended = atomic_load_explicit(&link->ended, memory_order_acquire) != 0;
        if (errands_run(link))
            continue;
        if (has_ended) {
            recover(link);
            continue;
        }
        platform_mutex_lock(&link->lock);
        bool is_over = link->state == LINK_DEAD;
        platform_mutex_unlock(&link->lock);
        if (is_over)
            break;
        /* Sequentially consistent: the helper puts an errand there and then looks who sleeps. */
        atomic_store(&page->up_sleeps, 1);
        if (atomic_load(&page->up_tail) == atomic_load(&page->up_head) &&
            atomic_load(&link->ended) == 0)
            platform_word_wait(&page->up_word, seen, RECEIVER_SLEEP_NS);
        atomic_store(&page->up_sleeps, 0);
    }
}

/* Links. */

static void free_link(struct link *link)
{
    const struct muster_allocator *allocator = link->backend->services->allocator;
    while (link->streams)
        stream_free_locked(link->streams);
    host_free_all(link);
    allocator_give(allocator, link->errands, link->errand_room, sizeof *link->errands);
    allocator_give(allocator, link->memories, link->memory_room, sizeof *link->memories);
    allocator_give(allocator, link->slice_sizes, link->slice_count, sizeof *link->slice_sizes);
    platform_shared_unmap(link->page, sizeof *link->page);
    platform_descriptor_close(link->memory);
    platform_condition_deinit(&link->changed);
    platform_mutex_deinit(&link->call_lock);
    platform_mutex_deinit(&link->lock);
    allocator_give(allocator, link, 1, sizeof *link);
}

static muster_status init(struct link *link, struct muster_error *err)
{
    muster_status status = platform_mutex_init(&link->lock, err);
    if (status != MUSTER_OK)
        return status;
    status = platform_mutex_init(&link->call_lock, err);
    if (status == MUSTER_OK) {
        status = platform_condition_init(&link->changed, err);
        if (status == MUSTER_OK)
            return status;
        platform_mutex_deinit(&link->call_lock);
    }
    platform_mutex_deinit(&link->lock);
    return status;
}

static muster_status start_threads(struct link *link, struct muster_error *err)
{
    muster_status status =
        platform_thread_start(&link->watcher, watch, link, "muster-watch", NULL, err);
    if (status == MUSTER_OK)
        status = platform_thread_start(&link->receiver, receive, link, "muster-receive", NULL, err);
    return status;
}

muster_status link_create(struct isolated *backend, uint32_t index, struct link **out,
                          struct muster_error *err)
{
    const struct muster_allocator *allocator = backend->services->allocator;
    struct link *link = allocator_take(allocator, 1, sizeof *link);
    muster_status status =
        link ? init(link, err)
             : muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a helper");
    if (status != MUSTER_OK) {
        allocator_give(allocator, link, 1, sizeof *link);
        return status;
    }
    link->backend = backend;
    link->index = index;
    link->memory_free = link->errand_free = WIRE_NONE;
    for (uint32_t i = 0; i < WIRE_RESULTS; i++)
        link->awaited[i].next = i + 1 < WIRE_RESULTS ? i + 1 : WIRE_NONE;
    link->memory = platform_shared_create("muster-helper", sizeof *link->page, err);
    link->page = link->memory >= 0 ? platform_shared_map(link->memory, sizeof *link->page) : NULL;
    if (!link->page)
        status = muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, "free memory of the machine",
                                   "no shared memory for a helper");
    if (status == MUSTER_OK)
        status = start(link, err);
    /* One that ended before it was up says nothing of the device. */
    for (uint32_t i = 0; status == MUSTER_E_DEVICE_LOST && i < ISOLATED_RESTARTS_MAX; i++)
        status = start(link, err);
    if (status != MUSTER_OK) {
        free_link(link);
        return status;
    }
    link->state = LINK_UP;
    link->generation = 1;
    atomic_store(&link->generation_now, 1);
    link->is_watched = true;
    status = start_threads(link, err);
    if (status != MUSTER_OK) {
        link_destroy(link);
        return status;
    }
    *out = link;
    return MUSTER_OK;
}

void link_destroy(struct link *link)
{
    struct platform_child_end end;
    platform_mutex_lock(&link->lock);
    link->must_end = true;
    if (link->state == LINK_UP)
        platform_child_kill(&link->child);
    platform_condition_wake_all(&link->changed);
    platform_mutex_unlock(&link->lock);
    /* Without a receiver nobody collects the helper. */
    bool has_threads = link->receiver.started;
    platform_thread_join(&link->receiver);
    platform_mutex_lock(&link->lock);
    if (!has_threads) {
        link->state = LINK_DEAD;
        platform_condition_wake_all(&link->changed);
    }
    platform_mutex_unlock(&link->lock);
    platform_thread_join(&link->watcher);
    if (!has_threads)
        platform_child_collect(&link->child, &end);
    free_link(link);
}
