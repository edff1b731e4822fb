#include "platform/arena.h"

#include "base/allocator.h"
#include "platform/machine.h"
#include "platform/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Times the machine's memory: room where parts of all sizes come and go. Holes cost nothing. */
#define ROOM_TIMES 4u
#define ROOM_BYTES_MIN ((uint64_t)1 << 26)
#define ROOM_STEP ((uint64_t)1 << 21)
/* Of larger parts it is asked first whether the machine has so much; it would kill somebody otherwise. */
#define ASKED_FROM_BYTES ((size_t)1 << 24)

/* A part that is out. In the order of the file. */
struct part {
    struct part *next;
    uint64_t offset;
    size_t bytes;
    char *view;
    bool is_ring;
};

struct platform_arena {
    const struct muster_allocator *allocator; /* borrows */
    struct platform_mutex lock;
    int file;
    uint64_t bytes;
    char *memory; /* the whole file; what is not out cannot be touched */
    struct part *parts;
};

/* As much as the limits on files and addresses allow, so that none ends the process. */
static uint64_t room_allowed(void)
{
    uint64_t total, available, room;
    struct rlimit limit;
    platform_memory(&total, &available);
    room = total * ROOM_TIMES;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < room)
        room = limit.rlim_cur;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur / 2 < room)
        room = limit.rlim_cur / 2;
    return room / ROOM_STEP * ROOM_STEP;
}

static muster_status say_none(const char *what, int code, struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_NO_MEMORY, code,
                             "raise the limits on file size and address space (ulimit -f, -v)",
                             "%s: %s", what, strerror(code));
}

