#include "run/memory/pages.h"

#include "base/allocator.h"
#include "base/invariant.h"
#include "platform/machine.h"
#include "run/memory/host_pages.h"

/* Sizes are rounded up so that they differ by this part at least, and jobs that are alike share. */
#define CLASSES_PER_DOUBLING 8u
/* Pages of up to this many times what is wanted are taken rather than new ones. */
#define LARGER_MAX 2u

/* Whole pages, and at most an eighth more than is wanted. 0: no memory is that large. */
static size_t round_up(size_t bytes)
{
    size_t step = platform_page_bytes(), rounded;
    while (step <= bytes / CLASSES_PER_DOUBLING / 2)
        step *= 2;
    if (__builtin_add_overflow(bytes, step - 1, &rounded))
        return 0;
    return rounded / step * step;
}

size_t pages_span(const struct pages *pages)
{
    return pages->is_ring ? 2 * pages->bytes : pages->bytes;
}

static bool is_known_to(const struct pages *pages, uint32_t device)
{
    return pages->devices[device / 64] >> (device % 64) & 1;
}

static void set_known(struct pages *pages, uint32_t device, bool is_known)
{
    uint64_t bit = (uint64_t)1 << (device % 64);
    if (is_known)
        pages->devices[device / 64] |= bit;
    else
        pages->devices[device / 64] &= ~bit;
}

/* The devices that a mask's words stand for; those that are closed know nothing any more. */
static struct run_device *next_device_locked(const struct muster *m, const struct pages *pages,
                                             uint32_t from)
{
    for (uint32_t i = from; i < m->device_count; i++)
        if (is_known_to(pages, i))
            return m->devices[i];
    return NULL;
}

/* Whether a driver that does not answer would have to be asked to give them up. */
static bool is_stuck_locked(const struct muster *m, const struct pages *pages)
{
    const struct run_device *device = next_device_locked(m, pages, 0);
    while (device && device->stuck_calls == 0 && !device->is_hung)
        device = next_device_locked(m, pages, device->index + 1);
    return device != NULL;
}

/* Memory that a lost context has pinned is of no use to others. */
static bool is_spoilt_locked(const struct muster *m, const struct pages *pages)
{
    const struct run_device *device = next_device_locked(m, pages, 0);
    while (device && device->health < MUSTER_HEALTH_QUARANTINED)
        device = next_device_locked(m, pages, device->index + 1);
    return device != NULL;
}

static void remove_locked(struct muster *m, struct pages *pages)
{
    struct pages **at = &m->pages;
    while (*at != pages)
        at = &(*at)->next;
    *at = pages->next;
    if (pages->may_stay)
        m->pages_bytes -= pages->bytes;
}

/* Off the list. No lock is held: drivers are told. */
static void free_pages(struct muster *m, struct pages *pages)
{
    for (;;) {
        run_lock(m);
        struct run_device *device = next_device_locked(m, pages, 0);
        if (device) {
            set_known(pages, device->index, false);
            device->pins++;
        }
        run_unlock(m);
        if (!device)
            break;
        device->backend->table.host_unregister(device->state, pages->memory);
        device_unpin(device);
    }
    host_pages_unmap(m, pages->memory, pages->bytes, pages->is_ring);
    allocator_give(&m->allocator, pages, 1, sizeof *pages);
}

/* Gives up the kept pages that were unused for longest, which are last; false if there are none. */
static bool evict(struct muster *m)
{
    struct pages *last = NULL;
    run_lock(m);
    for (struct pages *at = m->pages; at; at = at->next)
        if (!at->is_out && !is_stuck_locked(m, at))
            last = at;
    if (last)
        remove_locked(m, last);
    run_unlock(m);
    if (last)
        free_pages(m, last);
    return last != NULL;
}

static bool fits(const struct pages *pages, const struct pages_want *want, size_t bytes)
{
    if (pages->is_out || pages->is_ring != want->is_ring || pages->nodes != want->nodes)
        return false;
    /* All rings of a job have one size. */
    return want->is_ring ? pages->bytes == bytes
                         : pages->bytes >= bytes && pages->bytes / LARGER_MAX <= bytes;
}

/* The smallest kept ones that will do; NULL if there are none. */
static struct pages *take_kept(struct muster *m, const struct pages_want *want, size_t bytes)
{
    struct pages *best = NULL;
    run_lock(m);
    for (struct pages *at = m->pages; at; at = at->next)
        if (fits(at, want, bytes) && (!best || at->bytes < best->bytes) && !is_spoilt_locked(m, at))
            best = at;
    if (best)
        best->is_out = true;
    run_unlock(m);
    return best;
}

static void make_room(struct muster *m, size_t bytes)
{
    bool is_over;
    do {
        run_lock(m);
        is_over = bytes <= m->options.kept_bytes && m->pages_bytes > m->options.kept_bytes - bytes;
        run_unlock(m);
    } while (is_over && evict(m));
}

