/*
 * Files that are written aside: whole in their place, or as they were and nothing beside them.
 */
#include "platform/aside.h"

#include "harness.h"
#include "platform/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Users and groups that the machine need not have. */
#define ALICE 54321
#define BOB 54322

static struct muster_error problem;
static char folder[64];
static bool has_unnamed = true; /* else the file system has no files without a name */
static mode_t made_with;        /* what the last new file was made with */

int __real_openat(int at, const char *path, int flags, ...);
int __wrap_openat(int at, const char *path, int flags, ...);
int __wrap_openat(int at, const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    if (!has_unnamed && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE)
        made_with = mode;
    return __real_openat(at, path, flags, mode);
}

static void make_folder(void)
{
    strcpy(folder, "/tmp/muster-file-XXXXXX");
    CHECK(mkdtemp(folder));
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

static void write_all(struct platform_aside *file, const char *text)
{
    CHECK_STATUS(MUSTER_OK, platform_aside_write(file, text, strlen(text), &problem));
}

static void check_content(const char *path, const char *content)
{
    char text[64] = "";
    FILE *file = fopen(path, "r");
    CHECK(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    CHECK_TEXT(content, text);
}

static void a_file_without_a_name_gets_it_at_the_end(void)
{
    struct platform_aside file;
    make_folder();
    const char *path = in_folder("a");
    for (unsigned is_kept = 0; is_kept < 2; is_kept++) {
        CHECK_STATUS(MUSTER_OK, platform_aside_open(&file, path, 0, &problem));
        file.must_sync = true;
        write_all(&file, "one");
        /* Not every file system can do without. */
        CHECK_EQUAL(file.temporary[0] ? 1 : 0, count_files());
        if (is_kept)
            CHECK_STATUS(MUSTER_OK, platform_aside_commit(&file, &problem));
        else
            platform_aside_discard(&file);
        CHECK_EQUAL(is_kept, count_files());
    }
    check_content(path, "one");
    unlink(path);
    rmdir(folder);
}

static void a_file_appears_when_it_is_whole(void)
{
    struct platform_aside file;
    make_folder();
    const char *path = in_folder("a");
    CHECK_STATUS(MUSTER_OK, platform_aside_open(&file, path, 0, &problem));
    write_all(&file, "one ");
    CHECK(access(path, F_OK) != 0);
    write_all(&file, "two");
    CHECK_STATUS(MUSTER_OK, platform_aside_commit(&file, &problem));
    check_content(path, "one two");
    CHECK_STATUS(MUSTER_OK, platform_aside_open(&file, path, 0, &problem));
    write_all(&file, "three");
    check_content(path, "one two");
    CHECK_STATUS(MUSTER_OK, platform_aside_commit(&file, &problem));
    check_content(path, "three");
    CHECK_EQUAL(1, count_files());
    unlink(path);
    rmdir(folder);
}

static void two_at_once_do_not_meet(void)
{
    struct platform_aside a, b;
    make_folder();
    const char *path = in_folder("a");
    CHECK_STATUS(MUSTER_OK, platform_aside_open(&a, path, 0, &problem));
    CHECK_STATUS(MUSTER_OK, platform_aside_open(&b, path, 0, &problem));
    write_all(&a, "a");
    write_all(&b, "b");
    CHECK_STATUS(MUSTER_OK, platform_aside_commit(&a, &problem));
    CHECK_STATUS(MUSTER_OK, platform_aside_commit(&b, &problem));
    check_content(path, "b");
    unlink(path);
    CHECK_EQUAL(0, count_files());
    rmdir(folder);
}

static void what_is_discarded_leaves_nothing(void)
{
    struct platform_aside file;
    make_folder();
    const char *path = in_folder("a");
    CHECK_STATUS(MUSTER_OK, platform_aside_open(&file, path, 0, &problem));
    write_all(&file, "half");
    platform_aside_discard(&file);
    platform_aside_discard(&file);
    CHECK_EQUAL(0, count_files());
    /* The folder it was to be put into becomes its own: a name that cannot be taken any more. */
    CHECK_STATUS(MUSTER_OK, platform_aside_open(&file, path, 0, &problem));
    CHECK_EQUAL(0, mkdir(path, 0700));
    CHECK_STATUS(MUSTER_E_IO, platform_aside_commit(&file, &problem));
    CHECK_CONTAINS(path, problem.text);
    CHECK_EQUAL(1, count_files());
    rmdir(path);
    rmdir(folder);
}

static void what_cannot_be_written_is_refused(void)
{
    struct platform_aside file;
    char long_path[PATH_MAX + 16];
    make_folder();
    memset(long_path, 'x', sizeof long_path);
    long_path[sizeof long_path - 1] = '\0';
    CHECK_STATUS(MUSTER_E_IO, platform_aside_open(&file, long_path, 0, &problem));
    CHECK_STATUS(MUSTER_E_IO, platform_aside_open(&file, "", 0, &problem));
    CHECK_STATUS(MUSTER_E_IO, platform_aside_open(&file, folder, 0, &problem));
    CHECK_STATUS(MUSTER_E_IO, platform_aside_open(&file, in_folder("none/a"), 0, &problem));
    const char *pipe_path = in_folder("pipe");
    CHECK_EQUAL(0, mkfifo(pipe_path, 0600));
    CHECK_STATUS(MUSTER_E_IO, platform_aside_open(&file, pipe_path, 0, &problem));
    CHECK_CONTAINS("function of your own", problem.fix);
    unlink(pipe_path);
    CHECK_STATUS(MUSTER_OK, platform_aside_open(&file, "/dev/full", 0, &problem));
    CHECK_STATUS(MUSTER_E_IO, platform_aside_write(&file, "x", 1, &problem));
    CHECK_CONTAINS("make room", problem.fix);
    platform_aside_discard(&file);
    CHECK_EQUAL(0, count_files());
    rmdir(folder);
}

static bool is_link(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
}

static void a_link_is_followed_or_replaced_as_asked(void)
{
    make_folder();
    const char *file = in_folder("file"), *link = in_folder("link");
    CHECK_STATUS(MUSTER_OK, platform_file_replace(file, "one", 3, &problem));
    CHECK_EQUAL(0, chmod(file, 0640));
    CHECK_EQUAL(0, symlink(file, link));
    CHECK_STATUS(MUSTER_OK, platform_file_replace(link, "two", 3, &problem));
    check_content(file, "two");
    CHECK(is_link(link));
    struct stat status;
    CHECK_EQUAL(0, stat(file, &status));
    CHECK_EQUAL(0640, status.st_mode & 07777);
    CHECK_STATUS(MUSTER_OK, platform_file_put_over(link, "three", 5, &problem));
    check_content(link, "three");
    check_content(file, "two");
    CHECK(!is_link(link));
    unlink(link);
    unlink(file);
    CHECK_EQUAL(0, count_files());
    rmdir(folder);
}

/* Names. */

static void names_that_are_taken_are_passed_over(void)
{
    struct platform_aside file;
    enum { TAKEN = 300 };
    for (int way = 0; way < 2; way++) {
        has_unnamed = way == 0;
        make_folder();
        const char *path = in_folder("a");
        char other[128];
        for (int i = 0; i < TAKEN; i++) {
            snprintf(other, sizeof other, "%s.muster-%ld-%d", path, (long)getpid(), i);
            CHECK_STATUS(MUSTER_OK, platform_file_write(other, "other", 5, &problem));
        }
        CHECK_STATUS(MUSTER_OK, platform_aside_open(&file, path, 0, &problem));
        write_all(&file, "mine");
        CHECK_STATUS(MUSTER_OK, platform_aside_commit(&file, &problem));
        check_content(path, "mine");
        CHECK_EQUAL(TAKEN + 1, count_files());
        for (int i = 0; i < TAKEN; i++) {
            snprintf(other, sizeof other, "%s.muster-%ld-%d", path, (long)getpid(), i);
            check_content(other, "other");
            unlink(other);
        }
        unlink(path);
        rmdir(folder);
    }
    has_unnamed = true;
}

static void the_longest_name_can_be_written(void)
{
    char name[NAME_MAX + 1], path[NAME_MAX + 128];
    for (int way = 0; way < 2; way++) {
        has_unnamed = way == 0;
        make_folder();
        /* Characters of two bytes: a cut may come between them. */
        for (int i = 0; i + 1 < NAME_MAX; i += 2)
            memcpy(name + i, "\xC3\xA4", 2);
        name[NAME_MAX - 1] = 'x';
        name[NAME_MAX] = '\0';
        snprintf(path, sizeof path, "%s/%s", folder, name);
        CHECK_STATUS(MUSTER_OK, platform_file_replace(path, "one", 3, &problem));
        CHECK_STATUS(MUSTER_OK, platform_file_replace(path, "two", 3, &problem));
        check_content(path, "two");
        unlink(path);
        CHECK_EQUAL(0, count_files());
        rmdir(folder);
    }
    has_unnamed = true;
}

/* Links. */

static void a_link_to_what_is_not_there_yet_is_followed(void)
{
    make_folder();
    const char *link = in_folder("link"), *second = in_folder("second");
    char target[128];
    snprintf(target, sizeof target, "%s/inner/file", folder);
    CHECK_EQUAL(0, mkdir(in_folder("inner"), 0700));
    CHECK_EQUAL(0, symlink("inner/file", link));
    CHECK_EQUAL(0, symlink(link, second));
    CHECK_STATUS(MUSTER_OK, platform_file_replace(second, "one", 3, &problem));
    check_content(target, "one");
    CHECK(is_link(link) && is_link(second));
    /* One into a folder that is not there, and one that leads to itself. */
    unlink(second);
    CHECK_EQUAL(0, symlink("none/file", second));
    CHECK_STATUS(MUSTER_E_IO, platform_file_replace(second, "one", 3, &problem));
    unlink(second);
    CHECK_EQUAL(0, symlink("second", second));
    CHECK_STATUS(MUSTER_E_IO, platform_file_replace(second, "one", 3, &problem));
    CHECK(is_link(second));
    unlink(target);
    CHECK_EQUAL(0, rmdir(in_folder("inner")));
    unlink(link);
    unlink(second);
    CHECK_EQUAL(0, count_files());
    rmdir(folder);
}

/* Descriptors. */

static void check_descriptor(int descriptor, const char *path, const char *name)
{
    struct platform_aside file;
    CHECK_EQUAL(0, ftruncate(descriptor, 0));
    CHECK_EQUAL(0, lseek(descriptor, 0, SEEK_SET));
    CHECK_EQUAL(7, write(descriptor, "before ", 7));
    CHECK_STATUS(MUSTER_OK, platform_aside_open(&file, name, 0, &problem));
    write_all(&file, "mine ");
    CHECK_STATUS(MUSTER_OK, platform_aside_commit(&file, &problem));
    CHECK_STATUS(MUSTER_OK, platform_aside_open(&file, name, 0, &problem));
    platform_aside_discard(&file);
    CHECK_EQUAL(5, write(descriptor, "after", 5));
    check_content(path, "before mine after");
}

static void a_descriptor_is_written_from_where_it_stands(void)
{
    struct platform_aside file;
    char name[64];
    make_folder();
    const char *path = in_folder("a"), *link = in_folder("link");
    int descriptor = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    CHECK(descriptor >= 0);
    static const char *const folders[] = { "/proc/self/fd", "/proc/thread-self/fd", "/dev/fd" };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(name, sizeof name, "%s/%d", folders[i], descriptor);
        check_descriptor(descriptor, path, name);
    }
    CHECK_EQUAL(0, symlink(name, link));
    check_descriptor(descriptor, path, link);
    unlink(link);
    /* The file it was opened for is gone: nothing appears in its place. */
    unlink(path);
    CHECK_STATUS(MUSTER_OK, platform_file_replace(name, "x", 1, &problem));
    CHECK_EQUAL(0, count_files());
    close(descriptor);
    CHECK_STATUS(MUSTER_E_IO, platform_aside_open(&file, name, 0, &problem));
    /* One that is open for reading only. */
    descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
    snprintf(name, sizeof name, "/dev/fd/%d", descriptor);
    CHECK_STATUS(MUSTER_E_IO, platform_aside_open(&file, name, 0, &problem));
    close(descriptor);
    /* A pipe is refused by this name too. */
    int ends[2];
    CHECK_EQUAL(0, pipe(ends));
    snprintf(name, sizeof name, "/dev/fd/%d", ends[1]);
    CHECK_STATUS(MUSTER_E_IO, platform_aside_open(&file, name, 0, &problem));
    CHECK_STATUS(MUSTER_OK, platform_aside_open(&file, name, PLATFORM_ASIDE_PIPES, &problem));
    write_all(&file, "x");
    CHECK_STATUS(MUSTER_OK, platform_aside_commit(&file, &problem));
    CHECK_EQUAL(1, read(ends[0], name, 2));
    close(ends[0]);
    close(ends[1]);
    rmdir(folder);
}

/* Rights. */

static struct stat facts_of(const char *path)
{
    struct stat facts;
    CHECK_EQUAL(0, stat(path, &facts));
    return facts;
}

static void no_bit_that_lends_rights_is_kept(void)
{
    struct platform_aside file;
    static const mode_t modes[] = { 04755, 02755, 06777, 01777, 07644 };
    for (int way = 0; way < 2; way++) {
        has_unnamed = way == 0;
        make_folder();
        const char *path = in_folder("a");
        for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
            CHECK_STATUS(MUSTER_OK, platform_file_write(path, "one", 3, &problem));
            CHECK_EQUAL(0, chmod(path, modes[i]));
            CHECK_STATUS(MUSTER_OK, platform_aside_open(&file, path, 0, &problem));
            write_all(&file, "two");
            CHECK_STATUS(MUSTER_OK, platform_aside_commit(&file, &problem));
            CHECK_EQUAL(modes[i] & 0777, facts_of(path).st_mode & 07777);
            unlink(path);
        }
        rmdir(folder);
    }
    has_unnamed = true;
}

