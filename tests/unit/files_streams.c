/*
 * Files that can only be read and written in order, below the jobs that use them: what the system
 * cuts short, interrupts or refuses, what is counted, and the signals that a write may bring. Linked
 * so that calls of the system can be made to fail.
 */
#include "files_support.h"
#include "io/file.h"
#include "io/io.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

static struct counting counting = COUNTING_INIT;

/* What read, write and send do. */
static size_t step_bytes;    /* of one call, at most; 0: any */
static unsigned put_off;     /* this many calls are, by turns interrupted and told to come again */
static int64_t broken_after; /* bytes, and then calls fail; -1: never */
static int broken_code;
static int room_code, event_code, condition_code; /* 0: those calls do not fail */

static ssize_t begin_call(size_t *bytes)
{
    if (put_off > 0) {
        errno = put_off-- % 2 ? EINTR : EAGAIN;
        return -1;
    }
    if (broken_after == 0) {
        errno = broken_code;
        return broken_code ? -1 : 0;
    }
    if (step_bytes && *bytes > step_bytes)
        *bytes = step_bytes;
    if (broken_after > 0 && *bytes > (size_t)broken_after)
        *bytes = (size_t)broken_after;
    return 1;
}

static ssize_t end_call(ssize_t moved)
{
    if (broken_after > 0 && moved > 0)
        broken_after -= moved;
    return moved;
}

ssize_t __real_read(int file, void *to, size_t bytes);
ssize_t __wrap_read(int file, void *to, size_t bytes);
ssize_t __wrap_read(int file, void *to, size_t bytes)
{
    ssize_t first = begin_call(&bytes);
    return first <= 0 ? first : end_call(__real_read(file, to, bytes));
}

ssize_t __real_write(int file, const void *from, size_t bytes);
ssize_t __wrap_write(int file, const void *from, size_t bytes);
ssize_t __wrap_write(int file, const void *from, size_t bytes)
{
    ssize_t first = begin_call(&bytes);
    return first <= 0 ? first : end_call(__real_write(file, from, bytes));
}

ssize_t __real_send(int file, const void *from, size_t bytes, int flags);
ssize_t __wrap_send(int file, const void *from, size_t bytes, int flags);
ssize_t __wrap_send(int file, const void *from, size_t bytes, int flags)
{
    ssize_t first = begin_call(&bytes);
    return first <= 0 ? first : end_call(__real_send(file, from, bytes, flags));
}

static bool is_unknown; /* what there is to know of a file: fstat fails, and leaves rubbish */

int __real_fstat(int file, struct stat *facts);
int __wrap_fstat(int file, struct stat *facts);
int __wrap_fstat(int file, struct stat *facts)
{
    if (!is_unknown)
        return __real_fstat(file, facts);
    memset(facts, 0x11, sizeof *facts);
    facts->st_mode = S_IFREG | 0600;
    errno = EIO;
    return -1;
}

int __real_fallocate(int file, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int file, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int file, int mode, off_t offset, off_t bytes)
{
    errno = room_code;
    return room_code ? -1 : __real_fallocate(file, mode, offset, bytes);
}

int __real_eventfd(unsigned first, int flags);
int __wrap_eventfd(unsigned first, int flags);
int __wrap_eventfd(unsigned first, int flags)
{
    errno = event_code;
    return event_code ? -1 : __real_eventfd(first, flags);
}

muster_status __real_platform_condition_init(struct platform_condition *condition,
                                             struct muster_error *err);
muster_status __wrap_platform_condition_init(struct platform_condition *condition,
                                             struct muster_error *err);
muster_status __wrap_platform_condition_init(struct platform_condition *condition,
                                             struct muster_error *err)
{
    if (!condition_code)
        return __real_platform_condition_init(condition, err);
    return muster_error_fill(err, MUSTER_E_NO_MEMORY, condition_code, NULL, "refused");
}

/* What the file system says that direct requests need: of memory and of offsets. */
static struct {
    bool is_said;
    uint32_t memory, offset;
} alignment;

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
    long result =
        __real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
    if (number != SYS_statx || !alignment.is_said)
        return result;
    /* stx_mask, stx_dio_mem_align and stx_dio_offset_align of struct statx. */
    uint32_t *facts = (uint32_t *)words[4];
    facts[0] |= 0x2000;
    facts[38] = alignment.memory;
    facts[39] = alignment.offset;
    return 0;
}

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

