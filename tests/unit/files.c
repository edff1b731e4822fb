/*
 * Files without jobs: all bytes, whichever way they are read and written; whole or not at all; and
 * whatever goes wrong is told, stops nobody and leaves nothing behind. Linked so that calls of the
 * system can be made to fail.
 */
#include "files_support.h"

#include "base/random.h"

#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>

/* What the next calls of pread and pwrite do. */
static _Atomic int short_calls;     /* this many move a part only */
static _Atomic int interrupted;     /* this many are interrupted */
static _Atomic int64_t broken_from; /* calls that touch bytes from there on fail; -1: none */
static _Atomic int broken_code;

ssize_t __real_pread(int descriptor, void *to, size_t bytes, off_t offset);
ssize_t __real_pwrite(int descriptor, const void *from, size_t bytes, off_t offset);
ssize_t __wrap_pread(int descriptor, void *to, size_t bytes, off_t offset);
ssize_t __wrap_pwrite(int descriptor, const void *from, size_t bytes, off_t offset);

static bool take(_Atomic int *count)
{
    return atomic_load(count) > 0 && atomic_fetch_sub(count, 1) > 0;
}

static bool must_fail(size_t bytes, off_t offset)
{
    int64_t from = atomic_load(&broken_from);
    if (from >= 0 && offset + (off_t)bytes > from)
        errno = atomic_load(&broken_code);
    else if (take(&interrupted))
        errno = EINTR;
    else
        return false;
    return true;
}

ssize_t __wrap_pread(int descriptor, void *to, size_t bytes, off_t offset)
{
    if (must_fail(bytes, offset))
        return -1;
    return __real_pread(descriptor, to, take(&short_calls) && bytes > 1 ? bytes / 2 : bytes,
                        offset);
}

ssize_t __wrap_pwrite(int descriptor, const void *from, size_t bytes, off_t offset)
{
    if (must_fail(bytes, offset))
        return -1;
    return __real_pwrite(descriptor, from, take(&short_calls) && bytes > 1 ? bytes / 2 : bytes,
                         offset);
}

static _Atomic bool is_still;        /* io_uring seems to answer nothing */
static _Atomic bool has_no_threads;  /* none can be started */
static _Atomic int interrupted_room; /* this many calls of fallocate are interrupted */
static _Atomic int reserved;         /* this many were not */

static _Atomic int interrupted_polls; /* this many calls of poll are interrupted */
static _Atomic int refused_enters;    /* this many calls of io_uring_enter fail */
static _Atomic int refused_code;

int __real_poll(struct pollfd *entries, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *entries, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *entries, nfds_t count, int timeout_ms)
{
    if (take(&interrupted_polls)) {
        errno = EINTR;
        return -1;
    }
    /* A ring is waited for alone, a stream with its wake-up. */
    if (atomic_load(&is_still) && count == 1 && timeout_ms > 0)
        return 0;
    return __real_poll(entries, count, timeout_ms);
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    long words[6];
    va_list more;
    va_start(more, number);
    for (size_t i = 0; i < COUNT_OF(words); i++)
        words[i] = va_arg(more, long);
    va_end(more);
    if (number == __NR_io_uring_enter && take(&refused_enters)) {
        errno = atomic_load(&refused_code);
        return -1;
    }
    return __real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

int __real_fallocate(int descriptor, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int descriptor, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int descriptor, int mode, off_t offset, off_t bytes)
{
    if (take(&interrupted_room)) {
        errno = EINTR;
        return -1;
    }
    atomic_fetch_add(&reserved, 1);
    return __real_fallocate(descriptor, mode, offset, bytes);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    return atomic_load(&has_no_threads) ? EAGAIN
                                        : __real_pthread_create(thread, attributes, run, argument);
}

static void break_from(int64_t from, int code)
{
    atomic_store(&broken_code, code);
    atomic_store(&broken_from, from);
}

static const struct way threads = { "threads", MUSTER_DIRECT_NEVER };

/* Reading. */

static void read_all(struct muster *m, const struct way *way, const char *path, size_t bytes,
                     struct random *random)
{
    struct muster_file_options options = options_of(way, 0);
    options.depth = 4;
    options.piece_bytes = 16384;
    struct muster_file *file = open_way(m, path, false, &options);
    unsigned char *room = aligned_alloc(4096, (bytes + 12287) / 4096 * 4096);
    size_t done = 0, got = 1;
    CHECK(room);
    /* Some memory lies as the file does, some does not. */
    unsigned char *to = room + random_below(random, 2) * random_below(random, 4096);
    while (file && got > 0) {
        size_t step = bytes < 8 ? bytes + 1 : (size_t)random_below(random, bytes / 2) + 1;
        if (step > bytes - done && done < bytes)
            step = bytes - done;
        MUST(muster_file_read(file, to + done, step, &got, &problem));
        CHECK(got <= bytes - done);
        done += got;
    }
    CHECK_EQUAL(file ? bytes : 0, done);
    check_bytes(to, 0, done);
    if (file)
        CHECK_EQUAL(bytes, report_of(file).bytes);
    muster_file_close(file);
    free(room);
}

static void all_bytes_are_read_in_every_way(void)
{
    static const size_t sizes[] = { 0, 1, 4095, 4096, 4097, 65536, 300001, 1 << 20 };
    struct muster *m = open_plain();
    struct random random;
    random_init(&random, test_seed());
    make_folder();
    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        const char *path = make_file("in", sizes[s]);
        for (size_t w = 0; w < COUNT_OF(ways); w++)
            for (unsigned i = 0; i < test_repetitions(3); i++)
                read_all(m, &ways[w], path, sizes[s], &random);
    }
    remove_folder();
    MUST(muster_close(m, &problem));
}

static void any_place_can_be_read(void)
{
    struct muster *m = open_plain();
    unsigned char to[100];
    size_t got;
    make_folder();
    struct muster_file *file = open_reading(m, make_file("in", 5000), 0);
    MUST(muster_file_read_at(file, 4000, to, 100, &got, &problem));
    CHECK_EQUAL(100, got);
    check_bytes(to, 4000, got);
    MUST(muster_file_read_at(file, 4950, to, 100, &got, &problem));
    CHECK_EQUAL(50, got);
    MUST(muster_file_read_at(file, UINT64_MAX - 5, to, 100, &got, &problem));
    CHECK_EQUAL(0, got);
    /* It stands where it stood. */
    MUST(muster_file_read(file, to, 10, &got, &problem));
    check_bytes(to, 0, got);
    muster_file_close(file);
    remove_folder();
    MUST(muster_close(m, &problem));
}

