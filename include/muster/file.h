/*
 * Files in and out of jobs: a source that reads a file straight into a job's ring, and a sink that
 * writes results from where they lie. By io_uring where the system has it, with direct I/O where
 * the file system and the alignment of the data allow that, by threads that read and write
 * otherwise; a pipe is read and written in order. What was chosen, why, and what the CPU had to
 * copy is in the report. A file that is written appears under its name when it is whole, or not at
 * all.
 */
#ifndef MUSTER_FILE_H
#define MUSTER_FILE_H

#include <muster/job.h>

#ifdef __cplusplus
MUSTER_SAME_NAMES_BEGIN
extern "C" {
#endif

struct muster_file;

/* What becomes of bytes at the end of the input that are less than an item. */
enum muster_remainder {
    MUSTER_REMAINDER_REFUSE = 0, /* a failure that says how many there are */
    MUSTER_REMAINDER_PAD = 1,    /* zeros make an item of them */
    MUSTER_REMAINDER_IGNORE = 2  /* they are not read */
};

enum muster_direct {
    MUSTER_DIRECT_AUTO = 0,  /* for files of 8 MiB or more that the system has not in its cache */
    MUSTER_DIRECT_NEVER = 1, /* all goes through the system's cache */
    MUSTER_DIRECT_ALWAYS = 2 /* also small files and cached ones; else MUSTER_E_NOT_SUPPORTED */
};

/* How to open a file. The caller sets `size`; zero means the default everywhere. */
struct muster_file_options {
    size_t size;
    int descriptor;    /* where the path is NULL: this one, borrowed until muster_file_close */
    size_t item_bytes; /* for muster_file_items and as a source or sink: of one item */
    size_t output;     /* muster_file_sink writes this one of a result's outputs */
    uint64_t bytes;    /* writing: how many there will be, to reserve room at once; 0: not known */
    enum muster_remainder remainder;
    /*
     * "io_uring" or "threads"; NULL: the variable MUSTER_IO, else whichever there is, in that order
     */
    const char *engine;
    enum muster_direct direct;
    uint32_t depth;     /* requests at a time; 0: 32 */
    size_t piece_bytes; /* of one request, at most; 0: 1 MiB; a multiple of 4 KiB */
    int no_sync;        /* writing, not 0: muster_file_finish does not wait for the disk */
};

/* How a file went so far. The caller sets `size`. */
struct muster_file_report {
    size_t size;
    /*
     * "io_uring direct", "io_uring", "threads direct", "threads", "pipe"; "plain calls" where the
     * system refuses the threads that the others need.
     */
    char engine[24];
    char why[192];  /* that one, and what stood against others */
    uint64_t bytes; /* read or written */
    /*
     * Of these, what a CPU moved from one place in memory to another: Muster itself (nothing but
     * what small writes in order gather), and the system, through its cache or a pipe.
     */
    uint64_t copied_by_muster, copied_by_system;
    uint64_t operations;   /* requests to the system that moved bytes */
    uint64_t waited_ns;    /* callers stood waiting */
    uint64_t grown_bytes;  /* that the input got while it was read: they are ignored */
    uint64_t memory_fixed; /* bytes of jobs' memory registered with io_uring, the most at a time */
};

/*
 * Opens a file for reading; "-" is standard input. `options` may be NULL. Closed with
 * muster_file_close. A path to a pipe waits for its writer. Of a file the bytes that it has now are
 * read, wherever it is read from: what is added is ignored and reported, what is cut off is a
 * failure. MUSTER_E_NOT_FOUND; MUSTER_E_IO: a directory, or what may not be read.
 */
MUSTER_API muster_status muster_file_read_open(struct muster *m, const char *path,
                                               const struct muster_file_options *options,
                                               struct muster_file **out, struct muster_error *err);

/*
 * Opens a file for writing; "-" is standard output. A file is written aside and put in its place by
 * muster_file_finish; until then the old content stays. A link is followed, also one to a missing
 * file. A file that is replaced keeps its permissions, less set-user-ID, set-group-ID
 * and sticky, and its owner and group where the process may give files away; where it may not,
 * no user gets more access than before. Other hard links keep the old content. A pipe, a terminal
 * and a descriptor, also one by name (/dev/stdout, /dev/fd/3), are written in place, in
 * order. MUSTER_E_IO: it cannot be written, or the disk has no room for options->bytes.
 */
MUSTER_API muster_status muster_file_write_open(struct muster *m, const char *path,
                                                const struct muster_file_options *options,
                                                struct muster_file **out, struct muster_error *err);

/*
 * Bytes that are left to read, in items; MUSTER_ITEMS_UNKNOWN of a pipe. MUSTER_E_INVALID: a
 * remainder.
 */
MUSTER_API muster_status muster_file_items(struct muster_file *file, uint64_t *items,
                                           struct muster_error *err);

/*
 * A job's `source`, with the file as `source_user`: the next items, from where the file stands when
 * the job is started, read straight into the job's memory. A file is read in several places at once,
 * as many as the job's source_calls says, 8 by default; it stands after all of them when the job is
 * over. A pipe is read in one call at a time and gives what has arrived, in whole items. What went
 * wrong is reported by muster_file_finish. A source of your own may call it, one call at a time and
 * whatever `begin` is, for the memory that it was given, and for no other: the system registers it,
 * and keeps to it until the job is destroyed. With several calls at once, use muster_file_read_at.
 */
MUSTER_API int64_t muster_file_source(void *file, uint64_t begin, uint64_t items, void *to,
                                      size_t bytes);

/*
 * A job's `sink`, with the file as `sink_user`: writes the output after what was written before
 * the job, each item in its place, also where results are unordered (a pipe gets them as they
 * come). As many results as the option kept_max says are kept until they are written, so that
 * writing overlaps with the work; with 0, each call writes all of its result. muster_file_finish
 * reports failures. Items of a job with `each_status` that failed are written as whatever
 * they are.
 */
MUSTER_API muster_status muster_file_sink(void *file, const struct muster_result *result);

/*
 * Reads the next bytes, from where the file stands: all of them, or fewer where the input ends. One
 * call at a time.
 */
MUSTER_API muster_status muster_file_read(struct muster_file *file, void *to, size_t bytes,
                                          size_t *got, struct muster_error *err);

/*
 * Reads bytes from any place, and leaves the file where it stands; fewer at the end. Not of a pipe:
 * MUSTER_E_NOT_SUPPORTED. Any thread, also several at once.
 */
MUSTER_API muster_status muster_file_read_at(struct muster_file *file, uint64_t offset, void *to,
                                             size_t bytes, size_t *got, struct muster_error *err);

/*
 * Writes bytes after all that was written. The caller may change them when the call returns: a few
 * are gathered, and many are waited for. One call at a time; also within a sink.
 */
MUSTER_API muster_status muster_file_write(struct muster_file *file, const void *from, size_t bytes,
                                           struct muster_error *err);

/*
 * Writes what muster_file_write has gathered, for a reader of a pipe that waits for it. One call at a
 * time; also within a sink.
 */
MUSTER_API muster_status muster_file_flush(struct muster_file *file, struct muster_error *err);

/*
 * The end: waits for all that is being written, for the disk, and puts the file in its place. The
 * first failure of all is reported, and the file is then as it was before. Of a file that is read: that
 * failure, if there was one. After the job; a second call tells the same.
 */
MUSTER_API muster_status muster_file_finish(struct muster_file *file, struct muster_error *err);
/*
 * All that muster_file_finish does, waiting included, but the last step: what was there before stays, and
 * muster_file_finish has then only to rename. Where several files belong together, prepare each first;
 * if one fails, cancel the others. Nothing may be written after it. Not needed for one file.
 */
MUSTER_API muster_status muster_file_prepare(struct muster_file *file, struct muster_error *err);

/*
 * From any thread: what is read or written ends soon with MUSTER_E_CANCELLED, also what waits for
 * the other end of a pipe, and so does whatever is asked later. What the system is already doing
 * with a file is waited for.
 */
MUSTER_API void muster_file_cancel(struct muster_file *file);

/* Any thread, at any time. */
MUSTER_API muster_status muster_file_report(struct muster_file *file,
                                            struct muster_file_report *report,
                                            struct muster_error *err);

/*
 * Closes the file. What was written and not finished is gone, and nothing is left of it. No job may
 * use it any more. NULL is allowed; muster_close closes what is left.
 */
MUSTER_API void muster_file_close(struct muster_file *file);

/*
 * A file that the program itself writes, through a descriptor. It appears under its name when it is
 * whole, or not at all, by the rules of muster_file_write_open. Needs no runtime. Used by one
 * thread at a time.
 */
struct muster_output;

/*
 * Opens a file to write. A link is followed. A pipe, a terminal and a descriptor by name
 * (/dev/stdout) are written in place; a descriptor from its current offset. Opening a named pipe
 * waits for its reader. The caller frees `*out` with muster_output_destroy. MUSTER_E_IO: it cannot
 * be written.
 */
MUSTER_API muster_status muster_output_create(const char *path, struct muster_output **out,
                                              struct muster_error *err);

/*
 * The descriptor to write to, valid until muster_output_commit or muster_output_destroy, which
 * close it: the caller must not.
 */
MUSTER_API int muster_output_descriptor(const struct muster_output *output);

/*
 * Closes the descriptor and puts the file in its place. On failure the file that was there before
 * stays. Either way only muster_output_destroy may follow.
 */
MUSTER_API muster_status muster_output_commit(struct muster_output *output,
                                              struct muster_error *err);

/* Frees the output; removes the file if it was not committed. NULL is allowed. */
MUSTER_API void muster_output_destroy(struct muster_output *output);

/*
 * For a program that is about to die of a signal: kills the compilers that the library runs, and
 * removes its temporary files, for all runtimes of the process. Any thread, also a signal handler.
 * From now on every call that needs a temporary file or a compiler fails, so the program must end.
 */
MUSTER_API void muster_process_cleanup(void);

#ifdef __cplusplus
}
MUSTER_SAME_NAMES_END
#endif

#endif
