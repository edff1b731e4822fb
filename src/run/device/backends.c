/*
 * The runtime's backends: built in, given and loaded; and probing them, once each, when a device of
 * theirs is first wanted.
 */
#include "run/device/device.h"

#include "backend/isolated/isolated.h"
#include "backend/registry.h"
#include "base/allocator.h"
#include "platform/exit.h"
#include "platform/sandbox.h"
#include "run/threads/crew.h"

#include <stdio.h>
#include <string.h>

struct run_backend *backends_find(struct muster *m, const char *name, size_t length)
{
    for (uint32_t i = 0; i < m->backend_count; i++) {
        const char *own = m->backends[i]->table.name;
        if (strlen(own) == length && memcmp(own, name, length) == 0)
            return m->backends[i];
    }
    return NULL;
}

/* `library` becomes the runtime's on success. */
static muster_status add(struct muster *m, const struct muster_backend *table,
                         struct platform_library library, const char *path,
                         struct muster_error *err)
{
    struct muster_backend completed;
    muster_status status = registry_complete(table, &completed, err);
    if (status != MUSTER_OK)
        return status;
    if (backends_find(m, completed.name, strlen(completed.name)))
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "leave one of them out",
                                 "there are two backends named %s", completed.name);
    if (m->backend_count == BACKENDS_MAX)
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0, NULL, "more than %u backends",
                                 BACKENDS_MAX);
    struct run_backend *backend = allocator_take(&m->allocator, 1, sizeof *backend);
    if (!backend)
        return run_no_memory(err, "a backend");
    backend->m = m;
    backend->table = completed;
    backend->library = library;
    snprintf(backend->path, sizeof backend->path, "%s", path);
    m->backends[m->backend_count++] = backend;
    return MUSTER_OK;
}

static muster_status load(struct muster *m, const char *path, struct muster_error *err)
{
    struct platform_library library = { NULL };
    const struct muster_backend *table;
    muster_status status = registry_load(path, &library, &table, err);
    if (status != MUSTER_OK)
        return status;
    status = add(m, table, library, path, err);
    if (status != MUSTER_OK)
        platform_library_close(&library);
    return status;
}

/* Whether the option `isolate` names the backend, or all; what is not trusted never runs in this process. */
static bool is_isolated(const struct muster *m, const char *name)
{
    size_t length = strlen(name);
    if (m->options.untrusted)
        return true;
    for (const char *at = m->options.isolate; at && *at;) {
        size_t entry = strcspn(at, ",");
        if ((entry == 3 && memcmp(at, "all", 3) == 0) ||
            (entry == length && memcmp(at, name, length) == 0))
            return true;
        at += entry + (at[entry] == ',');
    }
    return false;
}

/* Names that cannot be isolated are mistakes, to be reported at once. */
static muster_status check_isolated(const struct muster *m, struct muster_error *err)
{
    for (const char *at = m->options.isolate; at && *at;) {
        char name[16];
        size_t entry = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)(entry < 15 ? entry : 15), at);
        if (entry > 15 || (strcmp(name, "all") != 0 && !isolated_find(name)))
            return muster_error_fill(
                err, MUSTER_E_NOT_FOUND, 0, "name cpu, cuda, opencl or sim, or all",
                "isolate asks for \"%.*s\"", (int)(entry < 64 ? entry : 64), at);
        at += entry + (at[entry] == ',');
    }
    return MUSTER_OK;
}

static muster_status add_built_in(struct muster *m, const struct muster_backend *table,
                                  struct muster_error *err)
{
    const struct platform_library none = { NULL };
    const struct muster_backend *apart =
        is_isolated(m, table->name) ? isolated_find(table->name) : NULL;
    const struct muster_backend *closed =
        m->options.untrusted ? isolated_find_sandboxed(table->name) : NULL;
    muster_status status = add(m, closed ? closed : apart ? apart : table, none, "", err);
    if (status != MUSTER_OK)
        return status;
    m->backends[m->backend_count - 1]->is_built_in = true;
    m->backends[m->backend_count - 1]->is_sandboxed = closed != NULL;
    return MUSTER_OK;
}