static void nothing_is_copied_where_all_is_aligned(void)
{
    struct muster *m = open_plain();
    const size_t bytes = 1 << 20;
    unsigned char *memory = aligned_alloc(4096, bytes);
    size_t got;
    CHECK(memory);
    make_folder();
    const char *path = make_file("in", bytes);
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        struct muster_file_options options = options_of(&ways[w], 0);
        struct muster_file *file = open_way(m, path, false, &options);
        if (!file)
            continue;
        MUST(muster_file_read(file, memory, bytes, &got, &problem));
        check_bytes(memory, 0, got);
        struct muster_file_report report = report_of(file);
        bool is_direct = ways[w].direct == MUSTER_DIRECT_ALWAYS;
        CHECK_EQUAL(is_direct ? 0 : bytes, report.copied_by_system);
        CHECK_EQUAL(0, report.copied_by_muster);
        CHECK_CONTAINS(ways[w].engine, report.engine);
        CHECK_EQUAL(is_direct, strstr(report.engine, " direct") != NULL);
        muster_file_close(file);
    }
    free(memory);
    remove_folder();
    MUST(muster_close(m, &problem));
}

static void what_lies_in_memory_is_not_called_direct(void)
{
    const char *path = "/dev/shm/muster-files-test";
    struct muster *m = open_plain();
    struct muster_file_options options = options_of(&ways[1], 0);
    struct statfs facts;
    struct muster_file *file;
    if (statfs("/dev/shm", &facts) == 0 && facts.f_type == TMPFS_MAGIC) {
        CHECK_STATUS(MUSTER_E_NOT_SUPPORTED,
                     muster_file_write_open(m, path, &options, &file, &problem));
        file = open_writing(m, path, 0);
        CHECK(strstr(report_of(file).engine, "direct") == NULL);
        muster_file_close(file);
    }
    MUST(muster_close(m, &problem));
}

static void a_descriptor_is_read_from_where_it_stands(void)
{
    struct muster *m = open_plain();
    struct muster_file_options options = options_of(NULL, 100);
    struct muster_file *file;
    unsigned char to[300];
    uint64_t items;
    size_t got;
    make_folder();
    options.descriptor = open(make_file("in", 1000), O_RDONLY | O_CLOEXEC);
    CHECK(options.descriptor >= 0 && lseek(options.descriptor, 400, SEEK_SET) == 400);
    MUST(muster_file_read_open(m, NULL, &options, &file, &problem));
    MUST(muster_file_items(file, &items, &problem));
    CHECK_EQUAL(6, items);
    MUST(muster_file_read(file, to, sizeof to, &got, &problem));
    check_bytes(to, 400, got);
    muster_file_close(file);
    CHECK_EQUAL(700, lseek(options.descriptor, 0, SEEK_CUR));
    close(options.descriptor);
    remove_folder();
    MUST(muster_close(m, &problem));
}

static void what_cannot_be_read_is_told(void)
{
    struct muster *m = open_plain();
    struct muster_file_options options = options_of(NULL, 0);
    struct muster_file *file;
    make_folder();
    CHECK_STATUS(MUSTER_E_NOT_FOUND,
                 muster_file_read_open(m, in_folder("none"), NULL, &file, &problem));
    CHECK_CONTAINS("none could not be opened for reading", problem.text);
    CHECK_STATUS(MUSTER_E_IO, muster_file_read_open(m, folder, NULL, &file, &problem));
    CHECK_CONTAINS("directory", problem.text);
    const char *path = make_file("in", 10);
    char below[160];
    snprintf(below, sizeof below, "%s/x", path);
    CHECK_STATUS(MUSTER_E_IO, muster_file_read_open(m, below, NULL, &file, &problem));
    options.descriptor = 9999;
    CHECK_STATUS(MUSTER_E_IO, muster_file_read_open(m, NULL, &options, &file, &problem));
    CHECK_CONTAINS("descriptor 9999", problem.text);
    CHECK_STATUS(MUSTER_E_INVALID, muster_file_read_open(m, NULL, NULL, &file, &problem));
    options = options_of(NULL, 0);
    options.engine = "fibers";
    CHECK_STATUS(MUSTER_E_INVALID, muster_file_read_open(m, path, &options, &file, &problem));
    CHECK_CONTAINS("fibers", problem.text);
    options = options_of(NULL, 0);
    options.piece_bytes = 5000;
    CHECK_STATUS(MUSTER_E_INVALID, muster_file_read_open(m, path, &options, &file, &problem));
    options = options_of(NULL, 0);
    options.depth = 100000;
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_file_read_open(m, path, &options, &file, &problem));
    remove_folder();
    MUST(muster_close(m, &problem));
}

