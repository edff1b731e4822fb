/*
 * Pinned host memory: pages of the process, near a device's node, registered with its driver. Small
 * pieces share slabs of one size class, since registering costs far more than allocating; large
 * ones are mapped by themselves.
 */
#include "run/memory/memory.h"

#include "base/allocator.h"
#include "base/invariant.h"
#include "platform/machine.h"
#include "run/memory/host_pages.h"

#define SLAB_BYTES ((size_t)1 << 20)
#define CLASS_FIRST_BYTES ((size_t)64)
#define CLASS_LAST_BYTES (SLAB_BYTES / 4)
#define CLASS_COUNT 13

_Static_assert(CLASS_FIRST_BYTES << (CLASS_COUNT - 1) == CLASS_LAST_BYTES,
               "classes reach from first to last");

/* A mapping: a slab of equal pieces, kept once made, or one large piece. */
struct slab {
    struct slab *next;
    char *pages;
    size_t bytes;
    size_t piece_bytes; /* = bytes for a large piece */
    uint32_t used_count;
    uint64_t *used; /* a bit for each piece */
    size_t used_words;
};

static void slab_free(struct run_device *device, struct slab *slab)
{
    host_pages_unmap(device->m, slab->pages, slab->bytes, false);
    allocator_give(&device->m->allocator, slab->used, slab->used_words, sizeof *slab->used);
    allocator_give(&device->m->allocator, slab, 1, sizeof *slab);
}

void host_memory_unregister(struct run_device *device)
{
    for (struct slab *slab = device->slabs; slab; slab = slab->next)
        device->backend->table.host_unregister(device->state, slab->pages);
}

void host_memory_unmap(struct run_device *device)
{
    while (device->slabs) {
        struct slab *slab = device->slabs;
        device->slabs = slab->next;
        slab_free(device, slab);
    }
}

bool host_memory_used_by_locked(const struct run_device *device)
{
    const struct slab *slab = device->slabs;
    while (slab && slab->used_count == 0)
        slab = slab->next;
    return slab != NULL;
}

/* Maps and registers; nobody knows of it yet. */
static muster_status slab_make(struct run_device *device, size_t bytes, size_t piece_bytes,
                               struct slab **out, struct muster_error *err)
{
    struct muster *m = device->m;
    size_t words = (bytes / piece_bytes + 63) / 64;
    struct slab *slab = allocator_take(&m->allocator, 1, sizeof *slab);
    uint64_t *used = allocator_take(&m->allocator, words, sizeof *used);
    const struct platform_part part = { .bytes = bytes,
                                        .nodes = platform_node_bit(device->info.numa_node) };
    char *pages = slab && used ? host_pages_map(m, &part) : NULL;
    muster_status status = MUSTER_OK;
    if (!pages) {
        status = muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, "free memory of the process",
                                   "no host memory for %zu pinned bytes", bytes);
    } else {
        status = device->backend->table.host_register(device->state, pages, bytes, err);
        if (status != MUSTER_OK)
            host_pages_unmap(m, pages, bytes, false);
    }
    if (status != MUSTER_OK) {
        allocator_give(&m->allocator, used, words, sizeof *used);
        allocator_give(&m->allocator, slab, 1, sizeof *slab);
        return device_note(device, status, err);
    }
    *slab = (struct slab){ .pages = pages,
                           .bytes = bytes,
                           .piece_bytes = piece_bytes,
                           .used = used,
                           .used_words = words };
    *out = slab;
    return MUSTER_OK;
}

/* Takes a free piece; the slab has one. */
static void *slab_take_locked(struct slab *slab)
{
    size_t count = slab->bytes / slab->piece_bytes;
    for (size_t piece = 0; piece < count; piece++) {
        uint64_t bit = (uint64_t)1 << (piece % 64);
        if (slab->used[piece / 64] == UINT64_MAX) {
            piece |= 63; /* none in this word */
            continue;
        }
        if (slab->used[piece / 64] & bit)
            continue;
        slab->used[piece / 64] |= bit;
        slab->used_count++;
        return slab->pages + piece * slab->piece_bytes;
    }
    INVARIANT(!"a slab with a free piece has none");
    return NULL;
}

