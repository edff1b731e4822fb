/*
 * Transfers: cut into pieces, given to the engine, advanced by what the system answers, and waited
 * for. Answers that move less than was asked, or nothing for now, are given again for the rest.
 */
#include "io/file.h"

#include <errno.h>
#include <muster/backend.h>
#include <stdio.h>
#include <string.h>

#define NAME_SHOWN 90 /* characters of a path in a message, so that the rest has room */

static const char *short_name(const struct io_file *file)
{
    size_t length = strlen(file->name);
    return length > NAME_SHOWN ? file->name + (length - NAME_SHOWN) : file->name;
}

static const char *fix_of(const struct io_file *file, int code)
{
    switch (code) {
    case 0:
        return "leave the input alone while it is read";
    case ENOSPC:
    case EDQUOT:
        return "make room on that file system, or choose another place";
    case EFBIG:
        return "raise the limit on the size of files (ulimit -f), or choose another file system";
    case EPIPE:
        return "see why the reader of the pipe has gone";
    case EIO:
        return file->is_write ? "the device failed: choose another place"
                              : "the device failed: look at the system's log";
    default:
        return file->is_write ? "choose another place" : NULL;
    }
}

void transfer_fail_locked(struct io_file *file, int code, uint64_t offset)
{
    unsigned long long at = offset, size = file->size;
    if (file->failure.status != MUSTER_OK)
        return;
    if (code == 0)
        muster_error_fill(&file->failure, MUSTER_E_IO, 0, fix_of(file, 0),
                          "%s had %llu bytes when it was opened, and now ends before byte %llu: it "
                          "was cut while it was read",
                          short_name(file), size, at + 1);
    else if (!file->is_write)
        muster_error_fill(&file->failure, MUSTER_E_IO, code, fix_of(file, code),
                          "%s could not be read at byte %llu: %s", short_name(file), at,
                          strerror(code));
    else
        muster_error_fill(&file->failure, MUSTER_E_IO, code, fix_of(file, code),
                          "%s could not be written at byte %llu: %s; %llu bytes had been%s",
                          short_name(file), at, strerror(code), (unsigned long long)file->bytes,
                          file->is_aside ? ", and are discarded: the old content stays" : "");
}

muster_status transfer_cancelled_locked(struct io_file *file)
{
    if (file->failure.status == MUSTER_OK)
        muster_error_fill(&file->failure, MUSTER_E_CANCELLED, 0, NULL,
                          file->is_write ? "writing %s was cancelled" : "reading %s was cancelled",
                          short_name(file));
    return file->failure.status;
}

muster_status transfer_failure_locked(const struct io_file *file, struct muster_error *err)
{
    if (file->failure.status != MUSTER_OK && err)
        *err = file->failure;
    return file->failure.status;
}

/* Whether the memory suits direct requests once the file's offset does. */
static bool fits_direct(const struct io_file *file, const char *memory, uint64_t offset)
{
    size_t head = (size_t)(-offset % PAGE_BYTES);
    return file->direct >= 0 && ((uintptr_t)memory + head) % file->memory_align == 0;
}

/*
 * The next piece of the transfer: what is within whole pages past the cache, the rest through it.
 */
static void cut_locked(struct io_file *file, struct io_transfer *transfer, struct io_piece *piece)
{
    size_t left = transfer->bytes - transfer->cut, bytes = left;
    piece->transfer = transfer;
    piece->memory = transfer->memory + transfer->cut;
    piece->offset = transfer->offset + transfer->cut;
    piece->put_off = 0;
    piece->fixed = -1;
    piece->is_direct = false;
    if (fits_direct(file, piece->memory, piece->offset)) {
        size_t head = (size_t)(-piece->offset % PAGE_BYTES);
        piece->is_direct = head == 0 && left >= PAGE_BYTES;
        if (piece->is_direct)
            bytes = left - left % PAGE_BYTES;
        else if (head > 0 && head < left)
            bytes = head;
    }
    piece->bytes = bytes < file->options.piece_bytes ? bytes : file->options.piece_bytes;
    if (file->engine == IO_URING && transfer->lasting.bytes > 0)
        uring_fix_locked(file, piece);
    transfer->cut += piece->bytes;
    transfer->pieces++;
}

