/*
 * Opening and closing a runtime. What is destroyed when is written down in docs/architecture.md;
 * the order here is that one.
 */
#include "run/job/lessons.h"
#include "run/job/pipeline.h"
#include "run/resident/resident.h"
#include "run/task/tasks.h"
#include "run/trace.h"

#include "backend/sim/sim.h"
#include "base/allocator.h"
#include "base/invariant.h"
#include "base/text.h"
#include "core/plan.h"
#include "observe/nvtx.h"
#include "platform/exit.h"
#include "platform/machine.h"
#include "run/memory/host_pages.h"
#include "run/memory/pages.h"
#include "run/memory/spare.h"
#include "run/threads/crew.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long drivers may take at the end, beyond what unfinished work may, if `close_ns` is less. */
#define CLOSING_GRACE_NS 1000000000u
/* What stays of the host's memory for later jobs, where a quarter of all is more. */
#define KEPT_BYTES_DEFAULT ((uint64_t)4 << 30)
/* How often a driver is asked at the end whether a stream is finished, if it does not answer. */
#define DRAIN_TRIES 3

static void services_log(const struct muster_services *services, enum muster_log_level level,
                         const char *text)
{
    const struct muster *m =
        (const struct muster *)((const char *)services - offsetof(struct muster, services));
    run_log(m, level, "%s", text);
}

/*
 * Once the runtime is closed it does not call the caller's allocator any more, also when threads
 * that were given up come back.
 */
static bool may_ask_allocator(const struct muster *m)
{
    return !run_is_abandoned(m) || m->given_allocator.allocate == platform_heap.allocate;
}

static void *allocate(void *user, size_t bytes, size_t alignment)
{
    const struct muster *m = user;
    const struct muster_allocator *given = &m->given_allocator;
    return may_ask_allocator(m) ? given->allocate(given->user, bytes, alignment) : NULL;
}

static void release(void *user, void *memory, size_t bytes)
{
    const struct muster *m = user;
    const struct muster_allocator *given = &m->given_allocator;
    if (may_ask_allocator(m))
        given->release(given->user, memory, bytes);
}

/* The caller's options with defaults filled in, and its allocator or the C library's. */
static muster_status read_options(const struct muster_options *given, struct muster_options *out,
                                  struct muster_allocator *allocator, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    *out = (struct muster_options)MUSTER_OPTIONS_INIT;
    if (given)
        status = layout_read(LAYOUT(muster_options), given, out, err);
    if (status == MUSTER_OK)
        status = allocator_read(out->allocator, &platform_heap, allocator, err);
    if (status != MUSTER_OK)
        return status;
    out->allocator = NULL;
    if (out->streams_max > STREAMS_MAX_LIMIT)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL, "streams_max is %u; at most %u",
                                 out->streams_max, STREAMS_MAX_LIMIT);
    if (out->backend_count > 0 && !out->backends)
        return run_bad_argument(err, "muster_open", "backend_count is set and backends is not");
    if (out->streams_max == 0)
        out->streams_max = STREAMS_MAX_DEFAULT;
    if (out->poll_ns == 0)
        out->poll_ns = POLL_NS_DEFAULT;
    if (out->close_ns == 0)
        out->close_ns = CLOSE_NS_DEFAULT;
    if (out->kept_bytes == 0) {
        uint64_t total, available;
        platform_memory(&total, &available);
        out->kept_bytes = total / 4 < KEPT_BYTES_DEFAULT ? total / 4 : KEPT_BYTES_DEFAULT;
    }
    if (out->log_level == 0)
        out->log_level = MUSTER_LOG_WARNING;
    const char *live = platform_environment("MUSTER_LIVE");
    if (live && (strcmp(live, "0") == 0 || strcmp(live, "no") == 0 || strcmp(live, "off") == 0))
        out->no_live = 1;
    const char *devices = platform_environment("MUSTER_DEVICES");
    if (!out->devices && devices && *devices)
        out->devices = devices;
    if (!out->sim)
        out->sim = platform_environment("MUSTER_SIM");
    if (!out->backend_paths)
        out->backend_paths = platform_environment("MUSTER_BACKENDS");
    if (!out->slices)
        out->slices = platform_environment("MUSTER_SLICES");
    if (!out->isolate)
        out->isolate = platform_environment("MUSTER_ISOLATE");
    const char *untrusted = platform_environment("MUSTER_UNTRUSTED");
    if (untrusted && strcmp(untrusted, "1") == 0)
        out->untrusted = 1;
    else if (untrusted && *untrusted && strcmp(untrusted, "0") != 0)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "set it to 1, or to 0",
                                 "MUSTER_UNTRUSTED is %.40s", untrusted);
    /* Set but empty is how a shell unsets. */
    if (out->isolate && !*out->isolate)
        out->isolate = NULL;
    if (out->sim && !*out->sim)
        out->sim = NULL;
    if (out->backend_paths && !*out->backend_paths)
        out->backend_paths = NULL;
    return MUSTER_OK;
}