static size_t class_of(size_t bytes)
{
    size_t piece = CLASS_FIRST_BYTES;
    while (piece < bytes)
        piece *= 2;
    return piece;
}

static struct slab *find_slab_locked(const struct run_device *device, size_t piece_bytes)
{
    struct slab *slab = device->slabs;
    while (slab && (slab->piece_bytes != piece_bytes ||
                    slab->used_count == slab->bytes / slab->piece_bytes))
        slab = slab->next;
    return slab;
}

/* The device is pinned. */
static muster_status take(struct run_device *device, size_t bytes, void **out,
                          struct muster_error *err)
{
    struct muster *m = device->m;
    bool is_small = bytes <= CLASS_LAST_BYTES;
    size_t page = platform_page_bytes();
    if (bytes > SIZE_MAX - page)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL,
                                 "%zu pinned bytes exceed what this machine can give", bytes);
    size_t slab_bytes = is_small ? SLAB_BYTES : (bytes + page - 1) / page * page;
    size_t piece_bytes = is_small ? class_of(bytes) : slab_bytes;
    run_lock(m);
    struct slab *slab = is_small ? find_slab_locked(device, piece_bytes) : NULL;
    if (slab)
        *out = slab_take_locked(slab);
    run_unlock(m);
    if (slab)
        return MUSTER_OK;
    muster_status status = slab_make(device, slab_bytes, piece_bytes, &slab, err);
    if (status != MUSTER_OK)
        return status;
    run_lock(m);
    *out = slab_take_locked(slab);
    slab->next = device->slabs;
    device->slabs = slab;
    run_unlock(m);
    return MUSTER_OK;
}

muster_status muster_host_allocate(struct muster *m, muster_device handle, size_t bytes, void **out,
                                   struct muster_error *err)
{
    struct run_device *device;
    if (!m || !out || bytes == 0)
        return run_bad_argument(err, "muster_host_allocate", "an argument is NULL, or bytes is 0");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = device_pin(m, handle, &device, err);
    if (status != MUSTER_OK)
        return status;
    status = take(device, bytes, out, err);
    device_unpin(device);
    return status;
}

/*
 * The link that leads to the slab with this piece, and the piece's number; NULL if it is not out.
 */
static struct slab **find_piece_locked(struct run_device *device, const char *memory, size_t *piece)
{
    struct slab **at = &device->slabs;
    while (*at && (memory < (*at)->pages || memory >= (*at)->pages + (*at)->bytes))
        at = &(*at)->next;
    if (!*at)
        return NULL;
    size_t offset = (size_t)(memory - (*at)->pages);
    *piece = offset / (*at)->piece_bytes;
    bool is_out =
        offset % (*at)->piece_bytes == 0 && ((*at)->used[*piece / 64] >> (*piece % 64) & 1);
    return is_out ? at : NULL;
}

muster_status muster_host_free(struct muster *m, void *memory, struct muster_error *err)
{
    if (!m)
        return run_bad_argument(err, "muster_host_free", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    if (!memory)
        return MUSTER_OK;
    struct run_device *device = NULL;
    struct slab **at = NULL, *large = NULL;
    size_t piece;
    run_lock(m);
    for (uint32_t i = 0; i < m->device_count && !at; i++) {
        device = m->devices[i];
        at = find_piece_locked(device, memory, &piece);
    }
    if (at) {
        (*at)->used[piece / 64] &= ~((uint64_t)1 << (piece % 64));
        (*at)->used_count--;
        if ((*at)->piece_bytes == (*at)->bytes) {
            large = *at;
            *at = large->next;
            device->pins++;
        }
    }
    run_unlock(m);
    if (large) {
        device->backend->table.host_unregister(device->state, large->pages);
        slab_free(device, large);
        device_unpin(device);
    }
    return at ? MUSTER_OK
              : muster_error_fill(err, MUSTER_E_UNKNOWN, 0,
                                  "free what muster_host_allocate gave, once",
                                  "the memory is not pinned memory that is out");
}
