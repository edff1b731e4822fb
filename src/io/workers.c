/*
 * Threads that read and write pieces one after the other: what there is where io_uring is not. Where
 * the system refuses threads too, callers that wait do it.
 */
#include "io/file.h"

#include <errno.h>
#include <unistd.h>

static int64_t move(const struct io_file *file, const struct io_piece *piece)
{
    int descriptor = piece->is_direct ? file->direct : file->descriptor;
    ssize_t moved = file->is_write
                        ? pwrite(descriptor, piece->memory, piece->bytes, (off_t)piece->offset)
                        : pread(descriptor, piece->memory, piece->bytes, (off_t)piece->offset);
    return moved < 0 ? -(int64_t)errno : moved;
}

/* Does the first piece that waits. */
static void do_one_locked(struct io_file *file)
{
    struct io_piece *piece = file->workers.first;
    file->workers.first = piece->next;
    bool is_unfinished;
    do {
        platform_mutex_unlock(&file->lock);
        int64_t answer = move(file, piece);
        platform_mutex_lock(&file->lock);
        is_unfinished = transfer_advance_locked(file, piece, answer);
    } while (is_unfinished);
    transfer_piece_done_locked(file, piece);
    transfer_tell_locked(file);
}

static void work(void *argument)
{
    struct io_file *file = argument;
    struct io_workers *workers = &file->workers;
    platform_mutex_lock(&file->lock);
    while (workers->first || !workers->must_leave) {
        if (workers->first)
            do_one_locked(file);
        else
            platform_condition_wait(&workers->work, &file->lock, UINT64_MAX);
    }
    platform_mutex_unlock(&file->lock);
}

bool workers_help_locked(struct io_file *file)
{
    struct io_guard guard;
    if (!file->workers.first || file->workers.count > 0)
        return false;
    guard_begin(&guard);
    do_one_locked(file);
    guard_end(&guard);
    platform_condition_wake_all(&file->changed);
    return true;
}

void workers_give_locked(struct io_file *file, struct io_piece *piece)
{
    struct io_workers *workers = &file->workers;
    piece->next = NULL;
    if (workers->first)
        workers->last->next = piece;
    else
        workers->first = piece;
    workers->last = piece;
    if (workers->count > 0)
        platform_condition_wake_one(&workers->work);
    else
        platform_condition_wake_all(&file->changed);
}

muster_status workers_open(struct io_file *file, struct muster_error *err)
{
    struct io_workers *workers = &file->workers;
    uint32_t wanted = file->options.depth < WORKERS_MAX ? file->options.depth : WORKERS_MAX;
    muster_status status = platform_condition_init(&workers->work, err);
    if (status != MUSTER_OK)
        return status;
    workers->has_condition = true;
    while (workers->count < wanted) {
        /* Fewer threads are slower and no less right; without any, callers do the work. */
        if (platform_thread_start(&workers->threads[workers->count], work, file, "muster-io", NULL,
                                  NULL) != MUSTER_OK)
            break;
        workers->count++;
    }
    return MUSTER_OK;
}

void workers_close(struct io_file *file)
{
    struct io_workers *workers = &file->workers;
    if (!workers->has_condition)
        return;
    platform_mutex_lock(&file->lock);
    workers->must_leave = true;
    platform_condition_wake_all(&workers->work);
    platform_mutex_unlock(&file->lock);
    while (workers->count > 0)
        platform_thread_join(&workers->threads[--workers->count]);
    platform_condition_deinit(&workers->work);
    workers->has_condition = false;
}