static void free_text(struct muster *m, const char *text)
{
    if (text)
        allocator_give(&m->allocator, (void *)(uintptr_t)text, strlen(text) + 1, 1);
}

/* Replaces a borrowed text by a copy; on failure by NULL. */
static bool keep_text(struct muster *m, const char **text)
{
    if (!*text)
        return true;
    size_t bytes = strlen(*text) + 1;
    char *copy = allocator_take(&m->allocator, bytes, 1);
    if (copy)
        memcpy(copy, *text, bytes);
    *text = copy;
    return copy != NULL;
}

static void free_texts(struct muster *m)
{
    free_text(m, m->options.devices);
    free_text(m, m->options.sim);
    free_text(m, m->options.backend_paths);
    free_text(m, m->options.slices);
    free_text(m, m->options.isolate);
}

static muster_status keep_texts(struct muster *m, struct muster_error *err)
{
    /* Each is tried, so that none is left pointing at the caller's memory. */
    bool kept = keep_text(m, &m->options.devices);
    kept = keep_text(m, &m->options.sim) && kept;
    kept = keep_text(m, &m->options.backend_paths) && kept;
    kept = keep_text(m, &m->options.slices) && kept;
    kept = keep_text(m, &m->options.isolate) && kept;
    return kept ? MUSTER_OK : run_no_memory(err, "the options");
}

/* A description that cannot be understood is reported at once, with where it came from. */
static muster_status check_sim(struct muster *m, bool is_option, struct muster_error *err)
{
    struct muster_error problem = { .status = MUSTER_OK };
    muster_status status = sim_check(&m->allocator, m->options.sim, &problem);
    if (status == MUSTER_OK)
        return status;
    return muster_error_fill(err, status, problem.driver_code, problem.fix, "%s: %s",
                             is_option ? "the option sim" : "MUSTER_SIM", problem.text);
}

/* No device is known yet: of the backends the one that is nearest, if one is near. */
static const char *name_fix(const struct muster *m, const char *name, size_t length, char *fix,
                            size_t bytes)
{
    for (uint32_t i = 0; i < m->backend_count; i++) {
        const char *known = m->backends[i]->table.name;
        if (length > 0 && name[0] == known[0] &&
            text_distance(name, length, known, strlen(known), 3) < 3) {
            snprintf(fix, bytes, "did you mean %s%.*s?", known, (int)strcspn(name + length, ","),
                     name + length);
            return fix;
        }
    }
    return "name devices of these backends, or leave it out";
}

/* Names that no backend has are mistakes, to be reported at once. */
static muster_status check_device_names(struct muster *m, struct muster_error *err)
{
    for (const char *at = m->options.devices; at && *at;) {
        size_t length = strcspn(at, ","), name = strcspn(at, ":,");
        if (!backends_find(m, at, name)) {
            char known[128] = "";
            for (uint32_t i = 0; i < m->backend_count; i++)
                snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s",
                         i > 0 ? ", " : "", m->backends[i]->table.name);
            char fix[sizeof err->fix];
            return muster_error_fill(
                err, MUSTER_E_NOT_FOUND, 0, name_fix(m, at, name, fix, sizeof fix),
                "devices asks for \"%.*s\"; there are the backends %s", (int)length, at, known);
        }
        at += length + (at[length] == ',');
    }
    return MUSTER_OK;
}

