/*
 * The runtime's devices: making and cutting them, finding them, what they are, how they are.
 */
#include "run/device/stream.h"

#include "base/allocator.h"
#include "base/invariant.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

bool device_allowed(const struct muster *m, const char *id, const char *backend)
{
    size_t id_length = strlen(id), backend_length = strlen(backend);
    if (!m->options.devices)
        return true;
    for (const char *at = m->options.devices; *at;) {
        size_t length = strcspn(at, ",");
        if ((length == id_length && memcmp(at, id, length) == 0) ||
            (length == backend_length && memcmp(at, backend, length) == 0))
            return true;
        at += length + (at[length] == ',');
    }
    return false;
}

void run_error_device(struct muster_error *err, const struct run_device *device)
{
    if (err)
        snprintf(err->device, sizeof err->device, "%s", device->info.id);
}

static void name_device(struct run_device *device, uint32_t index)
{
    struct muster_device_info *info = &device->info;
    snprintf(info->backend, sizeof info->backend, "%s", device->backend->table.name);
    if (device->parent) {
        snprintf(info->parent, sizeof info->parent, "%s", device->parent->info.id);
        snprintf(info->id, sizeof info->id, "%.15s/%u", device->parent->info.id, index);
    } else {
        snprintf(info->id, sizeof info->id, "%s:%u", info->backend, index);
    }
}

static void free_device(struct run_device *device)
{
    struct muster *m = device->m;
    allocator_give(&m->allocator, device->state, 1, device->backend->table.device_bytes);
    allocator_give(&m->allocator, device->streams, device->stream_count, sizeof *device->streams);
    allocator_give(&m->allocator, device, 1, sizeof *device);
}

/* Whether two devices of different backends are the same silicon. A machine has one processor. */
static bool is_same_silicon(const struct muster_device_info *a, const struct muster_device_info *b)
{
    if (*a->parent || *b->parent)
        return false;
    return (*a->pci && strcmp(a->pci, b->pci) == 0) ||
           (a->kind == MUSTER_KIND_CPU && b->kind == MUSTER_KIND_CPU);
}

/* Whether a backend stands before another in the list, and so has the first claim. */
static bool goes_first(const struct muster *m, const struct run_backend *backend,
                       const struct run_backend *other)
{
    uint32_t i = 0;
    while (m->backends[i] != backend && m->backends[i] != other)
        i++;
    return m->backends[i] == backend && backend != other;
}

void device_find_double(struct run_device *device)
{
    struct muster *m = device->m;
    run_lock(m);
    for (uint32_t i = 0; i < m->device_count && !*device->info.same_as; i++)
        if (goes_first(m, m->devices[i]->backend, device->backend) &&
            is_same_silicon(&device->info, &m->devices[i]->info))
            memcpy(device->info.same_as, m->devices[i]->info.id, sizeof device->info.same_as);
    run_unlock(m);
}

/* Opens a device, or slice number `index` of `parent`; nobody knows of it yet. */
static muster_status make(struct muster *m, struct run_backend *backend, uint32_t index,
                          struct run_device *parent, struct run_device **out,
                          struct muster_error *err)
{
    struct run_device *device = allocator_take(&m->allocator, 1, sizeof *device);
    if (!device)
        return run_no_memory(err, "a device");
    device->m = m;
    device->backend = backend;
    device->parent = parent;
    device->stream_count = m->options.streams_max + 1;
    device->streams = allocator_take(&m->allocator, device->stream_count, sizeof *device->streams);
    device->state = allocator_take(&m->allocator, 1, backend->table.device_bytes);
    if (!device->streams || !device->state) {
        free_device(device);
        return run_no_memory(err, "a device");
    }
    device->info = (struct muster_device_info){ .size = sizeof device->info, .numa_node = -1 };
    name_device(device, index);
    struct muster_device_info named = device->info;
    muster_status status =
        parent
            ? backend->table.slice_open(parent->state, index, device->state, &device->info, err)
            : backend->table.device_open(backend->state, index, device->state, &device->info, err);
    if (status != MUSTER_OK) {
        run_error_device(err, device);
        free_device(device);
        return status;
    }
    /* What the backend has no say in. */
    memcpy(device->info.id, named.id, sizeof named.id);
    memcpy(device->info.backend, named.backend, sizeof named.backend);
    memcpy(device->info.parent, named.parent, sizeof named.parent);
    device->info.size = sizeof device->info;
    device->info.same_as[0] = 0;
    device->info.domain += backend->first_domain;
    device->info.streams_max = m->options.streams_max;
    uint64_t limit = m->options.memory_limit;
    budget_init(&device->budget,
                limit > 0 && limit < device->info.memory_total ? limit : device->info.memory_total);
    for (uint32_t i = 0; i < device->stream_count; i++)
        device->streams[i] = (struct run_stream){ .device = device, .generation = 1 };
    if (parent)
        parent->slices_open++;
    *out = device;
    return MUSTER_OK;
}