muster_status backends_load(struct muster *m, struct muster_error *err)
{
    const struct platform_library none = { NULL };
    size_t count;
    const struct muster_backend *const *built_in = registry_built_in(&count);
    muster_status status = check_isolated(m, err);
    if (status == MUSTER_OK && m->options.untrusted)
        status = platform_sandbox_check(err);
    for (size_t i = 0; i < count && status == MUSTER_OK; i++)
        status = add_built_in(m, built_in[i], err);
    for (size_t i = 0; i < m->options.backend_count && status == MUSTER_OK; i++)
        status = add(m, m->options.backends[i], none, "", err);
    for (const char *at = m->options.backend_paths; at && *at && status == MUSTER_OK;) {
        char path[4096];
        size_t length = strcspn(at, ":");
        if (length >= sizeof path)
            return run_bad_argument(err, "muster_open", "a backend's path is too long");
        memcpy(path, at, length);
        path[length] = 0;
        if (length > 0)
            status = load(m, path, err);
        at += length + (at[length] == ':');
    }
    return status;
}

static void close_backend(struct muster *m, struct run_backend *backend)
{
    backend->table.close(backend->state);
    allocator_give(&m->allocator, backend->state, 1, backend->table.backend_bytes);
    backend->state = NULL;
}

bool backends_unload(struct muster *m)
{
    bool is_complete = true;
    while (m->backend_count > 0) {
        struct run_backend *backend = m->backends[--m->backend_count];
        if (backend->is_abandoned) {
            is_complete = false;
            continue;
        }
        if (backend->state)
            close_backend(m, backend);
        platform_library_close(&backend->library);
        allocator_give(&m->allocator, backend, 1, sizeof *backend);
    }
    return is_complete;
}

/* Whether any device of the backend may be used at all. */
static bool wanted(const struct muster *m, const char *name)
{
    size_t length = strlen(name);
    if (!m->options.devices)
        return true;
    for (const char *at = m->options.devices; *at;) {
        size_t entry = strcspn(at, ",");
        if (strcspn(at, ":,") == length && memcmp(at, name, length) == 0)
            return true;
        at += entry + (at[entry] == ',');
    }
    return false;
}

/*
 * Whether another backend has the device already and nobody asked for it by name. Those before it in
 * the list go first, so they are probed; they never look at those behind them.
 */
static bool is_hidden(struct muster *m, struct run_backend *backend, struct run_device *device)
{
    bool may_be_double = device->info.kind == MUSTER_KIND_CPU || *device->info.pci;
    if (!backend->is_built_in || !may_be_double)
        return false;
    for (uint32_t i = 0; !m->options.devices && m->backends[i] != backend; i++)
        backends_probe(m, m->backends[i], NULL);
    device_find_double(device);
    uint32_t sizes[SLICES_OF_DEVICE_MAX];
    return !m->options.devices && *device->info.same_as &&
           slices_wanted(m, device->info.id, sizes) == 0;
}

static void note_hidden(struct run_backend *backend, const struct run_device *device)
{
    char others[sizeof backend->hidden] = "";
    const char *list = strstr(backend->hidden, " as ");
    const char *id = device->info.same_as;
    if (list)
        snprintf(others, sizeof others, "%s", list + strlen(" as "));
    backend->hidden_count++;
    snprintf(backend->hidden, sizeof backend->hidden,
             "%u device%s hidden: the same silicon as %s%s%s", backend->hidden_count,
             backend->hidden_count == 1 ? "" : "s", others,
             *others && !strstr(others, id) ? ", " : "", strstr(others, id) ? "" : id);
}

/* Cuts a device that nobody knows of yet, if that is asked for; its slices follow it. */
static muster_status cut_as_asked(struct muster *m, struct run_device *device,
                                  struct run_device **slices, size_t *count,
                                  struct muster_error *err)
{
    uint32_t sizes[SLICES_OF_DEVICE_MAX];
    size_t wanted = slices_wanted(m, device->info.id, sizes);
    *count = 0;
    if (wanted == 0)
        return MUSTER_OK;
    muster_status status = MUSTER_OK;
    if (!(device->info.capabilities & MUSTER_CAN_SLICE))
        status = muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                   "leave it out of the option slices, or of MUSTER_SLICES",
                                   "%s cannot be cut", device->info.id);
    else
        status = device_cut(device, sizes, wanted, slices, err);
    if (status != MUSTER_OK) {
        run_error_device(err, device);
        return status;
    }
    device->is_sliced = true;
    *count = wanted;
    return MUSTER_OK;
}

/* Of a device's slices those that may be used; the others are given back. */
static size_t keep_allowed(struct muster *m, const struct run_device *device,
                           struct run_device **slices, size_t count)
{
    size_t kept = 0;
    bool are_all = device_allowed(m, device->info.id, device->info.backend);
    for (size_t i = 0; i < count; i++) {
        if (are_all || device_allowed(m, slices[i]->info.id, device->info.backend))
            slices[kept++] = slices[i];
        else
            device_destroy_unused(slices[i]);
    }
    return kept;
}

