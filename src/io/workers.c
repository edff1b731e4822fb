/*
 * Threads that read and write pieces one after the other: what there is where io_uring is not.
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

static void work(void *argument)
{
    struct io_file *file = argument;
    struct io_workers *workers = &file->workers;
    platform_mutex_lock(&file->lock);
    for (;;) {
        struct io_piece *piece = workers->first;
        if (!piece && workers->must_leave)
            break;
        if (!piece) {
            platform_condition_wait(&workers->work, &file->lock, UINT64_MAX);
            continue;
        }
        workers->first = piece->next;
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
    platform_mutex_unlock(&file->lock);
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
    platform_condition_wake_one(&workers->work);
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
        status = platform_thread_start(&workers->threads[workers->count], work, file, "muster-io",
                                       NULL, err);
        if (status != MUSTER_OK)
            break;
        workers->count++;
    }
    /* Fewer threads are slower and no less right. */
    return workers->count > 0 ? MUSTER_OK : status;
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
