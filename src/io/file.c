/*
 * Reading and writing a file in order, and its end.
 */
#include "io/file.h"

#include "base/allocator.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Room that is reserved ahead of writes whose end is not known. */
#define RESERVE_MIN ((uint64_t)64 << 20)
#define RESERVE_MAX ((uint64_t)1 << 30)
/* What the system is told that will be read next. */
#define HINT_BYTES ((uint64_t)64 << 20)

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Reading. */

/* The input has come to the end it had when it was opened. */
static void note_growth(struct io_file *file)
{
    struct stat facts;
    if (fstat(file->descriptor, &facts) != 0 || !S_ISREG(facts.st_mode))
        return;
    platform_mutex_lock(&file->lock);
    if ((uint64_t)facts.st_size > file->size)
        file->grown_bytes = (uint64_t)facts.st_size - file->size;
    platform_mutex_unlock(&file->lock);
}

/* What the cache is to have next, while the caller works on this. */
static void hint(const struct io_file *file, uint64_t offset)
{
    if (file->direct < 0 && offset < file->size)
        posix_fadvise(file->descriptor, (off_t)offset,
                      (off_t)min_u64(HINT_BYTES, file->size - offset), POSIX_FADV_WILLNEED);
}

/* Bytes at an offset that are there. */
static size_t count_at(const struct io_file *file, uint64_t offset, size_t bytes)
{
    return (size_t)min_u64(bytes, offset < file->size ? file->size - offset : 0);
}

muster_status io_read_at(struct io_file *file, uint64_t offset, void *to, size_t bytes, size_t *got,
                         struct muster_error *err)
{
    size_t count = count_at(file, offset, bytes);
    muster_status status = transfer_run(file, offset, to, count, (struct io_span){ NULL, 0 });
    if (status != MUSTER_OK)
        return io_failure(file, err);
    *got = count;
    return MUSTER_OK;
}

muster_status io_read_part(struct io_file *file, uint64_t offset, void *to, size_t bytes,
                           struct io_span lasting, size_t *got, struct muster_error *err)
{
    size_t count = count_at(file, offset, bytes);
    uint64_t end = offset + count;
    muster_status status = transfer_run(file, offset, to, count, lasting);
    if (status != MUSTER_OK)
        return io_failure(file, err);
    platform_mutex_lock(&file->lock);
    file->position = end > file->position ? end : file->position;
    platform_mutex_unlock(&file->lock);
    /* Parts are small: the cache is told twice in each stretch that it is told of. */
    if (count > 0 && end == file->size)
        note_growth(file);
    else if (offset / (HINT_BYTES / 2) != end / (HINT_BYTES / 2))
        hint(file, end);
    *got = count;
    return MUSTER_OK;
}

static muster_status read_next(struct io_file *file, void *to, size_t bytes, bool is_lasting,
                               size_t *got)
{
    size_t count = (size_t)min_u64(bytes, file->size - file->position);
    muster_status status = transfer_run(file, file->position, to, count,
                                        (struct io_span){ to, is_lasting ? count : 0 });
    if (status != MUSTER_OK)
        return status;
    platform_mutex_lock(&file->lock);
    file->position += count;
    platform_mutex_unlock(&file->lock);
    if (file->position == file->size)
        note_growth(file);
    else
        hint(file, file->position);
    *got = count;
    return MUSTER_OK;
}

muster_status io_read(struct io_file *file, void *to, size_t bytes, size_t enough, size_t *got,
                      struct muster_error *err)
{
    size_t count = 0;
    muster_status status = file->engine == IO_STREAM
                               ? stream_read(file, to, bytes, enough, &count)
                               : read_next(file, to, bytes, enough > 0, &count);
    if (status != MUSTER_OK)
        return io_failure(file, err);
    *got = count;
    return MUSTER_OK;
}

/* Writing. */

int file_reserve(const struct io_file *file, uint64_t begin, uint64_t end)
{
    uint32_t tries = 0;
    while (fallocate(file->descriptor, 0, (off_t)begin, (off_t)(end - begin)) != 0)
        if (errno != EINTR || tries++ >= PUT_OFF_MAX)
            return errno;
    return 0;
}

void file_reserve_locked(struct io_file *file, uint64_t end)
{
    if (!file->can_reserve || end <= file->reserved)
        return;
    uint64_t ahead =
        file->reserved < RESERVE_MIN ? RESERVE_MIN : min_u64(file->reserved, RESERVE_MAX);
    uint64_t until = end + ahead;
    file->can_reserve = until < INT64_MAX && file_reserve(file, file->reserved, until) == 0;
    if (file->can_reserve)
        file->reserved = until;
}