/* Opens the devices that may be used, all or none. */
static muster_status open_devices(struct muster *m, struct run_backend *backend, uint32_t count,
                                  struct muster_error *err)
{
    muster_status status = slices_check_found(m, backend->table.name, count, err);
    if (status != MUSTER_OK)
        return status;
    size_t room = m->options.slices ? (size_t)count * (1 + SLICES_OF_DEVICE_MAX) : count;
    struct run_device **devices = allocator_take(&m->allocator, room, sizeof *devices);
    if (!devices)
        return run_no_memory(err, "a backend's devices");
    size_t made = 0, cut = 0;
    backend->hidden_count = 0;
    backend->hidden[0] = 0;
    for (uint32_t i = 0; i < count && status == MUSTER_OK; i++) {
        char id[sizeof((struct muster_device_info *)0)->id];
        snprintf(id, sizeof id, "%s:%u", backend->table.name, i);
        if (!device_allowed(m, id, backend->table.name) && !slices_allowed(m, id))
            continue;
        size_t slices = 0;
        struct run_device **device = &devices[made];
        status = device_create(m, backend, i, device, err);
        if (status == MUSTER_OK && is_hidden(m, backend, *device)) {
            note_hidden(backend, *device);
            device_destroy_unused(*device);
            continue;
        }
        made += status == MUSTER_OK;
        if (status == MUSTER_OK)
            status = cut_as_asked(m, *device, device + 1, &slices, err);
        if (status == MUSTER_OK)
            slices = keep_allowed(m, *device, device + 1, slices);
        made += slices;
        cut += slices > 0;
    }
    if (status == MUSTER_OK) {
        run_lock(m);
        status = devices_add_locked(m, devices, made, err);
        run_unlock(m);
    }
    if (status == MUSTER_OK)
        backend->device_count = (uint32_t)(made - cut);
    while (status != MUSTER_OK && made > 0)
        device_destroy_unused(devices[--made]);
    allocator_give(&m->allocator, devices, room, sizeof *devices);
    return status;
}

/* Opens the backend and its devices. Called by one thread, with no lock held. */
static muster_status probe(struct muster *m, struct run_backend *backend, struct muster_error *err)
{
    void *state = allocator_take(&m->allocator, 1, backend->table.backend_bytes);
    if (!state)
        return run_no_memory(err, "a backend's state");
    uint32_t count = 0;
    muster_status status = backend->table.open(state, &m->services, &count, err);
    if (status != MUSTER_OK) {
        allocator_give(&m->allocator, state, 1, backend->table.backend_bytes);
        return status;
    }
    backend->state = state;
    /* Closed without this thread: nothing more is opened. */
    if (run_is_abandoned(m))
        return MUSTER_E_CANCELLED;
    run_lock(m); /* other backends may be probed at the same time */
    backend->first_domain = m->next_domain;
    m->next_domain += count;
    run_unlock(m);
    status = open_devices(m, backend, count, err);
    if (status != MUSTER_OK && !backend->is_abandoned)
        close_backend(m, backend);
    return status;
}

void backends_begin_probe(struct muster *m, struct run_backend *backend)
{
    run_lock(m);
    while (backend->probe == PROBE_RUNNING)
        platform_condition_wait(&m->changed, &m->lock, UINT64_MAX);
    backend->probe = PROBE_RUNNING;
    run_unlock(m);
}

void backends_end_probe(struct muster *m, struct run_backend *backend)
{
    run_lock(m);
    backend->probe = PROBE_DONE;
    platform_condition_wake_all(&m->changed);
    run_unlock(m);
}

/* The caller has set the backend to PROBE_RUNNING. */
static muster_status run_probe(struct muster *m, struct run_backend *backend,
                               struct muster_error *err)
{
    struct muster_error problem = { .size = sizeof problem };
    muster_status status = probe(m, backend, &problem);
    if (status != MUSTER_OK &&
        (status != MUSTER_E_NOT_FOUND || slices_name(m, backend->table.name)))
        run_log(m, MUSTER_LOG_WARNING, "backend %s is not usable: %s", backend->table.name,
                problem.text);
    if (err && status != MUSTER_OK)
        *err = problem;
    run_lock(m);
    backend->error = (struct muster_error){ .size = sizeof backend->error };
    if (status != MUSTER_OK)
        backend->error = problem;
    backend->has_answered = true;
    run_unlock(m);
    backends_end_probe(m, backend);
    return status;
}

