/*
 * Opening a file in whichever way suits it: as a stream, or with an engine, and past the system's
 * cache where that can be.
 */
#include "io/file.h"

#include "base/allocator.h"
#include "platform/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <muster/backend.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Where a kernel does not say what direct requests need, this suffices for what disks there are. */
#define ALIGN_ASSUMED ((size_t)4096)
#define CACHE_SAMPLES 16
/* Of struct statx, whose newer members not all systems' headers have. */
#define STATX_WORDS 64
#define DIRECT_ALIGNMENT 0x2000u /* STATX_DIOALIGN */
#define DIRECT_MEMORY_WORD 38    /* stx_dio_mem_align, and behind it stx_dio_offset_align */

static muster_status fail_open(const struct io_file *file, int code, struct muster_error *err)
{
    muster_status status = code == ENOENT && !file->is_write ? MUSTER_E_NOT_FOUND : MUSTER_E_IO;
    return muster_error_fill(err, status, code,
                             code == EISDIR ? "name a file in it" : "choose another path",
                             "%s could not be opened for %s: %s", file->name,
                             file->is_write ? "writing" : "reading", strerror(code));
}

/* What is the same for both directions, before anything is opened. */
static muster_status create(const struct muster_allocator *allocator, const char *path,
                            const struct muster_file_options *options, bool is_write,
                            struct io_file **out, struct muster_error *err)
{
    struct io_file *file = allocator_take(allocator, 1, sizeof *file);
    muster_status status = MUSTER_E_NO_MEMORY;
    char name[64];
    if (!file)
        return muster_error_fill(err, status, 0, NULL, "no host memory for a file");
    snprintf(name, sizeof name, "descriptor %d", options->descriptor);
    const char *shown = !path                    ? name
                        : strcmp(path, "-") != 0 ? path
                        : is_write               ? "standard output"
                                                 : "standard input";
    file->allocator = *allocator;
    file->is_write = is_write;
    file->options = *options;
    file->descriptor = file->direct = file->wake = file->uring.descriptor = -1;
    file->aside.descriptor = file->aside.folder = -1;
    file->size = UINT64_MAX;
    file->name_bytes = strlen(shown) + 1;
    file->name = allocator_take(allocator, file->name_bytes, 1);
    file->pieces = allocator_take(allocator, options->depth, sizeof *file->pieces);
    file->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!file->name || !file->pieces)
        muster_error_fill(err, status, 0, NULL, "no host memory for a file");
    else if (file->wake < 0)
        status = muster_error_fill(err, MUSTER_E_IO, errno, "close some files",
                                   "the system refused an eventfd: %s", strerror(errno));
    else if ((status = platform_mutex_init(&file->lock, err)) != MUSTER_OK)
        ;
    else if ((status = platform_condition_init(&file->changed, err)) != MUSTER_OK)
        platform_mutex_deinit(&file->lock);
    if (status != MUSTER_OK) {
        if (file->wake >= 0)
            close(file->wake);
        allocator_give(allocator, file->pieces, options->depth, sizeof *file->pieces);
        allocator_give(allocator, file->name, file->name_bytes, 1);
        allocator_give(allocator, file, 1, sizeof *file);
        return status;
    }
    memcpy(file->name, shown, file->name_bytes);
    for (uint32_t i = 0; i < options->depth; i++) {
        file->pieces[i].next = file->free_piece;
        file->free_piece = &file->pieces[i];
    }
    for (uint32_t i = 0; i < TRANSFERS_MAX; i++) {
        file->transfers[i].next = file->free_transfer;
        file->free_transfer = &file->transfers[i];
    }
    *out = file;
    return MUSTER_OK;
}

/* Which way. */

static bool is_cached(int descriptor, uint64_t size)
{
    unsigned found = 0;
    char byte;
    struct iovec one = { .iov_base = &byte, .iov_len = 1 };
    for (unsigned i = 0; i < CACHE_SAMPLES; i++)
        found += preadv2(descriptor, &one, 1, (off_t)(size / CACHE_SAMPLES * i), RWF_NOWAIT) == 1;
    return found >= CACHE_SAMPLES / 2;
}

/* What direct requests to the file must be aligned to; false if there can be none. */
static bool find_alignment(struct io_file *file)
{
    uint32_t facts[STATX_WORDS] = { 0 };
    file->offset_align = file->memory_align = ALIGN_ASSUMED;
    if (syscall(SYS_statx, file->descriptor, "", AT_EMPTY_PATH, DIRECT_ALIGNMENT, facts) == 0 &&
        (facts[0] & DIRECT_ALIGNMENT)) {
        file->memory_align = facts[DIRECT_MEMORY_WORD];
        file->offset_align = facts[DIRECT_MEMORY_WORD + 1];
    }
    /* Borders of pages must be borders of requests. */
    return file->offset_align > 0 && file->memory_align > 0 && PAGE_BYTES % file->offset_align == 0;
}