static void the_wrong_kind_of_call_is_refused(void)
{
    struct muster *m = open_plain();
    unsigned char to[8] = { 0 };
    uint64_t items;
    size_t got;
    make_folder();
    struct muster_file *in = open_reading(m, make_file("in", 10), 0);
    struct muster_file *out = open_writing(m, in_folder("out"), 0);
    CHECK_STATUS(MUSTER_E_INVALID, muster_file_write(in, to, 8, &problem));
    CHECK_CONTAINS("open for reading", problem.text);
    CHECK_STATUS(MUSTER_E_INVALID, muster_file_read(out, to, 8, &got, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_file_read(in, NULL, 8, &got, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_file_items(in, &items, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_file_report(in, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_file_finish(NULL, &problem));
    CHECK_EQUAL(MUSTER_E_INVALID, muster_file_source(out, 0, 1, to, 8));
    CHECK_EQUAL(MUSTER_E_INVALID, muster_file_source(in, 0, 1, to, 8));
    muster_file_cancel(NULL);
    muster_file_close(NULL);
    /* What is left is closed with the runtime. */
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(1, count_files());
    remove_folder();
}

static void an_input_that_shrinks_is_a_failure(void)
{
    struct muster *m = open_plain();
    unsigned char *to = malloc(100000);
    size_t got = 7;
    CHECK(to);
    make_folder();
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        const char *path = make_file("in", 100000);
        struct muster_file_options options = options_of(&ways[w], 0);
        struct muster_file *file = open_way(m, path, false, &options);
        if (!file)
            continue;
        MUST(muster_file_read(file, to, 50000, &got, &problem));
        CHECK(truncate(path, 60000) == 0);
        CHECK_STATUS(MUSTER_E_IO, muster_file_read(file, to, 50000, &got, &problem));
        CHECK_CONTAINS("had 100000 bytes when it was opened", problem.text);
        CHECK_CONTAINS("cut while it was read", problem.text);
        CHECK_EQUAL(50000, got);
        CHECK_STATUS(MUSTER_E_IO, muster_file_finish(file, &problem));
        muster_file_close(file);
    }
    free(to);
    remove_folder();
    MUST(muster_close(m, &problem));
}

static void what_an_input_gets_later_is_ignored_and_said(void)
{
    struct muster *m = open_plain();
    unsigned char to[2000];
    size_t got;
    make_folder();
    const char *path = make_file("in", 1000);
    struct muster_file *file = open_reading(m, path, 0);
    make_file("in", 1500);
    MUST(muster_file_read(file, to, sizeof to, &got, &problem));
    CHECK_EQUAL(1000, got);
    MUST(muster_file_read(file, to, sizeof to, &got, &problem));
    CHECK_EQUAL(0, got);
    CHECK_EQUAL(500, report_of(file).grown_bytes);
    MUST(muster_file_finish(file, &problem));
    muster_file_close(file);
    remove_folder();
    MUST(muster_close(m, &problem));
}

static void holes_of_any_size_are_read(void)
{
    struct muster *m = open_plain();
    const uint64_t bytes = UINT64_C(100) << 30;
    unsigned char to[8192];
    uint64_t items;
    size_t got;
    make_folder();
    const char *path = make_file("in", 0);
    CHECK(truncate(path, (off_t)bytes) == 0);
    struct muster_file *file = open_reading(m, path, 4096);
    MUST(muster_file_items(file, &items, &problem));
    CHECK_EQUAL(bytes / 4096, items);
    MUST(muster_file_read_at(file, bytes - 4096, to, sizeof to, &got, &problem));
    CHECK_EQUAL(4096, got);
    CHECK(to[0] == 0 && to[4095] == 0);
    muster_file_close(file);
    remove_folder();
    MUST(muster_close(m, &problem));
}

static void files_of_the_kernel_are_read(void)
{
    struct muster *m = open_plain();
    char to[4096] = "";
    uint64_t items;
    size_t got;
    struct muster_file *file = open_reading(m, "/proc/self/status", 1);
    MUST(muster_file_items(file, &items, &problem));
    CHECK(items == MUSTER_ITEMS_UNKNOWN);
    MUST(muster_file_read(file, to, sizeof to - 1, &got, &problem));
    CHECK_CONTAINS("Name:", to);
    muster_file_close(file);
    MUST(muster_close(m, &problem));
}

/* Writing. */

static void write_all(struct muster *m, const struct way *way, size_t bytes, bool is_known,
                      struct random *random)
{
    struct muster_file_options options = options_of(way, 0);
    unsigned char *room = aligned_alloc(4096, (bytes + 12287) / 4096 * 4096);
    CHECK(room);
    unsigned char *from = room + random_below(random, 2) * random_below(random, 4096);
    options.depth = 4;
    options.piece_bytes = 16384;
    /* Too much is no harm. */
    options.bytes = is_known ? bytes + random_below(random, 2) * 12345 : 0;
    options.no_sync = 1;
    const char *path = in_folder("out");
    struct muster_file *file = open_way(m, path, true, &options);
    fill_bytes(from, 0, bytes);
    for (size_t done = 0; file && done < bytes;) {
        size_t step = (size_t)random_below(random, random_below(random, 2) ? 200 : bytes) + 1;
        if (step > bytes - done)
            step = bytes - done;
        MUST(muster_file_write(file, from + done, step, &problem));
        done += step;
    }
    if (file) {
        CHECK_EQUAL(0, count_files());
        MUST(muster_file_finish(file, &problem));
        MUST(muster_file_finish(file, &problem));
        CHECK_EQUAL(bytes, report_of(file).bytes);
        muster_file_close(file);
        check_file(path, bytes);
        unlink(path);
    }
    free(room);
}

static void all_bytes_are_written_in_every_way(void)
{
    static const size_t sizes[] = { 0, 1, 4096, 4097, 300001, 1 << 20 };
    struct muster *m = open_plain();
    struct random random;
    random_init(&random, test_seed());
    make_folder();
    for (size_t s = 0; s < COUNT_OF(sizes); s++)
        for (size_t w = 0; w < COUNT_OF(ways); w++)
            for (unsigned i = 0; i < test_repetitions(4); i++)
                write_all(m, &ways[w], sizes[s], i % 2, &random);
    remove_folder();
    MUST(muster_close(m, &problem));
}

static void what_was_there_stays_until_the_end(void)
{
    struct muster *m = open_plain();
    struct stat facts;
    make_folder();
    const char *path = make_file("out", 100);
    CHECK(chmod(path, 0640) == 0);
    struct muster_file *file = open_writing(m, path, 0);
    MUST(muster_file_write(file, "new", 3, &problem));
    check_file(path, 100);
    muster_file_close(file);
    check_file(path, 100);
    CHECK_EQUAL(1, count_files());
    file = open_writing(m, path, 0);
    unsigned char bytes[10];
    fill_bytes(bytes, 0, sizeof bytes);
    MUST(muster_file_write(file, bytes, sizeof bytes, &problem));
    MUST(muster_file_finish(file, &problem));
    muster_file_close(file);
    check_file(path, 10);
    CHECK_EQUAL(1, count_files());
    CHECK(stat(path, &facts) == 0 && (facts.st_mode & 07777) == 0640);
    remove_folder();
    MUST(muster_close(m, &problem));
}

static void what_cannot_be_written_is_told(void)
{
    struct muster *m = open_plain();
    struct muster_file *file;
    make_folder();
    CHECK_STATUS(MUSTER_E_IO, muster_file_write_open(m, folder, NULL, &file, &problem));
    CHECK_CONTAINS("directory", problem.text);
    CHECK_STATUS(MUSTER_E_IO,
                 muster_file_write_open(m, in_folder("no/out"), NULL, &file, &problem));
    CHECK_STATUS(MUSTER_E_IO, muster_file_write_open(m, "", NULL, &file, &problem));
    struct muster_file_options options = options_of(NULL, 0);
    options.bytes = UINT64_MAX / 4;
    CHECK_STATUS(MUSTER_E_IO,
                 muster_file_write_open(m, in_folder("out"), &options, &file, &problem));
    CHECK_CONTAINS("no room for 4611686018427387903 bytes", problem.text);
    CHECK_EQUAL(0, count_files());
    remove_folder();
    MUST(muster_close(m, &problem));
}

/* A full disk. */
static void a_device_without_room_is_told(void)
{
    struct muster *m = open_plain();
    unsigned char *bytes = calloc(1, 100000);
    CHECK(bytes);
    struct muster_file *file = open_writing(m, "/dev/full", 0);
    CHECK_STATUS(MUSTER_E_IO, muster_file_write(file, bytes, 100000, &problem));
    CHECK_EQUAL(ENOSPC, problem.driver_code);
    CHECK_CONTAINS("/dev/full could not be written at byte 0: No space left", problem.text);
    CHECK_CONTAINS("make room", problem.fix);
    muster_file_close(file);
    /* Small ones are gathered, so that the end tells it. */
    file = open_writing(m, "/dev/full", 0);
    MUST(muster_file_write(file, bytes, 10, &problem));
    CHECK_STATUS(MUSTER_E_IO, muster_file_finish(file, &problem));
    muster_file_close(file);
    free(bytes);
    MUST(muster_close(m, &problem));
}

static void a_limit_on_the_size_of_files_is_told(void)
{
    struct muster *m = open_plain();
    struct rlimit before, limit;
    unsigned char *bytes = aligned_alloc(4096, 1 << 20);
    CHECK(bytes && getrlimit(RLIMIT_FSIZE, &before) == 0);
    memset(bytes, 1, 1 << 20);
    limit = before;
    limit.rlim_cur = 300000;
    make_folder();
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        struct muster_file_options options = options_of(&ways[w], 0);
        const char *path = in_folder("out");
        struct muster_file *file = open_way(m, path, true, &options);
        if (!file)
            continue;
        /* The signal is not ignored here: it must not come. */
        CHECK_STATUS(MUSTER_E_IO, muster_file_write(file, bytes, 1 << 20, &problem));
        CHECK_EQUAL(EFBIG, problem.driver_code);
        CHECK_CONTAINS("could not be written", problem.text);
        CHECK_CONTAINS("ulimit -f", problem.fix);
        CHECK_STATUS(MUSTER_E_IO, muster_file_write(file, bytes, 10, &problem));
        CHECK_STATUS(MUSTER_E_IO, muster_file_finish(file, &problem));
        muster_file_close(file);
        CHECK_EQUAL(0, count_files());
        options.bytes = 1 << 20;
        CHECK_STATUS(MUSTER_E_IO, muster_file_write_open(m, path, &options, &file, &problem));
        CHECK_CONTAINS("no room for 1048576 bytes", problem.text);
        CHECK_EQUAL(0, count_files());
    }
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    free(bytes);
    remove_folder();
    MUST(muster_close(m, &problem));
}

/* Calls that do less than they were asked to. */

static void short_and_interrupted_calls_are_completed(void)
{
    struct muster *m = open_plain();
    struct muster_file_options options = options_of(&threads, 0);
    unsigned char *bytes = malloc(300001);
    size_t got;
    CHECK(bytes);
    options.piece_bytes = 16384;
    make_folder();
    const char *path = make_file("in", 300001);
    atomic_store(&short_calls, 50);
    atomic_store(&interrupted, 20);
    struct muster_file *file = open_way(m, path, false, &options);
    MUST(muster_file_read(file, bytes, 300001, &got, &problem));
    CHECK_EQUAL(300001, got);
    check_bytes(bytes, 0, got);
    CHECK(atomic_load(&short_calls) <= 0 && atomic_load(&interrupted) <= 0);
    muster_file_close(file);
    atomic_store(&short_calls, 50);
    atomic_store(&interrupted, 20);
    file = open_way(m, in_folder("out"), true, &options);
    MUST(muster_file_write(file, bytes, 300001, &problem));
    MUST(muster_file_finish(file, &problem));
    CHECK(atomic_load(&short_calls) <= 0 && atomic_load(&interrupted) <= 0);
    muster_file_close(file);
    check_file(in_folder("out"), 300001);
    free(bytes);
    remove_folder();
    MUST(muster_close(m, &problem));
}

static void failing_calls_are_told_with_their_place(void)
{
    struct muster *m = open_plain();
    struct muster_file_options options = options_of(&threads, 0);
    unsigned char *bytes = malloc(200000);
    size_t got;
    CHECK(bytes);
    fill_bytes(bytes, 0, 200000);
    options.depth = 1;
    options.piece_bytes = 4096;
    make_folder();
    struct muster_file *file = open_way(m, make_file("in", 200000), false, &options);
    break_from(81920, EIO);
    CHECK_STATUS(MUSTER_E_IO, muster_file_read(file, bytes, 200000, &got, &problem));
    CHECK_CONTAINS("could not be read at byte 81920: Input/output error", problem.text);
    muster_file_close(file);
    file = open_way(m, in_folder("out"), true, &options);
    break_from(81920, ENOSPC);
    CHECK_STATUS(MUSTER_E_IO, muster_file_write(file, bytes, 200000, &problem));
    CHECK_CONTAINS(
        "out could not be written at byte 81920: No space left on device; 81920 bytes had",
        problem.text);
    CHECK_CONTAINS("make room", problem.fix);
    break_from(-1, 0);
    CHECK_STATUS(MUSTER_E_IO, muster_file_finish(file, &problem));
    muster_file_close(file);
    CHECK_EQUAL(1, count_files());
    free(bytes);
    remove_folder();
    MUST(muster_close(m, &problem));
}

/* Pipes. */

struct writer {
    int descriptor;
    size_t bytes, step;
};

static void *write_pattern(void *argument)
{
    const struct writer *writer = argument;
    unsigned char bytes[70000];
    for (size_t done = 0; done < writer->bytes;) {
        size_t count = writer->step < writer->bytes - done ? writer->step : writer->bytes - done;
        fill_bytes(bytes, done, count);
        ssize_t step = write(writer->descriptor, bytes, count);
        if (step <= 0)
            break;
        done += (size_t)step;
    }
    close(writer->descriptor);
    return NULL;
}

static void pipes_and_sockets_are_read_to_their_end(void)
{
    struct muster *m = open_plain();
    unsigned char *to = malloc(300001);
    CHECK(to);
    for (int is_socket = 0; is_socket < 2; is_socket++) {
        int ends[2];
        size_t got;
        pthread_t thread;
        struct muster_file *file;
        CHECK((is_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) == 0);
        struct writer writer = { ends[1], 300001, 7001 };
        struct muster_file_options options = options_of(NULL, 0);
        options.descriptor = ends[0];
        MUST(muster_file_read_open(m, NULL, &options, &file, &problem));
        CHECK(pthread_create(&thread, NULL, write_pattern, &writer) == 0);
        MUST(muster_file_read(file, to, 1000, &got, &problem));
        CHECK_EQUAL(1000, got);
        MUST(muster_file_read(file, to + 1000, 300001, &got, &problem));
        CHECK_EQUAL(299001, got);
        check_bytes(to, 0, 300001);
        CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, muster_file_read_at(file, 0, to, 1, &got, &problem));
        CHECK_TEXT("pipe", report_of(file).engine);
        pthread_join(thread, NULL);
        muster_file_close(file);
        close(ends[0]);
    }
    free(to);
    MUST(muster_close(m, &problem));
}

static void a_pipe_gives_whole_items_as_they_come(void)
{
    struct muster *m = open_plain();
    struct muster_file_options options = options_of(NULL, 100);
    struct muster_file *file;
    unsigned char bytes[1000], to[1000];
    int ends[2];
    CHECK(pipe(ends) == 0);
    fill_bytes(bytes, 0, sizeof bytes);
    options.descriptor = ends[0];
    MUST(muster_file_read_open(m, NULL, &options, &file, &problem));
    CHECK(write(ends[1], bytes, 300) == 300);
    CHECK_EQUAL(3, muster_file_source(file, 0, 10, to, 1000));
    /* The rest of an item that has begun is waited for; there is one of 50 bytes at the end. */
    struct writer writer = { ends[1], 250, 50 };
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, write_pattern, &writer) == 0);
    int64_t items = muster_file_source(file, 3, 10, to, 1000);
    while (items > 0)
        items = muster_file_source(file, 4, 10, to, 1000);
    CHECK_EQUAL(MUSTER_E_INVALID, items);
    CHECK_STATUS(MUSTER_E_INVALID, muster_file_finish(file, &problem));
    CHECK_CONTAINS("no whole number of items of 100 bytes: 50 bytes remain", problem.text);
    pthread_join(thread, NULL);
    muster_file_close(file);
    close(ends[0]);
    MUST(muster_close(m, &problem));
}