muster_status backends_probe(struct muster *m, struct run_backend *backend,
                             struct muster_error *err)
{
    run_lock(m);
    while (backend->probe == PROBE_RUNNING)
        platform_condition_wait(&m->changed, &m->lock, UINT64_MAX);
    /* Out of host memory is no property of the backend: it is asked again. */
    bool again = backend->probe == PROBE_NOT_YET ||
                 (backend->error.status == MUSTER_E_NO_MEMORY && !backend->state);
    if (!again || !wanted(m, backend->table.name)) {
        muster_status status = backend->error.status;
        if (err && status != MUSTER_OK)
            *err = backend->error;
        run_unlock(m);
        return status;
    }
    backend->probe = PROBE_RUNNING;
    run_unlock(m);
    return run_probe(m, backend, err);
}

static void open_aside(void *argument)
{
    struct run_backend *backend = argument;
    uint64_t begin_ns = platform_clock_ns();
    platform_exit_hold();
    run_log(backend->m, MUSTER_LOG_INFO, "backend %s: opening it for jobs that run",
            backend->table.name);
    muster_status status = run_probe(backend->m, backend, NULL);
    run_log(backend->m, MUSTER_LOG_INFO, "backend %s: answered after %.0f ms: %s",
            backend->table.name, (double)(platform_clock_ns() - begin_ns) / 1e6,
            muster_status_name(status));
    platform_exit_release();
}

bool backends_is_late(struct muster *m, struct run_backend *backend, uint32_t *expected)
{
    *expected = 0;
    run_lock(m);
    bool is_late = !backend->has_answered && wanted(m, backend->table.name);
    run_unlock(m);
    if (!is_late || !backend->table.is_slow(expected))
        return false;
    platform_exit_watch();
    return true;
}

void backends_open_aside(struct muster *m, struct run_backend *backend)
{
    run_lock(m);
    bool is_first = backend->probe == PROBE_NOT_YET;
    if (is_first)
        backend->probe = PROBE_RUNNING;
    run_unlock(m);
    /* Without a thread it is opened here. */
    if (is_first && crew_run(m, open_aside, backend, "muster-open", NULL, NULL) != MUSTER_OK)
        open_aside(backend);
}

uint32_t backends_opening_locked(const struct muster *m)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->backend_count; i++)
        count += m->backends[i]->probe == PROBE_RUNNING && !m->backends[i]->has_answered;
    return count;
}

bool backends_await(struct muster *m, uint64_t deadline_ns, struct muster_error *err)
{
    bool have_answered = true;
    run_lock(m);
    for (uint32_t i = 0; i < m->backend_count && have_answered; i++) {
        const struct run_backend *backend = m->backends[i];
        while (backend->probe == PROBE_RUNNING &&
               platform_condition_wait(&m->changed, &m->lock, deadline_ns)) {}
        have_answered = backend->probe != PROBE_RUNNING;
        if (!have_answered)
            muster_error_fill(err, MUSTER_E_DEVICE_HUNG, 0, NULL, "the driver of %s",
                              backend->table.name);
    }
    run_unlock(m);
    return have_answered;
}

muster_status muster_backend_list(struct muster *m, struct muster_backend_report *out,
                                  size_t capacity, size_t *count, struct muster_error *err)
{
    if (!m || !count || (!out && capacity > 0))
        return run_bad_argument(err, "muster_backend_list", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    *count = m->backend_count;
    if (capacity < m->backend_count)
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0, "give room for *count reports",
                                 "there are %u backends, and there is room for %zu",
                                 m->backend_count, capacity);
    muster_status status = layout_check_rooms(LAYOUT(muster_backend_report), out, capacity, err);
    if (status != MUSTER_OK)
        return status;
    for (uint32_t i = 0; i < m->backend_count; i++) {
        struct run_backend *backend = m->backends[i];
        struct muster_backend_report report = { .size = sizeof report };
        report.error.status = backends_probe(m, backend, &report.error);
        snprintf(report.name, sizeof report.name, "%s", backend->table.name);
        snprintf(report.path, sizeof report.path, "%s", backend->path);
        report.device_count = backend->device_count;
        report.hidden_count = backend->hidden_count;
        snprintf(report.hidden, sizeof report.hidden, "%s", backend->hidden);
        layout_write_at(LAYOUT(muster_backend_report), out, i, &report);
    }
    return MUSTER_OK;
}