/* Such file systems take direct requests and copy all the same: their cache is all they are. */
static bool lies_in_memory(int descriptor)
{
    struct statfs facts;
    return fstatfs(descriptor, &facts) == 0 &&
           (facts.f_type == TMPFS_MAGIC || facts.f_type == RAMFS_MAGIC);
}

/* A second descriptor that goes past the cache. `why_not` is "" if there is one. */
static void open_direct(struct io_file *file, const char **why_not)
{
    enum muster_direct wish = file->options.direct;
    uint64_t bytes = file->is_write ? file->options.bytes : file->size;
    bool is_small = bytes < DIRECT_BYTES_MIN && !(file->is_write && bytes == 0);
    char path[64];
    *why_not = "direct requests were not wanted";
    if (wish == MUSTER_DIRECT_NEVER)
        return;
    *why_not = "it is too small for direct requests";
    if (wish == MUSTER_DIRECT_AUTO && is_small)
        return;
    *why_not = "the system has it in its cache";
    if (wish == MUSTER_DIRECT_AUTO && !file->is_write && is_cached(file->descriptor, file->size))
        return;
    *why_not = "its file system has no direct requests";
    if (lies_in_memory(file->descriptor) || !find_alignment(file))
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file->descriptor);
    file->direct = open(path, (file->is_write ? O_WRONLY : O_RDONLY) | O_DIRECT | O_CLOEXEC);
    if (file->direct >= 0)
        *why_not = "";
}

/* The wish of the option or the variable; NULL: none. */
static muster_status read_wish(const struct io_file *file, const char **wish,
                               struct muster_error *err)
{
    *wish = file->options.engine;
    if (!*wish)
        *wish = platform_environment("MUSTER_IO");
    if (!*wish || !**wish) {
        *wish = NULL;
        return MUSTER_OK;
    }
    if (strcmp(*wish, "io_uring") == 0 || strcmp(*wish, "threads") == 0)
        return MUSTER_OK;
    return muster_error_fill(err, MUSTER_E_INVALID, 0, "say \"io_uring\" or \"threads\"",
                             "%s asks for the unknown engine \"%.40s\"",
                             file->options.engine ? "the option engine" : "MUSTER_IO", *wish);
}

/* The engine for a file that can be read or written anywhere. */
static muster_status choose_engine(struct io_file *file, struct muster_error *err)
{
    const char *wish, *why_not;
    char refused[120] = "";
    muster_status status = read_wish(file, &wish, err);
    if (status != MUSTER_OK)
        return status;
    open_direct(file, &why_not);
    if (file->direct < 0 && file->options.direct == MUSTER_DIRECT_ALWAYS)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "leave the choice to Muster, or choose another file system",
                                 "%s cannot be opened as was asked: %s", file->name, why_not);
    bool wants_threads = wish && strcmp(wish, "threads") == 0;
    if (!wants_threads && uring_open(file, refused, sizeof refused)) {
        file->engine = IO_URING;
    } else {
        if (wish && !wants_threads)
            return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                     "ask for threads, or leave the choice to Muster", "%s",
                                     refused);
        file->engine = IO_WORKERS;
        status = workers_open(file, err);
    }
    snprintf(file->why, sizeof file->why, "%s%s%s",
             wish                       ? "asked for"
             : file->engine == IO_URING ? "the system has it"
                                        : refused,
             *why_not ? "; " : "", why_not);
    return status;
}

static muster_status become_stream(struct io_file *file, const char *why)
{
    file->engine = IO_STREAM;
    snprintf(file->why, sizeof file->why, "%s", why);
    stream_open(file);
    return MUSTER_OK;
}

/* Reading. */

/* A file of the kernel's says that it has nothing, and can be read all the same. */
static bool is_made_when_read(int descriptor)
{
    char byte;
    return pread(descriptor, &byte, 1, 0) == 1;
}