/* That others cannot see the runtime is no reason not to open it. */
static void open_live(struct muster *m)
{
    struct muster_error problem = { .status = MUSTER_OK };
    if (nvtx_start(&problem) != MUSTER_OK)
        run_log(m, MUSTER_LOG_WARNING, "no ranges for the profiler: %s", problem.text);
    if (m->options.no_live || live_open(&m->live, platform_clock_ns(), &problem) == MUSTER_OK)
        return;
    run_log(m, MUSTER_LOG_WARNING, "%s; %s", problem.text, problem.fix);
}

muster_status muster_open(struct muster **out, const struct muster_options *given,
                          struct muster_error *err)
{
    struct muster_options options;
    struct muster_allocator allocator;
    if (!out)
        return run_bad_argument(err, "muster_open", "there is no place for the runtime");
    muster_status status = read_options(given, &options, &allocator, err);
    if (status == MUSTER_OK)
        status = platform_forks_watch(err);
    if (status != MUSTER_OK)
        return status;
    platform_exit_watch();
    struct muster *m = allocator_take(&allocator, 1, sizeof *m);
    if (!m)
        return run_no_memory(err, "the runtime");
    const char *file;
    int line;
    m->given_allocator = allocator;
    m->allocator = (struct muster_allocator){ sizeof m->allocator, allocate, release, m };
    m->options = options;
    m->forks = platform_forks();
    m->invariants_before = invariant_count(&file, &line);
    m->stream_bytes = plan_stream_bytes(platform_environment("MUSTER_POOL_MB_PER_STREAM"));
    if ((status = keep_texts(m, err)) != MUSTER_OK)
        goto no_texts;
    m->services = (struct muster_services){ .size = sizeof m->services,
                                            .allocator = &m->allocator,
                                            .log = services_log,
                                            .sim = m->options.sim,
                                            .cpu_workers = options.cpu_workers };
    if ((status = check_sim(m, given && given->sim, err)) != MUSTER_OK)
        goto no_texts;
    host_pages_share(m);
    if ((status = platform_mutex_init(&m->lock, err)) != MUSTER_OK)
        goto no_lock;
    if ((status = platform_condition_init(&m->changed, err)) != MUSTER_OK)
        goto no_condition;
    if ((status = poller_create(m, err)) != MUSTER_OK)
        goto no_poller;
    if ((status = backends_load(m, err)) != MUSTER_OK)
        goto no_backends;
    if ((status = check_device_names(m, err)) != MUSTER_OK)
        goto no_backends;
    if ((status = slices_check(m, err)) != MUSTER_OK)
        goto no_backends;
    open_live(m);
    *out = m;
    return MUSTER_OK;
no_backends:
    backends_unload(m);
    poller_destroy(m, 0);
no_poller:
    platform_condition_deinit(&m->changed);
no_condition:
    platform_mutex_deinit(&m->lock);
no_lock:
    platform_arena_destroy(m->arena);
no_texts:
    free_texts(m);
    allocator_give(&allocator, m, 1, sizeof *m);
    return status;
}

static const char restart_fix[] = "restart the process to get its memory and threads back";

/* Tells the caller of muster_close what a hung device still holds. */
static void name_hung(const struct run_device *device, struct muster_error *err)
{
    muster_error_fill(err, MUSTER_E_DEVICE_HUNG, 0, restart_fix,
                      "%s has not finished its work (units: %llu, bytes being copied: %llu); its "
                      "memory is abandoned (blocks: %u, bytes: %llu)",
                      device->info.id, (unsigned long long)device->items.depth,
                      (unsigned long long)device->bytes_in_flight, device->block_count,
                      (unsigned long long)device->budget.used);
    run_error_device(err, device);
}