static void a_closed_pipe_is_a_failure_and_no_signal(void)
{
    struct muster *m = open_plain();
    unsigned char *bytes = calloc(1, 1 << 20);
    CHECK(bytes && signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    for (int is_socket = 0; is_socket < 2; is_socket++) {
        struct muster_file_options options = options_of(NULL, 0);
        struct muster_file *file;
        int ends[2];
        CHECK((is_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) == 0);
        options.descriptor = ends[1];
        MUST(muster_file_write_open(m, NULL, &options, &file, &problem));
        MUST(muster_file_write(file, bytes, 70000, &problem));
        close(ends[0]);
        CHECK_STATUS(MUSTER_E_IO, muster_file_write(file, bytes, 1 << 20, &problem));
        CHECK_EQUAL(EPIPE, problem.driver_code);
        CHECK_CONTAINS("could not be written at byte 70000: Broken pipe", problem.text);
        CHECK_STATUS(MUSTER_E_IO, muster_file_finish(file, &problem));
        muster_file_close(file);
        close(ends[1]);
    }
    free(bytes);
    MUST(muster_close(m, &problem));
}

/* What is blocked when somebody cancels it. */
struct blocked {
    struct muster_file *file;
    unsigned char *bytes;
    size_t count;
    bool is_write;
    muster_status status;
};

static void *block(void *argument)
{
    struct blocked *blocked = argument;
    size_t got;
    blocked->status =
        blocked->is_write
            ? muster_file_write(blocked->file, blocked->bytes, blocked->count, NULL)
            : muster_file_read(blocked->file, blocked->bytes, blocked->count, &got, NULL);
    return NULL;
}

static void whoever_waits_for_a_pipe_can_be_cancelled(void)
{
    struct muster *m = open_plain();
    for (unsigned i = 0; i < test_repetitions(20); i++) {
        struct muster_file_options options = options_of(NULL, 0);
        struct blocked blocked = { .count = 4 << 20, .is_write = i % 2 };
        bool is_socket = i % 4 >= 2;
        pthread_t thread;
        int ends[2];
        size_t got;
        blocked.bytes = calloc(1, blocked.count);
        CHECK(blocked.bytes &&
              (is_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) == 0);
        options.descriptor = ends[blocked.is_write];
        MUST(blocked.is_write ? muster_file_write_open(m, NULL, &options, &blocked.file, &problem)
                              : muster_file_read_open(m, NULL, &options, &blocked.file, &problem));
        atomic_store(&interrupted_polls, i % 5);
        CHECK(pthread_create(&thread, NULL, block, &blocked) == 0);
        /* Now and then it is waiting by then. */
        if (i % 3)
            usleep(i * 100);
        muster_file_cancel(blocked.file);
        pthread_join(thread, NULL);
        CHECK_STATUS(MUSTER_E_CANCELLED, blocked.status);
        CHECK_STATUS(MUSTER_E_CANCELLED,
                     blocked.is_write ? muster_file_write(blocked.file, "x", 1, &problem)
                                      : muster_file_read(blocked.file, &got, 1, &got, &problem));
        CHECK_CONTAINS("was cancelled", problem.text);
        muster_file_close(blocked.file);
        close(ends[0]);
        close(ends[1]);
        free(blocked.bytes);
    }
    MUST(muster_close(m, &problem));
}

static void a_file_that_was_cancelled_is_not_put_in_its_place(void)
{
    struct muster *m = open_plain();
    make_folder();
    struct muster_file *file = open_writing(m, in_folder("out"), 0);
    MUST(muster_file_write(file, "abc", 3, &problem));
    muster_file_cancel(file);
    CHECK_STATUS(MUSTER_E_CANCELLED, muster_file_finish(file, &problem));
    muster_file_close(file);
    CHECK_EQUAL(0, count_files());
    remove_folder();
    MUST(muster_close(m, &problem));
}

/* The engine. */

struct without_uring {
    struct muster *m;
    const char *path;
    const char *engine;
    muster_status status;
    struct muster_file_report report;
    struct muster_error problem;
};

/* A thread to which io_uring is refused, as containers do it. */
static unsigned count_descriptors(void)
{
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/fd");
    CHECK(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static void *read_pipe(void *argument)
{
    int pipe = open(argument, O_RDONLY | O_CLOEXEC);
    unsigned char bytes[4096];
    CHECK(pipe >= 0);
    while (read(pipe, bytes, sizeof bytes) > 0)
        continue;
    close(pipe);
    return NULL;
}

/* However a file ends, all that was opened for it is closed, and nothing else is. */
static void no_descriptor_is_left(void)
{
    struct muster *m = open_plain();
    static unsigned char bytes[100000];
    size_t got;
    make_folder();
    fill_bytes(bytes, 0, sizeof bytes);
    make_file("in", sizeof bytes);
    CHECK(mkfifo(in_folder("pipe"), 0600) == 0);
    unsigned before = count_descriptors();
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        struct muster_file_options options = options_of(&ways[w], 1);
        struct muster_file *file = open_way(m, in_folder("in"), false, &options);
        if (file)
            MUST(muster_file_read(file, bytes, sizeof bytes, &got, &problem));
        muster_file_close(file);
        CHECK_EQUAL(before, count_descriptors());
        /* Finished, cancelled, and just left. */
        for (int end = 0; end < 3; end++) {
            file = open_way(m, in_folder("out"), true, &options);
            if (!file)
                continue;
            MUST(muster_file_write(file, bytes, sizeof bytes, &problem));
            if (end == 0)
                MUST(muster_file_finish(file, &problem));
            if (end == 1)
                muster_file_cancel(file);
            muster_file_close(file);
            CHECK_EQUAL(before, count_descriptors());
        }
        unlink(in_folder("out"));
        CHECK_EQUAL(2, count_files());
        file = NULL;
        CHECK_STATUS(MUSTER_E_NOT_FOUND,
                     muster_file_read_open(m, in_folder("none"), &options, &file, &problem));
        CHECK_EQUAL(before, count_descriptors());
    }
    /* A pipe by its name, and one that stays its owner's. */
    pthread_t reader;
    CHECK_EQUAL(0, pthread_create(&reader, NULL, read_pipe, (void *)(uintptr_t)in_folder("pipe")));
    struct muster_file *file = open_writing(m, in_folder("pipe"), 1);
    MUST(muster_file_write(file, bytes, sizeof bytes, &problem));
    MUST(muster_file_finish(file, &problem));
    muster_file_close(file);
    CHECK_EQUAL(0, pthread_join(reader, NULL));
    CHECK_EQUAL(before, count_descriptors());
    int ends[2];
    CHECK(pipe(ends) == 0);
    for (int is_write = 0; is_write < 2; is_write++) {
        struct muster_file_options options = options_of(NULL, 1);
        options.descriptor = ends[is_write];
        file = open_way(m, NULL, is_write, &options);
        muster_file_close(file);
        CHECK_EQUAL(before + 2, count_descriptors());
    }
    CHECK(write(ends[1], "x", 1) == 1 && read(ends[0], bytes, 1) == 1);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    remove_folder();
    MUST(muster_close(m, &problem));
}

static void *open_without_uring(void *argument)
{
    struct without_uring *without = argument;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { .len = COUNT_OF(code), .filter = code };
    struct muster_file_options options = options_of(NULL, 0);
    struct muster_file *file = NULL;
    without->status = MUSTER_E_INTERNAL;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return NULL;
    options.engine = without->engine;
    without->status =
        muster_file_read_open(without->m, without->path, &options, &file, &without->problem);
    without->report.size = sizeof without->report;
    if (without->status == MUSTER_OK)
        muster_file_report(file, &without->report, NULL);
    muster_file_close(file);
    return NULL;
}

static void without_io_uring_there_are_threads(void)
{
    struct without_uring without = { .m = open_plain() };
    pthread_t thread;
    make_folder();
    without.path = make_file("in", 1000);
    CHECK(pthread_create(&thread, NULL, open_without_uring, &without) == 0);
    pthread_join(thread, NULL);
    CHECK_STATUS(MUSTER_OK, without.status);
    CHECK_TEXT("threads", without.report.engine);
    CHECK_CONTAINS("io_uring is refused: Operation not permitted", without.report.why);
    without.engine = "io_uring";
    CHECK(pthread_create(&thread, NULL, open_without_uring, &without) == 0);
    pthread_join(thread, NULL);
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, without.status);
    CHECK_CONTAINS("io_uring is refused", without.problem.text);
    remove_folder();
    MUST(muster_close(without.m, &problem));
}

static void calls_that_io_uring_puts_off_are_repeated(void)
{
    static const int codes[] = { EINTR, EAGAIN, EBUSY };
    struct muster *m = open_plain();
    struct muster_file_options options = options_of(&ways[0], 0);
    unsigned char *to = malloc(100000);
    size_t got;
    CHECK(to);
    make_folder();
    const char *path = make_file("in", 100000);
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        struct muster_file *file = open_way(m, path, false, &options);
        if (!file)
            break;
        atomic_store(&refused_code, codes[i]);
        atomic_store(&refused_enters, 20);
        MUST(muster_file_read(file, to, 100000, &got, &problem));
        CHECK_EQUAL(0, atomic_load(&refused_enters));
        CHECK_EQUAL(100000, got);
        check_bytes(to, 0, got);
        muster_file_close(file);
    }
    /* What will not pass is a failure, and what is put off for ever is one too. */
    static const int fatal[] = { EBADF, EAGAIN };
    for (size_t i = 0; i < COUNT_OF(fatal); i++) {
        struct muster_file *file = open_way(m, path, false, &options);
        if (!file)
            break;
        atomic_store(&refused_code, fatal[i]);
        atomic_store(&refused_enters, INT_MAX);
        CHECK_STATUS(MUSTER_E_IO, muster_file_read(file, to, 100000, &got, &problem));
        CHECK_EQUAL(fatal[i], problem.driver_code);
        CHECK(i > 0 || atomic_load(&refused_enters) == INT_MAX - 1);
        atomic_store(&refused_enters, 0);
        muster_file_close(file);
    }
    free(to);
    remove_folder();
    MUST(muster_close(m, &problem));
}

