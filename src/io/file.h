/*
 * A file's own structures, shared by the files of this folder.
 *
 * What is to be moved is a transfer: one range of the file and as much memory. Transfers queue up,
 * are cut into pieces, and as many pieces as there are places are with the engine at a time. One
 * lock guards all that; it is held while pieces are given to the system, never while something is
 * waited for or a `done` runs.
 */
#ifndef IO_FILE_H
#define IO_FILE_H

#include "io/io.h"
#include "platform/aside.h"
#include "platform/thread.h"

#include <signal.h>
#include <stdatomic.h>

/*
 * Direct and cached requests never share a page: the cache would write back what it had of the page
 * over what went past it.
 */
#define PAGE_BYTES ((size_t)4096)
#define TRANSFERS_MAX 64u /* writes for later; each may be many pieces */
#define WORKERS_MAX 8u
#define GATHER_BYTES ((size_t)1 << 16)
/* Files smaller than that are not worth a second descriptor and heads and tails. */
#define DIRECT_BYTES_MIN ((uint64_t)8 << 20)
/* A request that the system puts off so often in a row, without moving a byte, has failed. */
#define PUT_OFF_MAX 1000u

struct io_file;

struct io_transfer {
    struct io_transfer *next; /* of the queue, of the finished, of the free */
    char *memory;             /* borrowed until it is done */
    uint64_t offset;
    size_t bytes;
    size_t cut;      /* bytes that pieces were made of */
    uint32_t pieces; /* that are with the engine */
    /* Memory around it, or it alone, that stays where it is until io_forget_memory; 0 bytes: none */
    struct io_span lasting;
    bool is_done;
    void (*done)(void *user); /* NULL: somebody waits for is_done */
    void *user;
};

struct io_piece {
    struct io_piece *next; /* of the free, or of those that wait for a worker */
    struct io_transfer *transfer;
    char *memory;
    uint64_t offset;
    size_t bytes;
    uint32_t put_off; /* times in a row */
    bool is_direct;
    int fixed; /* number of the registered memory it lies in; -1: none */
};

enum io_engine { IO_STREAM, IO_URING, IO_WORKERS };

/* The rings that are shared with the kernel. */
struct io_uring_rings {
    int descriptor; /* -1: none */
    char *rings;    /* mapped: both rings */
    size_t rings_bytes;
    void *entries; /* mapped: struct io_uring_sqe */
    size_t entries_bytes;
    _Atomic uint32_t *sq_head, *sq_tail, *cq_head, *cq_tail;
    uint32_t *sq_array;
    uint32_t sq_mask, cq_mask;
    void *cqes;
    uint32_t unsubmitted; /* entries that the kernel has not been told of */
    uint32_t given;       /* pieces that were given and not answered */
    bool is_stuck;        /* the kernel has no thread for requests: callers make them themselves */
    struct io_fixed *fixed; /* owns; NULL: memory is not registered */
};

struct io_workers {
    struct platform_thread threads[WORKERS_MAX];
    uint32_t count;
    struct platform_condition work;
    struct io_piece *first, *last; /* that wait for a worker, or for a caller where there is none */
    bool must_leave, has_condition;
};

struct io_file {
    struct muster_allocator allocator;
    char *name; /* owns */
    size_t name_bytes;
    bool is_write;
    bool is_owner;       /* of the descriptor */
    bool is_socket;      /* a stream that is one */
    bool is_patient;     /* a stream whose descriptor waits in a write until all is taken */
    bool gives_back;     /* the descriptor's own position is set at the end */
    bool is_aside;       /* written aside */
    bool is_finished;    /* muster_file_finish has been here */
    bool can_reserve;    /* room ahead of the writes */
    int descriptor;      /* through the system's cache */
    int direct;          /* the same file past it; -1: none */
    size_t offset_align; /* of direct requests */
    size_t memory_align;
    struct platform_aside aside;
    struct muster_file_options options;
    enum io_engine engine;
    char why[192];

    int wake;                  /* an eventfd that is readable once the file is cancelled */
    _Atomic bool is_cancelled; /* relaxed: sleepers are woken otherwise */