static void owner_and_group_are_kept_by_whoever_may(void)
{
    if (geteuid() != 0) {
        printf("    not tested: owners, which only root can give away\n");
        return;
    }
    make_folder();
    const char *path = in_folder("a");
    CHECK_STATUS(MUSTER_OK, platform_file_write(path, "one", 3, &problem));
    CHECK_EQUAL(0, chown(path, ALICE, BOB));
    CHECK_EQUAL(0, chmod(path, 04755));
    CHECK_STATUS(MUSTER_OK, platform_file_replace(path, "two", 3, &problem));
    struct stat facts = facts_of(path);
    CHECK_EQUAL(ALICE, facts.st_uid);
    CHECK_EQUAL(BOB, facts.st_gid);
    CHECK_EQUAL(0755, facts.st_mode & 07777);
    check_content(path, "two");
    unlink(path);
    rmdir(folder);
}

/* What the function gives, run by another user where that is possible. */
static int as_user(uid_t user, int (*function)(const char *path), const char *path)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        bool is_user = setgroups(0, NULL) == 0 && setgid(user) == 0 && setuid(user) == 0;
        _exit(is_user ? function(path) : 99);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int replace(const char *path)
{
    return platform_file_replace(path, "two", 3, &problem) == MUSTER_OK ? 0 : problem.driver_code;
}