/* Of the memory that a source is given, whole chunks of 1 MiB are registered, and nothing else. */
static void memory_is_registered_by_whole_chunks(void)
{
    const size_t chunk = 1 << 20, bytes = 4 * chunk;
    struct muster *m = open_plain();
    unsigned char *memory = aligned_alloc(chunk, bytes);
    make_folder();
    const char *path = make_file("in", bytes);
    static const struct {
        size_t begin, bytes, fixed; /* in units of 256 KiB; the last in chunks */
    } cases[] = { { 0, 12, 3 }, { 0, 4, 1 }, { 2, 4, 0 }, { 1, 7, 1 }, { 2, 12, 2 }, { 0, 3, 0 } };
    CHECK(memory);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct muster_file_options options = options_of(&ways[1], 1);
        struct muster_file *file = open_way(m, path, false, &options);
        size_t asked = cases[i].bytes * (chunk / 4);
        unsigned char *to = memory + cases[i].begin * (chunk / 4);
        if (!file)
            break;
        CHECK_EQUAL(asked, muster_file_source(file, 0, asked, to, asked));
        check_bytes(to, 0, asked);
        uint64_t fixed = report_of(file).memory_fixed;
        muster_file_close(file);
        if (i == 0 && fixed < 3 * chunk) {
            printf("    not tested: registered memory, which this kernel or a limit refuses\n");
            break;
        }
        CHECK_EQUAL(cases[i].fixed * chunk, fixed);
    }
    free(memory);
    remove_folder();
    MUST(muster_close(m, &problem));
}

