/*
 * What must not outlive the process is gone after a sweep, whatever the process was doing. A sweep
 * is for the end of a process, so each is made by a child.
 */
#include "platform/temporary.h"

#include "harness.h"
#include "platform/aside.h"
#include "platform/file.h"
#include "platform/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <muster/file.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[64];
static struct muster_error problem;
static void (*before_create)(void), (*before_rename)(void);

/* No file is without a name here. */
int __real_openat(int at, const char *path, int flags, ...);
int __wrap_openat(int at, const char *path, int flags, ...);
int __wrap_openat(int at, const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    if ((flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if ((flags & O_CREAT) && before_create)
        before_create();
    return __real_openat(at, path, flags, mode);
}

int __real_renameat(int from_at, const char *from, int to_at, const char *to);
int __wrap_renameat(int from_at, const char *from, int to_at, const char *to);
int __wrap_renameat(int from_at, const char *from, int to_at, const char *to)
{
    if (before_rename)
        before_rename();
    return __real_renameat(from_at, from, to_at, to);
}

static void make_folder(void)
{
    strcpy(folder, "/tmp/muster-temporary-XXXXXX");
    CHECK(mkdtemp(folder));
    before_create = before_rename = NULL;
}

static const char *in_folder(const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static size_t count_files(void)
{
    size_t count = 0;
    DIR *directory = opendir(folder);
    CHECK(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count - 2;
}

/* The exit code of a child that runs the function; 128 + the signal that ended it. */
static int in_child(int (*function)(void))
{
    int status;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(function());
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Files and folders. */

static int sweep_files(void)
{
    struct platform_aside a, b, late;
    char path[PLATFORM_PATH_BYTES], inner[PLATFORM_PATH_BYTES + 16];
    if (setenv("TMPDIR", folder, 1) != 0 ||
        platform_aside_open(&a, in_folder("a"), 0, &problem) != MUSTER_OK ||
        platform_aside_open(&b, in_folder("b"), 0, &problem) != MUSTER_OK ||
        platform_folder_make_temporary(path, &problem) != MUSTER_OK)
        return 1;
    for (int i = 0; i < 300; i++) {
        snprintf(inner, sizeof inner, "%s/%d", path, i);
        if (platform_file_write(inner, "x", 1, &problem) != MUSTER_OK)
            return 2;
    }
    if (count_files() != 3)
        return 3;
    muster_process_cleanup();
    if (count_files() != 0)
        return 4;
    /* Nothing comes after it, and what was there is still to be discarded. */
    if (platform_aside_open(&late, in_folder("c"), 0, &problem) != MUSTER_E_IO ||
        platform_folder_make_temporary(path, &problem) != MUSTER_E_IO)
        return 5;
    if (platform_aside_commit(&a, &problem) != MUSTER_E_IO)
        return 6;
    platform_aside_discard(&b);
    return count_files() == 0 ? 0 : 7;
}

static void files_and_folders_are_removed(void)
{
    make_folder();
    CHECK_EQUAL(0, in_child(sweep_files));
    CHECK_EQUAL(0, count_files());
    rmdir(folder);
}

static void a_folder_that_was_removed_is_somebody_elses(void)
{
    char first[PLATFORM_PATH_BYTES], second[PLATFORM_PATH_BYTES], inner[PLATFORM_PATH_BYTES + 8];
    sigset_t before, after;
    struct stat facts;
    make_folder();
    CHECK_EQUAL(0, setenv("TMPDIR", folder, 1));
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    CHECK_STATUS(MUSTER_OK, platform_folder_make_temporary(first, &problem));
    CHECK_STATUS(MUSTER_OK, platform_folder_make_temporary(second, &problem));
    CHECK(strcmp(first, second) != 0 && stat(first, &facts) == 0);
    CHECK_EQUAL(0700, facts.st_mode & 07777);
    snprintf(inner, sizeof inner, "%s/file", first);
    CHECK_STATUS(MUSTER_OK, platform_file_write(inner, "x", 1, &problem));
    platform_folder_remove_temporary(first);
    CHECK(access(first, F_OK) != 0 && access(second, F_OK) == 0);
    /* Of the same name, and not made here. */
    CHECK_EQUAL(0, mkdir(first, 0700));
    platform_folder_remove_temporary(first);
    CHECK_EQUAL(0, access(first, F_OK));
    platform_folder_remove_temporary(second);
    CHECK(access(second, F_OK) != 0);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    for (int number = 1; number < 32; number++)
        CHECK_EQUAL(sigismember(&before, number), sigismember(&after, number));
    rmdir(first);
    CHECK_EQUAL(0, unsetenv("TMPDIR"));
    CHECK_EQUAL(0, count_files());
    rmdir(folder);
}

/* Many threads at once. */

static void *come_and_go(void *argument)
{
    static _Atomic unsigned threads;
    struct platform_aside files[4];
    char path[128];
    unsigned own = atomic_fetch_add(&threads, 1);
    for (unsigned i = 0; i < 30; i++) {
        for (unsigned k = 0; k < 4; k++) {
            snprintf(path, sizeof path, "%s/%u-%u", folder, own, k);
            if (platform_aside_open(&files[k], path, 0, NULL) != MUSTER_OK)
                return NULL;
        }
        for (unsigned k = 0; k < 4; k++)
            platform_aside_discard(&files[(k + i) % 4]);
    }
    return argument;
}

static int come_and_go_together(void)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    struct platform_aside last;
    int result = 0;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, come_and_go, &result) != 0)
            return 1;
    for (int i = 0; i < THREADS; i++) {
        void *good;
        pthread_join(threads[i], &good);
        result = good ? result : 2;
    }
    if (result != 0 || count_files() != 0)
        return 3;
    /* The list is whole: what comes into it is found. */
    if (platform_aside_open(&last, in_folder("last"), 0, &problem) != MUSTER_OK ||
        count_files() != 1)
        return 4;
    muster_process_cleanup();
    return count_files() == 0 ? 0 : 5;
}

static void threads_do_not_lose_each_others_files(void)
{
    make_folder();
    CHECK_EQUAL(0, in_child(come_and_go_together));
    CHECK_EQUAL(0, count_files());
    rmdir(folder);
}

static void a_child_leaves_its_parents_files(void)
{
    struct platform_aside file;
    make_folder();
    CHECK_STATUS(MUSTER_OK, platform_aside_open(&file, in_folder("a"), 0, &problem));
    CHECK_EQUAL(1, count_files());
    pid_t pid = fork();
    if (pid == 0) {
        muster_process_cleanup();
        _exit(0);
    }
    CHECK_EQUAL(pid, waitpid(pid, NULL, 0));
    CHECK_EQUAL(1, count_files());
    CHECK_STATUS(MUSTER_OK, platform_aside_write(&file, "one", 3, &problem));
    CHECK_STATUS(MUSTER_OK, platform_aside_commit(&file, &problem));
    CHECK_EQUAL(1, count_files());
    unlink(in_folder("a"));
    rmdir(folder);
}

/* A sweep that comes at the worst time. */

static pthread_t sweeper;

static void *sweep(void *argument)
{
    muster_process_cleanup();
    return argument;
}

/*
 * Another thread sweeps now, while this one makes or renames a file. It must wait for that; one that
 * does not is given time to be over before.
 */
static void sweep_beside(void)
{
    struct timespec end;
    before_create = before_rename = NULL;
    if (pthread_create(&sweeper, NULL, sweep, NULL) != 0)
        _exit(90);
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += 200000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    if (pthread_timedjoin_np(sweeper, NULL, &end) == 0)
        _exit(91);
}

static int sweep_while_made(void)
{
    struct platform_aside file;
    before_create = sweep_beside;
    muster_status status = platform_aside_open(&file, in_folder("a"), 0, &problem);
    pthread_join(sweeper, NULL);
    return status == MUSTER_OK && count_files() == 0 ? 0 : 1;
}

/* Whatever comes first, the file is in its place or there is none. */
static int sweep_while_renamed(void)
{
    struct platform_aside file;
    if (platform_aside_open(&file, in_folder("a"), 0, &problem) != MUSTER_OK)
        return 1;
    before_rename = sweep_beside;
    muster_status status = platform_aside_commit(&file, &problem);
    pthread_join(sweeper, NULL);
    return status == MUSTER_OK && count_files() == 1 && access(in_folder("a"), F_OK) == 0 ? 0 : 2;
}

static void a_sweep_waits_for_what_is_being_made(void)
{
    make_folder();
    CHECK_EQUAL(0, in_child(sweep_while_made));
    CHECK_EQUAL(0, count_files());
    CHECK_EQUAL(0, in_child(sweep_while_renamed));
    unlink(in_folder("a"));
    CHECK_EQUAL(0, count_files());
    rmdir(folder);
}

static void die(int number)
{
    muster_process_cleanup();
    signal(number, SIG_DFL);
    raise(number);
}

/* Files come and go for ever. */
static _Noreturn void write_for_ever(void)
{
    struct sigaction action = { .sa_handler = die };
    sigfillset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    for (;;) {
        struct platform_aside file;
        if (platform_aside_open(&file, in_folder("a"), 0, &problem) != MUSTER_OK)
            continue;
        platform_aside_write(&file, "x", 1, &problem);
        platform_aside_commit(&file, &problem);
    }
}

static void a_signal_at_any_time_leaves_nothing(void)
{
    unsigned seed = (unsigned)test_seed();
    make_folder();
    for (unsigned i = 0; i < test_repetitions(60); i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0)
            write_for_ever();
        /* It has begun once the first file is there. */
        while (access(in_folder("a"), F_OK) != 0)
            nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
        nanosleep(&(struct timespec){ .tv_nsec = rand_r(&seed) % 2000000 }, NULL);
        CHECK_EQUAL(0, kill(pid, SIGTERM));
        int status;
        CHECK_EQUAL(pid, waitpid(pid, &status, 0));
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
        CHECK_EQUAL(1, count_files());
        unlink(in_folder("a"));
    }
    rmdir(folder);
}

/* Programs. */

static void *run_for_ever(void *argument)
{
    /* With children, a file of its own in its folder, and deaf to what can be ignored. */
    static const char *const arguments[] = {
        "sh", "-c",
        "trap '' TERM INT HUP; echo > \"$TMPDIR/one\"; (sleep 1000; echo > \"$TMPDIR/late\") & "
        "echo $$ > \"$OUT\"; sleep 1000; echo > \"$TMPDIR/two\"",
        NULL
    };
    struct platform_process_end end;
    char output[64];
    platform_process_run("/bin/sh", arguments, argument, output, sizeof output, UINT64_MAX, &end,
                         &problem);
    return NULL;
}

static int sweep_program(void)
{
    char path[PLATFORM_PATH_BYTES];
    pthread_t runner;
    struct stat facts;
    long group = 0;
    if (setenv("TMPDIR", folder, 1) != 0 || setenv("OUT", in_folder("group"), 1) != 0 ||
        platform_folder_make_temporary(path, &problem) != MUSTER_OK ||
        pthread_create(&runner, NULL, run_for_ever, path) != 0)
        return 1;
    while (stat(in_folder("group"), &facts) != 0 || facts.st_size == 0)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    FILE *text = fopen(in_folder("group"), "r");
    bool is_read = text && fscanf(text, "%ld", &group) == 1;
    if (!is_read || kill((pid_t)-group, 0) != 0)
        return 2;
    fclose(text);
    muster_process_cleanup();
    if (access(path, F_OK) == 0)
        return 3;
    /* The thread that waited for it is not kept waiting. */
    pthread_join(runner, NULL);
    return 0;
}

static void programs_are_killed_with_all_they_started(void)
{
    make_folder();
    CHECK_EQUAL(0, in_child(sweep_program));
    CHECK_EQUAL(0, unlink(in_folder("group")));
    CHECK_EQUAL(0, count_files());
    rmdir(folder);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(files_and_folders_are_removed),
        TEST(a_folder_that_was_removed_is_somebody_elses),
        TEST(threads_do_not_lose_each_others_files),
        TEST(a_child_leaves_its_parents_files),
        TEST(a_sweep_waits_for_what_is_being_made),
        TEST(a_signal_at_any_time_leaves_nothing),
        TEST(programs_are_killed_with_all_they_started),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