/* At the end of what was written, in one go. */
static muster_status write_through(struct io_file *file, const void *from, size_t bytes,
                                   uint64_t offset)
{
    if (file->engine == IO_STREAM)
        return stream_write(file, from, bytes);
    platform_mutex_lock(&file->lock);
    file_reserve_locked(file, offset + bytes);
    platform_mutex_unlock(&file->lock);
    /* It is only read from: reading and writing share one kind of request. */
    return transfer_run(file, offset, (void *)(uintptr_t)from, bytes, (struct io_span){ NULL, 0 });
}

static muster_status flush(struct io_file *file)
{
    size_t bytes = file->gathered;
    file->gathered = 0;
    return bytes > 0 ? write_through(file, file->gather, bytes, file->end - bytes) : MUSTER_OK;
}

/* Small ones together; the end counts them at once. */
static muster_status append(struct io_file *file, const void *from, size_t bytes)
{
    muster_status status = MUSTER_OK;
    if (file->gathered + bytes > GATHER_BYTES)
        status = flush(file);
    if (status != MUSTER_OK)
        return status;
    if (!file->gather && bytes < GATHER_BYTES)
        file->gather = allocator_take(&file->allocator, GATHER_BYTES, 1);
    bool is_gathered = file->gather && bytes < GATHER_BYTES;
    platform_mutex_lock(&file->lock);
    uint64_t offset = file->end;
    file->end += bytes;
    file->copied_by_muster += is_gathered ? bytes : 0;
    platform_mutex_unlock(&file->lock);
    if (!is_gathered)
        return write_through(file, from, bytes, offset);
    memcpy(file->gather + file->gathered, from, bytes);
    file->gathered += bytes;
    return MUSTER_OK;
}

muster_status io_write(struct io_file *file, const void *from, size_t bytes,
                       struct muster_error *err)
{
    struct io_guard guard;
    muster_status status = io_failure(file, err);
    if (status != MUSTER_OK || bytes == 0)
        return status;
    guard_begin(&guard);
    status = append(file, from, bytes);
    guard_end(&guard);
    return status == MUSTER_OK ? MUSTER_OK : io_failure(file, err);
}

muster_status io_flush(struct io_file *file, struct muster_error *err)
{
    struct io_guard guard;
    guard_begin(&guard);
    muster_status status = flush(file);
    guard_end(&guard);
    return status == MUSTER_OK ? MUSTER_OK : io_failure(file, err);
}

/* The end. */

/* Nothing of the engine is left: all that it had is done. */
static void close_engine(struct io_file *file)
{
    io_settle(file);
    if (file->engine == IO_URING)
        uring_close(file);
    if (file->engine == IO_WORKERS)
        workers_close(file);
    if (file->direct >= 0)
        close(file->direct);
    file->direct = -1;
}

/* What was reserved beyond the end goes. */
static muster_status cut(struct io_file *file, struct muster_error *err)
{
    if (file->reserved <= file->end || ftruncate(file->descriptor, (off_t)file->end) == 0) {
        file->reserved = 0;
        return MUSTER_OK;
    }
    platform_mutex_lock(&file->lock);
    transfer_fail_locked(file, errno, file->end);
    platform_mutex_unlock(&file->lock);
    platform_aside_discard(&file->aside);
    return io_failure(file, err);
}

/* With `is_last` in its place, else all but that. */
static muster_status put_aside(struct io_file *file, bool is_last, struct muster_error *err)
{
    struct muster_error problem;
    muster_status status = cut(file, err);
    if (status != MUSTER_OK)
        return status;
    status = is_last ? platform_aside_commit(&file->aside, &problem)
                     : platform_aside_prepare(&file->aside, &problem);
    return status == MUSTER_OK ? MUSTER_OK : io_fail(file, &problem, err);
}

/* Waits for all that is being written. */
static muster_status settle(struct io_file *file, struct muster_error *err)
{
    if (io_failure(file, NULL) == MUSTER_OK)
        io_flush(file, NULL);
    io_settle(file);
    return io_failure(file, err);
}

muster_status io_prepare(struct io_file *file, struct muster_error *err)
{
    struct io_guard guard;
    if (!file->is_write || file->is_finished)
        return io_failure(file, err);
    guard_begin(&guard);
    muster_status status = settle(file, err);
    if (file->is_aside && status == MUSTER_OK) {
        status = put_aside(file, false, err);
        file->descriptor = -1;
        /* A failure has discarded it. */
        file->is_finished = status != MUSTER_OK;
    }
    guard_end(&guard);
    return status;
}

muster_status io_finish(struct io_file *file, struct muster_error *err)
{
    struct io_guard guard;
    if (!file->is_write || file->is_finished)
        return io_failure(file, err);
    guard_begin(&guard);
    muster_status status = settle(file, err);
    file->is_finished = true;
    if (file->is_aside && status == MUSTER_OK)
        status = put_aside(file, true, err);
    else if (file->is_aside)
        platform_aside_discard(&file->aside);
    if (file->is_aside)
        file->descriptor = -1;
    guard_end(&guard);
    return status;
}