static void nobody_gets_more_than_before(void)
{
    if (geteuid() != 0) {
        printf("    not tested: files of several users, since only root can be them\n");
        return;
    }
    make_folder();
    CHECK_EQUAL(0, chmod(folder, 0777));
    const char *path = in_folder("a");
    /* Of Alice and her group; Bob may write it as one of the others, and the group becomes Bob's. */
    static const struct {
        mode_t before, after;
    } modes[] = { { 0666, 0666 }, { 0662, 0622 }, { 0772, 0722 }, { 04666, 0666 }, { 0626, 0626 } };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        CHECK_STATUS(MUSTER_OK, platform_file_write(path, "one", 3, &problem));
        CHECK_EQUAL(0, chown(path, ALICE, ALICE));
        CHECK_EQUAL(0, chmod(path, modes[i].before));
        CHECK_EQUAL(0, as_user(BOB, replace, path));
        CHECK_EQUAL(BOB, facts_of(path).st_uid);
        CHECK_EQUAL(modes[i].after, facts_of(path).st_mode & 07777);
        unlink(path);
    }
    /* Of Bob's group: it stays, and so do its permissions. */
    CHECK_STATUS(MUSTER_OK, platform_file_write(path, "one", 3, &problem));
    CHECK_EQUAL(0, chown(path, ALICE, BOB));
    CHECK_EQUAL(0, chmod(path, 0660));
    CHECK_EQUAL(0, as_user(BOB, replace, path));
    CHECK_EQUAL(BOB, facts_of(path).st_gid);
    CHECK_EQUAL(0660, facts_of(path).st_mode & 07777);
    unlink(path);
    /* In a sticky folder nobody replaces another's file, and learns that before the work. */
    CHECK_STATUS(MUSTER_OK, platform_file_write(path, "one", 3, &problem));
    CHECK_EQUAL(0, chown(path, ALICE, ALICE));
    CHECK_EQUAL(0, chmod(path, 0666));
    CHECK_EQUAL(0, chmod(folder, 01777));
    CHECK_EQUAL(EPERM, as_user(BOB, replace, path));
    CHECK_EQUAL(0, as_user(ALICE, replace, path));
    CHECK_EQUAL(1, count_files());
    unlink(path);
    rmdir(folder);
}