static struct muster_file_options usual(int descriptor)
{
    struct muster_file_options options = options_of(NULL, 0);
    options.descriptor = descriptor;
    options.depth = 4;
    options.piece_bytes = 4096;
    return options;
}

static struct io_file *open_io(const char *path, int descriptor, bool is_write)
{
    struct muster_allocator allocator = *counting_allocator(&counting);
    struct muster_file_options options = usual(descriptor);
    struct io_file *file = NULL;
    MUST(is_write ? io_open_write(&allocator, path, &options, &file, &problem)
                  : io_open_read(&allocator, path, &options, &file, &problem));
    return file;
}

static void close_io(struct io_file *file)
{
    io_close(file);
    CHECK_EQUAL(0, counting.bytes);
    CHECK_EQUAL(0, counting.wrong);
}

enum kind { PIPE, SOCKET, TERMINAL_LIKE, KINDS };

/* Two ends, the first to read from. What is like a terminal here is a descriptor of a file. */
static void make_ends(enum kind kind, int ends[2])
{
    if (kind == PIPE)
        CHECK(pipe(ends) == 0);
    else if (kind == SOCKET)
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    else {
        const char *path = make_file("plain", 0);
        ends[1] = open(path, O_WRONLY | O_CLOEXEC);
        ends[0] = open(path, O_RDONLY | O_CLOEXEC);
        CHECK(ends[0] >= 0 && ends[1] >= 0);
    }
}

static void read_back(int from, unsigned char *to, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t step = __real_read(from, to + done, bytes - done);
        CHECK(step > 0);
        done += (size_t)step;
    }
}

static void whatever_the_system_takes_all_is_written(void)
{
    static unsigned char bytes[9000], back[9000];
    make_folder();
    fill_bytes(bytes, 0, sizeof bytes);
    for (unsigned i = 0; i < KINDS; i++) {
        int ends[2];
        unsigned before = count_descriptors();
        make_ends((enum kind)i, ends);
        struct io_file *file = open_io(NULL, ends[1], true);
        CHECK(io_is_stream(file));
        step_bytes = 1001;
        put_off = 5;
        MUST(io_write(file, bytes, sizeof bytes, &problem));
        MUST(io_flush(file, &problem));
        CHECK_EQUAL(0, put_off);
        MUST(io_write(file, bytes, 0, &problem));
        step_bytes = 0;
        read_back(ends[0], back, sizeof back);
        check_bytes(back, 0, sizeof back);
        struct muster_file_report report = { .size = sizeof report };
        io_report(file, &report);
        CHECK_EQUAL(sizeof bytes, report.bytes);
        CHECK_EQUAL(sizeof bytes, report.copied_by_system);
        CHECK_EQUAL(9, report.operations);
        CHECK_EQUAL(sizeof bytes, io_end(file));
        CHECK_TEXT("pipe", report.engine);
        MUST(io_finish(file, &problem));
        close_io(file);
        close(ends[0]);
        close(ends[1]);
        CHECK_EQUAL(before, count_descriptors());
    }
    remove_folder();
}

static void whatever_the_system_gives_all_is_read(void)
{
    static unsigned char bytes[9000], back[9001];
    fill_bytes(bytes, 0, sizeof bytes);
    for (unsigned i = 0; i < TERMINAL_LIKE; i++) {
        int ends[2];
        unsigned before = count_descriptors();
        make_ends((enum kind)i, ends);
        CHECK_EQUAL(sizeof bytes, __real_write(ends[1], bytes, sizeof bytes));
        close(ends[1]);
        struct io_file *file = open_io(NULL, ends[0], false);
        CHECK(io_is_stream(file) && io_left(file) == UINT64_MAX);
        step_bytes = 1001;
        put_off = 5;
        size_t got = 77;
        MUST(io_read(file, back, 5000, 0, &got, &problem));
        CHECK_EQUAL(5000, got);
        MUST(io_read(file, back + 5000, 4001, 0, &got, &problem));
        CHECK_EQUAL(4000, got);
        check_bytes(back, 0, sizeof bytes);
        got = 77;
        CHECK_STATUS(MUSTER_OK, stream_read(file, (char *)back, 100, 0, &got));
        CHECK_EQUAL(0, got);
        step_bytes = 0;
        struct muster_file_report report = { .size = sizeof report };
        io_report(file, &report);
        CHECK_EQUAL(sizeof bytes, report.bytes);
        CHECK_EQUAL(sizeof bytes, report.copied_by_system);
        CHECK_EQUAL(0, report.copied_by_muster);
        CHECK_EQUAL(9, report.operations);
        close_io(file);
        /* It was borrowed. */
        CHECK(fcntl(ends[0], F_GETFD) >= 0);
        close(ends[0]);
        CHECK_EQUAL(before, count_descriptors());
    }
}