static char *map(struct muster *m, const struct pages_want *want, size_t bytes)
{
    const struct platform_part part = {
        .bytes = bytes, .is_ring = want->is_ring, .is_large = want->is_large, .nodes = want->nodes
    };
    return host_pages_map(m, &part);
}

static muster_status say_none(const struct pages_want *want, struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, "free memory of the process",
                             "no host memory for %zu bytes", want->bytes);
}

muster_status pages_take(struct muster *m, const struct pages_want *want, struct pages **out,
                         struct muster_error *err)
{
    INVARIANT(want->bytes > 0);
    size_t bytes = round_up(want->bytes);
    if (bytes == 0)
        return say_none(want, err);
    struct pages *pages = take_kept(m, want, bytes);
    if (pages) {
        *out = pages;
        return MUSTER_OK;
    }
    make_room(m, bytes);
    pages = allocator_take(&m->allocator, 1, sizeof *pages);
    char *memory = pages ? map(m, want, bytes) : NULL;
    while (pages && !memory && evict(m))
        memory = map(m, want, bytes);
    if (!memory) {
        allocator_give(&m->allocator, pages, 1, sizeof *pages);
        return say_none(want, err);
    }
    *pages = (struct pages){ .memory = memory,
                             .bytes = bytes,
                             .is_ring = want->is_ring,
                             .nodes = want->nodes,
                             .is_out = true };
    run_lock(m);
    pages->may_stay =
        bytes <= m->options.kept_bytes && m->pages_bytes <= m->options.kept_bytes - bytes;
    if (pages->may_stay)
        m->pages_bytes += bytes;
    pages->next = m->pages;
    m->pages = pages;
    run_unlock(m);
    *out = pages;
    return MUSTER_OK;
}

muster_status pages_pin(struct pages *pages, struct run_device *device, struct muster_error *err)
{
    struct muster *m = device->m;
    if (!pages)
        return MUSTER_OK;
    run_lock(m);
    bool is_known = is_known_to(pages, device->index);
    run_unlock(m);
    if (is_known)
        return MUSTER_OK;
    const struct muster_backend *table = &device->backend->table;
    muster_status status =
        table->host_register(device->state, pages->memory, pages_span(pages), err);
    /* The system limits how much may be pinned, and kept pages are. */
    while (status == MUSTER_E_NO_MEMORY && evict(m))
        status = table->host_register(device->state, pages->memory, pages_span(pages), err);
    if (status != MUSTER_OK)
        return device_note(device, status, err);
    run_count(&m->counts.pages_pinned, pages_span(pages) / platform_page_bytes());
    run_lock(m);
    set_known(pages, device->index, true);
    run_unlock(m);
    return MUSTER_OK;
}

void pages_leave(struct pages *pages, struct run_device *device)
{
    struct muster *m = device->m;
    if (!pages)
        return;
    run_lock(m);
    bool must_forget = is_known_to(pages, device->index) &&
                       (!pages->may_stay || device->health >= MUSTER_HEALTH_QUARANTINED);
    if (must_forget)
        set_known(pages, device->index, false);
    run_unlock(m);
    if (must_forget)
        device->backend->table.host_unregister(device->state, pages->memory);
}

void pages_give(struct muster *m, struct pages *pages)
{
    if (!pages)
        return;
    run_lock(m);
    INVARIANT(pages->is_out);
    bool is_kept = pages->may_stay;
    remove_locked(m, pages);
    if (is_kept) {
        /* In front: the longest unused is last. */
        m->pages_bytes += pages->bytes;
        pages->next = m->pages;
        m->pages = pages;
        pages->is_out = false;
    }
    run_unlock(m);
    if (!is_kept)
        free_pages(m, pages);
}

void pages_trim(struct muster *m, uint64_t bytes)
{
    uint64_t kept;
    do {
        kept = 0;
        run_lock(m);
        for (const struct pages *at = m->pages; at; at = at->next)
            kept += at->is_out ? 0 : at->bytes;
        run_unlock(m);
    } while (kept > bytes && evict(m));
}

void pages_forget_device(struct run_device *device)
{
    struct muster *m = device->m;
    for (;;) {
        run_lock(m);
        struct pages *pages = m->pages;
        while (pages && !is_known_to(pages, device->index))
            pages = pages->next;
        if (pages)
            set_known(pages, device->index, false);
        run_unlock(m);
        if (!pages)
            return;
        device->backend->table.host_unregister(device->state, pages->memory);
    }
}

void pages_destroy(struct muster *m)
{
    while (m->pages) {
        struct pages *pages = m->pages;
        remove_locked(m, pages);
        free_pages(m, pages);
    }
    INVARIANT(m->pages_bytes == 0);
}