static int open_sticky(const char *path)
{
    struct platform_aside file;
    return platform_aside_open(&file, path, 0, &problem) == MUSTER_OK ? 0 : problem.driver_code;
}

static void what_cannot_be_replaced_is_known_before_the_work(void)
{
    if (geteuid() != 0) {
        printf("    not tested: files of several users, since only root can be them\n");
        return;
    }
    make_folder();
    CHECK_EQUAL(0, chmod(folder, 01777));
    const char *path = in_folder("a");
    CHECK_STATUS(MUSTER_OK, platform_file_write(path, "one", 3, &problem));
    CHECK_EQUAL(0, chown(path, ALICE, ALICE));
    CHECK_EQUAL(0, chmod(path, 0666));
    CHECK_EQUAL(EPERM, as_user(BOB, open_sticky, path));
    CHECK_EQUAL(0, chmod(path, 0644));
    CHECK_EQUAL(EACCES, as_user(BOB, open_sticky, path));
    CHECK_EQUAL(0, chmod(folder, 0755));
    CHECK_EQUAL(0, chown(path, BOB, BOB));
    CHECK_EQUAL(EACCES, as_user(BOB, open_sticky, path));
    unlink(path);
    rmdir(folder);
}

/* An entry of an access list, as the kernel has it. */
struct entry {
    uint16_t tag, permissions;
    uint32_t id;
};

