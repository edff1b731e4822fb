/*
 * Files as jobs need them: read in order or anywhere, written in order or anywhere, many requests
 * at a time, with whatever the system has for it. Knows nothing of jobs.
 *
 * Reading in order is done by one thread at a time, and so is writing; cancel, report, settle and
 * reading elsewhere are for any thread.
 */
#ifndef IO_IO_H
#define IO_IO_H

#include <muster/file.h>
#include <stdbool.h>

struct io_file;

struct io_span {
    char *begin;
    size_t bytes;
};

/* `options` are complete: their size is this version's. */
muster_status io_open_read(const struct muster_allocator *allocator, const char *path,
                           const struct muster_file_options *options, struct io_file **out,
                           struct muster_error *err);
muster_status io_open_write(const struct muster_allocator *allocator, const char *path,
                            const struct muster_file_options *options, struct io_file **out,
                            struct muster_error *err);
/* Waits for what is under way. NULL is allowed. */
void io_close(struct io_file *file);

bool io_is_stream(const struct io_file *file);
/* Bytes left to read in order, UINT64_MAX if that is not known. */
uint64_t io_left(struct io_file *file);
/* Where the file stands. */
uint64_t io_position(struct io_file *file);

/*
 * The next bytes; fewer only at the end. Of a stream, once there are `enough`, what has arrived, in
 * multiples of `enough` unless the end comes first.
 */
muster_status io_read(struct io_file *file, void *to, size_t bytes, size_t enough, size_t *got,
                      struct muster_error *err);
muster_status io_read_at(struct io_file *file, uint64_t offset, void *to, size_t bytes, size_t *got,
                         struct muster_error *err);
/*
 * The same for a file that is read part by part, several at a time, each once: the file then stands
 * after the last of them. All go into memory `lasting`, which stays where it is until io_forget_memory.
 */
muster_status io_read_part(struct io_file *file, uint64_t offset, void *to, size_t bytes,
                           struct io_span lasting, size_t *got, struct muster_error *err);

/* Behind all that was written; waits until it is, or gathers it. */
muster_status io_write(struct io_file *file, const void *from, size_t bytes,
                       struct muster_error *err);
/* Writes what was gathered. */
muster_status io_flush(struct io_file *file, struct muster_error *err);
/* Where io_write would write next. */
uint64_t io_end(struct io_file *file);
/*
 * Writes at `offset`, and returns before that is done: then `done` is called, on any thread and
 * also if it failed, and `from` stays until then. `from` lies in memory that stays where it is
 * until io_forget_memory. On failure `done` is not called. Not of a stream.
 */
muster_status io_write_later(struct io_file *file, uint64_t offset, const void *from, size_t bytes,
                             void (*done)(void *user), void *user, struct muster_error *err);
/* Waits until one of the writes for later has ended; false if there are none. */
bool io_wait_one(struct io_file *file);
/* Waits until all have, and their `done` has returned. */
void io_settle(struct io_file *file);

/* Reads and writes after this do not think that any memory is what it was. */
void io_forget_memory(struct io_file *file);

/* The first failure of any call; MUSTER_OK if there was none. */
muster_status io_failure(struct io_file *file, struct muster_error *err);
/* Keeps it as the file's failure, if it is the first; gives `status`. */
muster_status io_fail(struct io_file *file, const struct muster_error *problem,
                      struct muster_error *err);
/* All of io_finish but that: it may fail here, and hardly there. */
muster_status io_prepare(struct io_file *file, struct muster_error *err);
/* Puts what was written in its place. */
muster_status io_finish(struct io_file *file, struct muster_error *err);
void io_cancel(struct io_file *file);
void io_report(struct io_file *file, struct muster_file_report *report);
/* What the file is called, for messages. */
const char *io_name(const struct io_file *file);

#endif
