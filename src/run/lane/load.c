#include "run/lane/load.h"

struct throughput_mark load_begin_locked(struct run_device *device, uint64_t items, uint64_t now_ns)
{
    struct placement_device *view = &device->m->views[device->index];
    view->queued++;
    view->queued_items += items;
    return unit_begin_locked(device, items, now_ns);
}

void load_end_locked(struct run_device *device, struct throughput_mark mark, uint64_t items,
                     enum load_end how, uint64_t now_ns)
{
    if (how == LOAD_DONE || how == LOAD_FAILED) {
        unit_end_locked(device, mark, items, how == LOAD_DONE, now_ns);
        return;
    }
    throughput_end(&device->items, now_ns, mark, 0);
    device->queued_items -= items;
    device->completed += how == LOAD_UNTIMED;
    device->dispatched -= how == LOAD_WITHDRAWN;
    if (how == LOAD_UNTIMED && device->health == MUSTER_HEALTH_SUSPECT)
        device->health = MUSTER_HEALTH_OK;
}