void device_finish(struct run_device *device)
{
    INVARIANT(device->pins == 0 && device->block_count == 0);
    INVARIANT(device->slices_open == 0 || device->has_hung_slice);
    flights_end(device);
    zombies_destroy(device);
    streams_destroy(device);
    events_destroy(device);
}

muster_status device_close(struct run_device *device)
{
    struct run_device *parent = device->parent;
    /* A device is closed after its slices, or not at all. */
    muster_status status = device->has_hung_slice
                               ? MUSTER_E_DEVICE_HUNG
                               : device->backend->table.device_close(device->state);
    if (status != MUSTER_OK) {
        /* Where something of it still runs, what it may touch is left alone. */
        device->backend->is_abandoned = true;
        if (parent)
            parent->has_hung_slice = true;
        return MUSTER_E_DEVICE_HUNG;
    }
    if (parent && --parent->slices_open == 0)
        parent->backend->table.slice_unplan(parent->state);
    return MUSTER_OK;
}

void device_free(struct run_device *device)
{
    flights_destroy(device);
    free_device(device);
}

void device_destroy_unused(struct run_device *device)
{
    INVARIANT(!device->slabs && !device->built_left);
    device_finish(device);
    if (device_close(device) == MUSTER_OK)
        device_free(device);
}

void device_view_locked(struct run_device *device)
{
    struct muster *m = device->m;
    uint32_t backend = 0;
    while (m->backends[backend] != device->backend)
        backend++;
    bool is_usable = device_check_locked(device, NULL) == MUSTER_OK;
    if (is_usable != m->views[device->index].is_usable)
        atomic_fetch_add_explicit(&m->epoch, 1, memory_order_relaxed);
    m->views[device->index] = (struct placement_device){
        .weight = (float)device->info.weight,
        .items_per_s = (float)device->items.per_s,
        .bytes_per_s = (float)device->bytes.per_s,
        /*
         * Before its driver was asked, a device is taken to be as free as it could be. What is kept
         * goes when somebody wants it.
         */
        .memory_free = device->sampled_ns > 0 ? device->sample.memory_free + device->budget.kept
                                              : device->info.memory_total,
        .queued = (uint32_t)device->items.depth + device->leases,
        .queued_items = device->queued_items,
        .streams_active = device->streams_active,
        .compute = { device->info.compute[0], device->info.compute[1] },
        .backend = (uint8_t)backend,
        .is_usable = is_usable,
    };
    live_device_locked(device);
}

/* In powers of two, so that a pick runs over one array. */
static muster_status grow_views_locked(struct muster *m, uint32_t needed, struct muster_error *err)
{
    uint32_t capacity = m->view_capacity > 0 ? m->view_capacity : 8;
    while (capacity < needed)
        capacity *= 2;
    if (capacity == m->view_capacity)
        return MUSTER_OK;
    struct placement_device *views = allocator_take(&m->allocator, capacity, sizeof *views);
    if (!views)
        return run_no_memory(err, "a device");
    if (m->device_count > 0)
        memcpy(views, m->views, m->device_count * sizeof *views);
    allocator_give(&m->allocator, m->views, m->view_capacity, sizeof *m->views);
    m->views = views;
    m->view_capacity = capacity;
    return MUSTER_OK;
}

muster_status devices_add_locked(struct muster *m, struct run_device *const *devices, size_t count,
                                 struct muster_error *err)
{
    if (count > DEVICES_MAX - m->device_count)
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0, NULL, "more than %u devices",
                                 DEVICES_MAX);
    muster_status status = grow_views_locked(m, m->device_count + (uint32_t)count, err);
    if (status != MUSTER_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        devices[i]->index = m->device_count;
        m->devices[m->device_count++] = devices[i];
        device_view_locked(devices[i]);
    }
    live_devices_locked(m);
    return MUSTER_OK;
}