/* Files without a runtime. */

static void a_programs_own_file_is_put_in_place(void)
{
    struct muster_output *output = NULL;
    make_folder();
    const char *path = in_folder("out");
    CHECK_STATUS(MUSTER_E_INVALID, muster_output_create(NULL, &output, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_output_create(path, NULL, &problem));
    CHECK_STATUS(MUSTER_E_IO, muster_output_create(folder, &output, &problem));
    CHECK(!output);
    CHECK_EQUAL(-1, muster_output_descriptor(NULL));
    CHECK_STATUS(MUSTER_E_INVALID, muster_output_commit(NULL, &problem));
    muster_output_destroy(NULL);
    for (int is_kept = 0; is_kept < 2; is_kept++) {
        unsigned char bytes[1000];
        fill_bytes(bytes, 0, sizeof bytes);
        MUST(muster_output_create(path, &output, &problem));
        CHECK_EQUAL(sizeof bytes, write(muster_output_descriptor(output), bytes, sizeof bytes));
        CHECK(access(path, F_OK) != 0);
        if (is_kept) {
            MUST(muster_output_commit(output, &problem));
            CHECK_EQUAL(-1, muster_output_descriptor(output));
            CHECK_STATUS(MUSTER_E_INVALID, muster_output_commit(output, &problem));
        }
        muster_output_destroy(output);
        CHECK_EQUAL(is_kept, count_files());
    }
    check_file(path, 1000);
    remove_folder();
}

/* Reads and writes in this way end, are right, and are said to be plain calls. */
static void check_plain(const struct way *way, struct random *random)
{
    static const size_t sizes[] = { 1, 4097, 300001, 1 << 20 };
    struct muster *m = open_plain();
    make_folder();
    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        const char *path = make_file("in", sizes[s]);
        for (unsigned i = 0; i < test_repetitions(3); i++)
            read_all(m, way, path, sizes[s], random);
        unlink(path);
        for (unsigned i = 0; i < test_repetitions(3); i++)
            write_all(m, way, sizes[s], i % 2 == 0, random);
    }
    remove_folder();
    MUST(muster_close(m, &problem));
}