static void a_stream_that_fails_is_told_with_its_place(void)
{
    static unsigned char bytes[9000];
    make_folder();
    fill_bytes(bytes, 0, sizeof bytes);
    for (unsigned i = 0; i < 2 * KINDS; i++) {
        int ends[2];
        bool is_write = i % 2;
        if (!is_write && i / 2 == TERMINAL_LIKE)
            continue;
        make_ends((enum kind)(i / 2), ends);
        if (!is_write)
            CHECK_EQUAL(sizeof bytes, __real_write(ends[1], bytes, sizeof bytes));
        struct io_file *file = open_io(NULL, ends[is_write], is_write);
        size_t got = 77;
        broken_after = 3000;
        broken_code = EIO;
        muster_status status = is_write ? io_write(file, bytes, 70000 % sizeof bytes, &problem)
                                        : io_read(file, bytes, sizeof bytes, 0, &got, &problem);
        if (is_write && status == MUSTER_OK)
            status = io_flush(file, &problem);
        broken_after = -1;
        CHECK_STATUS(MUSTER_E_IO, status);
        CHECK_EQUAL(EIO, problem.driver_code);
        CHECK_CONTAINS("at byte 3000:", problem.text);
        CHECK(is_write || got == 77);
        /* The first failure stays, and nothing is done after it. */
        memset(&problem, 0, sizeof problem);
        CHECK_STATUS(MUSTER_E_IO, io_failure(file, &problem));
        CHECK_EQUAL(EIO, problem.driver_code);
        if (is_write)
            CHECK_STATUS(MUSTER_E_IO, io_write(file, bytes, 10, &problem));
        memset(&problem, 0, sizeof problem);
        CHECK_STATUS(MUSTER_E_IO, io_finish(file, &problem));
        CHECK_EQUAL(EIO, problem.driver_code);
        struct muster_file_report report = { .size = sizeof report };
        io_report(file, &report);
        CHECK_EQUAL(3000, report.bytes);
        close_io(file);
        close(ends[0]);
        close(ends[1]);
    }
    /* A write that takes nothing would be tried for ever. */
    int ends[2];
    make_ends(PIPE, ends);
    struct io_file *file = open_io(NULL, ends[1], true);
    broken_after = 0;
    broken_code = 0;
    muster_status status = io_write(file, bytes, sizeof bytes, &problem);
    if (status == MUSTER_OK)
        status = io_flush(file, &problem);
    broken_after = -1;
    CHECK_STATUS(MUSTER_E_IO, status);
    close_io(file);
    close(ends[0]);
    close(ends[1]);
    fill_bytes(bytes, 0, sizeof bytes);
    remove_folder();
}

/* What is enough for the caller is not held back for more. */
static void a_stream_gives_what_has_come_once_it_is_enough(void)
{
    unsigned char bytes[1000], back[1000];
    int ends[2];
    fill_bytes(bytes, 0, sizeof bytes);
    make_ends(PIPE, ends);
    struct io_file *file = open_io(NULL, ends[0], false);
    size_t got;
    CHECK_EQUAL(300, __real_write(ends[1], bytes, 300));
    MUST(io_read(file, back, sizeof back, 100, &got, &problem));
    CHECK_EQUAL(300, got);
    CHECK_EQUAL(100, __real_write(ends[1], bytes + 300, 100));
    MUST(io_read(file, back + 300, 700, 100, &got, &problem));
    CHECK_EQUAL(100, got);
    CHECK_EQUAL(550, __real_write(ends[1], bytes + 400, 550));
    close(ends[1]);
    MUST(io_read(file, back + 400, 600, 100, &got, &problem));
    CHECK_EQUAL(550, got);
    check_bytes(back, 0, 950);
    close_io(file);
    close(ends[0]);
}