static muster_status open_file(struct platform_arena *arena, struct muster_error *err)
{
    arena->file = memfd_create("muster-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (arena->file < 0)
        return say_none("no file in memory", errno, err);
    if (ftruncate(arena->file, (off_t)arena->bytes) != 0 ||
        fcntl(arena->file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return say_none("a file in memory cannot be made", errno, err);
    return MUSTER_OK;
}

/* Addresses may be short where files are not. */
static muster_status map_file(struct platform_arena *arena, struct muster_error *err)
{
    void *memory = mmap(NULL, arena->bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, arena->file, 0);
    if (memory == MAP_FAILED)
        return say_none("a file in memory cannot be mapped", errno, err);
    arena->memory = memory;
    return MUSTER_OK;
}

muster_status platform_arena_create(const struct muster_allocator *allocator,
                                    struct platform_arena **out, struct muster_error *err)
{
    uint64_t room = room_allowed();
    if (room < ROOM_BYTES_MIN)
        return say_none("shared memory is limited", EFBIG, err);
    struct platform_arena *arena = allocator_take(allocator, 1, sizeof *arena);
    if (!arena)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for shared memory");
    *arena = (struct platform_arena){ .allocator = allocator, .file = -1, .bytes = room };
    muster_status status = platform_mutex_init(&arena->lock, err);
    if (status != MUSTER_OK) {
        allocator_give(allocator, arena, 1, sizeof *arena);
        return status;
    }
    status = open_file(arena, err);
    if (status == MUSTER_OK)
        status = map_file(arena, err);
    if (status != MUSTER_OK) {
        platform_arena_destroy(arena);
        return status;
    }
    *out = arena;
    return MUSTER_OK;
}

void platform_arena_destroy(struct platform_arena *arena)
{
    if (!arena)
        return;
    bool is_used = arena->parts != NULL;
    while (arena->parts) {
        struct part *part = arena->parts;
        arena->parts = part->next;
        allocator_give(arena->allocator, part, 1, sizeof *part);
    }
    if (arena->memory && !is_used)
        munmap(arena->memory, arena->bytes);
    if (arena->file >= 0)
        close(arena->file);
    platform_mutex_deinit(&arena->lock);
    allocator_give(arena->allocator, arena, 1, sizeof *arena);
}

int platform_arena_file(const struct platform_arena *arena)
{
    return arena->file;
}

uint64_t platform_arena_bytes(const struct platform_arena *arena)
{
    return arena->bytes;
}

/* Sees the part twice. The range is taken as a whole first, so that nobody maps something in between. */
static char *map_ring(const struct platform_arena *arena, const struct part *part)
{
    size_t bytes = part->bytes;
    char *ring =
        mmap(NULL, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ring == MAP_FAILED)
        return NULL;
    for (size_t at = 0; at < 2 * bytes; at += bytes)
        if (mmap(ring + at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, arena->file,
                 (off_t)part->offset) != ring + at) {
            munmap(ring, 2 * bytes);
            return NULL;
        }
    return ring;
}

/* The link after which the first hole of that size begins; NULL if there is none. */
static struct part **find_hole_locked(struct platform_arena *arena, size_t bytes, uint64_t *offset)
{
    struct part **at = &arena->parts;
    *offset = 0;
    while (*at && (*at)->offset - *offset < bytes) {
        *offset = (*at)->offset + (*at)->bytes;
        at = &(*at)->next;
    }
    return *at || arena->bytes - *offset >= bytes ? at : NULL;
}

static void remove_locked(struct platform_arena *arena, struct part *part)
{
    struct part **at = &arena->parts;
    while (*at != part)
        at = &(*at)->next;
    *at = part->next;
}

/* A hole again. A thread that still looks at it here gets a signal, as after munmap. */
static void make_hole(const struct platform_arena *arena, const struct part *part, char *view)
{
    if (part->is_ring)
        munmap(view, 2 * part->bytes);
    else
        mprotect(view, part->bytes, PROT_NONE);
    (void)!fallocate(arena->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)part->offset,
                     (off_t)part->bytes);
}

/* The pages come to be. Their nodes are said before that. NULL: there are none. */
static char *fill_hole(const struct platform_arena *arena, const struct part *part,
                       const struct platform_part *want)
{
    char *view = part->is_ring ? map_ring(arena, part) : arena->memory + part->offset;
    if (!view)
        return NULL;
    bool is_seen = part->is_ring || mprotect(view, part->bytes, PROT_READ | PROT_WRITE) == 0;
    int result = is_seen ? 0 : -1;
    if (is_seen) {
        platform_pages_place(view, part->bytes, want->nodes);
        if (want->is_large)
            platform_pages_prefer_large(view, part->bytes);
        do
            result = fallocate(arena->file, FALLOC_FL_KEEP_SIZE, (off_t)part->offset,
                               (off_t)part->bytes);
        while (result != 0 && errno == EINTR);
    }
    if (result == 0)
        return view;
    make_hole(arena, part, view);
    return NULL;
}

static bool machine_has(size_t bytes)
{
    uint64_t total, available;
    if (bytes < ASKED_FROM_BYTES)
        return true;
    platform_memory(&total, &available);
    return bytes <= available;
}

void *platform_arena_take(struct platform_arena *arena, const struct platform_part *want)
{
    uint64_t offset;
    if (want->bytes > arena->bytes || !machine_has(want->bytes))
        return NULL;
    struct part *part = allocator_take(arena->allocator, 1, sizeof *part);
    if (!part)
        return NULL;
    platform_mutex_lock(&arena->lock);
    struct part **at = find_hole_locked(arena, want->bytes, &offset);
    if (at) {
        *part = (struct part){
            .next = *at, .offset = offset, .bytes = want->bytes, .is_ring = want->is_ring
        };
        *at = part;
    }
    platform_mutex_unlock(&arena->lock);
    char *view = at ? fill_hole(arena, part, want) : NULL;
    platform_mutex_lock(&arena->lock);
    if (view)
        part->view = view;
    else if (at)
        remove_locked(arena, part);
    platform_mutex_unlock(&arena->lock);
    if (!view)
        allocator_give(arena->allocator, part, 1, sizeof *part);
    return view;
}

bool platform_arena_give(struct platform_arena *arena, void *memory)
{
    platform_mutex_lock(&arena->lock);
    struct part *part = arena->parts;
    while (part && part->view != memory)
        part = part->next;
    platform_mutex_unlock(&arena->lock);
    if (!part)
        return false;
    /* Nobody takes the place before it is a hole. */
    make_hole(arena, part, memory);
    platform_mutex_lock(&arena->lock);
    remove_locked(arena, part);
    platform_mutex_unlock(&arena->lock);
    allocator_give(arena->allocator, part, 1, sizeof *part);
    return true;
}

/* The part that these bytes are of, as they are seen. */
static const struct part *find_part_locked(const struct platform_arena *arena, const char *memory,
                                           uint64_t bytes)
{
    const struct part *part = arena->parts;
    for (; part; part = part->next) {
        uint64_t seen = part->is_ring ? 2 * (uint64_t)part->bytes : part->bytes;
        uint64_t at = (uint64_t)((uintptr_t)memory - (uintptr_t)part->view);
        if (part->view && at < seen && bytes <= seen - at)
            return part;
    }
    return NULL;
}

uint64_t platform_arena_find(struct platform_arena *arena, const void *memory, uint64_t bytes,
                             uint64_t *offset)
{
    uint64_t together = 0;
    platform_mutex_lock(&arena->lock);
    const struct part *part = find_part_locked(arena, memory, bytes);
    if (part) {
        uint64_t at = (uint64_t)((uintptr_t)memory - (uintptr_t)part->view) % part->bytes;
        together = bytes < part->bytes - at ? bytes : part->bytes - at;
        *offset = part->offset + at;
    }
    platform_mutex_unlock(&arena->lock);
    return together;
}