static void check_plain_report(const struct way *way, const char *why)
{
    struct muster_file_options options = options_of(way, 0);
    struct muster *m = open_plain();
    unsigned char to[1000];
    size_t got;
    make_folder();
    struct muster_file *file = open_way(m, make_file("in", 1000), false, &options);
    if (file) {
        /* A request that is answered before anybody waits for it does not show it. */
        for (int i = 0; i < 10000 && strcmp(report_of(file).engine, "plain calls") != 0; i++) {
            MUST(muster_file_read_at(file, 0, to, sizeof to, &got, &problem));
            CHECK_EQUAL(1000, got);
        }
        CHECK_TEXT("plain calls", report_of(file).engine);
        CHECK_CONTAINS(why, report_of(file).why);
        muster_file_close(file);
    }
    remove_folder();
    MUST(muster_close(m, &problem));
}

static void where_the_kernel_has_no_threads_callers_do_it(void)
{
    struct random random;
    random_init(&random, test_seed());
    atomic_store(&is_still, true);
    for (size_t w = 0; w < 2; w++)
        check_plain(&ways[w], &random);
    check_plain_report(&ways[0], "limit on threads");
    atomic_store(&is_still, false);
}

/* In a process whose user may have no more threads; root, who may, becomes another user. */
static int read_under_a_limit(const char *path, size_t bytes)
{
    const uid_t nobody = 54322;
    const struct rlimit none = { 1, 1 };
    struct muster_file_options options = options_of(&ways[0], 0);
    struct muster_file *file;
    struct muster *m;
    size_t got = 0;
    alarm(120);
    if (setrlimit(RLIMIT_NPROC, &none) != 0 ||
        (geteuid() == 0 && (setgid(nobody) != 0 || setuid(nobody) != 0)))
        return 1;
    unsigned char *to = malloc(bytes);
    if (!to || muster_open(&m, NULL, &problem) != MUSTER_OK)
        return 2;
    if (muster_file_read_open(m, path, &options, &file, &problem) == MUSTER_E_NOT_SUPPORTED)
        return 0;
    if (muster_file_read(file, to, bytes, &got, &problem) != MUSTER_OK || got != bytes)
        return 3;
    for (size_t i = 0; i < bytes; i++)
        if (to[i] != byte_at(i))
            return 4;
    if (strcmp(report_of(file).engine, "plain calls") != 0)
        return 5;
    muster_file_close(file);
    muster_close(m, NULL);
    free(to);
    return 0;
}