static void a_cancelled_file_does_nothing_more(void)
{
    unsigned char bytes[100] = { 0 };
    for (int is_write = 0; is_write < 2; is_write++) {
        int ends[2];
        make_ends(PIPE, ends);
        CHECK_EQUAL(10, __real_write(ends[1], bytes, 10));
        struct io_file *file = open_io(NULL, ends[is_write], is_write);
        io_cancel(file);
        io_cancel(file);
        size_t got = 77;
        CHECK_STATUS(MUSTER_E_CANCELLED, is_write ? io_write(file, bytes, 10, &problem)
                                                  : io_read(file, bytes, 10, 0, &got, &problem));
        CHECK_EQUAL(MUSTER_E_CANCELLED, problem.status);
        CHECK_EQUAL(77, got);
        CHECK_STATUS(MUSTER_E_CANCELLED, io_finish(file, &problem));
        struct muster_file_report report = { .size = sizeof report };
        io_report(file, &report);
        CHECK_EQUAL(0, report.bytes);
        close_io(file);
        close(ends[0]);
        close(ends[1]);
    }
}

/* Whichever of its parts a file lacks. */
static void a_file_that_cannot_be_opened_leaves_nothing(void)
{
    struct muster_allocator allocator = *counting_allocator(&counting);
    unsigned before = count_descriptors();
    make_folder();
    const char *path = make_file("in", 100);
    for (int is_write = 0; is_write < 2; is_write++) {
        for (unsigned i = 0; i < 4; i++) {
            struct muster_file_options options = usual(0);
            struct io_file *file = NULL;
            const char *name = is_write ? in_folder("out") : path;
            event_code = i == 0 ? EMFILE : 0;
            condition_code = i == 1 ? EAGAIN : 0;
            options.engine = i == 2 ? "nothing" : NULL;
            name = i == 3 ? folder : name;
            muster_status status = is_write
                                       ? io_open_write(&allocator, name, &options, &file, &problem)
                                       : io_open_read(&allocator, name, &options, &file, &problem);
            event_code = condition_code = 0;
            static const muster_status expected[] = { MUSTER_E_IO, MUSTER_E_NO_MEMORY,
                                                      MUSTER_E_INVALID, MUSTER_E_IO };
            CHECK_STATUS(expected[i], status);
            CHECK_EQUAL(expected[i], problem.status);
            CHECK(!file);
            CHECK(i != 0 || problem.driver_code == EMFILE);
            CHECK_EQUAL(0, counting.bytes);
            CHECK_EQUAL(before, count_descriptors());
            CHECK_EQUAL(1, count_files());
        }
    }
    io_close(NULL);
    remove_folder();
}

/* Room that was asked for is there, or the caller hears of it before the work. */
static void room_is_reserved_where_it_can_be(void)
{
    static const struct {
        int code;
        bool is_failure;
    } cases[] = { { 0, false },     { EOPNOTSUPP, false }, { ENOSYS, false }, { EINVAL, false },
                  { ENOSPC, true }, { EFBIG, true },       { EIO, true } };
    struct muster_allocator allocator = *counting_allocator(&counting);
    static unsigned char bytes[5000];
    make_folder();
    fill_bytes(bytes, 0, sizeof bytes);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct muster_file_options options = usual(0);
        struct io_file *file = NULL;
        options.bytes = 10000;
        room_code = cases[i].code;
        muster_status status =
            io_open_write(&allocator, in_folder("out"), &options, &file, &problem);
        room_code = 0;
        CHECK_STATUS(cases[i].is_failure ? MUSTER_E_IO : MUSTER_OK, status);
        if (cases[i].is_failure) {
            CHECK_EQUAL(cases[i].code, problem.driver_code);
            CHECK_EQUAL(0, counting.bytes);
            CHECK_EQUAL(0, count_files());
            continue;
        }
        /* Fewer bytes than were said: the file is as long as what was written. */
        CHECK(!io_is_stream(file));
        MUST(io_write(file, bytes, 2000, &problem));
        MUST(io_write(file, bytes + 2000, 3000, &problem));
        MUST(io_finish(file, &problem));
        MUST(io_finish(file, &problem));
        close_io(file);
        check_file(in_folder("out"), 5000);
        unlink(in_folder("out"));
    }
    struct muster_file_options options = usual(0);
    struct io_file *file = NULL;
    options.bytes = (uint64_t)INT64_MAX + 1;
    CHECK_STATUS(MUSTER_E_IO,
                 io_open_write(&allocator, in_folder("out"), &options, &file, &problem));
    CHECK_EQUAL(EFBIG, problem.driver_code);
    CHECK_EQUAL(0, counting.bytes);
    CHECK_EQUAL(0, count_files());
    remove_folder();
}