/* Waits for what the stream was given. A call that merely failed says nothing of that: once more. */
static muster_status drain_stream(struct run_stream *stream, uint64_t deadline_ns)
{
    muster_status status = stream->state ? stream_drain(stream, deadline_ns, NULL) : MUSTER_OK;
    for (int i = 1; i < DRAIN_TRIES && !run_is_over(status) && status != MUSTER_E_TIMEOUT; i++)
        status = stream_drain(stream, deadline_ns, NULL);
    return status;
}

/* With the lock: a backend that was given up may add some when it answers. */
static uint32_t count_devices(struct muster *m)
{
    run_lock(m);
    uint32_t count = m->device_count;
    run_unlock(m);
    return count;
}

/* Waits for what was given to each device; marks those that do not finish. */
static muster_status drain_devices(struct muster *m, uint64_t deadline_ns, struct muster_error *err)
{
    muster_status result = MUSTER_OK;
    uint32_t count = count_devices(m);
    for (uint32_t i = 0; i < count; i++) {
        struct run_device *device = m->devices[i];
        /* With the lock: threads that were given up may come back at any time. */
        run_lock(m);
        /* A driver that does not return from a call is not asked again. */
        bool is_hung = device->is_hung || device->stuck_calls > 0;
        uint64_t until_ns = device->had_its_time ? 0 : deadline_ns;
        run_unlock(m);
        /* Finished, well or not; any other answer leaves open whether it still runs. */
        for (uint32_t slot = 0; slot < device->stream_count && !is_hung; slot++)
            is_hung = !run_is_over(drain_stream(&device->streams[slot], until_ns));
        run_lock(m);
        device->is_hung = is_hung;
        if (is_hung && result == MUSTER_OK) {
            name_hung(device, err);
            result = MUSTER_E_DEVICE_HUNG;
        }
        run_unlock(m);
    }
    return result;
}

/* Whether this thread is in user code that the runtime calls, and would have to wait for. */
static bool is_within(const struct muster *m)
{
    const struct platform_frame *frame = platform_frame_now();
    while (frame && frame->runtime && frame->runtime != m)
        frame = frame->outer;
    return frame != NULL;
}

static uint64_t count_begun(struct muster *m)
{
    uint64_t submitted, ended;
    tasks_count(m, &submitted, &ended);
    return submitted + atomic_load_explicit(&m->counts.jobs_started, memory_order_relaxed);
}

/*
 * Jobs and tasks end. Both may start more of either meanwhile, and use files. A job goes only when no
 * user code runs any more, which may be within it: a task that calls muster_for, for instance.
 */
static void end_work(struct muster *m, struct jobs_lost *lost)
{
    uint64_t begun;
    jobs_cancel_all(m);
    do {
        begun = count_begun(m);
        tasks_drain(m);
        jobs_await_all(m);
    } while (count_begun(m) != begun);
    jobs_destroy_all(m, lost);
}

/*
 * The part of closing that calls drivers, which may never return. A thread of its own does it, and
 * muster_close waits for that thread until the deadline.
 */
struct closing {
    struct muster *m;
    struct platform_thread thread;
    uint64_t deadline_ns;
    bool is_over;     /* with the lock */
    bool is_complete; /* all backends are closed */
    muster_status status;
    struct muster_error error;
};

/* MUSTER_E_DEVICE_HUNG: something of it still runs, and what it may touch was not freed. */
static muster_status destroy_device(struct run_device *device)
{
    device_finish(device);
    if (!device->is_hung) {
        host_memory_unregister(device);
        pages_forget_device(device);
    }
    muster_status status = device_close(device);
    if (status != MUSTER_OK)
        return status;
    host_memory_unmap(device);
    kernels_free_left(device);
    device_free(device);
    return MUSTER_OK;
}