void io_close(struct io_file *file)
{
    struct io_guard guard;
    if (!file)
        return;
    guard_begin(&guard);
    close_engine(file);
    if (file->gives_back && !file->is_write && file->descriptor >= 0)
        lseek(file->descriptor, (off_t)file->position, SEEK_SET);
    if (file->is_aside && !file->is_finished)
        platform_aside_discard(&file->aside);
    else if (file->is_owner && file->descriptor >= 0)
        close(file->descriptor);
    guard_end(&guard);
    close(file->wake);
    platform_condition_deinit(&file->changed);
    platform_mutex_deinit(&file->lock);
    struct muster_allocator allocator = file->allocator;
    if (file->gather)
        allocator_give(&allocator, file->gather, GATHER_BYTES, 1);
    allocator_give(&allocator, file->pieces, file->options.depth, sizeof *file->pieces);
    allocator_give(&allocator, file->name, file->name_bytes, 1);
    allocator_give(&allocator, file, 1, sizeof *file);
}

/* What there is to ask. */

bool io_is_stream(const struct io_file *file)
{
    return file->engine == IO_STREAM;
}

const char *io_name(const struct io_file *file)
{
    return file->name;
}

uint64_t io_left(struct io_file *file)
{
    platform_mutex_lock(&file->lock);
    uint64_t left = file->engine == IO_STREAM ? UINT64_MAX : file->size - file->position;
    platform_mutex_unlock(&file->lock);
    return left;
}

uint64_t io_position(struct io_file *file)
{
    platform_mutex_lock(&file->lock);
    uint64_t position = file->position;
    platform_mutex_unlock(&file->lock);
    return position;
}

uint64_t io_end(struct io_file *file)
{
    platform_mutex_lock(&file->lock);
    uint64_t end = file->end;
    platform_mutex_unlock(&file->lock);
    return end;
}

muster_status io_failure(struct io_file *file, struct muster_error *err)
{
    platform_mutex_lock(&file->lock);
    if (atomic_load_explicit(&file->is_cancelled, memory_order_relaxed))
        transfer_cancelled_locked(file);
    muster_status status = transfer_failure_locked(file, err);
    platform_mutex_unlock(&file->lock);
    return status;
}

muster_status io_fail(struct io_file *file, const struct muster_error *problem,
                      struct muster_error *err)
{
    platform_mutex_lock(&file->lock);
    if (file->failure.status == MUSTER_OK)
        file->failure = *problem;
    platform_mutex_unlock(&file->lock);
    return io_failure(file, err);
}

void io_cancel(struct io_file *file)
{
    uint64_t one = 1;
    atomic_store_explicit(&file->is_cancelled, true, memory_order_relaxed);
    /* It is readable from now on, whatever the write says: a full counter is readable too. */
    while (write(file->wake, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

void io_forget_memory(struct io_file *file)
{
    platform_mutex_lock(&file->lock);
    uring_forget_memory_locked(file);
    platform_mutex_unlock(&file->lock);
}

static const char *engine_name(const struct io_file *file)
{
    /* Not what could be, where nothing lay as direct requests need it. */
    bool is_direct = file->direct >= 0 && file->memory_align != SIZE_MAX &&
                     (file->bytes == 0 || file->copied_by_system < file->bytes);
    switch (file->engine) {
    case IO_STREAM:
        return "pipe";
    case IO_URING:
        if (file->uring.is_stuck)
            return "plain calls";
        return is_direct ? "io_uring direct" : "io_uring";
    default:
        if (file->workers.count == 0)
            return "plain calls";
        return is_direct ? "threads direct" : "threads";
    }
}

void io_report(struct io_file *file, struct muster_file_report *report)
{
    platform_mutex_lock(&file->lock);
    snprintf(report->engine, sizeof report->engine, "%s", engine_name(file));
    bool is_unaligned = file->direct >= 0 && file->bytes > 0 && file->memory_align != SIZE_MAX &&
                        file->copied_by_system == file->bytes;
    snprintf(report->why, sizeof report->why, "%s%s", file->why,
             is_unaligned ? "; the data does not lie as direct requests need it" : "");
    report->bytes = file->bytes;
    report->copied_by_muster = file->copied_by_muster;
    report->copied_by_system = file->copied_by_system;
    report->operations = file->operations;
    report->waited_ns = file->waited_ns;
    report->grown_bytes = file->grown_bytes;
    report->memory_fixed = file->memory_fixed;
    platform_mutex_unlock(&file->lock);
}