static void in_order_and_anywhere_are_told_apart(void)
{
    static unsigned char back[1000];
    make_folder();
    const char *path = make_file("in", 1000);
    struct io_file *file = open_io(path, 0, false);
    size_t got = 77;
    CHECK_TEXT(path, io_name(file));
    CHECK_EQUAL(1000, io_left(file));
    MUST(io_read(file, back, 300, 0, &got, &problem));
    CHECK_EQUAL(300, got);
    CHECK_EQUAL(700, io_left(file));
    MUST(io_read_at(file, 900, back, 200, &got, &problem));
    CHECK_EQUAL(100, got);
    check_bytes(back, 900, 100);
    MUST(io_read_at(file, 1000, back, 200, &got, &problem));
    CHECK_EQUAL(0, got);
    MUST(io_read_at(file, UINT64_MAX, back, 200, &got, &problem));
    CHECK_EQUAL(0, got);
    CHECK_EQUAL(700, io_left(file));
    MUST(io_read(file, back, 1000, 0, &got, &problem));
    CHECK_EQUAL(700, got);
    check_bytes(back, 300, 700);
    CHECK_EQUAL(0, io_left(file));
    MUST(io_read(file, back, 1000, 0, &got, &problem));
    CHECK_EQUAL(0, got);
    close_io(file);
    /* What cannot be asked after has not grown. */
    file = open_io(path, 0, false);
    is_unknown = true;
    muster_status status = io_read(file, back, 1000, 0, &got, &problem);
    is_unknown = false;
    CHECK_STATUS(MUSTER_OK, status);
    struct muster_file_report report = { .size = sizeof report };
    io_report(file, &report);
    CHECK_EQUAL(0, report.grown_bytes);
    close_io(file);
    /* A descriptor's own place is set to where the reading ended, and it is not closed. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(descriptor >= 0);
    CHECK_EQUAL(100, lseek(descriptor, 100, SEEK_SET));
    file = open_io(NULL, descriptor, false);
    CHECK_EQUAL(900, io_left(file));
    MUST(io_read(file, back, 50, 0, &got, &problem));
    check_bytes(back, 100, 50);
    close_io(file);
    CHECK_EQUAL(150, lseek(descriptor, 0, SEEK_CUR));
    CHECK_EQUAL(5000, lseek(descriptor, 5000, SEEK_SET));
    file = open_io(NULL, descriptor, false);
    CHECK_EQUAL(0, io_left(file));
    close_io(file);
    close(descriptor);
    remove_folder();
}

/* A page's border must be a border of direct requests, or there are none. */
static void direct_requests_lie_as_the_file_system_needs_it(void)
{
    static const struct {
        uint32_t memory, offset;
        bool is_possible;
    } cases[] = { { 4096, 4096, true }, { 512, 512, true },  { 4, 1024, true },
                  { 0, 0, false },      { 0, 512, false },   { 512, 0, false },
                  { 512, 8192, false }, { 512, 3000, false } };
    _Alignas(4096) static unsigned char back[20000];
    struct muster_allocator allocator = *counting_allocator(&counting);
    make_folder();
    if (!has_direct()) {
        printf("    there are no direct requests here: skipped\n");
        remove_folder();
        return;
    }
    const char *path = make_file("in", 20000);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        for (unsigned engine = 0; engine < 2; engine++) {
            struct muster_file_options options = usual(0);
            struct io_file *file = NULL;
            alignment.is_said = true;
            alignment.memory = cases[i].memory;
            alignment.offset = cases[i].offset;
            options.direct = MUSTER_DIRECT_ALWAYS;
            options.engine = engine ? "threads" : NULL;
            muster_status status = io_open_read(&allocator, path, &options, &file, &problem);
            alignment.is_said = false;
            CHECK_STATUS(cases[i].is_possible ? MUSTER_OK : MUSTER_E_NOT_SUPPORTED, status);
            size_t got = 0;
            if (status == MUSTER_OK)
                MUST(io_read(file, back, sizeof back, 0, &got, &problem));
            if (status == MUSTER_OK)
                check_bytes(back, 0, sizeof back);
            if (status == MUSTER_OK)
                close_io(file);
            CHECK_EQUAL(0, counting.bytes);
        }
    }
    remove_folder();
}

/* Writes for later. */

static _Atomic unsigned ended;

static void note_end(void *user)
{
    atomic_fetch_add((_Atomic unsigned *)user, 1);
}

