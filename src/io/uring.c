/*
 * io_uring, by its system calls alone. The rings belong to the file; requests are given and taken
 * with the file's lock, and one thread at a time waits for completions without it.
 *
 * Memory of jobs is registered with the kernel as it is seen, so that its pages need not be looked
 * up for each request: in aligned chunks that a transfer covers as a whole, since only of these it
 * is certain that all of them is there. It is forgotten when the job's memory goes: the kernel
 * would otherwise go on with pages that are no longer behind those addresses.
 */
#include "io/file.h"

#include "base/allocator.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * The kernel answers none of its requests for so long: it may have no thread for them. In two
 * halves, since a process that was stopped finds that one is over.
 */
#define STUCK_MS 1000
/* The end of a thread cancels what it gave; so often in a row, there is another reason. */
#define CANCELLED_MAX 4u
#define TAKEN_BACK UINT64_MAX /* the number of a request that takes back another */
#define CHUNK_BYTES ((uintptr_t)1 << 20)
#define CHUNKS_MAX 1024u /* 1 GiB of a file's jobs */
#define PLACES 4096u     /* of the table that finds them; a power of two, so that it stays sparse */
_Static_assert(PLACES >= 4 * CHUNKS_MAX && (PLACES & (PLACES - 1)) == 0, "the table stays sparse");
_Static_assert(CHUNK_BYTES % PAGE_BYTES == 0, "a chunk ends where a page does");

struct io_fixed {
    uintptr_t chunks[CHUNKS_MAX]; /* where each begins */
    uint32_t count;
    uint16_t places[PLACES]; /* the chunk's number + 1; 0: none */
    bool is_full;            /* the kernel takes no more, or we do not */
};

static int setup(uint32_t entries, struct io_uring_params *params)
{
    return (int)syscall(__NR_io_uring_setup, entries, params);
}

static int enter(int descriptor, uint32_t submit, uint32_t complete, uint32_t flags)
{
    return (int)syscall(__NR_io_uring_enter, descriptor, submit, complete, flags, NULL, 0);
}

static int tell_kernel(int descriptor, uint32_t operation, void *argument, uint32_t count)
{
    return (int)syscall(__NR_io_uring_register, descriptor, operation, argument, count);
}

/* The requests that are made here came later than the interface itself. */
static bool has_operations(int descriptor)
{
    uint64_t room[(sizeof(struct io_uring_probe) +
                   (IORING_OP_WRITE + 1) * sizeof(struct io_uring_probe_op)) /
                  sizeof(uint64_t)];
    const struct io_uring_probe *probe = (const void *)room;
    memset(room, 0, sizeof room);
    return tell_kernel(descriptor, IORING_REGISTER_PROBE, room, IORING_OP_WRITE + 1) == 0 &&
           probe->last_op >= IORING_OP_WRITE &&
           (probe->ops[IORING_OP_READ].flags & IO_URING_OP_SUPPORTED) &&
           (probe->ops[IORING_OP_WRITE].flags & IO_URING_OP_SUPPORTED);
}

static bool map_rings(struct io_uring_rings *uring, const struct io_uring_params *params)
{
    size_t sq = params->sq_off.array + params->sq_entries * sizeof(uint32_t);
    size_t cq = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
    uring->rings_bytes = sq > cq ? sq : cq;
    uring->entries_bytes = params->sq_entries * sizeof(struct io_uring_sqe);
    void *rings = mmap(NULL, uring->rings_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                       uring->descriptor, IORING_OFF_SQ_RING);
    if (rings == MAP_FAILED)
        return false;
    void *entries = mmap(NULL, uring->entries_bytes, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_POPULATE, uring->descriptor, IORING_OFF_SQES);
    if (entries == MAP_FAILED) {
        munmap(rings, uring->rings_bytes);
        return false;
    }
    uring->rings = rings;
    uring->entries = entries;
    uring->sq_head = (_Atomic uint32_t *)(void *)(uring->rings + params->sq_off.head);
    uring->sq_tail = (_Atomic uint32_t *)(void *)(uring->rings + params->sq_off.tail);
    uring->sq_array = (uint32_t *)(void *)(uring->rings + params->sq_off.array);
    uring->sq_mask = params->sq_entries - 1;
    uring->cq_head = (_Atomic uint32_t *)(void *)(uring->rings + params->cq_off.head);
    uring->cq_tail = (_Atomic uint32_t *)(void *)(uring->rings + params->cq_off.tail);
    uring->cqes = uring->rings + params->cq_off.cqes;
    uring->cq_mask = params->cq_entries - 1;
    return true;
}