muster_status device_create(struct muster *m, struct run_backend *backend, uint32_t index,
                            struct run_device **out, struct muster_error *err)
{
    return make(m, backend, index, NULL, out, err);
}

muster_device device_handle_locked(const struct run_device *device)
{
    return (muster_device){ device->index, 1 };
}

muster_status device_resolve_locked(struct muster *m, muster_device handle, struct run_device **out,
                                    struct muster_error *err)
{
    if (handle.index >= m->device_count || handle.generation != 1)
        return muster_error_fill(err, MUSTER_E_UNKNOWN, 0, "use handles as Muster gave them",
                                 "no such device was ever given out");
    struct run_device *device = m->devices[handle.index];
    if (device->is_sliced) {
        muster_status status =
            muster_error_fill(err, MUSTER_E_STALE, 0, "use its slices",
                              "%s was cut and has left the pool", device->info.id);
        run_error_device(err, device);
        return status;
    }
    *out = device;
    return MUSTER_OK;
}

muster_status device_check_locked(const struct run_device *device, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    if (device->is_closing || device->is_sliced)
        status = muster_error_fill(err, MUSTER_E_STALE, 0, "use its slices", "%s is being cut",
                                   device->info.id);
    else if (device->health == MUSTER_HEALTH_LOST)
        status = muster_error_fill(err, MUSTER_E_DEVICE_LOST, 0, "go on with other devices",
                                   "%s is lost", device->info.id);
    else if (device->health == MUSTER_HEALTH_QUARANTINED)
        status = muster_error_fill(err, MUSTER_E_DEVICE_LOST, 0, "go on with other devices",
                                   "%s is quarantined: a device of its failure domain was lost",
                                   device->info.id);
    else if (device->stuck_calls > 0)
        status = muster_error_fill(err, MUSTER_E_DEVICE_HUNG, 0, "go on with other devices",
                                   "a call of the driver of %s does not return", device->info.id);
    else if (device->overdue > 0)
        status = muster_error_fill(err, MUSTER_E_DEVICE_HUNG, 0, "go on with other devices",
                                   "%s has not finished work that was given up", device->info.id);
    if (status != MUSTER_OK)
        run_error_device(err, device);
    return status;
}

muster_status device_pin(struct muster *m, muster_device handle, struct run_device **out,
                         struct muster_error *err)
{
    run_lock(m);
    muster_status status = device_resolve_locked(m, handle, out, err);
    if (status == MUSTER_OK)
        status = device_check_locked(*out, err);
    if (status == MUSTER_OK)
        (*out)->pins++;
    run_unlock(m);
    return status;
}

void device_unpin(struct run_device *device)
{
    run_lock(device->m);
    device->pins--;
    platform_condition_wake_all(&device->m->changed);
    run_unlock(device->m);
}

muster_status device_note_locked(struct run_device *device, muster_status status,
                                 struct muster_error *err)
{
    struct muster *m = device->m;
    if (status == MUSTER_OK)
        return status;
    run_error_device(err, device);
    if (status == MUSTER_E_TIMEOUT && device->health == MUSTER_HEALTH_OK)
        device->health = MUSTER_HEALTH_SUSPECT;
    /* A hang ends when the device answers, unless its work cannot be followed any more. */
    bool is_loss = muster_status_discards(status) == MUSTER_DISCARD_DEVICE &&
                   (status != MUSTER_E_DEVICE_HUNG || device->is_hung || device->has_hung_slice);
    if (!is_loss || device->health == MUSTER_HEALTH_LOST)
        return status;
    device->health = MUSTER_HEALTH_LOST;
    trace_device_locked(device, MUSTER_TRACE_DEVICE_LOST, 0, 0);
    for (uint32_t i = 0; i < m->device_count; i++)
        if (m->devices[i]->info.domain == device->info.domain &&
            m->devices[i]->health < MUSTER_HEALTH_QUARANTINED)
            m->devices[i]->health = MUSTER_HEALTH_QUARANTINED;
    for (uint32_t i = 0; i < m->device_count; i++)
        device_view_locked(m->devices[i]);
    platform_condition_wake_all(&m->changed);
    return status;
}

