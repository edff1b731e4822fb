/*
 * Timing events. A device keeps them, so that later lanes use them again.
 */
#include "run/device/stream.h"

#include "base/allocator.h"

static struct timing_mark *make_mark(struct run_device *device)
{
    struct muster *m = device->m;
    const struct muster_backend *table = &device->backend->table;
    struct timing_mark *mark = allocator_take(&m->allocator, 1, sizeof *mark);
    void *state = allocator_take(&m->allocator, 1, table->event_bytes);
    /* A stream that cannot be timed works as well: what a lost device says here it says again later. */
    if (!mark || !state ||
        table->event_init(device->state, MUSTER_EVENT_TIMING, state, NULL) != MUSTER_OK) {
        allocator_give(&m->allocator, state, 1, table->event_bytes);
        allocator_give(&m->allocator, mark, 1, sizeof *mark);
        return NULL;
    }
    *mark = (struct timing_mark){ .device = device, .state = state };
    run_lock(m);
    mark->next_all = device->marks;
    device->marks = mark;
    run_unlock(m);
    return mark;
}

struct timing_mark *timing_mark_take(struct run_device *device)
{
    run_lock(device->m);
    struct timing_mark *mark = device->free_marks;
    if (mark)
        device->free_marks = mark->next_free;
    run_unlock(device->m);
    return mark ? mark : make_mark(device);
}

void timing_mark_give_locked(struct timing_mark *mark)
{
    mark->next_free = mark->device->free_marks;
    mark->device->free_marks = mark;
}

void timing_marks_destroy(struct run_device *device)
{
    struct muster *m = device->m;
    device->free_marks = NULL;
    while (device->marks) {
        struct timing_mark *mark = device->marks;
        device->marks = mark->next_all;
        device->backend->table.event_deinit(mark->state);
        allocator_give(&m->allocator, mark->state, 1, device->backend->table.event_bytes);
        allocator_give(&m->allocator, mark, 1, sizeof *mark);
    }
}