/*
 * Where memory can be registered bit by bit; else it is not, which costs some time and nothing
 * more.
 */
static void prepare_fixed(struct io_file *file)
{
    struct io_uring_rings *uring = &file->uring;
#ifdef IORING_RSRC_REGISTER_SPARSE
    struct io_uring_rsrc_register table = { .nr = CHUNKS_MAX,
                                            .flags = IORING_RSRC_REGISTER_SPARSE };
    if (tell_kernel(uring->descriptor, IORING_REGISTER_BUFFERS2, &table, sizeof table) == 0)
        uring->fixed = allocator_take(&file->allocator, 1, sizeof *uring->fixed);
#else
    (void)uring;
#endif
}

bool uring_open(struct io_file *file, char *why, size_t why_bytes)
{
    struct io_uring_rings *uring = &file->uring;
    struct io_uring_params params;
    memset(&params, 0, sizeof params);
    uring->descriptor = setup(file->options.depth, &params);
    if (uring->descriptor < 0) {
        const char *hint = errno == ENOSYS  ? " (the kernel has none)"
                           : errno == EPERM ? " (kernel.io_uring_disabled, or a filter of calls)"
                                            : "";
        snprintf(why, why_bytes, "io_uring is refused: %s%s", strerror(errno), hint);
        return false;
    }
    if (!(params.features & IORING_FEAT_SINGLE_MMAP) || !has_operations(uring->descriptor))
        snprintf(why, why_bytes, "this kernel's io_uring is too old");
    else if (!map_rings(uring, &params))
        snprintf(why, why_bytes, "io_uring's rings cannot be mapped: %s", strerror(errno));
    else {
        prepare_fixed(file);
        return true;
    }
    close(uring->descriptor);
    uring->descriptor = -1;
    return false;
}

void uring_close(struct io_file *file)
{
    struct io_uring_rings *uring = &file->uring;
    if (uring->descriptor < 0)
        return;
    munmap(uring->entries, uring->entries_bytes);
    munmap(uring->rings, uring->rings_bytes);
    close(uring->descriptor);
    uring->descriptor = -1;
    if (uring->fixed)
        allocator_give(&file->allocator, uring->fixed, 1, sizeof *uring->fixed);
    uring->fixed = NULL;
}

static struct io_uring_sqe *next_entry(const struct io_uring_rings *uring)
{
    /* Only this side writes the tail. */
    uint32_t tail = atomic_load_explicit(uring->sq_tail, memory_order_relaxed);
    struct io_uring_sqe *entry = (struct io_uring_sqe *)uring->entries + (tail & uring->sq_mask);
    memset(entry, 0, sizeof *entry);
    return entry;
}

static void add_entry(struct io_uring_rings *uring)
{
    uint32_t tail = atomic_load_explicit(uring->sq_tail, memory_order_relaxed);
    uring->sq_array[tail & uring->sq_mask] = tail & uring->sq_mask;
    /* Release: the kernel reads the tail before the entry. */
    atomic_store_explicit(uring->sq_tail, tail + 1, memory_order_release);
    uring->unsubmitted++;
}

void uring_give_locked(struct io_file *file, struct io_piece *piece)
{
    struct io_uring_rings *uring = &file->uring;
    struct io_uring_sqe *entry = next_entry(uring);
    if (piece->fixed >= 0) {
        entry->opcode = file->is_write ? IORING_OP_WRITE_FIXED : IORING_OP_READ_FIXED;
        entry->buf_index = (uint16_t)piece->fixed;
    } else {
        entry->opcode = file->is_write ? IORING_OP_WRITE : IORING_OP_READ;
    }
    /*
     * Through the cache a request would be tried at once, and then again for every page that has
     * arrived; a thread of the kernel's that waits is several times cheaper (bench/files).
     */
    entry->flags = piece->is_direct ? 0 : IOSQE_ASYNC;
    entry->fd = piece->is_direct ? file->direct : file->descriptor;
    entry->addr = (uint64_t)(uintptr_t)piece->memory;
    entry->len = (uint32_t)piece->bytes;
    entry->off = piece->offset;
    entry->user_data = (uint64_t)(piece - file->pieces);
    add_entry(uring);
    uring->given++;
}