muster_status device_note(struct run_device *device, muster_status status, struct muster_error *err)
{
    if (status == MUSTER_OK || status == MUSTER_E_BUSY)
        return status;
    struct muster *m = device->m;
    run_lock(m);
    bool was_lost = device->health == MUSTER_HEALTH_LOST;
    device_note_locked(device, status, err);
    bool is_lost = device->health == MUSTER_HEALTH_LOST;
    run_unlock(m);
    if (is_lost && !was_lost)
        run_log(m, MUSTER_LOG_ERROR, "%s is lost: %s", device->info.id,
                err ? err->text : muster_status_message(status));
    return status;
}

/* A device that was asked for by name is not there: because its backend failed, or at all. */
static void offer(const char *name, size_t length, const char *known, const char **nearest,
                  size_t *distance)
{
    size_t apart = text_distance(name, length, known, strlen(known), *distance);
    /* "gpu" is no slip for "cpu". */
    if (apart < *distance && length > 0 && name[0] == known[0]) {
        *distance = apart;
        *nearest = known;
    }
}

const char *device_fix_locked(const struct muster *m, const char *name, size_t length, char *fix,
                              size_t bytes)
{
    const char *nearest = NULL;
    size_t distance = 3;
    for (uint32_t i = 0; i < m->device_count; i++)
        offer(name, length, m->devices[i]->info.id, &nearest, &distance);
    for (uint32_t i = 0; i < m->backend_count; i++)
        if (m->backends[i]->device_count > 0)
            offer(name, length, m->backends[i]->table.name, &nearest, &distance);
    if (!nearest)
        return "look at `muster devices`";
    snprintf(fix, bytes, "did you mean %s? `muster devices` lists all", nearest);
    return fix;
}

muster_status device_check_slices(struct muster *m, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    run_lock(m);
    for (uint32_t i = 0; i < m->backend_count && status == MUSTER_OK; i++) {
        const struct run_backend *backend = m->backends[i];
        if (backend->error.status != MUSTER_OK && slices_name(m, backend->table.name))
            status = muster_error_fill(err, backend->error.status, backend->error.driver_code,
                                       *backend->error.fix ? backend->error.fix : NULL,
                                       "slices of backend %s: %s", backend->table.name,
                                       backend->error.text);
    }
    run_unlock(m);
    return status;
}

static muster_status say_missing_locked(struct muster *m, const char *name, size_t length,
                                        struct muster_error *err)
{
    const struct run_backend *backend = backends_find(m, name, strcspn(name, ":,"));
    muster_status status = backend ? backend->error.status : MUSTER_OK;
    if (status == MUSTER_E_NOT_FOUND)
        return muster_error_fill(err, status, backend->error.driver_code,
                                 *backend->error.fix ? backend->error.fix : NULL,
                                 "devices asks for \"%.*s\": %s", (int)length, name,
                                 backend->error.text);
    char fix[sizeof err->fix];
    if (status == MUSTER_OK)
        return muster_error_fill(
            err, MUSTER_E_NOT_FOUND, 0, device_fix_locked(m, name, length, fix, sizeof fix),
            "devices asks for \"%.*s\", which this machine does not have", (int)length, name);
    if (err)
        *err = backend->error;
    return status;
}

muster_status device_probe_quick(struct muster *m, struct device_late *late,
                                 struct muster_error *err)
{
    _Static_assert(BACKENDS_MAX <= 32, "there is a bit for each");
    *late = (struct device_late){ 0, 0, 0 };
    for (uint32_t i = 0; i < m->backend_count; i++) {
        uint32_t devices;
        if (!backends_is_late(m, m->backends[i], &devices))
            continue;
        late->all |= (uint32_t)1 << i;
        late->awaited |= (uint32_t)(devices > 0) << i;
        late->expected +=
            devices < DEVICES_MAX - late->expected ? devices : DEVICES_MAX - late->expected;
    }
    for (uint32_t i = 0; i < m->backend_count; i++)
        if (!(late->all >> i & 1) && backends_probe(m, m->backends[i], err) == MUSTER_E_NO_MEMORY)
            return MUSTER_E_NO_MEMORY;
    return MUSTER_OK;
}