static void close_drivers(struct closing *closing)
{
    struct muster *m = closing->m;
    struct muster_error *err = &closing->error;
    closing->status = drain_devices(m, closing->deadline_ns, err);
    tasks_let_kernels_go(m);
    /* What came back meanwhile can still be told that job memory goes. */
    jobs_free_last(m, false);
    data_destroy_all(m);
    blocks_destroy(m);
    pipelines_destroy_all(m);
    kernels_destroy_all(m);
    /* Slices come after their parents in the list; what is gone is not in it any more. */
    while (m->device_count > 0) {
        struct run_device *device = m->devices[--m->device_count];
        if (destroy_device(device) == MUSTER_OK || closing->status != MUSTER_OK)
            continue;
        closing->status = muster_error_fill(
            err, MUSTER_E_DEVICE_HUNG, 0, restart_fix,
            "%s still runs work that cannot be stopped; it is abandoned", device->info.id);
        run_error_device(err, device);
    }
    closing->is_complete = backends_unload(m);
}

/*
 * Threads that were given up may still come back to the runtime, so nothing is freed. Work that was
 * given to devices is waited for all the same, and its results are written.
 */
static void finish_work(struct closing *closing)
{
    struct muster *m = closing->m;
    drain_devices(m, closing->deadline_ns, NULL);
    uint32_t count = count_devices(m);
    for (uint32_t i = 0; i < count; i++)
        flights_end(m->devices[i]);
}

static void run_closing(struct closing *closing, void (*run)(struct closing *closing))
{
    run(closing);
    run_lock(closing->m);
    closing->is_over = true;
    platform_condition_wake_all(&closing->m->changed);
    run_unlock(closing->m);
}

static void close_on_thread(void *argument)
{
    run_closing(argument, close_drivers);
}

static void finish_on_thread(void *argument)
{
    run_closing(argument, finish_work);
}

/* False if it has not come back in time, and goes on without us. Without memory there is no thread. */
static bool wait_for_closing(struct closing *closing, void (*run)(void *argument))
{
    struct muster *m = closing->m;
    uint64_t close_ns = m->options.close_ns;
    uint64_t grace_ns = close_ns > CLOSING_GRACE_NS ? close_ns : CLOSING_GRACE_NS;
    if (!m->closing || platform_thread_start(&closing->thread, run, closing, "muster-close", NULL,
                                             NULL) != MUSTER_OK) {
        run(closing);
        return true;
    }
    run_lock(m);
    uint64_t now_ns = platform_clock_ns();
    uint64_t from_ns = closing->deadline_ns > now_ns ? closing->deadline_ns : now_ns;
    uint64_t until_ns = grace_ns < UINT64_MAX - from_ns ? from_ns + grace_ns : UINT64_MAX;
    while (!closing->is_over && platform_condition_wait(&m->changed, &m->lock, until_ns)) {}
    bool is_over = closing->is_over;
    run_unlock(m);
    if (is_over)
        platform_thread_join(&closing->thread);
    else
        platform_thread_detach(&closing->thread);
    return is_over;
}

/* Runtimes that threads may still come back to: kept, where a look for leaks finds them. */
static _Atomic(struct muster *) abandoned;

/* From here on what belongs to the caller is not used. */
static void keep(struct muster *m)
{
    atomic_store_explicit(&m->is_abandoned, true, memory_order_relaxed);
    live_hide(&m->live);
    m->next_abandoned = atomic_load(&abandoned);
    while (!atomic_compare_exchange_weak(&abandoned, &m->next_abandoned, m)) {}
}

static void say_no_answer(struct muster_error *err, const char *what)
{
    muster_error_fill(err, MUSTER_E_DEVICE_HUNG, 0, restart_fix,
                      "no answer from %s; the runtime is abandoned as it is", what);
}