/* The kernel takes none of them, now or ever. */
static void fail_unsubmitted_locked(struct io_file *file, int code)
{
    struct io_uring_rings *uring = &file->uring;
    uint32_t tail = atomic_load_explicit(uring->sq_tail, memory_order_relaxed);
    while (uring->unsubmitted > 0) {
        const struct io_uring_sqe *entry =
            (struct io_uring_sqe *)uring->entries + (--tail & uring->sq_mask);
        uring->unsubmitted--;
        atomic_store_explicit(uring->sq_tail, tail, memory_order_release);
        if (entry->user_data == TAKEN_BACK)
            continue;
        struct io_piece *piece = &file->pieces[entry->user_data];
        uring->given--;
        transfer_fail_locked(file, code, piece->offset);
        transfer_piece_done_locked(file, piece);
    }
}

void uring_flush_locked(struct io_file *file)
{
    struct io_uring_rings *uring = &file->uring;
    for (uint32_t tries = 0; uring->unsubmitted > 0;) {
        int taken = enter(uring->descriptor, uring->unsubmitted, 0, 0);
        if (taken > 0) {
            uring->unsubmitted -= (uint32_t)taken;
            tries = 0;
            continue;
        }
        bool may_pass = taken == 0 || errno == EINTR || errno == EAGAIN || errno == EBUSY;
        if (!may_pass || tries++ > PUT_OFF_MAX) {
            fail_unsubmitted_locked(file, taken < 0 ? errno : EAGAIN);
            return;
        }
        /* The system is short of something that others hold. */
        if (errno != EINTR)
            platform_thread_yield();
    }
}

/*
 * Requests that are not done at once wait for a thread of the kernel's. Where a limit on threads
 * allows none, the kernel answers them with ECANCELED, or they wait for ever.
 */
static void be_stuck_locked(struct io_file *file)
{
    if (!file->uring.is_stuck)
        snprintf(file->why, sizeof file->why,
                 "the kernel refused io_uring a thread; a limit on threads may be the reason");
    file->uring.is_stuck = true;
}

/* Takes one completion; false if there is none. */
static bool take_locked(struct io_file *file)
{
    struct io_uring_rings *uring = &file->uring;
    uint32_t head = atomic_load_explicit(uring->cq_head, memory_order_relaxed);
    /* Acquire: what the kernel wrote before it moved the tail is seen. */
    if (head == atomic_load_explicit(uring->cq_tail, memory_order_acquire))
        return false;
    const struct io_uring_cqe *entry = (struct io_uring_cqe *)uring->cqes + (head & uring->cq_mask);
    uint64_t number = entry->user_data;
    int64_t answer = entry->res;
    /* Release: the kernel may overwrite it from now on. */
    atomic_store_explicit(uring->cq_head, head + 1, memory_order_release);
    if (number == TAKEN_BACK)
        return true;
    struct io_piece *piece = &file->pieces[number];
    uring->given--;
    bool is_unfinished = transfer_advance_locked(file, piece, answer);
    if (answer == -ECANCELED && piece->put_off >= CANCELLED_MAX)
        be_stuck_locked(file);
    if (!is_unfinished)
        transfer_piece_done_locked(file, piece);
    else if (uring->is_stuck)
        workers_give_locked(file, piece);
    else
        uring_give_locked(file, piece);
    return true;
}

/* Requests that have not begun are answered with ECANCELED, and callers make them themselves. */
static void take_back_locked(struct io_file *file)
{
    struct io_uring_rings *uring = &file->uring;
    be_stuck_locked(file);
    for (uint32_t i = 0; i < file->options.depth; i++) {
        struct io_uring_sqe *entry = next_entry(uring);
        entry->opcode = IORING_OP_ASYNC_CANCEL;
        entry->fd = -1;
        entry->addr = i;
        entry->user_data = TAKEN_BACK;
        add_entry(uring);
        uring_flush_locked(file);
        /* Their own answers must not fill the ring. */
        while (take_locked(file))
            continue;
    }
}