static void writes_for_later_end_once_each(void)
{
    static unsigned char bytes[200000];
    make_folder();
    fill_bytes(bytes, 0, sizeof bytes);
    for (unsigned i = 0; i < 4; i++) {
        struct muster_allocator allocator = *counting_allocator(&counting);
        struct muster_file_options options = usual(0);
        struct io_file *file = NULL;
        options.engine = i % 2 ? "threads" : NULL;
        options.no_sync = 1;
        MUST(io_open_write(&allocator, in_folder("out"), &options, &file, &problem));
        CHECK(!io_wait_one(file));
        atomic_store(&ended, 0);
        bool is_cancelled = i / 2;
        /* More than there are places for, from the last to the first. */
        unsigned given = 0;
        muster_status status = MUSTER_OK;
        for (unsigned part = 200; part-- > 0;) {
            if (is_cancelled && part == 100)
                io_cancel(file);
            status = io_write_later(file, part * 1000, bytes + part * 1000, 1000, note_end, &ended,
                                    &problem);
            given += status == MUSTER_OK;
        }
        CHECK_EQUAL(is_cancelled ? 99 : 200, given);
        CHECK_STATUS(is_cancelled ? MUSTER_E_CANCELLED : MUSTER_OK, status);
        CHECK_EQUAL(200000, io_end(file));
        while (io_wait_one(file))
            CHECK(atomic_load(&ended) > 0);
        io_settle(file);
        CHECK_EQUAL(given, atomic_load(&ended));
        CHECK_STATUS(status, io_finish(file, &problem));
        struct muster_file_report report = { .size = sizeof report };
        io_report(file, &report);
        CHECK(is_cancelled || report.bytes == 200000);
        CHECK_EQUAL(0, report.copied_by_muster);
        close_io(file);
        if (is_cancelled)
            CHECK_EQUAL(0, count_files());
        else
            check_file(in_folder("out"), 200000);
        unlink(in_folder("out"));
    }
    remove_folder();
}

/* Signals of writes. */

static bool is_pending(int number)
{
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, number) == 1;
}

static void only_the_signals_of_a_write_are_thrown_away(void)
{
    static const int numbers[] = { SIGPIPE, SIGXFSZ };
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        sigset_t set, before, after;
        struct io_guard guard;
        /* Would end the process if it came through. */
        CHECK(signal(numbers[i], SIG_DFL) != SIG_ERR);
        pthread_sigmask(SIG_SETMASK, NULL, &before);
        errno = E2BIG;
        guard_begin(&guard);
        pthread_kill(pthread_self(), numbers[i]);
        CHECK(is_pending(numbers[i]));
        guard_end(&guard);
        CHECK_EQUAL(E2BIG, errno);
        CHECK(!is_pending(numbers[i]));
        pthread_sigmask(SIG_SETMASK, NULL, &after);
        for (int number = 1; number < NSIG; number++)
            CHECK_EQUAL(sigismember(&before, number), sigismember(&after, number));
        /* One that was there before belongs to another; another's is not touched either. */
        sigemptyset(&set);
        sigaddset(&set, numbers[i]);
        sigaddset(&set, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        pthread_kill(pthread_self(), numbers[i]);
        pthread_kill(pthread_self(), SIGUSR1);
        guard_begin(&guard);
        pthread_kill(pthread_self(), numbers[1 - i]);
        guard_end(&guard);
        CHECK(is_pending(numbers[i]) && is_pending(SIGUSR1) && !is_pending(numbers[1 - i]));
        const struct timespec now = { 0, 0 };
        CHECK_EQUAL(numbers[i] + SIGUSR1,
                    sigtimedwait(&set, NULL, &now) + sigtimedwait(&set, NULL, &now));
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
}

int main(int argc, char **argv)
{
    broken_after = -1;
    static const struct test tests[] = {
        TEST(whatever_the_system_takes_all_is_written),
        TEST(whatever_the_system_gives_all_is_read),
        TEST(a_stream_that_fails_is_told_with_its_place),
        TEST(a_stream_gives_what_has_come_once_it_is_enough),
        TEST(a_cancelled_file_does_nothing_more),
        TEST(a_file_that_cannot_be_opened_leaves_nothing),
        TEST(room_is_reserved_where_it_can_be),
        TEST(in_order_and_anywhere_are_told_apart),
        TEST(direct_requests_lie_as_the_file_system_needs_it),
        TEST(writes_for_later_end_once_each),
        TEST(only_the_signals_of_a_write_are_thrown_away),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