/* All that has to do with drivers is done: the rest. */
static muster_status free_runtime(struct closing *closing, struct muster_error *err)
{
    struct muster *m = closing->m;
    muster_status status = closing->status;
    bool is_complete = closing->is_complete;
    if (err && status != MUSTER_OK)
        *err = closing->error;
    allocator_give(&m->allocator, m->closing, 1, sizeof *m->closing);
    m->closing = NULL;
    table_destroy(m, &m->blocks);
    table_destroy(m, &m->data);
    table_destroy(m, &m->leases);
    decisions_destroy(m);
    trace_destroy(m);
    allocator_give(&m->allocator, m->views, m->view_capacity, sizeof *m->views);
    /* A backend that could not be closed goes on using what the runtime lent it. */
    if (!is_complete) {
        keep(m);
        return status;
    }
    live_close(&m->live);
    jobs_free_last(m, true);
    pages_destroy(m);
    platform_arena_destroy(m->arena);
    lessons_destroy(m);
    tasks_free(m);
    platform_condition_deinit(&m->changed);
    platform_mutex_deinit(&m->lock);
    free_texts(m);
    const char *file;
    int line;
    if (invariant_count(&file, &line) > m->invariants_before && status == MUSTER_OK)
        status = muster_error_fill(
            err, MUSTER_E_INTERNAL, 0, "please report it with what led to it",
            "an invariant was broken while the runtime was open, the first at %s:%d", file, line);
    struct muster_allocator allocator = m->given_allocator;
    allocator_give(&allocator, m, 1, sizeof *m);
    return status;
}

muster_status muster_close(struct muster *m, struct muster_error *err)
{
    if (!m)
        return MUSTER_OK;
    if (run_is_forked(m))
        return run_say_forked(err);
    if (is_within(m))
        return run_say_stuck(err, "muster_close");
    struct jobs_lost lost;
    struct muster_error stuck = { .size = sizeof stuck };
    uint64_t deadline_ns = platform_deadline_ns(m->options.close_ns);
    files_cancel_all(m);
    end_work(m, &lost);
    /* User code that has not returned may be within a file. */
    if (lost.in_user_code == 0)
        files_destroy_all(m);
    uint32_t lanes_left = residents_destroy_all(m);
    uint32_t stuck_count = tasks_destroy(m, &stuck);
    if (lanes_left > 0 && stuck_count++ == 0)
        say_no_answer(&stuck, "a resident lane");
    struct muster_error opening = { .size = sizeof opening };
    bool is_opening = !backends_await(m, platform_deadline_ns(m->options.close_ns), &opening);
    if (is_opening && stuck_count++ == 0)
        say_no_answer(&stuck, opening.text);
    if (lost.threads == 0)
        copiers_destroy(m);
    crew_destroy(m, lost.threads > 0 || is_opening);
    /* Tasks took what time they wanted; a device that did not come back had its own. */
    if (!*lost.what.text)
        deadline_ns = platform_deadline_ns(m->options.close_ns);
    /* Jobs may have used up the time; a poller that is not stuck leaves at once. */
    if (!poller_destroy(m, platform_deadline_ns(m->options.close_ns)) && stuck_count++ == 0)
        say_no_answer(&stuck, "a driver");
    if (lost.threads > 0) {
        say_no_answer(&stuck, lost.what.text);
        memcpy(stuck.device, lost.what.device, sizeof stuck.device);
    }
    m->closing = allocator_take(&m->allocator, 1, sizeof *m->closing);
    struct closing here, *closing = m->closing ? m->closing : &here;
    *closing = (struct closing){ .m = m, .deadline_ns = deadline_ns };
    bool is_lost = lost.threads > 0 || stuck_count > 0;
    bool is_over = wait_for_closing(closing, is_lost ? finish_on_thread : close_on_thread);
    if (!is_lost && is_over)
        return free_runtime(closing, err);
    if (!is_lost)
        say_no_answer(&stuck, "a driver");
    keep(m);
    if (err)
        *err = stuck;
    return MUSTER_E_DEVICE_HUNG;
}

void muster_trim(struct muster *m)
{
    if (!m || run_is_forked(m))
        return;
    pages_trim(m, 0);
    uint32_t count = count_devices(m);
    for (uint32_t i = 0; i < count; i++)
        spare_trim(m->devices[i]);
    crew_trim(m);
}

const char *muster_version(void)
{
    return MUSTER_VERSION_STRING;
}

uint64_t muster_stream_plan(const struct muster *m, uint64_t branches, uint64_t streams)
{
    return plan_job_bytes(branches, streams, m ? m->stream_bytes : PLAN_STREAM_BYTES_DEFAULT);
}