static void a_limit_on_threads_is_no_end(void)
{
    int status;
    make_folder();
    CHECK_EQUAL(0, chmod(folder, 0755));
    const char *path = make_file("in", 5 << 20);
    CHECK_EQUAL(0, chmod(path, 0644));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(read_under_a_limit(path, 5 << 20));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(0, WEXITSTATUS(status));
    remove_folder();
}

static void where_there_are_no_threads_callers_do_it(void)
{
    struct random random;
    random_init(&random, test_seed());
    atomic_store(&has_no_threads, true);
    for (size_t w = 2; w < 4; w++)
        check_plain(&ways[w], &random);
    check_plain_report(&threads, "asked for");
    atomic_store(&has_no_threads, false);
}

static void interrupted_reservations_are_repeated(void)
{
    struct muster *m = open_plain();
    struct muster_file_options options = options_of(NULL, 0);
    struct muster_file *file;
    make_folder();
    options.bytes = 1 << 20;
    atomic_store(&reserved, 0);
    atomic_store(&interrupted_room, 5);
    MUST(muster_file_write_open(m, in_folder("out"), &options, &file, &problem));
    CHECK_EQUAL(0, atomic_load(&interrupted_room));
    CHECK_EQUAL(1, atomic_load(&reserved));
    muster_file_close(file);
    /* Not for ever. */
    atomic_store(&interrupted_room, INT_MAX);
    CHECK_STATUS(MUSTER_E_IO,
                 muster_file_write_open(m, in_folder("out"), &options, &file, &problem));
    CHECK_EQUAL(EINTR, problem.driver_code);
    atomic_store(&interrupted_room, 0);
    CHECK_EQUAL(0, count_files());
    remove_folder();
    MUST(muster_close(m, &problem));
}

/* An allocator that counts, and has nothing left after this many calls. */
struct scarce {
    struct counting counting;
    uint64_t left;
};

static void *scarce_allocate(void *user, size_t bytes, size_t alignment)
{
    struct scarce *scarce = user;
    if (scarce->left == 0)
        return NULL;
    scarce->left--;
    return counting_allocate(&scarce->counting, bytes, alignment);
}

static void scarce_release(void *user, void *memory, size_t bytes)
{
    counting_release(&((struct scarce *)user)->counting, memory, bytes);
}

static void memory_that_is_missing_is_told_and_none_is_lost(void)
{
    struct scarce scarce = { .counting = COUNTING_INIT, .left = UINT64_MAX };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.allocator = &(struct muster_allocator){ sizeof(struct muster_allocator),
                                                    scarce_allocate, scarce_release, &scarce };
    struct muster *m = open_with(options);
    uint64_t before = scarce.counting.bytes;
    unsigned refused = 0;
    make_folder();
    for (unsigned i = 0; i < 16; i++) {
        struct muster_file_options wanted = options_of(&ways[i % 2 * 2], 0);
        struct muster_file *file = NULL;
        scarce.left = i / 2;
        muster_status status =
            muster_file_write_open(m, in_folder("out"), &wanted, &file, &problem);
        if (status == MUSTER_OK)
            status = muster_file_write(file, "few", 3, &problem);
        if (status == MUSTER_OK)
            status = muster_file_finish(file, &problem);
        CHECK(status == MUSTER_OK || status == MUSTER_E_NO_MEMORY ||
              status == MUSTER_E_NOT_SUPPORTED);
        refused += status == MUSTER_E_NO_MEMORY;
        muster_file_close(file);
        CHECK_EQUAL(before, scarce.counting.bytes);
    }
    CHECK(refused >= 8);
    scarce.left = UINT64_MAX;
    remove_folder();
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, scarce.counting.bytes + scarce.counting.wrong);
}

static void the_variable_chooses_the_engine(void)
{
    struct muster *m = open_plain();
    struct muster_file *file;
    make_folder();
    const char *path = make_file("in", 1000);
    setenv("MUSTER_IO", "threads", 1);
    file = open_reading(m, path, 0);
    CHECK_TEXT("threads", report_of(file).engine);
    CHECK_CONTAINS("asked for; it is too small", report_of(file).why);
    muster_file_close(file);
    setenv("MUSTER_IO", "strings", 1);
    CHECK_STATUS(MUSTER_E_INVALID, muster_file_read_open(m, path, NULL, &file, &problem));
    CHECK_CONTAINS("MUSTER_IO", problem.text);
    unsetenv("MUSTER_IO");
    remove_folder();
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    atomic_store(&broken_from, -1);
    static const struct test tests[] = {
        TEST(all_bytes_are_read_in_every_way),
        TEST(any_place_can_be_read),
        TEST(nothing_is_copied_where_all_is_aligned),
        TEST(what_lies_in_memory_is_not_called_direct),
        TEST(a_descriptor_is_read_from_where_it_stands),
        TEST(what_cannot_be_read_is_told),
        TEST(the_wrong_kind_of_call_is_refused),
        TEST(an_input_that_shrinks_is_a_failure),
        TEST(what_an_input_gets_later_is_ignored_and_said),
        TEST(holes_of_any_size_are_read),
        TEST(files_of_the_kernel_are_read),
        TEST(all_bytes_are_written_in_every_way),
        TEST(what_was_there_stays_until_the_end),
        TEST(what_cannot_be_written_is_told),
        TEST(a_device_without_room_is_told),
        TEST(a_limit_on_the_size_of_files_is_told),
        TEST(short_and_interrupted_calls_are_completed),
        TEST(failing_calls_are_told_with_their_place),
        TEST(pipes_and_sockets_are_read_to_their_end),
        TEST(a_pipe_gives_whole_items_as_they_come),
        TEST(a_closed_pipe_is_a_failure_and_no_signal),
        TEST(whoever_waits_for_a_pipe_can_be_cancelled),
        TEST(a_file_that_was_cancelled_is_not_put_in_its_place),
        TEST(no_descriptor_is_left),
        TEST(without_io_uring_there_are_threads),
        TEST(where_the_kernel_has_no_threads_callers_do_it),
        TEST(where_there_are_no_threads_callers_do_it),
        TEST(a_limit_on_threads_is_no_end),
        TEST(calls_that_io_uring_puts_off_are_repeated),
        TEST(memory_is_registered_by_whole_chunks),
        TEST(a_programs_own_file_is_put_in_place),
        TEST(interrupted_reservations_are_repeated),
        TEST(memory_that_is_missing_is_told_and_none_is_lost),
        TEST(the_variable_chooses_the_engine),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