static void give_locked(struct io_file *file, struct io_piece *piece)
{
    if (file->engine == IO_URING && !file->uring.is_stuck)
        uring_give_locked(file, piece);
    else
        workers_give_locked(file, piece);
}

static bool must_stop(const struct io_file *file)
{
    return file->failure.status != MUSTER_OK ||
           atomic_load_explicit(&file->is_cancelled, memory_order_relaxed);
}

static void end_locked(struct io_file *file, struct io_transfer *transfer)
{
    transfer->is_done = true;
    if (transfer->done) {
        transfer->next = file->finished;
        file->finished = transfer;
    }
    platform_condition_wake_all(&file->changed);
}

/* Gives the engine as many pieces as there are places for. */
static void pump_locked(struct io_file *file)
{
    while (file->first) {
        struct io_transfer *transfer = file->first;
        /* What has begun is waited for; of the rest nothing is begun any more. */
        if (must_stop(file))
            transfer->cut = transfer->bytes;
        while (transfer->cut < transfer->bytes && file->free_piece) {
            struct io_piece *piece = file->free_piece;
            file->free_piece = piece->next;
            file->in_flight++;
            cut_locked(file, transfer, piece);
            give_locked(file, piece);
        }
        if (transfer->cut < transfer->bytes)
            break;
        file->first = transfer->next;
        if (transfer->pieces == 0)
            end_locked(file, transfer);
    }
    if (file->engine == IO_URING)
        uring_flush_locked(file);
}

bool transfer_advance_locked(struct io_file *file, struct io_piece *piece, int64_t answer)
{
    /* A thread that ends takes back what it has given to io_uring: that is nobody's wish here. */
    if (answer == -EINTR || answer == -EAGAIN || answer == -ECANCELED) {
        if (piece->put_off++ < PUT_OFF_MAX && !must_stop(file))
            return true;
        if (!must_stop(file))
            transfer_fail_locked(file, (int)-answer, piece->offset);
        return false;
    }
    if (answer == -EINVAL && piece->is_direct) {
        /* It was said to be possible; the cache can do it in any case. */
        piece->is_direct = false;
        piece->fixed = -1;
        snprintf(file->why, sizeof file->why,
                 "the file system refused direct requests that it had allowed");
        file->memory_align = SIZE_MAX;
        return true;
    }
    if (answer < 0 || (answer == 0 && file->is_write)) {
        transfer_fail_locked(file, answer < 0 ? (int)-answer : EIO, piece->offset);
        return false;
    }
    if (answer == 0) {
        transfer_fail_locked(file, 0, piece->offset);
        return false;
    }
    file->operations++;
    file->bytes += (uint64_t)answer;
    file->copied_by_system += piece->is_direct ? 0 : (uint64_t)answer;
    piece->put_off = 0;
    piece->memory += answer;
    piece->offset += (uint64_t)answer;
    piece->bytes -= (size_t)answer;
    /* The rest of a request that ended within a page can only go through the cache. */
    if (piece->is_direct &&
        (piece->offset % file->offset_align != 0 || piece->bytes % file->offset_align != 0)) {
        piece->is_direct = false;
        piece->fixed = -1;
    }
    return piece->bytes > 0;
}

void transfer_piece_done_locked(struct io_file *file, struct io_piece *piece)
{
    struct io_transfer *transfer = piece->transfer;
    piece->next = file->free_piece;
    file->free_piece = piece;
    file->in_flight--;
    transfer->pieces--;
    if (transfer->pieces == 0 && transfer->cut == transfer->bytes && !transfer->is_done)
        end_locked(file, transfer);
    pump_locked(file);
}