muster_status device_probe_all(struct muster *m, struct muster_error *err)
{
    for (uint32_t i = 0; i < m->backend_count; i++) {
        struct muster_error problem;
        muster_status status = backends_probe(m, m->backends[i], &problem);
        if (status == MUSTER_E_NO_MEMORY) {
            if (err)
                *err = problem;
            return status;
        }
    }
    muster_status status = MUSTER_OK;
    run_lock(m);
    for (const char *at = m->options.devices; at && *at && status == MUSTER_OK;) {
        size_t length = strcspn(at, ",");
        bool found = length == 0;
        for (uint32_t i = 0; i < m->device_count && !found; i++) {
            const struct muster_device_info *info = &m->devices[i]->info;
            found = (strlen(info->id) == length && memcmp(info->id, at, length) == 0) ||
                    (strlen(info->backend) == length && memcmp(info->backend, at, length) == 0);
        }
        if (!found)
            status = say_missing_locked(m, at, length, err);
        at += length + (at[length] == ',');
    }
    run_unlock(m);
    return status;
}

/* Listed together by backend, slices where their parent was. */
static size_t list_locked(struct muster *m, muster_device *out)
{
    size_t count = 0;
    for (uint32_t b = 0; b < m->backend_count; b++)
        for (uint32_t i = 0; i < m->device_count; i++) {
            const struct run_device *device = m->devices[i];
            if (device->backend != m->backends[b] || device->parent)
                continue;
            if (!device->is_sliced) {
                if (out)
                    out[count] = device_handle_locked(device);
                count++;
                continue;
            }
            for (uint32_t s = i + 1; s < m->device_count; s++)
                if (m->devices[s]->parent == device) {
                    if (out)
                        out[count] = device_handle_locked(m->devices[s]);
                    count++;
                }
        }
    return count;
}

muster_status muster_device_list(struct muster *m, muster_device *out, size_t capacity,
                                 size_t *count, struct muster_error *err)
{
    if (!m || !count || (!out && capacity > 0))
        return run_bad_argument(err, "muster_device_list", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = device_probe_all(m, err);
    if (status != MUSTER_OK)
        return status;
    run_lock(m);
    size_t needed = list_locked(m, NULL);
    if (needed <= capacity)
        list_locked(m, out);
    run_unlock(m);
    *count = needed;
    if (needed > capacity)
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0, "give room for *count devices",
                                 "there are %zu devices, and there is room for %zu", needed,
                                 capacity);
    return MUSTER_OK;
}

static muster_status say_not_found(struct muster *m, const char *id, struct muster_error *err)
{
    char known[160] = "";
    const struct run_backend *backend = backends_find(m, id, strcspn(id, ":"));
    const char *hidden = backend && backend->hidden_count > 0 ? backend->hidden : NULL;
    run_lock(m);
    for (uint32_t i = 0; i < m->device_count && strlen(known) + 32 < sizeof known; i++)
        if (!m->devices[i]->is_sliced)
            snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s",
                     *known ? ", " : "", m->devices[i]->info.id);
    run_unlock(m);
    if (hidden)
        return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0,
                                 "name it in muster_options.devices to have it all the same",
                                 "there is no device %.24s; %s", id, hidden);
    return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, "look at `muster devices`",
                             "there is no device %.32s; known so far: %s", id,
                             *known ? known : "none");
}