void uring_reap_locked(struct io_file *file, bool may_wait)
{
    struct pollfd ready = { .fd = file->uring.descriptor, .events = POLLIN };
    bool has_any = false;
    while (take_locked(file))
        has_any = true;
    uring_flush_locked(file);
    if (has_any || !may_wait || file->uring.given == 0)
        return;
    file->is_reaping = true;
    platform_mutex_unlock(&file->lock);
    /* A signal that interrupts it is the caller's next round. */
    /* NOLINTNEXTLINE(misc-redundant-expression): each look waits for half of the time. */
    bool is_late = poll(&ready, 1, STUCK_MS / 2) == 0 && poll(&ready, 1, STUCK_MS / 2) == 0;
    platform_mutex_lock(&file->lock);
    file->is_reaping = false;
    if (is_late)
        take_back_locked(file);
    while (take_locked(file))
        continue;
    uring_flush_locked(file);
}

/* Registered memory. */

static uint32_t place_of(uintptr_t chunk)
{
    return (uint32_t)((uint64_t)(chunk / CHUNK_BYTES) * UINT64_C(0x9E3779B97F4A7C15) >> 32) &
           (PLACES - 1);
}

/* The chunk's number; -1 if it is not registered, and then `*place` is where it would stand. */
static int find_chunk(const struct io_fixed *fixed, uintptr_t chunk, uint32_t *place)
{
    for (*place = place_of(chunk); fixed->places[*place] != 0;
         *place = (*place + 1) & (PLACES - 1)) {
        int number = fixed->places[*place] - 1;
        if (fixed->chunks[number] == chunk)
            return number;
    }
    return -1;
}

static bool update(struct io_file *file, uint32_t first, struct iovec *memory, uint32_t count)
{
    struct io_uring_rsrc_update2 change = { .offset = first,
                                            .data = (uint64_t)(uintptr_t)memory,
                                            .nr = count };
    return tell_kernel(file->uring.descriptor, IORING_REGISTER_BUFFERS_UPDATE, &change,
                       sizeof change) >= 0;
}

static int add_chunk_locked(struct io_file *file, uintptr_t chunk, uint32_t place)
{
    struct io_fixed *fixed = file->uring.fixed;
    struct iovec memory = { .iov_base = (void *)chunk, .iov_len = CHUNK_BYTES };
    if (fixed->is_full)
        return -1;
    if (fixed->count == CHUNKS_MAX || !update(file, fixed->count, &memory, 1)) {
        /* The limit on locked memory, as a rule. What is registered stays. */
        fixed->is_full = true;
        return -1;
    }
    fixed->chunks[fixed->count] = chunk;
    fixed->places[place] = (uint16_t)(fixed->count + 1);
    if ((fixed->count + 1) * (uint64_t)CHUNK_BYTES > file->memory_fixed)
        file->memory_fixed = (fixed->count + 1) * (uint64_t)CHUNK_BYTES;
    return (int)fixed->count++;
}

void uring_fix_locked(struct io_file *file, struct io_piece *piece)
{
    struct io_fixed *fixed = file->uring.fixed;
    const struct io_span *lasting = &piece->transfer->lasting;
    uintptr_t at = (uintptr_t)piece->memory, chunk = at & ~(CHUNK_BYTES - 1), end;
    uint32_t place;
    /*
     * Where memory and file do not share their pages' borders, no cut at a chunk's end is direct.
     */
    if (!fixed || !piece->is_direct || at % PAGE_BYTES != 0)
        return;
    end = (uintptr_t)lasting->begin + lasting->bytes;
    piece->fixed = find_chunk(fixed, chunk, &place);
    if (piece->fixed < 0 && (uintptr_t)lasting->begin <= chunk && end - chunk >= CHUNK_BYTES)
        piece->fixed = add_chunk_locked(file, chunk, place);
    if (piece->bytes > chunk + CHUNK_BYTES - at)
        piece->bytes = chunk + CHUNK_BYTES - at;
}

void uring_forget_memory_locked(struct io_file *file)
{
    struct io_fixed *fixed = file->uring.fixed;
    struct iovec none[64];
    if (file->engine != IO_URING || !fixed)
        return;
    /* What is given again must not name them; what the kernel has, it has. */
    for (uint32_t i = 0; i < file->options.depth; i++)
        file->pieces[i].fixed = -1;
    memset(none, 0, sizeof none);
    for (uint32_t first = 0; first < fixed->count; first += 64) {
        uint32_t count = fixed->count - first < 64 ? fixed->count - first : 64;
        if (update(file, first, none, count))
            continue;
        /* Never again with these numbers. */
        allocator_give(&file->allocator, fixed, 1, sizeof *fixed);
        file->uring.fixed = NULL;
        return;
    }
    memset(fixed, 0, sizeof *fixed);
}