void transfer_tell_locked(struct io_file *file)
{
    while (file->finished) {
        struct io_transfer *transfer = file->finished;
        file->finished = transfer->next;
        platform_mutex_unlock(&file->lock);
        transfer->done(transfer->user);
        platform_mutex_lock(&file->lock);
        transfer->next = file->free_transfer;
        file->free_transfer = transfer;
        file->later--;
        platform_condition_wake_all(&file->changed);
    }
}

/* Until something has changed. With the lock; there is something that can. */
static void wait_locked(struct io_file *file)
{
    uint64_t begin_ns = platform_clock_ns();
    if (workers_help_locked(file)) {
        /* That took time enough. */
    } else if (file->engine == IO_URING && !file->is_reaping && file->uring.given > 0) {
        uring_reap_locked(file, true);
        transfer_tell_locked(file);
        platform_condition_wake_all(&file->changed);
    } else {
        platform_condition_wait(&file->changed, &file->lock, UINT64_MAX);
    }
    file->waited_ns += platform_clock_ns() - begin_ns;
}

static void queue_locked(struct io_file *file, struct io_transfer *transfer)
{
    transfer->next = NULL;
    if (file->first)
        file->last->next = transfer;
    else
        file->first = transfer;
    file->last = transfer;
    pump_locked(file);
}

muster_status transfer_run(struct io_file *file, uint64_t offset, void *memory, size_t bytes,
                           struct io_span lasting)
{
    struct io_transfer transfer = {
        .memory = memory, .offset = offset, .bytes = bytes, .lasting = lasting
    };
    platform_mutex_lock(&file->lock);
    queue_locked(file, &transfer);
    while (!transfer.is_done)
        wait_locked(file);
    if (atomic_load_explicit(&file->is_cancelled, memory_order_relaxed))
        transfer_cancelled_locked(file);
    muster_status status = file->failure.status;
    platform_mutex_unlock(&file->lock);
    return status;
}

muster_status io_write_later(struct io_file *file, uint64_t offset, const void *from, size_t bytes,
                             void (*done)(void *user), void *user, struct muster_error *err)
{
    platform_mutex_lock(&file->lock);
    /* Completions that nobody waits for are taken here, so that what was kept goes back. */
    if (file->engine == IO_URING && !file->is_reaping)
        uring_reap_locked(file, false);
    transfer_tell_locked(file);
    while (!file->free_transfer)
        wait_locked(file);
    if (atomic_load_explicit(&file->is_cancelled, memory_order_relaxed))
        transfer_cancelled_locked(file);
    muster_status status = transfer_failure_locked(file, err);
    if (status == MUSTER_OK) {
        struct io_transfer *transfer = file->free_transfer;
        file->free_transfer = transfer->next;
        /* It is only read from: reading and writing share one kind of request. */
        *transfer = (struct io_transfer){ .memory = (char *)(uintptr_t)from,
                                          .offset = offset,
                                          .bytes = bytes,
                                          .lasting = { (char *)(uintptr_t)from, bytes },
                                          .done = done,
                                          .user = user };
        file->later++;
        if (offset + bytes > file->end)
            file->end = offset + bytes;
        file_reserve_locked(file, file->end);
        queue_locked(file, transfer);
        transfer_tell_locked(file);
    }
    platform_mutex_unlock(&file->lock);
    return status;
}

bool io_wait_one(struct io_file *file)
{
    platform_mutex_lock(&file->lock);
    uint32_t before = file->later;
    while (before > 0 && file->later >= before)
        wait_locked(file);
    platform_mutex_unlock(&file->lock);
    return before > 0;
}

void io_settle(struct io_file *file)
{
    platform_mutex_lock(&file->lock);
    while (file->later > 0)
        wait_locked(file);
    platform_mutex_unlock(&file->lock);
}