    struct platform_mutex lock;
    struct platform_condition changed; /* a transfer is done */
    uint64_t size;                     /* when it was opened; UINT64_MAX: not known */
    uint64_t position;                 /* reading: in order */
    uint64_t end;                      /* writing: behind all of it, with what is gathered */
    uint64_t reserved;                 /* the file's size on the disk while it is written */
    char *gather;                      /* owns: small writes, or NULL */
    size_t gathered;
    struct muster_error failure; /* the first; its status is MUSTER_OK while there is none */

    struct io_transfer *first, *last; /* the queue */
    struct io_transfer transfers[TRANSFERS_MAX];
    struct io_transfer *free_transfer;
    struct io_transfer *finished; /* whose `done` is to be called */
    uint32_t later;               /* writes for later whose `done` has not returned */
    struct io_piece *pieces;      /* owns */
    struct io_piece *free_piece;
    uint32_t in_flight; /* pieces with the engine */
    bool is_reaping;    /* somebody waits in the kernel; nobody else takes completions */
    struct io_uring_rings uring;
    struct io_workers workers;

    uint64_t bytes, copied_by_muster, copied_by_system, operations, waited_ns, grown_bytes;
    uint64_t memory_fixed; /* the most at a time */
};

/* file.c */
/* Room for these bytes, also if signals interrupt the call; an errno if there is none. */
int file_reserve(const struct io_file *file, uint64_t begin, uint64_t end);
/*
 * Room for writes up to `end`, some of it ahead, so that they need not each make the file longer.
 */
void file_reserve_locked(struct io_file *file, uint64_t end);

/* transfer.c */
/* Moves all of it, and waits for that. The failure is the file's. */
muster_status transfer_run(struct io_file *file, uint64_t offset, void *memory, size_t bytes,
                           struct io_span lasting);
/*
 * What the system answered for a piece: bytes, or a negative errno. True: the rest is to be given
 * again.
 */
bool transfer_advance_locked(struct io_file *file, struct io_piece *piece, int64_t answer);
/* The piece is over. */
void transfer_piece_done_locked(struct io_file *file, struct io_piece *piece);
/* Calls what is to be called of finished transfers; gives up the lock meanwhile. */
void transfer_tell_locked(struct io_file *file);
/* The first failure stays. `code` is an errno, 0: the input ended. */
void transfer_fail_locked(struct io_file *file, int code, uint64_t offset);
muster_status transfer_cancelled_locked(struct io_file *file);
muster_status transfer_failure_locked(const struct io_file *file, struct muster_error *err);

/* uring.c */
/* False, and `why` says why not. */
bool uring_open(struct io_file *file, char *why, size_t why_bytes);
void uring_close(struct io_file *file);
void uring_give_locked(struct io_file *file, struct io_piece *piece);
/* Tells the kernel of what was given. */
void uring_flush_locked(struct io_file *file);
/*
 * Takes what is complete; waits for at least one if there is none and `may_wait`. Where none comes
 * for a while, the requests that the kernel has not begun are taken back and given to
 * workers_give_locked.
 */
void uring_reap_locked(struct io_file *file, bool may_wait);
/*
 * Where in registered memory the piece lies, so that it can be given so; and how long it may then
 * be.
 */
void uring_fix_locked(struct io_file *file, struct io_piece *piece);
void uring_forget_memory_locked(struct io_file *file);

/* workers.c */
muster_status workers_open(struct io_file *file, struct muster_error *err);
void workers_close(struct io_file *file);
void workers_give_locked(struct io_file *file, struct io_piece *piece);
/*
 * Does one of the pieces that wait, where there is no thread for them; gives up the lock meanwhile.
 * False: there is none.
 */
bool workers_help_locked(struct io_file *file);

/* stream.c */
void stream_open(struct io_file *file);
muster_status stream_read(struct io_file *file, char *to, size_t bytes, size_t enough, size_t *got);
muster_status stream_write(struct io_file *file, const char *from, size_t bytes);

/* signals.c: a write that fails may send the thread a signal that would end the process. */
struct io_guard {
    sigset_t before;
    bool was_pending[2];
};
void guard_begin(struct io_guard *guard);
void guard_end(const struct io_guard *guard);

#endif
