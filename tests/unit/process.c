/*
 * What the library asks of the system for its own ends: programs that it runs, files and folders
 * that it makes, threads that it starts. Writes can be interrupted, cut short and made to fail, and
 * threads be refused.
 */
#include "platform/process.h"

#include "platform/file.h"
#include "platform/frame.h"
#include "platform/library.h"
#include "platform/machine.h"
#include "platform/thread.h"
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

static char folder[64];
static unsigned descriptors;
static size_t write_bytes_max, room_bytes = SIZE_MAX; /* of one write, and of the disk */
static bool is_interrupted;                           /* every second write */
static bool has_no_memory_files;                      /* as on an old system */
static int thread_code;                               /* what a new thread is refused with */

ssize_t __real_write(int file, const void *from, size_t bytes);
ssize_t __wrap_write(int file, const void *from, size_t bytes);
ssize_t __wrap_write(int file, const void *from, size_t bytes)
{
    static unsigned calls;
    if (is_interrupted && calls++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    if (room_bytes == 0) {
        errno = ENOSPC;
        return -1;
    }
    bytes = write_bytes_max && bytes > write_bytes_max ? write_bytes_max : bytes;
    bytes = bytes < room_bytes ? bytes : room_bytes;
    room_bytes -= room_bytes == SIZE_MAX ? 0 : bytes;
    return __real_write(file, from, bytes);
}

int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags)
{
    errno = ENOSYS;
    return has_no_memory_files ? -1 : __real_memfd_create(name, flags);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    return thread_code ? thread_code : __real_pthread_create(thread, attributes, run, argument);
}