static void an_access_list_is_kept(void)
{
    struct {
        uint32_t version;
        struct entry entries[5];
    } list = { 2,
               { { 0x01, 6, UINT32_MAX }, /* the owner */
                 { 0x02, 6, BOB },        /* a user by name */
                 { 0x04, 0, UINT32_MAX }, /* the group: nothing */
                 { 0x10, 6, UINT32_MAX }, /* at most; seen as the group's in the mode */
                 { 0x20, 0, UINT32_MAX } } },
      kept;
    make_folder();
    const char *path = in_folder("a");
    CHECK_STATUS(MUSTER_OK, platform_file_write(path, "one", 3, &problem));
    if (setxattr(path, "system.posix_acl_access", &list, sizeof list, 0) == 0) {
        CHECK_EQUAL(0660, facts_of(path).st_mode & 07777);
        CHECK_STATUS(MUSTER_OK, platform_file_replace(path, "two", 3, &problem));
        CHECK_EQUAL(sizeof list, getxattr(path, "system.posix_acl_access", &kept, sizeof kept));
        CHECK_EQUAL(0, memcmp(&list, &kept, sizeof list));
        check_content(path, "two");
    } else {
        printf("    not tested: access lists, which /tmp has not\n");
    }
    unlink(path);
    rmdir(folder);
}

static void until_it_has_its_rights_nobody_else_can_open_it(void)
{
    struct platform_aside file;
    struct stat facts;
    make_folder();
    const char *path = in_folder("a");
    mode_t before = umask(0);
    for (int way = 0; way < 2; way++) {
        has_unnamed = way == 0;
        CHECK_STATUS(MUSTER_OK, platform_aside_open(&file, path, 0, &problem));
        CHECK_EQUAL(0, fstat(file.descriptor, &facts));
        CHECK_EQUAL(0666, facts.st_mode & 07777);
        platform_aside_discard(&file);
        CHECK_STATUS(MUSTER_OK, platform_file_write(path, "secret", 6, &problem));
        CHECK_STATUS(MUSTER_OK, platform_aside_open(&file, path, 0, &problem));
        CHECK_EQUAL(0, fstat(file.descriptor, &facts));
        CHECK_EQUAL(0600, facts.st_mode & 07777);
        CHECK_EQUAL(0600, made_with);
        platform_aside_discard(&file);
        unlink(path);
    }
    has_unnamed = true;
    umask(before);
    CHECK_EQUAL(0, count_files());
    rmdir(folder);
}

