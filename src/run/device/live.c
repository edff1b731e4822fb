/*
 * What devices show on the live page, and the totals, which go along with them. Without a page that is one
 * look at a pointer.
 */
#include "run/device/device.h"

#include <stdio.h>

static uint64_t total(const _Atomic uint64_t *counter)
{
    /* Relaxed: each is exact by itself. */
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void live_totals_locked(struct muster *m)
{
    if (!m->live.page)
        return;
    struct live_totals *shown = &m->live.page->totals;
    const struct run_counts *counts = &m->counts;
    live_set(&shown->jobs_unseen, m->live.jobs_unseen);
    live_set(&shown->kept_bytes, m->pages_bytes);
    live_set(&shown->jobs_started, total(&counts->jobs_started));
    live_set(&shown->jobs_done, total(&counts->jobs_done));
    live_set(&shown->jobs_failed, total(&counts->jobs_failed));
    live_set(&shown->units_started, total(&counts->units_started));
    live_set(&shown->units_done, total(&counts->units_done));
    live_set(&shown->units_late, total(&counts->units_late));
    live_set(&shown->units_failed, total(&counts->units_failed));
    live_set(&shown->items_delivered, total(&counts->items_delivered));
    live_set(&shown->bytes_delivered, total(&counts->bytes_delivered));
    live_set(&shown->bytes_in, total(&counts->bytes_in));
    live_set(&shown->bytes_out, total(&counts->bytes_out));
    live_set(&shown->kernels_built, total(&counts->kernels_built));
}

void live_device_locked(struct run_device *device)
{
    struct muster *m = device->m;
    if (!m->live.page)
        return;
    /* A device is lost once, and for good. */
    if (device->health == MUSTER_HEALTH_LOST && !device->is_shown_lost) {
        device->is_shown_lost = true;
        live_set(&m->live.page->totals.devices_lost, ++m->live.devices_lost);
    }
    if (device->index >= LIVE_DEVICES)
        return;
    struct muster_device_load load;
    device_load_locked(device, &load);
    _Atomic uint64_t *record = m->live.page->devices[device->index].words;
    live_begin(record);
    live_busy_show(&device->shown, device->busy_ns, device->busy_since_ns, platform_clock_ns());
    struct live_device shown = { .health = load.health,
                                 .is_hung = device->stuck_calls > 0 || device->overdue > 0,
                                 .is_cut = device->is_sliced,
                                 .queue_depth = load.queue_depth,
                                 .queued_items = device->queued_items,
                                 .streams_active = load.streams_active,
                                 .lanes = device->lanes,
                                 .dispatched = load.dispatched,
                                 .completed = load.completed,
                                 .failed = load.failed,
                                 .bytes_in_flight = load.bytes_in_flight,
                                 .busy_ns = device->shown.busy_ns,
                                 .busy_since_ns = device->shown.since_ns,
                                 .items_per_s = load.items_per_s,
                                 .bytes_per_s = load.bytes_per_s,
                                 .memory_total = device->info.memory_total,
                                 .memory_used = load.memory_used,
                                 .memory_reserved = load.memory_reserved,
                                 .memory_unreclaimed = load.memory_unreclaimed,
                                 .memory_kept = device->budget.kept,
                                 .memory_free = load.memory_free,
                                 .sampled_ns = load.sampled_ns,
                                 .utilisation = load.sampled_ns > 0 ? load.utilisation : -1,
                                 .temperature_c = load.sampled_ns > 0 ? load.temperature_c : -300 };
    memcpy(shown.id, device->info.id, sizeof shown.id);
    memcpy(shown.name, device->info.name, sizeof shown.name);
    memcpy(shown.backend, device->info.backend, sizeof shown.backend);
    live_end(record, &shown, LIVE_WORDS(live_device));
    live_totals_locked(m);
}

void live_devices_locked(struct muster *m)
{
    if (m->live.page)
        live_set(&m->live.page->totals.devices, m->device_count);
}