static unsigned count_files(const char *path)
{
    unsigned count = 0;
    DIR *directory = opendir(path);
    CHECK(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count - 2;
}

static void begin(void)
{
    descriptors = count_files("/proc/self/fd");
    strcpy(folder, "/tmp/muster-process-XXXXXX");
    CHECK(mkdtemp(folder));
}

static const char *in_folder(const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* Nothing is left of what the test did not remove. */
static void end(void)
{
    CHECK_EQUAL(0, count_files(folder));
    CHECK_EQUAL(0, rmdir(folder));
    CHECK_EQUAL(descriptors, count_files("/proc/self/fd"));
}

static char output[4096];

static struct platform_process_end shell(const char *script, const char *temporary, size_t room)
{
    const char *const arguments[] = { "sh", "-c", script, NULL };
    struct platform_process_end over;
    memset(output, 'x', sizeof output);
    MUST(platform_process_run("/bin/sh", arguments, temporary, output, room, 60 * SECOND, &over,
                              &problem));
    CHECK(room > over.output_bytes);
    CHECK_EQUAL(over.output_bytes, strlen(output));
    return over;
}

static void what_a_program_says_and_its_end_are_told(void)
{
    begin();
    CHECK_EQUAL(0, shell("printf '%s' one; printf two >&2", NULL, sizeof output).code);
    CHECK_TEXT("onetwo", output);
    CHECK_EQUAL(7, shell("exit 7", NULL, sizeof output).code);
    CHECK_TEXT("", output);
    CHECK_EQUAL(128 + SIGTERM, shell("kill -TERM $$", NULL, sizeof output).code);
    /* No input, so that nobody waits for it. */
    CHECK_EQUAL(0, shell("cat", NULL, sizeof output).code);
    CHECK_TEXT("", output);
    /* Of much output as much as there is room for; the program ends all the same. */
    const char *much = "i=0; while [ $i -lt 3000 ]; do echo 0123456789; i=$((i+1)); done; exit 3";
    static const size_t rooms[] = { 1, 2, 12, sizeof output - 1, sizeof output };
    for (size_t i = 0; i < COUNT_OF(rooms); i++) {
        struct platform_process_end over = shell(much, NULL, rooms[i]);
        CHECK_EQUAL(3, over.code);
        CHECK_EQUAL(rooms[i] - 1, over.output_bytes);
        CHECK(strncmp(output, "0123456789\n0123456789",
                      over.output_bytes < 21 ? over.output_bytes : 21) == 0);
    }
    end();
}

static unsigned count_lines(const char *line)
{
    unsigned count = 0;
    size_t length = strlen(line);
    for (const char *at = output; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        count += strncmp(at, line, length) == 0;
    }
    return count;
}

static void a_program_speaks_english_and_has_its_own_folder(void)
{
    begin();
    char *before = getenv("TMPDIR") ? strdup(getenv("TMPDIR")) : NULL;
    setenv("LC_ALL", "de_DE.UTF-8", 1);
    setenv("TMPDIR", "/elsewhere", 1);
    setenv("MUSTER_TEST_NOTHING", "kept", 1);
    shell("env", in_folder("x"), sizeof output);
    CHECK_EQUAL(1, count_lines("LC_ALL="));
    CHECK_EQUAL(1, count_lines("LC_ALL=C\n"));
    CHECK_EQUAL(1, count_lines("TMPDIR="));
    char line[128];
    snprintf(line, sizeof line, "TMPDIR=%s/x\n", folder);
    CHECK_EQUAL(1, count_lines(line));
    CHECK_EQUAL(1, count_lines("MUSTER_TEST_NOTHING=kept\n"));
    shell("env", NULL, sizeof output);
    CHECK_EQUAL(1, count_lines("TMPDIR="));
    CHECK_EQUAL(1, count_lines("TMPDIR=/elsewhere\n"));
    CHECK_EQUAL(1, count_lines("LC_ALL=C\n"));
    unsetenv("LC_ALL");
    unsetenv("TMPDIR");
    shell("env", NULL, sizeof output);
    CHECK_EQUAL(0, count_lines("TMPDIR="));
    CHECK_EQUAL(1, count_lines("LC_ALL=C\n"));
    unsetenv("MUSTER_TEST_NOTHING");
    if (before)
        setenv("TMPDIR", before, 1);
    free(before);
    end();
}

/* The line's number, in base 16. */
static unsigned long long number_of(const char *line)
{
    const char *at = strstr(output, line);
    CHECK(at);
    return strtoull(at + strlen(line), NULL, 16);
}

static void a_program_begins_with_the_usual_signals(void)
{
    begin();
    sigset_t set, before;
    sigfillset(&set);
    sigdelset(&set, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    void (*pipe_before)(int) = signal(SIGPIPE, SIG_IGN);
    shell("cat /proc/self/status", NULL, sizeof output);
    signal(SIGPIPE, pipe_before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!strstr(output, "SigBlk:")) {
        printf("    not tested: this system does not tell the signals of a program\n");
        end();
        return;
    }
    CHECK_EQUAL(0, number_of("SigBlk:\t"));
    unsigned long long ignored = number_of("SigIgn:\t");
    CHECK_EQUAL(0, ignored >> (SIGPIPE - 1) & 1);
    CHECK_EQUAL(0, ignored >> (SIGCHLD - 1) & 1);
    end();
}

static void note_alarm(int number)
{
    (void)number;
}

/* Calls are interrupted again and again while the program runs. */
static void interruptions_change_nothing(void)
{
    begin();
    struct sigaction action = { .sa_handler = note_alarm }, before;
    sigaction(SIGALRM, &action, &before);
    struct itimerval every = { { 0, 500 }, { 0, 500 } }, never = { { 0, 0 }, { 0, 0 } };
    setitimer(ITIMER_REAL, &every, NULL);
    struct platform_process_end over = shell(
        "echo one; sleep 0.02; echo two; exec >&- 2>&-; sleep 0.02; exit 5", NULL, sizeof output);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    CHECK_EQUAL(5, over.code);
    CHECK_TEXT("one\ntwo\n", output);
    end();
}

static void check_ended(const char *script)
{
    const char *const arguments[] = { "sh", "-c", script, NULL };
    struct platform_process_end over = { .code = 77 };
    CHECK_STATUS(MUSTER_E_TIMEOUT, platform_process_run("/bin/sh", arguments, NULL, output, 100,
                                                        test_patience(100 * MS), &over, &problem));
    CHECK_EQUAL(128 + SIGKILL, over.code);
}

static bool is_there(long process)
{
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%ld/stat", process);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    if (fscanf(file, "%*d %*s %c", &state) != 1)
        state = 'Z';
    fclose(file);
    return state != 'Z';
}

static void a_program_that_takes_too_long_is_ended_with_what_it_started(void)
{
    begin();
    check_ended("sleep 1000");
    check_ended("exec >&- 2>&-; sleep 1000");
    check_ended("trap '' TERM; sleep 1000 & echo $!; wait");
    long child = strtol(output, NULL, 10);
    CHECK(child > 1);
    /* It was killed before; the system may need a moment for it. */
    while (is_there(child))
        platform_thread_yield();
    end();
}

static void a_program_that_cannot_be_started_is_told(void)
{
    begin();
    const char *const arguments[] = { "x", NULL };
    struct platform_process_end over = { .code = 77, .output_bytes = 77 };
    strcpy(output, "before");
    CHECK_STATUS(MUSTER_E_IO, platform_process_run(in_folder("none"), arguments, NULL, output,
                                                   sizeof output, SECOND, &over, &problem));
    CHECK_EQUAL(ENOENT, problem.driver_code);
    CHECK_EQUAL(-1, over.code);
    CHECK_EQUAL(0, over.output_bytes);
    CHECK_TEXT("", output);
    end();
}

static void make(const char *path, mode_t mode)
{
    int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(file >= 0);
    CHECK_EQUAL(0, fchmod(file, mode));
    close(file);
}

/* Where the program is, with that path; "" if it is nowhere. */
static const char *found_in(const char *places, const char *name)
{
    static char path[PLATFORM_PATH_BYTES];
    char *before = strdup(getenv("PATH"));
    setenv("PATH", places, 1);
    if (!platform_program_find(name, path))
        path[0] = 0;
    setenv("PATH", before, 1);
    free(before);
    return path;
}

static void programs_are_found_as_by_a_shell(void)
{
    begin();
    char places[1024], top[PLATFORM_PATH_BYTES];
    CHECK(getcwd(top, sizeof top));
    mkdir(in_folder("a"), 0700);
    mkdir(in_folder("b"), 0700);
    mkdir(in_folder("b/only"), 0700);
    make(in_folder("a/plain"), 0600);
    make(in_folder("b/plain"), 0700);
    make(in_folder("b/second"), 0700);
    make(in_folder("a/both"), 0700);
    make(in_folder("b/both"), 0700);
    snprintf(places, sizeof places, "%s/none:%s/a:%s/b", folder, folder, folder);
    CHECK_TEXT(in_folder("b/plain"), found_in(places, "plain"));
    CHECK_TEXT(in_folder("b/second"), found_in(places, "second"));
    CHECK_TEXT(in_folder("a/both"), found_in(places, "both"));
    CHECK_TEXT("", found_in(places, "only"));
    CHECK_TEXT("", found_in(places, "nothing"));
    CHECK_TEXT("", found_in(places, ""));
    CHECK_TEXT("", found_in("", "both"));
    CHECK_TEXT(in_folder("b/both"), found_in("/nowhere", in_folder("b/both")));
    CHECK_TEXT("", found_in(places, in_folder("a/plain")));
    CHECK_TEXT("", found_in(places, in_folder("b/only")));
    /* Neither an empty place nor a relative one: they depend on where the caller stands. */
    CHECK_EQUAL(0, chdir(in_folder("b")));
    bool is_anywhere = *found_in("", "second") || *found_in(":", "second") ||
                       *found_in("::", "second") || *found_in(".:../b", "second");
    snprintf(places, sizeof places, ":.:%s/b", folder);
    bool is_right = strcmp(found_in(places, "second"), in_folder("b/second")) == 0;
    CHECK_EQUAL(0, chdir(top));
    CHECK(!is_anywhere && is_right);
    /* The longest path that is taken, and one more. */
    for (size_t more = 0; more < 2; more++) {
        char name[PLATFORM_PATH_BYTES], whole[PLATFORM_PATH_BYTES + 8];
        memset(name, 'n', sizeof name);
        snprintf(places, sizeof places, "%s", folder);
        while (strlen(places) + 250 < PLATFORM_PATH_BYTES - 1) {
            strcat(places, "/dddddddddddddddddddd");
            mkdir(places, 0700);
        }
        name[PLATFORM_PATH_BYTES - 2 - strlen(places) + more] = 0;
        snprintf(whole, sizeof whole, "%s/%s", places, name);
        CHECK_EQUAL(PLATFORM_PATH_BYTES - 1 + more, strlen(whole));
        make(whole, 0700);
        CHECK_TEXT(more ? "" : whole, found_in(places, name));
        CHECK_TEXT(more ? "" : whole, found_in(places, whole));
        unlink(whole);
        while (strlen(places) > strlen(folder)) {
            rmdir(places);
            *strrchr(places, '/') = 0;
        }
    }
    unlink(in_folder("a/plain"));
    unlink(in_folder("b/plain"));
    unlink(in_folder("b/second"));
    unlink(in_folder("a/both"));
    unlink(in_folder("b/both"));
    rmdir(in_folder("b/only"));
    rmdir(in_folder("a"));
    rmdir(in_folder("b"));
    end();
}

static void folders_are_made_with_those_they_are_in(void)
{
    begin();
    struct stat facts;
    CHECK(platform_folder_make(in_folder("a/b/c")));
    CHECK_EQUAL(0, stat(in_folder("a/b/c"), &facts));
    CHECK(S_ISDIR(facts.st_mode) && (facts.st_mode & 0777) == 0700);
    CHECK(platform_folder_make(in_folder("a/b/c")));
    CHECK(platform_folder_make(in_folder("a")));
    CHECK(!platform_folder_make(""));
    make(in_folder("file"), 0600);
    CHECK(!platform_folder_make(in_folder("file/x")));
    for (size_t length = PLATFORM_PATH_BYTES - 1; length <= PLATFORM_PATH_BYTES; length++) {
        char path[PLATFORM_PATH_BYTES + 1], whole[PLATFORM_PATH_BYTES + 1];
        memset(path, '/', sizeof path);
        memcpy(path, folder, strlen(folder));
        path[length] = 0;
        for (size_t i = strlen(folder) + 1; i < length; i++)
            path[i] = i % 100 ? 'd' : '/';
        path[length - 1] = 'd';
        strcpy(whole, path);
        bool is_made = platform_folder_make(path);
        CHECK_EQUAL(length < PLATFORM_PATH_BYTES, is_made);
        CHECK_EQUAL(is_made ? 0 : -1, stat(whole, &facts));
        for (; strlen(whole) > strlen(folder); *strrchr(whole, '/') = 0)
            rmdir(whole);
    }
    unlink(in_folder("file"));
    rmdir(in_folder("a/b/c"));
    rmdir(in_folder("a/b"));
    rmdir(in_folder("a"));
    end();
}

static void a_file_that_others_can_write_is_not_ours(void)
{
    begin();
    const char *path = in_folder("file");
    CHECK(!platform_file_is_ours(path));
    make(path, 0644);
    CHECK(platform_file_is_ours(path));
    for (unsigned bit = 0; bit < 9; bit++) {
        CHECK_EQUAL(0, chmod(path, 1u << bit));
        bool others_write = (1u << bit) == S_IWGRP || (1u << bit) == S_IWOTH;
        CHECK_EQUAL(!others_write, platform_file_is_ours(path));
    }
    CHECK_EQUAL(0, chmod(path, 0600));
    if (geteuid() == 0) {
        CHECK_EQUAL(0, chown(path, 54321, 54321));
        CHECK(!platform_file_is_ours(path));
        /* Root's is anybody's to trust. */
        CHECK_EQUAL(0, chown(path, 0, 54321));
        CHECK_EQUAL(0, seteuid(54321));
        bool is_ours = platform_file_is_ours("/bin/sh");
        CHECK_EQUAL(0, seteuid(0));
        CHECK(is_ours);
    }
    unlink(path);
    end();
}

static void check_file(const char *path, const char *expected)
{
    char text[64] = "";
    FILE *file = fopen(path, "r");
    CHECK(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    CHECK_TEXT(expected, text);
}

static void files_are_written_whole_or_not_at_all(void)
{
    begin();
    struct stat facts;
    const char *path = in_folder("file"), *other = in_folder("other");
    write_bytes_max = 3;
    is_interrupted = true;
    MUST(platform_file_write(path, "0123456789", 10, &problem));
    check_file(path, "0123456789");
    CHECK_EQUAL(0, stat(path, &facts));
    CHECK_EQUAL(0600, facts.st_mode & 0777);
    CHECK_STATUS(MUSTER_E_IO, platform_file_write(path, "x", 1, &problem));
    CHECK_EQUAL(EEXIST, problem.driver_code);
    check_file(path, "0123456789");
    MUST(platform_file_replace(path, "abcdefgh", 8, &problem));
    check_file(path, "abcdefgh");
    MUST(platform_file_put_over(path, "ijklmnop", 8, &problem));
    check_file(path, "ijklmnop");
    MUST(platform_file_write(other, "", 0, &problem));
    check_file(other, "");
    unlink(other);
    /* The disk is full before the end. */
    for (size_t room = 0; room < 10; room += 5) {
        room_bytes = room;
        muster_status status = platform_file_write(other, "0123456789", 10, &problem);
        CHECK_EQUAL(ENOSPC, problem.driver_code);
        problem.driver_code = 0;
        room_bytes = room;
        muster_status replaced = platform_file_replace(path, "0123456789", 10, &problem);
        CHECK_EQUAL(ENOSPC, problem.driver_code);
        room_bytes = room;
        muster_status over = platform_file_put_over(path, "0123456789", 10, &problem);
        room_bytes = SIZE_MAX;
        CHECK_STATUS(MUSTER_E_IO, status);
        CHECK_STATUS(MUSTER_E_IO, replaced);
        CHECK_STATUS(MUSTER_E_IO, over);
        CHECK_EQUAL(1, count_files(folder));
        check_file(path, "ijklmnop");
    }
    write_bytes_max = 0;
    is_interrupted = false;
    unlink(path);
    end();
}

static void another_file_is_known_by_its_identity(void)
{
    begin();
    const char *path = in_folder("file"), *other = in_folder("other");
    uint64_t first[4], second[4];
    CHECK(!platform_file_identity(path, first));
    make(path, 0600);
    make(other, 0600);
    const struct timespec times[2][2] = { { { 5, 7 }, { 1000, 1 } }, { { 5, 7 }, { 1000, 2 } } };
    CHECK_EQUAL(0, utimensat(AT_FDCWD, path, times[0], 0));
    CHECK(platform_file_identity(path, first) && platform_file_identity(path, second));
    CHECK(memcmp(first, second, sizeof first) == 0);
    /* Read, it is the same. */
    check_file(path, "");
    CHECK(platform_file_identity(path, second));
    CHECK(memcmp(first, second, sizeof first) == 0);
    /* A nanosecond, and the file's number; other times of both are the same or not. */
    CHECK_EQUAL(0, utimensat(AT_FDCWD, path, times[1], 0));
    CHECK(platform_file_identity(path, second));
    CHECK_EQUAL(first[1] + 1, second[1]);
    CHECK_EQUAL(first[3], second[3]);
    CHECK_EQUAL(0, utimensat(AT_FDCWD, other, times[1], 0));
    CHECK(platform_file_identity(other, first));
    CHECK_EQUAL(first[1], second[1]);
    CHECK(first[3] != second[3]);
    CHECK_EQUAL(0, truncate(path, 3));
    CHECK_EQUAL(0, utimensat(AT_FDCWD, path, times[1], 0));
    CHECK(platform_file_identity(path, first));
    CHECK_EQUAL(second[0] + 3, first[0]);
    CHECK_EQUAL(second[1], first[1]);
    CHECK(first[2] >= second[2]);
    unlink(path);
    unlink(other);
    end();
}

static void temporary_folders_are_where_they_should_be(void)
{
    begin();
    char *before = getenv("TMPDIR") ? strdup(getenv("TMPDIR")) : NULL;
    char path[PLATFORM_PATH_BYTES] = "before", inner[PLATFORM_PATH_BYTES + 8];
    setenv("TMPDIR", folder, 1);
    MUST(platform_folder_make_temporary(path, &problem));
    CHECK(strncmp(path, folder, strlen(folder)) == 0 && path[strlen(folder)] == '/');
    struct stat facts;
    CHECK_EQUAL(0, stat(path, &facts));
    CHECK_EQUAL(0700, facts.st_mode & 0777);
    snprintf(inner, sizeof inner, "%s/one", path);
    make(inner, 0600);
    /* Another one, which stays when the first goes. */
    char other[PLATFORM_PATH_BYTES];
    MUST(platform_folder_make_temporary(other, &problem));
    CHECK(strcmp(path, other) != 0);
    platform_folder_remove_temporary(path);
    CHECK(stat(path, &facts) != 0 && stat(other, &facts) == 0);
    platform_folder_remove_temporary(path);
    platform_folder_remove_temporary("/none");
    platform_folder_remove_temporary(other);
    CHECK_EQUAL(0, count_files(folder));
    setenv("TMPDIR", in_folder("none"), 1);
    strcpy(path, "before");
    CHECK_STATUS(MUSTER_E_IO, platform_folder_make_temporary(path, &problem));
    CHECK_EQUAL(ENOENT, problem.driver_code);
    CHECK_TEXT("before", path);
    char longest[PLATFORM_PATH_BYTES + 1];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    const char *const none[] = { "", longest, NULL };
    for (size_t i = 0; i < COUNT_OF(none); i++) {
        none[i] ? setenv("TMPDIR", none[i], 1) : unsetenv("TMPDIR");
        MUST(platform_folder_make_temporary(path, &problem));
        CHECK(strncmp(path, "/tmp/", 5) == 0);
        platform_folder_remove_temporary(path);
        CHECK(stat(path, &facts) != 0);
    }
    unsetenv("TMPDIR");
    if (before)
        setenv("TMPDIR", before, 1);
    free(before);
    end();
}

/* Threads. */

struct seen {
    char name[32];
    size_t stack_bytes;
    cpu_set_t cores;
    struct platform_mutex *lock;
    struct platform_condition *go;
    bool may_go, is_there, could_lock;
};

static void look_around(void *argument)
{
    struct seen *seen = argument;
    pthread_attr_t attributes;
    seen->could_lock = platform_mutex_try_lock(seen->lock);
    if (seen->could_lock)
        platform_mutex_unlock(seen->lock);
    platform_mutex_lock(seen->lock);
    seen->is_there = true;
    platform_condition_wake_all(seen->go);
    while (!seen->may_go)
        platform_condition_wait(seen->go, seen->lock, UINT64_MAX);
    platform_mutex_unlock(seen->lock);
    pthread_getname_np(pthread_self(), seen->name, sizeof seen->name);
    pthread_getaffinity_np(pthread_self(), sizeof seen->cores, &seen->cores);
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstacksize(&attributes, &seen->stack_bytes);
        pthread_attr_destroy(&attributes);
    }
}

static void a_thread_has_its_name_its_cores_and_room(void)
{
    struct platform_mutex lock;
    struct platform_condition go;
    MUST(platform_mutex_init(&lock, &problem));
    MUST(platform_condition_init(&go, &problem));
    cpu_set_t allowed;
    CHECK_EQUAL(0, sched_getaffinity(0, sizeof allowed, &allowed));
    unsigned last = 0;
    for (unsigned core = 0; core < CPU_SETSIZE; core++)
        last = CPU_ISSET(core, &allowed) ? core : last;
    pthread_attr_t before, small;
    CHECK_EQUAL(0, pthread_getattr_default_np(&before));
    CHECK_EQUAL(0, pthread_attr_init(&small));
    CHECK_EQUAL(0, pthread_attr_setstacksize(&small, 128 << 10));
    for (unsigned round = 0; round < 3; round++) {
        struct platform_cores cores = { { 0 } };
        cores.bits[last / 64] = UINT64_C(1) << last % 64;
        if (round == 2) /* none that there is: then any */
            cores = (struct platform_cores){ { 0 } };
        struct seen seen = { .lock = &lock, .go = &go };
        struct platform_thread thread = { .started = false };
        CHECK_EQUAL(0, pthread_setattr_default_np(&small));
        platform_mutex_lock(&lock);
        muster_status status = platform_thread_start(
            &thread, look_around, &seen, "0123456789abcdefg", round ? &cores : NULL, &problem);
        CHECK_EQUAL(0, pthread_setattr_default_np(&before));
        CHECK_STATUS(MUSTER_OK, status);
        while (!seen.is_there)
            platform_condition_wait(&go, &lock, UINT64_MAX);
        seen.may_go = true;
        platform_condition_wake_one(&go);
        platform_mutex_unlock(&lock);
        platform_thread_join(&thread);
        CHECK_TEXT("0123456789abcde", seen.name);
        CHECK(seen.stack_bytes >= 1 << 20);
        CHECK(round != 1 || (CPU_COUNT(&seen.cores) == 1 && CPU_ISSET(last, &seen.cores)));
        CHECK(round == 1 || CPU_EQUAL(&seen.cores, &allowed));
        CHECK(platform_mutex_try_lock(&lock));
        platform_mutex_unlock(&lock);
    }
    pthread_attr_destroy(&small);
    pthread_attr_destroy(&before);
    platform_condition_deinit(&go);
    platform_mutex_deinit(&lock);
}

static void try_it(void *argument)
{
    struct seen *seen = argument;
    seen->could_lock = platform_mutex_try_lock(seen->lock);
}

static void a_lock_that_somebody_has_is_not_got(void)
{
    struct platform_mutex lock;
    MUST(platform_mutex_init(&lock, &problem));
    struct seen seen = { .lock = &lock, .could_lock = true };
    struct platform_thread thread = { .started = false };
    platform_mutex_lock(&lock);
    MUST(platform_thread_start(&thread, try_it, &seen, "try", NULL, &problem));
    platform_thread_join(&thread);
    CHECK(!seen.could_lock);
    platform_mutex_unlock(&lock);
    platform_mutex_deinit(&lock);
}

static void a_thread_that_is_refused_is_told_and_changes_nothing(void)
{
    static const struct {
        int code;
        muster_status status;
    } cases[] = { { EAGAIN, MUSTER_E_NO_MEMORY },
                  { ENOMEM, MUSTER_E_NO_MEMORY },
                  { EPERM, MUSTER_E_DRIVER } };
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct platform_thread thread = { .started = false };
        thread_code = cases[i].code;
        muster_status status =
            platform_thread_start(&thread, try_it, NULL, "refused", NULL, &problem);
        thread_code = 0;
        CHECK_STATUS(cases[i].status, status);
        CHECK_EQUAL(cases[i].code, problem.driver_code);
        CHECK(!thread.started);
        platform_thread_join(&thread);
        platform_thread_detach(&thread);
        pthread_sigmask(SIG_SETMASK, NULL, &after);
        for (int number = 1; number < NSIG; number++)
            CHECK_EQUAL(sigismember(&before, number), sigismember(&after, number));
    }
}

static void the_cheap_clock_is_the_same_clock(void)
{
    uint64_t before_ns = platform_clock_ns(), coarse_ns = platform_clock_coarse_ns();
    CHECK(coarse_ns <= platform_clock_ns());
    CHECK(coarse_ns + SECOND >= before_ns);
}

static void frames_are_left_as_they_were_entered(void)
{
    int object = 0, other = 0;
    struct platform_frame task = { .kind = FRAME_TASK, .object = &object };
    struct platform_frame job = { .kind = FRAME_JOB, .object = &other };
    CHECK(!platform_frame_now() && !platform_frame_is_in(FRAME_TASK, NULL));
    platform_frame_enter(&task);
    platform_frame_enter(&job);
    CHECK(platform_frame_now() == &job);
    CHECK(platform_frame_is_in(FRAME_TASK, NULL) && platform_frame_is_in(FRAME_TASK, &object));
    CHECK(platform_frame_is_in(FRAME_JOB, &other) && !platform_frame_is_in(FRAME_JOB, &object));
    CHECK(!platform_frame_is_in(FRAME_TASK, &other) && !platform_frame_is_in(FRAME_KERNEL, NULL));
    platform_frame_leave(&job);
    CHECK(platform_frame_now() == &task && !platform_frame_is_in(FRAME_JOB, NULL));
    platform_frame_leave(&task);
    CHECK(!platform_frame_now());
}

static void the_file_of_a_symbol_is_told_whole_or_not(void)
{
    char path[PLATFORM_PATH_BYTES] = "", again[PLATFORM_PATH_BYTES];
    struct platform_library library = { NULL };
    MUST(platform_library_open(&library, "libm.so.6", &problem));
    void *symbol = platform_library_symbol(&library, "cos");
    CHECK(symbol && !platform_library_symbol(&library, "muster_there_is_none"));
    CHECK(platform_symbol_file(symbol, path, sizeof path));
    CHECK_CONTAINS("libm", path);
    CHECK(platform_symbol_file(symbol, again, strlen(path) + 1));
    CHECK_TEXT(path, again);
    CHECK(!platform_symbol_file(symbol, again, strlen(path)));
    int here = 0;
    CHECK(!platform_symbol_file(&here, again, sizeof again));
    platform_library_close(&library);
    CHECK(!library.handle);
    platform_library_close(&library);
    CHECK_STATUS(MUSTER_E_NOT_FOUND, platform_library_open(&library, "/none.so", &problem));
    CHECK_CONTAINS("/none.so", problem.text);
    platform_library_close(&library);
}

/* A shared object of the system's, as bytes. */
static char *load_object(size_t *bytes)
{
    char path[PLATFORM_PATH_BYTES], *object = NULL;
    struct platform_library library = { NULL };
    MUST(platform_library_open(&library, "libm.so.6", &problem));
    CHECK(platform_symbol_file(platform_library_symbol(&library, "cos"), path, sizeof path));
    platform_library_close(&library);
    MUST(platform_file_read(&platform_heap, path, 64 << 20, &object, bytes, &problem));
    return object;
}

static void check_image(const char *object, size_t bytes)
{
    unsigned before = count_files("/proc/self/fd");
    struct platform_image one = { .descriptor = -1 }, other = { .descriptor = -1 };
    MUST(platform_image_open(&one, object, bytes, &problem));
    MUST(platform_image_open(&other, object, bytes, &problem));
    /* Two of them, although they are the same. */
    void *first = platform_library_symbol(&one.library, "cos");
    void *second = platform_library_symbol(&other.library, "cos");
    CHECK(first && second && first != second);
    CHECK_EQUAL(has_no_memory_files, one.descriptor < 0);
    CHECK_EQUAL(0, count_files(folder));
    platform_image_close(&one);
    platform_image_close(&one);
    platform_image_close(&other);
    CHECK(!one.library.handle && one.descriptor == -1);
    CHECK_EQUAL(before, count_files("/proc/self/fd"));
}

static void an_image_is_loaded_from_memory_or_from_a_file(void)
{
    begin();
    char *before = getenv("TMPDIR") ? strdup(getenv("TMPDIR")) : NULL;
    setenv("TMPDIR", folder, 1);
    size_t bytes;
    char *object = load_object(&bytes);
    struct platform_image image = { .descriptor = 77 };
    for (int round = 0; round < 2; round++) {
        has_no_memory_files = round;
        check_image(object, bytes);
        /* What is no shared object, and a disk without room. */
        CHECK_STATUS(MUSTER_E_NOT_FOUND, platform_image_open(&image, "nothing", 7, &problem));
        CHECK(!image.library.handle && image.descriptor == -1);
        room_bytes = bytes / 2;
        muster_status status = platform_image_open(&image, object, bytes, &problem);
        room_bytes = SIZE_MAX;
        CHECK_STATUS(MUSTER_E_IO, status);
        CHECK_EQUAL(-1, image.descriptor);
        CHECK_EQUAL(0, count_files(folder));
    }
    setenv("TMPDIR", in_folder("none"), 1);
    CHECK_STATUS(MUSTER_E_IO, platform_image_open(&image, object, bytes, &problem));
    has_no_memory_files = false;
    free(object);
    unsetenv("TMPDIR");
    if (before)
        setenv("TMPDIR", before, 1);
    free(before);
    end();
}

/* A process may have closed its standard input and output: their numbers are as good as others. */
static void low_descriptors_are_as_good_as_others(void)
{
    begin();
    size_t bytes;
    char *object = load_object(&bytes);
    const char *path = in_folder("file");
    const char *const arguments[] = { "sh", "-c", "echo one; echo two >&2; cat", NULL };
    struct platform_process_end over;
    struct platform_image image = { .descriptor = -1 };
    fflush(NULL);
    int kept[2] = { fcntl(0, F_DUPFD_CLOEXEC, 10), fcntl(1, F_DUPFD_CLOEXEC, 10) };
    CHECK(kept[0] >= 0 && kept[1] >= 0);
    muster_status statuses[5];
    bool is_closed = true;
    void *symbol = NULL;
    for (int both = 0; both < 2; both++) {
        close(0);
        if (both)
            close(1);
        unlink(path);
        statuses[0] = platform_file_write(path, "abc", 3, &problem);
        statuses[1] = platform_file_replace(path, "defg", 4, &problem);
        statuses[2] = platform_file_put_over(path, "hijkl", 5, &problem);
        statuses[3] = platform_process_run("/bin/sh", arguments, NULL, output, sizeof output,
                                           60 * SECOND, &over, &problem);
        statuses[4] = platform_image_open(&image, object, bytes, &problem);
        is_closed = is_closed && image.descriptor == 0;
        if (statuses[4] == MUSTER_OK)
            symbol = platform_library_symbol(&image.library, "cos");
        platform_image_close(&image);
        is_closed = is_closed && fcntl(0, F_GETFD) < 0 && (!both || fcntl(1, F_GETFD) < 0);
        dup2(kept[0], 0);
        dup2(kept[1], 1);
        for (size_t i = 0; i < COUNT_OF(statuses); i++)
            CHECK_STATUS(MUSTER_OK, statuses[i]);
        CHECK(is_closed && symbol);
        check_file(path, "hijkl");
        CHECK_TEXT("one\ntwo\n", output);
        CHECK_EQUAL(0, over.code);
    }
    close(kept[0]);
    close(kept[1]);
    free(object);
    unlink(path);
    end();
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(what_a_program_says_and_its_end_are_told),
        TEST(a_program_speaks_english_and_has_its_own_folder),
        TEST(a_program_begins_with_the_usual_signals),
        TEST(interruptions_change_nothing),
        TEST(a_program_that_takes_too_long_is_ended_with_what_it_started),
        TEST(a_program_that_cannot_be_started_is_told),
        TEST(programs_are_found_as_by_a_shell),
        TEST(folders_are_made_with_those_they_are_in),
        TEST(a_file_that_others_can_write_is_not_ours),
        TEST(files_are_written_whole_or_not_at_all),
        TEST(another_file_is_known_by_its_identity),
        TEST(temporary_folders_are_where_they_should_be),
        TEST(a_thread_has_its_name_its_cores_and_room),
        TEST(a_lock_that_somebody_has_is_not_got),
        TEST(a_thread_that_is_refused_is_told_and_changes_nothing),
        TEST(the_cheap_clock_is_the_same_clock),
        TEST(frames_are_left_as_they_were_entered),
        TEST(the_file_of_a_symbol_is_told_whole_or_not),
        TEST(an_image_is_loaded_from_memory_or_from_a_file),
        TEST(low_descriptors_are_as_good_as_others),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