/* A program that has closed its input gets the lowest numbers for what is opened next. */
static void descriptor_0_is_one_like_any_other(void)
{
    for (int way = 0; way < 2; way++) {
        has_unnamed = way == 0;
        make_folder();
        const char *path = in_folder("a");
        int input = dup(STDIN_FILENO);
        close(STDIN_FILENO);
        muster_status made = platform_file_replace(path, "one", 3, &problem);
        muster_status replaced = platform_file_replace(path, "two", 3, &problem);
        bool is_free = fcntl(STDIN_FILENO, F_GETFD) < 0;
        if (input >= 0) {
            dup2(input, STDIN_FILENO);
            close(input);
        }
        CHECK_STATUS(MUSTER_OK, made);
        CHECK_STATUS(MUSTER_OK, replaced);
        CHECK(is_free);
        check_content(path, "two");
        unlink(path);
        CHECK_EQUAL(0, count_files());
        rmdir(folder);
    }
    has_unnamed = true;
}

static unsigned count_descriptors(void)
{
    unsigned count = 0;
    for (int i = 0; i < 1024; i++)
        count += fcntl(i, F_GETFD) >= 0;
    return count;
}

static void every_end_closes_what_was_opened(void)
{
    struct platform_aside file;
    make_folder();
    char path[128], link[128];
    strcpy(path, in_folder("a"));
    strcpy(link, in_folder("link"));
    unsigned before = count_descriptors();
    CHECK_EQUAL(0, symlink("a", link));
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(MUSTER_OK, platform_aside_open(&file, link, 0, &problem));
        platform_aside_discard(&file);
        CHECK_STATUS(MUSTER_OK, platform_file_replace(link, "one", 3, &problem));
        CHECK_STATUS(MUSTER_E_IO, platform_aside_open(&file, folder, 0, &problem));
        CHECK_STATUS(MUSTER_E_IO, platform_aside_open(&file, in_folder("none/a"), 0, &problem));
        CHECK_STATUS(MUSTER_OK, platform_file_replace("/dev/null", "one", 3, &problem));
        CHECK_STATUS(MUSTER_E_IO, platform_file_replace("/dev/full", "one", 3, &problem));
        CHECK_EQUAL(before, count_descriptors());
    }
    unlink(path);
    unlink(link);
    CHECK_EQUAL(0, count_files());
    rmdir(folder);
}

static void other_links_keep_what_they_had(void)
{
    make_folder();
    const char *path = in_folder("a"), *other = in_folder("b");
    CHECK_STATUS(MUSTER_OK, platform_file_write(path, "one", 3, &problem));
    CHECK_EQUAL(0, link(path, other));
    CHECK_STATUS(MUSTER_OK, platform_file_replace(path, "two", 3, &problem));
    check_content(path, "two");
    check_content(other, "one");
    unlink(path);
    unlink(other);
    rmdir(folder);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_file_appears_when_it_is_whole),
        TEST(a_file_without_a_name_gets_it_at_the_end),
        TEST(two_at_once_do_not_meet),
        TEST(what_is_discarded_leaves_nothing),
        TEST(what_cannot_be_written_is_refused),
        TEST(a_link_is_followed_or_replaced_as_asked),
        TEST(names_that_are_taken_are_passed_over),
        TEST(the_longest_name_can_be_written),
        TEST(a_link_to_what_is_not_there_yet_is_followed),
        TEST(a_descriptor_is_written_from_where_it_stands),
        TEST(no_bit_that_lends_rights_is_kept),
        TEST(owner_and_group_are_kept_by_whoever_may),
        TEST(nobody_gets_more_than_before),
        TEST(what_cannot_be_replaced_is_known_before_the_work),
        TEST(an_access_list_is_kept),
        TEST(until_it_has_its_rights_nobody_else_can_open_it),
        TEST(descriptor_0_is_one_like_any_other),
        TEST(every_end_closes_what_was_opened),
        TEST(other_links_keep_what_they_had),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
