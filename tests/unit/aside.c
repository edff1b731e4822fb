/*
 * Files that are written aside: whole in their place, or as they were and nothing beside them.
 */
#include "platform/aside.h"

#include "harness.h"
#include "platform/file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct muster_error problem;
static char folder[64];

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
        CHECK_STATUS(MUSTER_OK, platform_aside_open_unnamed(&file, path, &problem));
        file.must_sync = true;
        write_all(&file, "one");
        /* Not every file system can do without. */
        CHECK_EQUAL(file.is_unnamed ? 0 : 1, count_files());
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
    CHECK_STATUS(MUSTER_OK, platform_aside_open(&file, path, &problem));
    write_all(&file, "one ");
    CHECK(access(path, F_OK) != 0);
    write_all(&file, "two");
    CHECK_STATUS(MUSTER_OK, platform_aside_commit(&file, &problem));
    check_content(path, "one two");
    CHECK_STATUS(MUSTER_OK, platform_aside_open(&file, path, &problem));
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
    CHECK_STATUS(MUSTER_OK, platform_aside_open(&a, path, &problem));
    CHECK_STATUS(MUSTER_OK, platform_aside_open(&b, path, &problem));
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
    CHECK_STATUS(MUSTER_OK, platform_aside_open(&file, path, &problem));
    write_all(&file, "half");
    platform_aside_discard(&file);
    platform_aside_discard(&file);
    CHECK_EQUAL(0, count_files());
    /* The folder it was to be put into becomes its own: a name that cannot be taken any more. */
    CHECK_STATUS(MUSTER_OK, platform_aside_open(&file, path, &problem));
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
    char long_path[PLATFORM_PATH_MAX + 16];
    make_folder();
    memset(long_path, 'x', sizeof long_path);
    long_path[sizeof long_path - 1] = '\0';
    CHECK_STATUS(MUSTER_E_IO, platform_aside_open(&file, long_path, &problem));
    CHECK_STATUS(MUSTER_E_IO, platform_aside_open(&file, "", &problem));
    CHECK_STATUS(MUSTER_E_IO, platform_aside_open(&file, folder, &problem));
    CHECK_STATUS(MUSTER_E_IO, platform_aside_open(&file, in_folder("none/a"), &problem));
    const char *pipe_path = in_folder("pipe");
    CHECK_EQUAL(0, mkfifo(pipe_path, 0600));
    CHECK_STATUS(MUSTER_E_IO, platform_aside_open(&file, pipe_path, &problem));
    CHECK_CONTAINS("function of your own", problem.fix);
    unlink(pipe_path);
    CHECK_STATUS(MUSTER_OK, platform_aside_open(&file, "/dev/full", &problem));
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

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_file_appears_when_it_is_whole),   TEST(a_file_without_a_name_gets_it_at_the_end),
        TEST(two_at_once_do_not_meet),           TEST(what_is_discarded_leaves_nothing),
        TEST(what_cannot_be_written_is_refused), TEST(a_link_is_followed_or_replaced_as_asked),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