muster_status muster_device_find(struct muster *m, const char *id, muster_device *out,
                                 struct muster_error *err)
{
    if (!m || !id || !out)
        return run_bad_argument(err, "muster_device_find", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    struct run_backend *backend = backends_find(m, id, strcspn(id, ":"));
    if (!backend)
        return say_not_found(m, id, err);
    muster_status status = backends_probe(m, backend, err);
    if (status != MUSTER_OK)
        return status;
    run_lock(m);
    for (uint32_t i = 0; i < m->device_count; i++)
        if (!m->devices[i]->is_sliced && strcmp(m->devices[i]->info.id, id) == 0) {
            *out = device_handle_locked(m->devices[i]);
            run_unlock(m);
            return MUSTER_OK;
        }
    run_unlock(m);
    return say_not_found(m, id, err);
}

muster_status muster_device_info(struct muster *m, muster_device handle,
                                 struct muster_device_info *info, struct muster_error *err)
{
    if (!m || !info)
        return run_bad_argument(err, "muster_device_info", "an argument is NULL");
    muster_status status = layout_check_room(LAYOUT(muster_device_info), info, err);
    if (status != MUSTER_OK)
        return status;
    if (run_is_forked(m))
        return run_say_forked(err);
    struct run_device *device;
    run_lock(m);
    status = device_resolve_locked(m, handle, &device, err);
    run_unlock(m);
    if (status == MUSTER_OK)
        layout_write(LAYOUT(muster_device_info), info, &device->info);
    return status;
}

static enum muster_health health_of_locked(const struct run_device *device)
{
    bool is_hung = device->stuck_calls > 0 || device->overdue > 0;
    return device->health == MUSTER_HEALTH_OK && is_hung ? MUSTER_HEALTH_SUSPECT : device->health;
}

void device_load_locked(const struct run_device *device, struct muster_device_load *load)
{
    *load = (struct muster_device_load){ .size = sizeof *load,
                                         .memory_free = device->sample.memory_free,
                                         .memory_total = device->sample.memory_total,
                                         .memory_used = device->budget.used,
                                         .memory_reserved = device->budget.reserved,
                                         .memory_unreclaimed = device->budget.unreclaimed,
                                         .streams_active = device->streams_active,
                                         .streams_acquired = device->streams_acquired,
                                         .queue_depth = device->items.depth,
                                         .bytes_in_flight = device->bytes_in_flight,
                                         .dispatched = device->dispatched,
                                         .completed = device->completed,
                                         .failed = device->failed,
                                         .items_per_s = device->items.per_s,
                                         .bytes_per_s = device->bytes.per_s,
                                         .health = health_of_locked(device),
                                         .utilisation = device->sample.utilisation,
                                         .temperature_c = device->sample.temperature_c,
                                         .sampled_ns = device->sampled_ns };
}

muster_status muster_device_load(struct muster *m, muster_device handle,
                                 struct muster_device_load *load, struct muster_error *err)
{
    if (!m || !load)
        return run_bad_argument(err, "muster_device_load", "an argument is NULL");
    muster_status status = layout_check_room(LAYOUT(muster_device_load), load, err);
    if (status != MUSTER_OK)
        return status;
    if (run_is_forked(m))
        return run_say_forked(err);
    struct run_device *device;
    struct muster_device_load now;
    run_lock(m);
    status = device_resolve_locked(m, handle, &device, err);
    if (status == MUSTER_OK)
        device->pins++;
    run_unlock(m);
    if (status != MUSTER_OK)
        return status;
    flights_retire_all(device);
    zombies_reclaim(device);
    status = poller_ask(device, err);
    run_lock(m);
    if (status == MUSTER_OK)
        device_load_locked(device, &now);
    device->pins--;
    platform_condition_wake_all(&m->changed);
    run_unlock(m);
    if (status == MUSTER_OK)
        layout_write(LAYOUT(muster_device_load), load, &now);
    return status;
}

const char *muster_device_kind_name(enum muster_device_kind kind)
{
    switch (kind) {
    case MUSTER_KIND_OTHER:
        return "other";
    case MUSTER_KIND_CPU:
        return "cpu";
    case MUSTER_KIND_GPU:
        return "gpu";
    case MUSTER_KIND_ACCELERATOR:
        return "accelerator";
    case MUSTER_KIND_SIMULATED:
        return "simulated";
    }
    return "?";
}

const char *muster_health_name(enum muster_health health)
{
    switch (health) {
    case MUSTER_HEALTH_OK:
        return "ok";
    case MUSTER_HEALTH_SUSPECT:
        return "suspect";
    case MUSTER_HEALTH_QUARANTINED:
        return "quarantined";
    case MUSTER_HEALTH_LOST:
        return "lost";
    }
    return "?";
}

/* Plans and opens all slices, or none. Nobody knows of them yet. */
muster_status device_cut(struct run_device *device, const uint32_t *sizes, size_t count,
                         struct run_device **slices, struct muster_error *err)
{
    struct muster_backend *table = &device->backend->table;
    muster_status status = table->slice_plan(device->state, sizes, count, err);
    if (status != MUSTER_OK)
        return status;
    size_t made = 0;
    while (status == MUSTER_OK && made < count) {
        status = make(device->m, device->backend, (uint32_t)made, device, &slices[made], err);
        made += status == MUSTER_OK;
    }
    if (status == MUSTER_OK)
        return status;
    if (made == 0)
        table->slice_unplan(device->state);
    while (made > 0)
        device_destroy_unused(slices[--made]);
    return status;
}