static muster_status look_at_input(struct io_file *file, struct muster_error *err)
{
    struct stat facts;
    if (fstat(file->descriptor, &facts) != 0)
        return fail_open(file, errno, err);
    if (S_ISDIR(facts.st_mode))
        return fail_open(file, EISDIR, err);
    if (!S_ISREG(facts.st_mode) && !S_ISBLK(facts.st_mode))
        return become_stream(file, S_ISFIFO(facts.st_mode)   ? "it is a pipe"
                                   : S_ISSOCK(facts.st_mode) ? "it is a socket"
                                                             : "it is a terminal or the like");
    off_t size = facts.st_size;
    off_t position = lseek(file->descriptor, 0, SEEK_CUR);
    if (S_ISBLK(facts.st_mode)) {
        size = lseek(file->descriptor, 0, SEEK_END);
        lseek(file->descriptor, position, SEEK_SET);
    }
    if (size == 0 && is_made_when_read(file->descriptor))
        return become_stream(file, "it is made while it is read");
    file->size = size > 0 ? (uint64_t)size : 0;
    file->position = position > 0 ? (uint64_t)position : 0;
    if (file->position > file->size)
        file->position = file->size;
    file->gives_back = !file->is_owner;
    muster_status status = choose_engine(file, err);
    if (status == MUSTER_OK && file->direct < 0)
        posix_fadvise(file->descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
    return status;
}

static muster_status open_input(struct io_file *file, const char *path, struct muster_error *err)
{
    file->is_owner = path && strcmp(path, "-") != 0;
    if (!file->is_owner) {
        file->descriptor = path ? STDIN_FILENO : file->options.descriptor;
        return MUSTER_OK;
    }
    do
        file->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    while (file->descriptor < 0 && errno == EINTR);
    return file->descriptor >= 0 ? MUSTER_OK : fail_open(file, errno, err);
}

muster_status io_open_read(const struct muster_allocator *allocator, const char *path,
                           const struct muster_file_options *options, struct io_file **out,
                           struct muster_error *err)
{
    struct io_file *file;
    muster_status status = create(allocator, path, options, false, &file, err);
    if (status != MUSTER_OK)
        return status;
    if ((status = open_input(file, path, err)) == MUSTER_OK)
        status = look_at_input(file, err);
    if (status == MUSTER_OK)
        *out = file;
    else
        io_close(file);
    return status;
}

/* Writing. */

/* The room that was asked for; what the disk has not got is known now and not in an hour. */
static muster_status reserve_all(struct io_file *file, struct muster_error *err)
{
    uint64_t bytes = file->options.bytes;
    int code = EFBIG;
    if (bytes == 0)
        return MUSTER_OK;
    if (bytes <= INT64_MAX)
        code = file_reserve(file, 0, bytes);
    if (code == 0)
        file->reserved = bytes;
    /* Where room cannot be reserved it is found out by writing. */
    if (code == 0 || code == EOPNOTSUPP || code == ENOSYS || code == EINVAL)
        return MUSTER_OK;
    return muster_error_fill(err, MUSTER_E_IO, code,
                             code == EFBIG
                                 ? "raise the limit on the size of files (ulimit -f)"
                                 : "make room on that file system, or choose another place",
                             "%.90s: there is no room for %llu bytes: %s", file->name,
                             (unsigned long long)bytes, strerror(code));
}

static muster_status become_output_stream(struct io_file *file, struct muster_error *err)
{
    struct stat facts;
    if (fstat(file->descriptor, &facts) != 0)
        return fail_open(file, errno, err);
    return become_stream(file, S_ISFIFO(facts.st_mode)   ? "it is a pipe"
                               : S_ISSOCK(facts.st_mode) ? "it is a socket"
                               : S_ISREG(facts.st_mode)  ? "a descriptor is written in order"
                                                         : "it is a terminal or the like");
}

static muster_status open_output(struct io_file *file, const char *path, struct muster_error *err)
{
    if (!path || strcmp(path, "-") == 0) {
        file->descriptor = path ? STDOUT_FILENO : file->options.descriptor;
        return become_output_stream(file, err);
    }
    /* The name is ours, and stays. */
    muster_status status = platform_aside_open(&file->aside, file->name, PLATFORM_ASIDE_PIPES, err);
    if (status != MUSTER_OK)
        return status;
    file->descriptor = file->aside.descriptor;
    if (file->aside.folder < 0) {
        file->is_owner = true;
        return become_output_stream(file, err);
    }
    file->is_aside = true;
    file->aside.must_sync = !file->options.no_sync;
    file->size = 0;
    if ((status = reserve_all(file, err)) == MUSTER_OK)
        status = choose_engine(file, err);
    file->can_reserve = file->direct >= 0;
    return status;
}

muster_status io_open_write(const struct muster_allocator *allocator, const char *path,
                            const struct muster_file_options *options, struct io_file **out,
                            struct muster_error *err)
{
    struct io_file *file;
    struct io_guard guard;
    muster_status status = create(allocator, path, options, true, &file, err);
    if (status != MUSTER_OK)
        return status;
    guard_begin(&guard);
    if ((status = open_output(file, path, err)) == MUSTER_OK)
        *out = file;
    else
        io_close(file);
    guard_end(&guard);
    return status;
}
