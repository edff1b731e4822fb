/*
 * Files as sources and sinks of jobs. How bytes come and go is src/io's; here items, results that
 * are kept while they are written, and whose memory lasts how long.
 */
#include "base/allocator.h"
#include "io/io.h"
#include "platform/machine.h"
#include "run/job/job.h"

#include <muster/file.h>
#include <string.h>

#define DEPTH_DEFAULT 32u
#define DEPTH_MAX 1024u
#define PIECE_BYTES_DEFAULT ((size_t)1 << 20)
#define PIECE_BYTES_MAX ((size_t)1 << 30)
#define PIECE_BYTES_STEP ((size_t)4096)
/*
 * Of a file, one call of a source reads no more, so that devices have work while the rest is read.
 */
#define SOURCE_BYTES ((size_t)64 << 20)
/* Calls at once, each of which waits for a part of the ring that has the size of a request or two. */
#define SOURCE_CALLS 8u

struct muster_file {
    struct muster *m;
    struct muster_file *next; /* of the runtime's list */
    struct io_file *io;       /* owns */
    bool is_write;
    size_t item_bytes, output;
    enum muster_remainder remainder;
    /* Whose results are, or were last, written. Relaxed: who asks has joined the job's threads. */
    _Atomic(struct muster_job *) job;
    uint64_t job_offset; /* where its first item lies */
};

static muster_status read_options(const struct muster_file_options *given,
                                  struct muster_file_options *out, struct muster_error *err)
{
    *out = (struct muster_file_options){ .size = sizeof *out };
    muster_status status =
        given ? layout_read(LAYOUT(muster_file_options), given, out, err) : MUSTER_OK;
    if (status != MUSTER_OK)
        return status;
    if (out->depth == 0)
        out->depth = DEPTH_DEFAULT;
    if (out->piece_bytes == 0)
        out->piece_bytes = PIECE_BYTES_DEFAULT;
    if (out->depth > DEPTH_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL,
                                 "a file's depth is %u; at most %u", out->depth, DEPTH_MAX);
    if (out->piece_bytes > PIECE_BYTES_MAX || out->piece_bytes % PIECE_BYTES_STEP != 0)
        return muster_error_fill(
            err, MUSTER_E_INVALID, 0, NULL,
            "a file's piece_bytes is %zu; it is a multiple of %zu, at most %zu", out->piece_bytes,
            PIECE_BYTES_STEP, PIECE_BYTES_MAX);
    if (out->remainder > MUSTER_REMAINDER_IGNORE || out->direct > MUSTER_DIRECT_ALWAYS)
        return run_bad_argument(err, "a file", "remainder or direct is not one of its values");
    return MUSTER_OK;
}

static muster_status open_file(struct muster *m, const char *path, bool is_write,
                               const struct muster_file_options *given, struct muster_file **out,
                               struct muster_error *err)
{
    struct muster_file_options options;
    if (!m || !out || (!path && !given))
        return run_bad_argument(err, is_write ? "muster_file_write_open" : "muster_file_read_open",
                                "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = read_options(given, &options, err);
    if (status != MUSTER_OK)
        return status;
    struct muster_file *file = allocator_take(&m->allocator, 1, sizeof *file);
    if (!file)
        return run_no_memory(err, "a file");
    file->m = m;
    file->is_write = is_write;
    file->item_bytes = options.item_bytes;
    file->output = options.output;
    file->remainder = options.remainder;
    status = is_write ? io_open_write(&m->allocator, path, &options, &file->io, err)
                      : io_open_read(&m->allocator, path, &options, &file->io, err);
    if (status != MUSTER_OK) {
        allocator_give(&m->allocator, file, 1, sizeof *file);
        return status;
    }
    run_lock(m);
    file->next = m->files;
    m->files = file;
    run_unlock(m);
    *out = file;
    return MUSTER_OK;
}

muster_status muster_file_read_open(struct muster *m, const char *path,
                                    const struct muster_file_options *options,
                                    struct muster_file **out, struct muster_error *err)
{
    return open_file(m, path, false, options, out, err);
}

muster_status muster_file_write_open(struct muster *m, const char *path,
                                     const struct muster_file_options *options,
                                     struct muster_file **out, struct muster_error *err)
{
    return open_file(m, path, true, options, out, err);
}

/* A call for the other kind of file, or for none. */
static muster_status check_file(const struct muster_file *file, bool is_write, const char *function,
                                struct muster_error *err)
{
    if (!file)
        return run_bad_argument(err, function, "the file is NULL");
    if (run_is_forked(file->m))
        return run_say_forked(err);
    if (file->is_write != is_write)
        return run_bad_argument(err, function,
                                file->is_write ? "the file is open for writing"
                                               : "the file is open for reading");
    return MUSTER_OK;
}

/* Reading. */

static muster_status fill_remainder(const struct muster_file *file, uint64_t remainder,
                                    struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_INVALID, 0,
                             "give the right item size, or pad or ignore the remainder",
                             "%.90s is no whole number of items of %zu bytes: %llu bytes remain",
                             io_name(file->io), file->item_bytes, (unsigned long long)remainder);
}

