/*
 * Zombies: freed memory that the device may still be using. It counts as unreclaimed in the device's
 * budget until the device has finished with it.
 */
#include "run/device/stream.h"

#include "base/allocator.h"

struct zombie *zombie_take(struct muster *m)
{
    return allocator_take(&m->allocator, 1, sizeof(struct zombie));
}

void zombie_give(struct muster *m, struct zombie *zombie)
{
    allocator_give(&m->allocator, zombie, 1, sizeof *zombie);
}

/* Whether all marks of a zombie are over. The zombie is off its list, so nobody else touches it. */
static bool is_over(struct run_device *device, struct zombie *zombie)
{
    while (zombie->until.count > 0) {
        struct run_event *event = zombie->until.marks[zombie->until.count - 1].event;
        if (!run_is_over(device->backend->table.event_query(event->state, NULL)))
            return false;
        run_lock(device->m);
        event_unreference_locked(device, event);
        run_unlock(device->m);
        zombie->until.count--;
    }
    return true;
}

/* The device has finished with it, or will never: gives the memory back. */
static void bury(struct run_device *device, struct zombie *zombie)
{
    struct muster *m = device->m;
    uint64_t bytes = zombie->memory.bytes;
    if (zombie->must_free)
        device_note(device,
                    device->backend->table.memory_free(device->state, NULL, &zombie->memory, NULL),
                    NULL);
    run_lock(m);
    budget_reclaimed(&device->budget, bytes);
    platform_condition_wake_all(&m->changed);
    run_unlock(m);
    zombie_give(m, zombie);
}

void zombies_reclaim(struct run_device *device)
{
    struct muster *m = device->m;
    struct zombie *left = NULL;
    run_lock(m);
    while (device->reclaiming && device->stuck_calls == 0)
        platform_condition_wait(&m->changed, &m->lock, UINT64_MAX);
    /* A driver that does not return from a call is not asked again. */
    bool is_asked = !device->is_hung && device->stuck_calls == 0;
    struct zombie *list = is_asked ? device->zombies : NULL;
    if (list) {
        device->reclaiming = true;
        device->zombies = NULL;
    }
    run_unlock(m);
    if (!list)
        return;
    while (list) {
        struct zombie *zombie = list;
        list = zombie->next;
        if (is_over(device, zombie)) {
            bury(device, zombie);
        } else {
            zombie->next = left;
            left = zombie;
        }
    }
    run_lock(m);
    while (left) {
        struct zombie *next = left->next;
        left->next = device->zombies;
        device->zombies = left;
        left = next;
    }
    device->reclaiming = false;
    platform_condition_wake_all(&m->changed);
    run_unlock(m);
}

/*
 * Called when the streams have been drained, so that all is over, also what the driver would not
 * say of; or the device hangs, and what is left stays with it.
 */
void zombies_destroy(struct run_device *device)
{
    zombies_reclaim(device);
    while (device->zombies) {
        struct zombie *zombie = device->zombies;
        device->zombies = zombie->next;
        run_lock(device->m);
        marks_unreference_locked(device, &zombie->until);
        run_unlock(device->m);
        if (device->is_hung)
            zombie_give(device->m, zombie);
        else
            bury(device, zombie);
    }
}