muster_status muster_file_items(struct muster_file *file, uint64_t *items, struct muster_error *err)
{
    muster_status status = check_file(file, false, "muster_file_items", err);
    if (status != MUSTER_OK)
        return status;
    if (!items || file->item_bytes == 0)
        return run_bad_argument(err, "muster_file_items",
                                "there is no place for them, or item_bytes was not set");
    uint64_t left = io_left(file->io), remainder = left % file->item_bytes;
    if (left == UINT64_MAX) {
        *items = MUSTER_ITEMS_UNKNOWN;
        return MUSTER_OK;
    }
    if (remainder > 0 && file->remainder == MUSTER_REMAINDER_REFUSE)
        return fill_remainder(file, remainder, err);
    *items = left / file->item_bytes + (remainder > 0 && file->remainder == MUSTER_REMAINDER_PAD);
    return MUSTER_OK;
}

/* The input ended within an item. Gives how many items there are with it, or the failure. */
static int64_t end_within_item(struct muster_file *file, char *to, size_t got)
{
    size_t remainder = got % file->item_bytes;
    struct muster_error problem;
    if (file->remainder == MUSTER_REMAINDER_REFUSE) {
        fill_remainder(file, remainder, &problem);
        return io_fail(file->io, &problem, NULL);
    }
    if (file->remainder == MUSTER_REMAINDER_PAD) {
        memset(to + got, 0, file->item_bytes - remainder);
        got += file->item_bytes - remainder;
    }
    return (int64_t)(got / file->item_bytes);
}

/* What a job's items are read with; MUSTER_OK: they are the file's. */
static muster_status check_source(struct muster_file *file, uint64_t items, size_t bytes)
{
    struct muster_error problem;
    muster_status status = check_file(file, false, "muster_file_source", &problem);
    if (status != MUSTER_OK)
        return status;
    if (file->item_bytes > 0 && items > 0 && bytes / items == file->item_bytes)
        return MUSTER_OK;
    run_bad_argument(&problem, "muster_file_source",
                     "the file's item_bytes is not what the job's items have");
    return io_fail(file->io, &problem, NULL);
}

/* The bytes that were read, in items. */
static int64_t count_items(struct muster_file *file, char *to, size_t got)
{
    return got % file->item_bytes > 0 ? end_within_item(file, to, got)
                                      : (int64_t)(got / file->item_bytes);
}

int64_t muster_file_source(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct muster_file *file = user;
    size_t got, wanted = bytes;
    (void)begin;
    muster_status status = check_source(file, items, bytes);
    if (status != MUSTER_OK)
        return status;
    if (wanted > SOURCE_BYTES && !io_is_stream(file->io))
        wanted = SOURCE_BYTES < file->item_bytes ? file->item_bytes
                                                 : SOURCE_BYTES - SOURCE_BYTES % file->item_bytes;
    status = io_read(file->io, to, wanted, file->item_bytes, &got, NULL);
    return status == MUSTER_OK ? count_items(file, to, got) : status;
}

uint32_t file_source_calls(struct muster_file *file, uint32_t asked, uint64_t *offset)
{
    if (file->is_write || io_is_stream(file->io))
        return 1;
    *offset = io_position(file->io);
    return asked > 0 ? asked : SOURCE_CALLS;
}

int64_t file_source_at(const struct run_source *source, uint64_t begin, uint64_t items, void *to,
                       size_t bytes)
{
    struct muster_file *file = source->file;
    const struct io_span ring = { source->ring, 2 * source->ring_bytes };
    uint64_t offset = source->file_offset + begin * source->item_bytes;
    size_t got;
    muster_status status = check_source(file, items, bytes);
    if (status == MUSTER_OK)
        status = io_read_part(file->io, offset, to, bytes, ring, &got, NULL);
    return status == MUSTER_OK ? count_items(file, to, got) : status;
}

muster_status muster_file_read(struct muster_file *file, void *to, size_t bytes, size_t *got,
                               struct muster_error *err)
{
    muster_status status = check_file(file, false, "muster_file_read", err);
    if (status != MUSTER_OK)
        return status;
    if ((!to && bytes > 0) || !got)
        return run_bad_argument(err, "muster_file_read", "an argument is NULL");
    return io_read(file->io, to, bytes, 0, got, err);
}

muster_status muster_file_read_at(struct muster_file *file, uint64_t offset, void *to, size_t bytes,
                                  size_t *got, struct muster_error *err)
{
    muster_status status = check_file(file, false, "muster_file_read_at", err);
    if (status != MUSTER_OK)
        return status;
    if ((!to && bytes > 0) || !got)
        return run_bad_argument(err, "muster_file_read_at", "an argument is NULL");
    if (io_is_stream(file->io))
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "read it in order, or use a file",
                                 "%.90s can only be read in order", io_name(file->io));
    return io_read_at(file->io, offset, to, bytes, got, err);
}

/* Writing. */

static void release_result(void *kept)
{
    muster_result_release(kept);
}

static void do_nothing(void *user)
{
    (void)user;
}

/* Keeps the result, and waits for one that is written where as many are kept; NULL: none can be. */
static struct muster_kept *keep_result(struct muster_file *file, const struct muster_result *result)
{
    struct muster_kept *kept = NULL;
    while (muster_result_retain(result, &kept, NULL) == MUSTER_E_CAPACITY)
        if (!io_wait_one(file->io))
            return NULL;
    return kept;
}

static muster_status write_result(struct muster_file *file, const struct muster_result *result)
{
    const void *from = result->outputs[file->output];
    uint64_t count = result->range.end - result->range.begin;
    size_t bytes = (size_t)count * file->item_bytes;
    muster_status status = io_flush(file->io, NULL);
    if (status != MUSTER_OK)
        return status;
    if (io_is_stream(file->io)) {
        /* Who reads a pipe may wait for this one before there is another. */
        status = io_write(file->io, from, bytes, NULL);
        return status == MUSTER_OK ? io_flush(file->io, NULL) : status;
    }
    if (atomic_load_explicit(&file->job, memory_order_relaxed) != result->job) {
        atomic_store_explicit(&file->job, result->job, memory_order_relaxed);
        file->job_offset = io_end(file->io);
    }
    uint64_t offset = file->job_offset + result->range.begin * file->item_bytes;
    struct muster_kept *kept = keep_result(file, result);
    status = io_write_later(file->io, offset, from, bytes, kept ? release_result : do_nothing, kept,
                            NULL);
    if (status != MUSTER_OK)
        muster_result_release(kept);
    if (!kept)
        io_settle(file->io);
    return status;
}

muster_status muster_file_sink(void *user, const struct muster_result *result)
{
    struct muster_file *file = user;
    struct muster_error problem;
    muster_status status = check_file(file, true, "muster_file_sink", &problem);
    if (status != MUSTER_OK)
        return status;
    if (!result || file->item_bytes == 0 || file->output >= result->output_count) {
        run_bad_argument(&problem, "muster_file_sink",
                         "the file's item_bytes is not set, or the job has no such output");
        return io_fail(file->io, &problem, NULL);
    }
    return write_result(file, result);
}

muster_status muster_file_write(struct muster_file *file, const void *from, size_t bytes,
                                struct muster_error *err)
{
    muster_status status = check_file(file, true, "muster_file_write", err);
    if (status != MUSTER_OK)
        return status;
    if (!from && bytes > 0)
        return run_bad_argument(err, "muster_file_write", "an argument is NULL");
    return io_write(file->io, from, bytes, err);
}

muster_status muster_file_flush(struct muster_file *file, struct muster_error *err)
{
    muster_status status = check_file(file, true, "muster_file_flush", err);
    return status == MUSTER_OK ? io_flush(file->io, err) : status;
}

/* Both. */

muster_status muster_file_finish(struct muster_file *file, struct muster_error *err)
{
    if (!file)
        return run_bad_argument(err, "muster_file_finish", "the file is NULL");
    if (run_is_forked(file->m))
        return run_say_forked(err);
    return io_finish(file->io, err);
}

muster_status muster_file_prepare(struct muster_file *file, struct muster_error *err)
{
    if (!file)
        return run_bad_argument(err, "muster_file_prepare", "the file is NULL");
    if (run_is_forked(file->m))
        return run_say_forked(err);
    return io_prepare(file->io, err);
}

void muster_file_cancel(struct muster_file *file)
{
    if (file && !run_is_forked(file->m))
        io_cancel(file->io);
}

muster_status muster_file_report(struct muster_file *file, struct muster_file_report *report,
                                 struct muster_error *err)
{
    struct muster_file_report found = { .size = sizeof found };
    if (!file || !report)
        return run_bad_argument(err, "muster_file_report", "an argument is NULL");
    muster_status status = layout_check_room(LAYOUT(muster_file_report), report, err);
    if (status != MUSTER_OK)
        return status;
    if (run_is_forked(file->m))
        return run_say_forked(err);
    io_report(file->io, &found);
    layout_write(LAYOUT(muster_file_report), report, &found);
    return MUSTER_OK;
}

void muster_file_close(struct muster_file *file)
{
    if (!file || run_is_forked(file->m))
        return;
    struct muster *m = file->m;
    run_lock(m);
    /* Somebody who destroys a job looks at it. */
    while (m->file_users > 0)
        platform_condition_wait(&m->changed, &m->lock, UINT64_MAX);
    struct muster_file **at = &m->files;
    while (*at != file)
        at = &(*at)->next;
    *at = file->next;
    run_unlock(m);
    io_close(file->io);
    allocator_give(&m->allocator, file, 1, sizeof *file);
}

void files_leave_job(struct muster_job *job)
{
    struct muster *m = job->m;
    run_lock(m);
    m->file_users++;
    struct muster_file *file = m->files;
    run_unlock(m);
    /* Nobody takes one out meanwhile, and new ones come before it. */
    for (; file; file = file->next) {
        struct muster_job *written = job;
        bool is_of_job = atomic_compare_exchange_strong_explicit(
            &file->job, &written, NULL, memory_order_relaxed, memory_order_relaxed);
        if (is_of_job)
            io_settle(file->io);
        /* Which job a file was read by is not known; others' memory is found again. */
        if (is_of_job || !file->is_write)
            io_forget_memory(file->io);
    }
    run_lock(m);
    m->file_users--;
    platform_condition_wake_all(&m->changed);
    run_unlock(m);
}

void files_cancel_all(struct muster *m)
{
    run_lock(m);
    for (struct muster_file *file = m->files; file; file = file->next)
        io_cancel(file->io);
    run_unlock(m);
}

void files_destroy_all(struct muster *m)
{
    while (m->files)
        muster_file_close(m->files);
}
